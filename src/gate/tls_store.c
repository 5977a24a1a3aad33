// SPDX-License-Identifier: Apache-2.0
#include "gate/tls_store.h"

#include "base/fs.h"
#include "base/mem.h"
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STORE_MAX (16u << 20)

struct anchor {
	unsigned char *der;
	long n;
	const unsigned char *subject; // inside der, with its header
	long n_subject;
	bool loaded;
};

struct tls_store {
	int files[2]; // -1 = none, or read already
	struct anchor *a;
	size_t n;
};

// Where distributions keep the bundle. A directory of hashed files could not be read from behind the seal.
static int open_bundle(void)
{
	const char *const paths[] = {
		getenv("SSL_CERT_FILE"),
		"/etc/ssl/certs/ca-certificates.crt",
		"/etc/pki/tls/certs/ca-bundle.crt",
		"/etc/ssl/ca-bundle.pem",
		"/etc/ssl/cert.pem",
		X509_get_default_cert_file(),
	};
	for (size_t i = 0; i < countof(paths); i++) {
		int fd = paths[i] ? open(paths[i], O_RDONLY | O_CLOEXEC) : -1;
		if (fd >= 0)
			return fd;
	}
	return -1;
}

struct tls_store *tls_store_open(const char *extra, struct err *e)
{
	struct tls_store *s = xcalloc(1, sizeof *s);
	s->files[0] = open_bundle();
	s->files[1] = extra && *extra ? fs_open(AT_FDCWD, extra, O_RDONLY, 0, e) : -1;
	if (!extra || !*extra || s->files[1] >= 0)
		return s;
	tls_store_free(s);
	err_wrap(e, "trusted CAs");
	return NULL;
}

void tls_store_free(struct tls_store *s)
{
	if (!s)
		return;
	close_fd(&s->files[0]);
	close_fd(&s->files[1]);
	for (size_t i = 0; i < s->n; i++)
		OPENSSL_free(s->a[i].der);
	free(s->a);
	free(s);
}

// Steps over one element, or with into to its content. False when there is none.
static bool step(const unsigned char **p, const unsigned char *end, bool into)
{
	long n;
	int tag, class;
	const unsigned char *at = *p;
	if (at >= end || ASN1_get_object(&at, &n, &tag, &class, end - at) & 0x80)
		return false;
	*p = into ? at : at + n;
	return true;
}

// Certificate { tbs { [0] version, serial, algorithm, issuer, validity, subject, ...
static bool find_subject(struct anchor *a)
{
	const unsigned char *p = a->der, *end = a->der + a->n;
	if (!step(&p, end, true) || !step(&p, end, true))
		return false;
	if (p < end && *p == 0xa0 && !step(&p, end, false))
		return false;
	for (int i = 0; i < 4; i++)
		if (!step(&p, end, false))
			return false;
	a->subject = p;
	if (!step(&p, end, false))
		return false;
	a->n_subject = p - a->subject;
	return true;
}

static void read_file(struct tls_store *s, int fd)
{
	auto_buf struct buf pem = BUF_INIT(STORE_MAX);
	struct err e;
	char *name, *header;
	struct anchor a = {0};
	if (fs_read_fd(fd, &pem, &e) || !pem.n)
		return;
	BIO *bio = BIO_new_mem_buf(pem.p, (int)pem.n);
	while (bio && PEM_read_bio(bio, &name, &header, &a.der, &a.n)) {
		bool ok = !strcmp(name, PEM_STRING_X509) && find_subject(&a);
		OPENSSL_free(name);
		OPENSSL_free(header);
		if (!ok) {
			OPENSSL_free(a.der);
			continue;
		}
		if (!(s->n & (s->n - 1)))
			s->a = xrealloc(s->a, (s->n ? 2 * s->n : 1) * sizeof *s->a);
		s->a[s->n++] = a;
	}
	BIO_free(bio);
}

static void load(X509_STORE *store, struct anchor *a)
{
	const unsigned char *p = a->der;
	X509 *x = a->loaded ? NULL : d2i_X509(NULL, &p, a->n);
	if (x)
		X509_STORE_add_cert(store, x);
	X509_free(x);
	a->loaded = true;
}

// Loads the CAs of this name. True when there was one.
static bool load_named(struct tls_store *s, X509_STORE *store, const X509_NAME *name)
{
	const unsigned char *der;
	size_t n;
	bool any = false;
	if (X509_NAME_get0_der(name, &der, &n) != 1)
		return false;
	for (size_t i = 0; i < s->n; i++)
		if ((size_t)s->a[i].n_subject == n && !memcmp(s->a[i].subject, der, n)) {
			load(store, &s->a[i]);
			any = true;
		}
	return any;
}

// What the chain names as issuer; when nothing is found (another spelling of the name, or nobody trusted) all.
static void load_for(struct tls_store *s, X509_STORE *store, X509_STORE_CTX *ctx)
{
	STACK_OF(X509) *chain = X509_STORE_CTX_get0_untrusted(ctx);
	X509 *leaf = X509_STORE_CTX_get0_cert(ctx);
	bool any = leaf && load_named(s, store, X509_get_issuer_name(leaf));
	for (int i = 0; i < sk_X509_num(chain); i++)
		any |= load_named(s, store, X509_get_issuer_name(sk_X509_value(chain, i)));
	for (size_t i = 0; i < s->n && !any; i++)
		load(store, &s->a[i]);
}

static int verify(X509_STORE_CTX *ctx, void *arg)
{
	struct tls_store *s = arg;
	for (int i = 0; i < 2; i++) {
		if (s->files[i] >= 0)
			read_file(s, s->files[i]);
		close_fd(&s->files[i]);
	}
	load_for(s, X509_STORE_CTX_get0_store(ctx), ctx);
	ERR_clear_error(); // the end of a file is an error to PEM_read
	return X509_verify_cert(ctx);
}

void tls_store_attach(struct tls_store *s, SSL_CTX *ctx)
{
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_cert_verify_callback(ctx, verify, s);
}
