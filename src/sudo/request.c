// SPDX-License-Identifier: Apache-2.0
#include "sudo/request.h"

#include "base/buf.h"
#include "base/mem.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define SECURE_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// What of the caller's environment stays: terminal and language, and what skep itself put there (which exec it is, where
// certificates are).
static const char *const kept[] = {
	"TERM", "COLORTERM", "COLORS", "LS_COLORS", "LANG", "LANGUAGE", "LC_*", "TZ", "DISPLAY", "XAUTHORITY", "SKEP_*", "SSL_CERT_FILE",
	"SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "PIP_CERT", "DENO_CERT",
	"CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "npm_config_cafile", "BUNDLE_SSL_CA_CERT", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "HTTPLIB2_CA_CERTS",
	"CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "NIX_SSL_CERT_FILE", "WGETRC", "JAVA_TOOL_OPTIONS", NULL,
};

static bool fits(const char *pattern, const char *name, size_t n)
{
	size_t k = strlen(pattern);
	if (k && pattern[k - 1] == '*')
		return n >= k - 1 && !strncmp(name, pattern, k - 1);
	return n == k && !strncmp(name, pattern, k);
}

static bool is_kept(const struct sudo_args *a, const char *pair)
{
	const char *equals = strchr(pair, '=');
	size_t n = equals ? (size_t)(equals - pair) : 0;
	if (!n)
		return false;
	for (char **k = a->keep; k && *k; k++)
		if (fits(*k, pair, n))
			return true;
	for (const char *const *k = kept; *k; k++)
		if (fits(*k, pair, n))
			return true;
	return a->keep_all;
}

static void put(char ***env, const char *name, const char *value)
{
	size_t n = strlen(name);
	char *pair = xasprintf("%s=%s", name, value);
	for (char **v = *env; v && *v; v++)
		if (!strncmp(*v, name, n) && (*v)[n] == '=') {
			free(*v);
			*v = pair;
			return;
		}
	strv_add(env, pair);
	free(pair);
}

static bool wants(const struct sudo_args *a, const char *name)
{
	for (char **k = a->keep; k && *k; k++)
		if (fits(*k, name, strlen(name)))
			return true;
	return a->keep_all;
}

static char **environment(const struct sudo_args *a, const struct sudo_caller *by, const struct sudo_account *as, char *const *argv)
{
	char **env = xcalloc(1, sizeof *env);
	auto_buf struct buf line = BUF_INIT(4096);
	auto_free char *uid = xasprintf("%u", by->uid), *gid = xasprintf("%u", by->gid), *mail = xasprintf("/var/mail/%s", as->name);
	for (char *const *v = by->env; *v; v++)
		if (is_kept(a, *v))
			strv_add(&env, *v);
	for (char *const *w = argv; *w; w++)
		buf_fmt(&line, "%s%s", w == argv ? "" : " ", *w);
	put(&env, "PATH", SECURE_PATH);
	put(&env, "USER", as->name);
	put(&env, "LOGNAME", as->name);
	put(&env, "MAIL", mail);
	if (a->login || a->set_home || !wants(a, "HOME"))
		put(&env, "HOME", as->home);
	if (a->login || !wants(a, "SHELL"))
		put(&env, "SHELL", a->shell && by->shell && *by->shell ? by->shell : as->shell);
	put(&env, "SUDO_COMMAND", buf_cstr(&line));
	put(&env, "SUDO_USER", by->name);
	put(&env, "SUDO_UID", uid);
	put(&env, "SUDO_GID", gid);
	for (char **s = a->set; s && *s; s++) {
		auto_free char *name = xstrndup(*s, strcspn(*s, "="));
		put(&env, name, *s + strlen(name) + 1);
	}
	return env;
}

// As sudo does it: what is no word of its own for a shell is taken literally, but $NAME still means the variable.
static char *shell_line(char **command)
{
	auto_buf struct buf b = BUF_INIT(4u << 20);
	for (char **w = command; *w; w++) {
		if (w != command)
			buf_byte(&b, ' ');
		for (const char *c = *w; *c; c++) {
			if (!isalnum((unsigned char)*c) && !strchr("_-$", *c))
				buf_byte(&b, '\\');
			buf_byte(&b, *c);
		}
	}
	return buf_take(&b);
}

static char **command_of(const struct sudo_args *a, const struct sudo_caller *by, const struct sudo_account *as)
{
	char **argv = xcalloc(1, sizeof *argv);
	if (!a->login && !a->shell)
		return strv_free(argv), strv_copy(a->command);
	strv_add(&argv, a->login || !by->shell || !*by->shell ? as->shell : by->shell);
	if (a->login)
		strv_add(&argv, "-l");
	if (*a->command) {
		auto_free char *line = shell_line(a->command);
		strv_add(&argv, "-c");
		strv_add(&argv, line);
	}
	return argv;
}

void sudo_request(const struct sudo_args *a, const struct sudo_caller *by, const struct sudo_account *as, struct exec_spec *out)
{
	char **argv = command_of(a, by, as);
	*out = (struct exec_spec){.argv = argv, .env = environment(a, by, as, argv), .user = xstrdup(a->user)};
}
