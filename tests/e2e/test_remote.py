# SPDX-License-Identifier: Apache-2.0
"""skep with SKEP_HOST: everything about commands and files goes through that skepd, never to a cell's socket."""
import hashlib
import os
import signal
import subprocess

import pytest

from kit import find_procs, wait_for
from stream_kit import WebSocket, connect
from tcp_kit import Caller, serving, token


@pytest.fixture
def far(home):
    """skep as it works from another machine."""
    sid = home.new("--empty", "--name", "far")
    env = {"SKEP_HOST": f"unix://{home.skep_home}/run/skepd.sock", "SKEP_HOME": f"{home.top}/elsewhere"}

    class Far:
        box = sid

        @staticmethod
        def skep(*args, **kw):
            return home.skep(*args, env=env, **kw)

        @staticmethod
        def popen(*args, **kw):
            return home.popen(*args, env=env, **kw)

    yield Far
    assert not os.path.exists(f"{home.top}/elsewhere"), "a skepd of its own was started"


def test_status_streams_and_stdin(far):
    r = far.skep("exec", "-i", "far", "--", "sh", "-c", "cat; echo err >&2; exit 6", stdin=b"in\n")
    assert (r.rc, r.out, r.err) == (6, "in\n", "err\n")
    assert far.skep("exec", "far", "--", "sh", "-c", "kill -9 $$").rc == 137
    far.skep("exec", "far", "--", "no-such-program").fails(127, "no-such-program")


def test_it_never_touches_the_socket_of_a_cell(home, far):
    log = f"{home.top}/strace"
    env = {**home.env, "SKEP_HOST": f"unix://{home.skep_home}/run/skepd.sock", "ASAN_OPTIONS": "detect_leaks=0"}  # it traces, too
    argv = ["strace", "-qq", "-e", "trace=connect", "-o", log, f"{home.programs}/skep", "exec", "far", "--", "echo", "hi"]
    assert subprocess.run(argv, cwd=home.dir, env=env, capture_output=True, check=True).stdout == b"hi\n"
    with open(log, encoding="utf-8") as f:
        dialled = [x for x in f if "connect(" in x]
    assert len(dialled) == 2 and all("skepd.sock" in x for x in dialled), dialled


def test_bytes_are_exact_both_ways(far):
    blob = os.urandom(20 << 20)
    r = far.skep("exec", "-i", "far", "--", "cat", stdin=blob, timeout=120).ok()
    assert r.out_b == blob


def test_detached_attach_logs_kill(home, far):
    xid = far.skep("exec", "-d", "far", "--", "sh", "-c", "echo one; sleep 0.3; echo two; exec sleep 3434").ok().line
    wait_for(lambda: far.skep("logs", xid).ok().out == "one\ntwo\n")
    p = far.popen("attach", xid)
    assert p.stdout.read(8) == b"one\ntwo\n"
    far.skep("kill", xid, "TERM").ok()
    assert p.wait(10) == 143
    assert far.skep("logs", xid).ok().out == "one\ntwo\n"


def test_signals_reach_the_command(far):
    p = far.popen("exec", "far", "--", "sh", "-c", "trap 'echo caught; exit 3' INT; echo up; while :; do sleep 0.05; done")
    assert p.stdout.read(3) == b"up\n"
    p.send_signal(signal.SIGINT)
    assert p.stdout.read() == b"caught\n" and p.wait(10) == 3


def test_a_reader_that_goes_is_noticed(far):
    p = far.popen("exec", "far", "--", "sh", "-c", "while echo 9999988888; do :; done", stderr=subprocess.DEVNULL)
    p.stdout.read(100)
    p.stdout.close()
    assert p.wait(10) == 128 + signal.SIGPIPE
    wait_for(lambda: not find_procs("while echo 9999988888"), 75, why="the command to end")


def test_terminal(terminal, home, far):
    t = terminal("exec", "-it", "far", "--", "sh", env={"SKEP_HOST": f"unix://{home.skep_home}/run/skepd.sock"}, rows=30, cols=90)
    t.send("stty size; echo mark''er\n")
    t.expect("30 90")
    t.resize(40, 120)
    t.send("stty size\n")
    t.expect("40 120")
    t.send("sleep 6123\n")
    wait_for(lambda: find_procs("6123"))
    t.send("\x03")
    t.send("exit 5\n")
    assert t.wait() == 5


def test_cp(home, far):
    blob = os.urandom(3 << 20)
    with open(f"{home.dir}/blob", "wb") as f:
        f.write(blob)
    far.skep("cp", "blob", "far:/tmp/there").ok()
    assert far.skep("exec", "far", "--", "sha256sum", "/tmp/there").ok().out.split()[0] == hashlib.sha256(blob).hexdigest()
    far.skep("cp", "far:/tmp/there", "back").ok()
    with open(f"{home.dir}/back", "rb") as f:
        assert f.read() == blob


def test_run_tells_what_changed(home, far):
    with open(f"{home.dir}/README", "w", encoding="utf-8") as f:
        f.write("x\n")
    r = far.skep("run", "--keep", "--", "sh", "-c", "echo y > README; exit 2")
    assert r.rc == 2
    assert any(b["pending"] for b in home.ps() if b["name"] != "far")


def test_watch(home, far):
    with open(f"{home.dir}/f", "w", encoding="utf-8") as f:
        f.write("x\n")
    sid = home.new()
    p = far.popen("watch", "--json", sid)
    far.skep("exec", sid, "--", "sh", "-c", "echo y > f").ok()
    line = p.stdout.readline()
    while b'"f"' not in line:
        line = p.stdout.readline()
        assert line
    p.terminate()
    p.wait(10)


def test_only_a_client_may_speak_to_a_cell(home, far):
    """Through skepd nobody is a cell's controller, key or not."""
    far.skep("exec", "far", "--", "true").ok()
    for first in (b"\x20\0\0\0" + b"\x03\0\0\0" + b"\0\0\0\0" + b"\x01\0\0\0" + b"\x01" + b"\0" * 27, b"GET / HTTP/1.1\r\n\r\n" + b"x" * 40):
        s = connect(home)
        s.sendall(f"GET /v1/sandboxes/{far.box}/cell HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: skep-cell\r\n\r\n".encode() + first)
        got = b""
        while part := s.recv(4096):
            got += part
        assert got.startswith(b"HTTP/1.1 101") and got.endswith(b"\r\n\r\n"), got
        s.close()


def test_over_tcp_with_a_token(home, terminal):
    sid = home.new("--empty", "--name", "far")
    other = home.new("--empty")
    run = token(home, "--scope", "run", "--on", sid)
    read = token(home, "--scope", "read")
    with serving(home) as port:
        env = {"SKEP_HOST": f"http://127.0.0.1:{port}", "SKEP_TOKEN": run, "SKEP_HOME": f"{home.top}/elsewhere"}
        blob = os.urandom(5 << 20)
        assert home.skep("exec", "-i", "far", "--", "cat", stdin=blob, env=env).ok().out_b == blob
        assert home.skep("exec", "far", "--", "sh", "-c", "exit 9", env=env).rc == 9
        assert home.skep("exec", other, "--", "true", env=env).rc == 125
        assert home.skep("exec", "far", "--", "true", env={**env, "SKEP_TOKEN": read}).rc == 125
        t = terminal("exec", "-it", "far", "--", "sh", "-c", "stty size; read x; stty size", env=env, rows=30, cols=90)
        t.expect("30 90")
        t.resize(33, 99)
        t.send("\n")
        t.expect("33 99")
        assert t.wait() == 0
        with open(f"{home.dir}/blob", "wb") as f:
            f.write(blob)
        home.skep("cp", "blob", "far:/tmp/there", env=env).ok()
        ask = Caller(port, run)
        assert ask.raw("GET", f"/v1/sandboxes/{sid}/files?path=/tmp/there")[2] == blob
        assert ask.raw("PUT", f"/v1/sandboxes/{sid}/files?path=up", blob)[0] == 200
        assert ask("POST", f"/v1/sandboxes/{sid}/exec", {"argv": ["cmp", "/tmp/there", "up"]})[1]["status"] == 0
        assert Caller(port, read).raw("PUT", f"/v1/sandboxes/{sid}/files?path=up", b"")[0] == 403
        assert Caller(port).raw("GET", f"/v1/sandboxes/{sid}/files?path=up")[0] == 401
        assert ask.raw("GET", f"/v1/sandboxes/{other}/files?path=up")[0] in (403, 404)
        ws = WebSocket(home, f"/v1/sandboxes/{sid}/exec/ws", [f"Authorization: Bearer {run}"], sock=ask.connect())
        ws.text(argv=["cat"], stdin=True)
        ws.stdin(blob[:500000], 0)
        ws.stdin(blob[500000:1000000], 500000)
        ws.text(type="eof")
        got, ended = ws.until("exit")
        assert got[1] == blob[:1000000] and ended["status"] == 0
        ws.close()
        assert WebSocket(home, f"/v1/sandboxes/{sid}/exec/ws", [f"Authorization: Bearer {read}"], sock=ask.connect()).status == 403
        assert WebSocket(home, f"/v1/sandboxes/{sid}/exec/ws", sock=ask.connect()).status == 401
