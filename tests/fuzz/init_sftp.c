// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as one SFTP packet. No file is touched: what a packet means is told apart from what it does.
#include "init/sftp_wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sftp_request q;
	if (sftp_parse(data, size, &q)) {
		if (q.path || q.path2)
			abort();
		return 0;
	}
	if (q.data && (q.data < data || q.len > size || q.data + q.len > data + size))
		abort();
	if ((q.path && strlen(q.path) > 8192) || (q.path2 && (!q.path || !*q.path2)) || (q.bad_handle && q.handle))
		abort();
	auto_buf struct buf b = BUF_INIT(SFTP_PACKET_MAX);
	size_t at = sftp_begin(&b, SFTP_ATTRS, q.id);
	sftp_attrs(&b, &q.attrs);
	sftp_end(&b, at);
	if (b.overflow || (uint8_t)b.p[3] != b.n - 4)
		abort();
	sftp_request_done(&q);
	return 0;
}
