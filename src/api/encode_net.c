// SPDX-License-Identifier: Apache-2.0
// Policies, verdicts, secrets (never their values), questions and trust as JSON.
#include "api/code.h"

#include "base/mem.h"
#include "engine/net.h"
#include "model/project.h"
#include <string.h>

static void secret_place(struct jsonw *w, int as, const char *key)
{
	const char *name = secret_as_name((enum secret_as)as);
	auto_free char *place = key ? xasprintf("%s:%s", name, key) : xstrdup(name);
	jw_kstr(w, "as", place);
}

void encode_secret(struct jsonw *w, const struct secret_row *r)
{
	jw_open(w, '{');
	jw_kstr(w, "name", r->name);
	jw_kstr(w, "host", r->host);
	jw_ku64(w, "port", r->port);
	secret_place(w, r->as, r->key);
	jw_ntime(w, "created", r->created);
	jw_ntime(w, "used", r->used);
	jw_close(w, '}');
}

int encode_policy(struct jsonw *w, struct engine *g, const struct sandbox *s, struct err *e)
{
	struct policy p = {0};
	char **notices = NULL;
	if (engine_policy(g, s->id, &p, &notices, e)) {
		strv_free(notices);
		return -1;
	}
	auto_buf struct buf json = BUF_INIT(POLICY_WIRE);
	policy_json(&json, &p);
	jw_open(w, '{');
	jw_kstr(w, "sandbox", s->id);
	jw_kstr(w, "phase", s->net.phase ? s->net.phase : "agent");
	jw_kbool(w, "live", s->state == STATE_RUNNING || s->state == STATE_PAUSED);
	jw_key(w, "policy");
	jw_raw(w, buf_cstr(&json));
	encode_notices(w, notices);
	jw_close(w, '}');
	strv_free(notices);
	policy_done(&p);
	return 0;
}

static void reason_of_address(struct buf *b, const struct policy *p, const struct host_name *h)
{
	struct range a;
	const char *kind = range_of_host(h, &a) ? range_kind(&a) : NULL;
	if (kind)
		buf_fmt(b, "it is a %s address, and no rule names it or a range of that kind", kind);
	else if (policy_has_ranges(p))
		buf_str(b, "no range allows it on this port (0.0.0.0/0 and ::/0 do not count while a rule denies a name)");
	else
		buf_str(b, "no rule is for addresses, so none can be dialled");
}

static void reason(struct buf *b, const struct policy *p, const struct request *rq, enum verdict v, const struct rule *why)
{
	bool opens = policy_opens(p, rq->host, rq->port);
	const char *address = policy_address(p, rq->host, rq->port);
	if (why)
		buf_fmt(b, "a rule of %s %s it", why->from ? why->from : "?", v == VERDICT_DENY ? "denies" : "allows");
	else if (host_is_address(rq->host))
		reason_of_address(b, p, rq->host);
	else if (v == VERDICT_ALLOW)
		buf_str(b, "no rule knows it and the preset open allows it");
	else if (v == VERDICT_ASK)
		buf_str(b, "no rule knows it: it is asked, and without an answer refused");
	else if (!policy_names(p, rq->host))
		buf_str(b, "no rule allows it: the name does not even resolve inside");
	else
		buf_str(b, rq->method ? "no rule allows this request" : "no rule allows it on this port");
	if (v == VERDICT_DENY)
		return;
	if (address)
		buf_fmt(b, "; it has the address %s, by that rule", address);
	if (opens && rq->port != 80)
		buf_str(b, "; its TLS is opened and each request is judged");
}

static void put_verdict(struct jsonw *w, const struct policy *p, const struct request *rq)
{
	const struct rule *why = NULL;
	auto_buf struct buf text = BUF_INIT(2 * RULE_TEXT), because = BUF_INIT(8192);
	enum verdict v = policy_judge(p, rq, &why);
	reason(&because, p, rq, v, why);
	if (why)
		rule_print(&text, why);
	jw_kstr(w, "host", rq->host->s);
	jw_ku64(w, "port", rq->port);
	jw_kstr(w, "method", rq->method);
	jw_kstr(w, "path", rq->path);
	jw_kstr(w, "verdict", verdict_name(v));
	jw_kstr(w, "rule", why ? buf_cstr(&text) : NULL);
	jw_kstr(w, "from", why ? why->from : NULL);
	jw_kbool(w, "resolves", !host_is_address(rq->host) && policy_names(p, rq->host));
	jw_kbool(w, "opened", policy_opens(p, rq->host, rq->port));
	jw_kstr(w, "address", policy_address(p, rq->host, rq->port));
	jw_key(w, "secrets");
	jw_open(w, '[');
	for (size_t i = 0; v != VERDICT_DENY && i < p->n_secrets; i++) // what is denied gets none
		if (policy_binds(p, &p->secrets[i], rq->host, rq->port))
			jw_str(w, p->secrets[i].name, strlen(p->secrets[i].name));
	jw_close(w, ']');
	jw_kstr(w, "reason", buf_cstr(&because));
}

// HOST[:PORT], or an address.
static int target_parse(const char *s, struct host_name *h, uint16_t *port, struct err *e)
{
	struct range a;
	struct str text;
	struct err not_one;
	*port = 0;
	if (range_split(s, strlen(s), &a, &text, &not_one))
		return host_port_parse(s, strlen(s), h, port, e);
	if (!range_is_one(&a))
		return err_set(e, ERR_INVALID, "a range: ask for one address of it");
	host_of_range(&a, h);
	return text.p ? port_parse(text.p, text.n, port, e) : 0;
}

int encode_verdict(struct jsonw *w, struct engine *g, const char *sandbox, const struct question *q, struct err *e)
{
	struct policy p = {0};
	struct host_name host;
	struct request rq = {.host = &host, .method = q->method, .path = q->path};
	char **notices = NULL;
	const char *name = q->host ? q->host : "";
	if (target_parse(name, &host, &rq.port, e))
		return err_wrap(e, "%.100s", name);
	rq.port = rq.port ? rq.port : 443;
	if (rq.path && !rq.method)
		rq.method = "GET";
	if (rq.method && !rq.path)
		rq.path = "/";
	int rc = sandbox ? engine_policy(g, sandbox, &p, &notices, e) : engine_policy_for(g, q->cwd, &q->net, &p, &notices, e);
	if (!rc) {
		jw_open(w, '{');
		put_verdict(w, &p, &rq);
		encode_notices(w, notices);
		jw_close(w, '}');
	}
	strv_free(notices);
	policy_done(&p);
	return rc;
}

void encode_ask(struct jsonw *w, const struct ask_row *a)
{
	jw_open(w, '{');
	jw_ku64(w, "ask", a->id);
	jw_kstr(w, "host", a->host);
	jw_ku64(w, "port", a->port);
	jw_kstr(w, "method", a->method[0] ? a->method : NULL);
	jw_kstr(w, "path", a->method[0] ? a->path : NULL);
	jw_ntime(w, "asked", a->at);
	jw_close(w, '}');
}

void encode_trust(struct jsonw *w, const struct trust_view *v)
{
	auto_buf struct buf effect = BUF_INIT(4u << 20);
	if (v->project)
		project_json(&effect, v->project);
	jw_open(w, '{');
	jw_kstr(w, "state", trust_name(v->state));
	jw_kstr(w, "path", v->path);
	jw_kstr(w, "sha256", v->project ? v->sha256 : NULL);
	jw_kstr(w, "setup_net", v->setup_net);
	jw_key(w, "effect");
	jw_raw(w, v->project && !effect.overflow ? buf_cstr(&effect) : "{}");
	jw_close(w, '}');
}

int verdict_parse(const char *s)
{
	for (int v = 0; v < VERDICT_ASK; v++)
		if (!strcmp(verdict_name((enum verdict)v), s))
			return v;
	return -1;
}

int check_net(struct engine *g, const struct net_request *n, struct err *e)
{
	struct policy p;
	char **notices = NULL;
	int rc = engine_policy_for(g, NULL, n, &p, &notices, e);
	strv_free(notices);
	if (!rc)
		policy_done(&p);
	return rc;
}
