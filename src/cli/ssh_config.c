// SPDX-License-Identifier: Apache-2.0
#include "cli/ssh_config.h"

#include "base/fs.h"
#include "base/home.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "cli/cell.h"
#include "cli/home.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Made once; later calls find it there.
static int make_key(const char *dir, struct err *e)
{
	auto_free char *known = xasprintf("%s/known_hosts", dir), *key = xasprintf("%s/host_key", dir);
	if (!access(known, R_OK) && !access(key, R_OK))
		return 0;
	auto_free char *program = home_program("skep-ssh", e), *where = xstrdup(dir);
	char arg0[] = "skep-ssh", opt[] = "--keys";
	char *argv[] = {arg0, opt, where, NULL};
	auto_buf struct buf out = BUF_INIT(4096);
	int status = 0;
	if (!program || proc_run(program, argv, &out, &status, e))
		return -1;
	return status ? err_set(e, ERR_SYSTEM, "no SSH host key could be made in %s", dir) : 0; // it has said why
}

char *ssh_dir(struct err *e)
{
	auto_free char *home = home_dir(getenv("HOME"), e);
	if (!home)
		return NULL;
	auto_free char *dir = xasprintf("%s/ssh", home);
	return make_key(dir, e) ? NULL : take(&dir);
}

// The machine of SKEP_HOST as the end of a host name: HOST.PORT. Owned; NULL = this one.
static char *place_of(void)
{
	const char *host = home_remote() ? home_remote() : getenv("SKEP_HOST");
	auto_buf struct buf b = BUF_INIT(4096);
	for (; host && *host; host++) {
		bool plain = (*host >= '0' && *host <= '9') || ((*host | 32) >= 'a' && (*host | 32) <= 'z') || *host == '-';
		if (plain)
			buf_byte(&b, *host);
		else if (b.n && b.p[b.n - 1] != '.')
			buf_byte(&b, '.');
	}
	return b.n ? buf_take(&b) : NULL;
}

static char *own_path(struct err *e)
{
	char exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
	if (n < 0) {
		err_sys(e, "/proc/self/exe");
		return NULL;
	}
	return xstrndup(exe, (size_t)n);
}

// The file has no way to quote these for both OpenSSH and a shell.
static int check_path(const char *path, struct err *e)
{
	if (strpbrk(path, "'\"\\\n"))
		return err_set(e, ERR_UNSUPPORTED, "%s has a quote, a backslash or a line end in its name, which ssh_config can not say", path);
	return 0;
}

static void put_path(struct buf *b, char quote, const char *path)
{
	buf_byte(b, quote);
	for (; *path; path++)
		buf_str(b, *path == '%' ? "%%" : (char[]){*path, 0});
	buf_byte(b, quote);
}

// No key is asked for, and none of the user's is ever offered: who can start the ProxyCommand is the user, and could read
// a key as well.
static const char settings[] = "\n"
			       "\tUser skep\n"
			       "\tHostKeyAlias skep\n"
			       "\tGlobalKnownHostsFile /dev/null\n"
			       "\tStrictHostKeyChecking yes\n"
			       "\tUpdateHostKeys no\n"
			       "\tCheckHostIP no\n"
			       "\tPubkeyAuthentication no\n"
			       "\tPasswordAuthentication no\n"
			       "\tKbdInteractiveAuthentication no\n"
			       "\tGSSAPIAuthentication no\n"
			       "\tForwardAgent no\n"
			       "\tForwardX11 no\n";

// Where its daemon is; also that it is here, whatever the caller's environment says. The token is not written down: ssh hands it on with the rest of the environment.
static int put_setting(struct buf *b, const char *name, struct err *e)
{
	const char *value = getenv(name) ? getenv(name) : "";
	if (check_path(value, e))
		return -1;
	buf_fmt(b, " %s=", name);
	put_path(b, '\'', value);
	return 0;
}

int ssh_config_print(struct buf *b, const char *dir, const char *hosts, struct err *e)
{
	auto_free char *self = own_path(e), *home = home_dir(getenv("HOME"), e), *known = xasprintf("%s/known_hosts", dir), *all = ssh_host_of("*");
	if (!self || !home || check_path(self, e) || check_path(home, e))
		return -1;
	buf_fmt(b, "# sandboxes of skep (skep ssh --config)\nHost %s%s\n\tProxyCommand env SKEP_HOME=", hosts ? hosts : all, hosts || cell_is_far() ? "" : " *.skep");
	put_path(b, '\'', home);
	if (put_setting(b, "SKEP_HOST", e) || put_setting(b, "SKEP_CA", e))
		return -1;
	buf_byte(b, ' ');
	put_path(b, '\'', self);
	buf_str(b, " ssh --proxy '%n'\n\tUserKnownHostsFile ");
	put_path(b, '"', known);
	buf_str(b, settings);
	return 0;
}

char *ssh_config_write(const char *dir, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(64 << 10), was = BUF_INIT(64 << 10);
	auto_free char *place = place_of(), *path = xasprintf("%s/config%s%s", dir, place ? "-" : "", place ? place : "");
	struct err ignored;
	if (ssh_config_print(&b, dir, NULL, e))
		return NULL;
	bool same = !fs_read(AT_FDCWD, path, &was, &ignored) && was.n == b.n && !memcmp(was.p, b.p, b.n);
	if (!same && fs_replace(AT_FDCWD, path, b.p, b.n, 0600, e))
		return NULL;
	return take(&path);
}

char *ssh_host_of(const char *id)
{
	auto_free char *place = place_of();
	return place ? xasprintf("%s.skep.%s", id, place) : xasprintf("skep-%s", id);
}

char *ssh_host_id(const char *host)
{
	const char *tail = strrchr(host, '.'), *far = strstr(host, ".skep.");
	if (far)
		return xstrndup(host, (size_t)(far - host));
	if (str_has_prefix(host, "skep-"))
		return xstrdup(host + strlen("skep-"));
	return tail && !strcmp(tail, ".skep") ? xstrndup(host, (size_t)(tail - host)) : xstrdup(host);
}
