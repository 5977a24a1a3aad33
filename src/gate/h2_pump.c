// SPDX-License-Identifier: Apache-2.0
// Bodies of HTTP/2 streams: no faster in than out.
#include "gate/h2.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

#define FLOW_MAX (H2_CONN_WINDOW * 16) // masked bytes may be more than came; the windows bound what comes

void h2_flow_init(struct h2_flow *f)
{
	*f = (struct h2_flow){.bytes = BUF_INIT(FLOW_MAX)};
}

void h2_flow_done(struct h2_flow *f)
{
	buf_done(&f->bytes);
	head_done(&f->trailer);
	*f = (struct h2_flow){0};
}

// Gives the source its window back once the sink has taken nearly all.
static void give_back(struct h2_stream *s, struct h2_flow *f)
{
	bool up = f == &s->up;
	if (!f->owed || f->bytes.n - f->at > H2_KEEP)
		return;
	if (up)
		nghttp2_session_consume(s->h->client, s->client_id, f->owed);
	else
		nghttp2_session_consume(s->h->server, s->server_id, f->owed);
	f->owed = 0;
}

void h2_turn_away(struct h2_stream *s)
{
	if (s->deaf && s->answer_sent && !s->up.end && !s->client_closed)
		nghttp2_submit_rst_stream(s->h->client, NGHTTP2_FLAG_NONE, s->client_id, NGHTTP2_NO_ERROR);
}

void h2_cut(struct h2_stream *s)
{
	if (s->cut && s->down.at == s->down.bytes.n)
		nghttp2_submit_rst_stream(s->h->client, NGHTTP2_FLAG_NONE, s->client_id, s->cut_code);
}

static void trailer_follows(nghttp2_session *session, int32_t id, struct h2_flow *f, uint32_t *flags)
{
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (!f->has_trailer)
		return;
	*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
	h2_submit_trailer(session, id, &f->trailer);
}

// nghttp2 asks for the next piece of a body.
ssize_t h2_read_flow(nghttp2_session *session, int32_t id, uint8_t *p, size_t n, uint32_t *flags,
		     nghttp2_data_source *src, void *user)
{
	struct h2_flow *f = src->ptr;
	struct h2 *h = user;
	size_t have = f->bytes.n - f->at, k = have < n ? have : n;
	struct h2_stream *s =
		session == h->server ? container_of(f, struct h2_stream, up) : container_of(f, struct h2_stream, down);
	if (k)
		memcpy(p, f->bytes.p + f->at, k);
	f->at += k;
	if (f->at == f->bytes.n) {
		buf_clear(&f->bytes);
		f->at = 0;
	}
	give_back(s, f);
	if (f == &s->down)
		h2_cut(s);
	if (!f->end || f->at != f->bytes.n)
		return k ? (ssize_t)k : NGHTTP2_ERR_DEFERRED;
	trailer_follows(session, id, f, flags);
	if (f == &s->down) {
		s->answer_sent = true;
		h2_turn_away(s);
	}
	return (ssize_t)k;
}

// False when the session is beyond repair.
static bool send_some(nghttp2_session *s, struct tls *t, bool secret, bool *moved)
{
	while (tls_queued(t) <= TLS_QUEUE_HIGH && tls_is_open(t)) {
		const uint8_t *p;
		ssize_t n = nghttp2_session_mem_send(s, &p);
		if (n < 0)
			return false;
		if (!n)
			break;
		*moved = true;
		if (secret)
			tls_write_secret(t, p, (size_t)n);
		else
			tls_write(t, p, (size_t)n);
	}
	return true;
}

static bool is_finished(struct h2 *h)
{
	bool client = nghttp2_session_want_read(h->client) || nghttp2_session_want_write(h->client);
	bool server = nghttp2_session_want_read(h->server) || nghttp2_session_want_write(h->server);
	return !client || ((!server || h->going || h->gone) && !h->n_streams);
}

void h2_pump(struct h2 *h)
{
	bool moved = true;
	while (moved && !h->stopped) {
		moved = false;
		if (!send_some(h->server, &h->o->server, true, &moved) ||
		    !send_some(h->client, &h->o->client, false, &moved)) {
			opened_finish(h->o, true);
			return;
		}
	}
	if (!h->stopped && is_finished(h))
		opened_finish(h->o, false);
}
