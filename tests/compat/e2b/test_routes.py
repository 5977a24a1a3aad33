# SPDX-License-Identifier: Apache-2.0
"""docs/e2b.md lists what is served of E2B's wire: calls of the SDKs reach every route of that list and no other, and what
it lists as not served is refused as it says."""
import json
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request

import pytest
from kit import ROOT
from recorder import Recorder
from test_e2b import HERE, place

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # whatever proxy the environment names
CLIENTS = {"js": ["node", "--test", "routes.mjs"], "python": ["/usr/bin/python3", "routes_sdk.py"]}
PORTS = {"control plane": None, "envd": "49983", "port 49999": "49999"}


def listed():
    """{plane: [request]} of the tables in the page."""
    with open(f"{ROOT}/docs/e2b.md", encoding="utf-8") as f:
        tables = re.findall(r"^### Served: ([a-z ]+)\n(.*?)(?=^###|^<!--)", f.read(), re.M | re.S)
    return {plane: re.findall(r"^\| `([A-Z]+ /[^`]*)`", rows, re.M) for plane, rows in tables}


def refused():
    """[(plane, method, path, body or None, status)] of the def file."""
    rows, plane = [], None
    with open(f"{HERE}/routes.def", encoding="utf-8") as f:
        for line in f.read().splitlines():
            if line.startswith("["):
                plane = line.strip("[]").partition("not served: ")[2]
            elif plane and line:
                request, status, _ = line.split(" | ")
                method, path, *body = request.split(" ", 2)
                rows.append((plane, method, path, body[0] if body else None, int(status)))
    return rows


def plane_of(target, fields):
    if fields.get("e2b-sandbox-id") or target.startswith("/files?"):
        return "envd"
    return "control plane"


def request_of(requests, method, target):
    """The row that a request belongs to: words of a path count before its {}. None: it is not listed."""
    parts = target.partition("?")[0].removeprefix("/e2b").split("/")
    fits = []
    for row in requests:
        verb, path = row.split(" ")
        words = path.split("/")
        if verb == method and len(words) == len(parts) and all(w in ("{}", p) for w, p in zip(words, parts)):
            fits.append((path.count("{}"), row))
    return min(fits)[1] if fits else None


def calls_recorded(e2b):
    """The requests of both SDKs, which run beside each other, each through a recorder of its own."""
    suite = place(e2b)
    for f in ("routes.mjs", "routes_sdk.py"):
        shutil.copy(f"{HERE}/{f}", suite)
    with Recorder(e2b.port) as js, Recorder(e2b.port) as python:
        running = []
        for recorder, argv in zip((js, python), CLIENTS.values()):
            url = f"http://127.0.0.1:{recorder.port}"
            env = {**e2b.e2b_env, "E2B_API_URL": url, "E2B_SANDBOX_URL": url, "E2B_VOLUME_API_URL": url}
            running.append(subprocess.Popen(argv, cwd=suite, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        try:
            said = [p.communicate(timeout=180)[0].decode("utf-8", "replace") for p in running]
        finally:
            for p in running:
                p.kill()
                p.wait()
        seen = js.seen + python.seen
    for p, text in zip(running, said):
        assert p.returncode == 0, (text[-6000:], [x for x in seen if x[3] >= 400])
    return seen


def test_calls_of_the_sdks_reach_every_route(e2b):
    tables = listed()
    assert len(tables["control plane"]) > 40 and len(tables["envd"]) > 20, tables
    missing, unlisted = {(plane, r) for plane, rows in tables.items() for r in rows}, []
    for method, target, fields, status in calls_recorded(e2b):
        plane = plane_of(target, fields)
        row = request_of(tables[plane], method, target)
        if status < 300:
            missing.discard((plane, row))
            if row is None:
                unlisted.append((method, target, status))
    assert not unlisted, f"served, and docs/e2b.md does not list it: {unlisted}"
    assert not missing, f"docs/e2b.md lists what no call of the SDKs reached: {sorted(missing)}"


@pytest.fixture(scope="module")
def sandbox(e2b):
    """The answer to a create: an id and the token for envd."""
    status, box = answer_of(e2b, "POST", "/v2/sandboxes", '{"templateID": "base", "timeout": 120}', {})
    assert status == 201, box
    yield box
    assert answer_of(e2b, "DELETE", f"/sandboxes/{box['sandboxID']}", None, {})[0] == 204


def answer_of(e2b, method, target, body, fields):
    fields = {"X-API-KEY": e2b.e2b_env["E2B_API_KEY"], **fields, **({"Content-Type": "application/json"} if body else {})}
    q = urllib.request.Request(f"http://127.0.0.1:{e2b.port}{target}", method=method, data=body.encode() if body else None, headers=fields)
    try:
        with DIRECT.open(q, timeout=60) as r:
            status, text = r.status, r.read()
    except urllib.error.HTTPError as e:
        status, text = e.code, e.read()
    return status, json.loads(text) if text else None


def test_what_is_not_served_is_refused_as_listed(e2b, sandbox):
    """Each in the form that makes the SDKs throw their own exception: the status, again in the body, and a message."""
    rows = refused()
    assert len(rows) > 15
    for plane, method, path, body, status in rows:
        fields = {}
        if PORTS[plane]:
            fields = {"E2b-Sandbox-Id": sandbox["sandboxID"], "E2b-Sandbox-Port": PORTS[plane], "X-Access-Token": sandbox["envdAccessToken"]}
        got, answer = answer_of(e2b, method, path.replace("{}", "base"), body, fields)
        assert (got, answer["code"]) == (status, status) and answer["message"], (method, path, body, got, answer)
