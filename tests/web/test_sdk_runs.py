"""Runs through LangGraph's own client."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError

from tests.web.sdk import DONE, NEW, address, anyio_backend, client, names

__all__ = ["address", "anyio_backend", "client"]


class TestRuns:
    async def test_wait_returns_the_output(self, client):
        """
        A run on a thread and a run without one return the graph's output.
        """
        made = await client.threads.create()

        assert await client.runs.wait(made["thread_id"], "log", input=NEW) == DONE
        assert await client.runs.wait(None, "log", input=NEW) == DONE

    async def test_a_run_is_made_joined_and_listed(self, client):
        """
        A run in the background is joined for its output, and listed with its status.
        """
        made = await client.threads.create()
        run = await client.runs.create(made["thread_id"], "log", input=NEW, metadata={"by": "me"})
        output = await client.runs.join(made["thread_id"], run["run_id"])
        found = await client.runs.get(made["thread_id"], run["run_id"])
        listed = await client.runs.list(made["thread_id"])

        assert output == DONE
        assert (found["status"], found["metadata"]) == ("success", {"by": "me"})
        assert [r["run_id"] for r in listed] == [run["run_id"]]

    async def test_a_failed_run_says_why(self, client):
        """
        The error of a node is the run's: raised by wait, and in the thread's status.
        """
        made = await client.threads.create()
        with pytest.raises(Exception, match="ValueError: broken"):
            await client.runs.wait(made["thread_id"], "fail", input=NEW)

        assert (await client.threads.get(made["thread_id"]))["status"] == "error"
        assert (await client.runs.list(made["thread_id"]))[0]["status"] == "error"

    async def test_a_run_is_cancelled(self, client):
        """
        A cancelled run ends, and what it did is kept.
        """
        made = await client.threads.create()
        identifier = made["thread_id"]
        run = await client.runs.create(identifier, "sleep", input=NEW, stream_mode="updates")
        async for part in client.runs.join_stream(identifier, run["run_id"]):
            if part.event == "updates":
                break
        busy = await client.threads.get(identifier)
        await client.runs.cancel(identifier, run["run_id"], wait=True)
        found = await client.runs.get(identifier, run["run_id"])

        assert (busy["status"], found["status"]) == ("busy", "interrupted")
        assert (await client.threads.get_state(identifier))["values"]["log"] == ["input", "first"]

    async def test_a_question_is_answered(self, client):
        """
        A run that asks leaves the thread interrupted; a command with the answer goes on.
        """
        made = await client.threads.create()
        identifier = made["thread_id"]
        asked = await client.runs.wait(identifier, "ask", input=NEW)
        thread = await client.threads.get(identifier)
        done = await client.runs.wait(identifier, "ask", command={"resume": "because"})

        assert asked["__interrupt__"][0]["value"] == "why?"
        assert thread["status"] == "interrupted"
        assert [q["value"] for qs in thread["interrupts"].values() for q in qs] == ["why?"]
        assert done["log"][-1] == "answer: because"

    async def test_a_busy_thread_rejects_or_replaces(self, client):
        """
        With `reject` a second run is a conflict, with `interrupt` it takes the first one's place.
        """
        made = await client.threads.create()
        identifier = made["thread_id"]
        first = await client.runs.create(identifier, "sleep", input=NEW)
        with pytest.raises(ConflictError):
            await client.runs.create(identifier, "sleep", multitask_strategy="reject")
        second = await client.runs.create(
            identifier, "sleep", input=NEW, multitask_strategy="interrupt"
        )
        stopped = await client.runs.get(identifier, first["run_id"])
        await client.runs.cancel(identifier, second["run_id"], wait=True)

        await client.runs.join(identifier, first["run_id"])  # it may still be leaving

        assert stopped["status"] in ("interrupted", "running")
        assert stopped["run_id"] != second["run_id"]
        assert (await client.runs.get(identifier, first["run_id"]))["status"] == "interrupted"

    async def test_runs_are_started_and_deleted_together(self, client):
        """
        A batch starts runs without threads; a deleted run is found no more.
        """
        started = await client.runs.create_batch(
            [{"assistant_id": "log", "input": NEW}, {"assistant_id": "log", "input": NEW}]
        )
        made = await client.threads.create()
        run = await client.runs.create(made["thread_id"], "log", input=NEW)
        await client.runs.join(made["thread_id"], run["run_id"])
        await client.runs.delete(made["thread_id"], run["run_id"])

        assert len({r["run_id"] for r in started}) == 2
        with pytest.raises(NotFoundError):
            await client.runs.get(made["thread_id"], run["run_id"])

    async def test_runs_are_cancelled_together(self, client):
        """
        Runs of a thread are cancelled by their ids, and all that wait or go on by their status;
        what they did is kept, or taken back.
        """
        threads = [(await client.threads.create())["thread_id"] for _ in range(3)]
        runs = [await client.runs.create(thread, "sleep", input=NEW) for thread in threads]
        await client.runs.cancel_many(thread_id=threads[0], run_ids=[runs[0]["run_id"]])
        stopped = await client.runs.join(threads[0], runs[0]["run_id"])
        others = [await client.runs.get(t, r["run_id"]) for t, r in zip(threads, runs, strict=True)]
        await client.runs.cancel_many(status="all", action="rollback")
        ended = [await client.runs.get(t, r["run_id"]) for t, r in zip(threads, runs, strict=True)]

        assert stopped["__error__"]["error"] == "RunCancelledError"
        assert {run["status"] for run in others[1:]} <= {"running", "pending"}
        assert {run["status"] for run in ended} == {"interrupted"}
        assert (await client.threads.get_state(threads[1]))["values"] == {}


@pytest.fixture
async def in_time() -> AsyncIterator[None]:
    """A stream that is silent for ever is a failure."""
    with anyio.fail_after(30):
        yield


@pytest.mark.usefixtures("in_time")
class TestThreadStreams:
    async def test_all_runs_of_a_thread(self, client):
        """
        A thread's stream has one run after the other, and goes on behind the last event.
        """
        thread = (await client.threads.create())["thread_id"]
        first = await client.runs.create(thread, "sleep", input=NEW, stream_mode="updates")
        parts = await client.threads.join_stream(thread)
        seen = [await anext(parts), await anext(parts)]
        last = seen[-1].id
        await parts.aclose()
        await client.runs.cancel(thread, first["run_id"], action="rollback")
        second = await client.runs.create(thread, "log", input=NEW, stream_mode="updates")
        parts = await client.threads.join_stream(thread, last_event_id=last)
        rest = [await anext(parts) for _ in range(5)]
        await parts.aclose()

        assert [part.event for part in seen] == ["metadata", "updates"]
        assert [p.event for p in rest] == ["end", "metadata", "updates", "updates", "end"]
        assert rest[1].data["run_id"] == second["run_id"]

    async def test_only_how_runs_begin_and_end(self, client):
        """
        With `lifecycle` nothing that a run does is streamed; other modes are refused.
        """
        thread = (await client.threads.create())["thread_id"]
        run = await client.runs.create(thread, "log", input=NEW)
        await client.runs.join(thread, run["run_id"])
        first = f"{run['run_id']}.0"
        parts = await client.threads.join_stream(
            thread, stream_mode="lifecycle", last_event_id=first
        )
        told = [(await anext(parts)).event for _ in range(2)]
        await parts.aclose()
        unknown: Any = "everything"
        unserved = await client.threads.join_stream(thread, stream_mode=unknown)

        assert told == ["metadata", "end"]
        with pytest.raises(UnprocessableEntityError, match="everything"):
            await anext(unserved)

    async def test_a_place_that_is_gone(self, client):
        """
        A client that returns after its run was removed gets a gap, and the thread's state.
        """
        thread = (await client.threads.create())["thread_id"]
        await client.runs.wait(thread, "log", input=NEW)
        parts = await client.threads.join_stream(thread, last_event_id="no.7")
        told = [await anext(parts), await anext(parts)]
        await parts.aclose()

        assert [part.event for part in told] == ["gap", "values"]
        assert told[1].data == DONE


class TestStreams:
    async def test_values(self, client):
        """
        Values are streamed after each superstep, between the run's id and its end.
        """
        made = await client.threads.create()
        parts = [p async for p in client.runs.stream(made["thread_id"], "log", input=NEW)]

        assert [p.event for p in parts] == ["metadata", "values", "values", "values", "end"]
        assert parts[-2].data == DONE
        assert parts[0].data["run_id"]

    async def test_several_modes(self, client):
        """
        Updates and custom chunks are streamed under their names.
        """
        modes = ["updates", "custom"]
        told = await names(client.runs.stream(None, "log", input=NEW, stream_mode=modes))

        assert told == ["metadata", "custom", "updates", "updates", "end"]

    async def test_messages(self, client):
        """
        Messages are streamed as they grow, or in pieces with their metadata.
        """
        given = {"messages": []}
        whole = [
            p async for p in client.runs.stream(None, "talk", input=given, stream_mode="messages")
        ]
        pieces = [
            p
            async for p in client.runs.stream(
                None, "talk", input=given, stream_mode="messages-tuple"
            )
        ]

        told = [p for p in whole if p.event == "messages/partial"]
        assert [p.data[0]["content"] for p in told][:2] == ["Hel", "Hello"]
        said = [p.data[0]["content"] for p in pieces if p.event == "messages"]
        assert said[:2] == ["Hel", "lo"]

    async def test_a_question_and_its_answer(self, client):
        """
        A question is in the stream, and the answer's stream goes on.
        """
        made = await client.threads.create()
        identifier = made["thread_id"]
        asked = [
            p async for p in client.runs.stream(identifier, "ask", input=NEW, stream_mode="updates")
        ]
        answered = [
            p
            async for p in client.runs.stream(
                identifier, "ask", command={"resume": "so"}, stream_mode="updates"
            )
        ]

        assert asked[-2].data["__interrupt__"][0]["value"] == "why?"
        assert answered[-2].data == {"ask": {"log": ["answer: so"]}}

    async def test_an_error_is_reported(self, client):
        """
        A failed run's stream ends with its error.
        """
        parts = [p async for p in client.runs.stream(None, "fail", input=NEW)]
        errors = [p.data for p in parts if p.event == "error"]

        assert errors == [{"error": "ValueError", "message": "broken"}]

    async def test_a_reader_that_comes_back_misses_nothing(self, client):
        """
        A client that joins behind an id gets the events after it, once.
        """
        made = await client.threads.create()
        identifier = made["thread_id"]
        run = await client.runs.create(
            identifier, "log", input=NEW, stream_mode="values", stream_resumable=True
        )
        whole = [p async for p in client.runs.join_stream(identifier, run["run_id"])]
        rest = [
            p
            async for p in client.runs.join_stream(
                identifier, run["run_id"], last_event_id=whole[1].id
            )
        ]

        assert [p.event for p in whole] == ["metadata", "values", "values", "values", "end"]
        assert rest == whole[2:]
