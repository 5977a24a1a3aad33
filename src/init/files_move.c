// SPDX-License-Identifier: Apache-2.0
// Making, moving, copying and removing.
#include "init/files_int.h"

#include "base/fs.h"
#include "base/mem.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COPY_DEPTH 200

int op_mkdir(char *const *a, struct err *e)
{
	static const char *const known[] = {"mode=", "new", NULL};
	bool given;
	mode_t mode = 0777; // the umask cuts it
	struct stat st;
	if (words_only(a + 1, known, e) || word_mode(a + 1, &mode, &given, e))
		return -1;
	if (!stat(a[0], &st)) {
		if (!S_ISDIR(st.st_mode))
			return err_no(e, ENOTDIR, "%s exists and is not a directory", a[0]);
		if (word(a + 1, "new"))
			return err_no(e, EEXIST, "%s exists", a[0]);
	} else if (fs_mkdirs(AT_FDCWD, a[0], 0777, e)) {
		return -1;
	} else if (given && chmod(a[0], mode)) {
		return err_sys(e, "mode of %s", a[0]);
	}
	return record_put(AT_FDCWD, a[0], a[0], true, e);
}

// --- copies ---

static int copy_tree(int from, const char *name, int to, const char *as, int depth, struct err *e);

static int copy_file(int from, const char *name, int to, const char *as, const struct stat *st, struct err *e)
{
	auto_fd int in = fs_open(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, e);
	auto_fd int out = in < 0 ? -1 : fs_open(to, as, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, e);
	if (out < 0 || copy_bytes(in, out, e))
		return -1;
	struct timespec times[2] = {st->st_atim, st->st_mtim};
	return fchmod(out, st->st_mode & 07777) || futimens(out, times) ? err_sys(e, "%s", as) : 0;
}

static int copy_link(int from, const char *name, int to, const char *as, struct err *e)
{
	char target[4097];
	ssize_t n = readlinkat(from, name, target, sizeof target - 1);
	if (n < 0)
		return err_sys(e, "%s", name);
	target[n] = 0;
	return symlinkat(target, to, as) ? err_sys(e, "%s", as) : 0;
}

static int copy_dir(int from, const char *name, int to, const char *as, const struct stat *st, int depth, struct err *e)
{
	if (depth > COPY_DEPTH)
		return err_set(e, ERR_LIMIT, "%s is too deep to be copied", name);
	if (mkdirat(to, as, 0700))
		return err_sys(e, "%s", as);
	auto_fd int out = fs_open(to, as, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	int in = out < 0 ? -1 : fs_open(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	if (in < 0)
		return -1;
	DIR *d = fdopendir(in);
	if (!d) {
		close(in);
		return err_sys(e, "list %s", name);
	}
	struct dirent *ent;
	int rc = 0;
	while (!rc && (ent = readdir(d)))
		if (strcmp(ent->d_name, ".") && strcmp(ent->d_name, ".."))
			rc = copy_tree(in, ent->d_name, out, ent->d_name, depth + 1, e);
	closedir(d);
	if (!rc && fchmod(out, st->st_mode & 07777))
		rc = err_sys(e, "%s", as);
	return rc;
}

static int copy_tree(int from, const char *name, int to, const char *as, int depth, struct err *e)
{
	struct stat st;
	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW))
		return err_sys(e, "%s", name);
	if (S_ISDIR(st.st_mode))
		return copy_dir(from, name, to, as, &st, depth, e);
	if (S_ISLNK(st.st_mode))
		return copy_link(from, name, to, as, e);
	if (S_ISREG(st.st_mode))
		return copy_file(from, name, to, as, &st, e);
	return err_set(e, ERR_INVALID, "%s is neither a file nor a directory nor a link", name);
}

// Below itself a copy has no end.
static int check_apart(const char *from, const char *to, struct err *e)
{
	auto_free char *real = realpath(from, NULL), *parent = xstrdup(to), *above = NULL;
	char *slash = strrchr(parent, '/');
	if (slash)
		slash[slash == parent] = 0;
	above = realpath(slash ? parent : ".", NULL);
	size_t n = real ? strlen(real) : 0;
	if (above && real && !strncmp(above, real, n) && (above[n] == '/' || !above[n]))
		return err_set(e, ERR_INVALID, "%s lies in %s", to, from);
	return 0;
}

// Beside the place first, so that what is there is whole or not there.
static int copy_beside(const char *from, const char *to, bool fresh, struct err *e)
{
	struct err ignored;
	auto_free char *tmp = xasprintf("%s.skep-%d", to, (int)getpid());
	if (check_apart(from, to, e))
		return -1;
	int rc = copy_tree(AT_FDCWD, from, AT_FDCWD, tmp, 0, e);
	if (!rc && syscall(SYS_renameat2, AT_FDCWD, tmp, AT_FDCWD, to, fresh ? RENAME_NOREPLACE : 0))
		rc = err_sys(e, "%s", to);
	if (rc && fs_remove_tree(AT_FDCWD, tmp, &ignored))
		return -1;
	return rc;
}

static int to_words(char *const *a, struct err *e)
{
	static const char *const known[] = {"parents", "new", NULL};
	if (words_only(a + 2, known, e))
		return -1;
	return word(a + 2, "parents") ? make_parents(a[1], e) : 0;
}

int op_copy(char *const *a, struct err *e)
{
	if (to_words(a, e) || copy_beside(a[0], a[1], word(a + 2, "new"), e))
		return -1;
	return record_put(AT_FDCWD, a[1], a[1], false, e);
}

int op_move(char *const *a, struct err *e)
{
	bool fresh = word(a + 2, "new");
	if (to_words(a, e))
		return -1;
	if (syscall(SYS_renameat2, AT_FDCWD, a[0], AT_FDCWD, a[1], fresh ? RENAME_NOREPLACE : 0)) {
		if (errno != EXDEV) // of a directory of a lower layer, too
			return err_sys(e, "move %s to %s", a[0], a[1]);
		if (copy_beside(a[0], a[1], fresh, e) || fs_remove_tree(AT_FDCWD, a[0], e))
			return -1;
	}
	return record_put(AT_FDCWD, a[1], a[1], false, e);
}

int op_remove(char *const *a, struct err *e)
{
	static const char *const known[] = {"plain", "must", NULL};
	struct stat st;
	if (words_only(a + 1, known, e))
		return -1;
	if (word(a + 1, "must") && lstat(a[0], &st))
		return err_sys(e, "%s", a[0]);
	if (!word(a + 1, "plain"))
		return fs_remove_tree(AT_FDCWD, a[0], e);
	if (unlink(a[0]) && errno != ENOENT && (errno != EISDIR || rmdir(a[0])))
		return err_sys(e, "remove %s", a[0]);
	return 0;
}
