// SPDX-License-Identifier: Apache-2.0
// The host's side: markers that must not be found, and canaries that must not be reached. Run by the harness as the
// user who runs skep. What is made is written down in DIR/made, one path a line, and removed by host-clean or at the
// end of host-serve. Everything is printed as K=V lines that the harness hands to the cell as environment.
#include "attack.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

struct made {
	FILE *list;
	char files[4 * PATH_SIZE];
	unsigned char marker[MARKER_SIZE];
};

static void hex(char *out, const unsigned char *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fmt(out + 2 * i, 3, "%02x", b[i]);
}

static bool put_marker(struct made *m, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return false;
	// Readable by everybody: it must be the cell that keeps it secret, not the owner's permissions.
	bool ok = write(fd, m->marker, MARKER_SIZE) == MARKER_SIZE && fchmod(fd, 0644) == 0;
	close(fd);
	fprintf(m->list, "%s\n", path);
	size_t n = strlen(m->files);
	fmt(m->files + n, sizeof(m->files) - n, "%s%s", n ? ":" : "", path);
	return ok;
}

static void print_secrets(void)
{
	static const char *const files[] = {"/etc/shadow", "/etc/gshadow", "/etc/sudoers"};
	static char buf[65536];

	printf("SKEP_ATTACK_SECRETS=");
	for (size_t i = 0; i < LEN(files); i++) {
		uint64_t h = 1469598103934665603ULL;
		ssize_t n = slurp(files[i], buf, sizeof(buf));
		for (ssize_t k = 0; k < n; k++)
			h = (h ^ (unsigned char)buf[k]) * 1099511628211ULL;
		if (n > 0)
			printf("%016llx,", (unsigned long long)h);
	}
	printf("\n");
}

static void print_line_of(const char *key, const char *path, const char *start)
{
	char buf[4096], *at;

	if (slurp(path, buf, sizeof(buf)) <= 0 || !(at = *start ? strstr(buf, start) : buf))
		return;
	at += strlen(start);
	at += strspn(at, " \t");
	printf("%s=%.*s\n", key, (int)strcspn(at, " \t\n"), at);
}

static void print_addresses(void)
{
	struct ifaddrs *all = NULL;
	char text[INET_ADDRSTRLEN];

	printf("SKEP_ATTACK_ADDRESSES=127.0.0.1");
	if (getifaddrs(&all) == 0)
		for (struct ifaddrs *a = all; a; a = a->ifa_next) {
			if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET || (a->ifa_flags & IFF_LOOPBACK))
				continue;
			if (inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)a->ifa_addr)->sin_addr, text,
				      sizeof(text)))
				printf(":%s", text);
		}
	freeifaddrs(all);
	printf("\n");
}

static void print_names(const char *home)
{
	static const char *const spaces[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
	char host[256] = "", path[64], to[64];
	struct passwd *pw = getpwuid(getuid());

	gethostname(host, sizeof(host) - 1);
	printf("SKEP_ATTACK_HOME=%s\nSKEP_ATTACK_USER=%s\nSKEP_ATTACK_UID=%u\nSKEP_ATTACK_HOSTNAME=%s\n", home,
	       pw ? pw->pw_name : "", getuid(), host);
	print_line_of("SKEP_ATTACK_SEARCH", "/etc/resolv.conf", "search");
	print_line_of("SKEP_ATTACK_MACHINE_ID", "/etc/machine-id", "");
	for (size_t i = 0; i < LEN(spaces); i++) {
		ssize_t n = readlink(fmt(path, sizeof(path), "/proc/self/ns/%s", spaces[i]), to, sizeof(to) - 1);
		to[n > 0 ? n : 0] = 0;
		printf("SKEP_ATTACK_NS_%s=%s\n", spaces[i], to);
	}
	print_secrets();
	print_addresses();
}

// A device node can be made by root only; the harness puts another one into the project.
static void make_node(struct made *m, const char *dir)
{
	char path[PATH_SIZE];

	fmt(path, sizeof(path), "%s/null-node", dir);
	if (mknod(path, S_IFCHR | 0666, makedev(1, 3)))
		return;
	fprintf(m->list, "%s\n", path);
	printf("SKEP_ATTACK_NODE_OUTSIDE=%s\n", path);
}

int host_prepare(const char *dir)
{
	struct made m = {0};
	struct passwd *pw = getpwuid(getuid());
	const char *home = env_or("HOME", pw ? pw->pw_dir : "/root");
	char path[PATH_SIZE], word[2 * MARKER_SIZE + 1], real[PATH_SIZE * 8];

	mkdir(dir, 0700);
	if (!realpath(dir, real) || getrandom(m.marker, MARKER_SIZE, 0) != MARKER_SIZE) {
		fprintf(stderr, "skep-attack: %s: %s\n", dir, strerror(errno));
		return 1;
	}
	hex(word, m.marker, MARKER_SIZE);
	m.list = fopen(fmt(path, sizeof(path), "%s/made", real), "we");
	if (!m.list) {
		fprintf(stderr, "skep-attack: %s: %s\n", path, strerror(errno));
		return 1;
	}
	put_marker(&m, fmt(path, sizeof(path), "/tmp/.skep-attack-marker-tmp-%.8s", word)); // no directory in the way
	put_marker(&m, fmt(path, sizeof(path), "%s/.skep-attack-marker-%.8s", home, word));
	mkdir(fmt(path, sizeof(path), "%s/other-repo", real), 0755);
	mkdir(fmt(path, sizeof(path), "%s/other-repo/.git", real), 0755);
	put_marker(&m, fmt(path, sizeof(path), "%s/other-repo/.skep-attack-marker-repo", real));
	put_marker(&m, fmt(path, sizeof(path), "%s/other-repo/.git/.skep-attack-marker-git", real));
	if (getuid() == 0)
		put_marker(&m, fmt(path, sizeof(path), "/root/.skep-attack-marker-root-%.8s", word));
	mkdir(fmt(path, sizeof(path), "%s/canary-dir", real), 0755);
	put_marker(&m, fmt(path, sizeof(path), "%s/canary-dir/canary", real));
	printf("SKEP_ATTACK_MARKER=%s\nSKEP_ATTACK_DIR=%s\nSKEP_ATTACK_FILES=%s\n", word, real, m.files);
	printf("SKEP_ATTACK_CANARY_DIR=%s/canary-dir\nSKEP_ATTACK_CANARY=%s/canary-dir/canary\n", real, real);
	print_names(home);
	make_node(&m, real);
	fclose(m.list);
	return 0;
}

int host_clean(const char *dir)
{
	char list[PATH_SIZE], path[PATH_SIZE];
	static const char *const dirs[] = {"other-repo/.git", "other-repo", "canary-dir"};
	FILE *f = fopen(fmt(list, sizeof(list), "%s/made", dir), "re");

	while (f && fgets(path, sizeof(path), f)) {
		path[strcspn(path, "\n")] = 0;
		unlink(path);
	}
	if (f)
		fclose(f);
	unlink(list);
	for (size_t i = 0; i < LEN(dirs); i++)
		rmdir(fmt(path, sizeof(path), "%s/%s", dir, dirs[i]));
	return 0;
}
