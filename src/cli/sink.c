// SPDX-License-Identifier: Apache-2.0
#include "cli/sink.h"

#include "base/mem.h"
#include "base/str.h"
#include "cli/prompt.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define QUEUE_MAX (64u << 20) // far above what the pump lets come

// O_NONBLOCK on the inherited descriptor would hit everyone who shares it; a second opening is ours.
static int reopen(int fd)
{
	char path[32];
	if (fmt_to(path, sizeof path, "/proc/self/fd/%d", fd))
		return -1;
	return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void sink_open(struct sink *s, int fd)
{
	struct stat st = {0};
	*s = (struct sink){.fd = fd, .own = -1, .lock = -1, .how = SINK_PLAIN, .queue = BUF_INIT(QUEUE_MAX)};
	if (fd < 0 || fstat(fd, &st))
		return;
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	if (S_ISSOCK(st.st_mode)) {
		s->how = SINK_SOCKET;
	} else if (S_ISFIFO(st.st_mode) || (S_ISCHR(st.st_mode) && isatty(fd))) {
		s->own = reopen(fd);
		s->how = s->own >= 0 ? SINK_NONBLOCK : SINK_SMALL;
		s->lock = prompt_open(fd);
	}
}

void sink_close(struct sink *s)
{
	close_fd(&s->own);
	close_fd(&s->lock);
	buf_done(&s->queue);
}

int sink_poll_fd(const struct sink *s)
{
	if (!sink_waiting(s) || s->held || s->prompted)
		return -1;
	return s->own >= 0 ? s->own : s->fd;
}

size_t sink_waiting(const struct sink *s)
{
	return s->queue.n - s->at;
}

bool sink_is_same(const struct sink *a, const struct sink *b)
{
	return a->ino && a->dev == b->dev && a->ino == b->ino;
}

// One write that does not block. A pipe polled as writable takes PIPE_BUF bytes at once, no more is sure.
static ssize_t write_some(struct sink *s, const char *p, size_t n)
{
	switch (s->how) {
	case SINK_SOCKET:
		return send(s->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	case SINK_NONBLOCK:
		return write(s->own, p, n);
	case SINK_SMALL:
		if (poll(&(struct pollfd){.fd = s->fd, .events = POLLOUT}, 1, 0) < 1) {
			errno = EAGAIN;
			return -1;
		}
		return write(s->fd, p, n < PIPE_BUF ? n : PIPE_BUF);
	case SINK_PLAIN:
		break;
	}
	return write(s->fd, p, n);
}

static ssize_t write_until_full(struct sink *s, const char *p, size_t n, struct err *e)
{
	size_t done = 0;
	int failed = 0;
	if (s->held)
		return 0;
	s->prompted = !prompt_may_write(s->lock);
	if (s->prompted)
		return 0;
	while (done < n) {
		ssize_t w = write_some(s, p + done, n - done);
		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0 && errno == EAGAIN)
			break;
		if (w < 0) {
			failed = err_sys(e, "write output");
			break;
		}
		done += (size_t)w;
	}
	prompt_wrote(s->lock);
	return failed ? -1 : (ssize_t)done;
}

int sink_flush(struct sink *s, struct err *e)
{
	ssize_t w = write_until_full(s, s->queue.p + s->at, sink_waiting(s), e);
	if (w < 0)
		return -1;
	s->at += (size_t)w;
	if (s->at == s->queue.n) {
		buf_clear(&s->queue);
		s->at = 0;
	} else if (s->at > s->queue.n / 2) {
		buf_cut(&s->queue, s->at);
		s->at = 0;
	}
	return 0;
}

int sink_put(struct sink *s, const void *p, size_t n, struct err *e)
{
	ssize_t w = 0;
	if (s->fd < 0)
		return 0;
	if (!sink_waiting(s))
		w = write_until_full(s, p, n, e);
	if (w < 0)
		return -1;
	buf_add(&s->queue, (const char *)p + w, n - (size_t)w);
	return s->queue.overflow ? err_set(e, ERR_BUG, "the output queue overflowed") : 0;
}
