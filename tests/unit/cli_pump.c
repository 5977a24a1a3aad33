// SPDX-License-Identifier: Apache-2.0
// The pump against a scripted cell: a forked child behind a real socket that sends what a test tells it.
#include "base/buf.h"
#include "base/chan.h"
#include "base/fs.h"
#include "base/mem.h"
#include "cli/place.h"
#include "cli/pump.h"
#include "cli/sink.h"
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
// cmocka wants the headers above it
#include <cmocka.h>

static char dir[64], sock[128];

static int setup(void **state)
{
	(void)state;
	memcpy(dir, "/tmp/skep-pump-XXXXXX", 22);
	if (!mkdtemp(dir))
		return -1;
	auto_free char *path = xasprintf("%s/cell.sock", dir);
	memcpy(sock, path, strlen(path) + 1);
	return 0;
}

static int teardown(void **state)
{
	struct err e;
	(void)state;
	return fs_remove_tree(AT_FDCWD, dir, &e);
}

// --- the cell's side ---

struct peer {
	struct chan c;
	uint64_t in; // stdin bytes received
};

static void say(struct peer *p, uint8_t type, uint8_t stream, const void *data, size_t n)
{
	if (!chan_send(&p->c, type, stream, 0, data, n))
		_exit(90);
}

static void say_data(struct peer *p, uint8_t stream, uint64_t off, const char *data, size_t n)
{
	auto_buf struct buf b = BUF_INIT(1 << 20);
	wire_u64(&b, off);
	buf_add(&b, data, n);
	say(p, M_DATA, stream, b.p, b.n);
}

// taken: bytes of stdin that reached the cell before, from anybody
static void say_credit(struct peer *p, uint64_t upto, uint64_t taken)
{
	auto_buf struct buf b = BUF_INIT(16);
	wire_u64(&b, upto);
	wire_u64(&b, taken);
	say(p, M_CREDIT, 0, b.p, b.n);
}

static void say_exit(struct peer *p, uint32_t status, const char *reason)
{
	auto_free char *why = reason ? xstrdup(reason) : NULL;
	struct exec_result r = {.status = status, .reason = why};
	auto_buf struct buf b = BUF_INIT(4096);
	exec_result_write(&b, &r);
	say(p, M_EXIT, 0, b.p, b.n);
}

static void hear(struct peer *p, struct frame *f)
{
	struct err e;
	if (chan_recv(&p->c, f, &e))
		_exit(91);
}

// The next frame of a type; credits in between are passed over.
static void hear_type(struct peer *p, struct frame *f, uint8_t type)
{
	do
		hear(p, f);
	while (f->type == M_CREDIT);
	if (f->type != type)
		_exit(92);
}

static void greeting(struct peer *p)
{
	struct frame f;
	hear(p, &f);
	struct wire w = {.p = f.p, .n = f.n};
	uint32_t version = wire_get_u32(&w);
	uint8_t role = wire_get_u8(&w);
	auto_free char *ticket = wire_get_str(&w);
	uint64_t out = wire_get_u64(&w), err = wire_get_u64(&w);
	if (f.type != M_HELLO || w.bad || version != PROTO_VERSION || role != ROLE_CLIENT || strcmp(ticket, "tick") ||
	    out != err)
		_exit(93);
}

typedef void script(struct peer *p);

static pid_t start_cell(script *fn)
{
	struct err e;
	int lfd = fs_unix_listen(AT_FDCWD, sock, &e);
	assert_true(lfd >= 0);
	pid_t pid = fork();
	if (!pid) {
		struct peer p = {0};
		struct pollfd pfd = {.fd = lfd, .events = POLLIN};
		poll(&pfd, 1, 10000);
		alarm(20);
		chan_init(&p.c, accept4(lfd, NULL, NULL, SOCK_CLOEXEC));
		greeting(&p);
		fn(&p);
		_exit(0);
	}
	close(lfd);
	return pid;
}

// --- our side ---

struct ends {
	int in[2], out[2], err[2];
};

static void open_ends(struct ends *x)
{
	assert_int_equal(pipe2(x->in, O_CLOEXEC) | pipe2(x->out, O_CLOEXEC) | pipe2(x->err, O_CLOEXEC), 0);
}

static void close_ends(struct ends *x)
{
	for (int i = 0; i < 2; i++) {
		close_fd(&x->in[i]);
		close_fd(&x->out[i]);
		close_fd(&x->err[i]);
	}
}

static struct pump_spec spec_of(const struct ends *x)
{
	return (struct pump_spec){.socket = sock, .ticket = "tick", .in = x->in[0], .out = x->out[1], .err = x->err[1]};
}

static void ended_well(pid_t pid)
{
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void text_is(int fd, const char *want)
{
	char got[256] = "";
	ssize_t n = read(fd, got, sizeof got - 1);
	assert_true(n >= 0);
	assert_string_equal(got, want);
}

static void both_streams(struct peer *p)
{
	say_data(p, 1, 0, "out", 3);
	say_data(p, 2, 0, "err", 3);
	say_data(p, 1, 1, "ut+", 3); // repeats two bytes
	say_exit(p, 7, "it was told to");
	close(p->c.fd);
}

static void test_streams_and_status(void **state)
{
	struct ends x;
	struct err e;
	struct pump_result r;
	(void)state;
	open_ends(&x);
	pid_t pid = start_cell(both_streams);
	struct pump_spec s = spec_of(&x);
	assert_int_equal(pump_run(&s, &r, &e), 0);
	assert_int_equal(r.exit.status, 7);
	assert_string_equal(r.exit.reason, "it was told to");
	text_is(x.out[0], "out+");
	text_is(x.err[0], "err");
	pump_result_done(&r);
	ended_well(pid);
	close_ends(&x);
}

// Takes stdin in small grants and gives it back; what it takes goes behind what came, and not beyond the grant.
static void echo(struct peer *p)
{
	struct frame f;
	uint64_t credit = 0;
	say_credit(p, credit, 0);
	for (;;) {
		if (p->in == credit)
			say_credit(p, credit += 1000, p->in);
		hear(p, &f);
		if (f.type == M_EOF)
			break;
		if (f.type == M_CREDIT)
			continue;
		struct wire w = {.p = f.p, .n = f.n};
		if (f.type != M_DATA || wire_get_u64(&w) != STDIN_APPEND || p->in + w.n > credit)
			_exit(94);
		say_data(p, 1, p->in, (const char *)w.p, w.n);
		p->in += w.n;
	}
	say_exit(p, 0, NULL);
}

static void test_stdin_within_credit(void **state)
{
	struct ends x;
	struct err e;
	struct pump_result r;
	char sent[20000], got[20001];
	(void)state;
	for (size_t i = 0; i < sizeof sent; i++)
		sent[i] = (char)(i * 31);
	open_ends(&x);
	assert_int_equal(write(x.in[1], sent, sizeof sent), sizeof sent);
	close_fd(&x.in[1]);
	pid_t pid = start_cell(echo);
	struct pump_spec s = spec_of(&x);
	assert_int_equal(pump_run(&s, &r, &e), 0);
	assert_int_equal(read(x.out[0], got, sizeof got), sizeof sent);
	assert_memory_equal(got, sent, sizeof sent);
	pump_result_done(&r);
	ended_well(pid);
	close_ends(&x);
}

#define FLOOD (32u << 20)

static void flood(struct peer *p)
{
	static char block[65536];
	for (uint64_t at = 0; at < FLOOD; at += sizeof block) {
		for (size_t i = 0; i < sizeof block; i++)
			block[i] = (char)((at + i) % 251);
		say_data(p, 1, at, block, sizeof block);
	}
	say_exit(p, 0, NULL);
}

// A slow reader: everything arrives, and what waits in us stays bounded.
static void test_slow_reader(void **state)
{
	struct ends x;
	struct err e;
	struct pump_result r;
	(void)state;
	open_ends(&x);
	pid_t pid = start_cell(flood), reader = fork();
	if (!reader) {
		uint64_t at = 0;
		char b[50000];
		close(x.out[1]);
		poll(NULL, 0, 100);
		for (ssize_t n; (n = read(x.out[0], b, sizeof b)) > 0;)
			for (ssize_t i = 0; i < n; i++, at++)
				if (b[i] != (char)(at % 251))
					_exit(1);
		_exit(at == FLOOD ? 0 : 2);
	}
	struct pump_spec s = spec_of(&x);
	assert_int_equal(pump_run(&s, &r, &e), 0);
	pump_result_done(&r);
	close_ends(&x);
	ended_well(pid);
	ended_well(reader);
}

static void die_early(struct peer *p)
{
	say_data(p, 1, 0, "some", 4);
	close(p->c.fd);
}

static void refuse_ticket(struct peer *p)
{
	auto_buf struct buf b = BUF_INIT(256);
	wire_u32(&b, ERR_DENIED);
	wire_u32(&b, 0);
	wire_str(&b, "used before");
	say(p, M_ERR, 0, b.p, b.n);
	close(p->c.fd);
}

static void nonsense(struct peer *p)
{
	static const char junk[] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";
	if (write(p->c.fd, junk, sizeof junk) < 0)
		_exit(95);
	close(p->c.fd);
}

static void test_failures(void **state)
{
	static const struct {
		script *fn;
		enum err_kind kind;
	} rows[] = {{die_early, ERR_UNAVAILABLE}, {refuse_ticket, ERR_DENIED}, {nonsense, ERR_BUG}};
	(void)state;
	for (size_t i = 0; i < countof(rows); i++) {
		struct ends x;
		struct err e;
		struct pump_result r;
		open_ends(&x);
		pid_t pid = start_cell(rows[i].fn);
		struct pump_spec s = spec_of(&x);
		assert_int_equal(pump_run(&s, &r, &e), -1);
		assert_int_equal(e.kind, rows[i].kind);
		ended_well(pid);
		close_ends(&x);
	}
	struct err e;
	struct pump_result r;
	unlink(sock);
	struct pump_spec s = {.socket = sock, .ticket = "tick", .in = -1, .out = -1, .err = -1};
	assert_int_equal(pump_run(&s, &r, &e), -1);
	assert_int_equal(e.kind, ERR_UNAVAILABLE);
}

static void test_reader_gone(void **state)
{
	struct ends x;
	struct err e;
	struct pump_result r;
	(void)state;
	open_ends(&x);
	close_fd(&x.out[0]);
	pid_t pid = start_cell(both_streams);
	struct pump_spec s = spec_of(&x);
	assert_int_equal(pump_run(&s, &r, &e), 0);
	assert_true(r.out_closed);
	waitpid(pid, NULL, 0);
	close_ends(&x);
}

// It ends without reading what we still send: nothing it said before may be lost.
static void leave_unread(struct peer *p)
{
	struct frame f;
	say_credit(p, LIMIT_STDIN_WINDOW, 0);
	hear_type(p, &f, M_DATA);
	say_data(p, 1, 0, "last", 4);
	say_exit(p, 3, NULL);
	auto_buf struct buf b = BUF_INIT(256);
	wire_u32(&b, 5);
	char one[] = "M a";
	char *list[] = {one, NULL};
	wire_strv(&b, list);
	say(p, M_CHANGES, 0, b.p, b.n);
	say(p, M_DONE, 0, "\1", 1);
	close(p->c.fd);
}

static void test_last_words(void **state)
{
	struct ends x;
	struct err e;
	struct pump_result r;
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	(void)state;
	open_ends(&x);
	pid_t pid = start_cell(leave_unread);
	struct pump_spec s = spec_of(&x);
	s.in = zero;
	s.to_end = true;
	assert_int_equal(pump_run(&s, &r, &e), 0);
	assert_int_equal(r.exit.status, 3);
	assert_true(r.has_changes && r.removed && r.n_changes == 5 && strv_len(r.changes) == 1);
	text_is(x.out[0], "last");
	pump_result_done(&r);
	ended_well(pid);
	close_ends(&x);
	close(zero);
}

static void gaps(struct peer *p)
{
	auto_buf struct buf b = BUF_INIT(16);
	wire_u64(&b, 0);
	wire_u64(&b, 100);
	say(p, M_GAP, 1, b.p, b.n);
	say_data(p, 1, 100, "x", 1);
	say_exit(p, 0, NULL);
}

static void test_gap_is_told(void **state)
{
	struct ends x;
	struct err e;
	struct pump_result r;
	(void)state;
	open_ends(&x);
	pid_t pid = start_cell(gaps);
	struct pump_spec s = spec_of(&x);
	assert_int_equal(pump_run(&s, &r, &e), 0);
	text_is(x.out[0], "x");
	text_is(x.err[0], "skep: [100 bytes of stdout were not kept]\n");
	pump_result_done(&r);
	ended_well(pid);
	close_ends(&x);
}

static void expect_signal(struct peer *p)
{
	struct frame f;
	if (kill(getppid(), SIGUSR1))
		_exit(96);
	hear_type(p, &f, M_SIGNAL);
	if (wire_get_u32(&(struct wire){.p = f.p, .n = f.n}) != SIGUSR1)
		_exit(97);
	say_exit(p, 0, NULL);
}

static void test_signals_are_forwarded(void **state)
{
	struct ends x;
	struct err e;
	struct pump_result r;
	sigset_t usr1, before;
	(void)state;
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, &before); // it may come before the pump listens
	open_ends(&x);
	pid_t pid = start_cell(expect_signal);
	struct pump_spec s = spec_of(&x);
	s.forward = true;
	assert_int_equal(pump_run(&s, &r, &e), 0);
	sigprocmask(SIG_SETMASK, &before, NULL);
	pump_result_done(&r);
	ended_well(pid);
	close_ends(&x);
}

static void closes_stdin(struct peer *p)
{
	struct frame f;
	say_credit(p, 100, 0);
	hear_type(p, &f, M_DATA);
	say_credit(p, UINT64_MAX, 3);
	poll(NULL, 0, 50);
	say_exit(p, 0, NULL);
}

// Whoever writes to our stdin sees the exec close its own.
static void test_stdin_closed_by_the_exec(void **state)
{
	struct ends x;
	struct err e;
	struct pump_result r;
	(void)state;
	open_ends(&x);
	assert_int_equal(write(x.in[1], "abc", 3), 3);
	pid_t pid = start_cell(closes_stdin);
	struct pump_spec s = spec_of(&x);
	assert_int_equal(pump_run(&s, &r, &e), 0);
	ended_well(pid); // it held a copy of the pipe
	assert_int_equal(write(x.in[1], "abc", 3), -1);
	assert_int_equal(errno, EPIPE);
	pump_result_done(&r);
	close_ends(&x);
}

static void joins_late(struct peer *p)
{
	struct frame f;
	say_credit(p, 5002, 5000); // sent by others: two more fit
	hear_type(p, &f, M_DATA);
	if (wire_get_u64(&(struct wire){.p = f.p, .n = f.n}) != STDIN_APPEND || f.n != 8 + 2)
		_exit(98);
	say_exit(p, 0, NULL);
}

static void test_join_behind_earlier_input(void **state)
{
	struct ends x;
	struct err e;
	struct pump_result r;
	(void)state;
	open_ends(&x);
	assert_int_equal(write(x.in[1], "abc", 3), 3);
	pid_t pid = start_cell(joins_late);
	struct pump_spec s = spec_of(&x);
	s.join = true;
	assert_int_equal(pump_run(&s, &r, &e), 0);
	pump_result_done(&r);
	ended_well(pid);
	close_ends(&x);
}

static void say_hit(struct peer *p, const char *limit, const char *msg)
{
	auto_buf struct buf b = BUF_INIT(4096);
	wire_str(&b, limit);
	wire_str(&b, msg);
	say(p, M_HIT, 0, b.p, b.n);
}

static void limits_hit(struct peer *p)
{
	say_hit(p, "disk", "the disk is full");
	say_hit(p, "disk", "the disk is full");
	say_hit(p, "memory", "no\x1bmore");
	say_exit(p, 137, "the disk is full");
	close(p->c.fd);
}

static void test_hits_are_told_once(void **state)
{
	struct ends x;
	struct err e;
	struct pump_result r;
	(void)state;
	for (int wanted = 1; wanted >= 0; wanted--) {
		open_ends(&x);
		pid_t pid = start_cell(limits_hit);
		struct pump_spec s = spec_of(&x);
		s.hits = wanted;
		assert_int_equal(pump_run(&s, &r, &e), 0);
		close_fd(&x.err[1]);
		text_is(x.err[0], wanted ? "skep: the disk is full\nskep: no\\x1bmore\n" : "");
		assert_int_equal(pump_has_told(&r, r.exit.reason), wanted);
		pump_result_done(&r);
		ended_well(pid);
		close_ends(&x);
		unlink(sock);
	}
}

// --- the place for what is copied out ---

static void put(int fd, const char *path, const char *text)
{
	struct err e;
	assert_int_equal(fs_write(fd, path, text, strlen(text), 0644, &e), 0);
}

static void test_place(void **state)
{
	struct err e;
	struct place p;
	auto_fd int top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_free char *there = xasprintf("%s/there", dir), *fresh = xasprintf("%s/fresh", dir),
		       *none = xasprintf("%s/no/such", dir);
	(void)state;
	mkdirat(top, "there", 0755);
	mkdirat(top, "there/t", 0755);
	put(top, "there/t/old", "old");
	put(top, "there/t/both", "old");

	assert_int_equal(place_open(&p, there, false, "t", &e), 0);
	mkdirat(p.temp, "t", 0755);
	put(p.temp, "t/both", "new");
	put(p.temp, "other", "not asked for");
	assert_int_equal(fchmodat(p.temp, "t", 0555, 0), 0);
	assert_int_equal(place_move(&p, 022, &e), 0);
	place_close(&p);
	auto_buf struct buf b = BUF_INIT(64);
	assert_int_equal(fs_read(top, "there/t/both", &b, &e), 0);
	assert_string_equal(buf_cstr(&b), "new");
	assert_true(fs_exists(top, "there/t/old") && !fs_exists(top, "there/other"));

	assert_int_equal(place_open(&p, fresh, false, "t", &e), 0);
	put(p.temp, "t", "file");
	assert_int_equal(place_move(&p, 022, &e), 0);
	place_close(&p);
	assert_true(fs_exists(top, "fresh"));

	assert_int_equal(place_open(&p, fresh, true, "t", &e), -1);
	assert_int_equal(place_open(&p, none, false, "t", &e), -1);
	assert_int_equal(place_open(&p, there, false, "t", &e), 0);
	assert_int_equal(place_move(&p, 022, &e), -1); // nothing was made
	place_close(&p);
}

static mode_t mode_of(int fd, const char *path)
{
	struct stat st;
	assert_int_equal(fstatat(fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st.st_mode & 07777;
}

static void test_place_masks_modes(void **state)
{
	struct err e;
	struct place p;
	auto_fd int top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_free char *there = xasprintf("%s/there", dir);
	(void)state;
	mkdirat(top, "there", 0755);
	assert_int_equal(place_open(&p, there, false, "t", &e), 0);
	mkdirat(p.temp, "t", 0700);
	mkdirat(p.temp, "t/open", 0700);
	mkdirat(p.temp, "t/shut", 0700);
	put(p.temp, "t/open/f", "1");
	put(p.temp, "t/shut/f", "1");
	assert_int_equal(symlinkat("/etc/passwd", p.temp, "t/link"), 0);
	assert_int_equal(fchmodat(p.temp, "t/open/f", 0777, 0) | fchmodat(p.temp, "t/shut/f", 0666, 0), 0);
	assert_int_equal(fchmodat(p.temp, "t/open", 0777, 0) | fchmodat(p.temp, "t/shut", 0050, 0), 0);
	assert_int_equal(fchmodat(p.temp, "t", 0775, 0), 0);
	assert_int_equal(place_move(&p, 027, &e), 0);
	place_close(&p);
	assert_int_equal(mode_of(top, "there/t"), 0750);
	assert_int_equal(mode_of(top, "there/t/open"), 0750);
	assert_int_equal(mode_of(top, "there/t/open/f"), 0750);
	assert_int_equal(mode_of(top, "there/t/shut"), 0050);
	assert_int_equal(fchmodat(top, "there/t/shut", 0700, 0), 0);
	assert_int_equal(mode_of(top, "there/t/shut/f"), 0640);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_streams_and_status, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stdin_within_credit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slow_reader, setup, teardown),
		cmocka_unit_test_setup_teardown(test_failures, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reader_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_last_words, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gap_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(test_signals_are_forwarded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stdin_closed_by_the_exec, setup, teardown),
		cmocka_unit_test_setup_teardown(test_join_behind_earlier_input, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hits_are_told_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_place, setup, teardown),
		cmocka_unit_test_setup_teardown(test_place_masks_modes, setup, teardown),
	};
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests_name("cli/pump", tests, NULL, NULL);
}
