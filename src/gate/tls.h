// SPDX-License-Identifier: Apache-2.0
// One end of an opened connection as a stream of bytes: TLS or plain, towards the cell or towards the host.
// Non-blocking on the loop; what the kernel does not take is queued, and the owner pauses the other end while the
// queue is high.
//
// Callbacks may end this stream and write to any other; the struct must stay until the event batch is over (loop_bury
// its owner). After end(), tls_finish or tls_abort no data() comes any more. tls.c moves bytes, tls_ctx.c shakes
// hands.
#pragma once
#include "base/buf.h"
#include "base/loop.h"
#include "base/str.h"
#include "gate/ca.h"
#include "gate/tls_store.h"
#include <openssl/ssl.h>

#define TLS_QUEUE_HIGH (64u << 10) // past this the source is paused; a single write may pass it
#define TLS_CHUNK (16u << 10)	   // largest piece data() gets
#define TLS_LINGER_MS 2000	   // how long a finished end waits for its peer's end

struct tls;
struct tls_ops {
	void (*hello)(struct tls *t); // server: the ClientHello is there; tls_answer or tls_refuse goes on
	void (*ready)(struct tls *t); // the handshake is over; not called for plain streams
	void (*data)(struct tls *t, const char *p, size_t n);
	void (*drain)(struct tls *t); // the queue is empty again
	// No more bytes. clean: the peer said so, we may still write. Else it broke or never began, and is closed already;
	// this may follow a clean end.
	void (*end)(struct tls *t, bool clean);
	void (*gone)(struct tls *t); // after tls_finish: everything is sent and closed
};

enum tls_state {
	TLS_NONE,
	TLS_SHAKING,
	TLS_HELD, // server: hello() was called, waits for tls_answer
	TLS_OPEN,
	TLS_ENDED, // the peer sends no more
	TLS_FINISHING,
	TLS_LINGERING, // all is sent; waits for the peer's end, so that it reads our last bytes and not a reset
	TLS_CLOSED,
};

// Shared by all connections of a gate.
struct tls_ctx {
	SSL_CTX *server, *client;
	BIO_METHOD *bio;
	struct tls_store *store;
};
// extra_ca: a PEM file trusted beside the system's, NULL = none.
int tls_ctx_init(struct tls_ctx *c, const char *extra_ca, struct err *e) MUST_USE;
void tls_ctx_done(struct tls_ctx *c);

struct tls {
	struct loop *loop;
	const struct tls_ops *ops; // set by the owner before the stream starts
	struct watch w;
	SSL *ssl; // NULL: plain
	enum tls_state state;
	struct buf first; // bytes of the peer that were read before us
	size_t first_at;
	struct buf out;
	size_t out_at;
	uint64_t *in_count, *out_count; // optional, set by the owner: payload bytes moved
	bool paused, wants_write, answered, refused, secret_out;
	bool failed;	   // a write failed
	bool broken;	   // finishing without a goodbye
	long verify;	   // client, after end(false): OpenSSL's verdict on the certificate
	char protocol[16]; // server: what tls_answer chose
	struct timer kick, linger;
};

// All three take fd (non-blocking), also on failure. first: bytes already read from it; copied.
int tls_plain(struct tls *t, struct loop *l, int fd, struct str first, struct err *e) MUST_USE;
int tls_accept(struct tls *t, struct tls_ctx *c, struct loop *l, int fd, struct str first, struct err *e) MUST_USE;
struct tls_offer {
	const struct host_name *name; // sent as SNI, checked against the certificate
	const char *address;	      // instead of a name: an address that the certificate must be for
	bool h2, h1;		      // offered by ALPN
};
int tls_connect(struct tls *t, struct tls_ctx *c, struct loop *l, int fd, struct tls_offer offer,
		struct err *e) MUST_USE;

// Server, between hello() and the answer.
bool tls_offers(struct tls *t, const char *protocol);
bool tls_has_alpn(struct tls *t);
int tls_answer(struct tls *t, struct ca *ca, const struct host_name *name, const char *protocol,
	       struct err *e) MUST_USE;
void tls_refuse(struct tls *t);			     // an alert; end(false) follows from the loop
bool tls_chose(struct tls *t, const char *protocol); // after ready()
// Client, after end(false): why the certificate was refused; NULL when it was not.
const char *tls_verify_error(const struct tls *t);

void tls_write(struct tls *t, const void *p, size_t n);
void tls_write_secret(struct tls *t, const void *p, size_t n); // the queue is wiped behind it
size_t tls_queued(const struct tls *t);
void tls_pause(struct tls *t, bool paused);
bool tls_is_open(const struct tls *t); // bytes may be written
// Sends what is queued, says goodbye (not when broken: the peer shall see that something is missing), closes, gone().
void tls_finish(struct tls *t, bool broken);
void tls_abort(struct tls *t); // at once, no callback; safe on zeroes and twice

// Between the two files.
int tls_start(struct tls *t, struct loop *l, int fd, struct str first, struct err *e) MUST_USE;
ssize_t tls_raw_read(struct tls *t, void *p, size_t n);
void tls_kick(struct tls *t); // looks again soon, from the loop
