// SPDX-License-Identifier: Apache-2.0
// Variables that make programs run or load something, or that move them to other hosts and authorities. A sandbox may
// have them; a file that nobody agreed to may not give them to every program that runs there, the caller's agent included.
#include "model/project.h"

#include "base/mem.h"
#include "base/str.h"
#include <string.h>

static const char *const prefixes[] = {"LD_", "GIT_", "SKEP_", "BASH_FUNC_", "DYLD_", "GLIBC_TUNABLES", "MALLOC_", "npm_config_", "NPM_CONFIG_"};

static const char *const names[] = {
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "IFS", "TMPDIR", "ENV", "BASH_ENV", "BASHOPTS", "SHELLOPTS", "PS4", "PROMPT_COMMAND", "ZDOTDIR",
	"EDITOR", "VISUAL", "PAGER", "MANPAGER", "LESSOPEN", "LESSCLOSE", "BROWSER", "SSH_ASKPASS", "SUDO_ASKPASS", "SSH_AUTH_SOCK", "RSYNC_RSH",
	"CVS_RSH", "GCONV_PATH", "LOCPATH", "NLSPATH", "HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS",
	"XDG_DATA_DIRS", "NODE_OPTIONS", "NODE_PATH", "NODE_REPL_EXTERNAL_MODULE", "NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED", "PYTHONSTARTUP",
	"PYTHONPATH", "PYTHONHOME", "PYTHONINSPECT", "PYTHONUSERBASE", "PYTHONWARNINGS", "PYTHONBREAKPOINT", "PERL5OPT", "PERL5LIB", "PERLLIB",
	"PERL5DB", "RUBYOPT", "RUBYLIB", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH", "MAVEN_OPTS", "MAVEN_ARGS",
	"GRADLE_OPTS", "PHPRC", "PHP_INI_SCAN_DIR", "LUA_INIT", "LUA_PATH", "LUA_CPATH", "R_PROFILE", "R_ENVIRON", "CARGO_HOME", "RUSTC_WRAPPER",
	"RUSTC_WORKSPACE_WRAPPER", "RUSTC", "RUSTDOC", "GOFLAGS", "GOENV", "GOPROXY", "GONOSUMDB", "GONOSUMCHECK", "GOSUMDB", "GOINSECURE", "CURL_HOME",
	"WGETRC", "OPENSSL_CONF", "OPENSSL_MODULES", "SSLKEYLOGFILE", "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE",
	"PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INSECURE_HOST",
};

// Also in lower case: that is how most proxies are given.
static const char *const any_case[] = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "NO_PROXY"};

static bool ends_with(struct str s, const char *suffix)
{
	size_t n = strlen(suffix);
	return s.n >= n && !memcmp(s.p + s.n - n, suffix, n);
}

bool env_is_helper(const char *kv)
{
	struct str name = {kv, strcspn(kv, "=")};
	for (size_t i = 0; i < countof(prefixes); i++)
		if (name.n >= strlen(prefixes[i]) && !memcmp(kv, prefixes[i], strlen(prefixes[i])))
			return true;
	for (size_t i = 0; i < countof(names); i++)
		if (str_is(name, names[i]))
			return true;
	for (size_t i = 0; i < countof(any_case); i++)
		if (name.n == strlen(any_case[i]) && !strncasecmp(kv, any_case[i], name.n))
			return true;
	return ends_with(name, "_BASE_URL") || ends_with(name, "_API_BASE") || ends_with(name, "_ENDPOINT_URL");
}
