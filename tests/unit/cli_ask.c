// SPDX-License-Identifier: Apache-2.0
// What counts as an answer to a question of the gate, and what state of a terminal is kept over it.
#include "base/mem.h"
#include "cli/ask.h"
#include "cli/modes.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
// cmocka wants the headers above it
#include <cmocka.h>

static void question_add(struct ask *a, uint32_t id, const char *host, const char *path)
{
	auto_buf struct buf b = BUF_INIT(8192);
	wire_str(&b, host);
	wire_u32(&b, 443);
	wire_str(&b, "GET");
	wire_str(&b, path);
	struct wire w = {.p = (const uint8_t *)b.p, .n = b.n};
	assert_true(ask_add(a, id, &w));
}

static void test_keys_before_shown(void **state)
{
	(void)state;
	struct ask a = {0};
	struct ask_answer answer;
	auto_buf struct buf b = BUF_INIT(8192);
	question_add(&a, 7, "a.test", "/");
	assert_true(!ask_keys(&a, "a", 1, &answer, &b)); // due
	ask_draw(&a, &b);
	assert_true(!ask_keys(&a, "a", 1, &answer, &b)); // drawn, and perhaps not on the screen yet
	ask_seen(&a);
	assert_true(!ask_keys(&a, "a", 1, &answer, &b)); // typed before it could be read
	a.shown_ms -= ASK_TYPEAHEAD_MS;
	ask_redraw(&a);
	assert_true(!ask_keys(&a, "a", 1, &answer, &b)); // shown to somebody else
	ask_draw(&a, &b);
	ask_seen(&a);
	a.shown_ms -= ASK_TYPEAHEAD_MS;
	buf_clear(&b);
	assert_true(ask_keys(&a, "a", 1, &answer, &b));
	assert_true(answer.id == 7 && answer.allow && answer.scope == SCOPE_ALWAYS);
	assert_string_equal(buf_cstr(&b), "\r\nskep: allowed GET a.test:443/ always\r\n");
}

static void test_gone(void **state)
{
	(void)state;
	struct ask a = {0};
	struct ask_answer no = {0};
	auto_buf struct buf b = BUF_INIT(8192);
	question_add(&a, 1, "a.test", "/");
	question_add(&a, 2, "b.test", "/");
	ask_draw(&a, &b);
	ask_seen(&a);
	assert_true(!ask_gone(&a, 3, &no, &b));
	assert_true(ask_gone(&a, 2, &no, &b) && a.n == 1 && !ask_is_due(&a));
	question_add(&a, 4, "c.test", "/");
	assert_true(ask_gone(&a, 1, &no, &b) && a.n == 1 && ask_is_due(&a) && a.list[0].id == 4);
	ask_drop(&a, "", &b);
	assert_true(!a.n);
}

static void test_long_path(void **state)
{
	(void)state;
	struct ask a = {0};
	auto_buf struct buf path = BUF_INIT(4096), b = BUF_INIT(8192);
	for (int i = 0; i < 1000; i++)
		buf_byte(&path, '/');
	question_add(&a, 1, "a.test", buf_cstr(&path));
	ask_draw(&a, &b);
	assert_true(b.n < 400);
	ask_done(&a);
}

static void modes_check(const char *output, const char *again)
{
	struct modes whole = {0}, bytes = {0};
	auto_buf struct buf a = BUF_INIT(4096), b = BUF_INIT(4096);
	modes_read(&whole, output, strlen(output));
	for (const char *p = output; *p; p++)
		modes_read(&bytes, p, 1);
	modes_again(&whole, &a);
	modes_again(&bytes, &b);
	assert_string_equal(buf_cstr(&a), again);
	assert_string_equal(buf_cstr(&b), again);
}

static void test_modes(void **state)
{
	(void)state;
	modes_check("text", "\033[<1u");
	modes_check("\033[?1049h\033[31mx\033[?2004;1006hy", "\033[?1049h\033[?1006h\033[?2004h\033[<1u");
	modes_check("\033[?1049h\033[?1049l\033[?25l", "\033[?25l\033[<1u");
	modes_check("\033[>4;2m", "\033[>4;2m\033[<1u");
	modes_check("\033[?2004h\033[!p", "\033[<1u");
	modes_check("\033[?2004h\033c", "\033[<1u");
	modes_check("\033\033[?25l\033[?6h\033[", "\033[?25l\033[<1u");
	modes_check("\033[?h\033[?;h\033[?99999999999999999999h\033[m\033[>4m", "\033[<1u");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys_before_shown),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_long_path),
		cmocka_unit_test(test_modes),
	};
	return cmocka_run_group_tests_name("cli/ask", tests, NULL, NULL);
}
