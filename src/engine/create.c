// SPDX-License-Identifier: Apache-2.0
// Making a sandbox. With an exec it is one pass: rows in one transaction, directories, the spec with the
// command to a warm slot; the caller is answered when the cell says that the command runs.
#include "engine/base_int.h"
#include "engine/net_int.h"
#include "engine/volume_int.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void exec_request_done(struct exec_request *x)
{
	strv_free(x->argv);
	strv_free(x->env);
	strv_free(x->caller_env);
	free(x->cwd);
	free(x->caller_cwd);
	free(x->user);
	*x = (struct exec_request){0};
}

static void mounts_done(struct cell_mount *m, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		free(m[i].src);
		free(m[i].dst);
	}
	free(m);
}

void create_done(struct create *c)
{
	free(c->name);
	free(c->cwd);
	free(c->repo);
	free(c->image);
	free(c->workspace_path);
	free(c->caller_path);
	free(c->from);
	free(c->context);
	free(c->ref);
	strv_free(c->git_env);
	strv_free(c->alternates);
	strv_free(c->env);
	strv_free(c->labels);
	strv_free(c->cache_env);
	strv_free(c->volumes);
	free(c->volume_viewer);
	mounts_done(c->mounts, c->n_mounts);
	net_request_done(&c->net);
	exec_request_done(&c->exec);
	*c = (struct create){0};
}

static int check_name(struct engine *g, const char *name, struct err *e)
{
	if (!name)
		return 0;
	if (!name_is_valid(name))
		return err_set(e, ERR_INVALID, "\"%.60s\" is not a name: 1 to 40 of a-z 0-9 -, not starting with -, and not like an id",
			       name);
	for (struct box *b = g->boxes; b; b = b->next)
		if (b->row.name && !strcmp(b->row.name, name))
			return err_set(e, ERR_CONFLICT, "a sandbox named %s exists: choose another name or `skep rm %s`", name, name);
	return 0;
}

static int check_labels(char *const *labels, struct err *e)
{
	for (; labels && *labels; labels++)
		if ((*labels)[0] == '=' || !strchr(*labels, '='))
			return err_set(e, ERR_INVALID, "label \"%.60s\" has no name", *labels);
	return 0;
}

bool mount_place_is_fit(const char *dst)
{
	static const char *const closed[] = {"/proc", "/sys", "/dev", "/.skep"}; // the last: skep itself writes there
	for (size_t i = 0; i < countof(closed); i++)
		if (path_is_below(dst, closed[i]))
			return false;
	return path_is_clean(dst) && dst[1];
}

static int check_mount(struct engine *g, struct cell_mount *m, struct err *e)
{
	if (m->src[0] != '/')
		return err_set(e, ERR_INVALID, "mount: %.200s is not an absolute path", m->src);
	if (!mount_place_is_fit(m->dst))
		return err_set(e, ERR_INVALID, "mount: %.200s can not be a place inside", m->dst);
	char *real = realpath(m->src, NULL);
	if (!real)
		return err_set(e, ERR_INVALID, "mount: no such file or directory: %.200s", m->src);
	free(m->src);
	m->src = real;
	return source_check(&g->rules, m->src, e) ? err_wrap(e, "mount") : 0;
}

static int check_mounts(struct engine *g, struct create *c, struct err *e)
{
	if (c->n_mounts > LIMIT_MOUNTS)
		return err_set(e, ERR_LIMIT, "%u mounts with the project's, and %d is the most: mount a directory above them", c->n_mounts, LIMIT_MOUNTS);
	for (uint32_t i = 0; i < c->n_mounts; i++)
		if (check_mount(g, &c->mounts[i], e))
			return -1;
	return 0;
}

static int resolve_image(struct engine *g, struct create *c, struct sandbox *row, struct err *e)
{
	struct image_row i;
	if (!c->image || !strcmp(c->image, "host"))
		return 0;
	if (engine_image_get(g, c->image, &i, e))
		return -1;
	row->image = xstrdup(i.id);
	image_row_done(&i);
	return 0;
}

static int resolve_base(struct engine *g, struct create *c, struct sandbox *row, struct err *e)
{
	struct source src = {0};
	if (c->empty && c->repo)
		return err_set(e, ERR_INVALID, "an empty workspace and a repository exclude each other");
	bool url = c->repo && source_is_url(c->repo);
	if (c->ref && !url)
		return err_set(e, ERR_INVALID, "a ref goes with a repository that is a URL");
	if (url && !(row->url = source_url(c->repo, e)))
		return -1;
	row->ref = take(&c->ref);
	if (!c->empty && !url && source_resolve(&g->rules, c->cwd, c->repo, &src, e))
		return -1;
	row->repo = src.base;
	row->base_dev = src.dev;
	row->base_ino = src.ino;
	if (c->workspace_path && (!path_is_clean(c->workspace_path) || !mount_place_is_fit(c->workspace_path)))
		return err_set(e, ERR_INVALID, "workspace path %.200s can not be used inside", c->workspace_path);
	row->ws_path = c->workspace_path ? take(&c->workspace_path) : xstrdup(src.base ? src.base : "/workspace");
	return 0;
}

static char **list_or_empty(char ***v)
{
	char **list = take(v);
	return list ? list : xcalloc(1, sizeof *list);
}

static char **list_add(char **list, char ***more)
{
	for (char **m = *more; m && *m; m++)
		strv_add(&list, *m);
	strv_free(*more);
	*more = NULL;
	return list;
}

// What the request says of a name counts.
static char **labels_add(char **list, char ***more)
{
	for (char **m = *more; m && *m; m++) {
		size_t n = strcspn(*m, "=") + 1;
		char **v = list;
		while (v && *v && strncmp(*v, *m, n))
			v++;
		if (v && *v) {
			free(*v);
			*v = xstrdup(*m);
		} else {
			strv_add(&list, *m);
		}
	}
	strv_free(*more);
	*more = NULL;
	return list;
}

static bool is_default(const struct limits *l)
{
	return !memcmp(l, &LIMITS_DEFAULT, sizeof *l);
}

// On a snapshot: what the request does not say is as it was there.
static int make_from(struct engine *g, struct create *c, struct sandbox *row, struct err *e)
{
	if (c->repo || c->empty || c->image || c->ref || c->workspace_path || c->n_mounts)
		return err_set(e, ERR_INVALID, "a sandbox made from a snapshot has its repository, image, mounts and workspace path from there");
	if (config_apply(g, c, NULL, false, e) || create_from(g, c->from, row, e))
		return -1;
	row->env = list_add(row->env, &c->env);
	row->labels = labels_add(row->labels, &c->labels);
	if (!is_default(&c->limits))
		row->limits = c->limits;
	row->timeout_ms = c->timeout_ms ? c->timeout_ms : row->timeout_ms;
	row->ttl_ms = c->ttl_ms ? c->ttl_ms : row->ttl_ms;
	row->idle_ms = c->idle_ms ? c->idle_ms : row->idle_ms;
	row->auto_snapshot |= c->auto_snapshot;
	row->lease = c->ttl_ms ? c->lease : row->lease;
	row->on_expiry = c->on_expiry ? c->on_expiry : row->on_expiry;
	return 0;
}

// What the caller, the project in `dir` (NULL = none) and the configurations say of it, into the row.
static int settle_wishes(struct engine *g, struct create *c, const char *dir, struct sandbox *row, char ***notices, struct err *e)
{
	if (project_apply(g, c, dir, row, notices, e) || check_mounts(g, c, e) || resolve_image(g, c, row, e))
		return -1;
	if (limits_check(&c->limits, e))
		return -1;
	row->strict = c->strict;
	row->env = list_or_empty(&c->env);
	if (caches_add(g, c, row, e))
		return -1;
	row->mounts = take(&c->mounts);
	row->n_mounts = c->n_mounts;
	c->n_mounts = 0;
	row->limits = c->limits;
	row->timeout_ms = c->timeout_ms;
	row->ttl_ms = c->ttl_ms;
	row->idle_ms = c->idle_ms;
	return 0;
}

static int make_new(struct engine *g, struct create *c, struct sandbox *row, char ***notices, struct err *e)
{
	if (resolve_base(g, c, row, e))
		return -1;
	row->profile = c->profile;
	if (!row->url && settle_wishes(g, c, row->repo, row, notices, e)) // the file of a repository is read when it was fetched
		return -1;
	row->nested = c->nested;
	row->trace_off = c->trace_off;
	row->keep_tmp = c->keep_tmp && c->profile == PROFILE_ROOT;
	row->path = take(&c->caller_path);
	row->labels = list_or_empty(&c->labels);
	row->lowers = xcalloc(1, sizeof *row->lowers);
	row->objects = xcalloc(1, sizeof *row->objects);
	row->umask_bits = c->umask_bits;
	row->auto_snapshot = c->auto_snapshot;
	row->on_expiry = c->on_expiry;
	row->lease = c->lease;
	return 0;
}

static int make_row(struct engine *g, struct create *c, struct sandbox *row, char ***notices, struct err *e)
{
	if (budget_read(g, e) || budget_check(g, e) || check_name(g, c->name, e) || env_check(c->env, e) || check_labels(c->labels, e) ||
	    (c->from ? make_from(g, c, row, e) : make_new(g, c, row, notices, e)) || (!row->url && volumes_apply(g, c, row, e)) || net_request_check(g, &c->net, e) ||
	    net_request_seal(g, &c->net, e))
		return -1;
	if (c->run && !c->has_exec)
		return err_set(e, ERR_INVALID, "\"run\" needs an exec");
	id_make('l', row->layer);
	row->name = take(&c->name);
	row->context = take(&c->context);
	row->owner = xstrdup(g->owner);
	row->state = STATE_CREATING;
	row->run = c->run;
	row->keep = c->keep || row->context || c->from;
	row->pinned = c->pinned;
	row->has_net = net_request_apply(&row->net, &c->net);
	row->created = row->used = clock_unix_ms();
	row->expires = row->ttl_ms ? row->created + row->ttl_ms : 0;
	return 0;
}

// Everything that must be known after a crash, in one transaction.
static int store_all(struct task *t, bool cell, struct err *e)
{
	struct box *b = t->box;
	struct store *s = b->g->store;
	engine_wrote(b->g);
	if (store_begin(s, e))
		return -1;
	if (store_sandbox_add(s, &b->row, e) || (b->row.has_net && store_net_set(s, b->row.id, &b->row.net, e)) ||
	    store_project_set(s, b->row.id, &b->row.project, e) || (cell && store_cell_set(s, &b->cell_row, e)) ||
	    (t->has_exec && store_exec_add(s, &t->row, e))) {
		store_rollback(s);
		return -1;
	}
	return store_commit(s, e);
}

// Nothing of a create that failed stays.
void create_undo(struct task *t, const struct err *why)
{
	struct box *b = t->box;
	struct err e;
	char **dirs = NULL;
	pin_stop(b);
	if (store_sandbox_drop(b->g->store, b->row.id, &e))
		log_line(LOG_ERROR, "sandbox=%s %s", b->row.id, e.msg);
	engine_wrote(b->g);
	auto_free char *dir = xasprintf("sandboxes/%s", b->row.id);
	box_dirs(b, &dirs);
	strv_add(&dirs, dir); // the caller never learned its id: nothing to keep
	engine_discard_unmade(b->g, dirs); // its row, if it is still there, says "creating"
	strv_free(dirs);
	task_answer(t, why);
	box_drop(b);
	task_end(t, why);
}

static int build(struct task *t, const char *cwd, bool start, struct err *e)
{
	struct box *b = t->box;
	if (net_settle(b, e) || (t->want.argv && exec_make(b, cwd, t, e)))
		return -1;
	memcpy(b->cell_row.sandbox, b->row.id, sizeof b->cell_row.sandbox);
	key_make(b->cell_row.key);
	b->cell_row.lowers = strv_copy(b->row.lowers);
	if (!start)
		b->row.state = STATE_STOPPED;
	if (store_all(t, start, e) || fault(FAULT_ENGINE_CREATE, e))
		return -1;
	record_created(b);
	return fault(FAULT_ENGINE_SPEC, e) ? -1 : 0;
}

// Of a repository that was fetched meanwhile.
static int settle_later(struct task *t, struct err *e)
{
	struct box *b = t->box;
	auto_free char *dir = b->row.tree ? xasprintf("%s/%s", b->g->skep_home, b->row.tree) : NULL;
	if (!t->later)
		return 0;
	if (settle_wishes(b->g, t->later, dir, &b->row, &b->create_notices, e) || volumes_apply(b->g, t->later, &b->row, e))
		return -1;
	b->row.expires = b->row.ttl_ms ? b->row.created + b->row.ttl_ms : 0;
	return 0;
}

// The sandbox comes into being, and its cell if a command waits for it.
void create_go(struct task *t, const struct err *e)
{
	struct box *b = t->box;
	struct err why;
	if (e || build(t, t->cwd, t->start, &why)) {
		why = e ? *e : why;
		create_undo(t, &why);
		return;
	}
	if (!b->setup) // nobody will ask what that one changed
		pin_begin(b);
	if (t->start)
		net_start_cell(b, t, false);
	if (!b->row.head)
		b->row.head = b->row.repo ? source_head(b->row.repo) : NULL; // while the cell is busy with the spec
	if (t->start)
		return;
	task_answer(t, NULL);
	box_save(b); // head and the journal's anchor
	if (b->row.expires)
		expiry_arm(b->g);
	task_end(t, NULL);
}

// Its base is there.
static void on_based(struct task *t, const struct err *e)
{
	struct err why;
	if (e || settle_later(t, &why))
		create_undo(t, e ? e : &why);
	else
		setup_prepare(t, create_go);
}

static struct box *by_context(struct engine *g, const char *key)
{
	for (struct box *b = g->boxes; b; b = b->next)
		if (b->row.context && !strcmp(b->row.context, key))
			return b;
	return NULL;
}

// The one that goes by this key, started. Who asks while it is being made waits for it.
static void find_again(struct box *b, struct create *c, struct done d)
{
	char id[ID_SIZE];
	memcpy(id, b->row.id, sizeof id);
	if (c->has_exec) {
		c->exec.cwd = c->exec.cwd ? c->exec.cwd : path_map(b->row.repo, b->row.ws_path, c->cwd);
		engine_exec(b->g, id, &c->exec, d);
	} else {
		engine_start(b->g, id, d);
	}
	create_done(c);
}

// What its cell will be like, as far as the row says it.
static bool is_expected(struct engine *g, const struct sandbox *row, struct identity *out)
{
	const struct backend_ops *ops = g->backend->ops;
	auto_free char *image = row->image ? xasprintf("%s/images/%s", g->skep_home, row->image) : NULL;
	struct cell_spec like = {
		.profile = row->profile, .nested = row->nested, .trace_off = row->trace_off, .keep_tmp = row->keep_tmp, .strict = row->strict,
		.base = row->repo, .image = image, .limits = row->limits, .n_base_lowers = row->n_base,
	};
	for (char **l = row->lowers; l && *l; l++) {
		auto_free char *path = xasprintf("%s/%s", g->skep_home, *l);
		strv_add(&like.lowers, path);
	}
	bool yes = ops->expects && ops->expects(g->backend, &like, out);
	strv_free(like.lowers);
	return yes;
}

// Who it will be. A cell may be built already for a sandbox like this one, with an identity of its own: then it is that.
static int name_it(struct engine *g, const struct create *c, struct sandbox *row, struct err *e)
{
	struct identity i;
	bool plain = (c->start || c->has_exec) && !row->name && !row->url;
	if (!plain || !is_expected(g, row, &i)) {
		key_make(row->machine_id);
		return blank_take(g, row->id, e);
	}
	memcpy(row->id, i.id, sizeof row->id);
	memcpy(row->machine_id, i.machine_id, sizeof row->machine_id);
	blank_used(g, i.id);
	return 0;
}

static void create(struct engine *g, struct create *c, struct done d)
{
	struct err e;
	struct sandbox row = {0};
	struct box *known = c->context ? by_context(g, c->context) : NULL;
	if (known) {
		find_again(known, c, d);
		return;
	}
	char **notices = NULL;
	if (make_row(g, c, &row, &notices, &e) || name_it(g, c, &row, &e)) {
		strv_free(notices);
		sandbox_done(&row);
		create_done(c);
		task_refuse(d, &e);
		return;
	}
	struct task *t = task_new(box_add(g, &row), TASK_CREATE, d);
	t->box->holder = t;
	t->box->create_notices = notices;
	t->start = c->start || c->has_exec;
	t->cwd = take(&c->cwd);
	t->url = take(&c->repo);
	t->git_env = take(&c->git_env);
	t->alternates = take(&c->alternates);
	t->pin = c->pin;
	t->setup = c->setup;
	if (c->has_exec) {
		t->want = c->exec;
		c->exec = (struct exec_request){0};
	}
	if (t->box->row.url) {
		t->later = xcalloc(1, sizeof *t->later);
		*t->later = *c;
		*c = (struct create){0};
	}
	create_done(c);
	base_prepare(t, on_based);
}

void engine_create(struct engine *g, struct create *c, struct done d)
{
	g->configs_known[0] = g->configs_known[1] = false;
	g->creating = true;
	create(g, c, d);
	g->creating = false;
}
