# SPDX-License-Identifier: Apache-2.0
"""skep-repo gitlayer: the private .git of a sandbox. Each test makes a repository on the spot, lays the private .git over it
as a cell does, works in it with git, and looks whether the host's repository is byte for byte what it was."""
import os
import stat
import subprocess
import time

import pytest

from repo_kit import Bench, tree_of


@pytest.fixture
def bench(programs):
    b = Bench(programs)
    yield b
    b.close()


def test_no_repository(bench):
    d = bench.path("plain")
    bench.write(d, "a")
    result, out = bench.layer(d)
    assert result == {"git": False}
    assert os.listdir(f"{out}/ws") == []


def test_everything_git_does_inside_leaves_the_host_alone(bench):
    d = bench.repo()
    bench.write(d, "moved/one", "1\n" * 50)
    bench.write(d, "moved/two", "2\n")
    bench.git(d, "add", ".")
    bench.git(d, "commit", "-q", "-m", "more")
    bench.git(d, "tag", "-a", "v1", "-m", "v1")
    bench.git(d, "branch", "topic", "HEAD~1")
    bench.write(d, "a", "changed\n")
    bench.write(d, "untracked")
    bench.write(d, "ignored.o")
    before = tree_of(d)
    c = bench.cell_on(d)
    assert c.result["head"] == bench.git(d, "rev-parse", "HEAD") and c.result["branch"] == "main"
    assert sorted(c.sh("git status --porcelain").splitlines()) == [" M a", "?? untracked"]
    assert "topic" in c.sh("git branch") and "v1" in c.sh("git describe --tags")
    c.sh("mkdir moved2 && git mv moved/one moved/two moved2 && git commit -qm moved && git stash && git stash list | grep -q main && git stash pop")
    assert c.sh("git status --porcelain").splitlines() == [" M a", "?? untracked"]
    c.sh("git checkout -q -b work && git commit -qam changed && git rebase -q topic && git log --oneline | wc -l")
    c.sh("git worktree add -q ../wt topic 2>/dev/null || git worktree add -q sub-wt topic; git worktree list | wc -l | grep -q 2")
    c.sh("git gc -q --prune=now && git repack -adq && git prune && git reflog expire --expire=now --all && git gc -q && git fsck --connectivity-only")
    c.sh("git tag -d v1 && git branch -D main && git pack-refs --all; git count-objects -v")
    assert tree_of(d) == before


def test_status_is_clean_at_once_and_reads_nothing(bench):
    d = bench.repo(files={f"d{i % 40}/f{i}": f"{i}\n" for i in range(400)})
    old = time.time() - 100
    for at, _, files in os.walk(d):  # as of a checkout that is older than a moment: else git itself looks again
        for f in files:
            if "/.git" not in at:
                os.utime(f"{at}/{f}", (old, old))
    bench.git(d, "update-index", "-q", "--refresh")
    time.sleep(1.1)
    bench.git(d, "status")
    c = bench.cell_on(d)
    assert c.sh("git status --porcelain") == ""
    trace = c.sh("strace -f -qq -e trace=openat -e signal=none git --no-optional-locks status --porcelain 2>&1 | grep -c '\"d[0-9]*/f' || true")
    assert trace.strip() == "0", "git read files of the work tree again"


def test_an_edit_in_the_second_of_the_commit_is_seen(bench):
    d = bench.repo(files={"a": "one\n"})
    bench.write(d, "a", "two\n")  # same size, same second
    assert bench.cell_on(d).sh("git status --porcelain").strip() == "M a"


def test_nothing_that_could_run_or_tell_comes_along(bench):
    d = bench.repo()
    marker = bench.path("ran")
    evil = bench.path("evil")
    bench.write(bench.top, "evil", f"#!/bin/sh\ntouch {marker}\n")
    os.chmod(evil, 0o755)
    bench.write(d, ".gitattributes", "* filter=evil diff=evil\n")
    os.symlink(evil, f"{d}/.git/hooks/post-checkout")
    bench.write(bench.top, "included", "[core]\n\tpager = evil\n[user]\n\tname = included\n")
    config = {"core.fsmonitor": evil, "core.sshCommand": evil, "core.hooksPath": bench.top, "core.pager": evil, "core.editor": evil, "filter.evil.clean": evil, "filter.evil.smudge": evil, "diff.evil.textconv": evil, "diff.external": evil, "include.path": bench.path("included"), "alias.status": "!" + evil, "core.gitProxy": evil, "credential.helper": "!" + evil, "submodule.x.update": "!" + evil, "uploadpack.packObjectsHook": evil, "remote.origin.url": "https://ann:hunter2@example.org/x.git", "remote.evil.url": "ext::sh -c " + evil, "remote.up.url": "https://ghp_token@example.org/x.git", "remote.ssh.url": "ssh://git@example.org/x.git", "http.extraHeader": "Authorization: hunter3", "remote.origin.fetch": "+refs/heads/*:refs/remotes/origin/*", "branch.main.remote": "origin", "branch.main.merge": "refs/heads/main", "user.email": "repo@example.org"}
    with open(f"{d}/.git/config", "a", encoding="ascii") as f:
        for k, v in config.items():
            s, n = k.rsplit(".", 1)
            head = s.split(".", 1)
            f.write(f'[{head[0]}' + (f' "{head[1]}"' if len(head) > 1 else "") + f']\n\t{n} = "{v}"\n')
    with open(f"{d}/.git/logs/HEAD", "a", encoding="ascii") as f:
        f.write(f"{'0' * 40} {'1' * 40} a <a> 1 +0000\tpull https://ann:hunter2@example.org/x: done\n")
    assert not os.path.exists(marker)
    before = tree_of(f"{d}/.git")
    result, out = bench.layer(d)
    assert not os.path.exists(marker)
    for at, _, files in os.walk(out):
        for name in files:
            with open(f"{at}/{name}", "rb") as f:
                text = f.read()
            for secret in (b"hunter", b"ghp_token", b"evil", b"included", b"Authorization"):
                assert secret not in text or name == "index", f"{secret} in {name}"
    assert os.listdir(f"{out}/ws/.git/hooks") == []
    c = bench.cell(d, result, out)
    assert c.sh("git config --get remote.origin.url; git config --get remote.ssh.url; git config --get user.email").splitlines() == ["https://example.org/x.git", "ssh://git@example.org/x.git", "repo@example.org"]
    assert c.sh("git config --get-all remote.evil.url || echo none").strip() == "none"
    c.sh("git status && git checkout -q -b y && git diff && git log -p")
    assert not os.path.exists(marker)
    assert tree_of(f"{d}/.git") == before


def test_linked_worktree(bench):
    d = bench.repo()
    wt = bench.path("wt")
    bench.git(d, "worktree", "add", "-q", "-b", "side", wt)
    bench.write(wt, "a", "in the worktree\n")
    bench.git(wt, "add", "a")
    before, main = tree_of(wt), tree_of(d)
    c = bench.cell_on(wt)
    assert c.result["branch"] == "side"
    assert c.sh("git status --porcelain").strip() == "M  a"
    c.sh("test -d .git && git commit -qm inside && git checkout -q main && git gc -q && git fsck --connectivity-only")
    assert tree_of(wt) == before and tree_of(d) == main


def test_a_git_file_is_followed_only_when_it_is_known_there(bench):
    d = bench.repo("private", {"secret": "s\n"})
    bench.git(d, "worktree", "add", "-q", bench.path("wt"))
    evil = bench.path("evil")

    def refused(why):
        result, out = bench.layer(evil)
        assert result["git"] is False and why in result["reason"], result
        assert os.listdir(f"{out}/ws") == [".git"] and os.listdir(f"{out}/ws/.git") == []
        inside = bench.cell(evil, {"mounts": []}, out).sh("find .git; git status 2>&1 || true").splitlines()
        assert inside[0] == ".git" and "not a git repository" in inside[1], inside

    bench.write(evil, ".git", f"gitdir: {d}/.git\n")
    refused("point back")
    bench.write(evil, ".git", f"gitdir: {d}/.git/worktrees/wt\n")  # another one's place
    refused("point back")
    bench.write(evil, "g/worktrees/x/commondir", f"{d}/.git\n")
    bench.write(evil, "g/worktrees/x/gitdir", f"{evil}/.git\n")
    bench.write(evil, "g/worktrees/x/HEAD", "ref: refs/heads/main\n")
    bench.write(evil, ".git", f"gitdir: {evil}/g/worktrees/x\n")
    refused("does not know")
    bench.write(evil, ".git", "gitdir: /nowhere\n")
    refused("not exist")
    bench.write(evil, ".git", "x" * 100000)
    refused("")
    os.unlink(f"{evil}/.git")
    os.symlink(f"{d}/.git", f"{evil}/.git")
    refused("symbolic link")
    os.unlink(f"{evil}/.git")
    os.mkfifo(f"{evil}/.git")
    refused("neither")


def test_links_inside_a_git_directory_lead_nowhere(bench):
    secret = bench.repo("private", {"secret": "s\n"})
    head = bench.git(secret, "rev-parse", "HEAD")
    for name in ("objects", "refs", "HEAD"):
        d = bench.repo(f"evil-{name}")
        os.rename(f"{d}/.git/{name}", f"{d}/.git/old-{name}")
        os.symlink(f"{secret}/.git/{name}", f"{d}/.git/{name}")
        result, out = bench.layer(d)
        assert result["git"] is False and os.listdir(f"{out}/ws/.git") == []  # nor is the rest of it seen
    d = bench.repo("evil")
    for name in ("packed-refs", "info/exclude", "MERGE_MSG", "logs/HEAD"):
        if os.path.exists(f"{d}/.git/{name}"):
            os.unlink(f"{d}/.git/{name}")
    os.symlink(f"{bench.home}/.gitconfig", f"{d}/.git/MERGE_MSG")
    os.symlink(f"{bench.home}/.gitconfig", f"{d}/.git/logs/HEAD")
    os.symlink(f"{secret}/.git/refs/heads/main", f"{d}/.git/refs/heads/stolen")
    os.symlink(f"{secret}/.git/refs/heads", f"{d}/.git/refs/heads/many")
    bench.write(d, ".git/commondir", f"{secret}/.git\n")
    result, out = bench.layer(d)
    assert result["git"] and len(result["mounts"]) == 1
    names = {f for _, _, fs in os.walk(out) for f in fs}
    assert "MERGE_MSG" not in names
    with open(f"{out}/ws/.git/packed-refs", encoding="ascii") as f:
        assert head not in f.read()


def test_alternates(bench):
    far = bench.repo("far", {"a": "1\n"})
    near = bench.path("near")
    bench.git(bench.top, "clone", "-q", "--shared", far, near)
    result, _ = bench.layer(near)
    assert [m.split("\t")[0] for m in result["mounts"]] == [f"{near}/.git/objects", ""]
    assert any(f"{far}/.git/objects" in s for s in result["skipped"])
    c = bench.cell_on(near, alternates=far)
    assert c.result["skipped"] == []
    before = tree_of(far)
    assert c.sh("git status --porcelain && git fsck 2>&1 && git log --oneline | wc -l").strip() == "1"
    c.sh("echo x > x && git add x && git commit -qm x && git gc -q --prune=now && git repack -adq && echo /nowhere > .git/objects/info/alternates && git fsck")
    assert tree_of(far) == before
    inside = bench.repo("whole", {"a": "1\n"})  # an alternate that lies in the directory itself needs no leave
    bench.git(inside, "clone", "-q", "--bare", far, f"{inside}/.cache.git")
    bench.write(inside, ".git/objects/info/alternates", "../../.cache.git/objects\n")
    result, _ = bench.layer(inside)
    assert f"{inside}/.cache.git/objects" in [m.split("\t")[0] for m in result["mounts"]]


def test_submodules(bench):
    inner = bench.repo("inner", {"i": "i\n"})
    sub = bench.repo("sub", {"s": "s\n"})
    bench.git(sub, "submodule", "--quiet", "add", inner, "deep/inner")
    bench.git(sub, "commit", "-q", "-m", "inner")
    d = bench.repo()
    bench.git(d, "submodule", "--quiet", "add", "--name", "lib/x", sub, "libs/sub")
    bench.git(d, "submodule", "--quiet", "update", "--init", "--recursive")
    bench.git(d, "commit", "-q", "-m", "sub")
    before = tree_of(d)
    c = bench.cell_on(d)
    assert len([m for m in c.result["mounts"] if m[0] != "\t"]) == 3
    assert c.sh("git status --porcelain") == ""
    assert c.sh("git submodule status --recursive | wc -l").strip() == "2"
    c.sh("cd libs/sub/deep/inner && echo more >> i && git commit -qam more && git log --oneline | wc -l | grep -q 2")
    assert c.sh("git -C libs/sub status --porcelain").strip() == "M deep/inner"
    assert tree_of(d) == before
    # a submodule by itself, and a worktree with submodules
    c = bench.cell_on(f"{d}/libs/sub")
    assert c.sh("git status --porcelain && git log --oneline | wc -l").strip() == "2"
    wt = bench.path("wt")
    bench.git(d, "worktree", "add", "-q", wt)
    bench.git(wt, "submodule", "--quiet", "update", "--init", "--recursive")
    c = bench.cell_on(wt)
    assert c.sh("git status --porcelain && git submodule status --recursive | wc -l").strip() == "2"
    c.sh("git -C libs/sub commit -q --allow-empty -m inside")


def test_states_of_a_work_tree(bench):
    d = bench.repo()
    bench.git(d, "checkout", "-q", "-b", "side")
    bench.write(d, "a", "side\n")
    bench.git(d, "commit", "-q", "-am", "side")
    bench.git(d, "checkout", "-q", "main")
    bench.write(d, "a", "main\n")
    bench.git(d, "commit", "-q", "-am", "main")
    bench.write(d, "d/b", "stashed\n")
    bench.git(d, "stash", "-q")
    bench.git(d, "merge", "side", ok=False)
    c = bench.cell_on(d)
    assert c.sh("git status").count("unmerged") and "UU a" in c.sh("git status --porcelain")
    c.sh("echo both > a && git add a && git commit -qm merged && git stash pop && git log --merges --oneline | wc -l | grep -q 1")
    bench.git(d, "merge", "--abort")
    bench.git(d, "rebase", "side", ok=False)
    c = bench.cell_on(d)
    assert "rebase in progress" in c.sh("git status")
    c.sh("echo r > a && git add a && GIT_EDITOR=true git rebase --continue")
    bench.git(d, "rebase", "--abort")
    bench.git(d, "checkout", "-q", "--detach")
    c = bench.cell_on(d)
    assert "branch" not in c.result and c.result["head"] == bench.git(d, "rev-parse", "HEAD")
    assert "detached" in c.sh("git status")
    empty = bench.path("unborn")
    os.mkdir(empty)
    bench.git(empty, "init", "-q", "-b", "first")
    c = bench.cell_on(empty)
    assert "head" not in c.result and c.result["branch"] == "first"
    c.sh("echo x > x && git add x && git commit -qm x")


def test_kinds_of_repositories(bench):
    d = bench.repo("sha256", None, "--object-format=sha256")
    c = bench.cell_on(d)
    assert len(c.result["head"]) == 64
    c.sh("git status --porcelain && echo x > x && git add x && git commit -qm x && git fsck")
    d = bench.repo("sparse", {"one/a": "1\n", "two/b": "2\n"})
    bench.git(d, "sparse-checkout", "set", "--sparse-index", "one")
    c = bench.cell_on(d)
    assert c.sh("git status --porcelain") == "" and c.sh("ls").split() == ["one"]
    d = bench.repo("split")
    bench.git(d, "update-index", "--split-index")
    c = bench.cell_on(d)
    assert c.sh("git status --porcelain") == ""
    d = bench.repo("v4")
    bench.git(d, "update-index", "--index-version", "4", "--untracked-cache")
    assert bench.cell_on(d).sh("touch new && git status --porcelain").strip() == "?? new"
    shallow = bench.path("shallow")
    bench.write(d, "a", "again\n")
    bench.git(d, "commit", "-q", "-am", "again")
    bench.git(bench.top, "clone", "-q", "--depth=1", f"file://{d}", shallow)
    assert bench.cell_on(shallow).sh("git status --porcelain && git log --oneline | wc -l && git fsck 2>&1").strip() == "1"


def test_many_and_strange_refs(bench):
    d = bench.repo()
    head = bench.git(d, "rev-parse", "HEAD")
    bench.write(d, ".git/packed-refs", "# pack-refs with: peeled fully-peeled sorted \n" + "".join(f"{head} refs/heads/x/{i:04}\n" for i in range(4800)))
    lines = [f"create refs/tags/y/{i:04} {head}" for i in range(200)]
    bench.git(d, "update-ref", "--stdin", stdin="\n".join(lines).encode() + b"\n")
    bench.git(d, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/heads/x/0001")
    bench.git(d, "update-ref", "refs/heads/x/0002", bench.git(d, "commit-tree", "-m", "other", f"{head}^{{tree}}"))
    for name, content in ({"refs/heads/sp ace": head, "refs/heads/bad": "nonsense", "refs/heads/empty": "", "refs/heads/long": "f" * 100000, "refs/heads/..x": head, "refs/heads/l.lock": head, "refs/heads/caf\xe9-\u2603": head}).items():
        bench.write(d, f".git/{name}", content + "\n")
    c = bench.cell_on(d)
    assert c.sh("git for-each-ref | wc -l").strip() == str(len(bench.git(d, "for-each-ref").splitlines()))
    assert c.sh("git rev-parse refs/heads/x/0002").strip() == bench.git(d, "rev-parse", "refs/heads/x/0002")
    assert c.sh("git symbolic-ref refs/remotes/origin/HEAD").strip() == "refs/heads/x/0001"
    assert any("refs of" in s for s in c.result["skipped"])


def test_asked_again_and_killed_anywhere(bench):
    d = bench.repo()
    out = bench.path("out")
    first = bench.ok("gitlayer", dir=d, into=out)
    assert bench.ok("gitlayer", dir=d, into=out) == first
    many = [bench.start("gitlayer", dir=d, into=bench.path("many")) for _ in range(8)]
    assert len({p.communicate()[0] for p in many}) == 1
    for point in ("repo.begin", "repo.layer.begin", "repo.layer.files", "repo.result", "repo.commit"):
        for how in ("fail", "kill"):
            into = bench.path(f"{point}-{how}")
            rc, result, _ = bench.call("gitlayer", dir=d, into=into, env={"SKEP_FAULT": f"{point}:{how}"})
            assert rc and not os.path.exists(into), f"{point} {how}"
            assert how == "kill" or point in result["error"]["message"]
            assert bench.ok("gitlayer", dir=d, into=into)["head"] == first["head"]
            assert not os.path.exists(f"{into}.partial")


def test_the_key_is_of_the_state(bench):
    d = bench.repo()
    keys = [bench.layer(d)[0]["key"]]
    assert bench.layer(d)[0]["key"] == keys[0]
    steps = [("tag", "t"), ("branch", "b/c"), ("commit", "-q", "--allow-empty", "-m", "x"), ("config", "user.email", "x@example.org"), ("checkout", "-q", "b/c"), ("pack-refs", "--all"), ("update-ref", "refs/x/y", "HEAD")]
    for s in steps:
        bench.git(d, *s)
        keys.append(bench.layer(d)[0]["key"])
    bench.write(d, "a", "changed\n")  # the work tree is no part of it
    assert bench.layer(d)[0]["key"] == keys[-1]
    bench.git(d, "add", "a")
    keys.append(bench.layer(d)[0]["key"])
    assert len(set(keys)) == len(keys)


def test_a_repository_that_changes_meanwhile(bench):
    d = bench.repo()
    p = subprocess.Popen(["sh", "-c", "for i in $(seq 60); do git commit -q --allow-empty -m $i; git branch b$i; done"], cwd=d, env=bench.env)
    while p.poll() is None:
        bench.n += 1
        rc, result, _ = bench.call("gitlayer", dir=d, into=bench.path(f"l{bench.n}"), objects=bench.objects)
        assert rc == 0 or result["error"]["kind"] == "conflict", result
        if rc == 0:
            c = bench.cell(d, result, bench.path(f"l{bench.n}"))
            assert c.sh("git rev-parse HEAD").strip() == result["head"]
    assert bench.cell_on(d).sh("git branch | wc -l").strip() == "61"


def test_modes(bench):
    result, out = bench.layer(bench.repo())
    assert result["git"]
    for at, dirs, files in os.walk(out):
        for n in dirs + files:
            assert not os.lstat(f"{at}/{n}").st_mode & (stat.S_ISUID | stat.S_ISGID | 0o022), n
