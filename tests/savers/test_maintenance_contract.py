"""Every saver and the requests and queries of maintenance, at its port."""

import msgspec
import pytest

from actorgraph.codec.records import Record, decode_record, encode_record
from actorgraph.values.commits import (
    EPOCH_ANY,
    BlobRow,
    CheckpointRow,
    Claim,
    Commit,
    Committed,
    LedgerRow,
    ListCheckpoints,
    LoadCheckpoint,
)
from actorgraph.values.ids import GREGORIAN_OFFSET, uuid6
from actorgraph.values.retention import (
    CountCheckpoints,
    DeleteCheckpoints,
    DeleteThread,
    Expire,
    HoldWhole,
    ListThreads,
    Sweep,
    Vacuum,
)
from tests.savers.test_contract import TASK, port

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]

__all__ = ["port"]

RUN = b"r" * 16


def ident(second: int) -> bytes:
    """An id that was made so many seconds after 1970 began."""
    return uuid6(GREGORIAN_OFFSET + second * 10_000_000, second, 1)


def row(second: int, parent: int | None = None, *, delta: int = 0) -> CheckpointRow:
    """A checkpoint of that second; its value is in it, or is folded from so many ancestors."""
    record = Record(channel_versions={"x": second}, blobs=["x"])
    if delta:
        record = Record(channel_versions={"x": second}, deltas={"x": (delta, delta)}, folds=True)
    return CheckpointRow(
        id=ident(second),
        parent=None if parent is None else ident(parent),
        step=second,
        source="loop",
        run=None,
        next="[]",
        record=encode_record(record),
        metadata="{}",
        blobs=() if delta else (BlobRow("x", second, b"%d" % second),),
    )


def put(*rows: CheckpointRow, thread: str = "t", namespace: str = "", ledger=()) -> Commit:
    """Rows that a program stores itself."""
    return Commit(thread, namespace, None, EPOCH_ANY, 0, None, checkpoints=rows, ledger=ledger)


def writes(base: int) -> LedgerRow:
    return LedgerRow(ident(base), TASK, "", 0, 0, b"written")


async def seconds(port, thread: str = "t", **options) -> list[int]:
    """The steps of a thread's checkpoints."""
    (found,) = await port.query([ListCheckpoints(thread, **options)])
    return [stored.row.step for stored in found]


class TestQueries:
    @pytest.mark.promise("S110", "S020", "C3")
    async def test_a_listing_may_be_bare(self, port):
        """
        A bare listing has rows and neither values nor writes; oldest first is the order of storing.
        """
        await port.commit([put(row(2), row(1, 2), row(3, 1), ledger=(writes(3),))])

        (found,) = await port.query([ListCheckpoints("t", bare=True)])

        assert [stored.row.step for stored in found] == [3, 1, 2]
        assert all(not (s.blobs or s.ranges or s.ledger) for s in found)
        assert [s.row.parent for s in found] == [ident(1), ident(2), None]
        assert await seconds(port, bare=True, oldest_first=True, limit=2) == [2, 1]
        assert await seconds(port, namespace="", oldest_first=True) == [2, 1, 3]

    @pytest.mark.promise("S211")
    async def test_counts(self, port):
        """
        A count is of one namespace or of all, and 0 for an unknown thread.
        """
        await port.commit([put(row(1), row(2)), put(row(3), namespace="n")])
        queries = [CountCheckpoints(*w) for w in (("t",), ("t", ""), ("t", "n"), ("u",))]

        assert await port.query(queries) == [3, 2, 1, 0]

    async def test_threads_by_age(self, port):
        """
        Threads with something older than a time are found.
        """
        await port.commit([put(row(5), row(9)), put(row(8), thread="u")])
        queries = [ListThreads(older=s * 1_000_000) for s in (5, 6, 9)]

        assert await port.query(queries) == [[], ["t"], ["t", "u"]]


class TestExpiring:
    @pytest.mark.promise("S198")
    @pytest.mark.parametrize(
        ("before", "count", "left"),
        [(3, 0, [3, 4, 5]), (9, 1, [5]), (9, 2, [4, 5]), (9, 0, []), (0, 0, [1, 2, 3, 4, 5])],
    )
    async def test_old_checkpoints_are_removed(self, port, before, count, left):
        """
        Older checkpoints go but for the newest; with none of these an idle thread goes altogether.
        """
        await port.commit([put(*(row(s, s - 1 or None) for s in range(1, 6)))])

        (done,) = await port.commit([Expire("t", before * 1_000_000, count)])

        assert done == Committed(removed=5 - len(left))
        assert await seconds(port, oldest_first=True) == left

    @pytest.mark.promise("S198", "S124")
    async def test_needed_checkpoints_stay(self, port):
        """
        An old checkpoint that a young one's value is folded from stays.
        """
        await port.commit([put(row(1), row(2, 1), row(3, 2, delta=1), row(9, 3, delta=2))])

        await port.commit([Expire("t", 5_000_000, 1)])

        assert await seconds(port, oldest_first=True) == [2, 3, 9]

    async def test_an_id_without_a_time_does_not_count_as_old(self, port):
        """
        A checkpoint under an id of a program's own, in which no time is, doesn't expire.
        """
        strange = msgspec.structs.replace(row(1), id=b"\x00" * 16)
        await port.commit([put(strange, row(2), row(3))])

        await port.commit([Expire("t", 9_000_000, 1)])

        assert await seconds(port, oldest_first=True) == [1, 3]

    async def test_a_stateful_graph_inside_keeps_its_newest(self, port):
        """
        While something of a thread is young, every namespace that may go on keeps its newest.
        """
        await port.commit([put(row(1), row(2), namespace="memory"), put(row(8), row(9))])

        await port.commit([Expire("t", 9_000_000, 0)])

        assert await seconds(port, oldest_first=True) == [2, 9]


class TestSweeping:
    async def test_unreferenced_writes_are_removed(self, port):
        """
        Writes beside no checkpoint go, everything else stays; a second sweep finds nothing.
        """
        await port.commit(
            [put(row(1), row(2, 1), row(3, 2, delta=1), ledger=(writes(2), writes(7)))]
        )
        before = await port.query(
            [LoadCheckpoint("t", "", ident(s), ancestors=True) for s in (1, 2, 3)]
        )

        first, second = await port.commit([Sweep("t"), Sweep("t")])

        assert (first, second) == (Committed(freed=1), Committed())
        after = await port.query(
            [LoadCheckpoint("t", "", ident(s), ancestors=True) for s in (1, 2, 3)]
        )
        assert after == before

    async def test_not_while_a_run_goes_on(self, port):
        """
        A run may have handed over writes whose checkpoint comes later.
        """
        claim = Commit(
            "t", "", RUN, 1, 1, None, Claim(None, "sync"), (writes(7),), checkpoints=(row(1),)
        )
        await port.commit([claim])

        assert await port.commit([Sweep("t")]) == [Committed()]

    async def test_vacuum_forgets_deleted_threads_alone(self, port):
        """
        After it the others are as they were, and a late save of a deleted thread is refused still.
        """
        claim = Commit("gone", "", RUN, 1, 1, None, Claim(None, "sync"), checkpoints=(row(1),))
        await port.commit([put(row(1), row(2)), claim, DeleteThread("gone")])

        (done,) = await port.commit([Vacuum()])
        late = Commit("gone", "", RUN, 1, 2, ident(1), checkpoints=(row(2, 1),))
        (refused,) = await port.commit([late])

        assert done == Committed()
        assert "taken over" in str(refused.error)
        assert await port.query([ListThreads()]) == [["t"]]
        assert await seconds(port) == [2, 1]


class TestHoldingWhole:
    @pytest.mark.promise("C2")
    async def test_ancestors_are_not_needed_any_more(self, port):
        """
        A checkpoint that was given its values whole says the same, and outlives its ancestors.
        """
        await port.commit([put(row(1), row(2, 1, delta=1), row(3, 2, delta=2))])
        before = (await port.query([LoadCheckpoint("t", "")]))[0].checkpoint

        outcomes = await port.commit(
            [
                HoldWhole("t", "", ident(3), {"x": b"whole", "unknown": b"ignored"}),
                HoldWhole("t", "", ident(3), {"x": b"later"}),
                HoldWhole("t", "", ident(8), {"x": b"no such checkpoint"}),
                DeleteCheckpoints("t", "", frozenset([ident(1), ident(2)])),
            ]
        )
        after = (await port.query([LoadCheckpoint("t", "", ancestors=True)]))[0].checkpoint
        record = decode_record(after.row.record)

        assert outcomes == [Committed(), Committed(), Committed(), Committed(removed=2)]
        assert after.blobs == {"x": b"whole"}
        assert (record.deltas, record.blobs, record.folds) == ({}, ["x"], True)
        assert record.channel_versions == decode_record(before.row.record).channel_versions
        assert after.ancestors == ()

    async def test_siblings_of_one_version_hold_each_their_own(self, port):
        """
        Branches that give a channel the same version keep their own values, however often they are
        made whole; removing one leaves the other's.
        """
        delta = Record(channel_versions={"x": 2}, deltas={"x": (1, 1)}, folds=True)
        siblings = [
            msgspec.structs.replace(row(n, 1, delta=1), record=encode_record(delta)) for n in (2, 3)
        ]
        await port.commit([put(row(1), *siblings)])

        held = [HoldWhole("t", "", ident(n), {"x": b"of %d" % n}) for n in (2, 3)]
        assert await port.commit([*held, held[0]]) == [Committed()] * 3
        queries = [LoadCheckpoint("t", "", ident(n)) for n in (2, 3)]
        found = await port.query(queries)
        assert [f.checkpoint.blobs for f in found] == [{"x": b"of 2"}, {"x": b"of 3"}]

        await port.commit([DeleteCheckpoints("t", "", frozenset([ident(2)])), Sweep("t")])
        assert (await port.query(queries))[1].checkpoint.blobs == {"x": b"of 3"}
