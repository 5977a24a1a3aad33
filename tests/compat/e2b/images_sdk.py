# SPDX-License-Identifier: Apache-2.0
"""Run by test_images.py: the Python SDK builds on images by their names."""
import os
import uuid

import pytest
from e2b import Sandbox, Template, wait_for_timeout
from e2b.exceptions import BuildException

PRIVATE = os.environ["SKEP_TEST_PRIVATE"]


@pytest.fixture
def made():
    boxes = []
    yield boxes
    for s in boxes:
        s.kill()


def build(template, made):
    name, lines = f"img-{uuid.uuid4().hex[:10]}", []
    Template.build(template, name, on_build_logs=lambda line: lines.append(line.message))
    made.append(Sandbox.create(name))
    return made[-1], lines


def out(s, command):
    return s.commands.run(command).stdout.strip()


def test_a_tag(made):
    s, lines = build(Template().from_image("debian:13").run_cmd("id -un; cat /etc/which; echo $FROM_IMAGE"), made)
    assert any("Pulling docker.io/library/debian:13" in x for x in lines)
    assert out(s, "cat /etc/which; whoami; id -u; echo $FROM_IMAGE; pwd") == "two\nuser\n1000\nyes\n/home/user"


def test_a_digest(made):
    s, _ = build(Template().from_image("debian@" + os.environ["SKEP_TEST_DIGEST"]), made)
    assert out(s, "cat /etc/which") == "one"


def test_a_login(made):
    s, _ = build(Template().from_image(f"{PRIVATE}/ann/tool:1", username="ann", password="s:ecret"), made)
    assert out(s, "cat /etc/which") == "one"
    with pytest.raises(BuildException, match="refuses the login|gives no access"):
        build(Template().from_image(f"{PRIVATE}/ann/tool:1", username="ann", password="wrong"), made)


def test_a_dockerfile(made, tmp_path):
    (tmp_path / "greeting.txt").write_text("hello from a file\n")
    docker = """FROM debian:12
ENV STAGE=built
WORKDIR /opt/app
COPY greeting.txt /opt/app/greeting.txt
RUN echo "$STAGE $FROM_IMAGE" > made.txt
USER user
CMD sleep 1000
"""
    # the SDK waits 20 seconds for what CMD starts, unless it is told when that is ready
    t = Template(file_context_path=str(tmp_path)).from_dockerfile(docker).set_start_cmd("sleep 1000", wait_for_timeout(100))
    s, _ = build(t, made)
    assert out(s, "cat /opt/app/made.txt /opt/app/greeting.txt; echo $STAGE") == "built yes\nhello from a file\nbuilt"
    assert out(s, "whoami; pwd") == "user\n/opt/app"
    assert any("sleep" in (p.cmd + " ".join(p.args)) for p in s.commands.list())


@pytest.mark.parametrize("image, words", [
    ("nobody/has-this:1", "no such image or tag"),
    ("Not A Reference", "malformed|lower case"),
    ("team/nobash", "no /bin/bash"),
    ("localhost:1/x", "localhost:1"),
])
def test_refusals(made, image, words):
    with pytest.raises(BuildException, match=words):
        build(Template().from_image(image).run_cmd("true"), made)
