# SPDX-License-Identifier: Apache-2.0
"""skep exec, attach, logs and kill."""
import os
import signal
import subprocess
import time

import pytest

from kit import ID, find_procs, items, text, wait_for


@pytest.fixture
def box(home, project):
    return home.new("--name", "box")


def exited(home, xid):
    return wait_for(lambda: (lambda r: r["state"] == "exited" and r)(home.exec_row(xid)), why=f"{xid} to exit")


@pytest.mark.parametrize("status", [0, 1, 42])
def test_exit_status(skep, box, status):
    assert skep("exec", box, "--", "sh", "-c", f"exit {status}").rc == status


def test_errors_have_their_status(skep, box):
    skep("exec", box, "--", "no-such-program").fails(127, "no-such-program")
    skep("exec", box, "--", "./README").fails(126, "README")
    assert skep("exec", box, "--", "sh", "-c", "kill -9 $$").rc == 137
    skep("exec", "no-such-sandbox", "--", "true").fails(125, "no-such-sandbox")
    skep("exec", "--no-such-flag", box, "--", "true").fails(2)
    skep("exec", "-w", "/no/such/dir", box, "--", "true").fails(125, "/no/such/dir")
    r = skep("exec", "-u", "nobody-here", box, "--", "true")
    assert r.rc in (125, 126) and len(r.err.splitlines()) == 1


def test_changes_persist_between_execs_and_cells(home, skep, box, project):
    skep("exec", box, "--", "sh", "-c", "echo one > new; echo cached > ~/c; rm README").ok()
    assert skep("exec", box, "--", "cat", "new").ok().line == "one"
    skep("stop", box).ok()
    assert skep("exec", box, "--", "sh", "-c", "cat new ~/c; test ! -e README").ok().out.split() == ["one", "cached"]
    assert os.path.exists(f"{project}/README") and not os.path.exists(f"{project}/new")


def test_tmp_ends_with_the_cell(skep, box):
    skep("exec", box, "--", "touch", "/tmp/x").ok()
    skep("exec", box, "--", "test", "-e", "/tmp/x").ok()
    skep("stop", box).ok()
    assert skep("exec", box, "--", "test", "-e", "/tmp/x").rc == 1


def test_stdin_only_with_i(skep, box):
    assert skep("exec", "-i", box, "--", "cat", stdin=b"abc\0\xff").ok().out_b == b"abc\0\xff"
    assert skep("exec", box, "--", "cat", stdin=b"abc").ok().out_b == b""


def test_directory_environment_and_umask(skep, box, project):
    r = skep("exec", "-w", f"{project}/sub", "-e", "K=V W", box, "--", "sh", "-c", 'pwd; echo "$K"; umask', umask=0o027).ok()
    assert r.out.splitlines() == [f"{project}/sub", "V W", "0027"]


def test_caller_directory_maps_inside(skep, box, project):
    assert skep("exec", box, "--", "pwd", cwd=f"{project}/sub/deep").ok().line == f"{project}/sub/deep"


def test_caller_directory_outside_means_the_workspace(home, skep, box, project):
    assert skep("exec", box, "--", "pwd", cwd="/usr").ok().line == project


def test_execs_of_one_sandbox_see_each_other(skep, box):
    """The same cell: one pid namespace, one /tmp, loopback between them."""
    x = skep("exec", "-d", box, "--", "sleep", "55512").ok().line
    assert skep("exec", box, "--", "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").ok().out.count("sleep 55512") == 1
    skep("kill", x).ok()


def test_parallel_execs(home, box):
    procs = [home.popen("exec", box, "--", "sh", "-c", f"echo {i}; sleep 0.2; exit {i}") for i in range(16)]
    for i, p in enumerate(procs):
        out, err = p.communicate(timeout=60)
        assert (out, p.returncode) == (f"{i}\n".encode(), i), text(err)


def test_64_mib_through_exec(home, box):
    data = os.urandom(64 << 20)
    assert home.skep("exec", "-i", box, "--", "cat", stdin=data, timeout=120).ok().out_b == data


def test_detached(home, skep, box):
    xid = skep("exec", "-d", box, "--", "sh", "-c", "echo out; echo err >&2; exit 5").ok().line
    assert ID.match(xid) and xid[0] == "x"
    row = exited(home, xid)
    assert (row["status"], row["sandbox"], row["bytes"]) == (5, box, {"stdout": 4, "stderr": 4})
    assert row["argv"][0] == "sh"
    r = skep("logs", xid).ok()
    assert (r.out, r.err) == ("out\n", "err\n")


def test_attach_follows_and_gives_the_status(home, skep, box):
    xid = skep("exec", "-d", box, "--", "sh", "-c", "for i in 1 2 3 4 5; do echo $i; sleep 0.1; done; exit 9").ok().line
    r = skep("attach", xid)
    assert (r.out.split(), r.rc) == (["1", "2", "3", "4", "5"], 9)


def test_attach_at_an_offset(home, skep, box):
    xid = skep("exec", "-d", box, "--", "sh", "-c", "printf 0123456789; sleep 1; printf abc").ok().line
    wait_for(lambda: home.exec_row(xid)["bytes"]["stdout"] >= 10 or home.skep("logs", xid).out == "0123456789", why="ten bytes")
    r = skep("attach", "--offset", "7", xid).ok()
    assert r.out == "789abc"


def test_attach_and_logs_after_the_end_and_after_the_cell(home, skep, box):
    xid = skep("exec", "-d", box, "--", "sh", "-c", "echo kept; exit 3").ok().line
    exited(home, xid)
    r = skep("attach", xid)
    assert (r.out, r.rc) == ("kept\n", 3)
    skep("stop", box).ok()
    assert skep("logs", xid).ok().out == "kept\n"
    r = skep("attach", xid)
    assert (r.out, r.rc) == ("kept\n", 3)


def test_logs_follow(home, box):
    xid = home.skep("exec", "-d", box, "--", "sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.2; done").ok().line
    assert home.skep("logs", "--follow", xid).ok().out.split() == ["1", "2", "3"]


def test_output_over_the_api_in_pieces(home, skep, box):
    xid = skep("exec", "-d", box, "--", "sh", "-c", "seq 1 2000000").ok().line
    exited(home, xid)
    got, offset = b"", 0
    while True:
        status, head, data = home.api_raw("GET", f"/v1/execs/{xid}/output?stream=stdout&offset={offset}")
        assert status == 200 and len(data) <= 4 << 20 and int(head["X-Skep-Offset"]) == offset
        got, offset = got + data, offset + len(data)
        if offset == int(head["X-Skep-End"]):
            break
    assert got == "".join(f"{i}\n" for i in range(1, 2000001)).encode()


def test_kill_ends_the_whole_tree(home, skep, box):
    """Also children that left the session, were orphaned twice, and ignore SIGTERM."""
    script = "setsid sh -c '(trap \"\" TERM HUP; sleep 771001; sleep 771002) & (setsid sleep 771003 &) ; sleep 771004' & trap '' TERM; sleep 771005; sleep 771006"
    xid = skep("exec", "-d", box, "--", "sh", "-c", script).ok().line
    other = skep("exec", "-d", box, "--", "sleep", "771099").ok().line
    wait_for(lambda: len([p for p in find_procs("sleep") if find_in(p, ("771001", "771003", "771004", "771005"))]) >= 4, why="the tree")
    skep("kill", xid, "KILL").ok()
    wait_for(lambda: not [p for n in range(771001, 771007) for p in find_procs(f"sleep\0{n}")], 5, why="the tree to go")
    assert exited(home, xid)["signal"] == 9
    assert home.exec_row(other)["state"] == "running"
    skep("kill", other).ok()
    assert exited(home, other)["signal"] == 15


def find_in(pid, words):
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as f:
            return any(w in f.read() for w in words)
    except OSError:
        return False


def test_kill_with_a_named_signal(home, skep, box):
    xid = skep("exec", "-d", box, "--", "sh", "-c", "trap 'exit 33' USR1; echo up; while :; do sleep 0.05; done").ok().line
    wait_for(lambda: skep("logs", xid).out == "up\n")
    skep("kill", xid, "USR1").ok()
    assert exited(home, xid)["status"] == 33


def test_kill_of_an_ended_or_unknown_exec(home, skep, box):
    skep("kill", "x00000000000000").fails(3)
    xid = skep("exec", "-d", box, "--", "true").ok().line
    exited(home, xid)
    assert skep("kill", xid).rc in (0, 4)


def test_client_killed_goes_on_and_output_is_kept(home, skep, box):
    p = home.popen("exec", box, "--", "sh", "-c", "echo begin; sleep 1; echo end")
    assert p.stdout.readline() == b"begin\n"
    p.send_signal(signal.SIGKILL)
    p.communicate()
    row = next(r for r in home.api("GET", f"/v1/sandboxes/{box}/execs")[1]["execs"])
    assert exited(home, row["id"])["status"] == 0
    assert skep("logs", row["id"]).ok().out == "begin\nend\n"


def test_run_client_killed_goes_on(home, project):
    p = home.popen("run", "--", "sh", "-c", "echo begin; sleep 1; echo late > late; echo end")
    assert p.stdout.readline() == b"begin\n"
    (s,) = home.ps()
    p.kill()
    p.communicate()
    wait_for(lambda: home.ps()[0]["state"] == "stopped", why="the run to end")
    assert home.skep("exec", s["id"], "--", "cat", "late").ok().line == "late"


@pytest.mark.parametrize("cap", [0, 10])
def test_a_reader_gets_everything_whatever_is_kept(home, skep, cap):
    skep("ps").ok()
    sid = home.api("POST", "/v1/sandboxes", {"empty": True, "limits": {"output_cap": cap}})[1]["id"]
    for _ in range(5):
        assert skep("exec", sid, "--", "sh", "-c", "echo 123; echo 4").ok().out == "123\n4\n"
    assert len(skep("exec", sid, "--", "head", "-c", "5000000", "/dev/zero").ok().out_b) == 5000000


def test_output_cap_keeps_the_last_bytes(home, skep, project):
    """Nobody reads: the last output_cap bytes stay, offsets are absolute, the command never waits."""
    status, s = home.api("POST", "/v1/sandboxes", {"cwd": project, "limits": {"output_cap": 1 << 20}}) if home.skepd_pid() else (0, 0)
    if not status:
        home.skep("ps").ok()
        status, s = home.api("POST", "/v1/sandboxes", {"cwd": project, "limits": {"output_cap": 1 << 20}})
    assert status == 201, s
    xid = skep("exec", "-d", s["id"], "--", "sh", "-c", "seq 1 1000000; echo last").ok().line
    row = exited(home, xid)
    total = sum(len(str(i)) + 1 for i in range(1, 1000001)) + 5
    assert row["bytes"]["stdout"] == total
    _, head, data = home.api_raw("GET", f"/v1/execs/{xid}/output?stream=stdout")
    first = int(head["X-Skep-Offset"])
    assert 0 < first and total - first <= 2 << 20 and total - first >= 1 << 19
    assert skep("logs", xid).ok().out.endswith("1000000\nlast\n")
    assert len(data) <= 4 << 20


def test_execs_are_listed(home, skep, box):
    a = skep("exec", "-d", box, "--", "sleep", "77").ok().line
    rows = items(skep("ps", "--execs", "--json").json(), "execs") if skep("ps", "--execs", "--json").rc == 0 else home.api("GET", "/v1/execs")[1]["execs"]
    assert a in [r["id"] for r in rows]
    skep("kill", a).ok()


def test_signal_while_attached(home, box):
    p = home.popen("exec", box, "--", "sh", "-c", 'trap "echo int; exit 4" INT; echo ready; while :; do sleep 0.05; done')
    assert p.stdout.readline() == b"ready\n"
    p.send_signal(signal.SIGINT)
    out, _ = p.communicate(timeout=15)
    assert (out, p.returncode) == (b"int\n", 4)


def test_timeout_of_one_exec(home, skep, box):
    start = time.monotonic()
    r = skep("exec", "--timeout", "500ms", box, "--", "sleep", "60")
    assert time.monotonic() - start < 10 and r.rc != 0 and "time" in r.err.lower()
    assert skep("exec", box, "--", "echo", "usable").ok().line == "usable"


def test_background_child_does_not_hold_the_exec(home, skep, box):
    """A child that keeps stdout open delays EOF but the exit status comes with the command's end."""
    start = time.monotonic()
    r = skep("exec", box, "--", "sh", "-c", "sleep 8 & echo started").ok()
    assert r.out == "started\n" and time.monotonic() - start < 7


def test_stdin_closed_early_by_the_command(home, box):
    p = home.popen("exec", "-i", box, "--", "sh", "-c", "exec <&-; echo done", stdin=subprocess.PIPE)
    try:
        out, _ = p.communicate(b"x" * (4 << 20), timeout=30)
    except BrokenPipeError:
        out = p.stdout.read()
    assert out == b"done\n" and p.wait(10) == 0


def test_file_names_that_are_not_utf8(home, box):
    name = b"caf\xe9"
    p = subprocess.run([b"skep", b"exec", box.encode(), b"--", b"sh", b"-c", b"echo hi > " + name + b"; ls"], env=home.env, cwd=home.dir, stdout=subprocess.PIPE, timeout=30, check=True)
    assert name in p.stdout.split(b"\n")
    wait_for(lambda: home.show(box)["pending"] == 1, why="the count of changes")
