# SPDX-License-Identifier: Apache-2.0
"""skepd on TCP: a running `skep serve`, and callers with and without tokens."""
import http.client
import json
import re
import signal
import socket
from contextlib import contextmanager


class Caller:
    """Asks one listener, with one token."""

    def __init__(self, port, token=None, host=None):
        self.port, self.token, self.host = port, token, host

    def headers(self, more=None):
        h = dict(more or {})
        if self.token:
            h.setdefault("Authorization", f"Bearer {self.token}")
        if self.host:
            h.setdefault("Host", self.host)
        return h

    def raw(self, method, path, body=None, headers=None, timeout=30):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            h = self.headers(headers)
            if body is not None and not isinstance(body, bytes):
                body = json.dumps(body).encode()
                h.setdefault("Content-Type", "application/json")
            c.request(method, path, body, h)
            r = c.getresponse()
            return r.status, dict(r.getheaders()), r.read()
        finally:
            c.close()

    def __call__(self, method, path, body=None, headers=None, timeout=30):
        status, _, data = self.raw(method, path, body, headers, timeout)
        return status, json.loads(data) if data.strip() else None

    def connect(self, data=b""):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        s.sendall(data)
        return s


class Stream:
    """Server-sent events of one path."""

    def __init__(self, caller, path, headers=None):
        self.c = http.client.HTTPConnection("127.0.0.1", caller.port, timeout=30)
        self.c.request("GET", path, headers=caller.headers(headers))
        self.r = self.c.getresponse()
        self.status = self.r.status

    def next(self):
        """(id, type, data) of the next event; None at the end."""
        got = {}
        while True:
            line = self.r.readline()
            if not line:
                return None
            line = line.decode().rstrip("\n")
            if not line:
                if "data" in got:
                    return got["id"], got["event"], json.loads(got["data"])
                got = {}
            elif not line.startswith(":"):
                key, _, value = line.partition(": ")
                got[key] = value

    def until(self, kind):
        seen = []
        while not seen or seen[-1][1] != kind:
            e = self.next()
            assert e, (kind, seen)
            seen.append(e)
        return seen

    def close(self):
        self.c.close()


@contextmanager
def serving(home, *options):
    """The port of a `skep serve` in the foreground, ended by ^C."""
    p = home.popen("serve", "--listen", "127.0.0.1:0", *options)
    line = p.stdout.readline().decode()
    port = re.search(r"http://[0-9.]+:(\d+)", line)
    assert port, (line, p.stderr.read() if p.poll() is not None else "")
    try:
        yield int(port.group(1))
    finally:
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=30)
    assert p.returncode == 0


def token(home, *options):
    return home.skep("token", "new", *options).ok().line
