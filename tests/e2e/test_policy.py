# SPDX-License-Identifier: Apache-2.0
"""Rules, secrets and trust as the command line and the API show them. What the gate makes of them is tested elsewhere."""
import json
import os
import pty
import stat
import subprocess

import pytest

VALUE = "hunter2-8c1f0e"


def set_secret(skep, name="TOKEN", host="api.test", place="bearer", value=VALUE):
    return skep("secret", "set", name, "--host", host, "--as", place, stdin=value.encode())


def policy(skep, sid):
    return skep("policy", "show", sid, "--json").json()["policy"]


def rules(skep, sid):
    return {(r["rule"], r["from"]) for r in policy(skep, sid)["rules"]}


def files_below(top):
    for at, _, names in os.walk(top):
        for n in names:
            p = os.path.join(at, n)
            if stat.S_ISREG(os.lstat(p).st_mode):
                yield p


# --- secrets -----------------------------------------------------------------------------------------------------


def test_a_value_is_kept_sealed_and_never_shown(home, skep):
    r = set_secret(skep, value=VALUE + "\n").ok()
    assert r.out == "" and r.err == ""
    listed = skep("secret", "ls", "--json").json()["secrets"]
    assert [(s["name"], s["host"], s["port"], s["as"], s["used"]) for s in listed] == [("TOKEN", "api.test", 443, "bearer", None)]
    sid = home.new("--secret", "TOKEN")
    for out in (skep("secret", "ls").ok().out, json.dumps(listed), json.dumps(home.show(sid)), json.dumps(policy(skep, sid)), json.dumps(home.journal(sid))):
        assert VALUE not in out
    key = f"{home.skep_home}/secret.key"
    assert os.stat(key).st_mode & 0o777 == 0o600 and os.path.getsize(key) == 32
    for p in files_below(home.skep_home):
        with open(p, "rb") as f:
            assert VALUE.encode() not in f.read(), p


def test_the_api_never_returns_a_value(home, skep):
    set_secret(skep).ok()
    status, answer = home.api("POST", "/v1/secrets", {"name": "B", "host": "b.test:8443", "as": "header:X-Key", "value": VALUE})
    assert status == 201 and answer["port"] == 8443 and answer["as"] == "header:X-Key" and VALUE not in json.dumps(answer)
    for path in ("/v1/secrets", "/v1/policy", "/v1/trust"):
        assert VALUE not in json.dumps(home.api("GET", path)[1])
    assert home.api("GET", "/v1/secrets/TOKEN")[0] == 404  # there is no way to ask
    assert VALUE not in json.dumps(home.api("POST", "/v1/secrets", {"name": "B C", "host": "b.test", "as": "bearer", "value": VALUE})[1])


@pytest.mark.parametrize(
    "name,host,place,value",
    [
        ("TOKEN", "10.0.0.1", "bearer", "v"),
        ("TOKEN", "*.a.test", "bearer", "v"),
        ("TOKEN", "a.test:0443", "bearer", "v"),
        ("TOKEN", "a.test", "cookie", "v"),
        ("TOKEN", "a.test", "header", "v"),
        ("TOKEN", "a.test", "header:Host", "v"),
        ("1TOKEN", "a.test", "bearer", "v"),
        ("PATH", "a.test", "bearer", "v"),
        ("LD_PRELOAD", "a.test", "bearer", "v"),
        ("TOKEN", "a.test", "bearer", ""),
        ("TOKEN", "a.test", "bearer", "\n"),
        ("TOKEN", "a.test", "bearer", "v\r\nX-Evil: 1"),
    ],
)
def test_what_can_not_be_a_secret(skep, name, host, place, value):
    set_secret(skep, name, host, place, value).fails(2)
    assert skep("secret", "ls", "-q").ok().out == ""


def test_a_value_too_long_or_not_text(skep):
    set_secret(skep, value="x" * (65 << 10)).fails(6)
    skep("secret", "set", "T", "--host", "a.test", "--as", "bearer", stdin=b"\xff\xfe").fails(2, "utf-8")
    skep("secret", "set", "T", "--host", "a.test", "--as", "bearer", stdin=b"a\0b").fails(2)


def test_a_value_is_asked_for_without_showing_it(home):
    leader, follower = pty.openpty()
    p = home.popen("secret", "set", "TOKEN", "--host", "a.test", "--as", "bearer", stdin=follower, stdout=follower, stderr=follower, start_new_session=True)
    seen = b""
    while b"not shown" not in seen:
        seen += os.read(leader, 1000)
    os.write(leader, VALUE.encode() + b"\n")
    assert p.wait(30) == 0
    os.close(follower)
    try:
        while chunk := os.read(leader, 1000):
            seen += chunk
    except OSError:
        pass
    os.close(leader)
    assert VALUE.encode() not in seen
    assert home.skep("secret", "ls", "-q").ok().line == "TOKEN"


def test_placeholders(home, skep):
    set_secret(skep).ok()
    set_secret(skep, "FILED", place="file").ok()
    a, b = home.new("--secret", "TOKEN", "--secret", "FILED"), home.new("--secret", "TOKEN")
    seen = []
    for sid in (a, b, a):
        seen.append(skep("exec", sid, "--", "sh", "-c", "echo $TOKEN").ok().line)
    assert seen[0].startswith("skep_TOKEN_") and len(seen[0]) == len("skep_TOKEN_") + 32
    assert seen[0] != seen[1] and seen[0] == seen[2]
    assert skep("exec", a, "--", "sh", "-c", "echo $FILED_FILE").ok().line == "/run/secrets/FILED"
    assert VALUE not in skep("exec", a, "--", "sh", "-c", "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'").out
    home.kill_skepd()
    assert skep("exec", a, "--", "sh", "-c", "echo $TOKEN").ok().line == seen[0]


def test_removal(home, skep):
    set_secret(skep).ok()
    sid = home.new("--secret", "TOKEN")
    assert [s["name"] for s in policy(skep, sid)["secrets"]] == ["TOKEN"]
    skep("secret", "rm", "TOKEN").ok()
    skep("secret", "rm", "TOKEN").fails(3, "TOKEN")
    assert policy(skep, sid)["secrets"] == [] and policy(skep, sid)["rules"] == []
    assert "TOKEN" not in skep("exec", sid, "--", "env").ok().out
    assert [e["revoked"] for e in home.journal(sid) if e["type"] == "policy.changed"] == ["TOKEN"]
    skep("new", "--secret", "TOKEN").fails(3, "TOKEN")


def test_a_lost_key_is_said(home, skep):
    set_secret(skep).ok()
    sid = home.new("--secret", "TOKEN")
    home.kill_skepd()
    os.unlink(f"{home.skep_home}/secret.key")
    skep("start", sid).fails(5, "TOKEN")
    assert home.show(sid)["state"] in ("failed", "stopped")


# --- rules -------------------------------------------------------------------------------------------------------


def test_show_set_and_remove(home, skep):
    sid = home.new("--net", "none", "--allow", "A.Test.", "--deny", "b.test", "--expose-host", "5432:db.test", "--expose-host", "8080")
    assert rules(skep, sid) == {("a.test", "--allow"), ("!b.test", "--deny"), ("db.test:5432=127.0.0.1", "--expose-host"), ("host.skep.internal:8080=127.0.0.1", "--expose-host")}
    assert policy(skep, sid)["otherwise"] == "deny"
    skep("policy", "set", sid, "--allow", "GET c.test:8443/x*", "--remove", "a.test", "--remove", "!b.test", "--ask").ok()
    got = rules(skep, sid)
    assert ("GET c.test:8443/x*", "--allow") in got and not {r for r, _ in got} & {"a.test", "!b.test"}
    assert policy(skep, sid)["otherwise"] == "ask"
    skep("policy", "set", sid, "--no-ask").ok()
    assert policy(skep, sid)["otherwise"] == "deny"
    assert [e["type"] for e in home.journal(sid)].count("policy.changed") == 2
    text = skep("policy", "show", sid).ok().out
    assert "everything else: deny" in text and "db.test:5432" in text
    for mistyped in ("c.test:8443/x*", "a.test", "!c.test", "TOKEN", "a b"):
        skep("policy", "set", sid, "--remove", mistyped, "--allow", "d.test").fails(3, mistyped, "policy show")
    assert not {r for r, _ in rules(skep, sid)} & {"d.test"}


def test_rules_survive_the_daemon(home, skep):
    set_secret(skep).ok()
    sid = home.new("--net", "git", "--allow", "a.test", "--secret", "TOKEN", "--ask")
    before = policy(skep, sid)
    home.kill_skepd()
    assert policy(skep, sid) == before


@pytest.mark.parametrize(
    "argv",
    [
        ["--allow", "127.0.0.1"], ["--allow", "10.1.2.3/8"], ["--allow", "0x7f.1"], ["--allow", "a.test:0"], ["--allow", "a.test:0443"], ["--allow", "a..test"], ["--allow", "a%2etest"],
        ["--allow", "!a.test"], ["--allow", "a.test=10.0.0.300"], ["--deny", "a.test=10.0.0.1"], ["--net", "everything"], ["--net", ""], ["--net", "none,open"], ["--net", "git,none"],
        ["--allow", "localhost:5432"], ["--allow", "*.localhost"], ["--expose-host", "0"], ["--expose-host", "80:127.0.0.1"], ["--expose-host", "80:LocalHost"], ["--secret", "A B"],
    ],
)
def test_refused_before_anything_is_made(home, skep, argv):
    skep("new", *argv).fails(2)
    r = skep("run", *argv, "--", "true")
    assert r.rc in (2, 125) and len(r.err.splitlines()) == 1
    assert home.ps() == []


def test_check_and_explain(home, skep):
    r = skep("policy", "check", "a.test")
    assert r.rc == 5 and r.out.startswith("deny a.test:443")
    assert skep("policy", "check", "a.test", "--allow", "*.test").rc == 0
    assert skep("policy", "check", "test", "--allow", "*.test").rc == 5
    assert skep("policy", "check", "a.test:22", "--allow", "a.test").rc == 5
    assert skep("policy", "check", "a.test", "--allow", "a.test", "--deny", "*.test").rc == 5
    assert skep("policy", "check", "a.test", "--ask").rc == 5
    j = json.loads(skep("policy", "check", "a.test", "--allow", "GET a.test/v1/*", "--method", "POST", "--path", "/v1/x", "--json").out)
    assert j["verdict"] == "deny" and j["opened"] is True
    j = skep("policy", "check", "a.test", "--allow", "GET a.test/v1/*", "--method", "GET", "--path", "/v1/x", "--json").json()
    assert j["verdict"] == "allow" and j["from"] == "--allow"
    sid = home.new("--allow", "a.test=10.1.2.3")
    j = skep("policy", "explain", sid, "a.test", "--json").json()
    assert j["verdict"] == "allow" and j["address"] == "10.1.2.3" and j["reason"]
    set_secret(skep).ok()
    for deny, used in ([], ["TOKEN"]), (["--deny", "api.test"], []):
        assert json.loads(skep("policy", "check", "api.test", "--secret", "TOKEN", *deny, "--json").out)["secrets"] == used
    skep("policy", "explain", sid, "127.1").fails(2)
    skep("policy", "explain", "a.test").fails(3, "name one")
    skep("exec", home.new("--allow", "b.test"), "--", "touch", "pending").ok()
    assert skep("policy", "explain", "b.test").ok().out.startswith("allow b.test:443")
    skep("policy", "explain", "nosuch", "a.test").fails(3)


def test_suggestions(home, skep):
    sid = home.new("--expose-host", "1:db")
    look = "for h in a.test b.test; do getent hosts $h; done; curl -sS -m 5 http://host.skep.internal:1/; true"
    skep("exec", sid, "--", "sh", "-c", look).ok()
    assert f"skep policy set {sid} --expose-host PORT" in skep("policy", "suggest", sid).ok().err
    skep("policy", "set", sid, "--allow", "b.test:8080=127.0.0.1", "--expose-host", "2").ok()
    skep("exec", sid, "--", "sh", "-c", "curl -sS -m 5 http://b.test/; curl -sS -m 5 http://host.skep.internal:1/; true").ok()
    r = skep("policy", "suggest", sid).ok()
    # a name alone tells no port, so that both of the web are meant; of b.test the port is known by now
    assert [x.split()[0] for x in r.out.splitlines()] == ["RULE", "a.test", "b.test:80"]
    assert f"skep policy set {sid} --expose-host 1" in r.err
    skep("policy", "set", sid, "--allow", "a.test", "--allow", "b.test:80").ok()
    assert skep("policy", "suggest", sid).ok().out == ""
    # requests: what was allowed since goes, the rest of that host stays
    skep("policy", "set", sid, "--allow", "GET c.test:1/z=127.0.0.1").ok()
    skep("exec", sid, "--", "curl", "-sS", "http://c.test:1/a", "http://c.test:1/b?q").ok()
    skep("policy", "set", sid, "--allow", "GET c.test:1/a").ok()
    assert [x["rule"] for x in skep("policy", "suggest", sid, "--json").json()["suggestions"]] == ["GET c.test:1/b"]


def test_rules_of_the_user(home, skep):
    sid = home.new()
    skep("policy", "set", "--user", "--allow", "a.test", "--deny", "b.test").ok()
    assert skep("policy", "show", "--user").ok().out.split() == ["a.test", "!b.test"]
    assert ("a.test", "answer") in rules(skep, sid)
    home.kill_skepd()
    assert ("!b.test", "answer") in rules(skep, sid)
    skep("policy", "set", "--user", "--remove", "a.test", "--remove", "!b.test").ok()
    assert skep("policy", "show", "--user").ok().out == ""
    skep("policy", "set", "--user", "--remove", "a.test").fails(3)
    skep("policy", "set", "--user", "--net", "open").fails(2)
    skep("policy", "set", sid).fails(2)


def test_the_users_configuration(home, skep):
    os.makedirs(f"{home.user_home}/.config/skep")
    path = f"{home.user_home}/.config/skep/config.yaml"
    with open(path, "w") as f:
        f.write("net: {preset: git, deny: [a.test]}\nlimits: {pids: 77}\n")
    sid = home.new("--allow", "a.test")
    assert skep("policy", "explain", sid, "a.test", "--json").json()["from"] == "user"
    assert any(f == "preset git" for _, f in rules(skep, sid))
    assert home.show(sid)["limits"]["pids"] == 77
    assert not any(f == "preset git" for _, f in rules(skep, home.new("--net", "none")))
    with open(path, "w") as f:
        f.write("net: {allows: [a.test]}\n")
    skep("new").fails(2, "config.yaml")
    r = skep("run", "--", "true")
    assert r.rc == 125 and "config.yaml" in r.err
    os.unlink(path)


def test_registries_are_asked_of_the_tools(home, skep):
    with open(f"{home.user_home}/.npmrc", "w") as f:
        f.write("registry=https://npm.mirror.test:8081/x/\n")
    sid = home.new("--net", "registries")
    found = [r for r, f in rules(skep, sid) if f == "preset registries (npm)"]
    assert found == ["npm.mirror.test:8081"]
    cache = f"{home.skep_home}/registries.cache"
    if os.path.exists(cache):  # not at the very first call: there was no directory yet
        assert os.stat(cache).st_mode & 0o777 == 0o600
    with open(f"{home.user_home}/.npmrc", "w") as f:
        f.write("registry=https://npm.other.test/\n")  # a change is seen at once
    assert "npm.other.test" in [r for r, f in rules(skep, home.new("--net", "registries")) if "npm" in f]
    status, answer = home.api("POST", "/v1/sandboxes", {"cwd": home.dir, "net": "registries"})
    assert status == 409 and answer["error"]["needs"] == "registries"


# --- trust -------------------------------------------------------------------------------------------------------


def write_project(home, text):
    with open(f"{home.dir}/.skep.yaml", "w") as f:
        f.write(text)


def test_a_project_counts_after_trust(home, skep):
    write_project(home, "net: {allow: [p.test]}\nsecrets: [TOKEN]\n")
    set_secret(skep).ok()
    r = skep("new").ok()
    assert len(r.err.splitlines()) == 1 and "skep trust" in r.err
    assert rules(skep, r.line) == set()
    r = skep("trust")
    assert r.rc == 5 and "p.test" in r.out and "TOKEN" in r.out  # nobody to ask
    assert rules(skep, skep("new").ok().line) == set()
    skep("trust", "--yes").ok()
    r = skep("new").ok()
    assert r.err == "" and ("p.test", "project") in rules(skep, r.line) and ("api.test:443", "secret TOKEN") in rules(skep, r.line)
    sid = r.line
    write_project(home, "net: {allow: [p.test, q.test]}\n")
    assert "changed" in skep("new").ok().err and rules(skep, sid) == {("api.test:443", "secret TOKEN")}
    write_project(home, "net: {allow: [p.test]}\nsecrets: [TOKEN]\n")
    assert ("p.test", "project") in rules(skep, sid)
    assert skep("trust", "--list").ok().out.startswith(f"{home.dir}/.skep.yaml")
    skep("trust", "--revoke").ok()
    skep("trust", "--revoke").fails(3)
    assert ("p.test", "project") not in rules(skep, sid)


def test_trust_is_to_what_was_looked_at(home, skep):
    write_project(home, "net: {allow: [p.test]}\n")
    view = skep("trust", "--json").json()
    assert view["state"] == "untrusted" and view["effect"]["after_trust"]["net"]["allow"] == ["p.test"]
    write_project(home, "net: {allow: [evil.test]}\n")
    status, answer = home.api("POST", "/v1/trust", {"dir": home.dir, "sha256": view["sha256"]})
    assert status == 409
    assert skep("trust", "--json").json()["state"] == "untrusted"


def test_trust_shows_what_is_hostile_harmlessly(home, skep):
    write_project(home, 'net: {allow: ["a.test"]}\ntest: "x\\e[2Jy\\u202ez"\n')
    r = skep("trust", "--yes")
    assert "\x1b" not in r.out and "\u202e" not in r.out


@pytest.mark.parametrize("text,state", [("", "nothing"), ("# only a comment\n", "nothing"), ("env: {A: b}\n", "nothing")])
def test_files_that_need_no_trust(home, skep, text, state):
    write_project(home, text)
    assert skep("trust", "--json").json()["state"] == state
    skep("trust").ok()


def test_files_that_can_not_be_trusted(home, skep):
    sid = home.new()
    skep("trust").fails(3)
    write_project(home, "net: {allow: [127.0.0.1]}\n")
    skep("trust", "--yes").fails(2, ".skep.yaml")
    skep("new").fails(2, ".skep.yaml", "line 1", "--no-project")
    assert rules(skep, sid) == set()  # of a sandbox that was there already
    os.unlink(f"{home.dir}/.skep.yaml")
    os.symlink("/etc/passwd", f"{home.dir}/.skep.yaml")
    r = skep("trust", "--yes")
    assert r.rc != 0 and "root:" not in r.out + r.err
    os.unlink(f"{home.dir}/.skep.yaml")
    os.mkfifo(f"{home.dir}/.skep.yaml")
    skep("new").fails(2, ".skep.yaml", "not a file")  # and it does not hang
    assert rules(skep, sid) == set()


# --- the API -----------------------------------------------------------------------------------------------------


def test_answers_without_a_question(home, skep):
    sid = home.new("--ask")
    assert home.api("GET", f"/v1/sandboxes/{sid}/asks") == (200, {"asks": []})
    assert home.api("POST", f"/v1/sandboxes/{sid}/answers", {"ask": 1, "verdict": "allow"})[0] == 404
    for body in ({"ask": 1, "verdict": "maybe"}, {"ask": 1, "verdict": "allow", "scope": "forever"}, {"ask": -1, "verdict": "allow"}, {"x": 1}):
        assert home.api("POST", f"/v1/sandboxes/{sid}/answers", body)[0] == 400
    assert policy(skep, sid)["rules"] == []


@pytest.mark.parametrize("path", ["/v1/secrets/..", "/v1/secrets/a'b", "/v1/secrets/" + "A" * 65])
def test_secret_names_in_paths(home, skep, path):
    skep("secret", "ls").ok()
    assert home.api("DELETE", path)[0] in (400, 404)


def test_a_new_schema_on_an_old_database(home, skep):
    """state.db of the version before is brought up to date, with what is in it."""
    sid = home.new("--name", "old")
    pid = home.skepd_pid()
    assert home.api("POST", "/v1/shutdown", {})[0] == 204
    from kit import proc_start, wait_for
    wait_for(lambda: not proc_start(pid), why="skepd to end")
    sqlite3 = pytest.importorskip("sqlite3")
    db = sqlite3.connect(f"{home.skep_home}/state.db")
    first = ("meta", "sandboxes", "cells", "execs", "images", "gone")
    for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall():
        if table not in first:
            db.execute(f"DROP TABLE {table}")
    for table, last in (("sandboxes", "anchor"), ("cells", "start"), ("images", "created")):  # columns that came later
        names = [c[1] for c in db.execute(f"PRAGMA table_info({table})")]
        for (index,) in db.execute("SELECT name FROM sqlite_master WHERE type='index' AND sql IS NOT NULL AND tbl_name=? AND name!='names'", (table,)).fetchall():
            db.execute(f"DROP INDEX {index}")
        for name in names[names.index(last) + 1:]:
            db.execute(f"ALTER TABLE {table} DROP COLUMN {name}")
    db.execute("UPDATE meta SET value=1 WHERE key='version'")
    db.commit()
    db.close()
    assert home.show("old")["id"] == sid
    set_secret(skep).ok()


def test_completion_knows_the_verbs(skep):
    for shell in ("bash", "zsh", "fish"):
        out = skep("completion", shell).ok().out
        for word in ("policy", "secret", "trust", "suggest", "expose-host"):
            assert word in out, (shell, word)
    script = skep("completion", "bash").ok().out_b
    assert subprocess.run(["bash", "-n"], input=script).returncode == 0


def test_advice(home, skep, project):
    """What is said of refused hosts is what helps: the preset that has them, no service names, the address that is private."""
    env = {"SKEP_SUMMARY": "always"}
    ask = "import socket, sys\nfor h in sys.argv[1:]:\n try: socket.getaddrinfo(h, 443)\n except OSError: pass\nsys.exit(3)"
    r = skep("run", "--", "python3", "-c", ask, "api.anthropic.com", "_ldap._tcp.x.test", env=env)
    assert r.rc == 3 and "refused: api.anthropic.com. Run it with --net llm (" in r.err, r.err
    r = skep("run", "--", "python3", "-c", ask, "github.com", "x.test", env=env)
    assert "--net git --allow HOST" in r.err and "github.com, x.test" in r.err, r.err
    sid = home.new()
    assert "--allow HOST" in skep("exec", sid, "--", "python3", "-c", ask, "first.test", env=env).err
    r = skep("exec", sid, "--", "python3", "-c", ask, "second.test", env=env)
    assert f"refused: second.test. Allow it with skep policy set {sid}" in r.err, r.err
    assert "refused" not in skep("exec", sid, "--", "false", env=env).err
    # Without an id: the newest sandbox of the directory, also one without changes.
    for verb in ("show", "log"):
        assert sid in skep(verb, cwd=project).ok().out, verb
    assert skep("undo", cwd=project).rc != 2
    skep("rm", "--force", sid).ok()
    r = skep("policy", "suggest", sid).ok()
    assert "second.test" in r.out and "skep run --allow RULE" in r.err and "policy set" not in r.err


def test_wrong_options(skep):
    for options in (["--memory", "1"], ["--name", "B d"], ["--mount", "/nonexistent"], ["--mount", "/usr:rel"], ["--net", "bogus"], ["--bogus"]):
        assert skep("run", *options, "--", "true").rc == 2, options
