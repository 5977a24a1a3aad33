// SPDX-License-Identifier: Apache-2.0
#include "workspace/review_base.h"

#include "base/buf.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "workspace/pin.h"
#include "workspace/review_shadow.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define T0_FILE "skep/t0"

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
	// a base that can not be read is said now, not half way; one whose objects are gone is judged as such
	int rc = shadow_base(s, oid, e);
	shadow_close(s);
	return rc && e->kind == ERR_NOT_FOUND ? 0 : rc;
}

void review_base_t0(int shadow, int64_t *t0_ns)
{
	struct err none;
	uint64_t n;
	auto_buf struct buf b = BUF_INIT(64);
	if (fs_read(shadow, T0_FILE, &b, &none))
		return;
	struct str s = str_of(buf_cstr(&b));
	while (s.n && s.p[s.n - 1] == '\n')
		s.n--;
	if (!str_to_u64(s, 0, INT64_MAX, &n))
		*t0_ns = (int64_t)n;
}

// Objects never change: a second name for each is a copy. Those that are here already are the same ones.
static int link_files(int from, int to, struct err *e)
{
	int copy = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *ent;
	if (!d) {
		close_fd(&copy);
		return err_sys(e, "list objects");
	}
	while (!rc && (ent = readdir(d)))
		if (ent->d_name[0] != '.' && ent->d_type == DT_REG && linkat(from, ent->d_name, to, ent->d_name, 0) && errno != EEXIST && errno != ENOENT)
			rc = err_sys(e, "objects/%s", ent->d_name);
	closedir(d);
	return rc;
}

static int link_dir(int from, int to, const char *name, struct err *e)
{
	if (fs_mkdirs(to, name, 0700, e))
		return -1;
	auto_fd int a = fs_open(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	auto_fd int b = a < 0 ? -1 : fs_open(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	return b < 0 ? -1 : link_files(a, b, e);
}

static int link_objects(int from, int to, struct err *e)
{
	for (int i = 0; i < 256; i++) {
		char name[16];
		if (fmt_to(name, sizeof name, "objects/%02x", i))
			return err_set(e, ERR_BUG, "name of a directory");
		if (fs_exists(from, name) && link_dir(from, to, name, e))
			return -1;
	}
	return fs_exists(from, "objects/pack") ? link_dir(from, to, "objects/pack", e) : 0;
}

static int copy_file(int from, int to, const char *name, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(1 << 20);
	if (!fs_exists(from, name) || fs_exists(to, name))
		return 0;
	return fs_read(from, name, &b, e) || fs_replace(to, name, b.p, b.n, 0600, e) ? -1 : 0;
}

static int say_t0(int to, int64_t t0_ns, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(64);
	buf_fmt(&b, "%lld\n", (long long)t0_ns);
	return fs_exists(to, T0_FILE) ? 0 : fs_replace(to, T0_FILE, b.p, b.n, 0600, e);
}

static int take_over(const char *from, int to, int64_t t0_ns, struct err *e)
{
	static const char *const files[] = {"objects/info/alternates", PIN_REF, PIN_MANIFEST_REF, T0_FILE};
	auto_fd int dir = fs_open(AT_FDCWD, from, O_RDONLY | O_DIRECTORY, 0, e);
	if (dir < 0)
		return e->sys == ENOENT ? 0 : -1;
	if (link_objects(dir, to, e) || fault(FAULT_REVIEW_INHERIT, e))
		return -1;
	for (size_t i = 0; i < countof(files); i++)
		if (copy_file(dir, to, files[i], e))
			return -1;
	return say_t0(to, t0_ns, e);
}

static int set_base(struct shadow *s, const char *tree, char out_hex[41], struct err *e)
{
	uint8_t oid[SHADOW_OID];
	if (!strcmp(tree, "-") ? name_base(s, e)
			       : shadow_unhex(tree, oid) ? err_set(e, ERR_INVALID, "%.60s is no object id", tree) : shadow_base_set(s, oid, e))
		return -1;
	if (shadow_base(s, oid, e))
		return err_wrap(e, "what the base was is lost");
	shadow_hex(oid, out_hex);
	return 0;
}

int review_base_inherit(const char *from, const char *shadow, const char *tree, int64_t t0_ns, char out_hex[41], struct err *e)
{
	struct shadow *s;
	if (make(shadow, e))
		return -1;
	auto_fd int to = fs_open(AT_FDCWD, shadow, O_RDONLY | O_DIRECTORY, 0, e);
	if (to < 0 || (strcmp(from, shadow) && take_over(from, to, t0_ns, e)) || shadow_open(shadow, &s, e))
		return -1;
	int rc = set_base(s, tree, out_hex, e);
	shadow_close(s);
	return rc;
}
