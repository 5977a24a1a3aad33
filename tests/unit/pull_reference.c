// SPDX-License-Identifier: Apache-2.0
// References to images, and where a registry is reached.
#include "base/mem.h"
#include "model/imageref.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void references_have_one_form(void **state)
{
	static const struct {
		const char *text, *canonical;
	} rows[] = {
		{"alpine", "docker.io/library/alpine:latest"},
		{"alpine:3.20", "docker.io/library/alpine:3.20"},
		{"user/tool", "docker.io/user/tool:latest"},
		{"docker.io/alpine", "docker.io/library/alpine:latest"},
		{"index.docker.io/user/tool:1", "docker.io/user/tool:1"},
		{"registry-1.docker.io/library/alpine", "docker.io/library/alpine:latest"},
		{"localhost/x", "localhost/x:latest"},
		{"localhost:5000/x", "localhost:5000/x:latest"},
		{"LOCALHOST:5000/x:V1", "localhost:5000/x:V1"},
		{"[::1]:5000/x", "[::1]:5000/x:latest"},
		{"127.0.0.1:80/a/b/c", "127.0.0.1:80/a/b/c:latest"},
		{"ghcr.io/a/b@sha256:" HEX, "ghcr.io/a/b@sha256:" HEX},
		{"ghcr.io/a/b:1@sha256:" HEX, "ghcr.io/a/b:1@sha256:" HEX},
		{"alpine@sha256:" HEX, "docker.io/library/alpine@sha256:" HEX},
		{"a.b/c__d/e--f/g.h", "a.b/c__d/e--f/g.h:latest"},
	};
	(void)state;
	for (size_t i = 0; i < countof(rows); i++) {
		struct image_ref r;
		struct err e = {0};
		if (image_ref_parse(rows[i].text, &r, &e))
			fail_msg("%s: %s", rows[i].text, e.msg);
		auto_free char *text = image_ref_text(&r);
		assert_string_equal(text, rows[i].canonical);
		image_ref_done(&r);
		assert_int_equal(image_ref_parse(text, &r, &e), 0); // the canonical form is its own
		auto_free char *again = image_ref_text(&r);
		assert_string_equal(again, text);
		image_ref_done(&r);
	}
}

static void what_is_no_reference_is_refused(void **state)
{
	static const char *const rows[] = {
		"", "Alpine", "alpine:", "alpine:-x", "a//b", "/a", "a/", "https://ghcr.io/a", "docker://alpine", "a@sha256:abc", "a@md5:" HEX,
		"a@sha256:" HEX "0", "host:0/x", "host:99999/x", "host:5000x/a", "ho st.x/a", "a b", "a\n", "a..b/x", "user@host.x/a", "a.b:80:90/x",
		"x/-a", "x/a-", "x/a..b", "x/a___b", "../x", "a/../b", "localhost:5000/", "[::1/x", "[]:1/x", "a:b/c:d:e", "\xc3\xa4pfel", "a?b", "a#b", "a%2fb",
	};
	(void)state;
	for (size_t i = 0; i < countof(rows); i++) {
		struct image_ref r = {0};
		struct err e = {0};
		if (!image_ref_parse(rows[i], &r, &e))
			fail_msg("\"%s\" was taken as %s / %s", rows[i], r.registry, r.repository);
		assert_int_equal(e.kind, ERR_INVALID);
		assert_null(r.registry);
	}
}

static void registries_are_reached_where_the_site_says(void **state)
{
	char hub[] = "docker.io=http://localhost:5000", own[] = "ghcr.io=https://mirror.test/gh/", all[] = "*=https://all.test:8443/any", plain[] = "plain.test:80";
	char *mirrors[] = {hub, own, all, NULL}, *insecure[] = {plain, NULL};
	static const struct {
		const char *ref;
		bool mirrored;
		const char *host, *prefix;
		bool https, http;
	} rows[] = {
		{"alpine", false, "registry-1.docker.io", "", true, false},
		{"alpine", true, "localhost:5000", "", false, true},
		{"ghcr.io/a/b", true, "mirror.test", "gh/", true, false},
		{"quay.io/a/b", true, "all.test:8443", "any/", true, false},
		{"localhost:7000/a", true, "localhost:7000", "", true, true},
		{"127.0.0.2:7000/a", false, "127.0.0.2:7000", "", true, true},
		{"plain.test:80/a", false, "plain.test:80", "", true, true},
		{"plain.test:81/a", false, "plain.test:81", "", true, false},
		{"127.0.0.1.example.org/a", false, "127.0.0.1.example.org", "", true, false},
	};
	(void)state;
	for (size_t i = 0; i < countof(rows); i++) {
		struct image_ref r;
		struct image_endpoint at;
		struct err e;
		assert_int_equal(image_ref_parse(rows[i].ref, &r, &e), 0);
		image_endpoint_of(&r, rows[i].mirrored ? mirrors : NULL, insecure, &at);
		assert_string_equal(at.host, rows[i].host);
		assert_string_equal(at.prefix, rows[i].prefix);
		assert_int_equal(at.https, rows[i].https);
		assert_int_equal(at.http, rows[i].http);
		image_endpoint_done(&at);
		image_ref_done(&r);
	}
}

static void mirrors_are_checked(void **state)
{
	static const char *const good[] = {"docker.io=http://localhost:5000", "*=https://a.test", "*=https://a.test/", "*=https://a.test/x/y"};
	static const char *const bad[] = {"", "docker.io", "docker.io=", "=http://a", "docker.io=ftp://a", "docker.io=a.test", "*=https://", "*=http://u@a.test",
					  "*=https://a.test/X", "*=https://a.test/../y", "*=https://a.test?x", "a b=https://a.test"};
	struct err e;
	(void)state;
	for (size_t i = 0; i < countof(good); i++)
		if (image_mirror_check(good[i], &e))
			fail_msg("%s", good[i]);
	for (size_t i = 0; i < countof(bad); i++)
		if (!image_mirror_check(bad[i], &e))
			fail_msg("%s", bad[i]);
}

static void hosts_are_compared_for_logins(void **state)
{
	(void)state;
	assert_true(image_host_same("docker.io:443", "registry-1.docker.io"));
	assert_true(image_host_same("ghcr.io", "GHCR.io:443"));
	assert_true(image_host_same("localhost:5000", "localhost:5000"));
	assert_false(image_host_same("localhost:5000", "localhost:5001"));
	assert_false(image_host_same("docker.io", "docker.io.example.org"));
	assert_false(image_host_same("ghcr.io:80", "ghcr.io"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(references_have_one_form),
		cmocka_unit_test(what_is_no_reference_is_refused),
		cmocka_unit_test(registries_are_reached_where_the_site_says),
		cmocka_unit_test(mirrors_are_checked),
		cmocka_unit_test(hosts_are_compared_for_logins),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
