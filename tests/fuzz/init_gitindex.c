// SPDX-License-Identifier: Apache-2.0
// A git index that a sandbox wrote, as pid 1 reads it to count what is staged.
#include "init/gitindex.h"
#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gitindex g;
	if (gitindex_parse(&g, (const char *)data, size))
		return 0;
	for (size_t i = 0; i < g.n; i++) {
		assert(*g.v[i].path && gitindex_find(&g, g.v[i].path) && gitindex_covers(&g, g.v[i].path));
	}
	gitindex_covers(&g, "a/");
	gitindex_done(&g);
	return 0;
}
