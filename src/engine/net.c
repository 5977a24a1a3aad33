// SPDX-License-Identifier: Apache-2.0
// What a cell's gate is told. Values of secrets exist here only between net_ready and the spec or message they go into.
//
// A cell that lives is told anew whenever something it was told from has changed. If what is right now can not be found
// out, it is told that nothing is allowed: a revoked rule or secret must not live on because of an error.
#include "engine/net_int.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/seal.h"
#include "model/msg.h"
#include <stdlib.h>
#include <string.h>

void net_save(struct box *b)
{
	b->net_dirty = true;
	engine_wrote(b->g);
}

static void note_files(const struct policy *p, struct cell_net *n)
{
	for (size_t i = 0; i < p->n_secrets; i++) {
		auto_free char *kv = xasprintf("%s=%s", p->secrets[i].name, p->secrets[i].placeholder);
		if (p->secrets[i].as == SECRET_FILE)
			strv_add(&n->files, kv);
	}
}

// Into one piece of memory that was large enough from the start.
static int write_values(struct box *b, const struct policy *p, const char *ca, struct buf *out, struct err *e)
{
	struct secret_value *v = xcalloc(p->n_secrets + 1, sizeof *v);
	struct buf *values = xcalloc(p->n_secrets + 1, sizeof *values);
	size_t total = strlen(ca) + 64;
	int rc = 0;
	for (size_t i = 0; i < p->n_secrets && !rc; i++) {
		const struct secret_ref *s = &p->secrets[i];
		values[i] = BUF_INIT(SECRET_MAX);
		rc = secret_ref_is_plain(s) ? header_value(b->g, b->row.net.headers, s->name, &values[i], e)
					    : secret_value(b->g, s->name, &values[i], e);
		v[i] = (struct secret_value){s->name, s->placeholder, (uint8_t *)values[i].p, values[i].n};
		total += values[i].n + strlen(s->name) + strlen(s->placeholder) + 64;
	}
	*out = BUF_INIT(total);
	if (!rc && buf_room(out, total))
		secrets_write(out, v, p->n_secrets, ca);
	for (size_t i = 0; i < p->n_secrets; i++)
		seal_wipe(&values[i]);
	free(values);
	free(v);
	return rc;
}

static int add_values(struct box *b, const struct policy *p, struct cell_net *n, struct err *e)
{
	auto_secret struct buf ca = BUF_INIT(64u << 10);
	bool opens = b->row.has_net && b->row.net.ca_cert && policy_opens_any(p);
	if (opens && ca_key(b, &ca, e))
		return -1;
	n->ca_cert = opens ? xstrdup(b->row.net.ca_cert) : NULL;
	if (!p->n_secrets && !opens)
		return 0;
	return write_values(b, p, buf_cstr(&ca), &n->secrets, e);
}

// The project may have come to name them after the sandbox was made: then the newest list anybody gave is as good.
static void lend_registries(struct box *b)
{
	char ***own = &b->row.net.registries;
	if (*own) {
		strv_free(b->g->registries);
		b->g->registries = strv_copy(*own);
	} else if (b->g->registries && b->row.state != STATE_CREATING) {
		*own = strv_copy(b->g->registries);
	}
}

static int settle(struct box *b, struct policy *p, struct err *e)
{
	char **notices = b->row.state == STATE_CREATING && b->create_notices ? strv_copy(b->create_notices) : NULL;
	lend_registries(b);
	size_t before = strv_len(b->row.net.secrets);
	int rc = policy_make(b->g, &b->row.net, box_project(b), p, &notices, e);
	strv_free(b->notices);
	b->notices = notices;
	if (strv_len(b->row.net.secrets) != before) {
		b->row.has_net = true;
		net_save(b);
	}
	return rc;
}

int net_settle(struct box *b, struct err *e)
{
	struct policy p = {0};
	int rc = settle(b, &p, e);
	policy_done(&p);
	return rc;
}

// Fills b->net. *out_ca: TLS is to be opened and the sandbox has no CA yet.
static int ready(struct box *b, bool *out_ca, struct err *e)
{
	struct policy p = {0};
	struct cell_net *n = &b->net;
	cell_net_done(n);
	*out_ca = false;
	if (settle(b, &p, e))
		return -1;
	n->on = policy_allows_any(&p);
	if (n->on && !b->row.has_net) {
		b->row.has_net = true; // it was told something: a later change must be told too
		net_save(b);
	}
	n->policy = BUF_INIT(POLICY_WIRE);
	policy_write(&n->policy, &p);
	note_files(&p, n);
	*out_ca = n->on && policy_opens_any(&p) && !b->row.net.ca_cert;
	int rc = config_gate(b->g, n, e) || (n->on && !*out_ca && add_values(b, &p, n, e)) ? -1 : 0;
	for (size_t i = 0; i < p.n_secrets && !rc; i++)
		secret_used(b->g, p.secrets[i].name);
	policy_done(&p);
	if (rc)
		cell_net_done(n);
	return rc;
}

void net_fill(struct box *b, struct cell_net *out)
{
	*out = b->net;
	b->net = (struct cell_net){0};
}

// git asks a helper for credentials; the one for this host says the placeholder. Set by variables, so that nothing of the
// user's own configuration is touched.
static void git_helper(char ***env, unsigned n, const struct secret_row *r)
{
	auto_free char *port = r->port && r->port != 443 ? xasprintf(":%u", r->port) : xstrdup("");
	auto_free char *key = xasprintf("GIT_CONFIG_KEY_%u=credential.https://%s%s.helper", n, r->host, port);
	auto_free char *value = xasprintf("GIT_CONFIG_VALUE_%u=!f() { test \"$1\" = get && printf 'username=skep\\npassword=%%s\\n' \"$%s\"; }; f", n,
					  r->name);
	strv_add(env, key);
	strv_add(env, value);
}

// The host's system knows what to do about unknown host keys (isolate/rootfs.c); an image is left as it is.
static void ssh_env(char ***env, const struct box *b)
{
	strv_add(env, "SSH_AUTH_SOCK=" AGENT_SOCKET);
	if (b->row.image)
		strv_add(env, "GIT_SSH_COMMAND=ssh -o StrictHostKeyChecking=accept-new");
}

char **net_env(struct box *b)
{
	char **env = NULL;
	unsigned helpers = 0;
	bool ssh = false;
	for (char **s = b->row.has_net ? b->row.net.secrets : NULL; s && *s; s++) {
		const char *tab = strchr(*s, '\t');
		auto_free char *name = tab ? xstrndup(*s, (size_t)(tab - *s)) : NULL;
		if (!name || !secret_find(b->g, name)) // revoked
			continue;
		auto_free char *kv = xasprintf("%s=%s", name, tab + 1);
		const struct secret_row *r = secret_find(b->g, name);
		if (r->as == SECRET_SSH) { // nothing of it is inside: there is an agent
			ssh = true;
			continue;
		}
		strv_add(&env, kv);
		auto_free char *file = xasprintf("%s_FILE=/run/secrets/%s", name, name);
		if (r->as == SECRET_FILE)
			strv_add(&env, file);
		if (r->as == SECRET_GIT)
			git_helper(&env, helpers++, r);
	}
	auto_free char *count = xasprintf("GIT_CONFIG_COUNT=%u", helpers);
	if (helpers)
		strv_add(&env, count);
	if (ssh)
		ssh_env(&env, b);
	return env;
}

// --- a start ---

static void on_failed(struct timer *t)
{
	struct box *b = container_of(t, struct box, net_failed);
	b->w.up(&b->w, NULL, &b->net_err);
}

// As every failure of a start: from the loop, never from inside the call.
static void fail_later(struct box *b, const struct err *e)
{
	b->net_err = *e;
	b->net_failed.fn = on_failed;
	timer_set(b->g->loop, &b->net_failed, 0);
}

static void begin(struct box *b, const struct task *t);

static void on_ca(struct box *b, const struct err *e)
{
	if (e)
		b->w.up(&b->w, NULL, e);
	else
		begin(b, b->holder);
}

static void begin(struct box *b, const struct task *t)
{
	struct err e;
	bool ca;
	if (ready(b, &ca, &e))
		fail_later(b, &e);
	else if (!ca)
		box_start_cell(b, t, false);
	else if (ca_make(b, on_ca, &e))
		fail_later(b, &e);
}

void net_start_cell(struct box *b, const struct task *t, bool maintenance)
{
	b->net_stale = false;
	b->maintenance = maintenance;
	if (maintenance)
		box_start_cell(b, t, true);
	else
		begin(b, t);
}

// --- a change while it lives ---

struct push {
	struct done done;
	int left;
	bool failed;
	struct err e;
};

struct waiter {
	struct push *push;
	struct waiter *next;
};

static void push_left(struct push *p)
{
	if (--p->left)
		return;
	if (p->done.fn)
		p->done.fn(p->done.ctx, p->failed ? &p->e : NULL, p->failed ? NULL : &(struct outcome){0});
	free(p);
}

static void release(struct waiter *w, const char *box, const struct err *e)
{
	while (w) {
		struct waiter *next = w->next;
		struct push *p = w->push;
		if (e && !p->failed) {
			p->failed = true;
			err_set(&p->e, e->kind, "done, but the live cell of sandbox %s could not be told (%s): end it with `skep stop %s`",
				box, e->msg, box);
		}
		free(w);
		push_left(p);
		w = next;
	}
}

struct told {
	struct engine *g;
	char box[ID_SIZE];
	struct waiter *waiters;
};

static void on_told(void *ctx, const struct err *e)
{
	struct told *t = ctx;
	struct box *b = box_by_id(t->g, t->box);
	// A cell that is gone knows nothing any more; one that ended while it was asked is told of in a moment.
	if (!b || !b->up || (e && e->kind == ERR_UNAVAILABLE))
		e = NULL;
	if (e)
		log_line(LOG_WARN, "sandbox=%s policy not taken: %s", t->box, e->msg);
	release(t->waiters, t->box, e);
	free(t);
}

static void tell(struct box *b)
{
	struct told *t = xcalloc(1, sizeof *t);
	t->g = b->g;
	memcpy(t->box, b->row.id, sizeof t->box);
	t->waiters = take(&b->waiters);
	b->g->backend->ops->policy(b->cell, &b->net, (struct reply){on_told, t});
	cell_net_done(&b->net);
}

static void tell_nothing(struct box *b, const struct err *why)
{
	struct policy none = {0};
	log_line(LOG_ERROR, "sandbox=%s network closed: %s", b->row.id, why->msg);
	cell_net_done(&b->net);
	b->net.policy = BUF_INIT(1024);
	policy_write(&b->net.policy, &none);
	struct waiter *waiters = take(&b->waiters);
	tell(b);
	release(waiters, b->row.id, why);
}

static void retell(struct box *b);

static void on_ca_for_live(struct box *b, const struct err *e)
{
	if (!b->up)
		release(take(&b->waiters), b->row.id, NULL);
	else if (e)
		tell_nothing(b, e);
	else
		retell(b);
}

static void retell(struct box *b)
{
	struct err e;
	bool ca;
	b->net_stale = false;
	if (ready(b, &ca, &e) || (ca && ca_make(b, on_ca_for_live, &e)))
		tell_nothing(b, &e);
	else if (!ca && (b->row.has_net || b->waiters))
		tell(b);
}

static bool is_told_later(struct box *b)
{
	if (b->making_ca || (b->cell && !b->up))
		b->net_stale = true; // the spec may be on its way with what was right before
	return !b->up || b->maintenance || b->making_ca;
}

void net_push(struct engine *g, bool (*which)(const struct box *b, const void *arg), const void *arg, struct done d)
{
	struct push *p = xcalloc(1, sizeof *p);
	*p = (struct push){.done = d, .left = 1};
	for (struct box *b = g->boxes; b; b = b->next) {
		if (which && !which(b, arg))
			continue;
		bool later = is_told_later(b);
		if (later && !(b->up && b->making_ca))
			continue;
		struct waiter *w = xcalloc(1, sizeof *w);
		*w = (struct waiter){p, b->waiters};
		b->waiters = w;
		p->left++;
		if (!later)
			retell(b);
	}
	push_left(p);
}

void net_up(struct box *b)
{
	if (b->net_stale)
		retell(b);
}

void net_down(struct box *b)
{
	asks_clear(b);
	if (!b->making_ca)
		release(take(&b->waiters), b->row.id, NULL);
}

void net_done(struct box *b, bool quiet)
{
	timer_clear(b->g->loop, &b->net_failed);
	asks_clear(b);
	for (struct waiter *w = b->waiters; w && quiet; w = w->next)
		w->push->done.fn = NULL; // whoever asked is gone already
	release(take(&b->waiters), b->row.id, NULL);
}
