// SPDX-License-Identifier: Apache-2.0
// The life of a sandbox as E2B knows it, after its create: connect, pause, resume, timeout, kill, network.
#include "api/e2b_int.h"
#include "api/auth.h"
#include "api/e2b_routes.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/net.h"
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MAX_S (365ULL * 86400)

void e2b_put_members(struct jsonw *w, const struct e2b_box *b)
{
	jw_kstr(w, "sandboxID", b->id);
	jw_kstr(w, "templateID", b->template_id);
	jw_kstr(w, "alias", b->alias);
	jw_kstr(w, "clientID", E2B_CLIENT);
	jw_kstr(w, "envdVersion", E2B_ENVD_VERSION);
}

// Where its ports are reached as PORT-ID.DOMAIN: under the name this server was asked by. An address has no names below it, but
// whoever says 127.0.0.1 can say localhost.
static char *domain_of(const struct request *r)
{
	const char *host = request_header(r, "Host"), *port = host ? strrchr(host, ':') : NULL;
	if (!host || !port || strchr(host, '['))
		return NULL;
	if (str_has_prefix(host, "127.0.0.1:"))
		return xasprintf("localhost%s", port);
	return strspn(host, "0123456789.") == (size_t)(port - host) ? NULL : xstrdup(host);
}

// For who may run things in it.
void e2b_put_secrets(struct request *r, struct jsonw *w, const struct e2b_box *b)
{
	auto_free char *domain = domain_of(r);
	if (*b->token)
		jw_kstr(w, "envdAccessToken", b->token);
	jw_nstr(w, "domain", domain);
}

void e2b_put_sandbox(struct request *r, struct jsonw *w, const struct e2b_box *b)
{
	jw_open(w, '{');
	e2b_put_members(w, b);
	e2b_put_secrets(r, w, b);
	jw_nstr(w, "trafficAccessToken", *b->traffic ? b->traffic : NULL);
	jw_close(w, '}');
}

struct e2b_box *e2b_named(struct request *r)
{
	struct e2b_box *b = e2b_box_get(r->engine, r->parts[0]);
	if (!b)
		e2b_error(r, 404, "sandbox \"%.60s\" doesn't exist or you don't have access to it", r->parts[0]);
	return b;
}

// Seconds of a body; false: answered.
bool e2b_timeout_of(struct request *r, const char *key, uint64_t *inout_s)
{
	if (!e2b_number(r, key, 0, inout_s))
		return false;
	if (*inout_s && *inout_s <= TIMEOUT_MAX_S)
		return true;
	e2b_error(r, 400, *inout_s ? "Timeout cannot be greater than %llu hours" : "Timeout must be greater than 0",
		  (unsigned long long)(TIMEOUT_MAX_S / 3600));
	return false;
}

// --- connect and resume ---

static void on_connected(void *ctx, const struct err *e, struct e2b_box *b)
{
	struct request *r = ctx;
	struct jsonw w = answer_json(r);
	if (e) {
		request_fail(r, e);
		return;
	}
	e2b_put_sandbox(r, &w, b);
	request_answer(r, 201);
}

// Only ever later.
static void extend(struct engine *g, struct e2b_box *b, uint64_t seconds)
{
	struct err ignored;
	uint64_t end = clock_unix_ms() + seconds * 1000;
	if (b->ends && b->ends < end && e2b_end_set(g, b, end, &ignored))
		return; // it was killed this moment
}

static void connect_to(struct request *r, uint64_t timeout_s)
{
	struct jsonw w = answer_json(r);
	struct e2b_box *b = e2b_named(r);
	if (!b || !e2b_timeout_of(r, "timeout", &timeout_s))
		return;
	if (!e2b_is_running(r->engine, b)) {
		e2b_resume(r->engine, b, timeout_s * 1000, (struct e2b_done){on_connected, r});
		return;
	}
	extend(r->engine, b, timeout_s);
	e2b_put_sandbox(r, &w, b);
	request_answer(r, 200);
}

void e2b_connect_v2(struct request *r)
{
	connect_to(r, 300);
}

void e2b_connect_v1(struct request *r)
{
	if (json_object_get(r->json, "timeout"))
		connect_to(r, 15);
	else
		e2b_error(r, 400, "timeout is required");
}

void e2b_post_resume(struct request *r)
{
	struct e2b_box *b = e2b_named(r);
	uint64_t timeout_s = 15;
	struct err e;
	if (!b || !e2b_timeout_of(r, "timeout", &timeout_s))
		return;
	if (e2b_is_running(r->engine, b)) {
		e2b_error(r, 409, "sandbox \"%s\" is already running", b->id);
		return;
	}
	if (json_get_bool(r->json, "autoPause", &b->auto_pause, &e))
		request_fail(r, &e);
	else
		e2b_resume(r->engine, b, timeout_s * 1000, (struct e2b_done){on_connected, r});
}

// --- pause, kill ---

// Its end is forgotten first: a sandbox that waits does not grow old.
void e2b_post_pause(struct request *r)
{
	struct e2b_box *b = e2b_named(r);
	bool memory = true;
	struct err e;
	if (!b)
		return;
	if (!e2b_is_running(r->engine, b)) {
		e2b_error(r, 409, "sandbox \"%s\" is already paused", b->id);
		return;
	}
	if (json_get_bool(r->json, "memory", &memory, &e) || e2b_end_set(r->engine, b, 0, &e)) {
		request_fail(r, &e);
		return;
	}
	e2b_pause(r->engine, b, memory, (struct done){answer_empty, r});
}

void e2b_delete_sandbox(struct request *r)
{
	struct e2b_box *b = e2b_named(r);
	if (b)
		e2b_kill(r->engine, b, (struct done){answer_empty, r});
}

// --- time ---

static struct e2b_box *named_running(struct request *r)
{
	struct e2b_box *b = e2b_named(r);
	if (b && !e2b_is_running(r->engine, b)) {
		e2b_error(r, 404, "sandbox \"%s\" is not running", b->id);
		return NULL;
	}
	return b;
}

void e2b_post_timeout(struct request *r)
{
	struct err e;
	uint64_t seconds = 0;
	struct e2b_box *b = named_running(r);
	if (!b || !e2b_number(r, "timeout", 0, &seconds))
		return;
	if (!json_object_get(r->json, "timeout") || seconds > TIMEOUT_MAX_S)
		e2b_error(r, 400, "timeout must be a number of seconds, at most %llu", TIMEOUT_MAX_S);
	else if (e2b_end_set(r->engine, b, clock_unix_ms() + seconds * 1000 + !seconds, &e))
		request_fail(r, &e);
	else
		request_answer(r, 204);
}

void e2b_post_refreshes(struct request *r)
{
	uint64_t seconds = 15;
	struct e2b_box *b = named_running(r);
	if (!b || !e2b_timeout_of(r, "duration", &seconds))
		return;
	extend(r->engine, b, seconds);
	request_answer(r, 204);
}

// --- network ---

struct renet {
	struct request *r;
	char id[ID_SIZE];
};

static void on_net(void *ctx, const struct err *e, const struct outcome *o)
{
	struct renet *n = ctx;
	struct e2b_box *b = e ? NULL : e2b_box_get(n->r->engine, n->id);
	if (b) {
		e2b_copy_network(n->r->json, n->r->json, b, true);
		e2b_box_save(n->r->engine, b);
	}
	answer_empty(n->r, e, o);
	free(n);
}

void e2b_put_network(struct request *r)
{
	struct err e;
	struct net_request n = {0};
	struct e2b_box *b = named_running(r);
	if (!b)
		return;
	if (e2b_net_read(r, r->json, &n, &e)) {
		net_request_done(&n);
		request_fail(r, &e);
		return;
	}
	n.remove = e2b_net_rules(e2b_row(r->engine, b));
	struct renet *c = xcalloc(1, sizeof *c);
	c->r = r;
	memcpy(c->id, b->id, sizeof c->id);
	engine_policy_set(r->engine, c->id, &n, (struct done){on_net, c});
}
