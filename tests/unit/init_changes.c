// SPDX-License-Identifier: Apache-2.0
// The change walk, on directories laid out as an overlay leaves them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fs.h"
#include "base/mem.h"
#include "init/changes.h"
#include "init/gitindex.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

struct place {
	char dir[64];
	int top, base;
};

static int set_up(void **state)
{
	struct place *p = xcalloc(1, sizeof *p);
	struct err e;
	memcpy(p->dir, "/tmp/skep-changes-XXXXXX", 25);
	assert_non_null(mkdtemp(p->dir));
	p->top = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(fs_mkdirs(p->top, "ws", 0755, &e) | fs_mkdirs(p->top, "base", 0755, &e), 0);
	p->base = openat(p->top, "base", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = p;
	return 0;
}

static int tear_down(void **state)
{
	struct place *p = *state;
	struct err e;
	close(p->base);
	close(p->top);
	assert_int_equal(fs_remove_tree(AT_FDCWD, p->dir, &e), 0);
	free(p);
	return 0;
}

static void put(struct place *p, const char *path, const char *text)
{
	struct err e;
	assert_int_equal(fs_write(p->top, path, text, strlen(text), 0644, &e), 0);
}

// What a walk answered.
struct changes {
	uint32_t count, more, n_events;
	char **list;
	char *events; // "A path", with * for a hash before and after, one line each
	struct changes_sum sum;
};

static void put_event(struct buf *b, struct wire *w)
{
	size_t before, after;
	char kind = (char)wire_get_u8(w);
	bool base = wire_get_u8(w);
	wire_get_u8(w);
	auto_free char *path = wire_get_str(w);
	wire_get_bytes(w, &before);
	wire_get_bytes(w, &after);
	buf_fmt(b, "%c %s%s%s%s\n", kind, before ? "*" : "", path, after ? "*" : "", base ? " =" : "");
}

static char *const *hide; // of every walk

static int walk(struct place *p, struct known *k, struct buf *news, struct changes *out)
{
	auto_buf struct buf answer = BUF_INIT(1 << 20), events = BUF_INIT(1 << 20);
	struct known none = {0};
	*out = (struct changes){0};
	int rc = changes_walk(&(struct changes_of){.layer = p->top, .base = p->base, .hide = hide}, k ? k : &none, &answer, news);
	struct wire w = {.p = (const uint8_t *)answer.p, .n = answer.n};
	if (rc)
		return rc;
	out->count = wire_get_u32(&w);
	out->list = wire_get_strv(&w);
	out->more = wire_get_u32(&w);
	out->n_events = wire_get_u32(&w);
	for (uint32_t i = 0; i < out->n_events; i++)
		put_event(&events, &w);
	changes_sum_read(&w, &out->sum);
	assert_false(w.bad);
	assert_int_equal(w.n, 0);
	out->events = buf_take(&events);
	if (!k)
		known_done(&none);
	return 0;
}

static void changes_done(struct changes *c)
{
	strv_free(c->list);
	free(c->events);
	changes_sum_done(&c->sum);
}

static bool has(const struct changes *c, const char *line)
{
	for (char **l = c->list; l && *l; l++)
		if (!strcmp(*l, line))
			return true;
	return false;
}

static void every_kind_is_named(void **state)
{
	struct place *p = *state;
	struct changes c;
	struct err e;
	put(p, "base/same", "1");
	put(p, "ws/same", "1"); // copied up, not changed
	put(p, "base/edited", "old");
	put(p, "ws/edited", "new");
	put(p, "ws/added", "x");
	put(p, "base/mode", "x");
	put(p, "ws/mode", "x");
	assert_int_equal(fchmodat(p->top, "ws/mode", 0755, 0), 0);
	put(p, "base/removed", "x");
	assert_int_equal(mknodat(p->top, "ws/removed", S_IFCHR, makedev(0, 0)), 0);
	assert_int_equal(symlinkat("/etc/passwd", p->top, "ws/link"), 0);
	assert_int_equal(fs_mkdirs(p->top, "ws/empty", 0755, &e), 0);
	assert_int_equal(fs_mkdirs(p->top, "ws/.git/objects", 0755, &e), 0);
	assert_int_equal(walk(p, NULL, NULL, &c), 0);
	assert_true(has(&c, "M edited") && has(&c, "A added") && has(&c, "M mode") && has(&c, "D removed"));
	assert_true(has(&c, "A link") && has(&c, "A empty/"));
	assert_int_equal(c.count, 6);
	changes_done(&c);
}

static void a_replaced_directory_shows_both_sides(void **state)
{
	struct place *p = *state;
	struct changes c;
	struct err e;
	assert_int_equal(fs_mkdirs(p->top, "base/d", 0755, &e) | fs_mkdirs(p->top, "ws/d", 0755, &e), 0);
	put(p, "base/d/old", "x");
	put(p, "ws/d/new", "x");
	auto_free char *dir = xasprintf("%s/ws/d", p->dir);
	if (setxattr(dir, "user.overlay.opaque", "y", 1, 0)) {
		skip();
	}
	assert_int_equal(walk(p, NULL, NULL, &c), 0);
	assert_true(has(&c, "A d/new") && has(&c, "D d/old"));
	changes_done(&c);
}

static void what_is_hidden_is_no_change(void **state)
{
	struct place *p = *state;
	struct changes c;
	struct err e;
	char env[] = ".env", pem[] = "**/*.pem", dir[] = "secrets", *hidden[] = {env, pem, dir, NULL};
	put(p, "base/.env", "theirs");
	put(p, "ws/.env", "mine");
	assert_int_equal(fs_mkdirs(p->top, "ws/d", 0755, &e) | fs_mkdirs(p->top, "ws/secrets", 0755, &e), 0);
	put(p, "ws/d/k.pem", "x");
	put(p, "ws/d/other", "x");
	put(p, "ws/secrets/s", "x");
	hide = hidden;
	assert_int_equal(walk(p, NULL, NULL, &c), 0);
	hide = NULL;
	assert_true(has(&c, "A d/other"));
	assert_int_equal(c.count, 1);
	changes_done(&c);
}

static void a_layer_that_can_not_be_seen_is_not_unchanged(void **state)
{
	struct place *p = *state;
	struct changes c;
	struct err e;
	assert_int_equal(fs_remove_tree(p->top, "ws", &e), 0);
	assert_int_equal(walk(p, NULL, NULL, &c), -1);
}

static void expect(struct place *p, struct known *k, const char *events)
{
	struct changes c;
	assert_int_equal(walk(p, k, NULL, &c), 0);
	assert_string_equal(c.events ? c.events : "", events);
	changes_done(&c);
}

static void only_news_are_told(void **state)
{
	struct place *p = *state;
	struct known k = {0};
	struct err e;
	put(p, "base/edited", "old");
	put(p, "ws/edited", "new");
	put(p, "ws/added", "x");
	assert_int_equal(fs_mkdirs(p->top, "ws/dir", 0755, &e), 0);
	expect(p, &k, "A added*\nA dir/\nM *edited*\n");
	expect(p, &k, "");
	struct timespec now[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
	assert_int_equal(utimensat(p->top, "ws/added", now, 0), 0); // touched
	expect(p, &k, "");
	put(p, "ws/added", "y");
	put(p, "ws/dir/file", "z"); // the directory is not gone
	expect(p, &k, "M *added*\nA dir/file*\n");
	assert_int_equal(fchmodat(p->top, "ws/added", 0755, 0), 0);
	expect(p, &k, "M *added*\n");
	assert_int_equal(unlinkat(p->top, "ws/added", 0), 0);
	expect(p, &k, "D *added =\n");
	put(p, "ws/edited", "old");
	expect(p, &k, "M *edited =\n");
	known_done(&k);
}

static void what_is_older_is_no_news(void **state)
{
	struct place *p = *state;
	struct known k = {0};
	put(p, "ws/before", "x");
	usleep(20000);
	clock_gettime(CLOCK_REALTIME_COARSE, &k.since);
	usleep(20000);
	put(p, "ws/after", "x");
	expect(p, &k, "A after*\n");
	put(p, "ws/before", "y");
	expect(p, &k, "M before*\n");
	known_done(&k);
}

static void a_child_s_walk_is_learned(void **state)
{
	struct place *p = *state;
	struct known child = {0}, parent = {0};
	struct changes c;
	auto_buf struct buf news = BUF_INIT(1 << 20);
	put(p, "ws/one", "1");
	put(p, "ws/two", "2");
	assert_int_equal(walk(p, &child, &news, &c), 0);
	changes_done(&c);
	changes_learn(&parent, news.p, news.n);
	expect(p, &parent, "");
	assert_int_equal(unlinkat(p->top, "ws/two", 0), 0);
	buf_clear(&news);
	assert_int_equal(walk(p, &child, &news, &c), 0);
	changes_done(&c);
	changes_learn(&parent, news.p, news.n);
	assert_int_equal(parent.n, 1);
	for (size_t n = 0; n < news.n; n++) { // cut off anywhere
		struct known other = {0};
		changes_learn(&other, news.p, n);
		known_done(&other);
	}
	known_done(&child);
	known_done(&parent);
}

static void count_event(void *ctx, const struct known_event *ev)
{
	*(uint32_t *)ctx += ev->kind != 0;
}

static void one_path_alone(void **state)
{
	struct place *p = *state;
	struct known k = {0};
	struct err e;
	assert_int_equal(fs_mkdirs(p->top, "ws/d/e", 0755, &e) | fs_mkdirs(p->top, "base/d/e", 0755, &e), 0);
	put(p, "ws/d/e/new", "x");
	put(p, "base/d/e/old", "x");
	put(p, "ws/other", "x");
	struct stack s;
	auto_fd int ws = changes_stack(&(struct changes_of){.layer = p->top, .base = p->base}, &s);
	uint32_t told = 0;
	assert_true(ws >= 0);
	struct known_look l = {.known = &k, .fn = count_event, .ctx = &told, .hash_bytes = 1000, .hash_files = 10};
	static const struct {
		const char *at;
		uint32_t told;
	} rows[] = {{"d/e/old", 0}, {"d/none/old", 0}, {"d/e/new", 1}, {"d", 0}, {"other", 1}, {"other/below", 0}, {"../ws", 0}, {"", 0}};
	for (size_t i = 0; i < countof(rows); i++) {
		told = 0;
		assert_int_equal(known_walk(&s, rows[i].at, true, &l, &e), 0);
		assert_int_equal(told, rows[i].told);
	}
	assert_int_equal(unlinkat(p->top, "ws/d/e/new", 0), 0);
	told = 0;
	assert_int_equal(known_walk(&s, "d/e/new", false, &l, &e), 0);
	assert_int_equal(told, 1);
	known_done(&k);
}

// --- ignored files ---

static void ignored_files_are_counted_apart(void **state)
{
	struct place *p = *state;
	struct changes c;
	struct err e;
	assert_int_equal(fs_mkdirs(p->top, "base/.git/info", 0755, &e) | fs_mkdirs(p->top, "base/d", 0755, &e), 0);
	assert_int_equal(fs_mkdirs(p->top, "ws/build/deep", 0755, &e) | fs_mkdirs(p->top, "ws/d/build", 0755, &e), 0);
	put(p, "base/.gitignore", "/build/\n*.o\n!keep.o\n");
	put(p, "base/d/.gitignore", "local\n");
	put(p, "base/.git/info/exclude", "mine\n");
	put(p, "ws/build/deep/x", "1");
	put(p, "ws/build/keep.o", "1"); // below what is ignored nothing is taken out
	put(p, "ws/a.o", "1");
	put(p, "ws/keep.o", "1");
	put(p, "ws/d/build/x", "1");
	put(p, "ws/d/local", "1");
	put(p, "ws/local", "1");
	put(p, "ws/mine", "1");
	put(p, "base/old.o", "1"); // there before, and no index has it
	put(p, "ws/old.o", "2");
	assert_int_equal(walk(p, NULL, NULL, &c), 0);
	assert_true(has(&c, "A keep.o") && has(&c, "A d/build/x") && has(&c, "A local"));
	assert_int_equal(c.count, 3);
	assert_int_equal(c.sum.ignored, 6);
	changes_done(&c);
}

static void a_sandbox_s_own_rules_hide_nothing(void **state)
{
	struct place *p = *state;
	struct changes c;
	struct err e;
	assert_int_equal(fs_mkdirs(p->top, "base/.git", 0755, &e) | fs_mkdirs(p->top, "ws/.git/info", 0755, &e), 0);
	put(p, "ws/.gitignore", "*\n");
	put(p, "ws/.git/info/exclude", "*\n");
	put(p, "ws/work", "1");
	assert_int_equal(walk(p, NULL, NULL, &c), 0);
	assert_int_equal(c.count, 2);
	assert_int_equal(c.sum.ignored, 0);
	changes_done(&c);
}

static void without_a_repository_nothing_is_ignored(void **state)
{
	struct place *p = *state;
	struct changes c;
	put(p, "base/.gitignore", "*\n");
	put(p, "ws/work", "1");
	assert_int_equal(walk(p, NULL, NULL, &c), 0);
	assert_int_equal(c.count, 1);
	changes_done(&c);
}

// --- work that is no file ---

#define ID(c) c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c
#define ZERO ID("0")
static const char id_base[] = ID("b");

static void put_object(struct place *p, const char *side, const char *id)
{
	struct err e;
	auto_free char *dir = xasprintf("%s/.git/objects/%.2s", side, id), *file = xasprintf("%s/%s", dir, id + 2);
	assert_int_equal(fs_mkdirs(p->top, dir, 0755, &e), 0);
	put(p, file, "x");
}

static void put_git(struct place *p, const char *path, const char *format, const char *a, const char *b)
{
	struct err e;
	auto_free char *dir = xstrdup(path);
	auto_buf struct buf out = BUF_INIT(1 << 16);
	*strrchr(dir, '/') = 0;
	assert_int_equal(fs_mkdirs(p->top, dir, 0755, &e), 0);
	for (const char *f = format; *f; f++) {
		if (*f == '1')
			buf_str(&out, a);
		else if (*f == '2')
			buf_str(&out, b);
		else
			buf_byte(&out, *f);
	}
	put(p, path, buf_cstr(&out));
}

static bool has_extra(const struct changes *c, const char *line)
{
	for (char **l = c->sum.extra; l && *l; l++)
		if (!strcmp(*l, line))
			return true;
	return false;
}

static void base_repository(struct place *p)
{
	put_git(p, "base/.git/HEAD", "ref: refs/heads/main\n", "", "");
	put_git(p, "base/.git/packed-refs", "# pack-refs with: sorted \n1 refs/heads/main\n1 refs/tags/va\n", id_base, "");
	put_git(p, "base/.git/logs/HEAD", "2 1 me <m> 1 +0000\tcommit (initial): x\n", id_base, ZERO);
}

static void refs_that_the_base_has_not_are_pending(void **state)
{
	struct place *p = *state;
	struct changes c;
	base_repository(p);
	put_git(p, "ws/.git/HEAD", "ref: refs/heads/main\n", "", "");
	put_git(p, "ws/.git/refs/heads/main", "1\n", id_base, "");
	assert_int_equal(walk(p, NULL, NULL, &c), 0);
	assert_int_equal(c.count, 0); // the same value in another form
	changes_done(&c);
	put_git(p, "ws/.git/refs/heads/a/feature", "1\n", ID("1"), "");
	put_git(p, "ws/.git/refs/notes/commits", "1\n", ID("2"), "");
	put_git(p, "ws/.git/refs/remotes/origin/x", "1\n", ID("3"), "");
	put_git(p, "ws/.git/packed-refs", "1 refs/heads/main\n2 refs/tags/va\n", ID("4"), id_base); // main is loose, too
	assert_int_equal(walk(p, NULL, NULL, &c), 0);
	assert_true(has_extra(&c, "G refs/heads/a/feature") && has_extra(&c, "G refs/notes/commits"));
	assert_int_equal(c.count, 2);
	assert_int_equal(c.sum.git, 2);
	changes_done(&c);
}

static void commits_of_no_ref_are_pending(void **state)
{
	struct place *p = *state;
	struct changes c;
	base_repository(p);
	put_object(p, "ws", ID("1"));
	put_object(p, "ws", ID("2"));
	put_object(p, "ws", ID("3"));
	put_git(p, "ws/.git/HEAD", "1\n", ID("3"), "");
	put_git(p, "ws/.git/logs/HEAD",
		"2 1 me <m> 1 +0000\tcommit (initial): x\n", id_base, ZERO);
	assert_int_equal(walk(p, NULL, NULL, &c), 0);
	assert_true(has_extra(&c, "G commit 333333333333"));
	assert_int_equal(c.count, 1);
	changes_done(&c);
	auto_free char *log = xasprintf("%s %s me <m> 1 +0000\tcommit (initial): x\n%s %s me <m> 1 +0000\tcommit: one\n"
					"%s %s me <m> 1 +0000\tcommit: two\n%s %s me <m> 1 +0000\treset: moving to HEAD~2\n"
					"%s %s me <m> 1 +0000\tcheckout: moving from main to HEAD~5\n",
					ZERO, id_base, id_base, ID("1"), ID("1"), ID("2"), ID("2"), id_base, id_base, ID("c"));
	put(p, "ws/.git/logs/HEAD", log);
	put_git(p, "ws/.git/HEAD", "ref: refs/heads/main\n", "", "");
	assert_int_equal(walk(p, NULL, NULL, &c), 0);
	assert_true(has_extra(&c, "G commit 222222222222")); // the newest of the line; what the base has does not count
	assert_int_equal(c.count, 1);
	changes_done(&c);
}

static void stashes_are_pending_one_by_one(void **state)
{
	struct place *p = *state;
	struct changes c;
	base_repository(p);
	put_git(p, "ws/.git/refs/stash", "1\n", ID("2"), "");
	auto_free char *log = xasprintf("%s %s me <m> 1 +0000\tWIP\n%s %s me <m> 1 +0000\tWIP\n", ZERO, ID("1"), ID("1"), ID("2"));
	put_git(p, "ws/.git/logs/refs/stash", "1", log, "");
	assert_int_equal(walk(p, NULL, NULL, &c), 0);
	assert_true(has_extra(&c, "G stash@{0}") && has_extra(&c, "G stash@{1}"));
	assert_int_equal(c.count, 2);
	changes_done(&c);
}

static void repositories_further_down_are_looked_at(void **state)
{
	struct place *p = *state;
	struct changes c;
	base_repository(p);
	put_git(p, "base/.gitignore", "/ignored/\n", "", "");
	put_git(p, "ws/.git/modules/lib/sub/refs/heads/x", "1\n", ID("1"), "");
	put_git(p, "ws/nested/.git/refs/heads/y", "1\n", ID("1"), "");
	put_git(p, "ws/ignored/.git/refs/heads/z", "1\n", ID("1"), "");
	put_object(p, "ws", ID("2"));
	put_git(p, "ws/.git/worktrees/w/HEAD", "1\n", ID("2"), "");
	assert_int_equal(walk(p, NULL, NULL, &c), 0);
	assert_true(has_extra(&c, "G .git/modules/lib/sub: refs/heads/x") && has_extra(&c, "G nested: refs/heads/y"));
	assert_true(has_extra(&c, "G commit 222222222222"));
	assert_int_equal(c.sum.git, 3);
	changes_done(&c);
}

static void index_entry(struct buf *b, const char *path, char digit)
{
	size_t start = b->n;
	uint8_t id[20];
	memset(id, digit == 'b' ? 0xbb : 0x11, sizeof id);
	for (int i = 0; i < 40; i++)
		buf_byte(b, 0);
	buf_add(b, id, sizeof id);
	buf_byte(b, 0);
	buf_byte(b, (char)strlen(path));
	buf_str(b, path);
	do
		buf_byte(b, 0);
	while ((b->n - start) % 8);
}

static void put_index(struct place *p, const char *file, const char *const *paths, const char *digits)
{
	struct err e;
	auto_buf struct buf b = BUF_INIT(1 << 16);
	char sum[20] = {0};
	buf_add(&b, "DIRC\0\0\0\2\0\0\0", 11);
	buf_byte(&b, (char)strlen(digits));
	for (size_t i = 0; digits[i]; i++)
		index_entry(&b, paths[i], digits[i]);
	buf_add(&b, sum, sizeof sum);
	assert_int_equal(fs_write(p->top, file, b.p, b.n, 0644, &e), 0);
	for (size_t n = 0; n < b.n; n++) { // cut off anywhere
		struct gitindex g;
		if (!gitindex_parse(&g, b.p, n))
			gitindex_done(&g);
	}
}

static void what_is_only_staged_is_pending(void **state)
{
	struct place *p = *state;
	struct changes c;
	struct err e;
	base_repository(p);
	assert_int_equal(fs_mkdirs(p->top, "ws/.git", 0755, &e), 0);
	put(p, "base/kept.o", "1");
	put(p, "base/.gitignore", "*.o\n");
	put_index(p, "base/.git/index", (const char *const[]){"a", "kept.o"}, "bb");
	put_index(p, "ws/.git/index", (const char *const[]){"a", "changed", "new"}, "111");
	assert_int_equal(walk(p, NULL, NULL, &c), 0);
	assert_int_equal(c.count, 0); // no object of the sandbox's
	changes_done(&c);
	put_object(p, "ws", ID("1"));
	put(p, "ws/changed", "told as a file");
	put(p, "ws/kept.o", "2"); // the index has it: not ignored
	struct known k = {0};
	assert_int_equal(walk(p, &k, NULL, &c), 0);
	assert_true(has_extra(&c, "G staged a") && has_extra(&c, "G staged new") && has(&c, "M kept.o"));
	assert_int_equal(c.count, 4);
	changes_done(&c);
	known_done(&k);
}

static void files_in_the_home_are_pending(void **state)
{
	struct place *p = *state;
	struct changes c;
	struct err e;
	assert_int_equal(fs_mkdirs(p->top, "home/.cache", 0755, &e) | fs_mkdirs(p->top, "home/out/deep", 0755, &e), 0);
	assert_int_equal(fs_mkdirs(p->top, "home/go/pkg", 0755, &e), 0);
	put(p, "home/.cache/x", "1");
	put(p, "home/go/pkg/x", "1");
	put(p, "home/out/deep/report", "1");
	put(p, "home/out/.hidden", "1");
	assert_int_equal(walk(p, NULL, NULL, &c), 0);
	assert_true(has_extra(&c, "H out/deep/report"));
	assert_int_equal(c.count, 1);
	assert_int_equal(c.sum.outside, 1);
	changes_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_kind_is_named, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_replaced_directory_shows_both_sides, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_hidden_is_no_change, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_layer_that_can_not_be_seen_is_not_unchanged, set_up, tear_down),
		cmocka_unit_test_setup_teardown(only_news_are_told, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_older_is_no_news, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_child_s_walk_is_learned, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_path_alone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(ignored_files_are_counted_apart, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_sandbox_s_own_rules_hide_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(without_a_repository_nothing_is_ignored, set_up, tear_down),
		cmocka_unit_test_setup_teardown(refs_that_the_base_has_not_are_pending, set_up, tear_down),
		cmocka_unit_test_setup_teardown(commits_of_no_ref_are_pending, set_up, tear_down),
		cmocka_unit_test_setup_teardown(stashes_are_pending_one_by_one, set_up, tear_down),
		cmocka_unit_test_setup_teardown(repositories_further_down_are_looked_at, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_only_staged_is_pending, set_up, tear_down),
		cmocka_unit_test_setup_teardown(files_in_the_home_are_pending, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
