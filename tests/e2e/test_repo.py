# SPDX-License-Identifier: Apache-2.0
"""skep-repo fetch, checkout, copy and pin, on repositories made on the spot: over file, git and http on loopback."""
import base64
import http.server
import json
import os
import shutil
import socket
import subprocess
import threading
import time

import pytest

from kit import wait_for
from repo_kit import Bench, tree_of


@pytest.fixture
def bench(programs):
    b = Bench(programs)
    yield b
    b.close()


class Web:
    """git's own http backend on loopback, with or without a password, and an LFS store behind the same address."""

    def __init__(self, root, env, password=None):
        web = self
        self.asked, self.lfs = [], {}

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def refuse(self):
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="x"')
                self.send_header("Content-Length", "0")
                self.end_headers()

            def reply(self, code, body, kind="application/vnd.git-lfs+json"):
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def serve_lfs(self, body):
                if self.path.endswith("/objects/batch"):
                    objects = [{"oid": o["oid"], "size": o["size"], "actions": {"download": {"href": f"{web.url}/lfs/{o['oid']}"}}} for o in json.loads(body)["objects"]]
                    return self.reply(200, json.dumps({"transfer": "basic", "objects": objects}).encode())
                data = web.lfs.get(self.path.rsplit("/", 1)[1])
                return self.reply(200, data, "application/octet-stream") if data is not None else self.reply(404, b"{}")

            def answer(self):
                web.asked.append(f"{self.command} {self.path}")
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if password and self.headers.get("Authorization") != "Basic " + base64.b64encode(password.encode()).decode():
                    return self.refuse()
                if "/info/lfs/" in self.path or self.path.startswith("/lfs/"):
                    return self.serve_lfs(body)
                path, _, query = self.path.partition("?")
                e = {**env, "GIT_PROJECT_ROOT": root, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""), "REMOTE_USER": "x", "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "CONTENT_LENGTH": str(len(body))}
                out = subprocess.run(["git", "http-backend"], input=body, env=e, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
                head, _, data = out.partition(b"\r\n\r\n")
                fields = dict(x.split(": ", 1) for x in head.decode().split("\r\n") if ": " in x)
                self.send_response(int(fields.pop("Status", "200").split()[0]))
                for k, v in fields.items():
                    self.send_header(k, v)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
                return None

            do_GET = do_POST = answer

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        self.url = f"http://{self.address}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def web(bench):
    opened = []

    def start(password=None):
        opened.append(Web(bench.top, bench.env, password))
        return opened[-1]

    yield start
    for w in opened:
        w.close()


def files_of(d):
    return sorted(os.path.relpath(f"{at}/{f}", d) for at, _, fs in os.walk(d) for f in fs)


def read(path):
    with open(path, "rb") as f:
        return f.read().decode()


# -- fetch ------------------------------------------------------------------------------------------------------
def test_fetch_once_then_only_updates(bench):
    d = bench.repo()
    bench.git(d, "tag", "-a", "v1", "-m", "v1")
    url, into = f"file://{d}", bench.path("m.git")
    first = bench.ok("fetch", url=url, into=into)
    assert first.pop("bytes") > 0
    assert first == {"commit": bench.git(d, "rev-parse", "HEAD"), "ref": "refs/heads/main", "fetched": True}
    inode = os.stat(into).st_ino
    assert bench.ok("fetch", url=url, into=into)["fetched"] is False
    tag = bench.ok("fetch", url=url, into=into, ref="v1")
    assert (tag["commit"], tag["ref"], tag["fetched"]) == (first["commit"], "refs/tags/v1", False)
    assert bench.ok("fetch", url=url, into=into, ref=first["commit"][:10])["commit"] == first["commit"]
    bench.git(d, "checkout", "-q", "-b", "topic/x")
    bench.write(d, "a", "again\n")
    bench.git(d, "commit", "-q", "-am", "again")
    bench.git(d, "update-ref", "refs/pull/7/head", bench.git(d, "commit-tree", "-m", "pull", "HEAD^{tree}"))
    again = bench.ok("fetch", url=url, into=into, ref="topic/x")
    assert again.pop("bytes") > 0
    assert again == {"commit": bench.git(d, "rev-parse", "topic/x"), "ref": "refs/heads/topic/x", "fetched": True}
    assert bench.ok("fetch", url=url, into=into, ref="refs/pull/7/head")["commit"] == bench.git(d, "rev-parse", "refs/pull/7/head")
    assert bench.ok("fetch", url=url, into=into)["ref"] == "refs/heads/topic/x"  # the remote's HEAD moved
    assert os.stat(into).st_ino == inode and not os.path.exists(f"{into}.partial")
    os.rename(d, f"{d}-gone")  # a commit that is there needs no remote
    there = bench.ok("fetch", url=url, into=into, ref=first["commit"])
    assert (there["commit"], there["ref"], there["fetched"]) == (first["commit"], first["commit"], False)
    bench.fails("fetch", "invalid", "not a git repository", url=url, into=into)


def test_rewritten_history_keeps_what_somebody_uses(bench):
    d = bench.repo()
    url, into = f"file://{d}", bench.path("m.git")
    old = bench.ok("fetch", url=url, into=into)["commit"]
    bench.git(d, "branch", "x")
    bench.ok("fetch", url=url, into=into)
    bench.git(d, "branch", "-D", "x")
    bench.git(d, "branch", "x/y")  # a directory where a branch was
    bench.git(d, "commit", "-q", "--amend", "-m", "rewritten")
    bench.git(d, "gc", "-q", "--prune=now")
    assert bench.ok("fetch", url=url, into=into)["commit"] != old
    assert bench.git(into, "cat-file", "-t", old) == "commit"


def test_fetch_says_what_is_wrong(bench, web):
    d = bench.repo()
    bench.git(d, "branch", "feature-one")
    into = bench.path("m.git")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        closed = s.getsockname()[1]
    assert "feature-one" in bench.fails("fetch", "not_found", "no branch", url=f"file://{d}", into=into, ref="featureone")
    bench.fails("fetch", "not_found", "no such commit", url=f"file://{d}", into=into, ref="f" * 40)
    bench.fails("fetch", "unavailable", "reached", url=f"http://127.0.0.1:{closed}/x", into=bench.path("n.git"))
    bench.fails("fetch", "unavailable", "resolve", url="https://nowhere.invalid/x", into=bench.path("n.git"))
    bench.fails("fetch", "invalid", url=f"file://{bench.home}", into=bench.path("n.git"))
    w = web("ann:s3cret/")
    bench.fails("fetch", "denied", "credentials", url=f"{w.url}/p/.git", into=bench.path("n.git"))
    bench.fails("fetch", "denied", "refuses", url=f"http://ann:wrong@{w.address}/p/.git", into=bench.path("n.git"))
    bench.fails("fetch", "invalid", "no such repository", url=f"http://ann:s3cret%2F@{w.address}/none", into=bench.path("n.git"))
    for bad in ("ext::sh -c id", "ext::id", "-oProxyCommand=id", "ssh://-oProxyCommand=id/x", "ftp://x/y", "https://", "https://h", "file://host/x", "relative/path", "", "https://a b/c", "https://h/x\ny", "fd::17"):
        bench.fails("fetch", "invalid", "not a repository URL", url=bad, into=bench.path("n.git"))
    for bad in ("-x", "--upload-pack=id"):
        bench.fails("fetch", "invalid", url=f"file://{d}", into=into, ref=bad)
    assert not os.path.exists(bench.path("n.git")) and not os.path.exists(bench.path("n.git.partial"))


def test_credentials_of_a_url_are_nowhere(bench, web):
    d = bench.repo()
    w = web("ann:s3cret/")
    into, tree = bench.path("m.git"), bench.path("tree")
    store = f"{bench.home}/kept"
    bench.git(bench.top, "config", "--global", "credential.helper", f"store --file={store}")
    url = f"http://ann:s3cret%2F@{w.address}/p/.git"
    rc, result, said = bench.call("fetch", url=url, into=into)
    assert rc == 0 and result["commit"] == bench.git(d, "rev-parse", "HEAD"), said
    assert "s3cret" not in said + json.dumps(result)
    bench.ok("checkout", repo=into, commit=result["commit"], into=tree, url=url, ref=result["ref"])
    p = subprocess.run([bench.program, "fetch", "--url", "-", "--into", into], input=url.encode() + b"\n", env=bench.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
    assert b"s3cret" not in p.stdout + p.stderr
    assert subprocess.run(["grep", "-rlE", "s3cret|ann:", into, tree], stdout=subprocess.PIPE, check=False).stdout == b""
    assert not os.path.exists(store), "another helper was told"
    assert bench.git(f"{tree}/git/ws", "config", "-f", ".git/config", "remote.origin.url") == f"http://{w.address}/p/.git"
    # and those of the caller's own helper are used
    with open(store, "w", encoding="ascii") as f:
        f.write(f"http://ann:s3cret%2F@{w.address.replace(':', '%3a')}\n")
    bench.ok("fetch", url=f"{w.url}/p/.git", into=bench.path("own.git"))


def test_the_callers_configuration_counts_and_the_repositorys_does_not(bench):
    d = bench.repo()
    marker = bench.path("ran")
    bench.write(bench.top, "evil", f"#!/bin/sh\ntouch {marker}\n")
    os.chmod(bench.path("evil"), 0o755)
    bench.git(bench.top, "config", "--global", f"url.file://{d}.insteadOf", "https://alias.invalid/x")
    bench.fails("fetch", "denied", "not allowed", url="https://alias.invalid/x", into=bench.path("m.git"))  # https does not become file
    into = bench.path("m.git")
    result = bench.ok("fetch", url=f"file://{d}", into=into)
    # a mirror that somebody tampered with runs nothing either
    for hook in ("reference-transaction", "post-checkout", "pre-auto-gc"):
        bench.write(into, f"hooks/{hook}", f"#!/bin/sh\ntouch {marker}\n")
        os.chmod(f"{into}/hooks/{hook}", 0o755)
    bench.git(d, "commit", "-q", "--allow-empty", "-m", "x")
    bench.ok("fetch", url=f"file://{d}", into=into)
    bench.ok("checkout", repo=into, commit=result["commit"], into=bench.path("t"))
    assert not os.path.exists(marker)


def test_a_hundred_ask_at_once_and_one_fetch_is_made(bench):
    d = bench.repo(files={f"f{i}": f"{i}\n" * 100 for i in range(200)})
    log = bench.path("daemon.log")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with open(log, "wb") as f:
        p = subprocess.Popen(["git", "daemon", "--verbose", "--export-all", "--listen=127.0.0.1", f"--port={port}", f"--base-path={bench.top}", "--reuseaddr", "--log-destination=stderr"], env=bench.env, stderr=f, stdout=f, start_new_session=True)
    try:
        wait_for(lambda: b"Ready to rumble" in open(log, "rb").read(), why="git daemon")
        url, into = f"git://127.0.0.1:{port}/p/.git", bench.path("m.git")
        lock = open(f"{into}.lock", "w", encoding="ascii")  # all of them wait behind this one
        import fcntl
        fcntl.flock(lock, fcntl.LOCK_EX)
        many = [bench.start("fetch", url=url, into=into) for _ in range(100)]
        time.sleep(1.5)
        assert all(x.poll() is None for x in many)
        lock.close()
        results = [json.loads(x.communicate(timeout=60)[0].splitlines()[-1]) for x in many]
        assert {r["commit"] for r in results} == {bench.git(d, "rev-parse", "HEAD")}
        assert sum(r["fetched"] for r in results) == 1
        # one question what there is, one fetch
        assert open(log, "rb").read().count(b"Request upload-pack") == 2
    finally:
        os.killpg(p.pid, 15)
        p.wait(10)


def test_fetch_killed_anywhere(bench):
    d = bench.repo()
    for point in ("repo.fetch.lock", "repo.fetch.ask", "repo.begin", "repo.fetch.init", "repo.fetch.done", "repo.commit"):
        for how in ("fail", "kill"):
            into = bench.path(f"{point}-{how}.git")
            rc, _, _ = bench.call("fetch", url=f"file://{d}", into=into, env={"SKEP_FAULT": f"{point}:{how}"})
            assert rc and not os.path.exists(into), f"{point} {how}"
            assert bench.ok("fetch", url=f"file://{d}", into=into)["fetched"] is True
            assert not os.path.exists(f"{into}.partial")
            bench.git(into, "fsck", "--full")
    bench.git(d, "commit", "-q", "--allow-empty", "-m", "x")
    rc, _, _ = bench.call("fetch", url=f"file://{d}", into=into, env={"SKEP_FAULT": "repo.fetch.done:kill"})
    assert rc and bench.ok("fetch", url=f"file://{d}", into=into)["commit"] == bench.git(d, "rev-parse", "HEAD")


def test_sha256_and_empty(bench):
    d = bench.repo("s", None, "--object-format=sha256")
    r = bench.ok("fetch", url=d, into=bench.path("m.git"))
    assert len(r["commit"]) == 64
    t = bench.ok("checkout", repo=bench.path("m.git"), commit=r["commit"], into=bench.path("t"), url=d, ref=r["ref"], objects=bench.objects)
    c = bench.cell(bench.path("t/files"), t, bench.path("t/git"))
    assert c.sh("git status --porcelain && git fsck 2>&1") == ""
    os.mkdir(bench.path("empty"))
    bench.git(bench.path("empty"), "init", "-q")
    bench.fails("fetch", "not_found", "no commit", url=bench.path("empty"), into=bench.path("e.git"))


# -- checkout ---------------------------------------------------------------------------------------------------
def tree(bench, d, name="tree", ref=None, **kw):
    r = bench.ok("fetch", url=f"file://{d}", into=bench.path(f"{name}.git"), **({"ref": ref} if ref else {}))
    t = bench.ok("checkout", repo=bench.path(f"{name}.git"), commit=r["commit"], into=bench.path(name), url=f"file://{d}", ref=r["ref"], objects=bench.objects, **kw)
    return t, bench.path(name)


def test_checkout(bench):
    d = bench.repo()
    os.symlink("a", f"{d}/link")
    os.chmod(f"{d}/d/b", 0o755)
    bench.git(d, "add", ".")
    bench.git(d, "commit", "-q", "-m", "more")
    bench.git(d, "branch", "side", "HEAD~1")
    bench.git(d, "tag", "-a", "v1", "-m", "v1")
    result, t = tree(bench, d)
    assert files_of(f"{t}/files") == [".gitignore", "a", "d/b", "link"]
    assert os.readlink(f"{t}/files/link") == "a" and os.access(f"{t}/files/d/b", os.X_OK)
    assert (result["branch"], result["head"]) == ("main", bench.git(d, "rev-parse", "HEAD"))
    before, mirror = tree_of(t), tree_of(f"{t}.git")
    c = bench.cell(f"{t}/files", result, f"{t}/git")
    assert c.sh("git status --porcelain=v2 --branch").splitlines() == [f"# branch.oid {result['head']}", "# branch.head main", "# branch.upstream origin/main", "# branch.ab +0 -0"]
    reads = c.sh("strace -f -qq -e trace=openat -e signal=none git --no-optional-locks status --porcelain 2>&1 | grep -cE '\"(a|d/b)\"' || true")
    assert reads.strip() == "0"
    assert c.sh("git branch -r").split() == ["origin/main", "origin/side"]
    c.sh("git checkout -q side && git checkout -q main && echo x > x && git add x && git commit -qm x && git rebase -q side && git stash list && git gc -q --prune=now && git repack -adq && git fsck")
    assert tree_of(t) == before and tree_of(f"{t}.git") == mirror
    assert bench.ok("checkout", repo=f"{t}.git", commit=result["head"], into=t) == result
    short = bench.ok("checkout", repo=f"{t}.git", commit=result["head"], into=bench.path("short"), url="@THE_URL", ref="side", env={"THE_URL": f"https://u:secret@example.org{d}"})
    assert short["branch"] == "side" and "secret" not in read(f"{bench.path('short')}/git/ws/.git/config")
    assert bench.ok("checkout", repo=f"{t}.git", commit=result["head"], into=bench.path("plain"))["branch"] == "main"
    detached, t2 = tree(bench, d, "other", ref=result["head"])
    assert "branch" not in detached and bench.cell(f"{t2}/files", detached, f"{t2}/git").sh("git symbolic-ref -q HEAD || git status --porcelain") == ""


def test_checkout_runs_no_filter(bench):
    d = bench.repo()
    marker = bench.path("ran")
    bench.write(d, ".gitattributes", "* filter=evil ident text eol=crlf\n")
    bench.git(d, "add", ".")
    bench.git(d, "commit", "-q", "-m", "attributes")
    for k in ("smudge", "clean", "process"):
        bench.git(bench.top, "config", "--global", f"filter.evil.{k}", f"touch {marker}")
    os.path.exists(marker) and os.unlink(marker)
    result, t = tree(bench, d)
    assert not os.path.exists(marker) and read(f"{t}/files/a") == "one\r\n"
    assert bench.cell(f"{t}/files", result, f"{t}/git").sh("git status --porcelain") == ""


def test_checkout_refuses_hostile_trees(bench):
    d = bench.repo()
    blob = bench.git(d, "hash-object", "-w", "--stdin", stdin=b"evil\n")
    for i, path in enumerate((".git/hooks/x", ".GIT/config", "git~1/config", "../x", "a/.git/config")):
        sub = path
        t = bench.git(d, "mktree", stdin=f"100644 blob {blob}\t{sub.rsplit('/', 1)[1]}\n".encode())
        for part in reversed(sub.split("/")[:-1]):
            t = bench.git(d, "mktree", stdin=f"040000 tree {t}\t{part}\n".encode(), ok=False) or t
        c = bench.git(d, "commit-tree", "-m", "evil", t)
        bench.git(d, "update-ref", f"refs/heads/evil{i}", c)
    rc, result, _ = bench.call("fetch", url=f"file://{d}", into=bench.path("m.git"))
    assert rc == 1 and result["error"]["kind"] == "invalid", result  # fsck
    # and what is in a mirror all the same is not checked out
    for i in range(5):
        c = bench.git(d, "rev-parse", f"evil{i}")
        rc, result, _ = bench.call("checkout", repo=f"{d}/.git", commit=c, into=bench.path(f"evil{i}"))
        assert rc == 1 and not os.path.exists(bench.path(f"evil{i}")), i
        assert not os.path.exists(bench.path(f"evil{i}.partial"))
    bench.fails("checkout", "not_found", "fetch it first", repo=f"{d}/.git", commit="0" * 40, into=bench.path("none"))


def test_checkout_killed_anywhere(bench):
    d = bench.repo()
    repo = bench.path("m.git")
    c = bench.ok("fetch", url=d, into=repo)["commit"]
    for point in ("repo.begin", "repo.tree.git", "repo.tree.files", "repo.result", "repo.commit"):
        into = bench.path(point)
        rc, _, _ = bench.call("checkout", repo=repo, commit=c, into=into, env={"SKEP_FAULT": f"{point}:kill"})
        assert rc and not os.path.exists(into)
    many = [bench.start("checkout", repo=repo, commit=c, into=bench.path(p)) for p in ("repo.begin", "repo.tree.git", "repo.tree.files", "repo.result", "repo.commit", "repo.commit")]
    assert [x.wait(30) for x in many] == [0] * 6
    for x in many:
        x.stdout.close()
        x.stderr.close()
    assert files_of(f"{bench.path('repo.commit')}/files") == [".gitignore", "a", "d/b"]
    assert not [n for n in os.listdir(bench.top) if n.endswith(".partial")]


def module(bench, d, name, path, url, commit):
    bench.git(d, "config", "-f", ".gitmodules", f"submodule.{name}.path", path)
    bench.git(d, "config", "-f", ".gitmodules", f"submodule.{name}.url", url)
    bench.git(d, "update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")


def test_submodules_come_along_from_hosts_that_are_named(bench, web):
    w = web("ann:pw")
    deep = bench.repo("deep", {"z": "z\n"})
    sub = bench.repo("sub", {"s": "s\n"})
    module(bench, sub, "deep", "deep", "../../deep/.git", bench.git(deep, "rev-parse", "HEAD"))
    bench.git(sub, "add", ".gitmodules")
    bench.git(sub, "commit", "-q", "-m", "deep")
    private = bench.repo("private", {"secret": "s\n"})
    c, secret = bench.git(sub, "rev-parse", "HEAD"), bench.git(private, "rev-parse", "HEAD")
    d = bench.repo()
    module(bench, d, "lib/sub", "libs/sub", "../../sub/.git", c)
    for name, path, url in (("ext", "m1", "ext::sh -c id"), ("file", "m2", f"file://{private}"), ("path", "m3", f"{private}"), ("host", "m4", "https://elsewhere.invalid/x"), ("git", "m5", "git://127.0.0.1/x"), ("../../evil", "m6", "../../sub/.git"), ("dash", "m7", "-u./x"), ("gone", "m9", "../../none/.git"), ("up", "m10", "../../../../../../../../../etc")):
        module(bench, d, name, path, url, secret)
    bench.git(d, "add", ".gitmodules")
    bench.git(d, "commit", "-q", "-m", "modules")
    url = f"http://ann:pw@{w.address}/p/.git"
    os.mkdir(bench.path("repos"))
    bench.fails("fetch", "invalid", "broken", url=url, into=bench.path("m.git"))  # such names fail git's own check
    rc, t, _ = bench.call("checkout", repo=f"{d}/.git", commit=bench.git(d, "rev-parse", "HEAD"), into=bench.path("t"), url=url, ref="refs/heads/main", repos=bench.path("repos"), objects=bench.objects)
    assert rc == 0, t
    files = bench.path("t/files")
    assert files_of(files) == [".gitignore", ".gitmodules", "a", "d/b", "libs/sub/.gitmodules", "libs/sub/deep/z", "libs/sub/s"]
    skipped = "\n".join(t["skipped"])
    assert len(t["skipped"]) == 9 and "pw" not in skipped and "elsewhere" not in files, skipped
    for m in ("m1", "m2", "m3", "m4", "m5", "m6", "m7", "m9", "m10"):
        assert f"{m}: " in skipped, (m, skipped)
    cell = bench.cell(files, t, bench.path("t/git"))
    assert cell.sh("git status --porcelain 2>/dev/null") == ""
    assert cell.sh("git -C libs/sub/deep log --oneline | wc -l; git submodule status libs/sub 2>/dev/null").split()[0:2] == ["1", c]
    assert subprocess.run(["grep", "-rl", "ann:pw", bench.path("t"), bench.path("repos")], stdout=subprocess.PIPE, check=False).stdout == b""


def test_a_submodule_is_not_written_through_a_link(bench, web):
    """A tree with two entries of one name makes a submodule of what another one's files made a link."""
    w = web()
    victim = bench.path("victim")
    os.mkdir(victim)
    first = bench.repo("first", {"plain": "p\n"})
    os.symlink(victim, f"{first}/x")
    bench.git(first, "add", "x")
    bench.git(first, "commit", "-q", "-m", "link")
    second = bench.repo("second", {"owned": "o\n"})
    c1, c2 = (bench.git(r, "rev-parse", "HEAD") for r in (first, second))
    d = bench.repo()
    for name, path in (("first", "s"), ("second", "s/x")):
        bench.git(d, "config", "-f", ".gitmodules", f"submodule.{name}.path", path)
        bench.git(d, "config", "-f", ".gitmodules", f"submodule.{name}.url", f"../../{name}/.git")
    blob = bench.git(d, "hash-object", "-w", ".gitmodules")
    below = bench.git(d, "mktree", "--missing", stdin=f"160000 commit {c2}\tx\n".encode())
    rows = ((b"100644 .gitmodules", blob), (b"160000 s", c1), (b"40000 s", below))
    tree = bench.git(d, "hash-object", "-w", "--literally", "-t", "tree", "--stdin", stdin=b"".join(head + b"\0" + bytes.fromhex(oid) for head, oid in rows))
    c = bench.git(d, "commit-tree", "-m", "evil", tree)
    os.mkdir(bench.path("repos"))
    rc, result, err = bench.call("checkout", repo=f"{d}/.git", commit=c, into=bench.path("t"), url=f"{w.url}/p/.git", repos=bench.path("repos"))
    assert os.listdir(victim) == [], (rc, result, err)
    assert rc == 1 and result["error"]["kind"] == "invalid", (rc, result, err)


def test_lfs(bench, web):
    assert shutil.which("git-lfs", path="/usr/local/bin:/usr/bin:/bin"), "git-lfs is missing: tools/deps test"
    w = web("ann:pw")
    big = b"large file\n" * 1000
    d = bench.repo()
    lfs = {"filter.lfs.clean": "git-lfs clean -- %f", "filter.lfs.smudge": "git-lfs smudge -- %f", "filter.lfs.process": "git-lfs filter-process", "filter.lfs.required": "true"}
    for k, v in lfs.items():
        bench.git(d, "config", k, v)
    bench.write(d, ".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    bench.write(d, ".lfsconfig", "[lfs]\n\turl = http://elsewhere.invalid/\n")
    bench.write(d, "sub/big.bin", big)
    bench.git(d, "add", ".")
    bench.git(d, "commit", "-q", "-m", "lfs")
    pointer = bench.git(d, "show", "HEAD:sub/big.bin")
    w.lfs[pointer.split("sha256:")[1].split()[0]] = big
    url = f"http://ann:pw@{w.address}/p/.git"
    r = bench.ok("fetch", url=url, into=bench.path("m.git"))
    t = bench.ok("checkout", repo=bench.path("m.git"), commit=r["commit"], into=bench.path("t"), url=url, ref=r["ref"], objects=bench.objects)
    assert t["skipped"] == [] and read(bench.path("t/files/sub/big.bin")) == big.decode()
    assert bench.cell(bench.path("t/files"), t, bench.path("t/git")).sh("git status --porcelain") == ""
    # what can not be had is a pointer, and said
    w.lfs.clear()
    shutil.rmtree(bench.path("m.git/lfs"))
    t = bench.ok("checkout", repo=bench.path("m.git"), commit=r["commit"], into=bench.path("t2"), url=url, ref=r["ref"])
    assert "left as pointers" in t["skipped"][0] and read(bench.path("t2/files/sub/big.bin")).startswith("version https://git-lfs")
    # a local directory is seen as it is, and pinned as it is
    p = bench.ok("pin", dir=d, shadow=bench.path("s.git"))
    assert bench.git(bench.path("s.git"), "show", f"{p['tree']}:sub/big.bin") == big.decode().rstrip("\n")


# -- copy -------------------------------------------------------------------------------------------------------
def test_copy_is_frozen_and_whole(bench):
    d = bench.repo()
    bench.write(d, "a", "dirty\n")
    bench.write(d, "untracked")
    bench.write(d, "ignored.o", b"\0" * 100)
    bench.write(d, "odd\nname\xff", "odd\n")
    os.symlink("/etc/passwd", f"{d}/link")
    os.mkfifo(f"{d}/fifo")
    os.chmod(f"{d}/d", 0o555)
    with open(f"{d}/sparse", "wb") as f:
        f.truncate(1 << 26)
    before = tree_of(d)
    r = bench.ok("copy", dir=d, into=bench.path("t"), objects=bench.objects)
    assert r["git"] and r["left"] == 1 and r["branch"] == "main"
    os.chmod(f"{d}/d", 0o755)
    files = bench.path("t/files")
    assert files_of(files) == sorted(["a", ".gitignore", "d/b", "ignored.o", "link", "odd\nname\xff", "sparse", "untracked"])
    assert os.readlink(f"{files}/link") == "/etc/passwd" and os.stat(f"{files}/sparse").st_blocks < 1000
    assert os.stat(f"{files}/a").st_mtime_ns == os.stat(f"{d}/a").st_mtime_ns
    os.chmod(f"{d}/d", 0o555)
    assert tree_of(d) == before
    os.chmod(f"{d}/d", 0o755)
    bench.write(d, "a", "later\n")
    c = bench.cell(files, r, bench.path("t/git"))
    status = c.sh("git status --porcelain")
    assert " M a" in status and "d/b" not in status and "ignored" not in status and c.sh("cat a") == "dirty\n"
    plain = bench.path("plain")
    bench.write(plain, "x/y")
    r = bench.ok("copy", dir=plain, into=bench.path("t2"))
    assert r["git"] is False and files_of(bench.path("t2/files")) == ["x/y"]
    rc, _, _ = bench.call("copy", dir=plain, into=bench.path("t3"), env={"SKEP_FAULT": "repo.copy.files:kill"})
    assert rc and not os.path.exists(bench.path("t3"))
    assert bench.ok("copy", dir=plain, into=bench.path("t3"))["files"] == 1


# -- pin --------------------------------------------------------------------------------------------------------
def pinned(bench, p, shadow="s.git"):
    """{path: (mode, content)} of tree P."""
    out = {}
    for line in bench.git(bench.path(shadow), "ls-tree", "-r", "-z", p["tree"]).split("\0"):
        if line:
            meta, path = line.split("\t", 1)
            mode, kind, oid = meta.split()
            out[path] = (mode, subprocess.run(["git", "cat-file", "blob", oid], cwd=bench.path(shadow), env=bench.env, stdout=subprocess.PIPE, check=True).stdout.decode() if kind == "blob" else oid)
    return out


def test_pin_records_the_work_tree(bench):
    d = bench.repo(files={"clean": "c\n", "dirty": "1\n", "gone": "g\n", "staged": "1\n", "mode": "m\n", "becomes": "file\n", "d/x": "x\n", ".gitignore": "*.o\n/build/\n"})
    bench.write(f"{bench.home}/.config/git", "ignore", "*.everywhere\n")
    for name, content in {"dirty": "2\n", "untracked/new": "n\n", "odd \"\\\n\xe9": "odd\n", "x.o": "o\n", "build/x": "b\n", "y.everywhere": "e\n"}.items():
        bench.write(d, name, content)
    bench.write(d, "staged", "2\n")
    bench.git(d, "add", "staged")
    bench.write(d, "staged", "3\n")
    os.unlink(f"{d}/gone")
    os.chmod(f"{d}/mode", 0o755)
    os.unlink(f"{d}/becomes")
    bench.write(d, "becomes/dir", "in it\n")
    shutil.rmtree(f"{d}/d")
    os.symlink("/etc/passwd", f"{d}/d")
    before = tree_of(d)
    p = bench.ok("pin", dir=d, shadow=bench.path("s.git"))
    assert tree_of(d) == before
    assert pinned(bench, p) == {"clean": ("100644", "c\n"), "dirty": ("100644", "2\n"), "staged": ("100644", "3\n"), "mode": ("100755", "m\n"), "becomes/dir": ("100644", "in it\n"), "d": ("120000", "/etc/passwd"), ".gitignore": ("100644", "*.o\n/build/\n"), "untracked/new": ("100644", "n\n"), "odd \"\\\n\xe9": ("100644", "odd\n")}
    assert p["commit"] == bench.git(d, "rev-parse", "HEAD") and p["files"] == 9 and abs(p["t0"] / 1000 - time.time()) < 60
    assert p["untracked"] == 4 and p["dirty"] == 6
    again = bench.ok("pin", dir=d, shadow=bench.path("s.git"))
    assert again["tree"] == p["tree"]
    q = subprocess.run([bench.program, "pin", "--dir", d, "--shadow", bench.path("s.git"), "--paths-from-stdin"], input=b"dirty\0x.o\0nowhere\0../../etc/passwd\0", env=bench.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert q.returncode == 0 or b"fast-import" in q.stdout  # what lies outside is in no tree
    assert b"root:" not in subprocess.run(["git", "cat-file", "--batch-all-objects", "--batch"], cwd=bench.path("s.git"), env=bench.env, stdout=subprocess.PIPE, check=True).stdout
    q = subprocess.run([bench.program, "pin", "--dir", d, "--shadow", bench.path("s.git"), "--paths-from-stdin"], input=b"dirty\0x.o\0nowhere\0gone\0", env=bench.env, stdout=subprocess.PIPE, check=True)
    some = pinned(bench, json.loads(q.stdout))
    assert some["dirty"][1] == "2\n" and some["x.o"][1] == "o\n" and "gone" not in some and some["staged"][1] == "2\n" and "untracked/new" not in some


def test_pin_of_every_state(bench):
    d = bench.repo()
    bench.git(d, "checkout", "-q", "-b", "side")
    bench.write(d, "a", "side\n")
    bench.git(d, "commit", "-q", "-am", "side")
    bench.git(d, "checkout", "-q", "main")
    bench.write(d, "a", "main\n")
    bench.git(d, "commit", "-q", "-am", "main")
    bench.git(d, "merge", "side", ok=False)
    p = pinned(bench, bench.ok("pin", dir=d, shadow=bench.path("s.git")))
    assert "<<<<<<<" in p["a"][1] and p["d/b"][1] == "two\n"
    unborn = bench.path("unborn")
    os.mkdir(unborn)
    bench.git(unborn, "init", "-q")
    bench.write(unborn, "x", "new\n")
    r = bench.ok("pin", dir=unborn, shadow=bench.path("u.git"))
    assert "commit" not in r and pinned(bench, r, "u.git") == {"x": ("100644", "new\n")}
    e = bench.repo("sha256", None, "--object-format=sha256")
    bench.write(e, "a", "changed\n")
    r = bench.ok("pin", dir=e, shadow=bench.path("e.git"))
    assert len(r["tree"]) == 64 and pinned(bench, r, "e.git")["a"][1] == "changed\n"
    s = bench.repo("sparse", {"one/a": "1\n", "two/b": "2\n"})
    bench.git(s, "sparse-checkout", "set", "--sparse-index", "one")
    assert list(pinned(bench, bench.ok("pin", dir=s, shadow=bench.path("p.git")), "p.git")) == ["one/a"]
    crlf = bench.repo("crlf", {".gitattributes": "* text=auto\n*.txt eol=crlf\n", "x.txt": "1\r\n2\r\n", "y": "y\n"})
    r = bench.ok("pin", dir=crlf, shadow=bench.path("c.git"))
    assert r["dirty"] == 0 and pinned(bench, r, "c.git")["x.txt"][1] == "1\r\n2\r\n"
    bench.git(d, "merge", "--abort")
    wt = bench.path("wt")
    bench.git(d, "worktree", "add", "-q", wt)
    bench.write(wt, "a", "in the worktree\n")
    assert pinned(bench, bench.ok("pin", dir=wt, shadow=bench.path("w.git")), "w.git")["a"][1] == "in the worktree\n"
    sub = bench.repo("sub")
    bench.git(d, "submodule", "--quiet", "add", sub, "sub")
    bench.write(d, "sub/a", "dirty in it\n")
    bench.write(d, "sub/new", "new in it\n")
    os.unlink(f"{d}/sub/d/b")
    before = tree_of(d)
    p = pinned(bench, bench.ok("pin", dir=d, shadow=bench.path("m.git")), "m.git")
    assert {k: v[1] for k, v in p.items() if k.startswith("sub")} == {"sub/.gitignore": "*.o\n", "sub/a": "dirty in it\n", "sub/new": "new in it\n"} and p["d/b"][1] == "two\n"
    assert tree_of(d) == before
    bench.git(d, "submodule", "--quiet", "deinit", "-f", "sub")
    assert pinned(bench, bench.ok("pin", dir=d, shadow=bench.path("m.git")), "m.git")["sub"] == ("160000", bench.git(sub, "rev-parse", "HEAD"))
    bench.git(d, "update-index", "--split-index")
    bench.write(d, "a", "split\n")
    for _ in range(2):
        assert pinned(bench, bench.ok("pin", dir=d, shadow=bench.path("m.git")), "m.git")["a"][1] == "split\n"


def test_pin_runs_nothing(bench):
    d = bench.repo()
    marker = bench.path("ran")
    evil = bench.path("evil")
    bench.write(bench.top, "evil", f"#!/bin/sh\ntouch {marker}\n")
    os.chmod(evil, 0o755)
    sub = bench.repo("sub")
    bench.git(d, "submodule", "--quiet", "add", sub, "sub")
    bench.git(d, "commit", "-q", "-m", "sub")
    bench.write(d, ".gitattributes", "* filter=evil diff=evil merge=evil\n")
    bench.write(d, "a", "dirty\n")
    keys = ["core.fsmonitor", "core.hooksPath", "core.sshCommand", "filter.evil.clean", "filter.evil.process", "filter.evil.smudge", "diff.evil.textconv", "diff.external", "core.alternateRefsCommand", "gpg.program", "status.showUntrackedFiles"]
    for where in (d, f"{d}/sub", bench.top):
        for k in keys:
            bench.git(where, "config", *(["--global"] if where == bench.top else []), k, evil, ok=False)
    for at in (f"{d}/.git/hooks", f"{d}/.git/modules/sub/hooks"):
        for h in ("post-index-change", "reference-transaction", "fsmonitor-watchman", "query-watchman", "pre-auto-gc"):
            shutil.copy(evil, f"{at}/{h}")
    bench.write(d, "sub/a", "dirty too\n")
    if os.path.exists(marker):
        os.unlink(marker)
    before = tree_of(d)
    p = bench.ok("pin", dir=d, shadow=bench.path("s.git"))
    r = bench.ok("copy", dir=d, into=bench.path("t"))
    assert not os.path.exists(marker) and tree_of(d) == before and r["git"]
    assert pinned(bench, p)["a"][1] == "dirty\n"


def test_pin_without_git_and_killed(bench):
    d = bench.path("plain")
    for n in ("b/c", "a", "b.x", "z\nz"):
        bench.write(d, n)
    r = bench.ok("pin", dir=d, shadow=bench.path("s.git"))
    records = bench.git(bench.path("s.git"), "cat-file", "blob", "refs/skep/manifest").split("\0")[:-1]
    assert bench.git(bench.path("s.git"), "rev-parse", "refs/skep/manifest") == r["manifest"]
    assert [x.split(" ", 5)[5] for x in records] == sorted(["a", "b", "b/c", "b.x", "z\nz"]) and r["files"] == 5
    st = os.stat(f"{d}/a")
    assert records[0].split(" ") == [f"{st.st_mode:o}", str(st.st_size), str(st.st_mtime_ns), str(st.st_ctime_ns), str(st.st_ino), "a"]
    g = bench.repo()
    bench.write(g, "new", "n\n")
    want = bench.ok("pin", dir=g, shadow=bench.path("ok.git"))["tree"]
    for point in ("repo.begin", "repo.commit", "repo.pin.begin", "repo.pin.scan", "repo.pin.store"):
        for how in ("fail", "kill"):
            shadow = bench.path(f"{point}-{how}.git")
            rc, _, _ = bench.call("pin", dir=g, shadow=shadow, env={"SKEP_FAULT": f"{point}:{how}"})
            assert rc, point
            assert bench.ok("pin", dir=g, shadow=shadow)["tree"] == want
            bench.git(shadow, "fsck")
    many = [bench.start("pin", dir=g, shadow=bench.path("many.git")) for _ in range(6)]
    assert {json.loads(x.communicate(timeout=30)[0])["tree"] for x in many} == {want}


def test_usage(bench):
    for argv in ([], ["fetch"], ["fetch", "--url", "x"], ["nothing"], ["gitlayer", "--dir", "x", "--into", "y", "--url", "z"], ["pin", "--dir"]):
        p = subprocess.run([bench.program, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        assert p.returncode == 2 and b"usage:" in p.stderr
    assert b"repo.pin.store" in subprocess.run([bench.program, "--faults"], stdout=subprocess.PIPE, check=True).stdout
    bench.fails("gitlayer", "not_found", dir="/nowhere", into=bench.path("x"))
