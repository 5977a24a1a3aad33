// SPDX-License-Identifier: Apache-2.0
// The engine's structs as JSON. Members are there always, null where there is nothing: clients need not ask whether.
#include "api/code.h"

#include "base/mem.h"
#include "engine/volume.h"
#include <string.h>

static void labels(struct jsonw *w, char *const *v)
{
	jw_key(w, "labels");
	jw_open(w, '{');
	for (; *v; v++) {
		auto_free char *key = xstrndup(*v, strcspn(*v, "="));
		jw_kstr(w, key, *v + strlen(key) + 1);
	}
	jw_close(w, '}');
}

static void limits(struct jsonw *w, const struct limits *l)
{
	jw_key(w, "limits");
	jw_open(w, '{');
	jw_ku64(w, "cpus_milli", l->cpus_milli);
	jw_ku64(w, "memory", l->memory);
	jw_ku64(w, "pids", l->pids);
	jw_ku64(w, "disk", l->disk);
	jw_ku64(w, "files", l->files);
	jw_ku64(w, "nofile", l->nofile);
	jw_ku64(w, "output_cap", l->output_cap);
	jw_close(w, '}');
}

static void mount(struct jsonw *w, const struct cell_mount *m, const char *kind)
{
	jw_open(w, '{');
	jw_nstr(w, "src", m->src[0] ? m->src : NULL);
	jw_kstr(w, "dst", m->dst);
	jw_kbool(w, "writable", m->writable);
	jw_kstr(w, "kind", kind);
	jw_close(w, '}');
}

// A volume is shown by its name, and by its id when it is gone.
static void row_mount(struct jsonw *w, struct engine *g, const struct cell_mount *m)
{
	struct err gone;
	const struct volume_row *v = m->volume ? engine_volume_find(g, NULL, m->src, &gone) : NULL;
	struct cell_mount shown = *m;
	if (v)
		shown.src = v->name;
	if (m->volume)
		mount(w, &shown, "volume");
	else
		mount(w, m, m->cache ? "cache" : "asked");
}

static void mounts(struct jsonw *w, struct engine *g, const struct sandbox *s)
{
	const struct tools *t = engine_tools(g, s);
	jw_key(w, "mounts");
	jw_open(w, '[');
	for (uint32_t i = 0; i < s->n_mounts; i++)
		row_mount(w, g, &s->mounts[i]);
	for (uint32_t i = 0; i < t->n_mounts; i++)
		mount(w, &t->mounts[i], t->mounts[i].src[0] ? "tools" : "hidden");
	jw_close(w, ']');
}

static void isolation(struct jsonw *w, const struct sandbox *s)
{
	auto_buf struct buf b = BUF_INIT(65536);
	if (s->has_isolation)
		isolation_json(&b, &s->isolation);
	jw_key(w, "isolation");
	jw_raw(w, s->has_isolation ? buf_cstr(&b) : "{}");
}

// What it was told; what is in force is asked for with its policy.
static void net(struct jsonw *w, const struct sandbox *s)
{
	jw_key(w, "net");
	jw_open(w, '{');
	jw_nstr(w, "preset", s->has_net ? s->net.preset : NULL);
	jw_key(w, "rules");
	jw_open(w, '[');
	for (char **r = s->has_net ? s->net.rules : NULL; r && *r; r++) {
		const char *tab = strchr(*r, '\t');
		if (tab)
			jw_str(w, tab + 1, strlen(tab + 1));
	}
	jw_close(w, ']');
	jw_key(w, "secrets");
	jw_open(w, '[');
	for (char **x = s->has_net ? s->net.secrets : NULL; x && *x; x++)
		jw_str(w, *x, strcspn(*x, "\t"));
	jw_close(w, ']');
	jw_close(w, '}');
}

void encode_notices(struct jsonw *w, char *const *notices)
{
	if (notices && *notices)
		jw_kstrv(w, "notices", notices);
}

static void base(struct jsonw *w, const struct sandbox *s)
{
	jw_key(w, "base");
	jw_open(w, '{');
	jw_kstr(w, "state", engine_base_state(s));
	jw_nstr(w, "head", s->head);
	jw_close(w, '}');
}

static void project(struct jsonw *w, const struct project_row *p)
{
	jw_key(w, "project");
	if (!p->file) {
		jw_null(w);
		return;
	}
	jw_open(w, '{');
	jw_kstr(w, "file", p->file);
	jw_kstrv(w, "hide", p->hide ? p->hide : (char *[]){NULL});
	jw_kstrv(w, "setup", p->setup ? p->setup : (char *[]){NULL});
	jw_nstr(w, "setup_key", p->setup_key);
	jw_nstr(w, "test", p->test);
	jw_key(w, "ports");
	jw_open(w, '[');
	for (size_t i = 0; i < p->n_ports; i++)
		jw_u64(w, p->ports[i]);
	jw_close(w, ']');
	jw_close(w, '}');
}

static void put_port(void *ctx, const struct port_row *p)
{
	struct jsonw *w = ctx;
	jw_open(w, '{');
	jw_ku64(w, "port", p->port);
	jw_kbool(w, "local", p->local);
	if (p->pid)
		jw_ku64(w, "pid", p->pid);
	if (*p->program)
		jw_kstr(w, "program", p->program);
	if (p->exec[0])
		jw_kstr(w, "exec", p->exec);
	jw_close(w, '}');
}

static void ports(struct jsonw *w, struct engine *g, const struct sandbox *s)
{
	jw_key(w, "ports");
	jw_open(w, '[');
	engine_ports(g, s->id, put_port, w);
	jw_close(w, ']');
}

void encode_sandbox_members(struct jsonw *w, struct engine *g, const struct sandbox *s)
{
	jw_kstr(w, "id", s->id);
	jw_nstr(w, "name", s->name);
	jw_kstr(w, "state", state_name(s->state));
	jw_nstr(w, "reason", s->reason);
	jw_kstr(w, "backend", "native");
	jw_kstr(w, "profile", profile_name(s->profile));
	jw_kstr(w, "image", s->image ? s->image : "host");
	jw_nstr(w, "repo", s->url ? s->url : s->repo);
	jw_nstr(w, "ref", s->ref);
	jw_nstr(w, "context", s->context);
	jw_nstr(w, "origin", s->origin);
	jw_kbool(w, "auto_snapshot", s->auto_snapshot);
	base(w, s);
	labels(w, s->labels);
	jw_kstr(w, "owner", s->owner);
	jw_ntime(w, "created", s->created);
	jw_ntime(w, "used", s->used);
	jw_ntime(w, "expires", s->expires);
	jw_key(w, "pending");
	if (s->pending < 0)
		jw_null(w);
	else
		jw_i64(w, s->pending);
	isolation(w, s);
	net(w, s);
	limits(w, &s->limits);
	mounts(w, g, s);
	project(w, &s->project);
	ports(w, g, s);
	jw_kstr(w, "workspace_path", s->ws_path);
	jw_kbool(w, "pinned", s->pinned);
	jw_kbool(w, "dirty", s->pending != 0);
	jw_kstr(w, "on_expiry", on_expiry_name(s->on_expiry));
	jw_nu64(w, "ttl_ms", s->lease ? 0 : s->ttl_ms);
	jw_nu64(w, "lease_ms", s->lease ? s->ttl_ms : 0);
	jw_nu64(w, "idle_ms", s->idle_ms);
	uint64_t bytes;
	jw_key(w, "size");
	if (engine_size(g, s, &bytes))
		jw_u64(w, bytes);
	else
		jw_null(w);
}

void encode_sandbox(struct jsonw *w, struct engine *g, const struct sandbox *s)
{
	jw_open(w, '{');
	encode_sandbox_members(w, g, s);
	jw_close(w, '}');
}

static void result(struct jsonw *w, const struct exec_row *x)
{
	const struct exec_result *r = &x->result;
	jw_ntime(w, "ended", x->running ? 0 : r->ended_unix_ms);
	jw_key(w, "status");
	if (x->running)
		jw_null(w);
	else
		jw_u64(w, r->status);
	jw_nu64(w, "signal", x->running ? 0 : r->signal);
	jw_kbool(w, "timed_out", r->timed_out);
	jw_nstr(w, "reason", r->reason);
	jw_key(w, "bytes");
	jw_open(w, '{');
	jw_ku64(w, "stdout", r->out_bytes);
	jw_ku64(w, "stderr", r->err_bytes);
	jw_close(w, '}');
}

void encode_exec(struct jsonw *w, const struct exec_row *x)
{
	jw_open(w, '{');
	jw_kstr(w, "id", x->id);
	jw_kstr(w, "sandbox", x->sandbox);
	jw_kstrv(w, "argv", x->argv);
	jw_nstr(w, "cwd", x->cwd);
	jw_nstr(w, "user", x->user);
	jw_kbool(w, "tty", x->tty);
	jw_nu64(w, "pid", x->pid);
	jw_ntime(w, "started", x->started);
	result(w, x);
	jw_kstr(w, "state", x->running ? "running" : "exited");
	jw_close(w, '}');
}

void encode_attach(struct jsonw *w, const char *socket, const struct outcome *o)
{
	if (!o->ticket) {
		jw_null(w);
		return;
	}
	jw_open(w, '{');
	jw_kstr(w, "exec", o->exec_id);
	jw_kstr(w, "socket", socket);
	jw_kstr(w, "ticket", o->ticket);
	jw_close(w, '}');
}

void encode_image(struct jsonw *w, const struct image_row *i)
{
	jw_open(w, '{');
	jw_kstr(w, "id", i->id);
	jw_nstr(w, "name", i->name);
	jw_kstr(w, "source", i->source);
	jw_nstr(w, "digest", i->digest);
	jw_ku64(w, "bytes", i->bytes);
	jw_ku64(w, "files", i->files);
	jw_ntime(w, "created", i->created);
	jw_close(w, '}');
}

void encode_snapshot(struct jsonw *w, const struct snapshot *n)
{
	jw_open(w, '{');
	jw_kstr(w, "id", n->id);
	jw_nstr(w, "name", n->name);
	jw_kstr(w, "sandbox", n->sandbox);
	jw_ntime(w, "created", n->created);
	jw_kstr(w, "mode", n->frozen ? "frozen-copy" : "sealed");
	jw_kbool(w, "automatic", n->automatic);
	jw_kbool(w, "durable", n->durable);
	jw_ku64(w, "layers", strv_len(n->lowers));
	jw_key(w, "covered");
	jw_raw(w, "[\"workspace\",\"home\",\"root\",\"environment\",\"image\"]");
	jw_key(w, "not_covered");
	jw_raw(w, "[\"memory\",\"/tmp\",\"/dev/shm\",\"sockets\",\"volumes\"]");
	jw_close(w, '}');
}
