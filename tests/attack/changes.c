// SPDX-License-Identifier: Apache-2.0
// T-003, T-004, T-030, T-031: writing. Inside, changes to the workspace succeed, and that they went to a layer is
// seen twice: here by the kind of mount, on the host by the harness, which compares trees.
#include "attack.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#define MAGIC_OVERLAY 0x794c7630
#define MAGIC_TMPFS 0x01021994
#define MAGIC_RAMFS 0x858458f6

static bool is_our_layer(const char *path)
{
	struct statfs s;

	if (statfs(path, &s))
		return false;
	return s.f_type == MAGIC_OVERLAY || s.f_type == MAGIC_TMPFS || s.f_type == MAGIC_RAMFS;
}

// False when what comes next would change the host: then the finding is enough.
static bool judge_layer(struct probe *p, const char *dir)
{
	const struct mount *m = mount_at(dir);
	bool ours = !p->outside && is_our_layer(dir);

	judge(p, ours, "writes to %s go straight to %s %s", dir, m ? m->type : "?", m ? m->root : "?");
	return ours || p->outside;
}

static void map_write(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	char *m = fd < 0 ? MAP_FAILED : mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (m != MAP_FAILED) {
		*m = '#';
		munmap(m, 1);
	}
	close(fd);
}

// The harness's project has victim/{edit,delete,rename,truncate,chmod,map,link}; the control makes its own.
void t003_change(struct probe *p)
{
	char dir[PATH_SIZE], a[PATH_SIZE + 32], b[PATH_SIZE + 32];

	if (!judge_layer(p, p->ws))
		return;
	fmt(dir, sizeof(dir), "%s/victim", p->ws);
	mkdir(dir, 0755);
	put_file(fmt(a, sizeof(a), "%s/edit", dir), "changed by skep-attack\n");
	unlink(fmt(a, sizeof(a), "%s/delete", dir));
	rename(fmt(a, sizeof(a), "%s/rename", dir), fmt(b, sizeof(b), "%s/renamed", dir));
	if (truncate(fmt(a, sizeof(a), "%s/truncate", dir), 1))
		errno = 0;
	chmod(fmt(a, sizeof(a), "%s/chmod", dir), 0777);
	map_write(fmt(a, sizeof(a), "%s/map", dir));
	if (link(fmt(a, sizeof(a), "%s/link", dir), fmt(b, sizeof(b), "%s/link2", dir)))
		errno = 0;
	put_file(fmt(b, sizeof(b), "%s/link2", dir), "through a hard link");
	put_file(fmt(a, sizeof(a), "%s/.git/config", p->ws), "[core]\n\tfsmonitor = /bin/false\n");
	put_file(fmt(a, sizeof(a), "%s/new", dir), "new");
	judge_layer(p, dir);
	note(p, "the harness compares the host's tree");
}

static bool below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return n && !strncmp(path, dir, n) && (!path[n] || path[n] == '/');
}

// docs/security.md, "What can be written".
static bool may_write(const struct probe *p, const char *path)
{
	static const char *const places[] = {"/tmp",	  "/var/tmp", "/run",	    "/var/run",
					     "/var/lock", "/dev/shm", "/dev/mqueue"};

	if (p->outside)
		return false;
	for (size_t i = 0; i < LEN(places); i++)
		if (below(path, places[i]))
			return true;
	if (below(path, p->ws) || below(path, env_or("HOME", "")))
		return true;
	return p->root && !below(path, "/dev") && !below(path, "/proc") && !below(path, "/sys");
}

static void create_in(struct probe *p, const char *dir)
{
	char path[PATH_SIZE + 32];

	fmt(path, sizeof(path), "%s/.skep-attack-new", dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		held(p);
		return;
	}
	close(fd);
	judge(p, may_write(p, dir) && (is_our_layer(dir) || below(dir, "/dev/mqueue")), "created a file in %s", dir);
	unlink(path);
}

static void create_below(struct probe *p, const char *dir, int depth, int *left)
{
	char path[PATH_SIZE];
	struct dirent *e;

	create_in(p, dir);
	DIR *d = opendir(dir);
	while (d && *left > 0 && (e = readdir(d))) {
		if (e->d_type != DT_DIR || !strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		--*left;
		fmt(path, sizeof(path), "%s/%s", strcmp(dir, "/") ? dir : "", e->d_name);
		if (depth > 0 && !below(path, p->ws) && strcmp(path, "/proc"))
			create_below(p, path, depth - 1, left);
	}
	if (d)
		closedir(d);
}

void t004_create(struct probe *p)
{
	static const char *const proc[] = {"/proc",   "/proc/self", "/proc/sys", "/proc/self/task",
					   "/proc/1", "/proc/fs",   "/proc/bus"};
	int left = 20000;

	if (p->outside) {
		create_in(p, p->scratch);
		return;
	}
	create_below(p, "/", 3, &left);
	for (size_t i = 0; i < LEN(proc); i++)
		create_in(p, proc[i]);
	create_in(p, p->ws);
}

static void make_parents(char *path)
{
	for (char *c = path + 1; (c = strchr(c, '/')); c++) {
		*c = 0;
		mkdir(path, 0755);
		*c = '/';
	}
}

void t030_late(struct probe *p)
{
	static const char *const names[] = {
		".skep.yaml",
		".git/hooks/post-checkout",
		".git/hooks/pre-commit",
		".git/config.worktree",
		".git/info/attributes",
		".claude/settings.json",
		".cursor/hooks.json",
		".codex/config.toml",
		".vscode/tasks.json",
		".envrc",
		".devcontainer/devcontainer.json",
		".github/workflows/x.yml",
		".gitattributes",
		".gitmodules",
		"conftest.py",
	};
	char path[PATH_SIZE + 64];
	unsigned made = 0;

	if (!judge_layer(p, p->ws))
		return;
	for (size_t i = 0; i < LEN(names); i++) {
		make_parents(fmt(path, sizeof(path), "%s/%s", p->ws, names[i]));
		put_file(path, "#!/bin/sh\ntouch skep-attack-was-here\n");
		made += chmod(path, 0755) == 0;
	}
	note(p, "%u of %zu made; the harness looks for them on the host", made, LEN(names));
}

// Whoever writes on the host's side into what survives must not follow these.
void t031_planted(struct probe *p)
{
	static const char *const names[] = {".cache",  ".config",  ".ssh",   ".gitconfig", ".local",
					    ".bashrc", ".profile", ".npmrc", ".claude",	   ".codex",
					    ".netrc",  ".skep",	   ".gnupg"};
	const char *home = p->outside ? p->scratch : env_or("HOME", "/nonexistent");
	const char *target = env_or("SKEP_ATTACK_CANARY", NULL);
	char path[PATH_SIZE + 32], link[PATH_SIZE + 128], own[PATH_SIZE + 32];
	unsigned made = 0;

	if (p->outside || !target) // what the control writes through must be its own
		target = fmt(own, sizeof(own), "%s/planted-target", p->scratch);

	if (!judge_layer(p, home))
		return;
	fmt(link, sizeof(link), "../../../../../../../../../../../../..%s", target);
	for (size_t i = 0; i < LEN(names); i++) {
		fmt(path, sizeof(path), "%s/%s", home, names[i]);
		unlink(path);
		rmdir(path);
		made += symlink(i % 2 ? target : link, path) == 0;
		put_file(path, "written through a planted link\n"); // and what it leads to inside is not the host's
	}
	symlink(target, fmt(path, sizeof(path), "%s/skep-attack-link", p->ws));
	note(p, "%u links planted in %s; the harness restarts and compares the canary", made, home);
}
