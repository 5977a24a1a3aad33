// SPDX-License-Identifier: Apache-2.0
// A line that breaks, against a scripted skepd and cell behind a real socket: what is said again, and what is not.
#include "base/buf.h"
#include "base/chan.h"
#include "base/fs.h"
#include "base/mem.h"
#include "cli/line.h"
#include "cli/pump.h"
#include "model/msg.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
// cmocka wants the headers above it
#include <cmocka.h>

static char dir[64], sock[128];

static int setup(void **state)
{
	(void)state;
	memcpy(dir, "/tmp/skep-line-XXXXXX", 22);
	if (!mkdtemp(dir))
		return -1;
	auto_free char *path = xasprintf("%s/skepd.sock", dir), *host = xasprintf("unix://%s", path);
	memcpy(sock, path, strlen(path) + 1);
	setenv("SKEP_HOST", host, 1);
	unsetenv("SKEP_RETRY");
	return 0;
}

static int teardown(void **state)
{
	struct err e;
	(void)state;
	unsetenv("SKEP_HOST");
	return fs_remove_tree(AT_FDCWD, dir, &e);
}

// --- the other side ---

struct far {
	int listen;
	struct chan c;
};

struct hello {
	char *ticket, *line;
	uint64_t out, err, away_ms;
};

static void expect(bool ok, int code)
{
	if (!ok)
		_exit(code);
}

// A connection and its upgrade.
static void answer_connect(struct far *f, const char *answer)
{
	char head[2048];
	size_t n = 0;
	struct pollfd p = {.fd = f->listen, .events = POLLIN};
	expect(poll(&p, 1, 10000) == 1, 80);
	int fd = accept4(f->listen, NULL, NULL, SOCK_CLOEXEC);
	expect(fd >= 0, 81);
	do {
		ssize_t got = read(fd, head + n, 1);
		expect(got == 1 && n < sizeof head - 2, 82);
		head[++n] = 0;
	} while (n < 4 || memcmp(head + n - 4, "\r\n\r\n", 4));
	expect(strstr(head, "Upgrade: skep-cell") && !strncmp(head, "GET /v1/sandboxes/s1/cell ", 26), 83);
	expect(write(fd, answer, strlen(answer)) == (ssize_t)strlen(answer), 84);
	chan_init(&f->c, fd);
}

static const char yes[] = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: skep-cell\r\n\r\n";

static struct frame hear(struct far *f)
{
	struct frame got;
	struct err e;
	do
		expect(!chan_recv(&f->c, &got, &e), 85);
	while (got.type == M_CREDIT || (got.type == M_SEEN && got.stream));
	return got;
}

static struct hello hear_hello(struct far *f)
{
	struct frame got = hear(f);
	struct wire w = {.p = got.p, .n = got.n};
	expect(got.type == M_HELLO && wire_get_u32(&w) == PROTO_VERSION && wire_get_u8(&w) == ROLE_CLIENT, 86);
	struct hello h = {.ticket = wire_get_str(&w)};
	h.out = wire_get_u64(&w);
	h.err = wire_get_u64(&w);
	h.line = wire_get_str(&w);
	h.away_ms = wire_get_u64(&w);
	expect(!w.bad && h.ticket && h.line && strlen(h.line) == KEY_SIZE - 1, 87);
	return h;
}

static void say_data(struct far *f, uint64_t at, const char *text)
{
	auto_buf struct buf b = BUF_INIT(1024);
	wire_u64(&b, at);
	buf_str(&b, text);
	expect(chan_send(&f->c, M_DATA, 1, 0, b.p, b.n), 88);
}

static void say_heard(struct far *f, uint64_t upto, uint64_t taken, uint64_t heard)
{
	auto_buf struct buf b = BUF_INIT(32);
	wire_u64(&b, upto);
	wire_u64(&b, taken);
	wire_u64(&b, taken); // all of it ours
	wire_u64(&b, heard);
	expect(chan_send_buf(&f->c, M_CREDIT, 0, &b), 89);
}

static void say_credit(struct far *f, uint64_t upto, uint64_t taken)
{
	say_heard(f, upto, taken, 0);
}

static void say_exit(struct far *f, uint32_t status)
{
	struct exec_result r = {.status = status};
	auto_buf struct buf b = BUF_INIT(4096);
	exec_result_write(&b, &r);
	expect(chan_send_buf(&f->c, M_EXIT, 0, &b), 90);
}

static void say_denied(struct far *f)
{
	auto_buf struct buf b = BUF_INIT(256);
	wire_u32(&b, ERR_DENIED);
	wire_u32(&b, 0);
	wire_str(&b, "nobody with this line is expected here");
	expect(chan_send_buf(&f->c, M_ERR, 0, &b), 91);
}

static void hear_stdin(struct far *f, uint64_t at, const char *text)
{
	struct frame got = hear(f);
	struct wire w = {.p = got.p, .n = got.n};
	expect(got.type == M_DATA && wire_get_u64(&w) == at && w.n == strlen(text) && !memcmp(w.p, text, w.n), 92);
}

// It takes ten bytes of stdin, tells of none of them, and the line breaks; then it says that it has six.
static void breaks_once(struct far *f)
{
	answer_connect(f, yes);
	struct hello first = hear_hello(f);
	expect(!strcmp(first.ticket, "tick") && !first.out && first.away_ms == 240000, 100);
	say_credit(f, 1000, 0);
	say_data(f, 0, "hello ");
	hear_stdin(f, 0, "0123456789");
	expect(hear(f).type == M_EOF, 101);
	chan_close(&f->c);
	answer_connect(f, yes);
	struct hello again = hear_hello(f);
	expect(!*again.ticket && !strcmp(again.line, first.line) && again.out == 6, 102);
	say_credit(f, 1000, 6);
	hear_stdin(f, 6, "6789");
	expect(hear(f).type == M_EOF, 103);
	say_data(f, 3, "lo again"); // three bytes came before
	say_exit(f, 7);
	struct frame last = hear(f);
	expect(last.type == M_SEEN && !last.stream, 104); // it does not come back any more
}

static void hear_signal(struct far *f, uint32_t sig, uint64_t number)
{
	struct frame got = hear(f);
	struct wire w = {.p = got.p, .n = got.n};
	expect(got.type == M_SIGNAL && wire_get_u32(&w) == sig && wire_get_u64(&w) == number && !w.bad, 93);
}

// Three signals are under way when the line breaks, one of them was heard; a fourth comes before the greeting is answered.
static void breaks_among_signals(struct far *f)
{
	answer_connect(f, yes);
	hear_hello(f);
	say_credit(f, 1000, 0);
	say_data(f, 0, "up");
	for (uint32_t i = 1; i <= 3; i++) {
		kill(getppid(), i == 3 ? SIGUSR2 : SIGUSR1);
		hear_signal(f, i == 3 ? SIGUSR2 : SIGUSR1, i);
	}
	chan_close(&f->c);
	answer_connect(f, yes);
	hear_hello(f);
	kill(getppid(), SIGINT);
	say_heard(f, 1000, 0, 1);
	hear_signal(f, SIGUSR1, 2);
	hear_signal(f, SIGUSR2, 3);
	hear_signal(f, SIGINT, 4);
	say_heard(f, 1000, 0, 4);
	chan_close(&f->c);
	answer_connect(f, yes);
	hear_hello(f);
	say_heard(f, 1000, 0, 4);
	say_exit(f, 130);
	struct frame last = hear(f); // nothing is repeated that was heard
	expect(last.type == M_SEEN && !last.stream, 105);
}

// The second connection is cut before the greeting, the third refused by a proxy, the fourth holds.
static void breaks_often(struct far *f)
{
	answer_connect(f, yes);
	hear_hello(f);
	say_credit(f, 1000, 0);
	chan_close(&f->c);
	answer_connect(f, "");
	chan_close(&f->c);
	answer_connect(f, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n");
	chan_close(&f->c);
	answer_connect(f, yes);
	hear_hello(f);
	say_credit(f, 1000, 0);
	say_data(f, 0, "there");
	say_exit(f, 0);
	hear(f);
}

// Nobody knows the line, and without an exec's id there is no other way.
static void forgets(struct far *f)
{
	answer_connect(f, yes);
	hear_hello(f);
	say_credit(f, 1000, 0);
	chan_close(&f->c);
	answer_connect(f, yes);
	hear_hello(f);
	say_denied(f);
	struct frame got;
	struct err e;
	while (!chan_recv(&f->c, &got, &e))
		;
}

static void refuses_token(struct far *f)
{
	static const char body[] = "{\"error\":{\"kind\":\"denied\",\"message\":\"a valid token is needed\"}}";
	auto_free char *answer = xasprintf("HTTP/1.1 401 Unauthorized\r\nContent-Length: %zu\r\n\r\n%s", sizeof body - 1, body);
	answer_connect(f, yes);
	hear_hello(f);
	say_credit(f, 1000, 0);
	chan_close(&f->c);
	answer_connect(f, answer);
}

typedef void script(struct far *f);

static pid_t start_far(script *fn)
{
	struct err e;
	struct far f = {.listen = fs_unix_listen(AT_FDCWD, sock, &e)};
	assert_true(f.listen >= 0);
	pid_t pid = fork();
	if (!pid) {
		alarm(20);
		fn(&f);
		_exit(0);
	}
	close(f.listen);
	return pid;
}

static void ended_well(pid_t pid)
{
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int run(script *fn, const char *stdin_text, char out[64], struct pump_result *r, struct err *e)
{
	int in[2], o[2];
	assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(o, O_CLOEXEC), 0);
	assert_int_equal(write(in[1], stdin_text, strlen(stdin_text)), (ssize_t)strlen(stdin_text));
	close(in[1]);
	pid_t pid = start_far(fn);
	struct pump_spec s = {.socket = "/v1/sandboxes/s1/cell", .ticket = "tick", .in = *stdin_text ? in[0] : -1, .out = o[1], .err = -1, .forward = true};
	int rc = pump_run(&s, r, e);
	ended_well(pid);
	close(o[1]);
	ssize_t n = read(o[0], out, 63);
	out[n > 0 ? n : 0] = 0;
	close(o[0]);
	close(in[0]);
	return rc;
}

static void test_it_goes_on_where_it_was(void **state)
{
	struct pump_result r;
	struct err e;
	char out[64];
	(void)state;
	assert_int_equal(run(breaks_once, "0123456789", out, &r, &e), 0);
	assert_string_equal(out, "hello again");
	assert_int_equal(r.exit.status, 7);
	pump_result_done(&r);
}

static void test_tries_go_on(void **state)
{
	struct pump_result r;
	struct err e;
	char out[64];
	(void)state;
	assert_int_equal(run(breaks_often, "", out, &r, &e), 0);
	assert_string_equal(out, "there");
	pump_result_done(&r);
}

static void test_what_can_not_get_better_ends_it(void **state)
{
	struct pump_result r;
	struct err e;
	char out[64];
	(void)state;
	assert_int_equal(run(forgets, "", out, &r, &e), -1);
	assert_int_equal(e.kind, ERR_DENIED);
	teardown(NULL);
	setup(NULL);
	assert_int_equal(run(refuses_token, "", out, &r, &e), -1);
	assert_non_null(strstr(e.msg, "a valid token"));
}

static void test_signals_are_repeated_and_count_once(void **state)
{
	struct pump_result r;
	struct err e;
	char out[64];
	(void)state;
	assert_int_equal(run(breaks_among_signals, "", out, &r, &e), 0);
	assert_int_equal(r.exit.status, 130);
	pump_result_done(&r);
	struct line l = {.key = "k"};
	for (unsigned i = 1; i <= LINE_SIGNALS + 3; i++)
		assert_int_equal(line_signal(&l, (int)i), i);
	assert_int_equal(l.n_signals, LINE_SIGNALS);
	assert_int_equal(l.signals[0], 4);
	line_heard(&l, 3);
	line_heard(&l, 1000); // not a number that was sent
	assert_int_equal(l.n_signals, LINE_SIGNALS);
	line_heard(&l, 5);
	assert_int_equal(l.signals[0], 6);
	line_heard(&l, LINE_SIGNALS + 3);
	assert_int_equal(l.n_signals, 0);
}

static void test_retry_is_a_number(void **state)
{
	static const char *const bad[] = {"soon", "-1", "601", "1.5", " 1"};
	struct err e;
	uint64_t ms;
	(void)state;
	assert_int_equal(line_retry(&ms, &e), 0);
	assert_int_equal(ms, 120000);
	for (size_t i = 0; i < countof(bad); i++) {
		setenv("SKEP_RETRY", bad[i], 1);
		assert_int_equal(line_retry(&ms, &e), -1);
		assert_int_equal(e.kind, ERR_INVALID);
	}
	setenv("SKEP_RETRY", "0", 1);
	assert_int_equal(line_retry(&ms, &e), 0);
	assert_int_equal(ms, 0);
}

static void test_what_is_kept_and_said(void **state)
{
	struct line l = {.key = "k", .kept = BUF_INIT(1024)};
	(void)state;
	line_keep(&l, 10, "abcdef", 6);
	line_keep(&l, 16, "gh", 2);
	line_taken(&l, 9, 9); // older than what is kept
	assert_int_equal(l.kept.n, 8);
	line_taken(&l, 13, 113);
	assert_int_equal(l.kept_from, 13);
	assert_memory_equal(l.kept.p, "defgh", 5);
	assert_int_equal(l.ahead, 100);
	line_guess(&l, 115); // two more came, as far as a stranger can know
	assert_memory_equal(l.kept.p, "fgh", 3);
	assert_int_equal(l.kept.n, 3);
	assert_int_equal(l.kept_from, 0);
	line_taken(&l, 3, 118);
	assert_int_equal(l.kept.n, 0);
	line_keep(&l, 3, "x", 1);
	assert_int_equal(l.kept_from, 3);
	assert_false(line_must_say(&l, 1, 1000, false));
	assert_true(line_must_say(&l, 1, 1000, true));
	assert_false(line_must_say(&l, 1, 1000, true));
	assert_true(line_must_say(&l, 1, 1000 + (256 << 10), false));
	buf_done(&l.kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_it_goes_on_where_it_was, setup, teardown),
		cmocka_unit_test_setup_teardown(test_tries_go_on, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_can_not_get_better_ends_it, setup, teardown),
		cmocka_unit_test_setup_teardown(test_signals_are_repeated_and_count_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_retry_is_a_number, setup, teardown),
		cmocka_unit_test(test_what_is_kept_and_said),
	};
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests_name("cli/line", tests, NULL, NULL);
}
