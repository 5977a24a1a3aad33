// SPDX-License-Identifier: Apache-2.0
// T-026, T-034, T-103: sockets, queues and shared memory.
#include "attack.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static bool connects_unix(const char *path, bool abstract)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	size_t n = strlen(path);
	bool ok = false;

	if (n + 1 >= sizeof(a.sun_path))
		return false;
	memcpy(a.sun_path + abstract, path, n);
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
	static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
	for (size_t i = 0; i < LEN(types) && !ok; i++) {
		int s = socket(AF_UNIX, types[i] | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		ok = s >= 0 && connect(s, (struct sockaddr *)&a, len) == 0;
		close(s);
	}
	return ok;
}

static void try_socket_path(struct probe *p, const char *path)
{
	if (*path == '/')
		judge(p, !connects_unix(path, false), "connected to %s", path);
}

static void try_known_sockets(struct probe *p)
{
	static const char *const paths[] = {
		"/run/dbus/system_bus_socket",
		"/var/run/docker.sock",
		"/run/docker.sock",
		"/run/podman/podman.sock",
		"/run/containerd/containerd.sock",
		"/nix/var/nix/daemon-socket/socket",
		"/run/crio/crio.sock",
		"/run/systemd/private",
		"/run/systemd/notify",
		"/run/systemd/journal/socket",
		"/run/systemd/journal/stdout",
		"/dev/log",
		"/run/snapd.socket",
		"/run/udev/control",
		"/run/uuidd/request",
		"/tmp/.X11-unix/X0",
		"/tmp/.X11-unix/X1",
		"/run/acpid.socket",
		"/run/cups/cups.sock",
		"/run/nscd/socket",
		"/run/libvirt/libvirt-sock",
		"/run/pcscd/pcscd.comm",
		"/run/postgresql/.s.PGSQL.5432",
		"/var/run/postgresql/.s.PGSQL.5432",
		"/run/mysqld/mysqld.sock",
	};
	static const char *const of_user[] = {"bus",
					      "wayland-0",
					      "wayland-1",
					      "docker.sock",
					      "podman/podman.sock",
					      "gnupg/S.gpg-agent",
					      "keyring/ssh",
					      "pipewire-0",
					      "pulse/native",
					      "systemd/private"};
	const char *home = env_or("SKEP_ATTACK_HOME", "/nonexistent");
	char path[PATH_SIZE];

	for (size_t i = 0; i < LEN(paths); i++)
		try_socket_path(p, paths[i]);
	for (size_t i = 0; i < LEN(of_user); i++) {
		try_socket_path(p, fmt(path, sizeof(path), "/run/user/%ld/%s", env_long("SKEP_ATTACK_UID", getuid()),
				       of_user[i]));
		try_socket_path(
			p, fmt(path, sizeof(path), "%s/%s", env_or("XDG_RUNTIME_DIR", "/nonexistent"), of_user[i]));
	}
	try_socket_path(p, fmt(path, sizeof(path), "%s/.gnupg/S.gpg-agent", home));
	try_socket_path(p, fmt(path, sizeof(path), "%s/.docker/run/docker.sock", home));
	try_socket_path(p, env_or("SSH_AUTH_SOCK", ""));
	judge(p, !connects_unix("/tmp/.X11-unix/X0", true), "connected to the X server");
	judge(p, !connects_unix("/org/freedesktop/systemd1/notify", true), "connected to systemd");
}

static bool tcp_connects(const char *addr, long port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int err = 0, s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len = sizeof(err);

	if (s < 0 || inet_pton(AF_INET, addr, &a.sin_addr) != 1) {
		close(s);
		return false;
	}
	bool ok = connect(s, (struct sockaddr *)&a, sizeof(a)) == 0;
	if (!ok && errno == EINPROGRESS) {
		struct pollfd f = {.fd = s, .events = POLLOUT};
		ok = poll(&f, 1, 500) == 1 && !getsockopt(s, SOL_SOCKET, SO_ERROR, &err, &len) && !err;
	}
	close(s);
	return ok;
}

// The canary answers with the marker: anything else is an echo of our own, or of somebody in the same cell.
static bool udp_answers(struct probe *p, const char *addr, long port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct pollfd f = {.fd = s, .events = POLLIN};
	char buf[64];
	ssize_t n = -1;

	inet_pton(AF_INET, addr, &a.sin_addr);
	if (s >= 0 && sendto(s, "?", 1, 0, (struct sockaddr *)&a, sizeof(a)) == 1 && poll(&f, 1, 300) == 1)
		n = recv(s, buf, sizeof(buf), 0);
	close(s);
	if (n > 0 && !has_marker(p, buf, (size_t)n))
		note(p, "%zd other bytes from udp %s:%ld, first %#x", n, addr, port, buf[0]);
	return n > 0 && has_marker(p, buf, (size_t)n);
}

static void try_host_address(struct probe *p, const char *addr)
{
	long tcp = env_long("SKEP_ATTACK_TCP", 0), udp = env_long("SKEP_ATTACK_UDP", 0);

	if (tcp)
		judge(p, !tcp_connects(addr, tcp), "connected to %s:%ld of the host", addr, tcp);
	if (udp)
		judge(p, !udp_answers(p, addr, udp), "udp to %s:%ld of the host answers", addr, udp);
}

// Ids and keys are small numbers: what we find must be empty, not only differently named.
static void try_sysv(struct probe *p)
{
	int shm = (int)env_long("SKEP_ATTACK_SHM", -1), key = (int)env_long("SKEP_ATTACK_IPCKEY", 0);
	void *at = shm < 0 ? (void *)-1 : shmat(shm, NULL, SHM_RDONLY);

	judge(p, at == (void *)-1 || !has_marker(p, at, MARKER_SIZE), "attached the host's shared memory %d", shm);
	if (key) {
		judge(p, shmget(key, 0, 0) < 0, "shared memory of key %#x", key);
		judge(p, msgget(key, 0) < 0, "message queue of key %#x", key);
		judge(p, semget(key, 0, 0) < 0, "semaphores of key %#x", key);
	}
	char buf[16384], number[24];
	static const char *const lists[] = {"/proc/sysvipc/shm", "/proc/sysvipc/msg", "/proc/sysvipc/sem"};
	fmt(number, sizeof(number), " %d ", key);
	for (size_t i = 0; i < LEN(lists) && key; i++)
		judge(p, slurp(lists[i], buf, sizeof(buf)) <= 0 || !strstr(buf, number), "%s lists the host's",
		      lists[i]);
}

static void try_queue(struct probe *p)
{
	const char *name = env_or("SKEP_ATTACK_MQ", NULL);
	char path[PATH_SIZE];

	if (!name)
		return;
	long fd = syscall(SYS_mq_open, name, O_RDONLY | O_CLOEXEC, 0, NULL);
	judge(p, fd < 0, "opened the host's message queue %s", name);
	fmt(path, sizeof(path), "/dev/mqueue/%s", name);
	judge(p, access(path, F_OK) != 0, "%s exists", path);
}

void t026_ipc(struct probe *p)
{
	if (!getenv("SKEP_ATTACK_ABSTRACT"))
		skip(p, "no canaries: host-serve is not running");
	try_sysv(p);
	try_queue(p);
	judge(p, !connects_unix(env_or("SKEP_ATTACK_ABSTRACT", "skep-attack-none"), true),
	      "connected to the host's abstract socket");
	each_path(p, env_or("SKEP_ATTACK_SOCKET", ""), try_socket_path);
	try_known_sockets(p);
	each_path(p, env_or("SKEP_ATTACK_ADDRESSES", "127.0.0.1"), try_host_address);
}

void t034_backend(struct probe *p)
{
	static const char *const addrs[] = {"127.0.0.1", "172.17.0.1",	    "192.168.65.7",   "192.168.65.254",
					    "10.0.2.2",	 "169.254.169.254", "100.100.100.200"};
	static const int ports[] = {80, 2375, 2376, 2377, 4243, 10250, 50051};
	static const int contexts[] = {0, 1, 2, 3};

	for (size_t a = 0; a < LEN(addrs) && !p->outside; a++) // never knock at addresses beyond loopback from the host
		for (size_t i = 0; i < LEN(ports); i++)
			judge(p, !tcp_connects(addrs[a], ports[i]), "connected to %s:%d", addrs[a], ports[i]);
	for (size_t i = 0; i < LEN(contexts) && !p->outside; i++) {
		uint32_t vm[4] = {40, 1024, (uint32_t)contexts[i], 0};
		int s = socket(40 /* AF_VSOCK */, SOCK_STREAM | SOCK_CLOEXEC, 0);
		judge(p, s < 0 || connect(s, (struct sockaddr *)vm, sizeof(vm)) != 0, "connected to vsock %d",
		      contexts[i]);
		close(s);
	}
	int s = socket(40, SOCK_STREAM | SOCK_CLOEXEC, 0);
	judge(p, s < 0, "vsock sockets can be made");
	close(s);
	if (p->outside)
		nocontrol(p, "there is no container engine or machine monitor to knock at");
}

static void try_family(struct probe *p, int family)
{
	static const int types[] = {SOCK_STREAM,    SOCK_DGRAM,	  SOCK_RAW, 4 /* RDM */,
				    SOCK_SEQPACKET, 6 /* DCCP */, 10 /* PACKET */};
	bool known = family == AF_UNIX || family == AF_INET || family == AF_INET6;

	for (size_t i = 0; i < LEN(types); i++) {
		bool plain = types[i] == SOCK_STREAM || types[i] == SOCK_DGRAM || types[i] == SOCK_SEQPACKET ||
			     (family == AF_UNIX && types[i] == SOCK_RAW);
		if (known && plain)
			continue;
		if (family == AF_NETLINK)
			continue;
		struct answer a = TRY(SYS_socket, family, types[i] | SOCK_CLOEXEC, 0);
		judge(p, a.err != 0, "socket family %d type %d", family, types[i]);
		a = TRY(SYS_socket, (long)(1UL << 32 | (unsigned long)family), types[i] | SOCK_CLOEXEC, 0);
		judge(p, a.err != 0, "socket family %d with high bits, type %d", family, types[i]);
	}
	int pair[2];
	judge(p, family == AF_UNIX || TRY(SYS_socketpair, family, SOCK_STREAM, 0, (long)pair).err != 0,
	      "socketpair of family %d", family);
}

void t103_sockets(struct probe *p)
{
	for (int f = 0; f <= 45; f++)
		try_family(p, f);
	for (int proto = 1; proto < 32; proto++) {
		struct answer a = TRY(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, proto);
		judge(p, a.err != 0, "netlink protocol %d", proto);
		a = TRY(SYS_socket, AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, (long)(1UL << 32 | (unsigned long)proto));
		judge(p, a.err != 0, "netlink protocol %d with high bits", proto);
	}
	for (int proto = 0; proto < 256; proto++)
		judge(p, TRY(SYS_socket, AF_INET, SOCK_RAW | SOCK_CLOEXEC, proto).err != 0, "raw socket of protocol %d",
		      proto);
	if (!p->outside) { // what every program needs is still there
		judge(p, TRY(SYS_socket, AF_INET, SOCK_STREAM, 0).err == 0, "no TCP sockets");
		judge(p,
		      TRY(SYS_socket, AF_INET6, SOCK_DGRAM, 0).err == 0 ||
			      TRY(SYS_socket, AF_INET6, SOCK_DGRAM, 0).err == EAFNOSUPPORT,
		      "no UDP6 sockets");
		judge(p, TRY(SYS_socket, AF_UNIX, SOCK_STREAM, 0).err == 0, "no unix sockets");
		judge(p, TRY(SYS_socket, AF_NETLINK, SOCK_RAW, 0).err == 0, "no route netlink");
	}
}
