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
from preview_kit import wait_port

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
        assert [c for c in seen["kept"] if c[0] == "skep_preview"] == [["skep_preview", f"5173-{sid}.localhost", True, "Lax"]]
        for word in ("two", "three"):
            def edit():
                home.skep("exec", sid, "--", "sh", "-c", f"echo 'export const word = \"{word}\";' > word.js").ok()

            edit()
            assert b.until("text", word, edit)["mark"] == 1  # the same page, not loaded again
    finally:
        b.close()
    with open(f"{home.dir}/word.js") as f:
        assert f.read() == 'export const word = "one";\n'
