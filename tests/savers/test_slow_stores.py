"""The event loop while a store takes its time."""

import threading
from functools import partial

import anyio
import pytest

from actorgraph.savers.jsonl import saver as jsonl
from actorgraph.savers.postgres.engine import Engine
from actorgraph.savers.sqlite import saver as sqlite
from tests.savers.test_langgraph_methods import put
from tests.support.every_saver import stored_in
from tests.support.gates import PATIENCE_S, patient_group
from tests.support.graphs import at

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]

CALLS = {
    "sqlite": {"put": (sqlite, "run_batch"), "get": (sqlite, "run_queries")},
    "jsonl": {"put": (jsonl, "run_batch"), "get": (jsonl, "run_queries")},
    "postgres": {"put": (Engine, "write"), "get": (Engine, "read")},
}
"""Functions that touch the disk or the network."""


@pytest.fixture(params=CALLS)
def store(request, tmp_path):
    """A place of each kind that does I/O."""
    with stored_in(request, request.param, tmp_path) as made:
        yield made


@pytest.mark.promise("D14", "D16")
@pytest.mark.parametrize("what", ["put", "get"])
async def test_the_loop_goes_on(store, what, monkeypatch):
    """
    While a put, or a read, waits for the disk or the server, other tasks of the loop run, and it
    is they who let it go on.
    """
    entered, out = threading.Event(), threading.Event()
    place, name = CALLS[store.kind][what]
    call = getattr(place, name)

    def slow(*given, **named):
        entered.set()
        assert out.wait(PATIENCE_S), "no other task ran"
        return call(*given, **named)

    async with store.saver() as saver:
        config = await put(saver, at(), 0)
        monkeypatch.setattr(place, name, slow)
        calls = {"put": partial(put, saver, config, 1), "get": partial(saver.aget_tuple, config)}
        async with patient_group() as group:
            group.start_soon(calls[what])
            while not entered.is_set():
                await anyio.lowlevel.checkpoint()
            for _ in range(100):
                await anyio.lowlevel.checkpoint()
            out.set()

        assert (await saver.aget_tuple(at())).metadata["step"] == (1 if what == "put" else 0)
