// SPDX-License-Identifier: Apache-2.0
#include "isolate/mounts.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

// <sys/mount.h> and <linux/mount.h> can not be had together in every libc: the few calls are made directly.
#define MNT_DETACH_FLAG 2
#define COPY_PATH 256 // directories deeper than this are not copied: each level holds descriptors

static int sys_mount(const char *src, const char *dst, const char *type, unsigned long flags, const char *data)
{
	return (int)syscall(SYS_mount, src, dst, type, flags, data);
}

static int sys_setattr(int fd, unsigned at, struct mount_attr *attr)
{
	return (int)syscall(SYS_mount_setattr, fd, "", at | AT_EMPTY_PATH, attr, sizeof *attr);
}

void plan_add(struct plan *p, enum mount_kind kind, const char *src, const char *dst, const char *data, unsigned flags)
{
	p->ops = xrealloc(p->ops, (p->n + 1) * sizeof *p->ops);
	p->ops[p->n++] = (struct mount_op){
		kind, src ? xstrdup(src) : NULL, xstrdup(dst), data ? xstrdup(data) : NULL, flags,
	};
}

void plan_done(struct plan *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->ops[i].src);
		free(p->ops[i].dst);
		free(p->ops[i].data);
	}
	free(p->ops);
	*p = (struct plan){0};
}

static const char *const kind_names[] = {"dir",	   "file",   "program", "link",   "copy",	  "bind", "node", "tmpfs",
					 "proc",   "devpts", "mqueue", "overlay", "mask", "read-only", "resize", "part", "detach"};
static_assert(countof(kind_names) == MOUNT_KINDS, "a name per kind");

void plan_print(const struct plan *p, struct buf *out)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct mount_op *op = &p->ops[i];
		buf_fmt(out, "%-9s %-28s", kind_names[op->kind], *op->dst ? op->dst : "/");
		if (op->src)
			buf_fmt(out, " from %s", op->src);
		if (op->data && op->kind != MOUNT_FILE)
			buf_fmt(out, " %s%s", op->kind == MOUNT_LINK ? "-> " : "", op->data);
		if (op->kind == MOUNT_BIND || op->kind == MOUNT_TMPFS)
			buf_fmt(out, " (%s%s%s,nosuid)", op->flags & MF_WRITE ? "rw" : "ro",
				op->flags & MF_DEV ? "" : ",nodev", op->flags & MF_NOEXEC ? ",noexec" : "");
		buf_byte(out, '\n');
	}
}

// --- targets ---

static int open_no_links(int dirfd, const char *name, int flags)
{
	struct open_how how = {.flags = (uint64_t)(flags | O_PATH | O_CLOEXEC | O_NOFOLLOW),
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
	return (int)syscall(SYS_openat2, dirfd, name, &how, sizeof how);
}

int mount_target(int root, const char *path, bool dir, struct err *e)
{
	int fd = open_no_links(root, *path ? path : ".", dir ? O_DIRECTORY : 0);
	if (fd >= 0)
		return fd;
	if (errno != ENOENT)
		return err_sys(e, "mount point %s", path);
	auto_fd int at = fcntl(root, F_DUPFD_CLOEXEC, 3);
	struct str rest = str_of(path), part;
	while (str_next(&rest, '/', &part)) {
		if (!part.n)
			continue;
		auto_free char *name = xstrndup(part.p, part.n);
		bool last = !rest.p;
		if (!last || dir) {
			if (mkdirat(at, name, 0755) && errno != EEXIST)
				return err_sys(e, "make mount point %s", path);
		} else if (mknodat(at, name, S_IFREG | 0444, 0) && errno != EEXIST) {
			return err_sys(e, "make mount point %s", path);
		}
		int next = open_no_links(at, name, !last || dir ? O_DIRECTORY : 0);
		if (next < 0)
			return err_sys(e, "mount point %s", path);
		close_fd(&at);
		at = next;
	}
	return take_fd(&at);
}

static void fd_path(int fd, char out[32])
{
	if (fmt_to(out, 32, "/proc/self/fd/%d", fd))
		abort();
}

// --- steps ---

int mount_private(struct err *e)
{
	return sys_mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) ? err_sys(e, "make mounts private") : 0;
}

int mount_clone(int dirfd, const char *path, bool recursive, struct err *e)
{
	unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0);
	int fd = (int)syscall(SYS_open_tree, dirfd, path, flags);
	return fd < 0 ? err_sys(e, "bind %s", path) : fd;
}

int mount_idmap(int tree, int userns, struct err *e)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)userns};
	return sys_setattr(tree, 0, &attr) ? err_sys(e, "map the owners of a mount") : 0;
}

int mount_move(int tree, int target, struct err *e)
{
	unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
	return syscall(SYS_move_mount, tree, "", target, "", flags) ? err_sys(e, "attach a mount") : 0;
}

static uint64_t attrs_of(unsigned flags)
{
	return MOUNT_ATTR_NOSUID | (flags & MF_WRITE ? 0 : MOUNT_ATTR_RDONLY) | (flags & MF_DEV ? 0 : MOUNT_ATTR_NODEV) |
	       (flags & MF_NOEXEC ? MOUNT_ATTR_NOEXEC : 0);
}

static int restrict_mount(int fd, unsigned flags, bool recursive, struct err *e)
{
	struct mount_attr attr = {.attr_set = attrs_of(flags)};
	return sys_setattr(fd, recursive ? AT_RECURSIVE : 0, &attr) ? err_sys(e, "restrict a mount") : 0;
}

int mount_seal(int target, struct err *e)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
	return sys_setattr(target, 0, &attr) ? err_sys(e, "make a mount read-only") : 0;
}

static int mount_at(const char *type, const char *src, const char *path, unsigned flags, const char *data, struct err *e)
{
	unsigned long ms = MS_NOSUID | (flags & MF_WRITE ? 0 : MS_RDONLY) | (flags & MF_DEV ? 0 : MS_NODEV) |
			   (flags & MF_NOEXEC ? MS_NOEXEC : 0);
	return sys_mount(src, path, type, ms, data) ? err_sys(e, "mount %s (%s)", type, data ? data : "") : 0;
}

static int mount_new(const char *type, const char *src, int target, unsigned flags, const char *data, struct err *e)
{
	char path[32];
	fd_path(target, path);
	return mount_at(type, src, path, flags, data, e);
}

int mount_tmpfs_at(int target, const char *options, struct err *e)
{
	return mount_new("tmpfs", "skep", target, MF_WRITE, options, e);
}

// Any change of a mounted file system's options, also an empty one, drops its unused names.
int mount_refresh(int root, const char *path, struct err *e)
{
	struct statfs fs;
	auto_fd int at = open_no_links(root, path, O_DIRECTORY);
	if (at < 0 || fstatfs(at, &fs))
		return err_sys(e, "refresh %s", path);
	if (fs.f_type != OVERLAYFS_SUPER_MAGIC)
		return 0;
	auto_fd int change = (int)syscall(SYS_fspick, at, "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH);
	if (change < 0 && errno == EINVAL) // a directory of another overlay
		return 0;
	if (change < 0 || syscall(SYS_fsconfig, change, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0))
		return err_sys(e, "refresh %s", path);
	return 0;
}

int mount_pivot(int newroot, struct err *e)
{
	if (fchdir(newroot))
		return err_sys(e, "enter the new root");
	// Both at ".": the old root lands on top of the new one and is detached from there, so no directory
	// for it has to exist.
	if (syscall(SYS_pivot_root, ".", "."))
		return err_sys(e, "pivot_root");
	if (syscall(SYS_umount2, ".", MNT_DETACH_FLAG))
		return err_sys(e, "detach the host's file tree");
	return chdir("/") ? err_sys(e, "chdir /") : 0;
}

// --- operations ---

static int op_bind(const struct mount_op *op, const struct mount_env *env, struct err *e)
{
	struct stat st;
	if (stat(op->src, &st)) {
		if (errno == ENOENT && op->flags & MF_OPTIONAL)
			return 0;
		return err_sys(e, "%s", op->src);
	}
	if (op->kind == MOUNT_NODE && !S_ISCHR(st.st_mode))
		return err_set(e, ERR_DENIED, "%s is not a character device", op->src);
	auto_fd int tree = mount_clone(AT_FDCWD, op->src, true, e);
	if (tree < 0)
		return -1;
	if (restrict_mount(tree, op->flags, true, e))
		return err_wrap(e, "%s", op->src);
	auto_fd int target = mount_target(env->root, op->dst, S_ISDIR(st.st_mode), e);
	return target < 0 ? -1 : mount_move(tree, target, e);
}

// Host configuration is shown as a copy: no other file system mounted on it gets in the way, nothing that is
// not readable by everybody comes along, and the copy belongs to the cell's own ids.
static int copy_bytes(int in, int to, const char *name, mode_t mode, struct err *e)
{
	auto_fd int out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (out < 0)
		return err_sys(e, "copy %s", name);
	char chunk[32768];
	ssize_t n;
	while ((n = read(in, chunk, sizeof chunk)) > 0)
		if (fs_write_all(out, chunk, (size_t)n, e))
			return -1;
	return n < 0 || fchmod(out, mode & 0755) ? err_sys(e, "copy %s", name) : 0;
}

static int copy_file(int from, int to, const char *name, const struct stat *st, struct err *e)
{
	auto_fd int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	return in < 0 ? 0 : copy_bytes(in, to, name, st->st_mode, e); // not for this user: then not for the cell either
}

static bool is_listed(const char *list, const char *name)
{
	struct str rest = str_of(list), part;
	while (str_next(&rest, ':', &part))
		if (str_is(part, name))
			return true;
	return false;
}

// below: what lies above `from` in the tree that is copied, "" or "name/"…; left_out has paths of that tree.
static int copy_readable(int from, int to, const char *left_out, const char *below, struct err *e)
{
	int dup = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = dup < 0 ? NULL : fdopendir(dup);
	if (!d)
		return err_sys(e, "list a directory");
	int rc = 0;
	struct dirent *ent;
	while (!rc && (ent = readdir(d))) {
		struct stat st;
		char link[4096];
		const char *name = ent->d_name;
		auto_free char *path = xasprintf("%s%s", below, name);
		if (!strcmp(name, ".") || !strcmp(name, "..") || is_listed(left_out, path) ||
		    fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (S_ISLNK(st.st_mode)) {
			ssize_t n = readlinkat(from, name, link, sizeof link - 1);
			link[n > 0 ? n : 0] = 0;
			if (n > 0 && symlinkat(link, to, name))
				rc = err_sys(e, "copy %s", name);
		} else if (S_ISREG(st.st_mode) && st.st_mode & 0004 && st.st_size < 16 << 20) {
			rc = copy_file(from, to, name, &st, e);
		} else if (S_ISDIR(st.st_mode) && (st.st_mode & 0005) == 0005 && strlen(path) < COPY_PATH) {
			auto_free char *deeper = xasprintf("%s/", path);
			auto_fd int sub = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			if (sub < 0)
				continue;
			auto_fd int into = mkdirat(to, name, 0755) ? -1 : openat(to, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			rc = into < 0 ? err_sys(e, "copy %s", name) : copy_readable(sub, into, left_out, deeper, e);
		}
	}
	closedir(d);
	return rc;
}

static int op_copy(const struct mount_op *op, const struct mount_env *env, struct err *e)
{
	auto_fd int from = open(op->src, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (from < 0)
		return op->flags & MF_OPTIONAL ? 0 : err_sys(e, "open %s", op->src);
	auto_fd int at = mount_target(env->root, op->dst, true, e);
	if (at < 0)
		return -1;
	auto_fd int to = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return to < 0 ? err_sys(e, "open %s", op->dst) : copy_readable(from, to, op->data ? op->data : "", "", e);
}

// Parent directory of dst below the root, and its last name.
static int parent_of(const struct mount_op *op, const struct mount_env *env, const char **out_name, struct err *e)
{
	const char *slash = strrchr(op->dst, '/');
	auto_free char *dir = slash ? xstrndup(op->dst, (size_t)(slash - op->dst)) : xstrdup("");
	*out_name = slash ? slash + 1 : op->dst;
	return mount_target(env->root, dir, true, e);
}

static int op_make(const struct mount_op *op, const struct mount_env *env, struct err *e)
{
	const char *name;
	auto_fd int dir = parent_of(op, env, &name, e);
	if (dir < 0)
		return -1;
	if (op->kind == MOUNT_LINK) {
		if (symlinkat(op->data, dir, name) && (errno != EEXIST || unlinkat(dir, name, 0) || symlinkat(op->data, dir, name)))
			return err_sys(e, "link %s", op->dst);
		return 0;
	}
	if (op->kind == MOUNT_FILE) {
		int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (op->flags & MF_OURS ? O_TRUNC : O_EXCL);
		auto_fd int fd = openat(dir, name, flags, 0644);
		if (fd < 0 && errno == EEXIST && !unlinkat(dir, name, 0))
			fd = openat(dir, name, flags, 0644);
		return fd < 0 ? err_sys(e, "write %s", op->dst) : fs_write_all(fd, op->data, strlen(op->data), e);
	}
	mode_t mode = (mode_t)strtoul(op->data ? op->data : "755", NULL, 8);
	if (mkdirat(dir, name, mode) && errno != EEXIST)
		return err_sys(e, "make %s", op->dst);
	return fchmodat(dir, name, mode, 0) ? err_sys(e, "chmod %s", op->dst) : 0; // past the umask
}

// In each directory it belongs to the cell's own ids, which the file it was copied from need not.
static int op_program(const struct mount_op *op, const struct mount_env *env, struct err *e)
{
	const char *name;
	auto_fd int in = fs_open(AT_FDCWD, op->src, O_RDONLY, 0, e), dir = in < 0 ? -1 : parent_of(op, env, &name, e);
	return dir < 0 ? -1 : copy_bytes(in, dir, name, 0755, e);
}

static int mask_own(const char *dst, struct err *e)
{
	auto_free char *path = xasprintf("/%s", dst);
	if (!sys_mount("/dev/null", path, NULL, MS_BIND, NULL) || errno == ENOENT)
		return 0;
	if (errno == ENOTDIR && !sys_mount("/mnt", path, NULL, MS_BIND, NULL)) // what is sealed stays sealed where it is bound
		return 0;
	return err_sys(e, "mask %s", dst);
}

static int op_mask(const struct mount_op *op, const struct mount_env *env, struct err *e)
{
	struct stat st;
	if (env->own_root)
		return mask_own(op->dst, e);
	auto_fd int target = open_no_links(env->root, op->dst, 0);
	if (target < 0)
		return errno == ENOENT ? 0 : err_sys(e, "mask %s", op->dst);
	if (fstat(target, &st))
		return err_sys(e, "mask %s", op->dst);
	// By the old call: there are two dozen masks in a cell, and it does in one what takes the new ones four.
	bool dir = S_ISDIR(st.st_mode);
	char src[32], dst[32];
	fd_path(dir ? env->empty_dir : env->null_file, src);
	fd_path(target, dst);
	if (sys_mount(src, dst, NULL, MS_BIND, NULL))
		return err_sys(e, "mask %s", op->dst);
	auto_fd int top = dir ? open_no_links(env->root, op->dst, 0) : -1;
	return dir && (top < 0 || restrict_mount(top, 0, false, e)) ? err_wrap(e, "mask %s", op->dst) : 0;
}

static int op_rdonly(const struct mount_op *op, const struct mount_env *env, struct err *e)
{
	auto_fd int target = open_no_links(env->root, op->dst, 0);
	if (target < 0)
		return errno == ENOENT ? 0 : err_sys(e, "protect %s", op->dst);
	auto_fd int tree = mount_clone(target, "", true, e);
	if (tree < 0 || restrict_mount(tree, MF_NOEXEC, true, e) || mount_move(tree, target, e))
		return err_wrap(e, "protect %s", op->dst);
	return 0;
}

static int op_resize(const struct mount_op *op, const struct mount_env *env, struct err *e)
{
	char path[32];
	auto_fd int target = mount_target(env->root, op->dst, true, e);
	if (target < 0)
		return -1;
	fd_path(target, path);
	unsigned long ms = MS_REMOUNT | MS_NOSUID | MS_NODEV | (op->flags & MF_NOEXEC ? MS_NOEXEC : 0);
	return sys_mount(NULL, path, NULL, ms, op->data) ? err_sys(e, "resize %s", op->dst) : 0;
}

// A sealed layer need not have every part: a name that is not there is left out, the last one, which is the base, never.
static char *present_lowers(const char *options)
{
	auto_buf struct buf out = BUF_INIT(4096);
	const char *list = options + strlen("lowerdir="), *end = list + strcspn(list, ",");
	struct str rest = {list, (size_t)(end - list)}, part;
	struct stat st;
	buf_str(&out, "lowerdir=");
	while (str_next(&rest, ':', &part)) {
		auto_free char *name = xstrndup(part.p, part.n);
		bool last = part.p + part.n == end;
		if (!last && lstat(name, &st) && errno == ENOENT)
			continue;
		buf_fmt(&out, "%s%s", name, last ? "" : ":");
	}
	buf_str(&out, end);
	return buf_take(&out);
}

static int op_overlay(const struct mount_op *op, const struct mount_env *env, struct err *e)
{
	auto_fd int target = mount_target(env->root, op->dst, true, e);
	if (target < 0) // the sandbox itself may have put a file or a link in the way of what it can do without
		return op->flags & MF_OPTIONAL && (e->sys == ELOOP || e->sys == ENOTDIR) ? 0 : -1;
	// Names in the options are relative, so that mountinfo inside shows none of the host's paths.
	auto_fd int back = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (back < 0 || chdir(op->src))
		return err_sys(e, "enter %s", op->src);
	auto_free char *options = present_lowers(op->data);
	int rc = mount_new("overlay", "skep", target, op->flags, options, e);
	if (fchdir(back))
		return err_sys(e, "leave %s", op->src);
	return rc ? err_wrap(e, "%s", op->dst) : 0;
}

// By descriptors alone: where the first /proc is mounted there is no /proc/self/fd yet.
static int op_proc(const struct mount_op *op, const struct mount_env *env, struct err *e)
{
	auto_fd int target = mount_target(env->root, op->dst, true, e);
	if (target < 0)
		return -1;
	auto_fd int fs = (int)syscall(SYS_fsopen, "proc", FSOPEN_CLOEXEC);
	if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "source", "skep", 0) ||
	    syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		return err_sys(e, "mount proc");
	auto_fd int tree = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attrs_of(MF_WRITE | MF_NOEXEC));
	return tree < 0 ? err_sys(e, "mount proc") : mount_move(tree, target, e);
}

// Flags are those of the mount it is a part of, but for what is said to be tighter.
static int op_part(const struct mount_op *op, const struct mount_env *env, struct err *e)
{
	auto_fd int from = open_no_links(env->root, op->src, O_DIRECTORY);
	if (from < 0)
		return err_sys(e, "%s", op->src);
	auto_fd int tree = mount_clone(from, "", false, e);
	if (tree < 0 || (op->flags & MF_NOEXEC && restrict_mount(tree, op->flags, false, e)))
		return err_wrap(e, "%s", op->src);
	auto_fd int target = mount_target(env->root, op->dst, true, e);
	return target < 0 ? -1 : mount_move(tree, target, e);
}

static int op_detach(const struct mount_op *op, const struct mount_env *env, struct err *e)
{
	char path[32];
	auto_fd int target = open_no_links(env->root, op->dst, O_DIRECTORY);
	if (target < 0)
		return err_sys(e, "detach %s", op->dst);
	fd_path(target, path);
	return syscall(SYS_umount2, path, MNT_DETACH_FLAG) ? err_sys(e, "detach %s", op->dst) : 0;
}

static int op_fs(const struct mount_op *op, const struct mount_env *env, struct err *e)
{
	static const struct {
		const char *type;
		unsigned flags;
	} types[MOUNT_KINDS] = {
		[MOUNT_TMPFS] = {"tmpfs", 0},
		[MOUNT_DEVPTS] = {"devpts", MF_WRITE | MF_NOEXEC | MF_DEV},
		[MOUNT_MQUEUE] = {"mqueue", MF_WRITE | MF_NOEXEC},
	};
	unsigned flags = op->flags | types[op->kind].flags;
	auto_free char *path = env->own_root ? xasprintf("/%s", op->dst) : NULL;
	auto_fd int target = path ? -1 : mount_target(env->root, op->dst, true, e);
	if (!path && target < 0)
		return -1;
	int rc = path ? mount_at(types[op->kind].type, "skep", path, flags, op->data, e)
		      : mount_new(types[op->kind].type, "skep", target, flags, op->data, e);
	return rc ? err_wrap(e, "/%s", op->dst) : 0;
}

int plan_apply(const struct plan *p, const struct mount_env *env, struct err *e)
{
	static int (*const apply[MOUNT_KINDS])(const struct mount_op *, const struct mount_env *, struct err *) = {
		[MOUNT_DIR] = op_make,	  [MOUNT_FILE] = op_make,   [MOUNT_LINK] = op_make,	[MOUNT_COPY] = op_copy,
		[MOUNT_BIND] = op_bind,	  [MOUNT_NODE] = op_bind,   [MOUNT_TMPFS] = op_fs,	[MOUNT_PROC] = op_proc,
		[MOUNT_DEVPTS] = op_fs,	  [MOUNT_MQUEUE] = op_fs,   [MOUNT_OVERLAY] = op_overlay, [MOUNT_MASK] = op_mask,
		[MOUNT_RDONLY] = op_rdonly, [MOUNT_RESIZE] = op_resize, [MOUNT_PART] = op_part,
		[MOUNT_DETACH] = op_detach, [MOUNT_PROGRAM] = op_program,
	};
	for (size_t i = 0; i < p->n; i++)
		if (apply[p->ops[i].kind](&p->ops[i], env, e))
			return -1;
	return 0;
}
