// SPDX-License-Identifier: Apache-2.0
// The life of a sandbox as E2B knows it: create, connect, pause, resume, timeout, kill, fork, network.
#include "api/e2b_int.h"
#include "api/auth.h"
#include "api/e2b_routes.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MAX_S (365ULL * 86400)
#define FORKS_MAX 100

void e2b_put_members(struct jsonw *w, const struct e2b_box *b)
{
	jw_kstr(w, "sandboxID", b->id);
	jw_kstr(w, "templateID", b->template_id);
	jw_kstr(w, "alias", b->alias);
	jw_kstr(w, "clientID", E2B_CLIENT);
	jw_kstr(w, "envdVersion", E2B_ENVD_VERSION);
}

// Where its ports are reached as PORT-ID.DOMAIN: under the name this server was asked by. An address has no names below it, but
// whoever says 127.0.0.1 can say localhost.
static char *domain_of(const struct request *r)
{
	const char *host = request_header(r, "Host"), *port = host ? strrchr(host, ':') : NULL;
	if (!host || !port || strchr(host, '['))
		return NULL;
	if (str_has_prefix(host, "127.0.0.1:"))
		return xasprintf("localhost%s", port);
	return strspn(host, "0123456789.") == (size_t)(port - host) ? NULL : xstrdup(host);
}

// For who may run things in it.
void e2b_put_secrets(struct request *r, struct jsonw *w, const struct e2b_box *b)
{
	auto_free char *domain = domain_of(r);
	if (*b->token)
		jw_kstr(w, "envdAccessToken", b->token);
	e2b_kstr_or_null(w, "domain", domain);
}

void e2b_put_sandbox(struct request *r, struct jsonw *w, const struct e2b_box *b)
{
	jw_open(w, '{');
	e2b_put_members(w, b);
	e2b_put_secrets(r, w, b);
	e2b_kstr_or_null(w, "trafficAccessToken", *b->traffic ? b->traffic : NULL);
	jw_close(w, '}');
}

struct e2b_box *e2b_named(struct request *r)
{
	struct e2b_box *b = e2b_box_get(r->engine, r->parts[0]);
	if (!b)
		e2b_error(r, 404, "sandbox \"%.60s\" doesn't exist or you don't have access to it", r->parts[0]);
	return b;
}

// Seconds of a body; false: answered.
static bool timeout_of(struct request *r, const char *key, uint64_t *inout_s)
{
	if (!e2b_number(r, key, 0, inout_s))
		return false;
	if (*inout_s && *inout_s <= TIMEOUT_MAX_S)
		return true;
	e2b_error(r, 400, *inout_s ? "Timeout cannot be greater than %llu hours" : "Timeout must be greater than 0",
		  (unsigned long long)(TIMEOUT_MAX_S / 3600));
	return false;
}

// --- create ---

struct making {
	struct request *r;
	struct e2b_box *box; // without its id until there is one
	struct create c;
	char template_id[ID_SIZE], build[40];
	int tries;
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
	making_free(m);
	request_fail(r, e);
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
	static const char *const names[] = {"volumeMounts", "iam", "mcp"};
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
	if (!memory && !b->auto_pause)
		return err_set(e, ERR_INVALID, "autoPauseMemory can only be set to false when autoPause is enabled");
	if (!memory && b->auto_resume)
		return err_set(e, ERR_INVALID, "autoPauseMemory cannot be false when autoResume is enabled");
	return 0;
}

static void copy_network(const json_t *o, const json_t *network, struct e2b_box *b)
{
	const json_t *internet = json_object_get(o, "allow_internet_access");
	auto_buf struct buf text = BUF_INIT(LIMIT_REQUEST_BODY);
	b->has_internet = json_is_boolean(internet);
	b->internet = json_is_true(internet);
	mem_free_ptr(&b->network);
	b->network = NULL;
	if (!json_is_object(network))
		return;
	json_print(&text, network, 0);
	b->network = buf_take(&text);
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
	if (refuse_unbuilt(o, e) || read_pairs(json_object_get(o, "metadata"), "metadata", &b->metadata, false, e) ||
	    read_pairs(json_object_get(o, "envVars"), "envVars", &b->env, true, e) || read_lifecycle(o, b, e) ||
	    e2b_net_read(m->r, network, &m->c.net, e) || json_get_bool(network, "allowPublicTraffic", &open, e))
		return -1;
	copy_network(o, network, b);
	if (!open)
		key_make(b->traffic);
	b->timeout_ms = timeout_s * 1000;
	m->c.ttl_ms = b->timeout_ms + E2B_GRACE_MS;
	m->c.on_expiry = b->auto_pause ? EXPIRY_PAUSE : EXPIRY_STOP;
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
static void settle_env(struct e2b_box *b, char *const *of_template)
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
	struct jsonw w = e2b_out(r);
	struct e2b_box *b = m->box;
	struct err e;
	m->box = NULL;
	e2b_put_sandbox(r, &w, b);
	int rc = e2b_box_add(r->engine, b, &e);
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
	settle_env(m->box, b ? b->env : NULL);
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
	if (!timeout_of(r, "timeout", &timeout_s))
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
	m->c.limits = LIMITS_DEFAULT;
	m->c.umask_bits = 022;
	memcpy(m->template_id, t->id, sizeof m->template_id);
	memcpy(m->build, b->id, sizeof m->build);
	m->box->template_id = xstrdup(t->id);
	m->box->alias = t->name ? xstrdup(t->name) : NULL;
	if (secure)
		key_make(m->box->token);
	if (read_create(m, timeout_s, &e))
		fail(m, &e);
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

// --- connect and resume ---

static void on_connected(void *ctx, const struct err *e, struct e2b_box *b)
{
	struct request *r = ctx;
	struct jsonw w = e2b_out(r);
	if (e) {
		request_fail(r, e);
		return;
	}
	e2b_put_sandbox(r, &w, b);
	request_answer(r, 201);
}

// Only ever later.
static void extend(struct engine *g, struct e2b_box *b, uint64_t seconds)
{
	struct err ignored;
	uint64_t end = clock_unix_ms() + seconds * 1000;
	if (b->ends && b->ends < end && e2b_end_set(g, b, end, &ignored))
		return; // it was killed this moment
}

static void connect_to(struct request *r, uint64_t timeout_s)
{
	struct jsonw w = e2b_out(r);
	struct e2b_box *b = e2b_named(r);
	if (!b || !timeout_of(r, "timeout", &timeout_s))
		return;
	if (!e2b_is_running(r->engine, b)) {
		e2b_resume(r->engine, b, timeout_s * 1000, (struct e2b_done){on_connected, r});
		return;
	}
	extend(r->engine, b, timeout_s);
	e2b_put_sandbox(r, &w, b);
	request_answer(r, 200);
}

void e2b_connect_v2(struct request *r)
{
	connect_to(r, 300);
}

void e2b_connect_v1(struct request *r)
{
	if (json_object_get(r->json, "timeout"))
		connect_to(r, 15);
	else
		e2b_error(r, 400, "timeout is required");
}

void e2b_post_resume(struct request *r)
{
	struct e2b_box *b = e2b_named(r);
	uint64_t timeout_s = 15;
	struct err e;
	if (!b || !timeout_of(r, "timeout", &timeout_s))
		return;
	if (e2b_is_running(r->engine, b)) {
		e2b_error(r, 409, "sandbox \"%s\" is already running", b->id);
		return;
	}
	if (json_get_bool(r->json, "autoPause", &b->auto_pause, &e))
		request_fail(r, &e);
	else
		e2b_resume(r->engine, b, timeout_s * 1000, (struct e2b_done){on_connected, r});
}

// --- pause, kill ---

static void done_empty(void *ctx, const struct err *e, const struct outcome *o)
{
	(void)o;
	if (e)
		request_fail(ctx, e);
	else
		request_answer(ctx, 204);
}

// Its end is forgotten first: a sandbox that waits does not grow old.
void e2b_post_pause(struct request *r)
{
	struct e2b_box *b = e2b_named(r);
	bool memory = true;
	struct err e;
	if (!b)
		return;
	if (!e2b_is_running(r->engine, b)) {
		e2b_error(r, 409, "sandbox \"%s\" is already paused", b->id);
		return;
	}
	if (json_get_bool(r->json, "memory", &memory, &e) || e2b_end_set(r->engine, b, 0, &e)) {
		request_fail(r, &e);
		return;
	}
	if (memory)
		engine_pause(r->engine, b->id, true, (struct done){done_empty, r});
	else
		engine_stop(r->engine, b->id, (struct done){done_empty, r});
}

void e2b_delete_sandbox(struct request *r)
{
	struct e2b_box *b = e2b_named(r);
	if (b)
		e2b_kill(r->engine, b, (struct done){done_empty, r});
}

// --- time ---

static struct e2b_box *named_running(struct request *r)
{
	struct e2b_box *b = e2b_named(r);
	if (b && !e2b_is_running(r->engine, b)) {
		e2b_error(r, 404, "sandbox \"%s\" is not running", b->id);
		return NULL;
	}
	return b;
}

void e2b_post_timeout(struct request *r)
{
	struct err e;
	uint64_t seconds = 0;
	struct e2b_box *b = named_running(r);
	if (!b || !e2b_number(r, "timeout", 0, &seconds))
		return;
	if (!json_object_get(r->json, "timeout") || seconds > TIMEOUT_MAX_S)
		e2b_error(r, 400, "timeout must be a number of seconds, at most %llu", TIMEOUT_MAX_S);
	else if (e2b_end_set(r->engine, b, clock_unix_ms() + seconds * 1000 + !seconds, &e))
		request_fail(r, &e);
	else
		request_answer(r, 204);
}

void e2b_post_refreshes(struct request *r)
{
	uint64_t seconds = 15;
	struct e2b_box *b = named_running(r);
	if (!b || !timeout_of(r, "duration", &seconds))
		return;
	extend(r->engine, b, seconds);
	request_answer(r, 204);
}

// --- network ---

struct renet {
	struct request *r;
	char id[ID_SIZE];
};

static void on_net(void *ctx, const struct err *e, const struct outcome *o)
{
	struct renet *n = ctx;
	struct e2b_box *b = e ? NULL : e2b_box_get(n->r->engine, n->id);
	if (b) {
		copy_network(n->r->json, n->r->json, b);
		e2b_box_save(n->r->engine, b);
	}
	done_empty(n->r, e, o);
	free(n);
}

void e2b_put_network(struct request *r)
{
	struct err e;
	struct net_request n = {0};
	struct e2b_box *b = named_running(r);
	if (!b)
		return;
	if (e2b_net_read(r, r->json, &n, &e)) {
		net_request_done(&n);
		request_fail(r, &e);
		return;
	}
	n.remove = e2b_net_rules(e2b_row(r->engine, b));
	struct renet *c = xcalloc(1, sizeof *c);
	c->r = r;
	memcpy(c->id, b->id, sizeof c->id);
	engine_policy_set(r->engine, c->id, &n, (struct done){on_net, c});
}

// --- fork ---

struct forking {
	struct request *r;
	char id[ID_SIZE];
	uint64_t timeout_ms;
	char **ids; // of the forks
	size_t at;  // the one that is being started
	struct err *errs;
};

static void start_next(struct forking *f);

static struct e2b_box *fork_box(const struct e2b_box *of, const char *id, uint64_t timeout_ms)
{
	struct e2b_box *b = e2b_box_new(id);
	b->template_id = xstrdup(of->template_id);
	b->alias = of->alias ? xstrdup(of->alias) : NULL;
	b->user = xstrdup(of->user);
	b->workdir = xstrdup(of->workdir);
	b->network = of->network ? xstrdup(of->network) : NULL;
	b->has_internet = of->has_internet;
	b->internet = of->internet;
	b->auto_pause = of->auto_pause;
	b->auto_resume = of->auto_resume;
	strv_free(b->metadata);
	b->metadata = strv_copy(of->metadata);
	for (char **v = of->env; *v; v++)
		if (!str_has_prefix(*v, "E2B_"))
			strv_add(&b->env, *v);
	settle_env(b, NULL);
	b->timeout_ms = timeout_ms;
	b->started = clock_unix_ms();
	if (*of->token)
		key_make(b->token);
	if (*of->traffic)
		key_make(b->traffic);
	return b;
}

static void answer_forks(struct forking *f)
{
	struct request *r = f->r;
	struct jsonw w = e2b_out(r);
	jw_open(&w, '[');
	for (size_t i = 0; f->ids[i]; i++) {
		struct e2b_box *b = f->errs[i].kind ? NULL : e2b_box_get(r->engine, f->ids[i]);
		jw_open(&w, '{');
		jw_key(&w, b ? "sandbox" : "error");
		if (b) {
			e2b_put_sandbox(r, &w, b);
		} else {
			jw_open(&w, '{');
			jw_ku64(&w, "code", (uint64_t)e2b_status(&f->errs[i]));
			jw_kstr(&w, "message", f->errs[i].kind ? f->errs[i].msg : "it ended at once");
			jw_close(&w, '}');
		}
		jw_close(&w, '}');
	}
	jw_close(&w, ']');
	strv_free(f->ids);
	free(f->errs);
	free(f);
	request_answer(r, 201);
}

static void on_fork_up(void *ctx, const struct err *e, const struct outcome *o)
{
	struct forking *f = ctx;
	(void)o;
	if (e)
		f->errs[f->at] = *e;
	f->at++;
	start_next(f);
}

static void start_next(struct forking *f)
{
	struct err e;
	const char *id = f->ids[f->at];
	struct e2b_box *of = e2b_box_get(f->r->engine, f->id);
	if (!id) {
		answer_forks(f);
		return;
	}
	if (!of)
		err_set(&e, ERR_NOT_FOUND, "sandbox %s was killed", f->id);
	struct e2b_box *b = of ? fork_box(of, id, f->timeout_ms) : NULL;
	if (!b || e2b_box_add(f->r->engine, b, &e) || e2b_end_set(f->r->engine, b, clock_unix_ms() + f->timeout_ms, &e))
		on_fork_up(f, &e, NULL);
	else
		engine_start(f->r->engine, id, (struct done){on_fork_up, f});
}

static void on_going_on(void *ctx, const struct err *e)
{
	struct forking *f = ctx;
	struct request *r = f->r;
	if (!e) {
		start_next(f);
		return;
	}
	strv_free(f->ids);
	free(f->errs);
	free(f);
	request_fail(r, e);
}

static void on_forked(void *ctx, const struct err *e, const struct outcome *o)
{
	struct forking *f = ctx;
	for (const struct sandbox *const *s = e ? NULL : o->forks; s && *s; s++)
		strv_add(&f->ids, (*s)->id);
	f->errs = xcalloc(strv_len(f->ids) + 1, sizeof *f->errs);
	e2b_release(f->r->engine, f->id, e, on_going_on, f);
}

void e2b_post_fork(struct request *r)
{
	uint64_t timeout_s = 300, count = 1;
	struct e2b_box *b = e2b_named(r);
	if (!b || !timeout_of(r, "timeout", &timeout_s) || !e2b_number(r, "count", 1, &count))
		return;
	struct err e;
	if (rights_fork(r, &e)) {
		request_fail(r, &e);
		return;
	}
	if (count > FORKS_MAX) {
		e2b_error(r, 400, "count is at most %d", FORKS_MAX);
		return;
	}
	if (!e2b_is_running(r->engine, b)) {
		e2b_error(r, 409, "sandbox \"%s\" is paused: only a running one can be forked", b->id);
		return;
	}
	struct forking *f = xcalloc(1, sizeof *f);
	*f = (struct forking){.r = r, .timeout_ms = timeout_s * 1000};
	memcpy(f->id, b->id, sizeof f->id);
	b->held++;
	engine_fork(r->engine, f->id, NULL, (uint32_t)count, (struct done){on_forked, f});
}
