# SPDX-License-Identifier: Apache-2.0
"""MCP as others speak it: the protocol's conformance suite, its inspector and client libraries, and real agents."""
import json
import os
import re
import subprocess
import sys

import pytest
from kit import wait_for

HERE = os.path.dirname(os.path.abspath(__file__))


class Fixture:
    """skepd's MCP surface with the conformance suite's tables behind it."""

    def __init__(self, programs, d):
        self.p = subprocess.Popen([f"{programs}/skep-mcp-fixture", f"{d}/sock", f"{d}/port"])
        wait_for(lambda: os.path.exists(f"{d}/port") or self.p.poll() is not None, why="the fixture")
        with open(f"{d}/port", encoding="ascii") as f:
            self.url = f"http://{f.read()}/mcp"

    def close(self):
        self.p.kill()
        self.p.wait()


def required(packages, revision):
    """The scenarios that a revision scores for servers."""
    with open(f"{packages}/node_modules/@modelcontextprotocol/conformance/requirements/{revision}.yaml", encoding="utf-8") as f:
        part = re.search(r"^server:\n((?:[ #].*\n|\n)*)", f.read(), re.M).group(1)
    return set(re.findall(r"^ +- ([\w/-]+)$", part, re.M))


@pytest.mark.parametrize("revision,count", [("2025-11-25", 30), ("2026-07-28", 37)])
def test_conformance(programs, packages, tmp_path, revision, count):
    want = required(packages, revision)
    assert len(want) == count
    fixture = Fixture(programs, tmp_path)
    try:
        r = subprocess.run([f"{packages}/node", f"{packages}/node_modules/@modelcontextprotocol/conformance/dist/index.js", "server", "--url", fixture.url, "--requirements", revision, "-o", f"{tmp_path}/out"],
                           cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    finally:
        fixture.close()
    assert r.returncode == 0, r.stdout[-4000:] + r.stderr[-2000:]
    passed = set()
    for d in os.listdir(f"{tmp_path}/out"):
        name = re.sub(r"-20\d\d-\d\d-\d\dT.*$", "", d.removeprefix("server-"))
        with open(f"{tmp_path}/out/{d}/checks.json", encoding="utf-8") as f:
            bad = [c for c in json.load(f) if c["status"] in ("FAILURE", "WARNING")]
        if not bad:
            passed.add(name)
        elif name in want:
            pytest.fail(f"{name}: {bad}")
    assert want <= passed, want - passed


def serve(home):
    token = home.skep("token", "new", "--scope", "run").ok().line
    at = home.skep("serve", "--listen", "127.0.0.1:0", "-d", "--json").json()
    return token, at["url"] + "/mcp"


def check_seen(seen, version):
    assert seen.get("version") in (version, None), seen
    assert seen["text"] == "hello\nthere\n" and seen["edited"] == 1
    assert [(h["path"], h["line"]) for h in seen["hits"]] == [("dir/hello.txt", 2)]
    assert seen["run"]["exit_code"] == 7 and seen["run"]["stdout"] == "2\n"
    assert seen["progress"] and seen["progress"] == sorted(set(seen["progress"]))
    assert seen["omitted"] > 200000 and seen["resource"] == "3\n4\n5\n" and seen["templates"] == 2
    assert seen["refused"][0] is True and "read it again" in seen["refused"][1]
    assert seen["cancelled"] is True and seen["left"] == []


V1, V2_LEGACY, V2_MODERN = ("v1", "legacy", "2025-11-25"), ("v2", "legacy", "2025-11-25"), ("v2", "auto", "2026-07-28")


@pytest.mark.parametrize("which,way", [(V1, "stdio"), (V1, "http"), (V2_LEGACY, "stdio"), (V2_LEGACY, "http"), (V2_MODERN, "stdio"), (V2_MODERN, "http"), (V2_MODERN, "remote")])
def test_client_library(home, project, packages, which, way):
    kind, era, version = which
    env = {**home.env}
    target = [f"{home.programs}/skep", "mcp", "--new"]
    if way != "stdio":
        env["TOKEN"], url = serve(home)
        target = [url]
    if way == "remote":  # the bridge, to a skepd that it can only reach by TCP
        env["SKEP_HOST"], env["SKEP_TOKEN"] = url.removesuffix("/mcp"), env["TOKEN"]
        target = [f"{home.programs}/skep", "mcp"]
    r = subprocess.run([f"{packages}/node", f"{HERE}/mcp_client.mjs", packages, kind, era, *target], cwd=project, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert r.returncode == 0, r.stdout[-2000:] + r.stderr[-3000:]
    seen = json.loads(r.stdout)
    check_seen(seen, version)
    assert ("sandbox_create" in seen["tools"]) == (way != "stdio")
    assert not os.path.exists(f"{project}/dir")
    if way == "stdio":
        assert home.show(seen["run"]["sandbox"])["state"] == "stopped"  # kept: changes are pending


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("way", ["stdio", "http"])
def test_inspector(home, project, packages, era, way):
    target, more = ["-e", f"SKEP_HOME={home.skep_home}", f"{home.programs}/skep", "mcp"], []
    if way == "http":
        token, url = serve(home)
        target, more = [url], ["--header", f"Authorization: Bearer {token}"]

    def inspect(*args):
        r = subprocess.run([f"{packages}/node", f"{packages}/node_modules/.bin/mcp-inspector", "--cli", "--protocol-era", era, "--format", "json", "-q", *target, *more, *args],
                           cwd=project, env=home.env, capture_output=True, text=True, timeout=120, check=False)
        return r.returncode, r.stdout, r.stderr

    rc, out, err = inspect("--method", "tools/list", "--strict")
    assert rc == 0, out[-2000:] + err[-2000:]
    assert '"run_poll"' in out and "error" not in err.lower(), err
    sid = home.new("--empty")
    rc, out, err = inspect("--method", "tools/call", "--tool-name", "run", "--tool-arg", f"sandbox={sid}", "command=echo inspected", "timeout_ms=5000")
    assert rc == 0 and "inspected" in out, out + err
    rc, out, err = inspect("--method", "tools/call", "--tool-name", "read", "--tool-arg", f"sandbox={sid}", "path=nothing")
    assert rc == 5 and "No such file" in out, (rc, out, err)


class Model:
    """The scripted model on loopback."""

    def __init__(self, d, script):
        with open(f"{d}/script.json", "w", encoding="utf-8") as f:
            json.dump(script, f)
        self.p = subprocess.Popen([sys.executable, f"{HERE}/model.py", f"{d}/script.json", f"{d}/port"])
        wait_for(lambda: os.path.exists(f"{d}/port") or self.p.poll() is not None, why="the model")
        with open(f"{d}/port", encoding="ascii") as f:
            self.url = f"http://127.0.0.1:{int(f.read())}"

    def close(self):
        self.p.kill()
        self.p.wait()


def run_agent(home, agents, agent, url, *more, env=None):
    here = {**home.env, "PATH": f"{agents}/node_modules/.bin:{os.path.dirname(os.popen('command -v node').read().strip())}:{home.env['PATH']}", "IS_SANDBOX": "1", "ANTHROPIC_API_KEY": "sk-none", "OPENAI_API_KEY": "sk-none", "ANTHROPIC_BASE_URL": url,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", **(env or {})}
    provider = f'model_providers.scripted={{name="scripted",base_url="{url}/v1",env_key="OPENAI_API_KEY",wire_api="responses"}}'
    argv = {
        "claude": ["claude", "-p", "do the task", "--output-format", "json", *more],
        "codex": ["codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-c", "model_provider=scripted", "-c", provider, "-c", "model=gpt-5-codex", "do the task"],
    }[agent]
    return subprocess.run(argv, cwd=home.dir, env=here, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_agent_uses_the_tools(home, project, agents, tmp_path, agent):
    """With the configuration that skep init writes; the agent itself runs on the host and only its tools reach inside."""
    script = [{"tool": "write", "input": {"path": "README", "content": "edited by the agent\n"}}, {"tool": "run", "input": {"command": "make -s test && echo tested > tested.txt"}},
              {"tool": "read", "input": {"path": "tested.txt"}}, {"text": "all done"}]
    model = Model(str(tmp_path), script)
    try:
        home.skep("init", "--agent", agent).ok()
        r = run_agent(home, agents, agent, model.url, "--mcp-config", ".mcp.json", "--strict-mcp-config", "--allowedTools", "mcp__skep__run,mcp__skep__write,mcp__skep__read")
    finally:
        model.close()
    assert r.returncode == 0 and "all done" in r.stdout, r.stdout[-2000:] + r.stderr[-2000:]
    (box,) = home.ps()
    assert home.skep("exec", box["id"], "--", "cat", "README", "tested.txt").ok().out == "edited by the agent\ntested\n"
    with open(f"{project}/README", encoding="utf-8") as f:
        assert f.read() == "a small project\n"
    assert not os.path.exists(f"{project}/tested.txt")


def test_claude_shell_is_wrapped(home, project, agents, tmp_path):
    script = [{"sh": "echo one > made.txt; pwd"}, {"sh": "cat made.txt; exit 3"}, {"text": "all done"}]
    model = Model(str(tmp_path), script)
    try:
        home.skep("init", "--wrap").ok()
        with open(f"{project}/.claude/settings.local.json", encoding="utf-8") as f:
            prefix = json.load(f)["env"]["CLAUDE_CODE_SHELL_PREFIX"]
        r = run_agent(home, agents, "claude", model.url, "--permission-mode", "acceptEdits", "--allowedTools", "Bash", env={"CLAUDE_CODE_SHELL_PREFIX": prefix})
    finally:
        model.close()
    assert r.returncode == 0 and "all done" in r.stdout, r.stdout[-2000:] + r.stderr[-2000:]
    (box,) = home.ps()  # one for both commands
    assert home.skep("exec", box["id"], "--", "cat", "made.txt").ok().line == "one"
    assert not os.path.exists(f"{project}/made.txt")
    runs = [e for e in home.journal(box["id"]) if e["type"] == "exec.exit"]
    assert len(runs) >= 2 and any(e["status"] == 3 for e in runs)
