// SPDX-License-Identifier: Apache-2.0
#include "base/home.h"

#include "base/mem.h"
#include <stdlib.h>
#include <unistd.h>

static char *absolute(const char *path, struct err *e)
{
	if (path[0] == '/')
		return xstrdup(path);
	auto_free char *cwd = getcwd(NULL, 0);
	if (!cwd) {
		err_sys(e, "the current directory is gone");
		return NULL;
	}
	return xasprintf("%s/%s", cwd, path);
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
