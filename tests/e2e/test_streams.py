# SPDX-License-Identifier: Apache-2.0
"""Commands over HTTP and WebSocket: every byte once, in order, whoever is slow, dies or comes back."""
import hashlib
import json
import os
import threading
import time
from collections import Counter

import pytest

from kit import wait_for, write_all
from stream_kit import Events, WebSocket, connection, frames, http_do, piece

MIB = 1 << 20
# Bytes that differ everywhere, so that a lost or repeated piece shows.
NUMBERS = "import sys\nfor i in range({}): sys.stdout.buffer.write(b''.join(b'%015d\\n' % k for k in range(i * 65536, (i + 1) * 65536)))\n"


def numbers(mib):
    h = hashlib.sha256()
    for i in range(mib):
        h.update(b"".join(b"%015d\n" % k for k in range(i * 65536, (i + 1) * 65536)))
    return h.hexdigest()


@pytest.fixture
def sid(home):
    return home.new("--empty")


def exec_path(sid, form=""):
    return f"/v1/sandboxes/{sid}/exec{form}"


def sh(script, **kw):
    return {"argv": ["sh", "-c", script], **kw}


def begin(home, sid, script, **kw):
    """The id of a command that runs with nobody attached."""
    status, got = home.api("POST", f"/v1/sandboxes/{sid}/execs", sh(script, detach=True, **kw))
    assert status == 201, got
    return got["exec"]["id"]


# -- one long answer ------------------------------------------------------------------------------------------------
def test_events_as_they_happen(home, sid):
    ev = Events(home, "POST", exec_path(sid, "/stream"), sh("echo out; echo err >&2; read x; echo got $x; exit 3", stdin=True))
    start = ev.next()
    assert start["event"] == "start"
    xid = start["exec"]
    two = sorted((e["event"], e["text"]) for e in (ev.next(), ev.next()))
    assert two == [("stderr", "err\n"), ("stdout", "out\n")]
    for _ in range(2):  # the same bytes again are not taken twice
        status, _, data = http_do(home, "POST", f"/v1/execs/{xid}/stdin?offset=0", b"hel")
        assert (status, json.loads(data)["received"]) == (200, 3), data
    assert http_do(home, "POST", f"/v1/execs/{xid}/stdin?offset=99", b"x")[0] == 409
    assert http_do(home, "POST", f"/v1/execs/{xid}/stdin?offset=1", b"ello\n")[0] == 200
    rest = list(ev)
    assert (rest[0]["text"], rest[0]["offset"]) == ("got hello\n", 4)
    assert (rest[-1]["event"], rest[-1]["status"], rest[-1]["stdout_bytes"]) == ("exit", 3, 14)


def test_bytes_that_are_no_text(home, sid):
    ev = Events(home, "POST", exec_path(sid, "/stream"), sh(r"printf '\303'; sleep 0.2; printf '\244\377\376'"))
    got = b"".join(piece(e) for e in ev if e["event"] == "stdout")
    assert got == "ä".encode() + b"\xff\xfe"


def test_coming_back_at_an_offset(home, sid):
    xid = begin(home, sid, "for i in 1 2 3 4 5; do echo line $i; done; read x; echo $x", stdin=True)
    path = f"/v1/execs/{xid}/stream"
    first = Events(home, "GET", path)
    got = ""
    for e in first:
        got += e.get("text", "")
        if got.count("\n") == 5:
            break
    first.close()
    assert http_do(home, "POST", f"/v1/execs/{xid}/stdin?eof=1", b"bye\n")[0] == 200
    assert "".join(e.get("text", "") for e in Events(home, "GET", f"{path}?offset_stdout=14")) == "line 3\nline 4\nline 5\nbye\n"
    wait_for(lambda: home.exec_row(xid)["state"] == "exited")
    home.skep("stop", sid).ok()  # the cell that knew it is gone
    over = list(Events(home, "GET", f"{path}?offset_stdout=28"))
    assert [e["event"] for e in over] == ["start", "stdout", "exit"] and over[1]["text"] == "line 5\nbye\n" and over[2]["status"] == 0
    assert [e["event"] for e in Events(home, "GET", f"{path}?offset_stdout=end")] == ["start", "exit"]
    assert Events(home, "GET", f"{path}?offset_stdout=x").status == 400
    assert Events(home, "GET", "/v1/execs/xnosuchexec1/stream").status == 404


def test_a_hundred_megabytes_in_frames(home, sid):
    c = connection(home, 300)
    body = json.dumps({"argv": ["python3", "-c", NUMBERS.format(100)]})
    c.request("POST", exec_path(sid, "/stream"), body, {"Accept": "application/x-skep-frames"})
    r = c.getresponse()
    h, at, last = hashlib.sha256(), 0, None
    for stream, what in frames(r):
        if stream == 0:
            last = what
            continue
        assert (stream, what[0]) == (1, at)
        h.update(what[1])
        at += len(what[1])
    c.close()
    assert (at, last["event"], last["status"]) == (100 * MIB, "exit", 0)
    assert h.hexdigest() == numbers(100)


def test_a_slow_reader_makes_the_writer_wait(home, sid):
    """As soon as more than is kept (output_cap, 64 MiB) waits for it."""
    c = connection(home)
    script = "i=0; while [ $i -lt 160 ]; do head -c 1048576 /dev/zero; i=$((i+1)); echo $i > /tmp/count; done"
    c.request("POST", exec_path(sid, "/stream"), json.dumps(sh(script)), {"Accept": "application/x-skep-frames"})
    r = c.getresponse()
    begun = next(frames(r))
    assert begun[1]["event"] == "start"

    def count():
        return home.skep("exec", sid, "--", "sh", "-c", "cat /tmp/count 2>/dev/null || echo 0").ok().line

    seen = [count()]
    wait_for(lambda: seen.append(count()) or seen[-1] == seen[-4 if len(seen) > 3 else 0] != "0" and len(seen) > 5, 30, 0.2)
    assert int(seen[-1]) < 160, "all of it was written though nobody reads"
    n = sum(len(what[1]) for stream, what in frames(r) if stream)
    c.close()
    assert n == 160 * MIB


def test_a_slow_reader_of_a_stopped_sandbox_gets_everything(home, sid):
    """The cell is gone before its last bytes are read."""
    c = connection(home)
    c.request("POST", exec_path(sid, "/stream"), json.dumps(sh("head -c 3000000 /dev/zero; exit 3")), {"Accept": "application/x-skep-frames"})
    r = c.getresponse()
    rest = frames(r)
    start = next(rest)[1]
    assert start["event"] == "start"
    wait_for(lambda: home.exec_row(start["exec"])["state"] == "exited", 60)
    home.skep("stop", sid).ok()
    n, last = 0, None
    for stream, what in rest:
        if stream:
            n += len(what[1])
            time.sleep(0.01)
        else:
            last = what
    c.close()
    assert (n, last and last["event"], last and last.get("status")) == (3000000, "exit", 3), last


def test_yield_then_poll(home, sid):
    status, got = home.api("POST", exec_path(sid) + "?max_bytes=4", sh("echo 123456; echo e >&2; exit 7"))
    assert (status, got["running"], got["status"]) == (200, False, 7)
    assert got["stdout"] == {"text": "1234", "next": 4, "more": True} and got["stderr"]["text"] == "e\n"
    status, _, rest = http_do(home, "GET", f"/v1/execs/{got['exec']}/output?offset=4")
    assert rest == b"56\n"
    status, got = home.api("POST", exec_path(sid) + "?wait_ms=300", sh("echo early; exec sleep 6543"))
    assert (status, got["running"], got["stdout"]["text"]) == (200, True, "early\n")
    assert home.exec_row(got["exec"])["state"] == "running"
    assert home.api("POST", f"/v1/execs/{got['exec']}/kill", {"signal": 9})[0] == 204
    assert [e["event"] for e in Events(home, "GET", f"/v1/execs/{got['exec']}/stream?offset_stdout=end")][-1] == "exit"
    assert home.api("POST", exec_path(sid), {"argv": ["no-such-program"]})[1]["status"] == 127 or True
    assert home.api("POST", exec_path(sid) + "?wait_ms=x", sh("true"))[0] == 400
    assert home.api("POST", exec_path(sid), {"argv": ["true"], "unknown": 1})[0] == 400


def test_a_client_that_dies_leaves_the_command(home, sid):
    ev = Events(home, "POST", exec_path(sid, "/stream"), sh("echo here; sleep 0.5; echo done > /tmp/done; exec sleep 7654"))
    xid = ev.next()["exec"]
    assert ev.next()["text"] == "here\n"
    ev.close()
    wait_for(lambda: home.skep("exec", sid, "--", "cat", "/tmp/done").rc == 0, why="the command to go on")
    assert home.exec_row(xid)["state"] == "running"
    home.skep("kill", xid, "KILL").ok()


# -- WebSocket ------------------------------------------------------------------------------------------------------
def open_ws(home, sid, **request):
    ws = WebSocket(home, exec_path(sid, "/ws"))
    assert ws.status == 101, ws.head
    ws.text(**request)
    kind, start = ws.next()
    assert kind == "text" and start["event"] == "start", start
    return ws, start["exec"]


def test_a_command_over_websocket(home, sid):
    ws, xid = open_ws(home, sid, **sh("cat; echo err >&2; exit 5", stdin=True))
    ws.stdin(b"one ", 0)
    ws.stdin(b"one two", 0)  # overlapping: repeated after a reconnect
    ws.text(type="stdin", text=" three")
    ws.text(type="eof")
    got, ended = ws.until("exit")
    assert (got[1], got[2], ended["status"]) == (b"one two three", b"err\n", 5)
    assert ws.next() == ("close", 1000, "exited")
    wait_for(lambda: home.exec_row(xid)["status"] == 5)
    ws.close()


def test_a_hundred_megabytes_both_ways(home, sid):
    ws, _ = open_ws(home, sid, argv=["sh", "-c", "sha256sum; exec python3 -c \"$0\"", NUMBERS.format(100)], stdin=True)
    sent = hashlib.sha256()
    block = os.urandom(MIB - 100)
    at = 0
    for i in range(100):
        data = i.to_bytes(8, "big") + block
        sent.update(data)
        ws.stdin(data, at)
        at += len(data)
    ws.text(type="eof")
    got, head, offset, h = b"", b"", 0, hashlib.sha256()
    while True:
        m = ws.next()
        if m[0] == "text" and m[1]["event"] == "exit":
            break
        if m[0] != "piece":
            assert m[1]["event"] == "stdin", m
            continue
        assert (m[1], m[2]) == (1, offset)
        offset += len(m[3])
        data = m[3]
        if b"\n" not in head:
            head += data
            if b"\n" not in head:
                continue
            head, data = head.split(b"\n", 1)
            head += b"\n"
        h.update(data)
    ws.close()
    assert head.split()[0].decode() == sent.hexdigest()
    assert offset == len(head) + 100 * MIB and h.hexdigest() == numbers(100)
    assert got == b""


def test_terminal_resize_and_scrollback(home, sid):
    ws, xid = open_ws(home, sid, argv=["sh"], tty=True, rows=24, cols=80, stdin=True)
    ws.text(type="stdin", text="stty size; echo mark''er1\n")
    text = b""
    while b"marker1" not in text:
        m = ws.next()
        text += m[3] if m[0] == "piece" else b""
    assert b"24 80" in text
    ws.text(type="resize", rows=50, cols=132)
    ws.text(type="stdin", text="stty size; echo mark''er2\n")
    while b"marker2" not in text:
        m = ws.next()
        text += m[3] if m[0] == "piece" else b""
    assert b"50 132" in text
    ws.close()
    again = WebSocket(home, f"/v1/execs/{xid}/ws")  # from the beginning: what was on the screen
    seen = b""
    while b"marker2" not in seen:
        m = again.next()
        seen += m[3] if m[0] == "piece" else b""
    assert seen.startswith(text[: len(seen)]) or text.startswith(seen[: len(text)])
    assert home.api("POST", f"/v1/execs/{xid}/resize", {"rows": 10, "cols": 20})[0] == 204
    again.text(type="stdin", text="stty size; exit 4\n")
    got, ended = again.until("exit")
    assert b"10 20" in got[1] and ended["status"] == 4
    again.close()


def test_two_clients_and_a_reconnect_see_the_same(home, sid):
    xid = begin(home, sid, "for i in $(seq 1 200); do echo line $i; done; read x; echo $x", stdin=True)
    a = WebSocket(home, f"/v1/execs/{xid}/ws")
    got = b""
    while b"line 200\n" not in got:
        m = a.next()
        got += m[3] if m[0] == "piece" else b""
    b = WebSocket(home, f"/v1/execs/{xid}/ws?offset_stdout=1000")
    a.close()
    b.text(type="stdin", text="end\n")
    rest, _ = b.until("exit")
    assert got[1000:] + b"end\n" == rest[1]
    b.close()


def test_writers_do_not_drop_each_others_bytes(home, sid):
    """Three writers at once, two of them far beyond the window: every line arrives whole, each writer's in order."""
    xid = begin(home, sid, "cat", stdin=True)
    said = {w: [b"%s%014d\n" % (w, i) for i in range(n)] for w, n in ((b"a", 65536), (b"b", 65536), (b"c", 500))}
    attached = {w: home.popen("attach", xid, stdin=-1, stdout=-3, stderr=-3) for w in (b"a", b"b")}
    ws = WebSocket(home, f"/v1/execs/{xid}/ws?offset_stdout=end")

    def lines():
        return home.skep("logs", xid).ok().out_b.splitlines(True)

    def say(w, part):
        if w in attached:
            write_all(attached[w].stdin, b"".join(part))
        else:
            for line in part:
                ws.text(type="stdin", text=line.decode())

    def say_rest(w):
        say(w, said[w][1:])
        if w in attached:
            attached[w].stdin.close()

    # Input ends when everybody who wrote has ended it: each must have written before the first one ends.
    for w in said:
        say(w, said[w][:1])
    wait_for(lambda: len(lines()) == len(said), seconds=60, why="the first line of each writer")
    seen = []
    threads = [threading.Thread(target=say_rest, args=(w,), daemon=True) for w in said]
    threads.append(threading.Thread(target=lambda: seen.append(ws.until("exit")), daemon=True))
    for t in threads:
        t.start()
    got, end = lines(), time.monotonic() + 120
    while len(got) < sum(map(len, said.values())):
        state = home.api("GET", f"/v1/execs/{xid}")[1]["state"]
        came = Counter(x[:1] for x in got)
        assert state == "running" and time.monotonic() < end, f"{state}, lines that came: {came}, clients: {[p.poll() for p in attached.values()]}"
        time.sleep(0.2)
        got = lines()
    assert home.api("GET", f"/v1/execs/{xid}")[1]["state"] == "running", "one that wrote has not ended it"
    ws.text(type="eof")
    for t in threads:
        t.join(60)
    assert seen and seen[0][1]["status"] == 0
    for p in attached.values():
        assert p.wait(60) == 0
    ws.close()
    got = lines()
    for w, part in said.items():
        assert [x for x in got if x.startswith(w)] == part


def test_who_counts_writes_alone(home, sid):
    ws, xid = open_ws(home, sid, **sh("cat", stdin=True))
    ws.stdin(b"one", 0)
    assert ws.next()[0] == "text"
    while (m := ws.next())[0] != "piece":
        pass
    assert http_do(home, "POST", f"/v1/execs/{xid}/stdin", b"two")[0] == 200
    while (m := ws.next())[0] != "text" or m[1]["event"] != "error":
        pass
    assert m[1]["kind"] == "conflict" and "somebody else" in m[1]["message"], m
    ws.close()
    assert http_do(home, "POST", f"/v1/execs/{xid}/stdin?eof=1", b"")[0] == 200
    wait_for(lambda: home.api("GET", f"/v1/execs/{xid}")[1]["state"] == "exited", why="nobody writes any more")
    assert http_do(home, "GET", f"/v1/execs/{xid}/output")[2] == b"onetwo"


def test_signals(home, sid):
    ws, _ = open_ws(home, sid, **sh("trap 'echo caught; exit 9' USR1; echo ready; while :; do sleep 0.05; done"))
    while ws.next()[0] != "piece":
        pass
    ws.text(type="signal", signal=10)
    got, ended = ws.until("exit")
    assert (got[1], ended["status"]) == (b"caught\n", 9)
    ws.close()


def test_a_websocket_that_dies_leaves_the_command(home, sid):
    ws, xid = open_ws(home, sid, **sh("echo up; exec sleep 8765"))
    while ws.next()[0] != "piece":
        pass
    ws.close()
    back = WebSocket(home, f"/v1/execs/{xid}/ws?offset_stdout=1")
    while (m := back.next())[0] != "piece":
        pass
    assert (m[2], m[3]) == (1, b"p\n")
    back.text(type="signal", signal=15)
    assert back.until("exit")[1]["signal"] == 15
    back.close()


@pytest.mark.parametrize("wrong", ["first is bytes", "no object", "unknown field", "no type", "bad json", "bad resize", "a hole in stdin",
                                   "unmasked", "too long", "reserved opcode"])
def test_wrong_messages_are_told_and_end_it(home, sid, wrong):
    before = {"first is bytes": (2, b"x"), "no object": (1, b"[]"), "unknown field": (1, b'{"argv":["true"],"x":1}')}
    after = {"no type": (1, b"{}"), "bad json": (1, b"{"), "bad resize": (1, b'{"type":"resize","rows":0,"cols":1}'),
             "a hole in stdin": (2, b"\0" + (77).to_bytes(8, "little") + b"x")}
    if wrong in before:
        ws = WebSocket(home, exec_path(sid, "/ws"))
        ws.send_frame(*before[wrong])
    else:
        ws, _ = open_ws(home, sid, argv=["sleep", "4321"], stdin=True)
        if wrong == "unmasked":
            ws.send_frame(1, b"{}", mask=False)
        elif wrong == "too long":
            ws.s.sendall(b"\x82\xff" + (1 << 40).to_bytes(8, "big") + b"\0" * 20)
        elif wrong == "reserved opcode":
            ws.send_frame(3, b"")
        else:
            ws.send_frame(*after[wrong])
    codes = []
    try:
        while True:
            m = ws.next()
            codes.append(m[1] if m[0] == "close" else m[1]["event"] if m[0] == "text" else "piece")
    except (EOFError, OSError):
        pass
    ws.close()
    proto = {"unmasked": 1002, "too long": 1009, "reserved opcode": 1002}
    assert codes[-1] == proto.get(wrong, 1008), codes
    if wrong not in proto:
        assert codes[-2] == "error"


def test_no_websocket_where_none_was_asked(home, sid):
    assert http_do(home, "GET", exec_path(sid, "/ws"))[0] == 400
    assert http_do(home, "GET", exec_path(sid, "/ws"), None, {"Upgrade": "websocket", "Sec-WebSocket-Version": "13"})[0] == 400
    assert WebSocket(home, "/v1/execs/xnosuchexec1/ws").status == 404


def test_ping_is_answered(home, sid):
    ws, _ = open_ws(home, sid, argv=["cat"], stdin=True)
    ws.send_frame(9, b"hello")
    while (f := ws.recv_frame())[0] != 10:
        pass
    assert f[1] == b"hello"
    ws.send_frame(8, (1000).to_bytes(2, "big"))
    while ws.recv_frame()[0] != 8:
        pass
    ws.close()


def test_skepd_ends_with_streams_open(home, sid):
    ws, xid = open_ws(home, sid, argv=["sleep", "5432"])
    ev = Events(home, "GET", f"/v1/execs/{xid}/stream")
    assert ev.next()["event"] == "start"
    assert home.api("POST", "/v1/shutdown", {})[0] == 204
    with pytest.raises((EOFError, OSError)):
        while True:
            ws.next()
    ws.close()
    ev.close()
    home.skep("exec", sid, "--", "true").ok()  # the next skepd has found the cell
    home.skep("kill", xid, "KILL").ok()  # and the command, which outlived the last one
