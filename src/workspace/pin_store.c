// SPDX-License-Identifier: Apache-2.0
// Writes P: HEAD, and over it what differs in index and work tree, in one stream to git fast-import. Files are opened
// beneath the work tree without following links, and judged by descriptor.
#include "workspace/pin_int.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES 3 // of a file that changes while it is read

static void escaped(struct buf *b, const char *s)
{
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			buf_byte(b, '\\');
		if (*s == '\n')
			buf_str(b, "\\n");
		else
			buf_byte(b, *s);
	}
}

void pin_quote(struct buf *b, const char *prefix, const char *path)
{
	buf_byte(b, '"');
	escaped(b, prefix);
	escaped(b, path);
	buf_byte(b, '"');
}

static int feed(int in, const struct buf *b, struct err *e)
{
	return b->overflow ? err_set(e, ERR_LIMIT, "a path is too long") : fs_write_all(in, b->p, b->n, e);
}

static int remove_path(int in, const char *path, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(64u << 10);
	buf_str(&b, "D ");
	pin_quote(&b, "", path);
	buf_byte(&b, '\n');
	return feed(in, &b, e);
}

static void skip(struct pin *p, const char *path, const char *why)
{
	auto_free char *s = xasprintf("%s: %s", path, why);
	if (strv_len(p->skipped) < 100)
		strv_add(&p->skipped, s);
}

static int put_head(int in, const char *mode, const char *path, uint64_t size, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(64u << 10);
	buf_fmt(&b, "M %s inline ", mode);
	pin_quote(&b, "", path);
	buf_fmt(&b, "\ndata %llu\n", (unsigned long long)size);
	return feed(in, &b, e);
}

// Exactly `size` bytes go, as was promised; false when the file had not as many.
static int put_body(int fd, int in, uint64_t size, bool *whole, struct err *e)
{
	char block[65536];
	while (size) {
		size_t want = size < sizeof block ? (size_t)size : sizeof block;
		ssize_t n = *whole ? read(fd, block, want) : 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			*whole = false;
			memset(block, 0, want);
			n = (ssize_t)want;
		}
		if (fs_write_all(in, block, (size_t)n, e))
			return -1;
		size -= (uint64_t)n;
	}
	return fs_write_all(in, "\n", 1, e);
}

static bool is_still(int fd, const struct stat *was)
{
	struct stat st;
	return !fstat(fd, &st) && st.st_size == was->st_size && st.st_mtim.tv_sec == was->st_mtim.tv_sec &&
	       st.st_mtim.tv_nsec == was->st_mtim.tv_nsec;
}

// 1 stored, 0 changed while it was read, -1.
static int put_file(struct pin *p, int in, const char *path, int fd, const struct stat *st, struct err *e)
{
	bool whole = true;
	if ((uint64_t)st->st_size > PIN_FILE_MAX) {
		skip(p, path, "longer than what is recorded");
		return remove_path(in, path, e) ? -1 : 1;
	}
	if (put_head(in, st->st_mode & 0100 ? "100755" : "100644", path, (uint64_t)st->st_size, e) ||
	    put_body(fd, in, (uint64_t)st->st_size, &whole, e))
		return -1;
	return whole && is_still(fd, st);
}

static int put_link(int in, const char *path, int fd, struct err *e)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(fd, "", target, sizeof target);
	if (n < 0)
		return err_sys(e, "%s", path);
	return put_head(in, "120000", path, (uint64_t)n, e) || fs_write_all(in, target, (size_t)n, e) ||
			       fs_write_all(in, "\n", 1, e)
		       ? -1
		       : 1;
}

// Changed since the sandbox began, before it could be recorded: the index tells what it was, or nobody does. Taken for the
// base it would make the sandbox's older file look like a wish to take the change back.
static bool is_later(const struct pin *p, const struct stat *st)
{
	return p->t0_ns && (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec > p->t0_ns;
}

// What is there: a file or a link as it is; nothing, or anything else, as nothing.
static int put_once(struct pin *p, int in, const char *path, struct err *e)
{
	struct err why;
	struct stat st;
	auto_fd int at = fs_open_beneath(p->base_fd, path, O_PATH | O_NOFOLLOW, 0, &why);
	if (at < 0 || fstat(at, &st) || (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode)))
		return remove_path(in, path, e) ? -1 : 1;
	if (is_later(p, &st))
		return 1;
	if (S_ISLNK(st.st_mode))
		return put_link(in, path, at, e);
	auto_fd int fd = fs_open_beneath(p->base_fd, path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0, &why);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		skip(p, path, "it can not be read");
		return remove_path(in, path, e) ? -1 : 1;
	}
	return put_file(p, in, path, fd, &st, e);
}

static int put(struct pin *p, int in, const char *path, struct err *e)
{
	for (int i = 0; i < TRIES; i++) {
		int rc = put_once(p, in, path, e);
		if (rc)
			return rc < 0 ? -1 : 0;
	}
	skip(p, path, "it kept changing while it was read");
	return 0; // the last one that was read stays
}

// HEAD's tree, over it what the index has, over that what the work tree has.
static int put_all(struct pin *p, int in, const char *tree, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(4096);
	buf_fmt(&b,
		"feature done\ncommit " PIN_REF
		"\nmark :1\ncommitter skep <skep@localhost> %llu +0000\ndata 3\npin\ndeleteall\n",
		(unsigned long long)(clock_unix_ms() / 1000));
	if (tree)
		buf_fmt(&b, "M 040000 %s \"\"\n", tree);
	if (feed(in, &b, e) || (p->staged.n && feed(in, &p->staged, e)))
		return -1;
	for (size_t i = 0; i < p->gone.n; i++)
		if (remove_path(in, p->gone.v[i], e))
			return -1;
	for (size_t i = 0; i < p->paths.n; i++)
		if (put(p, in, p->paths.v[i], e))
			return -1;
	return fs_write_all(in, "\ndone\n", 6, e);
}

static int import(struct pin *p, const char *tree, struct err *e)
{
	int in;
	auto_git struct git_run g;
	struct err ended;
	pin_git(p, &g);
	// Always a pack: to write an object by itself would renew the time of the host's where it has the same one.
	git_args(&g, "-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", "--force", NULL);
	if (git_open(&g, &in, e))
		return -1;
	int rc = put_all(p, in, tree, e);
	close_fd(&in);
	if (git_finish(&g, &ended))
		return rc ? -1 : (*e = ended, -1);
	if (g.status) // it says better than a broken pipe what was wrong
		return err_set(e, strstr(buf_cstr(&g.err), "No space left") ? ERR_LIMIT : ERR_SYSTEM,
			       "git fast-import: %.300s", git_said(&g));
	return rc;
}

int pin_tree(struct pin *p, const char *rev, char **out, struct err *e)
{
	auto_git struct git_run g;
	pin_git(p, &g);
	git_args(&g, "rev-parse", "--verify", rev, NULL);
	if (git_must(&g, e))
		return -1;
	*out = xstrdup(git_output(&g));
	return 0;
}

int pin_store(struct pin *p, char **out_tree, struct err *e)
{
	return fault(FAULT_PIN_STORE, e) || import(p, p->tree, e) ? -1 : pin_tree(p, PIN_REF "^{tree}", out_tree, e);
}
