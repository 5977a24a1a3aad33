// SPDX-License-Identifier: Apache-2.0
// What stands around the handlers: targets, pages, rates, errors, and the document.
#include "api/auth.h"
#include "api/openapi.h"
#include "api/page.h"
#include "api/route.h"

#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const struct surface *const surfaces[] = {&native_api, NULL};

static void clear(struct request *r)
{
	while (r->n_parts)
		free(r->parts[--r->n_parts]);
	strv_free(r->query);
	free(r->target);
}

static struct request asked(const char *target, int *rc)
{
	struct err e;
	struct request r = {.target = xstrdup(target)};
	*rc = route_find(&r, surfaces, "GET", &e);
	return r;
}

static void targets(void **state)
{
	(void)state;
	static const struct {
		const char *target;
		int rc;
	} rows[] = {
		{"/v1/sandboxes", 0},		 {"/v1/sandboxes/", -1},      {"/v1/sandboxes/%73x", 0}, {"/v1/sandboxes/..", -1},
		{"/v1/sandboxes/%2e%2e", -1}, {"/v1/sandboxes/a%00", -1}, {"/v1/sandboxes/%", -1},	 {"/v1/sandboxes/a?x=%zz", -1},
		{"v1/sandboxes", -1},	 {"", -1},		      {"*", -1},		 {"/v1/sandboxes?a=b&a=c", 0},
		{"//v1/sandboxes", -1},	 {"/v1/sandboxes/A", -1},
	};
	for (size_t i = 0; i < countof(rows); i++) {
		int rc;
		struct request r = asked(rows[i].target, &rc);
		if (rc != rows[i].rc)
			fail_msg("%s", rows[i].target);
		clear(&r);
	}
}

static void cursors(void **state)
{
	(void)state;
	struct err e;
	struct page p;
	int rc;
	struct request r = asked("/v1/sandboxes?limit=2&cursor=50-s0123456789abcde", &rc);
	assert_int_equal(page_begin(&r, &p, &e), 0);
	clear(&r);
	assert_false(page_takes(&p, "s0000000000000a1", 60));
	assert_false(page_takes(&p, "s0000000000000a2", 50)); // given before
	assert_false(page_takes(&p, "s0123456789abcde", 50));
	assert_true(page_takes(&p, "s0000000000000a3", 50));
	assert_true(page_takes(&p, "s0000000000000a4", 40));
	assert_false(page_takes(&p, "s0000000000000a5", 30));
	assert_true(p.more);
	assert_string_equal(p.next, "40-s0000000000000a4");
}

static void rates(void **state)
{
	(void)state;
	uint64_t wait = 0;
	int taken = 0;
	while (taken < 100 && rate_take("tokenonetokenone", 5, &wait))
		taken++;
	assert_in_range(taken, 10, 12);
	assert_int_equal(wait, 1);
	assert_true(rate_take("tokentwotokentwo", 5, &wait));
	for (int i = 0; i < 10000; i++) { // more than are remembered
		char id[20];
		memcpy(id, "t000000000000000", 17);
		for (int d = 15, n = i; d > 5; d--, n /= 10)
			id[d] = (char)('0' + n % 10);
		assert_true(rate_take(id, 1000000, &wait));
	}
	assert_false(rate_take("tokenonetokenone", 5, &wait)); // and it was not forgotten
}

static void errors(void **state)
{
	(void)state;
	struct err e;
	auto_buf struct buf b = BUF_INIT(4096);
	err_set(&e, ERR_NOT_FOUND, "no");
	assert_int_equal(status_of(&e), 404);
	err_status(&e, ERR_DENIED, 401, "who?");
	assert_int_equal(status_of(&e), 401);
	error_body(&b, &e);
	assert_non_null(strstr(b.p, "skep token new"));
	e = (struct err){.kind = ERR_SYSTEM, .sys = 2};
	assert_int_equal(status_of(&e), 500); // an errno is no status
}

static const struct route *route_of(const struct api_op *o)
{
	for (const struct route *t = native_api.routes; t->method; t++)
		if (!strcmp(t->method, o->method) && !strcmp(t->path, o->path))
			return t;
	return NULL;
}

static void document(void **state)
{
	(void)state;
	struct err e;
	auto_buf struct buf b = BUF_INIT(1 << 20);
	openapi_print(&b);
	auto_json json_t *j = json_read(b.p, b.n, &e);
	assert_non_null(j);
	for (const struct api_op *o = api_ops; o->method; o++)
		if (!route_of(o))
			fail_msg("%s %s is described and does not exist", o->method, o->path);
	const json_t *schemas = json_object_get(json_object_get(j, "components"), "schemas");
	for (const struct api_op *o = api_ops; o->method; o++) {
		if (o->in && !json_object_get(schemas, o->in))
			fail_msg("no schema %s", o->in);
		if (o->out && !strchr(o->out, '/') && !json_object_get(schemas, o->out))
			fail_msg("no schema %s", o->out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(targets), cmocka_unit_test(cursors),  cmocka_unit_test(rates),
		cmocka_unit_test(errors),  cmocka_unit_test(document),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
