// SPDX-License-Identifier: Apache-2.0
// The readers: verify, tail, find. They take no lock and trust nothing but the anchor they are given.
#include "base/mem.h"
#include "journal/segment_int.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct chain {
	uint64_t seq;	       // of the line before
	char head[SHA256_HEX]; // its hash
	uint64_t line;	       // lines seen
	bool doubt;	       // it does not continue the line before it: the next one tells which is false
	uint64_t anchor_seq;
	const char *anchor_hash;
	struct journal_report *r;
};

// Always false, so that a finding is one line. A reason cut short is still one.
#define BAD(c, at, ...) (found((c)->r, at), (void)!fmt_to((c)->r->reason, sizeof(c)->r->reason, __VA_ARGS__), false)

static void found(struct journal_report *r, uint64_t line)
{
	r->ok = false;
	r->line = line;
}

static bool seq_fits(struct chain *c, uint64_t seq)
{
	unsigned long long want = c->seq + 1, got = seq;
	if (got == want)
		return true;
	if (got < want)
		return BAD(c, c->line, "event %llu stands after event %llu: repeated or out of order", got, want - 1);
	return BAD(c, c->line, "event %llu is missing or out of order: event %llu stands in its place", want, got);
}

// The last line seen and the one before do not fit. The last is sound when the next one points to it.
static bool settle(struct chain *c, const struct line_head *next)
{
	bool sound = !next || str_is(next->prev, c->head);
	return BAD(c, c->line - sound, "event %llu was changed", (unsigned long long)c->seq - sound);
}

static bool check_line(struct chain *c, struct str text)
{
	struct line_head h;
	bool is_event = line_parse(text, &h);
	if (c->doubt)
		return settle(c, is_event ? &h : NULL);
	c->line++;
	if (!is_event)
		return BAD(c, c->line, "not an event");
	if (!seq_fits(c, h.seq))
		return false;
	bool fits = str_is(h.prev, c->head);
	if (!fits && h.seq == 1)
		return BAD(c, c->line, "event 1 was changed");
	c->doubt = !fits;
	sha256_hex(text.p, text.n, c->head);
	c->seq = h.seq;
	if (fits && h.seq == c->anchor_seq && strcmp(c->head, c->anchor_hash))
		return BAD(c, c->line, "event %llu is not the one that was recorded", (unsigned long long)h.seq);
	return true;
}

static bool check_end(struct chain *c, const struct scan *s)
{
	unsigned long long last = c->seq, anchor = c->anchor_seq;
	if (c->doubt)
		return settle(c, NULL);
	if (s->broken)
		return BAD(c, c->line + 1, "%s", s->broken);
	if (last < anchor)
		return BAD(c, c->line + 1, "the end is cut off: event %llu is recorded, the last one here is %llu",
			   anchor, last);
	if (s->torn) {
		c->r->torn = true;
		return !fmt_to(c->r->reason, sizeof c->r->reason, "incomplete last line");
	}
	return true;
}

int journal_verify(int dirfd, uint64_t anchor_seq, const char *anchor_hash, struct journal_report *out, struct err *e)
{
	struct journal_report r = {.ok = true};
	struct chain c = {.head = JOURNAL_ZERO_HASH, .anchor_seq = anchor_seq, .anchor_hash = anchor_hash, .r = &r};
	struct scan s;
	struct str line;
	int rc = scan_open(&s, dirfd, e);
	if (rc && e->kind == ERR_NOT_FOUND && anchor_seq) {
		r.ok = BAD(&c, 1, "the journal is missing: event %llu is recorded", (unsigned long long)anchor_seq);
		*out = r;
		return 0;
	}
	if (rc)
		return -1;
	while ((rc = scan_next(&s, &line, e)) == 1 && check_line(&c, line))
		;
	if (rc == 0)
		check_end(&c, &s);
	scan_close(&s);
	if (rc < 0)
		return -1;
	r.events = r.ok ? c.line : r.line - 1;
	*out = r;
	return 0;
}

// Opens the segment that holds the absolute offset *at, which becomes the offset in it.
static int segment_at(int dirfd, uint64_t *at, unsigned *out_n, struct err *e)
{
	for (unsigned n = 0;; n++) {
		struct stat st;
		auto_fd int fd = segment_open(dirfd, n, O_RDONLY, e);
		if (fd < 0 && e->sys == ENOENT)
			return n ? err_set(e, ERR_INVALID, "offset past the journal's end")
				 : err_set(e, ERR_NOT_FOUND, "there is no journal");
		if (fd < 0)
			return -1;
		if (fstat(fd, &st))
			return err_sys(e, "stat the journal");
		// The end of one segment and the start of the next are one offset; either will do.
		if (*at <= (uint64_t)st.st_size) {
			*out_n = n;
			return take_fd(&fd);
		}
		*at -= (uint64_t)st.st_size;
	}
}

// Whole lines of one segment from `at` on, as many as fit. The count of bytes added, or -1.
static ssize_t tail_segment(int fd, uint64_t at, struct buf *out, struct err *e)
{
	size_t start = out->n;
	while (out->n < out->max) {
		size_t want = out->max - out->n < 65536 ? out->max - out->n : 65536;
		char *room = buf_room(out, want);
		ssize_t n = pread(fd, room, want, (off_t)(at + out->n - start));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "read the journal");
		if (!n)
			break;
		out->n += (size_t)n;
	}
	const char *nl = out->n > start ? memrchr(out->p + start, '\n', out->n - start) : NULL;
	out->n = nl ? (size_t)(nl - out->p) + 1 : start;
	if (out->p)
		out->p[out->n] = 0;
	return (ssize_t)(out->n - start);
}

// The next segment, -1 when there is none or, then with *e filled, when it can not be opened.
static int segment_after(int dirfd, unsigned n, bool *out_failed, struct err *e)
{
	struct err why;
	int fd = segment_open(dirfd, n + 1, O_RDONLY, &why);
	*out_failed = fd < 0 && why.sys != ENOENT;
	if (*out_failed)
		*e = why;
	return fd;
}

int journal_tail(int dirfd, uint64_t offset, struct buf *out, uint64_t *out_end, struct err *e)
{
	uint64_t at = offset, end = offset;
	unsigned n = 0;
	bool failed = false;
	auto_fd int fd = segment_at(dirfd, &at, &n, e);
	if (fd < 0)
		return -1;
	while (fd >= 0) {
		struct stat st;
		ssize_t added = tail_segment(fd, at, out, e);
		if (added < 0)
			return -1;
		end += (uint64_t)added;
		if (fstat(fd, &st))
			return err_sys(e, "stat the journal");
		uint64_t left = (uint64_t)st.st_size - at - (uint64_t)added;
		if (left && end == offset && left >= out->max - out->n)
			return err_set(e, ERR_LIMIT, "a journal line is longer than the answer may be");
		if (left)
			break; // no room for another line, or it is incomplete
		close_fd(&fd);
		fd = segment_after(dirfd, n++, &failed, e);
		at = 0;
	}
	if (failed)
		return -1;
	*out_end = end;
	return 0;
}

int journal_find(int dirfd, const char *type, bool (*fn)(struct str line, void *arg), void *arg, struct err *e)
{
	struct scan s;
	struct str line;
	struct line_head h;
	int rc;
	if (scan_open(&s, dirfd, e))
		return -1;
	while ((rc = scan_next(&s, &line, e)) == 1)
		if (line_parse(line, &h) && (!type || str_is(h.type, type)) && !fn(line, arg))
			break;
	scan_close(&s);
	return rc < 0 ? -1 : 0;
}
