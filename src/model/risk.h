// SPDX-License-Identifier: Apache-2.0
// What a person should look at twice before it lands, pure. A table of names (risk_names.c), and rules about content. A flag
// never says that something is bad: it says why it may be, in a sentence.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// The next flag of a path, from row *at of the table on; NULL when there is none left.
const char *risk_of_path(const char *path, size_t *at, const char **out_reason);

enum risk_link { RISK_LINK_IN, RISK_LINK_OUT, RISK_LINK_GIT };
enum risk_link risk_of_link(const char *path, const char *target, size_t n); // by its text alone

bool risk_scripts_differ(const char *old, size_t old_n, const char *now, size_t now_n);	      // package.json
bool risk_build_sections_differ(const char *old, size_t old_n, const char *now, size_t now_n); // pyproject.toml

struct risk_text {
	size_t bidi, invisible, control, longest;
	const char *secret; // what it looks like
};
void risk_of_text(const char *p, size_t n, struct risk_text *inout); // adds to what is there
const char *risk_secret(const char *line, size_t n);		     // "an AWS key", or NULL

// One file that was added or changed. Contents are those before and after; added: what is new in it.
struct risk_subject {
	const char *path;
	enum { RISK_NAME_ONLY, RISK_TEXT, RISK_LINK, RISK_BINARY, RISK_UNSEEN } what;
	bool becomes_executable;
	const char *old, *now; // of a link: its targets
	size_t old_n, now_n;
	struct risk_text added;
};
typedef void risk_fn(void *ctx, const char *flag, const char *reason); // reason is borrowed for the call
void risk_judge(const struct risk_subject *s, risk_fn *found, void *ctx);
