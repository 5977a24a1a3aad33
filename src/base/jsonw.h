// SPDX-License-Identifier: Apache-2.0
// Writing JSON into a buffer, without a library (the journal's writer has none). Strings that are not
// UTF-8 are given twice: escaped under their key, and as KEY_b64.
#pragma once
#include "base/buf.h"

struct jsonw {
	struct buf *b;
	bool comma;
};

void jw_open(struct jsonw *w, char bracket); // '{' or '['
void jw_close(struct jsonw *w, char bracket);
void jw_key(struct jsonw *w, const char *key);
void jw_str(struct jsonw *w, const char *p, size_t n);
void jw_u64(struct jsonw *w, uint64_t v);
void jw_i64(struct jsonw *w, int64_t v);
void jw_bool(struct jsonw *w, bool v);
void jw_null(struct jsonw *w);
void jw_raw(struct jsonw *w, const char *json); // trusted, already JSON

// Members. A NULL string adds nothing.
void jw_kstr(struct jsonw *w, const char *key, const char *s);
void jw_kbytes(struct jsonw *w, const char *key, const char *p, size_t n);
void jw_kb64(struct jsonw *w, const char *key, const char *p, size_t n); // base64 of it
void jw_ku64(struct jsonw *w, const char *key, uint64_t v);
void jw_ki64(struct jsonw *w, const char *key, int64_t v);
void jw_kbool(struct jsonw *w, const char *key, bool v);
void jw_kstrv(struct jsonw *w, const char *key, char *const *v); // when one is not UTF-8, as KEY_b64 too
void jw_ktime(struct jsonw *w, const char *key, uint64_t unix_ms); // ISO 8601, in UTC
// Members that are null where there is nothing: NULL, or 0.
void jw_nstr(struct jsonw *w, const char *key, const char *s);
void jw_nu64(struct jsonw *w, const char *key, uint64_t v);
void jw_ntime(struct jsonw *w, const char *key, uint64_t unix_ms);
