// SPDX-License-Identifier: Apache-2.0
// The tools that the conformance suite calls by name.
#include "fixture.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

#define WAV "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA=="
#define IMAGE "{\"type\":\"image\",\"data\":\"" PNG "\",\"mimeType\":\"image/png\"}"
#define OBJECT(p, r) "{\"type\":\"object\",\"properties\":{" p "},\"required\":[" r "]}"
#define ELICIT(m, p, r) "{\"mode\":\"form\",\"message\":\"" m "\",\"requestedSchema\":" OBJECT(p, r) "}"
#define STEP_MS 50

void answer_content(struct mcp_call *c, const char *blocks, bool is_error)
{
	struct jsonw w = mcp_result_begin(c, "complete");
	jw_key(&w, "content");
	jw_open(&w, '[');
	jw_raw(&w, blocks);
	jw_close(&w, ']');
	jw_kbool(&w, "isError", is_error);
	mcp_result_end(c, &w);
}

#define CONTENT(fn, blocks, bad)                                     \
	static void fn(struct mcp_call *c, const json_t *args)       \
	{                                                            \
		(void)args;                                          \
		answer_content(c, blocks, bad);                      \
	}
CONTENT(simple_text, TEXT("This is a simple text response for testing."), false)
CONTENT(image, IMAGE, false)
CONTENT(audio, "{\"type\":\"audio\",\"data\":\"" WAV "\",\"mimeType\":\"audio/wav\"}", false)
CONTENT(embedded,
	"{\"type\":\"resource\",\"resource\":{\"uri\":\"test://embedded-resource\",\"mimeType\":\"text/plain\",\"text\":\"This is an embedded resource content.\"}}",
	false)
CONTENT(mixed,
	TEXT("Multiple content types test:") "," IMAGE
					     ",{\"type\":\"resource\",\"resource\":{\"uri\":\"test://mixed-content-resource\",\"mimeType\":\"application/json\",\"text\":\"{}\"}}",
	false)
CONTENT(failing, TEXT("This tool intentionally returns an error for testing"), true)
CONTENT(quiet, TEXT("nothing was logged"), false)
CONTENT(schema, TEXT("ok"), false)

// --- in steps ---

struct steps {
	struct timer t;
	struct mcp_call *c;
	int step;
	void (*tell)(struct mcp_call *c, int step);
};

static void on_step(struct timer *t)
{
	struct steps *s = container_of(t, struct steps, t);
	if (s->step < 3) {
		s->tell(s->c, s->step++);
		timer_set(s->c->loop, &s->t, STEP_MS);
		return;
	}
	struct mcp_call *c = s->c;
	free(s);
	answer_content(c, TEXT("all steps done"), false);
}

static void begin_steps(struct mcp_call *c, void (*tell)(struct mcp_call *c, int step))
{
	struct steps *s = xcalloc(1, sizeof *s);
	*s = (struct steps){.t.fn = on_step, .c = c, .tell = tell};
	timer_set(c->loop, &s->t, 1);
}

static void tell_log(struct mcp_call *c, int step)
{
	static const char *const words[] = {"Tool execution started", "Tool processing data", "Tool execution completed"};
	auto_buf struct buf b = BUF_INIT(1024);
	buf_fmt(&b, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"%s\"}}", words[step]);
	mcp_message_send(c, &b);
}

static void tell_progress(struct mcp_call *c, int step)
{
	mcp_progress(c, (uint64_t)step * 50, 100, NULL);
}

static void logging(struct mcp_call *c, const json_t *args)
{
	(void)args;
	begin_steps(c, tell_log);
}

static void progress(struct mcp_call *c, const json_t *args)
{
	(void)args;
	begin_steps(c, tell_progress);
}

// --- asking, legacy ---

static void sampling(struct mcp_call *c, const json_t *args)
{
	auto_buf struct buf b = BUF_INIT(1 << 14);
	struct jsonw w = {.b = &b};
	const char *prompt = mcp_arg(args, "prompt");
	jw_open(&w, '{');
	jw_key(&w, "messages");
	jw_open(&w, '[');
	jw_open(&w, '{');
	jw_kstr(&w, "role", "user");
	jw_key(&w, "content");
	jw_open(&w, '{');
	jw_kstr(&w, "type", "text");
	jw_kstr(&w, "text", prompt ? prompt : "");
	jw_close(&w, '}');
	jw_close(&w, '}');
	jw_close(&w, ']');
	jw_ku64(&w, "maxTokens", 100);
	jw_close(&w, '}');
	ask_legacy(c, "sampling/createMessage", buf_cstr(&b));
}

#define ASKS(fn, params)                                         \
	static void fn(struct mcp_call *c, const json_t *args)   \
	{                                                        \
		(void)args;                                      \
		ask_legacy(c, "elicitation/create", params);     \
	}
ASKS(elicitation,
     ELICIT("Please provide your information",
	    "\"username\":{\"type\":\"string\",\"description\":\"User's response\"},\"email\":{\"type\":\"string\",\"description\":\"User's email address\"}",
	    "\"username\",\"email\""))
ASKS(defaults,
     ELICIT("With defaults",
	    "\"name\":{\"type\":\"string\",\"default\":\"John Doe\"},\"age\":{\"type\":\"integer\",\"default\":30},"
	    "\"score\":{\"type\":\"number\",\"default\":95.5},"
	    "\"status\":{\"type\":\"string\",\"enum\":[\"active\",\"inactive\",\"pending\"],\"default\":\"active\"},"
	    "\"verified\":{\"type\":\"boolean\",\"default\":true}", ))
#define ENUM3 "\"enum\":[\"option1\",\"option2\",\"option3\"]"
#define TITLED(word) "[{\"const\":\"value1\",\"title\":\"First " word "\"},{\"const\":\"value2\",\"title\":\"Second " word "\"},{\"const\":\"value3\",\"title\":\"Third " word "\"}]"
ASKS(enums,
     ELICIT("With choices",
	    "\"untitledSingle\":{\"type\":\"string\"," ENUM3 "},\"titledSingle\":{\"type\":\"string\",\"oneOf\":" TITLED("Option") "},"
	    "\"legacyEnum\":{\"type\":\"string\",\"enum\":[\"opt1\",\"opt2\",\"opt3\"],\"enumNames\":[\"Option One\",\"Option Two\",\"Option Three\"]},"
	    "\"untitledMulti\":{\"type\":\"array\",\"items\":{\"type\":\"string\"," ENUM3 "}},"
	    "\"titledMulti\":{\"type\":\"array\",\"items\":{\"anyOf\":" TITLED("Choice") "}}", ))

// --- asking, modern ---

#define MESSAGE(t) "{\"messages\":[{\"role\":\"user\",\"content\":" TEXT(t) "}],\"maxTokens\":100}"
static const struct ask ask_name = {"user_name", "elicitation/create",
				    ELICIT("What is your name?", "\"name\":{\"type\":\"string\"}", "\"name\"")};
static const struct ask ask_capital = {"capital_question", "sampling/createMessage", MESSAGE("What is the capital of France?")};
static const struct ask ask_roots = {"client_roots", "roots/list", "{}"};
static const struct ask ask_ok = {"confirm", "elicitation/create",
				  ELICIT("Please confirm", "\"ok\":{\"type\":\"boolean\"}", "\"ok\"")};

static void in_elicitation(struct mcp_call *c, const json_t *args)
{
	const json_t *got = json_object_get(c->m.params, "inputResponses");
	(void)args;
	if (got && !json_is_object(got))
		mcp_error(c, RPC_PARAMS, 200, "inputResponses must be an object", NULL);
	else if (ask_modern(c, &ask_name, 1, NULL))
		answer_content(c, TEXT("Hello!"), false);
}

#define NEEDS(fn, what)                                          \
	static void fn(struct mcp_call *c, const json_t *args)   \
	{                                                        \
		(void)args;                                      \
		if (ask_modern(c, &(what), 1, NULL))             \
			answer_content(c, TEXT("thank you"), false); \
	}
NEEDS(in_sampling, ask_capital)
NEEDS(in_roots, ask_roots)

static void in_state(struct mcp_call *c, const json_t *args)
{
	char state[32];
	int got = ask_state(c, state, sizeof state);
	(void)args;
	if (got >= 0 && ask_modern(c, &ask_ok, 1, "once"))
		answer_content(c, got ? TEXT("state-ok") : TEXT("there was no state"), !got);
}

static void in_several(struct mcp_call *c, const json_t *args)
{
	char state[32];
	const struct ask all[] = {ask_name, {"greeting", "sampling/createMessage", MESSAGE("Generate a greeting")}, ask_roots};
	(void)args;
	if (ask_state(c, state, sizeof state) >= 0 && ask_modern(c, all, countof(all), "several"))
		answer_content(c, TEXT("all answered"), false);
}

static void in_rounds(struct mcp_call *c, const json_t *args)
{
	static const struct ask steps[] = {
		{"step1", "elicitation/create", ELICIT("Step 1: What is your name?", "\"name\":{\"type\":\"string\"}", "\"name\"")},
		{"step2", "elicitation/create", ELICIT("Step 2: What is your favorite color?", "\"color\":{\"type\":\"string\"}", "\"color\"")},
	};
	char state[32] = "";
	int got = ask_state(c, state, sizeof state);
	bool second = got > 0 && !strcmp(state, "round2");
	(void)args;
	if (got < 0 || (!second && !ask_modern(c, &steps[0], 1, "round1")))
		return;
	if (ask_modern(c, &steps[1], 1, "round2"))
		answer_content(c, TEXT("both rounds done"), false);
}

static void in_capabilities(struct mcp_call *c, const json_t *args)
{
	const json_t *caps = mcp_client_capabilities(c);
	struct ask asks[2];
	size_t n = 0;
	(void)args;
	if (json_object_get(caps, "sampling"))
		asks[n++] = ask_capital;
	if (json_object_get(caps, "elicitation"))
		asks[n++] = ask_name;
	if (ask_modern(c, asks, n, NULL))
		answer_content(c, TEXT("nothing to ask"), false);
}

static void missing_capability(struct mcp_call *c, const json_t *args)
{
	(void)args;
	if (json_object_get(mcp_client_capabilities(c), "sampling"))
		answer_content(c, TEXT("sampling is there"), false);
	else
		mcp_error(c, MCP_MISSING_CAPABILITY, 400, "sampling is needed", "{\"requiredCapabilities\":{\"sampling\":{}}}");
}

static void streaming(struct mcp_call *c, const json_t *args)
{
	in_elicitation(c, args);
}

static void change_tools(struct mcp_call *c, const json_t *args)
{
	(void)args;
	listen_tell("toolsListChanged", "notifications/tools/list_changed");
	answer_content(c, TEXT("changed"), false);
}

static void change_prompts(struct mcp_call *c, const json_t *args)
{
	(void)args;
	listen_tell("promptsListChanged", "notifications/prompts/list_changed");
	answer_content(c, TEXT("changed"), false);
}

static const struct mcp_param prompt[] = {{"prompt", MCP_STR, true, "what to say", 0, 0, NULL}, {0}};
static const struct mcp_param message[] = {{"message", MCP_STR, true, "what to ask", 0, 0, NULL}, {0}};
#define SCHEMA_2020 \
	"{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"type\":\"object\",\"$defs\":{\"address\":{\"$anchor\":\"addressDef\",\"type\":\"object\"," \
	"\"properties\":{\"street\":{\"type\":\"string\"},\"city\":{\"type\":\"string\"}}}},\"properties\":{\"name\":{\"type\":\"string\"}," \
	"\"address\":{\"$ref\":\"#/$defs/address\"},\"contactMethod\":{\"type\":\"string\",\"enum\":[\"phone\",\"email\"]},\"phone\":{\"type\":\"string\"}," \
	"\"email\":{\"type\":\"string\"}},\"allOf\":[{\"anyOf\":[{\"required\":[\"phone\"]},{\"required\":[\"email\"]}]}],\"if\":{\"properties\":" \
	"{\"contactMethod\":{\"const\":\"phone\"}},\"required\":[\"contactMethod\"]},\"then\":{\"required\":[\"phone\"]},\"else\":{\"required\":[\"email\"]},\"additionalProperties\":false}"

#define ROW(n, p, f) {.name = n, .help = "for the conformance suite", .params = p, .fn = f}
const struct mcp_tool fixture_tools[] = {
	ROW("test_simple_text", NULL, simple_text),
	ROW("test_image_content", NULL, image),
	ROW("test_audio_content", NULL, audio),
	ROW("test_embedded_resource", NULL, embedded),
	ROW("test_multiple_content_types", NULL, mixed),
	ROW("test_tool_with_logging", NULL, logging),
	ROW("test_error_handling", NULL, failing),
	ROW("test_tool_with_progress", NULL, progress),
	ROW("test_sampling", prompt, sampling),
	ROW("test_elicitation", message, elicitation),
	ROW("test_elicitation_sep1034_defaults", NULL, defaults),
	ROW("test_elicitation_sep1330_enums", NULL, enums),
	{.name = "json_schema_2020_12_tool", .help = "Tool with JSON Schema 2020-12 features", .in = SCHEMA_2020, .fn = schema},
	ROW("test_missing_capability", NULL, missing_capability),
	ROW("test_streaming_elicitation", NULL, streaming),
	ROW("test_logging_tool", NULL, quiet),
	ROW("test_trigger_tool_change", NULL, change_tools),
	ROW("test_trigger_prompt_change", NULL, change_prompts),
	ROW("test_input_required_result_elicitation", NULL, in_elicitation),
	ROW("test_input_required_result_sampling", NULL, in_sampling),
	ROW("test_input_required_result_list_roots", NULL, in_roots),
	ROW("test_input_required_result_request_state", NULL, in_state),
	ROW("test_input_required_result_tampered_state", NULL, in_state),
	ROW("test_input_required_result_multiple_inputs", NULL, in_several),
	ROW("test_input_required_result_multi_round", NULL, in_rounds),
	ROW("test_input_required_result_capabilities", NULL, in_capabilities),
	{0},
};
