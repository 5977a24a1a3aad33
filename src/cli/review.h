// SPDX-License-Identifier: Apache-2.0
// Review on the command line.
//
//   review.c       the verbs diff, apply, dismiss, undo, export
//   review_call.c  what they ask skepd
//   review_ask.c   -p: change by change
//   review_edit.c  a change as the person wants it
//   review_show.c  patches on a terminal: colour, pager, nothing that could move the cursor
#pragma once
#include "base/json.h"
#include "cli/api.h"
#include "cli/opt.h"

struct review_opts {
	bool json, stat, name_status, patch, yes, accept_risk, ignored;
	const char *to, *color, *conflicts, *export_patch, *message, *branch, *bundle;
	char **hunks, **accept;
	uint64_t context;
};

// Which sandbox, and which of its paths. Owned.
struct review_place {
	char *id, *repo; // repo: "" when it has no directory here
	char **paths;	 // below the workspace; NULL = all
	bool ignored;	 // what git ignores too: asked for, or named by a path
	const char *word; // that no sandbox is called, and so was taken for a path; borrowed, NULL = none
};
int review_place(const struct call *c, struct api *a, struct review_place *out, struct err *e) MUST_USE;
void review_place_done(struct review_place *p);

// One request about it: POST …/VERB. Answers of several lines become one value with all but the last in a list.
struct jsonw;
void review_put_set(struct jsonw *w, const struct review_place *p, char *const *hunks); // a member of the body
int review_ask(struct api *a, const struct review_place *p, const char *verb, const struct buf *body, struct http_reply *out, struct err *e) MUST_USE;
int review_ask_text(struct api *a, const struct review_place *p, const struct review_opts *o, const char *format, bool text,
		    struct http_reply *out, struct err *e) MUST_USE;
json_t *review_join_lines(const struct buf *b, const char *list, struct err *e) MUST_USE;

// {"changes":[...],"summary":{...}} of what is pending. text: with the lines of the changes.
json_t *review_ask_diff(struct api *a, const struct review_place *p, const struct review_opts *o, bool text, struct err *e) MUST_USE;
// What is to be done with which changes.
struct review_choice {
	bool all;
	char **hunks, **accept; // borrowed
	char **edits;		// pairs: a hunk, the lines that land instead of the sandbox's; borrowed
	const char *digest;
};
json_t *review_do(struct api *a, const struct review_place *p, const struct review_opts *o, const char *verb, const struct review_choice *x,
		  struct err *e) MUST_USE; // its result

// review_show.c
struct screen; // where a long text goes: through a pager, if somebody looks
struct screen *screen_open(const char *color); // color: auto, always, never
bool screen_is_terminal(const struct screen *s);
void screen_patch(struct screen *s, const char *p, size_t n); // a unified diff
void screen_text(struct screen *s, const char *text);	    // a line of ours, harmless already
int screen_close(struct screen *s);			    // exit status

void show_patch(struct buf *b, const char *p, size_t n, bool colour); // hunks of a unified diff, harmless
void show_risks(struct buf *b, const json_t *changes); // one line each
void show_hunk(struct buf *b, const json_t *change, const json_t *hunk, bool colour);

// review_edit.c. The change in the person's editor: NULL with CONFLICT and why when it was given up, INVALID when it can not
// be edited at all. Else the lines that are to land, owned.
char *review_edit(const json_t *change, const json_t *hunk, struct err *e) MUST_USE;
// The lines of a patch of one change that stand instead of its own after it was edited. INVALID: it does not fit any more.
int review_edit_read(const char *was, const char *now, struct buf *out, struct err *e) MUST_USE;

// Says on stderr what of the sandbox does not come along by its nature, a few by name. False: nothing, or paths were named.
bool review_tell_left_out(const json_t *diff, const struct review_place *p);

// review_ask.c
bool review_read_line(char *line, size_t size); // of stdin, nothing ahead of it; cut to size. false: the end
// Exit status.
int review_patch_mode(const struct call *c, struct api *a, const struct review_place *p, const struct review_opts *o, bool dismiss);
