// SPDX-License-Identifier: Apache-2.0
#include "workspace/locks.h"

#include "base/fs.h"
#include "base/mem.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define TOP_ENTRIES 20000 // of a directory whose names are looked at
#define REMEMBERED 64

struct known {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec mtime, ctime;
	char sha256[SHA256_HEX];
};

struct locks_cache {
	struct known known[REMEMBERED];
	size_t n, next;
};

struct locks_cache *locks_cache_new(void)
{
	return xcalloc(1, sizeof(struct locks_cache));
}

void locks_cache_free(struct locks_cache *c)
{
	free(c);
}

void locks_done(struct setup_file *files, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(files[i].path);
	free(files);
}

static bool is_known(const struct known *k, const struct stat *st)
{
	return k->dev == st->st_dev && k->ino == st->st_ino && k->size == st->st_size && !memcmp(&k->mtime, &st->st_mtim, sizeof k->mtime) &&
	       !memcmp(&k->ctime, &st->st_ctim, sizeof k->ctime);
}

static int hash_fd(int fd, char out[SHA256_HEX], struct err *e)
{
	static char chunk[1 << 16];
	struct sha256 h;
	uint64_t total = 0;
	ssize_t n;
	sha256_init(&h);
	while ((n = read(fd, chunk, sizeof chunk)) > 0) {
		total += (uint64_t)n;
		if (total > LOCK_BYTES)
			return err_set(e, ERR_LIMIT, "longer than %u bytes", LOCK_BYTES);
		sha256_add(&h, chunk, (size_t)n);
	}
	if (n < 0)
		return err_sys(e, "read");
	sha256_end_hex(&h, out);
	return 0;
}

static int content(struct locks_cache *c, int dir, const char *path, char out[SHA256_HEX], struct err *e)
{
	struct stat st;
	auto_fd int fd = fs_open_beneath(dir, path, O_RDONLY | O_NONBLOCK, 0, e);
	*out = 0;
	if (fd < 0)
		return e->sys == ENOENT || e->sys == ENOTDIR ? 0 : -1;
	if (fstat(fd, &st))
		return err_sys(e, "%s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "%s is not a file", path);
	for (size_t i = 0; i < c->n; i++)
		if (is_known(&c->known[i], &st)) {
			memcpy(out, c->known[i].sha256, SHA256_HEX);
			return 0;
		}
	if (hash_fd(fd, out, e))
		return err_wrap(e, "%s", path);
	struct known *k = &c->known[c->next++ % REMEMBERED];
	c->n += c->n < REMEMBERED;
	*k = (struct known){.dev = st.st_dev, .ino = st.st_ino, .size = st.st_size, .mtime = st.st_mtim, .ctime = st.st_ctim};
	memcpy(k->sha256, out, SHA256_HEX);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static char **names_at_top(int dir)
{
	char **names = NULL;
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), looked = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	while (d && looked++ < TOP_ENTRIES && (ent = readdir(d)))
		if (setup_is_lock(ent->d_name))
			strv_add(&names, ent->d_name);
	if (d)
		closedir(d);
	if (names)
		qsort(names, strv_len(names), sizeof *names, by_name);
	return names;
}

int locks_read(struct locks_cache *c, const char *dir, char *const *named, struct setup_file **out, size_t *out_n, struct err *e)
{
	auto_fd int at = fs_open(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0, e);
	if (at < 0)
		return -1;
	char **found = named ? strv_copy(named) : names_at_top(at);
	size_t n = strv_len(found), i = 0;
	struct setup_file *files = xcalloc(n, sizeof *files);
	int rc = n > LOCKS_MAX ? err_set(e, ERR_LIMIT, "more than %d files decide about the setup", LOCKS_MAX) : 0;
	for (; i < n && !rc; i++) {
		files[i].path = xstrdup(found[i]);
		rc = content(c, at, found[i], files[i].sha256, e);
	}
	strv_free(found);
	if (rc) {
		locks_done(files, i);
		return -1;
	}
	*out = files;
	*out_n = n;
	return 0;
}

void locks_host(char out[SHA256_HEX])
{
	static const char *const witnesses[] = {"/etc/os-release", "/var/lib/dpkg/status", "/var/lib/rpm", "/var/lib/pacman/local", "/lib/apk/db/installed"};
	struct sha256 h;
	struct utsname u = {0};
	sha256_init(&h);
	uname(&u);
	sha256_add(&h, u.machine, strlen(u.machine) + 1);
	for (size_t i = 0; i < countof(witnesses); i++) {
		struct stat st = {0};
		if (stat(witnesses[i], &st))
			st = (struct stat){0};
		sha256_add(&h, &st.st_ino, sizeof st.st_ino);
		sha256_add(&h, &st.st_size, sizeof st.st_size);
		sha256_add(&h, &st.st_mtim, sizeof st.st_mtim);
	}
	sha256_end_hex(&h, out);
}
