// SPDX-License-Identifier: Apache-2.0
// The native backend: what the engine asks of it.
#include "backend/native_int.h"
#include "base/flow.h"
#include "base/fs.h"
#include "base/mem.h"
#include "model/msg.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define START_MS 60000 // the first root cell of a host builds its ownership layer
#define ADOPT_MS 5000

struct native *native_of(struct backend *b)
{
	return container_of(b, struct native, b);
}

// Takes *secrets once the slot has them. False: the slot was dead, and is gone.
static bool slot_begin(struct cell *c, const struct buf *spec, int *secrets)
{
	c->pooled = true;
	buf_add(&c->spec, spec->p, spec->n);
	c->secrets = *secrets >= 0 ? fcntl(*secrets, F_DUPFD_CLOEXEC, 3) : -1;
	if ((*secrets < 0 || c->secrets >= 0) && cell_begin(c)) {
		close_fd(secrets);
		return true;
	}
	cell_bury(c);
	return false;
}

static struct cell *take_slot(struct native *n, const char *id, const struct buf *spec, const struct buf *key, bool exact, int *secrets)
{
	struct cell *c;
	while ((c = pool_take(n, id, key, exact))) {
		c->warm_ok = true;
		if (slot_begin(c, spec, secrets))
			return c;
	}
	return NULL;
}

// Of a kind that the pool does not have.
static struct cell *take_other(struct native *n, const struct cell_spec *s, const struct buf *spec, bool fresh, int *secrets)
{
	struct cell *c = fresh ? recipe_take(n, s) : NULL;
	if (c && slot_begin(c, spec, secrets)) {
		c->stacked = xstrdup(s->layer);
		return c;
	}
	struct err e;
	if (fresh && layer_make(s->layer, &e))
		return NULL; // the start says so
	while ((c = recipe_take_cold(n, s->profile)))
		if (slot_begin(c, spec, secrets))
			return c;
	return NULL;
}

// A warm slot brings a new layer of its own: it fits only a sandbox that has none yet. A sandbox with a history of its own
// is started cold: slots made for it would fit nobody else. What is hidden is judged when a cell starts: no slot brings that.
static bool fits_warm(const struct cell_spec *s, bool fresh)
{
	return fresh && !s->hide && (!s->lowers || strv_len(s->lowers) == s->n_base_lowers) && s->profile == PROFILE_USER && !s->image && !s->nested && !s->maintenance;
}

// They are mounted below home, which a slot for no place in particular has mounted already.
static bool has_caches(const struct cell_spec *s)
{
	for (uint32_t i = 0; i < s->n_mounts; i++)
		if (s->mounts[i].cache)
			return true;
	return false;
}

static struct cell *native_start(struct backend *b, const struct cell_spec *spec, bool fresh, struct cell_watcher *w)
{
	struct native *n = native_of(b);
	struct err e;
	auto_buf struct buf wire = BUF_INIT(FRAME_MAX);
	cell_spec_write(&wire, spec);
	bool warm_ok = fits_warm(spec, fresh);
	auto_buf struct buf key = BUF_INIT(FRAME_MAX);
	if (warm_ok) {
		place_write(&key, spec);
		pool_aim(n, &key);
		ahead_learn(n, spec);
	}
	int rc = wire.overflow ? err_set(&e, ERR_LIMIT, "the request is too large for a cell") : 0;
	auto_fd int secrets = !rc && spec->net.secrets.n ? sealed_memory(&spec->net.secrets, &e) : -1;
	if (!rc && spec->net.secrets.n && secrets < 0)
		rc = -1;
	const char *stacked = (spec->lowers && spec->lowers[0]) || has_caches(spec) ? spec->layer : NULL;
	struct cell *c = NULL;
	if (!rc && warm_ok)
		c = take_slot(n, spec->sandbox, &wire, &key, stacked, &secrets);
	else if (!rc)
		c = take_other(n, spec, &wire, fresh, &secrets);
	native_forsake(b, spec->sandbox); // what was built for it does not fit
	if (!warm_ok && fresh)
		recipe_learn(n, spec);
	if (!warm_ok && !(c && c->stacked))
		recipe_learn_cold(n, spec->profile);
	if (c) {
		c->w = w;
		c->profile = spec->profile;
		if (warm_ok && stacked)
			c->stacked = xstrdup(stacked);
		memcpy(c->sandbox, spec->sandbox, sizeof c->sandbox);
		cell_deadline(c, START_MS);
		pool_refill_soon(n);
		return c;
	}
	c = cell_new(n, CELL_WAITING);
	c->w = w;
	memcpy(c->sandbox, spec->sandbox, sizeof c->sandbox);
	c->profile = spec->profile;
	c->warm_ok = warm_ok;
	c->secrets = take_fd(&secrets);
	if (!rc && fresh && !warm_ok)
		rc = layer_make(spec->layer, &e);
	if (rc) {
		cell_fail_later(c, &e);
		return c;
	}
	c->spec = wire;
	wire = BUF_INIT(0);
	buf_add(&c->key, key.p, key.n);
	cell_deadline(c, START_MS);
	pool_want(n, c);
	return c;
}

static void native_prepare(struct backend *b, const struct cell_spec *spec)
{
	recipe_prepare(native_of(b), spec);
}

static struct cell *native_adopt(struct backend *b, const char *sandbox, const char *key, struct cell_watcher *w)
{
	struct native *n = native_of(b);
	struct err e;
	auto_free char *name = xasprintf("%s.sock", sandbox);
	auto_buf struct buf hello = BUF_INIT(256);
	struct cell *c = cell_new(n, CELL_STARTING);
	c->w = w;
	c->adopting = true;
	int fd = fs_unix_connect(n->cells_dir, name, &e);
	if (fd < 0 || cell_connect(c, fd, &e)) {
		cell_fail_later(c, &e);
		return c;
	}
	wire_u32(&hello, PROTO_VERSION);
	wire_u8(&hello, ROLE_CONTROL);
	wire_str(&hello, key);
	wire_u64(&hello, 0);
	wire_u64(&hello, 0);
	cell_deadline(c, ADOPT_MS);
	chan_send_buf(&c->ch, M_HELLO, ++c->last_id, &hello); // a failure closes the channel: on_close tells
	return c;
}

static void ask(struct cell *c, uint8_t type, const struct buf *b, struct reply r)
{
	uint32_t id = request_add(&c->requests, &c->last_id, r);
	if (!cell_understands(c))
		return;
	if (b->overflow)
		chan_send(&c->ch, type, 0, id, NULL, 0); // malformed on purpose: the cell answers with INVALID
	else
		chan_send_buf(&c->ch, type, id, b);
}

static void native_exec(struct cell *c, const struct exec_spec *x, const char *ticket, struct reply r)
{
	auto_buf struct buf b = BUF_INIT(FRAME_MAX);
	exec_spec_write(&b, x);
	wire_str(&b, ticket);
	ask(c, M_EXEC, &b, r);
	chan_flush(&c->ch);
}

static void native_ticket(struct cell *c, const char *exec, const char *ticket, struct reply r)
{
	auto_buf struct buf b = BUF_INIT(256);
	wire_str(&b, exec);
	wire_str(&b, ticket);
	ask(c, M_TICKET, &b, r);
}

static void native_kill(struct cell *c, const char *exec, uint32_t signal, struct reply r)
{
	auto_buf struct buf b = BUF_INIT(256);
	wire_str(&b, exec);
	wire_u32(&b, signal);
	ask(c, M_KILL, &b, r);
}

static void native_pause(struct cell *c, bool on, struct reply r)
{
	struct buf none = BUF_INIT(0);
	ask(c, on ? M_PAUSE : M_RESUME, &none, r);
}

static void native_event(struct cell *c, const char *type, const char *by, const char *body, struct reply r)
{
	auto_buf struct buf b = BUF_INIT(FRAME_MAX);
	wire_str(&b, type);
	wire_str(&b, by);
	wire_str(&b, body);
	ask(c, M_EVENT, &b, r);
}

static void native_policy(struct cell *c, const struct cell_net *n, struct reply r)
{
	struct err e;
	auto_buf struct buf b = BUF_INIT(FRAME_MAX);
	auto_fd int secrets = n->secrets.n ? sealed_memory(&n->secrets, &e) : -1;
	uint32_t id = request_add(&c->requests, &c->last_id, r);
	if (!cell_understands(c))
		return;
	buf_add(&b, n->policy.p, n->policy.n);
	wire_str(&b, n->resolver ? n->resolver : "");
	wire_str(&b, n->ca_cert ? n->ca_cert : "");
	wire_str(&b, n->ca_file ? n->ca_file : "");
	if (b.overflow || (n->secrets.n && secrets < 0))
		chan_send(&c->ch, M_POLICY, 0, id, NULL, 0); // malformed on purpose: the cell answers with INVALID
	else if (secrets >= 0)
		chan_send_fd(&c->ch, M_POLICY, id, b.p, b.n, secrets);
	else
		chan_send_buf(&c->ch, M_POLICY, id, &b);
}

static void native_refresh(struct cell *c)
{
	if (cell_understands(c))
		chan_send(&c->ch, M_REFRESH, 0, 0, NULL, 0);
}

static void native_limits(struct cell *c, const struct limits *l, uint64_t expires_unix_ms, uint64_t idle_ms, struct reply r)
{
	auto_buf struct buf b = BUF_INIT(256);
	limits_write(&b, l);
	wire_u64(&b, expires_unix_ms);
	wire_u64(&b, idle_ms);
	ask(c, M_LIMITS, &b, r);
}

static void native_answer(struct cell *c, uint32_t ask_id, uint8_t verdict, uint8_t scope, const char *by)
{
	auto_buf struct buf b = BUF_INIT(256);
	wire_u8(&b, verdict);
	wire_u8(&b, scope);
	wire_str(&b, by);
	if (cell_understands(c))
		chan_send_buf(&c->ch, M_ANSWER, ask_id, &b);
}

static void native_stop(struct cell *c, uint32_t grace_ms, bool remove_layer)
{
	auto_buf struct buf b = BUF_INIT(16);
	wire_u32(&b, grace_ms);
	wire_u8(&b, remove_layer);
	c->stopped = c->foreign;
	if (c->foreign)
		kill(c->foreign, SIGKILL); // ours as long as its connection is open; all in it ends with it
	else
		chan_send_buf(&c->ch, M_STOP, ++c->last_id, &b);
}

static void native_members(struct cell *c, struct count_reply r)
{
	uint32_t id = request_add(&c->requests, &c->last_id, (struct reply){0});
	c->requests->count = r;
	if (cell_understands(c))
		chan_send(&c->ch, M_MEMBERS, 0, id, NULL, 0);
}

static void native_dial(struct cell *c, uint16_t port, struct dial_reply r)
{
	auto_buf struct buf b = BUF_INIT(16);
	uint32_t id = request_add(&c->requests, &c->last_id, (struct reply){0});
	c->requests->dial = r;
	wire_u32(&b, port);
	wire_str(&b, NULL);
	if (cell_understands(c))
		chan_send_buf(&c->ch, M_DIAL, id, &b);
}

static void native_dials(struct cell *c, const char *ticket, struct reply r)
{
	auto_buf struct buf b = BUF_INIT(256);
	wire_str(&b, ticket);
	ask(c, M_DIALS, &b, r);
}

static void send_job(struct native *n, uint8_t type)
{
	n->jobs->type = type;
	if (n->connected)
		request_hand_over(n, n->jobs);
}

static void native_remove(struct backend *b, char *const *dirs, struct reply r)
{
	struct native *n = native_of(b);
	request_add(&n->jobs, &n->last_id, r);
	n->jobs->again = BUF_INIT(FRAME_MAX);
	char **paths = NULL;
	for (char *const *d = dirs; *d; d++) {
		auto_free char *path = xasprintf("%s/%s", n->skep_home, *d);
		strv_add(&paths, path);
	}
	wire_strv(&n->jobs->again, paths);
	strv_free(paths);
	send_job(n, M_REMOVE);
}

static void native_layer(struct backend *b, const struct layer_op *op, struct layer_reply r)
{
	struct native *n = native_of(b);
	request_add(&n->jobs, &n->last_id, (struct reply){0});
	n->jobs->layer = r;
	n->jobs->again = BUF_INIT(FRAME_MAX);
	layer_op_write(&n->jobs->again, op);
	send_job(n, M_LAYER);
}

static void native_volume(struct backend *b, const struct volume_op *op, int body, struct volume_reply r)
{
	struct native *n = native_of(b);
	request_add(&n->jobs, &n->last_id, (struct reply){0});
	n->jobs->volume = r;
	n->jobs->body = body >= 0 ? fcntl(body, F_DUPFD_CLOEXEC, 3) : -1;
	n->jobs->again = BUF_INIT(FRAME_MAX);
	volume_op_write(&n->jobs->again, op);
	send_job(n, M_VOLUME);
}

static void native_free(struct backend *b)
{
	struct native *n = native_of(b);
	nursery_close(n);
	requests_drop(&n->jobs);
	while (n->cells)
		cell_bury(n->cells); // the cells themselves live on
	close_fd(&n->cells_dir);
	free(n->skep_home);
	free(n->home);
	free(n->base);
	free(n->cell_program);
	free(n);
}

static const struct backend_ops native_ops = {
	.expects = native_expects,
	.forsake = native_forsake,
	.prepare = native_prepare,
	.start = native_start,
	.adopt = native_adopt,
	.exec = native_exec,
	.ticket = native_ticket,
	.kill = native_kill,
	.pause = native_pause,
	.dial = native_dial,
	.dials = native_dials,
	.members = native_members,
	.event = native_event,
	.policy = native_policy,
	.refresh = native_refresh,
	.answer = native_answer,
	.limits = native_limits,
	.stop = native_stop,
	.remove = native_remove,
	.layer = native_layer,
	.volume = native_volume,
	.free = native_free,
};

struct backend *backend_native_new(struct loop *l, const struct native_config *cfg, struct err *e)
{
	struct native *n = xcalloc(1, sizeof *n);
	n->b = (struct backend){.name = "native", .can_pause = true, .ops = &native_ops};
	n->loop = l;
	n->skep_home = xstrdup(cfg->skep_home);
	n->home = xstrdup(cfg->home);
	n->cell_program = xstrdup(cfg->cell_program);
	auto_free char *cells = xasprintf("%s/run/cells", cfg->skep_home);
	n->cells_dir = fs_open(AT_FDCWD, cells, O_RDONLY | O_DIRECTORY, 0, e);
	n->child.fd = -1;
	if (n->cells_dir < 0 || nursery_open(n, cfg->nursery_fd, e)) {
		native_free(&n->b);
		return NULL;
	}
	return &n->b;
}
