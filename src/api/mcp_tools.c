// SPDX-License-Identifier: Apache-2.0
// Tools as data: the list a model sees, the check of what it sends, and the form of what it gets back.
#include "api/mcp.h"

#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

// --- the list ---

static bool is_hidden(const struct mcp_param *p, bool pinned)
{
	return pinned && !strcmp(p->name, MCP_SANDBOX);
}

static void put_choices(struct jsonw *w, const char *choices)
{
	struct str rest = str_of(choices), one;
	jw_key(w, "enum");
	jw_open(w, '[');
	while (str_next(&rest, '|', &one))
		jw_str(w, one.p, one.n);
	jw_close(w, ']');
}

static void put_param(struct jsonw *w, const struct mcp_param *p)
{
	static const char *const types[] = {[MCP_STR] = "string", [MCP_INT] = "integer", [MCP_BOOL] = "boolean"};
	jw_key(w, p->name);
	jw_open(w, '{');
	jw_kstr(w, "type", types[p->kind]);
	jw_kstr(w, "description", p->help);
	if (p->choices)
		put_choices(w, p->choices);
	if (p->kind == MCP_INT) {
		jw_ki64(w, "minimum", p->min);
		jw_ki64(w, "maximum", p->max);
	}
	jw_close(w, '}');
}

static void put_input(struct jsonw *w, const struct mcp_tool *t, bool pinned)
{
	jw_key(w, "inputSchema");
	if (t->in) {
		jw_raw(w, t->in);
		return;
	}
	jw_open(w, '{');
	jw_kstr(w, "type", "object");
	jw_key(w, "properties");
	jw_open(w, '{');
	for (const struct mcp_param *p = t->params; p && p->name; p++)
		if (!is_hidden(p, pinned))
			put_param(w, p);
	jw_close(w, '}');
	jw_key(w, "required");
	jw_open(w, '[');
	for (const struct mcp_param *p = t->params; p && p->name; p++)
		if (p->required && !is_hidden(p, pinned))
			jw_str(w, p->name, strlen(p->name));
	jw_close(w, ']');
	jw_kbool(w, "additionalProperties", false);
	jw_close(w, '}');
}

static void put_tool(struct jsonw *w, const struct mcp_tool *t, bool pinned)
{
	jw_open(w, '{');
	jw_kstr(w, "name", t->name);
	jw_kstr(w, "title", t->title);
	jw_kstr(w, "description", t->help);
	put_input(w, t, pinned);
	if (t->out) {
		jw_key(w, "outputSchema");
		jw_raw(w, t->out);
	}
	jw_key(w, "annotations");
	jw_open(w, '{');
	jw_kstr(w, "title", t->title);
	jw_kbool(w, "readOnlyHint", t->hints & HINT_READ);
	jw_kbool(w, "destructiveHint", t->hints & HINT_DESTROYS);
	jw_kbool(w, "idempotentHint", t->hints & HINT_IDEMPOTENT);
	jw_kbool(w, "openWorldHint", t->hints & HINT_OPEN_WORLD);
	jw_close(w, '}');
	jw_close(w, '}');
}

void mcp_tools_list(struct mcp_call *c)
{
	struct jsonw w = mcp_result_begin(c, "complete");
	jw_key(&w, "tools");
	jw_open(&w, '[');
	for (const struct mcp_tool *t = c->site->tools; t->name; t++)
		if (!c->pin || !t->free_only)
			put_tool(&w, t, c->pin);
	jw_close(&w, ']');
	mcp_cacheable(c, &w, 300000, true);
	mcp_result_end(c, &w);
}

// --- a call ---

static int check_one(const struct mcp_param *p, const json_t *v, struct err *e)
{
	static const char *const want[] = {
		[MCP_STR] = "a string", [MCP_INT] = "a whole number", [MCP_BOOL] = "true or false"};
	bool fits = p->kind == MCP_STR ? json_is_string(v) : p->kind == MCP_INT ? json_is_integer(v) : json_is_boolean(v);
	if (!fits)
		return err_set(e, ERR_INVALID, "%s must be %s", p->name, want[p->kind]);
	if (p->kind == MCP_INT && (json_integer_value(v) < p->min || json_integer_value(v) > p->max))
		return err_set(e, ERR_INVALID, "%s must be %lld to %lld", p->name, (long long)p->min, (long long)p->max);
	if (p->kind != MCP_STR)
		return 0;
	size_t n = strlen(json_string_value(v));
	if (n < (size_t)p->min || (p->max && n > (size_t)p->max))
		return err_set(e, ERR_INVALID, n < (size_t)p->min ? "%s is empty" : "%s is too long", p->name);
	for (struct str rest = str_of(p->choices ? p->choices : ""), one; p->choices;)
		if (!str_next(&rest, '|', &one))
			return err_set(e, ERR_INVALID, "%s must be one of %s", p->name, p->choices);
		else if (str_is(one, json_string_value(v)))
			break;
	return 0;
}

static void list_params(const struct mcp_tool *t, bool pinned, struct buf *b)
{
	for (const struct mcp_param *p = t->params; p && p->name; p++)
		if (!is_hidden(p, pinned))
			buf_fmt(b, "%s%s", b->n ? ", " : "", p->name);
}

int mcp_args_check(const struct mcp_tool *t, const json_t *args, bool pinned, struct err *e)
{
	const char *key;
	json_t *v;
	if (t->in)
		return 0; // the tool looks itself
	json_object_foreach(args, key, v)
	{
		const struct mcp_param *p = t->params;
		while (p && p->name && (strcmp(p->name, key) || is_hidden(p, pinned)))
			p++;
		if (p && p->name) {
			if (check_one(p, v, e))
				return -1;
			continue;
		}
		auto_buf struct buf known = BUF_INIT(512);
		list_params(t, pinned, &known);
		if (pinned && !strcmp(key, MCP_SANDBOX))
			return err_set(e, ERR_DENIED, "this server works on one sandbox only: leave \"" MCP_SANDBOX "\" out");
		return err_set(e, ERR_INVALID, "%s takes no \"%.60s\"; it takes: %s", t->name, key, buf_cstr(&known));
	}
	for (const struct mcp_param *p = t->params; p && p->name; p++)
		if (p->required && !is_hidden(p, pinned) && !json_object_get(args, p->name))
			return err_set(e, ERR_INVALID, "%s is missing: %s", p->name, p->help);
	return 0;
}

void mcp_tools_call(struct mcp_call *c)
{
	const char *name = json_str(c->m.params, "name");
	const json_t *args = json_object_get(c->m.params, "arguments");
	const struct mcp_tool *t = c->site->tools;
	struct err e;
	while (t->name && (strcmp(t->name, name) || (c->pin && t->free_only)))
		t++;
	if (!t->name) {
		mcp_error(c, RPC_PARAMS, 200, "no such tool: tools/list names them", NULL);
		return;
	}
	if (args && !json_is_object(args)) {
		mcp_error(c, RPC_PARAMS, 200, "arguments must be an object", NULL);
		return;
	}
	if (mcp_args_check(t, args, c->pin, &e))
		mcp_refuse(c, &e, NULL);
	else
		t->fn(c, args);
}

// --- what comes back ---

void mcp_text(struct jsonw *w, const char *key, const char *p, size_t n)
{
	auto_buf struct buf b = BUF_INIT(4 * n + 16);
	jw_key(w, key);
	if (str_is_utf8(p, n)) {
		jw_str(w, p, n);
		return;
	}
	for (size_t i = 0; i < n;) {
		size_t len = 1;
		while (len < 4 && i + len < n && ((unsigned char)p[i + len] & 0xc0) == 0x80)
			len++;
		if (str_is_utf8(p + i, len)) {
			buf_add(&b, p + i, len);
		} else {
			buf_str(&b, "\xef\xbf\xbd");
			len = 1;
		}
		i += len;
	}
	jw_str(w, buf_cstr(&b), b.n);
}

// The object is written behind what is there already; mcp_answer_end puts the frame around it.
struct jsonw mcp_answer_begin(struct mcp_call *c)
{
	struct jsonw w = {.b = &c->out};
	buf_clear(&c->out);
	jw_open(&w, '{');
	return w;
}

void mcp_answer_link(struct mcp_call *c, const char *uri, const char *name, const char *type, uint64_t size)
{
	struct jsonw w = {.b = &c->links, .comma = c->links.n};
	if (strcmp(c->version, "2025-06-18") < 0)
		return; // these know no links
	jw_open(&w, '{');
	jw_kstr(&w, "type", "resource_link");
	jw_kstr(&w, "uri", uri);
	jw_kstr(&w, "name", name);
	jw_kstr(&w, "mimeType", type);
	jw_ku64(&w, "size", size);
	jw_close(&w, '}');
}

void mcp_answer_end(struct mcp_call *c, struct jsonw *w)
{
	jw_close(w, '}');
	if (c->out.overflow) {
		c->out.overflow = false;
		mcp_error(c, RPC_INTERNAL, 200, "the answer is too long: ask for less", NULL);
		return;
	}
	size_t n = c->out.n;
	auto_free char *object = buf_take(&c->out);
	struct jsonw o = mcp_result_begin(c, "complete");
	jw_key(&o, "content");
	jw_open(&o, '[');
	jw_open(&o, '{');
	jw_kstr(&o, "type", "text");
	jw_key(&o, "text");
	jw_str(&o, object, n);
	jw_close(&o, '}');
	if (c->links.n)
		jw_raw(&o, buf_cstr(&c->links));
	jw_close(&o, ']');
	jw_key(&o, "structuredContent");
	jw_raw(&o, object);
	jw_kbool(&o, "isError", false);
	mcp_result_end(c, &o);
}

void mcp_refuse(struct mcp_call *c, const struct err *e, const char *next)
{
	auto_buf struct buf b = BUF_INIT(8192);
	buf_fmt(&b, "%s: %s%s%s", err_kind_name(e->kind), e->msg, next ? "\nNext: " : "", next ? next : "");
	struct jsonw w = mcp_result_begin(c, "complete");
	jw_key(&w, "content");
	jw_open(&w, '[');
	jw_open(&w, '{');
	jw_kstr(&w, "type", "text");
	mcp_text(&w, "text", buf_cstr(&b), b.n);
	jw_close(&w, '}');
	jw_close(&w, ']');
	jw_kbool(&w, "isError", true);
	mcp_result_end(c, &w);
}

const char *mcp_arg(const json_t *args, const char *key)
{
	const json_t *v = json_object_get(args, key);
	return json_is_string(v) ? json_string_value(v) : NULL;
}

uint64_t mcp_arg_num(const json_t *args, const char *key, uint64_t otherwise)
{
	const json_t *v = json_object_get(args, key);
	return json_is_integer(v) ? (uint64_t)json_integer_value(v) : otherwise;
}

bool mcp_arg_bool(const json_t *args, const char *key)
{
	return json_is_true(json_object_get(args, key));
}
