# SPDX-License-Identifier: Apache-2.0
"""Images by name: pulled from Debian's docker-registry, and from one that misbehaves."""
import pytest

from kit import items
from registry_kit import MACHINE, Image, busybox_layer, packed, registry, tar_of


@pytest.fixture(scope="module")
def reg(tmp_path_factory):
    with registry(str(tmp_path_factory.mktemp("registry"))) as r:
        yield r


@pytest.fixture(scope="module")
def tiny(busybox):
    """Two layers; the second one removes a file of the first."""
    return Image([busybox_layer(busybox, {"etc/first": b"one\n"}), packed(tar_of({"etc/.wh.first": b"", "etc/second": b"two\n"}))],
                 {"Env": ["PATH=/bin", "FROM_IMAGE=yes"], "WorkingDir": "/srv", "User": "app", "Cmd": ["sh"]})


def test_pull_and_run(home, skep, reg, tiny):
    reg.push("team/tiny", tiny, "1.0")
    ref = f"{reg.host}/team/tiny:1.0"
    iid = skep("image", "pull", ref).ok().line
    row = items(skep("image", "ls", "--json").json(), "images")[0]
    assert row["id"] == iid and row["source"] == ref and row["digest"] == tiny.digest
    r = skep("run", "--image", ref, "--empty", "--", "sh", "-c", "cat /etc/second; test ! -e /etc/first").ok()
    assert r.out == "two\n"
