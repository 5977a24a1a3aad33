# SPDX-License-Identifier: Apache-2.0
"""Stacks of sealed layers below a writable one, in real cells; no skepd is needed."""
import os
import subprocess

import pytest

from kit import IS_ROOT
from nursery_kit import COPY, MERGE, SIZE, SYNC, Nursery, Refused


@pytest.fixture
def nursery(home):
    n = Nursery(home)
    yield n
    n.close()


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
        assert c.stop() == i + 2 + (2 if i >= 3 else 0)
        lowers.insert(0, f"{nursery.home}/layers/l{i}")
    nursery.layer("top")
    c = nursery.cell("top", lowers, base=base)
    c.ok("[ $(cat /w/a) = 31 ]; [ $(cat /w/b/y) = y ]; [ ! -e /w/d ]; [ $(ls /w | wc -l) = 35 ]; [ $(cat /w/c) = base ]")
    c.ok("! grep -q layers /proc/self/mountinfo; printf base > /w/a")
    assert c.stop() == 34  # a is as it was


