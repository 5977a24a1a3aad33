// SPDX-License-Identifier: Apache-2.0
// skepd's tools: the table a model sees. The order is part of it.
#include "api/mcp_site_int.h"

#include "model/limits.h"

#define SANDBOX(word) {MCP_SANDBOX, MCP_STR, true, word, 1, 40, NULL}
#define BOX SANDBOX("id or name of the sandbox")
#define PATH(req, help) {"path", MCP_STR, req, help, 1, 4096, NULL}
#define TEXT_MAX (7 << 20)
#define DAY_MS 86400000

static const struct mcp_param create[] = {
	{"name", MCP_STR, false, "a name for it: a-z, 0-9 and -", 1, 40, NULL},
	{"empty", MCP_BOOL, false, "start with an empty workspace instead of the project", 0, 0, NULL},
	{"snapshot", MCP_STR, false, "start from this snapshot", 1, 40, NULL},
	{0},
};
static const struct mcp_param one[] = {BOX, {0}};
static const struct mcp_param run[] = {
	BOX,
	{"command", MCP_STR, true, "shell command line", 1, LIMIT_ARGV / 2, NULL},
	{"cwd", MCP_STR, false, "where to start (default: the workspace; relative paths begin there)", 1, 4096, NULL},
	{"stdin", MCP_STR, false, "text for its stdin; without it and without interactive stdin is empty", 0, TEXT_MAX, NULL},
	{"interactive", MCP_BOOL, false, "keep stdin open, for run_poll", 0, 0, NULL},
	{"yield_ms", MCP_INT, false, "return after this time even if it still runs (default 10000)", 0, MCP_YIELD_MAX, NULL},
	{"timeout_ms", MCP_INT, false, "end the command after this time (default: never)", 1, DAY_MS, NULL},
	{"max_output", MCP_INT, false, "bytes of each stream in the answer (default 32768)", 256, MCP_OUTPUT_MAX, NULL},
	{0},
};
static const struct mcp_param poll[] = {
	{"exec", MCP_STR, true, "as run gave it", 1, 40, NULL},
	{"stdout_offset", MCP_INT, false, "first byte of stdout wanted: stdout_next of the last answer (default 0)", 0, INT64_MAX, NULL},
	{"stderr_offset", MCP_INT, false, "the same for stderr", 0, INT64_MAX, NULL},
	{"stdin", MCP_STR, false, "text for its stdin, if it was started with interactive", 0, TEXT_MAX, NULL},
	{"eof", MCP_BOOL, false, "close its stdin (behind the text)", 0, 0, NULL},
	{"yield_ms", MCP_INT, false, "wait this long for its end (default 10000; 0: only look)", 0, MCP_YIELD_MAX, NULL},
	{"max_output", MCP_INT, false, "bytes of each stream in the answer (default 32768)", 256, MCP_OUTPUT_MAX, NULL},
	{0},
};
static const struct mcp_param kill_[] = {
	{"exec", MCP_STR, true, "as run gave it", 1, 40, NULL},
	{"signal", MCP_STR, false, "default TERM", 0, 0, "TERM|INT|HUP|KILL"},
	{0},
};
static const struct mcp_param read_[] = {
	BOX,
	PATH(true, "file; relative paths begin at the workspace"),
	{"line", MCP_INT, false, "first line wanted, from 1 (default 1)", 1, INT64_MAX, NULL},
	{"lines", MCP_INT, false, "how many (default 2000)", 1, 100000, NULL},
	{0},
};
static const struct mcp_param write_[] = {
	BOX,
	PATH(true, "file; its directories are made"),
	{"content", MCP_STR, true, "the whole content", 0, TEXT_MAX, NULL},
	{"new", MCP_BOOL, false, "fail if something is there already", 0, 0, NULL},
	{"etag", MCP_STR, false, "fail unless the file is still as the write or edit that gave this etag left it", 1, 64, NULL},
	{0},
};
static const struct mcp_param edit[] = {
	BOX,
	PATH(true, "file"),
	{"old", MCP_STR, true, "text that is there, exactly", 1, TEXT_MAX, NULL},
	{"new", MCP_STR, true, "text in its place", 0, TEXT_MAX, NULL},
	{"replace_all", MCP_BOOL, false, "every occurrence; else old must fit exactly once", 0, 0, NULL},
	{"etag", MCP_STR, false, "fail unless the file is still as the write or edit that gave this etag left it", 1, 64, NULL},
	{0},
};
static const struct mcp_param list[] = {
	BOX,
	PATH(false, "directory (default: the workspace)"),
	{"depth", MCP_INT, false, "levels below it (default 1)", 1, 16, NULL},
	{0},
};
static const struct mcp_param search[] = {
	BOX,
	{"pattern", MCP_STR, false, "extended regular expression for lines; without it files are found by glob", 1, 4096, NULL},
	PATH(false, "directory or file (default: the workspace)"),
	{"glob", MCP_STR, false, "only files whose name, or path if it has a /, fits: *.c, src/**/*.ts", 1, 1024, NULL},
	{"literal", MCP_BOOL, false, "pattern is plain text", 0, 0, NULL},
	{"ignore_case", MCP_BOOL, false, "letters of either case fit", 0, 0, NULL},
	{"hidden", MCP_BOOL, false, "names that begin with a dot, too", 0, 0, NULL},
	{"files_only", MCP_BOOL, false, "only the names of files with a hit", 0, 0, NULL},
	{"limit", MCP_INT, false, "hits (default 200)", 1, 2000, NULL},
	{0},
};
static const struct mcp_param snapshot[] = {BOX, {"name", MCP_STR, false, "a name for it", 1, 40, NULL}, {0}};
static const struct mcp_param rollback[] = {
	BOX, {"snapshot", MCP_STR, false, "id or name (default: the newest that has a name)", 1, 40, NULL}, {0}};
static const struct mcp_param fork_[] = {
	BOX,
	{"snapshot", MCP_STR, false, "start from this moment of it (default: now)", 1, 40, NULL},
	{"count", MCP_INT, false, "how many (default 1)", 1, 16, NULL},
	{0},
};
static const struct mcp_param preview[] = {BOX, {"port", MCP_INT, true, "where the server listens", 1, 65535, NULL}, {0}};
static const struct mcp_param diff[] = {
	BOX,
	PATH(false, "only this file or directory, relative to the workspace"),
	{"format", MCP_STR, false, "default patch", 0, 0, "patch|stat|name-status"},
	{"max_output", MCP_INT, false, "bytes (default 65536)", 256, 1 << 20, NULL},
	{0},
};

// --- schemas of results ---

#define STR "{\"type\":\"string\"}"
#define NUM "{\"type\":\"integer\"}"
#define YES "{\"type\":\"boolean\"}"
#define OBJECT(props, req) "{\"type\":\"object\",\"properties\":{" props "},\"required\":[" req "]}"
#define LIST(items) "{\"type\":\"array\",\"items\":" items "}"
#define BOX_PROPS "\"sandbox\":" STR ",\"name\":" STR ",\"state\":" STR ",\"reason\":" STR ",\"workspace\":" STR ",\"pending\":" NUM ",\"notices\":" LIST(STR)
#define BOX_OUT OBJECT(BOX_PROPS, "\"sandbox\",\"state\",\"workspace\"")
#define RUN_OUT                                                                                                                       \
	OBJECT("\"exec\":" STR ",\"sandbox\":" STR ",\"state\":{\"type\":\"string\",\"enum\":[\"running\",\"exited\"]},\"exit_code\":" NUM    \
	       ",\"signal\":" NUM ",\"timed_out\":" YES ",\"reason\":" STR ",\"stdout\":" STR ",\"stderr\":" STR ",\"stdout_next\":" NUM      \
	       ",\"stderr_next\":" NUM ",\"stdout_omitted\":" NUM ",\"stderr_omitted\":" NUM ",\"next\":" STR,                                \
	       "\"exec\",\"state\",\"stdout\",\"stderr\",\"stdout_next\",\"stderr_next\"")
#define FILE_OUT "\"path\":" STR ",\"size\":" NUM ",\"etag\":" STR
#define MOMENT_OUT OBJECT("\"snapshot\":" STR ",\"snapshot_name\":" STR ",\"sandbox\":" STR ",\"note\":" STR, "\"snapshot\"")

static const struct mcp_tool tools[] = {
	{"sandbox_create", "Create a sandbox",
	 "Make a new sandbox: a real Linux machine on a copy-on-write view of the user's project. Changes stay inside until the user reviews "
	 "and applies them. Its network and limits are the user's settings.",
	 create, NULL, BOX_OUT, 0, true, mcp_sandbox_create},
	{"sandbox_list", "List sandboxes", "List the sandboxes there are, newest first.", NULL, NULL,
	 OBJECT("\"sandboxes\":" LIST(BOX_OUT), "\"sandboxes\""), HINT_READ | HINT_IDEMPOTENT, true, mcp_sandbox_list},
	{"sandbox_stop", "Stop a sandbox", "End every process of a sandbox. Its files stay; the next command starts it again.", one, NULL,
	 BOX_OUT, HINT_DESTROYS | HINT_IDEMPOTENT, true, mcp_sandbox_stop},
	{"run", "Run a command",
	 "Run a shell command in the sandbox and return its output. If it still runs after yield_ms, state is \"running\": go on with "
	 "run_poll. Start servers and watchers with a small yield_ms. Long output is shortened in the middle.",
	 run, NULL, RUN_OUT, HINT_DESTROYS | HINT_OPEN_WORLD, false, mcp_run},
	{"run_poll", "Poll a command",
	 "What a command of run has said since an offset, and whether it has ended. Can give it input first.", poll, NULL, RUN_OUT, 0, false,
	 mcp_run_poll},
	{"run_kill", "End a command", "Send a signal to a command of run and all it started.", kill_, NULL,
	 OBJECT("\"exec\":" STR ",\"signalled\":" YES, "\"exec\""), HINT_DESTROYS, false, mcp_run_kill},
	{"read", "Read a file", "Read lines of a text file in the sandbox.", read_, NULL,
	 OBJECT("\"path\":" STR ",\"text\":" STR ",\"first_line\":" NUM ",\"last_line\":" NUM ",\"size\":" NUM ",\"more\":" YES ",\"next\":" STR,
		"\"path\",\"text\",\"first_line\",\"last_line\",\"more\""),
	 HINT_READ | HINT_IDEMPOTENT, false, mcp_read},
	{"write", "Write a file", "Create or replace a file in the sandbox, atomically.", write_, NULL, OBJECT(FILE_OUT, "\"path\""),
	 HINT_DESTROYS | HINT_IDEMPOTENT, false, mcp_write},
	{"edit", "Edit a file", "Replace a piece of text in a file of the sandbox by another, exactly and atomically.", edit, NULL,
	 OBJECT(FILE_OUT ",\"replaced\":" NUM ",\"line\":" NUM, "\"path\",\"replaced\",\"line\""), HINT_DESTROYS, false, mcp_edit},
	{"list", "List a directory", "List the entries of a directory in the sandbox.", list, NULL,
	 OBJECT("\"entries\":" LIST(OBJECT("\"name\":" STR ",\"kind\":" STR ",\"size\":" NUM ",\"target\":" STR, "\"name\",\"kind\"")) ",\"more\":" YES
		",\"next\":" STR,
		"\"entries\",\"more\""),
	 HINT_READ | HINT_IDEMPOTENT, false, mcp_list},
	{"search", "Search files", "Find lines by regular expression, or files by name, below a directory of the sandbox.", search, NULL,
	 OBJECT("\"hits\":" LIST(OBJECT("\"path\":" STR ",\"line\":" NUM ",\"text\":" STR, "\"path\"")) ",\"files\":" NUM ",\"more\":" YES
		",\"next\":" STR,
		"\"hits\",\"more\""),
	 HINT_READ | HINT_IDEMPOTENT, false, mcp_search},
	{"snapshot", "Take a snapshot", "Keep the sandbox's files as they are now, to come back to with rollback. Takes milliseconds.", snapshot,
	 NULL, MOMENT_OUT, 0, false, mcp_snapshot},
	{"rollback", "Go back", "Put the sandbox's files back to a snapshot; its processes end. What was there is kept as an automatic snapshot.",
	 rollback, NULL, MOMENT_OUT, HINT_DESTROYS, false, mcp_rollback},
	{"fork", "Fork a sandbox", "Make new sandboxes that start as this one is, to try several ways.", fork_, NULL,
	 OBJECT("\"snapshot\":" STR ",\"snapshot_name\":" STR ",\"sandboxes\":" LIST(STR), "\"sandboxes\""), 0, true, mcp_fork},
	{"diff", "Show changes", "What the sandbox changed against the user's project: what the user will review.", diff, NULL,
	 OBJECT("\"diff\":" STR ",\"size\":" NUM ",\"truncated\":" YES ",\"next\":" STR, "\"diff\",\"truncated\""), HINT_READ | HINT_IDEMPOTENT,
	 false, mcp_diff},
	{"status", "Show status", "State of the sandbox, its running commands, listening ports, snapshots and limits.", one, NULL,
	 OBJECT(BOX_PROPS ",\"base\":" STR ",\"user\":" STR ",\"memory\":" NUM ",\"disk\":" NUM ",\"pids\":" NUM ",\"running\":" LIST(
			OBJECT("\"exec\":" STR ",\"command\":" STR, "\"exec\"")) ",\"ports\":" LIST(NUM) ",\"snapshots\":" LIST(OBJECT("\"snapshot\":" STR ",\"name\":" STR
														 ",\"automatic\":" YES,
														 "\"snapshot\"")),
		"\"sandbox\",\"state\",\"workspace\",\"running\",\"snapshots\""),
	 HINT_READ | HINT_IDEMPOTENT, false, mcp_status},
	{"preview", "Preview a port", "A link under which the user can open a web server that listens on a port inside the sandbox.", preview, NULL,
	 OBJECT("\"url\":" STR ",\"expires\":" STR ",\"note\":" STR, "\"url\""), HINT_IDEMPOTENT, false, mcp_preview},
	{"policy", "Show the policy", "What the sandbox may reach on the network. Read only.", one, NULL,
	 OBJECT("\"sandbox\":" STR ",\"network\":{\"type\":\"object\"},\"note\":" STR, "\"sandbox\",\"network\""), HINT_READ | HINT_IDEMPOTENT,
	 false, mcp_policy},
	{0},
};

static const struct mcp_method methods[] = {
	{"resources/list", MCP_LEGACY | MCP_MODERN, mcp_resources_list},
	{"resources/templates/list", MCP_LEGACY | MCP_MODERN, mcp_templates_list},
	{"resources/read", MCP_LEGACY | MCP_MODERN, mcp_resources_read},
	{0},
};

const struct mcp_site mcp_site = {
	.surface = {.name = "mcp", .routes = mcp_routes, .mine = mcp_mine, .fail = mcp_fail, .any_parts = true},
	.name = "skep",
	.title = "skep sandboxes",
	.version = "0.1.0",
	.instructions =
		"skep gives you a sandbox: a real Linux machine where you may edit, build, test and install freely. Nothing you do there "
		"touches the user's machine or repository; the user reviews the changes (diff) and applies them. Commands that take long go "
		"on in the background: run returns an exec handle, run_poll continues. Take a snapshot before something risky.",
	.capabilities = {"{\"tools\":{},\"resources\":{}}", "{\"tools\":{},\"resources\":{}}"},
	.methods = methods,
	.tools = tools,
};
