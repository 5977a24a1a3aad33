# SPDX-License-Identifier: Apache-2.0
"""Real package managers fetch a real package through the gate. Where from is said by their own configuration on this
machine, so no registry stands here. Nothing inside knows of a proxy."""
import os
import shutil
import subprocess

import pytest

from kit import IS_ROOT

POM = """<project><modelVersion>4.0.0</modelVersion><groupId>t</groupId><artifactId>t</artifactId><version>1</version><packaging>pom</packaging>
<build><extensions><extension><groupId>org.hamcrest</groupId><artifactId>hamcrest-core</artifactId><version>1.3</version></extension></extensions></build></project>"""
CARGO = '[package]\nname = "t"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nitoa = "=1.0.11"\n'
SYSTEM = "/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin"

# tool: (program, command that fetches one small package and uses it, what it prints then, patience without network)
TOOLS = {
    "npm": ("npm", "npm install --no-audit --no-fund is-number@7.0.0 >&2 && node -p \"require('is-number')(3)\"", "true", "npm_config_fetch_retries=0"),
    "pip": ("pip3", "python3 -m pip install --no-cache-dir --target t six >&2 && PYTHONPATH=t python3 -c 'import six; print(six.PY3)'", "True", "PIP_RETRIES=1"),
    "go": ("go", "go mod init t 2>&1 && GOFLAGS=-mod=mod go get rsc.io/pdf@v0.1.1 >&2 && ls -d $(go env GOMODCACHE)/rsc.io/pdf@v0.1.1 >/dev/null && echo fetched", "fetched", "X=1"),
    "maven": ("mvn", f"echo '{POM}' > pom.xml && mvn -B -ntp -q -Dmaven.repo.local=$PWD/repo validate >&2 && ls repo/org/hamcrest/hamcrest-core/1.3/*.jar >&2 && echo fetched", "fetched", "X=1"),
    "apt": ("apt-get", "apt-get -o Acquire::Retries=0 update >&2; apt-get -o Acquire::Retries=0 download hello >&2 && ls hello_*.deb >&2 && echo fetched", "fetched", "X=1"),
    "cargo": ("cargo", f"mkdir src && echo 'fn main() {{}}' > src/main.rs && echo '{CARGO}' > Cargo.toml && CARGO_HOME=$PWD/.c cargo fetch -q >&2 && ls .c/registry/cache/*/itoa-1.0.11.crate >&2 && echo fetched", "fetched", "CARGO_NET_RETRY=0"),
}


def runs(path, *args):
    try:
        return subprocess.run([path, *args], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30, check=False).returncode == 0
    except OSError:
        return False


# A toolchain of rustup's is its owner's: where only root has one, root's run shows that cargo works.
HERE = [t for t in TOOLS if t != "cargo" or IS_ROOT or runs("cargo", "--version")]


def toolchain(home):
    """Options that make cargo visible inside, where it is no part of the system: a toolchain of rustup's."""
    if runs("/usr/bin/cargo", "--version"):
        return [], SYSTEM
    real = shutil.which("cargo")
    top = subprocess.run(["rustc", "--print", "sysroot"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout.decode().strip() if real and runs("rustc", "-V") else ""
    if not os.access(f"{top}/bin/cargo", os.X_OK):
        return None, None
    os.makedirs(f"{home.user_home}/.rustup/toolchains")
    os.symlink(top, f"{home.user_home}/.rustup/toolchains/stable")
    return ["--mount", f"{top}:{top}:ro"], f"{top}/bin:{SYSTEM}"


def prepared(home, tool):
    if tool == "cargo":
        options, path = toolchain(home)
    else:
        options, path = [], SYSTEM
        if not shutil.which(TOOLS[tool][0], path=SYSTEM):
            options = None
    if options is None:
        pytest.skip(f"{tool} is not installed where this user can run it")
    return [*options, "--env", f"PATH={path}", *(["--root"] if tool == "apt" else [])]


@pytest.mark.parametrize("tool", HERE)
def test_installs_a_package(home, tool):
    options = prepared(home, tool)
    _, command, says, _ = TOOLS[tool]
    r = home.skep("run", "--empty", "--net", "registries", *options, "--", "sh", "-c", f"cd $(mktemp -d) && env | grep -i proxy; {command}", timeout=120)
    assert r.rc == 0 and r.out.splitlines()[-1:] == [says], r.out[-1500:] + r.err[-3000:]
    assert "proxy=" not in r.out.lower()


@pytest.mark.parametrize("tool", HERE)
def test_says_clearly_that_there_is_no_network(home, tool):
    """Under none: not found, at once, and skep tells what was refused."""
    options = prepared(home, tool)
    _, command, says, patience = TOOLS[tool]
    sid = home.new("--empty", "--net", "none", *options)
    r = home.skep("exec", "--env", patience, sid, "--", "sh", "-c", f"cd $(mktemp -d) && {{ {command}; }}", timeout=60)
    assert r.rc != 0 and says not in r.out.split(), r.out[-1500:] + r.err[-1500:]
    words = ("resolv", "enotfound", "name or service", "no such host", "unknown host", "name resolution", "eai_again", "not known", "dns")
    assert any(w in (r.out + r.err).lower() for w in words), r.out[-1500:] + r.err[-3000:]
    denied = [e for e in home.journal(sid) if e["type"] == "denied"]
    assert denied, "nothing in the journal"
    assert home.skep("policy", "suggest", sid).ok().out.strip(), denied
