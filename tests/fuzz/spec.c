// SPDX-License-Identifier: Apache-2.0
// Specs from the wire: what is read must be written and read again to the same bytes.
#include "base/mem.h"
#include "model/spec.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(struct buf *a, struct buf *b)
{
	if (a->overflow || a->n != b->n || (a->n && memcmp(a->p, b->p, a->n)))
		abort();
}

static void cell(const uint8_t *p, size_t n)
{
	struct cell_spec s, t;
	struct err e;
	auto_buf struct buf one = BUF_INIT(16 << 20), two = BUF_INIT(16 << 20);
	if (cell_spec_read(p, n, &s, &e))
		return;
	cell_spec_write(&one, &s);
	if (cell_spec_read(one.p, one.n, &t, &e))
		abort();
	cell_spec_write(&two, &t);
	same(&one, &two);
	cell_spec_done(&s);
	cell_spec_done(&t);
}

static void others(const uint8_t *p, size_t n, int which)
{
	struct wire w = {p, n, false};
	struct err e;
	if (which == 0) {
		struct exec_spec s;
		if (!exec_spec_read(&w, &s, &e))
			exec_spec_done(&s);
	} else if (which == 1) {
		struct exec_result r;
		if (!exec_result_read(&w, &r))
			exec_result_done(&r);
	} else {
		struct isolation i;
		auto_buf struct buf text = BUF_INIT(16 << 20);
		if (isolation_read(&w, &i))
			return;
		isolation_json(&text, &i);
		isolation_done(&i);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (data[0] % 4 == 3)
		cell(data + 1, size - 1);
	else
		others(data + 1, size - 1, data[0] % 4);
	return 0;
}
