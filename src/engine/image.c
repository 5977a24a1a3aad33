// SPDX-License-Identifier: Apache-2.0
// Imported root file systems. The import is a child (skep-image) that works in images/ID.partial; the
// finished tree is renamed in place, so images/ID is always whole.
#include "engine/child.h"
#include "engine/image_int.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "model/imageref.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IMPORTS_MAX 4

static void import_free(struct import *im)
{
	image_row_done(&im->row);
	free(im->from);
	free(im);
}

static void unlink_import(struct import *im)
{
	list_unlink(&im->g->imports, im, next);
}

static void discard_partial(struct import *im)
{
	auto_free char *dir = xasprintf("images/%s.partial", im->row.id);
	char *dirs[] = {dir, NULL};
	engine_discard(im->g, dirs);
}

static int settle(struct import *im, const struct child_end *end, struct err *e)
{
	auto_free char *partial = xasprintf("%s.partial", im->row.id);
	auto_json json_t *o = child_json(end, "skep-image", e);
	if (!o)
		return -1;
	im->row.bytes = json_u64(o, "bytes");
	im->row.files = json_u64(o, "files");
	if (renameat(im->g->images, partial, im->g->images, im->row.id))
		return err_sys(e, "put the image in place");
	im->row.created = clock_unix_ms();
	engine_wrote(im->g);
	return store_image_add(im->g->store, &im->row, e) || store_flush(im->g->store, e) ? -1 : 0;
}

static void on_imported(void *ctx, const struct child_end *end)
{
	struct import *im = ctx;
	struct err e;
	im->child = NULL;
	unlink_import(im);
	if (settle(im, end, &e)) {
		discard_partial(im);
		im->done.fn(im->done.ctx, &e, NULL);
	} else {
		im->done.fn(im->done.ctx, NULL, &(struct outcome){.image = &im->row});
	}
	import_free(im);
}

static int spawn(struct import *im, struct err *e)
{
	auto_free char *into = xasprintf("%s/images/%s.partial", im->g->skep_home, im->row.id);
	char a0[] = "skep-image", a1[] = "import", a2[] = "--source", a4[] = "--into";
	char *argv[] = {a0, a1, a2, im->from, a4, into, NULL};
	struct child_spec spec = {.program = "skep-image", .argv = argv, .out_max = 1 << 20};
	im->child = child_start(im->g, &spec, on_imported, im, e);
	return im->child ? 0 : -1;
}

void image_import_stop(struct import *im)
{
	if (im->child)
		child_kill(im->child);
}

struct import *image_import_begin(struct engine *g, const char *from, const struct image_row *row, struct done d, struct err *e)
{
	struct import *im = xcalloc(1, sizeof *im);
	im->g = g;
	im->done = d;
	im->from = xstrdup(from);
	image_row_copy(row, &im->row);
	id_make('i', im->row.id);
	if (spawn(im, e)) {
		import_free(im);
		return NULL;
	}
	im->next = g->imports;
	g->imports = im;
	return im;
}

int image_name_check(struct engine *g, const char *name, struct err *e)
{
	struct image_row other;
	if (!name_is_valid(name) || !strcmp(name, "host"))
		return err_set(e, ERR_INVALID, "\"%.60s\" is not a name for an image: 1 to 40 of a-z 0-9 -, and not \"host\"", name);
	if (!engine_image_get(g, name, &other, e)) {
		bool own = other.name && !strcmp(other.name, name);
		image_row_done(&other);
		if (own)
			return err_set(e, ERR_CONFLICT, "an image named %s exists: choose another name or `skep image rm %s`", name, name);
	}
	for (struct import *im = g->imports; im; im = im->next)
		if (im->row.name && !strcmp(im->row.name, name))
			return err_set(e, ERR_CONFLICT, "an image named %s is being imported", name);
	if (engine_image_is_pulled(g, name))
		return err_set(e, ERR_CONFLICT, "an image named %s is being pulled", name);
	return 0;
}

static int check_import(struct engine *g, const char *source, const char *name, struct err *e)
{
	int n = 0;
	if (source[0] != '/')
		return err_set(e, ERR_INVALID, "\"source\" must be an absolute path");
	if (!fs_exists(AT_FDCWD, source))
		return err_set(e, ERR_INVALID, "no file or directory %.300s", source);
	if (name && image_name_check(g, name, e))
		return -1;
	for (struct import *im = g->imports; im; im = im->next)
		n++;
	return n < IMPORTS_MAX ? 0 : err_set(e, ERR_LIMIT, "%d imports are under way: wait for one to end", n);
}

void engine_image_import(struct engine *g, const char *source, const char *name, struct done d)
{
	struct err e;
	auto_free char *own_name = name ? xstrdup(name) : NULL, *own_source = xstrdup(source);
	struct image_row row = {.name = own_name, .source = own_source};
	if (check_import(g, source, name, &e) || !image_import_begin(g, source, &row, d, &e))
		task_refuse(d, &e);
}

struct search {
	const char *id;
	struct image_row found;
	int exact, prefix;
};

static void match(void *ctx, const struct image_row *i)
{
	struct search *s = ctx;
	size_t n = strlen(s->id);
	if (!strcmp(i->id, s->id) || (i->name && !strcmp(i->name, s->id))) {
		s->exact++;
		image_row_copy(i, &s->found);
	} else if (n >= 3 && !strncmp(i->id, s->id, n)) {
		s->prefix++;
		if (!s->exact)
			image_row_copy(i, &s->found);
	}
}

// A reference names what was pulled under it last; with a digest also what was pulled by a tag and had that digest.
struct ref_search {
	const char *text, *repository, *digest;
	struct image_row found;
};

static void match_ref(void *ctx, const struct image_row *i)
{
	struct ref_search *s = ctx;
	size_t n = strlen(s->repository);
	if (s->found.id[0] || !i->digest)
		return;
	bool same = !strcmp(i->source, s->text);
	if (!same && s->digest)
		same = !strcmp(i->digest, s->digest) && !strncmp(i->source, s->repository, n) && (i->source[n] == ':' || i->source[n] == '@');
	if (same)
		image_row_copy(i, &s->found);
}

// 1: found. 0: there is none, or id is no reference.
static int image_by_ref(struct engine *g, const char *id, struct image_row *out, struct err *e)
{
	struct image_ref ref;
	struct err ignored;
	if (image_ref_parse(id, &ref, &ignored))
		return 0;
	auto_free char *text = image_ref_text(&ref), *repository = xasprintf("%s/%s", ref.registry, ref.repository);
	struct ref_search s = {.text = text, .repository = repository, .digest = ref.digest};
	int rc = store_images(g->store, match_ref, &s, e);
	image_ref_done(&ref);
	if (rc)
		return -1;
	if (!s.found.id[0])
		return 0;
	*out = s.found;
	return 1;
}

int engine_image_get(struct engine *g, const char *id, struct image_row *out, struct err *e)
{
	struct search s = {.id = id};
	int rc = store_images(g->store, match, &s, e), named = 0;
	if (!rc && (s.exact || s.prefix == 1)) {
		*out = s.found;
		return 0;
	}
	image_row_done(&s.found);
	if (!rc && !s.prefix)
		named = image_by_ref(g, id, out, e);
	if (rc || named < 0)
		return -1;
	if (named)
		return 0;
	return s.prefix ? err_set(e, ERR_CONFLICT, "%.40s fits several images: give more of the id", id)
			: err_set(e, ERR_NOT_FOUND, "no image %.200s (skep image ls lists them, skep image pull and skep image import make one)", id);
}

int engine_images(struct engine *g, void (*each)(void *ctx, const struct image_row *i), void *ctx, struct err *e)
{
	return store_images(g->store, each, ctx, e);
}

struct removal {
	struct done done;
	struct image_row row;
};

static void on_removed(void *ctx, const struct err *e)
{
	struct removal *r = ctx;
	r->done.fn(r->done.ctx, e, e ? NULL : &(struct outcome){.image = &r->row});
	image_row_done(&r->row);
	free(r);
}

static int forget(struct engine *g, const char *id, struct image_row *out, struct err *e)
{
	if (engine_image_get(g, id, out, e))
		return -1;
	for (struct box *b = g->boxes; b; b = b->next)
		if (b->row.image && !strcmp(b->row.image, out->id))
			return err_set(e, ERR_CONFLICT, "image %s is used by sandbox %s: `skep rm %s` first", out->id, b->row.id, b->row.id);
	engine_wrote(g);
	return store_image_drop(g->store, out->id, e); // first: a directory without a row is gc's, the other way round is a lie
}

void engine_image_remove(struct engine *g, const char *id, struct done d)
{
	struct err e;
	struct image_row row = {0};
	if (forget(g, id, &row, &e)) {
		image_row_done(&row);
		task_refuse(d, &e);
		return;
	}
	struct removal *r = xcalloc(1, sizeof *r);
	*r = (struct removal){d, row};
	auto_free char *dir = xasprintf("images/%s", row.id);
	char *dirs[] = {dir, NULL};
	g->backend->ops->remove(g->backend, dirs, (struct reply){on_removed, r});
}
