# SPDX-License-Identifier: Apache-2.0
"""network.test.mjs, with what it reaches: an HTTPS server that tells the headers it got, and an echo at this machine's address."""
import json
import os
import secrets
import socket
import ssl
import subprocess

import pytest

from net_kit import Canary, user_config
from test_e2b import run

HERE = os.path.dirname(os.path.abspath(__file__))


class Headers(Canary):
    """Answers each request with its headers as JSON, names in lower case."""

    def reply(self, c, everything, chunk):
        if not everything.endswith(b"\r\n\r\n"):
            return
        head = everything.rpartition(b"\r\n\r\n")[0].split(b"\r\n\r\n")[-1].decode("latin-1")
        fields = dict(x.split(": ", 1) for x in head.split("\r\n")[1:])
        body = json.dumps({k.lower(): v for k, v in fields.items()}).encode()
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)


def authority(d):
    """(context for a server, path of the authority's certificate)."""
    req = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    quiet = {"check": True, "stderr": subprocess.DEVNULL}
    subprocess.run([*req, "-x509", "-keyout", f"{d}/ca.key", "-out", f"{d}/ca.pem", "-days", "2", "-subj", "/CN=Test CA"], **quiet)
    subprocess.run([*req, "-keyout", f"{d}/key", "-out", f"{d}/csr", "-subj", "/CN=api.test", "-addext", "subjectAltName=DNS:api.test,DNS:other.test"], **quiet)
    subprocess.run(["openssl", "x509", "-req", "-in", f"{d}/csr", "-CA", f"{d}/ca.pem", "-CAkey", f"{d}/ca.key", "-CAcreateserial", "-out", f"{d}/cert", "-days", "2", "-copy_extensions", "copy"], **quiet)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{d}/cert", f"{d}/key")
    return context, f"{d}/ca.pem"


def own_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))  # asks for the way only
            return s.getsockname()[0]
        except OSError:
            pytest.skip("this machine has no address but loopback")


def test_network(e2b, tmp_path):
    context, pem = authority(tmp_path)
    os.chmod(tmp_path, 0o755)
    https, echo = Headers(tls=context), Canary(own_address())
    user_config(e2b, f"ca_file: {pem}\nnet: {{allow: ['api.test:{https.port}=127.0.0.1', 'other.test:{https.port}=127.0.0.1']}}\n")
    before = dict(e2b.e2b_env)
    mark = secrets.token_hex(16)
    e2b.e2b_env.update(SKEP_TEST_HTTPS=str(https.port), SKEP_TEST_OWN=f"{echo.address}:{echo.port}", SKEP_TEST_MARK=mark)
    try:
        run(e2b, ["node", "--test", "network.test.mjs"])
        assert any(mark.encode() in x for x in https.seen)
        found = subprocess.run(["grep", "-rlF", mark, e2b.skep_home], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout.decode()
        assert not found, f"the value of a header is in {found}"  # journals and the database: sealed, or not at all
        assert subprocess.run(["grep", "-rlF", "policy.changed", e2b.skep_home], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout  # the search finds what is there
    finally:
        e2b.e2b_env = before
        user_config(e2b, "")
        https.close()
        echo.close()
