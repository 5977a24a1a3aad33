// SPDX-License-Identifier: Apache-2.0
// T-001, T-002, T-006: what of the host can be read, by its own name or by another.
#include "attack.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UP "../../../../../../../../../../../../../../../../../../../../../../../../../../../../../../../.."
#define WALK_MAX 150000

// A directory of the host may exist inside under the same name (as a mount point, or as an empty one of ours); what
// counts is the marker in it.
static void read_by_name(struct probe *p, const char *path)
{
	struct stat st;
	char parent[PATH_SIZE];

	judge(p, !reads_marker(p, path), "marker read from %s", path);
	judge(p, lstat(path, &st) != 0, "%s exists", path);
	judge(p, open(path, O_PATH | O_CLOEXEC) < 0, "O_PATH on %s", path);
	judge(p, access(path, F_OK) != 0, "access to %s", path);
	int in = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	judge(p, in < 0 || inotify_add_watch(in, path, IN_ALL_EVENTS) < 0, "inotify watch on %s", path);
	close(in);
	fmt(parent, sizeof(parent), "%s", path);
	*strrchr(parent, '/') = 0;
	fmt(parent + strlen(parent), sizeof(parent) - strlen(parent), "/.skep-attack-new");
	int fd = p->outside ? -1 : open(parent, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0) { // a mount point's parent may be a tmpfs of ours; then nothing reaches the host
		const struct mount *m = mount_at(parent);
		judge(p, m && (!strcmp(m->type, "tmpfs") || !strcmp(m->type, "overlay")), "wrote %s", parent);
		unlink(parent);
		close(fd);
	}
}

static uint64_t fnv(const char *b, size_t n)
{
	uint64_t h = 1469598103934665603ULL;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)b[i]) * 1099511628211ULL;
	return h;
}

static void read_shadow(struct probe *p)
{
	static const char *const files[] = {"/etc/shadow", "/etc/gshadow", "/etc/sudoers"};
	static char buf[65536];
	char hash[32];
	const char *known =
		env_or("SKEP_ATTACK_SECRETS", ""); // hashes of the host's, where the harness could read them

	for (size_t i = 0; i < LEN(files); i++) {
		ssize_t n = slurp(files[i], buf, sizeof(buf));
		if (n <= 0) {
			held(p);
			continue;
		}
		fmt(hash, sizeof(hash), "%016llx", (unsigned long long)fnv(buf, (size_t)n));
		judge(p, !strstr(known, hash), "%s is the host's", files[i]);
		judge(p, !strstr(buf, ":$"), "%s has a password hash", files[i]);
	}
}

// Looks through everything visible for a file named like a marker: finds mounts nobody thought of.
static void search(struct probe *p, const char *dir, int depth, int *left)
{
	char path[PATH_SIZE];
	struct dirent *e;
	DIR *d = opendir(dir);

	while (d && *left > 0 && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !strcmp(e->d_name, "proc"))
			continue;
		--*left;
		fmt(path, sizeof(path), "%s/%s", strcmp(dir, "/") ? dir : "", e->d_name);
		if (!strncmp(e->d_name, ".skep-attack-marker-", 20))
			judge(p, !reads_marker(p, path), "marker found at %s", path);
		else if (e->d_type == DT_DIR && depth > 0)
			search(p, path, depth - 1, left);
	}
	if (d)
		closedir(d);
}

void t001_read(struct probe *p)
{
	const char *files = env_or("SKEP_ATTACK_FILES", "");
	int left = WALK_MAX;

	if (!p->has_marker || !*files)
		skip(p, "no SKEP_ATTACK_FILES: run host-prepare first");
	each_path(p, files, read_by_name);
	read_shadow(p);
	if (!p->outside)
		search(p, "/", 7, &left);
	const char *home = env_or("SKEP_ATTACK_HOME", "");
	DIR *d = *home ? opendir(home) : NULL;
	struct dirent *e;
	while (d && (e = readdir(d))) // tool roots and the project may lie below; dot files of a person may not
		judge(p,
		      strcmp(e->d_name, ".ssh") && strcmp(e->d_name, ".bash_history") && strcmp(e->d_name, ".gnupg") &&
			      strcmp(e->d_name, ".aws") && strncmp(e->d_name, ".skep-attack-marker", 19),
		      "%s/%s is listed", home, e->d_name);
	if (d)
		closedir(d);
}

static void by_alias(struct probe *p, const char *file)
{
	static const char *const fixed[] = {
		"/proc/self/root",
		"/proc/1/root",
		"/proc/thread-self/root",
		"/proc/self/cwd/" UP,
		"/proc/1/cwd/" UP,
		"/" UP,
		"/tmp/" UP,
		"/dev/fd/" UP,
		"/proc/self/fd/../root",
		"/proc/self/task/../root",
		"/dev/shm/" UP,
		"/host",
		"/rootfs",
		"/old_root",
		"/oldroot",
		"/.oldroot",
		"/.old",
		"/newroot",
		"/mnt",
		"/mnt/host",
		"/put_old",
		"/.skep",
		"/stage",
		"/proc/1/task/1/root",
		"/proc/1/map_files/..",
		"/proc/sys/../self/root",
	};
	char path[PATH_SIZE * 2];

	for (size_t i = 0; i < LEN(fixed); i++) {
		fmt(path, sizeof(path), "%s%s", fixed[i], file);
		judge(p, !reads_marker(p, path), "marker through %s", fixed[i]);
	}
	fmt(path, sizeof(path), "%s/%s%s", p->ws, UP, file);
	judge(p, !reads_marker(p, path), "marker through .. of the workspace");
}

static void by_process(struct probe *p, const char *file)
{
	static const char *const ways[] = {"root", "cwd/" UP, "fd/0/" UP, "fd/3", "fd/4", "fd/5", "fd/10"};
	int pids[512];
	size_t n = list_pids(pids, LEN(pids));
	char path[PATH_SIZE * 2];

	for (size_t i = 0; i < n; i++)
		for (size_t w = 0; w < LEN(ways); w++) {
			fmt(path, sizeof(path), "/proc/%d/%s%s", pids[i], ways[w], file);
			judge(p, !reads_marker(p, path), "marker through /proc/%d/%s", pids[i], ways[w]);
		}
}

// openat2 with nothing but the kernel's own rules, from a directory descriptor.
static void by_descriptor(struct probe *p, const char *file)
{
	struct {
		uint64_t flags, mode, resolve;
	} how = {.flags = O_RDONLY | O_CLOEXEC};
	char path[PATH_SIZE * 2], buf[256];
	int dir = open(p->ws, O_PATH | O_DIRECTORY | O_CLOEXEC);

	fmt(path, sizeof(path), "%s%s", UP, file);
	int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
	ssize_t n = fd < 0 ? -1 : slurp_fd(fd, buf, sizeof(buf));
	judge(p, n <= 0 || !has_marker(p, buf, (size_t)n), "marker through openat2 and ..");
	close(fd);
	close(dir);
}

void t002_alias(struct probe *p)
{
	const char *files = env_or("SKEP_ATTACK_FILES", "");
	int pids[512];
	char path[64];

	if (!p->has_marker || !*files)
		skip(p, "no SKEP_ATTACK_FILES: run host-prepare first");
	judge(p, same_file("/proc/self/root", "/"), "/proc/self/root is not /");
	judge(p, same_file("/..", "/"), "/.. is not /");
	size_t n = list_pids(pids, LEN(pids));
	for (size_t i = 0; i < n && !p->outside; i++) {
		struct stat st;
		fmt(path, sizeof(path), "/proc/%d/root", pids[i]);
		judge(p, stat(path, &st) || same_file(path, "/"), "%s is another root", path);
	}
	each_path(p, files, by_alias);
	each_path(p, files, by_process);
	each_path(p, files, by_descriptor);
}

static void look_at_cwd(struct probe *p)
{
	char buf[PATH_SIZE], dots[8] = ".";
	long n = syscall(SYS_getcwd, buf, sizeof(buf));

	judge(p, n > 0 && buf[0] == '/', "working directory is %s", n > 0 ? buf : "unknown");
	judge(p, n <= 0 || strncmp(buf, "/proc", 5), "working directory is %s", buf);
	ssize_t l = readlink("/proc/self/cwd", buf, sizeof(buf) - 1);
	buf[l > 0 ? l : 0] = 0;
	judge(p, !strstr(buf, "unreachable"), "cwd link is %s", buf);
	for (int i = 0; i < 64; i++)
		if (chdir(".."))
			break;
	judge(p, same_file(dots, "/"), "64 times .. does not end at /");
}

// The control puts itself where CVE-2024-21626 put a container: inside a root with a directory from outside it.
static void control_cwd(struct probe *p)
{
	char jail[PATH_SIZE];

	if (!probe_escalate(p))
		return;
	fmt(jail, sizeof(jail), "%s/jail", p->scratch);
	mkdir(jail, 0755);
	if (chroot(jail)) {
		nocontrol(p, "no chroot in a user namespace here");
		return;
	}
	look_at_cwd(p);
}

void t006_cwd(struct probe *p)
{
	in_child(p, p->outside ? control_cwd : look_at_cwd);
}
