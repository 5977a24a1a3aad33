# SPDX-License-Identifier: Apache-2.0
"""Volumes and secrets through the Python SDK."""
import io
import uuid

import pytest
from e2b import ALL_TRAFFIC, AuthenticationException, NotFoundException, Sandbox, SandboxException, Secret, Volume
from e2b.exceptions import SecretException, SecretNotFoundException, VolumeException, VolumePathNotFoundException


@pytest.fixture
def volume():
    v = Volume.create(f"v-{uuid.uuid4().hex[:12]}")
    yield v
    Volume.destroy(v.volume_id)


def test_life():
    name = f"life-{uuid.uuid4().hex[:8]}"
    v = Volume.create(name)
    assert (v.name, bool(v.token)) == (name, True)
    assert Volume.get_info(v.volume_id).token == v.token
    assert (v.volume_id, name) in [(x.volume_id, x.name) for x in Volume.list()]
    assert Volume.connect(v.volume_id).name == name
    with pytest.raises(VolumeException):
        Volume.create(name)
    assert Volume.destroy(v.volume_id) is True
    assert Volume.destroy(v.volume_id) is False
    with pytest.raises(NotFoundException):
        Volume.get_info(v.volume_id)


def test_files(volume):
    s = volume.write_file("/a.txt", "text")
    assert (s.name, s.path, s.type.value, s.size, s.mode, s.uid, s.gid) == ("a.txt", "/a.txt", "file", 4, 0o644, 1000, 1000)
    assert volume.read_file("/a.txt") == "text"
    with pytest.raises(VolumeException):
        volume.write_file("/a.txt", "other")
    volume.write_file("/a.txt", b"\x00\xff", force=True)
    assert volume.read_file("/a.txt", "bytes") == b"\x00\xff"
    big = bytes(range(256)) * 12000
    volume.write_file("/deep/er/big", io.BytesIO(big), force=True)
    assert b"".join(volume.read_file("/deep/er/big", "stream")) == big
    volume.write_file("/empty", "")
    assert (volume.read_file("/empty"), volume.read_file("/empty", "bytes"), list(volume.read_file("/empty", "stream"))) == ("", b"", [])
    with pytest.raises(VolumePathNotFoundException):
        volume.read_file("/missing")
    with pytest.raises(VolumePathNotFoundException):
        list(volume.read_file("/missing", "stream"))


def test_directories(volume):
    d = volume.make_dir("/d", mode=0o750, uid=1001, gid=1002)
    assert (d.type.value, d.mode, d.uid, d.gid) == ("directory", 0o750, 1001, 1002)
    with pytest.raises(VolumeException):
        volume.make_dir("/d")
    volume.make_dir("/d", force=True)
    with pytest.raises(VolumePathNotFoundException):
        volume.make_dir("/x/y")
    volume.make_dir("/x/y/z", force=True)
    volume.write_file("/x/y/f", "1")
    assert sorted(e.path for e in volume.list("/")) == ["/d", "/x"]
    assert sorted(e.path for e in volume.list("/", depth=3)) == ["/d", "/x", "/x/y", "/x/y/f", "/x/y/z"]
    u = volume.update_metadata("/x/y/f", uid=1001, gid=1001, mode=0o600)
    assert (u.uid, u.gid, u.mode) == (1001, 1001, 0o600)
    assert volume.exists("/x/y/f") and not volume.exists("/nope")
    volume.remove("/x")
    assert not volume.exists("/x/y")
    for f in (lambda: volume.remove("/x"), lambda: volume.list("/x"), lambda: volume.update_metadata("/x", mode=0o600)):
        with pytest.raises(VolumePathNotFoundException):
            f()
    with pytest.raises(VolumeException):
        volume.remove("/")
    with pytest.raises(VolumeException):
        volume.read_file("/../../etc/passwd")


def test_mounted(volume):
    volume.write_file("/from-outside", "o")
    a = Sandbox.create(volume_mounts={"/mnt/data": volume})
    b = Sandbox.create(volume_mounts={"/other": volume.name})
    try:
        assert a.commands.run("cat /mnt/data/from-outside; echo a > /mnt/data/a; stat -c %U /mnt/data/from-outside").stdout == "ouser\n"
        assert b.files.read("/other/a") == "a\n"
        b.files.write("/other/b", "b")
        assert (volume.read_file("/a"), volume.read_file("/b")) == ("a\n", "b")
        assert (volume.get_info("/a").uid, volume.get_info("/b").uid) == (1000, 1000)
        assert [(m["name"], m["path"]) for m in a.get_info().volume_mounts] == [(volume.name, "/mnt/data")]
        a.commands.run("ln -s /etc /mnt/data/out; ln -s a /mnt/data/in; mkfifo /mnt/data/fifo; rm /mnt/data/b")
        assert volume.read_file("/in") == "a\n"
        assert volume.get_info("/in").target == "a"
        for path in ("/out/passwd", "/out/hostname"):
            with pytest.raises(VolumePathNotFoundException):
                volume.read_file(path)
        for f in (lambda: volume.write_file("/out/x", "x"), lambda: volume.read_file("/fifo")):
            with pytest.raises(VolumeException):
                f()
        with pytest.raises(VolumeException):
            Volume.destroy(volume.volume_id)
    finally:
        a.kill()
        b.kill()
    assert volume.read_file("/a") == "a\n"
    with pytest.raises(SandboxException):
        Sandbox.create(volume_mounts={"/mnt/data": "no-such-volume"})


def test_token(volume):
    other = Volume.create(f"w-{uuid.uuid4().hex[:12]}")
    try:
        for token in (other.token, "vol_00", "x"):
            with pytest.raises(AuthenticationException):
                volume.list("/", token=token)
    finally:
        Volume.destroy(other.volume_id)


def test_secrets():
    name = f"key {uuid.uuid4().hex[:8]}"
    s = Secret.create(name, "v1", metadata={"a": "b"})
    assert (s.name, s.version, s.metadata) == (name, 1, {"a": "b"})
    with pytest.raises(SecretException, match="exists"):
        Secret.create(name, "again")
    u = Secret.update(name, "v2")
    assert (u.secret_id, u.version, u.metadata) == (s.secret_id, 2, {"a": "b"})
    assert Secret.update(s.secret_id, "v3", metadata={}).metadata == {}
    assert Secret.get_info(name).version == 3
    more = [Secret.create(f"{name}-{i}", "x") for i in range(3)]
    pages, page = Secret.list(limit=2), []
    while pages.has_next:
        page += pages.next_items()
    assert {name, *(m.name for m in more)} <= {x.name for x in page}
    assert len(page) == len({x.secret_id for x in page})
    for x in [s, *more]:
        assert Secret.destroy(x.secret_id) is True
    assert Secret.destroy(name) is False
    assert Secret.exists(name) is False
    with pytest.raises(SecretNotFoundException):
        Secret.get_info(name)
    with pytest.raises(SecretException, match="control character"):
        Secret.create(name, "a\nb")


def test_what_is_not_served():
    """Each as an exception of the SDK's own, with the reason in it."""
    proxy = {"address": "192.0.2.1:1080"}
    with pytest.raises(SandboxException, match="egressProxy"):
        Sandbox.create(network={"egress_proxy": proxy, "deny_out": [ALL_TRAFFIC]})
    with pytest.raises(SandboxException, match="mcp"):
        Sandbox.create(mcp={"github": {"token": "x"}})
    with pytest.raises(SandboxException, match="no secret"):
        Sandbox.create(network={"rules": {"api.test": [{"transform": {"headers": {"A": Secret.fill("no-such-secret")}}}]}})
