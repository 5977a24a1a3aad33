# SPDX-License-Identifier: Apache-2.0
"""skep run: exit status, streams, arguments, environment, what the host sees of it, and what is left."""
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from kit import text, wait_for, write_all

BLOCK = 1 << 20


@pytest.mark.parametrize("status", [0, 1, 42, 255])
def test_exit_status(skep, status):
    assert skep("run", "--", "sh", "-c", f"exit {status}").rc == status


@pytest.mark.parametrize("name", ["HUP", "INT", "KILL", "TERM", "SEGV", "USR1", "PIPE"])
def test_killed_by_signal(skep, name):
    r = skep("run", "--", "sh", "-c", f"kill -{name} $$")
    assert r.rc == 128 + getattr(signal, f"SIG{name}")


def test_not_found(skep):
    skep("run", "--", "no-such-program-here").fails(127, "no-such-program-here")


def test_not_found_absolute(skep):
    skep("run", "--", "/no/such/program").fails(127, "/no/such/program")


def test_not_executable(skep, project):
    skep("run", "--", "./README").fails(126, "README")


def test_directory_is_not_executable(skep):
    skep("run", "--", "/usr").fails(126, "/usr")


def test_skep_itself_fails_with_125(skep):
    skep("run", "--image", "no-such-image", "--", "true").fails(125, "no-such-image")


def test_no_command_is_usage(skep):
    skep("run").fails(2)


def test_streams_stay_apart(skep):
    r = skep("run", "--", "sh", "-c", "echo out; echo err >&2; echo out2").ok()
    assert (r.out, r.err) == ("out\nout2\n", "err\n")


def test_stdin_reaches_the_command_and_ends(skep):
    assert skep("run", "--", "wc", "-c", stdin=b"12345").ok().line == "5"


def test_empty_stdin(skep):
    assert skep("run", "--", "cat", stdin=b"").ok().out == ""


def test_nothing_is_added_to_stdout_or_stderr(skep, project):
    r = skep("run", "--", "sh", "-c", "echo changed > README").ok()
    assert (r.out_b, r.err_b) == (b"", b"")


def test_every_byte_value_both_ways(skep):
    data = bytes(range(256)) * 64
    assert skep("run", "--", "cat", stdin=data).ok().out_b == data
    assert skep("run", "--", "sh", "-c", "cat >&2", stdin=data).ok().err_b == data


def test_no_final_newline_is_kept(skep):
    assert skep("run", "--", "printf", "no newline").ok().out == "no newline"


def through_cat(home, blocks):
    """Streams blocks of 1 MiB of random bytes through `cat` in a cell; SHA-256 of both ends and the length."""
    chunk = os.urandom(8 * BLOCK)
    sent, got, size = hashlib.sha256(), hashlib.sha256(), 0
    p = home.popen("run", "--", "cat", stdin=subprocess.PIPE)

    def feed():
        for i in range(blocks):
            b = chunk[(i % 8) * BLOCK:(i % 8 + 1) * BLOCK] if i % 3 else chunk[BLOCK // 2 + (i % 7) * BLOCK:][:BLOCK]
            sent.update(b)
            write_all(p.stdin, b)
        p.stdin.close()

    t = threading.Thread(target=feed)
    t.start()
    while b := p.stdout.read(BLOCK):
        got.update(b)
        size += len(b)
    t.join()
    err = p.stderr.read()
    assert p.wait(60) == 0, text(err)
    assert size == blocks * BLOCK
    assert sent.digest() == got.digest()


def test_64_mib_of_random_bytes_through(home):
    through_cat(home, 64)


@pytest.mark.slow
def test_1_gib_through(home):
    through_cat(home, 1024)


def test_slow_reader_makes_the_writer_wait(home):
    """With a reader attached the output is complete, however slow the reader is."""
    p = home.popen("run", "--", "sh", "-c", "head -c 100000000 /dev/zero; echo done >&2")
    first = p.stdout.read(10)
    assert len(first) == 10
    rest = 0
    while b := p.stdout.read(BLOCK):
        rest += len(b)
    assert (rest + 10, p.stderr.read(), p.wait(30)) == (100000000, b"done\n", 0)


def test_reader_that_goes_away(home):
    """`skep run -- yes | head -1` ends, as with a local command."""
    p = subprocess.run(["sh", "-c", "skep run -- yes | head -1"], env=home.env, cwd=home.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30, check=False)
    assert p.stdout == b"y\n"


def test_many_arguments_of_1_mib(skep):
    args = ["x" * 1000 + str(i) for i in range(1000)]
    r = skep("run", "--", "sh", "-c", 'echo $# ; printf %s "$*" | wc -c', "sh", *args).ok()
    assert r.out.split() == ["1000", str(len(" ".join(args)))]


def test_one_argument_of_1_mib_is_refused_by_the_kernel_before_skep(home):
    with pytest.raises(OSError):
        home.skep("run", "--", "echo", "x" * (1 << 20))


def test_argument_larger_than_the_kernel_takes_through_the_api(home):
    """The kernel takes 128 KiB per argument; a larger one, which only the API can bring, is a clear error."""
    sid = home.new()
    body = {"argv": ["echo", "x" * (1 << 20)], "stdin": False, "detach": True}
    status, answer = home.api("POST", f"/v1/sandboxes/{sid}/execs", body)
    if status == 201:  # accepted, then refused by execve: 126 with a reason
        xid = answer["exec"]["id"]
        row = wait_for(lambda: (lambda r: r["state"] == "exited" and r)(home.exec_row(xid)))
        assert row["status"] == 126 and row["reason"]
    else:
        assert status in (400, 429) and answer["error"]["message"]


def test_empty_and_odd_arguments(skep):
    r = skep("run", "--", "sh", "-c", 'for a; do printf "<%s>" "$a"; done', "sh", "", " ", "a b", "-x", "--", "$HOME", "\n", "*").ok()
    assert r.out == "<>< ><a b><-x><--><$HOME><\n><*>"


def test_arguments_that_are_not_utf8(home):
    p = subprocess.run([b"skep", b"run", b"--", b"printf", b"%s", b"\xff\xfe\x80!"], env=home.env, cwd=home.dir, stdout=subprocess.PIPE, timeout=30, check=True)
    assert p.stdout == b"\xff\xfe\x80!"


def test_environment(skep):
    r = skep("run", "--env", "A=1", "--env", "B=x y=z", "--", "sh", "-c", 'echo "$A|$B|$HOME|$USER"', env={"SECRET_TOKEN": "no"}).ok()
    a, b, inside_home, user = r.line.split("|")
    assert (a, b, inside_home, user) == ("1", "x y=z", "/home/skep", "skep")


def test_the_callers_variables_stay_outside(skep):
    r = skep("run", "--", "env", env={"AWS_SECRET_ACCESS_KEY": "hunter2", "MY_OWN": "hunter3", "LD_PRELOAD_X": "hunter4"}).ok()
    assert "hunter" not in r.out
    assert "SKEP_HOME" not in r.out


def test_language_and_terminal_come_along(skep):
    assert "LANG=C.UTF-8" in skep("run", "--", "env").ok().out.splitlines()


def test_path_inside_finds_the_system(skep):
    assert skep("run", "--", "sh", "-c", "command -v ls").ok().line in ("/bin/ls", "/usr/bin/ls")


def test_command_starts_in_the_callers_directory(skep, project):
    sub = f"{project}/sub/deep"
    assert skep("run", "--", "pwd", cwd=sub).ok().line == sub
    assert skep("run", "--", "cat", "../../README", cwd=sub).ok().line == "a small project"


def test_workspace_path(skep, project):
    r = skep("run", "--workspace-path", "/workspace", "--", "sh", "-c", "pwd; cat README; ls -d " + project, cwd=project)
    assert r.out.splitlines()[:2] == ["/workspace", "a small project"]
    assert r.rc != 0


def test_workspace_path_keeps_the_subdirectory(skep, project):
    assert skep("run", "--workspace-path", "/workspace", "--", "pwd", cwd=f"{project}/sub").ok().line == "/workspace/sub"


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_umask_comes_along(skep, mask):
    r = skep("run", "--", "sh", "-c", "umask; touch /tmp/f; stat -c %a /tmp/f", umask=mask).ok()
    assert r.out.split() == [f"{mask:04o}", f"{0o666 & ~mask:o}"]


def snapshot(d):
    """Everything about a tree that a writer would change."""
    seen = {}
    for top, dirs, files in os.walk(d):
        for n in dirs + files:
            p = os.path.join(top, n)
            st = os.lstat(p)
            content = open(p, "rb").read() if os.path.isfile(p) and not os.path.islink(p) else None
            seen[p] = (st.st_mode, st.st_uid, st.st_gid, st.st_size, st.st_mtime_ns, st.st_ino, content)
    return seen


def test_the_host_tree_is_never_written(skep, project):
    before = snapshot(project)
    r = skep("run", "--", "sh", "-c", "make test && echo x >> README && rm add.h && mv sub/deep sub/moved && mkdir n && ln -s /etc l && chmod 0 main.c && cat .git/HEAD && ls")
    r.ok()
    assert "answer" in r.out.split()
    assert snapshot(project) == before


def test_git_inside_does_not_touch_the_repository(skep, project):
    before = snapshot(project)
    r = skep("run", "--", "sh", "-c", "git status --short && echo y >> README && git -c user.name=a -c user.email=a@b commit -qam inside && git log --oneline | wc -l").ok()
    assert r.line == "2"
    assert snapshot(project) == before


def test_a_directory_that_is_no_repository(home, skep):
    with open(f"{home.dir}/f", "w", encoding="ascii") as f:
        f.write("plain\n")
    assert skep("run", "--", "cat", "f").ok().line == "plain"


def test_empty(skep, project):
    assert skep("run", "--empty", "--", "sh", "-c", "ls -A | wc -l").ok().line == "0"


def test_other_directory_by_repo(home, skep, project):
    other = f"{home.top}/other"
    os.mkdir(other)
    with open(f"{other}/here", "w", encoding="ascii") as f:
        f.write("1")
    assert skep("run", "--repo", other, "--", "sh", "-c", f"cat {other}/here").ok().line == "1"


@pytest.mark.parametrize("which", ["/", "home", "above"])
def test_directories_that_are_refused_as_a_workspace(home, skep, which):
    d = {"/": "/", "home": home.user_home, "above": home.top}[which]
    r = skep("run", "--", "true", cwd=d)
    r.fails(125)
    assert home.ps() == []


def test_removed_when_nothing_changed(home, skep, project):
    skep("run", "--", "cat", "README").ok()
    assert home.ps() == []


def test_kept_when_something_changed(home, skep, project):
    skep("run", "--", "sh", "-c", "echo 1 > new").ok()
    (s,) = home.ps()
    assert s["state"] == "stopped" and s["pending"] == 1


def test_kept_also_when_the_command_failed(home, skep, project):
    assert skep("run", "--", "sh", "-c", "echo 1 > new; exit 3").rc == 3
    assert len(home.ps()) == 1


@pytest.mark.parametrize("flag", [["--keep"], ["--name", "mine"]])
def test_kept_when_asked(home, skep, flag):
    skep("run", *flag, "--", "true").ok()
    assert len(home.ps()) == 1


def test_rm_flag_with_changes_is_a_conflict_and_keeps_them(home, skep, project):
    r = skep("run", "--rm", "--", "sh", "-c", "echo 1 > new")
    assert r.rc in (0, 4)  # CMD's own status, or the conflict
    assert len(home.ps()) == 1


def test_touch_without_change_is_not_pending(home, skep, project):
    """A file opened for writing and left as it was is still a changed path at most, never a lost one."""
    skep("run", "--", "sh", "-c", "mkdir x && rmdir x").ok()
    assert home.ps() == []


def test_timeout(home, skep):
    r = skep("run", "--timeout", "1s", "--", "sleep", "60")
    assert r.rc in (124, 128 + 9, 128 + 15) and "time" in r.err.lower()
    assert home.ps() == []


def test_background_processes_end_with_the_run(home, skep):
    skep("run", "--", "sh", "-c", "setsid sleep 987123 & exit 0").ok()
    wait_for(lambda: not any("987123" in open(f"/proc/{p}/cmdline", errors="replace").read() for p in os.listdir("/proc") if p.isdigit() and os.path.exists(f"/proc/{p}/cmdline")), 5)


def test_signals_to_the_client_reach_the_command(home):
    p = home.popen("run", "--", "sh", "-c", 'trap "echo got; exit 7" TERM; echo ready; while :; do sleep 0.05; done')
    assert p.stdout.readline() == b"ready\n"
    p.terminate()
    out, _ = p.communicate(timeout=15)
    assert (out, p.returncode) == (b"got\n", 7)


def test_a_run_that_failed_names_the_hosts_that_were_refused(home, skep):
    """The program knows only that a name does not resolve; a person wants to know why, and what to do."""
    look = "getent hosts a.example.org; getent hosts a.example.org; getent hosts b.example.org; exit 3"
    r = skep("run", "--", "sh", "-c", look).fails(3, "refused: a.example.org, b.example.org.", "--allow HOST", "--net registries")
    sid = r.err.split("policy suggest ")[1].split(")")[0]
    assert "a.example.org" in skep("policy", "suggest", sid).ok().out
    assert skep("run", "--", "sh", "-c", look.replace("3", "0")).ok().err == ""
    assert "refused: a.example.org" in skep("run", "--", "sh", "-c", look.replace("3", "0"), env={"SKEP_SUMMARY": "always"}).ok().err
    assert skep("run", "--net", "none", "--", "sh", "-c", look).err == "", "who says none knows"
    assert skep("run", "--", "sh", "-c", "exit 3").err == ""
    r = skep("run", "--", "curl", "-s", "-m", "5", "http://192.0.2.1:81/").fails(7, "refused: tcp 192.0.2.1:81", "--allow 192.0.2.1:81", "policy suggest")
    sid = r.err.split("policy suggest ")[1].split(")")[0]
    assert [e["why"] for e in home.journal(sid) if e["type"] == "denied"] == ["no rule is for this address"]


def test_a_command_that_is_only_here(home, skep):
    tools = f"{home.top}/odd tools"
    os.mkdir(tools)
    with open(f"{tools}/odd-tool", "w", encoding="ascii") as f:
        f.write("#!/bin/sh\necho odd\n")
    os.chmod(f"{tools}/odd-tool", 0o755)
    path = {"PATH": f"{tools}:{home.env['PATH']}"}
    r = skep("run", "--", "odd-tool", env=path)
    assert r.rc == 127 and f"--mount {tools} " in r.err and f"{tools}/odd-tool" in r.err
    assert skep("run", "--mount", tools, "--", f"{tools}/odd-tool").ok().line == "odd"
    assert len(skep("run", "--", "no-such-tool", env=path).err.splitlines()) == 1


def catches(pid, sig):
    """Whether a handler for it is installed."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        caught = next(x for x in f if x.startswith("SigCgt:"))
    return int(caught.split()[1], 16) >> (sig - 1) & 1


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_any_moment_leaves_nothing_running(home, sig):
    """Also between the request and the moment at which the command is watched."""
    home.skep("ps").ok()
    for i in range(25):
        p = home.popen("run", "--", "sleep", "777777")
        time.sleep(i * 0.0004)
        p.send_signal(sig)
        out, err = p.communicate(timeout=30)
        assert (out, err) == (b"", b"") and p.returncode in (128 + sig, -sig), p.returncode
    wait_for(lambda: home.ps() == [], why="sandboxes of commands that were ended")


def test_a_second_signal_does_not_wait(home):
    home.skep("ps").ok()
    daemon = home.skepd_pid()
    os.kill(daemon, signal.SIGSTOP)
    try:
        p = home.popen("run", "--", "true")
        wait_for(lambda: catches(p.pid, signal.SIGINT), why="the request")
        p.send_signal(signal.SIGINT)
        wait_for(lambda: not pending(p.pid), why="the first to be kept")
        assert p.poll() is None
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=30)
        assert p.returncode == -signal.SIGINT
    finally:
        os.kill(daemon, signal.SIGCONT)
    wait_for(lambda: home.ps() == [], why="its sandbox to go")


def pending(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return any(int(x.split()[1], 16) for x in f if x.startswith(("SigPnd:", "ShdPnd:")))


def test_sequential_runs_are_independent(skep):
    for i in range(5):
        assert skep("run", "--", "sh", "-c", f"ls /tmp/mine* ~ 2>/dev/null; touch /tmp/mine{i} ~/{i}").ok().line == "/home/skep:"


def test_parallel_runs(home):
    procs = [home.popen("run", "--", "sh", "-c", f"echo {i}; exit {i}") for i in range(20)]
    for i, p in enumerate(procs):
        out, err = p.communicate(timeout=60)
        assert (out, p.returncode) == (f"{i}\n".encode(), i), text(err)


def test_a_layer_used_again_carries_nothing_over(home, skep):
    """An untouched layer goes to a later sandbox: modes and attributes of its top directories must not."""
    mark = "import os; h=os.path.expanduser('~'); os.setxattr(h,'user.mark',b'x'); os.setxattr('.','user.mark',b'x'); os.chmod(h,0o711)"
    look = "import os; h=os.path.expanduser('~'); print(oct(os.stat(h).st_mode & 0o777), os.listxattr(h), os.listxattr('.'))"
    clean = skep("run", "--", "/usr/bin/python3", "-c", look).ok().line
    for _ in range(8):
        skep("run", "--", "/usr/bin/python3", "-c", mark).ok()
    for _ in range(12):
        assert skep("run", "--", "/usr/bin/python3", "-c", look).ok().line == clean


IGNORED = ["/bin/sh", "-c", "trap '' INT QUIT; exec \"$@\"", "sh"]


def test_commands_get_signals_that_we_ignore(home):
    """Started by a script's background job, which ignores ^C, skep ignores it too; a command inside has its defaults."""
    r = subprocess.run([*IGNORED, f"{home.programs}/skep", "run", "--", "sh", "-c", "kill -INT $$; echo survived"], cwd=home.dir, env=home.env, capture_output=True, timeout=60)
    assert (r.returncode, r.stdout) == (128 + signal.SIGINT, b""), r


def test_the_tests_run_with_signals_ignored(tmp_path):
    """A part of this suite that sends them, as `make test &` of a script starts it."""
    r = subprocess.run([*IGNORED, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path}/pt", __file__, "-k", "second_signal or commands_get"],
                       capture_output=True, timeout=300)
    assert r.returncode == 0 and b"2 passed" in r.stdout, r.stdout[-3000:]


AGENT = """#!/bin/sh
env | grep -E '^(IS_SANDBOX|CLAUDE_CONFIG_DIR|ANTHROPIC_API_KEY|CODEX_HOME)=' | sort
dir=${CLAUDE_CONFIG_DIR:-${CODEX_HOME:-$HOME/.qwen}}
cat "$dir/login" 2>/dev/null || { mkdir -p "$dir"; echo "logged in" >"$dir/login"; }
"""


def test_agents_by_name(home, skep, project):
    """A known agent's name without -- is more than a command: its network, its sealed key, its login of the last run."""
    for name in ("claude", "codex", "qwen"):
        with open(f"{project}/{name}", "w", encoding="utf-8") as f:
            f.write(AGENT)
        os.chmod(f"{project}/{name}", 0o755)
    path = ["-e", f"PATH={project}:/usr/bin:/bin"]
    r = skep("run", "--name", "one", "--keep", *path, "claude", env={"ANTHROPIC_API_KEY": "sk-mine"}).ok()
    assert "IS_SANDBOX=1" in r.out and "sk-mine" not in r.out and "printenv ANTHROPIC_API_KEY | skep secret set" in r.err, (r.out, r.err)
    assert "api.anthropic.com" in skep("policy", "show", "one").ok().out
    skep("secret", "set", "ANTHROPIC_API_KEY", "--host", "api.anthropic.com", "--as", "header:x-api-key", stdin=b"sk-real\n").ok()
    r = skep("run", *path, "-e", "IS_SANDBOX=0", "claude").ok()
    assert "ANTHROPIC_API_KEY=skep_ANTHROPIC_API_KEY_" in r.out and "IS_SANDBOX=0" in r.out and "printenv" not in r.err, (r.out, r.err)
    skep("run", *path, "qwen").ok()
    again = [skep("run", *path, "qwen").ok().out, r.out, skep("run", "--root", *path, "claude").out if os.getuid() == 0 else "logged in"]
    assert ["logged in" in x for x in again] == ([False, False, False] if os.getuid() == 0 else [True, True, True]), again
    # With -- it is a command as any other, and --net none stands.
    r = skep("run", *path, "--", "claude").ok()
    assert r.out == "", r.out
    skep("run", "--name", "two", "--keep", "--net", "none", *path, "codex").ok()
    assert "api.openai.com" not in skep("policy", "show", "two").ok().out
