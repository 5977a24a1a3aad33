// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static char dir[64];
static char *path;

static int set_up(void **state)
{
	(void)state;
	if (fmt_to(dir, sizeof dir, "/tmp/skep-store-XXXXXX") || !mkdtemp(dir))
		return -1;
	path = xasprintf("%s/state.db", dir);
	return 0;
}

static int tear_down(void **state)
{
	struct err e;
	(void)state;
	free(path);
	return fs_remove_tree(AT_FDCWD, dir, &e);
}

static struct store *must_open(void)
{
	struct err e = {0};
	struct store *s = store_open(path, &e);
	if (!s)
		fail_msg("%s", e.msg);
	return s;
}

static void fill(struct sandbox *b, const char *id, const char *name)
{
	*b = (struct sandbox){.state = STATE_STOPPED, .profile = PROFILE_ROOT, .nested = true, .keep = true, .limits = LIMITS_DEFAULT,
			      .umask_bits = 027, .created = 1000, .pending = -1, .base_ino = UINT64_MAX, .anchor_seq = 7};
	memcpy(b->id, id, strlen(id) + 1);
	memcpy(b->layer, "labcdefghijklmno", 17);
	memcpy(b->anchor, "feed", 5);
	b->name = name ? xstrdup(name) : NULL;
	b->owner = xstrdup("ann");
	b->repo = xstrdup("/p \xff");
	b->ws_path = xstrdup("/p");
	strv_add(&b->env, "A=1");
	strv_add(&b->env, "B=two\nlines");
	b->labels = xcalloc(1, sizeof *b->labels);
	b->mounts = xcalloc(1, sizeof *b->mounts);
	b->mounts[0] = (struct cell_mount){.src = xstrdup("/s"), .dst = xstrdup("/d"), .writable = true, .volume = true};
	b->n_mounts = 1;
	b->has_isolation = true;
	b->isolation = (struct isolation){.backend = xstrdup("native"), .landlock = 7, .no_new_privs = true};
}

static void add_sandbox(struct store *s, const char *id, const char *name)
{
	struct sandbox b;
	struct err e;
	fill(&b, id, name);
	assert_int_equal(store_sandbox_add(s, &b, &e), 0);
	sandbox_done(&b);
}

struct seen {
	int n;
	struct sandbox last;
};

static void see(void *ctx, struct sandbox *b)
{
	struct seen *s = ctx;
	sandbox_done(&s->last);
	s->last = *b;
	s->n++;
}

static struct seen all(struct store *s)
{
	struct seen seen = {0};
	struct err e;
	assert_int_equal(store_sandboxes(s, see, &seen, &e), 0);
	return seen;
}

static void see_project(void *ctx, const char *sandbox, struct project_row *p)
{
	struct project_row *out = ctx;
	assert_string_equal(sandbox, "s1");
	project_row_done(out);
	*out = *p;
	*p = (struct project_row){0};
}

static void what_the_project_said(void **state)
{
	(void)state;
	struct store *s = must_open();
	struct err e;
	struct project_row p = {.file = xstrdup("/p/.skep.yaml"), .test = xstrdup("make"), .ports = {80, 65535}, .n_ports = 2}, got = {0};
	strv_add(&p.hide, ".env");
	add_sandbox(s, "s1", NULL);
	add_sandbox(s, "s2", NULL);
	assert_int_equal(store_project_set(s, "s1", &p, &e), 0);
	project_row_done(&p);
	assert_int_equal(store_project_set(s, "s2", &p, &e), 0); // nothing to keep
	store_close(s);
	s = must_open();
	assert_int_equal(store_projects(s, see_project, &got, &e), 0);
	assert_string_equal(got.file, "/p/.skep.yaml");
	assert_string_equal(got.hide[0], ".env");
	assert_null(got.setup);
	assert_string_equal(got.test, "make");
	assert_int_equal(got.n_ports, 2);
	assert_int_equal(got.ports[1], 65535);
	project_row_done(&got);
	assert_int_equal(store_sandbox_drop(s, "s1", &e) | store_sandbox_drop(s, "s2", &e), 0);
	assert_int_equal(store_projects(s, see_project, &got, &e), 0);
	assert_null(got.file);
	store_close(s);
}

static void a_sandbox_comes_back_whole(void **state)
{
	(void)state;
	struct store *s = must_open();
	add_sandbox(s, "s1", "work");
	store_close(s);
	s = must_open();
	struct seen got = all(s);
	struct sandbox *b = &got.last;
	assert_int_equal(got.n, 1);
	assert_string_equal(b->id, "s1");
	assert_string_equal(b->name, "work");
	assert_string_equal(b->repo, "/p \xff");
	assert_string_equal(b->env[1], "B=two\nlines");
	assert_int_equal(strv_len(b->labels), 0);
	assert_int_equal(b->profile, PROFILE_ROOT);
	assert_true(b->nested && b->keep && !b->run && !b->strict && !b->trace_off);
	assert_true(b->base_ino == UINT64_MAX && b->pending == -1);
	assert_int_equal(b->umask_bits, 027);
	assert_true(b->limits.memory == LIMITS_DEFAULT.memory);
	assert_true(b->n_mounts == 1 && b->mounts[0].writable && b->mounts[0].volume && !b->mounts[0].cache && !strcmp(b->mounts[0].dst, "/d"));
	assert_true(b->has_isolation && b->isolation.landlock == 7);
	assert_true(b->anchor_seq == 7 && !strcmp(b->anchor, "feed"));
	assert_null(b->image);
	sandbox_done(b);
	store_close(s);
}

static void a_name_is_there_once(void **state)
{
	(void)state;
	struct store *s = must_open();
	struct sandbox b;
	struct err e;
	add_sandbox(s, "s1", "work");
	add_sandbox(s, "s2", NULL);
	add_sandbox(s, "s3", NULL);
	fill(&b, "s4", "work");
	assert_int_equal(store_sandbox_add(s, &b, &e), -1);
	sandbox_done(&b);
	struct seen got = all(s);
	assert_int_equal(got.n, 3);
	sandbox_done(&got.last);
	store_close(s);
}

static void rollback_keeps_earlier_lazy_writes(void **state)
{
	(void)state;
	struct store *s = must_open();
	struct err e;
	add_sandbox(s, "s1", NULL); // lazy
	assert_int_equal(store_begin(s, &e), 0);
	add_sandbox(s, "s2", NULL);
	store_rollback(s);
	assert_int_equal(store_begin(s, &e), 0);
	add_sandbox(s, "s3", NULL);
	assert_int_equal(store_commit(s, &e), 0);
	store_close(s);
	s = must_open();
	struct seen got = all(s);
	assert_int_equal(got.n, 2);
	assert_string_equal(got.last.id, "s3");
	sandbox_done(&got.last);
	store_close(s);
}

static void add_exec(struct store *s, const char *id, const char *sandbox)
{
	struct err e;
	struct exec_row x = {.running = true, .tty = true, .started = 5};
	memcpy(x.id, id, strlen(id) + 1);
	memcpy(x.sandbox, sandbox, strlen(sandbox) + 1);
	strv_add(&x.argv, "echo");
	strv_add(&x.argv, "");
	x.cwd = xstrdup("/p");
	assert_int_equal(store_exec_add(s, &x, &e), 0);
	exec_row_done(&x);
}

static void ids(void *ctx, const struct exec_row *x)
{
	buf_fmt(ctx, "%s ", x->id);
}

static void execs(void **state)
{
	(void)state;
	struct store *s = must_open();
	struct err e = {0};
	struct exec_row x;
	add_exec(s, "xaa1", "s1");
	add_exec(s, "xaa2", "s1");
	add_exec(s, "xbb1", "s2");
	auto_buf struct buf b = BUF_INIT(256);
	assert_int_equal(store_execs(s, NULL, ids, &b, &e), 0);
	assert_string_equal(buf_cstr(&b), "xbb1 xaa2 xaa1 "); // newest first, also within a millisecond
	assert_int_equal(store_exec_get(s, "xaa", &x, &e), -1);
	assert_int_equal(e.kind, ERR_CONFLICT);
	assert_int_equal(store_exec_get(s, "xzz", &x, &e), -1);
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	struct exec_result r = {.status = 3, .out_bytes = 9, .ended_unix_ms = 50};
	assert_int_equal(store_exec_started(s, "xaa1", 42, &e), 0);
	assert_int_equal(store_exec_ended(s, "xaa1", &r, &e), 0);
	r.status = 99;
	assert_int_equal(store_exec_ended(s, "xaa1", &r, &e), 0); // a replay
	assert_int_equal(store_execs_lost(s, "s1", "its cell died", 60, &e), 0);
	assert_int_equal(store_exec_get(s, "xaa1", &x, &e), 0);
	assert_true(!x.running && x.result.status == 3 && x.pid == 42 && x.started == 5 && x.result.out_bytes == 9);
	assert_string_equal(x.argv[1], "");
	exec_row_done(&x);
	assert_int_equal(store_exec_get(s, "xaa2", &x, &e), 0);
	assert_true(!x.running && x.result.signal == 9 && x.result.status == 137 && !strcmp(x.result.reason, "its cell died"));
	exec_row_done(&x);
	assert_int_equal(store_exec_get(s, "xbb", &x, &e), 0);
	assert_true(x.running);
	exec_row_done(&x);
	store_close(s);
}

static void count(void *ctx, const struct exec_row *x)
{
	(void)x;
	++*(int *)ctx;
}

static void only_the_newest_execs_are_kept(void **state)
{
	(void)state;
	struct store *s = must_open();
	struct err e;
	struct exec_row x;
	int n = 0;
	struct exec_result r = {0};
	for (int i = 0; i < STORE_EXECS_KEPT + 20; i++) {
		auto_free char *id = xasprintf("x%06d", i);
		add_exec(s, id, "s1");
		if (i != 3) // one that still runs
			assert_int_equal(store_exec_ended(s, id, &r, &e), 0);
	}
	assert_int_equal(store_exec_trim(s, "s1", &e), 0);
	assert_int_equal(store_execs(s, "s1", count, &n, &e), 0);
	assert_int_equal(n, STORE_EXECS_KEPT + 1);
	assert_int_equal(store_exec_get(s, "x000003", &x, &e), 0);
	exec_row_done(&x);
	store_close(s);
}

static void dropping_a_sandbox_drops_what_is_its(void **state)
{
	(void)state;
	struct store *s = must_open();
	struct err e;
	int n = 0;
	struct cell_row c = {.sandbox = "s1", .key = "k", .pid = 3, .start = 4};
	struct gone_row g = {.id = "s1", .removed = 8, .anchor_seq = 9, .anchor = "aa"};
	add_sandbox(s, "s1", NULL);
	add_exec(s, "xaa1", "s1");
	assert_int_equal(store_cell_set(s, &c, &e), 0);
	assert_int_equal(store_gone_add(s, &g, &e), 0);
	assert_int_equal(store_sandbox_drop(s, "s1", &e), 0);
	assert_int_equal(store_execs(s, NULL, count, &n, &e), 0);
	struct seen got = all(s);
	assert_int_equal(got.n + n, 0);
	g = (struct gone_row){0};
	assert_int_equal(store_gone_get(s, "s1", &g, &e), 0);
	assert_true(g.anchor_seq == 9 && !strcmp(g.anchor, "aa"));
	store_close(s);
}

static void see_volume(void *ctx, struct volume_row *taken)
{
	struct volume_row *out = ctx;
	volume_row_done(out);
	*out = *taken;
}

static void volumes(void **state)
{
	(void)state;
	struct err e;
	struct store *s = must_open();
	char ann[] = "team=ann", nobody[] = "", name[] = "data";
	struct volume_row a = {.id = "v1", .name = name, .owner = ann, .created = 5}, b = {.id = "v2", .name = name, .owner = nobody, .created = 6};
	struct volume_row again = {.id = "v3", .name = name, .owner = ann, .created = 7}, seen = {0};
	assert_int_equal(store_volume_add(s, &a, &e), 0);
	assert_int_equal(store_volume_add(s, &b, &e), 0); // another owner's
	assert_int_equal(store_volume_add(s, &again, &e), -1);
	assert_int_equal(store_flush(s, &e), 0);
	store_close(s);
	s = must_open();
	assert_int_equal(store_volumes(s, see_volume, &seen, &e), 0);
	assert_true(!strcmp(seen.id, "v2") && !*seen.owner && seen.created == 6); // the newest is the last
	assert_int_equal(store_volume_drop(s, "v2", &e), 0);
	assert_int_equal(store_volumes(s, see_volume, &seen, &e), 0);
	assert_true(!strcmp(seen.id, "v1") && !strcmp(seen.owner, "team=ann") && !strcmp(seen.name, "data"));
	volume_row_done(&seen);
	store_close(s);
}

static void a_damaged_file_is_moved_aside(void **state)
{
	(void)state;
	struct err e;
	bool kept = false;
	static const char junk[8192] = "this is no database at all";
	assert_int_equal(fs_write(AT_FDCWD, path, junk, sizeof junk, 0600, &e), 0);
	struct store *s = must_open();
	struct seen got = all(s);
	assert_int_equal(got.n, 0);
	store_close(s);
	DIR *d = opendir(dir);
	for (struct dirent *ent; (ent = readdir(d));)
		kept |= str_has_prefix(ent->d_name, "state.db.bad-");
	closedir(d);
	assert_true(kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_sandbox_comes_back_whole, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_the_project_said, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_name_is_there_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(rollback_keeps_earlier_lazy_writes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(execs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(only_the_newest_execs_are_kept, set_up, tear_down),
		cmocka_unit_test_setup_teardown(dropping_a_sandbox_drops_what_is_its, set_up, tear_down),
		cmocka_unit_test_setup_teardown(volumes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_damaged_file_is_moved_aside, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
