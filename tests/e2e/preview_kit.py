# SPDX-License-Identifier: Apache-2.0
"""What tests of previews share: servers for the inside, and an HTTP client that sees every byte of an answer's head."""
import json
import socket

from kit import wait_for

SERVER = r'''
import base64, hashlib, http.server, json, os, socketserver, struct, sys, time

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *a): pass
    def say(self, body, **headers):
        body = body if isinstance(body, bytes) else body.encode()
        self.send_response(200)
        for k, v in headers.items(): self.send_header(k.replace("_", "-"), v)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD": self.wfile.write(body)
    def read_body(self):
        h = hashlib.sha256()
        n = 0
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                b = self.rfile.read(size); h.update(b); n += len(b); self.rfile.readline()
            self.rfile.readline()
        else:
            left = int(self.headers.get("Content-Length", 0))
            while left:
                b = self.rfile.read(min(left, 1 << 20)); h.update(b); n += len(b); left -= len(b)
        return n, h.hexdigest()
    def do_POST(self):
        n, digest = self.read_body()
        self.say(json.dumps({"n": n, "sha256": digest}))
    def do_HEAD(self): self.do_GET()
    def do_GET(self):
        path, _, query = self.path.partition("?")
        if path == "/headers":
            self.say(json.dumps({"path": self.path, "headers": self.headers.items()}))
        elif path == "/big":
            n = int(query)
            self.send_response(200); self.send_header("Content-Length", str(n)); self.end_headers()
            piece = b"x" * (1 << 20)
            while n: n -= self.wfile.write(piece[:n])
        elif path == "/chunked":
            self.send_response(200); self.send_header("Transfer-Encoding", "chunked"); self.end_headers()
            for i in range(100): self.wfile.write(b"5\r\nhello\r\n")
            self.wfile.write(b"0\r\n\r\n")
        elif path == "/eof":
            self.send_response(200); self.end_headers(); self.wfile.write(b"until the end"); self.close_connection = True
        elif path == "/sse":
            self.send_response(200); self.send_header("Content-Type", "text/event-stream"); self.end_headers()
            for i in range(int(query or 3)):
                self.wfile.write(b"data: %d\n\n" % i); self.wfile.flush()
                sys.stdin.readline()
            self.close_connection = True
        elif path == "/cookies":
            self.send_response(200)
            for c in ("a=1; Domain=localhost; Path=/; HttpOnly", "b=2; domain=.localhost", "c=3", "skep_preview=evil; Path=/"):
                self.send_header("Set-Cookie", c)
            self.send_header("Content-Length", "0"); self.end_headers()
        elif path == "/redirect":
            self.send_response(302)
            self.send_header("Location", query); self.send_header("Content-Length", "0"); self.end_headers()
        elif path == "/ws":
            key = self.headers["Sec-WebSocket-Key"].encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            self.send_response(101); self.send_header("Upgrade", "websocket"); self.send_header("Connection", "Upgrade")
            self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key).digest()).decode()); self.end_headers()
            while b := self.rfile.read1(65536): self.wfile.write(b)  # what comes goes back: enough of an echo
            self.close_connection = True
        else:
            self.say("hello from " + os.environ.get("SKEP_SANDBOX", "?") + "\n", Content_Type="text/plain")

class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 256

s = Server(("127.0.0.1", int(sys.argv[1])), Handler)
print("ready", flush=True)
s.serve_forever()
'''

# Says on each connection what it was started with, whatever was asked.
RAW = r'''
import socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", int(sys.argv[1])))
s.listen()
print("ready", flush=True)
answer = eval(sys.argv[2])
while True:
    c, _ = s.accept()
    c.recv(65536)
    c.sendall(answer)
    c.close()
'''


def serve(home, sid, port, code=SERVER, *args):
    p = home.popen("exec", "-i", sid, "--", "python3", "-u", "-c", code, str(port), *args, stdin=-1, stdout=-1)
    assert p.stdout.readline() == b"ready\n"
    return p


def end(p):
    p.kill()
    p.wait()
    p.stdin.close()
    p.stdout.close()


def host(sid, port):
    return f"{port}-{sid}.localhost"


def link(home, sid, port, ttl_ms=None):
    """What POST …/preview answers: url, signature, expires."""
    body = {"port": port} | ({"ttl_ms": ttl_ms} if ttl_ms else {})
    status, answer = home.api("POST", f"/v1/sandboxes/{sid}/preview", body)
    assert status == 201, answer
    return answer


def listens(home, sid):
    """The port of the host where previews are: a link to one opens it."""
    return int(link(home, sid, 1)["url"].split("localhost:")[1].split("/")[0])


def cookie(home, sid, port):
    return f"Cookie: skep_preview={link(home, sid, port)['signature']}"


class Answer:
    def __init__(self, status, headers, body, whole):
        self.status, self.headers, self.body, self.whole = status, headers, body, whole

    def all(self, name):
        return [v for k, v in self.headers if k.lower() == name.lower()]

    def get(self, name):
        v = self.all(name)
        assert len(v) < 2, v
        return v[0] if v else None

    def json(self):
        return json.loads(self.body)


class Client:
    """One connection, kept; nothing is done behind the test's back."""

    def __init__(self, port):
        self.s = socket.create_connection(("127.0.0.1", port))
        self.s.settimeout(30)
        self.buf = b""

    def send(self, method, target, host, headers=(), body=b""):
        head = [f"{method} {target} HTTP/1.1", f"Host: {host}", *headers]
        if body:
            head.append(f"Content-Length: {len(body)}")
        self.s.sendall(("\r\n".join(head) + "\r\n\r\n").encode() + body)

    def more(self):
        b = self.s.recv(1 << 20)
        self.buf += b
        return b

    def until(self, mark):
        while mark not in self.buf:
            assert self.more(), f"the connection ended after {self.buf[:200]}"
        found, self.buf = self.buf.split(mark, 1)
        return found

    def exactly(self, n):
        while len(self.buf) < n:
            if not self.more():
                return None
        found, self.buf = self.buf[:n], self.buf[n:]
        return found

    def head(self):
        lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        assert lines[0].startswith("HTTP/1.1 "), lines[0]
        return int(lines[0].split()[1]), [tuple(x.split(": ", 1)) for x in lines[1:]]

    def answer(self, method="GET"):
        status, headers = self.head()
        a = Answer(status, headers, b"", True)
        if method == "HEAD" or status in (101, 204, 304):
            return a
        if a.get("Transfer-Encoding") == "chunked":
            while True:
                n = int(self.until(b"\r\n"), 16)
                a.body += self.exactly(n) or b""
                self.exactly(2)
                if not n:
                    return a
        if a.get("Content-Length") is not None:
            body = self.exactly(int(a.get("Content-Length")))
            a.body, a.whole = body if body is not None else self.buf, body is not None
            return a
        while self.more():
            pass
        a.body = self.buf
        return a

    def ask(self, method, target, host, headers=(), body=b""):
        self.send(method, target, host, headers, body)
        return self.answer(method)

    def is_closed(self):
        return not self.buf and not self.more()

    def close(self):
        self.s.close()


def memory(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(next(x for x in f if x.startswith("VmRSS")).split()[1]) << 10


def wait_port(home, sid, port, is_open=True):
    wait_for(lambda: (port in [p["port"] for p in home.show(sid)["ports"]]) == is_open, why=f"port {port} open: {is_open}")
