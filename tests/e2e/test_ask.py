# SPDX-License-Identifier: Apache-2.0
"""--ask: a connection to a host without a rule is held while the person at the terminal decides. What an allowed one then
meets here is a resolver that is not there: no test reaches out, and the journal tells what was decided."""
import os
import time

import pytest

from kit import wait_for

CURL = "curl -sS -m 20 http://asked.test/ ; echo rc=$?"


@pytest.fixture(autouse=True)
def no_resolver(home):
    os.makedirs(f"{home.user_home}/.config/skep")
    with open(f"{home.user_home}/.config/skep/config.yaml", "w") as f:
        f.write("resolver: 127.0.0.1:9\n")


def answers(home, sid):
    return [(e["verdict"], e["scope"]) for e in home.journal(sid) if e["type"] == "approval.answered"]


@pytest.mark.parametrize(
    "key,verdict,scope",
    ((b"o", "allow", "once"), (b"s", "allow", "sandbox"), (b"a", "allow", "always"), (b"n", "deny", "once"), (b"\r", "deny", "once"), (b"x", "deny", "once")),
)
def test_keys(home, terminal, key, verdict, scope):
    sid = home.new("--ask")
    t = terminal("exec", "-it", sid, "--", "sh", "-c", CURL)
    t.expect("allow it. o = once")
    time.sleep(0.6)  # keys that come sooner were typed for the command
    t.send(key)
    t.expect("rc=")
    t.wait()
    assert answers(home, sid) == [(verdict, scope)]
    if scope == "always":
        assert "asked.test" in home.skep("policy", "show", sid).ok().out


PAINT = "i=0; while [ $i -lt 150000 ]; do echo PAINT-$i; i=$((i+1)); done"
RESET = rb"\x1b\[\?1049l.*\x1b\[r.*\x1b\(B\x1b\[m"


def quiet(t):
    """Nothing more came to the terminal for longer than keys are taken for the command's."""
    t.seen = b""
    end = time.monotonic() + 0.8
    while time.monotonic() < end:
        t.pump(0.05)
    return t.seen


def test_output_is_held(home, terminal):
    """The command draws on while a question stands: nothing of it is shown, all of it afterwards, and the terminal is as it was."""
    sid = home.new("--ask")
    command = f"printf '\\033[?1049h\\033[?2004h\\033[8m\\033[2;2r\\033]0;cut'; ({PAINT}) & {CURL}; wait"
    t = terminal("exec", "-it", sid, "--", "sh", "-c", command)
    t.expect(RESET + rb".*skep: the sandbox wants to reach asked.test:80\r\nskep: allow it. [^\r]*N = no: ")
    assert quiet(t) == b""
    t.send(b"s")
    t.expect(rb"skep: allowed asked.test:80 for this sandbox\r\n\x1b\[\?1049h\x1b\[\?2004h")
    t.expect("PAINT-149999", 60)
    assert t.wait(60) == 0
    assert answers(home, sid) == [("allow", "sandbox")]


@pytest.mark.parametrize("how", ("2>log", "| cat", ">log 2>&1"))
def test_question_is_on_the_terminal(home, terminal, how):
    sid = home.new("--ask")
    line = f"{home.programs}/skep exec -it {sid} -- sh -c '(while :; do echo PAINT; sleep 0.01; done) & {CURL}; kill $!' {how}"
    t = terminal("/bin/sh", "-c", line)
    t.expect("allow it. [^\r]*N = no: ")
    assert quiet(t) == b""
    t.send(b"x")
    t.expect("skep: refused asked.test:80\r\n")
    t.wait()
    assert answers(home, sid) == [("deny", "once")]


def test_other_prompts_hold_output_too(home, terminal):
    """A command in the background of the same terminal can not draw over what a verb asks."""
    sid = home.new()
    go = f"{home.programs}/skep exec {sid} -- sh -c 'while :; do echo PAINT; sleep 0.01; done' </dev/null & read go; "
    t = terminal("/bin/sh", "-c", go + f"{home.programs}/skep secret set held --host a.test --as bearer; kill $!; wait $!; echo over")
    t.expect("PAINT")
    t.send(b"\n")
    t.expect("not shown.: ")
    assert b"PAINT" not in quiet(t)
    t.send(b"\x03" if False else b"secret-value\r")
    t.expect("PAINT|over")
    t.wait(30)


def test_answered_by_another_front_end(home, terminal):
    sid = home.new("--ask")
    t = terminal("exec", "-it", sid, "--", "sh", "-c", f"{CURL}; {CURL}")
    for verdict in ("allow", "deny"):  # once is once
        asks = wait_for(lambda: home.api("GET", f"/v1/sandboxes/{sid}/asks")[1]["asks"])
        assert [(a["host"], a["port"]) for a in asks] == [("asked.test", 80)]
        answer = {"ask": asks[0]["ask"], "verdict": verdict, "scope": "once"}
        assert home.api("POST", f"/v1/sandboxes/{sid}/answers", answer)[0] == 204
        assert home.api("POST", f"/v1/sandboxes/{sid}/answers", answer)[0] == 404
    t.wait()
    assert answers(home, sid) == [("allow", "once"), ("deny", "once")]
    assert home.api("GET", f"/v1/sandboxes/{sid}/policy")[1]["policy"]["rules"] == []


def test_nobody_to_ask(home, skep):
    sid = home.new("--ask")
    start = time.monotonic()
    skep("exec", sid, "--", "sh", "-c", CURL).ok()
    assert time.monotonic() - start < 10
    assert ["nobody was there to ask" in e["why"] for e in home.journal(sid) if e["type"] == "denied"] == [True]
    assert answers(home, sid) == [("deny", "once")]
