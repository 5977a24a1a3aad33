// SPDX-License-Identifier: Apache-2.0
// token: what others show to use this skepd over TCP.
#include "base/jsonw.h"
#include "base/mem.h"
#include "cli/api.h"
#include "cli/listing.h"
#include "cli/out.h"
#include "cli/verbs.h"
#include "model/access.h"
#include <string.h>

struct token_opts {
	const char *name, *scope, *on;
	uint64_t ttl, rate;
	bool json, quiet;
};

static const struct opt new_opts[] = {
	VALUE(OPT_STR, AT(struct token_opts, name), "name", 0, "NAME", "call it NAME"),
	CHOICE(AT(struct token_opts, scope), "scope", 0, "SCOPE", "how far it goes: read, run (default), review, admin", "read|run|review|admin"),
	VALUE(OPT_STR, AT(struct token_opts, on), "on", 0, "WHICH", "all sandboxes (default), those with label=K=V, or one ID"),
	VALUE(OPT_DURATION, AT(struct token_opts, ttl), "ttl", 0, "TIME", "it ends after TIME (default: never)"),
	VALUE(OPT_COUNT, AT(struct token_opts, rate), "rate", 0, "N", "at most N requests a second (default: 2000)"),
	FLAG(AT(struct token_opts, json), "json", 0, "print JSON"),
	OPTS_END,
};

static const struct opt ls_opts[] = {
	FLAG(AT(struct token_opts, quiet), "quiet", 'q', "print ids only"),
	FLAG(AT(struct token_opts, json), "json", 0, "print JSON"),
	OPTS_END,
};

static int new_run(const struct call *c)
{
	const struct token_opts *o = c->opts;
	struct err e;
	enum on_kind on;
	const char *value;
	auto_api struct api a = API_CLOSED;
	auto_buf struct buf body = BUF_INIT(8192), b = BUF_INIT(8192);
	struct jsonw w = {.b = &body};
	if (o->on && on_parse(o->on, &on, &value, &e))
		return out_usage(c, &e);
	jw_open(&w, '{');
	jw_kstr(&w, "name", o->name);
	jw_kstr(&w, "scope", o->scope);
	jw_kstr(&w, "on", o->on);
	if (o->ttl != OPT_UNSET)
		jw_ku64(&w, "ttl_ms", o->ttl);
	if (o->rate != OPT_UNSET)
		jw_ku64(&w, "rate", o->rate);
	jw_close(&w, '}');
	auto_json json_t *j = api_open(&a, &e) ? NULL : api_json(&a, "POST", "/v1/tokens", buf_cstr(&body), &e);
	if (!j)
		return out_fail(c, &e);
	if (o->json)
		return out_json(j);
	buf_fmt(&b, "%s\n", json_str(j, "token"));
	return out_flush(&b);
}

static void ls_row(struct table *t, const json_t *token)
{
	const char *expires = json_str(token, "expires"), *used = json_str(token, "used");
	table_add(t, json_str(token, "id"));
	table_add(t, *json_str(token, "name") ? json_str(token, "name") : "-");
	table_add(t, json_str(token, "scope"));
	table_add(t, json_str(token, "on"));
	table_add(t, *expires ? expires : "never");
	table_add(t, *used ? used : "never");
}

static int ls_run(const struct call *c)
{
	const struct token_opts *o = c->opts;
	struct err e;
	auto_api struct api a = API_CLOSED;
	auto_json json_t *j = api_open(&a, &e) ? NULL : api_json(&a, "GET", "/v1/tokens", NULL, &e);
	if (!j)
		return out_fail(c, &e);
	if (o->json)
		return out_json(j);
	static const char *const heads[] = {"ID", "NAME", "SCOPE", "ON", "EXPIRES", "USED"};
	auto_buf struct buf b = BUF_INIT(HTTP_BODY_MAX);
	struct table t = {.n_cols = countof(heads)};
	for (size_t i = 0; i < countof(heads) && !o->quiet; i++)
		table_add(&t, heads[i]);
	size_t i;
	json_t *token;
	json_array_foreach(json_object_get(j, "tokens"), i, token)
	{
		if (o->quiet)
			buf_fmt(&b, "%s\n", json_str(token, "id"));
		else
			ls_row(&t, token);
	}
	table_print(&t, &b);
	return out_flush(&b);
}

static int rm_run(const struct call *c)
{
	return listing_remove(c, "/v1/tokens");
}

const struct cmd cmd_token_new = {
	.name = "token new",
	.args = "",
	.help = "make a token for use over TCP; it is printed once",
	.notes = "Scopes: read (look), run (make sandboxes, run commands, change files inside), review (also apply to the host, and\n"
		 "open the network of new sandboxes), admin (also policy, secrets, host paths). --on limits it to some sandboxes.",
	.opts = new_opts,
	.opts_size = sizeof(struct token_opts),
	.tail = -1,
	.run = new_run,
};

const struct cmd cmd_token_ls = {
	.name = "token ls",
	.args = "",
	.help = "list the tokens, without their text",
	.opts = ls_opts,
	.opts_size = sizeof(struct token_opts),
	.tail = -1,
	.run = ls_run,
};

const struct cmd cmd_token_rm = {
	.name = "token rm",
	.args = "TOKEN...",
	.help = "remove tokens, by id or name: who has one is refused at once",
	.min_words = 1,
	.max_words = -1,
	.tail = -1,
	.run = rm_run,
};
