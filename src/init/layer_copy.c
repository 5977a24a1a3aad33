// SPDX-License-Identifier: Apache-2.0
// A copy of a layer, which may be in use, sharing with an earlier copy what did not change since.
#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "init/layer_int.h"
#include "init/names.h"
#include "init/stack.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SMALL (64 << 10)    // bytes; smaller files are compared rather than written out
#define TICK_NS 50000000u // no kernel's clock for files is coarser

struct copy {
	int to, like; // layers; like -1: none
	struct seen_map links;	 // files with several names, as they were met
	struct seen_map earlier; // what `like` was made of
	struct manifest manifest;
	struct buf path; // below the layer
	struct layer_result *r;
};

// File systems where a store through a shared mapping sets the change time.
static bool tells_changes(int dir)
{
	static const unsigned long types[] = {0xEF53, 0x58465342, 0x9123683E, 0xF2F52010}; // ext, xfs, btrfs, f2fs
	struct statfs fs;
	for (size_t i = 0; !fstatfs(dir, &fs) && i < countof(types); i++)
		if ((unsigned long)fs.f_type == types[i])
			return true;
	return false;
}

static void path_push(struct copy *c, const char *name)
{
	if (c->path.n)
		buf_byte(&c->path, '/');
	buf_str(&c->path, name);
}

static void path_cut(struct copy *c, size_t len)
{
	c->path.n = len;
	c->path.p[len] = 0;
}

static void count(struct copy *c, int dir, const char *name, const struct stat *st)
{
	if (stack_is_whiteout(dir, name, st))
		return;
	c->r->bytes += (uint64_t)st->st_blocks * 512;
	c->r->files++;
}

// --- what did not change ---

static const struct seen *unchanged(const struct copy *c, int from, const char *name, const struct stat *st)
{
	const struct seen *s = c->like >= 0 && S_ISREG(st->st_mode) ? seen_find(&c->earlier, st->st_ino) : NULL;
	if (!s || s->ctime_ns != entry_ctime(st) || s->size != (uint64_t)st->st_size)
		return NULL;
	return s->flushed || entry_same_bytes(from, name, c->like, s->path) ? s : NULL;
}

// Before it is copied: from now on a store through a mapping is noticed.
static bool flush(int from, const char *name)
{
	auto_fd int fd = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	return fd >= 0 && !sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
}

static bool is_settled(const struct stat *st)
{
	return entry_ctime(st) + TICK_NS < clock_unix_ms() * 1000000u;
}

static int note(struct copy *c, const struct stat *st, bool flushed, struct err *e)
{
	struct seen s = {st->st_ino, entry_ctime(st), (uint64_t)st->st_size, flushed, c->path.p};
	return manifest_add(&c->manifest, &s, e);
}

// --- entries ---

static int copy_other_name(struct copy *c, const struct seen *first, int to, const char *name)
{
	return first->path && !linkat(c->to, first->path, to, name, 0) ? 0 : -1;
}

static int copy_file(struct copy *c, int from, const char *name, const struct stat *st, int to, struct err *e)
{
	if (fault(FAULT_LAYER_ENTRY, e))
		return -1;
	struct seen *first = st->st_nlink > 1 ? seen_add(&c->links, st->st_ino) : NULL;
	if (first && !copy_other_name(c, first, to, name))
		return 0;
	bool listed = c->manifest.fd >= 0 && S_ISREG(st->st_mode) && is_settled(st);
	const struct seen *same = unchanged(c, from, name, st);
	bool flushed = same && same->flushed;
	if (same && !linkat(c->like, same->path, to, name, 0)) {
		c->r->shared++;
	} else {
		flushed = listed && st->st_size >= SMALL && flush(from, name);
		listed = listed && (flushed || st->st_size < SMALL);
		if (entry_copy(from, name, st, to, e))
			return -1;
	}
	if (first && !first->path) // past EMLINK the first stays the one
		first->path = xstrdup(buf_cstr(&c->path));
	count(c, from, name, st);
	return listed ? note(c, st, flushed, e) : 0;
}

static int copy_dir(struct copy *c, int from, const char *name, int to, int depth, struct err *e);

static int copy_entries(struct copy *c, int from, int to, int depth, struct err *e)
{
	auto_names struct names n = {0};
	if (names_read(&n, from, 0, SIZE_MAX))
		return err_sys(e, "list a directory");
	for (size_t i = 0; i < n.n; i++) {
		struct stat st;
		size_t len = c->path.n;
		const char *name = n.list[i].name;
		if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW))
			return err_sys(e, "%s", name);
		path_push(c, name);
		if (S_ISDIR(st.st_mode) ? copy_dir(c, from, name, to, depth + 1, e) : copy_file(c, from, name, &st, to, e))
			return -1;
		path_cut(c, len);
	}
	return 0;
}

static int copy_dir(struct copy *c, int from, const char *name, int to, int depth, struct err *e)
{
	struct stat st;
	if (depth > LAYER_DEPTH)
		return err_set(e, ERR_LIMIT, "more than %d directories below each other can not be copied", LAYER_DEPTH);
	auto_fd int in = entry_open_dir(from, name, e);
	if (in < 0)
		return -1;
	if (mkdirat(to, name, 0700))
		return err_sys(e, "make %s", name);
	auto_fd int out = entry_open_dir(to, name, e);
	if (out < 0 || copy_entries(c, in, out, depth, e) || entry_finish_dir(in, out, true, e))
		return -1;
	if (!fstat(in, &st))
		c->r->bytes += (uint64_t)st.st_blocks * 512;
	return 0;
}

static int copy_parts(struct copy *c, int from, struct err *e)
{
	struct stat st;
	for (const char *const *part = layer_parts; *part; part++) {
		if (fstatat(from, *part, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		path_push(c, *part);
		if (copy_dir(c, from, *part, c->to, 0, e))
			return err_wrap(e, "%s", buf_cstr(&c->path));
		path_cut(c, 0);
	}
	return fault(FAULT_LAYER_MANIFEST, e) || manifest_close(&c->manifest, e) ? -1 : 0;
}

int layer_copy(int from, int to, int like, struct layer_result *r, struct err *e)
{
	struct copy c = {.to = to, .like = like, .path = BUF_INIT(64 << 20), .r = r, .manifest.fd = -1};
	if (tells_changes(from) && manifest_open(&c.manifest, to, e))
		return -1;
	if (like >= 0)
		manifest_load(like, &c.earlier);
	int rc = copy_parts(&c, from, e);
	manifest_done(&c.manifest);
	seen_done(&c.links);
	seen_done(&c.earlier);
	buf_done(&c.path);
	return rc;
}
