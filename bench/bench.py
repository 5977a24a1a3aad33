#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The budgets of docs/architecture.md, measured against the peers that are installed, in one run on one machine.

    bench.py [--build DIR] [--md FILE] [--json FILE] [--quick] [--full] [--only NAME,…]

Contenders take turns in shuffled rounds, so that drift of the machine hits all alike. A figure is a ratio to a peer in
the same run; absolute times are for the reader. Needs only the standard library, and the C helpers beside this file."""
import argparse
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from api import Api
from engine import Engine
from gate import Gate
from review import Review
from table import Table, cpu_ticks, quantile
from workspace import Workspace

TRUE = "/bin/true"


class Bench:
    def __init__(self, args):
        self.args = args
        self.build = os.path.abspath(args.build)
        self.top = tempfile.mkdtemp(prefix="skb")
        self.home = f"{self.top}/s"
        self.project = f"{self.top}/p"
        self.env = {
            "PATH": f"{self.build}:{os.environ['PATH']}:{os.path.dirname(self.build)}/agents/node_modules/.bin",
            "HOME": f"{self.top}/h",
            "SKEP_HOME": self.home,
            "LANG": "C.UTF-8",
        }
        for d in ("h", "p"):
            os.mkdir(f"{self.top}/{d}")
        self.table = Table()
        self.engine = None

    # -- small tools ----------------------------------------------------------------------------------------
    def run(self, *argv, **kw):
        kw.setdefault("cwd", self.project)
        return subprocess.run(argv, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True, **kw).stdout.decode()

    def skep(self, *argv):
        return self.run(f"{self.build}/skep", *argv).strip()

    def spawn(self, argv, count=1, idle_ms=0, width=0, **kw):
        """([seconds of each run], wall seconds or None)"""
        out = self.run(f"{self.build}/bench/spawn", "-n", str(count), "-i", str(idle_ms), "-c", str(width), "--", *argv, **kw)
        times = [int(x) / 1e9 for x in out.split("\n") if x.isdigit()]
        wall = [int(x.split()[1]) / 1e9 for x in out.split("\n") if x.startswith("wall")]
        return times, wall[0] if wall else None

    def daemon(self):
        s = socket.socket(socket.AF_UNIX)
        s.connect(f"{self.home}/run/skepd.sock")
        c = http.client.HTTPConnection("localhost")
        c.sock = s
        return c

    def daemon_pid(self):
        c = self.daemon()
        c.request("GET", "/v1/version")
        pid = json.loads(c.getresponse().read())["pid"]
        c.close()
        return pid

    # -- peers ----------------------------------------------------------------------------------------------
    def peers(self):
        """{name: argv that runs /bin/true in the peer's sandbox}; the rest goes to the table's absent."""
        make = {"bwrap": self.peer_bwrap, "runc": self.peer_runc, "docker": self.peer_docker, "runsc": self.peer_runsc, "srt": self.peer_srt, "codex": self.peer_codex}
        found = {}
        for name, maker in make.items():
            if not shutil.which(name, path=self.env["PATH"]):
                self.table.absent[name] = "not installed"
                continue
            try:
                argv = maker()
                self.spawn(argv)
                found[name] = argv
            except (subprocess.CalledProcessError, OSError) as e:
                why = getattr(e, "stderr", b"") or str(e).encode()
                self.table.absent[name] = "installed, but does not run here: " + why.decode("utf-8", "replace").strip().split("\n")[0][:120]
        return found

    def peer_bwrap(self):
        return ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", TRUE]

    def peer_runc(self):
        bundle = f"{self.top}/bundle"
        os.makedirs(f"{bundle}/rootfs")
        self.run("runc", "spec", *([] if os.getuid() == 0 else ["--rootless"]), cwd=bundle)
        with open(f"{bundle}/config.json", encoding="utf-8") as f:
            spec = json.load(f)
        spec["process"].update(args=[TRUE], terminal=False)
        for d in ("usr", "bin", "lib", "lib64"):
            if os.path.exists(f"/{d}"):
                spec["mounts"].append({"destination": f"/{d}", "type": "bind", "source": f"/{d}", "options": ["rbind", "ro"]})
                os.makedirs(f"{bundle}/rootfs/{d}", exist_ok=True)
        with open(f"{bundle}/config.json", "w", encoding="utf-8") as f:
            json.dump(spec, f)
        return ["runc", "--root", f"{self.top}/runc", "run", "--bundle", bundle, "b@N@"]

    def peer_docker(self):
        self.run("docker", "version")
        self.run("sh", "-c", "d=$(mktemp -d) && mkdir $d/bin && cp /bin/busybox $d/bin/true && tar -C $d -c . | docker import - skep-bench && rm -r $d")
        return ["docker", "run", "--rm", "--network", "none", "skep-bench", TRUE]

    def peer_runsc(self):
        return ["runsc", "--network=none", *([] if os.getuid() == 0 else ["--rootless"]), "do", TRUE]

    def peer_srt(self):
        return ["srt", TRUE]

    def peer_codex(self):
        # it refuses a home below the temporary directory
        self.env["CODEX_HOME"] = f"{self.build}/bench/codex"
        os.makedirs(self.env["CODEX_HOME"], exist_ok=True)
        return ["codex", "sandbox", "--", TRUE]

    # -- workloads ------------------------------------------------------------------------------------------
    def turns(self, contenders, rounds, per_turn, idle_ms=0):
        """{name: [seconds]}: every round each contender once, in a new order."""
        times = {n: [] for n in contenders}
        for n in contenders:
            self.spawn(contenders[n])  # warm
        for _ in range(rounds):
            order = list(contenders)
            random.shuffle(order)
            for n in order:
                time.sleep(0.05)  # what the one before left to be done later is not this one's
                # a slow peer needs fewer runs for a median
                k = 1 if times[n] and times[n][0] > 0.05 else per_turn
                times[n] += self.spawn(contenders[n], k, idle_ms)[0]
        return times

    def first_command(self, peers):
        skep = {"skep run": [f"{self.build}/skep", "run", "--", TRUE]}
        r = 6 if self.args.quick else 40
        self.table.times("create, run true, remove: hot", self.turns({**skep, **peers, "bare": [TRUE]}, r, 5), "bwrap", "≤ 0.5")
        fast = {n: a for n, a in peers.items() if n in ("bwrap", "runc")}
        self.table.times("create, run true, remove: after 100 ms idle", self.turns({**skep, **fast, "bare": [TRUE]}, max(r // 2, 4), 3, 100), "bwrap", "≤ 0.5")

    def burst(self, peers):
        """A burst comes out of the blue, at a place that was used before; beside it: right after another one, and where nothing ran but one command."""
        skep = [f"{self.build}/skep", "run", "--", TRUE]
        soon, elsewhere = "skep run, 50 ms after another", "skep run, in a new place"
        rounds = 2 if self.args.quick else 7
        for width in (8, 32):
            what = f"burst of 100, {width} at a time"
            walls, times = {}, {}

            def one(n, argv, cwd=self.project):
                t, wall = self.spawn(argv, 100, 0, width, cwd=cwd)
                walls.setdefault(n, []).append(wall)
                times.setdefault(n, []).extend(t)

            everyone = {"skep run": skep, **{n: a for n, a in peers.items() if n in ("bwrap", "runc")}}
            for _ in range(rounds):
                for n in random.sample(list(everyone), len(everyone)):
                    time.sleep(0.5)
                    one(n, everyone[n])
                    if n == "skep run":
                        time.sleep(0.05)
                        one(soon, skep)
            for k in range(rounds):
                cwd = f"{self.top}/place{width}-{k}"
                os.mkdir(cwd)
                self.spawn(skep, 1, cwd=cwd)
                time.sleep(0.5)
                one(elsewhere, skep, cwd)
            self.table.raw[what] = {"wall": walls, "each": times}
            base = quantile(walls["bwrap"], 0.5) * 1e3 if "bwrap" in walls else None
            for n, w in walls.items():
                value = [quantile(w, 0.5) * 1e3, quantile(times[n], 0.95) * 1e3, quantile(times[n], 0.99) * 1e3]
                self.table.row(f"{what}: wall (p50), each (p95, p99)", n, value, "ms", base, "bwrap", "≤ 150 ms" if n == "skep run" else "")

    def exec_live(self, _):
        sid = self.skep("new")
        self.skep("start", sid)
        try:
            what = "exec of true in a live cell, whole CLI process"
            r = 6 if self.args.quick else 40
            self.table.times(what, self.turns({"skep exec": [f"{self.build}/skep", "exec", sid, "--", TRUE], "bare": [TRUE]}, r, 5), "bare", "")
            out = self.run(f"{self.build}/bench/exec-conn", self.home, sid, str(30 if self.args.quick else 300), TRUE)
            times = {"bare": [], "skep, open connection": []}
            for line in out.splitlines():
                k, v = line.split()
                times["bare" if k == "bare" else "skep, open connection"].append(int(v) / 1e9)
            self.table.times("exec of true in a live cell, from an open connection", times, "bare", "≤ 1.5")
        finally:
            self.skep("rm", "--force", sid)

    def memory(self, _):
        n = 20 if self.args.quick else 100
        self.idle_memory(n, f"memory of {n} idle sandboxes, each", "≤ 614 KiB")

    def thousand(self, _):
        if not self.args.full:
            self.table.notes.append("1,000 live sandboxes: only with --full")
            return
        skep = [f"{self.build}/skep", "run", "--", TRUE]
        before = self.spawn(skep, 100)[0]
        took, ids, each = self.idle_memory(1000, "1,000 live sandboxes, each", keep=True)
        try:
            after = self.spawn(skep, 100)[0]
            self.table.raw["create beside 1,000"] = {"before": before, "after": after}
            b, a = quantile(before, 0.5), quantile(after, 0.5)
            self.table.row("1,000 live sandboxes, together", "our processes and the kernel", [each * 1000 / 1024 / 1024], "GiB", budget="≤ 24 GiB")
            self.table.row("time to start 1,000 sandboxes", "skep", [took], "s")
            self.table.row("create, run true, remove beside 1,000 live", "skep run", [a * 1e3, quantile(after, 0.95) * 1e3, quantile(after, 0.99) * 1e3], "ms", b * 1e3, "with none live", "≤ 1.2")
        finally:
            self.remove(ids)

    def remove(self, ids):
        for i in range(0, len(ids), 100):
            self.skep("rm", "--force", *ids[i:i + 100])

    def idle_memory(self, n, what, budget="", keep=False):
        """(seconds to start them, their ids, KiB of each)"""
        self.skep("ps")
        ids = [self.skep("new") for _ in range(n)]
        settle()
        before = memory(self.ours())
        start = time.monotonic()
        for s in ids:
            self.skep("start", s)
        took = time.monotonic() - start
        settle()
        after = memory(self.ours())
        delta = {k: (after[k] - before[k]) / n for k in after}
        self.table.raw[what] = {"before": before, "after": after, "n": n}
        kernel = delta["Slab"] + delta["KernelStack"] + delta["PageTables"] + delta["Percpu"]
        for who, value, bar in (("our processes (PSS)", delta["pss"], ""), ("kernel (slab, stacks, page tables, per-cpu)", kernel, ""), ("together", delta["pss"] + kernel, budget)):
            self.table.row(what, who, [value], "KiB", budget=bar)
        if not keep:
            self.remove(ids)
        return took, ids, delta["pss"] + kernel

    def ours(self):
        """skepd and everything below it, and cells that were reparented: every skep process of this SKEP_HOME."""
        parent = {}
        for p in os.listdir("/proc"):
            if p.isdigit():
                try:
                    with open(f"/proc/{p}/stat", "rb") as f:
                        parent[int(p)] = int(f.read().rpartition(b")")[2].split()[1])
                except OSError:
                    pass
        mine, grown = {self.daemon_pid()}, True
        while grown:
            more = {p for p, q in parent.items() if q in mine} - mine
            mine |= more
            grown = bool(more)
        return mine

    def build_inside(self, _):
        src = f"{self.top}/big"
        write_big_project(src, 30 if self.args.quick else 150)
        bare = f"{self.top}/bare"
        times = {"bare": [], "skep run": []}
        sid = subprocess.run([f"{self.build}/skep", "new"], cwd=src, env=self.env, stdout=subprocess.PIPE, check=True).stdout.decode().strip()
        try:
            for _ in range(2 if self.args.quick else 5):
                order = ["bare", "skep run"]
                random.shuffle(order)
                for n in order:
                    if n == "bare":
                        shutil.rmtree(bare, ignore_errors=True)
                        shutil.copytree(src, bare)
                        argv, cwd = ["make", "-s", "-j2", "check"], bare
                    else:
                        subprocess.run([f"{self.build}/skep", "exec", sid, "--", "make", "-s", "clean"], cwd=src, env=self.env, check=True)
                        argv, cwd = [f"{self.build}/skep", "exec", sid, "--", "make", "-s", "-j2", "check"], src
                    start = time.monotonic()
                    subprocess.run(argv, cwd=cwd, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
                    times[n].append(time.monotonic() - start)
        finally:
            self.skep("rm", "--force", sid)
        self.table.raw["build"] = times
        base = quantile(times["bare"], 0.5)
        for n, v in times.items():
            self.table.row("build and test of a C project", n, [quantile(v, 0.5), max(v)], "s (p50, max)", base, "bare", "≤ 1.03" if n != "bare" else "")

    def idle_cpu(self, _):
        """skepd does nothing when nothing happens."""
        self.skep("ps")
        pid = self.daemon_pid()
        a = cpu_ticks(pid)
        time.sleep(3)
        self.table.row("skepd, idle for 3 s", "CPU time", [(cpu_ticks(pid) - a) * 1000 / os.sysconf("SC_CLK_TCK")], "ms", budget="0")

    # -- the whole --------------------------------------------------------------------------------------------
    def all(self):
        with open(f"{self.project}/README", "w", encoding="ascii") as f:
            f.write("a project\n")
        self.run("git", "init", "-q")
        # memory first: later steps let the pool of waiting slots grow, which is not the sandboxes' own
        steps = {"memory": self.memory, "first": self.first_command, "burst": self.burst, "exec": self.exec_live, "thousand": self.thousand, "build": self.build_inside, "cpu": self.idle_cpu, "gate": Gate(self).all, "workspace": Workspace(self).all, "review": Review(self).all, "api": Api(self).all}
        chosen = self.args.only.split(",") if self.args.only else list(steps)
        if {"first", "burst", "api", "workspace"} & set(chosen):
            self.engine = Engine(self.env, self.top)
        peers = self.peers() if {"first", "burst", "api", "workspace"} & set(chosen) else {}
        for name, step in steps.items():
            if name in chosen:
                print(f"bench: {name} …", file=sys.stderr, flush=True)
                try:
                    step(peers)
                except subprocess.CalledProcessError as e:
                    why = (e.stderr or b"").decode("utf-8", "replace").strip().split("\n")[-1][:200]
                    self.table.notes.append(f"{name}: failed: {why or e}")
                    print(f"bench: {name}: {why or e}", file=sys.stderr)

    def close(self):
        try:
            self.skep("rm", "--all", "--force")
            os.kill(self.daemon_pid(), signal.SIGTERM)
        except (subprocess.CalledProcessError, OSError):
            pass
        if self.engine:
            self.engine.close()
        shutil.rmtree(self.top, ignore_errors=True)


def settle():
    time.sleep(2)


def memory(pids):
    """KiB: PSS of these processes, and what the kernel says it holds."""
    total = {"pss": 0, "Slab": 0, "KernelStack": 0, "PageTables": 0, "Percpu": 0}
    with open("/proc/meminfo", encoding="ascii") as f:
        for line in f:
            k, v = line.split(":")
            if k in total:
                total[k] = int(v.split()[0])
    for p in pids:
        try:
            with open(f"/proc/{p}/smaps_rollup", encoding="ascii") as f:
                total["pss"] += next(int(x.split()[1]) for x in f if x.startswith("Pss:"))
        except (OSError, StopIteration):
            pass
    return total


def write_big_project(d, files):
    os.makedirs(d)
    names = [f"unit{i}" for i in range(files)]
    for i, n in enumerate(names):
        body = "".join(f"static int f{k}(int x)\n{{\n\treturn x * {k + i} + (int)strlen(\"{n}\");\n}}\n\n" for k in range(40))
        call = " + ".join(f"f{k}(x)" for k in range(40))
        with open(f"{d}/{n}.c", "w", encoding="ascii") as f:
            f.write(f"#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include \"all.h\"\n\n{body}int {n}(int x)\n{{\n\treturn {call};\n}}\n")
    with open(f"{d}/all.h", "w", encoding="ascii") as f:
        f.write("".join(f"int {n}(int x);\n" for n in names))
    with open(f"{d}/main.c", "w", encoding="ascii") as f:
        f.write('#include <stdio.h>\n#include "all.h"\n\nint main(void)\n{\n\tlong sum = 0;\n' + "".join(f"\tsum += {n}(3);\n" for n in names) + '\tprintf("%ld\\n", sum);\n\treturn 0;\n}\n')
    with open(f"{d}/Makefile", "w", encoding="ascii") as f:
        f.write("OBJS := main.o " + " ".join(f"{n}.o" for n in names) + "\nCFLAGS := -O1\nprogram: $(OBJS)\n\t$(CC) -o $@ $^\n$(OBJS): all.h\ncheck: program\n\t./program > out.txt && test -s out.txt\nclean:\n\trm -f program out.txt *.o\n")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", default=os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build/release"))
    p.add_argument("--md", help="write the table to this file too")
    p.add_argument("--json", help="keep the raw numbers in this file")
    p.add_argument("--quick", action="store_true", help="few rounds: does it work at all")
    p.add_argument("--full", action="store_true", help="1,000 live sandboxes too")
    p.add_argument("--only", help="memory,first,burst,exec,thousand,build,cpu,gate,workspace,review,api")
    args = p.parse_args()
    b = Bench(args)
    try:
        b.all()
    finally:
        b.close()
    text = b.table.markdown()
    print(text)
    if args.md:
        with open(args.md, "w", encoding="utf-8") as f:
            f.write(text)
    if args.json:
        b.table.save(args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
