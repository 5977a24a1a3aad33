// SPDX-License-Identifier: Apache-2.0
// The certificate authority of one sandbox: made once, trusted only inside it, its key only in skepd's sealed store and
// in the gate's memory. Signs one leaf per opened host, for exactly its canonical name, with one key for all leaves.
#pragma once
#include "base/buf.h"
#include "model/name.h"
#include <openssl/x509.h>

// A new authority: EC P-256, one year, CN "skep NAME" (NAME may be "" or NULL: "skep"). PEM.
int ca_make(const char *name, struct buf *cert, struct buf *key, struct err *e) MUST_USE;
int ca_print(const char *name, struct err *e) MUST_USE; // both to stdout, certificate first

struct ca;
struct ca *ca_new(const char *cert_pem, const char *key_pem, struct err *e) MUST_USE; // NULL on failure
void ca_free(struct ca *ca);							      // NULL is fine
// The leaf for a host, made now or from the cache. Borrowed until ca_free or the next call for another host.
X509 *ca_leaf(struct ca *ca, const struct host_name *host, struct err *e) MUST_USE;
EVP_PKEY *ca_leaf_key(struct ca *ca); // borrowed
