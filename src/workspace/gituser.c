// SPDX-License-Identifier: Apache-2.0
// A reader of git's own form of configuration, as much of it as these two values need: sections, quotes, comments,
// continued lines, include, and includeIf by directory, which is how people keep one address for work and another one for the rest.
// git itself is not asked: it takes longer than everything else that happens before a command starts.
#include "workspace/gituser.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/glob.h"
#include "workspace/gitlayer_int.h"
#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define FILE_MAX (256u << 10)
#define VALUE_MAX 500 // both together in less than a page, whatever has to be quoted
#define DEPTH_MAX 5 // of includes; git takes 10

enum section { SECTION_OTHER, SECTION_USER, SECTION_INCLUDE };

struct reading {
	const char *home, *gitdir; // gitdir: NULL = none
	char *name, *email;
	unsigned depth;
};

static void read_file(struct reading *r, const char *path);

static bool is_fit(const char *v)
{
	for (const char *c = v; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			return false;
	return *v && strlen(v) <= VALUE_MAX && str_is_utf8(v, strlen(v));
}

// A path as it stands in `file`: of the home, or of the file's own directory. Owned.
static char *expand(const struct reading *r, const char *file, const char *path)
{
	if (str_has_prefix(path, "~/"))
		return xasprintf("%s%s", r->home, path + 1);
	if (*path == '/')
		return xstrdup(path);
	return xasprintf("%.*s/%s", (int)(strrchr(file, '/') - file), file, path);
}

// What git makes of the pattern of `gitdir:`: anchored nowhere unless it begins with a directory, everything below it when it ends with '/'.
static bool gitdir_fits(const struct reading *r, const char *file, const char *pattern, bool any_case)
{
	bool placed = *pattern == '/' || str_has_prefix(pattern, "~/") || str_has_prefix(pattern, "./");
	auto_free char *from = placed ? expand(r, file, str_has_prefix(pattern, "./") ? pattern + 2 : pattern) : xasprintf("/**/%s", pattern);
	auto_free char *glob = xasprintf("%s%s", from + 1, str_has_suffix(from, "/") ? "**" : "");
	auto_free char *path = xstrdup(r->gitdir ? r->gitdir + 1 : "");
	for (char *c = glob; any_case && *c; c++)
		*c = (char)tolower((unsigned char)*c);
	for (char *c = path; any_case && *c; c++)
		*c = (char)tolower((unsigned char)*c);
	return *path && glob_is_valid(glob) && glob_fit(glob, path) == GLOB_FITS;
}

// Conditions that are not about a directory do not hold.
static bool condition_holds(const struct reading *r, const char *file, const char *condition)
{
	if (str_has_prefix(condition, "gitdir:"))
		return gitdir_fits(r, file, condition + strlen("gitdir:"), false);
	return str_has_prefix(condition, "gitdir/i:") && gitdir_fits(r, file, condition + strlen("gitdir/i:"), true);
}

static enum section section_of(const struct reading *r, const char *file, char *head)
{
	char *sub = strchr(head, '"'), *end = sub ? strrchr(head, '"') : NULL;
	size_t n = strcspn(head, " \t\"");
	if (!sub && n == 4 && !strncasecmp(head, "user", n))
		return SECTION_USER;
	if (!sub && n == 7 && !strncasecmp(head, "include", n))
		return SECTION_INCLUDE;
	if (!sub || sub == end || n != 9 || strncasecmp(head, "includeif", n))
		return SECTION_OTHER;
	*end = 0;
	return condition_holds(r, file, sub + 1) ? SECTION_INCLUDE : SECTION_OTHER;
}

// The value at p, without comment, quotes and the spaces around it; continued lines are one. *end: behind it. Owned.
static char *value_at(const char *p, const char **end)
{
	auto_buf struct buf v = BUF_INIT(4096);
	size_t solid = 0; // what is kept when spaces follow
	bool quoted = false;
	p += strspn(p, " \t");
	for (; *p && *p != '\n' && (quoted || !strchr("#;", *p)); p++) {
		if (*p == '"') {
			quoted = !quoted;
			continue;
		}
		if (*p == '\\' && p[1] == '\n') {
			p++;
			continue;
		}
		bool escaped = *p == '\\' && p[1];
		char c = escaped ? *++p : *p;
		c = escaped && strchr("ntb", c) ? '\n' : c; // a control character: no value of ours has one
		buf_byte(&v, c);
		if (quoted || !strchr(" \t\r", c))
			solid = v.n;
	}
	*end = p + strcspn(p, "\n");
	if (v.overflow)
		return xstrdup("");
	return xstrndup(buf_cstr(&v), solid);
}

static void take_value(struct reading *r, enum section s, const char *file, struct str key, const char *value)
{
	if (s == SECTION_USER && key.n == 4 && !strncasecmp(key.p, "name", 4)) {
		free(r->name);
		r->name = xstrdup(value);
	} else if (s == SECTION_USER && key.n == 5 && !strncasecmp(key.p, "email", 5)) {
		free(r->email);
		r->email = xstrdup(value);
	} else if (s == SECTION_INCLUDE && key.n == 4 && !strncasecmp(key.p, "path", 4) && *value) {
		auto_free char *path = expand(r, file, value);
		read_file(r, path);
	}
}

static void read_text(struct reading *r, const char *file, const char *p)
{
	enum section s = SECTION_OTHER;
	for (; *p; p += *p == '\n') {
		p += strspn(p, " \t\r");
		if (*p == '[') {
			auto_free char *head = xstrndup(p + 1, strcspn(p + 1, "]\n"));
			s = section_of(r, file, head);
			p += 1 + strlen(head);
			p += *p == ']';
			p += strspn(p, " \t\r");
		}
		struct str key = {p, strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")};
		p += key.n + strspn(p + key.n, " \t");
		if (!key.n || *p != '=') {
			p += strcspn(p, "\n");
			continue;
		}
		auto_free char *value = value_at(p + 1, &p);
		take_value(r, s, file, key, value);
	}
}

static void read_file(struct reading *r, const char *path)
{
	struct err e;
	struct stat st;
	auto_buf struct buf b = BUF_INIT(FILE_MAX);
	auto_fd int fd = r->depth < DEPTH_MAX ? open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || fs_read_fd(fd, &b, &e) || !b.n || memchr(b.p, 0, b.n))
		return;
	r->depth++;
	read_text(r, path, b.p);
	r->depth--;
}

void gituser_config(const char *home, const char *xdg, const char *dir, struct buf *out)
{
	auto_free char *gitdir = dir ? xasprintf("%s/.git", dir) : NULL, *own = xasprintf("%s/.gitconfig", home);
	auto_free char *below = xdg && *xdg == '/' ? xasprintf("%s/git/config", xdg) : xasprintf("%s/.config/git/config", home);
	struct reading r = {.home = home, .gitdir = gitdir};
	read_file(&r, below);
	read_file(&r, own); // the later counts, as for git
	if (r.name && is_fit(r.name))
		gitconfig_add(out, "user.name", r.name);
	if (r.email && is_fit(r.email))
		gitconfig_add(out, "user.email", r.email);
	free(r.name);
	free(r.email);
}
