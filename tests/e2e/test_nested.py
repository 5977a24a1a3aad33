# SPDX-License-Identifier: Apache-2.0
"""--nested: sandboxes that agents bring along work inside, and what that opens is no more than it says."""
import os
import re
import shutil

import pytest

from kit import ROOT

PROFILES = ("default", "root")


def flags(profile):
    return ("--nested", "--root") if profile == "root" else ("--nested",)


@pytest.fixture
def bwrap():
    path = shutil.which("bwrap", path="/usr/bin:/bin")
    if not path:
        pytest.skip("bubblewrap is not installed")
    return path


@pytest.fixture
def codex():
    """The program itself, without its npm wrapper: `make test` has it installed for the agents' tests."""
    name = f"codex-linux-{'x64' if os.uname().machine == 'x86_64' else 'arm64'}"
    top = os.environ.get("SKEP_TEST_AGENTS") or f"{ROOT}/build/agents"
    for d, _, files in os.walk(f"{top}/node_modules/@openai/{name}"):
        if "codex" in files and os.access(f"{d}/codex", os.X_OK):
            return f"{d}/codex"
    pytest.skip("codex is not installed: tests/agents/install")


BWRAP = {
    "plain": ["--unshare-user", "--ro-bind", "/", "/"],
    "dev": ["--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev"],
    "proc": ["--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"],
    "names": ["--unshare-all", "--hostname", "inner", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--symlink", "usr/bin", "/bin",
              "--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev", "--die-with-parent", "--new-session"],
}


@pytest.mark.parametrize("how", BWRAP)
@pytest.mark.parametrize("profile", PROFILES)
def test_bubblewrap(skep, bwrap, profile, how):
    r = skep("run", *flags(profile), "--", bwrap, *BWRAP[how], "/bin/sh", "-c", "echo inside; touch /usr/x 2>/dev/null && echo written; exit 7")
    assert (r.rc, r.out.split()) == (7, ["inside"]), r.out + r.err


def test_bubblewrap_shows_its_own_processes(skep, bwrap):
    r = skep("run", "--nested", "--", bwrap, *BWRAP["proc"], "sh", "-c", "echo /proc/[0-9]*; hostname").ok()
    assert len(r.out.splitlines()[0].split()) <= 3


def test_bubblewrap_in_bubblewrap(skep, bwrap):
    skep("run", "--nested", "--", bwrap, *BWRAP["proc"], bwrap, "--unshare-user", "--ro-bind", "/", "/", "true").ok()


@pytest.mark.parametrize("profile", PROFILES)
def test_codex_own_sandbox(home, skep, codex, profile):
    shutil.copy(codex, f"{home.dir}/codex")
    r = skep("run", *flags(profile), "--", "./codex", "sandbox", "--", "sh", "-c", "echo inside; touch /etc/x ./x 2>/dev/null && echo written; exit 7")
    assert (r.rc, r.out.split()) == (7, ["inside"]), r.out + r.err


@pytest.mark.parametrize("profile", PROFILES)
def test_without_it_there_is_none(home, skep, bwrap, profile):
    sid = home.new(*flags(profile)[1:])
    r = skep("exec", sid, "--", bwrap, "--unshare-user", "--ro-bind", "/", "/", "true")
    assert r.rc == 1 and "namespace" in r.err
    assert [e["name"] for e in home.journal(sid) if e["type"] == "denied"][:1] == ["clone"]


def test_it_is_recorded_and_shown(home, skep):
    sid = home.new("--nested")
    skep("exec", sid, "--", "true").ok()
    plain = home.new()
    skep("exec", plain, "--", "true").ok()
    nested, usual = home.show(sid)["isolation"], home.show(plain)["isolation"]
    assert nested["nested"] is True and usual["nested"] is False
    assert nested["seccomp"] > usual["seccomp"] and nested["capabilities"] == usual["capabilities"] == "0" * 16
    up = next(e for e in home.journal(sid) if e["type"] == "cell.up")
    assert up["isolation"]["nested"] is True
    assert next(e for e in home.journal(sid) if e["type"] == "sandbox.created")["nested"] is True
    with open(f"{ROOT}/docs/syscalls.md", encoding="utf-8") as f:
        published = re.search(r"\| default, nested \| (\d+) \|", f.read().split(f"## {os.uname().machine}", 1)[1])
    assert nested["seccomp"] == int(published[1])


def test_strict_refuses_it(skep):
    r = skep("run", "--nested", "--min-isolation", "strict", "--", "true")
    assert r.rc == 125 and "strict" in r.err


# What must hold all the same, in the cell itself (A) and as the root of a namespace made inside (B).
STILL = """
check() { if eval "$2" >/dev/null 2>&1; then echo "BROKEN $1"; else echo "held $1"; fi; }
check mount 'mount -t tmpfs none /mnt'
check bind 'mount --bind /tmp /mnt'
check umount-mask 'umount /proc/kcore || umount /proc/keys || umount /proc/sys'
check umount-run 'umount /run'
check write-usr 'touch /usr/skep-was-here'
check write-sysctl 'echo x > /proc/sys/kernel/core_pattern'
check hostname 'hostname broken'
check kernel-key 'cat /proc/kcore'
check pid1-limits 'prlimit --pid 1 --nofile=1024'
check pid1-idle 'chrt --idle --pid 0 1'
"""
STILL_IN_A_NAMESPACE = """
check() { if eval "$2" >/dev/null 2>&1; then echo "BROKEN $1"; else echo "held $1"; fi; }
check umount-mask 'umount -l /proc/keys || umount -l /proc/sys || umount -l /proc/interrupts'
check umount-run 'umount -l /run'
check remount-usr 'mount -o remount,rw,bind /usr && touch /usr/skep-was-here'
check remount-sys 'mount -o remount,rw,bind /proc/sys && echo x > /proc/sys/kernel/core_pattern'
check bind-without-masks 'mount --bind /proc /mnt'
check masks 'mount --rbind /proc /mnt && grep -q . /mnt/interrupts'
check mknod 'mknod /tmp/mem c 1 1 && head -c1 /tmp/mem'
check dev-remount 'mount -o remount,dev,bind /tmp'
check suid 'mount -o remount,suid,bind /tmp'
check sysctl 'echo 1 > /proc/sys/vm/swappiness'
check sysfs 'mount -t sysfs none /mnt'
check ext4 'mount -t ext4 /dev/null /mnt'
check date 'date -s 2001-01-01'
check pid1-limits 'prlimit --pid 1 --nofile=1024'
check pid1-idle 'chrt --idle --pid 0 1'
check pid1 'ls /proc/1/root/ || cat /proc/1/environ || ls /proc/1/fd/'
"""


@pytest.mark.parametrize("profile", PROFILES)
def test_what_holds_all_the_same(home, skep, profile):
    sid = home.new(*flags(profile))
    inside = ("unshare", "--user", "--map-root-user", "--mount")
    for prefix, script in (((), STILL), (inside, STILL_IN_A_NAMESPACE)):
        r = skep("exec", sid, "--", *prefix, "sh", "-c", script).ok()
        broken = {x.split()[1] for x in r.out.splitlines() if x.startswith("BROKEN")}
        assert broken <= ({"write-usr", "remount-usr"} if profile == "root" else set()), r.out  # that one's own layers
        assert len(r.out.splitlines()) == script.count("\ncheck "), r.out
    assert not os.path.exists("/usr/skep-was-here")


def test_the_host_is_as_far_as_ever(home, skep):
    """The second layer is gone for files: the first one must do, also for the root of a namespace inside."""
    secret = f"{home.user_home}/secret"
    with open(secret, "w", encoding="ascii") as f:
        f.write("nested-secret-41")
    sid = home.new("--nested")
    look = f"cat {secret}; cat /proc/1/root{secret}; cat /proc/*/cwd{secret}; ls -a /; find / -xdev -name skepd.sock 2>/dev/null; cat /proc/1/environ"
    for prefix in ((), ("unshare", "--user", "--map-root-user", "--mount")):
        r = skep("exec", sid, "--", *prefix, "sh", "-c", look)
        assert "nested-secret-41" not in r.out and "skepd.sock" not in r.out and home.skep_home not in r.out
    skep("exec", sid, "--", "unshare", "-Urm", "sh", "-c", "mount -t tmpfs x /mnt && touch /mnt/x").ok()
    assert home.skep("exec", sid, "--", "ls", "/mnt").ok().out == "", "a mount made inside is seen outside it"


def test_network_stays_closed(home, skep):
    sid = home.new("--nested")
    code = ("import socket\nfor a in (('192.0.2.1', 53), ('198.51.100.1', 80), ('8.8.8.8', 53)):\n"
            " s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n try:\n  s.connect(a); print('REACHED', a)\n except OSError as e: print('closed')\n"
            "try:\n socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12); print('NETFILTER')\nexcept OSError: print('closed')\n")
    r = skep("exec", sid, "--", "unshare", "--user", "--map-root-user", "--net", "/usr/bin/python3", "-c", code).ok()
    assert set(r.out.split()) == {"closed"}, r.out


def test_namespaces_are_counted(home, skep):
    """A cell can not use up the user namespaces of the machine (or, without root, of its user)."""
    sid = home.new("--nested")
    most = int(skep("exec", sid, "--", "cat", "/proc/sys/user/max_user_namespaces").ok().out)
    assert 0 < most <= 1024
    deep = "import ctypes, os, signal\nlibc = ctypes.CDLL(None, use_errno=True)\nn = 0\n" \
           "for _ in range(400):\n p, q = os.pipe()\n if not os.fork():\n  os.close(p); os.write(q, b'y' if not libc.unshare(0x10000000) else b'n'); signal.pause()\n os.close(q); n += os.read(p, 1) == b'y'\nprint(n)\nos.kill(0, 9)"
    r = skep("exec", sid, "--", "sh", "-c", 'setsid -w /usr/bin/python3 -uc "$0"; :', deep)
    assert int(r.out.split()[0]) <= most, r.out + r.err


HOARD = """
import ctypes, os
libc = ctypes.CDLL(None)
assert not libc.unshare(0x10000000)
kept = []
while len(kept) < 300 and not libc.unshare(0x40000000):
    kept.append(os.open("/proc/self/ns/net", os.O_RDONLY))
print(len(kept))
"""


def test_namespaces_without_a_process_are_counted_too(home, skep):
    sid = home.new("--nested")
    assert 100 < int(skep("exec", sid, "--", "python3", "-c", HOARD).ok().line) < 260


def test_ordinary_nested_work_is_not_denied(home, skep, bwrap):
    sid = home.new("--nested")
    skep("exec", sid, "--", bwrap, *BWRAP["proc"], "true").ok()
    assert [e for e in home.journal(sid) if e["type"] == "denied"] == []
