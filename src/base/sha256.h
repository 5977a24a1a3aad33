// SPDX-License-Identifier: Apache-2.0
// SHA-256. Written out because skep-cell, which keeps the journal's chain, links no library.
#pragma once
#include <stddef.h>
#include <stdint.h>

struct sha256 {
	uint32_t h[8];
	uint64_t bytes;
	uint8_t block[64];
};

#define SHA256_HEX 65 // with the NUL

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *p, size_t n);
void sha256_end(struct sha256 *s, uint8_t out[32]);
void sha256_hex(const void *p, size_t n, char out[SHA256_HEX]);
void sha256_end_hex(struct sha256 *s, char out[SHA256_HEX]);
