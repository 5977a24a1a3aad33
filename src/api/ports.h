// SPDX-License-Identifier: Apache-2.0
// Handlers of what reaches into a sandbox by its ports, for the table in routes.c.
#pragma once
#include "api/preview.h"
#include "api/server.h"

void post_dial(struct request *r);
void post_preview(struct request *r);
void delete_preview(struct request *r);

// A signed address of a port, good until then; where nothing listens, a loopback port is opened for it.
int preview_link(struct request *r, const struct sandbox *s, uint16_t port, uint64_t expires_unix_s, struct buf *url,
		 char out_sign[PREVIEW_LINK_MAX], struct err *e) MUST_USE;
