// SPDX-License-Identifier: Apache-2.0
#include "workspace/review_txn.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "workspace/review_copy.h"
#include "workspace/review_base.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYNC_EACH 32u // more files than this: one sync of the file system instead of a wait for each
#define LOG_MAX (1u << 30)

struct op *txn_add(struct txn *t, enum op_kind kind, const char *path)
{
	if (!(t->n & (t->n - 1)))
		t->v = xrealloc(t->v, (t->n ? t->n * 2 : 1) * sizeof *t->v);
	t->v[t->n] = (struct op){.kind = kind, .path = xstrdup(path)};
	return &t->v[t->n++];
}

struct txn_base *txn_add_base(struct txn *t, const char *path)
{
	if (!(t->n_base & (t->n_base - 1)))
		t->base = xrealloc(t->base, (t->n_base ? t->n_base * 2 : 1) * sizeof *t->base);
	t->base[t->n_base] = (struct txn_base){.path = xstrdup(path)};
	return &t->base[t->n_base++];
}

void txn_done(struct txn *t)
{
	for (size_t i = 0; i < t->n; i++) {
		free(t->v[i].path);
		free(t->v[i].temp);
		free(t->v[i].attrs);
	}
	for (size_t i = 0; i < t->n_base; i++)
		free(t->base[i].path);
	free(t->v);
	free(t->base);
	free(t->target);
	*t = (struct txn){0};
}

static int by_step(const void *a, const void *b)
{
	const struct op *x = a, *y = b;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	int d = review_path_cmp(x->path, y->path);
	return x->kind == OP_RMDIR ? -d : d; // the deepest goes first
}

static const struct op *find_step(const struct txn *t, size_t n, enum op_kind kind, const char *path)
{
	struct op key = {.kind = kind, .path = (char *)path};
	return t->v ? bsearch(&key, t->v, n, sizeof *t->v, by_step) : NULL;
}

// 1 if path is a directory on the host now and stays one.
static int stays_dir(struct txn_env *env, const struct txn *t, size_t n, const char *path)
{
	struct err none;
	if (find_step(t, n, OP_RMDIR, path) || find_step(t, n, OP_RM, path))
		return 0;
	auto_fd int fd = fs_open_beneath(env->root, path, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, &none);
	return fd >= 0;
}

// Directories above a new file that are not there yet. n: the steps that are sorted.
static void add_parents(struct txn_env *env, struct txn *t, size_t n, const char *path)
{
	auto_free char *dir = xstrdup(path);
	for (char *slash; (slash = strrchr(dir, '/'));) {
		*slash = 0;
		if (stays_dir(env, t, n, dir))
			return;
		for (size_t i = n; i < t->n; i++)
			if (t->v[i].kind == OP_MKDIR && !strcmp(t->v[i].path, dir))
				return; // and so are those above it
		if (find_step(t, n, OP_MKDIR, dir))
			return;
		txn_add(t, OP_MKDIR, dir)->now.type = SIDE_DIR;
	}
}

// Beside the target, or above it where its directory comes or goes: always the same file system.
static char *temp_name(struct txn_env *env, const struct txn *t, size_t i, const struct op *op)
{
	auto_free char *dir = xstrdup(op->path);
	for (char *slash; (slash = strrchr(dir, '/'));) {
		*slash = 0;
		if (stays_dir(env, t, t->n, dir))
			return xasprintf("%s/.skep-%s-%zu", dir, t->id, i);
	}
	return xasprintf(".skep-%s-%zu", t->id, i);
}

static void note_dir_modes(struct txn_env *env, struct txn *t)
{
	for (size_t i = 0; i < t->n; i++) {
		struct stat st;
		struct err none;
		if (t->v[i].kind != OP_RMDIR)
			continue;
		t->v[i].must = find_step(t, t->n, OP_PUT, t->v[i].path) != NULL;
		auto_fd int fd = fs_open_beneath(env->root, t->v[i].path, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, &none);
		if (fd >= 0 && !fstat(fd, &st))
			t->v[i].old.perm = st.st_mode & 07777;
	}
}

// Of every file that is replaced or goes: the new one, or the one that an undo makes, gets them.
static void note_attrs(struct txn_env *env, struct txn *t)
{
	for (size_t i = 0; i < t->n; i++) {
		struct op *op = &t->v[i];
		struct err none;
		if (op->attrs || op->old.type != SIDE_FILE || (op->kind != OP_PUT && op->kind != OP_RM))
			continue;
		auto_buf struct buf b = BUF_INIT(1u << 20);
		auto_fd int fd = fs_open_beneath(env->root, op->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0, &none);
		if (fd < 0)
			continue;
		attrs_read(fd, &b);
		if (b.overflow || !b.n)
			continue;
		op->attrs_n = b.n;
		op->attrs = buf_take(&b);
	}
}

int txn_plan(struct txn_env *env, struct txn *t, struct err *e)
{
	struct stat st;
	if (fstat(env->root, &st))
		return err_sys(e, "stat the target directory");
	id_make('t', t->id);
	t->dev = st.st_dev;
	t->ino = st.st_ino;
	t->time_ms = clock_unix_ms();
	if (!t->n)
		return 0; // only P moves
	qsort(t->v, t->n, sizeof *t->v, by_step);
	for (size_t i = 0, n = t->n; i < n; i++)
		if (t->v[i].kind == OP_PUT || t->v[i].kind == OP_MKDIR) {
			auto_free char *path = xstrdup(t->v[i].path); // the list moves
			add_parents(env, t, n, path);
		}
	qsort(t->v, t->n, sizeof *t->v, by_step);
	note_dir_modes(env, t);
	note_attrs(env, t);
	for (size_t i = 0; i < t->n; i++) {
		if (t->v[i].kind == OP_PUT || t->v[i].kind == OP_RM)
			t->v[i].temp = temp_name(env, t, i, &t->v[i]);
		if (t->v[i].kind == OP_MKDIR && !t->v[i].now.perm)
			t->v[i].now.perm = 0777 & ~env->umask;
	}
	return 0;
}

static int set_phase(struct txn_env *env, const struct txn *t, const char *phase, struct err *e)
{
	auto_free char *text = xasprintf("%s %s\n", t->id, phase);
	return fs_replace(env->log, "phase", text, strlen(text), 0600, e);
}

static bool is_many(const struct txn *t)
{
	return t->n > SYNC_EACH;
}

static int sync_name(struct txn_env *env, const char *path, bool file, struct err *e)
{
	const char *name;
	auto_fd int dir = op_open_parent(env->root, path, &name, e);
	if (dir < 0)
		return e->kind == ERR_CONFLICT ? 0 : -1; // no such directory any more: nothing to keep
	auto_fd int fd = file ? openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
	return (fd >= 0 && fsync(fd)) || fsync(dir) ? err_sys(e, "sync %.200s", path) : 0;
}

static int sync_all(struct txn_env *env, const struct txn *t, bool temps, struct err *e)
{
	if (is_many(t))
		return syncfs(env->root) ? err_sys(e, "sync the target's file system") : 0;
	for (size_t i = 0; i < t->n; i++) {
		const char *path = temps ? t->v[i].temp : t->v[i].path;
		if (path && sync_name(env, path, temps, e))
			return -1;
	}
	return 0;
}

static int clean_all(struct txn_env *env, struct txn *t, bool uncommitted, struct err *e)
{
	for (size_t i = 0; i < t->n; i++)
		if (op_clean(env, &t->v[i], uncommitted, e))
			return -1;
	return 0;
}

static int drop_intent(struct txn_env *env, struct err *e)
{
	if (unlinkat(env->log, "intent", 0) && errno != ENOENT)
		return err_sys(e, "end the intent log");
	return fsync(env->log) ? err_sys(e, "sync the intent log") : 0;
}

static int undo_name(uint64_t number, char out[32])
{
	return fmt_to(out, 32, "undo/%06llu", (unsigned long long)number);
}

static int note_gone(struct txn_env *env, const struct txn *t, struct err *e)
{
	char **paths = xcalloc(t->n_base + 1, sizeof *paths); // borrowed
	size_t n = 0;
	for (size_t i = 0; i < t->n_base; i++)
		if (!t->base[i].after.mode)
			paths[n++] = t->base[i].path;
	int rc = review_gone_add(shadow_dir(env->shadow), paths, e);
	free(paths);
	return rc;
}

// All is new and on disk. Each of these can be done twice.
static int finish(struct txn_env *env, struct txn *t, struct err *e)
{
	char name[32];
	if (fault(FAULT_REVIEW_BASE, e) ||
	    (!t->keeps_p && (note_gone(env, t, e) || shadow_base_set(env->shadow, t->p_after, e))))
		return -1;
	if (fault(FAULT_REVIEW_CLEAN, e) || clean_all(env, t, false, e) || undo_name(t->number, name))
		return -1;
	if (fault(FAULT_REVIEW_END, e))
		return -1;
	if (t->keeps_p)
		return drop_intent(env, e);
	if (t->what == TXN_UNDO) {
		if (unlinkat(env->log, name, 0) && errno != ENOENT)
			return err_sys(e, "take an entry from the undo stack");
		return drop_intent(env, e);
	}
	if (renameat(env->log, "intent", env->log, name))
		return err_sys(e, "put an entry on the undo stack");
	auto_fd int dir = fs_open(env->log, "undo", O_RDONLY | O_DIRECTORY, 0, e);
	return dir < 0 || fsync(dir) || fsync(env->log) ? err_sys(e, "sync the undo stack") : 0;
}

static int revert(struct txn_env *env, struct txn *t, struct err *e)
{
	if (set_phase(env, t, "revert", e))
		return -1;
	for (size_t i = t->n; i--;)
		if (op_back(env, &t->v[i], e))
			return -1;
	return sync_all(env, t, false, e) || clean_all(env, t, false, e) || drop_intent(env, e) ? -1 : 0;
}

static int go_forward(struct txn_env *env, struct txn *t, struct err *e)
{
	for (size_t i = 0; i < t->n; i++)
		if (op_forward(env, &t->v[i], e))
			return -1;
	if (sync_all(env, t, false, e) || fault(FAULT_REVIEW_DONE, e))
		return -1;
	return 0;
}

static int prepare(struct txn_env *env, struct txn *t, struct err *e)
{
	for (size_t i = 0; i < t->n; i++)
		if (op_prepare(env, &t->v[i], e))
			return -1;
	if (sync_all(env, t, true, e) || shadow_sync(env->shadow, e))
		return -1;
	signal(SIGTERM, SIG_IGN); // from here on it is quicker done than taken back
	return fault(FAULT_REVIEW_COMMIT, e) ||
			       set_phase(env, t, "commit", e)
		       ? -1
		       : 0;
}

int txn_run(struct txn_env *env, struct txn *t, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(LOG_MAX);
	struct err why = {0};
	txn_print(t, &b);
	if (b.overflow)
		return err_set(e, ERR_LIMIT, "too many changes for one apply");
	if (fs_mkdirs(env->log, "undo", 0700, e) || fs_replace(env->log, "intent", b.p, b.n, 0600, e))
		return -1;
	if (fault(FAULT_REVIEW_INTENT, e) || prepare(env, t, e)) {
		return clean_all(env, t, true, &why) || drop_intent(env, &why) ? err_wrap(e, "%s", why.msg) : -1;
	}
	if (go_forward(env, t, e))
		return revert(env, t, &why) ? err_wrap(e, "not reverted yet (%s)", why.msg) : -1;
	return set_phase(env, t, "done", e) || finish(env, t, e) ? -1 : 0;
}

int txn_lock(int log, struct err *e)
{
	auto_fd int fd = fs_open(log, "lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600, e);
	if (fd < 0)
		return -1;
	if (flock(fd, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK ? err_set(e, ERR_CONFLICT,
						      "another apply or undo of this sandbox is going on: try again")
					    : err_sys(e, "lock the intent log");
	return take_fd(&fd);
}

int txn_top(int log, uint64_t *out, struct err *e)
{
	*out = 0;
	int fd = openat(log, "undo", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	if (!d) {
		int missing = errno == ENOENT;
		close_fd(&fd);
		return missing ? 0 : err_sys(e, "list the undo stack");
	}
	while ((ent = readdir(d))) {
		uint64_t n;
		const char *digits = ent->d_name + strspn(ent->d_name, "0");
		if (ent->d_name[0] != '.' && !str_to_u64(str_of(digits), 1, 999999999, &n) && n > *out)
			*out = n;
	}
	closedir(d);
	return 0;
}

static int resume(struct txn_env *env, struct txn *t, const char *phase, enum txn_recovered *out, struct err *e)
{
	env->resume = true;
	signal(SIGTERM, SIG_IGN);
	*out = TXN_REVERTED;
	if (!strcmp(phase, "prepare"))
		return clean_all(env, t, true, e) || drop_intent(env, e) ? -1 : 0;
	if (!strcmp(phase, "revert"))
		return revert(env, t, e);
	if (!strcmp(phase, "commit") && go_forward(env, t, e)) {
		if (e->kind != ERR_CONFLICT && e->kind != ERR_UNSUPPORTED)
			return -1; // a full disk, no rights: try again later
		return revert(env, t, e);
	}
	*out = TXN_FINISHED;
	return (strcmp(phase, "done") && set_phase(env, t, "done", e)) || finish(env, t, e) ? -1 : 0;
}

static int read_phase(int log, const char *id, char out[16], struct err *e)
{
	auto_buf struct buf b = BUF_INIT(256);
	struct str rest, part;
	if (fmt_to(out, 16, "prepare"))
		return -1;
	if (fs_read(log, "phase", &b, e))
		return e->sys == ENOENT ? 0 : -1;
	rest = str_of(buf_cstr(&b));
	if (!str_next(&rest, ' ', &part) || !str_is(part, id) || !str_next(&rest, '\n', &part))
		return 0; // of an earlier one
	return fmt_to(out, 16, "%.*s", (int)part.n, part.p) ? err_set(e, ERR_SYSTEM, "the intent log is damaged") : 0;
}

int txn_recover(int log, struct shadow *s, enum txn_recovered *out, struct err *e)
{
	struct txn t;
	struct stat st;
	char phase[16];
	*out = TXN_NOTHING;
	if (txn_load(log, "intent", &t, e))
		return e->kind == ERR_NOT_FOUND ? 0 : -1;
	struct err none;
	auto_fd int root = fs_open(AT_FDCWD, t.target, O_RDONLY | O_DIRECTORY, 0, &none);
	struct txn_env env = {.root = root, .log = log, .shadow = s};
	int rc = read_phase(log, t.id, phase, e);
	if (!rc && (root < 0 || fstat(root, &st) || st.st_ino != t.ino)) {
		// The directory it was for is not there any more, and with it all that was half done.
		*out = TXN_ABANDONED;
		rc = drop_intent(&env, e);
	} else if (!rc) {
		rc = resume(&env, &t, phase, out, e);
	}
	free(env.left);
	txn_done(&t);
	return rc;
}
