# SPDX-License-Identifier: Apache-2.0
"""A Vite dev server in a sandbox, its page in a real Chromium through a preview: an edit inside shows without a reload."""
import json
import os
import shutil
import subprocess

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

    def until(self, key, value=None):
        while line := self.p.stdout.readline():
            said = json.loads(line)
            assert "error" not in said, said
            if key in said and (value is None or said[key] == value):
                return said
        raise AssertionError("the browser ended")

    def close(self):
        self.p.stdin.close()
        self.p.wait(20)
        self.p.stdout.close()


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
        home.skep("exec", sid, "--", "sh", "-c", "echo 'export const word = \"two\";' > word.js").ok()
        seen = b.until("text", "two")
        assert seen["mark"] == 1  # the same page, not loaded again
        home.skep("exec", sid, "--", "sh", "-c", "echo 'export const word = \"three\";' > word.js").ok()
        assert b.until("text", "three")["mark"] == 1
    finally:
        b.close()
    with open(f"{home.dir}/word.js") as f:
        assert f.read() == 'export const word = "one";\n'
