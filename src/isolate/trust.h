// SPDX-License-Identifier: Apache-2.0
// What makes the tools in a cell trust its sandbox's own certificate authority. The key is never inside.
//
//   /.skep/ca.pem           the certificate alone            node, deno, browsers
//   /.skep/ca-bundle.pem    the host's and it                OpenSSL, GnuTLS, curl, git, python, go, cargo, ruby, ...
//   /.skep/cacerts          the same as a Java key store     java
//   /.skep/{chromium,firefox}.json  browser policies: the certificate, and neither DNS over HTTPS nor ECH
//   /.skep/wgetrc           for a wget that knows no variable
//
// In the default profile the bundle and the key store also lie over the system's own files, so that what knows no
// variable works too. In the root profile and in images packages may replace those files: there only variables count.
#pragma once
#include "isolate/jks.h"
#include "isolate/mounts.h"

struct trust_host {
	struct buf bundle; // the host's trusted certificates, PEM; empty = none found
	char *bundle_path; // where tools look for them, below /etc and free of links; NULL = elsewhere
	char *store_path;  // the same for Java
	struct jks store;
};

void trust_scan(struct trust_host *t); // once, by the nursery
void trust_done(struct trust_host *t);
// Every process of every cell has its bytes, and few ever look: from now on forks are not charged for them. No trust_done.
void trust_share(struct trust_host *t);
void trust_template(
	struct plan *p); // links of browsers' policy files, which lead nowhere while there is no certificate

// Writes the files below root, with the rights of the cell's own root. What lies there is replaced, never followed.
int trust_write(const struct trust_host *t, const char *ca_pem, int root, struct err *e) MUST_USE;
// The default profile on the host's system: lays them over the system's. prefix: where root is seen now ("" = it is /).
void trust_cover(const struct trust_host *t, const char *prefix, struct plan *p);
// Adds what is not set yet. covered: trust_cover was used.
void trust_env(const struct trust_host *t, bool covered, char ***env);
