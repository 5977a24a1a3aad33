// SPDX-License-Identifier: Apache-2.0
#include "gate/ssh_key.h"

#include "base/mem.h"
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

#define SIGNATURE_MAX 2048
#define CERT_SUFFIX "-cert-v01@openssh.com"

struct curve {
	const char *type, *name, *group, *hash;
};
static const struct curve curves[] = {
	{"ecdsa-sha2-nistp256", "nistp256", "prime256v1", "SHA256"},
	{"ecdsa-sha2-nistp384", "nistp384", "secp384r1", "SHA384"},
	{"ecdsa-sha2-nistp521", "nistp521", "secp521r1", "SHA512"},
};

static const struct curve *curve_of_type(struct ssh_text type)
{
	for (size_t i = 0; i < countof(curves); i++)
		if (ssh_is(type, curves[i].type))
			return &curves[i];
	return NULL;
}

static int failed(struct err *e)
{
	return err_set(e, ERR_INVALID, "OpenSSL does not take the private key");
}

// --- from numbers to keys ---

// The numbers given, NULL where there is none, under OpenSSL's names.
struct part {
	const char *name;
	BIGNUM *n;
};

static EVP_PKEY *build(const char *kind, const struct part *parts, size_t n, const struct curve *c,
		       struct ssh_text point)
{
	OSSL_PARAM_BLD *b = OSSL_PARAM_BLD_new();
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, kind, NULL);
	EVP_PKEY *k = NULL;
	bool ok = b && ctx && EVP_PKEY_fromdata_init(ctx) == 1;
	for (size_t i = 0; i < n && ok; i++)
		ok = parts[i].n && OSSL_PARAM_BLD_push_BN(b, parts[i].name, parts[i].n) == 1;
	if (c)
		ok = ok && OSSL_PARAM_BLD_push_utf8_string(b, OSSL_PKEY_PARAM_GROUP_NAME, c->group, 0) == 1 &&
		     OSSL_PARAM_BLD_push_octet_string(b, OSSL_PKEY_PARAM_PUB_KEY, point.p, point.n) == 1;
	OSSL_PARAM *params = ok ? OSSL_PARAM_BLD_to_param(b) : NULL;
	if (!params || EVP_PKEY_fromdata(ctx, &k, EVP_PKEY_KEYPAIR, params) != 1)
		k = NULL;
	OSSL_PARAM_free(params);
	OSSL_PARAM_BLD_free(b);
	EVP_PKEY_CTX_free(ctx);
	return k;
}

static BIGNUM *number(struct ssh_text t)
{
	return t.n && t.n <= 1026 ? BN_bin2bn(t.p, (int)t.n, NULL) : NULL; // 8192 bits
}

// d modulo p - 1, which the file leaves out.
static BIGNUM *exponent(const BIGNUM *d, const BIGNUM *p)
{
	BN_CTX *ctx = BN_CTX_new();
	BIGNUM *less = p ? BN_dup(p) : NULL, *out = BN_new();
	bool ok = ctx && d && less && out && BN_sub_word(less, 1) == 1 && BN_mod(out, d, less, ctx) == 1;
	BN_clear_free(less);
	BN_CTX_free(ctx);
	if (ok)
		return out;
	BN_free(out);
	return NULL;
}

static void parts_free(struct part *parts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		BN_clear_free(parts[i].n);
}

static EVP_PKEY *rsa_private(struct ssh_in *in)
{
	struct ssh_text n = ssh_get(in), e = ssh_get(in), d = ssh_get(in), iqmp = ssh_get(in), p = ssh_get(in),
			q = ssh_get(in);
	struct part parts[] = {
		{OSSL_PKEY_PARAM_RSA_N, number(n)},	  {OSSL_PKEY_PARAM_RSA_E, number(e)},
		{OSSL_PKEY_PARAM_RSA_D, number(d)},	  {OSSL_PKEY_PARAM_RSA_FACTOR1, number(p)},
		{OSSL_PKEY_PARAM_RSA_FACTOR2, number(q)}, {OSSL_PKEY_PARAM_RSA_COEFFICIENT1, number(iqmp)},
		{OSSL_PKEY_PARAM_RSA_EXPONENT1, NULL},	  {OSSL_PKEY_PARAM_RSA_EXPONENT2, NULL},
	};
	parts[6].n = exponent(parts[2].n, parts[3].n);
	parts[7].n = exponent(parts[2].n, parts[4].n);
	EVP_PKEY *k = build("RSA", parts, countof(parts), NULL, (struct ssh_text){0});
	parts_free(parts, countof(parts));
	return k;
}

static EVP_PKEY *rsa_public(struct ssh_in *in)
{
	struct ssh_text e = ssh_get(in), n = ssh_get(in);
	struct part parts[] = {{OSSL_PKEY_PARAM_RSA_N, number(n)}, {OSSL_PKEY_PARAM_RSA_E, number(e)}};
	EVP_PKEY *k = build("RSA", parts, countof(parts), NULL, (struct ssh_text){0});
	parts_free(parts, countof(parts));
	return k;
}

static EVP_PKEY *ec_key(struct ssh_in *in, const struct curve *c, bool private)
{
	struct ssh_text name = ssh_get(in), point = ssh_get(in), secret = {0};
	if (private)
		secret = ssh_get(in);
	if (!ssh_is(name, c->name) || !point.n)
		return NULL;
	struct part parts[] = {{OSSL_PKEY_PARAM_PRIV_KEY, private ? number(secret) : NULL}};
	EVP_PKEY *k = build("EC", parts, private ? 1 : 0, c, point);
	parts_free(parts, countof(parts));
	return k;
}

static EVP_PKEY *private_key(struct ssh_in *in)
{
	struct ssh_text type = ssh_get(in);
	const struct curve *c = curve_of_type(type);
	if (c)
		return ec_key(in, c, true);
	if (ssh_is(type, "ssh-rsa"))
		return rsa_private(in);
	ssh_get(in);
	struct ssh_text both = ssh_get(in); // seed, then public half
	return both.n == 64 ? EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, both.p, 32) : NULL;
}

// A host's certificate has a nonce before the same fields.
static EVP_PKEY *public_key(struct ssh_text blob)
{
	struct ssh_in in = {blob.p, blob.n, false};
	struct ssh_text type = ssh_get(&in);
	const size_t suffix = strlen(CERT_SUFFIX);
	if (type.n > suffix && !memcmp(type.p + type.n - suffix, CERT_SUFFIX, suffix)) {
		type.n -= suffix;
		ssh_get(&in);
	}
	const struct curve *c = curve_of_type(type);
	if (c)
		return ec_key(&in, c, false);
	if (ssh_is(type, "ssh-rsa"))
		return rsa_public(&in);
	struct ssh_text raw = ssh_get(&in);
	return ssh_is(type, "ssh-ed25519") && raw.n == 32
		       ? EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, raw.p, 32)
		       : NULL;
}

// --- from keys to blobs ---

static bool put_number(struct buf *b, const BIGNUM *n)
{
	uint8_t raw[1032] = {0};
	int len = n ? BN_num_bytes(n) : 0;
	if (len <= 0 || len >= (int)sizeof raw - 1)
		return false;
	BN_bn2bin(n, raw + 1);
	bool pad = raw[1] & 0x80; // else it would be negative
	ssh_put(b, pad ? raw : raw + 1, (size_t)len + pad);
	return true;
}

static bool rsa_blob(struct ssh_key *k)
{
	BIGNUM *e = NULL, *n = NULL;
	bool ok = EVP_PKEY_get_bn_param(k->pkey, OSSL_PKEY_PARAM_RSA_E, &e) == 1 &&
		  EVP_PKEY_get_bn_param(k->pkey, OSSL_PKEY_PARAM_RSA_N, &n) == 1 && BN_num_bits(n) >= 2048;
	k->type = "ssh-rsa";
	ssh_put_str(&k->blob, k->type);
	ok = ok && put_number(&k->blob, e) && put_number(&k->blob, n);
	BN_free(e);
	BN_free(n);
	return ok;
}

static bool ec_blob(struct ssh_key *k)
{
	char group[64];
	uint8_t point[256];
	size_t n = 0;
	EVP_PKEY_set_utf8_string_param(k->pkey, OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT, "uncompressed");
	if (EVP_PKEY_get_group_name(k->pkey, group, sizeof group, NULL) != 1 ||
	    EVP_PKEY_get_octet_string_param(k->pkey, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof point, &n) != 1)
		return false;
	for (size_t i = 0; i < countof(curves); i++) {
		if (strcmp(group, curves[i].group))
			continue;
		k->type = curves[i].type;
		ssh_put_str(&k->blob, k->type);
		ssh_put_str(&k->blob, curves[i].name);
		ssh_put(&k->blob, point, n);
		return true;
	}
	return false;
}

static bool ed25519_blob(struct ssh_key *k)
{
	uint8_t raw[32];
	size_t n = sizeof raw;
	if (EVP_PKEY_get_raw_public_key(k->pkey, raw, &n) != 1)
		return false;
	k->type = "ssh-ed25519";
	ssh_put_str(&k->blob, k->type);
	ssh_put(&k->blob, raw, n);
	return true;
}

static bool make_blob(struct ssh_key *k)
{
	k->blob = BUF_INIT(4096);
	switch (EVP_PKEY_get_base_id(k->pkey)) {
	case EVP_PKEY_RSA:
		return rsa_blob(k);
	case EVP_PKEY_EC:
		return ec_blob(k);
	case EVP_PKEY_ED25519:
		return ed25519_blob(k);
	default:
		return false;
	}
}

static int no_passphrase(char *room, int size, int writing, void *ctx)
{
	(void)room, (void)size, (void)writing, (void)ctx;
	return -1;
}

int ssh_key_load(const void *text, size_t n, struct ssh_key *out, struct err *e)
{
	struct buf private = BUF_INIT(SSH_KEY_MAX);
	struct ssh_key k = {0};
	if (!buf_room(&private, SSH_KEY_MAX - 1))
		return err_set(e, ERR_LIMIT, "no memory for the key");
	if (ssh_key_read(text, n, &private, e)) {
		buf_done(&private);
		return -1;
	}
	if (private.n) {
		struct ssh_in in = {(const uint8_t *)private.p, private.n, false};
		k.pkey = private_key(&in);
	} else {
		BIO *b = BIO_new_mem_buf(text, (int)n);
		k.pkey = b ? PEM_read_bio_PrivateKey(b, NULL, no_passphrase, NULL) : NULL;
		BIO_free(b);
	}
	explicit_bzero(private.p, private.cap);
	buf_done(&private);
	if (!k.pkey || !make_blob(&k) || k.blob.overflow) {
		ssh_key_done(&k);
		return failed(e);
	}
	*out = k;
	return 0;
}

void ssh_key_done(struct ssh_key *k)
{
	EVP_PKEY_free(k->pkey);
	buf_done(&k->blob);
	*k = (struct ssh_key){0};
}

// --- signatures ---

// The hash that goes with an algorithm; "" where it is part of it. NULL: not one of ours.
static const char *hash_of(struct ssh_text alg)
{
	const struct curve *c = curve_of_type(alg);
	if (c)
		return c->hash;
	return ssh_is(alg, "ssh-ed25519")    ? ""
	       : ssh_is(alg, "rsa-sha2-256") ? "SHA256"
	       : ssh_is(alg, "rsa-sha2-512") ? "SHA512"
					     : NULL;
}

static bool fits(const struct ssh_key *k, struct ssh_text alg)
{
	if (strcmp(k->type, "ssh-rsa"))
		return ssh_is(alg, k->type);
	return ssh_is(alg, "rsa-sha2-256") || ssh_is(alg, "rsa-sha2-512");
}

// OpenSSL's DER to ssh's two numbers, and back.
static bool put_ecdsa(struct buf *out, const uint8_t *der, size_t n)
{
	auto_buf struct buf both = BUF_INIT(512);
	ECDSA_SIG *s = d2i_ECDSA_SIG(NULL, &der, (long)n);
	bool ok = s && put_number(&both, ECDSA_SIG_get0_r(s)) && put_number(&both, ECDSA_SIG_get0_s(s));
	ECDSA_SIG_free(s);
	ssh_put(out, both.p, both.n);
	return ok;
}

static size_t get_ecdsa(struct ssh_text t, uint8_t *der, size_t room)
{
	struct ssh_in in = {t.p, t.n, false};
	BIGNUM *r = number(ssh_get(&in)), *s = number(ssh_get(&in));
	ECDSA_SIG *sig = ECDSA_SIG_new();
	if (in.bad || !r || !s || !sig || ECDSA_SIG_set0(sig, r, s) != 1) {
		BN_free(r);
		BN_free(s);
		ECDSA_SIG_free(sig);
		return 0;
	}
	int n = i2d_ECDSA_SIG(sig, NULL);
	uint8_t *p = der;
	if (n > 0 && (size_t)n <= room)
		i2d_ECDSA_SIG(sig, &p);
	ECDSA_SIG_free(sig);
	return n > 0 && (size_t)n <= room ? (size_t)n : 0;
}

int ssh_key_sign(const struct ssh_key *k, struct ssh_text alg, struct ssh_text data, struct buf *out, struct err *e)
{
	uint8_t raw[SIGNATURE_MAX];
	size_t n = sizeof raw;
	const char *hash = fits(k, alg) ? hash_of(alg) : NULL;
	if (!hash)
		return err_set(e, ERR_DENIED, "an algorithm that is not the key's");
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool ok = ctx && EVP_DigestSignInit_ex(ctx, NULL, *hash ? hash : NULL, NULL, NULL, k->pkey, NULL) == 1 &&
		  EVP_DigestSign(ctx, raw, &n, data.p, data.n) == 1;
	EVP_MD_CTX_free(ctx);
	if (!ok)
		return err_set(e, ERR_SYSTEM, "OpenSSL does not sign");
	ssh_put(out, alg.p, alg.n);
	if (!curve_of_type(alg))
		ssh_put(out, raw, n);
	else if (!put_ecdsa(out, raw, n))
		return err_set(e, ERR_SYSTEM, "OpenSSL made no signature");
	return out->overflow ? err_set(e, ERR_LIMIT, "a signature that is too long") : 0;
}

bool ssh_verifies(struct ssh_text key, struct ssh_text signature, struct ssh_text data)
{
	uint8_t der[256];
	struct ssh_in in = {signature.p, signature.n, false};
	struct ssh_text alg = ssh_get(&in), raw = ssh_get(&in);
	const char *hash = in.bad || in.n ? NULL : hash_of(alg);
	if (hash && curve_of_type(alg))
		raw = (struct ssh_text){der, get_ecdsa(raw, der, sizeof der)};
	EVP_PKEY *k = hash && raw.n ? public_key(key) : NULL;
	// What the signature says it is must be what the key is: OpenSSL would take any hash.
	int kind = curve_of_type(alg) ? EVP_PKEY_EC : ssh_is(alg, "ssh-ed25519") ? EVP_PKEY_ED25519 : EVP_PKEY_RSA;
	EVP_MD_CTX *ctx = k && EVP_PKEY_get_base_id(k) == kind ? EVP_MD_CTX_new() : NULL;
	bool ok = ctx && EVP_DigestVerifyInit_ex(ctx, NULL, *hash ? hash : NULL, NULL, NULL, k, NULL) == 1 &&
		  EVP_DigestVerify(ctx, raw.p, raw.n, data.p, data.n) == 1;
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(k);
	return ok;
}
