// SPDX-License-Identifier: Apache-2.0
#include "gate/ca.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DAY (24 * 3600)
#define CA_DAYS 365
#define LEAF_DAYS 7
#define LEAF_FRESH_MS ((uint64_t)(LEAF_DAYS - 1) * DAY * 1000) // a cached leaf older than this is made again
#define BACKDATE DAY					       // the clock inside may be behind
#define LEAVES 64					       // cached
#define PEM_MAX (64u << 10)

struct leaf {
	struct host_name host;
	X509 *cert;
	uint64_t made_ms;
};

struct ca {
	X509 *cert;
	EVP_PKEY *key, *leaf_key;
	struct leaf leaves[LEAVES];
	size_t next; // the slot that is given up next
};

static int tls_err(struct err *e, const char *what)
{
	return err_set(e, ERR_SYSTEM, "%s failed in OpenSSL", what);
}

static void x509_freep(X509 **x)
{
	X509_free(*x);
}

static void pkey_freep(EVP_PKEY **k)
{
	EVP_PKEY_free(*k);
}
#define auto_x509 __attribute__((cleanup(x509_freep)))
#define auto_pkey __attribute__((cleanup(pkey_freep)))

static bool set_serial(X509 *x)
{
	uint8_t raw[16];
	if (RAND_bytes(raw, sizeof raw) != 1)
		return false;
	raw[0] = (raw[0] & 0x7f) | 0x40; // positive and of full length
	BIGNUM *bn = BN_bin2bn(raw, sizeof raw, NULL);
	bool ok = bn && BN_to_ASN1_INTEGER(bn, X509_get_serialNumber(x));
	BN_free(bn);
	return ok;
}

static bool set_name(X509 *x, const char *cn)
{
	X509_NAME *n = X509_get_subject_name(x);
	return X509_NAME_add_entry_by_txt(n, "CN", MBSTRING_ASC, (const unsigned char *)cn, -1, -1, 0) == 1;
}

static bool add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
	X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	bool ok = ext && X509_add_ext(x, ext, -1) == 1;
	X509_EXTENSION_free(ext);
	return ok;
}

static X509 *begin(EVP_PKEY *key, const char *cn, int days)
{
	auto_x509 X509 *x = X509_new();
	if (!x || X509_set_version(x, X509_VERSION_3) != 1 || !set_serial(x) || !set_name(x, cn))
		return NULL;
	if (!X509_gmtime_adj(X509_getm_notBefore(x), -BACKDATE) ||
	    !X509_gmtime_adj(X509_getm_notAfter(x), (long)days * DAY))
		return NULL;
	return X509_set_pubkey(x, key) == 1 ? take(&x) : NULL;
}

static bool sign_ca(X509 *x, EVP_PKEY *key)
{
	return X509_set_issuer_name(x, X509_get_subject_name(x)) == 1 &&
	       add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
	       add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
	       add_extension(x, x, NID_subject_key_identifier, "hash") && X509_sign(x, key, EVP_sha256()) > 0;
}

static int take_bio(BIO *bio, struct buf *out, struct err *e)
{
	char *p;
	long n = BIO_get_mem_data(bio, &p);
	if (n <= 0)
		return tls_err(e, "write PEM");
	buf_add(out, p, (size_t)n);
	return out->overflow ? err_set(e, ERR_LIMIT, "PEM is too long") : 0;
}

static int print_pems(X509 *x, EVP_PKEY *k, struct buf *cert, struct buf *key, struct err *e)
{
	BIO *c = BIO_new(BIO_s_mem()), *s = BIO_new(BIO_s_secmem());
	int rc = -1;
	if (c && s && PEM_write_bio_X509(c, x) == 1 &&
	    PEM_write_bio_PKCS8PrivateKey(s, k, NULL, NULL, 0, NULL, NULL) == 1)
		rc = take_bio(c, cert, e) || take_bio(s, key, e) ? -1 : 0;
	else
		tls_err(e, "write PEM");
	BIO_free(c);
	BIO_free(s);
	return rc;
}

int ca_make(const char *name, struct buf *cert, struct buf *key, struct err *e)
{
	char cn[65]; // what X.520 lets a common name have
	if (fmt_to(cn, sizeof cn, name && *name ? "skep %s" : "skep%s", name ? name : ""))
		return err_set(e, ERR_INVALID, "the name is too long for a certificate");
	auto_pkey EVP_PKEY *k = EVP_EC_gen("P-256");
	auto_x509 X509 *x = k ? begin(k, cn, CA_DAYS) : NULL;
	if (!x || !sign_ca(x, k))
		return tls_err(e, "make a certificate authority");
	return print_pems(x, k, cert, key, e);
}

static int write_out(const struct buf *b, struct err *e)
{
	for (size_t at = 0; at < b->n;) {
		ssize_t n = write(STDOUT_FILENO, b->p + at, b->n - at);
		if (n < 0)
			return err_sys(e, "write");
		at += (size_t)n;
	}
	return 0;
}

int ca_print(const char *name, struct err *e)
{
	auto_buf struct buf cert = BUF_INIT(PEM_MAX), key = BUF_INIT(PEM_MAX);
	int rc = ca_make(name, &cert, &key, e);
	if (!rc)
		rc = write_out(&cert, e) || write_out(&key, e) ? -1 : 0;
	if (key.p)
		explicit_bzero(key.p, key.cap);
	return rc;
}

// PEM without a password: a prompt on the terminal is the default, and never what we want.
static int no_password(char *buf, int size, int rw, void *u)
{
	(void)buf, (void)size, (void)rw, (void)u;
	return -1;
}

struct ca *ca_new(const char *cert_pem, const char *key_pem, struct err *e)
{
	struct ca *ca = xcalloc(1, sizeof *ca);
	BIO *c = BIO_new_mem_buf(cert_pem, -1), *k = BIO_new_mem_buf(key_pem, -1);
	ca->cert = c ? PEM_read_bio_X509(c, NULL, no_password, NULL) : NULL;
	ca->key = k ? PEM_read_bio_PrivateKey(k, NULL, no_password, NULL) : NULL;
	ca->leaf_key = EVP_EC_gen("P-256");
	BIO_free(c);
	BIO_free(k);
	if (ca->cert && ca->key && ca->leaf_key && X509_check_private_key(ca->cert, ca->key) == 1)
		return ca;
	ca_free(ca);
	err_set(e, ERR_INVALID, "the certificate authority of this sandbox can not be used");
	return NULL;
}

void ca_free(struct ca *ca)
{
	if (!ca)
		return;
	for (size_t i = 0; i < LEAVES; i++)
		X509_free(ca->leaves[i].cert);
	X509_free(ca->cert);
	EVP_PKEY_free(ca->key);
	EVP_PKEY_free(ca->leaf_key);
	free(ca);
}

static bool sign_leaf(struct ca *ca, X509 *x, const struct host_name *host)
{
	char san[300];
	return !fmt_to(san, sizeof san, "DNS:%s", host->s) &&
	       X509_set_issuer_name(x, X509_get_subject_name(ca->cert)) == 1 &&
	       add_extension(x, ca->cert, NID_basic_constraints, "critical,CA:FALSE") &&
	       add_extension(x, ca->cert, NID_key_usage, "critical,digitalSignature") &&
	       add_extension(x, ca->cert, NID_ext_key_usage, "serverAuth") &&
	       add_extension(x, ca->cert, NID_subject_alt_name, san) &&
	       add_extension(x, ca->cert, NID_subject_key_identifier, "hash") &&
	       add_extension(x, ca->cert, NID_authority_key_identifier, "keyid") &&
	       X509_sign(x, ca->key, EVP_sha256()) > 0;
}

static X509 *leaf_make(struct ca *ca, const struct host_name *host, struct err *e)
{
	// The name counts in the SAN only; a common name has at most 64 bytes.
	auto_x509 X509 *x = begin(ca->leaf_key, strlen(host->s) <= 64 ? host->s : "skep", LEAF_DAYS);
	if (x && sign_leaf(ca, x, host))
		return take(&x);
	tls_err(e, "make a certificate");
	return NULL;
}

static struct leaf *leaf_slot(struct ca *ca, const struct host_name *host)
{
	for (size_t i = 0; i < LEAVES; i++)
		if (ca->leaves[i].cert && host_equal(&ca->leaves[i].host, host))
			return &ca->leaves[i];
	return &ca->leaves[ca->next++ % LEAVES];
}

X509 *ca_leaf(struct ca *ca, const struct host_name *host, struct err *e)
{
	struct leaf *l = leaf_slot(ca, host);
	if (l->cert && host_equal(&l->host, host) && clock_ms() - l->made_ms < LEAF_FRESH_MS)
		return l->cert;
	X509 *x = leaf_make(ca, host, e);
	if (!x)
		return NULL;
	X509_free(l->cert);
	*l = (struct leaf){*host, x, clock_ms()};
	return x;
}

EVP_PKEY *ca_leaf_key(struct ca *ca)
{
	return ca->leaf_key;
}
