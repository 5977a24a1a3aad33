// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
// cmocka wants the headers above it
#include <cmocka.h>

struct link {
	struct link *next, *other;
};

static void a_list_without_one(void **state)
{
	struct link c = {0}, b = {.next = &c}, a = {.next = &b}, stranger = {.next = &a}, *head = &a, *none = NULL;
	(void)state;
	list_unlink(&head, &stranger, next); // not in it
	list_unlink(&none, &a, next);
	assert_ptr_equal(head, &a);
	assert_null(none);
	list_unlink(&head, &b, next);
	assert_true(head == &a && a.next == &c && !c.next);
	list_unlink(&head, &c, next);
	assert_true(head == &a && !a.next);
	list_unlink(&head, &a, next);
	assert_null(head);
}

static void of_two_lists_one(void **state)
{
	struct link b = {0}, a = {.next = &b, .other = &b}, *first = &a, *second = &a;
	(void)state;
	list_unlink(&first, &a, next);
	assert_true(first == &b && second == &a && a.other == &b);
	list_unlink(&second, &b, other);
	assert_true(first == &b && second == &a && !a.other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_list_without_one), cmocka_unit_test(of_two_lists_one)};
	return cmocka_run_group_tests_name("base/mem", tests, NULL, NULL);
}
