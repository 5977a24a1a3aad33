// SPDX-License-Identifier: Apache-2.0
// -p: each change is shown, and a key says what becomes of it. Nothing happens before the last answer.
#include "cli/review.h"

#include "base/mem.h"
#include "cli/out.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct answers {
	char **take, **dismiss, **accept;
	bool quit;
};

static void answers_done(struct answers *a)
{
	strv_free(a->take);
	strv_free(a->dismiss);
	strv_free(a->accept);
}

static const char help[] = "y - apply this change\n"
			   "n - leave it pending\n"
			   "x - dismiss it: the sandbox's file goes back to what it was\n"
			   "a - apply it and all later ones of this file\n"
			   "d - leave it and all later ones of this file\n"
			   "s - split it: a change is one run of lines, it is as small as it gets\n"
			   "q - leave this one and all that follow; what was answered is done\n"
			   "? - this help\n";

// The first letter of an answer; q at the end of input.
static char read_key(void)
{
	char line[64];
	if (!fgets(line, sizeof line, stdin))
		return 'q';
	return line[0] == '\n' ? '?' : line[0];
}

static char ask(const json_t *change, const json_t *hunk, size_t at, size_t of, bool dismiss, bool colour)
{
	for (;;) {
		auto_buf struct buf b = BUF_INIT(4 << 20);
		show_hunk(&b, change, hunk, colour);
		buf_fmt(&b, "%s(%zu/%zu) %s this change [y,n,%sa,d,q,?]? %s", colour ? "\033[1;34m" : "", at, of, dismiss ? "Dismiss" : "Apply",
			dismiss ? "" : "x,", colour ? "\033[m" : "");
		if (out_flush(&b))
			return 'q';
		fflush(stdout);
		char key = read_key();
		if (strchr(dismiss ? "ynadq" : "ynxadq", key))
			return key;
		auto_buf struct buf h = BUF_INIT(4096);
		buf_str(&h, key == 's' ? "It can not be split: a change is one run of lines.\n" : help);
		if (out_flush(&h))
			return 'q';
	}
}

static void keep(struct answers *a, const json_t *change, const char *id, char key)
{
	if (key == 'x') {
		strv_add(&a->dismiss, id);
		return;
	}
	strv_add(&a->take, id);
	if (json_array_size(json_object_get(change, "risks"))) // they were shown with it
		strv_add(&a->accept, json_str(change, "path"));
}

static void ask_file(struct answers *a, const json_t *change, size_t *at, size_t of, bool dismiss, bool colour)
{
	size_t i;
	json_t *h;
	char all = 0;
	json_array_foreach(json_object_get(change, "hunks"), i, h)
	{
		++*at;
		if (a->quit)
			return;
		char key = all ? all : ask(change, h, *at, of, dismiss, colour);
		a->quit = key == 'q';
		if (key == 'a' || key == 'd')
			all = key;
		if (key == 'y' || key == 'a' || key == 'x')
			keep(a, change, json_str(h, "id"), key);
	}
}

static void ask_all(struct answers *a, const json_t *changes, bool dismiss)
{
	const char *no = getenv("NO_COLOR");
	bool colour = isatty(STDOUT_FILENO) && !(no && *no);
	size_t i, at = 0, of = 0;
	json_t *c;
	json_array_foreach(changes, i, c) of += json_array_size(json_object_get(c, "hunks"));
	json_array_foreach(changes, i, c) ask_file(a, c, &at, of, dismiss, colour);
}

static int apply(const struct call *c, struct api *a, const struct review_place *p, const struct review_opts *o, const char *verb, char **hunks,
		 char **accept, const char *digest)
{
	struct err e;
	struct review_place none = {.id = p->id, .repo = p->repo, .ignored = p->ignored};
	struct review_choice x = {.hunks = hunks, .accept = accept, .digest = digest};
	auto_json json_t *done = review_do(a, &none, o, verb, &x, &e);
	if (!done)
		return out_fail(c, &e);
	auto_buf struct buf b = BUF_INIT(256);
	size_t n = strv_len(hunks);
	buf_fmt(&b, "%zu change%s %s\n", n, n == 1 ? "" : "s", *verb == 'a' ? "applied" : "dismissed");
	return out_flush(&b);
}

int review_patch_mode(const struct call *c, struct api *a, const struct review_place *p, const struct review_opts *o, bool dismiss)
{
	struct err e;
	struct answers x = {0};
	auto_json json_t *diff = review_ask_diff(a, p, o, true, &e);
	if (!diff)
		return out_fail(c, &e);
	ask_all(&x, json_object_get(diff, "changes"), dismiss);
	int status = 0;
	const char *digest = json_str(json_object_get(diff, "summary"), "digest");
	if (x.take)
		status = apply(c, a, p, o, dismiss ? "dismiss" : "apply", x.take, x.accept, digest);
	if (x.dismiss && !status) {
		// what was applied is no longer pending: the rest has a digest of its own
		auto_json json_t *rest = review_ask_diff(a, p, o, false, &e);
		status = rest ? apply(c, a, p, o, "dismiss", x.dismiss, NULL, json_str(json_object_get(rest, "summary"), "digest")) : out_fail(c, &e);
	}
	answers_done(&x);
	return status;
}
