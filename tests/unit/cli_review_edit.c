// SPDX-License-Identifier: Apache-2.0
// A change that came back from an editor: it is read as one of the very lines it was shown for, or refused with a reason.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "cli/review.h"
#include <string.h>

static const char patch[] = "@@ -2,5 +2,5 @@\n a\n b\n-old one\n-old two\n+new one\n+new two\n c\n d\n";

static void gives(const char *was, const char *now, const char *want)
{
	struct err e;
	auto_buf struct buf out = BUF_INIT(1 << 20);
	if (review_edit_read(was, now, &out, &e))
		fail_msg("%s", e.msg);
	assert_string_equal(buf_cstr(&out), want);
}

static void refused(const char *was, const char *now, const char *why)
{
	struct err e;
	auto_buf struct buf out = BUF_INIT(1 << 20);
	assert_int_equal(review_edit_read(was, now, &out, &e), -1);
	assert_int_equal(e.kind, ERR_INVALID);
	assert_non_null(strstr(e.msg, why));
}

static void what_may_be_edited(void **state)
{
	(void)state;
	gives(patch, patch, "new one\nnew two\n");
	gives(patch, "# comment\n a\n b\n-old one\n-old two\n+new one\n c\n d\n# end\n", "new one\n");
	gives(patch, " a\n b\n old one\n-old two\n+mine\n+new two\n c\n d\n", "old one\nmine\nnew two\n");
	gives(patch, " a\n b\n-old one\n+between\n-old two\n c\n d", "between\n");
	gives(patch, " a\n b\n-old one\n-old two\n c\n d\n", "");
	gives(patch, " a\n b\n old one\n old two\n c\n d\n", "old one\nold two\n");
	gives("@@ -0,0 +1 @@\n+a\n", "+b\n+\n+c\n", "b\n\nc\n");
	gives(" \n+x\n \n", "\n+y\n\n", "y\n"); // the blanks of empty lines are gone
}

static void ends_without_newline(void **state)
{
	(void)state;
	const char *was = " a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n";
	gives(was, was, "c");
	gives(was, " a\n-b\n\\ No newline at end of file\n+c\n", "c\n");
	gives(was, " a\n b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n", "b\nc");
	refused(was, " a\n-b\n+c\n", "line 2 is not one that was there");
}

static void what_does_not_fit(void **state)
{
	(void)state;
	refused(patch, " a\n b\n-old\n-old two\n+new one\n c\n d\n", "line 3 is not one that was there");
	refused(patch, "+before\n a\n b\n-old one\n-old two\n c\n d\n", "line 1 lies outside");
	refused(patch, " a\n-b\n-old one\n-old two\n c\n d\n", "line 2 lies outside");
	refused(patch, " a\n b\n-old one\n-old two\n c\n+late\n d\n", "line 6 lies outside");
	refused(patch, " a\n b\n-old one\n-old two\n c\n", "1 line of what was there is missing");
	refused(patch, " a\n b\n", "4 lines of what was there are missing");
	refused(patch, " a\n b\n-old one\n-old two\n c\n d\n e\n", "line 7 is not one that was there");
	refused(patch, "hello\n", "line 1 begins with neither");
	refused(patch, "\\ No newline\n", "line 1 begins with neither");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_may_be_edited),
		cmocka_unit_test(ends_without_newline),
		cmocka_unit_test(what_does_not_fit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
