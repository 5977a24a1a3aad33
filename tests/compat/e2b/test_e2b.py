# SPDX-License-Identifier: Apache-2.0
"""Suites that use E2B's own clients, unmodified: *.test.mjs the npm SDK and command line, sdk_*.py the Python one."""
import glob
import os
import shutil
import subprocess

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
NODE = sorted(os.path.basename(p) for p in glob.glob(f"{HERE}/*.test.mjs") if "network" not in p and "images" not in p)  # these have tests of their own
PYTHON = sorted(os.path.basename(p) for p in glob.glob(f"{HERE}/sdk_*.py"))


def place(e2b):
    """The suites beside what they import: a module is looked for in the directories above its importer."""
    d = f"{e2b.top}/suite"
    if not os.path.isdir(d):
        os.mkdir(d)
        os.symlink(f"{e2b.sdk}/node_modules", f"{d}/node_modules")
        for f in glob.glob(f"{HERE}/*.mjs") + glob.glob(f"{HERE}/sdk_*.py"):
            shutil.copy(f, d)
    return d


def run(e2b, argv):
    p = subprocess.run(argv, cwd=place(e2b), env=e2b.e2b_env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       timeout=180, check=False)
    e2b.watch()
    assert p.returncode == 0, p.stdout.decode("utf-8", "replace")[-6000:]


@pytest.mark.parametrize("suite", NODE)
def test_node(e2b, suite):
    run(e2b, ["node", "--test", suite])


def test_python(e2b):
    """In one process: the SDK takes seconds to be imported."""
    run(e2b, ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={e2b.top}/pt", *PYTHON])
