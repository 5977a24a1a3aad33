// SPDX-License-Identifier: Apache-2.0
// subscriptions/listen: a stream that stays open and tells what changed, if that was asked for.
#include "fixture.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

static struct mcp_call *open_streams[64];

static void on_cancel(struct mcp_call *c)
{
	for (size_t i = 0; i < countof(open_streams); i++)
		if (open_streams[i] == c)
			open_streams[i] = NULL;
	struct jsonw w = mcp_result_begin(c, "complete");
	mcp_result_end(c, &w);
}

static void tell(struct mcp_call *c, const char *method, const char *more)
{
	auto_buf struct buf b = BUF_INIT(1 << 14);
	buf_fmt(&b, "{\"jsonrpc\":\"2.0\",\"method\":\"%s\",\"params\":{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":%s}%s}}", method,
		c->id, more);
	mcp_message_send(c, &b);
}

void listen_begin(struct mcp_call *c)
{
	auto_buf struct buf want = BUF_INIT(1 << 12), more = BUF_INIT(1 << 13);
	const json_t *n = json_object_get(c->m.params, "notifications");
	for (size_t i = 0; i < countof(open_streams); i++)
		if (!open_streams[i]) {
			open_streams[i] = c;
			c->on_cancel = on_cancel;
			if (n)
				json_print(&want, n, 0);
			buf_fmt(&more, ",\"notifications\":%s", n ? buf_cstr(&want) : "{}");
			tell(c, "notifications/subscriptions/acknowledged", buf_cstr(&more));
			return;
		}
	mcp_error(c, RPC_INTERNAL, 200, "too many streams", NULL);
}

void listen_tell(const char *kind, const char *method)
{
	for (size_t i = 0; i < countof(open_streams); i++) {
		struct mcp_call *c = open_streams[i];
		if (c && json_is_true(json_object_get(json_object_get(c->m.params, "notifications"), kind)))
			tell(c, method, "");
	}
}
