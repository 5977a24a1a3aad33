// SPDX-License-Identifier: Apache-2.0
// A process belongs to the exec whose first process leads its group or session, or those of one of its ancestors. That
// is the kernel's word. One that has left all of these (a daemon) still has the mark in its environment, unless it
// removed it; and where only one exec runs, it is that one's.
#include "cell/who.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "cell/cell_int.h"
#include <fcntl.h>
#include <string.h>

#define ANCESTORS 32

struct facts {
	char name[64];
	uint64_t parent;	      // outside
	uint64_t pid, group, session; // inside
};

static int read_proc(pid_t pid, const char *file, struct buf *out)
{
	char path[64];
	struct err e;
	if (fmt_to(path, sizeof path, "/proc/%d/%s", (int)pid, file))
		return -1;
	return fs_read(AT_FDCWD, path, out, &e) && !out->n ? -1 : 0; // what came before a limit is good
}

// The column'th number of a line "key:\tN\tN". The first is ours, the second the cell's; a namespace in it adds more.
static uint64_t number(struct str value, int column)
{
	struct str part;
	uint64_t v = 0;
	for (int i = 0; str_next(&value, '\t', &part); i++)
		if (i == column)
			return str_to_u64(part, 0, INT32_MAX, &v) ? 0 : v;
	return 0;
}

static int read_facts(pid_t pid, struct facts *f)
{
	auto_buf struct buf b = BUF_INIT(8192);
	struct str rest, line, key;
	*f = (struct facts){0};
	if (read_proc(pid, "status", &b))
		return -1;
	rest = str_of(buf_cstr(&b));
	while (str_next(&rest, '\n', &line)) {
		if (!str_next(&line, ':', &key))
			continue;
		struct str value = {line.p + (line.n > 0), line.n - (line.n > 0)};
		if (str_is(key, "Name") && fmt_to(f->name, sizeof f->name, "%.*s", (int)value.n, value.p))
			f->name[sizeof f->name - 1] = 0;
		else if (str_is(key, "PPid"))
			f->parent = number(value, 0);
		else if (str_is(key, "NStgid"))
			f->pid = number(value, 1);
		else if (str_is(key, "NSpgid"))
			f->group = number(value, 1);
		else if (str_is(key, "NSsid"))
			f->session = number(value, 1);
	}
	return 0;
}

// A number may have been used by an earlier exec: one that runs comes first, then the newest.
static const struct sx *led_by(const struct cell *c, const struct facts *f)
{
	const struct sx *old = NULL;
	for (const struct sx *x = c->execs; x; x = x->next) {
		if (!x->pid || (x->pid != f->pid && x->pid != f->group && x->pid != f->session))
			continue;
		if (!x->ended)
			return x;
		old = old ? old : x;
	}
	return old;
}

static const struct sx *by_ancestors(struct cell *c, struct facts f)
{
	for (int i = 0; i < ANCESTORS; i++) {
		const struct sx *x = led_by(c, &f);
		pid_t parent = (pid_t)f.parent;
		if (x || parent <= 1 || parent == c->init_pid || read_facts(parent, &f))
			return x;
	}
	return NULL;
}

static const struct sx *by_mark(struct cell *c, pid_t pid)
{
	static const char mark[] = "SKEP_EXEC=";
	auto_buf struct buf b = BUF_INIT(256 << 10);
	if (read_proc(pid, "environ", &b))
		return NULL;
	for (size_t at = 0; at < b.n; at += strlen(b.p + at) + 1)
		if (str_has_prefix(b.p + at, mark))
			return sx_find(c, b.p + at + sizeof mark - 1);
	return NULL;
}

void who_find(struct cell *c, pid_t pid, struct who *out)
{
	struct facts f;
	auto_buf struct buf cmdline = BUF_INIT(sizeof out->command - 1);
	*out = (struct who){0};
	if (read_facts(pid, &f))
		return;
	out->pid = (uint32_t)f.pid;
	memcpy(out->name, f.name, sizeof out->name);
	if (!read_proc(pid, "cmdline", &cmdline))
		memcpy(out->command, cmdline.p, strnlen(cmdline.p, sizeof out->command - 1));
	const struct sx *x = by_ancestors(c, f);
	x = x ? x : by_mark(c, pid);
	x = x ? x : sx_only(c);
	if (x)
		memcpy(out->exec, x->spec.id, sizeof out->exec);
}
