# SPDX-License-Identifier: Apache-2.0
"""Files of a sandbox over HTTP."""
import hashlib
import json
import os
import socket
import threading
import time

from kit import IS_ROOT, wait_for
from stream_kit import Events, Files, connect, connection, http_do, query


def box(home, *args):
    sid = home.new("--empty", *args)
    return sid, Files(home, sid)


def test_bytes_go_up_and_down(home):
    sid, f = box(home)
    blob = os.urandom(300_000)
    rec = f.put("dir/a.bin", blob, parents=1, mode="0640")
    assert (rec["kind"], rec["size"], rec["mode"]) == ("file", len(blob), "0640")
    assert f.get("dir/a.bin") == blob
    assert home.skep("exec", sid, "--", "sha256sum", "dir/a.bin").ok().out.split()[0] == hashlib.sha256(blob).hexdigest()
    assert f.put("dir/a.bin", b"")["mode"] == "0640", "a mode is kept"
    assert f.get("dir/a.bin") == b""
    status, head, data = f.raw("HEAD", "dir/a.bin")
    assert (status, head["content-length"], data) == (200, "0", b"")


def test_ranges_and_etags(home):
    _, f = box(home)
    etag = f.put("x", b"0123456789")["etag"]
    for want, expect in {"bytes=2-4": b"234", "bytes=7-": b"789", "bytes=-3": b"789", "bytes=5-99": b"56789"}.items():
        status, head, data = f.raw("GET", "x", headers={"Range": want})
        assert (status, data) == (206, expect), want
        assert head["content-range"].endswith("/10") and head["content-length"] == str(len(expect))
    status, head, _ = f.raw("GET", "x", headers={"Range": "bytes=10-"})
    assert (status, head["content-range"]) == (416, "bytes */10")
    for odd in ("bytes=4-2", "bytes=0-1,4-5", "lines=1-2", "bytes=x-"):
        assert f.raw("GET", "x", headers={"Range": odd})[::2] == (200, b"0123456789"), odd
    status, head, data = f.raw("GET", "x", headers={"If-None-Match": f'"nope", "{etag}"'})
    assert (status, head["etag"], data) == (304, f'"{etag}"', b"")
    assert f.raw("GET", "x", headers={"Range": "bytes=0-1", "If-Range": f'"{etag}"'})[0] == 206
    assert f.raw("GET", "x", headers={"Range": "bytes=0-1", "If-Range": '"old"'})[::2] == (200, b"0123456789")
    assert f.raw("PUT", "x", b"new", {"If-Match": '"old"'})[0] == 409
    new = f.put("x", b"new", {"If-Match": f'"{etag}"'})
    assert new["etag"] != etag
    assert f.raw("PUT", "x", b"more", {"If-None-Match": "*"})[0] == 409
    assert f.raw("PUT", "y", b"more", {"If-Match": "*"})[0] == 409
    assert f.put("y", b"y", {"If-None-Match": "*"})["size"] == 1
    assert f.get("x") == b"new"
    status, head, data = f.raw("HEAD", "x")
    assert (status, head["content-length"], head["etag"], data) == (200, "3", f'"{new["etag"]}"', b"")


def test_what_is_said_when_it_does_not_work(home):
    sid, f = box(home)
    f.do("mkdir", path="d")
    for method, path, status in (("GET", "none", 404), ("GET", "d", 400), ("DELETE", "none", 404), ("PUT", "no/dir/x", 404),
                                 ("PUT", "d", 400), ("GET", "", 400), ("GET", "/proc/1/environ", 403)):
        got, _, data = f.raw(method, path, b"x" if method == "PUT" else None)
        assert got == status, (method, path, data)
        assert json.loads(data)["error"]["message"]
    assert http_do(home, "GET", f"/v1/sandboxes/{sid}x/files?path=x")[0] == 404
    assert f.raw("PUT", "x", b"x", mode="9")[0] == 400
    if not IS_ROOT:
        assert f.raw("GET", "x", user="nobody")[0] in (400, 403, 404)


def test_listing_and_stat(home):
    sid, f = box(home)
    for name in ("a/b/c/deep", "a/one", "top"):
        f.put(name, b"1", parents=1)
    home.skep("exec", sid, "--", "ln", "-s", "one", "a/link").ok()
    status, top = f.ask("list", path="")
    assert status == 200 and {x["name"]: x["kind"] for x in top["files"]} == {"a": "dir", "top": "file"} and not top["more"]
    _, deep = f.ask("list", path="a", depth=3)
    assert {x["name"] for x in deep["files"]} == {"b", "b/c", "b/c/deep", "one", "link"}
    link = next(x for x in deep["files"] if x["name"] == "link")
    assert (link["kind"], link["target"]) == ("link", "one")
    assert f.ask("list", path="a", depth=3, limit=2)[1]["more"]
    assert f.ask("stat", path="a/link")[1]["kind"] == "link"
    one = f.ask("stat", path="a/link", follow=1)[1]
    me = home.skep("exec", sid, "--", "id", "-un").ok().line
    assert (one["kind"], one["size"], one["user"]) == ("file", 1, me)
    assert f.ask("list", path="top")[0] == 400 and f.ask("stat", path="gone")[0] == 404


def test_making_moving_copying_removing(home):
    sid, f = box(home)
    assert f.do("mkdir", path="p/q", mode="0700")[1]["mode"] == "0700"
    assert f.do("mkdir", path="p/q")[0] == 200 and f.do("mkdir", path="p/q", new=True)[0] == 409
    f.put("p/q/x", b"x")
    assert f.do("move", **{"from": "p/q/x", "to": "/tmp/elsewhere/x", "parents": True})[0] == 200, "another file system"
    assert f.get("/tmp/elsewhere/x") == b"x" and f.ask("stat", path="p/q/x")[0] == 404
    home.skep("exec", sid, "--", "sh", "-c", "mkdir t && echo 1 > t/f && ln -s f t/l && chmod 711 t").ok()
    assert f.do("copy", **{"from": "t", "to": "u"})[1]["mode"] == "0711"
    assert f.get("u/f") == b"1\n" and f.ask("stat", path="u/l")[1]["target"] == "f"
    assert f.do("copy", **{"from": "t", "to": "u"})[0] == 409 and f.do("move", **{"from": "u/f", "to": "t/f"})[0] == 409
    assert f.do("move", **{"from": "u/f", "to": "t/f", "replace": True})[0] == 200
    assert f.do("copy", **{"from": "t", "to": "t/t"})[0] == 400, "into itself"
    assert f.raw("DELETE", "t")[0] == 409 and f.raw("DELETE", "t", recursive=1)[0] == 204
    assert f.raw("DELETE", "u/l")[0] == 204 and f.do("remove", path="u", recursive=True)[0] == 204
    assert {x["name"] for x in f.ask("list", path="")[1]["files"]} == {"p"}


def test_a_directory_of_a_lower_layer_moves(home):
    os.makedirs(f"{home.dir}/low/sub")
    with open(f"{home.dir}/low/sub/f", "w", encoding="utf-8") as out:
        out.write("host")
    f = Files(home, home.new())
    status, rec = f.do("move", **{"from": "low", "to": "high"})
    assert status == 200, rec
    assert f.get("high/sub/f") == b"host" and f.ask("stat", path="low")[0] == 404


def test_search(home):
    _, f = box(home)
    f.put("src/a.py", b"import os\ndef f(x):\n    return 42\n", parents=1)
    f.put("src/b.txt", b"Return to sender\r\nno\n")
    f.put("src/bin", b"return\0\1\2")
    f.put(".hidden/x", b"return\n", parents=1)
    f.put("long", b"y" * 3000 + b" return\n")
    _, got = f.do("search", regex=r"return\s+\d+", path="")
    assert [(h["path"], h["line"], h["column"], h["text"]) for h in got["hits"]] == [("src/a.py", 3, 5, "    return 42")]
    _, got = f.do("search", regex="return", ignore_case=True)
    assert [h["path"] for h in got["hits"]] == ["long", "src/a.py", "src/b.txt"] and not got["more"]
    assert got["hits"][2]["text"] == "Return to sender"
    assert [h["path"] for h in f.do("search", regex="return", hidden=True, globs=["*x*"])[1]["hits"]] == [".hidden/x"]
    assert [h["path"] for h in f.do("search", globs=["*.py", "src/*.txt"])[1]["hits"]] == ["src/a.py", "src/b.txt"]
    assert [h["path"] for h in f.do("search", regex="f(x)", literal=True)[1]["hits"]] == ["src/a.py"]
    assert [h["path"] for h in f.do("search", regex="return", **{"not": ["src"]})[1]["hits"]] == ["long"]
    assert f.do("search", regex=".", limit=2)[1]["more"]
    # Counted repeats multiply, and a line may take longer than there is time.
    for big in ("(((a{255}){255}){255}){255}", "(a{1,100}){1,100}", "([(){}]{0,255}){0,255}", "(" * 300 + "a" + "){2}" * 300):
        status, bad = f.do("search", regex=big)
        assert status == 400 and "too large" in bad["error"]["message"], bad
    assert f.do("search", regex="(" * 20 + "x{3}" + ")" * 20 + "{0,255}|[]{9}]{200}|a{9}")[0] == 200
    f.put("slow/line", b"a" * 1000000, parents=1)
    began = time.monotonic()
    assert f.do("search", regex="(a{0,60}){0,60}b", path="slow", timeout_ms=500)[1]["more"]
    assert time.monotonic() - began < 30
    status, bad = f.do("search", regex="(")
    assert status == 400 and "(" in bad["error"]["message"]


def test_exact_replacement(home):
    _, f = box(home)
    etag = f.put("x", b"one two two\nthree\n", mode="0755")["etag"]
    assert f.do("edit", path="x", edits=[{"old": "two", "new": "2"}])[0] == 409, "twice"
    assert f.do("edit", path="x", edits=[{"old": "nope", "new": ""}])[0] == 400
    assert f.do("edit", path="x", edits=[{"old": "one", "new": "1"}, {"old": "nope", "new": ""}])[0] == 400
    assert f.get("x") == b"one two two\nthree\n", "all or none"
    status, got = f.do("edit", path="x", etag=etag, edits=[{"old": "two", "new": "2", "all": True}, {"old": "three", "new": "3"}])
    assert (status, got["replaced"], got["line"], got["file"]["mode"]) == (200, 3, 1, "0755")
    assert f.get("x") == b"one 2 2\n3\n"
    assert f.do("edit", path="x", etag=etag, edits=[{"old": "one", "new": "1"}])[0] == 409, "it changed since"


def test_links_are_written_through(home):
    sid, f = box(home)
    home.skep("exec", sid, "--", "sh", "-c", "mkdir d && echo old > d/real && ln -s d/real l").ok()
    f.put("l", b"new")
    assert f.get("d/real") == b"new" and f.ask("stat", path="l")[1]["kind"] == "link"


def test_half_an_upload_is_none(home):
    sid, f = box(home)
    f.put("x", b"whole")
    s = connect(home)
    s.sendall(f"PUT /v1/sandboxes/{sid}/files{query(path='x')} HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n".encode() + b"y" * 5000)
    wait_for(lambda: len(f.ask("list", path="")[1]["files"]) == 2, why="the upload to begin")
    s.shutdown(socket.SHUT_RDWR)
    s.close()
    wait_for(lambda: [x["name"] for x in f.ask("list", path="")[1]["files"]] == ["x"], why="what was half there to go")
    assert f.get("x") == b"whole"


def test_watch(home):
    _, f = box(home)
    f.put("d/old", b"1", parents=1)
    ev = Events(home, "GET", f"{f.base}/watch{query(path='', recursive=1)}")
    assert ev.next()["event"] == "ready"
    f.do("mkdir", path="d/new")
    seen = []

    def until(kind, name):
        while not seen or (seen[-1]["event"], seen[-1]["name"]) != (kind, name):
            seen.append(ev.next())
            assert seen[-1], seen

    until("create", "d/new")
    f.put("d/new/x", b"2")
    until("create", "d/new/x")
    f.do("move", **{"from": "d/new/x", "to": "d/y"})
    until("rename", "d/new/x")
    until("create", "d/y")
    f.raw("DELETE", "d/y")
    until("remove", "d/y")
    ev.close()
    assert Events(home, "GET", f"{f.base}/watch{query(path='none')}").status == 404


def test_a_sandbox_without_a_cell(home):
    sid, f = box(home)
    f.put("x", b"kept")
    home.skep("stop", sid).ok()
    assert f.get("x") == b"kept" and f.put("y", b"2")["size"] == 1
    assert home.skep("exec", sid, "--", "cat", "x", "y").ok().out == "kept2"


def memory(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as s:
        return next(int(x.split()[1]) for x in s if x.startswith("VmHWM"))


def test_a_gigabyte_up_and_down_in_little_memory(home):
    sid, f = box(home, "--disk", "4g")
    f.put("warm", b"x")
    pid = home.skepd_pid()
    before = memory(pid)
    total, block = 1 << 30, os.urandom(1 << 20)
    sent = hashlib.sha256()

    def body():
        for i in range(total // len(block)):
            piece = i.to_bytes(8, "little") + block[8:]
            sent.update(piece)
            yield piece

    c = connection(home, 300)
    c.request("PUT", f.base + query(path="/tmp/big" if IS_ROOT else "big"), body(), {"Content-Length": str(total)})
    r = c.getresponse()
    assert r.status == 200, r.read()
    r.read()
    c.request("GET", f.base + query(path="/tmp/big" if IS_ROOT else "big"))
    r = c.getresponse()
    got = hashlib.sha256()
    while part := r.read(1 << 20):
        got.update(part)
    assert got.digest() == sent.digest()
    c.close()
    assert memory(pid) - before < 32 << 10, "skepd holds what passes through it"


def test_a_slow_reader_holds_nobody_else(home):
    sid, f = box(home)
    home.skep("exec", sid, "--", "sh", "-c", "head -c 64m /dev/zero > z").ok()
    pid = home.skepd_pid()
    before = memory(pid)
    s = connect(home)
    s.sendall(f"GET {f.base}{query(path='z')} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert s.recv(100)
    assert f.put("other", b"x")["size"] == 1
    assert memory(pid) - before < 16 << 10
    s.close()
    wait_for(lambda: not [p for p in home.api("GET", f"/v1/sandboxes/{sid}/execs")[1]["execs"] if p["state"] == "running"])


def test_many_at_once(home):
    _, f = box(home)
    wrong = []

    def work(i):
        blob = os.urandom(50_000 + i)
        for _ in range(3):
            f.put(f"f{i}", blob)
            if f.get(f"f{i}") != blob:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
