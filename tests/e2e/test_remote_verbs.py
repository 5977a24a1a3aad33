# SPDX-License-Identifier: Apache-2.0
"""Every verb with the SKEP_HOST of another machine: it works, or says why not. The rows are those of docs/remote.md."""
import os
import re

import pytest

from kit import ROOT, wait_for
from tcp_kit import serving, token

# verb -> (arguments, stdin, exit status, words of the one line on stderr or of stdout)
WORKS = [
    ("run", ["run", "--empty", "--", "sh", "-c", "echo hi; exit 3"], None, 3, "hi"),
    ("run", ["run", "--", "true"], None, 125, "not on the machine of SKEP_HOST"),
    ("new", ["new", "--empty", "--name", "two"], None, 0, ""),
    ("new", ["new"], None, 2, "not on the machine of SKEP_HOST"),
    ("race", ["race", "-n", "2", "--empty", "--", "true"], None, 0, ""),
    ("wrap", ["wrap", "--empty", "echo wrapped"], None, 0, "wrapped"),
    ("exec", ["exec", "-i", "far", "--", "cat"], b"in\n", 0, "in"),
    ("exec", ["exec", "--", "true"], None, 125, "name a sandbox"),
    ("shell", ["shell", "far"], b"echo sh''ell; exit 4\n", 4, "shell"),
    ("ps", ["ps"], None, 0, "far"),
    ("show", ["show", "far"], None, 0, "far"),
    ("log", ["log", "far"], None, 0, "sandbox.created"),
    ("diff", ["diff", "far"], None, 0, "+y"),
    ("diff", ["diff"], None, 2, "name a sandbox"),
    ("export", ["export", "far", "--patch", "-"], None, 0, "Subject"),
    ("compare", ["compare", "far", "two"], None, 0, "far"),
    ("dismiss", ["dismiss", "--yes", "far", "g"], None, 0, ""),
    ("apply", ["apply", "--yes", "--to", "here", "far"], None, 2, "whole path"),
    ("apply", ["apply", "--yes", "far"], None, 0, "changed"),
    ("undo", ["undo", "far"], None, 0, "put back"),
    ("pause", ["pause", "far"], None, 0, ""),
    ("resume", ["resume", "far"], None, 0, ""),
    ("pin", ["pin", "far"], None, 0, ""),
    ("unpin", ["unpin", "far"], None, 0, ""),
    ("stop", ["stop", "far"], None, 0, ""),
    ("start", ["start", "far"], None, 0, ""),
    ("snapshot", ["snapshot", "far", "one"], None, 0, ""),
    ("snapshots", ["snapshots", "far"], None, 0, "one"),
    ("rollback", ["rollback", "far"], None, 0, ""),
    ("fork", ["fork", "far"], None, 0, ""),
    ("snapshot rm", ["snapshot", "rm", "none"], None, 3, "none"),
    ("image ls", ["image", "ls"], None, 0, "ID"),
    ("image rm", ["image", "rm", "none"], None, 3, "no image"),
    ("image import", ["image", "import", "."], None, 9, "unset SKEP_HOST"),
    ("image pull", ["image", "pull", "Not/A:Name"], None, 2, "malformed name"),
    ("volume create", ["volume", "create", "data"], None, 0, ""),
    ("volume ls", ["volume", "ls"], None, 0, "data"),
    ("volume cp", ["volume", "cp", __file__, "data:/g"], None, 0, ""),
    ("volume rm", ["volume", "rm", "data"], None, 0, ""),
    ("policy show", ["policy", "show", "far"], None, 0, "deny"),
    ("policy set", ["policy", "set", "far", "--allow", "example.org"], None, 0, ""),
    ("policy check", ["policy", "check", "example.org"], None, 5, "deny"),
    ("policy explain", ["policy", "explain", "far", "example.org"], None, 0, "allow"),
    ("policy suggest", ["policy", "suggest", "far"], None, 0, ""),
    ("secret set", ["secret", "set", "K", "--host", "api.test", "--as", "bearer"], b"v\n", 0, ""),
    ("secret ls", ["secret", "ls"], None, 0, "api.test"),
    ("secret rm", ["secret", "rm", "K"], None, 0, ""),
    ("token new", ["token", "new", "--scope", "read"], None, 0, "skep_"),
    ("token ls", ["token", "ls"], None, 0, "read"),
    ("token rm", ["token", "rm", "none"], None, 3, "no token"),
    ("preview", ["preview", "far", "8000"], None, 0, "http://"),
    ("gc", ["gc", "--dry-run"], None, 0, "remove"),
    ("trust", ["trust"], None, 9, "unset SKEP_HOST"),
    ("serve", ["serve"], None, 9, "unset SKEP_HOST"),
    ("doctor", ["doctor"], None, 9, "unset SKEP_HOST"),
    ("mcp", ["mcp"], b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}\n', 0, "serverInfo"),
    ("init", ["init", "--print", "--agent", "claude"], None, 0, "SKEP_HOST"),
    ("version", ["version"], None, 0, "skep"),
    ("help", ["help"], None, 0, "usage"),
    ("completion", ["completion", "bash"], None, 0, "complete"),
    ("rm", ["rm", "--force", "two"], None, 0, ""),
]
# shown by other tests
ELSEWHERE = {"attach": "test_remote", "logs": "test_remote", "kill": "test_remote", "cp": "test_remote", "watch": "test_remote", "ssh": "test_remote_ssh", "code": "test_remote_ssh"}


def verbs(home):
    text = home.skep("help").ok().out
    return set(re.findall(r"^  ([a-z]+(?: [a-z]+)?)  ", text, re.M))


def test_every_verb(home):
    with open(f"{home.dir}/f", "w", encoding="utf-8") as f:
        f.write("x\n")
    home.new("--name", "far")
    home.skep("exec", "far", "--", "sh", "-c", "echo y > f; echo z > g").ok()
    admin = token(home, "--scope", "admin")
    missing = verbs(home) - {w[0] for w in WORKS} - set(ELSEWHERE)
    assert not missing, f"no row for {missing}"
    elsewhere = f"{home.top}/elsewhere"
    os.mkdir(elsewhere)
    wrong = []
    with serving(home) as port:
        env = {"SKEP_HOST": f"http://127.0.0.1:{port}", "SKEP_TOKEN": admin, "SKEP_HOME": f"{home.top}/none"}
        for _, args, stdin, status, word in WORKS:
            r = home.skep(*args, stdin=stdin, env=env, cwd=elsewhere)
            if r.rc != status or word not in r.out + r.err:
                wrong.append((args, r.rc, r.out[-300:], r.err[-300:]))
    assert not wrong, "\n".join(map(str, wrong))
    assert not os.path.exists(f"{home.top}/none"), "a skepd of its own was started"


def test_the_table_of_the_documentation_names_every_verb(home):
    with open(f"{ROOT}/docs/remote.md", encoding="utf-8") as f:
        rows = re.findall(r"^\| (`.*?) \|", f.read(), re.M)
    named = {w for row in rows for w in re.findall(r"`([a-z]+(?: [a-z]+)?)`", row)}
    assert verbs(home) <= named, verbs(home) - named


@pytest.mark.parametrize("scope,refused", [("read", ["exec", "far", "--", "true"]), ("run", ["policy", "set", "far", "--allow", "example.org"]), ("review", ["gc"])])
def test_a_token_that_may_not_says_what_it_needs(home, scope, refused):
    home.new("--empty", "--name", "far")
    t = token(home, "--scope", scope)
    with serving(home) as port:
        r = home.skep(*refused, env={"SKEP_HOST": f"http://127.0.0.1:{port}", "SKEP_TOKEN": t})
        assert r.rc in (5, 125) and f"yours has {scope}" in r.err


# -- what a person does at the keyboard ------------------------------------------------------------------------------
@pytest.fixture
def far(home):
    home.new("--empty", "--name", "far")
    t = token(home, "--scope", "run")
    with serving(home) as port:
        yield {"SKEP_HOST": f"http://127.0.0.1:{port}", "SKEP_TOKEN": t, "SKEP_HOME": f"{home.top}/none", "SKEP_RETRY": "2"}


def running(home):
    return [x for x in home.api("GET", "/v1/execs")[1]["execs"] if x["state"] == "running"]


def test_suspend_and_continue(home, far, terminal):
    """^Z stops the command there and skep here; fg goes on with both, and the line was there all the time."""
    t = terminal("/bin/bash", "--norc", "--noprofile", "-i", env={**far, "PS1": "host> "})
    t.expect("host> ")
    t.send("skep exec -it far -- sh -c 'echo started; cat; echo ended'\n")
    t.expect(r"[\r\n]started")
    t.send("first\n")  # cat runs: a shell that is in vfork can not be stopped, so it would not be seen stopping
    t.expect("first.*first")
    t.send(b"\x1a")
    t.expect("Stopped")
    t.send("echo host is $((40+2))\n")
    t.expect("host is 42")
    t.send("fg\n")
    t.expect("skep exec")
    t.send("typed\n")
    t.expect("typed.*typed")
    t.send(b"\x04")
    t.expect("ended")
    t.send("exit\n")
    assert t.wait() == 0


def hang_up(t):
    with open("/dev/null", "rb") as null:
        os.close(t.slave)
        t.slave = os.dup(null.fileno())
        os.dup2(null.fileno(), t.master)
    t.proc.wait(15)


def test_closing_the_terminal(home, far, terminal):
    """As on one machine: it hangs up the command it was opened for, and leaves one that was only attached to."""
    xid = home.skep("exec", "-d", "-t", "far", "--", "sh", "-c", "echo u''p; sleep 6401", env=far).ok().line
    t = terminal("exec", "-it", "far", "--", "sh", "-c", "echo u''p; sleep 6403", env=far)
    t.expect("up")
    wait_for(lambda: len(running(home)) == 2, why="both")
    hang_up(t)
    wait_for(lambda: [x["id"] for x in running(home)] == [xid], why="the command to be hung up")
    t = terminal("attach", xid, env=far)
    t.expect("up")
    hang_up(t)
    assert [x["id"] for x in running(home)] == [xid]
    home.skep("kill", xid, "KILL", env=far).ok()
    wait_for(lambda: not running(home), why="its end")


def test_detached(home, far):
    xid = home.skep("exec", "-d", "far", "--", "sh", "-c", "echo one; exec sleep 6402", env=far).ok().line
    wait_for(lambda: home.skep("logs", xid, env=far).ok().out == "one\n")
    home.skep("kill", xid, "TERM", env=far).ok()
    assert home.skep("attach", "--no-stdin", xid, env=far).rc == 143
