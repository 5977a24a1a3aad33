# SPDX-License-Identifier: Apache-2.0
"""The Python SDK, the asynchronous one."""
import asyncio
import functools

import pytest
from e2b import AsyncSandbox, CommandExitException, NotFoundException, SandboxState


def run(test):
    @functools.wraps(test)
    def sync():
        asyncio.run(test())

    return sync


@run
async def test_life():
    s = await AsyncSandbox.create(timeout=60, metadata={"a": "b"}, envs={"FOO": "bar"})
    try:
        assert await s.is_running()
        assert (await s.commands.run("whoami; echo $FOO")).stdout == "user\nbar\n"
        with pytest.raises(CommandExitException):
            await s.commands.run("exit 1")
        await s.pause()
        assert (await s.get_info()).state == SandboxState.PAUSED
        await s.connect()
        assert await s.is_running()
    finally:
        assert await s.kill()
    with pytest.raises(NotFoundException):
        await AsyncSandbox.connect(s.sandbox_id)


@run
async def test_many_at_once():
    all_of_them = await asyncio.gather(*(AsyncSandbox.create() for _ in range(5)))
    said = await asyncio.gather(*(s.commands.run("echo $E2B_SANDBOX_ID") for s in all_of_them))
    assert [x.stdout.strip() for x in said] == [s.sandbox_id for s in all_of_them]
    await asyncio.gather(*(s.kill() for s in all_of_them))
