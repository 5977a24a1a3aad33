# SPDX-License-Identifier: Apache-2.0
"""Templates on images of a registry: Debian's docker-registry stands for Docker Hub, a second one wants a login."""
import os
import re
import shutil
import subprocess

import pytest

from net_kit import user_config
from registry_kit import Image, packed, registry, tar_of
from test_e2b import place, run

HERE = os.path.dirname(os.path.abspath(__file__))
APPLETS = ("ls cat echo id mkdir rm touch test true false env wc sleep grep sed cp chown chmod dirname basename mktemp tar gzip find head "
           "tail whoami pwd stat sort tr cut readlink ln mv date printenv").split()


def bash_layer(busybox):
    """bash of this machine with its libraries, and busybox for the rest: what E2B's clients need of an image."""
    bash = os.path.realpath(shutil.which("bash", path="/usr/bin:/bin"))
    libraries = re.findall(r"(?:=> |^\t)(/\S+)", subprocess.run(["ldd", bash], check=True, capture_output=True, text=True).stdout, re.M)
    files = {"etc": None, "bin": None, "tmp": None, "usr": None, "usr/bin": None, "usr/local": None, "usr/local/bin": None, "root": None, "home": None}
    for path in [bash, *libraries]:
        name = "bin/bash" if path == bash else path.lstrip("/")
        for i in range(1, name.count("/") + 1):
            files.setdefault("/".join(name.split("/")[:i]), None)
        with open(path, "rb") as f:
            files[name] = f.read()
    with open(busybox, "rb") as f:
        files["bin/busybox"] = f.read()
    files["bin/sh"] = ("bash",)
    files.update({f"bin/{a}": ("busybox",) for a in APPLETS})
    files["etc/passwd"] = b"root:x:0:0:root:/root:/bin/bash\nubuntu:x:1000:1000::/home/ubuntu:/bin/bash\n"
    files["etc/group"] = b"root:x:0:\nubuntu:x:1000:\n"
    return packed(tar_of(files))


@pytest.fixture(scope="module")
def images(e2b, busybox, tmp_path_factory):
    base = bash_layer(busybox)
    env = {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "FROM_IMAGE=yes"], "Cmd": ["/bin/sh"]}
    one, two = (Image([base, packed(tar_of({"etc/which": w}))], env) for w in (b"one\n", b"two\n"))
    with registry(str(tmp_path_factory.mktemp("hub"))) as hub, registry(str(tmp_path_factory.mktemp("private")), login=("ann", "s:ecret")) as private:
        hub.push("library/debian", one, "12")
        hub.push("library/debian", two, "13")
        hub.push("team/nobash", Image([packed(tar_of({"bin": None, "etc": None, "bin/sh": ("busybox",), "bin/busybox": open(busybox, "rb").read(),
                                                             "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\n"}))]))
        private.push("ann/tool", one, "1")
        user_config(e2b, f"image_mirrors: ['docker.io=http://{hub.host}']\nimage_insecure: ['{private.host}']\n")
        e2b.e2b_env.update(SKEP_TEST_DIGEST=one.digest, SKEP_TEST_PRIVATE=private.host)
        d = place(e2b)
        for f in ("images_sdk.py", "images.test.mjs"):
            if not os.path.exists(f"{d}/{f}"):
                shutil.copy(f"{HERE}/{f}", d)
        yield hub


def test_node_images(e2b, images):
    run(e2b, ["node", "--test", "images.test.mjs"])


def test_python_images(e2b, images):
    run(e2b, ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={e2b.top}/pt", "images_sdk.py"])
