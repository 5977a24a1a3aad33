# SPDX-License-Identifier: Apache-2.0
"""The API over TCP: who gets in, what a token may, what is refused before anybody looks at it."""
import json
import os
import re
import socket
import sqlite3
import stat
import subprocess

import pytest

from kit import HELD, IS_ROOT, wait_for
from tcp_kit import Caller, serving, token

ORDER = ["open", "read", "run", "review", "admin", "local"]
UNAUTHORIZED = {"error": {"kind": "denied", "message": "a valid token is needed",
                          "hint": "make a token with `skep token new` and send it as Authorization: Bearer TOKEN"}}


def listening(port):
    """Addresses with a listener on that port, as the kernel tells."""
    found = []
    for name in ("tcp", "tcp6"):
        with open(f"/proc/net/{name}", encoding="ascii") as f:
            for row in f.readlines()[1:]:
                local, state = row.split()[1], row.split()[3]
                if state == "0A" and int(local.split(":")[1], 16) == port:
                    found.append(local.split(":")[0])
    return found


def routes(admin):
    """Every (method, path, scope) there is, with an id that nothing has in its place."""
    doc = admin("GET", "/v1/openapi.json")[1]
    for path, ops in doc["paths"].items():
        for method, op in ops.items():
            yield method.upper(), re.sub(r"\{[a-z0-9]*\}", "nothing", path), op["x-skep-scope"]


# -- T-075, T-077 -----------------------------------------------------------------------------------------------------
def test_every_route_needs_its_token(home):
    tokens = {s: token(home, "--scope", s) for s in ORDER[1:5]}
    sid = home.new("--empty")
    own = home.api("GET", f"/v1/sandboxes/{sid}/token")[1]["token"]
    with serving(home) as port:
        nobody, wrong, admin = Caller(port), Caller(port, "skep_" + "0" * 64), Caller(port, tokens["admin"])
        seen = 0
        for method, path, scope in routes(admin):
            body = {} if method == "POST" else None
            for c in (nobody, wrong, Caller(port, "rubbish"), Caller(port, tokens["run"][:-1])):
                assert c(method, path, body) == (401, UNAUTHORIZED if method != "HEAD" else None), (method, path)
            for name, text in tokens.items():
                if ORDER.index(name) < ORDER.index(scope):
                    status, reply = Caller(port, text)(method, path, body)
                    assert status == 403 and (method == "HEAD" or reply["error"]["kind"] == "denied"), (method, path, name)
            if scope == "local" or (scope in ("review", "admin")):
                assert Caller(port, own)(method, path, body)[0] == 403, (method, path)
            seen += 1
        assert seen > 50
        assert nobody("GET", "/nothing") == (401, UNAUTHORIZED)
        assert admin("GET", "/nothing")[0] == 404
        assert Caller(port, tokens["read"])("GET", "/v1/sandboxes")[0] == 200


@pytest.mark.parametrize("method,path", [("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/sandboxes"), ("POST", "/sandboxes"), ("GET", "/v2/sandboxes"),
                                         ("DELETE", "/sandboxes/nothing"), ("GET", "/templates"), ("POST", "/sandboxes/nothing/pause"), ("GET", "/teams")])
def test_other_surfaces_need_a_token(home, method, path):
    read = token(home, "--scope", "read")
    with serving(home) as port:
        body = {} if method == "POST" else None
        for c in (Caller(port), Caller(port, "skep_" + "0" * 64), Caller(port, "e2b_" + "0" * 64)):
            assert c(method, path, body)[0] == 401
            assert c(method, path, body, {"X-API-KEY": "e2b_" + "1" * 64})[0] == 401
        for headers in ({"Host": "evil.test"}, {"Origin": "http://evil.test"}, {"Origin": "null"}):
            assert Caller(port, read)(method, path, body, headers)[0] == 403
        if method in ("POST", "DELETE") and path.startswith("/sandboxes"):
            assert Caller(port, read)(method, path, body)[0] == 403


def test_token_forms(home):
    t = token(home, "--scope", "read", "--name", "mine")
    assert re.match(r"^skep_[0-9a-f]{64}$", t)
    with serving(home) as port:
        nobody = Caller(port)
        for headers in ({"Authorization": f"Bearer {t}"}, {"Authorization": f"bearer {t}"}, {"X-API-KEY": "e2b_" + t[5:]}, {"X-API-KEY": t}):
            assert nobody("GET", "/v1/version", headers=headers)[0] == 200, headers
        assert nobody("GET", f"/v1/version?token={t}")[0] == 401
        assert nobody("GET", "/v1/version", headers={"Authorization": f"Basic {t}"})[0] == 401
        assert nobody("GET", "/v1/version", headers={"Authorization": f"Bearer {t.upper()}"})[0] == 401
        rows = home.skep("token", "ls", "--json").json()["tokens"]
        assert [r["name"] for r in rows] == ["mine"] and rows[0]["used"] and "token" not in rows[0]
        home.skep("token", "new", "--name", "mine").fails(4, "mine")
        home.skep("token", "rm", "mine").ok()
        assert nobody("GET", "/v1/version", headers={"Authorization": f"Bearer {t}"})[0] == 401
        home.skep("token", "rm", "mine").fails(3, "mine")
        short = token(home, "--ttl", "500ms")
        wait_for(lambda: Caller(port, short)("GET", "/v1/version")[0] == 401, why="the token to end")


def test_tokens_are_kept_as_hashes(home):
    t = token(home)
    home.api("POST", "/v1/shutdown", {})
    wait_for(lambda: home.skepd_pid() is None, why="skepd to end")
    looked = 0
    for d, _, files in os.walk(home.skep_home):
        for f in files:
            path = os.path.join(d, f)
            try:
                with open(path, "rb") as fd:
                    assert t[5:].encode() not in fd.read(), path
                looked += 1
            except OSError:  # a socket, or a blank that is cleared away behind skepd
                continue
    assert looked >= 2  # the state and the log
    home.skep("ps").ok()
    with serving(home) as port:  # and it lives on
        assert Caller(port, t)("GET", "/v1/version")[0] == 200


def test_no_answer_is_guessed_at(home):
    """A browser takes no answer for a page, whatever is in it."""
    mine = token(home)
    with serving(home) as port:
        c = Caller(port, mine)
        for method, path, body in (("GET", "/v1/version", None), ("GET", "/v1/sandboxes", None), ("GET", "/v1/nothing", None), ("POST", "/v1/sandboxes", b"x"),
                                   ("GET", "/v1/openapi.json", None), ("POST", "/mcp", b"{}"), ("GET", "/sandboxes", None), ("GET", "/journal", None)):
            assert c.raw(method, path, body)[1].get("X-Content-Type-Options") == "nosniff", path
        assert Caller(port).raw("GET", "/v1/version")[1].get("X-Content-Type-Options") == "nosniff"


def test_secrets_are_the_admins(home):
    """Also their names and hosts."""
    home.skep("secret", "set", "TOKEN", "--host", "inside.test", "--as", "bearer", stdin=b"value").ok()
    a = home.new("--empty")
    scopes = ("read", "run", "review")
    tokens = [token(home, "--scope", s) for s in scopes] + [token(home, "--scope", s, "--on", a) for s in scopes]
    admin = token(home, "--scope", "admin")
    with serving(home) as port:
        for t in tokens:
            for path in ("/v1/secrets", "/v1/policy", f"/v1/sandboxes/{a}/policy", f"/v1/sandboxes/{a}", f"/v1/sandboxes/{a}/journal"):
                assert b"inside.test" not in Caller(port, t).raw("GET", path)[2], path
        status, answer = Caller(port, admin)("GET", "/v1/secrets")
        assert status == 200 and [s["name"] for s in answer["secrets"]] == ["TOKEN"]


def test_token_on_some_sandboxes(home):
    a, b = home.new("--empty", "--label", "team=red", "--name", "ours"), home.new("--empty", "--label", "team=blue", "--name", "theirs")
    xb = home.skep("exec", "-d", b, "--", "true").ok().line
    nb = home.skep("snapshot", b, "moment").ok() and home.skep("snapshots", b, "--json").json()["snapshots"][0]["id"]
    red, one = token(home, "--scope", "admin", "--on", "label=team=red"), token(home, "--on", a)
    own = home.api("GET", f"/v1/sandboxes/{a}/token")[1]
    assert own["scope"] == "run" and home.api("GET", f"/v1/sandboxes/{a}/token")[1] == own
    home.skep("token", "new", "--on", "nothing").fails(3, "nothing")
    with serving(home) as port:
        for t in (red, one, own["token"], "e2b_" + own["token"][5:]):
            c = Caller(port, t)
            assert [s["id"] for s in c("GET", "/v1/sandboxes")[1]["sandboxes"]] == [a]
            assert c("GET", f"/v1/sandboxes/{a}")[0] == 200 and c("GET", "/v1/sandboxes/ours")[0] == 200
            for path in (f"/v1/sandboxes/{b}", "/v1/sandboxes/theirs", f"/v1/sandboxes/{b[:8]}", f"/v1/sandboxes/{b}/journal", f"/v1/sandboxes/{b}/events",
                         f"/v1/sandboxes/{b}/token", f"/v1/execs/{xb}", f"/v1/execs/{xb}/output", f"/v1/snapshots/{nb}", "/v1/secrets", "/v1/policy"):
                assert c("GET", path)[0] == 403, path
            assert all(x["sandbox"] == a for x in c("GET", "/v1/execs")[1]["execs"]) and c("GET", "/v1/snapshots")[1]["snapshots"] == []
            assert c("POST", f"/v1/sandboxes/{b}/execs", {"argv": ["true"], "detach": True})[0] == 403
            assert c("POST", f"/v1/sandboxes/{a}/fork", {"snapshot": nb})[0] == 403
            assert c("DELETE", f"/v1/snapshots/{nb}")[0] == 403 and c("POST", "/v1/gc", {})[0] == 403
            assert c("POST", f"/v1/sandboxes/{a}/execs", {"argv": ["true"], "detach": True})[0] == 201
            wait_for(lambda c=c: all(x["state"] == "exited" for x in c("GET", "/v1/execs")[1]["execs"]), why="it to end")
            home.skep("stop", a).ok()
            assert {x["sandbox"] for x in c("GET", "/v1/execs")[1]["execs"]} == {a}
        # who has a label makes sandboxes with it; who has one sandbox makes none
        made = Caller(port, red)("POST", "/v1/sandboxes", {"labels": {"x": "y"}})
        assert made[0] == 201 and made[1]["labels"] == {"x": "y", "team": "red"}
        assert Caller(port, red)("POST", "/v1/sandboxes", {"from": nb})[0] == 403
        home.skep("new", "--empty", "--context", "k", "--label", "team=blue").ok()
        assert Caller(port, red)("POST", "/v1/sandboxes", {"context": "k"})[0] == 403
        for t in (one, own["token"]):
            assert Caller(port, t)("POST", "/v1/sandboxes", {})[0] == 403
            assert Caller(port, t)("POST", f"/v1/sandboxes/{a}/fork", {})[0] == 403
        home.skep("rm", "--force", a).ok()
        assert Caller(port, own["token"])("GET", "/v1/version")[0] == 401


# -- T-078 ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("field,value,scope", [
    ("mounts", [{"src": "/etc"}], "admin"), ("alternates", ["/etc"], "admin"), ("cwd", "/etc", "admin"), ("repo", "/etc", "admin"), ("repo", "file:///etc", "admin"),
    ("repo", "git@example.test:x/y", "admin"), ("repo", "ssh://example.test/x", "admin"), ("nested", True, "admin"),
    ("secrets", ["A"], "admin"), ("expose_host", ["80"], "admin"), ("net", "open", "review"), ("allow", ["a.test"], "review"),
    ("ask", True, "review"), ("git_env", ["GIT_SSH_COMMAND=touch /tmp/x"], "local"), ("caller_path", "/root/bin", "local"),
    ("cache_env", ["CARGO_HOME=/root"], "local"),
])
def test_fields_that_reach_out(home, field, value, scope):
    tokens = {s: token(home, "--scope", s) for s in ORDER[2:5]}
    with serving(home) as port:
        for name, text in tokens.items():
            status, reply = Caller(port, text)("POST", "/v1/sandboxes", {field: value})
            if ORDER.index(name) < ORDER.index(scope):
                assert status == 403 and field in reply["error"]["message"], (name, reply)
            else:
                assert status != 403 or field not in reply["error"]["message"], (name, reply)
        status, reply = Caller(port, tokens["run"])("POST", "/v1/sandboxes", {"no_sandbox": True})
        assert status == 400
    assert home.skep("rm", "--all", "--force").rc in (0, 3)


def test_apply_elsewhere_is_for_admins(home, project):
    sid = home.new()
    home.skep("exec", sid, "--", "sh", "-c", "echo x > new").ok()
    review, run = token(home, "--scope", "review"), token(home, "--scope", "run")
    with serving(home) as port:
        body = {"set": {"all": True}, "digest": "0", "to": "/tmp"}
        status, reply = Caller(port, review)("POST", f"/v1/sandboxes/{sid}/apply", body)
        assert status == 403 and '"to"' in reply["error"]["message"]
        assert Caller(port, run)("POST", f"/v1/sandboxes/{sid}/apply", body)[0] == 403
    assert not os.path.exists(f"{home.dir}/new")


# -- T-076 ------------------------------------------------------------------------------------------------------------
def test_host_and_origin(home):
    t = token(home)
    with serving(home, "--public-url", "https://skep.example") as port:
        c = Caller(port, t)
        for host in ("evil.test", "evil.test:80", f"127.0.0.1.evil.test:{port}", "localhost.evil.test", "10.0.0.1", ""):
            assert c("GET", "/v1/version", headers={"Host": host})[0] == 403, host
            assert c("GET", "/nothing", headers={"Host": host})[0] == 403, host
        for host in (f"localhost:{port}", "localhost", "127.0.0.1", "[::1]:1", "LOCALHOST", "x.localhost", "skep.example", "SKEP.example:443", "a.skep.example"):
            assert c("GET", "/v1/version", headers={"Host": host})[0] == 200, host
        for origin in ("http://evil.test", "null", "", "http://3000-x.localhost", f"http://localhost:{port}.evil.test", "file://", "https://skep.example"):
            assert c("GET", "/v1/version", headers={"Origin": origin})[0] == 403, origin
        assert c("GET", "/v1/version", headers={"Origin": f"http://127.0.0.1:{port}"})[0] == 200
        assert c("GET", "/v1/version", headers={"Origin": "https://skep.example", "Host": "skep.example"})[0] == 200
        head = f"GET /v1/version HTTP/1.1\r\nAuthorization: Bearer {t}\r\n"
        for lines, wanted in (("", (400, 403)), ("Host: localhost\r\nHost: evil.test\r\n", (400,)), ("Host: localhost\r\n", (200,))):
            with c.connect(f"{head}{lines}Connection: close\r\n\r\n".encode()) as s:
                assert int(s.makefile("rb").readline().split()[1]) in wanted, lines
        with c.connect(f"GET /v1/version HTTP/1.0\r\nAuthorization: Bearer {t}\r\n\r\n".encode()) as s:
            assert int(s.makefile("rb").readline().split()[1]) in (400, 403)
        # what the first request of a connection passed the next one does not inherit
        with c.connect(f"{head}Host: localhost\r\n\r\n".encode()) as s:
            f = s.makefile("rb")
            assert b" 200 " in f.readline()
            s.sendall(f"{head}Host: evil.test\r\nConnection: close\r\n\r\n".encode())
            assert b" 403 " in f.read()
        status, headers, _ = c.raw("GET", "/v1/version")
        assert status == 200 and not any(h.lower().startswith("access-control") for h in headers)
        assert c.raw("OPTIONS", "/v1/sandboxes", headers={"Origin": "http://evil.test", "Access-Control-Request-Method": "POST"})[0] == 403


def test_insecure_loopback(home):
    home.skep("serve", "--listen", "127.0.0.1:0").fails(5, "skep token new")
    home.skep("serve", "--insecure-loopback", "--listen", "0.0.0.0:0").fails(5, "loopback")
    with serving(home, "--insecure-loopback") as port:
        c = Caller(port)
        assert c("POST", "/v1/sandboxes", {"empty": True})[0] == 201
        assert c("POST", "/v1/shutdown", {})[0] == 403
        assert c("GET", "/v1/version", headers={"Host": "evil.test"})[0] == 403
        assert c("POST", "/v1/sandboxes", {}, headers={"Origin": "http://evil.test"})[0] == 403
        # a page's form can send this without asking first
        assert c("POST", "/v1/sandboxes", b'{"empty":true}', headers={"Content-Type": "text/plain"})[0] == 415
        assert Caller(port, "skep_" + "0" * 64)("GET", "/v1/version")[0] == 401
        home.skep("rm", "--all").ok()


# -- T-081 ------------------------------------------------------------------------------------------------------------
def test_bind_and_permissions(home):
    home.skep("ps").ok()
    token(home)
    pid = home.skepd_pid()
    own = [x for x in subprocess.run(["ss", "-Hltnp"], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines() if f"pid={pid}," in x]
    assert own == []
    sock = f"{home.skep_home}/run/skepd.sock"
    assert stat.S_IMODE(os.stat(sock).st_mode) == 0o600 and stat.S_IMODE(os.stat(home.skep_home).st_mode) == 0o700
    for f in ("state.db",):
        assert stat.S_IMODE(os.stat(f"{home.skep_home}/{f}").st_mode) == 0o600
    with serving(home) as port:
        assert listening(port) == ["0100007F"]
        home.skep("serve", "--listen", f"127.0.0.1:{port}").fails(4, "in use")
    assert listening(port) == []
    home.skep("serve", "--listen", "example.test:1").fails(2, "address")
    home.skep("serve", "--listen", "127.0.0.1").fails(2, "ADDRESS:PORT")
    home.skep("serve", "--listen", "127.0.0.1:0", "--public-url", "ftp://x").fails(2, "public URL")
    if not IS_ROOT:
        home.skep("serve", "--listen", "127.0.0.1:1").fails(5, "denied")


@pytest.mark.root
def test_another_user_can_not_connect(home):
    home.skep("ps").ok()
    os.chmod(home.top, 0o755)
    script = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])"
    p = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", script, f"{home.skep_home}/run/skepd.sock"],
                       stderr=subprocess.PIPE, check=False)
    assert p.returncode and b"PermissionError" in p.stderr


def test_listener_ends_with_who_holds_it(home):
    token(home)
    p = home.popen("serve", "--listen", "127.0.0.1:0")
    port = int(p.stdout.readline().split(b":")[-1])
    assert listening(port)
    p.kill()
    p.communicate()
    wait_for(lambda: not listening(port), why="skepd to notice")
    out = home.skep("serve", "--listen", "127.0.0.1:0", "--detach", "--json").json()
    port = int(out["address"].split(":")[-1])
    assert listening(port) and out["held"] is False
    home.skep("serve", "--stop").ok()
    assert not listening(port)


def test_listens_from_its_start(home):
    os.makedirs(f"{home.user_home}/.config/skep")
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
    s.close()
    with open(f"{home.user_home}/.config/skep/config.yaml", "w", encoding="ascii") as f:
        f.write(f"listen: [\"127.0.0.1:{port}\"]\npublic_url: https://skep.example\n")
    t = token(home)
    assert Caller(port, t)("GET", "/v1/version", headers={"Host": "skep.example"})[0] == 200
    assert Caller(port)("GET", "/v1/version")[0] == 401


# -- T-079, T-080 -------------------------------------------------------------------------------------------------------
def test_ids(home):
    t = token(home, "--scope", "admin")
    sid = home.new("--empty")
    ids = ["..", "../..", "..%2f..%2fetc", "%2e%2e%2f", "'; DROP TABLE sandboxes;--", "%27%20or%201=1", "\"", "%00", f"{sid}%00", "%", "%zz", "%C3%A9",
           "%F0%9F%90%9D", "%ff%fe", "a" * 1000, "A", "-", "*", "?", "x%0d%0aX:1", "%25s%25n"]
    with serving(home) as port:
        c = Caller(port, t)
        for i in ids:
            i = i.replace(" ", "%20")
            for method, path in (("GET", "/v1/sandboxes/{}"), ("DELETE", "/v1/sandboxes/{}"), ("GET", "/v1/execs/{}/output"), ("GET", "/v1/snapshots/{}"),
                                 ("DELETE", "/v1/secrets/{}"), ("DELETE", "/v1/tokens/{}"), ("GET", "/v1/sandboxes/{}/journal")):
                status, _, data = c.raw(method, path.format(i))
                assert status in (400, 404) or (status == 409 and i == "-"), (i, path, status, data)
        # longer than any head may be
        with c.connect() as s:
            try:
                s.sendall(b"GET /v1/sandboxes/" + b"a" * (1 << 20))
                assert s.makefile("rb").readline() in (b"", b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
            except ConnectionError:  # it does not read to the end
                pass
        assert [x["id"] for x in c("GET", "/v1/sandboxes")[1]["sandboxes"]] == [sid]
    home.skep("rm", sid).ok()
    home.api("POST", "/v1/shutdown", {})
    wait_for(lambda: home.skepd_pid() is None, why="skepd to end")
    db = sqlite3.connect(f"{home.skep_home}/state.db")
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


def rss(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))


def test_bodies(home):
    t = token(home)
    with serving(home) as port:
        c = Caller(port, t)
        pid = home.skepd_pid()
        json_type = {"Content-Type": "application/json"}
        before = rss(pid)
        for body, wanted in ((b"[" * 100000 + b"]" * 100000, 400), (b'{"a":' * 100000 + b"1" + b"}" * 100000, 400), (b'{"name":"a","name":"b"}', 400),
                             (b'{"name":"\xff"}', 400), (b'{"name":"\\ud800"}', 400), (b'{"ttl_ms":1e999}', 400), (b'{"ttl_ms":' + b"9" * 5000 + b"}", 400),
                             (b"[]", 400), (b"null", 400), (b"", 201), (b"{", 400), (b'{"name":"a\\u0000b"}', 400)):
            status, _, data = c.raw("POST", "/v1/sandboxes", body, json_type)
            assert status == wanted, (body[:40], data)
        big = {"name": "x" * (9 << 20)}
        assert c("POST", "/v1/sandboxes", big)[0] == 413
        # 100 MiB, announced and not: the first is refused by its head, the second when it is too long
        with c.connect(f"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {t}\r\nContent-Type: application/json\r\n"
                       f"Expect: 100-continue\r\nContent-Length: {100 << 20}\r\n\r\n".encode()) as s:
            line = s.makefile("rb").readline()
            assert b" 413 " in line or b" 100 " in line
        with c.connect(f"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {t}\r\nContent-Type: application/json\r\n"
                       "Transfer-Encoding: chunked\r\n\r\n".encode()) as s:
            piece = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
            for _ in range(100):
                s.sendall(piece)
            s.sendall(b"0\r\n\r\n")
            assert b" 413 " in s.makefile("rb").readline()
        if IS_ROOT:
            assert rss(pid) - before < (128 << 10) + (HELD >> 10)
        for junk in (b"\x16\x03\x01\x02\x00" * 20 + b"\r\n\r\n", b"GET  / HTTP/1.1\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n\r\n\r\n",
                     b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                     b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"):
            with c.connect(junk) as s:
                assert b" 400 " in s.makefile("rb").readline(), junk
        assert c("GET", "/v1/version")[0] == 200
        home.skep("rm", "--all").ok()


# -- rates ------------------------------------------------------------------------------------------------------------
def test_rate_of_a_token(home):
    slow, other = token(home, "--rate", "1"), token(home)
    with serving(home) as port:
        c = Caller(port, slow)
        got = [c.raw("GET", "/v1/version") for _ in range(20)]
        refused = [h for s, h, _ in got if s == 429]
        assert got[0][0] == 200 and refused and all(int(h["Retry-After"]) >= 1 for h in refused)
        assert Caller(port, other)("GET", "/v1/version")[0] == 200


# -- another machine --------------------------------------------------------------------------------------------------
def test_command_line_from_elsewhere(home):
    t, small = token(home, "--scope", "run"), token(home, "--scope", "read")
    with serving(home) as port:
        there = {"SKEP_HOST": f"http://127.0.0.1:{port}", "SKEP_TOKEN": t, "SKEP_HOME": f"{home.top}/none"}
        sid = home.skep("new", "--empty", "--name", "far", env=there).ok().line
        assert home.skep("ps", "--json", env=there).json()["sandboxes"][0]["id"] == sid
        assert home.skep("show", "far", "--json", env=there).json()["id"] == sid
        home.skep("snapshot", "far", "m", env=there).ok()
        home.skep("stop", "far", env={**there, "SKEP_TOKEN": small}).fails(5, "scope run")
        home.skep("new", env=there).fails(2, "--repo URL")
        home.skep("ps", env={**there, "SKEP_TOKEN": ""}).fails(5, "SKEP_TOKEN")
        home.skep("ps", env={**there, "SKEP_TOKEN": "abc"}).fails(2, "SKEP_TOKEN")
        home.skep("rm", "far", env=there).ok()
        assert not os.path.exists(f"{home.top}/none")
    home.skep("ps", env={**there, "SKEP_HOST": f"http://127.0.0.1:{port}"}).fails(8, "skep serve")
    home.skep("ps", env={**there, "SKEP_HOST": "http://127.0.0.1:70000"}).fails(2, "port")
    home.skep("ps", env={**there, "SKEP_HOST": "http://"}).fails(2, "https://HOST")
    home.skep("ps", env={**there, "SKEP_HOST": "gopher://x"}).fails(9, "http://")
    home.skep("serve", env=there).fails(9, "SKEP_HOST")


def test_version_document(home):
    t = token(home, "--scope", "read")
    with serving(home) as port:
        status, headers, data = Caller(port, t).raw("GET", "/v1/openapi.json")
        assert status == 200 and headers["Content-Type"] == "application/json" and headers["Cache-Control"] == "no-store"
        assert json.loads(data)["openapi"] == "3.1.0"
