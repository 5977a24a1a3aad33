// SPDX-License-Identifier: Apache-2.0
// A volume is a row, the directory volumes/ID, and beside it volumes/ID.txt with what the row says, from which a row that was lost
// is made anew.
//
//   made     mkdir volumes/ID, ID.txt, row
//   removed  rename to volumes/.gone-ID, row, then the directory in the background (gc finds what is left)
//
// Work on files is the nursery's: skepd opens nothing below a volume. At most WORK_MAX requests are with it at once, for each
// may carry a descriptor over one channel. Volumes are counted a moment after a write through skepd, and every minute while a
// live cell has them.
#include "engine/volume.h"
#include "engine/net_int.h"
#include "engine/snap_int.h"
#include "engine/volume_int.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VOLUMES_MAX 10000
#define WORK_MAX 8
#define COUNT_MS 1000
#define COUNT_LIVE_MS 60000
#define GONE ".gone-"

struct volume {
	struct volume_row row;
	uint64_t bytes;
	bool counted, stale;
	struct volume *next;
};

struct volume_work {
	struct engine *g;
	struct volume_op op;
	int body;
	struct volume_reply reply;
	struct volume_work *next;
};

struct volumes {
	struct engine *g;
	struct volume *list; // oldest first
	size_t n;
	struct volume_work *waiting;
	unsigned under_way;
	bool counting;
	struct timer count;
};

// --- rows ---

static struct volume *volume_by_id(const struct engine *g, const char *id)
{
	struct volume *v = g->volumes->list;
	while (v && strcmp(v->row.id, id))
		v = v->next;
	return v;
}

static struct volume *volume_append(struct engine *g, struct volume_row *taken)
{
	struct volume **end = &g->volumes->list, *v = xcalloc(1, sizeof *v);
	while (*end)
		end = &(*end)->next;
	v->row = *taken;
	v->stale = true;
	*taken = (struct volume_row){0};
	*end = v;
	g->volumes->n++;
	return v;
}

static void volume_load_row(void *ctx, struct volume_row *taken)
{
	struct engine *g = ctx;
	struct err e;
	auto_free char *gone = xasprintf("volumes/" GONE "%s", taken->id);
	if (!fs_exists(g->home_fd, gone)) {
		volume_append(g, taken);
		return;
	}
	if (store_volume_drop(g->store, taken->id, &e)) // its removal was cut off
		log_line(LOG_ERROR, "%s", e.msg);
	volume_row_done(taken);
}

// "CREATED OWNER\nNAME\n"
static int volume_write_label(struct engine *g, const struct volume_row *v, struct err *e)
{
	auto_free char *path = xasprintf("volumes/%s.txt", v->id);
	auto_free char *text = xasprintf("%llu %s\n%s\n", (unsigned long long)v->created, v->owner, v->name);
	return fs_replace(g->home_fd, path, text, strlen(text), 0600, e);
}

static void volume_read_label(struct engine *g, struct volume_row *v)
{
	struct err e;
	struct str rest, first = {0}, name = {0}, number = {0};
	auto_free char *path = xasprintf("volumes/%s.txt", v->id);
	auto_buf struct buf text = BUF_INIT(8192);
	if (fs_read(g->home_fd, path, &text, &e))
		buf_clear(&text);
	rest = str_of(buf_cstr(&text));
	str_next(&rest, '\n', &first);
	str_next(&rest, '\n', &name);
	str_next(&first, ' ', &number);
	if (str_to_u64(number, 0, INT64_MAX, &v->created))
		v->created = clock_unix_ms();
	v->owner = first.p ? xstrndup(first.p, first.n) : xstrdup("");
	v->name = name.n ? xstrndup(name.p, name.n) : xstrdup("");
	if (!volume_name_is(v->name)) {
		free(v->name);
		v->name = xasprintf("found-%s", v->id);
	}
}

// A directory without a row: the database was lost or made anew. Its files are somebody's work.
static void volume_recover(struct engine *g, const char *id)
{
	struct err e;
	struct volume_row v = {0};
	if (fmt_to(v.id, sizeof v.id, "%s", id))
		return;
	volume_read_label(g, &v);
	if (store_volume_add(g->store, &v, &e)) {
		log_line(LOG_ERROR, "volume=%s has no row and can get none: %s", id, e.msg);
		volume_row_done(&v);
		return;
	}
	log_line(LOG_WARN, "volume=%s (%s) had no row: made anew from its directory", id, v.name);
	volume_append(g, &v);
}

static void volume_find_lost(struct engine *g)
{
	int fd = openat(g->home_fd, "volumes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *ent;
	while (d && (ent = readdir(d)))
		if (id_is(ent->d_name) && ent->d_name[0] == 'v' && !volume_by_id(g, ent->d_name))
			volume_recover(g, ent->d_name);
	if (d)
		closedir(d);
}

static void volume_on_count(struct timer *t);

int volumes_load(struct engine *g, struct err *e)
{
	g->volumes = xcalloc(1, sizeof *g->volumes);
	g->volumes->g = g;
	g->volumes->count.fn = volume_on_count;
	if (fs_mkdirs(g->home_fd, "volumes", 0700, e) || store_volumes(g->store, volume_load_row, g, e))
		return -1;
	volume_find_lost(g);
	if (g->volumes->list)
		timer_set(g->loop, &g->volumes->count, COUNT_MS);
	return 0;
}

static void volume_work_free(struct volume_work *w)
{
	volume_op_done(&w->op);
	close_fd(&w->body);
	free(w);
}

void volumes_free(struct engine *g)
{
	struct volumes *all = g->volumes;
	if (!all)
		return;
	timer_clear(g->loop, &all->count);
	while (all->waiting) {
		struct volume_work *w = all->waiting;
		all->waiting = w->next;
		volume_work_free(w);
	}
	while (all->list) {
		struct volume *v = all->list;
		all->list = v->next;
		volume_row_done(&v->row);
		free(v);
	}
	free(all);
	g->volumes = NULL;
}

// --- finding ---

static bool volume_is_seen(const struct volume *v, const char *viewer)
{
	return !viewer || !strcmp(v->row.owner, viewer);
}

const struct volume_row *engine_volume_find(struct engine *g, const char *viewer, const char *word, struct err *e)
{
	const struct volume *found = NULL;
	for (const struct volume *v = g->volumes->list; v; v = v->next) {
		if (!volume_is_seen(v, viewer))
			continue;
		if (!strcmp(v->row.id, word))
			return &v->row;
		bool named = !strcmp(v->row.name, word);
		if (named && (!found || !*v->row.owner)) // who sees all means what has no owner first
			found = v;
	}
	if (found)
		return &found->row;
	err_set(e, ERR_NOT_FOUND, "no volume %.80s (skep volume ls lists them, skep volume create makes one)", word);
	return NULL;
}

void engine_volumes(struct engine *g, const char *viewer, void (*each)(void *ctx, const struct volume_row *v), void *ctx)
{
	for (const struct volume *v = g->volumes->list; v; v = v->next)
		if (volume_is_seen(v, viewer))
			each(ctx, &v->row);
}

static bool volume_is_of(const struct sandbox *s, const char *id)
{
	for (uint32_t i = 0; i < s->n_mounts; i++)
		if (s->mounts[i].volume && !strcmp(s->mounts[i].src, id))
			return true;
	return false;
}

char **engine_volume_users(struct engine *g, const char *id)
{
	char **out = xcalloc(1, sizeof *out);
	for (struct box *b = g->boxes; b; b = b->next)
		if (volume_is_of(&b->row, id))
			strv_add(&out, b->row.id);
	return out;
}

uint64_t engine_volume_bytes(struct engine *g, const char *id, bool *known)
{
	const struct volume *v = volume_by_id(g, id);
	*known = v && v->counted;
	return v ? v->bytes : 0;
}

uint64_t volumes_bytes(const struct engine *g)
{
	uint64_t sum = 0;
	for (const struct volume *v = g->volumes->list; v; v = v->next)
		sum += v->bytes;
	return sum;
}

int engine_volume_token(struct engine *g, const char *id, char out[VOLUME_TOKEN_SIZE], struct err *e)
{
	auto_free char *text = xasprintf("token of volume %s", id);
	char digits[65];
	if (engine_mac(g, text, digits, e))
		return -1;
	return fmt_to(out, VOLUME_TOKEN_SIZE, "vol_%s", digits) ? err_set(e, ERR_BUG, "token of a volume") : 0;
}

// --- making and removing ---

// Its top is open to every user inside; what is above it is closed to every other user of the machine.
static int volume_make_dir(struct engine *g, const char *id, struct err *e)
{
	auto_free char *path = xasprintf("volumes/%s", id);
	if (mkdirat(g->home_fd, path, 0700))
		return err_sys(e, "make the directory of a volume");
	auto_fd int fd = fs_open(g->home_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	return fd < 0 || fchmod(fd, 0777) ? err_sys(e, "open up the directory of a volume") : 0;
}

static void volume_drop_dir(struct engine *g, const char *id)
{
	auto_free char *label = xasprintf("volumes/%s.txt", id), *gone = xasprintf("volumes/" GONE "%s", id);
	char *dirs[] = {gone, NULL};
	unlinkat(g->home_fd, label, 0);
	engine_discard(g, dirs);
}

static int volume_check_new(struct engine *g, const char *owner, const char *name, struct err *e)
{
	if (!volume_name_is(name))
		return err_set(e, ERR_INVALID, "\"%.80s\" can not name a volume: 1 to %d of A-Z a-z 0-9 - _, not starting with -, and not like an id",
			       name, VOLUME_NAME_MAX);
	for (const struct volume *v = g->volumes->list; v; v = v->next)
		if (!strcmp(v->row.owner, owner) && !strcmp(v->row.name, name))
			return err_set(e, ERR_CONFLICT, "a volume named %s exists: choose another name or `skep volume rm %s`", name, name);
	if (g->volumes->n >= VOLUMES_MAX)
		return err_set(e, ERR_LIMIT, "there are %d volumes: remove some (skep volume rm)", VOLUMES_MAX);
	return budget_read(g, e) || budget_check(g, e) ? -1 : 0;
}

const struct volume_row *engine_volume_new(struct engine *g, const char *viewer, const char *name, struct err *e)
{
	const char *owner = viewer ? viewer : "";
	struct volume_row row = {.created = clock_unix_ms()};
	if (volume_check_new(g, owner, name, e))
		return NULL;
	id_make('v', row.id);
	row.name = xstrdup(name);
	row.owner = xstrdup(owner);
	if (volume_make_dir(g, row.id, e) || volume_write_label(g, &row, e) || store_volume_add(g->store, &row, e) ||
	    store_flush(g->store, e)) {
		auto_free char *path = xasprintf("volumes/%s", row.id), *label = xasprintf("volumes/%s.txt", row.id);
		unlinkat(g->home_fd, path, AT_REMOVEDIR);
		unlinkat(g->home_fd, label, 0);
		volume_row_done(&row);
		return NULL;
	}
	engine_wrote(g);
	return &volume_append(g, &row)->row;
}

static int volume_check_unused(struct engine *g, const struct volume *v, struct err *e)
{
	char **users = engine_volume_users(g, v->row.id);
	size_t n = strv_len(users);
	if (n)
		err_set(e, ERR_CONFLICT, "volume %s is in use by sandbox %s%s: remove %s first (skep rm)", v->row.name, users[0],
			n > 1 ? " and others" : "", n > 1 ? "those" : "that one");
	strv_free(users);
	return n ? -1 : 0;
}

static int volume_drop(struct engine *g, struct volume *v, struct err *e)
{
	auto_free char *from = xasprintf("volumes/%s", v->row.id), *to = xasprintf("volumes/" GONE "%s", v->row.id);
	if (renameat(g->home_fd, from, g->home_fd, to) && errno != ENOENT)
		return err_sys(e, "remove volume %s", v->row.name);
	if (!store_volume_drop(g->store, v->row.id, e) && !store_flush(g->store, e))
		return 0;
	if (renameat(g->home_fd, to, g->home_fd, from))
		log_line(LOG_ERROR, "volume=%s stays aside as %s", v->row.id, to);
	return -1;
}

void engine_volume_remove(struct engine *g, const char *id, struct done d)
{
	struct err e;
	struct volume *v = volume_by_id(g, id);
	if (!v)
		err_set(&e, ERR_NOT_FOUND, "no volume %.40s", id);
	if (!v || volume_check_unused(g, v, &e) || volume_drop(g, v, &e)) {
		task_refuse(d, &e);
		return;
	}
	engine_wrote(g);
	volume_drop_dir(g, v->row.id);
	list_unlink(&g->volumes->list, v, next);
	g->volumes->n--;
	volume_row_done(&v->row);
	free(v);
	d.fn(d.ctx, NULL, &(struct outcome){0});
}

// --- work ---

static void volume_next_work(struct engine *g);

static bool volume_verb_writes(enum volume_verb verb)
{
	return verb == VOLUME_PUT || verb == VOLUME_REMOVE || verb == VOLUME_MKDIR;
}

static void volume_on_work(void *ctx, const struct err *e, int fd)
{
	struct volume_work *w = ctx;
	struct engine *g = w->g;
	struct volume *v = volume_by_id(g, w->op.volume);
	if (v && volume_verb_writes(w->op.verb)) {
		v->stale = true;
		if (!g->volumes->counting)
			timer_set(g->loop, &g->volumes->count, COUNT_MS);
	}
	g->volumes->under_way--;
	w->reply.fn(w->reply.ctx, e, fd);
	volume_work_free(w);
	volume_next_work(g);
}

static void volume_next_work(struct engine *g)
{
	struct volumes *all = g->volumes;
	while (all->waiting && all->under_way < WORK_MAX) {
		struct volume_work *w = all->waiting;
		all->waiting = w->next;
		all->under_way++;
		g->backend->ops->volume(g->backend, &w->op, w->body, (struct volume_reply){volume_on_work, w});
	}
}

void engine_volume_work(struct engine *g, const struct volume_op *op, int body, struct volume_reply r)
{
	struct volume_work **end = &g->volumes->waiting, *w = xcalloc(1, sizeof *w);
	*w = (struct volume_work){.g = g, .op = *op, .reply = r};
	w->op.path = xstrdup(op->path ? op->path : "");
	w->body = body >= 0 ? fcntl(body, F_DUPFD_CLOEXEC, 3) : -1;
	while (*end)
		end = &(*end)->next;
	*end = w;
	volume_next_work(g);
}

// --- counting ---

struct volume_count {
	struct engine *g;
	char id[ID_SIZE];
};

static void volume_on_counted(void *ctx, const struct err *e, int fd)
{
	struct volume_count *c = ctx;
	struct volume *v = volume_by_id(c->g, c->id);
	struct err bad;
	auto_buf struct buf text = BUF_INIT(4096);
	if (e)
		log_line(LOG_WARN, "volume=%s not counted: %s", c->id, e->msg);
	auto_json json_t *j = e || fs_read_fd(fd, &text, &bad) ? NULL : json_read(text.p, text.n, &bad);
	if (v && j) {
		v->bytes = json_u64(j, "bytes");
		v->counted = true;
	}
	c->g->volumes->counting = false;
	timer_set(c->g->loop, &c->g->volumes->count, 0);
	free(c);
}

// Those that a live cell writes to change without a word to us.
static void volume_count_later(struct engine *g)
{
	bool live = false;
	for (struct box *b = g->boxes; b; b = b->next)
		for (uint32_t i = 0; b->cell && i < b->row.n_mounts; i++) {
			struct volume *v = b->row.mounts[i].volume ? volume_by_id(g, b->row.mounts[i].src) : NULL;
			if (!v)
				continue;
			v->stale = live = true;
		}
	if (live)
		timer_set(g->loop, &g->volumes->count, COUNT_LIVE_MS);
}

static void volume_on_count(struct timer *t)
{
	struct engine *g = container_of(t, struct volumes, count)->g;
	struct volume *v = g->volumes->list;
	while (v && !v->stale)
		v = v->next;
	if (!v) {
		volume_count_later(g);
		return;
	}
	struct volume_count *c = xcalloc(1, sizeof *c);
	c->g = g;
	memcpy(c->id, v->row.id, sizeof c->id);
	v->stale = false;
	g->volumes->counting = true;
	struct volume_op op = {.verb = VOLUME_SIZE, .path = NULL};
	memcpy(op.volume, v->row.id, sizeof op.volume);
	engine_volume_work(g, &op, -1, (struct volume_reply){volume_on_counted, c});
}

void volumes_moved(const struct box *b)
{
	bool has = false;
	for (uint32_t i = 0; i < b->row.n_mounts; i++) {
		struct volume *v = b->row.mounts[i].volume ? volume_by_id(b->g, b->row.mounts[i].src) : NULL;
		if (!v)
			continue;
		v->stale = has = true;
	}
	if (has && !b->g->volumes->counting)
		timer_set(b->g->loop, &b->g->volumes->count, COUNT_MS);
}

// --- in a sandbox ---

static int volume_check_place(const struct sandbox *row, const char *dst, struct err *e)
{
	const char *home = home_inside(row);
	if (!mount_place_is_fit(dst))
		return err_set(e, ERR_INVALID, "volume: %.200s can not be a place inside", dst);
	if (path_is_below(dst, row->ws_path) || path_is_below(row->ws_path, dst) || path_is_below(home, dst))
		return err_set(e, ERR_INVALID, "volume: %.200s covers the workspace or home, or lies in the workspace: choose a place beside them, /data for one", dst);
	return 0;
}

static void volume_mount_replace(struct sandbox *row, struct cell_mount m)
{
	for (uint32_t i = 0; i < row->n_mounts; i++) {
		if (strcmp(row->mounts[i].dst, m.dst))
			continue;
		free(row->mounts[i].src);
		free(row->mounts[i].dst);
		row->mounts[i] = m;
		return;
	}
	row->mounts = xrealloc(row->mounts, (row->n_mounts + 1) * sizeof *row->mounts);
	row->mounts[row->n_mounts++] = m;
}

int volumes_apply(struct engine *g, const struct create *c, struct sandbox *row, struct err *e)
{
	for (char *const *text = c->volumes; text && *text; text++) {
		struct volume_wish w;
		if (volume_wish_parse(*text, &w, e))
			return -1;
		const struct volume_row *v = engine_volume_find(g, c->volume_viewer, w.name, e);
		bool fits = v && !volume_check_place(row, w.dst, e);
		if (fits && row->n_mounts >= LIMIT_MOUNTS)
			fits = !err_set(e, ERR_LIMIT, "more than %d mounts and volumes", LIMIT_MOUNTS);
		if (fits)
			volume_mount_replace(row, (struct cell_mount){.src = xstrdup(v->id), .dst = xstrdup(w.dst), .writable = w.writable, .volume = true});
		volume_wish_done(&w);
		if (!fits)
			return -1;
	}
	return 0;
}

bool volume_mount_resolve(struct engine *g, const struct cell_mount *m, struct cell_mount *out)
{
	const struct volume *v = volume_by_id(g, m->src);
	auto_free char *path = xasprintf("volumes/%s", m->src);
	if (!v || !fs_exists(g->home_fd, path))
		return false;
	*out = (struct cell_mount){.src = xasprintf("%s/%s", g->skep_home, path), .dst = xstrdup(m->dst), .writable = m->writable, .volume = true};
	return true;
}
