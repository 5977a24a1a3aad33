// SPDX-License-Identifier: Apache-2.0
// What registries answer: challenges, manifests and indexes, URLs that they lead to.
#include "base/mem.h"
#include "pull/challenge.h"
#include "pull/manifest.h"
#include "pull/pull.h"
#include "pull/url.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"
#define D(n) "sha256:" HEX #n
#define OCI_CONFIG "application/vnd.oci.image.config.v1+json"
#define OCI_MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define TAR "application/vnd.oci.image.layer.v1.tar+gzip"
#define CONFIG "\"config\":{\"mediaType\":\"" OCI_CONFIG "\",\"digest\":\"" D(0) "\",\"size\":7}"

#if defined(__x86_64__)
#define OWN "amd64"
#else
#define OWN "arm64"
#endif

static const char *text_or_none(const char *s)
{
	return s ? s : "-";
}

static void challenges_are_understood(void **state)
{
	static const struct {
		const char *value;
		bool basic, bearer;
		const char *realm, *service, *scope;
	} rows[] = {
		{"Bearer realm=\"https://a/t\",service=\"s\",scope=\"repository:x:pull\"", false, true, "https://a/t", "s", "repository:x:pull"},
		{"bearer realm=\"https://a/t\"", false, true, "https://a/t", "-", "-"},
		{"Basic realm=\"x\"", true, false, "-", "-", "-"},
		{"Basic realm=\"x\", Bearer realm=\"https://b\" , service=plain", true, true, "https://b", "plain", "-"},
		{"Digest realm=\"x\",nonce=\"y\",Basic", true, false, "-", "-", "-"},
		{"Bearer realm = \"https://a\\\"b\"", false, true, "https://a\"b", "-", "-"},
		{"Bearer realm=\"https://a", false, true, "-", "-", "-"},
		{"Bearer realm=\"a\x01\"", false, true, "-", "-", "-"},
		{"Negotiate", false, false, "-", "-", "-"},
		{"", false, false, "-", "-", "-"},
		{",,, ;", false, false, "-", "-", "-"},
	};
	(void)state;
	for (size_t i = 0; i < countof(rows); i++) {
		struct pull_challenge c = {0};
		pull_challenge_add(&c, rows[i].value);
		assert_int_equal(c.basic, rows[i].basic);
		assert_int_equal(c.bearer, rows[i].bearer);
		assert_string_equal(text_or_none(c.realm), rows[i].realm);
		assert_string_equal(text_or_none(c.service), rows[i].service);
		assert_string_equal(text_or_none(c.scope), rows[i].scope);
		pull_challenge_done(&c);
	}
}

static json_t *document(const char *text)
{
	struct err e;
	json_t *j = json_read(text, strlen(text), &e);
	assert_non_null(j);
	return j;
}

static void documents_are_told_apart(void **state)
{
	static const struct {
		const char *text, *type;
		int rc;
		enum pull_document kind;
	} rows[] = {
		{"{\"layers\":[]}", OCI_MANIFEST, 0, PULL_IMAGE},
		{"{\"layers\":[]}", OCI_MANIFEST "; charset=utf-8", 0, PULL_IMAGE},
		{"{\"mediaType\":\"application/vnd.docker.distribution.manifest.v2+json\",\"layers\":[]}", "", 0, PULL_IMAGE},
		{"{\"mediaType\":\"application/vnd.docker.distribution.manifest.list.v2+json\",\"manifests\":[]}", "text/plain", 0, PULL_INDEX},
		{"{\"manifests\":[]}", "application/vnd.oci.image.index.v1+json", 0, PULL_INDEX},
		{"{\"schemaVersion\":1,\"fsLayers\":[]}", "application/vnd.docker.distribution.manifest.v1+prettyjws", -1, PULL_IMAGE},
		{"{\"schemaVersion\":1,\"layers\":[]}", OCI_MANIFEST, -1, PULL_IMAGE},
		{"{\"mediaType\":\"application/x-other\",\"layers\":[]}", OCI_MANIFEST, -1, PULL_IMAGE},
		{"[]", OCI_MANIFEST, -1, PULL_IMAGE},
		{"{}", "text/html", -1, PULL_IMAGE},
	};
	(void)state;
	for (size_t i = 0; i < countof(rows); i++) {
		enum pull_document kind = PULL_IMAGE;
		struct err e = {0};
		auto_json json_t *j = document(rows[i].text);
		assert_int_equal(pull_document_kind(j, rows[i].type, &kind, &e), rows[i].rc);
		assert_int_equal(kind, rows[i].kind);
		if (rows[i].rc)
			assert_int_equal(e.kind, ERR_UNSUPPORTED);
	}
}

static void an_index_gives_this_machine(void **state)
{
	static const char list[] =
		"{\"manifests\":["
		"{\"digest\":\"" D(1) "\",\"size\":1,\"platform\":{\"os\":\"linux\",\"architecture\":\"s390x\"}},"
		"{\"digest\":\"" D(2) "\",\"size\":2,\"platform\":{\"os\":\"windows\",\"architecture\":\"" OWN "\"}},"
		"{\"digest\":\"" D(3) "\",\"size\":3,\"platform\":{\"os\":\"linux\",\"architecture\":\"" OWN "\",\"variant\":\"v3\"}},"
		"{\"digest\":\"" D(4) "\",\"size\":4,\"platform\":{\"os\":\"linux\",\"architecture\":\"" OWN "\"}},"
		"{\"digest\":\"" D(5) "\",\"size\":5,\"platform\":{\"os\":\"unknown\",\"architecture\":\"unknown\"}}]}";
	static const char none[] = "{\"manifests\":[{\"digest\":\"" D(1) "\",\"size\":1,\"platform\":{\"os\":\"linux\",\"architecture\":\"s390x\"}}]}";
	struct pull_blob b;
	struct err e;
	auto_json json_t *j = document(list), *k = document(none);
	(void)state;
	assert_int_equal(pull_index_choose(j, &b, &e), 0);
	assert_string_equal(b.digest, D(4));
	assert_int_equal(b.size, 4);
	assert_int_equal(pull_index_choose(k, &b, &e), -1);
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	assert_non_null(strstr(e.msg, "linux/s390x"));
}

static void manifests_are_bounded(void **state)
{
	static const struct {
		const char *text;
		enum err_kind kind;
	} rows[] = {
		{"{" CONFIG ",\"layers\":[{\"mediaType\":\"" TAR "\",\"digest\":\"" D(1) "\",\"size\":5},{\"mediaType\":\"" TAR "\",\"digest\":\"" D(1) "\",\"size\":5}]}", ERR_NONE},
		{"{" CONFIG ",\"layers\":[{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar+encrypted\",\"digest\":\"" D(1) "\",\"size\":5}]}", ERR_UNSUPPORTED},
		{"{" CONFIG ",\"layers\":[{\"mediaType\":\"application/json\",\"digest\":\"" D(1) "\",\"size\":5}]}", ERR_UNSUPPORTED},
		{"{" CONFIG ",\"layers\":[{\"digest\":\"sha512:00\",\"size\":5}]}", ERR_UNSUPPORTED},
		{"{" CONFIG ",\"layers\":[{\"digest\":\"sha256:../../etc\",\"size\":5}]}", ERR_UNSUPPORTED},
		{"{" CONFIG ",\"layers\":[{\"digest\":\"" D(1) "\"}]}", ERR_INVALID},
		{"{" CONFIG ",\"layers\":[{\"digest\":\"" D(1) "\",\"size\":-1}]}", ERR_INVALID},
		{"{" CONFIG ",\"layers\":[{\"digest\":\"" D(1) "\",\"size\":9223372036854775807}]}", ERR_LIMIT},
		{"{" CONFIG ",\"layers\":[{\"digest\":\"" D(1) "\",\"size\":40000000000},{\"digest\":\"" D(2) "\",\"size\":40000000000}]}", ERR_LIMIT},
		{"{\"layers\":[]}", ERR_UNSUPPORTED},
		{"{\"config\":{\"mediaType\":\"application/vnd.cncf.helm.config.v1+json\",\"digest\":\"" D(0) "\",\"size\":7},\"layers\":[]}", ERR_UNSUPPORTED},
		{"{\"config\":{\"mediaType\":\"" OCI_CONFIG "\",\"digest\":\"" D(0) "\",\"size\":70000000},\"layers\":[]}", ERR_LIMIT},
	};
	(void)state;
	for (size_t i = 0; i < countof(rows); i++) {
		struct pull_manifest m = {0};
		struct err e = {0};
		auto_json json_t *j = document(rows[i].text);
		int rc = pull_manifest_read(j, &m, &e);
		if (rc ? e.kind != rows[i].kind : rows[i].kind != ERR_NONE)
			fail_msg("row %zu: %s", i, rc ? e.msg : "taken");
		if (!rc) {
			assert_int_equal(m.n, 1); // the same layer twice is fetched once
			assert_int_equal(m.bytes, 5);
		}
		pull_manifest_done(&m);
	}
}

static void a_configuration_is_reduced(void **state)
{
	auto_json json_t *j = document("{\"config\":{\"Env\":[\"A=1\",\"=x\",\"B\",7,\"C=\"],\"User\":\"app\",\"WorkingDir\":\"/w\",\"Cmd\":[\"sh\",3]}}");
	auto_buf struct buf b = BUF_INIT(4096);
	struct jsonw w = {.b = &b};
	(void)state;
	pull_config_write(&w, j);
	assert_string_equal(b.p, "{\"env\":[\"A=1\",\"C=\"],\"user\":\"app\",\"workdir\":\"/w\",\"entrypoint\":[],\"cmd\":[\"sh\"]}");
}

static void urls_lead_where_they_may(void **state)
{
	static const struct {
		const char *from, *to, *text;
		bool parsed, allowed;
	} rows[] = {
		{"https://a.test/v2/", "/x", "https://a.test/x", true, true},
		{"https://a.test/v2/", "https://cdn.test/b?s=1", "https://cdn.test/b?s=1", true, true},
		{"https://a.test/", "http://a.test/x", "http://a.test/x", true, false},
		{"https://a.test/", "http://127.0.0.1/x", "http://127.0.0.1/x", true, false},
		{"https://a.test/", "https://localhost/x", "https://localhost/x", true, false},
		{"http://a.test:5000/", "http://a.test:5000/x", "http://a.test:5000/x", true, true},
		{"http://a.test:5000/", "http://b.test/x", "http://b.test/x", true, false},
		{"http://localhost:1/", "http://127.0.0.1:2/x", "http://127.0.0.1:2/x", true, true},
		{"http://localhost:1/", "https://b.test/x", "https://b.test/x", true, true},
		{"https://a.test/", "file:///etc/passwd", NULL, false, false},
		{"https://a.test/", "ftp://a.test/x", NULL, false, false},
		{"https://a.test/", "https://user:pw@b.test/x", NULL, false, false},
		{"https://a.test/", "https://", NULL, false, false},
	};
	(void)state;
	for (size_t i = 0; i < countof(rows); i++) {
		struct pull_url from = {0}, to = {0};
		struct err e;
		assert_int_equal(pull_url_parse(NULL, rows[i].from, &from, &e), 0);
		bool parsed = !pull_url_parse(&from, rows[i].to, &to, &e);
		if (parsed != rows[i].parsed)
			fail_msg("%s", rows[i].to);
		if (parsed) {
			assert_string_equal(to.text, rows[i].text);
			assert_int_equal(!pull_url_follows(&from, &to, &e), rows[i].allowed);
		}
		pull_url_done(&from);
		pull_url_done(&to);
	}
}

static void origins_have_scheme_host_and_port(void **state)
{
	struct pull_url a = {0}, b = {0}, c = {0};
	struct err e;
	(void)state;
	assert_int_equal(pull_url_parse(NULL, "https://A.test/x", &a, &e), 0);
	assert_int_equal(pull_url_parse(NULL, "https://a.test:443/y", &b, &e), 0);
	assert_int_equal(pull_url_parse(NULL, "https://a.test:444/y", &c, &e), 0);
	assert_string_equal(a.origin, b.origin);
	assert_string_not_equal(a.origin, c.origin);
	pull_url_done(&a);
	pull_url_done(&b);
	pull_url_done(&c);
}

static void jobs_are_strict(void **state)
{
	static const char good[] = "{\"ref\":\"a.test/x:1\",\"host\":\"a.test\",\"https\":true,\"have\":[\"" D(1) "\"],\"room\":5}";
	static const char *const bad[] = {"{}", "[]", "{\"ref\":\"a.test/x\"}", "{\"ref\":\"A B\",\"host\":\"a\",\"https\":true}",
					  "{\"ref\":\"a.test/x\",\"host\":\"a.test\"}", "{\"ref\":\"a.test/x\",\"host\":\"a\",\"https\":true,\"more\":1}"};
	struct pull_job j;
	struct err e;
	(void)state;
	assert_int_equal(pull_job_read(good, strlen(good), &j, &e), 0);
	assert_string_equal(j.have[0], D(1));
	pull_job_done(&j);
	for (size_t i = 0; i < countof(bad); i++)
		assert_int_equal(pull_job_read(bad[i], strlen(bad[i]), &j, &e), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(challenges_are_understood),
		cmocka_unit_test(documents_are_told_apart),
		cmocka_unit_test(an_index_gives_this_machine),
		cmocka_unit_test(manifests_are_bounded),
		cmocka_unit_test(a_configuration_is_reduced),
		cmocka_unit_test(urls_lead_where_they_may),
		cmocka_unit_test(origins_have_scheme_host_and_port),
		cmocka_unit_test(jobs_are_strict),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
