# SPDX-License-Identifier: Apache-2.0
"""What a cell leaves untouched serves the next one at the same place (src/cell/mold.h). The cookie of the network namespace
tells which mold a cell came from; unlike its number in /proc it is never given away again."""
import contextlib
import functools
import os
import shutil
import signal
import time

import pytest

from kit import IS_ROOT, proc_state, proc_table, read_proc, wait_for

NS = "/usr/bin/python3 -c 'import socket; print(int.from_bytes(socket.socket().getsockopt(1, 71, 8), \"little\"))'"


# Asks only for the way: no packet moves, and the namespace keeps what it found out.
CONNECT_6 = "import socket; socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).connect((\"::1\", 9))"


def mold_pids(home):
    home.watch()
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as f:
                if f.read() != "skep-mold\n":
                    continue
            if int(pid) in {p for p, _ in home.seen}:
                found.append(int(pid))
        except OSError:
            continue
    return found


def nurseries(home):
    return {p for p, (parent, _, name) in proc_table().items() if parent == home.skepd_pid() and name == "skep-cell"}


def undisturbed(test):
    """A mount of the host that comes or goes, of a test beside this one, makes skepd start a new nursery with new slots.
    What failed then, and only then, is tried again."""
    @functools.wraps(test)
    def tried(home, skep, **more):
        for left in (2, 1, 0):
            skep("run", "--", "true").ok()
            before = nurseries(home)
            try:
                return test(home, skep, **more)
            except AssertionError:
                if not left or nurseries(home) == before:
                    raise
    return tried


def kill_all(pids):
    """What is given to a cell whose first process is just being killed ends with it."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # a slot may end by itself meanwhile
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: all(proc_state(p) in (None, "Z") for p in pids), 10, why="the processes to be gone")
    time.sleep(0.2)


def kill_molds(home):
    """And with them the cells that wait."""
    kill_all(mold_pids(home))


def runs(skep, n, script=NS):
    return [skep("run", "--", "sh", "-c", script).ok().line for _ in range(n)]


def test_used_again(skep):
    assert len(set(runs(skep, 20))) < 15


def test_used_again_with_a_name_for_commits(home, skep):
    with open(f"{home.user_home}/.gitconfig", "w", encoding="ascii") as f:
        f.write("[user]\n\tname = A B\n\temail = a@example.org\n")
    assert len(set(runs(skep, 20))) < 15


@pytest.mark.parametrize(
    "mark",
    (
        "touch ~/x && rm ~/x",
        "chmod 700 .",
        "touch y && rm y",
        "exec 3<>/dev/tcp/127.0.0.1/9 || true",
        "echo x > /dev/udp/127.0.0.1/9",
        f"python3 -c '{CONNECT_6}'",
    ) + (() if IS_ROOT else (  # the scratch space belongs to the one user there is
        "chmod 700 /tmp",
        "chmod 1770 /dev/shm; touch /dev/shm/x",
        "chmod 700 /run/lock",
        "chmod 711 ..",  # above the workspace, which lies in /tmp
        "python3 -c 'import os; os.setxattr(\"/tmp\", \"user.note\", b\"read me\")'",
        "python3 -c 'import os; os.setxattr(\"/tmp\", \"system.posix_acl_default\", bytes.fromhex(\"0200000001000700ffffffff04000700ffffffff20000700ffffffff\"))'",
    )),
)
def test_not_after_a_touch(skep, mark):
    marked = skep("run", "--", "bash", "-c", f"{NS}; {mark} 2>/dev/null; true").ok().line
    skep("rm", "--all", "--force").ok()
    assert marked not in runs(skep, 12)


def test_network_reads_as_new(skep):
    """Whatever the kernel lists of a network namespace is the same for a cell that follows another as for the first one."""
    look = "cd /proc/net; cat ip6_flowlabel igmp igmp6 snmp snmp6 netstat ipv6_route rt6_stats if_inet6 fib_trie sockstat6 dev arp; " + NS
    first = skep("run", "--", "sh", "-c", look).ok().out.splitlines()[:-1]
    for _ in range(6):
        skep("run", "--", "python3", "-c", CONNECT_6).ok()
        assert skep("run", "--", "sh", "-c", look).ok().out.splitlines()[:-1] == first


def test_sees_the_files_of_today(home, skep):
    """An overlay keeps what it looked up: a file that an editor replaced, one that came, and one that went."""
    look = f"cat f; cat d/g; ls new gone 2>/dev/null; {NS}"
    os.mkdir(f"{home.dir}/d")
    seen = []
    for i in range(10):
        for name in ("f", "d/g"):
            with open(f"{home.dir}/.next", "w", encoding="ascii") as f:
                f.write(f"{i}\n")
            os.rename(f"{home.dir}/.next", f"{home.dir}/{name}")
        come, went = ("new", "gone") if i % 2 else ("gone", "new")
        with open(f"{home.dir}/{come}", "w", encoding="ascii"):
            pass
        if os.path.exists(f"{home.dir}/{went}"):
            os.unlink(f"{home.dir}/{went}")
        *lines, ns = skep("run", "--", "sh", "-c", look).ok().out.splitlines()
        assert lines == [str(i), str(i), come]
        seen.append(ns)
    assert len(set(seen)) < len(seen), "no mold was used again: the test shows nothing"


def test_a_live_cell_sees_the_files_of_today(home, skep):
    """Before a command starts, at most once a second (src/cell/refresh.h)."""
    with open(f"{home.dir}/f", "w", encoding="ascii") as f:
        f.write("old\n")
    sid = skep("new").ok().line
    assert skep("exec", sid, "--", "cat", "f").ok().line == "old"
    assert skep("exec", sid, "--", "ls", "new").rc != 0
    with open(f"{home.dir}/.next", "w", encoding="ascii") as f:
        f.write("new\n")
    os.rename(f"{home.dir}/.next", f"{home.dir}/f")
    with open(f"{home.dir}/new", "w", encoding="ascii"):
        pass
    wait_for(lambda: skep("exec", sid, "--", "cat", "f", "new").out == "new\n", 20, 0.3, "the cell to see what the host made")
    skep("rm", "--force", sid).ok()


def test_carries_nothing_over(home, skep):
    leave = "echo t > /tmp/left; mkdir -p /tmp/d/e/f; ln -s / /tmp/d/l; chmod 0 /tmp/d/e; mkfifo /dev/shm/p; echo s > /dev/shm/left; ipcmk -M 4096 -p 0666 >/dev/null; ipcmk -Q >/dev/null; (sleep 60 &) ; " + NS
    look = f"ls -A /tmp /dev/shm; ipcs -m -q | grep -c 0x; ls -d /proc/[0-9]* | wc -l; hostname; cat /etc/machine-id; {NS}"
    first, seen = set(runs(skep, 8, leave)), []
    for _ in range(8):
        lines = skep("run", "--", "sh", "-c", look).ok().out.splitlines()
        lines.remove(os.path.basename(home.top)) if os.path.basename(home.top) in lines else None  # the project lies below /tmp
        files, (segments, processes, name, machine, ns) = lines[:-5], lines[-5:]
        assert (files, segments) == (["/dev/shm:", "", "/tmp:"], "0") or (files, segments) == (["/dev/shm:", "/tmp:"], "0"), lines
        assert int(processes) <= 5 and (name, machine) not in [s[:2] for s in seen]
        seen.append((name, machine, ns))
    assert first & {s[2] for s in seen}, "no mold was used again: the test shows nothing"


def test_one_that_is_killed(home, skep):
    runs(skep, 3)
    kill_molds(home)
    for _ in range(6):
        assert skep("run", "--", "echo", "next").ok().line == "next"


def test_killed_under_a_running_command(home, skep):
    runs(skep, 2)
    p = home.popen("run", "--", "sh", "-c", "echo up; sleep 30")
    assert p.stdout.readline() == b"up\n"
    kill_molds(home)
    p.communicate(timeout=20)
    assert p.returncode != 0
    assert skep("run", "--", "echo", "next").ok().line == "next"


def test_a_kept_cell_lets_go(home, skep):
    """A sandbox that stays costs no second process."""
    sid = skep("new").ok().line
    skep("exec", sid, "--", "true").ok()
    home.skep("exec", sid, "--", "sh", "-c", "true").ok()
    pids = mold_pids(home)
    skep("rm", "--force", sid).ok()
    wait_for(lambda: all(proc_state(p) in (None, "Z") for p in pids) or len(mold_pids(home)) <= len(pids), 5)
    assert skep("run", "--", "echo", "next").ok().line == "next"


def test_a_replaced_project_is_noticed(home, skep):
    runs(skep, 3)
    os.rename(home.dir, home.dir + ".old")
    os.mkdir(home.dir)
    with open(f"{home.dir}/new", "w") as f:
        f.write("new\n")
    assert [skep("run", "--", "cat", "new").ok().line for _ in range(8)] == ["new"] * 8


# -- a supervisor has several cells, one after the other (src/cell/again.c) -------------------------------------------


def slots(home):
    """Supervisors that wait for a sandbox, by the names of their sockets: seat and pid."""
    return {n for n in os.listdir(f"{home.skep_home}/run/cells") if n.startswith(".slot-")}


def open_files(slot):
    return len(os.listdir(f"/proc/{slot.rpartition('-')[2]}/fd"))


def settled(look):
    """What look says when it says the same twice."""
    seen = [None]

    def same():
        seen.append(look())
        time.sleep(0.2)
        return seen[-1] and seen[-1] == seen[-2]

    wait_for(same, 20, 0.1)
    return seen[-1]


def settled_slots(home, skep):
    """The pool when nothing is on its way to it any more."""
    runs(skep, 6, "true")
    return settled(lambda: slots(home) if len(slots(home)) >= 4 else None)


@undisturbed
def test_a_supervisor_takes_the_next_cell(home, skep):
    before = settled_slots(home, skep)
    runs(skep, 2 * len(before), "true")  # what every one has after its first cell: a listener, a lock
    wait_for(lambda: before <= slots(home), 10, 0.05)
    if os.geteuid():  # supervisors show nobody else what they have open
        return
    files = settled(lambda: {s: open_files(s) for s in before})  # some are being built ahead still
    runs(skep, 3 * len(before), "true")
    wait_for(lambda: before <= slots(home), 10, 0.05)
    wait_for(lambda: all(open_files(s) <= files[s] for s in before), 10, 0.05)


@pytest.mark.parametrize("what", ("mount -t tmpfs x /mnt", "touch here", "getent hosts nowhere.test", "ulimit -n 9000"))
@undisturbed
def test_not_after_more_than_a_plain_command(home, skep, what):
    before = settled_slots(home, skep)
    skep("run", "--", "sh", "-c", f"{what} 2>/dev/null; true").ok()
    if what.startswith("ulimit"):  # asked for in vain, seen by nobody: as plain as any
        wait_for(lambda: before <= slots(home), 10, 0.05)
    else:
        wait_for(lambda: not before <= slots(home), 10, 0.05)


@undisturbed
def test_killed_while_it_waits_again(home, skep):
    before = settled_slots(home, skep)
    for s in before:
        os.kill(int(s.rpartition("-")[2]), signal.SIGKILL)
    wait_for(lambda: not before & slots(home) or all(proc_state(int(s.rpartition("-")[2])) in (None, "Z") for s in before), 10, 0.05)
    time.sleep(0.2)
    assert skep("run", "--", "echo", "next").ok().line == "next"


# -- cells that are built before they are asked for (src/cell/ahead.h, src/backend/ahead.c) ---------------------------


def ids(home):
    return set(os.listdir(f"{home.skep_home}/sandboxes"))


WHO = "hostname; cat /etc/machine-id; echo $SKEP_SANDBOX; grep NoNewPrivs /proc/self/status"


def who(skep, *opts):
    return skep("run", *opts, "--", "sh", "-c", WHO).ok().out.splitlines()


def test_built_ahead_is_who_it_says(home, skep):
    """The name was chosen before the sandbox was asked for; nobody else ever has it."""
    who(skep)
    seen, ahead = set(), 0
    for _ in range(12):
        there = ids(home)
        name, machine, sandbox, locked = who(skep)
        assert name == sandbox and locked.split()[1] == "1"
        assert name not in seen and machine not in seen
        seen |= {name, machine}
        ahead += name in there
    assert ahead >= 6, "hardly any was built ahead: the test shows nothing"


def test_of_another_kind_it_is_built_anew(home, skep):
    for _ in range(3):
        who(skep)
        assert who(skep, "--name", "own", "--rm")[0] == "own"
        assert skep("run", "--no-trace", "--", "sh", "-c", "strace -o /dev/null true 2>/dev/null; echo $?").ok().line != "0"
        assert skep("run", "--", "sh", "-c", "strace -o /dev/null true 2>/dev/null; echo $?").ok().line == "0"
        kept = skep("run", "--keep", "--", "sh", "-c", WHO).ok().out.splitlines()
        assert skep("exec", kept[2], "--", "hostname").ok().line == kept[0] == kept[2]


def test_one_that_was_asked_for_and_never_came(home, skep):
    """A create that fails has a name already: it is gone with all that was built for it."""
    who(skep)
    for _ in range(6):
        assert home.api("POST", "/v1/sandboxes", {"cwd": home.dir, "exec": {"argv": ["true"], "cwd": "relative"}})[0] == 400
    assert home.ps() == []
    there = ids(home)
    assert who(skep)[0] in there
    assert not any(i in skep("gc", "--dry-run").ok().out for i in ids(home))


@pytest.mark.parametrize("opts", ((), ("--nested",)))
def test_a_waiting_first_process_that_dies(home, skep, opts):
    for _ in range(2):
        who(skep, *opts)
    time.sleep(0.2)
    home.watch()
    firsts = [p for p, _ in home.seen if b"\t1\n" in read_proc(p, "status").partition(b"NSpid:")[2].partition(b"\n")[0] + b"\n"]
    assert firsts
    kill_all(firsts)
    for _ in range(4):
        assert who(skep, *opts)[0]


def test_a_daemon_that_dies_leaves_no_names(home, skep):
    who(skep)
    before = ids(home)
    home.kill_skepd()
    assert who(skep)[0]
    assert not before & ids(home)
    home.api("POST", "/v1/shutdown", {})
    wait_for(lambda: not ids(home), why="the names that were put aside to go")


# -- kinds that have no mold are built ahead in a slot of their own (src/backend/recipe.c) ------------------------------

KINDS = ("root", "nested", "image", "snapshot")
START = "sed 's/.*) //' /proc/1/stat | cut -d' ' -f20"  # of the first process, in ticks since the machine came up


def options(home, skep, kind, busybox):
    """What makes a sandbox of that kind, more than once."""
    if kind == "root":
        home.lend()
    if kind == "image":
        os.makedirs(f"{home.top}/tiny/bin")
        shutil.copy(busybox, f"{home.top}/tiny/bin/busybox")
        for name in ("sh", "ls", "cat", "cut", "sed", "touch", "hostname", "true"):
            os.symlink("busybox", f"{home.top}/tiny/bin/{name}")
        return ["--image", skep("image", "import", f"{home.top}/tiny").ok().line]
    if kind == "snapshot":
        sid = home.new()
        skep("exec", sid, "--", "sh", "-c", "echo sealed > below").ok()
        return ["--from", skep("snapshot", sid, "--json").ok().json()["id"]]
    return [f"--{kind}"]


def waited(before, ticks):
    """Was it there before it was asked for, and not just by the coarseness of a tick?"""
    return int(ticks) / os.sysconf("SC_CLK_TCK") < before - 0.02


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_built_ahead(home, skep, kind, busybox):
    opts, seen, ahead = options(home, skep, kind, busybox), set(), []
    script = f"hostname; {START}; ls -A /tmp /dev/shm | sed '/^$/d; /:$/d'; touch /tmp/mark /dev/shm/mark"

    def run():
        before = time.clock_gettime(time.CLOCK_BOOTTIME)
        name, ticks, *left = skep("run", *opts, "--", "sh", "-c", script).ok().out.splitlines()
        assert name not in seen and [x for x in left if x not in home.top.split("/")] == []
        seen.add(name)
        ahead.append(waited(before, ticks))
        return sum(ahead) >= 3

    wait_for(run, 60, 0.2, why=f"sandboxes of the kind {kind} to be built ahead")
    skep("rm", "--all", "--force").ok()


def test_no_kind_is_taken_for_another(home, skep, busybox):
    home.lend()
    tiny = options(home, skep, "image", busybox)
    for _ in range(3):
        for opts, says in (([], "user no yes"), (["--root"], "root no yes"), (["--nested"], "user yes yes"), (tiny, "user no no"), (["--root", "--nested"], "root yes yes")):
            script = "[ -n \"$(sed -n 's/^CapEff:[^0-9a-f]*0*//p' /proc/self/status)\" ] && echo root || echo user; [ $(cat /proc/sys/user/max_user_namespaces) = 0 ] && echo no || echo yes; [ -e /usr/bin ] && echo yes || echo no"
            assert " ".join(skep("run", *opts, "--", "sh", "-c", script).ok().out.split()) == says, opts
        time.sleep(0.2)


def test_a_replaced_project_is_noticed_by_every_kind(home, skep):
    for _ in range(3):
        skep("run", "--nested", "--", "true").ok()
        time.sleep(0.2)
    os.rename(home.dir, home.dir + ".old")
    os.mkdir(home.dir)
    with open(f"{home.dir}/new", "w", encoding="ascii") as f:
        f.write("new\n")
    assert [skep("run", "--nested", "--", "cat", "new").ok().line for _ in range(4)] == ["new"] * 4


def test_a_fork_is_built_before_it_is_used(home, skep):
    origin = home.new()
    skep("exec", origin, "--", "sh", "-c", "echo here > below").ok()
    forks = []

    def fork():
        forks.append(skep("fork", origin).ok().line)
        time.sleep(min(0.3 * len(forks), 3))  # somebody looks at its name; on a busy machine for long
        before = time.clock_gettime(time.CLOCK_BOOTTIME)
        name, ticks, below = skep("exec", forks[-1], "--", "sh", "-c", f"hostname; {START}; cat below").ok().out.split()
        assert (name, below) == (forks[-1], "here")
        return waited(before, ticks)

    wait_for(fork, 60, 0.1, why="a fork to be built ahead")
    skep("fork", origin, "-n", "3").ok()  # more than are built
    skep("rm", "--all", "--force").ok()  # those that never ran, too
    assert home.ps() == []


# -- cells that end while slots abound rest until creates pause (src/backend/nursery.c) --------------------------------


def burst(home, n):
    for p in [home.popen("run", "--", "sh", "-c", "cat /etc/machine-id; ls -A /tmp | wc -l") for _ in range(n)]:
        out, err = p.communicate(timeout=60)
        assert p.returncode == 0, err
        yield out.split()[0]


def test_bursts(home):
    seen = [m for _ in range(4) for m in burst(home, 24)]
    assert len(set(seen)) == len(seen)
    wait_for(lambda: home.ps() == [], why="skepd to hear of the last one")


@pytest.mark.parametrize("end", ("daemon", "molds", "supervisors"))
def test_what_rests_may_be_killed(home, skep, end):
    list(burst(home, 24))
    list(burst(home, 24))
    if end == "daemon":
        home.kill_skepd()
    elif end == "molds":
        kill_molds(home)
    else:
        kill_all([int(n.rpartition("-")[2]) for n in slots(home)])
    assert len(set(burst(home, 12))) == 12
    wait_for(lambda: not [n for n in os.listdir(f"{home.skep_home}/layers") if n.startswith(".ending-")], 30, why="every layer to be cleared away")
