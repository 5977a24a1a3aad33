// SPDX-License-Identifier: Apache-2.0
// Starting and ending, against a backend that only writes down what it was asked.
#include "engine/engine_int.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
// cmocka wants the headers above it
#include <cmocka.h>

#define BOX "saaaaaaaaaaaaaaa"

static char top[64];
static struct loop loop;
static struct store *store;
static struct engine *g;
static int starts, removals;
static uint64_t spec_expires;
static char a_cell;

static struct cell *fake_start(struct backend *b, const struct cell_spec *spec, bool fresh, struct cell_watcher *w)
{
	(void)b, (void)fresh, (void)w;
	starts++;
	spec_expires = spec->expires_unix_ms;
	return (struct cell *)&a_cell;
}

static void fake_remove(struct backend *b, char *const *dirs, struct reply r)
{
	(void)b, (void)dirs, (void)r;
	removals++;
}

static void fake_event(struct cell *c, const char *type, const char *by, const char *body, struct reply r)
{
	(void)c, (void)type, (void)by, (void)body, (void)r;
}

static struct cell *fake_adopt(struct backend *b, const char *sandbox, const char *key, struct cell_watcher *w)
{
	(void)b, (void)sandbox, (void)key, (void)w;
	return (struct cell *)&a_cell;
}

static const struct backend_ops ops = {.start = fake_start, .adopt = fake_adopt, .remove = fake_remove, .event = fake_event};
static struct backend backend = {.name = "fake", .ops = &ops};

static void open_all(void)
{
	struct err e;
	auto_free char *db = xasprintf("%s/state.db", top);
	store = store_open(db, &e);
	assert_non_null(store);
	g = engine_new(&(struct engine_config){.skep_home = top, .home = "/nowhere", .owner = "o", .image_program = "/bin/false",
					       .loop = &loop, .store = store, .backend = &backend}, &e);
	assert_non_null(g);
}

static void close_all(void)
{
	engine_free(g);
	store_close(store);
}

static int set_up(void **state)
{
	struct err e;
	(void)state;
	memcpy(top, "/tmp/skep-life-XXXXXX", 22);
	if (!mkdtemp(top) || loop_init(&loop, &e))
		return -1;
	starts = removals = 0;
	open_all();
	return 0;
}

static int tear_down(void **state)
{
	struct err e;
	(void)state;
	close_all();
	loop_done(&loop);
	return fs_remove_tree(AT_FDCWD, top, &e);
}

// A stopped sandbox with an empty workspace.
static struct box *add(uint64_t expires)
{
	struct err e;
	struct sandbox row = {.id = BOX, .layer = "laaaaaaaaaaaaaaa", .state = STATE_STOPPED, .owner = xstrdup("o"),
			      .ws_path = xstrdup("/workspace"), .env = xcalloc(1, sizeof(char *)), .expires = expires,
			      .labels = xcalloc(1, sizeof(char *)), .created = 1};
	assert_int_equal(store_sandbox_add(store, &row, &e), 0);
	assert_int_equal(mkdirat(g->sandboxes, BOX, 0700), 0);
	return box_add(g, &row);
}

static void note_kind(void *ctx, const struct err *e, const struct outcome *o)
{
	(void)o;
	*(enum err_kind *)ctx = e ? e->kind : ERR_NONE;
}

static void comes_up(struct box *b)
{
	struct cell_up up = {.pid = 1, .start = 2};
	b->w.up(&b->w, &up, NULL);
}

static void start(struct box *b)
{
	enum err_kind told = ERR_BUG;
	engine_start(g, BOX, (struct done){note_kind, &told});
	assert_int_equal(starts, 1);
	comes_up(b);
	assert_int_equal(told, ERR_NONE);
	assert_int_equal(b->row.state, STATE_RUNNING);
}

static void an_expired_one_starts_without_its_ttl(void **state)
{
	struct err e;
	uint64_t end;
	auto_buf struct buf journal = BUF_INIT(65536);
	(void)state;
	struct box *b = add(1000);
	start(b);
	assert_int_equal(spec_expires, 0);
	assert_int_equal(b->row.expires, 0);
	assert_int_equal(engine_journal(g, BOX, 0, &journal, &end, &e), 0);
	assert_non_null(strstr(buf_cstr(&journal), "sandbox.policy"));
}

static void one_that_has_time_left_keeps_it(void **state)
{
	uint64_t later = clock_unix_ms() + 3600000;
	(void)state;
	struct box *b = add(later);
	start(b);
	assert_int_equal(spec_expires, later);
	assert_int_equal(b->row.expires, later);
}

// Rows are written late; an engine that ends writes them first.
static void what_was_not_committed_yet_survives_a_restart(void **state)
{
	(void)state;
	start(add(1000));
	close_all();
	open_all();
	struct box *b = box_by_id(g, BOX);
	assert_non_null(b);
	assert_int_equal(b->row.state, STATE_RUNNING);
	assert_int_equal(b->row.expires, 0);
}

static void take_cell(void *ctx, struct cell_row *row)
{
	cell_row_done(row);
	++*(int *)ctx;
}

// The cell disposes of its layer itself: nobody else is troubled.
static void a_removed_one_leaves_only_its_journal(void **state)
{
	struct err e;
	int cells = 0;
	(void)state;
	struct box *b = add(0);
	start(b);
	assert_int_equal(mkdirat(g->sandboxes, BOX "/out", 0700), 0);
	b->w.gone(&b->w, &(struct cell_end){.reason = "exec ended", .removed = true});
	engine_flush(g);
	assert_int_equal(removals, 0);
	assert_null(box_by_id(g, BOX));
	assert_false(fs_exists(g->sandboxes, BOX));
	assert_true(fs_exists(g->journals, BOX) && !fs_exists(g->journals, BOX "/out"));
	assert_int_equal(store_cells(store, take_cell, &cells, &e), 0);
	assert_int_equal(cells, 0);
}

static void a_stopped_one_has_no_cell_row(void **state)
{
	struct err e;
	int cells = 0;
	(void)state;
	struct box *b = add(0);
	start(b);
	b->w.gone(&b->w, &(struct cell_end){.reason = "stopped", .pending = 1});
	engine_flush(g);
	assert_int_equal(b->row.state, STATE_STOPPED);
	assert_int_equal(store_cells(store, take_cell, &cells, &e), 0);
	assert_int_equal(cells, 0);
	enum err_kind told = ERR_NONE;
	engine_remove(g, BOX, false, (struct done){note_kind, &told});
	assert_int_equal(told, ERR_CONFLICT); // something is pending
}

// A `run` that ended with nothing pending while there was no daemon.
static void a_run_that_ended_unseen(void **state)
{
	struct err e;
	struct cell_row cell = {.sandbox = BOX, .key = "k"};
	enum err_kind told = ERR_NONE;
	(void)state;
	struct box *b = add(0);
	b->row.state = STATE_RUNNING;
	b->row.run = true;
	record(b, "cell.up", "");
	record(b, "cell.gone", "\"reason\":\"exec ended\"");
	assert_int_equal(store_cell_set(store, &cell, &e), 0);
	assert_int_equal(engine_reconcile(g, &e), 0);
	engine_start(g, BOX, (struct done){note_kind, &told}); // somebody waits already
	err_set(&e, ERR_UNAVAILABLE, "nobody answers");
	b->w.up(&b->w, NULL, &e);
	assert_int_equal(told, ERR_NOT_FOUND);
	assert_null(box_by_id(g, BOX));
	assert_true(fs_exists(g->journals, BOX));
}

static void what_is_pending_is_told_by_the_journal(void **state)
{
	struct err e;
	struct cell_row cell = {.sandbox = BOX, .key = "k"};
	(void)state;
	struct box *b = add(0);
	b->row.state = STATE_RUNNING;
	assert_int_equal(mkdirat(g->layers, b->row.layer, 0700), 0);
	record(b, "cell.up", "");
	record(b, "cell.gone", "\"reason\":\"idle\",\"pending\":3");
	assert_int_equal(store_cell_set(store, &cell, &e), 0);
	assert_int_equal(engine_reconcile(g, &e), 0);
	err_set(&e, ERR_UNAVAILABLE, "nobody answers");
	b->w.up(&b->w, NULL, &e);
	assert_int_equal(b->row.state, STATE_STOPPED);
	assert_string_equal(b->row.reason, "idle");
	assert_int_equal(b->row.pending, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_expired_one_starts_without_its_ttl, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_that_has_time_left_keeps_it, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_was_not_committed_yet_survives_a_restart, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_removed_one_leaves_only_its_journal, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_stopped_one_has_no_cell_row, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_run_that_ended_unseen, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_pending_is_told_by_the_journal, set_up, tear_down),
	};
	return cmocka_run_group_tests_name("engine/life", tests, NULL, NULL);
}
