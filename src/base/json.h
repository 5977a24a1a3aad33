// SPDX-License-Identifier: Apache-2.0
// Reading JSON (jansson). Not in skep-cell. Input is bounded before it gets here; duplicate keys,
// nesting past JSON's own limit, and anything after the value are refused.
#pragma once
#include "base/buf.h"
#include <jansson.h>

#define auto_json __attribute__((cleanup(json_decrefp)))

json_t *json_read(const char *p, size_t n, struct err *e) MUST_USE; // owned
// Members of an object. Absent gives the default; a wrong type is INVALID.
int json_get_str(const json_t *o, const char *key, const char **out, struct err *e) MUST_USE; // borrowed, NULL if absent
int json_get_u64(const json_t *o, const char *key, uint64_t *inout, struct err *e) MUST_USE;
int json_get_bool(const json_t *o, const char *key, bool *inout, struct err *e) MUST_USE;
int json_get_strv(const json_t *o, const char *key, char ***out, struct err *e) MUST_USE; // owned, NULL if absent
// Refuses members that are not in the NULL-terminated list: unknown fields are errors, not wishes ignored.
int json_only(const json_t *o, const char *const *known, struct err *e) MUST_USE;
const char *json_str(const json_t *o, const char *key); // "" when absent or not a string: for replies we trust
uint64_t json_u64(const json_t *o, const char *key);
