"""Damage in its whole form: thousands of changed columns, changed files and planted rows.

A run prints its seed; `ACTORGRAPH_SEED` repeats one.
"""

import os
import random
import resource
import shutil
import sqlite3
import time
from collections import Counter
from contextlib import closing

import pytest

from actorgraph import JsonlSaver, SqliteSaver
from actorgraph.codec.records import frame
from actorgraph.errors import ActorGraphError
from tests.codec import hostile
from tests.faults.crashes import report, row
from tests.savers.damage import (
    HEALTHY,
    MOVING,
    VICTIM,
    Judge,
    Tables,
    changed,
    fill,
    flips,
    graph,
    reads_of,
    tried,
)
from tests.support.every_saver import store  # noqa: F401 - a fixture
from tests.support.graphs import at

SEED = int(os.environ.get("ACTORGRAPH_SEED", "0")) or random.SystemRandom().randrange(1 << 30)
FLIPS = int(os.environ.get("ACTORGRAPH_FLIPS", "1000"))
PLANTED = int(os.environ.get("ACTORGRAPH_PLANTED", "50000"))
SECONDS_MAX = 1.0
PAYLOADS = (("blobs", "payload"), ("ranges", "payload"), ("writes", "payload"))

pytestmark = [
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
    pytest.mark.every_saver,
    pytest.mark.usefixtures("few_objects"),
]


@pytest.fixture
def tables(store, request):  # noqa: F811 - the fixture
    """The tables of the store's database."""
    postgres = request.getfixturevalue("postgres") if store.kind == "postgres" else None
    return Tables(store, postgres)


def told(request, what, figures, kind):
    """Print figures with the seed."""
    report(request.config, "many at once", row(f"{what}, {kind}", "asyncio", f"{figures}, {SEED=}"))


@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
async def test_changed_columns(store, tables, request):  # noqa: F811 - the fixture
    """
    Of a thousand changed columns each is reported with its thread by its readers, or changes
    nothing that is read; what is asked of other threads is answered.
    """
    chance, seen = random.Random(SEED), Counter[str]()
    async with store.again() as saver:
        await fill(saver)
        judge = Judge()
        await judge.learn(saver)
        places = tables.covered()
        for number in range(FLIPS):
            place = places[number % len(places)]
            undo = tables.plant(place, lambda v: changed(v, chance), chance.choice)
            if undo is None:
                continue
            seen["changed"] += 1
            assert await judge.wrong(saver, moved=place in MOVING) == [], (SEED, number, place)
            undo()
    told(request, "changed columns", f"{seen['changed']}: {judge.told} told, 0 wrong", store.kind)


async def test_changed_bits_of_a_database_file(tmp_path, request):
    """
    Of a thousand files with a changed bit none makes a read raise what is not the library's own,
    and none shows a value that was not stored. Rows that can't be found any more may be missing.
    """
    path, other = tmp_path / "runs.db", tmp_path / "other" / "runs.db"
    async with SqliteSaver(path) as saver:
        await fill(saver)
        states = await _values(saver)
    whole, seen = path.read_bytes(), Counter[str]()
    for made in flips(whole, FLIPS, random.Random(SEED)):
        shutil.rmtree(other.parent, ignore_errors=True)
        other.parent.mkdir()
        other.write_bytes(made)
        try:
            async with SqliteSaver(other) as saver:
                for thread in (VICTIM, HEALTHY):
                    for read in reads_of(thread).values():
                        await tried_own(read, saver, seen)
                    shown = await tried_own(lambda s, t=thread: _of(s, t), saver, seen)
                    if shown is not None and not all(v in states[thread] for v in shown):
                        seen["wrong"] += 1
        except ActorGraphError:
            seen["refused at once"] += 1
    told(request, "changed bits", dict(seen), "sqlite")
    assert (seen["wrong"], seen["foreign"]) == (0, 0), (SEED, seen)


async def _of(saver, thread):
    return [repr(p.values) async for p in graph(saver).aget_state_history(at(thread))]


async def _values(saver):
    return {thread: set(await _of(saver, thread)) for thread in (VICTIM, HEALTHY)}


async def tried_own(read, saver, seen):
    """An answer; None for an error, which is counted."""
    began = time.process_time()
    answer = await tried(read, saver)
    assert time.process_time() - began < SECONDS_MAX, SEED
    if isinstance(answer, ActorGraphError):
        seen["told"] += 1
        return None
    if isinstance(answer, Exception):
        seen["foreign"] += 1
        return None
    seen["answered"] += 1
    return answer


@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
async def test_planted_rows(store, tables, request):  # noqa: F811 - the fixture
    """
    Of 50,000 planted payloads in rows without a checksum each read of the state, and each other
    read in turn, raises an error of the library's own or answers, within a second of CPU, and the
    healthy thread goes on.
    """
    seen = Counter[str]()
    payloads = hostile.mutated(seed=SEED, count=PLANTED)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with store.again() as saver:
        await fill(saver)
        with tables.connected() as db:
            db.execute("UPDATE blobs SET crc = NULL")
            db.execute("UPDATE writes SET crc = NULL")
        read = reads_of(VICTIM)["get_state"]
        others = [*reads_of(VICTIM).values()]
        for number, payload in enumerate(payloads):
            place = PAYLOADS[number % 3]
            made = frame(payload) if place[0] == "ranges" else payload
            chance = random.Random(SEED + number)
            undo = tables.plant(place, lambda _, made=made: made, chance.choice)
            await tried_own(read, saver, seen)
            await tried_own(others[number % len(others)], saver, seen)
            if undo is not None:
                undo()
        assert (await graph(saver).ainvoke({"bar": ["on"]}, at(HEALTHY)))["bar"][-1]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    told(request, "planted rows", f"{PLANTED:,}: {dict(seen)}, {grown} kB more at most", store.kind)
    assert seen["foreign"] == 0, (SEED, seen)


async def test_cut_files_of_lines(tmp_path, request):
    """
    Cut to each length, a file of lines that was acknowledged is reported as cut; the folder's other
    thread is read all the same.
    """
    folder = tmp_path / "threads"
    async with JsonlSaver(folder) as saver:
        await fill(saver)
        right = repr(await reads_of(HEALTHY)["history"](saver))
    file = folder / f"{VICTIM}.jsonl"
    whole, count = file.read_bytes(), 0
    for size in range(0, len(whole) - 1, max(1, len(whole) // FLIPS)):
        file.write_bytes(whole[:size])
        async with JsonlSaver(folder) as saver:
            answer = await tried(reads_of(VICTIM)["get_state"], saver)
            assert "was cut" in str(answer), size
            assert repr(await reads_of(HEALTHY)["history"](saver)) == right
        count += 1
    told(request, "cut files", f"{count} lengths, all told", "json lines")


async def test_cut_database_files(tmp_path, request):
    """
    Cut to each number of pages, and in the middle of one, a database is refused, or shows no value
    that was not stored.
    """
    path, other = tmp_path / "runs.db", tmp_path / "other" / "runs.db"
    async with SqliteSaver(path) as saver:
        await fill(saver)
        states = await _values(saver)
    with closing(sqlite3.connect(path)) as db:
        (page,) = db.execute("PRAGMA page_size").fetchone()
    whole, seen = path.read_bytes(), Counter[str]()
    for size in range(page // 2, len(whole), page // 2):
        shutil.rmtree(other.parent, ignore_errors=True)
        other.parent.mkdir()
        other.write_bytes(whole[:size])
        try:
            async with SqliteSaver(other) as saver:
                for thread in (VICTIM, HEALTHY):
                    shown = await tried_own(lambda s, t=thread: _of(s, t), saver, seen)
                    assert shown is None or all(v in states[thread] for v in shown), size
        except ActorGraphError:
            seen["refused at once"] += 1
    told(request, "cut files", dict(seen), "sqlite")
    assert seen["foreign"] == 0
