// SPDX-License-Identifier: Apache-2.0
// A hostile tar is imported into a fresh directory: it may be refused or unpacked, but a neighbour of that
// directory must stay as it is, and a refusal must leave nothing.
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "workspace/image.h"
#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char place[64];
static int place_fd;

static void leave(void)
{
	struct err e;
	(void)!fs_remove_tree(AT_FDCWD, place, &e);
}

static void enter(void)
{
	struct err e;
	const char *dir = getenv("TMPDIR");
	if (place[0])
		return;
	setlocale(LC_CTYPE, "C.UTF-8");
	if (fmt_to(place, sizeof place, "%.40s/skep-fuzz-XXXXXX", dir ? dir : "/tmp") || !mkdtemp(place))
		abort();
	place_fd = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (place_fd < 0 || fs_write(place_fd, "victim", "safe", 4, 0600, &e))
		abort();
	atexit(leave);
}

static void check(int rc, const struct err *e)
{
	struct err why;
	auto_buf struct buf b = BUF_INIT(100);
	if (fs_read(place_fd, "victim", &b, &why) || strcmp(buf_cstr(&b), "safe"))
		abort();
	if (fs_exists(place_fd, "out.parts") || fs_exists(place_fd, "out") != !rc)
		abort();
	if (rc && (e->kind == ERR_BUG || !e->msg[0]))
		abort();
	if (!rc && fs_remove_tree(place_fd, "out", &why))
		abort();
}

// The checksum of each header, so that what was mutated is looked at and not just dropped.
static void mend(uint8_t *p, size_t n)
{
	for (size_t at = 0; at + 512 <= n; at += 512) {
		uint8_t *h = p + at;
		unsigned sum = 8 * ' ';
		if (memcmp(h + 257, "ustar", 5))
			continue;
		for (size_t i = 0; i < 512; i++)
			sum += i >= 148 && i < 156 ? 0 : h[i];
		for (int i = 5; i >= 0; i--, sum >>= 3)
			h[148 + i] = (uint8_t)('0' + (sum & 7));
		h[154] = 0;
		h[155] = ' ';
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char source[64], into[80];
	struct image_result r;
	struct err e = {0};
	enter();
	auto_fd int fd = memfd_create("tar", MFD_CLOEXEC);
	auto_free uint8_t *tar = xcalloc(size, 1);
	if (size)
		memcpy(tar, data, size);
	mend(tar, size);
	if (fd < 0 || write(fd, tar, size) != (ssize_t)size)
		abort();
	if (fmt_to(source, sizeof source, "/proc/self/fd/%d", fd) || fmt_to(into, sizeof into, "%s/out", place))
		abort();
	check(image_import(source, into, &r, &e), &e);
	return 0;
}
