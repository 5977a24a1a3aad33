# SPDX-License-Identifier: Apache-2.0
"""Connections into a cell, as a local client makes them (ssh forwards use this)."""
import os
import socket

import pytest

from dial_kit import Dialler, T
from kit import wait_for

SERVER = """
import socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((sys.argv[1], int(sys.argv[2])))
s.listen()
print("ready", flush=True)
while True:
    c, _ = s.accept()
    c.sendall(b"hello ")
    while b := c.recv(65536):
        c.sendall(b)
    c.close()
"""


def serve(home, sid, address, port):
    p = home.popen("exec", sid, "--", "python3", "-c", SERVER, address, str(port), stdout=-1)
    assert p.stdout.readline() == b"ready\n"
    return p


def talk(s, said=b"abc"):
    s.sendall(said)
    s.shutdown(socket.SHUT_WR)
    got = b""
    while b := s.recv(65536):
        got += b
    s.close()
    return got


@pytest.fixture
def box(home):
    return home.new("--empty")


@pytest.mark.parametrize("address,port", [("127.0.0.1", 3000), ("::1", 3001), ("0.0.0.0", 3002)])
def test_a_port_is_reached(home, box, address, port):
    p = serve(home, box, address, port)
    d = Dialler(home, box)
    for _ in range(3):
        assert talk(d.dial(port)) == b"hello abc"
    d.close()
    p.kill()
    p.wait()


def test_many_at_once_and_much(home, box):
    p = serve(home, box, "127.0.0.1", 3000)
    d = Dialler(home, box)
    some = [d.dial(3000) for _ in range(40)]
    assert not [s for s in some if isinstance(s, str)]
    for i, s in enumerate(some):
        s.close() if i else None
    assert talk(some[0], b"x" * 60000) == b"hello " + b"x" * 60000
    d.close()
    p.kill()
    p.wait()


def test_a_closed_port_says_so(home, box):
    d = Dialler(home, box)  # starts it
    assert home.show(box)["state"] == "running"
    assert "nothing listens on port 4444" in d.dial(4444)
    for port in (0, 65536, 1 << 31):
        assert "a port from 1 to 65535" in d.dial(port)
    d.close()


def test_a_paused_one_goes_on(home, box):
    p = serve(home, box, "127.0.0.1", 3000)
    home.skep("pause", box).ok()
    d = Dialler(home, box)
    assert home.show(box)["state"] == "running"
    assert talk(d.dial(3000)) == b"hello abc"
    home.skep("pause", box).ok()
    assert "paused" in d.dial(3000)
    d.close()
    home.skep("resume", box).ok()
    p.kill()
    p.wait()


def test_sockets_in_the_file_system(home, box):
    code = ("import socket\ns = socket.socket(socket.AF_UNIX)\ns.bind('/tmp/s')\ns.listen()\nprint('ready', flush=True)\n"
            "c, _ = s.accept()\nc.sendall(b'hi')\nc.close()")
    p = home.popen("exec", box, "--", "python3", "-c", code, stdout=-1)
    assert p.stdout.readline() == b"ready\n"
    d = Dialler(home, box)
    s = d.dial(path="/tmp/s")
    assert s.recv(10) == b"hi"
    s.close()
    assert "No such file" in d.dial(path="/tmp/none")
    assert "absolute" in d.dial(path="tmp/s")
    assert "absolute" in d.dial(path="/" + "x" * 200)
    d.close()
    p.wait()


def test_a_ticket_is_good_once_and_only_for_this(home, box):
    d = Dialler(home, box)
    assert "nothing listens" in d.dial(1)
    other = Dialler.__new__(Dialler)
    other.sock, other.id = socket.socket(socket.AF_UNIX), 0
    here = os.open(os.path.dirname(d.path), os.O_PATH)
    other.sock.connect(f"/proc/self/fd/{here}/{os.path.basename(d.path)}")
    os.close(here)
    other.greet(d.ticket)
    kind, _, payload, _ = other.recv()
    assert kind == T["M_ERR"] and b"ticket" in payload
    other.close()
    d.send(T["M_KILL"], 9, b"")
    kind, ident, payload, _ = d.recv()
    assert (kind, ident) == (T["M_ERR"], 9) and b"only connections" in payload
    d.close()


def test_the_connection_ends_with_the_cell(home, box):
    p = serve(home, box, "127.0.0.1", 3000)
    d = Dialler(home, box)
    s = d.dial(3000)
    assert s.recv(6) == b"hello "
    home.skep("stop", box).ok()
    try:
        assert s.recv(1) == b""
    except ConnectionResetError:
        pass
    s.close()
    d.close()
    p.wait()
    wait_for(lambda: home.show(box)["state"] == "stopped")
