// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include "base/mem.h"
#include <string.h>

json_t *json_read(const char *p, size_t n, struct err *e)
{
	json_error_t je;
	json_t *j = json_loadb(p, n, JSON_REJECT_DUPLICATES, &je);
	if (!j)
		err_set(e, ERR_INVALID, "not JSON: %s at byte %d", je.text, je.position);
	return j;
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
	json_t *v;
	json_object_foreach((json_t *)o, key, v)
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
	json_int_t v = json_integer_value(json_object_get(o, key));
	return v < 0 ? 0 : (uint64_t)v;
}
