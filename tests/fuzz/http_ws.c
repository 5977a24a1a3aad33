// SPDX-License-Identifier: Apache-2.0
// A WebSocket's peer sends arbitrary bytes, in one piece and in two. Besides memory safety: it always comes to an end, no
// message is longer than was allowed, text is UTF-8, and nothing is told after the end.
#include "base/mem.h"
#include "base/str.h"
#include "http/ws.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct peer {
	struct loop loop;
	struct ws *ws;
	bool closed;
};

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void on_message(void *ctx, bool text, const uint8_t *p, size_t n)
{
	struct peer *x = ctx;
	check(!x->closed && n <= WS_MESSAGE_MAX);
	check(!text || str_is_utf8((const char *)p, n));
	ws_send(x->ws, text, p, n);
	if (n == 7)
		ws_close(x->ws, WS_OK, "seven");
}

static void on_drained(void *ctx)
{
	check(!((struct peer *)ctx)->closed);
}

static void on_closed(void *ctx)
{
	struct peer *x = ctx;
	check(!x->closed);
	x->closed = true;
	loop_stop(&x->loop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ws_ops ops = {on_message, on_drained, on_closed};
	struct peer x = {0};
	struct err e;
	int sv[2];
	char accept[WS_KEY_SIZE];
	if (size > 60000)
		return 0;
	auto_free char *key = xstrndup((const char *)data, size < 24 ? size : 24);
	check(!ws_accept(key, accept) || strlen(accept) == WS_KEY_SIZE - 1);
	check(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) && !loop_init(&x.loop, &e));
	size_t early = size ? data[0] % (size + 1) : 0; // came with the request's head
	check(write(sv[1], data + early, size - early) == (ssize_t)(size - early));
	shutdown(sv[1], SHUT_WR);
	x.ws = ws_open(&x.loop, sv[0], data, early, &ops, &x, &e);
	check(x.ws && !loop_run(&x.loop, &e) && x.closed);
	loop_done(&x.loop);
	close(sv[0]);
	close(sv[1]);
	return 0;
}
