// SPDX-License-Identifier: Apache-2.0
// One event of a journal as its streams see it: a line whose time and type are found without reading the rest. Views into
// the caller's bytes.
#pragma once
#include "base/err.h"
#include "base/str.h"
#include <stdbool.h>
#include <stdint.h>

struct event_line {
	struct str text, time, type;
	uint64_t after; // offset behind it
};
// The next whole line of rest, which begins at *at of its journal; both move on. false: there is none.
bool event_line_next(struct str *rest, uint64_t *at, struct event_line *out);

// types: NULL = all; "exec" stands for exec.start, exec.exit and whatever else there will be.
bool event_is_of(struct str type, char *const *types);

// An event of any sandbox: TIME-SANDBOX-OFFSET.
struct event_id {
	struct str time, sandbox;
	uint64_t offset; // behind it
};
int event_id_parse(const char *text, struct event_id *out, struct err *e) MUST_USE;
