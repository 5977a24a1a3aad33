// SPDX-License-Identifier: Apache-2.0
// Files of a sandbox, for surfaces: typed calls around init's file operations (init/files.h). They run inside the cell as a
// user of it; a sandbox that is stopped is started. Relative paths begin at the workspace.
//
// Errors have the errno in err.sys: ENOENT, EEXIST, ENOTDIR, EISDIR, EACCES, ENOTEMPTY; ESTALE: not as it was (etag);
// ENOMSG, ENOTUNIQ: the text to replace is not there, or more than once.
#pragma once
#include "base/str.h"
#include "engine/tap.h"
#include "model/file.h"

struct file_at {
	struct loop *loop;
	struct engine *engine;
	const char *sandbox, *user; // user NULL: the sandbox's
};

struct file_hit {
	char *path;	       // relative to the directory searched
	uint64_t line, column; // from 1; 0: the file itself
	char *text;	       // the line, as much as is shown of it
	size_t n_text;
};

// What a call gives; borrowed during the callback. Members that the call does not speak of are zero.
struct file_result {
	struct file_record *list; // stat, list, write, edit, mkdir, move, copy; names: list's are relative to its directory
	size_t n;
	struct file_hit *hits; // search
	size_t n_hits;
	uint64_t looked_at; // search: files
	bool more;	    // list, search: what was left out
	uint64_t replaced, line; // edit: how many, where the first
	struct buf *bytes;	 // read: may be taken
};
struct file_done {
	void (*fn)(void *ctx, const struct err *e, struct file_result *r); // e NULL = success, else r is
	void *ctx;
};

// mode: 0 = as the umask leaves it, or as it was.
enum file_flag {
	FILE_PARENTS = 1, // makes the directories above
	FILE_NEW = 2,	  // EEXIST where something is
	FILE_FOLLOW = 4,  // stat: of what a link points to
	FILE_PLAIN = 8,	  // remove: no tree
	FILE_MUST = 16,	  // remove: ENOENT where nothing is
	FILE_RECURSIVE = 32, // watch
};
struct file_how {
	unsigned flags; // enum file_flag
	uint32_t mode;
	const char *etag; // NULL = whatever it is; "*" = whatever it is, but it is
};

void file_stat(const struct file_at *at, const char *path, unsigned flags, struct file_done d);
void file_list(const struct file_at *at, const char *path, unsigned depth, unsigned max, struct file_done d);
void file_read_some(const struct file_at *at, const char *path, uint64_t from, uint64_t len, struct file_done d);
void file_write(const struct file_at *at, const char *path, const void *p, size_t n, const struct file_how *how, struct file_done d);
void file_mkdir(const struct file_at *at, const char *path, const struct file_how *how, struct file_done d);
void file_move(const struct file_at *at, const char *from, const char *to, unsigned flags, struct file_done d);
void file_copy(const struct file_at *at, const char *from, const char *to, unsigned flags, struct file_done d);
void file_remove(const struct file_at *at, const char *path, unsigned flags, struct file_done d);

struct file_edit {
	struct str old, put;
	bool all;
};
void file_edit(const struct file_at *at, const char *path, const struct file_edit *edits, size_t n, const char *etag,
	       struct file_done d); // all of them or none

struct file_query {
	const char *dir;   // or one file; NULL = the workspace
	const char *regex; // NULL: files by their names
	char *const *globs, *const *nots; // NULL = none
	bool literal, nocase, hidden, files_only;
	unsigned limit; // hits; 0 = FILE_HITS_MAX
	unsigned ms;	// 0 = 10 s
};
#define FILE_HITS_MAX 5000
void file_search(const struct file_at *at, const struct file_query *q, struct file_done d);

// --- in pieces: nothing is called before the call returns; `end` is last, and not called after a close ---
struct file_get;
struct file_get_ops {
	void (*head)(void *ctx, const struct file_record *r); // of the whole file
	void (*data)(void *ctx, const void *p, size_t n);
	void (*end)(void *ctx, const struct err *e);
};
// from: NULL, "N" or "-N": the last N bytes. len: at most.
struct file_get *file_get_open(const struct file_at *at, const char *path, const char *from, uint64_t len,
			       const struct file_get_ops *ops, void *ctx);
void file_get_pause(struct file_get *g, bool on);
void file_get_close(struct file_get *g);

// A file that comes in pieces, seen when it is whole: file_put_eof says that it is. A close before that leaves what was there.
struct file_put;
struct file_put_ops {
	void (*room)(void *ctx); // file_put_send takes bytes now
	void (*end)(void *ctx, const struct err *e, const struct file_record *r);
};
struct file_put *file_put_open(const struct file_at *at, const char *path, const struct file_how *how,
			       const struct file_put_ops *ops, void *ctx);
size_t file_put_send(struct file_put *p, const void *bytes, size_t n); // how many of them were taken
void file_put_eof(struct file_put *p);
void file_put_close(struct file_put *p);

// A tree as a tar archive, out and in; head and end as above.
struct file_get *file_tar_open(const struct file_at *at, const char *path, const struct file_get_ops *ops, void *ctx);
struct file_put *file_untar_open(const struct file_at *at, const char *dir, unsigned flags, const struct file_put_ops *ops, void *ctx);

struct file_watch;
struct file_watch_ops {
	void (*event)(void *ctx, enum file_event ev, bool dir, const char *name); // first FILE_READY; name relative to the directory
	void (*end)(void *ctx, const struct err *e);
};
struct file_watch *file_watch_open(const struct file_at *at, const char *dir, unsigned flags, const struct file_watch_ops *ops, void *ctx);
void file_watch_pause(struct file_watch *w, bool on);
void file_watch_close(struct file_watch *w);

char *file_path(const struct file_at *at, const char *path); // owned: absolute
