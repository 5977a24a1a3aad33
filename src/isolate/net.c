// SPDX-License-Identifier: Apache-2.0
#include "isolate/net.h"

#include "base/mem.h"
#include "isolate/nft.h"
#include "isolate/nl.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define LO 1 // the loopback device's number in every namespace
#define BACKLOG 4096

int net_lo_up(struct err *e)
{
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_sys(e, "socket for the loopback device");
	struct ifreq r = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING};
	return ioctl(fd, SIOCSIFFLAGS, &r) ? err_sys(e, "bring the loopback device up") : 0;
}

void net_sockets_close(struct net_sockets *s)
{
	close_fd(&s->tcp);
	close_fd(&s->dns_udp);
	close_fd(&s->dns_tcp);
	close_fd(&s->nflog);
	close_fd(&s->route);
	close_fd(&s->diag);
	close_fd(&s->wide4);
	close_fd(&s->wide6);
}

// --- routes ---

static void link_up(struct nl *b)
{
	struct ifinfomsg m = {.ifi_family = AF_UNSPEC, .ifi_index = LO, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
	nl_begin(b, RTM_SETLINK, 0, &m, sizeof m);
}

// local default dev lo src LOOPBACK. Without the source the kernel would take the destination for it, and answers to
// refused packets would be refused themselves.
static void local_default(struct nl *b, uint8_t family, const void *source, size_t n)
{
	struct rtmsg m = {.rtm_family = family,
			  .rtm_table = RT_TABLE_LOCAL,
			  .rtm_protocol = RTPROT_BOOT,
			  .rtm_scope = RT_SCOPE_HOST,
			  .rtm_type = RTN_LOCAL};
	uint32_t lo = LO;
	nl_begin(b, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &m, sizeof m);
	nl_put(b, RTA_OIF, &lo, sizeof lo);
	nl_put(b, RTA_PREFSRC, source, n);
}

static int set_routes(int fd, struct err *e)
{
	struct nl b = {0};
	uint32_t lo4 = htonl(INADDR_LOOPBACK), at = 0;
	link_up(&b);
	local_default(&b, AF_INET, &lo4, sizeof lo4);
	local_default(&b, AF_INET6, &in6addr_loopback, sizeof in6addr_loopback);
	int rc = nl_talk(fd, &b, &at, e);
	if (rc <= 0)
		return rc;
	if (at == 2) // no IPv6 here: then there is no route at all, which is closed as well
		return 0;
	errno = rc;
	return err_sys(e, "routes of the cell");
}

// --- sockets ---

static int bound(int type, uint32_t address, uint16_t port, struct err *e)
{
	static const int on = 1;
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(address)};
	auto_fd int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(e, "socket of the gate");
	if (address == NFT_SYNTHETIC && setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &on, sizeof on))
		return err_sys(e, "socket of the gate: transparent");
	bool listens = type == SOCK_STREAM && port != NFT_WIDE_PORT;
	if (bind(fd, (struct sockaddr *)&a, sizeof a) || (listens && listen(fd, BACKLOG)))
		return err_sys(e, "socket of the gate");
	return take_fd(&fd);
}

// -1 where the kernel or the namespace has no IPv6: then there is nothing to be dialled either.
static int bound6(void)
{
	static const int on = 1;
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(NFT_WIDE_PORT), .sin6_addr = NFT_WIDE6};
	auto_fd int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) ||
	    setsockopt(fd, IPPROTO_IPV6, IPV6_TRANSPARENT, &on, sizeof on) || bind(fd, (struct sockaddr *)&a, sizeof a))
		return -1;
	return take_fd(&fd);
}

// A listener that is shut down stays bound and may listen again.
int net_wide(int fd, bool on, struct err *e)
{
	if (on)
		return listen(fd, BACKLOG) ? err_sys(e, "let addresses be dialled") : 0;
	return shutdown(fd, SHUT_RD) && errno != ENOTCONN ? err_sys(e, "stop addresses being dialled") : 0;
}

static int open_sockets(struct net_sockets *s, struct err *e)
{
	s->tcp = bound(SOCK_STREAM, NFT_SYNTHETIC, NFT_LISTEN_PORT, e);
	if (s->tcp < 0)
		return -1;
	s->dns_udp = bound(SOCK_DGRAM, INADDR_LOOPBACK, 53, e);
	if (s->dns_udp < 0)
		return -1;
	s->dns_tcp = bound(SOCK_STREAM, INADDR_LOOPBACK, 53, e);
	if (s->dns_tcp < 0)
		return -1;
	s->wide4 = bound(SOCK_STREAM, NFT_SYNTHETIC, NFT_WIDE_PORT, e);
	s->wide6 = bound6();
	return s->wide4 < 0 ? -1 : 0;
}

// The filter before the routes: at no instant is there a way that it does not watch.
int net_setup(struct net_sockets *out, struct err *e)
{
	struct net_sockets s = NET_SOCKETS_NONE;
	*out = s;
	s.nflog = nl_open(NETLINK_NETFILTER, e);
	if (s.nflog < 0)
		return e->sys == EPROTONOSUPPORT ? err_set(e, ERR_UNSUPPORTED, "this kernel has no netfilter") : -1;
	if (nft_install(s.nflog, e) || (s.route = nl_open(NETLINK_ROUTE, e)) < 0 || set_routes(s.route, e) ||
	    open_sockets(&s, e)) {
		net_sockets_close(&s);
		return -1;
	}
	struct err none;
	s.diag = nl_open(NETLINK_SOCK_DIAG, &none); // only records are poorer without
	*out = s;
	return 0;
}

// --- looks ---

// A datagram socket may be "connected" without a packet: that asks only for the way. With a gate the way to anywhere is
// the loopback device, which shows in the source address; without one there is none.
static bool leads_out(bool gated, const struct sockaddr *to, socklen_t n)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} from = {0};
	socklen_t len = sizeof from;
	auto_fd int fd = socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, to, n))
		return false;
	if (!gated || getsockname(fd, &from.any, &len))
		return true;
	if (to->sa_family == AF_INET)
		return from.v4.sin_addr.s_addr != htonl(INADDR_LOOPBACK);
	return memcmp(&from.v6.sin6_addr, &in6addr_loopback, sizeof in6addr_loopback) != 0;
}

int net_self_test(bool gated, struct err *e)
{
	// Both are addresses for documentation, which nothing ever has.
	struct sockaddr_in far4 = {.sin_family = AF_INET, .sin_port = htons(53), .sin_addr.s_addr = htonl(0xc0000201)};
	struct sockaddr_in6 far6 = {
		.sin6_family = AF_INET6, .sin6_port = htons(53), .sin6_addr = {{{0x20, 0x01, 0x0d, 0xb8}}}};
	if (leads_out(gated, (struct sockaddr *)&far4, sizeof far4) ||
	    leads_out(gated, (struct sockaddr *)&far6, sizeof far6))
		return err_set(e, ERR_BUG, "self-test: there is a route out of the cell");
	return 0;
}

// The kernel finds one connection by both of its ends at once. Its table as a file is the whole host's, and takes
// milliseconds, in which a short command is over.
uint64_t net_inode(int diag, const struct net_ends *t)
{
	struct {
		struct nlmsghdr h;
		struct inet_diag_req_v2 r;
	} q = {.h = {.nlmsg_len = sizeof q, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
	       .r = {.sdiag_family = t->six ? AF_INET6 : AF_INET,
		     .sdiag_protocol = t->udp ? IPPROTO_UDP : IPPROTO_TCP,
		     .idiag_states = ~0u,
		     .id = {.idiag_sport = htons(t->udp ? t->peer_port : t->port), // UDP wants a packet's ends, not the socket's
			    .idiag_dport = htons(t->udp ? t->port : t->peer_port),
			    .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}}};
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	_Alignas(8) char in[1024];
	struct inet_diag_msg m;
	memcpy(q.r.id.idiag_src, t->udp ? t->peer : t->address, sizeof t->address);
	memcpy(q.r.id.idiag_dst, t->udp ? t->address : t->peer, sizeof t->peer);
	if (diag < 0 || sendto(diag, &q, sizeof q, 0, (struct sockaddr *)&kernel, sizeof kernel) < 0)
		return 0;
	ssize_t n = recv(diag, in, sizeof in, MSG_DONTWAIT); // the answer is there when sendto returns
	if (n < (ssize_t)(NLMSG_HDRLEN + sizeof m) || ((struct nlmsghdr *)in)->nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return 0;
	memcpy(&m, in + NLMSG_HDRLEN, sizeof m);
	return m.idiag_inode;
}
