// SPDX-License-Identifier: Apache-2.0
// What outlives state.db: records of rows, the backup, and what an open finds when the file is damaged or gone.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/store.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];
static char path[80];

static int set_up(void **state)
{
	(void)state;
	memcpy(dir, "/tmp/skep-keep-XXXXXX", 22);
	assert_non_null(mkdtemp(dir));
	return fmt_to(path, sizeof path, "%s/state.db", dir);
}

static int tear_down(void **state)
{
	struct err e;
	(void)state;
	return fs_remove_tree(AT_FDCWD, dir, &e);
}

static struct store *open_it(void)
{
	struct err e;
	struct store *s = store_open(path, &e);
	if (!s)
		fail_msg("%s", e.msg);
	return s;
}

static struct sandbox sample(const char *id, const char *name)
{
	char *none[] = {NULL}, first[] = "layers/labcdefghijkl", *lowers[] = {first, NULL}, env[] = "A=b", *envs[] = {env, NULL};
	struct sandbox b = {.state = STATE_STOPPED, .pending = 3, .created = 5, .n_base = 1, .limits = LIMITS_DEFAULT, .pinned = true};
	memcpy(b.id, id, strlen(id) + 1);
	memcpy(b.layer, "lmnopqrstuvwx", 14);
	b.name = xstrdup(name);
	b.owner = xstrdup("me");
	b.ws_path = xstrdup("/w");
	b.path = xstrdup("/bin");
	b.env = strv_copy(envs);
	b.labels = strv_copy(none);
	b.lowers = strv_copy(lowers);
	b.objects = strv_copy(none);
	return b;
}

static void add_sample(struct store *s, const char *id, const char *name)
{
	struct err e;
	char rule[] = "user\tallow x", *rules[] = {rule, NULL};
	struct sandbox b = sample(id, name);
	struct net_row n = {.preset = xstrdup("llm"), .rules = strv_copy(rules)};
	assert_int_equal(store_sandbox_add(s, &b, &e) | store_net_set(s, id, &n, &e) | store_flush(s, &e), 0);
	net_row_done(&n);
	sandbox_done(&b);
}

struct found {
	unsigned boxes, nets;
	struct sandbox last;
};

static void on_box(void *ctx, struct sandbox *b)
{
	struct found *f = ctx;
	f->boxes++;
	sandbox_done(&f->last);
	f->last = *b;
}

static void on_net(void *ctx, const char *id, struct net_row *n)
{
	struct found *f = ctx;
	(void)id;
	f->nets += n->preset && !strcmp(n->preset, "llm");
	net_row_done(n);
}

static struct found look(struct store *s)
{
	struct err e;
	struct found f = {0};
	assert_int_equal(store_sandboxes(s, on_box, &f, &e) | store_nets(s, on_net, &f, &e), 0);
	return f;
}

static const char id[] = "sabcdefghijkl";

static void a_record_brings_rows_back(void **state)
{
	struct err e;
	auto_buf struct buf record = BUF_INIT(STORE_RECORD_MAX);
	(void)state;
	struct store *s = open_it();
	add_sample(s, id, "one");
	assert_int_equal(store_record_write(s, STORE_SANDBOX, id, &record, &e), 0);
	store_close(s);
	unlink(path);
	s = open_it();
	assert_int_equal(store_lost(s), STORE_EMPTY);
	assert_true(store_anew(s) > 0);
	assert_int_equal(store_record_read(s, STORE_SANDBOX, id, &record, &e), 0);
	assert_int_equal(store_record_read(s, STORE_SANDBOX, id, &record, &e), 0); // again changes nothing
	struct found f = look(s);
	assert_int_equal(f.boxes, 1);
	assert_int_equal(f.nets, 1);
	assert_string_equal(f.last.id, id);
	assert_string_equal(f.last.name, "one");
	assert_string_equal(f.last.lowers[0], "layers/labcdefghijkl");
	assert_string_equal(f.last.layer, "lmnopqrstuvwx");
	assert_true(f.last.pinned && f.last.n_base == 1 && f.last.created == 5);
	assert_int_equal(f.last.pending, -1); // nobody knows
	sandbox_done(&f.last);
	store_close(s);
	s = open_it();
	assert_int_equal(store_lost(s), STORE_FOUND);
	assert_true(store_anew(s) > 0); // for ever
	store_close(s);
}

static void a_damaged_record_changes_nothing(void **state)
{
	struct err e;
	auto_buf struct buf record = BUF_INIT(STORE_RECORD_MAX), no = BUF_INIT(STORE_RECORD_MAX);
	(void)state;
	struct store *s = open_it();
	add_sample(s, id, "one");
	assert_int_equal(store_record_write(s, STORE_SANDBOX, id, &record, &e), 0);
	assert_int_equal(store_record_write(s, STORE_SANDBOX, "snone", &no, &e), -1);
	assert_int_equal(store_sandbox_drop(s, id, &e), 0);
	for (size_t n = 0; n < record.n; n += 7) { // cut off, and one byte wrong
		struct buf cut = {.p = record.p, .n = n, .max = n};
		assert_int_equal(store_record_read(s, STORE_SANDBOX, id, &cut, &e), -1);
		record.p[n] ^= 1;
		assert_int_equal(store_record_read(s, STORE_SANDBOX, id, &record, &e), -1);
		record.p[n] ^= 1;
	}
	assert_int_equal(store_record_read(s, STORE_SANDBOX, "sother", &record, &e), -1);
	assert_int_equal(store_record_read(s, STORE_SNAPSHOT, id, &record, &e), -1);
	struct found f = look(s);
	assert_int_equal(f.boxes, 0);
	store_close(s);
}

static void backup_all(struct store *s)
{
	struct err e;
	int rc;
	assert_true(store_backup_is_due(s));
	while ((rc = store_backup_step(s, &e)) > 0)
		;
	if (rc)
		fail_msg("%s", e.msg);
	assert_false(store_backup_is_due(s));
}

static void a_damaged_file_gives_way_to_its_backup(void **state)
{
	struct err e;
	(void)state;
	struct store *s = open_it();
	add_sample(s, id, "one");
	backup_all(s);
	add_sample(s, "smnopqrstuvwx", "two");
	store_checkpoint(s);
	store_close(s);
	auto_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(fs_write_all(fd, "not a database at all", 21, &e), 0);
	s = open_it();
	assert_int_equal(store_lost(s), STORE_FROM_BACKUP);
	struct found f = look(s);
	assert_int_equal(f.boxes, 1);
	sandbox_done(&f.last);
	store_close(s);
}

static void a_damaged_backup_is_no_reason_to_fail(void **state)
{
	struct err e;
	(void)state;
	auto_free char *backup = xasprintf("%s.backup", path);
	assert_int_equal(fs_write(AT_FDCWD, backup, "neither", 7, 0600, &e), 0);
	struct store *s = open_it();
	assert_int_equal(store_lost(s), STORE_EMPTY);
	store_close(s);
}

static void a_backup_goes_on_beside_writes(void **state)
{
	struct err e;
	int rc;
	(void)state;
	struct store *s = open_it();
	for (int i = 0; i < 2000; i++) {
		auto_free char *key = xasprintf("k%d", i), *text = xasprintf("%02000d", i);
		assert_int_equal(store_note_set(s, "x", key, text, &e), 0);
	}
	unsigned steps = 0;
	while ((rc = store_backup_step(s, &e)) > 0 && ++steps < 10000)
		assert_int_equal(store_note_set(s, "y", "k", "between", &e), 0);
	assert_int_equal(rc, 0);
	assert_true(steps > 1);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_record_brings_rows_back, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_damaged_record_changes_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_damaged_file_gives_way_to_its_backup, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_damaged_backup_is_no_reason_to_fail, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_backup_goes_on_beside_writes, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
