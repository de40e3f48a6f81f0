"""The checks of `actorgraph.testing.conformance`, over every saver and over savers of others."""

from contextlib import asynccontextmanager
from typing import get_args

import pytest

from actorgraph import InMemorySaver
from actorgraph.errors import ActorGraphError
from actorgraph.savers.memory.saver import MemoryBackend
from actorgraph.testing.conformance import CHECKS, check_saver
from actorgraph.values.commits import (
    CheckpointRow,
    Claim,
    Commit,
    Committed,
    LedgerRow,
    OtherRequest,
    Query,
)
from actorgraph.values.retention import DeleteThread
from actorgraph.values.systems import RunRow
from actorgraph.values.thread_rows import THREAD_QUERIES, THREAD_REQUESTS
from tests.savers.places import LogSaver, langgraphs, logs, place_of
from tests.savers.planted_faults import FAULTS, ROUTED, WITHOUT_A_FAULT, Fault, Planted

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]


@pytest.mark.one_loop
@pytest.mark.promise("S081", "S100", "S108", "S111", "S117", "C22", "D3", "D8", "D15", "D16", "T31")
@pytest.mark.langgraph("F-E30")
@pytest.mark.parametrize("check", CHECKS, ids=str)
async def test_a_check(store, check):
    """
    Each saver keeps each sentence of the contract.
    """
    if left_out := await check(place_of(store)):
        kinds = {"memory", "sqlite-memory"}
        if left_out == "its routes_runs is false":
            kinds |= {"sqlite"}
        assert store.kind in kinds, left_out
        pytest.skip(left_out)


class TestSaversOfOthers:
    @pytest.mark.one_loop
    @pytest.mark.promise("S017", "S084", "S116")
    async def test_four_methods_are_enough(self):
        """
        A saver with the port's methods alone passes every check: get_tuple, list, copies, prunes
        and deletions of runs come with it.
        """
        report = await check_saver(logs)

        assert report.passed, report
        assert {r.check.group for r in report.results if r.outcome == "left out"} == {
            "alarms",
            "failures",
            "runs",
        }
        composed = {"aget_tuple", "aprune", "acopy_thread", "adelete_by_run", "adelete_for_runs"}
        assert not composed & {*vars(LogSaver), *vars(MemoryBackend), *vars(InMemorySaver)}

    async def test_a_saver_in_langgraphs_shape(self):
        """
        A saver with LangGraph's methods alone is asked what concerns it; the report says what
        it lacks and what it does otherwise.
        """
        report = await check_saver(langgraphs)

        failed = {result.check.name for result in report.failures}
        assert failed == {"filters: kinds of values differ"}
        assert "left out  removals: copying\n          it has no method copy_thread" in str(report)
        assert str(report).endswith(f"1 failed, {str(report).count('left out  ')} left out")

    async def test_groups_can_be_chosen(self):
        """
        Only the groups that are asked for are tried.
        """
        report = await check_saver(logs, groups=["claims"])

        assert {result.check.group for result in report.results} == {"claims"}
        assert report.passed


class Forgetful(LogSaver):
    """A saver that acknowledges deletions and doesn't carry them out."""

    async def commit(self, batch):
        kept = [request for request in batch if not isinstance(request, DeleteThread)]
        outcomes = iter(await super().commit(kept))
        return [Committed() if isinstance(r, DeleteThread) else next(outcomes) for r in batch]


async def test_a_broken_saver_is_found_out():
    """
    A saver that keeps what it should delete fails the checks that are about that.
    """

    @asynccontextmanager
    async def place():
        log: list = []
        yield lambda: Forgetful(log)

    report = await check_saver(place, groups=["removals", "claims"])

    assert "removals: deleting a thread" in {result.check.name for result in report.failures}
    assert "ContractBrokenError: " in str(report)


BY_NAME = {check.name: check for check in CHECKS}


class TestPlantedFaults:
    @pytest.mark.first_case
    @pytest.mark.one_loop
    @pytest.mark.parametrize("name", FAULTS)
    async def test_a_check_finds_it(self, store, name):
        """
        A saver that leaves out one part of the contract fails the check of that part.
        """
        if name in ROUTED and store.kind in {"sqlite", "sqlite-memory"}:
            pytest.skip("it stores no builds, priorities or times")
        if name == "asks" and store.kind in {"sqlite", "sqlite-memory", "postgres"}:
            pytest.skip("it derives the column from the index")
        fault, check = FAULTS[name]

        @asynccontextmanager
        async def place():
            yield lambda: Planted(store.again(), fault)

        # Any error of a saver is a failed check: see `check_saver`.
        with pytest.raises((AssertionError, ActorGraphError, LookupError, TypeError)):
            await BY_NAME[check](place)

    def test_each_part_of_a_request_has_a_fault(self):
        """
        A fault is planted for each kind of request, and for each part of it and of the queries.
        """
        covered = {name for fault, _ in FAULTS.values() for name in fault.covers}
        requests = [kind for kind in get_args(OtherRequest) if kind not in THREAD_REQUESTS]
        queries = [kind for kind in get_args(Query) if kind not in THREAD_QUERIES]
        kinds = [*requests, *queries, Commit, Claim, CheckpointRow, LedgerRow, RunRow]
        parts = {
            f"{kind.__name__}.{field}"
            for kind in kinds
            for field in kind.__struct_fields__
            if field not in WITHOUT_A_FAULT
        }

        assert sorted(parts - covered - WITHOUT_A_FAULT) == []
        assert sorted({kind.__name__ for kind in requests} - covered) == []

    def test_each_fault_is_found_by_a_check(self):
        """
        Each fault names a check of the public list.
        """
        assert [name for name, (_, check) in FAULTS.items() if check not in BY_NAME] == []

    @pytest.mark.one_loop
    async def test_the_wrapper_alone_breaks_nothing(self):
        """
        Without a fault the wrapper passes: what the checks find is the fault.
        """

        @asynccontextmanager
        async def place():
            saver = InMemorySaver()
            yield lambda: Planted(saver, Fault())

        report = await check_saver(place)

        assert report.passed, report
