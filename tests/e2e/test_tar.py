# SPDX-License-Identifier: Apache-2.0
"""Trees as tar archives over HTTP: both ways as a stream, and nothing hostile gets in."""
import contextlib
import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile

import pytest

from kit import HELD, wait_for
from preview_kit import memory
from stream_kit import Files, connection, http_do, query


def path_of(sid, **q):
    return f"/v1/sandboxes/{sid}/files/tar{query(**q)}"


def up(home, sid, data, path="/tmp/t", **q):
    status, _, answer = http_do(home, "PUT", path_of(sid, path=path, parents=1, **q), data)
    return status, json.loads(answer)


def down(home, sid, path):
    status, headers, data = http_do(home, "GET", path_of(sid, path=path))
    assert status == 200 and headers["content-type"] == "application/x-tar", data
    return tarfile.open(fileobj=io.BytesIO(data))


def archive(*entries, form=tarfile.PAX_FORMAT):
    """entries: (name, content) or a TarInfo."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as t:
        for e in entries:
            info, content = (e, b"") if isinstance(e, tarfile.TarInfo) else (tarfile.TarInfo(e[0]), e[1])
            if content:
                info.size = len(content)
            t.addfile(info, io.BytesIO(content))
    return out.getvalue()


def entry(name, kind=tarfile.REGTYPE, **members):
    info = tarfile.TarInfo(name)
    info.type, info.mode = kind, 0o644
    for k, v in members.items():
        setattr(info, k, v)
    return info


def sh(home, sid, script):
    return home.skep("exec", sid, "--", "sh", "-c", script).ok().out


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_a_tree_goes_up_and_comes_down(home, form):
    sid = home.new("--empty")
    long = "/".join(["directory" * 8] * 20) + "/" + "n" * 200
    names = {"a": b"one", "d/b": b"", "d/sub/c": os.urandom(100_000), "ümlaut €": b"x", long: b"deep", "dot/.hidden": b"h"}
    parts = [entry("d/", tarfile.DIRTYPE, mode=0o555, mtime=1_000_000_000), entry("./", tarfile.DIRTYPE), *names.items(),
             entry("l", tarfile.SYMTYPE, linkname="d/b"), entry("far", tarfile.SYMTYPE, linkname="/etc/" + "x" * 300),
             entry("hard", tarfile.LNKTYPE, linkname="./d/sub/c"), entry("x", mode=0o755, mtime=1_234_567_890, uid=12345, uname="nobody")]
    status, answer = up(home, sid, archive(*parts, form=form))
    assert status == 200 and answer["kind"] == "dir", answer
    with down(home, sid, "/tmp/t") as t:
        got = {m.name: m for m in t}
        assert {n: t.extractfile(got["./" + n]).read() for n in names} == names
        assert got["./l"].linkname == "d/b" and got["./far"].linkname == "/etc/" + "x" * 300
        assert got["./d"].mode == 0o555 and got["./x"].mode == 0o755 and got["./x"].mtime == 1_234_567_890
        assert t.extractfile(got["./hard"]).read() == names["d/sub/c"]
    assert sh(home, sid, "stat -c %h /tmp/t/hard; stat -c %U /tmp/t/x; id -un").split()[0] == "2"
    owner, me = sh(home, sid, "stat -c %U /tmp/t/x; id -un").split()
    assert owner == me
    # on top of what is there, and a file alone
    assert up(home, sid, archive(("a", b"two"), form=form))[0] == 200
    with down(home, sid, "/tmp/t/a") as t:
        assert [(m.name, t.extractfile(m).read()) for m in t] == [("a", b"two")]


def test_what_tar_itself_makes(home):
    """Debian's tar, with directories named before and after what is in them; and it reads what we write."""
    sid = home.new("--empty")
    top = f"{home.dir}/src"
    os.makedirs(f"{top}/one/two")
    for i in range(300):
        with open(f"{top}/one/two/f{i}", "w", encoding="utf-8") as f:
            f.write(f"{i}\n" * i)
    os.chmod(f"{top}/one/two", 0o700)
    for how in ("--format=pax", "--format=gnu", "--format=ustar", "--format=v7"):
        made = subprocess.run(["tar", how, "-C", top, "-cf", "-", "."], capture_output=True, check=True).stdout
        assert up(home, sid, made, path=f"/tmp/{how[9:]}")[0] == 200, how
        status, _, data = http_do(home, "GET", path_of(sid, path=f"/tmp/{how[9:]}"))
        assert status == 200
        os.makedirs(f"{home.dir}/{how[9:]}")
        subprocess.run(["tar", "-C", f"{home.dir}/{how[9:]}", "-xf", "-"], input=data, check=True)
        assert not subprocess.run(["diff", "-r", top, f"{home.dir}/{how[9:]}"], check=True, capture_output=True).stdout
    files = [("z/y/file", b"1"), entry("z/", tarfile.DIRTYPE, mode=0o500), ("z/other", b"2"), ("q", b"3"), ("z/y/last", b"4"), entry("z/", tarfile.DIRTYPE, mode=0o500)]
    assert up(home, sid, archive(*files), path="/tmp/order")[0] == 200
    shut = [entry(f"{n}/", tarfile.DIRTYPE, mode=0o500) for n in ("r", "r/s", "r/s/t", "r/s")] + [("r/s/t/file", b"5"), entry("r/s/", tarfile.DIRTYPE, mode=0o100)]
    assert up(home, sid, archive(*shut), path="/tmp/shut")[0] == 200
    assert sh(home, sid, "cd /tmp/shut && stat -c %a r r/s r/s/t && cat r/s/t/file && chmod -R u+rwx .").split() == ["500", "100", "500", "5"]
    assert sh(home, sid, "cd /tmp/order && cat z/y/file z/other q z/y/last && stat -c %a z").split() == ["1234500"]


HOSTILE = {
    "absolute": [entry("/tmp/evil")],
    "out": [entry("../evil")],
    "out in the middle": [entry("a/../../evil")],
    "out by gnu's long name": [("b/" * 60 + "../" * 70 + "evil", b"x")],
    "through a link": [entry("evil", tarfile.SYMTYPE, linkname="/tmp"), ("evil/out", b"x")],
    "through a link to a link": [entry("in", tarfile.SYMTYPE, linkname=".."), entry("evil", tarfile.SYMTYPE, linkname="in"), ("evil/out", b"x")],
    "a directory that is a link": [entry("evil", tarfile.SYMTYPE, linkname="/tmp"), entry("evil/", tarfile.DIRTYPE, mode=0o777)],
    "through a file": [("evil", b"x"), ("evil/out", b"x")],
    "character device": [entry("evil", tarfile.CHRTYPE, devmajor=1, devminor=3)],
    "block device": [entry("evil", tarfile.BLKTYPE, devmajor=7)],
    "fifo": [entry("evil", tarfile.FIFOTYPE)],
    "setuid": [entry("evil", mode=0o4755)],
    "setgid": [entry("evil", mode=0o2755)],
    "hard link out": [entry("evil", tarfile.LNKTYPE, linkname="../../etc/passwd")],
    "hard link to an absolute name": [entry("evil", tarfile.LNKTYPE, linkname="/etc/passwd")],
    "hard link through a link": [entry("in", tarfile.SYMTYPE, linkname="/etc"), entry("evil", tarfile.LNKTYPE, linkname="in/passwd")],
    "hard link to a link": [entry("in", tarfile.SYMTYPE, linkname="/etc/passwd"), entry("evil", tarfile.LNKTYPE, linkname="in")],
    "hard link to a directory": [entry("d/", tarfile.DIRTYPE, mode=0o755), entry("evil", tarfile.LNKTYPE, linkname="d")],
    "hard link to nothing": [entry("evil", tarfile.LNKTYPE, linkname="nothing")],
    "over a directory": [entry("evil/x/", tarfile.DIRTYPE, mode=0o755), ("evil", b"x")],
    "sparse": [entry("evil", tarfile.GNUTYPE_SPARSE)],
    "sparse, as pax says it": [entry("evil", pax_headers={"GNU.sparse.major": "1", "GNU.sparse.realsize": str(1 << 60)})],
    "of no kind": [entry("evil", b"Z")],
    "a size for all": [entry("evil", tarfile.XGLTYPE)],
}


@pytest.fixture(scope="module")
def boxes(programs):
    """One sandbox for all that is hostile."""
    from kit import World

    w = World(programs)
    yield w, w.new("--empty")
    w.close(check=False)


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_entries_are_refused_by_name(boxes, kind):
    home, sid = boxes
    form = tarfile.GNU_FORMAT if "gnu" in kind else tarfile.PAX_FORMAT
    data = archive(*HOSTILE[kind], ("after", b"never"), form=form)
    if kind == "a size for all":
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"path": "evil"}) as t:
            t.addfile(entry("x"))
        data = out.getvalue()
    before = sh(home, sid, "cat /etc/passwd; ls -lR /tmp --ignore=t; ls -la / | head -1")
    status, answer = up(home, sid, data, path=f"/tmp/t/{abs(hash(kind))}")
    name = {"out by gnu's long name": "refused b/b/", "a size for all": "for all of its entries"}.get(kind, "evil")
    assert status == 400 and name in answer["error"]["message"], answer
    assert sh(home, sid, "cat /etc/passwd; ls -lR /tmp --ignore=t; ls -la / | head -1") == before
    assert "after" not in sh(home, sid, f"ls -R /tmp/t/{abs(hash(kind))}")


def test_damaged_archives(boxes):
    home, sid = boxes
    good = archive(("a", b"x" * 5000), ("b", b"y"))
    huge = bytearray(archive(("a", b"x")))
    huge[124:136] = b"\x80" + b"\xff" * 11
    numbers = bytearray(archive(("a", b"x")))
    numbers[124:136] = b"7777777777z\0"
    for name, data in (("empty", b""), ("no archive", b"hello" * 1000), ("cut", good[:3000]), ("no end", good[:512 + 5120 + 1024]),
                       ("gzip", gzip.compress(good)), ("a size beyond all", bytes(huge)), ("a number", bytes(numbers)),
                       ("wrong sum", good[:148] + b"0000000" + good[155:])):
        status, answer = up(home, sid, data, path="/tmp/damaged")
        assert status == 400 and answer["error"]["message"], (name, status, answer)
    assert sh(home, sid, "ls -A /tmp/damaged | sort | tr '\\n' ' '").strip() in ("", "a", "a b"), "half a file is none"
    status, answer = http_do(home, "PUT", path_of(sid, path="/tmp/absent"), good)[::2]
    assert status == 404, answer
    assert http_do(home, "GET", path_of(sid, path="/tmp/absent"))[0] == 404
    assert http_do(home, "GET", f"/v1/sandboxes/{sid}/files/tar")[0] == 400
    assert http_do(home, "PUT", path_of(sid, path="/proc"), good)[0] in (400, 403, 404)


def test_files_in_the_way_are_replaced_not_written_through(boxes):
    home, sid = boxes
    sh(home, sid, "mkdir -p /tmp/way && cd /tmp/way && echo mine > /tmp/kept && ln -s /tmp/kept soft && ln /tmp/kept hard && echo old > old")
    assert up(home, sid, archive(("soft", b"new"), ("hard", b"new"), ("old", b"new"), entry("old2", tarfile.LNKTYPE, linkname="old"),
                                 entry("old", tarfile.LNKTYPE, linkname="old2")), path="/tmp/way")[0] == 200
    assert sh(home, sid, "cat /tmp/kept /tmp/way/soft /tmp/way/hard /tmp/way/old") == "mine\nnewnewnew"
    assert sh(home, sid, "stat -c %F /tmp/way/soft").strip() == "regular file"


def test_half_an_upload_leaves_whole_files(boxes):
    home, sid = boxes
    data = archive(("first", b"1" * 3000), ("second", b"2" * 5_000_000))
    with contextlib.closing(connection(home)) as c:
        c.putrequest("PUT", path_of(sid, path="/tmp/half", parents=1))
        c.putheader("Content-Length", str(len(data)))
        c.endheaders()
        c.send(data[: len(data) // 2])
        wait_for(lambda: "second" in sh(home, sid, "ls /tmp/half 2>&1"), why="it to be under way")
    wait_for(lambda: sh(home, sid, "ls /tmp/half").split() == ["first"], why="the half file to go")


def test_a_large_tree_in_little_memory(home):
    """Up and down at once, much larger than anything that may be held on the way."""
    sid = home.new("--empty")
    sh(home, sid, "mkdir /tmp/big && head -c 200000000 /dev/zero | tee /tmp/big/a > /tmp/big/b")
    pid = home.skepd_pid()
    before = memory(pid)
    with contextlib.closing(connection(home)) as c:
        c.request("GET", path_of(sid, path="/tmp/big"))
        r = c.getresponse()
        sums = {}
        with tarfile.open(fileobj=r, mode="r|") as t:
            for m in t:
                if m.isfile():
                    h, f = hashlib.sha256(), t.extractfile(m)
                    while b := f.read(1 << 20):
                        h.update(b)
                    sums[m.name] = h.hexdigest()
        assert len(set(sums.values())) == 1 and len(sums) == 2
    assert memory(pid) < before + (32 << 20) + HELD
    assert Files(home, sid).ask("stat", path="/tmp/big/a")[1]["size"] == 200_000_000


def test_a_tree_that_breaks_under_us_is_no_archive(home):
    sid = home.new("--empty")
    sh(home, sid, "mkdir -p /tmp/d && truncate -s 3000000000 /tmp/d/f")
    with contextlib.closing(connection(home)) as c:
        c.request("GET", path_of(sid, path="/tmp/d"))
        r = c.getresponse()
        assert r.status == 200 and r.read(1 << 20)
        sh(home, sid, "truncate -s 1000 /tmp/d/f")
        with pytest.raises(Exception):  # noqa: B017  (IncompleteRead or a reset: not a whole answer)
            while r.read(1 << 20):
                pass
