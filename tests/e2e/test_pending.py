# SPDX-License-Identifier: Apache-2.0
"""What counts as pending: everything that the base has not. Commits of other branches, stashes, tags, amended and detached
commits, staged files, files left in the home; never what .gitignore names. run, diff, ps, rm and export agree on it."""
import pytest

from kit import wait_for
from review_box import Box, repo
from review_kit import git

TELL = {"SKEP_SUMMARY": "always"}
# Each leaves the workspace's files as they were. word: what diff names.
WORK = {
    "another branch": ("git checkout -q -b feature; echo x > new; git add new; git commit -q -m x; git checkout -q main", "refs/heads/feature"),
    "a stash": ("echo x >> a.txt; git stash -q", "stash@{0}"),
    "a tag": ("git tag -a -m notes v1", "refs/tags/v1"),
    "an amended commit": ("git commit -q --amend -m better", "refs/heads/main"),
    "a detached commit": ("git checkout -q --detach; git commit -q --allow-empty -m x; git checkout -q main", "commit "),
    "a branch that was reset": ("git commit -q --allow-empty -m x; git reset -q --hard HEAD~1", "commit "),
    "notes": ("git notes add -m n HEAD", "refs/notes/commits"),
    "only staged": ("echo x > s; git add s; rm s", "staged s"),
    "packed": ("git checkout -q -b feature; git commit -q --allow-empty -m x; git checkout -q main; git gc -q --prune=now", "refs/heads/feature"),
    "a worktree elsewhere": ("git worktree add -q --detach /tmp/w; cd /tmp/w; git commit -q --allow-empty -m x", "commit "),
    "a file in the home": ("echo x > ~/report", "~/report"),
}
AS = ("-e", "GIT_AUTHOR_NAME=a", "-e", "GIT_AUTHOR_EMAIL=a@b", "-e", "GIT_COMMITTER_NAME=a", "-e", "GIT_COMMITTER_EMAIL=a@b")


@pytest.mark.parametrize("what", WORK)
def test_work_that_is_no_changed_file_is_pending(home, what):
    script, word = WORK[what]
    repo(home)
    err = home.skep("run", *AS, "--", "sh", "-ec", script, env=TELL).ok().err
    box, = home.ps()
    sid = box["id"]
    assert "no files changed" in err and "kept as" in err and word.replace("~/", "") in err
    assert box["pending"] == 1 and box["state"] == "stopped"
    assert word in home.skep("diff", sid).ok().out
    left = home.skep("diff", "--json", sid).json()["summary"]["discarded"]
    assert len(left) == 1 and left[0]["path"].startswith(word) and "skep " in left[0]["why"]
    home.skep("rm", sid).fails(4, "1 pending change", "--force")
    assert home.show(sid)["pending"] == 1  # the look at it changed nothing
    home.skep("rm", "--force", sid).ok()


def test_what_git_does_on_its_own_is_not_pending(home):
    repo(home)
    script = "git status; git log; git diff; git checkout -q --detach; git checkout -q main; git gc -q; git fsck; mkdir -p ~/.cache/x ~/go/pkg; echo 1 > ~/.cache/x/y; echo 1 > ~/go/pkg/z"
    err = home.skep("run", "--", "sh", "-ec", script, env=TELL).ok().err
    assert "no files changed" in err and "kept" not in err and not home.ps()


def test_a_snapshot_keeps_what_is_pending(home):
    """Sealed layers count like the writable one."""
    repo(home)
    b = Box(home, *AS)
    b.sh("git checkout -q -b feature; git commit -q --allow-empty -m x; git checkout -q main; echo 1 > ~/report")
    b.run("stop").ok()
    assert home.show(b.id)["pending"] == 2
    b.home.skep("snapshot", b.id, "one").ok()
    b.sh("true")
    b.run("stop").ok()
    assert home.show(b.id)["pending"] == 2
    assert sorted(x["path"] for x in b.json()["summary"]["discarded"]) == ["refs/heads/feature", "~/report"]


def test_expiry_keeps_commits(home):
    repo(home)
    sid = home.new(*AS, "--ttl", "2s", "--on-expiry", "delete")
    home.skep("exec", sid, "--", "sh", "-ec", "git checkout -q -b feature; git commit -q --allow-empty -m x; git checkout -q main").ok()
    wait_for(lambda: "expired and kept" in (home.show(sid)["reason"] or ""), 60, why="the end of the sandbox's time")
    assert home.show(sid)["pending"] == 1


def test_a_bundle_takes_all_commits(home):
    """Every ref that diff names comes along; what no ref names gets one below refs/skep/."""
    d = repo(home)
    b = Box(home, *AS)
    b.sh("git checkout -q -b feature; git commit -q --allow-empty -m on-feature; git checkout -q main; git tag -a -m t v1; git notes add -m n HEAD;"
         "echo x >> a.txt; git stash -q; echo y >> a.txt; git stash -q; git checkout -q --detach; git commit -q --allow-empty -m detached; git checkout -q main")
    bundle = f"{home.top}/all.bundle"
    b.run("export", "--bundle", bundle).ok()
    heads = dict(reversed(x.split()) for x in git("bundle", "list-heads", bundle, cwd=d).decode().splitlines())
    assert {"refs/heads/feature", "refs/tags/v1", "refs/notes/commits"} <= set(heads)
    clone = f"{home.top}/clone"
    git("clone", "-q", d, clone, cwd=home.top)
    git("fetch", "-q", bundle, "refs/*:refs/taken/*", cwd=clone)
    said = git("log", "--format=%s", "--glob=refs/taken/*", cwd=clone).decode()
    assert "on-feature" in said and "detached" in said and said.count("WIP on main") == 2
    assert b.sh("git for-each-ref refs/skep refs/heads/skep").out == "", "the export left a ref behind"


def test_ignored_files_are_told_apart(home):
    repo(home, {"a.txt": "1\n", ".gitignore": "build/\n*.log\n", "kept.log": "1\n"})
    git("add", "-f", "kept.log", cwd=home.dir)
    git("commit", "-q", "-m", "kept", cwd=home.dir)
    make = "mkdir -p build/d; for i in 1 2 3; do echo $i > build/d/$i; done; echo x > x.log"
    err = home.skep("run", "--", "sh", "-ec", make, env=TELL).ok().err
    assert "no files changed, 4 ignored" in err and "kept as" not in err and not home.ps()
    err = home.skep("run", "--", "sh", "-ec", make + "; echo 2 > kept.log; echo 2 >> a.txt", env=TELL).ok().err
    assert "2 files changed, 4 ignored" in err and "kept as" in err
    box, = home.ps()
    diff = home.skep("diff", "--json", box["id"]).json()
    assert box["pending"] == 2 and diff["summary"]["files"] == 2 and diff["summary"]["ignored"] == 4
    home.skep("apply", "--yes", box["id"]).ok()
    home.skep("rm", box["id"]).ok()  # only ignored files are left


def test_ignored_only_needs_no_force(home):
    repo(home, {"a.txt": "1\n", ".gitignore": "build/\n"})
    b = Box(home)
    b.sh("mkdir build; echo 1 > build/x")
    b.run("stop").ok()
    assert home.show(b.id)["pending"] == 0
    b.run("rm").ok()
