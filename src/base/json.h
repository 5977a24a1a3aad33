// SPDX-License-Identifier: Apache-2.0
// Reading JSON: strict RFC 8259, an object or a list outermost. Refused besides what the grammar refuses: duplicate
// keys, \u0000 (strings are C strings), lone surrogates, whole numbers outside int64, reals outside double, more than
// JSON_DEPTH levels, anything after the value. Input is bounded before it gets here; the tree takes at most 25 bytes
// for each of its bytes, in one block.
#pragma once
#include "base/buf.h"

#define JSON_DEPTH 512

// One value. Only what json_read returned is owned; everything below it is borrowed and lives as long.
typedef struct json json_t;
enum json_type {
	JSON_NULL,
	JSON_FALSE,
	JSON_TRUE,
	JSON_INTEGER,
	JSON_REAL,
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT,
};
#define auto_json __attribute__((cleanup(json_decrefp)))

json_t *json_read(const char *p, size_t n, struct err *e) MUST_USE; // owned
void json_decref(json_t *root);					    // frees the tree
void json_decrefp(json_t **root);

// These take NULL, which is nothing, and find nothing in a value of another type.
bool json_is(const json_t *v, enum json_type type);
#define json_is_object(v) json_is(v, JSON_OBJECT)
#define json_is_array(v) json_is(v, JSON_ARRAY)
#define json_is_string(v) json_is(v, JSON_STRING)
#define json_is_integer(v) json_is(v, JSON_INTEGER)
#define json_is_true(v) json_is(v, JSON_TRUE)
#define json_is_false(v) json_is(v, JSON_FALSE)
#define json_is_boolean(v) (json_is_true(v) || json_is_false(v))
#define json_is_null(v) json_is(v, JSON_NULL) // the value null, not its absence
const char *json_string_value(const json_t *v);
int64_t json_integer_value(const json_t *v);
size_t json_size(const json_t *box, enum json_type type);
#define json_object_size(o) json_size(o, JSON_OBJECT)
#define json_array_size(a) json_size(a, JSON_ARRAY)
json_t *json_object_get(const json_t *o, const char *key);
json_t *json_array_get(const json_t *a, size_t i); // walks: json_array_foreach for all of them

// In the order of the text.
json_t *json_first(const json_t *box, enum json_type type);
json_t *json_next(const json_t *v);    // the one behind it in its list or object
const char *json_key(const json_t *v); // of a member
#define json_array_foreach(a, i, v) for ((i) = 0, (v) = json_first(a, JSON_ARRAY); (v); (i)++, (v) = json_next(v))
#define json_object_foreach(o, key, v) \
	for ((v) = json_first(o, JSON_OBJECT); (v) && ((key) = json_key(v)); (v) = json_next(v))

// The value as text again: in one line, or with every member in a line of its own, indented by `indent` per level.
void json_print(struct buf *b, const json_t *v, unsigned indent);

// Members of an object. Absent gives the default; a wrong type is INVALID.
int json_get_str(const json_t *o, const char *key, const char **out, struct err *e) MUST_USE; // borrowed, or NULL
int json_get_u64(const json_t *o, const char *key, uint64_t *inout, struct err *e) MUST_USE;
int json_get_bool(const json_t *o, const char *key, bool *inout, struct err *e) MUST_USE;
int json_get_strv(const json_t *o, const char *key, char ***out, struct err *e) MUST_USE; // owned, NULL if absent
// Refuses members that are not in the NULL-terminated list: unknown fields are errors, not wishes ignored.
int json_only(const json_t *o, const char *const *known, struct err *e) MUST_USE;
const char *json_str(const json_t *o, const char *key); // "" when absent or not a string: for replies we trust
uint64_t json_u64(const json_t *o, const char *key);
