# SPDX-License-Identifier: Apache-2.0
"""E2B's control plane without its clients: what outlives skepd, and what a token may. The clients' own suites are in tests/compat/e2b."""
import os
import sqlite3
import time
from urllib.parse import quote

import pytest
from kit import World, wait_for
from tcp_kit import Caller, serving, token


@pytest.fixture(scope="module")
def home(programs):
    """One for all: what the root profile needs is large."""
    w = World(programs)
    w.lend()
    w.skep("ps").ok()
    yield w
    w.close()


@pytest.fixture(autouse=True)
def emptied(home):
    yield
    home.stop_all()


def create(home, **body):
    status, answer = home.api("POST", "/e2b/v2/sandboxes", {"templateID": "base"} | body)
    assert status == 201, answer
    return answer


def detail(home, sid):
    return home.api("GET", f"/sandboxes/{sid}")


def sh(home, sid, command):
    return home.skep("exec", "-u", "user", sid, "--", "sh", "-c", command).ok().line


def test_it_is_an_ordinary_sandbox(home):
    s = create(home, metadata={"team": "a"})
    assert [x["id"] for x in home.ps()] == [s["sandboxID"]]
    assert home.show(s["sandboxID"])["labels"] == {"team": "a"}
    assert sh(home, s["sandboxID"], "id -un; cat /etc/passwd | grep -c '^user:'") == "user\n1"
    home.skep("stop", s["sandboxID"]).ok()
    assert detail(home, s["sandboxID"])[1]["state"] == "paused"  # files are there, nothing runs
    assert home.api("POST", f"/v2/sandboxes/{s['sandboxID']}/connect", {})[0] == 201
    assert detail(home, s["sandboxID"])[1]["state"] == "running"
    home.skep("rm", "--force", s["sandboxID"]).ok()
    assert detail(home, s["sandboxID"])[0] == 404


def test_it_outlives_skepd(home):
    s = create(home, metadata={"k": "v"}, envVars={"A": "1"})
    p = create(home)
    sh(home, s["sandboxID"], "echo kept > /home/user/file")
    assert home.api("POST", f"/sandboxes/{p['sandboxID']}/pause", {})[0] == 204
    before = detail(home, s["sandboxID"])[1]
    status, snap = home.api("POST", f"/sandboxes/{s['sandboxID']}/snapshots", {"name": "kept"})
    assert status == 201
    home.kill_skepd()
    home.skep("ps").ok()
    assert detail(home, s["sandboxID"])[1] == before
    assert before["envdAccessToken"] == s["envdAccessToken"]
    assert detail(home, p["sandboxID"])[1]["state"] == "paused"
    n = create(home, templateID=snap["snapshotID"])
    assert sh(home, n["sandboxID"], "cat /home/user/file") == "kept"
    for x in (s, p, n):
        assert home.api("DELETE", f"/sandboxes/{x['sandboxID']}")[0] == 204
    assert home.ps() == []


def test_one_name_of_a_snapshot_goes_alone(home):
    s = create(home)
    ids = []
    for tag in ("v1", "v2"):
        sh(home, s["sandboxID"], f"echo {tag} > /home/user/file")
        status, snap = home.api("POST", f"/sandboxes/{s['sandboxID']}/snapshots", {"name": f"many:{tag}"})
        assert status == 201, snap
        ids.append(snap["snapshotID"])
    assert home.api("POST", "/templates/tags", {"target": "many:v2", "tags": ["v3"]})[0] == 201
    count = len(home.skep("snapshots", "--all", "--json").json()["snapshots"])
    assert home.api("DELETE", "/templates/many:nope")[0] == 404
    assert home.api("DELETE", "/templates/many:v2")[0] == 204  # v3 is the same moment
    assert len(home.skep("snapshots", "--all", "--json").json()["snapshots"]) == count
    home.kill_skepd()
    home.skep("ps").ok()
    for tag, text in (("v1", "v1"), ("v3", "v2")):
        n = create(home, templateID=f"many:{tag}")
        assert sh(home, n["sandboxID"], "cat /home/user/file") == text
    assert home.api("POST", "/e2b/v2/sandboxes", {"templateID": ids[1]})[0] == 404
    assert home.api("DELETE", f"/templates/{quote(ids[0], safe='')}")[0] == 204
    assert len(home.skep("snapshots", "--all", "--json").json()["snapshots"]) == count - 1
    assert home.api("DELETE", "/templates/many:v3")[0] == 204  # the last one
    assert home.api("DELETE", "/templates/many:v3")[0] == 404
    assert len(home.skep("snapshots", "--all", "--json").json()["snapshots"]) == count - 2


def test_its_time_ends_without_skepd(home):
    gone, kept = create(home, timeout=2), create(home, timeout=2, autoPause=True)
    for x in (gone, kept):
        sh(home, x["sandboxID"], "echo unreviewed > /home/user/file")
    home.kill_skepd()
    time.sleep(5)  # theirs, and the grace that a skepd would have had
    home.skep("ps").ok()
    wait_for(lambda: [x["id"] for x in home.ps()] == [kept["sandboxID"]], why="the one whose time is over to go")
    assert detail(home, gone["sandboxID"])[0] == 404
    assert detail(home, kept["sandboxID"])[1]["state"] == "paused"
    assert home.api("POST", f"/v2/sandboxes/{kept['sandboxID']}/connect", {"timeout": 60})[0] == 201
    assert sh(home, kept["sandboxID"], "cat /home/user/file") == "unreviewed"


def test_what_a_token_may(home):
    keys = {s: token(home, "--scope", s).replace("skep_", "e2b_") for s in ("read", "run", "review")}
    keys["label"] = token(home, "--scope", "run", "--on", "label=team=a").replace("skep_", "e2b_")
    with serving(home) as port:

        def ask(key, method, path, body=None):
            return Caller(port)(method, path, body, {"X-API-KEY": keys[key]} if key else {})

        assert ask(None, "GET", "/v2/sandboxes")[0] == 401
        assert ask("read", "POST", "/v2/sandboxes", {"templateID": "base"})[0] == 403
        made = {k: ask(k, "POST", "/v2/sandboxes", {"templateID": "base"})[1]["sandboxID"] for k in ("run", "review", "label")}
        # what may leave is for who reviews
        assert home.show(made["run"])["net"]["preset"] is None
        assert home.show(made["review"])["net"]["preset"] == "open"
        opened = {"denyOut": ["0.0.0.0/0"], "allowOut": ["example.com"]}
        assert ask("run", "PUT", f"/sandboxes/{made['run']}/network", opened)[0] == 403
        assert ask("review", "PUT", f"/sandboxes/{made['review']}/network", opened)[0] == 204
        assert ask("run", "PUT", f"/sandboxes/{made['review']}/network", {"allow_internet_access": False})[0] == 204
        # and a token for some sees those
        assert home.show(made["label"])["labels"] == {"team": "a"}
        assert [x["sandboxID"] for x in ask("label", "GET", "/v2/sandboxes")[1]] == [made["label"]]
        assert len(ask("run", "GET", "/v2/sandboxes")[1]) == 3
        assert ask("label", "GET", f"/sandboxes/{made['run']}")[0] in (403, 404)
        assert ask("label", "DELETE", f"/sandboxes/{made['run']}")[0] in (403, 404)
        assert ask("label", "POST", "/v3/templates", {"name": "mine"})[0] == 403
        assert ask("label", "POST", f"/sandboxes/{made['label']}/snapshots", {})[0] == 201
        assert ask("run", "POST", f"/sandboxes/{made['run']}/snapshots", {})[0] == 201
        assert len(ask("label", "GET", "/snapshots")[1]) == 1
        foreign = [x["snapshotID"] for x in ask("run", "GET", f"/snapshots?sandboxID={made['run']}")[1]]
        assert ask("label", "POST", "/v2/sandboxes", {"templateID": foreign[0]})[0] == 404
        assert ask("label", "DELETE", f"/sandboxes/{made['label']}")[0] == 204


def test_the_variables(home):
    key = token(home, "--scope", "run")
    with serving(home) as port:
        status, _, data = Caller(port, key).raw("GET", "/e2b/env")
        assert status == 200
        assert data.decode() == (f"export E2B_API_KEY={key.replace('skep_', 'e2b_')}\nexport E2B_API_URL=http://127.0.0.1:{port}\n"
                                 f"export E2B_SANDBOX_URL=http://127.0.0.1:{port}\nexport E2B_VOLUME_API_URL=http://127.0.0.1:{port}\n")


def build(home, name, *commands):
    """Builds a template; its log lines."""
    status, t = home.api("POST", "/e2b/v3/templates", {"name": name})
    assert status == 202, t
    where = f"/e2b/templates/{t['templateID']}/builds/{t['buildID']}"
    steps = [{"type": "RUN", "args": [c], "force": False} for c in commands]
    assert home.api("POST", where.replace("/e2b/", "/e2b/v2/", 1), {"fromImage": "e2bdev/base", "steps": steps, "force": False})[0] == 202
    done = wait_for(lambda: (a := home.api("GET", f"{where}/status")[1])["status"] in ("ready", "error") and a, seconds=60, why="the build")
    assert done["status"] == "ready", done
    return [x["message"] for x in done["logEntries"]]


def cached(lines):
    return sum(x.startswith("CACHED ") for x in lines)


def test_cached_steps_outlive_skepd_and_go_when_they_are_in_the_way(home):
    steps = ["head -c 1500000 /dev/urandom > a", "echo b > b"]
    assert home.api("DELETE", f"/sandboxes/{create(home)['sandboxID']}")[0] == 204  # the base is there
    before = set(os.listdir(f"{home.skep_home}/layers"))
    assert cached(build(home, "one", *steps)) == 0
    home.kill_skepd()
    home.skep("ps").ok()
    assert cached(build(home, "two", *steps)) == 2
    assert home.skep("gc", "--dry-run", "--json").json()["items"] == []
    for name in ("one", "two"):
        assert home.api("DELETE", f"/templates/{name}")[0] == 204
    assert cached(build(home, "three", *steps)) == 2  # nobody's any more, and still there
    home.kill_skepd()
    db = sqlite3.connect(f"{home.skep_home}/state.db")
    with db:
        db.execute("UPDATE derived SET used=1 WHERE kind=4")
    db.close()
    home.skep("ps").ok()
    assert home.skep("gc", "--dry-run", "--json").json()["items"] == []  # a template stands on them
    assert home.api("DELETE", "/templates/three")[0] == 204
    for _ in steps:  # the later one stands on the earlier
        items = home.skep("gc", "--json").ok().json()["items"]
        assert [x["why"] for x in items if x["why"] == "not used for 30 days"] == ["not used for 30 days"], items
    wait_for(lambda: set(x for x in os.listdir(f"{home.skep_home}/layers") if not x.startswith(".")) <= before, why="the layers to go")
    assert cached(build(home, "four", *steps)) == 0
    assert home.api("DELETE", "/templates/four")[0] == 204
