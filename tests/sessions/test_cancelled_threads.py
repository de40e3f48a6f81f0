"""Work in a thread, cancelled: its caller waits for it, and takes nothing done for undone."""

import asyncio
import threading

import anyio
import pytest

from actorgraph.caches import BaseCache, InMemoryCache
from actorgraph.loops import on_trio
from actorgraph.sessions import SessionSaver, session
from tests.support.gates import PATIENCE_S


class Held:
    """A function that stays in its thread until it is let out."""

    def __init__(self) -> None:
        self.entered, self.out = anyio.Event(), threading.Event()
        self.left = False

    def __call__(self, *_, **__):
        anyio.from_thread.run_sync(self.entered.set)
        assert self.out.wait(PATIENCE_S)
        self.left = True


class HeldCache(InMemoryCache):
    """A program's cache with a blocking `set`."""

    aset = BaseCache.aset

    def __init__(self, held):
        super().__init__()
        self.set = held


class HeldSaver(SessionSaver):
    """Keeps sessions; `put` takes its time."""

    def __init__(self, held):
        super().__init__()
        self._held = held

    def put(self, *args, **options):
        self._held()
        return super().put(*args, **options)


class Forwarding:
    """A program's saver of sessions: not one of this library, so it is called in a thread."""

    def __init__(self, inner):
        self.get, self.put, self.list, self.delete = inner.get, inner.put, inner.list, inner.delete


async def cache(held):
    await HeldCache(held).aset({})


async def turn(held):
    async with session("t") as turns:
        await turns.aturn(held)


async def put(held):
    async with session("t", Forwarding(HeldSaver(held))) as turns:
        await turns.aturn(asyncless)


def asyncless():
    return 1


@pytest.mark.parametrize("call", [cache, turn, put], ids=lambda call: call.__name__)
async def test_a_cancelled_caller_waits_for_its_thread(call):
    """
    Cancelled while a function of a program runs in a thread, the call ends with the function.
    """
    held = Held()
    if on_trio():
        async with anyio.create_task_group() as group:
            group.start_soon(call, held)
            await held.entered.wait()
            group.cancel_scope.cancel()
            held.out.set()
    else:
        task = asyncio.ensure_future(call(held))
        await held.entered.wait()
        task.cancel()
        for _ in range(30):
            await anyio.lowlevel.checkpoint()
        waits = not task.done()
        held.out.set()
        await asyncio.wait([task])
        assert waits

    assert held.left
