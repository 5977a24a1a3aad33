// SPDX-License-Identifier: Apache-2.0
// Operations for a user (init/account.h) that are about files: looking, making, moving, filling.
#include "init/account_int.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "init/account.h"
#include "model/entry.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#define NOTES_MAX (64u << 10) // bytes of names that are looked at
#define DEPTH_MAX 200
#define ENTRIES_MAX 200000

// --- entries ---

static void read_note(const char *path, const char *name, char ***out)
{
	char value[4097];
	ssize_t n = lgetxattr(path, name, value, sizeof value - 1);
	if (n < 0)
		return; // gone meanwhile, or not for us
	value[n] = 0;
	auto_free char *note = xasprintf("%s=%s", name + strlen(ENTRY_NOTE), value);
	strv_add(out, note);
}

static char **read_notes(const char *path)
{
	char names[NOTES_MAX], **out = xcalloc(1, sizeof *out);
	ssize_t n = llistxattr(path, names, sizeof names);
	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1)
		if (str_has_prefix(names + at, ENTRY_NOTE))
			read_note(path, names + at, &out);
	return out;
}

static int compare_notes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void resolve(const char *path, struct entry *n)
{
	struct stat st;
	n->target = realpath(path, NULL);
	if (n->target && !stat(path, &st))
		n->target_mode = st.st_mode;
	if (!n->target)
		n->target = xstrdup(path);
}

// st: of the path itself.
static void add_entry(struct buf *b, const char *path, const struct stat *st)
{
	const char *slash = strrchr(path, '/');
	auto_buf struct buf record = BUF_INIT(16 << 10);
	struct entry n = {.path = xstrdup(path), .notes = read_notes(path)};
	record_of(&record, AT_FDCWD, path, slash && slash[1] ? slash + 1 : path, st);
	struct wire w = {.p = (const uint8_t *)record.p, .n = record.n};
	if (S_ISLNK(st->st_mode))
		resolve(path, &n);
	qsort(n.notes, strv_len(n.notes), sizeof *n.notes, compare_notes);
	if (!file_record_read(&w, &n.file))
		entry_write(b, &n);
	entry_done(&n);
}

static int entry_put(const char *path, struct err *e)
{
	struct stat st;
	auto_buf struct buf b = BUF_INIT(1 << 20);
	if (lstat(path, &st))
		return errno == ENOENT || errno == ENOTDIR ? err_no(e, ENOENT, "path '%s' does not exist", path) : err_sys(e, "%s", path);
	add_entry(&b, path, &st);
	return fs_write_all(1, b.p, b.n, e);
}

int account_entry(char *const *a, struct err *e)
{
	return entry_put(a[0], e);
}

// --- lists ---

struct listing {
	uint64_t depth, n;
	struct buf out;
};

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int names_of(const char *dir, char ***out, struct err *e)
{
	DIR *d = opendir(dir);
	struct dirent *ent;
	size_t n = 0, cap = 0;
	char **names = xcalloc(1, sizeof *names);
	if (!d) {
		free(names);
		return err_sys(e, "%s", dir);
	}
	while ((ent = readdir(d)) && n < ENTRIES_MAX)
		if (strcmp(ent->d_name, ".") && strcmp(ent->d_name, "..")) {
			if (n + 1 >= cap)
				names = xrealloc(names, (cap = cap ? cap * 2 : 64) * sizeof *names);
			names[n++] = xstrdup(ent->d_name);
		}
	names[n] = NULL;
	closedir(d);
	qsort(names, n, sizeof *names, compare_names);
	*out = names;
	return 0;
}

static int list_dir(struct listing *l, const char *dir, uint64_t depth, struct err *e);

static int list_one(struct listing *l, const char *path, uint64_t depth, struct err *e)
{
	struct stat st;
	struct err ignored;
	if (lstat(path, &st))
		return 0; // gone meanwhile
	if (++l->n > ENTRIES_MAX)
		return err_no(e, EFBIG, "more than %d entries: ask for less depth", ENTRIES_MAX);
	add_entry(&l->out, path, &st);
	if (l->out.n > (64u << 10)) {
		if (fs_write_all(1, l->out.p, l->out.n, e))
			return -1;
		buf_clear(&l->out);
	}
	if (S_ISDIR(st.st_mode) && depth < l->depth && list_dir(l, path, depth + 1, &ignored) && ignored.sys != EACCES &&
	    ignored.sys != ENOENT) {
		*e = ignored;
		return -1;
	}
	return 0;
}

static int list_dir(struct listing *l, const char *dir, uint64_t depth, struct err *e)
{
	char **names = NULL;
	int rc = 0;
	if (names_of(dir, &names, e))
		return -1;
	for (char **v = names; *v && !rc; v++) {
		auto_free char *path = xasprintf("%s/%s", strcmp(dir, "/") ? dir : "", *v);
		rc = list_one(l, path, depth, e);
	}
	strv_free(names);
	return rc;
}

int account_entries(char *const *a, struct err *e)
{
	struct listing l = {.depth = 1, .out = BUF_INIT(4 << 20)};
	struct stat st;
	if (str_to_u64(str_of(a[1]), 0, UINT32_MAX, &l.depth))
		return err_set(e, ERR_INVALID, "no depth: %s", a[1]);
	l.depth = l.depth < 1 ? 1 : l.depth > DEPTH_MAX ? DEPTH_MAX : l.depth;
	if (stat(a[0], &st))
		return errno == ENOENT ? err_no(e, ENOENT, "directory not found: %s", a[0]) : err_sys(e, "%s", a[0]);
	if (!S_ISDIR(st.st_mode))
		return err_no(e, ENOTDIR, "path is not a directory: %s", a[0]);
	int rc = list_dir(&l, a[0], 1, e);
	rc = rc || !l.out.n ? rc : fs_write_all(1, l.out.p, l.out.n, e);
	buf_done(&l.out);
	return rc;
}

// --- changes ---

static int parents_of(const char *path, struct err *e)
{
	auto_free char *dir = xstrdup(path);
	char *slash = strrchr(dir, '/');
	if (!slash || slash == dir)
		return 0;
	*slash = 0;
	return account_mkdirs(dir, e) && e->sys != EEXIST ? -1 : 0;
}

int account_make(char *const *a, struct err *e)
{
	return account_mkdirs(a[0], e) ? -1 : entry_put(a[0], e);
}

int account_move(char *const *a, struct err *e)
{
	struct stat st;
	if (lstat(a[0], &st))
		return errno == ENOENT ? err_no(e, ENOENT, "source path not found: %s", a[0]) : err_sys(e, "%s", a[0]);
	if (parents_of(a[1], e) || op_move(a, e))
		return -1;
	return entry_put(a[1], e);
}

static int clear_notes(int fd, struct err *e)
{
	char names[NOTES_MAX];
	ssize_t n = flistxattr(fd, names, sizeof names);
	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1)
		if (str_has_prefix(names + at, ENTRY_NOTE) && fremovexattr(fd, names + at) && errno != ENODATA)
			return err_sys(e, "old metadata");
	return 0;
}

static int write_notes(int fd, char *const *notes, struct err *e)
{
	if (clear_notes(fd, e))
		return -1;
	for (; *notes; notes++) {
		size_t n = strcspn(*notes, "=");
		auto_free char *name = xasprintf(ENTRY_NOTE "%.*s", (int)n, *notes);
		const char *value = *notes + n + ((*notes)[n] == '=');
		if (fsetxattr(fd, name, value, strlen(value), 0))
			return err_sys(e, "metadata %s", name + strlen(ENTRY_NOTE));
	}
	return 0;
}

static int open_target(const char *path, bool append, struct err *e)
{
	struct stat st;
	if (parents_of(path, e))
		return -1;
	if (!stat(path, &st) && S_ISDIR(st.st_mode))
		return err_no(e, EISDIR, "path is a directory: %s", path);
	auto_fd int fd = fs_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_NONBLOCK | (append ? O_APPEND : O_TRUNC), 0666, e);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "not a regular file: %s", path);
	return account_own_fd(fd, e) ? -1 : take_fd(&fd);
}

// Whoever reads the file while it comes sees a part of it, as with any program that writes in place: links stay links, and
// what has it open has the new content.
int account_fill(char *const *a, struct err *e)
{
	auto_fd int fd = open_target(a[0], false, e);
	if (fd < 0 || write_notes(fd, a + 1, e) || copy_bytes(0, fd, e))
		return -1;
	return entry_put(a[0], e);
}

int account_fetch(char *const *a, struct err *e)
{
	struct stat st;
	if (stat(a[0], &st))
		return errno == ENOENT || errno == ENOTDIR ? err_no(e, ENOENT, "path '%s' does not exist", a[0]) : err_sys(e, "%s", a[0]);
	if (S_ISDIR(st.st_mode))
		return err_no(e, EISDIR, "path '%s' is a directory", a[0]);
	return a[1] ? op_get(a, e) : op_read(a, e);
}

static int append_file(int out, const char *path, struct err *e)
{
	struct stat st;
	auto_fd int in = fs_open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0, e);
	if (in < 0)
		return -1;
	if (fstat(in, &st) || !S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "not a regular file: %s", path);
	return copy_bytes(in, out, e);
}

// Beside the target first: it may be one of the sources.
int account_compose(char *const *a, struct err *e)
{
	auto_free char *tmp = xasprintf("%s.skep-%d", a[0], (int)getpid());
	auto_fd int fd = open_target(tmp, false, e);
	int rc = fd < 0 ? -1 : 0;
	for (char *const *v = a + 1; *v && !rc; v++)
		rc = append_file(fd, *v, e);
	if (!rc && rename(tmp, a[0]))
		rc = err_sys(e, "%s", a[0]);
	if (rc) {
		unlink(tmp);
		return -1;
	}
	for (char *const *v = a + 1; *v; v++)
		if (strcmp(*v, a[0]) && unlink(*v) && errno != ENOENT)
			return err_sys(e, "remove %s", *v);
	return entry_put(a[0], e);
}
