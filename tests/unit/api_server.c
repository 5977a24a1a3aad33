// SPDX-License-Identifier: Apache-2.0
// An answer marks its request and returns: no handler starts below another one, whatever a handler or a callback does to its
// own or to another request. And a server that ends leaves no request behind that its handler could still use.
#include "api/server_int.h"

#include "base/mem.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "dir.h"

#define PATIENCE_TICKS 20000 // of a millisecond each

static struct {
	struct loop loop;
	struct server *server;
	struct request *held;
	struct upgraded *up;
	int probes, gone, closed;
	const int *awaited; // the loop is left when this is not 0
	int held_count, ticks;
	struct timer tick;
	void **state;
} t;

// --- the surface ---

static void get_hold(struct request *r)
{
	t.held = r;
	t.held_count++;
}

static void on_gone(struct request *r)
{
	(void)r;
	t.gone++;
}

static void get_told(struct request *r)
{
	r->on_gone = on_gone;
	get_hold(r);
}

static void get_stream(struct request *r)
{
	get_told(r);
	request_stream(r, 200);
	request_write(r, "a", 1);
}

static size_t take_nothing(struct request *r, const char *p, size_t n)
{
	(void)r, (void)p, (void)n;
	return 0;
}

static void put_hold(struct request *r)
{
	get_hold(r);
	r->on_body = take_nothing;
}

static void on_shutdown(struct upgraded *u)
{
	upgraded_close(take(&t.up));
	(void)u;
}

static void on_up(void *ctx, struct upgraded *u)
{
	(void)ctx;
	t.up = u->fd < 0 ? NULL : u;
	t.closed += u->fd < 0;
	u->on_shutdown = on_shutdown;
	t.held_count++;
}

static void get_up(struct request *r)
{
	request_upgrade(r, "test", on_up, NULL);
}

static void get_probe(struct request *r)
{
	t.probes++;
	request_answer(r, 204);
}

static void get_loop(struct request *r);

static const struct route routes[] = {
	{"GET", "/hold", BODY_NONE, get_hold, SCOPE_READ},    {"GET", "/told", BODY_NONE, get_told, SCOPE_READ},
	{"GET", "/stream", BODY_NONE, get_stream, SCOPE_READ}, {"PUT", "/hold", BODY_STREAM, put_hold, SCOPE_READ},
	{"GET", "/up", BODY_NONE, get_up, SCOPE_READ},	       {"GET", "/probe", BODY_NONE, get_probe, SCOPE_READ},
	{"GET", "/loop", BODY_NONE, get_loop, SCOPE_READ},     {0},
};
static const struct surface surface = {.name = "test", .routes = routes};
static const struct surface *const surfaces[] = {&surface, NULL};

// --- the loop ---

static void on_tick(struct timer *timer)
{
	if (*t.awaited || --t.ticks <= 0)
		loop_stop(&t.loop);
	timer_set(&t.loop, timer, 1);
}

static void await(const int *what)
{
	struct err e;
	t.awaited = what;
	t.ticks = PATIENCE_TICKS;
	t.tick.fn = on_tick;
	timer_set(&t.loop, &t.tick, 0);
	assert_int_equal(loop_run(&t.loop, &e), 0);
	timer_clear(&t.loop, &t.tick);
	assert_true(*what);
}

static void begin(void **state)
{
	struct err e;
	memset(&t, 0, sizeof t);
	t.state = state;
	assert_int_equal(loop_init(&t.loop, &e), 0);
	int fd = fs_unix_listen(dir_of(state), "sock", &e);
	assert_true(fd >= 0);
	t.server = server_new(&t.loop, NULL, surfaces, fd, &e);
	assert_non_null(t.server);
}

static int ask(void **state, const char *line, const char *more)
{
	struct err e;
	char text[256];
	int fd = fs_unix_connect(dir_of(state), "sock", &e);
	assert_true(fd >= 0);
	int n = snprintf(text, sizeof text, "%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", line, more);
	assert_int_equal(write(fd, text, (size_t)n), n);
	return fd;
}

// What must never be: a handler that runs the loop, and with it the next request.
static void get_loop(struct request *r)
{
	struct err e;
	ask(t.state, "GET /probe", "");
	(void)!loop_run(&t.loop, &e);
	request_answer(r, 204);
}

static void end(void **state)
{
	server_free(take(&t.server));
	assert_int_equal(unlinkat(dir_of(state), "sock", 0), 0);
}

// --- what is done to a request ---

static void do_answer(void)
{
	request_answer(t.held, 204);
}

static void do_fail(void)
{
	struct err e;
	err_set(&e, ERR_INVALID, "no");
	request_fail(t.held, &e);
}

static void do_stream(void)
{
	request_stream(t.held, 200);
}

static void do_write(void)
{
	request_write(t.held, "b", 1);
}

static void do_finish(void)
{
	request_finish(t.held);
}

static void do_cut(void)
{
	request_cut(t.held);
}

static void do_more(void)
{
	request_more(t.held);
}

static void do_upgrade(void)
{
	request_upgrade(t.held, "test", on_up, NULL);
}

static void do_close(void)
{
	upgraded_close(take(&t.up));
}

static const struct {
	const char *line, *more;
	void (*act)(void);
} acts[] = {
	{"GET /hold", "", do_answer},
	{"GET /hold", "", do_fail},
	{"GET /told", "", do_stream},
	{"GET /stream", "", do_write},
	{"GET /stream", "", do_finish},
	{"GET /stream", "", do_cut},
	{"PUT /hold", "Content-Length: 1\r\n", do_more},
	{"GET /hold", "Connection: Upgrade\r\nUpgrade: test\r\n", do_upgrade},
	{"GET /up", "Connection: Upgrade\r\nUpgrade: test\r\n", do_close},
};

// Another client's request is there already when the act is done: an answer that ran the library would handle it.
static void no_handler_below(void **state)
{
	for (size_t i = 0; i < countof(acts); i++) {
		begin(state);
		int fd = ask(state, acts[i].line, acts[i].more);
		await(&t.held_count);
		if (acts[i].act == do_more)
			assert_int_equal(write(fd, "x", 1), 1);
		int other = ask(state, "GET /probe", "");
		acts[i].act();
		assert_int_equal(t.probes, 0);
		await(&t.probes);
		close(other);
		close(fd);
		end(state);
		if (acts[i].act == do_more)
			do_answer();
		loop_done(&t.loop);
	}
}

// The same connection has its next request ready.
static void no_next_below(void **state)
{
	static const char probe[] = "GET /probe HTTP/1.1\r\nHost: localhost\r\n\r\n";
	begin(state);
	int fd = ask(state, "GET /hold", "");
	await(&t.held_count);
	assert_int_equal(write(fd, probe, sizeof probe - 1), (int)sizeof probe - 1);
	do_answer();
	assert_int_equal(t.probes, 0);
	await(&t.probes);
	close(fd);
	end(state);
	loop_done(&t.loop);
}

// A client that leaves: its handler is told, and its answer is thrown away, in whatever order that comes.
static void client_leaves(void **state)
{
	for (size_t i = 0; i < countof(acts); i++) {
		begin(state);
		int fd = ask(state, acts[i].line, acts[i].more);
		await(&t.held_count);
		close(fd);
		acts[i].act();
		int other = ask(state, "GET /probe", "");
		await(&t.probes);
		close(other);
		if (acts[i].act == do_write) // nothing but the report frees it
			await(&t.gone);
		end(state);
		if (acts[i].act == do_more)
			do_answer();
		loop_done(&t.loop);
	}
}

// The server answers for a handler that has not; the request is the handler's until it does, too.
static void server_ends_first(void **state)
{
	for (size_t i = 0; i < countof(acts); i++) {
		begin(state);
		bool streams = !strcmp(acts[i].line, "GET /stream"), upgraded = acts[i].act == do_close;
		int fd = ask(state, acts[i].line, acts[i].more);
		await(&t.held_count);
		server_free(take(&t.server));
		if (streams)
			assert_int_equal(t.gone, 1);
		else if (acts[i].act == do_more)
			do_answer();
		else if (!upgraded)
			acts[i].act();
		assert_null(t.up);
		loop_done(&t.loop);
		close(fd);
		assert_int_equal(unlinkat(dir_of(state), "sock", 0), 0);
	}
}

static void check_is_active(void **state)
{
#ifndef SKEP_CHECKS
	skip();
#endif
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
		signal(SIGABRT, SIG_DFL);
		close(2);
		begin(state);
		ask(state, "GET /loop", "");
		await(&t.probes);
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_int_equal(unlinkat(dir_of(state), "sock", 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(no_handler_below, setup, teardown),
		cmocka_unit_test_setup_teardown(no_next_below, setup, teardown),
		cmocka_unit_test_setup_teardown(client_leaves, setup, teardown),
		cmocka_unit_test_setup_teardown(server_ends_first, setup, teardown),
		cmocka_unit_test_setup_teardown(check_is_active, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
