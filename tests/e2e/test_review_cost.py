# SPDX-License-Identifier: Apache-2.0
"""What a review costs, as counted work: files and bytes that were copied, disk that the copy takes, what goes on when nobody
waits any more. Never time: a test that holds on a fast machine alone holds nowhere."""
import json
import os
import signal
import subprocess

import pytest
from kit import wait_for
from review_box import Box, git, put, repo

MIB = 1 << 20


def settled(b, *args):
    """A diff that finds everything remembered: a file that was written just now is copied once more."""
    seen = []

    def quiet():
        seen.append(b.json(*args))
        return seen[-1]["copy"]["files"] == 0
    wait_for(quiet, seconds=30, why="a diff that copies nothing")
    return seen[-1]


def disk_of(path):
    return os.lstat(path).st_blocks * 512


def children(home):
    """Processes that work on a review below this home."""
    found, us = [], f"{home.programs}/skep-review"
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            fds = [os.readlink(f"/proc/{p}/fd/{n}") for n in os.listdir(f"/proc/{p}/fd")] if os.readlink(f"/proc/{p}/exe") == us else []
        except OSError:
            continue
        if any(fd.startswith(home.skep_home) for fd in fds):
            found.append(p)
    return found


def config(home, text):
    os.makedirs(f"{home.user_home}/.config/skep", exist_ok=True)
    with open(f"{home.user_home}/.config/skep/config.yaml", "w", encoding="ascii") as f:
        f.write(text)


# --- copying ---

def test_a_file_is_copied_once_whatever_its_names_and_holes(home):
    d = repo(home)
    b = Box(home)
    b.sh("head -c 1048576 /dev/urandom > one; for i in $(seq 19); do ln one link$i; done;"
         "for i in $(seq 8); do truncate -s 10M hole$i; echo end$i >> hole$i; done")
    j = b.json()
    assert len(j["changes"]) == 28 and j["copy"]["files"] == 9
    assert j["copy"]["disk"] < 4 * MIB, j["copy"]
    b.apply("--accept-risk").ok()
    one = open(f"{d}/one", "rb").read()
    assert all(open(f"{d}/link{i}", "rb").read() == one for i in range(1, 20))
    for i in range(1, 9):
        st = os.stat(f"{d}/hole{i}")
        assert st.st_size == 10 * MIB + len(f"end{i}\n") and st.st_blocks * 512 < MIB
    assert b.json()["changes"] == []
    b.run("undo").ok()
    assert sorted(os.listdir(d)) == [".git", "a.txt", "b.txt", "sub"]


def test_what_did_not_change_is_not_copied_again(home):
    repo(home)
    b = Box(home)
    b.sh("mkdir m; for i in $(seq 50); do echo $i > m/$i; done; head -c 3000000 /dev/zero | tr '\\0' x > big")
    assert b.json()["copy"]["files"] == 51
    before = settled(b)
    b.sh("echo more >> m/7")
    after = b.json()
    assert after["copy"]["files"] == 1, after["copy"]
    assert after["summary"]["digest"] != before["summary"]["digest"]
    settled(b)
    b.sh("cp -p m/9 ref; printf 'x\\n' > m/9; touch -r ref m/9; rm ref")  # the same size and time of change
    after = b.json()
    assert after["copy"]["files"] == 1
    assert [c["hunks"][0]["content"] for c in after["changes"] if c["path"] == "m/9"] == ["x\n"]
    home.skep("stop", b.id).ok()
    assert settled(b)["changes"] == after["changes"]


def test_the_copy_does_not_grow_with_reviews(home):
    repo(home)
    b = Box(home)
    for i in range(8):
        b.sh(f"head -c 4000000 /dev/urandom > big; echo {i} > small")
        copy = b.json()["copy"]
        assert copy["disk"] < 24 * MIB, f"after {i + 1} reviews: {copy}"


# --- a part ---

def test_one_path_costs_what_it_has(home):
    d = repo(home)
    b = Box(home)
    b.sh("mkdir m; for i in $(seq 300); do echo $i > m/$i; done; head -c 20000000 /dev/urandom > big; echo new >> a.txt; echo x > m/x")
    j = b.json("a.txt")
    assert [c["path"] for c in j["changes"]] == ["a.txt"]
    assert j["copy"]["files"] == 1 and j["copy"]["disk"] < MIB
    assert (j["summary"]["files"], j["summary"]["hunks"]) == (1, 1)
    b.apply("a.txt").ok()
    assert open(f"{d}/a.txt").read().endswith("new\n") and not os.path.exists(f"{d}/big")
    assert disk_of(f"{home.skep_home}/sandboxes/{b.id}/shadow.git/skep/d") < MIB, "the other files were copied, too"
    b.apply("m/x").ok()
    assert os.listdir(f"{d}/m") == ["x"]
    assert len(b.json()["changes"]) == 301
    b.run("undo").ok()
    assert not os.path.exists(f"{d}/m")


def test_a_part_is_judged_as_the_whole_is(home):
    """A rename in or out of what is named, a directory that became a file, and a digest that is of a part only."""
    d = repo(home, {"old.txt": "".join(f"{i}\n" for i in range(50)), "dir/a": "a\n", "dir/b": "b\n", "keep": "k\n"})
    b = Box(home)
    b.sh("mv old.txt new.txt; rm -r dir; echo file > dir; echo two >> keep")
    whole = {c["path"]: c for c in b.json()["changes"]}
    for path in ("new.txt", "old.txt", "keep"):
        part = b.json(path)
        assert [c["path"] for c in part["changes"]] == [path.replace("old", "new")]
        for c in part["changes"]:
            assert c == whole[c["path"]]
    assert {c["path"]: c["kind"] for c in b.json("dir")["changes"]} == {p: c["kind"] for p, c in whole.items() if p.startswith("dir")}
    part = b.json("keep")["summary"]["digest"]
    b.sh("echo three >> keep")
    take = {"digest": part, "set": {"paths": ["keep"]}}
    r = home.api("POST", f"/v1/sandboxes/{b.id}/apply", take)
    assert r[0] == 409 and "look again" in json.dumps(r[1])
    b.sh("echo elsewhere > other")  # nothing of the part
    take["digest"] = b.json("keep")["summary"]["digest"]
    b.sh("echo again > other")
    assert home.api_raw("POST", f"/v1/sandboxes/{b.id}/apply", take)[0] == 200
    assert open(f"{d}/keep").read() == "k\ntwo\nthree\n"
    b.apply("new.txt").ok()
    assert not os.path.exists(f"{d}/old.txt") and os.path.exists(f"{d}/new.txt")


# --- bounds ---

def test_what_is_past_the_bound_is_named_and_the_rest_lands(home):
    config(home, "review_bytes: 4m\n")
    d = repo(home)
    b = Box(home)
    b.sh("head -c 9000000 /dev/urandom > big; echo x > small")
    by = b.changes()
    assert by["big"]["unseen"] and "unseen" not in by["small"]
    assert b"not in this patch: big" in b.diff()
    r = b.apply()
    assert r.rc and "review_bytes" in r.err, r.err
    b.apply("small").ok()
    assert os.path.exists(f"{d}/small") and not os.path.exists(f"{d}/big")
    config(home, "review_bytes: much\n")
    assert "review_bytes" in b.run("diff").fails(2).err
    config(home, "")
    b.apply("--accept-risk").ok()
    assert os.path.getsize(f"{d}/big") == 9000000


def test_no_disk_is_taken_that_a_review_must_leave_free(home):
    config(home, "review_free: 1000t\n")
    repo(home)
    b = Box(home)
    b.sh("echo small > small")
    assert set(b.changes()) == {"small"}  # little goes always
    b.sh("head -c 80000000 /dev/urandom > big")
    r = b.run("diff", "--json")
    assert r.rc and "review_free" in r.err, r.err
    assert disk_of(f"{home.skep_home}/sandboxes/{b.id}/shadow.git/skep/d") < MIB
    assert set(b.diff("--name-status", "small").split()) == {b"A", b"small"}


@pytest.fixture
def slow(home):
    """A sandbox whose review takes long: a gigabyte to be hashed, again with every try."""
    repo(home)
    b = Box(home)
    b.sh("for i in 1 2 3; do truncate -s 1023M hole$i; done")
    return b


def begin_diff(home, b):
    p = home.popen("diff", "--json", b.id, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_for(lambda: children(home), seconds=30, why="the review at work")
    return p


def test_a_review_ends_with_its_client(home, slow):
    p = begin_diff(home, slow)
    p.send_signal(signal.SIGKILL)
    p.communicate()
    wait_for(lambda: not children(home), seconds=30, why="the end of what nobody waits for")
    assert "small" in slow.sh("echo small > small; ls").out
    assert [c["path"] for c in slow.json("small")["changes"]] == ["small"]


def test_a_person_sees_that_it_goes_on_and_can_end_it(home, slow, terminal):
    t = terminal("diff", slow.id)
    t.expect("comparing what changed", seconds=60)
    t.send("\x03")
    assert t.wait(60)
    wait_for(lambda: not children(home), seconds=30, why="the end of what nobody waits for")


def test_a_removal_by_force_ends_a_review(home, slow):
    p = begin_diff(home, slow)
    home.skep("rm", "--force", slow.id).ok()
    err = p.communicate()[1].decode()
    assert p.returncode and "removed" in err, err
    wait_for(lambda: not children(home), seconds=30, why="the end of the review")


def test_a_review_has_its_time(home, slow):
    config(home, "review_seconds: 1\n")
    r = slow.run("diff", "--json")
    assert r.rc and "review_seconds" in r.err, r.err
    assert not children(home)
