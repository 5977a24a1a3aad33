# SPDX-License-Identifier: Apache-2.0
"""The caller's package caches: warm inside without a network, written only into the sandbox's own layer."""
import base64
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

SHELL = ("sh", "-c")


def put(path, text="x\n"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as f:
        f.write(text)


class Registry:
    """Serves what it is given, on loopback, and counts."""

    def __init__(self):
        self.files, self.asked = {}, []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                data = outer.files.get(self.path)
                self.send_response(200 if data else 404)
                self.send_header("Content-Length", str(len(data or b"")))
                self.send_header("Cache-Control", "max-age=31536000")
                self.end_headers()
                self.wfile.write(data or b"")

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def registry():
    r = Registry()
    yield r
    r.server.shutdown()
    r.server.server_close()


def tool(name):
    path = shutil.which(name, path="/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin")
    if not path:
        pytest.skip(f"{name} is not installed")
    return path


def on_host(home, *argv, **env):
    r = subprocess.run(argv, cwd=home.dir, env={**home.env, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False)
    assert r.returncode == 0, r.stdout.decode(errors="replace")[-3000:]


def hashes(home):
    out = {}
    for at, _, files in os.walk(home.user_home):
        for f in files:
            with open(f"{at}/{f}", "rb") as h:
                out[f"{at}/{f}"] = hashlib.sha256(h.read()).hexdigest()
    return out


# --- real package managers -------------------------------------------------------------------------------------------


def test_npm_ci_downloads_nothing(home, skep, registry):
    npm = tool("npm")
    b = io.BytesIO()
    with tarfile.open(fileobj=b, mode="w:gz") as t:
        for name, data in (("package/package.json", b'{"name": "tiny", "version": "1.0.0", "main": "m.js"}'), ("package/m.js", b"module.exports = 'tiny works'")):
            i = tarfile.TarInfo(name)
            i.size = len(data)
            t.addfile(i, io.BytesIO(data))
    tar = b.getvalue()
    dist = {"tarball": f"{registry.url}/tiny/-/tiny-1.0.0.tgz", "integrity": "sha512-" + base64.b64encode(hashlib.sha512(tar).digest()).decode()}
    registry.files["/tiny/-/tiny-1.0.0.tgz"] = tar
    registry.files["/tiny"] = json.dumps({"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {"name": "tiny", "version": "1.0.0", "main": "m.js", "dist": dist}}}).encode()
    put(f"{home.dir}/package.json", '{"name": "p", "version": "1.0.0", "dependencies": {"tiny": "1.0.0"}}')
    on_host(home, npm, "install", "--no-audit", "--no-fund", f"--registry={registry.url}")
    assert os.path.isdir(f"{home.user_home}/.npm/_cacache")
    shutil.rmtree(f"{home.dir}/node_modules")
    before, asked = hashes(home), len(registry.asked)
    r = skep("run", "--", *SHELL, "npm ci --no-audit --no-fund >&2 && node -p \"require('tiny')\"", timeout=120)
    assert r.ok().line == "tiny works" and len(registry.asked) == asked
    assert hashes(home) == before
    # without the cache the same fails: nothing else brought it
    put(f"{home.user_home}/.config/skep/config.yaml", "caches: off\n")
    r = skep("run", "--", *SHELL, "npm ci --no-audit --no-fund --fetch-retries=0", timeout=120)
    assert r.rc != 0 and len(registry.asked) == asked


def test_pip_install_downloads_nothing(home, skep, registry):
    tool("python3")
    b = io.BytesIO()
    with zipfile.ZipFile(b, "w") as z:
        z.writestr("tiny.py", "said = 'tiny works'\n")
        z.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        z.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("tiny-1.0.dist-info/RECORD", "tiny.py,,\ntiny-1.0.dist-info/METADATA,,\ntiny-1.0.dist-info/WHEEL,,\ntiny-1.0.dist-info/RECORD,,\n")
    registry.files["/tiny-1.0-py3-none-any.whl"] = b.getvalue()
    wanted = f"tiny @ {registry.url}/tiny-1.0-py3-none-any.whl"
    install = f"/usr/bin/python3 -m pip install --no-index --retries 0 --trusted-host 127.0.0.1 --target t '{wanted}' >&2 && PYTHONPATH=t /usr/bin/python3 -c 'import tiny; print(tiny.said)'"
    on_host(home, "sh", "-c", install)
    shutil.rmtree(f"{home.dir}/t")
    before, asked = hashes(home), len(registry.asked)
    assert asked
    r = skep("run", "--", *SHELL, install, timeout=120)
    assert r.ok().line == "tiny works" and len(registry.asked) == asked
    assert hashes(home) == before


def test_go_takes_modules_from_the_cache(home, skep):
    go = tool("go")
    proxy = f"{home.top}/proxy/tiny.test/m/@v"
    put(f"{proxy}/list", "v1.0.0\n")
    put(f"{proxy}/v1.0.0.info", '{"Version": "v1.0.0"}')
    put(f"{proxy}/v1.0.0.mod", "module tiny.test/m\n")
    with zipfile.ZipFile(f"{proxy}/v1.0.0.zip", "w") as z:
        z.writestr("tiny.test/m@v1.0.0/go.mod", "module tiny.test/m\n")
        z.writestr("tiny.test/m@v1.0.0/m.go", "package m\n")
    put(f"{home.dir}/go.mod", "module p\n\ngo 1.19\n\nrequire tiny.test/m v1.0.0\n")
    env = {"GOFLAGS": "-mod=mod", "GOSUMDB": "off", "GOTOOLCHAIN": "local"}
    on_host(home, go, "mod", "download", GOPROXY=f"file://{home.top}/proxy", **env)
    assert os.path.isdir(f"{home.user_home}/go/pkg/mod/cache/download/tiny.test")
    put(f"{home.user_home}/go/pkg/mod/cache/vcs/x/config", "hunter2\n")
    options = [x for k, v in env.items() for x in ("--env", f"{k}={v}")]
    r = skep("run", *options, "--env", "GOPROXY=off", "--", *SHELL, f"{go} mod download && ls ~/go/pkg/mod/tiny.test; cat ~/go/pkg/mod/cache/vcs/x/config; true", timeout=120)
    assert r.ok().line == "m@v1.0.0"


# --- what is shown, and what becomes of it ----------------------------------------------------------------------------


@pytest.fixture
def warm(home):
    """Caches with credentials beside them."""
    h = home.user_home
    for p in (".npm/_cacache/index-v5/a", ".cache/pip/http/a", ".cache/uv/archive-v0/a", ".cargo/registry/cache/a", "go/pkg/mod/cache/download/a", ".cache/go-build/a", ".m2/repository/a"):
        put(f"{h}/{p}", "good\n")
    for p in (".npmrc", ".npm/_logs/l", ".cargo/credentials.toml", ".m2/settings.xml", ".cache/other/s", "go/pkg/mod/cache/vcs/s", ".pypirc"):
        put(f"{h}/{p}", "hunter2\n")
    return h


def test_each_is_where_its_tool_looks(home, skep, warm):
    places = "~/.npm/_cacache/index-v5 ~/.cache/pip/http ~/.cache/uv/archive-v0 ~/.cargo/registry/cache ~/go/pkg/mod/cache/download ~/.cache/go-build ~/.m2/repository"
    r = skep("run", "--", *SHELL, f"for d in {places}; do cat $d/a; done; grep -rs hunter2 ~ {warm}; ls -A ~ | tr '\\n' ' '").ok()
    assert r.out.split() == ["good"] * 7 + [".cache", ".cargo", ".m2", ".npm", "go"]
    sid = home.new()
    kinds = [m["dst"] for m in home.show(sid)["mounts"] if m["kind"] == "cache"]
    assert len(kinds) == 7 and all(d.startswith("/home/skep/") for d in kinds)
    assert "package cache" in skep("show", sid).ok().out


def test_no_path_of_the_host_is_told(home, skep, warm):
    r = skep("run", "--workspace-path", "/w", "--", "cat", "/proc/self/mountinfo").ok()
    assert r.out.count("cache-home-skep") >= 7 and warm not in r.out and home.top not in r.out


def test_nobody_poisons_anybody(home, skep, warm):
    before = hashes(home)
    bad = "echo evil > ~/.npm/_cacache/index-v5/a; rm ~/.cache/pip/http/a; echo evil > ~/.cache/pip/new; mv ~/.cargo/registry/cache/a ~/.cargo/registry/cache/b; chmod 777 ~/.m2/repository; true"
    look = "cat ~/.npm/_cacache/index-v5/a ~/.cache/pip/http/a ~/.cargo/registry/cache/a; ls ~/.cache/pip ~/.cargo/registry/cache; stat -c %a ~/.m2/repository"
    clean = skep("run", "--", *SHELL, look).ok().out
    assert clean.split() == ["good", "good", "good", "/home/skep/.cache/pip:", "http", "/home/skep/.cargo/registry/cache:", "a", "755"]
    for _ in range(6):  # also when what the last one left is used again
        skep("run", "--", *SHELL, bad).ok()
        assert skep("run", "--", *SHELL, look).ok().out == clean
    assert hashes(home) == before
    one, two = home.new(), home.new()
    skep("exec", one, "--", *SHELL, bad).ok()
    assert skep("exec", two, "--", *SHELL, look).ok().out == clean
    assert skep("exec", one, "--", "cat", "/home/skep/.npm/_cacache/index-v5/a").ok().line == "evil"


def test_what_is_written_is_kept_and_forked(home, skep, warm):
    sid = home.new()
    skep("exec", sid, "--", *SHELL, "echo mine > ~/.npm/_cacache/own").ok()
    skep("stop", sid).ok()
    assert home.show(sid)["pending"] == 0
    assert skep("exec", sid, "--", *SHELL, "cat ~/.npm/_cacache/own ~/.npm/_cacache/index-v5/a").ok().out == "mine\ngood\n"
    skep("stop", sid).ok()
    fork = skep("fork", sid).ok().line
    assert skep("exec", fork, "--", *SHELL, "cat ~/.npm/_cacache/own ~/.npm/_cacache/index-v5/a; echo more > ~/.npm/_cacache/more").ok().out == "mine\ngood\n"
    assert skep("exec", sid, "--", *SHELL, "ls ~/.npm/_cacache").ok().out.split() == ["index-v5", "own"]


def test_places_of_the_caller(home, skep):
    put(f"{home.top}/elsewhere/npm/_cacache/a", "npm\n")
    put(f"{home.top}/elsewhere/xdg/pip/a", "pip\n")
    put(f"{home.top}/elsewhere/cargo/registry/a", "cargo\n")
    put(f"{home.user_home}/.npmrc", f"# x\ncache = {home.top}/elsewhere/npm\n")
    env = {"XDG_CACHE_HOME": f"{home.top}/elsewhere/xdg", "CARGO_HOME": f"{home.top}/elsewhere/cargo"}
    r = skep("run", "--", *SHELL, "cat ~/.npm/_cacache/a ~/.cache/pip/a ~/.cargo/registry/a", env=env)
    assert r.ok().out.split() == ["npm", "pip", "cargo"]


def test_off_and_odd(home, skep, warm):
    shutil.rmtree(f"{warm}/.npm/_cacache")
    os.symlink("/etc", f"{warm}/.npm/_cacache")  # not ours, or no directory: not shown
    assert skep("run", "--", *SHELL, "ls -A ~/.npm 2>/dev/null | wc -l").ok().line == "0" or os.getuid() == 0
    os.unlink(f"{warm}/.npm/_cacache")
    sid = home.new()
    shutil.rmtree(f"{warm}/.m2")  # one that goes away is missed by nobody
    assert skep("exec", sid, "--", *SHELL, "rm -rf ~/go; ln -s /etc ~/go 2>/dev/null; cat ~/.cache/pip/http/a").ok().line == "good"
    skep("stop", sid).ok()
    skep("exec", sid, "--", "true").ok()
    put(f"{warm}/.config/skep/config.yaml", "caches: off\n")
    assert skep("run", "--", *SHELL, "ls -A ~ | wc -l").ok().line == "0"
    put(f"{warm}/.config/skep/config.yaml", "caches: maybe\n")
    skep("run", "--", "true").fails(125, "config.yaml", "on or off")
    os.unlink(f"{warm}/.config/skep/config.yaml")
