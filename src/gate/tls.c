// SPDX-License-Identifier: Apache-2.0
#include "gate/tls.h"

#include "base/mem.h"
#include <errno.h>
#include <openssl/err.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READS_AT_ONCE 8	    // then another connection has its turn
#define OUT_MAX (16u << 20) // never reached: sources are paused long before

static void update(struct tls *t)
{
	uint32_t events = 0;
	bool reads = t->state == TLS_SHAKING || t->state == TLS_LINGERING || (t->state == TLS_OPEN && !t->paused);
	if (reads)
		events |= LOOP_IN;
	if (t->wants_write || (tls_queued(t) && t->state != TLS_SHAKING && t->state != TLS_HELD))
		events |= LOOP_OUT;
	loop_mod(t->loop, &t->w, events);
}

ssize_t tls_raw_read(struct tls *t, void *p, size_t n)
{
	size_t left = t->first.n - t->first_at;
	if (!left)
		return recv(t->w.fd, p, n, 0);
	n = n < left ? n : left;
	memcpy(p, t->first.p + t->first_at, n);
	t->first_at += n;
	if (t->first_at == t->first.n) {
		buf_done(&t->first);
		t->first_at = 0;
	}
	return (ssize_t)n;
}

static void close_now(struct tls *t)
{
	int fd = t->w.fd;
	if (t->state == TLS_NONE || t->state == TLS_CLOSED)
		return;
	t->state = TLS_CLOSED;
	timer_clear(t->loop, &t->kick);
	timer_clear(t->loop, &t->linger);
	loop_del(t->loop, &t->w);
	close_fd(&fd);
	SSL_free(t->ssl);
	t->ssl = NULL;
	if (t->secret_out && t->out.p)
		explicit_bzero(t->out.p, t->out.cap);
	buf_done(&t->out);
	buf_done(&t->first);
}

void tls_abort(struct tls *t)
{
	close_now(t);
}

static void ended(struct tls *t, bool clean)
{
	if (t->state == TLS_FINISHING || t->state == TLS_LINGERING) {
		close_now(t);
		t->ops->gone(t);
		return;
	}
	clean = clean && !t->failed;
	if (t->state == TLS_CLOSED || (t->state == TLS_ENDED && clean))
		return;
	if (clean) {
		t->state = TLS_ENDED;
		update(t);
	} else {
		t->verify = t->ssl ? SSL_get_verify_result(t->ssl) : X509_V_OK;
		close_now(t);
	}
	t->ops->end(t, clean);
}

enum io { IO_OK, IO_WAIT, IO_END, IO_BROKEN };

static enum io ssl_io(struct tls *t, int rc)
{
	int why = SSL_get_error(t->ssl, rc);
	t->wants_write = why == SSL_ERROR_WANT_WRITE;
	if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE || why == SSL_ERROR_WANT_CLIENT_HELLO_CB)
		return IO_WAIT;
	return why == SSL_ERROR_ZERO_RETURN ? IO_END : IO_BROKEN;
}

static enum io read_some(struct tls *t, char *p, size_t *n)
{
	if (t->ssl) {
		ERR_clear_error();
		int rc = SSL_read_ex(t->ssl, p, *n, n);
		return rc == 1 ? IO_OK : ssl_io(t, rc);
	}
	ssize_t got = tls_raw_read(t, p, *n);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? IO_WAIT : IO_BROKEN;
	*n = (size_t)got;
	return got ? IO_OK : IO_END;
}

static enum io write_some(struct tls *t, const char *p, size_t *n)
{
	if (t->ssl) {
		ERR_clear_error();
		int rc = SSL_write_ex(t->ssl, p, *n, n);
		return rc == 1 ? IO_OK : ssl_io(t, rc);
	}
	ssize_t put = send(t->w.fd, p, *n, MSG_NOSIGNAL);
	if (put < 0)
		return errno == EAGAIN || errno == EINTR ? IO_WAIT : IO_BROKEN;
	*n = (size_t)put;
	return IO_OK;
}

static void emptied(struct tls *t)
{
	if (t->secret_out && t->out.p)
		explicit_bzero(t->out.p, t->out.cap);
	t->secret_out = false;
	t->out_at = 0;
	buf_clear(&t->out);
}

// False when the stream broke on the way.
static bool flush(struct tls *t)
{
	while (tls_queued(t)) {
		size_t n = tls_queued(t);
		enum io io = write_some(t, t->out.p + t->out_at, &n);
		if (io == IO_WAIT)
			return true;
		if (io != IO_OK)
			return false;
		t->out_at += n;
	}
	emptied(t);
	return true;
}

// Everything is sent: say goodbye and wait for the peer, unless it has already ended.
static void goodbye(struct tls *t)
{
	if (t->broken) {
		close_now(t);
		t->ops->gone(t);
		return;
	}
	if (t->ssl)
		SSL_shutdown(t->ssl);
	shutdown(t->w.fd, SHUT_WR);
	t->state = TLS_LINGERING;
	timer_set(t->loop, &t->linger, TLS_LINGER_MS);
	update(t);
}

static void on_linger(struct timer *tm)
{
	struct tls *t = container_of(tm, struct tls, linger);
	close_now(t);
	t->ops->gone(t);
}

// Bytes behind our goodbye are of no interest, only their end.
static void discard(struct tls *t)
{
	char scratch[4096];
	ssize_t n = recv(t->w.fd, scratch, sizeof scratch, 0);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		ended(t, true);
}

static void read_on(struct tls *t)
{
	char chunk[TLS_CHUNK];
	for (int i = 0; i < READS_AT_ONCE && t->state == TLS_OPEN && !t->paused; i++) {
		size_t n = sizeof chunk;
		enum io io = read_some(t, chunk, &n);
		if (io == IO_WAIT && !t->failed) {
			update(t);
			return;
		}
		if (io != IO_OK) {
			ended(t, io == IO_END);
			return;
		}
		if (t->in_count)
			*t->in_count += n;
		t->ops->data(t, chunk, n);
	}
	if (t->state == TLS_OPEN)
		tls_kick(t); // decrypted bytes may wait where no event tells of them
}

static void shake(struct tls *t)
{
	ERR_clear_error();
	int rc = SSL_do_handshake(t->ssl);
	if (rc == 1) {
		t->state = TLS_OPEN;
		t->wants_write = false;
		update(t);
		t->ops->ready(t);
		if (t->state == TLS_OPEN)
			tls_kick(t);
		return;
	}
	bool hello = SSL_get_error(t->ssl, rc) == SSL_ERROR_WANT_CLIENT_HELLO_CB;
	if (ssl_io(t, rc) != IO_WAIT) {
		ended(t, false);
		return;
	}
	if (hello)
		t->state = TLS_HELD;
	update(t);
	if (hello)
		t->ops->hello(t);
}

static void write_on(struct tls *t)
{
	bool waiting = tls_queued(t) > 0;
	if (!flush(t)) {
		ended(t, false);
		return;
	}
	if (t->state == TLS_FINISHING && !tls_queued(t)) {
		goodbye(t);
		return;
	}
	update(t);
	if (waiting && !tls_queued(t) && (t->state == TLS_OPEN || t->state == TLS_ENDED))
		t->ops->drain(t);
}

static void step(struct tls *t, uint32_t events)
{
	if (t->state == TLS_SHAKING) {
		shake(t);
		return;
	}
	if (t->state == TLS_LINGERING) {
		discard(t);
		return;
	}
	if (tls_queued(t) || t->state == TLS_FINISHING)
		write_on(t);
	if (t->state == TLS_OPEN && !t->paused)
		read_on(t);
	else if ((events & (LOOP_ERR | LOOP_HUP)) || t->failed) // nobody reads: the event would come again and again
		ended(t, false);
}

static void on_event(struct watch *w, uint32_t events)
{
	step(container_of(w, struct tls, w), events);
}

static void on_kick(struct timer *tm)
{
	struct tls *t = container_of(tm, struct tls, kick);
	if (t->refused)
		ended(t, false);
	else
		step(t, 0);
}

void tls_kick(struct tls *t)
{
	timer_set(t->loop, &t->kick, 0);
}

int tls_start(struct tls *t, struct loop *l, int fd, struct str first, struct err *e)
{
	t->loop = l;
	t->kick.fn = on_kick;
	t->linger.fn = on_linger;
	t->w.fn = on_event;
	t->first = BUF_INIT(1 << 20);
	t->out = BUF_INIT(OUT_MAX);
	buf_add(&t->first, first.p, first.n);
	if (loop_add(l, &t->w, fd, LOOP_IN | LOOP_OUT, e)) {
		close_fd(&fd);
		t->w.fd = -1;
		t->state = TLS_CLOSED;
		return -1;
	}
	return 0;
}

int tls_plain(struct tls *t, struct loop *l, int fd, struct str first, struct err *e)
{
	t->state = TLS_OPEN;
	return tls_start(t, l, fd, first, e);
}

size_t tls_queued(const struct tls *t)
{
	return t->out.n - t->out_at;
}

bool tls_is_open(const struct tls *t)
{
	return !t->failed && (t->state == TLS_OPEN || t->state == TLS_ENDED);
}

void tls_write(struct tls *t, const void *p, size_t n)
{
	const char *at = p;
	if (!tls_is_open(t))
		return;
	if (t->out_count)
		*t->out_count += n;
	while (n && !tls_queued(t)) {
		size_t k = n;
		enum io io = write_some(t, at, &k);
		if (io == IO_BROKEN || io == IO_END) {
			t->failed = true; // told from the loop, behind what the peer may still have said
			tls_kick(t);
			return;
		}
		if (io == IO_WAIT)
			break;
		at += k;
		n -= k;
	}
	if (!n)
		return;
	buf_add(&t->out, at, n);
	update(t);
}

void tls_write_secret(struct tls *t, const void *p, size_t n)
{
	t->secret_out = true;
	tls_write(t, p, n);
	if (!tls_queued(t))
		t->secret_out = false;
}

void tls_pause(struct tls *t, bool paused)
{
	if (t->paused == paused)
		return;
	t->paused = paused;
	if (t->state != TLS_OPEN)
		return;
	update(t);
	if (!paused)
		tls_kick(t);
}

void tls_finish(struct tls *t, bool broken)
{
	if (t->state == TLS_FINISHING || t->state == TLS_LINGERING || t->state == TLS_CLOSED || t->state == TLS_NONE)
		return;
	if (!tls_is_open(t))
		broken = true;
	t->broken = broken;
	t->state = TLS_FINISHING;
	tls_kick(t); // gone() is called from the loop, never from inside here
	timer_set(t->loop, &t->linger, TLS_LINGER_MS * 15);
}
