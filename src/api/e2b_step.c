// SPDX-License-Identifier: Apache-2.0
// The steps of a build: RUN and COPY run in the sandbox, ENV, WORKDIR and USER change what the next ones run with.
#include "api/e2b_build.h"

#include "base/mem.h"
#include "base/str.h"
#include <string.h>
#include <unistd.h>

#define STEP_MS (3600ULL * 1000)

static void on_line(void *ctx, int stream, const char *p, size_t n)
{
	struct e2b_builder *x = ctx;
	e2b_build_log(x->build, stream == 1 ? "info" : "warn", x->step, p, n);
}

static enum e2b_step_outcome run_step(struct e2b_builder *x, const struct e2b_step *s, void (*done)(void *ctx, const struct err *e, int status),
				      struct err *e)
{
	char *argv[] = {(char *)"/bin/bash", (char *)"-l", (char *)"-c", s->args[0], NULL};
	const char *user = s->args[1] && *s->args[1] ? s->args[1] : x->user;
	(void)e;
	e2b_command(x->g, &(struct e2b_command){.sandbox = x->sandbox, .user = user, .cwd = x->workdir, .argv = argv, .env = x->env, .input = -1,
						.timeout_ms = STEP_MS, .line = on_line, .done = done, .ctx = x});
	return STEP_RUNS;
}

// $1 source, $2 destination, $3 owner or owner:group, $4 mode or "", $5 z for a compressed archive. A directory gives its contents, as with
// Docker; a file takes the destination's name, unless that is a directory.
static const char copy_script[] =
	"set -e\n"
	"umask 022\n"
	"t=$(mktemp -d /tmp/copy.XXXXXX)\n"
	"trap 'rm -rf \"$t\"' EXIT\n"
	"tar -x${5}f - -C \"$t\" --no-same-owner\n"
	"src=${1#/} dst=$2 own=$3\n"
	"case $own in *:*) ;; *) own=$own: ;; esac\n"
	"case $dst in /*) ;; *) dst=$PWD/$dst ;; esac\n"
	"chown -hR \"$own\" \"$t\"\n"
	"[ -z \"$4\" ] || find \"$t\" -type f -exec chmod \"$4\" {} +\n"
	"made() { [ -d \"$1\" ] || { made \"$(dirname \"$1\")\"; mkdir \"$1\"; chown \"$own\" \"$1\"; }; }\n"
	"if [ -d \"$t/$src\" ] && [ ! -L \"$t/$src\" ]; then\n"
	"  made \"$dst\"; cp -a \"$t/$src/.\" \"$dst/\"; chown \"$own\" \"$dst\"\n"
	"elif [ -e \"$t/$src\" ] || [ -L \"$t/$src\" ]; then\n"
	"  case $dst in */) made \"${dst%/}\" ;; *) made \"$(dirname \"$dst\")\" ;; esac\n"
	"  cp -a \"$t/$src\" \"$dst\"\n"
	"else\n"
	"  shopt -s nullglob globstar dotglob\n"
	"  cd \"$t\"; found=0; made \"$dst\"\n"
	"  for f in $src; do cp -a \"$f\" \"$dst/\"; found=1; done\n"
	"  [ $found = 1 ] || { echo \"COPY: no file fits $1\" >&2; exit 1; }\n"
	"fi\n";

static bool is_gzip(int fd)
{
	unsigned char magic[2] = {0};
	return pread(fd, magic, 2, 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
}

static enum e2b_step_outcome copy_step(struct e2b_builder *x, const struct e2b_step *s, void (*done)(void *ctx, const struct err *e, int status),
				       struct err *e)
{
	uint64_t size;
	int fd = s->hash ? e2b_upload_fd(s->hash, &size) : -1;
	size_t n = strv_len(s->args);
	const char *owner = n > 2 && *s->args[2] ? s->args[2] : x->user, *mode = n > 3 ? s->args[3] : "";
	if (fd < 0) {
		err_set(e, ERR_NOT_FOUND, "the files of COPY %s were not uploaded, or skepd was started anew since: build again", s->args[0]);
		return STEP_FAILED;
	}
	char *argv[] = {(char *)"/bin/bash", (char *)"-c",   (char *)copy_script, (char *)"copy", s->args[0], s->args[1],
			(char *)owner,	     (char *)mode, (char *)(is_gzip(fd) ? "z" : ""), NULL};
	e2b_command(x->g, &(struct e2b_command){.sandbox = x->sandbox, .user = "root", .cwd = x->workdir, .argv = argv, .input = fd,
						.timeout_ms = STEP_MS, .line = on_line, .done = done, .ctx = x});
	return STEP_RUNS;
}

void e2b_env_put(char ***env, const char *name, const char *value)
{
	size_t n = strlen(name);
	auto_free char *kv = xasprintf("%s=%s", name, value);
	for (char **v = *env; *v; v++)
		if (!strncmp(*v, name, n) && (*v)[n] == '=') {
			char *old = *v;
			*v = xstrdup(kv);
			mem_free_ptr(&old);
			return;
		}
	strv_add(env, kv);
}

static void env_skip(struct e2b_builder *x, const struct e2b_step *s)
{
	for (char **a = s->args; *a && a[1]; a += 2)
		e2b_env_put(&x->env, a[0], a[1]);
}

static enum e2b_step_outcome env_step(struct e2b_builder *x, const struct e2b_step *s, void (*done)(void *ctx, const struct err *e, int status),
				      struct err *e)
{
	(void)done;
	for (char **a = s->args; *a; a += 2)
		if (!a[1] || !**a || strchr(*a, '=')) {
			err_set(e, ERR_INVALID, "ENV takes names and values in turn");
			return STEP_FAILED;
		}
	env_skip(x, s);
	return STEP_DONE;
}

static void workdir_skip(struct e2b_builder *x, const struct e2b_step *s)
{
	const char *path = s->args[0];
	char *whole = *path == '/' ? xstrdup(path) : xasprintf("%s/%s", x->workdir, path);
	size_t n = strlen(whole);
	while (n > 1 && whole[n - 1] == '/')
		whole[--n] = 0;
	mem_free_ptr(&x->workdir);
	x->workdir = whole;
}

static enum e2b_step_outcome workdir_step(struct e2b_builder *x, const struct e2b_step *s, void (*done)(void *ctx, const struct err *e, int status),
					  struct err *e)
{
	static const char script[] = "set -e; d=$1; own=$2\n"
				     "made() { [ -d \"$1\" ] || { made \"$(dirname \"$1\")\"; mkdir \"$1\"; chown \"$own:\" \"$1\"; }; }\n"
				     "made \"$d\"\n";
	workdir_skip(x, s);
	char *whole = x->workdir;
	if (strstr(whole, "/../") || str_has_suffix(whole, "/..") || strstr(whole, "//") || strstr(whole, "/./")) {
		err_set(e, ERR_INVALID, "WORKDIR takes a path without . and ..");
		return STEP_FAILED;
	}
	char *argv[] = {(char *)"/bin/bash", (char *)"-c", (char *)script, (char *)"workdir", whole, x->user, NULL};
	e2b_command(x->g, &(struct e2b_command){.sandbox = x->sandbox, .user = "root", .cwd = "/", .argv = argv, .input = -1, .timeout_ms = 60000,
						.line = on_line, .done = done, .ctx = x});
	return STEP_RUNS;
}

static void user_skip(struct e2b_builder *x, const struct e2b_step *s)
{
	mem_free_ptr(&x->user);
	x->user = xstrdup(s->args[0]);
}

static enum e2b_step_outcome user_step(struct e2b_builder *x, const struct e2b_step *s, void (*done)(void *ctx, const struct err *e, int status),
				       struct err *e)
{
	static const char script[] = "id -u \"$1\" >/dev/null || exit 1";
	char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)script, (char *)"user", s->args[0], NULL};
	(void)e;
	user_skip(x, s);
	e2b_command(x->g, &(struct e2b_command){.sandbox = x->sandbox, .user = "root", .cwd = "/", .argv = argv, .input = -1, .timeout_ms = 60000,
						.line = on_line, .done = done, .ctx = x});
	return STEP_RUNS;
}

const struct e2b_step_kind *e2b_step_kind(const char *name)
{
	static const struct e2b_step_kind kinds[] = {
		{"RUN", 1, false, true, NULL, run_step},
		{"COPY", 2, true, true, NULL, copy_step},
		{"ENV", 2, false, false, env_skip, env_step},
		{"WORKDIR", 1, false, false, workdir_skip, workdir_step},
		{"USER", 1, false, false, user_skip, user_step},
	};
	for (size_t i = 0; i < countof(kinds); i++)
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	return NULL;
}
