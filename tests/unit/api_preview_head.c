// SPDX-License-Identifier: Apache-2.0
#include "api/preview_head.h"
#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the four above it
#include <cmocka.h>

static struct http_head head;

static const struct http_head *request(const char *text)
{
	struct err e = {0};
	assert_true(http_request_parse(text, strlen(text), &head, &e) > 0);
	return &head;
}

static struct preview_target target(const char *line, const char *fields)
{
	auto_free char *text = xasprintf("%s HTTP/1.1\r\n%s\r\n", line, fields);
	struct preview_target t;
	preview_target_parse(request(text), 49983, &t);
	t.host = (struct str){NULL, 0}; // what it borrowed is gone
	return t;
}

static void whom_it_is_for(void **state)
{
	static const struct {
		const char *line, *fields;
		enum preview_form form;
		const char *sandbox;
		uint16_t port;
	} rows[] = {
		{"GET /", "Host: 3000-sabc.localhost:80\r\n", PREVIEW_HOST, "sabc", 3000},
		{"GET /", "Host: 3000-my-app.example.com\r\n", PREVIEW_HOST, "my-app", 3000},
		{"GET /preview/x/1/", "Host: 65535-a.b\r\n", PREVIEW_HOST, "a", 65535},
		{"GET /", "Host: 3000-sabc\r\n", PREVIEW_NONE, "", 0},
		{"GET /", "Host: localhost\r\n", PREVIEW_NONE, "", 0},
		{"GET /", "Host: 0-sabc.localhost\r\n", PREVIEW_NONE, "", 0},
		{"GET /", "Host: 03-sabc.localhost\r\n", PREVIEW_NONE, "", 0},
		{"GET /", "Host: 65536-sabc.localhost\r\n", PREVIEW_NONE, "", 0},
		{"GET /", "Host: 30-SABC.localhost\r\n", PREVIEW_NONE, "", 0},
		{"GET /", "Host: 30-.localhost\r\n", PREVIEW_NONE, "", 0},
		{"GET /", "Host: 49983-sabc.localhost\r\n", PREVIEW_NONE, "sabc", 49983},
		{"GET /", "Host: 3-s.x\r\nHost: 4-s.x\r\n", PREVIEW_BAD, "s", 3},
		{"GET /preview/sabc/3000", "Host: x\r\n", PREVIEW_PATH, "sabc", 3000},
		{"GET /preview/sabc/3000/a/b?c", "", PREVIEW_PATH, "sabc", 3000},
		{"GET /preview/sabc/3000?c/d", "", PREVIEW_PATH, "sabc", 3000},
		{"GET /preview/sabc/x/", "", PREVIEW_BAD, "", 0},
		{"GET /preview/../3000/", "", PREVIEW_BAD, "", 0},
		{"GET /preview/", "", PREVIEW_BAD, "", 0},
		{"GET /previews", "", PREVIEW_NONE, "", 0},
		{"GET /", "E2b-Sandbox-Id: sabc\r\nE2b-Sandbox-Port: 80\r\n", PREVIEW_HEADERS, "sabc", 80},
		{"GET /", "E2b-Sandbox-Id: sabc\r\n", PREVIEW_BAD, "", 0},
		{"GET /", "E2b-Sandbox-Id: sabc\r\nE2b-Sandbox-Port: 49983\r\n", PREVIEW_NONE, "sabc", 49983},
	};
	(void)state;
	for (size_t i = 0; i < countof(rows); i++) {
		struct preview_target t = target(rows[i].line, rows[i].fields);
		assert_int_equal(t.form, rows[i].form);
		assert_string_equal(t.sandbox, rows[i].sandbox);
		assert_int_equal(t.port, rows[i].port);
	}
	assert_int_equal(target("GET /preview/sabc/3000/a", "").prefix, strlen("/preview/sabc/3000"));
}

static void members_of_a_query(void **state)
{
	static const char *const rows[][2] = {
		{"/?t=1", "/"}, {"/a?t=1&b=2", "/a?b=2"}, {"/a?b=2&t=1", "/a?b=2"}, {"/a?b&t=1&c", "/a?b&c"}, {"/a?tt=1", "/a?tt=1"}, {"/a", "/a"},
		{"/a?t=1&t=2", "/a"}, {"/a?t", "/a"}, {"/a?", "/a?"},
	};
	(void)state;
	for (size_t i = 0; i < countof(rows); i++) {
		auto_buf struct buf b = BUF_INIT(100);
		preview_without(str_of(rows[i][0]), "t", &b);
		assert_string_equal(buf_cstr(&b), rows[i][1]);
	}
	assert_true(str_is(preview_query(str_of("/a?x=1&t=2%26&t=3"), "t"), "2%26"));
	assert_null(preview_query(str_of("/a?tt=2"), "t").p);
	assert_true(str_is(preview_cookie(request("GET / HTTP/1.1\r\nCookie: a=b;  t = c ; t=d\r\n\r\n"), "t", 0), "c"));
	assert_true(str_is(preview_cookie(request("GET / HTTP/1.1\r\nCookie: a=b;  t = c ; t=d\r\n\r\n"), "t", 1), "d"));
}

static char *inwards(const char *text, const struct preview_way *way, struct preview_request *r)
{
	struct err e = {0};
	struct preview_target t;
	struct buf b = BUF_INIT(HTTP_HEAD_MAX);
	preview_target_parse(request(text), 0, &t);
	if (preview_put_request(&head, &t, way, &b, r, &e)) {
		buf_done(&b);
		return NULL;
	}
	return buf_take(&b);
}

static void written_anew_inwards(void **state)
{
	struct preview_request r;
	struct preview_way way = {.peer = "1.2.3.4"};
	(void)state;
	auto_free char *plain = inwards("GET /x?skep_preview=s HTTP/1.1\r\nHost: 80-s.l\r\nConnection: close, A\r\nA: b\r\nC: d\r\n\r\n", &way, &r);
	assert_string_equal(plain, "GET /x HTTP/1.1\r\nHost: localhost:80\r\nC: d\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: http\r\n"
				   "X-Forwarded-Host: 80-s.l\r\nConnection: close\r\n\r\n");
	assert_false(r.keep);
	auto_free char *socket = inwards("GET / HTTP/1.1\r\nHost: 80-s.l\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n", &way, &r);
	assert_true(r.websocket && strstr(socket, "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"));
	auto_free char *posted = inwards("POST / HTTP/1.1\r\nHost: 80-s.l\r\nContent-Length: 7\r\nUpgrade: websocket\r\n\r\n", &way, &r);
	assert_true(!r.websocket && r.keep && r.length == 7 && strstr(posted, "Content-Length: 7\r\n"));
	way = (struct preview_way){.peer = "127.0.0.1", .trusted = true, .keep_host = true};
	auto_free char *proxied = inwards("GET / HTTP/1.1\r\nHost: 80-s.l\r\nX-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: https\r\n"
					  "X-Forwarded-Evil: x\r\n\r\n", &way, &r);
	assert_true(strstr(proxied, "X-Forwarded-For: 9.9.9.9, 127.0.0.1\r\n") && strstr(proxied, "X-Forwarded-Proto: https\r\n") &&
		    strstr(proxied, "Host: 80-s.l\r\n") && !strstr(proxied, "Evil"));
	assert_null(inwards("CONNECT /x HTTP/1.1\r\nHost: 80-s.l\r\n\r\n", &way, &r));
	assert_null(inwards("GET http://x/ HTTP/1.1\r\nHost: 80-s.l\r\n\r\n", &way, &r));
}

static char *outwards(const char *text, enum preview_form form, bool old, struct preview_answer *a)
{
	struct err e = {0};
	struct preview_target t = {.form = form, .sandbox = "s", .port = 80};
	struct preview_request r = {.keep = true};
	struct buf b = BUF_INIT(HTTP_HEAD_MAX);
	assert_true(http_head_parse(text, strlen(text), &head, &e) > 0);
	if (preview_put_answer(&head, &t, &r, old, &b, a, &e)) {
		buf_done(&b);
		return NULL;
	}
	return buf_take(&b);
}

static void written_anew_outwards(void **state)
{
	struct preview_answer a;
	(void)state;
	auto_free char *plain = outwards("HTTP/1.1 200 Evil\r\nContent-Length: 3\r\nKeep-Alive: x\r\nAlt-Svc: y\r\nA: b\r\n\r\n", PREVIEW_HOST, false, &a);
	assert_string_equal(plain, "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 3\r\n\r\n");
	assert_true(a.frame == FRAME_LENGTH && a.length == 3 && !a.chunk && !a.close);
	auto_free char *open = outwards("HTTP/1.0 200\r\n\r\n", PREVIEW_HOST, false, &a);
	assert_string_equal(open, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	assert_true(a.frame == FRAME_END && a.chunk && !a.close);
	auto_free char *old = outwards("HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n", PREVIEW_HOST, true, &a);
	assert_string_equal(old, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
	assert_true(a.frame == FRAME_CHUNKED && !a.chunk && a.close);
	auto_free char *none = outwards("HTTP/1.1 304\r\nContent-Length: 9\r\n\r\n", PREVIEW_HOST, false, &a);
	assert_string_equal(none, "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n");
	assert_true(a.frame == FRAME_NONE);
	auto_free char *path = outwards("HTTP/1.1 302\r\nLocation: /a\r\nSet-Cookie: a=b; path=/; domain=x\r\nClear-Site-Data: *\r\nContent-Length: 0\r\n\r\n",
					PREVIEW_PATH, false, &a);
	assert_true(strstr(path, "Location: /preview/s/80/a\r\n") && strstr(path, "Set-Cookie: a=b; Path=/preview/s/80/\r\n") &&
		    strstr(path, "Content-Security-Policy: sandbox allow-scripts") && !strstr(path, "Clear"));
	assert_null(outwards("HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", PREVIEW_HOST, false, &a));
	assert_null(outwards("HTTP/1.0 200 X\r\nTransfer-Encoding: chunked\r\n\r\n", PREVIEW_HOST, false, &a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whom_it_is_for),
		cmocka_unit_test(members_of_a_query),
		cmocka_unit_test(written_anew_inwards),
		cmocka_unit_test(written_anew_outwards),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
