// SPDX-License-Identifier: Apache-2.0
// What a registry answers: a challenge, a URL, and a document that may be an index, a manifest or a
// configuration. The first byte says which. What is taken keeps its bounds.
#include "base/mem.h"
#include "model/imageref.h"
#include "pull/challenge.h"
#include "pull/manifest.h"
#include "pull/url.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void challenge(const char *text)
{
	struct pull_challenge c = {0};
	pull_challenge_add(&c, text);
	pull_challenge_add(&c, text); // a second header
	if ((c.realm || c.service || c.scope) && !c.bearer)
		abort();
	for (const char *p = c.realm; p && *p; p++)
		if (*p < 0x20 || *p > 0x7e)
			abort();
	pull_challenge_done(&c);
}

static void url(const char *text)
{
	struct pull_url base = {0}, to = {0};
	struct err e;
	if (pull_url_parse(NULL, "https://registry.test/v2/", &base, &e))
		abort();
	if (!pull_url_parse(&base, text, &to, &e)) {
		if (strncmp(to.text, "http", 4) || (!pull_url_follows(&base, &to, &e) && (!to.https || to.local)))
			abort();
	}
	pull_url_done(&base);
	pull_url_done(&to);
}

static void manifest(const json_t *j)
{
	struct pull_manifest m = {0};
	struct err e;
	uint64_t sum = 0;
	if (pull_manifest_read(j, &m, &e))
		return;
	for (size_t i = 0; i < m.n; i++) {
		if (!image_digest_is(m.layers[i].digest))
			abort();
		sum += m.layers[i].size;
	}
	if (m.n > PULL_LAYERS || sum != m.bytes || sum > PULL_BYTES || m.config.size > PULL_DOCUMENT_MAX)
		abort();
	pull_manifest_done(&m);
}

static void document(const char *text, size_t n)
{
	struct err e;
	enum pull_document kind;
	struct pull_blob b;
	auto_buf struct buf out = BUF_INIT(8u << 20);
	struct jsonw w = {.b = &out};
	auto_json json_t *j = json_read(text, n, &e);
	if (!j)
		return;
	if (!pull_document_kind(j, "", &kind, &e) && kind == PULL_INDEX && !pull_index_choose(j, &b, &e) && !image_digest_is(b.digest))
		abort();
	manifest(j);
	pull_config_write(&w, j);
	auto_json json_t *again = json_read(buf_cstr(&out), out.n, &e);
	if (!again)
		abort(); // what is stored of a configuration can be read
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size || size > 65536)
		return 0;
	auto_free char *text = xstrndup((const char *)data + 1, size - 1);
	switch (data[0] % 3) {
	case 0:
		challenge(text);
		break;
	case 1:
		url(text);
		break;
	default:
		document(text, strlen(text));
	}
	return 0;
}
