# SPDX-License-Identifier: Apache-2.0
"""Behind a real reverse proxy, with the blocks that docs/api.md prints; and under load beside clients that crawl."""
import contextlib
import hashlib
import http.client
import itertools
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import threading

import pytest

from dial_kit import VERSION
from kit import IS_ROOT, ROOT, wait_for
from preview_kit import end, link, serve
from stream_kit import WebSocket
from tcp_kit import Caller, serving, token
from tls_kit import Authority

NAME = "skep.example"


def block(title):
    """The indented block of docs/api.md behind the line `# TITLE`."""
    with open(f"{ROOT}/docs/api.md", encoding="utf-8") as f:
        text = f.read()
    found = re.search(rf"^    # {title}\n((?:    .*\n|\n)+?)(?=\n    # |\n\S|\Z)", text, re.M)
    assert found, title
    return re.sub(r"^    ", "", found.group(1), flags=re.M)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def exchange(text, *pairs):
    """Each of them is there, and becomes what this machine has."""
    for old, new in pairs:
        assert old in text, (old, text)
        text = text.replace(old, new)
    return text


def nginx(d, port, inner, cert, key):
    conf = exchange(block("nginx"), ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"), ("/etc/ssl/skep.example.pem", cert),
                    ("/etc/ssl/skep.example.key", key), ("127.0.0.1:7537", f"127.0.0.1:{inner}"))
    temp = "".join(f"{x}_temp_path {d}/{x};\n" for x in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    with open(f"{d}/nginx.conf", "w", encoding="utf-8") as f:
        f.write(f"{'user root;' if IS_ROOT else ''}\ndaemon off;\npid {d}/pid;\nerror_log {d}/log;\nevents {{}}\nhttp {{\naccess_log off;\n{temp}{conf}}}\n")
    return ["/usr/sbin/nginx", "-p", d, "-c", f"{d}/nginx.conf", "-e", f"{d}/log"]


def caddy(d, port, inner, cert, key):
    conf = exchange(block("Caddy"), ("/etc/ssl/skep.example.pem", cert), ("/etc/ssl/skep.example.key", key), ("127.0.0.1:7537", f"127.0.0.1:{inner}"))
    with open(f"{d}/Caddyfile", "w", encoding="utf-8") as f:
        f.write(f"{{\n\tadmin off\n\tauto_https disable_redirects\n\thttps_port {port}\n\tdefault_bind 127.0.0.1\n\tgrace_period 1s\n}}\n{conf}")
    return ["/usr/bin/caddy", "run", "--config", f"{d}/Caddyfile", "--adapter", "caddyfile"]


class Site:
    """A proxy before a listener, and who asks through it."""

    def __init__(self, home, which):
        self.home, self.dir = home, f"{home.top}/proxy"
        os.mkdir(self.dir)
        self.token = token(home, "--name", "proxied")
        self.port = free_port()
        status, made = home.api("POST", "/v1/listeners", {"address": "127.0.0.1:0", "public_urls": [f"https://{NAME}:{self.port}"]})
        assert status == 201, made
        self.inner = int(made["address"].split(":")[1])
        ca = Authority(self.dir)
        self.context = ssl.create_default_context(cafile=ca.pem)
        argv = which(self.dir, self.port, self.inner, *ca.leaf(NAME, f"*.{NAME}"))
        env = {"HOME": self.dir, "XDG_DATA_HOME": self.dir, "XDG_CONFIG_HOME": self.dir, "PATH": "/usr/bin:/bin"}
        with open(f"{self.dir}/out", "wb") as out:
            self.p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env)
        wait_for(self.answers, 30, why="the proxy to listen")

    def answers(self):
        assert self.p.poll() is None, open(f"{self.dir}/out", encoding="utf-8").read()
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port)).close()
            return True

    def host(self, below=""):
        return f"{below}{NAME}:{self.port}"

    def tls(self, below=""):
        return self.context.wrap_socket(socket.create_connection(("127.0.0.1", self.port), timeout=30), server_hostname=below + NAME)

    def connection(self, below=""):
        c = http.client.HTTPConnection(self.host(below), timeout=30)
        c.sock = self.tls(below)
        return c

    def ask(self, method, path, body=None, headers=None, below=""):
        h = {"Authorization": f"Bearer {self.token}"} if headers is None else headers
        with contextlib.closing(self.connection(below)) as c:
            if isinstance(body, dict):
                body, h = json.dumps(body), {**h, "Content-Type": "application/json"}
            c.request(method, path, body, h)
            r = c.getresponse()
            return r.status, dict(r.getheaders()), r.read()

    def close(self):
        self.p.send_signal(signal.SIGTERM)
        self.p.wait(30)


@pytest.fixture(params=[nginx, caddy], ids=["nginx", "caddy"])
def site(home, request):
    home.skep("ps").ok()
    s = Site(home, request.param)
    yield s
    s.close()


def events(r):
    """The types of server-sent events, as they come."""
    while line := r.readline():
        if line.startswith(b"event: "):
            yield line[7:].strip().decode()


def test_all_of_it_through_a_proxy(home, site):
    status, _, data = site.ask("GET", "/v1/version")
    assert status == 200 and json.loads(data)["protocol"] == VERSION
    assert site.ask("GET", "/v1/version", headers={})[0] == 401
    status, _, data = site.ask("POST", "/v1/sandboxes", {"start": True})
    assert status == 201, data
    sid = json.loads(data)["id"]
    # a page of ours may ask, another's may not
    for origin, want in ((f"https://{site.host()}", 200), ("https://evil.example", 403), (f"https://{site.host('3000-' + sid + '.')}", 403)):
        assert site.ask("GET", "/v1/version", headers={"Authorization": f"Bearer {site.token}", "Origin": origin})[0] == want, origin
    # files, larger than any buffer on the way
    big = os.urandom(1 << 20) * 12
    status, _, answer = site.ask("PUT", f"/v1/sandboxes/{sid}/files?path=/tmp/big", big)
    assert status == 200, answer
    status, _, back = site.ask("GET", f"/v1/sandboxes/{sid}/files?path=/tmp/big")
    assert hashlib.sha256(back).digest() == hashlib.sha256(big).digest()
    # a stream of events: each comes when it happens
    with contextlib.closing(site.connection()) as c:
        c.request("GET", f"/v1/sandboxes/{sid}/events?type=exec", headers={"Authorization": f"Bearer {site.token}"})
        stream = events(c.getresponse())
        for _ in range(2):
            home.skep("exec", sid, "--", "true").ok()
            assert [next(stream) for _ in range(2)] == ["exec.start", "exec.exit"]
    # a terminal: bytes go both ways while it runs
    ws = WebSocket(home, f"/v1/sandboxes/{sid}/exec/ws", [f"Host: {site.host()}", f"Authorization: Bearer {site.token}"], sock=HostOnce(site.tls()))
    assert ws.status == 101, ws.head
    ws.text(argv=["cat"], stdin=True)
    for word in ("one", "two"):
        ws.text(type="stdin", text=word)
        while (m := ws.next())[0] != "piece":
            pass
        assert m[3] == word.encode()
    ws.text(type="eof")
    assert ws.until("exit")[1]["status"] == 0
    ws.close()


class HostOnce:
    """A socket for a client that says it asks localhost."""

    def __init__(self, s):
        self.s = s

    def sendall(self, data):
        self.s.sendall(data.replace(b"Host: localhost\r\n", b"", 1))

    def __getattr__(self, name):
        return getattr(self.s, name)


def test_previews_through_a_proxy(home, site):
    sid = home.new("--empty")
    p = serve(home, sid, 3000)
    below = f"3000-{sid}."
    try:
        url = link(home, sid, 3000)["url"]
        assert url.startswith(f"https://{site.host(below)}/?skep_preview="), url
        assert site.ask("GET", "/", headers={}, below=below)[0] == 401
        status, headers, _ = site.ask("GET", "/?" + url.split("?")[1], headers={"Accept": "text/html", "Sec-Fetch-Site": "none"}, below=below)
        assert status == 307 and headers["Location"] == "/" and "; Secure" in headers["Set-Cookie"], headers
        pair = {"Cookie": headers["Set-Cookie"].split(";")[0]}
        assert site.ask("GET", "/", headers=pair, below=below)[2] == f"hello from {sid}\n".encode()
        seen = dict(json.loads(site.ask("GET", "/headers", headers=pair, below=below)[2])["headers"])
        assert seen["X-Forwarded-Proto"] == "https" and seen["X-Forwarded-Host"] == site.host(below) and seen["X-Forwarded-For"].startswith("127.0.0.1")
        assert "skep_preview" not in json.dumps(seen)
        assert site.ask("GET", "/", headers=pair)[0] == 401, "the cookie of a port opens nothing else"
        ws = WebSocket(home, "/ws", [f"Host: {site.host(below)}", f"Cookie: {pair['Cookie']}"], sock=HostOnce(site.tls(below)))
        assert ws.status == 101, ws.head
        ws.s.sendall(b"echo")
        ws._need(4)
        assert ws.buf == b"echo"
        with contextlib.closing(site.connection(below)) as c:
            c.request("GET", "/sse?2", headers=pair)
            r = c.getresponse()
            for i in range(2):
                assert r.readline() == b"data: %d\n" % i and r.readline() == b"\n"
                p.stdin.write(b"\n")
                p.stdin.flush()
        # taken back: through the proxy, too
        home.skep("preview", "--revoke", sid).ok()
        with contextlib.suppress(ConnectionError):
            assert ws.s.recv(1) == b""
        ws.close()
        assert site.ask("GET", "/", headers=pair, below=below)[0] == 401
    finally:
        end(p)


def wrk(url, *headers):
    argv = ["wrk", "-t2", "-c24", "-d3s", "--timeout", "30s", *(x for h in headers for x in ("-H", h)), url]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_load_beside_slow_clients(home):
    """Thousands of requests, clients that crawl, and those who work meanwhile get what is theirs."""
    t = token(home, "--rate", "1000000")
    boxes = [home.new("--empty") for _ in range(2)]
    with serving(home) as port:
        c = Caller(port, t)
        slow = [c.connect(b"GET /v1/version HTTP/1.1\r\nHost: localhost\r\n") for _ in range(60)]
        lazy = f"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {t}\r\n\r\n".encode() * 50
        slow += [c.connect(lazy) for _ in range(20)]
        ends, wrong, said = threading.Event(), [], []

        def work(sid):
            for n in itertools.count(1):
                word = f"{sid} {n}"
                _, got = c("POST", f"/v1/sandboxes/{sid}/exec?wait_ms=60000", {"argv": ["echo", word]}, timeout=90)
                if got["stdout"]["text"] != word + "\n":
                    wrong.append(got)
                status = c.raw("PUT", f"/v1/sandboxes/{sid}/files?path=/tmp/f", word.encode(), timeout=90)[0]
                back = c.raw("GET", f"/v1/sandboxes/{sid}/files?path=/tmp/f", timeout=90)[2]
                if status != 200 or back != word.encode():
                    wrong.append((status, back))
                if ends.is_set():
                    return

        threads = [threading.Thread(target=work, args=(sid,)) for sid in boxes]
        for th in threads:
            th.start()
        for _ in range(10):  # a machine that is busy with other things may serve nobody in one of them
            load = [wrk(f"http://127.0.0.1:{port}/v1/version", f"Authorization: Bearer {t}"), wrk(f"http://127.0.0.1:{port}/v1/sandboxes")]
            said = [p.communicate(timeout=90)[0] for p in load]
            if all(re.search(r"\b[1-9]\d* requests in", x) for x in said):
                break
        ends.set()
        for th in threads:
            th.join(200)
            assert not th.is_alive()
        for s in slow:
            s.close()
        assert not wrong
        assert re.search(r"\b[1-9]\d* requests in", said[0]) and "Non-2xx" not in said[0] and "Socket errors" not in said[0], said[0]
        total = int(re.search(r"(\d+) requests in", said[1]).group(1))
        refused = int(re.search(r"Non-2xx or 3xx responses: (\d+)", said[1]).group(1))
        assert total == refused > 0, said[1]
        # and all those refusals are a handful of lines
        lines = [json.loads(x) for x in home.skep("log", "--service", "--json").ok().out.splitlines()]
        assert sum(e.get("count", 0) for e in lines) >= refused and len(lines) < 20
