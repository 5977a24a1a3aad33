# SPDX-License-Identifier: Apache-2.0
"""Fixtures. Every test has its own SKEP_HOME with its own skepd, and after it nothing of that may be left:
no process, mount, cgroup, socket or layer, and no descriptor more in skepd than before an operation."""
import os
import shutil
import subprocess

import pytest

from kit import IS_ROOT, ROOT, Terminal, World

__all__ = "busybox home programs project pytest_collection_modifyitems pytest_configure pytest_runtest_makereport skep terminal".split()

MUST_RUN = os.environ.get("MUST_RUN") == "1"


def pytest_configure(config):
    config.addinivalue_line("markers", "root: needs to be root on the host")
    config.addinivalue_line("markers", "user: needs to be an ordinary user on the host")
    config.addinivalue_line("markers", "slow: takes more than a few seconds")
    config.addinivalue_line("markers", "dirty: leaves things behind on purpose; teardown does not judge")


def pytest_collection_modifyitems(items):
    # Not skips: such a test belongs to the other of the two runs.
    items[:] = [i for i in items if not (i.get_closest_marker("root") and not IS_ROOT) and not (i.get_closest_marker("user") and IS_ROOT)]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if MUST_RUN and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid}: skipped, but everything must run: {report.longrepr}"
    if report.when == "call":
        item.failed = report.failed


@pytest.fixture(scope="session")
def programs():
    """The directory with the built programs."""
    d = os.path.abspath(os.environ.get("SKEP_BUILD", os.path.join(ROOT, "build/release")))
    for p in ("skep", "skepd", "skep-cell"):
        assert os.access(f"{d}/{p}", os.X_OK), f"{d}/{p} is not built: run make"
    return d


@pytest.fixture
def home(programs, request):
    """A fresh caller with SKEP_HOME, HOME and an empty project directory; torn down with a search for leftovers."""
    w = World(programs)
    yield w
    w.close(check=not getattr(request.node, "failed", False) and not request.node.get_closest_marker("dirty"))


@pytest.fixture
def skep(home):
    return home.skep


def write_project(d):
    files = {
        "add.h": "int add(int a, int b);\n",
        "add.c": '#include "add.h"\n\nint add(int a, int b)\n{\n\treturn a + b;\n}\n',
        "main.c": '#include "add.h"\n#include <stdio.h>\n\nint main(void)\n{\n\tprintf("%d\\n", add(40, 2));\n\treturn 0;\n}\n',
        "Makefile": "answer: main.o add.o\n\t$(CC) -o $@ $^\nmain.o add.o: add.h\ntest: answer\n\ttest \"$$(./answer)\" = 42\n",
        "README": "a small project\n",
        "sub/deep/note.txt": "deep\n",
    }
    for name, content in files.items():
        path = os.path.join(d, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(content)


@pytest.fixture
def project(home):
    """The project directory as a git repository with a small C project, one commit."""
    write_project(home.dir)
    env = {**home.env, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org", "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.org"}
    for argv in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "start"]):
        subprocess.run(["git", *argv], cwd=home.dir, env=env, check=True)
    return home.dir


@pytest.fixture
def terminal(home):
    """Starts skep (or another program, given by an absolute path) on a terminal of its own."""
    opened = []

    def start(*argv, cwd=None, env=None, rows=24, cols=80):
        full = list(argv) if argv[0].startswith("/") else [f"{home.programs}/skep", *argv]
        t = Terminal(full, cwd or home.dir, {**home.env, **(env or {})}, rows, cols)
        opened.append(t)
        return t

    yield start
    for t in opened:
        t.close()


@pytest.fixture(scope="session")
def busybox():
    """A static busybox, the smallest root file system there is."""
    path = shutil.which("busybox", path="/usr/bin:/bin")
    assert path, "busybox is missing: tools/deps test"
    return path
