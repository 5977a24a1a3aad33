// SPDX-License-Identifier: Apache-2.0
// Volumes.
#include "store/store_int.h"

#include <stdlib.h>

void volume_row_done(struct volume_row *v)
{
	free(v->name);
	free(v->owner);
	*v = (struct volume_row){0};
}

int store_volume_add(struct store *s, const struct volume_row *v, struct err *e)
{
	struct cursor c = store_query(s, Q_VOLUME_ADD);
	put_text(&c, v->id);
	put_text(&c, v->name);
	put_text(&c, v->owner);
	put_u64(&c, v->created);
	return store_run(s, c, e);
}

int store_volume_drop(struct store *s, const char *id, struct err *e)
{
	return store_run_id(s, Q_VOLUME_DROP, id, e);
}

int store_volumes(struct store *s, void (*each)(void *ctx, struct volume_row *taken), void *ctx, struct err *e)
{
	int rc;
	sqlite3_stmt *st = s->q[Q_VOLUMES];
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct cursor c = {st, 0};
		struct volume_row v = {0};
		get_fixed(&c, v.id, sizeof v.id);
		v.name = get_text(&c);
		v.owner = get_text(&c);
		v.created = get_u64(&c);
		if (v.name && v.owner)
			each(ctx, &v);
		else
			volume_row_done(&v);
	}
	return store_rows_end(s, st, rc, e);
}
