// SPDX-License-Identifier: Apache-2.0
// Borrowed views for parsers, and the only text-to-number conversions.
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct str {
	const char *p;
	size_t n;
};

struct str str_of(const char *s);
bool str_is(struct str s, const char *lit);
bool str_has_prefix(const char *s, const char *prefix);
bool str_has_suffix(const char *s, const char *suffix);
// Splits off what stands before the first `sep`; the rest stays in *s. False when *s is used up.
bool str_next(struct str *s, char sep, struct str *out_part);

// Decimal digits only: no sign, no space, no leading zero but "0". 0 or -1.
int str_to_u64(struct str s, uint64_t min, uint64_t max, uint64_t *out) MUST_USE;
int str_to_size(const char *s, uint64_t *out) MUST_USE;		// 512, 64k, 1.5g (powers of 1024)
int str_to_duration_ms(const char *s, uint64_t *out) MUST_USE;	// 500ms, 10s, 5m, 2h, 7d; plain = seconds
int str_to_milli(const char *s, uint64_t *out) MUST_USE;	// "1.5" -> 1500

void str_hex(char *out, const void *p, size_t n); // 2n digits and a NUL

int fmt_to(char *dst, size_t size, const char *fmt, ...) PRINTF(3, 4) MUST_USE; // -1 on truncation

// Of a NULL-terminated list the one that was probably meant: as few slips away as a short word allows. NULL: none.
const char *str_nearest(const char *word, char *const *list);

// True for well-formed UTF-8 (no surrogates, no overlong forms).
bool str_is_utf8(const char *p, size_t n);
// Length of the longest prefix that does not end inside a UTF-8 sequence.
size_t str_utf8_whole(const char *p, size_t n);
