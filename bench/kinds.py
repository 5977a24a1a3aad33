#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a create of each kind costs: made, `true` run in it, removed; two builds in turns on one machine.

    kinds.py OLD NEW [--e2b DIR] [--rounds N] [--only KIND,…]

OLD and NEW are trees with a build/release, or such directories themselves. DIR holds the E2B SDK (`py`), as
tests/compat/e2b/install puts it there. Prints the medians in ms, and each kind's ratio to the same build's default."""
import argparse
import http.client
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

E2B_LOOP = """
import sys, time
from e2b import Sandbox
for line in sys.stdin:
    a = time.perf_counter_ns()
    s = Sandbox.create(timeout=60)
    b = time.perf_counter_ns()
    s.commands.run("true")
    c = time.perf_counter_ns()
    s.kill()
    d = time.perf_counter_ns()
    print(d - a, b - a, flush=True)
"""


def release(path):
    inner = os.path.join(path, "build/release")
    return os.path.abspath(inner if os.path.isdir(inner) else path)


class Build:
    """One build with a home, a project, an image and a snapshot of its own."""

    def __init__(self, name, path, top, sdk):
        self.name, self.bin, self.sdk = name, release(path), sdk
        self.top = os.path.join(top, name)
        self.project = os.path.join(self.top, "p")
        for d in ("s", "h", "p"):
            os.makedirs(os.path.join(self.top, d))
        with open(os.path.join(self.project, "file"), "w", encoding="utf-8") as f:
            f.write("x\n")
        self.env = {"PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": f"{self.top}/h", "SKEP_HOME": f"{self.top}/s", "LANG": "C.UTF-8"}
        self.loop = None

    def skep(self, *argv):
        r = subprocess.run([f"{self.bin}/skep", *argv], env=self.env, cwd=self.project, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if r.returncode:
            sys.exit(f"{self.name}: skep {' '.join(argv)}: {r.stderr.decode()}")
        return r.stdout.decode().strip()

    def timed(self, *argv):
        """Seconds of one command, without what starting a process from Python costs."""
        os.chdir(self.project)
        a = time.perf_counter()
        pid = os.posix_spawn(f"{self.bin}/skep", ["skep", *argv], self.env, file_actions=[(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (0, 1, 2)])
        status = os.waitpid(pid, 0)[1]
        if status:
            sys.exit(f"{self.name}: skep {' '.join(argv)}: wait status {status}")
        return time.perf_counter() - a

    def prepare(self):
        rootfs = os.path.join(self.top, "image")
        self.copy_program("/bin/true", rootfs)
        self.image = self.skep("image", "import", rootfs)
        self.origin = self.skep("new", "--name", "origin")
        self.skep("exec", "origin", "--", "sh", "-c", "echo y > other")
        self.snapshot = self.skep("snapshot", "origin", "--json")
        self.snapshot = json.loads(self.snapshot)["id"]
        self.skep("start", "origin")

    def copy_program(self, program, into):
        """With the libraries that it needs: an image that can run nothing else."""
        libs = [w for line in subprocess.run(["ldd", program], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines() for w in line.split() if w.startswith("/")]
        for f in [program, *libs]:
            os.makedirs(os.path.dirname(into + f), exist_ok=True)
            shutil.copy(f, into + f)
        for d in ("etc", "tmp", "home", "proc", "dev", "run", "usr"):
            os.makedirs(f"{into}/{d}", exist_ok=True)

    # -- kinds: seconds of one cycle --
    def default(self):
        return self.timed("run", "--", "/bin/true")

    def root(self):
        return self.timed("run", "--root", "--", "/bin/true")

    def nested(self):
        return self.timed("run", "--nested", "--", "/bin/true")

    def from_image(self):
        return self.timed("run", "--image", self.image, "--", "/bin/true")

    def from_snapshot(self):
        return self.timed("run", "--from", self.snapshot, "--rm", "--", "/bin/true")

    def fork(self):
        """A fork of what a sandbox is now; three commands."""
        a = time.perf_counter()
        made = self.skep("fork", "origin")
        b = time.perf_counter()
        return b - a + self.timed("exec", made, "--", "/bin/true") + self.timed("rm", "--force", made)

    def e2b(self):
        return self.e2b_cycle()[0]

    def e2b_cycle(self):
        if not self.loop:
            self.e2b_open()
        self.loop.stdin.write("go\n")
        self.loop.stdin.flush()
        line = self.loop.stdout.readline()
        if not line:
            sys.exit(f"{self.name}: the SDK's loop ended")
        return [int(x) / 1e9 for x in line.split()]

    def e2b_open(self):
        key = self.skep("token", "new", "--scope", "review").replace("skep_", "e2b_")
        port = 20000 + random.randrange(20000)
        self.skep("serve", "-d", "--listen", f"127.0.0.1:{port}")
        url = f"http://127.0.0.1:{port}"
        env = {**self.env, "E2B_API_KEY": key, "E2B_API_URL": url, "E2B_SANDBOX_URL": url, "PYTHONPATH": f"{self.sdk}/py", "PYTHONDONTWRITEBYTECODE": "1"}
        self.loop = subprocess.Popen([sys.executable, "-c", E2B_LOOP], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def close(self):
        if self.loop:
            self.loop.stdin.close()
            self.loop.wait()
        for sid in self.skep("ps", "-q").split():
            self.skep("rm", "--force", sid)
        os.kill(self.daemon_pid(), signal.SIGTERM)

    def daemon_pid(self):
        s = socket.socket(socket.AF_UNIX)
        s.connect(f"{self.env['SKEP_HOME']}/run/skepd.sock")
        c = http.client.HTTPConnection("localhost")
        c.sock = s
        c.request("GET", "/v1/version")
        return json.loads(c.getresponse().read())["pid"]


KINDS = ["default", "root", "nested", "from_image", "from_snapshot", "fork", "e2b"]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("old")
    p.add_argument("new")
    p.add_argument("--e2b")
    p.add_argument("--rounds", type=int, default=10)
    p.add_argument("--only")
    args = p.parse_args()
    kinds = args.only.split(",") if args.only else [k for k in KINDS if k != "e2b" or args.e2b]
    top = tempfile.mkdtemp(prefix="skk")
    os.chmod(top, 0o755)
    builds = [Build("old", args.old, top, args.e2b), Build("new", args.new, top, args.e2b)]
    times = {}
    try:
        for b in builds:
            b.prepare()
        for kind in kinds:
            for b in builds:
                getattr(b, kind)()  # that it was used once
                getattr(b, kind)()
            for _ in range(args.rounds):
                for b in random.sample(builds, len(builds)):
                    time.sleep(0.3)  # slots are made when creates pause
                    times.setdefault((kind, b.name), []).append(getattr(b, kind)())
    finally:
        for b in builds:
            b.close()
        os.chdir("/")
        shutil.rmtree(top, ignore_errors=True)
    print(f"{'kind':<14} {'old ms':>8} {'new ms':>8} {'new/default':>12}")
    for kind in kinds:
        old, new = (statistics.median(times[kind, b]) * 1e3 for b in ("old", "new"))
        base = statistics.median(times.get(("default", "new"), [0])) * 1e3
        print(f"{kind:<14} {old:8.2f} {new:8.2f} {new / base if base else 0:12.2f}")


if __name__ == "__main__":
    main()
