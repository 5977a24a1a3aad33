# SPDX-License-Identifier: Apache-2.0
"""Faults: at every named step of create, exec, stop and rm the step fails, or the process that does it is killed.
The command then succeeds or says so in one line; nothing is lost, nothing leaks, the next command works.

SKEP_FAULT=<point>[:kill|:fail][:N] is read by skepd and skep-cell: the N-th pass (default the first) through the
point fails or kills. The points are what the programs print with --faults; those that no such life passes have tests of
their own: layers in test_stack.py, sync in test_power.py, gc in test_lifecycle.py, setups in test_setup.py, seal, rollback and fork in test_snapshot_faults.py, move in
test_rename.py, repo in test_repo*.py, review and export in test_review*.py."""
import os
import subprocess
import time

import pytest

from kit import ROOT, proc_start, proc_state, wait_for


def points():
    """The points of the built programs, each once."""
    d = os.path.abspath(os.environ.get("SKEP_BUILD", os.path.join(ROOT, "build/release")))
    found = {}
    for program in ("skepd", "skep-cell"):
        try:
            p = subprocess.run([f"{d}/{program}", "--faults"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=10, check=False)
            found.update((x, None) for x in (p.stdout.decode().split() if p.returncode == 0 else []))
        except (OSError, subprocess.TimeoutExpired):
            pass
    return list(found)


ELSEWHERE = ("layer.", "sync.", "setup.", "seal.", "rollback.", "fork.", "move.", "repo.", "review.", "export.", "gc.")
CASES = [(point, how) for point in points() if not point.startswith(ELSEWHERE) for how in ("fail", "kill")] or [(None, None)]


def names(case):
    return "-".join(str(x) for x in case)


def settled(r, *codes):
    """Success, or one clear line with a documented code; never a crash, a stack trace or silence."""
    assert r.rc == 0 or r.rc in codes, f"{r.what}: exit {r.rc}: {r.err}"
    if r.rc:
        assert len([x for x in r.err.splitlines() if x.strip()]) == 1, r.err


def restart(home, fault):
    """A new skepd (and nursery) that has, or has no more, the fault. It is started here: the fault is for it and what
    it starts, not for a successor that a client starts after it died of it."""
    pid = home.skepd_pid()
    if pid:
        home.watch()
        start = proc_start(pid)
        home.api("POST", "/v1/shutdown", {})
        wait_for(lambda: proc_start(pid) != start or proc_state(pid) == "Z", why="skepd to end")
    if not fault:
        return
    p = subprocess.Popen([f"{home.programs}/skepd", "--foreground"], env={**home.env, "SKEP_FAULT": fault}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    home.started.append(p)
    wait_for(lambda: home.skepd_pid() or p.poll() is not None, why="skepd with the fault")


@pytest.mark.parametrize("case", CASES, ids=names)
def test_fault_in_a_life(home, project, case):
    point, how = case
    assert point, "the programs list no fault points"
    home.new("--name", "kept")
    home.skep("exec", "kept", "--", "sh", "-c", "echo precious > precious").ok()
    home.skep("stop", "kept").ok()

    restart(home, f"{point}:{how}")
    settled(home.skep("new", "--name", "fresh"), 1, 4, 8)
    kept = ["exec", "kept", "--", "cat", "precious"]
    for argv in (kept, kept, ["exec", "fresh", "--", "sh", "-c", "echo x > x"], ["run", "--", "sh", "-c", "echo y > y"], ["run", "--", "true"]):
        settled(home.skep(*argv, timeout=30), 125, 137)
    for argv in (["stop", "kept"], ["stop", "fresh"], ["rm", "--force", "fresh"], ["start", "kept"], ["pause", "kept"], ["resume", "kept"], ["rm", "kept"]):
        settled(home.skep(*argv, timeout=30), 1, 3, 4, 7, 8)

    restart(home, None)
    home.skep("ps").ok()
    assert home.skep("exec", "kept", "--", "cat", "precious").ok().line == "precious"
    assert all(s["state"] in ("running", "stopped", "failed") for s in home.ps())
    home.skep("log", "kept", "--verify").ok()
    assert home.skep("run", "--", "echo", "next").ok().line == "next"


@pytest.mark.parametrize("case", [c for c in CASES if c[1] != "fail"], ids=names)
def test_kill_at_a_later_pass(home, project, case):
    """The third pass: in the middle of a life, with other sandboxes up."""
    point, how = case
    assert point, "the programs list no fault points"
    restart(home, f"{point}:{how}:3")
    for i in range(4):
        settled(home.skep("run", "--", "sh", "-c", f"echo {i} > f{i}", timeout=30), 125, 137)
    restart(home, None)
    wait_for(lambda: all(s["state"] in ("stopped", "failed") for s in home.ps()), 20, why="no row to hang")
    assert home.skep("run", "--", "echo", "next").ok().line == "next"


# The kernel refuses a step: seen from outside, whatever the step is.
SYSCALLS = ["clone3", "unshare", "mount", "pivot_root", "move_mount", "open_tree", "fsopen", "mount_setattr", "seccomp", "capset", "setns", "memfd_create"]


@pytest.mark.parametrize("syscall", SYSCALLS)
def test_a_system_call_of_the_setup_fails(home, syscall):
    """strace makes every such call of skepd's children fail: the cell does not start (fail closed), or does not need it."""
    strace = "/usr/bin/strace"
    if not os.access(strace, os.X_OK):
        pytest.skip("strace is not installed")
    daemon = subprocess.Popen([strace, "-f", "-qq", "-o", "/dev/null", "-e", f"trace={syscall}", "-e", f"fault={syscall}:error=EPERM", f"{home.programs}/skepd", "--foreground"], env=home.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    home.started.append(daemon)
    wait_for(lambda: home.skepd_pid() or daemon.poll() is not None, why="skepd under strace")
    r = home.skep("run", "--", "sh", "-c", "grep Seccomp: /proc/self/status; grep CapBnd /proc/self/status", timeout=90)
    if r.rc == 0:  # not needed for a cell: then the whole boundary stands without it
        assert r.out.split()[1] == "2" and r.out.split()[3].strip("0") == "", r.out
    else:
        assert r.rc == 125 and r.out == "" and len(r.err.splitlines()) == 1, (r.rc, r.out, r.err)
    if home.skepd_pid():
        home.api("POST", "/v1/shutdown", {})
        wait_for(lambda: not home.skepd_pid())
    wait_for(lambda: not home.alive(), why="everything under strace to end")
    assert home.skep("run", "--", "echo", "next").ok().line == "next"


def test_output_that_can_not_be_kept_is_read_all_the_same(home):
    """A full disk: who reads gets every byte, however slowly, and the writer waits for it; afterwards it is said what was not kept."""
    box = home.new()
    restart(home, "exec.output:fail")
    home.skep("stop", box).ok()  # the cell of before has no fault
    everything = "".join(f"{i}\n" for i in range(1, 1000001)).encode()
    p = home.popen("exec", box, "--", "sh", "-c", "seq 1000000; echo last >&2; exit 3")
    time.sleep(0.5)  # a reader that is not there yet: the pipe, and what skep holds, are full
    assert p.stdout.read(1000) == everything[:1000]
    out, err = p.communicate(timeout=60)
    assert (p.returncode, err) == (3, b"last\n") and everything[1000:] == out
    xid = home.api("GET", f"/v1/sandboxes/{box}/execs")[1]["execs"][-1]["id"]
    assert "were not kept]" in home.skep("logs", xid).err
    assert [e for e in home.journal(box) if e["type"] == "limit.hit" and e["limit"] == "output"], home.journal(box)
    restart(home, None)
