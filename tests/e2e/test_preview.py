# SPDX-License-Identifier: Apache-2.0
"""Ports of a sandbox over HTTP: who may, what is passed on, what never is."""
import hashlib
import os
import subprocess
import threading

import pytest

from kit import HELD, wait_for
from preview_kit import RAW, Client, cookie, end, host, link, listens, memory, serve, wait_port
from tcp_kit import serving

HTML = "Accept: text/html,*/*"


class Site:
    """A sandbox with the server of preview_kit on 3000."""

    def __init__(self, home):
        self.home = home
        self.id = home.new("--empty")
        self.server = serve(home, self.id, 3000)
        self.port = listens(home, self.id)
        self.host = f"{host(self.id, 3000)}:{self.port}"
        self.cookie = cookie(home, self.id, 3000)
        self.clients = []

    def client(self):
        self.clients.append(Client(self.port))
        return self.clients[-1]

    def get(self, target, *headers, method="GET", body=b""):
        return self.client().ask(method, target, self.host, [self.cookie, *headers], body)

    def close(self):
        for c in self.clients:
            c.close()
        end(self.server)


@pytest.fixture
def site(home):
    s = Site(home)
    yield s
    s.close()


# -- what is passed on ---------------------------------------------------------------------------------------

def test_the_forms(home, site):
    hello = f"hello from {site.id}\n".encode()
    assert site.get("/").body == hello
    c = site.client()
    by_path = c.ask("GET", f"/preview/{site.id}/3000/x", f"127.0.0.1:{site.port}", [site.cookie])
    assert by_path.body == hello and "sandbox" in by_path.get("Content-Security-Policy")
    by_headers = site.client().ask("GET", "/", f"localhost:{site.port}", [site.cookie, f"E2b-Sandbox-Id: {site.id}", "E2b-Sandbox-Port: 3000"])
    assert by_headers.body == hello
    out = subprocess.run(["curl", "-sS", f"http://{site.host}/", "-H", site.cookie], capture_output=True, check=True).stdout
    assert out == hello


def test_a_connection_is_kept_and_every_framing(home, site):
    c = site.client()
    for target, want in (("/", None), ("/chunked", b"hello" * 100), ("/eof", b"until the end"), ("/big?300000", b"x" * 300000), ("/", None)):
        a = c.ask("GET", target, site.host, [site.cookie])
        assert a.status == 200 and (want is None or a.body == want), target
    assert c.ask("HEAD", "/big?1000", site.host, [site.cookie]).get("Content-Length") == "1000"
    body = os.urandom(3 << 20)
    a = c.ask("POST", "/", site.host, [site.cookie], body)
    assert a.json() == {"n": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    c.send("POST", "/", site.host, [site.cookie, "Transfer-Encoding: chunked"])
    c.s.sendall(b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (b"a" * 70000, b"b", b"c" * 5)) + b"0\r\n\r\n")
    assert c.answer().json()["n"] == 70006
    assert c.ask("GET", "/", site.host, [site.cookie]).status == 200  # still the same connection


def test_pipelined_requests(home, site):
    c = site.client()
    for i in range(5):
        c.send("GET", f"/headers?{i}", site.host, [site.cookie])
    for i in range(5):
        assert c.answer().json()["path"] == f"/headers?{i}"


def test_what_the_inside_sees(home, site):
    token = home.api("GET", f"/v1/sandboxes/{site.id}/token")[1]["token"]
    a = site.get(f"/headers?a=1&skep_preview=x&b=2", f"Authorization: Bearer {token}", f"X-API-Key: {token}", "Cookie: mine=1; skep_preview=z; other=2",
                 f"Origin: http://{site.host}", f"Referer: http://{site.host}/page", "X-Forwarded-For: 1.2.3.4", "Connection: keep-alive, X-Hop",
                 "X-Hop: secret", "Upgrade: h2c", "Proxy-Authorization: x", "E2B-Traffic-Access-Token: t", "Accept-Language: de").json()
    got = {}
    for k, v in a["headers"]:
        assert k.lower() not in got, k
        got[k.lower()] = v
    assert a["path"] == "/headers?a=1&b=2"
    assert got["host"] == "localhost:3000" and got["origin"] == "http://localhost:3000" and got["referer"] == "http://localhost:3000/page"
    assert got["cookie"] == "mine=1; other=2" and got["accept-language"] == "de"
    assert got["x-forwarded-host"] == site.host and got["x-forwarded-proto"] == "http" and got["x-forwarded-for"].endswith("127.0.0.1")
    assert not {"authorization", "x-api-key", "x-hop", "upgrade", "proxy-authorization", "e2b-traffic-access-token", "keep-alive"} & set(got)
    assert token not in str(a) and "skep_preview" not in str(a)
    other = site.client().ask("GET", "/headers", site.host, ["Origin: http://evil.example", "Authorization: Basic dTpw", f"X-API-Key: {token}"]).json()
    assert ["Origin", "http://evil.example"] in other["headers"] and ["Authorization", "Basic dTpw"] in other["headers"]
    by_path = site.client().ask("GET", f"/preview/{site.id}/3000/headers?q", f"127.0.0.1:{site.port}", [site.cookie]).json()
    assert by_path["path"] == "/headers?q" and ["X-Forwarded-Prefix", f"/preview/{site.id}/3000"] in by_path["headers"]


def test_the_host_can_be_kept(home):
    sid = home.new("--empty", "--label", "skep.preview-host=keep")
    p = serve(home, sid, 3000)
    h = f"{host(sid, 3000)}:{listens(home, sid)}"
    c = Client(int(h.rsplit(":")[-1]))
    assert ["Host", h] in c.ask("GET", "/headers", h, [cookie(home, sid, 3000)]).json()["headers"]
    c.close()
    end(p)


def test_cookies_and_places_of_the_inside(home, site):
    assert site.get("/cookies").all("Set-Cookie") == ["a=1; Path=/; HttpOnly", "b=2", "c=3"]
    by_path = site.client().ask("GET", f"/preview/{site.id}/3000/cookies", "localhost", [site.cookie])
    assert by_path.all("Set-Cookie") == [f"{c}; Path=/preview/{site.id}/3000/" for c in ("a=1; HttpOnly", "b=2", "c=3")]
    for said, want in (("http://localhost:3000/next", "/next"), ("http://127.0.0.1:3000/next", "/next"), ("/next", "/next"), ("http://localhost:3000", "/"),
                       ("next", "next"), ("https://example.com/", "https://example.com/"), ("//example.com/", "//example.com/")):
        assert site.get(f"/redirect?{said}").get("Location") == want
    a = site.client().ask("GET", f"/preview/{site.id}/3000/redirect?/next", "localhost", [site.cookie])
    assert a.get("Location") == f"/preview/{site.id}/3000/next"
    assert site.client().ask("GET", f"/preview/{site.id}/3000?a", "localhost", [site.cookie]).get("Location") == f"/preview/{site.id}/3000/?a"


def test_websocket(home, site):
    c = site.client()
    c.send("GET", "/ws", site.host, [site.cookie, "Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                                     "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="])
    status, headers = c.head()
    assert status == 101 and ("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") in headers
    for n in (1, 1000, 1 << 20):
        said = os.urandom(n)
        t = threading.Thread(target=c.s.sendall, args=(said,))
        t.start()
        assert c.exactly(n) == said
        t.join()
    c.s.shutdown(1)
    assert c.is_closed()


def test_no_upgrade_without_being_asked(home, site):
    p = serve(home, site.id, 3001, RAW, r"b'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nboo'")
    c = site.client()
    assert c.ask("GET", "/", host(site.id, 3001), [cookie(home, site.id, 3001)]).status == 502
    end(p)


def test_events_come_one_by_one(home, site):
    c = site.client()
    c.send("GET", "/sse?3", site.host, [site.cookie])
    status, headers = c.head()
    assert status == 200 and ("Content-Type", "text/event-stream") in headers
    for i in range(3):
        assert b"data: %d" % i in c.until(b"\n\n")
        site.server.stdin.write(b"\n")
        site.server.stdin.flush()
    assert c.until(b"0\r\n\r\n") is not None


def test_a_gigabyte_and_little_memory(home, site):
    pid = home.skepd_pid()
    before = memory(pid)
    c = site.client()
    c.send("GET", f"/big?{1 << 30}", site.host, [site.cookie])
    assert c.head()[0] == 200
    left = (1 << 30) - len(c.buf)
    most = 0
    buf = bytearray(1 << 20)
    rounds = 0
    while left:
        n = c.s.recv_into(buf, min(left, len(buf)))
        assert n
        left -= n
        rounds += 1
        if rounds % 256 == 0:
            most = max(most, memory(pid))
    assert most - before < (16 << 20) + HELD
    # Who does not read holds up nobody else, and no memory.
    slow = site.client()
    slow.send("GET", f"/big?{1 << 30}", site.host, [site.cookie])
    assert slow.head()[0] == 200
    assert site.get("/").status == 200
    assert memory(pid) - before < (16 << 20) + HELD


def test_a_hundred_at_once(home, site):
    clients = [site.client() for _ in range(100)]
    for i, c in enumerate(clients):
        c.send("GET", f"/headers?{i}", site.host, [site.cookie])
    for i, c in enumerate(clients):
        assert c.answer().json()["path"] == f"/headers?{i}"
    for i, c in enumerate(clients):
        c.send("GET", f"/headers?{i}", site.host, [site.cookie])
    for i, c in enumerate(clients):
        assert c.answer().json()["path"] == f"/headers?{i}"


# -- who may -------------------------------------------------------------------------------------------------

def test_nothing_shown(home, site):
    for headers in ([], ["Authorization: Bearer skep_" + "0" * 64], ["Cookie: skep_preview=9999999999-" + "0" * 64], ["Cookie: skep_preview="]):
        a = site.client().ask("GET", "/", site.host, headers)
        assert a.status == 401 and a.get("WWW-Authenticate") and b"skep preview" in a.body and b"hello" not in a.body
        assert a.get("X-Content-Type-Options") == "nosniff" and "default-src 'none'" in a.get("Content-Security-Policy")
    a = site.client().ask("GET", "/", site.host, [HTML])
    assert a.status == 401 and a.get("Content-Type").startswith("text/html") and b"<script" not in a.body


def test_tokens(home, site):
    own = home.api("GET", f"/v1/sandboxes/{site.id}/token")[1]["token"]
    status, t = home.api("POST", "/v1/tokens", {"scope": "read", "on": site.id})
    assert status == 201
    other = home.new("--empty")
    foreign = home.api("POST", "/v1/tokens", {"scope": "admin", "on": other})[1]["token"]
    for token, want in ((own, 200), (t["token"], 200), (foreign, 401)):
        assert site.client().ask("GET", "/", site.host, [f"Authorization: Bearer {token}"]).status == want
        assert site.client().ask("GET", "/", site.host, [f"X-API-Key: {token.replace('skep_', 'e2b_')}"]).status == want
        assert site.client().ask("GET", f"/?token={token}", site.host).status == 401
    home.api("DELETE", f"/v1/tokens/{t['id']}")
    assert site.client().ask("GET", "/", site.host, [f"Authorization: Bearer {t['token']}"]).status == 401


def test_a_link_becomes_a_cookie(home, site):
    made = link(home, site.id, 3000)
    assert made["url"] == f"http://{site.host}/?skep_preview={made['signature']}"
    target = f"/deep/page?a=b&skep_preview={made['signature']}&c=d"
    typed = [HTML, "Sec-Fetch-Site: none"]
    a = site.client().ask("GET", target, site.host, typed)
    assert a.status == 307 and a.get("Location") == "/deep/page?a=b&c=d"
    jar = a.get("Set-Cookie")
    assert "HttpOnly" in jar and "SameSite=Strict" in jar and "Path=/;" in jar and "Domain" not in jar
    pair = jar.split(";")[0]
    assert site.client().ask("GET", "/", site.host, [f"Cookie: x=y; {pair}"]).status == 200
    assert site.client().ask("GET", target, site.host).status == 200  # a program needs no cookie
    by_path = site.client().ask("GET", f"/preview/{site.id}/3000/?skep_preview={made['signature']}", "localhost", typed)
    assert by_path.status == 307 and f"Path=/preview/{site.id}/3000/;" in by_path.get("Set-Cookie")
    for evil in (f"//evil.example/?skep_preview={made['signature']}", f"/\\evil.example/?skep_preview={made['signature']}"):
        a = site.client().ask("GET", evil, site.host, typed)
        assert a.get("Location") is None and a.get("Refresh") is None


def test_a_link_is_for_one_port_of_one_sandbox(home, site):
    other = home.new("--empty")
    p = serve(home, other, 3000)
    q = serve(home, site.id, 3001)
    for sid, port in ((other, 3000), (site.id, 3001)):
        assert site.client().ask("GET", "/", host(sid, port), [site.cookie]).status == 401
        assert site.client().ask("GET", f"/preview/{sid}/{port}/", "localhost", [site.cookie]).status == 401
        assert site.client().ask("GET", f"/?{site.cookie.split(': ')[1]}", host(sid, port)).status == 401
        assert site.client().ask("GET", "/", host(sid, port), [cookie(home, sid, port)]).status == 200
    end(p)
    end(q)


def test_a_kept_connection_is_judged_anew(home, site):
    other = home.new("--empty")
    p = serve(home, other, 3000)
    c = site.client()
    assert c.ask("GET", "/", site.host, [site.cookie]).status == 200
    assert c.ask("GET", "/", host(other, 3000), [cookie(home, other, 3000)]).body == f"hello from {other}\n".encode()
    assert c.ask("GET", "/", host(other, 3000), [site.cookie]).status == 401
    assert c.is_closed()
    c = site.client()  # a second request that is there already is judged too
    c.send("GET", "/", site.host, [site.cookie])
    c.send("GET", "/", site.host)
    assert [c.answer().status, c.answer().status] == [200, 401]
    c = site.client()  # and one that is for the API
    assert c.ask("GET", "/", site.host, [site.cookie]).status == 200
    assert c.ask("GET", "/v1/sandboxes", f"localhost:{site.port}", [site.cookie]).status == 401
    end(p)


def test_links_expire(home, site):
    short = link(home, site.id, 3000, 1500)["signature"]
    assert site.client().ask("GET", "/", site.host, [f"Cookie: skep_preview={short}"]).status == 200
    wait_for(lambda: site.client().ask("GET", "/", site.host, [f"Cookie: skep_preview={short}"]).status == 401)
    expires, mac = link(home, site.id, 3000)["signature"].split("-")
    for forged in (f"{int(expires) + 1}-{mac}", f"{expires}-{mac[:-1]}{'0' if mac[-1] != '0' else '1'}", f"{expires}-", mac, f"0{expires}-{mac}",
                   f"{expires}-{mac}0", f"{expires}-{mac.upper()}"):
        assert site.client().ask("GET", "/", site.host, [f"Cookie: skep_preview={forged}"]).status == 401, forged
    for bad in (0, 999, 31 * 24 * 3600 * 1000):
        assert home.api("POST", f"/v1/sandboxes/{site.id}/preview", {"port": 3000, "ttl_ms": bad})[0] == 400
    for bad in (0, 65536, "3000"):
        assert home.api("POST", f"/v1/sandboxes/{site.id}/preview", {"port": bad})[0] == 400


def open_ws(site, *headers):
    """A WebSocket through the preview that has echoed."""
    c = site.client()
    c.send("GET", "/ws", site.host, [*headers, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                                     "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="])
    assert c.head()[0] == 101
    c.s.sendall(b"echo")
    assert c.exactly(4) == b"echo"
    return c


def open_sse(site, *headers):
    c = site.client()
    c.send("GET", "/sse?3", site.host, headers)
    assert c.head()[0] == 200
    c.until(b"data: 0")
    return c


def has_ended(c):
    c.buf = b""
    while c.more():
        c.buf = b""
    return True


def test_links_are_taken_back(home, site):
    one, two = (f"Cookie: skep_preview={link(home, site.id, 3000, ttl)['signature']}" for ttl in (3600_000, 7200_000))
    url = link(home, site.id, 3000, 1800_000)["url"]
    status = lambda *headers: site.client().ask("GET", "/", site.host, headers).status  # noqa: E731
    ws, sse, other = open_ws(site, one), open_sse(site, one), open_ws(site, two)
    path = f"/v1/sandboxes/{site.id}/preview"
    assert home.api("DELETE", f"{path}?port=3000&signature={one.split('=')[1]}")[0] == 204
    assert has_ended(ws) and has_ended(sse) and status(one) == 401
    other.s.sendall(b"more")  # what another one let in goes on
    assert other.exactly(4) == b"more" and status(two) == 200
    assert home.api("DELETE", f"{path}?port=3000&signature={one.split('=')[1]}")[0] == 404
    home.skep("preview", "--revoke", url).ok()
    assert site.client().ask("GET", "/?" + url.split("?")[1], site.host).status == 401
    home.skep("preview", "--revoke", url).fails(3, "not good")
    home.skep("preview", "--revoke", "http://example.org/").fails(2, "not a link")
    home.skep("preview", "--revoke", site.id, "3001").ok()  # another port's
    assert status(two) == 200
    home.skep("preview", "--revoke", site.id, "3000").ok()
    assert has_ended(other) and status(two) == 401
    three = cookie(home, site.id, 3000)
    assert status(three) == 200
    home.skep("preview", "--revoke", site.id).ok()
    assert status(three) == 401 and status(site.cookie) == 401
    four = cookie(home, site.id, 3000)
    assert status(four) == 200
    for bad in ("?port=0", "?port=x", "?signature=1-2"):
        assert home.api("DELETE", path + bad)[0] == 400, bad
    told = [x for x in home.skep("log", "--json", site.id).ok().out.splitlines() if '"preview.' in x]
    assert sum('"preview.revoked"' in x for x in told) == 5 and all('"by":"local"' in x for x in told)


def test_links_stay_taken_back(home, site):
    """Also for the next daemon."""
    one = link(home, site.id, 3000, 3600_000)["signature"]
    assert home.api("DELETE", f"/v1/sandboxes/{site.id}/preview?port=3000&signature={one}")[0] == 204
    two = link(home, site.id, 3000, 7200_000)["signature"]
    assert home.api("DELETE", f"/v1/sandboxes/{site.id}/preview?port=3000")[0] == 204
    good = link(home, site.id, 3000)["signature"]
    home.api("POST", "/v1/shutdown", {})
    wait_for(lambda: not home.skepd_pid(), why="skepd to end")
    home.skep("ps").ok()
    port = listens(home, site.id)
    for sign, want in ((one, 401), (two, 401), (good, 200)):
        c = Client(port)
        assert c.ask("GET", "/", f"{host(site.id, 3000)}:{port}", [f"Cookie: skep_preview={sign}"]).status == want
        c.close()


def test_what_was_let_in_ends_with_what_let_it_in(home, site):
    t = home.api("POST", "/v1/tokens", {"scope": "read", "on": site.id})[1]
    short = link(home, site.id, 3000, 2000)["signature"]
    brief = home.api("POST", "/v1/tokens", {"scope": "read", "on": site.id, "ttl_ms": 2000})[1]["token"]
    mine = open_ws(site, f"Authorization: Bearer {t['token']}")
    expiring = [open_ws(site, f"Cookie: skep_preview={short}"), open_sse(site, f"Cookie: skep_preview={short}"),
                open_ws(site, f"Authorization: Bearer {brief}")]
    assert all(map(has_ended, expiring))
    mine.s.sendall(b"more")
    assert mine.exactly(4) == b"more"
    home.api("DELETE", f"/v1/tokens/{t['id']}")
    assert has_ended(mine)


def test_foreign_names_and_odd_requests(home, site):
    assert site.client().ask("GET", "/", f"3000-{site.id}.evil.example").status == 401
    assert site.client().ask("GET", "/", f"3000-{site.id}.evil.example", [site.cookie]).status == 421  # good under our name only
    assert site.client().ask("GET", f"/?{site.cookie.split(': ')[1]}", f"3000-{site.id}.evil.example").status == 421
    prefix = site.id[:6]
    assert site.client().ask("GET", "/", host(prefix, 3000), [site.cookie]).status == 401
    assert site.client().ask("GET", "/", host("no-such-name", 3000), [site.cookie]).status == 401
    for target, headers in (("http://localhost/", []), ("/", [f"Host: {site.host}"]), ("/", ["Content-Length: 1", "Transfer-Encoding: chunked"]),
                            ("/", ["Content-Length: 1", "Content-Length: 1"]), ("/", ["X: a\x01b"])):
        assert site.get(target, *headers).status == 400, (target, headers)
    assert site.get("/preview/x/0/").status == 200  # the server's own path
    assert site.client().ask("CONNECT", "/", site.host, [site.cookie]).status == 400
    assert site.client().ask("TRACE", "/", site.host, [site.cookie]).status == 400
    assert site.client().ask("GET", "/preview/../3000/", "localhost").status == 400
    assert site.client().ask("GET", f"/preview/{site.id}/99999/", "localhost").status == 400


def test_errors_in_the_form_of_e2b(home, site):
    def ask(sid, port):
        return site.client().ask("GET", "/", f"localhost:{site.port}", [f"E2b-Sandbox-Id: {sid}", f"E2b-Sandbox-Port: {port}", cookie(home, site.id, 4000)])
    a = ask("s" + "0" * 15, 3000)
    assert a.status == 502 and a.json() == {"sandboxId": "s" + "0" * 15, "message": "The sandbox was not found", "code": 502}
    a = ask(site.id, 4000)
    assert a.status == 502 and a.json() == {"sandboxId": site.id, "message": "The sandbox is running but port is not open", "port": 4000, "code": 502}
    assert ask(site.id, 3000).status == 403
    assert site.client().ask("GET", "/", f"localhost:{site.port}", ["E2b-Sandbox-Id: x"]).status == 400


# -- whose page asks -------------------------------------------------------------------------------------------

WS = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]


def fetched(site, mode, dest):
    return [f"Sec-Fetch-Site: {site}", f"Sec-Fetch-Mode: {mode}", f"Sec-Fetch-Dest: {dest}"]


def origins(own, other):
    """(method, target, headers, whether a cookie lets it in)"""
    yield "GET", "/", [], True
    for origin, may in ((own, True), (own.replace("3000-", "4000-"), True), (other, False), ("null", False), ("http://evil.example", False),
                        (own.replace("http://3000-", "http://"), False), (own + "0", False), (own + "/", False), ("", False)):
        yield "GET", "/", [f"Origin: {origin}"], may
        yield "POST", "/", [f"Origin: {origin}", *fetched("same-site", "cors", "empty")], may
        yield "GET", "/ws", [f"Origin: {origin}", *WS], may
    yield "GET", "/", [f"Origin: {own}", f"Origin: {own}"], False
    for where in ("same-origin", "none"):
        yield "POST", "/", fetched(where, "no-cors", "empty"), True
    for where in ("same-site", "cross-site"):
        yield "GET", "/", fetched(where, "navigate", "document"), True
        for mode, dest in (("navigate", "iframe"), ("navigate", "object"), ("no-cors", "image"), ("no-cors", "script"), ("cors", "empty"), ("websocket", "empty")):
            yield "GET", "/", fetched(where, mode, dest), False
        yield "POST", "/", fetched(where, "navigate", "document"), False
        yield "GET", "/ws", [*fetched(where, "navigate", "document"), *WS], False


def check_origins(ask, own, other):
    for method, target, headers, may in origins(own, other):
        want = 403 if not may else 101 if target == "/ws" else 200
        assert ask(method, target, headers) == want, (method, target, headers)


def test_pages_of_others(home, site):
    own, other = f"http://{site.host}", f"http://{host(home.new('--empty'), 3000)}:{site.port}"
    ask = lambda method, target, headers: site.client().ask(method, target, site.host, headers, b"x" if method == "POST" else b"").status  # noqa: E731
    check_origins(lambda m, t, h: ask(m, t, [site.cookie, *h]), own, other)
    token = home.api("GET", f"/v1/sandboxes/{site.id}/token")[1]["token"]
    for method, target, headers, _ in origins(own, other):  # who shows a token is no page that the browser helps
        assert ask(method, target, [f"Authorization: Bearer {token}", *headers]) in (200, 101), headers
    by_path = lambda *h: site.client().ask("GET", f"/preview/{site.id}/3000/", f"127.0.0.1:{site.port}", [site.cookie, *h]).status  # noqa: E731
    assert [by_path(), by_path("Origin: null"), by_path(f"Origin: {other}"), by_path(*fetched("same-site", "no-cors", "image"))] == [200, 403, 403, 403]
    a = site.client().ask("GET", "/", site.host, [site.cookie, "Origin: null", HTML])
    assert a.status == 403 and b"another origin" in a.body and b"hello" not in a.body


def test_pages_of_others_on_an_open_listener(home, site):
    with serving(home, "--insecure-loopback") as port:
        at = f"{host(site.id, 3000)}:{port}"

        def ask(method, target, headers, where=at):
            c = Client(port)
            try:
                return c.ask(method, target, where, headers, b"x" if method == "POST" else b"").status
            finally:
                c.close()

        check_origins(ask, f"http://{at}", f"http://{host('s' + '0' * 15, 3000)}:{port}")
        for where, want in (("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403)):  # the API beside it
            assert ask("GET", "/v1/version", fetched(where, "no-cors", "empty"), f"localhost:{port}") == want


def test_only_under_the_public_name(home, site):
    token = home.api("GET", f"/v1/sandboxes/{site.id}/token")[1]["token"]
    home.skep("token", "new", "--name", "one").ok()  # a listener that nobody could use is refused
    status, made = home.api("POST", "/v1/listeners", {"address": "127.0.0.1:0", "public_urls": ["https://skep.example"]})
    assert status == 201, made

    def ask(where, *headers, target="/"):
        c = Client(int(made["address"].split(":")[1]))
        try:
            return c.ask("GET", target, f"3000-{site.id}.{where}", headers).status
        finally:
            c.close()

    for where, want in (("skep.example", 200), ("skep.example:443", 200), ("SKEP.example", 200), ("a.skep.example", 421), ("localhost", 421),
                        ("skep.example.evil.example", 421), ("evil.example", 421), ("127.0.0.1", 421)):
        assert ask(where, site.cookie) == want, where
        assert ask(where, target=f"/?{site.cookie.split(': ')[1]}") == want, where
        assert ask(where, f"Authorization: Bearer {token}") == 200, where


def test_links_that_are_followed_from_elsewhere(home, site):
    """A redirect of a navigation from another site takes no SameSite=Strict cookie along; the refresh of a page of ours does."""
    sign = site.cookie.split(": ")[1]
    ask = lambda target, *headers: site.client().ask("GET", target, site.host, [HTML, *headers])  # noqa: E731
    for headers in (fetched("cross-site", "navigate", "document"), fetched("same-site", "navigate", "document"), ["Referer: http://evil.example/"], []):
        a = ask(f"/a?b=c&{sign}", *headers)
        assert a.status == 200 and a.get("Refresh") == "0;url=/a?b=c" and a.body == b"" and "SameSite=Strict" in a.get("Set-Cookie")
    a = ask(f"/a?{sign}", *fetched("none", "navigate", "document"))
    assert a.status == 307 and a.get("Location") == "/a"
    a = ask("/a?b=c", *fetched("cross-site", "navigate", "document"))  # it was opened before: the cookie is there, and did not come along
    assert a.status == 200 and a.get("Refresh") == "0;url=/a?b=c" and a.get("Set-Cookie") is None and a.body == b""
    for headers in (fetched("same-origin", "navigate", "document"), fetched("cross-site", "navigate", "iframe"), [*fetched("cross-site", "navigate", "document"), "Cookie: skep_preview=1-2"]):
        assert ask("/a", *headers).status == 401, headers
    assert ask("//evil.example/", *fetched("cross-site", "navigate", "document")).get("Refresh") is None


def test_what_a_page_can_do_to_its_neighbours(home, site):
    sign = site.cookie.split("=")[1]
    assert site.client().ask("GET", "/", site.host, [f"Cookie: skep_preview=0; skep_preview=1-2; skep_preview={sign}"]).status == 200  # tossed by a neighbour
    home.skep("new", "--empty", "--name", "named").ok()
    p = serve(home, "named", 3000)
    mine = cookie(home, "named", 3000)
    worker = ["Service-Worker: script", *fetched("same-origin", "same-origin", "serviceworker")]
    assert site.get("/", *worker).status == 200
    assert site.client().ask("GET", "/", host("named", 3000), [mine]).status == 200
    assert site.client().ask("GET", "/", host("named", 3000), [mine, *worker]).status == 403  # the next one of this name would get it
    end(p)
    p = serve(home, site.id, 3001, RAW, r"b'HTTP/1.1 200 OK\r\nClear-Site-Data: \x22cookies\x22\r\nCross-Origin-Resource-Policy: cross-origin\r\nContent-Length: 0\r\n\r\n'")
    a = site.client().ask("GET", "/", host(site.id, 3001), [cookie(home, site.id, 3001)])
    assert a.get("Clear-Site-Data") is None and a.get("Cross-Origin-Resource-Policy") == "same-origin" and a.get("Content-Security-Policy") == "frame-ancestors 'self'"
    token = home.api("GET", f"/v1/sandboxes/{site.id}/token")[1]["token"]
    a = site.client().ask("GET", "/", host(site.id, 3001), [f"X-API-Key: {token}"])
    assert a.get("Cross-Origin-Resource-Policy") == "cross-origin" and a.get("Content-Security-Policy") is None
    end(p)


# -- the inside is not to be trusted ---------------------------------------------------------------------------

BAD_ANSWERS = [
    rb"HTTP/1.1 200 OK\r\nX: a\nSet-Cookie: b=c\r\n\r\n", rb"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    rb"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na", rb"HTTP/1.1 200 OK\r\nX\x00Y: 1\r\n\r\n", rb"nonsense\r\n\r\n", rb"",
    rb"HTTP/2 200\r\n\r\n", rb"HTTP/1.1 200 OK\r\n Folded: x\r\n\r\n", rb"HTTP/1.1 999 OK\r\n\r\n"]


def test_bad_answers_are_not_passed_on(home, site):
    for i, answer in enumerate(BAD_ANSWERS):
        p = serve(home, site.id, 4000 + i, RAW, "b'" + answer.decode() + "'")
        a = site.client().ask("GET", "/", host(site.id, 4000 + i), [cookie(home, site.id, 4000 + i), HTML])
        assert a.status == 502 and a.get("Set-Cookie") is None and b"<script" not in a.body, answer
        end(p)


def test_an_endless_head_and_a_short_body(home, site):
    p = serve(home, site.id, 3001, RAW, r"b'HTTP/1.1 200 OK\r\n' + b'X: y\r\n' * 200000")
    assert site.client().ask("GET", "/", host(site.id, 3001), [cookie(home, site.id, 3001)]).status == 502
    end(p)
    p = serve(home, site.id, 3002, RAW, r"b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort'")
    assert not site.client().ask("GET", "/", host(site.id, 3002), [cookie(home, site.id, 3002)]).whole
    end(p)
    p = serve(home, site.id, 3003, RAW, r"b'HTTP/1.1 200 <b>\r\nContent-Length: 2\r\nAlt-Svc: x\r\nStrict-Transport-Security: y\r\n\r\nokHTTP/1.1 200 more'")
    a = site.client().ask("GET", "/", host(site.id, 3003), [cookie(home, site.id, 3003)])
    assert a.body == b"ok" and a.get("Alt-Svc") is None and a.get("Strict-Transport-Security") is None
    end(p)


# -- life ------------------------------------------------------------------------------------------------------

def test_closed_ports_and_gone_sandboxes(home, site):
    wait_port(home, site.id, 3000)
    a = site.client().ask("GET", "/", host(site.id, 4000), [cookie(home, site.id, 4000), HTML])
    assert a.status == 502 and b"port 4000" in a.body and b"3000 (python3" in a.body
    gone = "s" + "a" * 15
    assert site.client().ask("GET", "/", host(gone, 80), [HTML]).status == 404
    assert site.client().ask("GET", "/", host(gone, 80)).json() == {"sandboxId": gone, "message": "The sandbox was not found", "code": 502}
    p = serve(home, site.id, 4000)
    assert site.client().ask("GET", "/", host(site.id, 4000), [cookie(home, site.id, 4000)]).status == 200
    end(p)


def test_paused_stopped_removed(home, site):
    home.skep("pause", site.id).ok()
    assert site.get("/").status == 200
    assert home.show(site.id)["state"] == "running"
    c = site.client()
    c.send("GET", f"/big?{1 << 30}", site.host, [site.cookie])
    assert c.head()[0] == 200
    home.skep("stop", site.id).ok()
    with pytest.raises((AssertionError, ConnectionResetError)):
        while True:
            assert c.s.recv(1 << 20)
    assert site.get("/").status == 502  # it was started, and nobody listens
    assert home.show(site.id)["state"] == "running"
    home.skep("rm", "--force", site.id).ok()
    assert site.get("/", HTML).status == 404


def test_a_client_that_goes_away_is_gone_inside(home, site):
    c = site.client()
    c.send("GET", "/sse?100", site.host, [site.cookie])
    assert c.head()[0] == 200
    fds = home.fd_count(home.skepd_pid())
    c.close()
    wait_for(lambda: home.fd_count(home.skepd_pid()) <= fds - 2)


def test_names(home):
    sid = home.new("--empty", "--name", "my-app")
    p = serve(home, sid, 3000)
    port = listens(home, sid)
    c = Client(port)
    assert c.ask("GET", "/", f"3000-my-app.localhost:{port}", [cookie(home, sid, 3000)]).status == 200
    c.close()
    end(p)
