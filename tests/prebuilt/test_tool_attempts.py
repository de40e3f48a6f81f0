"""Calls of a ToolNode that are made again: results of ended calls, time limits, retries."""

from typing import Annotated, Any

import anyio
import pytest

from actorgraph import (
    START,
    Command,
    InMemorySaver,
    MessagesState,
    RetryPolicy,
    StateGraph,
    interrupt,
)
from actorgraph.errors import GraphBuildError, InvalidUpdateError, NodeTimeoutError
from actorgraph.messages import AIMessage, ToolMessage
from actorgraph.prebuilt import InjectedState, ToolNode
from tests.support import warm_processes
from tests.support.graphs import at

STEADY = RetryPolicy(initial_interval=0, jitter=False)


def calls(*names: str) -> AIMessage:
    made = [{"name": name, "args": {}, "id": str(i)} for i, name in enumerate(names)]
    return AIMessage("", id="m", tool_calls=made)


def graph_of(node: Any, saver: Any = None, **options: Any) -> Any:
    builder = StateGraph(MessagesState).add_node("tools", node, **options)
    return builder.add_edge(START, "tools").compile(checkpointer=saver)


def replies(result: Any) -> list[Any]:
    return [m.content for m in result["messages"] if m.type == "tool"]


class Counted:
    """Tools that count their calls."""

    def __init__(self) -> None:
        self.made: list[str] = []

    async def send(self) -> str:
        """Send."""
        self.made.append("send")
        return "sent"

    def write(self) -> Command[Any]:
        """Write."""
        self.made.append("write")
        return Command(update={"messages": [ToolMessage("written", tool_call_id="1")]})

    def ask(self) -> str:
        """Ask a person."""
        return str(interrupt("may I?"))


class TestEndedCalls:
    @pytest.mark.every_saver
    async def test_a_question_runs_no_ended_call_again(self, saver):
        """
        Calls that have ended while another one asks a person are not made again at the answer;
        their results, messages and Commands, are all there.
        """
        tools = Counted()
        graph = graph_of(ToolNode([tools.send, tools.write, tools.ask]), saver)

        await graph.ainvoke({"messages": [calls("send", "write", "ask")]}, at("t"))
        result = await graph.ainvoke(Command(resume="yes"), at("t"))

        assert sorted(tools.made) == ["send", "write"]
        assert sorted(replies(result)) == ["sent", "written", "yes"]

    def test_a_blocking_call(self):
        """
        The same holds for `invoke`.
        """
        tools = Counted()
        graph = graph_of(ToolNode([tools.write, tools.ask]), InMemorySaver())

        graph.invoke({"messages": [calls("ask", "write")]}, at("t"))
        result = graph.invoke(Command(resume="yes"), at("t"))

        assert tools.made == ["write"]
        assert sorted(replies(result)) == ["written", "yes"]

    async def test_an_error_runs_no_ended_call_again(self, saver):
        """
        A call that has ended before another one failed is not made again, by a retry of the node
        or when the thread goes on.
        """
        tools, fails = Counted(), [1, 2, 3]

        async def fail() -> str:
            """Fail."""
            await anyio.wait_all_tasks_blocked()
            if fails:
                raise ConnectionError(fails.pop())
            return "done"

        twice = STEADY._replace(max_attempts=2)
        graph = graph_of(ToolNode([tools.send, fail]), saver, retry_policy=twice)

        with pytest.raises(ConnectionError):
            await graph.ainvoke({"messages": [calls("send", "fail")]}, at("t"))
        result = await graph.ainvoke(None, at("t"))

        assert tools.made == ["send"]
        assert replies(result) == ["sent", "done"]

    async def test_a_wrapper_is_called_for_open_calls_only(self):
        """
        `awrap_tool_call` isn't called again for a call that has ended.
        """
        tools, wrapped = Counted(), list[str]()

        async def wrap(request: Any, execute: Any) -> Any:
            wrapped.append(request.tool_call["name"])
            return await execute(request)

        node = ToolNode([tools.send, tools.ask], awrap_tool_call=wrap)
        graph = graph_of(node, InMemorySaver())

        await graph.ainvoke({"messages": [calls("send", "ask")]}, at("t"))
        await graph.ainvoke(Command(resume="yes"), at("t"))

        assert sorted(wrapped) == ["ask", "ask", "send"]

    def test_a_killed_process_runs_no_ended_call_again(self, tmp_path):
        """
        A call whose process is killed while another one runs is not made again by the next one.
        """
        program = tmp_path / "program.py"
        program.write_text(KILLED)
        for _ in range(2):
            warm_processes.run([program, tmp_path])

        assert (tmp_path / "made").read_text().split() == ["send", "slow", "slow"]


KILLED = """
import os, signal, sys, time
from actorgraph import START, MessagesState, SqliteSaver, StateGraph
from actorgraph.messages import AIMessage
from actorgraph.prebuilt import InjectedState, ToolNode

place = sys.argv[1]

def note(name):
    with open(place + "/made", "a") as file:
        file.write(name + "\\n")

async def send() -> str:
    "Send."
    note("send")
    return "sent"

def slow() -> str:
    "Wait for the other call's row."
    while not os.path.exists(place + "/made"):
        time.sleep(0.01)
    time.sleep(0.3)
    note("slow")
    if open(place + "/made").read().count("slow") == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"

graph = StateGraph(MessagesState).add_node("tools", ToolNode([send, slow]))
with SqliteSaver.from_conn_string(place + "/db") as saver:
    graph = graph.add_edge(START, "tools").compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "t"}}
    names = [{"name": n, "args": {}, "id": n} for n in ("send", "slow")]
    known = graph.get_state(config).values
    graph.invoke(None if known else {"messages": [AIMessage("", tool_calls=names)]}, config)
"""


class TestPolicies:
    @pytest.mark.parametrize("named", [False, True])
    async def test_a_call_that_fails_is_made_again(self, named):
        """
        A tool is called again by its policy; the model sees nothing of the failures.
        """
        made: list[int] = []

        async def search() -> str:
            """Search."""
            made.append(1)
            if len(made) < 3:
                raise ConnectionError("lost")
            return "found"

        policy = {"search": STEADY} if named else STEADY
        node = ToolNode([search], retry_policy=policy, handle_tool_errors=True)

        result = await graph_of(node).ainvoke({"messages": [calls("search")]})

        assert (replies(result), len(made)) == (["found"], 3)

    async def test_the_last_error_is_the_replys(self):
        """
        `handle_tool_errors` gets the error of the last attempt; a wrong request is made once.
        """
        made: list[int] = []

        def search() -> str:
            """Search."""
            made.append(1)
            raise ValueError("no")

        node = ToolNode([search], retry_policy=STEADY, handle_tool_errors=True)

        result = await graph_of(node).ainvoke({"messages": [calls("search")]})

        assert ("no" in replies(result)[0], len(made)) == (True, 1)

    async def test_a_question_behind_a_failure(self):
        """
        A question is not retried, and a tool that fails behind its answer asks it once.
        """
        made: list[Any] = []

        async def refund() -> str:
            """Refund."""
            made.append(interrupt("may I?"))
            if len(made) < 2:
                raise ConnectionError("lost")
            return str(made)

        graph = graph_of(ToolNode([refund], retry_policy=STEADY), InMemorySaver())
        asked = await graph.ainvoke({"messages": [calls("refund")]}, at("t"))
        result = await graph.ainvoke(Command(resume="yes"), at("t"))

        assert len(asked["__interrupt__"]) == 1
        assert replies(result) == ["['yes', 'yes']"]

    async def test_a_time_limit(self):
        """
        A call that takes longer than its tool's timeout fails with it, and the others go on.
        """
        tools = Counted()

        async def sleep() -> str:
            """Sleep."""
            await anyio.sleep_forever()
            return ""

        limits = {"sleep": 0.01}
        lenient = ToolNode([tools.send, sleep], timeout=limits, handle_tool_errors=True)
        strict = ToolNode([sleep], timeout=0.01)

        result = await graph_of(lenient).ainvoke({"messages": [calls("send", "sleep")]})
        with pytest.raises(NodeTimeoutError, match="tool 'sleep' did not return within"):
            await graph_of(strict).ainvoke({"messages": [calls("sleep")]})

        assert replies(result)[0] == "sent"
        assert "did not return within its timeout of 0.01 s" in replies(result)[1]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"timeout": {"wirte": 1}}, "'wirte', which is not one of its tools"),
            ({"retry_policy": {"sent": STEADY}}, "'sent', which is not one of its tools"),
            ({"timeout": {"write": 1}}, "tool 'write' is a sync function and has a timeout"),
            ({"timeout": {"send": -1}}, "timeout must be greater than 0"),
            ({"retry_policy": {"send": 3}}, "must be a RetryPolicy"),
        ],
    )
    def test_policies_that_fit_no_tool(self, options, message):
        """
        A policy of an unknown tool, a limit of a sync one, or a wrong value is refused.
        """
        tools = Counted()

        with pytest.raises(GraphBuildError, match=message):
            ToolNode([tools.send, tools.write], **options)


class TestStates:
    async def test_a_key_that_nothing_has_written(self):
        """
        A declared key of the state without a value is injected as None; an unknown one is an error.
        """

        class State(MessagesState, total=False):
            city: str

        def weather(city: Annotated[Any, InjectedState("city")]) -> str:
            """Look up the weather."""
            return f"in {city}"

        def lost(town: Annotated[Any, InjectedState("town")]) -> str:
            """Look up a town."""
            return f"in {town}"

        builder = StateGraph(State).add_node("tools", ToolNode([weather, lost]))
        graph = builder.add_edge(START, "tools").compile()

        assert replies(await graph.ainvoke({"messages": [calls("weather")]})) == ["in None"]
        with pytest.raises(InvalidUpdateError, match="needs 'town' of the state"):
            await graph.ainvoke({"messages": [calls("lost")]})
