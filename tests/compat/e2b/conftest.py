# SPDX-License-Identifier: Apache-2.0
"""E2B's own clients against skepd: where they are installed, and an address they can reach it at."""
import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "e2e"))
from fixtures import *  # noqa: E402,F401,F403
from kit import ROOT, World  # noqa: E402
from tcp_kit import serving, token  # noqa: E402


@pytest.fixture(scope="session")
def sdk():
    """The directory with node_modules and py."""
    d = os.environ.get("SKEP_TEST_E2B") or os.path.join(ROOT, "build/e2b")
    subprocess.run([f"{HERE}/install", d], check=True, stdout=subprocess.DEVNULL)
    return d


@pytest.fixture(scope="module")
def e2b(sdk, programs):
    """One skepd for all suites of a module, as a platform would have it; what they leave behind is looked for at the end."""
    w = World(programs)
    w.lend()
    w.sdk = sdk
    key = token(w, "--scope", "review").replace("skep_", "e2b_")
    with serving(w) as w.port:
        url = f"http://127.0.0.1:{w.port}"
        w.e2b_env = {**w.env, "E2B_API_KEY": key, "E2B_API_URL": url, "E2B_SANDBOX_URL": url, "E2B_VOLUME_API_URL": url,
                     "PYTHONPATH": f"{sdk}/py", "PYTHONDONTWRITEBYTECODE": "1"}
        yield w
    w.close()
