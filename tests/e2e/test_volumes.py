# SPDX-License-Identifier: Apache-2.0
"""Volumes: directories that outlive sandboxes, shown in several of them at once, and reached from outside."""
import json
import os
import secrets
import shutil

import pytest

from kit import wait_for
from tcp_kit import Caller, serving, token


def volumes(home):
    return {v["name"]: v for v in home.skep("volume", "ls", "--json").json()["volumes"]}


def sh(home, sid, script):
    return home.skep("exec", sid, "--", "sh", "-c", script).ok().out


def run(home, script, *args):
    return home.skep("run", "--empty", *args, "--", "sh", "-c", script)


def put(home, volume, path, data, more=""):
    """(status, body) of a file written over the unix socket."""
    return home.api("PUT", f"/v1/volumes/{volume}/files?path={path}{more}", data)


def test_create_mount_share_remove(home, skep):
    vid = skep("volume", "create", "data").ok().line
    assert vid[0] == "v" and volumes(home)["data"]["id"] == vid
    skep("volume", "create", "data").fails(4, "exists")
    for bad in ("", "a/b", "-x", "a" * 65, "../x"):
        assert skep("volume", "create", "--", bad).rc != 0
    assert run(home, "echo one > /data/f; id -u", "--volume", "data:/data").ok()
    assert run(home, "cat /data/f; echo no > /data/f", "--volume", "data:/data:ro").out.strip() == "one"
    a, b = (home.new("--empty", "--volume", f"data:{at}") for at in ("/data", "/srv/x"))
    sh(home, a, "echo two > /data/f; mkdir /data/d")
    assert sh(home, b, "cat /srv/x/f; rmdir /srv/x/d") == "two\n"
    assert [m["src"] for m in home.show(a)["mounts"] if m["kind"] == "volume"] == ["data"]
    assert sorted(volumes(home)["data"]["sandboxes"]) == sorted([a, b])
    skep("volume", "rm", "data").fails(4, "in use")
    skep("stop", a).ok()
    skep("volume", "rm", "data").fails(4, "in use")  # it would miss it at its next start
    skep("rm", "-f", a, b).ok()
    skep("volume", "rm", vid).ok()
    assert not volumes(home)
    wait_for(lambda: not os.listdir(f"{home.skep_home}/volumes"), why="the directory to go")
    skep("new", "--empty", "--volume", "data:/data").fails(3, "no volume data")


def test_where_a_volume_may_be(home, skep, project):
    skep("volume", "create", "v").ok()
    for spec in ("v:/proc/x", "v:/dev/x", f"v:{home.dir}/sub", f"v:{os.path.dirname(home.dir)}", "v:/home/skep", "v:relative", "v", "v:/a:rx", "/etc:/a", "v:/a/../b"):
        r = skep("new", "--volume", spec)
        assert r.rc == 2 and "volume" in r.err, (spec, r.err)
    assert "--mount" in skep("new", "--volume", "/etc:/a").err
    assert run(home, "touch ~/inner/f /tmp/t/f && ls /tmp/t", "--volume", "v:/home/skep/inner", "--volume", "v:/tmp/t").ok().out == "f\n"


def test_root_profile_keeps_owners(home, skep):
    skep("volume", "create", "v").ok()
    sid = home.new("--empty", "--root", "--volume", "v:/v")
    sh(home, sid, "touch /v/r /v/n; chown 1000:1001 /v/n; chmod 640 /v/n")
    stat = {n: home.api("GET", f"/v1/volumes/v/files/stat?path={n}")[1] for n in "rn"}
    assert [(s["uid"], s["gid"], s["mode"]) for s in (stat["r"], stat["n"])] == [(0, 0, 0o644), (1000, 1001, 0o640)]
    assert put(home, "v", "o", {}, "&uid=33&gid=34&mode=416")[0] == 201
    assert sh(home, sid, "stat -c '%u %g %a' /v/o") == "33 34 640\n"
    assert home.api("POST", "/v1/volumes/v/files/set", {"path": "o", "uid": 5, "mode": 0o4777})[1]["mode"] == 0o777  # no set-user-id from outside


def test_a_snapshot_does_not_cover_it(home, skep):
    skep("volume", "create", "v").ok()
    sid = home.new("--empty", "--volume", "v:/v")
    sh(home, sid, "echo 1 > /v/f; echo 1 > f")
    n = skep("snapshot", sid, "s", "--json").json()
    assert "volumes" in n["not_covered"]
    sh(home, sid, "echo 2 > /v/f; echo 2 > f")
    skep("rollback", sid, "s").ok()
    assert sh(home, sid, "cat f /v/f") == "1\n2\n"
    fork = skep("fork", sid, "--json").json()["sandboxes"][0]["id"]
    assert sh(home, fork, "cat /v/f; echo 3 > /v/f") == "2\n"
    assert sh(home, sid, "cat /v/f") == "3\n"
    skep("rm", "-f", sid, fork).ok()
    skep("volume", "rm", "v").ok()
    late = home.new("--from", n["id"])  # the snapshot outlives the volume
    assert sh(home, late, "cat f; ls /v 2>&1 || true").startswith("1\n")


def test_cp(home, skep):
    skep("volume", "create", "v").ok()
    tree = f"{home.top}/t"
    os.makedirs(f"{tree}/sub/empty")
    for name, data in (("a", b"1"), ("sub/b", os.urandom(3 << 20)), ("sub/none", b""), ("sub/sp ace+%", b"x")):
        with open(f"{tree}/{name}", "wb") as f:
            f.write(data)
    os.chmod(f"{tree}/a", 0o750)
    os.symlink("a", f"{tree}/link")
    assert "1 links" in skep("volume", "cp", tree, "v:").ok().err
    assert "1 links" in skep("volume", "cp", tree, "v:other").ok().err
    for at in ("t", "other"):
        skep("volume", "cp", f"v:{at}", f"{home.top}/back").ok()
        assert not os.path.lexists(f"{home.top}/back/link")
        os.symlink("a", f"{home.top}/back/link")
        assert not os.system(f"diff -r --no-dereference {tree} {home.top}/back")
        assert os.stat(f"{home.top}/back/a").st_mode & 0o777 == 0o750
        shutil.rmtree(f"{home.top}/back")
    skep("volume", "cp", f"{tree}/a", "v:made/new").ok()
    skep("volume", "cp", f"{tree}/sub", "v:made/new").fails(4, "made/new")
    skep("volume", "cp", "v:nope", f"{home.top}/x").fails(3, "nope")
    skep("volume", "cp", f"{tree}/a", "nope:x").fails(3, "no volume nope")
    skep("volume", "cp", f"{tree}/a", f"{home.top}/x").fails(2, "one of the two")


def test_files_that_cells_prepare(home, skep):
    """Links, FIFOs, odd names: nothing outside the volume is read or written, and nothing waits for a cell."""
    mark = f"skep-{secrets.token_hex(8)}"
    with open(f"{home.top}/{mark}", "w", encoding="ascii") as f:
        f.write("host")
    os.chmod(home.top, 0o755)
    skep("volume", "create", "v").ok()
    sid = home.new("--empty", "--volume", "v:/v")
    sh(home, sid, f"cd /v; ln -s {home.top} out; ln -s {home.top}/{mark} file; ln -s ../../.. up; ln -s /proc/self/root proc; mkfifo fifo; mkdir d; ln -s d in; echo x > d/f; touch \"$(printf 'bad\\377name')\"")
    for path in (f"out/{mark}", "file", f"up/{home.top}/{mark}", f"proc{home.top}/{mark}", "up/etc/passwd"):
        status, body = home.api("GET", f"/v1/volumes/v/files?path={path}")
        assert status in (400, 404) and "host" not in json.dumps(body), path
    assert home.api_raw("GET", "/v1/volumes/v/files?path=in/f")[2] == b"x\n"
    for path in ("out/new", "up/new", "in/new", "file", "fifo"):
        assert put(home, "v", path, {"x": 1})[0] in (400, 404, 409), path
    assert home.api("POST", "/v1/volumes/v/files/mkdir", {"path": "out/made", "parents": True})[0] in (400, 404, 409)
    assert home.api("DELETE", f"/v1/volumes/v/files?path=out/{mark}")[0] in (400, 404)
    assert home.api("GET", "/v1/volumes/v/files?path=fifo")[0] == 400
    assert not os.path.exists(f"{home.top}/new") and not os.path.exists(f"{home.top}/made") and os.path.exists(f"{home.top}/{mark}")
    entries = home.api("GET", "/v1/volumes/v/files/list?path=/&depth=3")[1]["files"]
    kinds = {e["name"]: e["type"] for e in entries}
    assert (kinds["fifo"], kinds["out"], kinds["d"], kinds["f"]) == ("unknown", "symlink", "directory", "file")
    assert [e for e in entries if "name_b64" in e]
    assert home.api("DELETE", "/v1/volumes/v/files?path=up")[0] == 204  # the link itself
    for path in ("a/../../x", "..", "x" * 300):
        assert home.api("GET", f"/v1/volumes/v/files/stat?path={path}")[0] == 400, path
    assert home.api("GET", "/v1/volumes/v/files/list?path=/&depth=11")[0] == 400


def test_names_that_are_exchanged(home, skep):
    """A cell exchanges a directory and a link all the time while files are written below that name."""
    outside = f"{home.top}/outside"
    os.mkdir(outside)
    os.chmod(outside, 0o777)
    os.chmod(home.top, 0o755)
    skep("volume", "create", "v").ok()
    sid = home.new("--empty", "--volume", "v:/v")
    loop = f"cd /v; mkdir d; ln -s {outside} l; while :; do mv -T d t; mv -T l d; mv -T d l; mv -T t d; done"
    xid = skep("exec", "-d", sid, "--", "sh", "-c", loop).ok().line
    statuses = {put(home, "v", f"d/f{i}", {}, "&force=true")[0] for i in range(150)}
    assert statuses <= {201, 400, 404, 409}, statuses
    statuses = {home.api("DELETE", f"/v1/volumes/v/files?path=d/f{i}")[0] for i in range(150)}
    assert statuses <= {204, 400, 404, 409}, statuses
    skep("kill", xid, "KILL").ok()
    assert not os.listdir(outside)


def test_many_at_once_and_a_client_that_goes(home, skep):
    """More requests than are worked on at once; an upload that is cut off leaves nothing."""
    skep("volume", "create", "v").ok()
    key = token(home, "--scope", "run")
    with serving(home) as port:
        ask = Caller(port, key)
        s = ask.connect(f"PUT /v1/volumes/v/files?path=half HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {ask.token}\r\nContent-Length: 1000\r\n\r\nhalf".encode())
        lanes = [ask.connect(b"".join(f"PUT /v1/volumes/v/files?path=d{k}/f{i}&force=true HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {ask.token}\r\n"
                                      f"Content-Length: 2\r\n\r\nok".encode() for i in range(10))) for k in range(12)]
        s.close()
        for lane in lanes:
            got = b""
            while got.count(b"HTTP/1.1 201") < 10:
                more = lane.recv(65536)
                assert more, got
                got += more
            lane.close()
        assert len(ask("GET", "/v1/volumes/v/files/list?path=/&depth=2")[1]["files"]) == 132
        assert ask("GET", "/v1/volumes/v/files/stat?path=half")[0] == 404


def test_tokens(home, skep):
    """A token for a label sees and mounts only what such tokens made; names are told apart by owner."""
    skep("volume", "create", "shared").ok()
    keys = [token(home, "--scope", "run", *on) for on in ((), ("--on", "label=team=ann"), ("--on", "label=team=ann"), ("--on", "label=team=bob"))]
    with serving(home) as port:
        all_, ann, bob, other = (Caller(port, key) for key in keys)
        assert ann("POST", "/v1/volumes", {"name": "shared"})[0] == 201
        assert ann("POST", "/v1/volumes", {"name": "shared"})[0] == 409
        assert [len(c("GET", "/v1/volumes")[1]["volumes"]) for c in (all_, ann, bob, other)] == [2, 1, 1, 0]
        mine = ann("GET", "/v1/volumes/shared")[1]
        assert mine["owner"] == "team=ann" and all_("GET", "/v1/volumes/shared")[1]["owner"] == ""
        assert [c("GET", f"/v1/volumes/{mine['id']}")[0] for c in (all_, bob, other)] == [200, 200, 404]
        assert other("GET", f"/v1/volumes/{mine['id']}/files/list?path=/")[0] == 404
        assert other("DELETE", f"/v1/volumes/{mine['id']}")[0] == 404
        assert other("POST", "/v1/sandboxes", {"empty": True, "volumes": [f"{mine['id']}:/v"]})[0] == 404
        status, box = ann("POST", "/v1/sandboxes", {"empty": True, "volumes": ["shared:/v"]})
        assert status == 201 and box["mounts"][0]["kind"] == "volume", box
        one = Caller(port, token(home, "--scope", "run", "--on", box["id"]))
        assert one("GET", "/v1/volumes")[1]["volumes"] == [] and one("POST", "/v1/volumes", {"name": "x"})[0] == 403
        read = Caller(port, token(home, "--scope", "read"))
        assert read("POST", "/v1/volumes", {"name": "x"})[0] == 403 and read("GET", "/v1/volumes/shared")[0] == 200
        assert read("PUT", "/v1/volumes/shared/files?path=x", {})[0] == 403
        # E2B's content service: the volume's own token and no other
        bare = Caller(port)
        assert bare("GET", f"/volumecontent/{mine['id']}/dir?path=/")[0] == 401
        assert all_("GET", f"/volumecontent/{mine['id']}/dir?path=/")[0] == 401
        assert bare("GET", f"/volumecontent/{mine['id']}/dir?path=/", headers={"Authorization": "Bearer vol_" + "0" * 64})[0] == 401


def test_survives_skepd_gc_and_a_lost_database(home, skep):
    vid = skep("volume", "create", "keep").ok().line
    put(home, "keep", "f", {"a": 1})
    home.kill_skepd()
    assert volumes(home)["keep"]["id"] == vid
    assert not skep("gc", "--json").json()["items"] if "--json" in skep("gc", "--help").out else skep("gc").ok()
    wait_for(lambda: volumes(home)["keep"]["bytes"], why="the volume to be counted")
    home.kill_skepd()
    for f in ("state.db", "state.db-wal", "state.db-shm"):
        if os.path.exists(f"{home.skep_home}/{f}"):
            os.rename(f"{home.skep_home}/{f}", f"{home.top}/{f}")
    assert volumes(home)["keep"]["id"] == vid
    assert home.api_raw("GET", "/v1/volumes/keep/files?path=f")[2] == b'{"a": 1}'


def test_counts_in_the_disk_budget(home, skep):
    os.makedirs(f"{home.user_home}/.config/skep")
    with open(f"{home.user_home}/.config/skep/config.yaml", "w", encoding="ascii") as f:
        f.write("disk_budget: 4m\n")
    skep("volume", "create", "v").ok()
    run(home, "head -c 6000000 /dev/zero > /v/big", "--volume", "v:/v").ok()
    wait_for(lambda: (volumes(home)["v"]["bytes"] or 0) > 5000000, why="the volume to be counted")
    skep("volume", "create", "w").fails(6, "volume ls")
    skep("volume", "rm", "v").ok()
    skep("volume", "create", "w").ok()


@pytest.mark.parametrize("work", ["exec sleep 600", "cat /v/fifo"])
def test_a_removed_sandbox_lets_go(home, skep, work):
    skep("volume", "create", "v").ok()
    sid = home.new("--empty", "--volume", "v:/v")
    sh(home, sid, "mkfifo /v/fifo")
    skep("exec", "-d", sid, "--", "sh", "-c", work).ok()
    skep("rm", "-f", sid).ok()
    skep("volume", "rm", "v").ok()
