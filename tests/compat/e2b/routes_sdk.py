# SPDX-License-Identifier: Apache-2.0
"""The same pass as routes.mjs through the Python SDK's methods. Some requests only this SDK makes: watchers that are asked,
input as a stream."""
import uuid

from e2b import Sandbox, Secret, Template, Volume
from e2b.sandbox.commands.command_handle import PtySize

NAME = f"routes-{uuid.uuid4().hex[:12]}"


def sandbox_pass(s):
    Sandbox.list().next_items()
    s.get_info()
    s.get_metrics()
    Sandbox.connect(s.sandbox_id)
    s.set_timeout(120)
    s.update_network({"deny_out": ["203.0.113.0/24"]})
    snapshot = s.create_snapshot()
    Sandbox.list_snapshots().next_items()
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is True


def files_pass(s):
    assert s.is_running()
    watch = s.files.watch_dir(".")
    s.files.write("a", "a")
    assert s.files.read("a") == "a"
    s.files.make_dir("d")
    s.files.rename("a", "d/a")
    s.files.get_info("d/a")
    s.files.list("d")
    s.files.remove("d")
    watch.get_new_events()
    watch.stop()


def commands_pass(s):
    cat = s.commands.run("cat", background=True, stdin=True)
    s.commands.connect(cat.pid).disconnect()
    assert cat.pid in [p.pid for p in s.commands.list()]
    s.commands.stream_input(cat.pid, ["in ", b"pieces "])
    s.commands.send_stdin(cat.pid, "and whole")
    s.commands.close_stdin(cat.pid)
    assert cat.wait().stdout == "in pieces and whole"
    t = s.pty.create(PtySize(rows=24, cols=80))
    s.pty.resize(t.pid, PtySize(rows=30, cols=100))
    assert s.pty.kill(t.pid) is True


def template_pass():
    Template.build(Template().from_base_image().set_envs({"NAME": NAME}), NAME)
    assert Template.exists(NAME)
    Template.assign_tags(f"{NAME}:default", "extra")
    Template.get_tags(NAME)
    Template.remove_tags(NAME, "extra")


def volume_pass():
    v = Volume.create(NAME)
    Volume.list()
    Volume.get_info(v.volume_id)
    v.make_dir("/d")
    v.write_file("/d/f", "text")
    assert v.read_file("/d/f") == "text"
    v.list("/")
    v.get_info("/d/f")
    v.update_metadata("/d/f", mode=0o600)
    v.remove("/d")
    assert Volume.destroy(v.volume_id) is True


def secret_pass():
    Secret.create(NAME, "one")
    Secret.update(NAME, "two")
    Secret.list().next_items()
    Secret.get_info(NAME)
    assert Secret.destroy(NAME) is True


def main():
    s = Sandbox.create(timeout=120)
    try:
        for part in (sandbox_pass, files_pass, commands_pass):
            part(s)
    finally:
        assert s.kill() is True
    template_pass()
    volume_pass()
    secret_pass()


main()
