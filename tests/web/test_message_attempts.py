"""Which messages are no more, for those who watch a run whose attempts fail."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from actorgraph import START, ActorSystem, RetryPolicy, SqliteSaver, StateGraph, get_message_writer
from actorgraph.messages import AIMessageChunk
from actorgraph.web import EventStream
from actorgraph.web.http.event_translator import EventTranslator
from actorgraph.web.http.message_attempts import OPEN_MAX, MessageAttempts
from tests.web.apps import Log
from tests.web.test_message_pieces import Page
from tests.web.test_streams import Client

RUN, TASK, BELOW, BESIDE = "run", "a:1", "a:1|b:2", "a:12"


def gone_after(*steps: str | tuple[str, str]) -> list[list[str]]:
    """The messages that are no more after each step: a message `(task, id)`, or a beginning."""
    attempts, found = MessageAttempts(), list[list[str]]()
    for step in steps:
        if step == RUN:
            attempts.begin_run()
        elif isinstance(step, str):
            found.append(attempts.begin_task(step))
        else:
            found.append(attempts.note(step[1], {"langgraph_checkpoint_ns": step[0]}))
    return [one for one in found if one]


@pytest.mark.parametrize(
    ("steps", "gone"),
    [
        ([(TASK, "1"), TASK], [["1"]]),
        ([(TASK, "1"), (TASK, "2"), TASK, (TASK, "3"), TASK], [["1", "2"], ["3"]]),
        ([(TASK, "1"), TASK, (TASK, "1")], [["1"]]),
        ([TASK], []),
        ([(TASK, "1"), (BESIDE, "2"), TASK, (BESIDE, "3")], [["1"]]),
        # What is stored of tasks below isn't written again, and stays.
        ([(BELOW, "1"), (TASK, "2"), TASK, (TASK, "3")], [["2"]]),
        ([(BELOW, "1"), TASK, (BELOW, "2")], [["1"]]),
        ([(TASK, "1"), BELOW, (TASK, "2")], []),
        ([RUN, (TASK, "1"), (TASK, "2"), RUN, (BESIDE, "3"), (TASK, "4")], [["1", "2"]]),
        ([RUN, (TASK, "1"), RUN, (TASK, "1"), (TASK, "1")], [["1"]]),
        # The beginning of the attempt isn't kept any more.
        ([(TASK, "1"), RUN, (TASK, "2")], [["1"]]),
        ([(TASK, "1"), RUN, TASK, (TASK, "2")], [["1"]]),
        ([(TASK, ""), TASK], []),
    ],
)
def test_messages_of_attempts_that_failed_are_no_more(steps, gone):
    """A task that begins anew takes back what it has written, and nothing else."""
    assert gone_after(*steps) == gone


def test_few_tasks_and_messages_are_remembered():
    """A reader's memory is bounded: of a task with many messages the newest are dropped."""
    written = [(TASK, str(number)) for number in range(OPEN_MAX + 1)]
    tasks = [(f"t:{number}", "x") for number in range(OPEN_MAX)]

    assert [len(ids) for ids in gone_after(*written, TASK)] == [OPEN_MAX]
    assert gone_after((TASK, "1"), *tasks, TASK) == []


@pytest.mark.parametrize("metadata", [None, {}, {"langgraph_checkpoint_ns": 1}])
def test_messages_without_a_task_stay(metadata):
    """A sender's metadata may be anything."""
    attempts = MessageAttempts()
    attempts.note("1", metadata)
    attempts.begin_run()

    assert attempts.note("2", metadata) == []


@pytest.mark.parametrize("again", [("retry", {"task": TASK}), ("metadata", {"attempt": 1})])
def test_messages_as_far_as_they_are_begin_anew(again):
    """LangGraph's clients get no text of a failed attempt in a message with the same id."""
    wire, about = EventTranslator(["messages"], subgraphs=False), {"langgraph_checkpoint_ns": TASK}
    half = ((), "messages", (AIMessageChunk("Half", id="1"), about))
    first = wire.events(*half)
    told = wire.events((), *again)
    second = wire.events(*half)

    assert (first, [name for name, _ in told]) == (second, [n for n in again if n == "metadata"])


# --- a run, and readers that come back ---

CALLS = {
    "half a message": [[("1", "Half")], [("2", "An "), ("2", "answer")]],
    "the same id": [[("1", "Half")], [("1", "An "), ("1", "answer")]],
    "two model calls": [[("1", "Think "), ("1", "hard"), ("2", "Half")], [("3", "A"), ("4", "B")]],
    "two failures": [[("1", "Half")], [("1", "Half"), ("2", "an")], [("3", "answer")]],
    "nothing more": [[("1", "Half"), ("2", "an")], []],
}


def retried(attempts: list[list[tuple[str, str]]], saver: Any) -> Any:
    """A graph of a node that writes pieces `(id, text)`, and fails but for the last time."""
    left = iter(attempts)

    async def speak(state: Log) -> dict[str, Any]:
        pieces = next(left)
        for name, text in pieces:
            await get_message_writer().asend(AIMessageChunk(text, id=name))
        if pieces is not attempts[-1]:
            raise ValueError("the model is away")
        return {}

    policy = RetryPolicy(
        max_attempts=len(attempts), initial_interval=0, jitter=False, retry_on=ValueError
    )
    builder = StateGraph(Log).add_node("speak", speak, retry_policy=policy)
    return builder.add_edge(START, "speak").compile(checkpointer=saver)


def numbered(text: str) -> list[tuple[str, str, Any]]:
    """The events of a stream: id, name and data."""
    blocks = [dict(line.split(": ", 1) for line in b.splitlines()) for b in text.split("\n\n") if b]
    return [(b.get("id", ""), b["event"], json.loads(b["data"])) for b in blocks]


async def read(run: Any, after: str, **options: Any) -> list[tuple[str, str, Any]]:
    client = Client(last_event_id=after)
    await client.read(EventStream(run, client.request, **options))
    return numbered(client.text)


@pytest.fixture(params=["its own process", "another process"])
async def told(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    """A function that performs a run, and yields it to read; the reader may be elsewhere."""
    opened: list[ActorSystem] = []

    async def begin(attempts: Any, **limits: Any) -> Any:
        saver = SqliteSaver(tmp_path / "runs.db")
        system = ActorSystem({"g": retried(attempts, saver)}, saver=saver, **limits)
        opened.append(await system.__aenter__())
        run = await system.start(
            "g", "t", {"foo": "a"}, resumable=True, stream_mode=["messages", "values"]
        )
        await run.result()
        if request.param == "its own process":
            return run
        saver = SqliteSaver(tmp_path / "runs.db")
        other = ActorSystem({"g": retried(attempts, saver)}, saver=saver, **limits)
        opened.append(await other.__aenter__())
        return await other.run(run.id)

    yield begin
    for system in reversed(opened):
        await system.__aexit__(None, None, None)


@pytest.mark.parametrize("form", ["compact", "full"])
@pytest.mark.parametrize("attempts", CALLS.values(), ids=CALLS)
async def test_a_page_has_the_messages_of_the_last_attempt_alone(told, attempts, form):
    """Wherever a page reconnects, what failed attempts wrote is gone from it, in both forms."""
    run, expected = await told(attempts), dict[str, str]()
    for name, text in attempts[-1]:
        expected[name] = expected.get(name, "") + text
    whole = await read(run, "")

    assert "retry" not in [name for _, name, _ in whole]
    for cut in range(len(whole)):
        page = Page()
        rest = await read(run, whole[cut][0], messages=form)
        for _, name, data in [*whole[: cut + 1], *rest]:
            page.take(name, data)
        assert page.texts == expected, cut


async def test_langgraphs_clients_get_events_that_they_know(told):
    """The form for LangGraph's clients has the pieces of all attempts, and no event of ours."""
    run = await told(CALLS["two failures"])
    names = {name for _, name, _ in await read(run, "", messages="pieces")}

    assert "messages" in names
    assert not names & {"retry", "messages/dropped"}


@pytest.mark.parametrize("kept", [3, 4, 5, 6, 7, 8])
async def test_a_message_whose_beginning_is_not_kept_is_dropped(told, kept):
    """What is kept of half a message is enough to take it back."""
    attempts = [[("1", text) for text in "Half"], [("2", "answer")]]
    run = await told(attempts, keep_events=kept)
    page = Page()
    for _, name, data in await read(run, "1"):
        page.take(name, data)

    assert page.texts in ({"2": "answer"}, {})
    assert "1" not in page.texts


async def test_readers_in_python_are_told(told):
    """A program that reads the events of a run learns which task begins anew, and its attempt."""
    run = await told(CALLS["two failures"])
    events = [event async for event in run.events()]
    again = [event.data for event in events if event.kind == "retry"]
    pieces = [event.data[1] for event in events if event.kind == "messages"]

    assert [data["attempt"] for data in again] == [2, 3]
    assert {data["node"] for data in again} == {"speak"}
    assert {data["task"] for data in again} == {p["langgraph_checkpoint_ns"] for p in pieces}
