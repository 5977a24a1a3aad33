# SPDX-License-Identifier: Apache-2.0
"""Tools from the caller's home are there, read-only; credentials and everything else of the home are not."""
import os
import subprocess

import pytest


def put(path, content="x\n", mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as f:
        f.write(content)
    os.chmod(path, mode)


@pytest.fixture
def tools(home):
    """A home as developers have it: tools on PATH, and secrets beside them."""
    h = home.user_home
    put(f"{h}/.local/bin/mytool", "#!/bin/sh\necho mytool here\n", 0o755)
    put(f"{h}/.local/share/mytool/data", "data\n")
    put(f"{h}/.cargo/bin/cargo-fake", "#!/bin/sh\necho cargo here\n", 0o755)
    put(f"{h}/.cargo/credentials.toml", "token = 'hunter2'\n")
    put(f"{h}/.cargo/credentials", "token = 'hunter2'\n")
    put(f"{h}/go/bin/gotool", "#!/bin/sh\necho go here\n", 0o755)
    put(f"{h}/.ssh/id_ed25519", "hunter2\n", 0o600)
    put(f"{h}/.aws/credentials", "hunter2\n")
    put(f"{h}/.netrc", "hunter2\n")
    put(f"{h}/.npmrc", "//registry/:_authToken=hunter2\n")
    put(f"{h}/.bash_history", "hunter2\n")
    put(f"{h}/Documents/plan.txt", "hunter2\n")
    put(f"{h}/.config/gh/hosts.yml", "hunter2\n")
    put(f"{h}/.local/share/keyrings/login.keyring", "hunter2\n")
    put(f"{h}/.docker/config.json", "hunter2\n")
    home.env["PATH"] = f"{h}/.local/bin:{h}/.cargo/bin:{h}/go/bin:" + home.env["PATH"]
    return h


def test_tools_work_inside(skep, tools):
    r = skep("run", "--", "sh", "-c", "mytool; cargo-fake; gotool").ok()
    assert r.out.splitlines() == ["mytool here", "cargo here", "go here"]


def test_at_the_same_path(skep, tools):
    assert skep("run", "--", "sh", "-c", "command -v mytool").ok().line == f"{tools}/.local/bin/mytool"


def test_read_only(skep, tools):
    r = skep("run", "--", "sh", "-c", f"echo evil > {tools}/.local/bin/mytool; echo evil > {tools}/.local/bin/new; rm {tools}/.cargo/bin/cargo-fake")
    assert r.rc != 0
    assert sorted(os.listdir(f"{tools}/.local/bin")) == ["mytool"]
    assert "mytool here" in open(f"{tools}/.local/bin/mytool", encoding="ascii").read()


def test_no_credential_is_visible(skep, tools):
    paths = " ".join(f"{tools}/{p}" for p in (".cargo/credentials.toml", ".cargo/credentials", ".ssh/id_ed25519", ".aws/credentials", ".netrc", ".npmrc", ".bash_history", "Documents/plan.txt", ".config/gh/hosts.yml", ".local/share/keyrings/login.keyring", ".docker/config.json"))
    r = skep("run", "--", "sh", "-c", f"cat {paths} 2>/dev/null; grep -rs hunter2 {tools}; true").ok()
    assert "hunter2" not in r.out and "Binary" not in r.out


def test_only_tools_of_the_home_are_there(skep, tools):
    r = skep("run", "--", "ls", "-A", tools).ok()
    assert set(r.out.split()) <= {".local", ".cargo", "go"}


def test_home_inside_is_its_own(skep, tools):
    assert skep("run", "--", "sh", "-c", "echo $HOME; ls -A ~ | wc -l; touch ~/f && echo writable").ok().out.split() == ["/home/skep", "0", "writable"]


def test_show_says_which(home, skep, tools):
    sid = home.new()
    skep("start", sid).ok()
    assert ".cargo" in skep("show", sid).ok().out or ".cargo" in skep("show", "--json", sid).ok().out


def test_no_home_tool_no_mount(home, skep):
    put(f"{home.user_home}/.ssh/id", "hunter2")
    r = skep("run", "--", "sh", "-c", f"ls -A {home.user_home} 2>/dev/null; exit 0").ok()
    assert r.out == ""


def test_link_from_a_tool_directory_to_a_secret(skep, tools):
    os.symlink(f"{tools}/.ssh/id_ed25519", f"{tools}/.local/bin/sneaky")
    assert "hunter2" not in skep("run", "--", "sh", "-c", f"cat {tools}/.local/bin/sneaky; true").out


def test_extra_mounts(home, skep):
    d = f"{home.top}/extra"
    put(f"{d}/data", "shared\n")
    assert skep("run", "--mount", d, "--", "cat", f"{d}/data").ok().line == "shared"
    assert skep("run", "--mount", f"{d}:/data:ro", "--", "sh", "-c", "cat /data/data; echo no > /data/new 2>/dev/null; exit 0").ok().line == "shared"
    assert os.listdir(d) == ["data"]


def test_as_many_writable_mounts_as_there_may_be(home, skep):
    """Each can be written to; one more is refused, not shown as writable and then read-only."""
    many = []
    for i in range(65):
        os.makedirs(f"{home.top}/many/{i}")
        os.chmod(f"{home.top}/many/{i}", 0o777)  # root's own keep their owner inside
        many += ["--mount", f"{home.top}/many/{i}:/many/{i}:rw"]
    skep("run", *many[:128], "--", "sh", "-c", "for d in /many/*; do echo in > $d/f || exit 1; done").ok()
    assert all(os.path.exists(f"{home.top}/many/{i}/f") for i in range(64))
    skep("new", *many).fails(6, "65 mounts", "64")


def test_mount_that_is_not_there(home, skep):
    skep("run", "--mount", f"{home.top}/none", "--", "true").fails(2, "none")


def test_host_names_do_not_leak(home, skep):
    """User names, host name, machine id of the host are not visible."""
    host = os.uname().nodename
    r = skep("run", "--", "sh", "-c", "uname -n; cat /etc/passwd /etc/hosts /etc/hostname 2>/dev/null; true").ok()
    assert host not in r.out.split() or len(host) < 3
    assert "skeptest" not in r.out
    if os.path.exists("/etc/machine-id"):
        mine = open("/etc/machine-id", encoding="ascii").read().strip()
        assert not mine or skep("run", "--", "cat", "/etc/machine-id").ok().line != mine


def test_sandboxes_have_their_own_identity(home, skep):
    a = skep("run", "--", "sh", "-c", "cat /etc/machine-id; uname -n").ok().out.split()
    b = skep("run", "--", "sh", "-c", "cat /etc/machine-id; uname -n").ok().out.split()
    assert a[0] != b[0]


def test_network_is_closed_but_loopback_is_free(home, skep):
    script = (
        "import socket\n"
        "s=socket.create_server(('127.0.0.1',0)); c=socket.create_connection(s.getsockname()); c.send(b'x'); print(s.accept()[0].recv(1))\n"
        "import time; t=time.monotonic()\n"
        "for a in ('192.0.2.1',80),('169.254.169.254',80),('8.8.8.8',53):\n"
        "    try: socket.create_connection(a,3); print('OPEN',a)\n"
        "    except OSError as e: pass\n"
        "print('quick' if time.monotonic()-t<2 else 'slow')\n"
    )
    assert skep("run", "--", "python3", "-c", script).ok().out.split() == ["b'x'", "quick"]


def test_host_loopback_is_not_the_cells(home, skep):
    server = subprocess.Popen(["python3", "-c", "import socket,sys\ns=socket.create_server(('127.0.0.1',0)); print(s.getsockname()[1],flush=True); sys.stdin.read()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        port = int(server.stdout.readline())
        r = skep("run", "--", "python3", "-c", f"import socket; socket.create_connection(('127.0.0.1',{port}),3)")
        assert r.rc == 1
    finally:
        server.communicate(b"")


# What each tool's programs do first: they look for their data where their variable says, else below HOME, which inside is another.
DATA = {"RUSTUP_HOME": (".cargo/bin", ".rustup"), "VOLTA_HOME": (".volta/bin", ".volta"), "ASDF_DATA_DIR": (".asdf/shims", ".asdf"), "SDKMAN_DIR": (".sdkman/candidates/x/current/bin", ".sdkman"),
        "MISE_DATA_DIR": (".local/share/mise/shims", ".local/share/mise"), "PYENV_ROOT": (".pyenv/shims", ".pyenv"), "RBENV_ROOT": (".rbenv/shims", ".rbenv"),
        "NVM_DIR": (".nvm/versions/node/v1/bin", ".nvm"), "UV_PYTHON_INSTALL_DIR": (".local/bin", ".local/share/uv/python"), "PIPX_HOME": (".local/bin", ".local/share/pipx")}


@pytest.fixture
def proxies(home):
    """A program of each tool that prints what its data say; all on PATH."""
    h = home.user_home
    for i, (name, (at, data)) in enumerate(DATA.items()):
        put(f"{h}/{data}/data", f"data {i}\n")
        put(f"{h}/{at}/tool{i}", f'#!/bin/sh\nexec cat "${{{name}:-$HOME/{data}}}/data"\n', 0o755)
    home.env["PATH"] = ":".join(dict.fromkeys(f"{h}/{at}" for at, _ in DATA.values())) + ":" + home.env["PATH"]
    return "; ".join(f"tool{i}" for i in range(len(DATA)))


ALL_DATA = [f"data {i}" for i in range(len(DATA))]


def test_tools_find_their_data(home, skep, proxies):
    assert skep("run", "--", "sh", "-c", proxies).ok().out.splitlines() == ALL_DATA
    r = skep("run", "--", "sh", "-c", "env").ok()
    assert not [x for x in r.out.splitlines() if x.startswith(("CARGO_HOME=", "PNPM_HOME=", "BUN_INSTALL=", "GOPATH="))]  # where they write
    assert skep("run", "-e", "RUSTUP_HOME=/mine", "--", "sh", "-lc", "echo $RUSTUP_HOME").ok().line == "/mine"


def test_tools_whose_place_the_caller_names(home, skep):
    """As in images with rust: the variable names a directory of the system."""
    put(f"{home.user_home}/.cargo/bin/t", "#!/bin/sh\necho $RUSTUP_HOME $JAVA_HOME\n", 0o755)
    home.env.update(PATH=f"{home.user_home}/.cargo/bin:{home.env['PATH']}", RUSTUP_HOME="/usr/lib", JAVA_HOME="/usr/share")
    assert skep("run", "--", "t").ok().line == "/usr/lib /usr/share"
    home.env.update(RUSTUP_HOME="/root", JAVA_HOME="/nowhere")
    assert skep("run", "--", "t").ok().line == ""  # what is not seen inside is not told


SHELLS = [x for x in ("bash", "dash", "sh", "zsh") if os.path.exists(f"/bin/{x}")]


def check_login(ask, proxies):
    """/etc/profile sets PATH anew: agents that run `bash -lc` would silently get the system's programs."""
    plain = ask("sh", "-c", "echo $PATH").ok().line.split(":")
    for shell in SHELLS:
        lines = ask(f"/bin/{shell}", "-lc", f"{proxies}; echo $PATH").ok().out.splitlines()
        assert lines[:-1] == ALL_DATA, shell
        assert lines[-1].split(":")[:len(plain)] == plain, shell


def test_a_login_shell_keeps_the_tools(home, skep, proxies):
    sid = home.new()
    check_login(lambda *argv: skep("exec", sid, "--", *argv), proxies)


def test_a_login_shell_keeps_the_tools_with_root(home, skep, proxies):
    sid = home.new("--root")
    check_login(lambda *argv: skep("exec", sid, "--", *argv), proxies)
    check_login(lambda *argv: skep("exec", "-u", "skep", sid, "--", *argv), proxies)
    r = skep("exec", sid, "--", "sh", "-c", f"useradd -m ann >/dev/null 2>&1 || adduser -D ann; su - ann -c '{proxies}; id -un'").ok()
    assert r.out.splitlines()[-len(DATA) - 1:] == [*ALL_DATA, "ann"]  # which clears every variable


def test_a_path_that_was_said_counts_in_a_login_shell(home, skep):
    odd = "/usr/bin:/bin:/it's here"
    assert skep("run", "-e", f"PATH={odd}", "--", "bash", "-lc", "echo $PATH").ok().line.startswith(odd)


def test_gcc_make_git_python_work_inside(home, skep, project):
    r = skep("run", "--", "sh", "-c", "make -s test && git log --oneline | wc -l && python3 -c 'print(6*7)'", timeout=120).ok()
    assert r.out.split()[-2:] == ["1", "42"]
