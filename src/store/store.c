// SPDX-License-Identifier: Apache-2.0
// Opening, schema, prepared statements. Each kind of row has a file.
#include "store/store_int.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Each step brings the file from the version of its index to the next one; a new file takes them all.
static const char *const steps[] = {
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
	"INSERT INTO meta VALUES('version', 1);",

	"CREATE TABLE nets(sandbox TEXT PRIMARY KEY, preset TEXT, rules BLOB, registries BLOB, ask INTEGER, phase TEXT,"
	" secrets BLOB, ca_cert TEXT, ca_key BLOB) WITHOUT ROWID;"
	"CREATE TABLE secrets(name TEXT PRIMARY KEY, host TEXT NOT NULL, port INTEGER, place INTEGER, key TEXT, sealed BLOB,"
	" created INTEGER, used INTEGER) WITHOUT ROWID;"
	"CREATE TABLE trust(path TEXT PRIMARY KEY, sha256 TEXT NOT NULL, at INTEGER) WITHOUT ROWID;"
	"CREATE TABLE answers(rule TEXT PRIMARY KEY, at INTEGER) WITHOUT ROWID;",

	"ALTER TABLE sandboxes ADD COLUMN lowers BLOB;"
	"ALTER TABLE sandboxes ADD COLUMN n_base INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE sandboxes ADD COLUMN context TEXT;"
	"ALTER TABLE sandboxes ADD COLUMN origin TEXT;"
	"ALTER TABLE sandboxes ADD COLUMN url TEXT;"
	"ALTER TABLE sandboxes ADD COLUMN ref TEXT;"
	"ALTER TABLE sandboxes ADD COLUMN objects BLOB;"
	"ALTER TABLE sandboxes ADD COLUMN base_pin INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE sandboxes ADD COLUMN pin TEXT;"
	"ALTER TABLE sandboxes ADD COLUMN on_expiry INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE sandboxes ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE sandboxes ADD COLUMN tree TEXT;"
	"ALTER TABLE cells ADD COLUMN lowers BLOB;"
	"CREATE UNIQUE INDEX contexts ON sandboxes(context) WHERE context IS NOT NULL;"
	"CREATE TABLE snapshots(id TEXT PRIMARY KEY, sandbox TEXT NOT NULL, name TEXT, created INTEGER, flags INTEGER,"
	" lowers BLOB, n_base INTEGER, pending INTEGER, template BLOB, ord INTEGER) WITHOUT ROWID;"
	"CREATE TABLE derived(kind INTEGER, key TEXT, path TEXT NOT NULL, info BLOB, created INTEGER, used INTEGER,"
	" bytes INTEGER, PRIMARY KEY(kind, key)) WITHOUT ROWID;"
	"CREATE UNIQUE INDEX snapshot_names ON snapshots(sandbox, name) WHERE name IS NOT NULL;",

	"CREATE TABLE layers(id TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID;",

	"CREATE TABLE projects(sandbox TEXT PRIMARY KEY, body BLOB) WITHOUT ROWID;",

	"CREATE TABLE tokens(id TEXT PRIMARY KEY, name TEXT, sha256 TEXT NOT NULL UNIQUE, scope INTEGER NOT NULL, kind INTEGER NOT NULL,"
	" value TEXT NOT NULL, rate INTEGER, created INTEGER, expires INTEGER, used INTEGER) WITHOUT ROWID;"
	"CREATE TABLE creations(key TEXT PRIMARY KEY, sha256 TEXT NOT NULL, sandbox TEXT NOT NULL, exec TEXT, at INTEGER) WITHOUT ROWID;",

	"CREATE TABLE notes(kind TEXT, key TEXT, text TEXT NOT NULL, PRIMARY KEY(kind, key)) WITHOUT ROWID;",

	"ALTER TABLE nets ADD COLUMN headers BLOB;",

	"ALTER TABLE images ADD COLUMN digest TEXT;"
	"ALTER TABLE images ADD COLUMN config TEXT;",
	"CREATE TABLE volumes(id TEXT PRIMARY KEY, name TEXT NOT NULL, owner TEXT NOT NULL, created INTEGER) WITHOUT ROWID;"
	"CREATE UNIQUE INDEX volume_names ON volumes(owner, name);",
};
#define SCHEMA_VERSION ((int)countof(steps))

#define EXEC_COLUMNS                                                                                       \
	"id,sandbox,argv,cwd,user,tty,running,pid,started,status,signal,timed_out,reason,out_bytes,err_bytes,ended"

static const char *const sql[] = {
	[Q_BEGIN] = "BEGIN IMMEDIATE",
	[Q_COMMIT] = "COMMIT",
	[Q_SAVE] = "SAVEPOINT strict",
	[Q_UNSAVE] = "RELEASE strict",
	[Q_UNDO] = "ROLLBACK TO strict",
	[Q_BOX_ADD] = "INSERT INTO sandboxes VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,"
		      "?,?,?,?,?,?,?,?,?,?,?,?)",
	[Q_BOX_SET] = "UPDATE sandboxes SET state=?,reason=?,head=?,used=?,expires=?,pending=?,isolation=?,anchor_seq=?,"
		      "anchor=?,base_pin=?,pin=?,bytes=?,flags=? WHERE id=?",
	[Q_BOX_DROP] = "DELETE FROM sandboxes WHERE id=?",
	[Q_BOX_DROP_CELL] = "DELETE FROM cells WHERE sandbox=?",
	[Q_BOX_DROP_EXECS] = "DELETE FROM execs WHERE sandbox=?",
	[Q_BOXES] = "SELECT * FROM sandboxes ORDER BY created, id",
	[Q_CELL_SET] = "INSERT OR REPLACE INTO cells VALUES(?,?,?,?,?)",
	[Q_CELL_DROP] = "DELETE FROM cells WHERE sandbox=?",
	[Q_CELLS] = "SELECT * FROM cells",
	[Q_EXEC_ADD] = "INSERT INTO execs(id,sandbox,argv,cwd,user,tty,running,pid,started,ord) VALUES(?,?,?,?,?,?,?,?,?,?)",
	[Q_EXEC_STARTED] = "UPDATE execs SET pid=? WHERE id=? AND running=1",
	[Q_EXEC_ENDED] = "UPDATE execs SET running=0,status=?,signal=?,timed_out=?,reason=?,out_bytes=?,err_bytes=?,"
			 "started=CASE WHEN ?7 THEN ?7 ELSE started END,ended=?8 WHERE id=?9 AND running=1",
	[Q_EXECS_LOST] = "UPDATE execs SET running=0,status=137,signal=9,reason=?,ended=? WHERE sandbox=? AND running=1",
	[Q_EXEC_DROP] = "DELETE FROM execs WHERE id=?",
	// '{' follows 'z': every id that starts with the text lies between
	[Q_EXEC_GET] = "SELECT " EXEC_COLUMNS " FROM execs WHERE id>=?1 AND id<?1||'{' LIMIT 2",
	[Q_EXECS] = "SELECT " EXEC_COLUMNS " FROM execs WHERE sandbox=? ORDER BY ord DESC",
	[Q_EXECS_ALL] = "SELECT " EXEC_COLUMNS " FROM execs ORDER BY ord DESC",
	[Q_EXEC_TRIM] = "DELETE FROM execs WHERE sandbox=?1 AND running=0 AND ord NOT IN "
			"(SELECT ord FROM execs WHERE sandbox=?1 ORDER BY ord DESC LIMIT ?2)",
	[Q_IMAGE_ADD] = "INSERT INTO images VALUES(?,?,?,?,?,?,?,?)",
	[Q_IMAGE_DROP] = "DELETE FROM images WHERE id=?",
	[Q_IMAGES] = "SELECT * FROM images ORDER BY created DESC, id",
	[Q_GONE_ADD] = "INSERT OR REPLACE INTO gone VALUES(?,?,?,?)",
	[Q_GONE_DROP] = "DELETE FROM gone WHERE id=?",
	[Q_GONE_GET] = "SELECT * FROM gone WHERE id>=?1 AND id<?1||'{' LIMIT 2",
	[Q_NET_SET] = "INSERT OR REPLACE INTO nets VALUES(?,?,?,?,?,?,?,?,?,?)",
	[Q_NET_DROP] = "DELETE FROM nets WHERE sandbox=?",
	[Q_NETS] = "SELECT * FROM nets",
	[Q_SECRET_SET] = "INSERT OR REPLACE INTO secrets VALUES(?,?,?,?,?,?,?,?)",
	[Q_SECRET_USED] = "UPDATE secrets SET used=? WHERE name=?",
	[Q_SECRET_DROP] = "DELETE FROM secrets WHERE name=?",
	[Q_SECRETS] = "SELECT * FROM secrets ORDER BY name",
	[Q_TRUST_SET] = "INSERT OR REPLACE INTO trust VALUES(?,?,?)",
	[Q_TRUST_DROP] = "DELETE FROM trust WHERE path=?",
	[Q_TRUSTS] = "SELECT * FROM trust ORDER BY path",
	[Q_BOX_STACK] = "UPDATE sandboxes SET layer=?,lowers=?,n_base=?,env=?,image=?,base_pin=?,pin=?,pending=?,flags=? WHERE id=?",
	[Q_SNAP_ADD] = "INSERT INTO snapshots VALUES(?,?,?,?,?,?,?,?,?,?)",
	[Q_SNAP_DURABLE] = "UPDATE snapshots SET flags=flags|4 WHERE id=?",
	[Q_SNAP_DROP] = "DELETE FROM snapshots WHERE id=?",
	[Q_SNAPS] = "SELECT * FROM snapshots ORDER BY ord",
	[Q_DERIVED_SET] = "INSERT OR REPLACE INTO derived VALUES(?,?,?,?,?,?,?)",
	[Q_DERIVED_DROP] = "DELETE FROM derived WHERE kind=? AND key=?",
	[Q_DERIVED] = "SELECT * FROM derived",
	[Q_LAYER_SET] = "INSERT OR REPLACE INTO layers VALUES(?,?)",
	[Q_LAYER_DROP] = "DELETE FROM layers WHERE id=?",
	[Q_LAYERS] = "SELECT id,bytes FROM layers",
	[Q_ANSWER_ADD] = "INSERT OR REPLACE INTO answers VALUES(?,?)",
	[Q_ANSWER_DROP] = "DELETE FROM answers WHERE rule=?",
	[Q_ANSWERS] = "SELECT rule FROM answers ORDER BY at, rule",
	[Q_TOKEN_ADD] = "INSERT INTO tokens VALUES(?,?,?,?,?,?,?,?,?,?)",
	[Q_TOKEN_USED] = "UPDATE tokens SET used=? WHERE id=?",
	[Q_TOKEN_DROP] = "DELETE FROM tokens WHERE id=?",
	[Q_TOKENS] = "SELECT * FROM tokens ORDER BY created, id",
	[Q_KEPT_ADD] = "INSERT OR REPLACE INTO creations VALUES(?,?,?,?,?)",
	[Q_KEPT_GET] = "SELECT * FROM creations WHERE key=?1 AND at>=?2",
	[Q_KEPT_TRIM] = "DELETE FROM creations WHERE at<?",
	[Q_PROJECT_SET] = "INSERT OR REPLACE INTO projects VALUES(?,?)",
	[Q_PROJECT_DROP] = "DELETE FROM projects WHERE sandbox=?",
	[Q_PROJECTS] = "SELECT * FROM projects",
	[Q_NOTE_SET] = "INSERT OR REPLACE INTO notes VALUES(?,?,?)",
	[Q_NOTE_DROP] = "DELETE FROM notes WHERE kind=? AND key=?",
	[Q_NOTES] = "SELECT key,text FROM notes WHERE kind=? ORDER BY key",
	[Q_VOLUME_ADD] = "INSERT INTO volumes VALUES(?,?,?,?)",
	[Q_VOLUME_DROP] = "DELETE FROM volumes WHERE id=?",
	[Q_VOLUMES] = "SELECT * FROM volumes ORDER BY created, id",
};
static_assert(countof(sql) == QUERIES, "a text per query");

int store_fail(struct store *s, struct err *e)
{
	if (s->db && sqlite3_errcode(s->db) == SQLITE_FULL)
		return err_set(e, ERR_LIMIT, "the disk of SKEP_HOME is full: free some space (skep gc, skep rm), then try again");
	return err_set(e, ERR_SYSTEM, "state.db: %s", s->db ? sqlite3_errmsg(s->db) : "out of memory");
}

static int text_row(void *ctx, int n, char **values, char **names)
{
	(void)names;
	struct buf *b = ctx;
	if (n && values[0])
		buf_str(b, values[0]);
	return 0;
}

static int exec_text(struct store *s, const char *text, struct buf *out, struct err *e)
{
	return sqlite3_exec(s->db, text, text_row, out, NULL) == SQLITE_OK ? 0 : store_fail(s, e);
}

// 1 = sound, 0 = damaged, -1 = can not be used for another reason
static int check(struct store *s, struct err *e)
{
	auto_buf struct buf out = BUF_INIT(65536);
	int rc = sqlite3_exec(s->db, "PRAGMA quick_check(1)", text_row, &out, NULL);
	if (rc == SQLITE_CORRUPT || rc == SQLITE_NOTADB)
		return 0;
	if (rc != SQLITE_OK)
		return store_fail(s, e);
	return !strcmp(buf_cstr(&out), "ok");
}

static int ask_number(struct store *s, const char *text, uint64_t *out, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(64);
	if (exec_text(s, text, &b, e))
		return -1;
	if (b.n && str_to_u64(str_of(buf_cstr(&b)), 0, INT64_MAX, out))
		return err_set(e, ERR_UNSUPPORTED, "state.db has schema version %s: use a newer skep", buf_cstr(&b));
	return 0;
}

static int check_version(uint64_t have, struct err *e)
{
	if (have <= (uint64_t)SCHEMA_VERSION)
		return 0;
	return err_set(e, ERR_UNSUPPORTED, "state.db has schema version %llu, this skepd knows %d: use a newer skep, or another SKEP_HOME",
		       (unsigned long long)have, SCHEMA_VERSION);
}

// In the file's head, so that it can be read whatever the tables of a later version look like to us.
static int check_head(struct store *s, struct err *e)
{
	uint64_t have = 0;
	if (sqlite3_exec(s->db, "PRAGMA user_version", NULL, NULL, NULL) != SQLITE_OK)
		return 0; // check() says what is wrong with it
	return ask_number(s, "PRAGMA user_version", &have, e) || check_version(have, e) ? -1 : 0;
}

// The number in meta is older than the one in the head, and what earlier skepds look at. 0: a new file.
static int read_version(struct store *s, int *out, struct err *e)
{
	uint64_t tables = 0, have = 0;
	if (ask_number(s, "SELECT count(*) FROM sqlite_master WHERE name='meta'", &tables, e) ||
	    (tables && ask_number(s, "SELECT value FROM meta WHERE key='version'", &have, e)) || check_version(have, e))
		return -1;
	if (tables && !have)
		return err_set(e, ERR_UNSUPPORTED, "state.db says nothing of its schema version: put it back as it was, or move it away to begin anew");
	*out = (int)have;
	return 0;
}

// Each step with its number, or not at all: whatever ends us in between, the next start goes on from there.
static int take_step(struct store *s, int version, struct err *e)
{
	auto_free char *text = xasprintf("BEGIN IMMEDIATE; %s UPDATE meta SET value=%d WHERE key='version'; PRAGMA user_version=%d; COMMIT",
					 steps[version], version + 1, version + 1);
	if (!exec_text(s, text, NULL, e))
		return 0;
	err_wrap(e, "bring state.db from schema version %d to %d (nothing was changed)", version, version + 1);
	sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	return -1;
}

static int take_steps(struct store *s, int have, struct err *e)
{
	if (have && have < SCHEMA_VERSION)
		log_line(LOG_INFO, "state.db has schema version %d and is brought to %d", have, SCHEMA_VERSION);
	for (int v = have; v < SCHEMA_VERSION; v++)
		if (take_step(s, v, e))
			return -1;
	return 0;
}

// Exclusive locking keeps the WAL index in memory and saves the lock calls of every transaction; nobody
// else opens the file. Checkpoints sync, so they happen when idle and not inside a commit.
static const char pragmas[] = "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
			      "PRAGMA wal_autocheckpoint=0; PRAGMA temp_store=MEMORY;";

static int open_db(struct store *s, const char *path, struct err *e)
{
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
	if (sqlite3_open_v2(path, &s->db, flags, NULL) != SQLITE_OK)
		return store_fail(s, e);
	sqlite3_busy_timeout(s->db, 2000);
	return 0;
}

static void move_aside(const char *path, uint64_t stamp, const char *suffix)
{
	auto_free char *from = xasprintf("%s%s", path, suffix);
	auto_free char *to = xasprintf("%s.bad-%llu%s", path, (unsigned long long)stamp, suffix);
	rename(from, to); // absent -wal and -shm are the usual case; what matters is checked by the reopen
}

static int store_copy_file(const char *from, const char *to, struct err *e)
{
	auto_fd int in = fs_open(AT_FDCWD, from, O_RDONLY | O_NOFOLLOW, 0, e);
	auto_fd int out = in < 0 ? -1 : fs_open(AT_FDCWD, to, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600, e);
	char block[65536];
	ssize_t n = 0;
	while (out >= 0 && (n = read(in, block, sizeof block)) > 0)
		if (fs_write_all(out, block, (size_t)n, e))
			return -1;
	if (n < 0)
		return err_sys(e, "read %s", from);
	return out < 0 ? -1 : 0;
}

// The copy that keep.c made takes the file's place, if it is sound. It stays, too: until the next one is made it is the only one.
static int open_backup(struct store *s, const char *path, struct err *e)
{
	auto_free char *backup = xasprintf("%s.backup", path);
	struct err why;
	if (access(backup, F_OK))
		return open_db(s, path, e);
	if (!store_copy_file(backup, path, &why) && !open_db(s, path, &why) && check(s, &why) == 1) {
		s->lost = STORE_FROM_BACKUP;
		return 0;
	}
	log_line(LOG_ERROR, "the backup of state.db can not be used either");
	sqlite3_close(s->db);
	s->db = NULL;
	unlink(path);
	return open_db(s, path, e);
}

static int reopen_anew(struct store *s, const char *path, struct err *e)
{
	uint64_t stamp = clock_unix_ms() / 1000;
	sqlite3_close(s->db);
	s->db = NULL;
	log_line(LOG_ERROR, "state.db is damaged: moved to %s.bad-%llu", path, (unsigned long long)stamp);
	move_aside(path, stamp, "");
	move_aside(path, stamp, "-wal");
	move_aside(path, stamp, "-shm");
	s->lost = STORE_EMPTY;
	return open_backup(s, path, e);
}

// The write-ahead log of a file that is not there any more is nobody's.
static int open_missing(struct store *s, const char *path, struct err *e)
{
	uint64_t stamp = clock_unix_ms() / 1000;
	move_aside(path, stamp, "-wal");
	move_aside(path, stamp, "-shm");
	s->lost = STORE_EMPTY;
	return open_backup(s, path, e);
}

static int prepare_all(struct store *s, struct err *e)
{
	for (int i = 0; i < QUERIES; i++)
		if (sqlite3_prepare_v3(s->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &s->q[i], NULL) != SQLITE_OK) {
			store_fail(s, e);
			return err_wrap(e, "the tables were changed by somebody else: put state.db back as it was, or move it away to begin anew");
		}
	return 0;
}

// A file that is not ours to use is left as it was: what waits in its write-ahead log stays there, too.
static void leave_log(struct store *s, bool on)
{
	sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, (int)on, NULL);
}

static int open_sound(struct store *s, const char *path, struct err *e)
{
	if (access(path, F_OK) ? open_missing(s, path, e) : open_db(s, path, e))
		return -1;
	leave_log(s, true);
	if (check_head(s, e))
		return -1;
	int sound = check(s, e);
	return sound < 0 || (!sound && reopen_anew(s, path, e)) ? -1 : 0;
}

// When the file began without what was before it. A file of an earlier skep, which lost nothing, has no such number.
static int note_anew(struct store *s, struct err *e)
{
	auto_free char *text = xasprintf("INSERT OR REPLACE INTO meta VALUES('anew', %llu)", (unsigned long long)clock_unix_ms());
	if (s->lost != STORE_FOUND && exec_text(s, text, NULL, e))
		return -1;
	return ask_number(s, "SELECT value FROM meta WHERE key='anew'", &s->anew, e);
}

static int open_all(struct store *s, const char *path, struct err *e)
{
	int have;
	if (open_sound(s, path, e) || read_version(s, &have, e))
		return -1;
	leave_log(s, false);
	auto_buf struct buf answers = BUF_INIT(256); // pragmas answer with rows
	if (exec_text(s, pragmas, &answers, e) || take_steps(s, have, e) || note_anew(s, e))
		return -1;
	return prepare_all(s, e);
}

enum store_lost store_lost(const struct store *s)
{
	return s->lost;
}

uint64_t store_anew(const struct store *s)
{
	return s->anew;
}

struct store *store_open(const char *path, struct err *e)
{
	struct store *s = xcalloc(1, sizeof *s);
	s->path = xstrdup(path);
	if (open_all(s, path, e)) {
		store_close(s);
		return NULL;
	}
	chmod(path, 0600); // its directory is 0700 already
	return s;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	struct err e;
	store_backup_stop(s);
	if (s->q[QUERIES - 1] && store_flush(s, &e))
		log_line(LOG_ERROR, "%s", e.msg);
	for (int i = 0; i < QUERIES; i++)
		sqlite3_finalize(s->q[i]);
	sqlite3_close(s->db);
	free(s->path);
	free(s);
}

bool store_is_dirty(const struct store *s)
{
	return s->dirty;
}

void store_checkpoint(struct store *s)
{
	struct err e;
	if (store_flush(s, &e)) {
		log_line(LOG_ERROR, "%s", e.msg);
		return;
	}
	if (sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) == SQLITE_OK)
		s->dirty = false;
	else
		log_line(LOG_WARN, "state.db: checkpoint: %s", sqlite3_errmsg(s->db));
}

struct cursor store_query(struct store *s, enum query q)
{
	return (struct cursor){s->q[q], 0};
}

uint64_t store_order(struct store *s)
{
	uint64_t now = clock_unix_ms() * 1000;
	s->last_order = now > s->last_order ? now : s->last_order + 1;
	return s->last_order;
}

static int step(struct store *s, sqlite3_stmt *st, struct err *e)
{
	int rc = sqlite3_step(st);
	bool ok = rc == SQLITE_DONE || rc == SQLITE_ROW;
	if (!ok)
		store_fail(s, e);
	sqlite3_reset(st);
	return ok ? 0 : -1;
}

static bool is_open(const struct store *s)
{
	return !sqlite3_get_autocommit(s->db);
}

int store_run(struct store *s, struct cursor c, struct err *e)
{
	s->dirty = true;
	if (!is_open(s) && step(s, s->q[Q_BEGIN], e))
		return -1;
	return step(s, c.st, e);
}

int store_begin(struct store *s, struct err *e)
{
	if (fault(FAULT_STORE_BEGIN, e) || (!is_open(s) && step(s, s->q[Q_BEGIN], e)))
		return -1;
	return step(s, s->q[Q_SAVE], e);
}

int store_commit(struct store *s, struct err *e)
{
	// it releases the savepoint too; when it fails (the disk is full) what was written since can still be undone
	if (!fault(FAULT_STORE_COMMIT, e) && !step(s, s->q[Q_COMMIT], e))
		return 0;
	store_rollback(s);
	return -1;
}

void store_rollback(struct store *s)
{
	struct err e;
	if (is_open(s) && (step(s, s->q[Q_UNDO], &e) || step(s, s->q[Q_UNSAVE], &e)))
		log_line(LOG_ERROR, "%s", e.msg);
}

int store_flush(struct store *s, struct err *e)
{
	return is_open(s) ? step(s, s->q[Q_COMMIT], e) : 0;
}
