"""The floor of a group commit for which tasks wait: one per thread, and it does nothing else.

`replay` stores the rows of a finished run again, as `floors.replay` does, but as a program with a
thousand concurrent runs has to: each thread is a task that hands over the rows of one superstep and
waits until they are durable; one task takes all that waits, hands it to a worker thread in one hop,
and wakes those whose rows are stored. It leaves out all that a graph is: no node runs,
nothing is encoded, compared or planned, no state is kept.
"""

import sqlite3
import time
from collections import deque
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from tests.bench.floors import HEADS, STEPS, Source, Statement, Table, create, cut, move, read

BATCH_MAX = 512
"""Supersteps in one transaction, as in the library's persistence actor."""

Step = list[tuple[str, tuple[Any, ...]]]
"""The rows of one superstep, each with its statement."""


async def replay(path: Path, *, units: int) -> dict[str, Any]:
    """Write the rows of the database at `path` again, and time it.

    Args:
        path: a closed database; it is only read.
        units: how many supersteps the original run did.
    """
    source = read(path)
    threads = steps_of(source)
    target = path.with_suffix(".waiting")
    connection = create(target, source, any_thread=True)
    try:
        cpu = time.process_time()
        started = time.perf_counter()
        commits = await _store(connection, threads)
        seconds = time.perf_counter() - started
        cpu_seconds = time.process_time() - cpu
    finally:
        connection.close()
    messages = sum(map(len, threads))
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "units": units,
        "batches": {"messages": messages, "commits": commits},
    }


def steps_of(source: Source) -> list[list[Step]]:
    """For each thread, the rows of its supersteps in order; the first ones have its own row."""
    tables = {table.name: table for table in source.tables}
    heads, points = tables[HEADS], tables[STEPS]
    key, moved = heads.key[0], move(heads)
    steps: dict[Any, list[Step]] = {}
    for thread, rows in _by_thread(points, key).items():
        steps[thread] = [[(points.insert, row), (moved, (thread,))] for row in rows]
    for table in source.tables:
        if table is points or key not in table.columns:
            continue
        for thread, rows in _by_thread(table, key).items():
            of = steps[thread]
            parts = [rows, *[[]] * (len(of) - 1)] if table is heads else cut(rows, len(of))
            for step, some in zip(of, parts, strict=True):
                step[:0] = [(table.insert, row) for row in some]
    return list(steps.values())


def _by_thread(table: Table, key: str) -> dict[Any, list[tuple[Any, ...]]]:
    at = table.columns.index(key)
    found: dict[Any, list[tuple[Any, ...]]] = {}
    for row in table.rows:
        found.setdefault(row[at], []).append(row)
    return found


async def _store(connection: sqlite3.Connection, threads: list[list[Step]]) -> int:
    """Store all of it; how many transactions that took."""
    waiting: deque[tuple[Step, anyio.Event]] = deque()
    left, commits = len(threads), 0

    async def run(steps: list[Step]) -> None:
        nonlocal left
        for step in steps:
            durable = anyio.Event()
            waiting.append((step, durable))
            await durable.wait()
        left -= 1

    async with anyio.create_task_group() as group:
        for steps in threads:
            group.start_soon(run, steps)
        while left:
            batch = [waiting.popleft() for _ in range(min(len(waiting), BATCH_MAX))]
            if batch:
                written = _by_statement([step for step, _ in batch])
                await anyio.to_thread.run_sync(_write, connection, written)
                commits += 1
            for _, durable in batch:
                durable.set()
            await anyio.lowlevel.checkpoint()
    return commits


def _by_statement(steps: list[Step]) -> list[Statement]:
    found: dict[str, list[tuple[Any, ...]]] = {}
    for step in steps:
        for sql, row in step:
            found.setdefault(sql, []).append(row)
    return list(found.items())


def _write(connection: sqlite3.Connection, batch: list[Statement]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for sql, rows in batch:
        connection.executemany(sql, rows)
    connection.execute("COMMIT")
