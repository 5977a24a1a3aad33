# SPDX-License-Identifier: Apache-2.0
"""Real coding agents edit a file in a cell. Only the model is scripted; it runs in the same cell, on its loopback, or on
the host, where only the gate leads to it."""
import json
import os
import shlex
import shutil
import subprocess
import sys

import pytest
from kit import wait_for
from tls_kit import Authority, believe, set_secret

HERE = os.path.dirname(os.path.abspath(__file__))
WANT = "edited by the agent\n"
SERVE = "python3 {dir}/model.py {dir}/script.json /tmp/port & while [ ! -s /tmp/port ]; do sleep 0.05; done; url=http://127.0.0.1:$(cat /tmp/port)"
CLAUDE = "ANTHROPIC_BASE_URL=$url CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1 claude -p 'edit the README' --output-format json --permission-mode acceptEdits --allowedTools Bash,Write,Read </dev/null"
CODEX = "codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -c model_provider=scripted -c 'model_providers.scripted={name=\"scripted\",base_url=\"'$url'/v1\",env_key=\"OPENAI_API_KEY\",wire_api=\"responses\"}' -c model=gpt-5-codex 'edit the README' </dev/null"


def tool_mounts(agents):
    """The agents, and node where it is not part of the system directories."""
    flags = ["--mount", f"{agents}:{agents}:ro"]
    node = shutil.which("node")
    assert node, "node is missing: tools/deps test"
    where = os.path.dirname(os.path.dirname(os.path.realpath(node)))
    path = f"{agents}/node_modules/.bin:{os.path.dirname(node)}:/usr/local/bin:/usr/bin:/bin"
    if not where.startswith("/usr"):
        flags += ["--mount", f"{where}:{where}:ro"]
        path = f"{where}/bin:{path}"
    return [*flags, "--env", f"PATH={path}"]


def steps(project):
    # an agent overwrites only what it has read
    return [{"read": f"{project}/README"}, {"write": [f"{project}/README", WANT]}, {"sh": "make -s test && echo tested > tested.txt"}, {"text": "all done"}]


def check_work(home, sid, project, agent, r):
    said = r.out[-3000:] + r.err[-3000:]
    assert r.rc == 0, said
    # an agent may end well although its tool failed: only the file tells
    assert home.skep("exec", sid, "--", "cat", "README").ok().out == WANT, said
    assert home.skep("exec", sid, "--", "cat", "tested.txt").ok().line == "tested", said
    with open(f"{project}/README", encoding="utf-8") as f:
        assert f.read() == "a small project\n"
    assert not os.path.exists(f"{project}/tested.txt")
    assert any(agent in str(e.get("argv")) for e in home.journal(sid) if e["type"] == "proc.exec")
    home.skep("log", sid, "--verify").ok()


@pytest.mark.parametrize("agent", ["claude", "codex"])
@pytest.mark.parametrize("profile", [[], ["--root"]], ids=["default", "root"])
def test_agent_edits_a_file(home, project, agents, agent, profile):
    kit = f"{home.top}/kit"
    os.mkdir(kit)
    shutil.copy(f"{HERE}/model.py", kit)
    with open(f"{kit}/script.json", "w", encoding="utf-8") as f:
        json.dump(steps(project), f)
    # Claude Code asks for this as uid 0 when permissions are skipped; harmless otherwise
    sid = home.new(*profile, *tool_mounts(agents), "--mount", f"{kit}:{kit}:ro", "--env", "IS_SANDBOX=1", "--env", "ANTHROPIC_API_KEY=sk-none", "--env", "OPENAI_API_KEY=sk-none")
    command = SERVE.format(dir=shlex.quote(kit)) + "; " + {"claude": CLAUDE, "codex": CODEX}[agent]
    r = home.skep("exec", "--timeout", "120s", sid, "--", "bash", "-c", command + "; status=$?; kill %1; exit $status", timeout=180)
    check_work(home, sid, project, agent, r)


class Model:
    """The scripted model on the host, behind TLS."""

    def __init__(self, d, script, authority):
        with open(f"{d}/script.json", "w", encoding="utf-8") as f:
            json.dump(script, f)
        self.log = f"{d}/log"
        self.p = subprocess.Popen([sys.executable, f"{HERE}/model.py", f"{d}/script.json", f"{d}/port", self.log, *authority.leaf("model.test")])
        wait_for(lambda: os.path.exists(f"{d}/port") or self.p.poll() is not None, why="the model")
        with open(f"{d}/port", encoding="ascii") as f:
            self.port = int(f.read())

    @property
    def requests(self):
        with open(self.log, encoding="utf-8") as f:
            return [json.loads(x) for x in f]

    def close(self):
        self.p.kill()
        self.p.wait()


@pytest.mark.parametrize("agent,name,how", [("claude", "ANTHROPIC_API_KEY", "header:x-api-key"), ("codex", "OPENAI_API_KEY", "bearer")])
def test_agent_reaches_its_model_through_the_gate(home, project, agents, tmp_path, agent, name, how):
    key = "sk-real-0123456789abcdef-key"
    authority = Authority(str(tmp_path))
    believe(home, authority.pem)
    model = Model(str(tmp_path), steps(project), authority)
    try:
        place = f"model.test:{model.port}"
        set_secret(home, name, key, place, how).ok()
        sid = home.new(*tool_mounts(agents), "--env", "IS_SANDBOX=1", "--secret", name, "--allow", f"{place}=127.0.0.1")
        command = f"url=https://{place}; " + {"claude": CLAUDE, "codex": CODEX}[agent]
        r = home.skep("exec", "--timeout", "120s", sid, "--", "bash", "-c", command, timeout=180)
        check_work(home, sid, project, agent, r)
        # what the model was given is the key; what the agent had is a placeholder, and nothing inside has more
        given = {str(v) for q in model.requests for k, v in q["fields"] if k.lower() in ("x-api-key", "authorization")}
        assert given == {key if agent == "claude" else f"Bearer {key}"}, given
        mark = home.skep("exec", sid, "--", "sh", "-c", f"printf %s ${name}").ok().out
        assert mark.startswith(f"skep_{name}_") and not any(mark in str(q["fields"]) for q in model.requests)
        assert home.skep("exec", sid, "--", "sh", "-c", f"grep -rlsF {key[:20]} $HOME /tmp /run /.skep . /proc/[0-9]*/environ; true").ok().out == ""
        assert any(e["secret"] == name for e in home.journal(sid) if e["type"] == "secret.used")
        assert key not in json.dumps(home.journal(sid))
        # the control: without the gate's leave the same agent has no model
        home.skep("policy", "set", sid, "--deny", place).ok()
        before = len(model.requests)
        r = home.skep("exec", "--timeout", "5s", sid, "--", "bash", "-c", command, timeout=60)
        assert r.rc != 0 and len(model.requests) == before
    finally:
        model.close()


# Of each agent: its key, how a request carries it, a host of its preset, options of the run, its own words. @MODEL is the model's address.
PRESETS = {
    "claude": ("ANTHROPIC_API_KEY", "header:x-api-key", "api.anthropic.com",
               ["--env", "ANTHROPIC_BASE_URL=@MODEL", "--env", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"],
               ["-p", "edit the README", "--output-format", "json", "--permission-mode", "acceptEdits", "--allowedTools", "Bash,Write,Read"]),
    "codex": ("OPENAI_API_KEY", "bearer", "api.openai.com",
              ["--deny", "chatgpt.com"],  # asked for news at every start
              ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-c", "model_provider=scripted", "-c",
               'model_providers.scripted={name="scripted",base_url="@MODEL/v1",env_key="OPENAI_API_KEY",wire_api="responses"}',
               "-c", "model=gpt-5-codex", "edit the README"]),
}


@pytest.mark.parametrize("agent", PRESETS)
def test_preset_runs_the_agent(home, project, agents, tmp_path, agent):
    """`skep run claude -p …`: network, sealed key and kept directory come by the agent's name; only its model is another one."""
    name, how, host, options, words = PRESETS[agent]
    key = "sk-real-0123456789abcdef-key"
    authority = Authority(str(tmp_path))
    believe(home, authority.pem)
    model = Model(str(tmp_path), steps(project), authority)
    try:
        place = f"model.test:{model.port}"
        set_secret(home, name, key, place, how).ok()
        argv = [*options, *tool_mounts(agents), "--name", "agent", "--timeout", "120s", "--allow", f"{place}=127.0.0.1", agent, *words]
        r = home.skep("run", *(w.replace("@MODEL", f"https://{place}") for w in argv), timeout=180)
        check_work(home, "agent", project, agent, r)
        assert host in home.skep("policy", "show", "agent").ok().out
        given = {str(v) for q in model.requests for k, v in q["fields"] if k.lower() in ("x-api-key", "authorization")}
        assert given == {key if agent == "claude" else f"Bearer {key}"}, given
        kept = f"{home.user_home}/.local/share/skep/agents/{agent}"  # an ordinary user's runs share it
        assert os.path.isdir(kept) == (os.getuid() != 0)
        assert os.getuid() == 0 or os.listdir(kept)
        assert subprocess.run(["grep", "-rlsF", key[:20], kept], stdout=subprocess.PIPE, check=False).stdout == b""
    finally:
        model.close()
