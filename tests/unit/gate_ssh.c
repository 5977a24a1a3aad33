// SPDX-License-Identifier: Apache-2.0
// Keys made here, in each form; what they sign, and whose signatures are believed; a server's first bytes cut anywhere.
#include "base/mem.h"
#include "gate/ssh_key.h"
#include "gate/ssh_seen.h"
#include <openssl/pem.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the headers above it
#include <cmocka.h>

static struct ssh_text text(const char *s)
{
	return (struct ssh_text){(const uint8_t *)s, strlen(s)};
}

static struct ssh_text of(const struct buf *b)
{
	return (struct ssh_text){(const uint8_t *)b->p, b->n};
}

static void load(EVP_PKEY *p, struct ssh_key *out)
{
	BIO *b = BIO_new(BIO_s_mem());
	char *pem;
	struct err e;
	assert_non_null(p);
	assert_int_equal(PEM_write_bio_PrivateKey(b, p, NULL, NULL, 0, NULL, NULL), 1);
	long n = BIO_get_mem_data(b, &pem);
	assert_int_equal(ssh_key_load(pem, (size_t)n, out, &e), 0);
	BIO_free(b);
	EVP_PKEY_free(p);
}

static void signs(EVP_PKEY *p, const char *type, const char *alg)
{
	struct ssh_key k = {0}, stranger = {0};
	auto_buf struct buf s = BUF_INIT(4096);
	struct err e;
	load(p, &k);
	load(EVP_EC_gen("P-256"), &stranger);
	assert_string_equal(k.type, type);
	assert_int_equal(ssh_key_sign(&k, text(alg), text("data"), &s, &e), 0);
	assert_true(ssh_verifies(of(&k.blob), of(&s), text("data")));
	assert_false(ssh_verifies(of(&k.blob), of(&s), text("dato")));
	assert_false(ssh_verifies(of(&stranger.blob), of(&s), text("data")));
	s.p[s.n - 1] ^= 1;
	assert_false(ssh_verifies(of(&k.blob), of(&s), text("data")));
	for (size_t i = 0; i < s.n; i++) // cut anywhere
		assert_false(ssh_verifies(of(&k.blob), (struct ssh_text){(uint8_t *)s.p, i}, text("data")));
	assert_int_equal(ssh_key_sign(&k, text("ssh-rsa"), text("data"), &s, &e), -1); // SHA-1
	assert_int_equal(ssh_key_sign(&k, text("ssh-dss"), text("data"), &s, &e), -1);
	ssh_key_done(&k);
	ssh_key_done(&stranger);
}

static void test_signatures(void **state)
{
	(void)state;
	signs(EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"), "ssh-ed25519", "ssh-ed25519");
	signs(EVP_EC_gen("P-256"), "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp256");
	signs(EVP_EC_gen("P-384"), "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp384");
	signs(EVP_EC_gen("P-521"), "ecdsa-sha2-nistp521", "ecdsa-sha2-nistp521");
	signs(EVP_RSA_gen(2048), "ssh-rsa", "rsa-sha2-256");
	signs(EVP_RSA_gen(2048), "ssh-rsa", "rsa-sha2-512");
}

static void test_weak_keys(void **state)
{
	struct ssh_key k = {0};
	struct err e;
	char *pem;
	BIO *b = BIO_new(BIO_s_mem());
	EVP_PKEY *p = EVP_RSA_gen(1024);
	(void)state;
	PEM_write_bio_PrivateKey(b, p, NULL, NULL, 0, NULL, NULL);
	long n = BIO_get_mem_data(b, &pem);
	assert_int_equal(ssh_key_load(pem, (size_t)n, &k, &e), -1);
	BIO_free(b);
	EVP_PKEY_free(p);
}

// --- a server's first bytes ---

static void packet(struct buf *b, const struct buf *payload)
{
	size_t padding = 8 - (payload->n + 5) % 8 + 4;
	ssh_put_u32(b, (uint32_t)(payload->n + padding + 1));
	buf_byte(b, (char)padding);
	buf_add(b, payload->p, payload->n);
	for (size_t i = 0; i < padding; i++)
		buf_byte(b, 0);
}

static void put_server(struct buf *out, const struct ssh_key *k, const char *session, uint8_t type)
{
	auto_buf struct buf init = BUF_INIT(64), reply = BUF_INIT(8192), s = BUF_INIT(4096);
	struct err e;
	buf_str(out, "welcome\r\nSSH-2.0-test\r\n");
	buf_str(&init, "\x14not looked at");
	packet(out, &init);
	assert_int_equal(ssh_key_sign(k, text(k->type), text(session), &s, &e), 0);
	buf_byte(&reply, (char)type);
	ssh_put(&reply, k->blob.p, k->blob.n);
	ssh_put_str(&reply, "half of a secret");
	ssh_put(&reply, s.p, s.n);
	packet(out, &reply);
}

static void test_server(void **state)
{
	static const char session[] = "0123456789abcdef0123456789abcdef",
			  another[] = "0123456789abcdef0123456789abcdee";
	struct ssh_key k = {0};
	(void)state;
	load(EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"), &k);
	for (int type = 31; type <= 33; type += 2) {
		auto_buf struct buf b = BUF_INIT(16 << 10);
		put_server(&b, &k, session, (uint8_t)type);
		for (size_t at = 0; at < b.n; at++) {
			struct ssh_seen *s = ssh_seen_new();
			assert_true(ssh_seen_feed(s, b.p, at));
			assert_false(ssh_seen_is(s, text(session)));
			assert_false(ssh_seen_feed(s, b.p + at, b.n - at));
			assert_true(ssh_seen_is(s, text(session)));
			assert_false(ssh_seen_is(s, text(another)));
			assert_int_equal(ssh_seen_key(s).n, k.blob.n);
			ssh_seen_free(s);
		}
	}
	assert_false(ssh_seen_is(NULL, text(session)));
	ssh_key_done(&k);
}

static void test_not_a_server(void **state)
{
	auto_buf struct buf long_banner = BUF_INIT(64 << 10);
	struct ssh_seen *s = ssh_seen_new();
	(void)state;
	assert_false(ssh_seen_feed(s, "SSH-2.0-x\r\n\xff\xff\xff\xff\x04zzz", 19));
	assert_false(ssh_seen_feed(s, "more", 4));
	ssh_seen_free(s);
	s = ssh_seen_new();
	while (long_banner.n < 10000)
		buf_byte(&long_banner, 'x');
	assert_false(ssh_seen_feed(s, long_banner.p, long_banner.n));
	ssh_seen_free(s);
}

// --- logins ---

static void put_login(struct buf *b, const char *method, const char *service, uint8_t type)
{
	ssh_put_str(b, "session");
	buf_byte(b, (char)type);
	ssh_put_str(b, "git");
	ssh_put_str(b, service);
	ssh_put_str(b, method);
	buf_byte(b, 1);
	ssh_put_str(b, "ssh-ed25519");
	ssh_put_str(b, "blob");
}

static void test_logins(void **state)
{
	static const struct {
		const char *method, *service;
		uint8_t type;
		bool host, ok;
	} cases[] = {
		{"publickey", "ssh-connection", 50, false, true},
		{"publickey-hostbound-v00@openssh.com", "ssh-connection", 50, true, true},
		{"publickey-hostbound-v00@openssh.com", "ssh-connection", 50, false, false},
		{"publickey", "ssh-connection", 50, true, false}, // bytes behind it
		{"publickey", "ssh-connection", 51, false, false},
		{"publickey", "ssh-userauth", 50, false, false},
		{"hostbased", "ssh-connection", 50, false, false},
	};
	struct ssh_login l;
	(void)state;
	for (size_t i = 0; i < countof(cases); i++) {
		auto_buf struct buf b = BUF_INIT(1024);
		put_login(&b, cases[i].method, cases[i].service, cases[i].type);
		if (cases[i].host)
			ssh_put_str(&b, "host key");
		assert_int_equal(ssh_login_parse(of(&b), &l), cases[i].ok);
		for (size_t n = 0; n < b.n; n++)
			assert_false(ssh_login_parse((struct ssh_text){(uint8_t *)b.p, n}, &l) && cases[i].ok &&
				     !cases[i].host);
	}
	assert_false(ssh_login_parse(text("SSHSIG\0\0\0\3git"), &l));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_signatures),   cmocka_unit_test(test_weak_keys), cmocka_unit_test(test_server),
		cmocka_unit_test(test_not_a_server), cmocka_unit_test(test_logins),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
