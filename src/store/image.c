// SPDX-License-Identifier: Apache-2.0
// Rows of imported images.
#include "store/store_int.h"

#include "base/mem.h"
#include <stdlib.h>

void image_row_done(struct image_row *i)
{
	free(i->name);
	free(i->source);
	free(i->digest);
	free(i->config);
	*i = (struct image_row){0};
}

static char *image_text_copy(const char *s)
{
	return s ? xstrdup(s) : NULL;
}

void image_row_copy(const struct image_row *i, struct image_row *out)
{
	struct image_row copy = *i;
	copy.name = image_text_copy(i->name);
	copy.source = image_text_copy(i->source);
	copy.digest = image_text_copy(i->digest);
	copy.config = image_text_copy(i->config);
	image_row_done(out);
	*out = copy;
}

int store_image_add(struct store *s, const struct image_row *i, struct err *e)
{
	struct cursor c = store_query(s, Q_IMAGE_ADD);
	put_text(&c, i->id);
	put_text(&c, i->name);
	put_text(&c, i->source);
	put_u64(&c, i->bytes);
	put_u64(&c, i->files);
	put_u64(&c, i->created);
	put_text(&c, i->digest);
	put_text(&c, i->config);
	return store_run(s, c, e);
}

int store_image_drop(struct store *s, const char *id, struct err *e)
{
	return store_run_id(s, Q_IMAGE_DROP, id, e);
}

int store_images(struct store *s, void (*each)(void *ctx, const struct image_row *i), void *ctx, struct err *e)
{
	int rc;
	sqlite3_stmt *st = s->q[Q_IMAGES];
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct cursor c = {st, 0};
		struct image_row i = {0};
		get_fixed(&c, i.id, sizeof i.id);
		i.name = get_text(&c);
		i.source = get_text(&c);
		i.bytes = get_u64(&c);
		i.files = get_u64(&c);
		i.created = get_u64(&c);
		i.digest = get_text(&c);
		i.config = get_text(&c);
		each(ctx, &i);
		image_row_done(&i);
	}
	return store_rows_end(s, st, rc, e);
}
