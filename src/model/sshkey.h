// SPDX-License-Identifier: Apache-2.0
// Private keys in the forms ssh keeps them in, and the byte strings of its protocols. Pure: no cryptography. Looks only
// at what a key says it is; whether its numbers fit together is found out by whoever signs with it.
#pragma once
#include "base/buf.h"

// Reader: after any short read `bad` stays set and every read returns 0 or an empty string.
struct ssh_in {
	const uint8_t *p;
	size_t n;
	bool bad;
};
struct ssh_text {
	const uint8_t *p; // borrowed
	size_t n;
};
uint8_t ssh_get_u8(struct ssh_in *in);
uint32_t ssh_get_u32(struct ssh_in *in);
struct ssh_text ssh_get(struct ssh_in *in); // a string: u32 length, then its bytes
bool ssh_is(struct ssh_text t, const char *s);
void ssh_put_u32(struct buf *b, uint32_t v);
void ssh_put(struct buf *b, const void *p, size_t n);
void ssh_put_str(struct buf *b, const char *s);

// The text of one private key. "BEGIN OPENSSH PRIVATE KEY": out gets its private part, from the key's type on (ed25519,
// ecdsa, rsa; fields as in that format). "BEGIN [RSA|EC] PRIVATE KEY" is for another reader: out stays empty. INVALID for
// everything else, above all for a key with a passphrase; the message says what to do. The caller wipes out.
int ssh_key_read(const char *text, size_t n, struct buf *out, struct err *e) MUST_USE;
#define SSH_KEY_MAX (16u << 10) // bytes of a key's text and of what ssh_key_read gives
