// SPDX-License-Identifier: Apache-2.0
// The record reader: the first bytes choose which getters are called on the rest, in any order.
#include "base/buf.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_str(struct wire *w)
{
	auto_free char *s = wire_get_str(w);
	if (s && w->bad)
		abort();
}

static void check_strv(struct wire *w)
{
	char **v = wire_get_strv(w);
	if (!v != w->bad)
		abort();
	strv_free(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t n_ops = size < 16 ? size / 2 : 8;
	struct wire w = {data + n_ops, size - n_ops, false};
	for (size_t i = 0; i < n_ops; i++) {
		size_t n, before = w.n;
		switch (data[i] % 6) {
		case 0:
			wire_get_u8(&w);
			break;
		case 1:
			wire_get_u32(&w);
			break;
		case 2:
			wire_get_u64(&w);
			break;
		case 3: {
			const uint8_t *p = wire_get_bytes(&w, &n);
			if (p ? p + n != w.p : n != 0)
				abort();
			break;
		}
		case 4:
			check_str(&w);
			break;
		default:
			check_strv(&w);
		}
		if (w.n > before)
			abort();
	}
	return 0;
}
