# SPDX-License-Identifier: Apache-2.0
"""The journal: what is recorded, and that no tampering goes unnoticed."""
import glob
import hashlib
import json
import os
import subprocess

import pytest

from kit import wait_for


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
    assert [k for k in e if k.endswith("_b64") or k == "not_utf8"]


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
    skep("log", sid, "--verify").ok()
