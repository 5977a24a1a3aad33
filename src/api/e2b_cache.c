// SPDX-License-Identifier: Apache-2.0
// What a build need not do again. Each step has a key: of the step before it, its own words, and the content of the files it copies;
// the first one of what the template is built on. Where a sandbox was kept as it was after a step with this key, the build begins
// there. Words that name a place of the outside (a package's newest version) are as new as they were then: `skipCache` is for those.
#include "api/e2b_build.h"

#include "base/mem.h"
#include "base/sha256.h"
#include <string.h>

#define DEEP 20 // layers below a sandbox from which on no more are added: a stack has its limit, and merging takes time

static void add(struct sha256 *h, const char *s)
{
	uint64_t n = s ? strlen(s) : UINT64_MAX;
	sha256_add(h, &n, sizeof n);
	if (s)
		sha256_add(h, s, n);
}

static void add_list(struct sha256 *h, char *const *v)
{
	uint64_t n = strv_len(v);
	sha256_add(h, &n, sizeof n);
	for (; v && *v; v++)
		add(h, *v);
}

// false: what it copies is not known, so neither is what comes of it.
static bool step_key(struct e2b_step *s, const char *before)
{
	struct sha256 h;
	const char *files = s->hash ? e2b_upload_digest(s->hash) : NULL;
	if (s->kind->copies && !files)
		return false;
	sha256_init(&h);
	add(&h, before);
	add(&h, s->kind->name);
	add_list(&h, s->args);
	add(&h, files);
	sha256_end_hex(&h, s->key);
	return true;
}

void e2b_cache_keys(struct e2b_builder *x, const struct e2b_base *base)
{
	struct sha256 h;
	char before[SHA256_HEX];
	sha256_init(&h);
	add(&h, "e2b step 1");
	add(&h, base->build ? base->build->snapshot : NULL);
	add(&h, base->image);
	add_list(&h, x->env);
	add(&h, x->user);
	add(&h, x->workdir);
	sha256_end_hex(&h, before);
	for (size_t i = 0; i < x->n_steps && step_key(&x->steps[i], before); i++)
		memcpy(before, x->steps[i].key, sizeof before);
}

const char *e2b_cache_find(struct e2b_builder *x)
{
	size_t n = 0;
	while (n < x->n_steps && x->steps[n].key[0] && !x->steps[n].force)
		n++;
	for (; n; n--) {
		const char *snapshot = engine_step_find(x->g, x->steps[n - 1].key);
		if (snapshot) {
			x->cached = n;
			return snapshot;
		}
	}
	return NULL;
}

// After the steps that take time, and the last one.
bool e2b_cache_wants(const struct e2b_builder *x)
{
	struct err ignored;
	const struct e2b_step *s = &x->steps[x->at - 1];
	const struct sandbox *row = engine_peek(x->g, x->sandbox, &ignored);
	return s->key[0] && (s->kind->costly || x->at == x->n_steps) && row && strv_len(row->lowers) < DEEP;
}
