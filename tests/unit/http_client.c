// SPDX-License-Identifier: Apache-2.0
// The client against scripted answers on a socket pair: what is asked, what is read, what is refused.
#include "base/fs.h"
#include "base/mem.h"
#include "http/client.h"
#include <sys/socket.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
// cmocka wants the headers above it
#include <cmocka.h>

struct pair {
	struct http_client c;
	int server;
};

static void open_pair(struct pair *p)
{
	int sv[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	http_client_init(&p->c, sv[0]);
	p->server = sv[1];
}

static void close_pair(struct pair *p)
{
	http_client_done(&p->c);
	close_fd(&p->server);
}

static void answer(struct pair *p, const char *text)
{
	struct err e;
	assert_int_equal(fs_write_all(p->server, text, strlen(text), &e), 0);
}

static void test_two_calls_on_one_connection(void **state)
{
	struct pair p;
	struct err e;
	char asked[512] = "";
	auto_http_reply struct http_reply r = {0};
	(void)state;
	open_pair(&p);
	answer(&p, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
		   "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
	struct http_request get = {.method = "GET", .path = "/v1/x"},
			    post = {.method = "POST", .path = "/y", .body = "{}", .body_len = 2};
	assert_int_equal(http_call(&p.c, &get, &r, &e), 0);
	assert_string_equal(buf_cstr(&r.body), "hello");
	assert_int_equal(http_call(&p.c, &post, &r, &e), 0);
	assert_int_equal(r.head.status, 201);
	assert_string_equal(buf_cstr(&r.body), "abc");
	assert_true(read(p.server, asked, sizeof asked - 1) > 0);
	assert_non_null(strstr(asked, "GET /v1/x HTTP/1.1\r\nHost: skep\r\n\r\n"));
	assert_non_null(strstr(asked, "Content-Length: 2\r\n\r\n{}"));
	close_pair(&p);
}

static void test_no_content_and_close(void **state)
{
	struct pair p;
	struct err e;
	auto_http_reply struct http_reply r = {0};
	struct http_request rq = {.method = "DELETE", .path = "/"};
	(void)state;
	open_pair(&p);
	answer(&p, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
	assert_int_equal(http_call(&p.c, &rq, &r, &e), 0);
	assert_int_equal(r.body.n, 0);
	assert_int_equal(p.c.fd, -1);
	close_pair(&p);
}

static void test_failures(void **state)
{
	static const struct {
		const char *text;
		enum err_kind kind;
	} rows[] = {
		{"", ERR_UNAVAILABLE},
		{"HTTP/1.1 200 OK\r\nContent-Le", ERR_UNAVAILABLE},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", ERR_UNAVAILABLE},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", ERR_UNAVAILABLE},
		{"HTTP/1.1 200 OK\r\n\r\nhello", ERR_INVALID},
		{"nonsense\r\n\r\n", ERR_INVALID},
		{"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", ERR_LIMIT},
	};
	(void)state;
	for (size_t i = 0; i < countof(rows); i++) {
		struct pair p;
		struct err e;
		auto_http_reply struct http_reply r = {0};
		open_pair(&p);
		answer(&p, rows[i].text);
		shutdown(p.server, SHUT_WR);
		assert_int_equal(http_call(&p.c, &(struct http_request){.method = "GET", .path = "/"}, &r, &e), -1);
		assert_int_equal(e.kind, rows[i].kind);
		assert_int_equal(p.c.fd, -1);
		close_pair(&p);
	}
}

static void test_encode(void **state)
{
	auto_buf struct buf b = BUF_INIT(256);
	(void)state;
	http_encode(&b, "a-B_9.~/ ?#%\xff\n");
	assert_string_equal(buf_cstr(&b), "a-B_9.~%2F%20%3F%23%25%FF%0A");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_calls_on_one_connection),
		cmocka_unit_test(test_no_content_and_close),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_encode),
	};
	return cmocka_run_group_tests_name("http/client", tests, NULL, NULL);
}
