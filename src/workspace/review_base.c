// SPDX-License-Identifier: Apache-2.0
#include "workspace/review_base.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/mem.h"
#include "workspace/pin.h"
#include "workspace/review_shadow.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>

static int make(const char *shadow, struct err *e)
{
	static const char *const dirs[] = {"objects/info", "objects/pack", "refs/skep", "skep"};
	if (fs_mkdirs(AT_FDCWD, shadow, 0700, e))
		return -1;
	auto_fd int dir = fs_open(AT_FDCWD, shadow, O_RDONLY | O_DIRECTORY, 0, e);
	for (size_t i = 0; dir >= 0 && i < countof(dirs); i++)
		if (fs_mkdirs(dir, dirs[i], 0700, e))
			return -1;
	if (dir < 0 || fs_exists(dir, "HEAD"))
		return dir < 0 ? -1 : 0;
	return fs_replace(dir, "HEAD", "ref: refs/heads/none\n", 21, 0600, e);
}

// What was pinned, else an empty tree.
static int name_base(struct shadow *s, struct err *e)
{
	uint8_t oid[SHADOW_OID];
	auto_buf struct buf b = BUF_INIT(4096);
	if (!fs_read(shadow_dir(s), PIN_REF, &b, e))
		return shadow_unhex(buf_cstr(&b), oid) ? err_set(e, ERR_SYSTEM, "the pinned base has no object id") : shadow_base_set(s, oid, e);
	if (e->sys != ENOENT)
		return -1;
	return shadow_empty_tree(s, oid, e) || shadow_base_set(s, oid, e) ? -1 : 0;
}

int review_base_ensure(const char *shadow, struct err *e)
{
	struct shadow *s;
	uint8_t oid[SHADOW_OID];
	if (make(shadow, e) || shadow_open(shadow, &s, e))
		return -1;
	int rc = 0;
	if (!fs_exists(shadow_dir(s), "refs/skep/p"))
		rc = name_base(s, e);
	else
		rc = shadow_base(s, oid, e); // a base that can not be read is said now, not half way
	shadow_close(s);
	return rc;
}
