// SPDX-License-Identifier: Apache-2.0
// HTTP/1.x messages of the gate: what is taken, what is refused because two readers could disagree, what goes on.
#include "base/mem.h"
#include "gate/h1.h"
#include "gate/override.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
// cmocka wants the headers above it
#include <cmocka.h>

static ssize_t read_request(const char *text, struct h1_message *m)
{
	struct err e;
	return h1_read_request(text, strlen(text), m, &e);
}

static void test_request(void **state)
{
	static const char text[] =
		"POST /a?b=c HTTP/1.1\r\nHost: api.test:8443\r\nContent-Length: 5\r\nX-A: b\r\nX-Hop: 1\r\n"
		"Connection: keep-alive, X-Hop\r\nTE: trailers, deflate\r\nKeep-Alive: 3\r\n\r\nhello";
	struct h1_message m;
	auto_buf struct buf out = BUF_INIT(4096);
	(void)state;
	for (size_t n = 0; n < strlen(text) - 5; n++) {
		struct err e;
		assert_int_equal(h1_read_request(text, n, &m, &e), 0);
	}
	assert_int_equal(read_request(text, &m), (ssize_t)strlen(text) - 5);
	assert_string_equal(m.authority, "api.test:8443");
	assert_true(m.body == BODY_LENGTH && m.length == 5 && m.keep && !m.old && !m.websocket);
	h1_put_request(&m, "api.test", &out);
	assert_string_equal(buf_cstr(&out), "POST /a?b=c HTTP/1.1\r\nHost: api.test\r\nX-A: b\r\nTE: trailers\r\n"
					    "Content-Length: 5\r\n\r\n");
	h1_message_done(&m);
}

static void test_refused(void **state)
{
	static const char *const bad[] = {
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;x\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\x0b"
		"chunked\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n",
		"GET / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET / HTTP/1.1\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n folded\r\n\r\n",
		"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
		"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
		"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n",
		"GE(T / HTTP/1.1\r\nHost: a\r\n\r\n",
		" / HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.2\r\nHost: a\r\n\r\n",
		"GET / http/1.1\r\nHost: a\r\n\r\n",
		"GET /\r\n\r\n",
		"\r\n\r\n",
		"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\n\r\n",
	};
	struct h1_message m;
	(void)state;
	for (size_t i = 0; i < countof(bad); i++)
		if (read_request(bad[i], &m) != -1)
			fail_msg("taken: %s", bad[i]);
}

static void test_authority(void **state)
{
	struct h1_message m;
	(void)state;
	assert_true(read_request("GET / HTTP/1.1\r\n\r\n", &m) > 0);
	assert_null(m.authority);
	h1_message_done(&m);
	assert_true(read_request("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", &m) > 0);
	assert_null(m.authority);
	assert_null(head_get(&m.head, "Host"));
	h1_message_done(&m);
}

static void test_upgrade(void **state)
{
	struct h1_message m;
	auto_buf struct buf out = BUF_INIT(4096);
	(void)state;
	assert_true(read_request("GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
				 &m) > 0);
	assert_true(m.websocket);
	h1_put_request(&m, "a", &out);
	assert_string_equal(buf_cstr(&out),
			    "GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
	h1_message_done(&m);
	assert_true(read_request("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n"
				 "HTTP2-Settings: AAA\r\n\r\n",
				 &m) > 0);
	assert_false(m.websocket);
	assert_int_equal(m.head.n, 0); // a protocol that could not be judged is not offered
	h1_message_done(&m);
}

// Connection may not take away what says whose request it is and where it ends.
static void test_connection_names(void **state)
{
	struct h1_message m;
	(void)state;
	assert_true(
		read_request("POST / HTTP/1.1\r\nHost: a\r\nConnection: Host, Content-Length, Authorization, X-Y\r\n"
			     "Content-Length: 3\r\nAuthorization: z\r\nX-Y: 1\r\n\r\n",
			     &m) > 0);
	assert_string_equal(m.authority, "a");
	assert_true(m.body == BODY_LENGTH && m.length == 3);
	assert_non_null(head_get(&m.head, "Authorization"));
	assert_null(head_get(&m.head, "X-Y"));
	h1_message_done(&m);
}

static ssize_t read_answer(const char *text, bool to_head, struct h1_message *m)
{
	struct err e;
	return h1_read_answer(text, strlen(text), to_head, m, &e);
}

static void framing_is(const char *text, bool to_head, enum body_kind kind, bool keep)
{
	struct h1_message m;
	assert_true(read_answer(text, to_head, &m) > 0);
	if (m.body != kind || m.keep != keep)
		fail_msg("%s: body %d keep %d", text, m.body, m.keep);
	h1_message_done(&m);
}

static void test_answers(void **state)
{
	struct h1_message m;
	(void)state;
	framing_is("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", false, BODY_LENGTH, true);
	framing_is("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", true, BODY_NONE, true);
	framing_is("HTTP/1.1 204 No\r\n\r\n", false, BODY_NONE, true);
	framing_is("HTTP/1.1 304 No\r\nContent-Length: 3\r\n\r\n", false, BODY_NONE, true);
	framing_is("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false, BODY_CHUNKED, true);
	framing_is("HTTP/1.1 200 OK\r\n\r\n", false, BODY_EOF, false);
	framing_is("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\n", false, BODY_LENGTH, false);
	framing_is("HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n", false, BODY_LENGTH, false);
	assert_int_equal(read_answer("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false, &m), -1);
	assert_int_equal(read_answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", false, &m), -1);
}

static void test_put_answer(void **state)
{
	struct h1_message m;
	auto_buf struct buf out = BUF_INIT(4096);
	(void)state;
	assert_true(
		read_answer(
			"HTTP/1.1 200 any text s3cret\r\nContent-Length: 3\r\nX: y\r\nConnection: X-Z\r\nX-Z: 1\r\n\r\n",
			false, &m) > 0);
	h1_put_answer(&m, BODY_LENGTH, true, &out);
	assert_string_equal(buf_cstr(&out), "HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 3\r\n\r\n");
	buf_clear(&out);
	h1_put_answer(&m, BODY_CHUNKED, false, &out);
	assert_string_equal(buf_cstr(&out),
			    "HTTP/1.1 200 OK\r\nX: y\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
	h1_message_done(&m);
}

static void test_bodies(void **state)
{
	static const char chunked[] = "5\r\nhello\r\n0\r\nX-T: 1\r\n\r\nnext";
	struct h1_message m = {.body = BODY_CHUNKED};
	struct err e;
	(void)state;
	for (size_t step = 1; step < sizeof chunked; step++) {
		struct body b;
		auto_buf struct buf out = BUF_INIT(64);
		size_t at = 0;
		body_init(&b, &m);
		while (!b.done) {
			size_t k = sizeof chunked - 1 - at < step ? sizeof chunked - 1 - at : step;
			ssize_t used = body_take(&b, chunked + at, k, &out, &e);
			assert_true(used > 0);
			at += (size_t)used;
		}
		assert_string_equal(buf_cstr(&out), "hello");
		assert_string_equal(buf_cstr(&b.trailer), "X-T: 1\r\n");
		assert_string_equal(chunked + at, "next");
		body_done(&b);
	}
	struct body b;
	auto_buf struct buf out = BUF_INIT(64);
	body_init(&b, &(struct h1_message){.body = BODY_LENGTH, .length = 3});
	assert_int_equal(body_take(&b, "abcdef", 6, &out, &e), 3);
	assert_true(b.done);
	body_done(&b);
}

static void test_trailers(void **state)
{
	static const char *const bad[] = {"Content-Length: 1\r\n", "Transfer-Encoding: chunked\r\n", "Host: x\r\n",
					  "X\r\n", "X: a\nY: b\r\n"};
	struct http_head h;
	struct err e;
	(void)state;
	assert_int_equal(http_trailer_parse("A: b\r\nC: d\r\n", 12, &h, &e), 0);
	assert_int_equal(h.n_fields, 2);
	for (size_t i = 0; i < countof(bad); i++)
		assert_int_equal(http_trailer_parse(bad[i], strlen(bad[i]), &h, &e), -1);
}

static void test_put_body(void **state)
{
	auto_buf struct buf out = BUF_INIT(256);
	struct head t = {0};
	(void)state;
	head_add(&t, str_of("X"), str_of("y"));
	h1_put_body(BODY_CHUNKED, "", 0, &out); // would be the end
	h1_put_body(BODY_CHUNKED, "0123456789abcdef", 16, &out);
	h1_put_end(BODY_CHUNKED, &t, &out);
	assert_string_equal(buf_cstr(&out), "10\r\n0123456789abcdef\r\n0\r\nX: y\r\n\r\n");
	buf_clear(&out);
	h1_put_body(BODY_LENGTH, "abc", 3, &out);
	h1_put_end(BODY_LENGTH, NULL, &out);
	assert_string_equal(buf_cstr(&out), "abc");
	head_done(&t);
}

static bool is_overridden(const char *path, const char *field, bool method, bool by_path)
{
	struct head h = {.path = xstrdup(path)};
	if (field)
		head_add(&h, str_of(field), str_of("DELETE"));
	bool yes = head_override(&h, (struct looked_at){method, by_path});
	head_done(&h);
	return yes;
}

static void test_override(void **state)
{
	static const char *const methods[] = {"X-HTTP-Method-Override", "x_http_method_override", "X-Http-Method", "X-METHOD-OVERRIDE"};
	static const char *const paths[] = {"X-Original-URL", "x-rewrite_url"};
	static const char *const more_methods[] = {"X-Method", "HTTP-Method", "X-HTTP-Verb", "x.http.verb.override", "X-HTTP-Methods"};
	static const char *const more_paths[] = {"X-Original-URI", "X-Forwarded-URI", "X-HTTP-DestinationURL", "X_Envoy_Original_Path", "X-Replaced-Path", "x-request-uri",
						 "Path-Info", "Destination", "X-Forwarded-Prefix", "X-Amz-Copy-Source", "Script-Name", "X-Rewritten", "X-Url-Scheme", "Base-URL"};
	static const char *const harmless[] = {"X-Amz-Security-Token", "Access-Control-Request-Method", "Upgrade-Insecure-Requests", "Referer", "Origin", "User-Agent",
					       "X-Stainless-Retry-Count", "If-Match", "Cache-Control", "X-Requested-With", "Purpose", "X-GitHub-Api-Version"};
	static const char *const queries[] = {"/?$httpMethod=PUT", "/?X-HTTP-Method-Override=PUT", "/?.method=PUT", "/?%5b_METHOD%5d=PUT", "/?_method=PUT", "/a?b=1&_method", "/a?%5Fmethod=x", "/a?b;_method=x"};
	(void)state;
	for (size_t i = 0; i < countof(methods); i++)
		assert_true(is_overridden("/", methods[i], true, false) && !is_overridden("/", methods[i], false, true));
	for (size_t i = 0; i < countof(paths); i++)
		assert_true(is_overridden("/", paths[i], false, true) && !is_overridden("/", paths[i], true, false));
	for (size_t i = 0; i < countof(queries); i++)
		assert_true(is_overridden(queries[i], NULL, true, true) && !is_overridden(queries[i], NULL, false, true));
	for (size_t i = 0; i < countof(more_methods); i++)
		assert_true(is_overridden("/", more_methods[i], true, false));
	for (size_t i = 0; i < countof(more_paths); i++)
		assert_true(is_overridden("/", more_paths[i], false, true));
	for (size_t i = 0; i < countof(harmless); i++)
		assert_false(is_overridden("/_method=x?my_method=y&method=z", harmless[i], true, true));
}

static void test_forms(void **state)
{
	static const struct {
		const char *type, *body;
		bool says;
	} rows[] = {
		{"application/x-www-form-urlencoded", "_method=PUT", true},
		{"Application/X-WWW-Form-URLencoded; charset=utf-8", "a=1&b=_method&%5Fmeth%6Fd=PUT", true},
		{"application/x-www-form-urlencoded", "a=1;_method=PUT", true},
		{"application/x-www-form-urlencoded", "a=_method=b&method=c&my_method=d", false},
		{NULL, "_method=PUT", true},
		{"application/json", "{\"_method=\": 1, \"x\": \"&_method=PUT\"}", false},
		{"multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"_method\"\r\n\r\nPUT\r\n--b--\r\n", true},
		{"multipart/form-data; boundary=b", "--b\ncontent-disposition: form-data;\n Name = _method\n\nPUT\n--b--\n", true},
		{"multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name*=utf-8''%5fmethod\r\n\r\nPUT", true},
		{"multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"m\"\r\n\r\nname=\"_method\"\r\n--b--\r\n", false},
	};
	(void)state;
	for (size_t i = 0; i < countof(rows); i++) {
		struct head h = {.method = xstrdup("POST"), .path = xstrdup("/")};
		struct form_scan f;
		bool says = false;
		if (rows[i].type)
			head_add(&h, str_of("content-type"), str_of(rows[i].type));
		form_scan_begin(&f, &h, (struct looked_at){.method = true});
		for (const char *p = rows[i].body; *p; p++)
			says |= form_scan_add(&f, p, 1);
		if (says != rows[i].says)
			fail_msg("row %zu", i);
		form_scan_begin(&f, &h, (struct looked_at){.path = true});
		assert_false(form_scan_add(&f, rows[i].body, strlen(rows[i].body)));
		head_add(&h, str_of("Content-Encoding"), str_of("gzip"));
		bool form = !rows[i].type || !strstr(rows[i].type, "json");
		assert_int_equal(head_override(&h, (struct looked_at){.method = true}) != NULL, form);
		head_done(&h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_request),		 cmocka_unit_test(test_refused),
		cmocka_unit_test(test_authority),	 cmocka_unit_test(test_upgrade),
		cmocka_unit_test(test_connection_names), cmocka_unit_test(test_answers),
		cmocka_unit_test(test_put_answer),	 cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_trailers),	 cmocka_unit_test(test_put_body),
		cmocka_unit_test(test_override),	 cmocka_unit_test(test_forms),
	};
	return cmocka_run_group_tests_name("gate/h1", tests, NULL, NULL);
}
