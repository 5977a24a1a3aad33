# SPDX-License-Identifier: Apache-2.0
"""The nursery without skepd: the test speaks its channel and gives cells their specs itself. What a message looks like is
read from src/model: its numbers, and the order of fields in which specs are written."""
import array
import os
import re
import socket
import struct
import subprocess

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src/model")


def source(name):
    with open(f"{MODEL}/{name}") as f:
        return f.read()


VERSION = int(re.search(r"#define PROTO_VERSION (\d+)", source("msg.h")).group(1))


def numbers():
    body = re.search(r"enum msg_type \{(.*?)\n\};", source("msg.h"), re.S).group(1)
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


def written(function, values):
    """As the C function of that name writes it; what is not given is empty."""
    kinds = {"u8": u8, "u32": u32, "u64": u64, "str": s, "strv": strv}
    arrays = set(re.findall(r"\bchar (\w+)\[", source("spec.h")))
    body = re.search(rf"^void {function}\(.*?^\}}", source("spec.c") + source("layer.c"), re.S | re.M).group(0)
    out = b""
    for call, field in re.findall(r"^\t(\w+)\(b, &?\w+(?:->(\w+)\b(?![\[.]))?", body, re.M):
        kind = call.removeprefix("wire_")
        if call == "net_write":
            out += u8(0)  # nothing may leave
        elif kind in kinds:
            empty = [] if kind == "strv" else ("" if field in arrays else None) if kind == "str" else 0
            out += kinds[kind](values.get(field, empty))
        else:
            out += written(call, values)
    return out


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
        self.ch.send("M_NURSERY", u32(VERSION) + s(self.home) + s(world.user_home) + strv([]) + strv([]), 0)
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
        op = {"verb": verb, "from": [source] if isinstance(source, str) else source, "to": to, "like": like,
              "sealed": sealed, "below": below, "base": base}
        r = Reader(self.ch.ask("M_LAYER", written("layer_op_write", op)))
        return r.u64(), r.u64(), r.u64()

    def cell(self, layer, lowers=(), n_base=0, base=None, image=None, root=False, warm=False, ws="/w", event_rate=2000):
        self.count += 1
        sid = f"s{self.count:011d}"
        os.mkdir(f"{self.home}/sandboxes/{sid}", 0o700)
        values = {
            "sandbox": sid, "key": "k" * 32, "machine_id": "0" * 32, "hostname": "box", "profile": root, "skep_home": self.home,
            "sandbox_dir": f"{self.home}/sandboxes/{sid}", "layer": f"{self.home}/layers/{layer}", "image": image,
            "home": "/root" if root else "/home/skep", "base": base, "lowers": lowers, "n_base_lowers": n_base, "ws_path": ws,
            "pids": 512, "nofile": 4096, "output_cap": 64 << 20, "event_rate": event_rate}
        place = written("place_write", values)
        ident = self.ch.send("M_WANT", u8(root) + u8(warm) + (place if warm else b""))
        _, fd = self.ch.answer(ident, "M_SLOT")
        c = Cell(socket.socket(fileno=fd))
        c.sid, c.home = sid, "/root" if root else "/home/skep"
        c.ask("M_SPEC", written("cell_spec_write", values), "M_UP")
        self.cells.append(c)
        return c


class Cell(Chan):
    n = 0

    def exec(self, script):
        Cell.n += 1
        xid = f"x{Cell.n:011d}"
        env = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", f"HOME={self.home}", f"SKEP_EXEC={xid}"]
        x = {"id": xid, "argv": ["sh", "-c", script], "env": env, "rows": 24, "cols": 80, "umask_bits": 0o022}
        self.ask("M_EXEC", written("exec_spec_write", x) + s(""), "M_STARTED")
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
