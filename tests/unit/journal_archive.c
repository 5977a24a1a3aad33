// SPDX-License-Identifier: Apache-2.0
// The index of packed journals, as it is written and as somebody could have changed it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fs.h"
#include "base/mem.h"
#include "journal/archive.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SHA "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void a_line_is_read_as_it_was_written(void **state)
{
	struct archive_entry en = {.offset = 77, .length = 12, .raw = 4096}, back;
	auto_buf struct buf b = BUF_INIT(1000);
	(void)state;
	id_make('s', en.id);
	memcpy(en.sha256, SHA, sizeof SHA);
	archive_line_write(&b, &en);
	assert_int_equal(b.p[b.n - 1], '\n');
	assert_true(b.n < ARCHIVE_LINE_MAX);
	assert_true(archive_line_parse(b.p, b.n - 1, &back));
	assert_string_equal(back.id, en.id);
	assert_string_equal(back.sha256, en.sha256);
	assert_true(back.offset == 77 && back.length == 12 && back.raw == 4096);
	for (size_t n = 0; n < b.n - 1; n++) // cut off anywhere
		assert_false(archive_line_parse(b.p, n, &back));
}

static void a_damaged_line_is_none(void **state)
{
	static const char *const bad[] = {
		"", "sabcdefghijklmno", "sabcdefghijklmno 1 2 3", "../../../../etc/x 1 2 3 " SHA, "sabcdefghijklmno -1 2 3 " SHA,
		"sabcdefghijklmno 1 2 99999999999 " SHA, "sabcdefghijklmno 1 99999999999999999999 3 " SHA, "sabcdefghijklmno 1 2 3 xyz",
		"sabcdefghijklmno 1 2 3 " SHA " more", "sabcdefghijklmno  1 2 3 " SHA,
	};
	struct archive_entry en;
	(void)state;
	for (size_t i = 0; i < countof(bad); i++)
		if (archive_line_parse(bad[i], strlen(bad[i]), &en))
			fail_msg("taken: %s", bad[i]);
}

static void the_last_entry_of_an_id_counts(void **state)
{
	char id[2][ID_SIZE];
	struct err e;
	struct archive_entry en;
	auto_buf struct buf b = BUF_INIT(1 << 20);
	auto_fd int fd = memfd_create("index", MFD_CLOEXEC);
	(void)state;
	id_make('s', id[0]);
	id_make('s', id[1]);
	buf_fmt(&b, "%s 1 2 3 " SHA "\n%s 5 6 7 " SHA "\n", id[0], id[1]);
	for (int i = 0; i < 50000; i++)
		buf_byte(&b, 'x'); // a line without an end in sight
	buf_fmt(&b, "\n%s 8 9 10 " SHA "\n%s 11 12 13 " SHA, id[0], id[1]); // the last one was cut off
	assert_int_equal(fs_write_all(fd, b.p, b.n, &e), 0);
	assert_int_equal(archive_find(fd, id[0], &en, &e), 1);
	assert_int_equal(en.offset, 8);
	assert_int_equal(archive_find(fd, id[1], &en, &e), 1);
	assert_int_equal(en.offset, 5);
	assert_int_equal(archive_find(fd, "snone", &en, &e), 0);
	assert_int_equal(archive_find(-1, id[0], &en, &e), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_read_as_it_was_written),
		cmocka_unit_test(a_damaged_line_is_none),
		cmocka_unit_test(the_last_entry_of_an_id_counts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
