# SPDX-License-Identifier: Apache-2.0
"""skep init: entries in other programs' files. skep wrap: an agent's commands in the sandbox of its place."""
import json
import os
import subprocess
import tomllib

FILES = {"claude": ".mcp.json", "cursor": ".cursor/mcp.json", "gemini": ".gemini/settings.json", "qwen": ".qwen/settings.json", "opencode": "opencode.json"}


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def put(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def test_entries(home, project):
    codex = f"{home.user_home}/.codex/config.toml"
    home.skep("init").fails(3, "--agent")
    put(f"{project}/.gemini/settings.json", '// mine\n{\n\t"theme": "dark", // yes\n\t"mcpServers": {\n\t\t"other": {\n\t\t\t"command": "x",\n\t\t},\n\t},\n}\n')
    put(f"{project}/.mcp.json", '{"mcpServers":{"a":{"command":"b"}}}')
    put(codex, 'model = "m"\n\n[mcp_servers.other]\ncommand = "y"\n')
    before = {p: read(p) for p in (f"{project}/.gemini/settings.json", f"{project}/.mcp.json", codex)}
    said = home.skep("init").ok().out  # those that are there
    assert [x.split()[0] for x in said.splitlines()] == ["claude", "codex", "gemini"]
    home.skep("init", "--agent", "all").ok()
    args = ["mcp", "--new"]
    for agent in ("claude", "cursor", "qwen"):
        entry = json.loads(read(f"{project}/{FILES[agent]}"))["mcpServers"]["skep"]
        assert entry["command"] == "skep" and entry["args"] == args and entry["env"] == {"SKEP_HOME": home.skep_home}
    assert json.loads(read(f"{project}/opencode.json"))["mcp"]["skep"]["command"] == ["skep", *args]
    assert json.loads(read(f"{project}/.mcp.json"))["mcpServers"]["a"] == {"command": "b"}
    config = tomllib.loads(read(codex))
    assert config["model"] == "m" and config["mcp_servers"]["other"]["command"] == "y" and config["mcp_servers"]["skep"]["args"] == args
    gemini = read(f"{project}/.gemini/settings.json")
    assert "// mine" in gemini and "// yes" in gemini and '"skep"' in gemini
    # again: the same; with arguments: only those change, and what a user added stays
    every = {p: read(p) for p in [codex, *(f"{project}/{f}" for f in FILES.values())]}
    assert "as it should be" in home.skep("init", "--agent", "all").ok().out
    assert every == {p: read(p) for p in every}
    put(f"{project}/.cursor/mcp.json", every[f"{project}/.cursor/mcp.json"].replace('"command": "skep"', '"command": "skep", "mine": 1'))
    home.skep("init", "--agent", "all", "--", "--net", "registries").ok()
    entry = json.loads(read(f"{project}/.cursor/mcp.json"))["mcpServers"]["skep"]
    assert entry["mine"] == 1 and entry["args"] == [*args, "--net", "registries"]
    assert tomllib.loads(read(codex))["mcp_servers"]["skep"]["args"] == [*args, "--net", "registries"]
    # and out again
    home.skep("init", "--agent", "all", "--remove").ok()
    assert "not there" in home.skep("init", "--agent", "all", "--remove").ok().out
    assert read(codex) == before[codex] and json.loads(read(f"{project}/.mcp.json")) == json.loads(before[f"{project}/.mcp.json"])
    assert not os.path.exists(f"{project}/opencode.json") and not os.path.exists(f"{project}/.qwen/settings.json")
    assert "// yes" in read(f"{project}/.gemini/settings.json") and "skep" not in read(f"{project}/.gemini/settings.json")


def test_files_of_others_are_left_alone(home, project):
    for text in ("[1]", "{", "not json", '{"mcp": 5}', '{"mcp": {}} x'):
        put(f"{project}/opencode.json", text)
        r = home.skep("init", "--agent", "opencode")
        assert r.rc != 0 and "left alone" in r.out
        assert read(f"{project}/opencode.json") == text
    put(f"{home.user_home}/.codex/config.toml", 'mcp_servers = { skep = { command = "x" } }\n')
    assert "left alone" in home.skep("init", "--agent", "codex").out
    assert read(f"{home.user_home}/.codex/config.toml") == 'mcp_servers = { skep = { command = "x" } }\n'
    # through a link, with the mode it has
    put(f"{home.top}/real.json", "{}")
    os.chmod(f"{home.top}/real.json", 0o600)
    os.symlink(f"{home.top}/real.json", f"{project}/.mcp.json")
    home.skep("init", "--agent", "claude").ok()
    assert os.path.islink(f"{project}/.mcp.json") and "skep" in read(f"{home.top}/real.json")
    assert os.stat(f"{home.top}/real.json").st_mode & 0o777 == 0o600
    shown = home.skep("init", "--agent", "qwen", "--print").ok().out
    assert shown.startswith("# .qwen/settings.json\n") and not os.path.exists(f"{project}/.qwen")
    home.skep("init", "--agent", "gemini", "--user").ok()
    assert "skep" in read(f"{home.user_home}/.gemini/settings.json") and not os.path.exists(f"{project}/.gemini")
    home.skep("init", "--agent", "nobody").fails(2, "claude|codex")
    home.skep("init", "word").fails(2, "--")


def test_wrap(home, project):
    one, two = {"SKEP_SESSION": "one"}, {"SKEP_SESSION": "two"}
    r = home.skep("wrap", "cat README; echo made > w.txt; echo e >&2; exit 4", env=one)
    assert (r.rc, r.out, r.err) == (4, "a small project\n", "e\n")
    r = home.skep("wrap", "--", "sh", "-c", 'cat w.txt; cat; echo "$1"', "sh", "a b", env=one, stdin=b"from here\n").ok()
    assert r.out == "made\nfrom here\na b\n"
    assert home.skep("wrap", "cat w.txt", env=two).rc != 0  # another conversation, another sandbox
    assert len(home.ps()) == 2 and not os.path.exists(f"{project}/w.txt")
    # by its other name, from a directory below
    os.makedirs(f"{project}/.git", exist_ok=True)
    os.makedirs(f"{project}/below", exist_ok=True)
    name = f"{home.top}/skep-wrap"
    os.symlink(f"{home.programs}/skep", name)
    r = subprocess.run([name, "pwd; echo $0"], cwd=f"{project}/below", env={**home.env, **one}, capture_output=True, text=True, timeout=60, check=False)
    assert r.returncode == 0 and r.stdout.splitlines()[0] == f"{project}/below", r.stderr
    assert home.skep("wrap", "nonexistent-command", env=one).rc == 127
    home.skep("wrap").fails(2, "missing")
