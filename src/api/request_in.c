// SPDX-License-Identifier: Apache-2.0
// The way in of an exchange: is its length clear, who asks, may they, is the body what the route takes. Then its handler.
#include "api/server_int.h"

#include "api/auth.h"
#include "api/front.h"
#include "api/route.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/access.h"
#include "model/limits.h"
#include <string.h>
#include <strings.h>

#define IGNORED_MAX (256u << 20)

// --- how it is framed ---

struct framing {
	int lengths, codings;
	bool odd;
};

static void look_at(void *ctx, const char *name, const char *value)
{
	struct framing *f = ctx;
	size_t digits = strspn(value, "0123456789");
	f->odd |= strpbrk(name, " \t") || strpbrk(value, "\r\n");
	if (!strcasecmp(name, "Content-Length")) {
		f->lengths++;
		f->odd |= !digits || value[digits];
	} else if (!strcasecmp(name, "Transfer-Encoding")) {
		f->codings++;
		f->odd |= strcasecmp(value, "chunked") != 0;
	}
}

// The door reads the first head of a connection strictly, the library the others as kindly as it can. A request that somebody
// between us and its sender might read in another way is refused, and its connection with it: what lies behind it is nobody's.
static int check_framing(struct request *r, struct err *e)
{
	struct framing f = {0};
	request_each_header(r, look_at, &f);
	if (!f.odd && f.lengths + f.codings <= 1)
		return 0;
	request_set_header(r, "Connection", "close");
	return err_status(e, ERR_INVALID, 400, "the length of this request can be read in more than one way");
}

// --- who asks ---

// Who asks is found before anything is said about the path: without a token all paths look alike.
static int admit(struct request *r, const char *method, struct err *e)
{
	struct err lost;
	int found = route_find(r, r->server->surfaces, method, &lost);
	if (auth_identify(r, !found && route_scope(r->route) == SCOPE_OPEN, e))
		return -1;
	if (found) {
		*e = lost;
		return -1;
	}
	return auth_admit(r, e);
}

struct actor request_actor(const struct request *r)
{
	struct actor a = {.local = r->who->scope == SCOPE_LOCAL};
	if (fmt_to(a.name, sizeof a.name, "%s", r->who->name))
		a.name[0] = 0;
	return a;
}

// A call of a handler: what it does is done by them who ask. r may be freed in between.
struct handling {
	struct server *server;
	struct engine *engine; // NULL: a server of something else, in tests
	struct actor was;
};

static struct handling handling_begin(struct request *r)
{
	struct handling h = {.server = r->server, .engine = r->engine};
	SERVER_CHECK(!h.server->handlers); // an answer has run the next request below the handler that gave it
	h.server->handlers++;
	if (h.engine)
		h.was = engine_act(h.engine, request_actor(r));
	return h;
}

static void handling_end(const struct handling *h)
{
	if (h->engine)
		engine_act(h->engine, h->was);
	h->server->handlers--;
}

static void call(struct request *r, void (*fn)(struct request *r))
{
	struct handling h = handling_begin(r);
	fn(r);
	handling_end(&h);
}

static size_t call_body(struct request *r, const char *p, size_t n)
{
	struct handling h = handling_begin(r);
	size_t took = r->on_body(r, p, n);
	handling_end(&h);
	return took;
}

// --- head and body ---

// What its head says is too long is not read at all.
static int check_length(const struct request *r, struct err *e)
{
	const char *text = request_header(r, "Content-Length");
	uint64_t n;
	if (!text || r->route->body == BODY_STREAM || (!str_to_u64(str_of(text), 0, UINT64_MAX, &n) && n <= LIMIT_REQUEST_BODY))
		return 0;
	return err_status(e, ERR_LIMIT, 413, "the request is longer than 8 MiB");
}

void request_dispatch(struct request *r, const char *method)
{
	struct err e;
	if (r->tcp)
		front_wait(r->tcp, FRONT_BODY_MS);
	if (check_framing(r, &e) || admit(r, method, &e) || check_length(r, &e)) {
		r->called = true;
		if (r->tcp)
			front_wait(r->tcp, FRONT_REFUSED_MS);
		request_fail(r, &e);
	} else if (r->route->body == BODY_STREAM) {
		r->called = true;
		call(r, r->route->fn);
	}
}

enum MHD_Result request_body(struct request *r, const char *p, size_t *n)
{
	size_t took = *n;
	if (r->tcp && !r->status) { // 1 KiB/s is enough, but no less
		uint64_t now = clock_ms(), most = now + FRONT_BODY_MS, then = r->tcp->deadline + *n;
		r->tcp->deadline = r->tcp->deadline && then < most ? then : most;
	}
	if (r->status) { // answered already: the rest is read and forgotten, within reason
		r->ignored += *n;
		*n = 0;
		return r->ignored <= IGNORED_MAX ? MHD_YES : MHD_NO;
	}
	if (r->route && r->route->body == BODY_STREAM) {
		took = r->on_body ? call_body(r, p, *n) : *n;
		if (took < *n && !r->status) {
			if (r->tcp)
				front_wait(r->tcp, 0); // it is not the client who is slow
			request_suspend(r);
		}
		took = r->status ? *n : took;
	} else {
		buf_add(&r->body, p, *n);
		r->too_large |= r->body.overflow;
		r->ignored += r->too_large ? *n : 0;
	}
	*n -= took;
	return r->ignored <= IGNORED_MAX ? MHD_YES : MHD_NO;
}

static int read_body(struct request *r, struct err *e)
{
	if (r->too_large)
		return err_status(e, ERR_LIMIT, 413, "the request is longer than 8 MiB");
	if (r->route->body == BODY_NONE)
		return r->body.n ? err_set(e, ERR_INVALID, "this request takes no body") : 0;
	if (r->route->body == BODY_BYTES)
		return 0;
	const char *type = request_header(r, "Content-Type");
	if (r->tcp && r->body.n && (!type || strncasecmp(type, "application/json", 16))) // a page's form can not say this
		return err_status(e, ERR_INVALID, 415, "the body must be JSON, and its Content-Type say so");
	r->json = r->body.n ? json_read(r->body.p, r->body.n, e) : json_read("{}", 2, e);
	if (!r->json)
		return -1;
	return json_is_object(r->json) ? 0 : err_set(e, ERR_INVALID, "the body must be a JSON object");
}

void request_whole(struct request *r)
{
	struct err e;
	r->over = true;
	if (r->tcp)
		front_wait(r->tcp, 0); // from here on the time is ours
	if (r->called) {
		if (!r->status && r->on_body_end)
			call(r, r->on_body_end);
		return;
	}
	r->called = true;
	if (read_body(r, &e))
		request_fail(r, &e);
	else
		call(r, r->route->fn);
}
