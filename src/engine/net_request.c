// SPDX-License-Identifier: Apache-2.0
// What a caller says of the network: checked as a whole, then kept in the sandbox's row as canonical text.
#include "engine/net_int.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

void net_request_done(struct net_request *n)
{
	free(n->preset);
	strv_free(n->allow);
	strv_free(n->deny);
	strv_free(n->expose);
	strv_free(n->secrets);
	strv_free(n->registries);
	strv_free(n->remove);
	headers_wipe(n->headers);
	free(n->phase);
	*n = (struct net_request){0};
}

// Programs find it without asking the resolver: a rule for it would be of no use, and look as if it were.
static bool is_localhost(const struct host_name *h)
{
	return !strcmp(h->s, "localhost") || str_has_suffix(h->s, ".localhost");
}

char *rule_canonical(const char *text, bool deny, const char *from, struct err *e)
{
	struct rule r;
	auto_buf struct buf b = BUF_INIT(2 * RULE_TEXT);
	auto_free char *full = deny && text[0] != '!' ? xasprintf("!%s", text) : xstrdup(text);
	if (rule_parse(full, from, &r, e)) {
		err_wrap(e, "%s %.100s", from, text);
		return NULL;
	}
	bool wrong = r.deny != deny, own = !deny && is_localhost(&r.host);
	rule_print(&b, &r);
	rule_done(&r);
	if (wrong)
		err_set(e, ERR_INVALID, "%s %.100s: a rule that denies is given with --deny", from, text);
	else if (own)
		err_set(e, ERR_INVALID, "%s %.100s: localhost is the sandbox's own inside; a port of the host is given by --expose-host PORT", from, text);
	return wrong || own ? NULL : buf_take(&b);
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
	if (is_localhost(&host)) {
		err_set(e, ERR_INVALID, "--expose-host %.100s: localhost is the sandbox's own inside; give another name, or none for " EXPOSED_NAME, text);
		return NULL;
	}
	return xasprintf("%s:%u=127.0.0.1", host.s, port);
}

int rules_check(char *const *rules, bool deny, struct err *e)
{
	for (; rules && *rules; rules++) {
		auto_free char *text = rule_canonical(*rules, deny, deny ? "--deny" : "--allow", e);
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

int preset_check(const char *preset, char *const *registries, struct err *e)
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
	return preset_check(n->preset, n->registries, e) || rules_check(n->allow, false, e) || rules_check(n->deny, true, e) ||
			       check_exposed(n->expose, e) || check_secrets(g, n->secrets, e) || headers_check(n->headers, e)
		       ? -1
		       : 0;
}

int net_request_seal(struct engine *g, struct net_request *n, struct err *e)
{
	if (!n->headers)
		return 0;
	char **sealed = headers_seal(g, n->headers, e);
	if (!sealed)
		return -1;
	headers_wipe(n->headers);
	n->headers = sealed;
	return 0;
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
		auto_free char *text = rule_canonical(*rules, deny, from, &ignored);
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
void net_row_add_secret(struct net_row *row, const char *name)
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
		auto_free char *text = rule_canonical(*list, (*list)[0] == '!', "", &ignored);
		if (text)
			drop_line(row->rules, text, false);
		drop_line(row->secrets, *list, true);
	}
}

// Who mistypes what is to be taken back must not believe that it is closed now.
int net_request_removes(const struct net_row *row, const struct net_request *n, struct err *e)
{
	struct err ignored;
	for (char **r = n->remove; r && *r; r++) {
		auto_free char *text = rule_canonical(*r, (*r)[0] == '!', "", &ignored);
		if (!(text && has_rule(row, text)) && !has_secret(row, *r))
			return err_set(e, ERR_NOT_FOUND, "%.80s was not given to this sandbox, so it can not be taken back (policy show lists all rules and "
							 "whose they are; a deny stands above every one)", *r);
	}
	return 0;
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
	bool says = n->preset || n->allow || n->deny || n->expose || n->secrets || n->has_ask || n->phase || n->remove || n->headers;
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
		net_row_add_secret(row, *s);
	if (n->headers) {
		strv_free(row->headers);
		row->headers = strv_copy(n->headers);
	}
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
