// SPDX-License-Identifier: Apache-2.0
// The kept directory is $XDG_DATA_HOME/skep/agents/NAME (~/.local/share), shown in every run of the agent as its own below
// the home. It is writable inside: what one run writes there, the next one reads, in another project too. Root's sandboxes each
// have ids of their own, none of which could read what another one kept, so for root there is none: a secret logs in.
#include "cli/agent.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/api.h"
#include "cli/home.h"
#include "cli/out.h"
#include "model/agent.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOME_INSIDE "/home/skep"

static bool agent_has_secret(const char *name)
{
	struct err ignored;
	size_t i;
	json_t *s;
	auto_api struct api a = API_CLOSED;
	auto_json json_t *j = api_open(&a, &ignored) ? NULL : api_json(&a, "GET", "/v1/secrets", NULL, &ignored);
	json_array_foreach(json_object_get(j, "secrets"), i, s)
		if (!strcmp(json_str(s, "name"), name))
			return true;
	return false;
}

static bool is_given(char *const *list, const char *word)
{
	for (; list && *list; list++)
		if (!strcmp(*list, word))
			return true;
	return false;
}

static void agent_log_in(struct create_opts *o, const struct agent *a)
{
	auto_buf struct buf b = BUF_INIT(4096);
	if (is_given(o->net.secrets, a->secret))
		return;
	if (agent_has_secret(a->secret)) {
		strv_add(&o->net.secrets, a->secret);
	} else if (getenv(a->secret)) {
		buf_fmt(&b, "skep: %s is set here, and stays here. To let %s use it unseen: printenv %s | skep secret set %s --host %s --as %s\n",
			a->secret, a->name, a->secret, a->secret, a->secret_host, a->secret_as);
		out_stderr(&b);
	}
}

static int agent_keep_dir(struct create_opts *o, const struct agent *a, struct err *e)
{
	const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
	if (!geteuid() || home_remote() || ((!data || *data != '/') && (!home || *home != '/')))
		return 0;
	bool own = data && *data == '/';
	auto_free char *dir = xasprintf("%s%s/skep/agents/%s", own ? data : home, own ? "" : "/.local/share", a->name);
	auto_free char *mount = xasprintf("%s:%s/%s:rw", dir, HOME_INSIDE, a->dir);
	auto_free char *variable = xasprintf("%s=%s/%s", a->dir_variable ? a->dir_variable : "", HOME_INSIDE, a->dir);
	if (fs_mkdirs(AT_FDCWD, dir, 0700, e))
		return err_wrap(e, "the directory that keeps %s's login", a->name);
	strv_add(&o->mounts, mount);
	if (a->dir_variable)
		strv_add(&o->env, variable);
	return 0;
}

// What was given stands behind it: the later of two values of a variable counts.
static void agent_env(struct create_opts *o, const struct agent *a)
{
	char **given = o->env;
	o->env = NULL;
	for (const char *const *v = a->env; *v; v++)
		strv_add(&o->env, *v);
	for (char **v = given; v && *v; v++)
		strv_add(&o->env, *v);
	strv_free(given);
}

// A list that was not given stays NULL: an empty one would be sent, and some fields need more rights than a run has.
static char **agent_list_copy(char *const *given)
{
	return given ? strv_copy(given) : NULL;
}

int agent_apply(struct create_opts *o, const char *command, struct err *e)
{
	const struct agent *a = command ? agent_find(command) : NULL;
	bool closed = o->net.preset && !strcmp(o->net.preset, "none");
	o->env = agent_list_copy(o->env);
	o->mounts = agent_list_copy(o->mounts);
	o->net.allow = agent_list_copy(o->net.allow);
	o->net.secrets = agent_list_copy(o->net.secrets);
	if (!a)
		return 0;
	if (!o->net.preset && a->preset)
		o->net.preset = a->preset;
	for (const char *const *h = a->hosts; *h && !closed; h++)
		strv_add(&o->net.allow, *h);
	agent_env(o, a);
	agent_log_in(o, a);
	return agent_keep_dir(o, a, e);
}

void agent_done(struct create_opts *o)
{
	strv_free(o->env);
	strv_free(o->mounts);
	strv_free(o->net.allow);
	strv_free(o->net.secrets);
}
