// SPDX-License-Identifier: Apache-2.0
// A host of our own behind TLS (skep-gate --tls-host) and a cell whose gate opens the way to it. Each tool asks for a
// path with its own name: a tool that does not believe the gate's certificate ends before it has asked, so what the host
// has seen is the proof, whatever the tool makes of the answer.
//
// All of it has a SKEP_HOME of its own, as its gate must believe an authority that nobody else should.
#include "cli/tls.h"

#include "base/fs.h"
#include "base/jsonw.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "cli/api.h"
#include "cli/home.h"
#include "cli/out.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "tls.skep.test"
#define READY_MS 5000
#define TIMED_OUT 124
#define TEXT_MAX (1u << 20)

#define POM                                                                                                                   \
	"<project><modelVersion>4.0.0</modelVersion><groupId>t</groupId><artifactId>t</artifactId><version>1</version>"       \
	"<packaging>pom</packaging><repositories><repository><id>central</id><url>%s/maven</url></repository></repositories>" \
	"<pluginRepositories><pluginRepository><id>central</id><url>%s/maven</url></pluginRepository></pluginRepositories>"   \
	"<build><extensions><extension><groupId>t</groupId><artifactId>x</artifactId><version>1</version></extension>"        \
	"</extensions></build></project>"
#define CLASS \
	"public class T { public static void main(String[] a) throws Exception { new java.net.URL(a[0]).openStream(); } }"

// needs: a program, or a command that works where the tool is. try: a shell command; $U is the host's URL without a last
// '/', $H its name and port, and the path has to begin with the tool's name. It runs in an empty directory.
static const struct {
	const char *tool, *needs, *try, *how;
} tools[] = {
	{"curl", "curl", "curl -sS $U/curl", "CURL_CA_BUNDLE, the system's bundle"},
	{"wget", "wget", "wget -qO- $U/wget", "the system's bundle, WGETRC"},
	{"openssl", "openssl",
	 "{ printf 'GET /openssl HTTP/1.0\\r\\nHost: %s\\r\\n\\r\\n' $H; sleep 1; } | "
	 "openssl s_client -quiet -verify_return_error -connect $H -servername ${H%:*}",
	 "SSL_CERT_FILE, the system's bundle"},
	{"git", "git", "git ls-remote $U/git/x", "GIT_SSL_CAINFO"},
	{"node", "node", "node -e 'require(\"https\").get(process.env.U + \"/node\")'", "NODE_EXTRA_CA_CERTS"},
	{"npm", "npm", "npm ping --fetch-retries=0 --registry $U/npm/", "npm_config_cafile, NODE_EXTRA_CA_CERTS"},
	{"python", "python3", "python3 -c 'import os, urllib.request as r; r.urlopen(os.environ[\"U\"] + \"/python\")'",
	 "SSL_CERT_FILE"},
	{"requests", "python3 -c 'import requests'",
	 "python3 -c 'import os, requests; requests.get(os.environ[\"U\"] + \"/requests\")'", "REQUESTS_CA_BUNDLE"},
	{"pip", "python3 -m pip --version",
	 "python3 -m pip download -q --retries 0 --no-deps --index-url $U/pip/ nothing", "PIP_CERT"},
	{"uv", "uv", "uv pip install --target u --no-cache --index-url $U/uv/ nothing", "SSL_CERT_FILE"},
	{"go", "go", "GOPROXY=$U/go GOSUMDB=off GOFLAGS=-mod=mod go list -m nothing.test/x@latest", "SSL_CERT_FILE"},
	{"cargo", "cargo --version",
	 "CARGO_HOME=$PWD/c CARGO_NET_RETRY=0 cargo search --index sparse+$U/cargo/ nothing", "CARGO_HTTP_CAINFO"},
	{"java", "javac", "echo '" CLASS "' > T.java && java T.java $U/java",
	 "the system's key store, JAVA_TOOL_OPTIONS"},
	{"maven", "mvn", "printf '" POM "' $U $U > pom.xml && mvn -B -q -Dmaven.repo.local=$PWD/m validate",
	 "the system's key store, JAVA_TOOL_OPTIONS"},
	{"ruby", "ruby", "ruby -ropen-uri -e 'URI.open(ENV[\"U\"] + \"/ruby\")'", "SSL_CERT_FILE"},
	{"chromium", "chromium",
	 "chromium --headless --no-sandbox --disable-gpu --user-data-dir=$PWD/b --dump-dom $U/chromium",
	 "its managed policy"},
};

struct
try {
	char *top, *port, *gate;
	struct buf said, log; // what the cell says is there; what the host saw
	pid_t host;
	int host_in; // it ends when this closes
};

static char *below(const struct try *t, const char *name)
{
	return xasprintf("%s/%s", t->top, name);
}

// --- the places ---

static int write_config(const struct try *t, struct err *e)
{
	auto_free char *dir = below(t, "config/skep"), *file = xasprintf("%s/config.yaml", dir);
	auto_free char *text = xasprintf("ca_file: \"%s/host/ca.pem\"\n", t->top);
	return fs_mkdirs(AT_FDCWD, dir, 0700, e) || fs_write(AT_FDCWD, file, text, strlen(text), 0600, e) ? -1 : 0;
}

static int make_places(struct try *t, struct err *e)
{
	const char *tmp = getenv("TMPDIR");
	t->top = xasprintf("%s/skep-tls-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp");
	if (!mkdtemp(t->top))
		return err_sys(e, "make %s", t->top);
	auto_free char *host = below(t, "host"), *home = below(t, "skep"), *config = below(t, "config"),
		       *project = below(t, "project");
	if (mkdir(host, 0700) || mkdir(project, 0700) || chdir(project))
		return err_sys(e, "%s", project);
	// From here on this process, and what it starts, is a caller of its own.
	if (setenv("SKEP_HOME", home, 1) || setenv("XDG_CONFIG_HOME", config, 1))
		return err_sys(e, "set the environment");
	return write_config(t, e);
}

// The host says its port when it serves.
static int read_port(struct try *t, int from, struct err *e)
{
	char text[16];
	struct pollfd p = {.fd = from, .events = POLLIN};
	ssize_t n = poll(&p, 1, READY_MS) > 0 ? read(from, text, sizeof text - 1) : -1;
	if (n <= 0 || text[n - 1] != '\n')
		return err_set(e, ERR_TIMEOUT, "the host for the tools does not start");
	t->port = xstrndup(text, (size_t)n - 1);
	return 0;
}

static int start_host(struct try *t, struct err *e)
{
	char name[] = "skep-gate", verb[] = "--tls-host", host[] = NAME;
	auto_free char *dir = below(t, "host");
	char *argv[] = {name, verb, dir, host, NULL};
	int in[2], out[2];
	t->gate = home_program("skep-gate", e);
	if (!t->gate)
		return -1;
	if (pipe2(in, O_CLOEXEC))
		return err_sys(e, "pipe");
	auto_fd int r = in[0], w = in[1];
	if (pipe2(out, O_CLOEXEC))
		return err_sys(e, "pipe");
	auto_fd int said = out[0], say = out[1];
	struct proc_fd fds[] = {{r, 0}, {say, 1}, {STDERR_FILENO, 2}};
	t->host = proc_spawn(&(struct proc_spec){.path = t->gate, .argv = argv, .fds = fds, .n_fds = 3}, e);
	if (t->host < 0)
		return -1;
	close_fd(&say);
	t->host_in = take_fd(&w);
	return read_port(t, said, e);
}

// --- the cell ---

// Each tool that is there is named on stdout and tried in a directory of its own, all at once.
static char *script(void)
{
	struct buf b = BUF_INIT(TEXT_MAX);
	buf_str(&b, "cd \"$(mktemp -d)\" || exit 1\n");
	for (size_t i = 0; i < countof(tools); i++) {
		bool word = !strchr(tools[i].needs, ' ');
		buf_fmt(&b,
			"if %s%s >/dev/null 2>&1; then echo %s; (mkdir d-%s && cd d-%s && %s) </dev/null >/dev/null 2>&1 & fi\n",
			word ? "command -v " : "", tools[i].needs, tools[i].tool, tools[i].tool, tools[i].tool,
			tools[i].try);
	}
	buf_str(&b, "wait\nexit 0\n");
	return buf_take(&b);
}

static int run_cell(struct try *t, struct err *e)
{
	char skep[] = "skep", run[] = "run", empty[] = "--empty", allow[] = "--allow", env[] = "--env",
	     timeout[] = "--timeout", limit[] = "60s", dashes[] = "--", sh[] = "sh", c[] = "-c";
	auto_free char *rule = xasprintf(NAME ":%s=127.0.0.1 open", t->port),
		       *url = xasprintf("U=https://" NAME ":%s", t->port), *host = xasprintf("H=" NAME ":%s", t->port),
		       *text = script();
	char *argv[] = {skep, run, empty, allow, rule, env, url, env, host, timeout, limit, dashes, sh, c, text, NULL};
	int status;
	if (proc_run("/proc/self/exe", argv, &t->said, &status, e))
		return -1;
	// A tool that is stuck has proved nothing, and does not matter to the others.
	if (!WIFEXITED(status) || (WEXITSTATUS(status) && WEXITSTATUS(status) != TIMED_OUT))
		return err_set(e, ERR_SYSTEM, "the cell with the tools failed");
	auto_free char *log = below(t, "host/log");
	return fs_exists(AT_FDCWD, log) ? fs_read(AT_FDCWD, log, &t->log, e) : 0;
}

// --- what came of it ---

static bool is_there(const struct try *t, const char *tool)
{
	struct str rest = {t->said.p, t->said.n}, line;
	while (str_next(&rest, '\n', &line))
		if (str_is(line, tool))
			return true;
	return false;
}

static bool has_asked(const struct try *t, const char *tool)
{
	struct str rest = {t->log.p, t->log.n}, line;
	size_t n = strlen(tool);
	while (str_next(&rest, '\n', &line))
		if (line.n > n && line.p[0] == '/' && !strncmp(line.p + 1, tool, n) &&
		    (line.n == n + 1 || strchr("/?", line.p[n + 1])))
			return true;
	return false;
}

static int print_json(const struct try *t)
{
	auto_buf struct buf b = BUF_INIT(TEXT_MAX);
	struct jsonw w = {.b = &b};
	jw_open(&w, '{');
	jw_key(&w, "tools");
	jw_open(&w, '[');
	for (size_t i = 0; i < countof(tools); i++) {
		jw_open(&w, '{');
		jw_kstr(&w, "tool", tools[i].tool);
		jw_kbool(&w, "installed", is_there(t, tools[i].tool));
		jw_kbool(&w, "trusted", has_asked(t, tools[i].tool));
		jw_kstr(&w, "how", tools[i].how);
		jw_close(&w, '}');
	}
	jw_close(&w, ']');
	jw_close(&w, '}');
	buf_byte(&b, '\n');
	return out_flush(&b);
}

static int print_table(const struct try *t)
{
	auto_buf struct buf b = BUF_INIT(TEXT_MAX);
	struct table rows = {.n_cols = 3};
	table_add(&rows, "TOOL");
	table_add(&rows, "TRUSTED");
	table_add(&rows, "HOW");
	for (size_t i = 0; i < countof(tools); i++) {
		if (!is_there(t, tools[i].tool))
			continue;
		table_add(&rows, tools[i].tool);
		table_add(&rows, has_asked(t, tools[i].tool) ? "yes" : "NO");
		table_add(&rows, tools[i].how);
	}
	table_print(&rows, &b);
	for (size_t i = 0, n = 0; i < countof(tools); i++)
		if (!is_there(t, tools[i].tool))
			buf_fmt(&b, "%s%s", n++ ? ", " : "not in the cell: ", tools[i].tool);
	if (b.n && b.p[b.n - 1] != '\n')
		buf_byte(&b, '\n');
	return out_flush(&b);
}

static int report(const struct try *t, bool json)
{
	int bad = json ? print_json(t) : print_table(t);
	for (size_t i = 0; i < countof(tools); i++)
		bad |= is_there(t, tools[i].tool) && !has_asked(t, tools[i].tool);
	return bad;
}

// And waits for it: it writes until it has ended.
static void end_daemon(void)
{
	auto_api struct api a = API_CLOSED;
	struct err ignored;
	auto_json json_t *v = api_open(&a, &ignored) ? NULL : api_json(&a, "GET", "/v1/version", NULL, &ignored);
	auto_fd int fd = v && json_u64(v, "pid") ? loop_pidfd((pid_t)json_u64(v, "pid"), &ignored) : -1;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	if (fd < 0 || api_do(&a, "POST", "/v1/shutdown", "{}", &ignored) || poll(&p, 1, READY_MS) <= 0)
		return; // it ends by itself when idle
}

static void tidy(struct try *t)
{
	struct err ignored;
	close_fd(&t->host_in);
	while (t->host > 0 && waitpid(t->host, NULL, 0) < 0 && errno == EINTR)
		;
	auto_free char *home = t->top ? below(t, "skep/run") : NULL;
	if (home && fs_exists(AT_FDCWD, home))
		end_daemon();
	for (int i = 0; t->top && !chdir("/") && i < 100 && fs_remove_tree(AT_FDCWD, t->top, &ignored); i++)
		poll(NULL, 0, 20); // what it started ends behind it
	buf_done(&t->said);
	buf_done(&t->log);
	free(t->top);
	free(t->port);
	free(t->gate);
}

int tls_run(const struct call *c, bool json)
{
	struct err e;
	struct try t = {.host = -1, .host_in = -1, .said = BUF_INIT(TEXT_MAX), .log = BUF_INIT(TEXT_MAX)};
	int rc = make_places(&t, &e) || start_host(&t, &e) || run_cell(&t, &e) ? out_fail(c, &e) : report(&t, json);
	tidy(&t);
	return rc;
}
