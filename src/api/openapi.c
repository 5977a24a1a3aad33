// SPDX-License-Identifier: Apache-2.0
#include "api/openapi.h"

#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include <string.h>

static void kraw(struct jsonw *w, const char *key, const char *json)
{
	jw_key(w, key);
	jw_raw(w, json);
}

static void key_of(struct jsonw *w, struct str key)
{
	auto_free char *k = xstrndup(key.p, key.n);
	jw_key(w, k);
}

// --- schemas ---

static void put_ref(struct jsonw *w, struct str name)
{
	auto_free char *ref = xasprintf("#/components/schemas/%.*s", (int)name.n, name.p);
	jw_open(w, '{');
	jw_kstr(w, "$ref", ref);
	jw_close(w, '}');
}

static const char *plain_type(struct str t)
{
	static const struct {
		const char *letter, *json;
	} types[] = {
		{"s", "{\"type\":\"string\"}"}, {"i", "{\"type\":\"integer\"}"}, {"b", "{\"type\":\"boolean\"}"},
		{"o", "{\"type\":\"object\"}"}, {"v", "{}"}, {"m", "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}"},
	};
	for (size_t i = 0; i < countof(types); i++)
		if (str_is(t, types[i].letter))
			return types[i].json;
	return "{}";
}

static void put_type(struct jsonw *w, struct str t)
{
	if (t.n && t.p[t.n - 1] == '?') {
		jw_open(w, '{');
		jw_key(w, "anyOf");
		jw_open(w, '[');
		put_type(w, (struct str){t.p, t.n - 1});
		jw_raw(w, "{\"type\":\"null\"}");
		jw_close(w, ']');
		jw_close(w, '}');
	} else if (t.n > 2 && t.p[0] == '[') {
		jw_open(w, '{');
		jw_kstr(w, "type", "array");
		jw_key(w, "items");
		put_type(w, (struct str){t.p + 2, t.n - 2});
		jw_close(w, '}');
	} else if (t.n && t.p[0] == '#') {
		put_ref(w, (struct str){t.p + 1, t.n - 1});
	} else {
		jw_raw(w, plain_type(t));
	}
}

static bool field_next(struct str *rest, struct str *name, struct str *type, bool *must)
{
	struct str f;
	do
		if (!str_next(rest, ' ', &f))
			return false;
	while (!f.n);
	str_next(&f, ':', name);
	*type = f;
	*must = type->n && type->p[type->n - 1] == '!';
	type->n -= *must;
	return true;
}

static void put_schema(struct jsonw *w, const struct api_schema *s)
{
	struct str rest = str_of(s->fields), name, type;
	bool must;
	jw_key(w, s->name);
	jw_open(w, '{');
	jw_kstr(w, "type", "object");
	jw_key(w, "properties");
	jw_open(w, '{');
	while (field_next(&rest, &name, &type, &must)) {
		key_of(w, name);
		put_type(w, type);
	}
	jw_close(w, '}');
	jw_key(w, "required");
	jw_open(w, '[');
	for (rest = str_of(s->fields); field_next(&rest, &name, &type, &must);)
		if (must)
			jw_str(w, name.p, name.n);
	jw_close(w, ']');
	jw_kbool(w, "additionalProperties", false);
	jw_close(w, '}');
}

// --- paths ---

static const struct api_op *op_of(const struct route *t)
{
	for (const struct api_op *o = api_ops; o->method; o++)
		if (!strcmp(o->method, t->method) && !strcmp(o->path, t->path))
			return o;
	return NULL;
}

// {} becomes {id}, {id2} …; {*} becomes {path}.
static char *path_of(const char *pattern)
{
	auto_buf struct buf b = BUF_INIT(1024);
	int n = 0;
	for (const char *p = pattern; *p; p++) {
		if (p[0] == '{' && p[1] == '*') {
			buf_str(&b, "{path}");
			p += 2;
		} else if (p[0] == '{') {
			if (++n > 1)
				buf_fmt(&b, "{id%d}", n);
			else
				buf_str(&b, "{id}");
			p++;
		} else {
			buf_byte(&b, *p);
		}
	}
	return buf_take(&b);
}

static void put_parameter(struct jsonw *w, const char *in, struct str name)
{
	jw_open(w, '{');
	key_of(w, str_of("name"));
	jw_str(w, name.p, name.n);
	jw_kstr(w, "in", in);
	jw_kbool(w, "required", !strcmp(in, "path"));
	kraw(w, "schema", "{\"type\":\"string\"}");
	jw_close(w, '}');
}

static void put_parameters(struct jsonw *w, const char *path, const struct api_op *o)
{
	struct str rest = str_of(o && o->query ? o->query : ""), one;
	jw_key(w, "parameters");
	jw_open(w, '[');
	for (const char *p = strchr(path, '{'); p; p = strchr(p + 1, '{'))
		put_parameter(w, "path", (struct str){p + 1, strcspn(p + 1, "}")});
	while (str_next(&rest, ' ', &one))
		if (one.n)
			put_parameter(w, "query", one);
	jw_close(w, ']');
}

static void put_content(struct jsonw *w, const char *what)
{
	bool media = strchr(what, '/');
	jw_key(w, "content");
	jw_open(w, '{');
	jw_key(w, media ? what : "application/json");
	jw_open(w, '{');
	jw_key(w, "schema");
	if (media)
		jw_raw(w, "{}");
	else
		put_ref(w, str_of(what));
	jw_close(w, '}');
	jw_close(w, '}');
}

static void put_responses(struct jsonw *w, const struct api_op *o)
{
	auto_free char *status = xasprintf("%d", o && o->status ? o->status : 200);
	jw_key(w, "responses");
	jw_open(w, '{');
	jw_key(w, status);
	jw_open(w, '{');
	jw_kstr(w, "description", "done");
	if (o && o->out)
		put_content(w, o->out);
	jw_close(w, '}');
	jw_key(w, "default");
	jw_open(w, '{');
	jw_kstr(w, "description", "why not");
	put_content(w, "Error");
	jw_close(w, '}');
	jw_close(w, '}');
}

static void put_op(struct jsonw *w, const struct route *t, const char *path)
{
	const struct api_op *o = op_of(t);
	auto_free char *method = xstrdup(t->method);
	for (char *c = method; *c; c++)
		*c |= 32;
	jw_key(w, method);
	jw_open(w, '{');
	jw_kstr(w, "summary", o ? o->summary : t->path);
	jw_kstr(w, "x-skep-scope", scope_name(route_scope(t)));
	jw_kbool(w, "x-skep-filtered", t->scope & SEEN_BIT); // for tokens of some sandboxes, too: they see theirs
	put_parameters(w, path, o);
	if (t->body != BODY_NONE) {
		jw_key(w, "requestBody");
		jw_open(w, '{');
		put_content(w, o && o->in ? o->in : t->body == BODY_JSON ? "Empty" : "application/octet-stream");
		jw_close(w, '}');
	}
	put_responses(w, o);
	jw_close(w, '}');
}

static bool seen_before(const struct route *t)
{
	for (const struct route *p = native_api.routes; p < t; p++)
		if (!strcmp(p->path, t->path))
			return true;
	return false;
}

static void put_paths(struct jsonw *w)
{
	jw_key(w, "paths");
	jw_open(w, '{');
	for (const struct route *t = native_api.routes; t->method; t++) {
		if (seen_before(t))
			continue;
		auto_free char *path = path_of(t->path);
		jw_key(w, path);
		jw_open(w, '{');
		for (const struct route *same = t; same->method; same++)
			if (!strcmp(same->path, t->path))
				put_op(w, same, path);
		jw_close(w, '}');
	}
	jw_close(w, '}');
}

void openapi_print(struct buf *out)
{
	struct jsonw w = {.b = out};
	jw_open(&w, '{');
	jw_kstr(&w, "openapi", "3.1.0");
	kraw(&w, "info", "{\"title\":\"skep\",\"version\":\"0.1.0\",\"license\":{\"name\":\"Apache-2.0\"}}");
	kraw(&w, "security", "[{\"bearer\":[]},{\"key\":[]}]");
	put_paths(&w);
	jw_key(&w, "components");
	jw_open(&w, '{');
	kraw(&w, "securitySchemes", "{\"bearer\":{\"type\":\"http\",\"scheme\":\"bearer\"},"
				    "\"key\":{\"type\":\"apiKey\",\"in\":\"header\",\"name\":\"X-API-KEY\"}}");
	jw_key(&w, "schemas");
	jw_open(&w, '{');
	for (const struct api_schema *s = api_schemas; s->name; s++)
		put_schema(&w, s);
	jw_close(&w, '}');
	jw_close(&w, '}');
	jw_close(&w, '}');
}

void get_openapi(struct request *r)
{
	openapi_print(&r->answer);
	request_answer(r, 200);
}
