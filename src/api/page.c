// SPDX-License-Identifier: Apache-2.0
#include "api/page.h"

#include "base/str.h"
#include <string.h>

int page_begin(struct request *r, struct page *out, struct err *e)
{
	const char *limit = request_query(r, "limit"), *cursor = request_query(r, "cursor");
	struct page p = {0};
	if (limit && str_to_u64(str_of(limit), 1, PAGE_MAX, &p.limit))
		return err_set(e, ERR_INVALID, "limit must be 1 to %d", PAGE_MAX);
	if (cursor) {
		struct str rest = str_of(cursor), at;
		p.has_cursor = true;
		if (!str_next(&rest, '-', &at) || str_to_u64(at, 0, INT64_MAX, &p.at) || fmt_to(p.id, sizeof p.id, "%.*s", (int)rest.n, rest.p) ||
		    !id_is(p.id))
			return err_set(e, ERR_INVALID, "cursor is not one that this list gave as \"next\"");
	}
	*out = p;
	return 0;
}

bool page_takes(struct page *p, const char *id, uint64_t created)
{
	if (p->has_cursor && !p->passed) {
		p->passed = created < p->at; // the last one itself may be gone
		if (!strcmp(p->id, id)) {
			p->passed = true;
			return false;
		}
		if (!p->passed)
			return false;
	}
	if (p->limit && p->n == p->limit) {
		p->more = true;
		return false;
	}
	p->n++;
	if (fmt_to(p->next, sizeof p->next, "%llu-%s", (unsigned long long)created, id))
		p->next[0] = 0;
	return true;
}

void page_next(const struct page *p, struct jsonw *w)
{
	jw_nstr(w, "next", p->more ? p->next : NULL);
}
