// SPDX-License-Identifier: Apache-2.0
// devcontainer.json: whatever was taken can be shown; stripping keeps every line and is done after one pass.
#include "base/mem.h"
#include "model/devcontainer.h"
#include "model/jsonc.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t lines(const char *p, size_t n)
{
	size_t k = 0;
	for (size_t i = 0; i < n; i++)
		k += p[i] == '\n';
	return k;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct project p;
	struct err e;
	auto_buf struct buf once = BUF_INIT(1 << 20), text = BUF_INIT(8 << 20);
	jsonc_strip((const char *)data, size, &once);
	if (once.n != size || lines(once.p, once.n) != lines((const char *)data, size))
		abort();
	if (!devcontainer_parse((const char *)data, size, "/home/me/project", size % 2 ? "/ws" : NULL, &p, &e)) {
		project_json(&text, &p);
		if (project_has_wishes(&p) || p.hide) // nothing in such a file asks for trust
			abort();
		for (char **v = p.env; v && *v; v++)
			if (!strchr(*v, '='))
				abort();
		project_done(&p);
	}
	return 0;
}
