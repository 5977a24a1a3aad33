# SPDX-License-Identifier: Apache-2.0
"""A Vite dev server in a sandbox, its page in a real Chromium through a preview: an edit inside shows without a reload."""
import json
import os
import queue
import shutil
import subprocess
import threading
import time

import pytest

from kit import ROOT
from preview_kit import SERVER, end, link, serve, wait_port

CHROMIUM = shutil.which("chromium")
AGENTS = os.environ.get("SKEP_TEST_AGENTS") or f"{ROOT}/build/agents"
VITE = f"{AGENTS}/node_modules/vite/bin/vite.js"

NODE = os.path.realpath(shutil.which("node") or "node")

PAGE = '<!doctype html><title>t</title><div id="app"></div><script type="module" src="/main.js"></script>\n'
MAIN = """import { word } from "./word.js";
const show = (w) => { document.querySelector("#app").textContent = w; };
show(word);
if (import.meta.hot) import.meta.hot.accept("./word.js", (m) => show(m.word));
"""


def mounts():
    """Vite, and node where it is not part of the system directories."""
    flags = ["--mount", f"{AGENTS}:{AGENTS}:ro"]
    if not NODE.startswith("/usr/"):
        where = os.path.dirname(os.path.dirname(NODE))
        flags += ["--mount", f"{where}:{where}:ro"]
    return flags


class Browser:
    def __init__(self, home, url):
        self.p = subprocess.Popen(["node", f"{ROOT}/tests/e2e/browser.mjs", f"{AGENTS}/node_modules", CHROMIUM, url, f"{home.top}/profile"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "HOME": home.top})

        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.p.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def until(self, key, value=None, again=lambda: None):
        """again: what may have come before the page listened"""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                line = self.lines.get(timeout=2)
            except queue.Empty:
                again()
                continue
            assert line, "the browser ended"
            said = json.loads(line)
            assert "error" not in said, said
            if key in said and (value is None or said[key] == value):
                return said
        raise AssertionError(f"the browser never said {key} {value}")

    def close(self):
        self.p.stdin.close()
        try:
            self.p.wait(20)
        finally:
            self.p.kill()


@pytest.mark.skipif(not CHROMIUM or not os.path.exists(VITE), reason="chromium or vite is not installed")
def test_hot_reload(home):
    for name, content in (("index.html", PAGE), ("main.js", MAIN), ("word.js", 'export const word = "one";\n')):
        with open(f"{home.dir}/{name}", "w") as f:
            f.write(content)
    sid = home.new(*mounts())
    home.skep("exec", "-d", sid, "--", NODE, VITE, "--port", "5173", "--strictPort").ok()
    wait_port(home, sid, 5173)
    url = home.skep("preview", "--no-open", sid, "5173").ok().out.strip()
    b = Browser(home, url)
    try:
        seen = b.until("status")
        assert seen["status"] == 200 and "skep_preview" not in seen["url"] and seen["cookie"] == ""
        assert [c for c in seen["kept"] if c[0] == "skep_preview"] == [["skep_preview", f"5173-{sid}.localhost", True, "Strict"]]
        for word in ("two", "three"):
            def edit():
                home.skep("exec", sid, "--", "sh", "-c", f"echo 'export const word = \"{word}\";' > word.js").ok()

            edit()
            assert b.until("text", word, edit)["mark"] == 1  # the same page, not loaded again
    finally:
        b.close()
    with open(f"{home.dir}/word.js") as f:
        assert f.read() == 'export const word = "one";\n'


# Says what it was asked for, beside what the server of preview_kit says.
ASKED = """
import http.server
inner = http.server.BaseHTTPRequestHandler.parse_request
def parse(self):
    ok = inner(self)
    if ok and (self.command == "POST" or "Upgrade" in self.headers):
        open("/tmp/asked", "a").write(f"{self.command} {self.path}\\n")
    return ok
http.server.BaseHTTPRequestHandler.parse_request = parse
"""


@pytest.mark.skipif(not CHROMIUM or not os.path.exists(VITE), reason="chromium or its driver is not installed")
def test_a_page_of_one_sandbox_and_the_preview_of_another(home):
    """Under one public name both are one site, so the browser adds the user's cookie to what one of them asks of the other."""
    sids = [home.new("--empty"), home.new("--empty")]
    servers = [serve(home, sid, 3000, ASKED + SERVER) for sid in sids]
    home.skep("token", "new", "--name", "one").ok()  # a listener that nobody could use is refused
    status, made = home.api("POST", "/v1/listeners", {"address": "127.0.0.1:0", "public_urls": ["http://skep.test"]})
    assert status == 201, made
    links = [link(home, sid, 3000)["url"] for sid in sids]
    assert all(x.startswith(f"http://3000-{sid}.skep.test/?") for x, sid in zip(links, sids)), links
    p = subprocess.run(["node", f"{ROOT}/tests/e2e/neighbour.mjs", f"{AGENTS}/node_modules", CHROMIUM, f"{home.top}/profile", "skep.test", made["address"], *links],
                       env={**os.environ, "HOME": home.top}, capture_output=True, timeout=120, check=False)
    assert p.returncode == 0, p.stderr.decode()
    seen = json.loads(p.stdout)
    assert seen["opened"] == [["", ["Strict"]]] * 2
    assert seen["own"]["socket"] == "open" and seen["own"]["read"] == 200 and "hello" in seen["own"]["framed"]
    assert seen["other"]["socket"] == "refused" and seen["other"]["read"] == "refused" and "hello" not in seen["other"]["framed"]
    asked = [home.skep("exec", sid, "--", "sh", "-c", "cat /tmp/asked || true").ok().out.split("\n") for sid in sids]
    assert "GET /ws" in asked[0] and "POST /" in asked[0] and "POST /form" in asked[0], asked
    assert asked[1] == [""], "what was meant for the other one has reached it"
    for s in servers:
        end(s)
