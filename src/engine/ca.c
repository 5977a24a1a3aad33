// SPDX-License-Identifier: Apache-2.0
// The certificate authority of a sandbox whose TLS is opened somewhere. skep-gate makes it (skepd links no TLS
// library); the certificate is kept in the row, its key sealed beside it. Only the certificate is ever seen inside.
#include "engine/child.h"
#include "engine/net_int.h"

#include "base/mem.h"
#include "base/seal.h"
#include <stdlib.h>
#include <string.h>

#define PEM_MAX (64u << 10)
#define CA_MS 10000

struct ca {
	struct engine *g;
	char box[ID_SIZE];
	void (*then)(struct box *b, const struct err *e);
};

static char *sealed_as(const struct box *b)
{
	return xasprintf("ca %s", b->row.id);
}

int ca_key(struct box *b, struct buf *out, struct err *e)
{
	const struct seal *s = engine_seal(b->g, e);
	auto_free char *name = sealed_as(b);
	return !s || seal_unlock(s, name, b->row.net.ca_key.p, b->row.net.ca_key.n, out, e) ? err_wrap(e, "CA of %s", b->row.id) : 0;
}

// The certificate, then the key, each as PEM.
static int keep(const struct child_end *end, struct box *b, struct err *e)
{
	static const char cert_mark[] = "-----BEGIN CERTIFICATE-----", begin[] = "-----BEGIN ", key_mark[] = "PRIVATE KEY-----";
	const struct seal *s = engine_seal(b->g, e);
	if (!s)
		return -1;
	char *cert = end->out->n ? strstr(end->out->p, cert_mark) : NULL;
	char *key = cert ? strstr(cert + sizeof cert_mark - 1, begin) : NULL;
	if (end->status || !key || !strstr(key, key_mark))
		return err_set(e, ERR_SYSTEM, "skep-gate made no CA (wait status 0x%x)", (unsigned)end->status);
	auto_free char *name = sealed_as(b);
	struct net_row *n = &b->row.net;
	free(n->ca_cert);
	n->ca_cert = xstrndup(cert, (size_t)(key - cert));
	buf_done(&n->ca_key);
	n->ca_key = BUF_INIT(PEM_MAX + 1024);
	seal_lock(s, name, key, strlen(key), &n->ca_key);
	b->row.has_net = true;
	net_save(b);
	return 0;
}

static void on_made(void *ctx, const struct child_end *end)
{
	struct ca *c = ctx;
	struct err e;
	struct box *b = box_by_id(c->g, c->box);
	if (b) {
		b->making_ca = false;
		int rc = keep(end, b, &e);
		c->then(b, rc ? &e : NULL);
	}
	free(c);
}

int ca_make(struct box *b, void (*then)(struct box *b, const struct err *e), struct err *e)
{
	struct ca *c = xcalloc(1, sizeof *c);
	*c = (struct ca){.g = b->g, .then = then};
	memcpy(c->box, b->row.id, sizeof c->box);
	char a0[] = "skep-gate", a1[] = "--make-ca", *argv[] = {a0, a1, NULL};
	struct child_spec spec = {.program = "skep-gate", .argv = argv, .out_max = PEM_MAX, .timeout_ms = CA_MS, .secret = true};
	if (!child_start(b->g, &spec, on_made, c, e)) {
		free(c);
		return -1;
	}
	b->making_ca = true;
	return 0;
}
