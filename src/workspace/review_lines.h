// SPDX-License-Identifier: Apache-2.0
// Line changes. A change (hunk) is one maximal run of changed lines without context. Pure: buffers in, buffers out.
//
// Three texts: P (reviewed base), H (host now), S (sandbox). Hunks are those of P -> S; against the host each is
//   CLEAN     its lines are on the host as they are in P, and nothing next to them changed: it can land
//   THERE     the host has made the very same change
//   CONFLICT  the host changed these lines, or lines that touch them
#pragma once
#include "base/buf.h"

#define LINES_MAX (16u << 20) // bytes of a text whose lines are looked at; a longer one changes as a whole
#define HUNK_ID 13

enum hunk_state { HUNK_CLEAN, HUNK_THERE, HUNK_CONFLICT };
enum hunk_kind { HUNK_LINES, HUNK_WHOLE, HUNK_MODE };

struct hunk {
	enum hunk_kind kind;
	enum hunk_state state;
	uint32_t old_at, old_n, new_at, new_n; // lines from 0, in P and S
	uint32_t host_at;		       // where its old lines begin in H
	char id[HUNK_ID];
	bool take; // for the caller
	const char *edit; // borrowed: lands instead of the lines of S; NULL = those of S
};

struct hunks {
	struct hunk *v;
	size_t n;
};

struct lines {
	const char *p; // borrowed
	size_t *at;    // start of each line, and the end
	size_t n;
};

void lines_init(struct lines *l, const char *p, size_t n);
void lines_done(struct lines *l);
// Bytes of lines [at, at + n).
const char *lines_get(const struct lines *l, size_t at, size_t n, size_t *out_len);
bool lines_is_text(const char *p, size_t n); // no zero byte, not over LINES_MAX

int hunks_diff(const struct lines *a, const struct lines *b, struct hunks *out, struct err *e) MUST_USE;
void hunks_done(struct hunks *h);
struct hunk *hunks_add(struct hunks *h, enum hunk_kind kind);
// id = first 12 hex digits of SHA-256(path, old lines, new lines, n-th equal one of this path)
void hunks_name(struct hunks *h, const char *path, const struct lines *a, const struct lines *b);
void hunk_name_whole(struct hunk *h, const char *path, const char *tag, const void *old, size_t old_n, const void *now,
		     size_t now_n);
// States and host_at of h (P -> S), given the host's own changes (P -> H).
void hunks_place(struct hunks *h, const struct lines *s, const struct hunks *host, const struct lines *host_lines);
// base (P, or H when at_host) with those hunks that are taken, as they were edited. Of H: only CLEAN ones.
void hunks_splice(const struct hunks *h, const struct lines *base, const struct lines *s, bool at_host,
		  struct buf *out);
// Three-way merge with markers around what conflicts.
int lines_merge_markers(const struct lines *p, const struct lines *h, const struct lines *s, struct buf *out,
			struct err *e) MUST_USE;
// git's binary patch from old to now, from the line "GIT binary patch" on.
int lines_binary_patch(const void *old, size_t old_n, const void *now, size_t now_n, struct buf *out,
		       struct err *e) MUST_USE;
