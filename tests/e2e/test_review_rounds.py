# SPDX-License-Identifier: Apache-2.0
"""Apply after apply: whatever a sandbox did between two of them, the project then has the files that the sandbox has."""
import os
import random
import shutil
import subprocess

import pytest

NAMES = [f"{d}{n}" for d in ("", "d/", "d/e/", "k/") for n in ("a", "b", "c")]
SCRIPT = """
import os, shutil, sys
for line in sys.stdin.read().splitlines():
    verb, *args = line.split(" ")
    try:
        if verb == "write":
            os.makedirs(os.path.dirname(args[0]) or ".", exist_ok=True)
            with open(args[0], "w") as f:
                f.write(args[1] + "\\n")
        elif verb == "rm":
            os.unlink(args[0])
        elif verb == "rmtree":
            shutil.rmtree(args[0])
        elif verb == "move":
            os.makedirs(os.path.dirname(args[1]) or ".", exist_ok=True)
            os.rename(*args)
        elif verb == "link":
            os.symlink(args[1], args[0])
        elif verb == "exec":
            os.chmod(args[0], 0o755)
    except OSError:
        pass  # both sides refuse the same
"""


def steps(r):
    """Few names and few contents, so that what was there before comes back often, also as another kind of thing."""
    for _ in range(r.randrange(3, 12)):
        verb = r.choice(["write"] * 5 + ["rm", "rm", "rmtree", "move", "move", "link", "exec", "file"])
        if verb == "write":
            yield f"write {r.choice(NAMES)} {r.choice('xyz')}"
        elif verb == "rmtree":
            yield f"rmtree {r.choice(['d', 'd/e', 'k'])}"
        elif verb == "move":
            yield f"move {r.choice(NAMES + ['d', 'k'])} {r.choice(NAMES + ['k', 'd'])}"
        elif verb == "link":
            yield f"link {r.choice(NAMES)} {r.choice('xyz')}"
        elif verb == "file":
            yield f"write {r.choice(['d', 'k'])} {r.choice('xyz')}"
        else:
            yield f"{verb} {r.choice(NAMES)}"


def files(top):
    found = {}
    for d, ds, fs in os.walk(top):
        ds[:] = [n for n in ds if n != ".git"]
        for n in fs + [n for n in ds if os.path.islink(f"{d}/{n}")]:
            p = f"{d}/{n}"
            if os.path.islink(p):
                found[os.path.relpath(p, top)] = f"-> {os.readlink(p)}"
            else:
                with open(p, encoding="utf-8") as f:
                    found[os.path.relpath(p, top)] = f"{os.access(p, os.X_OK)} {f.read()}"
    return found


@pytest.mark.parametrize("base", ["live", "frozen"])
@pytest.mark.parametrize("seed", [int(s) for s in os.environ.get("SKEP_SEEDS", "1,2").split(",")])
def test_the_project_follows(home, skep, base, seed):
    r, model = random.Random(seed), f"{home.top}/model"
    subprocess.run(["git", "init", "-q", home.dir], check=True, env=home.env)
    for n in NAMES[:8]:
        os.makedirs(os.path.dirname(f"{home.dir}/{n}"), exist_ok=True)
        with open(f"{home.dir}/{n}", "w", encoding="utf-8") as f:
            f.write("x\n")
    subprocess.run("git add . && git -c user.name=a -c user.email=a@a commit -qm all", shell=True, check=True, cwd=home.dir, env=home.env)
    shutil.copytree(home.dir, model, symlinks=True)
    sid = home.new(*(["--pin"] if base == "frozen" else []))
    for n in range(12):
        todo = "\n".join(steps(r)).encode()
        skep("exec", "-i", sid, "--", "/usr/bin/python3", "-c", SCRIPT, stdin=todo).ok()
        subprocess.run(["/usr/bin/python3", "-c", SCRIPT], input=todo, cwd=model, check=True)
        applied = skep("apply", "--yes", "--accept-risk", sid).ok()
        assert files(home.dir) == files(model), f"round {n}:\n{todo.decode()}\n{applied.err}"
        assert skep("diff", sid).ok().out.strip() in ("", "nothing is pending"), f"round {n}"
        if n % 4 == 2:  # one back, and there again
            skep("undo", sid).ok()
            skep("apply", "--yes", "--accept-risk", sid).ok()
            assert files(home.dir) == files(model), f"round {n}, after an undo"
