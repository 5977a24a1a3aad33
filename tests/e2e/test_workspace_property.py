# SPDX-License-Identifier: Apache-2.0
"""Whatever happens to a sandbox, its tree is that of a plain directory to which the same was done."""
import os
import random
import signal
import subprocess
import sys

import pytest

from kit import wait_for

SEEDS = [int(s) for s in os.environ.get("SKEP_SEEDS", "1,2").split(",")]
SCRIPT = f"{os.path.dirname(os.path.abspath(__file__))}/tree_ops.py"
STEPS = int(os.environ.get("SKEP_STEPS", "25"))


class Pair:
    """A sandbox and its model."""

    def __init__(self, prop, sid, model):
        self.p, self.sid, self.model = prop, sid, model

    def apply(self, seed, count):
        self.p.inside(self.sid, "apply", seed, count)
        self.p.plain("apply", seed, count, self.model)

    def check(self, what):
        got, want = self.p.inside(self.sid, "dump"), self.p.plain("dump", self.model)
        if got != want:
            diff = sorted(set(got.splitlines()) ^ set(want.splitlines()))
            raise AssertionError(f"{what}: sandbox {self.sid} differs from its model:\n" + "\n".join(diff[:20]))

    def copy(self, name):
        to = f"{self.p.models}/{name}"
        subprocess.run(["cp", "-a", self.model, to], check=True)
        return to


class Property:
    def __init__(self, home, seed):
        self.home, self.r, self.n = home, random.Random(seed), 0
        self.models = f"{home.top}/models"
        os.mkdir(self.models)
        self.plain("apply", seed, 30, home.dir)
        subprocess.run(["cp", "-a", home.dir, f"{self.models}/m"], check=True)
        self.mount = ("--mount", f"{os.path.dirname(SCRIPT)}:/ops:ro")
        self.pairs = [Pair(self, home.new(*self.mount), f"{self.models}/m")]
        self.moments = []  # (pair, snapshot, copy of the model)

    def inside(self, sid, verb, *args):
        return self.home.skep("exec", sid, "--", "/usr/bin/python3", "/ops/tree_ops.py", verb, *map(str, args)).ok().out

    def plain(self, verb, *args):
        return subprocess.run([sys.executable, SCRIPT, verb, *map(str, args)], check=True, stdout=subprocess.PIPE, cwd="/").stdout.decode()

    def pick(self):
        self.n += 1
        return self.r.choice(self.pairs)

    def change(self):
        self.pick().apply(self.r.randrange(1 << 30), self.r.randrange(3, 12))

    def snapshot(self):
        p = self.pick()
        n = self.home.skep("snapshot", p.sid).ok().line
        self.moments.append((p, n, p.copy(n)))

    def frozen(self):
        p = self.pick()
        x = self.home.skep("exec", "-d", p.sid, "--", "sleep", "60").ok().line
        n = self.home.skep("snapshot", "--json", p.sid).ok().json()
        assert n["mode"] == "frozen-copy"
        self.moments.append((p, n["id"], p.copy(n["id"])))
        self.home.skep("kill", x).ok()

    def rollback(self):
        if not self.moments:
            return
        p, n, model = self.r.choice(self.moments)
        self.home.skep("rollback", p.sid, n).ok()
        subprocess.run(["rm", "-rf", p.model], check=True)
        subprocess.run(["cp", "-a", model, p.model], check=True)

    def fork(self):
        if len(self.pairs) > 3:
            return
        p = self.pick()
        sid = self.home.skep("fork", p.sid).ok().line
        self.pairs.append(Pair(self, sid, p.copy(sid)))

    def burst(self):
        """more layers than an overlay takes"""
        p = self.pick()
        for _ in range(20):
            p.apply(self.r.randrange(1 << 30), 1)
            wait_for(lambda: self.home.skep("snapshot", p.sid).rc == 0, 10, why="a snapshot while layers are merged")

    def restart(self):
        p = self.pick()
        self.home.skep("stop", p.sid).ok()
        self.home.skep("start", p.sid).ok()

    def kill_cell(self):
        p = self.pick()
        self.home.skep("start", p.sid).ok()
        os.kill(self.home.cell_pid(p.sid), signal.SIGKILL)
        wait_for(lambda: self.home.show(p.sid)["state"] != "running", why="skepd to notice")

    def kill_daemon(self):
        self.home.kill_skepd()

    def step(self):
        what = self.r.choice("change change change change snapshot snapshot frozen rollback rollback fork restart kill_cell kill_daemon".split())
        getattr(self, what)()
        return what


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_tree_equals_its_model(home, seed):
    prop = Property(home, seed)
    for i in range(STEPS):
        what = prop.step()
        if i % 5 == 4 or what in ("rollback", "fork", "frozen"):
            for p in prop.pairs:
                p.check(f"seed {seed}, step {i}, {what}")
    prop.burst()
    prop.rollback()
    for p in prop.pairs:
        p.check(f"seed {seed}, at the end")
    home.skep("rm", "--all", "--force").ok()
