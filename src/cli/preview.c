// SPDX-License-Identifier: Apache-2.0
// preview: a link to a port of a sandbox, printed, and opened where there is a desktop to open it on.
#include "base/json.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "cli/api.h"
#include "cli/out.h"
#include "cli/verbs.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct preview_opts {
	uint64_t ttl;
	bool no_open, revoke, json;
};

static const struct opt preview_opts[] = {
	VALUE(OPT_DURATION, AT(struct preview_opts, ttl), "ttl", 0, "D", "the link works for this long (default: 12h, at most 30d)"),
	FLAG(AT(struct preview_opts, no_open), "no-open", 0, "print the link only"),
	FLAG(AT(struct preview_opts, revoke), "revoke", 0, "take back a LINK, or all links of a sandbox or of its PORT"),
	FLAG(AT(struct preview_opts, json), "json", 0, "print JSON"),
	OPTS_END,
};

static bool names_port(const char *word)
{
	uint64_t port;
	return !str_to_u64(str_of(word), 1, UINT16_MAX, &port);
}

// A link may be made before its server is there; who made it by mistake should know.
static void warn_closed(struct api *a, const char *id, uint64_t port)
{
	auto_free char *path = api_path("/v1/sandboxes", id, NULL);
	struct err ignored;
	auto_json json_t *s = api_json(a, "GET", path, NULL, &ignored);
	auto_buf struct buf b = BUF_INIT(4096);
	const json_t *ports = json_object_get(s, "ports");
	size_t i;
	json_t *p;
	buf_fmt(&b, "skep: nothing listens on port %llu of it yet", (unsigned long long)port);
	json_array_foreach(ports, i, p)
	{
		if (json_u64(p, "port") == port)
			return;
		buf_fmt(&b, "%s%llu", i ? ", " : "; open are ", (unsigned long long)json_u64(p, "port"));
	}
	buf_byte(&b, '\n');
	if (s)
		out_stderr(&b);
}

// The one port that is open.
static int only_port(struct api *a, const char *id, uint64_t *out, struct err *e)
{
	auto_free char *path = api_path("/v1/sandboxes", id, NULL);
	auto_json json_t *s = api_json(a, "GET", path, NULL, e);
	auto_buf struct buf open = BUF_INIT(4096);
	size_t i;
	json_t *p;
	if (!s)
		return -1;
	const json_t *ports = json_object_get(s, "ports");
	json_array_foreach(ports, i, p) buf_fmt(&open, "%s%llu", i ? ", " : "", (unsigned long long)(*out = json_u64(p, "port")));
	if (json_array_size(ports) == 1)
		return 0;
	if (!json_array_size(ports))
		return err_set(e, ERR_NOT_FOUND, "no port of sandbox %s is open: start a server in it, or name the port it will have", json_str(s, "id"));
	return err_set(e, ERR_INVALID, "several ports are open (%s): name one", buf_cstr(&open));
}

// The link was printed already: where there is no desktop, that is all.
static int open_link(const struct call *c, const char *url)
{
	struct err e;
	auto_free char *program = proc_find(getenv("PATH"), "xdg-open"), *copy = xstrdup(url);
	char name[] = "xdg-open", *argv[] = {name, copy, NULL};
	if (!program || (!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY")))
		return 0;
	return proc_spawn(&(struct proc_spec){.path = program, .argv = argv, .env = environ, .new_session = true}, &e) < 0 ? out_fail(c, &e) : 0;
}

static json_t *ask(struct api *a, const char *id, uint64_t port, uint64_t ttl, struct err *e)
{
	auto_buf struct buf body = BUF_INIT(256);
	auto_free char *path = api_path("/v1/sandboxes", id, "preview");
	struct jsonw w = {.b = &body};
	jw_open(&w, '{');
	jw_ku64(&w, "port", port);
	if (ttl != OPT_UNSET)
		jw_ku64(&w, "ttl_ms", ttl);
	jw_close(&w, '}');
	return api_json(a, "POST", path, buf_cstr(&body), e);
}

// --- taking links back ---

struct link {
	char *id, *port, *sign; // owned
};

static void link_done(struct link *l)
{
	free(l->id);
	free(l->port);
	free(l->sign);
}

// http://PORT-ID.HOST/?skep_preview=SIGN, or http://HOST/preview/ID/PORT/?…
static int link_parse(const char *url, struct link *out, struct err *e)
{
	static const char query[] = "skep_preview=", path[] = "/preview/";
	const char *host = strstr(url, "://"), *sign = strstr(url, query), *at = strstr(url, path);
	struct str rest = str_of(at ? at + sizeof path - 1 : host ? host + 3 : ""), a, b;
	bool ok = sign && str_next(&rest, at ? '/' : '-', &a) && str_next(&rest, at ? '/' : '.', &b) && rest.p;
	if (!ok)
		return err_set(e, ERR_INVALID, "this is not a link of skep preview: give all of it, in quotes");
	*out = (struct link){.id = at ? xstrndup(a.p, a.n) : xstrndup(b.p, b.n), .port = at ? xstrndup(b.p, b.n) : xstrndup(a.p, a.n),
			     .sign = xstrndup(sign + sizeof query - 1, strcspn(sign + sizeof query - 1, "&#"))};
	return 0;
}

static bool is_plain(const char *s)
{
	return s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-")] == 0;
}

static int take_back(struct api *a, const struct link *l, struct err *e)
{
	auto_buf struct buf query = BUF_INIT(512);
	if ((l->port && !is_plain(l->port)) || (l->sign && !is_plain(l->sign)))
		return err_set(e, ERR_INVALID, "this is not a link of skep preview: give all of it, in quotes");
	buf_str(&query, "preview");
	if (l->port)
		buf_fmt(&query, "?port=%s", l->port);
	if (l->sign)
		buf_fmt(&query, "&signature=%s", l->sign);
	auto_free char *target = api_path("/v1/sandboxes", l->id, buf_cstr(&query));
	return api_do(a, "DELETE", target, NULL, e);
}

static int revoke_run(const struct call *c, struct api *a)
{
	struct err e;
	struct link l = {0};
	int rc = 0;
	if (c->n_words && strstr(c->words[0], "://")) {
		rc = c->n_words == 1 ? link_parse(c->words[0], &l, &e) : err_set(&e, ERR_INVALID, "a link names its port itself");
	} else {
		bool alone = c->n_words == 1 && names_port(c->words[0]);
		const char *port = alone ? c->words[0] : c->n_words == 2 ? c->words[1] : NULL;
		l.id = c->n_words && !alone ? xstrdup(c->words[0]) : api_default_id(a, &e);
		l.port = port ? xstrdup(port) : NULL;
		rc = l.id ? 0 : -1;
	}
	if (!rc)
		rc = take_back(a, &l, &e);
	link_done(&l);
	return rc ? out_fail(c, &e) : 0;
}

static int preview_run(const struct call *c)
{
	const struct preview_opts *o = c->opts;
	struct err e;
	uint64_t port = 0;
	auto_api struct api a = API_CLOSED;
	auto_buf struct buf line = BUF_INIT(4096);
	if (api_open(&a, &e))
		return out_fail(c, &e);
	if (o->revoke)
		return revoke_run(c, &a);
	bool alone = c->n_words == 1 && names_port(c->words[0]); // a port of the sandbox of this directory
	auto_free char *id = c->n_words && !alone ? xstrdup(c->words[0]) : api_default_id(&a, &e);
	if (!id)
		return out_fail(c, &e);
	const char *word = c->n_words == 2 ? c->words[1] : alone ? c->words[0] : NULL;
	if (word && str_to_u64(str_of(word), 1, UINT16_MAX, &port)) {
		err_set(&e, ERR_INVALID, "%.40s is no port: give a number from 1 to 65535", word);
		return out_usage(c, &e);
	}
	if (!word && only_port(&a, id, &port, &e))
		return out_fail(c, &e);
	auto_json json_t *j = ask(&a, id, port, o->ttl, &e);
	if (!j)
		return out_fail(c, &e);
	if (o->json)
		return out_json(j);
	if (word)
		warn_closed(&a, id, port);
	out_text(&line, json_str(j, "url"));
	buf_byte(&line, '\n');
	int status = out_flush(&line);
	return status || o->no_open || !isatty(STDOUT_FILENO) ? status : open_link(c, json_str(j, "url"));
}

const struct cmd cmd_preview = {
	.name = "preview",
	.args = "[ID|LINK] [PORT]",
	.help = "print a link to a port of a sandbox, and open it",
	.notes = "Who has the link may use that port until it expires, and nothing else. Without PORT: the one that is open.\n"
		 "On a terminal with a desktop the link is opened (xdg-open). With --revoke links end now, and with them what they let in.",
	.opts = preview_opts,
	.opts_size = sizeof(struct preview_opts),
	.max_words = 2,
	.tail = -1,
	.hint = HINT_SANDBOX,
	.run = preview_run,
};
