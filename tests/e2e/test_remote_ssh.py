# SPDX-License-Identifier: Apache-2.0
"""Sandboxes of another machine as SSH hosts: the server's end is here, and what it asks for goes by the token's rights."""
import os
import subprocess
import threading

import pytest

from kit import Result, wait_for
from line_kit import Relay
from tcp_kit import serving, token
from test_ssh_server import digest, fetch, free_port, random_file
from tls_kit import Authority


class Far:
    """`skep ssh` and OpenSSH's clients with SKEP_HOST and a token of scope run for one sandbox."""

    def __init__(self, home):
        self.home = home
        self.sid = home.new("--name", "box")
        self.token = token(home, "--scope", "run", "--on", self.sid)

    def at(self, host, **more):
        home = self.home
        self.env = {"SKEP_HOST": host, "SKEP_TOKEN": self.token, "SKEP_HOME": f"{home.top}/elsewhere", **more}
        self.config = f"{home.top}/config"
        with open(self.config, "w", encoding="utf-8") as f:
            f.write(self.skep("ssh", "--config").ok().out)
        self.host = "box.skep." + host.split("://")[1].replace(":", ".")
        return self

    def skep(self, *args, **kw):
        return self.home.skep(*args, env=self.env, **kw)

    def popen(self, program, *args, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen([program, "-F", self.config, *args], cwd=self.home.dir, env={**self.home.env, **self.env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)

    def run(self, *args, program="ssh", stdin=None):
        p = self.popen(program, *args, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE)
        out, err = p.communicate(stdin, timeout=60)
        self.home.watch()
        return Result([program, *args], p.returncode, out, err)


@pytest.fixture
def far(home):
    there = Far(home)
    with serving(home) as port:
        yield there.at(f"http://127.0.0.1:{port}")


def test_commands_files_and_terminal(far, home, terminal):
    r = far.run(far.host, "echo out; echo err >&2; pwd; exit 7")
    assert (r.rc, r.out, r.err) == (7, "out\n/home/skep\n", "err\n")
    assert far.skep("ssh", "box", "--", "pwd").ok().line == home.dir
    blob = os.urandom(5 << 20)
    assert far.run(far.host, "cat", stdin=blob).ok().out_b == blob
    random_file(f"{home.dir}/a", 3 << 20)
    far.run("a", f"{far.host}:b", program="scp").ok()
    far.run(f"{far.host}:b", "c", program="scp").ok()
    assert digest(f"{home.dir}/a") == digest(f"{home.dir}/c")
    t = terminal("ssh", "box", env=far.env, rows=33, cols=77)
    t.send("stty size; echo mar''k\n")
    t.expect("33 77")
    t.expect("mark")
    t.send("exit 4\n")
    assert t.wait() == 4
    assert far.sid in [e.get("sandbox", far.sid) for e in home.journal("box") if e["type"] == "exec.start"]


def test_ports(far, home):
    port = free_port()
    far.skep("exec", "-d", "box", "--", "python3", "-m", "http.server", "-d", "/usr/share", "8123").ok()
    wait_for(lambda: [p for p in home.show("box")["ports"] if p["port"] == 8123], why="the server inside")
    p = far.popen("ssh", "-N", "-o", "ExitOnForwardFailure=yes", "-L", f"{port}:localhost:8123", far.host)

    def answers():
        try:
            return fetch(port)
        except OSError:
            return None

    assert b"doc" in wait_for(answers, why="the forward")
    results = []
    threads = [threading.Thread(target=lambda: results.append(fetch(port))) for _ in range(8)]
    for x in threads:
        x.start()
    for x in threads:
        x.join(30)
    assert len(results) == 8 and len(set(results)) == 1
    p.terminate()
    p.communicate(timeout=10)
    r = far.run("-o", "ExitOnForwardFailure=yes", "-W", "example.org:80", far.host)
    assert r.rc and "refused" in r.err


def test_it_holds_no_right_but_the_tokens(far, home):
    """No token, no socket, and no way to make a connection; what the token may not, ssh may not."""
    p = far.popen("ssh", far.host, "echo up; exec sleep 6321")
    assert p.stdout.read(3) == b"up\n"

    def servers():
        return [x for x in filter(str.isdigit, os.listdir("/proc")) if cmdline(x).startswith(f"skep-ssh\0--keys\0{home.top}/elsewhere/ssh\0--far\0".encode())]

    pid = servers()[0]
    assert b"skepd.sock" not in cmdline(pid) and far.env["SKEP_TOKEN"].encode() not in cmdline(pid)
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        status = dict(x.rstrip("\n").split(":\t", 1) for x in f if ":\t" in x)
    assert status["Seccomp"] == "2" and status["Seccomp_filters"] == "2"
    p.terminate()
    p.communicate(timeout=10)
    other = home.new("--empty", "--name", "other")
    r = far.run(far.host.replace("box.", f"{other}."), "true")
    assert r.rc and "token" in r.err, r.err
    far.env["SKEP_TOKEN"] = token(home, "--scope", "read")
    r = far.run(far.host, "true")
    assert r.rc and "scope" in r.err, r.err
    wait_for(lambda: not servers(), why="skep-ssh to end")


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read()
    except OSError:
        return b""


def test_blocks_of_two_machines_stand_beside_each_other(far, home):
    here = home.skep("ssh", "--config").ok().out
    with open(far.config, encoding="utf-8") as f:
        there = f.read()
    with open(far.config, "w", encoding="utf-8") as f:
        f.write(here + there)
    assert far.run("skep-box", "echo here").ok().line == "here"  # although SKEP_HOST is set
    assert far.run(far.host, "echo there").ok().line == "there"
    assert far.env["SKEP_TOKEN"] not in there


def test_code(far, home):
    editor = f"{home.top}/editor"
    with open(editor, "w", encoding="utf-8") as f:
        f.write('#!/bin/sh\necho "$@"\n')
    os.chmod(editor, 0o755)
    r = far.skep("code", "--yes", "--editor", editor, "box").ok()
    assert r.line == f"--remote ssh-remote+{far.host} {home.dir}"
    with open(f"{home.user_home}/.ssh/config", encoding="utf-8") as f:
        assert f.readline().startswith(f'Include "{home.top}/elsewhere/ssh/config-')
    assert far.run("-F", f"{home.user_home}/.ssh/config", far.host, "echo up").ok().line == "up"


def test_over_tls_and_a_line_that_is_cut(home, tmp_path):
    far = Far(home)
    os.mkdir(f"{tmp_path}/ca")
    os.chmod(tmp_path, 0o755)
    ca = Authority(f"{tmp_path}/ca")
    with serving(home, "--public-url", "https://localhost") as port, Relay(port, tls=ca.context("localhost")) as relay:
        far.at(f"https://localhost:{relay.port}", SKEP_CA=ca.pem)
        blob = os.urandom(3 << 20)
        assert far.run(far.host, "cat", stdin=blob).ok().out_b == blob
        p = far.popen("ssh", far.host, "trap 'echo bye > /tmp/hung' EXIT; echo up; cat; exit 1", stdin=subprocess.PIPE)
        assert p.stdout.read(3) == b"up\n"
        relay.cut_all()
        p.communicate(timeout=60)
        assert p.returncode
        wait_for(lambda: not home.skep("exec", "box", "--", "test", "-e", "/tmp/hung").rc, why="the command to notice")
