// SPDX-License-Identifier: Apache-2.0
// What is in files: reading, and writing that is seen whole or not at all.
#include "init/files_int.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EDIT_MAX (64u << 20) // a longer file is not edited as text
#define EDITS_MAX 1000

int copy_bytes(int in, int out, struct err *e)
{
	static char chunk[256 << 10];
	for (;;) {
		ssize_t n = read(in, chunk, sizeof chunk);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "read");
		if (!n)
			return 0;
		if (fs_write_all(out, chunk, (size_t)n, e))
			return -1;
	}
}

// --- reading ---

// O_NONBLOCK: the opening of a pipe or a device must not wait.
static int open_regular(const char *path, struct stat *st, struct err *e)
{
	auto_fd int fd = fs_open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0, e);
	if (fd < 0)
		return -1;
	if (fstat(fd, st))
		return err_sys(e, "%s", path);
	if (S_ISDIR(st->st_mode))
		return err_no(e, EISDIR, "%s is a directory", path);
	return S_ISREG(st->st_mode) ? take_fd(&fd) : err_set(e, ERR_INVALID, "%s is not a regular file", path);
}

static int copy_part(int fd, uint64_t from, uint64_t len, struct err *e)
{
	static char chunk[256 << 10];
	while (len) {
		ssize_t n = pread(fd, chunk, len < sizeof chunk ? (size_t)len : sizeof chunk, (off_t)from);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "read");
		if (!n)
			return 0;
		if (fs_write_all(1, chunk, (size_t)n, e))
			return -1;
		from += (uint64_t)n;
		len -= (uint64_t)n;
	}
	return 0;
}

static int read_file(char *const *a, bool record, struct err *e)
{
	static const char *const known[] = {"from=", "len=", NULL};
	struct stat st;
	uint64_t from = 0, len = UINT64_MAX, last = 0;
	const char *v = word_value(a + 1, "from=");
	if (words_only(a + 1, known, e) || word_u64(a + 1, "len=", &len, e))
		return -1;
	if (v && str_to_u64(str_of(*v == '-' ? v + 1 : v), 0, INT64_MAX, *v == '-' ? &last : &from))
		return err_set(e, ERR_INVALID, "from=%s is no whole number", v);
	auto_fd int fd = open_regular(a[0], &st, e);
	if (fd < 0)
		return -1;
	if (v && *v == '-')
		from = (uint64_t)st.st_size > last ? (uint64_t)st.st_size - last : 0;
	if (record) {
		auto_buf struct buf b = BUF_INIT(16 << 10);
		record_of(&b, AT_FDCWD, a[0], a[0], &st);
		if (fs_write_all(1, b.p, b.n, e))
			return -1;
		// what the record promised, however the file grows
		uint64_t left = (uint64_t)st.st_size > from ? (uint64_t)st.st_size - from : 0;
		len = len < left ? len : left;
	}
	return copy_part(fd, from, len, e);
}

int op_read(char *const *a, struct err *e)
{
	return read_file(a, false, e);
}

int op_get(char *const *a, struct err *e)
{
	return read_file(a, true, e);
}

// --- replacing ---

static const char *unfinished; // goes when the job is told to end

static void on_term(int sig)
{
	if (unfinished)
		unlink(unfinished);
	_exit(128 + sig);
}

int make_parents(const char *path, struct err *e)
{
	auto_free char *dir = xstrdup(path);
	char *slash = strrchr(dir, '/');
	if (!slash || slash == dir)
		return 0;
	*slash = 0;
	return fs_mkdirs(AT_FDCWD, dir, 0777, e);
}

static int check_old(struct replacing *r, char *const *words, struct err *e)
{
	const char *want = word_value(words, "etag=");
	char etag[FILE_ETAG] = "";
	if (stat(r->target, &r->was)) {
		r->was = (struct stat){0};
		if (errno != ENOENT)
			return err_sys(e, "%s", r->target);
	}
	if (S_ISDIR(r->was.st_mode))
		return err_no(e, EISDIR, "%s is a directory", r->target);
	if (r->was.st_mode && !S_ISREG(r->was.st_mode))
		return err_set(e, ERR_INVALID, "%s is not a regular file", r->target);
	if (r->was.st_mode && word(words, "new"))
		return err_no(e, EEXIST, "%s exists", r->target);
	struct file_record rec = {.inode = r->was.st_ino, .size = (uint64_t)r->was.st_size,
				  .mtime_ns = (uint64_t)r->was.st_mtim.tv_sec * 1000000000u + (uint64_t)r->was.st_mtim.tv_nsec};
	if (r->was.st_mode)
		file_etag(&rec, etag);
	if (want && (strcmp(want, "*") ? strcmp(want, etag) : !*etag))
		return err_no(e, ESTALE, "%s is not as it was: read it again", r->target);
	return 0;
}

static int open_tmp(struct replacing *r, mode_t mode, struct err *e)
{
	const char *slash = strrchr(r->target, '/');
	int dir = slash ? (int)(slash - r->target) + 1 : 0;
	r->tmp = xasprintf("%.*s.skep-%d-%.100s", dir, r->target, (int)getpid(), r->target + dir);
	r->fd = open(r->tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (r->fd >= 0) {
		signal(SIGTERM, on_term);
		unfinished = r->tmp;
		return 0;
	}
	int why = errno;
	free(r->tmp);
	r->tmp = NULL;
	if (r->was.st_mode && (why == EACCES || why == EROFS)) {
		r->in_place = true;
		r->fd = open(r->target, O_WRONLY | O_TRUNC | O_CLOEXEC);
		why = errno;
	}
	errno = why;
	return r->fd < 0 ? err_sys(e, "write %s", r->target) : 0;
}

int replace_begin(struct replacing *r, const char *path, char *const *words, struct err *e)
{
	bool given;
	mode_t mode = 0666; // the umask cuts it
	*r = (struct replacing){.fd = -1};
	if (word_mode(words, &mode, &given, e) || (word(words, "parents") && make_parents(path, e)))
		return -1;
	r->target = realpath(path, NULL);
	if (!r->target)
		r->target = xstrdup(path);
	if (check_old(r, words, e))
		return -1;
	if (r->was.st_mode && !given)
		mode = r->was.st_mode & 07777;
	if (open_tmp(r, given || r->was.st_mode ? 0600 : mode, e))
		return -1;
	if (r->in_place)
		return given && fchmod(r->fd, mode) ? err_sys(e, "mode of %s", r->target) : 0;
	if (r->was.st_mode && (r->was.st_uid != geteuid() || r->was.st_gid != getegid()))
		(void)!fchown(r->fd, r->was.st_uid, r->was.st_gid); // who may not give it away becomes its owner
	if ((given || r->was.st_mode) && fchmod(r->fd, mode))
		return err_sys(e, "mode of %s", r->target);
	return 0;
}

int replace_end(struct replacing *r, struct err *e)
{
	if (r->tmp) {
		if (rename(r->tmp, r->target))
			return err_sys(e, "rename to %s", r->target);
		unfinished = NULL;
		free(r->tmp);
		r->tmp = NULL;
	}
	return 0;
}

void replace_done(struct replacing *r)
{
	unfinished = NULL;
	if (r->tmp)
		unlink(r->tmp);
	close_fd(&r->fd);
	free(r->tmp);
	free(r->target);
}

int op_write(char *const *a, struct err *e)
{
	static const char *const known[] = {"mode=", "parents", "new", "etag=", NULL};
	auto_replacing struct replacing r = {.fd = -1};
	if (words_only(a + 1, known, e) || replace_begin(&r, a[0], a + 1, e))
		return -1;
	if (copy_bytes(0, r.fd, e) || replace_end(&r, e))
		return -1;
	return record_put(AT_FDCWD, r.target, a[0], true, e);
}

int op_append(char *const *a, struct err *e)
{
	static const char *const known[] = {"mode=", "parents", NULL};
	bool given;
	mode_t mode = 0666;
	struct stat st;
	if (words_only(a + 1, known, e) || word_mode(a + 1, &mode, &given, e) || (word(a + 1, "parents") && make_parents(a[0], e)))
		return -1;
	auto_fd int fd = fs_open(AT_FDCWD, a[0], O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK, mode, e);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "%s is not a regular file", a[0]);
	return copy_bytes(0, fd, e) ? -1 : record_put(AT_FDCWD, a[0], a[0], true, e);
}

// --- exact replacement ---

struct edited {
	struct buf text;
	uint64_t replaced, line;
};

static uint64_t line_at(const char *p, size_t n)
{
	uint64_t line = 1;
	for (size_t i = 0; i < n; i++)
		line += p[i] == '\n';
	return line;
}

static int edit_one(struct edited *ed, struct str old, struct str put, bool all, struct err *e)
{
	struct buf out = BUF_INIT(EDIT_MAX);
	const char *p = buf_cstr(&ed->text), *end = p + ed->text.n, *hit, *first = NULL;
	uint64_t n = 0;
	if (!old.n)
		return err_set(e, ERR_INVALID, "the text to replace is empty");
	for (const char *at = p; (hit = memmem(at, (size_t)(end - at), old.p, old.n)); at = hit + old.n) {
		first = first ? first : hit;
		n++;
	}
	if (!n)
		return err_no(e, ENOMSG, "the text to replace is not in the file: read it again, and give it exactly, with its spaces");
	if (n > 1 && !all)
		return err_no(e, ENOTUNIQ, "the text to replace is there %llu times: give more of what stands around it, or replace all",
			      (unsigned long long)n);
	if (!ed->replaced)
		ed->line = line_at(p, (size_t)(first - p));
	while ((hit = memmem(p, (size_t)(end - p), old.p, old.n))) {
		buf_add(&out, p, (size_t)(hit - p));
		buf_add(&out, put.p, put.n);
		p = hit + old.n;
	}
	buf_add(&out, p, (size_t)(end - p));
	bool over = out.overflow;
	buf_done(&ed->text);
	ed->text = out;
	ed->replaced += n;
	return over ? err_set(e, ERR_LIMIT, "the file would be longer than %u bytes", EDIT_MAX) : 0;
}

static int edit_all(struct edited *ed, struct wire *w, struct err *e)
{
	uint32_t n = wire_get_u32(w);
	if (w->bad || !n || n > EDITS_MAX)
		return err_set(e, ERR_INVALID, "1 to %d replacements", EDITS_MAX);
	for (uint32_t i = 0; i < n; i++) {
		struct str old, put;
		old.p = (const char *)wire_get_bytes(w, &old.n);
		put.p = (const char *)wire_get_bytes(w, &put.n);
		bool all = wire_get_u8(w);
		if (w->bad)
			return err_set(e, ERR_INVALID, "malformed replacements");
		if (edit_one(ed, old, put, all, e))
			return n > 1 ? err_wrap(e, "replacement %u", i + 1) : -1;
	}
	return 0;
}

static int edit_file(char *const *a, struct edited *ed, struct err *e)
{
	auto_buf struct buf in = BUF_INIT(EDIT_MAX), answer = BUF_INIT(64);
	struct stat st;
	if (fs_read_fd(0, &in, e))
		return -1;
	auto_fd int fd = open_regular(a[0], &st, e);
	if (fd < 0 || fs_read_fd(fd, &ed->text, e))
		return -1;
	struct wire w = {.p = (const uint8_t *)in.p, .n = in.n};
	if (edit_all(ed, &w, e))
		return -1;
	auto_replacing struct replacing r = {.fd = -1};
	if (replace_begin(&r, a[0], a + 1, e))
		return -1;
	if (r.was.st_ino != st.st_ino || r.was.st_mtim.tv_nsec != st.st_mtim.tv_nsec || r.was.st_mtim.tv_sec != st.st_mtim.tv_sec)
		return err_no(e, ESTALE, "%s changed meanwhile: read it again", a[0]);
	if (fs_write_all(r.fd, ed->text.p, ed->text.n, e) || replace_end(&r, e))
		return -1;
	wire_u64(&answer, ed->replaced);
	wire_u64(&answer, ed->line);
	return fs_write_all(1, answer.p, answer.n, e) ? -1 : record_put(AT_FDCWD, r.target, a[0], true, e);
}

int op_edit(char *const *a, struct err *e)
{
	static const char *const known[] = {"etag=", NULL};
	struct edited ed = {.text = BUF_INIT(EDIT_MAX)};
	int rc = words_only(a + 1, known, e) ? -1 : edit_file(a, &ed, e);
	buf_done(&ed.text);
	return rc;
}
