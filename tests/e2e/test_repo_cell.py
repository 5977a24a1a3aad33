# SPDX-License-Identifier: Apache-2.0
"""git in real cells: on a live directory, on one whose .git is not to be followed, on a URL, on worktrees and submodules."""
import os
import subprocess

from repo_kit import tree_of

WHO = "git config --global user.name in; git config --global user.email in@example.org; "


def git(home, d, *args):
    env = {**home.env, "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org", "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.org", "GIT_ALLOW_PROTOCOL": "file"}
    return subprocess.run(["git", *args], cwd=d, env=env, check=True, stdout=subprocess.PIPE).stdout.decode().strip()


def test_git_works_on_a_live_directory_and_the_host_stays(home, project):
    git(home, project, "config", "remote.origin.url", "https://ann:hunter2@example.org/x.git")
    with open(f"{project}/README", "a", encoding="ascii") as f:
        f.write("dirty\n")
    before = tree_of(project)
    sid = home.new()

    def sh(command):
        return home.skep("exec", sid, "--", "sh", "-ec", command).ok().out

    assert sh("git status --porcelain") == " M README\n"
    assert "hunter2" not in sh("cat .git/config; git remote -v") and sh("ls -A .git/hooks") == ""
    sh(WHO + "git checkout -q -b inside && git commit -qam inside && git stash list && git mv sub sub2 && git commit -qm moved && git gc -q --prune=now && git repack -adq && git fsck")
    assert sh("git status --porcelain; git log --oneline | wc -l").split() == ["3"]
    assert tree_of(project) == before
    home.skep("stop", sid).ok()
    assert sh("git branch --show-current") == "inside\n"


def test_a_git_directory_that_is_not_followed_is_not_seen(home, project):
    os.rename(f"{project}/.git/objects", f"{home.top}/objects")
    os.symlink(f"{home.top}/objects", f"{project}/.git/objects")
    git(home, project, "config", "remote.origin.url", "https://ann:hunter2@example.org/x.git")
    r = home.skep("run", "--", "sh", "-c", "ls -A .git; grep -rs hunter2 . ; git status >/dev/null 2>&1 && echo a repository; cat README").ok()
    assert r.out == "a small project\n", r.out


def test_a_url_gives_a_branch_and_a_ref_another(home, project):
    head = git(home, project, "rev-parse", "HEAD")
    git(home, project, "checkout", "-q", "-b", "side")
    git(home, project, "commit", "-q", "--allow-empty", "-m", "side")
    git(home, project, "checkout", "-q", "main")
    url = f"file://{project}"
    report = "git status --porcelain; git branch --show-current; git rev-parse HEAD; git rev-parse origin/side"
    side = git(home, project, "rev-parse", "side")
    assert home.skep("run", "--repo", url, "--", "sh", "-c", report).ok().out.split() == ["main", head, side]
    assert home.skep("run", "--repo", url, "--ref", "side", "--", "sh", "-c", report).ok().out.split() == ["side", side, side]
    assert home.skep("run", "--repo", url, "--ref", head, "--", "sh", "-c", report).ok().out.split() == [head, side]
    home.skep("run", "--repo", url, "--ref", "sidee", "--", "true").fails(125, "sidee", "did you mean side?")


def test_worktrees_and_submodules(home, project):
    other = f"{home.top}/other"
    os.mkdir(other)
    git(home, other, "init", "-q", "-b", "main")
    with open(f"{other}/o", "w", encoding="ascii") as f:
        f.write("o\n")
    git(home, other, "add", ".")
    git(home, other, "commit", "-q", "-m", "o")
    git(home, project, "submodule", "--quiet", "add", other, "lib")
    git(home, project, "commit", "-q", "-m", "lib")
    wt = f"{home.top}/wt"
    git(home, project, "worktree", "add", "-q", wt)
    before, at_wt = tree_of(project), tree_of(wt)
    out = home.skep("run", "--", "sh", "-ec", WHO + "git status --porcelain; git submodule status | wc -l; cd lib; echo x > x; git add x; git commit -qm x; cd ..; git status --porcelain").ok().out
    assert out.split() == ["1", "M", "lib"], out
    assert home.skep("run", "--", "sh", "-ec", "git status --porcelain; git branch --show-current", cwd=wt).ok().out == "wt\n"
    assert tree_of(project) == before and tree_of(wt) == at_wt


LOOK = "git log --oneline 2>&1 | tail -1; git show HEAD:README 2>&1 | head -1; cat /.objects/*/secret 2>/dev/null; git fsck 2>&1 | grep -c missing"


def test_objects_borrowed_from_elsewhere_are_seen_when_allowed(home, project):
    """git clone --shared: what the alternates file names is the repository's word, and counts only with the caller's."""
    near = f"{home.top}/near"
    git(home, project, "clone", "-q", "--shared", project, near)
    git(home, near, "commit", "-q", "--allow-empty", "-m", "near")
    before = tree_of(project)

    def sh(sid, script):
        return home.skep("exec", sid, "--", "sh", "-c", script).ok().out

    refused = home.skep("new", cwd=near).ok()
    assert "--alternates" in refused.err and f"{project}/.git/objects" in refused.err, refused.err
    assert "bad object" in sh(refused.line, LOOK) or "fatal" in sh(refused.line, LOOK)
    allowed = home.skep("new", "--alternates", project, cwd=near).ok()
    assert "--alternates" not in allowed.err
    assert sh(allowed.line, "git status --porcelain; git log --format=%s | wc -l; git show HEAD:README; git fsck") == "2\na small project\n"
    assert sh(allowed.line, "git config user.email a@b; git config user.name a; echo x >> README; git commit -qam x; git gc -q --prune=now; git fsck; git log --format=%s | head -1") == "x\n"
    r = home.skep("diff", allowed.line).ok().out
    assert r.count("@@") == 2 and "+x" in r, "the base was pinned, though its objects are borrowed"
    assert tree_of(project) == before
    again = home.skep("new", cwd=near).ok()  # what one was allowed another is not
    assert "--alternates" in again.err and "a small project" not in sh(again.line, LOOK)

    # a place that holds more than objects is never shown
    secret = f"{home.top}/secret"
    os.makedirs(f"{secret}/pack")
    for name in ("secret", "pack/secret"):
        with open(f"{secret}/{name}", "w", encoding="ascii") as f:
            f.write("a secret\n")
    with open(f"{near}/.git/objects/info/alternates", "a", encoding="ascii") as f:
        f.write(f"{secret}\n{home.top}\n/etc\n")
    r = home.skep("new", "--alternates", project, "--alternates", secret, cwd=near).ok()
    assert f"{secret}: it holds other things" in r.err
    assert "a secret" not in sh(r.line, LOOK + "; cat /.objects/*/* /.objects/*/*/* 2>/dev/null | grep -a 'a secret'; true")
    home.skep("new", "--alternates", f"{home.top}/nowhere", cwd=near).fails(3, "nowhere")
    assert home.api("POST", "/v1/sandboxes", {"repo": near, "alternates": ["relative"]})[0] == 400


def test_a_frozen_copy_has_its_own_objects(home, project):
    """--pin: whatever becomes of the repository, its gc included, the sandbox does not mind."""
    near = f"{home.top}/near"
    git(home, project, "checkout", "-q", "-b", "side")
    git(home, project, "commit", "-q", "--allow-empty", "-m", "only here")
    git(home, project, "clone", "-q", "--shared", project, near)
    sid = home.skep("new", "--pin", "--alternates", project, cwd=near).ok().line
    for d in (near, project):  # the borrower first: it does not outlive the other
        git(home, d, "checkout", "-q", "--orphan", "other")
        git(home, d, "commit", "-q", "-m", "all is new")
        for b in ("main", "side"):
            subprocess.run(["git", "branch", "-qD", b], cwd=d, env=home.env, check=False, capture_output=True)
        git(home, d, "update-ref", "-d", "refs/remotes/origin/side") if d == near else None
        git(home, d, "reflog", "expire", "--expire=now", "--all")
        git(home, d, "gc", "-q", "--prune=now")
    subprocess.run(["rm", "-rf", f"{near}/.git", f"{project}/.git"], check=True)
    out = home.skep("exec", sid, "--", "sh", "-ec", "git fsck; git log --format=%s | head -1; git status --porcelain; git show HEAD:README").ok().out
    assert out == "only here\na small project\n", out
    home.skep("stop", sid).ok()
    home.skep("exec", sid, "--", "sh", "-ec", WHO + "echo y >> README; git commit -qam y; git gc -q --prune=now; git fsck").ok()
    home.skep("rm", "--force", sid).ok()
