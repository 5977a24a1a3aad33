// SPDX-License-Identifier: Apache-2.0
// -p: each change is shown, and a key says what becomes of it, the keys of `git add -p`. Nothing happens before the last answer.
#include "cli/review.h"

#include "base/mem.h"
#include "base/str.h"
#include "cli/out.h"
#include "cli/prompt.h"
#include "cli/term.h"
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LISTED 20u // changes that g shows at once

enum answer { UNDECIDED, TAKE, LEAVE, DISMISS };

struct item {
	const json_t *change, *hunk;
	enum answer answer;
	char *lines; // as edited; owned
};

struct asking {
	struct item *v;
	size_t n, at;
	bool dismiss, colour, over;
};

static const char help[] = "y - apply this change\n"
			   "n - leave it pending\n"
			   "x - dismiss it: the sandbox's file goes back to what it was\n"
			   "e - edit it: what you make of it is applied, the rest stays pending\n"
			   "a - apply it and all later ones of this file\n"
			   "d - leave it and all later ones of this file\n"
			   "j - leave it undecided, see the next undecided one\n"
			   "J - leave it undecided, see the next one\n"
			   "k - leave it undecided, see the undecided one before\n"
			   "K - leave it undecided, see the one before\n"
			   "g - go to one by its number\n"
			   "/ - go to the next one that a regular expression finds\n"
			   "s - split it: a change is one run of lines, it is as small as it gets; e does more\n"
			   "q - leave this one and all undecided ones; what was answered is done\n"
			   "? - this help\n";

bool review_read_line(char *line, size_t size)
{
	char c;
	for (size_t n = 0;;) {
		if (read(STDIN_FILENO, &c, 1) != 1)
			return false;
		line[n] = 0;
		if (c == '\n')
			return true;
		if (n + 1 < size) {
			line[n++] = c;
			line[n] = 0;
		}
	}
}

static void say(struct asking *a, const char *text)
{
	auto_buf struct buf b = BUF_INIT(8192);
	buf_str(&b, text);
	a->over |= out_flush(&b) != 0;
}

// --- where to ---

static bool is_open(const struct asking *a, size_t i)
{
	return a->v[i].answer == UNDECIDED;
}

// The next undecided one, from here on and then from the beginning; n when there is none.
static size_t next_open(const struct asking *a)
{
	for (size_t i = 1; i <= a->n; i++)
		if (is_open(a, (a->at + i) % a->n))
			return (a->at + i) % a->n;
	return a->n;
}

static bool open_before(const struct asking *a, size_t *out)
{
	for (size_t i = a->at; i-- > 0;)
		if (is_open(a, i)) {
			*out = i;
			return true;
		}
	return false;
}

static bool open_behind(const struct asking *a, size_t *out)
{
	for (size_t i = a->at + 1; i < a->n; i++)
		if (is_open(a, i)) {
			*out = i;
			return true;
		}
	return false;
}

static void move(struct asking *a, char key)
{
	size_t to = a->at;
	if (key == 'k' ? !open_before(a, &to) : key == 'j' ? !open_behind(a, &to) : key == 'K' ? !a->at : a->at + 1 == a->n)
		say(a, key == 'k' || key == 'K' ? "There is none before it.\n" : "There is none behind it.\n");
	else
		a->at = key == 'K' ? a->at - 1 : key == 'J' ? a->at + 1 : to;
}

static const char *text_of(const struct item *i)
{
	return json_str(i->hunk, json_object_get(i->hunk, "text") ? "text" : "content");
}

// Its first line that changes something.
static struct str gist(const struct item *i)
{
	bool patch = json_object_get(i->hunk, "text") != NULL;
	struct str rest = str_of(text_of(i)), line = {"", 0};
	while (str_next(&rest, '\n', &line))
		if (!patch || (line.n && strchr("+-", line.p[0])))
			return line;
	return (struct str){"", 0};
}

static void list(struct asking *a)
{
	static const char marks[] = {[UNDECIDED] = ' ', [TAKE] = '+', [LEAVE] = '-', [DISMISS] = 'x'};
	auto_buf struct buf b = BUF_INIT(64u << 10);
	size_t from = a->at - a->at % LISTED;
	for (size_t i = from; i < a->n && i < from + LISTED; i++) {
		struct str line = gist(&a->v[i]);
		buf_fmt(&b, "%c%3zu: ", marks[a->v[i].answer], i + 1);
		out_text(&b, json_str(a->v[i].change, "path"));
		buf_str(&b, ": ");
		out_text_n(&b, line.p, line.n < 60 ? line.n : 60);
		buf_byte(&b, '\n');
	}
	buf_str(&b, "go to which one? ");
	a->over |= out_flush(&b) != 0;
}

// What is typed behind the key, or asked for.
static struct str argument(struct asking *a, char *line, size_t size, void (*prompt)(struct asking *))
{
	struct str s = str_of(line + 1);
	while (s.n && s.p[0] == ' ')
		s = (struct str){s.p + 1, s.n - 1};
	if (s.n)
		return s;
	prompt(a);
	if (a->over || !review_read_line(line, size))
		return (struct str){"", 0};
	return str_of(line);
}

static void go(struct asking *a, char *line, size_t size)
{
	uint64_t to;
	struct str word = argument(a, line, size, list);
	if (str_to_u64(word, 1, a->n, &to))
		say(a, "There is no change with that number.\n");
	else
		a->at = (size_t)to - 1;
}

static void ask_regex(struct asking *a)
{
	say(a, "search for which regular expression? ");
}

static void search(struct asking *a, char *line, size_t size)
{
	regex_t rx;
	char why[200];
	struct str word = argument(a, line, size, ask_regex);
	int bad = regcomp(&rx, word.p, REG_EXTENDED | REG_NOSUB | REG_NEWLINE);
	if (bad || !word.n) {
		auto_buf struct buf b = BUF_INIT(1024);
		if (bad)
			regerror(bad, &rx, why, sizeof why);
		else
			regfree(&rx);
		buf_str(&b, "That is no regular expression: ");
		out_text(&b, bad ? why : "it is empty");
		buf_byte(&b, '\n');
		a->over |= out_flush(&b) != 0;
		return;
	}
	size_t i = 1;
	while (i <= a->n && regexec(&rx, text_of(&a->v[(a->at + i) % a->n]), 0, NULL, 0))
		i++;
	regfree(&rx);
	if (i > a->n)
		say(a, "No change matches.\n");
	else
		a->at = (a->at + i) % a->n;
}

// --- answers ---

static void decide(struct asking *a, enum answer answer)
{
	free(a->v[a->at].lines);
	a->v[a->at].lines = NULL;
	a->v[a->at].answer = answer;
	a->at = next_open(a);
	a->over |= a->at == a->n;
}

// This one and the undecided ones behind it in its file.
static void decide_rest(struct asking *a, enum answer answer)
{
	const json_t *file = a->v[a->at].change;
	a->v[a->at].answer = UNDECIDED;
	for (size_t i = a->at; i < a->n && a->v[i].change == file; i++)
		if (is_open(a, i))
			a->v[i].answer = answer;
	decide(a, answer);
}

static void edit(struct asking *a)
{
	struct err e;
	struct item *i = &a->v[a->at];
	char *lines = review_edit(i->change, i->hunk, &e);
	if (lines) {
		decide(a, TAKE);
		i->lines = lines;
		return;
	}
	auto_buf struct buf b = BUF_INIT(1024);
	buf_str(&b, e.kind == ERR_INVALID ? "It can not be edited: " : "Not edited: ");
	out_text(&b, e.msg);
	buf_byte(&b, '\n');
	a->over |= out_flush(&b) != 0;
}

static void prompt(struct asking *a)
{
	size_t ignored;
	const struct item *i = &a->v[a->at];
	auto_buf struct buf b = BUF_INIT(4 << 20);
	show_hunk(&b, i->change, i->hunk, a->colour);
	buf_fmt(&b, "%s(%zu/%zu) %s this change [y,n,q,a,d%s", a->colour ? "\033[1;34m" : "", a->at + 1, a->n, a->dismiss ? "Dismiss" : "Apply",
		a->dismiss ? "" : ",x,e");
	buf_str(&b, open_before(a, &ignored) ? ",k" : "");
	buf_str(&b, a->at ? ",K" : "");
	buf_str(&b, open_behind(a, &ignored) ? ",j" : "");
	buf_str(&b, a->at + 1 < a->n ? ",J" : "");
	buf_fmt(&b, "%s,?]? %s", a->n > 1 ? ",g,/" : "", a->colour ? "\033[m" : "");
	a->over |= out_flush(&b) != 0;
}

static void act(struct asking *a, char *line, size_t size)
{
	switch (*line) {
	case 'y':
		decide(a, TAKE);
		break;
	case 'n':
		decide(a, LEAVE);
		break;
	case 'a':
	case 'd':
		decide_rest(a, *line == 'a' ? TAKE : LEAVE);
		break;
	case 'q':
		a->over = true;
		break;
	case 'j':
	case 'J':
	case 'k':
	case 'K':
		move(a, *line);
		break;
	case 'g':
		go(a, line, size);
		break;
	case '/':
		search(a, line, size);
		break;
	case 's':
		say(a, "It can not be split: a change is one run of lines. e edits it.\n");
		break;
	case 'x':
	case 'e':
		if (a->dismiss)
			say(a, "A change is dismissed as a whole, or not.\n");
		else if (*line == 'e')
			edit(a);
		else
			decide(a, DISMISS);
		break;
	default:
		say(a, help);
	}
}

static void ask_all(struct asking *a, const json_t *changes)
{
	char line[256];
	size_t i, k, n = 0;
	json_t *c, *h;
	json_array_foreach(changes, i, c) a->n += json_array_size(json_object_get(c, "hunks"));
	a->v = xcalloc(a->n + 1, sizeof *a->v);
	json_array_foreach(changes, i, c)
		json_array_foreach(json_object_get(c, "hunks"), k, h) a->v[n++] = (struct item){.change = c, .hunk = h};
	a->over = !a->n;
	prompt_begin();
	while (!a->over) {
		prompt(a);
		if (a->over)
			break;
		if (!review_read_line(line, sizeof line)) {
			say(a, "\n"); // what comes next is not part of the question
			break;
		}
		act(a, line, sizeof line);
	}
	prompt_end();
}

// --- what was answered ---

struct answers {
	char **take, **dismiss, **accept, **edits;
};

static void sort(const struct asking *a, struct answers *out)
{
	const json_t *accepted = NULL;
	for (size_t i = 0; i < a->n; i++) {
		const struct item *x = &a->v[i];
		const char *id = json_str(x->hunk, "id");
		if (x->answer == DISMISS)
			strv_add(&out->dismiss, id);
		if (x->answer != TAKE)
			continue;
		strv_add(&out->take, id);
		if (accepted != x->change && json_array_size(json_object_get(x->change, "risks"))) // they were shown with it
			strv_add(&out->accept, json_str(x->change, "path"));
		accepted = x->change;
		if (x->lines) {
			strv_add(&out->edits, id);
			strv_add(&out->edits, x->lines);
		}
	}
}

static void answers_done(struct asking *a, struct answers *x)
{
	for (size_t i = 0; i < a->n; i++)
		free(a->v[i].lines);
	free(a->v);
	strv_free(x->take);
	strv_free(x->dismiss);
	strv_free(x->accept);
	strv_free(x->edits);
}

static int apply(const struct call *c, struct api *a, const struct review_place *p, const struct review_opts *o, const char *verb,
		 const struct review_choice *x)
{
	struct err e;
	struct review_place none = {.id = p->id, .repo = p->repo, .ignored = p->ignored};
	auto_json json_t *done = review_do(a, &none, o, verb, x, &e);
	if (!done)
		return out_fail(c, &e);
	auto_buf struct buf b = BUF_INIT(256);
	size_t n = strv_len(x->hunks), edited = strv_len(x->edits) / 2;
	buf_fmt(&b, "%zu change%s %s", n, n == 1 ? "" : "s", *verb == 'a' ? "applied" : "dismissed");
	if (edited)
		buf_fmt(&b, ", %zu of them edited", edited);
	buf_byte(&b, '\n');
	return out_flush(&b);
}

int review_patch_mode(const struct call *c, struct api *a, const struct review_place *p, const struct review_opts *o, bool dismiss)
{
	struct err e;
	struct answers x = {0};
	struct asking asking = {.dismiss = dismiss, .colour = term_colour(NULL)};
	auto_json json_t *diff = review_ask_diff(a, p, o, true, &e);
	if (!diff)
		return out_fail(c, &e);
	ask_all(&asking, json_object_get(diff, "changes"));
	sort(&asking, &x);
	int status = 0;
	struct review_choice take = {.hunks = x.take, .accept = x.accept, .edits = x.edits, .digest = json_str(json_object_get(diff, "summary"), "digest")};
	if (x.take)
		status = apply(c, a, p, o, dismiss ? "dismiss" : "apply", &take);
	if (x.dismiss && !status) {
		// what was applied is no longer pending: the rest has a digest of its own
		auto_json json_t *rest = review_ask_diff(a, p, o, false, &e);
		struct review_choice go = {.hunks = x.dismiss, .digest = rest ? json_str(json_object_get(rest, "summary"), "digest") : NULL};
		status = rest ? apply(c, a, p, o, "dismiss", &go) : out_fail(c, &e);
	}
	if (!dismiss && !status)
		review_tell_left_out(diff, p);
	answers_done(&asking, &x);
	return status;
}
