# SPDX-License-Identifier: Apache-2.0
"""The nursery without skepd: the test speaks its channel (src/model/msg.h) and gives cells their specs itself."""
import array
import os
import re
import socket
import struct
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
HEADER = next(p for p in (f"{HERE}/msg.h", f"{HERE}/../../src/model/msg.h") if os.path.exists(p))


def numbers():
    body = re.search(r"enum msg_type \{(.*?)\n\};", open(HEADER).read(), re.S).group(1)
    names = re.findall(r"^\s*(M_[A-Z]+),", body, re.M)
    return {n: i for i, n in enumerate(names)}


M = numbers()
NAMES = {v: k for k, v in M.items()}
COPY, MERGE, SIZE, SYNC = range(4)


def u8(v):
    return struct.pack("<B", v)


def u32(v):
    return struct.pack("<I", v)


def u64(v):
    return struct.pack("<Q", v)


def s(v):
    if v is None:
        return b"\xff\xff\xff\xff"
    v = os.fsencode(v)
    return u32(len(v)) + v


def strv(v):
    return u32(len(v)) + b"".join(s(x) for x in v)


class Reader:
    def __init__(self, p):
        self.p = p

    def take(self, n):
        out, self.p = self.p[:n], self.p[n:]
        assert len(out) == n
        return out

    def u8(self):
        return self.take(1)[0]

    def u32(self):
        return struct.unpack("<I", self.take(4))[0]

    def u64(self):
        return struct.unpack("<Q", self.take(8))[0]

    def s(self):
        n = self.u32()
        return None if n == 0xFFFFFFFF else os.fsdecode(self.take(n))

    def strv(self):
        return [self.s() for _ in range(self.u32())]


class Refused(Exception):
    pass


class Chan:
    def __init__(self, sock):
        self.sock, self.fds, self.last = sock, [], 0
        sock.settimeout(60)

    def send(self, kind, payload=b"", ident=None):
        if ident is None:
            self.last += 1
            ident = self.last
        self.sock.sendall(struct.pack("<IBBBBI", len(payload), M[kind], 0, 0, 0, ident) + payload)
        return ident

    def _read(self, n):
        out = b""
        while len(out) < n:
            part, anc, _, _ = self.sock.recvmsg(n - len(out), socket.CMSG_SPACE(64))
            for level, kind, data in anc:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    a = array.array("i")
                    a.frombytes(data[: len(data) // 4 * 4])
                    self.fds += list(a)
            if not part:
                raise EOFError
            out += part
        return out

    def recv(self):
        n, kind, _, has_fd, _, ident = struct.unpack("<IBBBBI", self._read(12))
        payload = self._read(n) if n else b""
        return NAMES[kind], ident, payload, self.fds.pop(0) if has_fd else -1

    def answer(self, ident, *kinds):
        while True:
            kind, got, payload, fd = self.recv()
            if kind == "M_ERR" and got == ident:
                r = Reader(payload)
                r.u64()
                raise Refused(r.s())
            if kind in kinds and (got == ident or ident is None):
                return payload, fd

    def ask(self, kind, payload=b"", answer="M_OK"):
        return self.answer(self.send(kind, payload), answer)[0]


class Nursery:
    def __init__(self, world, env=None):
        self.world, self.home = world, world.skep_home
        os.makedirs(f"{self.home}/sandboxes", mode=0o700, exist_ok=True)
        os.makedirs(f"{self.home}/layers", mode=0o700, exist_ok=True)
        os.chmod(self.home, 0o700)
        a, b = socket.socketpair()
        self.proc = subprocess.Popen(
            ["sh", "-c", f"exec 3<&0; exec {world.programs}/skep-cell --nursery </dev/null"], stdin=b,
            env={"PATH": world.env["PATH"], **(env or {})})
        b.close()
        self.ch = Chan(a)
        self.ch.send("M_NURSERY", u32(1) + s(self.home) + s(world.user_home) + strv([]) + strv([]), 0)
        self.count, self.cells = 0, []

    def close(self):
        """Also ends and removes what was made."""
        for c in self.cells:
            if c.sock.fileno() >= 0:
                c.stop()
        dirs = [f"{self.home}/{d}/{x}" for d in ("layers", "sandboxes") for x in os.listdir(f"{self.home}/{d}")]
        self.ch.ask("M_REMOVE", strv(dirs))
        self.end()

    def end(self):
        self.ch.sock.close()
        self.proc.wait(10)

    def layer(self, name, *dirs):
        for d in ("", "ws", "home", "root", "work") + dirs:
            os.makedirs(f"{self.home}/layers/{name}/{d}", mode=0o700, exist_ok=True)
        return f"{self.home}/layers/{name}"

    def job(self, verb, source, to=None, like=None, sealed=False, below=(), base=None):
        """(bytes, files, shared)"""
        source = [source] if isinstance(source, str) else source
        r = Reader(self.ch.ask("M_LAYER", u8(verb) + strv(source) + s(to) + s(like) + u8(sealed) + strv(below) + s(base)))
        return r.u64(), r.u64(), r.u64()

    def cell(self, layer, lowers=(), n_base=0, base=None, image=None, root=False, warm=False, ws="/w"):
        self.count += 1
        sid = f"s{self.count:011d}"
        os.mkdir(f"{self.home}/sandboxes/{sid}", 0o700)
        place = s(base) + strv(lowers) + u32(n_base) + s(ws) + u32(0)
        ident = self.ch.send("M_WANT", u8(root) + u8(warm) + (place if warm else b""))
        _, fd = self.ch.answer(ident, "M_SLOT")
        limits = b"".join(u64(x) for x in (0, 0, 512, 0, 0, 4096, 64 << 20, 2000))
        spec = s(sid) + s("k" * 32) + s("0" * 32) + s("box") + u8(root) + u8(0) * 6 + s(self.home)
        spec += s(f"{self.home}/sandboxes/{sid}") + s(f"{self.home}/layers/{layer}") + s(image)
        spec += s("/root" if root else "/home/skep") + place + limits + u64(0) * 2 + u8(0) + u8(0) + s("")
        c = Cell(socket.socket(fileno=fd))
        c.sid, c.home = sid, "/root" if root else "/home/skep"
        c.ask("M_SPEC", spec, "M_UP")
        self.cells.append(c)
        return c


class Cell(Chan):
    n = 0

    def exec(self, script):
        Cell.n += 1
        xid = f"x{Cell.n:011d}"
        env = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", f"HOME={self.home}", f"SKEP_EXEC={xid}"]
        spec = s(xid) + u8(0) + strv(["sh", "-c", script]) + strv(env) + s(None) + s(None) + u8(0) * 3 + u32(24) + u32(80)
        self.ask("M_EXEC", spec + u32(0o022) + u64(0) + s(""), "M_STARTED")
        return xid

    def run(self, script):
        xid = self.exec(script)
        while True:
            r = Reader(self.answer(None, "M_EXITED")[0])
            if r.s() == xid:
                return r.u32()

    def ok(self, script):
        assert self.run(f"set -ex; {script}") == 0, script

    def members(self):
        return Reader(self.ask("M_MEMBERS", b"", "M_MEMBERS")).u32()

    def stop(self):
        """The number of pending changes."""
        self.send("M_STOP", u32(2000) + u8(0))
        r = Reader(self.answer(None, "M_GONE")[0])
        r.s()
        n = r.u32()
        self.sock.close()
        return n
