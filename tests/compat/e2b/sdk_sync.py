# SPDX-License-Identifier: Apache-2.0
"""The Python SDK, the synchronous one."""
import time
import uuid

import pytest
from e2b import CommandExitException, NotFoundException, Sandbox, SandboxException, SandboxQuery, SandboxState, Template, TimeoutException


@pytest.fixture
def sandbox():
    made = []

    def make(*args, **kw):
        made.append(Sandbox.create(*args, **kw))
        return made[-1]

    yield make
    for s in made:
        s.kill()


def out(s, command, **kw):
    return s.commands.run(command, **kw).stdout.strip()


def until(what, seconds=20):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_create_info_connect_kill(sandbox):
    s = sandbox(timeout=60, metadata={"a b": "c&d"}, envs={"FOO": "bar"})
    assert s.is_running()
    assert out(s, "whoami; pwd; echo $FOO") == "user\n/home/user\nbar"
    assert out(s, "whoami", user="root") == "root"
    info = s.get_info()
    assert (info.sandbox_id, info.name, info.metadata, info.state) == (s.sandbox_id, "base", {"a b": "c&d"}, SandboxState.RUNNING)
    c = Sandbox.connect(s.sandbox_id)
    c.commands.run("echo here > file")
    assert out(s, "cat file") == "here"
    assert s.get_metrics()[0].mem_total > 0
    assert s.kill() is True
    assert s.kill() is False
    assert not s.is_running()
    with pytest.raises(NotFoundException):
        Sandbox.connect(s.sandbox_id)
    with pytest.raises(NotFoundException):
        s.set_timeout(10)


def test_commands(sandbox):
    s = sandbox()
    with pytest.raises(CommandExitException) as e:
        s.commands.run("echo out; echo err >&2; exit 3")
    assert (e.value.exit_code, e.value.stdout, e.value.stderr) == (3, "out\n", "err\n")
    h = s.commands.run("read x; echo got $x", background=True, stdin=True)
    s.commands.send_stdin(h.pid, "this\n")
    assert h.wait().stdout == "got this\n"
    h = s.commands.run("sleep 60", background=True)
    assert any(p.pid == h.pid for p in s.commands.list())
    assert s.commands.kill(h.pid) is True
    assert s.commands.kill(h.pid) is False
    with pytest.raises(TimeoutException):
        s.commands.run("sleep 60", timeout=1)


def test_list(sandbox):
    mark = str(uuid.uuid4())
    made = [sandbox(metadata={"mark": mark, "odd": "a=b & c"}) for _ in range(3)]
    made[1].pause()
    p = Sandbox.list(query=SandboxQuery(metadata={"mark": mark, "odd": "a=b & c"}), limit=2)
    ids = []
    while p.has_next:
        ids += [x.sandbox_id for x in p.next_items()]
    assert ids == [s.sandbox_id for s in reversed(made)]
    paused = Sandbox.list(query=SandboxQuery(metadata={"mark": mark}, state=[SandboxState.PAUSED])).next_items()
    assert [x.sandbox_id for x in paused] == [made[1].sandbox_id]


def test_pause_resume_and_timeout(sandbox):
    s = sandbox(timeout=60)
    s.commands.run("echo kept > file")
    s.pause()
    assert not s.is_running()
    assert s.get_info().state == SandboxState.PAUSED
    s.connect()
    assert out(s, "cat file") == "kept"
    s.set_timeout(1)
    until(lambda: not s.is_running())
    a = sandbox(timeout=1, lifecycle={"on_timeout": "pause", "auto_resume": True})
    until(lambda: a.get_info().state == SandboxState.PAUSED)
    assert out(a, "echo again") == "again"


def test_a_create_that_is_sent_again(sandbox):
    key = uuid.uuid4().hex
    a = sandbox(metadata={"key": key}, idempotency_key=key)
    b = sandbox(metadata={"key": key}, idempotency_key=key)
    assert a.sandbox_id == b.sandbox_id and out(b, "echo here") == "here"
    assert len(Sandbox.list(query=SandboxQuery(metadata={"key": key})).next_items()) == 1
    with pytest.raises(SandboxException, match="409"):
        sandbox(metadata={"key": "other"}, idempotency_key=key)
    assert sandbox(metadata={"key": key}, idempotency_key=key + "-2").sandbox_id != a.sandbox_id


def test_network(sandbox):
    s = sandbox(network={"allow_out": ["example.com", "203.0.113.0/24"], "deny_out": ["0.0.0.0/0"],
                         "rules": {"*.example.com": [{"transform": {"headers": {"X-Key": "value-of-the-key"}}}]}})
    look = lambda name: out(s, f"getent hosts {name} >/dev/null && echo yes || echo no")
    assert (look("example.com"), look("example.net")) == ("yes", "no")
    got = s.get_info().network
    assert got["rules"]["*.example.com"][0]["transform"]["headers"] == {"X-Key": "***"} and got["allow_out"] == ["example.com", "203.0.113.0/24"]
    s.update_network({"deny_out": ["203.0.113.0/24"]})
    assert look("example.net") == "yes"


def test_snapshot_and_fork(sandbox):
    s = sandbox()
    s.commands.run("echo one > file; echo tmp > /tmp/file")
    snap = s.create_snapshot()
    n = sandbox(snap.snapshot_id)
    assert out(n, "cat file /tmp/file") == "one\ntmp"
    assert Sandbox.delete_snapshot(snap.snapshot_id) is True
    assert Sandbox.delete_snapshot(snap.snapshot_id) is False


def test_template(sandbox):
    name = f"py-{uuid.uuid4().hex[:12]}"
    lines = []
    t = Template().from_base_image().run_cmd("echo built > file").set_envs({"A": "1"}).set_workdir("/home/user/w")
    Template.build(t, name, on_build_logs=lambda line: lines.append(line.message))
    assert any("echo built" in x for x in lines)
    assert Template.exists(name)
    assert out(sandbox(name), "pwd; cat ../file; echo $A") == "/home/user/w\nbuilt\n1"


def test_refusals():
    with pytest.raises(SandboxException):
        Sandbox.create("nobody-has-this")
    with pytest.raises(SandboxException):
        Sandbox.create(timeout=-1)
