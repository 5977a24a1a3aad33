// SPDX-License-Identifier: Apache-2.0
// Reading one JSON-RPC message and deciding which era it belongs to. Pure: bytes and headers in, structs out.
#include "api/mcp.h"

#include "base/base64.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

#define META_VERSION "io.modelcontextprotocol/protocolVersion"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"

#define fault(f, c, h, ...) ((f)->code = (c), (f)->http = (h), err_set(&(f)->e, ERR_INVALID, __VA_ARGS__))

void mcp_message_done(struct mcp_message *m)
{
	if (m->root)
		json_decref(m->root);
	*m = (struct mcp_message){0};
}

// --- the id of what can not be read ---

// Behind the string that begins at p; n when it does not end.
static size_t string_end(const char *p, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (p[i] == '\\')
			i++;
		else if (p[i] == '"')
			return i + 1;
	return n;
}

static size_t blank_end(const char *p, size_t n, size_t at)
{
	while (at < n && memchr(" \t\r\n", p[at], 4))
		at++;
	return at;
}

// The text of the value of the outermost object's member "id", a string or a number. {NULL, 0}: none, or more than one.
static struct str id_text(const char *p, size_t n)
{
	struct str found = {NULL, 0};
	int depth = 0, ids = 0;
	for (size_t i = 0, end; i < n; i = end) {
		end = i + 1;
		depth += (p[i] == '{' || p[i] == '[') - (p[i] == '}' || p[i] == ']');
		if (p[i] != '"')
			continue;
		end = i + string_end(p + i, n - i);
		size_t at = blank_end(p, n, end);
		if (depth != 1 || at == n || p[at] != ':' || end - i != 4 || memcmp(p + i, "\"id\"", 4))
			continue;
		at = blank_end(p, n, at + 1);
		end = at;
		while (end < n && (p[end] == '-' || (p[end] >= '0' && p[end] <= '9')))
			end++;
		if (at < n && p[at] == '"')
			end = at + string_end(p + at, n - at);
		bool whole = end == n || memchr(" \t\r\n,}", p[end], 6);
		found = (struct str){p + at, whole ? end - at : 0};
		ids++;
	}
	return ids == 1 ? found : (struct str){NULL, 0};
}

// A message that is no JSON, or none that is taken (\u0000, a member twice, half a surrogate), is answered by its id where
// the id itself can be read: whoever asked waits for that id.
static void salvage_id(const char *p, size_t n, struct mcp_message *m)
{
	struct err e;
	struct str s = id_text(p, n);
	if (!s.n || s.n > MCP_ID_MAX)
		return;
	auto_free char *text = xasprintf("[%.*s]", (int)s.n, s.p);
	m->root = json_read(text, strlen(text), &e);
	const json_t *id = m->root ? json_array_get(m->root, 0) : NULL;
	if (json_is_string(id) || json_is_integer(id))
		m->id = id;
}

// --- a message ---

static int read_id(struct mcp_message *m, struct mcp_fault *f)
{
	const json_t *id = json_object_get(m->root, "id");
	if (!id)
		return 0;
	if (!json_is_string(id) && !json_is_integer(id))
		return fault(f, RPC_INVALID, 400, "id must be a string or a whole number");
	if (json_is_string(id) && strlen(json_string_value(id)) > MCP_ID_MAX)
		return fault(f, RPC_INVALID, 400, "id is longer than %d bytes", MCP_ID_MAX);
	m->id = id;
	return 0;
}

static int read_method(struct mcp_message *m, struct mcp_fault *f)
{
	const json_t *method = json_object_get(m->root, "method");
	bool answer = json_object_get(m->root, "result") || json_object_get(m->root, "error");
	if (!method && answer && m->id) {
		m->kind = MCP_RESPONSE;
		return 0;
	}
	if (!json_is_string(method))
		return fault(f, RPC_INVALID, 400, "method must be a string");
	m->method = json_string_value(method);
	m->kind = m->id ? MCP_REQUEST : MCP_NOTIFICATION;
	m->params = json_object_get(m->root, "params");
	if (m->params && !json_is_object(m->params))
		return fault(f, RPC_INVALID, 400, "params must be an object");
	m->meta = json_object_get(m->params, "_meta");
	if (m->meta && !json_is_object(m->meta))
		return fault(f, RPC_PARAMS, 400, "_meta must be an object");
	return 0;
}

int mcp_message_read(const char *p, size_t n, struct mcp_message *out, struct mcp_fault *f)
{
	struct err e;
	*out = (struct mcp_message){0};
	out->root = json_read(p ? p : "", n, &e);
	if (!out->root) {
		salvage_id(p ? p : "", n, out);
		return fault(f, RPC_PARSE, 400, "%s", e.msg);
	}
	if (!json_is_object(out->root))
		return fault(f, RPC_INVALID, 400, "a message is one JSON object; batches are not taken");
	if (read_id(out, f))
		return -1;
	if (strcmp(json_str(out->root, "jsonrpc"), "2.0"))
		return fault(f, RPC_INVALID, 400, "jsonrpc must be \"2.0\"");
	return read_method(out, f);
}

bool mcp_version_known(const char *v)
{
	static const char *const known[] = {MCP_VERSION_LEGACY, "2025-06-18", "2025-03-26", "2024-11-05"};
	for (size_t i = 0; i < countof(known); i++)
		if (!strcmp(known[i], v))
			return true;
	return false;
}

// What Mcp-Name repeats; NULL for methods that have no such thing.
static const char *named(const struct mcp_message *m)
{
	if (!strcmp(m->method, "tools/call") || !strcmp(m->method, "prompts/get"))
		return json_str(m->params, "name");
	return strcmp(m->method, "resources/read") ? NULL : json_str(m->params, "uri");
}

// A header carries what is not plain ASCII as =?base64?…?=.
static bool header_is(const char *header, const char *want)
{
	static const char begin[] = "=?base64?", end[] = "?=";
	size_t n = strlen(header), before = sizeof begin - 1, behind = sizeof end - 1;
	auto_buf struct buf plain = BUF_INIT(n + 1);
	while (n && (header[n - 1] == ' ' || header[n - 1] == '\t')) // the library leaves these
		n--;
	if (n < before + behind || strncmp(header, begin, before) || strncmp(header + n - behind, end, behind))
		return strlen(want) == n && !memcmp(header, want, n);
	return !base64_decode(header + before, n - before - behind, &plain) && strlen(want) == plain.n && !memcmp(buf_cstr(&plain), want, plain.n);
}

static int check_headers(const struct mcp_message *m, const struct mcp_headers *h, const char *version, struct mcp_fault *f)
{
	const char *name = named(m);
	if (!h->version || !header_is(h->version, version))
		return fault(f, MCP_HEADER_MISMATCH, 400, "header MCP-Protocol-Version must say %.40s, as the message does", version);
	if (!h->method || !header_is(h->method, m->method))
		return fault(f, MCP_HEADER_MISMATCH, 400, "header Mcp-Method must say %.80s, as the message does", m->method);
	if (name && (!h->name || !header_is(h->name, name)))
		return fault(f, MCP_HEADER_MISMATCH, 400, "header Mcp-Name must say what the message names");
	return 0;
}

static int judge_modern(const struct mcp_message *m, const struct mcp_headers *h, const char *version, struct mcp_fault *f)
{
	if (!version)
		return fault(f, RPC_PARAMS, 400, "params._meta[\"" META_VERSION "\"] is missing");
	if (!h->stdio && check_headers(m, h, version, f))
		return -1;
	if (strcmp(version, MCP_VERSION_MODERN))
		return fault(f, MCP_BAD_VERSION, 400, "protocol version %.40s is not spoken here", version);
	if (!json_is_object(json_object_get(m->meta, META_CAPABILITIES)))
		return fault(f, RPC_PARAMS, 400, "params._meta[\"" META_CAPABILITIES "\"] is missing");
	return 0;
}

int mcp_message_judge(const struct mcp_message *m, const struct mcp_headers *h, enum mcp_era *out_era, const char **out_version,
		      struct mcp_fault *f)
{
	const json_t *v = json_object_get(m->meta, META_VERSION);
	const char *said = json_is_string(v) ? json_string_value(v) : NULL;
	// Dates compare as text; what is later than we know gets a modern refusal, with the list of what we know.
	bool modern_header = !h->stdio && h->version && !mcp_version_known(h->version);
	bool first = m->method && !strcmp(m->method, "initialize");
	*out_era = MCP_LEGACY;
	*out_version = h->version ? h->version : "2025-03-26";
	if (m->kind != MCP_REQUEST) { // there is nothing to refuse
		*out_era = modern_header ? MCP_MODERN : MCP_LEGACY;
		return 0;
	}
	if (!said && !modern_header && (!m->method || strcmp(m->method, "server/discover")))
		return 0;
	if (!said && first && strcmp(h->version ? h->version : "", MCP_VERSION_MODERN))
		return 0; // it negotiates in the message: the header may name what we do not know
	*out_era = MCP_MODERN;
	*out_version = said ? said : MCP_VERSION_MODERN;
	return judge_modern(m, h, said, f);
}
