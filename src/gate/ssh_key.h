// SPDX-License-Identifier: Apache-2.0
// Keys of ssh, in OpenSSL's hands: one that signs, and signatures of others that are checked. Blobs and signatures are
// those of RFC 4253 section 6.6 and RFC 5656, 8332, 8709.
#pragma once
#include "model/sshkey.h"
#include <openssl/evp.h>

struct ssh_key {
	EVP_PKEY *pkey;
	const char *type; // "ssh-ed25519", …
	struct buf blob;  // the public half
};

int ssh_key_load(const void *text, size_t n, struct ssh_key *out, struct err *e) MUST_USE; // see ssh_key_read
void ssh_key_done(struct ssh_key *k);							   // safe on zeroes
// alg: the key's type; for rsa rsa-sha2-256 or rsa-sha2-512, never SHA-1. Appends the signature's blob.
int ssh_key_sign(const struct ssh_key *k, struct ssh_text alg, struct ssh_text data, struct buf *out,
		 struct err *e) MUST_USE;
// The signature is this public key's (plain or of a host certificate) over data.
bool ssh_verifies(struct ssh_text key, struct ssh_text signature, struct ssh_text data);
