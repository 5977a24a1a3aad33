// SPDX-License-Identifier: Apache-2.0
// The trusted CAs. OpenSSL needs 30 ms to parse a system's bundle; a connection needs one of them. So the files are
// read into a list of subjects, and a CA is parsed when a chain names it. Files are opened before the gate seals
// itself.
#pragma once
#include "base/err.h"
#include <openssl/ssl.h>

struct tls_store;
// The system's bundle (or SSL_CERT_FILE) and, unless NULL, a file beside it. Absent bundle: nothing is trusted by it.
struct tls_store *tls_store_open(const char *extra, struct err *e) MUST_USE;
void tls_store_free(struct tls_store *s);		  // NULL is fine
void tls_store_attach(struct tls_store *s, SSL_CTX *ctx); // s must outlive ctx
