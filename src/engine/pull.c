// SPDX-License-Identifier: Apache-2.0
// Images by name. One pull per reference at a time, however many ask:
//
//              skep-pull fills pulls/KEY       skep-image unpacks it            rename, remove
//   FETCHING ─────────────────────────▶ IMPORTING ─────────────────▶ CLEARING ───────────▶ answered
//      │ the network, the disk: pulls/KEY stays, and the next pull goes on there ─────────▶ answered
//      └ wrong content, no such image ──────────────────────────────▶ CLEARING
//
// KEY is a hash of the canonical reference. skepd alone makes and removes these directories, in one thread: a directory
// that goes is renamed first (pulls/.gone-…), in the same step in which its pull gives up the key. A pull that begins in
// that moment makes a new one, and nothing that is still being removed is in its way. skep-pull has ended, and with it
// every transfer, before its directory is touched.
//
// When the last client has gone, the child is killed; what came in is kept.
#include "engine/child.h"
#include "engine/net_int.h"
#include "engine/pull_int.h"
#include "engine/snap_int.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/seal.h"
#include "base/sha256.h"
#include "base/str.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_CHARS 32
#define PULLS_MAX 16
#define PULL_OUT_MAX (8u << 20)
#define PULL_KEPT_MS (24ULL * 3600 * 1000)

enum pull_phase { PULL_FETCHING, PULL_IMPORTING, PULL_CLEARING };

struct pull_client {
	struct pull *pull;
	struct pull_watch watch;
	struct done done;
	bool gone;
	struct pull_client *next;
};

struct pull {
	struct engine *g;
	enum pull_phase phase;
	char key[KEY_CHARS + 1];
	struct image_row row; // source: the canonical reference
	char *hint;
	struct child *child;
	struct import *import;
	struct pull_progress progress;
	struct pull_client *clients;
	struct err why; // kind ERR_NONE = it went well
	struct pull *next;
};

static void pull_free(struct pull *p)
{
	while (p->clients) {
		struct pull_client *c = p->clients;
		p->clients = c->next;
		free(c);
	}
	image_row_done(&p->row);
	free(p->hint);
	free(p);
}

void pulls_free(struct engine *g)
{
	while (g->pulls) {
		struct pull *p = g->pulls;
		g->pulls = p->next;
		pull_free(p);
	}
}

// --- directories ---

static void pull_key(const char *ref, char out[KEY_CHARS + 1])
{
	char hex[SHA256_HEX];
	sha256_hex(ref, strlen(ref), hex);
	memcpy(out, hex, KEY_CHARS);
	out[KEY_CHARS] = 0;
}

static struct pull *pull_by_key(const struct engine *g, const char *key)
{
	for (struct pull *p = g->pulls; p; p = p->next)
		if (p->phase != PULL_CLEARING && !strcmp(p->key, key))
			return p;
	return NULL;
}

// Bytes of blobs and of their parts.
static uint64_t pull_dir_bytes(const struct engine *g, const char *key)
{
	auto_free char *path = xasprintf("pulls/%s/blobs/sha256", key);
	int fd = openat(g->home_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *ent;
	struct stat st;
	uint64_t sum = 0;
	while (d && (ent = readdir(d)))
		if (!fstatat(fd, ent->d_name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode))
			sum += (uint64_t)st.st_blocks * 512;
	if (d)
		closedir(d);
	return sum;
}

static void pulls_each(struct engine *g, void (*fn)(struct engine *g, const char *name))
{
	int fd = openat(g->home_fd, "pulls", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	char **names = NULL;
	struct dirent *ent;
	while (d && (ent = readdir(d)))
		if (strlen(ent->d_name) == KEY_CHARS && !pull_by_key(g, ent->d_name))
			strv_add(&names, ent->d_name);
	if (d)
		closedir(d);
	for (char **n = names; n && *n; n++)
		fn(g, *n);
	strv_free(names);
}

static void pull_measure(struct engine *g, const char *name)
{
	g->pulls_kept += pull_dir_bytes(g, name);
}

void pulls_measure(struct engine *g)
{
	g->pulls_kept = 0;
	pulls_each(g, pull_measure);
}

uint64_t pulls_bytes(const struct engine *g)
{
	uint64_t sum = g->pulls_kept;
	for (const struct pull *p = g->pulls; p; p = p->next)
		sum += p->progress.total;
	return sum;
}

// The name under which it waits to be removed, below SKEP_HOME. Owned; NULL: it was not there.
static char *pull_dir_take(struct engine *g, const char *key)
{
	char id[ID_SIZE];
	id_make('p', id);
	auto_free char *from = xasprintf("pulls/%s", key), *to = xasprintf("pulls/.gone-%s", id);
	return renameat(g->home_fd, from, g->home_fd, to) ? NULL : take(&to);
}

static void pull_evict(struct engine *g, const char *name)
{
	auto_free char *path = pull_dir_take(g, name);
	char *dirs[] = {path, NULL};
	if (path) {
		log_line(LOG_INFO, "pulls/%s goes: the disk budget is used up", name);
		engine_discard(g, dirs);
	}
}

void pulls_evict(struct engine *g)
{
	pulls_each(g, pull_evict);
	g->pulls_kept = 0;
}

const char *pulls_forgotten(struct engine *g, const char *name, bool dry_run, char **out_path)
{
	struct stat st;
	auto_free char *path = xasprintf("pulls/%s", name);
	if (str_has_prefix(name, ".gone-")) {
		for (const struct pull *p = g->pulls; p; p = p->next)
			if (p->phase == PULL_CLEARING)
				return NULL; // it may be this one's
		*out_path = take(&path);
		return "of a pull that ended";
	}
	if (pull_by_key(g, name) || fstatat(g->home_fd, path, &st, AT_SYMLINK_NOFOLLOW))
		return NULL;
	if ((uint64_t)st.st_mtim.tv_sec * 1000 + PULL_KEPT_MS > clock_unix_ms())
		return NULL;
	*out_path = dry_run ? take(&path) : pull_dir_take(g, name);
	return *out_path ? "a pull that did not end, and that nobody took up for a day" : NULL;
}

// --- its end ---

static void pull_answer(struct pull *p)
{
	struct pull_client *c;
	while ((c = p->clients)) {
		p->clients = c->next;
		if (p->why.kind)
			c->done.fn(c->done.ctx, &p->why, NULL);
		else
			c->done.fn(c->done.ctx, NULL, &(struct outcome){.image = &p->row});
		free(c);
	}
	pull_free(p);
}

static void on_cleared(void *ctx, const struct err *e)
{
	struct pull *p = ctx;
	if (e)
		log_line(LOG_WARN, "a pull's directory is left for gc: %s", e->msg);
	list_unlink(&p->g->pulls, p, next);
	pull_answer(p);
}

static void pull_clear(struct pull *p)
{
	struct engine *g = p->g;
	auto_free char *path = pull_dir_take(g, p->key);
	char *dirs[] = {path, NULL};
	p->phase = PULL_CLEARING;
	p->progress.total = 0;
	if (path)
		g->backend->ops->remove(g->backend, dirs, (struct reply){on_cleared, p});
	else
		on_cleared(p, NULL);
}

static void pull_leave(struct pull *p)
{
	struct engine *g = p->g;
	auto_free char *path = xasprintf("pulls/%s", p->key);
	utimensat(g->home_fd, path, NULL, AT_SYMLINK_NOFOLLOW); // from when gc counts
	list_unlink(&g->pulls, p, next);
	pulls_measure(g);
	pull_answer(p);
}

// What stays is worth being continued: the content was right as far as it came.
static bool pull_may_continue(const struct pull *p)
{
	switch (p->why.kind) {
	case ERR_UNAVAILABLE:
	case ERR_TIMEOUT:
	case ERR_LIMIT:
	case ERR_SYSTEM:
	case ERR_CONFLICT:
		return pull_dir_bytes(p->g, p->key) > 0;
	default:
		return false;
	}
}

static bool pull_has_clients(const struct pull *p)
{
	for (const struct pull_client *c = p->clients; c; c = c->next)
		if (!c->gone)
			return true;
	return false;
}

static void pull_fail(struct pull *p, const struct err *e)
{
	p->why = *e;
	if (!pull_has_clients(p))
		err_set(&p->why, ERR_UNAVAILABLE, "the pull was given up: the next one of the same image goes on where it was");
	if (p->why.kind == ERR_DENIED && p->hint)
		err_set(&p->why, ERR_DENIED, "%s (%s)", p->hint, e->msg);
	if ((p->phase == PULL_FETCHING || !pull_has_clients(p)) && pull_may_continue(p))
		pull_leave(p);
	else
		pull_clear(p);
}

// --- the child's end, and the import ---

static void pull_imported(void *ctx, const struct err *e, const struct outcome *o)
{
	struct pull *p = ctx;
	p->import = NULL;
	if (e) {
		pull_fail(p, e);
		return;
	}
	image_row_copy(o->image, &p->row);
	pull_clear(p);
}

struct pull_match {
	const char *ref, *digest;
	struct image_row *out;
};

static void pull_match_row(void *ctx, const struct image_row *i)
{
	struct pull_match *m = ctx;
	if (!m->out->id[0] && i->digest && !strcmp(i->digest, m->digest) && !strcmp(i->source, m->ref))
		image_row_copy(i, m->out);
}

// The image is here: the registry's answer is that nothing has changed.
static int pull_found(struct pull *p, const char *digest, struct err *e)
{
	struct image_row found = {0};
	struct pull_match m = {p->row.source, digest, &found};
	if (store_images(p->g->store, pull_match_row, &m, e))
		return -1;
	if (!found.id[0])
		return err_set(e, ERR_CONFLICT, "the image was removed meanwhile: pull it again");
	if (p->row.name && !found.name) {
		found.name = xstrdup(p->row.name);
		engine_wrote(p->g);
		if (store_image_drop(p->g->store, found.id, e) || store_image_add(p->g->store, &found, e)) {
			image_row_done(&found);
			return -1;
		}
	}
	image_row_copy(&found, &p->row);
	image_row_done(&found);
	return 0;
}

static int pull_import(struct pull *p, const json_t *o, struct err *e)
{
	auto_free char *from = xasprintf("%s/pulls/%s", p->g->skep_home, p->key);
	auto_buf struct buf config = BUF_INIT(PULL_OUT_MAX);
	struct image_row row = {0};
	if (json_is_object(json_object_get(o, "config")))
		json_print(&config, json_object_get(o, "config"), 0);
	p->row.digest = xstrdup(json_str(o, "digest"));
	p->row.config = xstrdup(buf_cstr(&config));
	image_row_copy(&p->row, &row);
	p->phase = PULL_IMPORTING;
	p->import = image_import_begin(p->g, from, &row, (struct done){pull_imported, p}, e);
	image_row_done(&row);
	return p->import ? 0 : -1;
}

static void pull_say(struct pull *p)
{
	p->progress.importing = p->phase == PULL_IMPORTING;
	for (struct pull_client *c = p->clients, *next; c; c = next) {
		next = c->next;
		if (!c->gone && c->watch.progress)
			c->watch.progress(c->watch.ctx, &p->progress);
	}
}

static void on_pulled(void *ctx, const struct child_end *end)
{
	struct pull *p = ctx;
	struct err e;
	auto_json json_t *o = child_json(end, "skep-pull", &e);
	p->child = NULL;
	if (!o || !pull_has_clients(p)) {
		if (o)
			err_set(&e, ERR_UNAVAILABLE, "given up");
		pull_fail(p, &e);
	} else if (json_is_true(json_object_get(o, "have"))) {
		if (pull_found(p, json_str(o, "digest"), &e))
			pull_fail(p, &e);
		else
			pull_clear(p);
	} else if (pull_import(p, o, &e)) {
		pull_fail(p, &e);
	} else {
		pull_say(p);
	}
}

// Whole lines of progress are taken out of what the child said; the rest is its result.
static void on_pull_said(void *ctx, struct buf *out)
{
	struct pull *p = ctx;
	const char *end;
	bool news = false;
	while (out->n && (end = memchr(out->p, '\n', out->n))) {
		struct err ignored;
		size_t n = (size_t)(end - out->p) + 1;
		auto_json json_t *o = json_read(out->p, n, &ignored);
		const json_t *is = o ? json_object_get(o, "progress") : NULL;
		if (!is)
			return;
		p->progress.bytes = json_u64(is, "bytes");
		p->progress.total = json_u64(is, "total");
		p->progress.layers = (uint32_t)json_u64(is, "layers");
		p->progress.layers_done = (uint32_t)json_u64(is, "layers_done");
		buf_cut(out, n);
		news = true;
	}
	if (news)
		pull_say(p);
}

// --- its beginning ---

struct pull_have {
	const char *ref;
	char **digests;
};

static void pull_have_row(void *ctx, const struct image_row *i)
{
	struct pull_have *m = ctx;
	if (i->digest && !strcmp(i->source, m->ref))
		strv_add(&m->digests, i->digest);
}

static int pull_job_write(struct pull *p, const struct pull_wish *w, const struct image_ref *ref, struct buf *out, struct err *e)
{
	char *const *mirrors, *const *insecure;
	const char *ca_file;
	struct image_endpoint at;
	struct pull_login login;
	char *none[] = {NULL};
	struct pull_have have = {p->row.source, NULL};
	struct jsonw j = {.b = out};
	if (config_images(p->g, &mirrors, &insecure, &ca_file, e) || store_images(p->g->store, pull_have_row, &have, e)) {
		strv_free(have.digests);
		return -1;
	}
	image_endpoint_of(ref, mirrors, insecure, &at);
	int rc = pull_login_find(p->g, w, &at, &login, e);
	if (!rc) {
		uint64_t used = p->g->budget ? budget_used(p->g) : 0;
		jw_open(&j, '{');
		jw_kstr(&j, "ref", p->row.source);
		jw_kstr(&j, "host", at.host);
		jw_kstr(&j, "prefix", at.prefix);
		jw_kbool(&j, "https", at.https);
		jw_kbool(&j, "http", at.http);
		jw_kstr(&j, "user", login.user);
		jw_kstr(&j, "password", login.password);
		jw_kstr(&j, "bearer", login.bearer);
		jw_kstr(&j, "ca_file", ca_file);
		jw_kstrv(&j, "have", have.digests ? have.digests : none);
		jw_ku64(&j, "room", p->g->budget > used ? p->g->budget - used : 0);
		jw_close(&j, '}');
		p->hint = take(&login.hint);
		pull_login_done(&login);
	}
	image_endpoint_done(&at);
	strv_free(have.digests);
	return rc;
}

static int pull_spawn(struct pull *p, const struct pull_wish *w, const struct image_ref *ref, struct err *e)
{
	auto_secret struct buf job = BUF_INIT(1u << 20);
	auto_free char *dir = xasprintf("pulls/%s", p->key), *into = xasprintf("%s/%s", p->g->skep_home, dir);
	char a0[] = "skep-pull", a1[] = "--into", *argv[] = {a0, a1, into, NULL};
	struct child_spec spec = {.program = "skep-pull", .argv = argv, .out_max = PULL_OUT_MAX, .in = &job, .said = on_pull_said};
	if (!buf_room(&job, 64 << 10) || pull_job_write(p, w, ref, &job, e) || fs_mkdirs(p->g->home_fd, dir, 0700, e))
		return -1;
	p->child = child_start(p->g, &spec, on_pulled, p, e);
	return p->child ? 0 : -1;
}

static struct pull_client *pull_join(struct pull *p, const struct pull_watch *watch, struct done d)
{
	struct pull_client *c = xcalloc(1, sizeof *c);
	*c = (struct pull_client){.pull = p, .done = d, .next = p->clients};
	if (watch)
		c->watch = *watch;
	p->clients = c;
	return c;
}

static struct pull *pull_begin(struct engine *g, const struct pull_wish *w, const struct image_ref *ref, const char *text, struct err *e)
{
	int n = 0;
	for (const struct pull *p = g->pulls; p; p = p->next)
		n++;
	if (n >= PULLS_MAX) {
		err_set(e, ERR_LIMIT, "%d pulls are under way: wait for one to end", n);
		return NULL;
	}
	if (budget_read(g, e) || budget_check(g, e))
		return NULL;
	struct pull *p = xcalloc(1, sizeof *p);
	p->g = g;
	p->row.source = xstrdup(text);
	p->row.name = w->name ? xstrdup(w->name) : NULL;
	pull_key(text, p->key);
	if (pull_spawn(p, w, ref, e)) {
		auto_free char *path = pull_dir_bytes(g, p->key) ? NULL : pull_dir_take(g, p->key);
		char *dirs[] = {path, NULL};
		if (path)
			engine_discard(g, dirs);
		pull_free(p);
		return NULL;
	}
	p->next = g->pulls;
	g->pulls = p;
	pulls_measure(g);
	return p;
}

// The pull that is to be waited for: one that is under way, or a new one.
static struct pull *pull_for(struct engine *g, const struct pull_wish *w, struct err *e)
{
	struct image_ref ref;
	char key[KEY_CHARS + 1];
	if (image_ref_parse(w->ref, &ref, e))
		return NULL;
	auto_free char *text = image_ref_text(&ref);
	pull_key(text, key);
	struct pull *p = pull_by_key(g, key);
	if (p && w->name && (!p->row.name || strcmp(p->row.name, w->name))) {
		err_set(e, ERR_CONFLICT, "%.200s is being pulled under another name: try again when that has ended", text);
		p = NULL;
	} else if (!p && (!w->name || !image_name_check(g, w->name, e))) {
		p = pull_begin(g, w, &ref, text, e);
	}
	image_ref_done(&ref);
	return p;
}

struct pull_client *engine_image_pull(struct engine *g, const struct pull_wish *w, const struct pull_watch *watch, struct done d)
{
	struct err e;
	struct image_row here;
	if (w->missing && !engine_image_get(g, w->ref, &here, &e)) {
		d.fn(d.ctx, NULL, &(struct outcome){.image = &here});
		image_row_done(&here);
		return NULL;
	}
	struct pull *p = pull_for(g, w, &e);
	if (!p) {
		task_refuse(d, &e);
		return NULL;
	}
	return pull_join(p, watch, d);
}

void engine_image_pull_leave(struct pull_client *c)
{
	struct pull *p = c->pull;
	c->gone = true;
	if (pull_has_clients(p))
		return;
	if (p->child)
		child_kill(p->child);
	if (p->import)
		image_import_stop(p->import);
}

bool engine_image_is_pulled(const struct engine *g, const char *name)
{
	for (const struct pull *p = g->pulls; p; p = p->next)
		if (p->row.name && !strcmp(p->row.name, name))
			return true;
	return false;
}
