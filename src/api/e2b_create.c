// SPDX-License-Identifier: Apache-2.0
// A new sandbox: its request read, its template ready, then the sandbox and what runs in it from the start.
#include "api/e2b_int.h"
#include "api/auth.h"
#include "api/e2b_routes.h"
#include "api/once.h"

#include "base/clock.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

struct making {
	struct request *r;
	struct e2b_box *box; // without its id until there is one
	struct create c;
	char template_id[ID_SIZE], build[40];
	int tries;
	struct once *once; // NULL: it has no Idempotency-Key
};

static void making_free(struct making *m)
{
	create_done(&m->c);
	e2b_box_free(m->box);
	free(m);
}

static void fail(struct making *m, const struct err *e)
{
	struct request *r = m->r;
	once_end(m->once, e, NULL);
	making_free(m);
	request_fail(r, e);
}

// It was made under the same key, and its answer was lost.
static void replay(struct request *r, const char *sandbox, const char *exec)
{
	struct jsonw w = answer_json(r);
	struct e2b_box *b = e2b_box_get(r->engine, sandbox);
	(void)exec;
	if (!b) {
		e2b_error(r, 404, "sandbox %s was made under this Idempotency-Key and has been removed since", sandbox);
		return;
	}
	e2b_put_sandbox(r, &w, b);
	request_answer(r, 201);
}

static int read_pairs(const json_t *o, const char *field, char ***out, bool joined, struct err *e)
{
	const char *key;
	json_t *v;
	if (!o || json_is_null(o))
		return 0;
	if (!json_is_object(o))
		return err_set(e, ERR_INVALID, "%s must be an object", field);
	json_object_foreach(o, key, v)
	{
		if (!json_is_string(v) || !*key || (joined && strchr(key, '=')))
			return err_set(e, ERR_INVALID, "%s must map names to strings", field);
		auto_free char *kv = joined ? xasprintf("%s=%s", key, json_string_value(v)) : NULL;
		strv_add(out, kv ? kv : key);
		if (!joined)
			strv_add(out, json_string_value(v));
	}
	return 0;
}

// What can not be had is said, not left out.
static int refuse_unbuilt(const json_t *o, struct err *e)
{
	static const char *const names[] = {"iam", "mcp"};
	for (size_t i = 0; i < countof(names); i++) {
		const json_t *v = json_object_get(o, names[i]);
		if (v && !json_is_null(v) && (json_object_size(v) || json_array_size(v)))
			return err_set(e, ERR_UNSUPPORTED, "%s is not supported here (docs/e2b.md)", names[i]);
	}
	return 0;
}

static int read_lifecycle(const json_t *o, struct e2b_box *b, struct err *e)
{
	const json_t *resume = json_object_get(o, "autoResume");
	bool memory = true;
	if (json_get_bool(o, "autoPause", &b->auto_pause, e) || json_get_bool(o, "autoPauseMemory", &memory, e))
		return -1;
	if (json_is_object(resume) && json_get_bool(resume, "enabled", &b->auto_resume, e))
		return err_wrap(e, "autoResume");
	b->drops_memory = !memory;
	if (!memory && !b->auto_pause)
		return err_set(e, ERR_INVALID, "autoPauseMemory can only be set to false when autoPause is enabled");
	if (b->auto_resume && !b->auto_pause)
		return err_set(e, ERR_INVALID, "autoResume can only be enabled when autoPause is enabled");
	if (!memory && b->auto_resume)
		return err_set(e, ERR_INVALID, "autoPauseMemory cannot be false when autoResume is enabled");
	return 0;
}

// Labels are what `skep ps` shows; a name that can be no label is E2B's alone.
static void label_metadata(const struct e2b_box *b, struct create *c)
{
	for (char **m = b->metadata; *m; m += 2) {
		auto_free char *kv = xasprintf("%s=%s", m[0], m[1]);
		if (!strchr(m[0], '='))
			strv_add(&c->labels, kv);
	}
}

static void put_label(char ***labels, const char *kv)
{
	for (char **l = *labels; l && *l; l++)
		if (!strncmp(*l, kv, strcspn(kv, "=") + 1)) {
			free(*l);
			*l = xstrdup(kv);
			return;
		}
	strv_add(labels, kv);
}

static int read_create(struct making *m, uint64_t timeout_s, struct err *e)
{
	const json_t *o = m->r->json, *network = json_object_get(o, "network");
	struct e2b_box *b = m->box;
	bool open = true;
	if (refuse_unbuilt(o, e) || e2b_volumes_read(m->r, o, &m->c, e) || read_pairs(json_object_get(o, "metadata"), "metadata", &b->metadata, false, e) ||
	    read_pairs(json_object_get(o, "envVars"), "envVars", &b->env, true, e) || read_lifecycle(o, b, e) ||
	    e2b_net_read(m->r, network, &m->c.net, e) || json_get_bool(network, "allowPublicTraffic", &open, e) ||
	    e2b_mask_read(network, &b->mask_host, e) || e2b_limits_read(o, &m->c.limits, e))
		return -1;
	e2b_copy_network(o, network, b, false);
	if (!open)
		key_make(b->traffic);
	b->timeout_ms = timeout_s * 1000;
	m->c.ttl_ms = b->timeout_ms + E2B_GRACE_MS;
	m->c.on_expiry = b->auto_pause && !b->drops_memory ? EXPIRY_PAUSE : EXPIRY_STOP;
	m->c.start = true;
	label_metadata(b, &m->c);
	if (m->r->who->on == ON_LABEL) // what it makes is its own
		put_label(&m->c.labels, m->r->who->value);
	return 0;
}

static void put_env(char ***env, const char *name, const char *value)
{
	auto_free char *kv = xasprintf("%s=%s", name, value);
	strv_add(env, kv);
}

// The template's variables, the create's, ours: a later one counts.
void e2b_settle_env(struct e2b_box *b, char *const *of_template)
{
	char **env = of_template ? strv_copy(of_template) : xcalloc(1, sizeof *env);
	for (char **v = b->env; *v; v++)
		strv_add(&env, *v);
	put_env(&env, "E2B_SANDBOX", "true");
	put_env(&env, "E2B_SANDBOX_ID", b->id);
	put_env(&env, "E2B_TEMPLATE_ID", b->template_id);
	strv_free(b->env);
	b->env = env;
}

static struct e2b_build *build_of(const struct making *m, struct e2b_template **out_t)
{
	struct err e;
	*out_t = e2b_template_find(m->template_id, NULL, &e);
	return *out_t ? e2b_build_of(*out_t, m->build) : NULL;
}

static void answer_created(struct making *m)
{
	struct request *r = m->r;
	struct jsonw w = answer_json(r);
	struct e2b_box *b = m->box;
	struct err e;
	m->box = NULL;
	e2b_put_sandbox(r, &w, b);
	struct outcome made = {.sandbox = e2b_row(r->engine, b)};
	int rc = e2b_box_add(r->engine, b, &e);
	if (!rc && !made.sandbox)
		err_set(&e, ERR_NOT_FOUND, "it ended at once");
	once_end(m->once, rc || !made.sandbox ? &e : NULL, &made);
	making_free(m);
	if (rc)
		request_fail(r, &e);
	else
		request_answer(r, 201);
}

static void try_ready(struct making *m);

static void on_ready(void *ctx, const struct err *e, int status)
{
	struct making *m = ctx;
	if ((e || status) && ++m->tries < 600) // the command itself takes its time: a shell, usually with a sleep
		try_ready(m);
	else
		answer_created(m);
}

static void try_ready(struct making *m)
{
	struct e2b_template *t;
	struct e2b_build *b = build_of(m, &t);
	if (!b || !b->ready_cmd) {
		answer_created(m);
		return;
	}
	auto_free char *script = xasprintf("( %s\n) || { sleep 0.1; exit 1; }", b->ready_cmd);
	char *argv[] = {(char *)"/bin/bash", (char *)"-l", (char *)"-c", script, NULL};
	e2b_command(m->r->engine, &(struct e2b_command){.sandbox = m->box->id, .user = m->box->user, .cwd = m->box->workdir, .argv = argv,
							.env = m->box->env, .input = -1, .timeout_ms = 30000, .done = on_ready, .ctx = m});
}

static void on_start_begun(void *ctx, const struct err *e, const struct outcome *o)
{
	(void)o;
	if (e)
		fail(ctx, e);
	else
		try_ready(ctx);
}

// A template's start command runs in every sandbox made of it: memory is no part of our snapshots.
static void run_start_cmd(struct making *m, const struct e2b_build *b)
{
	const char *argv[] = {"/bin/bash", "-l", "-c", b->start_cmd, NULL};
	struct exec_request x = {.argv = strv_copy((char **)argv), .env = strv_copy(m->box->env), .cwd = xstrdup(m->box->workdir),
				 .user = xstrdup(m->box->user), .detached = true, .has_timeout = true};
	engine_exec(m->r->engine, m->box->id, &x, (struct done){on_start_begun, m});
}

static void on_created(void *ctx, const struct err *e, const struct outcome *o)
{
	struct making *m = ctx;
	struct e2b_template *t;
	if (e) {
		fail(m, e);
		return;
	}
	struct e2b_build *b = build_of(m, &t);
	memcpy(m->box->id, o->sandbox->id, sizeof m->box->id);
	m->box->started = o->sandbox->created;
	m->box->ends = clock_unix_ms() + m->box->timeout_ms;
	m->box->user = xstrdup(b && b->user ? b->user : E2B_USER);
	m->box->workdir = b && b->workdir ? xstrdup(b->workdir) : xasprintf(strcmp(m->box->user, "root") ? "/home/%s" : "/%s", m->box->user);
	e2b_settle_env(m->box, b ? b->env : NULL);
	if (t) {
		t->spawned = m->box->started;
		t->spawn_count++;
		e2b_template_save(m->r->engine, t);
	}
	if (b && b->start_cmd && *b->start_cmd)
		run_start_cmd(m, b);
	else
		answer_created(m);
}

static void on_template(void *ctx, const struct err *e)
{
	struct making *m = ctx;
	struct e2b_template *t;
	struct err gone;
	struct e2b_build *b = e ? NULL : build_of(m, &t);
	if (!e && !b)
		err_set(&gone, ERR_NOT_FOUND, "template was deleted");
	if (!b) {
		fail(m, e ? e : &gone);
		return;
	}
	m->c.from = xstrdup(b->snapshot);
	engine_create(m->r->engine, &m->c, (struct done){on_created, m});
}

static void create(struct request *r, uint64_t timeout_s, bool secure)
{
	struct err e;
	struct e2b_build *b;
	const char *word = json_str(r->json, "templateID");
	if (!e2b_timeout_of(r, "timeout", &timeout_s))
		return;
	if (!*word) {
		e2b_error(r, 400, "templateID is required");
		return;
	}
	struct e2b_template *t = e2b_template_find(word, &b, &e);
	if (t && !e2b_template_sees(r, t))
		t = NULL, err_set(&e, ERR_NOT_FOUND, "template '%.80s' not found", word);
	if (!t || !b || (r->who->on == ON_SANDBOX && err_set(&e, ERR_DENIED, "this token is for sandbox %s only: it can not make others", r->who->value))) {
		request_fail(r, &e);
		return;
	}
	struct making *m = xcalloc(1, sizeof *m);
	m->r = r;
	m->box = e2b_box_new("");
	m->c.limits = e2b_limits_of(t);
	m->c.umask_bits = 022;
	memcpy(m->template_id, t->id, sizeof m->template_id);
	memcpy(m->build, b->id, sizeof m->build);
	m->box->template_id = xstrdup(t->id);
	m->box->alias = t->name ? xstrdup(t->name) : NULL;
	if (secure)
		key_make(m->box->token);
	if (read_create(m, timeout_s, &e))
		fail(m, &e);
	else if (!once_begin(r, replay, &m->once))
		making_free(m);
	else
		e2b_template_ready(r, t, b, on_template, m);
}

void e2b_create_v2(struct request *r)
{
	create(r, 300, true);
}

void e2b_create_v1(struct request *r)
{
	struct err e;
	bool secure = false;
	if (json_get_bool(r->json, "secure", &secure, &e))
		request_fail(r, &e);
	else
		create(r, 15, secure);
}
