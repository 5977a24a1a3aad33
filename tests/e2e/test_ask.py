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


def test_keys_typed_ahead_go_to_the_command(home, terminal):
    sid = home.new("--ask")
    t = terminal("exec", "-it", sid, "--", "sh", "-c", f"({CURL}) & read line; echo got=$line; wait")
    t.expect("allow it. o = once")
    t.send(b"o\r")
    t.expect("got=o")
    time.sleep(0.6)
    t.send(b"n")
    t.expect("rc=")
    t.wait()
    assert answers(home, sid) == [("deny", "once")]


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
