# SPDX-License-Identifier: Apache-2.0
"""The API over TCP: whole lives of sandboxes, commands, idle streams of events, and E2B's SDK in front of it."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

SDK = """
import { Sandbox } from 'e2b'
for (let i = 0; i < Number(process.argv[2]); i++) {
  const start = process.hrtime.bigint()
  const s = await Sandbox.create()
  await s.commands.run('true')
  console.log(String(process.hrtime.bigint() - start))
  await s.kill()
}
"""


class Api:
    def __init__(self, bench):
        self.b = bench
        self.rounds = 20 if bench.args.quick else 200

    def open(self):
        self.token = self.b.skep("token", "new", "--scope", "admin")
        self.served = subprocess.Popen([f"{self.b.build}/skep", "serve", "--listen", "127.0.0.1:0"], env=self.b.env, cwd=self.b.project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        line = self.served.stdout.readline().decode()
        self.port = int(re.search(r":(\d+)\s*$", line).group(1))

    def close(self):
        self.served.send_signal(signal.SIGINT)
        self.served.wait()

    def connection(self):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        c.connect()
        c.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return c

    def ask(self, c, method, path, body=None):
        head = {"Authorization": f"Bearer {self.token}"}
        if body is not None:
            body, head["Content-Type"] = json.dumps(body).encode(), "application/json"
        c.request(method, path, body, head)
        r = c.getresponse()
        data = r.read()
        if r.status >= 300:
            raise OSError(f"{method} {path}: {r.status} {data[:200]!r}")
        return json.loads(data) if data.strip() else None

    def life(self, c):
        sid = self.ask(c, "POST", "/v1/sandboxes", {"empty": True})["id"]
        self.ask(c, "POST", f"/v1/sandboxes/{sid}/exec", {"argv": ["/bin/true"]})
        self.ask(c, "DELETE", f"/v1/sandboxes/{sid}?force=1")

    def lives(self):
        what = "create, run true, remove over TCP: lives a second"
        for clients in (1, 10, 100):
            n = max(self.rounds // clients, 2)
            lines = [self.connection() for _ in range(clients)]
            self.life(lines[0])
            threads = [threading.Thread(target=lambda c=c: [self.life(c) for _ in range(n)]) for c in lines]
            start = time.monotonic()
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            rate = clients * n / (time.monotonic() - start)
            for c in lines:
                c.close()
            self.b.table.raw[f"{what}, {clients}"] = rate
            self.b.table.row(what, f"{clients} client{'s' if clients > 1 else ''}", [rate], "1/s")

    def execs(self):
        c = self.connection()
        sid = self.ask(c, "POST", "/v1/sandboxes", {"empty": True})["id"]
        times = {"skep, HTTP": [], "bare": []}
        for i in range(self.rounds + 5):
            start = time.monotonic()
            self.ask(c, "POST", f"/v1/sandboxes/{sid}/exec", {"argv": ["/bin/true"]})
            took = time.monotonic() - start
            if i >= 5:
                times["skep, HTTP"].append(took)
                times["bare"] += self.b.spawn(["/bin/true"])[0]
        self.b.table.times("exec of true in a live cell over HTTP, with its output", times, "bare", "")
        self.ask(c, "DELETE", f"/v1/sandboxes/{sid}?force=1")
        c.close()

    def streams(self):
        n = 50 if self.b.args.quick else 1000
        pid = self.b.daemon_pid()
        before = pss(pid)
        lines = []
        for _ in range(n):
            c = self.connection()
            c.request("GET", "/v1/events", headers={"Authorization": f"Bearer {self.token}"})
            c.getresponse()
            lines.append(c)
        time.sleep(1)
        what = f"{n:,} idle streams of events"
        self.b.table.row(f"{what}: skepd's memory for each", "skep", [(pss(pid) - before) / n], "KiB")
        c, took = self.connection(), []
        for _ in range(self.rounds):
            start = time.monotonic()
            self.ask(c, "GET", "/v1/version")
            took.append(time.monotonic() - start)
        self.b.table.times(f"{what}: a request beside them", {"skep": took}, "", "")
        for x in (*lines, c):
            x.close()

    def sdk(self, peers):
        where = os.path.join(os.path.dirname(self.b.build), "e2b")
        if not os.path.isdir(f"{where}/node_modules/e2b"):
            self.b.table.notes.append("E2B's SDK: not installed (tests/compat/e2b/install)")
            return
        script = f"{where}/first.mjs"
        with open(script, "w", encoding="ascii") as f:
            f.write(SDK)
        key = "e2b_" + self.token.partition("_")[2]
        url = f"http://127.0.0.1:{self.port}"
        env = {**os.environ, "E2B_API_KEY": key, "E2B_API_URL": url, "E2B_SANDBOX_URL": url}
        out = subprocess.run(["node", script, str(5 if self.b.args.quick else 40)], env=env, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True).stdout
        os.unlink(script)
        times = {"skep, E2B's SDK": [int(x) / 1e9 for x in out.split()][1:]}
        for name in ("docker", "runc"):
            if name in peers:
                times[f"{name} run"] = [t for _ in range(10) for t in self.b.spawn(peers[name])[0]]
        self.b.table.times("time to the first command through E2B's SDK", times, "docker run", "")

    def all(self, peers):
        self.open()
        try:
            self.lives()
            self.execs()
            self.streams()
            self.sdk(peers)
        finally:
            self.close()


def pss(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        return next(int(x.split()[1]) for x in f if x.startswith("Pss:"))
