// SPDX-License-Identifier: Apache-2.0
// Secrets: names bound to a host and a place. Values are sealed at rest and leave here only towards a gate; no
// answer, event or log line ever holds one.
#include "engine/net_int.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/seal.h"
#include "base/str.h"
#include "model/sshkey.h"
#include <stdlib.h>
#include <string.h>

struct seal *engine_seal(struct engine *g, struct err *e)
{
	if (!g->seal)
		g->seal = seal_open(g->home_fd, "secret.key", e);
	return g->seal;
}

int engine_mac(struct engine *g, const char *text, char out[65], struct err *e)
{
	const struct seal *s = engine_seal(g, e);
	unsigned char mac[32];
	if (!s)
		return -1;
	seal_mac(s, text, mac);
	str_hex(out, mac, sizeof mac);
	return 0;
}

static struct secret_row *find(const struct engine *g, const char *name)
{
	for (size_t i = 0; i < g->n_secrets; i++)
		if (!strcmp(g->secrets[i].name, name))
			return &g->secrets[i];
	return NULL;
}

const struct secret_row *secret_find(const struct engine *g, const char *name)
{
	return find(g, name);
}

// What it is bound to is sealed with it: a row edited to name another host does not open.
static char *sealed_as(const struct secret_row *r)
{
	return xasprintf("secret %s %s:%u %d %s", r->name, r->host, r->port, r->as, r->key ? r->key : "");
}

int secret_value(struct engine *g, const char *name, struct buf *out, struct err *e)
{
	const struct secret_row *r = find(g, name);
	const struct seal *s = r ? engine_seal(g, e) : NULL;
	if (!r)
		return err_set(e, ERR_NOT_FOUND, "no secret %.64s", name);
	auto_free char *as = sealed_as(r);
	return !s || seal_unlock(s, as, r->sealed.p, r->sealed.n, out, e) ? err_wrap(e, "secret %s", name) : 0;
}

void secret_used(struct engine *g, const char *name)
{
	struct secret_row *r = find(g, name);
	struct err e;
	if (!r)
		return;
	r->used = clock_unix_ms();
	if (store_secret_used(g->store, name, r->used, &e))
		log_line(LOG_ERROR, "%s", e.msg);
	engine_wrote(g);
}

static void keep(void *ctx, struct secret_row *taken)
{
	struct engine *g = ctx;
	g->secrets = xrealloc(g->secrets, (g->n_secrets + 1) * sizeof *g->secrets);
	g->secrets[g->n_secrets++] = *taken;
}

int secrets_load(struct engine *g, struct err *e)
{
	return store_secrets(g->store, keep, g, e);
}

void secrets_free(struct engine *g)
{
	for (size_t i = 0; i < g->n_secrets; i++)
		secret_row_done(&g->secrets[i]);
	free(g->secrets);
	seal_close(g->seal);
}

// Names that commands inside must be able to rely on.
static int check_name(const char *name, struct err *e)
{
	static const char *const taken[] = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "IFS", "ENV", "BASH_ENV"};
	if (!secret_name_is(name))
		return err_set(e, ERR_INVALID, "\"%.64s\" can not name a secret: it must be a variable's name, such as API_TOKEN", name);
	for (size_t i = 0; i < countof(taken); i++)
		if (!strcmp(name, taken[i]))
			return err_set(e, ERR_INVALID, "%s has a meaning of its own inside: choose another name", name);
	if (str_has_prefix(name, "LD_") || str_has_prefix(name, "SKEP_"))
		return err_set(e, ERR_INVALID, "names that start with LD_ or SKEP_ have a meaning of their own inside");
	return 0;
}

static int check_key(const struct buf *v, struct err *e)
{
	auto_secret struct buf private = BUF_INIT(SSH_KEY_MAX);
	if (!buf_room(&private, SSH_KEY_MAX - 1)) // growing would leave copies
		return err_set(e, ERR_LIMIT, "no memory for the key");
	return ssh_key_read(v->p, v->n, &private, e);
}

// It will stand in a request: nothing in it may end a line there. An ssh key never leaves the gate.
static int check_value(const struct buf *v, enum secret_as as, struct err *e)
{
	if (!v->n)
		return err_set(e, ERR_INVALID, "the value is empty");
	if (v->overflow || v->n > SECRET_MAX)
		return err_set(e, ERR_LIMIT, "the value is longer than %u bytes", SECRET_MAX);
	if (as == SECRET_SSH)
		return check_key(v, e);
	for (size_t i = 0; i < v->n; i++)
		if ((unsigned char)v->p[i] < 0x20 || v->p[i] == 0x7f)
			return err_set(e, ERR_INVALID, "the value holds a control character (a line end?) at byte %zu", i + 1);
	return 0;
}

static int make_row(struct engine *g, const struct secret_request *q, struct secret_row *r, struct err *e)
{
	struct host_name host;
	enum secret_as as;
	if (check_name(q->name, e) || secret_as_parse(q->as, &as, &r->key, e) || check_value(&q->value, as, e))
		return -1;
	if (host_port_parse(q->host, strlen(q->host), &host, &r->port, e))
		return err_wrap(e, "host");
	r->name = xstrdup(q->name);
	r->host = xstrdup(host.s);
	r->port = r->port ? r->port : as == SECRET_SSH ? 22 : 443;
	r->as = as;
	r->created = clock_unix_ms();
	const struct seal *s = engine_seal(g, e);
	if (!s)
		return -1;
	auto_free char *name = sealed_as(r);
	r->sealed = BUF_INIT(SECRET_MAX + 1024);
	seal_lock(s, name, q->value.p, q->value.n, &r->sealed);
	return r->sealed.overflow ? err_set(e, ERR_LIMIT, "the value is too long") : 0;
}

// Kept before anybody is told that it is: a power cut must not bring an old value or a removed secret back.
static int commit(struct engine *g, struct err *e)
{
	if (store_flush(g->store, e))
		return -1;
	engine_wrote(g);
	store_checkpoint(g->store);
	return 0;
}

static bool has_secret(const struct box *b, const void *name)
{
	size_t n = strlen(name);
	for (char **s = b->row.has_net ? b->row.net.secrets : NULL; s && *s; s++)
		if (!strncmp(*s, name, n) && (*s)[n] == '\t')
			return true;
	return false;
}

void secret_request_done(struct secret_request *q)
{
	free(q->name);
	free(q->host);
	free(q->as);
	seal_wipe(&q->value);
	*q = (struct secret_request){0};
}

void engine_secret_set(struct engine *g, struct secret_request *q, struct done d)
{
	struct err e;
	struct secret_row r = {0};
	int rc = make_row(g, q, &r, &e);
	secret_request_done(q);
	if (rc || store_secret_set(g->store, &r, &e) || commit(g, &e)) {
		secret_row_done(&r);
		task_refuse(d, &e);
		return;
	}
	struct secret_row *old = find(g, r.name);
	auto_free char *name = xstrdup(r.name);
	if (old) {
		secret_row_done(old);
		*old = r;
	} else {
		keep(g, &r);
	}
	net_push(g, has_secret, name, d);
}

void engine_secret_remove(struct engine *g, const char *name, struct done d)
{
	struct err e;
	struct secret_row *r = find(g, name);
	if (!r) {
		err_set(&e, ERR_NOT_FOUND, "no secret %.64s (skep secret ls lists them)", name);
		task_refuse(d, &e);
		return;
	}
	if (store_secret_drop(g->store, name, &e) || commit(g, &e)) {
		task_refuse(d, &e);
		return;
	}
	secret_row_done(r);
	*r = g->secrets[--g->n_secrets];
	auto_free char *body = xasprintf("\"revoked\":\"%s\"", name); // its letters need no escape
	for (struct box *b = g->boxes; b; b = b->next)
		if (has_secret(b, name))
			record(b, "policy.changed", body);
	net_push(g, has_secret, name, d);
}

const struct secret_row *engine_secret(struct engine *g, const char *name)
{
	return find(g, name);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct secret_row *)a)->name, ((const struct secret_row *)b)->name);
}

void engine_secrets(struct engine *g, void (*each)(void *ctx, const struct secret_row *r), void *ctx)
{
	if (g->n_secrets)
		qsort(g->secrets, g->n_secrets, sizeof *g->secrets, by_name);
	for (size_t i = 0; i < g->n_secrets; i++)
		each(ctx, &g->secrets[i]);
}
