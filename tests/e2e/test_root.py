# SPDX-License-Identifier: Apache-2.0
"""The root profile: uid 0 inside, package installs and user management work, the host stays as it is."""
import hashlib
import os
import subprocess

import pytest

from kit import IS_ROOT


@pytest.fixture
def box(home, project):
    home.lend()
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


# -- files that the host's packages own are changed in place (src/cell/owned.h) -----------------------------------------

# One file of the host each, named without its directory; `f` is its path. Nobody runs any of them.
CHANGES = {
    "arch": "os.chmod(f, 0o700); assert stat.S_IMODE(os.stat(f).st_mode) == 0o700",
    "b2sum": "d = os.open('/usr/bin', os.O_RDONLY); os.chmod('b2sum', 0o4755, dir_fd=d); assert stat.S_IMODE(os.stat(f).st_mode) == 0o4755",
    "base32": "os.chown(f, 1, 2); s = os.stat(f); assert (s.st_uid, s.st_gid) == (1, 2)",
    "base64": "os.utime(f, (5, 6)); assert os.stat(f).st_mtime == 6",
    "basenc": "os.link(f, '/usr/bin/basenc.new'); assert open(f, 'rb').read() == open('/usr/bin/basenc.new', 'rb').read()",
    "chcon": "os.rename(f, '/usr/bin/chcon.new'); assert not os.path.exists(f)",
    "cksum": "os.chdir('/usr/share'); os.truncate('../bin/cksum', 3); assert os.path.getsize(f) == 3",
    "comm": "open(f, 'ab').write(b'tail'); assert open(f, 'rb').read()[-4:] == b'tail'",
    "csplit": "open(f, 'r+b').write(b'head'); assert open(f, 'rb').read(4) == b'head' and os.path.getsize(f) > 1000",
    "dircolors": "open(f, 'w').write('all'); assert open(f).read() == 'all'",
    "expand": "os.setxattr(f, 'user.note', b'x'); assert os.getxattr(f, 'user.note') == b'x'",
    "factor": "os.symlink(f, '/tmp/link'); os.chmod('/tmp/link', 0o711); assert stat.S_IMODE(os.stat(f).st_mode) == 0o711",
    "fmt": "os.symlink('../../usr/bin/fmt', '/var/tmp/chain'); os.symlink('chain', '/var/tmp/end'); open('/var/tmp/end', 'ab').write(b'x')",
    "fold": "os.link(f, '/usr/bin/fold.old'); os.rename('/usr/bin/fold.old', '/usr/bin/fold.older'); os.unlink(f); assert os.path.getsize('/usr/bin/fold.older') > 1000",
    "join": "fd = os.open(f, os.O_RDWR | os.O_CREAT); os.write(fd, b'x'); os.close(fd)",
    "link": "open('/tmp/new', 'w').write('new'); shutil.move('/tmp/new', f); assert open(f).read() == 'new'",
    "logname": "subprocess.run(['cp', '-p', f, '/tmp/copy'], check=True); subprocess.run(['mv', '/tmp/copy', f], check=True)",
    "mkfifo": "b = os.stat(f); d = open(f, 'rb').read(); os.chmod(f, 0o750); a = os.stat(f); assert (a.st_mtime_ns, a.st_size, open(f, 'rb').read()) == (b.st_mtime_ns, b.st_size, d)",
}

CHANGE_ALL = """
import os, shutil, stat, subprocess, traceback
os.umask(0o022)
for name, change in {changes!r}.items():
    try:
        exec(change, dict(globals(), f='/usr/bin/' + name))
    except BaseException:
        print(name, traceback.format_exc())
left = [n for n in os.listdir('/usr/bin') if n.startswith('.skep')]
assert not left, left
"""


def test_files_of_the_host_are_changed_in_place(home, skep, box):
    before = {n: os.stat(f"/usr/bin/{n}") for n in CHANGES}
    with open(f"{home.dir}/change.py", "w", encoding="ascii") as f:
        f.write(CHANGE_ALL.format(changes=CHANGES))
    assert skep("exec", box, "--", "python3", "change.py", timeout=300).ok().out == ""
    for n, b in before.items():
        a = os.stat(f"/usr/bin/{n}")
        assert (a.st_mode, a.st_uid, a.st_nlink, a.st_size, a.st_mtime_ns) == (b.st_mode, b.st_uid, b.st_nlink, b.st_size, b.st_mtime_ns), n
    skep("stop", box).ok()
    assert skep("exec", box, "--", "stat", "-c", "%a", "/usr/bin/arch").ok().line == "700"


def test_directories_and_links_of_the_host_are_changed_in_place(home, skep, box):
    script = """set -e
mv /usr/share/doc/coreutils /usr/share/doc/elsewhere; test -s /usr/share/doc/elsewhere/copyright; test ! -e /usr/share/doc/coreutils
l=$(find /usr/bin /usr/lib -maxdepth 2 -type l -print -quit); chown -h daemon "$l"; test "$(stat -c %U "$l")" = daemon
l=$(find /usr/bin /usr/lib -maxdepth 2 -type l ! -user daemon -print -quit); t=$(readlink "$l"); mv "$l" /tmp/moved; test "$(readlink /tmp/moved)" = "$t"
chmod -R u+w /usr/share/doc/bash; chown -R 1:1 /usr/share/doc/bash; test -z "$(find /usr/share/doc/bash ! -user 1)"
echo well"""
    assert skep("exec", box, "--", "sh", "-c", script, timeout=120).ok().line == "well"


def test_only_root_changes_files_of_the_host(home, skep, box):
    script = """
import os
for change in ("os.chmod(f, 0o777)", "open(f, 'ab')", "os.rename(f, '/usr/bin/x')", "os.utime(f)", "os.truncate(f, 0)"):
    f = "/usr/bin/arch"
    try:
        exec(change)
    except PermissionError:
        continue
    print(change)
print(os.stat("/usr/bin/arch").st_uid)
"""
    owner = skep("exec", box, "--", "stat", "-c", "%u", "/usr/bin/arch").ok().line
    assert skep("exec", "-u", "nobody", box, "--", "python3", "-c", script).ok().out.split() == [owner]
    # what belongs to nobody by that name stays nobody's
    r = skep("exec", box, "--", "sh", "-c", "cp /usr/bin/arch /usr/bin/mine && chown nobody:nogroup /usr/bin/mine && chmod 700 /usr/bin/mine && echo x >> /usr/bin/mine && stat -c %U:%G:%a /usr/bin/mine").ok()
    assert r.line == "nobody:nogroup:700"


@pytest.fixture
def repository(home):
    """A directory with one newer package in the place of one that every Debian host has, and apt's options for it."""
    d, top = f"{home.top}/newer", f"{home.dir}/repo"
    os.makedirs(f"{d}/DEBIAN")
    os.makedirs(f"{d}/bin")
    os.makedirs(top)
    arch = subprocess.run(["dpkg", "--print-architecture"], stdout=subprocess.PIPE, check=True).stdout.decode().strip()
    control = f"Package: hostname\nVersion: 99\nArchitecture: {arch}\nEssential: yes\nMaintainer: t <t@example.org>\nDescription: test\n"
    with open(f"{d}/DEBIAN/control", "w", encoding="ascii") as f:
        f.write(control)
    with open(f"{d}/bin/hostname", "w", encoding="ascii") as f:
        f.write("#!/bin/sh\necho ninety-nine\n")
    os.chmod(f"{d}/bin/hostname", 0o755)
    for name in ("dnsdomainname", "domainname"):
        os.symlink("hostname", f"{d}/bin/{name}")
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", d, f"{top}/hostname.deb"], check=True, stdout=subprocess.DEVNULL)
    with open(f"{top}/hostname.deb", "rb") as f:
        data = f.read()
    with open(f"{top}/Packages", "w", encoding="ascii") as f:
        f.write(f"{control}Filename: ./hostname.deb\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n")
    return "-o Dir::Etc::sourcelist=/srv/newer.list -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0"


def test_apt_upgrades_a_package_of_the_host(home, skep, box, repository):
    script = f"""set -e
export DEBIAN_FRONTEND=noninteractive
cp -r repo /srv/newer; chmod -R a+rX /srv/newer; echo 'deb [trusted=yes] file:/srv/newer ./' > /srv/newer.list
ls /var/lib/apt/lists/partial >/dev/null
apt-get {repository} update
apt-get {repository} install -y --no-install-recommends hostname
dpkg --audit >&2
test -z "$(dpkg --audit)"
/bin/hostname; /bin/dnsdomainname; dpkg-query -W -f '${{Version}} ${{Status}}\\n' hostname"""
    r = skep("exec", box, "--", "sh", "-c", script, timeout=400)
    assert r.rc == 0, r.out[-3000:] + r.err[-3000:]
    assert r.out.splitlines()[-3:] == ["ninety-nine", "ninety-nine", "99 install ok installed"]
