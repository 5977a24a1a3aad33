# SPDX-License-Identifier: Apache-2.0
"""ssh keys that stay outside: an agent inside whose keys the gate has, against real servers."""
import contextlib
import getpass
import os
import signal
import socket
import subprocess
import threading

import pytest

from kit import IS_ROOT, wait_for
from net_kit import PYTHON, Cell
from test_secrets import SEARCH, sh

USER = getpass.getuser()
SOCKET = "/run/lock/skep-ssh-agent"


def keygen(path, *options):
    subprocess.run(["ssh-keygen", "-q", "-N", "", "-C", "test", *options, "-f", path], check=True, stdin=subprocess.DEVNULL)
    return path


def read(path):
    with open(path, "rb") as f:
        return f.read()


class Sshd:
    """Lets the tests' own user in, with the keys it is given."""

    def __init__(self, d, name, *public, host=("-t", "ed25519")):
        self.dir = f"{d}/{name}"
        os.mkdir(self.dir)
        keygen(f"{self.dir}/host", *host)
        with open(f"{self.dir}/authorized", "wb") as f:
            f.write(b"".join(read(p + ".pub") for p in public))
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        with open(f"{self.dir}/conf", "w", encoding="utf-8") as f:
            f.write(f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {self.dir}/host\nPidFile none\nUsePAM no\nStrictModes no\n"
                    f"AuthorizedKeysFile {self.dir}/authorized\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n")
        if IS_ROOT:
            os.makedirs("/run/sshd", exist_ok=True)
        self.log = open(f"{self.dir}/log", "wb")  # pylint: disable=consider-using-with
        self.p = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", f"{self.dir}/conf"], stdin=subprocess.DEVNULL, stderr=self.log, stdout=self.log)
        wait_for(self.answers, why="sshd")

    def answers(self):
        assert self.p.poll() is None, read(f"{self.dir}/log")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 2) as c:
            return c.recv(4) == b"SSH-"

    def accepted(self):
        return read(f"{self.dir}/log").count(b"Accepted publickey")

    def close(self):
        self.p.terminate()
        self.p.wait(10)
        self.log.close()


@pytest.fixture
def servers(home):
    made = []

    def make(*args, **kw):
        made.append(Sshd(f"{home.top}", *args, **kw))
        return made[-1]
    yield make
    for s in made:
        s.close()


def set_key(home, name, path, where):
    return home.skep("secret", "set", name, "--host", where, "--as", "ssh", stdin=read(path))


@pytest.fixture
def world(home, servers):
    """A key, a server it is bound to, another one that would take it too, and a cell that may reach both."""
    class World:
        key = keygen(f"{home.top}/id", "-t", "ed25519")
        server = servers("git", key)
        other = servers("other", key)
    set_key(home, "KEY", World.key, f"git.test:{World.server.port}").ok()
    World.cell = Cell(home, "--secret", "KEY", "--allow", f"git.test:{World.server.port}=127.0.0.1", "--allow", f"other.test:{World.other.port}=127.0.0.1")
    return World


def ssh(cell, server, host="git.test", *options, command="echo in"):
    words = " ".join(options)
    return sh(cell, f"ssh -o ConnectTimeout=10 -o BatchMode=yes {words} -p {server.port} {USER}@{host} {command}")


def test_git_clone(home, world, project):
    """Nothing of the key is inside, nothing was set up there, and the clone works; pushing back too."""
    cell = world.cell
    assert sh(cell, "echo $SSH_AUTH_SOCK").ok().out.strip() == SOCKET
    r = sh(cell, f"git clone -q ssh://{USER}@git.test:{world.server.port}{project}/.git /tmp/clone && cat /tmp/clone/README")
    assert r.out == "a small project\n", r.err
    r = sh(cell, "cd /tmp/clone && git checkout -qb from-inside && git -c user.name=x -c user.email=x@x commit -q --allow-empty -m x && git push -q origin from-inside")
    assert r.rc == 0, r.err
    assert "from-inside" in subprocess.run(["git", "-C", project, "branch"], stdout=subprocess.PIPE, check=True).stdout.decode()
    used = cell.events("secret.used", secret="KEY")
    assert len(used) == 2 and used[0]["name"] == "git.test" and used[0]["port"] == world.server.port and used[0]["user"] == USER, used
    assert used[0].get("command") in ("ssh", None) and len(used[0]["host_key_sha256"]) == 64
    # not in any file, variable or process inside
    line = read(world.key).split(b"\n")[2].decode()
    assert eval(home.skep("exec", cell.id, "--", PYTHON, "-I", "-c", SEARCH, line[::-1]).ok().out) == []  # pylint: disable=eval-used
    assert "KEY" not in [x.partition("=")[0] for x in sh(cell, "env").ok().out.splitlines()]


def test_another_host_gets_no_signature(world):
    """It may be reached, and would take the key."""
    direct = subprocess.run(["ssh", "-F", "/dev/null", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-i", world.key,
                             "-p", str(world.other.port), f"{USER}@127.0.0.1", "echo in"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert direct.stdout == b"in\n", direct.stderr  # the control
    r = ssh(world.cell, world.other, "other.test")
    assert r.rc == 255 and "Permission denied" in r.err
    assert not world.cell.events("secret.used") and world.other.accepted() == 1
    assert ssh(world.cell, world.server).ok().out == "in\n"


# What an attacker inside would say to the agent; the number in front of each answer is its type.
AGENT = r"""
import base64, socket, struct, sys
def text(b): return struct.pack(">I", len(b)) + b
def ask(s, body):
    s.sendall(text(body))
    n = struct.unpack(">I", s.recv(4, socket.MSG_WAITALL))[0]
    return s.recv(n, socket.MSG_WAITALL)
def login(session, blob, user=b"root", alg=b"ssh-ed25519"):
    return text(session) + b"\x32" + text(user) + text(b"ssh-connection") + text(b"publickey") + b"\1" + text(alg) + text(blob)
s = socket.socket(socket.AF_UNIX)
s.connect("/run/lock/skep-ssh-agent")
keys = ask(s, b"\x0b")
count = struct.unpack(">I", keys[1:5])[0]
blob = keys[9:9 + struct.unpack(">I", keys[5:9])[0]] if count else b""
def sign(data, flags=0, key=None): return ask(s, b"\x0d" + text(key if key is not None else blob) + text(data) + struct.pack(">I", flags))[0]
"""


def test_only_logins_of_its_own_sessions(home, world):
    cell = world.cell
    hold = home.popen("exec", cell.id, "--", "sh", "-c", f"ssh -o BatchMode=yes -p {world.server.port} {USER}@git.test 'echo in; sleep 60'")
    try:
        assert hold.stdout.readline() == b"in\n"
        said = cell.tries(AGENT + r"""
other = text(b"ssh-ed25519") + text(b"x" * 32)
say([count, sign(b"anything"), sign(b"SSHSIG" + text(b"git") + text(b"") + text(b"sha512") + text(b"h" * 64)),
     sign(login(b"s" * 32, blob)), sign(login(b"s" * 32, blob) + b"x"), sign(login(b"s" * 32, other)), sign(login(b"s" * 32, blob), key=other),
     ask(s, b"\x11" + text(blob))[0], ask(s, b"\x09")[0], ask(s, b"\x1b" + text(b"session-bind@openssh.com") + text(other) + text(b"s" * 32) + text(b"") + b"\0")[0]])
""")
        assert said == [1] + [5] * 9, said
        why = {e["why"] for e in cell.events("denied", what="secret")}
        assert why == {"not a login of ssh with this key", "no connection of this sandbox to that host has this session", "this sandbox has no such key"}, why
        # what it can not read it does not answer, and others are served on
        assert cell.tries(AGENT + "s.sendall(b'\\xff\\xff\\xff\\xff'); say(s.recv(1) == b''); s = socket.socket(socket.AF_UNIX); s.connect('" + SOCKET + "'); say(ask(s, b'\\x0b')[0])") == [True, 12]
        assert len(cell.events("secret.used")) == 1
    finally:
        hold.send_signal(signal.SIGKILL)
        hold.wait()
    assert ssh(cell, world.server).ok().out == "in\n"


# From a client outside to the agent inside. The extension that would tell whose session it is about stays out.
RELAY = r"""
import socket, struct, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
def put(b): sys.stdout.buffer.write(b); sys.stdout.buffer.flush()
while head := sys.stdin.buffer.read(4):
    body = sys.stdin.buffer.read(struct.unpack(">I", head)[0])
    if body[0] == 27:
        put(b"\0\0\0\1\x05")
        continue
    s.sendall(head + body)
    head = s.recv(4, socket.MSG_WAITALL)
    put(head + s.recv(struct.unpack(">I", head)[0], socket.MSG_WAITALL))
"""


def test_the_agent_is_of_no_use_outside(home, world):
    """A client that does not go through the gate, to the bound host itself, with the agent carried out to it, while a
    connection of the sandbox to that host is open."""
    cell, path = world.cell, f"{home.top}/carried"
    hold = home.popen("exec", cell.id, "--", "sh", "-c", f"ssh -o BatchMode=yes -p {world.server.port} {USER}@git.test 'echo in; sleep 60'")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(4)
    asked = []

    def serve():
        with contextlib.suppress(OSError):
            while True:
                c, _ = listener.accept()
                p = home.popen("exec", "-i", cell.id, "--", PYTHON, "-I", "-c", RELAY, SOCKET, stdin=c.fileno(), stdout=c.fileno())
                asked.append(p)
                c.close()
    threading.Thread(target=serve, daemon=True).start()
    try:
        assert hold.stdout.readline() == b"in\n"
        r = subprocess.run(["ssh", "-F", "/dev/null", "-v", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
                            "-o", f"IdentityAgent={path}", "-o", "IdentitiesOnly=yes", "-i", world.key + ".pub", "-p", str(world.server.port), f"{USER}@127.0.0.1", "echo in"],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30, check=False)
        assert r.returncode == 255 and b"Permission denied" in r.stderr, r.stderr
        assert cell.event("denied", what="secret")["why"] == "no connection of this sandbox to that host has this session"
        assert len(cell.events("secret.used")) == 1 and world.server.accepted() == 1
    finally:
        hold.send_signal(signal.SIGKILL)
        hold.wait()
        listener.close()
        for p in asked:
            p.kill()
            p.wait()


def test_a_life(home, world):
    """Revoked at once and given back; in a cell that had none before; after the gate's and the cell's end; in cells that
    are made for one command."""
    cell, where = world.cell, f"git.test:{world.server.port}"
    assert ssh(cell, world.server).ok().out == "in\n"
    home.skep("secret", "rm", "KEY").ok()
    r = ssh(cell, world.server)
    assert r.rc == 255 and "Permission denied" in r.err
    assert cell.tries(AGENT + "say(count)") == 0
    set_key(home, "KEY", world.key, where).ok()
    assert ssh(cell, world.server).ok().out == "in\n"
    os.kill(cell.gate()[0], signal.SIGKILL)
    wait_for(lambda: not cell.gate(), why="the gate's end")
    assert ssh(cell, world.server).ok().out == "in\n"
    home.skep("stop", cell.id).ok()
    home.skep("start", cell.id).ok()
    assert ssh(cell, world.server).ok().out == "in\n"
    late = Cell(home, "--allow", f"{where}=127.0.0.1")
    assert ssh(late, world.server).rc == 255
    late.set("--secret", "KEY")
    assert ssh(late, world.server).ok().out == "in\n"
    for _ in range(3):
        r = home.skep("run", "--empty", "--secret", "KEY", "--allow", f"{where}=127.0.0.1", "--", "ssh", "-o", "BatchMode=yes", "-p", str(world.server.port), f"{USER}@git.test", "echo in")
        assert r.ok().out == "in\n"


KINDS = {
    "ecdsa": (("-t", "ecdsa", "-b", "384"), ("-t", "ecdsa")),
    "ecdsa-521-pkcs8": (("-t", "ecdsa", "-b", "521", "-m", "PKCS8"), ("-t", "ecdsa", "-b", "521")),
    "rsa": (("-t", "rsa", "-b", "3072"), ("-t", "rsa", "-b", "3072")),
    "rsa-pem": (("-t", "rsa", "-b", "2048", "-m", "PEM"), ("-t", "ed25519")),
}


def test_kinds_of_keys(home, servers):
    """Client's and host's, with and without the forms of OpenSSH's own."""
    made = {}
    for kind, (client, host) in KINDS.items():
        key = keygen(f"{home.top}/key-{kind}", *client)
        made[kind] = servers(kind, key, host=host)
        set_key(home, kind.upper().replace("-", "_"), key, f"{kind}.test:{made[kind].port}").ok()
    options = [x for k, s in made.items() for x in ("--secret", k.upper().replace("-", "_"), "--allow", f"{k}.test:{s.port}=127.0.0.1")]
    cell = Cell(home, *options)
    for kind, s in made.items():
        for options in ((), ("-o PubkeyAuthentication=unbound",), ("-o KexAlgorithms=diffie-hellman-group-exchange-sha256",)):
            r = ssh(cell, s, f"{kind}.test", *options)
            assert r.out == "in\n", (kind, options, r.err)
    assert len(cell.events("secret.used")) == 3 * len(made)


def test_what_is_no_key_is_refused(home):
    key = keygen(f"{home.top}/plain", "-t", "ed25519")
    sealed = keygen(f"{home.top}/sealed", "-t", "ed25519", "-N", "word")
    pem = keygen(f"{home.top}/pem", "-t", "rsa", "-m", "PEM", "-N", "words")
    pkcs8 = keygen(f"{home.top}/pkcs8", "-t", "ecdsa", "-m", "PKCS8", "-N", "words")
    for path in (sealed, pem, pkcs8):
        set_key(home, "K", path, "git.test").fails(2, "passphrase", "ssh-keygen -p")
    set_key(home, "K", key + ".pub", "git.test").fails(2, "public key")
    home.skep("secret", "set", "K", "--host", "git.test", "--as", "ssh", stdin=read(key)[:200]).fails(2, "damaged")
    home.skep("secret", "set", "K", "--host", "git.test", "--as", "ssh", stdin=b"hello\n").fails(2, "no private key")
    home.skep("secret", "set", "K", "--host", "git.test", "--as", "bearer", stdin=read(key)).fails(2, "control character")
    set_key(home, "K", key, "git.test").ok()
    (row,) = home.skep("secret", "ls", "--json").json()["secrets"]
    assert row["port"] == 22 and row["as"] == "ssh"
