# SPDX-License-Identifier: Apache-2.0
"""Real coding agents edit a file in a cell. Only the model is scripted; it runs in the same cell, on its loopback."""
import json
import os
import shlex
import shutil

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
WANT = "edited by the agent\n"
SERVE = "python3 {dir}/model.py {dir}/script.json /tmp/port & while [ ! -s /tmp/port ]; do sleep 0.05; done; url=http://127.0.0.1:$(cat /tmp/port)"
CLAUDE = "ANTHROPIC_BASE_URL=$url ANTHROPIC_API_KEY=sk-none CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1 claude -p 'edit the README' --output-format json --permission-mode acceptEdits --allowedTools Bash,Write,Read </dev/null"
CODEX = "KEY=x codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -c model_provider=scripted -c 'model_providers.scripted={name=\"scripted\",base_url=\"'$url'/v1\",env_key=\"KEY\",wire_api=\"responses\"}' -c model=gpt-5-codex 'edit the README' </dev/null"


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


@pytest.mark.parametrize("agent", ["claude", "codex"])
@pytest.mark.parametrize("profile", [[], ["--root"]], ids=["default", "root"])
def test_agent_edits_a_file(home, project, agents, agent, profile):
    kit = f"{home.top}/kit"
    os.mkdir(kit)
    shutil.copy(f"{HERE}/model.py", kit)
    # an agent overwrites only what it has read
    steps = [{"read": f"{project}/README"}, {"write": [f"{project}/README", WANT]}, {"sh": "make -s test && echo tested > tested.txt"}, {"text": "all done"}]
    with open(f"{kit}/script.json", "w", encoding="utf-8") as f:
        json.dump(steps, f)
    # Claude Code asks for this as uid 0 when permissions are skipped; harmless otherwise
    sid = home.new(*profile, *tool_mounts(agents), "--mount", f"{kit}:{kit}:ro", "--env", "IS_SANDBOX=1")
    command = SERVE.format(dir=shlex.quote(kit)) + "; " + {"claude": CLAUDE, "codex": CODEX}[agent]
    r = home.skep("exec", "--timeout", "120s", sid, "--", "bash", "-c", command + "; status=$?; kill %1; exit $status", timeout=180)
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
