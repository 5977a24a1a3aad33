# SPDX-License-Identifier: Apache-2.0
"""What changes in a sandbox: recorded after each command, and shown while it happens."""
import glob
import hashlib
import os
import signal
import time

import pytest
from kit import find_procs, wait_for
from watch_kit import Watcher


def sha(data):
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


@pytest.fixture
def watch(home):
    open_ones = []

    def start(sid, *args):
        open_ones.append(Watcher(home, sid, *args))
        return open_ones[-1]

    yield start
    for w in open_ones:
        w.close()


def changed(home, sid):
    return [e for e in home.journal(sid) if e["type"] == "file.changed"]


def run(home, sid, script):
    return home.skep("exec", sid, "--", "sh", "-c", script).ok()


def wait_changed(home, sid, n):
    return wait_for(lambda: len(changed(home, sid)) >= n and changed(home, sid), why=f"{n} file.changed events")


# -- recorded ---------------------------------------------------------------------------------------------------
def test_changes_are_recorded_with_hashes_and_their_command(home, project):
    sid = home.new()
    run(home, sid, "echo more >> README; rm add.h; echo new > new.txt; chmod +x main.c")
    events = {e["path"]: e for e in wait_changed(home, sid, 4)}
    exec_id = [e for e in home.journal(sid) if e["type"] == "exec.start"][0]["exec"]
    assert {p: e["kind"] for p, e in events.items()} == {"README": "M", "add.h": "D", "new.txt": "A", "main.c": "M"}
    assert all(e["exec"] == exec_id for e in events.values())
    assert (events["README"]["before"], events["README"]["after"]) == (sha("a small project\n"), sha("a small project\nmore\n"))
    assert events["add.h"]["before"] == sha("int add(int a, int b);\n") and "after" not in events["add.h"]
    assert events["new.txt"]["after"] == sha("new\n") and "before" not in events["new.txt"]
    assert events["main.c"]["executable"] is True and events["main.c"]["before"] == events["main.c"]["after"]


def test_only_what_is_new_is_recorded(home, project):
    sid = home.new()
    run(home, sid, "echo 1 > one; echo 2 > two")
    wait_changed(home, sid, 2)
    run(home, sid, "touch one; true")
    time.sleep(0.4)
    assert len(changed(home, sid)) == 2  # a file that was only touched did not change
    run(home, sid, "echo 3 >> one; rm two")
    last = {e["path"]: e for e in wait_changed(home, sid, 4)[2:]}
    assert last["one"]["kind"] == "M" and last["one"]["before"] == sha("1\n") and last["one"]["after"] == sha("1\n3\n")
    assert last["two"]["kind"] == "D" and last["two"]["before"] == sha("2\n") and last["two"]["as_base"]


def test_a_new_cell_does_not_tell_old_changes_again(home, project):
    sid = home.new()
    run(home, sid, "echo 1 > one; rm README; echo 2 > two")
    wait_changed(home, sid, 3)
    home.skep("stop", sid).ok()
    run(home, sid, "sleep 0.3; echo more > three; rm two")
    assert [(e["kind"], e["path"]) for e in wait_changed(home, sid, 5)[3:]] == [("A", "three"), ("D", "two")]


def test_a_command_whose_cell_ends_with_it_is_recorded(home, project):
    home.skep("run", "--", "sh", "-c", "echo x > made").ok()
    sid = home.ps()[0]["id"]
    (e,) = changed(home, sid)
    assert (e["path"], e["kind"], e["after"]) == ("made", "A", sha("x\n")) and e["exec"]


def test_who_did_it_is_not_guessed(home, project):
    sid = home.new()
    ids = {home.skep("exec", "-d", sid, "--", "sh", "-c", f"sleep 0.3; echo x > f{i}; sleep 0.2").ok().line for i in range(2)}
    events = wait_changed(home, sid, 2)
    assert all(set(e["execs"]) == ids and "exec" not in e for e in events)


def test_many_changes_are_counted(home, project):
    sid = home.new()
    run(home, sid, "mkdir many; i=0; while [ $i -lt 1000 ]; do echo $i > many/$i; i=$((i+1)); done")
    wait_for(lambda: [e for e in changed(home, sid) if "count" in e], why="the summary")
    events = changed(home, sid)
    named = [e for e in events if "path" in e]
    assert 0 < len(named) <= 256 and len(named) + sum(e.get("count", 0) for e in events) == 1000
    assert home.skep("log", "--verify", sid).ok()


# -- live -------------------------------------------------------------------------------------------------------
def test_create_modify_delete_rename_mode(home, project, watch):
    sid = home.new()
    w = watch(sid)
    run(home, sid, "echo one > n; sleep 0.2; echo two >> n; sleep 0.2; mv n m; sleep 0.2; chmod +x m; sleep 0.2; rm m README; "
                   "sleep 0.2; printf 'a\\0b' > bin; ln -s bin to; mkdir -p sub/deep/er/est; echo x > sub/deep/er/est/f")
    assert w.change("n", kind="A")["diff"] == "@@ -0,0 +1 @@\n+one\n"
    line = w.change("n", kind="M")
    assert line["diff"] == "@@ -1 +1,2 @@\n one\n+two\n" and (line["before"], line["after"]) == (sha("one\n"), sha("one\ntwo\n"))
    assert w.change("m")["kind"] == "R" and w.seen[-1]["from"] == "n"
    assert w.change("m", kind="M")["executable"] is True and "diff" not in w.seen[-1]
    gone = [w.until(lambda x: x.get("kind") == "D") for _ in range(2)]
    assert {g["path"]: g["diff"] for g in gone} == {"m": "@@ -1,2 +0,0 @@\n-one\n-two\n", "README": "@@ -1 +0,0 @@\n-a small project\n"}
    w.exit()
    rest = {x["path"]: x for x in reversed(w.seen) if x["type"] == "change"}
    assert rest["bin"]["binary"] and rest["to"]["what"] == "symbolic link" and rest["sub/deep/er/est/f"]["kind"] == "A"
    recorded = {(e["path"], e["kind"]) for e in changed(home, sid)}
    assert {("n", "A"), ("n", "M"), ("m", "A"), ("m", "D"), ("README", "D")} <= recorded  # live, too


def test_a_change_is_shown_against_what_was_there_when_the_watch_began(home, project, watch):
    sid = home.new()
    run(home, sid, "echo before >> README")
    wait_changed(home, sid, 1)
    w = watch(sid)
    run(home, sid, "echo after >> README")
    assert w.change("README")["diff"] == "@@ -1,2 +1,3 @@\n a small project\n before\n+after\n"


def test_it_comes_at_once(home, project, watch):
    """No budget here (make bench has it); but far below the second a walk would take."""
    sid = home.new()
    w = watch(sid)
    script = "import time\nfor i in range(30):\n  time.sleep(0.05); open('t','w').write(str(time.monotonic_ns()))\n"
    p = home.popen("exec", sid, "--", "python3", "-c", script)
    took = []
    for _ in range(25):
        line = w.until(lambda x: x.get("path") == "t" and "\n+" in x.get("diff", ""))
        written = int([s for s in line["diff"].splitlines() if s.startswith("+")][0][1:])
        took.append(w.came - written / 1e9)
    p.communicate()
    assert sorted(took)[len(took) // 2] < 0.1, took


def test_commands_are_shown_behind_what_they_changed(home, project, watch):
    sid = home.new()
    w = watch(sid)
    assert [x["type"] for x in w.seen] == ["ready"]
    for i in range(5):
        run(home, sid, f"echo {i} > f{i}")
    for _ in range(5):
        w.exit()
    at = lambda what: next(i for i, x in enumerate(w.seen) if what(x))
    for i in range(5):
        mine = lambda kind, argv=f"echo {i} > f{i}": at(lambda x: x["type"] == kind and x["argv"][2] == argv)
        assert mine("exec.start") < at(lambda x, i=i: x.get("path") == f"f{i}") < mine("exec.exit"), w.seen
    starts = [x for x in w.seen if x["type"] == "exec.start"]
    assert len(starts) == 5 and all(a["seq"] <= b["seq"] for a, b in zip(w.seen, w.seen[1:]))


def test_stores_to_mapped_memory_are_seen(home, project, watch):
    sid = home.new()
    w = watch(sid)
    script = ("import mmap,time\nf=open('README','r+b'); m=mmap.mmap(f.fileno(),0); f.close()\n"
              "m[0:1]=b'X'; time.sleep(1.5); m[0:1]=b'Y'; m.close()\n")
    home.skep("exec", sid, "--", "python3", "-c", script).ok()
    assert w.exit()["status"] == 0
    changes = [x for x in w.seen if x.get("path") == "README"]
    assert changes[-1]["after"] == sha("Y small project\n")
    assert changes[0]["after"] == sha("X small project\n")  # while it was mapped


def test_ten_thousand_files_lose_nothing(home, project, watch):
    sid = home.new()
    w = watch(sid)
    script = "import os\nos.mkdir('many')\nfor i in [*range(10000), *range(0, 10000, 10)]:\n  open(f'many/{i}','a').write(f'{i}\\n')\n"
    home.skep("exec", sid, "--", "python3", "-c", script, timeout=120).ok()
    w.until(lambda x: x["type"] == "exec.exit", 60)
    final = {x["path"]: x["after"] for x in w.seen if x["type"] == "change" and x.get("what") == "file"}
    assert len(final) == 10000
    assert all(final[f"many/{i}"] == sha(f"{i}\n" * (1 if i % 10 else 2)) for i in range(10000))
    run(home, sid, "rm -r many")  # teardown would wait for it


def test_it_goes_on_from_a_number(home, project, watch):
    sid = home.new()
    w = watch(sid)
    run(home, sid, "ln -s 1 one")  # in one step: a file may be seen empty first, and the walk behind would tell it again
    seq = w.exit()["seq"]
    w.close()
    run(home, sid, "echo 2 > two; rm one")
    wait_changed(home, sid, 3)
    again = watch(sid, "--from", str(seq))
    again.change("two", kind="A", after=sha("2\n"))
    again.until(lambda x: x["type"] == "ready")
    run(home, sid, "echo 3 > three")
    again.change("three")
    missed = [x for x in again.seen if x["type"] == "change"]
    assert sorted((x["kind"], x["path"]) for x in missed[:2]) == [("A", "two"), ("D", "one")]  # each once
    assert [(x["kind"], x["path"]) for x in missed if x["path"] != "three"] == [(x["kind"], x["path"]) for x in missed[:2]]
    assert [x["argv"][2] for x in again.seen if x["type"] == "exec.start"][:1] == ["echo 2 > two; rm one"]


def test_what_runs_already_is_told_at_the_start(home, project, watch):
    """Changes of a command that is under way, made before anybody watched and not recorded yet."""
    sid = home.new()
    xid = home.skep("exec", "-d", sid, "--", "sh", "-c", "echo early > e; sleep 30").ok().line
    wait_for(lambda: home.skep("exec", sid, "--", "test", "-s", "e").rc == 0)
    w = watch(sid)
    assert [x for x in w.seen if x.get("path") == "e" and x["after"] == sha("early\n")] or changed(home, sid)
    home.skep("kill", xid, "KILL").ok()


def test_nothing_a_sandbox_wrote_reaches_the_terminal_as_it_is(home, project, terminal):
    sid = home.new()
    t = terminal("watch", sid)
    t.expect("watching")
    run(home, sid, r"""printf '\033]0;owned\007\033[2Jevil\n' > "$(printf 'n\033[31mame')"; printf 'x\342\200\256y\n' > bidi""")
    t.expect(r"after `")
    seen = t.seen
    t.send(b"\x03")
    t.wait()
    assert b"\033]0" not in seen and b"\033[2J" not in seen and b"\033[31mame" not in seen and "\u202e".encode() not in seen


def test_text(home, project):
    sid = home.new()
    p = home.popen("watch", "--color", "always", sid)
    time.sleep(0.5)
    run(home, sid, "echo more >> README; printf 'name\\033' > e")
    wait_for(lambda: "after `" in peek(p), why="the end of the command")
    p.send_signal(signal.SIGINT)
    p.communicate()
    text = peek(p)
    assert "\033[1mM README\033[m\n" in text and "\033[32m+more\033[m\n" in text and "name\\x1b" in text.replace("\\033", "\\x1b").replace("\\u001b", "\\x1b")
    assert "== after `sh -c echo more >> README" in text


def peek(p):
    if not hasattr(p, "text"):
        p.text = b""
        os.set_blocking(p.stdout.fileno(), False)
    try:
        while True:
            got = os.read(p.stdout.fileno(), 65536)
            if not got:
                break
            p.text += got
    except (BlockingIOError, ValueError, OSError):
        pass
    return p.text.decode()


def test_a_watcher_that_is_killed_leaves_nothing(home, project, watch):
    sid = home.new()
    for i in range(3):
        w = watch(sid)
        run(home, sid, f"echo {i} >> README")
        w.change("README")
        w.close()
    alone = ["/proc/1", "/proc/self"]  # and the shell that looks
    wait_for(lambda: len(run(home, sid, "echo /proc/[0-9]*").line.split()) == len(alone), why="the jobs to end")
    execs = {x["id"] for x in home.api("GET", f"/v1/sandboxes/{sid}/execs")[1]["execs"]}
    kept = glob.glob(f"{home.skep_home}/sandboxes/{sid}/out/*")
    assert kept and all(os.path.basename(f).split(".")[0] in execs for f in kept)


def test_the_watch_ends_with_the_sandbox(home, project, watch):
    sid = home.new()
    w = watch(sid)
    home.skep("stop", sid).ok()
    assert w.proc.wait(10) == 0
    assert b"no longer running" in w.proc.stderr.read()


def test_run_waits_until_its_watcher_knows(home, project, watch):
    p = home.popen("run", "--name", "w", "--", "sh", "-c", "while [ ! -e README.go ]; do sleep 0.02; done; mkdir m; for i in $(seq 300); do echo $i > m/$i; done")
    sid = wait_for(lambda: [b["id"] for b in home.ps() if b.get("name") == "w" and b["state"] == "running"])[0]
    w = watch(sid)
    home.skep("exec", sid, "--", "touch", "README.go").ok()
    p.communicate()
    assert p.returncode == 0
    assert w.proc.wait(10) == 0
    w.thread.join(5)
    while not w.lines.empty():
        w.seen.append(w.lines.get()[1])
    assert len({x["path"] for x in w.seen if x["type"] == "change" and x["path"].startswith("m/")}) == 300


def test_a_process_inside_can_not_end_the_watch_for_good(home, project, watch):
    sid = home.new()
    w = watch(sid)
    home.skep("exec", sid, "--", "sh", "-c", "for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p = 1 ] || [ $p = $$ ] || kill -9 $p; done")
    time.sleep(1)
    run(home, sid, "echo still > there")
    w.change("there")


def test_what_happens_between_two_jobs_is_told_once(home, project, watch):
    """Ended inside while a command works on: what the next job did not see comes from the journal, and nothing comes twice. Links are
    made in one step, so nobody sees half of one."""
    sid = home.new()
    w = watch(sid)
    run(home, sid, "ln -s 0 f0")
    w.exit()
    for i in (1, 2):
        run(home, sid, f"for p in /proc/[0-9]*; do p=${{p#/proc/}}; [ $p = 1 ] || [ $p = $$ ] || kill -9 $p; done; ln -s {i} f{i}; ln -s {i} g{i}")
        run(home, sid, f"ln -s {i} h{i}")
    run(home, sid, "ln -s last last")
    names = sorted(e["path"] for e in wait_changed(home, sid, 8))
    assert names == ["f0", "f1", "f2", "g1", "g2", "h1", "h2", "last"]
    told = lambda kind: sorted(x.get("path") or x["exec"] for x in w.seen if x["type"] == kind)
    while len(told("change")) < 8 or len(told("exec.exit")) < 6:
        w.until(lambda x: True)
    assert told("change") == names, w.seen
    assert told("exec.start") == told("exec.exit") and len(set(told("exec.exit"))) == 6, w.seen


def test_risks_are_told_with_their_reasons(home, project, watch, terminal):
    sid = home.new()
    w = watch(sid)
    t = terminal("watch", sid)
    t.expect("watching")
    run(home, sid, "printf 'all:\\n\\trm x\\n' > Makefile; echo plain >> README; ln -s /etc out; printf '\\0' > bin; "
                   "printf '#!/bin/sh\\n' > go; chmod +x go; printf 'a \\342\\200\\256 b\\n' >> add.c; rm add.h")
    w.exit()
    told = {x["path"]: [r["flag"] for r in x["risks"]] for x in w.seen if x["type"] == "change"}
    assert told == {"Makefile": ["build"], "README": [], "out": ["link"], "bin": ["binary"], "add.c": ["bidi"], "add.h": [], "go": ["executable"]}
    assert all(len(r["reason"]) > 5 for x in w.seen if x["type"] == "change" for r in x["risks"])
    review = {c["path"]: [r["flag"] for r in c["risks"]] for c in home.skep("diff", "--json", sid).json()["changes"]}
    assert {p: f for p, f in told.items() if p in review} == review, "the rules of diff"
    seen = t.expect("after `sh").string.decode(errors="replace")
    assert "risk: make runs its commands" in seen and "risk: the link leaves the directory" in seen and "risk: it becomes executable" in seen


# -- asking -----------------------------------------------------------------------------------------------------
def test_each_change_is_taken_or_dismissed_as_it_comes(home, project, terminal):
    sid = home.new()
    t = terminal("watch", "-i", sid)
    t.expect("watching")
    run(home, sid, "echo good >> README")
    t.expect(r"\+good.*\+good.*Apply this change \[y,n,x,d,q,\?\]\? ")
    t.send("?\n")
    t.expect("y - apply this change.*Apply this change")
    t.send("y\n")
    t.expect("applied")
    with open(f"{project}/README", encoding="ascii") as f:
        assert f.read() == "a small project\ngood\n"
    run(home, sid, "echo bad >> add.c")
    t.expect(r"\+bad.*Apply this change")
    t.send("x\n")
    t.expect("dismissed")
    assert "bad" not in home.skep("exec", sid, "--", "cat", "add.c").ok().out
    run(home, sid, "echo later >> add.h")
    t.expect(r"\+later.*Apply this change")
    t.send("n\n")
    run(home, sid, "echo new > fresh")
    t.expect(r"\+new.*Apply this change")
    t.send("q\n")
    assert t.wait() == 0
    assert sorted(home.skep("diff", "--name-status", sid).ok().out.split()) == ["A", "M", "add.h", "fresh"]
    kinds = [e["type"] for e in home.journal(sid) if e["type"].startswith("review.")]
    assert kinds == ["review.applied", "review.dismissed"]


def test_an_answer_is_about_what_was_shown(home, project, terminal):
    """Another file that changes meanwhile does not matter; the same file does, and then it is asked again."""
    sid = home.new()
    t = terminal("watch", "-i", sid)
    t.expect("watching")
    run(home, sid, "echo good >> README")
    t.expect(r"\+good.*\+good.*Apply this change")
    run(home, sid, "echo other > elsewhere")
    t.send("y\n")
    t.expect("applied")
    with open(f"{project}/README", encoding="ascii") as f:
        assert f.read().endswith("good\n")
    t.expect(r"\+other.*Apply this change")
    t.send("n\n")
    run(home, sid, "echo first >> add.c")
    t.expect(r"\+first.*Apply this change")
    run(home, sid, "sed -i 's/^first$/second/' add.c")
    t.send("y\n")
    t.expect("not done: .*look again.*\\+second.*Apply this change")
    t.send("y\n")
    t.expect("applied")
    with open(f"{project}/add.c", encoding="ascii") as f:
        assert f.read().endswith("second\n")
    t.send("q\n")


def test_q_ends_it_while_nothing_happens(home, project, terminal):
    sid = home.new()
    t = terminal("watch", "-i", sid)
    t.expect("watching")
    t.send("q\n")
    assert t.wait() == 0


def test_asking_and_json_do_not_go_together(home):
    home.skep("watch", "-i", "--json", "x").fails(2, "--json")
    assert not find_procs("watch\x00-i")
