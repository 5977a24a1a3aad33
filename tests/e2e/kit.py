# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: a caller's world, the skep command in it, terminals, and the search for leftovers."""
import fcntl
import glob
import http.client
import json
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import time
from dataclasses import dataclass

# A script's background job starts with these ignored, and what is ignored stays so in every program that we start.
for _sig, _how in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
    if signal.getsignal(_sig) == signal.SIG_IGN:
        signal.signal(_sig, _how)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
IS_ROOT = os.getuid() == 0
ID = re.compile(r"^[a-z][a-z0-9]{11,19}$")
CGROUPS = "/sys/fs/cgroup"
# Other people's sandboxes may come and go on a shared machine; then only what is surely ours counts.
SHARED = os.environ.get("SKEP_TEST_SHARED") == "1"
STASH = os.environ.get("SKEP_TEST_STASH", "")
# Where a skepd that was built with sanitizers writes its reports. tools/run-tests fails when there is one.
REPORTS = os.environ.get("SKEP_TEST_REPORTS", "")
QUARANTINE = 64  # MiB of freed memory that it keeps, to see who still uses it
HELD = 512 << 20 if REPORTS else 0  # bytes that it may have more than another one


def wait_for(what, seconds=10.0, step=0.02, why="condition"):
    """The first true value of what(); fails loudly at the deadline."""
    end = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        assert time.monotonic() < end, f"timed out after {seconds} s waiting for {why}"
        time.sleep(step)


def write_all(pipe, data):
    """Every byte, to a pipe without a buffer (Home.popen): a write of such a pipe that a signal interrupts (SIGCHLD, while another
    thread starts a program) returns early, and Popen.communicate without a timeout drops the rest."""
    view = memoryview(data)
    while view:
        view = view[pipe.write(view):]


def text(b):
    return b.decode("utf-8", "surrogateescape")


@dataclass
class Result:
    argv: list
    rc: int
    out_b: bytes
    err_b: bytes

    @property
    def what(self):
        return "skep " + " ".join(self.argv)[:300]

    @property
    def out(self):
        return text(self.out_b)

    @property
    def err(self):
        return text(self.err_b)

    @property
    def line(self):
        return self.out.strip()

    def ok(self):
        assert self.rc == 0, f"{self.what}: exit {self.rc}\n{self.out[-2000:]}{self.err[-2000:]}"
        return self

    def fails(self, rc, *words):
        """Failed with this status, in one clear line, that names each of the words."""
        assert self.rc == rc, f"{self.what}: exit {self.rc}, not {rc}\n{self.out[-2000:]}{self.err[-2000:]}"
        lines = [x for x in self.err.splitlines() if x.strip()]
        assert len(lines) == 1, f"{self.what}: not one line on stderr:\n{self.err}"
        for w in words:
            assert w.lower() in self.err.lower(), f"{self.what}: no {w!r} in {self.err!r}"
        return self

    def json(self):
        self.ok()
        return json.loads(self.out_b)


def items(value, key):
    """A list, bare or below its key."""
    return value[key] if isinstance(value, dict) else value


class World:
    """One caller: a short temporary directory with SKEP_HOME (s), HOME (h) and a project (p)."""

    def __init__(self, programs):
        self.programs = programs
        self.top = tempfile.mkdtemp(prefix="sk", dir=os.environ.get("SKEP_TEST_TMP", "/tmp"))
        self.skep_home = f"{self.top}/s"
        self.user_home = f"{self.top}/h"
        self.dir = f"{self.top}/p"
        for d in (self.user_home, self.dir):
            os.mkdir(d)
        self.env = {
            "PATH": f"{programs}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": self.user_home,
            "SKEP_HOME": self.skep_home,
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "USER": "root" if IS_ROOT else "tester",
        }
        if REPORTS:  # tests kill skepd: what it had not freed then is no leak
            self.env["ASAN_OPTIONS"] = f"log_path={REPORTS}/skepd:detect_leaks=0:handle_abort=1:quarantine_size_mb={QUARANTINE}"
        self.before = Leftovers(self)
        self.started = []  # processes a test started by itself, to be reaped
        self.lent = False
        self.looked = {}
        self.seen = {}  # (pid, start) -> name, of every process that was ever below our skepd

    # -- the ownership layer of rootless --root: a copy of every directory of the system, the same for every SKEP_HOME ------
    def lend(self):
        self.lent = True
        for d in glob.glob(f"{STASH}/*/own-*") if STASH and not IS_ROOT else []:
            os.makedirs(f"{self.skep_home}/images", 0o700, exist_ok=True)
            try:
                os.rename(d, f"{self.skep_home}/images/{os.path.basename(d)}")
                return
            except OSError:
                pass  # another test was faster

    def give_back(self):
        for d in glob.glob(f"{self.skep_home}/images/own-*") if STASH and not IS_ROOT else []:
            if not d.endswith(".partial"):
                os.rename(d, f"{tempfile.mkdtemp(dir=STASH)}/{os.path.basename(d)}")

    # -- the command ------------------------------------------------------------------------------------------
    def popen(self, *args, cwd=None, env=None, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        if "--root" in args and not self.lent:
            self.lend()
        kw.setdefault("bufsize", 0)  # what a test reads ahead must not be lost to communicate()
        return subprocess.Popen([f"{self.programs}/skep", *args], cwd=cwd or self.dir, env={**self.env, **(env or {})}, **kw)

    def skep(self, *args, stdin=None, cwd=None, env=None, timeout=60, umask=-1):
        p = self.popen(*args, cwd=cwd, env=env, umask=umask, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE)
        try:
            out, err = p.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
            raise AssertionError(f"skep {str(args)[:300]}: still running after {timeout} s\n{text(out[-2000:])}{text(err[-2000:])}")
        self.watch()
        assert p.returncode >= 0, f"skep {str(args)[:300]}: killed by signal {-p.returncode}\n{text(err[-2000:])}"
        return Result(list(args), p.returncode, out, err)

    def new(self, *args, **kw):
        """The id of a new sandbox on the project."""
        sid = self.skep("new", *args, **kw).ok().line
        assert ID.match(sid), sid
        return sid

    def show(self, sid):
        return self.skep("show", "--json", sid).json()

    def ps(self):
        return items(self.skep("ps", "--json").json(), "sandboxes")

    def exec_row(self, xid):
        return self.api("GET", f"/v1/execs/{xid}")[1]

    def journal(self, sid):
        return [json.loads(x) for x in self.skep("log", sid, "--json").ok().out_b.splitlines() if x.strip()]

    # -- the API --------------------------------------------------------------------------------------------
    def api(self, method, path, body=None, timeout=30):
        """(status, decoded body) of one request to skepd, which must be running."""
        status, _, data = self.api_raw(method, path, body, timeout)
        return status, json.loads(data) if data.strip() else None

    def api_raw(self, method, path, body=None, timeout=30):
        run = os.open(f"{self.skep_home}/run", os.O_PATH | os.O_DIRECTORY)  # the path may be too long for a socket
        try:
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(timeout)
            s.connect(f"/proc/self/fd/{run}/skepd.sock")
        finally:
            os.close(run)
        c = http.client.HTTPConnection("localhost", timeout=timeout)
        c.sock = s
        try:
            data = None if body is None else json.dumps(body).encode()
            c.request(method, path, data, {"Content-Type": "application/json"} if data else {})
            r = c.getresponse()
            return r.status, dict(r.getheaders()), r.read()
        finally:
            c.close()

    def skepd_pid(self):
        """The daemon's pid, or None when none answers."""
        try:
            return self.api("GET", "/v1/version")[1]["pid"]
        except OSError:
            return None

    def kill_skepd(self):
        pid = self.skepd_pid()
        self.watch()
        start = proc_start(pid)
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: proc_start(pid) != start or proc_state(pid) == "Z", why="skepd to die")

    def cell_pid(self, sid):
        """The pid of the skep-cell process that holds the sandbox's cell: above every process inside."""
        marker = f"6{time.monotonic_ns() % 10**12}"
        xid = self.skep("exec", "-d", sid, "--", "sleep", marker).ok().line
        pid = wait_for(lambda: [p for p in find_procs(marker) if depth(p) > 1], why="the marker process")[0]
        while depth(pid) > 1:
            pid = proc_stat(pid)[1]
        self.skep("kill", xid, "KILL").ok()
        wait_for(lambda: not find_procs(marker), why="the marker process to go")
        return pid

    # -- leftovers --------------------------------------------------------------------------------------------
    def watch(self):
        """Remembers every process that now descends from something that names our SKEP_HOME."""
        table = proc_table()
        mine = {p for p in table if self.names_us(p, table[p])} | {p for (p, s) in self.seen if p in table and table[p][1] == s}
        grown = True
        while grown:
            grown = False
            for p, (parent, _, _) in table.items():
                if parent in mine and p not in mine:
                    mine.add(p)
                    grown = True
        mine.discard(os.getpid())
        for p in mine:
            self.seen[(p, table[p][1])] = table[p][2]

    def names_us(self, pid, entry):
        """What a process was started with changes only with its name, by exec: each is read once."""
        key = (pid, entry[1], entry[2])
        if key not in self.looked:
            self.looked[key] = pid != os.getpid() and any(self.skep_home.encode() in read_proc(pid, f) for f in ("cmdline", "environ"))
        return self.looked[key]

    def alive(self):
        """Cheap as long as one that is known lives; who else there may be is looked for only then."""
        known = self.known_alive()
        if known:
            return known
        self.watch()
        return self.known_alive()

    def known_alive(self):
        return {f"{p} {n}" for (p, s), n in self.seen.items() if proc_start(p) == s and proc_state(p) != "Z"}

    def stop_all(self):
        if self.ps():
            self.skep("rm", "--all", "--force", timeout=120).ok()
        named = [n["id"] for n in self.skep("snapshots", "--all", "--json").json()["snapshots"]]  # these outlive their sandbox
        if named:
            self.skep("snapshot", "rm", *named).ok()

    def fd_count(self, pid):
        try:
            return len(os.listdir(f"/proc/{pid}/fd"))
        except PermissionError:
            return None  # not dumpable: another test, as root, counts

    def check_fds(self):
        """An operation leaves skepd with as many descriptors as before it."""
        pid = self.skepd_pid()
        empty = f"{self.top}/fdcheck"
        os.makedirs(empty, exist_ok=True)

        def operation():
            sid = self.skep("new", "--empty", cwd=empty).ok().line
            self.skep("exec", sid, "--", "true", cwd=empty).ok()
            self.skep("rm", "--force", sid, cwd=empty).ok()

        def settle():  # a waiting slot is one descriptor and one socket of its own; the pool grows and shrinks
            fds = self.fd_count(pid)
            return None if fds is None else fds - len([n for n in os.listdir(f"{self.skep_home}/run/cells") if n.startswith(".slot-")])

        if settle() is None:
            return
        operation()  # the first one may open what stays open
        # The pool's own descriptors come and go beside their sockets, so one look may be off by a few; a leak grows every time.
        for _ in range(20):
            before = settle()
            operation()
            for _ in range(20):
                if settle() <= before:
                    return
                time.sleep(0.01)
        raise AssertionError(f"each new, exec and rm leaves skepd with more descriptors; now {fd_list(pid)}")

    def check_reaped(self):
        """Whoever of ours ended is gone from the table of processes, too."""
        first = dead_children()
        if not first:
            return
        self.watch()
        mine = {d for d in first if d in self.seen}
        wait_for(lambda: not mine & dead_children(), 5, 0.05, why=f"dead children of our processes to be reaped: {sorted(mine)}")

    def close(self, check=True):
        """Ends everything; then nothing of ours may be left."""
        problems = []
        try:
            if os.path.exists(f"{self.skep_home}/state.db"):
                if check:
                    self.check_reaped()
                self.stop_all()
                if check:
                    self.check_fds()
        except (AssertionError, OSError, ValueError, KeyError) as e:
            problems.append(f"teardown: {e}")
        try:
            if self.skepd_pid():
                self.watch()
                self.api("POST", "/v1/shutdown", {})
        except (OSError, ValueError, KeyError) as e:
            problems.append(f"shutdown: {e}")
        try:
            wait_for(lambda: not self.alive(), 25, 0.05)  # a cell waits 10 s for a client it was promised
        except AssertionError:
            problems.append(f"stray processes: {sorted(self.alive())}")
            self.kill_strays()
        if not problems:
            problems += self.before.added()
        for p in self.started:
            p.wait(10)
        self.give_back()
        remove_tree(self.top)
        if check:
            assert not problems, "\n".join(problems)

    def kill_strays(self):
        for _ in range(20):
            live = [(p, s) for (p, s) in self.seen if proc_start(p) == s and proc_state(p) != "Z"]
            if not live:
                return
            for p, _ in live:
                try:
                    os.kill(p, signal.SIGKILL)
                except OSError:
                    pass
            time.sleep(0.05)


class Leftovers:
    """Mounts, cgroups, sockets and shared memory that exist now."""

    def __init__(self, world):
        self.world = world
        self.cgroups = cgroup_dirs()

    def added(self):
        w, found = self.world, []
        with open("/proc/self/mountinfo") as f:
            found += [f"mount: {x.strip()}" for x in f if w.top in x]
        if not SHARED:
            deadline = time.monotonic() + 5
            while cgroup_dirs() - self.cgroups and time.monotonic() < deadline:
                time.sleep(0.05)
            found += [f"cgroup: {x}" for x in sorted(cgroup_dirs() - self.cgroups)]
        deadline = time.monotonic() + 15  # the same holds for one whose daemon died before it could be seen
        while glob.glob(f"{w.skep_home}/run/cells/*") and time.monotonic() < deadline:
            time.sleep(0.05)
        found += [f"socket: {x}" for x in glob.glob(f"{w.skep_home}/run/cells/*")]
        for d in ("layers", "sandboxes"):
            found += [f"{d}: {x}" for x in glob.glob(f"{w.skep_home}/{d}/*") if not kept(x)]
        return found


def kept(path):
    """Of a removed sandbox only its journal stays, for 30 days."""
    if not os.path.isdir(path):
        return True
    inside = [f for _, _, fs in os.walk(path) for f in fs]
    return all("journal" in f or f.startswith("meta") for f in inside)


def cgroup_dirs():
    return {d for d, _, _ in os.walk(CGROUPS) if os.path.basename(d).startswith("skep")}


def remove_tree(top):
    """As the user; what a sandbox made below a subordinate uid needs the user's own id range to go."""
    shutil.rmtree(top, ignore_errors=True)
    if os.path.exists(top) and not IS_ROOT:
        subprocess.run(["unshare", "--map-auto", "--map-root-user", "rm", "-rf", top], stderr=subprocess.DEVNULL, check=False)


# -- /proc ----------------------------------------------------------------------------------------------------
def proc_stat(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            head, _, tail = f.read().rpartition(b")")
    except OSError:
        return None
    fields = tail.split()
    return fields[0].decode(), int(fields[1]), int(fields[19]), head.split(b"(", 1)[1].decode("utf-8", "replace")


def proc_start(pid):
    s = proc_stat(pid)
    return s[2] if s else None


def proc_state(pid):
    s = proc_stat(pid)
    return s[0] if s else None


def read_proc(pid, name):
    try:
        with open(f"/proc/{pid}/{name}", "rb") as f:
            return f.read()
    except OSError:
        return b""


def proc_table():
    """{pid: (parent, start, comm)}"""
    table = {}
    for p in os.listdir("/proc"):
        if p.isdigit():
            s = proc_stat(p)
            if s:
                table[int(p)] = (s[1], s[2], s[3])
    return table


def dead_children():
    """{(pid, start)} of those that ended and were not reaped by one of our programs."""
    dead = set()
    for p in os.listdir("/proc"):
        s = proc_stat(p) if p.isdigit() else None
        if s and s[0] == "Z":
            parent = proc_stat(s[1])
            if parent and parent[3].startswith("skep"):
                dead.add((int(p), s[2]))
    return dead


def fd_list(pid):
    out = []
    for f in glob.glob(f"/proc/{pid}/fd/*"):
        try:
            out.append(os.readlink(f))
        except OSError:
            pass
    return sorted(out)


def depth(pid):
    """In how many pid namespaces, from ours down, the process is seen; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as f:
            return next((len(x.split()) - 1 for x in f if x.startswith("NSpid:")), 0)
    except OSError:
        return 0


def is_ours(uid):
    """Root's tests and an ordinary user's run side by side: cells of root have ids of their own, far above a user's."""
    if IS_ROOT:
        return uid == 0 or uid >= 500_000_000
    return uid == os.getuid() or 65536 <= uid < 500_000_000


def find_procs(marker):
    """Pids of processes whose command line contains the marker (a string a test put there), but this one."""
    found = []
    for p in os.listdir("/proc"):
        if p.isdigit() and int(p) != os.getpid():
            try:
                with open(f"/proc/{p}/cmdline", "rb") as f:
                    if marker.encode() in f.read() and is_ours(os.fstat(f.fileno()).st_uid):
                        found.append(int(p))
            except OSError:
                pass
    return found


# -- terminals ------------------------------------------------------------------------------------------------
class Terminal:
    """A command on its own pseudo terminal."""

    def __init__(self, argv, cwd, env, rows=24, cols=80):
        self.master, self.slave = os.openpty()
        self.resize(rows, cols)
        self.modes = termios.tcgetattr(self.slave)
        self.seen = b""

        def own_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.proc = subprocess.Popen(argv, cwd=cwd, env=env, stdin=self.slave, stdout=self.slave, stderr=self.slave, preexec_fn=own_terminal)

    def resize(self, rows, cols):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def send(self, s):
        os.write(self.master, s.encode() if isinstance(s, str) else s)

    def pump(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            try:
                self.seen += os.read(self.master, 65536)
            except OSError:
                return False
        return True

    def expect(self, pattern, seconds=15):
        """Waits until the screen's bytes match; drops them up to the end of the match, which is returned."""
        end = time.monotonic() + seconds
        rx = re.compile(pattern.encode() if isinstance(pattern, str) else pattern, re.S)
        while True:
            m = rx.search(self.seen)
            if m:
                self.seen = self.seen[m.end():]
                return m
            assert time.monotonic() < end, f"no {pattern!r} on the terminal; there is: {self.seen[-2000:]!r}"
            self.pump(0.05)

    def wait(self, seconds=15):
        """The exit status, reading along so that the command never blocks on us."""
        end = time.monotonic() + seconds
        while self.proc.poll() is None:
            assert time.monotonic() < end, f"still running; on the terminal: {self.seen[-2000:]!r}"
            self.pump(0.05)
        while select.select([self.master], [], [], 0.05)[0]:
            self.pump(0)
        return self.proc.returncode

    def restored(self):
        return termios.tcgetattr(self.slave) == self.modes

    def close(self):
        if self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait()
        os.close(self.master)
        os.close(self.slave)
