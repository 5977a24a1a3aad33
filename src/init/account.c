// SPDX-License-Identifier: Apache-2.0
#include "init/account.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "init/account_int.h"
#include "init/users.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARGS ACCOUNT_WORDS

static struct {
	char *home;
	uid_t uid;
	gid_t gid;
} self; // the process does one operation

int account_enter(const char *user, struct err *e)
{
	struct user u;
	if (!users_find(user, &u))
		return err_no(e, EUSERS, "invalid username: '%.200s'", user);
	self.home = xstrdup(u.home[0] == '/' ? u.home : "/");
	self.uid = u.uid;
	self.gid = u.gid;
	user_done(&u);
	return 0;
}

// Appends the components of path to an absolute one.
static void walk(struct buf *b, const char *path)
{
	struct str rest = str_of(path), part;
	while (str_next(&rest, '/', &part)) {
		if (!part.n || str_is(part, "."))
			continue;
		if (!str_is(part, "..")) {
			buf_byte(b, '/');
			buf_add(b, part.p, part.n);
			continue;
		}
		while (b->n && b->p[--b->n] != '/')
			;
		if (b->p)
			b->p[b->n] = 0;
	}
}

char *account_path(const char *path)
{
	struct buf b = BUF_INIT(1 << 20);
	bool tilde = path[0] == '~' && (!path[1] || path[1] == '/');
	if (path[0] != '/')
		walk(&b, self.home);
	walk(&b, path + tilde);
	if (!b.n)
		buf_byte(&b, '/');
	return buf_take(&b);
}

int account_own(int dir, const char *name, struct err *e)
{
	if (geteuid())
		return 0; // it is ours, and we are no other
	return fchownat(dir, name, self.uid, self.gid, AT_SYMLINK_NOFOLLOW) ? err_sys(e, "owner of %s", name) : 0;
}

int account_own_fd(int fd, struct err *e)
{
	// Also where nothing changes: who watches the file sees that its owner was set, as E2B's clients expect.
	return fchown(fd, self.uid, self.gid) && !geteuid() ? err_sys(e, "owner") : 0;
}

static int make_one(const char *path, struct err *e)
{
	if (!mkdir(path, 0755))
		return account_own(AT_FDCWD, path, e);
	return errno == EEXIST ? 0 : err_sys(e, "make %s", path); // somebody else was faster
}

int account_mkdirs(const char *path, struct err *e)
{
	struct stat st;
	if (!stat(path, &st)) {
		if (S_ISDIR(st.st_mode))
			return err_no(e, EEXIST, "directory already exists: %s", path);
		return err_no(e, ENOTDIR, "path already exists but it is not a directory: %s", path);
	}
	if (errno != ENOENT)
		return err_sys(e, "%s", path);
	auto_free char *up = xstrdup(path);
	char *slash = strrchr(up, '/');
	if (slash && slash != up) {
		*slash = 0;
		if (account_mkdirs(up, e) && e->sys != EEXIST)
			return -1;
	}
	return make_one(path, e);
}

#define MARKS "/run/e2b"

// What programs look for to know where they run. Best effort: a sandbox without root inside has no place for them.
static void make_marks(char *const *marks)
{
	struct err ignored;
	if (!*marks || (mkdir(MARKS, 0755) && errno == EEXIST))
		return; // made before
	for (; *marks; marks++) {
		size_t n = strcspn(*marks, "=");
		auto_free char *path = xasprintf(MARKS "/.%.*s", (int)n, *marks);
		const char *value = *marks + n + ((*marks)[n] == '=');
		auto_fd int fd = fs_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644, &ignored);
		if (fd >= 0)
			(void)!fs_write_all(fd, value, strlen(value), &ignored);
	}
}

static int op_home(char *const *a, struct err *e)
{
	struct stat st;
	const char *dir = a[0];
	auto_buf struct buf b = BUF_INIT(16 << 10);
	int rc = stat(dir, &st), why = errno;
	if (rc && (why == ENOENT || why == ENOTDIR))
		return err_no(e, ENOENT, "cwd '%s' does not exist", dir);
	if (rc)
		return err_sys(e, "cwd '%s'", dir);
	if (!S_ISDIR(st.st_mode))
		return err_no(e, ENOTDIR, "cwd '%s' is not a directory", dir);
	make_marks(a + 1);
	wire_str(&b, self.home);
	wire_str(&b, dir);
	return fs_write_all(1, b.p, b.n, e);
}

static const struct {
	const char *name;
	int (*run)(char *const *args, struct err *e);
	int min, max, paths;
} ops[] = {
	{"home", op_home, 1, 8, 1},
	{"entry", account_entry, 1, 1, 1},
	{"entries", account_entries, 2, 2, 1},
	{"make", account_make, 1, 1, 1},
	{"move", account_move, 2, 2, 2},
	{"fill", account_fill, 1, ARGS, 1},
	{"fetch", account_fetch, 1, 3, 1},
	{"compose", account_compose, 2, ARGS, ARGS},
	{"remove", op_remove, 1, 1, 1},
	{"inotify", op_inotify, 1, 2, 1},
};

int op_for(char *const *a, struct err *e)
{
	int n = (int)strv_len(a) - 2;
	umask(022);
	if (account_enter(a[0], e))
		return -1;
	for (size_t i = 0; i < countof(ops); i++) {
		if (strcmp(ops[i].name, a[1]) || n < ops[i].min || n > ops[i].max)
			continue;
		char **args = strv_copy(a + 2);
		for (int k = 0; k < ops[i].paths && args[k]; k++) {
			auto_free char *given = args[k];
			args[k] = account_path(given);
		}
		int rc = ops[i].run(args, e);
		strv_free(args);
		return rc;
	}
	return err_set(e, ERR_INVALID, "unknown operation for a user: %s", a[1]);
}
