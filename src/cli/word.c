// SPDX-License-Identifier: Apache-2.0
#include "cli/word.h"

#include "base/clock.h"
#include <errno.h>
#include <poll.h>
#include <unistd.h>

bool word_wait(int fd, uint64_t ms, struct buf *out)
{
	for (uint64_t until = clock_ms() + ms;;) {
		uint64_t now = clock_ms();
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int rc = now < until ? poll(&p, 1, (int)(until - now)) : 0;
		if (rc < 0 && errno == EINTR)
			continue;
		if (rc <= 0)
			return false;
		size_t most = out->n ? 64 : 1; // behind an R may come what is not for us
		char *room = buf_room(out, most);
		ssize_t n = room ? read(fd, room, most) : 0;
		if (n <= 0)
			return true;
		out->n += (size_t)n;
		out->p[out->n] = 0; // buf_room keeps a byte for it
		if (out->p[0] == 'R')
			return true;
	}
}
