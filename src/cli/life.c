// SPDX-License-Identifier: Apache-2.0
// start, stop, pause, resume, pin, unpin, rm: each takes several sandboxes, tries them all, and tells of every failure.
#include "base/mem.h"
#include "cli/api.h"
#include "cli/out.h"
#include "cli/verbs.h"

struct rm_opts {
	bool force, all;
};

static const struct opt rm_opts[] = {
	FLAG(AT(struct rm_opts, force), "force", 'f', "also with pending changes, and pinned ones"),
	FLAG(AT(struct rm_opts, all), "all", 0, "every sandbox"),
	OPTS_END,
};

// tail: behind the encoded id. The first failure decides the exit status. listed: the ids are of a list, and a sandbox that has
// removed itself since then is no failure.
static int for_each(const struct call *c, struct api *a, char *const *ids, bool listed, const char *method, const char *tail)
{
	int status = 0;
	for (; ids && *ids; ids++) {
		struct err e;
		auto_free char *plain = api_path("/v1/sandboxes", *ids, NULL), *path = xasprintf("%s%s", plain, tail);
		if (!api_do(a, method, path, *method == 'P' ? "{}" : NULL, &e) || (listed && e.kind == ERR_NOT_FOUND))
			continue;
		int code = out_fail(c, &e);
		status = status ? status : code;
	}
	return status;
}

static int change_state(const struct call *c)
{
	struct err e;
	auto_api struct api a = API_CLOSED;
	auto_free char *tail = xasprintf("/%s", c->cmd->name);
	return api_open(&a, &e) ? out_fail(c, &e) : for_each(c, &a, c->words, false, "POST", tail);
}

static int list_ids(struct api *a, char ***out, struct err *e)
{
	auto_json json_t *j = api_json(a, "GET", "/v1/sandboxes", NULL, e);
	if (!j)
		return -1;
	size_t i;
	json_t *s;
	json_array_foreach(json_object_get(j, "sandboxes"), i, s) strv_add(out, json_str(s, "id"));
	return 0;
}

static int rm_run(const struct call *c)
{
	const struct rm_opts *o = c->opts;
	struct err e;
	auto_api struct api a = API_CLOSED;
	if (!o->all == !c->n_words) {
		err_set(&e, ERR_INVALID, "name sandboxes, or give --all (see skep rm --help)");
		return out_fail(c, &e);
	}
	char **ids = NULL;
	if (api_open(&a, &e) || (o->all && list_ids(&a, &ids, &e)))
		return out_fail(c, &e);
	int status = for_each(c, &a, o->all ? ids : c->words, o->all, "DELETE", o->force ? "?force=1" : "");
	strv_free(ids);
	return status;
}

#define STATE_VERB(verb, text)          \
	const struct cmd cmd_##verb = { \
		.name = #verb,          \
		.args = "ID...",        \
		.help = text,           \
		.min_words = 1,         \
		.max_words = -1,        \
		.tail = -1,             \
		.hint = HINT_SANDBOX,   \
		.run = change_state,    \
	}

STATE_VERB(start, "start a sandbox: its cell, without a command");
STATE_VERB(stop, "stop a sandbox: ends its processes, keeps its workspace");
STATE_VERB(pause, "freeze every process of a sandbox");
STATE_VERB(resume, "let a paused sandbox go on");
STATE_VERB(pin, "keep a sandbox for good: it never expires, and only rm --force removes it");
STATE_VERB(unpin, "let a pinned sandbox expire and be removed again");

const struct cmd cmd_rm = {
	.name = "rm",
	.args = "ID...",
	.help = "remove sandboxes and their changes",
	.opts = rm_opts,
	.opts_size = sizeof(struct rm_opts),
	.max_words = -1,
	.tail = -1,
	.hint = HINT_SANDBOX,
	.run = rm_run,
};
