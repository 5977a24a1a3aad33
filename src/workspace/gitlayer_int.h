// SPDX-License-Identifier: Apache-2.0
// Inside gitlayer.h: what a private .git is made of. Everything read here may be hostile.
#pragma once
#include "workspace/gitdir.h"
#include "workspace/gitlayer.h"

// gitlayer_config.c: the keys that are kept, credentials taken out of URLs.
struct gitconfig {
	char *worktree;			 // core.worktree as the host has it
	bool reftable, sparse, converts; // converts: line ends may differ between repository and work tree
	unsigned hex;			 // digits of an object id: 40 or 64
};
// Appends the private form of the host's config texts (NULL: absent) to out. worktree: the core.worktree to set, or
// NULL.
int gitconfig_strip(char *const texts[2], const char *worktree, struct buf *out, struct gitconfig *found,
		    struct err *e) MUST_USE;
// The same of what decides how a work tree is read, and nothing else: for a repository of ours that looks at it.
int gitconfig_core(char *const texts[2], struct buf *out, struct gitconfig *found, struct err *e) MUST_USE;
void gitconfig_done(struct gitconfig *c);
void url_scrub(struct buf *text);					 // user:password@ goes from every URL in it

void gitconfig_add(struct buf *out, const char *key, const char *value); // key: section[.sub].name (gitlayer_write.c)

// gitlayer_refs.c: every ref of a repository, loose ones over packed ones.
struct gitref {
	char *name, *id, *peeled, *target; // target: of a symbolic one, which has no id
	size_t seq;			   // of two with one name the later counts
};
struct gitrefs {
	struct gitref *list;
	size_t n, cap;
	unsigned hex;
	unsigned skipped; // names or values that git would not take
};
int gitrefs_read(const struct gitdir *g, unsigned hex, struct gitrefs *out, struct err *e) MUST_USE;
int gitrefs_write(const struct gitrefs *r, int git, struct err *e) MUST_USE; // packed-refs, and symbolic ones as files
// The commit of a HEAD text; *out_branch is its branch (or full ref name) or NULL. Both owned. False: it names nothing.
bool gitrefs_head(const struct gitrefs *r, struct buf *text, char **out_commit, char **out_branch);
const struct gitref *gitrefs_find(const struct gitrefs *r, const char *name);
void gitrefs_add(struct gitrefs *r, const char *name, const char *id, const char *peeled, const char *target);
void gitrefs_sort(struct gitrefs *r); // after the last add
void gitrefs_done(struct gitrefs *r);
bool gitref_is_name(const char *name);
bool gitref_is_id(const char *s, unsigned hex);

// gitlayer_files.c
// A copy of an index (or a table of refs), with its time in whole seconds or exactly. Absent is fine.
enum index_time { INDEX_SECONDS, INDEX_EXACT };
int gitfiles_index(int from, const char *name, int to, const char *as, enum index_time time, struct err *e) MUST_USE;
int gitfiles_sharedindex(int from, int to, struct err *e) MUST_USE; // what a split index refers to
int gitfiles_copy(const struct gitdir *g, int git, bool reftable, struct err *e) MUST_USE;
int gitfiles_config(const struct gitdir *g, char *texts[2], struct err *e) MUST_USE; // owned; NULL where absent
// The object directories of g: its own first, then its alternates that may be shown. Adds to l->mounts and *out_places.
int gitfiles_objects(const struct gitdir *g, struct gitlayer *l, char ***out_places, struct err *e) MUST_USE;
