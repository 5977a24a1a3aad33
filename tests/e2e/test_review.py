# SPDX-License-Identifier: Apache-2.0
"""Review as people use it: diff, apply, dismiss, undo and export of sandboxes in every condition."""
import json
import os
import random
import shutil
import subprocess
import sysconfig

import pytest
from kit import ROOT, wait_for
from review_box import NUMBERS, Box, apply_patch, files, git, put, repo

SOAK = int(os.environ.get("SKEP_TEST_ROUNDS") or 1) > 1
SEED = int(os.environ.get("SKEP_TEST_SEED", "20"))


def read(path):
    with open(path, "rb") as f:
        return f.read()


# --- the whole way ---

def test_diff_apply_undo_dismiss(home):
    d = repo(home)
    b = Box(home)
    assert b.diff() == b"" and b.json()["changes"] == []
    before = files(d)
    b.sh("sed -i 's/^line 50$/fifty/' a.txt; echo new > new.txt; rm sub/c.txt")
    inside = b.tree()
    assert files(d) == before, "a change of the sandbox reached the host by itself"
    assert b.status() == {"a.txt": "M", "new.txt": "A", "sub/c.txt": "D"}
    assert b" 3 files changed, 2 insertions(+), 2 deletions(-)" in b.diff("--stat")
    patch = b.diff()
    assert b"-line 50\n+fifty\n" in patch
    clean = f"{home.top}/clean"
    git("clone", "-q", d, clean)
    apply_patch(clean, patch)
    assert files(clean) == inside

    home.skep("stop", b.id).ok()  # the same without a cell
    assert b.diff() == patch
    b.apply().ok()
    assert files(d) == inside and b.diff() == b""
    assert b"fifty" in git("diff", cwd=d) and not git("diff", "--cached", cwd=d), "apply staged something"
    b.run("undo").ok()
    assert files(d) == before and b.diff() == patch
    b.run("undo").fails(3, "nothing was applied")

    b.run("dismiss", "--yes", "new.txt").ok()
    assert set(b.status()) == {"a.txt", "sub/c.txt"}
    b.run("dismiss", "--yes").ok()
    assert b.diff() == b"" and b.tree() == before
    assert home.show(b.id)["pending"] in (0, None, {}) or home.skep("rm", b.id).ok()

    wait_for(lambda: len(b.events()) >= 4, why="the last event, which an ending cell did not take")
    seen = [(e["type"], e.get("who")) for e in b.events()]
    assert [t for t, _ in seen] == ["review.applied", "review.undone", "review.dismissed", "review.dismissed"], seen
    applied = b.events("review.applied")[0]
    steps = {s["path"]: s for s in applied["steps"]}
    assert set(steps) == {"a.txt", "new.txt", "sub/c.txt"} or set(steps) == {"a.txt", "new.txt", "sub/c.txt", "sub"}, steps
    assert steps["a.txt"]["before"] == git("hash-object", f"{clean}/../p/a.txt").decode().strip(), "object ids before and after"
    assert applied["who"] and applied["digest"] and applied["base_before"] != applied["base_after"]


def test_what_can_not_be_read_is_said(home):
    """chmod 000: nobody can show it, so nobody shall think that there is nothing."""
    d = repo(home, {"a.txt": "a\n", "c.txt": "c\n"})
    b = Box(home)
    b.sh("echo more >> a.txt; echo n > new; mkdir d; echo x > d/y; chmod 000 a.txt new d; echo more >> c.txt")
    assert b.status() == {"c.txt": "M", "a.txt": "X", "d": "X", "new": "X"}
    patch = b.diff().decode()
    assert all(f"skep: not in this patch: {p}: it can not be read\n" in patch for p in ("a.txt", "new", "d")) and "+more" in patch
    assert b"a.txt: it can not be read" in b.diff("--stat")
    b.run("diff", "new").fails(5, "new can not be read", "chmod")
    r = b.apply().ok()
    assert all(f"left out: {p}: it can not be read" in r.err for p in ("a.txt", "new", "d")) and "1 file changed" in r.out
    assert "left out: new: it can not be read" in home.skep("apply", b.id, "-p").ok().err  # the same where each change is asked about
    assert "nothing else is pending" in b.apply().ok().out
    b.run("rm").fails(4, "pending")
    b.sh("chmod 644 a.txt new; chmod 755 d")
    b.apply().ok()
    assert b.status() == {} and [read(f"{d}/{p}") for p in ("a.txt", "d/y", "new")] == [b"a\nmore\n", b"x\n", b"n\n"]


def test_paths_and_hunks(home):
    d = repo(home)
    b = Box(home)
    b.sh("sed -i -e 's/^line 10$/ten/' -e 's/^line 90$/ninety/' a.txt; echo x >> b.txt; mkdir -p new/deep; echo n > new/deep/n")
    assert set(b.status()) == {"a.txt", "b.txt", "new/deep/n"}
    assert b.diff("b.txt").count(b"diff --git") == 1
    b.run("diff", "nowhere").fails(3)
    os.makedirs(f"{d}/sub", exist_ok=True)
    assert home.skep("diff", b.id, "../b.txt", cwd=f"{d}/sub").ok().out.count("diff --git") == 1, "paths are meant from here"
    home.skep("diff", b.id, "../../etc/passwd", cwd=f"{d}/sub").fails(2, "workspace")
    assert home.skep("diff", "b.txt").ok().out.count("diff --git") == 1, "no id: the newest of this directory"

    first, second = b.hunks("a.txt")
    b.apply("--hunk", second).ok()
    assert b"ninety" in read(f"{d}/a.txt") and b"ten" not in read(f"{d}/a.txt")
    assert b.hunks("a.txt") == [first], "an applied change left the pending set, the other one kept its id"
    b.apply("--hunk", second).fails(3)
    b.apply("new").ok()
    assert read(f"{d}/new/deep/n") == b"n\n" and set(b.status()) == {"a.txt", "b.txt"}
    b.run("dismiss", "--yes", "--hunk", first).ok()
    assert set(b.status()) == {"b.txt"}
    assert b.sh("sed -n '10p;90p' a.txt").out == "line 10\nninety\n"
    b.run("undo").ok()  # newest first: the dismissal
    assert b.sh("sed -n '10p;90p' a.txt").out == "ten\nninety\n"
    for _ in range(2):  # and then the stack of what was applied
        b.run("undo").ok()
    assert not git("status", "--porcelain", cwd=d)
    assert set(b.status()) == {"a.txt", "b.txt", "new/deep/n"}


def test_patch_mode_on_a_terminal(home, terminal):
    d = repo(home)
    b = Box(home)
    b.sh("""sed -i -e 's/^line 10$/ten/' -e 's/^line 20$/twenty/' -e 's/^line 30$/thirty/' a.txt
         sed -i -e 's/two/2/' b.txt; echo s >> sub/c.txt""")
    t = terminal("apply", b.id, "-p")
    t.expect(r"-line 10.*\+ten.*\(1/5\) Apply this change \[y,n,q,a,d,x,e,j,J,g,/,\?\]\?")
    t.send("?\n")
    t.expect(r"x - dismiss it.*\(1/5\)")
    t.send("s\n")
    t.expect(r"can not be split.*\(1/5\)")
    t.send("y\n")
    t.expect(r"twenty.*\(2/5\)")
    t.send("n\n")
    t.expect(r"thirty.*\(3/5\)")
    t.send("x\n")
    t.expect(r"\(4/5\)")
    t.send("q\n")
    t.expect("1 change applied.*1 change dismissed")
    assert t.wait() == 0 and t.restored()
    assert git("diff", "--name-only", cwd=d) == b"a.txt\n" and b"ten" in read(f"{d}/a.txt") and b"twenty" not in read(f"{d}/a.txt")
    assert len(b.hunks("a.txt")) == 1 and set(b.status()) == {"a.txt", "b.txt", "sub/c.txt"}
    assert b.sh("sed -n '30p' a.txt").out == "line 30\n", "dismissed inside"

    t = terminal("apply", b.id, "-p")
    t.expect(r"\(1/3\)")
    t.send("d\n")
    t.expect(r"\(2/3\)")
    t.send("a\n")
    t.expect(r"\(3/3\)")
    t.send(b"\x04")  # the end of input is q
    assert t.wait() == 0
    assert set(b.status()) == {"a.txt", "sub/c.txt"}

    t = terminal("dismiss", b.id, "-p", "sub/c.txt")
    t.expect(r"\(1/1\) Dismiss this change \[y,n,q,a,d,\?\]\?")
    t.send("y\n")
    assert t.wait() == 0 and set(b.status()) == {"a.txt"}
    t = terminal("apply", b.id)
    t.expect(r"apply 1 file, 1 change to .*\[y/N\]")
    t.send("n\n")
    assert t.wait() == 1 and b"twenty" not in read(f"{d}/a.txt")
    r = home.skep("apply", b.id, "-p").ok()  # nobody answers: nothing is taken, and the question has a line of its own
    assert r.out.endswith("]? \n") and b"twenty" not in read(f"{d}/a.txt")
    for env in ({"TERM": "dumb"}, {"NO_COLOR": "1", "SKEP_PAGER": "cat"}):  # nothing but text; less would complain about the first
        t = terminal("diff", b.id, env=env)
        assert t.wait() == 0 and b"\x1b" not in t.seen and b"-line 20\r\n+twenty" in t.seen and b"WARNING" not in t.seen
    t = terminal("diff", b.id, env={"PAGER": "cat"})
    t.expect(r"\x1b\[31m-line 20\x1b\[m\r\n\x1b\[32m\+twenty")
    assert t.wait() == 0


def test_going_to_and_fro(home, terminal):
    d = repo(home)
    b = Box(home)
    b.sh("sed -i -e 's/^line 10$/ten/' -e 's/^line 20$/twenty/' -e 's/^line 30$/thirty/' a.txt; echo 2 >> b.txt; echo s >> sub/c.txt")
    t = terminal("apply", b.id, "-p")
    t.expect(r"\(1/5\) Apply this change \[y,n,q,a,d,x,e,j,J,g,/,\?\]")
    t.send("k\n")
    t.expect(r"none before.*\(1/5\)")
    t.send("j\n")
    t.expect(r"\(2/5\) Apply this change \[y,n,q,a,d,x,e,k,K,j,J,g,/,\?\]")
    t.send("y\n")
    t.expect(r"\(3/5\)")
    t.send("k\n")
    t.expect(r"\(1/5\)")  # the second one is decided
    t.send("J\n")
    t.expect(r"\(2/5\)")
    t.send("n\n")  # and decided otherwise
    t.expect(r"\(3/5\)")
    t.send("g\n")
    t.expect(r"-  2: a.txt: -line 20.*   5: sub/c.txt: \+s.*go to which one\?")
    t.send("5\n")
    t.expect(r"\(5/5\) Apply this change \[y,n,q,a,d,x,e,k,K,g,/,\?\]")
    t.send("J\n")
    t.expect(r"none behind.*\(5/5\)")
    t.send("g 9\n")
    t.expect(r"no change with that number.*\(5/5\)")
    t.send("/^\\+th.r+ty\n")
    t.expect(r"\(3/5\)")
    t.send("/\n")
    t.expect("which regular expression")
    t.send("nowhere\n")
    t.expect(r"No change matches.*\(3/5\)")
    t.send("/(\n")
    t.expect(r"no regular expression.*\(3/5\)")
    t.send("y\n")
    t.expect(r"\(4/5\)")
    t.send("y\n")
    t.expect(r"\(5/5\)")
    t.send("n\n")
    t.expect(r"\(1/5\)")  # the last undecided one
    t.send("n\n")
    t.expect("2 changes applied")
    assert t.wait() == 0 and t.restored()
    assert read(f"{d}/a.txt") == NUMBERS.replace("line 30\n", "thirty\n").encode() and read(f"{d}/b.txt") == b"one\ntwo\nthree\n2\n"
    assert len(b.hunks("a.txt")) == 2 and set(b.status()) == {"a.txt", "sub/c.txt"}


def editor(home, name, script):
    """A program that stands for a person with an editor."""
    put(home.top, f"bin/{name}", f"#!/bin/sh\n{script}\n", 0o755)
    return f"{home.top}/bin/{name}"


def test_a_change_is_edited(home, terminal):
    d = repo(home)
    b = Box(home)
    b.sh("sed -i -e 's/^line 10$/ten\\nand more/' -e 's/^line 20$/twenty/' a.txt; printf 'x\\ny\\n' > new; printf '\\0' > bin")
    b.put("caf", b"\xff\n")
    fine = editor(home, "fine", "sed -i -e '/^+and more/d' -e 's/^+ten/+10/' -e '/^+x/d' -- \"$1\"")
    t = terminal("apply", b.id, "-p", env={"EDITOR": fine})
    t.expect(r"\(1/5\)")
    t.send("e\n")
    t.expect(r"\(2/5\)")
    t.send("d\n")
    t.expect(r"\(3/5\)")  # what is no text has no lines
    t.send("e\n")
    t.expect(r"can not be edited: it has no lines.*\(3/5\)")
    t.send("n\n")
    t.expect(r"\(4/5\)")
    t.send("e\n")
    t.expect(r"can not be edited: it is not text in UTF-8.*\(4/5\)")
    t.send("n\n")
    t.expect(r"\(5/5\)")
    t.send("e\n")
    t.expect("2 changes applied, 2 of them edited")
    assert t.wait() == 0 and t.restored()
    assert read(f"{d}/a.txt") == NUMBERS.replace("line 10\n", "10\n").encode() and read(f"{d}/new") == b"y\n"
    assert b.sh("sed -n 10,11p a.txt; cat new").out == "ten\nand more\nx\ny\n", "the sandbox keeps what it made"
    assert b"-10\n+ten\n+and more\n" in b.diff("a.txt") and b"+x\n y\n" in b.diff("new"), "and the difference stays pending"
    applied = b.events("review.applied")[0]
    assert len(applied["edited"]) == 2 and set(applied["edited"]) <= set(applied["hunks"])
    b.run("undo").ok()
    assert read(f"{d}/a.txt") == NUMBERS.encode() and not os.path.exists(f"{d}/new") and len(b.hunks("a.txt")) == 2

    mark = f"{home.top}/mark"  # spoils it the first time, and puts it right the second
    bad = editor(home, "bad", f"if [ -e {mark} ]; then sed -i 's/^ line nine$/ line 9/' \"$1\"; else touch {mark}; sed -i -e 's/^ line 9$/ line nine/' -e 's/^+ten/+10/' \"$1\"; fi")
    t = terminal("apply", b.id, "-p", "a.txt", env={"EDITOR": bad})
    t.expect(r"\(1/2\)")
    t.send("e\n")
    t.expect(r"does not apply: line \d+ is not one that was there.*Edit again")
    t.send("n\n")
    t.expect(r"Not edited.*\(1/2\)")
    os.unlink(mark)
    t.send("e\n")
    t.expect(r"does not apply.*Edit again")
    t.send("y\n")
    t.expect(r"\(2/2\)")
    t.send("q\n")
    t.expect("1 change applied, 1 of them edited")
    assert t.wait() == 0 and b"\n10\nand more\n" in read(f"{d}/a.txt")
    b.run("undo").ok()
    gone = editor(home, "gone", "sed -i '/^[^#]/d' \"$1\"")
    for what, why in ((gone, "nothing was left of it"), ("false", "editor .* failed")):
        t = terminal("apply", b.id, "-p", "a.txt", env={"EDITOR": what})
        t.expect(r"\(1/\d\)")
        t.send("e\n")
        t.expect(f"Not edited: .*{why}.*Apply this change")
        t.send("q\n")
        assert t.wait() == 0
    assert not [f for f in os.listdir("/tmp") if f.startswith("skep-change-")]

    digest, first = b.digest(), b.hunks("a.txt")[0]
    call = lambda body: home.api_raw("POST", f"/v1/sandboxes/{b.id}/apply", {"digest": digest, "set": {"hunks": [first]}, **body})
    assert call({"edits": {"0" * 12: "x\n"}})[0] == 404 and call({"edits": [first]})[0] == 400 and call({"edits": {first: 5}})[0] == 400
    assert call({"edits": {first: "x\n"}, "conflicts": "markers"})[0] == 400
    assert home.api_raw("POST", f"/v1/sandboxes/{b.id}/diff", {"edits": {}})[0] == 400


def tmux_in(home, d):
    """A terminal of tmux with a shell in directory d: (type, screen, end)."""
    sock = f"{home.top}/tmux"
    tmux = lambda *a: subprocess.run(["tmux", "-S", sock, "-f", "/dev/null", *a], env=home.env, cwd=d, check=True, capture_output=True).stdout.decode()
    tmux("new-session", "-d", "-s", "t", "-x", "100", "-y", "50", "sh")

    def type_in(keys, then=None):
        tmux("send-keys", "-t", "t", *([keys] if keys else []), "Enter")
        if then:
            wait_for(lambda: then in screen(), why=f"{then!r} after {keys!r}; there is: {screen()}")

    screen = lambda: tmux("capture-pane", "-p", "-t", "t")
    return type_in, screen, lambda: tmux("kill-server")


def test_as_a_person_in_tmux(home):
    d = repo(home)
    b = Box(home)
    b.sh("sed -i -e 's/^line 10$/ten/' -e 's/^line 20$/twenty/' -e 's/^line 30$/thirty/' a.txt; echo four >> b.txt")
    type_in, screen, end = tmux_in(home, d)
    vi = editor(home, "vi", "sed -i 's/^+thirty/+THIRTY/' \"$1\"; sleep 0.1")
    try:
        type_in(f"EDITOR={vi} skep apply -p {b.id}; echo left with $?", "(1/4) Apply this change")
        type_in("n", "(2/4) Apply this change")
        type_in("y", "(3/4) Apply this change")
        type_in("j", "(4/4) Apply this change")
        type_in("k", "+thirty")
        type_in("e", "(4/4) Apply this change")
        type_in("/four", "(4/4) Apply this change")
        type_in("g1", "(1/4) Apply this change")
        type_in("s", "can not be split")
        type_in("?", "/ - go to the next one")
        type_in("g4", "(4/4) Apply this change")
        type_in("x", "left with 0")
        assert "2 changes applied, 1 of them edited" in screen() and "1 change dismissed" in screen(), screen()
        type_in("clear; PAGER=cat skep diff; echo end $((6 * 7))", "end 42")
        assert "+ten" in screen() and "-THIRTY" in screen() and "+thirty" in screen() and "+twenty" not in screen(), "that one landed"
    finally:
        end()
    assert read(f"{d}/a.txt") == NUMBERS.replace("line 20\n", "twenty\n").replace("line 30\n", "THIRTY\n").encode()
    assert b.sh("tail -1 b.txt").out == "three\n", "dismissed inside"


def test_watching_as_a_person_in_tmux(home):
    d = repo(home, {"a.txt": NUMBERS, "Makefile": "all:\n"})
    b = Box(home)
    type_in, screen, end = tmux_in(home, d)
    try:
        type_in(f"skep watch -i {b.id}; echo left with $?", "watching")
        b.sh("sed -i 's/^line 50$/fifty/' a.txt")
        wait_for(lambda: "+fifty" in screen() and "Apply this change" in screen(), why="the first change")
        type_in("?", "y - apply this change")
        type_in("y", "applied")
        assert read(f"{d}/a.txt") == NUMBERS.replace("line 50\n", "fifty\n").encode()
        b.sh("printf '\\trm x\\n' >> Makefile")
        wait_for(lambda: "risk: " in screen() and screen().rstrip().endswith("?]?"), why="the second one, with its risk")
        type_in("x", "dismissed")
        assert b.sh("cat Makefile").out == "all:\n"
        b.sh("echo new > n.txt")
        wait_for(lambda: "+new" in screen() and screen().rstrip().endswith("?]?"), why="the third one")
        type_in("n")
        type_in("q", "left with 0")
    finally:
        end()
    assert b.status() == {"n.txt": "A"} and not os.path.exists(f"{d}/n.txt")


def test_to_risks_and_umask(home):
    d = repo(home, {"Makefile": "all:\n\techo hello\n", "a.txt": NUMBERS})
    b = Box(home)
    b.sh("echo '\trm -rf x' >> Makefile; sed -i 's/^line 1$/1/' a.txt; echo '#!/bin/sh' > go; chmod 777 go")
    flagged = {p: [r["flag"] for r in c["risks"]] for p, c in b.changes().items()}
    assert flagged["Makefile"] and flagged["go"] and not flagged["a.txt"], flagged
    before = files(d)
    b.apply().fails(5, "Makefile")
    assert files(d) == before, "refused, but something was written"
    b.apply("a.txt").ok()
    b.apply("Makefile").fails(5, "Makefile")
    b.apply("--accept", "Makefile", "Makefile").ok()
    other = f"{home.top}/other"
    git("clone", "-q", d, other)
    b.apply("--to", other).fails(5, "go")
    home.skep("apply", b.id, "--yes", "--accept-risk", "--to", other, umask=0o27).ok()
    assert os.stat(f"{other}/go").st_mode & 0o7777 == 0o750, "the caller's umask"
    assert set(b.status()) == {"go"} and not os.path.exists(f"{d}/go"), "--to leaves the pending set"
    b.apply("--to", f"{home.top}/not-there").fails(3)
    b.apply("--accept-risk").ok()
    assert b.diff() == b""
    out = b.run("export", "--patch", "-")
    assert out.rc == 0 and b"diff --git" not in out.out_b
    assert [e["type"] for e in b.events()][-1] == "review.exported"


def test_the_host_moves_on(home):
    d = repo(home, {"a.txt": NUMBERS, "b.txt": NUMBERS, "c.txt": "c\n"})
    b = Box(home)
    b.sh("sed -i 's/^line 50$/fifty/' a.txt; sed -i 's/^line 7$/inside/' b.txt; echo new > n.txt")
    put(d, "a.txt", NUMBERS.replace("line 1\n", "host 1\n"))
    put(d, "b.txt", NUMBERS.replace("line 7\n", "outside\n"))
    patch = b.diff("a.txt")
    assert b"-line 50\n+fifty" in patch and b"host 1" not in patch, "pending is what apply would do now, no more"
    c = b.changes()
    assert c["a.txt"]["state"] == "moved" and c["b.txt"]["state"] == "conflict" and b.json()["summary"]["conflicts"] == 1
    assert b"skep: not in this patch: b.txt: conflict: the host has changed the same lines" in b.diff()
    before = files(d)
    b.apply().fails(4, "b.txt")
    assert files(d) == before
    assert "b.txt" in b.apply("--conflicts", "skip").ok().out
    assert read(f"{d}/a.txt") == NUMBERS.replace("line 1\n", "host 1\n").replace("line 50\n", "fifty\n").encode()
    assert b"outside" in read(f"{d}/b.txt") and set(b.status()) == {"b.txt"}
    b.apply("--conflicts", "markers").ok()
    text = read(f"{d}/b.txt")
    assert text.count(b"<<<<<<<") == 1 and b"outside\n" in text and b"inside\n" in text
    b.run("undo").ok()
    assert read(f"{d}/b.txt") == before[b"b.txt"][2]
    put(d, "a.txt", "edited after\n")
    b.run("undo").fails(4, "a.txt")
    assert read(f"{d}/a.txt") == b"edited after\n" and os.path.exists(f"{d}/n.txt"), "an undo that was refused did something"


def test_what_was_looked_at_is_what_lands(home):
    d = repo(home)
    b = Box(home)
    b.sh("echo x >> b.txt")
    seen = b.digest()
    path = f"/v1/sandboxes/{b.id}/apply"
    assert home.api("POST", path, {"set": {"all": True}})[0] == 400, "apply without a digest"
    b.sh("echo y >> b.txt")
    status, body = home.api("POST", path, {"set": {"all": True}, "digest": seen})
    assert status == 409 and "look again" in body["error"]["message"], body
    assert not git("status", "--porcelain", cwd=d)
    status, body = home.api("POST", f"/v1/sandboxes/{b.id}/dismiss", {"set": {"all": True}, "digest": seen})
    assert status == 409 and b.status() == {"b.txt": "M"}
    put(d, "b.txt", "zero\none\ntwo\nthree\n")  # the host counts as much
    was = b.digest()
    put(d, "b.txt", "0\none\ntwo\nthree\n")
    assert home.api("POST", path, {"set": {"all": True}, "digest": was})[0] == 409
    assert home.api_raw("POST", path, {"set": {"all": True}, "digest": b.digest()})[0] == 200


# --- what a person is asked ---

def test_a_question_is_about_what_was_named(home, terminal):
    d = repo(home)
    b = Box(home)
    b.sh("echo x >> b.txt; for i in $(seq 9); do echo $i > n$i; done; mkdir m; echo y > m/y; printf '#!/bin/sh\n' > run.sh; chmod +x run.sh")
    t = terminal("apply", b.id, "b.txt", "m")
    t.expect("apply 2 files, 2 changes to")
    t.send("y\n")
    assert t.wait() == 0 and read(f"{d}/b.txt").endswith(b"x\n")
    t.expect("2 files changed")
    assert "2 files put back" in b.run("undo").ok().out, "undo counts as apply does"
    t = terminal("dismiss", b.id, "n1")
    t.expect("dismiss 1 file, 1 change?")
    t.send("n\n")
    assert t.wait() == 1 and "n1" in b.status()
    t = terminal("apply", b.id)  # what is refused after a yes is not asked
    t.expect("run.sh.* must be accepted by name")
    assert t.wait() and not os.path.exists(f"{d}/n2")
    put(d, "b.txt", "other\n")
    t = terminal("apply", b.id, "--accept-risk")
    t.expect("b.txt.* conflicts with the directory")
    assert t.wait() and not os.path.exists(f"{d}/n2")
    t = terminal("apply", b.id, "run.sh", "--accept", "run.sh")
    t.expect("apply 1 file, 1 change to")
    t.send("y\n")
    assert t.wait() == 0 and os.access(f"{d}/run.sh", os.X_OK)


def test_nobody_is_asked_to_dismiss(home):
    repo(home)
    b = Box(home)
    b.sh("echo new > new.txt")
    assert "--yes" in b.run("dismiss").fails(2).err
    assert b.status() == {"new.txt": "A"}
    b.run("dismiss", "--yes").ok()
    assert b.status() == {}


def test_a_dismissal_is_undone(home):
    repo(home, {"a.txt": NUMBERS, "b.txt": "one\n", "old.txt": NUMBERS[:300], "sub/c.txt": "see\n", "tool": "t\n", "dir/x": "x\n"})
    b = Box(home)
    b.sh("sed -i 's/^line 5$/five/; s/^line 90$/ninety/' a.txt; rm b.txt; mv old.txt new.txt; mkdir -p n/m; echo n > n/m/f; ln -s f n/m/l; chmod +x tool;"
         "mkdir empty; head -c 5000 /dev/urandom > blob; rm -r dir; echo file > dir")
    before, inside = b.status(), b.tree()
    b.run("dismiss", "--yes").ok()
    assert b.status() == {}
    assert "dismiss" in b.run("undo").ok().out
    assert (b.status(), b.tree()) == (before, inside)
    b.run("undo").fails(3, "nothing was applied")
    part = b.hunks("a.txt")[1]
    b.run("dismiss", "--yes", "--hunk", part).ok()
    assert b"ninety" not in b.diff() and b"+five" in b.diff()
    b.run("undo").ok()
    assert b.tree() == inside
    b.run("dismiss", "--yes", "a.txt").ok()
    b.sh("echo later >> a.txt")
    b.run("undo").fails(4, "changed meanwhile")
    assert b.tree()[b"a.txt"][2].endswith(b"line 100\nlater\n"), "what came later is never lost"
    b.apply("a.txt").ok()
    assert "file put back" in b.run("undo").ok().out, "an apply is what was last"


def test_what_is_pending_is_known_after_an_apply_without_a_cell(home):
    repo(home)
    b = Box(home)
    b.sh("echo x >> b.txt; echo new > new.txt")
    pending = lambda n: wait_for(lambda: home.show(b.id)["pending"] == n, 30, why=f"{n} pending, not {home.show(b.id)['pending']}")
    home.skep("stop", b.id).ok()
    b.apply("b.txt").ok()
    pending(1)
    b.run("undo").ok()
    pending(2)
    b.run("dismiss", "--yes", "new.txt").ok()
    pending(1)
    assert home.show(b.id)["state"] == "stopped"
    b.apply().ok()
    home.skep("rm", b.id).ok()


def test_a_branch_names_no_commit_that_nobody_has(home):
    """A submodule that was moved: to a commit that the directory has, and to one of the sandbox's own."""
    lib = repo(home, {"x": "1\n"}, where=f"{home.top}/lib")
    put(lib, "x", "2\n")
    git("commit", "-qam", "second", cwd=lib)
    d = repo(home)
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib, "lib", cwd=d)
    git("commit", "-qm", "with lib", cwd=d)
    b = Box(home)
    me = "-c user.name=t -c user.email=t@t"
    b.sh(f"git -C lib checkout -q HEAD~1; git add lib; git {me} commit -qm back")
    home.skep("export", b.id, "--branch", "back").ok()
    assert git("rev-parse", "back:lib", cwd=d).strip() == git("rev-parse", "HEAD~1", cwd=f"{d}/lib").strip()
    b.sh(f"cd lib; echo own > x; git {me} commit -qam own; cd ..; git add lib; git {me} commit -qm own")
    home.skep("export", b.id, "--branch", "own").fails(4, "lib", "only the sandbox has")
    assert b"own" not in git("branch", cwd=d)


def test_a_path_that_is_too_long_keeps_nothing_else_from_review(home):
    d = repo(home)
    b = Box(home)
    deep = "import os\nfor i in range(18):\n    os.mkdir('d' * 250)\n    os.chdir('d' * 250)\nfor n in 'ab':\n    open(n, 'w').write(n)\n"
    home.skep("exec", b.id, "--", "/usr/bin/python3", "-c", deep).ok()
    b.sh("echo new > ':!new'; echo x >> b.txt")
    j = b.json()
    assert {c["path"] for c in j["changes"]} == {":!new", "b.txt"}
    left = j["summary"]["discarded"]
    assert left and all("too long" in x["why"] and len(x["path"]) < 1100 for x in left), left
    assert b":!new" in b.diff() and b"new" in b.run("export", "--patch", "-").ok().out_b
    r = b.apply("--accept-risk").ok()
    assert "too long" in r.err and read(f"{d}/:!new") == b"new\n"
    assert b.json()["changes"] == []


# --- where the base comes from ---

@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_the_base_is_gone(home, how):
    d = repo(home)
    put(d, "dirty.txt", "not committed\n")
    b = Box(home)
    b.sh("echo x >> dirty.txt; echo new > n.txt; sed -i 's/^line 5$/five/' a.txt; rm b.txt")
    assert set(b.status()) == {"dirty.txt", "n.txt", "a.txt", "b.txt"}
    home.skep("stop", b.id).ok()
    aside = f"{home.top}/aside"
    os.rename(d, aside)
    if how == "replaced":
        os.mkdir(d)
        put(d, "n.txt", "another directory's own\n")
    else:
        os.mkdir(home.top + "/elsewhere")
    here = home.dir if how == "replaced" else home.top + "/elsewhere"
    run = lambda *a: home.skep(*a, cwd=here)
    patch = run("diff", b.id).ok().out
    assert "+x\n" in patch and "+new\n" in patch and "+five\n" in patch, patch
    assert "skep: not in this patch: b.txt" in patch, "a deletion whose base is lost is said"
    assert "+new\n" in run("export", b.id, "--patch", "-").ok().out
    run("apply", b.id, "--yes").fails(8, "export")
    run("exec", b.id, "--", "true").fails(125, "gone")
    assert run("show", "--json", b.id).json()["base"]["state"] == "gone"
    if how == "replaced":
        assert files(d) == {b"n.txt": ("file", False, b"another directory's own\n")}
        shutil.rmtree(d)
    os.rename(aside, d)
    assert set(b.status()) == {"dirty.txt", "n.txt", "a.txt", "b.txt"}
    b.apply().ok()
    assert read(f"{d}/dirty.txt") == b"not committed\nx\n"



def test_a_pinned_repository_is_gone(home):
    """Its objects went with it: what the sandbox made is there all the same, and a clone that has the objects gets it merged."""
    d = repo(home, where=f"{home.top}/away")
    clone = f"{home.top}/clone"
    git("clone", "-q", d, clone)
    b = Box(home, sid=home.new(cwd=d))
    b.sh("true")  # the base is recorded with the first command
    wait_for(lambda: os.path.exists(f"{home.skep_home}/sandboxes/{b.id}/shadow.git/refs/skep/pin"), why="the base to be pinned")
    b.sh("sed -i 's/^line 50$/fifty/' a.txt; echo new > new.txt; rm b.txt")
    shutil.rmtree(d)
    assert b.status() == {"a.txt": "A", "new.txt": "A"}
    patch = b.run("export", "--patch", "-").ok().out_b
    assert patch.count(b"+line ") == 99 and b"+new\n" in patch
    empty = f"{home.top}/empty"
    os.mkdir(empty)
    b.apply("--to", empty).ok()
    assert files(empty) == {b"a.txt": ("file", False, NUMBERS.replace("line 50\n", "fifty\n").encode()), b"new.txt": ("file", False, b"new\n")}
    with open(f"{clone}/a.txt", "a") as f:
        f.write("the clone's own\n")
    b.apply("--to", clone).ok()
    assert read(f"{clone}/a.txt").decode() == NUMBERS.replace("line 50\n", "fifty\n") + "the clone's own\n"
    assert not os.path.exists(f"{clone}/b.txt")
    out = f"{home.top}/out"
    home.skep("cp", f"{b.id}:{d}", out).fails(4, "gone", "apply")
    assert not os.path.exists(out)
    home.skep("cp", f"{b.id}:{d}/new.txt", out).ok()
    assert read(out) == b"new\n"


def test_a_directory_that_is_away_for_a_moment(home):
    d = repo(home, where=f"{home.top}/away")
    b = Box(home, sid=home.new(cwd=d))
    b.sh("echo more >> b.txt; rm sub/c.txt")
    os.rename(d, f"{d}.moved")
    b.run("diff", "--name-status").ok()
    os.rename(f"{d}.moved", d)
    assert b.status() == {"b.txt": "M", "sub/c.txt": "D"}
    b.apply().ok()
    assert read(f"{d}/b.txt") == b"one\ntwo\nthree\nmore\n" and b.diff() == b""
    b.run("undo").ok()
    assert b.status() == {"b.txt": "M", "sub/c.txt": "D"}


def test_rollback_takes_the_base_along(home):
    d = repo(home)
    b = Box(home)
    b.sh("sed -i 's/^line 10$/ten/' a.txt")
    home.skep("snapshot", b.id, "one").ok()
    b.sh("sed -i 's/^line 90$/ninety/' a.txt; echo later > later.txt")
    first = b.hunks("a.txt")[0]
    b.apply("--hunk", first).ok()
    b.apply("later.txt").ok()
    home.skep("rollback", b.id, "one").ok()
    assert b.status() == {}, "a hunk that was applied in between is not pending again"
    put(d, "a.txt", NUMBERS)  # the host takes it back: the sandbox still has it
    assert b.status() == {"a.txt": "M"} and b"+ten" in b.diff()
    assert "later.txt" not in b.status(), "what landed since stays the host's"
    b.sh("sed -i 's/^line 10$/10/; s/^ten$/10/' a.txt")
    b.apply().ok()
    assert read(f"{d}/a.txt") == NUMBERS.replace("line 10\n", "10\n").encode()
    b.run("undo").ok()
    assert read(f"{d}/a.txt") == NUMBERS.encode() and b.status() == {"a.txt": "M"}


def test_forks_have_the_base_of_their_origin(home):
    d = repo(home)
    put(d, "dirty.txt", "one\ntwo\nthree\nfour\n")
    put(d, ".gitignore", "*.ign\n")
    put(d, "x.ign", NUMBERS)
    b = Box(home)
    b.sh("sed -i 's/^line 50$/fifty/' a.txt x.ign; sed -i s/four/4/ dirty.txt")
    home.skep("snapshot", b.id, "kept").ok()
    wait_for(lambda: home.show(b.id)["base"]["state"] == "pinned", why="what is not committed to be recorded")
    f = Box(home, sid=home.skep("fork", b.id).ok().line)
    # the host moves on: none of this is a change of the fork
    put(d, "a.txt", NUMBERS.replace("line 1\n", "host 1\n"))
    put(d, "x.ign", NUMBERS.replace("line 1\n", "host 1\n"))
    put(d, "dirty.txt", "ONE\ntwo\nthree\nfour\n")
    for box in (f, b):
        patch = box.diff("--ignored")
        assert patch.count(b"\n+fifty\n") == 1 and b"\n+4\n" in patch, patch
        assert b"-ONE" not in patch and b"-host 1" not in patch, patch
        assert b"x.ign: conflict" in patch, "nobody knows what an ignored file was: it is said, not taken back"
    f.apply("a.txt").ok()
    assert "a.txt" not in f.status() and "a.txt" not in b.status(), "the host has it now"
    home.skep("rm", "--force", b.id).ok()
    assert set(f.status()) == {"dirty.txt"}, "a fork outlives its origin"
    n = Box(home, "--from", "kept")
    assert set(n.status()) == {"dirty.txt"} and b"-host 1" not in n.diff("--ignored"), "and so does a snapshot"
    home.skep("snapshot", "rm", "kept").ok()
    g = Box(home, sid=home.skep("fork", f.id).ok().line)
    home.skep("rm", "--force", f.id).ok()
    assert set(g.status()) == {"dirty.txt"}
    g.apply().ok()
    assert read(f"{d}/dirty.txt") == b"ONE\ntwo\nthree\n4\n"
    assert n.status() == {}
    home.skep("undo", g.id).ok()
    assert read(f"{d}/dirty.txt") == b"ONE\ntwo\nthree\nfour\n"


def test_other_bases(home):
    d = repo(home)
    # a URL: nothing lands by itself, --to does
    u = Box(home, "--repo", f"file://{d}")
    u.sh("sed -i 's/^line 50$/fifty/' a.txt; echo n > n.txt")
    assert u.status() == {"a.txt": "M", "n.txt": "A"}
    u.apply().fails(2, "--to")
    clone = f"{home.top}/clone"
    git("clone", "-q", d, clone)
    u.apply("--to", clone).ok()
    assert files(clone) == u.tree() and u.status() == {"a.txt": "M", "n.txt": "A"}
    uf = Box(home, sid=home.skep("fork", u.id).ok().line)
    assert uf.diff() == u.diff()
    u.run("dismiss", "--yes", "a.txt").ok()
    assert u.status() == {"n.txt": "A"}

    # --pin: the base does not move, the directory may
    p = Box(home, "--pin")
    put(d, "a.txt", NUMBERS.replace("line 1\n", "host 1\n"))
    assert p.sh("head -1 a.txt").out == "line 1\n"
    p.sh("sed -i 's/^line 50$/fifty/' a.txt")
    assert p.diff().count(b"@@") == 2 and b"+fifty" in p.diff()
    home.skep("snapshot", p.id, "s").ok()
    p.apply().ok()
    assert p.diff() == b"" and read(f"{d}/a.txt") == NUMBERS.replace("line 1\n", "host 1\n").replace("line 50\n", "fifty\n").encode()
    pf = Box(home, sid=home.skep("fork", p.id).ok().line)
    assert pf.diff() == b"", "what was applied before the fork is not pending in it"
    home.skep("rollback", p.id, "s").ok()
    assert p.diff() == b""

    # no repository at all, and nothing at all
    plain = f"{home.top}/plain"
    put(plain, "a.txt", NUMBERS)
    n = Box(home, sid=home.skep("new", cwd=plain).ok().line)
    n.sh("sed -i 's/^line 50$/fifty/' a.txt; echo n > n.txt")
    put(plain, "later.txt", "the host's own\n")
    assert n.status() == {"a.txt": "M", "n.txt": "A"}
    nf = Box(home, sid=home.skep("fork", n.id).ok().line)
    n.apply("a.txt").ok()
    assert n.status() == {"n.txt": "A"} and nf.status() == {"n.txt": "A"}
    n.run("undo").ok()
    assert n.status() == {"a.txt": "M", "n.txt": "A"}
    assert nf.changes()["a.txt"]["state"] == "conflict", "written anew: without git nobody knows what it was before"
    e = Box(home, "--empty")
    e.sh("echo hello > a; mkdir d; ln -s a d/l")
    assert e.status() == {"a": "A", "d/l": "A"}
    os.mkdir(f"{home.top}/into")
    e.apply("--to", f"{home.top}/into", "--accept-risk").ok()
    assert files(f"{home.top}/into") == e.tree()


def test_written_in_the_same_moment(home):
    """A file that the host wrote just before the sandbox was made is one that was there."""
    plain = f"{home.top}/soon"
    home.skep("ps").ok()
    for i in range(8):
        put(plain, f"a{i}.txt", NUMBERS)
        status, made = home.api("POST", "/v1/sandboxes", {"repo": plain})
        assert status == 201, made
        b = Box(home, sid=made["id"])
        b.sh(f"echo more >> a{i}.txt")
        assert b.status() == {f"a{i}.txt": "M"}
        home.skep("rm", "--force", b.id).ok()


def test_a_sandbox_on_nothing(home):
    """Everything in it is new; nothing is gone."""
    b = Box(home, "--empty")
    assert home.show(b.id)["base"] == {"state": "none", "head": None} and b.diff() == b"" and not b.json()["summary"]["gone"]
    into, taken = f"{home.top}/into", f"{home.top}/taken"
    put(taken, "a", "another a\n")  # older than what the sandbox makes
    os.mkdir(into)
    b.sh("echo hello > a; mkdir -p d/e void; echo deep > d/e/f; ln -s ../a d/l; printf '#!/bin/sh\\n' > run; chmod +x run")
    for again in range(2):
        c, summary = b.changes(), b.json()["summary"]
        assert {p: (x["kind"], x["state"]) for p, x in c.items()} == {
            "a": ("add", "clean"), "d/e/f": ("add", "clean"), "d/l": ("add", "clean"), "run": ("add", "clean"), "void": ("dir", "clean")}
        assert not any("why" in x for x in c.values()) and not summary["gone"] and summary["conflicts"] == 0 and summary["files"] == 4
        if not again:
            home.skep("stop", b.id).ok()
    b.apply().fails(2, "--to")
    assert home.api_raw("POST", f"/v1/sandboxes/{b.id}/apply", {"digest": b.digest(), "set": {"all": True}})[0] == 400
    b.apply("--to", into).fails(5, "run")
    b.apply("--to", into, "--accept", "run").ok()
    assert files(into) == b.tree() and os.path.isdir(f"{into}/void")
    assert set(b.status()) == {"a", "d/e/f", "d/l", "run"}, "--to leaves the pending set"
    b.apply("--to", taken, "a").fails(4, "a: conflict")
    assert read(f"{taken}/a") == b"another a\n"
    b.apply("--to", taken, "d").ok()
    assert read(f"{taken}/d/e/f") == b"deep\n"

    patch, mail = b.diff(), f"{home.top}/mail"
    clean = repo(home, {"other": "o\n"}, where=f"{home.top}/clean")
    apply_patch(clean, patch)
    assert files(clean) == {**b.tree(), b"other": ("file", False, b"o\n")}
    b.run("export", "--patch", mail, "-m", "all of it").ok()
    mailed = repo(home, {"other": "o\n"}, where=f"{home.top}/mailed")
    git("am", "-q", mail, cwd=mailed)
    assert files(mailed) == files(clean)
    b.run("export", "--branch", "x").fails(2, "--bundle")

    f = Box(home, sid=home.skep("fork", b.id).ok().line)
    assert f.diff() == patch and f.changes()["a"]["state"] == "clean"
    b.run("dismiss", "--yes", "d").ok()
    assert set(b.status()) == {"a", "run"} and b.sh("ls -d d || echo none", ok=False).out == "none\n"
    b.run("dismiss", "--yes").ok()
    assert b.diff() == b"" and not b.tree()


# --- commits ---

def test_export_of_commits(home):
    d, mark = repo(home), f"{home.top}/mark"
    for hook in ("reference-transaction", "post-checkout", "pre-auto-gc", "post-rewrite"):
        put(d, f".git/hooks/{hook}", f"#!/bin/sh\ntouch {mark}\n", 0o755)
    git("config", "core.fsmonitor", f"touch {mark}", cwd=d)
    git("config", "core.alternateRefsCommand", f"touch {mark}", cwd=d)
    git("config", "uploadpack.packObjectsHook", f"touch {mark}", cwd=d)
    b = Box(home)
    b.run("export", "--branch", "x").fails(4, "nothing was changed")
    b.sh("echo x >> b.txt; echo n > n.txt")
    state = b.sh("git status --porcelain; git log --oneline; git branch").out
    before = (files(d), read(f"{d}/.git/HEAD"), read(f"{d}/.git/index"))
    b.run("export", "--branch", "one", "-m", "what was done").ok()
    assert not os.path.exists(mark), "something of the repository's configuration ran"
    assert b.sh("git status --porcelain; git log --oneline; git branch").out == state, "the sandbox was changed by its export"
    shown = lambda *a: git("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *a, cwd=d).decode()
    assert shown("log", "--format=%s", "one").split("\n")[:2] == ["what was done", "start"]
    assert shown("diff", "--name-status", "main", "one") == "M\tb.txt\nA\tn.txt\n"
    assert (files(d), read(f"{d}/.git/HEAD"), read(f"{d}/.git/index")) == before, "a file was touched"
    b.run("export", "--branch", "one").fails(4, "exists")
    b.run("export", "--branch", "main").fails(4, "exists")
    for bad in ("HEAD", "-x", "a..b", "../../x", "a b", "x.lock"):
        b.run("export", f"--branch={bad}").fails(2, "branch")
    b.sh("git config user.name a; git config user.email a@b; git add -A; git commit -qm first; git commit -q --allow-empty -m second; echo left > u")
    b.run("export", "--branch", "feature/two").ok()
    assert shown("log", "--format=%s", "feature/two").split("\n")[:3] == ["second", "first", "start"]
    bundle = f"{home.top}/b.bundle"
    b.run("export", "--bundle", bundle).ok()
    clone = f"{home.top}/clone"
    git("clone", "-q", d, clone)
    git("fetch", "-q", bundle, "refs/heads/*:refs/remotes/box/*", cwd=clone)  # also main, which moved inside
    assert "fsck" not in shown("fsck", "--strict")
    u = Box(home, "--repo", f"file://{d}")
    u.sh("echo u > u.txt")
    u.run("export", "--branch", "x").fails(2, "--bundle")
    assert b"u.txt" in subprocess.run(f"git init -q {home.top}/full && cd {home.top}/full && git bundle unbundle {bundle}.u | cut -d' ' -f1 | xargs git ls-tree --name-only",
                                      shell=True, env=home.env, capture_output=True, check=False).stdout if u.run("export", "--bundle", f"{bundle}.u").ok() else False
    assert [e.get("branch") for e in b.events("review.exported")][:2] == ["one", "feature/two"]
    b.run("export").fails(2)
    Box(home, "--empty").run("export", "--bundle", "-").fails(4, "no git repository")


def test_hostile_bundles(home):
    """The git inside is the sandbox's own: what it writes is checked outside."""
    d = repo(home)
    b = Box(home, "--disk", "64M")
    evil = {
        "no bundle": "echo evil",
        "nothing": "true",
        "endless": "printf '# v2 git bundle\\n'; exec head -c 2G /dev/zero",
        "cut": "/usr/bin/git \"$@\" | head -c 200",
        "another ref": "/usr/bin/git update-ref refs/heads/evil HEAD; /usr/bin/git bundle create -q - refs/heads/evil",
        "a tree with .git": 'b=$(echo evil | /usr/bin/git hash-object -w --stdin); t=$(printf "100755 blob $b\\tpre-commit\\n" | /usr/bin/git mktree); '
                            't=$(printf "040000 tree $t\\t.GiT\\n" | /usr/bin/git mktree); /usr/bin/git update-ref "$5" $(echo x | /usr/bin/git commit-tree $t -p HEAD); /usr/bin/git bundle create -q - "$5" ^HEAD',
        "a broken commit": 'c=$(printf "tree $(/usr/bin/git rev-parse HEAD^{tree})\\nauthor x\\n\\nm\\n" | /usr/bin/git hash-object -t commit -w --stdin --literally); /usr/bin/git update-ref "$5" $c; /usr/bin/git bundle create -q - "$5"',
    }
    b.sh("echo x >> b.txt; mkdir -p $HOME/bin")
    tips = git("for-each-ref", cwd=d)
    for what, does in evil.items():
        b.put("/tmp/git", f'#!/bin/sh\ncase "$1" in bundle) {does} ;; *) exec /usr/bin/git "$@" ;; esac\n')
        home.skep("exec", b.id, "--", "sh", "-c", "chmod +x /tmp/git; cp /tmp/git $HOME/bin/git").ok()
        # its PATH is the sandbox's to choose: here an alias would do as well
        r = home.skep("exec", "-e", "PATH=/tmp:/usr/bin:/bin", b.id, "--", "sh", "-c", "git bundle create --quiet - refs/heads/main ^x | head -c 20")
        assert r.rc == 0
        r = export_with(home, b, "/tmp")
        assert "sandbox is no" in r.err, (what, r.err)
        assert r.rc in (1, 4, 6), (what, r.rc, r.out, r.err)
        assert git("for-each-ref", cwd=d) == tips, what
        assert git("fsck", "--strict", cwd=d) == b"", what


def export_with(home, b, directory):
    """An export while `directory` comes first in the sandbox's PATH."""
    f = Box(home, sid=home.skep("new", "--from", home.skep("snapshot", b.id).ok().line, "-e", f"PATH={directory}:/usr/bin:/bin").ok().line)
    f.sh("cp $HOME/bin/git /tmp/git; command -v git | grep -qx /tmp/git")
    return f.run("export", "--branch", "evil")


# --- what there is ---

def test_every_kind_of_change(home):
    d = repo(home, {"mod": "a\nb\n", "crlf": "a\r\nb\r\nc\r\n", "nonl": "a\nb", "gain": "a\nb", "bin": b"\0\1\2" * 50, "x": "#!/bin/sh\n",
                    "gone": "g\n", "dir/gone": "g\n", "old-name": NUMBERS, "tofile/x": "x\n", "todir": "f\n", "link-to-be": "l\n", "empty": ""})
    os.symlink("mod", f"{d}/link")
    put(d, b"caf\xe9", "latin\n")
    git("add", "-A", cwd=d)
    git("commit", "-q", "-m", "more", cwd=d)
    b = Box(home)
    b.sh(r"""echo c >> mod; sed -i 's/^b\r$/B\r/' crlf; printf 'a\nc' > nonl; printf 'a\nb\n' > gain; printf '\0\3\4' > bin; chmod +x x
        rm gone; rm -r dir; mv old-name new-name; sed -i 's/^line 3$/three/' new-name; rm -r tofile; echo now a file > tofile
        rm todir; mkdir todir; echo in > todir/in; rm link-to-be; ln -s mod link-to-be; ln -sfn bin link; mkdir -p void/deep
        printf x > "$(printf 'caf\351')"; printf y > "$(printf 'n\377w')"; printf 'tab' > "$(printf 'a\tb')"; printf z > 'sp ace'; echo e > empty""")
    inside = b.tree()
    c = b.changes()
    assert c["new-name"]["kind"] == "rename" and c["new-name"]["from"] == "old-name"
    assert c["void/deep"]["kind"] == "dir" and c["bin"]["binary"] and c["x"]["kind"] == "mode"
    assert c["tofile"]["kind"] in ("add", "type") and c["link-to-be"]["kind"] == "type"
    assert os.fsdecode(b"n\xffw") in c and "path_b64" in c[os.fsdecode(b"n\xffw")]
    clean = f"{home.top}/clean"
    git("clone", "-q", d, clean)
    apply_patch(clean, b.diff())
    assert files(clean) == inside, "git apply of the patch"
    mail = f"{home.top}/mail"
    b.run("export", "--patch", mail, "-m", "everything").ok()
    mailed = f"{home.top}/mailed"
    git("clone", "-q", d, mailed)
    git("am", "-q", "--keep-cr", mail, cwd=mailed)
    assert files(mailed) == inside and b"everything" in git("log", "-1", "--format=%s", cwd=mailed)

    before = files(d)
    w = b.changes()[os.fsdecode(b"n\xffw")]["path_b64"]  # a name that is no text goes as base64
    body = {"set": {"paths_b64": [w]}, "accept_b64": [w], "digest": b.digest()}
    status, _, data = home.api_raw("POST", f"/v1/sandboxes/{b.id}/apply", body)
    assert status == 200, data
    assert files(d) == {**before, b"n\xffw": ("file", False, b"y")}
    b.apply("--accept-risk").ok()
    assert files(d) == inside and os.path.isdir(f"{d}/void/deep") and not os.path.exists(f"{d}/dir")
    assert b.json()["changes"] == []
    b.run("undo").ok()
    b.run("undo").ok()
    assert files(d) == before and not os.path.exists(f"{d}/void")


def test_ten_thousand_files(home):
    d = repo(home)
    b = Box(home)
    b.sh("for i in $(seq 100); do mkdir d$i; for j in $(seq 100); do echo $i $j > d$i/f$j; done; done")
    assert len(b.status()) == 10000
    b.apply().ok()
    assert b.status() == {} and len(files(d)) == 10003
    b.run("undo").ok()
    assert len(files(d)) == 3
    steps = b.events("review.applied")[0]["steps"]
    assert 0 < len(steps) <= 10100


# --- real repositories ---

EDIT = r'''
import os, random, sys
rng = random.Random(int(sys.argv[1]))
paths = sorted(os.path.join(t, f) for t, ds, fs in os.walk(".") for f in fs if ".git" not in t.split(os.sep))
text = []
for p in paths:
    if not os.path.islink(p):
        data = open(p, "rb").read()
        if data and b"\0" not in data and len(data) < 200000:
            text.append(p)
def lines(p): return open(p, "rb").read().splitlines(True)
chosen = rng.sample(text, 16)
for p in chosen[:10]:
    rows = lines(p)
    for _ in range(rng.randrange(1, 5)):
        at, what = rng.randrange(len(rows) + 1), rng.randrange(3)
        if what == 0: rows[at:at] = [b"inserted %d\n" % rng.randrange(1000) for _ in range(rng.randrange(1, 4))]
        elif what == 1: del rows[at:at + rng.randrange(1, 6)]
        elif at < len(rows): rows[at] = b"changed " + rows[at]
    open(p, "wb").write(b"".join(rows))
os.unlink(chosen[10])
os.rename(chosen[11], chosen[11] + ".moved")
rows = lines(chosen[12]); os.unlink(chosen[12])
open(chosen[12] + ".moved", "wb").write(b"a first line\n" + b"".join(rows))
open(chosen[13], "ab").write(b"no newline at the end")
os.chmod(chosen[14], os.stat(chosen[14]).st_mode ^ 0o111)
open("blob", "wb").write(rng.randbytes(3000))
os.makedirs("made/here", exist_ok=True)
open("made/here/new.txt", "w").write("new\n")
'''


def sources(kind):
    """Directories with code of this kind that is installed here."""
    if kind == "c":
        return f"{ROOT}/src", (".c", ".h")
    if kind == "python":
        return sysconfig.get_paths()["stdlib"], (".py", ".txt", ".cfg")
    npm = os.path.realpath(shutil.which("npm"))
    return os.path.dirname(os.path.dirname(npm)), (".js", ".json", ".md")


def real_repo(kind, d):
    top, ends = sources(kind)
    n = 0
    for at, dirs, names in os.walk(top):
        dirs[:] = sorted(x for x in dirs if x not in (".git", "__pycache__", "test", "tests", "site-packages", "dist-packages"))
        for f in names:
            if f.endswith(ends) and os.path.isfile(f"{at}/{f}"):
                put(d, os.path.relpath(f"{at}/{f}", top), read(f"{at}/{f}"))
                n += 1
    git("init", "-q", "-b", "main", cwd=d)
    git("add", "-A", cwd=d)
    git("commit", "-q", "-m", kind, cwd=d)
    return n


@pytest.mark.parametrize("kind", ["c", "python", "javascript"])
def test_round_trip_of_real_repositories(home, kind):
    assert real_repo(kind, home.dir) > 300, "too small to tell"
    seed = SEED if SEED != 20 else random.randrange(1 << 30)
    print("seed", seed)
    b = Box(home)
    home.skep("exec", "-i", b.id, "--", "python3", "-", str(seed), stdin=EDIT.encode()).ok()
    inside = b.tree()
    assert inside != files(home.dir)
    clean = f"{home.top}/clean"
    git("clone", "-q", home.dir, clean)
    apply_patch(clean, b.diff())
    assert files(clean) == inside
    ids = b.hunks()
    random.Random(seed).shuffle(ids)
    n = 1 if SOAK or kind != "javascript" else (len(ids) + 7) // 8  # one by one, or a few at a time
    while left := b.hunks():  # what is left of a rename may have other ids than the whole of it had
        some = [h for h in ids if h in left][:n] or left[:n]
        b.apply("--accept-risk", *[w for h in some for w in ("--hunk", h)]).ok()
    assert files(home.dir) == inside and b.json()["changes"] == []
