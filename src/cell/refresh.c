// SPDX-License-Identifier: Apache-2.0
#include "cell/refresh.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cell/cell_int.h"
#include "isolate/mounts.h"
#include "model/msg.h"

#define REFRESH_MS 1000
#define RUNNING_MS 3000
#define REFRESH_SHARE 50 // of the time it takes is not spent on it

// A path may be gone: the cell goes on as it is.
static void refresh_path(const struct cell *c, const char *path)
{
	struct err e;
	if (mount_refresh(c->root, path + 1, &e))
		log_line(LOG_DEBUG, "sandbox=%s %s", c->spec.sandbox, e.msg);
}

// A directory that a command made and an apply then put into the base is merged with the base's from here on. Before that a
// file removed from it would leave no whiteout, and be there again after the next start.
void refresh_now(struct cell *c)
{
	c->refresh_due = c->root < 0;
	if (c->refresh_due)
		chan_send(&c->init, M_ROOT, 0, 0, NULL, 0);
	else
		refresh_path(c, c->spec.ws_path);
}

void refresh_root(struct cell *c, struct frame *f)
{
	close_fd(&c->root);
	if (c->stage == CELL_UP)
		c->root = take_fd(&f->fd);
	if (c->refresh_due && c->root >= 0)
		refresh_now(c);
}

// False: not yet.
static bool refresh_begin(struct cell *c, uint64_t pause_ms)
{
	uint64_t now = clock_ms();
	if (now - c->refreshed_ms < pause_ms + c->refresh_cost_ms * REFRESH_SHARE)
		return false;
	c->refreshed_ms = now;
	if (c->root < 0)
		chan_send(&c->init, M_ROOT, 0, 0, NULL, 0);
	return c->root >= 0;
}

static void refresh_given(struct cell *c)
{
	refresh_path(c, c->spec.ws_path);
	for (uint32_t i = 0; i < c->spec.n_mounts; i++)
		if (*c->spec.mounts[i].src)
			refresh_path(c, c->spec.mounts[i].dst);
	c->refresh_cost_ms = clock_ms() - c->refreshed_ms;
}

void refresh_running(struct cell *c)
{
	if (refresh_begin(c, RUNNING_MS))
		refresh_given(c);
}

void refresh_overlays(struct cell *c)
{
	const struct rootfs_host *host = &c->nursery->rootfs;
	if (!refresh_begin(c, c->refreshed ? REFRESH_MS : 0))
		return;
	c->refreshed = true;
	refresh_path(c, "/");
	for (int i = 0; i < host->n_system; i++)
		if (!*host->system[i].link) {
			auto_free char *path = xasprintf("/%s", host->system[i].name);
			refresh_path(c, path);
		}
	refresh_given(c);
}
