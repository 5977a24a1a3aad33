# SPDX-License-Identifier: Apache-2.0
"""Listening ports are found: in `show`, in the journal, and again by a new daemon."""
import pytest

from kit import wait_for
from preview_kit import SERVER, end, serve, wait_port


@pytest.fixture
def box(home):
    return home.new("--empty")


def events(home, sid):
    return [e for e in home.journal(sid) if e["type"].startswith("port.")]


def test_a_port_opens_and_closes(home, box):
    assert home.show(box)["ports"] == []
    p = serve(home, box, 3000)
    wait_port(home, box, 3000)
    row, = home.show(box)["ports"]
    assert row["port"] == 3000 and row["local"] and row["program"].startswith("python3") and row["exec"].startswith("x")
    end(p)
    home.skep("kill", row["exec"])
    wait_port(home, box, 3000, False)
    opened, closed = events(home, box)
    assert (opened["type"], opened["port"], opened["exec"]) == ("port.open", 3000, row["exec"])
    assert (closed["type"], closed["port"]) == ("port.closed", 3000)


def test_several_and_on_all_addresses(home, box):
    code = ("import socket, sys\nl = []\n"
            "for a, p, f in (('0.0.0.0', 4001, socket.AF_INET), ('::', 4002, socket.AF_INET6), ('::1', 4003, socket.AF_INET6), ('127.0.0.1', 4004, socket.AF_INET)):\n"
            "    s = socket.socket(f); s.bind((a, p)); s.listen(); l.append(s)\n"
            "print('ready', flush=True); sys.stdin.read()")
    p = serve(home, box, 0, code)
    wait_for(lambda: len(home.show(box)["ports"]) == 4)
    assert [(r["port"], r["local"]) for r in home.show(box)["ports"]] == [(4001, False), (4002, False), (4003, True), (4004, True)]
    home.skep("show", box).ok()
    end(p)


def test_a_server_that_its_shell_left_behind(home, box):
    home.skep("exec", box, "--", "sh", "-c", f"python3 -c '{SERVER}' 5000 >/dev/null 2>&1 </dev/null &").ok()
    wait_port(home, box, 5000)


def test_a_new_daemon_is_told(home, box):
    p = serve(home, box, 3000)
    wait_port(home, box, 3000)
    home.kill_skepd()
    wait_port(home, box, 3000)
    end(p)


def test_stopped_sandboxes_have_none(home, box):
    p = serve(home, box, 3000)
    wait_port(home, box, 3000)
    home.skep("stop", box).ok()
    assert home.show(box)["ports"] == []
    end(p)


def test_the_gates_own_are_not_shown(home):
    sid = home.new("--empty", "--net", "none")
    p = serve(home, sid, 3000)
    wait_port(home, sid, 3000)
    assert [r["port"] for r in home.show(sid)["ports"]] == [3000]
    end(p)


def test_a_link_to_a_port_that_nobody_serves(home, box):
    """It may be made before its server; who mistyped it sees what is there."""
    p = serve(home, box, 3000)
    wait_port(home, box, 3000)
    r = home.skep("preview", "--no-open", box, "3001").ok()
    assert r.out.startswith("http://3001-") and "nothing listens on port 3001" in r.err and "open are 3000" in r.err
    assert home.skep("preview", "--no-open", box, "3000").ok().err == ""
    end(p)
