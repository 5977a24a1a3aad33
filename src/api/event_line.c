// SPDX-License-Identifier: Apache-2.0
#include "api/event_line.h"

#include <string.h>

// `"KEY":"` … `"`, which our own writer put there in this order.
static struct str member(struct str s, const char *key)
{
	char *at = memmem(s.p, s.n, key, strlen(key));
	const char *from = at ? at + strlen(key) : NULL, *end = from ? memchr(from, '"', s.n - (size_t)(from - s.p)) : NULL;
	return end ? (struct str){from, (size_t)(end - from)} : (struct str){"", 0};
}

bool event_line_next(struct str *rest, uint64_t *at, struct event_line *out)
{
	const char *nl = rest->n ? memchr(rest->p, '\n', rest->n) : NULL;
	if (!nl)
		return false;
	size_t n = (size_t)(nl - rest->p);
	*at += n + 1;
	*out = (struct event_line){.text = {rest->p, n}, .after = *at};
	out->time = member(out->text, "\"time\":\"");
	out->type = member(out->text, "\"type\":\"");
	*rest = (struct str){nl + 1, rest->n - n - 1};
	return true;
}

bool event_is_of(struct str type, char *const *types)
{
	if (!types)
		return true;
	for (char *const *t = types; *t; t++) {
		size_t n = strlen(*t);
		if (str_is(type, *t) || (type.n > n && !memcmp(type.p, *t, n) && type.p[n] == '.'))
			return true;
	}
	return false;
}

int event_id_parse(const char *text, struct event_id *out, struct err *e)
{
	static const size_t iso = sizeof "2026-01-31T10:20:30.123Z" - 1;
	struct str s = str_of(text);
	uint64_t offset;
	const char *dash = s.n > iso + 1 ? memchr(s.p + iso + 1, '-', s.n - iso - 1) : NULL;
	if (!dash || s.p[iso] != '-' || s.p[iso - 1] != 'Z' || str_to_u64(str_of(dash + 1), 0, INT64_MAX, &offset))
		return err_set(e, ERR_INVALID, "Last-Event-ID is not the id of an event");
	*out = (struct event_id){{s.p, iso}, {s.p + iso + 1, (size_t)(dash - s.p) - iso - 1}, offset};
	return 0;
}
