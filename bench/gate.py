# SPDX-License-Identifier: Apache-2.0
"""What the gate costs: from a cell through it to a host on loopback, against the same client without a cell ("direct"),
and with TLS opened against the proxies of gate_peers.py. Client and host are the C programs beside this file; the client
times itself, so neither its start nor `skep exec` counts."""
import contextlib
import os
import random
import shutil
import subprocess
import time

import gate_peers
from table import cpu_ticks, quantile

PASSED, OPENED = "h.test", "o.test"  # the same host under two names, the second opened by its rule
MB = 1e6
LINK = 1250  # MB/s


class Gate:
    def __init__(self, bench):
        self.bench, self.table = bench, bench.table
        self.dir = f"{bench.top}/g"
        self.quick = bench.args.quick
        self.peers, self.relay = {}, {}
        self.server = self.cell = None

    def all(self, _):
        try:
            self.set_up()
            self.create()
            self.first_byte()
            self.passed()
            self.opened()
        finally:
            self.tear_down()

    # -- the host, the cell, the peers ------------------------------------------------------------------------
    def set_up(self):
        os.makedirs(f"{self.dir}/project")
        os.chmod(self.bench.top, 0o711)  # squid runs as another user
        os.chmod(self.dir, 0o711)
        self.client = shutil.copy(f"{self.bench.build}/bench/gate_client", f"{self.dir}/project")
        self.ca, cert, key = self.certificates()
        shutil.copy(self.ca, f"{self.dir}/project/ca.pem")
        self.server = subprocess.Popen([f"{self.bench.build}/bench/gate_server", cert, key], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.plain, self.tls = self.server.stdout.readline().decode().split()
        for port in (self.plain, self.tls):
            p = subprocess.Popen([f"{self.bench.build}/bench/gate_relay", port], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.relay[port] = (p, p.stdout.readline().decode().strip())
        self.rules = ["--allow", f"{PASSED}:{self.plain}=127.0.0.1", "--allow", f"{PASSED}:{self.tls}=127.0.0.1", "--allow", f"{OPENED}:{self.tls}=127.0.0.1 open"]
        config = f"{self.bench.env['HOME']}/.config/skep"
        os.makedirs(config, exist_ok=True)
        with open(f"{config}/config.yaml", "w", encoding="utf-8") as f:
            f.write(f"ca_file: {self.ca}\n")
        self.cell = self.skep("new", *self.rules)
        self.skep("start", self.cell)

    def certificates(self):
        ca, key = gate_peers.authority(f"{self.dir}/ca", "bench")
        leaf = f"{self.dir}/leaf"
        with open(f"{leaf}.ext", "w", encoding="ascii") as f:
            f.write(f"subjectAltName=DNS:{PASSED},DNS:{OPENED},IP:127.0.0.1\nextendedKeyUsage=serverAuth\n")
        gate_peers.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={PASSED}", "-keyout", f"{leaf}.key", "-out", f"{leaf}.csr")
        gate_peers.openssl("x509", "-req", "-in", f"{leaf}.csr", "-CA", ca, "-CAkey", key, "-CAcreateserial", "-days", "2", "-extfile", f"{leaf}.ext", "-out", f"{leaf}.pem")
        os.chmod(ca, 0o644)
        return ca, f"{leaf}.pem", f"{leaf}.key"

    def start_peers(self):
        for name, start in gate_peers.ALL.items():
            d = f"{self.dir}/{name}"
            os.mkdir(d)
            try:
                self.peers[name] = start(d, self.ca)
                self.wait_for_peer(self.peers[name])
            except (gate_peers.Absent, OSError, KeyError, subprocess.CalledProcessError) as e:
                self.table.absent[name] = str(e)

    def wait_for_peer(self, peer):
        """It may listen before it can open TLS: squid's makers of certificates start later."""
        for last in [*[False] * 20, True]:
            try:
                self.proxied(peer)(["-w", 8], "get-new", 64, 1000)
                return
            except subprocess.CalledProcessError:
                if last:
                    raise
                time.sleep(0.5)

    def tear_down(self):
        for p in self.peers.values():
            p.close()
        for p, _ in self.relay.values():
            p.stdin.close()
            p.wait()
        if self.server:
            self.server.stdin.close()
            self.server.wait()
        if self.cell:
            self.skep("rm", "--force", self.cell)

    def skep(self, *argv):
        return self.bench.run(f"{self.bench.build}/skep", *argv, cwd=f"{self.dir}/project").strip()

    # -- one run of the client --------------------------------------------------------------------------------
    def direct(self, tls):
        opts = ["-t", "-c", self.ca, "-n", PASSED] if tls else []
        return lambda options, *work: self.nanoseconds([self.client, *opts, *options, "127.0.0.1", self.tls if tls else self.plain, *work])

    def relayed(self, tls):
        opts = ["-t", "-c", self.ca, "-n", PASSED] if tls else []
        return lambda options, *work: self.nanoseconds([self.client, *opts, *options, "127.0.0.1", self.relay[self.tls if tls else self.plain][1], *work])

    def through(self, tls, name=PASSED):
        opts = ["-t"] if tls else []
        if tls and name == PASSED:
            opts += ["-c", "ca.pem"]
        return lambda options, *work: self.nanoseconds([f"{self.bench.build}/skep", "exec", self.cell, "--", "./gate_client", *opts, *options, name, self.tls if tls else self.plain, *work])

    def proxied(self, peer):
        opts = ["-t", "-c", peer.ca, "-x", str(peer.port), "-n", PASSED]
        return lambda options, *work: self.nanoseconds([self.client, *opts, *options, "127.0.0.1", self.tls, *work])

    def nanoseconds(self, argv):
        out = self.bench.run(*map(str, argv), cwd=f"{self.dir}/project")
        return [int(x) for x in out.split("\n") if x.isdigit()]

    def attempt(self, what, name, work):
        """None when a peer failed: then it is left out of this workload. Ours has to work."""
        try:
            return work()
        except subprocess.CalledProcessError as e:
            why = (e.stderr or b"").decode("utf-8", "replace").strip()
            if name not in self.peers:
                e.stderr = f"{what}, {name}: {why}".encode()
                raise
            self.table.absent[f"{name}, {what}"] = why
            return None

    def turns(self, what, contenders, rounds, one):
        """{name: [whatever one(name, contender) gives, joined]}: every round each contender once, in a new order."""
        got = {n: [] for n in contenders}
        for i in range(rounds + 1):
            order = list(got)
            random.shuffle(order)
            for n in order:
                figures = self.attempt(what, n, lambda: one(n, contenders[n]))
                if figures is None:
                    del got[n]
                elif i:  # the first round warms
                    got[n] += figures
        return got

    def rates(self, what, contenders, work, start):
        """{name: [units a second]}. work(contender, amount) gives nanoseconds; the amount is made to last about a second."""
        second = 0.25e9 if self.quick else 1e9
        amount = {}
        for n, c in contenders.items():
            want, took = start, [0]
            while took and sum(took) < second / 2:
                amount[n] = want
                took = self.attempt(what, n, lambda: work(c, amount[n]))
                if took:
                    want = max(int(want * min(second / sum(took), 20)) // 8 * 8, 8)  # the client's 8 threads share it evenly
            amount[n] = want if took else None
        able = {n: c for n, c in contenders.items() if amount[n]}
        return self.turns(what, able, 2 if self.quick else 9, lambda n, c: [amount[n] / t * 1e9 for t in work(c, amount[n])])

    # -- figures ----------------------------------------------------------------------------------------------
    def create(self):
        run = [f"{self.bench.build}/skep", "run"]
        what = "create, run true, remove: without and with network rules"
        times = self.bench.turns({"skep run": [*run, "--", "/bin/true"], "skep run --allow h.test": [*run, "--allow", PASSED, "--", "/bin/true"]}, 6 if self.quick else 40, 5)
        self.table.times(what, times, "skep run", "")
        what = "first connection of a new cell (its gate starts), to the first byte"
        times = {"skep, name": [], "skep, first connection": [], "skep, second connection": []}
        for _ in range(5 if self.quick else 40):
            out = self.skep("run", *self.rules, "--", "./gate_client", PASSED, self.plain, "first", "2")
            for who, t in zip(times, out.replace("name ", "").split()):
                times[who].append(int(t) / 1e9)
        self.table.times(what, times, "", "")

    def first_byte(self):
        """The name is resolved and the gate runs; a pause before each connection, as between those of most programs."""
        for tls, what in ((False, "first byte of a new connection, TCP passed through"), (True, "first byte of a new connection, TLS passed through (with its handshake)")):
            contenders = {"direct": self.direct(tls), "skep": self.through(tls)}
            count = 20 if self.quick else 100
            times = self.turns(what, contenders, 2 if self.quick else 8, lambda n, c: [t / 1e9 for t in c(["-i", 2000], "first", count)])
            self.table.times(what, times, "direct", "")
            over = (quantile(times["skep"], 0.5) - quantile(times["direct"], 0.5)) * 1e3
            self.table.row(what, "skep over direct", [over], "ms", budget="≤ 0.3 ms")

    def passed(self):
        """As fast as memory goes, where a byte through any relay costs its second way through the kernel, and at the pace of
        a fast link. The bare relay says what is to be had on this machine."""
        for tls, pace, kind in ((False, LINK, "TCP over a link of 10 Gbit/s"), (True, 0, "TLS"), (False, 0, "TCP, memory to memory")):
            contenders = {"direct": self.direct(tls), "skep": self.through(tls), "bare relay": self.relayed(tls)}
            for way, text in (("down", "to the cell"), ("up", "from the cell")):
                what = f"throughput, {kind}, passed through, {text}"
                cpu = {"skep": self.gate_cpu, "bare relay": lambda tls=tls: self.relay_cpu(tls)}
                used, moved = {n: f() for n, f in cpu.items()}, dict.fromkeys(contenders, 0)

                def work(c, n, way=way, pace=pace, moved=moved, contenders=contenders):
                    moved[next(x for x in contenders if contenders[x] is c)] += n
                    return c(["-p", pace], way, 1, n)

                rates = self.rates(what, contenders, work, 100_000_000)
                self.table.rates(what, rates, "MB/s", MB, "direct", "≥ 0.9")
                for n, f in cpu.items():
                    alone = moved[n] / max(f() - used[n], 0.01)
                    self.table.row(what, f"{n}, for each second of its CPU", [alone / MB], "MB/s", quantile(rates["direct"], 0.5) / MB, "direct")

    def relay_cpu(self, tls):
        return cpu_ticks(self.relay[self.tls if tls else self.plain][0].pid) / os.sysconf("SC_CLK_TCK")

    def proxy_cpu(self, name):
        return self.gate_cpu() if name == "skep" else cpu_ticks(self.peers[name].process.pid) / os.sysconf("SC_CLK_TCK") if name in self.peers else 0

    def gate_cpu(self):
        """Seconds, of the one gate that runs."""
        ticks = 0
        for p in self.bench.ours():
            with contextlib.suppress(OSError), open(f"/proc/{p}/comm", encoding="utf-8") as f:
                if f.read().strip() == "skep-gate":
                    ticks += cpu_ticks(p)
        return ticks / os.sysconf("SC_CLK_TCK")

    def opened(self):
        self.start_peers()
        contenders = {"direct": self.direct(True), "skep": self.through(True, OPENED), **{n: self.proxied(p) for n, p in self.peers.items()}}
        works = (
            ("requests for 1 KB on 8 kept connections", "requests/s", 1, lambda c, n: c(["-w", 8], "get", n, 1000), 64),
            ("requests for 1 KB, a new connection each, 8 at a time", "requests/s", 1, lambda c, n: c(["-w", 8], "get-new", n, 1000), 32),
            ("throughput of one answer", "MB/s", MB, lambda c, n: c([], "get", 1, n), 8_000_000),
        )
        for name, unit, scale, work, start in works:
            what = f"TLS opened: {name}"
            done, used = dict.fromkeys(contenders, 0), {n: self.proxy_cpu(n) for n in contenders}

            def counted(c, n, work=work, done=done):
                done[next(x for x in contenders if contenders[x] is c)] += n
                return work(c, n)

            rates = self.rates(what, contenders, counted, start)
            base = next((n for n in ("squid", "mitmproxy") if n in rates), "direct")
            self.table.rates(what, rates, unit, scale, base, "")
            # What others do on the machine meanwhile changes this least.
            each = {n: (self.proxy_cpu(n) - used[n]) / max(done[n], 1) * scale * 1e6 for n in rates if n != "direct"}
            for n, cpu in each.items():
                self.table.row(f"{what}: CPU of the proxy alone", n, [cpu], "µs for each " + ("MB" if scale == MB else "request"), each.get(base), base)
