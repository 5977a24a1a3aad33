# SPDX-License-Identifier: Apache-2.0
"""skep cp, both ways, also with no live cell, and against a hostile inside."""
import os
import shutil
import stat

import pytest

from kit import wait_for
from stream_kit import Files


@pytest.fixture
def box(home, project):
    return home.new("--name", "box")


def put(path, content=b"content", mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(content)
    os.chmod(path, mode)
    return path


def test_file_in_and_out(home, skep, box):
    data = os.urandom(3 << 20)
    put(f"{home.top}/a.bin", data, 0o750)
    skep("cp", f"{home.top}/a.bin", "box:/home/skep/b.bin").ok()
    assert skep("exec", box, "--", "stat", "-c", "%a %s", "/home/skep/b.bin").ok().line == f"750 {len(data)}"
    skep("cp", "box:/home/skep/b.bin", f"{home.top}/c.bin").ok()
    assert open(f"{home.top}/c.bin", "rb").read() == data
    assert stat.S_IMODE(os.stat(f"{home.top}/c.bin").st_mode) == 0o750


def test_into_a_directory_keeps_the_name(home, skep, box):
    put(f"{home.top}/name.txt")
    skep("cp", f"{home.top}/name.txt", "box:/tmp").ok()
    assert skep("exec", box, "--", "cat", "/tmp/name.txt").ok().line == "content"
    os.mkdir(f"{home.top}/d")
    skep("cp", "box:/tmp/name.txt", f"{home.top}/d").ok()
    assert os.path.exists(f"{home.top}/d/name.txt")


def test_tree_with_links_and_modes(home, skep, box):
    t = f"{home.top}/tree"
    put(f"{t}/x/run.sh", b"#!/bin/sh\necho ran\n", 0o755)
    put(f"{t}/empty", b"", 0o600)
    os.makedirs(f"{t}/void")
    os.symlink("x/run.sh", f"{t}/link")
    os.symlink("/nowhere", f"{t}/dangling")
    skep("cp", t, "box:/home/skep/tree").ok()
    r = skep("exec", box, "--", "sh", "-c", "cd ~/tree; ./link; readlink link dangling; stat -c %a empty; ls -d void").ok()
    assert r.out.split() == ["ran", "x/run.sh", "/nowhere", "600", "void"]
    skep("cp", "box:/home/skep/tree", f"{home.top}/back").ok()
    assert os.readlink(f"{home.top}/back/link") == "x/run.sh"
    assert os.readlink(f"{home.top}/back/dangling") == "/nowhere"
    assert os.access(f"{home.top}/back/x/run.sh", os.X_OK) and os.path.isdir(f"{home.top}/back/void")


def test_without_a_live_cell(home, skep, box):
    skep("exec", box, "--", "sh", "-c", "echo inside > ~/f").ok()
    skep("stop", box).ok()
    skep("cp", "box:/home/skep/f", f"{home.top}/f").ok()
    assert open(f"{home.top}/f", "rb").read() == b"inside\n"


def test_workspace_copy_does_not_touch_the_host(home, skep, box, project):
    put(f"{home.top}/README", b"other\n")
    skep("cp", f"{home.top}/README", f"box:{project}/README").ok()
    assert skep("exec", box, "--", "cat", "README").ok().line == "other"
    assert open(f"{project}/README", "rb").read() == b"a small project\n"


def test_missing_sources(home, skep, box):
    skep("cp", f"{home.top}/none", "box:/tmp/x").fails(3, "none")
    skep("cp", "box:/none/at/all", f"{home.top}/x").fails(3, "none")
    assert not os.path.exists(f"{home.top}/x")


def test_usage(home, skep, box):
    skep("cp", "a").fails(2)
    skep("cp", f"{home.top}/h", f"{home.top}/i").fails(2)


def test_hostile_link_at_the_target_is_not_followed_outside(home, skep, box):
    """The agent plants links inside that point at host paths; a copy in stays inside."""
    victim = put(f"{home.top}/victim/file", b"host")
    skep("exec", box, "--", "sh", "-c", f"ln -s {home.top}/victim ~/d; ln -s {victim} ~/f; mkdir -p {home.top}/victim 2>/dev/null; true").ok()
    put(f"{home.top}/evil", b"evil")
    skep("cp", f"{home.top}/evil", "box:/home/skep/f")
    skep("cp", f"{home.top}/evil", "box:/home/skep/d/file")
    assert open(victim, "rb").read() == b"host"
    assert os.listdir(f"{home.top}/victim") == ["file"]


def test_hostile_link_inside_the_source_is_copied_as_a_link(home, skep, box):
    """A copy out of a tree with a link to a host secret gives the link, never the host's file."""
    secret = put(f"{home.top}/secret", b"hunter2")
    skep("exec", box, "--", "sh", "-c", f"mkdir ~/t && ln -s {secret} ~/t/s && ln -s {secret} ~/one").ok()
    skep("cp", "box:/home/skep/t", f"{home.top}/out").ok()
    assert os.path.islink(f"{home.top}/out/s")
    r = skep("cp", "box:/home/skep/one", f"{home.top}/one")
    if r.rc == 0:
        assert os.path.islink(f"{home.top}/one") or open(f"{home.top}/one", "rb").read() != b"hunter2"


def test_copy_out_does_not_write_through_a_link_on_the_host_made_by_the_copy(home, skep, box):
    """`out/x -> /…/victim` first, then a file out/x/file: a classic of archive extraction."""
    victim = f"{home.top}/victim"
    os.mkdir(victim)
    skep("exec", box, "--", "sh", "-c", f"mkdir ~/t && ln -s {victim} ~/t/x").ok()
    os.mkdir(f"{home.top}/out")
    skep("cp", "box:/home/skep/t", f"{home.top}/out").ok()
    skep("exec", box, "--", "sh", "-c", "rm ~/t/x && mkdir ~/t/x && echo bad > ~/t/x/file").ok()
    skep("cp", "box:/home/skep/t", f"{home.top}/out")
    assert os.listdir(victim) == []


def test_special_files_are_refused_or_left_out(home, skep, box):
    skep("exec", box, "--", "sh", "-c", "mkdir ~/t && mkfifo ~/t/pipe && echo f > ~/t/file").ok()
    skep("cp", "box:/home/skep/t", f"{home.top}/out", timeout=20)
    assert not os.path.exists(f"{home.top}/out/pipe") or stat.S_ISFIFO(os.lstat(f"{home.top}/out/pipe").st_mode)


def test_holes_stay_holes(home, skep, box):
    """A directory full of large files with nothing in them costs a sandbox nothing; nor the host."""
    skep("exec", box, "--", "sh", "-c", "mkdir /tmp/h; cd /tmp/h; truncate -s 600M a b; printf x | dd of=a bs=1 seek=300000000 conv=notrunc status=none").ok()
    skep("cp", f"{box}:/tmp/h", f"{home.top}/h2").ok()
    for name, inside in (("a", 1), ("b", 0)):
        st = os.stat(f"{home.top}/h2/{name}")
        assert st.st_size == 600 << 20 and st.st_blocks * 512 < 4 << 20, st
        with open(f"{home.top}/h2/{name}", "rb") as f:
            f.seek(299999999)
            assert f.read(3) == (b"\0x\0" if inside else b"\0\0\0")


def test_setuid_does_not_come_out(home, skep, box):
    skep("exec", box, "--", "sh", "-c", "cp /bin/true ~/su && chmod 4755 ~/su").ok()
    skep("cp", "box:/home/skep/su", f"{home.top}/su").ok()
    assert not os.stat(f"{home.top}/su").st_mode & (stat.S_ISUID | stat.S_ISGID)


def test_no_set_id_files_in_a_writable_mount(home, skep):
    """What a sandbox leaves in the host's own directory never lends our rights to whoever runs it, by none of its ways."""
    d = f"{home.top}/shared"
    os.mkdir(d)
    os.chmod(d, 0o777)
    sid = home.new("--mount", f"{d}:/mnt/d:rw")
    skep("exec", sid, "--", "sh", "-c", "cd /mnt/d; cp /bin/true a; chmod 6755 a; chmod u+s a; install -m 4755 /bin/true b; cp -p a c").out
    code = """
import ctypes, os, struct
def tried(f, *args):
    try:
        f(*args)
    except OSError as e:
        print(e.strerror)
os.chdir("/mnt/d")
os.umask(0)
tried(os.open, "d", os.O_CREAT | os.O_WRONLY, 0o6755)
tried(os.open, "e", os.O_CREAT | os.O_WRONLY, 0o755)
tried(os.mknod, "f", 0o106755)
tried(os.chmod, "e", 0o2755)
fd = os.open("e", os.O_RDONLY)
tried(os.fchmod, fd, 0o4755)
libc = ctypes.CDLL(None, use_errno=True)
how = struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, 0o6755, 0)
libc.syscall(437, -100, b"/mnt/d/g", how, 24)
libc.syscall(452, -100, b"/mnt/d/e", 0o4755, 0)
"""
    skep("exec", sid, "--", "python3", "-c", code).ok()
    shutil.copy("/bin/true", f"{home.top}/su")
    os.chmod(f"{home.top}/su", 0o6755)
    skep("cp", f"{home.top}/su", f"{sid}:/mnt/d/h")
    Files(home, sid).raw("PUT", "/mnt/d/i", b"x", mode="6755")
    assert {"a", "b", "e"} <= set(os.listdir(d))
    for n in os.listdir(d):
        st = os.lstat(f"{d}/{n}")
        assert not st.st_mode & 0o6000 or st.st_uid != os.getuid(), (n, oct(st.st_mode))
    # Its own files are its own affair, and review still works there.
    assert skep("exec", sid, "--", "sh", "-c", "echo new >f; cat f").ok().out == "new\n"
    assert "f" in skep("diff", "--name-status", sid).ok().out


def test_names_that_are_not_utf8(home, skep, box):
    t = os.fsencode(home.top) + b"/t"
    os.mkdir(t)
    with open(t + b"/caf\xe9", "wb") as f:
        f.write(b"1")
    skep("cp", f"{home.top}/t", "box:/home/skep/t").ok()
    skep("cp", "box:/home/skep/t", f"{home.top}/back").ok()
    assert os.listdir(os.fsencode(home.top) + b"/back") == [b"caf\xe9"]


def test_large_tree(home, skep, box):
    t = f"{home.top}/many"
    for i in range(2000):
        put(f"{t}/d{i % 20}/f{i}", str(i).encode())
    skep("cp", t, "box:/home/skep/many").ok()
    assert skep("exec", box, "--", "sh", "-c", "find ~/many -type f | wc -l").ok().line == "2000"


def test_unwritable_target_outside(home, skep, box):
    skep("exec", box, "--", "sh", "-c", "echo 1 > ~/f").ok()
    r = skep("cp", "box:/home/skep/f", "/proc/nope")
    assert r.rc != 0 and len(r.err.splitlines()) == 1


def test_copy_from_a_paused_one(home, skep, box):
    skep("exec", box, "--", "sh", "-c", "echo 1 > ~/f").ok()
    skep("pause", box).ok()
    skep("cp", "box:/home/skep/f", f"{home.top}/f").ok()
    wait_for(lambda: home.show(box)["state"] in ("running", "paused"))


def test_processes_inside_can_not_stop_it(home, skep, box):
    """A command that stops every process it may: the copy goes on, or ends, but nobody waits for ever."""
    name = f"{home.top}/stopped"
    with open(name, "wb") as f:
        f.write(os.urandom(3 << 20))
    code = """
import os, signal
own = os.getpid()
print("ready", flush=True)
while True:
    for p in os.listdir("/proc"):
        if p.isdigit() and int(p) not in (1, own, os.getppid()):
            try:
                os.kill(int(p), signal.SIGSTOP)
            except OSError:
                pass
"""
    p = home.popen("exec", "box", "--", "python3", "-c", code)
    try:
        assert p.stdout.readline() == b"ready\n"
        skep("cp", name, "box:/home/skep/one", timeout=120)
        skep("cp", "box:/home/skep/one", f"{home.top}/two", timeout=120)
    finally:
        p.kill()
        p.communicate()
