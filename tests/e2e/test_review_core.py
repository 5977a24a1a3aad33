# SPDX-License-Identifier: Apache-2.0
"""skep-review on files: collect, diff, apply, undo, dismiss, recovery, against git and a plain model."""
import base64
import ctypes
import errno
import os
import random
import shutil
import signal
import stat
import struct
import tempfile
import threading
import time

import pytest
from review_kit import Failed, Review, delta, entry, file_entry, git, link, link_entry, put, stream, tree

SEED = int(os.environ.get("SKEP_TEST_SEED") or 20)
ROUNDS = int(os.environ.get("SKEP_TEST_ROUNDS") or 1)  # make soak: races and kills again and again


@pytest.fixture
def rv(tmp_path):
    """In memory where there is room: what is tested is order, not how long a disk takes to sync."""
    if not os.path.isdir("/dev/shm") or os.statvfs("/dev/shm").f_bavail * os.statvfs("/dev/shm").f_frsize < 1 << 28:
        yield Review(tmp_path)
        return
    with tempfile.TemporaryDirectory(prefix="skep-review-", dir="/dev/shm") as top:
        yield Review(top)


@pytest.fixture
def rv_disk(tmp_path):
    return Review(tmp_path)


def lines(*n, end="\n"):
    return "".join(f"line {i}\n" for i in range(*n))[:None if end else -1]


def text_of(rng, n):
    words = ["alpha", "beta", "}", "", "return x;", "  if (y) {", "same", "same"]
    return [rng.choice(words) + (f" {rng.randrange(50)}" if rng.random() < .5 else "") for _ in range(n)]


# --- random repositories ---

def fill(rv, rng, files):
    for i in range(files):
        path = f"d{i % 7}/{'sub/' if i % 3 else ''}f{i}.txt"
        eol = "\r\n" if i % 5 == 0 else "\n"
        body = eol.join(text_of(rng, rng.randrange(60))) + (eol if i % 4 else "")
        put(rv.host, path, body, 0o755 if i % 9 == 0 else 0o644)
    put(rv.host, "bin/blob", rng.randbytes(5000))
    put(rv.host, "bin/nul", b"text\0text\n" * 20)
    put(rv.host, b"names/caf\xe9 \xff", "latin\n")
    put(rv.host, "names/tab\there \"q\" \\", "odd\n")
    put(rv.host, "names/with space", "space\n")
    put(rv.host, "empty-file", "")
    link(rv.host, "links/here", "../bin/blob")
    link(rv.host, "links/nowhere", "does/not/exist")


def edit_text(rng, data):
    eol = b"\r\n" if b"\r\n" in data else b"\n"
    rows = data.split(eol)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(rows) + 1)
        what = rng.randrange(3)
        if what == 0:
            rows[at:at] = [w.encode() for w in text_of(rng, rng.randrange(1, 4))]
        elif what == 1:
            del rows[at:at + rng.randrange(1, 4)]
        elif at < len(rows):
            rows[at] = rows[at] + b" changed"
    return eol.join(rows)


def change(rv, rng, edits):
    root = os.fsencode(rv.box)
    for _ in range(edits):
        files = [p for p, w in tree(root).items() if w[0] == "file"]
        path = rng.choice(files)
        full = os.path.join(root, path)
        what = rng.randrange(11)
        if what <= 3:
            with open(full, "rb") as f:
                data = f.read()
            put(root, path, edit_text(rng, data) if b"\0" not in data else rng.randbytes(900), os.stat(full).st_mode & 0o777)
        elif what == 4:
            os.unlink(full)
        elif what == 5:
            put(root, f"new/{rng.randrange(10**6)}", "\n".join(text_of(rng, rng.randrange(20))))
        elif what == 6:
            os.makedirs(os.path.join(root, b"moved"), exist_ok=True)
            to = os.path.join(root, b"moved", b"%d" % rng.randrange(10**6))
            os.rename(full, to)
            if rng.random() < .5 and b"\0" not in open(to, "rb").read():
                with open(to, "ab") as f:
                    f.write(b"and more\n")
        elif what == 7:
            os.chmod(full, os.stat(full).st_mode ^ 0o111)
        elif what == 8:
            link(root, path, "/elsewhere" if rng.random() < .5 else "x")
        elif what == 9:
            os.unlink(full)
            os.makedirs(full)
            if rng.random() < .7:
                put(full, "inside", "below what was a file\n")
        else:
            os.makedirs(os.path.join(root, b"hollow/%d" % rng.randrange(1000)), exist_ok=True)
    for d in ("d1/sub", "d2"):  # whole directories go, one becomes a file
        shutil.rmtree(os.path.join(rv.box, d), ignore_errors=True)
    if not os.path.lexists(os.path.join(rv.box, "d2")):
        put(rv.box, "d2", "now a file\n")
    put(rv.box, b"names/new \xe9", rng.randbytes(300))


def test_round_trip(rv_disk, tmp_path):
    """The patch, applied by git to a clean clone, and apply itself, give the sandbox's tree, byte for byte."""
    rv, rng = rv_disk, random.Random(SEED)
    fill(rv, rng, 120)
    rv.pin()
    change(rv, rng, 60)
    rv.collect()
    clone = str(tmp_path / "clone")
    git("clone", "-q", rv.host, clone)
    patch = rv.raw("diff", format="patch")
    git("apply", "--whitespace=nowarn", "-", cwd=clone, input=patch)
    want = tree(rv.box)
    files = {p: w for p, w in want.items() if w[0] != "dir"}
    assert tree(clone, dirs=False) == files
    _, summary = rv.diff()
    assert summary["conflicts"] == 0
    rv.apply(digest=summary["digest"])
    assert tree(rv.host) == want
    assert rv.diff()[0] == {}
    rv.undo()
    assert tree(rv.host) == rv.lower
    assert rv.get_base() == rv.base
    assert not [n for n in tree(rv.host) if b".skep" in n]


def test_mail_is_taken_by_git_am(rv, tmp_path):
    put(rv.host, "a", lines(20))
    rv.pin()
    put(rv.box, "a", lines(20).replace("line 7", "seven"))
    put(rv.box, "b", "new\n", 0o755)
    rv.collect()
    mail = rv.raw("export", author="Änne Ü", email="a@b.c", subject="Füge sieben hinzu", message="Why.\n--- not a patch\ndiff no\n")
    clone = str(tmp_path / "clone")
    git("clone", "-q", rv.host, clone)
    git("am", "-q", "-", cwd=clone, input=mail)
    assert tree(clone) == tree(rv.box)
    assert git("log", "-1", "--format=%an|%ae|%s", cwd=clone).decode() == "Änne Ü|a@b.c|Füge sieben hinzu\n"
    with pytest.raises(Failed) as e:
        rv.raw("export", subject="two\nlines")
    assert e.value.kind == "invalid"


def test_export_as_a_commit(rv):
    """On the commit the sandbox began with; the host's dirty files and later edits stay out of it."""
    put(rv.host, "a", lines(20))
    put(rv.host, "gone", "1\n")
    put(rv.host, "dirty", "1\n")
    git("add", "-A", cwd=rv.host)
    git("commit", "-q", "-m", "first", cwd=rv.host)
    head = git("rev-parse", "HEAD", cwd=rv.host).decode().strip()
    put(rv.host, "dirty", "2\n")
    rv.pin(commit=False)
    put(rv.host, "a", lines(20).replace("line 9", "host"))
    put(rv.box, "a", lines(20).replace("line 9", "agent"))
    os.unlink(f"{rv.box}/gone")
    put(rv.box, "sub/new", "n\n", 0o755)
    rv.collect()
    answer = rv.call("export", parent=head, author="A", email="a@b", subject="Do it", message="Why.")[-1]
    git("fetch", "-q", rv.shadow, "refs/skep/export:refs/heads/taken", cwd=rv.host)
    assert git("rev-parse", "taken", "taken^", cwd=rv.host).decode().split() == [answer["commit"], head]
    assert git("diff", "--name-status", "taken^", "taken", cwd=rv.host).decode() == "M\ta\nD\tgone\nA\tsub/new\n"
    assert git("show", "taken:a", cwd=rv.host).decode() == lines(20).replace("line 9", "agent")
    assert git("log", "-1", "--format=%an <%ae>|%B", "taken", cwd=rv.host).decode() == "A <a@b>|Do it\n\nWhy.\n\n"
    git("fsck", "--strict", cwd=rv.host)
    for kw in ({"parent": "HEAD"}, {"parent": head, "author": "x <y>"}):
        with pytest.raises(Failed) as e:
            rv.call("export", **kw)
        assert e.value.kind == "invalid"


def test_hunk_by_hunk(rv):
    """Every hunk by its id, in random order, one apply each: the same tree as all at once."""
    rng = random.Random(SEED + 1)
    for i in range(12):
        put(rv.host, f"f{i}", "\n".join(text_of(rng, 80)) + "\n")
    rv.pin()
    for i in range(12):
        with open(f"{rv.box}/f{i}", "rb") as f:
            data = f.read()
        for _ in range(3):
            data = edit_text(rng, data)
        put(rv.box, f"f{i}", data, 0o755 if i % 3 == 0 else 0o644)
    os.rename(f"{rv.box}/f3", f"{rv.box}/g3")
    os.unlink(f"{rv.box}/f4")
    put(rv.box, "new", "n\n")
    rv.collect()
    before = len(rv.diff()[0])
    rounds = 0
    while True:
        changes, summary = rv.diff()
        ids = [h["id"] for c in changes.values() for h in c["hunks"]]
        assert len(set(ids)) == len(ids)
        if not ids:
            break
        rv.apply(set={"hunks": rng.sample(ids, min(len(ids), rng.randrange(1, 5)))}, digest=summary["digest"])
        rounds += 1
    assert tree(rv.host) == tree(rv.box)
    assert rounds >= before
    for _ in range(rounds):
        rv.undo()
    assert tree(rv.host) == rv.lower
    assert rv.get_base() == rv.base
    with pytest.raises(Failed) as e:
        rv.undo()
    assert e.value.kind == "not_found"


def test_ids_stay_when_others_move(rv):
    put(rv.host, "a", lines(60))
    rv.pin()
    put(rv.box, "a", lines(60).replace("line 50\n", "fifty\n"))
    rv.collect()
    one = rv.diff()[0]["a"]["hunks"][0]["id"]
    put(rv.box, "a", "top\n" * 9 + lines(60).replace("line 50\n", "fifty\n").replace("line 10\n", ""))
    rv.collect()
    ids = [h["id"] for h in rv.diff()[0]["a"]["hunks"]]
    assert len(ids) == 3 and ids[2] == one
    rv.apply(set={"hunks": [one]})
    assert [h["id"] for h in rv.diff()[0]["a"]["hunks"]] == ids[:2]
    with pytest.raises(Failed) as e:
        rv.apply(set={"hunks": [one]})
    assert e.value.kind == "not_found"


def test_ten_thousand_files(rv):
    for i in range(10000):
        put(rv.host, f"d{i % 100}/f{i}", f"{i}\n")
    rv.pin()
    for i in range(0, 10000, 8):
        put(rv.box, f"d{i % 100}/f{i}", f"{i}\nnew\n")
    rv.collect()
    started = time.monotonic()
    summary = rv.diff()[1]
    looked = time.monotonic() - started
    assert summary["files"] == 1250
    rv.apply(digest=summary["digest"])
    assert tree(rv.host) == tree(rv.box)
    rv.undo()
    assert tree(rv.host) == rv.lower
    print(f"diff of 1,250 files: {looked:.2f} s")


# --- the host moves ---

def test_host_moved_elsewhere_merges(rv):
    put(rv.host, "a", lines(60))
    rv.pin()
    put(rv.host, "a", lines(60).replace("line 1\n", "host\n"))
    put(rv.box, "a", lines(60).replace("line 50\n", "agent\n"))
    rv.collect()
    c = rv.diff()[0]["a"]
    assert c["state"] == "moved" and (c["added"], c["removed"]) == (1, 1) and c["hunks"][0]["old_start"] == 51
    rv.apply()
    with open(f"{rv.host}/a") as f:
        assert f.read() == lines(60).replace("line 1\n", "host\n").replace("line 50\n", "agent\n")
    assert rv.diff()[0] == {}  # the host's own change is not pending
    rv.undo()
    with open(f"{rv.host}/a") as f:
        assert f.read() == lines(60).replace("line 1\n", "host\n")
    assert rv.diff()[0]["a"]["state"] == "moved"


def test_patch_of_a_moved_file_applies_to_the_host(rv):
    put(rv.host, "a", lines(60))
    rv.pin()
    put(rv.host, "a", "top\n" + lines(60))
    put(rv.box, "a", lines(60).replace("line 50\n", "agent\n").replace("line 20\n", ""))
    rv.collect()
    git("apply", "-", cwd=rv.host, input=rv.raw("diff", format="patch"))
    with open(f"{rv.host}/a") as f:
        assert f.read() == "top\n" + lines(60).replace("line 50\n", "agent\n").replace("line 20\n", "")
    assert rv.diff()[0] == {}


def test_conflicts_are_named_and_never_silent(rv):
    put(rv.host, "a", lines(20))
    put(rv.host, "b", lines(20))
    put(rv.host, "c", lines(20))
    rv.pin()
    put(rv.host, "a", lines(20).replace("line 5\n", "host\n"))
    os.unlink(f"{rv.host}/c")
    put(rv.host, "n", "host's\n")
    put(rv.box, "a", lines(20).replace("line 5\n", "agent\n").replace("line 15\n", "clean\n"))
    put(rv.box, "b", lines(20).replace("line 9\n", "nine\n"))
    put(rv.box, "c", lines(20).replace("line 9\n", "nine\n"))
    put(rv.box, "n", "sandbox's\n")
    rv.collect()
    changes, summary = rv.diff()
    assert {p: c["state"] for p, c in changes.items()} == {"a": "conflict", "b": "clean", "c": "conflict", "n": "conflict"}
    assert summary["conflicts"] == 3
    before = tree(rv.host)
    with pytest.raises(Failed) as e:
        rv.apply()
    assert e.value.kind == "conflict" and set(e.value.refused) == {"a", "c", "n"}
    assert tree(rv.host) == before
    # the clean part of a file can land by itself
    clean = [h["id"] for h in changes["a"]["hunks"] if h["state"] == "clean"]
    rv.apply(set={"hunks": clean})
    with open(f"{rv.host}/a") as f:
        assert f.read() == lines(20).replace("line 5\n", "host\n").replace("line 15\n", "clean\n")
    result = rv.apply(conflicts="skip")[-1]["result"]
    assert set(result["skipped"]) == {"a", "c", "n"}
    with open(f"{rv.host}/b") as f:
        assert "nine" in f.read()
    rv.apply(set={"paths": ["a"]}, conflicts="markers")
    with open(f"{rv.host}/a") as f:
        assert "<<<<<<< host\nhost\n=======\nagent\n>>>>>>> sandbox\n" in f.read()
    assert "a" not in rv.diff()[0]
    with pytest.raises(Failed) as e:
        rv.apply(set={"paths": ["c"]}, conflicts="markers")  # a deletion has no markers
    assert e.value.kind == "conflict"


def test_both_made_the_same_change(rv):
    put(rv.host, "a", lines(40))
    rv.pin()
    put(rv.host, "a", lines(40).replace("line 5\n", "both\n"))
    put(rv.box, "a", lines(40).replace("line 5\n", "both\n").replace("line 30\n", "mine\n"))
    rv.collect()
    c = rv.diff()[0]["a"]
    assert c["state"] == "moved" and len(c["hunks"]) == 1
    rv.apply()
    assert tree(rv.host)[b"a"] == tree(rv.box)[b"a"]


def test_digest(rv):
    put(rv.host, "a", lines(10))
    rv.pin()
    put(rv.box, "a", lines(10) + "x\n")
    rv.collect()
    seen = rv.diff()[1]["digest"]
    before = tree(rv.host)
    put(rv.box, "a", lines(10) + "y\n")  # the sandbox writes on after the review
    rv.collect()
    with pytest.raises(Failed) as e:
        rv.apply(digest=seen)
    assert e.value.kind == "conflict" and tree(rv.host) == before
    seen = rv.diff()[1]["digest"]
    put(rv.host, "a", "host\n" + lines(10))  # and so does the host
    before = tree(rv.host)
    with pytest.raises(Failed) as e:
        rv.apply(digest=seen)
    assert e.value.kind == "conflict" and tree(rv.host) == before
    rv.apply(digest=rv.diff()[1]["digest"])


def test_undo_is_refused_where_the_host_differs(rv):
    put(rv.host, "a", "1\n")
    put(rv.host, "b", "1\n")
    rv.pin()
    put(rv.box, "a", "2\n")
    put(rv.box, "b", "2\n")
    put(rv.box, "c", "2\n")
    rv.collect()
    rv.apply()
    put(rv.host, "b", "3\n")
    os.unlink(f"{rv.host}/c")
    before = tree(rv.host)
    with pytest.raises(Failed) as e:
        rv.undo()
    assert e.value.kind == "conflict" and set(e.value.refused) == {"b", "c"} and tree(rv.host) == before
    put(rv.host, "b", "2\n")
    put(rv.host, "c", "2\n")
    rv.undo()
    assert tree(rv.host) == rv.lower


def test_ignored_files_have_the_host_as_base(rv):
    put(rv.host, ".gitignore", "*.o\nbuild\n")
    put(rv.host, "old.o", "old\n")
    put(rv.host, "gone.o", "gone\n")
    put(rv.host, "build/x/y", "1\n")
    put(rv.host, "build/z", "1\n")
    rv.pin()
    assert "old.o" not in git("ls-tree", "-r", "--name-only", rv.base, cwd=rv.shadow).decode()
    put(rv.host, "new.o", "host, later\n")
    put(rv.host, "build/later", "host, later\n")
    put(rv.box, "old.o", "changed\n")
    os.unlink(f"{rv.box}/gone.o")
    put(rv.box, "new.o", "sandbox\n")
    shutil.rmtree(f"{rv.box}/build")
    rv.collect()
    changes, _ = rv.diff()
    states = {p: (c["kind"], c["state"]) for p, c in changes.items()}
    assert states["old.o"] == ("modify", "clean") and states["gone.o"] == ("delete", "clean")
    assert states["new.o"] == ("add", "conflict")
    assert states["build/x/y"] == ("delete", "clean") and states["build/x/"] == ("rmdir", "clean")
    assert "build/later" not in states and "build/" not in states
    rv.apply(conflicts="skip")
    left = tree(rv.host)
    assert left[b"old.o"][2] == b"changed\n" and b"gone.o" not in left and b"build/x" not in left
    assert left[b"build/later"][2] == b"host, later\n"
    rv.undo()
    assert tree(rv.host)[b"gone.o"][2] == b"gone\n" and tree(rv.host)[b"build/x/y"][2] == b"1\n"
    assert {p: (c["kind"], c["state"]) for p, c in rv.diff()[0].items()} == states


def test_what_the_host_ignores_is_left_out_unless_asked_for(rv):
    put(rv.host, ".gitignore", "*.o\n")
    put(rv.host, "a", "1\n")
    rv.pin()
    put(rv.box, "a", "2\n")
    rv.collect()
    assert rv.diff(ignored=False)[1]["ignored"] == 0  # nothing to ask git about
    put(rv.box, "x.o", "1\n")
    put(rv.box, ".gitignore", "a\n*.o\n")  # the sandbox's own word does not count
    rv.collect()
    changes, summary = rv.diff(ignored=False)
    assert set(changes) == {"a", ".gitignore"} and summary["ignored"] == 1
    assert set(rv.diff()[0]) == {"a", ".gitignore", "x.o"}


def test_gone_and_lost(rv, tmp_path):
    put(rv.host, "a", lines(10))
    put(rv.host, "b", lines(10))
    rv.pin()
    put(rv.box, "a", lines(10) + "x\n")
    rv.collect()
    ino = os.stat(rv.host).st_ino
    assert rv.diff(ino=ino)[0]["a"]["state"] == "clean"
    assert rv.diff(ino=ino + 1)[0]["a"]["state"] == "gone"
    assert b"+x" in rv.raw("diff", format="patch", ino=ino + 1)
    with pytest.raises(Failed) as e:
        rv.apply(ino=ino + 1)
    assert e.value.kind == "unavailable"
    # the host's repository drops what the base borrowed, and the file moves on: what it was is not to be had
    put(rv.host, "a", "another\n")
    oid = git("rev-parse", f"{rv.base}:a", cwd=rv.host).decode().strip()
    os.unlink(f"{rv.host}/.git/objects/{oid[:2]}/{oid[2:]}")
    assert rv.diff()[0]["a"]["state"] == "lost"
    with pytest.raises(Failed) as e:
        rv.apply()
    assert e.value.kind == "conflict"


def test_apply_to_another_directory(rv, tmp_path):
    put(rv.host, "a", lines(40))
    rv.pin()
    put(rv.box, "a", lines(40).replace("line 30\n", "thirty\n"))
    rv.collect()
    other = str(tmp_path / "other")
    git("clone", "-q", rv.host, other)
    put(other, "a", "mine\n" + lines(40))
    digest = rv.diff()[1]["digest"]
    rv.apply(to=other, digest=digest)
    with open(f"{other}/a") as f:
        assert f.read() == "mine\n" + lines(40).replace("line 30\n", "thirty\n")
    assert rv.diff()[1]["digest"] == digest and tree(rv.host) == rv.lower
    with pytest.raises(Failed):
        rv.undo()


# --- what must not land ---

@pytest.mark.parametrize("name", [".git", ".GIT", ".Git", ".git.", ".git ", ".git. .", "git~1", "GIT~2", ".git::$INDEX_ALLOCATION",
                                  ".g\u200bit", ".gi\u200ct", "\u2060.git", ".git\ufeff", "\uff0egit", ".g\u0131t", ".git\\hooks"])
def test_git_in_any_spelling_is_discarded(rv, name):
    rv.pin()
    for path in (name, f"sub/{name}", f"{name}/hooks/pre-commit", f"a/b/{name}/config"):
        r = rv.collect(stream(file_entry(path, b"#!/bin/sh\n", True), file_entry("ok", b"1\n")))
        assert r["discarded"] == 1
        changes, summary = rv.diff()
        assert list(changes) == ["ok"] and summary["discarded"][0]["path"] == path[:path.index(name) + len(name)]
    before = tree(rv.host)
    rv.apply()
    assert {p: w for p, w in tree(rv.host).items() if p not in before} == {b"ok": ("file", False, b"1\n")}


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "a//b", "./a", "a/.", "", "a\0b", "x" * 5000, "a/"])
def test_paths_that_leave_are_refused(rv, path):
    rv.pin()
    with pytest.raises(Failed) as e:
        rv.collect(stream(file_entry(path, b"1")))
    assert e.value.kind == "invalid"


@pytest.mark.parametrize("what", [
    lambda: stream(file_entry("a", b"1"), file_entry("a", b"2")),
    lambda: stream(link_entry("a", b"/etc"), file_entry("a/passwd", b"1")),
    lambda: stream(entry("x", "a"), file_entry("a/b", b"1")),
    lambda: stream(file_entry("a", b"1"))[:-1],
    lambda: stream(file_entry("a", b"1"))[:-5],
    lambda: b"SKEPDLT1" + b"q",
    lambda: b"",
    lambda: stream(entry("c", "a", False, b"f" + bytes(32))),
])
def test_bad_streams_are_refused_and_keep_the_old_copy(rv, what):
    put(rv.host, "a", "1\n")
    rv.pin()
    put(rv.box, "a", "2\n")
    rv.collect()
    with pytest.raises(Failed) as e:
        rv.collect(what())
    assert e.value.kind == "invalid"
    assert list(rv.diff()[0]) == ["a"]


def test_special_torn_and_huge_files(rv):
    put(rv.host, "t", "1\n")
    rv.pin()
    r = rv.collect(stream(entry("s", "fifo"), entry("u", "secret"), file_entry("t", b"half", torn=1), file_entry("big", b"x" * 5000),
                          entry("h", "sparse", False, (1 << 40).to_bytes(8, "little"))), "--max-file", "4096")
    assert (r["discarded"], r["torn"], r["unkept"]) == (2, 1, 2)
    changes, summary = rv.diff()
    assert {d["path"] for d in summary["discarded"]} == {"fifo", "secret"}
    assert changes["t"]["state"] == "conflict" and changes["big"]["unseen"] and changes["sparse"]["unseen"]
    for path, kind in (("t", "conflict"), ("big", "limit"), ("sparse", "limit")):
        with pytest.raises(Failed) as e:
            rv.apply(set={"paths": [path]})
        assert e.value.kind == kind
    assert tree(rv.host) == rv.lower


def test_links_are_never_followed(rv, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    put(outside, "f", "untouched\n")
    put(rv.host, "d/f", "1\n")
    rv.pin()
    put(rv.box, "d/f", "2\n")
    put(rv.box, "d/g", "2\n")
    rv.collect()
    shutil.rmtree(f"{rv.host}/d")
    os.symlink(outside, f"{rv.host}/d")
    with pytest.raises(Failed) as e:
        rv.apply()
    assert e.value.kind == "conflict"
    assert tree(outside) == {b"f": ("file", False, b"untouched\n")}
    # two steps: a link first, something below it later
    os.unlink(f"{rv.host}/d")
    put(rv.host, "d/f", "1\n")
    rv.collect(stream(link_entry("l", os.fsencode(outside))))
    rv.apply()
    rv.collect(stream(file_entry("l/f", b"through\n")))
    with pytest.raises(Failed) as e:
        rv.apply()
    assert e.value.kind == "conflict" and tree(outside) == {b"f": ("file", False, b"untouched\n")}


def test_a_race_of_directory_and_link_gains_nothing(rv, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    for i in range(6):
        put(rv.host, f"d/f{i}", "1\n")
    rv.pin()
    for i in range(6):
        put(rv.box, f"d/f{i}", "2\n")
    rv.collect()
    stop = threading.Event()

    swaps = [0]

    def swap():  # both at once: there is always one of them
        d, l = os.fsencode(f"{rv.host}/d"), os.fsencode(f"{rv.host}/l")
        os.symlink(outside, l)
        exchange = ctypes.CDLL(None, use_errno=True).renameat2
        while not stop.is_set() or os.path.islink(d):
            assert exchange(-100, d, -100, l, 2) == 0, os.strerror(ctypes.get_errno())
            swaps[0] += 1
    t = threading.Thread(target=swap)
    t.start()
    try:
        for _ in range(40 * ROUNDS):
            try:
                rv.apply()
            except Failed:
                pass
    finally:
        alive = t.is_alive()
        stop.set()
        t.join()
    assert alive and swaps[0] > 100, "there was no race"
    assert os.listdir(outside) == []
    os.unlink(f"{rv.host}/l")
    rv.recover()
    got = {w[2] for p, w in tree(rv.host).items() if w[0] == "file" and b".skep" not in p}
    assert got in ({b"1\n"}, {b"2\n"})


def test_an_edit_under_apply_is_never_lost(rv):
    """A host that saves while apply runs: its text is there afterwards, or apply came after it; all or nothing."""
    for i in range(5):
        put(rv.host, f"f{i}", "1\n")
    rv.pin()
    for i in range(5):
        put(rv.box, f"f{i}", "2\n")
    rv.collect()
    started = time.monotonic()
    rv.apply()
    whole = time.monotonic() - started
    rv.undo()
    conflicts = 0
    for n in range(25 * ROUNDS):
        p = rv.start("apply", set={"all": True}, accept_risk=True)
        time.sleep(random.random() * whole * 1.3)
        with open(f"{rv.host}/new", "w") as f:
            f.write(f"host {n}\n")
        os.rename(f"{rv.host}/new", f"{rv.host}/f3")
        p.communicate()
        rv.recover()
        got = {i: tree(rv.host)[b"f%d" % i][2] for i in range(5)}
        assert got[3] == f"host {n}\n".encode(), got
        rest = {got[i] for i in (0, 1, 2, 4)}
        assert len(rest) == 1, got
        conflicts += rest == {b"1\n"}
        if rest == {b"2\n"}:  # landed before the save
            put(rv.host, "f3", "2\n")
            rv.undo()
        put(rv.host, "f3", "1\n")
    print(f"{conflicts} came too late")


def test_risks_stop_apply(rv):
    put(rv.host, "package.json", '{"name": "x", "scripts": {"test": "true"}, "version": "1"}\n')
    put(rv.host, "src.py", "x = 1\n")
    rv.pin()
    put(rv.box, "package.json", '{"name": "x", "scripts": {"test": "true"}, "version": "2"}\n')
    put(rv.box, "src.py", "x = 2\n")
    put(rv.box, ".github/workflows/ci.yml", "on: push\n")
    put(rv.box, "tool", "#!/bin/sh\n", 0o755)
    put(rv.box, "trick.c", "int a; /* \u202e begin admin */\n")
    put(rv.box, "keys.py", 'x = "%s"\n' % ("gh" + "p_" + "a1B2" * 9))  # no real one, and none that a scanner of this file takes for one
    link(rv.box, "etc", "/etc")
    link(rv.box, "hook", "sub/../.git/hooks")
    put(rv.box, "b.bin", b"\0\1")
    rv.collect()
    changes, summary = rv.diff()
    flags = {p: {r["flag"] for r in c["risks"]} for p, c in changes.items()}
    assert flags == {"package.json": set(), "src.py": set(), ".github/workflows/ci.yml": {"ci"}, "tool": {"executable"},
                     "trick.c": {"bidi"}, "keys.py": {"secret"}, "etc": {"link"}, "hook": {"link"}, "b.bin": {"binary"}}
    assert all(r["reason"] for c in changes.values() for r in c["risks"])
    before = tree(rv.host)
    with pytest.raises(Failed) as e:
        rv.apply(accept_risk=False)
    assert e.value.kind == "denied" and set(e.value.refused) == {p for p, f in flags.items() if f} and tree(rv.host) == before
    with pytest.raises(Failed) as e:
        rv.apply(accept_risk=False, accept=["tool", ".github"], set={"paths": ["tool", ".github"]})
    assert set(e.value.refused) == {".github/workflows/ci.yml"}  # each by its own name
    rv.apply(accept_risk=False, set={"paths": ["src.py", "package.json"]})
    rv.apply(accept_risk=False, accept=["tool", ".github/workflows/ci.yml"], set={"paths": ["tool", ".github"]})
    put(rv.box, "package.json", '{"name": "x", "scripts": {"test": "true", "postinstall": "x"}, "version": "2"}\n')
    rv.collect()
    assert {r["flag"] for r in rv.diff()[0]["package.json"]["risks"]} == {"build"}


# --- modes, hard links, owners ---

def test_modes_and_hard_links(rv):
    put(rv.host, "a", "1\n", 0o640)
    put(rv.host, "x", "1\n", 0o750)
    os.link(f"{rv.host}/a", f"{rv.host}/twin")
    rv.pin()
    put(rv.box, "a", "2\n", 0o755)
    put(rv.box, "x", "1\n", 0o600)
    put(rv.box, "n", "2\n", 0o4777)
    rv.collect()
    rv.apply(umask=0o027)
    mode = lambda p: os.stat(f"{rv.host}/{p}").st_mode & 0o7777
    assert (mode("a"), mode("x"), mode("n")) == (0o750, 0o640, 0o750)
    assert tree(rv.host)[b"twin"][2] == b"1\n"
    rv.undo()
    assert (mode("a"), mode("x")) == (0o640, 0o750)


# --- crashes ---

def crash_box(rv):
    put(rv.host, "a", "old\n")
    put(rv.host, "gone", "old\n")
    put(rv.host, "d/one", "old\n")
    put(rv.host, "file", "old\n")
    put(rv.host, "mv", lines(30))
    rv.pin()
    put(rv.box, "a", "new\n")
    os.unlink(f"{rv.box}/gone")
    shutil.rmtree(f"{rv.box}/d")
    put(rv.box, "d", "new\n")
    os.unlink(f"{rv.box}/file")
    put(rv.box, "file/below", "new\n")
    os.rename(f"{rv.box}/mv", f"{rv.box}/moved")
    put(rv.box, "n/e/w", "new\n", 0o755)
    link(rv.box, "l", "a")
    os.makedirs(f"{rv.box}/hollow/1")
    rv.collect()


POINTS = [("review.intent", 1), ("review.commit", 1), ("review.done", 1), ("review.base", 1), ("review.clean", 1), ("review.end", 1)] + \
         [("review.temp", n) for n in (1, 3)] + [("review.step", n) for n in (1, 2, 4, 5, 7, 9, 11)]


def is_whole(rv, old, new):
    got = tree(rv.host)
    assert got in (old, new), {p: (got.get(p), old.get(p), new.get(p)) for p in set(got) | set(old) | set(new)
                               if got.get(p) not in (old.get(p), new.get(p)) or old.get(p) != new.get(p)}
    return got == new


@pytest.mark.parametrize("how", ["kill", "fail"])
def test_crash_at_every_point(rv, how):
    crash_box(rv)
    old, new = rv.lower, tree(rv.box)
    landed = set()
    for verb in ("apply", "undo"):
        for point, n in POINTS:
            if verb == "undo":
                rv.apply()
                assert is_whole(rv, old, new)
            try:
                r = getattr(rv, verb)(env={"SKEP_FAULT": f"{point}:{how}:{n}"})
                assert r == -signal.SIGKILL, (verb, point, n, r)
            except Failed as e:
                assert how == "fail" and "fault injected" in e.message
            rv.recover()
            now = is_whole(rv, old, new)
            landed.add((verb, now))
            assert not os.path.exists(f"{rv.log}/intent")
            assert (rv.diff()[0] == {}) == now
            if now:
                rv.undo()
            assert is_whole(rv, old, new) is False and rv.get_base() == rv.base
    assert landed == {("apply", True), ("apply", False), ("undo", True), ("undo", False)}


def test_file_systems_that_can_not_exchange_names(rv, monkeypatch):
    """NFS and the like do not know the flags of renameat2: hard links do it, crash or not."""
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")  # make soak: its search for leaks does not go with strace
    crash_box(rv)
    old, new = rv.lower, tree(rv.box)
    rv.wrap = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=renameat2,linkat", "-e", "inject=renameat2:error=EINVAL"]
    rv.apply()
    assert is_whole(rv, old, new)
    rv.undo()
    assert not is_whole(rv, old, new)
    landed = set()
    # the n-th link is made and its maker killed: in the middle of a move or an exchange
    for n in range(1, 9):
        for kill in (f"linkat:signal=KILL:when={n}", f"unlinkat:signal=KILL:when={n}", f"renameat:signal=KILL:when={n + 3}"):
            rv.wrap[5:] = ["trace=renameat2,linkat,unlinkat,renameat", "-e", "inject=renameat2:error=EINVAL", "-e", f"inject={kill}"]
            try:
                rv.apply()
            except AssertionError:
                pass  # strace's own way to say that it died
            del rv.wrap[-2:]
            rv.recover()
            landed.add(is_whole(rv, old, new))
            if is_whole(rv, old, new):
                rv.undo()
            assert not is_whole(rv, old, new)
    assert landed == {True, False}


def test_crash_while_reverting(rv):
    crash_box(rv)
    old, new = rv.lower, tree(rv.box)
    for n in (1, 3, 6):
        # every step back is tried to its end by the next verb
        with pytest.raises(Failed):
            rv.apply(env={"SKEP_FAULT": "review.done:fail:1"})
        assert not is_whole(rv, old, new)
        r = rv.apply(env={"SKEP_FAULT": "review.step:kill:8"})
        assert r == -signal.SIGKILL
        put(rv.host, "a", "host\n")  # so that it can only go back
        r = rv.call("recover", env={"SKEP_FAULT": f"review.back:kill:{n}"})
        assert r == -signal.SIGKILL or r[-1]["recovered"] in ("reverted", "finished")
        rv.recover()
        got = tree(rv.host)
        assert got[b"a"][2] == b"host\n"
        put(rv.host, "a", "old\n")
        if not is_whole(rv, old, {**new, b"a": old[b"a"]}):
            continue
        put(rv.host, "a", "new\n")
        rv.undo()


def test_kill_at_random(rv):
    crash_box(rv)
    old, new = rv.lower, tree(rv.box)
    rng = random.Random(SEED + 2)
    started = time.monotonic()
    rv.apply()
    rv.undo()
    whole = (time.monotonic() - started) / 2
    counts, kills = {True: 0, False: 0}, {"apply": 0, "undo": 0}
    while min(kills.values()) < 50 * ROUNDS and sum(kills.values()) < 300 * ROUNDS:
        verb = "undo" if is_whole(rv, old, new) else "apply"
        kills[verb] += 1
        p = rv.start(verb, set={"all": True}, accept_risk=True)
        time.sleep(rng.random() * whole)
        p.kill()
        p.communicate()
        rv.recover()
        counts[is_whole(rv, old, new)] += 1
        if kills["apply"] < kills["undo"] and is_whole(rv, old, new):
            rv.undo()
        elif kills["undo"] < kills["apply"] - 5 and not is_whole(rv, old, new):
            rv.apply()
    print(counts, kills)
    assert min(kills.values()) >= 50 * ROUNDS
    if is_whole(rv, old, new):
        rv.undo()
    assert tree(rv.host) == old and rv.get_base() == rv.base


def test_only_one_at_a_time(rv):
    put(rv.host, "a", "1\n")
    rv.pin()
    put(rv.box, "a", "2\n")
    rv.collect()
    import fcntl
    os.makedirs(rv.log)
    with open(f"{rv.log}/lock", "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        with pytest.raises(Failed) as e:
            rv.apply()
    assert e.value.kind == "conflict"
    rv.apply()


# --- dismiss ---

def read_stream(data):
    """What init would be told: path -> (expected, new)."""
    assert data[:8] == b"SKEPDLT1"
    at, out, want = 8, {}, None
    u32 = lambda: int.from_bytes(data[at:at + 4], "little")
    while data[at:at + 1] != b"e":
        kind, exec_ = chr(data[at]), data[at + 1]
        at += 2
        n = u32()
        path = data[at + 4:at + 4 + n]
        at += 4 + n
        if kind == "c":
            want = (chr(data[at]), bool(exec_), data[at + 1:at + 33].hex())
            at += 33
            continue
        body = b""
        while kind == "f":
            n = u32()
            body += data[at + 4:at + 4 + n]
            at += 4 + n
            if not n:
                at += 1
                break
        if kind == "l":
            n = u32()
            body = data[at + 4:at + 4 + n]
            at += 4 + n
        out[path] = (want, (kind, bool(exec_), body))
        want = None
    return out


def test_dismiss(rv, tmp_path):
    put(rv.host, "a", lines(60))
    put(rv.host, "gone", "1\n")
    put(rv.host, "mv", lines(30))
    rv.pin()
    put(rv.box, "a", lines(60).replace("line 5\n", "five\n").replace("line 50\n", "fifty\n"), 0o755)
    os.unlink(f"{rv.box}/gone")
    os.rename(f"{rv.box}/mv", f"{rv.box}/moved")
    put(rv.box, "new", "1\n")
    rv.collect()
    changes, summary = rv.diff()
    out = str(tmp_path / "stream")
    first = next(h["id"] for h in changes["a"]["hunks"] if h["kind"] == "lines")
    rv.call("dismiss", set={"hunks": [first]}, out=out, digest=summary["digest"])
    with open(out, "rb") as f:
        told = read_stream(f.read())
    want, now = told[b"a"]
    assert want == ("f", True, changes["a"]["sandbox"]["sha256"])
    assert now == ("f", True, lines(60).replace("line 50\n", "fifty\n").encode())
    rv.call("dismiss", set={"all": True}, out=out)
    with open(out, "rb") as f:
        told = read_stream(f.read())
    assert {p: t[1] for p, t in told.items()} == {
        b"a": ("f", False, lines(60).encode()), b"gone": ("f", False, b"1\n"), b"mv": ("f", False, lines(30).encode()),
        b"moved": ("x", False, b""), b"new": ("x", False, b"")}
    assert told[b"gone"][0][0] == "x" and told[b"new"][0][0] == "f"
    put(rv.box, "x/y/z", "1\n")
    rv.collect()
    rv.call("dismiss", set={"paths": ["x"]}, out=out)
    with open(out, "rb") as f:
        assert list(read_stream(f.read())) == [b"x/y/z", b"x/y", b"x"]  # and the directories that only it needed
    with pytest.raises(Failed) as e:
        rv.call("dismiss", set={"all": True}, out=out, digest="0" * 64)
    assert e.value.kind == "conflict"


def test_bad_requests(rv):
    rv.pin()
    rv.collect()
    for kw in ({"nonsense": 1}, {"set": 5}, {"set": {"every": True}}, {"format": "html"}, {"context": 10**9}, {"set": {"paths_b64": ["%"]}}):
        with pytest.raises(Failed) as e:
            rv.call("diff", **kw)
        assert e.value.kind == "invalid"
    with pytest.raises(Failed) as e:
        rv.apply(set={})
    assert e.value.kind == "invalid"
    with pytest.raises(Failed) as e:
        rv.apply(set={"paths": ["not/there"]})
    assert e.value.kind == "not_found"
    rv.set_base("nonsense")
    with pytest.raises(Failed) as e:
        rv.diff()
    assert e.value.kind == "system"


def test_bad_options(rv):
    rv.pin()
    for args in (["--nonsense", "1"], ["--max-file"], ["--max-file", "-1"], ["--max-total", "much"], ["--socket", "/nowhere"]):
        with pytest.raises(Failed) as e:
            rv.collect(b"", *args)
        assert e.value.kind == "invalid", args


# --- names ---

ODD = [b":!y", b":(", b":^z", b":(attr:x)y", b":/x", b":(glob)**", b"-x", b"--", b"new\nline", b"tab\there", b'quo"te', b"a'b", b"\xff\xfe", b"*", b"?",
       b"[a]", b"{a,b}", b"trail ", b" lead", b"back\\slash", b"...", b"a:b", b"con", b"~", b"#x", b"!x", b"\x01\x1b[2J", "\u202etxt".encode(), b"(x)", b"(can not be read)"]
GIT_LIKE = [b".GIT", b".git ", b"git~1", b".g\xe2\x80\x8cit"]


def test_no_name_keeps_the_others_from_review(rv):
    put(rv.host, ".gitignore", "*.o\nq\\ *\n")
    put(rv.host, "x", "x\n")
    for name in ODD[::2]:
        put(rv.host, b"old/" + name, b"old\n")
    rv.pin()
    for name in ODD:
        put(rv.box, name, b"new " + name + b"\n")
        put(rv.box, b"d/" + name + b"/in", b"below\n")
        put(rv.box, name + b".o", b"built\n")
    for name in ODD[::2]:
        put(rv.box, b"old/" + name, b"changed\n")
    for name in GIT_LIKE:
        put(rv.box, b"d/" + name + b"/config", b"evil\n")
    rv.collect()
    changes, summary = rv.diff(ignored=False)
    assert set(changes) == {os.fsdecode(p) for n in ODD for p in (n, b"d/" + n + b"/in")} | {os.fsdecode(b"old/" + n) for n in ODD[::2]}
    assert summary["ignored"] == len(ODD) and len(summary["discarded"]) == len(GIT_LIKE)
    whole = rv.raw("diff", format="patch", ignored=False)
    rv.apply(ignored=False)
    for name in ODD:
        with open(os.path.join(os.fsencode(rv.host), name), "rb") as f:
            assert f.read() == b"new " + name + b"\n"
    assert not rv.diff(ignored=False)[0]
    rv.undo()
    assert rv.raw("diff", format="patch", ignored=False) == whole
    for name in (b":!y", b":(attr:x)y", b"-x", b"*", b"\xff\xfe"):  # a path takes itself alone
        changes, _ = rv.diff(ignored=False, set={"paths_b64": [base64.b64encode(name).decode()]})
        assert list(changes) == [os.fsdecode(name)]


# --- what a file has beside its content ---

def acl(*users):
    """An access ACL: rw for the owner, r for everybody, rw for some users."""
    entries = [(1, 6, 0xffffffff), *((2, 6, u) for u in users), (4, 4, 0xffffffff), (16, 6, 0xffffffff), (32, 4, 0xffffffff)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries)


def attributes(path):
    return {n: os.getxattr(path, n) for n in os.listxattr(path) if n != "security.selinux"}, stat.S_IMODE(os.stat(path).st_mode)


def test_attributes_acls_and_set_id_bits_stay(rv):
    for name in ("edited", "deleted", "tool"):
        put(rv.host, name, "one\n", 0o755 if name == "tool" else 0o644)
    rv.pin()
    for name in ("edited", "deleted"):
        for key, value in (("user.note", b"kept"), ("system.posix_acl_access", acl(0, 65534))):
            try:
                os.setxattr(f"{rv.host}/{name}", key, value)
            except OSError as e:
                assert e.errno == errno.ENOTSUP  # the file system has none: the bits are looked at all the same
    os.chmod(f"{rv.host}/tool", 0o6755)
    before = {n: attributes(f"{rv.host}/{n}") for n in ("edited", "deleted", "tool")}
    put(rv.box, "edited", "two\n")
    put(rv.box, "tool", "two\n", 0o755)
    os.unlink(f"{rv.box}/deleted")
    rv.collect()
    assert "privilege" in [r["flag"] for r in rv.diff()[0]["tool"]["risks"]]
    for _ in range(2):
        rv.apply()
        assert attributes(f"{rv.host}/edited") == before["edited"] and attributes(f"{rv.host}/tool") == before["tool"]
        assert not os.path.exists(f"{rv.host}/deleted")
        rv.undo()
        assert {n: attributes(f"{rv.host}/{n}") for n in before} == before


def test_a_deletion_of_what_can_not_be_read_is_told(rv):
    put(rv.host, "open", "1\n")
    rv.pin()
    os.mkfifo(f"{rv.host}/secret")  # as a file of mode 000 is for an ordinary user: there, and not to be read
    rv.collect(stream(entry("x", "secret")))
    c = rv.diff()[0]["secret"]
    assert (c["kind"], c["state"]) == ("delete", "lost") and c["why"]
    assert b"skep: not in this patch: secret" in rv.raw("diff", format="patch")


def test_a_conflict_is_shown(rv):
    put(rv.host, "text", "".join(f"{i}\n" for i in range(30)))
    rv.pin()
    put(rv.host, "text", "".join(f"{i}\n" for i in range(30)).replace("15\n", "host\n"))
    put(rv.host, "both", "the host's\n")
    put(rv.box, "text", "".join(f"{i}\n" for i in range(30)).replace("15\n", "sandbox\n"))
    put(rv.box, "both", "the sandbox's\n")
    rv.collect()
    patch = rv.raw("diff", format="patch").decode()
    assert "skep: not in this patch: text: conflict" in patch
    for line in ("-15", "+sandbox", "+the sandbox's"):
        assert f"\nskep: {line}\n" in patch, patch
    assert all(line.startswith("skep: ") for line in patch.splitlines()), "git would take it for a patch"
