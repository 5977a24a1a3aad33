// SPDX-License-Identifier: Apache-2.0
// TLS on both sides of an opened connection. Towards the cell the handshake stops behind the ClientHello until the host
// has been reached, so that the client is offered what the host speaks and never a certificate for a host that is not
// there. Towards the host the certificate is checked against the system's CAs and the one canonical name.
#include "gate/tls.h"

#include "base/mem.h"
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int bio_read(BIO *b, char *p, int n)
{
	ssize_t got = tls_raw_read(BIO_get_data(b), p, (size_t)n);
	BIO_clear_retry_flags(b);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(b);
	return (int)got;
}

static int bio_write(BIO *b, const char *p, int n)
{
	struct tls *t = BIO_get_data(b);
	ssize_t put = send(t->w.fd, p, (size_t)n, MSG_NOSIGNAL);
	BIO_clear_retry_flags(b);
	if (put < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_write(b);
	return (int)put;
}

static long bio_ctrl(BIO *b, int cmd, long num, void *ptr)
{
	(void)b, (void)num, (void)ptr;
	return cmd == BIO_CTRL_FLUSH;
}

// SSL_CLIENT_HELLO_RETRY suspends SSL_do_handshake until it is called again.
static int on_client_hello(SSL *ssl, int *alert, void *arg)
{
	struct tls *t = SSL_get_app_data(ssl);
	(void)arg;
	if (t->refused) {
		*alert = SSL_AD_HANDSHAKE_FAILURE;
		return SSL_CLIENT_HELLO_ERROR;
	}
	return t->answered ? SSL_CLIENT_HELLO_SUCCESS : SSL_CLIENT_HELLO_RETRY;
}

static int on_alpn(SSL *ssl, const uint8_t **out, uint8_t *n_out, const uint8_t *in, unsigned n, void *arg)
{
	struct tls *t = SSL_get_app_data(ssl);
	size_t k = strlen(t->protocol);
	(void)arg;
	for (unsigned at = 0; at < n && at + 1 + in[at] <= n; at += 1u + in[at])
		if (in[at] == k && !memcmp(in + at + 1, t->protocol, k)) {
			*out = in + at + 1;
			*n_out = in[at];
			return SSL_TLSEXT_ERR_OK;
		}
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static SSL_CTX *make_ctx(const SSL_METHOD *method)
{
	SSL_CTX *c = SSL_CTX_new(method);
	if (!c || SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION) != 1) {
		SSL_CTX_free(c);
		return NULL;
	}
	SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
	SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				    SSL_MODE_RELEASE_BUFFERS);
	return c;
}

int tls_ctx_init(struct tls_ctx *c, const char *extra_ca, struct err *e)
{
	*c = (struct tls_ctx){0};
	OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL); // the host's openssl.cnf is not ours to obey
	c->server = make_ctx(TLS_server_method());
	c->client = make_ctx(TLS_client_method());
	c->bio = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "skep");
	if (!c->server || !c->client || !c->bio)
		return err_set(e, ERR_SYSTEM, "OpenSSL does not start");
	BIO_meth_set_read(c->bio, bio_read);
	BIO_meth_set_write(c->bio, bio_write);
	BIO_meth_set_ctrl(c->bio, bio_ctrl);
	SSL_CTX_set_num_tickets(c->server, 0);
	SSL_CTX_set_client_hello_cb(c->server, on_client_hello, NULL);
	SSL_CTX_set_alpn_select_cb(c->server, on_alpn, NULL);
	c->store = tls_store_open(extra_ca, e);
	if (!c->store)
		return -1;
	tls_store_attach(c->store, c->client);
	return 0;
}

void tls_ctx_done(struct tls_ctx *c)
{
	SSL_CTX_free(c->server);
	SSL_CTX_free(c->client);
	BIO_meth_free(c->bio);
	tls_store_free(c->store);
	*c = (struct tls_ctx){0};
}

static int make_ssl(struct tls *t, struct tls_ctx *c, SSL_CTX *ctx, struct err *e)
{
	BIO *bio = BIO_new(c->bio);
	t->ssl = SSL_new(ctx);
	if (!bio || !t->ssl) {
		BIO_free(bio);
		SSL_free(t->ssl);
		t->ssl = NULL;
		return err_set(e, ERR_SYSTEM, "no TLS object");
	}
	BIO_set_data(bio, t);
	BIO_set_init(bio, 1);
	SSL_set_bio(t->ssl, bio, bio);
	SSL_set_app_data(t->ssl, t);
	return 0;
}

int tls_accept(struct tls *t, struct tls_ctx *c, struct loop *l, int fd, struct str first, struct err *e)
{
	if (make_ssl(t, c, c->server, e)) {
		close_fd(&fd);
		return -1;
	}
	SSL_set_accept_state(t->ssl);
	t->state = TLS_SHAKING;
	return tls_start(t, l, fd, first, e);
}

int tls_connect(struct tls *t, struct tls_ctx *c, struct loop *l, int fd, struct tls_offer offer, struct err *e)
{
	static const uint8_t both[] = "\x02h2\x08http/1.1";
	if (make_ssl(t, c, c->client, e)) {
		close_fd(&fd);
		return -1;
	}
	SSL_set_connect_state(t->ssl);
	SSL_set_hostflags(t->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	const uint8_t *alpn = offer.h2 ? both : both + 3;
	unsigned n = (offer.h2 ? 3u : 0u) + (offer.h1 ? 9u : 0u);
	bool named = offer.address ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(t->ssl), offer.address) == 1
				   : SSL_set1_host(t->ssl, offer.name->s) == 1 && SSL_set_tlsext_host_name(t->ssl, offer.name->s) == 1;
	if (!named || SSL_set_alpn_protos(t->ssl, alpn, n)) {
		SSL_free(t->ssl);
		t->ssl = NULL;
		close_fd(&fd);
		return err_set(e, ERR_SYSTEM, "no TLS object");
	}
	t->state = TLS_SHAKING;
	return tls_start(t, l, fd, (struct str){NULL, 0}, e);
}

static struct str alpn_list(struct tls *t)
{
	const uint8_t *p;
	size_t n;
	// the extension's data: u16 length, then names of u8 length
	if (SSL_client_hello_get0_ext(t->ssl, TLSEXT_TYPE_application_layer_protocol_negotiation, &p, &n) != 1 || n < 2)
		return (struct str){NULL, 0};
	return (struct str){(const char *)p + 2, n - 2};
}

bool tls_has_alpn(struct tls *t)
{
	return alpn_list(t).n > 0;
}

bool tls_offers(struct tls *t, const char *protocol)
{
	struct str s = alpn_list(t);
	for (size_t at = 0; at < s.n && at + 1 + (uint8_t)s.p[at] <= s.n; at += 1u + (uint8_t)s.p[at])
		if (str_is((struct str){s.p + at + 1, (uint8_t)s.p[at]}, protocol))
			return true;
	return false;
}

int tls_answer(struct tls *t, struct ca *ca, const struct host_name *name, const char *protocol, struct err *e)
{
	X509 *leaf = ca_leaf(ca, name, e);
	if (!leaf)
		return -1;
	if (SSL_use_certificate(t->ssl, leaf) != 1 || SSL_use_PrivateKey(t->ssl, ca_leaf_key(ca)) != 1)
		return err_set(e, ERR_SYSTEM, "OpenSSL does not take the certificate");
	if (fmt_to(t->protocol, sizeof t->protocol, "%s", protocol))
		return err_set(e, ERR_BUG, "protocol");
	t->answered = true;
	t->state = TLS_SHAKING;
	tls_kick(t);
	return 0;
}

void tls_refuse(struct tls *t)
{
	t->refused = true;
	if (t->state == TLS_HELD)
		SSL_do_handshake(t->ssl); // runs into on_client_hello, which sends the alert
	t->state = TLS_SHAKING;
	tls_kick(t);
}

bool tls_chose(struct tls *t, const char *protocol)
{
	const uint8_t *p = NULL;
	unsigned n = 0;
	if (t->ssl)
		SSL_get0_alpn_selected(t->ssl, &p, &n);
	return p && str_is((struct str){(const char *)p, n}, protocol);
}

const char *tls_verify_error(const struct tls *t)
{
	return t->verify == X509_V_OK ? NULL : X509_verify_cert_error_string(t->verify);
}
