# SPDX-License-Identifier: Apache-2.0
"""Terminals: pty, size, resize, job control, restored afterwards, and the recording."""
import glob
import json
import os
import signal

from kit import depth, find_procs, proc_stat, read_proc, wait_for


def test_run_on_a_terminal_has_one(home, terminal):
    t = terminal("run", "--", "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && tty && stty size", rows=31, cols=97)
    t.expect(r"/dev/pts/\d+\s+31 97")
    assert t.wait() == 0
    assert t.restored()


def test_run_without_a_terminal_has_none(skep):
    assert skep("run", "--", "sh", "-c", "test -t 0 || test -t 1 || test -t 2").rc == 1


def test_exec_has_one_only_when_asked(home, terminal):
    sid = home.new()
    t = terminal("exec", sid, "--", "sh", "-c", "test -t 1 && echo is || echo not")
    t.expect("not")
    assert t.wait() == 0
    t = terminal("exec", "-i", "-t", sid, "--", "sh", "-c", "test -t 1 && echo is || echo not")
    t.expect("is")
    assert t.wait() == 0


def test_resize(home, terminal):
    t = terminal("run", "--", "sh", "-c", 'trap "stty size; exit 0" WINCH; echo ready; while :; do sleep 0.05; done')
    t.expect("ready")
    t.resize(50, 132)
    os.kill(t.proc.pid, signal.SIGWINCH)
    t.expect("50 132")
    assert t.wait() == 0


def test_control_c_is_the_commands(home, terminal):
    t = terminal("run", "--", "sh", "-c", 'trap "echo interrupted; exit 9" INT; echo ready; while :; do sleep 0.05; done')
    t.expect("ready")
    t.send(b"\x03")
    t.expect("interrupted")
    assert t.wait() == 9
    assert t.restored()


def test_control_c_kills_by_default(home, terminal):
    t = terminal("run", "--", "sh", "-c", "echo up; exec sleep 552201")
    t.expect("up")  # by then the terminal is raw: the key is the command's
    t.send(b"\x03")
    assert t.wait() == 130
    assert t.restored()


def test_control_d_ends_input(home, terminal):
    t = terminal("run", "--", "sh", "-c", "cat; echo end")
    t.send("line\n")
    t.expect("line.*line")
    t.send(b"\x04")
    t.expect("end")
    assert t.wait() == 0


def test_control_z_suspends_and_fg_goes_on(home, terminal):
    """In a shell with job control on the host: ^Z stops the command inside and skep; fg continues both."""
    t = terminal("/bin/bash", "--norc", "-i", env={"PS1": "host> "})
    t.expect("host> ")
    t.send("skep run -- sh -c 'echo started; cat; echo ended'\n")
    t.expect(r"[\r\n]started")
    t.send("first\n")  # cat runs: a shell that is in vfork can not be stopped, so it would not be seen stopping
    t.expect("first.*first")
    t.send(b"\x1a")
    t.expect("Stopped")
    t.expect("host> ")
    t.send("echo host is $((40+2))\n")
    t.expect("host is 42")
    t.expect("host> ")
    t.send("fg\n")
    t.expect("skep run")
    t.send("typed\n")
    t.expect("typed.*typed")
    t.send(b"\x04")
    t.expect("ended")
    t.expect("host> ")
    t.send("exit\n")
    assert t.wait() == 0


def has_terminal(pid):
    """Is its process group the one that the keys are for?"""
    fields = read_proc(pid, "stat").rpartition(b")")[2].split()
    return fields[2] == fields[5]


def test_shell_has_job_control_of_its_own(home, terminal, project):
    sid = home.new()
    t = terminal("shell", sid, env={"PS1": "$ "})
    t.send("echo in $((20+1)); pwd\n")
    t.expect("in 21")
    t.expect(project)
    t.send("sleep 552202\n")
    pid = wait_for(lambda: find_procs("sleep\x00552202"))[0]
    wait_for(lambda: has_terminal(pid), why="the shell to give it the terminal")
    t.send(b"\x1a")
    t.expect("(?i)stopped")
    t.send("kill -9 %1; sleep 0.5; wait; echo go $((2+3))\n")  # bash calls it stopped until it has reaped it
    t.expect("go 5")
    t.send("exit 6\n")
    assert t.wait() == 6
    assert t.restored()


def test_terminal_is_restored_when_the_cell_dies(home, terminal):
    sid = home.new()
    home.skep("start", sid).ok()
    pid = home.cell_pid(sid)
    t = terminal("exec", "-i", "-t", sid, "--", "sh", "-c", "echo ready; stty raw -echo; sleep 552203")
    t.expect("ready")
    os.kill(pid, signal.SIGKILL)
    assert t.wait() in (125, 137)
    assert t.restored()


def test_terminal_is_restored_after_sigterm_to_skep(home, terminal):
    t = terminal("run", "--", "sh", "-c", "echo ready; sleep 552204")
    t.expect("ready")
    t.proc.terminate()
    assert t.wait() != 0
    assert t.restored()


def test_vanished_terminal(home, terminal):
    """The window is closed: the exec of a kept sandbox gets no input any more, and nothing spins or hangs."""
    sid = home.new()
    t = terminal("exec", "-i", "-t", sid, "--", "sh", "-c", "echo ready; sleep 552205")
    t.expect("ready")
    t.proc.send_signal(signal.SIGHUP)
    t.wait()
    assert home.skep("exec", sid, "--", "echo", "fine").ok().line == "fine"


def test_summary_on_a_terminal(home, terminal, project):
    t = terminal("run", "--", "sh", "-c", "echo x > newfile; echo y >> README")
    t.expect("newfile")
    assert t.wait() == 0


def test_summary_of_what_is_over_at_once(home, terminal, project):
    """Its keeper may be gone before pid 1 hears that it began."""
    for i in range(8):
        t = terminal("run", "--", "sh", "-c", f"> newfile{i}")
        t.expect(f"newfile{i}", 4)
        assert t.wait() == 0


def test_summary_of_a_cell_that_died(home, terminal, project):
    t = terminal("run", "--", "sh", "-c", "echo x > newfile; exec sleep 6543210")
    pid = wait_for(lambda: [p for p in find_procs("6543210") if depth(p) > 1], why="the command")[0]
    while depth(proc_stat(pid)[1]) > 1:
        pid = proc_stat(pid)[1]
    os.kill(pid, signal.SIGKILL)  # pid 1 of the cell
    t.expect("which files changed is not known")
    assert t.wait() != 0


def test_shell_says_where_it_was(home, terminal, project):
    """It can be opened without a name, and then nobody knows one."""
    sid = home.new("--name", "box")
    for argv, ref in ((["shell", "box"], "box"), (["shell"], sid)):
        t = terminal(*argv)
        t.expect(r"\$ ")
        t.send("echo x > left; exit 3\r")
        t.expect(f"left {ref}: skep diff {ref} shows its changes, skep apply {ref} takes them")
        assert t.wait() == 3


def test_shell_without_a_sandbox(home, skep, project):
    skep("shell").fails(125, "skep run -- CMD")


def test_ps_in_a_narrow_terminal(home, skep, terminal, project):
    """No row wraps: what is least needed goes, then the beginning of the path."""
    skep("new", "--name", "a-rather-long-name-of-forty-characters-00").fails(2, "1 to 40")
    skep("new", "--name", "a-rather-long-name-of-forty-characters-0").ok()
    for cols in (200, 100, 90):
        t = terminal("ps", cols=cols)
        assert t.wait() == 0
        lines = t.seen.decode().split("\r\n")
        assert lines[0].startswith("ID ") and max(map(len, lines)) <= cols and lines[1].endswith(home.dir[-8:]), lines
        assert ("USED" in lines[0]) == (cols == 200) and "PENDING" in lines[0]
    assert "USED" in skep("ps").ok().out  # without a terminal there is all of it


def test_recording_is_asciicast(home, terminal):
    sid = home.new()
    t = terminal("exec", "-i", "-t", sid, "--", "sh", "-c", "printf 'h\\303\\251llo\\n'; stty size; read x; echo got $x", rows=20, cols=70)
    t.expect("20 70")
    t.send("input\n")
    t.expect("got input")
    assert t.wait() == 0
    (cast,) = wait_for(lambda: glob.glob(f"{home.skep_home}/sandboxes/{sid}/out/*.cast"))
    with open(cast, encoding="utf-8") as f:
        lines = list(f)
    head = json.loads(lines[0])
    assert (head["version"], head["width"], head["height"]) == (2, 70, 20)
    events = [json.loads(x) for x in lines[1:]]
    assert all(len(e) == 3 and e[1] in "oimr" and e[0] >= 0 for e in events)
    assert [e[0] for e in events] == sorted(e[0] for e in events)
    output = "".join(e[2] for e in events if e[1] == "o")
    assert "héllo" in output and "got input" in output


def test_recording_of_bytes_that_are_not_utf8_is_still_json(home, terminal):
    sid = home.new()
    t = terminal("exec", "-i", "-t", sid, "--", "sh", "-c", "printf '\\377\\376\\001\\033[31m\\n'; head -c 3000 /dev/urandom; echo fin")
    t.expect("fin")
    assert t.wait() == 0
    (cast,) = glob.glob(f"{home.skep_home}/sandboxes/{sid}/out/*.cast")
    with open(cast, encoding="utf-8") as f:
        for x in f:  # not splitlines: random bytes have other line ends of Unicode's in them
            json.loads(x)


def test_large_output_through_a_terminal(home, terminal):
    t = terminal("run", "--", "sh", "-c", "stty -onlcr; seq 1 100000; echo the-end")
    t.expect("the-end", 30)
    assert t.wait() == 0
    assert t.restored()


def test_many_lines_typed_at_once(home, terminal):
    t = terminal("run", "--", "sh", "-c", "stty -echo; echo ready; n=0; while read x && [ $x != stop ]; do n=$((n+1)); done; echo $n lines")
    t.expect("ready")
    for i in range(0, 2000, 100):
        t.send("".join(f"{j}\n" for j in range(i, i + 100)))
        t.pump(0)
    t.send("stop\n")
    t.expect("2000 lines", 30)
    assert t.wait() == 0


def test_what_is_read_later_does_not_steer_the_terminal(home, terminal):
    """Titles, the clipboard, questions that a terminal answers by typing: in logs they are text."""
    evil = "\x1b]52;c;cm0gLXJm\x07\x1b[6n\x1b[21t\u009bc\x05"
    home.new("--name", "late")
    xid = home.skep("exec", "--detach", "late", "--", "printf", "\033[31mred\033[m\n%s\n", evil).ok().line
    wait_for(lambda: home.exec_row(xid)["state"] == "exited")
    for args in (["logs", xid], ["logs", "--follow", xid], ["attach", xid]):
        t = terminal(*args)
        assert t.wait(30) == 0
        lines = t.seen.decode().splitlines()
        assert lines[:2] == ["\x1b[31mred\x1b[m", "\\x1b]52;c;cm0gLXJm\\x07\\x1b[6n\\x1b[21t\\x9bc\\x05"], (args, lines)
        if "--follow" in args:
            home.skep("stop", "late").ok()  # an attach now shows what was kept
    t = terminal("logs", "--raw", xid)
    assert t.wait(30) == 0 and evil.encode() in t.seen


def test_json_and_patches_on_a_terminal(home, terminal, project):
    """What a sandbox named does not steer the terminal that its journal and its patch are shown on."""
    bad = "a\u009b31m\u202e\u2028b"
    sid = home.new()
    home.skep("exec", sid, "--", "sh", "-c", f"printf '%s\n' '{bad}' >f; true", bad).ok()
    for argv in (["log", "--json", sid], ["log", "--json", "--type", "exec", sid], ["export", sid, "--patch", "-"], ["export", sid, "--patch", "/dev/stdout"]):
        t = terminal(*argv, cwd=project)
        assert t.wait() == 0
        text = t.seen.decode()
        assert "31m" in text and not set(text) & set("\u009b\u202e\u2028"), (argv, text)
    t = terminal("export", sid, "--bundle", "-", cwd=project)
    assert t.wait() == 2 and b"pipe" in t.seen
    assert bad in home.skep("log", "--json", sid).ok().out and bad in home.skep("export", sid, "--patch", "-").ok().out
