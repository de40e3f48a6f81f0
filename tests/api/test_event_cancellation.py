"""Readers of event streams that are cancelled in the middle of an event."""

import asyncio
from typing import Any

import anyio
import pytest

from actorgraph import StreamTransformer, UpdatesTransformer
from tests.api.test_stream_transformers import Counter
from tests.support.gates import PATIENCE_S, settled
from tests.support.graphs import ab


class Slow(StreamTransformer):
    """Waits at a gate in the middle of the first update."""

    required_stream_modes = ("updates",)

    def __init__(self, entered: anyio.Event, out: anyio.Event) -> None:
        super().__init__()
        self._entered, self._out = entered, out

    def init(self) -> dict[str, Any]:
        return {}

    async def aprocess(self, event) -> bool:
        if event["method"] == "updates":
            self._entered.set()
            await self._out.wait()
        return True


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("cancels", [1, 3])
async def test_an_event_is_shown_to_all_however_its_reader_is_cancelled(cancels):
    """
    `task.cancel()`, which goes through shields, does not keep an event from the transformers that
    have not seen it yet, nor from the other readers.
    """
    entered, out = anyio.Event(), anyio.Event()
    made = [lambda _: Slow(entered, out), Counter, UpdatesTransformer]
    with anyio.fail_after(PATIENCE_S):
        async with ab().astream_events({}, version="v3", transformers=made) as run:
            updates = aiter(run.updates)
            task = asyncio.create_task(anext(updates))
            await entered.wait()
            for _ in range(cancels):
                task.cancel()
                await settled()
            assert not task.done()
            out.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            told = [update async for update in updates]

    assert [list(update) for update in told] == [["a"], ["b"]]
    assert run.extensions["counter"].ends == ["finalized"]
