// SPDX-License-Identifier: Apache-2.0
#include "cell/socket_use.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FEW 8 // sockets: those of the gate, and some whose buffers are no matter. The lists are a walk of the host's table

static uint64_t number_after(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	uint64_t v = 0;
	if (!at)
		return 0;
	at += strlen(key);
	return str_to_u64((struct str){at, strspn(at, "0123456789")}, 0, INT32_MAX, &v) ? 0 : v;
}

static uint64_t sockets_count(pid_t init)
{
	static const char *const files[] = {"sockstat", "sockstat6"};
	static const char *const keys[] = {"TCP: inuse ", "UDP: inuse ", "TCP6: inuse ", "UDP6: inuse "};
	uint64_t sum = 0;
	struct err e;
	for (size_t i = 0; i < countof(files); i++) {
		auto_buf struct buf b = BUF_INIT(4096);
		auto_free char *path = xasprintf("/proc/%d/net/%s", (int)init, files[i]);
		if (fs_read(AT_FDCWD, path, &b, &e))
			continue;
		for (size_t k = 0; k < countof(keys); k++)
			sum += number_after(buf_cstr(&b), keys[k]);
	}
	return sum;
}

// sl local remote state tx_queue:rx_queue timer retransmits uid timeout inode
static void socket_add_line(struct socket_use *u, const char *line)
{
	unsigned state;
	unsigned long long sent, received, inode;
	if (sscanf(line, " %*[^:]: %*s %*s %x %llx:%llx %*s %*s %*s %*s %llu", &state, &sent, &received, &inode) != 4)
		return;
	uint64_t bytes = state == 0x0a ? 0 : (sent + received) * 2; // of a listener the second is a count
	if (!bytes)
		return;
	if (u->n == u->cap) {
		u->cap = u->cap ? u->cap * 2 : 64;
		u->v = xrealloc(u->v, u->cap * sizeof *u->v);
	}
	u->v[u->n++] = (struct socket_bytes){inode, bytes};
	u->bytes += bytes;
}

static int socket_by_inode(const void *a, const void *b)
{
	const struct socket_bytes *x = a, *y = b;
	return (x->inode > y->inode) - (x->inode < y->inode);
}

void socket_use_read(pid_t init, struct socket_use *out)
{
	static const char *const files[] = {"tcp", "tcp6", "udp", "udp6"};
	char line[512];
	*out = (struct socket_use){0};
	if (sockets_count(init) <= FEW)
		return;
	for (size_t i = 0; i < countof(files); i++) {
		auto_free char *path = xasprintf("/proc/%d/net/%s", (int)init, files[i]);
		FILE *f = fopen(path, "re");
		while (f && fgets(line, sizeof line, f))
			socket_add_line(out, line);
		if (f)
			fclose(f);
	}
	if (out->n)
		qsort(out->v, out->n, sizeof *out->v, socket_by_inode);
}

uint64_t socket_use_of(const struct socket_use *u, uint64_t inode)
{
	const struct socket_bytes key = {.inode = inode};
	const struct socket_bytes *found = u->n && inode ? bsearch(&key, u->v, u->n, sizeof *u->v, socket_by_inode) : NULL;
	return found ? found->bytes : 0;
}

void socket_use_done(struct socket_use *u)
{
	free(u->v);
	*u = (struct socket_use){0};
}
