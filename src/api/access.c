// SPDX-License-Identifier: Apache-2.0
#include "api/access.h"

#include "api/answer.h"
#include "api/front.h"
#include "base/clock.h"
#include "base/mem.h"
#include "engine/access.h"
#include <stdlib.h>
#include <string.h>

#define TEN_YEARS_MS 315360000000ULL
#define HOLD_MS 10000 // for who makes a listener to begin to hold it

// --- tokens ---

static void put_token(struct jsonw *w, const struct token_row *t, const char *text)
{
	auto_free char *label = t->on == ON_LABEL ? xasprintf("label=%s", t->value) : NULL;
	jw_open(w, '{');
	jw_kstr(w, "id", t->id);
	jw_nstr(w, "name", t->name);
	jw_kstr(w, "scope", scope_name(t->scope));
	jw_kstr(w, "on", t->on == ON_ALL ? "all" : label ? label : t->value);
	jw_ku64(w, "rate", t->rate);
	jw_ntime(w, "created", t->created);
	jw_ntime(w, "expires", t->expires);
	jw_ntime(w, "used", t->used);
	jw_kstr(w, "token", text);
	jw_close(w, '}');
}

static void list_token(void *ctx, const struct token_row *t)
{
	put_token(ctx, t, NULL);
}

void get_tokens(struct request *r)
{
	struct jsonw w = answer_json(r);
	jw_open(&w, '{');
	jw_key(&w, "tokens");
	jw_open(&w, '[');
	engine_tokens(r->engine, list_token, &w);
	jw_close(&w, ']');
	jw_close(&w, '}');
	request_answer(r, 200);
}

static int decode_token(const json_t *o, struct token_row *t, struct err *e)
{
	static const char *const known[] = {"name", "scope", "on", "ttl_ms", "rate", NULL};
	const char *name, *scope, *on, *value;
	uint64_t ttl = 0;
	if (json_only(o, known, e) || json_get_str(o, "name", &name, e) || json_get_str(o, "scope", &scope, e) ||
	    json_get_str(o, "on", &on, e) || json_get_u64(o, "ttl_ms", &ttl, e) || json_get_u64(o, "rate", &t->rate, e))
		return -1;
	int s = scope_of_name(scope ? scope : "run");
	if (s < 0)
		return err_set(e, ERR_INVALID, "scope \"%.40s\" is none of read, run, review and admin", scope);
	if (ttl > TEN_YEARS_MS || t->rate > 1000000)
		return err_set(e, ERR_INVALID, "ttl_ms is at most ten years, rate at most 1000000");
	if (on_parse(on ? on : "all", &t->on, &value, e))
		return -1;
	t->scope = (enum scope)s;
	t->value = xstrdup(value);
	t->name = name ? xstrdup(name) : NULL;
	t->expires = ttl ? clock_unix_ms() + ttl : 0;
	return 0;
}

void post_token(struct request *r)
{
	struct token_row want = {0};
	struct err e;
	char text[TOKEN_SIZE];
	struct jsonw w = answer_json(r);
	const struct token_row *t = decode_token(r->json, &want, &e) ? NULL : engine_token_new(r->engine, &want, text, &e);
	token_row_done(&want);
	if (!t) {
		request_fail(r, &e);
		return;
	}
	put_token(&w, t, text);
	explicit_bzero(text, sizeof text);
	request_answer(r, 201);
}

void delete_token(struct request *r)
{
	struct err e;
	if (engine_token_remove(r->engine, r->parts[0], &e)) {
		request_fail(r, &e);
		return;
	}
	server_recheck(r->server, r);
	request_answer(r, 204);
}

void get_sandbox_token(struct request *r)
{
	struct err e;
	char text[TOKEN_SIZE];
	struct jsonw w = answer_json(r);
	if (engine_sandbox_token(r->engine, r->parts[0], text, &e)) {
		request_fail(r, &e);
		return;
	}
	jw_open(&w, '{');
	jw_kstr(&w, "token", text);
	jw_kstr(&w, "scope", "run");
	jw_close(&w, '}');
	request_answer(r, 200);
}

// --- listeners ---

// A listener that somebody holds: it goes with them.
struct hold {
	char id[ID_SIZE];
	struct request *r; // NULL = not yet
	struct front *front;
	struct loop *loop;
	struct timer late;
	struct hold *next;
};
static struct hold *holds; // one server in a process

static void hold_drop(struct hold *h)
{
	list_unlink(&holds, h, next);
	timer_clear(h->loop, &h->late);
	free(h);
}

static struct hold *hold_find(const char *id)
{
	for (struct hold *h = holds; h; h = h->next)
		if (!strcmp(h->id, id))
			return h;
	return NULL;
}

static void close_listener(struct front *f, const char *id)
{
	struct listener *l = front_listener(f, id);
	struct hold *h = hold_find(id);
	struct request *r = h ? h->r : NULL;
	if (h)
		hold_drop(h);
	if (l)
		front_unlisten(l);
	if (r)
		request_answer(r, 204);
}

static void on_unheld(struct timer *t)
{
	struct hold *h = container_of(t, struct hold, late);
	close_listener(h->front, h->id);
}

static void on_holder_gone(struct request *r)
{
	for (struct hold *h = holds; h; h = h->next)
		if (h->r == r) {
			close_listener(h->front, h->id);
			return;
		}
}

static void hold_new(struct request *r, const struct listener *l)
{
	struct hold *h = xcalloc(1, sizeof *h);
	*h = (struct hold){.front = server_front(r->server), .loop = request_loop(r), .late.fn = on_unheld, .next = holds};
	memcpy(h->id, l->id, sizeof h->id);
	holds = h;
	timer_set(h->loop, &h->late, HOLD_MS);
}

void get_listener_hold(struct request *r)
{
	struct err e;
	struct hold *h = hold_find(r->parts[0]);
	if (!h || h->r) {
		err_set(&e, h ? ERR_CONFLICT : ERR_NOT_FOUND, h ? "somebody holds it" : "no listener %s that is to be held", r->parts[0]);
		request_fail(r, &e);
		return;
	}
	h->r = r;
	r->on_gone = on_holder_gone;
	timer_clear(h->loop, &h->late);
}

static void put_listener(void *ctx, const struct listener *l)
{
	struct jsonw *w = ctx;
	jw_open(w, '{');
	jw_kstr(w, "id", l->id);
	jw_kstr(w, "address", l->address);
	jw_kstr(w, "url", l->url);
	jw_kstrv(w, "hosts", l->hosts);
	jw_kbool(w, "insecure", l->insecure);
	jw_kbool(w, "held", hold_find(l->id));
	jw_ku64(w, "connections", (uint64_t)l->n_conns);
	jw_close(w, '}');
}

void get_listeners(struct request *r)
{
	struct jsonw w = answer_json(r);
	jw_open(&w, '{');
	jw_key(&w, "listeners");
	jw_open(&w, '[');
	front_listeners(server_front(r->server), put_listener, &w);
	jw_close(&w, ']');
	jw_close(&w, '}');
	request_answer(r, 200);
}

static void count_token(void *ctx, const struct token_row *t)
{
	(void)t;
	++*(int *)ctx;
}

void post_listener(struct request *r)
{
	static const char *const known[] = {"address", "insecure", "hold", "public_urls", NULL};
	struct err e;
	const char *address;
	bool insecure = false, hold = false;
	char **urls = NULL;
	int tokens = 0;
	struct jsonw w = answer_json(r);
	struct listener *l = NULL;
	engine_tokens(r->engine, count_token, &tokens);
	if (!json_only(r->json, known, &e) && !json_get_str(r->json, "address", &address, &e) &&
	    !json_get_bool(r->json, "insecure", &insecure, &e) && !json_get_bool(r->json, "hold", &hold, &e) &&
	    !json_get_strv(r->json, "public_urls", &urls, &e)) {
		if (!insecure && !tokens)
			err_set(&e, ERR_DENIED, "there is no token yet, so nobody could use it: make one with skep token new");
		else
			l = front_listen(server_front(r->server), address ? address : "127.0.0.1:7537", insecure, urls, &e);
	}
	strv_free(urls);
	if (!l) {
		request_fail(r, &e);
		return;
	}
	if (hold)
		hold_new(r, l);
	put_listener(&w, l);
	request_answer(r, 201);
}

void delete_listener(struct request *r)
{
	struct err e;
	if (!front_listener(server_front(r->server), r->parts[0])) {
		err_set(&e, ERR_NOT_FOUND, "no listener %s", r->parts[0]);
		request_fail(r, &e);
		return;
	}
	close_listener(server_front(r->server), r->parts[0]);
	request_answer(r, 204);
}
