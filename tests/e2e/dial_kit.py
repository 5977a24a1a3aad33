# SPDX-License-Identifier: Apache-2.0
"""A local client that makes connections into a cell: the frames of src/model/msg.h, by hand."""
import os
import re
import socket
import struct

from kit import ROOT


with open(os.path.join(ROOT, "src/model/msg.h")) as header:
    HEADER = header.read()
VERSION = int(re.search(r"#define PROTO_VERSION (\d+)", HEADER).group(1))


def frame_types():
    """Numbers of the frame types, as the header counts them."""
    body = re.search(r"enum msg_type \{(.*?)\n\};", HEADER, re.S).group(1)
    return {name: i for i, name in enumerate(re.findall(r"^\t(M_[A-Z]+),", body, re.M))}


T = frame_types()
ROLE_DIAL = 2


def wire_str(s):
    return struct.pack("<I", 0xffffffff) if s is None else struct.pack("<I", len(s)) + s.encode()


class Dialler:
    def __init__(self, world, sid):
        status, answer = world.api("POST", f"/v1/sandboxes/{sid}/dial", {})
        assert status == 201, answer
        self.ticket, self.path = answer["ticket"], answer["socket"]
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        here = os.open(os.path.dirname(self.path), os.O_PATH)
        self.sock.connect(f"/proc/self/fd/{here}/{os.path.basename(self.path)}")
        os.close(here)
        self.id = 0
        self.greet(self.ticket)

    def greet(self, ticket, role=ROLE_DIAL):
        self.send(T["M_HELLO"], 0, struct.pack("<IB", VERSION, role) + wire_str(ticket) + struct.pack("<QQ", 0, 0))

    def send(self, kind, ident, payload):
        self.sock.sendall(struct.pack("<IBBBBI", len(payload), kind, 0, 0, 0, ident) + payload)

    def recv(self):
        """type, id, payload, descriptor or None"""
        head, fds, _, _ = socket.recv_fds(self.sock, 12, 4)
        assert len(head) == 12, "the cell closed the channel"
        n, kind, _, has_fd, _, ident = struct.unpack("<IBBBBI", head)
        payload = b""
        while len(payload) < n:
            payload += self.sock.recv(n - len(payload))
        assert len(fds) == has_fd
        return kind, ident, payload, fds[0] if fds else None

    def dial(self, port=0, path=None):
        """A connected socket, or the cell's message."""
        self.id += 1
        self.send(T["M_DIAL"], self.id, struct.pack("<I", port) + wire_str(path))
        kind, ident, payload, fd = self.recv()
        assert ident == self.id
        if kind == T["M_DIALLED"]:
            s = socket.socket(fileno=fd)
            s.settimeout(20)
            return s
        assert kind == T["M_ERR"]
        return payload[12:].decode()

    def close(self):
        self.sock.close()
