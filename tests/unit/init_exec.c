// SPDX-License-Identifier: Apache-2.0
// An exec's exit is sent behind its last bytes, whatever was seen of its streams before. The loop never runs here: each step
// of init is called by hand, so that the order of events is the test's.
#include "base/mem.h"
#include "init/exec.h"
#include "model/limits.h"
#include "model/msg.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

struct rig {
	struct loop loop;
	struct chan init, cell; // the two ends of init's channel
	struct chore over;
	struct exec *exec;
	struct buf out[2];
	bool exited;
	int status;
};

static void on_over(struct chore *t)
{
	(void)t;
}

static int setup(void **state)
{
	struct rig *r = xcalloc(1, sizeof *r);
	struct err e;
	int sv[2];
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(loop_init(&r->loop, &e), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	chan_init(&r->init, sv[0]);
	chan_init(&r->cell, sv[1]);
	r->over.fn = on_over;
	r->out[0] = r->out[1] = BUF_INIT(4096);
	exec_init(&r->over);
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	struct rig *r = *state;
	if (r->exec) {
		kill(-r->exec->group, SIGKILL); // what it left in the background
		exec_free(r->exec);
	}
	chan_close(&r->init);
	chan_close(&r->cell);
	buf_done(&r->out[0]);
	buf_done(&r->out[1]);
	loop_done(&r->loop);
	free(r);
	return 0;
}

static void exec_begin(struct rig *r, char *script)
{
	char sh[] = "/bin/sh", c[] = "-c", path[] = "PATH=/usr/bin:/bin", *argv[] = {sh, c, script, NULL}, *env[] = {path, NULL};
	struct init_opts o = {.uid = getuid(), .gid = getgid(), .profile = PROFILE_USER, .ws_path = "/"};
	struct exec_spec s = {.id = "xabcdefghijk0123", .kind = EXEC_COMMAND, .argv = argv, .env = env, .want_stdin = true};
	struct err e;
	r->exec = exec_start(&o, &r->loop, &r->init, 1, &s, &e);
	assert_non_null(r->exec);
}

// As a signal to init would have it: the command is over, and init learns that now.
static void exec_wait(struct rig *r)
{
	int status;
	assert_int_equal(waitpid(r->exec->pid, &status, 0), r->exec->pid);
	exec_reaped(r->exec, status);
}

// Reads what the cell was sent. Bytes behind the exit are what this file is about: none may come.
static void frames_take(struct rig *r)
{
	struct frame f;
	struct err e;
	assert_int_equal(shutdown(r->init.fd, SHUT_WR), 0);
	while (!chan_recv(&r->cell, &f, &e)) {
		if (f.type == M_DATA) {
			assert_false(r->exited);
			assert_in_range(f.stream, 1, 2);
			buf_add(&r->out[f.stream - 1], f.p, f.n);
		}
		if (f.type == M_EXIT) {
			assert_false(r->exited);
			r->exited = true;
			struct wire w = {.p = f.p, .n = f.n};
			r->status = (int)wire_get_u32(&w);
		}
	}
}

// The channel had been full, and all streams were found empty when there was room again. Bytes and the end come after that.
static void bytes_after_an_empty_read_precede_the_exit(void **state)
{
	struct rig *r = *state;
	char script[] = "read x; echo words >&2; exit 3";
	exec_begin(r, script);
	exec_pump_all(r->exec);
	exec_input(r->exec, "\n", 1);
	exec_wait(r);
	frames_take(r);
	assert_string_equal(buf_cstr(&r->out[1]), "words\n");
	assert_true(r->exited);
	assert_int_equal(WEXITSTATUS(r->status), 3);
}

static void both_streams_precede_the_exit(void **state)
{
	struct rig *r = *state;
	char script[] = "read x; echo out; echo err >&2";
	exec_begin(r, script);
	exec_pump_all(r->exec);
	exec_input(r->exec, "\n", 1);
	exec_wait(r);
	frames_take(r);
	assert_string_equal(buf_cstr(&r->out[0]), "out\n");
	assert_string_equal(buf_cstr(&r->out[1]), "err\n");
	assert_true(r->exited);
}

// A stream without credit is not read: the exit waits until its reader has taken what came before.
static void the_exit_waits_for_credit(void **state)
{
	struct rig *r = *state;
	char script[] = "read x; echo words >&2";
	exec_begin(r, script);
	exec_pump_all(r->exec);
	exec_credit(r->exec, 2, 0);
	exec_input(r->exec, "\n", 1);
	exec_wait(r);
	assert_false(r->exec->reported);
	exec_credit(r->exec, 2, LIMIT_OUTPUT_WINDOW);
	assert_true(r->exec->reported);
	frames_take(r);
	assert_string_equal(buf_cstr(&r->out[1]), "words\n");
}

// A background process that holds the streams does not hold up the exit.
static void a_held_stream_does_not_delay_the_exit(void **state)
{
	struct rig *r = *state;
	char script[] = "sleep 600 & read x; echo words >&2";
	exec_begin(r, script);
	exec_pump_all(r->exec);
	exec_input(r->exec, "\n", 1);
	exec_wait(r);
	assert_true(r->exec->reported);
	frames_take(r);
	assert_string_equal(buf_cstr(&r->out[1]), "words\n");
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(bytes_after_an_empty_read_precede_the_exit),
		T(both_streams_precede_the_exit),
		T(the_exit_waits_for_credit),
		T(a_held_stream_does_not_delay_the_exit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
