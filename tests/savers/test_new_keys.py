"""A new thread gets no row of another, whatever happened to keys."""

import pytest

from tests.savers.test_orphans import Place, fill, place
from tests.support.graphs import at
from tests.web.apps import GRAPHS
from tests.web.test_thread_search import served

__all__ = ["place"]

KEYS = ("-7", "0", "3", "4611686018427387904", "9223372036854775807")
NOT_TAKEN = ("'bad'", "2.5")
"""By PostgreSQL, in a column of numbers."""


async def made(place: Place) -> list[str]:
    """The values of an old thread, and the histories of two new ones."""
    async with place.saver() as saver:
        graph = GRAPHS["log"].compile(checkpointer=saver)
        found = [str((await graph.aget_state(at("good"))).values["log"][0])]
        for thread in ("new", "newer"):
            begun = [one async for one in graph.aget_state_history(at(thread))]
            await graph.ainvoke({"foo": thread, "log": [thread]}, at(thread))
            history = [one async for one in graph.aget_state_history(at(thread))]
            found += [f"{len(begun)} {len(history)} {history[0].values['log'][0]}"]
    return found


@pytest.mark.every_saver
@pytest.mark.one_loop
@pytest.mark.parametrize("key", KEYS)
async def test_after_damage_to_the_newest_threads_key(place, key):
    """
    Threads that begin after the newest thread's key has changed have their own rows alone.
    """
    await fill(place)
    place.changed(f"UPDATE threads SET thread = {key} WHERE thread_id = 'bad'")  # noqa: S608

    assert await made(place) == ["good", "0 4 new", "0 4 newer"]


@pytest.mark.every_saver
@pytest.mark.one_loop
@pytest.mark.parametrize("table", ["points", "blobs", "ranges", "writes", "runs"])
@pytest.mark.parametrize("key", ["thread + 1", "'bad'", "2.5", "9223372036854775807"])
async def test_after_damage_to_a_rows_key(place, table, key):
    """
    A row whose key is one that no thread has yet, or not a number, is in no new thread.
    """
    await fill(place)
    if place.is_sqlite:
        table = table.replace("points", "checkpoints")
    elif key in NOT_TAKEN:
        return
    place.changed(f"UPDATE {table} SET thread = {key} WHERE thread = 2")  # noqa: S608

    assert await made(place) == ["good", "0 4 new", "0 4 newer"]


@pytest.mark.one_loop
async def test_after_damage_to_a_key_of_the_index(place):
    """
    A thread that is registered after the newest one's key has changed is not found by its values.
    """
    if not place.is_sqlite:  # its index has no numbers
        return
    about = {"thread_id": "bad", "metadata": {"who": "bad"}}
    async with served(place.saver()) as client:
        await client.post("/threads", json={"thread_id": "good"})
        await client.post("/threads", json=about)
        run = {"assistant_id": "log", "input": {"foo": "secret"}}
        await client.post("/threads/bad/runs/wait", json=run)
        found = await client.post("/threads/search", json={"values": {"foo": "secret"}})
        assert [one["thread_id"] for one in found.json()] == ["bad"]
    place.changed("UPDATE thread_index SET thread = -7 WHERE thread_id = 'bad'")

    async with served(place.saver()) as client:
        await client.post("/threads", json={"thread_id": "new"})
        for wanted in ({"values": {"foo": "secret"}}, {"metadata": {"who": "bad"}}):
            found = await client.post("/threads/search", json=wanted)
            assert "new" not in [one["thread_id"] for one in found.json()]
