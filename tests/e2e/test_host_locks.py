# SPDX-License-Identifier: Apache-2.0
"""Locks that a sandbox takes on files of the host are its own: what is shown read-only is an overlay, whose inodes nobody else
has (src/isolate/mounts.h, MOUNT_SHOW)."""
import fcntl
import os
import sqlite3
import subprocess

import pytest

# Takes every kind of lock that a file opened for reading can have, says so, and keeps them until its input ends.
TAKE = """
import fcntl, os, sys
first = os.open(sys.argv[1], os.O_RDONLY)
second = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
fcntl.lockf(second, fcntl.LOCK_SH | fcntl.LOCK_NB)
try:
    fcntl.fcntl(second, fcntl.F_SETLEASE, fcntl.F_RDLCK)
except OSError:
    pass
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def shown(home):
    """A file in a directory that is given read-only, and what makes a sandbox show it."""
    top = f"{home.top}/given"
    os.mkdir(top)
    with open(f"{top}/file", "w", encoding="ascii") as f:
        f.write("of the host\n")
    return f"{top}/file", ("--mount", top)


@pytest.fixture
def tool(home):
    top = f"{home.user_home}/.cargo"
    os.makedirs(f"{top}/bin")
    with open(f"{top}/bin/cargo", "w", encoding="ascii") as f:
        f.write("#!/bin/sh\n")
    os.chmod(f"{top}/bin/cargo", 0o755)
    home.env["PATH"] = f"{top}/bin:" + home.env["PATH"]
    with open(f"{top}/.package-cache", "w", encoding="ascii"):
        pass
    return f"{top}/.package-cache", ()


def host_is_free(path):
    """Each kind of lock, and an open for writing, which a lease would hold up."""
    fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fd)


@pytest.mark.parametrize("way", ("shown", "tool"))
def test_a_lock_inside_is_none_outside(home, request, way):
    path, opts = request.getfixturevalue(way)
    p = home.popen("run", *opts, "--", "/usr/bin/python3", "-c", TAKE, path, stdin=subprocess.PIPE)
    assert p.stdout.readline() == b"locked\n"
    host_is_free(path)
    p.communicate(timeout=30)
    assert p.returncode == 0


@pytest.mark.parametrize("way", ("shown", "tool"))
def test_a_lock_outside_is_none_inside(skep, request, way):
    path, opts = request.getfixturevalue(way)
    fd = os.open(path, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    fcntl.lockf(fd, fcntl.LOCK_EX)
    r = skep("run", *opts, "--", "/usr/bin/python3", "-c", TAKE, path).ok()
    os.close(fd)
    assert r.line == "locked"


@pytest.mark.parametrize("path", ("/usr/bin/env", "/usr/share/dpkg/cputable"))
def test_files_of_the_system(home, path):
    p = home.popen("run", "--", "/usr/bin/python3", "-c", TAKE, path, stdin=subprocess.PIPE)
    assert p.stdout.readline() == b"locked\n"
    fd = os.open(path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fd)
    p.communicate(timeout=30)
    assert p.returncode == 0


def test_a_database_can_be_read(home, skep, shown):
    top = os.path.dirname(shown[0])
    db = sqlite3.connect(f"{top}/base.db")
    db.execute("create table t (x)")
    db.execute("insert into t values (42)")
    db.commit()
    read = f"import sqlite3; print(sqlite3.connect('file:{top}/base.db?mode=ro', uri=True).execute('select x from t').fetchone()[0])"
    assert skep("run", *shown[1], "--", "/usr/bin/python3", "-c", read).ok().line == "42"
    db.execute("insert into t values (43)")  # the reader's locks are not ours
    db.commit()
    db.close()


def test_a_given_directory_is_live(home, skep, shown):
    """What the host replaces there shows, also in a sandbox that looked before."""
    path, opts = shown
    assert skep("run", *opts, "--", "sh", "-c", f"cat {path}; ! cat {path}.new 2>/dev/null").ok().line == "of the host"
    with open(f"{path}.next", "w", encoding="ascii") as f:
        f.write("of today\n")
    os.rename(f"{path}.next", path)
    with open(f"{path}.new", "w", encoding="ascii") as f:
        f.write("new\n")
    assert skep("run", *opts, "--", "cat", path, f"{path}.new").ok().out == "of today\nnew\n"


def test_a_running_command_sees_what_comes(home, shown):
    path, opts = shown
    p = home.popen("run", *opts, "--", "sh", "-c", f"ls {path}.new; echo looked; until cat {path}.new 2>/dev/null; do sleep 0.2; done")
    assert p.stdout.readline() == b"looked\n"
    with open(f"{path}.new", "w", encoding="ascii") as f:
        f.write("came\n")
    assert p.communicate(timeout=60)[0] == b"came\n"
