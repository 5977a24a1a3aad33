// SPDX-License-Identifier: Apache-2.0
// What is left when state.db is lost. Beside each sandbox (sandboxes/ID/row) and for each snapshot (snapshots/ID) lies a record of
// its rows (store/keep.h), written behind the next checkpoint when they changed; and once a day state.db is copied. A skepd that
// finds no state.db, or a damaged one, begins with the copy and then reads the records, which are newer.
//
//   changed ──keep_mark──▶ unkept ──checkpoint──▶ record written, synced in the background
//
// A `run` that is over within seconds is never written down: only its journal stays.
#include "engine/snap_int.h"

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define AT_ONCE 100 // records written in one round: others wait for their answers meanwhile
#define TICK_MS 20  // the kernel stamps files with the time of its last tick
#define STEP_MS 5   // between two parts of the backup

// --- writing ---

void keep_mark(struct engine *g, const char *id)
{
	struct box *b = box_by_id(g, id);
	if (b)
		b->unkept = true;
}

static uint64_t digest_of(const struct buf *b)
{
	uint64_t h = 0xcbf29ce484222325ull;
	for (size_t i = 0; i < b->n; i++)
		h = (h ^ (uint8_t)b->p[i]) * 0x100000001b3ull;
	return h | 1;
}

// Without a wait for the disk: the sync that follows takes care of it.
static int record_put(int dir, const char *path, const struct buf *b, struct err *e)
{
	auto_free char *partial = xasprintf("%s.partial", path);
	if (fs_write(dir, partial, b->p, b->n, 0600, e))
		return -1;
	return renameat(dir, partial, dir, path) ? err_sys(e, "rename %s", partial) : 0;
}

static void box_keep(struct box *b)
{
	struct err e;
	struct engine *g = b->g;
	auto_buf struct buf record = BUF_INIT(STORE_RECORD_MAX);
	auto_free char *path = xasprintf("%s/row", b->row.id), *dir = xasprintf("sandboxes/%s", b->row.id);
	b->unkept = false;
	if (!fs_exists(g->sandboxes, b->row.id) || store_record_write(g->store, STORE_SANDBOX, b->row.id, &record, &e))
		return; // on its way in or out
	uint64_t digest = digest_of(&record);
	if (digest == b->kept)
		return;
	if (record_put(g->sandboxes, path, &record, &e)) {
		log_line(LOG_WARN, "sandbox=%s what is known of it is kept in state.db only: %s", b->row.id, e.msg);
		return;
	}
	b->kept = digest;
	sync_journal(g, dir);
}

static void snap_keep(struct engine *g, struct snap *n)
{
	struct err e;
	auto_buf struct buf record = BUF_INIT(STORE_RECORD_MAX);
	auto_free char *path = xasprintf("snapshots/%s", n->row.id);
	n->kept = true;
	if (store_record_write(g->store, STORE_SNAPSHOT, n->row.id, &record, &e) || record_put(g->home_fd, path, &record, &e))
		log_line(LOG_WARN, "snapshot=%s what is known of it is kept in state.db only: %s", n->row.id, e.msg);
	else
		g->snaps_unsynced = true;
}

void keep_snap_gone(struct engine *g, const char *id)
{
	auto_free char *path = xasprintf("snapshots/%s", id);
	unlinkat(g->home_fd, path, 0);
}

static void on_backup(struct timer *t)
{
	struct engine *g = container_of(t, struct engine, backup);
	struct err e;
	int rc = store_backup_step(g->store, &e);
	if (rc > 0)
		timer_set(g->loop, &g->backup, STEP_MS);
	else if (rc)
		log_line(LOG_WARN, "%s", e.msg);
	else
		sync_wrote(g);
}

bool keep_write(struct engine *g)
{
	unsigned n = 0;
	bool more = false;
	for (struct box *b = g->boxes; b && !more; b = b->next) {
		if (!b->unkept)
			continue;
		more = n++ == AT_ONCE;
		if (!more)
			box_keep(b);
	}
	for (struct snap *s = g->snaps; s && !more; s = s->next) {
		if (s->kept)
			continue;
		more = n++ == AT_ONCE;
		if (!more)
			snap_keep(g, s);
	}
	if (n)
		sync_wrote(g);
	g->backup.fn = on_backup;
	if (!g->backup.at_ms && store_backup_is_due(g->store))
		timer_set(g->loop, &g->backup, STEP_MS);
	return more;
}

// What was kept by the skepd before is not written again.
void keep_loaded(struct engine *g)
{
	for (struct box *b = g->boxes; b; b = b->next) {
		auto_free char *path = xasprintf("%s/row", b->row.id);
		b->unkept = !fs_exists(g->sandboxes, path);
	}
	for (struct snap *s = g->snaps; s; s = s->next) {
		auto_free char *path = xasprintf("snapshots/%s", s->row.id);
		s->kept = fs_exists(g->home_fd, path);
	}
}

// --- reading ---

bool keep_is_older(const struct engine *g, int dir, const char *name)
{
	struct stat st;
	uint64_t anew = store_anew(g->store);
	if (!anew || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return false;
	return (uint64_t)st.st_ctim.tv_sec * 1000 + (uint64_t)st.st_ctim.tv_nsec / 1000000 + TICK_MS < anew;
}

static bool record_take(struct engine *g, enum store_thing what, int dir, const char *path, const char *id)
{
	struct err e;
	auto_buf struct buf record = BUF_INIT(STORE_RECORD_MAX);
	auto_fd int fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	if (!fs_read_fd(fd, &record, &e) && !store_record_read(g->store, what, id, &record, &e))
		return true;
	log_line(LOG_ERROR, "%s: %s", path, e.msg);
	return false;
}

// How many there are, and how many could be read.
static void take_all(struct engine *g, enum store_thing what, const char *dir, const char *below, unsigned counts[2])
{
	auto_fd int at = openat(g->home_fd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd = at < 0 ? -1 : dup(at);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	while (d && (ent = readdir(d))) {
		auto_free char *path = xasprintf("%s%s", ent->d_name, below);
		if (!id_is(ent->d_name))
			continue;
		counts[0]++;
		counts[1] += record_take(g, what, at, path, ent->d_name);
	}
	if (d)
		closedir(d);
	else
		close_fd(&fd);
}

void keep_restore(struct engine *g)
{
	enum store_lost lost = store_lost(g->store);
	unsigned boxes[2] = {0}, snaps[2] = {0};
	if (lost == STORE_FOUND)
		return;
	take_all(g, STORE_SANDBOX, "sandboxes", "/row", boxes);
	take_all(g, STORE_SNAPSHOT, "snapshots", "", snaps);
	if (boxes[0] || snaps[0] || lost == STORE_FROM_BACKUP)
		log_line(LOG_ERROR, "state.db was lost: %s, %u of %u sandboxes and %u of %u snapshots were rebuilt from what lies beside them; gc "
			 "removes nothing that is older", lost == STORE_FROM_BACKUP ? "the last backup was taken" : "there is no backup",
			 boxes[1], boxes[0], snaps[1], snaps[0]);
}
