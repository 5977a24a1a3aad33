# SPDX-License-Identifier: Apache-2.0
"""What the host unmounts is not kept in use by skep's copy of its mounts (src/isolate/host_mounts.h)."""
import os
import subprocess

import pytest

from kit import wait_for

pytestmark = pytest.mark.root


def mounted_in(pid, device):
    try:
        with open(f"/proc/{pid}/mountinfo", encoding="utf-8") as f:
            return any(line.split()[2] == device for line in f)
    except OSError:
        return False


def holders(home, device):
    """Of this skepd's processes: other ones on the machine are none of ours."""
    home.watch()
    return [p for p, _ in home.seen if mounted_in(p, device)]


@pytest.fixture
def stick(tmp_path):
    """A file system of its own, private as where no service manager shares mounts."""
    top = str(tmp_path / "a stick")
    os.mkdir(top)
    subprocess.run(["mount", "-t", "tmpfs", "--make-private", "stick", top], check=True)
    yield top
    subprocess.run(["umount", "-l", top], check=False, stderr=subprocess.DEVNULL)


def test_an_unmounted_stick_is_free(home, skep, stick):
    """With a nursery, slots that wait and a live cell, none of which has anything to do with it."""
    device = f"{os.major(os.stat(stick).st_dev)}:{os.minor(os.stat(stick).st_dev)}"
    sid = home.new()
    skep("exec", sid, "--", "true").ok()
    skep("run", "--", "true").ok()
    cell = home.cell_pid(sid)
    wait_for(lambda: mounted_in(cell, device), 20, 0.2, "the copy of the mount that supervisors have")
    subprocess.run(["umount", stick], check=True)
    wait_for(lambda: not mounted_in(cell, device) and not holders(home, device), 30, 0.3, "the last copy of the mount to go")
    assert skep("exec", sid, "--", "echo", "on").ok().line == "on"
    assert skep("run", "--", "echo", "next").ok().line == "next"
    skep("rm", "--force", sid).ok()


def test_many_changes_cost_little(home, skep, stick):
    """The table of the host changes all the time on some machines: creates go on, and what is left is right."""
    skep("run", "--", "true").ok()
    for i in range(40):
        subprocess.run(["mount", "-t", "tmpfs", "more", stick], check=True)
        subprocess.run(["umount", stick], check=True)
        if i % 10 == 0:
            assert skep("run", "--", "echo", str(i)).ok().line == str(i)
