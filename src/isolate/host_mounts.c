// SPDX-License-Identifier: Apache-2.0
#include "isolate/host_mounts.h"

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "isolate/mounts.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PAUSE_MS 500 // between a change and the look, and so between two looks
#define TABLE_MAX (64u << 20)

// One line of mountinfo: id parent device root point options...
struct mounted {
	struct str device, root, point;
};

static bool next_mounted(struct str *rest, struct mounted *out)
{
	struct str line, word[5];
	while (str_next(rest, '\n', &line)) {
		int n = 0;
		while (n < 5 && str_next(&line, ' ', &word[n]))
			n++;
		if (n == 5) {
			*out = (struct mounted){word[2], word[3], word[4]};
			return true;
		}
	}
	return false;
}

static bool same_str(struct str a, struct str b)
{
	return a.n == b.n && !memcmp(a.p, b.p, a.n);
}

static bool is_mounted(const char *table, const struct mounted *m)
{
	struct str rest = str_of(table);
	for (struct mounted other; next_mounted(&rest, &other);)
		if (same_str(other.point, m->point) && same_str(other.device, m->device) && same_str(other.root, m->root))
			return true;
	return false;
}

// Octal: \040 is a blank.
static char *point_path(struct str point)
{
	auto_buf struct buf b = BUF_INIT(8192);
	for (size_t i = 0; i < point.n; i++) {
		if (point.p[i] == '\\' && i + 3 < point.n) {
			buf_byte(&b, (char)((point.p[i + 1] - '0') << 6 | (point.p[i + 2] - '0') << 3 | (point.p[i + 3] - '0')));
			i += 3;
		} else {
			buf_byte(&b, point.p[i]);
		}
	}
	return xstrdup(buf_cstr(&b));
}

static bool is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);
	return !strncmp(path, dir, n) && (!path[n] || path[n] == '/');
}

// A line later in the table is mounted over an earlier one at the same place: only the last can be taken away.
static bool is_covered(struct str rest, struct str point)
{
	for (struct mounted other; next_mounted(&rest, &other);)
		if (same_str(other.point, point))
			return true;
	return false;
}

// 1: something was taken away, and what it covered may have to go next.
static int host_mounts_drop(struct host_mounts *h, const char *host)
{
	auto_buf struct buf own = BUF_INIT(TABLE_MAX);
	struct err e;
	if (fs_read(AT_FDCWD, "/proc/self/mountinfo", &own, &e))
		return 0;
	struct str rest = str_of(buf_cstr(&own));
	for (struct mounted m; next_mounted(&rest, &m);) {
		auto_free char *path = point_path(m.point);
		if (is_below(path, h->except) || is_mounted(host, &m) || is_covered(rest, m.point))
			continue;
		if (!mount_detach(path, &e))
			return 1;
		log_line(LOG_DEBUG, "%s", e.msg);
	}
	return 0;
}

static void on_host_mounts_wait(struct timer *t)
{
	struct host_mounts *h = container_of(t, struct host_mounts, wait);
	auto_buf struct buf host = BUF_INIT(TABLE_MAX);
	struct err e;
	if (lseek(h->table.fd, 0, SEEK_SET) || fs_read_fd(h->table.fd, &host, &e) || !host.n)
		return;
	while (host_mounts_drop(h, buf_cstr(&host)))
		;
}

static void on_host_mounts_change(struct watch *w, uint32_t events)
{
	struct host_mounts *h = container_of(w, struct host_mounts, table);
	(void)events;
	if (!h->wait.at_ms)
		timer_set(h->loop, &h->wait, PAUSE_MS);
}

int host_mounts_open(void)
{
	return geteuid() ? -1 : open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
}

// The kernel says a change of the table as an error of its descriptor, which is always waited for.
void host_mounts_watch(struct host_mounts *h, struct loop *loop, int table, const char *except)
{
	struct err e;
	*h = (struct host_mounts){.loop = loop, .table = {.fd = -1, .fn = on_host_mounts_change}, .wait.fn = on_host_mounts_wait, .except = except};
	if (table >= 0 && loop_add(loop, &h->table, table, 0, &e))
		log_line(LOG_WARN, "the host's mounts: %s", e.msg);
}
