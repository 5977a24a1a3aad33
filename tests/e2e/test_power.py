# SPDX-License-Identifier: Apache-2.0
"""What a power cut may cost. None is made here: the order in which the real programs hand things to the disk is looked at, and the
steps of that fail or die. What must be there is durable when skep says so, and nothing waits for the disk in between."""
import os
import re
import subprocess
from pathlib import Path

import pytest
from kit import World, proc_start, proc_state, wait_for

SYNCS = "fsync,fdatasync,syncfs,unlinkat,rename,renameat,renameat2"


@pytest.fixture
def home(programs):
    w = World(programs)
    yield w
    w.close()


def daemon(home, *before, **env):
    """What it logs is in the file that is returned."""
    log = f"{home.top}/skepd.log"
    with open(log, "wb") as f:
        p = subprocess.Popen([*before, f"{home.programs}/skepd", "--foreground"], env={**home.env, **env}, stdin=subprocess.DEVNULL, stdout=f, stderr=f, start_new_session=True)
    home.started.append(p)
    wait_for(lambda: home.skepd_pid() or p.poll() is not None, 30, why="skepd")
    return log


def said(log, what):
    with open(log, encoding="utf-8", errors="replace") as f:
        return what in f.read()


def shut_down(home):
    pid = home.skepd_pid()
    home.watch()
    start = proc_start(pid)
    home.api("POST", "/v1/shutdown", {})
    wait_for(lambda: proc_start(pid) != start or proc_state(pid) == "Z", 30, why="skepd to end")


class Trace:
    def __init__(self, home):
        self.log = f"{home.top}/trace"
        daemon(home, "strace", "-f", "-qq", "-y", "-s0", "-o", self.log, "-e", f"trace={SYNCS}", "-e", "signal=none")

    def synced(self):
        """The paths that are on disk, in order; a syncfs is everything."""
        out = []
        with open(self.log, encoding="utf-8", errors="replace") as f:
            for line in f:
                m = re.search(r"\b(fsync|fdatasync|syncfs)\(\d+<([^>]*)>", line)
                if m and "= -1" not in line:
                    out.append((m[1], m[2].replace(" (deleted)", "")))
        return out

    def at(self, want, after=-1):
        """Where in that order `want` (a part of the path) is, -1 = not yet."""
        for i, (call, path) in enumerate(self.synced()):
            if i > after and (call == "syncfs" or want in path):
                return i
        return -1


def snapshot(home, word):
    return next(n for n in home.skep("snapshots", "--all", "--json").json()["snapshots"] if word in (n["id"], n["name"]))


def is_durable(home, word):
    return snapshot(home, word)["durable"]


@pytest.mark.root  # what maps the ids of an ordinary user is set-uid, and that does not go with strace
def test_the_order_in_which_things_get_to_the_disk(home, skep):
    t = Trace(home)
    sid = home.new("--empty")
    skep("exec", sid, "--", "sh", "-c", "echo kept > kept-file; mkdir d; echo 2 > d/inner-file").ok()
    wait_for(lambda: t.at(f"sandboxes/{sid}/journal") >= 0, 30, why="the journal of a live cell to be synced, though nobody asked")
    skep("snapshot", sid, "one").ok()
    wait_for(lambda: is_durable(home, "one"), 30, why="the snapshot to be durable")
    files = [t.at("ws/kept-file"), t.at("ws/d/inner-file")]
    assert min(files) >= 0, t.synced()
    rows = t.at("state.db-wal", max(files))
    assert rows > max(files), "the rows that name a layer come after it"
    # what it stands on is durable with it
    skep("exec", sid, "--", "sh", "-c", "echo more > second-file").ok()
    skep("stop", sid).ok()
    skep("snapshot", sid, "two").ok()
    skep("snapshot", sid, "three").ok()  # nothing new: only rows
    wait_for(lambda: is_durable(home, "three"), 30, why="the last one to be durable")
    assert is_durable(home, "two") and t.at("ws/second-file") > rows
    # a clean end leaves nothing open
    last = len(t.synced()) - 1
    skep("exec", sid, "--", "true").ok()
    skep("rm", "--force", sid).ok()
    shut_down(home)
    assert t.at(f"journals/{sid}", last) > last, "the journal of a removed one"
    assert t.at("state.db", last) > last
    wait_for(lambda: not home.alive(), 30, why="everything under strace to end")
    skep("log", sid, "--verify").ok()


@pytest.mark.root  # what maps the ids of an ordinary user is set-uid, and that does not go with strace
def test_what_was_landed_is_on_the_disk(home, skep, project):
    t = Trace(home)
    sid = home.new()
    skep("exec", sid, "--", "sh", "-c", "echo landed > landed-file").ok()
    skep("apply", sid).ok()
    assert Path(project, "landed-file").read_text() == "landed\n"
    assert t.at(str(project)) >= 0, "apply answers when it is there"
    skep("snapshot", sid, "one").ok()
    wait_for(lambda: is_durable(home, "one"), 30, why="the snapshot to be durable")
    trees = [d for d in os.listdir(f"{home.skep_home}/trees") if not d.endswith(".lock")]
    assert trees and all(t.at(f"trees/{d}/") >= 0 for d in trees), "with the private .git it stands on"
    skep("rm", "--force", sid).ok()
    shut_down(home)
    wait_for(lambda: not home.alive(), 30, why="everything under strace to end")


@pytest.mark.parametrize("fault", ["layer.sync:fail", "sync.start:fail"])
def test_durable_is_not_said_when_it_is_not(home, skep, fault):
    log = daemon(home, SKEP_FAULT=fault)
    sid = home.new("--empty")
    skep("exec", sid, "--", "sh", "-c", "echo 1 > f").ok()
    skep("snapshot", sid, "one").ok()
    if fault.startswith("layer"):
        wait_for(lambda: said(log, "not synced"), 30, why="skepd to say so")
        assert not is_durable(home, "one")
    else:  # the next round goes well
        wait_for(lambda: said(log, "synced again in a moment"), 30, why="skepd to say so")
    shut_down(home)
    skep("ps").ok()  # a new one, which has no fault
    wait_for(lambda: is_durable(home, "one"), 30, why="a later daemon to sync it")
    assert skep("run", "--from", "one", "--", "cat", "f").ok().line == "1"


def test_killed_before_anything_is_synced(home, skep):
    daemon(home, SKEP_FAULT="sync.start:kill")
    sid = home.new("--empty")
    skep("exec", sid, "--", "sh", "-c", "echo 1 > f")  # whether it is still there to answer
    skep("snapshot", sid, "one")
    wait_for(lambda: skep("exec", sid, "--", "sh", "-c", "echo 2 > g").rc == 0, 30, why="the sandbox")
    skep("snapshot", sid, "again").ok()
    wait_for(lambda: is_durable(home, "again"), 30, why="the snapshot to be durable")
    skep("log", sid, "--verify").ok()


def test_merged_layers_replace_the_others_when_they_are_there(home, skep):
    sid = home.new("--empty")
    for i in range(18):
        skep("exec", sid, "--", "sh", "-c", f"echo {i} > f{i}").ok()
        skep("snapshot", sid, f"n{i}").ok()
    wait_for(lambda: is_durable(home, "n17"), 60, why="the last snapshot to be durable")
    home.kill_skepd()
    assert skep("exec", sid, "--", "sh", "-c", "cat f*").ok().out.split() == [str(i) for i in sorted(range(18), key=str)]
    assert all(n["durable"] for n in skep("snapshots", "--all", "--json").json()["snapshots"])
