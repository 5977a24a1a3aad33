// SPDX-License-Identifier: Apache-2.0
// Setup layers. A project's setup commands run in a sandbox of their own, which stands on the same base as the one that is
// asked for; when they are done, what it wrote becomes a layer that every later sandbox with the same key stands on. One
// run serves all who ask meanwhile. A run that fails, or that a daemon died over, leaves nothing.
#include "engine/base_int.h"
#include "engine/net_int.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/setup.h"
#include "workspace/locks.h"
#include <stdlib.h>
#include <string.h>

#define READ_MS 1000 // for the client that was promised the output of a setup that failed
#define IDLE_MS 60000 // then a cell whose daemon went away over it ends by itself
#define TAIL_BYTES 2000 // of what a failed setup wrote last

typedef void (*prepared)(struct task *t, const struct err *e);

struct setup_wait {
	struct task *t;
	prepared then;
	struct setup_wait *next;
};

struct setup_run {
	struct engine *g;
	char key[SHA256_HEX];
	char box[ID_SIZE], exec[ID_SIZE], layer[ID_SIZE]; // exec "" = it has not begun
	char ticket[KEY_SIZE]; // for the one who made it run; "" = given away, or nobody wants one
	bool ended; // its commands
	bool promised; // the ticket was given away
	bool over;  // finished; freed when nothing that was asked for it is under way
	int busy;   // how much that is
	char *file; // the project's
	struct setup_wait *waits;
	struct setup_run *next;
};

static char *base_dir(const struct box *b)
{
	return b->row.tree ? xasprintf("%s/%s", b->g->skep_home, b->row.tree) : xstrdup(b->row.repo ? b->row.repo : "");
}

// --- the key ---

static int make_key(struct box *b, char out[SHA256_HEX], struct err *e)
{
	struct engine *g = b->g;
	const struct sandbox *s = &b->row;
	struct setup_file *files;
	size_t n;
	char host[SHA256_HEX] = "";
	auto_free char *dir = base_dir(b);
	g->locks = g->locks ? g->locks : locks_cache_new();
	if (locks_read(g->locks, dir, s->project.setup_files, &files, &n, e))
		return err_wrap(e, "setup of %s", s->project.file);
	if (!s->image)
		locks_host(host);
	setup_key(&(struct setup){.repo = s->url ? s->url : s->repo, .image = s->image ? s->image : host, .ws_path = s->ws_path, .profile = s->profile,
				  .commands = s->project.setup, .env = s->project.env, .hide = s->project.hide, .files = files, .n_files = n}, out);
	locks_done(files, n);
	return 0;
}

// Above the private .git, below whatever the sandbox has of its own.
static void stand_on(struct sandbox *s, const struct derived *d)
{
	size_t own = strv_len(s->lowers) - s->n_base;
	char **lowers = NULL;
	for (size_t i = 0; i < own; i++)
		strv_add(&lowers, s->lowers[i]);
	strv_add(&lowers, d->row.path);
	for (char **l = s->lowers + own; *l; l++)
		strv_add(&lowers, *l);
	strv_free(s->lowers);
	s->lowers = lowers;
	s->n_base++;
	free(s->project.setup_key);
	s->project.setup_key = xstrdup(d->row.key);
}

// --- the end of a run ---

static void unlink_run(struct setup_run *r)
{
	list_unlink(&r->g->setups, r, next);
}

static void run_free(struct setup_run *r)
{
	while (r->waits) {
		struct setup_wait *w = r->waits;
		r->waits = w->next;
		free(w);
	}
	free(r->file);
	free(r);
}

static void on_read(struct timer *t)
{
	struct box *b = container_of(t, struct box, setup_timer);
	engine_remove(b->g, b->row.id, true, (struct done){0});
}

static void let_go(struct setup_run *r, bool failed)
{
	struct box *b = box_by_id(r->g, r->box);
	if (!b || b->setup != r)
		return;
	b->setup = NULL;
	b->setup_timer.fn = on_read;
	if (failed && r->promised)
		timer_set(r->g->loop, &b->setup_timer, READ_MS);
	else
		engine_remove(r->g, r->box, true, (struct done){0});
}

// Whoever waited goes on, or fails as it did.
static void finish(struct setup_run *r, const struct err *e)
{
	struct err why = e ? *e : (struct err){0};
	struct derived *d = e ? NULL : derived_find(r->g, DERIVED_SETUP, r->key);
	unlink_run(r);
	let_go(r, e);
	if (!e && !d)
		err_set(&why, ERR_UNAVAILABLE, "the setup layer was removed before it was used: try again");
	for (struct setup_wait *w = r->waits; w; w = w->next) {
		if (d)
			stand_on(&w->t->box->row, d);
		w->then(w->t, d ? NULL : &why);
	}
	r->over = true;
	if (!r->busy)
		run_free(r);
}

// Something asked for it was answered. True: too late, it is over.
static bool is_over(struct setup_run *r)
{
	bool over = r->over;
	if (!--r->busy && over)
		run_free(r);
	return over;
}

// --- sealing ---

// What the sandbox wrote becomes a layer that belongs to nobody: in one step, or its removal would take the layer along.
static int hand_over(struct setup_run *r, struct box *b, struct derived_row *row, struct err *e)
{
	struct engine *g = r->g;
	struct derived *d = NULL;
	if (store_begin(g->store, e)) {
		derived_row_done(row);
		return -1;
	}
	id_make('l', b->row.layer);
	b->unkept = true;
	if (!store_sandbox_stack(g->store, &b->row, e))
		d = derived_add(g, row, e);
	else
		derived_row_done(row);
	engine_wrote(g);
	if (d && !store_commit(g->store, e)) {
		b->row.layer_made = false;
		return 0;
	}
	if (!d)
		store_rollback(g->store);
	else
		derived_drop(g, d);
	memcpy(b->row.layer, r->layer, sizeof b->row.layer);
	return -1;
}

static void keep(struct setup_run *r, uint64_t bytes)
{
	struct box *b = box_by_id(r->g, r->box);
	struct err e = {.kind = ERR_NOT_FOUND, .msg = "the setup's sandbox was removed"};
	struct derived_row row = {.kind = DERIVED_SETUP, .key = xstrdup(r->key), .path = xasprintf("layers/%s", r->layer), .bytes = bytes};
	strv_add(&row.info, r->file);
	if (!b || fault(FAULT_SETUP_KEEP, &e)) {
		derived_row_done(&row);
		finish(r, &e);
		return;
	}
	int rc = hand_over(r, b, &row, &e);
	struct err injected;
	if (fault(FAULT_SETUP_KEPT, &injected))
		log_line(LOG_WARN, "%s", injected.msg); // what matters here is dying
	finish(r, rc ? &e : NULL);
}

static void on_synced(void *ctx, const struct err *e, const struct layer_result *result)
{
	struct setup_run *r = ctx;
	if (is_over(r))
		return;
	if (e)
		finish(r, e);
	else
		keep(r, result->bytes);
}

static void ask_layer(struct setup_run *r, enum layer_verb verb, const char *base,
		      void (*fn)(void *ctx, const struct err *e, const struct layer_result *result))
{
	char *from[] = {r->layer, NULL};
	struct layer_op op = {.verb = verb, .from = from, .base = base, .sealed = verb == LAYER_SYNC};
	r->busy++;
	r->g->backend->ops->layer(r->g->backend, &op, (struct layer_reply){fn, r});
}

static void on_trimmed(void *ctx, const struct err *e, const struct layer_result *result)
{
	struct setup_run *r = ctx;
	(void)result;
	if (is_over(r))
		return;
	if (e)
		finish(r, e);
	else
		ask_layer(r, LAYER_SYNC, NULL, on_synced);
}

static void on_stopped(void *ctx, const struct err *e, const struct outcome *o)
{
	struct setup_run *r = ctx;
	struct err why;
	if (is_over(r))
		return;
	struct box *b = e ? NULL : box_by_id(r->g, o->sandbox->id);
	if (!b || fault(FAULT_SETUP_SEAL, &why)) {
		finish(r, e ? e : &why);
		return;
	}
	auto_free char *dir = base_dir(b);
	memcpy(r->layer, b->row.layer, sizeof r->layer);
	ask_layer(r, LAYER_TRIM, dir, on_trimmed);
}

// The last line it wrote says more than a number.
static void failure(struct setup_run *r, const struct exec_result *res, struct err *out)
{
	struct err ignored;
	uint64_t first, end = 0;
	auto_buf struct buf probe = BUF_INIT(1), tail = BUF_INIT(TAIL_BYTES);
	if (!engine_output(r->g, r->exec, "stderr", 0, &probe, &first, &end, &ignored) && end)
		if (engine_output(r->g, r->exec, "stderr", end > TAIL_BYTES ? end - TAIL_BYTES : 0, &tail, &first, &end, &ignored))
			buf_clear(&tail);
	while (tail.n && (tail.p[tail.n - 1] == '\n' || tail.p[tail.n - 1] == '\r'))
		tail.p[--tail.n] = 0;
	const char *line = tail.n ? strrchr(tail.p, '\n') : NULL;
	line = line ? line + 1 : buf_cstr(&tail);
	err_set(out, ERR_CONFLICT, "the setup in %.150s failed with status %u%s%s%.150s. Correct it, or go without: --no-setup", r->file, res->status,
		res->reason ? ", " : "", res->reason ? res->reason : *line ? ": " : "", res->reason ? "" : line);
}

void setup_exited(struct box *b, const char *exec, const struct exec_result *res)
{
	struct setup_run *r = b->setup;
	struct err e;
	if (!r || r->ended || strcmp(exec, r->exec))
		return;
	r->ended = true;
	if (!res->status) {
		r->busy++;
		engine_stop(r->g, r->box, (struct done){on_stopped, r});
		return;
	}
	failure(r, res, &e);
	finish(r, &e);
}

void setup_cell_gone(struct box *b)
{
	struct err e;
	if (!b->setup || b->setup->ended)
		return;
	err_set(&e, ERR_UNAVAILABLE, "the setup in %.200s was stopped before it was done", b->setup->file);
	finish(b->setup, &e);
}

void setup_box_gone(struct box *b)
{
	struct setup_run *r = b->setup;
	struct err e;
	timer_clear(b->g->loop, &b->setup_timer);
	if (!r)
		return;
	b->setup = NULL;
	err_set(&e, ERR_NOT_FOUND, "the setup in %.200s was removed before it was done", r->file);
	finish(r, &e);
}

// --- a run ---

// They are answered with what to look at, and ask again.
static void tell(struct setup_run *r)
{
	struct err none;
	err_set(&none, ERR_CONFLICT, "its setup runs");
	struct setup_wait **p = &r->waits;
	while (*p) {
		struct setup_wait *w = *p;
		struct task *t = w->t;
		if (t->setup != SETUP_TELL || !r->exec[0] || (r->ended && !r->ticket[0])) {
			p = &w->next;
			continue;
		}
		*p = w->next;
		free(w);
		t->told = r->exec;
		t->told_box = r->box;
		t->told_ticket = r->ticket[0] ? r->ticket : NULL;
		task_answer(t, NULL);
		r->promised |= r->ticket[0];
		r->ticket[0] = 0;
		create_undo(t, &none);
	}
}

static void on_started(void *ctx, const struct err *e, const struct outcome *o)
{
	struct setup_run *r = ctx;
	if (is_over(r))
		return;
	struct box *b = box_by_id(r->g, r->box);
	if (e) {
		if (b)
			b->setup = NULL; // it is being undone
		finish(r, e);
		return;
	}
	memcpy(r->exec, o->exec_id, sizeof r->exec);
	if (o->ticket)
		memcpy(r->ticket, o->ticket, sizeof r->ticket);
	tell(r);
}

// As the one that is asked for, but for what belongs to that one alone.
static int make_row(const struct setup_run *r, const struct box *of, struct sandbox *s, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(4 * LIMIT_REQUEST_BODY);
	sandbox_template_write(&b, &of->row);
	if (b.overflow || sandbox_template_read(&b, s))
		return err_set(e, ERR_BUG, "the setup's sandbox could not be described");
	s->lowers = strv_copy(of->row.lowers);
	s->n_base = of->row.n_base;
	s->timeout_ms = s->ttl_ms = 0;
	s->idle_ms = IDLE_MS;
	s->auto_snapshot = s->lease = false;
	strv_free(s->env);
	s->env = s->project.env ? strv_copy(s->project.env) : xcalloc(1, sizeof *s->env);
	strv_free(s->labels);
	s->labels = NULL;
	auto_free char *label = xasprintf("setup=%.12s", r->key);
	strv_add(&s->labels, label);
	uint32_t n = 0;
	for (uint32_t i = 0; i < s->n_mounts; i++)
		if (s->mounts[i].cache) {
			s->mounts[n++] = s->mounts[i];
		} else {
			free(s->mounts[i].src);
			free(s->mounts[i].dst);
		}
	s->n_mounts = n;
	s->project.setup_of = xstrdup(r->key);
	return blank_take(of->g, s->id, e);
}

static void name_row(const struct box *of, struct sandbox *s)
{
	const struct net_row *net = &of->row.net;
	id_make('l', s->layer);
	key_make(s->machine_id);
	s->owner = xstrdup(of->g->owner);
	s->state = STATE_CREATING;
	s->keep = true;
	s->created = s->used = clock_unix_ms();
	s->has_net = true; // the rules of the project's setup, if its file is trusted; else nothing
	s->net = (struct net_row){.phase = xstrdup("setup"), .rules = xcalloc(1, sizeof *s->net.rules), .secrets = NULL,
				  .registries = of->row.has_net && net->registries ? strv_copy(net->registries) : NULL};
}

static void begin(struct setup_run *r, struct box *of)
{
	struct sandbox s = {0};
	struct err e;
	if (fault(FAULT_SETUP_BEGIN, &e) || make_row(r, of, &s, &e)) {
		sandbox_done(&s);
		finish(r, &e);
		return;
	}
	name_row(of, &s);
	struct task *t = task_new(box_add(r->g, &s), TASK_CREATE, (struct done){on_started, r});
	t->box->holder = t;
	t->box->setup = r;
	memcpy(r->box, t->box->row.id, sizeof r->box);
	r->busy++;
	t->start = true;
	t->want = (struct exec_request){.argv = setup_argv(of->row.project.setup), .detached = r->waits->t->setup != SETUP_TELL};
	create_go(t, NULL);
}

static void join(struct setup_run *r, struct task *t, prepared then)
{
	struct setup_wait *w = xcalloc(1, sizeof *w);
	*w = (struct setup_wait){t, then, r->waits};
	r->waits = w;
}

static struct setup_run *find_run(struct engine *g, const char *key)
{
	for (struct setup_run *r = g->setups; r; r = r->next)
		if (!strcmp(r->key, key))
			return r;
	return NULL;
}

void setup_prepare(struct task *t, prepared then)
{
	struct box *b = t->box;
	struct engine *g = b->g;
	struct err e;
	char key[SHA256_HEX];
	if (!b->row.project.setup || t->setup == SETUP_OFF || b->row.origin) {
		then(t, NULL);
		return;
	}
	if (make_key(b, key, &e)) {
		then(t, &e);
		return;
	}
	struct derived *d = derived_find(g, DERIVED_SETUP, key);
	if (d) {
		stand_on(&b->row, d);
		then(t, NULL);
		return;
	}
	struct setup_run *r = find_run(g, key);
	if (r) {
		join(r, t, then);
		tell(r);
		return;
	}
	r = xcalloc(1, sizeof *r);
	*r = (struct setup_run){.g = g, .file = xstrdup(b->row.project.file), .next = g->setups};
	memcpy(r->key, key, sizeof r->key);
	g->setups = r;
	join(r, t, then);
	begin(r, b);
}

void setup_sweep(struct engine *g)
{
	char **left = NULL;
	for (struct box *b = g->boxes; b; b = b->next)
		if (b->row.project.setup_of)
			strv_add(&left, b->row.id);
	for (char **id = left; id && *id; id++)
		engine_remove(g, *id, true, (struct done){0});
	strv_free(left);
}

void setup_free(struct engine *g)
{
	while (g->setups) {
		struct setup_run *r = g->setups;
		g->setups = r->next;
		run_free(r);
	}
	locks_cache_free(g->locks);
}
