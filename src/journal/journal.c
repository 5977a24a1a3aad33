// SPDX-License-Identifier: Apache-2.0
// The writer: lock, recovery of the end, append, segments.
#include "journal/journal.h"

#include "base/clock.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "journal/segment_int.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define APPEND (O_RDWR | O_APPEND)

// Offset after the last newline that stands before `end`; 0 when there is none. A power cut may leave any
// length of zeros at the end, so this looks back as far as it takes.
static int after_newline(int fd, uint64_t end, uint64_t *out, struct err *e)
{
	char block[8192];
	while (end) {
		size_t n = end < sizeof block ? (size_t)end : sizeof block;
		ssize_t got = pread(fd, block, n, (off_t)(end - n));
		if (got != (ssize_t)n)
			return got < 0 ? err_sys(e, "read the journal") : err_set(e, ERR_SYSTEM, "the journal shrank");
		const char *nl = memrchr(block, '\n', n);
		if (nl) {
			*out = end - n + (size_t)(nl - block) + 1;
			return 0;
		}
		end -= n;
	}
	*out = 0;
	return 0;
}

// Takes seq and head from the whole line that ends at `whole`.
static int read_head(struct journal *j, int fd, uint64_t whole, struct err *e)
{
	uint64_t start;
	struct line_head h;
	if (after_newline(fd, whole - 1, &start, e))
		return -1;
	size_t n = (size_t)(whole - 1 - start);
	if (whole - 1 - start >= JOURNAL_LINE_MAX)
		return err_set(e, ERR_INVALID, "the journal's last line is damaged");
	auto_free char *line = xcalloc(n + 1, 1);
	if (pread(fd, line, n, (off_t)start) != (ssize_t)n)
		return err_sys(e, "read the journal");
	if (!line_parse((struct str){line, n}, &h))
		return err_set(e, ERR_INVALID, "the journal's last line is damaged");
	j->seq = h.seq;
	sha256_hex(line, n, j->head);
	return 0;
}

// A segment that was begun and never written: the last line stands in the one before.
static int head_of_previous(struct journal *j, struct err *e)
{
	struct stat st;
	uint64_t whole;
	auto_fd int fd = segment_open(j->dirfd, j->segment - 1, O_RDONLY, e);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st))
		return err_sys(e, "stat the journal");
	if (after_newline(fd, (uint64_t)st.st_size, &whole, e))
		return -1;
	if (!whole || whole != (uint64_t)st.st_size)
		return err_set(e, ERR_INVALID, "segment %u of the journal is damaged", j->segment - 1);
	return read_head(j, fd, whole, e);
}

// Finds the end of the chain in the newest segment and cuts an incomplete line after it.
static int find_head(struct journal *j, uint64_t *out_cut, struct err *e)
{
	struct stat st;
	uint64_t whole;
	if (fstat(j->fd, &st))
		return err_sys(e, "stat the journal");
	if (after_newline(j->fd, (uint64_t)st.st_size, &whole, e))
		return -1;
	if (whole ? read_head(j, j->fd, whole, e) : j->segment ? head_of_previous(j, e) : 0)
		return -1;
	*out_cut = (uint64_t)st.st_size - whole;
	if (*out_cut && ftruncate(j->fd, (off_t)whole))
		return err_sys(e, "cut the journal's incomplete last line");
	j->segment_bytes = whole;
	j->bytes += whole;
	j->unsynced_dir = !st.st_size;
	return 0;
}

static int lock_first(struct journal *j, struct err *e)
{
	struct flock lk = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	j->lock = segment_open(j->dirfd, 0, APPEND | O_CREAT, e);
	if (j->lock < 0)
		return -1;
	if (!fcntl(j->lock, F_OFD_SETLK, &lk))
		return 0;
	if (errno == EAGAIN || errno == EACCES)
		return err_set(e, ERR_CONFLICT, "another process writes this journal");
	return err_sys(e, "lock the journal");
}

// Leaves the newest segment in j->fd and the bytes of all before it in j->bytes.
static int open_newest(struct journal *j, struct err *e)
{
	struct err none;
	struct stat st;
	j->fd = fcntl(j->lock, F_DUPFD_CLOEXEC, 3);
	if (j->fd < 0)
		return err_sys(e, "open the journal");
	for (;;) {
		int next = segment_open(j->dirfd, j->segment + 1, APPEND, &none);
		if (next < 0 && none.sys == ENOENT)
			return 0;
		if (next < 0) {
			*e = none;
			return -1;
		}
		int rc = fstat(j->fd, &st);
		close_fd(&j->fd);
		j->fd = next;
		j->segment++;
		if (rc)
			return err_sys(e, "stat the journal");
		j->bytes += (uint64_t)st.st_size;
	}
}

int journal_open(struct journal *j, int dirfd, struct err *e)
{
	uint64_t cut = 0;
	*j = (struct journal){.is_open = true, .fd = -1, .lock = -1, .head = JOURNAL_ZERO_HASH,
			      .segment_max = JOURNAL_SEGMENT};
	j->dirfd = fcntl(dirfd, F_DUPFD_CLOEXEC, 3);
	int rc = j->dirfd < 0 ? err_sys(e, "open the sandbox's directory") : 0;
	if (!rc)
		rc = lock_first(j, e) || open_newest(j, e) || find_head(j, &cut, e);
	if (!rc && cut) {
		char body[48];
		rc = fmt_to(body, sizeof body, "\"bytes\":%llu", (unsigned long long)cut);
		if (!rc)
			rc = journal_append(j, "journal.recovered", "skep", body, false, e);
	}
	if (rc)
		journal_close(j);
	return rc ? -1 : 0;
}

int journal_go_on(struct journal *j, uint64_t anchor_seq, const char *anchor_hash, struct err *e)
{
	char body[48];
	uint64_t had = j->seq;
	if (had > anchor_seq || (had == anchor_seq && (!had || !strcmp(j->head, anchor_hash))))
		return 0;
	if (had == anchor_seq ? fmt_to(body, sizeof body, "\"changed\":true")
			      : fmt_to(body, sizeof body, "\"missing\":%llu", (unsigned long long)(anchor_seq - had)))
		return err_set(e, ERR_BUG, "journal.recovered does not fit");
	j->seq = anchor_seq;
	memcpy(j->head, anchor_hash, SHA256_HEX);
	return journal_append(j, "journal.recovered", "skepd", body, false, e);
}

void journal_close(struct journal *j)
{
	if (!j->is_open)
		return;
	close_fd(&j->fd);
	close_fd(&j->lock);
	close_fd(&j->dirfd);
	j->is_open = false;
}

static void format_line(const struct journal *j, const char *type, const char *by, const char *body, struct buf *b)
{
	struct jsonw w = {.b = b};
	char time[32];
	clock_iso(clock_unix_ms(), time);
	jw_open(&w, '{');
	jw_ku64(&w, "seq", j->seq + 1);
	jw_kstr(&w, "time", time);
	jw_kstr(&w, "prev", j->head);
	jw_key(&w, "type");
	jw_str(&w, type, strlen(type));
	jw_key(&w, "by");
	jw_str(&w, by, strlen(by));
	if (body && *body)
		jw_raw(&w, body);
	jw_close(&w, '}');
	buf_byte(b, '\n');
}

static int cut_piece(struct journal *j, struct err *e)
{
	if (j->unclean && ftruncate(j->fd, (off_t)j->segment_bytes))
		return err_sys(e, "cut an incomplete line of the journal");
	j->unclean = false;
	return 0;
}

static int begin_segment(struct journal *j, struct err *e)
{
	int fd = segment_open(j->dirfd, j->segment + 1, APPEND | O_CREAT | O_EXCL, e);
	if (fd < 0)
		return -1;
	// What was appended with no sync must not come after what will be: the chain has one order.
	if (fdatasync(j->fd)) {
		close_fd(&fd);
		return err_sys(e, "sync a segment of the journal");
	}
	close_fd(&j->fd);
	j->fd = fd;
	j->segment++;
	j->segment_bytes = 0;
	j->unsynced_dir = true;
	return 0;
}

static int write_line(struct journal *j, const struct buf *line, struct err *e)
{
	ssize_t n;
	do
		n = write(j->fd, line->p, line->n);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)line->n) {
		j->segment_bytes += line->n;
		j->bytes += line->n;
		return 0;
	}
	if (n >= 0) {
		struct err cut; // a piece that stays now is cut before the next append
		j->unclean = true;
		(void)!cut_piece(j, &cut);
		errno = ENOSPC;
	}
	return err_sys(e, "append to the journal");
}

static int sync_now(struct journal *j, struct err *e)
{
	if (fdatasync(j->fd) || (j->unsynced_dir && fsync(j->dirfd)))
		return err_sys(e, "sync the journal");
	j->unsynced_dir = false;
	return 0;
}

int journal_append(struct journal *j, const char *type, const char *by, const char *body, bool durable, struct err *e)
{
	auto_buf struct buf line = BUF_INIT(JOURNAL_LINE_MAX);
	if (body && strchr(body, '\n'))
		return err_set(e, ERR_BUG, "the body of a journal event must be one line");
	if (cut_piece(j, e))
		return -1;
	if (j->segment_bytes >= j->segment_max && begin_segment(j, e))
		return -1;
	format_line(j, type, by, body, &line);
	if (line.overflow) {
		buf_clear(&line);
		format_line(j, type, by, "\"truncated\":true", &line);
	}
	if (line.overflow)
		return err_set(e, ERR_INVALID, "type or author of a journal event is too long");
	if (write_line(j, &line, e))
		return -1;
	sha256_hex(line.p, line.n - 1, j->head);
	j->seq++;
	return durable ? sync_now(j, e) : 0;
}
