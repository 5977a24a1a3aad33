# SPDX-License-Identifier: Apache-2.0
"""How sandboxes end by themselves, how much they hold, what gc takes and what it leaves."""
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import time

import pytest

from kit import ROOT, find_procs, proc_start, proc_state, remove_tree, wait_for
from test_repo import Web


def gone(home, sid):
    return all(s["id"] != sid for s in home.ps())


def state(home, sid):
    """As ps tells it: asking for one by name would renew its lease."""
    return next((s for s in home.ps() if s["id"] == sid), None)


def restart(home):
    pid = home.skepd_pid()
    if pid:
        home.watch()
        start = proc_start(pid)
        home.api("POST", "/v1/shutdown", {})
        wait_for(lambda: proc_start(pid) != start or proc_state(pid) == "Z", why="skepd to end")
    home.skep("ps").ok()


def edit(home, sql, *args):
    """state.db changed by hand, with no skepd there."""
    if home.skepd_pid():
        home.kill_skepd()
    wait_for(lambda: not home.skepd_pid(), why="skepd to be gone")
    db = sqlite3.connect(f"{home.skep_home}/state.db")
    with db:
        db.execute(sql, args)
    db.close()


def layers(home):
    return {n for n in os.listdir(f"{home.skep_home}/layers") if not n.startswith(".")}


def gc(home, *args):
    return {i["what"]: i for i in home.skep("gc", "--json", *args).json()["items"]}


# -- time -----------------------------------------------------------------------------------------------------
def test_ttl_acts_without_a_cell(home, skep):
    clean = home.new("--ttl", "1s", "--on-expiry", "delete")
    kept = home.new("--ttl", "1s", "--on-expiry", "delete")
    plain = home.new("--ttl", "1s")
    skep("exec", kept, "--", "sh", "-c", "echo work > work").ok()
    skep("stop", kept).ok()
    wait_for(lambda: gone(home, clean), why="the clean one to go")
    wait_for(lambda: "expired and kept: 1 change" in (state(home, kept)["reason"] or ""), why="the one with work to say why it stays")
    wait_for(lambda: state(home, plain)["reason"] == "expired", why="the third to say so")
    assert state(home, kept)["state"] == "stopped" and state(home, plain)["state"] == "stopped"
    assert skep("exec", kept, "--", "cat", "work").ok().line == "work"  # and who goes on with it, goes on
    assert home.show(kept)["expires"] is None
    assert "limit.hit" in [e["type"] for e in home.journal(kept)]


def test_ttl_of_a_running_one(home, skep):
    ids = {a: home.new("--ttl", "1200ms", "--on-expiry", a) for a in ("stop", "pause", "delete")}
    for a, sid in ids.items():
        skep("exec", "-d", sid, "--", "sleep", f"77110{len(a)}").ok()
    wait_for(lambda: gone(home, ids["delete"]), why="delete")
    wait_for(lambda: state(home, ids["stop"])["state"] == "stopped" and state(home, ids["stop"])["reason"] == "expired", why="stop")
    wait_for(lambda: state(home, ids["pause"])["state"] == "paused", why="pause")
    assert find_procs("771105") and not find_procs("771104") and not find_procs("771106")
    assert "time to live" in state(home, ids["pause"])["reason"]
    skep("resume", ids["pause"]).ok()
    assert (home.show(ids["pause"])["state"], home.show(ids["pause"])["expires"]) == ("running", None)


def test_ttl_when_the_cell_outlived_skepd(home, skep):
    """The cells end or pause by themselves; what is left to do is done by the next skepd at its start."""
    one, two = str(771000000 + os.getpid()), str(772000000 + os.getpid())  # another user's tests may run beside us
    ids = {a: home.new("--ttl", "3s", "--on-expiry", a) for a in ("pause", "delete")}
    work = home.new("--ttl", "3s", "--on-expiry", "delete")
    never = home.new("--ttl", "3s", "--on-expiry", "delete")  # no cell at all
    for sid in ids.values():
        skep("exec", "-d", sid, "--", "sleep", one).ok()
    skep("exec", "-d", work, "--", "sh", "-c", "echo work > work; sleep " + two).ok()
    wait_for(lambda: len(find_procs(f"sleep\x00{one}")) == 2)
    home.kill_skepd()
    wait_for(lambda: not find_procs(f"sleep\x00{two}") and len(find_procs(f"sleep\x00{one}")) == 1, why="the cells to act alone")
    skep("ps").ok()
    wait_for(lambda: gone(home, ids["delete"]) and gone(home, never), why="the clean ones to go")
    wait_for(lambda: "expired and kept" in (state(home, work)["reason"] or ""))
    assert state(home, ids["pause"])["state"] == "paused" and state(home, ids["pause"])["reason"] == "expired"
    assert skep("exec", work, "--", "cat", "work").ok().line == "work"


def test_idle(home, skep):
    sid = home.new("--idle", "300ms")
    skep("exec", sid, "--", "true").ok()
    wait_for(lambda: state(home, sid)["state"] == "stopped" and state(home, sid)["reason"] == "idle")


def test_pinned(home, skep):
    sid = home.new("--keep", "--ttl", "500ms", "--on-expiry", "delete")
    other = home.new("--ttl", "900ms", "--on-expiry", "delete")
    live = home.new("--ttl", "900ms", "--on-expiry", "delete")
    assert (home.show(sid)["pinned"], home.show(other)["pinned"]) == (True, False)
    skep("start", live).ok()
    skep("pin", other, live).ok()
    time.sleep(1.2)
    restart(home)
    assert [s["pinned"] for s in home.ps()] == [True] * 3 and state(home, live)["state"] == "running"
    skep("rm", sid).fails(4, "pinned", "--force")
    skep("rm", "--force", sid).ok()
    skep("unpin", other, live).ok()
    wait_for(lambda: gone(home, other) and gone(home, live), why="unpinned ones to expire")


def test_lease(home, skep):
    """Renewed by every use; without one it ends like a ttl. An attached client is a use."""
    used = home.new("--lease", "1500ms", "--on-expiry", "delete")
    left = home.new("--lease", "1s", "--on-expiry", "delete")
    live = home.new("--lease", "1s", "--on-expiry", "delete")
    row = home.show(used)
    assert (row["lease_ms"], row["ttl_ms"], row["on_expiry"]) == (1500, None, "delete")
    p = home.popen("exec", live, "--", "sh", "-c", "read x; sleep 771130", stdin=subprocess.PIPE)
    for _ in range(5):
        time.sleep(0.5)
        home.show(used)
    assert gone(home, left) and not gone(home, used) and state(home, live)["state"] == "running"
    p.kill()  # the client vanishes; its command does not
    p.communicate()
    wait_for(lambda: gone(home, used) and gone(home, live), why="the leases to end")
    skep("new", "--lease", "1s", "--ttl", "1s").fails(2, "--lease")


def test_run_whose_client_vanished(home, skep, project):
    """Its command goes on; then an unchanged sandbox goes, one with work is stopped and stays."""
    a = home.popen("run", "--", "sh", "-c", "echo up; sleep 0.6")
    b = home.popen("run", "--", "sh", "-c", "echo up; sleep 0.6; echo 1 > f")
    c = home.popen("run", "--lease", "500ms", "--", "sh", "-c", "echo up; sleep 771140")
    for p in (a, b, c):
        assert p.stdout.readline() == b"up\n"
        p.kill()
        p.communicate()
    assert len(home.ps()) == 3
    wait_for(lambda: [(s["state"], s["pending"]) for s in home.ps()] == [("stopped", 1)], why="only work to stay")
    assert not find_procs("sleep\x00771140")


# -- size -----------------------------------------------------------------------------------------------------
def test_size_dirty_and_used(home, skep, project):
    sid = home.new()
    s = home.show(sid)
    assert (s["size"], s["dirty"], s["pinned"]) == (0, False, False)
    before = s["used"]
    skep("exec", sid, "--", "sh", "-c", "head -c 3000000 /dev/urandom > big").ok()
    skep("stop", sid).ok()
    s = wait_for(lambda: (lambda r: r["size"] and r["size"] > 3000000 and r)(home.show(sid)), why="its layers to be counted")
    assert s["dirty"] is True and s["used"] > before and s["size"] < 4000000
    skep("snapshot", sid, "one").ok()
    skep("exec", sid, "--", "sh", "-c", "head -c 2000000 /dev/urandom > more").ok()
    skep("stop", sid).ok()
    wait_for(lambda: (home.show(sid)["size"] or 0) > 5000000, why="both layers to be counted")
    size = home.show(sid)["size"]
    restart(home)
    assert home.show(sid)["size"] == size
    assert "MiB" in skep("ps").ok().out


# -- gc -------------------------------------------------------------------------------------------------------
def test_gc_takes_what_nothing_refers_to(home, skep, project):
    sid = home.new("--name", "kept")
    skep("exec", sid, "--", "sh", "-c", "echo kept > kept").ok()
    skep("snapshot", sid, "one").ok()
    forked = skep("fork", sid).ok().line
    other = home.new()
    skep("exec", other, "--", "sh", "-c", "echo x > x").ok()
    skep("snapshot", other, "named").ok()
    skep("rm", "--force", other).ok()
    h = home.skep_home
    stale = ["layers/laaaaaaaaaaaaaaa", "layers/laaaaaaaaaaaaaab.partial", "trees/old", "trees/x.partial", "repos/y.git.partial", "sandboxes/saaaaaaaaaaaaaaa"]
    for p in stale:
        os.makedirs(f"{h}/{p}/sub")
        with open(f"{h}/{p}/sub/f", "w", encoding="ascii") as f:
            f.write("x" * 100)
    young = ["trees/young"]
    os.makedirs(f"{h}/{young[0]}")
    restart(home)  # only what began before this daemon is known to be left over
    keep = layers(home) - {"laaaaaaaaaaaaaaa", "laaaaaaaaaaaaaab.partial"}
    would = gc(home, "--dry-run")
    assert set(stale) - {"trees/old"} <= set(would), would
    assert all(i["why"] and not i["done"] for i in would.values())
    assert not {f"layers/{n}" for n in keep} & set(would) and young[0] not in would
    assert all(os.path.exists(f"{h}/{p}") for p in stale)
    done = gc(home)
    assert all(done[p]["done"] and not os.path.exists(f"{h}/{p}") for p in set(stale) - {"trees/old"}), done
    assert layers(home) == keep
    assert gc(home) == {}
    assert skep("exec", "kept", "--", "cat", "kept").ok().line == "kept"
    assert skep("exec", forked, "--", "cat", "kept").ok().line == "kept"
    assert skep("exec", home.new("--from", "named"), "--", "cat", "x").ok().line == "x"


def take_away(home, path):
    """Somebody removes a directory of ours."""
    os.rename(f"{home.skep_home}/{path}", f"{home.top}/away-{os.path.basename(path)}")


def test_gc_takes_snapshots_nobody_can_use(home, skep):
    sid = home.new()
    for i in range(2):
        skep("exec", sid, "--", "sh", "-c", f"echo {i} > f").ok()
        skep("snapshot", sid, f"n{i}").ok()
        first = min(layers(home)) if i == 0 else first
    snaps = {n["name"]: n for n in skep("snapshots", sid, "--json").json()["snapshots"]}
    skep("exec", sid, "--", "sh", "-c", "echo 2 > f").ok()
    skep("snapshot", sid).ok()  # without a name
    unnamed = [n["id"] for n in skep("snapshots", sid, "--all", "--json").json()["snapshots"] if not n["name"]]
    assert len(unnamed) == 1
    edit(home, "UPDATE snapshots SET sandbox='sgonegonegonegon' WHERE id=?", unnamed[0])
    home.skep("ps").ok()
    take_away(home, f"layers/{first}")
    would = gc(home, "--dry-run")
    assert "without a name" in would[unnamed[0]]["why"]
    assert {snaps["n0"]["id"], snaps["n1"]["id"]} <= set(would) and first in would[snaps["n0"]["id"]]["why"]
    skep("rollback", sid, "n0").fails(3, first)
    skep("new", "--from", "n0").fails(3, first)
    gc(home)
    assert skep("snapshots", "--all", "--json").json()["snapshots"] == []


# -- state.db is lost --------------------------------------------------------------------------------------------
def lose_state(home, how):
    """The skepd that is there next finds no state.db, or none that it can read."""
    for name in os.listdir(home.skep_home):
        if name.startswith("state.db") and (how == "no backup" or name != "state.db.backup"):
            os.unlink(f"{home.skep_home}/{name}")
    if how == "damaged":
        with open(f"{home.skep_home}/state.db", "wb") as f:
            f.write(b"not a database at all" * 500)


@pytest.mark.parametrize("how", ["missing", "damaged", "no backup"])
def test_a_lost_state_is_rebuilt(home, skep, how):
    """Sandboxes, snapshots and live cells come back from what lies beside them; nothing that is unknown is removed."""
    sid, live, gone = home.new("--name", "one", "--ttl", "1h", "-e", "K=v"), home.new(), home.new()
    skep("exec", sid, "--", "sh", "-c", "echo precious > work").ok()
    skep("snapshot", sid, "moment").ok()
    skep("exec", sid, "--", "sh", "-c", "echo more > later").ok()
    skep("stop", sid).ok()
    skep("exec", "-d", live, "--", "sleep", "1000").ok()
    skep("rm", "--force", gone).ok()
    was = home.show(sid)
    wait_for(lambda: os.path.exists(f"{home.skep_home}/state.db.backup"), 30, why="the first backup")
    stop_skepd(home)
    unknown = f"{home.skep_home}/layers/labcdefghijklmnop"
    os.makedirs(f"{unknown}/ws")
    time.sleep(0.1)
    lose_state(home, how)
    now = home.show("one")
    same = ("id", "name", "state", "limits", "workspace_path", "repo", "expires", "created", "labels")
    assert {k: now.get(k) for k in same} == {k: was.get(k) for k in same} and now["pending"] is None
    assert {b["id"] for b in home.ps()} == {sid, live} and home.show(live)["state"] == "running"
    assert skep("exec", live, "--", "echo", "here").ok().line == "here"
    left = gc(home)
    assert "stays" in left["layers/labcdefghijklmnop"]["why"] and not left["layers/labcdefghijklmnop"]["done"] and os.path.isdir(unknown)
    assert skep("exec", "one", "--", "sh", "-c", "cat work later; echo $K").ok().out == "precious\nmore\nv\n"
    skep("rollback", "one", "moment").ok()
    assert skep("exec", "one", "--", "sh", "-c", "ls").ok().out.split().count("later") == 0
    skep("rm", "one").fails(4, "pending")
    skep("rm", "--force", "one", live).ok()
    assert not home.ps()
    os.rmdir(f"{unknown}/ws")
    os.rmdir(unknown)


def test_a_damaged_record_costs_its_own_sandbox_only(home, skep):
    ids = [home.new(), home.new()]
    for sid in ids:
        skep("exec", sid, "--", "sh", "-c", "echo x > work").ok()
        skep("stop", sid).ok()
    stop_skepd(home)
    with open(f"{home.skep_home}/sandboxes/{ids[0]}/row", "r+b") as f:
        f.seek(100)
        f.write(b"\xff" * 20)
    time.sleep(0.1)
    lose_state(home, "no backup")
    assert [b["id"] for b in home.ps()] == [ids[1]]
    left = gc(home)
    assert "stays" in left[f"sandboxes/{ids[0]}"]["why"] and os.path.isdir(f"{home.skep_home}/sandboxes/{ids[0]}")
    gone_work = [f"{home.skep_home}/layers/{n}" for n in layers(home) if os.path.exists(f"{home.skep_home}/layers/{n}/ws/work")]
    assert len(gone_work) == 2
    skep("rm", "--force", ids[1]).ok()
    for d in (*gone_work, f"{home.skep_home}/sandboxes/{ids[0]}"):
        remove_tree(d)


def derive(home, n, used, size=1 << 20):
    """A derived thing as a checkout is: a directory with a row."""
    os.makedirs(f"{home.skep_home}/trees/t{n}/objects")
    with open(f"{home.skep_home}/trees/t{n}/f", "w", encoding="ascii") as f:
        f.write("x")
    db = sqlite3.connect(f"{home.skep_home}/state.db")
    with db:
        db.execute("INSERT INTO derived VALUES(1,?,?,?,?,?,?)", (f"k{n}", f"trees/t{n}", b"", used, used, size))
    db.close()


def config(home, text):
    os.makedirs(f"{home.user_home}/.config/skep", exist_ok=True)
    with open(f"{home.user_home}/.config/skep/config.yaml", "w", encoding="ascii") as f:
        f.write(text)


def stop_skepd(home):
    pid = home.skepd_pid()
    home.watch()
    home.api("POST", "/v1/shutdown", {})
    wait_for(lambda: proc_state(pid) in (None, "Z"), why="skepd to end")


def test_derived_things_go_when_unused_or_over_budget(home, skep):
    sid = home.new("--empty")
    skep("exec", sid, "--", "sh", "-c", "head -c 1500000 /dev/urandom > work").ok()
    skep("stop", sid).ok()
    wait_for(lambda: (home.show(sid)["size"] or 0) > 1500000)
    stop_skepd(home)
    now = int(time.time() * 1000)
    derive(home, 1, now - 31 * 86400_000)
    derive(home, 2, now - 3 * 86400_000)
    derive(home, 3, now - 2 * 86400_000)
    derive(home, 4, now)
    derive(home, 5, now - 40 * 86400_000)
    db = sqlite3.connect(f"{home.skep_home}/state.db")
    with db:  # the fifth is in use
        db.execute("UPDATE sandboxes SET objects=?", (strv(f"{home.skep_home}/trees/t5/objects\t/x"),))
    db.close()
    would = gc(home, "--dry-run")
    assert {k: v["why"] for k, v in would.items()} == {"trees/t1": "not used for 30 days"} and would["trees/t1"]["bytes"] == 1 << 20
    config(home, "disk_budget: 5m\n")  # 1.5 work, five of 1
    assert set(gc(home, "--dry-run")) == {"trees/t1", "trees/t2"} and "budget" in gc(home, "--dry-run")["trees/t2"]["why"]
    assert set(gc(home)) == {"trees/t1", "trees/t2"}
    assert sorted(os.listdir(f"{home.skep_home}/trees")) == ["t3", "t4", "t5"]
    config(home, "disk_budget: 3m\n")
    home.new("--empty")  # a create makes room for itself
    assert not os.path.exists(f"{home.skep_home}/trees/t3") or wait_for(lambda: not os.path.exists(f"{home.skep_home}/trees/t3"))
    config(home, "disk_budget: 1m\n")
    skep("new", "--empty").fails(6, "disk budget", "1 MiB")
    wait_for(lambda: os.listdir(f"{home.skep_home}/trees") == ["t5"], why="the last unused one to go")
    assert skep("exec", sid, "--", "sh", "-c", "wc -c < work").ok().line == "1500000"
    config(home, "disk_budget: nonsense\n")
    skep("gc").fails(2, "disk_budget")
    config(home, "")


def test_mirrors_and_checkouts_count_and_go_by_their_last_use(home, skep):
    urls = []
    for n in range(2):
        d = f"{home.top}/r{n}"
        os.mkdir(d)
        with open(f"{d}/blob", "wb") as f:
            f.write(os.urandom(3 << 20))
        for argv in (["init", "-q", "-b", "main"], ["add", "-A"], ["-c", "user.name=t", "-c", "user.email=t@e", "commit", "-q", "-m", "x"]):
            subprocess.run(["git", *argv], cwd=d, env=home.env, check=True)
        urls.append(f"file://{d}")
        skep("run", "--repo", urls[n], "--", "true").ok()
    stop_skepd(home)
    db = sqlite3.connect(f"{home.skep_home}/state.db")
    sizes = db.execute("SELECT path, bytes FROM derived").fetchall()
    db.close()
    assert len(sizes) == 4 and all((3 << 20) < size < (4 << 20) for _, size in sizes), sizes
    names = lambda: {x for top in ("trees", "repos") for x in os.listdir(f"{home.skep_home}/{top}") if not x.endswith(".lock")}
    assert len(names()) == 4
    used = home.new("--repo", urls[0])  # the older one: in use again
    config(home, "disk_budget: 11m\n")
    would = gc(home, "--dry-run")
    assert len(would) == 1 and list(would)[0].startswith("trees/"), would
    config(home, "disk_budget: 8m\n")
    would = gc(home, "--dry-run")
    assert sorted(w.split("/")[0] for w in would) == ["repos", "trees"], "the mirror goes with what used it"
    skep("rm", used).ok()
    config(home, "disk_budget: 9m\n")
    home.new("--empty")  # makes room: the checkout that was not used for longest
    wait_for(lambda: len(names()) <= 3, why="room")
    config(home, "disk_budget: 5m\n")
    home.new("--empty")
    wait_for(lambda: len(names()) <= 1, why="more room")
    config(home, "")
    assert skep("run", "--repo", urls[0], "--", "sh", "-c", "wc -c < blob").ok().line == str(3 << 20), "and it is all made again"


def test_mirrors_of_submodules_count_and_go_too(home, skep):
    web = Web(home.top, home.env)
    git = lambda d, *argv: subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@e", *argv], cwd=d, env=home.env, check=True, stdout=subprocess.PIPE).stdout.decode().strip()
    for name, size in (("sub", 2 << 20), ("top", 1000)):
        os.mkdir(f"{home.top}/{name}")
        with open(f"{home.top}/{name}/blob", "wb") as f:
            f.write(os.urandom(size))
        git(f"{home.top}/{name}", "init", "-q", "-b", "main")
        git(f"{home.top}/{name}", "add", "-A")
    git(f"{home.top}/sub", "commit", "-q", "-m", "x")
    git(f"{home.top}/top", "config", "-f", ".gitmodules", "submodule.lib.path", "lib")
    git(f"{home.top}/top", "config", "-f", ".gitmodules", "submodule.lib.url", "../../sub/.git")
    git(f"{home.top}/top", "add", ".gitmodules")
    git(f"{home.top}/top", "update-index", "--add", "--cacheinfo", f"160000,{git(f'{home.top}/sub', 'rev-parse', 'HEAD')},lib")
    git(f"{home.top}/top", "commit", "-q", "-m", "x")
    try:
        used = home.new("--repo", f"http://{web.address}/top/.git")
    finally:
        web.close()
    stop_skepd(home)
    db = sqlite3.connect(f"{home.skep_home}/state.db")
    sizes = dict(db.execute("SELECT path, bytes FROM derived").fetchall())
    db.close()
    repos = {f"repos/{x}" for x in os.listdir(f"{home.skep_home}/repos") if x.endswith(".git")}
    assert len(repos) == 2 and repos < set(sizes) and max(sizes[r] for r in repos) > 2 << 20, sizes
    config(home, "disk_budget: 1m\n")
    assert gc(home, "--dry-run") == {}, "a sandbox shows their objects"
    skep("rm", used).ok()
    assert set(gc(home)) == set(sizes), "with the checkout, both mirrors"
    assert not [x for x in os.listdir(f"{home.skep_home}/repos") if x.endswith(".git")]
    config(home, "")


# -- gc, cut short --------------------------------------------------------------------------------------------
def points():
    d = os.path.abspath(os.environ.get("SKEP_BUILD", os.path.join(ROOT, "build/release")))
    p = subprocess.run([f"{d}/skepd", "--faults"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=10, check=True)
    return [x for x in p.stdout.decode().split() if x.startswith("gc.")]


def litter(home, n):
    """One of everything that gc takes, made while no skepd is there: (paths, rows)."""
    h = home.skep_home
    paths = [f"layers/l{n:0>15}", f"sandboxes/s{n:0>15}", f"trees/x{n}.partial", f"images/i{n:0>15}", f"run/cells/s{n:0>15}", f"trees/t{n}"]
    for p in paths[:4]:
        os.makedirs(f"{h}/{p}/sub")
        with open(f"{h}/{p}/sub/f", "w", encoding="ascii") as f:
            f.write("x" * 100)
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(f"{h}/{paths[4]}")
    derive(home, n, 1)
    os.makedirs(f"{h}/journals/s{n:0>15}")
    os.utime(f"{h}/journals/s{n:0>15}", (1, 1))
    return [*paths, f"journals/s{n:0>15}"]


@pytest.mark.parametrize("how", ["fail", "kill"])
def test_gc_is_cut_short(home, skep, how):
    """Whatever fails or dies at any step of it: what is used stays whole, no row names what is half removed, and the next one
    takes the rest."""
    sid = home.new("--empty")
    skep("exec", sid, "--", "sh", "-c", "echo kept > kept").ok()
    skep("snapshot", sid, "named").ok()
    assert len(points()) >= 8
    for n, point in enumerate(points(), 1):
        lost = home.new("--empty")
        skep("exec", lost, "--", "sh", "-c", "echo lost > lost").ok()
        skep("snapshot", lost).ok()
        unnamed = [s["id"] for s in skep("snapshots", lost, "--all", "--json").json()["snapshots"]][0]
        no_dir = home.new("--empty")
        skep("stop", lost).ok()
        stop_skepd(home)
        paths = litter(home, n)
        edit(home, "UPDATE snapshots SET sandbox='sgonegonegonegon' WHERE id=?", unnamed)
        p = subprocess.Popen([f"{home.programs}/skepd", "--foreground"], env={**home.env, "SKEP_FAULT": f"{point}:{how}"}, stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        home.started.append(p)
        wait_for(home.skepd_pid, why="skepd with the fault")
        shutil.rmtree(f"{home.skep_home}/sandboxes/{no_dir}", ignore_errors=True)
        r = skep("gc")
        assert r.rc in (0, 1, 8), f"{point}: {r.rc} {r.err}"
        assert r.rc == 0 or len(r.err.splitlines()) == 1, r.err
        left = [x for x in paths if os.path.lexists(f"{home.skep_home}/{x}")]
        rows = [s["id"] for s in home.ps()] + [s["id"] for s in skep("snapshots", "--all", "--json").json()["snapshots"]]
        assert how == "kill" or left or r.rc or {no_dir, unnamed} & set(rows), f"{point} was not passed"
        if home.skepd_pid():
            stop_skepd(home)
        db = sqlite3.connect(f"{home.skep_home}/state.db")
        named = [x for (x,) in db.execute("SELECT path FROM derived")]
        db.close()
        for x in named:  # whole, or not named
            assert os.path.isfile(f"{home.skep_home}/{x}/f") or not os.path.exists(f"{home.skep_home}/{x}"), f"{point}: {x}"
        skep("ps").ok()
        shutil.rmtree(f"{home.skep_home}/sandboxes/{no_dir}", ignore_errors=True)
        skep("gc").ok()
        assert gc(home) == {}, point
        assert not [x for x in paths if os.path.lexists(f"{home.skep_home}/{x}")], point
        assert {s["id"] for s in home.ps()} == {sid, lost} and [s["name"] for s in skep("snapshots", "--all", "--json").json()["snapshots"]] == ["named"]
        assert skep("exec", sid, "--", "cat", "kept").ok().line == "kept"
        assert skep("exec", lost, "--", "cat", "lost").ok().line == "lost"
        copy = home.new("--from", "named")
        assert skep("exec", copy, "--", "cat", "kept").ok().line == "kept"
        skep("rm", "--force", lost, copy).ok()


def strv(*texts):
    """A list as state.db keeps it."""
    out = len(texts).to_bytes(4, "little")
    for t in texts:
        out += len(t).to_bytes(4, "little") + t.encode()
    return out


# -- what somebody else did to our files ------------------------------------------------------------------------
def test_a_layer_that_was_taken_away(home, skep, project):
    """The sandbox fails and says why, at its next use and at the next start of skepd; others are fine; a snapshot helps."""
    lost, fine = home.new("--name", "lost"), home.new("--name", "fine")
    skep("exec", lost, "--", "sh", "-c", "echo one > f").ok()
    skep("snapshot", lost, "one").ok()
    before = layers(home)
    skep("exec", lost, "--", "sh", "-c", "echo two > f").ok()
    skep("stop", lost).ok()
    upper = (layers(home) - before).pop()
    skep("exec", fine, "--", "sh", "-c", "echo fine > f").ok()
    take_away(home, f"layers/{upper}")
    r = skep("exec", lost, "--", "cat", "f")
    assert r.rc == 125 and "removed by somebody else" in r.err and len(r.err.splitlines()) == 1, r.err
    assert home.show(lost)["state"] == "failed" and "removed by somebody else" in home.show(lost)["reason"]
    skep("rollback", lost).ok()
    assert home.show(lost)["state"] == "stopped"
    assert skep("exec", lost, "--", "cat", "f").ok().line == "one"
    skep("stop", lost).ok()
    take_away(home, f"layers/{before.pop()}")
    home.kill_skepd()
    assert home.show(lost)["state"] == "failed" and "rollback" in home.show(lost)["reason"]
    skep("start", lost).fails(4, "removed by somebody else")
    assert skep("exec", fine, "--", "cat", "f").ok().line == "fine"
    skep("rm", lost).fails(4, "--force")
    skep("rm", "--force", lost).ok()


def test_a_layer_of_a_live_cell_taken_away_while_skepd_was_dead(home, skep):
    sid = home.new()
    skep("exec", sid, "--", "sh", "-c", "echo 1 > f").ok()
    cell = home.cell_pid(sid)
    home.kill_skepd()
    take_away(home, f"layers/{layers(home).pop()}")
    os.kill(cell, signal.SIGKILL)
    assert skep("start", sid).rc in (1, 4)
    assert home.show(sid)["state"] == "failed" and home.show(sid)["reason"]


EDITS = [
    ("lowers", strv("layers/../../../etc")), ("lowers", strv("/etc")), ("lowers", b"\xff\xff"), ("lowers", strv("layers/lnothere000000000")),
    ("n_base", 7), ("state", 99), ("profile", -1), ("layer", "../../x"), ("layer", None), ("ws_path", None), ("ws_path", "no/path"),
    ("mounts", b"\x01\x00\x00\x00"), ("limits", b"\x00"), ("owner", None), ("isolation", b"junk"), ("objects", b"\x05"), ("env", b"\x01")]


def test_rows_edited_by_hand(home, skep):
    """Each such sandbox is failed or fine, never another tree; the others are fine; it can be removed."""
    fine = home.new("--name", "fine")
    skep("exec", fine, "--", "sh", "-c", "echo 2 > f").ok()
    ids = [home.new("--empty") for _ in EDITS]
    for sid in ids:
        skep("exec", sid, "--", "sh", "-c", "echo 1 > f").ok()
    skep("stop", *ids).ok()
    home.kill_skepd()
    db = sqlite3.connect(f"{home.skep_home}/state.db")
    with db:
        for sid, (column, value) in zip(ids, EDITS):
            db.execute(f"UPDATE sandboxes SET {column}=? WHERE id=?", (value, sid))
    db.close()
    for sid, edited in zip(ids, EDITS):
        s = home.show(sid)
        assert s["state"] in ("stopped", "failed") and (s["state"] == "stopped" or s["reason"]), (edited, s)
        r = skep("exec", sid, "--", "cat", "f")
        failed = r.rc == 125 and len(r.err.splitlines()) == 1 and home.show(sid)["state"] == "failed"
        assert (r.rc, r.line) == (0, "1") or failed, (edited, r.out, r.err)
    assert skep("exec", fine, "--", "cat", "f").ok().line == "2"
    skep("gc").ok()
    skep("rm", "--force", *ids).ok()
    assert [x["id"] for x in home.ps()] == [fine]
    gc(home)  # the layers of rows that lost their names


def test_rows_edited_by_hand_lead_nowhere(home, skep):
    sid = home.new()
    skep("exec", sid, "--", "sh", "-c", "echo 1 > f").ok()
    skep("snapshot", sid, "one").ok()
    precious = f"{home.top}/precious"
    os.mkdir(precious)
    edit(home, "INSERT INTO derived VALUES(1,'k','../precious',x'',1,1,5)")
    home.skep("ps").ok()
    edit(home, "INSERT INTO snapshots SELECT 'naaaaaaaaaaaaaaa','saaaaaaaaaaaaaaa',NULL,1,1,?,0,0,x'',0", strv("../precious"))
    gc(home)
    edit(home, "INSERT INTO sandboxes SELECT '../precious' AS id,layer,machine_id,'n',owner," + ",".join(columns(home)[5:]) + " FROM sandboxes WHERE id=?", sid)
    gc(home)
    assert os.path.isdir(precious) and [s["id"] for s in home.ps()] == [sid]
    edit(home, "DELETE FROM sandboxes WHERE id='../precious'")
    assert skep("exec", sid, "--", "cat", "f").ok().line == "1"


def columns(home):
    db = sqlite3.connect(f"file:{home.skep_home}/state.db?mode=ro&immutable=1", uri=True)
    names = [r[1] for r in db.execute("PRAGMA table_info(sandboxes)")]
    db.close()
    return names


def test_a_table_without_a_column(home, skep):
    """skepd does not start on it and says why; with the column back everything is there."""
    sid = home.new()
    skep("stop", sid).ok()
    edit(home, "ALTER TABLE snapshots RENAME COLUMN template TO tmpl")
    db = sqlite3.connect(f"{home.skep_home}/state.db")
    with db:
        db.execute("ALTER TABLE snapshots DROP COLUMN tmpl")
    r = skep("ps")
    assert r.rc in (1, 8) and "state.db" in r.err and "by somebody else" in r.err, r.err
    with db:
        db.execute("DROP TABLE snapshots")
        db.execute("CREATE TABLE snapshots(id TEXT PRIMARY KEY, sandbox TEXT NOT NULL, name TEXT, created INTEGER, flags INTEGER,"
                   " lowers BLOB, n_base INTEGER, pending INTEGER, template BLOB, ord INTEGER) WITHOUT ROWID")
    db.close()
    assert [s["id"] for s in home.ps()] == [sid]


FULL = """
mount -t tmpfs -o size=64m none $SKEP_HOME
fill() { head -c 200m /dev/zero > $SKEP_HOME/filler 2>/dev/null; }
free() { rm -f $SKEP_HOME/filler; }
step() { name=$1; shift; out=$("$@" 2>$SKEP_HOME.err); rc=$?; echo "$name|$rc|$(wc -l < $SKEP_HOME.err)|$(echo "$out" | xargs)|$(xargs -0 < $SKEP_HOME.err | tr '\\n' ' ')"; }
skep new --name a --empty > /dev/null
skep exec a -- sh -c 'head -c 4m /dev/urandom > f; sha256sum f > sum'
step first skep snapshot a s1
skep exec -d a -- sh -c 'head -c 24m /dev/urandom > live; sleep 771177' > /dev/null
until skep exec a -- test "$(skep exec a -- stat -c %s live 2>/dev/null)" = 25165824; do sleep 0.05; done
fill
step frozen skep snapshot a s2
step goes-on skep exec a -- sha256sum --quiet -c sum
for i in 1 2 3; do step fork skep fork a --from s1; done
step rollback skep rollback a s1
step new skep new --name b --empty
step ps skep ps -q
kill -9 $(curl -s --unix-socket $SKEP_HOME/run/skepd.sock http://x/v1/version | sed 's/.*"pid":\\([0-9]*\\).*/\\1/')
step restarted skep ps -q
step exec skep exec a -- true
free
step ps-after skep ps -q
step again skep snapshot a s3
step back skep rollback a s1
step whole skep exec a -- sha256sum --quiet -c sum
step forked skep fork a -n 2
step gc skep gc
step left sh -c "ls $SKEP_HOME/layers | grep partial || true"
step all skep rm --all --force
skep snapshots -q --all | xargs -r skep snapshot rm
for i in 1 2 3 4 5 6 7 8 9 10; do [ -z "$(ls $SKEP_HOME/layers)" ] || sleep 0.2; done
step empty sh -c "ls $SKEP_HOME/layers"
"""


@pytest.mark.root
def test_full_disk(home):
    """A snapshot, a rollback, a fork on a full disk say so in one line or succeed; with room again everything is there."""
    os.mkdir(home.skep_home)
    p = subprocess.Popen(["unshare", "-m", "sh", "-c", FULL], env=home.env, cwd=home.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = p.communicate(timeout=120)
    home.watch()
    home.kill_strays()  # that skepd lives in the other mount namespace, out of the client's reach
    steps = [x.split("|", 4) for x in out.decode().splitlines()]
    for name, rc, lines, _, said in steps:
        if name in ("first", "goes-on", "ps-after", "again", "back", "whole", "forked", "gc", "all", "empty", "left"):
            assert rc == "0", (name, rc, said)
        else:
            assert rc == "0" or (int(rc) in (1, 4, 6, 8, 125) and lines == "1"), (name, rc, said)
    told = {s[0]: s for s in steps}
    assert told["frozen"][1] != "0" and "space" in told["frozen"][4], told["frozen"]
    assert told["left"][3] == "" and told["empty"][3] == "", told
    assert len(steps) == 20, (steps, err)
