// SPDX-License-Identifier: Apache-2.0
// search: lines of files that fit an expression, or names of files that fit a glob.
//
//   regex=R    POSIX extended, with \d \w \s \b; literal: R is meant as it stands; nocase
//   glob=G     only these files (several: any of them); without a slash: of their last part. not=G: not these
//   hidden     also what begins with a dot; .git never
//   files      the files' names instead of their lines
//   limit=N    hits; ms=N how long at most
//
// Each hit: str path relative to DIR, u64 line (0: the file itself), u64 column, bytes of the line (at most LINE_SHOWN).
// Last: str NULL, u64 files looked at, u8 1: there is more.
// Files with a NUL in their first bytes are no text and are left out, as are those longer than FILE_LONG.
#include "init/files_int.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/glob.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define LINE_SHOWN 1000
#define LINE_LONG (1u << 20) // a longer line is cut into such pieces
#define FILE_LONG (256u << 20)
#define DEPTH_MAX 200
#define MS_MAX 60000
#define OUT_ROOM (64u << 10)
#define REGEX_MAX 4096
#define REGEX_COPIES (REGEX_MAX + 4096u) // of single characters, with counted repeats written out

struct search {
	regex_t re;
	bool has_re, compiled, hidden, names, more;
	char **globs, **nots;
	uint64_t limit, until, hits, files;
	struct buf out, line;
};

static bool over(struct search *s)
{
	if (s->hits >= s->limit || clock_ms() > s->until)
		s->more = true;
	return s->more;
}

// One line may take an expression longer than all of the time there is. Nothing of the search changes in regexec, so its
// result is sent from the handler, and the process, which is the search's own, ends.
static struct search *volatile matching;

static int search_end(struct search *s, struct err *e);

static void on_time(int sig)
{
	struct search *s = matching;
	struct err ignored;
	(void)sig;
	if (!s)
		return; // between two lines the clock is looked at
	s->more = true;
	_exit(search_end(s, &ignored) ? 1 : 0);
}

// Repeated, so that it does not come between two lines only.
static void watch_time(uint64_t ms)
{
	struct itimerval t = {.it_interval.tv_usec = 50000, .it_value = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000)}};
	sigset_t set;
	if (!ms)
		t.it_value.tv_usec = 1;
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_time, .sa_flags = SA_RESTART}, NULL);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	setitimer(ITIMER_REAL, &t, NULL);
}

static int flush(struct search *s, size_t above, struct err *e)
{
	if (s->out.n <= above)
		return 0;
	int rc = fs_write_all(1, s->out.p, s->out.n, e);
	buf_clear(&s->out);
	return rc;
}

static int search_end(struct search *s, struct err *e)
{
	wire_str(&s->out, NULL);
	wire_u64(&s->out, s->files);
	wire_u8(&s->out, s->more);
	return flush(s, 0, e);
}

static int hit(struct search *s, const char *path, uint64_t line, uint64_t col, struct str text, struct err *e)
{
	s->hits++;
	wire_str(&s->out, path);
	wire_u64(&s->out, line);
	wire_u64(&s->out, col);
	wire_bytes(&s->out, text.p, text.n < LINE_SHOWN ? text.n : LINE_SHOWN);
	return flush(s, OUT_ROOM / 2, e);
}

static int look_line(struct search *s, const char *path, uint64_t number, struct err *e)
{
	regmatch_t m;
	size_t n = s->line.n;
	if (n && s->line.p[n - 1] == '\r')
		n--;
	matching = s;
	int differs = regexec(&s->re, buf_cstr(&s->line), 1, &m, 0);
	matching = NULL;
	if (differs)
		return 0;
	return hit(s, path, number, (uint64_t)m.rm_so + 1, (struct str){s->line.p, n}, e);
}

// Lines that span reads are put together; a NUL ends a line's text for the expression, as it would for grep.
static int look_bytes(struct search *s, const char *path, int fd, struct err *e)
{
	static char chunk[64 << 10];
	uint64_t number = 1, before = s->hits;
	ssize_t n;
	bool first = true;
	buf_clear(&s->line);
	while ((n = read(fd, chunk, sizeof chunk)) > 0 && !over(s)) {
		if (first && memchr(chunk, 0, (size_t)(n < 8192 ? n : 8192)))
			return 0;
		first = false;
		for (char *p = chunk, *end = chunk + n; p < end && !over(s);) {
			char *nl = memchr(p, '\n', (size_t)(end - p));
			size_t part = (size_t)((nl ? nl : end) - p);
			if (s->line.n + part > LINE_LONG)
				buf_clear(&s->line);
			buf_add(&s->line, p, part);
			p += part + (nl != NULL);
			if (!nl)
				break;
			if (look_line(s, path, number++, e))
				return -1;
			buf_clear(&s->line);
			if (s->names && s->hits > before)
				return 0;
		}
	}
	return s->line.n && !over(s) ? look_line(s, path, number, e) : 0;
}

static bool fits(char *const *globs, const char *path)
{
	for (; globs && *globs; globs++)
		if (glob_fit(*globs, path) == GLOB_FITS)
			return true;
	return false;
}

static int look_file(struct search *s, int dir, const char *name, const char *path, const struct stat *st, struct err *e)
{
	if ((s->globs && !fits(s->globs, path)) || over(s))
		return 0;
	s->files++;
	if (!s->has_re)
		return hit(s, path, 0, 0, (struct str){"", 0}, e);
	if (st->st_size > FILE_LONG)
		return 0;
	auto_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? 0 : look_bytes(s, path, fd, e); // what may not be read is not looked at
}

static int look_dir(struct search *s, int fd, const char *rel, int depth, struct err *e);

static int look_entry(struct search *s, int dir, const char *rel, const char *name, int depth, struct err *e)
{
	struct stat st;
	if (!strcmp(name, ".git") || (*name == '.' && !s->hidden) || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return 0;
	auto_free char *path = xasprintf("%s%s%s", rel, *rel ? "/" : "", name);
	if (fits(s->nots, path))
		return 0;
	if (S_ISREG(st.st_mode))
		return look_file(s, dir, name, path, &st, e);
	if (!S_ISDIR(st.st_mode) || depth >= DEPTH_MAX)
		return 0;
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? 0 : look_dir(s, fd, path, depth + 1, e);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

// Takes fd. In the order of names: the same question has the same answer.
static int look_dir(struct search *s, int fd, const char *rel, int depth, struct err *e)
{
	DIR *d = fdopendir(fd);
	struct dirent *ent;
	char **names = NULL;
	size_t n = 0, cap = 0;
	int rc = 0;
	if (!d) {
		close(fd);
		return 0;
	}
	while ((ent = readdir(d)) && !over(s)) {
		if (!strcmp(ent->d_name, ".") || !strcmp(ent->d_name, ".."))
			continue;
		if (n == cap)
			names = xrealloc(names, (cap = cap ? cap * 2 : 32) * sizeof *names);
		names[n++] = xstrdup(ent->d_name);
	}
	if (n)
		qsort(names, n, sizeof *names, by_name);
	for (size_t i = 0; i < n; i++) {
		if (!rc && !over(s))
			rc = look_entry(s, fd, rel, names[i], depth, e);
		free(names[i]);
	}
	free(names);
	closedir(d);
	return rc;
}

static void quote(struct buf *b, const char *literal)
{
	for (; *literal; literal++) {
		if (strchr("\\^$.[]|()*+?{}", *literal))
			buf_byte(b, '\\');
		buf_byte(b, *literal);
	}
}

// What a compiled expression takes: a counted repeat is as many copies, and nested ones multiply. Groups are followed to their
// ends; in brackets nothing counts.
struct re_size {
	const char *p; // what is left
};

static uint64_t re_count(struct re_size *r)
{
	uint64_t max = 0, n = 0;
	const char *p = r->p + 1;
	for (; *p && *p != '}'; p++) {
		if (*p >= '0' && *p <= '9' && n <= REGEX_COPIES)
			n = n * 10 + (uint64_t)(*p - '0');
		else if (*p == ',')
			n = 0;
		max = n > max ? n : max;
	}
	r->p = *p ? p + 1 : p;
	return max ? max : 1;
}

static void re_skip_brackets(struct re_size *r)
{
	const char *p = r->p + 1;
	p += *p == '^';
	p += *p == ']';
	for (; *p && *p != ']'; p++)
		if (*p == '[' && p[1] && strchr(":.=", p[1])) {
			const char *end = strchr(p + 2, ']');
			p = end ? end : p;
		}
	r->p = *p ? p + 1 : p;
}

// Copies of what stands before the next ')' at this depth. Past REGEX_COPIES: too many, counting ends.
static uint64_t re_copies(struct re_size *r, int depth)
{
	uint64_t all = 0;
	while (*r->p && *r->p != ')' && all <= REGEX_COPIES) {
		uint64_t one = 1;
		if (*r->p == '(') {
			r->p++;
			one = depth < DEPTH_MAX ? re_copies(r, depth + 1) + 1 : REGEX_COPIES + 1;
			r->p += *r->p == ')';
		} else if (*r->p == '[') {
			re_skip_brackets(r);
		} else {
			r->p += *r->p == '\\' && r->p[1] ? 2 : 1;
		}
		while (*r->p == '*' || *r->p == '+' || *r->p == '?' || *r->p == '{') {
			if (*r->p == '{')
				one *= re_count(r);
			else
				r->p++;
			one = one > REGEX_COPIES ? REGEX_COPIES + 1 : one;
		}
		all += one;
	}
	return all;
}

static bool re_is_small(const char *re)
{
	struct re_size r = {.p = re};
	uint64_t all = 0;
	for (; *r.p && all <= REGEX_COPIES; r.p += *r.p == ')') // a stray ')' stands for itself, or is refused later
		all += re_copies(&r, 0) + 1;
	return all <= REGEX_COPIES;
}

static int compile(struct search *s, char *const *words, struct err *e)
{
	const char *re = word_value(words, "regex=");
	auto_buf struct buf b = BUF_INIT(2 * REGEX_MAX + 2);
	char why[128];
	if (!re || !*re)
		return 0;
	if (strlen(re) > REGEX_MAX)
		return err_set(e, ERR_INVALID, "the expression is longer than %d bytes", REGEX_MAX);
	if (word(words, "literal"))
		quote(&b, re);
	else
		buf_str(&b, re);
	if (!word(words, "literal") && !re_is_small(re))
		return err_set(e, ERR_INVALID, "the expression is too large: its counted repeats, written out, are more than %u characters", REGEX_COPIES);
	int rc = regcomp(&s->re, buf_cstr(&b), REG_EXTENDED | (word(words, "nocase") ? REG_ICASE : 0));
	if (rc) {
		regerror(rc, &s->re, why, sizeof why);
		return err_set(e, ERR_INVALID, "the expression %s is not understood: %s (POSIX extended; \\d \\w \\s \\b are known, look-around and lazy forms are not)",
			       re, why);
	}
	s->has_re = s->compiled = true;
	return 0;
}

// A glob without a slash is meant for the last part, as everybody writes them.
static int take_globs(char ***out, char *const *words, const char *key, struct err *e)
{
	for (; *words; words++) {
		if (!str_has_prefix(*words, key))
			continue;
		const char *g = *words + strlen(key);
		auto_free char *whole = strchr(g, '/') ? xstrdup(*g == '/' ? g + 1 : g) : xasprintf("**/%s", g);
		if (!glob_is_valid(whole))
			return err_set(e, ERR_INVALID, "not a glob: %s", g);
		strv_add(out, whole);
	}
	return 0;
}

static int search_in(struct search *s, const char *dir, struct err *e)
{
	struct stat st;
	if (stat(dir, &st))
		return err_sys(e, "%s", dir);
	if (S_ISREG(st.st_mode)) {
		const char *slash = strrchr(dir, '/');
		auto_fd int fd = fs_open(AT_FDCWD, dir, O_RDONLY | O_NONBLOCK, 0, e);
		s->files = 1;
		return fd < 0 || (s->has_re && look_bytes(s, slash ? slash + 1 : dir, fd, e)) ? -1 : 0;
	}
	int fd = fs_open(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0, e);
	return fd < 0 ? -1 : look_dir(s, fd, "", 0, e);
}

static int search_run(struct search *s, char *const *a, struct err *e)
{
	static const char *const known[] = {"regex=", "literal", "nocase", "glob=", "not=", "hidden", "files", "limit=", "ms=", NULL};
	char *const *w = a + 1;
	uint64_t ms = 10000;
	if (words_only(w, known, e) || word_u64(w, "limit=", &s->limit, e) || word_u64(w, "ms=", &ms, e) || compile(s, w, e) ||
	    take_globs(&s->globs, w, "glob=", e) || take_globs(&s->nots, w, "not=", e))
		return -1;
	s->hidden = word(w, "hidden");
	s->names = word(w, "files");
	ms = ms < MS_MAX ? ms : MS_MAX;
	s->until = clock_ms() + ms;
	buf_room(&s->out, OUT_ROOM); // the handler must not allocate
	watch_time(ms);
	int rc = search_in(s, a[0], e);
	setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
	return rc ? -1 : search_end(s, e);
}

int op_search(char *const *a, struct err *e)
{
	struct search s = {.limit = 1000, .out = BUF_INIT(1 << 20), .line = BUF_INIT(LINE_LONG + 1)};
	int rc = search_run(&s, a, e);
	if (s.compiled)
		regfree(&s.re);
	strv_free(s.globs);
	strv_free(s.nots);
	buf_done(&s.out);
	buf_done(&s.line);
	return rc;
}
