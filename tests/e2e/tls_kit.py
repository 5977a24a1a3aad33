# SPDX-License-Identifier: Apache-2.0
"""An own certificate authority, and hosts behind TLS on the host's loopback that write down every request they get."""
import base64
import contextlib
import gzip
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
from urllib.parse import parse_qs, unquote, urlsplit

from kit import wait_for

NAMES = ("api.test", "other.test", "sub.api.test", "test", "*.api.test")


def openssl(*argv):
    subprocess.run(["openssl", *argv], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Authority:
    """ca.pem is what the gates are to believe; leaf(NAME) gives (certificate, key) of a host."""

    def __init__(self, d):
        self.dir, self.pem, self.key = d, f"{d}/ca.pem", f"{d}/ca.key"
        os.chmod(d, 0o755)
        self.request("ca", "/CN=tests", "-x509", "-out", self.pem, "-days", "2", "-addext", "keyUsage=critical,keyCertSign")

    def request(self, stem, subject, *more):
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{self.dir}/{stem}.key", "-subj", subject, *more)

    def leaf(self, *names):
        stem = f"{self.dir}/{names[0].replace('*', 'any')}"
        if not os.path.exists(f"{stem}.pem"):
            with open(f"{stem}.ext", "w", encoding="ascii") as f:
                f.write("subjectAltName=" + ",".join(f"DNS:{n}" for n in names) + "\nextendedKeyUsage=serverAuth\n")
            self.request(os.path.basename(stem), f"/CN={names[0]}", "-out", f"{stem}.csr")
            openssl("x509", "-req", "-in", f"{stem}.csr", "-CA", self.pem, "-CAkey", self.key, "-CAcreateserial", "-days", "2", "-extfile", f"{stem}.ext", "-out", f"{stem}.pem")
        return f"{stem}.pem", f"{stem}.key"

    def context(self, *names):
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        c.load_cert_chain(*self.leaf(*(names or NAMES)))
        c.set_alpn_protocols(["http/1.1"])
        return c


class Request:
    def __init__(self, line, fields, body):
        self.method, self.target, _ = line.split(" ", 2)
        self.fields, self.body = fields, body
        self.path = urlsplit(self.target).path
        self.query = {k: v[0] for k, v in parse_qs(urlsplit(self.target).query).items()}

    def field(self, name):
        return [v for k, v in self.fields if k.lower() == name.lower()]

    @property
    def authorization(self):
        return (self.field("authorization") or [""])[0]

    @property
    def given(self):
        """The credential itself, however it was given."""
        word = self.authorization.split(" ", 1)[-1]
        if self.authorization.lower().startswith("basic "):
            return base64.b64decode(word).decode().partition(":")[2]
        return word

    @property
    def all(self):
        """Every byte of it, what is hidden in base64 too."""
        said = f"{self.target} {self.fields} " + self.body.decode("latin-1")
        return said + " " + (self.given if self.authorization else "") + unquote(self.target)


class Upstream:
    """An HTTP/1.1 host. What it answers is said by the path; see the methods."""

    def __init__(self, context, port=0):
        self.s = socket.socket()
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.s.bind(("127.0.0.1", port))
        self.s.listen(64)
        self.port = self.s.getsockname()[1]
        self.context, self.requests, self.failed = context, [], []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                c, _ = self.s.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(c,), daemon=True).start()

    def serve(self, c):
        c.settimeout(30)
        try:
            if self.context:
                c = self.context.wrap_socket(c, server_side=True)
            with c, c.makefile("rb") as f:
                while self.one(c, f):
                    pass
        except OSError as e:
            self.failed.append(str(e))

    def one(self, c, f):
        line = f.readline().decode("latin-1").strip()
        if not line:
            return False
        fields = []
        while h := f.readline().strip():
            k, _, v = h.decode("latin-1").partition(":")
            fields.append((k, v.strip()))
        length = [int(v) for k, v in fields if k.lower() == "content-length"]
        r = Request(line, fields, f.read(length[0]) if length else b"")
        self.requests.append(r)
        getattr(self, "on_" + r.path.strip("/").split("/")[0], self.on_ok)(c, r)
        return True

    @staticmethod
    def answer(c, body, *fields, status="200 OK", length=None):
        head = [f"HTTP/1.1 {status}", *fields, f"Content-Length: {len(body) if length is None else length}", "", ""]
        c.sendall("\r\n".join(head).encode("latin-1") + body)

    def on_ok(self, c, r):
        self.answer(c, b"ok\n")

    def on_echo(self, c, r):
        """All it got, in body and header."""
        body = json.dumps({"target": r.target, "fields": r.fields, "given": r.given, "body": r.body.decode("latin-1")}).encode()
        self.answer(c, body, f"X-Echo: {r.authorization}", "Content-Type: application/json")

    def on_pieces(self, c, r):
        """The credential cut into pieces, each in its own chunk."""
        c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Last\r\n\r\n")
        for i in range(0, len(r.given), 3):
            piece = r.given[i:i + 3].encode()
            c.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            time.sleep(0.02)
        c.sendall(b"0\r\nX-Last: " + r.given.encode() + b"\r\n\r\n")

    def on_abort(self, c, r):
        """Ends in the middle of the credential, and of the body."""
        self.answer(c, b"so far " + r.given[:-2].encode(), length=5000)
        time.sleep(0.2)
        raise OSError("aborted on purpose")

    def on_coding(self, c, r):
        """The credential in a coding of the request's choice: identity and what it is called do not have to agree."""
        word = r.query["as"]
        data = f"here: {r.given}\n".encode()
        self.answer(c, gzip.compress(data) if word == "gzip" else data, f"Content-Encoding: {word}")

    def on_error(self, c, r):
        self.answer(c, f"no: {r.authorization}\n".encode(), f"WWW-Authenticate: Bearer realm=\"{r.given}\"", status=f"401 not {r.given}")

    def on_redirect(self, c, r):
        self.answer(c, b"", f"Location: {r.query['to']}", status="302 Found")

    def on_hang(self, c, r):
        time.sleep(20)

    def on_oversize(self, c, r):
        self.answer(c, b"x", "X-Large: " + "a" * 100000)

    def seen(self, word):
        return [r for r in self.requests if word in r.all]

    def close(self):
        with contextlib.suppress(OSError):
            self.s.shutdown(socket.SHUT_RDWR)
        self.s.close()


H2 = r"""
const http2 = require('http2'), fs = require('fs');
const [cert, key, log, port] = process.argv.slice(2);
const s = http2.createSecureServer({cert: fs.readFileSync(cert), key: fs.readFileSync(key)});
s.on('stream', (st, h) => {
  st.on('error', () => {});
  const got = Object.entries(h).filter(([k]) => typeof k === 'string');
  fs.appendFileSync(log, JSON.stringify(got) + '\n');
  const auth = String(h.authorization || '');
  if (h[':path'] === '/hang') { st.respond({':status': 200}); st.write('half'); return; }
  st.on('trailers', (t) => fs.appendFileSync(log, JSON.stringify([[':path', 'trailer'], ...Object.entries(t).filter(([k]) => typeof k === 'string')]) + '\n'));
  if (h[':path'] === '/abort') { st.respond({':status': 200}); st.write('so far ' + auth.slice(0, -2)); setTimeout(() => st.close(2), 200); return; }
  st.respond({':status': 200, 'x-echo': auth}, {waitForTrailers: true});
  st.on('wantTrailers', () => st.sendTrailers({'x-last': auth}));
  for (let i = 0; i < auth.length; i += 3) st.write(auth.slice(i, i + 3));
  st.end();
});
s.on('sessionError', () => {});
s.listen(0, '127.0.0.1', () => { fs.writeFileSync(port + '.new', String(s.address().port)); fs.renameSync(port + '.new', port); });
"""


class H2Upstream:
    """Speaks HTTP/2 only; sends the Authorization it got back in a header, in small pieces of the body, and in a trailer."""

    def __init__(self, authority, d):
        node = shutil.which("node")
        assert node, "node is missing: tools/deps test"
        with open(f"{d}/h2.js", "w", encoding="utf-8") as f:
            f.write(H2)
        self.log = f"{d}/h2.log"
        self.p = subprocess.Popen([node, f"{d}/h2.js", *authority.leaf(*NAMES), self.log, f"{d}/h2.port"])
        wait_for(lambda: os.path.exists(f"{d}/h2.port") or self.p.poll() is not None, why="the HTTP/2 server")
        with open(f"{d}/h2.port", encoding="ascii") as f:
            self.port = int(f.read())

    @property
    def requests(self):
        with open(self.log, encoding="utf-8") as f:
            return [dict(json.loads(x)) for x in f]

    def close(self):
        self.p.kill()
        self.p.wait()


def believe(home, pem):
    """The gates of this caller believe that authority."""
    d = f"{home.user_home}/.config/skep"
    os.makedirs(d, exist_ok=True)
    with open(f"{d}/config.yaml", "a", encoding="utf-8") as f:
        f.write(f"ca_file: {pem}\n")


def set_secret(home, name, value, host, how, **kw):
    return home.skep("secret", "set", name, "--host", host, "--as", how, stdin=value.encode(), **kw)
