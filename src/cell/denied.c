// SPDX-License-Identifier: Apache-2.0
// Refused system calls come as fast as the workload likes. Each is answered at once; what is said about it is bounded:
// so many a second in full, the rest as numbers.
#include "cell/denied.h"

#include "base/clock.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "base/mem.h"
#include "cell/cell_int.h"
#include "cell/who.h"
#include <errno.h>
#include <string.h>

#define NUMBERS 512 // of system calls, as tools/gen-seccomp knows them
#define STRING_MAX 256u
#define SAY_MS 1000

static struct {
	struct cell *cell; // one process, one cell
	uint64_t second_ms;
	uint32_t said;		 // in this second
	uint64_t more;		 // refused and not said
	uint32_t calls[NUMBERS]; // the same, by number
	const char *names[NUMBERS];
	struct timer say;
} self;

// What is worth saying of a call's arguments. S: the string it points to, F: flags, I: a plain number.
static const struct {
	const char *name;
	struct {
		char kind;
		int arg;
		const char *key;
	} args[4];
} shown[] = {
	{"add_key", {{'S', 0, "type"}, {'S', 1, "description"}}},
	{"bpf", {{'I', 0, "command"}}},
	{"chroot", {{'S', 0, "path"}}},
	{"clone", {{'F', 0, "flags"}}},
	{"fsopen", {{'S', 0, "type"}}},
	{"ioctl", {{'F', 1, "request"}}},
	{"ioprio_set", {{'I', 0, "which"}, {'I', 1, "who"}}},
	{"keyctl", {{'I', 0, "operation"}}},
	{"mmap", {{'F', 3, "flags"}}},
	{"mount", {{'S', 0, "source"}, {'S', 1, "target"}, {'S', 2, "type"}, {'F', 3, "flags"}}},
	{"move_mount", {{'S', 1, "from"}, {'S', 3, "to"}}},
	{"open_tree", {{'S', 1, "path"}}},
	{"personality", {{'F', 0, "persona"}}},
	{"pivot_root", {{'S', 0, "new"}, {'S', 1, "old"}}},
	{"prlimit64", {{'I', 0, "pid"}, {'I', 1, "resource"}}},
	{"ptrace", {{'I', 0, "request"}, {'I', 1, "pid"}}},
	{"setns", {{'F', 1, "type"}}},
	{"setsockopt", {{'I', 1, "level"}, {'I', 2, "option"}}},
	{"setpriority", {{'I', 0, "which"}, {'I', 1, "who"}}},
	{"socket", {{'I', 0, "family"}, {'I', 1, "type"}, {'I', 2, "protocol"}}},
	{"socketpair", {{'I', 0, "family"}, {'I', 1, "type"}, {'I', 2, "protocol"}}},
	{"umount2", {{'S', 0, "target"}, {'F', 1, "flags"}}},
	{"unshare", {{'F', 0, "flags"}}},
};

static const char *error_name(int error)
{
	static const struct {
		int error;
		const char *name;
	} names[] = {{EPERM, "EPERM"}, {ENOSYS, "ENOSYS"}, {EAFNOSUPPORT, "EAFNOSUPPORT"}, {ENOPROTOOPT, "ENOPROTOOPT"}, {ENOMEM, "ENOMEM"}};
	for (size_t i = 0; i < countof(names); i++)
		if (names[i].error == error)
			return names[i].name;
	return "EPROTONOSUPPORT";
}

static void show_arg(struct jsonw *w, const struct seccomp_event *ev, char kind, int arg, const char *key)
{
	auto_buf struct buf s = BUF_INIT(STRING_MAX + 16);
	if (kind == 'I') {
		jw_ki64(w, key, (int32_t)ev->args[arg]);
		return;
	}
	if (kind == 'F')
		buf_fmt(&s, "0x%llx", (unsigned long long)ev->args[arg]);
	else if (seccomp_read_str(ev, arg, STRING_MAX, &s) < 0)
		return;
	jw_kbytes(w, key, buf_cstr(&s), s.n);
}

static void show_args(struct jsonw *w, const struct seccomp_event *ev)
{
	for (size_t i = 0; i < countof(shown); i++) {
		if (strcmp(shown[i].name, ev->name))
			continue;
		jw_key(w, "args");
		jw_open(w, '{');
		for (size_t k = 0; k < countof(shown[i].args) && shown[i].args[k].key; k++)
			show_arg(w, ev, shown[i].args[k].kind, shown[i].args[k].arg, shown[i].args[k].key);
		jw_close(w, '}');
	}
}

static void show_who(struct jsonw *w, struct cell *c, pid_t pid)
{
	struct who who;
	who_find(c, pid, &who);
	if (who.pid)
		jw_ku64(w, "pid", who.pid);
	if (*who.name)
		jw_kstr(w, "program", who.name);
	if (*who.command)
		jw_kstr(w, "command", who.command);
	if (*who.exec)
		jw_kstr(w, "exec", who.exec);
}

static void head(struct jsonw *w, const char *what, const char *rule)
{
	jw_kstr(w, "what", what);
	jw_kstr(w, "rule", rule);
}

static void describe(struct cell *c, int listener, const struct seccomp_event *ev, struct buf *b)
{
	auto_buf struct buf seen = BUF_INIT(16 << 10);
	struct jsonw w = {.b = b}, more = {.b = &seen, .comma = true};
	head(&w, "syscall", "seccomp");
	jw_kstr(&w, "name", ev->name);
	jw_kstr(&w, "errno", error_name(ev->error));
	show_args(&more, ev);
	show_who(&more, c, ev->pid);
	if (!seen.overflow && seccomp_is_waiting(listener, ev)) // else it was perhaps another process that we saw
		buf_str(b, buf_cstr(&seen));
}

// --- how much of it ---

void denied_flush(struct cell *c)
{
	auto_buf struct buf b = BUF_INIT(16 << 10);
	struct jsonw w = {.b = &b};
	timer_clear(&c->loop, &self.say);
	if (!self.more)
		return;
	head(&w, "syscall", "seccomp");
	jw_ku64(&w, "count", self.more);
	jw_key(&w, "calls");
	jw_open(&w, '{');
	for (size_t i = 0; i < NUMBERS; i++)
		if (self.calls[i])
			jw_ku64(&w, self.names[i], self.calls[i]);
	jw_close(&w, '}');
	self.more = 0;
	memset(self.calls, 0, sizeof self.calls);
	record(c, "denied", "workload", &b, false);
}

static void on_say(struct timer *t)
{
	(void)t;
	denied_flush(self.cell);
}

static void count(struct cell *c, const struct seccomp_event *ev)
{
	size_t i = (size_t)ev->nr % NUMBERS;
	self.more++;
	self.calls[i] += self.calls[i] < UINT32_MAX;
	self.names[i] = ev->name;
	self.say.fn = on_say;
	if (!self.say.at_ms)
		timer_set(&c->loop, &self.say, SAY_MS);
}

static bool may_say(void)
{
	uint64_t now = clock_ms();
	if (now - self.second_ms >= SAY_MS) {
		self.second_ms = now;
		self.said = 0;
	}
	return self.said < DENIED_RATE && ++self.said;
}

void denied_call(struct cell *c, int listener, const struct seccomp_event *ev)
{
	auto_buf struct buf b = BUF_INIT(32 << 10);
	struct err e;
	bool say = may_say();
	self.cell = c;
	if (say)
		describe(c, listener, ev, &b);
	if (seccomp_answer(listener, ev, &e))
		log_line(LOG_WARN, "sandbox=%s %s", c->spec.sandbox, e.msg);
	if (say)
		record(c, "denied", "workload", &b, false);
	else
		count(c, ev);
}

// --- what else is refused here ---

void denied_exec(const struct sx *x, const struct err *e)
{
	auto_buf struct buf b = BUF_INIT(4096);
	struct jsonw w = {.b = &b};
	head(&w, "exec", "user");
	jw_kstr(&w, "user", x->spec.user);
	jw_kstr(&w, "exec", x->spec.id);
	jw_kstr(&w, "why", e->msg);
	record(x->cell, "denied", "skep-cell", &b, false);
}

void denied_start(struct cell *c, const struct err *e)
{
	auto_buf struct buf b = BUF_INIT(4096);
	struct jsonw w = {.b = &b};
	head(&w, "start", "min_isolation");
	jw_kstr(&w, "why", e->msg);
	record(c, "denied", "skep-cell", &b, false);
}

void denied_connect(struct cell *c, const char *why)
{
	auto_buf struct buf b = BUF_INIT(4096);
	struct jsonw w = {.b = &b};
	head(&w, "connect", "ticket");
	jw_kstr(&w, "why", why);
	record(c, "denied", "skep-cell", &b, false);
}
