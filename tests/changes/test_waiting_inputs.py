"""Inputs of runs that have stored nothing else, under another version: the check says the deed."""

import operator
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import START, ActorSystem, InMemorySaver, StateGraph
from actorgraph.api.system.thread_checks import check_threads
from actorgraph.errors import SchemaMismatchError, StorageFullError
from actorgraph.testing import GatedSaver
from actorgraph.types import Migration
from actorgraph.values.commits import Commit, Refused
from actorgraph.values.graph_changes import ResumeVerdict
from tests.support.graphs import at

MOVED = Migration(channels={"price": "cents"})


class Price(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    price: int


class Cents(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    cents: int


class Full(GatedSaver):
    """A saver that stores the claim of a run, and nothing of the run itself."""

    async def commit(self, batch: Any) -> Any:
        """Store the first commit; refuse any other."""
        outcomes: list[Any] = []
        for request in batch:
            if isinstance(request, Commit) and not (request.claim and request.claim.input):
                outcomes.append(Refused(StorageFullError("full", do="free some")))
            else:
                outcomes += await super().commit([request])
        return outcomes


def graph(saver: Any, schema: Any, *migrations: Migration) -> Any:
    """A graph that writes down its state."""
    builder = StateGraph(schema).add_node("a", lambda state: {"log": [str(sorted(state))]})
    return builder.add_edge(START, "a").compile(saver, name="g", migrations=migrations)


async def group_of(saver: Any, now: Any) -> Any:
    (group,) = (await check_threads({"g": now}, saver)).groups
    return group


async def died(inner: Any, schema: Any, given: Any) -> None:
    """Let the first run of a thread die with its input alone stored."""
    saver = Full(inner, is_open=True)
    with pytest.raises(StorageFullError):
        await graph(saver, schema).ainvoke(given, at(), durability="exit")


class TestRunsThatDied:
    async def test_an_input_of_another_version_is_refused(self):
        """
        A first run that died is not resumed by a version that would leave out a part of its input.
        """
        inner = InMemorySaver()
        await died(inner, Price, {"log": [], "price": 7})
        now = graph(inner, Cents)

        group = await group_of(inner, now)
        assert group.verdict is ResumeVerdict.REFUSED
        assert "Migration(channels={'price': " in group.reasons[0].cure
        with pytest.raises(SchemaMismatchError, match="'price'") as refused:
            await now.ainvoke(None, at())
        assert "Migration(channels={'price': " in refused.value.do
        assert (await graph(inner, Price).ainvoke(None, at()))["price"] == 7

    async def test_its_migration(self):
        """
        With it the run goes on, and the check has said so.
        """
        inner = InMemorySaver()
        await died(inner, Price, {"log": [], "price": 7})
        now = graph(inner, Cents, MOVED)

        assert (await group_of(inner, now)).verdict is ResumeVerdict.MIGRATED
        assert (await now.ainvoke(None, at()))["cents"] == 7

    @pytest.mark.filterwarnings("ignore::actorgraph.errors.UnknownChannelWarning")
    async def test_the_version_that_accepted_it(self):
        """
        Keys that it had left out from the beginning do not count.
        """
        inner = InMemorySaver()
        await died(inner, Price, {"log": [], "other": 7})
        now = graph(inner, Price)

        assert (await group_of(inner, now)).verdict is ResumeVerdict.FITS
        assert (await now.ainvoke(None, at()))["log"] == ["['log']"]


class TestRunsOfSystems:
    @pytest.mark.parametrize(
        ("given", "verdict"),
        [
            ({"log": [], "price": 7}, ResumeVerdict.MIGRATED),
            ({"log": []}, ResumeVerdict.FITS),
        ],
    )
    async def test_an_input_that_migrations_change(self, given, verdict):
        """
        The check says of a run that has not begun whether migrations change its input.
        """
        saver = InMemorySaver()
        async with ActorSystem({"g": graph(saver, Price)}, saver=saver) as system:
            await system.start("g", "t", given, delay_s=60)

        group = await group_of(saver, graph(saver, Cents, MOVED))
        assert group.verdict is verdict
        assert bool(group.migrated) is (verdict is ResumeVerdict.MIGRATED)
