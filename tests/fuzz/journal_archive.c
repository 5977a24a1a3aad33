// SPDX-License-Identifier: Apache-2.0
// The index of packed journals: whatever a line says, nothing is allocated by it.
#include "base/err.h"
#include "journal/archive.h"
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_entry(void *ctx, const struct archive_entry *en)
{
	unsigned *n = ctx;
	assert(id_is(en->id) && en->raw <= ARCHIVE_RAW_MAX && strlen(en->sha256) == SHA256_HEX - 1);
	(*n)++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct err e;
	unsigned n = 0;
	struct archive_entry en;
	if (fd < 0)
		fd = memfd_create("index", MFD_CLOEXEC);
	if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		return 0;
	if (!archive_each(fd, on_entry, &n, &e))
		assert(n <= size);
	archive_line_parse((const char *)data, size, &en);
	return 0;
}
