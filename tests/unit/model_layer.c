// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/layer.h"
#include <string.h>

static int pass(const struct layer_op *op, struct layer_op *out, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(65536);
	layer_op_write(&b, op);
	struct wire w = {.p = (const uint8_t *)b.p, .n = b.n};
	return layer_op_read(&w, out, e);
}

static void a_request_comes_back(void **state)
{
	(void)state;
	struct err e;
	struct layer_op got;
	char a[] = "l1", b[] = "l2", *from[] = {a, b, NULL};
	assert_int_equal(pass(&(struct layer_op){.verb = LAYER_MERGE, .from = from, .to = "m"}, &got, &e), 0);
	assert_true(got.verb == LAYER_MERGE && strv_len(got.from) == 2 && !strcmp(got.from[1], "l2") && !strcmp(got.to, "m"));
	assert_null(got.like);
	layer_op_done(&got);
	from[1] = NULL;
	assert_int_equal(pass(&(struct layer_op){.verb = LAYER_COPY, .from = from, .to = "c", .like = "b"}, &got, &e), 0);
	assert_string_equal(got.like, "b");
	layer_op_done(&got);
	assert_int_equal(pass(&(struct layer_op){.verb = LAYER_SYNC, .from = from, .sealed = true}, &got, &e), 0);
	assert_true(got.sealed);
	layer_op_done(&got);
}

static void names_lead_nowhere_else(void **state)
{
	(void)state;
	struct err e;
	struct layer_op got;
	static const char *const bad[] = {"", "..", ".spare", "a/b", "/etc", "../x"};
	char ok[] = "l1", other[] = "l2";
	for (size_t i = 0; i < countof(bad); i++) {
		char *from[] = {(char *)bad[i], NULL}, *good[] = {ok, NULL};
		assert_int_equal(pass(&(struct layer_op){.verb = LAYER_SIZE, .from = from}, &got, &e), -1);
		assert_int_equal(pass(&(struct layer_op){.verb = LAYER_COPY, .from = good, .to = bad[i]}, &got, &e), -1);
		assert_int_equal(pass(&(struct layer_op){.verb = LAYER_COPY, .from = good, .to = ok, .like = bad[i]}, &got, &e), -1);
	}
	char *none[] = {NULL}, *two[] = {ok, other, NULL}, *one[] = {ok, NULL};
	assert_int_equal(pass(&(struct layer_op){.verb = LAYER_MERGE, .from = none, .to = "m"}, &got, &e), -1);
	assert_int_equal(pass(&(struct layer_op){.verb = LAYER_COPY, .from = two, .to = "m"}, &got, &e), -1);
	assert_int_equal(pass(&(struct layer_op){.verb = LAYER_COPY, .from = one}, &got, &e), -1);
	assert_int_equal(pass(&(struct layer_op){.verb = LAYER_SIZE, .from = one, .to = "m"}, &got, &e), -1);
	assert_int_equal(pass(&(struct layer_op){.verb = LAYER_VERBS, .from = one}, &got, &e), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_request_comes_back), cmocka_unit_test(names_lead_nowhere_else)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
