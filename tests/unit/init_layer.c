// SPDX-License-Identifier: Apache-2.0
// Layers against a plain model: random trees and operations on a real overlay in a user namespace, and beside it the same
// operations on an ordinary directory. Whatever is sealed, copied or merged, the mounted stack must show the model, and
// the walk must tell exactly its difference to the base.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fs.h"
#include "base/mem.h"
#include "init/layer.h"
#include "init/names.h"
#include "init/stack.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PATHS_MAX 4096

static char top[64];
static uint64_t random_state;

static uint32_t rnd(uint32_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 16) % n;
}

// --- a namespace to mount in; once per process ---

static bool in_namespace(void)
{
	char map[64];
	struct err e;
	unsigned uid = getuid(), gid = getgid();
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return false;
	(void)!fs_put(AT_FDCWD, "/proc/self/setgroups", "deny", &e);
	snprintf(map, sizeof map, "0 %u 1", uid);
	assert_int_equal(fs_put(AT_FDCWD, "/proc/self/uid_map", map, &e), 0);
	snprintf(map, sizeof map, "0 %u 1", gid);
	assert_int_equal(fs_put(AT_FDCWD, "/proc/self/gid_map", map, &e), 0);
	return !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

static int dir_at(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		fail_msg("open %s: %s", path, strerror(errno));
	return fd;
}

static void run(char *const argv[])
{
	pid_t pid;
	int status;
	assert_int_equal(posix_spawnp(&pid, argv[0], NULL, NULL, argv, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void copy_tree(const char *from, const char *to)
{
	char a0[] = "cp", a1[] = "-aT";
	run((char *[]){a0, a1, (char *)from, (char *)to, NULL});
}

// --- comparing two trees ---

static bool same_xattr(const char *a, const char *b, const char *name)
{
	char va[256], vb[256];
	ssize_t na = lgetxattr(a, name, va, sizeof va), nb = lgetxattr(b, name, vb, sizeof vb);
	return na == nb && (na < 0 || !memcmp(va, vb, (size_t)na));
}

static bool same_file(const char *a, const char *b)
{
	auto_buf struct buf x = BUF_INIT(64 << 20), y = BUF_INIT(64 << 20);
	struct err e;
	struct stat st;
	if (!lstat(a, &st) && !(st.st_mode & 0400) && getuid())
		return true;
	assert_int_equal(fs_read(AT_FDCWD, a, &x, &e) | fs_read(AT_FDCWD, b, &y, &e), 0);
	return x.n == y.n && (!x.n || !memcmp(x.p, y.p, x.n));
}

static bool same_link(const char *a, const char *b)
{
	char x[4096] = {0}, y[4096] = {0};
	return readlink(a, x, sizeof x - 1) > 0 && readlink(b, y, sizeof y - 1) > 0 && !strcmp(x, y);
}

// exact: of a copied layer, also with overlay's marks, times of directories and which names are one file.
static void assert_same(const char *a, const char *b, bool exact)
{
	struct stat x, y;
	if (lstat(a, &x) || lstat(b, &y))
		fail_msg("%s and %s: %s", a, b, strerror(errno));
	if (x.st_mode != y.st_mode || x.st_uid != y.st_uid || x.st_rdev != y.st_rdev)
		fail_msg("%s (%o) and %s (%o)", a, x.st_mode, b, y.st_mode);
	bool timed = exact || !S_ISDIR(x.st_mode);
	if (timed && (x.st_mtim.tv_sec != y.st_mtim.tv_sec || x.st_mtim.tv_nsec != y.st_mtim.tv_nsec))
		fail_msg("time of %s and %s", a, b);
	if (exact && (x.st_nlink > 1) != (y.st_nlink > 1) && S_ISREG(x.st_mode) && x.st_nlink > y.st_nlink)
		fail_msg("links of %s and %s", a, b);
	if (S_ISREG(x.st_mode) && !same_file(a, b))
		fail_msg("contents of %s and %s", a, b);
	if (exact && S_ISREG(x.st_mode) && y.st_blocks > x.st_blocks + 64)
		fail_msg("holes of %s and %s", a, b);
	if (S_ISLNK(x.st_mode) && !same_link(a, b))
		fail_msg("links %s and %s", a, b);
	if (!same_xattr(a, b, "user.test"))
		fail_msg("attribute of %s and %s", a, b);
	if (exact && (!same_xattr(a, b, "user.overlay.opaque") || !same_xattr(a, b, "user.overlay.origin")))
		fail_msg("overlay's marks of %s and %s", a, b);
	if (!S_ISDIR(x.st_mode))
		return;
	auto_names struct names n = {0};
	auto_fd int fa = dir_at(a), fb = dir_at(b);
	assert_int_equal(names_read(&n, fa, 0, SIZE_MAX) | names_read(&n, fb, 1, SIZE_MAX), 0);
	names_sort(&n);
	for (size_t i = 0; i < n.n; i += 2) {
		if (i + 1 >= n.n || strcmp(n.list[i].name, n.list[i + 1].name))
			fail_msg("%s is only in %s", n.list[i].name, n.list[i].level ? b : a);
		auto_free char *pa = xasprintf("%s/%s", a, n.list[i].name), *pb = xasprintf("%s/%s", b, n.list[i].name);
		assert_same(pa, pb, exact);
	}
}

// --- what the walk should tell ---

struct lines {
	char **list;
	size_t n;
};

static void add_line(void *ctx, char kind, const char *path)
{
	struct lines *l = ctx;
	l->list = xrealloc(l->list, (l->n + 1) * sizeof *l->list);
	l->list[l->n++] = xasprintf("%c %s", kind, path);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void lines_done(struct lines *l)
{
	while (l->n)
		free(l->list[--l->n]);
	free(l->list);
}

static bool differ(const char *a, const char *b, const struct stat *x, const struct stat *y)
{
	if ((x->st_mode & (S_IFMT | 0111)) != (y->st_mode & (S_IFMT | 0111)))
		return true;
	return S_ISLNK(x->st_mode) ? !same_link(a, b) : S_ISREG(x->st_mode) && !same_file(a, b);
}

static void diff_dir(const char *a, const char *b, const char *shown, struct lines *out);

static void diff_name(const char *a, const char *b, const char *shown, struct lines *out)
{
	struct stat x, y;
	bool in_a = !lstat(a, &x), in_b = b && !lstat(b, &y);
	if (!in_a) {
		add_line(out, 'D', shown);
	} else if (S_ISDIR(x.st_mode)) {
		if (in_b && !S_ISDIR(y.st_mode))
			add_line(out, 'D', shown);
		auto_free char *below = xasprintf("%s/", shown);
		size_t before = out->n;
		bool both = in_b && S_ISDIR(y.st_mode);
		diff_dir(a, both ? b : NULL, below, out);
		if (!both && out->n == before)
			add_line(out, 'A', below);
	} else if (!in_b || differ(a, b, &x, &y)) {
		add_line(out, in_b ? 'M' : 'A', shown);
	}
}

static void diff_dir(const char *a, const char *b, const char *shown, struct lines *out)
{
	auto_names struct names n = {0};
	auto_fd int fa = dir_at(a), fb = b ? dir_at(b) : -1;
	assert_int_equal(names_read(&n, fa, 0, SIZE_MAX), 0);
	if (b)
		assert_int_equal(names_read(&n, fb, 1, SIZE_MAX), 0);
	names_sort(&n);
	for (size_t i = 0; i < n.n; i++) {
		const char *name = n.list[i].name;
		if (!strcmp(name, ".git") || (i && !strcmp(name, n.list[i - 1].name)))
			continue;
		auto_free char *pa = xasprintf("%s/%s", a, name), *pb = b ? xasprintf("%s/%s", b, name) : NULL;
		auto_free char *below = xasprintf("%s%s", shown, name);
		diff_name(pa, pb, below, out);
	}
}

// --- the stack ---

static struct {
	char *sealed[LIMIT_LAYERS + 1]; // newest first
	int n, n_base;
	char upper[32], copy[32]; // copy: the last of this upper, or ""
	int made;
} st;

static char *path_of(const char *layer, const char *part)
{
	return xasprintf("%s/layers/%s/%s", top, layer, part);
}

static void new_upper(void)
{
	snprintf(st.upper, sizeof st.upper, "u%d", st.made++);
	st.copy[0] = 0;
	for (const char *const *p = (const char *const[]){"", "ws", "home", "work", NULL}; *p; p++) {
		auto_free char *dir = path_of(st.upper, *p);
		assert_int_equal(mkdir(dir, 0755), 0);
	}
}

static void mount_stack(void)
{
	auto_buf struct buf o = BUF_INIT(4096);
	auto_free char *layers = xasprintf("%s/layers", top), *mnt = xasprintf("%s/mnt", top);
	assert_int_equal(chdir(layers), 0);
	buf_str(&o, "lowerdir=");
	for (int i = 0; i < st.n; i++)
		buf_fmt(&o, "%s/ws:", st.sealed[i]);
	buf_fmt(&o, "../base,upperdir=%s/ws,workdir=%s/work,userxattr,volatile,index=off,metacopy=off,xino=off", st.upper, st.upper);
	if (mount("overlay", mnt, "overlay", 0, buf_cstr(&o)))
		fail_msg("%s: %s", o.p, strerror(errno));
	assert_int_equal(chdir("/"), 0);
}

static void unmount_stack(void)
{
	auto_free char *mnt = xasprintf("%s/mnt", top), *work = path_of(st.upper, "work/work");
	struct err e;
	assert_int_equal(chdir("/") | umount(mnt), 0);
	assert_int_equal(fs_remove_tree(AT_FDCWD, work, &e), 0);
}

// below: how many of the sealed ones, from the oldest on, lie below what is merged.
static void layer_job(enum layer_verb verb, char **from, const char *to, const char *like, int n_below)
{
	char *below[LIMIT_LAYERS + 1] = {0};
	auto_free char *base = xasprintf("%s/base", top);
	for (int i = 0; i < n_below; i++)
		below[i] = path_of(st.sealed[st.n - n_below + i], "");
	auto_free char *path = xasprintf("%s/layers", top);
	auto_fd int layers = dir_at(path);
	struct layer_op op = {.verb = verb, .from = from, .to = to, .like = like, .below = below};
	op.base = verb == LAYER_MERGE ? base : NULL;
	struct layer_result r, again;
	struct err e = {0};
	if (layer_do(layers, &op, &r, &e))
		fail_msg("%s", e.msg);
	struct layer_op size = {.verb = LAYER_SIZE, .from = (char *[]){(char *)(to ? to : from[0]), NULL}};
	assert_int_equal(layer_do(layers, &size, &again, &e), 0);
	assert_int_equal(r.files, again.files);
	umask(022);
	for (int i = 0; i < n_below; i++)
		free(below[i]);
}

static void check_view(void)
{
	auto_free char *mnt = xasprintf("%s/mnt", top), *model = xasprintf("%s/model", top);
	assert_same(mnt, model, false);
}

static void check_walk(void)
{
	auto_free char *model = xasprintf("%s/model", top), *old = xasprintf("%s/model-base", top), *base = xasprintf("%s/base", top);
	struct stack s = {0};
	struct lines got = {0}, want = {0};
	struct err e;
	int fds[STACK_MAX], n = 0;
	for (int i = -1; i < st.n; i++) {
		auto_free char *ws = path_of(i < 0 ? st.upper : st.sealed[i], "ws");
		fds[n++] = dir_at(ws);
		stack_add(&s, i >= st.n - st.n_base, fds[n - 1]);
	}
	fds[n++] = dir_at(base);
	stack_add(&s, true, fds[n - 1]);
	assert_int_equal(stack_changes(&s, add_line, &got, &e), 0);
	diff_dir(model, old, "", &want);
	qsort(got.list, got.n, sizeof *got.list, by_text);
	qsort(want.list, want.n, sizeof *want.list, by_text);
	for (size_t i = 0; i < got.n || i < want.n; i++)
		if (i >= got.n || i >= want.n || strcmp(got.list[i], want.list[i]))
			fail_msg("walk: told %s, expected %s", i < got.n ? got.list[i] : "nothing", i < want.n ? want.list[i] : "nothing");
	lines_done(&got);
	lines_done(&want);
	while (n)
		close(fds[--n]);
}

static void seal(void)
{
	unmount_stack();
	memmove(st.sealed + 1, st.sealed, sizeof st.sealed - sizeof *st.sealed);
	st.sealed[0] = xstrdup(st.upper);
	st.n++;
	new_upper();
	mount_stack();
}

static void merge(void)
{
	int pending = st.n - st.n_base;
	if (pending < 2)
		return;
	int from = (int)rnd((uint32_t)pending - 1), n = 2 + (int)rnd((uint32_t)(pending - from - 1));
	char *list[LIMIT_LAYERS + 1] = {0}, name[32];
	memcpy(list, st.sealed + from, (size_t)n * sizeof *list);
	snprintf(name, sizeof name, "m%d", st.made++);
	layer_job(LAYER_MERGE, list, name, NULL, st.n - from - n);
	unmount_stack();
	for (int i = 0; i < n; i++)
		free(st.sealed[from + i]);
	st.sealed[from] = xstrdup(name);
	memmove(st.sealed + from + 1, st.sealed + from + n, (size_t)(st.n - from - n) * sizeof *st.sealed);
	st.n -= n - 1;
	mount_stack();
}

// A copy while it is mounted; now and then we go on above it, as a fork does.
static void copy(void)
{
	char name[32];
	snprintf(name, sizeof name, "c%d", st.made++);
	layer_job(LAYER_COPY, (char *[]){st.upper, NULL}, name, *st.copy ? st.copy : NULL, 0);
	auto_free char *a = path_of(st.upper, "ws"), *b = path_of(name, "ws");
	assert_same(a, b, true);
	memcpy(st.copy, name, sizeof name);
	if (rnd(3) || st.n + 1 >= LIMIT_LAYERS)
		return;
	unmount_stack();
	memmove(st.sealed + 1, st.sealed, sizeof st.sealed - sizeof *st.sealed);
	st.sealed[0] = xstrdup(name);
	st.n++;
	new_upper();
	mount_stack();
}

// --- operations, on the overlay and on the model ---

static const char *const odd[] = {"a", "b", "c", "d", "e", "-x", "a b", "new\nline", "q\"uote", "back\\slash", "co:lon,comma", "\xc3\xa4", ".hid", ".git"};

static char *any_path(void)
{
	auto_buf struct buf b = BUF_INIT(4096);
	for (uint32_t i = 0, n = 1 + rnd(3); i < n; i++)
		buf_fmt(&b, "%s%s", i ? "/" : "", odd[rnd(countof(odd))]);
	return buf_take(&b);
}

static void stamp(int dir, const char *path, uint32_t salt)
{
	struct timespec t[2] = {{1000000 + salt, 0}, {1000000 + salt, salt * 1000}};
	utimensat(dir, path, t, AT_SYMLINK_NOFOLLOW);
}

struct op {
	uint32_t what, salt, size;
	char *a, *b;
	bool linked; // a has other names in the model; sealed layers share files, so the overlay's count says nothing
};

static int op_write(int dir, const struct op *op)
{
	struct stat s;
	int rc = fstatat(dir, op->a, &s, AT_SYMLINK_NOFOLLOW);
	if (!rc && (!S_ISREG(s.st_mode) || op->linked) && unlinkat(dir, op->a, 0)) // through one name only one changes, here
		return -1;
	auto_fd int fd = openat(dir, op->a, O_WRONLY | O_CREAT | O_NOFOLLOW, 0644);
	if (fd < 0)
		return -1;
	char text[64];
	int n = snprintf(text, sizeof text, "%u %u\n", op->salt, op->size);
	if (pwrite(fd, text, (size_t)n, op->size) != n || fsetxattr(fd, "user.test", text, (size_t)n, 0))
		return -1;
	stamp(dir, op->a, op->salt);
	return 0;
}

static int op_same(int dir, const struct op *op)
{
	char text[16];
	auto_fd int fd = openat(dir, op->a, O_RDWR | O_NOFOLLOW);
	ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text, 0);
	if (n < 0 || op->linked || pwrite(fd, text, (size_t)n, 0) != n)
		return -1;
	stamp(dir, op->a, op->salt);
	return 0;
}

static int op_remove(int dir, const struct op *op)
{
	struct err e;
	struct stat s;
	return fstatat(dir, op->a, &s, AT_SYMLINK_NOFOLLOW) || fs_remove_tree(dir, op->a, &e) ? -1 : 0;
}

static int op_mode(int dir, const struct op *op)
{
	struct stat s;
	if (fstatat(dir, op->a, &s, AT_SYMLINK_NOFOLLOW) || S_ISLNK(s.st_mode) || op->linked)
		return -1;
	return fchmodat(dir, op->a, (S_ISDIR(s.st_mode) ? 0700 : 0600) | (op->salt & 0177), 0);
}

static int do_op(int dir, const struct op *op)
{
	int rc = 0;
	switch (op->what) {
	case 0: case 1: case 2: case 3:
		return op_write(dir, op);
	case 4: case 5: case 6:
		return mkdirat(dir, op->a, 0755);
	case 7: case 8:
		return op_remove(dir, op);
	case 9: case 10:
		return renameat(dir, op->a, dir, op->b);
	case 11:
		rc = symlinkat(op->b, dir, op->a);
		break;
	case 12:
		rc = linkat(dir, op->a, dir, op->b, 0);
		return rc;
	case 13:
		rc = mkfifoat(dir, op->a, 0600);
		break;
	case 14:
		return op_mode(dir, op);
	default:
		return op_same(dir, op);
	}
	if (!rc)
		stamp(dir, op->a, op->salt);
	return rc;
}

static void change(int mnt, int model, int n)
{
	while (n--) {
		auto_free char *a = any_path(), *b = any_path();
		struct op op = {rnd(16), rnd(100000), rnd(8) ? rnd(200) : rnd(300000), a, b, false};
		struct stat s;
		op.linked = !fstatat(model, a, &s, AT_SYMLINK_NOFOLLOW) && !S_ISDIR(s.st_mode) && s.st_nlink > 1;
		// Of a directory that is also below, overlay without redirects says EXDEV; a link over there would break.
		if (op.what == 12 && (fstatat(model, a, &s, AT_SYMLINK_NOFOLLOW) || S_ISDIR(s.st_mode)))
			continue;
		int rc = do_op(mnt, &op), why = errno;
		if (rc && why == EXDEV)
			continue;
		int plain = do_op(model, &op);
		if (rc != plain)
			fail_msg("operation %u on %s (%s): overlay %d %s, plain %d", op.what, a, b, rc, strerror(why), plain);
	}
}

static void play(uint64_t seed)
{
	random_state = seed * 2654435761u + 88172645463325252u;
	auto_free char *base = xasprintf("%s/base", top), *model = xasprintf("%s/model", top), *mnt = xasprintf("%s/mnt", top);
	auto_free char *layers = xasprintf("%s/layers", top), *old = xasprintf("%s/model-base", top);
	for (char **d = (char *[]){base, mnt, layers, NULL}; *d; d++)
		assert_int_equal(mkdir(*d, 0755), 0);
	auto_fd int b = dir_at(base);
	for (int i = 0; i < 60; i++) {
		auto_free char *a = any_path();
		do_op(b, &(struct op){rnd(7), rnd(100000), rnd(200), a, a, false});
	}
	copy_tree(base, model);
	new_upper();
	mount_stack();
	for (int step = 0; step < 14; step++) {
		auto_fd int m = dir_at(mnt), p = dir_at(model);
		change(m, p, 40);
		close_fd(&m);
		if (step < 2) { // these belong to the base
			seal();
			st.n_base++;
			struct err e;
			assert_int_equal(fs_remove_tree(AT_FDCWD, old, &e), 0);
			copy_tree(model, old);
			continue;
		}
		uint32_t what = rnd(4);
		if (what == 0 || what == 1)
			seal();
		else if (what == 2)
			merge();
		else
			copy();
		check_view();
		check_walk();
	}
	unmount_stack();
}

static void clear(void)
{
	struct err e;
	while (st.n)
		free(st.sealed[--st.n]);
	memset(&st, 0, sizeof st);
	assert_int_equal(fs_remove_tree(AT_FDCWD, top, &e), 0);
}

static void a_stack_shows_the_model_whatever_is_done_to_it(void **state)
{
	(void)state;
	const char *from = getenv("SKEP_SEED"), *many = getenv("SKEP_SEEDS"); // to look closer, or longer
	uint64_t seed = from ? strtoul(from, NULL, 10) : 1, n = many ? strtoul(many, NULL, 10) : from ? 1 : 12;
	if (!in_namespace()) {
		skip();
	}
	for (uint64_t last = seed + n; seed < last; seed++) {
		printf("seed %llu\n", (unsigned long long)seed);
		memcpy(top, "/tmp/skep-layer-XXXXXX", 23);
		assert_non_null(mkdtemp(top));
		play(seed);
		clear();
	}
}

// --- single cases, on hand-made layers ---

static int set_up(void **state)
{
	(void)state;
	struct err e;
	memcpy(top, "/tmp/skep-layer-XXXXXX", 23);
	assert_non_null(mkdtemp(top));
	auto_fd int at = dir_at(top);
	return fs_mkdirs(at, "base", 0755, &e) | fs_mkdirs(at, "layers/a/ws", 0755, &e) | fs_mkdirs(at, "layers/b/ws", 0755, &e);
}

static int tear_down(void **state)
{
	(void)state;
	clear();
	return 0;
}

static void put(const char *layer, const char *path, const char *text, size_t n)
{
	struct err e;
	auto_free char *file = path_of(layer, path);
	auto_free char *dir = xstrdup(file);
	*strrchr(dir, '/') = 0;
	assert_int_equal(fs_mkdirs(AT_FDCWD, dir, 0755, &e) | fs_write(AT_FDCWD, file, text, n, 0644, &e), 0);
}

static bool is_opaque(const char *layer, const char *path)
{
	auto_free char *dir = path_of(layer, path);
	auto_fd int fd = dir_at(dir);
	return stack_is_opaque(fd);
}

static void a_directory_over_something_else_cuts_off(void **state)
{
	(void)state;
	auto_free char *gone = path_of("b", "ws/gone");
	assert_int_equal(mknod(gone, S_IFCHR, 0), 0);
	put("b", "ws/file", "x", 1);
	put("b", "ws/dir/old", "x", 1);
	put("a", "ws/gone/n", "x", 1); // not marked: the layer below says it
	put("a", "ws/file/n", "x", 1);
	put("a", "ws/dir/n", "x", 1);
	layer_job(LAYER_MERGE, (char *[]){(char *)"a", (char *)"b", NULL}, "m", NULL, 0);
	assert_true(is_opaque("m", "ws/gone") && is_opaque("m", "ws/file"));
	assert_false(is_opaque("m", "ws/dir"));
	auto_free char *old = path_of("m", "ws/dir/old");
	assert_int_equal(access(old, F_OK), 0);
}

// What lies below a directory that hides the base is hidden with it, though nothing marks it.
static void a_cut_off_directory_cuts_off_what_is_in_it(void **state)
{
	(void)state;
	struct err e;
	struct stack s = {0};
	struct lines got = {0};
	auto_free char *gone = path_of("b", "ws/d"), *a = path_of("a", "ws"), *b = path_of("b", "ws"), *base = xasprintf("%s/base", top);
	auto_free char *old = xasprintf("%s/base/d/sub", top), *file = xasprintf("%s/old", old);
	assert_int_equal(mknod(gone, S_IFCHR, 0), 0);
	put("a", "ws/d/sub/new", "x", 1);
	assert_int_equal(fs_mkdirs(AT_FDCWD, old, 0755, &e) | fs_write(AT_FDCWD, file, "x", 1, 0644, &e), 0);
	auto_fd int fa = dir_at(a), fb = dir_at(b), fbase = dir_at(base);
	stack_add(&s, false, fa);
	stack_add(&s, false, fb);
	stack_add(&s, true, fbase);
	assert_int_equal(stack_changes(&s, add_line, &got, &e), 0);
	assert_int_equal(got.n, 2);
	assert_string_equal(got.list[0], "A d/sub/new");
	assert_string_equal(got.list[1], "D d/sub/old");
	lines_done(&got);
}

static ino_t ino_of(const char *layer, const char *path)
{
	struct stat s;
	auto_free char *file = path_of(layer, path);
	assert_int_equal(stat(file, &s), 0);
	return s.st_ino;
}

// In place, the size and the time of the last change put back: only the change time tells.
static void change_secretly(const char *path)
{
	struct stat s;
	auto_free char *file = path_of("a", path);
	assert_int_equal(stat(file, &s), 0);
	auto_fd int fd = open(file, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "Y", 1, 100), 1);
	assert_int_equal(futimens(fd, (struct timespec[]){s.st_atim, s.st_mtim}), 0);
}

static void only_what_did_not_change_is_shared(void **state)
{
	(void)state;
	static const char *const names[] = {"ws/small", "ws/big", "ws/small-changed", "ws/big-changed", "ws/big-mode", "ws/big-attr"};
	static char text[200000];
	char *a[] = {(char *)"a", NULL};
	for (size_t i = 0; i < countof(names); i++)
		put("a", names[i], text, strstr(names[i], "small") ? 1000 : sizeof text);
	usleep(100000);
	layer_job(LAYER_COPY, a, "c1", NULL, 0);
	change_secretly("ws/small-changed");
	change_secretly("ws/big-changed");
	auto_free char *mode = path_of("a", "ws/big-mode"), *attr = path_of("a", "ws/big-attr");
	assert_int_equal(chmod(mode, 0600), 0);
	if (setxattr(attr, "user.test", "1", 1, 0)) {
		skip(); // then there is no change to see
	}
	usleep(100000);
	layer_job(LAYER_COPY, a, "c2", "c1", 0);
	layer_job(LAYER_COPY, a, "c3", "c2", 0);
	for (size_t i = 0; i < countof(names); i++) {
		bool same = i < 2;
		assert_int_equal(ino_of("c1", names[i]) == ino_of("c2", names[i]), same);
		assert_int_equal(ino_of("c2", names[i]), ino_of("c3", names[i]));
	}
	auto_free char *x = path_of("a", "ws"), *y = path_of("c3", "ws");
	assert_same(x, y, true);
}

static void a_damaged_manifest_is_no_manifest(void **state)
{
	(void)state;
	char *a[] = {(char *)"a", NULL};
	put("a", "ws/x", "1", 1);
	usleep(100000);
	layer_job(LAYER_COPY, a, "c1", NULL, 0);
	auto_free char *manifest = path_of("c1", "manifest");
	auto_fd int fd = open(manifest, O_WRONLY | O_CLOEXEC);
	if (fd < 0) {
		skip(); // of a file system that tells too little
	}
	assert_int_equal(pwrite(fd, "\377", 1, 20), 1);
	layer_job(LAYER_COPY, a, "c2", "c1", 0);
	assert_true(ino_of("c1", "ws/x") != ino_of("c2", "ws/x"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_directory_over_something_else_cuts_off, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_cut_off_directory_cuts_off_what_is_in_it, set_up, tear_down),
		cmocka_unit_test_setup_teardown(only_what_did_not_change_is_shared, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_damaged_manifest_is_no_manifest, set_up, tear_down),
		cmocka_unit_test(a_stack_shows_the_model_whatever_is_done_to_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
