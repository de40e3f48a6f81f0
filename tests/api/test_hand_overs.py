"""Several tasks of a subgraph's superstep that command the graph above."""

from operator import add
from typing import Annotated, Any, TypedDict

import anyio
import pytest

from actorgraph import START, CachePolicy, Command, MessagesState, Send, StateGraph, interrupt
from actorgraph.caches import InMemoryCache
from actorgraph.channels import UntrackedValue
from actorgraph.errors import InvalidUpdateError, ParentCommand
from actorgraph.functional import task
from actorgraph.messages import AIMessage, ToolMessage
from actorgraph.prebuilt import ToolNode
from actorgraph.types import RetryPolicy
from tests.support.graphs import at, side_by_side
from tests.support.subgraphs import asked


class Log(TypedDict, total=False):
    log: Annotated[list[str], add]
    x: int


def up(line: str, goto: Any = "done", **update: Any) -> Command[Any]:
    return Command(graph=Command.PARENT, goto=goto, update={"log": [line], **update})


def giving(returned: Any, seen: list[str] | None = None, name: str = ""):
    async def node(state: Any) -> Any:
        if seen is not None:
            seen.append(name)
        return returned

    return node


def above(inner: Any, saver: Any = None, *, schema: Any = Log, **options: Any) -> Any:
    """`agent` runs the subgraph; `done` and `other` write their names."""
    builder = StateGraph(schema)
    builder.add_node("agent", inner, destinations=("done", "other"), **options)
    for name in ("done", "other"):
        builder.add_node(name, giving({"log": [name]}))
    return builder.add_edge(START, "agent").compile(checkpointer=saver)


def subgraph(**nodes: Any) -> Any:
    return side_by_side(nodes, schema=Log)


RESULTS = {
    "two Commands": ({"a": up("A"), "b": up("B")}, ["A", "B", "done"]),
    "a list": ({"a": [up("A"), up("B")]}, ["A", "B", "done"]),
    "two targets": ({"a": up("A", "other"), "b": up("B")}, ["A", "B", "done", "other"]),
    "targets without an update": (
        {"a": Command(graph=Command.PARENT, goto="other"), "b": up("B")},
        ["B", "done", "other"],
    ),
    "Sends": (
        {"a": up("A", [Send("done", {}), "other"]), "b": up("B", Send("done", {}))},
        ["A", "B", "other", "done", "done"],
    ),
    "a result beside": ({"a": {"log": ["A"]}, "b": up("B")}, ["A", "B", "done"]),
    "a result in the list": ({"a": [{"log": ["A"]}, up("B")]}, ["A", "B", "done"]),
    "no route": ({"a": Command(graph=Command.PARENT, update={"log": ["A"]}), "b": None}, ["A"]),
    "pairs": (
        {"a": Command(graph=Command.PARENT, update=[("log", ["A"])], goto="done"), "b": up("B")},
        ["A", "B", "done"],
    ),
}


class TestOneSuperstep:
    @pytest.mark.parametrize("case", RESULTS)
    @pytest.mark.parametrize("how", ["node", "function"])
    async def test_all_that_its_tasks_say_goes_up(self, case, how):
        """
        Updates, gotos and Sends of all tasks land in the graph above, in the order of their paths,
        and so do the plain results beside them.
        """
        returned, log = RESULTS[case]
        inner = subgraph(**{name: giving(value) for name, value in returned.items()})

        async def calls(state: Log) -> Any:
            return await inner.ainvoke({"log": []})

        graph = above(inner if how == "node" else calls)

        assert (await graph.ainvoke({"log": []}))["log"] == log

    @pytest.mark.every_saver
    @pytest.mark.parametrize("first", ["a", "b"])
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_the_timing_changes_nothing(self, saver, first, durability):
        """
        The quicker task neither stops the others nor changes the order.
        """
        gone = anyio.Event()

        def timed(name: str):
            async def node(state: Log) -> Command[Any]:
                if name == first:
                    gone.set()
                else:
                    await gone.wait()
                    for _ in range(10):
                        await anyio.lowlevel.checkpoint()
                return up(name)

            return node

        graph = above(subgraph(a=timed("a"), b=timed("b")), saver)

        result = await graph.ainvoke({"log": []}, at(), durability=durability)

        assert result["log"] == ["a", "b", "done"]

    def test_in_blocking_calls(self):
        """
        Plain functions under `invoke` and `stream` hand over alike.
        """
        inner = subgraph(a=lambda _: up("A"), b=lambda _: up("B"), c=lambda _: {"log": ["C"]})
        graph = above(inner)

        parts = list(graph.stream({"log": []}, subgraphs=True))

        shown = [{"log": ["A"]}, {"log": ["B"]}, {"log": ["C"]}]
        assert graph.invoke({"log": []})["log"] == ["A", "B", "C", "done"]
        assert next(part for namespace, part in parts if not namespace) == {"agent": shown}
        assert [part for namespace, part in parts if namespace] == [{"c": {"log": ["C"]}}]

    async def test_two_levels(self):
        """
        A graph between two others gets what is below it, and hands over in its turn.
        """
        lowest = subgraph(a=giving(up("A", "mid")), b=giving(up("B", "mid")))
        between = StateGraph(Log).add_node("low", lowest, destinations=("mid",))
        between.add_node("mid", giving([up("M"), up("N", "other")])).add_edge(START, "low")

        result = await above(between.compile()).ainvoke({"log": []})

        assert result["log"] == ["M", "N", "done", "other"]

    async def test_in_a_call(self):
        """
        A graph in a `@task` call hands over to the graph of the node that made the call.
        """
        inner = subgraph(a=giving(up("A")), b=giving(up("B")))

        @task
        async def call() -> Any:
            return await inner.ainvoke({"log": []})

        async def node(state: Log) -> Any:
            return await call()

        assert (await above(node).ainvoke({"log": []}))["log"] == ["A", "B", "done"]

    async def test_a_program_may_look_at_it(self):
        """
        The exception that a node may catch has one Command with all updates and gotos.
        """
        inner = subgraph(a=giving(up("A")), b=giving(up("B", "other")))

        async def node(state: Log) -> Any:
            try:
                return await inner.ainvoke({"log": []})
            except ParentCommand as error:
                command = error.command
                return Command(update=command.update, goto=command.goto)

        assert (await above(node).ainvoke({"log": []}))["log"] == ["A", "B", "done", "other"]

    async def test_a_graph_over_one_value(self):
        """
        Graphs whose state is one value fold the values.
        """
        schema: Any = Annotated[list, add]
        gives = {n: giving(Command(graph=Command.PARENT, update=[n])) for n in "ab"}
        inner = side_by_side({**gives, "c": giving(["c"])}, schema=schema)
        builder = StateGraph(schema).add_node("agent", inner).add_edge(START, "agent")

        assert await builder.compile().ainvoke(["in"]) == ["in", "a", "b", "c"]

    async def test_two_values_for_one(self):
        """
        Commands that each set a key of one value are refused, as two nodes of the graph above are;
        the error names the nodes that returned them, and the cure.
        """
        graph = above(subgraph(a=giving(up("A", x=1)), b=giving(up("B", x=2))))

        with pytest.raises(
            InvalidUpdateError,
            match=r"'x': can receive only one value per step, .* 'a' and 'b' below",
        ) as refused:
            await graph.ainvoke({"log": []})

        assert "let one of them hand over, or give 'x' a reducer" in refused.value.do

    async def test_a_command_goes_before_a_result_beside_it(self):
        """
        A plain result sets a key of one value, unless a Command does.
        """
        beside = giving({"x": 2})

        commanded = await above(subgraph(a=giving(up("A", x=1)), b=beside)).ainvoke({"log": []})
        alone = await above(subgraph(a=giving(up("A")), b=beside)).ainvoke({"log": []})

        assert (commanded["x"], alone["x"]) == (1, 2)

    async def test_a_part_of_a_value_stays_below(self):
        """
        An item added to a list of the subgraph doesn't replace a list above without a reducer.
        """

        class Plain(TypedDict, total=False):
            log: list[str]

        command = Command[Any](graph=Command.PARENT, goto="done")
        inner = subgraph(a=giving(command), b=giving({"log": ["B"]}))
        builder = StateGraph(Plain).add_node("agent", inner, destinations=("done",))
        graph = builder.add_node("done", giving(None)).add_edge(START, "agent").compile()

        assert (await graph.ainvoke({"log": ["kept"]}))["log"] == ["kept"]


class TestQuestionsAndFailures:
    @pytest.mark.every_saver
    @pytest.mark.parametrize("command", [True, False])
    @pytest.mark.parametrize("durability", ["sync", "exit"])
    async def test_a_question_beside_a_command(self, saver, command, durability):
        """
        The question is asked, the Command kept: after the answer both go up, and neither node that
        has finished runs again.
        """
        seen: list[str] = []

        async def asks(state: Log) -> Any:
            seen.append("b")
            answer = interrupt("q")
            return up(answer) if command else {"log": [answer]}

        graph = above(subgraph(a=giving(up("A"), seen, "a"), b=asks), saver)
        waiting = await graph.ainvoke({"log": []}, at(), durability=durability)
        done = await graph.ainvoke(Command(resume="yes"), at(), durability=durability)

        assert asked(waiting) == ["q"]
        assert done["log"] == ["A", "yes", "done"]
        assert sorted(seen) == ["a", "b", "b"]

    @pytest.mark.every_saver
    async def test_a_failure_beside_a_command(self, saver):
        """
        A failed task fails the run; the next run repeats that task alone, and both go up.
        """
        seen: list[str] = []

        async def fails(state: Log) -> Any:
            seen.append("b")
            if seen.count("b") == 1:
                raise ValueError("once")
            return up("B")

        async def waits(state: Log) -> Any:
            while "a" not in seen:
                await anyio.lowlevel.checkpoint()
            return await fails(state)

        graph = above(subgraph(a=giving(up("A"), seen, "a"), b=waits), saver)
        with pytest.raises(ValueError, match="once"):
            await graph.ainvoke({"log": []}, at())
        again = await graph.ainvoke(None, at())

        assert again["log"] == ["A", "B", "done"]
        assert seen == ["a", "b", "b"]

    async def test_retries_and_error_handlers(self):
        """
        A Command of a retried node, and one of an error handler, go up like any other.
        """
        tries: list[int] = []

        async def flaky(state: Log) -> Any:
            tries.append(1)
            if len(tries) == 1:
                raise ConnectionError
            return up("retried")

        async def broken(state: Log) -> Any:
            raise ValueError

        builder = StateGraph(Log)
        again = RetryPolicy(initial_interval=0, jitter=False)
        builder.add_node("a", flaky, retry_policy=again)
        builder.add_node("b", broken, error_handler=giving(up("handled")))
        inner = builder.add_edge(START, "a").add_edge(START, "b").compile()

        result = await above(inner).ainvoke({"log": []})

        assert sorted(result["log"]) == ["done", "handled", "retried"]

    async def test_untracked_values_are_never_stored(self, saver):
        """
        A value for an untracked key above goes up, and isn't stored beside a question.
        """

        class State(TypedDict, total=False):
            log: Annotated[list[str], add]
            handle: Annotated[Any, UntrackedValue]

        async def asks(state: Log) -> Any:
            return up(interrupt("q"))

        command = up("A", handle=anyio.Event())
        graph = above(subgraph(a=giving(command), b=asks), saver, schema=State)
        await graph.ainvoke({"log": []}, at())

        result = await graph.ainvoke(Command(resume="B"), at())

        assert result["log"] == ["A", "B", "done"]

    async def test_a_command_is_not_cached(self, saver):
        """
        A node with a cache that hands over runs each time.
        """
        seen: list[str] = []
        builder = StateGraph(Log)
        builder.add_node("a", giving(up("A"), seen, "a"), cache_policy=CachePolicy())
        inner = builder.add_edge(START, "a").compile(cache=InMemoryCache())
        graph = above(inner, saver)

        for number in range(2):
            await graph.ainvoke({"log": []}, at(str(number)))

        assert seen == ["a", "a"]


class TestStatefulSubgraphs:
    @pytest.mark.every_saver
    async def test_it_remembers_what_its_other_tasks_wrote(self, saver):
        """
        A stateful subgraph keeps the results beside a Command for its next turn.
        """

        class Own(TypedDict, total=False):
            log: Annotated[list[str], add]
            own: Annotated[list[str], add]

        async def hands(state: Own) -> Command[Any]:
            return up(f"{len(state.get('own', []))}")

        builder = StateGraph(Own).add_node("a", hands).add_node("b", giving({"own": ["b"]}))
        inner = builder.add_edge(START, "a").add_edge(START, "b").compile(checkpointer=True)
        graph = above(inner, saver)

        for _ in range(3):
            result = await graph.ainvoke({"log": []}, at())

        assert result["log"] == ["0", "done", "1", "done", "2", "done"]


def call(name: str) -> dict[str, Any]:
    return {"name": name, "args": {}, "id": name, "type": "tool_call"}


class Team(MessagesState):
    log: Annotated[list[str], add]


def tools() -> list[Any]:
    from langchain_core.tools import InjectedToolCallId, tool

    def handed(identifier: str) -> Command[Any]:
        answer = ToolMessage(f"{identifier} done", tool_call_id=identifier)
        update = {"log": [identifier], "messages": [answer]}
        return Command(graph=Command.PARENT, goto="done", update=update)

    @tool
    def pay(tid: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Pay."""
        return handed(tid)

    @tool
    def ship(tid: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Ship."""
        return handed(tid)

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    return [pay, ship, look]


class TestTools:
    @pytest.mark.parametrize("sends", [True, False])
    @pytest.mark.parametrize("order", [["pay", "ship"], ["look", "pay"], ["ship", "look", "pay"]])
    async def test_every_call_is_answered(self, order, sends):
        """
        Each call of a message has its answer above, in the order of the calls: of tools that hand
        over and of plain ones, in one task or in a task each.
        """
        builder = StateGraph(MessagesState).add_node("tools", ToolNode(tools()))
        if sends:
            builder.add_conditional_edges(
                START, lambda s: [Send("tools", _with_call(s, i)) for i in range(len(order))]
            )
        else:
            builder.add_edge(START, "tools")
        graph = above(builder.compile(), schema=Team)
        asks = AIMessage("", tool_calls=[call(name) for name in order])

        result = await graph.ainvoke({"messages": [asks]})

        assert [message.tool_call_id for message in result["messages"][1:]] == order
        assert result["log"] == [*(name for name in order if name != "look"), "done"]

    async def test_an_answer_without_its_call_stays_below(self):
        """
        If no Command brings the message with the calls up, the plain tool's answer isn't either.
        """
        asks = AIMessage("", tool_calls=[call("look"), call("pay")])

        builder = StateGraph(MessagesState)
        builder.add_node("model", giving({"messages": [asks]})).add_node("tools", ToolNode(tools()))
        inner = builder.add_edge(START, "model").add_edge("model", "tools").compile()

        result = await above(inner, schema=Team).ainvoke({"messages": []})

        assert [message.tool_call_id for message in result["messages"]] == ["pay"]


def _with_call(state: Any, number: int) -> dict[str, Any]:
    (message,) = state["messages"]
    return {"messages": [AIMessage("", id=message.id, tool_calls=[message.tool_calls[number]])]}
