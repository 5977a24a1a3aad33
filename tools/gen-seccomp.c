// SPDX-License-Identifier: Apache-2.0
// Turns src/isolate/syscalls.def into the seccomp programs of a cell (C arrays on stdout), or with --list
// into the section of docs/syscalls.md for this architecture. Runs at build time.
//
// The numbers of all system calls are cut into ranges with one action each, and a binary search over the range
// starts finds the action: few instructions to load, seven comparisons to run. One program for each of the sixteen
// combinations of root, trace, nested and owns; nothing is patched at run time.
//
// -DGEN_AARCH64 builds the aarch64 tables on another machine, from the generic numbers that it uses.
#include "model/move_pass.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef GEN_AARCH64
#define __ARCH_WANT_RENAMEAT
#define __ARCH_WANT_NEW_STAT
#define __ARCH_WANT_SET_GET_RLIMIT
#define __ARCH_WANT_TIME32_SYSCALLS
#define __ARCH_WANT_SYS_CLONE3
#define __ARCH_WANT_MEMFD_SECRET
#include <asm-generic/unistd.h>
#else
#include <sys/syscall.h>
#endif

#if defined GEN_AARCH64 || defined __aarch64__
#define ARCH_NAME "aarch64"
#define ARCH AUDIT_ARCH_AARCH64
#elif defined __x86_64__ && !defined __ILP32__
#define ARCH_NAME "x86_64"
#define ARCH AUDIT_ARCH_X86_64
#define HAS_X32
#ifndef __NR_uretprobe
#define __NR_uretprobe 335
#endif
#else
#error "only x86_64 and aarch64 have a filter"
#endif
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arguments are read as low word first");

// Newer than the headers may be; the same number everywhere.
#ifndef __NR_cachestat
#define __NR_cachestat 451
#define __NR_fchmodat2 452
#define __NR_map_shadow_stack 453
#define __NR_futex_wake 454
#define __NR_futex_wait 455
#define __NR_futex_requeue 456
#endif
#ifndef __NR_statmount
#define __NR_statmount 457
#define __NR_listmount 458
#define __NR_lsm_get_self_attr 459
#define __NR_lsm_set_self_attr 460
#define __NR_lsm_list_modules 461
#endif
#ifndef __NR_mseal
#define __NR_mseal 462
#endif
#ifndef __NR_setxattrat
#define __NR_setxattrat 463
#define __NR_getxattrat 464
#define __NR_listxattrat 465
#define __NR_removexattrat 466
#endif
#ifndef __NR_open_tree_attr
#define __NR_open_tree_attr 467
#endif

enum { ROOT = 1, TRACE = 2, NESTED = 4, OWNS = 8, VARIANTS = 16 };

// What becomes of a call. The first five are return values, the rest are blocks that look at arguments. Both REFUSE and
// TELL wait for the supervisor; which of the two it is, and the error, the supervisor knows by the number
// (isolate/seccomp.c). Without a supervisor the kernel answers both with ENOSYS.
enum action {
	KILL, REFUSE, NOSYS, TELL, PASS, RETURNS,
	CHECK_clone = RETURNS, CHECK_ioctl, CHECK_ioprio_set, CHECK_memfd_create, CHECK_mmap, CHECK_personality, CHECK_prlimit64,
	CHECK_renameat2, CHECK_setpriority, CHECK_setsockopt, CHECK_socket, CHECK_socketpair, OWN_linkat, OWN_open, OWN_openat,
	ACTIONS,
	CHECK_sched_setaffinity = CHECK_prlimit64, CHECK_sched_setattr = CHECK_prlimit64,
	CHECK_sched_setparam = CHECK_prlimit64, CHECK_sched_setscheduler = CHECK_prlimit64,
	MOVE_rename = TELL, MOVE_renameat = TELL, MOVE_renameat2 = CHECK_renameat2
};

static const uint32_t returns[RETURNS] = {
	[KILL] = SECCOMP_RET_KILL_PROCESS,
	[REFUSE] = SECCOMP_RET_USER_NOTIF,
	[NOSYS] = SECCOMP_RET_ERRNO | ENOSYS,
	[TELL] = SECCOMP_RET_USER_NOTIF,
	[PASS] = SECCOMP_RET_ALLOW,
};

enum kind { K_ALLOW, K_NOTIFY, K_MOVE, K_OWN, K_CHECK, K_WHEN, K_DENY, K_CLOSED, K_ABSENT };

struct row {
	const char *name;
	const char *number; // "__NR_name" itself when this architecture lacks it
	enum kind kind;
	int arg; // K_CHECK, K_MOVE: the block; K_WHEN: flags
	long nr;
};

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define ALLOW(n) {#n, TEXT(__NR_##n), K_ALLOW, 0, -1},
#define NOTIFY(n) {#n, TEXT(__NR_##n), K_NOTIFY, 0, -1},
#define MOVE(n) {#n, TEXT(__NR_##n), K_MOVE, MOVE_##n, -1},
#define OWN(n) {#n, TEXT(__NR_##n), K_OWN, 0, -1},
#define CHECK(n) {#n, TEXT(__NR_##n), K_CHECK, CHECK_##n, -1},
#define WHEN(f, n) {#n, TEXT(__NR_##n), K_WHEN, f, -1},
#define DENY(n) {#n, TEXT(__NR_##n), K_DENY, 0, -1},
#define CLOSED(n) {#n, TEXT(__NR_##n), K_CLOSED, 0, -1},
#define ABSENT(n) {#n, TEXT(__NR_##n), K_ABSENT, 0, -1},
static struct row rows[] = {
#include "isolate/syscalls.def"
};
#define N_ROWS (sizeof rows / sizeof *rows)

#define MAX_NR 512
#define X32_BIT 0x40000000u
#define PER_LINUX32 8u
#define ADDR_NO_RANDOMIZE 0x40000u // gdb starts its program so
#define CLONE_NEW 0x7e020000u	    // every CLONE_NEW* that clone can take

static void fail(const char *what, const char *name)
{
	fprintf(stderr, "gen-seccomp: %s: %s\n", what, name);
	exit(1);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct row *)a)->name, ((const struct row *)b)->name);
}

static void number_rows(void)
{
	const char *owner[MAX_NR] = {NULL};
	qsort(rows, N_ROWS, sizeof *rows, by_name);
	for (size_t i = 0; i < N_ROWS; i++) {
		char *end;
		long nr = strtol(rows[i].number, &end, 10);
		if (i && !strcmp(rows[i].name, rows[i - 1].name))
			fail("named twice", rows[i].name);
		if (end == rows[i].number || *end)
			continue;
		if (nr < 0 || nr >= MAX_NR || owner[nr])
			fail("bad or doubled number", rows[i].name);
		owner[nr] = rows[i].name;
		rows[i].nr = nr;
	}
}

// Most files are opened for reading.
static enum action own_action(const struct row *r, int variant)
{
	if (!(variant & OWNS))
		return PASS;
	if (!strcmp(r->name, "open"))
		return OWN_open;
	if (!strcmp(r->name, "linkat"))
		return OWN_linkat;
	return !strcmp(r->name, "openat") ? OWN_openat : TELL;
}

static enum action action_of(const struct row *r, int variant)
{
	switch (r->kind) {
	case K_ALLOW:
		return PASS;
	case K_NOTIFY:
		return TELL;
	case K_MOVE:
		return (enum action)r->arg;
	case K_OWN:
		return own_action(r, variant);
	case K_CHECK:
		return r->arg == CHECK_clone && (variant & NESTED) ? PASS : (enum action)r->arg;
	case K_WHEN:
		return variant & r->arg ? PASS : REFUSE;
	case K_DENY:
	case K_CLOSED:
		return REFUSE;
	case K_ABSENT:
		break;
	}
	return NOSYS;
}

static int count_passing(int variant)
{
	int n = 0;
	for (size_t i = 0; i < N_ROWS; i++)
		if (rows[i].nr >= 0 && action_of(&rows[i], variant) >= TELL)
			n++;
	return n;
}

// --- the program ---

struct range {
	uint32_t start;
	enum action action;
};

struct insn {
	uint16_t code;
	uint32_t k;
	int jt, jf; // labels: 0.. = actions, ACTIONS.. = instruction at that index minus ACTIONS; -1 = next
};

struct program {
	struct insn i[512];
	int n;
	int at[ACTIONS]; // where each action's block begins
	struct range ranges[MAX_NR];
	int n_ranges;
};

static int emit(struct program *p, uint16_t code, uint32_t k, int jt, int jf)
{
	if (p->n >= 512)
		fail("program too long", ARCH_NAME);
	p->i[p->n] = (struct insn){code, k, jt, jf};
	return p->n++;
}

static void load(struct program *p, size_t offset)
{
	emit(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, -1, -1);
}

// Arguments the kernel takes as int are compared as int: the low word.
static void load_arg(struct program *p, int n)
{
	load(p, offsetof(struct seccomp_data, args) + 8 * (size_t)n);
}

static void if_equal(struct program *p, uint32_t k, int then, int otherwise)
{
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, k, then, otherwise);
}

static void find_ranges(struct program *p, int variant)
{
	enum action a[MAX_NR];
	for (int nr = 0; nr < MAX_NR; nr++)
		a[nr] = NOSYS;
	for (size_t i = 0; i < N_ROWS; i++)
		if (rows[i].nr >= 0)
			a[rows[i].nr] = action_of(&rows[i], variant);
	for (int nr = 0; nr < MAX_NR; nr++)
		if (!nr || a[nr] != a[nr - 1])
			p->ranges[p->n_ranges++] = (struct range){(uint32_t)nr, a[nr]};
#ifdef HAS_X32
	p->ranges[p->n_ranges++] = (struct range){X32_BIT, KILL};
	// a tracer that skips a call (strace -e inject) sets the number to -1
	p->ranges[p->n_ranges++] = (struct range){UINT32_MAX, NOSYS};
#endif
}

// Label of the code that decides among ranges [from, to).
static int search(struct program *p, int from, int to)
{
	if (to - from == 1)
		return (int)p->ranges[from].action;
	int mid = from + (to - from) / 2;
	int at = emit(p, BPF_JMP | BPF_JGE | BPF_K, p->ranges[mid].start, -1, -1);
	int below = search(p, from, mid), above = search(p, mid, to);
	p->i[at].jf = below;
	p->i[at].jt = above;
	return ACTIONS + at;
}

static void check_clone(struct program *p)
{
	load_arg(p, 0);
	emit(p, BPF_JMP | BPF_JSET | BPF_K, CLONE_NEW, REFUSE, PASS);
}

static void check_ioctl(struct program *p)
{
	static const uint32_t denied[] = {
		0x5412, 0x541c, 0x5423,	// TIOCSTI, TIOCLINUX, TIOCSETD
		0xc0045877, 0xc0045878, // FIFREEZE, FITHAW
	};
	load_arg(p, 1);
	for (size_t i = 0; i < sizeof denied / sizeof *denied; i++)
		if_equal(p, denied[i], REFUSE, i + 1 == sizeof denied / sizeof *denied ? PASS : -1);
}

// "The user's" processes would be pid 1's too. Its process group has no number inside.
static void check_whose(struct program *p, uint32_t process, uint32_t user)
{
	load_arg(p, 0);
	if_equal(p, user, REFUSE, -1);
	if_equal(p, process, -1, PASS);
	load_arg(p, 1);
	if_equal(p, 1, REFUSE, PASS);
}

static void check_ioprio_set(struct program *p)
{
	check_whose(p, 1, 3); // IOPRIO_WHO_PROCESS, IOPRIO_WHO_USER
}

static void check_setpriority(struct program *p)
{
	check_whose(p, 0, 2); // PRIO_PROCESS, PRIO_USER
}

static void check_prlimit64(struct program *p)
{
	load_arg(p, 0);
	if_equal(p, 1, REFUSE, PASS);
}

static void check_personality(struct program *p)
{
	load_arg(p, 0);
	if_equal(p, 0, PASS, -1);
	if_equal(p, PER_LINUX32, PASS, -1);
	if_equal(p, ADDR_NO_RANDOMIZE, PASS, -1);
	if_equal(p, UINT32_MAX, PASS, REFUSE);
}

static void check_pass(struct program *p)
{
	load_arg(p, 5);
	if_equal(p, MOVE_PASS, PASS, TELL);
}

static void check_mmap(struct program *p)
{
	load_arg(p, 3);
	emit(p, BPF_JMP | BPF_JSET | BPF_K, 0x40000, REFUSE, PASS); // MAP_HUGETLB
}

static void check_memfd_create(struct program *p)
{
	load_arg(p, 1);
	emit(p, BPF_JMP | BPF_JSET | BPF_K, 4, REFUSE, PASS); // MFD_HUGETLB
}

static void check_setsockopt(struct program *p)
{
	load_arg(p, 1);
	int at = emit(p, BPF_JMP | BPF_JEQ | BPF_K, 41, -1, -1); // SOL_IPV6: the last two
	if_equal(p, 1, -1, PASS);				     // SOL_SOCKET
	load_arg(p, 2);
	if_equal(p, 26, REFUSE, -1);   // SO_ATTACH_FILTER
	if_equal(p, 50, REFUSE, -1);   // SO_ATTACH_BPF
	if_equal(p, 51, REFUSE, -1);   // SO_ATTACH_REUSEPORT_CBPF
	if_equal(p, 52, REFUSE, PASS); // SO_ATTACH_REUSEPORT_EBPF
	p->i[at].jt = ACTIONS + p->n;
	load_arg(p, 2);
	if_equal(p, 32, REFUSE, PASS); // IPV6_FLOWLABEL_MGR
}

static void check_socket(struct program *p)
{
	load_arg(p, 0);
	if_equal(p, 1, PASS, -1);  // AF_UNIX
	if_equal(p, 2, PASS, -1);  // AF_INET
	if_equal(p, 10, PASS, -1); // AF_INET6
	if_equal(p, 16, -1, REFUSE); // AF_NETLINK
	load_arg(p, 2);
	if_equal(p, 0, PASS, REFUSE); // NETLINK_ROUTE
}

static void check_socketpair(struct program *p)
{
	load_arg(p, 0);
	if_equal(p, 1, PASS, REFUSE);
}

static void own_opened(struct program *p, int flags)
{
	load_arg(p, flags);
	emit(p, BPF_JMP | BPF_JSET | BPF_K, O_WRONLY | O_RDWR | O_TRUNC, TELL, PASS);
}

static void own_open(struct program *p)
{
	own_opened(p, 1);
}

static void own_openat(struct program *p)
{
	own_opened(p, 2);
}

static void build(struct program *p, int variant)
{
	static void (*const blocks[ACTIONS])(struct program *) = {
		[CHECK_clone] = check_clone,
		[CHECK_ioctl] = check_ioctl,
		[CHECK_ioprio_set] = check_ioprio_set,
		[CHECK_memfd_create] = check_memfd_create,
		[CHECK_mmap] = check_mmap,
		[CHECK_personality] = check_personality,
		[CHECK_prlimit64] = check_prlimit64,
		[CHECK_renameat2] = check_pass,
		[CHECK_setpriority] = check_setpriority,
		[CHECK_setsockopt] = check_setsockopt,
		[CHECK_socket] = check_socket,
		[CHECK_socketpair] = check_socketpair,
		[OWN_linkat] = check_pass,
		[OWN_open] = own_open,
		[OWN_openat] = own_openat,
	};
	memset(p, 0, sizeof *p);
	load(p, offsetof(struct seccomp_data, arch));
	if_equal(p, ARCH, -1, KILL);
	load(p, offsetof(struct seccomp_data, nr));
	find_ranges(p, variant);
	search(p, 0, p->n_ranges);
	for (int a = ACTIONS - 1; a >= 0; a--) {
		p->at[a] = p->n;
		if (a < RETURNS)
			emit(p, BPF_RET | BPF_K, returns[a], -1, -1);
		else
			blocks[a](p);
	}
}

static int offset_to(const struct program *p, int from, int label)
{
	int to = label < 0 ? from + 1 : label < ACTIONS ? p->at[label] : label - ACTIONS;
	int off = to - from - 1;
	if (off < 0 || off > 255)
		fail("jump too far", ARCH_NAME);
	return off;
}

static void print_program(int variant)
{
	static struct program p;
	build(&p, variant);
	printf("static const struct sock_filter seccomp_filter_%d[] = {\n", variant);
	for (int i = 0; i < p.n; i++) {
		int jumps = BPF_CLASS(p.i[i].code) == BPF_JMP;
		printf("\t{0x%02x, %d, %d, 0x%08x},\n", p.i[i].code, jumps ? offset_to(&p, i, p.i[i].jt) : 0,
		       jumps ? offset_to(&p, i, p.i[i].jf) : 0, p.i[i].k);
	}
	printf("};\n\n");
}

static int print_names(enum kind kind, int arg, const char *sep)
{
	int n = 0;
	for (size_t i = 0; i < N_ROWS; i++)
		if (rows[i].nr >= 0 && rows[i].kind == kind && (arg < 0 || rows[i].arg == arg))
			printf("%s%s", n++ ? sep : "", rows[i].name);
	return n;
}

static const struct {
	enum kind kind;
	int arg;
	const char *id, *title;
} lists[] = {
	{K_ALLOW, -1, "allow", "Allowed"},
	{K_NOTIFY, -1, "notify", "Allowed after the supervisor has recorded it"},
	{K_MOVE, -1, "move", "Allowed after a directory of a lower layer was made movable"},
	{K_OWN, -1, "own", "Allowed; an ordinary user's root first has the file of the host made its own"},
	{K_CHECK, -1, "check", "Allowed with the arguments above"},
	{K_WHEN, TRACE, "trace", "Allowed unless `trace: off`, else EPERM"},
	{K_WHEN, ROOT | NESTED, "root_nested", "Allowed with `--root` or `--nested`, else EPERM"},
	{K_WHEN, NESTED, "nested", "Allowed with `--nested`, else EPERM"},
	{K_DENY, -1, "deny", "EPERM"},
	{K_CLOSED, -1, "closed", "ENOSYS, and recorded"},
	{K_ABSENT, -1, "absent", "ENOSYS, as every number not named here"},
};
#define N_LISTS (sizeof lists / sizeof *lists)

// Every call that may be refused: what the supervisor answers. Sorted by name.
static void print_refusals(void)
{
	printf("static const struct {\n\tshort nr, error;\n\tconst char *name;\n} seccomp_refusals[] = {\n");
	for (size_t i = 0; i < N_ROWS; i++) {
		enum kind k = rows[i].kind;
		if (rows[i].nr >= 0 && (k == K_CHECK || k == K_WHEN || k == K_DENY || k == K_CLOSED))
			printf("\t{%ld, %d, \"%s\"},\n", rows[i].nr, k == K_CLOSED ? ENOSYS : EPERM, rows[i].name);
	}
	printf("};\n\n");
}

static void print_owned(void)
{
	printf("static const short seccomp_owned[] = {\n");
	for (size_t i = 0; i < N_ROWS; i++)
		if (rows[i].nr >= 0 && rows[i].kind == K_OWN)
			printf("\t%ld, // %s\n", rows[i].nr, rows[i].name);
	printf("};\n\n");
}

static void print_header(void)
{
	printf("// Generated by tools/gen-seccomp from src/isolate/syscalls.def for " ARCH_NAME ". Not for editing.\n"
	       "#pragma once\n#include <linux/filter.h>\n\n");
	for (int v = 0; v < VARIANTS; v++)
		print_program(v);
	printf("// indexed by root | trace << 1 | nested << 2 | owns << 3\n"
	       "static const struct {\n\tconst struct sock_filter *p;\n\tunsigned short n, allowed;\n} "
	       "seccomp_variants[] = {\n");
	for (int v = 0; v < VARIANTS; v++)
		printf("\t{seccomp_filter_%d, sizeof seccomp_filter_%d / sizeof *seccomp_filter_%d, %d},\n", v, v, v,
		       count_passing(v));
	printf("};\n\n");
	print_refusals();
	print_owned();
	printf("static const struct {\n\tconst char *what, *names;\n} seccomp_lists[] = {\n");
	for (size_t i = 0; i < N_LISTS; i++) {
		printf("\t{\"%s\", \"", lists[i].id);
		print_names(lists[i].kind, lists[i].arg, " ");
		printf("\"},\n");
	}
	printf("};\n");
}

static void print_list(void)
{
	printf("## " ARCH_NAME "\n\n| sandbox | calls let through |\n|---|---|\n");
	for (int v = 0; v < OWNS; v++)
		printf("| %s%s%s | %d |\n", v & ROOT ? "root" : "default", v & TRACE ? "" : ", trace off",
		       v & NESTED ? ", nested" : "", count_passing(v));
	for (size_t i = 0; i < N_LISTS; i++) {
		printf("\n**%s**: ", lists[i].title);
		printf(" (%d)\n", print_names(lists[i].kind, lists[i].arg, ", "));
	}
}

int main(int argc, char **argv)
{
	number_rows();
	if (argc > 1 && !strcmp(argv[1], "--list"))
		print_list();
	else
		print_header();
	return fflush(stdout) || ferror(stdout);
}
