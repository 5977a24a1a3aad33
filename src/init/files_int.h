// SPDX-License-Identifier: Apache-2.0
// The operations of init/files.h, by family, and what they share.
#pragma once
#include "base/buf.h"
#include "model/file.h"
#include <stdbool.h>
#include <sys/stat.h>

// Operations take their arguments behind the name. Paths come first, then words.
int op_stat(char *const *a, struct err *e) MUST_USE;
int op_list(char *const *a, struct err *e) MUST_USE;
int op_read(char *const *a, struct err *e) MUST_USE;
int op_get(char *const *a, struct err *e) MUST_USE;
int op_write(char *const *a, struct err *e) MUST_USE;
int op_append(char *const *a, struct err *e) MUST_USE;
int op_edit(char *const *a, struct err *e) MUST_USE;
int op_mkdir(char *const *a, struct err *e) MUST_USE;
int op_move(char *const *a, struct err *e) MUST_USE;
int op_copy(char *const *a, struct err *e) MUST_USE;
int op_remove(char *const *a, struct err *e) MUST_USE;
int op_search(char *const *a, struct err *e) MUST_USE;
int op_inotify(char *const *a, struct err *e) MUST_USE;

// Words. Unknown ones are refused by words_only.
int words_only(char *const *words, const char *const *known, struct err *e) MUST_USE; // "word", "key="
bool word(char *const *words, const char *w);
const char *word_value(char *const *words, const char *key); // key with its '='; NULL when absent
int word_u64(char *const *words, const char *key, uint64_t *inout, struct err *e) MUST_USE;
int word_mode(char *const *words, mode_t *inout, bool *out_given, struct err *e) MUST_USE;

#define err_no(e, no, ...) (err_set(e, ERR_SYSTEM, __VA_ARGS__), (e)->sys = (no), -1) // a failure that is told as this errno
void record_of(struct buf *b, int dir, const char *name, const char *shown, const struct stat *st);
int record_put(int dir, const char *name, const char *shown, bool follow, struct err *e) MUST_USE; // on stdout
int copy_bytes(int in, int out, struct err *e) MUST_USE;
int make_parents(const char *path, struct err *e) MUST_USE;

// A file that takes another's place, or goes when the process ends before.
struct replacing {
	char *target, *tmp; // target: where links lead to
	int fd;
	bool in_place; // its directory can not be written, it can
	struct stat was; // st_mode 0: nothing was there
};
#define auto_replacing __attribute__((cleanup(replace_done)))
int replace_begin(struct replacing *r, const char *path, char *const *words, struct err *e) MUST_USE; // mode= parents new etag=
int replace_end(struct replacing *r, struct err *e) MUST_USE;
void replace_done(struct replacing *r); // what did not end goes
