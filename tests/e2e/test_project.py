# SPDX-License-Identifier: Apache-2.0
"""What a sandbox takes from .skep.yaml or devcontainer.json: at once what stays inside, after trust what reaches further."""
import json
import os
import shutil
import subprocess

import pytest

SHELL = ("sh", "-c")


def write(home, path, text):
    full = f"{home.dir}/{path}"
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w", encoding="utf-8") as f:
        f.write(text)
    return full


def project(home, text):
    return write(home, ".skep.yaml", text)


def user_config(home, text):
    os.makedirs(f"{home.user_home}/.config/skep", exist_ok=True)
    with open(f"{home.user_home}/.config/skep/config.yaml", "w", encoding="ascii") as f:
        f.write(text)


@pytest.fixture
def image(home, skep, busybox):
    """Imported as tiny."""
    d = f"{home.top}/rootfs"
    for sub in ("bin", "etc", "tmp", "home"):
        os.makedirs(f"{d}/{sub}")
    shutil.copy(busybox, f"{d}/bin/busybox")
    for a in ("sh", "cat", "echo", "pwd", "true"):
        os.symlink("busybox", f"{d}/bin/{a}")
    with open(f"{d}/etc/os-release", "w", encoding="ascii") as f:
        f.write("ID=tiny\n")
    skep("image", "import", d, "--name", "tiny").ok()
    return d


# --- what works at once --------------------------------------------------------------------------------------------


def test_env_ports_and_test(home, skep):
    project(home, "env: {A: from file, B: from file}\nports: [3000, 8080]\ntest: make check\n")
    r = skep("new", "--env", "B=from caller").ok()
    assert r.err == ""
    assert skep("exec", r.line, "--", *SHELL, 'echo "$A, $B"').ok().line == "from file, from caller"
    shown = home.show(r.line)["project"]
    assert shown == {"file": f"{home.dir}/.skep.yaml", "hide": [], "setup": [], "setup_key": None, "test": "make check", "ports": [3000, 8080]}
    assert "make check" in skep("show", r.line).ok().out
    home.kill_skepd()  # it is kept
    assert home.show(r.line)["project"] == shown


def test_variables_that_run_things_need_trust(home, skep):
    project(home, "env: {NODE_OPTIONS: --x, HTTPS_PROXY: http://evil.test, FINE: y}\n")
    r = skep("run", "--", *SHELL, "echo $NODE_OPTIONS.$HTTPS_PROXY.$FINE").ok()
    assert r.line == "..y" and "env NODE_OPTIONS, env HTTPS_PROXY" in r.err
    skep("trust", "--yes").ok()
    assert skep("run", "--", *SHELL, "echo $NODE_OPTIONS.$HTTPS_PROXY.$FINE").ok().line == "--x.http://evil.test.y"


def test_left_aside(home, skep):
    project(home, "env: {A: x}\nnet: {allow: [a.test]}\n")
    skep("trust", "--yes").ok()
    r = skep("new", "--no-project").ok()
    assert skep("exec", r.line, "--", *SHELL, "echo x$A").ok().line == "x"
    assert home.show(r.line)["project"] is None
    assert skep("policy", "show", r.line, "--json").json()["policy"]["rules"] == []
    home.kill_skepd()
    assert skep("policy", "show", r.line, "--json").json()["policy"]["rules"] == []


def test_a_file_that_can_not_be_read_stops_it(home, skep):
    """It may hide what nobody should see."""
    write(home, ".env", "hunter2")
    project(home, "hide: [.env]\nhdie: [other]\n")
    skep("run", "--", "true").fails(125, ".skep.yaml", "line 2", "hdie", "--no-project")
    assert home.ps() == []
    skep("run", "--no-project", "--", "true").ok()


def test_image(home, skep, image):
    project(home, "image: tiny\n")
    assert skep("run", "--", "cat", "/etc/os-release").ok().line == "ID=tiny"
    assert "ID=tiny" not in skep("run", "--image", "host", "--", "cat", "/etc/os-release").ok().out
    project(home, "image: absent\n")
    skep("run", "--", "true").fails(125, "absent", "skep image import", "--image host")
    project(home, "image: host\n")
    assert "ID=tiny" not in skep("run", "--", "cat", "/etc/os-release").ok().out


def test_limits_without_trust(home, skep):
    project(home, "limits: {memory: 1g, pids: 9000, timeout: 20, disk: 0}\n")
    r = skep("new").ok()
    assert "limits pids" in r.err and "limits disk" in r.err and "limits memory" not in r.err
    limits = home.show(r.line)["limits"]
    assert limits["memory"] == 1 << 30 and limits["pids"] == 512 and limits["disk"] == 10 << 30
    assert home.show(skep("new", "--memory", "2g").ok().line)["limits"]["memory"] == 2 << 30  # the caller's word
    user_config(home, "limits: {memory: 512m}\n")  # not above what the user has set for all
    assert home.show(skep("new").ok().line)["limits"]["memory"] == 512 << 20


def test_limits_with_trust(home, skep):
    project(home, "limits: {memory: 8g, pids: 9000}\n")
    user_config(home, "limits: {memory: 512m}\n")
    skep("trust", "--yes").ok()
    r = skep("new").ok()
    assert r.err == ""
    limits = home.show(r.line)["limits"]
    assert limits["memory"] == 8 << 30 and limits["pids"] == 9000


def test_mounts_only_with_trust(home, skep):
    for d in ("one", "two"):
        os.makedirs(f"{home.top}/{d}")
        with open(f"{home.top}/{d}/f", "w", encoding="ascii") as f:
            f.write(f"{d}\n")
        os.chmod(f"{home.top}/{d}/f", 0o666)  # root's own files keep their owner inside
    project(home, f"mounts: ['{home.top}/one:/data', '{home.top}/two:/work:rw']\n")
    r = skep("run", "--", "cat", "/data/f")
    assert r.rc == 1 and "mounts" in r.err and "skep trust" in r.err
    skep("trust", "--yes").ok()
    assert skep("run", "--", *SHELL, "cat /data/f; echo more >> /work/f; ! echo no >> /data/f 2>/dev/null").ok().line == "one"
    with open(f"{home.top}/two/f", encoding="ascii") as f:
        assert f.read() == "two\nmore\n"
    assert skep("run", "--mount", f"{home.top}/two:/data", "--", "cat", "/data/f").ok().out.startswith("two")
    project(home, f"mounts: ['{home.skep_home}:/data']\n")  # no agreement opens what is never shown
    skep("trust", "--yes").ok()
    skep("run", "--", "true").fails(125, "mount")


# --- hide ------------------------------------------------------------------------------------------------------------


def names(out):
    return sorted(out.split())


def test_hidden_is_absent_and_no_deletion(home, skep):
    for p in (".env", "secrets/key", "conf/a.pem", "conf/b.txt", "deep/x/.env", "plain"):
        write(home, p, f"hunter2 {p}\n")
    os.chmod(f"{home.dir}/conf", 0o750)
    project(home, "hide: ['**/.env', secrets/, 'conf/*.pem', later]\n")
    sid = home.new()
    r = skep("exec", sid, "--", *SHELL, "find . -name .git -prune -o -print; cat .env secrets/key conf/a.pem deep/x/.env; stat -c %a conf")
    assert "hunter2" not in r.out and "750" in r.out
    assert names(r.out) == sorted([".", "./.skep.yaml", "./conf", "./conf/b.txt", "./deep", "./deep/x", "./plain", "750"])
    skep("stop", sid).ok()
    assert home.show(sid)["pending"] == 0
    # what the host does to those names while the cell lives stays unseen
    skep("start", sid).ok()
    skep("exec", sid, "--", "ls").ok()
    os.rename(f"{home.dir}/.env", f"{home.dir}/kept-elsewhere")
    write(home, ".env.new", "hunter2 again\n")
    os.rename(f"{home.dir}/.env.new", f"{home.dir}/.env")
    write(home, "later", "hunter2 later\n")
    r = skep("exec", sid, "--", *SHELL, "cat .env later conf/a.pem; grep -r again .; true").ok()
    assert "again" not in r.out and "later" not in r.out
    # its own files under those names are its own business, and none of the host's is touched
    skep("exec", sid, "--", *SHELL, "echo mine > .env; mkdir secrets; echo s > secrets/key; echo p > conf/new.pem; echo t > conf/b.txt; cat .env").ok()
    skep("stop", sid).ok()
    assert home.show(sid)["pending"] == 1
    assert skep("exec", sid, "--", "cat", ".env").ok().line == "mine"
    with open(f"{home.dir}/.env", encoding="ascii") as f:
        assert f.read() == "hunter2 again\n"


def test_review_never_touches_what_is_hidden(home, skep):
    """Not its own file under a hidden name, and not what lay in a directory that it removed."""
    for p in (".env", "conf/a.pem", "conf/t", "only/k.pem", "f"):
        write(home, p, f"{p}\n")
    project(home, "hide: [.env, '**/*.pem']\n")
    sid = home.new()
    skep("exec", sid, "--", *SHELL, "echo mine > .env; rm -r conf only; mkdir only; echo n > only/new; echo x > only/own.pem; echo f2 > f").ok()
    r = skep("diff", sid, "--name-status").ok()
    assert sorted(r.out.split("\n")) == sorted(["", "D\tconf/t", "M\tf", "A\tonly/new"])
    assert ".env" not in skep("diff", sid).ok().out
    skep("apply", sid, "--yes").ok()
    seen = {f"{at}/{f}"[len(home.dir) + 1:] for at, _, fs in os.walk(home.dir) for f in fs}
    assert seen == {".skep.yaml", ".env", "conf/a.pem", "only/k.pem", "only/new", "f"}
    for p in (".env", "conf/a.pem", "only/k.pem"):
        with open(f"{home.dir}/{p}", encoding="ascii") as f:
            assert f.read() == f"{p}\n"


def test_hide_is_judged_at_every_start(home, skep):
    write(home, "a.pem", "hunter2\n")
    project(home, "hide: ['*.pem']\n")
    sid = home.new()
    assert skep("exec", sid, "--", "cat", "a.pem").rc == 1
    skep("stop", sid).ok()
    write(home, "b.pem", "hunter2\n")
    assert skep("exec", sid, "--", *SHELL, "cat b.pem || echo absent").ok().line == "absent"
    project(home, "")  # what a sandbox was made with stays
    skep("stop", sid).ok()
    assert skep("exec", sid, "--", *SHELL, "cat a.pem || echo absent").ok().line == "absent"
    assert skep("run", "--", "cat", "a.pem").ok().line == "hunter2"


@pytest.mark.parametrize("options", ([], ["--root"], ["--workspace-path", "/w"]))
def test_hide_in_every_profile(home, skep, options):
    write(home, "d/.env", "hunter2\n")
    project(home, "hide: ['**/.env']\n")
    r = skep("run", *options, "--", *SHELL, "cat d/.env || echo absent")
    if options == ["--root"] and r.rc == 125:
        pytest.skip(r.err)
    assert r.ok().line == "absent"


# --- devcontainer.json -----------------------------------------------------------------------------------------------

USUAL = """// see the reference
{
    "name": "x", /* a name */
    "image": "registry.example/dev:1",
    "initializeCommand": "touch %(top)s/host-command",
    "postCreateCommand": ["touch", "made"],
    "containerEnv": {"WS": "${containerWorkspaceFolder}", "LEAK": "a${localEnv:HOME}b"},
    "forwardPorts": [3000,],
    "mounts": ["source=/,target=/host,type=bind"],
    "runArgs": ["--privileged"],
    "remoteUser": "root",
}
"""


def test_devcontainer(home, skep):
    write(home, ".devcontainer/devcontainer.json", USUAL % {"top": home.top})
    r = skep("new", "--no-setup", "--env", "X=1").ok()
    for word in ("registry.example/dev:1 is not here", "initializeCommand", "mounts", "runArgs", "--root", "containerEnv LEAK"):
        assert word in r.err, (word, r.err)
    assert skep("exec", r.line, "--", *SHELL, 'echo "$WS $LEAK $X"; ls -d /host 2>/dev/null; id -u').ok().out.split()[:3] == [home.dir, "ab", "1"]
    shown = home.show(r.line)["project"]
    assert shown["ports"] == [3000] and shown["setup"] == ["'touch' 'made'"] and shown["file"].endswith("devcontainer.json")
    assert not os.path.exists(f"{home.top}/host-command")
    view = skep("trust", "--json").json()
    assert view["state"] == "nothing" and any("initializeCommand" in x for x in view["effect"]["now"]["never"])
    assert not os.path.exists(f"{home.top}/host-command")
    project(home, "env: {WS: own}\n")  # ours is read instead
    r = skep("run", "--", *SHELL, "echo $WS").ok()
    assert r.line == "own" and r.err == ""


def test_devcontainer_image(home, skep, image):
    write(home, ".devcontainer.json", json.dumps({"image": "tiny"}))
    assert skep("run", "--", "cat", "/etc/os-release").ok().line == "ID=tiny"
    write(home, ".devcontainer.json", json.dumps({"image": image}))  # what it was imported from
    assert skep("run", "--", "cat", "/etc/os-release").ok().line == "ID=tiny"


def test_devcontainer_places(home, skep):
    write(home, ".devcontainer/one/devcontainer.json", '{"workspaceFolder": "/workspaces/${localWorkspaceFolderBasename}", "containerEnv": {"N": "1"}}')
    assert skep("run", "--", *SHELL, "pwd; echo $N").ok().out.split() == ["/workspaces/p", "1"]
    assert skep("run", "--workspace-path", "/mine", "--", "pwd").ok().line == "/mine"
    write(home, ".devcontainer/one/devcontainer.json", '{"workspaceFolder": "/usr/bin"}')
    r = skep("run", "--", "pwd").ok()
    assert r.line == home.dir and "workspaceFolder" in r.err
    write(home, ".devcontainer/two/devcontainer.json", '{"containerEnv": {"N": "2"}}')
    assert skep("run", "--", *SHELL, "echo x$N").ok().line == "x"  # which one is not for us to say
    write(home, ".devcontainer.json", "{ nonsense")
    r = skep("run", "--", "true").ok()
    assert "is ignored" in r.err and "nonsense" not in r.err
    os.unlink(f"{home.dir}/.devcontainer.json")
    os.symlink("/etc/passwd", f"{home.dir}/.devcontainer.json")
    r = skep("run", "--", "true").ok()
    assert "link" in r.err and "root:" not in r.err


def test_forks_and_snapshots_hide_as_well(home, skep):
    write(home, ".env", "hunter2\n")
    project(home, "hide: [.env]\nports: [80]\n")
    sid = home.new()
    skep("exec", sid, "--", *SHELL, "echo x > f").ok()
    skep("stop", sid).ok()
    skep("snapshot", sid, "one").ok()
    skep("exec", sid, "--", *SHELL, "echo mine > .env").ok()
    skep("stop", sid).ok()
    fork = skep("fork", sid).ok().line
    made = home.new("--from", "one")
    home.kill_skepd()
    assert skep("exec", fork, "--", "cat", ".env").ok().line == "mine"
    for box in (made, fork):
        assert home.show(box)["project"]["hide"] == [".env"]
        assert "hunter2" not in skep("exec", box, "--", *SHELL, "cat .env; cat f; rm -f .env; cat .env; true").ok().out
    skep("rollback", sid, "one").ok()
    assert skep("exec", sid, "--", *SHELL, "cat .env || echo absent").ok().line == "absent"
    skep("snapshot", "rm", "one").ok()


def test_the_file_of_a_repository(home, skep):
    """It is read when it was fetched, and nobody can have agreed to it."""
    src = f"{home.top}/src"
    os.makedirs(src)
    for name, text in ((".skep.yaml", "env: {A: x, LD_PRELOAD: y}\nhide: [hidden]\nlimits: {pids: 77}\n"), ("hidden", "hunter2\n"), ("seen", "seen\n")):
        with open(f"{src}/{name}", "w", encoding="ascii") as f:
            f.write(text)
    git = ["git", "-C", src, "-c", "user.name=a", "-c", "user.email=a@b.test"]
    for args in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *args], check=True, env={**home.env})
    r = skep("new", "--repo", f"file://{src}").ok()
    assert "only the file of a directory can be trusted" in r.err
    out = skep("exec", r.line, "--", *SHELL, "echo $A.$LD_PRELOAD; cat seen; cat hidden || echo absent; git status --short").ok().out.split("\n")
    assert out[:3] == ["x.", "seen", "absent"]
    shown = home.show(r.line)
    assert shown["limits"]["pids"] == 77 and shown["project"]["file"] == ".skep.yaml"
