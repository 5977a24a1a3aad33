// SPDX-License-Identifier: Apache-2.0
// Judging, and the forms a whole policy travels in. What is not clearly allowed is refused.
#include "model/policy_int.h"

#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char *const verdict_names[] = {"deny", "allow", "ask"};
static_assert(countof(verdict_names) == VERDICTS, "a name per verdict");

const char *verdict_name(enum verdict v)
{
	return v < VERDICTS ? verdict_names[v] : "?";
}

void policy_done(struct policy *p)
{
	for (size_t i = 0; i < p->n; i++)
		rule_done(&p->rules[i]);
	for (size_t i = 0; i < p->n_secrets; i++)
		secret_ref_done(&p->secrets[i]);
	free(p->rules);
	free(p->secrets);
	*p = (struct policy){0};
}

int policy_add(struct policy *p, struct rule *r, struct err *e)
{
	if (p->n >= POLICY_RULES) {
		rule_done(r);
		return err_set(e, ERR_LIMIT, "a policy has at most %d rules", POLICY_RULES);
	}
	p->rules = xrealloc(p->rules, (p->n + 1) * sizeof *p->rules);
	p->rules[p->n++] = *r;
	*r = (struct rule){0};
	return 0;
}

int policy_add_text(struct policy *p, const char *rule, const char *from, struct err *e)
{
	struct rule r;
	return rule_parse(rule, from, &r, e) ? -1 : policy_add(p, &r, e);
}

// A range that denies also counts for what an address carries. One that allows must name what is not everybody's: by its
// kind, or as that one address.
static bool range_fits(const struct rule *r, const struct host_name *h)
{
	struct range a, inner;
	if (!range_of_host(h, &a))
		return false;
	if (r->deny)
		return range_has(&r->range, &a) || (range_carries(&a, &inner) && range_has(&r->range, &inner));
	if (!range_has(&r->range, &a))
		return false;
	const char *kind = range_kind(&a), *own = range_kind(&r->range);
	return !kind || range_is_one(&r->range) || (own && !strcmp(own, kind));
}

static bool host_fits(const struct rule *r, const struct host_name *h)
{
	if (r->range.family)
		return range_fits(r, h);
	return r->wildcard ? host_is_below(h, &r->host) : host_equal(h, &r->host);
}

static bool port_fits(const struct rule *r, uint16_t port)
{
	return r->port ? r->port == port : r->deny || r->any_port || port == 80 || port == 443;
}

static bool fits(const struct rule *r, const struct host_name *h, uint16_t port)
{
	return host_fits(r, h) && port_fits(r, port);
}

static bool is_by_request(const struct rule *r)
{
	return r->method || r->path;
}

static bool is_passed(const struct policy *p, const struct host_name *h, uint16_t port)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->rules[i].pass && fits(&p->rules[i], h, port))
			return true;
	return false;
}

static size_t without_slash(const char *path)
{
	size_t n = strlen(path);
	return n > 1 && path[n - 1] == '/' ? n - 1 : n;
}

// A denial is read as the most generous server reads paths: capitals and a slash at the end do not count.
static bool path_denied(const struct rule *r, const char *path)
{
	size_t n = strlen(r->path), m = without_slash(path);
	if (r->path[n - 1] == '*')
		return !strncasecmp(path, r->path, n - 1);
	return m == without_slash(r->path) && !strncasecmp(path, r->path, m);
}

static bool path_fits(const struct rule *r, const char *path)
{
	size_t n = strlen(r->path) - 1;
	if (!strcmp(r->path, "/*"))
		return true;
	if (!path) // read differently by different servers: whatever refuses it is right
		return r->deny;
	if (r->deny)
		return path_denied(r, path);
	return r->path[n] == '*' ? !strncmp(path, r->path, n) : !strcmp(path, r->path);
}

// path: canonical, NULL when it has no such form.
static bool request_fits(const struct rule *r, const char *method, const char *path)
{
	if (r->method && (r->deny ? strcasecmp(r->method, method) : strcmp(r->method, method)))
		return false;
	return !r->path || path_fits(r, path);
}

static int path_weight(const struct rule *r)
{
	if (!r->path)
		return 0;
	size_t n = strlen(r->path);
	return r->path[n - 1] == '*' ? (int)n : RULE_TEXT + (int)n;
}

static int host_weight(const struct rule *r)
{
	if (r->range.family)
		return r->range.bits;
	return (int)strlen(r->host.s) + (r->wildcard ? 0 : (int)sizeof r->host.s);
}

// Below 0 when a comes first. The position in the list settles the rest, so the order is total.
static int compare(const struct rule *a, const struct rule *b)
{
	if (a->deny != b->deny)
		return a->deny ? -1 : 1;
	if (host_weight(a) != host_weight(b))
		return host_weight(b) - host_weight(a);
	if (!a->port != !b->port)
		return a->port ? -1 : 1;
	if (path_weight(a) != path_weight(b))
		return path_weight(b) - path_weight(a);
	if (!a->method != !b->method)
		return a->method ? -1 : 1;
	return a < b ? -1 : a > b;
}

static bool denies_names(const struct policy *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->rules[i].deny && !p->rules[i].range.family)
			return true;
	return false;
}

static const struct rule *first_of(const struct policy *p, const struct request *q)
{
	const struct rule *best = NULL;
	bool passed = is_passed(p, q->host, q->port);
	auto_free char *path = q->method && q->path ? path_canonical(q->path, strlen(q->path)) : NULL;
	for (size_t i = 0; i < p->n; i++) {
		const struct rule *r = &p->rules[i];
		if (!fits(r, q->host, q->port))
			continue;
		if (r->range.family && !r->range.bits && !r->deny && denies_names(p))
			continue;
		if (q->method ? !request_fits(r, q->method, path) : is_by_request(r) && r->deny != passed)
			continue;
		if (!best || compare(r, best) < 0)
			best = r;
	}
	return best;
}

enum verdict policy_judge(const struct policy *p, const struct request *r, const struct rule **why)
{
	const struct rule *best = first_of(p, r);
	if (why)
		*why = best;
	if (best)
		return best->deny ? VERDICT_DENY : VERDICT_ALLOW;
	if (host_is_address(r->host))
		return VERDICT_DENY;
	return p->open_all ? VERDICT_ALLOW : p->ask ? VERDICT_ASK : VERDICT_DENY;
}

static bool is_bound(const struct secret_ref *s, const struct host_name *h, uint16_t port)
{
	return (s->wildcard ? host_is_below(h, &s->host) : host_equal(h, &s->host)) && (s->port ? s->port : 443) == port;
}

static size_t bound_weight(const struct secret_ref *s)
{
	return strlen(s->host.s) + (s->wildcard ? 0 : sizeof s->host.s);
}

bool policy_binds(const struct policy *p, const struct secret_ref *s, const struct host_name *h, uint16_t port)
{
	if (!is_bound(s, h, port))
		return false;
	for (size_t i = 0; s->as == SECRET_SET && i < p->n_secrets; i++) {
		const struct secret_ref *o = &p->secrets[i];
		if (o->as == SECRET_SET && bound_weight(o) > bound_weight(s) && is_bound(o, h, port))
			return false;
	}
	return true;
}

static bool has_secret(const struct policy *p, const struct host_name *h, uint16_t port, bool ssh)
{
	for (size_t i = 0; i < p->n_secrets; i++)
		if ((p->secrets[i].as == SECRET_SSH) == ssh && is_bound(&p->secrets[i], h, port))
			return true;
	return false;
}

bool policy_has_ssh(const struct policy *p, const struct host_name *h, uint16_t port)
{
	return has_secret(p, h, port, true);
}

struct looked_at policy_looks_at(const struct policy *p, const struct host_name *h, uint16_t port)
{
	struct looked_at l = {0};
	for (size_t i = 0; i < p->n; i++) {
		const struct rule *r = &p->rules[i];
		if (!fits(r, h, port))
			continue;
		l.method |= r->method != NULL;
		l.path |= r->path && strcmp(r->path, "/*");
	}
	return l;
}

bool policy_opens(const struct policy *p, const struct host_name *h, uint16_t port)
{
	if (is_passed(p, h, port))
		return false;
	for (size_t i = 0; i < p->n; i++)
		if ((p->rules[i].open || is_by_request(&p->rules[i])) && fits(&p->rules[i], h, port))
			return true;
	return has_secret(p, h, port, false);
}

bool policy_has_ranges(const struct policy *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->rules[i].range.family && !p->rules[i].deny)
			return true;
	return false;
}

static bool is_reachable(const struct policy *p, const struct host_name *h, uint16_t port)
{
	struct request q = {.host = h, .port = port};
	return policy_judge(p, &q, NULL) != VERDICT_DENY;
}

bool policy_names(const struct policy *p, const struct host_name *h)
{
	bool named = false;
	for (size_t i = 0; i < p->n; i++) {
		const struct rule *r = &p->rules[i];
		if (!host_fits(r, h))
			continue;
		if (r->deny && !r->port && !is_by_request(r))
			return false;
		if (!r->deny)
			named = named || is_reachable(p, h, r->port ? r->port : 443) ||
				is_reachable(p, h, r->port ? r->port : 80);
	}
	return named || p->open_all || p->ask;
}

const char *policy_address(const struct policy *p, const struct host_name *h, uint16_t port)
{
	const struct rule *best = NULL;
	for (size_t i = 0; i < p->n; i++) {
		const struct rule *r = &p->rules[i];
		if (r->deny || !fits(r, h, port))
			continue;
		int more = best ? host_weight(r) - host_weight(best) : 1;
		if (more > 0 || (!more && r->address && !best->address))
			best = r;
	}
	return best ? best->address : NULL;
}

bool policy_is_mirror(const struct policy *p, const struct host_name *h, uint16_t port)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct rule *r = &p->rules[i];
		if (!r->deny && fits(r, h, port) && r->from && str_has_prefix(r->from, FROM_REGISTRIES))
			return true;
	}
	return false;
}

static void secret_ref_write(struct buf *b, const struct secret_ref *s)
{
	auto_free char *host = xasprintf(s->wildcard ? "*.%s" : "%s", s->host.s);
	wire_str(b, s->name);
	wire_str(b, host);
	wire_u32(b, s->port);
	wire_u8(b, s->as);
	wire_str(b, s->key);
	wire_str(b, s->placeholder);
}

static int secret_ref_read(struct wire *w, struct policy *p, struct err *e)
{
	struct secret_ref s = {.name = wire_get_str(w)};
	size_t n;
	const char *host = (const char *)wire_get_bytes(w, &n);
	uint32_t port = wire_get_u32(w);
	s.wildcard = !w->bad && n > 2 && !memcmp(host, "*.", 2);
	s.port = (uint16_t)port;
	s.as = wire_get_u8(w);
	s.key = wire_get_str(w);
	s.placeholder = wire_get_str(w);
	if (w->bad || port > UINT16_MAX || host_parse(s.wildcard ? host + 2 : host, s.wildcard ? n - 2 : n, &s.host, e)) {
		secret_ref_done(&s);
		return err_set(e, ERR_INVALID, "malformed secret in a policy");
	}
	return policy_add_secret(p, &s, e);
}

void policy_write(struct buf *b, const struct policy *p)
{
	wire_u8(b, (uint8_t)(p->open_all | p->ask << 1));
	wire_u32(b, (uint32_t)p->n);
	for (size_t i = 0; i < p->n; i++) {
		auto_buf struct buf text = BUF_INIT(RULE_TEXT + 1);
		rule_print(&text, &p->rules[i]);
		wire_str(b, buf_cstr(&text));
		wire_str(b, p->rules[i].from);
	}
	wire_u32(b, (uint32_t)p->n_secrets);
	for (size_t i = 0; i < p->n_secrets; i++)
		secret_ref_write(b, &p->secrets[i]);
}

static int rules_read(struct wire *w, struct policy *p, struct err *e)
{
	uint32_t n = wire_get_u32(w);
	if (n > POLICY_RULES)
		return err_set(e, ERR_LIMIT, "a policy has at most %d rules", POLICY_RULES);
	for (uint32_t i = 0; i < n; i++) {
		auto_free char *text = wire_get_str(w), *from = wire_get_str(w);
		if (!text || !from)
			return err_set(e, ERR_INVALID, "malformed policy");
		if (policy_add_text(p, text, from, e))
			return -1;
	}
	return 0;
}

static int secret_refs_read(struct wire *w, struct policy *p, struct err *e)
{
	uint32_t n = wire_get_u32(w);
	if (n > POLICY_SECRETS)
		return err_set(e, ERR_LIMIT, "a policy has at most %d secrets", POLICY_SECRETS);
	for (uint32_t i = 0; i < n; i++)
		if (secret_ref_read(w, p, e))
			return -1;
	return 0;
}

int policy_read(struct wire *w, struct policy *out, struct err *e)
{
	struct policy p = {0};
	uint8_t flags = wire_get_u8(w);
	*out = (struct policy){0};
	if (rules_read(w, &p, e) || secret_refs_read(w, &p, e)) {
		policy_done(&p);
		return -1;
	}
	if (w->bad || flags > 3) {
		policy_done(&p);
		return err_set(e, ERR_INVALID, "malformed policy");
	}
	p.open_all = flags & 1;
	p.ask = flags & 2;
	*out = p;
	return 0;
}

static void rule_json(struct jsonw *w, const struct rule *r)
{
	auto_buf struct buf text = BUF_INIT(RULE_TEXT + 1);
	rule_print(&text, r);
	jw_open(w, '{');
	jw_kstr(w, "rule", buf_cstr(&text));
	jw_kstr(w, "verdict", verdict_name(r->deny ? VERDICT_DENY : VERDICT_ALLOW));
	jw_kstr(w, "from", r->from);
	jw_close(w, '}');
}

static void secret_ref_json(struct jsonw *w, const struct secret_ref *s)
{
	auto_free char *host = xasprintf(s->wildcard ? "*.%s" : "%s", s->host.s);
	jw_open(w, '{');
	jw_kstr(w, "name", s->name);
	jw_kstr(w, "host", host);
	jw_ku64(w, "port", s->port ? s->port : 443);
	jw_kstr(w, "as", secret_as_name(s->as));
	jw_kstr(w, "key", s->key);
	jw_close(w, '}');
}

static int by_order(const void *a, const void *b)
{
	return compare(*(const struct rule *const *)a, *(const struct rule *const *)b);
}

static void rules_json(struct jsonw *w, const struct policy *p)
{
	auto_free const struct rule **order = xcalloc(p->n + 1, sizeof *order);
	for (size_t i = 0; i < p->n; i++)
		order[i] = &p->rules[i];
	qsort(order, p->n, sizeof *order, by_order);
	jw_key(w, "rules");
	jw_open(w, '[');
	for (size_t i = 0; i < p->n; i++)
		rule_json(w, order[i]);
	jw_close(w, ']');
}

void policy_json(struct buf *b, const struct policy *p)
{
	struct jsonw w = {b, false};
	jw_open(&w, '{');
	rules_json(&w, p);
	jw_key(&w, "secrets");
	jw_open(&w, '[');
	for (size_t i = 0; i < p->n_secrets; i++)
		secret_ref_json(&w, &p->secrets[i]);
	jw_close(&w, ']');
	jw_kstr(&w, "otherwise", verdict_name(p->open_all ? VERDICT_ALLOW : p->ask ? VERDICT_ASK : VERDICT_DENY));
	jw_close(&w, '}');
}
