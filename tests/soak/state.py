#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Much state and scarce resources, each with a figure: what `make soak` runs beside the random operations of mixed.py.

    tests/soak/state.py BUILD [PART...]

Each part has a SKEP_HOME of its own and prints one line. A part fails with a message; the others go on."""
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from mixed import Place, Wrong  # noqa: E402


class State(Place):
    def __init__(self, programs):
        super().__init__(programs)
        self.dir = f"{self.top}/p"
        os.mkdir(self.dir)
        with open(f"{self.dir}/README", "w", encoding="ascii") as f:
            f.write("a project\n")

    def do(self, *argv, **kw):
        return self.skep(self.dir, *argv, **kw).stdout.decode().strip()

    def timed(self, *argv, **kw):
        start = time.monotonic()
        out = self.do(*argv, **kw)
        return time.monotonic() - start, out

    def close(self):
        self.do("rm", "--all", "--force")
        for n in json.loads(self.do("snapshots", "--all", "--json"))["snapshots"]:
            self.do("snapshot", "rm", n["id"])
        for pid in self.daemons():
            os.kill(pid, signal.SIGTERM)
        for _ in range(100):
            if not self.daemons():
                break
            time.sleep(0.1)
        shutil.rmtree(self.top, ignore_errors=True)


def ms(seconds):
    return f"{seconds * 1e3:.0f} ms"


def many(s):
    """300 live sandboxes beside 3,000 that are stopped."""
    for _ in range(3000):
        s.do("new")
    live = [s.do("new") for _ in range(300)]
    start = time.monotonic()
    for sid in live:
        s.do("start", sid)
    took = time.monotonic() - start
    ps = min(s.timed("ps", "-q")[0] for _ in range(5))
    run = sorted(s.timed("run", "--", "true")[0] for _ in range(20))[10]
    fds, rss, dead = s.figures()
    for pid in s.daemons():
        os.kill(pid, signal.SIGKILL)
    again, out = s.timed("ps", "-q")
    if len(out.split()) < 3300:
        raise Wrong(f"{len(out.split())} sandboxes of 3,300 after skepd was killed")
    echo = s.do("exec", live[7], "--", "echo", "there")
    if echo != "there":
        raise Wrong(f"a live sandbox says {echo!r} after skepd was killed")
    return f"300 started in {took:.1f} s, ps {ms(ps)}, run {ms(run)}, skepd {fds} descriptors {rss >> 10} MiB; after SIGKILL the first ps took {ms(again)}"


def events(s):
    """A journal of 200,000 events."""
    sid = s.do("new")
    s.do("exec", sid, "--", "sh", "-c", "for i in $(seq 100000); do echo $i > f$((i % 50)); done")
    script = "import subprocess\nfor i in range(%d): subprocess.run(['/bin/true'])"
    for _ in range(10):
        s.do("exec", sid, "--", "python3", "-c", script % 500)
    for _ in range(2000):
        s.do("exec", sid, "--", "true")
    took, out = s.timed("log", sid, "--json")
    verify, _ = s.timed("log", sid, "--verify")
    return f"{len(out.splitlines()):,} events read in {ms(took)}, verified in {ms(verify)}"


def snapshots(s):
    """500 snapshots of one sandbox."""
    sid, took = s.do("new"), []
    for i in range(500):
        s.do("exec", sid, "--", "sh", "-c", f"echo {i} > f{i % 20}")
        took.append(s.timed("snapshot", sid, f"m{i}")[0])
    back, _ = s.timed("rollback", sid, "m250")
    if s.do("exec", sid, "--", "cat", "f10") != "250":
        raise Wrong("the 250th snapshot does not hold what was written then")
    first, last = sorted(took[:50])[25], sorted(took[-50:])[25]
    return f"snapshot {ms(first)} at first, {ms(last)} at the end; rollback to the 250th {ms(back)}"


def chain(s):
    """200 rollbacks and forks, each on the one before."""
    sid, took = s.do("new"), []
    for i in range(200):
        s.do("exec", sid, "--", "sh", "-c", f"echo {i} > f; echo {i} > g{i}")
        if i % 2:
            s.do("snapshot", sid, f"c{i}")
            s.do("rollback", sid, f"c{i}")
        else:
            t, out = s.timed("fork", sid)
            took.append(t)
            sid = out.split()[-1]
        if s.do("exec", sid, "--", "cat", "f", f"g{i // 2}") != f"{i}\n{i // 2}":
            raise Wrong(f"link {i} of the chain does not hold what was written")
    return f"fork {ms(sorted(took[:10])[5])} at first, {ms(sorted(took[-10:])[5])} at the end"


def execs(s):
    """10,000 execs in one sandbox, then 200 at once."""
    sid = s.do("new")
    s.do("exec", sid, "--", "true")
    first = s.figures()
    start = time.monotonic()
    for _ in range(10000):
        s.do("exec", sid, "--", "true")
    each = (time.monotonic() - start) / 10000
    last, wrong = s.figures(), []

    def one(i):
        try:
            if s.do("exec", sid, "--", "echo", str(i)) != str(i):
                wrong.append(i)
        except (Wrong, subprocess.SubprocessError) as e:
            wrong.append(f"{i}: {e}")
    start = time.monotonic()
    threads = [threading.Thread(target=one, args=(i,)) for i in range(200)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if wrong:
        raise Wrong(f"of 200 at once {len(wrong)} failed: {wrong[:2]}")
    return f"{ms(each)} each, descriptors {first[0]} to {last[0]}, memory {first[1]} to {last[1]} KiB; 200 at once {ms(time.monotonic() - start)}"


def diff_many(s):
    """A diff of 20,000 files, and of a file of 1 GiB."""
    sid = s.do("new")
    s.do("exec", sid, "--", "python3", "-c", "import os\nfor i in range(20000):\n os.makedirs(f'd{i//200}', exist_ok=True); open(f'd{i//200}/f{i}','w').write(f'{i}\\n')")
    took, out = s.timed("diff", sid)
    again, _ = s.timed("diff", sid)
    if out.count("diff --git") != 20000:
        raise Wrong(f"{out.count('diff --git')} files in the diff of 20,000")
    other = s.do("new")
    s.do("exec", other, "--", "python3", "-c", "import os\nf = open('big', 'wb')\nfor i in range(1024): f.write(os.urandom(1 << 20))\nopen('small', 'w').write('x\\n')")
    big, _ = s.timed("diff", other)
    small, _ = s.timed("diff", other, "small")
    return f"20,000 files {ms(took)}, again {ms(again)}; beside a file of 1 GiB {ms(big)}, one path {ms(small)}"


def descriptors(s):
    """skepd with 64 descriptors: what can not be had is refused with a reason, and later calls work."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))  # noqa: E731
    start = lambda *a: subprocess.run([f"{s.programs}/skep", *a], cwd=s.dir, env=s.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, preexec_fn=limit, check=False)  # noqa: E731
    results, made = [], []
    for _ in range(40):
        r = start("new")
        results.append(r.returncode)
        if r.returncode == 0:
            made.append(r.stdout.decode().strip())
    for sid in made:
        r = start("start", sid)
        results.append(r.returncode)
        if r.returncode and not r.stderr.strip():
            raise Wrong("a start was refused without a word")
    refused = sum(1 for x in results if x)
    for sid in made:
        r = start("rm", "--force", sid)
        if r.returncode:
            raise Wrong(f"rm: {r.stderr.decode()[-300:]}")
    if start("run", "--", "true").returncode:
        raise Wrong("nothing works after the sandboxes went")
    return f"{len(made)} made, {refused} of {len(results)} calls refused with a reason, then all works"


def stopped(s):
    """A stopped skepd (SIGSTOP): the client says so."""
    s.do("ps")
    pid = s.daemons()[0]
    os.kill(pid, signal.SIGSTOP)
    start = time.monotonic()
    p = subprocess.Popen([f"{s.programs}/skep", "ps"], cwd=s.dir, env=s.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    words = p.stderr.readline().decode()
    took = time.monotonic() - start
    os.kill(pid, signal.SIGCONT)
    p.communicate(timeout=60)
    s.do("ps")
    if "skepd" not in words:
        raise Wrong(f"after {took:.0f} s the client has not said that skepd does not answer")
    return f"after {took:.1f} s: {words.strip()[:120]}"


def procs(s):
    """No free process for the user: refused with a reason, and later calls work. For an ordinary user only."""
    if os.getuid() == 0:
        return "root has no such limit: run as a user"
    used = len([p for p in os.listdir("/proc") if p.isdigit() and os.stat(f"/proc/{p}").st_uid == os.getuid()])
    limit = lambda: resource.setrlimit(resource.RLIMIT_NPROC, (used + 3, used + 3))  # noqa: E731
    r = subprocess.run([f"{s.programs}/skep", "run", "--", "true"], cwd=s.dir, env=s.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, preexec_fn=limit, check=False)
    if not r.returncode or not r.stderr.strip():
        raise Wrong(f"exit {r.returncode} with {used + 3} processes: {r.stderr.decode()[-300:]}")
    for pid in s.daemons():
        os.kill(pid, signal.SIGTERM)
    time.sleep(1)
    s.do("run", "--", "true")
    return f"refused: {r.stderr.decode().strip()[:120]}"


PARTS = {f.__name__: f for f in (descriptors, stopped, procs, diff_many, snapshots, chain, execs, events, many)}


def main():
    build, failed = sys.argv[1], 0
    for name in sys.argv[2:] or PARTS:
        s = State(build)
        try:
            print(f"{name}: {PARTS[name](s)}", flush=True)
        except (Wrong, OSError, subprocess.SubprocessError) as e:
            failed += 1
            print(f"{name}: FAILED: {e}", flush=True)
        try:
            s.close()
        except (Wrong, OSError, subprocess.SubprocessError) as e:
            failed += 1
            print(f"{name}: FAILED at the end: {e}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
