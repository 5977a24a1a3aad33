# SPDX-License-Identifier: Apache-2.0
"""Whoever has a token, or none, tries everything else: every route with every kind of token, other people's sandboxes under each of
their names, requests that two readers would read in two ways."""
import http.server
import itertools
import json
import re
import socket
import threading

import pytest

from kit import World, wait_for
from preview_kit import Client, cookie, end, host, serve
from stream_kit import Files, WebSocket
from tcp_kit import Caller, Stream, serving, token

ORDER = ["open", "read", "run", "review", "admin", "local"]


class Town:
    """Two sandboxes of two teams, and tokens of every kind."""

    def __init__(self, home, port):
        self.home, self.port = home, port
        self.mine = home.new("--empty", "--label", "team=red", "--name", "mine")
        self.theirs = home.new("--empty", "--label", "team=blue", "--name", "theirs")
        self.execs = {s: home.skep("exec", "-d", s, "--", "true").ok().line for s in (self.mine, self.theirs)}
        for s in (self.mine, self.theirs):
            wait_for(lambda s=s: home.api("GET", f"/v1/execs/{self.execs[s]}")[1]["state"] == "exited", why="it to end")
        self.snapshots = {s: home.api("POST", f"/v1/sandboxes/{s}/snapshots", {"name": "m"})[1]["id"] for s in (self.mine, self.theirs)}
        self.tokens = {(scope, on): token(home, "--scope", scope, "--on", on)
                       for scope, on in itertools.product(ORDER[1:5], ("all", "label=team=red", self.mine))}
        self.tokens["run", "own"] = home.api("GET", f"/v1/sandboxes/{self.mine}/token")[1]["token"]

    def caller(self, key):
        return Caller(self.port, self.tokens[key])

    def state(self):
        """What must be as it was after everything was refused."""
        boxes = [(s["id"], s["name"], s["pinned"], s["labels"], s["state"] * (s["id"] == self.theirs)) for s in self.home.api("GET", "/v1/sandboxes")[1]["sandboxes"]]
        return boxes, self.home.api("GET", "/v1/snapshots")[1], self.home.api("GET", "/v1/policy")[1], self.home.api("GET", "/v1/tokens")[1]["tokens"].__len__()


@pytest.fixture(scope="module")
def town(programs):
    w = World(programs)
    with serving_of(w) as port:
        yield Town(w, port)
    w.close(check=False)


def serving_of(w):
    token(w)
    return serving(w)


def routes(town):
    doc = town.home.api("GET", "/v1/openapi.json")[1]
    for path, ops in doc["paths"].items():
        for method, op in ops.items():
            yield method.upper(), path, op["x-skep-scope"], op["x-skep-filtered"]


def fill(town, path, sandbox, spelling=lambda x: x):
    """The path with what is that sandbox's in its place; None where it names nobody's."""
    kind = re.match(r"/v1/(\w+)/\{", path)
    of = {"sandboxes": sandbox, "execs": town.execs[sandbox], "snapshots": town.snapshots[sandbox]}
    return re.sub(r"\{\w+\}", spelling(of[kind.group(1)]), path) if kind and kind.group(1) in of else None


def status_of(c, method, path):
    """The status alone: what streams is left at once."""
    body = b'{"no such field":1}' if method in ("POST", "PUT") else b""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {c.token}\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n" if body else "\r\n"
    with c.connect(head.encode() + body) as s:
        return int(s.makefile("rb").readline().split()[1])


def test_every_route_with_every_token(town):
    """The verdict follows from the table: the scope first, then whose it is. What is refused changes nothing."""
    before, seen = town.state(), 0
    for (method, path, scope, filtered), key in itertools.product(list(routes(town)), town.tokens):
        c, enough = town.caller(key), ORDER.index(key[0]) >= ORDER.index(scope)
        limited = key[1] != "all"
        theirs, mine = fill(town, path, town.theirs), fill(town, path, town.mine)
        if theirs and (limited or not enough):
            assert status_of(c, method, theirs) == 403, (method, path, key)
        if mine and not enough:
            assert status_of(c, method, mine) == 403, (method, path, key)
        if not mine:
            plain = re.sub(r"\{\w+\}", "nothing", path)
            if not enough or (limited and not filtered):
                assert status_of(c, method, plain) == 403, (method, path, key)
            elif method in ("GET", "POST"):
                assert status_of(c, method, plain) not in (401, 403) or (method, path) == ("POST", "/v1/sandboxes"), (method, path, key)
        elif enough and method in ("GET", "HEAD", "POST"):
            got = status_of(c, method, mine)
            assert got not in (401, 403), (method, path, key, got)
        seen += 1
    assert seen > 900 and town.state() == before


def test_every_spelling_of_somebody_elses(town):
    before = town.state()
    spellings = {"id": str, "prefix": lambda x: x[:8], "shortest": lambda x: x[:4], "escaped": lambda x: "%" + f"{ord(x[0]):02x}" + x[1:]}
    for (name, spelling), key in itertools.product(spellings.items(), [k for k in town.tokens if k[1] != "all"]):
        c = town.caller(key)
        for method, path, scope, _ in routes(town):
            theirs = fill(town, path, town.theirs, spelling)
            if theirs and method in ("GET", "DELETE") and ORDER.index(key[0]) >= ORDER.index(scope):
                got = status_of(c, method, theirs)
                assert got == 403 or (name == "shortest" and got in (400, 404, 409)), (name, method, path, key, got)
        for path in ("/v1/sandboxes/theirs", "/v1/sandboxes/theirs/journal", "/v1/sandboxes/theirs/files?path=/etc/passwd"):
            assert status_of(c, "GET", path) == 403
    assert town.state() == before


E2B = [("GET", ""), ("DELETE", ""), ("POST", "/connect"), ("POST", "/resume"), ("POST", "/pause"), ("POST", "/timeout"), ("POST", "/refreshes"), ("PUT", "/network"),
       ("POST", "/fork"), ("GET", "/metrics"), ("GET", "/logs"), ("POST", "/snapshots")]


def test_somebody_elses_over_the_other_surfaces(town):
    before = town.state()
    for key in [k for k in town.tokens if k[1] != "all"]:
        c = town.caller(key)
        for method, verb in E2B:
            for word in (town.theirs, "theirs", town.theirs[:8]):
                assert status_of(c, method, f"/sandboxes/{word}{verb}") in (403, 404), (method, verb, word, key)
        assert town.theirs not in c.raw("GET", "/sandboxes")[2].decode() + c.raw("GET", "/v2/sandboxes")[2].decode()
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        for tool, arguments in (("run", {"sandbox": town.theirs, "command": "true"}), ("read_file", {"sandbox": "theirs", "path": "/etc/passwd"}),
                                ("delete_sandbox", {"sandbox": town.theirs[:8]}), ("list_sandboxes", {})):
            status, _, data = c.raw("POST", "/mcp", {**call, "params": {"name": tool, "arguments": arguments}},
                                    {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"})
            assert status in (200, 400, 403, 404) and b"root:" not in data and (status != 200 or b'"isError":true' in data or b'"error"' in data or tool == "list_sandboxes"), (
                tool, key, status, data[:300])
            assert tool != "list_sandboxes" or town.theirs.encode() not in data
        # what E2B calls envd, which has a token of its own
        for path in ("/files?path=/etc/passwd", "/process.Process/List", "/filesystem.Filesystem/ListDir"):
            headers = {"Host": f"49983-{town.theirs}.localhost:{town.port}", "X-Access-Token": c.token, "Content-Type": "application/json"}
            assert Caller(town.port).raw("GET" if "files?" in path else "POST", path, None if "files?" in path else b"{}", headers)[0] in (401, 403, 404, 502), (path, key)
    assert town.state() == before


def test_names_that_look_like_ids(town):
    """Nobody becomes somebody else by being called like them."""
    c = town.caller(("admin", "label=team=red"))
    assert c("POST", "/v1/sandboxes", {"name": town.theirs})[0] == 400
    for name in (town.theirs[:8], town.theirs[:15], "x" + town.theirs[1:]):
        status, made = c("POST", "/v1/sandboxes", {"name": name})
        if status != 201:
            assert status in (400, 409)
            continue
        # the id is found by its own name still, and the new one is its maker's
        assert town.home.api("GET", f"/v1/sandboxes/{town.theirs}")[1]["id"] == town.theirs
        assert town.home.api("GET", f"/v1/sandboxes/{name}")[1]["id"] == made["id"]
        assert c("DELETE", f"/v1/sandboxes/{made['id']}")[0] == 204
    for name in ("ünicode", "а-cyrillic", "a b", "a/b", "..", "A", "-x", "", "x" * 41, "a\u202eb", "a\nb"):
        assert c("POST", "/v1/sandboxes", {"name": name})[0] == 400, name


def test_a_label_is_not_borrowed(town):
    """Who has the label team=red can not put something among team=blue's."""
    c = town.caller(("admin", "label=team=red"))
    status, answer = c("POST", "/v1/sandboxes", {"labels": {"team": "blue"}})
    assert status == 403 and "team" in answer["error"]["message"], answer
    status, made = c("POST", "/v1/sandboxes", {"labels": {"team": "red", "a": "ü\u202e"}})
    assert status == 201 and made["labels"] == {"team": "red", "a": "ü\u202e"}
    assert c("DELETE", f"/v1/sandboxes/{made['id']}")[0] == 204
    for bad in ({"a=b": "c"}, {"": "x"}, {"a": 1}, ["a"], {"a": None}):
        assert c("POST", "/v1/sandboxes", {"labels": bad})[0] == 400, bad


def test_events_of_somebody_else(town):
    c = town.caller(("admin", "label=team=red"))
    s = Stream(Caller(town.port, town.tokens["admin", "all"]), "/v1/events")
    town.home.skep("exec", town.theirs, "--", "true").ok()
    last = s.until("exec.start")[-1][0]
    s.close()
    assert town.theirs in last
    town.home.skep("exec", town.theirs, "--", "true").ok()
    mine = Stream(c, "/v1/events", {"Last-Event-ID": last})
    town.home.skep("exec", town.mine, "--", "true").ok()
    assert {e[2]["sandbox"] for e in mine.until("exec.exit")} == {town.mine}
    mine.close()
    for path in (f"/v1/sandboxes/{town.mine}/events", f"/v1/sandboxes/{town.mine}/events?offset=99999999"):
        assert c("GET", path, headers={"Last-Event-ID": last} if "offset" not in path else {})[0] == 400


def test_idempotency_keys_of_somebody_else(town):
    one, other = town.caller(("admin", "all")), town.caller(("run", "label=team=red"))
    body, key = {"empty": True, "labels": {"k": "v"}}, {"Idempotency-Key": "shared"}
    made = [c("POST", "/v1/sandboxes", body, key)[1]["id"] for c in (one, other, one, other)]
    assert made[0] == made[2] and made[1] == made[3] and made[0] != made[1]
    status, local = town.home.api("POST", "/v1/sandboxes", body)
    assert status == 201
    for sid in {*made, local["id"]}:
        town.home.skep("rm", "--force", sid).ok()


def test_websockets_need_what_requests_need(town):
    def shake(path, *headers):
        s = socket.create_connection(("127.0.0.1", town.port), timeout=30)
        try:
            return WebSocket(town.home, path, headers, sock=s).status
        finally:
            s.close()

    path, t = f"/v1/sandboxes/{town.mine}/exec/ws", town.tokens["run", "all"]
    read, foreign = town.tokens["read", "all"], town.tokens["admin", town.mine]
    assert shake(path) == 401 and shake(path, f"Sec-WebSocket-Protocol: {t}") == 401 and shake(path, f"Cookie: token={t}") == 401
    assert shake(f"{path}?token={read}") == 403 and shake(f"/v1/sandboxes/{town.theirs}/exec/ws?token={foreign}") == 403
    assert shake(f"{path}?token={t}", "Origin: http://evil.example") == 403
    assert shake(f"{path}?token={t}", f"Origin: http://3000-{town.mine}.localhost:{town.port}") == 403
    assert shake(f"{path}?token={t}", "Origin: http://localhost") == 101
    assert shake(f"/v1/execs/{town.execs[town.theirs]}/ws?token={foreign}") == 403
    # a channel into a cell, with the ticket of nobody
    with Caller(town.port).connect(f"GET /v1/sandboxes/{town.mine}/cell HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {t}\r\n"
                                   "Connection: Upgrade\r\nUpgrade: skep-cell\r\n\r\n".encode()) as s:
        f = s.makefile("rb")
        assert b" 101 " in f.readline()
        while f.readline().strip():
            pass
        s.sendall(b"\xff" * 64)
        assert f.read() == b""


SMUGGLED = "GET /v1/sandboxes/smuggled HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
TWO_WAYS = {
    "length and chunks": "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "two lengths": "Content-Length: 0\r\nContent-Length: 60\r\n\r\n",
    "a list of lengths": "Content-Length: 0, 60\r\n\r\n",
    "a signed length": "Content-Length: +0\r\n\r\n",
    "a negative length": "Content-Length: -1\r\n\r\n",
    "a hexadecimal length": "Content-Length: 0x0\r\n\r\n",
    "a length beyond all": "Content-Length: 18446744073709551617\r\n\r\n",
    "another coding": "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunks twice": "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "chunks in disguise": "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a tab": "Transfer-Encoding:\tchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "a space before the colon": "Content-Length : 0\r\n\r\n",
    "a folded line": "X: a\r\n Content-Length: 60\r\nContent-Length: 0\r\n\r\n",
    "a zero byte": "X: a\0b\r\nContent-Length: 0\r\n\r\n",
    "a lone line feed": "X: a\nContent-Length: 60\r\nContent-Length: 0\r\n\r\n",
    "a lone carriage return": "X: a\rContent-Length: 60\r\nContent-Length: 0\r\n\r\n",
    "a chunk beyond all": "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\nx\r\n0\r\n\r\n",
    "a chunk with a sign": "Transfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\n",
}


# Where its body ends is in no doubt: on a connection that was good before, the HTTP library reads them as RFC 9112 allows.
HARMLESS = ("a folded line", "a zero byte")


@pytest.mark.parametrize("place", ["first", "second"])
@pytest.mark.parametrize("kind", TWO_WAYS)
def test_requests_that_can_be_read_in_two_ways(town, kind, place):
    """Refused, and the connection with them: what follows is never taken for a request of its own."""
    t = town.tokens["admin", "all"]
    head = f"POST /v1/gc HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {t}\r\nContent-Type: application/json\r\n"
    good = f"GET /v1/version HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {t}\r\n\r\n"
    with Caller(town.port).connect() as s:
        f = s.makefile("rb")
        if place == "second":
            s.sendall(good.encode())
            assert b" 200 " in f.readline()
            length = 0
            while (line := f.readline()).strip():
                length = int(line.split(b":")[1]) if line.lower().startswith(b"content-length") else length
            f.read(length)
        answers = b""
        try:
            s.sendall((head + TWO_WAYS[kind] + SMUGGLED).encode("latin-1"))
            while line := f.readline():
                answers += line
        except OSError:  # cut: what it said before that counts
            pass
    found = re.findall(rb"HTTP/1\.1 (\d+)", answers)
    if place == "second" and kind in HARMLESS:
        assert found[:1] != [b"500"] and len(found) <= 2
    else:
        assert set(found) <= {b"400", b"413"}, (kind, answers)  # what was smuggled would be a 401


def test_ranges_and_etags_at_their_edges(town):
    files = Files(town.home, town.mine)
    town.home.skep("start", town.mine)
    etag = '"' + files.put("/tmp/r", b"0123456789")["etag"].strip('"') + '"'
    for given, want in (("bytes=0-0", (206, b"0")), ("bytes=9-", (206, b"9")), ("bytes=-1", (206, b"9")), ("bytes=-100", (206, b"0123456789")),
                        ("bytes=3-5", (206, b"345")), ("bytes=5-100", (206, b"56789")), ("bytes=10-", (416, b"")), ("bytes=-0", (200, None)),
                        ("bytes=5-2", (200, None)), ("bytes=0-0,2-2", (200, None)), ("bytes=18446744073709551615-", (200, None)),
                        ("bytes=9223372036854775807-", (416, b"")), ("bytes=-9223372036854775807", (206, b"0123456789")), ("bytes=a-b", (200, None)),
                        ("chars=0-1", (200, None)), ("bytes=", (200, None)), ("bytes=--1", (200, None)), ("bytes= 0-1", (200, None))):
        status, headers, data = files.raw("GET", "/tmp/r", headers={"Range": given})
        assert (status, data) == (want[0], b"0123456789" if want[1] is None else want[1]), (given, status, data)
        assert (headers.get("content-range") is not None) == (status in (206, 416)), given
        if status == 206:
            assert int(headers["content-length"]) == len(data)
    for headers, want in (({"If-None-Match": etag}, 304), ({"If-None-Match": f"W/{etag}"}, 304), ({"If-None-Match": f'"x", {etag}'}, 304), ({"If-None-Match": "*"}, 304),
                          ({"If-None-Match": '"x"'}, 200), ({"If-Match": '"x"'}, 412), ({"If-Match": "*"}, 200), ({"If-Match": etag}, 200),
                          ({"If-None-Match": etag[:-2]}, 200), ({"If-None-Match": '"' * 3000}, 200),
                          ({"Range": "bytes=0-1", "If-Range": '"x"'}, 200), ({"Range": "bytes=0-1", "If-Range": etag}, 206)):
        assert files.raw("GET", "/tmp/r", headers=headers)[0] == want, headers
    for headers in ({"If-Match": "x"}, {"If-Match": '"a", "b"'}, {"If-None-Match": etag}):
        assert files.raw("PUT", "/tmp/r", b"new", headers)[0] in (400, 409), headers
    assert files.get("/tmp/r") == b"0123456789"


def test_bombs_on_every_surface(town):
    t = town.tokens["admin", "all"]
    c = Caller(town.port, t)
    deep = b'{"a":' * 200000 + b"1" + b"}" * 200000
    wide = b'{"a":[' + b"[]," * 500000 + b"[]]}"
    for path in ("/v1/sandboxes", f"/v1/sandboxes/{town.mine}/execs", "/mcp", "/sandboxes", f"/v1/sandboxes/{town.mine}/diff"):
        for bomb in (deep, wide):
            status, _, _ = c.raw("POST", path, bomb, {"Content-Type": "application/json"})
            assert status in (400, 413), (path, status)
    assert c("GET", "/v1/version")[0] == 200


def test_cookies_of_one_preview_open_no_other(town):
    home = town.home
    servers = [serve(home, sid, 3000) for sid in (town.mine, town.theirs)]
    pair = cookie(home, town.mine, 3000)

    def ask(name, *headers, target="/"):
        c = Client(town.port)
        try:
            return c.ask("GET", target, name, headers).status
        finally:
            c.close()

    try:
        assert ask(host(town.mine, 3000), pair) == 200
        assert ask(host(town.theirs, 3000), pair) == 401 and ask(host("theirs", 3000), pair) == 401
        assert ask(host(town.mine, 3001), pair) == 401
        assert ask("localhost", pair, target=f"/preview/{town.theirs}/3000/") == 401
        # the first of two cookies counts, whichever is good
        assert ask(host(town.theirs, 3000), pair, cookie(home, town.theirs, 3000)) in (200, 401)
        # neither a cookie nor a link is anything for the API
        sign = pair.split("=")[1]
        for path in ("/v1/sandboxes", f"/v1/sandboxes/{town.mine}", f"/v1/sandboxes?skep_preview={sign}", f"/v1/sandboxes?token={sign}"):
            assert ask("localhost", pair, f"Authorization: Bearer {sign}", target=path) == 401
        # a token for one sandbox is none for the other's ports
        mine = f"Authorization: Bearer {town.tokens['run', 'own']}"
        assert ask(host(town.mine, 3000), mine) == 200 and ask(host(town.theirs, 3000), mine) == 401
    finally:
        for p in servers:
            end(p)


def test_a_token_follows_no_redirect(town):
    """A server that was asked with a token can not make the command line carry it elsewhere, nor can a netrc file add to it."""
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append((self.path, self.headers.get("Authorization")))
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.1:{ports[1]}/stolen")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *a):
            pass

    servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]
    ports = [s.server_address[1] for s in servers]
    threads = [threading.Thread(target=s.serve_forever) for s in servers]
    for t in threads:
        t.start()
    with open(f"{town.home.user_home}/.netrc", "w", encoding="ascii") as f:
        f.write("machine 127.0.0.1 login somebody password secret\n")
    r = town.home.skep("ps", env={"SKEP_HOST": f"http://127.0.0.1:{ports[0]}", "SKEP_TOKEN": "skep_" + "5" * 64})
    for s in servers:
        s.shutdown()
        s.server_close()
    for t in threads:
        t.join()
    assert r.rc != 0 and seen and not any("stolen" in p for p, _ in seen)
    assert {a for _, a in seen} == {"Bearer skep_" + "5" * 64}


def test_wrong_hosts_and_pages_get_nothing_from_any_surface(town):
    """DNS rebinding and forms: before anything is looked at, on every surface."""
    t = town.tokens["admin", "all"]
    before = town.state()
    for path, method in (("/v1/sandboxes", "POST"), ("/mcp", "POST"), ("/sandboxes", "POST"), ("/v1/gc", "POST"), ("/v1/events", "GET"), (f"/v1/sandboxes/{town.mine}", "DELETE")):
        for headers in ({"Host": "rebound.example"}, {"Host": f"rebound.example:{town.port}"}, {"Origin": "http://rebound.example", "Host": "localhost"}, {"Origin": "null"},
                        {"Host": "localhost@rebound.example"}, {"Host": "localhost, rebound.example"}, {"Host": "127.0.0.1#.rebound.example"}, {"Host": "localhost%00.rebound.example"}):
            status, data = Caller(town.port, t).raw(method, path, b"{}" if method == "POST" else None, {"Content-Type": "application/json", **headers})[::2]
            assert status in (400, 403) and b"sandboxes" not in data, (path, headers, status)
        if method == "POST":
            for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
                status = Caller(town.port, t).raw(method, path, b'{"empty":true}', {"Content-Type": kind})[0]
                assert status in (400, 415), (path, kind, status)
    assert town.state() == before
    assert json.loads(town.home.skep("log", "--service", "--json").ok().out.splitlines()[-1])["type"] == "api.refused"
