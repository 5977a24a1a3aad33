# SPDX-License-Identifier: Apache-2.0
"""SKEP_HOST=https://…: a certificate for the name, by an authority that is trusted, or not a byte."""
import os
import random
import signal
import socket
import ssl
import threading

import pytest

from kit import IS_ROOT, find_procs, wait_for
from line_kit import Relay
from tcp_kit import serving, token
from tls_kit import Authority, openssl


@pytest.fixture
def far(home, tmp_path):
    """skep's way to a listener behind a TLS relay: env(relay)."""
    home.new("--empty", "--name", "far")
    secret = token(home, "--scope", "run")
    os.chmod(tmp_path, 0o755)
    for part in ("ca", "other"):
        os.mkdir(f"{tmp_path}/{part}")

    class Far:
        ca, other = Authority(f"{tmp_path}/ca"), Authority(f"{tmp_path}/other")
        token = secret

        @staticmethod
        def env(port, name="localhost", ca=Authority, **more):
            pem = Far.ca.pem if ca is Authority else ca
            more = {"SKEP_CA": pem, **more} if pem else more
            return {"SKEP_HOST": f"https://{name}:{port}", "SKEP_TOKEN": secret, "SKEP_HOME": f"{home.top}/elsewhere", **more}

    with serving(home, "--public-url", "https://localhost") as port:
        Far.port = port
        yield Far
    assert not os.path.exists(f"{home.top}/elsewhere"), "a skepd of its own was started"
    wait_for(lambda: not [p for p in find_procs("--tls-line") if owner(p) == os.getuid()], why="the TLS lines to end")


def owner(pid):
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return -1


def test_everything_works_as_without(home, far, terminal):
    blob = os.urandom(8 << 20)
    with Relay(far.port, tls=far.ca.context("localhost")) as relay:
        env = far.env(relay.port)
        assert "far" in home.skep("ps", env=env).ok().out
        r = home.skep("exec", "-i", "far", "--", "sh", "-c", "cat; echo err >&2; exit 6", stdin=blob, env=env)
        assert (r.rc, r.out_b, r.err) == (6, blob, "err\n")
        t = terminal("exec", "-it", "far", "--", "sh", env=env, rows=30, cols=90)
        t.send("stty size\n")
        t.expect("30 90")
        t.send("sleep 6223\n")
        wait_for(lambda: find_procs("6223"))
        t.send("\x03")
        t.send("exit 5\n")
        assert t.wait() == 5
        p = home.popen("exec", "far", "--", "sh", "-c", "trap 'echo caught; exit 3' INT; echo up; while :; do sleep 0.05; done", env=env, start_new_session=True)
        assert p.stdout.read(3) == b"up\n"
        os.killpg(p.pid, signal.SIGINT)  # as a terminal does: to all of the foreground, and the line goes on
        assert p.stdout.read() == b"caught\n" and p.wait(10) == 3
        p.communicate()


def test_a_line_that_breaks(home, far):
    blob = random.Random(2).randbytes(16 << 20)
    dice = random.Random(4)
    with Relay(far.port, limit=lambda: dice.randrange(1 << 20, 8 << 20), tls=far.ca.context("localhost")) as relay:
        r = home.skep("exec", "-i", "far", "--", "sh", "-c", "cat; exit 7", stdin=blob, env=far.env(relay.port), timeout=240)
        assert relay.cuts >= 2
    assert r.rc == 7 and r.out_b == blob, r.err


class Trap:
    """A TLS end that keeps every byte of a client which went past the handshake."""

    def __init__(self, context):
        self.context, self.got = context, b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        s, _ = self.listener.accept()
        s.settimeout(5)
        try:
            if self.context:
                s = self.context.wrap_socket(s, server_side=True)
            while part := s.recv(4096):
                self.got += part
                if not self.context:
                    s.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        except (OSError, ssl.SSLError):
            pass
        s.close()

    def done(self):
        self.thread.join(20)
        self.listener.close()
        return self.got


def test_a_certificate_that_proves_nothing_gets_nothing(home, far):
    def refused(context, words, **kw):
        trap = Trap(context)
        home.skep("ps", env=far.env(trap.port, **kw)).fails(5, *words)
        assert far.token.encode() not in trap.done()

    refused(far.other.context("localhost"), ["certificate", "SKEP_CA"])
    refused(far.ca.context("localhost"), ["certificate"], ca=None)
    refused(far.ca.context("api.test"), ["certificate", "mismatch"])
    refused(far.ca.context("localhost"), ["certificate", "mismatch"], name="127.0.0.1")  # a name is not an address


def test_never_plain(home, far):
    """A host that speaks no TLS gets no request, and skep says so."""
    trap = Trap(None)
    home.skep("ps", env=far.env(trap.port)).fails(8, "TLS")
    assert b"HTTP" not in trap.done() and far.token.encode() not in trap.got
    home.skep("ps", env=far.env(far.port, ca=f"{home.top}/none.pem")).fails(8, "none.pem")


def test_an_address_in_a_certificate(home, far, tmp_path):
    with open(f"{tmp_path}/ext", "w", encoding="ascii") as f:
        f.write("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n")
    far.ca.request("ip", "/CN=ip", "-out", f"{far.ca.dir}/ip.csr")
    openssl("x509", "-req", "-in", f"{far.ca.dir}/ip.csr", "-CA", far.ca.pem, "-CAkey", far.ca.key, "-CAcreateserial", "-days", "2", "-extfile", f"{tmp_path}/ext", "-out", f"{far.ca.dir}/ip.pem")
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    c.load_cert_chain(f"{far.ca.dir}/ip.pem", f"{far.ca.dir}/ip.key")
    with Relay(far.port, tls=c) as relay:
        assert "far" in home.skep("ps", env=far.env(relay.port, name="127.0.0.1")).ok().out


@pytest.mark.root  # only root has an identity to give up
def test_the_process_that_speaks_tls_is_nobody(home, far):
    with Relay(far.port, tls=far.ca.context("localhost")) as relay:
        p = home.popen("exec", "far", "--", "sh", "-c", "echo up; exec sleep 6224", env=far.env(relay.port))
        assert p.stdout.read(3) == b"up\n"
        lines = [x for x in find_procs("--tls-line") if owner(x) == 65534]
        assert lines
        with open(f"/proc/{lines[0]}/status", encoding="ascii") as f:
            status = dict(x.rstrip("\n").split(":\t", 1) for x in f if ":\t" in x)
        assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1" and int(status["CapEff"], 16) == 0
        p.terminate()
        p.communicate(timeout=10)
