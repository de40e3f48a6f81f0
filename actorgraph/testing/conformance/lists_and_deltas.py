"""Checks of `ports.Saver`: growing lists as ranges, values of DeltaChannels, shared rows."""

from actorgraph.codec.records import Record
from actorgraph.ports import Saver
from actorgraph.testing.conformance.builders import (
    Ids,
    commit_batch,
    grown,
    items,
    load,
    merge,
    outside,
    page,
    texts_of,
)
from actorgraph.testing.conformance.harness import Bench, check, holds, same
from actorgraph.values.commits import BlobRow, LedgerRow, StoredCheckpoint
from actorgraph.values.retention import (
    CopyThread,
    DeleteCheckpoints,
    HoldWhole,
    KeepLast,
    KeepLatest,
)


async def _grow(port: Saver, ids: Ids, count: int) -> None:
    """Store checkpoints 1 to `count`; the list `x` of number n has n items."""
    for number in range(1, count + 1):
        start = (number - 1) // 4 * 4
        before = number - 1 - start
        row = items(start, [b"%d," % number], before=before)
        merges = (merge(0, 8),) if number == 8 else ()
        record = grown({"x": [(1, number)]}, number)
        parent = number - 1 or None
        point = ids.point(number, parent, record, ranges=(row,), merges=merges)
        await commit_batch(port, outside(point))


def _until(number: int) -> bytes:
    return b"".join(b"%d," % n for n in range(1, number + 1))


async def _check_lists(port: Saver, thread: str, numbers: list[int]) -> None:
    found = [*reversed(await page(port, thread))]
    same([f.row.step for f in found], numbers, f"the checkpoints of {thread!r}")
    for point in found:
        read = texts_of(point)
        wanted = _until(point.row.step)
        same(read[: len(wanted)], wanted, f"the list of checkpoint {point.row.step}")
        counts = sum(row.count for row in point.ranges["x", 1])
        holds(counts >= point.row.step, "the rows that were read have too few items")


@check("lists")
async def rows_grow_and_merge(bench: Bench) -> None:
    """Items are appended to their row; merged rows read the same at every length."""
    ids = Ids()
    async with bench.port() as port:
        await _grow(port, ids, 10)
        await _check_lists(port, "t", [*range(1, 11)])
        head = (await load(port)).checkpoint
        same(
            [(r.start, r.count) for r in head.ranges["x", 1]] if head else None,
            [(0, 8), (8, 2)],
            "rows",
        )
        same(head and head.ends["x", 1], 10, "the end of the list")


@check("lists")
async def branches_have_lineages_of_their_own(bench: Bench) -> None:
    """A branch's items are in a lineage of its own, after the part that it shares."""
    ids = Ids()
    async with bench.port() as port:
        await _grow(port, ids, 6)
        record = grown({"x": [(1, 3), (7, 4)]}, 7)
        row = items(3, [b"branch,"], lineage=7)
        await commit_batch(port, outside(ids.point(7, 3, record, ranges=(row,))))
        branch = (await load(port, ids(7))).checkpoint
        trunk = (await load(port, ids(6))).checkpoint
        same(branch and texts_of(branch, 7), b"branch,", "the branch's own items")
        same(branch and texts_of(branch)[: len(_until(3))], _until(3), "what it shares")
        same(trunk and texts_of(trunk)[: len(_until(6))], _until(6), "the trunk")


@check("lists")
async def lists_outlive_removals_and_copies(bench: Bench) -> None:
    """Checkpoints left by a removal, and copies, have whole lists, which can grow on."""
    ids = Ids()
    async with bench.port() as port:
        await _grow(port, ids, 10)
        await commit_batch(port, CopyThread("copy", "t"))
        gone = frozenset([ids(1), ids(5), ids(10)])
        await commit_batch(port, DeleteCheckpoints("t", "", gone), KeepLatest("copy"))
        await _check_lists(port, "t", [2, 3, 4, 6, 7, 8, 9])
        await _check_lists(port, "copy", [10])
        row = items(8, [b"11,"], before=2)
        point = ids.point(11, 10, grown({"x": [(1, 11)]}, 11), ranges=(row,))
        await commit_batch(port, outside(point, thread="copy"))
        await _check_lists(port, "copy", [10, 11])


@check("lists")
async def values_are_shared_by_version(bench: Bench) -> None:
    """An unchanged value is read at its version; it is kept while any checkpoint names it."""
    ids = Ids()
    async with bench.port() as port:
        for number in range(1, 6):
            blobs = (BlobRow("x", 1, b"big"),) if number == 1 else ()
            record = Record(channel_versions={"x": 1, "y": number}, blobs=["x"])
            await commit_batch(
                port, outside(ids.point(number, number - 1 or None, record, blobs=blobs))
            )
        await commit_batch(port, DeleteCheckpoints("t", "", frozenset([ids(1), ids(3)])))
        found = await page(port)
        same(
            [(f.row.step, f.blobs) for f in found],
            [(n, {"x": b"big"}) for n in (5, 4, 2)],
            "values",
        )
        same((await load(port)).version_floor, 5, "the highest version")


async def _fold(port: Saver, ids: Ids, count: int) -> None:
    """Store checkpoints 0 to `count`: `x` is whole in the first, a delta in the others."""
    for number in range(count + 1):
        deltas = {} if number == 0 else {"x": (number, number)}
        record = Record(
            channel_versions={"x": number + 1},
            blobs=[] if number else ["x"],
            deltas=deltas,
            folds=bool(number),
        )
        blobs = () if number else (BlobRow("x", 1, b"whole"),)
        point = ids.point(number, number - 1 if number else None, record, blobs=blobs)
        await commit_batch(port, outside(point))
        row = LedgerRow(ids(number), b"t" * 16, "", 0, 0, b"%d" % number)
        commit = outside()
        await commit_batch(port, type(commit)("t", "", None, 0, 0, None, ledger=(row,)))


def _chain(found: StoredCheckpoint | None) -> list[tuple[int, dict[str, bytes], list[bytes]]]:
    above = found.ancestors if found else ()
    return [(a.row.step, a.blobs, [row.payload for row in a.ledger]) for a in above]


@check("deltas")
async def values_are_read_with_their_ancestors(bench: Bench) -> None:
    """A delta is read with its ancestors, nearest first, up to the one with the whole value."""
    ids = Ids()
    async with bench.port() as port:
        await _fold(port, ids, 4)
        found = (await load(port, ancestors=True)).checkpoint
        wanted = [
            (3, {}, [b"3"]),
            (2, {}, [b"2"]),
            (1, {}, [b"1"]),
            (0, {"x": b"whole"}, [b"0"]),
        ]
        same(_chain(found), wanted, "the ancestors")
        same(
            (await load(port)).checkpoint,
            found
            and type(found)(
                found.thread_id,
                found.namespace,
                found.sequence,
                found.row,
                found.blobs,
                found.ranges,
                found.ends,
                found.ledger,
            ),
            "the same without ancestors",
        )
        listed = await page(port, ancestors=True)
        same([len(point.ancestors) for point in listed], [4, 3, 2, 1, 0], "the ancestors in a list")


@check("deltas")
async def removals_keep_needed_ancestors(bench: Bench) -> None:
    """Removals keep the ancestors that remaining deltas need; a copy has them all."""
    ids = Ids()
    async with bench.port() as port:
        await _fold(port, ids, 4)
        whole = _chain((await load(port, ancestors=True)).checkpoint)
        await commit_batch(port, CopyThread("copy", "t"))
        for removal in (
            DeleteCheckpoints("t", "", frozenset([ids(0), ids(2)])),
            KeepLatest("t"),
            KeepLast("t", 1),
        ):
            await commit_batch(port, removal)
            same(_chain((await load(port, ancestors=True)).checkpoint), whole, f"after {removal}")
        same(
            _chain((await load(port, ancestors=True, thread="copy")).checkpoint), whole, "the copy"
        )


@check("deltas")
async def whole_values_need_no_ancestors(bench: Bench) -> None:
    """A checkpoint that holds its value whole keeps it when its ancestors are removed."""
    ids = Ids()
    async with bench.port() as port:
        await _fold(port, ids, 3)
        await commit_batch(port, HoldWhole("t", "", ids(3), {"x": b"all"}), KeepLatest("t"))
        found = (await load(port, ancestors=True)).checkpoint
        same(found and (found.blobs, found.ancestors), ({"x": b"all"}, ()), "the value")
        same(len(await page(port)), 1, "checkpoints")
