// SPDX-License-Identifier: Apache-2.0
// trust: what a project's file asks for, and the user's yes to exactly that.
#include "base/jsonw.h"
#include "base/mem.h"
#include "cli/api.h"
#include "cli/out.h"
#include "cli/prompt.h"
#include "cli/request.h"
#include "cli/term.h"
#include "cli/verbs.h"
#include <string.h>
#include <unistd.h>

struct trust_opts {
	bool yes, revoke, list, json;
};

static const struct opt trust_opts[] = {
	FLAG(AT(struct trust_opts, yes), "yes", 'y', "agree without being asked"),
	FLAG(AT(struct trust_opts, revoke), "revoke", 0, "take the agreement back"),
	FLAG(AT(struct trust_opts, list), "list", 'l', "list what was agreed to"),
	FLAG(AT(struct trust_opts, json), "json", 0, "print JSON"),
	OPTS_END,
};

static void put_value(struct buf *b, const json_t *v)
{
	auto_buf struct buf text = BUF_INIT(1u << 20);
	if (json_is_string(v))
		buf_str(&text, json_string_value(v));
	else
		json_print(&text, v, 0);
	out_text(b, buf_cstr(&text));
}

// One line per thing: "net allow  api.example.test". Every byte of it comes from the project.
static void put_effect(struct buf *b, const char *label, const json_t *v)
{
	const char *key;
	json_t *m;
	size_t i;
	if (json_is_object(v)) {
		json_object_foreach((json_t *)v, key, m)
		{
			auto_free char *inner = *label ? xasprintf("%s %s", label, key) : xstrdup(key);
			put_effect(b, inner, m);
		}
	} else if (json_is_array(v)) {
		json_array_foreach(v, i, m) put_effect(b, label, m);
	} else {
		buf_str(b, "  ");
		out_text(b, label);
		buf_str(b, ": ");
		put_value(b, v);
		buf_byte(b, '\n');
	}
}

static void show(const json_t *view, struct buf *b)
{
	const json_t *effect = json_object_get(view, "effect");
	out_text(b, json_str(view, "path"));
	buf_fmt(b, " (sha256 %s) is %s\n", json_str(view, "sha256"), json_str(view, "state"));
	if (json_object_size(json_object_get(effect, "now"))) {
		buf_str(b, "it says, inside the boundary and without trust:\n");
		put_effect(b, "", json_object_get(effect, "now"));
	}
	if (json_object_size(json_object_get(effect, "after_trust"))) {
		buf_str(b, "it asks for, and gets when it is trusted:\n");
		put_effect(b, "", json_object_get(effect, "after_trust"));
	}
}

static int agree(struct api *a, const char *dir, const json_t *view, struct err *e)
{
	auto_buf struct buf body = BUF_INIT(64 << 10);
	struct jsonw w = {.b = &body};
	jw_open(&w, '{');
	jw_kstr(&w, "dir", dir);
	jw_kstr(&w, "sha256", json_str(view, "sha256"));
	jw_close(&w, '}');
	return api_do(a, "POST", "/v1/trust", buf_cstr(&body), e);
}

static char *with_dir(const char *dir)
{
	auto_buf struct buf b = BUF_INIT(64 << 10);
	buf_str(&b, "/v1/trust?dir=");
	http_encode(&b, dir);
	return buf_take(&b);
}

static int list(const struct call *c, struct api *a)
{
	const struct trust_opts *o = c->opts;
	struct err e;
	auto_buf struct buf b = BUF_INIT(HTTP_BODY_MAX);
	auto_json json_t *j = api_json(a, "GET", "/v1/trust", NULL, &e);
	struct table t = {.n_cols = 2};
	size_t i;
	json_t *r;
	if (!j)
		return out_fail(c, &e);
	if (o->json)
		return out_json(j);
	json_array_foreach(json_object_get(j, "trusted"), i, r)
	{
		table_add(&t, json_str(r, "path"));
		table_add(&t, json_str(r, "sha256"));
	}
	table_print(&t, &b);
	return out_flush(&b);
}

static bool needs_yes(const char *state)
{
	return !strcmp(state, "untrusted") || !strcmp(state, "changed");
}

// Shown before it is asked; agreed to is what was shown, by its hash.
static int look_and_ask(const struct call *c, struct api *a, const char *dir)
{
	const struct trust_opts *o = c->opts;
	struct err e;
	auto_free char *path = with_dir(dir);
	auto_buf struct buf b = BUF_INIT(HTTP_BODY_MAX);
	auto_json json_t *view = api_json(a, "GET", path, NULL, &e);
	if (!view)
		return out_fail(c, &e);
	const char *state = json_str(view, "state");
	if (!strcmp(state, "none")) {
		err_set(&e, ERR_NOT_FOUND, "there is no %s", json_str(view, "path"));
		return out_fail(c, &e);
	}
	if (o->json)
		return needs_yes(state) && o->yes && agree(a, dir, view, &e) ? out_fail(c, &e) : out_json(view);
	if (needs_yes(state) && !o->yes)
		prompt_begin(); // also what is shown must stay readable
	show(view, &b);
	if (!strcmp(state, "nothing"))
		buf_str(&b, "nothing in it needs trust\n");
	if (out_flush(&b))
		return 1;
	if (!needs_yes(state))
		return 0;
	if (!o->yes && !term_ask_yes("trust exactly this? [y/N] ")) {
		err_set(&e, ERR_DENIED, "not trusted (--yes agrees without being asked)");
		return out_fail(c, &e);
	}
	return agree(a, dir, view, &e) ? out_fail(c, &e) : 0;
}

static int trust_run(const struct call *c)
{
	const struct trust_opts *o = c->opts;
	struct err e;
	auto_api struct api a = API_CLOSED;
	auto_free char *dir = request_path("", c->n_words ? c->words[0] : ".", &e);
	if (!dir || api_open(&a, &e))
		return out_fail(c, &e);
	if (o->list)
		return list(c, &a);
	if (!o->revoke)
		return look_and_ask(c, &a, dir);
	auto_free char *path = with_dir(dir);
	return api_do(&a, "DELETE", path, NULL, &e) ? out_fail(c, &e) : 0;
}

const struct cmd cmd_trust = {
	.name = "trust",
	.args = "[DIR]",
	.help = "look at what a project's .skep.yaml asks for, and agree to it",
	.notes = "Until then its net, secrets, mounts, limits above the default and variables that make programs run or load\n"
		 "something are ignored. The agreement is to this path with this content: a change in the file ends it.\n"
		 "Exit status 5 when not agreed.",
	.opts = trust_opts,
	.opts_size = sizeof(struct trust_opts),
	.max_words = 1,
	.tail = -1,
	.hint = HINT_DIR,
	.here = "what a directory may is said on its own machine, by the daemon's own user",
	.run = trust_run,
};
