# SPDX-License-Identifier: Apache-2.0
"""Bytes over the API: requests with headers and long bodies, events line by line, and a WebSocket client."""
import base64
import contextlib
import hashlib
import http.client
import json
import os
import socket
import struct
from urllib.parse import quote


def connect(world, timeout=60):
    run = os.open(f"{world.skep_home}/run", os.O_PATH | os.O_DIRECTORY)  # the path may be too long for a socket
    try:
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(timeout)
        s.connect(f"/proc/self/fd/{run}/skepd.sock")
        return s
    finally:
        os.close(run)


def connection(world, timeout=60):
    c = http.client.HTTPConnection("localhost", timeout=timeout)
    c.sock = connect(world, timeout)
    return c


def http_do(world, method, path, body=None, headers=None, timeout=60):
    """(status, headers in lower case, bytes)"""
    with contextlib.closing(connection(world, timeout)) as c:
        c.request(method, path, body, headers or {}, encode_chunked=False)
        r = c.getresponse()
        return r.status, {k.lower(): v for k, v in r.getheaders()}, r.read()


def query(**kw):
    return "?" + "&".join(f"{k}={quote(str(v), safe='')}" for k, v in kw.items())


class Files:
    """The files of one sandbox."""

    def __init__(self, world, sid):
        self.world, self.base = world, f"/v1/sandboxes/{sid}/files"

    def raw(self, method, path, body=None, headers=None, **q):
        return http_do(self.world, method, self.base + query(path=path, **q), body, headers)

    def get(self, path, **q):
        status, _, data = self.raw("GET", path, **q)
        assert status == 200, data
        return data

    def put(self, path, data, headers=None, **q):
        status, _, answer = self.raw("PUT", path, data, headers, **q)
        assert status == 200, answer
        return json.loads(answer)

    def ask(self, verb, **q):
        status, _, data = http_do(self.world, "GET", f"{self.base}/{verb}{query(**q)}")
        return status, json.loads(data)

    def do(self, verb, **body):
        return self.world.api("POST", f"{self.base}/{verb}", body)


class Events:
    """A long answer, one JSON object per line."""

    def __init__(self, world, method, path, body=None, headers=None):
        self.c = connection(world)
        self.c.request(method, path, None if body is None else json.dumps(body), headers or {})
        self.r = self.c.getresponse()
        self.status = self.r.status

    def next(self):
        line = self.r.readline()
        return json.loads(line) if line else None

    def __iter__(self):
        return iter(self.next, None)

    def close(self):
        self.c.close()


def piece(ev):
    """The bytes of an event of a stream."""
    return base64.b64decode(ev["b64"]) if "b64" in ev else ev["text"].encode()


def frames(fp):
    """application/x-skep-frames: (0, event) or (stream, (offset, bytes))"""
    while head := fp.read(4):
        body = fp.read(struct.unpack("<I", head)[0])
        if body[0] == 0:
            yield 0, json.loads(body[1:])
        else:
            yield body[0], (struct.unpack("<Q", body[1:9])[0], body[9:])


class WebSocket:
    def __init__(self, world, path, headers=(), sock=None):
        self.s = sock or connect(world)
        self.buf = b""
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET {path} HTTP/1.1", "Host: localhost", "Upgrade: websocket", "Connection: Upgrade",
                 f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", *headers, "", ""]
        self.s.sendall("\r\n".join(lines).encode())
        while b"\r\n\r\n" not in self.buf:
            got = self.s.recv(4096)
            assert got, self.buf
            self.buf += got
        head, self.buf = self.buf.split(b"\r\n\r\n", 1)
        self.head = head.decode()
        self.status = int(self.head.split()[1])
        if self.status == 101:
            want = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
            assert f"sec-websocket-accept: {want}".lower() in self.head.lower(), self.head

    def send_frame(self, opcode, data, fin=True, mask=True):
        n = len(data)
        b0, m = opcode | (0x80 if fin else 0), 0x80 if mask else 0
        head = bytes([b0, m | n]) if n < 126 else struct.pack(">BBH", b0, m | 126, n) if n < 65536 else struct.pack(">BBQ", b0, m | 127, n)
        # a mask of zeroes is a mask, and leaves long payloads as they are
        self.s.sendall(head + (b"\0\0\0\0" if mask else b"") + data)

    def text(self, **obj):
        self.send_frame(1, json.dumps(obj).encode())

    def stdin(self, data, offset=2**64 - 1):
        self.send_frame(2, b"\0" + struct.pack("<Q", offset) + data)

    def _need(self, n):
        while len(self.buf) < n:
            got = self.s.recv(1 << 18)
            if not got:
                raise EOFError
            self.buf += got

    def recv_frame(self):
        self._need(2)
        b0, n = self.buf[0], self.buf[1]
        assert not n & 0x80, "a server masks nothing"
        at = 2
        if n == 126:
            self._need(4)
            n, at = struct.unpack(">H", self.buf[2:4])[0], 4
        elif n == 127:
            self._need(10)
            n, at = struct.unpack(">Q", self.buf[2:10])[0], 10
        self._need(at + n)
        data, self.buf = self.buf[at : at + n], self.buf[at + n :]
        return b0 & 15, data

    def next(self):
        """("text", event), ("piece", stream, offset, bytes) or ("close", code, reason)"""
        while True:
            op, data = self.recv_frame()
            if op == 1:
                return "text", json.loads(data)
            if op == 2:
                return "piece", data[0], struct.unpack("<Q", data[1:9])[0], data[9:]
            if op == 8:
                return "close", struct.unpack(">H", data[:2])[0] if data else 1005, data[2:].decode()

    def until(self, event):
        """Everything up to this event: ({stream: bytes}, the event)"""
        got = {1: b"", 2: b""}
        while True:
            m = self.next()
            if m[0] == "piece":
                got[m[1]] += m[3]
            elif m[0] == "text" and m[1]["event"] == event:
                return got, m[1]
            elif m[0] == "close" or m[1]["event"] == "error":
                raise AssertionError((m, got[1][-500:], got[2][-500:]))

    def close(self):
        self.s.close()
