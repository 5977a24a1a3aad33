// SPDX-License-Identifier: Apache-2.0
// watch -i: what is pending of a file that changed, change by change; each answer is done at once.
#include "base/mem.h"
#include "cli/live.h"
#include "cli/out.h"
#include "cli/prompt.h"
#include "cli/term.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] = "y - apply this change\n"
			   "n - leave it pending\n"
			   "x - dismiss it: the sandbox's file goes back to what it was\n"
			   "d - leave it and the other ones of this file\n"
			   "q - end; what was answered is done\n"
			   "? - this help\n";

// The first letter of a line; q at the end of input.
static char read_key(void)
{
	char line[64];
	return !review_read_line(line, sizeof line) ? 'q' : *line ? *line : '?';
}

bool watch_ask_quits(void)
{
	return read_key() == 'q';
}

static char ask(const json_t *change, const json_t *hunk)
{
	bool colour = term_colour(NULL);
	prompt_begin();
	for (;;) {
		auto_buf struct buf b = BUF_INIT(4 << 20);
		show_hunk(&b, change, hunk, colour);
		buf_fmt(&b, "%sApply this change [y,n,x,d,q,?]? %s", colour ? "\033[1;34m" : "", colour ? "\033[m" : "");
		char key = out_flush(&b) ? 'q' : read_key();
		if (strchr("ynxdq", key)) {
			prompt_end();
			return key;
		}
		auto_buf struct buf h = BUF_INIT(4096);
		buf_str(&h, help);
		if (out_flush(&h)) {
			prompt_end();
			return 'q';
		}
	}
}

// The digest is that of the path's diff as it was shown: what changed since is refused, told, and will be asked about again.
static int act(struct api *a, const struct review_place *p, const json_t *diff, const json_t *change, const json_t *hunk, char key, bool *out_done)
{
	struct err e;
	char *id[] = {xstrdup(json_str(hunk, "id")), NULL}, *path[] = {p->paths[0], NULL};
	struct review_opts o = {.context = OPT_UNSET};
	struct review_choice x = {.hunks = id, .digest = json_str(json_object_get(diff, "summary"), "digest")};
	struct review_place whole = {.id = p->id, .repo = p->repo};
	if (key == 'y' && json_array_size(json_object_get(change, "risks"))) // they were shown with it
		x.accept = path;
	auto_json json_t *done = review_do(a, &whole, &o, key == 'y' ? "apply" : "dismiss", &x, &e);
	auto_buf struct buf b = BUF_INIT(8192);
	*out_done = done != NULL;
	if (done) {
		buf_fmt(&b, "%s\n", key == 'y' ? "applied" : "dismissed");
	} else {
		buf_str(&b, "not done: ");
		out_text(&b, e.msg);
		buf_byte(&b, '\n');
	}
	free(id[0]);
	return out_flush(&b);
}

static json_t *diff_of(struct api *a, const struct review_place *p, struct err *e)
{
	struct review_opts o = {.context = OPT_UNSET};
	return review_ask_diff(a, p, &o, true, e);
}

// Takes the last one away.
static void answers_drop_last(char **v)
{
	size_t n = 0;
	while (v && v[n])
		n++;
	if (!n)
		return;
	mem_free_ptr(&v[n - 1]);
	v[n - 1] = NULL;
}

// The first change whose id was not answered yet.
static const json_t *next_of(const json_t *diff, char **answered, const json_t **out_change)
{
	size_t i, k;
	json_t *c, *h;
	json_array_foreach(json_object_get(diff, "changes"), i, c)
	{
		*out_change = c;
		json_array_foreach(json_object_get(c, "hunks"), k, h)
		{
			bool known = false;
			for (char **v = answered; v && *v; v++)
				known |= !strcmp(*v, json_str(h, "id"));
			if (!known)
				return h;
		}
	}
	return NULL;
}

int watch_ask(const struct call *c, struct api *a, const char *id, const char *repo, const char *path, struct err *e)
{
	auto_free char *own_id = xstrdup(id), *own_repo = xstrdup(repo), *own_path = xstrdup(path);
	char *paths[] = {own_path, NULL}, **answered = NULL;
	struct review_place p = {.id = own_id, .repo = own_repo, .paths = paths};
	auto_free char *refused = NULL; // digest of the diff in which an answer was refused
	int rc = 0;
	(void)c;
	for (bool more = true; more && !rc;) { // each answer changes what is pending: asked anew
		const json_t *change = NULL;
		auto_json json_t *diff = diff_of(a, &p, e);
		const char *digest = diff ? json_str(json_object_get(diff, "summary"), "digest") : "";
		if (refused && diff && strcmp(refused, digest)) // the file is another one now: the answer was not about this
			answers_drop_last(answered);
		mem_free_ptr(&refused);
		refused = NULL;
		const json_t *hunk = diff ? next_of(diff, answered, &change) : NULL;
		if (!diff)
			rc = e->kind == ERR_INVALID || e->kind == ERR_NOT_FOUND ? 0 : -1; // it is gone again
		if (!hunk)
			break;
		char key = ask(change, hunk);
		strv_add(&answered, json_str(hunk, "id"));
		if (key == 'q')
			rc = 1;
		more = key != 'd';
		bool done = true;
		if ((key == 'y' || key == 'x') && act(a, &p, diff, change, hunk, key, &done))
			rc = 1;
		if (!done)
			refused = xstrdup(digest);
	}
	strv_free(answered);
	return rc;
}
