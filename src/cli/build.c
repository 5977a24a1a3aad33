// SPDX-License-Identifier: Apache-2.0
#include "cli/build.h"

#include "base/mem.h"
#include "cli/home.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

// A copy elsewhere is the same build. What can not be read to the end is taken for it as well: nobody is accused unread.
static bool is_same(int a, int b)
{
	struct stat x, y;
	if (fstat(a, &x) || fstat(b, &y) || (x.st_dev == y.st_dev && x.st_ino == y.st_ino))
		return true;
	for (;;) {
		char p[16384], q[16384];
		ssize_t n = read(a, p, sizeof p), m = read(b, q, sizeof q);
		if (n < 0 || m < 0)
			return true;
		if (n != m || memcmp(p, q, (size_t)n))
			return false;
		if (!n)
			return true;
	}
}

pid_t build_of_other(int fd)
{
	struct ucred peer;
	socklen_t n = sizeof peer;
	struct err ignored;
	const char *host = getenv("SKEP_HOST");
	if ((host && *host) || fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) || peer.pid <= 0)
		return 0;
	auto_free char *running = xasprintf("/proc/%d/exe", (int)peer.pid), *ours = home_program("skepd", &ignored);
	if (!ours)
		return 0;
	auto_fd int a = open(running, O_RDONLY | O_CLOEXEC), b = open(ours, O_RDONLY | O_CLOEXEC);
	return a < 0 || b < 0 || is_same(a, b) ? 0 : peer.pid;
}
