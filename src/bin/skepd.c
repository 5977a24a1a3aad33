// SPDX-License-Identifier: Apache-2.0
// skepd [--foreground] [--ready-fd N] | --help | --faults: the daemon of one SKEP_HOME.
//
// Order: listen under a private name, take the lock, put the socket in its place, then open the state. So a
// client whose own skepd lost the race finds the winner's socket at once and merely waits for its answer.
#include "api/e2b.h"
#include "api/e2b_envd.h"
#include "api/front.h"
#include "api/mcp.h"
#include "api/preview.h"
#include "api/server.h"
#include "backend/backend.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/home.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "engine/access.h"
#include "store/reserve.h"
#include "store/store.h"
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOG_BYTES (4 << 20)

static const struct surface *const surfaces[] = {&e2b_envd, &e2b_api, &mcp_site.surface, &native_api, NULL};

struct daemon {
	bool foreground;
	int ready_fd; // -1 = nobody waits
	char *skep_home, *home, *home2, *owner;
	char *cell_program, *image_program;
	int run_dir, lock, listen_fd;
	struct loop loop;
	struct watch signals;
	struct store *store;
	struct backend *backend;
	struct engine *engine;
	struct server *server;
	struct preview *preview;
};

static void tell_starter(struct daemon *d, const char *text)
{
	struct err ignored;
	if (d->ready_fd >= 0 && fs_write_all(d->ready_fd, text, strlen(text), &ignored))
		log_line(LOG_WARN, "whoever started skepd is gone");
	close_fd(&d->ready_fd);
}

static int fail(struct daemon *d, const struct err *e)
{
	auto_free char *line = xasprintf("E%s\n", e->msg);
	log_line(LOG_ERROR, "%s", e->msg);
	tell_starter(d, line);
	return 1;
}

static int parse_args(struct daemon *d, int argc, char **argv)
{
	uint64_t fd;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--foreground"))
			d->foreground = true;
		else if (!strcmp(argv[i], "--ready-fd") && i + 1 < argc && !str_to_u64(str_of(argv[i + 1]), 0, 1 << 20, &fd))
			d->ready_fd = (int)fd, i++;
		else
			return -1;
	}
	if (d->ready_fd >= 0 && fcntl(d->ready_fd, F_SETFD, FD_CLOEXEC))
		d->ready_fd = -1;
	return 0;
}

static const char *absolute_env(const char *name)
{
	const char *v = getenv(name);
	return v && v[0] == '/' ? v : NULL;
}

static int find_user(struct daemon *d, struct err *e)
{
	struct passwd *pw = getpwuid(geteuid());
	const char *home = absolute_env("HOME");
	auto_free char *from_env = home ? realpath(home, NULL) : NULL;
	auto_free char *from_pw = pw && pw->pw_dir ? realpath(pw->pw_dir, NULL) : NULL;
	d->owner = pw ? xstrdup(pw->pw_name) : xasprintf("%u", (unsigned)geteuid());
	d->home2 = from_env ? take(&from_pw) : NULL;
	d->home = from_env ? take(&from_env) : take(&from_pw);
	return d->home ? 0 : err_set(e, ERR_UNAVAILABLE, "no home directory: set HOME");
}

static int find_skep_home(struct daemon *d, struct err *e)
{
	auto_free char *path = home_dir(d->home, e);
	struct stat st;
	if (!path)
		return -1;
	if (fs_mkdirs(AT_FDCWD, path, 0700, e))
		return err_wrap(e, "SKEP_HOME (set it to a directory that you can write to)");
	d->skep_home = realpath(path, NULL);
	if (!d->skep_home || stat(d->skep_home, &st))
		return err_sys(e, "SKEP_HOME %s", path);
	if (st.st_uid != geteuid())
		return err_set(e, ERR_DENIED, "SKEP_HOME %s belongs to another user", d->skep_home);
	return chmod(d->skep_home, 0700) ? err_sys(e, "chmod %s", d->skep_home) : 0;
}

static char *program(const char *dir, const char *name)
{
	char *beside = xasprintf("%s/%s", dir, name);
	if (!access(beside, X_OK))
		return beside;
	free(beside);
	return xasprintf("%s/../libexec/skep/%s", dir, name);
}

static int find_programs(struct daemon *d, struct err *e)
{
	auto_free char *self = realpath("/proc/self/exe", NULL);
	if (!self)
		return err_sys(e, "find our own program");
	*strrchr(self, '/') = 0;
	d->cell_program = program(self, "skep-cell");
	d->image_program = program(self, "skep-image");
	if (access(d->cell_program, X_OK))
		return err_sys(e, "skep-cell is not beside skepd nor in ../libexec/skep");
	return 0;
}

static int open_log(struct daemon *d, struct err *e)
{
	auto_free char *path = xasprintf("%s/skepd.log", d->skep_home);
	auto_fd int fd = fs_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600, e);
	struct stat st;
	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) && st.st_size > LOG_BYTES && ftruncate(fd, 0))
		return err_sys(e, "cut %s", path);
	auto_fd int null = fs_open(AT_FDCWD, "/dev/null", O_RDWR, 0, e);
	if (null < 0)
		return -1;
	if (dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(fd, 2) < 0)
		return err_sys(e, "redirect our output");
	return 0;
}

// Where a user manager runs, skepd belongs into a service of it: it then survives the logout of the
// terminal it was started from and owns a delegated cgroup. The service tells readiness through
// NOTIFY_SOCKET, which systemd-run waits for. True when the service is up.
static bool start_as_service(const struct daemon *d)
{
	const char *runtime = absolute_env("XDG_RUNTIME_DIR");
	auto_free char *manager = runtime ? xasprintf("%s/systemd/private", runtime) : NULL;
	if (!manager || access(manager, F_OK) || access("/sys/fs/cgroup/cgroup.controllers", F_OK))
		return false;
	const char *tool = !access("/usr/bin/systemd-run", X_OK) ? "/usr/bin/systemd-run" : "/bin/systemd-run";
	auto_free char *self = realpath("/proc/self/exe", NULL), *env = xasprintf("--setenv=SKEP_HOME=%s", d->skep_home);
	const char *argv[] = {"systemd-run", "--user", "--quiet", "--collect", "-p", "Delegate=yes", "-p", "KillMode=process",
			      "-p", "Type=notify", "-p", "NotifyAccess=main", env, "--", self, "--foreground", NULL};
	auto_buf struct buf out = BUF_INIT(65536);
	struct err e;
	int status;
	if (!self || access(tool, X_OK) || proc_run(tool, (char *const *)argv, &out, &status, &e) || status) {
		log_line(LOG_INFO, "no user service, running as a plain process");
		return false;
	}
	return true;
}

static void notify_manager(void)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	if (!path || (path[0] != '/' && path[0] != '@') || fmt_to(sa.sun_path, sizeof sa.sun_path, "%s", path))
		return;
	socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	if (path[0] == '@')
		sa.sun_path[0] = 0;
	auto_fd int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || sendto(fd, "READY=1", 7, MSG_NOSIGNAL, (struct sockaddr *)&sa, n) != 7)
		log_line(LOG_WARN, "the service manager could not be told that we are ready");
}

// 1 = we are the one, 0 = another skepd is, -1 = failure
static int take_place(struct daemon *d, struct err *e)
{
	auto_free char *run = xasprintf("%s/run", d->skep_home), *cells = xasprintf("%s/cells", run);
	auto_free char *name = xasprintf("skepd.sock.%d", (int)getpid());
	if (fs_mkdirs(AT_FDCWD, cells, 0700, e))
		return -1;
	d->run_dir = fs_open(AT_FDCWD, run, O_RDONLY | O_DIRECTORY, 0, e);
	d->lock = d->run_dir < 0 ? -1 : fs_open(d->run_dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600, e);
	d->listen_fd = d->lock < 0 ? -1 : fs_unix_listen(d->run_dir, name, e);
	if (d->listen_fd < 0)
		return -1;
	if (flock(d->lock, LOCK_EX | LOCK_NB)) {
		int rc = errno == EWOULDBLOCK ? 0 : err_sys(e, "lock %s/lock", run);
		unlinkat(d->run_dir, name, 0);
		return rc;
	}
	if (renameat(d->run_dir, name, d->run_dir, "skepd.sock"))
		return err_sys(e, "put skepd.sock in place");
	return 1;
}

static void on_signal(struct watch *w, uint32_t events)
{
	(void)events;
	struct daemon *d = container_of(w, struct daemon, signals);
	while (loop_signal_next(w->fd))
		loop_stop(&d->loop);
}

static int watch_signals(struct daemon *d, struct err *e)
{
	static const int ends[] = {SIGTERM, SIGINT, SIGHUP};
	signal(SIGPIPE, SIG_IGN);
	int fd = loop_signals(ends, countof(ends), e);
	d->signals.fn = on_signal;
	return fd < 0 ? -1 : loop_add(&d->loop, &d->signals, fd, LOOP_IN, e);
}

static void raise_files(void)
{
	struct rlimit r;
	if (!getrlimit(RLIMIT_NOFILE, &r)) {
		r.rlim_cur = r.rlim_max; // a descriptor per cell; children set their own
		setrlimit(RLIMIT_NOFILE, &r);
	}
}

static int open_state(struct daemon *d, struct err *e)
{
	auto_free char *db = xasprintf("%s/state.db", d->skep_home);
	reserve_settle(d->skep_home);
	d->store = store_open(db, e);
	if (!d->store)
		return -1;
	struct native_config native = {d->skep_home, d->home, d->cell_program, -1};
	d->backend = backend_native_new(&d->loop, &native, e);
	if (!d->backend)
		return err_wrap(e, "nursery");
	d->engine = engine_new(&(struct engine_config){d->skep_home, d->home, d->home2, d->owner, d->image_program, &d->loop,
						       d->store, d->backend}, e);
	return d->engine ? engine_reconcile(d->engine, e) : -1;
}

static int start(struct daemon *d, struct err *e)
{
	raise_files();
	if (loop_init(&d->loop, e) || watch_signals(d, e) || open_state(d, e) || e2b_start(&d->loop, d->engine, e))
		return -1;
	d->server = server_new(&d->loop, d->engine, surfaces, take_fd(&d->listen_fd), e);
	if (!d->server)
		return -1;
	d->preview = preview_new(&d->loop, d->engine);
	preview_set_policy(d->preview, &e2b_preview);
	front_set_taker(server_front(d->server), preview_taker(d->preview));
	return 0;
}

// A wrong address must not keep the daemon from its own user.
static void listen_from_start(struct daemon *d)
{
	struct err e;
	char *const *addresses, *const *urls;
	if (engine_listen_config(d->engine, &addresses, &urls, &e)) {
		log_line(LOG_ERROR, "config.yaml: listen: %s", e.msg);
		return;
	}
	for (; addresses && *addresses; addresses++)
		if (front_listen(server_front(d->server), *addresses, false, urls, &e))
			log_line(LOG_INFO, "listening on %s", *addresses);
		else
			log_line(LOG_ERROR, "config.yaml: listen: %s", e.msg);
}

static int serve(struct daemon *d)
{
	struct err e;
	if (start(d, &e))
		return fail(d, &e);
	listen_from_start(d);
	log_line(LOG_INFO, "ready pid=%d home=%s", (int)getpid(), d->skep_home);
	notify_manager();
	tell_starter(d, "R");
	int rc = loop_run(&d->loop, &e);
	if (rc)
		log_line(LOG_ERROR, "%s", e.msg);
	unlinkat(d->run_dir, "skepd.sock", 0); // first: whoever connects now would be cut off
	server_free(d->server);
	preview_free(d->preview);
	e2b_envd_stop();
	e2b_stop();
	engine_free(d->engine);
	d->backend->ops->free(d->backend);
	store_checkpoint(d->store);
	store_close(d->store);
	loop_done(&d->loop);
	log_line(LOG_INFO, "ended");
	return rc ? 1 : 0;
}

static int run(struct daemon *d)
{
	struct err e;
	if (find_user(d, &e) || find_skep_home(d, &e) || find_programs(d, &e) || (!d->foreground && open_log(d, &e)))
		return fail(d, &e);
	if (!d->foreground && start_as_service(d)) {
		tell_starter(d, "R");
		return 0;
	}
	if (!d->foreground)
		setsid(); // fails when we lead one already, which is as good
	if (chdir("/")) {
		err_sys(&e, "chdir /");
		return fail(d, &e);
	}
	int place = take_place(d, &e);
	if (place < 0)
		return fail(d, &e);
	if (!place) {
		tell_starter(d, "R");
		return 0;
	}
	return serve(d);
}

static void daemon_done(struct daemon *d)
{
	free(d->skep_home);
	free(d->home);
	free(d->home2);
	free(d->owner);
	free(d->cell_program);
	free(d->image_program);
	close_fd(&d->listen_fd);
	close_fd(&d->run_dir);
	close_fd(&d->lock); // last: the next skepd may take our place now
}

static const char usage[] = "usage: skepd [--foreground] [--ready-fd N]\n";

// What is answered without becoming a daemon.
static bool only_asked(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--faults"))
		fault_list();
	else if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
		fputs(usage, stdout);
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	if (only_asked(argc, argv))
		return 0;
	struct daemon d = {.ready_fd = -1, .run_dir = -1, .lock = -1, .listen_fd = -1, .signals.fd = -1};
	log_init("skepd", LOG_INFO);
	fault_init();
	if (parse_args(&d, argc, argv)) {
		fputs(usage, stderr);
		return 2;
	}
	umask(077);
	proc_stretch(0, PROC_QUICK_NS); // of the nursery and the supervisors too
	int rc = run(&d);
	daemon_done(&d);
	return rc;
}
