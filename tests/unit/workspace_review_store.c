// SPDX-License-Identifier: Apache-2.0
// What is kept: the copy of a sandbox's changes, tree P in the shadow repository, the intent log.
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "workspace/review_copy.h"
#include "workspace/review_shadow.h"
#include "workspace/review_txn.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
// cmocka wants the headers above it
#include <cmocka.h>

static char top_path[40];
static int top;

static int setup(void **state)
{
	(void)state;
	if (fmt_to(top_path, sizeof top_path, "/tmp/skep-review-XXXXXX") || !mkdtemp(top_path))
		return -1;
	top = open(top_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return mkdirat(top, "objects", 0755) || mkdirat(top, "refs", 0755);
}

static int teardown(void **state)
{
	struct err e;
	(void)state;
	close(top);
	return fs_remove_tree(AT_FDCWD, top_path, &e);
}

static void collect(void (*fill)(struct delta_out *o), int want)
{
	struct err e = {0};
	struct delta_out o;
	struct delta_in in;
	struct collect_result r;
	int fd = memfd_create("delta", MFD_CLOEXEC);
	delta_out_init(&o, fd);
	fill(&o);
	assert_int_equal(delta_end(&o, &e), 0);
	delta_out_done(&o);
	lseek(fd, 0, SEEK_SET);
	delta_in_fd(&in, fd);
	const struct collect_spec spec = {.file_max = 100, .total_max = 1000};
	struct collect_known known;
	collect_known_open(top, &known);
	if (review_collect(top, &in, &spec, &known, &r, &e) != want)
		fail_msg("%s", e.msg);
	collect_known_done(&known);
	delta_in_done(&in);
	close(fd);
}

static void fill_some(struct delta_out *o)
{
	struct err e;
	char big[200] = {0};
	assert_int_equal(delta_put_bytes(o, "b", true, "bytes", 5, &e), 0);
	assert_int_equal(delta_put_bytes(o, "a/x", false, big, sizeof big, &e), 0);
	assert_int_equal(delta_put_link(o, "a.b", "target", &e), 0);
	assert_int_equal(delta_put(o, 'd', false, "a", &e), 0);
	assert_int_equal(delta_put_bytes(o, "a/.git/config", false, "x", 1, &e), 0);
	assert_int_equal(delta_put_bytes(o, "a/.git/hooks/y", false, "x", 1, &e), 0);
}

static void fill_twice(struct delta_out *o)
{
	struct err e;
	assert_int_equal(delta_put(o, 'x', false, "b", &e), 0);
	assert_int_equal(delta_put(o, 'd', false, "b", &e), 0);
}

// One file with a mark, and two other names for it.
static void fill_known(struct delta_out *o)
{
	struct err e;
	const struct delta_mark mark = {1, 2, 6, 4, 5};
	int fd = memfd_create("linked", MFD_CLOEXEC);
	assert_int_equal(write(fd, "linked", 6), 6);
	assert_int_equal(delta_put_marked(o, "m", fd, &mark, &e), 0);
	assert_int_equal(delta_put_same(o, "k", false, "m", &e), 0);
	assert_int_equal(delta_put_same(o, "z", false, "m", &e), 0);
	close(fd);
}

static void test_copy(void **state)
{
	struct review_copy c;
	struct err e = {0};
	(void)state;
	assert_int_equal(review_copy_open(top, &c, &e), -1);
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	collect(fill_some, 0);
	collect(fill_twice, -1); // leaves the old one
	assert_int_equal(review_copy_open(top, &c, &e), 0);
	static const char *const order[] = {"a", "a/.git", "a/x", "a.b", "b"};
	assert_int_equal(c.n, countof(order));
	for (size_t i = 0; i < c.n; i++)
		assert_string_equal(c.v[i].path, order[i]);
	const struct copy_entry *en = review_copy_find(&c, "b");
	assert_true(en->exec && en->kept);
	assert_memory_equal(review_copy_bytes(&c, en), "bytes", 5);
	assert_null(review_copy_bytes(&c, review_copy_find(&c, "a/x"))); // over the limit: named only
	assert_int_equal(review_copy_find(&c, "a/.git")->kind, 'g');
	assert_null(review_copy_find(&c, "c"));
	review_copy_done(&c);
	// names of one file share its content
	const char *kept = NULL;
	collect(fill_known, 0);
	assert_int_equal(review_copy_open(top, &c, &e), 0);
	assert_int_equal(c.n, 3);
	for (size_t i = 0; i < c.n; i++) {
		if (kept)
			assert_ptr_equal(review_copy_bytes(&c, &c.v[i]), kept);
		kept = review_copy_bytes(&c, &c.v[i]);
		assert_memory_equal(kept, "linked", 6);
	}
	review_copy_done(&c);
	// cut anywhere, it is seen as damaged and never read
	struct stat st;
	assert_int_equal(fstatat(top, "skep/s", &st, 0), 0);
	int fd = openat(top, "skep/s", O_RDWR | O_CLOEXEC);
	for (off_t n = st.st_size - 1; n > 0; n -= 7) {
		assert_int_equal(ftruncate(fd, n), 0);
		assert_int_equal(review_copy_open(top, &c, &e), -1);
	}
	close(fd);
}

static struct shadow_update update(const char *path, uint32_t mode, struct shadow *s, const char *text)
{
	struct err e;
	struct shadow_update u = {.path = path, .mode = mode};
	if (mode)
		assert_int_equal(shadow_write(s, text, strlen(text), u.oid, &e), 0);
	return u;
}

static int count(void *arg, const char *path, const struct shadow_entry *en)
{
	struct buf *b = arg;
	buf_fmt(b, "%s:%o ", path, en->mode);
	return 0;
}

static void assert_tree(struct shadow *s, const uint8_t tree[SHADOW_OID], const char *want)
{
	struct err e = {0};
	auto_buf struct buf b = BUF_INIT(4096);
	assert_int_equal(shadow_walk(s, tree, "", count, &b, &e), 0);
	assert_string_equal(buf_cstr(&b), want);
}

static void test_shadow(void **state)
{
	static const uint8_t empty_tree[SHADOW_OID] = {0x4b, 0x82, 0x5d, 0xc6, 0x42, 0xcb, 0x6e, 0xb9, 0xa0, 0x60,
						       0xe5, 0x4b, 0xf8, 0xd6, 0x92, 0x88, 0xfb, 0xee, 0x49, 0x04};
	struct shadow *s;
	struct err e = {0};
	uint8_t a[SHADOW_OID], b[SHADOW_OID], none[SHADOW_OID] = {0};
	(void)state;
	assert_int_equal(shadow_open(top_path, &s, &e), 0);
	assert_int_equal(shadow_base(s, a, &e), 0); // nothing was pinned or reviewed yet
	assert_memory_equal(a, empty_tree, sizeof a);
	struct shadow_update first[] = {update("d/e/f", 0100644, s, "1"), update("d/g", 0100755, s, "2"), update("l", 0120000, s, "d")};
	assert_int_equal(shadow_update(s, empty_tree, first, 3, a, &e), 0); // which is nowhere: git knows it by heart
	assert_tree(s, a, "d/e/f:100644 d/g:100755 l:120000 ");
	struct shadow_update second[] = {update("d", 0100644, s, "file"), update("d/e/f", 0, s, ""), update("d/g", 0, s, ""),
					 update("l", 0, s, ""), update("l/below", 0100644, s, "x")};
	assert_int_equal(shadow_update(s, a, second, 5, b, &e), 0);
	assert_tree(s, b, "d:100644 l/below:100644 ");
	struct shadow_update bad[] = {update("d", 0100644, s, "file"), update("d/e", 0100644, s, "x")};
	assert_int_equal(shadow_update(s, a, bad, 2, b, &e), -1);
	assert_int_equal(shadow_base_set(s, a, &e), 0);
	assert_int_equal(shadow_base(s, b, &e), 0);
	assert_memory_equal(a, b, SHADOW_OID);
	struct shadow_entry en;
	assert_int_equal(shadow_lookup(s, a, "d/g", &en, &e), 1);
	assert_int_equal(shadow_lookup(s, a, "d/g/below", &en, &e), 0);
	assert_int_equal(shadow_lookup(s, a, "nothing", &en, &e), 0);
	struct shadow_bytes bytes;
	assert_int_equal(shadow_lookup(s, a, "d/g", &en, &e), 1);
	assert_int_equal(shadow_read(s, en.oid, &bytes, &e), 0);
	assert_memory_equal(bytes.p, "2", 1);
	shadow_bytes_done(&bytes);
	assert_int_equal(shadow_read(s, none, &bytes, &e), -1);
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	assert_int_equal(shadow_sync(s, &e), 0);
	shadow_close(s);
}

static void test_letters(void **state)
{
	struct err e;
	(void)state;
	assert_int_equal(fs_write(top, "Name", "1", 1, 0644, &e) | fs_mkdirs(top, "d/e", 0755, &e) | fs_write(top, "d/e/F", "1", 1, 0644, &e), 0);
	assert_false(side_folds_case(top)); // /tmp tells them apart
	assert_true(side_has_exact(top, "Name"));
	assert_false(side_has_exact(top, "name"));
	assert_true(side_has_exact(top, "d/e/F"));
	assert_false(side_has_exact(top, "d/e/f"));
	// a file system that does not is one where the other name is the same file, without being a link of it
	assert_int_equal(linkat(top, "Name", top, "nAME", 0), 0);
	assert_false(side_folds_case(top));
}

static void test_intent(void **state)
{
	struct txn t = {.what = TXN_UNDO, .number = 7, .target = xstrdup("/somewhere"), .ino = 5}, back;
	struct err e = {0};
	auto_buf struct buf b = BUF_INIT(1 << 20);
	(void)state;
	id_make('t', t.id);
	struct op *op = txn_add(&t, OP_PUT, "a/b");
	op->temp = xstrdup("a/.t");
	op->now = (struct side){.type = SIDE_FILE, .exec = true, .hashed = true, .perm = 0755, .size = 3};
	op->now.sha[5] = 9;
	txn_add(&t, OP_MKDIR, "c");
	struct txn_base *base = txn_add_base(&t, "a/b");
	base->after.mode = 0100755;
	txn_print(&t, &b);
	assert_int_equal(txn_parse(b.p, b.n, &back, &e), 0);
	assert_string_equal(back.id, t.id);
	assert_int_equal(back.n, 2);
	assert_int_equal(back.v[0].now.sha[5], 9);
	assert_int_equal(back.v[0].now.perm, 0755);
	assert_int_equal(back.base[0].after.mode, 0100755);
	txn_done(&back);
	for (size_t i = 0; i < b.n; i++) {
		b.p[i] ^= 1; // one bit anywhere
		assert_int_equal(txn_parse(b.p, b.n, &back, &e), -1);
		b.p[i] ^= 1;
		assert_int_equal(txn_parse(b.p, i, &back, &e), -1);
	}
	txn_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_copy, setup, teardown),
		cmocka_unit_test_setup_teardown(test_shadow, setup, teardown),
		cmocka_unit_test_setup_teardown(test_letters, setup, teardown),
		cmocka_unit_test(test_intent),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
