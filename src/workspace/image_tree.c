// SPDX-License-Identifier: Apache-2.0
#include "workspace/image_tree.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/limits.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define LOOK_EVERY (64ULL << 20) // bytes between two looks at the free space
#define ENTRY_COST (16ULL << 10) // what an entry counts for there: many small files fill a disk as well

int image_tree_open(struct image_tree *t, const char *into, struct err *e)
{
	*t = (struct image_tree){.root = -1, .parent = -1, .parent_path = BUF_INIT(IMAGE_PATH)};
	t->keep_owners = geteuid() == 0;
	t->unchecked = LOOK_EVERY;
	if (mkdir(into, 0755))
		return errno == EEXIST ? err_set(e, ERR_CONFLICT, "%s exists already", into)
				       : err_sys(e, "mkdir %s", into);
	t->root = fs_open(AT_FDCWD, into, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	return t->root < 0 ? -1 : 0;
}

void image_tree_close(struct image_tree *t)
{
	close_fd(&t->root);
	close_fd(&t->parent);
	buf_done(&t->parent_path);
	image_dirs_done(&t->dirs);
	image_seen_clear(&t->seen);
}

const char *image_show(const char *name, char out[200])
{
	size_t n = 0;
	for (; name[n] && n < 190; n++)
		out[n] = (unsigned char)name[n] < 0x20 || name[n] == 0x7f ? '?' : name[n];
	n = str_utf8_whole(out, n);
	out[n] = 0;
	return out;
}

static int refused(const char *raw, const char *why, struct err *e)
{
	char shown[200];
	return err_set(e, ERR_INVALID, "entry \"%s\" refused: %s", image_show(raw, shown), why);
}

int image_path(const char *raw, char out[IMAGE_PATH], struct err *e)
{
	if (!raw || !*raw)
		return refused("", "it has no name", e);
	if (strlen(raw) >= IMAGE_PATH)
		return refused(raw, "its name is too long", e);
	struct str rest = str_of(raw), part;
	size_t n = 0, depth = 0;
	while (str_next(&rest, '/', &part)) {
		if (!part.n || str_is(part, "."))
			continue;
		if (str_is(part, ".."))
			return refused(raw, "\"..\" in its name", e);
		if (part.n > 255 || ++depth > IMAGE_DEPTH)
			return refused(raw, part.n > 255 ? "its name is too long" : "it lies too deep", e);
		if (n)
			out[n++] = '/';
		memcpy(out + n, part.p, part.n);
		n += part.n;
	}
	out[n] = 0;
	return 0;
}

static int look_at_space(struct image_tree *t, struct err *e)
{
	struct statvfs v;
	t->unchecked = 0;
	if (fstatvfs(t->root, &v))
		return err_sys(e, "look at free space");
	if ((uint64_t)v.f_bavail * v.f_frsize < LIMIT_HOST_RESERVE)
		return err_set(e, ERR_LIMIT, "stopped: less than %llu MiB are left on the disk",
			       LIMIT_HOST_RESERVE >> 20);
	return 0;
}

int image_tree_charge(struct image_tree *t, uint64_t bytes, struct err *e)
{
	if (bytes > IMAGE_BYTES || t->made.bytes > IMAGE_BYTES - bytes)
		return err_set(e, ERR_LIMIT, "the image is larger than %llu GiB", IMAGE_BYTES >> 30);
	t->made.bytes += bytes;
	t->unchecked += bytes;
	return t->unchecked >= LOOK_EVERY ? look_at_space(t, e) : 0;
}

static int count_entry(struct image_tree *t, struct err *e)
{
	if (++t->entries > IMAGE_ENTRIES)
		return err_set(e, ERR_LIMIT, "the image has more than %llu entries", IMAGE_ENTRIES);
	t->unchecked += ENTRY_COST;
	return t->unchecked >= LOOK_EVERY ? look_at_space(t, e) : 0;
}

// A directory by its normal path. A link or a file on the way is the image's fault, and said so.
static int open_dir(int at, const char *path, const char *entry, struct err *e)
{
	int fd = fs_open_beneath(at, *path ? path : ".", O_PATH | O_DIRECTORY, 0, e);
	if (fd < 0 && (e->sys == ELOOP || e->sys == ENOTDIR || e->sys == EXDEV))
		return refused(entry, "a directory on its way is a link or a file", e);
	return fd;
}

// Walks to a directory and makes what is missing on the way.
static int make_dirs(struct image_tree *t, const char *path, const char *entry, struct err *e)
{
	struct str rest = str_of(path), part;
	auto_fd int at = open_dir(t->root, "", entry, e);
	while (at >= 0 && str_next(&rest, '/', &part)) {
		auto_free char *name = xstrndup(part.p, part.n);
		auto_free char *whole = xstrndup(path, (size_t)(part.p - path) + part.n);
		if (mkdirat(at, name, 0755) == 0) {
			const struct image_meta plain = {.mode = 0755};
			if (count_entry(t, e) || image_dirs_add(&t->dirs, whole, &plain, e))
				return -1;
		} else if (errno != EEXIST) {
			return err_sys(e, "mkdir %s", name);
		}
		int next = open_dir(at, name, entry, e);
		close_fd(&at);
		at = next;
	}
	return take_fd(&at);
}

static void forget_parent(struct image_tree *t)
{
	close_fd(&t->parent);
	t->has_parent = false;
}

// The directory an entry lies in, kept for the next one: borrowed. *out_name: the entry's name in it.
static int parent_of(struct image_tree *t, const char *path, const char **out_name, struct err *e)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;
	*out_name = slash ? slash + 1 : path;
	if (t->has_parent && t->parent_path.n == n && !memcmp(buf_cstr(&t->parent_path), path, n))
		return t->parent;
	auto_free char *dir = xstrndup(path, n);
	forget_parent(t);
	t->parent = open_dir(t->root, dir, path, e);
	if (t->parent < 0 && e->sys == ENOENT)
		t->parent = make_dirs(t, dir, path, e);
	if (t->parent < 0)
		return -1;
	buf_clear(&t->parent_path);
	buf_add(&t->parent_path, dir, n);
	t->has_parent = true;
	return t->parent;
}

// Start of every entry below the root: counted, and its directory found.
static int begin(struct image_tree *t, const char *path, const char **out_name, struct err *e)
{
	if (!*path)
		return refused("/", "the root is not a directory", e);
	if (count_entry(t, e))
		return -1;
	int dir = parent_of(t, path, out_name, e);
	if (dir >= 0 && t->layered)
		image_seen_add(&t->seen, path);
	return dir;
}

// The same, and what stands there is gone.
static int make_room(struct image_tree *t, const char *path, const char **out_name, struct err *e)
{
	int dir = begin(t, path, out_name, e);
	return dir < 0 || fs_remove_tree(dir, *out_name, e) ? -1 : dir;
}

int image_tree_dir(struct image_tree *t, const char *path, const struct image_meta *m, struct err *e)
{
	const char *name;
	struct stat st;
	if (!*path)
		return image_dirs_add(&t->dirs, path, m, e);
	int dir = begin(t, path, &name, e);
	if (dir < 0)
		return -1;
	bool there = !fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW);
	if (there && !S_ISDIR(st.st_mode)) {
		if (unlinkat(dir, name, 0))
			return err_sys(e, "replace %s", name);
		there = false;
	}
	if (!there && mkdirat(dir, name, 0755))
		return err_sys(e, "mkdir %s", name);
	t->made.files += !there;
	return image_dirs_add(&t->dirs, path, m, e);
}

int image_tree_file(struct image_tree *t, const char *path, struct err *e)
{
	const char *name;
	int dir = make_room(t, path, &name, e);
	if (dir < 0)
		return -1;
	int fd = fs_open_beneath(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, e);
	t->made.files += fd >= 0;
	return fd;
}

int image_tree_file_end(struct image_tree *t, int fd, const struct image_meta *m, struct err *e)
{
	const struct timespec times[2] = {m->mtime, m->mtime};
	if (t->keep_owners && fchown(fd, image_owner(m->uid), image_owner(m->gid)))
		return err_sys(e, "set owner");
	if (fchmod(fd, m->mode & 0777) || futimens(fd, times))
		return err_sys(e, "set mode and time");
	return 0;
}

int image_tree_symlink(struct image_tree *t, const char *path, const char *target, const struct image_meta *m,
		       struct err *e)
{
	const char *name;
	const struct timespec times[2] = {m->mtime, m->mtime};
	if (!target || !*target || strlen(target) >= IMAGE_PATH - 1)
		return refused(path, "its target is empty or too long", e);
	int dir = make_room(t, path, &name, e);
	if (dir < 0)
		return -1;
	if (symlinkat(target, dir, name))
		return err_sys(e, "make link %s", name);
	t->made.files++;
	if (t->keep_owners && fchownat(dir, name, image_owner(m->uid), image_owner(m->gid), AT_SYMLINK_NOFOLLOW))
		return err_sys(e, "set owner of %s", name);
	return utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) ? err_sys(e, "set time of %s", name) : 0;
}

// A hard link joins what is there already: a file or link beneath the root, reached through no link.
int image_tree_link(struct image_tree *t, const char *path, const char *target, struct err *e)
{
	const char *name, *base = strrchr(target, '/');
	struct stat st;
	auto_free char *from_dir = xstrndup(target, base ? (size_t)(base - target) : 0);
	base = base ? base + 1 : target;
	auto_fd int from = *target ? open_dir(t->root, from_dir, path, e) : -1;
	if (from < 0 || fstatat(from, base, &st, AT_SYMLINK_NOFOLLOW) || S_ISDIR(st.st_mode))
		return refused(path, "it is a hard link to what is not in the image", e);
	if (!strcmp(path, target))
		return 0;
	int dir = make_room(t, path, &name, e);
	if (dir < 0)
		return -1;
	if (linkat(from, base, dir, name, 0))
		return errno == ENOENT ? refused(path, "it is a hard link into what it replaces", e)
				       : err_sys(e, "link %s", name);
	t->made.files++;
	return 0;
}

int image_tree_skip(struct image_tree *t, struct err *e)
{
	t->made.skipped++;
	return count_entry(t, e);
}

void image_tree_layer(struct image_tree *t)
{
	image_seen_clear(&t->seen);
	t->layered = true;
}

int image_tree_whiteout(struct image_tree *t, const char *path, struct err *e)
{
	const char *name;
	if (image_seen_has(&t->seen, path))
		return 0;
	if (count_entry(t, e))
		return -1;
	int dir = parent_of(t, path, &name, e);
	return dir < 0 ? -1 : fs_remove_tree(dir, name, e);
}

static int clear_dir(struct image_tree *t, int dirfd, struct buf *path, struct err *e);

static int clear_entry(struct image_tree *t, int dirfd, const char *name, struct buf *path, struct err *e)
{
	struct stat st;
	if (path->overflow)
		return err_set(e, ERR_LIMIT, "a path is too long");
	if (!image_seen_has(&t->seen, path->p))
		return fs_remove_tree(dirfd, name, e);
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW))
		return err_sys(e, "stat %s", name);
	if (!S_ISDIR(st.st_mode))
		return 0;
	int fd = fs_open_beneath(dirfd, name, O_RDONLY | O_DIRECTORY, 0, e);
	return fd < 0 ? -1 : clear_dir(t, fd, path, e);
}

// Removes from a directory what this layer did not bring. Takes dirfd; path: the directory's own, restored.
static int clear_dir(struct image_tree *t, int dirfd, struct buf *path, struct err *e)
{
	size_t keep = path->n;
	struct dirent *ent;
	int rc = 0;
	DIR *d = fdopendir(dirfd);
	if (!d) {
		close(dirfd);
		return err_sys(e, "list a directory");
	}
	while (!rc && (ent = readdir(d))) {
		if (!strcmp(ent->d_name, ".") || !strcmp(ent->d_name, ".."))
			continue;
		path->n = keep;
		buf_fmt(path, "%s%s", keep ? "/" : "", ent->d_name);
		rc = clear_entry(t, dirfd, ent->d_name, path, e);
	}
	path->n = keep;
	closedir(d);
	return rc;
}

int image_tree_opaque(struct image_tree *t, const char *path, struct err *e)
{
	auto_buf struct buf at = BUF_INIT(2 * IMAGE_PATH);
	struct err why;
	auto_fd int fd = fs_open_beneath(t->root, *path ? path : ".", O_RDONLY | O_DIRECTORY, 0, &why);
	if (fd < 0 && (why.sys == ENOENT || why.sys == ENOTDIR || why.sys == ELOOP))
		return 0; // nothing of an earlier layer is seen through it
	if (fd < 0) {
		*e = why;
		return -1;
	}
	forget_parent(t);
	buf_str(&at, path);
	return count_entry(t, e) ? -1 : clear_dir(t, take_fd(&fd), &at, e);
}

// What a cell mounts over. A link here would let the image choose where (THREATS T-011).
static int need_dir(struct image_tree *t, const char *name, mode_t mode, struct err *e)
{
	struct stat st;
	const struct image_meta m = {.mode = mode};
	bool there = !fstatat(t->root, name, &st, AT_SYMLINK_NOFOLLOW);
	if (there && !S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, "the image has /%s as a %s: it must be a directory", name,
			       S_ISLNK(st.st_mode) ? "symbolic link" : "file");
	if (there)
		return 0;
	return mkdirat(t->root, name, 0755) ? err_sys(e, "mkdir %s", name) : image_dirs_add(&t->dirs, name, &m, e);
}

int image_tree_finish(struct image_tree *t, struct err *e)
{
	static const struct {
		const char *name;
		mode_t mode;
	} needs[] = {
		{"proc", 0555}, {"dev", 0755}, {"tmp", 01777}, {"run", 0755}, {"home", 0755}, {"root", 0700},
		{"etc", 0755},
	};
	forget_parent(t);
	for (size_t i = 0; i < countof(needs); i++)
		if (need_dir(t, needs[i].name, needs[i].mode, e))
			return -1;
	return image_dirs_apply(&t->dirs, t->root, t->keep_owners, e);
}
