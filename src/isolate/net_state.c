// SPDX-License-Identifier: Apache-2.0
#include "isolate/net_state.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define STATE_MAX (256u << 10)
#define DEPTH 2 // directories of devices

static const char *const not_compared[] = {
	// every socket, with those that a connection leaves behind, is counted in sockstat and sockstat6
	"tcp", "tcp6", "udp", "udp6", "udplite", "udplite6", "raw", "raw6", "icmp", "icmp6", "unix", "netlink", "packet", "ptype", "sctp",
	// of the whole host: memory and processors, kernel modules, tables that all namespaces share
	"protocols", "softnet_stat", "rt_acct", "psched", "stat", "ip_tables_matches", "ip_tables_targets", "ip6_tables_matches",
	"ip6_tables_targets", "arp_tables_matches", "arp_tables_targets", "rpc",
	// made by packets, which dev counts, and by rules; a walk of the host's table
	"nf_conntrack", "nf_conntrack_expect", "netfilter",
	// another form of fib_trie; always empty
	"fib_triestat", "rt_cache",
};

static bool is_compared(const char *name)
{
	for (size_t i = 0; i < countof(not_compared); i++)
		if (!strcmp(name, not_compared[i]))
			return false;
	return true;
}

// Names and numbers in turn; a few of the numbers are the host's.
static void add_sockets(struct buf *out, const char *text)
{
	static const char *const of_the_host[] = {"orphan", "alloc", "mem"};
	struct str rest = str_of(text), line;
	while (str_next(&rest, '\n', &line)) {
		struct str word;
		bool skip = false;
		while (str_next(&line, ' ', &word)) {
			if (!skip)
				buf_add(out, word.p, word.n);
			skip = false;
			for (size_t i = 0; i < countof(of_the_host); i++)
				skip = skip || str_is(word, of_the_host[i]);
			buf_byte(out, ' ');
		}
		buf_byte(out, '\n');
	}
}

static int state_read_dir(int dir, int depth, struct buf *out, struct err *e);

// A file that is closed to the mold is closed to its cells, which have fewer rights.
static int state_read_file(int dir, const char *name, struct buf *out, struct err *e)
{
	auto_buf struct buf text = BUF_INIT(STATE_MAX);
	auto_fd int fd = fs_open(dir, name, O_RDONLY, 0, e);
	buf_fmt(out, "%s\n", name);
	if (fd < 0)
		return e->sys == EACCES ? 0 : -1;
	if (strcmp(name, "sockstat"))
		return fs_read_fd(fd, out, e);
	if (fs_read_fd(fd, &text, e))
		return -1;
	add_sockets(out, buf_cstr(&text));
	return 0;
}

static int state_read_entry(int dir, const struct dirent *ent, int depth, struct buf *out, struct err *e)
{
	if (ent->d_name[0] == '.' || !is_compared(ent->d_name))
		return 0;
	if (ent->d_type != DT_DIR)
		return state_read_file(dir, ent->d_name, out, e);
	auto_fd int sub = fs_open(dir, ent->d_name, O_RDONLY | O_DIRECTORY, 0, e);
	buf_fmt(out, "%s/\n", ent->d_name);
	return sub < 0 ? -1 : state_read_dir(sub, depth - 1, out, e);
}

static int state_read_dir(int dir, int depth, struct buf *out, struct err *e)
{
	int rc = 0, fd = depth ? fs_open(dir, ".", O_RDONLY | O_DIRECTORY, 0, e) : err_set(e, ERR_UNSUPPORTED, "/proc/net is too deep");
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	if (!d)
		return -1;
	while (!rc && (ent = readdir(d)))
		rc = state_read_entry(fd, ent, depth, out, e);
	closedir(d);
	return rc || out->overflow ? -1 : 0;
}

int net_state_open(struct net_state *s, struct err *e)
{
	*s = (struct net_state){.dir = fs_open(AT_FDCWD, "/proc/self/net", O_RDONLY | O_DIRECTORY, 0, e), .was = BUF_INIT(STATE_MAX)};
	return s->dir < 0 || state_read_dir(s->dir, DEPTH, &s->was, e) ? -1 : 0;
}

bool net_state_same(const struct net_state *s)
{
	auto_buf struct buf now = BUF_INIT(STATE_MAX);
	struct err e;
	return s->dir >= 0 && s->was.n && !state_read_dir(s->dir, DEPTH, &now, &e) && now.n == s->was.n &&
	       !memcmp(now.p, s->was.p, now.n);
}

void net_state_done(struct net_state *s)
{
	close_fd(&s->dir);
	buf_done(&s->was);
}
