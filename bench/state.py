#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a place costs that holds much: two builds of skep beside each other on the same work.

    bench/state.py OLD NEW [--quick]        OLD, NEW: directories with the programs of a build

Each build has a home and projects of its own. Where times are measured, the builds take turns and medians count.
Printed are: `ps` beside 100, 1,000 and 3,000 stopped sandboxes; what a sandbox that never ran and what a run that was
removed cost on disk; `diff` of 1, 100 and 10,000 changed files of 10,000; `diff` of one path beside a file of 1 GiB."""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

FILES = 10000
CHANGE = "for i in range({n}): open(f's{{i // 100}}/f{{i}}.txt', 'a').write('one more\\n')"
BIG = "f = open('big', 'wb'); [f.write(os.urandom(1 << 20)) for _ in range({mib})]; open('README', 'a').write('a line\\n')"


class Build:
    """The programs of one build with a home and a caller of their own."""

    def __init__(self, name, programs):
        self.name, self.programs = name, os.path.abspath(programs)
        self.top = tempfile.mkdtemp(prefix="skb", dir="/tmp")
        self.home = f"{self.top}/s"
        os.mkdir(f"{self.top}/h")
        self.env = {"PATH": f"{self.programs}:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": f"{self.top}/h", "SKEP_HOME": self.home, "LANG": "C.UTF-8"}

    def project(self, name, files):
        """A git project of this many files, in one commit."""
        top = f"{self.top}/{name}"
        os.mkdir(top)
        for i in range(files):
            os.makedirs(f"{top}/s{i // 100}", exist_ok=True)
            with open(f"{top}/s{i // 100}/f{i}.txt", "w", encoding="ascii") as f:
                f.write("".join(f"line {k} of {i}\n" for k in range(20)))
        with open(f"{top}/README", "w", encoding="ascii") as f:
            f.write("a project\n")
        for argv in (["init", "-q"], ["config", "gc.auto", "0"], ["add", "."],
                     ["-c", "user.name=b", "-c", "user.email=b@b", "commit", "-qm", "all"]):
            subprocess.run(["git", *argv], cwd=top, env=self.env, check=True)
        return top

    def skep(self, directory, *argv):
        r = subprocess.run([f"{self.programs}/skep", *argv], cwd=directory, env=self.env, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if r.returncode != 0:
            raise SystemExit(f"{self.name}: skep {' '.join(argv)[:200]}: {r.stderr.decode()[-1000:]}")
        return r.stdout.decode()

    def disk(self):
        """Inodes and KiB below the home."""
        inodes = kib = 0
        for d, ds, fs in os.walk(self.home):
            for n in ds + fs:
                try:
                    st = os.lstat(os.path.join(d, n))
                except FileNotFoundError:
                    continue
                inodes, kib = inodes + 1, kib + st.st_blocks / 2
        return inodes, kib

    def disk_at_rest(self):
        """The same when skepd has removed what it still had to: two equal readings a second apart, within a minute."""
        last = self.disk()
        for _ in range(60):
            time.sleep(1)
            now = self.disk()
            if now == last:
                break
            last = now
        return now

    def close(self):
        self.skep("/", "rm", "--all", "--force")
        for pid in self.daemons():
            os.kill(int(pid), 15)
        time.sleep(0.5)
        shutil.rmtree(self.top, ignore_errors=True)

    def daemons(self):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as e, open(f"/proc/{pid}/comm", encoding="ascii") as c:
                    if c.read().strip() == "skepd" and f"SKEP_HOME={self.home}".encode() in e.read().split(b"\0"):
                        found.append(pid)
            except OSError:
                continue
        return found


class Compare:
    def __init__(self, builds, quick):
        self.builds, self.quick = builds, quick
        self.counts = (100, 1000) if quick else (100, 1000, 3000)
        self.rounds = 5 if quick else 15
        print("| | " + " | ".join(b.name for b in builds) + " |\n|---|" + "---|" * len(builds))

    def row(self, what, values):
        print(f"| {what} | " + " | ".join(values) + " |", flush=True)

    def times(self, what, action):
        """action(build) in turns; the medians are printed."""
        took = {b.name: [] for b in self.builds}
        for i in range(-1, self.rounds):
            for b in random.sample(self.builds, len(self.builds)):
                start = time.monotonic()
                action(b)
                if i >= 0:
                    took[b.name].append(time.monotonic() - start)
        self.row(what, [f"{statistics.median(took[b.name]) * 1e3:.1f} ms" for b in self.builds])

    def stopped(self):
        for b in self.builds:
            b.many = b.project("many", 3)
        made = 0
        for count in self.counts:
            before = [b.disk() for b in self.builds]
            for b in self.builds:
                for _ in range(count - made):
                    b.skep(b.many, "new")
            after = [b.disk() for b in self.builds]
            each = [[(x - y) / (count - made) for x, y in zip(a, c)] for a, c in zip(after, before)]
            if made == 0:
                self.row("a sandbox that never ran", [f"{e[0]:.1f} inodes, {e[1]:.1f} KiB" for e in each])
            made = count
            self.times(f"`ps` beside {count:,} sandboxes", lambda b: b.skep(b.many, "ps"))
        for b in self.builds:
            b.skep(b.many, "rm", "--all", "--force")

    def removed(self):
        runs = 50 if self.quick else 300
        for b in self.builds:
            b.skep(b.many, "run", "--", "true")
        before = [b.disk_at_rest() for b in self.builds]
        for _ in range(runs):
            for b in self.builds:
                b.skep(b.many, "run", "--", "true")
        after = [b.disk_at_rest() for b in self.builds]
        each = [[(x - y) / runs for x, y in zip(a, c)] for a, c in zip(after, before)]
        self.row("a run that was removed", [f"{e[0]:.2f} inodes, {e[1]:.2f} KiB" for e in each])

    def diffs(self):
        for b in self.builds:
            b.large = b.project("large", FILES)
        for n in (1, 100, FILES):
            for b in self.builds:
                b.sid = b.skep(b.large, "new").strip()
                b.skep(b.large, "exec", b.sid, "--", "python3", "-c", CHANGE.format(n=n))
            self.times(f"`diff` of {n:,} changed files of {FILES:,}", lambda b: b.skep(b.large, "diff", b.sid))
            for b in self.builds:
                b.skep(b.large, "rm", "--force", b.sid)

    def beside_big(self):
        mib = 256 if self.quick else 1024
        for b in self.builds:
            b.sid = b.skep(b.many, "new").strip()
            b.skep(b.many, "exec", b.sid, "--", "python3", "-c", "import os; " + BIG.format(mib=mib))
        self.rounds = 3
        self.times(f"`diff` of one path beside a file of {mib:,} MiB", lambda b: b.skep(b.many, "diff", b.sid, "README"))
        for b in self.builds:
            b.skep(b.many, "rm", "--force", b.sid)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("old")
    p.add_argument("new")
    p.add_argument("--quick", action="store_true")
    args = p.parse_args()
    builds = [Build("before", args.old), Build("after", args.new)]
    try:
        compare = Compare(builds, args.quick)
        for part in (compare.stopped, compare.removed, compare.diffs, compare.beside_big):
            part()
    finally:
        for b in builds:
            b.close()


if __name__ == "__main__":
    sys.exit(main())
