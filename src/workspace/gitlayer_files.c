// SPDX-License-Identifier: Apache-2.0
// The files of a private .git that are copies of the host's, and the object directories it borrows from.
#include "workspace/gitlayer_int.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "workspace/gitobjects.h"
#include "workspace/repo_dir.h"
#include "workspace/source.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MAX (4u << 20) // of one text file
#define LOG_MAX (1u << 20)  // of a reflog, its end counts
#define INDEX_MAX (4LL << 30)
#define DIR_FILES 2000	   // of the state of a rebase
#define ALTERNATES_DEPTH 5 // as git has it

static int make_parent(int git, const char *name, struct err *e)
{
	const char *slash = strrchr(name, '/');
	auto_free char *dir = slash ? xstrndup(name, (size_t)(slash - name)) : NULL;
	return dir ? fs_mkdirs(git, dir, 0755, e) : 0;
}

// The mode of an executable hook or a setuid file has no place here: text is text.
static int write_text(int git, const char *name, struct buf *b, struct err *e)
{
	url_scrub(b); // reflogs and messages of merges name URLs
	return make_parent(git, name, e) || fs_write(git, name, b->p ? b->p : "", b->n, 0644, e) ? -1 : 0;
}

static int copy_text(int from, const char *name, int git, struct err *e)
{
	struct err why;
	auto_buf struct buf b = BUF_INIT(TEXT_MAX);
	int rc = gitdir_read(from, name, &b, &why);
	return rc <= 0 ? 0 : write_text(git, name, &b, e); // a link, or longer than such a file ever is
}

static int copy_log(int from, const char *name, int git, struct err *e)
{
	struct err why;
	struct stat st;
	auto_buf struct buf b = BUF_INIT(LOG_MAX + 1);
	auto_fd int fd = fs_open_beneath(from, name, O_RDONLY | O_NONBLOCK, 0, &why);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return 0;
	bool cut = st.st_size > (off_t)LOG_MAX && lseek(fd, st.st_size - (off_t)LOG_MAX, SEEK_SET) >= 0;
	if (fs_read_fd(fd, &b, &why))
		return 0;
	const char *whole = cut && b.p ? memchr(b.p, '\n', b.n) : NULL;
	if (whole)
		buf_cut(&b, (size_t)(whole + 1 - b.p));
	return write_text(git, name, &b, e);
}

int gitfiles_index(int from, const char *name, int to, const char *as, enum index_time time, struct err *e)
{
	struct err why;
	struct stat st;
	auto_fd int fd = fs_open_beneath(from, name, O_RDONLY | O_NONBLOCK, 0, &why);
	if (fd < 0)
		return why.sys == ENOENT ? 0 : (*e = why, -1);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "%s of the repository is not a regular file", name);
	if (st.st_size > INDEX_MAX)
		return err_set(e, ERR_LIMIT, "%s of the repository is longer than any that is used", name);
	struct timespec t = {.tv_sec = st.st_mtim.tv_sec, .tv_nsec = time == INDEX_EXACT ? st.st_mtim.tv_nsec : 0};
	return repo_copy_fd(fd, to, as, 0644, t, e);
}

// In whole seconds: git takes an entry as new as its index for one that may have changed unseen, and inside it looks at
// whole seconds only (checkStat=minimal).
static int copy_index(int from, const char *name, int git, struct err *e)
{
	return gitfiles_index(from, name, git, name, INDEX_SECONDS, e);
}

// Every regular file of a flat directory whose name begins with prefix.
static int copy_dir(int from, const char *dir, const char *prefix, int git, struct err *e)
{
	struct err why;
	int fd = fs_open_beneath(from, dir, O_RDONLY | O_DIRECTORY, 0, &why), rc = 0, n = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	if (!d) {
		close_fd(&fd);
		return 0;
	}
	if (strcmp(dir, "."))
		rc = fs_mkdirs(git, dir, 0755, e);
	while (!rc && (ent = readdir(d)) && n < DIR_FILES) {
		auto_free char *name = strcmp(dir, ".") ? xasprintf("%s/%s", dir, ent->d_name) : xstrdup(ent->d_name);
		if (ent->d_name[0] == '.' || !str_has_prefix(ent->d_name, prefix) || ent->d_type == DT_DIR)
			continue;
		if (*prefix && fs_exists(git, name)) // named by their content
			continue;
		rc = *prefix ? copy_index(from, name, git, e) : copy_text(from, name, git, e);
		n++;
	}
	closedir(d);
	return rc;
}

int gitfiles_sharedindex(int from, int to, struct err *e)
{
	return copy_dir(from, ".", "sharedindex.", to, e);
}

static int copy_own(const char *name, const struct gitdir *g, int git, struct err *e)
{
	if (!strcmp(name, "index"))
		return copy_index(g->dir_fd, name, git, e) || gitfiles_sharedindex(g->dir_fd, git, e) ? -1 : 0;
	if (!strcmp(name, "config.worktree"))
		return 0; // became part of the config
	return str_has_prefix(name, "logs/") ? copy_log(g->dir_fd, name, git, e) : copy_text(g->dir_fd, name, git, e);
}

static int copy_shared(const char *name, const struct gitdir *g, int git, struct err *e)
{
	if (!strcmp(name, "config") || !strcmp(name, "packed-refs") || !strcmp(name, "objects/info/alternates") ||
	    !strcmp(name, "reftable/tables.list"))
		return 0; // made anew, or copied with their directory
	return str_has_prefix(name, "logs/") ? copy_log(g->common_fd, name, git, e)
					     : copy_text(g->common_fd, name, git, e);
}

// The tables are binary and immutable; the list that names them is replaced by rename.
static int copy_reftable(const struct gitdir *g, int git, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(1u << 20);
	int rc = gitdir_read(g->common_fd, "reftable/tables.list", &b, e);
	if (rc <= 0 || fs_mkdirs(git, "reftable", 0755, e))
		return rc < 0 ? -1 : err_set(e, ERR_INVALID, "the repository has no reftable/tables.list");
	struct str rest = str_of(buf_cstr(&b)), line;
	while (str_next(&rest, '\n', &line)) {
		auto_free char *name = xasprintf("reftable/%.*s", (int)line.n, line.p);
		if (line.n && (memchr(line.p, '/', line.n) || copy_index(g->common_fd, name, git, e)))
			return -1;
	}
	return fs_write(git, "reftable/tables.list", buf_cstr(&b), b.n, 0644, e);
}

int gitfiles_copy(const struct gitdir *g, int git, bool reftable, struct err *e)
{
	for (const char *const *f = gitdir_own_files; *f; f++)
		if (copy_own(*f, g, git, e))
			return -1;
	for (const char *const *f = gitdir_own_dirs; *f; f++)
		if (copy_dir(g->dir_fd, *f, "", git, e))
			return -1;
	for (const char *const *f = gitdir_shared_files; *f; f++)
		if (copy_shared(*f, g, git, e))
			return -1;
	return reftable ? copy_reftable(g, git, e) : 0;
}

int gitfiles_config(const struct gitdir *g, char *texts[2], struct err *e)
{
	auto_buf struct buf a = BUF_INIT(GITDIR_CONFIG), b = BUF_INIT(GITDIR_CONFIG);
	int one = gitdir_read(g->common_fd, "config", &a, e);
	int two = one < 0 ? -1 : gitdir_read(g->dir_fd, "config.worktree", &b, e);
	if (two < 0)
		return -1;
	texts[0] = one ? buf_take(&a) : NULL;
	texts[1] = two ? buf_take(&b) : NULL;
	return 0;
}

static void skip(struct gitlayer *l, const char *what, const char *why)
{
	auto_free char *s = xasprintf("%s: %s", what, why);
	strv_add(&l->skipped, s);
}

static bool is_shown(const struct gitdir *g, const struct gitlayer *l, const char *path)
{
	if (path_is_below(path, g->base))
		return true;
	for (char *const *a = l->allowed; a && *a; a++)
		if (path_is_below(path, *a))
			return true;
	return false;
}

static bool has(char *const *v, const char *s)
{
	for (; v && *v; v++)
		if (!strcmp(*v, s))
			return true;
	return false;
}

// What an object directory borrows from in turn, as paths on the host.
static void read_alternates(const char *objects, char ***out)
{
	struct err why;
	auto_buf struct buf b = BUF_INIT(64u << 10);
	auto_fd int fd = fs_open(AT_FDCWD, objects, O_RDONLY | O_DIRECTORY, 0, &why);
	if (fd < 0 || gitdir_read(fd, "info/alternates", &b, &why) <= 0)
		return;
	struct str rest = str_of(buf_cstr(&b)), line;
	while (str_next(&rest, '\n', &line)) {
		auto_free char *text = xstrndup(line.p, line.n), *real = NULL;
		if (line.n && line.p[0] != '#')
			real = gitdir_resolve(objects, text);
		if (real)
			strv_add(out, real);
	}
}

static void add_objects(const struct gitdir *g, struct gitlayer *l, const char *path, int depth, char ***seen,
			char ***places)
{
	char **next = NULL;
	if (has(*seen, path))
		return;
	strv_add(seen, path);
	if (strpbrk(path, "\t\n"))
		return skip(l, path, "a tab or a line end in the path, so its git objects can not be shown inside");
	if (l->n_mounts == GITLAYER_MOUNTS || depth > ALTERNATES_DEPTH)
		return skip(l, path, "too many places that objects are borrowed from");
	auto_free char *place = xasprintf("%s/%u", l->objects, l->n_mounts++),
		       *mount = xasprintf("%s\t%s", path, place);
	strv_add(&l->mounts, mount);
	strv_add(places, place);
	read_alternates(path, &next);
	if (next) { // it names places of the host, which git would look for inside
		auto_free char *mask = xasprintf("\t%s/info/alternates", place);
		strv_add(&l->mounts, mask);
	}
	for (char **n = next; n && *n; n++) {
		if (is_shown(g, l, *n) && gitobjects_is(*n))
			add_objects(g, l, *n, depth + 1, seen, places);
		else
			skip(l, *n,
			     is_shown(g, l, *n) ? "it holds other things than git objects, and is not shown"
						: "objects are borrowed from there, which is not allowed; to allow it: --alternates DIR");
	}
	strv_free(next);
}

int gitfiles_objects(const struct gitdir *g, struct gitlayer *l, char ***out_places, struct err *e)
{
	char **seen = NULL;
	auto_free char *own = xasprintf("%s/objects", g->common);
	if (l->n_mounts == GITLAYER_MOUNTS)
		return err_set(e, ERR_LIMIT, "%s has more than %d submodules and alternates", g->base, GITLAYER_MOUNTS);
	add_objects(g, l, own, 0, &seen, out_places);
	strv_free(seen);
	return 0;
}
