"""Text like SQL or a JSON path is data to every saver: in filters, ids, bounds, metadata."""

import sqlite3
from contextlib import closing

import pytest

from actorgraph import InvalidConfigError
from actorgraph.testing.conformance.harness import at_once
from tests.savers.test_langgraph_methods import put
from tests.stores.test_injection import EVIL
from tests.support.graphs import ab, at, history

pytestmark = pytest.mark.every_saver

TABLES = {
    "sqlite": "SELECT sql FROM sqlite_schema ORDER BY name",
    "postgres": "SELECT table_name, column_name FROM information_schema.columns "
    "WHERE table_schema = current_schema() ORDER BY 1, 2",
}


def tables(store, request):
    """The definitions of the tables; nothing for kinds that have none."""
    if store.kind == "sqlite":
        with closing(sqlite3.connect(store.path)) as file:
            return file.execute(TABLES["sqlite"]).fetchall()
    if store.kind == "postgres":
        with request.getfixturevalue("postgres").connect(store.schema) as db:
            return db.execute(TABLES["postgres"]).fetchall()
    return []


@pytest.mark.promise("T32")
@pytest.mark.every_loop("sqlite-memory")
async def test_filters_are_data(saver, store, request):
    """
    As field or value of a filter over all threads, and as metadata of a row beside, none of three
    hundred texts finds another thread's row or changes a table.
    """
    await put(saver, at("other"), 0, word="x", n=1)
    before = tables(store, request)
    found: list = []

    async def search(wanted) -> None:
        found.extend([p async for p in saver.alist(None, filter=wanted)])

    await at_once(search, [{text: "x"} for text in EVIL] + [{"word": text} for text in EVIL])
    for text in EVIL[:12]:
        await put(saver, at("mine"), 0, **{text: text})
        await search({text: "other"})
        (own,) = [p async for p in saver.alist(None, filter={text: text})]
        assert own.config["configurable"]["thread_id"] == "mine"

    assert found == []
    assert tables(store, request) == before
    assert (await saver.aget_tuple(at("other"))).metadata["word"] == "x"


@pytest.mark.promise("T32")
@pytest.mark.every_loop("sqlite-memory")
async def test_ids_and_bounds_are_data(saver):
    """
    As thread, namespace or checkpoint they address nothing that is there, or are refused; a limit
    or a bound that is text is refused.
    """
    kept, graph = await put(saver, at("other"), 0), ab(saver)

    async def look(text: str) -> None:
        for config in (at(text), at("other", checkpoint_ns=text), at("other", checkpoint_id=text)):
            try:
                found = await saver.aget_tuple(config)
            except InvalidConfigError:
                continue
            assert found is None, text

    await at_once(look, EVIL)
    for text in [*EVIL[:20], -1, True, 1.5]:
        with pytest.raises(InvalidConfigError):
            [p async for p in saver.alist(at("other"), limit=text)]
        with pytest.raises(InvalidConfigError):
            await saver.alist_metadata("other", limit=text)
        with pytest.raises(InvalidConfigError):
            await history(graph, at("other"), limit=text)
    for text in EVIL[:20]:
        with pytest.raises(InvalidConfigError):
            [p async for p in saver.alist(at("other"), before=at("other", checkpoint_id=text))]
        try:
            await saver.adelete_thread(text)
        except InvalidConfigError:
            continue
    assert (await saver.aget_tuple(at("other"))).config == kept
