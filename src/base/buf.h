// SPDX-License-Identifier: Apache-2.0
// The one growing buffer. Always NUL-terminated once something was added; a hard maximum is given at
// init, and an append past it adds nothing and sets the sticky flag `overflow`, tested once at the end.
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	char *p;
	size_t n, cap, max;
	bool overflow;
};

#define BUF_INIT(limit) ((struct buf){.max = (limit)})
#define auto_buf __attribute__((cleanup(buf_done)))

void buf_done(struct buf *b);
void buf_clear(struct buf *b); // keeps the memory
void buf_add(struct buf *b, const void *p, size_t n);
void buf_str(struct buf *b, const char *s);
void buf_byte(struct buf *b, char c);
void buf_fmt(struct buf *b, const char *fmt, ...) PRINTF(2, 3);
void buf_u64(struct buf *b, uint64_t v); // in decimal
void buf_cut(struct buf *b, size_t n); // drops the first n bytes
char *buf_room(struct buf *b, size_t n); // space for n more bytes, NULL past max; then b->n += used
const char *buf_cstr(struct buf *b);	 // "" when empty
char *buf_take(struct buf *b);		 // owned C string; the buffer is empty again

// Little-endian binary records, the form of every message between our own processes.
void wire_u8(struct buf *b, uint8_t v);
void wire_u32(struct buf *b, uint32_t v);
void wire_u64(struct buf *b, uint64_t v);
void wire_bytes(struct buf *b, const void *p, size_t n);
void wire_str(struct buf *b, const char *s); // NULL is kept apart from ""
void wire_strv(struct buf *b, char *const *v);

// Reader: after any short or malformed read `bad` stays set and every read returns 0 / NULL.
struct wire {
	const uint8_t *p;
	size_t n;
	bool bad;
};
uint8_t wire_get_u8(struct wire *w);
uint32_t wire_get_u32(struct wire *w);
uint64_t wire_get_u64(struct wire *w);
const uint8_t *wire_get_bytes(struct wire *w, size_t *out_n); // borrowed
char *wire_get_str(struct wire *w);			      // owned, may be NULL
char **wire_get_strv(struct wire *w);			      // owned, never NULL unless bad
