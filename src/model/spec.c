// SPDX-License-Identifier: Apache-2.0
// Binary forms of the specs. Reader and writer of a struct stand side by side: same fields, same order.
#include "model/spec.h"

#include "base/jsonw.h"
#include "base/str.h"
#include "base/mem.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char *const profile_names[] = {"default", "root"};
static_assert(countof(profile_names) == PROFILES, "a name per profile");

const char *profile_name(enum profile p)
{
	return p < PROFILES ? profile_names[p] : "?";
}

int profile_parse(const char *s, enum profile *out)
{
	for (int i = 0; i < PROFILES; i++)
		if (!strcmp(profile_names[i], s)) {
			*out = i;
			return 0;
		}
	return -1;
}

static void get_fixed(struct wire *w, char *out, size_t size)
{
	size_t n;
	const uint8_t *p = wire_get_bytes(w, &n);
	if (!p || n >= size || memchr(p, 0, n)) {
		w->bad = true;
		return;
	}
	memcpy(out, p, n);
	out[n] = 0;
}

int limits_check(const struct limits *l, struct err *e)
{
	if (l->memory && l->memory < LIMIT_MEMORY_LEAST)
		return err_set(e, ERR_INVALID, "a memory limit of %llu bytes starts no command: at least 4m (0 = no limit)", (unsigned long long)l->memory);
	if (l->pids && l->pids < LIMIT_PIDS_LEAST)
		return err_set(e, ERR_INVALID, "a limit of %llu process%s starts no command: at least %d (0 = no limit)",
			       (unsigned long long)l->pids, l->pids == 1 ? "" : "es", LIMIT_PIDS_LEAST);
	return 0;
}

void limits_write(struct buf *b, const struct limits *l)
{
	wire_u64(b, l->cpus_milli);
	wire_u64(b, l->memory);
	wire_u64(b, l->pids);
	wire_u64(b, l->disk);
	wire_u64(b, l->files);
	wire_u64(b, l->nofile);
	wire_u64(b, l->output_cap);
	wire_u64(b, l->event_rate);
}

void limits_read(struct wire *w, struct limits *l)
{
	l->cpus_milli = wire_get_u64(w);
	l->memory = wire_get_u64(w);
	l->pids = wire_get_u64(w);
	l->disk = wire_get_u64(w);
	l->files = wire_get_u64(w);
	l->nofile = wire_get_u64(w);
	l->output_cap = wire_get_u64(w);
	l->event_rate = wire_get_u64(w);
}

void exec_spec_done(struct exec_spec *s)
{
	strv_free(s->argv);
	strv_free(s->env);
	free(s->cwd);
	free(s->user);
	free(s->by);
	*s = (struct exec_spec){0};
}

void exec_spec_write(struct buf *b, const struct exec_spec *s)
{
	wire_str(b, s->id);
	wire_u8(b, s->kind);
	wire_strv(b, s->argv);
	wire_strv(b, s->env);
	wire_str(b, s->cwd);
	wire_str(b, s->user);
	wire_str(b, s->by);
	wire_u8(b, s->tty);
	wire_u8(b, s->want_stdin);
	wire_u8(b, s->detached);
	wire_u8(b, s->early);
	wire_u8(b, s->whole);
	wire_u32(b, s->rows);
	wire_u32(b, s->cols);
	wire_u32(b, s->umask_bits);
	wire_u64(b, s->timeout_ms);
}

int exec_spec_read(struct wire *w, struct exec_spec *out, struct err *e)
{
	struct exec_spec s = {0};
	get_fixed(w, s.id, sizeof s.id);
	s.kind = wire_get_u8(w);
	s.argv = wire_get_strv(w);
	s.env = wire_get_strv(w);
	s.cwd = wire_get_str(w);
	s.user = wire_get_str(w);
	s.by = wire_get_str(w);
	s.tty = wire_get_u8(w);
	s.want_stdin = wire_get_u8(w);
	s.detached = wire_get_u8(w);
	s.early = wire_get_u8(w);
	s.whole = wire_get_u8(w);
	s.rows = wire_get_u32(w);
	s.cols = wire_get_u32(w);
	s.umask_bits = wire_get_u32(w);
	s.timeout_ms = wire_get_u64(w);
	if (w->bad || s.kind >= EXEC_KINDS || !s.argv[0]) {
		exec_spec_done(&s);
		return err_set(e, ERR_INVALID, "malformed exec request");
	}
	*out = s;
	return 0;
}

void cell_net_done(struct cell_net *n)
{
	if (n->secrets.p)
		explicit_bzero(n->secrets.p, n->secrets.cap);
	buf_done(&n->secrets);
	buf_done(&n->policy);
	free(n->resolver);
	free(n->ca_cert);
	free(n->ca_file);
	strv_free(n->files);
	*n = (struct cell_net){0};
}

static void net_write(struct buf *b, const struct cell_net *n)
{
	char *none[] = {NULL};
	wire_u8(b, n->on);
	if (!n->on)
		return;
	wire_bytes(b, n->policy.p, n->policy.n);
	wire_str(b, n->resolver);
	wire_str(b, n->ca_cert);
	wire_str(b, n->ca_file);
	wire_strv(b, n->files ? n->files : none);
}

static void net_read(struct wire *w, struct cell_net *n)
{
	size_t len = 0;
	n->on = wire_get_u8(w);
	if (!n->on)
		return;
	const uint8_t *p = wire_get_bytes(w, &len);
	n->policy = BUF_INIT(len);
	if (p)
		buf_add(&n->policy, p, len);
	n->resolver = wire_get_str(w);
	n->ca_cert = wire_get_str(w);
	n->ca_file = wire_get_str(w);
	n->files = wire_get_strv(w);
}

void cell_spec_done(struct cell_spec *s)
{
	free(s->hostname);
	free(s->was);
	free(s->by);
	free(s->skep_home);
	free(s->sandbox_dir);
	free(s->layer);
	strv_free(s->lowers);
	free(s->image);
	free(s->base);
	free(s->ws_path);
	strv_free(s->hide);
	free(s->home);
	free(s->git_user);
	for (uint32_t i = 0; i < s->n_mounts; i++) {
		free(s->mounts[i].src);
		free(s->mounts[i].dst);
	}
	free(s->mounts);
	cell_net_done(&s->net);
	exec_spec_done(&s->exec);
	*s = (struct cell_spec){0};
}

void place_write(struct buf *b, const struct cell_spec *s)
{
	char *none[] = {NULL};
	wire_str(b, s->base);
	wire_strv(b, s->lowers ? s->lowers : none);
	wire_u32(b, s->n_base_lowers);
	wire_str(b, s->ws_path);
	wire_strv(b, s->hide ? s->hide : none);
	wire_u32(b, s->n_mounts);
	for (uint32_t i = 0; i < s->n_mounts; i++) {
		wire_str(b, s->mounts[i].src);
		wire_str(b, s->mounts[i].dst);
		wire_u8(b, s->mounts[i].writable);
		wire_u8(b, (uint8_t)(s->mounts[i].cache | s->mounts[i].volume << 1));
	}
}

void cell_spec_write(struct buf *b, const struct cell_spec *s)
{
	wire_str(b, s->sandbox);
	wire_str(b, s->key);
	wire_str(b, s->machine_id);
	wire_str(b, s->hostname);
	wire_str(b, s->by);
	wire_str(b, s->was);
	wire_u8(b, s->profile);
	wire_u8(b, s->nested);
	wire_u8(b, s->trace_off);
	wire_u8(b, s->keep_tmp);
	wire_u8(b, s->strict);
	wire_u8(b, s->maintenance);
	wire_u8(b, s->ends_with_exec);
	wire_u8(b, s->remove_if_clean);
	wire_str(b, s->skep_home);
	wire_str(b, s->sandbox_dir);
	wire_str(b, s->layer);
	wire_str(b, s->image);
	wire_str(b, s->home);
	wire_str(b, s->git_user);
	place_write(b, s);
	limits_write(b, &s->limits);
	wire_u64(b, s->expires_unix_ms);
	wire_u64(b, s->idle_ms);
	wire_u64(b, s->lease_ms);
	wire_u8(b, s->expiry_pauses);
	net_write(b, &s->net);
	wire_u8(b, s->has_exec);
	if (s->has_exec)
		exec_spec_write(b, &s->exec);
	wire_str(b, s->ticket);
}

bool cell_spec_shape(struct buf *b, const struct cell_spec *s)
{
	static char none[] = "";
	struct cell_spec shape = *s;
	if (strcmp(s->hostname, s->sandbox) || s->maintenance || (s->net.ca_cert && *s->net.ca_cert) || (s->net.files && s->net.files[0]))
		return false;
	shape.sandbox[0] = shape.key[0] = shape.machine_id[0] = shape.ticket[0] = 0;
	shape.hostname = shape.sandbox_dir = shape.layer = none;
	shape.was = shape.by = NULL;
	shape.ends_with_exec = shape.has_exec = shape.expiry_pauses = false;
	shape.remove_if_clean = true; // as long as it is a slot it goes with its mold
	shape.expires_unix_ms = shape.idle_ms = shape.lease_ms = 0;
	shape.net = (struct cell_net){0};
	cell_spec_write(b, &shape);
	return !b->overflow;
}

void cell_spec_identify(struct cell_spec *s, const struct identity *i)
{
	memcpy(s->sandbox, i->id, sizeof s->sandbox);
	memcpy(s->machine_id, i->machine_id, sizeof s->machine_id);
	free(s->hostname);
	s->hostname = xstrdup(i->id);
}

static void mounts_read(struct wire *w, struct cell_spec *s)
{
	uint32_t n = wire_get_u32(w);
	if (n > 256)
		w->bad = true;
	if (w->bad)
		return;
	s->mounts = xcalloc(n, sizeof *s->mounts);
	for (; s->n_mounts < n && !w->bad; s->n_mounts++) {
		struct cell_mount *m = &s->mounts[s->n_mounts];
		m->src = wire_get_str(w);
		m->dst = wire_get_str(w);
		m->writable = wire_get_u8(w);
		uint8_t how = wire_get_u8(w);
		m->cache = how & 1;
		m->volume = how & 2;
		if (!m->src || !m->dst)
			w->bad = true;
	}
}

static void place_get(struct wire *w, struct cell_spec *s)
{
	s->base = wire_get_str(w);
	s->lowers = wire_get_strv(w);
	s->n_base_lowers = wire_get_u32(w);
	size_t n = w->bad ? 0 : strv_len(s->lowers);
	if (n > LIMIT_LAYERS || s->n_base_lowers > n)
		w->bad = true;
	for (size_t i = 0; i < n; i++)
		if (*s->lowers[i] != '/')
			w->bad = true;
	s->ws_path = wire_get_str(w);
	s->hide = wire_get_strv(w);
	if (s->hide && !s->hide[0]) {
		strv_free(s->hide);
		s->hide = NULL;
	}
	mounts_read(w, s);
}

int place_read(const void *p, size_t n, struct cell_spec *out, struct err *e)
{
	struct wire in = {.p = p, .n = n};
	struct cell_spec s = {0};
	place_get(&in, &s);
	if (in.bad || in.n || !s.ws_path) {
		cell_spec_done(&s);
		return err_set(e, ERR_INVALID, "malformed place");
	}
	*out = s;
	return 0;
}

int cell_spec_read(const void *p, size_t n, struct cell_spec *out, struct err *e)
{
	struct wire in = {.p = p, .n = n}, *w = &in;
	struct cell_spec s = {0};
	get_fixed(w, s.sandbox, sizeof s.sandbox);
	get_fixed(w, s.key, sizeof s.key);
	get_fixed(w, s.machine_id, sizeof s.machine_id);
	s.hostname = wire_get_str(w);
	s.by = wire_get_str(w);
	s.was = wire_get_str(w);
	s.profile = wire_get_u8(w);
	s.nested = wire_get_u8(w);
	s.trace_off = wire_get_u8(w);
	s.keep_tmp = wire_get_u8(w);
	s.strict = wire_get_u8(w);
	s.maintenance = wire_get_u8(w);
	s.ends_with_exec = wire_get_u8(w);
	s.remove_if_clean = wire_get_u8(w);
	s.skep_home = wire_get_str(w);
	s.sandbox_dir = wire_get_str(w);
	s.layer = wire_get_str(w);
	s.image = wire_get_str(w);
	s.home = wire_get_str(w);
	s.git_user = wire_get_str(w);
	place_get(w, &s);
	limits_read(w, &s.limits);
	s.expires_unix_ms = wire_get_u64(w);
	s.idle_ms = wire_get_u64(w);
	s.lease_ms = wire_get_u64(w);
	s.expiry_pauses = wire_get_u8(w);
	net_read(w, &s.net);
	s.has_exec = wire_get_u8(w);
	int rc = s.has_exec && !w->bad ? exec_spec_read(w, &s.exec, e) : 0;
	get_fixed(w, s.ticket, sizeof s.ticket);
	if (rc || w->bad || w->n || s.profile >= PROFILES || !s.hostname || !s.skep_home || !s.sandbox_dir ||
	    !s.layer || !s.ws_path || !s.home) {
		cell_spec_done(&s);
		return err_set(e, ERR_INVALID, "malformed cell spec");
	}
	*out = s;
	return 0;
}

void exec_result_done(struct exec_result *r)
{
	free(r->reason);
	*r = (struct exec_result){0};
}

void exec_result_write(struct buf *b, const struct exec_result *r)
{
	wire_u32(b, r->status);
	wire_u32(b, r->signal);
	wire_u8(b, r->timed_out);
	wire_str(b, r->reason);
	wire_u64(b, r->out_bytes);
	wire_u64(b, r->err_bytes);
	wire_u64(b, r->started_unix_ms);
	wire_u64(b, r->ended_unix_ms);
}

int exec_result_read(struct wire *w, struct exec_result *out)
{
	struct exec_result r = {0};
	r.status = wire_get_u32(w);
	r.signal = wire_get_u32(w);
	r.timed_out = wire_get_u8(w);
	r.reason = wire_get_str(w);
	r.out_bytes = wire_get_u64(w);
	r.err_bytes = wire_get_u64(w);
	r.started_unix_ms = wire_get_u64(w);
	r.ended_unix_ms = wire_get_u64(w);
	if (w->bad) {
		exec_result_done(&r);
		return -1;
	}
	*out = r;
	return 0;
}

void isolation_done(struct isolation *i)
{
	free(i->backend);
	free(i->userns);
	free(i->limits);
	free(i->disk);
	free(i->freeze);
	free(i->network);
	free(i->cgroup);
	*i = (struct isolation){0};
}

void isolation_write(struct buf *b, const struct isolation *i)
{
	wire_str(b, i->backend);
	wire_str(b, i->userns);
	wire_str(b, i->limits);
	wire_str(b, i->disk);
	wire_str(b, i->freeze);
	wire_str(b, i->network);
	wire_u32(b, i->landlock);
	wire_u32(b, i->seccomp_allowed);
	wire_u64(b, i->caps);
	wire_u8(b, i->no_new_privs);
	wire_u8(b, i->nested);
	wire_u8(b, i->trace);
	wire_u8(b, i->groups_dropped);
	wire_str(b, i->cgroup);
}

int isolation_read(struct wire *w, struct isolation *out)
{
	struct isolation i = {0};
	i.backend = wire_get_str(w);
	i.userns = wire_get_str(w);
	i.limits = wire_get_str(w);
	i.disk = wire_get_str(w);
	i.freeze = wire_get_str(w);
	i.network = wire_get_str(w);
	i.landlock = wire_get_u32(w);
	i.seccomp_allowed = wire_get_u32(w);
	i.caps = wire_get_u64(w);
	i.no_new_privs = wire_get_u8(w);
	i.nested = wire_get_u8(w);
	i.trace = wire_get_u8(w);
	i.groups_dropped = wire_get_u8(w);
	i.cgroup = wire_get_str(w);
	if (w->bad) {
		isolation_done(&i);
		return -1;
	}
	*out = i;
	return 0;
}

void isolation_json(struct buf *b, const struct isolation *i)
{
	struct jsonw w = {.b = b};
	char caps[24];
	jw_open(&w, '{');
	jw_kstr(&w, "backend", i->backend);
	jw_kstr(&w, "userns", i->userns);
	jw_kstr(&w, "limits", i->limits);
	jw_kstr(&w, "disk", i->disk);
	jw_kstr(&w, "freeze", i->freeze);
	jw_kstr(&w, "network", i->network);
	jw_ku64(&w, "landlock", i->landlock);
	jw_ku64(&w, "seccomp", i->seccomp_allowed);
	if (!fmt_to(caps, sizeof caps, "%016llx", (unsigned long long)i->caps))
		jw_kstr(&w, "capabilities", caps);
	jw_kbool(&w, "no_new_privs", i->no_new_privs);
	jw_kbool(&w, "nested", i->nested);
	jw_kbool(&w, "trace", i->trace);
	jw_kbool(&w, "groups_dropped", i->groups_dropped);
	jw_close(&w, '}');
}
