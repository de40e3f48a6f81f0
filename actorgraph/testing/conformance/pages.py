"""Checks of lists that are longer than a page: each page starts where the last one ended."""

from typing import Any

from actorgraph.testing.conformance.bench import Bench
from actorgraph.testing.conformance.checks import check, same
from actorgraph.testing.conformance.points import at, chain, steps
from actorgraph.testing.conformance.rows import THREAD, Ids, commit_batch, outside, page
from actorgraph.values.commits import StoredCheckpoint
from actorgraph.values.retention import CopyThread, DeleteCheckpoints

LONG = 120


@check("filters")
async def a_list_of_any_length(bench: Bench) -> None:
    """A long list has each checkpoint once, newest first."""
    async with bench.public() as saver:
        await chain(saver, LONG)
        same(await steps(saver, at()), [*range(LONG)][::-1], "the steps of a long list")


@check("filters")
async def pages_start_after_a_position(bench: Bench) -> None:
    """With `after` a page starts behind that row, also if the row was removed."""
    ids = Ids()
    async with bench.port() as port:
        for number in range(1, 9):
            await commit_batch(port, outside(ids.point(number, run=None)))
        await commit_batch(port, CopyThread("u", THREAD))
        for options in ({}, {"oldest_first": True}):
            order = [*range(1, 9)] if options else [*range(1, 9)][::-1]
            found = await _paged(port, THREAD, **options)
            same([f.row.step for f in found], order, f"pages of a thread {options}")
            found = await _paged(port, None, **options)
            wanted = [(step, thread) for step in order for thread in (THREAD, "u")]
            same([(f.row.step, f.thread_id) for f in found], wanted, f"of all threads {options}")
        last = (await page(port, limit=3))[-1]
        await commit_batch(port, DeleteCheckpoints(THREAD, "", frozenset([last.row.id])))
        rest = await page(port, limit=3, after=(last.row.id, THREAD, last.sequence))
        same([f.row.step for f in rest], [5, 4, 3], "the page behind a row that is gone")


async def _paged(port: Any, thread: str | None, **options: Any) -> list[StoredCheckpoint]:
    """A list in pages of three rows."""
    found: list[StoredCheckpoint] = []
    while len(found) < 100:
        last = found[-1] if found else None
        place = None if last is None else (last.row.id, last.thread_id, last.sequence)
        rows = await page(port, thread, limit=3, after=place, **options)
        if not rows:
            break
        found += rows
    return found
