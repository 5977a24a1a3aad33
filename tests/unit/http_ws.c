// SPDX-License-Identifier: Apache-2.0
// The server's side of a WebSocket against frames written by hand.
#include "base/mem.h"
#include "http/ws.h"
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
// cmocka wants the headers above it
#include <cmocka.h>

struct peer {
	struct loop loop;
	struct ws *ws;
	int fd, sv[2];
	char got[256];
	size_t n;
	int drained, closed;
	struct timer late;
};

static void on_message(void *ctx, bool text, const uint8_t *p, size_t n)
{
	struct peer *x = ctx;
	x->got[x->n++] = text ? 't' : 'b';
	memcpy(x->got + x->n, p, n);
	x->n += n;
	if (n == 3 && !memcmp(p, "bye", 3)) {
		ws_send(x->ws, true, "last", 4);
		ws_close(x->ws, WS_OK, "done");
	}
}

static void on_drained(void *ctx)
{
	((struct peer *)ctx)->drained++;
}

static void on_closed(void *ctx)
{
	struct peer *x = ctx;
	x->closed++;
	loop_stop(&x->loop);
}

static void on_late(struct timer *t)
{
	loop_stop(&container_of(t, struct peer, late)->loop);
}

static void begin(struct peer *x, const void *extra, size_t n)
{
	static const struct ws_ops ops = {on_message, on_drained, on_closed};
	struct err e;
	*x = (struct peer){0};
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, x->sv), 0);
	assert_int_equal(loop_init(&x->loop, &e), 0);
	x->fd = x->sv[1];
	x->ws = ws_open(&x->loop, x->sv[0], extra, n, &ops, x, &e);
	assert_non_null(x->ws);
}

static void put(struct peer *x, const void *p, size_t n)
{
	assert_int_equal(write(x->fd, p, n), n);
}

static void run(struct peer *x)
{
	struct err e;
	x->loop.stop = false;
	assert_int_equal(loop_run(&x->loop, &e), 0);
}

static void run_a_moment(struct peer *x)
{
	x->late.fn = on_late;
	timer_set(&x->loop, &x->late, 50);
	run(x);
}

static void end(struct peer *x)
{
	assert_int_equal(x->closed, 1);
	loop_done(&x->loop);
	close(x->sv[0]);
	close(x->sv[1]);
}

static void test_accept(void **state)
{
	char out[WS_KEY_SIZE];
	(void)state;
	assert_true(ws_accept("dGhlIHNhbXBsZSBub25jZQ==", out)); // RFC 6455, 1.3
	assert_string_equal(out, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	assert_false(ws_accept("dGhlIHNhbXBsZSBub25jZQ=", out));
	assert_false(ws_accept("dGhlIHNhbXBsZSBub25jZQ===", out));
	assert_false(ws_accept("dGhlIHNhbXBs\r\nSBub25jZQ==", out));
	assert_false(ws_accept(NULL, out));
}

static void test_messages_in_pieces_and_fragments(void **state)
{
	struct peer x;
	(void)state;
	begin(&x, "\x81\x82\0\0", 4); // half of it came with the head
	put(&x, "\0\0hi", 4);
	put(&x, "\x02\x82\0\0\0\0ab\x89\x80\0\0\0\0\x80\x81\0\0\0\0c", 21); // a ping between two fragments
	run_a_moment(&x);
	assert_memory_equal(x.got, "thibabc", 7);
	assert_int_equal(x.n, 7);
	char pong[8];
	assert_int_equal(read(x.fd, pong, sizeof pong), 2);
	assert_memory_equal(pong, "\x8a\0", 2);
	put(&x, "\x88\x80\0\0\0\0", 6);
	run(&x);
	end(&x);
}

static void test_what_was_sent_leaves_before_the_close(void **state)
{
	struct peer x;
	char got[64];
	(void)state;
	begin(&x, NULL, 0);
	put(&x, "\x81\x83\0\0\0\0bye", 9);
	run_a_moment(&x);
	put(&x, "\x88\x82\0\0\0\0\x03\xe8", 8);
	run(&x);
	ssize_t n = read(x.fd, got, sizeof got);
	assert_int_equal(n, 6 + 8);
	assert_memory_equal(got, "\x81\x04last\x88\x06\x03\xe8" "done", 14);
	end(&x);
}

static void test_wrong_frames_are_closed_with_their_code(void **state)
{
	static const struct {
		const char *p;
		size_t n;
		int code;
	} cases[] = {
		{"\x81\x02hi", 4, 1002},				  // not masked
		{"\x83\x80\0\0\0\0", 6, 1002},				  // no such opcode
		{"\xf1\x81\0\0\0\0x", 7, 1002},				  // reserved bits
		{"\x81\x82\0\0\0\0\xff\xfe", 8, 1007},			  // not UTF-8
		{"\x80\x81\0\0\0\0x", 7, 1002},				  // a continuation of nothing
		{"\x82\xff\0\0\0\x01\0\0\0\0\0\0\0\0xxxx", 18, 1009}, // too long
	};
	(void)state;
	for (size_t i = 0; i < countof(cases); i++) {
		struct peer x;
		uint8_t got[64] = {0};
		begin(&x, NULL, 0);
		put(&x, cases[i].p, cases[i].n);
		run(&x);
		assert_true(read(x.fd, got, sizeof got) >= 4);
		assert_int_equal(got[0], 0x88);
		assert_int_equal(got[2] << 8 | got[3], cases[i].code);
		assert_int_equal(x.n, 0);
		end(&x);
	}
}

static void test_a_peer_that_vanishes(void **state)
{
	struct peer x;
	(void)state;
	begin(&x, NULL, 0);
	put(&x, "\x81\x85\0\0", 4);
	close(x.sv[1]);
	x.sv[1] = -1;
	run(&x);
	assert_int_equal(x.n, 0);
	end(&x);
}

static void test_what_came_before_the_end_is_delivered(void **state)
{
	struct peer x;
	(void)state;
	begin(&x, NULL, 0);
	put(&x, "\x81\x82\0\0\0\0hi\x82\x81\0\0\0\0c", 15);
	close(x.fd); // the messages and the end are seen at once
	run(&x);
	assert_int_equal(x.n, 5);
	assert_memory_equal(x.got, "thibc", 5);
	x.sv[1] = -1;
	end(&x);
}

static void test_drop_tells_the_peer(void **state)
{
	struct peer x;
	uint8_t got[8];
	(void)state;
	begin(&x, NULL, 0);
	ws_drop(x.ws);
	assert_int_equal(read(x.fd, got, sizeof got), 4);
	assert_int_equal(got[2] << 8 | got[3], WS_RESTART);
	end(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accept),
		cmocka_unit_test(test_messages_in_pieces_and_fragments),
		cmocka_unit_test(test_what_was_sent_leaves_before_the_close),
		cmocka_unit_test(test_wrong_frames_are_closed_with_their_code),
		cmocka_unit_test(test_a_peer_that_vanishes),
		cmocka_unit_test(test_what_came_before_the_end_is_delivered),
		cmocka_unit_test(test_drop_tells_the_peer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
