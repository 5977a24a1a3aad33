// SPDX-License-Identifier: Apache-2.0
// Rows of removed sandboxes: where their journal ended, as long as that is kept.
#include "store/store_int.h"

int store_gone_add(struct store *s, const struct gone_row *g, struct err *e)
{
	struct cursor c = store_query(s, Q_GONE_ADD);
	put_text(&c, g->id);
	put_u64(&c, g->removed);
	put_u64(&c, g->anchor_seq);
	put_text(&c, g->anchor);
	return store_run(s, c, e);
}

int store_gone_drop(struct store *s, const char *id, struct err *e)
{
	return store_run_id(s, Q_GONE_DROP, id, e);
}

int store_gone_get(struct store *s, const char *id, struct gone_row *out, struct err *e)
{
	struct cursor c = store_query(s, Q_GONE_GET);
	struct gone_row g = {0};
	put_text(&c, id);
	int rc = sqlite3_step(c.st), n = 0;
	if (rc == SQLITE_ROW) {
		struct cursor r = {c.st, 0};
		get_fixed(&r, g.id, sizeof g.id);
		g.removed = get_u64(&r);
		g.anchor_seq = get_u64(&r);
		get_fixed(&r, g.anchor, sizeof g.anchor);
		rc = sqlite3_step(c.st);
		n = rc == SQLITE_ROW ? 2 : 1;
	}
	sqlite3_reset(c.st);
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		return store_fail(s, e);
	if (n != 1)
		return err_set(e, n ? ERR_CONFLICT : ERR_NOT_FOUND, n ? "%.40s fits several sandboxes: give more of the id"
									: "no sandbox %.40s (skep ps lists them)", id);
	*out = g;
	return 0;
}
