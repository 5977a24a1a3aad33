// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "base/loop.h"
#include "base/mem.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// cmocka wants the four above it
#include <cmocka.h>

static struct loop loop;
static char order[32];

static void note(char c)
{
	order[strlen(order)] = c;
}

static int setup(void **state)
{
	(void)state;
	struct err e;
	memset(order, 0, sizeof order);
	return loop_init(&loop, &e);
}

static int teardown(void **state)
{
	(void)state;
	loop_done(&loop);
	return 0;
}

static void run(void)
{
	struct err e;
	assert_int_equal(loop_run(&loop, &e), 0);
}

struct named {
	struct timer t;
	char name;
};

static void on_timer(struct timer *t)
{
	note(container_of(t, struct named, t)->name);
	if (!loop.timers)
		loop_stop(&loop);
}

static void timers_fire_in_order(void **state)
{
	(void)state;
	struct named a = {.t.fn = on_timer, .name = 'a'}, b = {.t.fn = on_timer, .name = 'b'};
	struct named c = {.t.fn = on_timer, .name = 'c'}, gone = {.t.fn = on_timer, .name = 'x'};
	timer_set(&loop, &c.t, 3);
	timer_set(&loop, &gone.t, 1);
	timer_set(&loop, &a.t, 100000);
	timer_set(&loop, &b.t, 2);
	timer_set(&loop, &a.t, 0); // replaces the first setting
	timer_clear(&loop, &gone.t);
	assert_int_equal(gone.t.at_ms, 0);
	run();
	assert_string_equal(order, "abc");
	assert_int_equal(a.t.at_ms, 0);
}

struct end {
	struct watch w;
	struct end *other;
	int fd;
};

static void on_read(struct watch *w, uint32_t events)
{
	struct end *me = container_of(w, struct end, w);
	assert_true(events & LOOP_IN);
	note('r');
	loop_del(&loop, &me->other->w); // its event is in the same batch and must not come any more
	loop_stop(&loop);
}

static void a_removed_watch_hears_nothing(void **state)
{
	(void)state;
	struct err e;
	int a[2], b[2];
	assert_int_equal(pipe2(a, O_CLOEXEC), 0);
	assert_int_equal(pipe2(b, O_CLOEXEC), 0);
	struct end x = {.w.fn = on_read}, y = {.w.fn = on_read};
	x.other = &y;
	y.other = &x;
	assert_int_equal(write(a[1], "1", 1), 1);
	assert_int_equal(write(b[1], "1", 1), 1);
	assert_int_equal(loop_add(&loop, &x.w, a[0], LOOP_IN, &e), 0);
	assert_int_equal(loop_add(&loop, &y.w, b[0], LOOP_IN, &e), 0);
	run();
	assert_string_equal(order, "r");
	loop_del(&loop, &x.w);
	loop_del(&loop, &x.w); // twice is fine
	assert_int_equal(x.w.fd, -1);
	for (int i = 0; i < 2; i++) {
		close(a[i]);
		close(b[i]);
	}
	assert_int_equal(loop_add(&loop, &x.w, a[0], LOOP_IN, &e), -1);
}

static void bury(void *obj)
{
	note('f');
	free(obj);
}

static void on_bury(struct timer *t)
{
	struct named *n = container_of(t, struct named, t);
	loop_bury(&loop, n, bury);
	n->name = 'n'; // still alive in this batch
	note(n->name);
	loop_stop(&loop);
}

static void the_dead_are_freed_after_the_batch(void **state)
{
	(void)state;
	struct named *n = xcalloc(1, sizeof *n);
	n->t.fn = on_bury;
	timer_set(&loop, &n->t, 0);
	run();
	assert_string_equal(order, "nf");
}

static int child;

static void on_child(struct watch *w, uint32_t events)
{
	(void)events;
	note('c');
	loop_del(&loop, w);
	loop_stop(&loop);
}

static void children_and_signals(void **state)
{
	(void)state;
	struct err e;
	static const int signals[] = {SIGUSR1, SIGUSR2};
	auto_fd int sig = loop_signals(signals, 2, &e);
	assert_true(sig >= 0);
	assert_int_equal(loop_signal_next(sig), 0);
	raise(SIGUSR2);
	assert_int_equal(loop_signal_next(sig), SIGUSR2);
	child = fork();
	if (!child)
		_exit(0);
	auto_fd int pidfd = loop_pidfd(child, &e);
	assert_true(pidfd >= 0);
	assert_true(fcntl(pidfd, F_GETFD) & FD_CLOEXEC);
	struct watch w = {.fn = on_child};
	assert_int_equal(loop_add(&loop, &w, pidfd, LOOP_IN, &e), 0);
	run();
	assert_string_equal(order, "c");
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {T(timers_fire_in_order), T(a_removed_watch_hears_nothing),
					   T(the_dead_are_freed_after_the_batch), T(children_and_signals)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
