// SPDX-License-Identifier: Apache-2.0
// T-084: bytes, holes and names. A limit may be enforced by the file system or by a supervisor that freezes the cell;
// in the second case this program stops in the middle and the harness reads `limit.hit` instead of a verdict.
#include "attack.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MIB (1L << 20)
#define GRACE_SECONDS 5 // beyond the limit, at a bounded rate

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void sparse(struct probe *p, const char *dir)
{
	char path[PATH_SIZE + 32];
	int fd = open(fmt(path, sizeof(path), "%s/skep-attack-sparse", dir), O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return;
	judge(p, ftruncate(fd, (off_t)2 << 40) != 0, "a 2 TiB file with a hole in %s", dir);
	if (!p->outside)
		judge(p, pwrite(fd, "x", 1, (off_t)1 << 41) != 1, "a byte at 2 TiB in %s", dir);
	judge(p, p->outside || fallocate(fd, 0, 0, (off_t)2 << 40) != 0, "2 TiB reserved in %s", dir);
	close(fd);
	unlink(path);
}

// 16 MiB a file, so that a limit on one file is not mistaken for one on the sum.
static void fill_bytes(struct probe *p, const char *dir, long limit)
{
	static char block[1 << 20];
	char path[PATH_SIZE + 32];
	long done = 0, files = 0;
	double over = 0;
	int err = 0;

	while (!err && !(over && now() - over > GRACE_SECONDS)) {
		int fd = open(fmt(path, sizeof(path), "%s/fill-%ld", dir, files++), O_WRONLY | O_CREAT | O_CLOEXEC,
			      0600);
		for (int i = 0; i < 16 && !err; i++) {
			ssize_t n = fd < 0 ? -1 : write(fd, block, sizeof(block));
			err = n == (ssize_t)sizeof(block) ? 0 : n < 0 ? errno : ENOSPC;
			done += err ? 0 : MIB;
		}
		close(fd);
		if (done > limit && !over)
			over = now();
		if (over)
			usleep(100000);
	}
	while (files-- > 0)
		unlink(fmt(path, sizeof(path), "%s/fill-%ld", dir, files));
	judge(p, err != 0, "%ld MiB written to %s, limit %ld MiB", done / MIB, dir, limit / MIB);
	note(p, "%ld MiB in %s, then %s", done / MIB, dir, err_name(err));
}

static void fill_names(struct probe *p, const char *dir, long limit)
{
	char path[PATH_SIZE + 32];
	long files = 0;
	double over = 0;
	int err = 0;

	while (!err && !(over && now() - over > GRACE_SECONDS)) {
		int fd = open(fmt(path, sizeof(path), "%s/n%ld", dir, files), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		err = fd < 0 ? errno : 0;
		files += fd >= 0;
		close(fd);
		if (files > limit && !over)
			over = now();
		if (over)
			usleep(500);
	}
	for (long i = files - 1; i >= 0; i--)
		unlink(fmt(path, sizeof(path), "%s/n%ld", dir, i));
	judge(p, err != 0, "%ld files made in %s, limit %ld", files, dir, limit);
	note(p, "%ld files in %s, then %s", files, dir, err_name(err));
}

void t084_disk(struct probe *p)
{
	long bytes = env_long("SKEP_ATTACK_DISK", 0), names = env_long("SKEP_ATTACK_INODES", 0),
	     tmp = env_long("SKEP_ATTACK_TMP", 0);
	char dir[PATH_SIZE + 32];

	signal(SIGXFSZ, SIG_IGN);
	sparse(p, p->ws);
	if (p->outside)
		return;
	sparse(p, "/tmp");
	sparse(p, env_or("HOME", "/tmp"));
	if (tmp)
		fill_bytes(p, "/tmp", tmp);
	mkdir(fmt(dir, sizeof(dir), "%s/fill", p->ws), 0755);
	if (names)
		fill_names(p, dir, names);
	if (bytes)
		fill_bytes(p, dir, bytes);
	if (!bytes && !names)
		note(p, "only holes: no SKEP_ATTACK_DISK, no SKEP_ATTACK_INODES");
}
