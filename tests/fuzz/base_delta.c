// SPDX-License-Identifier: Apache-2.0
// The reader of streams of changes: whatever comes, every path that comes out is clean and every body is bounded.
#include "base/delta.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct delta_entry en;
	struct delta_in in;
	struct err e;
	delta_in_mem(&in, data, size);
	in.holes = size % 2;
	int more = delta_start(&in, &e) ? -1 : 1;
	while (more > 0 && (more = delta_next(&in, &en, &e)) > 0) {
		if (!delta_path_ok(en.path) || strlen(en.path) > DELTA_PATH)
			abort();
		for (size_t n = en.kind == 'f'; n;) {
			const char *p;
			bool torn;
			if (delta_body(&in, &p, &n, &torn, &e))
				return 0;
			if (n && p && (p < (const char *)data || p + n > (const char *)data + size))
				abort();
		}
	}
	return 0;
}
