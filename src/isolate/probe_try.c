// SPDX-License-Identifier: Apache-2.0
// Each test does the real thing in a child that then ends.
#include "isolate/probe_int.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "isolate/caps.h"
#include "isolate/cgroup.h"
#include "isolate/landlock.h"
#include "isolate/mounts.h"
#include "isolate/net.h"
#include "isolate/seccomp.h"
#include "isolate/userns.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_MS 5000

struct report {
	int rc;
	struct probe_note note;
	struct err e;
};

int probe_in_child(int (*fn)(const char *, struct probe_note *, struct err *), const char *dir, struct probe_note *out,
		   struct err *e)
{
	struct report r = {.rc = -1};
	int p[2];
	if (pipe2(p, O_CLOEXEC))
		return err_sys(e, "pipe");
	auto_fd int from = p[0], to = p[1];
	pid_t pid = fork();
	if (pid < 0)
		return err_sys(e, "fork");
	if (!pid) {
		r.rc = fn(dir, &r.note, &r.e);
		_exit(write(to, &r, sizeof r) == (ssize_t)sizeof r ? 0 : 1);
	}
	close_fd(&to);
	struct pollfd wait = {.fd = from, .events = POLLIN};
	bool answered = poll(&wait, 1, CHILD_MS) == 1 && read(from, &r, sizeof r) == (ssize_t)sizeof r;
	if (!answered)
		kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (!answered)
		return err_set(e, ERR_TIMEOUT, "the test did not come to an end");
	*out = r.note;
	if (r.rc)
		*e = r.e;
	return r.rc;
}

// A fresh user namespace in which we are 0 and hold every capability.
static int enter(int flags, struct err *e)
{
	char uid[32], gid[32];
	if (fmt_to(uid, sizeof uid, "0 %u 1", geteuid()) || fmt_to(gid, sizeof gid, "0 %u 1", getegid()))
		return err_set(e, ERR_BUG, "map text");
	if (unshare(CLONE_NEWUSER | flags))
		return err_sys(e, "create a user namespace");
	if (fs_put(AT_FDCWD, "/proc/self/setgroups", "deny", e) || fs_put(AT_FDCWD, "/proc/self/uid_map", uid, e) ||
	    fs_put(AT_FDCWD, "/proc/self/gid_map", gid, e))
		return -1;
	return flags & CLONE_NEWNS ? mount_private(e) : 0;
}

int probe_try_namespaces(const char *dir, struct probe_note *n, struct err *e)
{
	(void)dir;
	(void)n;
	if (enter(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP, e))
		return -1;
	return net_lo_up(e);
}

int probe_try_overlay(const char *dir, struct probe_note *n, struct err *e)
{
	(void)n;
	if (enter(CLONE_NEWNS, e))
		return -1;
	if (chdir(dir)) // relative names: the path may hold a colon or a comma
		return err_sys(e, "enter %s", dir);
	if (mount("overlay", "m", "overlay", MS_NOSUID | MS_NODEV, "lowerdir=l,upperdir=u,workdir=w,userxattr"))
		return err_sys(e, "mount an overlay");
	if (fs_write(AT_FDCWD, "m/lower", "changed", 7, 0600, e))
		return -1;
	if (!fs_exists(AT_FDCWD, "u/lower"))
		return err_set(e, ERR_UNSUPPORTED, "a change in an overlay did not reach its upper layer");
	return 0;
}

int probe_try_proc(const char *dir, struct probe_note *n, struct err *e)
{
	int status;
	(void)n;
	if (enter(CLONE_NEWNS | CLONE_NEWPID, e))
		return -1;
	pid_t pid = fork(); // the first process of the new pid namespace
	if (pid < 0)
		return err_sys(e, "fork");
	if (!pid)
		_exit(chdir(dir) || mount("proc", "m", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) ? errno : 0);
	if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return err_set(e, ERR_SYSTEM, "the test process died");
	errno = WEXITSTATUS(status);
	return errno ? err_sys(e, "mount a proc file system") : 0;
}

// The whole way: a call is reported, let go, and then answered by the kernel.
int probe_try_seccomp(const char *dir, struct probe_note *n, struct err *e)
{
	struct seccomp_opts o = {.trace = true};
	struct seccomp_event ev;
	auto_fd int listener = -1;
	int status;
	(void)dir;
	(void)n;
	if (caps_no_new_privs(e) || seccomp_load(&o, &listener, e))
		return -1;
	pid_t pid = fork();
	if (pid < 0)
		return err_sys(e, "fork");
	if (!pid)
		_exit(execve("/", (char *[]){NULL}, (char *[]){NULL}) && errno == EACCES ? 0 : 1);
	struct pollfd p = {.fd = listener, .events = POLLIN};
	if (poll(&p, 1, CHILD_MS / 2) != 1)
		return err_set(e, ERR_UNSUPPORTED, "a system call was not reported");
	if (seccomp_recv(listener, &ev, e) || seccomp_answer(listener, &ev, e))
		return -1;
	if (waitpid(pid, &status, 0) != pid || status)
		return err_set(e, ERR_UNSUPPORTED, "a reported system call did not go on");
	return 0;
}

int probe_try_landlock(const char *dir, struct probe_note *n, struct err *e)
{
	(void)dir;
	(void)n;
	if (caps_no_new_privs(e) || landlock_enter(NULL, 0, landlock_abi(), e))
		return -1;
	auto_fd int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 && errno == EACCES ? 0 : err_set(e, ERR_UNSUPPORTED, "a forbidden open went through");
}

// Cells are made where skepd stands, which a service manager may have put elsewhere. Ourselves when none runs.
static pid_t skepd_pid(const char *dir)
{
	auto_free char *name = dir ? xasprintf("%s/../run/skepd.sock", dir) : NULL;
	struct ucred who = {.pid = 0};
	socklen_t n = sizeof who;
	struct err e;
	auto_fd int fd = name ? fs_unix_connect(AT_FDCWD, name, &e) : -1;
	return fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) || who.pid <= 0 ? getpid() : who.pid;
}

int probe_try_cgroup(const char *dir, struct probe_note *n, struct err *e)
{
	struct cgroup_host h;
	auto_buf struct buf b = BUF_INIT(sizeof n->text);
	if (cgroup_detect_of(skepd_pid(dir), &h, e))
		return -1;
	buf_fmt(&b, "%s freeze:%s", cgroup_describe(&h), cgroup_can_freeze(&h) ? "cgroup" : "signals");
	for (int k = 0; k < CG_CTLS; k++)
		if (h.mode != CGROUP_NONE && h.at[k] >= 0)
			buf_fmt(&b, " %s", cgroup_ctl_name((enum cgroup_ctl)k));
	int rc = fmt_to(n->text, sizeof n->text, "%s", buf_cstr(&b));
	cgroup_host_done(&h);
	return rc ? err_set(e, ERR_BUG, "note too long") : 0;
}

int probe_try_subids(const char *dir, struct probe_note *n, struct err *e)
{
	struct userns_host h;
	(void)dir;
	if (userns_enter_base(&h, e))
		return -1;
	int rc = h.subids ? fmt_to(n->text, sizeof n->text, "%u", h.count) : fmt_to(n->text, sizeof n->text, "none");
	return rc ? err_set(e, ERR_BUG, "note too long") : 0;
}

int probe_try_idmap(const char *dir, struct probe_note *n, struct err *e)
{
	(void)n;
	auto_fd int ns = userns_for_mount(100000, 0, 0, 1000, e);
	if (ns < 0)
		return -1;
	if (unshare(CLONE_NEWNS))
		return err_sys(e, "create a mount namespace");
	if (mount_private(e))
		return -1;
	auto_fd int tree = mount_clone(AT_FDCWD, dir, false, e);
	return tree < 0 ? -1 : mount_idmap(tree, ns, e);
}
