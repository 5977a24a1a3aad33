// SPDX-License-Identifier: Apache-2.0
// E2B's network wishes as rules of the gate. The gate goes by names: an address, a range, a proxy or a header to be put in has
// no rule here, and is refused instead of being half obeyed.
#include "api/e2b_int.h"

#include "api/auth.h"
#include "api/code.h"

#include "base/mem.h"
#include "base/str.h"
#include <string.h>

static bool is_all(const char *s)
{
	return !strcmp(s, "0.0.0.0/0") || !strcmp(s, "::/0");
}

static bool is_address(const char *s)
{
	return strspn(s, "0123456789./") == strlen(s) || strchr(s, ':');
}

static bool has(char *const *list, const char *s)
{
	for (; list && *list; list++)
		if (!strcmp(*list, s))
			return true;
	return false;
}

static bool is_empty(const json_t *v)
{
	return !v || json_is_null(v) || (json_is_object(v) && !json_object_size(v)) || (json_is_array(v) && !json_array_size(v));
}

// What may leave a sandbox is for who reviews (rights.c).
static bool may_open(const struct request *r)
{
	return r->who->local || r->who->scope >= SCOPE_REVIEW;
}

static int refuse_others(const json_t *o, struct err *e)
{
	static const char *const nothing_fits[][2] = {
		{"rules", "headers are put in by secrets (skep secret set), not by network rules"},
		{"egressProxy", "the way out is the gate, there is no other proxy"},
	};
	for (size_t i = 0; i < countof(nothing_fits); i++)
		if (!is_empty(json_object_get(o, nothing_fits[i][0])))
			return err_set(e, ERR_INVALID, "network.%s is not supported: %s", nothing_fits[i][0], nothing_fits[i][1]);
	return 0;
}

static int add_rule(char ***out, const char *host, const char *field, struct err *e)
{
	if (is_address(host))
		return err_set(e, ERR_INVALID, "%s: \"%.60s\" is an address: sandboxes reach hosts by name only, give a host name", field, host);
	strv_add(out, host);
	return 0;
}

static int add_rules(struct net_request *n, char *const *allow, char *const *deny, bool closed, struct err *e)
{
	for (char *const *a = allow; a && *a; a++) {
		if (is_all(*a))
			continue;
		if (!closed && !is_address(*a))
			return err_set(e, ERR_INVALID, "When specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' in deny out to "
				       "block all other traffic.");
		if ((closed || !is_address(*a)) && add_rule(&n->allow, *a, "allowOut", e))
			return -1;
	}
	// allowing wins with E2B, denying does here
	for (char *const *d = deny; d && *d; d++)
		if (!closed && !is_all(*d) && !has(allow, *d) && add_rule(&n->deny, *d, "denyOut", e))
			return -1;
	return 0;
}

// The most a site grants, and the most the caller's token may give, is what there is: E2B's own default, everything, is no
// wish that could be refused.
static int choose_preset(struct request *r, bool open, struct net_request *n, struct err *e)
{
	if (open && !may_open(r))
		return 0;
	n->preset = xstrdup(open ? "open" : "none");
	int rc = check_net(r->engine, n, e);
	if (!rc || !open || e->kind != ERR_DENIED)
		return rc;
	mem_free_ptr(&n->preset);
	n->preset = NULL;
	return 0;
}

int e2b_net_read(struct request *r, const json_t *network, struct net_request *n, struct err *e)
{
	char **allow = NULL, **deny = NULL;
	bool internet = true;
	if (json_get_bool(r->json, "allow_internet_access", &internet, e) || refuse_others(network, e))
		return -1;
	int rc = json_get_strv(network, "allowOut", &allow, e) || json_get_strv(network, "denyOut", &deny, e) ? -1 : 0;
	bool closed = !internet;
	for (char **d = deny; d && *d && !rc; d++)
		closed |= is_all(*d);
	for (char **a = allow; a && *a; a++)
		closed = closed && !is_all(*a);
	if (!rc)
		rc = add_rules(n, allow, deny, closed, e);
	strv_free(allow);
	strv_free(deny);
	if (!rc && n->allow && !may_open(r))
		rc = err_set(e, ERR_DENIED, "allowOut needs a token with scope review, and yours has %s", scope_name(r->who->scope));
	return rc ? -1 : choose_preset(r, !closed, n, e);
}

void e2b_net_open(struct request *r, struct net_request *n)
{
	struct err ignored;
	if (choose_preset(r, true, n, &ignored)) { // the create says it again
		mem_free_ptr(&n->preset);
		n->preset = NULL;
	}
}

char **e2b_net_rules(const struct sandbox *s)
{
	char **out = NULL;
	for (char **r = s->has_net ? s->net.rules : NULL; r && *r; r++) {
		const char *tab = strchr(*r, '\t');
		if (tab)
			strv_add(&out, tab + 1);
	}
	return out;
}
