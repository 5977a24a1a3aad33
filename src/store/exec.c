// SPDX-License-Identifier: Apache-2.0
// Rows of commands. They stay when their sandbox's cell goes, the newest STORE_EXECS_KEPT of each sandbox.
#include "store/store_int.h"

#include "base/mem.h"
#include <stdlib.h>

void exec_row_done(struct exec_row *x)
{
	strv_free(x->argv);
	free(x->cwd);
	free(x->user);
	exec_result_done(&x->result);
	*x = (struct exec_row){0};
}

int store_exec_add(struct store *s, const struct exec_row *x, struct err *e)
{
	struct cursor c = store_query(s, Q_EXEC_ADD);
	put_text(&c, x->id);
	put_text(&c, x->sandbox);
	put_strv(&c, x->argv);
	put_text(&c, x->cwd);
	put_text(&c, x->user);
	put_u64(&c, x->tty);
	put_u64(&c, x->running);
	put_u64(&c, x->pid);
	put_u64(&c, x->started);
	put_u64(&c, store_order(s));
	return store_run(s, c, e);
}

int store_exec_started(struct store *s, const char *id, uint32_t pid, struct err *e)
{
	struct cursor c = store_query(s, Q_EXEC_STARTED);
	put_u64(&c, pid);
	put_text(&c, id);
	return store_run(s, c, e);
}

int store_exec_ended(struct store *s, const char *id, const struct exec_result *r, struct err *e)
{
	struct cursor c = store_query(s, Q_EXEC_ENDED);
	put_u64(&c, r->status);
	put_u64(&c, r->signal);
	put_u64(&c, r->timed_out);
	put_text(&c, r->reason);
	put_u64(&c, r->out_bytes);
	put_u64(&c, r->err_bytes);
	put_u64(&c, r->started_unix_ms);
	put_u64(&c, r->ended_unix_ms);
	put_text(&c, id);
	return store_run(s, c, e);
}

int store_execs_lost(struct store *s, const char *sandbox, const char *reason, uint64_t at, struct err *e)
{
	struct cursor c = store_query(s, Q_EXECS_LOST);
	put_text(&c, reason);
	put_u64(&c, at);
	put_text(&c, sandbox);
	return store_run(s, c, e);
}

int store_exec_drop(struct store *s, const char *id, struct err *e)
{
	return store_run_id(s, Q_EXEC_DROP, id, e);
}

static void get_exec(sqlite3_stmt *st, struct exec_row *x)
{
	struct cursor c = {st, 0};
	get_fixed(&c, x->id, sizeof x->id);
	get_fixed(&c, x->sandbox, sizeof x->sandbox);
	x->argv = get_strv(&c);
	x->cwd = get_text(&c);
	x->user = get_text(&c);
	x->tty = get_u64(&c);
	x->running = get_u64(&c);
	x->pid = (uint32_t)get_u64(&c);
	x->started = get_u64(&c);
	x->result.status = (uint32_t)get_u64(&c);
	x->result.signal = (uint32_t)get_u64(&c);
	x->result.timed_out = get_u64(&c);
	x->result.reason = get_text(&c);
	x->result.out_bytes = get_u64(&c);
	x->result.err_bytes = get_u64(&c);
	x->result.ended_unix_ms = get_u64(&c);
	x->result.started_unix_ms = x->started;
}

int store_exec_get(struct store *s, const char *id, struct exec_row *out, struct err *e)
{
	struct cursor c = store_query(s, Q_EXEC_GET);
	struct exec_row x = {0};
	put_text(&c, id);
	int rc = sqlite3_step(c.st), n = 0;
	if (rc == SQLITE_ROW) {
		get_exec(c.st, &x);
		rc = sqlite3_step(c.st);
		n = rc == SQLITE_ROW ? 2 : 1;
	}
	sqlite3_reset(c.st);
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		store_fail(s, e);
	else if (!n)
		err_set(e, ERR_NOT_FOUND, "no exec %.40s (skep ps --execs lists them)", id);
	else if (n == 2)
		err_set(e, ERR_CONFLICT, "%.40s fits several execs: give more of the id", id);
	if (n != 1) {
		exec_row_done(&x);
		return -1;
	}
	*out = x;
	return 0;
}

int store_execs(struct store *s, const char *sandbox, void (*each)(void *ctx, const struct exec_row *x), void *ctx,
		struct err *e)
{
	struct cursor c = store_query(s, sandbox ? Q_EXECS : Q_EXECS_ALL);
	int rc;
	if (sandbox)
		put_text(&c, sandbox);
	while ((rc = sqlite3_step(c.st)) == SQLITE_ROW) {
		struct exec_row x = {0};
		get_exec(c.st, &x);
		each(ctx, &x);
		exec_row_done(&x);
	}
	return store_rows_end(s, c.st, rc, e);
}

int store_exec_trim(struct store *s, const char *sandbox, struct err *e)
{
	struct cursor c = store_query(s, Q_EXEC_TRIM);
	put_text(&c, sandbox);
	put_u64(&c, STORE_EXECS_KEPT);
	return store_run(s, c, e);
}
