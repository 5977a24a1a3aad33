// SPDX-License-Identifier: Apache-2.0
// diff, apply, dismiss, undo, export.
#include "cli/review.h"

#include "base/fs.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "cli/out.h"
#include "cli/request.h"
#include "cli/term.h"
#include "cli/verbs.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEFT_OUT_NAMES 8
#define O(member) AT(struct review_opts, member)

static const struct opt diff_opts[] = {
	FLAG(O(stat), "stat", 0, "files and how many lines, not the changes"),
	FLAG(O(name_status), "name-status", 0, "one letter and the name of each file"),
	VALUE(OPT_COUNT, O(context), "unified", 'U', "N", "lines around each change (default 3)"),
	CHOICE(O(color), "color", 0, "WHEN", "colour the patch", "auto|always|never"),
	FLAG(O(json), "json", 0, "print JSON: hunks with their ids, risks, the review digest"),
	FLAG(O(ignored), "ignored", 0, "also what the directory's .gitignore names"),
	OPTS_END,
};

static const struct opt apply_opts[] = {
	FLAG(O(patch), "patch", 'p', "ask about each change"),
	VALUE(OPT_LIST, O(hunks), "hunk", 0, "ID", "only this change (ids: skep diff --json)"),
	HINTED(OPT_STR, HINT_DIR, O(to), "to", 0, "DIR", "into another directory; nothing leaves the pending set"),
	VALUE(OPT_LIST, O(accept), "accept", 0, "PATH", "the risks of this file were seen"),
	FLAG(O(accept_risk), "accept-risk", 0, "the risks of every file were seen"),
	CHOICE(O(conflicts), "conflicts", 0, "HOW", "what to do with changes the directory made too (default stop)", "stop|skip|markers"),
	FLAG(O(yes), "yes", 'y', "do not ask"),
	FLAG(O(json), "json", 0, "print what was done as JSON"),
	FLAG(O(ignored), "ignored", 0, "also what the directory's .gitignore names"),
	OPTS_END,
};

static const struct opt dismiss_opts[] = {
	FLAG(O(patch), "patch", 'p', "ask about each change"),
	VALUE(OPT_LIST, O(hunks), "hunk", 0, "ID", "only this change"),
	FLAG(O(yes), "yes", 'y', "do not ask; needed where there is no terminal"),
	FLAG(O(ignored), "ignored", 0, "also what the directory's .gitignore names"),
	OPTS_END,
};

static const struct opt undo_opts[] = {
	FLAG(O(json), "json", 0, "print what was done as JSON"),
	OPTS_END,
};

static const struct opt export_opts[] = {
	HINTED(OPT_STR, HINT_FILE, O(export_patch), "patch", 0, "FILE", "write a mail that git am takes; - is stdout"),
	VALUE(OPT_STR, O(branch), "branch", 'b', "NAME", "make a branch in the repository, with the sandbox's commits"),
	HINTED(OPT_STR, HINT_FILE, O(bundle), "bundle", 0, "FILE", "write its commits as a bundle that git fetch takes; - is stdout"),
	VALUE(OPT_STR, O(message), "message", 'm', "TEXT", "the subject; with --branch and --bundle when nothing was committed"),
	FLAG(O(ignored), "ignored", 0, "also what the directory's .gitignore names"),
	OPTS_END,
};

static const json_t *summary_of(const json_t *diff)
{
	return json_object_get(diff, "summary");
}

static bool is_nothing(const json_t *diff)
{
	return !json_array_size(json_object_get(diff, "changes"));
}

static void show_ignored(struct buf *b, const json_t *summary)
{
	uint64_t n = json_u64(summary, "ignored");
	if (n)
		buf_fmt(b, "%llu ignored file%s left out (--ignored)\n", (unsigned long long)n, n == 1 ? " is" : "s are");
}

static int diff_text(const struct call *c, struct api *a, const struct review_place *p, const struct review_opts *o)
{
	struct err e;
	auto_http_reply struct http_reply r = {0};
	const char *format = o->stat ? "stat" : o->name_status ? "name-status" : "patch";
	if (review_ask_text(a, p, o, format, true, &r, &e))
		return out_fail(c, &e);
	struct screen *s = screen_open(o->color);
	if (o->stat || o->name_status) {
		screen_patch(s, r.body.p, r.body.n);
		return screen_close(s);
	}
	auto_buf struct buf risks = BUF_INIT(1 << 20);
	auto_json json_t *diff = screen_is_terminal(s) ? review_ask_diff(a, p, o, false, &e) : NULL;
	if (diff)
		show_risks(&risks, json_object_get(diff, "changes"));
	if (diff)
		show_ignored(&risks, summary_of(diff));
	screen_text(s, buf_cstr(&risks));
	screen_patch(s, r.body.p, r.body.n);
	return screen_close(s);
}

static int diff_run(const struct call *c)
{
	const struct review_opts *o = c->opts;
	struct err e;
	struct review_place p = {0};
	auto_api struct api a = API_CLOSED;
	if (api_open(&a, &e) || review_place(c, &a, &p, &e)) {
		review_place_done(&p);
		return out_fail(c, &e);
	}
	int status;
	if (o->json) {
		auto_json json_t *diff = review_ask_diff(&a, &p, o, true, &e);
		status = diff ? out_json(diff) : out_fail(c, &e);
	} else {
		status = diff_text(c, &a, &p, o);
	}
	review_place_done(&p);
	return status;
}

static void count(struct buf *b, uint64_t n, const char *what)
{
	buf_fmt(b, "%llu %s%s", (unsigned long long)n, what, n == 1 ? "" : "s");
}

// What a person is shown before it happens.
static bool agree(const json_t *diff, const struct review_place *p, const struct review_opts *o, const char *verb)
{
	auto_buf struct buf b = BUF_INIT(1 << 20);
	const json_t *s = summary_of(diff);
	show_risks(&b, json_object_get(diff, "changes"));
	buf_fmt(&b, "%s ", verb);
	count(&b, json_u64(s, "files"), "file");
	buf_str(&b, ", ");
	count(&b, json_u64(s, "hunks"), "change");
	if (!strcmp(verb, "apply")) {
		buf_str(&b, " to ");
		out_text(&b, o->to ? o->to : p->repo);
	}
	buf_str(&b, "? [y/N] ");
	return term_ask_yes(buf_cstr(&b));
}

static bool is_accepted(const struct review_opts *o, const char *path)
{
	for (char **p = o->accept; p && *p; p++)
		if (!strcmp(*p, path))
			return true;
	return o->accept_risk;
}

static bool is_named(const struct review_opts *o, const json_t *change)
{
	size_t i;
	json_t *h;
	json_array_foreach(json_object_get(change, "hunks"), i, h)
	{
		for (char **id = o->hunks; id && *id; id++)
			if (!strcmp(*id, json_str(h, "id")))
				return true;
	}
	return !o->hunks;
}

// What would be refused after a yes is refused before the question.
static int check_refusal(const json_t *diff, const struct review_opts *o, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(512);
	size_t i, risky = 0, conflicts = 0;
	json_t *c;
	bool stops = !o->conflicts || !strcmp(o->conflicts, "stop");
	json_array_foreach(json_object_get(diff, "changes"), i, c)
	{
		const char *path = json_str(c, "path"), *state = json_str(c, "state");
		if (!is_named(o, c))
			continue;
		bool risk = json_array_size(json_object_get(c, "risks")) && !is_accepted(o, path);
		bool conflict = stops && !o->to && (!strcmp(state, "conflict") || !strcmp(state, "lost"));
		if ((risk || conflict) && !b.n)
			out_text(&b, path);
		risky += risk;
		conflicts += conflict;
	}
	if (conflicts)
		return err_set(e, ERR_CONFLICT, "%zu path%s (%.200s%s) conflict%s with the directory: take the others with --conflicts skip; nothing was written", conflicts,
			       conflicts == 1 ? "" : "s", buf_cstr(&b), conflicts > 1 ? ", \xe2\x80\xa6" : "", conflicts == 1 ? "s" : "");
	return risky ? err_set(e, ERR_DENIED, "%zu path%s (%.200s%s) must be accepted by name (--accept PATH), or all with --accept-risk; nothing was written", risky,
			       risky == 1 ? "" : "s", buf_cstr(&b), risky > 1 ? ", \xe2\x80\xa6" : "")
		     : 0;
}

// A person is asked; -1 with *e where the answer could not be followed.
static int ask_apply(const json_t *diff, const struct review_place *p, const struct review_opts *o, bool *out_yes, struct err *e)
{
	*out_yes = true;
	if (o->yes || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return 0;
	if (check_refusal(diff, o, e)) {
		auto_buf struct buf b = BUF_INIT(1 << 20);
		show_risks(&b, json_object_get(diff, "changes"));
		out_stderr(&b);
		return -1;
	}
	*out_yes = agree(diff, p, o, "apply");
	return 0;
}

// Steps that make or remove a directory are no file.
static uint64_t files_of(const json_t *done)
{
	size_t i;
	uint64_t n = 0;
	json_t *s;
	json_array_foreach(json_object_get(done, "steps"), i, s) n += strcmp(json_str(s, "did"), "mkdir") && strcmp(json_str(s, "did"), "rmdir");
	return n;
}

static int tell_applied(const json_t *done, const struct review_place *p, const struct review_opts *o)
{
	auto_buf struct buf b = BUF_INIT(64 << 10);
	const json_t *r = json_object_get(done, "result");
	size_t i;
	json_t *s;
	count(&b, files_of(done), "file");
	buf_str(&b, " changed in ");
	out_text(&b, o->to ? o->to : p->repo);
	if (!o->to)
		buf_fmt(&b, " (skep undo %s takes it back)", p->id);
	buf_byte(&b, '\n');
	json_array_foreach(json_object_get(r, "skipped"), i, s)
	{
		buf_str(&b, "left out, the directory changed it too: ");
		out_text(&b, json_string_value(s) ? json_string_value(s) : "?");
		buf_byte(&b, '\n');
	}
	return out_flush(&b);
}

bool review_tell_left_out(const json_t *diff, const struct review_place *p)
{
	const json_t *list = json_object_get(summary_of(diff), "discarded");
	auto_buf struct buf b = BUF_INIT(64 << 10);
	size_t i, n = json_array_size(list);
	json_t *d;
	if (!n || p->paths)
		return false;
	json_array_foreach(list, i, d)
	{
		if (i == LEFT_OUT_NAMES)
			break;
		buf_str(&b, "skep: left out: ");
		out_text(&b, json_str(d, "path"));
		buf_fmt(&b, ": %s\n", json_str(d, "why"));
	}
	if (n > LEFT_OUT_NAMES)
		buf_fmt(&b, "skep: left out: %zu more (skep diff --json %s)\n", n - LEFT_OUT_NAMES, p->id);
	out_stderr(&b);
	return true;
}

static int apply_all(const struct call *c, struct api *a, const struct review_place *p, const struct review_opts *o)
{
	struct err e;
	auto_json json_t *diff = review_ask_diff(a, p, o, false, &e);
	if (!diff)
		return out_fail(c, &e);
	if (is_nothing(diff)) {
		auto_buf struct buf b = BUF_INIT(256);
		buf_fmt(&b, "nothing %sis pending\n", review_tell_left_out(diff, p) ? "else " : "");
		return out_flush(&b);
	}
	bool yes;
	if (ask_apply(diff, p, o, &yes, &e))
		return out_fail(c, &e);
	if (!yes)
		return 1;
	struct review_choice x = {.all = !o->hunks, .hunks = o->hunks, .accept = o->accept, .digest = json_str(summary_of(diff), "digest")};
	auto_json json_t *done = review_do(a, p, o, "apply", &x, &e);
	if (!done)
		return out_fail(c, &e);
	if (!o->hunks)
		review_tell_left_out(diff, p);
	return o->json ? out_json(done) : tell_applied(done, p, o);
}

static int dismiss_all(const struct call *c, struct api *a, const struct review_place *p, const struct review_opts *o)
{
	struct err e;
	auto_json json_t *diff = review_ask_diff(a, p, o, false, &e);
	if (!diff)
		return out_fail(c, &e);
	if (is_nothing(diff))
		return 0;
	bool asks = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
	if (!o->yes && !asks) {
		err_set(&e, ERR_INVALID, "dismiss puts files of the sandbox back, and nobody can be asked here: say --yes");
		return out_fail(c, &e);
	}
	if (!o->yes && !agree(diff, p, o, "dismiss"))
		return 1;
	struct review_choice x = {.all = !o->hunks, .hunks = o->hunks, .digest = json_str(summary_of(diff), "digest")};
	auto_json json_t *done = review_do(a, p, o, "dismiss", &x, &e);
	return done ? 0 : out_fail(c, &e);
}

static int apply_or_dismiss(const struct call *c, bool dismiss)
{
	struct review_opts o = *(const struct review_opts *)c->opts;
	struct err e;
	struct review_place p = {0};
	auto_api struct api a = API_CLOSED;
	auto_free char *to = o.to ? request_path("--to ", o.to, &e) : NULL;
	o.context = OPT_UNSET;
	if ((o.to && !to) || api_open(&a, &e) || review_place(c, &a, &p, &e)) {
		review_place_done(&p);
		return out_fail(c, &e);
	}
	o.to = to;
	int status = o.patch ? review_patch_mode(c, &a, &p, &o, dismiss) : dismiss ? dismiss_all(c, &a, &p, &o) : apply_all(c, &a, &p, &o);
	review_place_done(&p);
	return status;
}

static int apply_run(const struct call *c)
{
	return apply_or_dismiss(c, false);
}

static int dismiss_run(const struct call *c)
{
	return apply_or_dismiss(c, true);
}

static int undo_run(const struct call *c)
{
	const struct review_opts *o = c->opts;
	struct err e;
	auto_api struct api a = API_CLOSED;
	auto_http_reply struct http_reply r = {0};
	if (api_open(&a, &e))
		return out_fail(c, &e);
	auto_free char *id = c->n_words ? xstrdup(c->words[0]) : api_newest_id(&a, &e), *path = id ? api_path("/v1/sandboxes", id, "undo") : NULL;
	if (!id || api_raw(&a, path, "{}", &r, &e))
		return out_fail(c, &e);
	auto_json json_t *done = review_join_lines(&r.body, "steps", &e);
	if (!done)
		return out_fail(c, &e);
	if (o->json)
		return out_json(done);
	auto_buf struct buf b = BUF_INIT(256);
	if (!strcmp(json_str(json_object_get(done, "result"), "undone"), "dismiss")) {
		buf_str(&b, "what the last dismiss took is in the sandbox again\n");
		return out_flush(&b);
	}
	count(&b, files_of(done), "file");
	buf_str(&b, " put back as before the last apply\n");
	return out_flush(&b);
}

// A terminal is shown a patch as `skep diff` shows it; a bundle is nothing to be shown.
static int write_out(const char *file, const struct buf *b, bool bundle, struct err *e)
{
	auto_buf struct buf shown = BUF_INIT(5 * b->n + 4096);
	auto_fd int own = strcmp(file, "-") ? fs_open(AT_FDCWD, file, O_WRONLY | O_CREAT | O_TRUNC, 0666, e) : -1;
	int fd = strcmp(file, "-") ? own : STDOUT_FILENO;
	if (fd < 0)
		return -1;
	if (!isatty(fd))
		return fs_write_all(fd, b->p, b->n, e);
	if (bundle)
		return err_set(e, ERR_INVALID, "a bundle is not text for a terminal: name a file, or write it to a pipe");
	show_patch(&shown, b->p, b->n, false);
	return fs_write_all(fd, shown.p, shown.n, e);
}

static int tell_branch(const struct buf *answer, const char *branch, struct err *e)
{
	auto_json json_t *j = json_read(answer->n ? answer->p : "", answer->n, e);
	auto_buf struct buf b = BUF_INIT(4096);
	if (!j)
		return -1;
	buf_str(&b, "branch ");
	out_text(&b, branch);
	buf_fmt(&b, " is at %.12s\n", json_str(j, "commit"));
	return out_flush(&b) ? err_set(e, ERR_SYSTEM, "write the result") : 0;
}

static int export_run(const struct call *c)
{
	const struct review_opts *o = c->opts;
	struct err e;
	struct review_place p = {0};
	auto_api struct api a = API_CLOSED;
	auto_http_reply struct http_reply r = {0};
	auto_buf struct buf body = BUF_INIT(1 << 20);
	struct jsonw w = {.b = &body};
	if (!o->export_patch + !o->branch + !o->bundle != 2) {
		err_set(&e, ERR_INVALID, "say what: one of --patch FILE, --branch NAME, --bundle FILE");
		return out_usage(c, &e);
	}
	int rc = api_open(&a, &e) || review_place(c, &a, &p, &e);
	if (!rc) {
		jw_open(&w, '{');
		jw_kstr(&w, "subject", o->message);
		jw_kbool(&w, "ignored", p.ignored);
		jw_kstr(&w, "branch", o->branch);
		if (o->bundle)
			jw_kbool(&w, "bundle", true);
		review_put_set(&w, &p, NULL);
		jw_close(&w, '}');
		rc = review_ask(&a, &p, "export", &body, &r, &e) ||
		     (o->branch ? tell_branch(&r.body, o->branch, &e) : write_out(o->bundle ? o->bundle : o->export_patch, &r.body, o->bundle, &e));
	}
	review_place_done(&p);
	return rc ? out_fail(c, &e) : 0;
}

#define REVIEW_VERB(verb, words, text, more, min)             \
	const struct cmd cmd_##verb = {                       \
		.name = #verb,                                \
		.args = words,                                \
		.help = text,                                 \
		.notes = more,                                \
		.opts = verb##_opts,                          \
		.opts_size = sizeof(struct review_opts),      \
		.min_words = min,                             \
		.max_words = -1,                              \
		.tail = -1,                                   \
		.hint = HINT_SANDBOX,                         \
		.run = verb##_run,                            \
	}

REVIEW_VERB(diff, "[ID] [PATH...]", "show what a sandbox changed: exactly what apply would do now",
	    "The patch can be given to git apply. Changes of the directory itself since are merged into it.", 0);
REVIEW_VERB(apply, "[ID] [PATH...]", "take changes of a sandbox into the real directory",
	    "All of them, those of some paths, single ones (--hunk), or asked one by one (-p). Either all of it lands or\n"
	    "nothing. Files that other programs run or trust must be accepted by name.", 0);
REVIEW_VERB(dismiss, "[ID] [PATH...]", "put files of a sandbox back to what they were", NULL, 0);
REVIEW_VERB(undo, "[ID]", "take the last apply or dismiss back", "Refused where the directory, or the sandbox's file, has changed since.", 0);
REVIEW_VERB(export, "[ID] [PATH...]", "take the changes of a sandbox as a patch, its commits as a branch or a bundle",
	    "--branch makes a new branch of the repository and touches no file. With commits made in the sandbox it has\n"
	    "those; without any, one commit of the files as they are. A branch that exists is never changed.", 0);
