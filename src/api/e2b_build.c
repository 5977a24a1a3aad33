// SPDX-License-Identifier: Apache-2.0
// Building a template: a sandbox on what it begins with, the steps run in it one after the other, a snapshot of the result.
// The sandbox goes; the snapshot, which has a name, stays.
#include "api/e2b_build.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define LOGS_MAX 20000
#define STEP_MS (3600ULL * 1000)
#define READY_TRIES 600
#define NO_BASH 97 // of provision

struct waiter {
	void (*fn)(void *ctx, const struct err *e);
	void *ctx;
	struct waiter *next;
};

// The account that E2B's sandboxes have, in place of ours. Written so that it does no harm twice. First in its files: an
// image may have an account with uid 1000 already, whose files then are user's.
static const char provision[] =
	"set -e\n"
	"[ -x /bin/bash ] || exit 97\n"
	"id user >/dev/null 2>&1 || {\n"
	"  sed -i '/^skep:/d' /etc/passwd /etc/group\n"
	"  [ ! -w /etc/shadow ] || sed -i '/^skep:/d' /etc/shadow\n"
	"  before() { [ -e $1 ] || : >$1; { echo \"$2\"; cat $1; } >$1.new; cat $1.new >$1; rm $1.new; }\n"
	"  before /etc/passwd user:x:1000:1000::/home/user:/bin/bash\n"
	"  before /etc/group user:x:1000:\n"
	"  echo 'user:*:19000:0:99999:7:::' >>/etc/shadow\n"
	"}\n"
	"mkdir -p /home/user /usr/local/bin\n"
	"[ ! -d /etc/skel ] || cp -rT /etc/skel /home/user\n"
	"chown -R user:user /home/user\n"
	"chmod 755 /home/user\n";

void e2b_build_log(struct e2b_build *b, const char *level, const char *step, const char *text, size_t n)
{
	if (strv_len(b->logs) >= LOGS_MAX)
		return;
	auto_free char *clean = xstrndup(text, n);
	for (char *c = clean; *c; c++)
		*c = *c == '\t' ? ' ' : *c;
	auto_free char *line = xasprintf("%llu\t%s\t%s\t%s", (unsigned long long)clock_unix_ms(), level, step, clean);
	strv_add(&b->logs, line);
}

void e2b_build_say(struct e2b_builder *x, const char *level, const char *text)
{
	e2b_build_log(x->build, level, x->step, text, strlen(text));
}

static void builder_free(struct e2b_builder *x)
{
	for (size_t i = 0; i < x->n_steps; i++) {
		strv_free(x->steps[i].args);
		free(x->steps[i].hash);
	}
	free(x->steps);
	strv_free(x->env);
	free(x->user);
	free(x->workdir);
	free(x->ref);
	create_done(&x->create);
	free(x);
}

static void set_state(struct e2b_build *b, const char *state)
{
	free(b->state);
	b->state = xstrdup(state);
}

// --- its end ---

static void on_removed(void *ctx, const struct err *e, const struct outcome *o)
{
	(void)ctx, (void)e, (void)o; // what is left of it shows in `skep ps`
}

static void finish(struct e2b_builder *x, const struct err *e)
{
	struct e2b_build *b = x->build;
	struct waiter *waits = x->waiters;
	if (*x->sandbox)
		engine_remove(x->g, x->sandbox, true, (struct done){on_removed, NULL});
	if (e) {
		b->reason = xstrdup(e->msg);
		b->reason_step = xstrdup(x->step);
		e2b_build_say(x, "error", e->msg);
	} else {
		strv_free(b->env);
		b->env = take(&x->env);
		free(b->user);
		free(b->workdir);
		b->user = take(&x->user);
		b->workdir = take(&x->workdir);
		for (char **tag = b->wanted; tag && *tag; tag++)
			e2b_tag_set(x->template, *tag, b->id);
		strv_free(b->wanted);
		b->wanted = NULL;
		e2b_build_say(x, "info", "Build finished");
	}
	set_state(b, e ? (x->template->builtin ? "waiting" : "error") : "ready");
	b->builder = NULL;
	x->template->updated = clock_unix_ms();
	e2b_template_save(x->g, x->template);
	builder_free(x);
	while (waits) {
		struct waiter *w = waits;
		waits = w->next;
		w->fn(w->ctx, e);
		free(w);
	}
}

static void on_snapshot(void *ctx, const struct err *e, const struct outcome *o)
{
	struct e2b_builder *x = ctx;
	if (!e)
		memcpy(x->build->snapshot, o->snapshot->id, sizeof x->build->snapshot);
	finish(x, e);
}

static void take_snapshot(struct e2b_builder *x)
{
	auto_free char *name = xasprintf("e2b-%.36s", x->build->id);
	engine_snapshot(x->g, x->sandbox, name, (struct done){on_snapshot, x});
}

static void on_stopped(void *ctx, const struct err *e, const struct outcome *o)
{
	(void)o;
	if (e)
		finish(ctx, e);
	else
		take_snapshot(ctx);
}

// --- start and ready commands ---

static void try_ready(struct e2b_builder *x);

// One that ended well may have left something that runs.
static bool start_failed(struct e2b_builder *x, struct err *why)
{
	struct exec_row row;
	if (!*x->start || engine_exec_get(x->g, x->start, &row, why))
		return false;
	bool failed = !row.running && row.result.status;
	if (failed)
		err_set(why, ERR_INVALID, "the start command failed: exit status %u", row.result.status);
	exec_row_done(&row);
	return failed;
}

static void on_ready(void *ctx, const struct err *e, int status)
{
	struct e2b_builder *x = ctx;
	struct err late;
	if (!e && start_failed(x, &late))
		e = &late;
	if (e || !status) {
		if (e)
			finish(x, e);
		else // a snapshot has no memory: what the start command runs begins anew in each sandbox
			engine_stop(x->g, x->sandbox, (struct done){on_stopped, x});
	} else if (++x->tries >= READY_TRIES) {
		err_set(&late, ERR_TIMEOUT, "the ready command did not succeed");
		finish(x, &late);
	} else {
		try_ready(x);
	}
}

static void on_line(void *ctx, int stream, const char *p, size_t n)
{
	struct e2b_builder *x = ctx;
	e2b_build_log(x->build, stream == 1 ? "info" : "warn", x->step, p, n);
}

static void run(struct e2b_builder *x, const char *script, void (*done)(void *ctx, const struct err *e, int status))
{
	char *argv[] = {(char *)"/bin/bash", (char *)"-l", (char *)"-c", (char *)script, NULL};
	e2b_command(x->g, &(struct e2b_command){.sandbox = x->sandbox, .user = x->user, .cwd = x->workdir, .argv = argv, .env = x->env, .input = -1,
						.timeout_ms = STEP_MS, .line = on_line, .done = done, .ctx = x});
}

static void try_ready(struct e2b_builder *x)
{
	const char *cmd = x->build->ready_cmd && *x->build->ready_cmd ? x->build->ready_cmd : "sleep 0.2";
	auto_free char *script = xasprintf("( %s\n) || { sleep 0.2; exit 1; }", cmd);
	run(x, script, on_ready);
}

static void on_started(void *ctx, const struct err *e, const struct outcome *o)
{
	struct e2b_builder *x = ctx;
	if (e) {
		finish(x, e);
		return;
	}
	memcpy(x->start, o->exec->id, sizeof x->start);
	try_ready(x);
}

static void finalize(struct e2b_builder *x)
{
	const char *start = x->build->start_cmd;
	x->step = "finalize";
	bool waits = x->build->ready_cmd && *x->build->ready_cmd;
	if (!start || !*start) {
		if (waits)
			try_ready(x);
		else
			take_snapshot(x);
		return;
	}
	auto_free char *said = xasprintf("Running start command: %s", start);
	e2b_build_say(x, "info", said);
	const char *argv[] = {"/bin/bash", "-l", "-c", start, NULL};
	struct exec_request r = {.argv = strv_copy((char **)argv), .env = strv_copy(x->env), .cwd = xstrdup(x->workdir),
				 .user = xstrdup(x->user), .detached = true, .has_timeout = true};
	engine_exec(x->g, x->sandbox, &r, (struct done){on_started, x});
}

// --- steps ---

static void next_step(struct e2b_builder *x);

// What could not be kept is made again next time.
static void on_kept(void *ctx, const struct err *e, const struct outcome *o)
{
	struct e2b_builder *x = ctx;
	(void)o;
	if (e)
		log_line(LOG_WARN, "sandbox=%s step %s is not cached: %s", x->sandbox, x->step, e->msg);
	next_step(x);
}

static void step_done(struct e2b_builder *x)
{
	if (e2b_cache_wants(x))
		engine_step_keep(x->g, x->sandbox, x->steps[x->at - 1].key, (struct done){on_kept, x});
	else
		next_step(x);
}

static void on_step(void *ctx, const struct err *e, int status)
{
	struct e2b_builder *x = ctx;
	struct err failed;
	if (!e && status) {
		err_set(&failed, ERR_INVALID, "step %s failed: exit status %d", x->step, status);
		e = &failed;
	}
	if (e)
		finish(x, e);
	else
		step_done(x);
}

static struct e2b_step *take_step(struct e2b_builder *x)
{
	struct e2b_step *s = &x->steps[x->at++];
	if (fmt_to(x->number, sizeof x->number, "%zu", x->at))
		x->number[0] = 0;
	x->step = x->number;
	auto_free char *said = xasprintf("%s[builder %zu/%zu] %s %s", x->at <= x->cached ? "CACHED " : "", x->at, x->n_steps, s->kind->name,
					 s->args[0] ? s->args[0] : "");
	e2b_build_say(x, "info", said);
	return s;
}

static void next_step(struct e2b_builder *x)
{
	struct err e;
	if (x->at == x->n_steps) {
		finalize(x);
		return;
	}
	struct e2b_step *s = take_step(x);
	switch (s->kind->run(x, s, on_step, &e)) {
	case STEP_DONE:
		step_done(x);
		break;
	case STEP_RUNS:
		break;
	case STEP_FAILED:
		finish(x, &e);
		break;
	}
}

static void on_provisioned(void *ctx, const struct err *e, int status)
{
	struct e2b_builder *x = ctx;
	struct err failed;
	if (!e && (status == NO_BASH || status == 127)) { // 127: no /bin/sh either
		err_set(&failed, ERR_INVALID, "the image has no /bin/bash, which E2B's clients run every command with: build on an image that has it");
		e = &failed;
	} else if (!e && status) {
		err_set(&failed, ERR_SYSTEM, "the account \"" E2B_USER "\" could not be made (exit status %d)", status);
		e = &failed;
	}
	if (e)
		finish(x, e);
	else
		next_step(x);
}

static void on_created(void *ctx, const struct err *e, const struct outcome *o)
{
	struct e2b_builder *x = ctx;
	if (e) {
		finish(x, e);
		return;
	}
	memcpy(x->sandbox, o->sandbox->id, sizeof x->sandbox);
	while (x->at < x->cached) {
		const struct e2b_step *s = take_step(x);
		if (s->kind->skip)
			s->kind->skip(x, s);
	}
	if (x->provisioned) {
		next_step(x);
		return;
	}
	char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)provision, NULL};
	e2b_command(x->g, &(struct e2b_command){.sandbox = x->sandbox, .user = "root", .cwd = "/", .argv = argv, .input = -1, .timeout_ms = 60000,
						.line = on_line, .done = on_provisioned, .ctx = x});
}

// --- its beginning ---

static int read_steps(struct e2b_builder *x, const json_t *list, bool force, struct err *e)
{
	size_t i;
	json_t *o;
	x->steps = xcalloc(json_array_size(list) + 1, sizeof *x->steps);
	json_array_foreach(list, i, o)
	{
		struct e2b_step *s = &x->steps[x->n_steps++];
		const char *hash;
		s->kind = e2b_step_kind(json_str(o, "type"));
		s->force = force;
		if (json_get_strv(o, "args", &s->args, e) || json_get_str(o, "filesHash", &hash, e) || json_get_bool(o, "force", &s->force, e))
			return -1;
		s->force |= force;
		s->args = s->args ? s->args : xcalloc(1, sizeof *s->args);
		s->hash = hash ? xstrdup(hash) : NULL;
		if (!s->kind)
			return err_set(e, ERR_INVALID, "unknown step type \"%.40s\"", json_str(o, "type"));
		if (strv_len(s->args) < s->kind->min_args)
			return err_set(e, ERR_INVALID, "step %s has too few arguments", s->kind->name);
	}
	return 0;
}

static char *dup_or(const char *s, const char *otherwise)
{
	return xstrdup(s ? s : otherwise);
}

// The sandbox, on what the template begins with or on what an earlier build kept.
static void builder_create(struct e2b_builder *x, const struct e2b_base *base)
{
	struct create *c = &x->create;
	e2b_cache_keys(x, base);
	const char *cached = e2b_cache_find(x);
	if (base->build || cached) {
		x->provisioned = true;
		c->from = xstrdup(cached ? cached : base->build->snapshot);
	} else {
		c->empty = true;
		c->profile = PROFILE_ROOT;
		c->image = base->image ? xstrdup(base->image) : NULL;
	}
	engine_create(x->g, c, (struct done){on_created, x});
}

// --- an image by its name ---

static void on_pull_progress(void *ctx, const struct pull_progress *p)
{
	struct e2b_builder *x = ctx;
	unsigned tenths = p->total ? (unsigned)(p->bytes * 10 / p->total) : 0;
	if (p->importing) {
		e2b_build_say(x, "info", "Unpacking the image");
	} else if (tenths > x->pulled_tenths) {
		auto_free char *text = xasprintf("Pulling %s: %u %%", x->ref, tenths * 10);
		x->pulled_tenths = tenths;
		e2b_build_say(x, "info", text);
	}
}

// The variables of the image are those of every step and every sandbox.
static void builder_take_config(struct e2b_builder *x, const struct image_row *i)
{
	struct err ignored;
	size_t n;
	json_t *v;
	auto_json json_t *config = i->config && *i->config ? json_read(i->config, strlen(i->config), &ignored) : NULL;
	json_array_foreach(json_object_get(config, "env"), n, v)
	{
		const char *text = json_is_string(v) ? json_string_value(v) : "", *equals = strchr(text, '=');
		if (!equals || equals == text)
			continue;
		auto_free char *name = xstrndup(text, (size_t)(equals - text));
		e2b_env_put(&x->env, name, equals + 1);
	}
}

static void builder_on_image(struct e2b_builder *x, const struct image_row *i)
{
	builder_take_config(x, i);
	builder_create(x, &(struct e2b_base){.image = i->id});
}

// Without the registry the image as it was pulled last is better than nothing, and is said to be that.
static void on_image_pulled(void *ctx, const struct err *e, const struct outcome *o)
{
	struct e2b_builder *x = ctx;
	struct image_row here = {0};
	struct err ignored;
	if (!e) {
		builder_on_image(x, o->image);
	} else if ((e->kind == ERR_UNAVAILABLE || e->kind == ERR_TIMEOUT) && !engine_image_get(x->g, x->ref, &here, &ignored)) {
		auto_free char *text = xasprintf("%s; the image is taken as it was pulled before", e->msg);
		e2b_build_say(x, "warn", text);
		builder_on_image(x, &here);
		image_row_done(&here);
	} else {
		finish(x, e);
	}
}

static void builder_pull(struct e2b_builder *x, const struct e2b_base *base)
{
	struct pull_wish w = {.ref = base->ref, .user = base->username, .password = base->password, .docker_logins = base->docker_logins};
	auto_free char *text = xasprintf("Pulling %s", base->ref);
	x->ref = xstrdup(base->ref);
	e2b_build_say(x, "info", text);
	engine_image_pull(x->g, &w, &(struct pull_watch){on_pull_progress, x}, (struct done){on_image_pulled, x});
}

// What comes before the first step: environment and user of the template it is built on.
void e2b_build_begin(struct request *r, struct e2b_template *t, struct e2b_build *b, const json_t *body, const struct e2b_base *base)
{
	struct err e;
	struct e2b_builder *x = xcalloc(1, sizeof *x);
	const struct e2b_build *on = base->build;
	*x = (struct e2b_builder){.g = r->engine, .template = t, .build = b, .step = "base", .provisioned = on != NULL};
	x->env = on && on->env ? strv_copy(on->env) : xcalloc(1, sizeof *x->env);
	x->user = dup_or(on ? on->user : NULL, E2B_USER);
	x->workdir = dup_or(on ? on->workdir : NULL, E2B_HOME);
	b->builder = x;
	b->start_cmd = base->start_cmd ? xstrdup(base->start_cmd) : NULL;
	b->ready_cmd = base->ready_cmd ? xstrdup(base->ready_cmd) : NULL;
	set_state(b, "building");
	bool force = false;
	if (base->refusal || (body && json_get_bool(body, "force", &force, &e)) || read_steps(x, json_object_get(body, "steps"), force, &e)) {
		if (base->refusal)
			e = *base->refusal;
		finish(x, &e);
		return;
	}
	x->create = (struct create){.limits = e2b_limits_of(t), .umask_bits = 022, .start = true, .no_project = true, .no_caches = true, .setup = SETUP_OFF, .keep_tmp = true};
	if (!t->builtin) // what those are made of is here
		e2b_net_open(r, &x->create.net);
	if (base->ref)
		builder_pull(x, base);
	else
		builder_create(x, base);
}

void e2b_build_wait(struct e2b_build *b, void (*fn)(void *ctx, const struct err *e), void *ctx)
{
	struct waiter *w = xcalloc(1, sizeof *w);
	*w = (struct waiter){fn, ctx, b->builder->waiters};
	b->builder->waiters = w;
}

// Somebody may have removed it by its own name.
static bool is_there(struct engine *g, const char *snapshot)
{
	struct err ignored;
	const struct snapshot *n = *snapshot ? engine_snapshot_get(g, snapshot, &ignored) : NULL;
	return n && !strcmp(n->id, snapshot);
}

void e2b_template_ready(struct request *r, struct e2b_template *t, struct e2b_build *b, void (*fn)(void *ctx, const struct err *e), void *ctx)
{
	struct err e;
	if (is_there(r->engine, b->snapshot)) {
		fn(ctx, NULL);
	} else if (b->builder) {
		e2b_build_wait(b, fn, ctx);
	} else if (t->builtin) {
		mem_free_ptr(&b->reason);
		mem_free_ptr(&b->reason_step);
		b->reason = b->reason_step = NULL;
		b->snapshot[0] = 0;
		// it can not have ended yet: a sandbox takes its time
		e2b_build_begin(r, t, b, NULL, &(struct e2b_base){0});
		if (b->builder) {
			e2b_build_wait(b, fn, ctx);
			return;
		}
		err_set(&e, ERR_UNAVAILABLE, "%s", b->reason ? b->reason : "the template could not be built");
		fn(ctx, &e);
	} else {
		err_set(&e, ERR_NOT_FOUND, *b->snapshot ? "the snapshot of template '%s' was removed: build it again" : "template '%s' has no build that succeeded",
			t->name ? t->name : t->id);
		fn(ctx, &e);
	}
}
