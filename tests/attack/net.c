// SPDX-License-Identifier: Apache-2.0
// T-112: ways off the machine. Nothing is ever sent: a datagram socket that is only connected asks the routing table.
#include "attack.h"
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void look_at_interfaces(struct probe *p)
{
	struct if_nameindex *all = if_nameindex();

	for (struct if_nameindex *i = all; i && i->if_index; i++)
		judge(p, !strcmp(i->if_name, "lo"), "interface %s is there", i->if_name);
	if (all)
		if_freenameindex(all);
	else
		held(p);
}

static void has_route4(struct probe *p, const char *addr)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(9)}, own = {0};
	socklen_t n = sizeof(own);
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, addr, &a.sin_addr);
	// A local-only table may accept the address; then our end is loopback, and nothing leaves.
	bool routed = connect(s, (struct sockaddr *)&a, sizeof(a)) == 0 && !getsockname(s, (struct sockaddr *)&own, &n);
	uint32_t from = ntohl(own.sin_addr.s_addr);
	judge(p, !routed || (from >> 24) == 127 || own.sin_addr.s_addr == a.sin_addr.s_addr, "%s has a route", addr);
	close(s);
}

static void has_route6(struct probe *p, const char *addr)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(9)}, own = {0};
	socklen_t n = sizeof(own);
	int s = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET6, addr, &a.sin6_addr);
	bool routed = connect(s, (struct sockaddr *)&a, sizeof(a)) == 0 && !getsockname(s, (struct sockaddr *)&own, &n);
	bool mapped = IN6_IS_ADDR_V4MAPPED(&own.sin6_addr) && own.sin6_addr.s6_addr[12] == 127;
	judge(p, !routed || IN6_IS_ADDR_LOOPBACK(&own.sin6_addr) || mapped, "%s has a route", addr);
	close(s);
}

// Own loopback is free: a listener there must be reachable.
static bool own_loopback(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t n = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), c = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool ok = !bind(l, (struct sockaddr *)&a, sizeof(a)) && !listen(l, 1) &&
		  !getsockname(l, (struct sockaddr *)&a, &n) && !connect(c, (struct sockaddr *)&a, sizeof(a));

	close(l);
	close(c);
	return ok;
}

static void change_network(struct probe *p)
{
	struct ifreq r = {.ifr_name = "lo"};
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (!probe_escalate(p) && p->outside)
		return;
	close(s);
	s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	r.ifr_flags = IFF_UP | IFF_PROMISC;
	judge(p, ioctl(s, SIOCSIFFLAGS, &r) != 0, "changed an interface");
	r.ifr_mtu = 1000;
	judge(p, ioctl(s, SIOCSIFMTU, &r) != 0, "changed an MTU");
	close(s);
}

void t112_network(struct probe *p)
{
	static const char *const v4[] = {"192.0.2.1",	 "169.254.169.254", "100.100.100.200",
					 "10.0.0.1",	 "172.17.0.1",	    "192.168.1.1",
					 "198.51.100.7", "224.0.0.251",	    "255.255.255.255"};
	static const char *const v6[] = {"2001:db8::1", "fd00:ec2::254", "fe80::1", "::ffff:192.0.2.1", "ff02::fb"};

	look_at_interfaces(p);
	for (size_t i = 0; i < LEN(v4); i++)
		has_route4(p, v4[i]);
	for (size_t i = 0; i < LEN(v6); i++)
		has_route6(p, v6[i]);
	judge(p, p->outside || own_loopback(), "own loopback does not work");
	in_child(p, change_network);
}
