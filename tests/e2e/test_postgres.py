# SPDX-License-Identifier: Apache-2.0
"""A database server inside, its data directory in the workspace: a snapshot while it runs, a migration that went wrong,
a rollback; and three forks that try three migrations side by side."""
import glob
from concurrent.futures import ThreadPoolExecutor

import pytest

from kit import wait_for

ROWS = 2000


@pytest.fixture(scope="session")
def postgres():
    """The directory of the server's programs."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"))
    assert found, "postgresql is missing: tools/deps test"
    return found[-1].rpartition("/")[0]


class Database:
    def __init__(self, home, sid, bin_dir):
        self.home, self.sid, self.bin = home, sid, bin_dir

    def sh(self, script):
        return self.home.skep("exec", self.sid, "--", "sh", "-c", f"PATH={self.bin}:$PATH; {script}")

    def start(self):
        """A server on the data directory as it lies there: what was cut off in the middle is recovered by itself."""
        self.home.skep("exec", "-d", self.sid, "--", "sh", "-c", f"rm -f data/postmaster.pid; exec {self.bin}/postgres -D data -k /tmp -c listen_addresses= -c max_connections=10").ok()
        wait_for(lambda: self.sh("pg_isready -q -h /tmp").rc == 0, 30, 0.1, "the server")

    def sql(self, text):
        r = self.sh(f"psql -h /tmp -qAtX -v ON_ERROR_STOP=1 -d postgres <<'END'\n{text}\nEND")
        return r.ok().line

    def total(self):
        return self.sql("SELECT count(*), sum(cents), md5(string_agg(owner, ',' ORDER BY id)) FROM account")


@pytest.fixture
def database(home, postgres):
    """A running server with a table that is written to all the time."""
    db = Database(home, home.new("--empty"), postgres)
    db.sh("initdb -D data -A trust -E UTF8 --no-locale --no-sync >/dev/null").ok()
    db.start()
    db.sql(f"CREATE TABLE account(id int PRIMARY KEY, owner text NOT NULL, cents bigint NOT NULL);"
           f"INSERT INTO account SELECT i, 'owner ' || i, 100 * i FROM generate_series(1, {ROWS}) i; CREATE TABLE tick(n int)")
    return db


def test_a_bad_migration_is_rolled_back(home, skep, database):
    db = database
    skep("exec", "-d", db.sid, "--", "sh", "-c", f"while {db.bin}/psql -h /tmp -qX -d postgres -c 'INSERT INTO tick SELECT count(*) FROM tick'; do :; done").ok()
    wait_for(lambda: int(db.sql("SELECT count(*) FROM tick")) > 3, why="writes")
    before = db.total()
    n = skep("snapshot", db.sid, "before-migration", "--json").json()
    assert n["mode"] == "frozen-copy"
    ticks = int(db.sql("SELECT count(*) FROM tick"))  # the server did not notice
    wait_for(lambda: int(db.sql("SELECT count(*) FROM tick")) > ticks, why="writes to go on")
    db.sql("ALTER TABLE account DROP COLUMN owner; UPDATE account SET cents = cents / 0 + 1 WHERE false; DELETE FROM account WHERE id % 2 = 0; "
           "ALTER TABLE account RENAME cents TO euros; VACUUM FULL account; CHECKPOINT")
    assert db.sh("psql -h /tmp -qAtX -d postgres -c 'SELECT owner FROM account'").rc != 0
    skep("rollback", db.sid).ok()
    db.start()
    assert db.total() == before and before.startswith(f"{ROWS}|")
    assert 3 < int(db.sql("SELECT count(*) FROM tick")) <= ticks
    assert db.sql("SELECT count(*) = max(n) + 1 FROM tick") == "t"  # not one row of the log is missing


def test_three_migrations_side_by_side(home, skep, database):
    before = database.total()
    forks = [Database(home, i, database.bin) for i in skep("fork", database.sid, "-n", "3").ok().out.split()]
    migrations = ["ALTER TABLE account ADD COLUMN currency text NOT NULL DEFAULT 'EUR'",
                  "ALTER TABLE account ALTER COLUMN cents TYPE numeric USING cents / 100.0",
                  "CREATE TABLE person AS SELECT DISTINCT owner FROM account; DROP TABLE tick"]

    def migrate(db, sql):
        db.start()
        assert db.total() == before
        db.sql(sql)
        return db.sql("SELECT string_agg(table_name || '.' || column_name || ' ' || data_type, ', ' ORDER BY table_name, column_name)"
                      " FROM information_schema.columns WHERE table_schema = 'public'")

    with ThreadPoolExecutor(3) as pool:
        a, b, c = pool.map(migrate, forks, migrations)
    assert "account.currency text" in a and "account.currency" not in b + c
    assert "account.cents numeric" in b and "account.cents bigint" in a and "account.cents bigint" in c
    assert "person.owner text" in c and "tick.n" not in c and "tick.n" in a and "person" not in a + b
    assert database.total() == before  # where they come from runs on
