// SPDX-License-Identifier: Apache-2.0
// MCP: the first lines are the headers (version, method, name), the rest is a message. Whatever is read is judged, and the
// arguments of a call are checked against every tool.
#include "api/mcp.h"

#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

static char *line(struct str *rest)
{
	struct str one;
	if (!str_next(rest, '\n', &one))
		return NULL;
	return one.n && !memchr(one.p, 0, one.n) ? xstrndup(one.p, one.n) : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct str rest = {(const char *)p, n};
	auto_free char *version = line(&rest), *method = line(&rest), *name = line(&rest);
	struct mcp_message m;
	struct mcp_fault f;
	struct err e;
	enum mcp_era era;
	const char *said;
	if (!mcp_message_read(rest.p, rest.n, &m, &f)) {
		struct mcp_headers h = {.version = version, .method = method, .name = name}, none = {.stdio = true};
		(void)!mcp_message_judge(&m, &h, &era, &said, &f);
		(void)!mcp_message_judge(&m, &none, &era, &said, &f);
		const json_t *args = json_object_get(m.params, "arguments");
		for (const struct mcp_tool *t = mcp_site.tools; t->name; t++)
			(void)!mcp_args_check(t, args, n % 2, &e);
	}
	mcp_message_done(&m);
	return 0;
}
