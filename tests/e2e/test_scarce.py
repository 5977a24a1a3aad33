# SPDX-License-Identifier: Apache-2.0
"""skepd with few descriptors, a skepd that is stopped, a stack of layers that has to be merged before it can grow."""
import os
import resource
import signal
import subprocess

from kit import proc_state, wait_for

FEW = 64


def few(home, *args):
    return subprocess.run([f"{home.programs}/skep", *args], cwd=home.dir, env=home.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=120,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, FEW)), check=False)


def test_few_descriptors(home):
    """A start that skepd has no descriptor for is refused in words; what lives can be used and removed, and then all works."""
    made, refused = [], []
    for _ in range(FEW):
        made.append(few(home, "new").stdout.decode().strip())
        r = few(home, "start", made[-1])
        if r.returncode:
            refused.append(r.stderr.decode())
        if len(refused) == 3:
            break
    assert len(refused) == 3 and all("files open" in r and "ulimit -n" in r for r in refused), refused
    assert few(home, "exec", made[0], "--", "echo", "here").stdout == b"here\n"
    for sid in made:
        assert few(home, "rm", "--force", sid).returncode == 0
    assert few(home, "run", "--", "true").returncode == 0


def test_a_stopped_skepd_is_named(home, skep):
    skep("ps").ok()
    pid = home.skepd_pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_for(lambda: proc_state(pid) == "T", why="skepd to stop")
        p = home.popen("ps")
        line = p.stderr.readline().decode()
        assert f"process {pid}" in line and f"kill -CONT {pid}" in line
    finally:
        os.kill(pid, signal.SIGCONT)
    p.communicate(timeout=60)
    assert p.returncode == 0


def test_going_back_waits_for_a_merge(home, skep, project):
    """Each step adds a layer; the stack is merged beside it, and who comes too early waits."""
    sid = home.new()
    for i in range(45):
        skep("exec", sid, "--", "sh", "-c", f"echo {i} > f; echo {i} > g{i}").ok()
        skep("snapshot", sid, f"s{i}").ok()
        if i % 5 == 4:
            skep("rollback", sid, f"s{i}").ok()
    skep("rollback", sid, "s20").ok()
    assert skep("exec", sid, "--", "sh", "-c", "cat f g20; ls g44 2>/dev/null || echo gone").ok().out.split() == ["20", "20", "gone"]
    skep("snapshot", "rm", *[f"s{i}" for i in range(45)]).ok()
