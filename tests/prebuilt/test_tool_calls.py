"""Around a tool's call: wrappers, questions to a person, and the stream of tools."""

import threading
from functools import partial
from typing import Any, TypedDict

import anyio
import anyio.lowlevel
import pytest

from actorgraph import END, START, Command, InMemorySaver, StateGraph, interrupt
from actorgraph.prebuilt import ToolCallTransformer, ToolNode, ToolRuntime
from tests.prebuilt.chatter import Chat, ToolMessage, calling, told
from tests.support.gates import PATIENCE_S
from tests.support.graphs import at, in_a_row


class Errand(TypedDict):
    what: str


def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


def fails(number: int) -> str:
    raise ValueError(number)


def changed(request, number):
    return request.override(tool_call={**request.tool_call, "args": {"number": number}})


class TestWrappers:
    @pytest.mark.langgraph("F-M1")
    async def test_a_call_can_be_changed_repeated_and_answered(self):
        """
        A wrapper takes the place of each call: it may run it with other arguments, several
        times, or not at all.
        """

        async def wrap(request, run):
            if request.tool_call["args"]["number"] < 0:
                return ToolMessage("no", tool_call_id=request.tool_call["id"])
            first = await run(request)
            return await run(changed(request, int(first.content)))

        node = ToolNode([double], awrap_tool_call=wrap)
        calls = calling(("double", {"number": 3}), ("double", {"number": -1}))

        assert told(await node.ainvoke([calls])) == [("1", "12"), ("2", "no")]

    @pytest.mark.langgraph("F-M1")
    async def test_a_sync_wrapper_works_in_async_code(self):
        """
        It runs in a worker thread, and what it executes runs where async tools can.
        """

        async def triple(number: int) -> int:
            return 3 * number

        def wrap(request, run):
            return run(changed(request, request.state["user"]))

        node = ToolNode([triple], wrap_tool_call=wrap)
        given = {"messages": [calling(("triple", {"number": 1}))], "user": "5"}

        assert told((await node.ainvoke(given))["messages"]) == [("1", "15")]

    @pytest.mark.parametrize("tool", ["plain", "graph", "async"])
    @pytest.mark.parametrize("where", ["alone", "in a node", "in a loop"])
    def test_a_sync_wrapper_works_in_plain_code(self, where, tool):
        """
        Blocking calls inside each other, in a node and outside of one: wrapper, tool, graph.
        """
        graph = in_a_row({"a": lambda _: {"what": "done"}}, schema=Errand)

        def plain(number: int) -> str:
            """Number."""
            return str(number)

        def calls_graph(number: int) -> str:
            """Number."""
            return graph.invoke({"what": str(number)})["what"]

        async def waits(number: int) -> str:
            """Number."""
            await anyio.lowlevel.checkpoint()
            return str(number)

        tools = {"plain": plain, "graph": calls_graph, "async": waits}
        node = ToolNode([tools[tool]], wrap_tool_call=lambda request, run: run(request))
        message = calling((tools[tool].__name__, {"number": 3}))

        if where == "alone":
            answers = node.invoke([message])
        elif where == "in a loop":
            answers = anyio.run(node.ainvoke, [message])
        else:
            made: list[Any] = []
            in_a_row({"a": lambda _: made.extend(node.invoke([message]))}).invoke({})
            answers = made
        assert told(answers) == [("1", "done" if tool == "graph" else "3")]

    @pytest.mark.langgraph("F-M1")
    async def test_a_wrapper_may_handle_tools_that_are_not_there(self):
        """
        An unknown tool reaches the wrapper as None; it can put one in.
        """
        seen = []

        async def wrap(request, run):
            seen.append(request.tool)
            return await run(request.override(tool=double))

        node = ToolNode([fails], awrap_tool_call=wrap)

        assert told(await node.ainvoke([calling(("double", {"number": 2}))])) == [("1", "4")]
        assert seen == [None]

    @pytest.mark.langgraph("F-M1")
    @pytest.mark.parametrize("handling", [True, False])
    async def test_a_wrappers_failure_is_handled_like_a_tools(self, handling):
        """
        The error of a wrapper becomes an answer where the setting says so.
        """

        def wrap(request, run):
            raise KeyError("k")

        node = ToolNode([double], wrap_tool_call=wrap, handle_tool_errors=handling)
        calls = [calling(("double", {"number": 2}))]

        if handling:
            assert told(await node.ainvoke(calls)) == [
                ("1", "Error: KeyError('k')\n Please fix your mistakes.")
            ]
        else:
            with pytest.raises(KeyError):
                await node.ainvoke(calls)


def agent(tools, calls, **options):
    """A graph that runs these calls once."""
    builder = StateGraph(Chat).add_node(ToolNode(tools, **options))
    graph = builder.add_edge(START, "tools").add_edge("tools", END).compile(InMemorySaver())
    return graph, {"messages": [calling(*calls)]}


class TestQuestions:
    @pytest.mark.langgraph("F-M7", "F-F8")
    async def test_a_tool_can_ask_a_person(self):
        """
        An interrupt passes every setting for errors, pauses the run, and gets its answer.
        """

        def buy(what: str) -> str:
            return f"{what}: {interrupt(f'buy {what}?')}"

        graph, given = agent([buy], [("buy", {"what": "tea"})], handle_tool_errors=True)

        paused = await graph.ainvoke(given, at())
        done = await graph.ainvoke(Command(resume="yes"), at())

        assert [i.value for i in paused["__interrupt__"]] == ["buy tea?"]
        assert told(done["messages"][1:]) == [("1", "tea: yes")]

    @pytest.mark.langgraph("F-M7", "F-F5")
    @pytest.mark.parametrize("order", [("tea", "milk"), ("milk", "tea")])
    async def test_tools_that_ask_at_once_get_their_own_answers(self, order):
        """
        Each call's questions have ids of their own: answers given one by one, in any order,
        reach the call that asked, and tools that run beside them finish.
        """

        async def buy(what: str) -> str:
            first = interrupt(f"buy {what}?")
            return f"{what}: {first}, {interrupt(f'how much {what}?')}"

        calls = [("buy", {"what": "tea"}), ("double", {"number": 2}), ("buy", {"what": "milk"})]
        graph, given = agent([buy, double], calls)

        state = await graph.ainvoke(given, at())
        assert [i.value for i in state["__interrupt__"]] == ["buy tea?", "buy milk?"]
        for what in order:
            for text in (f"buy {what}?", f"how much {what}?"):
                asked = {i.value: i.id for i in state["__interrupt__"]}
                state = await graph.ainvoke(Command(resume={asked[text]: text[:3]}), at())

        assert told(state["messages"][1:]) == [
            ("1", "tea: buy, how"),
            ("2", "4"),
            ("3", "milk: buy, how"),
        ]

    async def test_graphs_in_tools_keep_their_places(self):
        """
        A graph in a tool goes on as its own call's, whichever tool is the first to start again.
        """
        begun, second = [anyio.Event()], ["tea"]

        async def ask(state: Errand) -> Errand:
            begun[0].set()
            answer = interrupt(f"buy {state['what']}?")
            return {"what": f"{state['what']}: {answer}"}

        helper = in_a_row({"ask": ask}, schema=Errand)

        async def buy(what: str) -> str:
            if what == second[0]:
                await begun[0].wait()
            return (await helper.ainvoke({"what": what}))["what"]

        calls = [("buy", {"what": "tea"}), ("buy", {"what": "milk"})]
        graph, given = agent([buy], calls)
        state = await graph.ainvoke(given, at())
        begun[0], second[0] = anyio.Event(), "milk"

        answers = {question.id: question.value for question in state["__interrupt__"]}
        state = await graph.ainvoke(Command(resume=answers), at())

        assert told(state["messages"][1:]) == [
            ("1", "tea: buy tea?"),
            ("2", "milk: buy milk?"),
        ]


class TestBlockingCalls:
    def test_plain_tools_of_one_message_run_side_by_side(self):
        """
        Plain tools of a blocking call meet at a barrier, each in a thread of its own.
        """
        both = threading.Barrier(2)

        def meet(number: int) -> int:
            both.wait(PATIENCE_S)
            return number

        asked = calling(("meet", {"number": 1}), ("meet", {"number": 2}))
        graph = in_a_row({"tools": ToolNode([meet])}, schema=Chat)

        result = graph.invoke({"messages": [asked]})

        assert [m.content for m in result["messages"][1:]] == ["1", "2"]

    def test_a_failure_waits_for_no_other_tool(self):
        """
        A tool that fails ends the call, while another plain one still runs.
        """
        begun, left, ended = (threading.Event() for _ in range(3))

        def breaks(number: int) -> str:
            begun.wait(PATIENCE_S)
            raise ValueError(number)

        def stays(number: int) -> None:
            begun.set()
            left.wait(PATIENCE_S)
            ended.set()

        asked = calling(("stays", {"number": 1}), ("breaks", {"number": 2}))
        graph = in_a_row({"tools": ToolNode([stays, breaks])}, schema=Chat)

        try:
            with pytest.raises(ValueError, match="2"):
                graph.invoke({"messages": [asked]})
            assert not ended.is_set()
        finally:
            left.set()

    def test_plain_tools_side_by_side_run_graphs_and_ask(self):
        """
        A graph that a plain tool runs asks its question, and another one's tool asks too.
        """

        def ask(state: Errand) -> dict[str, Any]:
            return {"what": interrupt(state["what"])}

        inner = in_a_row({"ask": ask}, schema=Errand)

        def errand(what: str) -> str:
            return inner.invoke({"what": what})["what"]

        asked = calling(("errand", {"what": "a"}), ("errand", {"what": "b"}))
        graph = in_a_row({"tools": ToolNode([errand])}, schema=Chat, checkpointer=InMemorySaver())

        questions = graph.invoke({"messages": [asked]}, at())["__interrupt__"]
        answers = {question.id: question.value * 2 for question in questions}
        result = graph.invoke(Command(resume=answers), at())

        assert [m.content for m in result["messages"][1:]] == ["aa", "bb"]


class TestStream:
    @pytest.mark.promise("D12")
    @pytest.mark.langgraph("F-D8")
    async def test_readers_see_each_call(self):
        """
        A call starts, sends parts of its output, and finishes or fails.
        """

        async def spell(word: str, runtime: ToolRuntime) -> str:
            for letter in word:
                runtime.emit_output_delta(letter)
            return word

        calls = [("spell", {"word": "ab"})]
        graph, given = agent([spell], calls)

        events = [e async for e in graph.astream(given, at(), stream_mode="tools")]

        assert [(e["event"], e["tool_call_id"]) for e in events] == [
            ("tool-started", "1"),
            ("tool-output-delta", "1"),
            ("tool-output-delta", "1"),
            ("tool-finished", "1"),
        ]
        assert (events[0]["tool_name"], events[0]["input"]) == ("spell", {"word": "ab"})
        assert [e["delta"] for e in events[1:3]] == ["a", "b"]
        assert told([events[3]["output"]]) == [("1", "ab")]

    @pytest.mark.langgraph("F-D8")
    async def test_a_failure_is_an_event(self):
        """
        Readers learn of a tool's failure even where it is reported to the model too.
        """
        graph, given = agent([fails], [("fails", {"number": 7})], handle_tool_errors=True)

        events = [e async for e in graph.astream(given, at(), stream_mode="tools")]

        assert events[-1] == {"event": "tool-error", "tool_call_id": "1", "message": "7"}


class TestEventStream:
    @pytest.mark.langgraph("F-M6")
    async def test_each_call_is_a_stream_of_its_output(self):
        """
        `run.tool_calls` gives one stream per call: parts as they come, then the whole.
        """

        async def spell(word: str, runtime: ToolRuntime) -> str:
            for letter in word:
                runtime.emit_output_delta(letter)
            return word

        graph, given = agent([spell, fails], [("spell", {"word": "ab"})])
        options = {"version": "v3", "transformers": [ToolCallTransformer]}

        async with await graph.astream_events(given, at(), **options) as run:
            calls = [(call, [part async for part in call]) async for call in run.tool_calls]

        ((call, parts),) = calls
        assert (call.tool_call_id, call.tool_name, call.input) == ("1", "spell", {"word": "ab"})
        assert parts == ["a", "b"]
        assert (call.output, call.error, call.completed) == ("ab", None, True)

    @pytest.mark.langgraph("F-M6")
    async def test_a_call_may_fail_or_be_left(self):
        """
        A failed call has the text of its error; one that asked has ended without an output.
        """

        async def ask() -> str:
            return interrupt("?")

        calls = [("fails", {"number": 7}), ("ask", {})]
        graph, given = agent([ask, fails], calls, handle_tool_errors=True)
        options = {"version": "v3", "transformers": [ToolCallTransformer]}

        async with await graph.astream_events(given, at(), **options) as run:
            made = {call.tool_name: call async for call in run.tool_calls}

        assert (made["fails"].error, made["fails"].output) == ("7", None)
        assert (made["ask"].completed, made["ask"].output) == (True, None)


class Foreign:
    """A tool object as LangChain's are: a name, and `ainvoke` with the whole call."""

    name = "foreign"
    return_direct = True

    def __init__(self):
        self.func = partial(self._run)

    @staticmethod
    def _run(number: int, state: Any) -> None: ...

    async def ainvoke(self, call, config):
        text = f"{call['type']} {call['args']} {sorted(config)}"
        return ToolMessage(text, tool_call_id=call["id"], name=self.name)


@pytest.mark.langgraph("F-M1")
async def test_tool_objects_are_called_with_the_whole_call():
    """
    An object with a name and `ainvoke` is a tool, and makes its message itself.
    """
    node = ToolNode([Foreign()])

    (answer,) = await node.ainvoke([calling(("foreign", {"number": 1}))], {"tags": []})

    assert answer.content == "tool_call {'number': 1} ['tags']"
    assert isinstance(node.tools_by_name["foreign"], Foreign)
