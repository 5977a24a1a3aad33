// SPDX-License-Identifier: Apache-2.0
// secret: values that only the gate puts into requests. A value comes from stdin or a prompt, never from argv, where
// every process of the machine could read it, and nothing prints one.
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/api.h"
#include "cli/listing.h"
#include "cli/term.h"
#include "cli/verbs.h"
#include "model/policy.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VALUE_MAX (64u << 10)

struct secret_opts {
	const char *host, *as;
	bool json, quiet;
};

static const struct opt set_opts[] = {
	VALUE(OPT_STR, AT(struct secret_opts, host), "host", 0, "HOST[:PORT]", "the only host it is sent to (port 443; ssh: 22)"),
	HINTED(OPT_STR, HINT_PLACE, AT(struct secret_opts, as), "as", 0, "PLACE",
	       "where it stands: bearer, basic, header:NAME, set:NAME, query:KEY, git, file, ssh"),
	FLAG(AT(struct secret_opts, json), "json", 0, "print JSON"),
	OPTS_END,
};

static const struct opt ls_opts[] = {
	FLAG(AT(struct secret_opts, quiet), "quiet", 'q', "print names only"),
	FLAG(AT(struct secret_opts, json), "json", 0, "print JSON"),
	OPTS_END,
};

static void wipe(struct buf *b)
{
	if (b->p)
		explicit_bzero(b->p, b->cap);
	buf_done(b);
}
#define auto_wiped __attribute__((cleanup(wipe)))

static int read_pipe(struct buf *out, struct err *e)
{
	for (;;) {
		ssize_t n = read(STDIN_FILENO, out->p + out->n, VALUE_MAX - out->n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "read the value");
		if (!n)
			return 0;
		out->n += (size_t)n;
		if (out->n == VALUE_MAX)
			return err_set(e, ERR_LIMIT, "the value is longer than %u bytes", VALUE_MAX - 1);
	}
}

// One line end at the end is not part of it: echo and most editors add one.
static int read_value(const char *name, bool key, struct buf *out, struct err *e)
{
	if (key && isatty(STDIN_FILENO))
		return err_set(e, ERR_INVALID, "a private key has many lines: give its file, as in `skep secret set %s ... < ~/.ssh/id_agent`", name);
	auto_free char *prompt = xasprintf("value of %s (not shown): ", name);
	if (!buf_room(out, VALUE_MAX)) // all at once: growing would leave copies
		return err_set(e, ERR_LIMIT, "no memory for the value");
	if (isatty(STDIN_FILENO) ? term_ask_hidden(prompt, out, e) : read_pipe(out, e))
		return -1;
	if (out->n && out->p[out->n - 1] == '\n')
		out->n--;
	if (out->n && out->p[out->n - 1] == '\r')
		out->n--;
	out->p[out->n] = 0;
	if (!out->n)
		return err_set(e, ERR_INVALID, "the value is empty (give it on stdin)");
	if (memchr(out->p, 0, out->n) || !str_is_utf8(out->p, out->n))
		return err_set(e, ERR_INVALID, "the value is not UTF-8 text");
	return 0;
}

static int check(const struct secret_opts *o, const char *name, struct err *e)
{
	struct host_name host;
	uint16_t port;
	enum secret_as as;
	auto_free char *key = NULL;
	if (!o->host || !o->as)
		return err_set(e, ERR_INVALID, "%s is needed", o->host ? "--as PLACE" : "--host HOST");
	if (!secret_name_is(name))
		return err_set(e, ERR_INVALID, "%.100s: a secret is named like a variable, such as API_TOKEN", name);
	if (host_port_parse(o->host, strlen(o->host), &host, &port, e))
		return err_wrap(e, "--host %.100s", o->host);
	return secret_as_parse(o->as, &as, &key, e) ? err_wrap(e, "--as %.60s", o->as) : 0;
}

static int set_run(const struct call *c)
{
	const struct secret_opts *o = c->opts;
	struct err e;
	auto_api struct api a = API_CLOSED;
	auto_wiped struct buf value = BUF_INIT(VALUE_MAX), body = BUF_INIT(8 * VALUE_MAX);
	struct jsonw w = {.b = &body};
	if (check(o, c->words[0], &e))
		return out_usage(c, &e);
	if (read_value(c->words[0], !strcmp(o->as, "ssh"), &value, &e) || !buf_room(&body, 7 * VALUE_MAX))
		return out_fail(c, &e);
	jw_open(&w, '{');
	jw_kstr(&w, "name", c->words[0]);
	jw_kstr(&w, "host", o->host);
	jw_kstr(&w, "as", o->as);
	jw_kstr(&w, "value", value.p);
	jw_close(&w, '}');
	auto_json json_t *j = api_open(&a, &e) ? NULL : api_json(&a, "POST", "/v1/secrets", buf_cstr(&body), &e);
	if (!j)
		return out_fail(c, &e);
	return o->json ? out_json(j) : 0;
}

static void ls_row(struct table *t, const json_t *s)
{
	auto_free char *host = json_u64(s, "port") == 443 ? xstrdup(json_str(s, "host"))
							  : xasprintf("%s:%llu", json_str(s, "host"), (unsigned long long)json_u64(s, "port"));
	table_add(t, json_str(s, "name"));
	table_add(t, host);
	table_add(t, json_str(s, "as"));
	table_add(t, json_str(s, "created"));
	table_add(t, *json_str(s, "used") ? json_str(s, "used") : "never");
}

static int ls_run(const struct call *c)
{
	static const char *const heads[] = {"NAME", "HOST", "AS", "SET", "USED", NULL};
	const struct secret_opts *o = c->opts;
	return listing_run(c, &(struct listing){.path = "/v1/secrets", .member = "secrets", .id = "name", .heads = heads, .row = ls_row,
						.json = o->json, .quiet = o->quiet});
}

static int rm_run(const struct call *c)
{
	return listing_remove(c, "/v1/secrets");
}

const struct cmd cmd_secret_set = {
	.name = "secret set",
	.args = "NAME",
	.help = "keep a secret for the gate to put into requests to one host",
	.notes = "The value is read from stdin, or asked for on a terminal; one line end at its end is cut off. Inside a\n"
		 "sandbox that was given --secret NAME the variable NAME holds a placeholder, which the gate replaces on\n"
		 "the way to HOST, in PLACE, and nowhere else:\n"
		 "  bearer          Authorization: Bearer; added where a request has no credential of its own\n"
		 "  basic, git      Authorization: Basic: the password, or with a VALUE user:password both\n"
		 "  header:NAME     the value of that header; added likewise\n"
		 "  set:NAME        that header is the value, whatever the request had there; other credentials stay\n"
		 "  query:KEY       the value of that parameter of the URL\n"
		 "  file            Authorization of any kind; the placeholder is also in the file /run/secrets/NAME\n"
		 "  ssh             the private key of an ssh login, without a passphrase: nothing of it is inside. ssh and git\n"
		 "                  ask an agent (SSH_AUTH_SOCK), and the gate signs logins to HOST in connections it passes\n"
		 "Setting it again replaces it, also for sandboxes that run.",
	.opts = set_opts,
	.opts_size = sizeof(struct secret_opts),
	.min_words = 1,
	.max_words = 1,
	.tail = -1,
	.hint = HINT_SECRET,
	.run = set_run,
};

const struct cmd cmd_secret_ls = {
	.name = "secret ls",
	.args = "",
	.help = "list the secrets, without their values",
	.opts = ls_opts,
	.opts_size = sizeof(struct secret_opts),
	.tail = -1,
	.run = ls_run,
};

const struct cmd cmd_secret_rm = {
	.name = "secret rm",
	.args = "NAME...",
	.help = "remove secrets; sandboxes that run lose them at once",
	.min_words = 1,
	.max_words = -1,
	.tail = -1,
	.hint = HINT_SECRET,
	.run = rm_run,
};
