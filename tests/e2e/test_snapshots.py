# SPDX-License-Identifier: Apache-2.0
"""snapshot, rollback, fork, new --from, --auto-snapshot, --context."""
import os
import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from kit import ID, find_procs, wait_for


def sh(home, sid, script, **kw):
    return home.skep("exec", sid, "--", "sh", "-c", script, **kw).ok().line


def snaps(home, *args):
    return home.skep("snapshots", "--json", *args).json()["snapshots"]


@pytest.fixture
def tiny(home, busybox):
    """A small image, imported."""
    d = f"{home.top}/rootfs"
    for sub in ("bin", "etc", "tmp", "home", "usr/lib", "root"):
        os.makedirs(f"{d}/{sub}")
    shutil.copy(busybox, f"{d}/bin/busybox")
    for a in "sh cat echo id mkdir rm touch ls sleep hostname true".split():
        os.symlink("busybox", f"{d}/bin/{a}")
    with open(f"{d}/etc/passwd", "w", encoding="ascii") as f:
        f.write("root:x:0:0:root:/root:/bin/sh\n")
    return home.skep("image", "import", d, "--name", "tiny").ok().line


# -- going back -----------------------------------------------------------------------------------------------
def test_snapshot_and_rollback(home, skep, project):
    sid = home.new()
    sh(home, sid, "echo one > f; echo h > ~/h; rm README; mkdir d; echo x > d/x")
    n = skep("snapshot", sid, "first", "--json").json()
    assert (n["name"], n["mode"], n["sandbox"], n["automatic"], n["layers"] >= 1) == ("first", "sealed", sid, False, True)
    assert "memory" in n["not_covered"] and "workspace" in n["covered"]
    assert home.show(sid)["state"] == "stopped"  # nothing ran: its cell was ended, nothing was copied
    sh(home, sid, "echo two > f; rm ~/h; echo back > README; mv d e; touch new")
    assert skep("rollback", sid, "first").ok().out.startswith(sid)
    assert sh(home, sid, "cat f ~/h d/x; ls; test ! -e README; test ! -e new; test ! -e e").split()[:3] == ["one", "h", "x"]
    # what was there before the rollback is not lost
    kept = [x for x in snaps(home, sid) if x["automatic"]]
    assert len(kept) == 1
    skep("rollback", sid, kept[0]["id"]).ok()
    assert sh(home, sid, "cat f README e/x; test -e new") == "two\nback\nx"
    skep("rollback", sid).ok()  # the newest named one
    assert sh(home, sid, "cat f") == "one"
    types = [e["type"] for e in home.journal(sid)]
    assert types.count("rollback") == 3 and "snapshot.made" in types
    skep("log", sid, "--verify").ok()


def test_pending_comes_back_with_the_files(home, skep, project):
    sid = home.new()
    sh(home, sid, "echo 1 > a")
    skep("stop", sid).ok()
    skep("snapshot", sid, "s").ok()
    sh(home, sid, "echo 1 > b; echo 1 > c")
    skep("stop", sid).ok()
    assert home.show(sid)["pending"] == 3
    skep("rollback", sid).ok()
    assert home.show(sid)["pending"] == 1
    sh(home, sid, "true")
    skep("stop", sid).ok()
    assert home.show(sid)["pending"] == 1


def test_names_and_errors(home, skep, project):
    a, b = home.new(), home.new()
    sh(home, a, "echo 1 > f")
    skep("rollback", a).fails(3, "no named snapshot")
    first = skep("snapshot", a, "s").ok().line
    assert ID.match(first) and first[0] == "n"
    skep("snapshot", a, "s").fails(4, "has a snapshot named s")
    skep("snapshot", b, "s").ok()  # names are the sandbox's own
    for bad in ("S", "-x", "a_b", "x" * 41, "naaaaaaaaaaaaaaa", ""):
        assert skep("snapshot", a, "--", bad).rc == 2, bad
    skep("rollback", b, first).fails(4, "skep new --from")
    skep("rollback", a, "nothing").fails(3, "nothing")
    skep("new", "--from", "s").fails(4, "several")
    skep("new", "--from", "nothing").fails(3, "nothing")
    skep("new", "--from", first, "--repo", project).fails(2, "snapshot")
    skep("fork", "nothing").fails(3)
    skep("fork", a, "-n", "0").fails(2)
    skep("snapshot", "nothing").fails(3)
    assert [x["name"] for x in snaps(home, a)] == ["s"]
    assert "s" in skep("snapshots", a).ok().out
    skep("snapshot", "rm", first[:8]).ok()
    skep("snapshot", "rm", first).fails(3)
    assert snaps(home, a) == []
    assert sh(home, a, "cat f") == "1"


def test_rm_keeps_named_snapshots(home, skep, project):
    sid = home.new("--env", "KEPT=yes")
    sh(home, sid, "echo precious > f")
    skep("snapshot", sid, "keep").ok()
    sh(home, sid, "echo later > f")
    skep("snapshot", sid).ok()
    skep("rollback", sid).ok()
    skep("rm", "--force", sid).ok()
    assert [x["name"] for x in snaps(home, "--all")] == ["keep"]
    new = home.new("--from", "keep")
    assert sh(home, new, "cat f; echo $KEPT") == "precious\nyes"
    assert home.show(new)["origin"] == snaps(home)[0]["id"]
    skep("rm", "--force", new).ok()
    skep("snapshot", "rm", "keep").ok()
    wait_for(lambda: not [n for n in os.listdir(f"{home.skep_home}/layers") if not n.startswith(".")], why="the layers to go")


# -- forks ----------------------------------------------------------------------------------------------------
IDENTITY = "hostname; cat /etc/machine-id; cat /proc/sys/kernel/hostname"


def test_forks_share_the_past_and_nothing_else(home, skep, project):
    skep("secret", "set", "TOKEN", "--host", "api.example.org", "--as", "bearer", stdin=b"very-secret").ok()
    sid = home.new("--secret", "TOKEN", "--label", "team=a")
    sh(home, sid, "echo past > past; echo shared > shared")
    ids = skep("fork", sid, "-n", "3").ok().out.split()
    assert len(set(ids)) == 3 and sid not in ids
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: sh(home, i, f"echo {i} > shared; echo mine > only-{i}; rm past"), [sid, *ids]))
        told = list(pool.map(lambda i: sh(home, i, f"cat shared; ls; {IDENTITY}; echo $TOKEN"), [sid, *ids]))
    for i, out in zip([sid, *ids], told):
        assert out.splitlines()[0] == i and f"only-{i}" in out and out.count("only-") == 1 and "\npast\n" not in out
    assert len({tuple(t.splitlines()[-4:-1]) for t in told}) == 4  # host name and machine id
    placeholders = [t.splitlines()[-1] for t in told]
    assert len(set(placeholders)) == 4 and all(placeholders) and not any("very-secret" in p for p in placeholders)
    assert home.show(ids[0])["labels"] == {"team": "a"} and home.show(ids[0])["net"]["secrets"] == ["TOKEN"]
    skep("rm", "--force", sid).ok()  # forks do not need where they come from
    assert sh(home, ids[1], "cat shared") == ids[1]
    skep("log", ids[1], "--verify").ok()
    assert "fork" not in [e["type"] for e in home.journal(ids[1])]


def test_fork_from_an_earlier_moment(home, skep, project):
    sid = home.new()
    sh(home, sid, "echo 1 > f")
    skep("snapshot", sid, "one").ok()
    sh(home, sid, "echo 2 > f")
    assert sh(home, skep("fork", sid, "--from", "one").ok().line, "cat f") == "1"
    assert sh(home, skep("fork", sid).ok().line, "cat f") == "2"
    assert sh(home, sid, "cat f") == "2"


def copies(home):
    return sorted(n for n in os.listdir(f"{home.skep_home}/trees") if not n.endswith(".partial"))


def test_a_frozen_copy_stays_for_its_forks(home, skep, project):
    """The last sandbox or snapshot on a frozen copy removes it, whichever that is."""
    first = home.new("--pin")
    other = skep("fork", first).ok().line
    sh(home, other, "echo more > more")
    named = skep("snapshot", other, "kept", "--json").json()["id"]
    assert len(copies(home)) == 1
    skep("rm", "--force", first).ok()
    assert sh(home, other, "cat README more") == f"{open(f'{home.dir}/README').read()}more"
    third = skep("fork", other).ok().line
    skep("rm", "--force", other, third).ok()
    assert len(copies(home)) == 1, "a snapshot stands on it"
    last = skep("new", "--from", named).ok().line
    assert sh(home, last, "cat more") == "more"
    skep("snapshot", "rm", named).ok()
    assert sh(home, last, "cat README more").endswith("more")
    skep("rm", "--force", last).ok()
    wait_for(lambda: copies(home) == [], why="the copy to go with the last sandbox on it")


def test_running_processes_go_on(home, skep, project):
    """They are frozen for the copy, which is one moment, and are not even told."""
    sid = home.new()
    loop = "i=0; while :; do i=$((i+1)); echo $i > t; mv t a; echo $i > t; mv t b; sleep 0.01; done"
    xid = skep("exec", "-d", sid, "--", "sh", "-c", loop).ok().line
    wait_for(lambda: sh(home, sid, "test -s b && echo yes || true") == "yes")
    for name in ("one", "two"):
        n = skep("snapshot", sid, name, "--json").json()
        assert n["mode"] == "frozen-copy"
        assert home.show(sid)["state"] == "running" and home.exec_row(xid)["state"] == "running"
        before = int(sh(home, sid, "cat b"))
        wait_for(lambda b=before: int(sh(home, sid, "cat b") or 0) > b, why="the loop to go on")
    a, b = (int(x) for x in sh(home, home.new("--from", "one"), "cat a b").split())
    assert a - 1 <= b <= a
    now = int(sh(home, sid, "cat b"))
    skep("rollback", sid, "two").ok()
    assert not find_procs("i=$((i+1)); echo $i > t")
    assert a < int(sh(home, sid, "cat a")) < now + 1000


def test_a_paused_one(home, skep):
    sid = home.new()
    skep("exec", "-d", sid, "--", "sh", "-c", "echo 1 > f; sleep 551101").ok()
    wait_for(lambda: find_procs("sleep\x00551101"))
    skep("pause", sid).ok()
    skep("snapshot", sid, "s").ok()
    assert home.show(sid)["state"] == "paused" and find_procs("sleep\x00551101")
    assert sh(home, home.new("--from", "s"), "cat f") == "1"


# -- many -----------------------------------------------------------------------------------------------------
def test_300_snapshots_in_a_row(home, skep):
    """Correct at every depth, and the stack stays short: what is old is merged behind."""
    sid = home.new("--empty")
    api = lambda body: home.api("POST", f"/v1/sandboxes/{sid}/snapshots", body)
    quick = lambda script: home.popen("exec", sid, "--", "sh", "-c", script).wait(30)  # without a look at every process
    deepest = 0
    for i in range(300):
        assert quick(f"echo {i} > last; echo {i} > f{i % 10}; rm -f f{(i + 5) % 10}; mkdir -p d{i % 3}; echo {i} > d{i % 3}/{i % 7}") == 0
        status, n = wait_for(lambda i=i: (lambda r: r[0] != 409 and r)(api({"name": f"n{i}"})), why="the layers to be merged")
        assert status == 201, n
        deepest = max(deepest, n["layers"])
    assert deepest <= 32
    for i in (299, 150, 17, 3, 0):
        assert home.api("POST", f"/v1/sandboxes/{sid}/rollback", {"snapshot": f"n{i}"})[0] == 200
        want = [f"f{(i - k) % 10}={i - k}" for k in range(5) if i - k >= 0]
        got = sh(home, sid, "for f in f?; do echo $f=$(cat $f); done; cat last").split()
        assert sorted(got[:-1]) == sorted(want) and got[-1] == str(i)
    ids = [n["id"] for n in snaps(home, "--all")]
    for n in ids:
        assert home.api("DELETE", f"/v1/snapshots/{n}")[0] == 204
    skep("rm", "--force", sid).ok()
    wait_for(lambda: not [n for n in os.listdir(f"{home.skep_home}/layers") if not n.startswith(".")], 20, why="every layer to go")


def test_auto_snapshot(home, skep, project):
    sid = home.new("--auto-snapshot")
    for i in range(4):
        sh(home, sid, f"echo {i} > f")
    auto = [n for n in snaps(home, sid, "--all") if n["automatic"]]
    assert len(auto) == 4  # before each, the first one of an empty layer
    skep("rollback", sid, auto[0]["id"]).ok()  # before the last command
    assert sh(home, sid, "cat f") == "2"
    forked = skep("fork", sid).ok().line
    assert home.show(forked)["auto_snapshot"] is True


# -- other kinds ----------------------------------------------------------------------------------------------
def test_root_and_its_system(home, skep):
    sid = home.new("--root")
    sh(home, sid, "echo good > /etc/probe; mkdir -p /usr/local/x; echo 1 > /usr/local/x/f; echo h > /root/h; echo w > w")
    skep("snapshot", sid, "s").ok()
    sh(home, sid, "rm -r /etc/probe /usr/local/x /root/h w")
    forked = skep("fork", sid, "--from", "s").ok().line
    skep("rollback", sid).ok()
    for i in (sid, forked):
        assert sh(home, i, "cat /etc/probe /usr/local/x/f /root/h w").split() == ["good", "1", "h", "w"]


def test_an_imported_image(home, skep, tiny):
    sid = home.new("--image", tiny, "--empty")
    sh(home, sid, "echo 1 > /etc/probe 2>/dev/null || true; echo w > w; echo h > ~/h")
    skep("snapshot", sid, "s").ok()
    sh(home, sid, "rm w; echo 2 > ~/h")
    skep("rollback", sid).ok()
    assert sh(home, sid, "cat w ~/h") == "w\nh"
    new = home.new("--from", "s")
    assert home.show(new)["image"] == tiny and sh(home, new, "cat w ~/h") == "w\nh"


# -- continuity -----------------------------------------------------------------------------------------------
def test_context_is_found_again(home, skep, project):
    a = home.new("--context", "ticket-7")
    sh(home, a, "echo 1 > f; echo h > ~/h")
    skep("stop", a).ok()
    assert home.new("--context", "ticket-7") == a
    assert home.show(a)["state"] == "running" and home.show(a)["context"] == "ticket-7"
    home.kill_skepd()
    r = skep("run", "--context", "ticket-7", "--", "sh", "-c", "cat f ~/h; echo 2 > f")
    assert r.ok().out == "1\nh\n"
    assert sh(home, a, "cat f") == "2" and len(home.ps()) == 1
    assert home.new("--context", "ticket-8") != a
    skep("rm", "--force", a).ok()
    assert home.new("--context", "ticket-7") != a


def test_context_of_callers_at_once(home, skep, project):
    skep("ps").ok()
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda _: home.new("--context", "talk"), range(8)))
        outs = list(pool.map(lambda i: skep("run", "--context", "new-talk", "--", "sh", "-c", f"echo {i} >> all; echo {i}").ok().line, range(6)))
    assert len(set(ids)) == 1 and outs == [str(i) for i in range(6)]
    both = {s["context"]: s["id"] for s in home.ps()}
    assert set(both) == {"talk", "new-talk"} and len(home.ps()) == 2
    assert sorted(sh(home, both["new-talk"], "cat all").split()) == [str(i) for i in range(6)]
