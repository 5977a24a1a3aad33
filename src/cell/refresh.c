// SPDX-License-Identifier: Apache-2.0
#include "cell/refresh.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cell/cell_int.h"
#include "isolate/mounts.h"
#include "model/msg.h"

#define REFRESH_MS 1000

// A path may be gone: the cell goes on as it is.
static void refresh_path(const struct cell *c, const char *path)
{
	struct err e;
	if (mount_refresh(c->root, path + 1, &e))
		log_line(LOG_DEBUG, "sandbox=%s %s", c->spec.sandbox, e.msg);
}

void refresh_root(struct cell *c, struct frame *f)
{
	close_fd(&c->root);
	if (c->stage == CELL_UP)
		c->root = take_fd(&f->fd);
}

void refresh_overlays(struct cell *c)
{
	uint64_t now = clock_ms();
	if (now - c->refreshed_ms < REFRESH_MS)
		return;
	c->refreshed_ms = now;
	if (c->root < 0) {
		chan_send(&c->init, M_ROOT, 0, 0, NULL, 0);
		return;
	}
	refresh_path(c, c->spec.ws_path);
	if (c->spec.image)
		refresh_path(c, "/");
	for (uint32_t i = 0; i < c->spec.n_mounts; i++)
		refresh_path(c, c->spec.mounts[i].dst);
}
