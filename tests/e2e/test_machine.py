# SPDX-License-Identifier: Apache-2.0
"""What programs expect of a real machine."""
import os
import shutil

from kit import IS_ROOT


def test_a_small_sys(skep):
    """How the processors are arranged, empty lists of devices, and nothing that can be written."""
    script = "cat /sys/devices/system/cpu/online; ls /sys/class/net /sys/block | wc -l; ls -d /sys/class/net; touch /sys/x 2>/dev/null || echo closed; grep -c ^processor /proc/cpuinfo"
    online, names, net, closed, _ = skep("run", "--", "sh", "-c", script).ok().out.splitlines()
    with open("/sys/devices/system/cpu/online", encoding="ascii") as f:
        assert online == f.read().strip()
    assert names == "3" and net == "/sys/class/net" and closed == "closed"
    if shutil.which("lscpu"):
        assert "On-line CPU(s) list" in skep("run", "--", "lscpu").ok().out


def test_home_keeps_its_mode(skep):
    sid = skep("new").ok().line
    assert skep("exec", sid, "--", "stat", "-c", "%a", "/home/skep").ok().line == "700"
    skep("stop", sid).ok()
    assert skep("exec", sid, "--", "sh", "-c", "stat -c %a ~; chmod 711 ~").ok().line == "700"
    skep("stop", sid).ok()
    assert skep("exec", sid, "--", "stat", "-c", "%a", "/home/skep").ok().line == "711"
    skep("rm", "--force", sid).ok()


def test_directories_above_a_mount_are_the_users(home, skep):
    with open(f"{home.top}/settings", "w", encoding="ascii") as f:
        f.write("{}\n")
    opts = ("--mount", f"{home.top}/settings:/home/skep/.tool/deep/settings")
    r = skep("run", "--rm", *opts, "--", "sh", "-c", "cat ~/.tool/deep/settings; touch ~/.tool/a ~/.tool/deep/b; stat -c %u ~ ~/.tool ~/.tool/deep").ok()
    first, *owners = r.out.splitlines()
    assert first == "{}" and len(owners) == 3 and len(set(owners)) == 1
    assert IS_ROOT or owners[0] == str(os.getuid())


def test_flags_that_no_kernel_knows(skep):
    """Chromium asks for a memory file with every flag there is, and ends when the answer is not EINVAL."""
    script = "import ctypes, errno\nc = ctypes.CDLL(None, use_errno=True)\n" \
             "for flags in (0xffffffff, 4):\n    c.memfd_create(b'x', flags); print(errno.errorcode[ctypes.get_errno()])"
    assert skep("run", "--", "/usr/bin/python3", "-c", script).ok().out.split() == ["EINVAL", "ENOMEM"]
