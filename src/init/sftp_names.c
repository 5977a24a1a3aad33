// SPDX-License-Identifier: Apache-2.0
// Directories and the names in them.
#include "base/mem.h"
#include "init/sftp_int.h"
#include "init/users.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ENTRIES 100 // names in one answer

// --- directories ---

void sftp_opendir(struct sftp *s, const struct sftp_request *q)
{
	struct sftp_handle *h = sftp_handle_new(s, q->id);
	if (!h)
		return;
	h->dir = opendir(q->path);
	if (!h->dir) {
		h->used = false;
		sftp_answer_errno(s, q->id);
		return;
	}
	sftp_answer_handle(s, q->id, h);
}

// As `ls -l` would say it: clients show it as it is.
static void put_long_name(struct buf *b, const char *name, const struct stat *st)
{
	static const char kinds[] = "?pc?d?b?-?l?s???", bits[] = "rwxrwxrwx";
	char mode[11] = {kinds[st->st_mode >> 12 & 15]}, when[32] = "";
	struct tm tm;
	for (int i = 0; i < 9; i++)
		mode[1 + i] = st->st_mode >> (8 - i) & 1 ? bits[i] : '-';
	if (st->st_mode & S_ISUID)
		mode[3] = st->st_mode & S_IXUSR ? 's' : 'S';
	if (st->st_mode & S_ISGID)
		mode[6] = st->st_mode & S_IXGRP ? 's' : 'S';
	if (st->st_mode & S_ISVTX)
		mode[9] = st->st_mode & S_IXOTH ? 't' : 'T';
	bool recent = time(NULL) - st->st_mtime < 180 * 86400 && st->st_mtime <= time(NULL) + 3600;
	if (gmtime_r(&st->st_mtime, &tm))
		strftime(when, sizeof when, recent ? "%b %e %H:%M" : "%b %e  %Y", &tm);
	auto_buf struct buf line = BUF_INIT(1024);
	buf_fmt(&line, "%s %3lu %-8u %-8u %8llu %s %s", mode, (unsigned long)st->st_nlink, st->st_uid, st->st_gid,
		(unsigned long long)st->st_size, when, name);
	sftp_str(b, line.p, line.n);
}

void sftp_readdir(struct sftp *s, const struct sftp_request *q)
{
	struct sftp_handle *h = sftp_handle_get(s, q);
	struct dirent *ent;
	uint32_t n = 0;
	if (!h)
		return;
	size_t start = s->out.n, at = sftp_begin(&s->out, SFTP_NAME, q->id), count_at = s->out.n;
	sftp_u32(&s->out, 0);
	errno = ENOTDIR;
	while (h->dir && n < ENTRIES && (errno = 0, ent = readdir(h->dir))) {
		struct stat st;
		if (fstatat(dirfd(h->dir), ent->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue; // gone meanwhile
		struct sftp_attrs a = sftp_attrs_of(&st);
		sftp_str(&s->out, ent->d_name, strlen(ent->d_name));
		put_long_name(&s->out, ent->d_name, &st);
		sftp_attrs(&s->out, &a);
		n++;
	}
	if (!n) {
		s->out.n = start;
		if (errno)
			sftp_answer_errno(s, q->id);
		else
			sftp_answer(s, q->id, SFTP_EOF, "End of file");
		return;
	}
	s->out.p[count_at + 3] = (char)n; // fewer than 256
	sftp_end(&s->out, at);
}

void sftp_mkdir(struct sftp *s, const struct sftp_request *q)
{
	sftp_answer_rc(s, q->id, mkdir(q->path, q->attrs.has & SFTP_HAS_MODE ? q->attrs.mode & 07777 : 0777));
}

// --- names ---

void sftp_remove(struct sftp *s, const struct sftp_request *q)
{
	sftp_answer_rc(s, q->id, q->type == SFTP_RMDIR ? rmdir(q->path) : unlink(q->path));
}

// Version 3 takes nobody's place; its extension does.
void sftp_rename(struct sftp *s, const struct sftp_request *q)
{
	struct stat st;
	int rc = q->type == SFTP_POSIX_RENAME ? rename(q->path, q->path2)
					      : (int)syscall(SYS_renameat2, AT_FDCWD, q->path, AT_FDCWD, q->path2, 1 /* NOREPLACE */);
	if (rc && errno == EINVAL && q->type != SFTP_POSIX_RENAME) // a file system that can not
		rc = lstat(q->path2, &st) ? rename(q->path, q->path2) : (errno = EEXIST, -1);
	sftp_answer_rc(s, q->id, rc);
}

void sftp_link(struct sftp *s, const struct sftp_request *q)
{
	sftp_answer_rc(s, q->id, q->type == SFTP_SYMLINK ? symlink(q->path, q->path2) : link(q->path, q->path2));
}

void sftp_readlink(struct sftp *s, const struct sftp_request *q)
{
	char to[4096];
	ssize_t n = readlink(q->path, to, sizeof to - 1);
	if (n < 0) {
		sftp_answer_errno(s, q->id);
		return;
	}
	to[n] = 0;
	sftp_answer_name(s, q->id, to);
}

// The last part need not exist: clients ask before they make it.
static char *real_path(const char *path)
{
	auto_free char *real = realpath(path, NULL), *copy = xstrdup(path);
	if (real || errno != ENOENT)
		return take(&real);
	size_t n = strlen(copy);
	while (n > 1 && copy[n - 1] == '/')
		copy[--n] = 0;
	char *slash = strrchr(copy, '/');
	const char *last = slash ? slash + 1 : copy;
	if (!*last || !strcmp(last, "..")) {
		errno = ENOENT;
		return NULL;
	}
	auto_free char *name = xstrdup(last);
	if (slash)
		slash[slash == copy] = 0;
	auto_free char *parent = realpath(slash ? copy : ".", NULL);
	return parent ? xasprintf("%s/%s", strcmp(parent, "/") ? parent : "", name) : NULL;
}

static char *expand(const char *path)
{
	if (*path != '~')
		return xstrdup(path);
	size_t n = strcspn(path + 1, "/");
	auto_free char *user = xstrndup(path + 1, n);
	struct user u;
	if (n ? !users_find(user, &u) : !users_find_uid(getuid(), &u))
		return NULL;
	char *whole = xasprintf("%s%s", u.home, path + 1 + n);
	user_done(&u);
	return whole;
}

void sftp_realpath(struct sftp *s, const struct sftp_request *q)
{
	errno = ENOENT;
	auto_free char *full = q->type == SFTP_EXPAND ? expand(q->path) : xstrdup(q->path), *real = full ? real_path(full) : NULL;
	if (real)
		sftp_answer_name(s, q->id, real);
	else
		sftp_answer_errno(s, q->id);
}
