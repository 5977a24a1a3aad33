# SPDX-License-Identifier: Apache-2.0
"""The fixtures of the end-to-end tests, and where the agents and the protocol's own programs are installed."""
import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from fixtures import *  # noqa: E402,F401,F403
from kit import ROOT  # noqa: E402


@pytest.fixture(scope="session")
def agents():
    """The directory with node_modules/.bin/{claude,codex}."""
    d = os.environ.get("SKEP_TEST_AGENTS") or os.path.join(ROOT, "build/agents")
    subprocess.run([f"{HERE}/install", d], check=True, stdout=subprocess.DEVNULL)
    return d


@pytest.fixture(scope="session")
def packages():
    """The directory with the protocol's conformance suite, inspector and client libraries, and a node for them."""
    beside = os.environ.get("SKEP_TEST_AGENTS")
    d = os.environ.get("SKEP_TEST_MCP") or (os.path.join(os.path.dirname(beside), "mcp") if beside else os.path.join(ROOT, "build/mcp"))
    subprocess.run([os.path.join(os.path.dirname(HERE), "mcp/install"), d], check=True, stdout=subprocess.DEVNULL)
    return d
