# SPDX-License-Identifier: Apache-2.0
"""The life of a sandbox: new, ps, show, start, stop, pause, resume, rm, names and prefixes."""
import os
import time

import pytest

from kit import ID, find_procs, proc_state, wait_for

SHOW = "id name state reason backend profile image repo ref base labels owner created used expires pending isolation limits size".split()


def test_new_is_stopped_and_shown(home, skep, project):
    sid = home.new("--name", "one", "--label", "team=a")
    assert sid[0] == "s"
    s = home.show("one")
    assert [k for k in SHOW if k not in s] == []
    assert (s["id"], s["name"], s["state"], s["backend"], s["profile"]) == (sid, "one", "stopped", "native", "default")
    assert s["labels"] == {"team": "a"} and s["repo"] == project and s["base"]["head"]
    assert [x["id"] for x in home.ps()] == [sid]


def test_show_says_what_is_in_force(home, skep):
    sid = home.new()
    skep("start", sid).ok()
    iso = home.show(sid)["isolation"]
    assert iso["no_new_privs"] is True and iso["network"] == "closed"
    assert iso["limits"] in ("cgroup-v1", "cgroup-v2", "supervised") and iso["freeze"] in ("cgroup", "signals")
    assert iso["seccomp"] > 100 and iso["landlock"] >= 0 and iso["nested"] is False


def test_text_output_of_lists(home, skep):
    sid = home.new("--name", "shown")
    assert "shown" in skep("ps").ok().out
    out = skep("show", sid).ok().out
    assert sid in out and "stopped" in out


def test_ps_newest_first(home):
    ids = [home.new() for _ in range(4)]
    assert [s["id"] for s in home.ps()] == ids[::-1]


def test_start_stop(home, skep):
    sid = home.new()
    skep("start", sid).ok()
    assert home.show(sid)["state"] == "running"
    skep("start", sid).ok()
    skep("stop", sid).ok()
    assert home.show(sid)["state"] == "stopped"
    skep("stop", sid).ok()


def test_several_ids_at_once(home, skep):
    ids = [home.new() for _ in range(3)]
    skep("start", *ids).ok()
    assert {s["state"] for s in home.ps()} == {"running"}
    skep("stop", *ids).ok()
    skep("rm", *ids).ok()
    assert home.ps() == []


def test_one_bad_id_among_several(home, skep):
    sid = home.new()
    r = skep("start", sid, "nope-there-is-none")
    assert r.rc == 3
    assert home.show(sid)["state"] == "running"


def test_names(home, skep):
    sid = home.new("--name", "web-1")
    assert home.show("web-1")["id"] == sid
    skep("new", "--name", "web-1").fails(4, "web-1")
    for bad in ("Web", "-x", "a_b", "x" * 41, "", "a/b", "ä", "saaaaaaaaaaaaaaa"):
        assert skep("new", "--name", bad).rc == 2, bad
    assert len(home.ps()) == 1


def test_name_is_free_again_after_rm(home, skep):
    home.new("--name", "n")
    skep("rm", "n").ok()
    home.new("--name", "n")


def test_prefixes(home, skep):
    ids = [home.new() for _ in range(2)]
    n = 3
    while ids[0][:n] == ids[1][:n]:
        n += 1
    assert home.show(ids[0][:n])["id"] == ids[0]
    skep("show", ids[0][:2]).fails(3)


def test_ambiguous_prefix(home, skep):
    seen = {}
    for _ in range(250):  # 36*36 prefixes of three characters: a pair comes soon
        sid = home.new("--empty")
        if sid[:3] in seen:
            skep("show", sid[:3]).fails(4, sid[:3])
            return
        seen[sid[:3]] = sid
    pytest.fail("no two ids alike in three characters")


def test_unknown_ids(home, skep):
    for verb in ("show", "start", "stop", "pause", "resume", "rm"):
        skep(verb, "nothing").fails(3, "nothing")
    skep("log", "nothing").fails(3, "nothing")
    skep("cp", "nothing:/etc/passwd", "/tmp/x").fails(3, "nothing")


def test_pause_and_resume(home, skep):
    sid = home.new()
    xid = skep("exec", "-d", sid, "--", "sh", "-c", "sleep 443301 & i=0; while :; do i=$((i+1)); done").ok().line
    pid = wait_for(lambda: find_procs("i=$((i+1))"))[0]
    skep("pause", sid).ok()
    assert home.show(sid)["state"] == "paused"
    a = cpu_ticks(pid)
    time.sleep(0.3)
    assert cpu_ticks(pid) == a
    skep("resume", sid).ok()
    assert home.show(sid)["state"] == "running"
    wait_for(lambda: cpu_ticks(pid) > a, why="the process to go on")
    skep("kill", xid, "KILL").ok()


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
        fields = f.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_a_stopped_process_stays_stopped_over_a_pause(home, skep):
    sid = home.new()
    xid = skep("exec", "-d", sid, "--", "sh", "-c", "sleep 443399 & sleep 0.3; kill -STOP $!; wait").ok().line
    pid = wait_for(lambda: find_procs("sleep\x00443399"))[0]
    wait_for(lambda: proc_state(pid) == "T")
    skep("pause", sid).ok()
    skep("resume", sid).ok()
    time.sleep(0.1)
    assert proc_state(pid) == "T"
    skep("kill", xid, "KILL").ok()


def test_exec_resumes_a_paused_one(home, skep):
    sid = home.new()
    skep("start", sid).ok()
    skep("pause", sid).ok()
    assert skep("exec", sid, "--", "echo", "hi").ok().line == "hi"
    assert home.show(sid)["state"] == "running"


def test_pause_of_a_stopped_one(home, skep):
    skep("pause", home.new()).fails(4)


def test_stop_of_a_paused_one(home, skep):
    sid = home.new()
    skep("exec", "-d", sid, "--", "sleep", "443302").ok()
    skep("pause", sid).ok()
    skep("stop", sid).ok()
    assert home.show(sid)["state"] == "stopped"
    assert not find_procs("sleep\x00443302")


def test_stop_is_quick_even_when_sigterm_is_ignored(home, skep):
    sid = home.new()
    for _ in range(3):
        skep("exec", "-d", sid, "--", "sh", "-c", "trap '' TERM HUP INT; while :; do sleep 443303; done").ok()
    wait_for(lambda: len(find_procs("sleep\x00443303")) == 3)
    start = time.monotonic()
    skep("stop", sid).ok()
    assert time.monotonic() - start <= 5
    assert not find_procs("443303")


def test_stop_gives_a_chance_to_clean_up(home, skep):
    sid = home.new()
    xid = skep("exec", "-d", sid, "--", "sh", "-c", "trap 'echo bye > bye; exit 0' TERM; echo up; while :; do sleep 0.05; done").ok().line
    wait_for(lambda: skep("logs", xid).out == "up\n")
    skep("stop", sid).ok()
    assert skep("exec", sid, "--", "cat", "bye").ok().line == "bye"


def test_rm_with_pending_changes(home, skep, project):
    sid = home.new()
    skep("exec", sid, "--", "sh", "-c", "echo x > x").ok()
    skep("rm", sid).fails(4)
    assert skep("exec", sid, "--", "cat", "x").ok().line == "x"
    skep("stop", sid).ok()
    skep("rm", sid).fails(4)
    skep("rm", "--force", sid).ok()
    skep("show", sid).fails(3)
    assert not [d for d, _, f in os.walk(f"{home.skep_home}/layers") if "x" in f]


def test_rm_of_a_running_one_without_changes(home, skep):
    sid = home.new()
    skep("exec", "-d", sid, "--", "sleep", "443304").ok()
    skep("rm", sid).ok()
    assert not find_procs("sleep\x00443304")


def test_rm_all(home, skep):
    for _ in range(3):
        home.new()
    skep("rm", "--all", "--force").ok()
    assert home.ps() == []


def test_rm_of_trees_that_resist(home, skep):
    """No permission, deep, and many: removed all the same, by ids the user could not touch."""
    sid = home.new()
    script = "d=.; for i in $(seq 60); do d=$d/dddddddddddddddddddddddddddddddddddddddd; done; mkdir -p $d; mkdir locked; touch locked/f; chmod 0 locked; mkdir many; cd many; seq 2000 | xargs touch"
    skep("exec", sid, "--", "sh", "-c", script).ok()
    skep("rm", "--force", sid).ok()
    wait_for(lambda: not [d for d, sub, _ in os.walk(f"{home.skep_home}/layers") if "many" in sub or "locked" in sub], why="the layer to go")


def test_operations_at_the_same_time(home, skep):
    """One changing operation at a time: each of these succeeds or is a conflict, and the end is consistent."""
    sid = home.new()
    procs = [home.popen(v, sid) for v in ("start", "stop", "start", "pause", "resume", "stop", "start") for _ in range(2)]
    for p in procs:
        _, err = p.communicate(timeout=60)
        assert p.returncode in (0, 4), err
    assert home.show(sid)["state"] in ("running", "stopped", "paused")
    skep("stop", sid).ok()


def test_base_gone(home, skep, project):
    """The directory is replaced: no new cell starts on it, and the message says why."""
    sid = home.new()
    skep("exec", sid, "--", "sh", "-c", "echo x > x").ok()
    skep("stop", sid).ok()
    os.rename(project, project + ".away")
    r = skep("exec", sid, "--", "true", cwd=home.top)
    assert r.rc == 125 and project in r.err
    os.rename(project + ".away", project)
    assert skep("exec", sid, "--", "cat", "x").ok().line == "x"


def test_gc_dry_run_and_real(home, skep):
    os.makedirs(f"{home.skep_home}/layers", exist_ok=True)
    home.new("--empty")
    os.makedirs(f"{home.skep_home}/layers/lorphanorphanor/ws")
    r = skep("gc", "--dry-run").ok()
    assert "lorphanorphanor" in r.out
    assert os.path.isdir(f"{home.skep_home}/layers/lorphanorphanor")
    skep("gc").ok()
    assert not os.path.isdir(f"{home.skep_home}/layers/lorphanorphanor")
    assert len(home.ps()) == 1


def test_ids_have_their_form(home):
    assert ID.match(home.new())
