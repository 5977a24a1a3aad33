// SPDX-License-Identifier: Apache-2.0
// What there is: records of files and directories, and the words that operations take.
#include "init/files_int.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "init/users.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEPTH_MAX 200

// --- words ---

int words_only(char *const *words, const char *const *known, struct err *e)
{
	for (; *words; words++) {
		bool found = false;
		for (const char *const *k = known; *k && !found; k++)
			found = str_has_suffix(*k, "=") ? str_has_prefix(*words, *k) : !strcmp(*words, *k);
		if (!found)
			return err_set(e, ERR_INVALID, "unknown word %s", *words);
	}
	return 0;
}

bool word(char *const *words, const char *w)
{
	while (*words && strcmp(*words, w))
		words++;
	return *words;
}

const char *word_value(char *const *words, const char *key)
{
	for (; *words; words++)
		if (str_has_prefix(*words, key))
			return *words + strlen(key);
	return NULL;
}

int word_u64(char *const *words, const char *key, uint64_t *inout, struct err *e)
{
	const char *v = word_value(words, key);
	if (v && str_to_u64(str_of(v), 0, INT64_MAX, inout))
		return err_set(e, ERR_INVALID, "%s%s is no whole number", key, v);
	return 0;
}

int word_mode(char *const *words, mode_t *inout, bool *out_given, struct err *e)
{
	const char *v = word_value(words, "mode=");
	mode_t mode = 0;
	*out_given = v;
	for (const char *p = v; p && *p; p++) {
		if (*p < '0' || *p > '7' || p - v > 4)
			return err_set(e, ERR_INVALID, "mode=%s is not octal", v);
		mode = mode * 8 + (mode_t)(*p - '0');
	}
	if (v)
		*inout = mode & 07777;
	return 0;
}

// --- records ---

static char *owner_name(uid_t uid)
{
	static uid_t last;
	static char *name;
	if (!name || last != uid) {
		struct user u = {0};
		free(name);
		name = users_find_uid(uid, &u) ? take(&u.name) : xasprintf("%u", uid);
		user_done(&u);
		last = uid;
	}
	return name;
}

static char *group_name(gid_t gid)
{
	static gid_t last;
	static char *name;
	if (!name || last != gid) {
		free(name);
		name = users_group(gid);
		if (!name)
			name = xasprintf("%u", gid);
		last = gid;
	}
	return name;
}

static uint64_t nanoseconds(struct timespec t)
{
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void record_from(struct file_record *r, const struct stat *st)
{
	r->mode = st->st_mode;
	r->size = (uint64_t)st->st_size;
	r->mtime_ns = nanoseconds(st->st_mtim);
	r->ctime_ns = nanoseconds(st->st_ctim);
	r->uid = st->st_uid;
	r->gid = st->st_gid;
	r->inode = st->st_ino;
	r->links = (uint32_t)st->st_nlink;
}

void record_of(struct buf *b, int dir, const char *name, const char *shown, const struct stat *st)
{
	char link[4097], shown_name[4096];
	struct file_record r = {.name = shown_name, .user = owner_name(st->st_uid), .group = group_name(st->st_gid)};
	ssize_t n = S_ISLNK(st->st_mode) ? readlinkat(dir, name, link, sizeof link - 1) : -1;
	link[n > 0 ? n : 0] = 0;
	r.link = n > 0 ? link : NULL;
	if (fmt_to(shown_name, sizeof shown_name, "%s", shown))
		shown_name[sizeof shown_name - 1] = 0;
	record_from(&r, st);
	file_record_write(b, &r);
}

int record_put(int dir, const char *name, const char *shown, bool follow, struct err *e)
{
	struct stat st;
	auto_buf struct buf b = BUF_INIT(16 << 10);
	if (fstatat(dir, name, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW))
		return err_sys(e, "%s", shown);
	record_of(&b, dir, name, shown, &st);
	return fs_write_all(1, b.p, b.n, e);
}

int op_stat(char *const *a, struct err *e)
{
	static const char *const known[] = {"follow", NULL};
	if (words_only(a + 1, known, e))
		return -1;
	return record_put(AT_FDCWD, a[0], a[0], word(a + 1, "follow"), e);
}

struct listing {
	uint64_t depth, max, n;
	struct buf out;
};

static int flush(struct listing *l, size_t above, struct err *e)
{
	if (l->out.n <= above)
		return 0;
	int rc = fs_write_all(1, l->out.p, l->out.n, e);
	buf_clear(&l->out);
	return rc;
}

static int list_dir(struct listing *l, int fd, const char *rel, uint64_t depth, struct err *e);

static int list_entry(struct listing *l, int dir, const char *rel, const char *name, uint64_t depth, struct err *e)
{
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : err_sys(e, "%s", name); // gone meanwhile
	if (++l->n > l->max)
		return 0;
	auto_free char *path = xasprintf("%s%s%s", rel, *rel ? "/" : "", name);
	record_of(&l->out, dir, name, path, &st);
	if (flush(l, 64 << 10, e))
		return -1;
	if (!S_ISDIR(st.st_mode) || depth >= l->depth)
		return 0;
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? 0 : list_dir(l, fd, path, depth + 1, e); // one that may not be read is listed, not entered
}

// Takes fd.
static int list_dir(struct listing *l, int fd, const char *rel, uint64_t depth, struct err *e)
{
	DIR *d = fdopendir(fd);
	struct dirent *ent;
	int rc = 0;
	if (!d) {
		close(fd);
		return err_sys(e, "list %s", rel);
	}
	while (!rc && l->n <= l->max && (ent = readdir(d)))
		if (strcmp(ent->d_name, ".") && strcmp(ent->d_name, ".."))
			rc = list_entry(l, fd, rel, ent->d_name, depth, e);
	closedir(d);
	return rc;
}

int op_list(char *const *a, struct err *e)
{
	static const char *const known[] = {"depth=", "max=", NULL};
	struct listing l = {.depth = 1, .max = UINT32_MAX, .out = BUF_INIT(1 << 20)};
	if (words_only(a + 1, known, e) || word_u64(a + 1, "depth=", &l.depth, e) || word_u64(a + 1, "max=", &l.max, e))
		return -1;
	l.depth = l.depth > DEPTH_MAX ? DEPTH_MAX : l.depth;
	int fd = fs_open(AT_FDCWD, a[0], O_RDONLY | O_DIRECTORY, 0, e);
	int rc = fd < 0 ? -1 : list_dir(&l, fd, "", 1, e);
	if (!rc && l.n > l.max)
		file_record_write(&l.out, &(struct file_record){0});
	rc = rc ? rc : flush(&l, 0, e);
	buf_done(&l.out);
	return rc;
}
