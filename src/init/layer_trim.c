// SPDX-License-Identifier: Apache-2.0
// What a setup leaves for others: only what the base does not have. A copy of a file that the base has too, or its
// deletion, would hide what becomes of that file later; a copy of .git would hide the repository's next state.
#include "base/fs.h"
#include "base/mem.h"
#include "init/layer_int.h"
#include "init/names.h"
#include "init/stack.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

static int open_sub(int dir, const char *name)
{
	return dir < 0 ? -1 : openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int trim_dir(int up, int base, int depth, struct err *e);

// Both have it. Opaque, it would hide the rest of the base's.
static int trim_sub(int up, int base, const char *name, int depth, struct err *e)
{
	auto_fd int u = entry_open_dir(up, name, e), b = open_sub(base, name);
	if (u < 0)
		return -1;
	if (b < 0) // there it is no directory, or one we may not look into
		return fs_remove_tree(up, name, e);
	if (fremovexattr(u, "user.overlay.opaque") && errno != ENODATA && errno != EOPNOTSUPP)
		return err_sys(e, "%s", name);
	if (trim_dir(u, b, depth + 1, e))
		return -1;
	return unlinkat(up, name, AT_REMOVEDIR) && errno != ENOTEMPTY && errno != EEXIST ? err_sys(e, "%s", name) : 0;
}

static int trim_name(int up, int base, const char *name, int depth, struct err *e)
{
	struct stat u, b;
	if (fstatat(up, name, &u, AT_SYMLINK_NOFOLLOW))
		return err_sys(e, "%s", name);
	if (!depth && !strcmp(name, ".git"))
		return fs_remove_tree(up, name, e);
	bool there = !fstatat(base, name, &b, AT_SYMLINK_NOFOLLOW);
	if (!there && (errno != ENOENT || S_ISDIR(u.st_mode)))
		return errno == ENOENT ? 0 : err_sys(e, "%s", name); // a directory of its own stays as it is
	if (there && S_ISDIR(u.st_mode))
		return trim_sub(up, base, name, depth, e);
	if (there || stack_is_whiteout(up, name, &u))
		return unlinkat(up, name, 0) ? err_sys(e, "%s", name) : 0;
	return 0;
}

static int trim_dir(int up, int base, int depth, struct err *e)
{
	auto_names struct names n = {0};
	if (depth > LAYER_DEPTH)
		return err_set(e, ERR_LIMIT, "more than %d directories below each other", LAYER_DEPTH);
	if (names_read(&n, up, 0, SIZE_MAX))
		return err_sys(e, "list a directory");
	for (size_t i = 0; i < n.n; i++)
		if (trim_name(up, base, n.list[i].name, depth, e))
			return -1;
	return 0;
}

int layer_trim(int layer, const char *base, struct err *e)
{
	auto_fd int ws = open_sub(layer, "ws");
	auto_fd int b = base ? fs_open(AT_FDCWD, base, O_RDONLY | O_DIRECTORY, 0, e) : -1;
	if (ws < 0)
		return errno == ENOENT ? 0 : err_sys(e, "ws");
	return b < 0 ? -1 : trim_dir(ws, b, 0, e);
}
