// SPDX-License-Identifier: Apache-2.0
#include "base/flow.h"
#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
// cmocka wants the four above it
#include <cmocka.h>

#define MUCH (8u << 20)

static struct loop loop;

struct side {
	struct flow *f;
	struct buf got;
	size_t to_send, drains;
	int ends, breaks;
	bool stop_at_drain, stop_at_end, close_in_data;
};

static void on_data(void *ctx, const char *p, size_t n)
{
	struct side *s = ctx;
	buf_add(&s->got, p, n);
	if (s->close_in_data) {
		flow_close(take(&s->f));
		loop_stop(&loop);
	}
}

static void pour(struct side *s)
{
	static char bytes[100000];
	while (s->to_send) {
		size_t n = s->to_send < sizeof bytes ? s->to_send : sizeof bytes;
		s->to_send -= n;
		if (!flow_send(s->f, bytes, n))
			return;
	}
	flow_eof(s->f);
}

static void on_drain(void *ctx)
{
	struct side *s = ctx;
	s->drains++;
	pour(s);
}

static void on_end(void *ctx, const struct err *e)
{
	struct side *s = ctx;
	*(e ? &s->breaks : &s->ends) += 1;
	if (s->stop_at_end)
		loop_stop(&loop);
}

static const struct flow_ops ops = {on_data, on_drain, on_end};

static void pair(struct side *a, struct side *b)
{
	int fd[2];
	struct err e = {0};
	assert_int_equal(loop_init(&loop, &e), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	*a = (struct side){.f = flow_new(fd[0]), .got = BUF_INIT(MUCH)};
	*b = (struct side){.f = flow_new(fd[1]), .got = BUF_INIT(MUCH)};
	assert_int_equal(flow_start(a->f, &loop, &ops, a, &e), 0);
	assert_int_equal(flow_start(b->f, &loop, &ops, b, &e), 0);
}

static void run(void)
{
	struct err e = {0};
	assert_int_equal(loop_run(&loop, &e), 0);
}

static void finish(struct side *a, struct side *b)
{
	flow_close(a->f);
	flow_close(b->f);
	buf_done(&a->got);
	buf_done(&b->got);
	loop_done(&loop);
}

static void much_goes_through(void **state)
{
	struct side a, b;
	(void)state;
	pair(&a, &b);
	a.to_send = MUCH;
	b.stop_at_end = true;
	pour(&a);
	assert_true(flow_queued(a.f) < FLOW_HIGH + 100000);
	run();
	assert_int_equal(b.got.n, MUCH);
	assert_int_equal(b.ends, 1);
	assert_int_equal(b.breaks, 0);
	assert_true(a.drains > 1);
	finish(&a, &b);
}

static void on_resume(struct timer *t)
{
	(void)t;
	loop_stop(&loop);
}

static void paused_readers_get_nothing_and_lose_nothing(void **state)
{
	struct side a, b;
	struct timer t = {.fn = on_resume};
	(void)state;
	pair(&a, &b);
	flow_pause(b.f, true);
	assert_true(flow_send(a.f, "hello", 5));
	flow_close(take(&a.f)); // a hang-up, which must not spin the loop
	timer_set(&loop, &t, 20);
	run();
	assert_int_equal(b.got.n, 0);
	assert_int_equal(b.ends + b.breaks, 0);
	b.stop_at_end = true;
	flow_pause(b.f, false);
	run();
	assert_int_equal(b.got.n, 5);
	assert_int_equal(b.ends, 1);
	finish(&a, &b);
}

static void sending_to_who_is_gone(void **state)
{
	struct side a, b;
	(void)state;
	pair(&a, &b);
	flow_close(take(&b.f));
	a.stop_at_end = true;
	run();
	assert_int_equal(a.ends, 1);
	assert_false(flow_send(a.f, "x", 1));
	run();
	assert_int_equal(a.breaks, 1);
	assert_false(flow_send(a.f, "x", 1));
	finish(&a, &b);
}

static void more_than_is_kept(void **state)
{
	struct side a, b;
	static char bytes[FLOW_MAX];
	(void)state;
	pair(&a, &b);
	flow_pause(b.f, true);
	assert_false(flow_send(a.f, bytes, sizeof bytes)); // most of it waits
	assert_false(flow_send(a.f, bytes, sizeof bytes));
	a.stop_at_end = true;
	run();
	assert_int_equal(a.breaks, 1);
	finish(&a, &b);
}

static void closing_from_inside_and_detaching(void **state)
{
	struct side a, b;
	(void)state;
	pair(&a, &b);
	b.close_in_data = true;
	flow_send(a.f, "x", 1);
	run();
	assert_null(b.f);
	int fd = flow_detach(take(&a.f));
	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
	flow_close(NULL);
	finish(&a, &b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(much_goes_through),
		cmocka_unit_test(paused_readers_get_nothing_and_lose_nothing),
		cmocka_unit_test(sending_to_who_is_gone),
		cmocka_unit_test(more_than_is_kept),
		cmocka_unit_test(closing_from_inside_and_detaching),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
