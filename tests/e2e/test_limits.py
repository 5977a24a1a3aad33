# SPDX-License-Identifier: Apache-2.0
"""Limits: each one holds, leaves a limit.hit event and a plain message, and the sandbox stays usable."""
import os
import resource
import signal
import subprocess
import textwrap
import time

import pytest

from kit import depth, find_procs, proc_stat, proc_state, proc_table, wait_for

HOG = "python3 -c \"b=[]\nwhile True: b.append(bytearray(b'x'*(8<<20)))\""


def hits(home, sid):
    return [e for e in home.journal(sid) if e["type"] == "limit.hit"]


def hit(home, sid, word):
    """Waits for a limit.hit event that names the limit."""
    return wait_for(lambda: [e for e in hits(home, sid) if word in str(e).lower()], why=f"limit.hit {word}")


def usable(home, sid):
    assert home.skep("exec", sid, "--", "echo", "usable").ok().line == "usable"


def test_memory(home, skep):
    sid = home.new("--memory", "128M")
    r = skep("exec", sid, "--", "sh", "-c", HOG)
    assert r.rc != 0
    hit(home, sid, "memory")
    usable(home, sid)


def test_memory_counts_what_tmpfs_holds(home, skep):
    sid = home.new("--memory", "128M")
    r = skep("exec", sid, "--", "sh", "-c", "head -c 400M /dev/zero > /tmp/big; rm -f /tmp/big; head -c 400M /dev/zero > /dev/shm/big")
    assert r.rc != 0
    skep("stop", sid).ok()
    usable(home, sid)


def test_neighbour_and_host_stay_responsive_under_a_hog(home, skep):
    sid, other = home.new("--memory", "256M", "--pids", "64"), home.new()
    skep("start", other).ok()
    x = [skep("exec", "-d", sid, "--", "sh", "-c", c).ok().line for c in (HOG, "f() { f | f & }; f; sleep 20", "yes")]
    start = time.monotonic()
    usable(home, other)
    assert time.monotonic() - start < 10
    for i in x:
        skep("kill", i, "KILL")
    usable(home, sid)


def test_pids(home, skep):
    sid = home.new("--pids", "32")
    r = skep("exec", sid, "--", "sh", "-c", "i=0; while [ $i -lt 100 ]; do sleep 3 & i=$((i+1)); done; wait")
    assert r.rc != 0 or "fork" in r.err.lower()
    hit(home, sid, "pids")
    wait_for(lambda: skep("exec", sid, "--", "true").rc == 0, 15, 0.3)


MANY_USERS = """
import os, time
for uid in range(1, 13):
    if not os.fork():
        os.setgid(uid)
        os.setuid(uid)
        for i in range(20):
            if not os.fork():
                break
        time.sleep(60)
time.sleep(60)
"""


def test_pids_of_many_users(home, skep):
    """Root of a cell can be everybody in it; its limit counts them together."""
    sid = home.new("--root", "--pids", "32")
    skep("exec", "-d", sid, "--", "/usr/bin/python3", "-c", MANY_USERS, f"crowd of {sid}").ok()
    hit(home, sid, "pids")
    wait_for(lambda: len(find_procs(f"crowd of {sid}")) <= 32, why="the crowd to be no more than it may")
    skep("stop", sid).ok()
    usable(home, sid)


def test_fork_bomb(home, skep):
    sid = home.new("--pids", "100")
    xid = skep("exec", "-d", sid, "--", "bash", "-c", ":(){ :|:& };:; sleep 30").ok().line
    hit(home, sid, "pids")
    skep("stop", sid).ok()
    assert not find_procs(":(){ :|:& };:")
    usable(home, sid)
    assert home.exec_row(xid)["state"] == "exited"


def test_disk(home, skep):
    sid = home.new("--disk", "64M")
    skep("exec", sid, "--", "sh", "-c", "head -c 400M /dev/zero > big; sleep 1; head -c 400M /dev/zero > big2", timeout=60)
    hit(home, sid, "disk")
    r = wait_for(lambda: (lambda x: x.rc == 0 and x)(skep("exec", sid, "--", "sh", "-c", "rm -f big big2; echo free")), 20, 0.5, "room to be made")
    assert r.line.endswith("free")
    usable(home, sid)


def test_looking_at_the_disk_leaves_no_dead(home, skep):
    """Each look is a process of the supervisor's own; a cell may live for months."""
    sid = home.new("--disk", "1G")
    home.skep("exec", sid, "--", "sh", "-c", "for i in 1 2 3 4 5 6; do dd if=/dev/zero of=f$i bs=1M count=20 status=none; sleep 0.5; done").ok()
    cell = home.cell_pid(sid)
    wait_for(lambda: not [p for p, (parent, _, _) in proc_table().items() if parent == cell and proc_state(p) == "Z"], 5, why="its children to be reaped")


def test_disk_in_the_home_counts_too(home, skep):
    sid = home.new("--disk", "32M")
    skep("exec", sid, "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do head -c 30M /dev/zero > ~/big$i || exit 1; sleep 0.5; done", timeout=60)
    hit(home, sid, "disk")


# Memory that no process has as its own.
ELSEWHERE = {
    "memfd": "import os, time\nkept = []\nfor i in range(80):\n    kept.append(os.memfd_create('m'))\n    os.write(kept[-1], b'x' * (8 << 20))\n    time.sleep(0.05)\n",
    "segments": "import ctypes, time\nlibc = ctypes.CDLL(None)\nlibc.shmat.restype = ctypes.c_void_p\nfor i in range(80):\n    s = libc.shmget(0, 8 << 20, 0o1600)\n    p = libc.shmat(s, None, 0)\n    ctypes.memset(p, 1, 8 << 20)\n    libc.shmdt(ctypes.c_void_p(p))\n    time.sleep(0.05)\n",
}


@pytest.mark.parametrize("how", ELSEWHERE)
def test_memory_that_hides(home, skep, how):
    sid = home.new("--memory", "128M")
    xid = skep("exec", "-d", sid, "--", "python3", "-c", ELSEWHERE[how]).ok().line
    hit(home, sid, "memory")
    assert wait_for(lambda: (lambda r: r["state"] == "exited" and r)(home.exec_row(xid)))["status"] != 0
    usable(home, sid)


UNREAD = """
import socket, time
listener = socket.create_server(("127.0.0.1", 0), backlog=200)
kept, total, moved = [], 0, True
for i in range(120):
    kept += [socket.create_connection(listener.getsockname()), listener.accept()[0]]
    kept[-2].setblocking(False)
block = bytes(1 << 18)
while moved and total < 500 << 20:
    moved = 0
    for s in kept[::2]:
        try:
            moved += s.send(block)
        except BlockingIOError:
            pass
    total += moved
print(total >> 20, flush=True)
time.sleep(60)
"""


def test_memory_in_sockets(home, skep):
    """What nobody reads is the kernel's memory: a control group refuses it past its limit, else its owner is killed."""
    sid = home.new("--memory", "128M")
    xid = skep("exec", "-d", sid, "--", "python3", "-c", UNREAD).ok().line
    full = wait_for(lambda: skep("logs", xid).out.strip() or home.exec_row(xid)["state"] == "exited", 60, 0.3, "the sockets to be full")
    if full is True or int(full) > 128:
        hit(home, sid, "memory")
        assert wait_for(lambda: (lambda r: r["state"] == "exited" and r)(home.exec_row(xid)))["status"] != 0
    usable(home, sid)


# What only looks like much memory, inside 128 MiB.
MODEST = {
    "reserved": "import mmap\nm = mmap.mmap(-1, 20 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)\nm[:1 << 20] = bytes(1 << 20)\n",
    "forked": "import os, time\nb = bytearray(b'x') * (70 << 20)\npids = []\nfor i in range(6):\n    pids.append(os.fork())\n    if not pids[-1]:\n        time.sleep(2)\n        os._exit(0)\nassert not any(os.waitpid(p, 0)[1] for p in pids)\n",
    "spawned": "import subprocess\nb = bytearray(b'x') * (90 << 20)\nfor i in range(100):\n    subprocess.run(['/bin/true'], check=True)\n",
}


@pytest.mark.parametrize("how", MODEST)
def test_memory_that_is_not_used(home, skep, how):
    sid = home.new("--memory", "128M")
    skep("exec", sid, "--", "/usr/bin/python3", "-c", MODEST[how]).ok()
    assert not hits(home, sid)


def test_address_sanitizer(home, skep):
    """Maps twenty terabytes, and uses a few megabytes of them."""
    with open(f"{home.dir}/a.c", "w", encoding="ascii") as f:
        f.write("#include <stdlib.h>\n#include <string.h>\nint main(void) { char *p = malloc(1 << 20); memset(p, 1, 1 << 20); free(p); return 7; }\n")
    subprocess.run(["cc", "-fsanitize=address", "-o", f"{home.dir}/a", f"{home.dir}/a.c"], check=True, timeout=60)
    sid = home.new("--memory", "256M")
    r = skep("exec", sid, "--", "./a")
    assert r.rc == 7, r.err


def test_many_that_take_memory_at_once(home, skep):
    sid = home.new("--memory", "128M")
    grow = "import os\nfor i in range(5):\n    os.fork()\nb = []\nwhile True:\n    b.append(bytearray(b'x') * (4 << 20))\n"
    xid = skep("exec", "-d", sid, "--", "/usr/bin/python3", "-c", grow, f"greedy {sid}").ok().line
    hit(home, sid, "memory")
    wait_for(lambda: not find_procs(f"greedy {sid}"), 60, 0.2, "all of them to be ended")
    wait_for(lambda: home.exec_row(xid)["state"] == "exited")
    usable(home, sid)


def test_queues_count_as_memory(home, skep):
    """Messages and semaphores that no process holds."""
    fill = "import ctypes\nlibc = ctypes.CDLL(None)\nfor i in range(2000):\n    if libc.semget(0, 8000, 0o1600) < 0:\n        break\nprint(i, flush=True)\nimport time; time.sleep(60)\n"
    sid = home.new("--memory", "128M")
    xid = skep("exec", "-d", sid, "--", "python3", "-c", fill).ok().line
    hit(home, sid, "memory")
    assert wait_for(lambda: (lambda r: r["state"] == "exited" and r)(home.exec_row(xid)))["status"] != 0
    usable(home, sid)


# A writer that does not want to be seen. Each fills until it is stopped, in steps that leave time to look.
FILL = """
block = os.urandom(1 << 20)
for i in range(600):
    with open("f%d" % i, "wb") as f:
        f.write(block)
    time.sleep(0.01)
open("/tmp/got-away", "w").close()
"""
UNNAMED = """
kept = []
block = os.urandom(1 << 20)
for i in range(600):
    kept.append(f := open('u%d' % i, 'wb', buffering=0))
    os.unlink('u%d' % i)
    f.write(block)
    time.sleep(0.01)
open("/tmp/got-away", "w").close()
"""
# A thread by clone(2) without CLONE_FILES: its table of descriptors is its own.
OWN_FILES = """
import ctypes
def alone(fn):
    libc = ctypes.CDLL(None)
    stack = ctypes.create_string_buffer(1 << 20)
    run = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda _: fn() or 0)
    libc.clone(run, ctypes.c_void_p(ctypes.addressof(stack) + (1 << 20)), 0x100 | 0x200 | 0x800 | 0x10000, None)
    time.sleep(60)
"""
EVASIONS = {
    "far below": "for i in range(260):\n    os.mkdir('d')\n    os.chdir('d')\n" + FILL,
    "too far below": "for i in range(1100):\n    os.mkdir('d')\n    os.chdir('d')\n" + FILL,
    "without a name": UNNAMED,
    "by one that nobody may look into": "import ctypes\nctypes.CDLL(None).prctl(4, 0)\n" + UNNAMED,
    "by a thread that shares no descriptors": OWN_FILES + "def fill():\n" + textwrap.indent(UNNAMED, "    ") + "alone(fill)\n",
    "in no exec": "for i in range(2):\n    if os.fork():\n        os._exit(0)\n    os.setsid()\n" + FILL,
}


@pytest.mark.parametrize("how", EVASIONS)
def test_disk_that_hides(home, skep, how):
    """Whatever a writer does, its limit finds it, and all of it ends."""
    sid = home.new("--disk", "64M")
    mark = f"writer of {sid}"
    skep("exec", "-d", sid, "--", "env", "-i", "/usr/bin/python3", "-c", "import os, time\nos.chdir('/home/skep')\n" + EVASIONS[how], mark).ok()
    hit(home, sid, "disk")
    wait_for(lambda: not find_procs(mark), why="the writer's end")
    skep("exec", sid, "--", "sh", "-c", "test ! -e /tmp/got-away && rm -rf ~/d ~/f*").ok()
    usable(home, sid)


def test_sparse_file_of_2_tb(home, skep):
    """A huge file without blocks: refused or harmless, and the neighbour does not notice."""
    sid = home.new("--disk", "64M")
    skep("exec", sid, "--", "truncate", "-s", "2T", "huge")
    usable(home, sid)
    skep("stop", sid).ok()
    usable(home, sid)
    skep("rm", "--force", sid).ok()


@pytest.mark.slow
def test_100_000_tiny_files(home, skep):
    sid, other = home.new(), home.new()
    p = home.popen("exec", sid, "--", "sh", "-c", "mkdir m; cd m; seq 100000 | xargs -n 5000 touch; ls | wc -l")
    start = time.monotonic()
    usable(home, other)
    assert time.monotonic() - start < 10
    out, err = p.communicate(timeout=180)
    assert out.split() == [b"100000"], err
    skep("rm", "--force", sid, timeout=120).ok()


def test_log_flood(home, skep):
    """Nobody reads: the flood goes on at its own speed, what is kept is bounded, and it can be killed."""
    sid = home.new()
    xid = skep("exec", "-d", sid, "--", "yes", "a flood of words").ok().line
    wait_for(lambda: home.exec_row(xid)["bytes"]["stdout"] > 100 << 20 or output_size(home, sid) > 60 << 20, 60, why="100 MiB of flood")
    assert output_size(home, sid) <= 160 << 20
    skep("kill", xid, "KILL").ok()
    usable(home, sid)


def output_size(home, sid):
    d = f"{home.skep_home}/sandboxes/{sid}/out"
    return sum(os.stat(f"{d}/{n}").st_blocks * 512 for n in os.listdir(d)) if os.path.isdir(d) else 0


def test_open_files(home, skep):
    sid = home.new()
    r = skep("exec", sid, "--", "sh", "-c", "ulimit -n; ulimit -Hn").ok()
    assert max(int(x) for x in r.out.split()) <= 65536


def test_open_files_as_wished(home, skep):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for wished in ("100", "9000"):
        assert skep("run", "--nofile", wished, "--", "sh", "-c", "ulimit -Hn").ok().line == str(min(int(wished), hard))


def test_timeout_ends_the_whole_tree(home, skep):
    sid = home.new("--timeout", "1s")
    start = time.monotonic()
    r = skep("exec", sid, "--", "sh", "-c", "trap '' TERM; setsid sleep 881101 & sleep 881102; sleep 881103")
    assert time.monotonic() - start < 8
    assert r.rc != 0 and "time" in r.err.lower()
    wait_for(lambda: not find_procs("88110"), 5)
    hit(home, sid, "timeout")
    usable(home, sid)


def test_timeout_holds_without_skepd(home, skep):
    sid = home.new("--timeout", "1s")
    xid = skep("exec", "-d", sid, "--", "sleep", "881104").ok().line
    home.kill_skepd()
    wait_for(lambda: not find_procs("sleep\x00881104"), 8, why="skep-cell to enforce the timeout")
    assert wait_row(home, xid)["timed_out"] is True


def wait_row(home, xid):
    home.skep("ps").ok()
    return wait_for(lambda: (lambda r: r["state"] == "exited" and r)(home.exec_row(xid)))


def test_ttl_stops_the_sandbox(home, skep):
    sid = home.new("--ttl", "2s")
    skep("exec", "-d", sid, "--", "sh", "-c", "echo 1 > f; sleep 881105").ok()
    wait_for(lambda: not find_procs("sleep\x00881105"), 10, why="the sandbox to expire")
    wait_for(lambda: not [s for s in home.ps() if s["state"] == "running"], why="the row")


def test_ttl_holds_without_skepd(home, skep):
    sid = home.new("--ttl", "2s")
    skep("exec", "-d", sid, "--", "sleep", "881106").ok()
    home.kill_skepd()
    wait_for(lambda: not find_procs("sleep\x00881106"), 10, why="the sandbox to expire")


def test_idle_stops_and_the_next_exec_starts_again(home, skep):
    sid = home.new("--idle", "1s")
    skep("exec", sid, "--", "sh", "-c", "echo kept > f").ok()
    wait_for(lambda: home.show(sid)["state"] == "stopped", 10, why="the idle stop")
    assert skep("exec", sid, "--", "cat", "f").ok().line == "kept"


def test_idle_does_not_stop_a_busy_one(home, skep):
    sid = home.new("--idle", "1s")
    assert skep("exec", sid, "--", "sh", "-c", "sleep 2.5; echo done").ok().line == "done"


BUSY = "import time\ne=time.monotonic()+%s\nwhile time.monotonic()<e: pass\nprint(time.process_time())"


def test_cpus(home, skep):
    """Half a core: a busy loop of two seconds of wall time gets clearly less than that of CPU, in one process or in a crowd."""
    sid = home.new("--cpus", "0.5")
    assert float(skep("exec", sid, "--", "python3", "-c", BUSY % 2).ok().line) < 1.6
    crowd = "for i in 1 2 3; do python3 -c \"$1\" & done; wait; sh -c 'end=$(($(date +%s) + 2)); while [ $(date +%s) -lt $end ]; do :; done'; times | tail -n 1"
    out = skep("exec", sid, "--", "sh", "-c", crowd, "sh", BUSY % 2).ok().out.splitlines()
    assert sum(float(x) for x in out[:3]) < 1.9
    user, system = (float(x.split("m")[0]) * 60 + float(x.split("m")[1].rstrip("s")) for x in out[3].split())
    assert user + system < 3.4, "nor by short-lived children: of more than four seconds"
    kind = home.show(sid)["isolation"]["limits"]
    assert ("cpus 0.5 (supervised)" in skep("show", sid).ok().out) == (kind == "supervised")


WATCHER = """
import os, signal, sys, time
told = []
child = os.fork()
if not child:
    end = time.monotonic() + 2
    while time.monotonic() < end: pass
    os._exit(7)
while True:
    pid, status = os.waitpid(child, os.WUNTRACED)
    told.append(status)
    if not os.WIFSTOPPED(status): break
print(told == [7 << 8], told[:5])
"""


def test_who_is_throttled_is_not_seen_to_be_stopped(home, skep):
    sid = home.new("--cpus", "0.3")
    for tty in ((), ("-t",)):
        assert skep("exec", *tty, sid, "--", "python3", "-c", WATCHER).ok().out.split()[0] == "True"


def test_job_control_beside_throttling(home, skep, terminal):
    """Nobody is told of a stop but by ^Z; what was stopped stays so; a pause does not leave anybody behind."""
    sid = home.new("--cpus", "0.3")
    t = terminal("exec", "-i", "-t", sid, "--", "bash", "--norc", "-i")
    t.send("PS1='ready> '\n")
    t.expect("ready> ")
    t.send("while :; do :; done & sleep 2; echo sle''pt\n")
    t.expect("slept\r")
    t.send("jobs; kill %1; wait; echo go''ne\n")
    t.expect("Running")
    t.expect("gone\r")
    t.send("sh -c 'while :; do i=$((i+1)); [ $((i % 20000)) = 0 ] && echo ti\"\"ck; done'\n")
    stayed = 0
    for _ in range(6):  # a ^Z in the very moment of a stop of ours may be lost
        t.expect("tick\r")
        t.send("\x1a")
        t.expect("Stopped")
        skep("pause", sid).ok()
        skep("resume", sid).ok()
        t.send("jobs\n")
        stayed += t.expect("(Stopped|Running)").group(1) == b"Stopped"
        t.send("fg\n")
        if stayed == 2:
            break
    assert stayed == 2
    t.expect("tick\r")
    skep("pause", sid).ok()
    skep("resume", sid).ok()
    t.expect("tick\r")
    t.send("\x03")
    t.expect("ready> ")  # what is typed before it is lost with the rest
    t.send("echo en''d\n")
    t.expect("end\r")
    assert "Stopped" not in skep("exec", sid, "--", "sh", "-c", "while :; do :; done & sleep 1; jobs; kill $!").ok().out


def test_limits_are_shown(home, skep):
    s = home.show(home.new("--memory", "1G", "--pids", "99", "--disk", "2G", "--cpus", "1.5"))
    assert (s["limits"]["memory"], s["limits"]["pids"], s["limits"]["disk"], s["limits"]["cpus_milli"]) == (1 << 30, 99, 2 << 30, 1500)


@pytest.mark.parametrize("flag,value", [("--memory", "lots"), ("--pids", "-1"), ("--timeout", "5 parsecs"), ("--disk", ""), ("--memory", "99999999999999999999"), ("--ttl", "x"), ("--idle", "-3s")])
def test_bad_limits(home, skep, flag, value):
    skep("new", flag, value).fails(2, flag)


def test_event_rate_is_bounded(home, skep):
    """Thousands of short processes: the journal stays bounded and whole."""
    sid = home.new()
    skep("exec", sid, "--", "sh", "-c", "i=0; while [ $i -lt 4000 ]; do /bin/true; i=$((i+1)); done", timeout=120).ok()
    skep("log", sid, "--verify").ok()
    assert len(home.journal(sid)) < 20000


CROWD = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
end = time.time() + 3
while time.time() < end:
    try:
        if not os.fork():
            os.fork()
            os._exit(0)
    except OSError:
        time.sleep(0.002)
"""


@pytest.mark.root
def test_a_crowd_of_small_processes_costs_no_cell(home, skep):
    """Whoever the kernel takes when memory ends, it is not pid 1."""
    sid = home.new("--memory", "96m", "--pids", "128")
    skep("exec", sid, "--", "true").ok()
    cell = home.cell_pid(sid)
    skep("exec", sid, "--", "sh", "-c", "/usr/bin/python3 -c \"$1\" & /usr/bin/python3 -c \"$1\" & wait", "sh", CROWD)  # however it ends
    wait_for(lambda: skep("exec", sid, "--", "true").rc == 0, 10, why="the crowd to be gone")
    assert home.cell_pid(sid) == cell


SCORES = "cat /proc/self/oom_score_adj & cat /proc/self/oom_score_adj; wait; cat /proc/1/oom_score_adj"


@pytest.mark.parametrize("profile", [(), ("--root",)])
def test_commands_go_before_pid_1_from_their_first_instruction(home, skep, profile):
    """Also what is forked at once, behind a terminal, and in a cell of a `run`."""
    with open("/proc/self/oom_score_adj", encoding="ascii") as f:
        ours = max(0, int(f.read()))
    expected = [str(min(1000, ours + 500))] * 2 + [str(ours)]
    sid = home.new(*profile)
    for _ in range(15):
        assert skep("exec", sid, "--", "sh", "-c", SCORES).ok().out.split() == expected
    assert skep("exec", "-t", sid, "--", "sh", "-c", SCORES).ok().out.split() == expected
    assert skep("run", *profile, "--", "sh", "-c", SCORES).ok().out.split() == expected


def test_a_first_process_that_does_not_answer_keeps_no_cell(home, skep):
    """Limits are kept through pid 1. Held up from outside here, as a workload that finds a way would do it."""
    sid = home.new("--timeout", "2s")
    skep("exec", "-d", sid, "--", "sh", "-c", "trap '' TERM; while :; do sleep 881107; done").ok()
    first = wait_for(lambda: [p for p in find_procs("sleep\x00881107") if depth(p) > 1], why="the command")[0]
    while depth(proc_stat(first)[1]) > 1:
        first = proc_stat(first)[1]
    os.kill(first, signal.SIGSTOP)
    wait_for(lambda: not find_procs("881107"), 40, why="the end of all of it")
    hit(home, sid, "first process")
    usable(home, sid)


STOPPER = """
import os, signal
while True:
    try:
        os.kill(-1, signal.SIGSTOP)
    except OSError:
        pass
"""


def test_who_stops_everything_does_not_stop_pid_1(home, skep):
    """A command that is stopped before it executes has pid 1 waiting for it."""
    sid = home.new()
    skep("exec", "-d", sid, "--", "python3", "-c", STOPPER).ok()
    for _ in range(40):
        skep("exec", "-d", sid, "--", "true", timeout=30).ok()
        if [e for e in hits(home, sid) if "before it began" in str(e)]:
            break  # it was, and went on
    skep("stop", sid).ok()
    usable(home, sid)
