// SPDX-License-Identifier: Apache-2.0
#include "workspace/gitobjects.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "workspace/repo_dir.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define ENTRIES_MAX 2000   // of the directory itself: 256 and a few
#define OBJECTS_MAX 20000000ULL
#define TRIES 20

static bool is_hex(const char *s, size_t n)
{
	return strspn(s, "0123456789abcdef") >= n && strlen(s) == n;
}

static bool is_own(const char *name)
{
	return is_hex(name, 2) || !strcmp(name, "pack") || !strcmp(name, "info") || str_has_prefix(name, "tmp_") || str_has_prefix(name, "incoming-");
}

static DIR *list(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d)
		close_fd(&fd);
	return d;
}

bool gitobjects_is(const char *path)
{
	DIR *d = list(AT_FDCWD, path);
	struct dirent *ent;
	unsigned n = 0;
	bool own = d != NULL, some = false;
	while (own && (ent = readdir(d))) {
		if (!strcmp(ent->d_name, ".") || !strcmp(ent->d_name, ".."))
			continue;
		own = is_own(ent->d_name) && ++n < ENTRIES_MAX;
		some |= !strcmp(ent->d_name, "pack") || is_hex(ent->d_name, 2);
	}
	if (d)
		closedir(d);
	return own && some;
}

struct keeping {
	int to;
	uint64_t n, bytes;
	bool missed; // something went while it was taken
	struct err *e;
};

// 1: it was not there any more.
static int keep_file(struct keeping *k, int from, const char *dir, const char *name)
{
	struct stat st;
	auto_free char *as = xasprintf("%s/%s", dir, name);
	auto_fd int fd = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return 1;
	if (fd < 0 || fstat(fd, &st))
		return err_sys(k->e, "object %s", as);
	if (!S_ISREG(st.st_mode))
		return 0;
	if (++k->n > OBJECTS_MAX)
		return err_set(k->e, ERR_LIMIT, "more than %llu objects", OBJECTS_MAX);
	if (fs_mkdirs(k->to, dir, 0755, k->e))
		return -1;
	k->bytes += (uint64_t)st.st_size;
	if (!linkat(from, name, k->to, as, 0) || errno == EEXIST)
		return 0;
	if (errno == ENOENT)
		return 1;
	return repo_copy_fd(fd, k->to, as, 0444, st.st_mtim, k->e); // another file system, or no links to it allowed
}

static bool is_pack_file(const char *name)
{
	static const char *const ends[] = {".pack", ".idx", ".rev", ".bitmap", ".mtimes", ".promisor"};
	for (size_t i = 0; i < countof(ends); i++)
		if (str_has_prefix(name, "pack-") && str_has_suffix(name, ends[i]))
			return true;
	return false;
}

static int keep_dir(struct keeping *k, int from, const char *dir, bool pack)
{
	DIR *d = list(from, dir);
	struct dirent *ent;
	int rc = 0;
	while (d && rc >= 0 && (ent = readdir(d))) {
		size_t n = strlen(ent->d_name);
		if (pack ? !is_pack_file(ent->d_name) : !is_hex(ent->d_name, n) || (n != 38 && n != 62))
			continue;
		rc = keep_file(k, dirfd(d), dir, ent->d_name);
		k->missed |= rc > 0;
	}
	if (d)
		closedir(d);
	return rc < 0 ? -1 : 0;
}

static int keep_loose(struct keeping *k, int from)
{
	char dir[3];
	for (int i = 0; i < 256; i++) {
		str_hex(dir, &(uint8_t){(uint8_t)i}, 1);
		if (keep_dir(k, from, dir, false))
			return -1;
	}
	return 0;
}

// Loose ones first: git packs before it unlinks, so what is no longer loose is in a pack then. A pack that goes was replaced by
// another one before.
int gitobjects_keep(int from, int to, uint64_t *inout_bytes, struct err *e)
{
	struct keeping k = {.to = to, .e = e};
	if (fs_mkdirs(to, "pack", 0755, e) || fs_mkdirs(to, "info", 0755, e) || keep_loose(&k, from))
		return -1;
	for (int i = 0; i < TRIES; i++) {
		k.missed = false;
		if (keep_dir(&k, from, "pack", true))
			return -1;
		if (!k.missed) {
			*inout_bytes += k.bytes;
			return 0;
		}
	}
	return err_set(e, ERR_CONFLICT, "the packs of the repository keep changing; try again when git is done there");
}
