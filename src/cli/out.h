// SPDX-License-Identifier: Apache-2.0
// What the user sees: text made harmless for a terminal, tables, ages, sizes, the error line.
#pragma once
#include "base/json.h"
#include "cli/opt.h"

// Appends s with everything escaped that could move the cursor, recolour, reorder or hide text: C0, DEL,
// C1, bidirectional controls, zero-width characters, tags, and bytes that are not UTF-8.
void out_text(struct buf *b, const char *s);
void out_text_n(struct buf *b, const char *p, size_t n);

void out_size(struct buf *b, uint64_t bytes);			 // "1.5 GiB"
void out_cpus(struct buf *b, uint64_t milli);			 // "cpus 1.5"
void out_age(struct buf *b, uint64_t ms);			 // "3m", "2h", "5d"
int out_iso_ms(const char *iso, uint64_t *out_unix_ms) MUST_USE; // 2026-01-31T10:20:30.123Z

// Rows of columns, widths found at the end; cells are escaped as they are added.
struct table {
	int n_cols;
	char **cells;
	size_t n_cells;
	uint32_t room;	   // columns of the terminal it is for; 0 = as wide as it gets
	const char *spare; // digits of the columns that go first where there is less room; NULL = none
};
void table_add(struct table *t, const char *cell);
void table_add_u64(struct table *t, uint64_t v);
void table_print(struct table *t, struct buf *out); // and frees the cells

// Writes all of it to stdout. Exit status: 0, or 1 with a line on stderr.
int out_flush(struct buf *b);
int out_json(const json_t *j);	// indented; same status. On a terminal in ASCII only
int out_json_line(struct buf *line); // written already, on one line; same status. On a terminal in ASCII only
// A line of JSON that somebody else wrote, and its end, for stdout: on a terminal in ASCII only, and escaped if it is no JSON.
void out_json_raw(struct buf *b, const char *p, size_t n);
void out_stderr(struct buf *b); // failure is nobody's concern any more

// The error line `skep: VERB: message`, and the exit status of its kind: 125 for verbs that run a command.
int out_fail(const struct call *c, const struct err *e);
int out_usage(const struct call *c, const struct err *e); // points at --help; 2
int out_exit_of(enum err_kind kind);
