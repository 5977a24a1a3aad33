// SPDX-License-Identifier: Apache-2.0
// Requests are refused when they hold a field we do not know: a wish must not be lost silently.
#include "api/code.h"

#include "base/mem.h"
#include "base/str.h"
#include "engine/net.h"
#include <stdlib.h>
#include <string.h>

static int own_str(const json_t *o, const char *key, char **out, struct err *e)
{
	const char *s;
	if (json_get_str(o, key, &s, e))
		return -1;
	if (s && !s[0])
		return err_set(e, ERR_INVALID, "field \"%s\" is empty", key);
	*out = s ? xstrdup(s) : NULL;
	return 0;
}

// A PATH that is set and empty is as good as none.
static int own_path(const json_t *o, const char *key, char **out, struct err *e)
{
	const char *s;
	if (json_get_str(o, key, &s, e))
		return -1;
	*out = s && s[0] ? xstrdup(s) : NULL;
	return 0;
}

static int get_u32(const json_t *o, const char *key, uint32_t max, uint32_t *inout, struct err *e)
{
	uint64_t v = *inout;
	if (json_get_u64(o, key, &v, e))
		return -1;
	if (v > max)
		return err_set(e, ERR_INVALID, "field \"%s\" is over %u", key, max);
	*inout = (uint32_t)v;
	return 0;
}

// No time runs for more than ten years: sums of times never wrap.
static int get_ms(const json_t *o, const char *key, uint64_t *inout, struct err *e)
{
	if (json_get_u64(o, key, inout, e))
		return -1;
	return *inout <= 315360000000ULL ? 0 : err_set(e, ERR_INVALID, "field \"%s\" is over ten years", key);
}

static int decode_limits(const json_t *o, struct limits *l, struct err *e)
{
	static const char *const known[] = {"cpus_milli", "memory", "pids", "disk", "files", "nofile", "output_cap", NULL};
	*l = LIMITS_DEFAULT;
	if (!o || json_is_null(o))
		return 0;
	if (json_only(o, known, e) || json_get_u64(o, "cpus_milli", &l->cpus_milli, e) || json_get_u64(o, "memory", &l->memory, e) ||
	    json_get_u64(o, "pids", &l->pids, e) || json_get_u64(o, "disk", &l->disk, e) || json_get_u64(o, "files", &l->files, e) ||
	    json_get_u64(o, "nofile", &l->nofile, e) || json_get_u64(o, "output_cap", &l->output_cap, e))
		return err_wrap(e, "limits");
	return 0;
}

static int decode_mount(const json_t *o, struct cell_mount *m, struct err *e)
{
	static const char *const known[] = {"src", "dst", "writable", NULL};
	if (json_only(o, known, e) || own_str(o, "src", &m->src, e) || own_str(o, "dst", &m->dst, e) ||
	    json_get_bool(o, "writable", &m->writable, e))
		return -1;
	if (!m->src)
		return err_set(e, ERR_INVALID, "no src");
	if (!m->dst)
		m->dst = xstrdup(m->src);
	return 0;
}

static int decode_mounts(const json_t *a, struct create *c, struct err *e)
{
	size_t i;
	json_t *o;
	if (!a || json_is_null(a))
		return 0;
	if (!json_is_array(a))
		return err_set(e, ERR_INVALID, "field \"mounts\" must be a list");
	if (json_array_size(a) > LIMIT_MOUNTS)
		return err_set(e, ERR_LIMIT, "%zu mounts, and %d is the most: mount a directory above them", json_array_size(a), LIMIT_MOUNTS);
	c->mounts = xcalloc(json_array_size(a), sizeof *c->mounts);
	c->n_mounts = (uint32_t)json_array_size(a);
	json_array_foreach(a, i, o) if (decode_mount(o, &c->mounts[i], e)) return err_wrap(e, "mounts");
	return 0;
}

static int decode_labels(const json_t *o, char ***out, struct err *e)
{
	const char *key;
	json_t *v;
	if (!o || json_is_null(o))
		return 0;
	if (!json_is_object(o))
		return err_set(e, ERR_INVALID, "field \"labels\" must be an object");
	json_object_foreach((json_t *)o, key, v)
	{
		if (!json_is_string(v) || !key[0] || strchr(key, '='))
			return err_set(e, ERR_INVALID, "field \"labels\" must map names without = to strings");
		auto_free char *kv = xasprintf("%s=%s", key, json_string_value(v));
		strv_add(out, kv);
	}
	return 0;
}

static int digit64(char c)
{
	const char *all = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", *p = c ? strchr(all, c) : NULL;
	return p ? (int)(p - all) : -1;
}

// One argument that is not UTF-8. A NUL can not be passed to a program: refused.
static char *unbase64(const char *s)
{
	auto_buf struct buf b = BUF_INIT(LIMIT_ARGV);
	size_t n = strlen(s);
	while (n && s[n - 1] == '=')
		n--;
	uint32_t bits = 0, have = 0;
	for (size_t i = 0; i < n; i++) {
		int d = digit64(s[i]);
		if (d < 0)
			return NULL;
		bits = bits << 6 | (uint32_t)d;
		have += 6;
		if (have >= 8) {
			have -= 8;
			buf_byte(&b, (char)(bits >> have & 0xff));
		}
	}
	return b.overflow || (b.n && memchr(b.p, 0, b.n)) ? NULL : buf_take(&b);
}

static int decode_argv(const json_t *o, char ***out, struct err *e)
{
	char **raw = NULL;
	if (json_get_strv(o, "argv", out, e) || json_get_strv(o, "argv_b64", &raw, e))
		return -1;
	int rc = 0;
	if (raw) {
		strv_free(*out);
		*out = NULL;
		for (char **v = raw; *v && !rc; v++) {
			auto_free char *arg = unbase64(*v);
			if (arg)
				strv_add(out, arg);
			else
				rc = err_set(e, ERR_INVALID, "field \"argv_b64\" must be a list of base64 texts without NUL");
		}
	}
	strv_free(raw);
	if (!rc && (!*out || !(*out)[0] || !(*out)[0][0]))
		rc = err_set(e, ERR_INVALID, "field \"argv\" must name a command");
	return rc;
}

static int get_umask(const json_t *o, uint32_t *inout, bool *has, struct err *e)
{
	const json_t *v = json_object_get(o, "umask");
	*has = v && !json_is_null(v);
	return get_u32(o, "umask", 0777, inout, e);
}

int decode_exec(const json_t *o, struct exec_request *x, struct err *e)
{
	static const char *const known[] = {"argv", "argv_b64", "env", "cwd", "user", "tty", "rows", "cols", "stdin",
					    "detach", "timeout_ms", "umask", "caller_env", "caller_cwd", NULL};
	const json_t *timeout = json_object_get(o, "timeout_ms");
	x->has_timeout = timeout && !json_is_null(timeout);
	if (json_only(o, known, e) || decode_argv(o, &x->argv, e) || json_get_strv(o, "env", &x->env, e) ||
	    own_str(o, "cwd", &x->cwd, e) || own_str(o, "user", &x->user, e) || json_get_bool(o, "tty", &x->tty, e) ||
	    get_u32(o, "rows", 10000, &x->rows, e) || get_u32(o, "cols", 10000, &x->cols, e) ||
	    json_get_bool(o, "stdin", &x->want_stdin, e) || json_get_bool(o, "detach", &x->detached, e) ||
	    get_ms(o, "timeout_ms", &x->timeout_ms, e) || get_umask(o, &x->umask_bits, &x->has_umask, e) ||
	    json_get_strv(o, "caller_env", &x->caller_env, e) || own_str(o, "caller_cwd", &x->caller_cwd, e))
		return -1;
	return 0;
}

int decode_job(const json_t *o, struct exec_request *x, struct err *e)
{
	static const char *const known[] = {"argv", "argv_b64", "user", "want_stdin", NULL};
	x->job = true;
	return json_only(o, known, e) || decode_argv(o, &x->argv, e) || own_str(o, "user", &x->user, e) ||
			       json_get_bool(o, "want_stdin", &x->want_stdin, e)
		       ? -1
		       : 0;
}

// Others are known by name only: said so, and not as if the field were unknown.
static int check_backend(const json_t *o, struct err *e)
{
	const char *backend = NULL;
	if (json_get_str(o, "backend", &backend, e))
		return -1;
	if (backend && strcmp(backend, "native"))
		return err_set(e, ERR_UNSUPPORTED, "no backend \"%.40s\" in this version of skep: native is the one there is", backend);
	return 0;
}

#define ALTERNATES_MAX 40
#define NET_FIELDS "net", "allow", "deny", "expose_host", "secrets", "registries", "ask"

static int decode_net_members(const json_t *o, struct net_request *n, struct err *e)
{
	const json_t *ask = json_object_get(o, "ask");
	n->has_ask = ask && !json_is_null(ask);
	return own_str(o, "net", &n->preset, e) || json_get_strv(o, "allow", &n->allow, e) || json_get_strv(o, "deny", &n->deny, e) ||
			       json_get_strv(o, "expose_host", &n->expose, e) || json_get_strv(o, "secrets", &n->secrets, e) ||
			       json_get_strv(o, "registries", &n->registries, e) || json_get_bool(o, "ask", &n->ask, e)
		       ? -1
		       : 0;
}

int decode_net(const json_t *o, struct net_request *n, struct err *e)
{
	static const char *const known[] = {NET_FIELDS, "remove", "phase", NULL};
	return json_only(o, known, e) || decode_net_members(o, n, e) || json_get_strv(o, "remove", &n->remove, e) ||
			       own_str(o, "phase", &n->phase, e)
		       ? -1
		       : 0;
}

int decode_question(const json_t *o, struct question *q, struct err *e)
{
	static const char *const known[] = {NET_FIELDS, "host", "method", "path", "cwd", NULL};
	return json_only(o, known, e) || decode_net_members(o, &q->net, e) || own_str(o, "host", &q->host, e) ||
			       own_str(o, "method", &q->method, e) || own_str(o, "path", &q->path, e) || own_str(o, "cwd", &q->cwd, e)
		       ? -1
		       : 0;
}

void question_done(struct question *q)
{
	free(q->host);
	free(q->method);
	free(q->path);
	free(q->cwd);
	net_request_done(&q->net);
	*q = (struct question){0};
}

// The value is wiped where the parser put it, too.
int decode_secret(const json_t *o, struct secret_request *q, struct err *e)
{
	static const char *const known[] = {"name", "host", "as", "value", NULL};
	const json_t *v = json_object_get(o, "value");
	if (json_is_string(v)) {
		q->value = BUF_INIT(strlen(json_string_value(v)));
		buf_add(&q->value, json_string_value(v), strlen(json_string_value(v)));
		explicit_bzero((char *)json_string_value(v), strlen(json_string_value(v)));
	}
	if (json_only(o, known, e) || own_str(o, "name", &q->name, e) || own_str(o, "host", &q->host, e) || own_str(o, "as", &q->as, e))
		return -1;
	if (!q->name || !q->host || !q->as || !v)
		return err_set(e, ERR_INVALID, "name, host, as and value are needed");
	return json_is_string(v) ? 0 : err_set(e, ERR_INVALID, "field \"value\" must be a string");
}

static int decode_kinds(const json_t *o, struct create *c, struct err *e)
{
	const char *profile, *floor;
	if (json_get_str(o, "profile", &profile, e) || json_get_str(o, "min_isolation", &floor, e))
		return -1;
	if (profile && profile_parse(profile, &c->profile))
		return err_set(e, ERR_INVALID, "profile \"%.40s\" is neither default nor root", profile);
	if (floor && strcmp(floor, "default") && strcmp(floor, "strict"))
		return err_set(e, ERR_INVALID, "min_isolation \"%.40s\" is neither default nor strict", floor);
	c->strict = floor && !strcmp(floor, "strict");
	bool trace = true;
	if (json_get_bool(o, "trace", &trace, e))
		return -1;
	c->trace_off = !trace;
	return 0;
}

// The first command takes the caller's variables and umask from the request around it.
static int decode_first_exec(const json_t *o, struct create *c, struct err *e)
{
	const json_t *x = json_object_get(o, "exec");
	char **caller = NULL;
	if (json_get_strv(o, "caller_env", &caller, e))
		return -1;
	c->has_exec = x && !json_is_null(x);
	if (c->has_exec && decode_exec(x, &c->exec, e)) {
		strv_free(caller);
		return err_wrap(e, "exec");
	}
	if (c->has_exec && !c->exec.caller_env)
		c->exec.caller_env = take(&caller);
	strv_free(caller);
	return 0;
}

// What git may be told of its caller. Some of these name programs that git runs on the host: only who may run programs
// there anyhow, a local client, gets this far.
static int decode_git_env(const json_t *o, char ***out, struct err *e)
{
	static const char *const names[] = {"PATH=",	  "SSH_AUTH_SOCK=",	"SSH_ASKPASS=",	"GIT_ASKPASS=",	 "GIT_SSH=",	 "GIT_SSH_COMMAND=",
					    "http_proxy=", "https_proxy=",	"no_proxy=",	"HTTPS_PROXY=",	 "NO_PROXY=",	 "GIT_CONFIG_GLOBAL=",
					    "ALL_PROXY=", "all_proxy=", "XDG_CONFIG_HOME=", "GIT_SSL_CAINFO=", "SSL_CERT_FILE=", "LANG="};
	if (json_get_strv(o, "git_env", out, e))
		return -1;
	for (char **v = *out; v && *v; v++) {
		bool known = false;
		for (size_t i = 0; i < countof(names); i++)
			known |= str_has_prefix(*v, names[i]);
		if (!known)
			return err_set(e, ERR_INVALID, "git_env: %.40s is not for git", *v);
	}
	return 0;
}

static int decode_alternates(const json_t *o, char ***out, struct err *e)
{
	if (json_get_strv(o, "alternates", out, e))
		return -1;
	if (strv_len(*out) > ALTERNATES_MAX)
		return err_set(e, ERR_LIMIT, "alternates: more than %d directories", ALTERNATES_MAX);
	for (char **v = *out; v && *v; v++)
		if (**v != '/' || strlen(*v) > 4000 || strpbrk(*v, "\t\n"))
			return err_set(e, ERR_INVALID, "alternates: %.100s is no absolute path of a directory", *v);
	return 0;
}

static int decode_origin(const json_t *o, struct create *c, struct err *e)
{
	const char *end;
	if (own_str(o, "from", &c->from, e) || own_str(o, "context", &c->context, e) || own_str(o, "ref", &c->ref, e) || decode_git_env(o, &c->git_env, e) || decode_alternates(o, &c->alternates, e) ||
	    json_get_bool(o, "auto_snapshot", &c->auto_snapshot, e) || json_get_bool(o, "pin", &c->pin, e) || json_get_str(o, "on_expiry", &end, e))
		return -1;
	if (c->context && (!*c->context || strlen(c->context) > 200))
		return err_set(e, ERR_INVALID, "a context is 1 to 200 bytes");
	for (enum on_expiry i = 0; end && i < EXPIRIES; i++)
		if (!strcmp(end, on_expiry_name(i))) {
			c->on_expiry = i;
			return 0;
		}
	return end ? err_set(e, ERR_INVALID, "on_expiry \"%.40s\" is none of stop, pause and delete", end) : 0;
}

static int decode_lease(const json_t *o, struct create *c, struct err *e)
{
	uint64_t lease = 0;
	if (json_get_bool(o, "pinned", &c->pinned, e) || get_ms(o, "lease_ms", &lease, e))
		return -1;
	if (!lease)
		return 0;
	if (c->ttl_ms)
		return err_set(e, ERR_INVALID, "ttl_ms and lease_ms exclude each other");
	c->ttl_ms = lease;
	c->lease = true;
	return 0;
}

static int decode_setup(const json_t *o, enum setup_mode *out, struct err *e)
{
	static const char *const names[] = {[SETUP_WAIT] = "wait", [SETUP_TELL] = "tell", [SETUP_OFF] = "off"};
	const char *s = NULL;
	if (json_get_str(o, "setup", &s, e))
		return -1;
	if (!s)
		return 0;
	for (size_t i = 0; i < countof(names); i++)
		if (!strcmp(names[i], s)) {
			*out = (enum setup_mode)i;
			return 0;
		}
	return err_set(e, ERR_INVALID, "setup \"%.40s\" is none of wait, tell, off", s);
}

int decode_create(const json_t *o, struct create *c, struct err *e)
{
	static const char *const known[] = {
		"name", "cwd", "repo", "empty", "image", "backend", "profile", "nested", "trace", "env", "mounts", "limits",
		"timeout_ms", "ttl_ms", "idle_ms", "labels", "workspace_path", "min_isolation", "run", "keep", "start",
		"umask", "caller_env", "caller_path", "exec", "project", "setup", "cache_env", "from", "context", "ref", "auto_snapshot", "on_expiry", "git_env", "pin", "alternates",
		"pinned", "lease_ms", "volumes", NET_FIELDS, NULL};
	bool has_umask, project = true;
	c->umask_bits = 022;
	if (json_only(o, known, e) || check_backend(o, e) || own_str(o, "name", &c->name, e) || own_str(o, "cwd", &c->cwd, e) ||
	    own_str(o, "repo", &c->repo, e) || json_get_bool(o, "empty", &c->empty, e) || own_str(o, "image", &c->image, e) ||
	    decode_kinds(o, c, e) || json_get_bool(o, "nested", &c->nested, e) || json_get_strv(o, "env", &c->env, e) ||
	    decode_mounts(json_object_get(o, "mounts"), c, e) || decode_limits(json_object_get(o, "limits"), &c->limits, e))
		return -1;
	if (get_ms(o, "timeout_ms", &c->timeout_ms, e) || get_ms(o, "ttl_ms", &c->ttl_ms, e) || get_ms(o, "idle_ms", &c->idle_ms, e) ||
	    decode_labels(json_object_get(o, "labels"), &c->labels, e) || own_str(o, "workspace_path", &c->workspace_path, e) ||
	    json_get_bool(o, "run", &c->run, e) || json_get_bool(o, "keep", &c->keep, e) || json_get_bool(o, "start", &c->start, e) ||
	    get_umask(o, &c->umask_bits, &has_umask, e) || own_path(o, "caller_path", &c->caller_path, e))
		return -1;
	if (decode_setup(o, &c->setup, e) || json_get_bool(o, "project", &project, e) || json_get_strv(o, "cache_env", &c->cache_env, e) ||
	    json_get_strv(o, "volumes", &c->volumes, e))
		return -1;
	c->no_project = !project;
	return decode_lease(o, c, e) || decode_origin(o, c, e) || decode_net_members(o, &c->net, e) || decode_first_exec(o, c, e) ? -1 : 0;
}
