// SPDX-License-Identifier: Apache-2.0
// A change in the person's editor, as `git add -e` has it: lines may be left out, kept or written anew. What comes back is read
// strictly: it must still be a change of the very lines it was one of.
#include "cli/review.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "cli/out.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EDIT_MAX (16u << 20)

extern char **environ;

// --- reading ---

struct row {
	char sign; // ' ', '-' or '+'
	bool bare; // its file ends with it, without a newline
	struct str text;
	size_t number;
};

struct rows {
	struct row *v;
	size_t n;
};

static bool is_left_out(struct str line)
{
	return line.n && (line.p[0] == '#' || (line.n > 1 && line.p[0] == '@' && line.p[1] == '@'));
}

// An editor may have taken the blank of an empty line away.
static int add_row(struct rows *r, struct str line, size_t number, struct err *e)
{
	char sign = line.n ? line.p[0] : ' ';
	if (sign == '\\' && r->n) {
		r->v[r->n - 1].bare = true;
		return 0;
	}
	if (!strchr(" -+", sign))
		return err_set(e, ERR_INVALID, "line %zu begins with neither ' ', '-', '+' nor '#'", number);
	if (!(r->n & (r->n - 1)))
		r->v = xrealloc(r->v, (r->n ? r->n * 2 : 1) * sizeof *r->v);
	size_t skip = line.n ? 1 : 0;
	r->v[r->n++] = (struct row){.sign = sign, .text = {line.p + skip, line.n - skip}, .number = number};
	return 0;
}

static int split(const char *text, struct rows *out, struct err *e)
{
	size_t number = 0;
	for (const char *p = text; *p;) {
		size_t n = strcspn(p, "\n");
		struct str line = {p, n};
		number++;
		if (!is_left_out(line) && add_row(out, line, number, e))
			return -1;
		p += n + (p[n] == '\n');
	}
	return 0;
}

// What it was: its old lines, and how many around them are none of its.
struct shape {
	const struct row **old;
	size_t n, lead, trail;
};

static void shape_of(const struct rows *was, struct shape *out)
{
	*out = (struct shape){.old = xcalloc(was->n + 1, sizeof *out->old)};
	bool changed = false;
	for (size_t i = 0; i < was->n; i++) {
		const struct row *r = &was->v[i];
		if (r->sign != '+')
			out->old[out->n++] = r;
		changed |= r->sign != ' ';
		out->lead += !changed;
		out->trail = r->sign == ' ' && changed ? out->trail + 1 : 0;
	}
}

static bool same(const struct row *a, const struct row *b)
{
	return a->text.n == b->text.n && !memcmp(a->text.p, b->text.p, a->text.n) && a->bare == b->bare;
}

static void put(struct buf *out, const struct row *r)
{
	if (out->n && out->p[out->n - 1] != '\n')
		buf_byte(out, '\n'); // the file went on after all
	buf_add(out, r->text.p, r->text.n);
	if (!r->bare)
		buf_byte(out, '\n');
}

static int fit(const struct shape *s, const struct rows *now, struct buf *out, struct err *e)
{
	size_t k = 0;
	for (size_t i = 0; i < now->n; i++) {
		const struct row *r = &now->v[i];
		bool old = r->sign != '+', inside = k >= s->lead && (old ? k < s->n - s->trail : k <= s->n - s->trail);
		if (old && (k >= s->n || !same(r, s->old[k])))
			return err_set(e, ERR_INVALID, "line %zu is not one that was there in this place: only '+' lines are yours to write", r->number);
		if (!inside && r->sign != ' ')
			return err_set(e, ERR_INVALID, "line %zu lies outside the change: what is around it is shown, not changed", r->number);
		if (inside && r->sign != '-')
			put(out, r);
		k += old;
	}
	if (k < s->n)
		return err_set(e, ERR_INVALID, "%zu line%s of what was there %s missing at the end: make a '-' a ' ' to keep a line", s->n - k,
			       s->n - k == 1 ? "" : "s", s->n - k == 1 ? "is" : "are");
	return out->overflow ? err_set(e, ERR_INVALID, "it became longer than %zu bytes", out->max) : 0;
}

int review_edit_read(const char *was, const char *now, struct buf *out, struct err *e)
{
	struct rows old = {0}, edited = {0};
	struct shape s = {0};
	int rc = split(was, &old, e) || split(now, &edited, e) ? -1 : 0;
	if (!rc) {
		shape_of(&old, &s);
		rc = fit(&s, &edited, out, e);
	}
	free(s.old);
	free(old.v);
	free(edited.v);
	return rc;
}

// --- the editor ---

static const char *editor(void)
{
	const char *names[] = {"SKEP_EDITOR", "GIT_EDITOR", "VISUAL", "EDITOR"};
	for (size_t i = 0; i < countof(names); i++) {
		const char *v = getenv(names[i]);
		if (v && *v)
			return v;
	}
	return "vi";
}

static int run_editor(char *file, struct err *e)
{
	char sh[] = "sh", flag[] = "-c", name[] = "editor";
	auto_free char *cmd = xasprintf("%s \"$1\"", editor());
	char *argv[] = {sh, flag, cmd, name, file, NULL};
	struct proc_fd fds[] = {{0, 0}, {1, 1}, {2, 2}};
	int status = 0;
	pid_t pid = proc_spawn(&(struct proc_spec){.path = "/bin/sh", .argv = argv, .env = environ, .fds = fds, .n_fds = 3}, e);
	if (pid < 0)
		return -1;
	void (*was)(int) = signal(SIGINT, SIG_IGN); // the editor's to handle
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	signal(SIGINT, was);
	return status ? err_set(e, ERR_CONFLICT, "the editor (%.100s) failed", editor()) : 0;
}

// Comments above and below, six lines each: editors look for settings in the first and last five lines of a file, and what is
// between was written in the sandbox.
static const char above[] = "# This change is edited before it lands. What the sandbox has stays pending\n"
			    "# as far as it differs from what you make of it.\n"
			    "#\n"
			    "#   To keep a '-' line, make it a ' ' line. To leave a '+' line out, delete it.\n"
			    "#   Lines of your own begin with '+'. Lines with '#' do not count.\n"
			    "# ---\n";
static const char below[] = "# ---\n"
			    "# If it does not fit any more, you are asked whether to edit it again.\n"
			    "# If nothing is left but comments, the change stays undecided.\n"
			    "#\n"
			    "#\n"
			    "#\n";

static void put_added(struct buf *b, const char *content)
{
	for (const char *p = content; *p;) {
		size_t n = strcspn(p, "\n");
		buf_byte(b, '+');
		buf_add(b, p, n);
		buf_byte(b, '\n');
		p += n;
		if (*p)
			p++;
		else
			buf_str(b, "\\ No newline at end of file\n");
	}
}

static int text_of(const json_t *change, const json_t *hunk, struct buf *out, struct err *e)
{
	bool whole = !strcmp(json_str(hunk, "kind"), "whole");
	if (json_object_get(hunk, "text_b64") || json_object_get(hunk, "content_b64"))
		return err_set(e, ERR_INVALID, "it is not text in UTF-8");
	if (json_is_true(json_object_get(hunk, "truncated")))
		return err_set(e, ERR_INVALID, "it is too long");
	if (json_object_get(hunk, "text"))
		buf_str(out, json_str(hunk, "text"));
	else if (whole && !strcmp(json_str(change, "kind"), "add") && json_object_get(hunk, "content") && !json_object_get(change, "symlink"))
		put_added(out, json_str(hunk, "content"));
	else
		return err_set(e, ERR_INVALID, "it has no lines to edit");
	return 0;
}

static int edit_once(char *file, const char *was, struct buf *out, struct err *e)
{
	auto_buf struct buf now = BUF_INIT(EDIT_MAX);
	struct rows rows = {0};
	if (run_editor(file, e) || fs_read(AT_FDCWD, file, &now, e))
		return -1;
	int rc = split(buf_cstr(&now), &rows, e);
	bool empty = !rc && !rows.n;
	free(rows.v);
	if (empty)
		return err_set(e, ERR_CONFLICT, "nothing was left of it");
	buf_clear(out);
	if (strlen(buf_cstr(&now)) != now.n || !str_is_utf8(now.p ? now.p : "", now.n))
		return err_set(e, ERR_INVALID, "what came back is not text in UTF-8");
	return rc ? -1 : review_edit_read(was, buf_cstr(&now), out, e);
}

static bool again(const struct err *e)
{
	char line[64];
	auto_buf struct buf b = BUF_INIT(1024);
	buf_str(&b, "The edited change does not apply: ");
	out_text(&b, e->msg);
	buf_str(&b, ".\nEdit again (n gives the edit up) [y,n]? ");
	return !out_flush(&b) && review_read_line(line, sizeof line) && *line != 'n' && *line != 'q';
}

static int edit_file(char *file, const char *was, struct buf *out, struct err *e)
{
	auto_fd int fd = mkostemps(file, 5, O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "make %.200s", file);
	int rc = fs_write_all(fd, above, sizeof above - 1, e) || fs_write_all(fd, was, strlen(was), e) || fs_write_all(fd, below, sizeof below - 1, e);
	while (!rc && (rc = edit_once(file, was, out, e)) && e->kind == ERR_INVALID) {
		if (!again(e)) {
			err_set(e, ERR_CONFLICT, "the edit was given up");
			break;
		}
		rc = 0;
	}
	unlink(file);
	return rc ? -1 : 0;
}

char *review_edit(const json_t *change, const json_t *hunk, struct err *e)
{
	auto_buf struct buf was = BUF_INIT(EDIT_MAX), out = BUF_INIT(EDIT_MAX);
	const char *tmp = getenv("TMPDIR");
	auto_free char *file = xasprintf("%s/skep-change-XXXXXX.diff", tmp && *tmp == '/' ? tmp : "/tmp");
	if (text_of(change, hunk, &was, e) || edit_file(file, buf_cstr(&was), &out, e))
		return NULL;
	return xstrdup(buf_cstr(&out));
}
