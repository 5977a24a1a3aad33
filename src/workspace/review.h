// SPDX-License-Identifier: Apache-2.0
// The change set of a sandbox, judged from copies: P (reviewed base, a git tree), S (the copy of what the sandbox made),
// H (the host directory now, read beneath its top). For the program skep-review: blocking, one review per process.
//
// A change is pending when S differs from P and the host does not have it yet. What would land is target = merge3(P, H, S),
// so the pending change is H -> target.
#pragma once
#include "workspace/review_copy.h"
#include "workspace/review_lines.h"
#include "workspace/review_side.h"
#include <errno.h>

enum change_kind { CHANGE_ADD, CHANGE_MODIFY, CHANGE_DELETE, CHANGE_MODE, CHANGE_TYPE, CHANGE_RENAME, CHANGE_DIR, CHANGE_RMDIR };
enum change_state {
	STATE_CLEAN,	// H = P
	STATE_MOVED,	// the host changed too, elsewhere in the file
	STATE_CONFLICT, // the host changed the same
	STATE_LOST,	// the base's content is not to be had any more
	STATE_GONE,	// the host directory is not there any more
};

struct risk {
	const char *flag;
	char *reason; // owned
};

struct change {
	char *path;
	enum change_kind kind;
	enum change_state state;
	char *why;	   // reason of a state that is not clean; owned, may be NULL
	struct side p, h, s;
	const struct copy_entry *entry; // NULL: S has nothing there
	struct buf host; // the host's content, if short: else it is read again when needed
	bool whole;	   // changes as one piece: added, deleted, binary, link, another type, too long
	bool lost;	   // the base can not be looked up
	bool binary, unseen; // unseen: too long for its content to be kept
	bool implied;	   // P is the host's own file: it was ignored when the base was pinned, and is older than the sandbox
	bool in_gone_dir;  // deleted with its directory
	struct change *from; // renames: the deleted one, which is then hidden
	bool hidden;
	unsigned similarity; // per cent
	struct hunks hunks;
	uint64_t added, removed; // lines
	struct risk *risks;
	size_t n_risks;
};

struct review_spec {
	const char *shadow, *target; // target NULL: the sandbox stands on nothing, everything in it is new
	const char *base;	     // the directory P was taken of, when target is another one; may be NULL
	bool baseless;		     // it stands on nothing, and target is only where it goes
	uint64_t dev, ino; // of base (else target); 0 = not checked
	int64_t t0_ns;	   // when the sandbox was made
	bool renames, risks;
	bool ignored; // what the host ignores too
	char **scope; // paths whose contents were collected, if the copy has not all of them; borrowed
	char **hide;  // globs (model/glob.h) of what the sandbox never saw: no change of its; NULL = none
};

struct review {
	struct review_spec spec;
	struct shadow *shadow;
	struct review_copy copy;
	uint8_t p_tree[SHADOW_OID];
	int root, base_root; // -1: there is none. base_root may be root itself
	bool gone;	     // there was one
	bool lost;	     // what the base was is gone with it
	bool folds;	     // root takes names in other letters for the same
	struct change **v;   // sorted by review_path_cmp
	size_t n, cap;
	size_t host_kept;
	char digest[65];
	uint64_t ignored; // changes left out
};

// In err.sys: only a part of the changes was collected, and it can not be judged without the rest.
#define REVIEW_NEEDS_ALL ESTALE

#define HOST_KEPT (64u << 10)	 // bytes of one file
#define HOST_KEPT_ALL (256u << 20) // and of all

// Contents of the three sides of a change. Absent ones are empty.
struct texts {
	struct shadow_bytes object;
	struct buf host, base; // owned, when they had to be read
	const char *p, *h, *s;
	size_t p_n, h_n, s_n;
};

int review_open(const struct review_spec *spec, struct review *out, struct err *e) MUST_USE;
void review_done(struct review *r);
const char *change_kind_name(enum change_kind k);
const char *change_state_name(enum change_state s);

// For this room.
int texts_load(struct review *r, const struct change *c, struct texts *out, struct err *e) MUST_USE;
void texts_done(struct texts *t);
int change_judge(struct review *r, struct change *c, bool *out_pending, struct err *e) MUST_USE; // sides -> state, hunks
int review_drop_ignored(struct review *r, struct err *e) MUST_USE;
int review_find_renames(struct review *r, struct err *e) MUST_USE;
int change_line_hunks(struct change *c, const char *path, const char *old, size_t old_n, const char *now, size_t now_n,
		      struct err *e) MUST_USE;
int review_risks(struct review *r, struct err *e) MUST_USE;
void change_add_risk(struct change *c, const char *flag, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void change_free(struct change *c);
