// SPDX-License-Identifier: Apache-2.0
// gc: what nothing refers to any more, and why it goes.
#include "base/mem.h"
#include "cli/api.h"
#include "cli/out.h"
#include "cli/verbs.h"

struct gc_opts {
	bool dry_run, json;
};

static const struct opt gc_opts[] = {
	FLAG(AT(struct gc_opts, dry_run), "dry-run", 'n', "only say what would go"),
	FLAG(AT(struct gc_opts, json), "json", 0, "print JSON"),
	OPTS_END,
};

static int gc_table(const json_t *items, bool dry_run)
{
	auto_buf struct buf b = BUF_INIT(HTTP_BODY_MAX);
	struct table t = {.n_cols = 4};
	uint64_t all = 0;
	size_t i;
	json_t *item;
	json_array_foreach(items, i, item)
	{
		bool done = json_is_true(json_object_get(item, "done"));
		table_add(&t, done ? "removed" : dry_run ? "would go" : "left");
		auto_buf struct buf size = BUF_INIT(64);
		uint64_t bytes = json_is_integer(json_object_get(item, "bytes")) ? json_u64(item, "bytes") : 0;
		if (bytes)
			out_size(&size, bytes);
		all += bytes;
		table_add(&t, json_str(item, "what"));
		table_add(&t, buf_cstr(&size));
		table_add(&t, json_str(item, "why"));
	}
	table_print(&t, &b);
	if (json_array_size(items))
		buf_fmt(&b, "%zu item%s", json_array_size(items), json_array_size(items) == 1 ? "" : "s");
	else
		buf_str(&b, "nothing to remove");
	buf_str(&b, all ? ", " : "");
	if (all)
		out_size(&b, all);
	buf_byte(&b, '\n');
	return out_flush(&b);
}

static int gc_run(const struct call *c)
{
	const struct gc_opts *o = c->opts;
	struct err e;
	auto_api struct api a = API_CLOSED;
	const char *body = o->dry_run ? "{\"dry_run\":true}" : "{\"dry_run\":false}";
	auto_json json_t *j = api_open(&a, &e) ? NULL : api_json(&a, "POST", "/v1/gc", body, &e);
	if (!j)
		return out_fail(c, &e);
	return o->json ? out_json(j) : gc_table(json_object_get(j, "items"), o->dry_run);
}

const struct cmd cmd_gc = {
	.name = "gc",
	.args = "",
	.help = "remove what nothing refers to any more",
	.notes = "Also caches that can be made again and were not used for 30 days, or that are over the disk budget\n"
		 "(disk_budget in config.yaml). Never what a sandbox, a snapshot or a running cell uses.",
	.opts = gc_opts,
	.opts_size = sizeof(struct gc_opts),
	.tail = -1,
	.run = gc_run,
};
