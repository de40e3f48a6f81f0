"""Temporary threads of a server: they are kept while a response reads the output of their run."""

import anyio

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.web import GraphRoutes
from tests.support.gates import PATIENCE_S, settled
from tests.support.graphs import in_a_row, writer


async def test_a_thread_stays_until_its_output_is_read():
    """
    After its run's end a temporary thread is removed when the last response that reads it is done.
    """
    graph = in_a_row({"a": writer("a")})
    async with ActorSystem({"g": graph}, saver=InMemorySaver()) as system:
        server = GraphRoutes(system).server
        await server.threads.make("t", {}, temporary=True)
        run = await system.start("g", "t", {"bar": []})
        first, second = server.temporary.reading(run), server.temporary.reading(run)
        server.temporary.remove_after(run)
        await run.wait()
        await settled()
        assert await server.threads.get("t") is not None

        first()
        await settled()
        assert await server.threads.get("t") is not None

        second()
        with anyio.fail_after(PATIENCE_S):
            while await server.threads.get("t") is not None:
                await settled()
