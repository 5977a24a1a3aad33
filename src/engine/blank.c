// SPDX-License-Identifier: Apache-2.0
// Making a directory and a file costs more than everything else skepd does for a create, so they are made
// ahead: ids without a sandbox, each with sandboxes/ID and an empty journal in it.
#include "engine/engine_int.h"

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLANK_MS 5 // after a create, when it no longer competes with it

static int make(struct engine *g, char id[ID_SIZE], struct err *e)
{
	id_make('s', id);
	auto_free char *journal = xasprintf("%s/journal", id);
	if (mkdirat(g->sandboxes, id, 0700))
		return err_sys(e, "make sandboxes/%s", id);
	auto_fd int fd = openat(g->sandboxes, journal, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0)
		return 0;
	err_sys(e, "make sandboxes/%s", journal);
	unlinkat(g->sandboxes, id, AT_REMOVEDIR); // half a sandbox is of no use to anybody
	return -1;
}

static void on_blank(struct timer *t)
{
	struct engine *g = container_of(t, struct engine, blank);
	struct err e;
	for (; g->n_blanks < BLANKS; g->n_blanks++)
		if (make(g, g->blanks[g->n_blanks], &e)) {
			log_line(LOG_WARN, "%s", e.msg);
			return;
		}
}

int blank_take(struct engine *g, char id[ID_SIZE], struct err *e)
{
	g->blank.fn = on_blank;
	if (!g->blank.at_ms)
		timer_set(g->loop, &g->blank, BLANK_MS);
	if (!g->n_blanks)
		return make(g, id, e);
	memcpy(id, g->blanks[--g->n_blanks], ID_SIZE);
	return 0;
}

static int lent_at(const struct engine *g, const char *id)
{
	int i = g->n_lent;
	while (i && strcmp(g->lent[i - 1], id))
		i--;
	return i - 1;
}

bool blank_is(const struct engine *g, const char *id)
{
	for (int i = 0; i < g->n_blanks; i++)
		if (!strcmp(g->blanks[i], id))
			return true;
	return lent_at(g, id) >= 0;
}

// --- for the backend, which builds for them ahead ---

static bool lend(void *ctx, struct identity *out)
{
	struct engine *g = ctx;
	struct err e;
	if (g->n_lent == countof(g->lent))
		return false;
	if (blank_take(g, out->id, &e)) {
		log_line(LOG_WARN, "%s", e.msg);
		return false;
	}
	key_make(out->machine_id);
	memcpy(g->lent[g->n_lent++], out->id, ID_SIZE);
	return true;
}

void blank_used(struct engine *g, const char *id)
{
	int i = lent_at(g, id);
	if (i >= 0)
		memmove(g->lent[i], g->lent[--g->n_lent], ID_SIZE);
}

static void drop(struct engine *g, const char *id);

static void give_back(void *ctx, const struct identity *i)
{
	struct engine *g = ctx;
	blank_used(g, i->id);
	if (g->n_blanks < BLANKS)
		memcpy(g->blanks[g->n_blanks++], i->id, ID_SIZE);
	else
		drop(g, i->id);
}

static void drop(struct engine *g, const char *id)
{
	struct stat st;
	struct err e;
	auto_free char *journal = xasprintf("%s/journal", id), *shadow = xasprintf("%s/shadow.git", id);
	if (fs_exists(g->sandboxes, shadow) && fs_remove_tree(g->sandboxes, shadow, &e)) // of a create that came to nothing
		log_line(LOG_WARN, "%s", e.msg);
	if (!fstatat(g->sandboxes, journal, &st, AT_SYMLINK_NOFOLLOW) && st.st_size)
		return; // not blank: gc tells about it
	unlinkat(g->sandboxes, journal, 0);
	unlinkat(g->sandboxes, id, AT_REMOVEDIR); // fails when something else is in it, as it should
}

void blank_sweep(struct engine *g)
{
	int fd = openat(g->sandboxes, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *ent;
	while (d && (ent = readdir(d)))
		if (id_is(ent->d_name) && !box_by_id(g, ent->d_name) && !keep_is_older(g, g->sandboxes, ent->d_name))
			drop(g, ent->d_name);
	if (d)
		closedir(d);
	g->blank.fn = on_blank;
	timer_set(g->loop, &g->blank, BLANK_MS);
	g->backend->lender = (struct lender){lend, give_back, g};
}

void blank_done(struct engine *g)
{
	timer_clear(g->loop, &g->blank);
	g->backend->lender = (struct lender){0};
	while (g->n_lent)
		drop(g, g->lent[--g->n_lent]);
	while (g->n_blanks)
		drop(g, g->blanks[--g->n_blanks]);
}
