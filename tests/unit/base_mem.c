// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
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

static char large[8u << 20];

// What the kernel says of the mapping that address lies in.
static void flags_of(const void *address, char out[256])
{
	FILE *f = fopen("/proc/self/smaps", "r");
	char line[4096];
	uint64_t start, end;
	bool here = false;
	out[0] = 0;
	assert_non_null(f);
	while (!out[0] && fgets(line, sizeof line, f)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &start, &end) == 2)
			here = (uintptr_t)address >= start && (uintptr_t)address < end;
		else if (here && !strncmp(line, "VmFlags:", 8))
			memcpy(out, line, strnlen(line, 255) + 1);
	}
	fclose(f);
}

static void static_buffers_get_small_pages(void **state)
{
	char flags[256];
	(void)state;
	if (access("/sys/kernel/mm/transparent_hugepage", F_OK))
		return; // this kernel has no others
	flags_of(large + sizeof large / 2, flags);
	assert_null(strstr(flags, " nh"));
	mem_small_pages();
	flags_of(large + sizeof large / 2, flags);
	assert_non_null(strstr(flags, " nh"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_list_without_one), cmocka_unit_test(of_two_lists_one), cmocka_unit_test(static_buffers_get_small_pages)};
	return cmocka_run_group_tests_name("base/mem", tests, NULL, NULL);
}
