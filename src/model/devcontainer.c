// SPDX-License-Identifier: Apache-2.0
#include "model/devcontainer.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/jsonc.h"
#include <stdlib.h>
#include <string.h>

#define COMMANDS_MAX 64
#define TEXT_MAX (64u << 10) // of all that variables expand to

// --- variables ---

struct reader {
	struct project *p;
	const char *base, *ws_path;
	const json_t *env; // containerEnv
};

static void leave_out(struct reader *r, const char *what, const char *why)
{
	auto_free char *line = xasprintf("%.60s: %s", what, why);
	for (char **v = r->p->left_out; v && *v; v++)
		if (!strcmp(*v, line))
			return;
	strv_add(&r->p->left_out, line);
}

static const char *last_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

// What stands in ${…}; NULL = it is not told. rest: what follows the first ':', NULL = none.
static const char *variable(struct reader *r, struct str name, const char *rest)
{
	if (str_is(name, "containerWorkspaceFolder"))
		return r->ws_path;
	if (str_is(name, "localWorkspaceFolderBasename"))
		return last_name(r->base);
	if (str_is(name, "containerWorkspaceFolderBasename"))
		return last_name(r->ws_path);
	if (!str_is(name, "containerEnv") && !str_is(name, "localEnv"))
		return NULL;
	const char *fallback = rest ? strchr(rest, ':') : NULL;
	auto_free char *key = rest ? xstrndup(rest, fallback ? (size_t)(fallback - rest) : strlen(rest)) : NULL;
	const json_t *v = key && str_is(name, "containerEnv") ? json_object_get(r->env, key) : NULL;
	const char *text = json_is_string(v) ? json_string_value(v) : NULL;
	return text && !strchr(text, '$') ? text : fallback ? fallback + 1 : NULL;
}

// Owned. Nothing of the caller's environment is ever put in; each variable that has no value here is said once.
static char *expand(struct reader *r, const char *text, const char *where)
{
	auto_buf struct buf b = BUF_INIT(TEXT_MAX);
	const char *end;
	for (const char *p = text; *p; p++) {
		if (p[0] != '$' || p[1] != '{' || !(end = strchr(p, '}'))) {
			buf_byte(&b, *p);
			continue;
		}
		auto_free char *inner = xstrndup(p + 2, (size_t)(end - p - 2));
		const char *colon = strchr(inner, ':');
		const char *v = variable(r, (struct str){inner, colon ? (size_t)(colon - inner) : strlen(inner)}, colon ? colon + 1 : NULL);
		auto_free char *why = v ? NULL : xasprintf("${%.60s} has no value in a sandbox and is empty", inner);
		if (v)
			buf_str(&b, v);
		else
			leave_out(r, where, why);
		p = end;
	}
	return b.overflow ? xstrdup("") : buf_take(&b);
}

// --- commands ---

static void quote(struct buf *b, const char *arg)
{
	buf_byte(b, '\'');
	for (; *arg; arg++)
		if (*arg == '\'')
			buf_str(b, "'\\''");
		else
			buf_byte(b, *arg);
	buf_byte(b, '\'');
}

static int bad(const char *key, const char *want, struct err *e)
{
	return err_set(e, ERR_INVALID, "%.60s: %s is wanted here", key, want);
}

static int add_command(struct reader *r, const char *key, const char *text, struct err *e)
{
	auto_free char *line = expand(r, text, key);
	if (strv_len(r->p->setup) >= COMMANDS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d commands", COMMANDS_MAX);
	if (*line)
		strv_add(&r->p->setup, line);
	return 0;
}

// A list is the arguments of one program, started without a shell: quoted it means the same to one.
static int add_argv(struct reader *r, const char *key, const json_t *list, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(TEXT_MAX);
	size_t i;
	json_t *v;
	json_array_foreach(list, i, v)
	{
		if (!json_is_string(v))
			return bad(key, "a list of texts", e);
		auto_free char *arg = expand(r, json_string_value(v), key);
		if (i)
			buf_byte(&b, ' ');
		quote(&b, arg);
	}
	if (strv_len(r->p->setup) >= COMMANDS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d commands", COMMANDS_MAX);
	if (b.n && !b.overflow)
		strv_add(&r->p->setup, b.p);
	return b.overflow ? err_set(e, ERR_LIMIT, "%s is too long", key) : 0;
}

static int add_one(struct reader *r, const char *key, const json_t *v, struct err *e)
{
	if (json_is_string(v))
		return add_command(r, key, json_string_value(v), e);
	return json_is_array(v) ? add_argv(r, key, v, e) : bad(key, "a command, a list of arguments, or a map of those", e);
}

// A map's commands may run side by side; one after the other is as good.
static int take_commands(struct reader *r, const json_t *o, const char *key, struct err *e)
{
	const json_t *v = json_object_get(o, key);
	const char *name;
	json_t *m;
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_object(v))
		return add_one(r, key, v, e);
	json_object_foreach(v, name, m) if (add_one(r, key, m, e)) return -1;
	return 0;
}

// --- fields ---

static int take_env(struct reader *r, const json_t *o, const char *key, struct err *e)
{
	const json_t *env = json_object_get(o, key);
	const char *name;
	json_t *v;
	if (!env || json_is_null(env))
		return 0;
	if (!json_is_object(env))
		return bad(key, "a map of texts", e);
	json_object_foreach(env, name, v)
	{
		if (json_is_null(v))
			continue; // remoteEnv: unset
		if (!json_is_string(v) || !secret_name_is(name))
			return bad(key, "a map of variables with texts", e);
		auto_free char *where = xasprintf("%s %.60s", key, name), *value = NULL;
		if (env_is_helper(name)) {
			leave_out(r, where, "programs would run or load what it names: --env sets it");
			continue;
		}
		value = expand(r, json_string_value(v), where);
		auto_free char *pair = xasprintf("%s=%s", name, value);
		strv_add(&r->p->env, pair);
	}
	return 0;
}

// Numbers, or "db:5432", which is another container's and is left out.
static int take_ports(struct reader *r, const json_t *o, struct err *e)
{
	const json_t *list = json_object_get(o, "forwardPorts");
	size_t i;
	json_t *v;
	if (list && !json_is_null(list) && !json_is_array(list))
		return bad("forwardPorts", "a list of numbers", e);
	json_array_foreach(list, i, v)
	{
		int64_t port = json_is_integer(v) ? json_integer_value(v) : 0;
		if (json_is_string(v)) {
			leave_out(r, "forwardPorts", "only ports of the sandbox itself");
			continue;
		}
		if (port < 1 || port > 65535 || r->p->n_ports == PROJECT_PORTS)
			return bad("forwardPorts", "ports from 1 to 65535, at most 32 of them,", e);
		r->p->ports[r->p->n_ports++] = (uint16_t)port;
	}
	return 0;
}

static bool is_set(const json_t *v)
{
	return v && !json_is_null(v) && !json_is_false(v) && !(json_is_array(v) && !json_array_size(v)) &&
	       !(json_is_object(v) && !json_object_size(v)) && !(json_is_string(v) && !*json_string_value(v));
}

static void name_left_out(struct reader *r, const json_t *o)
{
	static const char never[] = "never run or honoured: it would act outside the sandbox",
			  later[] = "not run: only the commands that create the environment are", build[] = "images are not built: import one",
			  features[] = "not installed";
	static const struct {
		const char *key, *why;
	} rows[] = {
		{"initializeCommand", never}, {"mounts", never}, {"workspaceMount", never}, {"runArgs", never}, {"privileged", never},
		{"capAdd", never}, {"securityOpt", never}, {"appPort", never}, {"postStartCommand", later}, {"postAttachCommand", later},
		{"build", build}, {"dockerFile", build}, {"dockerComposeFile", build}, {"features", features},
	};
	for (size_t i = 0; i < countof(rows); i++)
		if (is_set(json_object_get(o, rows[i].key)))
			leave_out(r, rows[i].key, rows[i].why);
	static const char *const users[] = {"remoteUser", "containerUser"};
	for (size_t i = 0; i < countof(users); i++) {
		const json_t *v = json_object_get(o, users[i]);
		if (json_is_string(v) && !strcmp(json_string_value(v), "root"))
			leave_out(r, users[i], "root inside only with --root");
	}
}

static int take_text(const json_t *o, const char *key, size_t max, const char **out, struct err *e)
{
	const json_t *v = json_object_get(o, key);
	*out = json_is_string(v) && *json_string_value(v) ? json_string_value(v) : NULL;
	if (v && !json_is_null(v) && !json_is_string(v))
		return bad(key, "one text", e);
	return *out && strlen(*out) > max ? bad(key, "a shorter text", e) : 0;
}

static int take_all(struct reader *r, const json_t *o, struct err *e)
{
	const char *image, *folder;
	if (take_text(o, "image", 256, &image, e) || take_text(o, "workspaceFolder", 1000, &folder, e))
		return -1;
	r->env = json_object_get(o, "containerEnv");
	if (folder && !r->ws_path) {
		r->ws_path = r->base; // while it is expanded
		r->p->ws_path = expand(r, folder, "workspaceFolder");
	}
	r->ws_path = r->p->ws_path ? r->p->ws_path : r->ws_path ? r->ws_path : r->base;
	if (image)
		r->p->image = expand(r, image, "image");
	if (take_env(r, o, "containerEnv", e) || take_env(r, o, "remoteEnv", e) || take_commands(r, o, "onCreateCommand", e) ||
	    take_commands(r, o, "updateContentCommand", e) || take_commands(r, o, "postCreateCommand", e) || take_ports(r, o, e))
		return -1;
	name_left_out(r, o);
	return 0;
}

int devcontainer_parse(const char *p, size_t n, const char *base, const char *ws_path, struct project *out, struct err *e)
{
	auto_buf struct buf text = BUF_INIT(PROJECT_FILE);
	struct project found = {.from_devcontainer = true};
	struct reader r = {.p = &found, .base = base, .ws_path = ws_path};
	if (n > PROJECT_FILE)
		return err_set(e, ERR_LIMIT, "the file is longer than %u bytes", PROJECT_FILE);
	if (n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3)) {
		p += 3;
		n -= 3;
	}
	jsonc_strip(p, n, &text);
	auto_json json_t *o = json_read(buf_cstr(&text), text.n, e);
	if (!o)
		return -1;
	if (!json_is_object(o))
		return err_set(e, ERR_INVALID, "not a JSON object");
	if (take_all(&r, o, e)) {
		project_done(&found);
		return -1;
	}
	*out = found;
	return 0;
}
