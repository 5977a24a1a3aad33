# SPDX-License-Identifier: Apache-2.0
"""gRPC, a real client inside and a real server on the host, through a connection that the gate opens: what streams in
either direction streams, and what comes behind the last message comes too."""
import subprocess
import sys

import pytest

from net_kit import PYTHON, Cell
from test_secrets import authority  # noqa: F401  pylint: disable=unused-import
from tls_kit import NAMES, believe, set_secret

VALUE = "v4lue-of-the-token"

SERVER = r"""
import concurrent.futures, grpc, sys
def one(b, c):
    c.send_initial_metadata((("x-first", "yes"),))
    c.set_trailing_metadata((("x-last", "yes"), ("x-auth", dict(c.invocation_metadata()).get("authorization", ""))))
    if b == b"missing": c.abort(grpc.StatusCode.NOT_FOUND, "no such thing: \u00e4")
    return b[::-1]
def down(b, c):
    for i in range(int(b)): yield b"%d" % i
def up(all_of_them, c):
    return b"%d" % sum(len(b) for b in all_of_them)
def both(all_of_them, c):
    for b in all_of_them: yield b"got " + b
s = grpc.server(concurrent.futures.ThreadPoolExecutor(8), options=[("grpc.max_receive_message_length", 64 << 20)])
s.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", {
    "One": grpc.unary_unary_rpc_method_handler(one), "Down": grpc.unary_stream_rpc_method_handler(down),
    "Up": grpc.stream_unary_rpc_method_handler(up), "Both": grpc.stream_stream_rpc_method_handler(both)}),))
cert, key = (open(p, "rb").read() for p in sys.argv[1:3])
print(s.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, cert)])), flush=True)
s.start()
sys.stdin.read()
s.stop(0)
"""

CLIENT = r"""
import grpc, os, queue, sys, threading
ch = grpc.secure_channel(sys.argv[1], grpc.ssl_channel_credentials(), options=[("grpc.max_receive_message_length", 64 << 20)])
one, down, up, both = ch.unary_unary("/t.T/One"), ch.unary_stream("/t.T/Down"), ch.stream_unary("/t.T/Up"), ch.stream_stream("/t.T/Both")
def said(call): return dict(call.initial_metadata()).get("x-first"), dict(call.trailing_metadata()).get("x-last")
out, call = one.with_call(b"abc", timeout=20)
say([out.decode(), *said(call)])
try: one(b"missing", timeout=20)
except grpc.RpcError as e: say([e.code().name, e.details(), dict(e.trailing_metadata()).get("x-last")])
big = os.urandom(3 << 20)
say(one(big, timeout=20) == big[::-1])
say([b.decode() for b in down(b"200", timeout=20)] == [str(i) for i in range(200)])
say(up((b"x" * 70000 for _ in range(50)), timeout=20).decode())
# a question after each answer: nothing may be held back until there is more
q, answers = queue.Queue(), []
call = both(iter(q.get, None), timeout=20)
for i in range(100):
    q.put(b"%d" % i)
    answers.append(next(call))
q.put(None)
say([answers[-1].decode(), len(answers), len(list(call)), call.code().name])
# many at once on one connection
out = [one.future(b"%d" % i, timeout=20) for i in range(200)]
say([f.result().decode()[::-1] for f in out] == [str(i) for i in range(200)])
# one that is given up ends, the others go on
q2 = queue.Queue()
call = both(iter(q2.get, None), timeout=20)
q2.put(b"a")
next(call)
call.cancel()
say([call.code().name, one(b"xy", timeout=20).decode()])
q2.put(None)
_, call = one.with_call(b"t", timeout=20, metadata=(("authorization", "Bearer " + os.environ["TOK"]),))
say(dict(call.trailing_metadata())["x-auth"] == "Bearer " + os.environ["TOK"])
_, call = one.with_call(b"t", timeout=20, metadata=(("x-len", "1"),))
say(len(dict(call.trailing_metadata())["x-auth"]))
"""


@pytest.fixture
def server(home, authority):  # noqa: F811  pylint: disable=redefined-outer-name
    believe(home, authority.pem)
    p = subprocess.Popen([PYTHON, "-I", "-c", SERVER, *authority.leaf(*NAMES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr)
    yield int(p.stdout.readline())
    p.stdin.close()
    p.wait(20)


def test_streams_both_ways(home, server):
    set_secret(home, "TOK", VALUE, f"api.test:{server}", "bearer").ok()
    cell = Cell(home, "--secret", "TOK", "--allow", f"api.test:{server}=127.0.0.1", "--allow", f"other.test:{server}=127.0.0.1 open")
    got = cell.tries("import sys; sys.argv = ['x', 'api.test:%d']\n" % server + CLIENT)
    assert got[:8] == [["cba", "yes", "yes"], ["NOT_FOUND", "no such thing: \u00e4", "yes"], True, True, "3500000", ["got 99", 100, 0, "OK"], True, ["CANCELLED", "yx"]], got
    # the value went out, and came back masked, here in a trailer
    assert got[8] is True and got[9] == len("Bearer ") + len(cell.home.skep("exec", cell.id, "--", "sh", "-c", "printf %s $TOK").out), got
    used = cell.events("secret.used")
    assert len(used) > 50 and {e["secret"] for e in used} == {"TOK"}  # past a rate they are counted, not told
    paths = {e.get("path") for e in cell.events("net.request", name="api.test")}
    assert {"/t.T/One", "/t.T/Both", "/t.T/Up", "/t.T/Down"} <= paths, paths


def test_rules_count_for_each_call(home, server):
    cell = Cell(home, "--env", "TOK=x", "--allow", f"POST api.test:{server}/t.T/One=127.0.0.1")
    got = cell.tries(f"""
import grpc
ch = grpc.secure_channel("api.test:{server}", grpc.ssl_channel_credentials())
say(ch.unary_unary("/t.T/One")(b"ab", timeout=20).decode())
try: list(ch.unary_stream("/t.T/Down")(b"3", timeout=20)); say("passed")
except grpc.RpcError as e: say(e.code().name)
say(ch.unary_unary("/t.T/One")(b"cd", timeout=20).decode())""")
    assert got[0] == "ba" and got[1] in ("PERMISSION_DENIED", "UNKNOWN") and got[2] == "dc", got
    assert cell.event("net.request", verdict="deny")["path"] == "/t.T/Down" and cell.event("denied", what="request")
