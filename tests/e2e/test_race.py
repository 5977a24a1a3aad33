# SPDX-License-Identifier: Apache-2.0
"""Several sandboxes side by side: compare and race."""
import json
import os
import signal

from kit import wait_for
from review_box import NUMBERS, Box, files, git, put, repo

EDIT = "sed -i 's/^line 50$/fifty/' a.txt"


def test_compare(home):
    repo(home)
    a, b = Box(home, "--name", "first"), Box(home)
    c = Box(home)
    a.sh(f"{EDIT}; echo a > own.txt")
    b.sh(f"{EDIT}; printf '#!/bin/sh\\n' > Makefile")
    r = home.skep("compare", "first", b.id, c.id, "--test", "grep -q fifty a.txt; r=$?; touch trash; exit $r", "--json").json()
    by = {x["id"]: x for x in r["sandboxes"]}
    assert [by[x.id]["passed"] for x in (a, b, c)] == [True, True, False]
    assert by[a.id]["name"] == "first" and by[a.id]["files"] == 2 and by[c.id]["files"] == 0
    assert [x["path"] for x in by[b.id]["risks"]] == ["Makefile"] and by[a.id]["risks"] == []
    shared = {h["path"]: set(h["in"]) for h in r["hunks"]}
    assert shared == {"a.txt": {a.id, b.id}, "own.txt": {a.id}, "Makefile": {b.id}}
    assert by[a.id]["own"] == 1
    assert "trash" not in a.status() and len(home.ps()) == 3, "the test runs in copies that are thrown away"
    table = home.skep("compare", a.id, b.id).ok().out
    assert "first" in table and "a.txt: 1 in all" in table and "own.txt:  first 1" in table
    home.skep("compare", a.id).fails(2)
    home.skep("compare", a.id, "nobody").fails(3, "nobody")


def test_race(home):
    d = repo(home)
    put(d, ".skep.yaml", "test: grep -q fifty a.txt\n")
    script = f'echo $SKEP_RACE > who; case $SKEP_RACE in 1) sleep 1; {EDIT} ;; 2) exit 0 ;; 3) {EDIT} ;; esac'
    before = files(d)
    r = home.skep("race", "-n", "3", "--json", "--", "sh", "-c", script)
    assert r.rc == 0 and "skep apply" in r.err
    rows = json.loads(r.out)["sandboxes"]
    assert [(x["passed"], x["run"]["status"]) for x in rows] == [(True, 0), (True, 0), (False, 0)]
    who = [Box(home, sid=x["id"]).sh("cat who").out.strip() for x in rows]
    assert who == ["3", "1", "2"], "passed first, then by time"
    assert rows[0]["run"]["ms"] < rows[1]["run"]["ms"] >= 1000
    assert files(d) == before and len(home.ps()) == 3, "the start was removed, the runners stay"
    winner = Box(home, sid=rows[0]["id"])
    winner.apply("a.txt").ok()
    assert git("diff", "--name-only", cwd=d) == b"a.txt\n"

    base = Box(home)
    base.sh("echo from the base > seed")
    r = home.skep("race", "-n", "2", "--base", base.id, "--rm-losers", "--test", "test $(cat seed | wc -l) = 2", "--", "sh", "-c", "echo $SKEP_RACE >> seed")
    assert r.rc == 0, r.err
    assert len(home.ps()) == 5 and base.sh("cat seed").out == "from the base\n"
    r = home.skep("race", "-n", "2", "--base", base.id, "--test", "false", "--rm-losers", "--", "true")
    assert r.rc == 1 and "none of them succeeded" in r.err and len(home.ps()) == 7
    home.skep("race", "-n", "0", "--", "true").fails(2)
    home.skep("race", "--keep", "--rm-losers", "--", "true").fails(2)


def test_a_race_is_stopped(home, terminal):
    repo(home)
    t = terminal("race", "-n", "2", "--", "sleep", "300")
    t.expect(r"1  s\w+  runs  \d+\.\d s.*2  s\w+  runs")
    t.send(b"\x03")
    assert t.wait(30) == 130
    assert all(x["state"] == "stopped" for x in home.ps()) and len(home.ps()) == 2
