// SPDX-License-Identifier: Apache-2.0
#include "cli/listing.h"

#include "base/mem.h"

int listing_show(const struct call *c, struct api *a, const struct listing *l)
{
	struct err e;
	auto_json json_t *j = api_json(a, "GET", l->path, NULL, &e);
	if (!j)
		return out_fail(c, &e);
	if (l->json)
		return out_json(j);
	auto_buf struct buf b = BUF_INIT(HTTP_BODY_MAX);
	struct table t = {0};
	for (const char *const *h = l->heads; *h; h++, t.n_cols++)
		if (!l->quiet)
			table_add(&t, *h);
	size_t i;
	json_t *one;
	json_array_foreach(json_object_get(j, l->member), i, one)
	{
		if (l->skip && l->skip(one))
			continue;
		if (l->quiet)
			buf_fmt(&b, "%s\n", json_str(one, l->id));
		else
			l->row(&t, one);
	}
	table_print(&t, &b);
	return out_flush(&b);
}

int listing_run(const struct call *c, const struct listing *l)
{
	struct err e;
	auto_api struct api a = API_CLOSED;
	return api_open(&a, &e) ? out_fail(c, &e) : listing_show(c, &a, l);
}

int listing_remove(const struct call *c, const char *prefix)
{
	auto_api struct api a = API_CLOSED;
	struct err e;
	int status = 0;
	if (api_open(&a, &e))
		return out_fail(c, &e);
	for (char **id = c->words; *id; id++) {
		auto_free char *path = api_path(prefix, *id, NULL);
		int code = api_do(&a, "DELETE", path, NULL, &e) ? out_fail(c, &e) : 0;
		status = status ? status : code;
	}
	return status;
}
