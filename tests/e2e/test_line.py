# SPDX-License-Identifier: Apache-2.0
"""A line that breaks costs nothing: the client comes back, and no byte is lost or doubled in either direction."""
import hashlib
import itertools
import os
import random
import signal
import subprocess

import pytest

from kit import find_procs, wait_for
from line_kit import Relay
from tcp_kit import serving, token
from watch_kit import Watcher


@pytest.fixture
def far(home):
    """A sandbox, and skep on the other side of a relay."""
    sid = home.new("--empty", "--name", "far")
    secret = token(home, "--scope", "run")

    class Far:
        box = sid

        @staticmethod
        def env(relay, **more):
            return {"SKEP_HOST": f"http://127.0.0.1:{relay.port}", "SKEP_TOKEN": secret, "SKEP_HOME": f"{home.top}/elsewhere", **more}

    with serving(home) as port:
        Far.port = port
        yield Far
    assert not os.path.exists(f"{home.top}/elsewhere"), "a skepd of its own was started"


def test_no_byte_is_lost_either_way(home, far):
    blob = random.Random(7).randbytes(64 << 20)
    dice = random.Random(11)
    with Relay(far.port, limit=lambda: dice.randrange(1 << 20, 12 << 20)) as relay:
        r = home.skep("exec", "-i", "far", "--", "sh", "-c", "cat; exit 7", stdin=blob, env=far.env(relay), timeout=240)
        assert relay.cuts >= 5
    assert r.rc == 7, r.err
    assert hashlib.sha256(r.out_b).digest() == hashlib.sha256(blob).digest()
    assert r.err == "", "only a terminal is told of a lost line"


def test_both_streams_and_small_pieces(home, far):
    """Cut again and again in the middle of frames, also of the greeting."""
    script = "i=0; while [ $i -lt 3000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done; exit 3"
    dice = random.Random(3)
    limits = itertools.chain([None], (dice.choice([400, 700, 30000, 100000]) for _ in itertools.count()))  # the request itself is not repeated
    with Relay(far.port, limit=lambda: next(limits)) as relay:
        r = home.skep("exec", "far", "--", "sh", "-c", script, env=far.env(relay), timeout=120)
        assert relay.cuts >= 3
    assert r.rc == 3
    assert r.out == "".join(f"out {i}\n" for i in range(3000))
    assert r.err == "".join(f"err {i}\n" for i in range(3000))


def test_output_while_nobody_is_there(home, far):
    """The command goes on, and ends, while the line is down; all of it is told afterwards, its end too."""
    with Relay(far.port) as relay:
        p = home.popen("exec", "far", "--", "sh", "-c", "echo up; while [ ! -e /tmp/go ]; do sleep 0.02; done; seq 200000; exit 9", env=far.env(relay))
        assert p.stdout.read(3) == b"up\n"
        relay.open = False
        relay.cut_all()
        wait_for(lambda: relay.cuts, why="the line to be cut")
        home.skep("exec", "far", "--", "touch", "/tmp/go").ok()
        wait_for(lambda: [x for x in home.api("GET", f"/v1/sandboxes/{far.box}/execs")[1]["execs"] if x["status"] == 9], why="its end")
        relay.open = True
        out, err = p.communicate(timeout=60)
    assert (p.returncode, err) == (9, b"")
    assert out == b"".join(b"%d\n" % i for i in range(1, 200001))


def test_run_that_ended_meanwhile(home, far):
    """The sandbox went with its command; the cell waits for who has not heard of it."""
    with Relay(far.port) as relay:
        p = home.popen("run", "--empty", "--", "sh", "-c", "echo up; read x; echo down; exit 4", stdin=subprocess.PIPE, env=far.env(relay))
        assert p.stdout.read(3) == b"up\n"
        box = next(b["id"] for b in home.ps() if b["name"] != "far")
        relay.open = False
        xid = home.api("GET", f"/v1/sandboxes/{box}/execs")[1]["execs"][0]["id"]
        relay.cut_all()
        wait_for(lambda: relay.cuts, why="the line to be cut")
        assert home.api("POST", f"/v1/execs/{xid}/kill", {"signal": 9})[0] == 204
        wait_for(lambda: box not in [b["id"] for b in home.ps()], why="the sandbox to go")
        relay.open = True
        assert p.wait(60) == 137
        p.communicate()


def test_given_up_in_plain_words(home, far):
    with Relay(far.port) as relay:
        p = home.popen("exec", "far", "--", "sh", "-c", "echo up; sleep 7171", env=far.env(relay, SKEP_RETRY="1"))
        assert p.stdout.read(3) == b"up\n"
        relay.open = False
        relay.cut_all()
        _, err = p.communicate(timeout=60)
        assert p.returncode == 125
        relay.open = True
        words = err.decode().split()
        assert "lost," in words and words[-3:-1] == ["skep", "attach"], err
        q = home.popen("attach", words[-1], env=far.env(relay, SKEP_RETRY="1"))
        assert q.stdout.read(3) == b"up\n"
        home.skep("kill", words[-1], "KILL").ok()
        assert q.wait(30) == 137
        q.communicate()
        p = home.popen("exec", "far", "--", "sh", "-c", "echo up; sleep 7172", env=far.env(relay, SKEP_RETRY="0"))
        assert p.stdout.read(3) == b"up\n"
        relay.cut_all()
        _, err = p.communicate(timeout=60)
        assert p.returncode == 125 and err.decode().split()[-3:-1] == ["skep", "attach"], err
        home.skep("kill", err.decode().split()[-1], "KILL").ok()
        home.skep("exec", "far", "--", "true", env=far.env(relay, SKEP_RETRY="soon")).fails(125, "SKEP_RETRY")


def test_a_client_that_was_killed_is_forgotten(home, far):
    """kill -9: the command goes on, as it does here; and nothing waits for ever."""
    with Relay(far.port) as relay:
        p = home.popen("exec", "far", "--", "sh", "-c", "echo up; exec yes 1234567890", env=far.env(relay, SKEP_RETRY="1"))
        assert p.stdout.read(3) == b"up\n"
        p.send_signal(signal.SIGKILL)
        p.wait(10)
        p.communicate()
    xid = next(x["id"] for x in home.api("GET", f"/v1/sandboxes/{far.box}/execs")[1]["execs"] if x["state"] == "running")
    wait_for(lambda: int(home.api_raw("GET", f"/v1/execs/{xid}/output?stream=stdout&offset=0&max_bytes=1")[1].get("X-Skep-Offset", 0)) > 0, seconds=60, why="the oldest bytes to make room")
    home.skep("kill", xid, "KILL").ok()


def test_cp_through_a_line_that_breaks(home, far):
    blob = os.urandom(9 << 20)
    with open(f"{home.dir}/blob", "wb") as f:
        f.write(blob)
    dice = random.Random(5)
    with Relay(far.port, limit=lambda: dice.randrange(1 << 20, 3 << 20)) as relay:
        home.skep("cp", "blob", "far:/tmp/there", env=far.env(relay), timeout=120).ok()
        home.skep("cp", "far:/tmp/there", "back", env=far.env(relay), timeout=120).ok()
        assert relay.cuts >= 4
    with open(f"{home.dir}/back", "rb") as f:
        assert f.read() == blob


def test_terminal(home, far, terminal):
    """A person is told in one line; the screen, the size and the keys are there again."""
    with Relay(far.port) as relay:
        t = terminal("exec", "-it", "far", "--", "sh", env=far.env(relay), rows=30, cols=90)
        t.send("echo on''e\n")
        t.expect("one")
        relay.open = False
        relay.cut_all()
        t.expect("connection lost, trying again")
        t.resize(40, 120)
        relay.open = True
        wait_for(lambda: relay.lines >= 3, why="the line to be there again")
        t.send("stty size; echo tw''o\n")
        t.expect("40 120")
        t.expect("two")
        t.send("sleep 6177\n")
        wait_for(lambda: find_procs("6177"))
        t.send("\x03")
        t.send("exit 5\n")
        assert t.wait() == 5


def test_terminal_that_gives_up_is_whole(home, far, terminal):
    """^C while there is no line ends skep, not the command; the terminal is as it was."""
    with Relay(far.port) as relay:
        t = terminal("exec", "-it", "far", "--", "sh", "-c", "echo u''p; sleep 6178", env=far.env(relay, SKEP_RETRY="4"))
        t.expect("up")
        relay.open = False
        relay.cut_all()
        t.expect("connection lost, trying again")
        t.send("\x03")
        assert t.wait() in (-signal.SIGINT, 130)
        assert find_procs("6178")
        relay.open = True
    xid = next(x["id"] for x in home.api("GET", f"/v1/sandboxes/{far.box}/execs")[1]["execs"] if x["state"] == "running")
    home.skep("kill", xid, "KILL").ok()


def test_skepd_is_started_anew(home):
    """The cell does not need it; the client finds the new one."""
    home.new("--empty", "--name", "far")
    secret = token(home, "--scope", "run")

    def serve():
        return int(home.skep("serve", "-d", "--listen", "127.0.0.1:0").ok().out.split("127.0.0.1:")[1].split()[0].strip("/"))

    with Relay(serve()) as relay:
        env = {"SKEP_HOST": f"http://127.0.0.1:{relay.port}", "SKEP_TOKEN": secret}
        p = home.popen("exec", "-i", "far", "--", "sh", "-c", "echo up; cat; exit 8", stdin=subprocess.PIPE, env=env)
        w = Watcher(home, "far", env=env)
        assert p.stdout.read(3) == b"up\n"
        home.kill_skepd()
        relay.to = serve()
        blob = os.urandom(1 << 20)
        out, err = p.communicate(blob, timeout=60)
        w.until(lambda x: x["type"] == "exec.exit" and x["status"] == 8)  # the journal may hear of it later than the client
        home.skep("exec", "far", "--", "sh", "-c", "echo x > after").ok()
        w.change("after")
        w.exit()
        w.close()
    assert (p.returncode, err) == (8, b"") and out == blob
    seen = [x["type"] for x in w.seen]
    later = seen[seen.index("exec.exit") + 1:]  # an empty file may be seen before what is in it
    assert later[0] == "exec.start" and set(later[1:-1]) == {"change"} and later[-1] == "exec.exit", seen


COUNTS = "n=0; trap 'n=$((n+1)); echo int $n' INT; echo up; while [ $n -lt 2 ]; do sleep 0.05; done; exit 6"


@pytest.mark.parametrize("lose", ["near", "far"])
def test_a_signal_under_way_arrives_once(home, far, lose):
    """The line breaks before the signal is through, or before its answer is."""
    with Relay(far.port) as relay:
        p = home.popen("exec", "far", "--", "sh", "-c", COUNTS, env=far.env(relay))
        assert p.stdout.readline() == b"up\n"
        relay.lose = lose
        p.send_signal(signal.SIGINT)
        wait_for(lambda: relay.lost, why="the signal, or its answer, to be lost")
        relay.cut_all()
        wait_for(lambda: relay.cuts, why="the line to be cut")
        relay.lose = None
        assert p.stdout.readline() == b"int 1\n"
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
    assert (p.returncode, out, err) == (6, b"int 2\n", b"")


def test_a_watch_goes_on(home, far):
    """Over lines that break: each change and each command is told once, in order."""
    with Relay(far.port) as relay:
        w = Watcher(home, "far", env=far.env(relay))
        try:
            for i in range(6):
                if i % 2:
                    relay.open, cuts = False, relay.cuts
                    relay.cut_all()
                    wait_for(lambda cuts=cuts: relay.cuts > cuts, why="the line to be cut")
                home.skep("exec", "far", "--", "sh", "-c", f"echo {i} > f{i}").ok()
                relay.open = True
                w.change(f"f{i}")
                w.exit()
            w.proc.send_signal(signal.SIGINT)
            assert w.proc.wait(10) == -signal.SIGINT
        finally:
            w.close()
    changes = [x for x in w.seen if x["type"] == "change"]
    assert list(dict.fromkeys(x["path"] for x in changes)) == [f"f{i}" for i in range(6)]
    told = [(x["path"], x.get("after")) for x in changes]  # an empty file may be seen before what is in it
    assert len(set(told)) == len(told), told
    assert [x["argv"][2] for x in w.seen if x["type"] == "exec.exit"] == [f"echo {i} > f{i}" for i in range(6)]
    wait_for(lambda: len(home.skep("exec", "far", "--", "sh", "-c", "echo /proc/[0-9]*").ok().out.split()) == 2, 75, why="the job to end with its watcher")
