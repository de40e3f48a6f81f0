"""Every saver searches runs of all threads, and lists the systems that have them."""

import msgspec
import pytest

from actorgraph.values.systems import (
    AdoptRun,
    ListOwners,
    OwnerRow,
    PutRun,
    RenewOwner,
    SearchRuns,
    SetRun,
)
from tests.savers.test_contract import port
from tests.savers.test_system_rows import HOUR_S, ONE, TWO, row, store

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]

__all__ = ["port", "store"]


def numbered(number: int, thread: str = "t", **columns):
    made = row(bytes([number]) * 16, created=number * 100, **columns)
    return PutRun(msgspec.structs.replace(made, thread_id=thread), thread)


async def found(port, **query):
    (rows,) = await port.query([SearchRuns(**{"limit": 10, **query})])
    assert all(not one.payload for one in rows)
    return [one.run[0] for one in rows]


class TestSearchRuns:
    async def test_runs_are_found_by_each_filter(self, port):
        """
        Newest first; statuses, graph, thread prefix, time and cursor narrow the search.
        """
        threads = ["a1", "a%", "b1", "a1"]
        await port.commit([numbered(n, threads[n - 1]) for n in (1, 2, 3, 4)])
        ended = [SetRun(bytes([n]) * 16, threads[n - 1], ONE, "error") for n in (1, 3)]
        await port.commit([*ended, SetRun(b"\4" * 16, "a1", ONE, "success")])

        assert await found(port) == [4, 3, 2, 1]
        assert await found(port, limit=2) == [4, 3]
        assert await found(port, before=b"\3" * 16, limit=1) == [2]
        assert await found(port, statuses=("error",)) == [3, 1]
        assert await found(port, statuses=("pending",)) == [2]
        assert await found(port, statuses=("success", "error")) == [4, 3, 1]
        assert await found(port, prefix="a") == [4, 2, 1]
        assert await found(port, prefix="a%") == [2]
        assert await found(port, since=300, floor=b"\2") == [4, 3]
        assert await found(port, graph="other") == []
        assert await found(port, graph="g", statuses=("error",), prefix="b") == [3]


class TestOwners:
    async def test_owners_are_listed_with_their_runs(self, port):
        """
        A living system has a lease; a run that was begun by another one counts as adopted.
        """
        await port.commit([RenewOwner(ONE, HOUR_S), numbered(1), numbered(2, owner=TWO)])
        await port.commit([AdoptRun(b"\2" * 16, "t", ONE, TWO, 2), numbered(3, owner=TWO)])
        (owners,) = await port.query([ListOwners()])

        first, second = owners
        assert 0 < first.lease_s <= HOUR_S
        assert msgspec.structs.replace(first, lease_s=None) == OwnerRow(ONE, None, 2, 1)
        assert second == OwnerRow(TWO, None, 1, 0)
