"""Questions of parallel tasks, answered one by one: only the task that got its answer runs."""

from collections import Counter
from itertools import pairwise, permutations
from operator import add
from typing import Annotated, Any, TypedDict

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorgraph import Command, InMemorySaver, Send, StateGraph, entrypoint, interrupt, task
from actorgraph.types import RetryPolicy
from tests.support.graphs import at, in_a_row, side_by_side

pytestmark = pytest.mark.first_case


class Log(TypedDict, total=False):
    log: Annotated[list[str], add]


class Transfer(TypedDict, total=False):
    amount: int


def asker(name: str, bodies: Counter[str]) -> Any:
    """A node that counts its calls and asks for an answer."""

    async def node(state: Log) -> dict[str, Any]:
        bodies[name] += 1
        return {"log": [f"{name}={interrupt(f'{name}?')}"]}

    return node


def askers(k: int, bodies: Counter[str], **options: Any) -> Any:
    """A graph of `k` nodes that ask side by side."""
    nodes = {f"n{number}": asker(f"n{number}", bodies) for number in range(k)}
    return side_by_side(nodes, schema=Log, **options)


def texts(result: Any) -> list[str]:
    """The questions of a result that are still open."""
    return [question.value for question in result.get("__interrupt__", ())]


def answer(*questions: Any) -> Command[Any]:
    """A Command that answers each of these questions with its own text."""
    return Command(resume={question.id: f"re {question.value}" for question in questions})


async def answered(graph: Any, asked: list[Any], **options: Any) -> Any:
    """Answer questions one by one; returns the result of the last run."""
    result: Any = None
    for question in asked:
        result = await graph.ainvoke(answer(question), at(), **options)
    return result


class TestBodies:
    @pytest.mark.langgraph("F-F4", "F-F5")
    @pytest.mark.every_saver
    @pytest.mark.parametrize("k", range(1, 7))
    async def test_k_questions_take_2k_calls(self, saver, k):
        """
        Each of k tasks is called once to ask and once with its answer, 2k times in all.
        """
        bodies: Counter[str] = Counter()
        graph = askers(k, bodies, checkpointer=saver)
        asked = (await graph.ainvoke({}, at()))["__interrupt__"]

        result = await answered(graph, asked)

        assert (bodies.total(), set(bodies.values())) == (2 * k, {2})
        assert result["log"] == [f"n{n}=re n{n}?" for n in range(k)]

    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_in_each_durability(self, saver, durability):
        """
        Tasks are left alone in each durability, those of Sends too, and in any order of answers.
        """
        for order in permutations(range(3)):
            bodies: Counter[str] = Counter()
            builder = StateGraph(Log).add_node("ask", asker("ask", bodies))
            builder.set_conditional_entry_point(lambda _: [Send("ask", {}) for _ in range(3)])
            graph, thread = builder.compile(checkpointer=saver), at(str(order))
            asked = (await graph.ainvoke({}, thread, durability=durability))["__interrupt__"]
            for place in order:
                given = Command(resume={asked[place].id: place})
                result = await graph.ainvoke(given, thread, durability=durability)

            assert bodies == {"ask": 6}
            assert result["log"] == ["ask=0", "ask=1", "ask=2"]

    @pytest.mark.one_loop
    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    @given(data=st.data())
    @settings(max_examples=25, deadline=None)
    def test_any_order_in_any_groups_ends_the_same(self, backend, data):
        """
        Answered in any order and in groups of any size, tasks give the result of all answers at
        once, from 2k calls.
        """
        k = data.draw(st.integers(1, 6), label="k")
        order = data.draw(st.permutations(range(k)), label="order")
        cuts = data.draw(st.sets(st.integers(1, 5)), label="cuts")

        async def run(groups: list[list[int]]) -> tuple[Any, int]:
            bodies: Counter[str] = Counter()
            graph = askers(k, bodies, checkpointer=InMemorySaver())
            result = await graph.ainvoke({}, at())
            asked = result["__interrupt__"]
            for group in groups:
                result = await graph.ainvoke(answer(*(asked[n] for n in group)), at())
            return result, bodies.total()

        async def main() -> None:
            edges = sorted({0, k, *(cut for cut in cuts if cut < k)})
            groups = [list(order[a:b]) for a, b in pairwise(edges)]
            assert await run(groups) == await run([list(range(k))])
            assert (await run(groups))[1] == 2 * k

        anyio.run(main, backend=backend)


class TestWhatStaysOpen:
    @pytest.mark.langgraph("F-F4", "F-F12")
    @pytest.mark.every_saver
    async def test_it_is_shown_everywhere(self, saver):
        """
        Questions of tasks that are left alone are in the result, the stream and the snapshot.
        """
        graph = askers(3, Counter(), checkpointer=saver)
        asked = (await graph.ainvoke({}, at()))["__interrupt__"]

        modes = ["values", "updates"]
        stream = graph.astream(answer(asked[1]), at(), stream_mode=modes)
        chunks = [(mode, chunk) async for mode, chunk in stream]
        half = await graph.aget_state(at())

        left = [asked[0], asked[2]]
        shown = {
            m: [q for mode, c in chunks if mode == m for q in c.get("__interrupt__", ())]
            for m in modes
        }
        assert shown == {"values": left, "updates": left}
        assert list(half.interrupts) == left
        assert [[q.value for q in task.interrupts] for task in half.tasks] == [["n0?"], [], ["n2?"]]
        assert half.next == ("n0", "n2")

    async def test_it_is_streamed_after_the_work_of_the_answered_task(self, saver):
        """
        A reader that stops at the first open question has seen what the answer led to.
        """
        graph = askers(2, Counter(), checkpointer=saver)
        asked = (await graph.ainvoke({}, at()))["__interrupt__"]

        stream = graph.astream(answer(asked[1]), at(), stream_mode="updates")
        chunks = [chunk async for chunk in stream]

        assert chunks == [{"n1": {"log": ["n1=re n1?"]}}, {"__interrupt__": (asked[0],)}]

    async def test_one_answer_without_an_id_will_do_for_the_last(self, saver):
        """
        Once one question is left, an answer needs no id.
        """
        bodies: Counter[str] = Counter()
        graph = askers(2, bodies, checkpointer=saver)
        asked = (await graph.ainvoke({}, at()))["__interrupt__"]
        await graph.ainvoke(answer(asked[0]), at())

        result = await graph.ainvoke(Command(resume="last"), at())

        assert result["log"] == ["n0=re n0?", "n1=last"]
        assert bodies.total() == 4


class TestWhoRunsAgain:
    async def test_all_without_an_answer(self, saver):
        """
        None brings no answer: each task that asked is called again, and asks again.
        """
        bodies: Counter[str] = Counter()
        graph = askers(2, bodies, checkpointer=saver)
        asked = await graph.ainvoke({}, at())

        again = await graph.ainvoke(None, at())

        assert texts(again) == texts(asked)
        assert bodies == {"n0": 2, "n1": 2}

    async def test_all_when_the_command_updates_the_state(self, saver):
        """
        An update may change what the others ask: they are called again and see it.
        """

        async def asks(state: Log) -> dict[str, Any]:
            return {"log": [interrupt(f"{len(state['log'])} so far?")]}

        graph = side_by_side({"a": asks, "b": asks}, schema=Log, checkpointer=saver)
        asked = (await graph.ainvoke({"log": []}, at()))["__interrupt__"]

        half = await graph.ainvoke(
            Command(resume={asked[0].id: "yes"}, update={"log": ["note"]}), at()
        )

        assert texts(half) == ["1 so far?"]

    async def test_all_after_an_update_whose_run_failed(self, saver):
        """
        A run that took an update fails before a node could ask again: the next answer calls it.
        """
        failing = True

        async def breaks(state: Transfer) -> Transfer:
            interrupt("a?")
            if failing:
                raise ValueError("once")
            return {}

        async def confirms(state: Transfer) -> Transfer:
            interrupt("b?")
            return {}

        async def asks(state: Transfer) -> Transfer:
            if failing and state["amount"] > 10:
                await anyio.sleep_forever()
            interrupt(f"transfer {state['amount']}?")
            return {}

        nodes = {"a": breaks, "b": confirms, "c": asks}
        graph = side_by_side(nodes, schema=Transfer, checkpointer=saver)
        asked = (await graph.ainvoke({"amount": 10}, at()))["__interrupt__"]
        with pytest.raises(ValueError, match="once"):
            await graph.ainvoke(Command(resume={asked[0].id: "yes"}, update={"amount": 1000}), at())
        failing = False

        half = await graph.ainvoke(Command(resume={asked[1].id: "yes"}), at())

        assert texts(half) == ["transfer 1000?"]

    async def test_one_that_failed_after_it_had_asked(self, saver):
        """
        A task whose last attempt failed isn't left alone: an answer to another runs it too.
        """
        bodies: Counter[str] = Counter()

        async def shaky(state: Log) -> dict[str, Any]:
            bodies["shaky"] += 1
            if bodies["shaky"] == 2:
                raise ValueError("once")
            return {"log": [interrupt("shaky?")]}

        nodes = {"ask": asker("ask", bodies), "shaky": shaky}
        graph = side_by_side(nodes, schema=Log, checkpointer=saver)
        asked = (await graph.ainvoke({}, at()))["__interrupt__"]
        with pytest.raises(ValueError, match="once"):
            await graph.ainvoke(None, at())

        half = await graph.ainvoke(answer(asked[0]), at())

        assert texts(half) == ["shaky?"]
        assert bodies["shaky"] == 3

    async def test_one_with_another_question_of_its_own(self, saver):
        """
        A task with several questions runs once for each answer, and its sibling doesn't.
        """
        bodies: Counter[str] = Counter()

        async def twice(state: Log) -> dict[str, Any]:
            bodies["twice"] += 1
            return {"log": [interrupt("first?") + interrupt("second?")]}

        nodes = {"ask": asker("ask", bodies), "twice": twice}
        graph = side_by_side(nodes, schema=Log, checkpointer=saver)
        asked = (await graph.ainvoke({}, at()))["__interrupt__"]
        half = await graph.ainvoke(Command(resume={asked[1].id: "1"}), at())
        (second,) = [q for q in half["__interrupt__"] if q.value == "second?"]
        await graph.ainvoke(Command(resume={second.id: "2"}), at())

        assert texts(half) == ["ask?", "second?"]
        assert bodies == {"ask": 1, "twice": 3}

    async def test_a_retried_task_leaves_its_siblings_alone(self, saver):
        """
        Attempts that a policy repeats are of the answered task only.
        """
        bodies: Counter[str] = Counter()

        async def shaky(state: Log) -> dict[str, Any]:
            bodies["shaky"] += 1
            said = interrupt("shaky?")
            if bodies["shaky"] == 2:
                raise ConnectionError("once")
            return {"log": [said]}

        builder = StateGraph(Log).add_node("ask", asker("ask", bodies))
        policy = RetryPolicy(initial_interval=0, jitter=False)
        builder.add_node("shaky", shaky, retry_policy=policy)
        builder.set_entry_point("ask").set_entry_point("shaky")
        graph = builder.compile(checkpointer=saver)
        asked = (await graph.ainvoke({}, at()))["__interrupt__"]

        half = await graph.ainvoke(answer(asked[1]), at())

        assert texts(half) == ["ask?"]
        assert bodies == {"ask": 1, "shaky": 3}

    async def test_none_after_an_update_from_outside(self, saver):
        """
        After update_state the tasks are new: their questions are asked anew, under other ids.
        """
        bodies: Counter[str] = Counter()
        graph = askers(2, bodies, checkpointer=saver)
        asked = (await graph.ainvoke({}, at()))["__interrupt__"]
        await graph.aupdate_state(at(), {"log": ["note"]})

        again = (await graph.ainvoke(None, at()))["__interrupt__"]
        result = await answered(graph, again)

        assert {q.id for q in again}.isdisjoint(q.id for q in asked)
        assert result["log"] == ["note", "n0=re n0?", "n1=re n1?"]
        assert bodies == {"n0": 3, "n1": 3}


class TestSubgraphs:
    @pytest.mark.langgraph("F-F7")
    @pytest.mark.every_saver
    @pytest.mark.parametrize("inherits", [None, True], ids=["its task's", "its own"])
    async def test_tasks_of_a_subgraph_are_left_alone_too(self, saver, inherits):
        """
        Of the tasks in a subgraph, too, only the one that got its answer is called.
        """
        bodies: Counter[str] = Counter()
        inner = askers(3, bodies, checkpointer=inherits)
        nodes = {"below": inner, "ask": asker("ask", bodies)}
        graph = side_by_side(nodes, schema=Log, checkpointer=saver)
        asked = (await graph.ainvoke({}, at()))["__interrupt__"]

        result = await answered(graph, asked)

        assert bodies == {"n0": 2, "n1": 2, "n2": 2, "ask": 2}
        assert sorted(result["log"]) == sorted(
            ["ask=re ask?", "n0=re n0?", "n1=re n1?", "n2=re n2?"]
        )

    @pytest.mark.parametrize("at_once", [True, False])
    async def test_of_two_subgraphs_in_one_node_too(self, saver, at_once):
        """
        A node that runs two subgraphs is called again; the tasks below it are left alone, whether
        the second one has asked before the first one's question stopped the node, or asks later.
        """
        bodies: Counter[str] = Counter()
        inner = in_a_row({"below": asker("below", bodies)}, schema=Log)

        async def both(state: Log) -> dict[str, Any]:
            bodies["both"] += 1
            made: list[Any] = []
            first_ended = anyio.Event()

            async def call(place: int) -> None:
                if place > 0 and not at_once:
                    await first_ended.wait()
                made.extend((await inner.ainvoke({}))["log"])
                first_ended.set()

            async with anyio.create_task_group() as group:
                group.start_soon(call, 0)
                group.start_soon(call, 1)
            return {"log": made}

        graph = in_a_row({"both": both}, schema=Log, checkpointer=saver)
        result = await graph.ainvoke({}, at())

        for _ in range(2):
            result = await graph.ainvoke(answer(result["__interrupt__"][0]), at())

        assert result["log"] == ["below=re below?"] * 2
        assert bodies == {"both": 3, "below": 4}

    async def test_none_runs_the_tasks_of_a_subgraph_again(self, saver):
        """
        None calls what asks again on every level.
        """
        bodies: Counter[str] = Counter()
        graph = in_a_row({"below": askers(2, bodies)}, schema=Log, checkpointer=saver)
        asked = (await graph.ainvoke({}, at()))["__interrupt__"]
        await graph.ainvoke(answer(asked[0]), at())

        again = await graph.ainvoke(None, at())

        assert texts(again) == ["n1?"]
        assert bodies == {"n0": 2, "n1": 2}


class TestCalls:
    @pytest.mark.langgraph("F-F8")
    @pytest.mark.parametrize("k", range(1, 7))
    async def test_k_task_calls_take_2k_calls(self, saver, k):
        """
        `@task` calls that asked are left alone too: k + 1 calls of their caller, 2k of theirs.
        """
        bodies: Counter[str] = Counter()

        @task
        async def ask(number: int) -> str:
            bodies["ask"] += 1
            return interrupt(f"{number}?")

        @entrypoint(checkpointer=saver)
        async def main(count: int) -> list[str]:
            bodies["main"] += 1
            calls = [ask(number) for number in range(count)]
            return [await call for call in calls]

        asked = (await main.ainvoke(k, at()))["__interrupt__"]
        result = await answered(main, asked)

        assert result == [f"re {n}?" for n in range(k)]
        assert bodies == {"main": k + 1, "ask": 2 * k}

    async def test_a_call_with_two_questions_of_its_own(self, saver):
        """
        A call whose first question was answered asks the second, and waits with that one.
        """
        bodies: Counter[str] = Counter()

        @task
        async def ask(name: str) -> str:
            bodies[name] += 1
            return interrupt(f"{name}1") + interrupt(f"{name}2")

        @entrypoint(checkpointer=saver)
        async def main(names: str) -> list[str]:
            calls = [ask(name) for name in names]
            return [await call for call in calls]

        result = await main.ainvoke("xy", at())
        for _ in range(4):
            question = result["__interrupt__"][-1]
            result = await main.ainvoke(Command(resume={question.id: question.value}), at())

        assert result == ["x1x2", "y1y2"]
        assert bodies == {"x": 3, "y": 3}
