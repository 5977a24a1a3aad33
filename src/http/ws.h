// SPDX-License-Identifier: Apache-2.0
// The server's side of a WebSocket (RFC 6455) on a connected, non-blocking descriptor in the loop. Messages are bounded by
// WS_MESSAGE_MAX, a peer that is silent for longer than two pings is gone, a control frame storm is answered as wslay does.
// Not in `skep`, which is linked statically with musl: from another machine it speaks through an upgraded connection
// instead (docs/streams.md), so it needs no frames.
#pragma once
#include "base/buf.h"
#include "base/loop.h"

#define WS_MESSAGE_MAX (1u << 20)
#define WS_KEY_SIZE 29
// Normal, going away, protocol error, policy, too big, internal, service restart.
enum ws_code { WS_OK = 1000, WS_AWAY = 1001, WS_PROTOCOL = 1002, WS_POLICY = 1008, WS_BIG = 1009, WS_INTERNAL = 1011, WS_RESTART = 1012 };

// Sec-WebSocket-Accept for the client's Sec-WebSocket-Key. False: it is no such key.
bool ws_accept(const char *key, char out[WS_KEY_SIZE]);

struct ws;
struct ws_ops {
	void (*message)(void *ctx, bool text, const uint8_t *p, size_t n); // text is UTF-8
	void (*drained)(void *ctx); // what was sent has left
	void (*closed)(void *ctx);  // last, once, however it ended: the descriptor is out of the loop, the owner's to close
};
// extra: bytes that came before. NULL: out of memory for it.
struct ws *ws_open(struct loop *l, int fd, const void *extra, size_t n, const struct ws_ops *ops, void *ctx, struct err *e) MUST_USE;
void ws_send(struct ws *w, bool text, const void *p, size_t n);
size_t ws_queued(const struct ws *w);
void ws_pause(struct ws *w, bool on);			      // reads nothing from the peer; up to one read may still come
void ws_close(struct ws *w, enum ws_code code, const char *reason); // what was sent leaves first; `closed` follows
void ws_drop(struct ws *w);				      // now; `closed` is called from inside
