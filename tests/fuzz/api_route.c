// SPDX-License-Identifier: Apache-2.0
// A request's target: whatever comes, the decoder ends, and what it takes for an id is one. A decoded text has no NUL and
// is no longer than what it was decoded from.
#include "api/route.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_parts(const struct request *r)
{
	static const char may[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	for (int i = 0; i < r->n_parts; i++)
		if (strlen(r->parts[i]) > 64 || strspn(r->parts[i], may) != strlen(r->parts[i]))
			abort();
}

static void clear(struct request *r)
{
	while (r->n_parts)
		free(r->parts[--r->n_parts]);
	strv_free(r->query);
	r->query = NULL;
	r->route = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct surface *const surfaces[] = {&native_api, NULL};
	static const char *const methods[] = {"GET", "POST", "DELETE", "PUT"};
	struct err e;
	if (size > 4096 || memchr(data, 0, size))
		return 0;
	for (int plus = 0; plus < 2; plus++) {
		auto_free char *text = percent_decode((struct str){(const char *)data, size}, plus);
		if (text && strlen(text) > size)
			abort();
	}
	auto_free char *target = xstrndup((const char *)data, size);
	for (size_t i = 0; i < countof(methods); i++) {
		struct request r = {.target = target};
		if (!route_find(&r, surfaces, methods[i], &e)) {
			check_parts(&r);
			for (char **q = r.query; *q; q += 2)
				if (!q[1] || !request_query(&r, q[0]))
					abort();
		}
		clear(&r);
	}
	return 0;
}
