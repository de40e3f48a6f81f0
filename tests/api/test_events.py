"""Event streams: one run, read through projections that its reader drives."""

from operator import add
from typing import Annotated, Any, TypedDict

import anyio
import pytest
from langchain_core.messages import AIMessageChunk

from actorgraph import (
    CheckpointsTransformer,
    CustomTransformer,
    DebugTransformer,
    InMemorySaver,
    InvalidConfigError,
    TasksTransformer,
    UpdatesTransformer,
    get_message_writer,
    get_stream_writer,
    interrupt,
)
from tests.support.gates import Turnstile, patient_group
from tests.support.graphs import ab, at, in_a_row, writer


class Piece:
    """A piece of a message, which pieces can be added to."""

    type = "ai"

    def __init__(self, content: str, id: str) -> None:
        self.content = content
        self.id = id

    def __add__(self, other: "Piece") -> "Piece":
        return Piece(self.content + other.content, self.id)


class Talk(TypedDict):
    """A conversation."""

    messages: Annotated[list[Any], add]


async def speak(state):
    """A node that says hello in two pieces."""
    write = get_message_writer()
    for text in ("hel", "lo"):
        write(Piece(text, "m1"))
        await anyio.lowlevel.checkpoint()


async def think(state):
    """A node that streams reasoning, text and a tool call, as LangChain's models do."""
    write = get_message_writer()
    for thought, text, args in (("hm ", "hel", '{"at":'), ("so", "lo", "1}")):
        blocks = [{"type": "reasoning", "reasoning": thought}, {"type": "text", "text": text}]
        name, call = ("look", "c1") if text == "hel" else (None, None)
        piece = {"name": name, "args": args, "id": call, "index": 0}
        write(AIMessageChunk(content=blocks, id="m1", tool_call_chunks=[piece]))
        await anyio.lowlevel.checkpoint()


def test_blocking_code_gets_the_parts_of_a_message():
    """
    In a blocking stream `str()` and `get()` are the whole, after which the pieces can be read.
    """
    graph = in_a_row({"think": think}, schema=Talk)
    with graph.stream_events({"messages": []}, version="v3") as run:
        (told,) = [
            (
                str(message.text),
                message.text.get(),
                list(message.text),
                str(message.reasoning),
                [call["args"] for call in message.tool_calls.get()],
            )
            for message in run.messages
        ]

    assert told == ("hello", "hello", ["hel", "lo"], "hm so", [{"at": 1}])


def outer(node, **options):
    """A graph whose node `sub` is a graph with the one node `inner`."""
    return in_a_row({"sub": in_a_row({"inner": node})}, **options)


async def items(channel) -> list:
    """Everything that a projection has."""
    return [item async for item in channel]


async def collect(channel, into: list) -> None:
    """Add everything that a projection has, as it comes."""
    async for item in channel:
        into.append(item)  # noqa: PERF401 - what comes before an error counts


class TestRun:
    @pytest.mark.langgraph("F-D12")
    async def test_values_and_output(self):
        """
        `run.values` has each state, `run.output()` the last one.
        """
        async with ab().astream_events({"foo": "x"}, version="v3") as run:
            values = await items(run.values)

            assert values[0] == {"foo": "x", "bar": []}
            assert await run.output() == values[-1] == {"foo": "b", "bar": ["a", "b"]}
            assert await run.interrupted() is False

    @pytest.mark.langgraph("F-D12")
    async def test_it_may_be_awaited_first(self):
        """
        `async with await graph.astream_events(...)` is the same.
        """
        async with await ab().astream_events({}, version="v3") as run:
            assert await run.output() == {"foo": "b", "bar": ["a", "b"]}

    async def test_output_needs_no_projection(self):
        """
        The output alone runs the graph to its end, and again gives the same.
        """
        run = ab().astream_events({}, version="v3")

        assert await run.output() == await run.output() == {"foo": "b", "bar": ["a", "b"]}

    @pytest.mark.langgraph("F-D12", "F-D13")
    async def test_events_are_numbered(self):
        """
        The run itself is every event, in order; tasks are folded into projections.
        """
        async with ab().astream_events({"foo": "x"}, version="v3") as run:
            events = await items(run)

        assert [e["seq"] for e in events] == list(range(len(events)))
        assert {e["method"] for e in events} == {"values"}
        assert events[0].keys() == {"type", "method", "params", "seq"}
        assert events[0]["params"].keys() == {"namespace", "timestamp", "data", "interrupts"}

    @pytest.mark.langgraph("F-D12")
    async def test_opt_in_projections(self):
        """
        Other modes are projections once their transformer is given.
        """
        extra = [
            UpdatesTransformer,
            CustomTransformer,
            CheckpointsTransformer,
            DebugTransformer,
            TasksTransformer,
        ]

        async def node(state):
            get_stream_writer()("halfway")
            return {"foo": "done"}

        graph = in_a_row({"node": node}, checkpointer=InMemorySaver())
        names = ("updates", "custom", "checkpoints", "debug", "tasks")
        async with graph.astream_events({}, at(), version="v3", transformers=extra) as run:
            told = [pair async for pair in run.interleave(*names)]

        by_name = {name: [item for n, item in told if n == name] for name in names}
        assert by_name["updates"] == [{"node": {"foo": "done"}}]
        assert by_name["custom"] == ["halfway"]
        assert [c["metadata"]["step"] for c in by_name["checkpoints"]] == [-1, 0, 1]
        assert [t["name"] for t in by_name["tasks"]] == ["node", "node"]
        assert len(by_name["debug"]) == 5

    @pytest.mark.langgraph("F-D12")
    async def test_a_missing_projection_is_named(self):
        """
        A projection whose transformer was not given is not an attribute.
        """
        run = ab().astream_events({}, version="v3")

        with pytest.raises(AttributeError, match=r"updates.*values"):
            _ = run.updates

    @pytest.mark.langgraph("F-D12")
    async def test_interrupts_are_the_open_questions(self):
        """
        A run that waits says so, with its questions.
        """

        async def ask(state):
            return {"bar": [interrupt("sure?")]}

        graph = in_a_row({"ask": ask}, checkpointer=InMemorySaver())
        async with graph.astream_events({"foo": "x"}, at(), version="v3") as run:
            assert await run.interrupted() is True
            assert [i.value for i in await run.interrupts()] == ["sure?"]
            assert await run.output() == {"foo": "x", "bar": []}

    async def test_a_breakpoint_interrupts_without_questions(self):
        """
        A run that pauses before a node waits too.
        """
        graph = ab(InMemorySaver(), interrupt_before=["b"])
        async with graph.astream_events({}, at(), version="v3") as run:
            assert await run.interrupted() is True
            assert await run.interrupts() == []

    @pytest.mark.langgraph("F-D12")
    async def test_interleaved_projections_come_in_order(self):
        """
        `interleave` gives the items of several projections as they came.
        """
        extra = [UpdatesTransformer]
        async with ab().astream_events({"foo": "x"}, version="v3", transformers=extra) as run:
            names = [name async for name, _ in run.interleave("updates", "values")]

        assert names == ["values", "updates", "values", "updates", "values"]

    async def test_interleave_refuses_unknown_channels(self):
        """
        A misspelt projection is named with the nearest one.
        """
        run = ab().astream_events({}, version="v3")

        with pytest.raises(InvalidConfigError, match="values"):
            run.interleave("valeus")

    @pytest.mark.langgraph("F-D14")
    async def test_an_error_reaches_every_reader(self):
        """
        Readers get the events before the error, then the error.
        """

        async def bad(state):
            raise ValueError("boom")

        graph = in_a_row({"a": writer("a"), "bad": bad})
        run = graph.astream_events({"foo": "x"}, version="v3")
        told: list[Any] = []
        with pytest.raises(ValueError, match="boom"):
            await collect(run.values, told)

        assert len(told) == 2
        with pytest.raises(ValueError, match="boom"):
            await run.output()

    @pytest.mark.langgraph("F-D12")
    async def test_abort_ends_the_run(self):
        """
        Leaving the block cancels what runs; what was done is stored.
        """
        slow = Turnstile()
        graph = in_a_row({"a": writer("a"), "slow": slow}, checkpointer=InMemorySaver())
        async with patient_group():
            async with graph.astream_events({}, at(), version="v3") as run:
                async for _ in run.values:
                    break
                await slow.entered.wait()
            state = await graph.aget_state(at())

        assert slow.closed == 1
        assert state.values == {"foo": "a", "bar": ["a"]}
        assert state.next == ("slow",)

    @pytest.mark.langgraph("F-D12")
    async def test_a_cancelled_reader_leaves_the_run_alone(self):
        """
        One reader of several may give up; the others go on.
        """
        slow = Turnstile({"foo": "end"})
        run = in_a_row({"slow": slow}).astream_events({"foo": "x"}, version="v3")
        async with patient_group() as group, run:
            with anyio.CancelScope() as scope:

                async def give_up() -> None:
                    await slow.entered.wait()
                    scope.cancel()

                group.start_soon(give_up)
                await run.output()
            slow.out.set()

            assert await run.output() == {"foo": "end", "bar": []}

    @pytest.mark.langgraph("F-D12")
    async def test_tasks_read_projections_at_once(self):
        """
        Readers in tasks of their own share one run.
        """
        read: dict[str, list] = {}

        async with patient_group() as group:
            extra = [UpdatesTransformer]
            run = ab().astream_events({"foo": "x"}, version="v3", transformers=extra)

            async def reader(name: str) -> None:
                read[name] = await items(run.extensions[name])

            group.start_soon(reader, "values")
            group.start_soon(reader, "updates")

        assert len(read["values"]) == 3
        assert [next(iter(u)) for u in read["updates"]] == ["a", "b"]

    @pytest.mark.langgraph("F-D12")
    @pytest.mark.parametrize(
        ("options", "word"),
        [
            ({"version": "v9"}, 'expected "v3"'),
            ({"stream_mode": "values"}, "stream_mode"),
            ({"subgraphs": True}, "subgraphs"),
        ],
    )
    def test_modes_that_transformers_choose_are_refused(self, options, word):
        """
        Modes and levels follow from the transformers.
        """
        with pytest.raises(InvalidConfigError, match=word):
            ab().astream_events({}, **{"version": "v3", **options})


class TestMessages:
    @pytest.mark.langgraph("F-D12")
    async def test_a_message_streams_its_text_and_gives_the_whole(self):
        """
        One stream per message: pieces of text as they come, the joined message at the end.
        """
        graph = in_a_row({"speak": speak}, schema=Talk)
        async with graph.astream_events({"messages": []}, version="v3") as run:
            (told,) = [
                (message.message_id, message.node, await items(message.text), await message.output)
                async for message in run.messages
            ]

        assert told[:3] == ("m1", "speak", ["hel", "lo"])
        assert told[3].content == "hello"

    async def test_the_parts_of_a_message_can_be_awaited(self):
        """
        Text, reasoning and tool calls are whole at the end of the message, also after a reader.
        """
        graph = in_a_row({"think": think}, schema=Talk)
        async with graph.astream_events({"messages": []}, version="v3") as run:
            (told,) = [
                (
                    await message.text,
                    await items(message.text),
                    await message.reasoning,
                    await items(message.reasoning),
                    await message.tool_calls,
                    [piece["args"] for piece in await items(message.tool_calls)],
                )
                async for message in run.messages
            ]

        call = {"name": "look", "args": {"at": 1}, "id": "c1", "type": "tool_call"}
        assert told[:4] == ("hello", ["hel", "lo"], "hm so", ["hm ", "so"])
        assert told[4:] == ([call], ['{"at":', "1}"])

    async def test_the_text_of_a_failed_run_fails(self):
        """
        Awaiting a part of a message that stays incomplete raises the run's error.
        """

        async def bad(state):
            get_message_writer()(Piece("hel", "m1"))
            raise ValueError("boom")

        run = in_a_row({"bad": bad}, schema=Talk).astream_events({"messages": []}, version="v3")
        messages = aiter(run.messages)
        message = await anext(messages)

        with pytest.raises(ValueError, match="boom"):
            await message.text

    async def test_a_whole_message_is_one_piece(self):
        """
        A message that a node returns is a stream too.
        """
        graph = in_a_row({"node": lambda _: {"messages": [Piece("all", "m2")]}}, schema=Talk)
        async with graph.astream_events({"messages": []}, version="v3") as run:
            texts = [await items(message.text) async for message in run.messages]

        assert texts == [["all"]]

    async def test_a_message_of_a_failed_run_fails(self):
        """
        An incomplete item raises the run's error.
        """

        async def bad(state):
            get_message_writer()(Piece("hel", "m1"))
            raise ValueError("boom")

        run = in_a_row({"bad": bad}, schema=Talk).astream_events({"messages": []}, version="v3")
        messages = aiter(run.messages)
        message = await anext(messages)

        with pytest.raises(ValueError, match="boom"):
            await message.output
