# SPDX-License-Identifier: Apache-2.0
"""Whatever dies in the middle of a snapshot, a rollback, a fork or a merge of layers: afterwards the sandbox shows what it
was or what it was to become, every snapshot that is listed can be used, and gc leaves nothing behind."""
import os
import signal
import subprocess
import time

import pytest

from kit import ROOT, Result, proc_start, proc_state, wait_for


def points():
    d = os.path.abspath(os.environ.get("SKEP_BUILD", os.path.join(ROOT, "build/release")))
    p = subprocess.run([f"{d}/skepd", "--faults"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=10, check=True)
    return [x for x in p.stdout.decode().split() if x.split(".")[0] in ("seal", "rollback", "fork", "layer")]


UNSEEN = {"layer.sync", "layer.clear"}  # that a layer is not on the disk yet is told later


def end_skepd(home):
    pid = home.skepd_pid()
    if pid:
        home.watch()
        start = proc_start(pid)
        home.api("POST", "/v1/shutdown", {})
        wait_for(lambda: proc_start(pid) != start or proc_state(pid) == "Z", why="skepd to end")


def skepd_with(home, fault):
    end_skepd(home)
    p = subprocess.Popen([f"{home.programs}/skepd", "--foreground"], env={**home.env, "SKEP_FAULT": fault}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    home.started.append(p)
    wait_for(lambda: home.skepd_pid() or p.poll() is not None, why="skepd with the fault")


def quick(home, *args):
    """As home.skep, without a look at every process of the machine."""
    p = home.popen(*args)
    out, err = p.communicate(timeout=60)
    return Result(list(args), p.returncode, out, err)


def cat(home, sid):
    return quick(home, "exec", sid, "--", "cat", "v").ok().line


def settled(r):
    assert r.rc in (0, 1, 3, 4, 7, 8, 125, 137), f"{r.what}: exit {r.rc}: {r.err}"
    assert r.rc == 0 or len([x for x in r.err.splitlines() if x.strip()]) == 1, r.err
    return r.rc


def snapshots(home):
    return quick(home, "snapshots", "--all", "--json").json()["snapshots"]


def sound(home, box, allowed):
    """What must hold after any accident."""
    rows = {s["id"]: s for s in quick(home, "ps", "--json").json()["sandboxes"]}
    assert all(s["state"] in ("running", "stopped", "failed") for s in rows.values()), rows
    now = cat(home, box)
    assert now in allowed
    for s in rows.values():
        assert cat(home, s["id"]) in allowed, s
    for n in snapshots(home):
        r = quick(home, "run", "--from", n["id"], "--", "cat", "v").ok()
        assert r.line in allowed, n
    quick(home, "log", box, "--verify").ok()
    return now


def tidy(home, keep):
    """Only the sandbox and its snapshot called base; then there is nothing for gc to find."""
    others = [s["id"] for s in quick(home, "ps", "--json").json()["sandboxes"] if s["id"] != keep]
    if others:
        quick(home, "rm", "--force", *others).ok()
    gone = [n["id"] for n in snapshots(home) if n["name"] != "base"]
    if gone:
        quick(home, "snapshot", "rm", *gone).ok()
    quick(home, "gc").ok()
    wait_for(lambda: quick(home, "gc", "--json", "--dry-run").json()["items"] == [], why="nothing to be left over")
    wait_for(lambda: not [n for n in os.listdir(f"{home.skep_home}/layers") if n.endswith(".partial")], why="no unfinished layer")


@pytest.fixture
def box(home):
    sid = home.new("--empty")
    home.skep("exec", sid, "--", "sh", "-c", "echo base > v").ok()
    home.skep("snapshot", sid, "base").ok()
    return sid


@pytest.mark.parametrize("how", ["fail", "kill"])
def test_a_step_fails(home, skep, box, how):
    for point in points():
        quick(home, "exec", box, "--", "sh", "-c", f"echo {point} > v").ok()
        quick(home, "stop", box).ok()
        skepd_with(home, f"{point}:{how}")
        told = [settled(quick(home, *argv)) for argv in (
            ["snapshot", box], ["exec", box, "--", "sh", "-c", "echo w > w"], ["exec", "-d", box, "--", "sleep", "661201"], ["snapshot", box],  # beside a running process
            ["fork", box, "-n", "2"], ["rollback", box, "base"])]
        assert any(told) or how == "kill" or point in UNSEEN, f"{point} was not passed"
        end_skepd(home)
        now = sound(home, box, {"base", point})
        kept = [n for n in snapshots(home) if n["name"] != "base"]
        assert now == point or kept, "rolled back, and what was there before is lost"
        tidy(home, box)


def kill_everything(home):
    """Power off: every process of ours at once."""
    home.watch()
    for _ in range(3):
        home.kill_strays()
        home.watch()


OPERATIONS = [("snapshot",), ("rollback", "base"), ("fork", "-n", "3")]


@pytest.mark.parametrize("victim", ["skepd", "nursery", "everything"])
def test_killed_at_any_moment(home, skep, box, victim):
    n = 0
    for verb, *args in OPERATIONS:
        for delay in (0.001, 0.004, 0.012):
            n += 1
            running = n % 2
            quick(home, "exec", box, "--", "sh", "-c", f"echo {n} > v").ok()
            if running:
                quick(home, "exec", "-d", box, "--", "sleep", "661202").ok()
            p = home.popen(verb, box, *args)
            time.sleep(delay)
            if victim == "everything":
                kill_everything(home)
            else:
                home.watch()
                daemon = home.skepd_pid()
                children = [q for (q, s), _ in home.seen.items() if proc_start(q) == s and parent(q) == daemon]
                for q in [daemon] if victim == "skepd" else children:
                    os.kill(q, signal.SIGKILL)
            p.communicate(timeout=30)
            ends = (0, 1, 4, 8, -signal.SIGKILL) if victim == "everything" else (0, 1, 4, 8)  # the client is one of ours
            assert p.returncode in ends, p.returncode
            sound(home, box, {"base", str(n)})
            tidy(home, box)


def parent(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return int(f.read().rpartition(")")[2].split()[1])
    except OSError:
        return None


def test_killed_while_layers_are_merged(home, skep, box):
    """Sixteen layers are merged in the background: killed there, nothing is lost, and a later try succeeds."""
    def one(i):
        assert home.popen("exec", box, "--", "sh", "-c", f"echo {i} > v; echo {i} > f{i}").wait(30) == 0
        return wait_for(lambda: (lambda r: r[0] != 409 and r)(home.api("POST", f"/v1/sandboxes/{box}/snapshots", {})), why="a snapshot")

    for i in range(14):
        assert one(i)[0] == 201
    for i, delay in enumerate((0.0, 0.005, 0.02), 14):
        assert one(i)[0] == 201  # begins a merge
        time.sleep(delay)
        kill_everything(home)
        assert skep("exec", box, "--", "sh", "-c", "cat v; ls f* | wc -l").ok().out.split() == [str(i), str(i + 1)]
    for i in range(17, 40):
        assert one(i)[0] == 201
    wait_for(lambda: one(99)[1]["layers"] < 20, why="the layers to be merged")
    assert skep("exec", box, "--", "sh", "-c", "cat f0 f7 f16 f39; cat v").ok().out.split() == ["0", "7", "16", "39", "99"]
    tidy(home, box)
