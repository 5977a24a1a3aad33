// SPDX-License-Identifier: Apache-2.0
// What E2B's lists and templates take from a query or a path.
#include "api/e2b_list.c"

#include "api/e2b_templates.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	auto_free char *text = xstrndup((const char *)p, n);
	char *query[] = {(char *)"metadata", text, (char *)"nextToken", text, (char *)"state", text, NULL};
	struct request r = {.query = query};
	struct filter f = {0};
	struct err e;
	uint64_t ms;
	char *name = NULL, *tag = NULL;
	bool bad = read_metadata(&r, &f);
	if (!bad && strv_len(f.metadata) % 2)
		abort();
	strv_free(f.metadata);
	if (!read_token(&r, &f) && *f.after_id && !id_is(f.after_id))
		abort();
	if (read_states(&r, &f) && read_time(text, &ms) && e2b_word_split(text, &name, &tag, &e))
		return 0;
	free(name);
	free(tag);
	return 0;
}
