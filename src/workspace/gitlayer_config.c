// SPDX-License-Identifier: Apache-2.0
// The config of a private .git: an allowlist. git itself parses the host's file, from a pipe, so that no include
// counts.
#include "workspace/gitlayer_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "workspace/repo_git.h"
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// Patterns of keys as git prints them: section and name in lower case. None of them names a command or a file to read.
static const char *const kept[] = {
	"core.filemode",
	"core.ignorecase",
	"core.precomposeunicode",
	"core.symlinks",
	"core.autocrlf",
	"core.eol",
	"core.safecrlf",
	"core.quotepath",
	"core.abbrev",
	"core.whitespace",
	"core.commentchar",
	"core.protecthfs",
	"core.protectntfs",
	"core.logallrefupdates",
	"core.sparsecheckout",
	"core.sparsecheckoutcone",
	"core.bigfilethreshold",
	"core.repositoryformatversion",
	"core.sharedrepository",
	"core.checkroundtripencoding",
	"index.version",
	"index.sparse",
	"extensions.objectformat",
	"extensions.compatobjectformat",
	"extensions.refstorage",
	"extensions.partialclone",
	"extensions.noop",
	"remote.*.url",
	"remote.*.pushurl",
	"remote.*.fetch",
	"remote.*.push",
	"remote.*.tagopt",
	"remote.*.prune",
	"remote.*.promisor",
	"remote.*.partialclonefilter",
	"remote.pushdefault",
	"branch.*.remote",
	"branch.*.merge",
	"branch.*.rebase",
	"branch.*.pushremote",
	"branch.*.description",
	"branch.autosetupmerge",
	"branch.autosetuprebase",
	"branch.sort",
	"submodule.*.url",
	"submodule.*.active",
	"submodule.*.update",
	"submodule.*.branch",
	"submodule.*.ignore",
	"submodule.active",
	"submodule.*.fetchrecursesubmodules",
	"submodule.recurse",
	"user.name",
	"user.email",
	"pull.rebase",
	"pull.ff",
	"push.default",
	"push.autosetupremote",
	"merge.conflictstyle",
	"merge.ff",
	"rebase.autosquash",
	"rebase.autostash",
	"fetch.prune",
	"init.defaultbranch",
};

static bool is_kept(const char *key)
{
	for (size_t i = 0; i < countof(kept); i++)
		if (!fnmatch(kept[i], key, 0))
			return true;
	return false;
}

// A command in disguise: "!cmd" as submodule.update, ext:: and other helpers as a URL.
static bool is_harmless(const char *key, const char *value)
{
	size_t scheme = strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
	if (value[0] == '!' || strchr(value, '\n') || strlen(value) > 8192)
		return false;
	return !(str_has_suffix(key, "url") && scheme && !strncmp(value + scheme, "::", 2));
}

// Where the userinfo of the URL whose "://" is at i ends with '@', or 0.
static size_t userinfo_end(const struct buf *b, size_t i)
{
	size_t end = i + 3, last = 0;
	for (; end < b->n && b->p[end] && !strchr("/ \t\r\n\"'?#", b->p[end]); end++)
		if (b->p[end] == '@')
			last = end;
	return last;
}

// A name alone is a login for ssh, but may be a token for http.
static bool is_credential(const struct buf *b, size_t i, size_t at)
{
	bool http =
		(i >= 4 && !strncasecmp(b->p + i - 4, "http", 4)) || (i >= 5 && !strncasecmp(b->p + i - 5, "https", 5));
	return http || memchr(b->p + i + 3, ':', at - i - 3);
}

void url_scrub(struct buf *text)
{
	for (size_t i = 0; i + 3 < text->n; i++) {
		size_t at = memcmp(text->p + i, "://", 3) ? 0 : userinfo_end(text, i);
		if (!at || !is_credential(text, i, at))
			continue;
		memmove(text->p + i + 3, text->p + at + 1, text->n - at); // with the NUL
		text->n -= at + 1 - (i + 3);
	}
}

static void note(struct gitconfig *c, const char *key, const char *value)
{
	if (!strcmp(key, "core.worktree")) {
		free(c->worktree);
		c->worktree = xstrdup(value);
	} else if (!strcmp(key, "extensions.objectformat")) {
		c->hex = !strcmp(value, "sha256") ? 64 : 40;
	} else if (!strcmp(key, "extensions.refstorage")) {
		c->reftable = !strcmp(value, "reftable");
	} else if (!strcmp(key, "core.autocrlf") || !strcmp(key, "core.eol")) {
		c->converts = true;
	} else if (!strcmp(key, "core.sparsecheckout")) {
		c->sparse = !strcasecmp(value, "true") || !strcmp(value, "1");
	}
}

static bool is_core(const char *key)
{
	return str_has_prefix(key, "core.") || str_has_prefix(key, "index.") || !strcmp(key, "extensions.objectformat");
}

static void take_pair(struct gitconfig *c, bool core, struct buf *out, char *pair)
{
	char *value = strchr(pair, '\n');
	if (value)
		*value++ = 0;
	note(c, pair, value ? value : "");
	if (!strchr(pair, '.') || !is_kept(pair) || (core && !is_core(pair)) || (value && !is_harmless(pair, value)))
		return;
	auto_buf struct buf v = BUF_INIT(16 << 10);
	buf_str(&v, value ? value : "");
	url_scrub(&v);
	gitconfig_add(out, pair, value ? buf_cstr(&v) : NULL);
}

static int strip_one(const char *text, bool core, struct buf *out, struct gitconfig *found, struct err *e)
{
	auto_git struct git_run g;
	auto_fd int in = git_stdin(text, strlen(text), e);
	if (in < 0)
		return -1;
	git_init(&g, GIT_ALONE, NULL);
	g.in = in;
	git_args(&g, "config", "--file", "-", "--no-includes", "--null", "--list", NULL);
	if (git_must(&g, e))
		return err_wrap(e, "the config of the repository");
	for (char *p = g.out.p, *end = p + g.out.n; p && p < end;) {
		char *next = p + strlen(p) + 1;
		take_pair(found, core, out, p);
		p = next;
	}
	return 0;
}

int gitconfig_strip(char *const texts[2], const char *worktree, struct buf *out, struct gitconfig *found, struct err *e)
{
	*found = (struct gitconfig){.hex = 40};
	for (int i = 0; i < 2; i++)
		if (texts[i] && strip_one(texts[i], false, out, found, e))
			return -1;
	gitconfig_add(out, "core.bare", "false");
	gitconfig_add(out, "core.untrackedCache", "false"); // it knows directories by their times on the host
	gitconfig_add(out, "core.fsmonitor", "false");
	gitconfig_add(out, "gc.auto", "0"); // most objects are borrowed: packing them again would only copy them
	if (worktree)
		gitconfig_add(out, "core.worktree", worktree);
	return out->overflow ? err_set(e, ERR_LIMIT, "the config of the repository is too long") : 0;
}

int gitconfig_core(char *const texts[2], struct buf *out, struct gitconfig *found, struct err *e)
{
	*found = (struct gitconfig){.hex = 40};
	for (int i = 0; i < 2; i++)
		if (texts[i] && strip_one(texts[i], true, out, found, e))
			return -1;
	return out->overflow ? err_set(e, ERR_LIMIT, "the config of the repository is too long") : 0;
}

void gitconfig_done(struct gitconfig *c)
{
	free(c->worktree);
	c->worktree = NULL;
}
