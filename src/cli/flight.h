// SPDX-License-Identifier: Apache-2.0
// One MCP message on its way: a POST to skepd on a connection of its own, its answer read as it comes.
#pragma once
#include "base/loop.h"
#include "http/head.h"

struct flight {
	struct flight *next;
	struct watch w;
	char *id; // as JSON; NULL = not known
	struct buf in, body;
	struct http_head head;
	struct http_chunks chunks;
	bool has_head, events;
};
struct flight_ops {
	void (*message)(void *ctx, const char *p, size_t n); // one, in one line
	void (*end)(void *ctx, struct flight *f, const struct err *e); // e: no answer will come; then flight_free
};

struct flights {
	struct loop *loop;
	const struct flight_ops *ops;
	void *ctx;
	struct flight *list;
	size_t n;
};
#define FLIGHT_ANSWER (64u << 20) // bytes of one answer

// id: taken.
int flight_send(struct flights *all, const char *target, const char *p, size_t n, char *id, struct err *e) MUST_USE;
struct flight *flight_find(struct flights *all, const char *id);
void flight_free(struct flights *all, struct flight *f); // skepd takes it as the end of interest
