# SPDX-License-Identifier: Apache-2.0
"""A relay between a client and a listener, in which lines can be cut as networks cut them; with TLS towards the client if asked for."""
import contextlib
import select
import socket
import ssl
import struct
import threading

CHUNK = 1 << 16


def cut(s):
    """By a reset, not an end."""
    with contextlib.suppress(OSError):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


class Relay:
    """limit(): bytes after which the next connection is cut, None = never. `open` False: nobody is let in. `lose`: what comes
    from there ("near", "far") goes nowhere, and is counted in `lost`."""

    def __init__(self, port, limit=lambda: None, tls=None):
        self.to, self.limit, self.tls = port, limit, tls
        self.open, self.cuts, self.lines = True, 0, 0
        self.lose, self.lost = None, 0
        self.era = 0  # lines of an earlier one are cut
        self.over = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.threads = [threading.Thread(target=self.accept, daemon=True)]
        self.threads[0].start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.over.set()
        for t in list(self.threads):
            t.join(20)
        self.listener.close()

    def cut_all(self):
        """Every connection there is now."""
        self.era += 1

    def accept(self):
        while not self.over.is_set():
            if not select.select([self.listener], [], [], 0.05)[0]:
                continue
            s, _ = self.listener.accept()
            if not self.open:
                cut(s)
                continue
            t = threading.Thread(target=self.carry, args=(s,), daemon=True)
            self.threads.append(t)
            t.start()

    def carry(self, near):
        far = None
        try:
            if self.tls:
                near.settimeout(10)
                near = self.tls.wrap_socket(near, server_side=True)
            far = socket.create_connection(("127.0.0.1", self.to), timeout=10)
            self.lines += 1
            self.pass_bytes(near, far, self.limit())
        except OSError:  # TLS that was refused as well
            pass
        finally:
            cut(near)
            if far:
                cut(far)

    def pass_bytes(self, near, far, limit):
        left = {near: b"", far: b""}  # what waits to be sent there
        other = {near: far, far: near}
        passed, ended = 0, set()
        near.setblocking(False)
        far.setblocking(False)
        era = self.era
        while not self.over.is_set() and len(ended) < 2:
            if era != self.era or (limit is not None and passed >= limit):
                self.cuts += 1
                return
            hidden = isinstance(near, ssl.SSLSocket) and near.pending()
            r, w, _ = select.select([s for s in other if s not in ended and len(left[other[s]]) < 4 * CHUNK], [s for s in other if left[s]], [], 0 if hidden else 0.05)
            for s in {*r, near} if hidden else r:
                with contextlib.suppress(ssl.SSLWantReadError, BlockingIOError):
                    data = s.recv(CHUNK)
                    if data and self.lose == ("near" if s is near else "far"):
                        self.lost += len(data)
                        continue
                    if limit is not None and passed + len(data) > limit:
                        data = data[: limit - passed] or b"x"  # in the middle of anything
                        left[other[s]] += data[: limit - passed]
                    else:
                        left[other[s]] += data
                    passed += len(data)
                    if not data:
                        ended.add(s)
            for s in w:
                with contextlib.suppress(ssl.SSLWantWriteError, BlockingIOError):
                    left[s] = left[s][s.send(left[s]) :]
            for s in list(ended):
                if not left[other[s]] and not isinstance(other[s], ssl.SSLSocket):
                    with contextlib.suppress(OSError):
                        other[s].shutdown(socket.SHUT_WR)
            if ended and not any(left.values()):
                return
