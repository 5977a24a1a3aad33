// SPDX-License-Identifier: Apache-2.0
// Manifests and indexes of OCI and Docker registries, and an image's configuration: hostile JSON, read into bounded
// structs. Pure. Everything named in them is named by its sha256 and its size.
#pragma once
#include "base/json.h"
#include "base/jsonw.h"

#define PULL_DOCUMENT_MAX (4u << 20) // bytes of a manifest, an index or a configuration
#define PULL_LAYERS 1000
#define PULL_BYTES (64ULL << 30) // of all layers together
#define PULL_DIGEST 72		 // "sha256:", 64 digits and a NUL

#define PULL_ACCEPT                                                                                                    \
	"application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "                        \
	"application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json"

struct pull_blob {
	char digest[PULL_DIGEST];
	uint64_t size;
};
#define pull_blob_hex(b) ((b)->digest + 7)

enum pull_document { PULL_IMAGE, PULL_INDEX };

struct pull_manifest {
	char media_type[128];
	struct pull_blob config;
	struct pull_blob *layers; // each digest once
	size_t n;
	uint64_t bytes; // of the layers
};

// Which of both it is. UNSUPPORTED, with what to do, for schema 1 and for anything else. type: its Content-Type, or "".
int pull_document_kind(const json_t *doc, const char *type, enum pull_document *out, struct err *e) MUST_USE;
// The image for linux and this machine. NOT_FOUND names those there are.
int pull_index_choose(const json_t *index, struct pull_blob *out, struct err *e) MUST_USE;
int pull_manifest_read(const json_t *doc, struct pull_manifest *out, struct err *e) MUST_USE;
void pull_manifest_done(struct pull_manifest *m);
// {"env":[…],"user":…,"workdir":…,"entrypoint":[…],"cmd":[…]} from an image's configuration; what is malformed is left out.
void pull_config_write(struct jsonw *w, const json_t *config);
