// SPDX-License-Identifier: Apache-2.0
#include "model/sshkey.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

static void wiped(struct buf *b)
{
	if (b->p)
		explicit_bzero(b->p, b->cap);
	buf_done(b);
}
#define secret_buf __attribute__((cleanup(wiped)))

// --- byte strings ---

uint8_t ssh_get_u8(struct ssh_in *in)
{
	if (in->bad || !in->n) {
		in->bad = true;
		return 0;
	}
	in->n--;
	return *in->p++;
}

uint32_t ssh_get_u32(struct ssh_in *in)
{
	uint32_t v = 0;
	for (int i = 0; i < 4; i++)
		v = v << 8 | ssh_get_u8(in);
	return in->bad ? 0 : v;
}

struct ssh_text ssh_get(struct ssh_in *in)
{
	uint32_t n = ssh_get_u32(in);
	if (in->bad || n > in->n) {
		in->bad = true;
		return (struct ssh_text){0};
	}
	struct ssh_text t = {in->p, n};
	in->p += n;
	in->n -= n;
	return t;
}

bool ssh_is(struct ssh_text t, const char *s)
{
	return t.n == strlen(s) && !memcmp(t.n ? (const void *)t.p : "", s, t.n);
}

void ssh_put_u32(struct buf *b, uint32_t v)
{
	const uint8_t raw[] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};
	buf_add(b, raw, sizeof raw);
}

void ssh_put(struct buf *b, const void *p, size_t n)
{
	ssh_put_u32(b, (uint32_t)n);
	buf_add(b, n ? p : "", n);
}

void ssh_put_str(struct buf *b, const char *s)
{
	ssh_put(b, s, strlen(s));
}

// --- the text of a key ---

#define BEGIN "-----BEGIN "
#define DASHES "-----"

static int passphrase(struct err *e)
{
	return err_set(
		e, ERR_INVALID,
		"the key is protected by a passphrase, and nobody will be there to give it: make a copy without one "
		"(cp KEY COPY; ssh-keygen -p -N '' -f COPY), or better a key of its own for agents, and give that");
}

static int value_of(char c)
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(alphabet, c) : NULL;
	return at ? (int)(at - alphabet) : -1;
}

static bool decode(const char *p, size_t n, struct buf *out)
{
	uint32_t bits = 0;
	unsigned have = 0;
	for (size_t i = 0; i < n; i++) {
		if (strchr("\r\n\t =", p[i]) && p[i])
			continue;
		int v = value_of(p[i]);
		if (v < 0)
			return false;
		bits = bits << 6 | (uint32_t)v;
		have += 6;
		if (have >= 8) {
			have -= 8;
			buf_byte(out, (char)(bits >> have));
		}
	}
	return !out->overflow;
}

static bool type_is_known(struct ssh_text t)
{
	static const char *const known[] = {"ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384",
					    "ecdsa-sha2-nistp521", "ssh-rsa"};
	for (size_t i = 0; i < countof(known); i++)
		if (ssh_is(t, known[i]))
			return true;
	return false;
}

static int malformed(struct err *e)
{
	return err_set(e, ERR_INVALID, "the private key is damaged: give the whole file, from BEGIN to END");
}

// Strings that follow the type: rsa n e d iqmp p q, ecdsa curve point number, ed25519 public both; then a comment.
static int check_private(struct ssh_in in, struct err *e)
{
	struct ssh_text type = ssh_get(&in);
	if (in.bad)
		return malformed(e);
	if (!type_is_known(type))
		return err_set(e, ERR_INVALID, "a key of type %.*s can not be used: ed25519, ecdsa and rsa can",
			       type.n > 60 ? 60 : (int)type.n, (const char *)type.p);
	for (int left = ssh_is(type, "ssh-rsa") ? 6 : ssh_is(type, "ssh-ed25519") ? 2 : 3; left; left--)
		if (!ssh_get(&in).n)
			return malformed(e);
	ssh_get(&in);
	return in.bad ? malformed(e) : 0;
}

static int read_openssh(const char *body, size_t n, struct buf *out, struct err *e)
{
	static const char magic[] = "openssh-key-v1"; // with its NUL
	secret_buf struct buf raw = BUF_INIT(SSH_KEY_MAX);
	if (!buf_room(&raw, n) || !decode(body, n, &raw) || raw.n < sizeof magic || memcmp(raw.p, magic, sizeof magic))
		return malformed(e);
	struct ssh_in in = {(const uint8_t *)raw.p + sizeof magic, raw.n - sizeof magic, false};
	struct ssh_text cipher = ssh_get(&in), kdf = ssh_get(&in);
	ssh_get(&in); // options of the kdf
	uint32_t keys = ssh_get_u32(&in);
	ssh_get(&in); // the public half
	struct ssh_text sealed = ssh_get(&in);
	if (in.bad || keys != 1)
		return malformed(e);
	if (!ssh_is(cipher, "none") || !ssh_is(kdf, "none"))
		return passphrase(e);
	struct ssh_in private = {sealed.p, sealed.n, false};
	uint32_t a = ssh_get_u32(&private), b = ssh_get_u32(&private);
	if (private.bad || a != b)
		return malformed(e);
	if (check_private(private, e))
		return -1;
	buf_add(out, private.p, private.n);
	return out->overflow ? malformed(e) : 0;
}

static int not_a_key(const char *text, struct err *e)
{
	if (!strncmp(text, "ssh-", 4) || !strncmp(text, "ecdsa-", 6) || strstr(text, BEGIN "PUBLIC") ||
	    strstr(text, BEGIN "SSH2 PUBLIC"))
		return err_set(e, ERR_INVALID, "this is a public key: give the private one (the file without .pub)");
	return err_set(
		e, ERR_INVALID,
		"this is no private key: give the file that ssh-keygen made, such as ~/.ssh/id_ed25519, on stdin");
}

static bool starts(const char *p, const char *end, const char *what)
{
	size_t n = strlen(what);
	return (size_t)(end - p) >= n && !memcmp(p, what, n);
}

int ssh_key_read(const char *text, size_t n, struct buf *out, struct err *e)
{
	secret_buf struct buf copy = BUF_INIT(SSH_KEY_MAX);
	if (n >= SSH_KEY_MAX || memchr(text, 0, n))
		return err_set(e, ERR_INVALID, "this is no private key");
	if (!buf_room(&copy, n + 1)) // one piece: growing would leave copies
		return err_set(e, ERR_LIMIT, "no memory for the key");
	buf_add(&copy, text, n);
	const char *p = strstr(buf_cstr(&copy), BEGIN), *end = p ? strstr(p, "\n" DASHES "END ") : NULL;
	const char *label = p ? p + strlen(BEGIN) : NULL, *body = p ? strchr(p, '\n') : NULL;
	if (p && starts(label, body ? body : copy.p + copy.n, "ENCRYPTED PRIVATE KEY"))
		return passphrase(e);
	if (!p || !strstr(label, "PRIVATE KEY" DASHES) || !end || !body || body > end)
		return p && strstr(label, "PRIVATE KEY") ? malformed(e) : not_a_key(buf_cstr(&copy), e);
	if (starts(label, body, "OPENSSH PRIVATE KEY"))
		return read_openssh(body, (size_t)(end - body), out, e);
	if (memmem(body, (size_t)(end - body), "ENCRYPTED", 9)) // Proc-Type: 4,ENCRYPTED
		return passphrase(e);
	if (starts(label, body, "RSA ") || starts(label, body, "EC ") || starts(label, body, "PRIVATE"))
		return 0;
	return err_set(e, ERR_INVALID, "a key of this kind can not be used: ed25519, ecdsa and rsa can");
}
