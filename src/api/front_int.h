// SPDX-License-Identifier: Apache-2.0
// Between front.c (connections) and listener.c (addresses).
#pragma once
#include "api/front.h"

struct front {
	struct loop *loop;
	void (*serve)(void *ctx, struct front_conn *c);
	void *ctx;
	const struct front_taker *taker;
	struct listener *listeners;
	struct front_conn *first, *last; // in the order of waiting
	struct front_conn **by_fd;
	int n_by_fd, n, max;
	struct timer sweep; // set while a connection has a deadline
};

void listener_ready(struct watch *w, uint32_t events);
void listener_settle(struct listener *l); // frees it when it is closed and its last connection is gone
bool sockaddr_is_loopback(const struct sockaddr_storage *a);
