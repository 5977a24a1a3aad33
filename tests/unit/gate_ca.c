// SPDX-License-Identifier: Apache-2.0
// The sandbox's authority and its leaves: what they say, for how long, and that they verify for one name only.
#include "base/buf.h"
#include "gate/ca.h"
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
// cmocka wants the headers above it
#include <cmocka.h>

struct pems {
	struct buf cert, key;
};

static int make(void **state)
{
	static struct pems p;
	struct err e;
	p = (struct pems){BUF_INIT(1 << 16), BUF_INIT(1 << 16)};
	*state = &p;
	return ca_make("stest", &p.cert, &p.key, &e);
}

static int unmake(void **state)
{
	struct pems *p = *state;
	buf_done(&p->cert);
	buf_done(&p->key);
	return 0;
}

static X509 *read_cert(const struct buf *pem)
{
	BIO *b = BIO_new_mem_buf(pem->p, (int)pem->n);
	X509 *x = PEM_read_bio_X509(b, NULL, NULL, NULL);
	BIO_free(b);
	return x;
}

static struct host_name name(const char *s)
{
	struct host_name h;
	struct err e;
	assert_int_equal(host_parse(s, strlen(s), &h, &e), 0);
	return h;
}

static void test_authority(void **state)
{
	struct pems *p = *state;
	char cn[80];
	int days, seconds;
	X509 *x = read_cert(&p->cert);
	assert_non_null(x);
	X509_NAME_get_text_by_NID(X509_get_subject_name(x), NID_commonName, cn, sizeof cn);
	assert_string_equal(cn, "skep stest");
	assert_int_equal(X509_check_ca(x), 1);
	assert_int_equal(X509_get_pathlen(x), 0);
	assert_int_equal(X509_get_key_usage(x), KU_KEY_CERT_SIGN | KU_CRL_SIGN);
	assert_int_equal(ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(x)), 1);
	assert_in_range(days, 364, 365);
	assert_non_null(strstr(p->key.p, "BEGIN PRIVATE KEY"));
	X509_free(x);
}

static void test_leaf(void **state)
{
	struct pems *p = *state;
	struct err e;
	int days, seconds;
	struct host_name h = name("api.test"), other = name("other.test");
	struct ca *ca = ca_new(p->cert.p, p->key.p, &e);
	assert_non_null(ca);
	X509 *x = ca_leaf(ca, &h, &e);
	assert_non_null(x);
	assert_ptr_equal(ca_leaf(ca, &h, &e), x); // cached
	assert_ptr_not_equal(ca_leaf(ca, &other, &e), x);
	assert_int_equal(X509_check_host(x, "api.test", 0, 0, NULL), 1);
	assert_int_equal(X509_check_host(x, "other.test", 0, 0, NULL), 0);
	assert_int_equal(X509_check_host(x, "a.api.test", 0, 0, NULL), 0);
	assert_int_equal(X509_check_ca(x), 0);
	assert_int_equal(X509_get_extended_key_usage(x), XKU_SSL_SERVER);
	assert_int_equal(ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(x)), 1);
	assert_in_range(days, 6, 7);
	assert_int_equal(X509_check_private_key(x, ca_leaf_key(ca)), 1);
	ca_free(ca);
}

static void test_verifies(void **state)
{
	struct pems *p = *state;
	struct err e;
	struct host_name h = name("a-very-long-label-to-pass-the-sixty-four-bytes.of-a-common-name.example.test");
	struct ca *ca = ca_new(p->cert.p, p->key.p, &e);
	X509 *root = read_cert(&p->cert), *leaf = ca_leaf(ca, &h, &e);
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	X509_STORE_add_cert(store, root);
	X509_STORE_CTX_init(ctx, store, leaf, NULL);
	X509_VERIFY_PARAM_set1_host(X509_STORE_CTX_get0_param(ctx), h.s, 0);
	X509_STORE_CTX_set_purpose(ctx, X509_PURPOSE_SSL_SERVER);
	assert_int_equal(X509_verify_cert(ctx), 1);
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	X509_free(root);
	ca_free(ca);
}

static void test_many(void **state)
{
	struct pems *p = *state;
	struct err e;
	struct ca *ca = ca_new(p->cert.p, p->key.p, &e);
	for (int i = 0; i < 150; i++) { // more than are cached
		auto_buf struct buf b = BUF_INIT(64);
		buf_fmt(&b, "h%d.test", i % 75);
		struct host_name h = name(buf_cstr(&b));
		X509 *x = ca_leaf(ca, &h, &e);
		assert_int_equal(X509_check_host(x, h.s, 0, 0, NULL), 1);
	}
	ca_free(ca);
}

static void test_bad(void **state)
{
	struct pems *p = *state, other = {BUF_INIT(1 << 16), BUF_INIT(1 << 16)};
	struct err e;
	auto_buf struct buf name_max = BUF_INIT(256);
	assert_null(ca_new("", "", &e));
	assert_null(ca_new(p->cert.p, "nonsense", &e));
	assert_int_equal(ca_make("", &other.cert, &other.key, &e), 0);
	assert_null(ca_new(p->cert.p, other.key.p, &e)); // of another authority
	for (int i = 0; i < 100; i++)
		buf_byte(&name_max, 'x');
	assert_int_equal(ca_make(buf_cstr(&name_max), &other.cert, &other.key, &e), -1);
	buf_done(&other.cert);
	buf_done(&other.key);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_authority), cmocka_unit_test(test_leaf), cmocka_unit_test(test_verifies),
		cmocka_unit_test(test_many),	  cmocka_unit_test(test_bad),
	};
	return cmocka_run_group_tests_name("gate/ca", tests, make, unmake);
}
