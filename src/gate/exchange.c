// SPDX-License-Identifier: Apache-2.0
// One request, whatever the protocol: is it for this host, may it, which secrets go in, what of the answer comes back.
// Order matters: nothing is put in before the policy has agreed, and the journal has the path as the client sent it.
#include "gate/open_int.h"

#include "base/clock.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define EVENT_PATH 2048 // bytes of a path kept in an event
#define EVENT_MAX (16u << 10)
#define INTERIM_MAX 32 // answers before the answer: nobody needs more, and whoever does not read them would have us keep them
#define HELD_MS 10 // a few bytes at the end of an answer that could be the beginning of a secret wait so long for more

static const struct {
	int status;
	const char *reason, *text;
} refusals[] = {
	[REFUSE_NONE] = {200, "OK", ""},
	[REFUSE_BAD] = {400, "Bad Request", "skep: not a request the gate passes on\n"},
	[REFUSE_HOST] = {400, "Bad Request", "skep: the request is for another host than the connection\n"},
	[REFUSE_POLICY] = {403, "Forbidden", "skep: refused by policy"},
	[REFUSE_SECRET] = {403, "Forbidden",
			   "skep: refused: a secret's placeholder stands where the secret is not bound to\n"},
	[REFUSE_REACH] = {502, "Bad Gateway", "skep: the host can not be reached\n"},
	[REFUSE_ADDRESS] = {403, "Forbidden", "skep: refused: the host has an address that no rule allows\n"},
	[REFUSE_CERT] = {502, "Bad Gateway", "skep: the host's certificate is not valid\n"},
	[REFUSE_ANSWER] = {502, "Bad Gateway", "skep: the host's answer is malformed\n"},
	[REFUSE_CODING] = {502, "Bad Gateway",
			   "skep: the host's answer is encoded and can not be searched for secrets\n"},
};
_Static_assert(countof(refusals) == REFUSALS, "one text for every refusal");

int refusal_status(enum refusal r)
{
	return refusals[r].status;
}

const char *refusal_reason(enum refusal r)
{
	return refusals[r].reason;
}

void refusal_text(enum refusal r, const char *rule, struct buf *out)
{
	buf_str(out, refusals[r].text);
	if (r == REFUSE_POLICY)
		buf_fmt(out, "%s%s\n", rule ? ": " : "", rule ? rule : "");
}

static void judged(struct judging *j, enum verdict v);

static void on_late(struct timer *t)
{
	struct exchange *x = container_of(t, struct exchange, late);
	auto_buf struct buf clean = BUF_INIT(EVENT_MAX);
	mask_late(&x->mask, &clean);
	if (clean.n)
		x->late_bytes(x, &clean);
}

void exchange_init(struct exchange *x, struct opened *o, void (*fn)(struct exchange *x, enum refusal why))
{
	*x = (struct exchange){.o = o, .judged = fn, .judging.fn = judged, .late.fn = on_late, .began_ms = clock_ms()};
}

// Tells the driver. It may answer the client and free the exchange.
static void refuse(struct exchange *x, enum refusal why)
{
	x->refused = why;
	x->status = refusal_status(why);
	x->judged(x, why);
}

static void deny_secret(struct exchange *x, const char *name)
{
	auto_buf struct buf b = BUF_INIT(EVENT_MAX);
	struct jsonw w = {.b = &b};
	jw_kstr(&w, "what", "secret");
	jw_kstr(&w, "why", "a placeholder where the secret is not bound to");
	jw_kstr(&w, "secret", name);
	jw_kstr(&w, "method", x->method);
	gate_event(x->o->g, x->o->c, "denied", &b);
}

static void tell_used(struct exchange *x, const struct swap_used *u)
{
	auto_buf struct buf b = BUF_INIT(EVENT_MAX), place = BUF_INIT(1024);
	struct jsonw w = {.b = &b};
	swap_place(u->ref, &place);
	jw_kstr(&w, "secret", u->ref->name);
	jw_kstr(&w, "host", u->ref->host.s);
	jw_kstr(&w, "place", buf_cstr(&place));
	gate_event(x->o->g, x->o->c, "secret.used", &b);
	strv_add(&x->secrets, u->ref->name);
	opened_used(x->o, u);
}

static void set_field(struct head *h, const char *name, const char *value)
{
	head_drop(h, name);
	head_add(h, str_of(name), str_of(value));
}

// The answer will be searched: ask for it plain, and whole. A range could cut an echo into pieces too small to see.
static void ask_searchable(struct head *req)
{
	set_field(req, "Accept-Encoding", "identity");
	head_drop(req, "Range");
	head_drop(req, "If-Range");
	head_drop(req, "Sec-WebSocket-Extensions");
}

static void allowed(struct exchange *x)
{
	struct swap_used used[POLICY_SECRETS];
	struct swap s = opened_swap(x->o);
	const char *name = NULL;
	int n = swap_request(&s, &x->req, used, &name);
	if (n < 0) {
		deny_secret(x, name);
		refuse(x, REFUSE_SECRET);
		return;
	}
	for (int i = 0; i < n; i++)
		tell_used(x, &used[i]);
	x->masked = swap_knows_host(&s);
	x->searching = !x->masked && s.n_values;
	if (x->masked)
		ask_searchable(&x->req);
	x->judged(x, REFUSE_NONE);
}

static void judged(struct judging *j, enum verdict v)
{
	struct exchange *x = container_of(j, struct exchange, judging);
	if (v != VERDICT_ALLOW)
		refuse(x, REFUSE_POLICY);
	else if (x->o->failed) // only now: what the policy refuses is told as that, whether the host is there or not
		refuse(x, x->o->failed);
	else
		allowed(x);
}

// As host_port_parse, for a connection that dialled an address.
static int literal_parse(const char *authority, struct host_name *h, uint16_t *port, struct err *e)
{
	struct range a;
	struct str text;
	*port = 0;
	if (range_split(authority, strlen(authority), &a, &text, e) || (text.p && port_parse(text.p, text.n, port, e)))
		return -1;
	if (!range_is_one(&a))
		return err_set(e, ERR_INVALID, "a range is no host");
	host_of_range(&a, h);
	return 0;
}

// The one name of the connection, with its port or, where that is the scheme's own, without.
static bool is_for_host(struct exchange *x, const char *authority)
{
	struct conn *c = x->o->c;
	struct host_name h;
	uint16_t port;
	struct err e;
	if (!authority || (c->literal ? literal_parse(authority, &h, &port, &e) : host_port_parse(authority, strlen(authority), &h, &port, &e))) {
		gate_denied(x->o->g, c, "request", "no usable Host", NULL);
		return false;
	}
	if (host_equal(&h, &c->host) && (!port || port == c->port))
		return true;
	auto_free char *why = xasprintf("the request is for %s:%u", h.s, port ? port : c->port);
	gate_denied(x->o->g, c, "request", why, NULL);
	return false;
}

static bool is_passable(const struct head *req)
{
	if (!strcmp(req->method, "CONNECT") || !strcmp(req->method, "TRACE"))
		return false;
	if (!strcmp(req->path, "*"))
		return !strcmp(req->method, "OPTIONS");
	return req->path[0] == '/' && !strchr(req->path, '#');
}

// Where rules look at method and path, nothing else in the request may say another one.
static void deny_override(struct exchange *x, const char *other)
{
	auto_free char *why = xasprintf("%s may say another method or path than the one that is judged", other);
	gate_denied(x->o->g, x->o->c, "request", why, NULL);
}

static bool is_what_it_says(struct exchange *x)
{
	struct conn *c = x->o->c;
	struct looked_at counts = policy_looks_at(&c->g->policy, &c->host, c->port);
	const char *other = head_override(&x->req, counts);
	form_scan_begin(&x->form, &x->req, counts);
	if (other)
		deny_override(x, other);
	return !other;
}

void exchange_begin(struct exchange *x, const char *authority)
{
	x->begun = true;
	x->method = xstrdup(x->req.method);
	x->path = xstrndup(x->req.path, strnlen(x->req.path, EVENT_PATH));
	if (!is_passable(&x->req)) {
		gate_denied(x->o->g, x->o->c, "request", "not a request the gate passes on", NULL);
		refuse(x, REFUSE_BAD);
		return;
	}
	if (!is_for_host(x, authority)) {
		refuse(x, REFUSE_HOST);
		return;
	}
	if (!is_what_it_says(x)) {
		refuse(x, REFUSE_POLICY);
		return;
	}
	// The query is not part of the question: rules do not look at it, and a person answers for the place.
	auto_free char *place = xstrndup(x->req.path, strcspn(x->req.path, "?"));
	enum verdict v = gate_judge(x->o->c, &x->judging, x->req.method, place);
	if (v != VERDICT_ASK)
		judged(&x->judging, v);
}

// Who answered a question meant this request; a new rule can take back only what a rule gave.
bool exchange_is_allowed(struct exchange *x)
{
	struct conn *c = x->o ? x->o->c : NULL;
	if (!x->begun || x->refused || x->judging.ask)
		return true;
	enum verdict v = policy_judge(&c->g->policy, &(struct request){&c->host, c->port, x->method, x->path}, NULL);
	if (v == VERDICT_ALLOW || (v == VERDICT_ASK && !x->judging.rule))
		return true;
	gate_denied(x->o->g, c, "policy", "the new policy does not allow the request under way", x->judging.rule);
	judging_done(&x->judging); // the rule let it through: it is not what refuses it
	return false;
}

static bool found_stray(struct exchange *x, const char *name)
{
	if (!name)
		return false;
	deny_secret(x, name);
	x->refused = REFUSE_SECRET;
	return true;
}

bool exchange_up(struct exchange *x, const char *p, size_t n)
{
	struct swap s = opened_swap(x->o);
	x->up += n;
	if (form_scan_add(&x->form, p, n)) {
		deny_override(x, "a field of the form");
		x->refused = REFUSE_POLICY;
		return false;
	}
	return !found_stray(x, x->searching ? swap_search_add(&s, &x->search, p, n) : NULL);
}

bool exchange_up_trailer(struct exchange *x, struct head *trailer)
{
	struct swap s = opened_swap(x->o);
	return !found_stray(x, swap_trailer(&s, trailer));
}

static void mask_field(struct mask_set *set, struct field *f)
{
	auto_buf struct buf b = BUF_INIT(1 << 20);
	if (mask_text(set, f->value, strlen(f->value), &b))
		head_value(f, buf_cstr(&b), b.n, false);
	buf_clear(&b);
	if (!mask_text(set, f->name, strlen(f->name), &b))
		return;
	free(f->name);
	f->name = xstrdup("x-skep-masked"); // a placeholder may be no name for a field
}

static bool is_plain_coding(const struct head *h)
{
	for (size_t i = 0; i < h->n; i++)
		if (!strcasecmp(h->f[i].name, "Content-Encoding") && h->f[i].value[0] &&
		    strcasecmp(h->f[i].value, "identity"))
			return false;
	return true;
}

enum refusal exchange_answer(struct exchange *x, struct head *a)
{
	bool upgrade = a->status == 101;
	if (a->status >= 200 || upgrade)
		x->status = a->status;
	else if (a->status && ++x->interim > INTERIM_MAX)
		return REFUSE_ANSWER;
	if (!x->masked)
		return REFUSE_NONE;
	if (a->status >= 200 && !is_plain_coding(a)) {
		x->refused = REFUSE_CODING;
		return REFUSE_CODING;
	}
	struct mask_set *set = opened_masks(x->o);
	for (size_t i = 0; i < a->n; i++)
		if (set)
			mask_field(set, &a->f[i]);
	if (a->status >= 200 || upgrade) { // a masked body has another length and another identity
		head_drop(a, "ETag");
		head_drop(a, "Accept-Ranges");
		mask_done(&x->mask);
		mask_init(&x->mask, set, upgrade);
	} else {
		mask_set_put(set);
	}
	return REFUSE_NONE;
}

void exchange_down(struct exchange *x, const char *p, size_t n, bool end, struct buf *out)
{
	x->down += n;
	mask_add(&x->mask, p, n, end, out);
	if (mask_holds(&x->mask))
		timer_set(&x->o->g->loop, &x->late, HELD_MS);
	else
		timer_clear(&x->o->g->loop, &x->late);
}

// The gate's own no; everything else is what became of a request that it let through.
static bool is_denial(enum refusal r)
{
	return r == REFUSE_BAD || r == REFUSE_HOST || r == REFUSE_POLICY || r == REFUSE_SECRET || r == REFUSE_ADDRESS || r == REFUSE_CERT;
}

static void tell(struct exchange *x)
{
	auto_buf struct buf b = BUF_INIT(EVENT_MAX);
	struct jsonw w = {.b = &b};
	jw_kstr(&w, "verdict", is_denial(x->refused) ? "deny" : "allow");
	jw_kstr(&w, "method", x->method);
	jw_kstr(&w, "path", x->path);
	if (x->status)
		jw_ku64(&w, "status", (uint64_t)x->status);
	jw_kstr(&w, "rule", x->judging.rule);
	jw_ku64(&w, "bytes_out", x->up);
	jw_ku64(&w, "bytes_in", x->down);
	jw_ku64(&w, "ms", clock_ms() - x->began_ms);
	if (x->refused && x->refused == x->o->failed)
		jw_kstr(&w, "error", x->o->error);
	if (x->secrets)
		jw_kstrv(&w, "secrets", x->secrets);
	if (x->mask.found)
		jw_ku64(&w, "masked", x->mask.found);
	gate_event(x->o->g, x->o->c, "net.request", &b);
}

void exchange_done(struct exchange *x)
{
	if (x->begun)
		tell(x);
	if (x->o)
		timer_clear(&x->o->g->loop, &x->late);
	judging_done(&x->judging);
	head_done(&x->req);
	mask_done(&x->mask);
	strv_free(x->secrets);
	free(x->method);
	free(x->path);
	*x = (struct exchange){0};
}
