// SPDX-License-Identifier: Apache-2.0
// Any bytes as a journal: readers must not fail on them, and a writer either refuses or continues them so that
// what it adds is found again. A NUL byte in the input starts the next segment.
#include "base/fs.h"
#include "base/mem.h"
#include "journal/journal.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
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
	const char *dir = getenv("TMPDIR");
	if (place[0])
		return;
	if (fmt_to(place, sizeof place, "%.40s/skep-fuzz-XXXXXX", dir ? dir : "/tmp") || !mkdtemp(place))
		abort();
	place_fd = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (place_fd < 0)
		abort();
	atexit(leave);
}

static void write_segments(const char *p, size_t n)
{
	struct str rest = {p, n}, part;
	char name[32] = "journal";
	struct err e;
	for (int i = 1; i < 9; i++) {
		unlinkat(place_fd, name, 0);
		if (str_next(&rest, 0, &part) && fs_write(place_fd, name, part.p, part.n, 0600, &e))
			abort();
		if (fmt_to(name, sizeof name, "journal.%d", i))
			abort();
	}
}

static bool count(struct str line, void *arg)
{
	++*(uint64_t *)arg;
	return line.n > 0;
}

static struct journal_report read_all(void)
{
	struct journal_report r;
	struct err e;
	uint64_t lines = 0, at = 0, end;
	if (journal_verify(place_fd, 0, NULL, &r, &e) || journal_find(place_fd, NULL, count, &lines, &e))
		abort();
	if (r.ok ? lines != r.events : !r.line || !r.reason[0])
		abort();
	for (;;) {
		auto_buf struct buf out = BUF_INIT(4096);
		if (journal_tail(place_fd, at, &out, &end, &e)) {
			if (e.kind != ERR_LIMIT)
				abort();
			return r;
		}
		if (end - at != out.n || (out.n && out.p[out.n - 1] != '\n'))
			abort();
		if (end == at)
			return r;
		at = end;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct journal j;
	struct err e;
	enter();
	write_segments((const char *)data, size);
	struct journal_report before = read_all();
	if (journal_open(&j, place_fd, &e))
		return 0;
	if (journal_append(&j, "usage", "fuzz", "\"n\":1", false, &e))
		abort();
	journal_close(&j);
	struct journal_report after = read_all();
	if (before.ok && (!after.ok || after.torn || after.events != before.events + 1 + before.torn))
		abort();
	return 0;
}
