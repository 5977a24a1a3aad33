// SPDX-License-Identifier: Apache-2.0
// policy suggest: the narrowest rules for what a sandbox was refused, out of its journal. Everything in it came from
// inside: names are parsed as any rule is, and what can not be a rule is only told.
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/api.h"
#include "cli/out.h"
#include "cli/verbs.h"
#include "model/policy.h"
#include <stdlib.h>
#include <string.h>

#define WANTS_MAX 1000
#define PATHS_MAX 4 // more of them become a prefix

// One host and port, and one method there.
struct want {
	struct host_name host;
	uint16_t port;
	char *method; // NULL: refused before any request was seen
	char **paths; // without query, each once
	char *command;
	uint64_t times;
};

struct wants {
	struct want *w;
	size_t n;
	char **others; // lines about what no rule can allow
};

struct suggest_opts {
	bool json;
};

static const struct opt suggest_opts[] = {
	FLAG(AT(struct suggest_opts, json), "json", 0, "print JSON"),
	OPTS_END,
};

static bool has(char *const *list, const char *s)
{
	for (; list && *list; list++)
		if (!strcmp(*list, s))
			return true;
	return false;
}

static bool same(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static struct want *want_of(struct wants *all, const struct host_name *host, uint16_t port, const char *method)
{
	for (size_t i = 0; i < all->n; i++)
		if (host_equal(&all->w[i].host, host) && all->w[i].port == port && same(all->w[i].method, method))
			return &all->w[i];
	if (all->n >= WANTS_MAX)
		return NULL;
	all->w = xrealloc(all->w, (all->n + 1) * sizeof *all->w);
	all->w[all->n] = (struct want){.host = *host, .port = port, .method = method ? xstrdup(method) : NULL};
	return &all->w[all->n++];
}

static void note_other(struct wants *all, char *owned)
{
	if (!has(all->others, owned) && strv_len(all->others) < WANTS_MAX)
		strv_add(&all->others, owned);
	free(owned);
}

static void note_name(struct wants *all, const json_t *ev)
{
	const char *name = json_str(ev, "name"), *method = json_str(ev, "method"), *path = json_str(ev, "path");
	struct host_name host;
	struct err ignored;
	uint64_t port = json_u64(ev, "port");
	if (port > UINT16_MAX || host_parse(name, strlen(name), &host, &ignored))
		return;
	struct want *w = want_of(all, &host, port ? (uint16_t)port : 443, *method ? method : NULL);
	if (!w)
		return;
	auto_free char *plain = xstrndup(path, strcspn(path, "?#"));
	if (*method && *plain == '/' && !has(w->paths, plain))
		strv_add(&w->paths, plain);
	if (!w->command && *json_str(ev, "command"))
		w->command = xstrdup(json_str(ev, "command"));
	w->times++;
}

// An address is told and not suggested: whoever has it today may not have it tomorrow.
static void note_address(struct wants *all, const char *proto, const char *address, uint64_t port)
{
	const char *brackets = strchr(address, ':') ? "[]" : "";
	auto_free char *at = xasprintf("%.1s%s%.1s:%llu", brackets, address, *brackets ? brackets + 1 : "", (unsigned long long)port);
	if (strcmp(proto, "tcp"))
		note_other(all, xasprintf("%s %s was tried by address: only TCP can be allowed", proto, at));
	else
		note_other(all, xasprintf("tcp %s was tried by address: allow the name, or --allow %s if the address is meant", at, at));
}

static void note_event(struct wants *all, const json_t *ev)
{
	const char *type = json_str(ev, "type"), *what = json_str(ev, "what"), *name = json_str(ev, "name");
	if (!strcmp(type, "net.request")) {
		if (!strcmp(json_str(ev, "verdict"), "deny"))
			note_name(all, ev);
		return;
	}
	if (strcmp(type, "denied"))
		return;
	if (!strcmp(what, "connect") && *name && !strcmp(name, json_str(ev, "address")))
		note_address(all, "tcp", name, json_u64(ev, "port"));
	else if (!strcmp(what, "dns") || !strcmp(what, "connect") || !strcmp(what, "policy"))
		note_name(all, ev);
	else if (!strcmp(what, "address"))
		note_other(all, xasprintf("%s has an address that is never reached unasked (%s): --allow %s:%llu=ADDRESS if that is meant", name,
					  json_str(ev, "why"), name, (unsigned long long)json_u64(ev, "port")));
	else if (!strcmp(what, "net") && *json_str(ev, "address"))
		note_address(all, json_str(ev, "proto"), json_str(ev, "address"), json_u64(ev, "port"));
	else if (!strcmp(what, "secret"))
		note_other(all, xasprintf("secret %s was refused towards %s: it is bound to another host", json_str(ev, "secret"), name));
}

// A name that was looked up is connected to if it is allowed: then the port is known, and the bare name says nothing more.
static bool is_covered(const struct wants *all, const struct want *w)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct want *o = &all->w[i];
		if (o != w && !w->method && o->method && o->port == w->port && host_equal(&o->host, &w->host))
			return true;
	}
	return false;
}

static int read_journal(struct api *a, const char *id, struct wants *all, struct err *e)
{
	for (uint64_t at = 0;;) {
		auto_http_reply struct http_reply r = {0};
		auto_free char *query = xasprintf("journal?offset=%llu", (unsigned long long)at);
		auto_free char *path = api_path("/v1/sandboxes", id, query);
		struct err ignored;
		if (api_bytes(a, path, &r, e))
			return -1;
		const char *last = r.body.n ? memrchr(r.body.p, '\n', r.body.n) : NULL;
		if (!last)
			return 0;
		struct str rest = {r.body.p, (size_t)(last - r.body.p)}, line;
		at += rest.n + 1;
		while (str_next(&rest, '\n', &line)) {
			auto_json json_t *ev = json_read(line.p, line.n, &ignored);
			if (ev)
				note_event(all, ev);
		}
	}
}

// The directory that all of them lie in.
static char *common_prefix(char *const *paths)
{
	size_t n = strlen(paths[0]);
	for (char *const *p = paths; *p; p++)
		while (strncmp(paths[0], *p, n))
			n--;
	while (n && paths[0][n - 1] != '/')
		n--;
	return xasprintf("%.*s*", (int)n, paths[0]);
}

static char *rule_text(const struct want *w, const char *path)
{
	struct rule r = {.host = w->host, .port = w->port, .method = w->method, .path = (char *)path};
	auto_buf struct buf b = BUF_INIT(2 * RULE_TEXT);
	rule_print(&b, &r);
	return buf_take(&b);
}

static void add_rule(char ***rules, const struct want *w, const char *path)
{
	auto_free char *text = rule_text(w, path);
	struct rule r;
	struct err ignored;
	if (rule_parse(text, "suggest", &r, &ignored)) // a path that no rule can name
		return;
	rule_done(&r);
	strv_add(rules, text);
}

static char **rules_for(const struct want *w)
{
	char **rules = NULL;
	if (!w->paths) {
		add_rule(&rules, w, NULL);
	} else if (strv_len(w->paths) > PATHS_MAX) {
		auto_free char *prefix = common_prefix(w->paths);
		add_rule(&rules, w, prefix);
	} else {
		for (char **p = w->paths; *p; p++)
			add_rule(&rules, w, *p);
	}
	return rules;
}

// What has been allowed since is not suggested again, and what a rule denies can not be allowed by another. A removed
// sandbox has no policy any more: then all of it is suggested.
static bool is_decided(struct api *a, const char *id, const struct want *w, struct wants *all)
{
	auto_buf struct buf body = BUF_INIT(64 << 10);
	struct jsonw j = {.b = &body};
	struct err ignored;
	auto_free char *path = api_path("/v1/sandboxes", id, "policy/explain"), *host = xasprintf("%s:%u", w->host.s, w->port);
	jw_open(&j, '{');
	jw_kstr(&j, "host", host);
	jw_kstr(&j, "method", w->method);
	jw_kstr(&j, "path", w->paths ? w->paths[0] : NULL);
	jw_close(&j, '}');
	auto_json json_t *answer = api_json(a, "POST", path, buf_cstr(&body), &ignored);
	const char *rule = answer ? json_str(answer, "rule") : "";
	if (*rule == '!')
		note_other(all, xasprintf("%s is denied by the rule %s, from %s", host, rule, json_str(answer, "from")));
	return *rule == '!' || (answer && !strcmp(json_str(answer, "verdict"), "allow"));
}

static int print_json(const struct wants *all)
{
	auto_buf struct buf b = BUF_INIT(HTTP_BODY_MAX);
	struct jsonw w = {.b = &b};
	struct err e;
	jw_open(&w, '{');
	jw_key(&w, "suggestions");
	jw_open(&w, '[');
	for (size_t i = 0; i < all->n; i++) {
		char **rules = rules_for(&all->w[i]);
		for (char **r = rules; r && *r; r++) {
			jw_open(&w, '{');
			jw_kstr(&w, "rule", *r);
			jw_ku64(&w, "refused", all->w[i].times);
			jw_kstr(&w, "command", all->w[i].command);
			jw_close(&w, '}');
		}
		strv_free(rules);
	}
	jw_close(&w, ']');
	char *none[] = {NULL};
	jw_kstrv(&w, "not_suggested", all->others ? all->others : none);
	jw_close(&w, '}');
	auto_json json_t *j = json_read(buf_cstr(&b), b.n, &e);
	return !j || out_json(j);
}

static int print_table(const struct wants *all, const char *id)
{
	auto_buf struct buf b = BUF_INIT(HTTP_BODY_MAX), more = BUF_INIT(HTTP_BODY_MAX);
	struct table t = {.n_cols = 3};
	table_add(&t, "RULE");
	table_add(&t, "REFUSED");
	table_add(&t, "COMMAND");
	for (size_t i = 0; i < all->n; i++) {
		char **rules = rules_for(&all->w[i]);
		for (char **r = rules; r && *r; r++) {
			table_add(&t, *r);
			table_add_u64(&t, all->w[i].times);
			table_add(&t, all->w[i].command ? all->w[i].command : "-");
		}
		strv_free(rules);
	}
	bool any = t.n_cells > 3;
	table_print(&t, &b);
	for (char **o = all->others; o && *o; o++) {
		out_text(&more, *o);
		buf_byte(&more, '\n');
	}
	buf_fmt(&more, any ? "allow one with: skep policy set %s --allow RULE\n" : "nothing that a rule could allow was refused\n", id);
	out_stderr(&more);
	return any ? out_flush(&b) : 0;
}

static void wants_done(struct wants *all)
{
	for (size_t i = 0; i < all->n; i++) {
		free(all->w[i].method);
		strv_free(all->w[i].paths);
		free(all->w[i].command);
	}
	free(all->w);
	strv_free(all->others);
}

static void drop_needless(struct api *a, const char *id, struct wants *all)
{
	for (size_t i = 0; i < all->n;) {
		struct want *w = &all->w[i];
		if (!is_covered(all, w) && !is_decided(a, id, w, all)) {
			i++;
			continue;
		}
		free(w->method);
		strv_free(w->paths);
		free(w->command);
		memmove(w, w + 1, (all->n - i - 1) * sizeof *w);
		all->n--;
	}
}

static int suggest_run(const struct call *c)
{
	const struct suggest_opts *o = c->opts;
	struct err e;
	struct wants all = {0};
	auto_api struct api a = API_CLOSED;
	if (api_open(&a, &e))
		return out_fail(c, &e);
	auto_free char *id = c->n_words ? xstrdup(c->words[0]) : api_default_id(&a, &e);
	int status = !id || read_journal(&a, id, &all, &e) ? out_fail(c, &e) : -1;
	if (status < 0) {
		drop_needless(&a, id, &all);
		status = o->json ? print_json(&all) : print_table(&all, id);
	}
	wants_done(&all);
	return status;
}

const struct cmd cmd_policy_suggest = {
	.name = "policy suggest",
	.args = "[ID]",
	.help = "propose the narrowest rules for what a sandbox was refused",
	.opts = suggest_opts,
	.opts_size = sizeof(struct suggest_opts),
	.max_words = 1,
	.tail = -1,
	.hint = HINT_SANDBOX,
	.run = suggest_run,
};
