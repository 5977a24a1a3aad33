// SPDX-License-Identifier: Apache-2.0
// A blocking stream, plain or TLS, and the small protocol that client and server of the gate's figures speak on it.
//
// Raw: a struct ask, then the server sends that many bytes, or takes them and sends one. No byte of it looks like HTTP
// or TLS, so a gate that looks at first bytes passes it on. HTTP: "GET /BYTES HTTP/1.1", kept open.
#pragma once
#include <openssl/ssl.h>
#include <stdint.h>
#include <sys/types.h>

#define CHUNK (256u << 10)

enum ask_kind { ASK_DOWN = 1, ASK_UP = 2 };
struct ask {
	uint8_t kind, unused[3];
	uint32_t pace; // megabytes a second, 0 = as fast as can be
	uint64_t bytes;
};

struct stream {
	int fd;
	SSL *ssl; // NULL = plain
};

void die(const char *what); // with errno's text, or OpenSSL's
uint64_t now_ns(void);
ssize_t stream_read(struct stream *s, void *p, size_t n);    // up to n; 0 = ended, -1 = broken
int stream_write(struct stream *s, const void *p, size_t n); // all of them, or -1
int stream_read_all(struct stream *s, void *p, size_t n);    // all of them, or -1
int stream_send(struct stream *s, uint64_t n);		     // n bytes of no meaning, or -1
int stream_discard(struct stream *s, uint64_t n);	     // n bytes, or -1
void stream_pace(struct stream *s, uint32_t megabytes);	     // a second, from now on; 0 = as fast as can be
void stream_close(struct stream *s);
