// SPDX-License-Identifier: Apache-2.0
// Both sessions call back while they read; nothing is sent from there. Whoever fed a session pumps both afterwards.
#include "gate/h2.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

static void on_judged(struct exchange *x, enum refusal why);

static void late_bytes(struct exchange *x, const struct buf *clean)
{
	struct h2_stream *s = container_of(x, struct h2_stream, x);
	buf_add(&s->down.bytes, clean->p, clean->n);
	nghttp2_session_resume_data(s->h->client, s->client_id);
	h2_pump(s->h);
}

// --- streams -------------------------------------------------------------------------------------------------------

static struct h2_stream *stream_new(struct h2 *h, int32_t id)
{
	struct h2_stream *s = xcalloc(1, sizeof *s);
	*s = (struct h2_stream){.h = h, .client_id = id, .next = h->streams, .link = &h->streams};
	exchange_init(&s->x, h->o, on_judged);
	s->x.late_bytes = late_bytes;
	h2_flow_init(&s->up);
	h2_flow_init(&s->down);
	if (s->next)
		s->next->link = &s->next;
	h->streams = s;
	h->n_streams++;
	opened_late(h->o, GATE_IDLE_MS, false);
	return s;
}

static void stream_free(struct h2_stream *s)
{
	struct h2 *h = s->h;
	if (!h->stopped) { // the sessions are still there
		nghttp2_session_set_stream_user_data(h->client, s->client_id, NULL);
		if (s->server_id)
			nghttp2_session_set_stream_user_data(h->server, s->server_id, NULL);
	}
	*s->link = s->next;
	if (s->next)
		s->next->link = s->link;
	h->n_streams--;
	exchange_done(&s->x);
	h2_flow_done(&s->up);
	h2_flow_done(&s->down);
	head_done(&s->answer);
	free(s->authority);
	free(s->scheme);
	free(s);
}

static void on_judged(struct exchange *x, enum refusal why)
{
	struct h2_stream *s = container_of(x, struct h2_stream, x);
	struct h2 *h = s->h;
	if (why)
		h2_refuse(s, why);
	else if (h->gone || !nghttp2_session_check_request_allowed(h->server))
		nghttp2_submit_rst_stream(h->client, NGHTTP2_FLAG_NONE, s->client_id, NGHTTP2_REFUSED_STREAM);
	else if (h2_submit_request(s))
		h2_refuse(s, REFUSE_REACH);
	if (!h->feeding) // a person answered: we come from the loop
		h2_pump(h);
}

// --- heads ---------------------------------------------------------------------------------------------------------

static char **pseudo_of(struct h2_stream *s, struct str name)
{
	if (str_is(name, ":method"))
		return &s->x.req.method;
	if (str_is(name, ":path"))
		return &s->x.req.path;
	if (str_is(name, ":scheme"))
		return &s->scheme;
	return str_is(name, ":authority") ? &s->authority : NULL;
}

static void request_field(struct h2_stream *s, struct str name, struct str value)
{
	char **pseudo = name.p[0] == ':' ? pseudo_of(s, name) : NULL;
	if (s->request_seen) { // a trailer
		s->too_large |= name.p[0] == ':' || !head_add_bounded(&s->up.trailer, name, value);
	} else if (pseudo && !*pseudo) {
		*pseudo = xstrndup(value.p, value.n);
		s->too_large |= value.n > HTTP_HEAD_MAX;
	} else if (pseudo || name.p[0] == ':') {
		s->doubled = true;
	} else if (http_name_is(name, "host")) {
		s->doubled |= s->authority && !str_is(value, s->authority);
		if (!s->authority)
			s->authority = xstrndup(value.p, value.n);
	} else {
		s->too_large |= !head_add_bounded(&s->x.req, name, value);
	}
}

static int on_header(nghttp2_session *session, const nghttp2_frame *f, const uint8_t *name, size_t n_name,
		     const uint8_t *value, size_t n_value, uint8_t flags, void *user)
{
	struct h2 *h = user;
	struct h2_stream *s = nghttp2_session_get_stream_user_data(session, f->hd.stream_id);
	struct str n = {(const char *)name, n_name}, v = {(const char *)value, n_value};
	(void)flags;
	if (!s || !n.n)
		return 0;
	if (session == h->client) {
		request_field(s, n, v);
	} else if (str_is(n, ":status")) {
		uint64_t status;
		s->answer.status = str_to_u64(v, 100, 599, &status) ? 0 : (int)status;
	} else if (n.p[0] != ':') {
		s->too_large |= !head_add_bounded(&s->answer, n, v);
	}
	return s->too_large ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : 0;
}

static int on_begin(nghttp2_session *session, const nghttp2_frame *f, void *user)
{
	struct h2 *h = user;
	if (session != h->client || f->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	struct h2_stream *s = stream_new(h, f->hd.stream_id);
	nghttp2_session_set_stream_user_data(session, f->hd.stream_id, s);
	return 0;
}

static void request_end(struct h2_stream *s)
{
	s->up.end = true;
	if (s->server_id)
		nghttp2_session_resume_data(s->h->server, s->server_id);
}

static void got_request(struct h2_stream *s, bool end)
{
	if (s->request_seen) {
		if (!exchange_up_trailer(&s->x, &s->up.trailer)) {
			h2_refuse(s, REFUSE_SECRET);
			return;
		}
		s->up.has_trailer = s->up.trailer.n > 0;
		request_end(s);
		return;
	}
	s->up.end = end;
	bool whole = s->x.req.method && s->x.req.path && s->scheme && !strcmp(s->scheme, "https") && !s->doubled;
	if (!whole) {
		gate_denied(s->h->o->g, s->h->o->c, "request", "malformed HTTP/2 request", NULL);
		h2_refuse(s, REFUSE_BAD);
		s->request_seen = true;
		return;
	}
	const char *length = head_get(&s->x.req, "content-length");
	auto_free char *kept = length ? xstrdup(length) : NULL; // nghttp2 holds the frames against it
	head_strip_hops(&s->x.req, false);
	if (kept)
		head_add(&s->x.req, str_of("content-length"), str_of(kept));
	exchange_begin(&s->x, s->authority);
	s->request_seen = true;
}

static void answer_end(struct h2_stream *s)
{
	exchange_down(&s->x, NULL, 0, true, &s->down.bytes);
	s->down.end = true;
	nghttp2_session_resume_data(s->h->client, s->client_id);
}

static void got_trailer(struct h2_stream *s)
{
	exchange_answer(&s->x, &s->answer);
	s->down.trailer = s->answer;
	s->down.has_trailer = s->answer.n > 0;
	s->answer = (struct head){0};
	answer_end(s);
}

static void got_answer(struct h2_stream *s, bool end)
{
	if (s->answering) {
		s->answer.status = 0;
		got_trailer(s);
		return;
	}
	int status = s->answer.status;
	enum refusal why = status ? exchange_answer(&s->x, &s->answer) : REFUSE_ANSWER;
	if (why) {
		h2_refuse(s, why);
		return;
	}
	const char *length = head_get(&s->answer, "content-length");
	s->has_length = length && !str_to_u64(str_of(length), 0, UINT64_MAX, &s->length);
	if (s->x.masked)
		head_drop(&s->answer, "content-length");
	if (status >= 200) {
		s->answering = true;
		s->down.end = end;
	}
	h2_submit_answer(s, status >= 200);
	head_done(&s->answer);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *f, void *user)
{
	struct h2 *h = user;
	struct h2_stream *s = f->hd.stream_id ? nghttp2_session_get_stream_user_data(session, f->hd.stream_id) : NULL;
	bool end = f->hd.flags & NGHTTP2_FLAG_END_STREAM;
	if (session == h->server && f->hd.type == NGHTTP2_GOAWAY) {
		h->going = true;
		nghttp2_submit_goaway(h->client, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(h->client),
				      NGHTTP2_NO_ERROR, NULL, 0);
	}
	if (!s)
		return 0;
	if (f->hd.type == NGHTTP2_HEADERS && session == h->client)
		got_request(s, end);
	else if (f->hd.type == NGHTTP2_HEADERS)
		got_answer(s, end);
	else if (f->hd.type == NGHTTP2_DATA && end && session == h->client)
		request_end(s);
	else if (f->hd.type == NGHTTP2_DATA && end)
		answer_end(s);
	return 0;
}

// --- bodies --------------------------------------------------------------------------------------------------------

static void got_body(struct h2_stream *s, const char *p, size_t n)
{
	if (s->deaf) { // nobody takes it, but the connection's window must not shrink
		nghttp2_session_consume(s->h->client, s->client_id, n);
		return;
	}
	s->up.owed += n;
	if (!exchange_up(&s->x, p, n)) {
		h2_refuse(s, s->x.refused);
		return;
	}
	buf_add(&s->up.bytes, p, n);
	if (s->server_id)
		nghttp2_session_resume_data(s->h->server, s->server_id);
}

static void got_answer_body(struct h2_stream *s, const char *p, size_t n)
{
	if (s->x.refused) {
		nghttp2_session_consume(s->h->server, s->server_id, n);
		return;
	}
	s->down.owed += n;
	exchange_down(&s->x, p, n, false, &s->down.bytes);
	if (s->down.bytes.n == s->down.at) { // all of it is held back: the host must be able to go on
		nghttp2_session_consume(s->h->server, s->server_id, s->down.owed);
		s->down.owed = 0;
	}
	nghttp2_session_resume_data(s->h->client, s->client_id);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *p, size_t n, void *user)
{
	struct h2 *h = user;
	struct h2_stream *s = nghttp2_session_get_stream_user_data(session, id);
	(void)flags;
	if (!s)
		nghttp2_session_consume_connection(session, n);
	else if (session == h->client)
		got_body(s, (const char *)p, n);
	else
		got_answer_body(s, (const char *)p, n);
	return 0;
}

// What was received for a stream that is gone still counts in the connection's window.
static void settle(struct h2_stream *s)
{
	if (s->up.owed)
		nghttp2_session_consume_connection(s->h->client, s->up.owed);
	if (s->down.owed)
		nghttp2_session_consume_connection(s->h->server, s->down.owed);
	s->up.owed = s->down.owed = 0;
}

static void client_stream_closed(struct h2_stream *s, uint32_t code)
{
	s->client_closed = true;
	settle(s);
	if (s->server_id && !s->server_closed)
		nghttp2_submit_rst_stream(s->h->server, NGHTTP2_FLAG_NONE, s->server_id, code ? code : NGHTTP2_CANCEL);
	else
		stream_free(s);
}

// A stream of the host that ended well has been told by its frames; one that did not is passed on.
static void server_stream_closed(struct h2_stream *s, uint32_t code)
{
	s->server_closed = true;
	if (s->client_closed) {
		stream_free(s);
		return;
	}
	s->deaf = true;
	if (s->x.refused || s->down.end) {
		h2_turn_away(s);
		return;
	}
	if (!s->answering && !code) {
		h2_refuse(s, REFUSE_ANSWER);
		return;
	}
	if (!code && s->has_length && s->x.down == s->length) { // some servers end a complete answer in this way
		answer_end(s);
		return;
	}
	s->cut = true; // with the very code, behind the very bytes
	s->cut_code = code;
	h2_cut(s);
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
	struct h2 *h = user;
	struct h2_stream *s = nghttp2_session_get_stream_user_data(session, id);
	if (!s || h->stopped)
		return 0;
	if (session == h->client)
		client_stream_closed(s, code);
	else
		server_stream_closed(s, code);
	if (!h->n_streams)
		opened_late(h->o, OPENED_IDLE_MS, false);
	return 0;
}

// --- the driver ----------------------------------------------------------------------------------------------------

static void make_sessions(struct h2 *h)
{
	nghttp2_session_callbacks *cb;
	nghttp2_option *opt;
	if (nghttp2_session_callbacks_new(&cb) || nghttp2_option_new(&opt))
		abort();
	nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin);
	nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
	nghttp2_option_set_no_auto_window_update(opt, 1);
	nghttp2_option_set_peer_max_concurrent_streams(opt, H2_STREAMS);
	if (nghttp2_session_server_new2(&h->client, cb, h, opt) || nghttp2_session_client_new2(&h->server, cb, h, opt))
		abort(); // out of memory is the only reason
	nghttp2_option_del(opt);
	nghttp2_session_callbacks_del(cb);
}

static void *h2_start(struct opened *o)
{
	static const nghttp2_settings_entry to_client[] = {
		{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, H2_STREAMS},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_WINDOW},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HTTP_HEAD_MAX},
	};
	static const nghttp2_settings_entry to_server[] = {
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_WINDOW},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HTTP_HEAD_MAX},
	};
	struct h2 *h = xcalloc(1, sizeof *h);
	h->o = o;
	make_sessions(h);
	nghttp2_submit_settings(h->client, NGHTTP2_FLAG_NONE, to_client, countof(to_client));
	nghttp2_submit_settings(h->server, NGHTTP2_FLAG_NONE, to_server, countof(to_server));
	nghttp2_session_set_local_window_size(h->client, NGHTTP2_FLAG_NONE, 0, H2_CONN_WINDOW);
	nghttp2_session_set_local_window_size(h->server, NGHTTP2_FLAG_NONE, 0, H2_CONN_WINDOW);
	opened_late(o, OPENED_IDLE_MS, false);
	h2_pump(h);
	return h;
}

static void feed(struct h2 *h, nghttp2_session *session, const char *p, size_t n)
{
	if (h->stopped)
		return;
	h->feeding = true;
	ssize_t used = nghttp2_session_mem_recv(session, (const uint8_t *)p, n);
	h->feeding = false;
	if (used < 0) { // say why, then go
		nghttp2_session_terminate_session(session, NGHTTP2_PROTOCOL_ERROR);
		h2_pump(h);
		if (!h->stopped)
			opened_finish(h->o, true);
		return;
	}
	h2_pump(h);
}

static void h2_client_data(void *d, const char *p, size_t n)
{
	struct h2 *h = d;
	feed(h, h->client, p, n);
}

static void h2_server_data(void *d, const char *p, size_t n)
{
	struct h2 *h = d;
	feed(h, h->server, p, n);
}

static void h2_drain(void *d)
{
	h2_pump(d);
}

static void h2_client_end(void *d, bool clean)
{
	struct h2 *h = d;
	(void)clean;
	opened_finish(h->o, true);
}

static void h2_server_end(void *d, bool clean)
{
	struct h2 *h = d;
	(void)clean;
	h->gone = true;
	for (struct h2_stream *s = h->streams; s; s = s->next) {
		s->server_closed = true;
		if (s->x.refused || s->down.end || s->cut)
			continue;
		s->cut = true;
		s->cut_code = NGHTTP2_INTERNAL_ERROR;
		h2_cut(s);
	}
	nghttp2_submit_goaway(h->client, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(h->client),
			      NGHTTP2_NO_ERROR, NULL, 0);
	h2_pump(h); // answers that are complete still reach the client; the last stream ends the connection
}

static void h2_dialled(void *d)
{
	(void)d; // TLS only: the host is there before the driver
}

static bool h2_is_idle(void *d)
{
	return !((struct h2 *)d)->n_streams;
}

static void h2_policy(void *d)
{
	struct h2 *h = d;
	for (struct h2_stream *s = h->streams; s; s = s->next)
		if (!s->client_closed && !exchange_is_allowed(&s->x))
			h2_refuse(s, REFUSE_POLICY);
	h2_pump(h);
}

static void h2_stop(void *d)
{
	struct h2 *h = d;
	h->stopped = true;
	while (h->streams)
		stream_free(h->streams);
}

static void h2_free(void *d)
{
	struct h2 *h = d;
	nghttp2_session_del(h->client);
	nghttp2_session_del(h->server);
	free(h);
}

const struct driver h2_driver = {
	h2_start,      h2_client_data, h2_server_data, h2_drain, h2_drain, h2_client_end,
	h2_server_end, h2_dialled,     h2_is_idle,     h2_policy, h2_stop,  h2_free,
};
