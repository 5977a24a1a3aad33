# SPDX-License-Identifier: Apache-2.0
"""What the tests of skep-repo share: repositories made on the spot, the program, and a simulated cell around its layers."""
import hashlib
import json
import os
import shutil
import stat
import subprocess
import tempfile

from kit import remove_tree

GITCONFIG = "[core]\n\tcheckStat = minimal\n\ttrustctime = false\n[safe]\n\tdirectory = *\n[user]\n\tname = inside\n\temail = inside@example.org\n"


class Bench:
    """One temporary directory with a caller's home; git as the caller, skep-repo, and cells."""

    def __init__(self, programs):
        self.program = f"{programs}/skep-repo"
        self.top = tempfile.mkdtemp(prefix="skr", dir=os.environ.get("SKEP_TEST_TMP", "/tmp"))
        self.home = f"{self.top}/home"
        self.objects = f"{self.top}/inside"
        os.mkdir(self.home)
        with open(f"{self.home}/.gitconfig", "w", encoding="ascii") as f:
            f.write("[user]\n\tname = host\n\temail = host@example.org\n[init]\n\tdefaultBranch = main\n[protocol \"file\"]\n\tallow = always\n[advice]\n\tdetachedHead = false\n")
        with open(f"{self.top}/system", "w", encoding="ascii") as f:
            f.write(GITCONFIG)
        self.env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": self.home, "LANG": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1"}
        self.n = 0

    def close(self):
        remove_tree(self.top)

    def path(self, name):
        return f"{self.top}/{name}"

    def git(self, where, *args, ok=True, env=None, stdin=None):
        p = subprocess.run(["git", *args], cwd=where, env={**self.env, **(env or {})}, stdin=subprocess.DEVNULL if stdin is None else None, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        assert not ok or p.returncode == 0, f"git {args}: {p.stderr.decode()}"
        return p.stdout.decode("utf-8", "surrogateescape").rstrip("\n")

    def repo(self, name="p", files=None, *init):
        """A repository with one commit."""
        d = self.path(name)
        os.makedirs(d, exist_ok=True)
        self.git(d, "init", "-q", *init)
        for f, content in (files or {"a": "one\n", "d/b": "two\n", ".gitignore": "*.o\n"}).items():
            self.write(d, f, content)
        self.git(d, "add", ".")
        self.git(d, "commit", "-q", "-m", "start")
        return d

    @staticmethod
    def write(d, name, content="x\n"):
        os.makedirs(os.path.dirname(f"{d}/{name}"), exist_ok=True)
        with open(f"{d}/{name}", "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())

    def start(self, verb, *args, env=None, **kw):
        argv = [self.program, verb]
        for k, v in kw.items():
            argv += ["--" + k.replace("_", "-")] + ([] if v is True else [v])
        argv += args
        return subprocess.Popen(argv, env={**self.env, **(env or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def call(self, verb, *args, env=None, **kw):
        """(exit status, result, what it said)."""
        p = self.start(verb, *args, env=env, **kw)
        out, err = p.communicate(timeout=120)
        lines = out.decode().strip().splitlines()
        return p.returncode, json.loads(lines[-1]) if lines else None, err.decode()

    def ok(self, verb, *args, **kw):
        rc, result, err = self.call(verb, *args, **kw)
        assert rc == 0, f"{verb}: {result} {err}"
        return result

    def fails(self, verb, kind, *words, **kw):
        rc, result, err = self.call(verb, **kw)
        assert rc == 1 and result["error"]["kind"] == kind, f"{verb}: {rc} {result} {err}"
        for w in words:
            assert w.lower() in result["error"]["message"].lower(), result
        return result["error"]["message"]

    def layer(self, d, **kw):
        """A private .git for d: (result, directory)."""
        self.n += 1
        out = self.path(f"layer{self.n}")
        return self.ok("gitlayer", dir=d, into=out, objects=self.objects, **kw), out

    def cell(self, d, result, layer, upper=None):
        return Cell(self, d, result, layer, upper)

    def cell_on(self, d, **kw):
        result, out = self.layer(d, **kw)
        assert result["git"], result
        return self.cell(d, result, out)


class Cell:
    """The overlay a cell would have: the layer over the directory, the objects read-only, everything private to one command."""

    def __init__(self, bench, d, result, layer, upper):
        self.bench, self.dir, self.result, self.layer = bench, d, result, layer
        bench.n += 1
        self.work = upper or bench.path(f"cell{bench.n}")
        for sub in ("up", "work"):
            os.makedirs(f"{self.work}/{sub}", exist_ok=True)
        self.script = ""  # objects first: the overlay hides them
        overlay = f"mount -t overlay cell -o lowerdir={layer}/ws:{d},upperdir={self.work}/up,workdir={self.work}/work,userxattr {d}\n"
        for m in result["mounts"]:
            src, place = m.split("\t")
            if src:
                os.makedirs(place, exist_ok=True)
                self.script += f"mount --bind {src} {place} && mount -o remount,bind,ro {place}\n"
            else:
                self.script += f"mount --bind /dev/null {place}\n"
        self.script += overlay

    def sh(self, command, ok=True, env=None):
        """A shell command in the workspace: (status, output)."""
        e = {**self.bench.env, "HOME": self.work, "GIT_CONFIG_SYSTEM": self.bench.path("system"), **(env or {})}
        e.pop("GIT_CONFIG_NOSYSTEM", None)
        p = subprocess.run(["unshare", "-Urm", "sh", "-ec", f"{self.script}cd {self.dir}\n{command}"], env=e, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=120)
        out = p.stdout.decode("utf-8", "surrogateescape")
        assert not ok or p.returncode == 0, f"{command}: {p.returncode}\n{out}"
        return out if ok else (p.returncode, out)


def tree_of(d):
    """Every file below d with its content, mode and time: equal trees are byte-identical."""
    found = {}
    for at, dirs, files in os.walk(d):
        for name in dirs + files:
            path = f"{at}/{name}"
            st = os.lstat(path)
            body = os.readlink(path) if stat.S_ISLNK(st.st_mode) else ""
            if stat.S_ISREG(st.st_mode):
                with open(path, "rb") as f:
                    body = hashlib.sha256(f.read()).hexdigest()
            found[os.path.relpath(path, d)] = (st.st_mode, st.st_size, st.st_mtime_ns, st.st_ino, body)
    return found


def have(program):
    return shutil.which(program, path="/usr/local/bin:/usr/bin:/bin")
