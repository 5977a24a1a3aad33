// SPDX-License-Identifier: Apache-2.0
// mcp-fixture SOCKET: skepd's MCP surface with the conformance suite's tables behind it, on a unix socket.
#include "fixture.h"

#include "base/fs.h"
#include "base/mem.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static const struct mcp_site site = {
	.surface = {.name = "mcp", .routes = mcp_routes, .mine = mcp_mine, .fail = mcp_fail},
	.name = "mcp-fixture",
	.title = "conformance fixtures",
	.version = "1",
	.capabilities = {"{\"tools\":{},\"prompts\":{},\"resources\":{\"subscribe\":true},\"completions\":{},\"logging\":{}}",
			 "{\"tools\":{\"listChanged\":true},\"prompts\":{\"listChanged\":true},\"resources\":{},\"completions\":{}}"},
	.methods = fixture_methods,
	.tools = fixture_tools,
	.on_response = ask_on_response,
};
static const struct surface *const surfaces[] = {&site.surface, NULL};

int main(int argc, char **argv)
{
	struct err e;
	struct loop l;
	if (argc != 2)
		return 2;
	int fd = fs_unix_listen(AT_FDCWD, argv[1], &e);
	if (fd < 0 || loop_init(&l, &e) || !server_new(&l, NULL, surfaces, fd, &e) || loop_run(&l, &e)) {
		fprintf(stderr, "%s\n", e.msg);
		return 1;
	}
	return 0;
}
