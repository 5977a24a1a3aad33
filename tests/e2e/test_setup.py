# SPDX-License-Identifier: Apache-2.0
"""Setup commands: run once per key, in a sandbox of their own; what they made is every later sandbox's base."""
import http.server
import os
import subprocess
import threading
import time

import pytest

from kit import find_procs, wait_for
from test_faults import restart

SHELL = ("sh", "-c")
STAMP = "head -c 9 /dev/urandom | od -An -tx1 > made"  # who runs it anew makes something else


def write(home, path, text):
    full = f"{home.dir}/{path}"
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w", encoding="utf-8") as f:
        f.write(text)


def project(home, text):
    write(home, ".skep.yaml", text)


@pytest.fixture(autouse=True)
def thrown_away(home, skep):
    """Setup layers are derived: where there is no room for them they go."""
    yield
    nothing_left(home)  # one that failed stays a second, for its output to be read
    home.stop_all()
    os.makedirs(f"{home.user_home}/.config/skep", exist_ok=True)
    with open(f"{home.user_home}/.config/skep/config.yaml", "w", encoding="ascii") as f:
        f.write("disk_budget: 1\n")
    skep("gc").ok()
    os.unlink(f"{home.user_home}/.config/skep/config.yaml")


def nothing_left(home):
    """Of the setups' own sandboxes."""
    wait_for(lambda: home.api("GET", "/v1/version")[0] == 200 and not setups(home), why="the setup's sandbox to go")


def setups(home):
    named = {s["id"] for s in home.ps()}
    return [d for d in os.listdir(f"{home.skep_home}/sandboxes") if d not in named and os.path.getsize(f"{home.skep_home}/sandboxes/{d}/journal")]


def test_runs_once_and_is_shown(home, skep):
    project(home, f"env: {{N: prod}}\nsetup:\n  - echo first $N; {STAMP}\n  - echo second >&2; echo tool > ~/tool\n")
    r = skep("run", "--", *SHELL, "cat made ~/tool").ok()
    lines = r.err.splitlines()[:4]  # of two streams, which have no common order
    assert "first prod" in lines
    lines.remove("first prod")
    assert lines[0].startswith("setup 1/2: echo first") and lines[1:] == ["setup 2/2: echo second >&2; echo tool > ~/tool", "second"]
    again = skep("run", "--", *SHELL, "cat made ~/tool").ok()
    assert again.out == r.out and again.err == ""
    sid = home.new()
    assert skep("exec", sid, "--", *SHELL, "cat made; echo more >> made").ok().out == r.out.replace("tool\n", "")
    skep("stop", sid).ok()
    assert home.show(sid)["pending"] == 1  # only what it did itself
    assert len(home.show(sid)["project"]["setup_key"]) == 64
    assert skep("run", "--", "cat", "made").ok().out == r.out.replace("tool\n", "")
    assert not os.path.exists(f"{home.dir}/made")
    assert len(home.ps()) == 1
    home.kill_skepd()  # it is found again
    assert skep("run", "--", *SHELL, "cat made ~/tool").ok().out == r.out
    assert skep("run", "--no-setup", "--", "cat", "made").rc == 1


def test_another_key_another_layer(home, skep):
    write(home, "package-lock.json", "one\n")
    write(home, "other", "one\n")
    project(home, f"setup: {STAMP}\n")
    made = lambda *a: skep("run", *a, "--", "cat", "made").ok().out
    first = made()
    write(home, "other", "two\n")
    assert made() == first
    write(home, "package-lock.json", "two\n")
    second = made()
    assert second != first
    write(home, "package-lock.json", "one\n")
    assert made() == first
    assert made("--workspace-path", "/w") != first
    project(home, f"setup: {{run: {STAMP}, files: [other, sub/absent]}}\n")
    third = made()
    assert third not in (first, second)
    write(home, "package-lock.json", "three\n")
    assert made() == third
    write(home, "sub/absent", "x\n")
    assert made() != third
    other = f"{home.top}/q"  # another repository with the same words
    os.makedirs(other)
    for f in (".skep.yaml", "other"):
        with open(f"{home.dir}/{f}", encoding="ascii") as a, open(f"{other}/{f}", "w", encoding="ascii") as b:
            b.write(a.read())
    assert skep("run", "--", "cat", "made", cwd=other).ok().out not in (first, second, third)


def test_many_ask_and_one_runs(home, skep):
    project(home, f"setup: [{STAMP}, sleep 1]\n")
    skep("ps").ok()
    runs = [home.popen("run", "--", "cat", "made") for _ in range(5)]
    status, answer = home.api("POST", "/v1/sandboxes", {"cwd": home.dir}, timeout=60)  # without being told: it waits
    assert status == 201 and answer["project"]["setup_key"]
    outs = [p.communicate(timeout=60) for p in runs]
    assert all(p.returncode == 0 for p in runs), outs
    assert len({o for o, _ in outs}) == 1 and outs[0][0]


def test_a_failing_setup_leaves_nothing(home, skep):
    project(home, "setup: [echo fine, 'echo broken >&2; exit 3', touch never]\n")
    r = skep("new")
    assert r.rc == 1 and r.out == ""
    # two streams: which of them is read first is nobody's promise
    assert set(r.err.splitlines()[:4]) == {"setup 1/3: echo fine", "fine", "setup 2/3: echo broken >&2; exit 3", "broken"}
    assert "status 3" in r.err and "--no-setup" in r.err and "never" not in r.err
    assert skep("run", "--", "true").rc == 125
    status, answer = home.api("POST", "/v1/sandboxes", {"cwd": home.dir}, timeout=30)
    assert status == 409 and "broken" in answer["error"]["message"]
    assert home.ps() == []
    nothing_left(home)
    wait_for(lambda: not [n for n in os.listdir(f"{home.skep_home}/layers") if n[0] != "."], why="its layer to go")
    skep("run", "--no-setup", "--", "true").ok()
    project(home, "setup: ['true']\n")
    skep("run", "--", "true").ok()


def test_only_what_it_added_is_shared(home, skep):
    """What the host does to its own files is seen, whatever a setup once did to them."""
    git = ["git", "-C", home.dir, "-c", "user.name=a", "-c", "user.email=a@b.test"]
    write(home, "tracked", "one\n")
    write(home, "gone", "here\n")
    write(home, "dir/f", "f\n")
    project(home, "setup: ['echo setup > tracked; rm gone; rm -r dir; mkdir dir; echo n > dir/new; echo x > .git/marker; echo new > added; git status']\n")
    for args in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *args], check=True, env=home.env)
    look = "cat tracked gone dir/f dir/new added; ls .git/marker 2>/dev/null; git status --short"
    assert skep("run", "--", *SHELL, look).ok().out.split("\n")[:6] == ["one", "here", "f", "n", "new", "?? added"]
    write(home, "tracked", "two\n")
    subprocess.run([*git, "commit", "-qam", "y"], check=True, env=home.env)
    assert skep("run", "--", *SHELL, look).ok().out.split("\n")[:6] == ["two", "here", "f", "n", "new", "?? added"]


def test_root_and_its_system(home, skep):
    project(home, "setup: ['id -u > /usr/local/made-by; mkdir -p /opt/x']\n")
    r = skep("run", "--root", "--", *SHELL, "cat /usr/local/made-by; ls -d /opt/x")
    if r.rc == 125 and "subordinate" in r.err:
        pytest.skip(r.err)
    assert r.ok().out.split() == ["0", "/opt/x"]
    r = skep("run", "--root", "--", *SHELL, "cat /usr/local/made-by; touch /usr/local/more").ok()
    assert r.err == "" and r.line == "0"
    assert not os.path.exists("/usr/local/made-by")


def test_devcontainer_commands(home, skep):
    write(home, ".devcontainer/devcontainer.json", '{"onCreateCommand": "echo a > order", "postCreateCommand": {"x": ["sh", "-c", "echo b >> order"]}, "initializeCommand": "touch %s/host"}' % home.top)
    assert skep("run", "--", "cat", "order").ok().out == "a\nb\n"
    assert not os.path.exists(f"{home.top}/host")


def test_setup_has_no_network_and_no_terminal_to_ask(home, skep):
    project(home, "net: {allow: [a.test]}\nsetup: ['cat; ! curl -sS -m 5 http://a.test/ 2>/dev/null; echo closed']\n")
    r = skep("run", "--net", "none", "--", "true", stdin=b"not for the setup\n").ok()
    assert "closed" in r.err and "not for the setup" not in r.err


def test_network_of_the_setup_alone(home, skep):
    """After trust the setup reaches what its own rules say, and the sandboxes after it do not."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"got\n")

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        port = server.server_port
        project(home, f"setup: {{run: 'curl -sS -m 5 http://a.test:{port}/ > got', net: {{allow: ['a.test:{port}=127.0.0.1']}}}}\n")
        r = skep("run", "--", "cat", "got")
        assert r.rc == 125 and "status 6" in r.err  # could not resolve
        skep("trust", "--yes").ok()
        assert skep("run", "--", "cat", "got", timeout=30).ok().line == "got"
        assert skep("run", "--", "curl", "-sS", "-m", "5", f"http://a.test:{port}/").rc == 6
    finally:
        server.shutdown()
        server.server_close()


CREATE = '{"onCreateCommand": "getent hosts github.com >/dev/null && echo reached > got"}'


def test_devcontainer_that_needs_the_network(home, skep):
    """The refusal names the file and what helps; the caller's own --net counts for the setup; so does what trust gives it."""
    write(home, ".devcontainer/devcontainer.json", CREATE)
    file = f"{home.dir}/.devcontainer/devcontainer.json"
    r = skep("run", "--", "cat", "got")
    assert r.rc == 125 and all(w in r.err for w in (file, "no network", "--net registries", "skep trust --setup-net", "--no-setup")), r.err
    status, answer = home.api("POST", "/v1/sandboxes", {"cwd": home.dir}, timeout=30)
    assert status == 409 and file in answer["error"]["message"] and "no network" in answer["error"]["message"]
    assert skep("run", "--no-setup", "--", "cat", "got").rc == 1
    assert skep("run", "--allow", "github.com", "--", "cat", "got").ok().line == "reached"
    write(home, "package-lock.json", "another key\n")
    assert skep("run", "--net", "git", "--", "cat", "got").ok().line == "reached"
    assert skep("run", "--", "cat", "got").ok().line == "reached"  # what it made is for every sandbox; the network is not
    assert skep("run", "--", *SHELL, "getent hosts github.com || echo closed").ok().line == "closed"


def test_network_that_trust_gives_a_setup(home, skep):
    write(home, ".devcontainer/devcontainer.json", CREATE)
    look = lambda: skep("run", "--", *SHELL, "cat got; getent hosts github.com || echo closed")
    skep("trust", "--yes", "--setup-net", "nonsense").fails(2, "preset")
    skep("trust", "--setup-net", "git").fails(5, "not trusted")
    assert "its setup would reach: git" in skep("trust", "--yes", "--setup-net", "git").ok().out
    assert look().ok().out.split() == ["reached", "closed"]
    assert skep("trust", "--json").json()["setup_net"] == "git" and "may reach: git" in skep("trust").out
    write(home, ".devcontainer/devcontainer.json", CREATE + "\n")  # another content: not what was agreed to
    write(home, "package-lock.json", "another key\n")
    assert look().rc == 125
    skep("trust", "--yes", "--setup-net", "git").ok()
    assert look().ok().out.split() == ["reached", "closed"]
    skep("trust", "--revoke").ok()
    write(home, "package-lock.json", "a third\n")
    assert look().rc == 125


def test_secrets_are_not_for_the_setup(home, skep):
    skep("secret", "set", "TOKEN", "--host", "github.com", "--as", "bearer", stdin=b"hunter2").ok()
    project(home, "setup: ['env > seen; ls /run/secrets > files 2>/dev/null || true']\n")
    assert "TOKEN" not in skep("run", "--net", "git", "--secret", "TOKEN", "--", "cat", "seen", "files").ok().out


def test_on_a_terminal_it_offers_to_go_on(home, terminal):
    project(home, "setup: ['exit 3']\n")
    for key, status in (("y\r", 0), ("n\r", 125)):
        t = terminal("run", "--", "sh", "-c", "echo r''an")
        t.expect(r"\.skep\.yaml failed with status 3.*go on without the setup\? \[y/N\]")
        t.send(key)
        if not status:
            t.expect("ran")
        assert t.wait() == status


def test_killed_over_it(home, skep):
    """A daemon that dies meanwhile: the next one begins again."""
    marker = f"7{time.monotonic_ns() % 10**10}"
    project(home, f"setup: [{STAMP}, 'test -e ~/go || sleep {marker}']\n")
    p = home.popen("run", "--", "cat", "made")
    wait_for(lambda: find_procs(marker), why="the setup to run")
    home.kill_skepd()
    project(home, f"setup: [{STAMP}]\n")
    assert skep("run", "--", "cat", "made").ok().out
    wait_for(lambda: not find_procs(marker), why="the old setup to end")
    p.communicate(timeout=30)
    nothing_left(home)


@pytest.mark.parametrize("point", ("setup.begin", "setup.seal", "setup.keep", "setup.kept"))
@pytest.mark.parametrize("how", ("fail", "kill"))
def test_faults(home, skep, point, how):
    project(home, f"setup: {STAMP}\n")
    restart(home, f"{point}:{how}")
    r = skep("run", "--", "cat", "made")
    # who was shown the setup asks again when it is over: it hears of the failure, or the next run makes it good
    assert r.rc == 125 or (r.rc == 0 and r.out), (r.rc, r.err)
    restart(home, None)
    first = skep("run", "--", "cat", "made").ok().out
    assert first and skep("run", "--", "cat", "made").ok().out == first
    nothing_left(home)
