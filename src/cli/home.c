// SPDX-License-Identifier: Apache-2.0
#include "cli/home.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/home.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "cli/host.h"
#include "cli/word.h"
#include "model/access.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define START_MS 10000 // for skepd to say it is ready
#define WINNER_MS 5000 // for another client's skepd to listen
#define READY_FD 3

char *home_program(const char *name, struct err *e)
{
	char exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
	if (n < 0) {
		err_sys(e, "find %s: /proc/self/exe", name);
		return NULL;
	}
	exe[n] = 0;
	*strrchr(exe, '/') = 0;
	auto_free char *beside = xasprintf("%s/%s", exe, name),
		       *libexec = xasprintf("%s/../libexec/skep/%s", exe, name);
	if (!access(beside, X_OK))
		return take(&beside);
	if (!access(libexec, X_OK))
		return take(&libexec);
	err_set(e, ERR_UNAVAILABLE, "%s is neither in %s nor in its ../libexec/skep (install skep again)", name, exe);
	return NULL;
}

int home_connect(const char *path, struct err *e)
{
	if (strlen(path) < sizeof((struct sockaddr_un){0}.sun_path))
		return fs_unix_connect(AT_FDCWD, path, e);
	auto_free char *dir = xstrdup(path);
	char *slash = strrchr(dir, '/');
	*slash = 0;
	auto_fd int fd = fs_open(AT_FDCWD, dir, O_PATH | O_DIRECTORY, 0, e);
	return fd < 0 ? -1 : fs_unix_connect(fd, slash + 1, e);
}

// skepd takes nothing from its starter but this: enough to find the user's tools and session.
static char **daemon_env(const char *home)
{
	static const char *const kept[] = {"HOME",
					   "PATH",
					   "USER",
					   "LOGNAME",
					   "SHELL",
					   "TMPDIR",
					   "XDG_RUNTIME_DIR",
					   "XDG_CONFIG_HOME",
					   "XDG_CACHE_HOME",
					   "XDG_STATE_HOME",
					   "DBUS_SESSION_BUS_ADDRESS"};
	char **env = NULL;
	auto_free char *own = xasprintf("SKEP_HOME=%s", home);
	strv_add(&env, own);
	for (size_t i = 0; i < countof(kept); i++) {
		const char *v = getenv(kept[i]);
		auto_free char *kv = v ? xasprintf("%s=%s", kept[i], v) : NULL;
		if (kv)
			strv_add(&env, kv);
	}
	return env;
}

static int spawn_skepd(const char *home, int ready_fd, struct err *e)
{
	auto_free char *path = home_program("skepd", e);
	if (!path)
		return -1;
	char arg0[] = "skepd", opt[] = "--ready-fd", fd[] = "3";
	char *argv[] = {arg0, opt, fd, NULL};
	struct proc_fd fds[] = {{ready_fd, READY_FD}};
	char **env = daemon_env(home);
	pid_t pid = proc_spawn(
		&(struct proc_spec){
			.path = path, .argv = argv, .env = env, .fds = fds, .n_fds = 1, .new_session = true},
		e);
	strv_free(env);
	return pid < 0 ? -1 : 0;
}

// R: it listens. E and a message: it can not. Nothing: it lost to another one.
static int wait_ready(int fd, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(sizeof e->msg);
	if (!word_wait(fd, START_MS, &b))
		return err_set(e, ERR_TIMEOUT, "skepd did not become ready in %d s", START_MS / 1000);
	if (!b.n || b.p[0] == 'R')
		return 0;
	b.p[strcspn(b.p, "\n")] = 0; // it ends its message with a line end
	return err_set(e, ERR_UNAVAILABLE, "skepd can not start: %s", buf_cstr(&b) + 1);
}

static int start_skepd(const char *home, struct err *e)
{
	int p[2];
	if (pipe2(p, O_CLOEXEC))
		return err_sys(e, "pipe");
	auto_fd int r = p[0], w = p[1];
	if (spawn_skepd(home, w, e))
		return -1;
	close_fd(&w);
	return wait_ready(r, e);
}

static bool is_absent(const struct err *e)
{
	return e->sys == ENOENT || e->sys == ECONNREFUSED;
}

// Ours may have found the place taken. The winner of a race to start listens in a moment: there is no event to wait for
// but its socket. One that is just ending does not any more: then the place is free in a moment, and ours tries again.
static int start_and_connect(const char *home, const char *sock, struct err *e)
{
	for (uint64_t until = clock_ms() + WINNER_MS;;) {
		if (start_skepd(home, e))
			return -1;
		for (int i = 0; i < 5; i++) {
			int fd = home_connect(sock, e);
			if (fd >= 0 || !is_absent(e) || clock_ms() >= until)
				return fd;
			poll(NULL, 0, 10);
		}
	}
}

const char *home_remote(void)
{
	static char *authority; // of one process there is one
	const char *host = getenv("SKEP_HOST");
	size_t skip = !host ? 0 : str_has_prefix(host, "http://") ? strlen("http://") : str_has_prefix(host, "https://") ? strlen("https://") : 0;
	if (!skip)
		return NULL;
	size_t n = strcspn(host + skip, "/");
	if (authority && strlen(authority) == n && !memcmp(authority, host + skip, n))
		return authority; // others hold it
	free(authority);
	authority = xstrndup(host + skip, n);
	return authority;
}

int home_token(const char **out, struct err *e)
{
	const char *t = getenv("SKEP_TOKEN");
	*out = t && *t ? t : NULL;
	return !*out || token_digits(*out) ? 0 : err_set(e, ERR_INVALID, "SKEP_TOKEN is not a token: skep_ and 64 digits of 0-9a-f, as skep token new prints it");
}

int home_connect_skepd(struct err *e)
{
	const char *host = getenv("SKEP_HOST");
	if (host && *host)
		return host_connect(host, e);
	auto_free char *home = home_dir(getenv("HOME"), e);
	if (!home)
		return -1;
	auto_free char *sock = xasprintf("%s/run/skepd.sock", home);
	int fd = home_connect(sock, e);
	if (fd < 0 && is_absent(e) && !getenv("SKEP_NO_START"))
		fd = start_and_connect(home, sock, e);
	if (fd < 0 && e->kind == ERR_SYSTEM)
		e->kind = ERR_UNAVAILABLE;
	return fd;
}
