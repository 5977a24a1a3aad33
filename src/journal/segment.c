// SPDX-License-Identifier: Apache-2.0
// Segments and lines of a journal. A line is read strictly: exactly as our writer writes it.
#include "journal/segment_int.h"

#include "base/fs.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int segment_open(int dirfd, unsigned n, int flags, struct err *e)
{
	char name[32] = "journal";
	if (n && fmt_to(name, sizeof name, "journal.%u", n))
		return err_set(e, ERR_BUG, "segment name");
	return fs_open(dirfd, name, flags | O_NOFOLLOW, 0600, e);
}

static bool eat(struct str *s, const char *lit)
{
	size_t n = strlen(lit);
	if (s->n < n || memcmp(s->p, lit, n))
		return false;
	*s = (struct str){s->p + n, s->n - n};
	return true;
}

static bool eat_until(struct str *s, char end, struct str *out)
{
	const char *at = memchr(s->p, end, s->n);
	if (!at)
		return false;
	*out = (struct str){s->p, (size_t)(at - s->p)};
	*s = (struct str){at, s->n - out->n};
	return true;
}

bool line_parse(struct str line, struct line_head *out)
{
	struct str s = line, seq, time;
	if (!s.n || s.p[s.n - 1] != '}' || memchr(s.p, 0, s.n))
		return false;
	return eat(&s, "{\"seq\":") && eat_until(&s, ',', &seq) && !str_to_u64(seq, 1, INT64_MAX, &out->seq) &&
	       eat(&s, ",\"time\":\"") && eat_until(&s, '"', &time) &&
	       eat(&s, "\",\"prev\":\"") && eat_until(&s, '"', &out->prev) && out->prev.n == SHA256_HEX - 1 &&
	       eat(&s, "\",\"type\":\"") && eat_until(&s, '"', &out->type) && eat(&s, "\",\"by\":\"");
}

int scan_open(struct scan *s, int dirfd, struct err *e)
{
	*s = (struct scan){.dirfd = dirfd, .fd = -1, .in = BUF_INIT(4 * JOURNAL_LINE_MAX)};
	s->fd = segment_open(dirfd, 0, O_RDONLY, e);
	if (s->fd < 0 && e->sys == ENOENT)
		return err_set(e, ERR_NOT_FOUND, "there is no journal");
	return s->fd < 0 ? -1 : 0;
}

void scan_close(struct scan *s)
{
	close_fd(&s->fd);
	buf_done(&s->in);
}

// The segment is read to its end; what is left of it is no whole line. 1 = the next one is open, 0 = no more.
static int next_segment(struct scan *s, struct err *e)
{
	bool rest = s->in.n > s->at;
	struct err why;
	int fd = segment_open(s->dirfd, s->segment + 1, O_RDONLY, &why);
	if (fd < 0 && why.sys == ENOENT) {
		s->torn = rest;
		return 0;
	}
	if (fd < 0) {
		*e = why;
		return -1;
	}
	close_fd(&s->fd);
	s->fd = fd;
	s->segment++;
	if (rest)
		s->broken = "a segment ends inside a line";
	return !rest;
}

// Reads on. 1 = more bytes or the next segment, 0 = end of the journal.
static int scan_more(struct scan *s, struct err *e)
{
	buf_cut(&s->in, s->at);
	s->at = 0;
	if (s->in.n >= JOURNAL_LINE_MAX) {
		s->broken = "a line is longer than any event";
		return 0;
	}
	char *room = buf_room(&s->in, 2 * JOURNAL_LINE_MAX);
	ssize_t n;
	do
		n = read(s->fd, room, 2 * JOURNAL_LINE_MAX);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(e, "read the journal");
	s->in.n += (size_t)n;
	return n ? 1 : next_segment(s, e);
}

int scan_next(struct scan *s, struct str *out, struct err *e)
{
	for (;;) {
		const char *from = s->in.p ? s->in.p + s->at : NULL;
		const char *nl = s->in.n > s->at ? memchr(from, '\n', s->in.n - s->at) : NULL;
		if (nl) {
			*out = (struct str){from, (size_t)(nl - from)};
			s->at += out->n + 1;
			if (out->n < JOURNAL_LINE_MAX)
				return 1;
			s->broken = "a line is longer than any event";
			return 0;
		}
		int rc = s->broken || s->torn ? 0 : scan_more(s, e);
		if (rc <= 0)
			return rc;
	}
}
