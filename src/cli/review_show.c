// SPDX-License-Identifier: Apache-2.0
// Changes on a screen: a pager where there is one, colours, and text of a sandbox made harmless.
#include "cli/review.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/proc.h"
#include "cli/out.h"
#include "cli/term.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct screen {
	int fd;
	pid_t pager; // 0 = none
	bool terminal, colour, failed;
	struct buf b;
};

static const char *pager_of(void)
{
	const char *names[] = {"SKEP_PAGER", "GIT_PAGER", "PAGER"};
	for (size_t i = 0; i < countof(names); i++) {
		const char *v = getenv(names[i]);
		if (v)
			return *v && strcmp(v, "cat") ? v : NULL;
	}
	return term_is_dumb() ? NULL : "less";
}

// As git does it: a text that fits stays, colours pass, the screen is not cleared.
static void start_pager(struct screen *s)
{
	struct err ignored;
	int p[2];
	const char *pager = pager_of();
	if (!pager || pipe2(p, O_CLOEXEC))
		return;
	char sh[] = "sh", flag[] = "-c", less[] = "LESS=FRX", lv[] = "LV=-c";
	auto_free char *cmd = xstrdup(pager);
	char *argv[] = {sh, flag, cmd, NULL}, **env = NULL;
	for (char **v = environ; *v; v++)
		strv_add(&env, *v);
	if (!getenv("LESS"))
		strv_add(&env, less);
	if (!getenv("LV"))
		strv_add(&env, lv);
	struct proc_fd fds[] = {{p[0], 0}, {STDOUT_FILENO, 1}, {STDERR_FILENO, 2}};
	pid_t pid = proc_spawn(&(struct proc_spec){.path = "/bin/sh", .argv = argv, .env = env, .fds = fds, .n_fds = 3}, &ignored);
	strv_free(env);
	close(p[0]);
	if (pid < 0) {
		close(p[1]);
		return;
	}
	signal(SIGPIPE, SIG_IGN); // the reader may leave early
	s->pager = pid;
	s->fd = p[1];
}

struct screen *screen_open(const char *color)
{
	struct screen *s = xcalloc(1, sizeof *s);
	s->fd = STDOUT_FILENO;
	s->terminal = isatty(STDOUT_FILENO);
	s->colour = term_colour(color);
	s->b = BUF_INIT(1 << 20);
	if (s->terminal)
		start_pager(s);
	return s;
}

bool screen_is_terminal(const struct screen *s)
{
	return s->terminal;
}

static void flush(struct screen *s)
{
	struct err e;
	if (!s->failed && s->b.n && fs_write_all(s->fd, s->b.p, s->b.n, &e))
		s->failed = true;
	buf_clear(&s->b);
}

static const char *colour_of(const char *line, size_t n)
{
	static const struct {
		const char *start, *colour;
	} rows[] = {{"diff ", "\033[1m"}, {"index ", "\033[1m"}, {"--- ", "\033[1m"}, {"+++ ", "\033[1m"}, {"new file", "\033[1m"},
		    {"deleted ", "\033[1m"}, {"rename ", "\033[1m"}, {"similarity", "\033[1m"}, {"old mode", "\033[1m"},
		    {"new mode", "\033[1m"}, {"@@ ", "\033[36m"}, {"+", "\033[32m"}, {"-", "\033[31m"}};
	for (size_t i = 0; i < countof(rows); i++)
		if (n >= strlen(rows[i].start) && !memcmp(line, rows[i].start, strlen(rows[i].start)))
			return rows[i].colour;
	return NULL;
}

// Text of the sandbox: harmless, except that a tab stays one.
static void harmless(struct buf *b, const char *p, size_t n)
{
	while (n) {
		const char *tab = memchr(p, '\t', n);
		size_t k = tab ? (size_t)(tab - p) : n;
		out_text_n(b, p, k);
		if (tab)
			buf_byte(b, '\t');
		k += tab ? 1 : 0;
		p += k;
		n -= k;
	}
}

static void put_line(struct screen *s, const char *p, size_t n)
{
	const char *colour = s->colour ? colour_of(p, n) : NULL;
	if (colour)
		buf_str(&s->b, colour);
	if (s->terminal)
		harmless(&s->b, p, n);
	else
		buf_add(&s->b, p, n);
	buf_str(&s->b, colour ? "\033[m\n" : "\n");
	if (s->b.n > (512u << 10) || s->b.overflow)
		flush(s);
}

// Bytes as they are when nobody looks: they may go to `git apply`.
void screen_patch(struct screen *s, const char *p, size_t n)
{
	struct err e;
	if (!s->terminal && !s->colour) {
		flush(s);
		s->failed |= n && fs_write_all(s->fd, p, n, &e);
		return;
	}
	while (n) {
		const char *nl = memchr(p, '\n', n);
		size_t k = nl ? (size_t)(nl - p) : n;
		put_line(s, p, k);
		k += nl ? 1 : 0;
		p += k;
		n -= k;
	}
}

void screen_text(struct screen *s, const char *text)
{
	buf_str(&s->b, text);
}

int screen_close(struct screen *s)
{
	int status;
	flush(s);
	bool failed = s->failed && !s->pager;
	if (s->pager) {
		close(s->fd);
		waitpid(s->pager, &status, 0);
	}
	buf_done(&s->b);
	free(s);
	return failed ? 1 : 0;
}

void show_patch(struct buf *b, const char *p, size_t n, bool colour)
{
	while (n) {
		const char *nl = memchr(p, '\n', n);
		size_t k = nl ? (size_t)(nl - p) : n;
		const char *c = colour ? colour_of(p, k) : NULL;
		buf_str(b, c ? c : "");
		harmless(b, p, k);
		buf_str(b, c ? "\033[m\n" : "\n");
		k += nl ? 1 : 0;
		p += k;
		n -= k;
	}
}

void show_risks(struct buf *b, const json_t *changes)
{
	size_t i, k;
	json_t *c, *r;
	json_array_foreach(changes, i, c)
		json_array_foreach(json_object_get(c, "risks"), k, r)
		{
			buf_str(b, "risk: ");
			out_text(b, json_str(c, "path"));
			buf_str(b, ": ");
			out_text(b, json_str(r, "reason"));
			buf_byte(b, '\n');
		}
}

static void put_lines(struct buf *b, const char *text, char sign, bool colour)
{
	for (const char *p = text; *p;) {
		size_t n = strcspn(p, "\n");
		char first = sign ? sign : *p;
		const char *c = !colour ? NULL : first == '+' ? "\033[32m" : first == '-' ? "\033[31m" : NULL;
		buf_str(b, c ? c : "");
		if (sign)
			buf_byte(b, sign);
		harmless(b, p, n);
		buf_str(b, c ? "\033[m\n" : "\n");
		p += n + (p[n] == '\n');
	}
}

void show_hunk(struct buf *b, const json_t *change, const json_t *hunk, bool colour)
{
	size_t k;
	json_t *r;
	buf_str(b, colour ? "\033[1m" : "");
	out_text(b, json_str(change, "kind"));
	buf_byte(b, ' ');
	if (json_object_get(change, "from")) {
		out_text(b, json_str(change, "from"));
		buf_str(b, " -> ");
	}
	out_text(b, json_str(change, "path"));
	buf_str(b, colour ? "\033[m\n" : "\n");
	json_array_foreach(json_object_get(change, "risks"), k, r)
	{
		buf_str(b, colour ? "\033[33mrisk: " : "risk: ");
		out_text(b, json_str(r, "reason"));
		buf_str(b, colour ? "\033[m\n" : "\n");
	}
	if (json_object_get(hunk, "text"))
		put_lines(b, json_str(hunk, "text"), 0, colour);
	else if (json_object_get(hunk, "content"))
		put_lines(b, json_str(hunk, "content"), !strcmp(json_str(change, "kind"), "delete") ? '-' : '+', colour);
	else if (json_is_true(json_object_get(change, "binary")))
		buf_str(b, "(its content is not text)\n");
}
