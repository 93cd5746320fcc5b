"""The end of a gateway: what works beside serving ends, whatever swallows a cancellation."""

from __future__ import annotations

import asyncio

from gateway.runtime import _end


async def test_a_task_that_swallows_a_cancellation_is_cancelled_again():
    swallowed = []

    async def stubborn():
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if swallowed:
                    raise
                swallowed.append("once")

    tasks = [asyncio.create_task(stubborn()), asyncio.create_task(asyncio.sleep(3600))]
    await asyncio.sleep(0)
    await _end(tasks)
    assert swallowed == ["once"]
    assert all(task.cancelled() for task in tasks)
