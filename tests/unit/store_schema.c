// SPDX-License-Identifier: Apache-2.0
// Files of earlier versions. What they hold was written by the first skepd that kept a state.db, and dumped.
#include "store/store.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <fcntl.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char version_1[] =
	"CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
	"CREATE TABLE sandboxes(id TEXT PRIMARY KEY, layer TEXT, machine_id TEXT, name TEXT, owner TEXT,"
	" state INTEGER NOT NULL, reason TEXT, profile INTEGER, flags INTEGER, image TEXT, repo TEXT, head TEXT,"
	" base_dev INTEGER, base_ino INTEGER, ws_path TEXT, path TEXT, env BLOB, labels BLOB, mounts BLOB, limits BLOB,"
	" umask INTEGER, timeout_ms INTEGER, ttl_ms INTEGER, idle_ms INTEGER, created INTEGER, used INTEGER,"
	" expires INTEGER, pending INTEGER, isolation BLOB, anchor_seq INTEGER, anchor TEXT) WITHOUT ROWID;"
	"CREATE UNIQUE INDEX names ON sandboxes(name) WHERE name IS NOT NULL;"
	"CREATE TABLE cells(sandbox TEXT PRIMARY KEY, key TEXT, pid INTEGER, start INTEGER) WITHOUT ROWID;"
	"CREATE TABLE execs(id TEXT PRIMARY KEY, sandbox TEXT NOT NULL, argv BLOB, cwd TEXT, user TEXT, tty INTEGER,"
	" running INTEGER, pid INTEGER, started INTEGER, status INTEGER, signal INTEGER, timed_out INTEGER, reason TEXT,"
	" out_bytes INTEGER, err_bytes INTEGER, ended INTEGER, ord INTEGER) WITHOUT ROWID;"
	"CREATE INDEX execs_of ON execs(sandbox, ord);"
	"CREATE TABLE images(id TEXT PRIMARY KEY, name TEXT UNIQUE, source TEXT, bytes INTEGER, files INTEGER, created INTEGER) WITHOUT ROWID;"
	"CREATE TABLE gone(id TEXT PRIMARY KEY, removed INTEGER, anchor_seq INTEGER, anchor TEXT) WITHOUT ROWID;"
	"INSERT INTO meta VALUES('version',1);"
	"INSERT INTO sandboxes VALUES('sabcdefghijklmno','labcdefghijklmno','','box','ann',1,NULL,1,17,NULL,'/p',NULL,0,77,'/p',NULL,"
	"X'0200000003000000413d310b000000423d74776f0a6c696e6573',X'00000000',X'01000000020000002f73020000002f6401',"
	"X'000000000000000015cd5b07000000000002000000000000000000800200000040420f000000000000100000000000000000000400000000d007000000000000',"
	"23,0,0,0,1000,0,0,3,"
	"X'060000006e6174697665ffffffffffffffffffffffffffffffffffffffff0700000000000000000000000000000001000000ffffffff',7,'feed');"
	"INSERT INTO cells VALUES('sabcdefghijklmno','0123456789abcdef',42,4711);"
	"INSERT INTO execs VALUES('xabcdefghijklmno','sabcdefghijklmno',X'02000000040000006d616b650400000074657374','/p','ann',0,0,0,900,2,0,0,"
	"NULL,10,0,950,1794842936372000);"
	"INSERT INTO images VALUES('iabcdefghijklmno','alpine','a.tar',5,6,7);"
	"INSERT INTO gone VALUES('szzzzzzzzzzzzzzz',800,9,'beef');";

static char dir[64];
static char *path;

static int set_up(void **state)
{
	(void)state;
	if (fmt_to(dir, sizeof dir, "/tmp/skep-schema-XXXXXX") || !mkdtemp(dir))
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

static void run_sql(const char *text)
{
	sqlite3 *db;
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s", sqlite3_errmsg(db));
	sqlite3_close(db);
}

static int64_t ask(const char *text)
{
	sqlite3 *db;
	sqlite3_stmt *st;
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, text, -1, &st, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	int64_t v = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	sqlite3_close(db);
	return v;
}

static void see_sandbox(void *ctx, struct sandbox *b)
{
	++*(int *)ctx;
	assert_string_equal(b->id, "sabcdefghijklmno");
	assert_string_equal(b->layer, "labcdefghijklmno");
	assert_string_equal(b->name, "box");
	assert_int_equal(b->state, STATE_STOPPED);
	assert_int_equal(b->profile, PROFILE_ROOT);
	assert_true(b->nested && b->keep && !b->pinned);
	assert_string_equal(b->env[1], "B=two\nlines");
	assert_string_equal(b->mounts[0].dst, "/d");
	assert_true(b->mounts[0].writable && !b->mounts[0].cache);
	assert_int_equal(b->limits.memory, 123456789);
	assert_int_equal(b->pending, 3);
	assert_string_equal(b->anchor, "feed");
	assert_null(b->lowers[0]);
	assert_int_equal(b->base_pin, 0);
	assert_null(b->context);
	sandbox_done(b);
}

static void see_cell(void *ctx, struct cell_row *c)
{
	++*(int *)ctx;
	assert_int_equal(c->pid, 42);
	assert_null(c->lowers[0]);
	cell_row_done(c);
}

static void see_image(void *ctx, const struct image_row *i)
{
	++*(int *)ctx;
	assert_string_equal(i->name, "alpine");
}

static void check_rows(struct store *s)
{
	struct err e;
	struct exec_row x;
	struct gone_row g;
	int n = 0;
	assert_int_equal(store_sandboxes(s, see_sandbox, &n, &e), 0);
	assert_int_equal(store_cells(s, see_cell, &n, &e), 0);
	assert_int_equal(store_images(s, see_image, &n, &e), 0);
	assert_int_equal(n, 3);
	assert_int_equal(store_exec_get(s, "xabc", &x, &e), 0);
	assert_string_equal(x.argv[1], "test");
	assert_int_equal(x.result.status, 2);
	exec_row_done(&x);
	assert_int_equal(store_gone_get(s, "szzz", &g, &e), 0);
	assert_int_equal(g.anchor_seq, 9);
}

static struct store *must_open(void)
{
	struct err e = {0};
	struct store *s = store_open(path, &e);
	if (!s)
		fail_msg("%s", e.msg);
	return s;
}

static void the_oldest_file_is_brought_up(void **state)
{
	struct err e;
	(void)state;
	run_sql(version_1);
	struct store *s = must_open();
	check_rows(s);
	assert_int_equal(store_note_set(s, "kind", "key", "text", &e), 0); // a table of the newest version
	store_close(s);
	s = must_open();
	check_rows(s);
	store_close(s);
	assert_true(ask("SELECT value FROM meta WHERE key='version'") > 1);
}

// As if we had been killed after any of the steps.
static void every_step_can_be_the_last(void **state)
{
	(void)state;
	run_sql(version_1);
	store_close(must_open());
	int64_t newest = ask("SELECT value FROM meta WHERE key='version'");
	assert_true(newest >= 7);
	tear_down(NULL);
	set_up(NULL);
	run_sql(version_1);
	run_sql("CREATE TABLE notes(other TEXT)"); // the last step can not be taken
	struct err e = {0};
	assert_null(store_open(path, &e));
	assert_non_null(strstr(e.msg, "notes"));
	assert_non_null(strstr(e.msg, "schema version 6 to 7"));
	assert_int_equal(ask("SELECT value FROM meta WHERE key='version'"), 6);
	run_sql("DROP TABLE notes");
	struct store *s = must_open();
	check_rows(s);
	store_close(s);
	assert_int_equal(ask("SELECT value FROM meta WHERE key='version'"), newest);
}

static void read_all(const char *suffix, struct buf *out)
{
	struct err e;
	auto_free char *file = xasprintf("%s%s", path, suffix);
	*out = BUF_INIT(16u << 20);
	if (fs_exists(AT_FDCWD, file))
		assert_int_equal(fs_read(AT_FDCWD, file, out, &e), 0);
}

static void same(const char *suffix, const struct buf *was)
{
	auto_buf struct buf now;
	read_all(suffix, &now);
	assert_int_equal(now.n, was->n);
	if (now.n)
		assert_memory_equal(now.p, was->p, now.n);
}

// Its last writes may wait in the log beside it: they stay there.
static void leave_alone(const char *made_newer)
{
	struct err e = {0};
	sqlite3 *db;
	store_close(must_open());
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	assert_int_equal(sqlite3_exec(db, made_newer, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	auto_buf struct buf main, wal;
	read_all("", &main);
	read_all("-wal", &wal);
	assert_true(wal.n);
	assert_null(store_open(path, &e));
	assert_int_equal(e.kind, ERR_UNSUPPORTED);
	assert_non_null(strstr(e.msg, "version 1000"));
	assert_non_null(strstr(e.msg, "newer skep"));
	same("", &main);
	same("-wal", &wal);
}

static void a_newer_file_is_left_alone(void **state)
{
	(void)state;
	leave_alone("UPDATE meta SET value=1000 WHERE key='version'; CREATE TABLE later(x)");
	assert_int_equal(ask("SELECT count(*) FROM later"), 0);
}

// Whatever its tables look like: not even the one with the number is needed.
static void one_that_makes_no_sense_to_us_too(void **state)
{
	(void)state;
	leave_alone("PRAGMA user_version=1000; DROP TABLE meta; PRAGMA writable_schema=1;"
		    "UPDATE sqlite_master SET sql='CREATE TABLE cells(of a later kind' WHERE name='cells'");
}

static void a_new_file_has_its_number(void **state)
{
	(void)state;
	store_close(must_open());
	assert_int_equal(ask("PRAGMA user_version"), ask("SELECT value FROM meta WHERE key='version'"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_oldest_file_is_brought_up, set_up, tear_down),
		cmocka_unit_test_setup_teardown(every_step_can_be_the_last, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_newer_file_is_left_alone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_that_makes_no_sense_to_us_too, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_new_file_has_its_number, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
