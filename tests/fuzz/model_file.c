// SPDX-License-Identifier: Apache-2.0
// What a file operation inside a cell says about files: arbitrary bytes are records or nothing, and records that were read
// are written the same.
#include "model/file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire w = {.p = data, .n = size};
	struct file_record r;
	char etag[FILE_ETAG];
	while (w.n) {
		const uint8_t *from = w.p;
		if (file_record_read(&w, &r))
			return 0;
		auto_buf struct buf b = BUF_INIT(2 * size + 256);
		file_record_write(&b, &r);
		file_etag(&r, etag);
		bool same = b.n == (size_t)(w.p - from) && !memcmp(b.p, from, b.n);
		file_record_done(&r);
		if (!same || !file_kind(r.mode) || strlen(etag) >= FILE_ETAG)
			abort();
	}
	return 0;
}
