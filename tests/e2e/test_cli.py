# SPDX-License-Identifier: Apache-2.0
"""The command line's own contract: verbs, help, usage errors, JSON, completion, doctor."""
import json
import os
import re
import subprocess

import pytest

from kit import items

VERBS = "run new exec attach logs kill shell cp ssh code ps show start stop pause resume rm image doctor gc log".split()


def test_help_lists_every_verb(skep):
    out = skep("--help").ok().out
    words = out.split()
    assert [v for v in VERBS if v not in words] == []
    assert skep("help").rc in (0, 2)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb(skep, verb):
    r = skep(verb, "--help").ok()
    assert verb in r.out and r.err == "" and len(r.out.splitlines()) >= 2


@pytest.mark.parametrize("verb", VERBS)
def test_bad_flag(skep, verb):
    skep(verb, "--definitely-not-a-flag").fails(2, "definitely-not-a-flag")


def test_unknown_verb_and_none(skep):
    skep("no-such-verb").fails(2, "no-such-verb")
    assert "mean" not in skep("no-such-verb").err
    assert skep().rc in (0, 2)


@pytest.mark.parametrize("argv, meant", [(["rnu", "--", "true"], "skep run?"), (["image", "imprt", "x"], "skep image import?"), (["polcy"], "skep policy?"), (["help", "difff"], "skep diff?"), (["run", "--nmae", "x", "--", "true"], "--name?")])
def test_slips_of_the_finger(skep, argv, meant):
    skep(*argv).fails(2, f"did you mean {meant}")


@pytest.mark.parametrize("word, meant", [("list", "skep ps?"), ("images", "skep image ls?"), ("inspect", "skep show?"), ("delete", "skep rm?"), ("review", "skep apply -p?")])
def test_verbs_of_other_tools(skep, word, meant):
    skep(word).fails(2, f"unknown verb {word}: did you mean {meant}")


def test_options_of_other_tools(skep):
    for argv, here in ((["-it"], "nothing: a command of run has the input"), (["-v", "/x:/y"], "--mount DIR"), (["--network", "none"], "--net PRESET"), (["-p", "80:80"], "skep preview ID PORT")):
        skep("run", *argv, "--", "true").fails(2, f"unknown option {argv[0][:2] if argv[0][1] != '-' else argv[0]}: here it is {here}")
    assert "here it is" not in skep("ps", "-v").fails(2, "unknown option -v").err


def test_every_verb_of_another_tool_leads_to_one_of_ours(skep):
    """The table names verbs that exist."""
    src = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "src/cli/words.c")
    with open(src, encoding="ascii") as f:
        table = f.read().split("verbs_elsewhere[] = {")[1].split("};")[0]
    pairs = re.findall(r'\{"([a-z]+)",\s*"([a-z -]+)"\}', table)
    assert len(pairs) > 20
    for theirs, ours in pairs:
        skep(*ours.split(), "--help").ok()
        skep(theirs).fails(2, f"did you mean skep {ours}?")


def test_help_is_in_columns(skep):
    """Titles above the groups of verbs; the text of an option never runs into a wide one."""
    lines = skep("--help").ok().out.splitlines()
    assert "Run commands:" in lines and "  run             run a command in a new sandbox on the current directory" in lines
    rows = skep("run", "--help").ok().out.splitlines()
    assert "      --mount DIR[:PATH][:ro|:rw]" in rows and " " * 34 + "show a directory inside (default read-only)" in rows


def test_version(skep):
    r = skep("--version").ok()
    assert "0." in r.out and len(r.out.splitlines()) == 1


@pytest.mark.parametrize("argv", [["exec"], ["attach"], ["logs"], ["kill"], ["cp"], ["cp", "a"], ["image"], ["image", "import"], ["image", "frobnicate"], ["show", "a", "b"], ["new", "extra"]])
def test_missing_or_extra_arguments(skep, argv):
    r = skep(*argv)
    assert r.rc in (2, 3) and len([x for x in r.err.splitlines() if x]) == 1


def test_usage_errors_start_no_daemon(home, skep):
    skep("run").fails(2)
    skep("--help").ok()
    assert not os.path.exists(f"{home.skep_home}/run/skepd.sock")


def test_json_outputs_parse(home, skep, project):
    sid = home.new("--name", "j")
    skep("exec", sid, "--", "true").ok()
    items(skep("ps", "--json").json(), "sandboxes")
    skep("show", sid, "--json").json()
    items(skep("image", "ls", "--json").json(), "images")
    skep("doctor", "--json").json()
    skep("gc", "--dry-run", "--json").json()
    for line in skep("log", sid, "--json").ok().out.splitlines():
        json.loads(line)
    assert json.loads(skep("new", "--json").ok().out)["state"] == "stopped"


def test_flags_in_any_usual_form(home, skep):
    a = skep("new", "--name=eq").ok().line
    assert home.show("eq")["id"] == a
    assert skep("exec", "-e", "A=1", "-eB=2", a, "--", "sh", "-c", "echo $A$B").rc in (0, 2)


def test_doctor_text(skep):
    r = skep("doctor").ok()
    for word in ("namespace", "cgroup", "overlay", "landlock", "seccomp"):
        assert word in r.out.lower(), word


def test_doctor_plan(skep):
    out = skep("doctor", "--plan").ok().out
    assert "/usr" in out and "/proc" in out and "seccomp" in out.lower()


def test_doctor_needs_no_sandbox(home, skep):
    skep("doctor", "--json").json()
    assert home.ps() == []


@pytest.mark.slow
def test_doctor_attack(skep):
    r = skep("doctor", "--attack", timeout=300)
    assert r.rc == 0, r.out + r.err


def test_completion_bash(home, skep):
    script = skep("completion", "bash").ok().out
    p = subprocess.run(["bash", "--norc", "-c", 'eval "$1"; complete -p skep; COMP_WORDS=(skep st); COMP_CWORD=1; COMP_LINE="skep st"; COMP_POINT=7; f=$(complete -p skep | sed "s/.*-F \\([^ ]*\\).*/\\1/"); $f skep st skep; echo "${COMPREPLY[@]}"', "x", script], env=home.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=20, check=True)
    assert "complete" in p.stdout and p.stderr == ""
    assert {"start", "stop"} <= set(p.stdout.splitlines()[-1].split())
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def bash_completes(home, script, *words):
    """What TAB offers behind these words."""
    fill = 'eval "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _skep; printf "%s\\n" "${COMPREPLY[@]}"'
    p = subprocess.run(["bash", "--norc", "-c", fill, "x", script, *words], env=home.env, stdout=subprocess.PIPE, text=True, timeout=20, check=True)
    return p.stdout.split()


def test_completion_of_names_and_families(home, skep):
    sid = home.new("--name", "fix-it")
    script = skep("completion", "bash").ok().out
    assert bash_completes(home, script, "skep", "exec", "fi") == ["fix-it"]
    assert set(bash_completes(home, script, "skep", "snapshot", "")) >= {sid, "fix-it"}
    assert bash_completes(home, script, "skep", "sn") == ["snapshots", "snapshot"]
    assert bash_completes(home, script, "skep", "snapshot", "rm", "--f") == [], "no option of plain snapshot"
    assert bash_completes(home, script, "skep", "token", "") == ["new", "ls", "rm"]
    assert sorted(skep("ps", "--names").ok().out.split()) == sorted([sid, "fix-it"])


def test_completion_knows_every_verb_and_flags(skep):
    for shell in ("bash", "zsh", "fish"):
        script = skep("completion", shell).ok().out
        assert [v for v in VERBS if v not in script] == [], shell
        assert "memory" in script and "force" in script


def test_completion_zsh(home, skep):
    script = skep("completion", "zsh").ok().out
    p = subprocess.run(["zsh", "-f", "-c", 'autoload -Uz compinit && compinit -D -u; eval "$1"; echo ok', "x", script], env={**home.env, "HOME": home.user_home}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=30, check=False)
    assert p.stdout.strip().endswith("ok"), p.stderr


def test_completion_fish(home, skep):
    script = skep("completion", "fish").ok().out
    path = f"{home.top}/skep.fish"
    with open(path, "w", encoding="utf-8") as f:
        f.write(script)
    p = subprocess.run(["fish", "--no-config", "-c", f"source {path}; complete -C 'skep st'"], env=home.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=30, check=True)
    assert {"start", "stop"} <= {x.split("\t")[0] for x in p.stdout.splitlines()}


def test_default_sandbox_is_the_newest_with_changes_here(home, skep, project):
    a, b = home.new(), home.new()
    skep("exec", a, "--", "sh", "-c", "echo x > x").ok()
    assert json.loads(skep("show", "--json").ok().out)["id"] == a
    skep("exec", b, "--", "sh", "-c", "echo x > x").ok()
    assert json.loads(skep("show", "--json").ok().out)["id"] == b


def test_no_default_sandbox(skep, project):
    skep("show").fails(3)


def test_skep_host_that_does_not_answer(home, skep):
    r = skep("ps", env={"SKEP_HOST": f"unix://{home.top}/none.sock"})
    assert r.rc == 8 and len(r.err.splitlines()) == 1


def test_closed_stdout(home):
    p = subprocess.run(["sh", "-c", "skep ps --json >&-"], env=home.env, cwd=home.dir, stderr=subprocess.PIPE, timeout=30, check=False)
    assert p.returncode in (0, 1)


def test_full_stdout(home):
    home.new()
    p = subprocess.run(["sh", "-c", "skep ps --json >/dev/full"], env=home.env, cwd=home.dir, stderr=subprocess.PIPE, timeout=30, check=False)
    assert p.returncode == 1 and len(p.stderr.splitlines()) == 1


def test_closed_standard_descriptors(home):
    """A caller without any descriptor: nothing of ours lands on 0, 1 or 2 by accident."""
    p = subprocess.run(["sh", "-c", "skep run -- sh -c 'exit 21' <&- >&- 2>&-"], env=home.env, cwd=home.dir, timeout=30, check=False)
    assert p.returncode == 21


def test_inherited_descriptors_stay_outside(home):
    r, w = os.pipe()
    p = subprocess.run(["skep", "run", "--", "sh", "-c", "ls /proc/self/fd | wc -l"], env=home.env, cwd=home.dir, pass_fds=[r, w], stdout=subprocess.PIPE, timeout=30, check=True)
    os.close(r)
    os.close(w)
    assert int(p.stdout) <= 4


def test_man_pages_name_every_verb():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    page = os.path.join(root, "man/skep.1")
    if not os.path.exists(page):
        pytest.skip("man/skep.1 is not in this tree")
    content = open(page, encoding="utf-8").read()
    assert [v for v in VERBS if v not in content] == []
