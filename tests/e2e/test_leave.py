# SPDX-License-Identifier: Apache-2.0
"""A client that leaves in the middle of an answer, of each kind, at any byte: skepd serves on, and keeps nothing of it."""
import io
import json
import os
import random
import select
import socket
import struct
import tarfile
import threading

import pytest

from kit import REPORTS, World, wait_for
from preview_kit import end, host, serve
from stream_kit import connect
from tcp_kit import serving

CLIENTS = 1000
SEED = int(os.environ.get("SKEP_TEST_SEED", "14"))
SLACK = 8  # descriptors: the pool of prepared cells grows and shrinks
JSON = {"Content-Type": "application/json"}
CONNECT = {"Content-Type": "application/connect+json"}
UPGRADE = {"Connection": "Upgrade"}
WEBSOCKET = {**UPGRADE, "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}


def frame(opcode, data):
    """A WebSocket message of a client."""
    size = bytes([0x80 | len(data)]) if len(data) < 126 else struct.pack(">BH", 0x80 | 126, len(data))
    return bytes([0x80 | opcode]) + size + b"\0\0\0\0" + data


def envelope(message):
    text = json.dumps(message).encode()
    return struct.pack(">BI", 0, len(text)) + text


class Kind:
    """A request, and the status of its answer when the client stays."""

    def __init__(self, name, status, method, path, headers=None, body=b"", tcp=False, where="localhost", behind=b""):
        self.name, self.status, self.tcp = name, status, tcp
        lines = [f"{method} {path} HTTP/1.1", f"Host: {where}", *(f"{k}: {v}" for k, v in (headers or {}).items())]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        self.request = "\r\n".join([*lines, "", ""]).encode() + body
        self.behind = behind  # sent when the answer's head is there


class Site:
    """One daemon with all that a client can ask for: a native sandbox with a server in it, and one of the E2B API."""

    def __init__(self, home, port):
        self.home, self.port = home, port
        self.sid = home.new("--empty")
        home.skep("exec", self.sid, "--", "sh", "-c", "mkdir d; for i in 1 2 3 4 5 6 7 8; do seq 1 20000 > d/$i; done; seq 1 200000 > big").ok()
        self.server = serve(home, self.sid, 3000)
        status, self.box = home.api("POST", "/e2b/v2/sandboxes", {"templateID": "base"})
        assert status == 201, self.box
        self.bid = self.box["sandboxID"]
        assert home.skep("exec", "-u", "user", self.bid, "--", "sh", "-c", "seq 1 200000 > ~/big; mkdir -p ~/w").rc == 0
        self.ended = home.api("POST", f"/v1/sandboxes/{self.sid}/exec", {"argv": ["seq", "1", "20000"]})[1]["exec"]
        self.kinds = [*self.native(), *self.streams(), *self.e2b(), *self.mcp(), *self.previews()]

    def native(self):
        base = f"/v1/sandboxes/{self.sid}"
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as t:
            for i in range(20):
                entry = tarfile.TarInfo(f"t/{i}")
                entry.size = 10000
                t.addfile(entry, io.BytesIO(os.urandom(10000)))
        say = lambda o: json.dumps(o).encode()  # noqa: E731
        yield Kind("show", 200, "GET", base)
        yield Kind("list", 200, "GET", "/v1/sandboxes")
        yield Kind("openapi", 200, "GET", "/v1/openapi.json")
        yield Kind("journal", 200, "GET", f"{base}/journal")
        yield Kind("journal follow", None, "GET", f"{base}/journal?offset=end&wait_ms=1000")
        yield Kind("events", 200, "GET", "/v1/events")
        yield Kind("events of one", 200, "GET", f"{base}/events?offset=0")
        yield Kind("file", 200, "GET", f"{base}/files?path=big")
        yield Kind("range", 206, "GET", f"{base}/files?path=big", {"Range": "bytes=1000-900000"})
        yield Kind("file up", 200, "PUT", f"{base}/files?path=up", body=os.urandom(300000))
        yield Kind("tar", 200, "GET", f"{base}/files/tar?path=d")
        yield Kind("tar up", 200, "PUT", f"{base}/files/tar?path=.", body=archive.getvalue())
        yield Kind("files", 200, "GET", f"{base}/files/list?path=d")
        yield Kind("search", 200, "POST", f"{base}/files/search", JSON, say({"path": ".", "regex": "1999"}))
        yield Kind("diff", 200, "POST", f"{base}/diff", JSON, say({}))

    def streams(self):
        base = f"/v1/sandboxes/{self.sid}"
        run = {"argv": ["sh", "-c", "seq 1 20000; sleep 0.1; seq 1 2000 >&2"]}
        say = lambda o: json.dumps(o).encode()  # noqa: E731
        yield Kind("exec", 200, "POST", f"{base}/exec?max_bytes=100000", JSON, say(run))
        yield Kind("exec stream", 200, "POST", f"{base}/exec/stream", JSON, say(run))
        yield Kind("exec frames", 200, "POST", f"{base}/exec/stream", {**JSON, "Accept": "application/x-skep-frames"}, say(run))
        yield Kind("exec again", 200, "GET", f"/v1/execs/{self.ended}/stream")
        yield Kind("output", 200, "GET", f"/v1/execs/{self.ended}/output")
        yield Kind("websocket", 101, "GET", f"{base}/exec/ws", WEBSOCKET, behind=frame(1, say(run)))
        yield Kind("websocket again", 101, "GET", f"/v1/execs/{self.ended}/ws", WEBSOCKET)
        yield Kind("cell", 101, "GET", f"{base}/cell", {**UPGRADE, "Upgrade": "skep-cell"}, behind=b"\0" * 40)
        yield Kind("port", 101, "GET", f"{base}/connect?port=3000", {**UPGRADE, "Upgrade": "skep-port"}, behind=b"GET /big?300000 HTTP/1.0\r\n\r\n")
        yield Kind("watch", None, "GET", f"{base}/files/watch?path=d")

    def e2b(self):
        box = {"E2b-Sandbox-Id": self.bid, "E2b-Sandbox-Port": "49983", "X-Access-Token": self.box["envdAccessToken"]}
        run = {"process": {"cmd": "/bin/sh", "args": ["-c", "seq 1 20000; sleep 0.1; echo end >&2"]}, "stdin": False}
        form = b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"/home/user/f\"\r\n\r\n" + os.urandom(100000) + b"\r\n--b--\r\n"
        call = lambda path, message: ("POST", path, {**box, **CONNECT}, envelope(message))  # noqa: E731
        yield Kind("e2b start", 200, *call("/process.Process/Start", run))
        yield Kind("e2b watch", None, *call("/filesystem.Filesystem/WatchDir", {"path": "/home/user/w", "recursive": True}))
        yield Kind("e2b list", 200, "POST", "/filesystem.Filesystem/ListDir", {**box, **JSON}, b'{"path":"/usr/bin","depth":1}')
        yield Kind("e2b file", 200, "GET", "/files?path=/home/user/big&username=user", box)
        yield Kind("e2b range", 206, "GET", "/files?path=/home/user/big", {**box, "Range": "bytes=5-700000"})
        yield Kind("e2b up", 200, "POST", "/files?path=/home/user/up", {**box, "Content-Type": "application/octet-stream"}, os.urandom(200000))
        yield Kind("e2b form", 200, "POST", "/files", {**box, "Content-Type": "multipart/form-data; boundary=b"}, form)
        yield Kind("e2b envs", 200, "GET", "/envs", box)
        yield Kind("e2b detail", 200, "GET", f"/sandboxes/{self.bid}")

    def mcp(self):
        version = "2026-07-28"
        meta = {"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {}, "progressToken": 1}

        def tool(name, **args):
            head = {**JSON, "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": name}
            return head, json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": args, "_meta": meta}}).encode()

        yield Kind("mcp run", 200, "POST", "/mcp", *tool("run", sandbox=self.sid, command="seq 1 5000; sleep 0.1; seq 1 5000"))
        yield Kind("mcp search", 200, "POST", "/mcp", *tool("search", sandbox=self.sid, pattern="1999"))
        yield Kind("mcp read", 200, "POST", "/mcp", *tool("read", sandbox=self.sid, path="big"))

    def previews(self):
        at = f"{host(self.sid, 3000)}:{self.port}"
        by_path = f"127.0.0.1:{self.port}"
        yield Kind("preview", 200, "GET", "/big?3000000", tcp=True, where=at)
        yield Kind("preview chunked", 200, "GET", "/chunked", tcp=True, where=at)
        yield Kind("preview by path", 200, "GET", f"/preview/{self.sid}/3000/big?300000", tcp=True, where=by_path)
        yield Kind("preview post", 200, "POST", "/", {"Content-Type": "application/octet-stream"}, os.urandom(300000), tcp=True, where=at)
        yield Kind("preview stream", 200, "GET", "/sse?2", tcp=True, where=at)
        yield Kind("preview websocket", 101, "GET", "/ws", WEBSOCKET, tcp=True, where=at, behind=b"x" * 100000)
        yield Kind("tcp file", 200, "GET", f"/v1/sandboxes/{self.sid}/files?path=big", tcp=True, where=by_path)

    def dial(self, kind):
        if not kind.tcp:
            return connect(self.home)
        s = socket.create_connection(("127.0.0.1", self.port))
        s.settimeout(60)
        return s

    def close(self):
        end(self.server)


def read_to(s, n, seconds):
    """At most n bytes, and no longer than this without one."""
    got = b""
    while len(got) < n and select.select([s], [], [], seconds)[0]:
        piece = s.recv(min(n - len(got), 65536))
        if not piece:
            break
        got += piece
    return got


def stays(site, kind):
    """A whole exchange. What was wrong with it."""
    with site.dial(kind) as s:
        s.sendall(kind.request)
        head = b""
        while kind.status and b"\r\n\r\n" not in head:
            piece = s.recv(4096)
            if not piece:
                return kind.name, head
            head += piece
        if kind.status and int(head.split()[1]) != kind.status:
            return kind.name, head
        s.sendall(kind.behind)
        read_to(s, 1 << 24, 0.3)
    return None


def all_stay(site):
    wrong = [w for w in (stays(site, k) for k in site.kinds) if w]
    assert not wrong, wrong


def leaves(site, kind, chance):
    with site.dial(kind) as s:
        try:
            if chance.random() < 0.3:
                s.sendall(kind.request[: chance.randrange(len(kind.request))])
            else:
                s.sendall(kind.request)
                if kind.behind:
                    read_to(s, 64, 0.2)
                    s.sendall(kind.behind[: chance.randrange(len(kind.behind) + 1)])
                read_to(s, int(2 ** (chance.random() * 20)) - 1, 0.05)
            how = chance.randrange(3)
            if how == 0:  # a reset
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif how == 1:  # half first
                s.shutdown(socket.SHUT_WR)
                read_to(s, 100, 0.02)
        except (BrokenPipeError, ConnectionResetError, OSError):
            pass  # skepd was done with it first


def open_things(home, pid):
    fds = home.fd_count(pid)
    return None if fds is None else fds - len([n for n in os.listdir(f"{home.skep_home}/run/cells") if n.startswith(".slot-")])


@pytest.fixture
def site(programs):
    w = World(programs)
    w.lend()
    w.skep("ps").ok()
    with serving(w, "--insecure-loopback") as port:
        s = Site(w, port)
        yield s
        s.close()
    w.close()


def test_clients_leave(site):
    pid = site.home.skepd_pid()
    all_stay(site)
    before = open_things(site.home, pid)
    chance = random.Random(SEED)
    todo = [(k, random.Random(chance.random())) for i in range(CLIENTS // len(site.kinds) + 1) for k in site.kinds]
    chance.shuffle(todo)
    failed = []

    def work():
        while todo:
            try:
                leaves(site, *todo.pop())
            except IndexError:
                return
            except OSError as e:
                failed.append(e)
                return

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed and site.home.skepd_pid() == pid, (failed, "skepd has died: see its report" if REPORTS else "")
    all_stay(site)
    assert site.home.skepd_pid() == pid
    if before is not None:
        wait_for(lambda: open_things(site.home, pid) <= before + SLACK, 90, 0.2, why=f"no descriptor of a client that left, beyond {before}")
