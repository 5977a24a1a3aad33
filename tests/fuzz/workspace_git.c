// SPDX-License-Identifier: Apache-2.0
// What is read of a git directory without git: URLs, config lines, packed refs.
#include "base/fs.h"
#include "base/mem.h"
#include "workspace/gitlayer_int.h"
#include "workspace/repo_url.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <fcntl.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void urls(const char *text)
{
	struct repo_url u;
	struct err e;
	free(repo_url_join("https://h/a/b", text));
	free(repo_url_join(text, "../x"));
	if (repo_url_parse(text, &u, &e))
		return;
	// nothing of a password is left in what is stored, and what is stored is a URL of the same kind
	struct repo_url again;
	if (strchr(u.clean, '\n') || repo_url_parse(u.clean, &again, &e) || again.password ||
	    strcmp(again.clean, u.clean) || strcmp(again.scheme, u.scheme))
		abort();
	repo_url_done(&again);
	repo_url_done(&u);
}

static void texts(const char *text, size_t n)
{
	free(gitdir_worktree(text));
	auto_buf struct buf b = BUF_INIT(1u << 20);
	buf_add(&b, text, n);
	size_t before = b.n;
	url_scrub(&b);
	if (b.n > before)
		abort();
}

static char top[] = "/tmp/fuzzrefs.XXXXXX";

static void clean(void)
{
	struct err e;
	if (fs_remove_tree(AT_FDCWD, top, &e))
		abort();
}

static void refs(const char *text, size_t n)
{
	static int dir = -1;
	struct err e;
	struct gitdir g;
	struct gitrefs r;
	if (dir < 0 &&
	    (!mkdtemp(top) || (dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 || mkdirat(dir, "refs", 0755)))
		abort();
	if (!strstr(text, "refs/"))
		return;
	if (fs_write(dir, "packed-refs", text, n, 0644, &e))
		abort();
	gitdir_init(&g);
	g.common_fd = dir;
	if (gitrefs_read(&g, 40, &r, &e))
		return;
	for (size_t i = 0; i < r.n; i++)
		if (!gitref_is_name(r.list[i].name) || !gitref_is_id(r.list[i].id, 40) ||
		    (i && strcmp(r.list[i - 1].name, r.list[i].name) >= 0))
			abort();
	gitrefs_done(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (n > 65536)
		return 0;
	auto_free char *text = xstrndup((const char *)data, n);
	size_t len = strlen(text);
	static bool once;
	if (!once)
		atexit(clean);
	once = true;
	urls(text);
	texts(text, len);
	refs(text, len);
	return 0;
}
