// SPDX-License-Identifier: Apache-2.0
#include "base/home.h"

#include "base/mem.h"
#include "base/str.h"
#include <errno.h>
#include <string.h>
#include <stdlib.h>
#include <unistd.h>

static bool has_dots(const char *path)
{
	struct str rest = str_of(path), part;
	while (str_next(&rest, '/', &part))
		if (str_is(part, ".") || str_is(part, ".."))
			return true;
	return false;
}

// What is there of it is resolved; the rest, which is still to be made, may have no dots.
static char *resolved(const char *path, struct err *e)
{
	auto_free char *there = xstrdup(path);
	for (size_t n = strlen(there);; n = strlen(there)) {
		auto_free char *real = realpath(n ? there : "/", NULL);
		if (real && !has_dots(path + n))
			return xasprintf("%s%s", strcmp(real, "/") ? real : "", path + n);
		char *slash = strrchr(there, '/');
		if (real || errno != ENOENT || !slash)
			break;
		*slash = 0;
	}
	err_set(e, ERR_INVALID, "SKEP_HOME is %s, which leads nowhere: set it to an absolute path", path);
	return NULL;
}

// Paths are compared with it later, so it has one form: absolute, without dots.
static char *absolute(const char *path, struct err *e)
{
	if (path[0] == '/')
		return has_dots(path) ? resolved(path, e) : xstrdup(path);
	auto_free char *cwd = getcwd(NULL, 0);
	if (!cwd) {
		err_sys(e, "the current directory is gone");
		return NULL;
	}
	auto_free char *whole = xasprintf("%s/%s", cwd, path);
	return has_dots(whole) ? resolved(whole, e) : take(&whole);
}

// XDG_STATE_HOME means nothing for root: with sudo it is often still that of another user.
char *home_dir(const char *home, struct err *e)
{
	const char *set = getenv("SKEP_HOME"), *state = getenv("XDG_STATE_HOME");
	if (set && *set)
		return absolute(set, e);
	if (!geteuid())
		return xstrdup("/var/lib/skep");
	if (state && *state == '/')
		return xasprintf("%s/skep", state);
	if (home && *home == '/')
		return xasprintf("%s/.local/state/skep", home);
	err_set(e, ERR_INVALID, "HOME is %s (set HOME or SKEP_HOME)", home && *home ? "not an absolute path" : "not set");
	return NULL;
}
