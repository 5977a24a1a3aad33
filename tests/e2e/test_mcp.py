# SPDX-License-Identifier: Apache-2.0
"""MCP: messages on /mcp and on the stdio of skep mcp, what tools do, and what no tool does."""
import http.client
import json
import os
import queue
import signal
import socket
import subprocess
import threading

import pytest
from kit import find_procs, wait_for

MODERN = "2026-07-28"


class Http:
    """One POST per message, on skepd's own socket."""

    def __init__(self, home, query=""):
        self.home, self.query, self.n = home, query, 0
        home.skep("ps").ok()  # somebody must listen

    def connect(self):
        run = os.open(f"{self.home.skep_home}/run", os.O_PATH | os.O_DIRECTORY)
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(30)
        s.connect(f"/proc/self/fd/{run}/skepd.sock")
        os.close(run)
        c = http.client.HTTPConnection("localhost")
        c.sock = s
        return c

    def send(self, method, params=None, version=MODERN, headers=None, meta=None):
        self.n += 1
        params = dict(params or {})
        head = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if version == MODERN:
            params["_meta"] = {"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {}, **(meta or {})}
            head |= {"MCP-Protocol-Version": version, "Mcp-Method": method}
            name = params.get("name") if method == "tools/call" else params.get("uri")
            head |= {"Mcp-Name": name} if name else {}
        elif meta:
            params["_meta"] = meta
        c = self.connect()
        c.request("POST", "/mcp" + self.query, json.dumps({"jsonrpc": "2.0", "id": self.n, "method": method, "params": params}), {**head, **(headers or {})})
        return c

    def ask(self, *args, **kw):
        c = self.send(*args, **kw)
        r = c.getresponse()
        data = r.read()
        c.close()
        if (r.getheader("Content-Type") or "").startswith("text/event-stream"):
            events = [json.loads(x[6:]) for x in data.decode().split("\n") if x.startswith("data: ")]
            return r.status, events
        return r.status, json.loads(data) if data else None

    def tool(self, tool_, **args):
        status, answer = self.ask("tools/call", {"name": tool_, "arguments": args})
        assert status == 200, answer
        result = answer["result"]
        if result["isError"]:
            return result
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return result["structuredContent"]

    def refused(self, tool_, *words, **args):
        result = self.tool(tool_, **args)
        assert result.get("isError") is True, result
        said = result["content"][0]["text"]
        for w in words:
            assert w in said, said
        return said


class Stdio:
    """skep mcp as an agent runs it."""

    def __init__(self, home, *args, cwd=None):
        self.p = home.popen("mcp", *args, stdin=subprocess.PIPE, cwd=cwd)
        self.n, self.lines = 0, queue.Queue()
        self.reader = threading.Thread(target=lambda: [self.lines.put(json.loads(x)) for x in self.p.stdout], daemon=True)
        self.reader.start()

    def put(self, data):
        while data:
            data = data[self.p.stdin.write(data):]

    def write(self, message):
        self.put(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def ask(self, method, params=None):
        self.n += 1
        self.write({"id": self.n, "method": method, "params": params or {}})
        answer = self.lines.get(timeout=30)
        assert answer["id"] == self.n, answer
        return answer

    def tool(self, tool_, **args):
        answer = self.ask("tools/call", {"name": tool_, "arguments": args})
        assert "result" in answer, answer
        return answer["result"] if answer["result"]["isError"] else answer["result"]["structuredContent"]

    def close(self):
        self.p.stdin.close()
        self.reader.join(30)
        err = self.p.stderr.read().decode()
        assert self.p.wait(30) == 0, err
        return err


def test_what_can_not_be_read_is_answered_by_its_id(home):
    s = Stdio(home)
    for i, bad in enumerate((r'"params":{"name":"list","arguments":{"path":"a\u0000b"}}', r'"params":{"a":1,"a":2}', r'"params":{"a":"\ud800"}', '"params":{')):
        s.put(f'{{"jsonrpc":"2.0","id":{i + 70},"method":"tools/call",{bad}}}\n'.encode())
        answer = s.lines.get(timeout=30)
        assert answer["id"] == i + 70 and answer["error"]["code"] == -32700, answer
    s.close()


def test_tools(home, project):
    m = Http(home, f"?stdio=1&cwd={project}")
    sid = m.tool("sandbox_create", name="agents-own")["sandbox"]
    assert home.show("agents-own")["id"] == sid and home.show(sid)["repo"] == project
    ran = m.tool("run", sandbox=sid, command="cat README; echo oops >&2; exit 3")
    assert (ran["state"], ran["exit_code"], ran["stdout"], ran["stderr"]) == ("exited", 3, "a small project\n", "oops\n")
    assert m.tool("write", sandbox=sid, path="src/new/a.txt", content="one\ntwo\nthree\n")["size"] == 14
    edited = m.tool("edit", sandbox=sid, path="src/new/a.txt", old="two", new="zwei")
    assert (edited["replaced"], edited["line"]) == (1, 2)
    assert m.tool("read", sandbox=sid, path="src/new/a.txt", line=2, lines=1) | {"next": ""} == {"path": "src/new/a.txt", "text": "zwei\n", "first_line": 2, "last_line": 2, "size": 15, "more": True, "next": ""}
    m.refused("edit", "not in the file", sandbox=sid, path="src/new/a.txt", old="vier", new="")
    m.refused("edit", "give more", sandbox=sid, path="src/new/a.txt", old="e", new="")
    m.refused("edit", "read it again", sandbox=sid, path="src/new/a.txt", old="zwei", new="2", etag="0-0-0")
    assert m.tool("edit", sandbox=sid, path="src/new/a.txt", old="e", new="E", replace_all=True)["replaced"] == 4
    m.refused("write", "conflict", sandbox=sid, path="README", content="", new=True)
    m.refused("read", "Next: check the path", sandbox=sid, path="nowhere")
    m.refused("read", "use list", sandbox=sid, path="src")
    m.refused("read", "not text", sandbox=sid, path="/bin/sh")
    names = [e["name"] for e in m.tool("list", sandbox=sid, path="src", depth=3)["entries"]]
    assert "new" in names and "new/a.txt" in names
    assert m.tool("search", sandbox=sid, pattern="zwei")["hits"] == []
    assert [(h["path"], h["line"]) for h in m.tool("search", sandbox=sid, pattern="zw.i", ignore_case=True)["hits"]] == [("src/new/a.txt", 2)]
    assert [h["path"] for h in m.tool("search", sandbox=sid, glob="a.t*")["hits"]] == ["src/new/a.txt"]
    point = m.tool("snapshot", sandbox=sid, name="before")["snapshot"]
    m.tool("run", sandbox=sid, command="rm -rf src README")
    assert m.tool("rollback", sandbox=sid, snapshot="before")["snapshot"] == point
    assert "+onE" in m.tool("diff", sandbox=sid, path="src/new")["diff"]
    assert m.tool("diff", sandbox=sid, format="name-status")["diff"].split() == ["A", "src/new/a.txt"]
    assert m.tool("diff", sandbox=sid, max_output=256)["truncated"] is False
    fork = m.tool("fork", sandbox=sid, count=2)["sandboxes"]
    assert {s["sandbox"] for s in m.tool("sandbox_list")["sandboxes"]} == {sid, *fork}
    assert m.tool("read", sandbox=fork[1], path="src/new/a.txt")["first_line"] == 1
    state = m.tool("status", sandbox=sid)
    assert state["pending"] == 1 and point in [s["snapshot"] for s in state["snapshots"]]
    m.tool("run", sandbox=sid, command="cd /tmp; echo served > page; python3 -m http.server 8123 --bind 127.0.0.1", yield_ms=200)
    url = m.tool("preview", sandbox=sid, port=8123)["url"]
    assert f"8123-{sid}" in url
    wait_for(lambda: m.tool("run", sandbox=sid, command="python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8123))'")["exit_code"] == 0, why="the server inside")
    host = url.split("/")[2]
    c = http.client.HTTPConnection("127.0.0.1", int(host.split(":")[1]), timeout=20)
    c.request("GET", "/page", headers={"Host": host, "Cookie": url.split("?")[1]})  # as a browser has it after the link
    assert c.getresponse().read() == b"served\n"
    c.close()
    assert m.tool("policy", sandbox=sid)["network"]["policy"]["otherwise"] == "deny"
    assert m.tool("sandbox_stop", sandbox=sid)["state"] == "stopped"
    with open(f"{project}/README", encoding="utf-8") as f:
        assert f.read() == "a small project\n"
    assert not os.path.exists(f"{project}/src/new")


def test_commands_yield_and_are_polled(home, project):
    m = Http(home)
    sid = home.new("--empty")
    mark = f"{os.getpid()}77"
    ran = m.tool("run", sandbox=sid, command=f"echo begun; sleep {mark}", yield_ms=300)
    assert ran["state"] == "running" and "run_poll" in ran["next"]
    again = m.tool("run_poll", exec=ran["exec"], stdout_offset=ran["stdout_next"], yield_ms=0)
    assert (again["state"], again["stdout"], again["exec"]) == ("running", "", ran["exec"])
    assert m.tool("run_poll", exec=ran["exec"], yield_ms=0)["stdout"] == "begun\n"
    assert [x["exec"] for x in m.tool("status", sandbox=sid)["running"]] == [ran["exec"]]
    m.tool("run_kill", exec=ran["exec"], signal="KILL")
    ended = m.tool("run_poll", exec=ran["exec"])
    assert (ended["state"], ended["exit_code"], ended["signal"]) == ("exited", 137, 9)
    wait_for(lambda: home.exec_row(ran["exec"])["state"] == "exited", why="skepd to know")
    m.refused("run_kill", "has ended", exec=ran["exec"])
    # input, now and later
    assert m.tool("run", sandbox=sid, command="wc -c", stdin="12345")["stdout"] == "5\n"
    ran = m.tool("run", sandbox=sid, command="while read x; do echo got $x; done; echo over", interactive=True, yield_ms=200)
    ran = m.tool("run_poll", exec=ran["exec"], stdin="a\n", yield_ms=500)
    assert (ran["state"], ran["stdout"]) == ("running", "got a\n")
    ran = m.tool("run_poll", exec=ran["exec"], stdin="b\n", eof=True, stdout_offset=ran["stdout_next"])
    assert (ran["state"], ran["stdout"]) == ("exited", "got b\nover\n")
    wait_for(lambda: home.exec_row(ran["exec"])["state"] == "exited", why="skepd to know")
    m.refused("run_poll", "nobody to read", exec=ran["exec"], stdin="c\n")
    assert m.tool("run", sandbox=sid, command="sleep 50", timeout_ms=300)["timed_out"] is True


def test_long_output_is_a_resource(home, project):
    m = Http(home)
    sid = home.new("--empty")
    ran = m.tool("run", sandbox=sid, command="seq 1 100000; printf 'caf\\303\\251 \\377' >&2", max_output=1000)
    assert ran["stdout"].startswith("1\n2\n") and ran["stdout"].endswith("100000\n") and len(ran["stdout"]) < 1200
    assert ran["stdout_omitted"] == 588895 - 1000 and ran["stdout_next"] == 588895
    assert ran["stderr"] == "café �"
    uri = f"skep://exec/{ran['exec']}/stdout"
    _, answer = m.ask("tools/call", {"name": "run", "arguments": {"sandbox": sid, "command": "seq 1 10000", "max_output": 256}})
    assert [c["type"] for c in answer["result"]["content"]] == ["text", "resource_link"]
    read = m.ask("resources/read", {"uri": f"{uri}?offset=588888&length=100"})[1]["result"]
    assert read["contents"] == [{"uri": f"{uri}?offset=588888&length=100", "mimeType": "text/plain", "text": "100000\n"}] and read["cacheScope"] == "private"
    assert len(m.ask("resources/read", {"uri": f"{uri}?length=99999999"})[1]["result"]["contents"][0]["text"]) == 588895
    blob = m.ask("resources/read", {"uri": f"skep://file/{sid}/bin/true?length=10"})[1]["result"]["contents"][0]
    assert blob["blob"] == "f0VMRgIBAQAAAA=="
    listed = m.ask("resources/list")[1]["result"]["resources"]
    assert uri in [r["uri"] for r in listed]
    assert len(m.ask("resources/templates/list")[1]["result"]["resourceTemplates"]) == 2
    for bad in ("skep://exec/../stdout", "skep://exec/x/stdin", f"{uri}?offset=-1", f"{uri}?what=1", "skep://file/nobody/etc/passwd", "file:///etc/passwd", "", f"skep://file/{sid}/nothing", "skep://file/%zz/x"):
        status, answer = m.ask("resources/read", {"uri": bad}, headers={"Mcp-Name": bad or "x"} if bad else {})
        assert answer["error"]["code"] in (-32602, -32020), (bad, answer)


def test_eras_and_errors(home, project):
    m = Http(home)
    assert m.ask("server/discover")[1]["result"]["supportedVersions"] == [MODERN]
    status, answer = m.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}}, version=None)
    assert status == 200 and answer["result"]["protocolVersion"] == "2025-06-18"
    assert m.ask("initialize", {"protocolVersion": "1999-01-01"}, version=None)[1]["result"]["protocolVersion"] == "2025-11-25"
    assert m.ask("ping", version=None)[1]["result"] == {}
    assert m.ask("ping") == (404, {"jsonrpc": "2.0", "id": m.n, "error": {"code": -32601, "message": "no such method"}})
    assert m.ask("tools/list", headers={"Mcp-Method": "tools/call"})[1]["error"]["code"] == -32020
    assert m.ask("tools/call", {"name": "nothing"})[1]["error"]["code"] == -32602
    assert m.ask("tools/list", version=None, headers={"Mcp-Session-Id": "0" * 32})[0] == 404
    listed = m.ask("tools/list")[1]["result"]
    assert listed["ttlMs"] > 0 and listed == m.ask("tools/list")[1]["result"]
    for t in listed["tools"]:
        assert t["inputSchema"]["additionalProperties"] is False and t["outputSchema"]["type"] == "object" and t["annotations"]["title"], t
    for raw, status, code in [(b"{", 400, -32700), (b"[]", 400, -32600), (b"[" * 100000, 400, -32700), (b'{"jsonrpc":"2.0","id":1}', 400, -32600), (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', 400, -32700), (b"\xff" * 10, 400, -32700)]:
        c = m.connect()
        c.request("POST", "/mcp", raw, {"Content-Type": "application/json"})
        r = c.getresponse()
        assert (r.status, json.loads(r.read())["error"]["code"]) == (status, code), raw[:40]
    for method in ("GET", "DELETE", "PUT"):
        c = m.connect()
        c.request(method, "/mcp")
        assert c.getresponse().status in (404, 405), method


def test_nothing_leads_out(home, project):
    """T-078: what an agent might ask for to get more than its sandbox."""
    m = Http(home, f"?cwd={project}")
    sid = home.new("--empty")
    for field, value in {"mounts": [{"src": "/etc"}], "mount": "/", "net": "open", "allow": ["*"], "repo": "/", "cwd": "/etc", "profile": "root", "nested": True, "limits": {}, "secrets": ["X"], "image": "x", "env": ["LD_PRELOAD=x"], "git_env": ["GIT_SSH=x"], "sandbox_off": True}.items():
        m.refused("sandbox_create", "takes no", **{field: value})
        m.refused("run", "takes no" if field != "cwd" else "", **{"sandbox": sid, "command": "true", field: value} if field != "cwd" else {"sandbox": "nobody", "command": "true"})
    for tool in ("apply", "approve", "trust", "policy_set", "exec", "host_run", "sandbox_remove"):
        assert m.ask("tools/call", {"name": tool, "arguments": {}})[1]["error"]["code"] == -32602
    for word in ("../x", "a'b", "x" * 5000, "ä", "-", ""):
        m.refused("status", sandbox=word)
    assert home.ps()[0]["id"] == sid and len(home.ps()) == 1
    # what runs, runs inside
    ran = m.tool("run", sandbox=sid, command="id -u; cat /proc/1/comm; ls /root 2>&1 | head -1")
    assert ran["exit_code"] == 0


def test_tokens_count(home, project):
    """T-075 to T-077: over TCP, with the rights of a token."""
    mine, other = home.new("--empty"), home.new("--empty")
    tokens = {name: home.skep("token", "new", "--scope", scope, "--on", on).ok().line for name, scope, on in (("read", "read", "all"), ("own", "run", mine), ("run", "run", "all"))}
    host, port = home.skep("serve", "--listen", "127.0.0.1:0", "-d", "--json").json()["address"].split(":")

    class Tcp(Http):
        def __init__(self, token=None, query="", **headers):
            super().__init__(home, query)
            self.more = ({"Authorization": f"Bearer {token}"} if token else {}) | headers

        def connect(self):
            return http.client.HTTPConnection(host, int(port), timeout=30)

        def send(self, *args, headers=None, **kw):
            return super().send(*args, headers={**self.more, **(headers or {})}, **kw)

    for bad in (Tcp(), Tcp("skep_" + "0" * 64)):
        assert bad.ask("tools/list")[0] == 401
    for foreign in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}, {"Origin": "null"}):
        assert Tcp(tokens["run"], **foreign).ask("tools/list")[0] == 403
    assert Tcp(tokens["run"], Origin=f"http://{host}:{port}").ask("tools/list")[0] == 200
    read, own, run = (Tcp(tokens[k], f"?cwd={project}") for k in ("read", "own", "run"))
    assert read.tool("status", sandbox=mine)["sandbox"] == mine
    read.refused("run", "denied", sandbox=mine, command="true")
    read.refused("write", "denied", sandbox=mine, path="x", content="")
    read.refused("sandbox_create", "denied", empty=True)
    assert own.tool("run", sandbox=mine, command="echo hi")["stdout"] == "hi\n"
    theirs = run.tool("run", sandbox=other, command="echo theirs")["exec"]
    for tool, args in (("run", {"command": "true"}), ("status", {}), ("diff", {}), ("snapshot", {})):
        own.refused(tool, "denied", sandbox=other, **args)
    own.refused("run_poll", "denied", exec=theirs)
    own.refused("sandbox_create", "denied", empty=True)
    assert [s["sandbox"] for s in own.tool("sandbox_list")["sandboxes"]] == [mine]
    assert theirs not in json.dumps(own.ask("resources/list"))
    assert own.ask("resources/read", {"uri": f"skep://exec/{theirs}/stdout"})[1]["error"]["code"] == -32602
    # no directory of the host, whatever the address says
    made = run.tool("sandbox_create")["sandbox"]
    assert home.show(made)["repo"] is None


def test_one_sandbox_is_pinned(home, project):
    mine, other = home.new("--empty", "--name", "mine"), home.new("--empty")
    xid = home.skep("exec", "-d", other, "--", "echo", "secret").ok().line
    point = home.skep("snapshot", other, "theirs").ok() and home.api("GET", "/v1/snapshots")[1]["snapshots"][0]["id"]
    for way in (Http(home, "?sandbox=mine"), Stdio(home, "--sandbox", "mine")):
        listed = way.ask("tools/list")
        tools = {t["name"]: t for t in (listed[1] if isinstance(listed, tuple) else listed)["result"]["tools"]}
        assert "sandbox_create" not in tools and "fork" not in tools and "sandbox" not in tools["run"]["inputSchema"]["properties"]
        assert way.tool("run", command="echo here")["sandbox"] == mine
        assert "one sandbox only" in way.tool("run", command="true", sandbox=other)["content"][0]["text"]
        assert "one sandbox only" in way.tool("run_poll", exec=xid)["content"][0]["text"]
        assert "another sandbox" in way.tool("rollback", snapshot=point)["content"][0]["text"]
        asked = way.ask("resources/read", {"uri": f"skep://exec/{xid}/stdout"})
        assert (asked[1] if isinstance(asked, tuple) else asked)["error"]["code"] == -32602
        asked = way.ask("resources/list")
        assert xid not in json.dumps(asked)
    way.close()
    home.skep("mcp", "--sandbox", "nobody").fails(3, "no sandbox")
    home.skep("mcp", "--net", "open").fails(2, "--new")


def test_stdio_new_sandbox(home, project):
    s = Stdio(home, "--new")
    assert s.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}})["result"]["serverInfo"]["name"] == "skep"
    s.write({"method": "notifications/initialized"})
    assert "run" in [t["name"] for t in s.ask("tools/list")["result"]["tools"]]
    assert home.ps() == []  # nobody has asked for anything yet
    assert s.tool("run", command="cat README")["stdout"] == "a small project\n"
    assert len(home.ps()) == 1
    assert s.close() == ""
    wait_for(lambda: home.ps() == [], why="the untouched sandbox to go")
    s = Stdio(home, "--new")
    s.tool("write", path="README", content="changed\n")
    assert "skep diff" in s.close()
    (box,) = home.ps()
    assert home.skep("diff", box["id"], "--name-status").ok().out.split() == ["M", "README"]


@pytest.mark.parametrize("way", ["stdio", "modern", "legacy"])
def test_cancelled_call_ends_its_command(home, project, way):
    sid, mark = home.new("--empty"), f"{os.getpid()}{len(way)}99"
    params = {"name": "run", "arguments": {"command": f"sleep {mark}", "yield_ms": 60000}}
    if way == "stdio":
        s = Stdio(home, "--sandbox", sid)
        s.write({"id": "x", "method": "tools/call", "params": params})
        wait_for(lambda: find_procs(mark), why="the command")
        s.write({"method": "notifications/cancelled", "params": {"requestId": "x"}})
        wait_for(lambda: not find_procs(mark), why="the command to end")
        assert s.ask("ping")["result"] == {}  # and nothing more of the other one
        s.close()
        return
    m = Http(home, f"?sandbox={sid}")
    if way == "modern":
        c = m.send("tools/call", params)
        wait_for(lambda: find_procs(mark), why="the command")
        c.close()
        wait_for(lambda: not find_procs(mark), why="the command to end")
        return
    c = m.send("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}, version=None)
    r = c.getresponse()
    head = {"Mcp-Session-Id": r.getheader("Mcp-Session-Id"), "MCP-Protocol-Version": "2025-11-25"}
    c = m.send("tools/call", params, version=None, headers=head)
    number = m.n
    wait_for(lambda: find_procs(mark), why="the command")
    second = f"8{os.getpid()}11"  # who goes away in this era has cancelled nothing
    other = m.send("tools/call", {"name": "run", "arguments": {"command": f"sleep {second}", "yield_ms": 60000}}, version=None, headers=head)
    wait_for(lambda: find_procs(second), why="the second")
    other.close()
    note = m.connect()
    note.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}), {"Content-Type": "application/json", **head})
    assert note.getresponse().status == 202
    assert c.getresponse().read() == b""
    assert find_procs(second) and not find_procs(mark)
    home.skep("stop", sid).ok()
    wait_for(lambda: not find_procs(second), why="all to end")


def test_progress(home, project):
    m = Http(home, f"?sandbox={home.new('--empty')}")
    status, events = m.ask("tools/call", {"name": "run", "arguments": {"command": "echo working; sleep 2.5"}}, meta={"progressToken": 7})
    assert status == 200 and events[-1]["id"] == m.n and events[-1]["result"]["structuredContent"]["exit_code"] == 0
    told = [e["params"] for e in events[:-1]]
    assert len(told) >= 2 and all(t["progressToken"] == 7 and t["message"] == "working" for t in told)
    assert [t["progress"] for t in told] == sorted({t["progress"] for t in told})


def test_stdio_survives_what_comes(home, project):
    s = Stdio(home)
    s.put(b"garbage\n\n[]\n")
    assert [s.lines.get(timeout=30)["error"]["code"] for _ in range(2)] == [-32700, -32600]
    s.put(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * (9 << 20) + b'"}\n')
    assert "too long" in s.lines.get(timeout=30)["error"]["message"]
    assert s.ask("ping")["result"] == {}
    pid = home.skepd_pid()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: home.skepd_pid() != pid, why="skepd to die")
    assert s.ask("ping")["result"] == {}  # the next one answers
    s.close()
