# SPDX-License-Identifier: Apache-2.0
"""Many and slow clients of the API over TCP: the others are served meanwhile, and nothing is left of them."""
import resource
import select
import socket
import threading
import time

import pytest

from kit import wait_for
from tcp_kit import Caller, Stream, serving, token


@pytest.fixture(autouse=True)
def many_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)


def closed(s):
    """What the other side said before it closed; None while it is open."""
    got = b""
    while select.select([s], [], [], 0)[0]:
        try:
            data = s.recv(65536)
        except ConnectionError:
            return got
        if not data:
            return got
        got += data
    return None


def connections(home):
    return home.api("GET", "/v1/listeners")[1]["listeners"][0]["connections"]


@pytest.mark.slow
def test_slow_heads_are_cut(home):
    t = token(home)
    with serving(home) as port:
        c = Caller(port, t)
        silent = [c.connect() for _ in range(150)]
        half = [c.connect(b"GET /v1/version HTTP/1.1\r\nHost: localhost\r\n") for _ in range(150)]
        # a second request on a connection that was fine
        second = c.connect(f"GET /v1/version HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {t}\r\n\r\n".encode())
        wait_for(lambda: select.select([second], [], [], 0)[0], why="the first answer")
        second.recv(65536)
        second.sendall(b"GET /v1/ver")
        body = c.connect(f"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {t}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n".encode())
        everybody = silent + half + [second, body]
        stop = time.monotonic() + 60
        while any(closed(s) is None for s in everybody[-2:] + half[:1] + silent[:1]):
            for s in half + [second, body]:  # one byte now and then
                try:
                    s.sendall(b"X")
                except OSError:
                    pass
            assert c("GET", "/v1/version", timeout=10)[0] == 200
            assert time.monotonic() < stop, [closed(s) for s in everybody[-2:]]
            time.sleep(0.5)
        wait_for(lambda: connections(home) == 0, 30, why="all of them to be cut")
        for s in everybody:
            s.close()


@pytest.mark.slow
def test_flood(home):
    """More connections than there is room for: who only waits makes room for who asks."""
    t = token(home)
    with serving(home) as port:
        c = Caller(port, t)
        idle = []
        for i in range(4300):
            s = socket.create_connection(("127.0.0.1", port), timeout=30)
            if i % 2:
                s.sendall(b"GET / HTTP/1.1\r\n")
            idle.append(s)
            if not i % 500:
                assert c("GET", "/v1/version")[0] == 200
        assert connections(home) <= 4096
        for _ in range(20):
            assert c("GET", "/v1/version")[0] == 200
        assert home.skep("run", "--", "echo", "hi").ok().line == "hi"
        for s in idle:
            s.close()
        wait_for(lambda: connections(home) == 0, 30, why="them to be gone")


def test_flood_of_requests(home):
    t = token(home)
    with serving(home) as port:
        stop, bad, counts = threading.Event(), [], [0] * 16

        def hammer(i):
            c = Caller(port, t if i % 2 else None)
            while not stop.is_set():
                try:
                    status = c("GET", "/v1/sandboxes")[0]
                    if status not in (200, 401, 429):
                        bad.append(status)
                    counts[i] += 1
                except OSError as e:
                    bad.append(e)

        threads = [threading.Thread(target=hammer, args=(i,)) for i in range(16)]
        for th in threads:
            th.start()
        for _ in range(5):
            assert home.skep("run", "--", "echo", "hi").ok().line == "hi"
        stop.set()
        for th in threads:
            th.join()
        assert not bad and all(counts), (bad[:5], counts)


def test_slow_reader(home):
    """Who does not read its answer holds up nobody, and not for ever much memory."""
    t = token(home)
    sid = home.new("--empty")
    home.skep("exec", sid, "--", "sh", "-c", "head -c 3000000 /dev/zero").ok()
    xid = home.api("GET", f"/v1/sandboxes/{sid}/execs")[1]["execs"][0]["id"]
    with serving(home) as port:
        c = Caller(port, t)
        head = f"GET /v1/execs/{xid}/output HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {t}\r\n\r\n".encode()
        lazy = [c.connect(head) for _ in range(20)]
        for _ in range(20):
            assert c("GET", "/v1/version")[0] == 200
        assert len(c.raw("GET", f"/v1/execs/{xid}/output")[2]) == 3000000
        for s in lazy:
            s.close()


@pytest.mark.slow
def test_a_thousand_idle_streams(home):
    t = token(home)
    sid = home.new("--empty")
    with serving(home) as port:
        c = Caller(port, t)
        head = f"GET /v1/sandboxes/{sid}/events?type=exec.exit HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {t}\r\n\r\n".encode()
        streams = [c.connect(head) for _ in range(1000)]
        for s in streams:
            while b"retry" not in s.recv(65536):
                pass
        last = Stream(c, "/v1/events?type=exec")
        assert home.skep("exec", sid, "--", "echo", "hi").ok().line == "hi"
        last.until("exec.exit")
        for s in streams:
            got = b""
            while b"exec.exit" not in got:
                got += s.recv(65536)
        for s in streams:
            s.close()
        last.close()
        wait_for(lambda: connections(home) == 0, 30, why="them to be gone")


def test_who_is_served_may_end(home):
    """^C of serve: what is under way ends, what waits is closed, nothing new gets in."""
    t = token(home)
    sid = home.new("--empty")
    with serving(home) as port:
        c = Caller(port, t)
        idle = c.connect()
        kept = c.connect(f"GET /v1/version HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {t}\r\n\r\n".encode())
        wait_for(lambda: select.select([kept], [], [], 0)[0], why="the answer")
        kept.recv(65536)
        busy = c.connect(f"GET /v1/sandboxes/{sid}/journal?offset=100000&wait_ms=1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {t}\r\n\r\n".encode())
        end = home.api("GET", f"/v1/sandboxes/{sid}")
        assert end[0] == 200
        held = c.connect(f"GET /v1/sandboxes/{sid}/journal?offset={size(home, sid)}&wait_ms=3000 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {t}\r\n\r\n".encode())
        wait_for(lambda: connections(home) == 4, why="all of them")
    with pytest.raises(OSError):
        c("GET", "/v1/version")
    wait_for(lambda: closed(idle) is not None, why="the idle one to be closed")
    wait_for(lambda: closed(kept) is not None, why="the kept one to be closed")
    held.settimeout(20)
    answer = held.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 200 ") and b"Connection: close" in answer
    for s in (idle, kept, busy, held):
        s.close()


def size(home, sid):
    return int(home.api_raw("GET", f"/v1/sandboxes/{sid}/journal")[1]["X-Skep-End"])
