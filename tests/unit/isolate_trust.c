// SPDX-License-Identifier: Apache-2.0
// The files that make tools trust a sandbox's certificate. (That the tools do is `skep doctor --tls`.)
#include "base/fs.h"
#include "base/mem.h"
#include "isolate/trust.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define PEM(body) "-----BEGIN CERTIFICATE-----\n" body "\n-----END CERTIFICATE-----\n"

static void test_store(void **state)
{
	// made with another implementation
	static const uint8_t sum[] = {0x9d, 0x35, 0x08, 0x8d, 0x7f, 0x29, 0xdc, 0x7d, 0x92, 0xb2,
				      0xfb, 0x30, 0x4a, 0x26, 0x00, 0x12, 0xd0, 0x00, 0xa3, 0x00};
	struct jks j;
	struct err e;
	auto_buf struct buf tail = BUF_INIT(4096);
	(void)state;
	jks_init(&j, "# two\n" PEM("AQID") "junk\n" PEM("not*base64") PEM("BAUG\nBw=="));
	assert_int_equal((uint8_t)j.bytes.p[11], 3);
	assert_int_equal(jks_tail(&j, PEM("CA=="), &tail, &e), 0);
	assert_int_equal(j.bytes.n + tail.n, 110u + sizeof sum);
	assert_memory_equal(tail.p + tail.n - sizeof sum, sum, sizeof sum);
	buf_clear(&tail);
	assert_int_equal(jks_tail(&j, "no certificate", &tail, &e), -1);
	assert_int_equal(e.kind, ERR_INVALID);
	jks_done(&j);
}

static void test_write(void **state)
{
	char dir[] = "/tmp/skep-trust-XXXXXX";
	static const char ca[] = PEM("AQID");
	auto_buf struct buf b = BUF_INIT(1 << 20), kept = BUF_INIT(64);
	struct trust_host t = {.bundle = BUF_INIT(64)};
	struct err e;
	(void)state;
	buf_str(&t.bundle, "HOST\n");
	jks_init(&t.store, "");
	assert_non_null(mkdtemp(dir));
	auto_fd int root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	// what an earlier run may have left to lead us elsewhere
	assert_false(mkdirat(root, ".skep", 0755) || fs_write(root, "victim", "kept", 4, 0644, &e) ||
		     symlinkat("../victim", root, ".skep/ca.pem"));
	assert_int_equal(trust_write(&t, ca, root, &e), 0);
	assert_false(fs_read(root, "victim", &kept, &e));
	assert_string_equal(buf_cstr(&kept), "kept");
	assert_false(fs_read(root, ".skep/ca-bundle.pem", &b, &e));
	assert_string_equal(buf_cstr(&b), "HOST\n" PEM("AQID"));
	buf_clear(&b);
	assert_false(fs_read(root, ".skep/chromium.json", &b, &e));
	assert_non_null(strstr(buf_cstr(&b), "\"CACertificates\":[\"AQID\"]"));
	assert_int_equal(trust_write(&t, ca, root, &e), 0); // the next start
	assert_int_equal(trust_write(&t, "none", root, &e), -1);
	assert_false(fs_remove_tree(root, ".skep", &e) || symlinkat("victim", root, ".skep"));
	assert_int_equal(trust_write(&t, ca, root, &e), -1);
	assert_int_equal(fs_remove_tree(AT_FDCWD, dir, &e), 0);
	trust_done(&t);
}

static bool has(char *const *env, const char *start)
{
	for (; env && *env; env++)
		if (!strncmp(*env, start, strlen(start)))
			return true;
	return false;
}

static void test_env(void **state)
{
	struct trust_host t = {.bundle_path = xstrdup("/etc/a"), .store_path = xstrdup("/etc/b")};
	struct plan p = {0};
	char **env = NULL, **bare = NULL;
	(void)state;
	strv_add(&env, "SSL_CERT_FILE=/mine");
	trust_env(&t, true, &env);
	assert_true(has(env, "SSL_CERT_FILE=/mine") && !has(env, "SSL_CERT_FILE=/.skep"));
	assert_true(has(env, "NODE_EXTRA_CA_CERTS=/.skep/ca.pem"));
	assert_false(has(env, "JAVA_TOOL_OPTIONS=") || has(env, "WGETRC="));
	trust_env(&t, false, &bare);
	assert_true(has(bare, "JAVA_TOOL_OPTIONS=") && has(bare, "WGETRC="));
	trust_cover(&t, "/new", &p);
	assert_int_equal(p.n, 2);
	assert_string_equal(p.ops[0].src, "/new/.skep/ca-bundle.pem");
	assert_string_equal(p.ops[0].dst, "etc/a");
	assert_int_equal(p.ops[1].flags, 0); // read-only
	plan_done(&p);
	strv_free(env);
	strv_free(bare);
	trust_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_store), cmocka_unit_test(test_write),
					   cmocka_unit_test(test_env)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
