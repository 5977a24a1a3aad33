// SPDX-License-Identifier: Apache-2.0
#include "cli/request.h"
#include "cli/pull.h"

#include "base/id.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/home.h"
#include "cli/registries.h"
#include "cli/term.h"
#include "model/limits.h"
#include "model/toolvars.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

// What a command inside may know of the caller's environment without being told with --env. skepd has the same
// list (engine/env.c, model/toolvars.h) and the last word.
static bool is_shared(const char *kv)
{
	static const char *const names[] = {"TERM=",	 "COLORTERM=",	 "LANG=",     "LANGUAGE=",	 "LC_", "TZ=",
					    "NO_COLOR=", "FORCE_COLOR=", "CLICOLOR=", "CLICOLOR_FORCE=", "CI="};
	for (size_t i = 0; i < countof(names); i++)
		if (str_has_prefix(kv, names[i]))
			return str_is_utf8(kv, strlen(kv));
	for (const char *const *n = tool_variables; *n; n++)
		if (str_has_prefix(kv, *n) && kv[strlen(*n)] == '=')
			return str_is_utf8(kv, strlen(kv));
	return false;
}

static void put_caller(struct jsonw *w)
{
	mode_t mask = umask(0);
	umask(mask);
	jw_ku64(w, "umask", mask);
	jw_key(w, "caller_env");
	jw_open(w, '[');
	for (char **p = environ; *p; p++)
		if (is_shared(*p))
			jw_str(w, *p, strlen(*p));
	jw_close(w, ']');
}

// Where the caller's package managers keep what they downloaded, when not in the usual place (workspace/caches.c).
static void put_cache_env(struct jsonw *w)
{
	static const char *const names[] = {"npm_config_cache=", "NPM_CONFIG_CACHE=", "PIP_CACHE_DIR=", "UV_CACHE_DIR=", "CARGO_HOME=",
					    "GOMODCACHE=", "GOPATH=", "GOCACHE=", "XDG_CACHE_HOME="};
	jw_key(w, "cache_env");
	jw_open(w, '[');
	for (char **p = environ; *p; p++)
		for (size_t i = 0; i < countof(names); i++)
			if (str_has_prefix(*p, names[i]) && str_is_utf8(*p, strlen(*p)))
				jw_str(w, *p, strlen(*p));
	jw_close(w, ']');
}

int request_check_env(char *const *env, struct err *e)
{
	for (; env && *env; env++) {
		const char *eq = strchr(*env, '='), *v = eq ? *env : getenv(*env);
		if (eq == *env || !**env)
			return err_set(e, ERR_INVALID, "--env %.100s: the name is missing", *env);
		if (!v)
			return err_set(e, ERR_INVALID, "--env %.100s: not set here (give it as K=V)", *env);
		if (!str_is_utf8(v, strlen(v)))
			return err_set(e, ERR_INVALID, "--env %.100s: not UTF-8", *env);
	}
	return 0;
}

// Checked before. The later of two that say the same counts: `first` are defaults.
static void put_env(struct jsonw *w, char *const *first, char *const *env)
{
	if (!env && !(first && *first))
		return;
	jw_key(w, "env");
	jw_open(w, '[');
	for (; first && *first; first++)
		jw_str(w, *first, strlen(*first));
	for (; env && *env; env++) {
		const char *v = strchr(*env, '=') ? NULL : getenv(*env);
		auto_free char *kv = v ? xasprintf("%s=%s", *env, v) : xstrdup(*env);
		jw_str(w, kv, strlen(kv));
	}
	jw_close(w, ']');
}

void request_base64(struct buf *b, const char *s, size_t n)
{
	static const char d[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *p = (const unsigned char *)s;
	buf_byte(b, '"');
	for (size_t i = 0; i < n; i += 3) {
		unsigned v = p[i] << 16 | (i + 1 < n ? p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0);
		char q[4] = {d[v >> 18], d[v >> 12 & 63], i + 1 < n ? d[v >> 6 & 63] : '=',
			     i + 2 < n ? d[v & 63] : '='};
		buf_add(b, q, sizeof q);
	}
	buf_byte(b, '"');
}

static int put_argv(struct jsonw *w, char *const *argv, struct err *e)
{
	bool utf8 = true;
	size_t bytes = 0;
	for (char *const *a = argv; *a; a++) {
		utf8 &= str_is_utf8(*a, strlen(*a));
		bytes += strlen(*a) + 1;
	}
	if (bytes > LIMIT_ARGV)
		return err_set(e, ERR_LIMIT, "the arguments are longer than %u bytes", LIMIT_ARGV);
	jw_key(w, utf8 ? "argv" : "argv_b64");
	jw_open(w, '[');
	for (char *const *a = argv; *a; a++) {
		auto_buf struct buf b64 = BUF_INIT(2 * LIMIT_ARGV);
		if (utf8) {
			jw_str(w, *a, strlen(*a));
			continue;
		}
		request_base64(&b64, *a, strlen(*a));
		jw_raw(w, buf_cstr(&b64));
	}
	jw_close(w, ']');
	return 0;
}

static void put_tty(struct jsonw *w)
{
	uint32_t rows, cols;
	term_size(&rows, &cols);
	jw_kbool(w, "tty", true);
	jw_ku64(w, "rows", rows);
	jw_ku64(w, "cols", cols);
}

static void put_number(struct jsonw *w, const char *key, uint64_t v)
{
	if (v != OPT_UNSET)
		jw_ku64(w, key, v);
}

static int put_exec(struct jsonw *w, const struct exec_request *x, struct err *e)
{
	jw_open(w, '{');
	if (put_argv(w, x->argv, e))
		return -1;
	put_env(w, NULL, x->env);
	jw_kstr(w, "cwd", x->cwd);
	jw_kstr(w, "user", x->user);
	if (x->tty)
		put_tty(w);
	jw_kbool(w, "stdin", x->want_stdin);
	if (x->detach)
		jw_kbool(w, "detach", true);
	put_number(w, "timeout_ms", x->timeout);
	put_caller(w);
	auto_free char *here = x->here && !x->cwd && !home_remote() ? getcwd(NULL, 0) : NULL;
	if (here && str_is_utf8(here, strlen(here)))
		jw_kstr(w, "caller_cwd", here);
	jw_close(w, '}');
	return 0;
}

int request_exec(struct buf *b, const struct exec_request *x, struct err *e)
{
	if (put_exec(&(struct jsonw){.b = b}, x, e))
		return -1;
	return b->overflow ? err_set(e, ERR_LIMIT, "the request is too long") : 0;
}

int request_job(struct buf *b, char *const *argv, bool want_stdin, struct err *e)
{
	struct jsonw w = {.b = b};
	jw_open(&w, '{');
	if (put_argv(&w, argv, e))
		return -1;
	jw_kbool(&w, "want_stdin", want_stdin);
	jw_close(&w, '}');
	return 0;
}

char *request_path(const char *label, const char *path, struct err *e)
{
	if (home_remote() && *path != '/') {
		err_set(e, ERR_INVALID, "%s%.200s: a directory of the machine of SKEP_HOST is named by its whole path", label, path);
		return NULL;
	}
	char *real = home_remote() ? xstrdup(path) : realpath(path, NULL);
	if (real)
		return real;
	bool absent = errno == ENOENT || errno == ENOTDIR;
	err_sys(e, "%s%.200s", label, path);
	e->kind = absent ? ERR_NOT_FOUND : e->kind;
	return NULL;
}

// scheme://… or host:path. Whether one can be used is for skepd to say.
static bool is_url(const char *s)
{
	const char *colon = strchr(s, ':');
	return strstr(s, "://") || (s[0] != '/' && colon && !memchr(s, '/', (size_t)(colon - s)));
}

static char *repo_path(const char *repo, struct err *e)
{
	char *real = realpath(repo, NULL);
	if (real)
		return real;
	return is_url(repo) ? xstrdup(repo) : request_path("--repo ", repo, e);
}

// DIR[:PATH][:ro|:rw]
static int put_mount(struct jsonw *w, const char *spec, struct err *e)
{
	auto_free char *s = xstrdup(spec);
	bool writable = str_has_suffix(s, ":rw");
	if (writable || str_has_suffix(s, ":ro"))
		s[strlen(s) - 3] = 0;
	char *dst = strchr(s, ':');
	if (dst)
		*dst++ = 0;
	auto_free char *src = request_path("--mount ", s, e);
	if (!src)
		return -1;
	if (dst && *dst != '/')
		return err_set(e, ERR_INVALID, "--mount %s: the path inside must be absolute", spec);
	jw_open(w, '{');
	jw_kstr(w, "src", src);
	jw_kstr(w, "dst", dst ? dst : src);
	jw_kbool(w, "writable", writable);
	jw_close(w, '}');
	return 0;
}

static int put_mounts(struct jsonw *w, char *const *mounts, struct err *e)
{
	if (!mounts)
		return 0;
	jw_key(w, "mounts");
	jw_open(w, '[');
	for (; *mounts; mounts++)
		if (put_mount(w, *mounts, e))
			return -1;
	jw_close(w, ']');
	return 0;
}

static void put_labels(struct jsonw *w, char *const *labels)
{
	if (!labels)
		return;
	jw_key(w, "labels");
	jw_open(w, '{');
	for (; *labels; labels++) {
		const char *eq = strchr(*labels, '=');
		auto_free char *key = xstrndup(*labels, (size_t)(eq - *labels));
		jw_kstr(w, key, eq + 1);
	}
	jw_close(w, '}');
}

static int check_limits(const struct create_opts *o, struct err *e)
{
	struct limits l = {.memory = o->memory == OPT_UNSET ? 0 : o->memory, .pids = o->pids == OPT_UNSET ? 0 : o->pids};
	return limits_check(&l, e);
}

// Also a directory that is not there: no later try will find it.
static int check_mount(const char *spec, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(64 << 10);
	struct jsonw w = {.b = &b};
	if (!put_mount(&w, spec, e))
		return 0;
	e->kind = e->kind == ERR_NOT_FOUND ? ERR_INVALID : e->kind;
	return -1;
}

int request_check(const struct create_opts *o, struct err *e)
{
	for (char **l = o->labels; l && *l; l++)
		if (**l == '=' || !strchr(*l, '='))
			return err_set(e, ERR_INVALID, "--label %.100s: must be K=V", *l);
	if (o->workspace_path && *o->workspace_path != '/')
		return err_set(e, ERR_INVALID, "--workspace-path %.100s: must be absolute", o->workspace_path);
	if (o->name && !name_is_valid(o->name))
		return err_set(e, ERR_INVALID, "--name %.60s: must be 1 to 40 of a-z 0-9 -, not starting with -, and not like an id", o->name);
	if (o->pull && (!o->image || !strcmp(o->image, "host")))
		return err_set(e, ERR_INVALID, "--pull needs --image: the name of an image in a registry");
	if (o->empty && o->repo)
		return err_set(e, ERR_INVALID, "--empty and --repo exclude each other");
	if (o->empty && o->pin)
		return err_set(e, ERR_INVALID, "--empty and --pin exclude each other: there is no directory to copy");
	if (o->rm && o->keep)
		return err_set(e, ERR_INVALID, "--rm and --keep exclude each other");
	if (o->ttl != OPT_UNSET && o->lease != OPT_UNSET)
		return err_set(e, ERR_INVALID, "--ttl and --lease exclude each other");
	if (o->tty && o->no_tty)
		return err_set(e, ERR_INVALID, "--tty and --no-tty exclude each other");
	if (check_limits(o, e))
		return -1;
	for (char **m = o->mounts; m && *m; m++)
		if (check_mount(*m, e))
			return -1;
	return net_check(&o->net, e) || request_check_env(o->env, e) ? -1 : 0;
}

static void put_limits(struct jsonw *w, const struct create_opts *o)
{
	if (o->cpus == OPT_UNSET && o->memory == OPT_UNSET && o->pids == OPT_UNSET && o->disk == OPT_UNSET &&
	    o->nofile == OPT_UNSET)
		return;
	jw_key(w, "limits");
	jw_open(w, '{');
	put_number(w, "cpus_milli", o->cpus);
	put_number(w, "memory", o->memory);
	put_number(w, "pids", o->pids);
	put_number(w, "nofile", o->nofile);
	put_number(w, "disk", o->disk);
	jw_close(w, '}');
}

// What git needs of the caller to reach a repository; it stays with git and enters no cell.
static void put_git_env(struct jsonw *w)
{
	static const char *const names[] = {"PATH",	  "SSH_AUTH_SOCK", "SSH_ASKPASS", "GIT_ASKPASS",   "GIT_SSH",	 "GIT_SSH_COMMAND",
					    "http_proxy", "https_proxy",   "no_proxy",	  "HTTPS_PROXY",   "NO_PROXY",	 "GIT_CONFIG_GLOBAL",
					    "ALL_PROXY",  "all_proxy",	   "XDG_CONFIG_HOME", "GIT_SSL_CAINFO", "SSL_CERT_FILE", "LANG"};
	jw_key(w, "git_env");
	jw_open(w, '[');
	for (size_t i = 0; i < countof(names); i++) {
		const char *v = getenv(names[i]);
		auto_free char *kv = v ? xasprintf("%s=%s", names[i], v) : NULL;
		if (v && str_is_utf8(v, strlen(v)))
			jw_str(w, kv, strlen(kv));
	}
	jw_close(w, ']');
}

// Directories of this machine are not there.
static int put_remote_place(struct jsonw *w, const struct create_opts *o, struct err *e)
{
	if (!o->repo && !o->empty && !o->from)
		return err_set(e, ERR_INVALID, "this directory is not on the machine of SKEP_HOST: give --repo URL, --from SNAPSHOT or --empty");
	jw_kstr(w, "repo", o->repo);
	jw_kstr(w, "ref", o->ref);
	jw_kstr(w, "workspace_path", o->workspace_path);
	return 0;
}

static int put_place(struct jsonw *w, const struct create_opts *o, struct err *e)
{
	if (home_remote())
		return put_remote_place(w, o, e);
	auto_free char *cwd = getcwd(NULL, 0), *repo = o->repo ? repo_path(o->repo, e) : NULL;
	if (!cwd)
		return err_sys(e, "the current directory is gone (go to another one, or cd \"$PWD\" if it was made again)");
	if (o->repo && !repo)
		return -1;
	if (!str_is_utf8(cwd, strlen(cwd)))
		return err_set(e, ERR_UNSUPPORTED, "the current directory's name is not UTF-8");
	jw_kstr(w, "cwd", cwd);
	jw_kstr(w, "repo", repo);
	jw_kstr(w, "ref", o->ref);
	if (repo && *repo != '/')
		put_git_env(w);
	jw_kstr(w, "workspace_path", o->workspace_path);
	return 0;
}

static void put_flags(struct jsonw *w, const struct create_opts *o, bool run)
{
	if (o->empty)
		jw_kbool(w, "empty", true);
	if (o->root)
		jw_kstr(w, "profile", "root");
	if (o->nested)
		jw_kbool(w, "nested", true);
	if (o->no_trace)
		jw_kbool(w, "trace", false);
	jw_kstr(w, "setup", o->no_setup ? "off" : o->wait_setup ? "wait" : "tell");
	if (o->no_project)
		jw_kbool(w, "project", false);
	if (run)
		jw_kbool(w, "run", true);
	if (o->keep)
		jw_kbool(w, run ? "keep" : "pinned", true); // run: not removed afterwards
}

static int put_alternates(struct jsonw *w, char *const *dirs, struct err *e)
{
	if (!dirs)
		return 0;
	jw_key(w, "alternates");
	jw_open(w, '[');
	for (; *dirs; dirs++) {
		auto_free char *path = request_path("--alternates ", *dirs, e);
		if (!path)
			return -1;
		jw_str(w, path, strlen(path));
	}
	jw_close(w, ']');
	return 0;
}

static int put_create(struct jsonw *w, const struct create_opts *o, const struct exec_request *exec, const struct known *r,
		      struct err *e)
{
	jw_open(w, '{');
	jw_kstr(w, "name", o->name);
	jw_kstr(w, "image", o->image);
	jw_kstr(w, "backend", o->backend);
	jw_kstr(w, "min_isolation", o->min_isolation);
	jw_kstr(w, "from", o->from);
	jw_kstr(w, "context", o->context);
	jw_kstr(w, "on_expiry", o->on_expiry);
	if (o->pin)
		jw_kbool(w, "pin", true);
	if (o->auto_snapshot)
		jw_kbool(w, "auto_snapshot", true);
	put_flags(w, o, exec);
	if (put_place(w, o, e) || put_mounts(w, o->mounts, e) || put_alternates(w, o->alternates, e))
		return -1;
	if (o->volumes)
		jw_kstrv(w, "volumes", o->volumes);
	net_put(w, &o->net, r->list);
	put_env(w, r->env, o->env);
	put_labels(w, o->labels);
	put_limits(w, o);
	put_number(w, "timeout_ms", o->timeout);
	put_number(w, "ttl_ms", o->ttl);
	put_number(w, "idle_ms", o->idle);
	put_number(w, "lease_ms", o->lease);
	if (!home_remote()) {
		jw_kstr(w, "caller_path", getenv("PATH"));
		put_cache_env(w);
	}
	put_caller(w);
	if (exec) {
		jw_key(w, "exec");
		if (put_exec(w, exec, e))
			return -1;
	}
	jw_close(w, '}');
	return w->b->overflow ? err_set(e, ERR_LIMIT, "the request is too long") : 0;
}

int request_create(struct buf *b, const struct create_opts *o, const struct exec_request *exec, bool registries, struct err *e)
{
	struct jsonw w = {.b = b};
	struct known r = {0};
	struct create_opts own = *o;
	auto_json json_t *image = o->pull ? image_pull(&(struct pull_wants){.ref = o->image, .missing = true}, e) : NULL;
	if (o->pull && !image)
		return -1;
	if (image)
		own.image = json_str(image, "id"); // another pull may give the name to another one
	if ((registries || net_names_registries(&own.net)) && known_registries(own.image, &r, e))
		return -1;
	int rc = put_create(&w, &own, exec, &r, e);
	known_done(&r);
	return rc;
}
