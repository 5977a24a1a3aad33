// SPDX-License-Identifier: Apache-2.0
// From rows and requests to what a cell is told.
#include "engine/net_int.h"
#include "engine/volume_int.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "workspace/gituser.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *home_inside(const struct sandbox *s)
{
	return s->profile == PROFILE_ROOT ? "/root" : "/home/skep";
}

static bool is_dir(const char *path)
{
	struct stat st;
	return !lstat(path, &st) && S_ISDIR(st.st_mode);
}

static void add_mount(struct cell_spec *out, const struct cell_mount *m)
{
	out->mounts[out->n_mounts++] = (struct cell_mount){xstrdup(m->src), xstrdup(m->dst), m->writable, m->cache, false};
}

static void add_row_mount(struct box *b, struct cell_spec *out, const struct cell_mount *m)
{
	if (m->volume && volume_mount_resolve(b->g, m, &out->mounts[out->n_mounts]))
		out->n_mounts++;
	else if (m->volume)
		log_line(LOG_WARN, "sandbox=%s volume %s was removed: nothing is shown at %s", b->row.id, m->src, m->dst);
	else if (!m->cache || is_dir(m->src)) // a cache that is gone is missed by nobody
		add_mount(out, m);
}

// Tool roots first: what the caller asked for by name may lie below them and wins.
static void add_mounts(struct box *b, struct cell_spec *out)
{
	const struct tools *t = engine_tools(b->g, &b->row);
	out->mounts = xcalloc(t->n_mounts + b->row.n_mounts + strv_len(b->row.objects), sizeof *out->mounts);
	for (uint32_t i = 0; i < t->n_mounts; i++)
		add_mount(out, &t->mounts[i]);
	for (uint32_t i = 0; i < b->row.n_mounts; i++)
		add_row_mount(b, out, &b->row.mounts[i]);
	for (char **o = b->row.objects; o && *o; o++) {
		size_t n = strcspn(*o, "\t");
		if ((*o)[n])
			out->mounts[out->n_mounts++] = (struct cell_mount){.src = xstrndup(*o, n), .dst = xstrdup(*o + n + 1)};
	}
}

static char *dup_or_null(const char *s)
{
	return s ? xstrdup(s) : NULL;
}

static void copy_exec(const struct exec_spec *x, struct exec_spec *out)
{
	*out = *x;
	out->argv = strv_copy(x->argv);
	out->env = strv_copy(x->env);
	out->cwd = dup_or_null(x->cwd);
	out->user = dup_or_null(x->user);
	out->by = dup_or_null(x->by);
}

static char **lowers_of(const struct box *b)
{
	char **out = xcalloc(1, sizeof *out);
	for (char **l = b->row.lowers; l && *l; l++) {
		auto_free char *path = xasprintf("%s/%s", b->g->skep_home, *l);
		strv_add(&out, path);
	}
	return out;
}

// Who a token stands for need not be who runs skepd. A configuration that can not be read gives nothing away.
static char *git_user(const struct box *b)
{
	struct err ignored;
	bool on;
	auto_buf struct buf text = BUF_INIT(4096);
	if (b->row.image || config_git_user(b->g, &on, &ignored) || !on)
		return NULL;
	gituser_config(b->g->home, getenv("XDG_CONFIG_HOME"), b->row.repo, &text);
	return text.n && !text.overflow ? buf_take(&text) : NULL;
}

void cellspec_make(struct box *b, const struct task *t, bool maintenance, struct cell_spec *out)
{
	const struct sandbox *s = &b->row;
	*out = (struct cell_spec){
		.hostname = xstrdup(s->name ? s->name : s->id),
		.by = t && *t->actor.name ? xstrdup(t->actor.name) : NULL,
		.was = maintenance ? NULL : xstrdup(state_name(s->state)),
		.profile = s->profile,
		.nested = s->nested && !maintenance,
		.trace_off = s->trace_off,
		.keep_tmp = s->keep_tmp,
		.strict = s->strict,
		.maintenance = maintenance,
		.skep_home = xstrdup(b->g->skep_home),
		.sandbox_dir = xasprintf("%s/sandboxes/%s", b->g->skep_home, s->id),
		.layer = xasprintf("%s/layers/%s", b->g->skep_home, s->layer),
		.lowers = lowers_of(b),
		.n_base_lowers = s->n_base,
		.image = s->image ? xasprintf("%s/images/%s", b->g->skep_home, s->image) : NULL,
		.base = maintenance && box_base_is_gone(b) ? NULL : s->tree ? xasprintf("%s/%s", b->g->skep_home, s->tree) : dup_or_null(s->repo),
		.ws_path = xstrdup(s->ws_path),
		.hide = s->project.hide ? strv_copy(s->project.hide) : NULL,
		.home = xstrdup(home_inside(s)),
		.limits = s->limits,
		.expires_unix_ms = maintenance || s->pinned ? 0 : s->expires,
		.lease_ms = s->lease ? s->ttl_ms : 0,
		.expiry_pauses = s->on_expiry == EXPIRY_PAUSE,
		.idle_ms = maintenance ? 0 : s->idle_ms,
	};
	memcpy(out->sandbox, s->id, sizeof out->sandbox);
	memcpy(out->key, b->cell_row.key, sizeof out->key);
	memcpy(out->machine_id, s->machine_id, sizeof out->machine_id);
	if (!maintenance) {
		out->git_user = t && t->actor.local ? git_user(b) : NULL;
		add_mounts(b, out);
		net_fill(b, &out->net);
	}
	if (!t || !t->has_exec)
		return;
	out->has_exec = true;
	// `run` is about the sandbox's first command: a later start of a kept one is an ordinary cell, and so is one that others
	// may find by its context while that command runs
	out->ends_with_exec = maintenance || (s->run && t->kind == TASK_CREATE && !s->context);
	out->remove_if_clean = s->run && t->kind == TASK_CREATE && !s->keep && !s->name;
	copy_exec(&t->exec, &out->exec);
	memcpy(out->ticket, t->ticket, sizeof out->ticket);
}

static char *path_inside(struct box *b)
{
	const struct sandbox *s = &b->row;
	if (s->image)
		return tools_path(NULL, NULL, NULL, s->profile);
	bool own_path = s->repo && !strcmp(s->repo, s->ws_path);
	return tools_path(s->path, engine_tools(b->g, s), own_path ? s->repo : NULL, s->profile);
}

static int choose_cwd(const struct box *b, const char *caller_cwd, struct exec_request *x, char **out, struct err *e)
{
	if (!x->cwd) {
		*out = path_map(b->row.repo, b->row.ws_path, caller_cwd);
		return 0;
	}
	if (!path_is_clean(x->cwd) || path_is_below(x->cwd, "/proc"))
		return err_set(e, ERR_INVALID, "\"%.200s\" is not a working directory: give an absolute path without .. and not in /proc",
			       x->cwd);
	*out = take(&x->cwd);
	return 0;
}

static char **make_env(struct box *b, const struct exec_request *x, const char *exec)
{
	const struct sandbox *s = &b->row;
	const char *own = s->profile == PROFILE_ROOT ? "root" : "skep";
	const char *user = x->user ? x->user : own;
	auto_free char *path = path_inside(b);
	auto_free char *home = strcmp(user, own) && strcmp(user, "root") ? xasprintf("/home/%s", user)
									  : xstrdup(home_inside(s));
	char **secrets = x->job ? NULL : net_env(b);
	char **env = env_make(&(struct env_input){
		.sandbox = s->id,
		.exec = exec,
		.path = path,
		.home = home,
		.user = user,
		.bash = s->image ? false : b->g->has_bash,
		.tty = x->tty,
		.caller = x->caller_env,
		.secrets = secrets,
		.sandbox_env = s->env,
		.exec_env = x->env,
	});
	strv_free(secrets);
	return env;
}

static size_t strv_bytes(char *const *v)
{
	size_t n = 0;
	for (; v && *v; v++)
		n += strlen(*v) + 1 + sizeof *v;
	return n;
}

int exec_make(struct box *b, const char *caller_cwd, struct task *t, struct err *e)
{
	struct exec_request *x = &t->want;
	struct exec_spec *s = &t->exec;
	if (!x->argv || !x->argv[0])
		return err_set(e, ERR_INVALID, "no command given");
	if (env_check(x->env, e) || choose_cwd(b, caller_cwd, x, &s->cwd, e))
		return -1;
	id_make('x', s->id);
	s->kind = x->job ? EXEC_JOB : EXEC_COMMAND;
	s->argv = take(&x->argv);
	s->env = make_env(b, x, s->id);
	s->user = take(&x->user);
	s->by = *t->actor.name ? xstrdup(t->actor.name) : NULL;
	s->tty = x->tty;
	s->want_stdin = x->want_stdin;
	s->detached = x->detached;
	s->early = x->early || x->job;
	s->whole = x->whole;
	s->rows = x->rows;
	s->cols = x->cols;
	s->umask_bits = x->has_umask ? x->umask_bits : b->row.umask_bits;
	s->timeout_ms = x->has_timeout ? x->timeout_ms : x->job ? 0 : b->row.timeout_ms;
	if (strv_bytes(s->argv) + strv_bytes(s->env) > LIMIT_ARGV)
		return err_set(e, ERR_LIMIT, "arguments and environment are longer than %u bytes", LIMIT_ARGV);
	if (!s->detached)
		key_make(t->ticket);
	t->has_exec = true;
	t->row = (struct exec_row){.argv = strv_copy(s->argv), .cwd = xstrdup(s->cwd), .user = dup_or_null(s->user),
				   .tty = s->tty, .running = true, .started = clock_unix_ms()};
	memcpy(t->row.id, s->id, sizeof t->row.id);
	memcpy(t->row.sandbox, b->row.id, sizeof t->row.sandbox);
	return 0;
}
