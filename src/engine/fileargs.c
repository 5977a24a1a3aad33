// SPDX-License-Identifier: Apache-2.0
#include "engine/fileargs.h"

#include "base/mem.h"

char *file_path(const struct file_at *at, const char *path)
{
	struct err e;
	const struct sandbox *s = *path == '/' ? NULL : engine_get(at->engine, at->sandbox, &e);
	if (!s)
		return xstrdup(path); // absolute, or of a sandbox that is not there
	return xasprintf("%s%s%s", s->ws_path, *path ? "/" : "", path);
}

char **fileargs_new(const struct file_at *at, const char *op, const char *path)
{
	char **v = NULL;
	auto_free char *full = file_path(at, path);
	strv_add(&v, op);
	strv_add(&v, full);
	return v;
}

void fileargs_number(char ***v, const char *key, uint64_t n)
{
	auto_free char *s = xasprintf("%s%llu", key, (unsigned long long)n);
	strv_add(v, s);
}

void fileargs_text(char ***v, const char *key, const char *text)
{
	auto_free char *s = xasprintf("%s%s", key, text);
	strv_add(v, s);
}

void fileargs_flags(char ***v, unsigned flags)
{
	static const struct {
		unsigned flag;
		const char *word;
	} words[] = {{FILE_PARENTS, "parents"}, {FILE_NEW, "new"},   {FILE_FOLLOW, "follow"},
		     {FILE_PLAIN, "plain"},	{FILE_MUST, "must"}, {FILE_RECURSIVE, "recursive"}};
	for (size_t i = 0; i < countof(words); i++)
		if (flags & words[i].flag)
			strv_add(v, words[i].word);
}

void fileargs_how(char ***v, const struct file_how *how)
{
	fileargs_flags(v, how->flags);
	if (how->mode) {
		auto_free char *s = xasprintf("mode=%o", how->mode);
		strv_add(v, s);
	}
	if (how->etag)
		fileargs_text(v, "etag=", how->etag);
}
