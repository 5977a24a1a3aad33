# SPDX-License-Identifier: Apache-2.0
"""Proxies that open TLS as the gate does: each takes CONNECT on a port of loopback, shows the client a certificate of its
own authority, and checks the host's certificate. Set up for speed where there is a choice: nothing is logged or cached,
bodies are streamed."""
import os
import pwd
import shutil
import socket
import subprocess
import time

PATH = f"{os.environ['PATH']}:/usr/sbin:/usr/lib/squid"


class Absent(Exception):
    pass


def openssl(*argv):
    subprocess.run(["openssl", *argv], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def authority(stem, name):
    """Certificate and key of a new one, on the curve that the gate's own are on."""
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign", "-keyout", f"{stem}.key", "-out", f"{stem}.pem")
    return f"{stem}.pem", f"{stem}.key"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def tool(name):
    path = shutil.which(name, path=PATH)
    if not path:
        raise Absent("not installed")
    return path


class Proxy:
    """port: where it listens; ca: what its clients have to believe."""

    def __init__(self, d, argv, port, ca):
        self.port, self.ca = port, ca
        with open(f"{d}/output", "wb") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=d)
        try:
            self.wait(f"{d}/output")
        except Absent:
            self.close()
            raise

    def wait(self, log):
        for _ in range(200):
            if self.process.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                if os.path.exists(self.ca):
                    return
            except OSError:
                pass
            time.sleep(0.1)
        with open(log, encoding="utf-8", errors="replace") as f:
            raise Absent("installed, but does not run here: " + (f.read().strip().split("\n")[-1][:120] or "no word"))

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def mitmproxy(d, upstream_ca):
    port = free_port()
    options = {"confdir": d, "ssl_verify_upstream_trusted_ca": upstream_ca, "stream_large_bodies": "64k"}
    argv = [tool("mitmdump"), "-q", "--listen-host", "127.0.0.1", "--listen-port", str(port)]
    for k, v in options.items():
        argv += ["--set", f"{k}={v}"]
    return Proxy(d, argv, port, f"{d}/mitmproxy-ca-cert.pem")


SQUID = """
http_port 127.0.0.1:{port} ssl-bump tls-cert={ca} tls-key={key} generate-host-certificates=on dynamic_cert_mem_cache_size=4MB
sslcrtd_program {certgen} -s {d}/db -M 4MB
acl step1 at_step SslBump1
ssl_bump peek step1
ssl_bump bump all
tls_outgoing_options cafile={upstream_ca}
http_access allow all
cache deny all
access_log none
cache_log {d}/cache.log
pid_filename {d}/squid.pid
coredump_dir {d}
netdb_filename none
pinger_enable off
visible_hostname bench
max_filedescriptors 4096
shutdown_lifetime 0 seconds
"""


def squid(d, upstream_ca):
    port, program, certgen = free_port(), tool("squid"), tool("security_file_certgen")
    ca, key = authority(f"{d}/ca", "squid")
    subprocess.run([certgen, "-c", "-s", f"{d}/db", "-M", "4MB"], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    conf = SQUID.format(port=port, ca=ca, key=key, certgen=certgen, d=d, upstream_ca=upstream_ca)
    if os.getuid() == 0:  # it insists on another user, who has to reach its files
        user = pwd.getpwnam("proxy")
        conf += "cache_effective_user proxy\n"
        for at, dirs, files in os.walk(d):
            for f in [".", *dirs, *files]:
                os.chown(f"{at}/{f}", user.pw_uid, user.pw_gid)
    with open(f"{d}/squid.conf", "w", encoding="ascii") as f:
        f.write(conf)
    os.chmod(f"{d}/squid.conf", 0o644)
    return Proxy(d, [program, "-N", "-f", f"{d}/squid.conf"], port, ca)


ALL = {"mitmproxy": mitmproxy, "squid": squid}
