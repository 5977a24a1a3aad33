# SPDX-License-Identifier: Apache-2.0
"""Containment. skep-attack (tests/attack) tries every row of docs/security.md from inside a cell: as its first process
and through exec into a live one, in both profiles, on the host image and on an imported one. Each row is first tried
on the host, where it must work: a probe that fails everywhere proves nothing.

The matrix shares one caller's world; what needs the host's side has a test of its own below it."""
import contextlib
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import time

import pytest

from kit import IS_ROOT, ROOT, World, find_procs, wait_for

with open(f"{ROOT}/tests/attack/rows.c", encoding="utf-8") as source:
    ROWS = {m[0]: m[2] for m in re.findall(r'\{"(T-\d+)", "(\w)", "([^"]+)"', source.read())}
# These need a cell of their own shape or would end it: tested one by one below.
ALONE = {"T-014", "T-015", "T-029", "T-033", "T-082", "T-083", "T-084", "T-086"}
MATRIX = [r for r in ROWS if r not in ALONE]
MIB = 1 << 20


def tree_hash(d):
    """Names, types, modes and contents below d; times do not count."""
    h = hashlib.sha256()
    for at, dirs, files in sorted(os.walk(d)):
        dirs.sort()
        for name in sorted(files + dirs):
            path = os.path.join(at, name)
            s = os.lstat(path)
            h.update(f"{path} {s.st_mode:o} {s.st_nlink} ".encode("utf-8", "surrogateescape"))
            if stat.S_ISREG(s.st_mode):
                with open(path, "rb") as f:
                    h.update(f.read())
            elif stat.S_ISLNK(s.st_mode):
                h.update(os.readlink(path).encode("utf-8", "surrogateescape"))
    return h.hexdigest()


def file_hash(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def make_rootfs(d):
    """The smallest image: one static program."""
    busybox = shutil.which("busybox", path="/usr/bin:/bin")
    assert busybox, "busybox is missing: tools/deps test"
    for sub in ("bin", "etc", "tmp", "home", "usr/lib", "proc", "dev", "var"):
        os.makedirs(f"{d}/{sub}", exist_ok=True)
    shutil.copy(busybox, f"{d}/bin/busybox")
    for a in ("sh", "ls", "cat", "true", "sleep", "id"):
        os.symlink("busybox", f"{d}/bin/{a}")
    with open(f"{d}/etc/passwd", "w", encoding="ascii") as f:
        f.write("root:x:0:0:root:/root:/bin/sh\n")
    return d


class Arena:
    """One caller with a project, markers and canaries on the host, and skep-attack in the project."""

    def __init__(self, programs):
        self.world = World(programs)
        self.attack = f"{programs}/skep-attack"
        self.project = self.world.dir
        self.inside = f"{self.project}/skep-attack"
        self.controls, self.images, self.boxes = {}, {}, {}
        shutil.copy(self.attack, self.inside)
        os.mkdir(f"{self.project}/victim")
        for name in ("edit", "delete", "rename", "truncate", "chmod", "map", "link"):
            with open(f"{self.project}/victim/{name}", "w", encoding="ascii") as f:
                f.write(f"original {name}\n")
        self.server = None
        self.env = self.lines(self.host("host-prepare", f"{self.world.top}/a"))
        self.serve()
        self.env["SKEP_ATTACK_SKEP_HOME"] = self.world.skep_home
        if IS_ROOT:
            self.plant_root_files()
        self.before = tree_hash(self.project)

    def plant_root_files(self):
        os.mknod(f"{self.project}/null-node", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.chmod(f"{self.project}/null-node", 0o666)
        shutil.copy(self.attack, f"{self.project}/suid-copy")
        os.chmod(f"{self.project}/suid-copy", 0o6755)
        self.env["SKEP_ATTACK_NODE"] = "null-node"
        self.env["SKEP_ATTACK_SUID"] = f"{self.project}/suid-copy"

    @staticmethod
    def lines(out):
        return dict(x.split("=", 1) for x in out.splitlines() if "=" in x)

    def host(self, *argv, env=None):
        p = subprocess.run([self.attack, *argv], env={**self.world.env, **(env or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=180, check=False)
        return p.stdout.decode()

    def serve(self):
        self.server = subprocess.Popen([self.attack, "host-serve", f"{self.world.top}/a"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.world.env)
        while "SKEP_ATTACK_READY" not in self.env:
            line = self.server.stdout.readline().decode()
            assert line, "host-serve ended early"
            self.env.update(self.lines(line))

    def control(self, row, **env):
        """The same probe on the host: it must succeed, or say why it can not be tried."""
        key = (row, *sorted(env.items()))
        if key not in self.controls:
            self.controls[key] = self.host("outside", row, env={**self.env, **env}).strip()
        assert re.match(rf"{row} (ESCAPED|NOCONTROL) ", self.controls[key]), f"the control proves nothing: {self.controls[key]}"

    def options(self, profile, image):
        opts = ["--root"] if profile == "root" else []
        return opts + (["--image", self.image()] if image == "imported" else [])

    def image(self):
        if "tiny" not in self.images:
            r = self.world.skep("image", "import", make_rootfs(f"{self.world.top}/rootfs"))
            self.images["tiny"] = r.line.split()[0] if r.rc == 0 else None
            self.images["why"] = r.err
        if not self.images["tiny"]:
            pytest.skip(f"no image can be imported here: {self.images['why'].strip()}")
        return self.images["tiny"]

    def flags(self, profile, **env):
        all_env = {**self.env, "SKEP_ATTACK_PROFILE": profile, "SKEP_ATTACK_WS": self.project, **env}
        return [x for k, v in all_env.items() for x in ("--env", f"{k}={v}")]

    def box(self, profile, image):
        """A live sandbox for exec, one per kind."""
        if (profile, image) not in self.boxes:
            r = self.world.skep("new", *self.options(profile, image))
            refused(r, profile)
            self.world.skep("start", r.ok().line).ok()
            self.boxes[profile, image] = r.line
        return self.boxes[profile, image]

    def run(self, row, way, profile="default", image="host", opts=(), **env):
        tail = ["--", self.inside, "inside", row]
        if way == "first":
            r = self.world.skep("run", *self.options(profile, image), *opts, *self.flags(profile, **env), *tail, timeout=150)
            refused(r, profile)
            return r
        return self.world.skep("exec", *self.flags(profile, **env), self.box(profile, image), *tail, timeout=150)

    def unchanged(self):
        assert tree_hash(self.project) == self.before, "the real project changed"

    def close(self):
        self.server.stdin.close()
        self.server.wait(10)
        self.world.close(check=False)


def refused(r, profile):
    """Rootless --root needs a subordinate id range; without one it is refused, and that is no failure here."""
    if r.rc and profile == "root" and not IS_ROOT and "sub" in r.err:
        pytest.skip(f"no subordinate ids for this user: {r.err.strip()}")


def contained(r, row):
    line = r.out.strip().splitlines()[-1] if r.out.strip() else ""
    assert line.startswith(f"{row} CONTAINED") and r.rc == 0, f"{row}: exit {r.rc}\n{r.out[-1500:]}{r.err[-1500:]}"
    return line


def facts(line):
    return dict(re.findall(r"(\w+)=(\S+?)(?=;|\s|$)", line))


@pytest.fixture(scope="module")
def arena(programs):
    assert os.access(f"{programs}/skep-attack", os.X_OK), "skep-attack is not built: run make"
    a = Arena(programs)
    yield a
    a.close()


# -- the matrix -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("image", ("host", "imported"))
@pytest.mark.parametrize("profile", ("default", "root"))
@pytest.mark.parametrize("way", ("first", "exec"))
@pytest.mark.parametrize("row", MATRIX)
def test_row(arena, row, way, profile, image):
    arena.control(row)
    r = arena.run(row, way, profile, image)
    if " SKIPPED " in r.out:
        pytest.skip(r.out.strip())
    contained(r, row)
    arena.unchanged()
    assert file_hash(arena.env["SKEP_ATTACK_CANARY"]) == hashlib.sha256(bytes.fromhex(arena.env["SKEP_ATTACK_MARKER"])).hexdigest()


def test_every_row_is_listed(arena):
    listed = [x.split("\t")[0] for x in arena.host("list").splitlines()]
    assert listed == list(ROWS)


@pytest.mark.parametrize("way", ("first", "exec"))
@pytest.mark.parametrize("profile", ("default", "root"))
@pytest.mark.root
def test_device_node_in_the_repository(arena, way, profile):
    arena.control("T-014")
    contained(arena.run("T-014", way, profile), "T-014")


# -- T-003, T-030, T-031: what is written inside stays inside ---------------------------------------------------
@pytest.mark.parametrize("profile", ("default", "root"))
def test_planted_links_are_not_followed_by_a_restart(arena, profile):
    """T-031: links planted in everything that survives; then stop, start, cp, show, rm: the host's side follows none."""
    arena.control("T-031")
    w = arena.world
    r = w.skep("new", *arena.options(profile, "host"))
    refused(r, profile)
    sid = r.ok().line
    contained(w.skep("exec", *arena.flags(profile), sid, "--", arena.inside, "inside", "T-031"), "T-031")
    w.skep("stop", sid).ok()
    contained(w.skep("exec", *arena.flags(profile), sid, "--", arena.inside, "inside", "T-001"), "T-001")
    host = f"{w.top}/in.txt"
    with open(host, "w", encoding="ascii") as f:
        f.write("from the host\n")
    w.skep("cp", host, f"{sid}:{arena.project}/skep-attack-link")
    w.skep("cp", host, f"{sid}:/home/skep/.cache/x")
    out = f"{w.top}/out.txt"
    w.skep("cp", f"{sid}:{arena.project}/skep-attack-link", out)
    marker = bytes.fromhex(arena.env["SKEP_ATTACK_MARKER"])
    if os.path.lexists(out):  # as a link or as what it names inside, never as the host's file
        assert os.path.islink(out) or marker not in open(out, "rb").read()
        os.unlink(out)
    assert open(arena.env["SKEP_ATTACK_CANARY"], "rb").read() == marker
    w.skep("rm", "--force", sid).ok()
    assert open(arena.env["SKEP_ATTACK_CANARY"], "rb").read() == marker
    arena.unchanged()


def test_forged_overlay_marks_have_no_effect_after_a_restart(arena):
    """T-104, second half: a new mount of the same layer must not obey what was written into it."""
    arena.control("T-104")
    w = arena.world
    sid = w.new()
    for _ in range(2):
        contained(w.skep("exec", *arena.flags("default"), sid, "--", arena.inside, "inside", "T-104"), "T-104")
        w.skep("stop", sid).ok()
    contained(w.skep("exec", *arena.flags("default"), sid, "--", arena.inside, "inside", "T-001"), "T-001")
    w.skep("rm", "--force", sid).ok()


def test_host_readers_lose_the_link_race(arena):
    """T-105, host side: files are copied out while names are swapped for links to the marker."""
    w = arena.world
    sid = w.new()
    xid = w.skep("exec", "-d", *arena.flags("default", SKEP_ATTACK_ROUNDS="20000"), sid, "--", arena.inside, "inside", "T-105").ok().line
    marker = bytes.fromhex(arena.env["SKEP_ATTACK_MARKER"])
    out = f"{w.top}/raced"
    for _ in range(60):
        w.skep("cp", f"{sid}:{arena.project}/race/x", out)
        if os.path.isfile(out) and not os.path.islink(out):
            assert marker not in open(out, "rb").read()
        if os.path.isdir(out) and not os.path.islink(out):
            shutil.rmtree(out)
        elif os.path.lexists(out):
            os.unlink(out)
    w.skep("kill", xid, "--signal", "KILL")
    w.skep("rm", "--force", sid).ok()
    arena.unchanged()


# -- T-006, T-007 -----------------------------------------------------------------------------------------------
def test_working_directory_tricks(arena):
    w = arena.world
    arena.control("T-006")
    sid = arena.box("default", "host")
    w.skep("exec", sid, "--", "sh", "-c", "ln -sfn / toroot; ln -sfn /proc/1/root pidroot; ln -sfn ../../../../../.. up").ok()
    tries = ["/proc/self/fd/3", "/proc/self/fd/7", "/proc/self/fd/10", "/proc/1/root", "/proc/1/cwd", "/proc/1/fd/3", "/proc/self/root", "..", "../../..", "", "/proc/self/cwd/../../..",
             f"{arena.project}/toroot", f"{arena.project}/pidroot", f"{arena.project}/up", w.skep_home, w.user_home, f"{w.top}/a", "/nonexistent", f"{arena.project}/README", "/root", "/" + "../" * 40]
    for d in tries:
        r = w.skep("exec", "-w", d, *arena.flags("default"), sid, "--", arena.inside, "inside", "T-006")
        if r.rc in (125, 126, 127, 2, 3):
            assert "T-006" not in r.out
        else:
            contained(r, "T-006")
    for d in ("/proc/self/fd/3", "/proc/1/root", "/proc/1/cwd"):
        r = w.skep("exec", "-w", d, sid, "--", "pwd")
        assert r.rc != 0 or not r.out.startswith(("/proc", "(unreachable)")), r.out


def test_helpers_survive_what_runs_them(arena, programs):
    """T-007: a script whose interpreter is the program that starts it (CVE-2019-5736)."""
    w = arena.world
    arena.control("T-007")
    names = ("skep", "skepd", "skep-cell", "skep-attack")
    before = {n: file_hash(f"{programs}/{n}") for n in names}
    sid = arena.box("default", "host")
    writer = "for i in $(seq 300); do for p in /proc/[0-9]*; do : 3<>$p/exe; echo x > $p/exe; done; done 2>/dev/null"
    script = "printf '#!/proc/self/exe\\n' > evil; chmod +x evil; ln -sf /proc/self/exe evil2"
    w.skep("exec", sid, "--", "sh", "-c", script).ok()
    xid = w.skep("exec", "-d", sid, "--", "sh", "-c", writer).ok().line
    for _ in range(30):
        for name in ("evil", "evil2", "/proc/self/exe", "/proc/1/exe"):
            path = name if name.startswith("/") else f"{arena.project}/{name}"
            w.skep("exec", sid, "--", path, "--nursery", timeout=20)
    w.skep("kill", xid, "--signal", "KILL")
    contained(arena.run("T-007", "exec"), "T-007")
    assert {n: file_hash(f"{programs}/{n}") for n in names} == before


# -- T-011 ------------------------------------------------------------------------------------------------------
HOSTILE = {
    "dev": ("dev",), "proc": ("proc",), "null": ("dev/null",), "console": ("dev/console",), "pts": ("dev/pts",), "shm": ("dev/shm",), "tmp": ("tmp",), "etc": ("etc",), "home": ("home",),
    "run": ("run",), "var": ("var",), "skep": (".skep",), "passwd": ("etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/machine-id"),
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("target", ("absolute", "relative"))
def test_hostile_image(arena, case, target):
    """T-011: an image ships links where we mount. Refused, or the masks are real; nothing is written through them."""
    w = arena.world
    arena.control("T-011")
    trap = f"{w.top}/trap-{case}-{target}"
    os.makedirs(f"{trap}/pts")
    for name in ("null", "hosts"):
        with open(f"{trap}/{name}", "w", encoding="ascii") as f:
            f.write("untouched\n")
    before = tree_hash(trap)
    d = make_rootfs(f"{w.top}/hostile-{case}-{target}")
    for name in HOSTILE[case]:
        path = f"{d}/{name}"
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)
        to = trap if "/" not in name else f"{trap}/{os.path.basename(name)}"
        os.symlink(to if target == "absolute" else "../" * 30 + to.lstrip("/"), path)
    r = w.skep("image", "import", d)
    if r.rc == 0:
        iid = r.line.split()[0]
        r = w.skep("run", "--image", iid, *arena.flags("default"), "--", arena.inside, "inside", "T-011")
        if r.rc != 125:
            contained(r, "T-011")
        else:
            assert "T-011" not in r.out
        for row in ("T-001", "T-010", "T-109"):
            r = w.skep("run", "--image", iid, *arena.flags("default"), "--", arena.inside, "inside", row)
            assert r.rc == 125 or contained(r, row)
        w.skep("image", "rm", iid)
    assert tree_hash(trap) == before, "something was written through the image's link"
    arena.unchanged()


# -- T-015, T-016 -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("profile", ("default", "root"))
def test_neighbours_do_not_see_each_other(arena, profile):
    w = arena.world
    word = f"neighbour{time.monotonic_ns() % 10**10}"
    r = w.skep("new", *arena.options(profile, "host"))
    refused(r, profile)
    other = r.ok().line
    live = f"for d in . /tmp /dev/shm /run $HOME; do echo x > $d/{word}; done 2>/dev/null; sleep 600; : {word}"
    xid = w.skep("exec", "-d", other, "--", "sh", "-c", live).ok().line
    wait_for(lambda: find_procs(word), why="the neighbour")
    env = {"SKEP_ATTACK_NEIGHBOUR": word, "SKEP_ATTACK_NEIGHBOUR_PATHS": f"{w.skep_home}/sandboxes/{other}:{w.skep_home}/layers:{w.skep_home}/run/cells"}
    arena.control("T-015", **env)
    for way in ("first", "exec"):
        contained(arena.run("T-015", way, profile, **env), "T-015")
        contained(arena.run("T-108", way, profile, **env), "T-108")
    assert find_procs(word), "the neighbour was ended"
    w.skep("kill", xid, "--signal", "KILL")
    w.skep("rm", "--force", other).ok()


def test_the_project_path_can_be_hidden(arena):
    """T-016: with --workspace-path nothing inside names the project's place on the host."""
    w = arena.world
    r = w.skep("run", "--workspace-path", "/workspace", "--", "sh", "-c", "env; cat /proc/self/mountinfo /proc/self/cgroup /etc/passwd /etc/hosts; pwd; ls /workspace >/dev/null")
    assert w.top not in r.ok().out and w.skep_home not in r.out
    flags = [x if not x.startswith("SKEP_ATTACK_WS=") else "SKEP_ATTACK_WS=/workspace" for x in arena.flags("default")]
    contained(w.skep("run", "--workspace-path", "/workspace", *flags, "--", "/workspace/skep-attack", "inside", "T-016"), "T-016")


def test_the_place_of_our_own_files_is_not_given_away(arena):
    """Below /.skep skep itself writes while it makes a cell: a mount there would lead those writes to the host."""
    w = arena.world
    d = f"{w.top}/given"
    os.makedirs(d)
    for options in (("--mount", f"{d}:/.skep:rw"), ("--mount", f"{d}:/.skep/below"), ("--workspace-path", "/.skep"), ("--workspace-path", "/.skep/id")):
        w.skep("run", *options, "--", "true").fails(125, "/.skep")
    assert not os.listdir(d)


# -- T-024, T-028 -----------------------------------------------------------------------------------------------
# Newer than the headers of the oldest distribution we build on. The kernel itself lets uretprobe and uprobe pass by any
# filter; called by a program they end it.
NEWER = {335: "uretprobe", 336: "uprobe", 450: "set_mempolicy_home_node", 451: "cachestat", 452: "fchmodat2", 453: "map_shadow_stack", 454: "futex_wake", 455: "futex_wait", 456: "futex_requeue",
         457: "statmount", 458: "listmount", 459: "lsm_get_self_attr", 460: "lsm_set_self_attr", 461: "lsm_list_modules", 462: "mseal", 463: "setxattrat", 464: "getxattrat", 465: "listxattrat",
         466: "removexattrat", 467: "open_tree_attr", 468: "file_getattr", 469: "file_setattr"}


def syscall_names():
    for path in ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm-generic/unistd.h"):
        if os.path.exists(path):
            with open(path, encoding="ascii") as f:
                return {**NEWER, **{int(n): name for name, n in re.findall(r"#define __NR_(\w+) (\d+)", f.read())}}
    pytest.skip("no kernel headers to name system calls by")


def published(profile):
    """Names docs/syscalls.md lets through for this machine."""
    with open(f"{ROOT}/docs/syscalls.md", encoding="utf-8") as f:
        text = f.read().split(f"## {os.uname().machine}", 1)[1].split("\n## ", 1)[0]
    names = set()
    for head, body in re.findall(r"\*\*(Allowed[^*]*)\*\*: ([^\n]*)", text):
        if "nested" not in head and "--root" not in head or "--root" in head and profile == "root":
            names |= set(re.sub(r" \(\d+\)$", "", body).split(", "))
    return names


@pytest.mark.parametrize("profile", ("default", "root"))
def test_reachable_system_calls_are_the_published_ones(arena, profile):
    arena.control("T-024")
    names = syscall_names()
    reached = facts(contained(arena.run("T-024", "first", profile), "T-024"))["map"]
    numbers = [4 * i + b for i, digit in enumerate(reached) for b in range(4) if int(digit, 16) >> b & 1]
    extra = {names.get(n, str(n)) for n in numbers} - published(profile) - {"uprobe"}
    assert not extra, f"reachable, not published: {sorted(extra)}"


@pytest.mark.parametrize("profile", ("default", "root"))
def test_status_is_honest(arena, profile):
    """T-028: what `show` says is what the kernel says inside, and no id is the host's root."""
    arena.control("T-028")
    w = arena.world
    sid = arena.box(profile, "host")
    f = facts(contained(arena.run("T-028", "exec", profile), "T-028"))
    iso = w.show(sid)["isolation"]
    assert f["NoNewPrivs"] == "1" and iso["no_new_privs"] is True
    assert f["Seccomp"] == "2" and iso["seccomp"] == len(published(profile))
    assert int(f["CapBnd"], 16) == int(iso["capabilities"], 16)
    if profile == "default":
        assert int(f["CapBnd"], 16) == 0 and not int(f["CapEff"], 16)
    assert iso["nested"] is False and f["unshare"] in ("EPERM", "ENOSPC")
    assert iso["trace"] is (f["ptrace"] != "EPERM")
    assert iso["groups_dropped"] is (f.get("Groups", "").strip(",") in ("", f["Gid"].split(",")[0]))
    assert 0 <= iso["landlock"] <= max(0, int(f["landlock"])) and (iso["landlock"] > 0) == (int(f["landlock"]) > 0)
    word = f"hold{time.monotonic_ns() % 10**10}"
    xid = w.skep("exec", "-d", sid, "--", "sh", "-c", f"sleep 600; : {word}").ok().line
    for pid in wait_for(lambda: find_procs(word), why="the process inside"):
        for line in open(f"/proc/{pid}/uid_map", encoding="ascii"):
            assert int(line.split()[1]) != 0, "the host's root is mapped"
        uid = re.search(r"^Uid:\s+(\d+)", open(f"/proc/{pid}/status", encoding="ascii").read(), re.M)[1]
        assert uid != "0", "a process inside is the host's root"
    w.skep("kill", xid, "--signal", "KILL")


# -- T-025 ------------------------------------------------------------------------------------------------------
def test_terminal_is_not_the_callers(arena, terminal, home):
    """On a real terminal: nothing is typed for the user, its modes come back, nothing writes to it afterwards."""
    arena.control("T-025")
    shutil.copy(arena.attack, f"{home.dir}/skep-attack")
    t = terminal("run", "--", "./skep-attack", "inside", "T-025")
    t.expect(r"T-025 CONTAINED[^\n]*")
    t.wait()
    assert t.restored()
    t = terminal("run", "--", "sh", "-c", "stty -echo raw; (trap '' HUP TERM; while sleep 0.1; do echo LATE; done) & echo now")
    t.expect("now")
    t.wait()
    t.seen = b""
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        t.pump(0.1)
    assert not t.seen and t.restored()


# -- T-027 ------------------------------------------------------------------------------------------------------
def ran(home):
    """True when the command inside left its mark, in whatever layer."""
    return any("skep-attack-ran" in files for _, _, files in os.walk(home.skep_home))


def started_without(home, wrap, *opts):
    argv = [*wrap, f"{home.programs}/skep", "run", "--keep", *opts, "--", "sh", "-c", "touch skep-attack-ran; ./skep-attack inside T-027; ./skep-attack inside T-018; ./skep-attack inside T-109"]
    p = subprocess.run(argv, cwd=home.dir, env=home.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
    home.watch()
    return p.returncode, p.stdout.decode(), p.stderr.decode()


@pytest.mark.dirty
def test_no_user_namespaces_no_run(home, arena):
    shutil.copy(arena.attack, f"{home.dir}/skep-attack")
    wrap = ["unshare", "--user", "--map-root-user", "sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"', "sh"]
    rc, out, err = started_without(home, wrap)
    assert rc == 125 and err.strip(), (rc, out, err)
    assert "CONTAINED" not in out and not ran(home), "it ran all the same"


@pytest.mark.dirty
@pytest.mark.parametrize("call", ("seccomp", "landlock_restrict_self", "pivot_root", "mount_setattr", "move_mount", "fsopen", "mount", "unshare", "capset", "prctl", "setns", "setresuid", "setgroups", "prlimit", "close_range", "clone3", "landlock"))
def test_a_missing_layer_means_no_run(home, arena, call):
    """T-027: one thing isolation is made of is refused by the kernel. Refused with a message, or there was another
    way to the same isolation, and then the probes inside find all of it."""
    shutil.copy(arena.attack, f"{home.dir}/skep-attack")
    rc, out, err = started_without(home, [arena.attack, "without", call])
    if rc == 125:
        assert err.strip() and not ran(home), f"refused, yet it ran: {err}"
        return
    assert out.count("CONTAINED") == 3, f"runs weaker without {call}: exit {rc}\n{out}{err}"
    if call == "landlock":  # recorded as absent, and a stricter floor refuses
        shown = [home.show(s["id"])["isolation"]["landlock"] for s in home.ps()]
        assert shown == [0]
        assert started_without(home, [arena.attack, "without", call], "--min-isolation", "strict")[0] != 0


# -- T-029, T-032, T-033 ----------------------------------------------------------------------------------------
HOSTILE_PROJECT = """mounts: ['%(home)s:/skep-attack-mount:rw', '/:/skep-attack-mount']
net: open
secrets: [EVERYTHING]
limits: {memory: 0, pids: 0}
env: {LD_PRELOAD: /tmp/x.so, GIT_SSH_COMMAND: touch /tmp/x}
setup: [touch %(top)s/host-command; false]
"""
NO_PROJECT = ("image: /", "mounts: [{src: /, dst: /skep-attack-mount, writable: true}]", "nested: true", "privileged: true", "min_isolation: none", "sandbox: off")


def test_a_hostile_project_file_changes_nothing(arena):
    w = arena.world
    d = f"{w.top}/hostile-project"
    os.makedirs(f"{d}/.devcontainer")
    shutil.copy(arena.attack, f"{d}/skep-attack")
    for line in NO_PROJECT:  # what no project can say is refused, not passed over
        with open(f"{d}/.skep.yaml", "w", encoding="ascii") as f:
            f.write(f"{line}\n")
        w.skep("run", "--", "true", cwd=d).fails(125, ".skep.yaml")
    with open(f"{d}/.skep.yaml", "w", encoding="ascii") as f:
        f.write(HOSTILE_PROJECT % {"home": w.user_home, "top": w.top})
    with open(f"{d}/.devcontainer/devcontainer.json", "w", encoding="ascii") as f:
        f.write('{"initializeCommand": "touch %s/host-command", "runArgs": ["--privileged"], "mounts": ["source=/,target=/skep-attack-mount,type=bind"]}' % w.top)
    with open(f"{d}/.envrc", "w", encoding="ascii") as f:
        f.write(f"touch {w.top}/host-command\n")
    r = w.skep("run", "--", "true", cwd=d)  # the command runs inside
    assert r.rc == 125 and "setup 1/1: touch" in r.err and not os.path.exists(f"{w.top}/host-command")
    flags = [x if not x.startswith("SKEP_ATTACK_WS=") else f"SKEP_ATTACK_WS={d}" for x in arena.flags("default")]
    contained(w.skep("run", "--no-setup", *flags, "--", f"{d}/skep-attack", "inside", "T-029", cwd=d), "T-029")
    assert not os.path.exists(f"{w.top}/host-command")


@pytest.mark.parametrize("profile", ("default", "root"))
def test_a_restart_gives_the_same_isolation(arena, profile):
    """T-032: stopped and started again, from another directory, with another umask."""
    w = arena.world
    r = w.skep("new", *arena.options(profile, "host"))
    refused(r, profile)
    sid = r.ok().line
    call = ("exec", *arena.flags(profile), sid, "--", arena.inside, "inside", "T-032")
    first = contained(w.skep(*call), "T-032")
    w.skep("stop", sid).ok()
    assert contained(w.skep(*call, cwd="/", umask=0), "T-032") == first
    w.skep("stop", sid).ok()
    assert contained(w.skep(*call, cwd=w.user_home), "T-032") == first
    w.skep("rm", "--force", sid).ok()


@pytest.mark.parametrize("end", ("stop", "rm", "run"))
@pytest.mark.parametrize("profile", ("default", "root"))
def test_nothing_survives_the_end(arena, end, profile):
    """T-033: deaf, stopped and forever forking processes are gone within 5 s, and the layer no longer changes."""
    arena.control("T-033")
    w = arena.world
    word = f"sv{time.monotonic_ns() % 10**10}"
    if end == "run":
        contained(arena.run("T-033", "first", profile, SKEP_ATTACK_SURVIVOR=word), "T-033")
    else:
        r = w.skep("new", *arena.options(profile, "host"))
        refused(r, profile)
        sid = r.ok().line
        contained(w.skep("exec", *arena.flags(profile, SKEP_ATTACK_SURVIVOR=word), sid, "--", arena.inside, "inside", "T-033"), "T-033")
        assert len(find_procs(f"skep-attack-survivor-{word}")) >= 2, "the survivors did not outlive their command"
        w.skep(*(("stop", sid) if end == "stop" else ("rm", "--force", sid))).ok()
    wait_for(lambda: not find_procs(f"skep-attack-survivor-{word}"), 5, why="every process to end")

    def beats():  # a removed layer is emptied meanwhile, so a file may go at any moment
        found = {}
        for at, _, files in os.walk(f"{w.skep_home}/layers"):
            if "skep-attack-beat" in files:
                with contextlib.suppress(OSError):
                    st = os.stat(f"{at}/skep-attack-beat")
                    found[st.st_ino] = st.st_size
        return found

    seen = beats()
    time.sleep(0.3)
    assert beats().items() <= seen.items(), "the layer still changes"
    if end == "stop":
        w.skep("rm", "--force", sid).ok()


# -- T-082 .. T-086: the neighbour and the host stay usable -----------------------------------------------------
class Victim:
    """Runs one resource row in the background and looks at everybody else meanwhile."""

    def __init__(self, arena, row, *opts, profile="default", **env):
        self.w, self.row = arena.world, row
        arena.control(row, **env)
        r = self.w.skep("new", *arena.options(profile, "host"), *opts)
        refused(r, profile)
        self.sid = r.ok().line
        self.other = arena.box("default", "host")
        self.p = self.w.popen("exec", *arena.flags(profile, **env), self.sid, "--", arena.inside, "inside", row)

    def watch(self, seconds):
        """The verdict's line, or None when the cell was frozen or ended by its limit."""
        worst, end = 0.0, time.monotonic() + seconds
        while self.p.poll() is None and time.monotonic() < end:
            start = time.monotonic()
            assert self.w.skep("exec", self.other, "--", "echo", "alive").ok().line == "alive"
            worst = max(worst, time.monotonic() - start)
            time.sleep(0.2)
        assert worst < 5, f"a neighbour waited {worst:.1f} s"
        if self.p.poll() is None:
            self.p.kill()
        out, _ = self.p.communicate()
        lines = out.decode().strip().splitlines()
        return lines[-1] if lines else None

    def hits(self, word):
        return [e for e in self.w.journal(self.sid) if e["type"] == "limit.hit" and word in str(e).lower()]

    def judge(self, line, word):
        """A verdict, or a limit.hit that names the limit: an ESCAPED is never excused."""
        assert line is None or " ESCAPED " not in line, line
        assert (line and f"{self.row} CONTAINED" in line) or self.hits(word), f"no verdict and no limit.hit: {line}"
        assert self.w.skepd_pid(), "skepd is gone"
        self.w.skep("rm", "--force", self.sid).ok()


@pytest.mark.slow
@pytest.mark.parametrize("profile", ("default", "root"))
def test_fork_bomb(arena, profile):
    v = Victim(arena, "T-082", "--pids", "128", profile=profile, SKEP_ATTACK_PIDS="128")
    line = v.watch(40)
    wait_for(lambda: v.hits("pids"), 5, why="a limit.hit event for pids")
    v.judge(line, "pids")


@pytest.mark.slow
@pytest.mark.parametrize("profile", ("default", "root"))
def test_memory_hog(arena, profile):
    v = Victim(arena, "T-083", "--memory", "128M", profile=profile, SKEP_ATTACK_MEM=str(128 * MIB))
    line = v.watch(60)
    wait_for(lambda: v.hits("memory"), 5, why="a limit.hit event for memory")
    v.judge(line, "memory")


@pytest.mark.slow
def test_disk_filler(arena):
    free = shutil.disk_usage(arena.world.skep_home).free
    assert free > 6 << 30, "too little free space to fill anything safely"
    v = Victim(arena, "T-084", "--disk", "96M", SKEP_ATTACK_DISK=str(96 * MIB), SKEP_ATTACK_TMP=str(1200 * MIB))
    v.judge(v.watch(60), "disk")
    assert shutil.disk_usage(arena.world.skep_home).free > free - (3 << 30), "the host lost more than the limit and its grace"


@pytest.mark.slow
def test_output_flood(arena):
    """T-086: 1 GiB with nobody reading. The command ends, little is kept, absolute offsets tell how much there was."""
    w = arena.world
    sid = w.new()
    flags = arena.flags("default", SKEP_ATTACK_OUTPUT=str(1024 * MIB))
    xid = w.skep("exec", "-d", *flags, sid, "--", arena.inside, "inside", "T-086").ok().line
    row = wait_for(lambda: (e := w.exec_row(xid))["state"] == "exited" and e, 120, 0.2, "the flood to end")
    assert row["bytes"]["stderr"] >= 1024 * MIB
    kept = sum(os.path.getsize(f"{at}/{f}") for at, _, fs in os.walk(f"{w.skep_home}/sandboxes") for f in fs)
    assert kept < 200 * MIB, f"{kept >> 20} MiB kept"
    _, head, _ = w.api_raw("GET", f"/v1/execs/{xid}/output?stream=stderr&offset=0")
    assert int(head["X-Skep-Offset"]) > 0, "the gap is not marked"
    w.skep("rm", "--force", sid).ok()


def test_limits_are_in_the_journal_once_each(arena):
    """Every limit.hit above was written by our code as a record with time and sandbox; the chain still holds."""
    w = arena.world
    for s in w.ps():
        assert w.skep("log", s["id"], "--verify").rc == 0


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q"]))
