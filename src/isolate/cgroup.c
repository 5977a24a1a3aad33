// SPDX-License-Identifier: Apache-2.0
// What both versions share: detection's first look, the life of a group, counting and killing.
#include "isolate/cgroup_int.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const char *const ctl_names[] = {"cpu", "memory", "pids", "freezer", "cpuacct"};
_Static_assert(countof(ctl_names) == CG_CTLS, "a name for each controller");

const char *cgroup_ctl_name(enum cgroup_ctl c)
{
	return ctl_names[c];
}

bool cgroup_has_word(const char *list, const char *word, const char *seps)
{
	size_t n = strlen(word);
	for (const char *p = list; *p; p += strspn(p, seps)) {
		size_t len = strcspn(p, seps);
		if (len == n && !memcmp(p, word, n))
			return true;
		p += len;
	}
	return false;
}

int cgroup_make_dir(int parent, const char *name)
{
	if (mkdirat(parent, name, 0755) && errno != EEXIST)
		return -1;
	auto_fd int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	// one that exists may be another user's
	if (fd < 0 || faccessat(fd, ".", W_OK, AT_EACCESS))
		return -1;
	return take_fd(&fd);
}

uint64_t cgroup_keyed(const char *text, const char *key)
{
	struct str rest = str_of(text), line;
	size_t n = strlen(key);
	uint64_t v = 0;
	while (str_next(&rest, '\n', &line))
		if (line.n > n + 1 && !memcmp(line.p, key, n) && line.p[n] == ' ')
			return str_to_u64((struct str){line.p + n + 1, line.n - n - 1}, 0, UINT64_MAX, &v) ? 0 : v;
	return 0;
}

bool cgroup_pause(uint64_t deadline_ms, unsigned *us)
{
	if (clock_ms() >= deadline_ms)
		return false;
	nanosleep(&(struct timespec){0, (long)*us * 1000}, NULL);
	*us = *us < 8000 ? *us * 2 : 8000;
	return true;
}

// "\040" and its like in mountinfo paths, undone in place.
static void unescape(char *s)
{
	char *to = s;
	for (; *s; s++)
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' && s[3] <= '7') {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 3;
		} else {
			*to++ = *s;
		}
	*to = 0;
}

// Cuts the next word off *s; "" when there is none.
static char *next_word(char **s)
{
	char *word = *s, *end = strchr(word, ' ');
	*s = end ? end + 1 : word + strlen(word);
	if (end)
		*end = 0;
	return word;
}

// "36 35 98:0 /root /point rw,opt [tags] - type source superopts". False for what is no cgroup mount.
static bool parse_mount(char *line, struct cgroup_mount *out)
{
	char *at = strstr(line, " - cgroup");
	if (!at)
		return false;
	*at = 0;
	char *tail = at + strlen(" - ");
	for (int skipped = 0; skipped < 3; skipped++)
		next_word(&line);
	out->root = next_word(&line);
	out->point = next_word(&line);
	out->type = next_word(&tail);
	next_word(&tail);
	out->opts = next_word(&tail);
	unescape(out->root);
	unescape(out->point);
	return out->root[0] == '/' && out->point[0] == '/';
}

static void look_at_mounts(struct cgroup_host *h, const char *mountinfo, const char *type, const char *self_cgroup)
{
	struct str rest = str_of(mountinfo), part;
	while (str_next(&rest, '\n', &part)) {
		auto_free char *line = xstrndup(part.p, part.n);
		struct cgroup_mount m;
		if (!parse_mount(line, &m) || strcmp(m.type, type))
			continue;
		if (!strcmp(type, "cgroup"))
			cgv1_detect(h, &m);
		else if (h->mode == CGROUP_NONE)
			cgv2_detect(h, &m, self_cgroup);
	}
}

void cgroup_detect_from(struct cgroup_host *out, const char *mountinfo, const char *self_cgroup)
{
	struct cgroup_host h = {.mode = CGROUP_NONE};
	for (int k = 0; k < CG_CTLS; k++)
		h.at[k] = h.dirs[k] = -1;
	// First the tree where all controllers are; it offers none of those that a version 1 hierarchy has.
	look_at_mounts(&h, mountinfo, "cgroup2", self_cgroup);
	if (h.mode == CGROUP_NONE)
		look_at_mounts(&h, mountinfo, "cgroup", self_cgroup);
	*out = h;
}

int cgroup_detect_of(pid_t pid, struct cgroup_host *out, struct err *e)
{
	auto_buf struct buf mounts = BUF_INIT(16u << 20), place = BUF_INIT(64u << 10);
	auto_free char *path = xasprintf("/proc/%d/cgroup", (int)pid);
	if (fs_read(AT_FDCWD, "/proc/self/mountinfo", &mounts, e) || fs_read(AT_FDCWD, path, &place, e))
		return -1;
	cgroup_detect_from(out, buf_cstr(&mounts), buf_cstr(&place));
	return 0;
}

int cgroup_detect(struct cgroup_host *out, struct err *e)
{
	return cgroup_detect_of(getpid(), out, e);
}

void cgroup_host_done(struct cgroup_host *h)
{
	for (int i = 0; i < h->n_dirs; i++)
		close_fd(&h->dirs[i]);
	mem_free_ptr(&h->path);
	h->n_dirs = 0;
	h->mode = CGROUP_NONE;
}

const char *cgroup_describe(const struct cgroup_host *h)
{
	if (h->mode == CGROUP_NONE || h->at[CG_CPU] < 0 || h->at[CG_MEMORY] < 0 || h->at[CG_PIDS] < 0)
		return "supervised";
	return h->mode == CGROUP_V1 ? "cgroup-v1" : "cgroup-v2";
}

bool cgroup_can_freeze(const struct cgroup_host *h)
{
	return h->mode != CGROUP_NONE && h->at[CG_FREEZER] >= 0;
}

int cgroup_dir(const struct cgroup *c, enum cgroup_ctl ctl)
{
	return c->host->at[ctl] < 0 ? -1 : c->dirs[c->host->at[ctl]];
}

int cgroup_open(const struct cgroup_host *h, const char *name, struct cgroup *out, struct err *e)
{
	struct cgroup c = {.host = h};
	if (h->mode == CGROUP_NONE)
		return err_set(e, ERR_UNSUPPORTED, "this host gives us no control group");
	if (!*name || *name == '.' || strchr(name, '/') || fmt_to(c.name, sizeof c.name, "%s", name))
		return err_set(e, ERR_INVALID, "bad group name %s", name);
	for (int i = 0; i < CG_CTLS; i++)
		c.dirs[i] = -1;
	for (int i = 0; i < CG_FILES; i++)
		c.files[i] = -1;
	for (int i = 0; i < h->n_dirs; i++) {
		c.dirs[i] = cgroup_make_dir(h->dirs[i], name);
		if (c.dirs[i] < 0) {
			err_sys(e, "make control group %s", name);
			cgroup_close(&c);
			return -1;
		}
	}
	*out = c;
	return 0;
}

void cgroup_close(struct cgroup *c)
{
	for (int i = 0; i < CG_CTLS; i++)
		close_fd(&c->dirs[i]);
	for (int i = 0; i < CG_FILES; i++)
		close_fd(&c->files[i]);
}

// A dying process holds its group a little longer than its pid.
int cgroup_close_remove(struct cgroup *c, struct err *e)
{
	uint64_t deadline = clock_ms() + CGROUP_WAIT_MS;
	unsigned us = 200;
	int rc = 0;
	cgroup_close(c);
	for (int i = 0; i < c->host->n_dirs; i++) {
		int r;
		while ((r = unlinkat(c->host->dirs[i], c->name, AT_REMOVEDIR)) && errno == EBUSY)
			if (!cgroup_pause(deadline, &us)) {
				errno = EBUSY;
				break;
			}
		if (r && errno != ENOENT)
			rc = err_sys(e, "remove control group %s", c->name);
	}
	return rc;
}

int cgroup_set_limits(struct cgroup *c, const struct limits *l, struct err *e)
{
	return c->host->mode == CGROUP_V1 ? cgv1_limits(c, l, e) : cgv2_limits(c, l, e);
}

int cgroup_attach(struct cgroup *c, pid_t pid, struct err *e)
{
	char text[16];
	if (fmt_to(text, sizeof text, "%d", (int)pid))
		return err_set(e, ERR_BUG, "pid text");
	for (int i = 0; i < c->host->n_dirs; i++)
		if (fs_put(c->dirs[i], "cgroup.procs", text, e))
			return err_wrap(e, "control group %s", c->name);
	return 0;
}

int cgroup_freeze(struct cgroup *c, bool on, struct err *e)
{
	return c->host->mode == CGROUP_V1 ? cgv1_freeze(c, on, e) : cgv2_freeze(c, on, e);
}

ssize_t cgroup_pids(int dir, pid_t **out, struct err *e)
{
	auto_buf struct buf text = BUF_INIT(1u << 20);
	pid_t *pids = NULL;
	ssize_t n = 0;
	if (fs_read(dir, "cgroup.procs", &text, e))
		return -1;
	struct str rest = str_of(buf_cstr(&text)), line;
	while (str_next(&rest, '\n', &line)) {
		uint64_t v;
		if (str_to_u64(line, 1, INT32_MAX, &v)) // 0: a process our pid namespace does not see
			continue;
		pids = xrealloc(pids, (size_t)(n + 1) * sizeof *pids);
		pids[n++] = (pid_t)v;
	}
	*out = pids;
	return n;
}

// The pidfd is opened before the second look at the list: a number given away meanwhile is then not hit.
static void kill_member(int dir, pid_t pid)
{
	auto_fd int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	auto_free pid_t *now = NULL;
	struct err e;
	ssize_t n = fd < 0 ? 0 : cgroup_pids(dir, &now, &e);
	for (ssize_t i = 0; i < n; i++)
		if (now[i] == pid)
			syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
}

// Frozen processes can not fork, so one pass gets them all; the signal takes effect with the thaw.
static ssize_t kill_pass(struct cgroup *c, struct err *e)
{
	auto_free pid_t *pids = NULL;
	struct err ignored;
	bool frozen = cgroup_can_freeze(c->host) && !cgroup_freeze(c, true, &ignored);
	ssize_t n = cgroup_pids(c->dirs[0], &pids, e);
	for (ssize_t i = 0; i < n; i++)
		kill_member(c->dirs[0], pids[i]);
	return frozen && cgroup_freeze(c, false, e) ? -1 : n;
}

int cgroup_members(struct cgroup *c, uint32_t *out, struct err *e)
{
	auto_free pid_t *pids = NULL;
	ssize_t n = cgroup_pids(c->dirs[0], &pids, e);
	if (n < 0)
		return -1;
	*out = (uint32_t)n;
	return 0;
}

int cgroup_kill(struct cgroup *c, struct err *e)
{
	uint64_t deadline = clock_ms() + CGROUP_WAIT_MS;
	unsigned us = 500;
	bool at_once = fs_exists(c->dirs[0], "cgroup.kill"); // version 2, from Linux 5.14
	do {
		auto_free pid_t *pids = NULL;
		if (at_once && fs_put(c->dirs[0], "cgroup.kill", "1", e))
			return -1;
		ssize_t n = at_once ? cgroup_pids(c->dirs[0], &pids, e) : kill_pass(c, e);
		if (n <= 0)
			return (int)n;
	} while (cgroup_pause(deadline, &us));
	return err_set(e, ERR_TIMEOUT, "processes of group %s do not die", c->name);
}

static const struct {
	enum cgroup_ctl ctl;
	const char *v1, *v2;
} count_files[] = {
	[CG_F_MEMORY] = {CG_MEMORY, "memory.usage_in_bytes", "memory.current"},
	[CG_F_PIDS] = {CG_PIDS, "pids.current", "pids.current"},
	[CG_F_CPU] = {CG_CPUACCT, "cpuacct.usage", "cpu.stat"},
	[CG_F_OOM] = {CG_MEMORY, "memory.oom_control", "memory.events"},
	[CG_F_PIDS_HIT] = {CG_PIDS, "pids.events", "pids.events"},
};
_Static_assert(countof(count_files) == CG_FILES, "a row for each file");

// The value of one file: behind key, or the whole of it when key is NULL.
static int count(struct cgroup *c, enum cgroup_file f, const char *key, uint64_t *out, struct err *e)
{
	bool v1 = c->host->mode == CGROUP_V1;
	const char *name = v1 ? count_files[f].v1 : count_files[f].v2;
	int dir = cgroup_dir(c, count_files[f].ctl);
	char text[1024];
	*out = 0;
	if (dir < 0)
		return 0;
	if (c->files[f] < 0)
		c->files[f] = fs_open(dir, name, O_RDONLY, 0, e);
	if (c->files[f] < 0)
		return -1;
	ssize_t n = pread(c->files[f], text, sizeof text - 1, 0);
	if (n < 0)
		return err_sys(e, "read %s", name);
	text[n] = 0;
	if (key)
		*out = cgroup_keyed(text, key);
	else if (str_to_u64((struct str){text, strcspn(text, "\n")}, 0, UINT64_MAX, out))
		return err_set(e, ERR_SYSTEM, "unexpected content of %s", name);
	return 0;
}

int cgroup_hits(struct cgroup *c, struct cgroup_usage *out, struct err *e)
{
	struct cgroup_usage u = {0};
	if (count(c, CG_F_OOM, "oom_kill", &u.oom_kills, e) || count(c, CG_F_PIDS_HIT, "max", &u.pids_hits, e))
		return -1;
	*out = u;
	return 0;
}

int cgroup_usage(struct cgroup *c, struct cgroup_usage *out, struct err *e)
{
	struct cgroup_usage u;
	bool v1 = c->host->mode == CGROUP_V1;
	if (cgroup_hits(c, &u, e) || count(c, CG_F_MEMORY, NULL, &u.memory, e) || count(c, CG_F_PIDS, NULL, &u.pids, e) ||
	    count(c, CG_F_CPU, v1 ? NULL : "usage_usec", &u.cpu_us, e))
		return -1;
	if (v1)
		u.cpu_us /= 1000; // nanoseconds there
	*out = u;
	return 0;
}

static void sweep_one(const struct cgroup_host *h, const char *name)
{
	struct cgroup c;
	struct err e;
	if (cgroup_open(h, name, &c, &e))
		return;
	// what can not be ended now is found again by the next sweep
	if (!cgroup_kill(&c, &e))
		(void)!cgroup_close_remove(&c, &e);
	else
		cgroup_close(&c);
}

void cgroup_sweep(const struct cgroup_host *h, bool (*is_live)(const char *name, void *arg), void *arg)
{
	for (int i = 0; i < h->n_dirs; i++) {
		int fd = openat(h->dirs[i], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		DIR *d = fd < 0 ? NULL : fdopendir(fd);
		if (!d) {
			close_fd(&fd);
			continue;
		}
		for (struct dirent *de; (de = readdir(d));)
			if (de->d_type == DT_DIR && de->d_name[0] != '.' && !is_live(de->d_name, arg))
				sweep_one(h, de->d_name);
		closedir(d);
	}
}
