# SPDX-License-Identifier: Apache-2.0
"""sudo in a sandbox with a root of its own: what it does, and that it gives nothing but what that root is."""
import re

import pytest

from kit import ROOT, Terminal, World, wait_for

USER = "1000"


@pytest.fixture(scope="module")
def box(programs):
    """One sandbox for all: nothing here depends on what another test did."""
    w = World(programs)
    w.box = w.new("--root", "--name", "sudo")
    yield w
    w.close()


@pytest.fixture
def sh(box):
    def run(script, user=USER, **more):
        return box.skep("exec", "--user", user, box.box, "--", "bash", "-c", script, **more)
    return run


@pytest.fixture
def python(sh):
    return lambda code, then="", **more: sh(f"python3 - <<'CODE'\n{code}\nCODE\n{then}", **more)


def test_runs_as_root_with_streams_status_and_directory(sh):
    r = sh("cd /tmp && umask 027 && echo in | sudo sh -c 'id -u; pwd; umask; cat; echo no >&2; exit 7'")
    assert (r.rc, r.out.split(), r.err.strip()) == (7, ["0", "/tmp", "0027", "in"], "no")
    assert sh("sudo apt-get --version").ok().out.startswith("apt ")
    assert sh("sudo sh -c 'kill -TERM $$'; echo $?").ok().line == "143"
    r = sh("sudo nothing-of-that-name")
    assert r.rc == 1 and "sudo: nothing-of-that-name: command not found" in r.err
    assert sh("command -v sudo; sudo sudo -n sudo id -u").ok().out.split() == ["/usr/local/bin/sudo", "0"]


def test_environment(sh):
    keep = "export A=1 B=2 LC_ALL=C; "
    got = dict(x.split("=", 1) for x in sh(keep + "sudo env").ok().out.splitlines())
    assert "A" not in got and got["LC_ALL"] == "C" and got["HOME"] == "/root" and got["USER"] == got["LOGNAME"] == "root"
    assert got["SUDO_UID"] == got["SUDO_GID"] == USER and got["SUDO_COMMAND"] == "env" and got["PATH"].startswith("/usr/local/sbin:")
    assert got["SKEP_EXEC"]
    assert sh(keep + "sudo -E sh -c 'echo $A$B'").ok().line == "12"
    assert sh(keep + "sudo --preserve-env=B sh -c 'echo $A$B'").ok().line == "2"
    assert sh("sudo C=3 -n D='x y' sh -c 'echo $C $D'").ok().line == "3 x y"


def test_other_users_and_shells(sh):
    assert sh("sudo -u nobody id -un").ok().line == "nobody"
    assert sh("sudo -u '#65534' id -u; sudo --user=nobody -- id -u").ok().out.split() == ["65534", "65534"]
    assert sh(f"sudo -u '#{USER}' id -u", user="0").ok().line == USER
    assert sh("sudo -u no-such-user true").rc == 1
    assert sh("cd /; sudo -i pwd; sudo -i echo '$HOME'; sudo -s echo 'a  b;c'").ok().out.splitlines() == ["/root", "/root", "a  b;c"]
    assert sh("sudo -D /usr pwd").ok().line == "/usr"


def test_the_rest_of_its_options(sh):
    assert "NOPASSWD: ALL" in sh("sudo -l").ok().out
    sh("sudo -v && sudo -k && sudo -K && sudo -kn true && sudo -S -p '' true </dev/null").ok()
    assert sh("sudo -h").ok().out.startswith("usage: sudo")
    for bad in ("sudo", "sudo -g root true", "sudo -e /etc/passwd", "sudo -u", "sudo --no-such", "sudo -R / true"):
        r = sh(bad)
        assert r.rc == 1 and r.err.startswith("sudo: "), bad


def test_signals_reach_the_command(sh):
    r = sh("sudo bash -c 'trap \"echo got; exit 5\" USR1; echo ready; while :; do sleep 0.05; done' >/tmp/said & p=$!\n"
           "until grep -q ready /tmp/said; do sleep 0.05; done; kill -USR1 $p; wait $p; echo $?; cat /tmp/said")
    assert r.ok().out.split() == ["5", "ready", "got"]


def test_who_is_killed_leaves_nothing_behind(box, sh):
    """An exec's tree is its command's too, though that is pid 1's child; without a tree to kill, the line is lost."""
    r = sh("sudo sleep 4242 & p=$!; until pgrep -fx 'sleep 4242' >/dev/null; do sleep 0.05; done; kill -KILL $p; wait $p\n"
           "while pgrep -fx 'sleep 4242' >/dev/null; do sleep 0.05; done; echo gone", timeout=30)
    assert r.ok().line == "gone"
    exec_id = box.skep("exec", "-d", "--user", USER, box.box, "--", "sudo", "sleep", "4343").ok().line
    look = ("exec", box.box, "--", "pgrep", "-fx", "sleep 4343")
    wait_for(lambda: box.skep(*look).rc == 0, why="the command")
    box.skep("kill", exec_id).ok()
    wait_for(lambda: box.skep(*look).rc == 1, why="its end")


def test_a_terminal(box):
    t = Terminal([f"{box.programs}/skep", "exec", "-it", "--user", USER, box.box, "--", "sudo", "bash", "--norc"], box.dir, box.env, 33, 91)
    t.send("PS1=; stty size; tty; id -u\r")
    t.expect(r"33 91\s+/dev/pts/\d+\s+0\s")
    t.resize(20, 70)
    t.send("until stty size | grep '^20 70'; do sleep 0.05; done\r")
    t.expect(r"\s20 70\s")
    t.send("sleep 1000\r")
    wait_for(lambda: box.skep("exec", box.box, "--", "pgrep", "-fx", "sleep 1000").rc == 0, why="sleep")
    t.send("\x03")
    t.send("echo st=$?; exit 3\r")
    t.expect("st=130")
    assert t.wait() == 3
    assert t.restored()
    t.close()


def test_where_a_package_put_its_own(sh):
    """One without effect in here takes the place of ours in /usr/bin, not in /usr/local/bin."""
    assert sh("sudo cp /bin/false /usr/bin/.sudo; sudo mv /usr/bin/.sudo /usr/bin/sudo; sudo id -u").ok().line == "0"


# --- misuse ---

ASK = r'''
import array, os, socket, struct, sys
def frame(kind, stream, body=b"", fd=False):
    return struct.pack("<IBBBBI", len(body), kind, stream, fd, 0, 0) + body
def connect():
    s = socket.socket(socket.AF_UNIX); s.connect("/run/skep-sudo"); s.settimeout(20); return s
def said(s):
    got = b""
    try:
        while b := s.recv(4096): got += b
    except OSError: pass
    return got
'''


def number(name):
    """Of a frame type, as model/msg.h counts them."""
    with open(f"{ROOT}/src/model/msg.h", encoding="utf-8") as f:
        body = re.sub(r"//[^\n]*", "", f.read().split("enum msg_type {", 1)[1].split("};", 1)[0])
    return [x.strip() for x in body.split(",") if x.strip()].index(name)


def test_others_are_refused(sh):
    for who in ("nobody", "daemon", "#1001"):
        r = sh(f"sudo -u '{who}' sudo -n id")
        assert r.rc == 1 and "may not use sudo" in r.err


def test_root_is_the_cells_own(box, sh):
    """The same sets, filters and flags as an exec as root has, and what that may not do stays undone."""
    look = "grep -E '^(Cap|NoNewPrivs|Seccomp)' /proc/self/status; cat /proc/self/uid_map; readlink /proc/self/ns/*; cat /proc/self/cgroup"
    assert sh(f"sudo bash -c \"{look}\"").ok().out == box.skep("exec", box.box, "--", "bash", "-c", look).ok().out
    for tried in ("mount -t tmpfs none /mnt", "unshare -m true", "sh -c 'echo x >/proc/sys/kernel/hostname'", "mknod /tmp/sda b 8 0",
                  "sh -c 'cat /proc/1/environ'"):
        assert sh(f"sudo {tried}").rc, tried
    assert sh("sudo kill -9 1; sudo echo lives").ok().line == "lives"


def test_a_sandbox_inside_is_no_way_to_it(python):
    """One more filter than pid 1 has, as an agent's own sandbox would set."""
    r = python('''
import ctypes, os
class F(ctypes.Structure): _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]
class P(ctypes.Structure): _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.POINTER(F))]
f = F(6, 0, 0, 0x7fff0000)
assert ctypes.CDLL(None).prctl(22, 2, ctypes.byref(P(1, ctypes.pointer(f))), 0, 0) == 0
os.execvp("sudo", ["sudo", "id"])''')
    assert r.rc == 1 and "does not lead out" in r.err


def test_nonsense_instead_of_a_request(python):
    """Each ends that connection and nothing else."""
    names = ", ".join(str(number(n)) for n in ("M_SOCKET", "M_EXEC", "M_SIGNAL"))
    r = python(ASK + f"SOCKET, EXEC, SIGNAL = {names}\n" + r'''
for junk in (b"\xff" * 64, frame(200, 9), frame(EXEC, 0), frame(EXEC, 0, b"\xff" * 40), frame(SOCKET, 0, b"", True), b"\0" * 5,
             frame(SIGNAL, 0, b"\x09\0\0\0"), struct.pack("<IBBBBI", 0x7fffffff, EXEC, 0, 0, 0, 0), frame(SOCKET, 7) * 100):
    s = connect(); s.sendall(junk); s.shutdown(socket.SHUT_WR); said(s); s.close()
s = connect()
try:
    s.sendall(struct.pack("<IBBBBI", 4 << 20, EXEC, 0, 0, 0, 0))
    for i in range(1024): s.sendall(b"x" * 4096)
    print("took it")
except OSError: print("cut")
a, b = socket.socketpair()
s = connect()
try:
    for k in range(40): s.sendmsg([frame(SOCKET, k % 3, b"", True)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [b.fileno()]))])
except OSError: pass
''', "sudo id -u", timeout=60)
    assert r.ok().out.split() == ["cut", "0"]


def test_too_many_at_once_are_refused_and_the_rest_goes_on(python):
    r = python(ASK + 'held = [connect() for i in range(64)]\nprint(b"are the most" in said(connect()))\n', "sudo true; echo $?")
    assert r.ok().out.split() == ["True", "0"]


def test_only_where_there_is_a_root(home, skep, project):
    assert skep("run", "--", "sh", "-c", "test -e /run/skep-sudo || sudo -n true").rc
