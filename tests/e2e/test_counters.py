# SPDX-License-Identifier: Apache-2.0
"""What the kernel counts for a user, or for the whole host: a cell that takes all it can get leaves enough for its neighbour
and for the user. The control is the user's own process, which may have more than a cell got."""
import subprocess

TAKE = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
class Shape(ctypes.Structure):
    _fields_ = [(n, ctypes.c_long) for n in ("flags", "most", "size", "now", "a", "b", "c", "d")]
scratch, most = sys.argv[2], int(sys.argv[3])
def watch(i, state={}):
    fd = state.setdefault("fd", libc.inotify_init1(0))
    os.makedirs(f"{scratch}/{i}")
    return libc.inotify_add_watch(fd, f"{scratch}/{i}".encode(), 2)
def terminal(i):
    try:
        return os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return -1
def queue(i):
    return libc.mq_open(b"/%d-%d" % (os.getpid(), i), os.O_CREAT | os.O_RDWR, 0o600, ctypes.byref(Shape(0, 10, 8192, 0)))
take = {"instances": lambda i: libc.inotify_init1(0), "watches": watch, "terminals": terminal, "queues": queue}[sys.argv[1]]
n = 0
while n < most and take(n) >= 0:
    n += 1
print(n, flush=True)
sys.stdin.read()
for i in range(n if sys.argv[1] == "queues" else 0):
    libc.mq_unlink(b"/%d-%d" % (os.getpid(), i))
"""


class Taker:
    def __init__(self, process):
        self.process = process
        self.n = int(process.stdout.readline())

    def end(self):
        self.process.communicate(timeout=60)


def outside(home, kind, most):
    argv = ["/usr/bin/python3", "-c", TAKE, kind, f"{home.dir}/scratch-{kind}-{most}", str(most)]
    t = Taker(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    t.end()
    return t.n


def inside(home, sid, kind, most):
    return Taker(home.popen("exec", "-i", sid, "--", "/usr/bin/python3", "-c", TAKE, kind, f"/tmp/{kind}-{most}", str(most), stdin=subprocess.PIPE))


def sysctl(name):
    with open(f"/proc/sys/{name}", encoding="ascii") as f:
        return int(f.read())


def check(home, kind, host, few):
    """Two greedy cells at once, while the user and, beside one of them, a neighbour go on working."""
    greedy, other = home.new(), home.new()
    first = inside(home, greedy, kind, host)
    assert few <= first.n <= host // 2, f"{first.n} {kind} of {host}"
    neighbour = inside(home, other, kind, host)
    assert neighbour.n >= few
    assert outside(home, kind, few) == few
    neighbour.end()
    first.end()
    again = inside(home, greedy, kind, host)
    assert again.n == first.n, "what was given back can be had again"
    again.end()
    assert outside(home, kind, first.n + 1) == first.n + 1


def test_inotify_instances(home):
    check(home, "instances", sysctl("fs/inotify/max_user_instances"), 4)


def test_inotify_watches(home):
    host = sysctl("fs/inotify/max_user_watches")
    sid = home.new()
    assert host // 4 < int(home.skep("exec", sid, "--", "cat", "/proc/sys/user/max_inotify_watches").ok().line) < host // 2
    some = inside(home, sid, "watches", 500)
    assert some.n == 500
    some.end()


def test_queues(home):
    check(home, "queues", 9, 2)


def test_terminals(home):
    check(home, "terminals", sysctl("kernel/pty/max") - sysctl("kernel/pty/reserve"), 16)
