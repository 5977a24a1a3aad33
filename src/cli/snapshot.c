// SPDX-License-Identifier: Apache-2.0
// snapshot, snapshots, rollback, fork.
#include "base/jsonw.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cli/api.h"
#include "cli/listing.h"
#include "cli/verbs.h"
#include <string.h>

struct snapshot_opts {
	bool json, quiet, all;
	const char *from;
	uint64_t count;
};

static const struct opt json_opts[] = {
	FLAG(AT(struct snapshot_opts, json), "json", 0, "print JSON"),
	OPTS_END,
};

static const struct opt list_opts[] = {
	FLAG(AT(struct snapshot_opts, all), "all", 'a', "also those that were taken automatically"),
	FLAG(AT(struct snapshot_opts, quiet), "quiet", 'q', "print ids only"),
	FLAG(AT(struct snapshot_opts, json), "json", 0, "print JSON"),
	OPTS_END,
};

static const struct opt fork_opts[] = {
	VALUE(OPT_COUNT, AT(struct snapshot_opts, count), "count", 'n', "N", "make N of them (default 1)"),
	HINTED(OPT_STR, HINT_SNAPSHOT, AT(struct snapshot_opts, from), "from", 0, "SNAPSHOT", "as it was then (default: now)"),
	FLAG(AT(struct snapshot_opts, json), "json", 0, "print JSON"),
	OPTS_END,
};

// Sends {"KEY":"VALUE"} (or {} without a value) about the sandbox the first word names.
static json_t *ask(const char *id, const char *what, const char *key, const char *value, uint64_t count, struct err *e)
{
	auto_api struct api a = API_CLOSED;
	auto_buf struct buf body = BUF_INIT(64 << 10);
	struct jsonw w = {.b = &body};
	jw_open(&w, '{');
	jw_kstr(&w, key, value);
	if (count != OPT_UNSET)
		jw_ku64(&w, "count", count);
	jw_close(&w, '}');
	auto_free char *path = api_path("/v1/sandboxes", id, what);
	return api_open(&a, e) ? NULL : api_json(&a, "POST", path, buf_cstr(&body), e);
}

static int print_line(const char *s)
{
	auto_buf struct buf b = BUF_INIT(64 << 10);
	out_text(&b, s);
	buf_byte(&b, '\n');
	return out_flush(&b);
}

static int snapshot_run(const struct call *c)
{
	const struct snapshot_opts *o = c->opts;
	struct err e;
	auto_json json_t *j = ask(c->words[0], "snapshots", "name", c->n_words > 1 ? c->words[1] : NULL, OPT_UNSET, &e);
	if (!j)
		return out_fail(c, &e);
	return o->json ? out_json(j) : print_line(json_str(j, "id"));
}

static int rollback_run(const struct call *c)
{
	const struct snapshot_opts *o = c->opts;
	struct err e;
	auto_json json_t *j = ask(c->words[0], "rollback", "snapshot", c->n_words > 1 ? c->words[1] : NULL, OPT_UNSET, &e);
	if (!j)
		return out_fail(c, &e);
	if (o->json)
		return out_json(j);
	const json_t *n = json_object_get(j, "snapshot");
	const char *name = json_str(n, "name");
	auto_free char *line = xasprintf("%s is as it was at %s (%s)", json_str(json_object_get(j, "sandbox"), "id"), json_str(n, "created"),
					 *name ? name : json_str(n, "id"));
	return print_line(line);
}

static int fork_run(const struct call *c)
{
	const struct snapshot_opts *o = c->opts;
	struct err e;
	auto_json json_t *j = ask(c->words[0], "fork", "snapshot", o->from, o->count, &e);
	if (!j)
		return out_fail(c, &e);
	if (o->json)
		return out_json(j);
	auto_buf struct buf b = BUF_INIT(64 << 10);
	size_t i;
	json_t *s;
	json_array_foreach(json_object_get(j, "sandboxes"), i, s) buf_fmt(&b, "%s\n", json_str(s, "id"));
	return out_flush(&b);
}

static void list_row(struct table *t, const json_t *n)
{
	auto_buf struct buf age = BUF_INIT(64);
	uint64_t created, now = clock_unix_ms();
	const char *name = json_str(n, "name");
	if (!out_iso_ms(json_str(n, "created"), &created) && created <= now)
		out_age(&age, now - created);
	table_add(t, json_str(n, "id"));
	table_add(t, *name ? name : "-");
	table_add(t, json_str(n, "sandbox"));
	table_add(t, buf_cstr(&age));
	table_add(t, json_str(n, "mode"));
	table_add_u64(t, json_u64(n, "layers"));
}

static bool is_automatic(const json_t *n)
{
	return json_is_true(json_object_get(n, "automatic"));
}

static int snapshots_run(const struct call *c)
{
	static const char *const heads[] = {"ID", "NAME", "SANDBOX", "AGE", "MODE", "LAYERS", NULL};
	const struct snapshot_opts *o = c->opts;
	auto_buf struct buf path = BUF_INIT(64 << 10);
	buf_str(&path, c->n_words ? "/v1/snapshots?sandbox=" : "/v1/snapshots");
	if (c->n_words)
		http_encode(&path, c->words[0]);
	return listing_run(c, &(struct listing){.path = buf_cstr(&path), .member = "snapshots", .id = "id", .heads = heads, .row = list_row,
						.skip = o->all ? NULL : is_automatic, .json = o->json, .quiet = o->quiet});
}

static int rm_run(const struct call *c)
{
	return listing_remove(c, "/v1/snapshots");
}

const struct cmd cmd_snapshot = {
	.name = "snapshot",
	.args = "ID [NAME]",
	.help = "keep a sandbox as it is now: workspace, home, system, environment",
	.notes = "With nothing running its cell is ended and nothing has to be copied; the next command starts a new one.\n"
		 "Running processes are frozen for as long as it takes to copy what they wrote, and go on.\n"
		 "Not kept: memory, /tmp, /dev/shm, sockets.",
	.opts = json_opts,
	.opts_size = sizeof(struct snapshot_opts),
	.min_words = 1,
	.max_words = 2,
	.tail = -1,
	.hint = HINT_SANDBOX,
	.run = snapshot_run,
};

const struct cmd cmd_snapshot_rm = {
	.name = "snapshot rm",
	.args = "SNAPSHOT...",
	.help = "remove snapshots",
	.min_words = 1,
	.max_words = -1,
	.tail = -1,
	.hint = HINT_SNAPSHOT,
	.run = rm_run,
};

const struct cmd cmd_snapshots = {
	.name = "snapshots",
	.args = "[ID]",
	.help = "list the snapshots, of one sandbox or of all",
	.opts = list_opts,
	.opts_size = sizeof(struct snapshot_opts),
	.max_words = 1,
	.tail = -1,
	.hint = HINT_SANDBOX,
	.run = snapshots_run,
};

const struct cmd cmd_rollback = {
	.name = "rollback",
	.args = "ID [SNAPSHOT]",
	.help = "take a sandbox back to a snapshot (default: its newest named one)",
	.notes = "Its processes end. What it was before is kept as an automatic snapshot (skep snapshots --all).",
	.opts = json_opts,
	.opts_size = sizeof(struct snapshot_opts),
	.min_words = 1,
	.max_words = 2,
	.tail = -1,
	.hint = HINT_SANDBOX,
	.run = rollback_run,
};

const struct cmd cmd_fork = {
	.name = "fork",
	.args = "ID",
	.help = "make new sandboxes that start where this one is",
	.notes = "They share what is there and get names, machine ids and placeholders of secrets of their own.",
	.opts = fork_opts,
	.opts_size = sizeof(struct snapshot_opts),
	.min_words = 1,
	.max_words = 1,
	.tail = -1,
	.hint = HINT_SANDBOX,
	.run = fork_run,
};
