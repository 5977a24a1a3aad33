# SPDX-License-Identifier: Apache-2.0
"""Sandboxes as SSH hosts, seen by OpenSSH's own clients and by another implementation."""
import asyncio
import hashlib
import json
import os
import shlex
import signal
import socket
import subprocess
import tarfile
import time
import urllib.request

import asyncssh
import pytest

from kit import Result, wait_for

BIG = 100 << 20


class Ssh:
    """One sandbox, by the block that `skep ssh --config` prints."""

    def __init__(self, home, *new):
        self.home = home
        self.sid = home.new("--name", "box", *new)
        self.config = f"{home.top}/config"
        with open(self.config, "w", encoding="utf-8") as f:
            f.write(home.skep("ssh", "--config").ok().out)

    def popen(self, program, *args, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen([program, "-F", self.config, *args], cwd=self.home.dir, env=self.home.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)

    def run(self, *args, program="ssh", stdin=None, timeout=60):
        p = self.popen(program, *args, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE)
        try:
            out, err = p.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            p.kill()
            raise AssertionError(f"{program} {args}: still running\n{p.communicate()}") from None
        self.home.watch()
        assert b"Sanitizer" not in err, err.decode()  # of the server: ssh does not tell how that ended
        return Result([program, *args], p.returncode, out, err)

    def __call__(self, command, *options, **kw):
        return self.run(*options, "skep-box", command, **kw)

    def sftp(self, *lines):
        return self.run("-b", "-", "skep-box", program="sftp", stdin="\n".join(lines).encode())


@pytest.fixture
def ssh(home):
    return Ssh(home)


def servers(home):
    """The pids of skep-ssh. To others it belongs to root, since nobody may look into it."""
    found = []
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{p}/cmdline", "rb") as f:
                if f.read().startswith(f"skep-ssh\0--keys\0{home.skep_home}/ssh\0".encode()):
                    found.append(int(p))
        except OSError:
            pass
    return found


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def fetch(port, path="/"):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as r:
        return r.read()


def random_file(path, size, seed=b"x"):
    """The same bytes for the same seed: nothing that compresses."""
    with open(path, "wb") as f:
        block = hashlib.shake_256(seed).digest(1 << 20)
        for i in range(0, size, 1 << 20):
            f.write((i.to_bytes(8, "big") + block[8:])[: size - i])


def digest(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


# -- commands -------------------------------------------------------------------------------------------------
def test_commands(ssh, home):
    r = ssh("echo out; echo err >&2; pwd; exit 7")
    assert (r.rc, r.out, r.err) == (7, "out\n/home/skep\n", "err\n")  # as every SSH host
    assert home.skep("ssh", "box", "--", "pwd").ok().line == home.dir
    assert ssh("pwd", "-o", "SetEnv=SKEP_DIR=/usr/lib").ok().line == "/usr/lib"
    assert ssh("kill -9 $$").rc == 255  # as with any server: the client has no status for a signal
    assert ssh("no-such-command").rc == 127
    assert ssh("[[ a == a* ]] && echo bash").ok().line == "bash"  # the user's shell, not the plainest one
    assert ssh("cat", stdin=b"\0\xff bytes\r\n").ok().out_b == b"\0\xff bytes\r\n"
    assert ssh("printf 'caf\\351'").ok().out_b == b"caf\xe9"
    assert home.skep("ssh", "box", "--", "echo", "one  two").ok().out == "one two\n"
    assert home.skep("ssh", ssh.sid, "--", "exit 3").rc == 3
    assert ssh.run("box.skep", "id -un").ok().line == "skep"
    assert ssh("true", "-l", "no-such-user").rc == 125


def test_shell_without_terminal(ssh):
    assert ssh.run("-T", "skep-box", stdin=b"echo $((6*7))\nexit 5\n").rc == 5


def test_environment(ssh):
    env = {**ssh.home.env, "LC_TEST": "yes", "SECRET_THING": "no"}
    p = subprocess.run(["ssh", "-F", ssh.config, "-o", "SendEnv=LC_* SECRET_*", "skep-box", "env"], env=env, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=True)
    out = p.stdout.decode().splitlines()
    assert "LC_TEST=yes" in out and f"SKEP_SANDBOX={ssh.sid}" in out
    assert not [x for x in out if "SECRET_THING" in x or "SSH_AUTH_SOCK" in x]


def test_a_hundred_mebibytes_each_way(ssh, home):
    random_file(f"{home.top}/big", BIG)
    with open(f"{home.top}/big", "rb") as f, open(f"{home.top}/back", "wb") as out:
        p = subprocess.run(["ssh", "-F", ssh.config, "skep-box", "tee copy | cat"], stdin=f, stdout=out, env=home.env, timeout=120, check=True)
    assert p.returncode == 0 and digest(f"{home.top}/back") == digest(f"{home.top}/big")
    assert ssh("sha256sum < copy").ok().out.split()[0] == digest(f"{home.top}/big")


def test_a_slow_reader_makes_the_writer_wait(ssh):
    p = ssh.popen("ssh", "skep-box", "for i in $(seq 200); do head -c 1048576 /dev/zero; echo $i > d; mv d done; done")
    assert p.stdout.read(1) == b"\0"
    wait_for(lambda: ssh("cat done").line, why="the writer to begin")
    last = None
    while last != (now := int(ssh("cat done").ok().line)):  # it stands still once every buffer is full
        last = now
        time.sleep(0.3)
    assert last < 120  # what the cell keeps, and windows
    assert len(p.stdout.read()) == (200 << 20) - 1 and p.wait(10) == 0


def test_rekeying_loses_nothing(ssh, home):
    random_file(f"{home.top}/big", 20 << 20)
    with open(f"{home.top}/big", "rb") as f:
        p = subprocess.run(["ssh", "-F", ssh.config, "-o", "RekeyLimit=1M", "skep-box", "cat"], stdin=f, stdout=subprocess.PIPE, env=home.env, timeout=120, check=True)
    assert hashlib.sha256(p.stdout).hexdigest() == digest(f"{home.top}/big")


def test_a_closed_pipe_ends_the_command(ssh):
    p = subprocess.run(["sh", "-c", f"ssh -F {ssh.config} skep-box 'yes; echo status $? > after' | head -c 10"], env=ssh.home.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=30, check=True)
    assert p.stdout == b"y\ny\ny\ny\ny\n"
    wait_for(lambda: "status" in ssh("cat after").out, why="the command to notice")


# -- terminals ------------------------------------------------------------------------------------------------
def test_terminal(ssh, terminal):
    t = terminal("/usr/bin/ssh", "-F", ssh.config, "-tt", "skep-box", rows=33, cols=101)
    t.expect(r"\$ ")
    t.send("pwd; stty size; tty; echo $TERM\n")
    t.expect(f"{ssh.home.dir}\r\n33 101\r\n/dev/pts/[0-9]+\r\nxterm\r\n")
    t.resize(44, 120)
    t.send("stty size\n")
    t.expect("44 120")
    t.send("sleep 1000\n")
    wait_for(lambda: "sleep 1000" in ssh("ps -eo args").out, why="sleep")
    t.send("\x03")
    t.expect(r"\$ ")
    t.send("exit 9\n")
    assert t.wait() == 9 and t.restored()


def test_a_shell_by_skep_ssh(ssh, terminal):
    t = terminal("ssh", "box")
    t.expect(r"\$ ")
    t.send("exit 4\n")
    assert t.wait() == 4
    t = terminal("ssh", "-t", "box", "--", "tty")
    t.expect("/dev/pts/")
    assert t.wait() == 0


def test_a_lost_line_hangs_a_terminal_up(ssh, terminal):
    """Also when nothing on this side could say goodbye."""
    for kill in ("ssh", "skep-ssh"):
        t = terminal("/usr/bin/ssh", "-F", ssh.config, "-tt", "skep-box", "trap 'echo hup > hup' HUP; echo ready; while :; do sleep 0.1; done")
        t.expect("ready")
        victims = [t.proc.pid] if kill == "ssh" else servers(ssh.home)
        assert len(victims) == 1
        os.kill(victims[0], signal.SIGKILL)
        wait_for(lambda: ssh("cat hup").line == "hup", why=f"the hang-up after {kill} was killed")
        t.wait()
        ssh("rm hup; pkill -f 'trap .echo hup'")


def test_a_lost_line_leaves_a_command_that_needs_none(ssh):
    p = ssh.popen("ssh", "skep-box", "echo ready; cat; echo ended > ended", stdin=subprocess.PIPE)
    assert p.stdout.readline() == b"ready\n"
    p.kill()
    p.wait()
    wait_for(lambda: ssh("cat ended").line == "ended", why="the end of its input")


# -- many channels on one connection -----------------------------------------------------------------------------
def test_multiplexing(ssh, home):
    path = f"{home.top}/mux"
    master = ssh.popen("ssh", "-M", "-S", path, "-N", "skep-box")
    wait_for(lambda: os.path.exists(path), why="the master")
    many = [ssh.popen("ssh", "-S", path, "skep-box", f"head -c 2000000 /dev/zero; echo {i}; exit {i}") for i in range(10)]
    for i, p in enumerate(many):
        out, err = p.communicate(timeout=60)
        assert (p.returncode, out[2000000:]) == (i, f"{i}\n".encode()), err
    assert len(servers(home)) == 1
    slow = ssh.popen("ssh", "-S", path, "skep-box", "sleep 1000")
    wait_for(lambda: "sleep 1000" in ssh("ps -eo args").out, why="sleep")
    slow.terminate()  # one of them goes, the others stay
    slow.wait()
    assert ssh("echo still here", "-S", path).ok().line == "still here"
    master.terminate()
    master.wait()
    ssh("pkill sleep")


def proxied(ssh):
    return asyncssh.connect("skep-box", username="skep", config=None, client_keys=None, agent_path=None, password=None, known_hosts=f"{ssh.home.skep_home}/ssh/known_hosts",
                            host_key_alias="skep", proxy_command=["env", *(f"{k}={v}" for k, v in ssh.home.env.items()), f"{ssh.home.programs}/skep", "ssh", "--proxy", "skep-box"])


def test_signals_and_another_client(ssh):
    async def session():
        async with proxied(ssh) as c:
            p = await c.create_process("trap 'echo got usr1' USR1; echo ready; while :; do sleep 0.1; done")
            assert await p.stdout.readline() == "ready\n"
            p.send_signal("USR1")
            assert await p.stdout.readline() == "got usr1\n"
            p.send_signal("KILL")
            r = await p.wait()
            assert r.exit_signal[0] == "KILL"
            assert (await c.run("exit 6")).exit_status == 6
            r = await c.run("cat", input="x" * 1000000)
            assert r.stdout == "x" * 1000000
            async with c.start_sftp_client() as f:
                await f.makedirs("deep/er")
                async with f.open("deep/er/file", "w") as h:
                    await h.write("hello")
                assert await f.listdir("deep/er") and (await f.stat("deep/er/file")).size == 5
                await f.rmtree("deep")
            with pytest.raises(asyncssh.ChannelOpenError):
                await c.create_session(asyncssh.SSHClientSession, subsystem="no-such")

    asyncio.run(asyncio.wait_for(session(), 60))


# -- files ------------------------------------------------------------------------------------------------------
def test_sftp(ssh, home):
    random_file(f"{home.top}/big", 30 << 20)
    put = ssh.sftp("pwd", f"put {home.top}/big big", "chmod 640 big", "ln -s big link", "mkdir d", "rename big d/big2", "ls -la", "ls -l d", "df").ok()
    assert "/home/skep" in put.out and "-rw-r-----" in put.out and "lrwxrwxrwx" in put.out
    assert ssh("sha256sum < d/big2; readlink link; stat -c %a d/big2").ok().out.split()[::2] == [digest(f"{home.top}/big"), "big"]
    ssh.sftp(f"get d/big2 {home.top}/back").ok()
    assert digest(f"{home.top}/back") == digest(f"{home.top}/big")
    ssh.sftp("rm d/big2", "rm link", "rmdir d").ok()
    for line in ("get no-such", "rm /etc/passwd", f"put {home.top}/back /proc/x", "mkdir /usr/x", "ls no-such", "chmod 777 /etc"):
        assert ssh.sftp(line).rc == 1, line
    assert ssh("ls").ok().out == ""


def test_sftp_resumes(ssh, home):
    random_file(f"{home.top}/all", 8 << 20)
    ssh("head -c 3000001 > up", stdin=open(f"{home.top}/all", "rb").read()).ok()
    ssh.sftp(f"reput {home.top}/all up").ok()
    assert ssh("sha256sum < up").ok().out.split()[0] == digest(f"{home.top}/all")
    with open(f"{home.top}/all", "rb") as f, open(f"{home.top}/down", "wb") as g:
        g.write(f.read(3000001))
    ssh.sftp(f"reget up {home.top}/down").ok()
    assert digest(f"{home.top}/down") == digest(f"{home.top}/all")


@pytest.mark.parametrize("mode", [[], ["-O"]], ids=["sftp", "legacy"])
def test_scp(ssh, home, mode):
    os.makedirs(f"{home.top}/tree/sub dir")
    random_file(f"{home.top}/tree/sub dir/a b", 3 << 20)
    os.chmod(f"{home.top}/tree/sub dir/a b", 0o750)
    ssh.run(*mode, "-p", "-r", f"{home.top}/tree", "skep-box:", program="scp").ok()
    assert ssh("stat -c '%a %s' 'tree/sub dir/a b'").ok().line == f"750 {3 << 20}"
    ssh.run(*mode, "-r", "skep-box:tree", f"{home.top}/again", program="scp").ok()
    assert digest(f"{home.top}/again/sub dir/a b") == digest(f"{home.top}/tree/sub dir/a b")
    assert ssh.run(*mode, "skep-box:no-such", f"{home.top}/x", program="scp").rc != 0
    ssh("echo in home > ~/note").ok()
    ssh.run(*mode, "skep-box:~/note", f"{home.top}/note", program="scp").ok()
    ssh.run(*mode, f"{home.top}/note", f"skep-box:{home.dir}/", program="scp").ok()
    assert home.skep("ssh", "box", "--", "cat note").ok().line == "in home"


# -- ports ------------------------------------------------------------------------------------------------------
def serve_inside(ssh):
    xid = ssh.home.skep("exec", "-d", ssh.sid, "--", "python3", "-m", "http.server", "--directory", "/home/skep", "--bind", "127.0.0.1", "8123").ok().line
    wait_for(lambda: ssh("curl -s http://127.0.0.1:8123/").rc == 0, why="the server inside")
    return xid


def test_forward_to_a_port_inside(ssh, home):
    ssh("head -c 20000000 /dev/urandom > file; echo hello > index.html").ok()
    serve_inside(ssh)
    want = ssh("sha256sum < file").ok().out.split()[0]
    port, closed, foreign = free_port(), free_port(), free_port()
    p = ssh.popen("ssh", "-N", "-L", f"{port}:localhost:8123", "-L", f"{closed}:localhost:9", "-L", f"{foreign}:192.0.2.1:80", "skep-box")
    wait_for(lambda: not socket.socket().connect_ex(("127.0.0.1", foreign)), why="the listeners")
    for _ in range(20):
        assert fetch(port) == b"hello\n"
    assert hashlib.sha256(fetch(port, "/file")).hexdigest() == want
    for bad in (closed, foreign):
        with pytest.raises(OSError):
            fetch(bad)
    p.terminate()
    err = p.communicate()[1].decode()
    assert "nothing listens on port 9" in err and "192.0.2.1:80 is refused" in err


def test_no_way_back(ssh):
    r = ssh("true", "-o", "ExitOnForwardFailure=yes", "-R", "0:localhost:1")
    assert r.rc == 255 and "-R is refused" in r.err
    # asked for by force, against the block's own words
    agent = f"{ssh.home.top}/agent"
    a = subprocess.Popen(["ssh-agent", "-D", "-a", agent], stdout=subprocess.DEVNULL)
    wait_for(lambda: os.path.exists(agent), why="the agent")
    try:
        r = ssh.run("-o", "ForwardAgent=yes", "-o", f"IdentityAgent={agent}", "-A", "skep-box", "echo agent=$SSH_AUTH_SOCK; ls -d /tmp/ssh-*")
        assert r.out == "agent=\n"
        env = {**ssh.home.env, "DISPLAY": ":77"}
        p = subprocess.run(["ssh", "-F", ssh.config, "-X", "skep-box", "echo display=$DISPLAY"], env=env, capture_output=True, stdin=subprocess.DEVNULL, check=True)
        assert p.stdout == b"display=\n"
    finally:
        a.terminate()
        a.wait()


# -- an editor ----------------------------------------------------------------------------------------------------
SERVER = """
import http.server, os
s = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
open("port.tmp", "w").write(str(s.server_port))
os.rename("port.tmp", "port")
s.serve_forever()
"""


def test_the_way_an_editor_starts_its_server(ssh, home):
    """VS Code Remote-SSH: look at the machine, a script on bash's stdin, an upload, a server that outlives the channel, a
    forward to the port it found; and all that again after the connection was lost."""
    probe = ssh.run("-T", "skep-box", "uname -rsv")
    assert probe.ok().out.startswith("Linux")
    with open(f"{home.top}/server.py", "w", encoding="utf-8") as f:
        f.write(SERVER)
    with tarfile.open(f"{home.top}/server.tar.gz", "w:gz") as t:
        t.add(f"{home.top}/server.py", "server.py")
    with open(f"{home.top}/server.tar.gz", "rb") as f:
        ssh("mkdir -p ~/.editor && tar -xzf - -C ~/.editor", stdin=f.read()).ok()
    script = """
        cd ~/.editor
        if [ -f pid ] && kill -0 $(cat pid) 2>/dev/null; then echo running; else
            nohup python3 server.py </dev/null >log 2>&1 &
            echo $! > pid
            while [ ! -f port ]; do sleep 0.05; done
            echo started
        fi
        echo "port==$(cat port)=="
        """
    seen = []
    for _ in range(2):
        local = free_port()
        p = ssh.popen("ssh", "-T", "-D", str(local), "skep-box", "bash", stdin=subprocess.PIPE)
        p.stdin.write(script.encode())
        p.stdin.flush()
        seen.append(p.stdout.readline())
        port = int(p.stdout.readline().decode().split("==")[1])
        out = subprocess.run(["curl", "-sf", "--socks5-hostname", f"127.0.0.1:{local}", f"http://127.0.0.1:{port}/"], stdout=subprocess.PIPE, check=True).stdout
        assert b"server.py" in out
        p.kill()  # the network is gone
        p.wait()
    assert seen == [b"started\n", b"running\n"]


# -- the block and what it needs ------------------------------------------------------------------------------------
def test_config(ssh, home):
    keys = f"{home.skep_home}/ssh"
    assert os.stat(f"{keys}/host_key").st_mode & 0o777 == 0o600 and os.stat(keys).st_mode & 0o777 == 0o700
    before = digest(f"{keys}/host_key")
    assert "Host skep-box\n" in home.skep("ssh", "--config", ssh.sid).ok().out
    home.skep("ssh", "--config", "no-such").fails(125, "no-such")
    assert digest(f"{keys}/host_key") == before
    r = ssh.run("skep-no-such", "true")
    assert r.rc == 255 and "no-such" in r.err
    # another host key is noticed
    os.remove(f"{keys}/host_key")
    with open(f"{keys}/known_hosts", encoding="utf-8") as f:
        known = f.read()
    home.skep("ssh", "box", "--", "true").ok()
    with open(f"{keys}/known_hosts", "w", encoding="utf-8") as f:
        f.write(known)
    assert "HOST IDENTIFICATION HAS CHANGED" in ssh("true").err
    os.chmod(f"{keys}/host_key", 0o644)
    assert "can be read by others" in ssh("true").err


def test_stopped_and_paused_sandboxes_wake_up(ssh, home):
    home.skep("stop", ssh.sid).ok()
    assert ssh("echo awake").ok().line == "awake"
    home.skep("pause", ssh.sid).ok()
    assert ssh.sftp("pwd").ok()
    home.skep("stop", ssh.sid).ok()
    assert ssh.sftp("pwd").ok()


def test_a_sandbox_that_goes_ends_its_connections(ssh, home):
    p = ssh.popen("ssh", "skep-box", "echo ready; sleep 1000")
    assert p.stdout.readline() == b"ready\n"
    home.skep("stop", ssh.sid).ok()
    assert p.wait(20) in (125, 255)


def test_it_serves_no_network_and_no_terminal(ssh, home, terminal):
    t = terminal("ssh", "--proxy", "box")
    t.expect("use `skep ssh ID`")
    assert t.wait() == 1
    a = socket.create_server(("127.0.0.1", 0))
    c = socket.create_connection(a.getsockname())
    s, _ = a.accept()
    p = home.popen("ssh", "--proxy", "box", stdin=s, stdout=s)
    assert b"does not serve network" in p.communicate()[1] and p.returncode == 1
    for x in (a, c, s):
        x.close()


def test_it_is_sealed(ssh, home):
    p = ssh.popen("ssh", "skep-box", "echo ready; sleep 1000", stdin=subprocess.PIPE)
    assert p.stdout.readline() == b"ready\n"
    pid = servers(home)[0]
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        status = dict(x.split(":\t", 1) for x in f.read().splitlines() if ":\t" in x)
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    p.kill()
    p.wait()
    ssh("pkill sleep")


def test_junk_instead_of_ssh(ssh, home):
    for junk in (b"", b"GET / HTTP/1.0\r\n\r\n", b"SSH-2.0-x\r\n" + bytes(range(256)) * 300, b"SSH-1.5-old\r\n", os.urandom(100000)):
        p = home.popen("ssh", "--proxy", "box", stdin=subprocess.PIPE)
        try:
            out, _ = p.communicate(junk, timeout=20)
        except BrokenPipeError:
            p.wait(20)
            continue
        assert p.returncode >= 0, "it died"
        assert out.startswith(b"SSH-2.0-") or not out
    assert ssh("echo well").ok().line == "well"


def test_skepd_may_be_started_anew(ssh, home):
    p = ssh.popen("ssh", "-T", "skep-box", "cat", stdin=subprocess.PIPE)
    p.stdin.write(b"one\n")
    p.stdin.flush()
    assert p.stdout.readline() == b"one\n"
    home.kill_skepd()
    p.stdin.write(b"two\n")
    p.stdin.flush()
    assert p.stdout.readline() == b"two\n"
    p.stdin.close()
    assert p.wait(20) == 0
    assert ssh("echo again").ok().line == "again"


@pytest.mark.slow
def test_root_inside(home):
    ssh = Ssh(home, "--root")
    assert ssh("id -un").ok().line == "root"
    assert ssh("id -un", "-l", "nobody").ok().line == "nobody"
    r = ssh.run("-b", "-", "nobody@skep-box", program="sftp", stdin=b"mkdir /etc/by-nobody")
    assert r.rc == 1
    ssh.sftp("mkdir /etc/by-root").ok()


# -- skep code ----------------------------------------------------------------------------------------------------
def fake_editor(home):
    os.mkdir(f"{home.top}/bin")
    path = f"{home.top}/bin/code"
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"#!/usr/bin/env python3\nimport json, sys\njson.dump(sys.argv[1:], open({home.top + '/called'!r}, 'w'))\n")
    os.chmod(path, 0o755)
    return {"PATH": f"{home.top}/bin:{home.env['PATH']}"}


def test_code(home, terminal):
    sid = home.new("--name", "box")
    r = home.skep("code", "box").fails(8, "code", "not installed")
    assert not os.path.exists(f"{home.user_home}/.ssh") and r.out == ""
    env = fake_editor(home)
    home.skep("code", "box", env=env).fails(4, "--yes", "Include")
    assert not os.path.exists(f"{home.user_home}/.ssh") and not os.path.exists(f"{home.top}/called")
    os.mkdir(f"{home.user_home}/.ssh", 0o700)
    mine = "Host other\n\tUser me\n"
    with open(f"{home.user_home}/real", "w", encoding="utf-8") as f:
        f.write(mine)
    os.chmod(f"{home.user_home}/real", 0o640)
    os.symlink("../real", f"{home.user_home}/.ssh/config")
    t = terminal("code", "box", env=env)
    t.expect(r"\? \[y/N\] ")
    t.send("y\n")
    assert t.wait() == 0
    with open(f"{home.top}/called", encoding="utf-8") as f:
        assert json.load(f) == ["--remote", "ssh-remote+skep-box", home.dir]
    line = f'Include "{home.skep_home}/ssh/config"\n'
    for _ in range(2):
        with open(f"{home.user_home}/.ssh/config", encoding="utf-8") as f:
            assert f.read() == f"{line}\n{mine}"
        home.skep("code", "--yes", sid, "/tmp", env=env).ok()
    assert os.path.islink(f"{home.user_home}/.ssh/config") and os.stat(f"{home.user_home}/real").st_mode & 0o777 == 0o640
    with open(f"{home.top}/called", encoding="utf-8") as f:
        assert json.load(f)[2] == "/tmp"
    out = subprocess.run(["ssh", "-F", f"{home.user_home}/.ssh/config", "skep-box", "echo", shlex.quote("by include")], env=home.env, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=True)
    assert out.stdout == b"by include\n"
