// SPDX-License-Identifier: Apache-2.0
#include "model/risk.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/treename.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LONG_LINE 5000u
#define JSON_MAX (4u << 20)
#define SECTIONS_MAX (32u << 20)

enum risk_link risk_of_link(const char *path, const char *target, size_t n)
{
	auto_free char *t = xstrndup(target, n);
	int depth = 0;
	if (!*t || *t == '/')
		return RISK_LINK_OUT;
	if (treename_path_has_git(t))
		return RISK_LINK_GIT;
	for (const char *p = path; (p = strchr(p, '/')); p++)
		depth++;
	for (char *p = t; *p;) {
		size_t len = strcspn(p, "/");
		if (len == 2 && p[0] == '.' && p[1] == '.') {
			if (--depth < 0)
				return RISK_LINK_OUT;
		} else if (len && !(len == 1 && p[0] == '.')) {
			depth++;
		}
		p += len;
		p += *p == '/';
	}
	return RISK_LINK_IN;
}

static void print_member(struct buf *b, const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);
	buf_fmt(b, "%s=", key);
	if (v)
		json_print(b, v, 0);
}

// What npm and the hook managers run.
static bool read_scripts(const char *p, size_t n, struct buf *out)
{
	static const char *const keys[] = {"scripts",	       "bin",	     "husky",  "lint-staged",
					   "simple-git-hooks", "pre-commit", "gypfile"};
	struct err e;
	if (!n)
		return true;
	auto_json json_t *o = n > JSON_MAX ? NULL : json_read(p, n, &e);
	if (!o)
		return false;
	for (size_t i = 0; i < countof(keys); i++)
		print_member(out, o, keys[i]);
	return true;
}

bool risk_scripts_differ(const char *old, size_t old_n, const char *now, size_t now_n)
{
	auto_buf struct buf a = BUF_INIT(JSON_MAX * 4), b = BUF_INIT(JSON_MAX * 4);
	if (!read_scripts(old, old_n, &a) || !read_scripts(now, now_n, &b))
		return true; // what can not be read is not known to be the same
	return a.n != b.n || memcmp(buf_cstr(&a), buf_cstr(&b), a.n);
}

static void read_sections(const char *p, size_t n, struct buf *out)
{
	static const char *const wanted[] = {"build-system",	  "hook",	"script",
					     "entry-points",	  "tool.hatch", "tool.setuptools",
					     "tool.poetry.build", "tool.pytest"};
	bool in = false;
	for (struct str rest = {p, n}, line; str_next(&rest, '\n', &line);) {
		auto_free char *l = xstrndup(line.p, line.n);
		for (size_t i = 0; l[0] == '[' && i < countof(wanted); i++)
			if ((in = strstr(l, wanted[i]) != NULL))
				break;
		if (in)
			buf_fmt(out, "%s\n", l);
	}
}

bool risk_build_sections_differ(const char *old, size_t old_n, const char *now, size_t now_n)
{
	auto_buf struct buf a = BUF_INIT(SECTIONS_MAX), b = BUF_INIT(SECTIONS_MAX);
	read_sections(old, old_n, &a);
	read_sections(now, now_n, &b);
	return a.n != b.n || memcmp(buf_cstr(&a), buf_cstr(&b), a.n);
}

void risk_of_text(const char *p, size_t n, struct risk_text *out)
{
	size_t line_from = 0;
	for (size_t at = 0; at < n;) {
		size_t from = at;
		unsigned cp = treename_next_cp(p, n, &at);
		enum treename_hidden h = cp < 0x80 ? HIDDEN_NONE : treename_hidden(cp);
		// a mark at the very start of a file is an encoding's, not a trick
		out->bidi += h == HIDDEN_BIDI;
		out->invisible += h == HIDDEN_INVISIBLE && !(cp == 0xfeff && !from);
		bool end_of_line = cp == '\r' && at < n && p[at] == '\n';
		out->control += (cp < 0x20 && cp != '\n' && cp != '\t' && cp != '\f' && !end_of_line) || cp == 0x7f ||
				(cp >= 0x80 && cp < 0xa0);
		if (cp == '\n' || at >= n) {
			size_t len = at - line_from;
			out->longest = len > out->longest ? len : out->longest;
			if (!out->secret && len < LONG_LINE * 4)
				out->secret = risk_secret(p + line_from, len);
			line_from = at;
		}
	}
}

// --- one file ---

struct judging {
	const struct risk_subject *s;
	risk_fn *found;
	void *ctx;
};

static void add(const struct judging *j, const char *flag, const char *reason)
{
	j->found(j->ctx, flag, reason);
}

static void add_taken(const struct judging *j, const char *flag, char *reason)
{
	add(j, flag, reason);
	free(reason);
}

static void judge_text(const struct judging *j, const struct risk_text *t)
{
	if (t->bidi)
		add_taken(j, "bidi", xasprintf("%zu characters turn the direction of text: it may read otherwise than it runs", t->bidi));
	if (t->invisible)
		add_taken(j, "invisible", xasprintf("%zu characters show nothing: names that look alike may differ", t->invisible));
	if (t->control)
		add_taken(j, "control", xasprintf("%zu control characters: a terminal may show something else", t->control));
	if (t->longest > LONG_LINE)
		add_taken(j, "long-line", xasprintf("a line of %zu bytes can not be read: minified or packed", t->longest));
	if (t->secret)
		add_taken(j, "secret", xasprintf("it looks like it holds %s", t->secret));
}

static void judge_name(const struct judging *j)
{
	bool odd = false, hidden = false;
	const char *path = j->s->path;
	size_t n = strlen(path);
	for (const char *p = path; *p;) {
		size_t len = strcspn(p, "/");
		odd |= treename_is_odd(p, len);
		p += len;
		p += *p == '/';
	}
	for (size_t at = 0; at < n;) {
		unsigned cp = treename_next_cp(path, n, &at);
		hidden |= cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || treename_hidden(cp);
	}
	if (hidden)
		add(j, "name", "its name holds characters that show nothing or steer a terminal");
	else if (odd || !str_is_utf8(path, n))
		add(j, "name", "its name means another path, or none, on other systems");
}

static void judge_path(const struct judging *j)
{
	const struct risk_subject *s = j->s;
	const char *flag, *reason, *last = "";
	const char *slash = strrchr(s->path, '/'), *name = slash ? slash + 1 : s->path;
	for (size_t at = 0; (flag = risk_of_path(s->path, &at, &reason));) {
		if (strcmp(flag, last))
			add(j, flag, reason);
		last = flag;
	}
	if (!strcasecmp(name, "package.json") && risk_scripts_differ(s->old, s->old_n, s->now, s->now_n))
		add(j, "build", "npm runs its scripts, and they change");
	if (!strcasecmp(name, "pyproject.toml") && risk_build_sections_differ(s->old, s->old_n, s->now, s->now_n))
		add(j, "build", "build tools run what its build sections name, and they change");
}

static void judge_link(const struct judging *j)
{
	switch (risk_of_link(j->s->path, j->s->now, j->s->now_n)) {
	case RISK_LINK_OUT:
		add(j, "link", "the link leaves the directory");
		break;
	case RISK_LINK_GIT:
		add(j, "link", "the link points into git's own data");
		break;
	case RISK_LINK_IN:
		break;
	}
}

void risk_judge(const struct risk_subject *s, risk_fn *found, void *ctx)
{
	struct judging j = {s, found, ctx};
	judge_name(&j);
	if (s->what == RISK_NAME_ONLY)
		return;
	judge_path(&j);
	if (s->what == RISK_LINK)
		judge_link(&j);
	else if (s->what == RISK_UNSEEN)
		add(&j, "unseen", "it is too long to be kept: nobody can look at it");
	else if (s->what == RISK_BINARY)
		add(&j, "binary", "its content is not text");
	else
		judge_text(&j, &s->added);
	if (s->becomes_executable)
		add(&j, "executable", "it becomes executable");
}
