// SPDX-License-Identifier: Apache-2.0
// policy suggest: the narrowest rules for what a sandbox was refused.
#include "base/jsonw.h"
#include "base/mem.h"
#include "cli/out.h"
#include "cli/verbs.h"
#include "cli/wants.h"
#include <stdlib.h>
#include <string.h>

#define PATHS_MAX 4 // more of them become a prefix

struct suggest_opts {
	bool json;
};

static const struct opt suggest_opts[] = {
	FLAG(AT(struct suggest_opts, json), "json", 0, "print JSON"),
	OPTS_END,
};

// A name that was looked up is connected to if it is allowed: then the port is known, and the bare name says nothing more.
// So does a connection whose requests are known.
static bool is_covered(const struct wants *all, const struct want *w)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct want *o = &all->w[i];
		bool closer = w->port ? o->port == w->port && o->method && !w->method : o->port;
		if (closer && host_equal(&o->host, &w->host))
			return true;
	}
	return false;
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

static char *place_of(const struct want *w)
{
	return w->port ? xasprintf("%s:%u", w->host.s, w->port) : xstrdup(w->host.s);
}

// What has been allowed since is not suggested again, and what a rule denies can not be allowed by another. A removed
// sandbox has no policy any more: then all of it is suggested.
static bool is_settled(struct api *a, const char *id, const struct want *w, const char *asked, struct wants *all)
{
	auto_buf struct buf body = BUF_INIT(64 << 10);
	struct jsonw j = {.b = &body};
	struct err ignored;
	auto_free char *path = api_path("/v1/sandboxes", id, "policy/explain"), *host = place_of(w);
	jw_open(&j, '{');
	jw_kstr(&j, "host", host);
	jw_kstr(&j, "method", w->method);
	jw_kstr(&j, "path", asked);
	jw_close(&j, '}');
	auto_json json_t *answer = api_json(a, "POST", path, buf_cstr(&body), &ignored);
	const char *rule = answer ? json_str(answer, "rule") : "";
	if (*rule == '!')
		wants_note(all, xasprintf("%s is denied by the rule %s, from %s", host, rule, json_str(answer, "from")));
	return *rule == '!' || (answer && !strcmp(json_str(answer, "verdict"), "allow"));
}

// Each path by itself: what is settled of one says nothing of the next.
static bool is_decided(struct api *a, const char *id, struct want *w, struct wants *all)
{
	if (!w->paths)
		return is_settled(a, id, w, NULL, all);
	char **left = NULL;
	for (char **p = w->paths; *p; p++)
		if (!is_settled(a, id, w, *p, all))
			strv_add(&left, *p);
	strv_free(w->paths);
	w->paths = left;
	return !left;
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

static int print_table(const struct wants *all, const char *id, bool removed)
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
	if (!any)
		buf_str(&more, "nothing that a rule could allow was refused\n");
	else if (removed)
		buf_str(&more, "the sandbox is removed: allow one in the next with skep run --allow RULE -- CMD\n");
	else
		buf_fmt(&more, "allow one with: skep policy set %s --allow RULE\n", id);
	out_stderr(&more);
	return any ? out_flush(&b) : 0;
}

// No rule about a name leads to this machine.
static bool is_exposable(const struct want *w, const char *id, struct wants *all)
{
	if (strcmp(w->host.s, EXPOSED_NAME))
		return false;
	auto_free char *place = place_of(w), *port = w->port ? xasprintf("%u", w->port) : xstrdup("PORT");
	wants_note(all, xasprintf("%s is this machine: skep policy set %s --expose-host %s", place, id, port));
	return true;
}

// No rule with the bare name leads there: what is noted names the address.
static bool is_private(const struct wants *all, const struct want *w)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->w[i].address && all->w[i].port == w->port && host_equal(&all->w[i].host, &w->host))
			return true;
	return false;
}

static bool is_removed(struct api *a, const char *id)
{
	struct err e;
	auto_free char *path = api_path("/v1/sandboxes", id, NULL);
	auto_json json_t *j = api_json(a, "GET", path, NULL, &e);
	return !j && e.kind == ERR_NOT_FOUND;
}

static void drop_needless(struct api *a, const char *id, struct wants *all)
{
	for (size_t i = 0; i < all->n;) {
		struct want *w = &all->w[i];
		if (!is_private(all, w) && !is_covered(all, w) && !is_decided(a, id, w, all) && !is_exposable(w, id, all)) {
			i++;
			continue;
		}
		wants_drop(all, i);
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
	auto_free char *id = c->n_words ? xstrdup(c->words[0]) : api_newest_id(&a, &e);
	int status = !id || wants_read(&all, &a, id, NULL, 0, &e) ? out_fail(c, &e) : -1;
	if (status < 0) {
		drop_needless(&a, id, &all);
		status = o->json ? print_json(&all) : print_table(&all, id, is_removed(&a, id));
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
