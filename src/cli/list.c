// SPDX-License-Identifier: Apache-2.0
// ps: every sandbox in a table. show: one of them in full.
#include "base/clock.h"
#include "base/index.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/api.h"
#include "cli/listing.h"
#include "cli/term.h"
#include "cli/verbs.h"
#include <string.h>
#include <unistd.h>

#define COMMAND_SHOWN 100 // bytes of a command line in a table

struct list_opts {
	bool json, quiet, names, execs;
	const char *label;
};

static const struct opt ps_opts[] = {
	FLAG(AT(struct list_opts, json), "json", 0, "print JSON"),
	FLAG(AT(struct list_opts, quiet), "quiet", 'q', "print ids only"),
	FLAG(AT(struct list_opts, names), "names", 0, "print ids and names only, a line each"),
	FLAG(AT(struct list_opts, execs), "execs", 0, "list the execs instead"),
	VALUE(OPT_STR, AT(struct list_opts, label), "label", 0, "K=V", "only sandboxes with this label"),
	OPTS_END,
};

static const struct opt show_opts[] = {
	FLAG(AT(struct list_opts, json), "json", 0, "print JSON"),
	OPTS_END,
};

// How many run in each sandbox; keys are borrowed from execs.
static void count_running(const json_t *execs, struct index *out)
{
	size_t i;
	json_t *x;
	json_array_foreach(execs, i, x)
	{
		const char *id = json_str(x, "sandbox");
		if (!strcmp(json_str(x, "state"), "running"))
			index_put(out, id, (void *)((uintptr_t)index_get(out, id) + 1));
	}
}

static const char *or_dash(const char *s)
{
	return *s ? s : "-";
}

static void add_age(struct buf *b, const char *iso)
{
	uint64_t then, now = clock_unix_ms();
	if (!out_iso_ms(iso, &then) && then <= now)
		out_age(b, now - then);
}

static void ps_row(struct table *t, const json_t *s, struct index *running)
{
	auto_buf struct buf age = BUF_INIT(64), used = BUF_INIT(64), size = BUF_INIT(64);
	const json_t *pending = json_object_get(s, "pending");
	add_age(&age, json_str(s, "created"));
	add_age(&used, json_str(s, "used"));
	if (json_is_integer(json_object_get(s, "size")))
		out_size(&size, json_u64(s, "size"));
	table_add(t, json_str(s, "id"));
	table_add(t, or_dash(json_str(s, "name")));
	table_add(t, json_str(s, "state"));
	table_add(t, or_dash(buf_cstr(&age)));
	table_add(t, or_dash(buf_cstr(&used)));
	table_add_u64(t, (uintptr_t)index_get(running, json_str(s, "id")));
	if (json_is_integer(pending))
		table_add_u64(t, json_u64(s, "pending"));
	else
		table_add(t, "?");
	table_add(t, or_dash(buf_cstr(&size)));
	table_add(t, or_dash(json_str(s, "repo")));
}

static int ps_table(const json_t *boxes, const json_t *execs)
{
	static const char *const heads[] = {"ID", "NAME", "STATE", "AGE", "USED", "EXECS", "PENDING", "SIZE", "WORKSPACE"};
	auto_buf struct buf b = BUF_INIT(HTTP_BODY_MAX);
	struct table t = {.n_cols = countof(heads), .spare = "4573"}; // the ages, execs and size go before the workspace is cut
	uint32_t rows;
	if (isatty(STDOUT_FILENO))
		term_size(&rows, &t.room);
	for (size_t i = 0; i < countof(heads); i++)
		table_add(&t, heads[i]);
	struct index running = {0};
	size_t i;
	json_t *s;
	count_running(execs, &running);
	json_array_foreach(boxes, i, s) ps_row(&t, s, &running);
	index_done(&running);
	table_print(&t, &b);
	return out_flush(&b);
}

static void exec_row(struct table *t, const json_t *x)
{
	auto_buf struct buf cmd = BUF_INIT(64 << 10);
	bool running = !strcmp(json_str(x, "state"), "running");
	size_t i;
	json_t *arg;
	json_array_foreach(json_object_get(x, "argv"), i, arg)
		buf_fmt(&cmd, "%s%s", i ? " " : "", json_is_string(arg) ? json_string_value(arg) : "?");
	table_add(t, json_str(x, "id"));
	table_add(t, json_str(x, "sandbox"));
	table_add(t, json_str(x, "state"));
	if (running)
		table_add(t, "-");
	else
		table_add_u64(t, json_u64(x, "status"));
	table_add(t, json_str(x, "started"));
	if (cmd.n > COMMAND_SHOWN)
		cmd.n = str_utf8_whole(cmd.p, COMMAND_SHOWN), cmd.p[cmd.n] = 0;
	table_add(t, buf_cstr(&cmd));
}

static int ps_execs(const struct call *c, struct api *a)
{
	static const char *const heads[] = {"EXEC", "SANDBOX", "STATE", "STATUS", "STARTED", "COMMAND", NULL};
	const struct list_opts *o = c->opts;
	return listing_show(c, a, &(struct listing){.path = "/v1/execs", .member = "execs", .id = "id", .heads = heads, .row = exec_row,
						    .json = o->json, .quiet = o->quiet});
}

static int ps_ids(const json_t *boxes, bool names)
{
	auto_buf struct buf b = BUF_INIT(HTTP_BODY_MAX);
	size_t i;
	json_t *s;
	json_array_foreach(boxes, i, s)
	{
		buf_fmt(&b, "%s\n", json_str(s, "id"));
		if (names && *json_str(s, "name"))
			buf_fmt(&b, "%s\n", json_str(s, "name"));
	}
	return out_flush(&b);
}

static int ps_run(const struct call *c)
{
	const struct list_opts *o = c->opts;
	struct err e;
	auto_api struct api a = API_CLOSED;
	auto_buf struct buf path = BUF_INIT(64 << 10);
	buf_str(&path, o->label ? "/v1/sandboxes?label=" : "/v1/sandboxes");
	if (o->label)
		http_encode(&path, o->label);
	if (api_open(&a, &e))
		return out_fail(c, &e);
	if (o->execs)
		return ps_execs(c, &a);
	auto_json json_t *j = api_json(&a, "GET", buf_cstr(&path), NULL, &e);
	if (!j)
		return out_fail(c, &e);
	const json_t *boxes = json_object_get(j, "sandboxes");
	if (o->json)
		return out_json(j);
	if (o->quiet || o->names)
		return ps_ids(boxes, o->names);
	auto_json json_t *x = api_json(&a, "GET", "/v1/execs", NULL, &e);
	return x ? ps_table(boxes, json_object_get(x, "execs")) : out_fail(c, &e);
}

// A scalar as text; NULL for absent, null, and what is not a scalar.
static char *scalar(const json_t *v)
{
	if (json_is_string(v))
		return *json_string_value(v) ? xstrdup(json_string_value(v)) : NULL;
	if (json_is_integer(v))
		return xasprintf("%lld", (long long)json_integer_value(v));
	return json_is_boolean(v) ? xstrdup(json_is_true(v) ? "yes" : "no") : NULL;
}

static void show_row(struct table *t, const char *label, const char *value)
{
	table_add(t, label);
	table_add(t, value);
}

static void show_members(struct table *t, const char *label, const json_t *o)
{
	const char *key;
	json_t *v;
	json_object_foreach((json_t *)o, key, v)
	{
		auto_free char *s = scalar(v);
		if (!s)
			continue;
		auto_free char *row = xasprintf("%s %s", key, s);
		show_row(t, label, row);
		label = "";
	}
}

// how: what is to be said about a limit that is set.
static void show_limit(struct table *t, const char *name, uint64_t v, bool bytes, const char *how)
{
	auto_buf struct buf b = BUF_INIT(256);
	buf_fmt(&b, "%s ", name);
	if (!v)
		buf_str(&b, "not limited");
	else if (bytes)
		out_size(&b, v);
	else
		buf_fmt(&b, "%llu", (unsigned long long)v);
	buf_str(&b, v ? how : "");
	show_row(t, "", buf_cstr(&b));
}

// Who enforces them depends on the host (docs/limits.md); before the first cell it is not known.
static void show_limits(struct table *t, const json_t *l, const json_t *isolation)
{
	bool supervised = !strcmp(json_str(isolation, "limits"), "supervised");
	auto_buf struct buf cpus = BUF_INIT(256);
	out_cpus(&cpus, json_u64(l, "cpus_milli"));
	if (json_u64(l, "cpus_milli") && supervised)
		buf_str(&cpus, " (supervised)");
	show_row(t, "limits", buf_cstr(&cpus));
	show_limit(t, "memory", json_u64(l, "memory"), true, supervised ? " (watched, not enforced)" : "");
	show_limit(t, "disk", json_u64(l, "disk"), true, " (watched)");
	show_limit(t, "pids", json_u64(l, "pids"), false, "");
}

static void show_mounts(struct table *t, const json_t *mounts)
{
	size_t i;
	json_t *m;
	json_array_foreach(mounts, i, m)
	{
		bool rw = json_is_true(json_object_get(m, "writable"));
		const char *src = json_str(m, "src"), *dst = json_str(m, "dst"); // no src: an empty file covers it
		bool cache = !strcmp(json_str(m, "kind"), "cache");
		auto_free char *row = cache  ? xasprintf("%s at %s, a package cache: what is written stays in the sandbox", src, dst)
				      : *src ? xasprintf("%s at %s, %s", src, dst, rw ? "writable" : "read-only")
					   : xasprintf("hidden: %s", dst);
		show_row(t, i ? "" : "mounts", row);
	}
}

static void show_net(struct table *t, const json_t *net)
{
	static const char *const lists[] = {"rules", "secrets"};
	const char *preset = json_str(net, "preset"), *label = "net";
	auto_free char *row = *preset ? xasprintf("preset %s", preset) : NULL;
	if (row) {
		show_row(t, label, row);
		label = "";
	}
	for (size_t k = 0; k < countof(lists); k++) {
		size_t i;
		json_t *v;
		json_array_foreach(json_object_get(net, lists[k]), i, v)
		{
			const char *text = json_string_value(v) ? json_string_value(v) : "";
			auto_free char *line = k ? xasprintf("secret %s", text) : xstrdup(text);
			show_row(t, label, line);
			label = "";
		}
	}
}

static void show_size(struct table *t, const json_t *size)
{
	auto_buf struct buf b = BUF_INIT(64);
	if (!json_is_integer(size))
		return;
	out_size(&b, (uint64_t)json_integer_value(size));
	show_row(t, "size", buf_cstr(&b));
}

static void show_project(struct table *t, const json_t *p)
{
	static const char *const lists[] = {"setup", "hide", "ports"};
	if (!json_is_object(p))
		return;
	show_row(t, "project", json_str(p, "file"));
	for (size_t k = 0; k < countof(lists); k++) {
		size_t i;
		json_t *v;
		json_array_foreach(json_object_get(p, lists[k]), i, v)
		{
			auto_free char *s = scalar(v), *row = xasprintf("%s %s", lists[k], s ? s : "");
			show_row(t, "", row);
		}
	}
	auto_free char *test = xasprintf("test %s", json_str(p, "test"));
	if (*json_str(p, "test"))
		show_row(t, "", test);
}

static void show_ports(struct table *t, const json_t *ports)
{
	size_t i;
	json_t *p;
	json_array_foreach(ports, i, p)
	{
		bool local = json_is_true(json_object_get(p, "local"));
		auto_free char *row = xasprintf("%llu %s%s%s", (unsigned long long)json_u64(p, "port"), json_str(p, "program"),
						*json_str(p, "program") ? ", " : "", local ? "on loopback" : "on every address");
		show_row(t, i ? "" : "ports", row);
	}
}

static int show_table(const json_t *s)
{
	static const char *const plain[] = {"id",      "name",	"state",   "reason",	     "backend",
					    "profile", "image", "repo",	   "workspace_path", "owner",
					    "created", "used",	"expires", "on_expiry",      "pending",
					    "dirty",   "pinned"};
	auto_buf struct buf b = BUF_INIT(HTTP_BODY_MAX);
	struct table t = {.n_cols = 2};
	for (size_t i = 0; i < countof(plain); i++) {
		auto_free char *v = scalar(json_object_get(s, plain[i]));
		if (v)
			show_row(&t, plain[i], v);
	}
	show_size(&t, json_object_get(s, "size"));
	show_members(&t, "base", json_object_get(s, "base"));
	show_members(&t, "labels", json_object_get(s, "labels"));
	show_mounts(&t, json_object_get(s, "mounts"));
	show_project(&t, json_object_get(s, "project"));
	show_ports(&t, json_object_get(s, "ports"));
	show_net(&t, json_object_get(s, "net"));
	show_limits(&t, json_object_get(s, "limits"), json_object_get(s, "isolation"));
	show_members(&t, "isolation", json_object_get(s, "isolation"));
	table_print(&t, &b);
	return out_flush(&b);
}

static int show_run(const struct call *c)
{
	const struct list_opts *o = c->opts;
	struct err e;
	auto_api struct api a = API_CLOSED;
	if (api_open(&a, &e))
		return out_fail(c, &e);
	auto_free char *found = c->n_words ? xstrdup(c->words[0]) : api_newest_id(&a, &e);
	auto_free char *path = found ? api_path("/v1/sandboxes", found, NULL) : NULL;
	auto_json json_t *j = found ? api_json(&a, "GET", path, NULL, &e) : NULL;
	if (!j)
		return out_fail(c, &e);
	return o->json ? out_json(j) : show_table(j);
}

const struct cmd cmd_ps = {
	.name = "ps",
	.args = "",
	.help = "list the sandboxes",
	.opts = ps_opts,
	.opts_size = sizeof(struct list_opts),
	.tail = -1,
	.run = ps_run,
};

const struct cmd cmd_show = {
	.name = "show",
	.args = "[ID]",
	.help = "show a sandbox: state, workspace, what is in force",
	.opts = show_opts,
	.opts_size = sizeof(struct list_opts),
	.max_words = 1,
	.tail = -1,
	.hint = HINT_SANDBOX,
	.run = show_run,
};
