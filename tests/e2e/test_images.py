# SPDX-License-Identifier: Apache-2.0
"""Images: a directory, a tar, a docker-save archive, an OCI layout; hostile entries are refused."""
import gzip
import hashlib
import io
import json
import os
import shutil
import tarfile

import pytest

from kit import items

APPLETS = "sh ls cat echo id mkdir rm touch ln stat test true env pwd wc sleep find grep head".split()


@pytest.fixture
def rootfs(home, busybox):
    """A root file system of one static program."""
    d = f"{home.top}/rootfs"
    for sub in ("bin", "etc", "tmp", "home", "usr/lib"):
        os.makedirs(f"{d}/{sub}")
    shutil.copy(busybox, f"{d}/bin/busybox")
    for a in APPLETS:
        os.symlink("busybox", f"{d}/bin/{a}")
    with open(f"{d}/etc/passwd", "w", encoding="ascii") as f:
        f.write("root:x:0:0:root:/root:/bin/sh\napp:x:500:500::/home/app:/bin/sh\n")
    with open(f"{d}/etc/os-release", "w", encoding="ascii") as f:
        f.write("ID=tiny\n")
    with open(f"{d}/etc/first", "w", encoding="ascii") as f:
        f.write("layer one\n")
    return d


def tar_of(d, path, mode="w"):
    with tarfile.open(path, mode) as t:
        t.add(d, ".", filter=lambda i: (setattr(i, "uid", 0), setattr(i, "gid", 0), i)[2])
    return path


def entry(name, data=b"", kind=tarfile.REGTYPE, link="", mode=0o644):
    i = tarfile.TarInfo(name)
    i.size, i.type, i.linkname, i.mode = len(data), kind, link, mode
    return i, data


def tar_bytes(*entries):
    b = io.BytesIO()
    with tarfile.open(fileobj=b, mode="w") as t:
        for i, data in entries:
            t.addfile(i, io.BytesIO(data) if i.isreg() else None)
    return b.getvalue()


def sha(b):
    return hashlib.sha256(b).hexdigest()


CONFIG = {"architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/bin", "IMAGE_ENV=yes"], "WorkingDir": "/", "User": ""}}


def second_layer():
    return tar_bytes(entry("etc/.wh.first"), entry("etc/second", b"layer two\n"), entry("home/.wh..wh..opq"), entry("bin/hard", kind=tarfile.LNKTYPE, link="bin/busybox"))


def docker_save(path, layers):
    with tarfile.open(path, "w") as t:
        names = []
        for i, data in enumerate(layers):
            names.append(f"{sha(data)}/layer.tar")
            info, d = entry(names[i], data)
            t.addfile(info, io.BytesIO(d))
        config = json.dumps({**CONFIG, "rootfs": {"type": "layers", "diff_ids": ["sha256:" + sha(x) for x in layers]}}).encode()
        for name, data in ((sha(config) + ".json", config), ("manifest.json", json.dumps([{"Config": sha(config) + ".json", "RepoTags": ["tiny:latest"], "Layers": names}]).encode())):
            info, d = entry(name, data)
            t.addfile(info, io.BytesIO(d))
    return path


def oci_layout(d, layers):
    os.makedirs(f"{d}/blobs/sha256")

    def blob(data, kind):
        with open(f"{d}/blobs/sha256/{sha(data)}", "wb") as f:
            f.write(data)
        return {"mediaType": kind, "digest": "sha256:" + sha(data), "size": len(data)}

    config = json.dumps({**CONFIG, "rootfs": {"type": "layers", "diff_ids": ["sha256:" + sha(x) for x in layers]}}).encode()
    manifest = json.dumps({"schemaVersion": 2, "config": blob(config, "application/vnd.oci.image.config.v1+json"), "layers": [blob(gzip.compress(x), "application/vnd.oci.image.layer.v1.tar+gzip") for x in layers]}).encode()
    index = {"schemaVersion": 2, "manifests": [blob(manifest, "application/vnd.oci.image.manifest.v1+json")]}
    for name, value in (("index.json", index), ("oci-layout", {"imageLayoutVersion": "1.0.0"})):
        with open(f"{d}/{name}", "w", encoding="ascii") as f:
            json.dump(value, f)
    return d


def make(kind, home, rootfs):
    one = open(tar_of(rootfs, f"{home.top}/one.tar"), "rb").read()
    if kind == "directory":
        return rootfs
    if kind == "tar":
        return f"{home.top}/one.tar"
    if kind == "tar.gz":
        return tar_of(rootfs, f"{home.top}/one.tar.gz", "w:gz")
    if kind == "docker-save":
        return docker_save(f"{home.top}/save.tar", [one, second_layer()])
    if kind == "oci":
        return oci_layout(f"{home.top}/oci", [one, second_layer()])
    tar_of(oci_layout(f"{home.top}/oci", [one, second_layer()]), f"{home.top}/oci.tar")
    return f"{home.top}/oci.tar"


@pytest.mark.parametrize("kind", ["directory", "tar", "tar.gz", "docker-save", "oci", "oci.tar"])
def test_import_and_run(home, skep, rootfs, project, kind):
    source = make(kind, home, rootfs)
    iid = skep("image", "import", source, "--name", "tiny").ok().line
    assert iid.split()[0][0] == "i"
    assert [i["name"] for i in items(skep("image", "ls", "--json").json(), "images")] == ["tiny"]
    r = skep("run", "--image", "tiny", "--", "sh", "-c", "cat /etc/os-release; ls /usr/bin 2>/dev/null | wc -l; cat README").ok()
    assert r.out.splitlines() == ["ID=tiny", "0", "a small project"]
    r = skep("run", "--image", "tiny", "--", "sh", "-c", "test -e /etc/first && echo first; test -e /etc/second && echo second; exit 0").ok()
    layered = kind in ("docker-save", "oci", "oci.tar")
    assert r.out.split() == (["second"] if layered else ["first"])
    if layered:
        skep("run", "--image", "tiny", "--", "sh", "-c", "test /bin/hard -ef /bin/busybox && test -x /bin/hard").ok()


def test_image_root_is_writable_per_sandbox_and_never_in_the_image(home, skep, rootfs):
    skep("image", "import", rootfs, "--name", "tiny").ok()
    a = home.new("--image", "tiny", "--root", "--empty")
    b = home.new("--image", "tiny", "--root", "--empty")
    skep("exec", a, "--", "sh", "-c", "echo mine > /etc/mine; rm /etc/first; mkdir -p /opt/x").ok()
    assert skep("exec", a, "--", "cat", "/etc/mine").ok().line == "mine"
    skep("exec", b, "--", "sh", "-c", "test ! -e /etc/mine && test -e /etc/first").ok()
    skep("stop", a).ok()
    skep("exec", a, "--", "sh", "-c", "test -e /etc/mine && test ! -e /etc/first").ok()


def test_exec_as_a_user_of_the_image(home, skep, rootfs):
    skep("image", "import", rootfs, "--name", "tiny").ok()
    sid = home.new("--image", "tiny", "--root", "--empty")
    assert skep("exec", "-u", "app", sid, "--", "id", "-u").ok().line == "500"
    assert skep("exec", sid, "--", "id", "-u").ok().line == "0"


def test_cells_on_an_image_see_nothing_of_the_host(home, skep, rootfs):
    skep("image", "import", rootfs, "--name", "tiny").ok()
    r = skep("run", "--image", "tiny", "--empty", "--", "sh", "-c", "ls -d /lib/x86_64-linux-gnu /usr/share /var/lib/dpkg 2>/dev/null; exit 0").ok()
    assert r.out == ""


def test_in_use_is_a_conflict(home, skep, rootfs):
    skep("image", "import", rootfs, "--name", "tiny").ok()
    sid = home.new("--image", "tiny", "--empty")
    skep("image", "rm", "tiny").fails(4)
    skep("rm", "--force", sid).ok()
    skep("image", "rm", "tiny").ok()
    skep("image", "rm", "tiny").fails(3)
    assert not [x for x in os.listdir(f"{home.skep_home}/images") if os.listdir(f"{home.skep_home}/images/{x}")]


def test_same_name_twice(home, skep, rootfs):
    skep("image", "import", rootfs, "--name", "tiny").ok()
    skep("image", "import", rootfs, "--name", "tiny").fails(4, "tiny")


def test_bad_sources(home, skep):
    skep("image", "import", f"{home.top}/none", "--name", "x").fails(3, "none")
    with open(f"{home.top}/junk.tar", "wb") as f:
        f.write(os.urandom(100000))
    assert skep("image", "import", f"{home.top}/junk.tar", "--name", "x").rc in (1, 2)
    assert items(skep("image", "ls", "--json").json(), "images") == []


EVIL = {
    "dotdot": [entry("../evil", b"x")],
    "deep dotdot": [entry("a/../../../evil", b"x")],
    "absolute": [entry("/../../evil", b"x")],
    "through a link": [entry("d", kind=tarfile.SYMTYPE, link="../../.."), entry("d/evil", b"x")],
    "through an absolute link": [entry("d", kind=tarfile.SYMTYPE, link="VICTIM"), entry("d/evil", b"x")],
    "hard link out": [entry("h", kind=tarfile.LNKTYPE, link="../../../secret")],
    "hard link to a link": [entry("l", kind=tarfile.SYMTYPE, link="VICTIM/file"), entry("h", kind=tarfile.LNKTYPE, link="l")],
    "device": [entry("sda", kind=tarfile.BLKTYPE)],
    "whiteout out": [entry("../../victim/.wh.file")],
    "whiteout through a link": [entry("d", kind=tarfile.SYMTYPE, link="VICTIM"), entry("d/.wh.file")],
    "whiteout dotdot": [entry(".wh..")],
    "opaque through a link": [entry("d", kind=tarfile.SYMTYPE, link="VICTIM"), entry("d/.wh..wh..opq")],
}


@pytest.mark.parametrize("name", EVIL)
@pytest.mark.parametrize("form", ["tar", "docker-save"])
def test_hostile_entries(home, skep, rootfs, name, form):
    """Refused, or imported without any effect outside: the victim beside stays as it is."""
    victim = f"{home.top}/victim"
    os.mkdir(victim)
    with open(f"{victim}/file", "w", encoding="ascii") as f:
        f.write("host")
    entries = []
    for info, data in EVIL[name]:
        i = tarfile.TarInfo(info.name)
        i.size, i.type, i.mode, i.linkname = info.size, info.type, info.mode, info.linkname.replace("VICTIM", victim)
        entries.append((i, data))
    if form == "tar":
        source = f"{home.top}/evil.tar"
        with open(source, "wb") as f:
            f.write(tar_bytes(*entries))
    else:
        source = docker_save(f"{home.top}/evil.tar", [open(tar_of(rootfs, f"{home.top}/one.tar"), "rb").read(), tar_bytes(*entries)])
    before = sorted(os.listdir(home.top))
    r = skep("image", "import", source, "--name", "evil")
    assert r.rc in (0, 1, 2, 5) and len(r.err.splitlines()) <= 1
    assert sorted(os.listdir(home.top)) in (before, sorted(before + ["s"]))
    assert os.listdir(victim) == ["file"] and open(f"{victim}/file", encoding="ascii").read() == "host"
    assert not os.path.exists("/evil") and not os.path.exists("/tmp/evil")
    if r.rc == 0:
        for top, _, files in os.walk(f"{home.skep_home}/images"):
            assert os.stat(f"{victim}/file").st_ino not in [os.lstat(f"{top}/{x}").st_ino for x in files]
    else:
        assert items(skep("image", "ls", "--json").json(), "images") == []


def test_blob_with_a_wrong_digest(home, skep, rootfs):
    d = make("oci", home, rootfs)
    blobs = sorted((os.path.getsize(f"{d}/blobs/sha256/{b}"), b) for b in os.listdir(f"{d}/blobs/sha256"))
    with open(f"{d}/blobs/sha256/{blobs[-1][1]}", "ab") as f:
        f.write(b"more")
    assert skep("image", "import", d, "--name", "x").rc in (1, 2, 5)


def test_a_debian_like_image_with_setuid(home, skep, rootfs):
    """setuid files may be in an image; they give nothing inside (no_new_privs, nosuid)."""
    os.chmod(f"{rootfs}/bin/busybox", 0o4755)
    skep("image", "import", rootfs, "--name", "tiny").ok()
    r = skep("run", "--image", "tiny", "--empty", "--", "sh", "-c", "id -u; grep NoNewPrivs /proc/self/status").ok()
    assert r.out.split()[0] != "0" and r.out.split()[-1] == "1"
