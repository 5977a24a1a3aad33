# SPDX-License-Identifier: Apache-2.0
"""Who commits inside: the caller's own name and address, these two values and nothing else of their git configuration."""
import os
import subprocess

from tcp_kit import Caller, serving, token

WHO = ("sh", "-c", "git commit -q --allow-empty -m x && git log -1 --format='%an <%ae> %cn <%ce>'")


def put(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def config(home, text):
    put(f"{home.user_home}/.gitconfig", text)


def test_commits_are_by_the_caller(home, skep, project):
    config(home, '[user]\n\tname = Ada "the first" Löve\n\temail = ada@example.org\n\tsigningkey = AAAA\n[alias]\n\tst = status\n[commit]\n\tgpgsign = true\n')
    for extra in ([], ["--root"], ["--empty"]):
        begin = ("sh", "-c", "git init -q . && " + WHO[2]) if extra == ["--empty"] else WHO
        r = skep("run", "--rm", *extra, "--", *begin).ok()
        assert r.line == "Ada the first Löve <ada@example.org> Ada the first Löve <ada@example.org>"
    r = skep("run", "--", "sh", "-c", "git config --list; cat ~/.gitconfig")
    assert "signingkey" not in r.out and "alias" not in r.out and "gpgsign" not in r.out and "No such file" in r.err
    # it lives with the file: nobody has to restart anything
    config(home, "[user]\n\tname = Bob\n\temail = bob@example.org\n")
    assert skep("run", "--rm", "--", *WHO).ok().line == "Bob <bob@example.org> Bob <bob@example.org>"


def test_what_stands_above_it(home, skep, project):
    """A repository's own address, what is set inside, and a variable."""
    config(home, "[user]\n\tname = Bob\n\temail = bob@example.org\n")
    subprocess.run(["git", "config", "user.email", "bob@work.example"], cwd=project, check=True)
    assert skep("run", "--rm", "--", *WHO).ok().line == "Bob <bob@work.example> Bob <bob@work.example>"
    assert skep("run", "--rm", "-e", "GIT_AUTHOR_NAME=X", "--", *WHO).ok().line == "X <bob@work.example> Bob <bob@work.example>"
    assert skep("run", "--rm", "--", "sh", "-c", "git config --global user.name In; " + WHO[2]).ok().line.startswith("In <bob@work.example>")


def test_by_directory(home, skep, project):
    config(home, f'[user]\n\tname = Bob\n\temail = bob@example.org\n[includeIf "gitdir:{home.dir}/"]\n\tpath = work\n')
    put(f"{home.user_home}/work", "[user]\n\temail = bob@work.example\n")
    assert "bob@work.example" in skep("run", "--rm", "--", *WHO).ok().line


def test_off(home, skep, project):
    config(home, "[user]\n\tname = Bob\n\temail = bob@example.org\n")
    put(f"{home.user_home}/.config/skep/config.yaml", "git_user: off\n")
    r = skep("run", "--rm", "--", *WHO)
    assert r.rc == 128 and "user.email" in r.err and "bob" not in r.out + r.err
    put(f"{home.user_home}/.config/skep/config.yaml", "git_user: maybe\n")
    skep("run", "--", "true").fails(125, "config.yaml", "git_user is on or off")
    os.unlink(f"{home.user_home}/.config/skep/config.yaml")
    assert "Bob" in skep("run", "--rm", "--", *WHO).ok().line


def test_not_for_tokens(home, skep):
    """Who holds a token need not be who runs the daemon."""
    config(home, "[user]\n\tname = Bob\n\temail = bob@example.org\n")
    run = token(home, "--scope", "run")
    with serving(home) as port:
        status, box = Caller(port, run)("POST", "/v1/sandboxes", {"empty": True, "start": True})
        assert status < 300, box
        inside = skep("exec", box["id"], "--", "git", "config", "--system", "--list").ok().out
    assert "safe.directory" in inside and "bob" not in inside
