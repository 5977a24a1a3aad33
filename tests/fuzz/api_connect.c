// SPDX-License-Identifier: Apache-2.0
// What comes from clients of envd and is no form: envelopes, base64, ranges, encodings; and entries, which come from inside.
#include "api/e2b_connect.h"
#include "api/e2b_entry.h"
#include "api/e2b_files.h"
#include "base/base64.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void envelopes(const char *p, size_t n)
{
	struct str rest = {p, n}, one;
	auto_buf struct buf again = BUF_INIT(1 << 24);
	int flags;
	while (envelope_next(&rest, &flags, &one) && flags >= 0)
		envelope_add(&again, (uint8_t)flags, one.p, one.n);
	if (again.n && (again.n != n - rest.n || memcmp(again.p, p, again.n)))
		abort();
}

static void base64(const char *p, size_t n)
{
	auto_buf struct buf plain = BUF_INIT(1 << 24), again = BUF_INIT(1 << 25), back = BUF_INIT(1 << 24);
	if (base64_decode(p, n, &plain))
		return;
	base64_add(&again, plain.p, plain.n);
	if (base64_decode(again.p, again.n, &back) || back.n != plain.n || (plain.n && memcmp(back.p, plain.p, plain.n)))
		abort();
}

static void entries(const char *p, size_t n)
{
	struct wire w = {.p = (const uint8_t *)p, .n = n};
	struct entry e;
	auto_buf struct buf b = BUF_INIT(1 << 24);
	struct jsonw j = {.b = &b};
	while (w.n && !entry_read(&w, &e)) {
		entry_info(&j, &e);
		entry_done(&e);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct byte_range r;
	if (size < 1)
		return 0;
	auto_free char *p = xstrndup((const char *)data + 1, size - 1); // for those that take text
	char *exact = malloc(size > 1 ? size - 1 : 1);
	if (!exact)
		abort();
	memcpy(exact, data + 1, size - 1);
	switch (data[0] % 4) {
	case 0:
		envelopes(exact, size - 1);
		break;
	case 1:
		base64(exact, size - 1);
		break;
	case 2:
		entries(exact, size - 1);
		break;
	case 3:
		(void)files_range(p, &r);
		(void)files_accepts_plain(p);
		(void)files_note_wrong(p, p);
		break;
	}
	free(exact);
	return 0;
}
