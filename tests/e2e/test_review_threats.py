# SPDX-License-Identifier: Apache-2.0
"""A hostile sandbox against review and apply: THREATS.md T-056 to T-074, each with something that shows the test can fail.

`make soak` (SKEP_TEST_ROUNDS) runs the races for as long as it says there."""
import json
import os
import random
import signal
import subprocess
import time

import pytest
from kit import find_procs, proc_stat, wait_for
from review_box import NUMBERS, Box, files, git, put, repo

SOAK = int(os.environ.get("SKEP_TEST_ROUNDS") or 1) > 1
RACES = 200 if SOAK else 6
KILLS = 50 if SOAK else 3


def read(path):
    with open(path, "rb") as f:
        return f.read()


@pytest.fixture
def box(home):
    repo(home)
    return Box(home)


@pytest.fixture
def outside(home):
    """A directory beside the project with one file, that nothing may touch."""
    d = f"{home.top}/outside"
    put(d, "f", "untouched\n")
    yield d
    assert files(d) == {b"f": ("file", False, b"untouched\n")}, "something was written outside"


# --- T-056, T-057: git's own ---

def test_t056_git_metadata_never_lands(home, box):
    d, mark = home.dir, f"{home.top}/mark"
    before = {n: read(f"{d}/.git/{n}") for n in ("config", "HEAD", "index")}
    box.sh(f"""for h in pre-commit post-checkout post-index-change fsmonitor; do printf '#!/bin/sh\ntouch {mark}\n' > .git/hooks/$h; chmod +x .git/hooks/$h; done
        git config core.fsmonitor 'touch {mark}'; echo '* filter=x' > .git/info/attributes; git config filter.x.clean 'touch {mark}; cat'
        mkdir -p nested && cd nested && git init -q . && printf '#!/bin/sh\n' > .git/hooks/pre-commit && echo code > code.c""")
    report = box.json()
    assert [c["path"] for c in report["changes"]] == ["nested/code.c"]
    assert [x["path"] for x in report["summary"]["discarded"]] == ["nested/.git"], "what is left out is shown"
    box.apply().ok()
    assert os.listdir(f"{d}/nested") == ["code.c"]
    assert {n: read(f"{d}/.git/{n}") for n in before} == before
    git("status", cwd=d)
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=d)
    assert not os.path.exists(mark)
    assert box.sh("ls .git/hooks").out.split() != os.listdir(f"{d}/.git/hooks"), "control: inside they are there"


def test_t057_nothing_of_ours_runs_what_a_configuration_says(home, outside):
    d, mark = repo(home), f"{home.top}/mark"
    put(d, ".gitattributes", "*.txt filter=evil diff=evil merge=evil\n")
    git("add", "-A", cwd=d)
    git("commit", "-q", "-m", "attributes", cwd=d)
    run = f"sh -c 'echo $0 >> {mark}; cat'"
    for key in ("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "diff.external", "diff.evil.textconv", "filter.evil.clean",
                "filter.evil.smudge", "merge.evil.driver", "alias.status", "credential.helper", "gpg.program"):
        git("config", key, ("!" if key.startswith("alias") else "") + run, cwd=d)
    put(d, ".git/hooks/post-checkout", f"#!/bin/sh\necho hook >> {mark}\n", 0o755)
    put(d, "a.txt", NUMBERS.replace("line 3\n", "dirty\n"))
    subprocess.run(["git", "diff"], cwd=d, env=home.env, capture_output=True, check=False)
    assert os.path.exists(mark), "control: git itself runs them"
    os.unlink(mark)
    b = Box(home)
    b.sh("sed -i 's/^line 50$/fifty/' a.txt; git config --global core.fsmonitor 'touch $HOME/mark'; echo '*.txt diff=evil' >> .gitattributes")
    b.diff()
    b.run("export", "--patch", "-").ok()
    b.apply("a.txt").ok()
    b.run("undo").ok()
    b.run("dismiss", "--yes", "a.txt").ok()
    home.skep("fork", b.id).ok()
    assert not os.path.exists(mark), read(mark)


# --- T-058 to T-065: paths and what lies there ---

def test_t058_links(home, box, outside):
    d = home.dir
    box.sh(f"ln -s {outside} abs; ln -s ../outside rel; ln -s .git/hooks hooks; ln -s self self; rm b.txt; ln -s {outside}/f b.txt; ln -s a.txt fine")
    risky = {p for p, c in box.changes().items() if any(r["flag"] == "link" for r in c["risks"])}
    assert risky == {"abs", "rel", "hooks", "b.txt"}, risky
    box.apply().fails(5)
    assert not os.path.lexists(f"{d}/abs")
    box.apply("fine", "self").ok()
    assert os.readlink(f"{d}/fine") == "a.txt"
    r = box.apply("--accept-risk")
    assert r.rc in (0, 5), r.err
    for p in ("abs", "rel", "b.txt"):
        assert not os.path.lexists(f"{d}/{p}") or os.path.islink(f"{d}/{p}") or p == "b.txt"
    assert not os.path.lexists(f"{d}/hooks") or os.path.islink(f"{d}/hooks")


def test_t059_a_parent_that_became_a_link(home, box, outside):
    d = home.dir
    box.sh("echo evil > sub/f; echo more >> sub/c.txt")
    digest = box.digest()
    os.rename(f"{d}/sub", f"{d}/sub.was")
    os.symlink(outside, f"{d}/sub")
    box.apply().fails(4)
    status, body = home.api("POST", f"/v1/sandboxes/{box.id}/apply", {"set": {"all": True}, "digest": digest, "accept_risk": True})
    assert status == 409, body
    os.unlink(f"{d}/sub")
    os.rename(f"{d}/sub.was", f"{d}/sub")
    box.apply().ok()  # control: with the directory it lands
    assert read(f"{d}/sub/f") == b"evil\n"


def test_t060_first_a_link_then_a_file_below_it(home, box, outside):
    box.sh(f"ln -s {outside} l")
    box.apply("--accept-risk").ok()
    assert os.path.islink(f"{home.dir}/l"), "control: the link is there"
    box.sh("rm l; mkdir l; echo evil > l/f; echo evil > l/g")
    r = box.apply("--accept-risk", "l/f")
    assert r.rc in (3, 4, 5), r
    r = box.apply("--accept-risk")  # the whole: the link goes, a directory comes
    assert r.rc in (0, 4)
    assert os.path.islink(f"{home.dir}/l") or read(f"{home.dir}/l/f") == b"evil\n"


def test_t061_hard_links_are_broken(home, box, outside):
    d = home.dir
    os.link(f"{d}/a.txt", f"{home.top}/other-name")
    os.link(f"{outside}/f", f"{d}/linked")
    box.sh("echo x >> a.txt; echo x >> linked; ln a.txt again")
    ino = os.stat(f"{d}/a.txt").st_ino
    box.apply("a.txt", "again").ok()
    assert os.stat(f"{d}/a.txt").st_ino != ino and read(f"{home.top}/other-name") == NUMBERS.encode()
    assert os.stat(f"{d}/a.txt").st_ino != os.stat(f"{d}/again").st_ino
    assert box.apply("linked").rc in (0, 4)


def test_t062_paths_that_leave(home, box, outside):
    box.sh("echo x >> b.txt")
    digest = box.digest()
    for verb in ("apply", "diff", "dismiss", "export"):
        for path in ("../outside/f", "/etc/passwd", "sub/../../x", ".", "a\0b", "x" * 5000, "", ".git/config"):
            status, _, data = home.api_raw("POST", f"/v1/sandboxes/{box.id}/{verb}", {"set": {"paths": [path]}, **({"digest": digest} if verb in ("apply", "dismiss") else {})})
            assert status in (400, 404), (verb, path, status, data)
    for to in ("relative", "../x", "", "/nonexistent/x"):
        status = home.api("POST", f"/v1/sandboxes/{box.id}/apply", {"set": {"all": True}, "digest": digest, "to": to})[0]
        assert status in (400, 404, 409, 503), (to, status)
    assert not git("status", "--porcelain", cwd=home.dir)
    status, _, data = home.api_raw("POST", f"/v1/sandboxes/{box.id}/apply", {"set": {"paths": ["b.txt"]}, "digest": digest})
    assert status == 200, data  # control


def test_t063_git_in_every_spelling(home, box):
    names = [".GIT", ".Git", ".git.", ".git ", "git~1", "GIT~2", ".git::$INDEX_ALLOCATION", ".g\u200bit", "\u2060.git", ".git\ufeff"]
    for n in names:
        box.sh(f"mkdir -p 'deep/{n}/hooks'; echo evil > 'deep/{n}/hooks/pre-commit'; mkdir -p '{n}'; echo evil > '{n}/config'")
    box.sh("echo fine > .gitignore; echo fine > git.txt; echo fine > .github")
    report = box.json()
    assert {c["path"] for c in report["changes"]} - {".gitignore", "git.txt", ".github"} == set()
    assert {x["path"] for x in report["summary"]["discarded"]} == {p for n in names for p in (n, f"deep/{n}")}
    box.apply("--accept-risk").ok()
    assert set(os.listdir(home.dir)) == {".git", "a.txt", "b.txt", "sub", ".gitignore", "git.txt", ".github"}


def test_t064_special_files_and_swaps(home, box):
    d = home.dir
    box.sh("mkfifo pipe; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'; rm b.txt; mkfifo b.txt; rm -r sub; echo file > sub; rm a.txt; mkdir a.txt; echo x > a.txt/x")
    started = time.monotonic()
    report = box.json()
    assert {x["path"] for x in report["summary"]["discarded"]} == {"pipe", "sock", "b.txt"}
    kinds = {c["path"]: c["kind"] for c in report["changes"]}
    assert kinds["sub/c.txt"] == "delete" and kinds["a.txt"] == "delete" and kinds["sub"] == "add" and kinds["a.txt/x"] == "add", kinds
    box.apply("--accept-risk").ok()
    assert time.monotonic() - started < 30, "something waited on a pipe"
    assert not os.path.exists(f"{d}/pipe") and read(f"{d}/sub") == b"file\n" and read(f"{d}/a.txt/x") == b"x\n"
    assert read(f"{d}/b.txt") == b"one\ntwo\nthree\n", "a pipe took a file's place"
    os.unlink(f"{d}/b.txt")
    os.mkfifo(f"{d}/b.txt")  # and one on the host
    box.sh("rm b.txt; echo again > b.txt")
    assert box.apply("b.txt").rc in (4, 5)


def test_t065_modes(home, box):
    d = home.dir
    box.sh("""for f in suid sgid sticky world; do echo x > $f; done; chmod 4755 suid; chmod 2755 sgid; chmod 1644 sticky; chmod 666 world; chmod 777 b.txt; setfattr -n user.evil -v 1 world 2>/dev/null || true""")
    c = box.changes()
    assert c["b.txt"]["kind"] == "mode" and any(r["flag"] == "executable" for r in c["suid"]["risks"])
    home.skep("apply", box.id, "--yes", "--accept-risk", umask=0o22).ok()
    modes = {f: os.stat(f"{d}/{f}").st_mode & 0o7777 for f in ("suid", "sgid", "sticky", "world", "b.txt")}
    assert modes == {"suid": 0o755, "sgid": 0o755, "sticky": 0o644, "world": 0o644, "b.txt": 0o755}, modes
    assert os.listxattr(f"{d}/world") == [] and {os.stat(f"{d}/{f}").st_uid for f in modes} == {os.getuid()}


# --- T-066 to T-073: what a person would have wanted to see ---

def test_t066_files_that_others_run(home, box):
    names = [".envrc", ".npmrc", ".yarnrc.yml", "Makefile", "conftest.py", "sitecustomize.py", ".gitattributes", ".gitmodules", ".pre-commit-config.yaml",
             ".vscode/tasks.json", ".idea/x.xml", ".cursor/mcp.json", ".claude/settings.json", ".codex/config.toml", ".gemini/settings.json", ".devcontainer/devcontainer.json",
             ".github/workflows/x.yml", "x.code-workspace", "pyvenv.cfg", ".husky/pre-commit", ".mcp.json", ".skep.yaml", ".bashrc", "package-lock.json", "deep/Makefile"]
    for n in names:
        box.sh(f"mkdir -p \"$(dirname '{n}')\"; echo x > '{n}'")
    box.sh("echo '{\"scripts\":{\"postinstall\":\"evil\"}}' > package.json; printf '#!/bin/sh\n' > tool; chmod +x tool; echo plain > plain.txt")
    flagged = {p for p, c in box.changes().items() if c["risks"]}
    assert flagged == {*names, "package.json", "tool"}, ({*names, "package.json", "tool"} ^ flagged)
    box.apply().fails(5)
    assert os.listdir(home.dir).sort() == [".git", "a.txt", "b.txt", "sub"].sort() and not os.path.exists(f"{home.dir}/plain.txt")
    box.apply("plain.txt").ok()  # control
    box.apply("--accept", "Makefile", "Makefile").ok()
    box.apply("--accept", "Makefile", "deep/Makefile").fails(5, "deep/Makefile")


def test_t067_what_was_approved_is_what_lands(home, box):
    """A process inside swaps the content all the time; what lands is what the digest says."""
    d = home.dir
    home.skep("exec", "-d", box.id, "--", "sh", "-c",
              "while :; do printf 'good\\n' > t1; mv t1 a.txt; printf 'evil\\n' > t2; mv t2 a.txt; done").ok()
    other = Box(home)
    landed = refused = 0
    for n in range(RACES):
        report = box.json("a.txt") if box.run("diff", "a.txt").rc == 0 else None
        if not report or not report["changes"]:
            continue
        text = report["changes"][0]["hunks"]
        want = b"good\n" if "+good" in json.dumps(text) else b"evil\n"
        status, _, data = home.api_raw("POST", f"/v1/sandboxes/{box.id}/apply", {"set": {"paths": ["a.txt"]}, "digest": box.digest() if n % 3 == 0 else report["summary"]["digest"]})
        if status == 200:
            got = read(f"{d}/a.txt")
            assert n % 3 == 0 or got == want, f"round {n}: {want} was reviewed, {got} landed"
            landed += 1
            box.run("undo").ok()
        else:
            assert status in (404, 409), data
            refused += 1
        assert read(f"{d}/a.txt") == NUMBERS.encode()
    print(f"{landed} landed, {refused} refused")
    assert landed + refused
    # another sandbox, or the host, in between
    home.skep("stop", box.id).ok()
    box.sh("echo mine > b.txt")
    digest = box.digest()
    other.sh("echo other > b.txt")
    other.apply("b.txt").ok()
    assert home.api("POST", f"/v1/sandboxes/{box.id}/apply", {"set": {"paths": ["b.txt"]}, "digest": digest})[0] == 409
    assert read(f"{d}/b.txt") == b"other\n"


def test_t068_a_host_that_saves_meanwhile_loses_nothing(home, box):
    d = home.dir
    box.sh("for i in 1 2 3 4 5 6; do echo inside > f$i; done; sed -i 's/^two$/2/' b.txt")
    hits = 0
    started = time.monotonic()
    box.apply().ok()
    whole = time.monotonic() - started
    box.run("undo").ok()
    for n in range(RACES):
        p = home.popen("apply", box.id, "--yes")
        time.sleep(random.random() * whole)
        put(d, "tmp", f"host {n}\n")
        os.rename(f"{d}/tmp", f"{d}/b.txt")
        p.communicate(timeout=60)
        got = read(f"{d}/b.txt")
        assert got == f"host {n}\n".encode(), f"round {n}: the host's text was lost: {got}"
        new = [i for i in range(1, 7) if os.path.exists(f"{d}/f{i}")]
        assert new in ([], [1, 2, 3, 4, 5, 6]), f"round {n}: half of it landed: {new}"
        hits += p.returncode == 4
        if new:
            put(d, "b.txt", "one\n2\nthree\n")
            box.run("undo").ok()
        put(d, "b.txt", "one\ntwo\nthree\n")
    print(f"{hits} of {RACES} met the apply")


def test_t069_nothing_hides(home, box):
    d = home.dir
    long = "n" * 250
    put(d, ".gitignore", "*.ign\nnode_modules\n")
    put(d, "old.ign", "ignored\n")
    time.sleep(0.05)
    box = Box(home)
    box.sh(f"echo x > new.ign; echo y >> old.ign; mkdir -p node_modules/m void; echo z > node_modules/m/i.js; echo . > .hidden; echo l > {long}; rm sub/c.txt; echo ' ' > ' '; git update-index --assume-unchanged b.txt; echo q >> b.txt")
    listed = box.json("--ignored")["changes"]
    assert box.json()["summary"]["ignored"] == 3, "what the host ignores is left out, and said"
    c = {x["path"]: x for x in listed}
    assert set(c) >= {"new.ign", "old.ign", "node_modules/m/i.js", ".hidden", long, "sub/c.txt", "void", " ", "b.txt"}, set(c)
    assert c["void"]["kind"] == "dir" and c["old.ign"]["kind"] == "modify"
    # deeper than anything is looked at: not shown as an empty directory, but as what could not be looked into
    box.sh("for i in $(seq 250); do mkdir d; cd d; done; echo x > x")
    report = box.json()
    assert [x["path"] for x in report["summary"]["discarded"] if x["path"].startswith("d/d/d")], report["summary"]
    assert not [x for x in report["changes"] if x["path"].startswith("d/d/d")]


def test_t070_submodules(home, box):
    box.sh("""printf '[submodule "x"]\n\tpath = "x\r"\n\turl = ext::sh -c evil\n' > .gitmodules; git init -q inner; cd inner; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; echo f > f; cd ..
        git -c protocol.ext.allow=always update-index --add --cacheinfo 160000,$(git -C inner rev-parse HEAD),inner""")
    report = box.json()
    c = {x["path"]: x for x in report["changes"]}
    assert c[".gitmodules"]["risks"] and "inner/f" in c and "inner/.git" in [x["path"] for x in report["summary"]["discarded"]]
    box.apply().fails(5)
    box.apply("inner/f").ok()
    assert os.listdir(f"{home.dir}/inner") == ["f"] and not find_procs("ext::sh")


def test_t071_t072_text_that_deceives(home, box, terminal):
    box.sh(r"""printf 'if (admin) { /* \342\200\256 } \342\201\246 */\n' > bidi.c; printf 'zero\342\200\213width\n' > zero.c; printf 'p\320\260ypal\n' > confusable.c
        printf '\033]0;evil\007\033[2J\033[31mred\033[0m\r\n' > esc.txt; touch "$(printf 'n\033[2Jame')"; echo x > "$(printf 'bi\342\200\256di')" """)
    c = box.changes()
    for p in ("bidi.c", "zero.c", "esc.txt"):
        assert c[p]["risks"], p
    t = terminal("diff", box.id, env={"PAGER": "cat"}, rows=200)
    assert t.wait() == 0
    shown = t.seen
    for bad in (b"\x1b]0;", b"\x1b[2J", b"\x07", "\u202e".encode(), "\u2066".encode()):
        assert bad not in shown, (bad, shown)
    assert b"evil" in shown, "control: it is shown, harmless"
    t = terminal("apply", box.id)  # refused before anything is asked
    t.expect("must be accepted by name")
    assert t.wait() and b"\x1b[2J" not in t.seen
    t = terminal("apply", box.id, "--accept-risk")
    t.expect(r"\[y/N\]")
    assert b"\x1b[2J" not in t.seen
    t.send("n\n")
    t.wait()
    for args in (("diff", box.id, "\x1b[2J"), ("apply", box.id, "\x1b]0;x\x07"), ("export", "\x1b[2J")):
        t = terminal(*args)
        assert t.wait() != 0 and b"\x1b[2J" not in t.seen and b"\x1b]0;" not in t.seen, t.seen


def test_t073_nothing_is_approved_unseen(home, box):
    box.sh("""printf '*.c -diff\n*.js binary linguist-generated\n' > .gitattributes; git config diff.x.binary true
        echo 'evil();' > hidden.c; head -c 100000 /dev/zero | tr '\\0' x > min.js; echo 'evil' >> min.js; printf '\\0evil' > b.bin; truncate -s 9G huge""")
    c = box.changes()
    patch = box.diff()
    assert b"+evil();" in patch and b"xxxevil" in patch, "attributes hide nothing"
    assert c["b.bin"]["binary"] and c["b.bin"]["risks"] and c["huge"]["unseen"]
    assert b"skep: not in this patch: huge: too long to be shown" in patch
    box.apply("b.bin").fails(5)
    r = box.apply("--accept-risk", "huge")
    assert r.rc == 6 and not os.path.exists(f"{home.dir}/huge"), "what nobody can see can not be approved"
    box.apply("hidden.c").ok()  # control


# --- T-074: the end of the world ---

def test_t074_killed_while_it_lands(home, box):
    """skepd and skep-review die at any moment of apply and undo: all old or all new once somebody looks again."""
    d = home.dir
    box.sh("for i in $(seq 20); do echo new > n$i; done; echo x >> a.txt; rm b.txt")
    old, new = files(d), box.tree()
    started = time.monotonic()
    box.apply().ok()
    whole = time.monotonic() - started
    box.run("undo").ok()
    seen = {"old": 0, "new": 0}
    for n in range(KILLS):
        p = home.popen("apply" if files(d) == old else "undo", box.id, *(["--yes"] if files(d) == old else []))
        time.sleep(random.random() * whole * 1.2)
        skepd = home.skepd_pid()
        workers = [x for x in find_procs("skep-review") if proc_stat(x) and proc_stat(x)[1] == skepd]
        for pid in [skepd, *(workers if n % 3 else [])]:  # alone it goes on to its end
            try:
                os.kill(pid, signal.SIGKILL)
            except (OSError, TypeError):
                pass
        p.communicate(timeout=60)
        box.run("show").ok()  # a new skepd settles it
        wait_for(lambda: box.run("diff", "--stat").rc == 0, 30, 0.2, why="a review after the crash")
        try:
            wait_for(lambda: files(d) in (old, new), 15, 0.2)
        except AssertionError:
            raise AssertionError(f"round {n}: neither old nor new: {sorted(set(files(d)) ^ set(old))}") from None
        seen["old" if files(d) == old else "new"] += 1
    print(seen)
