// SPDX-License-Identifier: Apache-2.0
#include "base/json_int.h"

#include "base/jsonw.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

void json_decref(json_t *root)
{
	free(root);
}

void json_decrefp(json_t **root)
{
	free(*root);
}

bool json_is(const json_t *v, enum json_type type)
{
	return v && v->type == type;
}

const char *json_string_value(const json_t *v)
{
	return json_is_string(v) ? v->text : NULL;
}

int64_t json_integer_value(const json_t *v)
{
	return json_is_integer(v) ? v->whole : 0;
}

size_t json_size(const json_t *box, enum json_type type)
{
	return json_is(box, type) ? box->n : 0;
}

json_t *json_first(const json_t *box, enum json_type type)
{
	return json_size(box, type) ? (json_t *)box + 1 : NULL;
}

json_t *json_next(const json_t *v)
{
	return v->next ? (json_t *)v + v->next : NULL;
}

const char *json_key(const json_t *v)
{
	return v->key;
}

json_t *json_object_get(const json_t *o, const char *key)
{
	json_t *v = json_first(o, JSON_OBJECT);
	while (v && strcmp(v->key, key))
		v = json_next(v);
	return v;
}

json_t *json_array_get(const json_t *a, size_t i)
{
	json_t *v = json_first(a, JSON_ARRAY);
	while (v && i--)
		v = json_next(v);
	return v;
}

static void print_scalar(struct buf *b, const json_t *v)
{
	static const char *const words[] = {[JSON_NULL] = "null", [JSON_FALSE] = "false", [JSON_TRUE] = "true"};
	struct jsonw w = {.b = b};
	size_t from = b->n;
	if (v->type == JSON_STRING) {
		jw_str(&w, v->text, strlen(v->text));
	} else if (v->type == JSON_INTEGER) {
		jw_i64(&w, v->whole);
	} else if (v->type == JSON_REAL) {
		buf_fmt(b, "%.17g", v->real);
		if (b->n > from && !strpbrk(b->p + from, ".e")) // stays a real for who reads it
			buf_str(b, ".0");
	} else {
		buf_str(b, words[v->type]);
	}
}

static void new_line(struct buf *b, unsigned spaces)
{
	buf_byte(b, '\n');
	while (spaces--)
		buf_byte(b, ' ');
}

// As deep as the tree, which JSON_DEPTH bounds.
static void print(struct buf *b, const json_t *v, unsigned indent, unsigned spaces)
{
	bool object = v->type == JSON_OBJECT;
	struct jsonw w = {.b = b};
	if (!object && v->type != JSON_ARRAY) {
		print_scalar(b, v);
		return;
	}
	buf_byte(b, object ? '{' : '[');
	for (const json_t *m = json_first(v, v->type); m; m = json_next(m)) {
		if (indent)
			new_line(b, spaces + indent);
		if (object) {
			w.comma = false;
			jw_key(&w, m->key);
			buf_str(b, indent ? " " : "");
		}
		print(b, m, indent, spaces + indent);
		buf_str(b, m->next ? "," : "");
	}
	if (indent && v->n)
		new_line(b, spaces);
	buf_byte(b, object ? '}' : ']');
}

void json_print(struct buf *b, const json_t *v, unsigned indent)
{
	print(b, v, indent, 0);
}

static int wrong(const char *key, const char *want, struct err *e)
{
	return err_set(e, ERR_INVALID, "field \"%s\" must be %s", key, want);
}

int json_get_str(const json_t *o, const char *key, const char **out, struct err *e)
{
	const json_t *v = json_object_get(o, key);
	if (v && !json_is_null(v) && !json_is_string(v))
		return wrong(key, "a string", e);
	*out = json_string_value(v);
	return 0;
}

int json_get_u64(const json_t *o, const char *key, uint64_t *inout, struct err *e)
{
	const json_t *v = json_object_get(o, key);
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return wrong(key, "a whole number, not negative", e);
	*inout = (uint64_t)json_integer_value(v);
	return 0;
}

int json_get_bool(const json_t *o, const char *key, bool *inout, struct err *e)
{
	const json_t *v = json_object_get(o, key);
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_boolean(v))
		return wrong(key, "true or false", e);
	*inout = json_is_true(v);
	return 0;
}

int json_get_strv(const json_t *o, const char *key, char ***out, struct err *e)
{
	const json_t *a = json_object_get(o, key), *v;
	size_t i;
	if (!a || json_is_null(a)) {
		*out = NULL;
		return 0;
	}
	if (!json_is_array(a))
		return wrong(key, "a list of strings", e);
	json_array_foreach(a, i, v) if (!json_is_string(v)) return wrong(key, "a list of strings", e);
	char **list = xcalloc(json_array_size(a) + 1, sizeof *list);
	json_array_foreach(a, i, v) list[i] = xstrdup(json_string_value(v));
	*out = list;
	return 0;
}

int json_only(const json_t *o, const char *const *known, struct err *e)
{
	if (!json_is_object(o))
		return err_set(e, ERR_INVALID, "the body must be a JSON object");
	const char *key;
	const json_t *v;
	json_object_foreach(o, key, v)
	{
		const char *const *k = known;
		while (*k && strcmp(*k, key))
			k++;
		if (!*k)
			return err_set(e, ERR_INVALID, "unknown field \"%.60s\"", key);
	}
	return 0;
}

const char *json_str(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));
	return s ? s : "";
}

uint64_t json_u64(const json_t *o, const char *key)
{
	int64_t v = json_integer_value(json_object_get(o, key));
	return v < 0 ? 0 : (uint64_t)v;
}
