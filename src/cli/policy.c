// SPDX-License-Identifier: Apache-2.0
// policy: what a sandbox may reach, who said so, and changing it while it runs. suggest is in suggest.c.
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/api.h"
#include "cli/home.h"
#include "cli/net.h"
#include "cli/out.h"
#include "cli/registries.h"
#include "cli/verbs.h"
#include <string.h>
#include <unistd.h>

struct policy_opts {
	struct net_opts net;
	char **remove;
	bool no_ask, user, json;
	const char *phase, *method, *path;
};

#define POLICY_AT(member) offsetof(struct policy_opts, member)
static const struct opt show_opts[] = {
	FLAG(POLICY_AT(user), "user", 0, "the rules that stand for all your sandboxes instead"),
	FLAG(POLICY_AT(json), "json", 0, "print JSON"),
	OPTS_END,
};

static const struct opt set_opts[] = {
	NET_ROWS(POLICY_AT(net)),
	FLAG(POLICY_AT(no_ask), "no-ask", 0, "refuse what no rule knows, without asking"),
	VALUE(OPT_LIST, POLICY_AT(remove), "remove", 0, "RULE|NAME", "take back a rule or a secret given before"),
	CHOICE(POLICY_AT(phase), "phase", 0, "PHASE", "whose rules of the project count", "agent|setup"),
	FLAG(POLICY_AT(user), "user", 0, "for all your sandboxes: only --allow, --deny and --remove"),
	FLAG(POLICY_AT(json), "json", 0, "print JSON"),
	OPTS_END,
};

static const struct opt check_opts[] = {
	NET_ROWS(POLICY_AT(net)),
	VALUE(OPT_STR, POLICY_AT(method), "method", 0, "METHOD", "ask about a request, not the connection"),
	VALUE(OPT_STR, POLICY_AT(path), "path", 0, "PATH", "the path of that request"),
	FLAG(POLICY_AT(json), "json", 0, "print JSON"),
	OPTS_END,
};

static const struct opt explain_opts[] = {
	VALUE(OPT_STR, POLICY_AT(method), "method", 0, "METHOD", "ask about a request, not the connection"),
	VALUE(OPT_STR, POLICY_AT(path), "path", 0, "PATH", "the path of that request"),
	FLAG(POLICY_AT(json), "json", 0, "print JSON"),
	OPTS_END,
};

static void put_rules(struct buf *b, const json_t *rules)
{
	struct table t = {.n_cols = 3};
	size_t i;
	json_t *r;
	table_add(&t, "VERDICT");
	table_add(&t, "RULE");
	table_add(&t, "FROM");
	json_array_foreach(rules, i, r)
	{
		table_add(&t, *json_str(r, "rule") == '!' ? "deny" : "allow");
		table_add(&t, json_str(r, "rule"));
		table_add(&t, json_str(r, "from"));
	}
	table_print(&t, b);
}

static int show_policy(const json_t *answer)
{
	auto_buf struct buf b = BUF_INIT(HTTP_BODY_MAX);
	const json_t *p = json_object_get(answer, "policy");
	size_t i;
	json_t *s;
	if (json_array_size(json_object_get(p, "rules")))
		put_rules(&b, json_object_get(p, "rules"));
	json_array_foreach(json_object_get(p, "secrets"), i, s)
	{
		const char *key = json_str(s, "key");
		buf_fmt(&b, "secret %s: to %s:%llu, as %s%s%s\n", json_str(s, "name"), json_str(s, "host"),
			(unsigned long long)json_u64(s, "port"), json_str(s, "as"), *key ? ":" : "", key);
	}
	buf_fmt(&b, "everything else: %s\n", json_str(p, "otherwise"));
	net_notices(answer);
	return out_flush(&b);
}

static int show_user_rules(const json_t *j)
{
	auto_buf struct buf b = BUF_INIT(HTTP_BODY_MAX);
	size_t i;
	json_t *r;
	json_array_foreach(json_object_get(j, "rules"), i, r)
	{
		out_text(&b, json_string_value(r) ? json_string_value(r) : "");
		buf_byte(&b, '\n');
	}
	return out_flush(&b);
}

static char *policy_path(struct api *a, const struct call *c, bool user, struct err *e)
{
	if (user)
		return xstrdup("/v1/policy");
	auto_free char *id = c->n_words ? xstrdup(c->words[0]) : api_default_id(a, e);
	return id ? api_path("/v1/sandboxes", id, "policy") : NULL;
}

static int show_run(const struct call *c)
{
	const struct policy_opts *o = c->opts;
	struct err e;
	auto_api struct api a = API_CLOSED;
	if (api_open(&a, &e))
		return out_fail(c, &e);
	auto_free char *path = policy_path(&a, c, o->user, &e);
	auto_json json_t *j = path ? api_json(&a, "GET", path, NULL, &e) : NULL;
	if (!j)
		return out_fail(c, &e);
	return o->json ? out_json(j) : o->user ? show_user_rules(j) : show_policy(j);
}

static int check_set(const struct policy_opts *o, struct err *e)
{
	const struct net_opts *n = &o->net;
	if (net_check(n, e))
		return -1;
	if (n->ask && o->no_ask)
		return err_set(e, ERR_INVALID, "--ask and --no-ask exclude each other");
	bool more = n->preset || n->secrets || n->expose || n->ask || o->no_ask || o->phase;
	if (o->user && more)
		return err_set(e, ERR_INVALID, "--user takes only --allow, --deny and --remove");
	if (!more && !n->allow && !n->deny && !o->remove)
		return err_set(e, ERR_INVALID, "nothing to set: give --net, --allow, --deny, --secret or --remove");
	return 0;
}

static int put_set(struct buf *b, const struct policy_opts *o, bool registries, struct err *e)
{
	struct jsonw w = {.b = b};
	struct known r = {0};
	if ((registries || net_names_registries(&o->net)) && known_registries(NULL, &r, e))
		return -1;
	jw_open(&w, '{');
	net_put(&w, &o->net, r.list);
	known_done(&r);
	if (o->no_ask)
		jw_kbool(&w, "ask", false);
	if (o->remove)
		jw_kstrv(&w, "remove", o->remove);
	jw_kstr(&w, "phase", o->phase);
	jw_close(&w, '}');
	return 0;
}

static json_t *send_set(struct api *a, const char *path, const struct policy_opts *o, struct err *e)
{
	for (int registries = 0;; registries++) {
		auto_buf struct buf body = BUF_INIT(HTTP_BODY_MAX);
		if (put_set(&body, o, registries, e))
			return NULL;
		json_t *j = api_json(a, "POST", path, buf_cstr(&body), e);
		if (j || registries || !net_needs_registries(e))
			return j;
	}
}

static int set_run(const struct call *c)
{
	const struct policy_opts *o = c->opts;
	struct err e;
	auto_api struct api a = API_CLOSED;
	if (check_set(o, &e))
		return out_usage(c, &e);
	if (api_open(&a, &e))
		return out_fail(c, &e);
	auto_free char *path = policy_path(&a, c, o->user, &e);
	auto_json json_t *j = path ? send_set(&a, path, o, &e) : NULL;
	if (!j)
		return out_fail(c, &e);
	if (o->json)
		return out_json(j);
	net_notices(j);
	return 0;
}

static int put_question(struct buf *b, const struct policy_opts *o, const char *host, bool registries, struct err *e)
{
	struct jsonw w = {.b = b};
	struct known r = {0};
	auto_free char *cwd = home_remote() ? NULL : getcwd(NULL, 0);
	if (registries && known_registries(NULL, &r, e))
		return -1;
	jw_open(&w, '{');
	jw_kstr(&w, "host", host);
	jw_kstr(&w, "method", o->method);
	jw_kstr(&w, "path", o->path);
	if (cwd && str_is_utf8(cwd, strlen(cwd)))
		jw_kstr(&w, "cwd", cwd);
	net_put(&w, &o->net, r.list);
	known_done(&r);
	jw_close(&w, '}');
	return 0;
}

static json_t *ask(struct api *a, const char *path, const struct policy_opts *o, const char *host, struct err *e)
{
	for (bool registries = net_names_registries(&o->net);; registries = true) {
		auto_buf struct buf body = BUF_INIT(HTTP_BODY_MAX);
		if (put_question(&body, o, host, registries, e))
			return NULL;
		json_t *j = api_json(a, "POST", path, buf_cstr(&body), e);
		if (j || registries || !net_needs_registries(e))
			return j;
	}
}

static int print_verdict(const json_t *j, bool json)
{
	auto_buf struct buf b = BUF_INIT(64 << 10);
	const char *rule = json_str(j, "rule");
	size_t i;
	json_t *s;
	if (json)
		return out_json(j);
	buf_fmt(&b, "%s %s:%llu", json_str(j, "verdict"), json_str(j, "host"), (unsigned long long)json_u64(j, "port"));
	if (*rule) {
		buf_str(&b, "  (");
		out_text(&b, rule);
		buf_str(&b, ", from ");
		out_text(&b, json_str(j, "from"));
		buf_byte(&b, ')');
	}
	buf_byte(&b, '\n');
	out_text(&b, json_str(j, "reason"));
	buf_byte(&b, '\n');
	json_array_foreach(json_object_get(j, "secrets"), i, s)
		buf_fmt(&b, "secret %s is used there\n", json_string_value(s) ? json_string_value(s) : "");
	net_notices(j);
	return out_flush(&b);
}

static int check_run(const struct call *c)
{
	const struct policy_opts *o = c->opts;
	struct err e;
	auto_api struct api a = API_CLOSED;
	if (net_check(&o->net, &e))
		return out_usage(c, &e);
	auto_json json_t *j = api_open(&a, &e) ? NULL : ask(&a, "/v1/policy/check", o, c->words[0], &e);
	if (!j)
		return out_fail(c, &e);
	if (print_verdict(j, o->json))
		return 1;
	return strcmp(json_str(j, "verdict"), "allow") ? out_exit_of(ERR_DENIED) : 0;
}

static int explain_run(const struct call *c)
{
	const struct policy_opts *o = c->opts;
	struct err e;
	auto_api struct api a = API_CLOSED;
	if (api_open(&a, &e))
		return out_fail(c, &e);
	auto_free char *id = c->n_words > 1 ? xstrdup(c->words[0]) : api_default_id(&a, &e);
	auto_free char *path = id ? api_path("/v1/sandboxes", id, "policy/explain") : NULL;
	auto_json json_t *j = path ? ask(&a, path, o, c->words[c->n_words - 1], &e) : NULL;
	return j ? print_verdict(j, o->json) : out_fail(c, &e);
}

const struct cmd cmd_policy_show = {
	.name = "policy show",
	.args = "[ID]",
	.help = "show what a sandbox may reach, and who said so",
	.notes = "In the order of judging: any rule that denies counts first, then those that allow, then what is said\n"
		 "of everything else.",
	.opts = show_opts,
	.opts_size = sizeof(struct policy_opts),
	.max_words = 1,
	.tail = -1,
	.hint = HINT_SANDBOX,
	.run = show_run,
};

const struct cmd cmd_policy_set = {
	.name = "policy set",
	.args = "[ID]",
	.help = "change what a sandbox may reach; it need not be restarted",
	.notes = "Rules are added to those given before. Connections under way are judged again.\n"
		 "RULE is [METHOD ][*.]HOST[:PORT][/PATH][=ADDRESS] [open|pass]; without PORT 80 and 443 are meant.\n"
		 "  *.HOST     every name below HOST, not HOST itself\n"
		 "  RANGE[:PORT]  an address or a range (203.0.113.0/24, [2001:db8::/32]:443) dialled as it is; PORT * is every port\n"
		 "  METHOD, /PATH (a prefix if it ends in *), open: TLS is opened, each request is judged\n"
		 "  =ADDRESS   the name stands for this address, which may be a private one\n"
		 "  pass       TLS is never opened: for programs that pin certificates",
	.opts = set_opts,
	.opts_size = sizeof(struct policy_opts),
	.max_words = 1,
	.tail = -1,
	.hint = HINT_SANDBOX,
	.run = set_run,
};

const struct cmd cmd_policy_check = {
	.name = "policy check",
	.args = "HOST[:PORT]",
	.help = "say whether a new sandbox here could reach a host",
	.notes = "With the options that run and new would be given. Exit status 0 when it is allowed, 5 when not.",
	.opts = check_opts,
	.opts_size = sizeof(struct policy_opts),
	.min_words = 1,
	.max_words = 1,
	.tail = -1,
	.run = check_run,
};

const struct cmd cmd_policy_explain = {
	.name = "policy explain",
	.args = "[ID] HOST[:PORT]",
	.help = "say whether a sandbox may reach a host, and why",
	.opts = explain_opts,
	.opts_size = sizeof(struct policy_opts),
	.min_words = 1,
	.max_words = 2,
	.tail = -1,
	.hint = HINT_SANDBOX,
	.run = explain_run,
};
