// SPDX-License-Identifier: Apache-2.0
// Heads of HTTP/2 streams, handed to nghttp2; refusals.
#include "gate/h2.h"

#include "base/mem.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NVS_MAX (HTTP_FIELDS_MAX + POLICY_SECRETS + 8)

struct nvs {
	nghttp2_nv v[NVS_MAX];
	size_t n;
};

static void add(struct nvs *l, const char *name, const char *value, bool secret)
{
	if (l->n == NVS_MAX)
		return;
	l->v[l->n++] = (nghttp2_nv){
		.name = (uint8_t *)name,
		.value = (uint8_t *)value,
		.namelen = strlen(name),
		.valuelen = strlen(value),
		.flags = secret ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE,
	};
}

static void add_fields(struct nvs *l, const struct head *h)
{
	for (size_t i = 0; i < h->n; i++) {
		for (char *p = h->f[i].name; *p; p++)
			*p = (char)tolower((unsigned char)*p);
		add(l, h->f[i].name, h->f[i].value, h->f[i].ours);
	}
}

int h2_submit_request(struct h2_stream *s)
{
	struct conn *c = s->h->o->c;
	struct nvs l = {.n = 0};
	auto_free char *authority = c->port == 443 ? xstrdup(c->host.s) : xasprintf("%s:%u", c->host.s, c->port);
	nghttp2_data_provider body = {.source.ptr = &s->up, .read_callback = h2_read_flow};
	struct head *r = &s->x.req;
	add(&l, ":method", r->method, false);
	add(&l, ":scheme", "https", false);
	add(&l, ":authority", authority, false);
	add(&l, ":path", r->path, r->path_ours);
	add_fields(&l, r);
	bool empty = s->up.end && s->up.at == s->up.bytes.n && !s->up.has_trailer;
	int32_t id = nghttp2_submit_request(s->h->server, NULL, l.v, l.n, empty ? NULL : &body, s);
	if (id < 0)
		return -1;
	s->server_id = id;
	head_done(r);
	return 0;
}

static void status_text(int status, char out[4])
{
	out[0] = (char)('0' + status / 100);
	out[1] = (char)('0' + status / 10 % 10);
	out[2] = (char)('0' + status % 10);
	out[3] = 0;
}

int h2_submit_answer(struct h2_stream *s, bool final)
{
	struct nvs l = {.n = 0};
	char status[4];
	nghttp2_data_provider body = {.source.ptr = &s->down, .read_callback = h2_read_flow};
	status_text(s->answer.status, status);
	add(&l, ":status", status, false);
	add_fields(&l, &s->answer);
	if (!final)
		return nghttp2_submit_headers(s->h->client, NGHTTP2_FLAG_NONE, s->client_id, NULL, l.v, l.n, NULL) < 0
			       ? -1
			       : 0;
	bool empty = s->down.end && s->down.at == s->down.bytes.n && !s->down.has_trailer;
	if (nghttp2_submit_response(s->h->client, s->client_id, l.v, l.n, empty ? NULL : &body))
		return -1;
	s->answer_sent = empty;
	h2_turn_away(s);
	return 0;
}

int h2_submit_trailer(nghttp2_session *session, int32_t id, const struct head *trailer)
{
	struct nvs l = {.n = 0};
	add_fields(&l, trailer);
	return nghttp2_submit_trailer(session, id, l.v, l.n);
}

// A text for who has been told nothing yet; a reset for who has. The rest of a request nobody reads is turned away.
void h2_refuse(struct h2_stream *s, enum refusal why)
{
	struct h2 *h = s->h;
	if (s->x.begun)
		s->x.refused = why, s->x.status = refusal_status(why);
	if (s->server_id && !s->server_closed)
		nghttp2_submit_rst_stream(h->server, NGHTTP2_FLAG_NONE, s->server_id, NGHTTP2_CANCEL);
	if (s->answering) {
		nghttp2_submit_rst_stream(h->client, NGHTTP2_FLAG_NONE, s->client_id, NGHTTP2_INTERNAL_ERROR);
		return;
	}
	s->answering = s->deaf = true;
	head_done(&s->answer);
	s->answer.status = refusal_status(why);
	head_add(&s->answer, str_of("content-type"), str_of("text/plain; charset=utf-8"));
	head_add(&s->answer, str_of("cache-control"), str_of("no-store"));
	h2_flow_done(&s->down);
	h2_flow_init(&s->down);
	refusal_text(why, s->x.judging.rule, &s->down.bytes);
	s->down.end = true;
	h2_submit_answer(s, true);
}
