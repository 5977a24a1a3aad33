# SPDX-License-Identifier: Apache-2.0
"""Who did it: every event names its token, and who was refused stands in the journal of the service."""
import json
import socket

from stream_kit import WebSocket
from tcp_kit import Caller, serving, token


def events(home, sid):
    return [json.loads(x) for x in home.api_raw("GET", f"/v1/sandboxes/{sid}/journal")[2].splitlines()]


def service(home):
    return [json.loads(x) for x in home.skep("log", "--service", "--json").ok().out.splitlines()]


def refusals(home):
    return [e for e in service(home) if e["type"] == "api.refused"]


def test_events_name_who_caused_them(home):
    token(home, "--scope", "admin", "--name", "first")
    bot = token(home, "--scope", "admin", "--name", "bot")
    local = home.new("--empty")
    with serving(home) as port:
        c = Caller(port, bot)
        status, made = c("POST", "/v1/sandboxes", {"exec": {"argv": ["true"], "detach": True}})
        assert status == 201
        sid = made["id"]
        do = lambda verb, body=None: c("POST", f"/v1/sandboxes/{sid}/{verb}", body or {})  # noqa: E731
        assert do("exec", {"argv": ["touch", "x"]})[0] == 200
        ws = WebSocket(home, f"/v1/sandboxes/{sid}/exec/ws", [f"Authorization: Bearer {bot}"],
                       sock=socket.create_connection(("127.0.0.1", port), timeout=30))
        ws.text(argv=["true"])
        ws.until("exit")
        ws.close()
        for verb, body in (("snapshots", {"name": "a"}), ("rollback", {}), ("fork", {}), ("pin", {}), ("unpin", {}),
                           ("policy", {"allow": ["example.com"]}), ("stop", {}), ("start", {}), ("pause", {}), ("resume", {})):
            status, answer = do(verb, body)
            assert status in (200, 201), (verb, answer)
        said = c.raw("POST", f"/v1/sandboxes/{sid}/diff", {})[2].splitlines()
        digest = next(d for d in (json.loads(x).get("summary", {}).get("digest") for x in said) if d)
        assert c.raw("POST", f"/v1/sandboxes/{sid}/dismiss", {"set": {"all": True}, "digest": digest})[0] == 200
        assert c("POST", f"/v1/sandboxes/{local}/exec", {"argv": ["true"]})[0] == 200
        own = Caller(port, c("GET", f"/v1/sandboxes/{local}/token")[1]["token"])
        assert own("POST", f"/v1/sandboxes/{local}/exec", {"argv": ["false"]})[0] == 200
        status, _ = c("DELETE", f"/v1/sandboxes/{sid}?force=1")
        assert status == 204
    seen = {}
    for e in events(home, sid):
        seen.setdefault(e["type"], set()).add(e["by"])
    for kind in ("sandbox.created", "sandbox.state", "exec.start", "snapshot.made", "rollback", "fork", "sandbox.policy", "policy.changed",
                 "review.dismissed", "sandbox.deleted"):
        assert seen.get(kind) == {"bot"}, (kind, seen)
    assert seen["cell.up"] == {"skep-cell"}
    by = [(e["type"], e["by"]) for e in events(home, local) if e["type"] in ("sandbox.created", "exec.start")]
    assert by == [("sandbox.created", "local"), ("exec.start", "bot"), ("exec.start", local)]
    home.skep("token", "rm", "first").ok()
    made = [(e["type"], e["name"], e["by"]) for e in service(home) if e["type"].startswith("token.")]
    assert made == [("token.made", "first", "local"), ("token.made", "bot", "local"), ("token.removed", "first", "local")]
    assert "bot" in home.skep("log", sid).ok().out


def test_refusals_are_recorded_and_folded(home):
    t = token(home, "--scope", "read", "--name", "reader")
    slow = token(home, "--scope", "read", "--name", "slow", "--rate", "1")
    sid = home.new("--empty")
    secret = "skep_" + "7" * 64
    with serving(home) as port:
        for i in range(50):
            assert Caller(port, secret)("GET", f"/v1/sandboxes/{i}?token={secret}")[0] == 401
        for _ in range(3):
            assert Caller(port, t)("POST", "/v1/gc", {})[0] == 403
        assert Caller(port, t, host="evil.example")("GET", "/v1/version")[0] == 403
        assert Caller(port, t)("GET", "/v1/version", headers={"Origin": "http://evil.example"})[0] == 403
        assert 429 in [Caller(port, slow)("GET", "/v1/version")[0] for _ in range(5)]
        for _ in range(4):
            assert Caller(port, host=f"8000-{sid}.localhost:{port}").raw("GET", "/?skep_preview=12-34")[0] == 401
        got = refusals(home)
        # what is refused inside a sandbox is its own affair
        assert Caller(port, token(home))("GET", f"/v1/sandboxes/{sid}/files?path=/proc/1/environ")[0] == 403
        assert refusals(home) == got
    assert home.skep("log", "--service", "--verify").ok().out.startswith("ok")
    assert secret not in json.dumps(got) and "12-34" not in json.dumps(got)

    def counts(**like):
        return [e["count"] for e in got if all(e.get(k) == v for k, v in like.items())]

    assert counts(status=401, surface="native", token=None) == [1, 49]
    assert counts(status=403, token="reader", path="/v1/gc") == [1, 2]
    assert sum(counts(status=403, path="/v1/version")) == 2
    assert sum(counts(status=429, token="slow")) >= 1
    assert counts(status=401, surface="preview", path=f"/preview/{sid}/8000") == [1, 3]
    assert {e["peer"] for e in got} == {"127.0.0.1"} and {e["by"] for e in got} == {"skepd"}


def test_kinds_of_refusals_are_bounded(home):
    """Who makes every refusal look different gets one line for all that come beyond the table."""
    token(home, "--name", "x")
    with serving(home) as port:
        boxes = [home.new("--empty") for _ in range(2)]
        only = Caller(port, token(home, "--on", boxes[0]))
        for i in range(70):
            assert only("POST", "/v1/sandboxes", {"from": "n" + "0" * i})[0] == 403
            assert only("GET", f"/v1/sandboxes/{boxes[1]}")[0] == 403
        assert len(refusals(home)) <= 66
        assert sum(e["count"] for e in refusals(home)) == 140


def test_the_journal_of_the_service_is_for_admins(home):
    tokens = {s: token(home, "--scope", s) for s in ("read", "run", "review", "admin")}
    with serving(home) as port:
        for scope, t in tokens.items():
            for path in ("/v1/journal", "/v1/journal/verify"):
                assert Caller(port, t).raw("GET", path)[0] == (200 if scope == "admin" else 403)
    home.skep("log", "--service", "x").fails(2, "service")


def ended(sock):
    """Nothing more comes, and it is over."""
    sock.settimeout(30)
    try:
        while sock.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


def test_what_a_token_began_ends_with_it(home):
    sid = home.new("--empty")
    made = {"removed": ("--name", "removed"), "expired": ("--ttl", "3s")}
    keep = token(home)
    with serving(home) as port:
        for how, options in made.items():
            t = token(home, *options)
            auth = f"Authorization: Bearer {t}\r\nHost: localhost\r\n"
            open_ = {}
            for name, head in (("events", "GET /v1/events"), ("own events", f"GET /v1/sandboxes/{sid}/events"),
                               ("watch", f"GET /v1/sandboxes/{sid}/files/watch?path=/tmp"),
                               ("upload", f"PUT /v1/sandboxes/{sid}/files?path=/tmp/{how}"),
                               ("stream", f"POST /v1/sandboxes/{sid}/exec/stream")):
                s = Caller(port).connect(f"{head} HTTP/1.1\r\n{auth}".encode())
                if name == "stream":
                    body = json.dumps({"argv": ["sh", "-c", "echo begun; exec cat"], "stdin": True}).encode()
                    s.sendall(b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                elif name == "upload":
                    s.sendall(b"Content-Length: 100\r\n\r\nhalf")
                else:
                    s.sendall(b"\r\n")
                if name != "upload":
                    assert s.recv(12) == b"HTTP/1.1 200", name
                open_[name] = s
            ws = WebSocket(home, f"/v1/sandboxes/{sid}/exec/ws", [f"Authorization: Bearer {t}"],
                           sock=socket.create_connection(("127.0.0.1", port), timeout=30))
            ws.text(argv=["cat"], stdin=True)
            assert ws.next()[1]["event"] == "start"
            open_["websocket"] = ws.s
            if how == "removed":
                home.skep("token", "rm", how).ok()
            for name, s in open_.items():
                assert ended(s), (how, name)
                s.close()
            assert Caller(port, t)("GET", "/v1/version")[0] == 401
        # who removes the token it came with is answered, and half an upload is none
        me = Caller(port, token(home, "--scope", "admin", "--name", "me"))
        assert me("DELETE", "/v1/tokens/me")[0] == 204 and me("GET", "/v1/version")[0] == 401
        for how in made:
            assert Caller(port, keep)("GET", f"/v1/sandboxes/{sid}/files/stat?path=/tmp/{how}")[0] == 404
