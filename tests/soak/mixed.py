#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Random operations by several workers at once, each with a model that knows what every file must hold.

    tests/soak/mixed.py BUILD [--minutes 30] [--workers 6] [--seed N]

Each worker owns some sandboxes in a project of its own and a model of them: a dictionary of path to content for the project's
directory, the same for each sandbox and each snapshot. A step changes both sides or compares them; at a difference the
worker stops and the run fails. Every minute the run counts skepd's descriptors, its resident memory and dead children;
at the end, with nothing left, these are compared with the figures after the first minute. skepd is killed now and then."""
import argparse
import collections
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

NAMES = [f"{d}f{i}.txt" for d in ("", "a/", "a/b/", "c d/") for i in range(8)]


class Wrong(Exception):
    """What skep holds is not what the model holds."""


class Place:
    """A SKEP_HOME, the command in it and the daemon behind it."""

    def __init__(self, programs):
        self.programs = os.path.abspath(programs)
        self.top = tempfile.mkdtemp(prefix="skm", dir="/tmp")
        self.home = f"{self.top}/s"
        os.mkdir(f"{self.top}/h")
        self.env = {"PATH": f"{self.programs}:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": f"{self.top}/h", "SKEP_HOME": self.home, "LANG": "C.UTF-8"}
        self.counts = collections.Counter()
        self.kills = 0

    def skep(self, cwd, *argv, stdin=None, allowed=(0,)):
        r = subprocess.run([f"{self.programs}/skep", *argv], cwd=cwd, env=self.env, input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, check=False)
        if r.returncode not in allowed:
            raise Wrong(f"skep {' '.join(argv)[:300]}: exit {r.returncode}: {r.stderr.decode('utf-8', 'replace')[-600:]}")
        return r

    def daemons(self):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/comm", encoding="ascii") as c:
                    if c.read().strip() != "skepd":
                        continue
                with open(f"/proc/{pid}/environ", "rb") as e:
                    if f"SKEP_HOME={self.home}".encode() in e.read().split(b"\0"):
                        found.append(int(pid))
            except OSError:
                continue
        return found

    def figures(self):
        """(descriptors, KiB resident, dead children) of skepd."""
        for pid in self.daemons():
            try:
                with open(f"/proc/{pid}/status", encoding="ascii") as f:
                    rss = next((int(x.split()[1]) for x in f if x.startswith("VmRSS")), 0)
                fds = len(os.listdir(f"/proc/{pid}/fd"))
                return fds, rss, self.dead_children(pid)
            except OSError:
                continue
        return 0, 0, 0

    def dead_children(self, parent):
        dead = 0
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat", "rb") as f:
                    fields = f.read().rpartition(b")")[2].split()
                dead += fields[0] == b"Z" and int(fields[1]) == parent
            except OSError:
                continue
        return dead


class Worker(threading.Thread):
    def __init__(self, place, number, seed, end):
        super().__init__()
        self.place, self.r, self.end = place, random.Random(seed * 1000 + number), end
        self.dir = f"{place.top}/p{number}"
        self.boxes, self.bases, self.moments, self.failure, self.n = {}, {}, {}, None, 0
        self.trace = collections.deque(maxlen=400)  # the worker's last commands, printed when it fails
        os.mkdir(self.dir)
        self.files = {n: f"{n} at first\n" for n in self.r.sample(NAMES, 12)}
        for n, text in self.files.items():
            os.makedirs(os.path.dirname(f"{self.dir}/{n}"), exist_ok=True)
            with open(f"{self.dir}/{n}", "w", encoding="utf-8") as f:
                f.write(text)
        subprocess.run(["git", "init", "-q"], cwd=self.dir, env=place.env, check=True)
        subprocess.run(["git", "add", "."], cwd=self.dir, env=place.env, check=True)
        subprocess.run(["git", "-c", "user.name=s", "-c", "user.email=s@s", "commit", "-qm", "all"], cwd=self.dir, env=place.env, check=True)

    def skep(self, *argv, **kw):
        self.trace.append(" ".join(argv)[:200])
        return self.place.skep(self.dir, *argv, **kw)

    # -- steps: each changes skep and the model, or compares them ---------------------------------------------
    def step_create(self):
        if len(self.boxes) < 4:
            sid = self.skep("new", "--copy" if self.place.copies else "--pin").stdout.decode().strip()
            self.boxes[sid], self.bases[sid] = dict(self.files), dict(self.files)

    def sandbox(self):
        return self.r.choice(sorted(self.boxes)) if self.boxes else None

    def step_write(self):
        sid = self.sandbox()
        if not sid:
            return
        name, self.n = self.r.choice(NAMES), self.n + 1
        text = f"{name} {self.n} " + "x" * self.r.randrange(2000) + "\n"
        script = 'mkdir -p "$(dirname "$1")"; cat > "$1.new"; mv "$1.new" "$1"'
        self.skep("exec", "-i", sid, "--", "sh", "-c", script, "sh", name, stdin=text.encode())
        self.boxes[sid][name] = text

    def step_remove_file(self):
        sid = self.sandbox()
        if sid and self.boxes[sid]:
            name = self.r.choice(sorted(self.boxes[sid]))
            self.skep("exec", sid, "--", "rm", name)
            del self.boxes[sid][name]

    def step_check(self):
        sid = self.sandbox()
        if not sid:
            return
        script = "find . -name .git -prune -o -type f -print0 | sort -z | while IFS= read -r -d '' f; do printf '%s\\0' \"$f\"; cat \"$f\"; printf '\\0'; done"
        out = self.skep("exec", sid, "--", "bash", "-c", script).stdout.split(b"\0")
        got = {out[i].decode()[2:]: out[i + 1].decode() for i in range(0, len(out) - 1, 2)}
        self.compare(f"sandbox {sid}", got, self.boxes[sid])

    def compare(self, what, got, want):
        if got != want:
            odd = sorted(n for n in set(got) | set(want) if got.get(n) != want.get(n))
            raise Wrong(f"{what}: " + "; ".join(f"{n}: {got.get(n, 'absent')[:60]!r} is not {want.get(n, 'absent')[:60]!r}" for n in odd[:5]))

    def step_check_project(self):
        got = {}
        for d, ds, fs in os.walk(self.dir):
            ds[:] = [x for x in ds if x != ".git"]
            for n in fs:
                with open(f"{d}/{n}", encoding="utf-8") as f:
                    got[os.path.relpath(f"{d}/{n}", self.dir)] = f.read()
        self.compare("the project", got, self.files)

    def step_stop(self):
        if self.sandbox():
            self.skep("stop", self.sandbox())

    def step_start(self):
        if self.sandbox():
            self.skep("start", self.sandbox())

    def step_snapshot(self):
        sid = self.sandbox()
        if sid and len(self.moments) < 6:
            self.n += 1
            name = f"m{self.n}"
            self.skep("snapshot", sid, name)
            self.moments[name] = (sid, dict(self.boxes[sid]))

    def step_rollback(self):
        names = [n for n, (sid, _) in self.moments.items() if sid in self.boxes]
        if names:
            name = self.r.choice(names)
            sid, files = self.moments[name]
            self.skep("rollback", sid, name)
            self.boxes[sid] = dict(files)

    def step_fork(self):
        sid = self.sandbox()
        if sid and len(self.boxes) < 4:
            other = self.skep("fork", sid).stdout.decode().split()[-1]
            self.boxes[other], self.bases[other] = dict(self.boxes[sid]), dict(self.bases[sid])

    def step_apply(self):
        """Only from a sandbox that was made of the project as it still is: no conflict is then possible."""
        able = [s for s in sorted(self.boxes) if self.bases[s] == self.files and self.boxes[s] != self.files
                and all(m[0] != s for m in self.moments.values())]
        if able:
            sid = self.r.choice(able)
            self.skep("apply", sid, "--yes")
            self.files, self.bases[sid] = dict(self.boxes[sid]), dict(self.boxes[sid])
            self.step_check_project()

    def step_diff(self):
        if self.sandbox():
            self.skep("diff", self.sandbox())

    def step_remove(self):
        sid = self.sandbox()
        if sid:
            self.skep("rm", "--force", sid)
            del self.boxes[sid], self.bases[sid]
            self.moments = {n: m for n, m in self.moments.items() if m[0] != sid}

    def step_run_once(self):
        out = self.skep("run", "--", "sh", "-c", "echo $((6 * 7)); exit 3", allowed=(3,)).stdout
        if out != b"42\n":
            raise Wrong(f"run printed {out[:100]!r}")

    def step_ps(self):
        have = self.skep("ps", "-q").stdout.decode().split() if self.place.quiet else self.skep("ps", "--json").stdout.decode()
        for sid in self.boxes:
            if sid not in have:
                raise Wrong(f"ps does not know {sid}")

    def kill_daemon(self):
        for pid in self.place.daemons():
            os.kill(pid, signal.SIGKILL)
            self.place.kills += 1

    STEPS = (("create", 6), ("write", 20), ("remove_file", 6), ("check", 14), ("stop", 4), ("start", 3), ("snapshot", 4), ("rollback", 3),
             ("fork", 3), ("apply", 4), ("diff", 6), ("remove", 4), ("run_once", 12), ("ps", 3), ("check_project", 3))

    def run(self):
        names, weights = zip(*self.STEPS)
        while time.monotonic() < self.end and not self.failure:
            name = self.r.choices(names, weights)[0]
            try:
                getattr(self, f"step_{name}")()
                self.place.counts[name] += 1
            except (Wrong, OSError, subprocess.SubprocessError, ValueError, IndexError) as e:
                self.failure = f"{name}: {e}\n  " + "\n  ".join(self.trace)
        for sid in sorted(self.boxes):
            try:
                self.skep("rm", "--force", sid)
            except (Wrong, subprocess.SubprocessError) as e:
                self.failure = self.failure or f"rm: {e}"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("--minutes", type=float, default=30)
    p.add_argument("--workers", type=int, default=6)
    p.add_argument("--without", default="", help="steps to leave out, with commas between them")
    p.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    args = p.parse_args()
    place = Place(args.build)
    place.skep("/tmp", "ps")
    help_text = place.skep("/tmp", "new", "--help").stdout.decode()
    place.copies, place.quiet = "--copy" in help_text, "-q" in place.skep("/tmp", "ps", "--help").stdout.decode()
    Worker.STEPS = tuple(x for x in Worker.STEPS if x[0] not in args.without.split(","))
    end = time.monotonic() + args.minutes * 60
    workers = [Worker(place, i, args.seed, end) for i in range(args.workers)]
    print(f"seed {args.seed}, {args.workers} workers, {args.minutes} minutes", flush=True)
    for w in workers:
        w.start()
    figures = []
    while any(w.is_alive() for w in workers):
        time.sleep(min(60, max(args.minutes * 6, 5)))
        figures.append(place.figures())
        print(f"{sum(place.counts.values())} steps; skepd: {figures[-1][0]} descriptors, {figures[-1][1]} KiB, {figures[-1][2]} dead children", flush=True)
    for w in workers:
        w.join()
    time.sleep(15)
    last = place.figures()
    failures = [f"{w.name}: {w.failure}" for w in workers if w.failure]
    left = place.skep("/tmp", "ps", "--json").stdout.decode()
    print(f"{dict(place.counts)}\nat the end: {last[0]} descriptors, {last[1]} KiB, {last[2]} dead children; ps: {left.strip()[:200]}")
    if last[2]:
        failures.append(f"{last[2]} dead children of skepd")
    if figures and last[0] > figures[0][0]:
        failures.append(f"descriptors: {last[0]} at the end with no sandbox, {figures[0][0]} after the first minute with many")
    for pid in place.daemons():
        os.kill(pid, signal.SIGTERM)
    time.sleep(1)
    if not failures:
        shutil.rmtree(place.top, ignore_errors=True)
    print("\n".join(failures) or "every content was right")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
