# SPDX-License-Identifier: Apache-2.0
"""Registries on loopback: Debian's docker-registry as it is, and one of a few lines that misbehaves on request."""
import base64
import ctypes
import gzip
import hashlib
import http.client
import http.server
import io
import json
import os
import platform
import shutil
import socket
import subprocess
import tarfile
import threading
import time
import urllib.parse
from contextlib import contextmanager

from kit import wait_for

MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def sha(b):
    return "sha256:" + hashlib.sha256(b).hexdigest()


def tar_of(files):
    """A layer: {name: bytes, or (link target,), or None for a directory}, all of uid 0."""
    b = io.BytesIO()
    with tarfile.open(fileobj=b, mode="w") as t:
        for name, data in files.items():
            i = tarfile.TarInfo(name)
            i.mode = 0o755
            if data is None:
                i.type = tarfile.DIRTYPE
                t.addfile(i)
            elif isinstance(data, tuple):
                i.type, i.linkname = tarfile.SYMTYPE, data[0]
                t.addfile(i)
            else:
                i.size = len(data)
                t.addfile(i, io.BytesIO(data))
    return b.getvalue()


def packed(data):
    return gzip.compress(data, 1, mtime=0)


def busybox_layer(busybox, files=None):
    applets = "sh ls cat echo id mkdir rm touch test true env wc sleep grep".split()
    with open(busybox, "rb") as f:
        base = {"bin": None, "etc": None, "tmp": None, "bin/busybox": f.read(), **{f"bin/{a}": ("busybox",) for a in applets}}
    base["etc/passwd"] = b"root:x:0:0:root:/root:/bin/sh\n"
    return packed(tar_of({**base, **(files or {})}))


class Image:
    """Blobs and manifest of one image."""

    def __init__(self, layers, config=None, machine=MACHINE, docker=False):
        self.layers = layers
        self.config = json.dumps({"architecture": machine, "os": "linux", "config": config or {},
                                  "rootfs": {"type": "layers", "diff_ids": [sha(gzip.decompress(x)) for x in layers]}}).encode()
        self.type = DOCKER_MANIFEST if docker else MANIFEST
        kind = {MANIFEST: (CONFIG, LAYER), DOCKER_MANIFEST: ("application/vnd.docker.container.image.v1+json", "application/vnd.docker.image.rootfs.diff.tar.gzip")}[self.type]
        self.manifest = json.dumps({"schemaVersion": 2, "mediaType": self.type, "config": {"mediaType": kind[0], "digest": sha(self.config), "size": len(self.config)},
                                    "layers": [{"mediaType": kind[1], "digest": sha(x), "size": len(x)} for x in layers]}).encode()
        self.digest = sha(self.manifest)

    def blobs(self):
        return {sha(b): b for b in [self.config, *self.layers]}


def index_of(entries, docker=False):
    """entries: [(image, architecture)]."""
    return json.dumps({"schemaVersion": 2, "mediaType": DOCKER_LIST if docker else INDEX, "manifests": [
        {"mediaType": i.type, "digest": i.digest, "size": len(i.manifest), "platform": {"os": "linux", "architecture": a}} for i, a in entries]}).encode()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def bcrypt(password):
    """As docker-registry wants it, by the C library."""
    crypt = ctypes.CDLL("libcrypt.so.1").crypt
    crypt.restype = ctypes.c_char_p
    hashed = crypt(password.encode(), b"$2y$04$" + b"abcdefghijklmnopqrstuu")
    assert hashed and hashed.startswith(b"$2y$"), "libcrypt knows no bcrypt"
    return hashed.decode()


class Registry:
    """docker-registry in a directory of its own."""

    def __init__(self, top, login=None, token=None):
        self.top, self.login, self.token = top, login, token
        os.makedirs(f"{top}/data", exist_ok=True)

    def config(self):
        c = f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {self.top}/data}}}}\nhttp: {{addr: '127.0.0.1:{self.port}'}}\n"
        if self.login:
            line = f"{self.login[0]}:{bcrypt(self.login[1])}\n"
            with open(f"{self.top}/htpasswd", "w", encoding="ascii") as f:
                f.write(line)
            c += f"auth: {{htpasswd: {{realm: test, path: {self.top}/htpasswd}}}}\n"
        if self.token:
            c += (f"auth: {{token: {{realm: '{self.token.url}', service: registry, issuer: test, rootcertbundle: '{self.token.cert}'}}}}\n")
        return c

    def start(self):
        program = shutil.which("docker-registry", path="/usr/bin:/usr/local/bin")
        assert program, "docker-registry is missing: tools/deps test"
        for _ in range(10):  # somebody else may take the port in between
            self.port = free_port()
            with open(f"{self.top}/config.yml", "w", encoding="ascii") as f:
                f.write(self.config())
            self.log = open(f"{self.top}/log", "wb")
            self.process = subprocess.Popen([program, "serve", f"{self.top}/config.yml"], stdout=self.log, stderr=self.log, cwd=self.top)
            if self.answers():
                return self
            self.stop()
        raise AssertionError(open(f"{self.top}/log", encoding="utf-8").read())

    def answers(self):
        def look():
            if self.process.poll() is not None:
                return "ended"
            try:
                return str(self.ask("GET", "/v2/")[0])
            except OSError:
                return None
        return wait_for(look, 60, 0.05, "docker-registry to answer") in ("200", "401")

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()

    @property
    def host(self):
        return f"localhost:{self.port}"

    def ask(self, method, path, body=None, headers=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            h = dict(headers or {})
            if self.login and "Authorization" not in h:
                h["Authorization"] = "Basic " + base64.b64encode(":".join(self.login).encode()).decode()
            if self.token and "Authorization" not in h:
                h["Authorization"] = "Bearer " + self.token.make([{"type": "repository", "name": path.split("/v2/")[1].rsplit("/", 2)[0].removesuffix("/blobs"), "actions": ["pull", "push"]}])
            c.request(method, path, body, h)
            r = c.getresponse()
            return r.status, dict(r.getheaders()), r.read()
        finally:
            c.close()

    def put_blob(self, name, data):
        status, head, body = self.ask("POST", f"/v2/{name}/blobs/uploads/")
        assert status == 202, (status, body)
        where = urllib.parse.urlsplit(head["Location"])
        status, _, body = self.ask("PUT", f"{where.path}?{where.query}&digest={sha(data)}", data, {"Content-Type": "application/octet-stream"})
        assert status == 201, (status, body)

    def put_manifest(self, name, tag, data, kind):
        status, _, body = self.ask("PUT", f"/v2/{name}/manifests/{tag}", data, {"Content-Type": kind})
        assert status == 201, (status, body)

    def push(self, name, image, tag="latest"):
        for data in image.blobs().values():
            self.put_blob(name, data)
        self.put_manifest(name, tag, image.manifest, image.type)
        return image


@contextmanager
def registry(top, **kw):
    r = Registry(top, **kw).start()
    try:
        yield r
    finally:
        r.stop()


class Tokens:
    """Where docker-registry's clients get their tokens: signed as it wants them, for a user and a password or for nobody."""

    def __init__(self, top, login=None, anonymous=False):
        self.login, self.anonymous = login, anonymous
        self.key, self.cert = f"{top}/key.pem", f"{top}/cert.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", self.key, "-out", self.cert, "-subj", "/CN=test", "-days", "30"],
                       check=True, capture_output=True)
        self.asked = []
        self.server = serve(self.answer)
        self.url = f"http://127.0.0.1:{self.server.server_port}/token"

    def make(self, access):
        with open(self.cert, encoding="ascii") as f:
            der = "".join(x for x in f.read().splitlines() if "-----" not in x)

        def part(o):
            return base64.urlsafe_b64encode(json.dumps(o).encode()).rstrip(b"=")
        now = int(time.time())
        text = part({"typ": "JWT", "alg": "RS256", "x5c": [der]}) + b"." + part(
            {"iss": "test", "aud": "registry", "sub": "", "exp": now + 600, "nbf": now - 60, "iat": now, "jti": str(now), "access": access})
        sign = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.key], input=text, check=True, capture_output=True).stdout
        return (text + b"." + base64.urlsafe_b64encode(sign).rstrip(b"=")).decode()

    def answer(self, h):
        q = urllib.parse.parse_qs(urllib.parse.urlsplit(h.path).query)
        given = h.headers.get("Authorization")
        self.asked.append((q, given))
        want = self.login and "Basic " + base64.b64encode(":".join(self.login).encode()).decode()
        if given != want and not (self.anonymous and not given):
            h.reply(401, b"{}")
            return
        kind, name, actions = q["scope"][0].split(":")
        h.reply(200, json.dumps({"token": self.make([{"type": kind, "name": name, "actions": actions.split(",")}])}).encode())


def serve(answer, tls=None):
    """A threaded HTTP server on a free port; answer(handler) for every GET."""
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            answer(self)

        def reply(self, status, body=b"", headers=None):
            self.send_response(status)
            for k, v in {"Content-Length": str(len(body)), **(headers or {})}.items():
                self.send_header(k, v)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

        def handle_error(self, request, client_address):
            pass  # clients that go away are part of the tests

    s = Server(("127.0.0.1", 0), Handler)
    if tls:
        s.socket = tls.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=s.serve_forever, args=(0.05,), daemon=True).start()
    return s


class Fake:
    """A registry in memory, for what a real one never does. before(handler, kind, digest or tag): True = it has answered."""

    def __init__(self, images, before=None, tls=None):
        self.images, self.before = images, before  # {name: {tag: (bytes, type)}} and blobs
        self.blobs, self.manifests, self.seen = {}, {}, []
        for (name, tag), image in images.items():
            self.add(name, tag, image)
        self.server = serve(self.answer, tls)
        self.host = f"localhost:{self.server.server_port}"

    def add(self, name, tag, image):
        self.blobs.update(image.blobs())
        for t in (tag, image.digest):
            self.manifests[(name, t)] = (image.manifest, image.type)

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def answer(self, h):
        path = urllib.parse.urlsplit(h.path).path
        self.seen.append((path, dict(h.headers)))
        parts = path.split("/")
        kind, what = (parts[-2], parts[-1]) if len(parts) > 3 else ("", "")
        if self.before and self.before(h, kind, what):
            return
        if kind == "manifests" and ("/".join(parts[2:-2]), what) in self.manifests:
            data, media = self.manifests[("/".join(parts[2:-2]), what)]
            h.reply(200, data, {"Content-Type": media, "Docker-Content-Digest": sha(data)})
        elif kind == "blobs" and what in self.blobs:
            self.blob(h, self.blobs[what])
        else:
            h.reply(404, b"{}")

    @staticmethod
    def blob(h, data, most=None):
        """The blob, from where it was asked for; most: break off after so many bytes."""
        at = 0
        given = h.headers.get("Range", "")
        if given.startswith("bytes=") and given.endswith("-"):
            at = int(given[6:-1])
        h.send_response(206 if at else 200)
        h.send_header("Content-Length", str(len(data) - at))
        if at:
            h.send_header("Content-Range", f"bytes {at}-{len(data) - 1}/{len(data)}")
        h.end_headers()
        h.wfile.write(data[at:] if most is None else data[at:at + most])
        if most is not None:
            h.wfile.flush()
            h.close_connection = True


@contextmanager
def fake(images, before=None, tls=None):
    f = Fake(images, before, tls)
    try:
        yield f
    finally:
        f.close()
