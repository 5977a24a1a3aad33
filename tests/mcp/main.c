// SPDX-License-Identifier: Apache-2.0
// mcp-fixture SOCKET PORT-FILE: skepd's MCP surface with the conformance suite's tables behind it, on loopback TCP.
#include "fixture.h"

#include "api/front.h"
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

static int serve(struct loop *l, int fd, const char *port_file, struct err *e)
{
	struct server *s = server_new(l, NULL, surfaces, fd, e);
	static char *none[] = {NULL};
	const struct listener *in = s ? front_listen(server_front(s), "127.0.0.1:0", true, none, e) : NULL;
	return in ? fs_replace(AT_FDCWD, port_file, in->address, strlen(in->address), 0600, e) : -1;
}

int main(int argc, char **argv)
{
	struct err e;
	struct loop l;
	if (argc != 3)
		return 2;
	int fd = fs_unix_listen(AT_FDCWD, argv[1], &e);
	if (fd < 0 || loop_init(&l, &e) || serve(&l, fd, argv[2], &e) || loop_run(&l, &e)) {
		fprintf(stderr, "%s\n", e.msg);
		return 1;
	}
	return 0;
}
