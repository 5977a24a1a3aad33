// SPDX-License-Identifier: Apache-2.0
// Three texts out of one input: base, host, sandbox. All hunks give the sandbox's text, none the base's; what is judged
// clean can be put into the host's text; names, links and secrets are looked at without a fault.
#include "base/mem.h"
#include "model/risk.h"
#include "model/treename.h"
#include "workspace/review_lines.h"
#include <git2.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Once: the code under test counts on a cheap second time.
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	return git_libgit2_init() < 0;
}

static void must_be(const struct buf *b, const struct lines *l)
{
	if (b->overflow || b->n != l->at[l->n] || (b->n && memcmp(b->p, l->p, b->n)))
		abort();
}

static void splice(struct hunks *h, const struct lines *p, const struct lines *s, int all)
{
	auto_buf struct buf b = BUF_INIT(1 << 22);
	for (size_t i = 0; i < h->n; i++)
		h->v[i].take = all;
	hunks_splice(h, p, s, false, &b);
	must_be(&b, all ? s : p);
}

static void check_lines(const struct lines *p, const struct lines *h, const struct lines *s)
{
	struct hunks ours, host;
	struct err e;
	auto_buf struct buf b = BUF_INIT(1 << 22);
	if (hunks_diff(p, s, &ours, &e) || hunks_diff(p, h, &host, &e))
		abort();
	hunks_name(&ours, "path", p, s);
	splice(&ours, p, s, 0);
	splice(&ours, p, s, 1);
	hunks_place(&ours, s, &host, h);
	hunks_splice(&ours, h, s, true, &b);
	if (!host.n) // nothing moved: it is the sandbox's text
		must_be(&b, s);
	hunks_done(&ours);
	hunks_done(&host);
}

static void check_rules(const char *p, size_t n)
{
	struct risk_text t = {0};
	auto_free char *text = xstrndup(p, n);
	const char *reason;
	risk_of_text(p, n, &t);
	risk_secret(p, n);
	treename_path_has_git(text);
	risk_of_link(text, p, n);
	risk_scripts_differ(p, n, p, n);
	risk_build_sections_differ(p, n, p, n);
	for (size_t at = 0; risk_of_path(text, &at, &reason);)
		;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data;
	struct lines l[3];
	if (size < 2 || size > 4096)
		return 0;
	size_t a = data[0] * (size - 2) / 255, b = data[1] * (size - 2) / 255;
	size_t cut[4] = {0, a < b ? a : b, a < b ? b : a, size - 2};
	for (int i = 0; i < 3; i++)
		lines_init(&l[i], p + 2 + cut[i], cut[i + 1] - cut[i]);
	check_lines(&l[0], &l[1], &l[2]);
	check_rules(p + 2, size - 2);
	for (int i = 0; i < 3; i++)
		lines_done(&l[i]);
	return 0;
}
