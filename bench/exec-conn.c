// SPDX-License-Identifier: Apache-2.0
// Exec in a live cell from an open connection, against bare vfork+exec of the same program, turn by turn.
//
//   exec-conn SKEP_HOME SANDBOX COUNT PROGRAM
//
// Prints "bare NS" and "exec NS" lines. An exec is timed from the request to skepd until the cell reports the exit:
// POST execs, ticket, connect to the cell's socket, HELLO, M_EXIT (docs/api.md, model/msg.h).
#include "base/chan.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "http/client.h"
#include "model/msg.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int wait_exit(struct chan *c, struct err *e)
{
	struct frame f;
	do {
		if (chan_recv(c, &f, e))
			return -1;
		if (f.type == M_ERR)
			return err_set(e, ERR_SYSTEM, "the cell refused");
	} while (f.type != M_EXIT);
	return 0;
}

static int follow(const json_t *attach, struct err *e)
{
	int fd = fs_unix_connect(AT_FDCWD, json_str(attach, "socket"), e);
	if (fd < 0)
		return -1;
	struct chan c;
	chan_init(&c, fd);
	auto_buf struct buf hello = BUF_INIT(4096);
	wire_u32(&hello, PROTO_VERSION);
	wire_u8(&hello, ROLE_CLIENT);
	wire_str(&hello, json_str(attach, "ticket"));
	wire_u64(&hello, 0);
	wire_u64(&hello, 0);
	int rc = chan_send_buf(&c, M_HELLO, 0, &hello) ? wait_exit(&c, e) : err_set(e, ERR_UNAVAILABLE, "cell gone");
	chan_close(&c);
	return rc;
}

static int exec_once(struct http_client *http, const char *path, const char *body, struct err *e)
{
	auto_http_reply struct http_reply reply = {0};
	struct http_request rq = {.method = "POST", .path = path, .body = body, .body_len = strlen(body)};
	if (http_call(http, &rq, &reply, e))
		return -1;
	auto_json json_t *answer = json_read(reply.body.p, reply.body.n, e);
	if (!answer)
		return -1;
	const json_t *attach = json_object_get(answer, "attach");
	if (!attach)
		return err_set(e, ERR_SYSTEM, "%s", buf_cstr(&reply.body));
	return follow(attach, e);
}

static int bare_once(const char *program)
{
	int status;
	pid_t pid = vfork();
	if (!pid) {
		execl(program, program, (char *)NULL);
		_exit(127);
	}
	return waitpid(pid, &status, 0) == pid && !status ? 0 : -1;
}

static int measure(struct http_client *http, const char *sandbox, unsigned long count, const char *program, struct err *e)
{
	auto_free char *path = xasprintf("/v1/sandboxes/%s/execs", sandbox);
	auto_free char *body = xasprintf("{\"argv\":[\"%s\"],\"stdin\":false}", program);
	for (unsigned long i = 0; i < count; i++) {
		uint64_t t0 = now_ns();
		if (bare_once(program))
			return err_set(e, ERR_SYSTEM, "%s failed", program);
		uint64_t t1 = now_ns();
		if (exec_once(http, path, body, e))
			return -1;
		uint64_t t2 = now_ns();
		printf("bare %llu\nexec %llu\n", (unsigned long long)(t1 - t0), (unsigned long long)(t2 - t1));
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct err e;
	if (argc != 5) {
		fprintf(stderr, "usage: exec-conn SKEP_HOME SANDBOX COUNT PROGRAM\n");
		return 2;
	}
	auto_free char *socket_path = xasprintf("%s/run/skepd.sock", argv[1]);
	struct http_client http;
	int fd = fs_unix_connect(AT_FDCWD, socket_path, &e);
	http_client_init(&http, fd);
	int rc = fd < 0 || measure(&http, argv[2], strtoul(argv[3], NULL, 10), argv[4], &e);
	if (rc)
		fprintf(stderr, "exec-conn: %s\n", e.msg);
	http_client_done(&http);
	return rc;
}
