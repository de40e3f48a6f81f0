"""Reads and updates of subgraphs whose nodes a migration has renamed, before and after a resume."""

from collections.abc import Sequence
from typing import Any

import pytest

from actorgraph import Command, InMemorySaver, entrypoint, task
from actorgraph.errors import InvalidConfigError
from actorgraph.types import Migration, StateUpdate
from tests.support.graphs import at, history, in_a_row
from tests.support.renamed_subgraphs import KEPT, MOVES, NEW, OLD, ONCE, Turns, program
from tests.support.subgraphs import Log

pytestmark = pytest.mark.each_value


async def waiting(graph: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The configs of the outer and the inner subgraph of a thread that asks."""
    state = await graph.aget_state(at(), subgraphs=True)
    outer = state.tasks[0].state
    return outer.config, outer.tasks[0].state.config


def under(config: dict[str, Any], old: Sequence[str], new: Sequence[str]) -> dict[str, Any]:
    """The place of a config under other names of the nodes, without a checkpoint."""
    namespace = config["configurable"]["checkpoint_ns"]
    for before, after in zip(old, new, strict=True):
        namespace = namespace.replace(before, after)
    return at(checkpoint_ns=namespace)


@pytest.mark.every_saver
@pytest.mark.parametrize("moves", MOVES.values(), ids=MOVES)
@pytest.mark.parametrize("kept", KEPT.values(), ids=KEPT)
class TestWaiting:
    async def test_the_rows_are_found_under_each_name(self, saver, kept, moves):
        """
        States, histories and timelines of a waiting subgraph are those of its rows, whichever
        names of its nodes a config has; none of these reads changes where it goes on.
        """
        old = program(saver, OLD, kept=kept)
        await old.ainvoke({"log": ["in"]}, at())
        configs = await waiting(old)
        new = program(saver, NEW, moves, kept)

        for config in configs:
            before = await old.aget_state(config)
            for names in (OLD, NEW, (NEW[0], OLD[1]), (OLD[0], NEW[1])):
                place = under(config, OLD, names)
                found = await new.aget_state(place)
                assert (found.values, found.config) == (before.values, before.config)
                shown = await history(new, place)
                assert [s.config for s in shown] == [
                    s.config for s in await history(old, under(config, (), ()))
                ]
                assert [s.next for s in await new.aget_timeline(place)]
        assert [c["configurable"]["checkpoint_ns"] for c in await waiting(new)] == [
            c["configurable"]["checkpoint_ns"] for c in configs
        ]
        result = await new.ainvoke(Command(resume="yes"), at())
        assert result["log"][-1] == "yes1"

    async def test_an_update_before_the_resume_counts(self, saver, kept, moves):
        """
        An update under the new name is of the rows that the resume goes on from.
        """
        old = program(saver, OLD, kept=kept)
        await old.ainvoke({"log": ["in"]}, at())
        _, inner = await waiting(old)
        new = program(saver, NEW, moves, kept)
        place = under(inner, OLD, NEW)

        await new.aupdate_state(place, {"turns": 40}, "count")
        await new.abulk_update_state(place, [[StateUpdate({"turns": 41}, "count")]])

        assert (await new.aget_state(place)).values["turns"] == 41
        assert (await new.ainvoke(Command(resume="yes"), at()))["log"][-1] == "yes41"


@pytest.mark.every_saver
@pytest.mark.parametrize("moves", MOVES.values(), ids=MOVES)
class TestEnded:
    async def test_an_update_between_two_turns_counts(self, saver, moves):
        """
        The memory of a stateful subgraph is read and updated under its new name before its node
        runs under that name, and the next turn goes on from there.
        """
        old = program(saver, OLD)
        await old.ainvoke({"log": []}, at())
        await old.ainvoke(Command(resume="a"), at())
        new = program(saver, NEW, moves)
        place = at(checkpoint_ns="|".join(NEW))

        assert (await new.aget_state(place)).values["turns"] == 1
        await new.aupdate_state(place, {"turns": 7})
        await new.ainvoke({"log": []}, at())

        assert (await new.ainvoke(Command(resume="b"), at()))["log"][-1] == "b8"
        assert (await new.aget_state(place)).values["turns"] == 8

    async def test_its_fork_has_it(self, saver, moves):
        """
        A subgraph that is forked under its new name is copied from the rows of the old one.
        """
        old = program(saver, OLD)
        await old.ainvoke({"log": []}, at())
        await old.ainvoke(Command(resume="a"), at())
        new = program(saver, NEW, moves)

        await new.afork_state(at(), "fork")
        await new.ainvoke({"log": []}, at("fork"))

        assert (await new.ainvoke(Command(resume="b"), at("fork")))["log"][-1] == "b2"
        forked = await new.aget_state(at("fork", checkpoint_ns="|".join(NEW)))
        assert forked.values["turns"] == 2


@pytest.mark.every_saver
class TestUnknown:
    async def test_a_name_of_no_node_is_an_error(self, saver):
        """
        A namespace that no node has and no row is in is refused with its name and those there are.
        """
        graph = program(saver, OLD)
        await graph.ainvoke({"log": []}, at())
        wrong = {"crew": "crew", "team|helper": "helper", "crew:1|agent:2": "crew"}

        for namespace, culprit in wrong.items():
            place = at(checkpoint_ns=namespace)
            reads = graph.aget_state(place), history(graph, place), graph.aget_timeline(place)
            changes = (
                graph.aupdate_state(place, {"turns": 1}),
                graph.abulk_update_state(place, [[StateUpdate({"turns": 1}, None)]]),
            )
            for call in (*reads, *changes):
                with pytest.raises(InvalidConfigError, match=f"no node is named '{culprit}'") as e:
                    await call
                assert repr(OLD[1] if culprit == "helper" else OLD[0]) in e.value.do

    async def test_a_node_that_has_not_run_yet_has_an_empty_state(self, saver):
        """
        A known subgraph without rows is read as empty, as a thread without rows is.
        """
        graph = program(saver, NEW, ONCE)

        for names in (OLD, NEW):
            found = await graph.aget_state(at(checkpoint_ns="|".join(names)))
            assert (found.values, found.created_at) == ({}, None)


def test_blocking_reads_follow_the_names():
    """
    The blocking methods find the rows of a renamed subgraph, and update those.
    """
    saver = InMemorySaver()
    old = program(saver, OLD)
    old.invoke({"log": []}, at())
    new = program(saver, NEW, ONCE)
    place = at(checkpoint_ns="|".join(NEW))

    assert new.get_state(place).values["turns"] == 1
    assert len(list(new.get_state_history(place))) == len(
        list(old.get_state_history(at(checkpoint_ns="|".join(OLD))))
    )
    new.update_state(place, {"turns": 5}, "count")
    new.bulk_update_state(place, [[StateUpdate({"turns": 6}, "count")]])
    assert new.get_state(place).values["turns"] == 6
    with pytest.raises(InvalidConfigError, match="'nothing'"):
        list(new.get_state_history(at(checkpoint_ns="nothing")))


def count(state: Turns) -> dict[str, Any]:
    return {"turns": state.get("turns", 0) + 1}


@pytest.mark.every_saver
class TestCalled:
    async def test_the_second_graph_of_a_node_is_found(self, saver):
        """
        A subgraph below the second graph that a renamed node calls goes on with its own state.
        """

        def calling(node: str, *moves: Migration) -> Any:
            inner = in_a_row({"count": count}, schema=Turns, checkpointer=True)
            middle = in_a_row({"inner": inner}, schema=Log)

            async def call(_: Log) -> dict[str, Any]:
                await middle.ainvoke({"log": []})
                await middle.ainvoke({"log": []})
                return {"log": ["called"]}

            return in_a_row({node: call}, schema=Log, checkpointer=saver, migrations=list(moves))

        await calling("old").ainvoke({"log": []}, at())
        new = calling("new", Migration(nodes={"old": "new"}))
        second = at(checkpoint_ns="new|1|inner")
        assert (await new.aget_state(second)).values["turns"] == 1
        await new.ainvoke({"log": []}, at())

        assert (await new.aget_state(second)).values["turns"] == 2
        assert (await new.aget_state(at(checkpoint_ns="new|inner"))).values["turns"] == 2

    async def test_a_renamed_task_keeps_its_graph(self, saver):
        """
        A stateful subgraph that a renamed @task calls remembers its turns.
        """
        turns: list[int] = []

        def calling(name: str, *moves: Migration) -> Any:
            inner = in_a_row({"count": count}, schema=Turns, checkpointer=True)

            async def step() -> int:
                return (await inner.ainvoke({"log": []}))["turns"]

            called = task(step, name=name)

            @entrypoint(checkpointer=saver, migrations=list(moves))
            async def main(_: str) -> None:
                turns.append(await called())

            return main

        await calling("ask_old").ainvoke("a", at())
        await calling("ask_new", Migration(tasks={"ask_old": "ask_new"})).ainvoke("b", at())

        assert turns == [1, 2]
