# SPDX-License-Identifier: Apache-2.0
"""Canaries on the host's loopback that write down what reaches them, the program that tries things inside a cell, and
(root only) a private network in which a public address, a LAN and a metadata service are really there."""
import contextlib
import ctypes
import ipaddress
import json
import os
import socket
import ssl
import struct
import subprocess
import threading
import time

from kit import wait_for

PYTHON = "/usr/bin/python3"  # the cell sees the host's system


# -- canaries -----------------------------------------------------------------------------------------------------
class Canary:
    """A TCP server: every connection has a thread, and everything it sent is kept in `seen`."""

    def __init__(self, address="127.0.0.1", tls=None, answer=None):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.s = socket.socket(family)
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.s.bind((address, 0))
        self.s.listen(256)
        self.address, self.port = self.s.getsockname()[:2]
        self.tls, self.answer = tls, answer
        self.seen, self.names, self.lock = [], [], threading.Lock()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                c, _ = self.s.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(c,), daemon=True).start()

    def serve(self, c):
        with contextlib.suppress(OSError):
            if self.tls:
                c = self.tls.wrap_socket(c, server_side=True)
            with self.lock:
                at = len(self.seen)
                self.seen.append(b"")
            with c:
                c.settimeout(60)
                self.talk(c, at)

    def talk(self, c, at):
        while chunk := c.recv(65536):
            with self.lock:
                self.seen[at] += chunk
            self.reply(c, self.seen[at], chunk)

    def reply(self, c, _all, chunk):
        c.sendall(self.answer if self.answer is not None else chunk)

    @property
    def count(self):
        return len(self.seen)

    def close(self):
        with contextlib.suppress(OSError):
            self.s.shutdown(socket.SHUT_RDWR)
        self.s.close()


class HttpCanary(Canary):
    """Answers every head it is sent, and tells of each as (request line, host)."""

    def __init__(self, *args, status="200 OK", headers=(), body=b"canary\n", **kw):
        self.head = "".join([f"HTTP/1.1 {status}\r\n", *(f"{h}\r\n" for h in headers), f"Content-Length: {len(body)}\r\n\r\n"]).encode() + body
        super().__init__(*args, **kw)

    def talk(self, c, at):
        data = b""
        while chunk := c.recv(65536):
            data += chunk
            with self.lock:
                self.seen[at] += chunk
            while b"\r\n\r\n" in data:
                head, _, data = data.partition(b"\r\n\r\n")
                lines = head.decode("latin-1").split("\r\n")
                fields = [tuple(x.split(":", 1)) for x in lines[1:] if ":" in x]
                with self.lock:
                    self.names.append((lines[0], [v.strip() for k, v in fields if k.lower() == "host"]))
                c.sendall(self.head)
                if any(k.lower() == "connection" and v.strip() == "close" for k, v in fields):
                    return


class Resolver:
    """A name server that counts. zone: name -> list of addresses, or a list of such lists for one answer after another."""

    def __init__(self, zone=None, address="127.0.0.1"):
        self.zone, self.queries = zone or {}, []
        for _ in range(20):  # the other run, beside this one, takes ports too
            self.u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.t = socket.socket(socket.AF_INET)
            self.t.bind((address, 0))
            self.address, self.port = self.t.getsockname()
            with contextlib.suppress(OSError):
                self.u.bind((address, self.port))
                break
        self.t.listen(16)
        for f in (self.datagrams, self.streams):
            threading.Thread(target=f, daemon=True).start()

    @property
    def at(self):
        return f"{self.address}:{self.port}"

    def addresses(self, name, kind):
        zone = self.zone.get(name, [])
        if zone and isinstance(zone[0], list):
            # Both families of one resolution get the same answer.
            asked = len([1 for n, k in self.queries if n == name and k == kind])
            zone = zone[min(asked, len(zone)) - 1]
        return [a for a in zone if (":" in a) == (kind == 28)]

    def answer(self, q):
        at, labels = 12, []
        while q[at]:
            labels.append(q[at + 1:at + 1 + q[at]])
            at += 1 + q[at]
        end = at + 5
        name, kind = b".".join(labels).decode("latin-1").lower(), struct.unpack(">H", q[at + 1:at + 3])[0]
        self.queries.append((name, kind))
        found = self.addresses(name, kind)
        rcode = 0 if name in self.zone else 3
        out = q[:2] + struct.pack(">HHHHH", 0x8180 | rcode, 1, len(found), 0, 0) + q[12:end]
        for a in found:
            raw = ipaddress.ip_address(a).packed
            out += struct.pack(">HHHIH", 0xC00C, kind, 1, 0, len(raw)) + raw
        return out

    def datagrams(self):
        with contextlib.suppress(OSError, IndexError):
            while True:
                q, peer = self.u.recvfrom(4096)
                self.u.sendto(self.answer(q), peer)

    def streams(self):
        with contextlib.suppress(OSError, IndexError):
            while True:
                c, _ = self.t.accept()
                with c:
                    n = c.recv(2)
                    out = self.answer(c.recv(struct.unpack(">H", n)[0]))
                    c.sendall(struct.pack(">H", len(out)) + out)

    def close(self):
        for s in (self.u, self.t):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()


def certificate(d, *names):
    """(context for a server, path of the certificate), signed by itself."""
    key, cert = f"{d}/canary.key", f"{d}/canary.pem"
    alt = ",".join(f"DNS:{n}" for n in names)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
                    "-subj", f"/CN={names[0]}", "-addext", f"subjectAltName={alt}"], check=True, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context, cert


# -- inside -------------------------------------------------------------------------------------------------------
# What an attempt is made with; the same text runs on the host for the control. `say` gives the value to the test.
TRIES = r'''
import errno, json, os, random, select, socket, ssl, struct, sys, time
socket.setdefaulttimeout(8)  # nothing here waits for ever
def say(v): print("\x01" + json.dumps(v), flush=True)
def name_of(e): return errno.errorcode.get(e.errno, str(e)) if e.errno and e.errno > 0 else type(e).__name__
def tcp(host, port, send=b"", wait=5.0, more=True):
    """What came back as text, or the error's name. more=False: the first bytes are enough."""
    got = b""
    try:
        family, _, _, _, to = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as e:
        return "no such name"
    with socket.socket(family) as s:
        s.settimeout(wait)
        try:
            s.connect(to)
            if send: s.sendall(send)
            while True:
                chunk = s.recv(65536)
                got += chunk
                if not chunk or not more: return got.decode("latin-1")
        except OSError as e:
            return got.decode("latin-1") + name_of(e)
def udp(host, port, send=b"x", wait=0.3):
    try:
        family, _, _, _, to = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as s:
            s.settimeout(wait)
            s.connect(to)
            s.send(send)
            return s.recv(4096).decode("latin-1")
    except OSError as e:
        return name_of(e)
def question(name, kind=1, labels=None, tail=b""):
    labels = labels if labels is not None else [x.encode() for x in name.split(".") if x]
    body = b"".join(bytes([len(x)]) + x for x in labels) + b"\0"
    return struct.pack(">HHHHHH", random.randrange(65536), 0x100, 1, 0, 0, 0) + body + struct.pack(">HH", kind, 1) + tail
def meaning(a):
    """(rcode, addresses) of an answer."""
    if len(a) < 12: return None
    if len(a) == 12: return [a[3] & 15, []]
    at = 12
    while a[at]: at += 1 + a[at]
    at += 5
    found = []
    for _ in range(struct.unpack(">H", a[6:8])[0]):
        kind, _, _, n = struct.unpack(">HHIH", a[at + 2:at + 12])
        found.append(socket.inet_ntoa(a[at + 12:at + 16]) if kind == 1 else kind)
        at += 12 + n
    return [a[3] & 15, found]
def ask(name, kind=1, labels=None, tail=b"", at=("127.0.0.1", 53), stream=False, wait=2.0):
    q = question(name, kind, labels, tail)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM) as s:
            s.settimeout(wait)
            s.connect(at)
            if not stream:
                s.send(q)
                return meaning(s.recv(4096))
            s.sendall(struct.pack(">H", len(q)) + q)
            n = s.recv(2)
            return meaning(s.recv(4096)) if n else None
    except OSError as e:
        return name_of(e)
def hello(sni=None, extra=b""):
    """A ClientHello that a server would take."""
    ext = b"".join(struct.pack(">HH", t, len(v)) + v for t, v in (
        (10, b"\0\2\0\x1d"), (13, b"\0\4\4\3\x08\4"), (43, b"\2\3\4"), (51, b"\0\x24\0\x1d\0\x20" + os.urandom(32))))
    if sni is not None:
        n = sni if isinstance(sni, bytes) else sni.encode()
        v = struct.pack(">HBH", len(n) + 3, 0, len(n)) + n
        ext = struct.pack(">HH", 0, len(v)) + v + ext
    ext += extra
    body = b"\3\3" + os.urandom(32) + b"\x20" + os.urandom(32) + b"\0\4\x13\1\x13\2" + b"\1\0" + struct.pack(">H", len(ext)) + ext
    msg = b"\1" + struct.pack(">I", len(body))[1:] + body
    return b"\x16\3\1" + struct.pack(">H", len(msg)) + msg
ECH = struct.pack(">HH", 0xfe0d, 4 + 4) + b"\0\0\1\0\1\0\0\0"
def tls(host, port, sni=None, send=b"GET / HTTP/1.0\r\n\r\n", wait=5.0):
    """A whole handshake, nothing verified: what the server answered, or the error."""
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), wait) as s, c.wrap_socket(s, server_hostname=sni) as t:
            t.sendall(send)
            return t.recv(65536).decode("latin-1")
    except OSError as e:
        return name_of(e)
def get(host, port, path="/", fields=(), name=None, wait=5.0):
    head = f"GET {path} HTTP/1.1\r\nHost: {name or host}:{port}\r\nConnection: close\r\n" + "".join(f + "\r\n" for f in fields)
    return tcp(host, port, head.encode("latin-1") + b"\r\n", wait)
'''


def values(out):
    """What the tries said; one value comes bare."""
    said = [json.loads(x[1:]) for x in out.splitlines() if x.startswith("\x01")]
    return said[0] if len(said) == 1 else said


def on_host(code, timeout=60):
    """The control: the same tries without a cell around them."""
    p = subprocess.run([PYTHON, "-I", "-c", TRIES + code], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, check=False)
    assert p.returncode == 0, p.stderr.decode()[-2000:]
    return values(p.stdout.decode())


class Cell:
    """A sandbox with rules, and tries inside it."""

    def __init__(self, home, *options):
        self.home = home
        self.id = home.new("--empty", *options)

    def tries(self, code, timeout=60):
        return values(self.home.skep("exec", self.id, "--", PYTHON, "-I", "-c", TRIES + code, timeout=timeout).ok().out)

    def starts(self, code):
        """Goes on by itself; (process, next said value)."""
        p = self.home.popen("exec", self.id, "--", PYTHON, "-I", "-c", TRIES + code)
        return p, lambda: values(p.stdout.readline().decode())

    def events(self, kind, **members):
        return [e for e in self.home.journal(self.id) if e["type"] == kind and all(e.get(k) == v for k, v in members.items())]

    def event(self, kind, **members):
        """Waits until there is one; the last."""
        return wait_for(lambda: self.events(kind, **members), 5, 0.05, f"{kind} {members} in {self.events(kind)}")[-1]

    def event_with_command(self, command, make, kind, **members):
        """Which command it was is best effort: it may end before it is looked for. Not always, though."""
        for _ in range(8):
            make()
            e = self.event(kind, **members)
            if command in e.get("command", ""):
                return e
        raise AssertionError(f"no {command} in {self.events(kind, **members)}")

    def set(self, *options):
        self.home.skep("policy", "set", *options, self.id).ok()

    def gate(self):
        """Pids of its gate: none before the first connection, else one."""
        cell = self.home.cell_pid(self.id)
        return [p for p in children(cell) if comm(p) == "skep-gate"]


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
            return f.read().strip()
    except OSError:
        return ""


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [int(x) for x in f.read().split()]
    except OSError:
        return []


def user_config(home, text):
    os.makedirs(f"{home.user_home}/.config/skep", exist_ok=True)
    with open(f"{home.user_home}/.config/skep/config.yaml", "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())


# -- a network of its own (root) ----------------------------------------------------------------------------------
CLONE_NEWNET = 0x40000000


class Lab:
    """Two network namespaces and a wire: in one the caller and skep live, in the other a world of addresses, all of
    which answer. So what a rule refuses is refused, not just absent."""

    OUT = ("11.22.33.44", "169.254.169.254", "100.100.100.200", "10.9.8.7", "192.168.55.1", "172.30.0.1", "2600:1234::5", "fd00:ec2::254", "fd12:3456::7")
    OWN = ("11.22.33.1", "10.9.8.1", "2600:1234::1")

    def __init__(self):
        self.holders = [self.hold(), self.hold()]
        here, there = self.holders
        self.run(here, "ip", "link", "set", "lo", "up")
        self.run(there, "ip", "link", "set", "lo", "up")
        self.run(here, "ip", "link", "add", "w0", "type", "veth", "peer", "name", "w1", "netns", str(there.pid))
        self.address(here, "w0", self.OWN)
        self.address(there, "w1", self.OUT)
        for p, dev in ((here, "w0"), (there, "w1")):
            self.run(p, "ip", "link", "set", dev, "up")
            self.run(p, "ip", "route", "add", "default", "dev", dev)
            self.run(p, "ip", "-6", "route", "add", "default", "dev", dev)
        self.canaries = {a: self.canary(there, a) for a in self.OUT}
        self.leave = lambda: None
        self.canaries |= {a: self.canary(here, a) for a in (*self.OWN, "127.0.0.1")}

    @staticmethod
    def hold():
        p = subprocess.Popen(["unshare", "--net", "sleep", "600"])
        wait_for(lambda: os.readlink(f"/proc/{p.pid}/ns/net") != os.readlink("/proc/self/ns/net"), why="a network namespace")
        return p

    @staticmethod
    def run(holder, *argv):
        subprocess.run(["nsenter", f"--net=/proc/{holder.pid}/ns/net", *argv], check=True)

    def address(self, holder, dev, all_of_them):
        for a in all_of_them:
            v6 = ":" in a
            self.run(holder, "ip", "addr", "add", f"{a}/{128 if v6 else 32}", "dev", dev, *(["nodad"] if v6 else []))

    @staticmethod
    def inside(holder, make):
        """make() in the namespace: a socket stays where it was made."""
        made = []

        def work():
            fd = os.open(f"/proc/{holder.pid}/ns/net", os.O_RDONLY)
            assert ctypes.CDLL(None, use_errno=True).setns(fd, CLONE_NEWNET) == 0
            os.close(fd)
            made.append(make())

        t = threading.Thread(target=work)
        t.start()
        t.join()
        return made[0]

    def canary(self, holder, address):
        return self.inside(holder, lambda: HttpCanary(address))

    def resolver(self, zone):
        return self.inside(self.holders[0], lambda: Resolver(zone))

    def enter(self, home):
        """From now on this caller's skep, and so its skepd and its gates, live in the first one."""
        popen, net = home.popen, self.holders[0].pid

        def entered(*args, **kw):
            def enter():
                fd = os.open(f"/proc/{net}/ns/net", os.O_RDONLY)
                assert ctypes.CDLL(None).setns(fd, CLONE_NEWNET) == 0
                os.close(fd)

            return popen(*args, preexec_fn=enter, **kw)

        home.popen, self.leave = entered, lambda: setattr(home, "popen", popen)

    def connects(self, address, port):
        """The control: from where skep runs, without a cell."""
        code = f"say(tcp({address!r}, {port}, b'GET / HTTP/1.0\\r\\n\\r\\n', 2, False))"
        p = subprocess.run(["nsenter", f"--net=/proc/{self.holders[0].pid}/ns/net", PYTHON, "-I", "-c", TRIES + code], stdout=subprocess.PIPE, timeout=20, check=True)
        return "canary" in values(p.stdout.decode())

    def close(self):
        for c in self.canaries.values():
            c.close()
        for p in self.holders:
            p.kill()
            p.wait()


def slowly(what, seconds=5):
    """Gives things that must not happen the time to happen."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert not what()
        time.sleep(0.05)
