# SPDX-License-Identifier: Apache-2.0
"""E2B's Python SDK: commands, terminals, files and watches, by its synchronous and its asynchronous client."""
import asyncio
import io
import json
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from e2b import AsyncSandbox, FilesystemEventType as Event, FileType, Sandbox
from e2b.exceptions import AuthenticationException, InvalidArgumentException, NotFoundException, SandboxException, TimeoutException
from e2b.sandbox.commands.command_handle import CommandExitException, PtySize
from e2b.sandbox.filesystem.filesystem import WriteEntry


@pytest.fixture(scope="module")
def s():
    box = Sandbox.create(timeout=120, envs={"GLOBAL": "from create"})
    yield box
    box.kill()


def test_commands(s):
    r = s.commands.run("echo out; echo err >&2")
    assert (r.exit_code, r.stdout, r.stderr) == (0, "out\n", "err\n")
    assert s.commands.run(f'printf "{"a" * 8191}\\xe2"').stdout == "a" * 8191 + "\ufffd"
    assert s.commands.run('echo "$GLOBAL $MINE"', envs={"MINE": "x"}).stdout == "from create x\n"
    assert s.commands.run("id -un; pwd", user="root").stdout == "root\n/root\n"
    with pytest.raises(CommandExitException) as e:
        s.commands.run("exit 3")
    assert (e.value.exit_code, e.value.error) == (3, "exit status 3")
    with pytest.raises(InvalidArgumentException, match="cwd '/nope' does not exist"):
        s.commands.run("true", cwd="/nope")
    with pytest.raises(AuthenticationException, match="invalid username: 'zz'"):
        s.commands.run("true", user="zz")
    with pytest.raises(TimeoutException):
        s.commands.run("sleep 61", timeout=1)
    behind = s.commands.run("sleep 62", timeout=1, background=True)
    with pytest.raises(TimeoutException):
        for _ in behind:
            pass


def test_behind(s):
    h = s.commands.run("cat", background=True, stdin=True)
    s.commands.send_stdin(h.pid, "Hello,\nWorld!")
    for out, _, _ in h:
        assert out == "Hello,\nWorld!"
        break
    assert h.pid in [p.pid for p in s.commands.list()]
    assert s.commands.kill(h.pid) is True
    assert s.commands.kill(h.pid) is False
    with pytest.raises(CommandExitException):
        s.commands.run(f"kill -0 {h.pid}")
    with pytest.raises(NotFoundException):
        s.commands.connect(999999)
    h = s.commands.run("sleep 0.3; echo late", background=True)
    h.disconnect()
    assert s.commands.connect(h.pid).wait().stdout == "late\n"


def test_terminal(s):
    t = s.pty.create(PtySize(rows=24, cols=80), envs={"FOO": "bar"})
    s.pty.resize(t.pid, PtySize(rows=30, cols=100))
    s.pty.send_stdin(t.pid, b"echo $FOO; stty size; exit\n")
    seen = b""
    for _, _, data in t:
        seen += data or b""
    assert b"bar" in seen and b"30 100" in seen
    t = s.pty.create(PtySize(rows=24, cols=80))
    assert s.pty.kill(t.pid) is True


def test_files(s):
    assert s.files.write("p/a.txt", "hello").path == "/home/user/p/a.txt"
    assert s.files.read("p/a.txt") == "hello"
    assert bytes(s.files.read("p/a.txt", format="bytes")) == b"hello"
    assert b"".join(s.files.read("p/a.txt", format="stream")) == b"hello"
    s.files.write("p/b.bin", io.BytesIO(b"\0\1\r\n--\xff" * 10000))
    assert bytes(s.files.read("p/b.bin", format="bytes")) == b"\0\1\r\n--\xff" * 10000
    infos = s.files.write_files([WriteEntry(path=f"/m{i}/f{i}.txt", data=f"file {i}") for i in range(10)])
    assert [i.path for i in infos] == [f"/m{i}/f{i}.txt" for i in range(10)]
    assert s.files.read("/m7/f7.txt") == "file 7"
    assert s.files.write_files([]) == []
    i = s.files.get_info("p/a.txt")
    assert (i.name, i.type, i.size, i.mode, i.permissions, i.owner, i.group) == ("a.txt", FileType.FILE, 5, 0o644, "-rw-r--r--", "user", "user")
    s.commands.run("ln -s a.txt link", cwd="p")
    assert s.files.get_info("p/link").symlink_target == "/home/user/p/a.txt"
    assert [e.name for e in s.files.list("p")] == ["a.txt", "b.bin", "link"]
    assert s.files.make_dir("p/d") is True
    assert s.files.make_dir("p/d") is False
    assert s.files.rename("p/a.txt", "p/d/c.txt").path == "/home/user/p/d/c.txt"
    assert s.files.exists("p/d/c.txt") and not s.files.exists("p/a.txt")
    s.files.remove("p")
    assert not s.files.exists("p")
    for call in (lambda: s.files.read("none"), lambda: s.files.list("none"), lambda: s.files.get_info("none"), lambda: s.files.rename("none", "x")):
        with pytest.raises(NotFoundException):
            call()


def check_reading(read, whole, i):
    """One of fifty: a file that is there, one that is empty, or one that is missing."""
    path, want = (("all/there", TEXT), ("all/empty", ""), ("all/missing", None))[i % 3]
    try:
        got = whole(read(path))
    except NotFoundException:
        got = None
    assert got == want, (path, got if got is None else len(got))


TEXT = "a line of text, \u00fc\n" * 5000
FORMATS = {"text": lambda x: x, "bytes": lambda x: bytes(x).decode(), "stream": lambda x: b"".join(x).decode()}


def test_every_format_fifty_at_once(s):
    s.files.write("all/there", TEXT)
    s.files.write("all/empty", "")
    with ThreadPoolExecutor(50) as pool:
        for name, whole in FORMATS.items():
            read = lambda path, name=name: s.files.read(path, format=name)  # noqa: E731
            list(pool.map(lambda i, read=read, whole=whole: check_reading(read, whole, i), range(50)))


def test_every_format_fifty_at_once_asynchronous(s):
    async def one(box, name, i):
        path, want = (("all/there", TEXT), ("all/empty", ""), ("all/missing", None))[i % 3]
        try:
            got = await box.files.read(path, format=name)
            got = b"".join([p async for p in got]).decode() if name == "stream" else FORMATS[name](got)
        except NotFoundException:
            got = None
        assert got == want, (name, path)

    async def all_of_them():
        box = await AsyncSandbox.connect(s.sandbox_id)
        await box.files.write("all/there", TEXT)
        await box.files.write("all/empty", "")
        for name in FORMATS:
            await asyncio.gather(*(one(box, name, i) for i in range(50)))

    asyncio.run(all_of_them())


def test_metadata_and_gzip(s):
    assert s.files.write("meta", "x", metadata={"author": "me"}).metadata == {"author": "me"}
    assert s.files.get_info("meta").metadata == {"author": "me"}
    assert s.files.write("meta", "x").metadata is None
    s.files.write("zip", "z" * 1000000, gzip=True)
    assert s.files.read("zip", gzip=True) == "z" * 1000000


def test_signed(s):
    s.files.write("signed.txt", "for you")
    with urllib.request.urlopen(s.download_url("signed.txt", "user", 120)) as r:
        assert r.read() == b"for you"
    with pytest.raises(urllib.error.HTTPError) as e:
        urllib.request.urlopen(s.download_url("signed.txt", "user", use_signature_expiration=-120))
    assert e.value.code == 401
    assert json.loads(e.value.read()) == {"code": 401, "message": "signature is already expired"}


def test_watcher_that_is_asked(s):
    """All that happened before the question is in the answer, in its order."""
    s.files.make_dir("w/sub")
    w = s.files.watch_dir("w", recursive=True)
    for i in range(5):
        s.files.write(f"w/f{i}", "content")
        assert [(e.type, e.name) for e in w.get_new_events()] == [(Event.CREATE, f"f{i}"), (Event.CHMOD, f"f{i}"), (Event.WRITE, f"f{i}")]
    s.files.write("w/f0", "other")
    assert w.get_new_events()[0].type == Event.WRITE
    s.files.write("w/sub/g", "content")
    assert [e.name for e in w.get_new_events()] == ["sub/g"] * 3
    s.files.make_dir("w/new")
    s.files.write("w/new/h", "content")
    events = [(e.type, e.name) for e in w.get_new_events()]
    assert (Event.CREATE, "new") in events and (Event.WRITE, "new/h") in events
    assert w.get_new_events() == []
    w.stop()
    with pytest.raises(NotFoundException):
        s.files.watch_dir("none")
    with pytest.raises(SandboxException):
        s.files.watch_dir("w/f0")


def test_asynchronous():
    async def main():
        s = await AsyncSandbox.create(timeout=120)
        try:
            all_of_them = await asyncio.gather(*(s.commands.run(f"echo {i}") for i in range(10)))
            assert [r.stdout for r in all_of_them] == [f"{i}\n" for i in range(10)]
            await s.files.write("a.txt", "x")
            seen = asyncio.Event()
            w = await s.files.watch_dir("/home/user", on_event=lambda e: seen.set() if e.type == Event.WRITE and e.name == "a.txt" else None)
            await s.files.write("a.txt", "y")
            await asyncio.wait_for(seen.wait(), 20)
            await w.stop()
            h = await s.commands.run("sleep 60", background=True)
            waiting = asyncio.create_task(h.wait())
            await asyncio.sleep(0.1)
        finally:
            await s.kill()
        with pytest.raises(TimeoutException):
            await waiting

    asyncio.run(main())
