// SPDX-License-Identifier: Apache-2.0
#include "init/movable.h"

#include "base/fault.h"
#include "base/mem.h"
#include "base/str.h"
#include "init/movable_int.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEPTH_MAX 200
#define ROUNDS 100 // until a directory that others write to is empty

static volatile sig_atomic_t stopped;

static void on_stop(int sig)
{
	(void)sig;
	stopped = 1;
}

void movable_stop_on(int sig)
{
	sigset_t one;
	struct sigaction act = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
	sigaction(sig, &act, NULL);
	sigemptyset(&one);
	sigaddset(&one, sig);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
}

// FNV-1a: two long names of one directory shall not meet.
void movable_name(const char *name, char out[256])
{
	uint64_t h = 0xcbf29ce484222325u;
	for (const char *p = name; *p; p++)
		h = (h ^ (unsigned char)*p) * 0x100000001b3u;
	if (fmt_to(out, 256, MOVABLE_PREFIX "%s", name) && fmt_to(out, 256, MOVABLE_PREFIX "%.*s.%016llx", 200, name, (unsigned long long)h))
		out[0] = 0;
}

int move_entry(int from, const char *name, int to, const char *new, unsigned flags)
{
	return (int)syscall(SYS_renameat2, from, name, to, new, flags, (long)MOVE_PASS);
}

static bool is_dots(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

static int open_sub(int dir, const char *name)
{
	return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static DIR *list(int dir)
{
	auto_fd int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (d)
		take_fd(&fd);
	return d;
}

static bool is_dir(int dir, const struct dirent *ent)
{
	struct stat st;
	if (ent->d_type != DT_UNKNOWN)
		return ent->d_type == DT_DIR;
	return !fstatat(dir, ent->d_name, &st, AT_SYMLINK_NOFOLLOW) && S_ISDIR(st.st_mode);
}

// --- the hidden directory ---

// One that is there was left by a process killed at this work; somebody else's is none of ours.
static int open_hidden(int dir, const char *hidden)
{
	struct stat st;
	if (mkdirat(dir, hidden, 0700) && errno != EEXIST)
		return -1;
	auto_fd int fd = open_sub(dir, hidden);
	return fd < 0 || fstat(fd, &st) || st.st_uid != geteuid() ? -1 : take_fd(&fd);
}

// While it is in there the hidden directory is not empty, and nothing can take its place.
static int bar(const struct mover *m)
{
	return symlinkat("x", m->top, BAR) && errno != EEXIST ? -1 : 0;
}

static void unbar(const struct mover *m)
{
	unlinkat(m->top, BAR, 0);
}

// What a killed one left of its own; entries of the directory that it had moved stay.
static void clear_scratch(const struct mover *m)
{
	DIR *d = list(m->top);
	struct dirent *ent;
	while (d && (ent = readdir(d)))
		if (str_has_prefix(ent->d_name, SCRATCH))
			unlinkat(m->top, ent->d_name, 0);
	if (d)
		closedir(d);
}

// Can it be moved as it is? Asked of the kernel by a rename that can not succeed: it looks at the layers first.
static int is_movable(const struct mover *m, int dir, const char *name)
{
	if (!move_entry(dir, name, m->top_dir, m->top_name, 0)) // somebody took the bar out
		return move_entry(m->top_dir, m->top_name, dir, name, 0) ? -1 : 1;
	// EACCES: of one that is read-only the kernel does not tell; to replace it does no harm.
	return errno == ENOTEMPTY || errno == EEXIST ? 1 : errno == EXDEV || errno == EACCES ? 0 : -1;
}

// --- 1: copy up ---

static int prepare(struct mover *m, int dir, int depth);

static int prepare_entry(struct mover *m, int dir, const struct dirent *ent, int depth)
{
	struct err e;
	if (stopped || fault(FAULT_MOVE_COPY, &e))
		return -1;
	if (!is_dir(dir, ent))
		return move_copy_up(m, dir, ent->d_name);
	int movable = is_movable(m, dir, ent->d_name);
	if (movable)
		return movable < 0 && errno != ENOENT ? -1 : 0;
	auto_fd int sub = open_sub(dir, ent->d_name);
	return sub < 0 || prepare(m, sub, depth + 1) ? -1 : 0;
}

static int prepare(struct mover *m, int dir, int depth)
{
	DIR *d = depth > DEPTH_MAX ? NULL : list(dir);
	struct dirent *ent;
	struct level l = {.fd = dir};
	struct stat now;
	int rc = d && !fstat(dir, &l.st) ? 0 : -1;
	while (!rc && (ent = readdir(d)))
		if (!is_dots(ent->d_name))
			rc = prepare_entry(m, dir, ent, depth);
	if (d)
		closedir(d);
	// Names that were joined, and a question about an entry, count as changes of the directory.
	if (!fstat(dir, &now) && (now.st_mtim.tv_sec != l.st.st_mtim.tv_sec || now.st_mtim.tv_nsec != l.st.st_mtim.tv_nsec))
		move_restore(&l);
	return rc;
}

// --- 2: replace ---

static int replace(struct mover *m, int dir, const char *name, int depth);

static char **sub_directories(int dir)
{
	char **names = xcalloc(1, sizeof *names);
	DIR *d = list(dir);
	struct dirent *ent;
	while (d && (ent = readdir(d)))
		if (!is_dots(ent->d_name) && !str_has_prefix(ent->d_name, MOVABLE_PREFIX) && is_dir(dir, ent))
			strv_add(&names, ent->d_name);
	if (d)
		closedir(d);
	return names;
}

static int replace_below(struct mover *m, int dir, int depth)
{
	char **subs = sub_directories(dir);
	int rc = 0;
	for (char **s = subs; *s && !rc; s++)
		if (!is_movable(m, dir, *s))
			rc = replace(m, dir, *s, depth + 1);
	strv_free(subs);
	return rc;
}

// A directory that leaves its parent must be writable, whatever happens to what is in it.
static int carry_locked(int from, const char *name, int to, unsigned flags)
{
	struct stat st;
	auto_fd int fd = open_sub(from, name);
	if (fd < 0 || fstat(fd, &st) || st.st_uid != geteuid() || fchmod(fd, (st.st_mode & 07777) | 0200))
		return -1;
	int rc = move_entry(from, name, to, name, flags);
	return fchmod(fd, st.st_mode & 07777) ? -1 : rc;
}

static int carry(struct mover *m, int from, const char *name, int to, int depth)
{
	if (!move_entry(from, name, to, name, 0) || errno == ENOENT)
		return 0;
	if (errno == EXDEV && replace(m, from, name, depth + 1)) // one that came meanwhile
		return -1;
	return !move_entry(from, name, to, name, 0) || (errno == EACCES && !carry_locked(from, name, to, 0)) ? 0 : -1;
}

// What was there at the start of the look; entries that others add meanwhile are for the next round.
static int carry_all(struct mover *m, int from, int to, int depth)
{
	DIR *d = list(from);
	struct dirent *ent;
	struct err e;
	int rc = d ? 0 : -1;
	while (!rc && (ent = readdir(d)))
		if (!is_dots(ent->d_name))
			rc = fault(FAULT_MOVE_ENTRY, &e) ? -1 : carry(m, from, ent->d_name, to, depth);
	if (d)
		closedir(d);
	return rc;
}

// The hidden directory takes the place of the empty one.
static int take_place(struct mover *m, const struct level *l)
{
	bool top = !strcmp(l->hidden, m->top_name) && l->dir == m->top_dir;
	if (top)
		unbar(m);
	int rc = move_look_alike(l) ? -1 : move_entry(l->dir, l->hidden, l->dir, l->name, 0);
	if (rc && top && bar(m))
		errno = EIO;
	return rc;
}

static int swap(struct mover *m, struct level *l, int depth)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (fchmod(l->hidden_fd, 0700) || carry_all(m, l->fd, l->hidden_fd, depth))
			return -1;
		if (!take_place(m, l))
			return 0;
		if (errno != ENOTEMPTY && errno != EEXIST)
			return -1;
	}
	return -1;
}

// As it was: what has moved comes back, unless somebody put another in its place.
static void undo(struct level *l)
{
	const unsigned keep = 1; // RENAME_NOREPLACE
	DIR *d = fchmod(l->hidden_fd, 0700) ? NULL : list(l->hidden_fd);
	struct dirent *ent;
	while (d && (ent = readdir(d)))
		if (!is_dots(ent->d_name) && strcmp(ent->d_name, BAR) &&
		    move_entry(l->hidden_fd, ent->d_name, l->fd, ent->d_name, keep) && errno == EACCES)
			(void)!carry_locked(l->hidden_fd, ent->d_name, l->fd, keep);
	if (d)
		closedir(d);
}

static int replace(struct mover *m, int dir, const char *name, int depth)
{
	struct level l = {.dir = dir, .name = name};
	if (stopped || depth > DEPTH_MAX)
		return -1;
	auto_fd int fd = l.fd = open_sub(dir, name);
	if (fd < 0 || fstat(fd, &l.st))
		return -1;
	movable_name(name, l.hidden);
	auto_fd int hidden = l.hidden_fd = move_unlock(&l) || replace_below(m, fd, depth) ? -1 : open_hidden(dir, l.hidden);
	if (hidden >= 0 && !swap(m, &l, depth))
		return 0;
	if (hidden >= 0)
		undo(&l);
	move_restore(&l);
	unlinkat(dir, l.hidden, AT_REMOVEDIR);
	return -1;
}

int movable_make(int dir, const char *name)
{
	struct mover m = {.top_dir = dir};
	auto_fd int fd = open_sub(dir, name);
	movable_name(name, m.top_name);
	auto_fd int top = m.top = fd < 0 ? -1 : open_hidden(dir, m.top_name);
	if (top < 0 || bar(&m))
		return -1;
	clear_scratch(&m);
	int rc = is_movable(&m, dir, name);
	if (!rc) {
		rc = prepare(&m, fd, 0);
		move_forget_links(&m);
		rc = rc || replace(&m, dir, name, 0) ? -1 : 1;
	}
	unbar(&m);
	unlinkat(dir, m.top_name, AT_REMOVEDIR); // gone, where it has taken the place
	return rc == 1 ? 0 : -1;
}
