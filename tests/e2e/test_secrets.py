# SPDX-License-Identifier: Apache-2.0
"""Sealed secrets: T-049 to T-055, where they may go, and how long they live. Every refusal has a control beside it that
shows that the attempt works where nothing stands in its way."""
import base64
import glob
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import urllib.parse
import urllib.request

import pytest

from kit import IS_ROOT, proc_start, wait_for
from net_kit import PYTHON, Cell, HttpCanary
from tls_kit import Authority, H2Upstream, Upstream, believe, set_secret

VALUE = "v4lue/With+odd=chars-77"
REFUSED = re.compile(r"^skep: [ -~]{5,120}\n?$")


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    return Authority(str(tmp_path_factory.mktemp("ca")))


@pytest.fixture
def upstream(home, authority):
    believe(home, authority.pem)
    u = Upstream(authority.context())
    yield u
    u.close()


def bound(home, upstream, how="bearer", *options, name="TOK", value=VALUE, host="api.test"):
    """A cell with a secret that is bound to the host."""
    set_secret(home, name, value, f"{host}:{upstream.port}", how).ok()
    return Cell(home, "--secret", name, "--allow", f"{host}:{upstream.port}=127.0.0.1", *options)


def sh(cell, script, timeout=60):
    return cell.home.skep("exec", cell.id, "--", "sh", "-c", script, timeout=timeout)


def curl(cell, *args):
    """(status, body) as the cell sees it; 000 when there was no answer. $TOK in an argument is the placeholder."""
    words = " ".join('"' + a.replace('"', '\\"') + '"' for a in args)
    r = sh(cell, f"curl -sS -m 20 -w '\\n%{{http_code}}' {words}")
    body, _, status = r.out.rpartition("\n")
    return status, body, r


def placeholder(cell, name="TOK"):
    return sh(cell, f"printf %s ${name}").ok().out


# -- T-049: what is inside ------------------------------------------------------------------------------------------
# The value comes reversed, so that the search does not find itself.
SEARCH = r"""
import glob, os, sys
want = sys.argv[1][::-1].encode()
forms = [want, want.hex().encode(), __import__("base64").b64encode(want).rstrip(b"=")]
found = []
def look(what, data):
    if any(f in data for f in forms): found.append(what)
def read(path, limit=1 << 22):
    try:
        with open(path, "rb") as f: return f.read(limit)
    except OSError: return b""
me = str(os.getpid())
for p in [x for x in os.listdir("/proc") if x.isdigit()]:
    for f in ("environ", "cmdline", "comm", "auxv"): look(f"/proc/{p}/{f}", read(f"/proc/{p}/{f}"))
    for fd in glob.glob(f"/proc/{p}/fd/*"):
        if os.path.isfile(fd): look(fd, read(fd))
    if p == me: continue
    try: mem = open(f"/proc/{p}/mem", "rb", 0)
    except OSError: continue
    for line in read(f"/proc/{p}/maps").decode().splitlines():
        at, end = (int(x, 16) for x in line.split()[0].split("-"))
        if "r" not in line.split()[1] or end - at > 1 << 26 or "[v" in line: continue
        try: mem.seek(at); look(f"/proc/{p}/mem {line.split()[-1]}", mem.read(end - at))
        except OSError: pass
for top in ("/.skep", "/run", "/tmp", "/etc", "/home", "/root", "/var", "/dev/shm", "/opt", os.getcwd()):
    for d, _, files in os.walk(top):
        for f in files:
            path = os.path.join(d, f)
            look(path, path.encode())
            if os.path.isfile(path) and os.path.getsize(path) < 1 << 22: look(path, read(path))
print(found)
"""


def searched(cell):
    # a process that goes on beside the search, with the same environment
    r = cell.home.skep("exec", cell.id, "--", "sh", "-c", 'sleep 30 & "$@"; rc=$?; kill $!; exit $rc', "sh", PYTHON, "-I", "-c", SEARCH, VALUE[::-1]).ok()
    return eval(r.out)  # pylint: disable=eval-used


def test_only_placeholders_inside(home, upstream):
    cell = bound(home, upstream, "file")
    # used once, so that wherever a value could come along, it has
    assert curl(cell, f"https://api.test:{upstream.port}/ok", "-H", "Authorization: Bearer $TOK")[0] == "200"
    assert upstream.requests[-1].given == VALUE
    assert searched(cell) == []
    assert re.fullmatch(r"skep_TOK_[0-9a-f]{32}", placeholder(cell))
    assert sh(cell, 'cat "$TOK_FILE"').ok().out == placeholder(cell)
    # fresh for every sandbox
    assert placeholder(Cell(home, "--secret", "TOK")) != placeholder(cell)


def test_the_search_finds_what_is_there(home):
    """The control: a value given the open way is found in variables, in memory and in a file."""
    cell = Cell(home, "--env", f"LEAK={VALUE}")
    sh(cell, 'printf %s "$LEAK" > /tmp/leak').ok()
    found = searched(cell)
    for what in ("environ", "/mem", "/tmp/leak"):
        assert any(what in f for f in found), found


def test_never_on_the_host_in_the_open(home, upstream):
    cell = bound(home, upstream)
    curl(cell, f"https://api.test:{upstream.port}/ok", "-H", "Authorization: Bearer $TOK")
    assert upstream.requests[-1].given == VALUE
    for d, _, files in os.walk(home.skep_home):
        for f in files:
            path = os.path.join(d, f)
            if os.path.isfile(path):
                with open(path, "rb") as h:
                    data = h.read()
                assert VALUE.encode() not in data and base64.b64encode(VALUE.encode()) not in data, path
                assert b"PRIVATE KEY" not in data, path
    assert os.stat(f"{home.skep_home}/secret.key").st_mode & 0o777 == 0o600
    for verb in (["secret", "ls", "--json"], ["show", "--json", cell.id], ["policy", "show", "--json", cell.id], ["log", "--json", cell.id]):
        assert VALUE not in home.skep(*verb).ok().out
    for p in (p for p in os.listdir("/proc") if p.isdigit() and home.names_us(int(p), (0, proc_start(int(p)), ""))):
        with open(f"/proc/{p}/cmdline", "rb") as h:
            assert VALUE.encode() not in h.read()
    # an edited row does not open: the value stays with the host it was given for
    assert home.skep("secret", "ls").ok().out.count("api.test") == 1


# -- where it may go: T-050 -------------------------------------------------------------------------------------------
def test_bound_to_host_and_port(home, upstream, authority):
    second, plain = Upstream(authority.context()), Upstream(None)
    p = upstream.port
    rules = [f"--allow={h}=127.0.0.1 open" for h in (f"other.test:{p}", f"sub.api.test:{p}", f"test:{p}", f"api.test:{second.port}")]
    cell = bound(home, upstream, "bearer", *rules, "--allow", f"api.test:{plain.port}=127.0.0.1")
    mark = placeholder(cell)
    places = {f"https://other.test:{p}/": upstream, f"https://sub.api.test:{p}/": upstream, f"https://test:{p}/": upstream, f"https://api.test:{second.port}/": second,
              f"http://api.test:{plain.port}/": plain}
    try:
        for url, there in places.items():
            before = len(there.requests)
            assert curl(cell, url)[0] == "200" and len(there.requests) == before + 1, url  # the control: it may be reached
            for args in (["-H", "Authorization: Bearer $TOK"], ["-u", "me:$TOK"], ["-H", "X-Any: $TOK"], ["-d", "v=$TOK"]):
                if args[0] == "-d" and "//api.test" in url:
                    continue  # the bound name may be told a placeholder in a body: it is no secret
                status, body, _ = curl(cell, url, *args)
                assert status in ("403", "000") and VALUE not in body, (url, args, status, body)
            assert curl(cell, url + "?v=$TOK")[0] in ("403", "000")
            assert not there.seen(VALUE) and not there.seen(mark), url
        assert cell.event("denied", secret="TOK", name="other.test")
        # the control: at its own place it is swapped
        assert curl(cell, f"https://api.test:{p}/", "-H", "Authorization: Bearer $TOK")[0] == "200"
        assert [r.given for r in upstream.seen(VALUE)] == [VALUE]
        assert cell.event("secret.used", secret="TOK", host="api.test")
    finally:
        second.close()
        plain.close()


def test_not_over_plain_http(home, authority):
    """Bound to a port that does not speak TLS: nothing is sent in the clear."""
    plain = Upstream(None)
    try:
        cell = bound(home, plain)
        status, body, _ = curl(cell, f"http://api.test:{plain.port}/", "-H", "Authorization: Bearer $TOK")
        assert status in ("403", "000") and VALUE not in body
        curl(cell, f"http://api.test:{plain.port}/")
        assert not plain.seen(VALUE) and not plain.seen(placeholder(cell))
    finally:
        plain.close()


def test_not_to_a_host_with_another_certificate(home, authority):
    """Who answers at that name's address, but can not prove to be it, gets nothing."""
    believe(home, authority.pem)
    wrong = Upstream(authority.context("wrong.test"))
    try:
        cell = bound(home, wrong)
        status, body, _ = curl(cell, f"https://api.test:{wrong.port}/", "-H", "Authorization: Bearer $TOK")
        assert status in ("502", "000") and VALUE not in body
        assert not wrong.requests
    finally:
        wrong.close()


def test_not_after_a_redirect(home, upstream):
    p = upstream.port
    cell = bound(home, upstream, "bearer", "--allow", f"other.test:{p}=127.0.0.1 open")
    to = urllib.parse.quote(f"https://other.test:{p}/there", safe="")
    status, body, _ = curl(cell, "--location-trusted", f"https://api.test:{p}/redirect?to={to}", "-H", "Authorization: Bearer $TOK")
    assert status in ("403", "000") and VALUE not in body
    assert [r.path for r in upstream.seen(VALUE)] == ["/redirect"]
    assert not [r for r in upstream.requests if r.path == "/there"]
    # the control: the same with something that is no placeholder does arrive
    status, _, _ = curl(cell, "--location-trusted", f"https://api.test:{p}/redirect?to={to}", "-H", "Authorization: Bearer ordinary")
    assert status == "200" and [r.given for r in upstream.requests if r.path == "/there"] == ["ordinary"]


def test_only_in_its_place(home, upstream):
    """To the bound host, but elsewhere in the request."""
    url = f"https://api.test:{upstream.port}/echo"
    cell = bound(home, upstream)
    for args in (["-H", "X-Other: $TOK"], ["-G", "-d", "v=$TOK"], ["-b", "c=$TOK"], ["-A", "$TOK"]):
        status, body, _ = curl(cell, url, *args)
        assert status in ("403", "000") and VALUE not in body, (args, status, body)
    assert not upstream.requests
    # An agent quotes its environment to its model: in a body the placeholder stays what it is.
    assert curl(cell, url, "-d", "v=$TOK")[0] == "200"
    assert upstream.requests[-1].body.decode() == f"v={placeholder(cell)}"


def test_a_stranger_is_not_told_in_pieces(home, upstream):
    cell = bound(home, upstream, "bearer", "--allow", f"other.test:{upstream.port}=127.0.0.1 open")
    url = f"https://other.test:{upstream.port}/echo"
    r = sh(cell, f"(printf 'v='; printf %.20s $TOK; sleep 0.2; printf %s $TOK | cut -c21-) | curl -sS -m 20 -T - -w '%{{http_code}}' {url}")
    assert not upstream.seen(VALUE) and not upstream.seen(placeholder(cell)), r.out


def test_a_stranger_is_not_told_behind_the_body(home, upstream):
    """A placeholder in the trailer of a request, whatever the host."""
    canary = HttpCanary()
    cell = bound(home, upstream, "bearer", "--allow", f"other.test:{canary.port}=127.0.0.1")
    try:
        send = f"""b"POST / HTTP/1.1\\r\\nHost: other.test:{canary.port}\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n1\\r\\na\\r\\n0\\r\\nX-Sum: " + word + b"\\r\\n\\r\\n" """
        cell.tries(f"word = os.environ['TOK'].encode(); say(tcp('other.test', {canary.port}, {send}, 1))")
        assert not [s for s in canary.seen if placeholder(cell).encode() in s], canary.seen
        assert cell.event("denied", what="secret")["secret"] == "TOK"
        # the control: another word there does arrive
        cell.tries(f"word = b'ordinary'; say(tcp('other.test', {canary.port}, {send}, 1))")
        assert [s for s in canary.seen if b"X-Sum: ordinary" in s], canary.seen
    finally:
        canary.close()


# -- echoes: T-051, T-052 ----------------------------------------------------------------------------------------------
def forms(value):
    out = {value, urllib.parse.quote(value, safe=""), base64.b64encode(value.encode()).decode().rstrip("=")}
    return out | {base64.b64encode(f"{u}:{value}".encode()).decode().rstrip("=") for u in ("me", "x", "")}


ECHOES = ["echo", "pieces", "abort", "error", "coding?as=identity", "coding?as=gzip", "coding?as=br", "coding?as=x-made-up", "coding?as=identity,+x-made-up"]


@pytest.mark.parametrize("how,args", [("bearer", ["-H", "Authorization: Bearer $TOK"]), ("basic", ["-u", "me:$TOK"])])
def test_echoes_are_masked(home, upstream, authority, how, args):
    cell = bound(home, upstream, how)
    for host in ("api.test", "API.Test", "api.test."):
        for path in ECHOES if host == "api.test" else ("echo", "abort"):
            before = len(upstream.requests)
            status, body, r = curl(cell, "-i", "--raw", f"https://{host}:{upstream.port}/{path}", *args)
            assert len(upstream.requests) == before + 1 and upstream.requests[-1].given == VALUE, (host, path, status, r.err)
            for f in forms(VALUE):
                assert f not in body and f not in r.err, (host, path, f)
            # nor a part that tells most of it
            assert VALUE[:-2] not in body and VALUE[2:] not in body, (host, path)
            if path == "echo":
                assert placeholder(cell) in body
    # the control: straight from the host, the same answers do hold it
    context = ssl.create_default_context(cafile=authority.pem)
    for path in ("echo", "coding?as=x-made-up"):
        q = urllib.request.Request(f"https://127.0.0.1:{upstream.port}/{path}", headers={"Authorization": f"Bearer {VALUE}"})
        context.check_hostname = False
        assert VALUE in urllib.request.urlopen(q, context=context, timeout=10).read().decode()


def test_an_echo_of_the_query_is_masked(home, upstream):
    cell = bound(home, upstream, "query:key")
    status, body, r = curl(cell, "-i", f"https://api.test:{upstream.port}/echo?a=1&key=$TOK&b=2")
    assert status == "200" and upstream.requests[-1].query == {"a": "1", "key": VALUE, "b": "2"}, r.err
    assert not [f for f in forms(VALUE) if f in body]


# A client that says what it likes; PORT stands for the host's.
FRAMES = r"""
def frame(t, flags, sid, body=b""): return struct.pack(">I", len(body))[1:] + bytes([t, flags]) + struct.pack(">I", sid) + body
def lit(n, v): return b"\0" + bytes([len(n)]) + n + bytes([len(v)]) + v
def head(path=b"/f", more=b""): return b"\x82\x87" + lit(b":authority", b"api.test:PORT") + lit(b":path", path) + more
def flood(make, n, window=65535):
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT); c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
    c.set_alpn_protocols(["h2"])
    try:
        with c.wrap_socket(socket.create_connection(("api.test", PORT)), server_hostname="api.test") as s:
            s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, struct.pack(">HI", 4, window)))
            for i in range(n): s.sendall(make(i))
    except OSError: pass
"""
FLOODS = {
    "rapid reset": "lambda i: b''.join(frame(1, 5, 1 + 2 * (100 * i + k), head()) + frame(3, 0, 1 + 2 * (100 * i + k), b'\\0\\0\\0\\x08') for k in range(100)), 100",
    "settings": "lambda i: frame(4, 0, 0) * 1000, 50",
    "ping": "lambda i: frame(6, 0, 0, b'12345678') * 1000, 50",
    "continuation": "lambda i: (frame(1, 1, 1, head()) if not i else b'') + frame(9, 0, 1, lit(b'a', b'b' * 100) * 150), 100",
    "empty continuation": "lambda i: (frame(1, 1, 1, head()) if not i else b'') + frame(9, 0, 1) * 1000, 50",
    "no window": "lambda i: frame(1, 5, 1 + 2 * i, head()), 300, 0",
    "too much window": "lambda i: frame(8, 0, 0, b'\\x7f\\xff\\xff\\xff'), 50",
    "empty data": "lambda i: (frame(1, 4, 1, head()) if not i else b'') + frame(0, 0, 1) * 1000, 50",
    "priority": "lambda i: b''.join(frame(2, 0, 1 + 2 * (1000 * i + k), b'\\0\\0\\0\\0\\x10') for k in range(1000)), 20",
    "header bomb": "lambda i: frame(1, 5, 1 + 2 * i, head(more=b'\\x40\\x01a\\x7f\\x81\\x1f' + b'b' * 4000 + b'\\xbe' * 8000)), 50",
    "extended connect": "lambda i: frame(1, 4, 1 + 2 * i, lit(b':method', b'CONNECT') + lit(b':protocol', b'websocket') + b'\\x87' + lit(b':authority', b'api.test:PORT') + lit(b':path', b'/no')), 20",
    "two hosts": "lambda i: frame(1, 5, 1 + 2 * i, head(b'/no', lit(b'host', b'other.test'))), 20",
    "push": "lambda i: frame(5, 4, 1, b'\\0\\0\\0\\2' + head(b'/no')), 20",
}


def test_http2_floods(home, authority, tmp_path):
    """What is known to bring servers down: the same gate goes on, small as before."""
    believe(home, authority.pem)
    up = H2Upstream(authority, str(tmp_path))
    try:
        cell = bound(home, up)
        works = lambda: curl(cell, "--http2", f"https://api.test:{up.port}/", "-o", "/dev/null")[0] == "200"
        assert works()
        gate = cell.gate()
        for name, flood in FLOODS.items():
            cell.tries((FRAMES + f"flood({flood}); say(1)").replace("PORT", str(up.port)))
            assert works() and cell.gate() == gate, name
        with open(f"/proc/{gate[0]}/status", encoding="ascii") as f:
            assert int(re.search(r"VmHWM:\s+(\d+)", f.read()).group(1)) < 64 << 10
        assert "/no" not in [q[":path"] for q in up.requests]
    finally:
        up.close()


def test_a_secret_is_not_used_unseen(home, upstream):
    """Any number of other events in the same second does not hide it."""
    cell = bound(home, upstream)
    for i in range(3):
        p, said = cell.starts("""
for k in range(4000):
    s = socket.socket(); s.setblocking(False)
    try: s.connect((f"198.19.{k >> 8 & 255}.{k & 127 | 1}", 443))
    except OSError: pass
    if k == 1000: say("flood")
    if k % 500 == 499: time.sleep(0.01)""")
        assert said() == "flood"
        status, _, r = curl(cell, f"https://api.test:{upstream.port}/{i}")
        assert status == "200", r.err
        p.wait(30)
        p.stdout.close()
        p.stderr.close()
    wait_for(lambda: len(cell.events("secret.used")) == 3, why="an event for each use")


def test_http2(home, authority, tmp_path):
    """The same, where host and client speak HTTP/2."""
    believe(home, authority.pem)
    up = H2Upstream(authority, str(tmp_path))
    try:
        cell = bound(home, up)
        for path in ("/", "/abort"):
            _, body, r = curl(cell, "-i", "--http2", f"https://api.test:{up.port}{path}", "-H", "Authorization: Bearer $TOK", "-H", "X-Api-Key: mine")
            got = up.requests[-1]
            assert got["authorization"] == f"Bearer {VALUE}" and got[":path"] == path and "x-api-key" not in got
            assert body.startswith("HTTP/2 200") or path == "/abort", r.err
            assert VALUE not in body and VALUE[:-2] not in body
        _, body, _ = curl(cell, "--http2", f"https://api.test:{up.port}/x", "-H", "X-Other: $TOK")
        assert "/x" not in [q[":path"] for q in up.requests]
        # A policy that denies the request under way ends it, and the connection serves others.
        p = home.popen("exec", cell.id, "--", "curl", "-sSN", "-m", "30", "--http2", f"https://api.test:{up.port}/hang")
        assert p.stdout.read(4) == b"half"
        cell.set("--deny", f"api.test:{up.port}/hang")
        assert p.wait(20) not in (0, 28) and p.stdout.read() == b""
        p.stdout.close()
        p.stderr.close()
        assert "request under way" in cell.event("denied", what="policy")["why"]
        assert curl(cell, "--http2", f"https://api.test:{up.port}/")[0] == "200"
    finally:
        up.close()


# -- T-053 -------------------------------------------------------------------------------------------------------------
def test_own_credentials_are_dropped(home, upstream):
    own = ["-H", "X-Api-Key: mine-1", "-H", "Proxy-Authorization: Basic bWluZS0y", "-H", "X-Auth-Token: mine-3", "-H", "Private-Token: mine-4", "-H", "X-Vault-Token: mine-8", "-H", "apikey: mine-9"]
    cell = bound(home, upstream, "bearer", "--allow", f"other.test:{upstream.port}=127.0.0.1 open")
    for args in ([], ["-H", "Authorization: Bearer mine-5"], ["-u", "me:mine-6"]):
        curl(cell, f"https://api.test:{upstream.port}/", *own, *args)
        r = upstream.requests[-1]
        assert r.field("authorization") == [f"Bearer {VALUE}"] and "mine" not in r.all and "bWluZS0y" not in r.all, r.all
    # two of the same kind
    curl(cell, f"https://api.test:{upstream.port}/", "-H", "Authorization: Bearer $TOK", "-H", "authorization: Bearer mine-7")
    assert "mine-7" not in upstream.requests[-1].all
    # in the query
    curl(cell, f"https://api.test:{upstream.port}/?a=1&private_token=mine-10&access%5Ftoken=mine-11")
    assert upstream.requests[-1].query == {"a": "1"} and "mine" not in upstream.requests[-1].all
    # the control: a host without a secret gets what the client sends
    curl(cell, f"https://other.test:{upstream.port}/", *own, "-H", "Authorization: Bearer mine-5")
    r = upstream.requests[-1]
    assert "mine-1" in r.all and "mine-3" in r.all and r.given == "mine-5"


# -- T-054 -------------------------------------------------------------------------------------------------------------
def test_error_pages_are_constant(home, upstream, authority):
    p = upstream.port
    wrong, gone = Upstream(authority.context("wrong.test")), Upstream(authority.context())
    gone.close()
    rules = [f"api.test:{wrong.port}=127.0.0.1 open", f"api.test:{gone.port}=127.0.0.1 open", f"GET other.test:{p}/allowed=127.0.0.1"]
    cell = bound(home, upstream, "bearer", *[f"--allow={r}" for r in rules])
    cases = {
        "policy": (f"https://other.test:{p}/marker-path", []),
        "misplaced": (f"https://api.test:{p}/marker-path", ["-H", "X-Marker: marker-$TOK"]),
        "certificate": (f"https://api.test:{wrong.port}/marker-path", []),
        "nobody": (f"https://api.test:{gone.port}/marker-path", []),
        "oversize": (f"https://api.test:{p}/oversize/marker-path", []),
        "large": (f"https://api.test:{p}/marker-path", ["-H", "X-Large: marker-" + "a" * 70000]),
        "host": (f"https://api.test:{p}/marker-path", ["-H", "Host: marker.test"]),
    }
    try:
        for name, (url, args) in cases.items():
            seen = []
            for who in ("1", "2"):
                status, body, r = curl(cell, url.replace("marker", f"marker{who}"), "-H", f"X-Who: marker{who}", *[a.replace("marker", f"marker{who}") for a in args])
                assert status[0] in "045", (name, status)
                assert "marker" not in body and VALUE not in body and "skep_TOK" not in body, (name, body)
                if body:
                    assert REFUSED.match(body), (name, body)
                seen.append((status, re.sub(r"\b[0-9a-f]{4,}\b|#\d+|\d+", "N", body)))
            assert seen[0] == seen[1], (name, seen)
    finally:
        wrong.close()


# -- T-055 -------------------------------------------------------------------------------------------------------------
def test_no_key_inside(home, upstream):
    cell = bound(home, upstream)
    curl(cell, f"https://api.test:{upstream.port}/", "-H", "Authorization: Bearer $TOK")
    r = sh(cell, f"""
        ls -d {home.skep_home} {home.skep_home}/state.db {home.skep_home}/secret.key 2>/dev/null
        grep -rlsE 'PRIVATE KEY' /.skep /run /tmp /etc/ssl /dev/shm 2>/dev/null
        for c in /proc/[0-9]*/comm; do grep -x 'skep-gate\\|skepd' $c; done
        openssl x509 -in /.skep/ca.pem -noout -text""")
    assert "PRIVATE" not in r.out and "/.skep/" not in r.out and "skep-gate" not in r.out.split("Certificate:")[0] and home.skep_home not in r.out, r.out
    assert "CA:TRUE" in r.out  # the certificate itself is there
    assert sh(cell, "echo x >> /.skep/ca.pem").rc != 0
    # the control: from outside they are there
    assert os.path.exists(f"{home.skep_home}/secret.key") and cell.gate()


def test_the_gate_can_not_be_looked_into(home, upstream):
    cell = bound(home, upstream)
    curl(cell, f"https://api.test:{upstream.port}/", "-H", "Authorization: Bearer $TOK")
    gate = cell.gate()[0]
    with open(f"/proc/{gate}/limits", encoding="ascii") as f:
        assert re.search(r"Max core file size +0 +0 ", f.read())
    with open(f"/proc/{gate}/status", encoding="ascii") as f:
        status = f.read()
    assert re.search(r"^NoNewPrivs:\t1$", status, re.M) and re.search(r"^Seccomp:\t2$", status, re.M) and re.search(r"^CapEff:\t0+$", status, re.M)
    uid = int(re.search(r"^Uid:\t(\d+)", status, re.M)[1])
    # It is nobody: another user than the caller, so that no other process of his can signal or trace it in passing. (Its
    # owner, who could read the sealed values as well, has power over his own user namespace: docs/gate.md.)
    assert uid != os.getuid()
    if IS_ROOT:
        # the same nobody's other processes: the control can be looked into, the gate can not
        def can_read(pid, f):
            return subprocess.run(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "head", "-c", "1", f"/proc/{pid}/{f}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0

        other = subprocess.Popen(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "sleep", "60"])
        try:
            wait_for(lambda: can_read(other.pid, "environ"), why="the control")
            for f in ("environ", "maps", "mem", "auxv"):
                assert not can_read(gate, f), f
        finally:
            other.kill()
            other.wait()


def test_a_killed_gate_fails_closed(home, upstream, tmp_path):
    url = f"https://api.test:{upstream.port}/"
    auth = ["-H", "Authorization: Bearer $TOK"]
    cell = bound(home, upstream)
    assert curl(cell, url, *auth)[0] == "200"
    for i in range(7):
        gates = cell.gate()
        if not gates:
            break
        start = proc_start(gates[0])
        os.kill(gates[0], signal.SIGSEGV)
        wait_for(lambda: proc_start(gates[0]) != start, why="the gate to end")
        status, body, _ = curl(cell, url, *auth)
        assert status in ("200", "000") and VALUE not in body, (i, status, body)
        assert i > 0 or status == "200"  # once is repaired
    assert not cell.gate()
    assert curl(cell, url, *auth)[0] == "000"
    assert all(r.given == VALUE for r in upstream.requests)
    assert cell.event("denied", what="gate")
    cores = [c for d in (home.top, home.programs, "/var/lib/systemd/coredump") for c in glob.glob(f"{d}/**/core*", recursive=True)]
    assert not [c for c in cores if os.path.isfile(c)]
    # only its own sandbox: another one is served, and this one again after a restart
    assert curl(Cell(home, "--secret", "TOK", "--allow", f"api.test:{upstream.port}=127.0.0.1"), url, *auth)[0] == "200"
    home.skep("stop", cell.id).ok()
    home.skep("start", cell.id).ok()
    assert curl(cell, url, *auth)[0] == "200"


# -- its life ------------------------------------------------------------------------------------------------------------
KEPT = r"""
import http.client, ssl, sys
c = http.client.HTTPSConnection("api.test", int(sys.argv[1]), timeout=20)
for line in sys.stdin:
    try:
        c.request("GET", "/ok", headers={"Authorization": "Bearer " + sys.argv[2]})
        r = c.getresponse(); r.read()
        print(r.status, flush=True)
    except Exception as e:
        print(type(e).__name__, flush=True)
        c.auto_open = 0
"""


@pytest.mark.parametrize("change", ["none", "rm", "set", "policy"])
def test_revocation_is_immediate(home, upstream, change):
    """On a connection that stays open; without a change it goes on working."""
    cell = bound(home, upstream)
    p = home.popen("exec", "-i", cell.id, "--", PYTHON, "-I", "-c", KEPT, str(upstream.port), placeholder(cell), stdin=subprocess.PIPE)
    try:
        def ask():
            p.stdin.write(b"\n")
            return p.stdout.readline().decode().strip()

        assert ask() == "200" and ask() == "200"
        assert [r.given for r in upstream.requests] == [VALUE, VALUE]
        if change == "rm":
            home.skep("secret", "rm", "TOK").ok()
        elif change == "set":
            set_secret(home, "TOK", "another-value-1234", f"api.test:{upstream.port}", "bearer").ok()
        elif change == "policy":
            home.skep("policy", "set", cell.id, "--deny", f"api.test:{upstream.port}").ok()
        said = ask()
        given = [r.given for r in upstream.requests[2:]]
        if change == "none":
            assert said == "200" and given == [VALUE]
        else:
            assert VALUE not in given and placeholder(cell) not in given, given
            if change == "set":
                curl(cell, f"https://api.test:{upstream.port}/", "-H", f"Authorization: Bearer {placeholder(cell)}")
                assert upstream.requests[-1].given == "another-value-1234"
            else:
                assert said != "200" and not given
    finally:
        p.stdin.close()
        p.wait(20)
        p.stdout.close()
        p.stderr.close()


def test_survives_stop_pause_and_skepd(home, upstream):
    url = f"https://api.test:{upstream.port}/"
    cell = bound(home, upstream)
    mark = placeholder(cell)

    def works():
        before = len(upstream.requests)
        assert placeholder(cell) == mark
        assert curl(cell, url, "-H", "Authorization: Bearer $TOK")[0] == "200"
        assert [r.given for r in upstream.requests[before:]] == [VALUE]

    works()
    home.skep("pause", cell.id).ok()
    home.skep("resume", cell.id).ok()
    works()
    home.skep("stop", cell.id).ok()
    home.skep("start", cell.id).ok()
    works()
    home.kill_skepd()
    works()
    # and what is revoked while nobody runs stays revoked
    home.kill_skepd()
    home.skep("secret", "rm", "TOK").ok()
    assert curl(cell, url, "-H", f"Authorization: Bearer {mark}")[0] != "200"
    assert len(upstream.seen(VALUE)) == 4


def test_a_secret_that_is_not_there(home):
    home.skep("run", "--empty", "--secret", "NONE", "--", "true").fails(125, "NONE")
    home.skep("secret", "set", "TOK", "--as", "bearer", stdin=b"x").fails(2, "--host")
    home.skep("secret", "set", "TOK", "--host", "127.0.0.1", "--as", "bearer", stdin=VALUE.encode()).fails(2, "127.0.0.1")
    home.skep("secret", "set", "TOK", "--host", "api.test", "--as", "bearer", stdin=b"").fails(2, "empty")


# -- the places ------------------------------------------------------------------------------------------------------------
PLACES = {
    "bearer": (["-H", "Authorization: Bearer $TOK"], lambda r: r.authorization == f"Bearer {VALUE}"),
    "header:X-Api-Key": (["-H", "X-Api-Key: $TOK"], lambda r: r.field("x-api-key") == [VALUE]),
    "basic": (["-u", "me:$TOK"], lambda r: r.authorization == "Basic " + base64.b64encode(f"me:{VALUE}".encode()).decode()),
    "query:key": (["-G", "--data-urlencode", "key=$TOK"], lambda r: r.query.get("key") == VALUE),
    "git": (["-u", "x:$TOK"], lambda r: r.given == VALUE),
    "set:X-Tok": (["-H", "x-tok: mine", "-H", "Authorization: own"], lambda r: r.field("x-tok") == [VALUE] and r.authorization == "own"),
    "file": (["-H", "Authorization: token $TOK"], lambda r: r.authorization == f"token {VALUE}"),
}


@pytest.mark.parametrize("how", PLACES)
def test_each_place(home, upstream, how):
    cell = bound(home, upstream, how)
    args, arrived = PLACES[how]
    status, _, r = curl(cell, f"https://api.test:{upstream.port}/ok", *args)
    assert status == "200" and arrived(upstream.requests[-1]), (r.err, upstream.requests[-1].all)
    assert cell.event("secret.used")["place"] == how
    # without a placeholder: added where the place says so, and nothing but the secret ever
    curl(cell, f"https://api.test:{upstream.port}/ok")
    assert (VALUE in upstream.requests[-1].all) == (how in ("bearer", "header:X-Api-Key", "set:X-Tok")), upstream.requests[-1].all


class GitUpstream(Upstream):
    """A repository over smart HTTP that wants a password."""

    root = None

    def on_ok(self, c, r):
        if r.given != VALUE:
            self.answer(c, b"", 'WWW-Authenticate: Basic realm="git"', status="401 Unauthorized")
            return
        url = urllib.parse.urlsplit(r.target)
        env = {"GIT_PROJECT_ROOT": self.root, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": url.path, "QUERY_STRING": url.query, "REQUEST_METHOD": r.method, "REMOTE_USER": "x",
               "CONTENT_TYPE": (r.field("content-type") or [""])[0], "CONTENT_LENGTH": str(len(r.body)), "PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null",
               "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
        out = subprocess.run(["git", "http-backend"], input=r.body, env=env, stdout=subprocess.PIPE, check=True).stdout
        head, _, body = out.partition(b"\r\n\r\n")
        fields = [x for x in head.decode().split("\r\n") if not x.startswith("Status:")]
        self.answer(c, body, *fields)


def test_git_clone(home, project, authority):
    believe(home, authority.pem)
    up = GitUpstream(authority.context())
    up.root = os.path.dirname(project)
    try:
        cell = bound(home, up, "git")
        r = sh(cell, f'GIT_TERMINAL_PROMPT=0 git clone -q "https://x:$TOK@api.test:{up.port}/{os.path.basename(project)}/.git" /tmp/clone && cat /tmp/clone/README')
        assert r.out == "a small project\n", r.err
        assert up.seen(VALUE) and not up.seen(placeholder(cell))
        assert VALUE not in sh(cell, "cat /tmp/clone/.git/config").ok().out
        # and with nothing in the address: git asks the helper that came with the secret
        r = sh(cell, f'GIT_TERMINAL_PROMPT=0 git clone -q "https://api.test:{up.port}/{os.path.basename(project)}/.git" /tmp/again && cat /tmp/again/README')
        assert r.out == "a small project\n", r.err
    finally:
        up.close()


def test_many_requests_at_once(home, upstream):
    """Every one of them has the value, and none has another's place."""
    cell = bound(home, upstream)
    urls = " ".join(f"https://api.test:{upstream.port}/echo?n={i}" for i in range(40))
    r = sh(cell, f'curl -sS -Z -m 30 -H "Authorization: Bearer $TOK" {urls}').ok()
    assert r.out.count(placeholder(cell)) == 80 and VALUE not in r.out
    assert sorted(int(q.query["n"]) for q in upstream.requests) == list(range(40)) and all(q.given == VALUE for q in upstream.requests)


# -- tools ------------------------------------------------------------------------------------------------------------------
def test_every_tool_believes_the_gate(home):
    """doctor --tls, which leaves nothing behind: no daemon, no directory."""
    tmp, mine = f"{home.top}/t", f"{home.user_home}/.local/bin"
    os.mkdir(tmp)
    # uv is no package of Debian's: as its users have it, in their own home
    subprocess.run([PYTHON, "-m", "pip", "install", "-q", "--no-deps", "--no-cache-dir", "--target", f"{home.top}/uv", "uv"], check=True)
    os.makedirs(mine)
    shutil.copy(f"{home.top}/uv/bin/uv", f"{mine}/uv")
    r = home.skep("doctor", "--tls", "--json", env={"TMPDIR": tmp, "PATH": f"{mine}:{os.environ['PATH']}"}, timeout=120)
    rows = {t["tool"]: t for t in json.loads(r.out)["tools"]}
    assert [t for t, row in rows.items() if row["installed"] and not row["trusted"]] == [] and r.rc == 0, r.out
    for tool in ("curl", "git", "python", "openssl", "node", "npm", "ruby", "uv", "chromium"):
        assert rows[tool]["installed"], tool
    assert os.listdir(tmp) == []


def test_a_tool_without_the_certificate_does_not_believe_it(home, upstream):
    """The control: what doctor counts on, that a tool ends before it asks."""
    cell = Cell(home, "--allow", f"api.test:{upstream.port}=127.0.0.1 open")
    url = f"https://api.test:{upstream.port}/"
    assert curl(cell, url)[0] == "200" and len(upstream.requests) == 1
    r = sh(cell, f"env -i PATH=$PATH curl -sS --cacert /dev/null --capath /nowhere {url}; wget -qO- --ca-certificate=/dev/null --ca-directory=/nowhere {url}")
    assert r.rc != 0 and len(upstream.requests) == 1, r.err


def test_a_secret_is_removed_while_cells_end(home, skep):
    """A cell that has just ended knows nothing any more: that is no failure to tell it."""
    for _ in range(8):
        home.skep("secret", "set", "BRIEF", "--host", "api.example.org", "--as", "bearer", stdin=b"value").ok()
        skep("run", "--secret", "BRIEF", "--", "true").ok()
        skep("secret", "rm", "BRIEF").ok()
