// SPDX-License-Identifier: Apache-2.0
#include "isolate/seccomp.h"

#include "base/mem.h"
#include "seccomp_filter.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif
#define SYNC_WAKE_UP 1UL // SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP, Linux 6.6

#define PAGE 4096u  // the smallest there is: a read never spans two pages of the other side
#define BATCH 32    // strings fetched with one call
#define PIECE 128u  // first bytes of each
#define MAX_ARGS 1024u
#define FIRST_PTRS 64u // most argv fit the first look

static size_t variant(const struct seccomp_opts *o)
{
	return (size_t)o->root | (size_t)o->trace << 1 | (size_t)o->nested << 2 | (size_t)o->owns << 3;
}

unsigned seccomp_allowed_count(const struct seccomp_opts *o)
{
	return seccomp_variants[variant(o)].allowed;
}

void seccomp_program(const struct seccomp_opts *o, struct sock_fprog *out)
{
	size_t v = variant(o);
	// the kernel's struct has no const; it only reads
	*out = (struct sock_fprog){seccomp_variants[v].n, (struct sock_filter *)(uintptr_t)seccomp_variants[v].p};
}

int seccomp_load(const struct seccomp_opts *o, int *out_listener, struct err *e)
{
	struct sock_fprog prog;
	seccomp_program(o, &prog);
	unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
	// Without WAIT_KILLABLE_RECV (Linux 5.19) a signal that arrives between report and answer restarts the
	// call and reports it twice; nothing is lost, so an older kernel is good enough.
	int fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &prog);
	if (fd < 0 && errno == EINVAL)
		fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);
	if (fd < 0)
		return err_sys(e, "load the system call filter");
	*out_listener = fd;
	return 0;
}

void seccomp_print_plan(struct buf *b)
{
	for (size_t v = 0; v < countof(seccomp_variants) / 2; v++) // the others let the same calls through
		buf_fmt(b, "seccomp %s%s%s: %u system calls, %u instructions\n", v & 1 ? "root" : "default",
			v & 2 ? "" : ", trace off", v & 4 ? ", nested" : "", seccomp_variants[v].allowed,
			seccomp_variants[v].n);
	for (size_t i = 0; i < countof(seccomp_lists); i++)
		buf_fmt(b, "  %s: %s\n", seccomp_lists[i].what, seccomp_lists[i].names);
}

static bool is_exec(int nr)
{
	return nr == SYS_execve || nr == SYS_execveat;
}

bool seccomp_is_rename(const struct seccomp_event *ev)
{
#ifdef SYS_rename
	if (ev->nr == SYS_rename)
		return true;
#endif
#ifdef SYS_renameat
	if (ev->nr == SYS_renameat)
		return true;
#endif
	return ev->nr == SYS_renameat2;
}

bool seccomp_is_listen(const struct seccomp_event *ev)
{
	return ev->nr == SYS_listen;
}

bool seccomp_is_owning(const struct seccomp_event *ev)
{
	for (size_t i = 0; i < countof(seccomp_owned); i++)
		if (seccomp_owned[i] == ev->nr)
			return true;
	return false;
}

static bool goes_on(const struct seccomp_event *ev)
{
	return is_exec(ev->nr) || seccomp_is_rename(ev) || seccomp_is_listen(ev) || seccomp_is_owning(ev);
}

// What a kernel without them says: callers then go on without (useradd without the audit socket).
static int socket_error(const struct seccomp_event *ev)
{
	return ev->nr == SYS_socket && (int)ev->args[0] == AF_NETLINK ? EPROTONOSUPPORT : EAFNOSUPPORT;
}

// As where no huge page is left. Flags that no kernel knows are EINVAL first: Chromium tries all of them to learn what there is.
static int hugepage_error(const struct seccomp_event *ev)
{
	const uint64_t known = MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB | 0x18 | (63u << 26); // 0x18: NOEXEC_SEAL, EXEC
	return ev->nr == SYS_memfd_create && ((uint32_t)ev->args[1] & ~known) ? EINVAL : ENOMEM;
}

// By the kernel's copy of the number and of integer arguments; nothing behind a pointer.
static void judge(struct seccomp_event *ev)
{
	if (goes_on(ev))
		return;
	ev->error = EPERM;
	ev->name = "unknown";
	for (size_t i = 0; i < countof(seccomp_refusals); i++)
		if (seccomp_refusals[i].nr == ev->nr) {
			ev->error = seccomp_refusals[i].error;
			ev->name = seccomp_refusals[i].name;
		}
	if (ev->nr == SYS_socket || ev->nr == SYS_socketpair)
		ev->error = socket_error(ev);
	if (ev->nr == SYS_setsockopt)
		ev->error = ENOPROTOOPT;
	if (ev->nr == SYS_mmap || ev->nr == SYS_memfd_create)
		ev->error = hugepage_error(ev);
}

// Only a wish: without it every wake-up may go to another, sleeping processor.
void seccomp_listen(int listener)
{
	(void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP);
}

int seccomp_recv(int listener, struct seccomp_event *out, struct err *e)
{
	struct seccomp_notif n = {0};
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &n))
		return errno == ENOENT || errno == EINTR ? 1 : err_sys(e, "receive a system call report");
	*out = (struct seccomp_event){.id = n.id, .pid = (pid_t)n.pid, .nr = n.data.nr};
	memcpy(out->args, n.data.args, sizeof out->args);
	judge(out);
	return 0;
}

int seccomp_answer(int listener, const struct seccomp_event *ev, struct err *e)
{
	struct seccomp_notif_resp r = {.id = ev->id};
	if (goes_on(ev))
		r.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	else
		r.error = ev->error ? -ev->error : -EPERM;
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &r) && errno != ENOENT)
		return err_sys(e, "answer a system call report");
	return 0;
}

bool seccomp_is_waiting(int listener, const struct seccomp_event *ev)
{
	uint64_t id = ev->id;
	return !ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id);
}

static size_t to_page_end(uint64_t addr, size_t max)
{
	size_t left = PAGE - (size_t)(addr & (PAGE - 1));
	return left < max ? left : max;
}

static struct iovec remote(uint64_t addr, size_t n)
{
	return (struct iovec){(void *)(uintptr_t)addr, n};
}

// Up to n bytes at addr; fewer when a page behind it is not there. -1 when there is nothing at all.
static ssize_t peek(pid_t pid, uint64_t addr, void *to, size_t n)
{
	struct iovec local = {to, n}, from[4];
	size_t pieces = 0;
	for (size_t done = 0; done < n && pieces < countof(from); pieces++) {
		from[pieces] = remote(addr + done, to_page_end(addr + done, n - done));
		done += from[pieces].iov_len;
	}
	return process_vm_readv(pid, &local, 1, from, pieces, 0);
}

// Appends the C string at addr, at most max bytes of it. 1 when cut.
static int peek_str(pid_t pid, uint64_t addr, size_t max, struct buf *out)
{
	char page[PAGE];
	while (max) {
		ssize_t n = peek(pid, addr, page, to_page_end(addr, max));
		if (n <= 0)
			return -1;
		size_t len = strnlen(page, (size_t)n);
		buf_add(out, page, len);
		if (len < (size_t)n)
			return 0;
		addr += len;
		max -= len;
	}
	return 1;
}

// What most calls need, with one look: the path's first piece and the first pointers of argv.
struct head {
	char path[PIECE];
	uint64_t ptrs[MAX_ARGS];
	size_t path_len, n_ptrs; // that came
};

static void peek_head(pid_t pid, uint64_t path, uint64_t argv, struct head *h)
{
	size_t n = to_page_end(path, PIECE), m = argv ? to_page_end(argv, FIRST_PTRS * 8) : 0;
	struct iovec local[] = {{h->path, n}, {h->ptrs, m}}, from[] = {remote(path, n), remote(argv, m)};
	ssize_t got = process_vm_readv(pid, local, m ? 2 : 1, from, m ? 2 : 1, 0);
	size_t came = got > 0 ? (size_t)got : 0;
	h->path_len = came < n ? came : n;
	h->n_ptrs = (came - h->path_len) / 8;
}

// The pointers of argv up to its NULL. Their count, or -1.
static ssize_t peek_ptrs(pid_t pid, uint64_t addr, struct head *h)
{
	for (size_t seen = 0;;) {
		for (; seen < h->n_ptrs; seen++)
			if (!h->ptrs[seen])
				return (ssize_t)seen;
		if (seen == MAX_ARGS)
			return MAX_ARGS;
		size_t want = MAX_ARGS - seen < FIRST_PTRS ? MAX_ARGS - seen : FIRST_PTRS;
		ssize_t n = peek(pid, addr + seen * 8, h->ptrs + seen, want * 8);
		if (n < 8)
			return -1;
		h->n_ptrs = seen + (size_t)n / 8;
	}
}

struct batch {
	char text[BATCH][PIECE];
	size_t len[BATCH]; // bytes that came
};

static void peek_batch(pid_t pid, const uint64_t *ptrs, size_t n, struct batch *b)
{
	struct iovec local[BATCH], from[BATCH];
	for (size_t i = 0; i < n; i++) {
		b->len[i] = to_page_end(ptrs[i], PIECE);
		local[i] = (struct iovec){b->text[i], b->len[i]};
		from[i] = remote(ptrs[i], b->len[i]);
	}
	ssize_t got = process_vm_readv(pid, local, n, from, n, 0);
	size_t left = got > 0 ? (size_t)got : 0;
	for (size_t i = 0; i < n; i++) {
		b->len[i] = b->len[i] < left ? b->len[i] : left;
		left -= b->len[i];
	}
}

// A string whose first piece is here; the rest is fetched where the piece has no end. 1 when cut at max.
static int whole_str(pid_t pid, uint64_t addr, const char *piece, size_t len, size_t max, struct buf *out)
{
	size_t n = strnlen(piece, len < max ? len : max);
	buf_add(out, piece, n);
	if (n == len)
		return peek_str(pid, addr + n, max - n, out);
	return n == max && piece[n];
}

static int add_arg(pid_t pid, uint64_t addr, const char *piece, size_t len, size_t *left, char ***argv)
{
	auto_buf struct buf s = BUF_INIT(*left + 1);
	int cut = whole_str(pid, addr, piece, len, *left, &s);
	if (cut < 0)
		return -1;
	strv_add(argv, buf_cstr(&s));
	*left -= s.n < *left ? s.n : *left;
	return cut;
}

static int read_args(pid_t pid, uint64_t addr, struct head *h, size_t max, char ***argv)
{
	ssize_t n = addr ? peek_ptrs(pid, addr, h) : 0;
	for (ssize_t i = 0; i < n; i += BATCH) {
		struct batch b;
		size_t count = n - i < BATCH ? (size_t)(n - i) : BATCH;
		peek_batch(pid, h->ptrs + i, count, &b);
		for (size_t j = 0; j < count; j++) {
			int rc = max ? add_arg(pid, h->ptrs[i + (ssize_t)j], b.text[j], b.len[j], &max, argv) : 1;
			if (rc)
				return rc;
		}
	}
	return n < 0 ? -1 : n == MAX_ARGS;
}

int seccomp_read_argv(int listener, const struct seccomp_event *ev, size_t max, struct buf *out_path, char ***out_argv,
		      struct err *e)
{
	const uint64_t *args = ev->args + (ev->nr == SYS_execveat ? 1 : 0);
	char **argv = xcalloc(1, sizeof *argv);
	struct head h;
	errno = EFAULT;
	peek_head(ev->pid, args[0], args[1], &h);
	int rc = h.path_len ? whole_str(ev->pid, args[0], h.path, h.path_len, max, out_path) : -1;
	if (rc >= 0)
		rc = read_args(ev->pid, args[1], &h, max, &argv);
	if (rc < 0)
		err_sys(e, "read the arguments of process %d", (int)ev->pid);
	else if (!seccomp_is_waiting(listener, ev))
		rc = err_set(e, ERR_NOT_FOUND, "process %d is gone", (int)ev->pid);
	if (rc < 0) {
		strv_free(argv);
		return -1;
	}
	*out_argv = argv;
	return rc;
}

int seccomp_read_str(const struct seccomp_event *ev, int arg, size_t max, struct buf *out)
{
	return ev->args[arg] ? peek_str(ev->pid, ev->args[arg], max, out) : -1;
}

int seccomp_read_u64(const struct seccomp_event *ev, int arg, uint64_t *out)
{
	return ev->args[arg] && peek(ev->pid, ev->args[arg], out, sizeof *out) == sizeof *out ? 0 : -1;
}
