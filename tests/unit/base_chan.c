// SPDX-License-Identifier: Apache-2.0
#include "base/chan.h"
#include "base/mem.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
// cmocka wants the four above it
#include <cmocka.h>

struct rig {
	struct loop loop;
	struct chan a, b; // b is in the loop
	struct timer end;
	struct buf got;	  // types of the frames that came
	int fd, closed, stop_after, pause_after;
	size_t bytes;
};

static struct rig *rig_of(struct chan *c)
{
	return container_of(c, struct rig, b);
}

static void on_frame(struct chan *c, struct frame *f)
{
	struct rig *r = rig_of(c);
	buf_byte(&r->got, (char)f->type);
	r->bytes += f->n;
	if (f->fd >= 0) {
		close_fd(&r->fd);
		r->fd = take_fd(&f->fd);
	}
	if (r->pause_after && (int)r->got.n == r->pause_after)
		chan_pause(c, true);
	if ((int)r->got.n == r->stop_after)
		loop_stop(&r->loop);
}

static void on_close(struct chan *c)
{
	struct rig *r = rig_of(c);
	r->closed++;
	chan_close(c);
	loop_stop(&r->loop);
}

static void on_end(struct timer *t)
{
	loop_stop(&container_of(t, struct rig, end)->loop);
}

static int setup(void **state)
{
	struct rig *r = xcalloc(1, sizeof *r);
	struct err e;
	int sv[2];
	r->got = BUF_INIT(1000);
	r->fd = -1;
	r->end.fn = on_end;
	assert_int_equal(loop_init(&r->loop, &e), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	chan_init(&r->a, sv[0]);
	chan_init(&r->b, sv[1]);
	r->b.on_frame = on_frame;
	r->b.on_close = on_close;
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	struct rig *r = *state;
	chan_close(&r->a);
	chan_close(&r->b);
	chan_close(&r->b); // twice is fine
	loop_done(&r->loop);
	buf_done(&r->got);
	close_fd(&r->fd);
	free(r);
	return 0;
}

static void attach(struct rig *r)
{
	struct err e;
	assert_int_equal(chan_attach(&r->b, &r->loop, &e), 0);
}

// Runs until stop_after frames came or the other end closed; a failure ends after a while.
static void run(struct rig *r, int frames)
{
	struct err e;
	r->stop_after = frames;
	timer_set(&r->loop, &r->end, 5000);
	assert_int_equal(loop_run(&r->loop, &e), 0);
	timer_clear(&r->loop, &r->end);
}

static void frames_arrive_in_order_with_their_fields(void **state)
{
	struct rig *r = *state;
	struct err e;
	struct frame f;
	assert_true(chan_send(&r->a, 7, 2, 0xdeadbeef, "hello", 5));
	assert_true(chan_send(&r->a, 8, 0, 1, NULL, 0));
	assert_int_equal(chan_recv(&r->b, &f, &e), 0);
	assert_true(f.type == 7 && f.stream == 2 && f.id == 0xdeadbeef && f.n == 5 && f.fd == -1);
	assert_memory_equal(f.p, "hello", 5);
	assert_int_equal(chan_recv(&r->b, &f, &e), 0);
	assert_true(f.type == 8 && f.n == 0);
	chan_close(&r->a);
	assert_int_equal(chan_recv(&r->b, &f, &e), -1);
	assert_int_equal(e.kind, ERR_UNAVAILABLE);
}

static void descriptors_travel_with_their_frame(void **state)
{
	struct rig *r = *state;
	int p[2];
	char c;
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	attach(r);
	assert_true(chan_send(&r->a, 'x', 0, 1, "before", 6));
	assert_true(chan_send_fd(&r->a, 'f', 1, "with", 4, p[1]));
	assert_true(chan_send(&r->a, 'y', 0, 1, "after", 5));
	close(p[1]);
	run(r, 3);
	assert_string_equal(r->got.p, "xfy");
	assert_true(r->fd >= 0);
	assert_int_equal(fcntl(r->fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(write(r->fd, "!", 1), 1);
	assert_int_equal(read(p[0], &c, 1), 1);
	close_fd(&r->fd);
	assert_int_equal(read(p[0], &c, 1), 0); // no copy of it is left anywhere
	close(p[0]);
}

static void what_came_before_the_loop_is_delivered(void **state)
{
	struct rig *r = *state;
	struct err e;
	struct frame f;
	for (char t = 'a'; t <= 'c'; t++)
		assert_true(chan_send(&r->a, (uint8_t)t, 0, 0, "x", 1));
	assert_int_equal(chan_recv(&r->b, &f, &e), 0);
	assert_int_equal(f.type, 'a');
	attach(r); // b and c are in its buffer already
	assert_string_equal(buf_cstr(&r->got), "bc");
}

static void large_frames_are_queued(void **state)
{
	struct rig *r = *state;
	struct err e;
	auto_free char *big = xcalloc(1, FRAME_MAX);
	attach(r);
	assert_int_equal(chan_attach(&r->a, &r->loop, &e), 0); // non-blocking now
	r->a.on_frame = on_frame;
	r->a.on_close = on_close;
	assert_true(chan_send(&r->a, 'a', 0, 0, big, FRAME_MAX));
	assert_true(chan_send(&r->a, 'b', 0, 0, big, FRAME_MAX));
	assert_true(chan_queued(&r->a) > FRAME_MAX);
	run(r, 2);
	assert_string_equal(r->got.p, "ab");
	assert_int_equal(r->bytes, 2 * FRAME_MAX);
	assert_int_equal(chan_queued(&r->a), 0);
}

static void a_slow_peer_is_cut_off(void **state)
{
	struct rig *r = *state;
	struct err e;
	auto_free char *big = xcalloc(1, FRAME_MAX);
	assert_int_equal(chan_attach(&r->a, &r->loop, &e), 0);
	r->a.on_frame = on_frame;
	int sent = 0;
	while (sent < 100 && chan_send(&r->a, 'a', 0, 0, big, FRAME_MAX))
		sent++;
	assert_true(sent >= 3 && sent <= 5); // CHAN_QUEUE and what the kernel took
}

static void malformed_frames_end_the_channel(void **state)
{
	struct rig *r = *state;
	static const uint8_t heads[][FRAME_HEAD] = {
		{1, 0, 0x40, 0, 1},		 // longer than FRAME_MAX
		{0xff, 0xff, 0xff, 0xff, 1},
		{0, 0, 0, 0, 1, 0, 1, 0},	 // claims a descriptor that is not there
		{0, 0, 0, 0, 1, 0, 0, 1},	 // reserved byte
	};
	for (size_t i = 0; i < countof(heads); i++) {
		int sv[2];
		chan_close(&r->b);
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
		chan_init(&r->b, sv[1]);
		r->b.on_frame = on_frame;
		r->b.on_close = on_close;
		attach(r);
		assert_int_equal(write(sv[0], heads[i], FRAME_HEAD), FRAME_HEAD);
		run(r, -1);
		assert_int_equal(r->closed, i + 1);
		assert_int_equal(r->got.n, 0);
		close(sv[0]);
	}
}

static void the_end_of_the_peer_is_told_once(void **state)
{
	struct rig *r = *state;
	attach(r);
	assert_true(chan_send(&r->a, 'z', 0, 0, "last", 4));
	chan_close(&r->a);
	run(r, -1);
	assert_string_equal(r->got.p, "z");
	assert_int_equal(r->closed, 1);
	assert_false(chan_is_open(&r->b));
	assert_false(chan_send(&r->b, 1, 0, 0, NULL, 0));
}

static void pausing_holds_frames_back(void **state)
{
	struct rig *r = *state;
	attach(r);
	r->pause_after = 2;
	for (char t = 'a'; t <= 'd'; t++)
		assert_true(chan_send(&r->a, (uint8_t)t, 0, 0, "x", 1));
	run(r, 2);
	assert_string_equal(r->got.p, "ab");
	r->pause_after = 0;
	chan_pause(&r->b, false);
	run(r, 4); // nothing more is sent: c and d wait in the buffer
	assert_string_equal(r->got.p, "abcd");
}

static void a_paused_channel_delivers_what_came_before_the_end(void **state)
{
	struct rig *r = *state;
	attach(r);
	r->pause_after = 1;
	for (char t = 'a'; t <= 'd'; t++)
		assert_true(chan_send(&r->a, (uint8_t)t, 0, 0, "x", 1));
	run(r, 1); // b to d wait in the buffer
	assert_string_equal(r->got.p, "a");
	assert_true(r->b.paused);
	for (char t = 'e'; t <= 'g'; t++)
		assert_true(chan_send(&r->a, (uint8_t)t, 0, 0, "x", 1)); // and these in the socket
	chan_close(&r->a);
	run(r, -1);
	assert_string_equal(r->got.p, "abcdefg");
	assert_int_equal(r->closed, 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(frames_arrive_in_order_with_their_fields), T(descriptors_travel_with_their_frame),
		T(what_came_before_the_loop_is_delivered), T(large_frames_are_queued), T(a_slow_peer_is_cut_off),
		T(malformed_frames_end_the_channel), T(the_end_of_the_peer_is_told_once), T(pausing_holds_frames_back),
		T(a_paused_channel_delivers_what_came_before_the_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
