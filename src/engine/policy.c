// SPDX-License-Identifier: Apache-2.0
// From everybody's rules to one policy. A rule that denies counts whoever said it; among the other settings the site's
// stand above the caller's, the caller's above the project's, the project's above the user's.
#include "engine/net_int.h"

#include "base/clock.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define EXPOSED_NAME "host.skep.internal"

void net_request_done(struct net_request *n)
{
	free(n->preset);
	strv_free(n->allow);
	strv_free(n->deny);
	strv_free(n->expose);
	strv_free(n->secrets);
	strv_free(n->registries);
	strv_free(n->remove);
	free(n->phase);
	*n = (struct net_request){0};
}

// --- rules as text ---

// The one form a rule is kept in. Owned; NULL when it is malformed or not what `deny` says.
static char *canonical(const char *text, bool deny, const char *from, struct err *e)
{
	struct rule r;
	auto_buf struct buf b = BUF_INIT(2 * RULE_TEXT);
	auto_free char *full = deny && text[0] != '!' ? xasprintf("!%s", text) : xstrdup(text);
	if (rule_parse(full, from, &r, e)) {
		err_wrap(e, "%s %.100s", from, text);
		return NULL;
	}
	bool wrong = r.deny != deny;
	rule_print(&b, &r);
	rule_done(&r);
	if (wrong)
		err_set(e, ERR_INVALID, "%s %.100s: a rule that denies is given with --deny", from, text);
	return wrong ? NULL : buf_take(&b);
}

// PORT[:NAME] as a rule.
static char *exposed(const char *text, struct err *e)
{
	const char *colon = strchr(text, ':');
	uint16_t port;
	struct host_name host;
	if (port_parse(text, colon ? (size_t)(colon - text) : strlen(text), &port, e) ||
	    host_parse(colon ? colon + 1 : EXPOSED_NAME, strlen(colon ? colon + 1 : EXPOSED_NAME), &host, e)) {
		err_wrap(e, "--expose-host %.100s", text);
		return NULL;
	}
	return xasprintf("%s:%u=127.0.0.1", host.s, port);
}

static int check_rules(char *const *rules, bool deny, struct err *e)
{
	for (; rules && *rules; rules++) {
		auto_free char *text = canonical(*rules, deny, deny ? "--deny" : "--allow", e);
		if (!text)
			return -1;
	}
	return 0;
}

static int check_exposed(char *const *list, struct err *e)
{
	for (; list && *list; list++) {
		auto_free char *rule = exposed(*list, e);
		if (!rule)
			return -1;
	}
	return 0;
}

static int check_secrets(const struct engine *g, char *const *names, struct err *e)
{
	for (; names && *names; names++)
		if (!secret_find(g, *names))
			return err_set(e, ERR_NOT_FOUND, "no secret %.64s: `skep secret set %.64s --host HOST --as bearer` makes it", *names, *names);
	return 0;
}

static int check_preset(const char *preset, char *const *registries, struct err *e)
{
	struct policy p = {0};
	int rc = preset && preset_add(&p, preset, registries, e) ? -1 : 0;
	policy_done(&p);
	return rc;
}

int net_request_check(struct engine *g, const struct net_request *n, struct err *e)
{
	if (n->phase && strcmp(n->phase, "agent") && strcmp(n->phase, "setup"))
		return err_set(e, ERR_INVALID, "phase \"%.40s\" is neither agent nor setup", n->phase);
	if (strv_len(n->allow) + strv_len(n->deny) + strv_len(n->expose) > POLICY_RULES / 4)
		return err_set(e, ERR_LIMIT, "more than %d rules", POLICY_RULES / 4);
	if (strv_len(n->registries) > 256)
		return err_set(e, ERR_LIMIT, "more than 256 registries");
	return check_preset(n->preset, n->registries, e) || check_rules(n->allow, false, e) || check_rules(n->deny, true, e) ||
			       check_exposed(n->expose, e) || check_secrets(g, n->secrets, e)
		       ? -1
		       : 0;
}

static bool has_rule(const struct net_row *row, const char *rule)
{
	for (char **r = row->rules; r && *r; r++) {
		const char *tab = strchr(*r, '\t');
		if (tab && !strcmp(tab + 1, rule))
			return true;
	}
	return false;
}

static void add_rule(struct net_row *row, const char *from, const char *rule)
{
	auto_free char *line = xasprintf("%s\t%s", from, rule);
	if (!has_rule(row, rule))
		strv_add(&row->rules, line);
}

static void add_rules(struct net_row *row, char *const *rules, bool deny)
{
	struct err ignored; // checked before
	const char *from = deny ? "--deny" : "--allow";
	for (; rules && *rules; rules++) {
		auto_free char *text = canonical(*rules, deny, from, &ignored);
		if (text)
			add_rule(row, from, text);
	}
}

static bool has_secret(const struct net_row *row, const char *name)
{
	size_t n = strlen(name);
	for (char **s = row->secrets; s && *s; s++)
		if (!strncmp(*s, name, n) && (*s)[n] == '\t')
			return true;
	return false;
}

// Fresh for every sandbox: what is seen in one is worth nothing in another.
static void add_placeholder(struct net_row *row, const char *name)
{
	char key[KEY_SIZE];
	key_make(key);
	auto_free char *line = xasprintf("%s\tskep_%s_%s", name, name, key);
	if (!has_secret(row, name))
		strv_add(&row->secrets, line);
}

// A line that goes is put out of the list by its value, "FROM\tRULE" or "NAME\tPLACEHOLDER".
static void drop_line(char **list, const char *value, bool first)
{
	for (char **s = list; s && *s;) {
		const char *tab = strchr(*s, '\t');
		size_t n = tab ? (size_t)(tab - *s) : 0;
		bool same = tab && (first ? strlen(value) == n && !strncmp(*s, value, n) : !strcmp(tab + 1, value));
		if (!same) {
			s++;
			continue;
		}
		free(*s);
		for (char **next = s; *next; next++)
			next[0] = next[1];
	}
}

static void remove_each(struct net_row *row, char *const *list)
{
	struct err ignored;
	for (; list && *list; list++) {
		auto_free char *text = canonical(*list, (*list)[0] == '!', "", &ignored);
		if (text)
			drop_line(row->rules, text, false);
		drop_line(row->secrets, *list, true);
	}
}

static void replace(char **at, const char *v)
{
	if (v) {
		free(*at);
		*at = xstrdup(v);
	}
}

bool net_request_apply(struct net_row *row, const struct net_request *n)
{
	bool says = n->preset || n->allow || n->deny || n->expose || n->secrets || n->has_ask || n->phase || n->remove;
	struct err ignored;
	remove_each(row, n->remove);
	replace(&row->preset, n->preset);
	replace(&row->phase, n->phase);
	add_rules(row, n->allow, false);
	add_rules(row, n->deny, true);
	for (char **x = n->expose; x && *x; x++) {
		auto_free char *rule = exposed(*x, &ignored);
		if (rule)
			add_rule(row, "--expose-host", rule);
	}
	for (char **s = n->secrets; s && *s; s++)
		add_placeholder(row, *s);
	if (n->registries) {
		strv_free(row->registries);
		row->registries = strv_copy(n->registries);
	}
	if (n->has_ask) {
		row->has_ask = true;
		row->ask = n->ask;
	}
	return says || n->registries;
}

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
	bool any = p->n_secrets;
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
		err_set(e, ERR_CONFLICT, "which registries the package managers use was not said: `skep policy set ID --net registries` finds them");
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
			add_placeholder(row, *names);
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
		 add_secrets(g, &p, own, notices, e);
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
	return b ? policy_make(g, &b->row.net, b->row.repo, out, notices, e) : -1;
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
			      .registries = b->row.net.registries ? strv_copy(b->row.net.registries) : NULL};
	struct policy p = {0};
	net_request_apply(&row, n);
	int rc = policy_make(b->g, &row, b->row.repo, &p, NULL, e);
	policy_done(&p);
	net_row_done(&row);
	return rc;
}

void engine_policy_set(struct engine *g, const char *id, struct net_request *n, struct done d)
{
	struct err e;
	struct box *b = box_find(g, id, &e);
	if (!b || net_request_check(g, n, &e) || try_change(b, n, &e)) {
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

// --- rules of the user ---

static bool is_known(char *const *list, const char *rule)
{
	for (; list && *list; list++)
		if (!strcmp(*list, rule))
			return true;
	return false;
}

static int keep_answer(struct engine *g, const char *rule, struct err *e)
{
	if (is_known(g->answers, rule))
		return 0;
	if (strv_len(g->answers) >= POLICY_RULES / 4)
		return err_set(e, ERR_LIMIT, "more than %d standing rules", POLICY_RULES / 4);
	if (store_answer_add(g->store, rule, clock_unix_ms(), e))
		return -1;
	engine_wrote(g);
	strv_add(&g->answers, rule);
	return 0;
}

static int drop_answer(struct engine *g, const char *rule, struct err *e)
{
	if (!is_known(g->answers, rule))
		return err_set(e, ERR_NOT_FOUND, "%.100s is not among the standing rules", rule);
	if (store_answer_drop(g->store, rule, e))
		return -1;
	engine_wrote(g);
	char **left = NULL;
	for (char **a = g->answers; *a; a++)
		if (strcmp(*a, rule))
			strv_add(&left, *a);
	strv_free(g->answers);
	g->answers = left;
	return 0;
}

static int change_answers(struct engine *g, char *const *list, bool deny, int (*change)(struct engine *, const char *, struct err *),
			  struct err *e)
{
	for (; list && *list; list++) {
		auto_free char *rule = canonical(*list, deny || (change == drop_answer && (*list)[0] == '!'), "rule", e);
		if (!rule || change(g, rule, e))
			return -1;
	}
	return 0;
}

void engine_answers(struct engine *g, void (*each)(void *ctx, const char *rule), void *ctx)
{
	for (char **a = g->answers; a && *a; a++)
		each(ctx, *a);
}

void engine_answers_set(struct engine *g, struct net_request *n, struct done d)
{
	struct err e;
	int rc = check_rules(n->allow, false, &e) || check_rules(n->deny, true, &e) ||
		 change_answers(g, n->remove, false, drop_answer, &e) || change_answers(g, n->allow, false, keep_answer, &e) ||
		 change_answers(g, n->deny, true, keep_answer, &e);
	net_request_done(n);
	engine_flush(g);
	if (rc)
		task_refuse(d, &e);
	else
		net_push(g, NULL, NULL, d);
}
