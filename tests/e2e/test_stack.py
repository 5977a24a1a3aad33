# SPDX-License-Identifier: Apache-2.0
"""Stacks of sealed layers below a writable one, in real cells; no skepd is needed."""
import json
import os
import shutil
import subprocess
import time

import pytest

from nursery_kit import COPY, MERGE, SIZE, SYNC, Nursery, Refused


@pytest.fixture
def nursery(home):
    n = Nursery(home)
    yield n
    n.close()


@pytest.fixture
def busybox_image(home, busybox):
    d = f"{home.skep_home}/images/i1"
    for x in ("bin", "etc", "usr", "var", "root", "dev", "proc", "tmp", "run"):
        os.makedirs(f"{d}/{x}")
    shutil.copy(busybox, f"{d}/bin/busybox")
    for a in ("sh", "cat", "rm", "echo", "["):
        os.symlink("busybox", f"{d}/bin/{a}")
    return d


def project(home, **files):
    for name, text in files.items():
        with open(f"{home.dir}/{name}", "w") as f:
            f.write(text)
    return home.dir


def test_layers_stack_up(home, nursery):
    base = project(home, a="base", b="base", c="base")
    lowers = []
    for i in range(32):
        nursery.layer(f"l{i}")
        c = nursery.cell(f"l{i}", lowers, base=base)
        c.ok(f"[ $(cat /w/a) = {i - 1 if i else 'base'} ]; echo {i} > /w/a; echo {i} > /w/n{i}; echo {i} > ~/h; echo {i} >> ~/all")
        if i == 3:
            c.ok("rm /w/b; mkdir /w/d; echo x > /w/d/x")
        if i == 5:
            c.ok("[ ! -e /w/b ]; rm -r /w/d; mkdir /w/b; echo y > /w/b/y")
        assert c.stop() == i + 2 + (2 if i >= 3 else 0) + 2  # and two files of the home
        lowers.insert(0, f"{nursery.home}/layers/l{i}")
    nursery.layer("top")
    c = nursery.cell("top", lowers, base=base)
    c.ok("[ $(cat /w/a) = 31 ]; [ $(cat /w/b/y) = y ]; [ ! -e /w/d ]; [ $(ls /w | wc -l) = 35 ]; [ $(cat /w/c) = base ]")
    c.ok("! grep -q layers /proc/self/mountinfo; printf base > /w/a")
    assert c.stop() == 36  # a is as it was


def test_a_layer_may_lack_parts_and_lie_elsewhere(home, nursery):
    """As the private .git and the setup layer of a base do; what they hold is not pending."""
    base = project(home, a="base")
    git = f"{home.skep_home}/trees/t1/git"
    os.makedirs(f"{git}/ws/.git")
    os.makedirs(f"{git}/ws/made")
    for name, text in ((".git/HEAD", "ref"), ("made/x", "x")):
        with open(f"{git}/ws/{name}", "w") as f:
            f.write(text)
    setup = nursery.layer("setup")
    for d in ("ws", "root"):
        os.rmdir(f"{setup}/{d}")
    with open(f"{setup}/home/.profile", "w") as f:
        f.write("from setup\n")
    lowers = [git, setup]
    for warm in (False, True, True):  # cold; a new slot for the place; perhaps its mold
        name = f"u{nursery.count}"
        if not warm:
            nursery.layer(name)
        c = nursery.cell(name, lowers, n_base=2, base=base, warm=warm)
        c.ok("[ $(cat /w/.git/HEAD) = ref ]; [ $(cat /w/a) = base ]; grep -q setup ~/.profile; echo 1 >> /w/.git/HEAD; echo 2 >> /w/made/x")
        c.ok("! grep -q trees /proc/self/mountinfo; printf x > /w/made/x; rm /w/a; echo 3 > /w/n")
        assert c.stop() == 2
    with open(f"{git}/ws/.git/HEAD") as f:
        assert f.read() == "ref"


def test_a_slot_for_a_layer_that_was_replaced_is_refused(home, nursery):
    os.makedirs(f"{home.skep_home}/trees/t1/git/ws")
    base, git = project(home, a="base"), f"{home.skep_home}/trees/t1/git"
    real, hook = nursery.ch.answer, []

    def replace(ident, *kinds):
        got = real(ident, *kinds)
        if kinds == ("M_SLOT",):
            time.sleep(0.5)  # it has mounted them
            os.rename(git, f"{git}-old")
            os.makedirs(f"{git}/ws")
            hook.append(1)
        return got

    nursery.ch.answer = replace
    with pytest.raises(Refused, match="replaced"):
        nursery.cell("fresh", [git], n_base=1, base=base, warm=True)
    nursery.ch.answer = real
    assert hook


@pytest.mark.root  # an ordinary user's ownership layer takes half a minute to make and to remove
@pytest.mark.parametrize("image", [False, True])
def test_root_keeps_its_system_in_the_stack(home, nursery, busybox_image, image):
    image = busybox_image if image else None
    lowers = []
    for i in range(3):
        nursery.layer(f"l{i}")
        c = nursery.cell(f"l{i}", lowers, image=image, root=True)
        c.ok(f"echo {i} > /etc/n{i}; echo {i} > /usr/n{i}; echo {i} > /n{i}; echo {i} > /root/n{i}; echo {i} > /var/last")
        if i == 1:
            c.ok("[ $(cat /etc/n0) = 0 ]; rm /usr/n0")
        c.stop()
        lowers.insert(0, f"{nursery.home}/layers/l{i}")
    nursery.job(MERGE, ["l2", "l1", "l0"], "m")
    for below in (lowers, [f"{nursery.home}/layers/m"]):
        name = f"top{nursery.count}"
        nursery.layer(name)
        c = nursery.cell(name, below, image=image, root=True)
        c.ok("for i in 0 1 2; do [ $(cat /etc/n$i) = $i ]; [ $(cat /n$i) = $i ]; [ $(cat /root/n$i) = $i ]; done; [ $(cat /var/last) = 2 ]; [ ! -e /usr/n0 ]; [ $(cat /usr/n1) = 1 ]")
        c.stop()


MAKE = """cd /w; mkdir -p d/e; echo 1 > d/e/f; ln d/e/f d/hard; ln -s nowhere d/soft; mkfifo d/fifo; truncate -s 8M d/sparse; printf x >> d/sparse
head -c 300000 /dev/urandom > big; echo small > small; chmod 4751 small; touch -d '2001-02-03 04:05:06.789' big d; rm a; rm -r old; mkdir old; echo n > old/n; echo h > ~/h"""
LIST = """cd /w; find . ~ -mindepth 1 -printf '%P %y %m %U %G %s %T@ %l\\n' | sort > /tmp/list; find . ~ -type f -exec md5sum {} + | sort >> /tmp/list"""


def listing(nursery, name, lowers, base):
    nursery.layer(name)
    c = nursery.cell(name, lowers, base=base)
    c.ok(f"{LIST}; cp /tmp/list ~/sum; [ $(stat -c %b /w/d/sparse) -lt 100 ]; [ /w/d/e/f -ef /w/d/hard ]")
    c.stop()
    with open(f"{nursery.home}/layers/{name}/home/sum") as f:
        return f.read()


def test_a_paused_cell_is_copied_as_it_is(home, nursery):
    base = project(home, a="base")
    os.mkdir(f"{base}/old")
    project(home, **{"old/o": "o"})
    nursery.layer("u")
    c = nursery.cell("u", base=base)
    c.ok(MAKE + "; sleep 0.2")
    c.exec("i=0; while :; do i=$((i+1)); echo $i > /w/one; cp /w/one /w/two; done")
    c.exec("exec sleep 1000")
    c.ok("while [ ! -e /w/two ]; do sleep 0.01; done")
    assert 2 <= c.members() <= 4
    for i, like in enumerate((None, "c0", "c1")):
        c.ask("M_PAUSE")
        assert 2 <= c.members() <= 4
        size = nursery.job(COPY, "u", f"c{i}", like)
        assert size[0] > 300000 and size[1] >= 9
        assert nursery.job(COPY, "u", f"c{i}", like)[:2] == size[:2], "asked again: it is there"
        live = {n: open(f"{nursery.home}/layers/u/ws/{n}").read() for n in ("one", "two")}
        copied = {n: open(f"{nursery.home}/layers/c{i}/ws/{n}").read() for n in ("one", "two")}
        assert live == copied
        c.ask("M_RESUME")
        c.ok("sleep 0.2; echo more >> /w/small; sleep 0.2")
    shares = [os.stat(f"{nursery.home}/layers/c{i}/ws/big").st_ino for i in range(3)]
    assert len(set(shares)) == 1, "big did not change"
    assert len({os.stat(f"{nursery.home}/layers/c{i}/ws/small").st_ino for i in range(3)}) == 3, "small did"
    c.stop()
    nursery.job(COPY, "u", "last", "c2")
    sums = [listing(nursery, n, [f"{nursery.home}/layers/{below}"], base) for n, below in (("s1", "u"), ("s2", "last"))]
    assert sums[0] == sums[1]
    nursery.job(SYNC, "u", sealed=True)
    assert not os.path.exists(f"{nursery.home}/layers/u/work")
    assert nursery.job(SIZE, "u")[1] == nursery.job(SIZE, "last")[1]


def test_a_write_through_a_mapping_is_not_missed(home, nursery):
    """A store to a page that is dirty already changes no time stamp."""
    base = project(home, a="base")
    nursery.layer("u")
    c = nursery.cell("u", base=base)
    c.ok("command -v python3; head -c 1000000 /dev/zero > /w/m; head -c 1000 /dev/zero > /w/s")
    c.exec("""exec python3 -c '
import mmap, os, time
maps = [mmap.mmap(os.open("/w/" + n, os.O_RDWR), 0) for n in "ms"]
i = 0
while True:
    i += 1
    for m in maps:
        m[500:510] = b"%010d" % i
    if i == 1:
        open("/tmp/ready", "w")
    time.sleep(0.01)'""")
    c.ok("while [ ! -e /tmp/ready ]; do sleep 0.01; done; sleep 0.3")
    like, seen = None, set()
    for i in range(4):
        c.ask("M_PAUSE")
        nursery.job(COPY, "u", f"c{i}", like)
        for n in "ms":
            with open(f"{nursery.home}/layers/u/ws/{n}", "rb") as a, open(f"{nursery.home}/layers/c{i}/ws/{n}", "rb") as b:
                assert a.read() == b.read(), (i, n)
        with open(f"{nursery.home}/layers/c{i}/ws/m", "rb") as f:
            seen.add(f.read()[500:510])
        c.ask("M_RESUME")
        c.ok("sleep 0.15")
        like = f"c{i}"
    assert len(seen) == 4
    c.stop()


def faults(programs, how):
    p = subprocess.run([f"{programs}/skep-cell", "--faults"], stdout=subprocess.PIPE, check=True)
    return [f"{x}:{how}" for x in p.stdout.decode().split() if x.startswith("layer.")]


@pytest.mark.parametrize("how", ["fail", "kill"])
def test_layer_work_is_all_or_nothing(home, programs, how):
    for point in faults(programs, how):
        n = Nursery(home, {"SKEP_FAULT": point})
        for name in ("a", "b"):
            n.layer(name)
            with open(f"{home.skep_home}/layers/{name}/ws/{name}", "w") as f:
                f.write(name)
        failed = 0
        for verb, to in ((COPY, "copy"), (MERGE, "merged"), (SYNC, None)):
            source = ["a", "b"] if verb == MERGE else "a"
            try:
                n.job(verb, source, to, sealed=verb == SYNC)
            except Refused:
                failed += 1
                assert not to or "layer.done" in point or not os.path.exists(f"{home.skep_home}/layers/{to}"), point
            n.job(SIZE, source if verb != MERGE else "a")
        assert failed, point
        n.end()
        n = Nursery(home)
        for verb, to in ((COPY, "copy"), (MERGE, "merged"), (SYNC, None)):
            n.job(verb, ["a", "b"] if verb == MERGE else "a", to, sealed=verb == SYNC)
        for name in ("copy/ws/a", "merged/ws/a", "merged/ws/b"):
            with open(f"{home.skep_home}/layers/{name}") as f:
                assert f.read() == name[-1]
        assert not [x for x in os.listdir(f"{home.skep_home}/layers") if x.endswith(".partial")], point
        n.close()


def test_a_flood_of_events_does_not_fill_the_hosts_disk(home, nursery):
    """Refused calls with strings that escapes make six times as long: cheap inside, kilobytes each in the journal."""
    nursery.layer("flood")
    c = nursery.cell("flood", event_rate=1)  # half a MiB
    flood = "import ctypes, time\nend = time.time() + 5\nwhile time.time() < end: ctypes.CDLL(None).syscall(165, *[b'\\x01' * 250] * 3, 0, 0)\n"
    assert c.run(f"python3 -c \"{flood}\"") == 0
    c.stop()
    path = f"{home.skep_home}/sandboxes/{c.sid}/journal"
    with open(path) as f:
        events = [json.loads(line) for line in f]
    assert 300 << 10 < os.stat(path).st_size < 700 << 10
    told = [e for e in events if e["type"] == "limit.hit" and e["limit"] == "journal"]
    assert told and events[-1]["type"] == "cell.gone", events[-3:]
