# SPDX-License-Identifier: Apache-2.0
"""Crash-only: kill -9 of any of our processes, at any time, loses nothing that it should not."""
import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from fixtures import write_project
from kit import World, find_procs, proc_start, text, wait_for

COUNT = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo $i; [ $((i % 500)) = 0 ] && sleep 0.3; done; exit 11"
EXPECT = "".join(f"{i}\n" for i in range(1, 3001)).encode()


def exited(home, xid):
    return wait_for(lambda: (lambda r: r.get("state") == "exited" and r)(home.exec_row(xid)), 20, why=f"{xid} to exit")


def test_skepd_killed_while_ten_commands_run(home, skep, project):
    box = home.new("--name", "box")
    other = home.new()
    attached = [home.popen("exec", s, "--", "sh", "-c", COUNT) for s in (box, box, other)]
    attached += [home.popen("run", "--", "sh", "-c", COUNT) for _ in range(2)]
    detached = [skep("exec", "-d", s, "--", "sh", "-c", COUNT).ok().line for s in (box, box, box, other, other)]
    for p in attached:
        assert p.stdout.read(2) == b"1\n"
    rows = {x["id"] for x in home.api("GET", "/v1/execs")[1]["execs"]}
    assert len(rows) == 10
    home.kill_skepd()
    for p in attached:
        out, err = p.communicate(timeout=60)
        assert (out, p.returncode) == (EXPECT[2:], 11), text(err)
        assert err == b""
    skep("ps").ok()  # starts the next one
    for xid in detached:
        row = exited(home, xid)
        assert (row["status"], row["bytes"]["stdout"]) == (11, len(EXPECT))
        assert skep("logs", xid).ok().out_b == EXPECT
        r = skep("attach", xid)
        assert (r.out_b, r.rc) == (EXPECT, 11)
    states = {s["id"]: s["state"] for s in home.ps()}
    assert states == {box: "running", other: "running"}
    assert all(x["status"] == 11 for x in home.api("GET", "/v1/execs")[1]["execs"] if x["sandbox"] in states)


def test_skepd_killed_again_and_again(home, skep):
    box = home.new()
    xid = skep("exec", "-d", box, "--", "sh", "-c", COUNT).ok().line
    for _ in range(5):
        home.kill_skepd()
        skep("ps").ok()
    assert exited(home, xid)["status"] == 11
    assert skep("logs", xid).ok().out_b == EXPECT
    assert skep("exec", box, "--", "echo", "fine").ok().line == "fine"


def test_command_right_after_a_shutdown(home, skep):
    """The old skepd does not answer any more but has not ended yet: the next command waits for its place."""
    for _ in range(8):
        skep("run", "--", "true").ok()
        home.api("POST", "/v1/shutdown", {})
        skep("ps").ok()


def test_attach_and_kill_after_a_restart(home, skep):
    box = home.new()
    xid = skep("exec", "-d", box, "--", "sh", "-c", "echo a; sleep 661101").ok().line
    wait_for(lambda: skep("logs", xid).out == "a\n")
    home.kill_skepd()
    p = home.popen("attach", xid)
    assert p.stdout.readline() == b"a\n"
    skep("kill", xid).ok()
    p.communicate(timeout=15)
    assert p.returncode == 128 + 15
    assert not find_procs("sleep\x00661101")


def test_run_ended_while_there_was_no_skepd(home, skep, project):
    """The row is right afterwards: the changed one stopped, the unchanged one gone."""
    a = home.popen("run", "--", "sh", "-c", "echo up; sleep 0.7; echo 1 > f")
    b = home.popen("run", "--", "sh", "-c", "echo up; sleep 0.7")
    for p in (a, b):
        assert p.stdout.readline() == b"up\n"
    home.kill_skepd()
    for p in (a, b):
        p.communicate(timeout=30)
        assert p.returncode == 0
    wait_for(lambda: [(s["state"], s["pending"]) for s in home.ps()] == [("stopped", 1)], why="the rows")


def test_an_end_that_the_next_skepd_is_told_of(home, skep, project):
    """The cell has ended and waits for a slow client when a new daemon greets it: that is no death."""
    Path(project, "flag").write_text("wait\n", encoding="ascii")
    p = home.popen("run", "--", "sh", "-c", "echo 1 > f; head -c 4000000 /dev/zero; until grep -q go flag; do sleep 0.05; done; exit 3")
    assert p.stdout.read(1) == b"\0"
    os.kill(p.pid, signal.SIGSTOP)
    sid = home.ps()[0]["id"]
    journal = f"{home.skep_home}/sandboxes/{sid}/journal"
    home.kill_skepd()
    Path(project, "flag").write_text("go\n", encoding="ascii")
    wait_for(lambda: '"cell.gone"' in Path(journal).read_text(encoding="utf-8"), 20, why="the cell to end, with its client still there")
    skep("ps").ok()
    wait_for(lambda: home.show(sid)["state"] == "stopped", 20, why="the daemon to be told")
    os.kill(p.pid, signal.SIGCONT)
    assert len(p.stdout.read()) == 3999999
    p.communicate(timeout=30)
    assert p.returncode == 3
    row = home.show(sid)
    assert (row["state"], row["reason"], row["pending"]) == ("stopped", "exec ended", 1)
    assert skep("log", sid, "--json").ok().out.count("died") == 0
    assert skep("exec", sid, "--", "cat", "f").ok().line == "1"


def test_a_cell_that_is_slow_to_answer_is_not_dead(home, skep):
    box = home.new()
    xid = skep("exec", "-d", box, "--", "sleep", "661107").ok().line
    cell = home.cell_pid(box)
    os.kill(cell, signal.SIGSTOP)
    home.kill_skepd()
    skep("ps").ok()
    log = f"{home.skep_home}/skepd.log"
    try:
        wait_for(lambda: "does not answer" in Path(log).read_text(encoding="utf-8"), 30, why="the daemon's patience to end")
    finally:
        os.kill(cell, signal.SIGCONT)
    assert skep("exec", box, "--", "echo", "here").ok().line == "here"
    assert (home.show(box)["state"], home.cell_pid(box), home.exec_row(xid)["state"]) == ("running", cell, "running")


def test_ended_while_there_was_no_skepd_in_a_kept_cell(home, skep):
    box = home.new()
    xid = skep("exec", "-d", box, "--", "sh", "-c", "sleep 0.5; exit 17").ok().line
    home.kill_skepd()
    wait_for(lambda: not find_procs("sleep 0.5; exit 17"), why="the command to end")
    assert exited_after_start(home, xid)["status"] == 17


def exited_after_start(home, xid):
    home.skep("ps").ok()
    return exited(home, xid)


def test_cell_killed(home, skep, project):
    """Its processes die, the workspace stays, the next exec works."""
    box = home.new()
    skep("exec", box, "--", "sh", "-c", "echo saved > saved").ok()
    xid = skep("exec", "-d", box, "--", "sh", "-c", "setsid sleep 661102 & sleep 661103").ok().line
    wait_for(lambda: find_procs("sleep\x00661102") and find_procs("sleep\x00661103"))
    pid = home.cell_pid(box)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not find_procs("661102") and not find_procs("661103"), 5, why="the cell's processes to die")
    row = wait_for(lambda: (lambda r: r["state"] == "exited" and r)(home.exec_row(xid)), why="the exec's row")
    assert row["status"] != 0 or row["reason"]
    assert home.show(box)["state"] in ("stopped", "failed")
    assert skep("exec", box, "--", "cat", "saved").ok().line == "saved"


def test_removing_one_whose_cell_died(home, skep):
    """What is pending has to be counted first, by a cell that comes and goes: rm answers when that is over."""
    for changed in (False, True):
        box = home.new("--empty")
        skep("exec", box, "--", "sh", "-c", "echo 1 > f" if changed else "true").ok()
        pid = home.cell_pid(box)
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda b=box: home.show(b)["state"] != "running", why="skepd to see it")
        r = skep("rm", box)
        left = [s["id"] for s in home.ps()]
        assert (r.rc, left) == ((4, [box]) if changed else (0, [])), r.err
    assert "pending" in r.err


def test_attached_client_of_a_killed_cell_ends(home, skep):
    box = home.new()
    p = home.popen("exec", box, "--", "sh", "-c", "echo up; sleep 661104")
    assert p.stdout.readline() == b"up\n"
    os.kill(home.cell_pid(box), signal.SIGKILL)
    _, err = p.communicate(timeout=15)
    assert p.returncode in (125, 137) and len(err.splitlines()) == 1


def test_cell_and_skepd_killed_together(home, skep):
    box = home.new()
    skep("exec", box, "--", "sh", "-c", "echo saved > saved").ok()
    pid = home.cell_pid(box)
    home.kill_skepd()
    os.kill(pid, signal.SIGKILL)
    assert skep("exec", box, "--", "cat", "saved").ok().line == "saved"
    skep("log", box, "--verify").ok()


def test_init_killed_from_outside(home, skep):
    """Pid 1 of the cell killed: the same as a dead cell."""
    box = home.new()
    skep("exec", box, "--", "sh", "-c", "echo saved > saved").ok()
    xid = skep("exec", "-d", box, "--", "sleep", "661105").ok().line
    sleeper = wait_for(lambda: find_procs("sleep\x00661105"))[0]
    with open(f"/proc/{sleeper}/stat", encoding="utf-8", errors="replace") as f:
        init = int(f.read().rpartition(")")[2].split()[1])
    os.kill(init, signal.SIGKILL)
    wait_for(lambda: not find_procs("sleep\x00661105"))
    assert wait_for(lambda: (lambda r: r["state"] == "exited" and r)(home.exec_row(xid)))
    assert skep("exec", box, "--", "cat", "saved").ok().line == "saved"


def test_processes_inside_cannot_outlive_their_init(home, skep):
    """SIGKILL to everything from inside ends commands, not the cell."""
    box = home.new()
    xid = skep("exec", "-d", box, "--", "sleep", "661106").ok().line
    r = skep("exec", box, "--", "sh", "-c", "kill -9 -1; sleep 1")
    assert r.rc in (0, 137)
    wait_for(lambda: (lambda x: x["state"] == "exited")(home.exec_row(xid)))
    assert skep("exec", box, "--", "echo", "on").ok().line == "on"


def test_children_of_skepd_killed(home, skep):
    """The nursery and its warm slots are replaceable."""
    box = home.new()
    skep("exec", box, "--", "true").ok()
    cell = home.cell_pid(box)
    daemon = home.skepd_pid()
    home.watch()
    for (p, s), _ in list(home.seen.items()):
        if p not in (cell, daemon) and proc_start(p) == s and parent(p) == daemon:
            os.kill(p, signal.SIGKILL)
    for _ in range(3):
        assert skep("run", "--", "echo", "works").ok().line == "works"
    assert skep("exec", box, "--", "echo", "works").ok().line == "works"


def parent(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return int(f.read().rpartition(")")[2].split()[1])
    except OSError:
        return None


@pytest.mark.parametrize("delay_ms", [0, 1, 3, 6, 10, 20, 50, 100])
def test_skepd_killed_at_any_moment_of_a_run(home, skep, delay_ms):
    skep("ps").ok()
    pid = home.skepd_pid()
    p = home.popen("run", "--", "sh", "-c", "sleep 0.05; echo ok")
    time.sleep(delay_ms / 1000)
    os.kill(pid, signal.SIGKILL)
    out, err = p.communicate(timeout=30)
    home.watch()
    assert (p.returncode, out) == (0, b"ok\n") or (p.returncode == 125 and len(err.splitlines()) == 1), (out, err)
    assert skep("run", "--", "echo", "next").ok().line == "next"
    wait_for(lambda: home.ps() == [] or all(s["state"] in ("stopped", "failed") for s in home.ps()), 20, why="no row to hang")


@pytest.mark.parametrize("delay_ms", [0, 2, 5, 10, 30])
def test_client_killed_at_any_moment_of_a_run(home, skep, delay_ms):
    skep("ps").ok()
    p = home.popen("run", "--", "sh", "-c", "sleep 0.1")
    time.sleep(delay_ms / 1000)
    p.kill()
    p.communicate()
    wait_for(lambda: home.ps() == [], 15, why="the run to end and go")


def test_stale_run_directory_of_another_boot(home, skep):
    """Sockets and boot id of an earlier boot: all stale, nothing waits for them."""
    box = home.new()
    skep("exec", box, "--", "sh", "-c", "echo 1 > f").ok()
    pid = home.cell_pid(box)
    home.kill_skepd()
    os.kill(pid, signal.SIGKILL)
    for n in os.listdir(f"{home.skep_home}/run"):
        if "boot" in n:
            with open(f"{home.skep_home}/run/{n}", "w", encoding="ascii") as f:
                f.write("00000000-0000-0000-0000-000000000000\n")
    assert skep("exec", box, "--", "cat", "f").ok().line == "1"


# A cell of an older build, as far as a skepd can see it: whoever greets is told which version it speaks.
OLDER = """
import socket, struct, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
msg = b"this cell speaks protocol version 1"
body = struct.pack("<II", 8, 0) + struct.pack("<I", len(msg)) + msg
print("up", flush=True)
held = []
while True:
    c, _ = s.accept()
    c.recv(65536)
    c.sendall(struct.pack("<IBBBBI", len(body), 1, 0, 0, 0, 0) + body)
    held.append(c)
"""


def test_a_cell_of_another_build_is_named_and_can_be_stopped(home, skep):
    """A new skepd finds it: nothing of it is misread, everything but stop is refused in plain words, and stop ends it."""
    box = home.new("--empty", "--name", "old")
    real = home.cell_pid(box)
    home.kill_skepd()
    sock = f"{home.skep_home}/run/cells/{box}.sock"
    os.rename(sock, f"{sock}.real")
    p = subprocess.Popen([sys.executable, "-c", OLDER, sock], stdout=subprocess.PIPE, env={**home.env})
    assert p.stdout.readline() == b"up\n"
    wait_for(lambda: "another build" in (home.show(box)["reason"] or ""), why="a new skepd to have found it")
    assert home.show(box)["state"] == "running"
    skep("exec", "old", "--", "true").fails(125, "another build", "stop", "version 1")
    skep("pause", "old").fails(9, "another build")
    assert p.poll() is None
    os.kill(real, signal.SIGKILL)  # the one that the older one stands for
    skep("stop", "old").ok()
    assert p.wait(10) == -signal.SIGKILL
    p.stdout.close()
    with contextlib.suppress(FileNotFoundError):
        os.remove(f"{sock}.real")
    assert home.show(box)["state"] == "stopped"
    assert skep("exec", "old", "--", "echo", "again").ok().line == "again"
    skep("rm", "--force", "old").ok()


def test_a_greeting_of_another_version_is_refused(home, skep):
    """From either side: the cell names both versions and reads nothing else of it."""
    box = home.new("--empty")
    skep("exec", box, "--", "true").ok()
    for version in (2, 4, 4000000000):
        s = socket.socket(socket.AF_UNIX)
        at = os.open(f"{home.skep_home}/run/cells", os.O_PATH | os.O_DIRECTORY)
        s.connect(f"/proc/self/fd/{at}/{box}.sock")
        os.close(at)
        body = struct.pack("<I", version) + b"\xff" * 30
        s.sendall(struct.pack("<IBBBBI", len(body), 3, 0, 0, 0, 0) + body)
        s.settimeout(10)
        said = s.recv(4096)
        assert said[4] == 1 and b"protocol version 3" in said and str(version).encode() in said
        assert (b"older" if version > 3 else b"newer") in said
        s.close()
    assert skep("exec", box, "--", "echo", "well").ok().line == "well"


def test_a_client_that_dies_on_its_way_holds_nobody_up(home, skep):
    """It asked for a command and never attached: more output than is kept does not wait for it for ever."""
    box = home.new()
    _, answer = home.api("POST", f"/v1/sandboxes/{box}/execs", {"argv": ["sh", "-c", "head -c 80000000 /dev/zero; exit 5"]})
    assert answer["attach"]["ticket"]
    xid = answer["exec"]["id"]
    assert wait_for(lambda: (lambda r: r["state"] == "exited" and r)(home.exec_row(xid)), 40, why="its end")["status"] == 5


# --- skep-review dies in the middle of an apply ---

STEPS = ["review.intent:kill", "review.temp:kill:2", "review.commit:kill", "review.step:kill:1", "review.step:kill:3", "review.done:kill", "review.base:kill",
         "review.clean:kill", "review.end:kill"]


@pytest.fixture
def dying(programs):
    """A World whose skep-review dies where the file `fault` says, as often as lines stand in it."""
    with contextlib.ExitStack() as stack:
        d = stack.enter_context(tempfile.TemporaryDirectory(prefix="skfault"))
        os.chmod(d, 0o755)
        for name in os.listdir(programs):
            if name.startswith("skep"):
                os.symlink(f"{programs}/{name}", f"{d}/{name}")
        os.unlink(f"{d}/skep-review")
        Path(f"{d}/skep-review").write_text(f"""#!/bin/sh
[ "$1" = wait ] && {{ IFS= read -r verb || exit 0; set -- "$verb"; }}
[ "$1" = apply ] || [ "$1" = recover ] && if [ -s {d}/fault ]; then
	SKEP_FAULT=$(head -n 1 {d}/fault); export SKEP_FAULT
	sed -i 1d {d}/fault
fi
exec {programs}/skep-review "$@"
""")
        os.chmod(f"{d}/skep-review", 0o755)
        for name in ("skep", "skepd", "skep-cell"):  # what finds its sisters by its own place must be there itself
            os.unlink(f"{d}/{name}")
            shutil.copy(f"{programs}/{name}", f"{d}/{name}")
        w = World(d)
        w.die = lambda *points: Path(f"{d}/fault").write_text("".join(f"{p}\n" for p in points))
        w.left = lambda: Path(f"{d}/fault").read_text()
        yield w
        w.close(check=False)


def whole(d):
    return {p.relative_to(d).as_posix(): p.read_text() for p in Path(d).rglob("*") if p.is_file() and ".git/" not in p.as_posix()}


def apply_that_dies(w, *points):
    """The project before and after, and the sandbox whose apply died between the two."""
    write_project(w.dir)
    before = whole(w.dir)
    sid = w.new()
    w.skep("exec", sid, "--", "sh", "-ec", "echo more >> main.c; rm sub/deep/note.txt; echo new > new; echo int >> add.h; mkdir x; echo y > x/y").ok()
    after = {**before, "main.c": before["main.c"] + "more\n", "add.h": before["add.h"] + "int\n", "new": "new\n", "x/y": "y\n"}
    del after["sub/deep/note.txt"]
    w.die(*points)
    assert w.skep("apply", "--yes", sid).rc
    return sid, before, after


def test_an_apply_that_died_is_settled_by_whatever_comes_next(dying):
    for n, (verb, args) in enumerate([("rm", ["--force"]), ("diff", []), ("undo", []), ("export", ["--patch", "-"]), ("dismiss", ["--yes"])]):
        for point in STEPS if verb == "rm" else STEPS[n % 4 :: 4]:
            shutil.rmtree(dying.dir)
            os.mkdir(dying.dir)
            sid, before, after = apply_that_dies(dying, point)
            assert not dying.left(), f"{point} was not reached"
            dying.skep(verb, *args[:1], sid, *args[1:]) if verb == "rm" else dying.skep(verb, sid, *args)
            now = whole(dying.dir)
            if verb == "undo":
                assert now == before, f"undo after {point}"
            else:
                assert now in (before, after), f"{verb} after {point}: {now.keys()}"
            if verb != "rm":
                dying.skep("rm", "--force", sid).ok()
            assert whole(dying.dir) == now
            assert not os.path.exists(f"{dying.skep_home}/unsettled")


def test_a_half_done_apply_outlives_its_sandbox(dying):
    sid, before, after = apply_that_dies(dying, "review.step:kill:2", "review.step:kill:1")
    dying.skep("rm", "--force", sid).ok()
    assert os.listdir(f"{dying.skep_home}/unsettled") == [sid]
    assert whole(dying.dir) not in (before, after)
    dying.kill_skepd()
    dying.skep("ps").ok()  # starts the next one
    wait_for(lambda: not os.listdir(f"{dying.skep_home}/unsettled"), 30, why="the apply to be settled, and its log to go")
    assert whole(dying.dir) in (before, after)
