"""Damage to keys, names and the index of threads, which no checksum covers: others are found."""

import sqlite3
from contextlib import closing
from operator import add
from typing import Annotated, Any, TypedDict

import pytest
from structlog.testing import capture_logs

from actorgraph import ActorSystem
from actorgraph.errors import StorageError
from tests.support.every_saver import stored_in
from tests.support.graphs import in_a_row


class State(TypedDict, total=False):
    foo: str
    log: Annotated[list[str], add]
    huge: Any


async def work(state: State) -> State:
    return {"foo": "a text of a row of its own", "log": ["done"]}


async def large(state: State) -> State:
    return {"huge": 7**6000}


def graph(**options: Any) -> Any:
    return in_a_row({"work": work, "again": work}, schema=State, **options)


NOT_UTF8 = "CAST(x'fffe' AS TEXT)"
DAMAGE_BLOB = f"""
UPDATE blobs SET channel = {NOT_UTF8}
WHERE version = 1 AND thread = (SELECT thread FROM threads WHERE thread_id = 'bad')
"""  # noqa: S608
INDEX = {
    "id": f"thread_id = {NOT_UTF8}",
    "printable id": "thread_id = char(1) || 'x'",
    "graph": f"graph = {NOT_UTF8}",
    "status": f"status = {NOT_UTF8}",
    "word": "status = 'asleep'",
    "times": "created = 'then', updated = -7, state_updated = 4611686018427387904",
    "steps": "steps = 'many'",
    "metadata": f"metadata = {NOT_UTF8}",
    "json": "metadata = '[1'",
}
ON_POSTGRES = {
    "times": "created = -7, updated = -7, state_updated = 4611686018427387904",
    "word": "status = 'asleep'",
    "json": "metadata = '[1'",
}
CASES = [("sqlite", f) for f in INDEX] + [("postgres", f) for f in ON_POSTGRES]


def of_bad(table, damage):
    """A statement that changes the row of the thread `bad`."""
    return f"UPDATE {table} SET {damage} WHERE thread_id = 'bad'"  # noqa: S608


def change(request, store, statement):
    """Execute a statement as another program would."""
    if store.kind == "sqlite":
        with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
            assert db.execute(statement).rowcount
        return
    with request.getfixturevalue("postgres").connect(store.schema) as db:
        assert db.execute(statement).rowcount


@pytest.fixture
def sqlite_store(request, tmp_path):
    with stored_in(request, "sqlite", tmp_path) as store:
        yield store


async def fill(store):
    """Three threads; the search writes their rows of the index."""
    async with ActorSystem({"g": graph()}, saver=store.again()) as system:
        for name in ("a", "bad", "c"):
            await (await system.start("g", name, {"log": []})).wait()
        assert len(await system.threads()) == 3


@pytest.mark.one_loop
@pytest.mark.parametrize(("kind", "form"), CASES)
async def test_a_damaged_row_of_the_index(request, kind, form, tmp_path):
    """
    A search finds the other threads as before, in whole pages, and logs the damaged row.
    """
    with stored_in(request, kind, tmp_path) as store:
        await fill(store)
        damage = (INDEX if kind == "sqlite" else ON_POSTGRES)[form]
        change(request, store, of_bad("thread_index", damage))
        async with ActorSystem({"g": graph()}, saver=store.again()) as system:
            with capture_logs() as log:
                found = await system.threads()
                firsts = [
                    (await system.threads(sort_by="thread_id", limit=1, offset=n))[0].thread_id
                    for n in range(3)
                ]
            assert {"a", "c"} <= {one.thread_id for one in found}
            assert {"a", "c"} <= set(firsts)
            assert len(found) == 3
            assert "row.damaged" in [one["event"] for one in log]
            saver: Any = system.saver
            await saver.adelete_thread("bad")
            assert [one.thread_id for one in await system.threads(prefix="c")] == ["c"]


@pytest.mark.one_loop
async def test_an_id_in_bytes(request, sqlite_store):
    """
    Beside a thread whose id isn't valid UTF-8 the others are found and listed, page by page.
    """
    await fill(sqlite_store)
    for table in ("threads", "system_runs"):
        change(request, sqlite_store, of_bad(table, f"thread_id = {NOT_UTF8}"))
    async with ActorSystem({"g": graph()}, saver=sqlite_store.again()) as system:
        with capture_logs():
            found = {one.thread_id for one in await system.threads()}
            saver: Any = system.saver
            listed = [
                point.config["configurable"]["thread_id"] async for point in saver.alist(None)
            ]
    assert {"a", "c"} <= found
    assert (listed.count("a"), listed.count("c")) == (4, 4)


@pytest.mark.one_loop
async def test_a_batch_does_not_fail_for_one_name(request, sqlite_store):
    """
    Removals from other threads in the same transaction succeed; the error names the thread, which
    can still be deleted.
    """
    await fill(sqlite_store)
    change(request, sqlite_store, DAMAGE_BLOB)
    async with sqlite_store.again() as saver:
        with pytest.raises(StorageError, match="thread 'bad'"):
            await saver.aretention(0)
        assert [await saver.acount(name) for name in ("a", "bad", "c")] == [1, 4, 1]

        await saver.adelete_thread("bad")
        await saver.aretention(0)
        assert await saver.alist_threads() == ["a", "c"]


@pytest.mark.every_saver
@pytest.mark.one_loop
async def test_a_value_that_has_no_text(saver):
    """
    A thread whose state has an integer with too many digits for text stops no search by values.
    """
    big = in_a_row({"large": large}, schema=State)
    async with ActorSystem({"big": big, "g": graph()}, saver=saver) as system:
        for name, thread in (("big", "bad"), ("g", "a")):
            await (await system.start(name, thread, {"log": []})).wait()
        found = await system.threads(values={"log": ["done", "done"]})
        every = await system.threads()

    assert [one.thread_id for one in found] == ["a"]
    assert {one.thread_id for one in every} == {"a", "bad"}
