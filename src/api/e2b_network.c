// SPDX-License-Identifier: Apache-2.0
// E2B's network wishes as rules of the gate. What can not be had is refused instead of being half obeyed.
//
// With E2B allowing wins, here denying does. So a range that is denied is cut around what is allowed in it, and a name that is
// allowed is not denied. "0.0.0.0/0" denied means: nothing but what is allowed.
#include "api/e2b_int.h"

#include "api/auth.h"
#include "api/code.h"

#include "base/mem.h"
#include "model/range.h"
#include <stdlib.h>
#include <string.h>

#define ENTRIES_MAX 256
static const char *const everywhere[] = {"0.0.0.0/0:*", "[::/0]:*"};

// A list of one of the two fields.
struct wishes {
	char **names;
	struct range *ranges;
	size_t n;
	bool all;
};

static void wishes_done(struct wishes *w)
{
	strv_free(w->names);
	free(w->ranges);
}

static bool is_address(const char *s)
{
	return strspn(s, "0123456789./") == strlen(s) || strchr(s, ':');
}

static int wish(struct wishes *w, const char *text, const char *field, struct err *e)
{
	struct range r;
	if (!is_address(text)) {
		strv_add(&w->names, text);
		return 0;
	}
	if (range_parse(text, strlen(text), &r, e))
		return err_wrap(e, "%s: \"%.60s\"", field, text);
	w->all |= !r.bits;
	w->ranges = xrealloc(w->ranges, (w->n + 1) * sizeof *w->ranges);
	w->ranges[w->n++] = r;
	return 0;
}

static int wishes_read(const json_t *network, const char *field, struct wishes *out, struct err *e)
{
	char **list = NULL;
	int rc = json_get_strv(network, field, &list, e);
	if (!rc && strv_len(list) > ENTRIES_MAX)
		rc = err_set(e, ERR_LIMIT, "%s has more than %d entries", field, ENTRIES_MAX);
	for (char **s = list; s && *s && !rc; s++)
		rc = wish(out, *s, field, e);
	strv_free(list);
	return rc;
}

static bool has(char *const *list, const char *s)
{
	for (; list && *list; list++)
		if (!strcasecmp(*list, s))
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
		{"egressProxy", "the way out is the gate, and it dials by itself"},
		{"httpsPorts", "ports of a sandbox are reached by plain HTTP"},
	};
	for (size_t i = 0; i < countof(nothing_fits); i++)
		if (!is_empty(json_object_get(o, nothing_fits[i][0])))
			return err_set(e, ERR_INVALID, "network.%s is not supported: %s", nothing_fits[i][0], nothing_fits[i][1]);
	return 0;
}

// --- rules ---

static void add_range(char ***out, const struct range *r)
{
	auto_buf struct buf b = BUF_INIT(RANGE_TEXT);
	buf_str(&b, r->family == 6 ? "[" : "");
	range_print(&b, r);
	buf_str(&b, r->family == 6 ? "]:*" : ":*");
	strv_add(out, buf_cstr(&b));
}

// d without what is allowed, as ranges: halves that hold something of both are halved again.
static void deny_around(struct range d, const struct wishes *allow, char ***out)
{
	bool parts = false;
	for (size_t i = 0; i < allow->n; i++) {
		if (range_has(&allow->ranges[i], &d))
			return;
		parts |= range_has(&d, &allow->ranges[i]);
	}
	if (!parts || strv_len(*out) > ENTRIES_MAX) { // so many are refused as too many rules
		add_range(out, &d);
		return;
	}
	struct range half = d;
	half.bits++;
	deny_around(half, allow, out);
	half.net[d.bits / 8] |= (uint8_t)(0x80 >> d.bits % 8);
	deny_around(half, allow, out);
}

static int add_rules(struct request *r, struct net_request *n, const struct wishes *allow, const struct wishes *deny, bool closed, struct err *e)
{
	if (!closed && allow->names)
		return err_set(e, ERR_INVALID, "When specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' in deny out to "
			       "block all other traffic.");
	for (char **a = allow->names; a && *a; a++)
		strv_add(&n->allow, *a);
	for (size_t i = 0; i < allow->n; i++) {
		bool special = range_kind(&allow->ranges[i]) != NULL;
		if (allow->ranges[i].bits && (closed || special || may_open(r))) // else it is what there is anyway
			add_range(&n->allow, &allow->ranges[i]);
	}
	for (char **d = closed ? NULL : deny->names; d && *d; d++)
		if (!has(allow->names, *d))
			strv_add(&n->deny, *d);
	for (size_t i = 0; i < deny->n && !closed; i++)
		if (deny->ranges[i].bits)
			deny_around(deny->ranges[i], allow, &n->deny);
	if (n->allow && !may_open(r))
		return err_set(e, ERR_DENIED, "allowOut needs a token with scope review, and yours has %s", scope_name(r->who->scope));
	return 0;
}

// The most a site grants, and the most the caller's token may give, is what there is: E2B's own default, everything, is no
// wish that could be refused. Everything is every name, and every address that is everybody's.
static int choose_preset(struct request *r, bool open, struct net_request *n, struct err *e)
{
	if (open && !may_open(r))
		return 0;
	n->preset = xstrdup(open ? "open" : "none");
	int rc = check_net(r->engine, n, e);
	for (size_t i = 0; !rc && open && i < countof(everywhere); i++)
		strv_add(&n->allow, everywhere[i]);
	if (!rc || !open || e->kind != ERR_DENIED)
		return rc;
	mem_free_ptr(&n->preset);
	n->preset = NULL;
	return 0;
}

int e2b_net_read(struct request *r, const json_t *network, struct net_request *n, struct err *e)
{
	struct wishes allow = {0}, deny = {0};
	bool internet = true;
	if (json_get_bool(r->json, "allow_internet_access", &internet, e) || refuse_others(network, e) || e2b_headers_read(r, network, n, e))
		return -1;
	int rc = wishes_read(network, "allowOut", &allow, e) || wishes_read(network, "denyOut", &deny, e) ? -1 : 0;
	bool closed = (!internet || deny.all) && !allow.all;
	if (!rc)
		rc = add_rules(r, n, &allow, &deny, closed, e);
	wishes_done(&allow);
	wishes_done(&deny);
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
