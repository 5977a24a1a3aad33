// SPDX-License-Identifier: Apache-2.0
// The environment of an exec, complete: nothing of the daemon's own, of the caller's only an allowlist.
#include "engine/engine_int.h"

#include "base/mem.h"
#include "base/str.h"
#include <string.h>

static size_t name_len(const char *kv)
{
	return strcspn(kv, "=");
}

// Adds or replaces.
static void put(char ***env, const char *kv)
{
	size_t n = name_len(kv);
	for (char **v = *env; v && *v; v++)
		if (name_len(*v) == n && !strncmp(*v, kv, n)) {
			char *old = *v;
			*v = xstrdup(kv);
			mem_free_ptr(&old);
			return;
		}
	strv_add(env, kv);
}

static void put_pair(char ***env, const char *name, const char *value)
{
	auto_free char *kv = xasprintf("%s=%s", name, value);
	put(env, kv);
}

static void put_all(char ***env, char *const *list)
{
	for (; list && *list; list++)
		put(env, *list);
}

static bool from_caller(const char *kv, bool tty)
{
	static const char *const names[] = {"LANG",	"LANGUAGE",    "TZ",	   "COLORTERM",
					    "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"};
	struct str name = {kv, name_len(kv)};
	if (!kv[name.n])
		return false;
	for (size_t i = 0; i < countof(names); i++)
		if (str_is(name, names[i]))
			return true;
	return str_has_prefix(kv, "LC_") || (tty && str_is(name, "TERM"));
}

char **env_make(const struct env_input *in)
{
	char **env = NULL;
	put_pair(&env, "PATH", in->path);
	put_pair(&env, "HOME", in->home);
	put_pair(&env, "USER", in->user);
	put_pair(&env, "LOGNAME", in->user);
	put_pair(&env, "SHELL", in->bash ? "/bin/bash" : "/bin/sh");
	if (in->tty)
		put_pair(&env, "TERM", "xterm-256color");
	for (char *const *v = in->caller; v && *v; v++)
		if (from_caller(*v, in->tty))
			put(&env, *v);
	put_all(&env, in->tools);
	put_pair(&env, "SKEP_SANDBOX", in->sandbox);
	put_pair(&env, "SKEP_EXEC", in->exec);
	put_all(&env, in->secrets); // placeholders
	put_all(&env, in->sandbox_env);
	put_all(&env, in->exec_env);
	return env;
}

int env_check(char *const *env, struct err *e)
{
	for (; env && *env; env++) {
		size_t n = name_len(*env);
		if (!n || !(*env)[n])
			return err_set(e, ERR_INVALID, "\"%.60s\" is not NAME=VALUE", *env);
	}
	return 0;
}
