# SPDX-License-Identifier: Apache-2.0
"""E2B's own clients against skepd: where they are installed, and an address they can reach it at."""
import os
import socket
import subprocess
import sys
import threading

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "e2e"))
from fixtures import *  # noqa: E402,F401,F403
from kit import ROOT, World  # noqa: E402


@pytest.fixture(scope="session")
def sdk():
    """The directory with node_modules and py."""
    d = os.environ.get("SKEP_TEST_E2B") or os.path.join(ROOT, "build/e2b")
    subprocess.run([f"{HERE}/install", d], check=True, stdout=subprocess.DEVNULL)
    return d


class Relay:
    """Bytes between a TCP port of the loopback and skepd's socket."""

    def __init__(self, world):
        self.path = f"{world.skep_home}/run/skepd.sock"
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            up = socket.socket(socket.AF_UNIX)
            try:
                up.connect(self.path)
            except OSError:
                conn.close()
                continue
            for a, b in ((conn, up), (up, conn)):
                threading.Thread(target=self.pump, args=(a, b), daemon=True).start()

    @staticmethod
    def pump(a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()


@pytest.fixture(scope="module")
def e2b(sdk, programs):
    """One skepd for all suites of a module, as a platform would have it; what they leave behind is looked for at the end."""
    w = World(programs)
    w.lend()
    w.skep("ps").ok()
    relay = Relay(w)
    w.sdk = sdk
    w.port = relay.port
    w.e2b_env = {
        **w.env,
        "E2B_API_KEY": "e2b_" + "0" * 40,
        "E2B_API_URL": f"http://127.0.0.1:{relay.port}",
        "E2B_SANDBOX_URL": f"http://127.0.0.1:{relay.port}",
        "PYTHONPATH": f"{sdk}/py",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    yield w
    relay.close()
    w.close()
