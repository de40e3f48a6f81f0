"""Reads of a saver above a checkpoint whose values must be folded."""

from typing import Any

import pytest

from actorgraph.codec.records import Record, encode_record
from actorgraph.values.commits import (
    BlobRow,
    CheckpointRow,
    Claim,
    Commit,
    LedgerRow,
    ListCheckpoints,
    LoadCheckpoint,
)
from actorgraph.values.constants import CONTROL_INDEX, ERROR

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]

RUN, TASK = b"r" * 16, b"t" * 16


def ident(number: int) -> bytes:
    return number.to_bytes(16, "big")


def point(number: int, parent: int | None, **deltas: int) -> CheckpointRow:
    """A checkpoint that holds `x` and `y`, except for those that are so many points from whole."""
    held = [c for c in "xy" if c not in deltas]
    record = Record(
        channel_versions={"x": number, "y": number},
        blobs=held,
        deltas={c: (n, n) for c, n in deltas.items()},
        folds=bool(deltas),
    )
    return CheckpointRow(
        id=ident(number),
        parent=None if parent is None else ident(parent),
        step=number,
        source="loop",
        run=RUN,
        next="[]",
        record=encode_record(record),
        metadata="{}",
        blobs=tuple(BlobRow(c, number, b"%d" % number) for c in held),
    )


def row(base: int, path: str, index: int = 0) -> LedgerRow:
    return LedgerRow(ident(base), path.ljust(16, "-").encode(), path, index, 0, path.encode())


@pytest.fixture
async def port(store):
    """
    A thread 1 <- 2 <- 3 <- 4, with a second child 5 of 2, and a saver over it.
    """
    saver = store.saver()
    await saver.open()
    points = [
        point(1, None),
        point(2, 1),
        point(3, 2, x=1),
        point(5, 2),
        point(4, 3, x=2, y=1),
    ]
    failed = row(3, "~e", CONTROL_INDEX[ERROR])
    ledger = (row(1, "~a"), row(2, "~c"), row(2, "~b"), row(3, "~d"), failed)
    claim = Claim(None, "sync")
    commit = Commit(
        "t", "", RUN, 1, 1, None, claim, checkpoints=tuple(points), ledger=ledger, ends="success"
    )
    await saver.commit([commit])
    yield saver
    await saver.close()


async def newest(port: Any, **options: Any) -> Any:
    (loaded,) = await port.query([LoadCheckpoint("t", "", **options)])
    return loaded.checkpoint


class TestAncestors:
    @pytest.mark.langgraph("L87", "F-E26")
    async def test_they_reach_to_the_last_whole_value(self, port):
        """
        Parents come newest first, as many as the record says and no more; another child of one
        of them is not there.
        """
        found = await newest(port, id=ident(4), ancestors=True)

        assert [a.row.id for a in found.ancestors] == [ident(3), ident(2)]

    async def test_each_has_its_tasks_rows_in_order(self, port):
        """
        Writes come in the order of the tasks' paths.
        """
        found = await newest(port, id=ident(4), ancestors=True)

        paths = [[r.path for r in a.ledger if r.index >= 0] for a in found.ancestors]
        assert paths == [["~d"], ["~b", "~c"]]

    async def test_each_has_only_the_values_that_end_there(self, port):
        """
        `y` is whole one point up and `x` two points up; nothing else is read.
        """
        found = await newest(port, id=ident(4), ancestors=True)

        assert [a.blobs for a in found.ancestors] == [{"y": b"3"}, {"x": b"2"}]

    async def test_they_are_read_only_where_they_are_needed(self, port):
        """
        Not for a checkpoint that holds all of its values, nor for a reader that doesn't ask.
        """
        whole = await newest(port, id=ident(5), ancestors=True)
        unasked = await newest(port, id=ident(4))
        (page,) = await port.query([ListCheckpoints("t", "", limit=1, ancestors=True)])

        assert whole.ancestors == unasked.ancestors == ()
        assert len(page[0].ancestors) == 2
