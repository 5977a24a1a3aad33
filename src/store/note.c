// SPDX-License-Identifier: Apache-2.0
// Notes: texts that a surface keeps under a kind and a key. What they say is its own business.
#include "store/store_int.h"

#include <stdlib.h>

int store_note_set(struct store *s, const char *kind, const char *key, const char *text, struct err *e)
{
	struct cursor c = store_query(s, Q_NOTE_SET);
	put_text(&c, kind);
	put_text(&c, key);
	put_text(&c, text);
	return store_run(s, c, e);
}

int store_note_drop(struct store *s, const char *kind, const char *key, struct err *e)
{
	struct cursor c = store_query(s, Q_NOTE_DROP);
	put_text(&c, kind);
	put_text(&c, key);
	return store_run(s, c, e);
}

int store_notes(struct store *s, const char *kind, void (*each)(void *ctx, const char *key, const char *text), void *ctx, struct err *e)
{
	int rc;
	sqlite3_stmt *st = s->q[Q_NOTES];
	struct cursor q = store_query(s, Q_NOTES);
	put_text(&q, kind);
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct cursor c = {.st = st};
		char *key = get_text(&c), *text = get_text(&c);
		if (key && text)
			each(ctx, key, text);
		free(key);
		free(text);
	}
	return store_rows_end(s, st, rc, e);
}
