// SPDX-License-Identifier: Apache-2.0
// A Java key store of trusted certificates, in the one format every JVM reads (JKS). All but the last certificate
// is made once: the store's checksum is a hash over all of it, and its state is kept.
#pragma once
#include "base/buf.h"

struct sha1 {
	uint32_t h[5];
	uint64_t bytes;
	uint8_t block[64];
};

struct jks {
	struct buf bytes;  // up to where the last certificate goes
	struct sha1 state; // after them
};

// pem: any number of certificates; what can not be read is left out.
void jks_init(struct jks *j, const char *pem);
void jks_done(struct jks *j);
// What after j->bytes makes it a store with one more certificate, the first in pem. INVALID when there is none. Its
// password is "changeit".
int jks_tail(const struct jks *j, const char *pem, struct buf *out, struct err *e) MUST_USE;
