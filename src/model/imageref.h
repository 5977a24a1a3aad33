// SPDX-License-Identifier: Apache-2.0
// References to images in registries, as people write them for Docker, and where a registry is reached. Pure.
//
//   alpine                     docker.io/library/alpine:latest
//   user/tool:1.2              docker.io/user/tool:1.2
//   localhost:5000/x           localhost:5000/x:latest
//   ghcr.io/a/b@sha256:HEX     ghcr.io/a/b@sha256:HEX
//
// The first component names a registry when it has a dot or a colon, or is "localhost". The canonical text on the right
// is what images are found by, and what two pulls are compared by.
#pragma once
#include "base/err.h"
#include <stdbool.h>

#define IMAGE_REF_MAX 512

struct image_ref {
	char *registry;	  // host[:port], lower case; "docker.io" for Docker Hub under any of its names
	char *repository; // "library/alpine"
	char *tag;	  // NULL: there is a digest only
	char *digest;	  // "sha256:…" or NULL
};
int image_ref_parse(const char *text, struct image_ref *out, struct err *e) MUST_USE;
void image_ref_done(struct image_ref *r);
char *image_ref_text(const struct image_ref *r); // the canonical form, owned
bool image_digest_is(const char *s);		 // sha256: and 64 lower-case hexadecimal digits

// Where requests for a registry go.
struct image_endpoint {
	char *host;   // host[:port], as it stands in URLs
	char *prefix; // of repositories there: "" or "a/b/"
	bool https;   // try https
	bool http;    // plain HTTP is allowed: after https failed where both are set
};
// mirrors: "HOST=URL" lines, HOST "*" stands for every registry but those on this machine. insecure: hosts that may be
// asked without TLS. NULL lists are empty.
void image_endpoint_of(const struct image_ref *r, char *const *mirrors, char *const *insecure, struct image_endpoint *out);
void image_endpoint_done(struct image_endpoint *p);
int image_mirror_check(const char *line, struct err *e) MUST_USE; // "HOST=http[s]://HOST[:PORT][/PREFIX]"
bool image_host_is_local(const char *host);			   // localhost, 127/8 or [::1], with a port or without
// The same registry, under another of its names: for credentials. Both host[:port]; Docker Hub has several names, and
// the port may be left out where it is 443.
bool image_host_same(const char *a, const char *b);
