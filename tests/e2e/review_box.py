# SPDX-License-Identifier: Apache-2.0
"""What the tests of review through the command line share: a repository, a sandbox on it, and what both have."""
import base64
import io
import os
import subprocess
import tarfile

from review_kit import git, put, tree  # noqa: F401

NUMBERS = "".join(f"line {i}\n" for i in range(1, 101))


def repo(home, files=None, where=None):
    """The project directory (or another one) as a repository with one commit."""
    d = where or home.dir
    os.makedirs(d, exist_ok=True)
    git("init", "-q", "-b", "main", cwd=d)
    for path, data in (files or {"a.txt": NUMBERS, "b.txt": "one\ntwo\nthree\n", "sub/c.txt": "see\n"}).items():
        put(d, path, data)
    git("add", "-A", cwd=d)
    git("commit", "-q", "-m", "start", cwd=d)
    return d


class Box:
    """One sandbox, and review of it."""

    def __init__(self, home, *args, sid=None):
        self.home = home
        self.id = sid or home.new(*args)

    def sh(self, script, ok=True):
        r = self.home.skep("exec", self.id, "--", "sh", "-ec", script)
        return r.ok() if ok else r

    def put(self, path, data):
        self.home.skep("exec", "-i", self.id, "--", "sh", "-ec", 'mkdir -p "$(dirname "$0")"; cat > "$0"', path,
                       stdin=data if isinstance(data, bytes) else data.encode()).ok()

    def run(self, verb, *args, **kw):
        return self.home.skep(verb, self.id, *args, **kw)

    def diff(self, *args):
        return self.run("diff", *args).ok().out_b

    def json(self, *args):
        return self.run("diff", "--json", *args).json()

    def changes(self):
        """By path."""
        key = lambda c: os.fsdecode(base64.b64decode(c["path_b64"])) if "path_b64" in c else c["path"]
        return {key(c): c for c in self.json()["changes"]}

    def status(self):
        """{path: letter} of what is pending."""
        return {line.split("\t")[-1]: line[0] for line in self.diff("--name-status").decode().splitlines()}

    def digest(self):
        return self.json()["summary"]["digest"]

    def hunks(self, path=None):
        return [h["id"] for p, c in self.changes().items() for h in c["hunks"] if path in (None, p)]

    def apply(self, *args):
        return self.run("apply", "--yes", *args)

    def tree(self, where="."):
        """Its workspace as review_kit.tree has it, but git's own and directories."""
        data = self.home.skep("exec", self.id, "--", "tar", "-C", where, "--exclude=.git", "-cf", "-", ".").ok().out_b
        out = {}
        with tarfile.open(fileobj=io.BytesIO(data), encoding="utf-8", errors="surrogateescape") as t:
            for m in t:
                name = os.path.normpath(os.fsencode(m.name))
                if m.issym():
                    out[name] = ("link", os.fsencode(m.linkname))
                elif m.isreg():
                    out[name] = ("file", bool(m.mode & 0o100), t.extractfile(m).read())
                elif m.islnk():
                    out[name] = out[os.path.normpath(os.fsencode(m.linkname))]
        return out

    def events(self, kind="review."):
        return [e for e in self.home.journal(self.id) if e["type"].startswith(kind)]


def files(d):
    return tree(d, dirs=False)


def apply_patch(clean, patch):
    """What plain git makes of it."""
    subprocess.run(["git", "apply", "-"], cwd=clean, input=patch, check=True, capture_output=True, env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"})
