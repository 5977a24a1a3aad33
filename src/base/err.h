// SPDX-License-Identifier: Apache-2.0
// The one error type. A value on the caller's stack, passed last, never NULL.
// On failure a function fills it and returns -1 (or NULL); on success it is untouched.
#pragma once
#include <stdarg.h>

enum err_kind {
	ERR_NONE,
	ERR_INVALID,
	ERR_NOT_FOUND,
	ERR_CONFLICT,
	ERR_DENIED,
	ERR_LIMIT,
	ERR_TIMEOUT,
	ERR_UNAVAILABLE,
	ERR_UNSUPPORTED,
	ERR_SYSTEM,
	ERR_BUG,
	ERR_KINDS,
};

// Fixed size and free of pointers: a child sends it over a socket as it is.
struct err {
	enum err_kind kind;
	int sys; // errno of the failing call, 0 when the failure is ours
	char msg[504];
};

#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF(f, a) __attribute__((format(printf, f, a)))

// All three return -1, so that every failure is one line: return err_sys(e, "open %s", path);
int err_sys(struct err *e, const char *fmt, ...) PRINTF(2, 3); // reads errno first; appends its text
int err_set(struct err *e, enum err_kind kind, const char *fmt, ...) PRINTF(3, 4);
int err_wrap(struct err *e, const char *fmt, ...) PRINTF(2, 3); // prepends "context: "

const char *err_kind_name(enum err_kind kind); // "not_found"; "none" for out of range
enum err_kind err_kind_parse(const char *name);	// ERR_SYSTEM when unknown
