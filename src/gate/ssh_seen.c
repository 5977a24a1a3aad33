// SPDX-License-Identifier: Apache-2.0
#include "gate/ssh_seen.h"

#include "base/mem.h"
#include "gate/ssh_key.h"
#include <stdlib.h>
#include <string.h>

#define TOTAL_MAX (128u << 10) // a key exchange of two kilobytes is the rule
#define PACKET_MAX 35000
#define BANNER_MAX 8192 // with the lines that may stand before it

enum { MSG_NEWKEYS = 21, MSG_KEX_REPLY = 31, MSG_GEX_REPLY = 33, MSG_USERAUTH_REQUEST = 50 };

struct ssh_seen {
	struct buf in;
	size_t total;
	bool greeted, over;
	struct buf host_key, signature;
};

struct ssh_seen *ssh_seen_new(void)
{
	struct ssh_seen *s = xcalloc(1, sizeof *s);
	s->in = BUF_INIT(TOTAL_MAX + 1);
	s->host_key = s->signature = BUF_INIT(PACKET_MAX);
	return s;
}

void ssh_seen_free(struct ssh_seen *s)
{
	if (!s)
		return;
	buf_done(&s->in);
	buf_done(&s->host_key);
	buf_done(&s->signature);
	free(s);
}

// 1 = seen, 0 = not yet, -1 = not ssh.
static int take_banner(struct ssh_seen *s)
{
	for (;;) {
		char *end = s->in.n ? memchr(s->in.p, '\n', s->in.n) : NULL;
		if (!end)
			return s->in.n > BANNER_MAX ? -1 : 0;
		bool ours = !strncmp(s->in.p, "SSH-2.0-", 8) || !strncmp(s->in.p, "SSH-1.99-", 9);
		buf_cut(&s->in, (size_t)(end - s->in.p) + 1);
		if (ours)
			return 1;
	}
}

// Of a group exchange 31 is something shorter: it has no third string.
static void on_packet(struct ssh_seen *s, struct ssh_in in)
{
	uint8_t type = ssh_get_u8(&in);
	s->over = type == MSG_NEWKEYS;
	if (type != MSG_KEX_REPLY && type != MSG_GEX_REPLY)
		return;
	struct ssh_text key = ssh_get(&in);
	ssh_get(&in);
	struct ssh_text signature = ssh_get(&in);
	if (in.bad || in.n || !signature.n)
		return;
	buf_add(&s->host_key, key.p, key.n);
	buf_add(&s->signature, signature.p, signature.n);
	s->over = true;
}

// One packet, unencrypted. 1 = taken, 0 = not whole yet, -1 = not one.
static int take_packet(struct ssh_seen *s)
{
	struct ssh_in in = {(const uint8_t *)s->in.p, s->in.n, false};
	uint32_t n = ssh_get_u32(&in);
	uint8_t padding = ssh_get_u8(&in);
	if (in.bad)
		return 0;
	if (n > PACKET_MAX || n < (uint32_t)padding + 2)
		return -1;
	if (in.n < n - 1)
		return 0;
	in.n = n - 1 - padding;
	on_packet(s, in);
	buf_cut(&s->in, (size_t)n + 4);
	return 1;
}

bool ssh_seen_feed(struct ssh_seen *s, const void *p, size_t n)
{
	int rc = 1;
	s->total += n;
	if (s->total > TOTAL_MAX)
		s->over = true;
	if (!s->over)
		buf_add(&s->in, p, n);
	if (!s->over && !s->greeted) {
		rc = take_banner(s);
		s->greeted = rc == 1;
	}
	while (rc == 1 && !s->over)
		rc = take_packet(s);
	s->over |= rc < 0;
	if (s->over)
		buf_done(&s->in);
	return !s->over;
}

struct ssh_text ssh_seen_key(const struct ssh_seen *s)
{
	return (struct ssh_text){(const uint8_t *)s->host_key.p, s->host_key.n};
}

bool ssh_seen_is(const struct ssh_seen *s, struct ssh_text session)
{
	if (!s || !s->signature.n || session.n < 20)
		return false;
	return ssh_verifies(ssh_seen_key(s), (struct ssh_text){(const uint8_t *)s->signature.p, s->signature.n},
			    session);
}

bool ssh_login_parse(struct ssh_text data, struct ssh_login *out)
{
	struct ssh_in in = {data.p, data.n, false};
	struct ssh_login l = {.session = ssh_get(&in)};
	uint8_t type = ssh_get_u8(&in);
	l.user = ssh_get(&in);
	struct ssh_text service = ssh_get(&in), method = ssh_get(&in);
	uint8_t signs = ssh_get_u8(&in);
	l.alg = ssh_get(&in);
	l.key = ssh_get(&in);
	bool named = ssh_is(method, "publickey-hostbound-v00@openssh.com");
	if (named)
		l.host_key = ssh_get(&in);
	if (in.bad || in.n || type != MSG_USERAUTH_REQUEST || signs != 1 || !ssh_is(service, "ssh-connection") ||
	    (!named && !ssh_is(method, "publickey")))
		return false;
	*out = l;
	return true;
}
