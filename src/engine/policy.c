// SPDX-License-Identifier: Apache-2.0
// From everybody's rules to one policy. A rule that denies counts whoever said it; among the other settings the site's
// stand above the caller's, the caller's above the project's, the project's above the user's.
#include "engine/net_int.h"

#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

// --- the policy ---

bool policy_allows_any(const struct policy *p)
{
	bool any = p->open_all || p->ask;
	for (size_t i = 0; i < p->n && !any; i++)
		any = !p->rules[i].deny;
	return any;
}

bool policy_opens_any(const struct policy *p)
{
	bool any = false;
	for (size_t i = 0; i < p->n_secrets && !any; i++)
		any = p->secrets[i].as != SECRET_SSH;
	for (size_t i = 0; i < p->n && !any; i++)
		any = p->rules[i].open || p->rules[i].method || p->rules[i].path;
	return any;
}

static int add_said(struct policy *p, const struct said *s, const char *from, struct err *e)
{
	if (!s->net)
		return 0;
	struct net_part rules = {.allow = s->net->allow, .deny = s->net->deny}; // one preset counts: add_preset
	return net_add(p, &rules, from, NULL, e) ? err_wrap(e, "%s", from) : 0;
}

static int add_list(struct policy *p, char *const *rules, const char *from, struct err *e)
{
	for (; rules && *rules; rules++)
		if (policy_add_text(p, *rules, from, e))
			return -1;
	return 0;
}

static int add_own(struct policy *p, const struct net_row *row, struct err *e)
{
	for (char **r = row->rules; r && *r; r++) {
		const char *tab = strchr(*r, '\t');
		auto_free char *from = tab ? xstrndup(*r, (size_t)(tab - *r)) : NULL;
		if (tab && policy_add_text(p, tab + 1, from, e))
			return -1;
	}
	return 0;
}

static bool names_registries(const char *preset)
{
	struct str rest = str_of(preset), part;
	while (str_next(&rest, ',', &part))
		if (str_is(part, "registries"))
			return true;
	return false;
}

static const char *preset_of(const struct said *s)
{
	return s->net ? s->net->preset : NULL;
}

// A preset of the site is the only one; less than it may still be asked for.
static int choose_preset(const struct layers *l, const char *own, const char **out, struct err *e)
{
	const char *site = preset_of(&l->site), *project = preset_of(&l->project), *user = preset_of(&l->user);
	if (site && own && strcmp(own, "none") && strcmp(own, site))
		return err_set(e, ERR_DENIED, "the site allows --net %s or none, not %s", site, own);
	*out = own ? own : site ? site : project ? project : user ? user : "none";
	return 0;
}

static int add_preset(struct policy *p, const struct layers *l, const struct net_row *row, struct err *e)
{
	const char *preset = NULL;
	if (choose_preset(l, row->preset, &preset, e))
		return -1;
	if (names_registries(preset) && !row->registries) {
		err_set(e, ERR_CONFLICT, "which registries the package managers use was not said: `skep policy set ID "
			"--net registries` finds them");
		e->sys = ENGINE_NEEDS_REGISTRIES;
		return -1;
	}
	return preset_add(p, preset, row->registries, e);
}

static int add_secret(struct engine *g, struct policy *p, const char *name, const char *placeholder, struct err *e)
{
	const struct secret_row *r = secret_find(g, name);
	struct secret_ref s = {.port = r->port, .as = (enum secret_as)r->as, .name = xstrdup(name), .placeholder = xstrdup(placeholder),
			       .key = r->key ? xstrdup(r->key) : NULL};
	if (host_parse(r->host, strlen(r->host), &s.host, e)) {
		secret_ref_done(&s);
		return -1;
	}
	auto_free char *rule = xasprintf("%s:%u", r->host, r->port), *from = xasprintf("secret %s", name);
	return policy_add_secret(p, &s, e) || policy_add_text(p, rule, from, e) ? -1 : 0;
}

static int add_secrets(struct engine *g, struct policy *p, const struct net_row *row, char ***notices, struct err *e)
{
	for (char **s = row->secrets; s && *s; s++) {
		const char *tab = strchr(*s, '\t');
		auto_free char *name = tab ? xstrndup(*s, (size_t)(tab - *s)) : NULL;
		if (!name)
			continue;
		if (secret_find(g, name)) {
			if (add_secret(g, p, name, tab + 1, e))
				return -1;
			continue;
		}
		auto_free char *line = xasprintf("secret %s was removed: the sandbox goes on without it", name);
		if (notices)
			strv_add(notices, line);
	}
	return 0;
}

static void want_secrets(struct engine *g, struct net_row *row, char *const *names, char ***notices)
{
	for (; names && *names; names++) {
		if (secret_find(g, *names)) {
			net_row_add_secret(row, *names);
			continue;
		}
		auto_free char *line = xasprintf("secret %.64s, which the project asks for, is not there: `skep secret set %.64s --host HOST "
						 "--as bearer` makes it", *names, *names);
		if (notices)
			strv_add(notices, line);
	}
}

static bool says_ask(const struct said *s)
{
	return s->net && s->net->has_ask;
}

static bool asks(const struct layers *l, const struct net_row *row)
{
	if (says_ask(&l->site) && !l->site.net->ask)
		return false;
	if (row->has_ask)
		return row->ask;
	const struct said *s = says_ask(&l->project) ? &l->project : says_ask(&l->user) ? &l->user : &l->site;
	return says_ask(s) && s->net->ask;
}

int policy_make(struct engine *g, struct net_row *row, const char *repo, struct policy *out, char ***notices, struct err *e)
{
	struct layers l = {0};
	struct policy p = {0};
	struct net_row none = {0};
	struct net_row *own = row ? row : &none;
	if (layers_read(g, repo, own->phase, &l, notices, e))
		return -1;
	want_secrets(g, own, l.project.secrets, notices);
	p.ask = asks(&l, own);
	int rc = add_said(&p, &l.site, "site", e) || add_said(&p, &l.user, "user", e) || add_list(&p, g->answers, "answer", e) ||
		 add_said(&p, &l.project, "project", e) || add_preset(&p, &l, own, e) || add_own(&p, own, e) ||
		 add_secrets(g, &p, own, notices, e) || headers_add(&p, own->headers, e);
	layers_done(&l);
	net_row_done(&none);
	if (rc) {
		policy_done(&p);
		return -1;
	}
	*out = p;
	return 0;
}

// --- requests ---

int engine_policy(struct engine *g, const char *id, struct policy *out, char ***notices, struct err *e)
{
	struct box *b = box_find(g, id, e);
	return b ? policy_make(g, &b->row.net, box_project(b), out, notices, e) : -1;
}

int engine_policy_for(struct engine *g, const char *cwd, const struct net_request *n, struct policy *out, char ***notices,
		      struct err *e)
{
	struct source src = {0};
	struct net_row row = {0};
	struct err ignored;
	if (net_request_check(g, n, e))
		return -1;
	bool found = cwd && !source_resolve(&g->rules, cwd, NULL, &src, &ignored); // where no sandbox may be made there is no project
	net_request_apply(&row, n);
	int rc = policy_make(g, &row, found ? src.base : NULL, out, notices, e);
	net_row_done(&row);
	free(src.base);
	return rc;
}

static void record_changed(struct box *b, const struct net_request *n)
{
	auto_buf struct buf body = BUF_INIT(JOURNAL_LINE_MAX);
	struct jsonw w = {.b = &body};
	jw_kstr(&w, "net", n->preset);
	jw_kstr(&w, "phase", n->phase);
	if (n->has_ask)
		jw_kbool(&w, "ask", n->ask);
	if (n->allow)
		jw_kstrv(&w, "allow", n->allow);
	if (n->deny)
		jw_kstrv(&w, "deny", n->deny);
	if (n->expose)
		jw_kstrv(&w, "expose_host", n->expose);
	if (n->secrets)
		jw_kstrv(&w, "secrets", n->secrets);
	if (n->remove)
		jw_kstrv(&w, "remove", n->remove);
	char **headers = n->headers ? headers_names(n->headers) : NULL;
	if (headers)
		jw_kstrv(&w, "headers", headers);
	strv_free(headers);
	record(b, "policy.changed", body.overflow ? "" : buf_cstr(&body));
}

static bool is_box(const struct box *b, const void *arg)
{
	return b == arg;
}

// As it would be after the change: a request that the site refuses changes nothing.
static int try_change(struct box *b, const struct net_request *n, struct err *e)
{
	struct net_row row = {.preset = b->row.net.preset ? xstrdup(b->row.net.preset) : NULL,
			      .rules = b->row.net.rules ? strv_copy(b->row.net.rules) : NULL,
			      .registries = b->row.net.registries ? strv_copy(b->row.net.registries) : NULL,
			      .headers = b->row.net.headers ? strv_copy(b->row.net.headers) : NULL};
	struct policy p = {0};
	net_request_apply(&row, n);
	int rc = policy_make(b->g, &row, box_project(b), &p, NULL, e);
	policy_done(&p);
	net_row_done(&row);
	return rc;
}

void engine_policy_set(struct engine *g, const char *id, struct net_request *n, struct done d)
{
	struct err e;
	struct box *b = box_find(g, id, &e);
	if (!b || net_request_check(g, n, &e) || net_request_removes(&b->row.net, n, &e) || net_request_seal(g, n, &e) || try_change(b, n, &e)) {
		net_request_done(n);
		task_refuse(d, &e);
		return;
	}
	if (net_request_apply(&b->row.net, n)) {
		b->row.has_net = true;
		record_changed(b, n);
		net_save(b);
		engine_flush(g);
	}
	net_request_done(n);
	net_push(g, is_box, b, d);
}
