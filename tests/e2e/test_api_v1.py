# SPDX-License-Identifier: Apache-2.0
"""The native API beyond single requests: pages, idempotency keys, event streams, and the document that describes it."""
import re
import threading

import jsonschema
import pytest

from kit import wait_for
from tcp_kit import Caller, Stream, serving, token


# -- pages ------------------------------------------------------------------------------------------------------------
def pages(home, path, key, limit):
    got, cursor, count = [], None, 0
    while True:
        status, reply = home.api("GET", f"{path}{'&' if '?' in path else '?'}limit={limit}" + (f"&cursor={cursor}" if cursor else ""))
        assert status == 200 and len(reply[key]) <= limit
        got += [x["id"] for x in reply[key]]
        count += 1
        cursor = reply["next"]
        if not cursor:
            return got, count


def test_pages(home):
    ids = [home.new("--empty") for _ in range(7)][::-1]
    assert [s["id"] for s in home.api("GET", "/v1/sandboxes")[1]["sandboxes"]] == ids
    for limit, count in ((3, 3), (7, 1), (1, 7), (100, 1)):
        assert pages(home, "/v1/sandboxes", "sandboxes", limit) == (ids, count)
    first = home.api("GET", "/v1/sandboxes?limit=3")[1]
    home.skep("rm", ids[2]).ok()  # the last one that was given, and a newer one comes
    home.new("--empty")
    rest = home.api("GET", f"/v1/sandboxes?limit=100&cursor={first['next']}")[1]
    assert [s["id"] for s in rest["sandboxes"]] == ids[3:] and rest["next"] is None
    for bad in ("limit=0", "limit=x", "limit=100000", "cursor=x", "cursor=1-", "cursor=1-../..", "cursor="):
        assert home.api("GET", f"/v1/sandboxes?{bad}")[0] == 400, bad
    sid = ids[3]
    execs = [home.skep("exec", "-d", sid, "--", "true").ok().line for _ in range(5)][::-1]
    assert pages(home, f"/v1/sandboxes/{sid}/execs", "execs", 2) == (execs, 3)
    assert pages(home, "/v1/execs", "execs", 2) == (execs, 3)
    wait_for(lambda: all(x["state"] == "exited" for x in home.api("GET", "/v1/execs")[1]["execs"]), why="them to end")
    for n in "abc":
        home.skep("snapshot", sid, n).ok()
    assert len(pages(home, f"/v1/snapshots?sandbox={sid}", "snapshots", 2)[0]) == 3


# -- idempotency ------------------------------------------------------------------------------------------------------
def test_idempotency_key(home):
    t, other = token(home), token(home)
    with serving(home) as port:
        c, key = Caller(port, t), {"Idempotency-Key": "job-17"}
        body = {"labels": {"a": "b"}, "exec": {"argv": ["echo", "hi"], "detach": True}}
        status, headers, _ = c.raw("POST", "/v1/sandboxes", body, key)
        assert status == 201 and "Idempotent-Replayed" not in headers
        first = c("GET", "/v1/sandboxes")[1]["sandboxes"][0]["id"]
        status, headers, _ = c.raw("POST", "/v1/sandboxes", body, key)
        again = c("POST", "/v1/sandboxes", body, key)[1]
        assert status == 201 and headers["Idempotent-Replayed"] == "true" and again["id"] == first and again["exec"]["argv"] == ["echo", "hi"]
        assert c("POST", "/v1/sandboxes", {"labels": {"a": "c"}}, key)[0] == 409
        assert Caller(port, other)("POST", "/v1/sandboxes", body, key)[1]["id"] != first
        assert c("POST", "/v1/sandboxes", body, {"Idempotency-Key": "x" * 256})[0] == 400
        # what failed may be tried again
        assert c("POST", "/v1/sandboxes", {"from": "nothing"}, {"Idempotency-Key": "f"})[0] == 404
        assert c("POST", "/v1/sandboxes", {}, {"Idempotency-Key": "f"})[0] == 201
        # the same at the same time
        got = []
        threads = [threading.Thread(target=lambda: got.append(c("POST", "/v1/sandboxes", body, {"Idempotency-Key": "many"})[1]["id"])) for _ in range(8)]
        for th in threads:
            th.start()
        for th in threads:
            th.join()
        assert len(got) == 8 and len(set(got)) == 1
    home.kill_skepd()  # and it outlives the daemon
    home.skep("ps").ok()
    with serving(home) as port:
        wait_for(lambda: all(x["state"] == "exited" for x in home.api("GET", "/v1/execs")[1]["execs"]), why="them to end")
        assert Caller(port, t)("POST", "/v1/sandboxes", body, key)[1]["id"] == first
        home.skep("rm", "--force", first).ok()
        status, reply = Caller(port, t)("POST", "/v1/sandboxes", body, key)
        assert status == 404 and first in reply["error"]["message"]


# -- events -----------------------------------------------------------------------------------------------------------
def test_events_of_one_sandbox(home):
    t = token(home, "--scope", "read")
    sid = home.new("--empty")
    with serving(home) as port:
        c = Caller(port, t)
        live, start = Stream(c, f"/v1/sandboxes/{sid}/events"), Stream(c, f"/v1/sandboxes/{sid}/events?offset=0")
        assert live.r.getheader("Content-Type") == "text/event-stream"
        assert start.next()[1] == "sandbox.created"
        home.skep("exec", sid, "--", "true").ok()
        seen = live.until("exec.exit")
        assert [x[2] for x in start.until("exec.exit")] == [x[2] for x in seen]
        for i, kind, data in seen:
            assert data["type"] == kind and i.isdigit()
        back = Stream(c, f"/v1/sandboxes/{sid}/events", {"Last-Event-ID": seen[0][0]})
        assert [x for x in back.until("exec.exit")] == seen[1:]
        some = Stream(c, f"/v1/sandboxes/{sid}/events?offset=0&type=exec,sandbox.created")
        assert [some.next()[1] for _ in range(3)] == ["sandbox.created", "exec.start", "exec.exit"]
        home.skep("rm", "--force", sid).ok()
        assert live.until("sandbox.deleted") and live.next() is None
        for bad in ({"Last-Event-ID": "x"}, {"Last-Event-ID": "99999999"}, {"Last-Event-ID": "-1"}):
            other = home.new("--empty")
            assert c("GET", f"/v1/sandboxes/{other}/events", headers=bad)[0] == 400
        assert c("GET", "/v1/sandboxes/nothing/events")[0] == 404
        for s in (live, start, back, some):
            s.close()


def test_events_of_all(home):
    t = token(home, "--scope", "read")
    a = home.new("--empty")
    with serving(home) as port:
        c = Caller(port, t)
        s = Stream(c, "/v1/events")
        home.skep("exec", a, "--", "true").ok()
        first = s.until("exec.exit")
        assert {x[2]["sandbox"] for x in first} == {a}
        b = home.new("--empty")
        assert s.next()[2]["sandbox"] == b
        home.skep("exec", b, "--", "true").ok()
        s.until("exec.exit")
        s.close()
        home.skep("exec", a, "--", "true").ok()
        again = Stream(c, "/v1/events?type=exec", {"Last-Event-ID": first[-1][0]})
        got = [again.next() for _ in range(4)]
        assert {x[2]["sandbox"] for x in got} == {a, b}
        assert len([x for x in got if x[2]["sandbox"] == a]) == 2  # none of those that were seen
        again.close()
        assert c("GET", "/v1/events", headers={"Last-Event-ID": "5"})[0] == 400


def test_events_end_with_their_token(home):
    home.new("--empty", "--label", "k=v")
    other = home.new("--empty")
    t = token(home, "--scope", "read", "--name", "x", "--on", "label=k=v")
    with serving(home) as port:
        c = Caller(port, t)
        s = Stream(c, "/v1/events")
        home.skep("exec", other, "--", "true").ok()  # is not for it
        mine = home.new("--empty", "--label", "k=v")
        assert s.next()[2]["sandbox"] == mine
        home.skep("token", "rm", "x").ok()
        assert c("GET", "/v1/events")[0] == 401
        s.r.fp.raw._sock.settimeout(40)
        assert s.next() is None
        s.close()


# -- the document -----------------------------------------------------------------------------------------------------
class Checked:
    """Asks, and holds every answer against the document."""

    def __init__(self, home):
        self.home = home
        self.doc = home.api("GET", "/v1/openapi.json")[1]
        self.seen = set()

    def schema(self, ref):
        return {"$ref": ref, "components": self.doc["components"]}

    def find(self, method, path):
        for pattern, ops in self.doc["paths"].items():
            if re.fullmatch(re.sub(r"\{[a-z0-9]+\}", "[^/]+", pattern), path.split("?")[0]) and method.lower() in ops:
                return pattern, ops[method.lower()]
        raise AssertionError(f"{method} {path} is not in the document")

    def __call__(self, method, path, body=None, wanted=None):
        pattern, op = self.find(method, path)
        status, reply = self.home.api(method, path, body)
        if body is not None and status < 300:
            self.check(op["requestBody"]["content"]["application/json"]["schema"], body)
        expected = op["responses"].get(str(status), op["responses"]["default"])
        assert status == wanted if wanted else str(status) in op["responses"], (method, path, reply)
        if "content" in expected and "schema" in expected["content"].get("application/json", {}):
            self.check(expected["content"]["application/json"]["schema"], reply)
        if status < 300:
            self.seen.add((method, pattern))
        return reply

    def check(self, schema, value):
        jsonschema.validate(value, {**schema, "components": self.doc["components"]}, cls=jsonschema.Draft202012Validator)


def test_document_is_true(home, project):
    home.skep("ps").ok()
    ask = Checked(home)
    jsonschema.Draft202012Validator.check_schema(ask.doc["components"]["schemas"]["Sandbox"])
    for name, schema in ask.doc["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        for ref in re.findall(r"#/components/schemas/(\w+)", str(schema)):
            assert ref in ask.doc["components"]["schemas"], (name, ref)
    for path, ops in ask.doc["paths"].items():
        for method, op in ops.items():
            assert not op["summary"].startswith("/"), f"{method} {path} is not described: src/api/openapi_table.c"
            for ref in re.findall(r"#/components/schemas/(\w+)", str(op)):
                assert ref in ask.doc["components"]["schemas"], (path, ref)
    ask("GET", "/v1/version")
    box = ask("POST", "/v1/sandboxes", {"cwd": home.dir, "name": "one", "labels": {"a": "b"}, "exec": {"argv": ["sh", "-c", "echo x > new"], "detach": True}})
    sid = box["id"]
    wait_for(lambda: ask("GET", f"/v1/execs/{box['exec']['id']}")["state"] == "exited", why="it to end")
    ask("GET", "/v1/sandboxes")
    ask("GET", f"/v1/sandboxes/{sid}")
    for verb in ("pause", "resume", "pin", "unpin", "stop", "start"):
        ask("POST", f"/v1/sandboxes/{sid}/{verb}", {})
    x = ask("POST", f"/v1/sandboxes/{sid}/execs", {"argv": ["sleep", "100"], "detach": True})["exec"]["id"]
    ask("GET", f"/v1/sandboxes/{sid}/execs")
    ask("GET", "/v1/execs?limit=1")
    ask("POST", f"/v1/execs/{x}/kill", {"signal": 9})
    wait_for(lambda: ask("GET", f"/v1/execs/{x}")["state"] == "exited", why="it to end")
    ask("POST", f"/v1/sandboxes/{sid}/exec", {"argv": ["sh", "-c", "echo new line > seen"]})
    files = f"/v1/sandboxes/{sid}/files"
    ask("GET", f"{files}/list?path=&depth=2")
    ask("GET", f"{files}/stat?path=seen")
    ask("POST", f"{files}/mkdir", {"path": "d"})
    ask("POST", f"{files}/copy", {"from": "seen", "to": "d/copy"})
    ask("POST", f"{files}/move", {"from": "d/copy", "to": "d/moved"})
    ask("POST", f"{files}/search", {"regex": "line"})
    ask("POST", f"{files}/edit", {"path": "seen", "edits": [{"old": "new", "new": "old"}]})
    ask("POST", f"{files}/remove", {"path": "d", "recursive": True})
    ask("DELETE", f"{files}?path=seen")
    ask("GET", f"/v1/sandboxes/{sid}/token")
    ask("GET", f"/v1/sandboxes/{sid}/journal/verify")
    ask("GET", f"/v1/sandboxes/{sid}/policy")
    ask("POST", f"/v1/sandboxes/{sid}/policy", {"allow": ["a.test"]})
    ask("POST", f"/v1/sandboxes/{sid}/policy/explain", {"host": "a.test"})
    ask("POST", "/v1/policy/check", {"host": "b.test:80", "method": "GET", "path": "/"})
    ask("GET", f"/v1/sandboxes/{sid}/asks")
    n = ask("POST", f"/v1/sandboxes/{sid}/snapshots", {"name": "m"})["id"]
    ask("GET", "/v1/snapshots")
    ask("GET", f"/v1/snapshots/{n}")
    ask("POST", f"/v1/sandboxes/{sid}/rollback", {"snapshot": "m"})
    ask("POST", f"/v1/sandboxes/{sid}/fork", {"count": 2})
    ask("POST", "/v1/policy", {"allow": ["c.test"]})
    ask("POST", "/v1/policy", {"remove": ["c.test"]})
    ask("GET", "/v1/policy")
    ask("POST", "/v1/secrets", {"name": "A", "host": "a.test", "as": "bearer", "value": "x"})
    ask("GET", "/v1/secrets")
    ask("DELETE", "/v1/secrets/A")
    ask("GET", f"/v1/trust?dir={home.dir}")
    ask("GET", "/v1/trust")
    ask("GET", "/v1/images")
    ask("POST", "/v1/gc", {"dry_run": True})
    made = ask("POST", "/v1/tokens", {"name": "t", "scope": "read", "ttl_ms": 100000})
    ask("GET", "/v1/tokens")
    listener = ask("POST", "/v1/listeners", {"address": "127.0.0.1:0", "public_urls": ["https://skep.example"]})
    ask("GET", "/v1/listeners")
    ask("DELETE", f"/v1/listeners/{listener['id']}")
    ask("DELETE", f"/v1/tokens/{made['id']}")
    ask("DELETE", f"/v1/snapshots/{n}")
    ask("DELETE", f"/v1/sandboxes/{sid}?force=1")
    # and errors
    for method, path, body, wanted in (("GET", "/v1/sandboxes/nothing", None, 404), ("POST", "/v1/sandboxes", {"nothing": 1}, 400),
                                       ("POST", "/v1/tokens", {"scope": "local"}, 400), ("DELETE", "/v1/images/nothing", None, 404),
                                       ("GET", "/v1/sandboxes?limit=x", None, 400)):
        error = ask(method, path, body, wanted)["error"]
        assert error["hint"]
    assert len(ask.seen) > 40
    unknown = home.api("GET", "/v1/nothing")
    assert unknown[0] == 404 and unknown[1]["error"]["kind"] == "not_found"


@pytest.mark.parametrize("path,kind", [("/v1/sandboxes/{}/journal", "application/x-ndjson"), ("/v1/execs/{}/output", "application/octet-stream")])
def test_document_names_media_types(home, path, kind):
    sid = home.new("--empty")
    home.skep("exec", sid, "--", "echo", "hi").ok()
    x = home.api("GET", "/v1/execs")[1]["execs"][0]["id"]
    doc = home.api("GET", "/v1/openapi.json")[1]
    assert list(doc["paths"][path.replace("{}", "{id}")]["get"]["responses"]["200"]["content"]) == [kind]
    assert home.api_raw("GET", path.format(x if "execs" in path else sid))[1]["Content-Type"] == kind
