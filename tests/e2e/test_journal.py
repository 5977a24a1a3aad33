# SPDX-License-Identifier: Apache-2.0
"""The journal: what is recorded, and that no tampering goes unnoticed."""
import glob
import hashlib
import json
import os
import signal
import subprocess
import threading
import time

import pytest

from kit import find_procs, wait_for


def path(home, sid):
    (p,) = [x for x in glob.glob(f"{home.skep_home}/sandboxes/{sid}/journal*") if os.path.isfile(x)]
    return p


@pytest.fixture
def box(home, project):
    """A stopped sandbox with some history."""
    sid = home.new("--name", "box")
    home.skep("exec", sid, "--", "sh", "-c", "ls >/dev/null; /bin/echo hi; echo x > x; exit 3")
    home.skep("exec", sid, "--", "true").ok()
    home.skep("stop", sid).ok()
    return sid


def test_events_of_a_life(home, box):
    ev = home.journal(box)
    types = [e["type"] for e in ev]
    assert types[0] == "sandbox.created"
    for t in ("sandbox.state", "cell.up", "exec.start", "proc.exec", "exec.output", "exec.exit", "cell.gone"):
        assert t in types, types
    assert [e["seq"] for e in ev] == list(range(ev[0]["seq"], ev[0]["seq"] + len(ev)))
    assert all(k in e for e in ev for k in ("seq", "time", "prev", "type", "by"))


def test_exec_events_carry_what_is_needed(home, box):
    ev = home.journal(box)
    start = next(e for e in ev if e["type"] == "exec.start")
    assert start["argv"][:2] == ["sh", "-c"] and start["cwd"]
    exits = [e for e in ev if e["type"] == "exec.exit"]
    assert [e["status"] for e in exits] == [3, 0]
    assert any(e["argv"][:2] == ["/bin/echo", "hi"] for e in ev if e["type"] == "proc.exec")
    assert any(e["argv"][0] == "ls" for e in ev if e["type"] == "proc.exec")


def test_output_events_never_carry_bytes(home, skep):
    sid = home.new()
    skep("exec", sid, "--", "sh", "-c", "printf '%s%s' very secret-output-7").ok()
    (start,) = [e for e in home.journal(sid) if e["type"] == "exec.start"]
    raw = open(path(home, sid), "rb").read()
    assert b"verysecret-output-7" not in raw
    out = [e for e in home.journal(sid) if e["type"] == "exec.output"]
    assert sum(e["length"] for e in out) == 19 and out[0]["offset"] == 0
    assert start["seq"] < out[0]["seq"]
    skep("exec", "-i", sid, "--", "cat", stdin=b"secret-input-8").ok()
    (given,) = [e for e in home.journal(sid) if e["type"] == "exec.input"]
    assert (given["stream"], given["offset"], given["length"]) == ("stdin", 0, 14)
    assert b"secret-input-8" not in open(path(home, sid), "rb").read()


def test_environment_values_are_not_recorded(home, skep):
    sid = home.new("--env", "TOKEN=hunter2")
    skep("exec", "-e", "OTHER=hunter3", sid, "--", "true").ok()
    assert b"hunter" not in open(path(home, sid), "rb").read()


def test_chain(home, box):
    lines = open(path(home, box), "rb").read().split(b"\n")
    assert lines.pop() == b""
    for a, b in zip(lines, lines[1:]):
        assert json.loads(b)["prev"] == hashlib.sha256(a).hexdigest()


def test_type_filter_and_text(home, skep, box):
    r = skep("log", box, "--type", "exec.exit", "--json").ok()
    assert [json.loads(x)["type"] for x in r.out.splitlines()] == ["exec.exit"] * 2
    assert "exec" in skep("log", box).ok().out


def test_a_question_is_held_until_there_is_more(home):
    sid = home.new()
    home.skep("exec", sid, "--", "true").ok()
    time.sleep(0.4)
    end = home.api_raw("GET", f"/v1/sandboxes/{sid}/journal")[1]["X-Skep-End"]
    path = f"/v1/sandboxes/{sid}/journal?offset={end}&wait_ms="
    start = time.monotonic()
    assert home.api_raw("GET", path + "300")[::2] == (200, b"") and time.monotonic() - start >= 0.29
    got = []
    threads = [threading.Thread(target=lambda: got.append((home.api_raw("GET", path + "20000"), time.monotonic()))) for _ in range(3)]
    for t in threads:
        t.start()
    time.sleep(0.3)
    assert not got
    start = time.monotonic()
    home.skep("exec", sid, "--", "echo", "held-marker").ok()
    for t in threads:
        t.join(10)
    assert len(got) == 3 and all(b"held-marker" in r[2] and at - start < 5 for r, at in got)
    assert home.api_raw("GET", path + "x")[0] == 400


def test_follow(home):
    sid = home.new()
    p = home.popen("log", sid, "--follow", "--json")
    assert b"sandbox.created" in p.stdout.readline()
    home.skep("exec", sid, "--", "echo", "followed-marker").ok()
    for _ in range(60):
        if b"followed-marker" in p.stdout.readline():
            break
    else:
        pytest.fail("the new event was not followed")
    p.terminate()
    p.communicate(timeout=10)


def test_verify_of_a_whole_one(skep, box):
    skep("log", box, "--verify").ok()
    skep("log", "--verify", box).ok()


def test_verify_while_it_runs(home, skep):
    sid = home.new()
    x = skep("exec", "-d", sid, "--", "sleep", "60").ok().line
    skep("log", sid, "--verify").ok()
    skep("kill", x).ok()


def edit(lines):
    i = next(i for i, x in enumerate(lines) if b'"status":3' in x)
    return lines[:i] + [lines[i].replace(b'"status":3', b'"status":0')] + lines[i + 1:]


TAMPER = {
    "edit": edit,
    "edit first": lambda x: [x[0].replace(b"sandbox.created", b"sandbox.creatEd")] + x[1:],
    "edit last": lambda x: x[:-1] + [x[-1].replace(b'"by":"', b'"by":"x')],
    "remove one": lambda x: x[:3] + x[4:],
    "remove first": lambda x: x[1:],
    "reorder": lambda x: x[:2] + [x[3], x[2]] + x[4:],
    "duplicate": lambda x: x[:3] + [x[2]] + x[3:],
    "truncate by one": lambda x: x[:-1],
    "truncate to half": lambda x: x[:len(x) // 2],
    "empty": lambda _: [],
    "insert forged": lambda x: x[:2] + [b'{"seq":3,"time":"2020-01-01T00:00:00Z","prev":"","type":"denied","by":"x"}'] + x[2:],
    "append forged": lambda x: x + [b'{"seq":999,"time":"2020-01-01T00:00:00Z","prev":"","type":"denied","by":"x"}'],
    "append junk": lambda x: x + [b"junk"],
}


@pytest.mark.parametrize("how", TAMPER)
def test_verify_finds(home, skep, box, how):
    p = path(home, box)
    lines = open(p, "rb").read().split(b"\n")[:-1]
    changed = TAMPER[how](lines)
    assert changed != lines
    with open(p, "r+b") as f:
        f.truncate()
        f.write(b"".join(x + b"\n" for x in changed))
    r = skep("log", box, "--verify")
    assert r.rc == 1 and len(r.err.splitlines()) <= 1, (r.rc, r.out, r.err)
    _, answer = home.api("GET", f"/v1/sandboxes/{box}/journal/verify")
    assert answer["ok"] is False and answer["reason"]
    if how in ("edit last", "truncate by one", "empty"):  # what comes later does not heal it
        skep("exec", box, "--", "true").ok()
        skep("stop", box).ok()
        assert any(e["type"] == "journal.recovered" and ("missing" in e or "changed" in e) for e in home.journal(box))
        assert skep("log", box, "--verify").rc == 1


def rechain(lines):
    """What an attacker with the file would do: edit, then make every hash right again."""
    out, prev = [], None
    for x in lines:
        if prev is not None:
            old = json.loads(x)["prev"].encode()
            x = x.replace(old, hashlib.sha256(prev).hexdigest().encode())
        out.append(x)
        prev = x
    return out


def test_verify_finds_a_rewritten_chain_by_its_anchor(home, skep, box):
    p = path(home, box)
    lines = rechain(edit(open(p, "rb").read().split(b"\n")[:-1]))
    with open(p, "r+b") as f:
        f.truncate()
        f.write(b"".join(x + b"\n" for x in lines))
    assert skep("log", box, "--verify").rc == 1


def test_incomplete_last_line_is_cut_and_said(home, skep, box):
    """As after a power cut: half a line at the end; the next writer recovers, says so, and the chain is whole."""
    p = path(home, box)
    with open(p, "ab") as f:
        f.write(b'{"seq":99,"ti')
    skep("exec", box, "--", "true").ok()
    assert any(e["type"] == "journal.recovered" for e in home.journal(box))
    skep("log", box, "--verify").ok()


def test_journal_stays_after_rm(home, skep, box):
    skep("rm", "--force", box).ok()
    status, _, data = home.api_raw("GET", f"/v1/sandboxes/{box}/journal")
    assert status == 200 and b"sandbox.deleted" in data


def test_strings_that_are_not_utf8(home, skep):
    sid = home.new()
    subprocess.run([b"skep", b"exec", sid.encode(), b"--", b"echo", b"\xff\xfe"], env=home.env, cwd=home.dir, stdout=subprocess.DEVNULL, check=True)
    data = open(path(home, sid), "rb").read()
    data.decode("utf-8")
    e = next(e for e in home.journal(sid) if e["type"] == "exec.start")
    assert e["argv_b64"] == ["ZWNobw==", "//4="] and e["argv"][0] == "echo"
    assert home.exec_row(e["exec"])["argv_b64"] == e["argv_b64"]


def test_a_process_of_the_workload_is_recorded_with_its_exec(home, skep):
    sid = home.new()
    xid = skep("exec", "-d", sid, "--", "sh", "-c", "/bin/echo from-here").ok().line
    wait_for(lambda: home.exec_row(xid)["state"] == "exited")
    e = next(e for e in home.journal(sid) if e["type"] == "proc.exec" and "from-here" in str(e["argv"]))
    assert e["pid"] > 1


def test_lines_are_bounded(home, skep):
    sid = home.new()
    skep("exec", sid, "--", "true", *["x" * 100000] * 10).ok()
    assert max(len(x) for x in open(path(home, sid), "rb").read().split(b"\n")) < 64 << 10
    (start,) = [e for e in home.journal(sid) if e["type"] == "exec.start"]  # each is JSON
    assert start["argv"] == ["true"] and start["cut"] and start["exec"] and start["cwd"]
    skep("log", sid, "--verify").ok()


# -- what was refused --------------------------------------------------------------------------------------------
def call(*args):
    """Arguments of python3 that make one system call by its number and print the error's name."""
    return ["/usr/bin/python3", "-c", "import ctypes, errno; libc = ctypes.CDLL(None, use_errno=True); "
            f"print(libc.syscall(*{args!r}), errno.errorcode.get(ctypes.get_errno()))"]


def denied(home, sid):
    return [e for e in home.journal(sid) if e["type"] == "denied"]


X86 = os.uname().machine == "x86_64"
NR = {"mount": 165, "unshare": 272, "setns": 308, "socket": 41, "ioctl": 16, "personality": 135, "keyctl": 250, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323,
      "setgroups": 116, "clone": 56, "socketpair": 53} if X86 else {
      "mount": 40, "unshare": 97, "setns": 268, "socket": 198, "ioctl": 29, "personality": 92, "keyctl": 219, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282,
      "setgroups": 159, "clone": 220, "socketpair": 199}
NR.update(io_uring_setup=425, fsopen=430, clone3=435)
REFUSED = [  # name, arguments, error, what is said of the arguments
    ("mount", (b"none", b"/mnt", b"tmpfs", 0, 0), "EPERM", {"source": "none", "target": "/mnt", "type": "tmpfs", "flags": "0x0"}),
    ("mount", (0, b"/\xff", 0, 4096, 0), "EPERM", {"target_b64": "L/8=", "flags": "0x1000"}),
    ("mount", (8, 16, 24, 0, 0), "EPERM", {"flags": "0x0"}),
    ("unshare", (0x10000000,), "EPERM", {"flags": "0x10000000"}),
    ("clone", (0x10000011, 0, 0, 0, 0), "EPERM", {"flags": "0x10000011"}),
    ("setns", (-1, 0x40000000), "EPERM", {"type": "0x40000000"}),
    ("fsopen", (b"overlay", 0), "EPERM", {"type": "overlay"}),
    ("socket", (38, 5, 0), "EAFNOSUPPORT", {"family": 38, "type": 5, "protocol": 0}),
    ("socket", (16, 3, 9), "EPROTONOSUPPORT", {"family": 16, "type": 3, "protocol": 9}),
    ("socketpair", (2, 1, 0, 0), "EAFNOSUPPORT", {"family": 2}),
    ("ioctl", (0, 0x5412, 0), "EPERM", {"request": "0x5412"}),
    ("personality", (0x400000,), "EPERM", {"persona": "0x400000"}),
    ("keyctl", (0, -3, 0), "EPERM", {"operation": 0}),
    ("bpf", (5, 0, 0), "EPERM", {"command": 5}),
    ("perf_event_open", (0, 0, -1, -1, 0), "EPERM", {}),
    ("userfaultfd", (1,), "EPERM", {}),
    ("setgroups", (0, 0), "EPERM", {}),
    ("io_uring_setup", (1, 0), "ENOSYS", {}),
]


def test_a_refused_call_is_recorded(home, skep):
    sid = home.new()
    for name, args, error, _ in REFUSED:
        r = skep("exec", sid, "--", *call(NR[name], *args)).ok()
        assert r.out.split() == ["-1", error], (name, r.out)
    events = denied(home, sid)
    starts = [e["exec"] for e in home.journal(sid) if e["type"] == "exec.start"]
    assert [(e["name"], e["errno"]) for e in events] == [(n, e) for n, _, e, _ in REFUSED]
    for e, (_, _, _, said), xid in zip(events, REFUSED, starts):
        assert e["what"] == "syscall" and e["rule"] == "seccomp" and e["by"] == "workload"
        assert said.items() <= e.get("args", {}).items(), e
        assert e["pid"] > 1 and e["program"].startswith("python3") and e["command"] == "/usr/bin/python3" and e["exec"] == xid
    skep("log", sid, "--verify").ok()
    assert "denied" in skep("log", sid).ok().out


def test_what_is_merely_absent_is_not_recorded(home, skep, project):
    """Programs that look for new calls, start threads and so on leave no trace of it; nor does ordinary work."""
    sid = home.new()
    for nr in (NR["clone3"], 511, 600):
        assert skep("exec", sid, "--", *call(nr, 0, 0)).ok().out.split() == ["-1", "ENOSYS"]
    skep("exec", sid, "--", "sh", "-c", "make test && git status && ls -la / && id && date && env").ok()
    skep("exec", sid, "--", "/usr/bin/python3", "-c", "import threading, socket, subprocess; threading.Thread(target=print).start(); subprocess.run(['true']); socket.create_server(('127.0.0.1', 0))").ok()
    assert denied(home, sid) == []


def test_a_refused_call_with_no_trace(home, skep):
    sid = home.new("--no-trace")
    r = skep("exec", sid, "--", *call(101 if X86 else 117, 16, 1, 0, 0)).ok()
    assert r.out.split() == ["-1", "EPERM"]
    (e,) = denied(home, sid)
    assert e["name"] == "ptrace" and e["args"] == {"request": 16, "pid": 1}


def test_a_refusal_names_the_exec_it_came_from(home, skep):
    """Also from a grandchild, from a process in a session of its own, and from one whose parents are gone."""
    sid = home.new()
    unshare = " ".join(f"'{a}'" for a in call(NR["unshare"], 0x20000))
    ways = (f"sh -c {json.dumps(unshare)}; sleep 3", f"setsid sh -c {json.dumps(unshare)}; sleep 3", f"(setsid sh -c {json.dumps('sleep 0.3; ' + unshare)} &) ; sleep 3")
    xids = [skep("exec", "-d", sid, "--", "sh", "-c", w).ok().line for w in ways]
    wait_for(lambda: len(denied(home, sid)) == len(ways), why="the denials")
    assert sorted(e["exec"] for e in denied(home, sid)) == sorted(xids)
    assert len({e["pid"] for e in denied(home, sid)}) == len(ways)
    for x in xids:
        skep("kill", x, "KILL")


@pytest.mark.parametrize("user", ("root", "nobody", "no-such-user"))
def test_a_refused_user_is_recorded(home, skep, user):
    sid = home.new()
    r = skep("exec", "-u", user, sid, "--", "true")
    assert r.rc == 125 and len(r.err.splitlines()) == 1
    (e,) = denied(home, sid)
    assert e["what"] == "exec" and e["user"] == user and e["why"] and e["by"] == "skep-cell"
    assert e["exec"] == next(x for x in home.journal(sid) if x["type"] == "exec.start")["exec"]


FLOOD = """import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
n, wide = int(sys.argv[1]), int(sys.argv[2])
for _ in range(wide):
    if not os.fork():
        for i in range(n):
            if libc.syscall(%d, 0x20000) != -1 or ctypes.get_errno() != 1: os._exit(1)
        os._exit(0)
sys.exit(any(os.wait()[1] for _ in range(wide)))
""" % NR["unshare"]


def test_a_flood_of_refused_calls(home, skep):
    """Every one is refused and counted; the journal stays small, the neighbour quick, and so does the cell itself."""
    n, wide = 25000, 8
    sid, neighbour = home.new(), home.new()
    skep("exec", neighbour, "--", "true").ok()
    xid = skep("exec", "-d", sid, "--", "/usr/bin/python3", "-c", FLOOD, str(n), str(wide)).ok().line
    slowest = 0
    while home.exec_row(xid)["state"] != "exited":
        for box in (neighbour, sid):
            start = time.monotonic()
            skep("exec", box, "--", "true").ok()
            slowest = max(slowest, time.monotonic() - start)
    assert home.exec_row(xid)["status"] == 0
    wait_for(lambda: sum(e.get("count", 1) for e in denied(home, sid)) == n * wide, why="the last count")
    events = denied(home, sid)
    counted = [e for e in events if "count" in e]
    assert counted and all(e["calls"] == {"unshare": e["count"]} for e in counted)
    assert denied(home, neighbour) == [] and slowest < 5
    assert os.path.getsize(path(home, sid)) < 4 << 20
    skep("log", sid, "--verify").ok()


def test_refusals_counted_at_the_end_are_not_lost(home, skep):
    r = skep("run", "--keep", "--name", "f", "--", "/usr/bin/python3", "-c", FLOOD, "200", "1")
    assert r.rc == 0, r.err
    assert sum(e.get("count", 1) for e in denied(home, "f")) == 200


def test_no_supervisor_no_call(home, skep):
    """One that is slow is waited for and then refuses; nothing goes on meanwhile."""
    sid = home.new()
    cell = home.cell_pid(sid)
    xid = skep("exec", "-d", sid, "--", "/usr/bin/python3", "-c", f"import time; time.sleep(1); {call(NR['mount'], b'none', b'/mnt', b'tmpfs', 0, 0)[2]}").ok().line
    os.kill(cell, signal.SIGSTOP)
    try:
        time.sleep(2)
        assert find_procs("libc.syscall"), "it did not wait"
    finally:
        os.kill(cell, signal.SIGCONT)
    wait_for(lambda: home.exec_row(xid)["state"] == "exited")
    assert skep("logs", xid).ok().out.split() == ["-1", "EPERM"]
    assert [e["name"] for e in denied(home, sid)] == ["mount"]


# -- journals of removed sandboxes --------------------------------------------------------------------------------
def archived(home):
    """The days' files, and the directories that are left."""
    names = os.listdir(f"{home.skep_home}/journals")
    return sorted(n for n in names if n[0] == "2"), sorted(n for n in names if n[0] != "2")


def pack(home):
    """gc packs what removals left; the directories go when that is on the disk."""
    home.skep("gc").ok()
    wait_for(lambda: not archived(home)[1], 30, why="the directories to go")


def test_journals_of_removed_sandboxes_are_packed(home, skep):
    ids = [home.new() for _ in range(3)]
    for sid in ids:
        skep("exec", sid, "--", "echo", sid).ok()
    skep("rm", "--force", *ids).ok()
    was = {sid: skep("log", sid, "--json").ok().out_b for sid in ids}
    pack(home)
    days, _ = archived(home)
    assert 2 <= len(days) <= 4 and {d[10:] for d in days} == {".z", ".index"}  # midnight may pass
    for sid in ids:
        assert skep("log", sid, "--json").ok().out_b == was[sid]
        assert skep("log", "--verify", sid).ok()
    size = sum(os.path.getsize(f"{home.skep_home}/journals/{d}") for d in days)
    pack(home)  # what was looked at goes again, and is not packed twice
    assert sum(os.path.getsize(f"{home.skep_home}/journals/{d}") for d in archived(home)[0]) == size
    assert skep("log", ids[0][:10], "--json").ok().out_b == was[ids[0]]


def test_a_damaged_archive_costs_its_own_journals_only(home, skep):
    ids = [home.new() for _ in range(2)]
    skep("rm", *ids).ok()
    was = skep("log", ids[1], "--json").ok().out_b
    pack(home)
    index, z = (f"{home.skep_home}/journals/{next(d for d in archived(home)[0] if d.endswith(e))}" for e in (".index", ".z"))
    lines = open(index, encoding="ascii").read().splitlines()
    mine = next(x for x in lines if x.startswith(ids[0]))
    other = next(x for x in lines if x.startswith(ids[1]))
    for bad in (mine.rsplit(" ", 1)[0] + " " + "0" * 64, " ".join([ids[0], "0", "9" * 18, "4194304", "0" * 64]), ids[0], "x" * 100000, "\0" * 50):
        with open(index, "w", encoding="ascii") as f:
            f.write(f"{bad}\n{other}\n")
        r = skep("log", ids[0], "--json")
        assert r.rc and ("damaged" in r.err or "no longer kept" in r.err), r.err
        assert skep("log", ids[1], "--json").ok().out_b == was
    with open(z, "r+b") as f:
        f.truncate(10)
    pack(home)
    assert skep("log", ids[0], "--json").rc and not [n for n in os.listdir(f"{home.skep_home}/journals") if n.endswith(".partial")]


def test_packed_journals_keep_to_the_disk_budget(home, skep):
    sid = home.new()
    skep("rm", sid).ok()
    pack(home)
    for n in (".z", ".index"):
        with open(f"{home.skep_home}/journals/2020-01-01{n}", "wb") as f:
            f.write(os.urandom(2 << 20) if n == ".z" else b"")
    os.makedirs(f"{home.user_home}/.config/skep", exist_ok=True)
    with open(f"{home.user_home}/.config/skep/config.yaml", "w", encoding="ascii") as f:
        f.write("disk_budget: 1m\n")
    skep("gc").ok()  # counts them
    skep("gc").ok()
    days = archived(home)[0]
    assert days and not [d for d in days if d.startswith("2020")]
    for d in days:
        os.utime(f"{home.skep_home}/journals/{d}", (1, 1))
    skep("gc").ok()
    assert not archived(home)[0]
    skep("log", sid).fails(3, "no")
