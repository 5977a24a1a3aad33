// SPDX-License-Identifier: Apache-2.0
// References to images and lines that name a mirror: what is taken has one form, and names no host
// but the one that was meant.
#include "base/mem.h"
#include "model/imageref.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void reference(const char *text)
{
	struct image_ref r, again;
	struct image_endpoint at;
	struct err e;
	if (image_ref_parse(text, &r, &e))
		return;
	auto_free char *one = image_ref_text(&r);
	if (image_ref_parse(one, &again, &e))
		abort();
	auto_free char *two = image_ref_text(&again);
	image_endpoint_of(&r, NULL, NULL, &at);
	if (strcmp(one, two) || strpbrk(at.host, "/?#@ %\\") || strstr(r.repository, "..") || (!at.https && !at.http) || (at.http && !image_host_is_local(at.host)))
		abort();
	image_endpoint_done(&at);
	image_ref_done(&r);
	image_ref_done(&again);
}

static void mirror(char *line)
{
	char *mirrors[] = {line, NULL};
	struct image_ref r;
	struct image_endpoint at;
	struct err e;
	if (image_mirror_check(line, &e))
		return;
	if (image_ref_parse("ghcr.io/a/b", &r, &e))
		abort();
	image_endpoint_of(&r, mirrors, NULL, &at);
	if (strpbrk(at.host, "/?#@ %\\") || strpbrk(at.prefix, "?#@ %\\") || strstr(at.prefix, "..") || at.https == (at.http && at.named))
		abort();
	image_endpoint_done(&at);
	image_ref_done(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 4096)
		return 0;
	auto_free char *text = xstrndup((const char *)data, size);
	reference(text);
	mirror(text);
	return 0;
}
