# SPDX-License-Identifier: Apache-2.0
"""Review: how soon a change is seen, and what a diff costs beside git's on the same tree."""
import json
import os
import random
import shutil
import subprocess
import time

# Inside: files are written now and then, each with the moment of its write as its content.
WRITER = """
import os, time
for i in range({n}):
    time.sleep(0.03)
    with open("t.tmp" if {rename} else "t", "w") as f:
        f.write(str(time.monotonic_ns()))
    if {rename}:
        os.rename("t.tmp", "t")
"""
COUNTS = (1, 100, 10000)


class Review:
    def __init__(self, bench):
        self.b = bench
        self.files = 10000
        self.rounds = 5 if bench.args.quick else 15
        self.writes = 50 if bench.args.quick else 400

    def skep(self, d, *argv):
        return self.b.run(f"{self.b.build}/skep", *argv, cwd=d)

    def repository(self):
        d = f"{self.b.top}/review"
        os.makedirs(d)
        for i in range(self.files):
            if i % 100 == 0:
                os.makedirs(f"{d}/s{i // 100}")
            with open(f"{d}/s{i // 100}/f{i}.txt", "w", encoding="ascii") as f:
                f.write("".join(f"line {k} of {i}\n" for k in range(20)))
        for argv in (["init", "-q"], ["config", "gc.auto", "0"], ["config", "maintenance.auto", "false"], ["add", "."], ["-c", "user.name=b", "-c", "user.email=b@b", "commit", "-qm", "all"]):
            self.b.run("git", *argv, cwd=d)
        return d

    # -- watch ----------------------------------------------------------------------------------------------
    def seen(self, d, sid, rename):
        """Seconds from each write to its line at the watcher."""
        took, wanted = [], {}
        p = subprocess.Popen([f"{self.b.build}/skep", "watch", "--json", sid], cwd=d, env=self.b.env, stdout=subprocess.PIPE)
        while json.loads(p.stdout.readline())["type"] != "ready":
            pass
        x = subprocess.Popen([f"{self.b.build}/skep", "exec", sid, "--", "python3", "-c", WRITER.format(n=self.writes, rename=rename)], cwd=d, env=self.b.env)
        for line in p.stdout:
            now, got = time.monotonic(), json.loads(line)
            if got["type"] == "exec.exit":
                break
            new = [s[1:] for s in got.get("diff", "").splitlines() if s.startswith("+") and s[1:].isdigit()]
            if got.get("path") == "t" and new and new[0] not in wanted:
                wanted[new[0]] = True
                took.append(now - int(new[0]) / 1e9)
        x.wait()
        p.kill()
        p.wait()
        return took

    def watch(self, d):
        sid = self.skep(d, "new").strip()
        times = {f"skep watch: {what}": self.seen(d, sid, rename) for what, rename in (("written in place", False), ("renamed into place", True))}
        self.skep(d, "rm", "--force", sid)
        self.b.table.times("change → watcher", times, "", "≤ 10 ms")

    # -- diff -----------------------------------------------------------------------------------------------
    def change(self, d, n):
        script = f"for i in range({n}): open(f's{{i // 100}}/f{{i}}.txt', 'a').write('one more\\n')"
        self.b.run("python3", "-c", script, cwd=d)
        return script

    def diff(self, d):
        copy = f"{d}-git"
        for n in COUNTS:
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(d, copy, symlinks=True)
            self.b.run("git", "status", cwd=copy)  # its index knows the copies
            sid = self.skep(d, "new").strip()
            script = self.change(copy, n)
            self.skep(d, "exec", sid, "--", "python3", "-c", script)
            times = {"skep diff": [], "git diff": []}
            for i in range(-1, self.rounds if n < 10000 else max(self.rounds // 3, 3)):
                order = list(times)
                random.shuffle(order)
                for who in order:
                    start = time.monotonic()
                    out = self.skep(d, "diff", sid) if who == "skep diff" else self.b.run("git", "diff", cwd=copy)
                    if i >= 0:  # the first one warms
                        times[who].append(time.monotonic() - start)
                    assert out.count("+one more") == n
            self.skep(d, "rm", "--force", sid)
            self.b.table.times(f"diff of {n:,} changed files of {self.files:,}", times, "git diff", "")

    def all(self, _):
        d = self.repository()
        self.watch(d)
        self.diff(d)
