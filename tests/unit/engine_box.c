// SPDX-License-Identifier: Apache-2.0
// Names, lookup by id, prefix and name, and the one-operation-at-a-time rule.
#include "engine/engine_int.h"

#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct engine g;

static struct box *add(const char *id, const char *name)
{
	struct sandbox row = {.state = STATE_STOPPED, .name = name ? xstrdup(name) : NULL};
	memcpy(row.id, id, strlen(id) + 1);
	return box_add(&g, &row);
}

static int set_up(void **state)
{
	static struct loop loop;
	struct err e;
	(void)state;
	static const struct backend_ops ops; // a dropped box is told to the backend, where that wants to know
	static struct backend backend = {.ops = &ops};
	g = (struct engine){.loop = &loop, .backend = &backend};
	return loop_init(&loop, &e);
}

static int tear_down(void **state)
{
	(void)state;
	while (g.boxes)
		box_drop(g.boxes);
	index_done(&g.by_id);
	loop_done(g.loop);
	return 0;
}

static enum err_kind find(const char *id, const struct box *want)
{
	struct err e = {0};
	struct box *b = box_find(&g, id, &e);
	if (want)
		assert_ptr_equal(b, want);
	else
		assert_null(b);
	return e.kind;
}

static void names(void **state)
{
	(void)state;
	assert_true(name_is_valid("a"));
	assert_true(name_is_valid("7-up"));
	assert_true(name_is_valid("fix-the-login-page"));
	assert_false(name_is_valid(""));
	assert_false(name_is_valid("-a"));
	assert_false(name_is_valid("A"));
	assert_false(name_is_valid("a_b"));
	assert_false(name_is_valid("a/b"));
	assert_false(name_is_valid("abcdefghijklmnop")); // of id form
	assert_false(name_is_valid("0123456789012345678901234567890123456789x"));
}

static void lookup(void **state)
{
	(void)state;
	struct box *a = add("sabcdefghijklmno", NULL), *b = add("sabxxxxxxxxxxxxx", "work"), *c = add("szzzzzzzzzzzzzzz", "sabx");
	find("sabcdefghijklmno", a);
	find("sabc", a);
	find("work", b);
	find("sabx", c); // a name goes before a prefix
	find("szz", c);
	assert_int_equal(find("sab", NULL), ERR_CONFLICT);
	assert_int_equal(find("sa", NULL), ERR_NOT_FOUND); // too short
	assert_int_equal(find("sq1", NULL), ERR_NOT_FOUND);
	assert_ptr_equal(box_by_id(&g, "szzzzzzzzzzzzzzz"), c);
	assert_null(box_by_id(&g, "szz"));
}

// As `ps` does for each row: the cost of all is linear in their number.
static void each_of_many_is_found_at_once(void **state)
{
	static const unsigned many[] = {1000, 3000};
	(void)state;
	for (size_t k = 0; k < countof(many); k++) {
		for (unsigned i = 0; i < many[k]; i++) {
			char id[ID_SIZE];
			id_make('s', id);
			add(id, NULL);
		}
		g.by_id.compared = 0;
		for (struct box *b = g.boxes; b; b = b->next)
			assert_ptr_equal(box_by_id(&g, b->row.id), b);
		assert_true(g.by_id.compared < 4ull * many[k]);
		while (g.boxes)
			box_drop(g.boxes);
		assert_int_equal(g.by_id.n, 0);
	}
}

static void count_kind(void *ctx, const struct err *e, const struct outcome *o)
{
	(void)o;
	*(enum err_kind *)ctx = e ? e->kind : ERR_NONE;
}

static void a_dropped_box_refuses_its_queue(void **state)
{
	(void)state;
	struct box *b = add("sabcdefghijklmno", NULL);
	enum err_kind told = ERR_BUG;
	b->holder = task_new(b, TASK_CREATE, (struct done){0});
	task_submit(task_new(b, TASK_START, (struct done){count_kind, &told}));
	assert_non_null(b->queue);
	assert_int_equal(told, ERR_BUG);
	struct task *holder = b->holder;
	box_drop(b);
	assert_int_equal(told, ERR_NOT_FOUND);
	assert_null(b->queue);
	task_end(holder, NULL);
}

static void the_next_runs_when_the_box_is_free(void **state)
{
	(void)state;
	struct box *b = add("sabcdefghijklmno", NULL);
	enum err_kind told = ERR_BUG;
	b->holder = task_new(b, TASK_CREATE, (struct done){0});
	task_submit(task_new(b, TASK_RESUME, (struct done){count_kind, &told}));
	task_end(b->holder, NULL);
	assert_int_equal(told, ERR_CONFLICT); // it ran, and a stopped sandbox can not be resumed
	assert_null(b->holder);
}

static void waiting_ends_in_conflict(void **state)
{
	(void)state;
	struct box *b = add("sabcdefghijklmno", NULL);
	enum err_kind told = ERR_BUG;
	b->holder = task_new(b, TASK_CREATE, (struct done){0});
	task_submit(task_new(b, TASK_START, (struct done){count_kind, &told}));
	struct timer *t = g.loop->timers;
	assert_non_null(t);
	timer_clear(g.loop, t);
	t->fn(t); // ten seconds later
	assert_int_equal(told, ERR_CONFLICT);
	assert_null(b->queue);
	task_end(b->holder, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test_setup_teardown(lookup, set_up, tear_down),
		cmocka_unit_test_setup_teardown(each_of_many_is_found_at_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_dropped_box_refuses_its_queue, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_next_runs_when_the_box_is_free, set_up, tear_down),
		cmocka_unit_test_setup_teardown(waiting_ends_in_conflict, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
