// SPDX-License-Identifier: Apache-2.0
#include "init/who.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define LOOK_US 15000	// one search
#define SHARE 5		// pid 1 has other work: searches get one part of its time in this many,
#define SAVED_US 300000 // of which they may have saved this much for a burst of connections
#define TABLE_MAX (1u << 20)
#define PIDS_MAX 4096
#define STATE_LISTEN 10

static struct {
	pid_t last;	   // who it was the last time is who it is this time
	size_t skip;	   // processes, newest first, that the last search had looked at
	uint64_t seen_us;  // when the last search ended
	uint64_t saved_us; // what the next ones may take
} self;

// --- the socket ---

// The columns of /proc/net/tcp: sl local remote state queues timer retransmits uid timeout inode. Numbers but for the
// inode are hexadecimal.
static bool column(struct str *line, struct str *out)
{
	while (line->n && *line->p == ' ') {
		line->p++;
		line->n--;
	}
	return str_next(line, ' ', out) && out->n;
}

static uint32_t hex(struct str s)
{
	uint32_t v = 0;
	for (size_t i = 0; i < s.n && i < 8; i++) {
		char c = s.p[i];
		v = v << 4 | (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
	}
	return v;
}

static uint32_t port_of(struct str address)
{
	const char *colon = memchr(address.p, ':', address.n);
	return colon ? hex((struct str){colon + 1, address.n - (size_t)(colon + 1 - address.p)}) : 0;
}

static bool parse_line(struct str line, struct tcp_line *out)
{
	struct str col[10];
	for (size_t i = 0; i < countof(col); i++)
		if (!column(&line, &col[i]))
			return false;
	*out = (struct tcp_line){.address = col[1], .port = (uint16_t)port_of(col[1]), .state = hex(col[3])};
	const char *colon = memchr(col[1].p, ':', col[1].n);
	out->address.n = colon ? (size_t)(colon - col[1].p) : 0;
	return (out->address.n == 8 || out->address.n == 32) && !str_to_u64(col[9], 1, UINT64_MAX, &out->inode);
}

void who_tcp_table(const char *table, void (*each)(void *ctx, const struct tcp_line *t), void *ctx)
{
	auto_buf struct buf b = BUF_INIT(TABLE_MAX);
	struct err e;
	struct str line;
	struct tcp_line t;
	if (fs_read(AT_FDCWD, table, &b, &e) && !b.n)
		return;
	struct str rest = str_of(buf_cstr(&b));
	while (str_next(&rest, '\n', &line))
		if (parse_line(line, &t))
			each(ctx, &t);
}

struct wanted {
	uint16_t port;
	uint64_t inode;
};

static void match_port(void *ctx, const struct tcp_line *t)
{
	struct wanted *w = ctx;
	if (!w->inode && t->port == w->port && t->state != STATE_LISTEN)
		w->inode = t->inode;
}

static uint64_t inode_of(const char *table, uint16_t port)
{
	struct wanted w = {.port = port};
	who_tcp_table(table, match_port, &w);
	return w.inode;
}

// --- who has it ---

static bool has_socket(pid_t pid, const char *wanted, uint64_t until_us)
{
	char path[48], link[64];
	struct dirent *ent;
	bool found = false;
	if (pid <= 1 || fmt_to(path, sizeof path, "/proc/%d/fd", (int)pid))
		return false;
	DIR *d = opendir(path);
	while (d && !found && clock_us() < until_us && (ent = readdir(d))) {
		ssize_t n = readlinkat(dirfd(d), ent->d_name, link, sizeof link - 1);
		link[n > 0 ? n : 0] = 0;
		found = !strcmp(link, wanted);
	}
	if (d)
		closedir(d);
	return found;
}

static size_t list_pids(pid_t *pids)
{
	DIR *d = opendir("/proc");
	struct dirent *ent;
	size_t n = 0;
	while (d && n < PIDS_MAX && (ent = readdir(d))) {
		uint64_t pid;
		if (!str_to_u64(str_of(ent->d_name), 2, INT32_MAX, &pid))
			pids[n++] = (pid_t)pid;
	}
	if (d)
		closedir(d);
	return n;
}

// The newest first: it is more often the one that just connected. A search that ran out of time goes on where it ended.
static pid_t find(uint64_t inode, uint64_t until_us)
{
	static pid_t pids[PIDS_MAX];
	char wanted[64];
	if (fmt_to(wanted, sizeof wanted, "socket:[%llu]", (unsigned long long)inode))
		return 0;
	if (has_socket(self.last, wanted, until_us))
		return self.last;
	size_t n = list_pids(pids), from = self.skip < n ? self.skip : 0;
	self.skip = 0;
	for (size_t i = 0; i < n; i++) {
		size_t at = (from + i) % n;
		if (has_socket(pids[n - 1 - at], wanted, until_us))
			return self.last = pids[n - 1 - at];
		if (clock_us() >= until_us) { // perhaps in the middle of this one: it is looked at again, unless it takes a whole search
			self.skip = i ? at : at + 1;
			return 0;
		}
	}
	return 0;
}

static int read_of(pid_t pid, const char *file, struct buf *out)
{
	char path[48];
	struct err e;
	if (fmt_to(path, sizeof path, "/proc/%d/%s", (int)pid, file))
		return -1;
	return fs_read(AT_FDCWD, path, out, &e) && !out->n ? -1 : 0;
}

static void describe(pid_t pid, struct port_owner *out)
{
	static const char mark[] = "SKEP_EXEC=";
	auto_buf struct buf name = BUF_INIT(4096), env = BUF_INIT(256 << 10);
	out->pid = (uint32_t)pid;
	if (!read_of(pid, "comm", &name) &&
	    fmt_to(out->name, sizeof out->name, "%.*s", (int)strcspn(buf_cstr(&name), "\n"), buf_cstr(&name)))
		out->name[0] = 0;
	if (read_of(pid, "environ", &env))
		return;
	for (size_t at = 0; at < env.n; at += strlen(env.p + at) + 1) {
		const char *id = env.p + at + strlen(mark);
		if (str_has_prefix(env.p + at, mark)) {
			if (id_is(id))
				memcpy(out->exec, id, strlen(id) + 1);
			return;
		}
	}
}

void who_has_port(enum who_socket socket, uint16_t port, uint64_t inode, struct port_owner *out)
{
	uint64_t from = clock_us(), until = from + LOOK_US;
	*out = (struct port_owner){0};
	uint64_t earned = self.saved_us + (self.seen_us ? (from - self.seen_us) / SHARE : SAVED_US);
	self.saved_us = earned < SAVED_US ? earned : SAVED_US;
	self.seen_us = from;
	if (self.saved_us < LOOK_US)
		return;
	inode = inode ? inode : inode_of(socket == WHO_UDP ? "/proc/net/udp" : "/proc/net/tcp", port);
	inode = inode ? inode : inode_of(socket == WHO_UDP ? "/proc/net/udp6" : "/proc/net/tcp6", port);
	pid_t pid = inode ? find(inode, until) : 0;
	if (pid)
		describe(pid, out);
	uint64_t now = clock_us();
	self.saved_us -= now - from < self.saved_us ? now - from : self.saved_us;
	self.seen_us = now;
}

void who_answer(struct chan *c, const struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	auto_buf struct buf b = BUF_INIT(256);
	struct port_owner o = {0};
	uint32_t port = wire_get_u32(&w);
	uint64_t inode = wire_get_u64(&w);
	if (!w.bad && port && port <= UINT16_MAX)
		who_has_port(f->stream == WHO_UDP ? WHO_UDP : WHO_TCP, (uint16_t)port, inode, &o);
	wire_u32(&b, o.pid);
	wire_str(&b, o.exec);
	wire_str(&b, o.name);
	chan_send_buf(c, M_WHO, f->id, &b);
}
