// SPDX-License-Identifier: Apache-2.0
#include "isolate/nl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int nl_open(int protocol, struct err *e)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
	return fd < 0 ? err_sys(e, "netlink socket") : fd;
}

static void *room(struct nl *b, size_t n)
{
	void *at = b->p + b->n;
	n = NLMSG_ALIGN(n);
	if (n > sizeof b->p - b->n)
		abort();
	memset(at, 0, n);
	b->n += (uint32_t)n;
	return at;
}

static struct nlmsghdr *current(struct nl *b)
{
	return (struct nlmsghdr *)(b->p + b->msg);
}

void nl_begin(struct nl *b, uint16_t type, uint16_t flags, const void *head, size_t n)
{
	uint32_t seq = b->n ? current(b)->nlmsg_seq + 1 : 0;
	b->msg = b->n;
	struct nlmsghdr *h = room(b, NLMSG_HDRLEN);
	memcpy(room(b, n), head, n);
	*h = (struct nlmsghdr){
		.nlmsg_len = b->n - b->msg, .nlmsg_type = type, .nlmsg_flags = flags | NLM_F_REQUEST, .nlmsg_seq = seq};
}

void nl_put(struct nl *b, uint16_t type, const void *p, size_t n)
{
	struct nlattr *a = room(b, NLA_HDRLEN);
	*a = (struct nlattr){.nla_len = (uint16_t)(NLA_HDRLEN + n), .nla_type = type};
	if (n)
		memcpy(room(b, n), p, n);
	current(b)->nlmsg_len = b->n - b->msg;
}

void nl_put_str(struct nl *b, uint16_t type, const char *s)
{
	nl_put(b, type, s, strlen(s) + 1);
}

void nl_put_be32(struct nl *b, uint16_t type, uint32_t v)
{
	v = htonl(v);
	nl_put(b, type, &v, sizeof v);
}

uint32_t nl_nest(struct nl *b, uint16_t type)
{
	uint32_t at = b->n;
	nl_put(b, type | NLA_F_NESTED, NULL, 0);
	return at;
}

void nl_unnest(struct nl *b, uint32_t nest)
{
	((struct nlattr *)(b->p + nest))->nla_len = (uint16_t)(b->n - nest);
}

// The first failure in what the kernel has answered, 0 when nothing failed.
static int first_failure(int fd, uint32_t *out_at)
{
	_Alignas(4) char in[8192];
	for (;;) {
		ssize_t got = recv(fd, in, sizeof in, MSG_DONTWAIT);
		if (got <= 0)
			return 0;
		int left = (int)got;
		for (struct nlmsghdr *h = (struct nlmsghdr *)in; NLMSG_OK(h, (unsigned)left); h = NLMSG_NEXT(h, left)) {
			const struct nlmsgerr *r = NLMSG_DATA(h);
			if (h->nlmsg_type != NLMSG_ERROR || h->nlmsg_len < NLMSG_LENGTH(sizeof *r) || !r->error)
				continue;
			*out_at = h->nlmsg_seq;
			return -r->error;
		}
	}
}

int nl_talk(int fd, const struct nl *b, uint32_t *out_at, struct err *e)
{
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	if (sendto(fd, b->p, b->n, 0, (struct sockaddr *)&kernel, sizeof kernel) != (ssize_t)b->n)
		return err_sys(e, "netlink");
	return first_failure(fd, out_at);
}
