// SPDX-License-Identifier: Apache-2.0
// Prompts, resources and what else the conformance suite wants of a server.
#include "fixture.h"

#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define USER(content) "{\"role\":\"user\",\"content\":" content "}"

static void answer_raw(struct mcp_call *c, const char *key, const char *json)
{
	struct jsonw w = mcp_result_begin(c, "complete");
	jw_key(&w, key);
	jw_raw(&w, json);
	mcp_cacheable(c, &w, 1000, true);
	mcp_result_end(c, &w);
}

void answer_messages(struct mcp_call *c, const char *messages)
{
	struct jsonw w = mcp_result_begin(c, "complete");
	jw_key(&w, "messages");
	jw_open(&w, '[');
	jw_raw(&w, messages);
	jw_close(&w, ']');
	mcp_result_end(c, &w);
}

static void empty(struct mcp_call *c)
{
	struct jsonw w = mcp_result_begin(c, "complete");
	mcp_result_end(c, &w);
}

static void complete(struct mcp_call *c)
{
	struct jsonw w = mcp_result_begin(c, "complete");
	jw_key(&w, "completion");
	jw_raw(&w, "{\"values\":[\"test1\",\"test2\"],\"total\":2,\"hasMore\":false}");
	mcp_result_end(c, &w);
}

static void prompts_list(struct mcp_call *c)
{
	answer_raw(c, "prompts",
		   "[{\"name\":\"test_simple_prompt\",\"description\":\"simple\"},"
		   "{\"name\":\"test_prompt_with_arguments\",\"description\":\"two arguments\",\"arguments\":[{\"name\":\"arg1\",\"required\":true},{\"name\":\"arg2\",\"required\":true}]},"
		   "{\"name\":\"test_prompt_with_embedded_resource\",\"description\":\"a resource\",\"arguments\":[{\"name\":\"resourceUri\",\"required\":true}]},"
		   "{\"name\":\"test_prompt_with_image\",\"description\":\"an image\"},"
		   "{\"name\":\"test_input_required_result_prompt\",\"description\":\"asks\"}]");
}

static void prompt_arguments(struct mcp_call *c, const json_t *args)
{
	auto_buf struct buf text = BUF_INIT(1 << 12), b = BUF_INIT(1 << 14);
	struct jsonw w = {.b = &b};
	buf_fmt(&text, "Prompt with arguments: arg1='%s', arg2='%s'", json_str(args, "arg1"), json_str(args, "arg2"));
	jw_open(&w, '{');
	jw_kstr(&w, "role", "user");
	jw_key(&w, "content");
	jw_open(&w, '{');
	jw_kstr(&w, "type", "text");
	jw_kstr(&w, "text", buf_cstr(&text));
	jw_close(&w, '}');
	jw_close(&w, '}');
	answer_messages(c, buf_cstr(&b));
}

static void prompt_resource(struct mcp_call *c, const json_t *args)
{
	auto_buf struct buf b = BUF_INIT(1 << 14), uri = BUF_INIT(1 << 12);
	struct jsonw w = {.b = &uri};
	jw_str(&w, json_str(args, "resourceUri"), strlen(json_str(args, "resourceUri")));
	buf_fmt(&b, "{\"role\":\"user\",\"content\":{\"type\":\"resource\",\"resource\":{\"uri\":%s,\"mimeType\":\"text/plain\",\"text\":\"Embedded resource content for testing.\"}}},%s",
		buf_cstr(&uri), USER(TEXT("Please process the embedded resource above.")));
	answer_messages(c, buf_cstr(&b));
}

static void prompts_get(struct mcp_call *c)
{
	static const struct ask context = {
		"user_context", "elicitation/create",
		"{\"mode\":\"form\",\"message\":\"What context should the prompt use?\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"context\":{\"type\":\"string\"}},\"required\":[\"context\"]}}"};
	const char *name = json_str(c->m.params, "name");
	const json_t *args = json_object_get(c->m.params, "arguments");
	if (!strcmp(name, "test_simple_prompt")) {
		answer_messages(c, USER(TEXT("This is a simple prompt for testing.")));
	} else if (!strcmp(name, "test_prompt_with_arguments")) {
		prompt_arguments(c, args);
	} else if (!strcmp(name, "test_prompt_with_embedded_resource")) {
		prompt_resource(c, args);
	} else if (!strcmp(name, "test_prompt_with_image")) {
		answer_messages(c, USER("{\"type\":\"image\",\"data\":\"" PNG "\",\"mimeType\":\"image/png\"}") "," USER(TEXT("Please analyze the image above.")));
	} else if (!strcmp(name, "test_input_required_result_prompt")) {
		if (ask_modern(c, &context, 1, NULL))
			answer_messages(c, USER(TEXT("with your context")));
	} else {
		mcp_error(c, RPC_PARAMS, 200, "no such prompt", NULL);
	}
}

static void resources_list(struct mcp_call *c)
{
	answer_raw(c, "resources",
		   "[{\"uri\":\"test://static-text\",\"name\":\"text\",\"description\":\"a text\",\"mimeType\":\"text/plain\"},"
		   "{\"uri\":\"test://static-binary\",\"name\":\"binary\",\"description\":\"bytes\",\"mimeType\":\"image/png\"},"
		   "{\"uri\":\"test://watched-resource\",\"name\":\"watched\",\"description\":\"it changes\",\"mimeType\":\"text/plain\"}]");
}

static void templates_list(struct mcp_call *c)
{
	answer_raw(c, "resourceTemplates",
		   "[{\"uriTemplate\":\"test://template/{id}/data\",\"name\":\"template\",\"description\":\"by id\",\"mimeType\":\"application/json\"}]");
}

static void read_template(struct mcp_call *c, const char *uri)
{
	static const char before[] = "test://template/", after[] = "/data";
	auto_free char *id = xstrndup(uri + strlen(before), strlen(uri) - strlen(before) - strlen(after));
	auto_buf struct buf b = BUF_INIT(1 << 14), text = BUF_INIT(1 << 12);
	struct jsonw w = {.b = &b};
	buf_fmt(&text, "{\"id\":\"%s\",\"templateTest\":true,\"data\":\"Data for ID: %s\"}", id, id);
	jw_open(&w, '[');
	jw_open(&w, '{');
	jw_kstr(&w, "uri", uri);
	jw_kstr(&w, "mimeType", "application/json");
	jw_kstr(&w, "text", buf_cstr(&text));
	jw_close(&w, '}');
	jw_close(&w, ']');
	answer_raw(c, "contents", buf_cstr(&b));
}

static void resources_read(struct mcp_call *c)
{
	const char *uri = json_str(c->m.params, "uri");
	auto_buf struct buf data = BUF_INIT(1 << 14);
	struct jsonw w = {.b = &data};
	if (!strcmp(uri, "test://static-text")) {
		answer_raw(c, "contents", "[{\"uri\":\"test://static-text\",\"mimeType\":\"text/plain\",\"text\":\"This is the content of the static text resource.\"}]");
	} else if (!strcmp(uri, "test://watched-resource")) {
		answer_raw(c, "contents", "[{\"uri\":\"test://watched-resource\",\"mimeType\":\"text/plain\",\"text\":\"watched\"}]");
	} else if (!strcmp(uri, "test://static-binary")) {
		answer_raw(c, "contents", "[{\"uri\":\"test://static-binary\",\"mimeType\":\"image/png\",\"blob\":\"" PNG "\"}]");
	} else if (str_has_prefix(uri, "test://template/") && str_has_suffix(uri, "/data")) {
		read_template(c, uri);
	} else {
		jw_open(&w, '{');
		jw_kstr(&w, "uri", uri);
		jw_close(&w, '}');
		mcp_error(c, RPC_PARAMS, 200, "no such resource", buf_cstr(&data));
	}
}

#define BOTH (MCP_LEGACY | MCP_MODERN)
const struct mcp_method fixture_methods[] = {
	{"prompts/list", BOTH, prompts_list},
	{"prompts/get", BOTH, prompts_get},
	{"resources/list", BOTH, resources_list},
	{"resources/templates/list", BOTH, templates_list},
	{"resources/read", BOTH, resources_read},
	{"completion/complete", BOTH, complete},
	{"resources/subscribe", MCP_LEGACY, empty},
	{"resources/unsubscribe", MCP_LEGACY, empty},
	{"logging/setLevel", MCP_LEGACY, empty},
	{"subscriptions/listen", MCP_MODERN, listen_begin},
	{0},
};
