"""Runs that are given the config of a graph inside of the thread's graph."""

from typing import Any

import httpx
import pytest

from actorgraph import ActorSystem, Command, SqliteSaver
from actorgraph.web import GraphRoutes
from tests.support.graphs import at, history, in_a_row, side_by_side
from tests.support.subgraphs import Log, asks, child, parent

DONE = ["in", "before", "in", "before", "c1", "c2:yes", "after"]


async def waiting(saver: Any, *, depth: int = 1, mode: Any = None) -> tuple[Any, list[str], Any]:
    """A graph whose thread waits `depth` levels below it, what ran, and the config down there."""
    seen: list[str] = []
    below = child(seen, "q", checkpointer=mode)
    for _ in range(depth - 1):
        below = parent(seen, below, None)
    graph = parent(seen, below, saver)
    await graph.ainvoke({"log": ["in"]}, at())
    snapshot = await graph.aget_state(at(), subgraphs=True)
    for _ in range(depth):
        snapshot = snapshot.tasks[0].state
    seen.clear()
    return graph, seen, snapshot.config


class TestAnswers:
    @pytest.mark.every_saver
    @pytest.mark.parametrize("mode", [None, True])
    async def test_an_answer_with_the_config_of_the_child(self, saver, mode):
        """
        An answer that is given with the config of the graph that asks runs to the end.
        """
        graph, seen, below = await waiting(saver, mode=mode)

        result = await graph.ainvoke(Command(resume="yes"), below)

        assert seen == ["c2", "after"]
        assert result["log"] == DONE
        assert (await graph.aget_state(at())).next == ()

    async def test_an_answer_by_id(self, saver):
        """
        So does an answer that names its question.
        """
        graph, seen, below = await waiting(saver)
        (question,) = (await graph.aget_state(below)).interrupts

        result = await graph.ainvoke(Command(resume={question.id: "yes"}), below)

        assert (seen, result["log"]) == (["c2", "after"], DONE)

    @pytest.mark.parametrize("depth", [2, 3])
    async def test_an_answer_at_any_depth(self, saver, depth):
        """
        The config of a graph below several others leads there, and nothing above runs again.
        """
        graph, seen, below = await waiting(saver, depth=depth)

        await graph.ainvoke(Command(resume="yes"), below)

        assert seen == ["c2", *["after"] * depth]

    async def test_an_answer_in_a_stream(self, saver):
        """
        A stream that is given such a config shows the rest of the run.
        """
        graph, _, below = await waiting(saver)

        shown = [part async for part in graph.astream(Command(resume="yes"), below)]

        assert [next(iter(part)) for part in shown] == ["child", "after"]

    async def test_a_config_without_a_checkpoint(self, saver):
        """
        The config that a task of a snapshot holds leads to the newest checkpoint.
        """
        graph, seen, _ = await waiting(saver)
        below = (await graph.aget_state(at())).tasks[0].state

        result = await graph.ainvoke(Command(resume="yes"), below)

        assert (seen, result["log"]) == (["c2", "after"], DONE)

    async def test_the_questions_of_several_children(self, saver):
        """
        Each of several graphs that wait is answered with its own config, the others wait on.
        """
        seen: list[str] = []
        both = {name: child(seen, "q") for name in "xy"}
        graph = side_by_side(both, schema=Log, checkpointer=saver)
        await graph.ainvoke({"log": []}, at())
        tasks = (await graph.aget_state(at(), subgraphs=True)).tasks
        seen.clear()

        for task in tasks:
            answer = Command(resume={task.interrupts[0].id: task.name})
            result = await graph.ainvoke(answer, task.state.config)

        assert seen == ["c2", "c2"]
        assert result["log"] == ["c1", "c2:x", "c1", "c2:y"]

    async def test_no_answer_with_the_config_of_the_child(self, saver):
        """
        Without an answer the question is asked again, and the thread's config answers it.
        """
        graph, _, below = await waiting(saver)

        again = await graph.ainvoke(None, below)
        result = await graph.ainvoke(Command(resume="yes"), at())

        assert [question.value for question in again["__interrupt__"]] == ["q"]
        assert result["log"] == DONE

    async def test_a_new_input_begins_the_child_anew(self, saver):
        """
        A new input with such a config is one for the thread: its tasks are new ones.
        """
        graph, seen, below = await waiting(saver)

        await graph.ainvoke({"log": ["new"]}, below)

        assert seen == ["before", "c1", "c2"]


class TestEdits:
    @pytest.mark.every_saver
    @pytest.mark.parametrize("edits", [1, 2])
    @pytest.mark.parametrize("with_config", ["edited", "old", "thread"])
    async def test_an_answer_after_an_edit_of_the_child(self, saver, edits, with_config):
        """
        The question that the thread shows may be answered after the state of the graph that asked
        was edited, with any of its configs; the old one leads to the state before the edit.
        """
        graph, _, below = await waiting(saver)
        (question,) = (await graph.aget_state(at())).interrupts
        edited = below
        for number in range(edits):
            edited = await graph.aupdate_state(edited, {"log": [f"edit {number}"]})
        config = {"edited": edited, "old": below, "thread": at()}[with_config]

        result = await graph.ainvoke(Command(resume={question.id: "yes"}), config)

        made = [] if with_config == "old" else [f"edit {number}" for number in range(edits)]
        assert result["log"] == [*DONE[:5], *made, *DONE[5:]]

    async def test_an_earlier_answer_is_not_one_to_a_later_question(self, saver):
        """
        After an edit only the answers to questions that waited then are used: a run without a new
        answer asks again.
        """
        seen: list[str] = []
        nodes = {"c1": asks("c1", seen, "q1"), "c2": asks("c2", seen, "q2")}
        graph = parent(seen, in_a_row(nodes, schema=Log), saver)
        await graph.ainvoke({"log": []}, at())
        await graph.ainvoke(Command(resume="first"), at())
        below = (await graph.aget_state(at(), subgraphs=True)).tasks[0].state
        await graph.aupdate_state(below.config, {"log": ["edit"]})

        again = await graph.ainvoke(None, at())
        result = await graph.ainvoke(Command(resume="second"), at())

        assert [question.value for question in again["__interrupt__"]] == ["q2"]
        assert result["log"][-4:] == ["c1:first", "edit", "c2:second", "after"]

    async def test_an_older_checkpoint_of_the_child(self, saver):
        """
        A run from an older checkpoint of the child's begins there, and asks anew.
        """
        graph, seen, _ = await waiting(saver)
        found = await history(graph, (await graph.aget_state(at())).tasks[0].state)

        again = await graph.ainvoke(None, found[1].config)
        result = await graph.ainvoke(Command(resume="yes"), at())

        assert seen == ["c1", "c2", "c2", "after"]
        assert [question.value for question in again["__interrupt__"]] == ["q"]
        assert result["log"] == DONE


class TestSystems:
    async def test_an_answer_through_a_system(self, saver):
        """
        A system takes the config of the graph that asks.
        """
        graph, seen, below = await waiting(saver)

        async with ActorSystem({"g": graph}) as system:
            run = await system.start("g", "t", Command(resume="yes"), config=below)
            output = await run.result()

        assert (seen, output["log"]) == (["c2", "after"], DONE)

    async def test_an_answer_over_http(self, tmp_path):
        """
        A client sends the checkpoint of the graph that asks as the server has shown it.
        """
        saver = SqliteSaver(tmp_path / "t.db")
        graph = parent([], child([], "q"), saver)
        system = ActorSystem({"g": graph}, saver=saver)
        transport = httpx.ASGITransport(GraphRoutes(system))
        async with system, httpx.AsyncClient(transport=transport, base_url="http://t") as client:
            body = {"assistant_id": "g", "input": {"log": ["in"]}, "if_not_exists": "create"}
            await client.post("/threads/t/runs/wait", json=body)
            state = await client.get("/threads/t/state", params={"subgraphs": True})
            below = state.json()["tasks"][0]["state"]["checkpoint"]
            said = {"assistant_id": "g", "command": {"resume": "yes"}, "checkpoint": below}

            answered = await client.post("/threads/t/runs/wait", json=said)

        assert answered.json()["log"] == DONE
