// SPDX-License-Identifier: Apache-2.0
#include "cell/ownership.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/sha256.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define DEPTH_MAX 64
#define FILE_MAX (64 << 20)
#define OPAQUE "user.overlay.opaque" // what is closed to us is closed to the cell: its directory begins empty, and can be listed

// Directories only; or also the files in the top directory and locks anywhere (a package database opens its own for
// writing).
static bool is_lock(const char *name)
{
	return !strncasecmp(name, "lock", 4);
}

static int mirror(int from, int to, bool database, int depth, struct err *e)
{
	int fd = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		if (fd >= 0)
			close(fd);
		return 0; // not ours to see
	}
	int rc = 0;
	struct dirent *ent;
	while (!rc && (ent = readdir(d))) {
		struct stat st;
		const char *name = ent->d_name;
		bool wanted = database && (!depth || is_lock(name));
		if (!strcmp(name, ".") || !strcmp(name, "..") || (ent->d_type != DT_DIR && ent->d_type != DT_UNKNOWN && !wanted))
			continue;
		if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (S_ISREG(st.st_mode) && wanted && st.st_size < FILE_MAX) {
			auto_buf struct buf b = BUF_INIT(FILE_MAX);
			struct err unreadable;
			// A lock that only root may read is as good empty; what else is closed to us stays what it is.
			if (!fs_read(from, name, &b, &unreadable) || is_lock(name))
				rc = fs_write(to, name, b.p ? b.p : "", b.n, st.st_mode & 0777, e);
		} else if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX) {
			auto_fd int sub = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			if (mkdirat(to, name, 0755) && errno != EEXIST)
				rc = err_sys(e, "mirror %s", name);
			auto_fd int into = rc ? -1 : openat(to, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			if (!rc && sub < 0 && into >= 0 && fsetxattr(into, OPAQUE, "y", 1, 0))
				rc = err_sys(e, "mirror %s", name);
			if (!rc && sub >= 0 && into >= 0)
				rc = mirror(sub, into, database, depth + 1, e);
			if (!rc && into >= 0 && fchmod(into, st.st_mode & 0777))
				rc = err_sys(e, "mirror %s", name);
		}
	}
	closedir(d);
	return rc;
}

static int mirror_as(int into, const char *host, const char *name, bool database, struct err *e)
{
	auto_fd int from = open(host, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (from < 0)
		return 0; // there is none
	if (fs_mkdirs(into, name, 0755, e))
		return -1;
	auto_fd int to = fs_open(into, name, O_RDONLY | O_DIRECTORY, 0, e);
	return to < 0 ? -1 : mirror(from, to, database, 0, e);
}

// Changes when a package is installed or removed, or the system is another.
static void host_key(char out[SHA256_HEX])
{
	static const char *const witnesses[] = {"/etc/os-release", "/var/lib/dpkg/status", "/var/lib/rpm", "/usr", "/opt"};
	static const int layout = 4; // of what is built here
	struct sha256 h;
	sha256_init(&h);
	sha256_add(&h, &layout, sizeof layout);
	for (size_t i = 0; i < countof(witnesses); i++) {
		struct stat st = {0};
		if (!stat(witnesses[i], &st)) {
			sha256_add(&h, &st.st_mtim, sizeof st.st_mtim);
			sha256_add(&h, &st.st_size, sizeof st.st_size);
			sha256_add(&h, &st.st_ino, sizeof st.st_ino);
		}
	}
	sha256_end_hex(&h, out);
	out[16] = 0;
}

static int build(struct nursery *n, const char *name, struct err *e)
{
	auto_free char *tmp = xasprintf("%s.partial", name);
	if (fs_remove_tree(n->images_dir, tmp, e) || fs_mkdirs(n->images_dir, tmp, 0755, e))
		return -1;
	auto_fd int into = fs_open(n->images_dir, tmp, O_RDONLY | O_DIRECTORY, 0, e);
	if (into < 0)
		return -1;
	for (int i = 0; i < n->rootfs.n_system; i++) {
		auto_free char *host = xasprintf("/%s", n->rootfs.system[i].name);
		if (!*n->rootfs.system[i].link && mirror_as(into, host, n->rootfs.system[i].name, false, e))
			return -1;
	}
	if (mirror_as(into, "/var/lib/dpkg", "var-lib-dpkg", true, e) || mirror_as(into, "/var/lib/apt", "var-lib-apt", true, e) ||
	    mirror_as(into, "/var/lib/rpm", "var-lib-rpm", true, e))
		return -1;
	if (renameat(n->images_dir, tmp, n->images_dir, name))
		return err_sys(e, "ownership layer");
	return 0;
}

int ownership_ready(struct nursery *n, struct err *e)
{
	char key[SHA256_HEX];
	if (n->ids.root)
		return 0;
	if (!n->ids.subids)
		return err_set(e, ERR_UNSUPPORTED,
			       "--root needs subordinate ids for this user; add them with: sudo usermod --add-subuids "
			       "100000-165535 --add-subgids 100000-165535 $USER, then: skep doctor");
	host_key(key);
	auto_free char *name = xasprintf("own-%s", key);
	if (!fs_exists(n->images_dir, name) && build(n, name, e))
		return err_wrap(e, "ownership layer");
	free(n->rootfs.ownership);
	n->rootfs.ownership = xasprintf("%s/images/%s", n->skep_home, name);
	return 0;
}
