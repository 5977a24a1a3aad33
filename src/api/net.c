// SPDX-License-Identifier: Apache-2.0
// What sandboxes may reach: policies, secrets, answers, trust.
#include "api/net.h"

#include "api/answer.h"
#include "api/auth.h"
#include "api/code.h"
#include "base/mem.h"
#include "engine/net.h"
#include "model/msg.h"
#include <string.h>

static void answer_policy(struct request *r)
{
	struct err e;
	struct jsonw w = answer_json(r);
	const struct sandbox *s = engine_get(r->engine, r->parts[0], &e);
	if (!s || encode_policy(&w, r->engine, s, &e))
		request_fail(r, &e);
	else
		request_answer(r, 200);
}

void get_policy(struct request *r)
{
	answer_policy(r);
}

static void done_policy(void *ctx, const struct err *e, const struct outcome *o)
{
	(void)o;
	if (e)
		request_fail(ctx, e);
	else
		answer_policy(ctx);
}

void post_policy(struct request *r)
{
	struct net_request n = {0};
	struct err e;
	if (decode_net(r->json, &n, &e)) {
		net_request_done(&n);
		request_fail(r, &e);
		return;
	}
	engine_policy_set(r->engine, r->parts[0], &n, (struct done){done_policy, r});
}

static void answer_question(struct request *r, const char *sandbox)
{
	struct question q = {0};
	struct err e;
	struct jsonw w = answer_json(r);
	if (decode_question(r->json, &q, &e) || rights_fields(r, &e) || encode_verdict(&w, r->engine, sandbox, &q, &e))
		request_fail(r, &e);
	else
		request_answer(r, 200);
	question_done(&q);
}

void post_explain(struct request *r)
{
	answer_question(r, r->parts[0]);
}

void post_check(struct request *r)
{
	answer_question(r, NULL);
}

static void list_ask(void *ctx, const struct ask_row *a)
{
	encode_ask(ctx, a);
}

void get_asks(struct request *r)
{
	struct err e;
	struct listing l = listing_begin(r, "asks");
	if (engine_asks(r->engine, r->parts[0], list_ask, &l.w, &e))
		request_fail(r, &e);
	else
		listing_end(&l);
}

static int scope_parse(const char *s)
{
	static const char *const names[] = {[SCOPE_ONCE] = "once", [SCOPE_SANDBOX] = "sandbox", [SCOPE_ALWAYS] = "always"};
	for (int i = 0; i < (int)countof(names); i++)
		if (!strcmp(names[i], s))
			return i;
	return -1;
}

void post_answer(struct request *r)
{
	static const char *const known[] = {"ask", "verdict", "scope", NULL};
	struct err e;
	const char *verdict, *scope;
	uint64_t ask = 0;
	if (json_only(r->json, known, &e) || json_get_u64(r->json, "ask", &ask, &e) ||
	    json_get_str(r->json, "verdict", &verdict, &e) || json_get_str(r->json, "scope", &scope, &e)) {
		request_fail(r, &e);
		return;
	}
	int v = verdict_parse(verdict ? verdict : ""), s = scope_parse(scope ? scope : "once");
	if (v < 0 || s < 0 || ask > UINT32_MAX) {
		err_set(&e, ERR_INVALID, "verdict must be allow or deny, scope once, sandbox or always");
		request_fail(r, &e);
		return;
	}
	engine_answer(r->engine, r->parts[0], (uint32_t)ask, v, s, (struct done){answer_empty, r});
}

static void list_rule(void *ctx, const char *rule)
{
	jw_str(ctx, rule, strlen(rule));
}

void get_rules(struct request *r)
{
	struct listing l = listing_begin(r, "rules");
	engine_answers(r->engine, list_rule, &l.w);
	listing_end(&l);
}

static void done_rules(void *ctx, const struct err *e, const struct outcome *o)
{
	(void)o;
	if (e)
		request_fail(ctx, e);
	else
		get_rules(ctx);
}

void post_rules(struct request *r)
{
	static const char *const known[] = {"allow", "deny", "remove", NULL};
	struct net_request n = {0};
	struct err e;
	if (json_only(r->json, known, &e) || decode_net(r->json, &n, &e)) {
		net_request_done(&n);
		request_fail(r, &e);
		return;
	}
	engine_answers_set(r->engine, &n, (struct done){done_rules, r});
}

static void list_secret(void *ctx, const struct secret_row *s)
{
	encode_secret(ctx, s);
}

void get_secrets(struct request *r)
{
	struct listing l = listing_begin(r, "secrets");
	engine_secrets(r->engine, list_secret, &l.w);
	listing_end(&l);
}

static void done_secret(void *ctx, const struct err *e, const struct outcome *o)
{
	(void)o;
	struct request *r = ctx;
	struct jsonw w = answer_json(r);
	const struct secret_row *s = e ? NULL : engine_secret(r->engine, json_str(r->json, "name"));
	if (e) {
		request_fail(r, e);
		return;
	}
	if (s)
		encode_secret(&w, s);
	request_answer(r, 201);
}

void post_secret(struct request *r)
{
	struct secret_request q = {0};
	struct err e;
	int rc = decode_secret(r->json, &q, &e);
	if (r->body.p)
		explicit_bzero(r->body.p, r->body.cap); // it held the value
	if (rc) {
		secret_request_done(&q);
		request_fail(r, &e);
		return;
	}
	engine_secret_set(r->engine, &q, (struct done){done_secret, r});
}

void delete_secret(struct request *r)
{
	engine_secret_remove(r->engine, r->parts[0], (struct done){answer_empty, r});
}

static void list_trust(void *ctx, const struct trust_row *t)
{
	struct jsonw *w = ctx;
	jw_open(w, '{');
	jw_kstr(w, "path", t->path);
	jw_kstr(w, "sha256", t->sha256);
	jw_kstr(w, "setup_net", t->setup_net);
	jw_close(w, '}');
}

// With a directory: its project file. Without: all that is agreed to.
void get_trust(struct request *r)
{
	struct err e;
	struct trust_view v = {0};
	const char *dir = request_query(r, "dir");
	if (!dir) {
		struct listing l = listing_begin(r, "trusted");
		engine_trusted(r->engine, list_trust, &l.w);
		listing_end(&l);
		return;
	}
	if (engine_trust_look(r->engine, dir, &v, &e)) {
		request_fail(r, &e);
		return;
	}
	struct jsonw w = answer_json(r);
	encode_trust(&w, &v);
	trust_view_done(&v);
	request_answer(r, 200);
}

void post_trust(struct request *r)
{
	static const char *const known[] = {"dir", "sha256", "setup_net", NULL};
	struct err e;
	const char *dir, *sha256, *setup_net;
	if (json_only(r->json, known, &e) || json_get_str(r->json, "dir", &dir, &e) || json_get_str(r->json, "sha256", &sha256, &e) ||
	    json_get_str(r->json, "setup_net", &setup_net, &e)) {
		request_fail(r, &e);
	} else if (!dir || !sha256) {
		err_set(&e, ERR_INVALID, "dir and sha256 are needed: what was looked at is what is agreed to");
		request_fail(r, &e);
	} else {
		engine_trust(r->engine, dir, sha256, setup_net, (struct done){answer_empty, r});
	}
}

void delete_trust(struct request *r)
{
	const char *dir = request_query(r, "dir");
	engine_trust(r->engine, dir ? dir : "", NULL, NULL, (struct done){answer_empty, r});
}
