# SPDX-License-Identifier: Apache-2.0
"""The root profile: uid 0 inside, package installs and user management work, the host stays as it is."""
import os
import subprocess

import pytest

from kit import IS_ROOT


@pytest.fixture
def box(home, project):
    return home.new("--root", "--name", "box")


@pytest.fixture
def package(home):
    """A small package with a maintainer script, made here."""
    d = f"{home.top}/deb"
    os.makedirs(f"{d}/DEBIAN")
    os.makedirs(f"{d}/usr/bin")
    os.makedirs(f"{d}/etc/skep-hello")
    with open(f"{d}/DEBIAN/control", "w", encoding="ascii") as f:
        f.write("Package: skep-hello\nVersion: 1.0\nArchitecture: all\nMaintainer: t <t@example.org>\nDescription: test\n")
    with open(f"{d}/DEBIAN/postinst", "w", encoding="ascii") as f:
        f.write("#!/bin/sh\nset -e\nchown nobody /etc/skep-hello/conf\necho configured > /etc/skep-hello/state\n")
    with open(f"{d}/usr/bin/skep-hello", "w", encoding="ascii") as f:
        f.write("#!/bin/sh\necho hello from the package\n")
    with open(f"{d}/etc/skep-hello/conf", "w", encoding="ascii") as f:
        f.write("x\n")
    os.chmod(f"{d}/DEBIAN/postinst", 0o755)
    os.chmod(f"{d}/usr/bin/skep-hello", 0o755)
    deb = f"{home.dir}/hello.deb"
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", d, deb], check=True, stdout=subprocess.DEVNULL)
    return deb


def test_uid_0_inside_never_outside(home, skep, box):
    r = skep("exec", box, "--", "sh", "-c", "id -u; cat /proc/self/uid_map").ok()
    lines = r.out.splitlines()
    assert lines[0] == "0"
    if not IS_ROOT:
        return
    assert not any(x.split()[:2] == ["0", "0"] for x in lines[1:])


def test_install_a_package(home, skep, package, box):
    skep("exec", box, "--", "dpkg", "-i", package, timeout=120).ok()
    assert skep("exec", box, "--", "skep-hello").ok().line == "hello from the package"
    assert skep("exec", box, "--", "sh", "-c", "cat /etc/skep-hello/state; stat -c %U /etc/skep-hello/conf").ok().out.split() == ["configured", "nobody"]
    assert skep("exec", box, "--", "dpkg-query", "-W", "-f", "${Status}", "skep-hello").ok().line == "install ok installed"
    assert not os.path.exists("/usr/bin/skep-hello") and not os.path.exists("/etc/skep-hello")
    skep("stop", box).ok()
    assert skep("exec", box, "--", "skep-hello").ok().line == "hello from the package"
    skep("exec", box, "--", "dpkg", "-r", "skep-hello").ok()


def test_apt_get_installs_a_local_package(home, skep, package, box):
    r = skep("exec", box, "--", "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", package, timeout=120)
    assert r.rc == 0, r.out + r.err
    skep("exec", box, "--", "skep-hello").ok()


def test_users_and_ownership(home, skep, box):
    script = "useradd -m -u 1234 dev && chown dev /home/dev && touch /srv/x && chown 1234:1234 /srv/x && stat -c %U /srv/x && su dev -s /bin/sh -c 'id -un' && groupadd -g 777 g && chgrp g /srv/x"
    assert skep("exec", box, "--", "sh", "-c", script).ok().out.split() == ["dev", "dev"]
    assert skep("exec", "-u", "dev", box, "--", "id", "-u").ok().line == "1234"
    assert b"dev:x:1234" not in open("/etc/passwd", "rb").read()


def test_writes_to_the_system_stay_in_the_layer(home, skep, box):
    skep("exec", box, "--", "sh", "-c", "echo x > /usr/local/bin/marker-skep; echo y >> /etc/hosts; rm -f /usr/bin/yes; mkdir -p /opt/skep-marker /var/tmp/skep-marker").ok()
    assert not os.path.exists("/usr/local/bin/marker-skep") and os.path.exists("/usr/bin/yes")
    assert not os.path.exists("/opt/skep-marker") and not os.path.exists("/var/tmp/skep-marker")
    assert skep("exec", box, "--", "sh", "-c", "test -e /usr/local/bin/marker-skep && test ! -e /usr/bin/yes && echo there").ok().line == "there"


def test_capabilities_are_few(home, skep, box):
    r = skep("exec", box, "--", "grep", "Cap", "/proc/self/status").ok()
    names = "CHOWN DAC_OVERRIDE FOWNER FSETID SETUID SETGID SETPCAP KILL NET_BIND_SERVICE SYS_CHROOT".split()
    numbers = dict(CHOWN=0, DAC_OVERRIDE=1, FOWNER=3, FSETID=4, KILL=5, SETGID=6, SETUID=7, SETPCAP=8, NET_BIND_SERVICE=10, SYS_CHROOT=18)
    allowed = sum(1 << numbers[n] for n in names)
    for line in r.out.splitlines():
        assert int(line.split()[1], 16) & ~allowed == 0, line


def test_files_made_by_root_inside_belong_to_no_host_root(home, skep, box, project):
    skep("exec", box, "--", "sh", "-c", "echo x > rootfile; chmod 4755 rootfile").ok()
    assert not os.path.exists(f"{project}/rootfile")
    skep("rm", "--force", box).ok()


def test_default_profile_has_no_root(home, skep):
    r = skep("run", "--", "sh", "-c", "id -u; grep CapBnd /proc/self/status; touch /usr/x 2>&1; touch /etc/x 2>&1; exit 0").ok()
    lines = r.out.splitlines()
    assert lines[0] == ("1000" if IS_ROOT else str(os.getuid()))
    assert int(lines[1].split()[1], 16) == 0
    assert len(lines) == 4


def test_default_profile_cannot_switch_user(home, skep):
    sid = home.new()
    r = skep("exec", "-u", "root", sid, "--", "true")
    assert r.rc in (125, 126) and "--root" in r.err


@pytest.mark.root
@pytest.mark.dirty
def test_without_subordinate_ids_it_is_refused_with_the_command_that_adds_them(home):
    """A user without any range; root makes one up, so that no file of the host needs a change."""
    uid = 54321
    for d in (home.top, home.user_home, home.dir):
        os.chown(d, uid, uid)
    as_user = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", f"{home.programs}/skep"]
    p = subprocess.run([*as_user, "run", "--root", "--", "true"], env=home.env, cwd=home.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
    home.watch()
    assert p.returncode == 125 and b"subuid" in p.stderr.lower() and len(p.stderr.splitlines()) == 1, p.stderr
    p = subprocess.run([*as_user, "run", "--", "id", "-u"], env=home.env, cwd=home.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
    home.watch()
    home.kill_strays()
    assert p.stdout.split() == [str(uid).encode()], p.stderr


# Whatever is in the place of the list of users: who is looked up is not found, and pid 1 goes on.
LISTS = {
    "a pipe": "mkfifo /etc/passwd",
    "no end": "ln -s /dev/zero /etc/passwd",
    "a terminal": "ln -s /dev/ptmx /etc/passwd",
    "a directory": "mkdir /etc/passwd",
    "a hole": "truncate -s 8G /etc/passwd",
    "nonsense": "printf 'nobody:x:-1:9:\\nnobody\\n:::::::\\nnobody:x:99999999999999:1::/:\\n' > /etc/passwd",
    "a server that says nothing": "mkdir -p /run/nscd; python3 -c \"import socket\ns = socket.socket(socket.AF_UNIX)\ns.bind('/run/nscd/socket')\ns.listen(9)\nopen('/run/ready', 'w').close()\nwhile True: s.accept()\" >/dev/null 2>&1 & while ! test -e /run/ready; do sleep 0.02; done",
}


def test_the_list_of_users_is_no_trap(home, skep):
    sid = home.new("--root")
    for how in LISTS.values():
        skep("exec", sid, "--", "sh", "-c", f"rm -rf /etc/passwd; {how}").ok()
        skep("exec", "--user", "nobody", sid, "--", "true", timeout=20).fails(125, "no user nobody")
        assert skep("exec", "--user", "65534", sid, "--", "id", "-u", timeout=20).ok().line == "65534"
        skep("exec", sid, "--", "touch", "/tmp/f").ok()
        skep("cp", f"{sid}:/tmp/f", f"{home.dir}/f", timeout=20).ok()
    skep("exec", sid, "--", "sh", "-c", "rm -rf /etc/passwd; echo 'skeptic:x:77:78::/:/bin/sh' > /etc/passwd").ok()
    assert skep("exec", "--user", "skeptic", sid, "--", "sh", "-c", "id -u; id -g").ok().out.split() == ["77", "78"]
