# SPDX-License-Identifier: Apache-2.0
"""Directories of the base can be renamed inside, with the kernel's own rules, and nothing of them is lost or changes."""
import json
import os
import shutil
import time

import pytest

from kit import wait_for
from test_faults import restart

PROFILES = ("default", "root")

# Runs inside. `tree` is all that can be seen of a directory but inode numbers.
INSIDE = r'''
import ctypes, errno, hashlib, json, os, stat, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
AT = -100
def tree(top):
    out, groups = {}, {}
    for d, dirs, files in os.walk(top):
        for name in [""] + dirs + files:
            path = os.path.join(d, name) if name else d
            st = os.lstat(path)
            if name in dirs and stat.S_ISDIR(st.st_mode):
                continue
            row = [stat.filemode(st.st_mode), st.st_mtime_ns, st.st_uid, st.st_gid]
            if stat.S_ISREG(st.st_mode):
                with open(path, "rb") as f:
                    row += [st.st_size, hashlib.sha256(f.read()).hexdigest(), st.st_nlink]
                groups.setdefault(st.st_ino, []).append(os.path.relpath(path, top))
            if stat.S_ISLNK(st.st_mode):
                row.append(os.readlink(path))
            else:
                row.append({n: os.getxattr(path, n).hex() for n in os.listxattr(path) if n.startswith("user.")} if not stat.S_ISFIFO(st.st_mode) else {})
            out[os.path.relpath(path, top)] = row
    out["links"] = sorted(sorted(g) for g in groups.values() if len(g) > 1)
    return out
def ren(a, b, flags=0, da=AT, db=AT):
    """0 or the name of the error"""
    a, b = (x if isinstance(x, ctypes.Array) else x.encode() for x in (a, b))
    if not libc.renameat2(da, a, db, b, flags):
        return 0
    return errno.errorcode[ctypes.get_errno()]
def hidden():
    return [os.path.join(d, n) for d, dirs, files in os.walk(".") for n in dirs + files if n.startswith(".skep-rename")]
'''


def make_base(top):
    """A directory d with all kinds of things, some empty and some full directories beside it."""
    d = f"{top}/d"
    os.makedirs(f"{d}/sub/deep/er")
    os.makedirs(f"{d}/empty")
    os.makedirs(f"{top}/full/x")
    os.makedirs(f"{top}/vacant")
    for i in range(20):
        with open(f"{d}/sub/f{i}", "w", encoding="utf-8") as f:
            f.write(f"{i}\n" * i)
    for name in ("a", "sub/deep/er/b", "odd \n name", "\u00fcml\u00e4ut", "n" * 250):
        with open(f"{d}/{name}", "w", encoding="utf-8") as f:
            f.write(name)
    os.mkdir(f"{d}/{'m' * 250}")
    os.link(f"{d}/a", f"{d}/hard")
    os.link(f"{d}/a", f"{d}/sub/deep/hard")
    os.symlink("a", f"{d}/link")
    os.symlink("/etc", f"{d}/sub/outside")
    os.mkfifo(f"{d}/fifo")
    with open(f"{d}/sparse", "wb") as f:
        f.truncate(1 << 24)
        f.seek(1 << 23)
        f.write(b"x")
    os.chmod(f"{d}/a", 0o640)
    os.chmod(f"{d}/sub/f3", 0o444)
    for path in (f"{d}/a", f"{d}/sub"):
        try:
            os.setxattr(path, "user.note", b"kept")
        except OSError:
            pass
    os.mkdir(f"{d}/locked")
    with open(f"{d}/locked/in", "w", encoding="utf-8") as f:
        f.write("in")
    os.mkdir(f"{d}/locked/below")
    os.chmod(f"{d}/locked/below", 0o555)
    os.chmod(f"{d}/locked", 0o555)
    for path in ("d", "d/sub", "d/sub/deep", "d/a", "d/sub/f7"):
        os.utime(f"{top}/{path}", ns=(10**18, 10**18 + 7))


@pytest.fixture
def base(home):
    make_base(home.dir)
    yield home.dir
    for d in ("d/locked", "d/locked/below"):
        os.chmod(f"{home.dir}/{d}", 0o755)


def inside(home, script, *opts, way="run", user=(), sid=None, **kw):
    """The JSON that the script prints, run in a cell on the project."""
    with open(f"{home.dir}/script.py", "w", encoding="utf-8") as f:
        f.write(INSIDE + script)
    if way == "run":
        r = home.skep("run", *opts, "--", "/usr/bin/python3", "script.py", **kw)
    else:
        sid = sid or home.new(*opts)
        r = home.skep("exec", *user, sid, "--", "/usr/bin/python3", "script.py", **kw)
    r.ok()
    return json.loads(r.out.splitlines()[0])


def flags(profile):
    return ("--root",) if profile == "root" else ()


@pytest.mark.parametrize("way,profile", (("run", "default"), ("exec", "default"), ("exec", "root")))
def test_everything_moves_along(home, base, way, profile):
    before, first, second, third, left, log = inside(home, """
before, log = tree("d"), []
held = open("d/sub/f5", "a"); lower = open("d/sub/f6")
log.append(ren("d", "e")); first = tree("e")
held.write("more"); held.flush()
log.append(open("e/sub/f5").read() == "5\\n" * 5 + "more"); log.append(lower.read() == "6\\n" * 6)
os.truncate("e/sub/f5", 10); os.utime("e/sub/f5", ns=(1, first["sub/f5"][1]))
log.append(ren("e", "vacant")); second = tree("vacant")
os.mkdir("new"); log.append(ren("vacant/", "new/d///")); third = tree("new/d")
print(json.dumps([before, first, second, third, [os.path.exists(x) for x in ("d", "e", "vacant")] + hidden(), log]))
""", *flags(profile), way=way)
    assert log == [0, True, True, 0, 0] and left == [False] * 3
    assert first == before and second == before and third == before
    assert before["links"] == [["a", "hard", "sub/deep/hard"]] and before["a"][6] == 3
    assert sorted(os.listdir(home.dir)) == ["d", "full", "script.py", "vacant"]  # the host's own
    assert os.stat(f"{base}/d/sub").st_mtime_ns == 10**18 + 7


def test_pieces_can_be_renamed_one_by_one(home, base):
    log, left = inside(home, """
log = []
os.chdir("d/sub"); log.append(ren("deep", "../deep2")); log.append(ren("../deep2/er", "./er")); log.append(os.listdir("er"))
os.chdir("../.."); fd = os.open("d", os.O_RDONLY); log.append(ren("sub", "sub2", 0, fd, fd))
log.append(ren(os.getcwd() + "/d/empty", os.getcwd() + "/d/e2")); log.append(ren("d/link", "d/link2")); log.append(ren("d/sub2/outside", "o"))
os.symlink(os.getcwd() + "/d", "abs"); log.append(ren("abs/e2", "abs/e3")); log.append(ren("abs", "abs2")); log.append(ren("d/locked", "d/unlocked"))
log.append(oct(os.stat("d/unlocked").st_mode)); log.append(sorted(os.listdir("d")))
t = threading.Thread(target=lambda: log.append(ren("d", "dd"))); t.start(); t.join()
print(json.dumps([log, hidden()]))
""")
    assert log[:3] == [0, 0, ["b"]] and log[3:10] == [0] * 7 and log[10] == "0o40555" and log[-1] == 0 and left == []
    assert log[11] == sorted(["a", "hard", "link2", "fifo", "sparse", "odd \n name", "\u00fcml\u00e4ut", "n" * 250, "m" * 250, "e3", "sub2", "deep2", "unlocked"])


def test_the_kernels_own_errors(home, base):
    log, before, after, left = inside(home, """
before, log = tree("d"), []
open("file", "w"); os.symlink("d", "l")
log.append(ren("d", "full")); log.append(ren("d", "file")); log.append(ren("d", "d/sub/x")); log.append(ren("d", "nowhere/x"))
log.append(ren("d", "vacant", 1)); log.append(ren("d", "/tmp/d")); log.append(ren("d/.", "x")); log.append(ren("file", "d")); log.append(ren("l/", "x"))
log.append(ren("d", "x", 3)); log.append(ren("d", "nowhere", 2)); log.append(ren("nowhere", "d")); log.append(ren("d", ""))
print(json.dumps([log, before, tree("d"), hidden()]))
""")
    assert log[:3] == ["ENOTEMPTY", "ENOTDIR", "EINVAL"] and log[3:7] == ["ENOENT", "EEXIST", "EXDEV", "EBUSY"]
    assert log[7] == "EISDIR" and log[8] in ("ENOTDIR", "EINVAL") and log[9:] == ["EINVAL", "ENOENT", "ENOENT", "ENOENT"]
    assert after == before and left == []


def test_exchange_and_noreplace(home, base):
    log, left = inside(home, """
log, a, b = [], tree("d"), tree("full")
log.append(ren("d", "full", 2)); log.append(tree("full") == a and tree("d") == b)
open("file", "w").write("f"); log.append(ren("file", "vacant", 2)); log.append(os.path.isdir("file") and open("vacant").read() == "f")
log.append(ren("full", "free", 1)); log.append(tree("free") == a)
print(json.dumps([log, hidden()]))
""")
    assert log == [0, True, 0, True, 0, True] and left == []


def test_what_cannot_move_costs_nothing(home, base):
    """To another file system, and onto what is in the way: no copy is made of anything."""
    sid = home.new()
    r = home.skep("exec", sid, "--", "/usr/bin/python3", "-c", "import os\nfor t in ('/tmp/d', 'd/sub/x', 'full/../nowhere/x'):\n try: os.rename('d', t)\n except OSError as e: print(e.errno)").ok()
    assert r.out.split() == ["18", "22", "2"]
    layers = [d for d in os.listdir(f"{home.skep_home}/layers") if not d.startswith(".")]
    assert len(layers) == 1 and os.listdir(f"{home.skep_home}/layers/{layers[0]}/ws") == []


def test_git(home, project):
    sid = home.new()
    home.skep("exec", sid, "--", "git", "mv", "sub", "other").ok()
    assert home.skep("exec", sid, "--", "git", "status", "--short").ok().out == "R  sub/deep/note.txt -> other/deep/note.txt\n"
    home.skep("exec", sid, "--", "sh", "-ec", "git -c user.name=a -c user.email=a@b commit -qm moved; git checkout -q HEAD~1; test -e sub/deep/note.txt; git checkout -q -; test ! -e sub; git mv other/deep .; git status --short").ok()
    home.skep("exec", sid, "--", "mv", "deep", "last").ok()
    assert home.skep("exec", sid, "--", "find", ".", "-name", ".skep*").ok().out == ""


def test_packages_are_retired_and_replaced(home):
    """What npm does for each package that it replaces: out of the way, the new one in, the old one gone."""
    for i in range(30):
        os.makedirs(f"{home.dir}/node_modules/p{i}/lib")
        for name in ("package.json", "lib/index.js"):
            with open(f"{home.dir}/node_modules/p{i}/{name}", "w", encoding="utf-8") as f:
                f.write("old")
    result, left = inside(home, """
import shutil
os.chdir("node_modules")
for i in range(30):
    os.rename(f"p{i}", f".p{i}-x1y2"); os.makedirs(f".tmp{i}/lib"); open(f".tmp{i}/lib/index.js", "w").write("new")
    os.rename(f".tmp{i}", f"p{i}"); shutil.rmtree(f".p{i}-x1y2")
os.chdir(".."); os.rename("node_modules", "nm")
print(json.dumps([[open(f"nm/p{i}/lib/index.js").read() for i in range(30)] + sorted(os.listdir("nm/p7")) + [len(os.listdir("nm"))], hidden()]))
""")
    assert result == ["new"] * 30 + ["lib", 30] and left == []


def test_files_are_renamed_as_ever(home):
    got = inside(home, """
open("x0", "w").write("content")
for i in range(1000):
    os.rename(f"x{i}", f"x{i + 1}")
print(json.dumps([open("x1000").read(), sorted(os.listdir("."))]))
""")
    assert got == ["content", ["script.py", "x1000"]]


# --- rights ---

def test_another_user_gets_no_more_than_it_has(home, base):
    """In a --root sandbox: what nobody could not rename it can not have prepared either."""
    sid = home.new("--root")
    look = ["stat", "-c", "%Z %U %a", "/usr/share/doc", "/usr/share"]  # a copy of a directory has a change time of its own
    before = home.skep("exec", sid, "--", *look).ok().out
    script = "import os\ntry: os.rename('/usr/share/doc', '/usr/share/doc2')\nexcept OSError as e: print(e.errno)"
    if home.skep("exec", "-u", "nobody", sid, "--", "true").rc:
        pytest.skip("no subordinate ids: there is no other user")
    assert home.skep("exec", "-u", "nobody", sid, "--", "/usr/bin/python3", "-c", script).ok().line == "13"
    assert home.skep("exec", sid, "--", *look).ok().out == before
    home.skep("exec", sid, "--", "sh", "-ec", "chown -R nobody:nogroup d; chmod 777 .").ok()
    r = home.skep("exec", "-u", "nobody", sid, "--", "/usr/bin/python3", "-c", "import os\nos.rename('d', 'e'); print(sorted(os.listdir('e'))[0], os.stat('e').st_uid == os.getuid())").ok()
    assert r.line == "a True"


LANDLOCK = r'''
def confine(*allowed):
    class Attr(ctypes.Structure): _fields_ = [("fs", ctypes.c_uint64)]
    class Beneath(ctypes.Structure): _pack_ = 1; _fields_ = [("access", ctypes.c_uint64), ("fd", ctypes.c_int)]
    all_ = (1 << 14) - 1
    fd = libc.syscall(444, ctypes.byref(Attr(all_)), ctypes.c_size_t(8), 0)
    assert fd >= 0
    for path, access in ((("/", 0b1101),) + tuple((p, all_) for p in allowed)):
        b = Beneath(access, os.open(path, os.O_PATH))
        assert not libc.syscall(445, fd, 1, ctypes.byref(b), 0)
    libc.prctl(38, 1, 0, 0, 0)
    assert not libc.syscall(446, fd, 0)
'''


def test_a_sandbox_inside_keeps_its_bounds(home, base):
    """A process that confined itself can rename where it may write and nowhere else."""
    before, log, after, left = inside(home, LANDLOCK + """
before = tree("d")
os.makedirs("play/in"); os.rename("full", "play/full")
if os.fork() == 0:
    confine("play"); r = [ren("d", "e"), ren("d", "play/d"), ren("play/full", "play/f2"), ren("play/f2", "vacant")]
    open("play/log", "w").write(json.dumps(r)); os._exit(0)
os.wait()
print(json.dumps([before, json.load(open("play/log")), tree("d"), hidden()]))
""")
    assert log[0] in ("EACCES", "EXDEV") and log[1] in ("EACCES", "EXDEV") and log[2] == 0 and log[3] in ("EACCES", "EXDEV")
    assert after == before and left == []


FLIP = r'''
import time
names = [os.getcwd().encode() + b"/d", b"/usr/share/doc", b"/etc", b"/proc/1/root", b"/"]
buf = ctypes.create_string_buffer(names[0], 512)
stop = []
def flip():
    while not stop:
        for n in names:
            ctypes.memmove(buf, n + b"\0", len(n) + 1)
t = threading.Thread(target=flip); t.start()
end, seen = time.time() + 3, {}
while time.time() < end:
    r = ren(buf, "moved"); seen[str(r)] = seen.get(str(r), 0) + 1
    if r == 0:
        assert ren("moved", "d") == 0, os.listdir(".")
stop.append(1); t.join()
'''


@pytest.mark.parametrize("profile", PROFILES)
def test_a_string_that_changes_under_the_look(home, base, profile):
    """The name is swapped by another thread all the time: nothing but what it could rename itself is ever moved."""
    places = "{p: [os.stat(p).st_uid, os.stat(p).st_mode, len(os.listdir(p))] for p in ('/usr/share/doc', '/etc', '/')}"
    user = ("-u", "nobody") if profile == "root" else ()
    sid = home.new(*flags(profile))
    if user and home.skep("exec", *user, sid, "--", "true").rc:
        pytest.skip("no subordinate ids: there is no other user")
    if user:
        home.skep("exec", sid, "--", "sh", "-c", "chown -R nobody:nogroup d; chmod 777 .").ok()
    before, places_before, after, places_after, seen, left = inside(home, "before, there = tree('d'), " + places + "\n" + FLIP + "print(json.dumps([before, there, tree('d'), " + places + ", seen, hidden()]))\n", way="exec", user=user, sid=sid)
    assert before == after and places_before == places_after and left == []
    assert sum(seen.values()) > 100, seen
    assert sorted(os.listdir(base)) == ["d", "full", "script.py", "vacant"]


def test_nested(home, base):
    bwrap = shutil.which("bwrap", path="/usr/bin:/bin")
    if not bwrap:
        pytest.skip("bubblewrap is not installed")
    r = home.skep("run", "--nested", "--", bwrap, "--unshare-user", "--unshare-pid", "--bind", "/", "/", "--dev-bind", "/dev", "/dev", "/usr/bin/python3", "-c", "import os\nos.rename('d', 'e'); print(len(os.listdir('e')))").ok()
    assert int(r.line) == len(os.listdir(f"{base}/d"))


def test_directories_of_an_image(home, skep, busybox):
    """busybox copies where rename fails; the inode tells that it did not have to."""
    top = f"{home.top}/rootfs"
    os.makedirs(f"{top}/bin")
    shutil.copy(busybox, f"{top}/bin/busybox")
    for name in ("sh", "mv", "stat"):
        os.symlink("busybox", f"{top}/bin/{name}")
    for d in ("etc", "dev", "proc", "tmp", "opt/app/lib"):
        os.makedirs(f"{top}/{d}")
    with open(f"{top}/opt/app/lib/x", "w", encoding="utf-8") as f:
        f.write("x")
    skep("image", "import", top, "--name", "tiny").ok()
    sid = home.new("--image", "tiny", "--root")
    r = skep("exec", sid, "--", "sh", "-ec", "stat -c %i /opt/app/lib/x; mv /opt/app /opt/new; mv /opt /srv; stat -c %i /srv/new/lib/x").ok()
    assert len(set(r.out.split())) == 1, r.out


# --- in the middle ---

@pytest.mark.parametrize("point", ("move.entry:kill:4", "move.entry:fail:4", "move.copy:kill:9", "move.copy:fail:9"))
def test_a_helper_that_dies(home, base, point):
    """Each attempt gets a step further or takes back what it did; nothing is lost, and in the end it moves."""
    home.skep("run", "--", "true").ok()
    restart(home, point)
    before, results, now, left = inside(home, """
before, results = tree("d"), []
while not results or (results[-1] and len(results) < 40):
    results.append(ren("d", "e"))
top = "e" if os.path.exists("e") else "d"
print(json.dumps([before, results, tree(top), hidden()]))
""")
    assert set(results) <= {0, "EXDEV"}
    if "entry:kill" in point:
        assert results[-1] == 0
    else:
        assert results[-1] == "EXDEV"
    if "kill" in point:  # a killed one may leave directories with new times, and writable
        before, now = ({k: v for k, v in t.items() if k == "links" or v[0][0] != "d"} for t in (before, now))
    # Killed over and over before anything was replaced it leaves an empty hidden directory; the next rename takes it over.
    assert now == before and (left == [] or (point.startswith("move.copy:kill") and left[0] == "./.skep-rename.d"))


@pytest.mark.user
@pytest.mark.parametrize("point", ("own.copy:fail:1", "own.copy:kill:1"))
def test_a_copy_that_fails_leaves_the_file_as_it_was(home, skep, point):
    """A file of the host, below the root of an ordinary user (init/owned.h). Each helper of pid 1 gives up, or is killed: the call is refused as the kernel refuses it, and the file is whole."""
    home.lend()
    skep("ps").ok()
    restart(home, point)
    sid = home.new("--root")
    script = "cp /usr/bin/arch /tmp/arch; chmod 700 /usr/bin/arch 2>/dev/null; echo $? $(stat -c %a /usr/bin/arch); cmp /usr/bin/arch /tmp/arch; ls -A /usr/bin | grep '^.skep'"
    lines = skep("exec", sid, "--", "sh", "-c", script).out.splitlines()
    assert lines[0] == "1 755"
    assert lines[1:] == [] or (point == "own.copy:kill:1" and lines[1:] == [".skep-own"])  # the next one clears it away


def big(home, n):
    for i in range(n):
        os.makedirs(f"{home.dir}/big/d{i % 40}", exist_ok=True)
        with open(f"{home.dir}/big/d{i % 40}/f{i}", "w", encoding="utf-8") as f:
            f.write(str(i) * 200)


COUNT = "import os, sys\nt = [x for x in ('big', 'moved') if os.path.exists(x)]\nprint(len(t), sum(len(f) for _, _, f in os.walk(t[0])), [x for d, _, _ in os.walk('.') for x in os.listdir(d) if x.startswith('.skep')])"


def test_the_caller_is_killed(home):
    big(home, 1200)
    sid = home.new()
    started = time.monotonic()
    home.skep("exec", sid, "--", "timeout", "-s", "KILL", "0.02", "/usr/bin/python3", "-c", "import os; os.rename('big', 'moved')")
    r = home.skep("exec", sid, "--", "sh", "-c", "mkdir x y; ls /; mv x/ z; true").ok()  # others are not held up
    assert time.monotonic() - started < 20
    wait_for(lambda: home.skep("exec", sid, "--", "/usr/bin/python3", "-c", COUNT).line == "1 1200 []", why="the helper to finish")
    home.skep("exec", sid, "--", "/usr/bin/python3", "-c", "import os; os.path.exists('big') and os.rename('big', 'moved')").ok()
    assert home.skep("exec", sid, "--", "/usr/bin/python3", "-c", COUNT).line == "1 1200 []"
    assert "z" in home.skep("exec", sid, "--", "ls").out.split(), r.err


def test_the_sandbox_is_stopped_meanwhile(home):
    big(home, 1200)
    sid = home.new()
    for wait in (0.05, 0.15, 0.3):
        home.skep("exec", "-d", sid, "--", "/usr/bin/python3", "-c", "import os\nwhile 1: os.rename('big', 'moved'); os.rename('moved', 'big')").ok()
        time.sleep(wait)
        home.skep("stop", sid).ok()
        got = home.skep("exec", sid, "--", "/usr/bin/python3", "-c", COUNT).line
        assert got.startswith("1 1200"), got
