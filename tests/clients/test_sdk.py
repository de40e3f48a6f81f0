"""langgraph-sdk for Python: calls of tools in pieces, cuts, and a server that is killed."""

import json
from typing import Any

import pytest
from langgraph_sdk import get_client

from tests.clients.app import CALL, WORDS
from tests.clients.servers import free_port, let, serving
from tests.web.clients import Events, Told

STEPS = list(range(40))
ASKED = {"messages": [{"type": "human", "content": "weather?", "id": "q"}]}


@pytest.fixture
def anyio_backend() -> str:
    """
    The client runs on asyncio only.
    """
    return "asyncio"


def message_of(part: Any) -> dict[str, Any]:
    """The message of a part, if it is one."""
    return part.data[0] if part.event == "messages" else {}


def arguments(parts: list[Any]) -> Any:
    """The arguments of the tool's call, of all pieces."""
    chunks = [c for part in parts for c in message_of(part).get("tool_call_chunks", [])]
    return json.loads("".join(one["args"] for one in chunks))


def answer(parts: list[Any]) -> str:
    """The text of the answer, of all pieces."""
    pieces = [message_of(part) for part in parts]
    return "".join(one["content"] for one in pieces if one.get("id") == "answers")


async def test_a_stream_of_messages_is_cut_and_joined(tmp_path):
    """
    A reader that leaves in the middle of an answer and joins by its last event's id has the call
    of the tool and the answer, each piece once.
    """
    with serving(tmp_path / "runs.db", free_port()) as made:
        async with get_client(url=made.url) as client:
            thread = (await client.threads.create())["thread_id"]
            run = await client.runs.create(
                thread, "words", input=ASKED, stream_mode="messages-tuple", stream_resumable=True
            )
            parts: list[Any] = []
            let(made)
            async for part in client.runs.join_stream(thread, run["run_id"]):
                parts.append(part)
                if message_of(part).get("content") == WORDS[0]:
                    break
            for _ in WORDS[1:]:
                let(made)
            rest = client.runs.join_stream(thread, run["run_id"], last_event_id=parts[-1].id)
            parts += [part async for part in rest]

    assert [int(part.id) for part in parts] == list(range(1, len(parts) + 1))
    assert arguments(parts) == CALL["args"]
    assert answer(parts) == "".join(WORDS)
    assert parts[-1].event == "end"


async def test_a_stream_goes_on_after_the_servers_kill(tmp_path):
    """
    Joined again at the next server, by the last event's id, a resumable run is told whole.
    """
    port, path, events = free_port(), tmp_path / "runs.db", Events()
    with serving(path, port) as first:
        async with get_client(url=first.url) as client:
            thread = (await client.threads.create())["thread_id"]
            run = await client.runs.create(
                thread,
                "steps",
                input={"most": len(STEPS)},
                stream_mode="updates",
                stream_resumable=True,
                durability="sync",
            )
            async for part in client.runs.join_stream(thread, run["run_id"]):
                events.all.append(Told(int(part.id), part.event, part.data))
                if len(events.all) == 9:
                    break
        first.kill()
    with serving(path, port) as second:
        async with get_client(url=second.url) as client:
            rest = client.runs.join_stream(thread, run["run_id"], last_event_id=events.last_id)
            events.all += [Told(int(part.id), part.event, part.data) async for part in rest]

    steps = [d["step"]["done"][0] for name, d in events.told if name == "updates"]
    states = [d["done"] for name, d in events.told if name == "values"]
    assert sorted({*steps, *(step for state in states for step in state)}) == STEPS
    assert events.ids == list(range(1, len(events.ids) + 1))
    assert events.faults().total() == 0
    assert events.names[-1] == "end"
