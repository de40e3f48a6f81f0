"""LangGraph's own commands, questions and graphs in a program that uses both libraries."""

import operator
import subprocess
import sys
from typing import Annotated, Any

import pytest
from langgraph import errors as their_errors
from langgraph import graph as theirs
from langgraph import types as their_types
from langgraph.checkpoint.memory import InMemorySaver as TheirSaver
from pydantic import BaseModel
from typing_extensions import TypedDict

import actorgraph
from actorgraph import (
    END,
    START,
    ActorSystem,
    Command,
    GraphBuildError,
    InMemorySaver,
    Interrupt,
    InvalidUpdateError,
    NodeInterrupt,
    Overwrite,
    Send,
    StateGraph,
    interrupt,
)
from actorgraph.bridges.langgraph_values import adapt
from actorgraph.messages import AIMessage, ToolMessage
from actorgraph.prebuilt import ToolNode
from tests.support.graphs import at


class Log(TypedDict, total=False):
    count: int
    log: Annotated[list, operator.add]


class Update(BaseModel):
    log: Any


def then(state):
    return {"log": ["then"]}


def graph_of(node, **options: Any) -> Any:
    """`node`, and after it one that says that it ran."""
    builder = StateGraph(Log).add_node("n", node).add_node("then", then)
    builder.add_edge(START, "n").add_edge("n", "then")
    return builder.compile(checkpointer=InMemorySaver(), **options)


def routed(answer) -> Any:
    """A node whose conditional edge answers so."""
    builder = StateGraph(Log).add_node("n", lambda state: {}).add_node("then", then)
    return builder.add_edge(START, "n").add_conditional_edges("n", lambda state: answer).compile()


RETURNED = [
    lambda of: of.Command(update={"count": 3}, goto="then"),
    lambda of: of.Command(update={"log": of.Overwrite(["new"])}),
    lambda of: of.Command(update=[("log", of.Overwrite(["new"]))]),
    lambda of: of.Command(update=Update(log=of.Overwrite(["new"]))),
    lambda of: Update(log=of.Overwrite(["new"])),
    lambda of: of.Command(goto=[of.Send("then", {"count": 1}), "then"]),
    lambda of: of.Command(goto=of.Send("then", {})),
    lambda of: of.Send("then", {"count": 1}),
    lambda of: [of.Command(update={"count": 3}), {"log": ["x"]}, of.Send("then", {})],
    lambda of: Command(goto=[of.Send("then", {})]),
]
ROUTES = [lambda of: of.Send("then", {}), lambda of: [of.Send("then", {}), "then"]]


@pytest.mark.parametrize("made", RETURNED)
async def test_results_of_nodes_mean_the_same(made):
    """
    A Command, a Send, an Overwrite of either library, alone, in a list, inside of each other.
    """
    ours = await graph_of(lambda state: made(actorgraph)).ainvoke({"log": ["old"]}, at())
    found = await graph_of(lambda state: made(their_types)).ainvoke({"log": ["old"]}, at())

    assert found == ours
    assert "then" in found["log"]


@pytest.mark.parametrize("made", ROUTES)
async def test_results_of_conditional_edges_mean_the_same(made):
    """
    A Send of either library leads to its node.
    """
    ours = await routed(made(actorgraph)).ainvoke({"log": []})

    assert await routed(made(their_types)).ainvoke({"log": []}) == ours
    assert "then" in ours["log"]


async def test_an_input_may_be_their_command():
    """
    It answers a question, updates and routes, in a graph, a system and an update from outside.
    """

    def asks(state):
        return {"log": [interrupt("which?")]}

    graph = graph_of(asks)
    for answer in (their_types.Command(resume="this"), Command(resume="this")):
        place = at(type(answer).__module__)
        await graph.ainvoke({"log": []}, place)
        assert (await graph.ainvoke(answer, place))["log"] == ["this", "then"]
    async with ActorSystem({"g": graph}, saver=graph.checkpointer) as system:
        for thread, start in (("a", system.start), ("b", system.resume)):
            await (await system.start("g", thread, {"log": []})).result()
            run = await start("g", thread, their_types.Command(resume="that"))
            assert (await run.result())["log"] == ["that", "then"]
    await graph.aupdate_state(place, their_types.Command(update={"count": 8}), as_node="then")
    assert (await graph.aget_state(place)).values["count"] == 8


QUESTIONS = [
    lambda: their_errors.GraphInterrupt((their_types.Interrupt("why?"),)),
    lambda: their_errors.NodeInterrupt("why?"),
    lambda: NodeInterrupt("why?"),
    lambda: NodeInterrupt("why?", id="mine"),
    lambda: actorgraph.GraphInterrupt([Interrupt("why?")]),
    lambda: BaseExceptionGroup("tasks", [NodeInterrupt("why?")]),
    lambda: ExceptionGroup("tasks", [their_errors.NodeInterrupt("why?")]),
]


@pytest.mark.langgraph("F-F13")
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.filterwarnings("ignore:NodeInterrupt is deprecated")
async def test_a_raised_question_is_asked(question):
    """
    The run pauses with the question, is resumed by its id, and asks again until a state is changed.
    """

    def asks(state):
        if not state.get("count"):
            raise question()
        return {"log": ["went on"]}

    graph = graph_of(asks, name="g")
    paused = await graph.ainvoke({"log": []}, at())
    snapshot = await graph.aget_state(at())
    (asked,) = snapshot.interrupts

    assert [i.value for i in paused["__interrupt__"]] == ["why?"]
    assert (asked.value, snapshot.next, snapshot.values) == ("why?", ("n",), {"log": []})
    again = await graph.ainvoke(Command(resume={asked.id: "because"}), at())
    assert [i.value for i in again["__interrupt__"]] == ["why?"]
    assert len((await graph.aget_state(at())).interrupts) == 1
    await graph.aupdate_state(at(), {"count": 1}, as_node=START)
    assert (await graph.ainvoke(None, at()))["log"] == ["went on", "then"]


@pytest.mark.langgraph("F-F13")
async def test_a_raised_question_follows_an_answered_one():
    """
    Questions of both kinds in one node: each has its own id, and each answer stays with its own.
    """

    def asks(state):
        first = interrupt("first?")
        if not state.get("count"):
            raise NodeInterrupt("second?")
        return {"log": [first]}

    graph = graph_of(asks)
    first = (await graph.ainvoke({"log": []}, at()))["__interrupt__"][0]
    second = (await graph.ainvoke(Command(resume="one"), at()))["__interrupt__"][0]

    assert (first.value, second.value) == ("first?", "second?")
    assert first.id != second.id


async def test_a_raised_command_for_the_graph_above_reaches_it():
    """
    From a graph of either library that runs as a node, and from the node itself.
    """

    def up(state):
        return their_types.Command(graph="__parent__", update={"count": 7}, goto="then")

    def raises(state):
        raise their_errors.ParentCommand(their_types.Command(update={"count": 7}, goto="then"))

    inner = StateGraph(Log).add_node("up", up).add_edge(START, "up").compile()
    their_inner = theirs.StateGraph(Log).add_node("up", up).add_edge(START, "up").compile()
    for node in (inner, their_inner, raises):
        builder = StateGraph(Log).add_node("n", node, destinations=("then",))
        builder.add_node("then", then).add_edge(START, "n")
        assert await builder.compile().ainvoke({"log": []}) == {"count": 7, "log": ["then"]}


def agent(*questions: str, saver: Any = None, **options: Any) -> Any:
    """A graph of LangGraph's that asks."""

    def ask(state):
        return {"log": [their_types.interrupt(question) for question in questions]}

    builder = theirs.StateGraph(Log).add_node("ask", ask).add_edge(START, "ask")
    return builder.compile(checkpointer=saver, **options)


class TestAgents:
    async def test_its_questions_are_asked_and_answered(self):
        """
        A graph of LangGraph's as a node: each question pauses the run, and answers reach it.
        """
        graph = graph_of(agent("one?", "two?", saver=TheirSaver()))
        asked = []
        result = await graph.ainvoke({"log": []}, at())
        while "__interrupt__" in result:
            (question,) = (await graph.aget_state(at())).interrupts
            asked.append(question.value)
            result = await graph.ainvoke(Command(resume={question.id: len(asked)}), at())

        assert asked == ["one?", "two?"]
        assert result["log"] == [1, 2, "then"]

    def test_in_blocking_code(self):
        """
        The same without an event loop of the caller's.
        """
        graph = graph_of(agent("one?", saver=TheirSaver()))

        assert graph.invoke({"log": []}, at())["__interrupt__"][0].value == "one?"
        assert graph.invoke(Command(resume="yes"), at())["log"] == ["yes", "then"]

    async def test_two_that_ask_at_once(self):
        """
        Each answer reaches the graph that asked for it.
        """
        builder = StateGraph(Log).add_node("then", then, defer=True)
        for name in ("a", "b"):
            other = agent(f"{name}?", saver=TheirSaver())
            builder.add_node(name, other).add_edge(START, name).add_edge(name, "then")
        graph = builder.compile(checkpointer=InMemorySaver())
        await graph.ainvoke({"log": []}, at())
        asked = (await graph.aget_state(at())).interrupts
        answers = {question.id: question.value.upper() for question in asked}

        assert (await graph.ainvoke(Command(resume=answers), at()))["log"] == ["A?", "B?", "then"]

    async def test_without_a_checkpointer_it_is_refused(self):
        """
        It could not go on from its question: the run fails, and the next node doesn't run.
        """
        graph = graph_of(agent("one?"))

        with pytest.raises(InvalidUpdateError, match=r"'n' .* asks 'one\?' and has no checkpoint"):
            await graph.ainvoke({"log": []}, at())
        assert (await graph.aget_state(at())).next == ("n",)

    @pytest.mark.parametrize("where", ["interrupt_before", "interrupt_after"])
    def test_its_breakpoints_are_refused(self, where):
        """
        A graph that would stop at a breakpoint of its own is refused when it is added.
        """
        other = agent("one?", saver=TheirSaver(), **{where: ["ask"]})

        with pytest.raises(GraphBuildError, match="'n' is a graph of LangGraph's with breakpoints"):
            graph_of(other)

    async def test_a_breakpoint_of_a_call_is_refused(self):
        """
        A graph's return value at a breakpoint that the node's call sets isn't used as a result.
        """
        other = agent("one?", saver=TheirSaver())
        graph = graph_of(lambda state: other.invoke(state, interrupt_before=["ask"]))

        with pytest.raises(InvalidUpdateError, match=r"'n' .* stopped at a breakpoint of its own"):
            await graph.ainvoke({"log": []}, at())
        assert (await graph.aget_state(at())).next == ("n",)

    async def test_its_returned_question_is_not_dropped(self):
        """
        A node that returns what a run on another thread returned fails; nothing runs after it.
        """
        other = agent("one?", saver=TheirSaver())
        graph = graph_of(lambda state: other.invoke(state, at("other")))

        with pytest.raises(InvalidUpdateError, match=r"returned an interrupt of .* graph: 'one\?'"):
            await graph.ainvoke({"log": []}, at())
        assert (await graph.aget_state(at())).next == ("n",)


class TestTools:
    @staticmethod
    def called(tool, **options):
        asks = AIMessage("", tool_calls=[{"name": tool.__name__, "args": {}, "id": "c1"}])
        node = ToolNode([tool], **options)
        return graph_of(lambda state: node.ainvoke({"messages": [asks]})), node, asks

    async def test_their_command_of_a_tool(self):
        """
        A tool may return LangGraph's Command.
        """

        def act():
            """Act."""
            message = ToolMessage("done", tool_call_id="c1")
            return their_types.Command(update={"messages": [message]}, goto=END)

        _, node, asks = self.called(act)
        (command,) = await node.ainvoke({"messages": [asks]})

        assert (type(command), command.goto) == (Command, END)

    @pytest.mark.filterwarnings("ignore:NodeInterrupt is deprecated")
    async def test_their_question_in_a_tool_is_not_a_failure(self):
        """
        A tool's question bypasses the handlers that report failures to the model.
        """

        def act():
            """Act."""
            raise their_errors.NodeInterrupt("why?")

        async def node(state):
            return await tools.ainvoke({"messages": [asks]})

        _, tools, asks = self.called(act, handle_tool_errors=True)
        paused = await graph_of(node).ainvoke({"log": []}, at())

        assert [i.value for i in paused["__interrupt__"]] == ["why?"]


def test_each_class_that_both_have_is_decided():
    """
    Objects that a program hands to a graph are taken for ours; the rest only comes out of graphs.
    """
    shown = {"StateSnapshot", "PregelTask", "StateUpdate", "GraphOutput", "TracePolicy"}
    shown |= {name for name in their_types.__all__ if name.endswith(("Payload", "StreamPart"))}
    both = {
        name
        for name in their_types.__all__
        if isinstance(getattr(their_types, name, None), type)
        and isinstance(getattr(actorgraph, name, None), type)
    }
    given = [
        their_types.Command(),
        their_types.Send("n", 1),
        their_types.Interrupt("v"),
        their_types.Overwrite(1),
        their_types.RetryPolicy(),
        their_types.CachePolicy(),
        their_types.TimeoutPolicy(run_timeout=1),
    ]

    assert both - shown == {type(thing).__name__ for thing in given}
    for thing in given:
        assert type(adapt(thing)).__module__.startswith("actorgraph")
    assert adapt(their_types.Command(goto=[their_types.Send("n", 1)])).goto == [Send("n", 1)]
    assert adapt(their_types.Overwrite([1])) == Overwrite([1])


def test_nothing_imports_langgraph():
    """
    A program without LangGraph runs, pauses and is resumed without loading any of it.
    """
    program = """
import sys
from actorgraph import Command, InMemorySaver, NodeInterrupt, START, StateGraph, interrupt
g = StateGraph(dict).add_node("n", lambda s: {"a": interrupt("q")}).add_edge(START, "n")
g = g.compile(checkpointer=InMemorySaver())
place = {"configurable": {"thread_id": "t"}}
g.invoke({"a": 0}, place), g.invoke(Command(resume=1), place)
print([m for m in sys.modules if m.split(".")[0] in ("langgraph", "langchain_core")])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert done.stdout.strip() == "[]", done.stderr
