# SPDX-License-Identifier: Apache-2.0
"""Workspaces on a small and on a large repository: creation, snapshot, rollback, fork, and git inside."""
import json
import os
import random
import shutil
import subprocess
import time

from table import quantile

SMALL = 10


class Workspace:
    def __init__(self, bench):
        self.b = bench
        self.large = 5000 if bench.args.quick else 100000
        self.rounds = 5 if bench.args.quick else 30

    def repository(self, files):
        d = f"{self.b.top}/r{files}"
        os.makedirs(d)
        for i in range(0, files, 100):
            os.makedirs(f"{d}/d{i // 10000}/s{i // 100}")
            for k in range(i, min(i + 100, files)):
                with open(f"{d}/d{i // 10000}/s{i // 100}/f{k}.txt", "w", encoding="ascii") as f:
                    f.write(f"file {k}\n" * 5)
        for argv in (["init", "-q"], ["add", "."], ["-c", "user.name=b", "-c", "user.email=b@b", "commit", "-qm", "all"]):
            self.git(d, *argv)
        return d

    def git(self, cwd, *argv):
        return self.b.run("git", *argv, cwd=cwd)

    def timed(self, cwd, *argv):
        start = time.monotonic()
        out = self.b.run(*argv, cwd=cwd).strip()
        return time.monotonic() - start, out

    def skep(self, cwd, *argv):
        return self.timed(cwd, f"{self.b.build}/skep", *argv)

    def one_new(self, d, n):
        took, sid = self.skep(d, "new")
        self.skep(d, "rm", "--force", sid)
        return took

    def one_first(self, d, n):
        took, _ = self.skep(d, "run", "--", "/bin/true")
        return took

    def peer_worktree(self, d, n):
        to = f"{self.b.top}/w"
        took, _ = self.timed(d, "git", "worktree", "add", "-q", "--detach", to)
        self.git(d, "worktree", "remove", "--force", to)
        return took

    def peer_clone(self, d, n):
        to = f"{self.b.top}/c"
        took, _ = self.timed(self.b.top, "git", "clone", "-q", "--local", d, to)
        shutil.rmtree(to)
        return took

    def peer_copy(self, d, n):
        to = f"{self.b.top}/k"
        took, _ = self.timed(self.b.top, "cp", "-a", "--reflink=auto", d, to)
        shutil.rmtree(to)
        return took

    def creation(self, repos):
        times = {}
        who = {"skep new": self.one_new, "skep run true": self.one_first, "git worktree add": self.peer_worktree, "git clone --local": self.peer_clone, "cp -a --reflink=auto": self.peer_copy}
        for n, d in repos.items():
            for name, fn in who.items():
                fn(d, n)  # warm
                rounds = self.rounds if name.startswith("skep") or n == SMALL else 3
                times[f"{name}, {n:,} files"] = [fn(d, n) for _ in range(rounds)]
        self.b.table.times("workspace on a cached repository", times, f"skep new, {SMALL:,} files", "≤ 10 ms, ≤ 1.5 × the small one")

    def moments(self, repos):
        for n, d in repos.items():
            times = {"skep snapshot": [], "skep rollback": [], "skep fork": [], "skep exec after it": []}
            sid = self.skep(d, "new")[1]
            for i in range(self.rounds):
                self.skep(d, "exec", sid, "--", "sh", "-c", f"echo {i} > note")
                times["skep snapshot"].append(self.skep(d, "snapshot", sid, f"m{i}")[0])
                times["skep exec after it"].append(self.skep(d, "exec", sid, "--", "/bin/true")[0])
                took, fork = self.skep(d, "fork", sid)
                times["skep fork"].append(took)
                self.skep(d, "rm", "--force", fork)
                self.skep(d, "exec", sid, "--", "sh", "-c", "echo x > note")
                times["skep rollback"].append(self.skep(d, "rollback", sid, f"m{i}")[0])
            self.skep(d, "rm", "--force", sid)
            for s in self.skep(d, "snapshots", "--all", "-q")[1].split():
                self.skep(d, "snapshot", "rm", s)
            what = f"moments of a sandbox on {n:,} files"
            self.b.table.times(what, times, "skep snapshot", "≤ 5 ms")

    def docker(self, peers):
        """commit and run, where an engine answers"""
        try:
            self.b.run("docker", "version")
        except (subprocess.CalledProcessError, OSError):
            self.b.table.absent["docker commit and run"] = "no engine answers"
            return
        if "docker" not in peers:  # its image was not made
            return
        name = f"skb{os.getpid()}"
        self.b.run("docker", "run", "-d", "--name", name, "--network", "none", "skep-bench", "/bin/true")
        times = []
        for i in range(5):
            start = time.monotonic()
            self.b.run("docker", "commit", name, f"{name}:{i}")
            self.b.run("docker", "run", "--rm", "--network", "none", f"{name}:{i}", "/bin/true")
            times.append(time.monotonic() - start)
        self.b.run("docker", "rm", "-f", name)
        self.b.table.times("docker commit and run", {"docker": times}, "docker", "")

    def status(self, repos):
        for n, d in repos.items():
            times = {"bare": [], "skep exec": []}
            sid = self.skep(d, "new")[1]
            self.skep(d, "exec", sid, "--", "git", "status", "--short")
            for _ in range(max(self.rounds // 3, 3)):
                order = list(times)
                random.shuffle(order)
                for who in order:
                    argv = ["git", "status", "--short"]
                    took, _ = self.timed(d, *argv) if who == "bare" else self.skep(d, "exec", sid, "--", *argv)
                    times[who].append(took)
            self.skep(d, "rm", "--force", sid)
            self.b.table.times(f"git status on {n:,} files", times, "bare", "")

    def pinning(self, repos):
        for n, d in repos.items():
            sid, start = self.skep(d, "new")[1], time.monotonic()
            state = "pinning"
            while state == "pinning" and time.monotonic() - start < 60:
                time.sleep(0.05)
                state = json.loads(self.skep(d, "show", "--json", sid)[1])["base"]["state"]
            self.b.table.row("pinning, behind the creation", f"{n:,} files: {state}", [(time.monotonic() - start) * 1e3], "ms")
            self.skep(d, "rm", "--force", sid)

    def all(self, peers):
        repos = {n: self.repository(n) for n in (SMALL, self.large)}
        self.creation(repos)
        self.moments(repos)
        self.pinning(repos)
        self.status(repos)
        self.docker(peers)
        small = quantile(self.b.table.raw["workspace on a cached repository"][f"skep new, {SMALL:,} files"], 0.5)
        large = quantile(self.b.table.raw["workspace on a cached repository"][f"skep new, {self.large:,} files"], 0.5)
        self.b.table.notes.append(f"skep new on {self.large:,} files takes {large / small:.2f} × the time on {SMALL}")
