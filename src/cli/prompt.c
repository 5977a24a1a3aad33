// SPDX-License-Identifier: Apache-2.0
#include "cli/prompt.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/modes.h"
#include "cli/term.h"
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PROMPT_POLL_MS 50

static int prompt_fd = -1; // of this process's own prompt_begin

int prompt_open(int fd)
{
	char path[32];
	if (fd < 0 || !isatty(fd) || fmt_to(path, sizeof path, "/proc/self/fd/%d", fd))
		return -1;
	return open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static bool is_stopped(pid_t pid)
{
	char path[32];
	struct err ignored;
	auto_buf struct buf b = BUF_INIT(4096);
	if (pid <= 0 || fmt_to(path, sizeof path, "/proc/%d/stat", (int)pid) || fs_read(AT_FDCWD, path, &b, &ignored))
		return false;
	const char *state = strrchr(buf_cstr(&b), ')');
	return state && (!strncmp(state, ") T", 3) || !strncmp(state, ") t", 3));
}

// Also true where locks do not work: then there is no lock to keep to.
static bool lock_take(int fd, short type)
{
	struct flock l = {.l_type = type, .l_whence = SEEK_SET};
	if (fd < 0 || !fcntl(fd, F_SETLK, &l))
		return true;
	l = (struct flock){.l_type = type, .l_whence = SEEK_SET};
	return fcntl(fd, F_GETLK, &l) || (l.l_type != F_UNLCK && is_stopped(l.l_pid));
}

static void lock_drop(int fd)
{
	struct flock l = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
	if (fd >= 0 && fcntl(fd, F_SETLK, &l))
		return; // nothing was locked
}

bool prompt_try(int lock)
{
	return lock_take(lock, F_WRLCK);
}

void prompt_over(int lock)
{
	lock_drop(lock);
}

bool prompt_may_write(int lock)
{
	return lock_take(lock, F_RDLCK);
}

void prompt_wrote(int lock)
{
	lock_drop(lock);
}

void prompt_begin(void)
{
	struct err ignored;
	auto_buf struct buf b = BUF_INIT(4096);
	if (prompt_fd >= 0 || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return;
	prompt_fd = prompt_open(STDERR_FILENO);
	while (!prompt_try(prompt_fd))
		poll(NULL, 0, PROMPT_POLL_MS);
	if (term_is_dumb())
		return;
	modes_reset(&b);
	modes_again(&(struct modes){0}, &b);
	if (fs_write_all(STDERR_FILENO, b.p, b.n, &ignored))
		return; // a terminal that is gone will say so when the question is written
}

void prompt_end(void)
{
	close_fd(&prompt_fd);
}
