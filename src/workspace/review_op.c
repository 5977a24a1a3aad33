// SPDX-License-Identifier: Apache-2.0
// One step of a transaction, forward and back. Every name is relative to a directory opened beneath the top, through no
// link and no mount point. Nothing is ever overwritten: what a step displaces is looked at afterwards, and put back when
// it is not what the plan saw.
#include "workspace/review_txn.h"

#include "base/fault.h"
#include "base/fs.h"
#include "base/mem.h"
#include "workspace/review_copy.h"
#include "workspace/review_swap.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOLE_BLOCK (64u << 10)

struct names {
	int dir, temp_dir;
	const char *name, *temp;
};

int op_open_parent(int root, const char *path, const char **out_name, struct err *e)
{
	const char *slash = strrchr(path, '/');
	auto_free char *parent = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup(".");
	*out_name = slash ? slash + 1 : path;
	int fd = fs_open_beneath(root, parent, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	if (fd < 0 && (e->sys == ELOOP || e->sys == EXDEV || e->sys == ENOTDIR || e->sys == ENOENT))
		return err_set(e, ERR_CONFLICT, "%.200s: its directory is no plain directory on the host any more",
			       path);
	return fd;
}

static int names_open(struct txn_env *env, const struct op *op, struct names *n, struct err *e)
{
	n->temp_dir = -1;
	n->dir = op_open_parent(env->root, op->path, &n->name, e);
	if (n->dir >= 0 && op->temp)
		n->temp_dir = op_open_parent(env->root, op->temp, &n->temp, e);
	return n->dir < 0 || (op->temp && n->temp_dir < 0) ? -1 : 0;
}

static void names_close(struct names *n)
{
	close_fd(&n->dir);
	close_fd(&n->temp_dir);
}

enum match { IS_OLD, IS_NOW, IS_ABSENT, IS_FOREIGN };

// What stands at a name. Permissions count for what was there, so that no chmod of the host is undone unseen.
static int match(int dir, const char *name, const struct op *op, enum match *out, struct err *e)
{
	struct side s;
	auto_buf struct buf bytes = BUF_INIT(COPY_FILE_MAX);
	if (side_look(dir, name, &s, &bytes, e))
		return -1;
	bool plain = s.type == SIDE_FILE || s.type == SIDE_LINK;
	*out = s.type == SIDE_NONE			? IS_ABSENT
	       : plain && side_same(&s, &op->now)	? IS_NOW
	       : plain && side_same(&s, &op->old) &&
			       (s.type == SIDE_LINK || s.perm == op->old.perm) ? IS_OLD
									       : IS_FOREIGN;
	return 0;
}

static bool is_zero(const char *p, size_t n)
{
	return !*p && !memcmp(p, p + 1, n - 1);
}

// Blocks of zeros become holes: a file that is nearly empty inside must not fill the host's disk.
static int content_write(int fd, const char *p, size_t n, struct err *e)
{
	size_t end;
	for (size_t at = 0; at < n; at = end) {
		bool hole = n - at >= HOLE_BLOCK && is_zero(p + at, HOLE_BLOCK);
		for (end = at + HOLE_BLOCK; end < n && n - end >= HOLE_BLOCK && is_zero(p + end, HOLE_BLOCK) == hole;)
			end += HOLE_BLOCK;
		end = end < n ? end : n;
		if (hole && lseek(fd, (off_t)(end - at), SEEK_CUR) < 0)
			return err_sys(e, "leave a hole");
		if (!hole && fs_write_all(fd, p + at, end - at, e))
			return -1;
	}
	return n && ftruncate(fd, (off_t)n) ? err_sys(e, "length") : 0;
}

static int write_file(struct txn_env *env, int fd, const struct op *op, struct err *e)
{
	struct shadow_bytes object = {0};
	const char *p = op->bytes;
	size_t n = op->bytes_n;
	if (!p && shadow_read(env->shadow, op->now.oid, &object, e))
		return err_wrap(e, "%.200s", op->path);
	int rc = content_write(fd, p ? p : object.p, p ? n : object.n, e);
	if (object.object)
		shadow_bytes_done(&object);
	if (rc && e->kind == ERR_LIMIT)
		return err_set(e, ERR_LIMIT, "nothing was changed: no room for %.80s where it goes (%s). Make room and apply again, or skep apply --to DIR takes it elsewhere",
			       op->path, strerror(e->sys));
	return rc ? err_wrap(e, "write %.200s", op->path) : 0;
}

// Root writes on behalf of whoever owns the place.
static int give_away(const struct op *op, int dir, int fd, struct err *e)
{
	struct stat st;
	if (geteuid())
		return 0;
	bool file = op->old.type == SIDE_FILE;
	if (op->as_was)
		return fchown(fd, op->now.uid, op->now.gid) ? err_sys(e, "owner of %.200s", op->path) : 0;
	if (!file && fstat(dir, &st))
		return err_sys(e, "stat the directory of %.200s", op->path);
	uid_t uid = file ? op->old.uid : st.st_uid;
	gid_t gid = file ? op->old.gid : st.st_gid;
	return fchown(fd, uid, gid) ? err_sys(e, "owner of %.200s", op->path) : 0;
}

static int make_link(struct txn_env *env, int dir, const char *name, const struct op *op, struct err *e)
{
	struct shadow_bytes object = {0};
	if (!op->bytes && shadow_read(env->shadow, op->now.oid, &object, e))
		return -1;
	auto_free char *target = op->bytes ? xstrndup(op->bytes, op->bytes_n) : xstrndup(object.p, object.n);
	if (object.object)
		shadow_bytes_done(&object);
	return symlinkat(target, dir, name) ? err_sys(e, "make the link %.200s", op->path) : 0;
}

// The temporary file of a put. sync is the caller's where there are many.
int op_prepare(struct txn_env *env, struct op *op, struct err *e)
{
	const char *name;
	if (op->kind != OP_PUT)
		return 0;
	auto_fd int dir = op_open_parent(env->root, op->temp, &name, e);
	if (dir < 0)
		return -1;
	if (op->now.type == SIDE_LINK)
		return make_link(env, dir, name, op, e);
	auto_fd int fd = fs_open_beneath(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, e);
	if (fd < 0 && (e->sys == EACCES || e->sys == EPERM || e->sys == EROFS))
		return err_set(e, ERR_DENIED, "nothing was changed: you may not write where %.80s goes. skep apply --to DIR and skep export --patch FILE take it elsewhere", op->path);
	if (fd < 0)
		return err_wrap(e, "prepare %.200s", op->path);
	if (write_file(env, fd, op, e) || give_away(op, dir, fd, e))
		return -1;
	if (op->attrs) // before the mode: an ACL's mask stands in its group bits
		attrs_write(fd, op->attrs, op->attrs_n);
	if (fchmod(fd, op->now.perm))
		return err_sys(e, "mode of %.200s", op->path);
	return fault(FAULT_REVIEW_TEMP, e) ? -1 : 0;
}

static int host_moved(const struct op *op, struct err *e)
{
	return err_set(e, ERR_CONFLICT, "%.200s changed on the host meanwhile: look again", op->path);
}

static int exchange(const struct names *n, const struct op *op, struct err *e)
{
	if (!swap_exchange(n->temp_dir, n->temp, n->dir, n->name))
		return 0;
	if (errno == ENOENT)
		return host_moved(op, e);
	if (errno == EOPNOTSUPP)
		return err_set(e, ERR_UNSUPPORTED, "the file system of %.200s can neither exchange nor link names",
			       op->path);
	return err_sys(e, "replace %.200s", op->path);
}

static int move_free(int from_dir, const char *from, int dir, const char *name, const struct op *op, struct err *e)
{
	if (!swap_move(from_dir, from, dir, name))
		return 0;
	if (errno == EEXIST || errno == ENOTEMPTY || errno == ENOENT)
		return host_moved(op, e);
	if (errno == EOPNOTSUPP)
		return err_set(e, ERR_UNSUPPORTED, "the file system of %.200s can not keep a name from being replaced",
			       op->path);
	return err_sys(e, "name %.200s", op->path);
}

static int put_new(struct txn_env *env, const struct names *n, const struct op *op, struct err *e)
{
	enum match temp = IS_NOW;
	if (env->resume && match(n->temp_dir, n->temp, op, &temp, e))
		return -1;
	return temp == IS_ABSENT ? 0 : move_free(n->temp_dir, n->temp, n->dir, n->name, op, e);
}

static int settle(const struct names *n, const struct op *op, struct err *e)
{
	return swap_settle(n->temp_dir, n->temp) ? err_sys(e, "settle %.200s", op->temp) : 0;
}

static int put_over(struct txn_env *env, const struct names *n, const struct op *op, struct err *e)
{
	enum match temp = IS_NOW;
	if (env->resume && (settle(n, op, e) || match(n->temp_dir, n->temp, op, &temp, e)))
		return -1;
	if (temp == IS_OLD)
		return 0; // done before the crash
	if (temp == IS_ABSENT)
		return host_moved(op, e);
	if (temp == IS_NOW && exchange(n, op, e))
		return -1;
	// Now what was there has the temporary name, and nobody can take it from under this look.
	if (match(n->temp_dir, n->temp, op, &temp, e) || temp == IS_OLD)
		return temp == IS_OLD ? 0 : -1;
	struct err back;
	host_moved(op, e);
	return exchange(n, op, &back) ? err_wrap(e, "%s", back.msg) : -1;
}

static int move_aside(struct txn_env *env, const struct names *n, const struct op *op, struct err *e)
{
	enum match aside = IS_ABSENT;
	if (env->resume && match(n->temp_dir, n->temp, op, &aside, e))
		return -1;
	if (aside != IS_ABSENT && swap_is_half(n->temp_dir, n->temp, n->dir, n->name) && unlinkat(n->dir, n->name, 0))
		return err_sys(e, "move %.200s aside", op->path);
	if (aside == IS_ABSENT && move_free(n->dir, n->name, n->temp_dir, n->temp, op, e))
		return -1;
	if (match(n->temp_dir, n->temp, op, &aside, e) || aside == IS_OLD)
		return aside == IS_OLD ? 0 : -1;
	struct err back;
	host_moved(op, e);
	return move_free(n->temp_dir, n->temp, n->dir, n->name, op, &back) ? err_wrap(e, "%s", back.msg) : -1;
}

static int make_dir(const struct names *n, const struct op *op, uint32_t perm, struct err *e)
{
	struct stat st;
	if (mkdirat(n->dir, n->name, 0700)) {
		if (errno != EEXIST)
			return err_sys(e, "make the directory %.200s", op->path);
		if (fstatat(n->dir, n->name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(st.st_mode))
			return host_moved(op, e);
		return 0;
	}
	auto_fd int fd = fs_open_beneath(n->dir, n->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	if (fd < 0 || give_away(op, n->dir, fd, e))
		return -1;
	return fchmod(fd, perm ? perm : 0755) ? err_sys(e, "mode of %.200s", op->path) : 0;
}

static int remove_dir(const struct names *n, const struct op *op, struct err *e)
{
	if (!unlinkat(n->dir, n->name, AT_REMOVEDIR) || errno == ENOENT)
		return 0;
	if ((errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR) && !op->must)
		return 0; // the host put something there: it stays
	return errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR
		       ? host_moved(op, e)
		       : err_sys(e, "remove the directory %.200s", op->path);
}

int op_forward(struct txn_env *env, struct op *op, struct err *e)
{
	struct names n;
	int rc = names_open(env, op, &n, e);
	if (rc && op->kind == OP_RMDIR && !op->must && e->kind == ERR_CONFLICT)
		rc = 0; // its parent is gone too
	else if (!rc)
		switch (op->kind) {
		case OP_RM:
			rc = move_aside(env, &n, op, e);
			break;
		case OP_RMDIR:
			rc = remove_dir(&n, op, e);
			break;
		case OP_MKDIR:
			rc = make_dir(&n, op, op->now.perm, e);
			break;
		case OP_PUT:
			rc = op->old.type == SIDE_NONE ? put_new(env, &n, op, e) : put_over(env, &n, op, e);
		}
	names_close(&n);
	return rc || fault(FAULT_REVIEW_STEP, e) ? -1 : 0;
}

static void leave(struct txn_env *env, const struct op *op)
{
	if (!env->left)
		env->left = xstrdup(op->path);
}

static int back_put(struct txn_env *env, const struct names *n, const struct op *op, struct err *e)
{
	enum match temp, there;
	if (settle(n, op, e) || match(n->temp_dir, n->temp, op, &temp, e) || match(n->dir, n->name, op, &there, e))
		return -1;
	if (op->old.type == SIDE_NONE) {
		if (swap_is_half(n->temp_dir, n->temp, n->dir, n->name))
			return unlinkat(n->dir, n->name, 0) ? err_sys(e, "remove %.200s again", op->path) : 0;
		if (temp != IS_ABSENT || there == IS_ABSENT)
			return 0; // was not done
		if (there != IS_NOW) {
			leave(env, op);
			return 0;
		}
		return move_free(n->dir, n->name, n->temp_dir, n->temp, op, e);
	}
	if (temp == IS_NOW || temp == IS_ABSENT)
		return 0; // was not done
	if (there == IS_NOW)
		return exchange(n, op, e);
	if (there == IS_ABSENT)
		return move_free(n->temp_dir, n->temp, n->dir, n->name, op, e);
	leave(env, op);
	return 0;
}

static int back_rm(struct txn_env *env, const struct names *n, const struct op *op, struct err *e)
{
	enum match aside;
	if (match(n->temp_dir, n->temp, op, &aside, e))
		return -1;
	if (aside == IS_ABSENT || !move_free(n->temp_dir, n->temp, n->dir, n->name, op, e))
		return 0;
	if (e->kind != ERR_CONFLICT)
		return -1;
	leave(env, op);
	return 0;
}

int op_back(struct txn_env *env, struct op *op, struct err *e)
{
	struct names n;
	int rc = names_open(env, op, &n, e);
	if (rc && e->kind == ERR_CONFLICT)
		rc = 0; // its directory was not made, or the host has taken it away
	else if (!rc)
		switch (op->kind) {
		case OP_RM:
			rc = back_rm(env, &n, op, e);
			break;
		case OP_RMDIR:
			rc = make_dir(&n, op, op->old.perm, e);
			break;
		case OP_MKDIR:
			if (unlinkat(n.dir, n.name, AT_REMOVEDIR) && errno != ENOENT && errno != ENOTEMPTY &&
			    errno != ENOTDIR)
				rc = err_sys(e, "remove the directory %.200s", op->path);
			break;
		case OP_PUT:
			rc = back_put(env, &n, op, e);
		}
	names_close(&n);
	return rc || fault(FAULT_REVIEW_BACK, e) ? -1 : 0;
}

int op_clean(struct txn_env *env, struct op *op, bool uncommitted, struct err *e)
{
	const char *name;
	enum match temp;
	if (!op->temp)
		return 0;
	auto_fd int dir = op_open_parent(env->root, op->temp, &name, e);
	if (dir < 0)
		return e->kind == ERR_CONFLICT ? 0 : -1;
	if (swap_settle(dir, name))
		return err_sys(e, "settle %.200s", op->temp);
	if (match(dir, name, op, &temp, e))
		return -1;
	// Before the commit a file half written is ours; later a content that is neither is the host's own.
	if (temp == IS_FOREIGN && !uncommitted) {
		leave(env, op);
		return 0;
	}
	return unlinkat(dir, name, 0) && errno != ENOENT ? err_sys(e, "remove %.200s", op->temp) : 0;
}
