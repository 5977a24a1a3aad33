# SPDX-License-Identifier: Apache-2.0
"""What the tests of skep-review share: a host repository, a pinned base, a sandbox's tree beside it, the program."""
import json
import os
import shutil
import stat
import struct
import subprocess
import time

BIN = os.path.join(os.environ.get("SKEP_BUILD", ""), "skep-review")
GIT_ENV = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
           "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t", "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@t"}


def git(*args, cwd=None, **kw):
    r = subprocess.run(["git", "-c", "core.quotepath=true", *args], cwd=cwd, env=GIT_ENV, capture_output=True, **kw)
    assert r.returncode == 0, f"git {args}: {r.stderr[-1500:]}"
    return r.stdout


def put(root, path, data=b"", mode=0o644):
    full = os.path.join(os.fsencode(root), os.fsencode(path))
    os.makedirs(os.path.dirname(full), exist_ok=True)
    if os.path.lexists(full):
        os.unlink(full)
    with open(full, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())
    os.chmod(full, mode)


def link(root, path, target):
    full = os.path.join(os.fsencode(root), os.fsencode(path))
    os.makedirs(os.path.dirname(full), exist_ok=True)
    if os.path.lexists(full):
        os.unlink(full)
    os.symlink(os.fsencode(target), full)


def tree(root, dirs=True):
    """Everything below root but git's own: path -> what it is. Modes by x-bit alone."""
    root, out = os.fsencode(root), {}
    for top, names, files in os.walk(root):
        names[:] = [n for n in names if n != b".git"]
        for n in names + files:
            full = os.path.join(top, n)
            rel, st = os.path.relpath(full, root), os.lstat(full)
            if stat.S_ISLNK(st.st_mode):
                out[rel] = ("link", os.readlink(full))
            elif stat.S_ISDIR(st.st_mode):
                if dirs:
                    out[rel] = ("dir",)
            elif n != b".git":
                with open(full, "rb") as f:
                    out[rel] = ("file", bool(st.st_mode & 0o100), f.read())
    return out


def entry(kind, path, exec_=False, tail=b""):
    path = os.fsencode(path)
    return kind.encode() + bytes([1 if exec_ else 0]) + struct.pack("<I", len(path)) + path + tail


def file_entry(path, data, exec_=False, torn=0):
    parts = [data[i:i + (128 << 10)] for i in range(0, len(data), 128 << 10)]
    body = b"".join(struct.pack("<I", len(p)) + p for p in parts)
    return entry("f", path, exec_, body + struct.pack("<I", 0) + bytes([torn]))


def link_entry(path, target):
    return entry("l", path, False, struct.pack("<I", len(target)) + target)


def stream(*entries):
    return b"SKEPDLT1" + b"".join(entries) + b"e"


def delta(lower, upper):
    """The stream an overlay's upper directory gives: what upper (a tree()) has beyond lower, and what it lacks."""
    out = []
    for path, what in sorted(upper.items()):
        if lower.get(path) == what:
            continue
        if what[0] == "file":
            out.append(file_entry(path, what[2], what[1]))
        elif what[0] == "link":
            out.append(link_entry(path, what[1]))
        else:
            out.append(entry("d", path))
    gone = [p for p in sorted(lower) if p not in upper]
    for path in gone:
        top = os.path.dirname(path)
        if top and top not in upper:
            continue  # with its directory
        if top and upper[top][0] != "dir":
            continue  # what took the directory's place says it
        out.append(entry("x", path))
    return stream(*out)


class Failed(Exception):
    def __init__(self, error):
        super().__init__(error["message"])
        self.kind, self.message = error["kind"], error["message"]
        self.refused = {r["path"]: r["why"] for r in error.get("refused", [])}


class Review:
    """A host repository `host`, its state at T0 in `lower`, the sandbox's tree `box`."""

    def __init__(self, top):
        self.top, self.wrap = str(top), []
        self.host, self.box, self.shadow, self.log = (os.path.join(self.top, n) for n in ("host", "box", "shadow.git", "apply"))
        os.makedirs(self.host)
        git("init", "-q", "-b", "main", self.host)

    def pin(self, commit=True):
        if commit:
            git("add", "-A", cwd=self.host)
            git("commit", "-q", "--allow-empty", "-m", "base", cwd=self.host)
        git("init", "-q", "--bare", self.shadow)
        with open(os.path.join(self.shadow, "objects/info/alternates"), "w") as f:
            f.write(os.path.join(self.host, ".git/objects") + "\n")
        at = ["--git-dir", self.shadow, "--work-tree", self.host]
        git(*at, "add", "-A", cwd=self.host)
        self.base = git(*at, "write-tree", cwd=self.host).decode().strip()
        self.set_base(self.base)
        shutil.copytree(self.host, self.box, symlinks=True, ignore=lambda d, n: [".git"] if d == self.host else [])
        self.lower = tree(self.host)
        time.sleep(0.02)  # the kernel's clock for files is coarse
        self.t0 = time.time_ns()
        time.sleep(0.02)

    def set_base(self, oid):
        os.makedirs(os.path.join(self.shadow, "refs/skep"), exist_ok=True)
        with open(os.path.join(self.shadow, "refs/skep/p"), "w") as f:
            f.write(oid + "\n")

    def get_base(self):
        with open(os.path.join(self.shadow, "refs/skep/p")) as f:
            return f.read().strip()

    def collect(self, data=None, *args):
        data = delta(self.lower, tree(self.box)) if data is None else data
        r = subprocess.run([BIN, "collect", "--shadow", self.shadow, *args], input=data, capture_output=True)
        return self.answer(r)[-1]

    @staticmethod
    def answer(r):
        assert r.returncode in (0, 1), f"exit {r.returncode}: {r.stdout[-500:]} {r.stderr[-2000:]}"
        lines = [json.loads(x) for x in r.stdout.decode().splitlines()]
        if r.returncode:
            raise Failed((lines or [json.loads(r.stderr)])[-1]["error"])
        return lines

    def request(self, **kw):
        return {"shadow": self.shadow, "target": self.host, "log": self.log, "t0": self.t0, "ignored": True, **kw}

    def start(self, verb, env=None, **kw):
        p = subprocess.Popen([BIN, verb], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env={**os.environ, **(env or {})})
        p.stdin.write(json.dumps(self.request(**kw)).encode())
        p.stdin.close()
        p.stdin = None
        return p

    def call(self, verb, env=None, **kw):
        r = subprocess.run([*self.wrap, BIN, verb], input=json.dumps(self.request(**kw)).encode(), capture_output=True,
                           env={**os.environ, **(env or {})})
        if r.returncode < 0:
            return r.returncode
        return self.answer(r)

    def raw(self, verb, **kw):
        r = subprocess.run([BIN, verb], input=json.dumps(self.request(**kw)).encode(), capture_output=True)
        if r.returncode:
            raise Failed(json.loads(r.stderr)["error"])
        return r.stdout

    def diff(self, **kw):
        """Changes by path, and the summary."""
        *changes, last = self.call("diff", text=False, **kw)
        import base64
        key = lambda c: os.fsdecode(base64.b64decode(c["path_b64"])) if "path_b64" in c else c["path"]
        return {key(c) + ("/" if c["kind"] in ("dir", "rmdir") else ""): c for c in changes}, last["summary"]

    def apply(self, env=None, **kw):
        kw.setdefault("set", {"all": True})
        kw.setdefault("accept_risk", True)
        return self.call("apply", env, **kw)

    def undo(self, env=None):
        return self.call("undo", env)

    def recover(self):
        return self.call("recover")[-1]["recovered"]
