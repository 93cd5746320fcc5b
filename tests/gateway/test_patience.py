"""One timer for all exchanges: silence ends a block, signs of life do not, and late ones listen."""

from __future__ import annotations

import asyncio

import pytest

from gateway.patience import Patience, Watch


class Exchange:
    """Counts how often it was told to listen."""

    def __init__(self):
        self.told = asyncio.Event()

    def listen(self):
        self.told.set()


async def test_silence_ends_the_block_as_a_timeout():
    watch = Watch()
    with pytest.raises(TimeoutError), Patience(watch, first_s=0, then_s=60):
        await asyncio.Event().wait()
    # The task goes on as before: its cancellation was the block's own.
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    watch.close()


async def test_a_sign_of_life_puts_the_end_off():
    watch = Watch()
    looked_twice = Exchange()
    watch.listen_later(looked_twice)

    with Patience(watch, first_s=0, then_s=60) as patience:
        patience.touch()
        await looked_twice.told.wait()
        outlived = True

    assert outlived
    watch.close()


async def test_a_cancellation_from_outside_stays_one():
    watch = Watch()

    async def work():
        with Patience(watch, first_s=60, then_s=60):
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    watch.close()


async def test_an_exchange_that_lasts_is_told_to_listen():
    watch = Watch()
    exchange = Exchange()

    watch.listen_later(exchange)
    told_at_once = exchange.told.is_set()
    async with asyncio.timeout(60):
        await exchange.told.wait()

    assert not told_at_once
    watch.close()
