"""`client.threads.stream` of langgraph-sdk: the streaming protocol of today's clients."""

from typing import Any

import anyio
import pytest

from tests.support.gates import PATIENCE_S
from tests.web.sdk import DONE, NEW, address, anyio_backend, client
from tests.web.wire import TERMINAL, events_of, thread_of

__all__ = ["address", "anyio_backend", "client"]


async def root_life(stream: Any) -> list[str]:
    """The events of a run's life, to its end."""
    found: list[str] = []
    async for event in stream:
        if event["method"] == "lifecycle" and not event["params"]["namespace"]:
            found.append(event["params"]["data"]["event"])
            if found[-1] in TERMINAL:
                break
    return found


async def asked(thread: Any) -> list[tuple[Any, list[str]]]:
    """Wait until the client has heard of a question; returns the questions and their places."""
    with anyio.fail_after(PATIENCE_S):
        while not thread.interrupted:  # noqa: ASYNC110 - the client has no event for it
            await anyio.sleep(0.001)
    return [(one["value"], one["namespace"]) for one in thread.interrupts]


class TestRunStart:
    async def test_a_run_is_streamed_and_its_output_read(self, client):
        """
        A run on a new thread streams its values, and its output is the thread's state.
        """
        async with client.threads.stream(assistant_id="log") as thread:
            started = await thread.run.start(input=NEW, metadata={"by": "me"})
            values = [one async for one in thread.values]
            output = await thread.output
        run = await client.runs.get(thread.thread_id, started["run_id"])

        assert values[-1] == output == DONE
        assert (run["status"], run["metadata"]) == ("success", {"by": "me"})

    async def test_messages_come_in_pieces(self, client):
        """
        A message is streamed as the text that the node sends, and whole at its end.
        """
        async with client.threads.stream(assistant_id="talk") as thread:
            await thread.run.start(input={"messages": [{"role": "user", "content": "hi"}]})
            messages = [message async for message in thread.messages]
            pieces = [piece async for piece in messages[0].text]
            whole = await messages[0].output

        assert (len(messages), pieces, whole.text, whole.id) == (1, ["Hel", "lo"], "Hello", "1")

    async def test_a_failed_run_says_why(self, client):
        """
        The error of a node is raised where the output is awaited.
        """
        async with client.threads.stream(assistant_id="fail") as thread:
            await thread.run.start(input=NEW)

            with pytest.raises(RuntimeError, match="ValueError: broken"):
                await thread.output

    async def test_an_older_checkpoint_is_forked(self, client):
        """
        A run from an older checkpoint goes on from there.
        """
        async with client.threads.stream(assistant_id="log") as thread:
            await thread.run.start(input=NEW)
            await thread.output
        history = await client.threads.get_history(thread.thread_id)
        before = next(one for one in history if one["next"] == ["second"])
        config = {"configurable": {"checkpoint_id": before["checkpoint"]["checkpoint_id"]}}
        async with client.threads.stream(thread.thread_id, assistant_id="log") as again:
            await again.run.start(config=config)
            values = [one async for one in again.values]

        assert values[-1] == DONE

    @pytest.mark.parametrize(
        ("method", "params", "code"),
        [
            ("run.start", {}, "invalid_argument"),
            ("input.respond", {"interrupt_id": "x", "response": 1}, "no_such_interrupt"),
            ("input.respond", {"interrupt_id": "x"}, "invalid_argument"),
            ("subscription.subscribe", {"channels": ["values"]}, "not_supported"),
            ("run.stop", {}, "unknown_command"),
        ],
    )
    async def test_a_command_is_refused_with_a_code(self, address, client, method, params, code):
        """
        A command that can't be executed is answered with the protocol's code, and starts nothing.
        """
        thread = await thread_of(client, "log")
        answer = await thread.send(address, method, params)

        assert (answer["type"], answer["id"], answer["error"]) == ("error", 7, code)
        assert len(await client.runs.list(thread.thread_id)) == 1


class TestQuestions:
    async def test_a_question_is_answered(self, client):
        """
        A run that asks pauses the stream with the question; the answer resumes it.
        """
        async with client.threads.stream(assistant_id="ask") as thread:
            await thread.run.start(input=NEW)
            life = await root_life(thread.events)
            questions = await asked(thread)
            await thread.run.respond("because")
            output = await thread.output

        assert life == ["running", "interrupted"]
        assert questions == [("why?", [])]
        assert output["log"][-1] == "answer: because"

    async def test_another_client_finds_the_question(self, client):
        """
        A client that opens the thread later is asked the same question, and answers it.
        """
        async with client.threads.stream(assistant_id="ask") as thread:
            await thread.run.start(input=NEW)
            await root_life(thread.events)
        async with client.threads.stream(thread.thread_id, assistant_id="ask") as later:
            await asked(later)
            await later.run.respond("later")
            output = await later.output

        assert output["log"][-1] == "answer: later"

    async def test_a_question_is_answered_once(self, address, client):
        """
        A second answer to the same question is refused before a run is started.
        """
        thread = await thread_of(client, "ask")
        question = thread.of("input.requested")[0]["interrupt_id"]
        answer = {"interrupt_id": question, "namespace": [], "response": "because"}
        first = await thread.send(address, "input.respond", answer)
        await client.runs.join(thread.thread_id, first["result"]["run_id"])
        second = await thread.send(address, "input.respond", answer)

        assert (first["type"], second["error"]) == ("success", "no_such_interrupt")
        assert len(await client.runs.list(thread.thread_id)) == 2


class TestSubscriptions:
    async def test_a_client_continues_after_a_break(self, address, client):
        """
        After each event, the rest comes with the same ids and numbers, which grow.
        """
        thread = await thread_of(client, "talk")
        numbers = [event["seq"] for event in thread.events]
        rests = [
            await events_of(address, thread.thread_id, since=event["seq"])
            for event in thread.events[:-1:4]
        ]

        assert numbers == sorted(set(numbers))
        assert rests == [thread.events[at + 1 :] for at in range(0, len(numbers) - 1, 4)]

    async def test_the_numbers_of_a_new_run_are_above_those_before(self, address, client):
        """
        The answer to a command has a number: below it all is older than the command's run.
        """
        thread = await thread_of(client, "log")
        answer = await thread.send(address, "run.start", {"assistant_id": "log", "input": NEW})
        below = answer["meta"]["applied_through_seq"]
        await client.runs.join(thread.thread_id, answer["result"]["run_id"])
        events = await events_of(address, thread.thread_id, since=below)

        assert thread.events[-1]["seq"] <= below < events[0]["seq"]
        assert events[0]["event_id"].startswith(f"synth:{answer['result']['run_id']}:")

    async def test_a_late_client_gets_the_newest_run(self, address, client):
        """
        Without a number to continue from, a stream begins with the thread's newest run.
        """
        thread = await thread_of(client, "log")
        answer = await thread.send(address, "run.start", {"assistant_id": "log", "input": NEW})
        run = answer["result"]["run_id"]
        await client.runs.join(thread.thread_id, run)
        events = await events_of(address, thread.thread_id)

        assert all(run in event["event_id"] for event in events)

    @pytest.mark.parametrize("path", ["stream/events", "stream"])
    async def test_only_what_was_asked_for_comes(self, address, client, path):
        """
        A subscription gets the events of its channels, on LangGraph's path and Agent Protocol's.
        """
        thread = await thread_of(client, "log")
        events = await events_of(
            address, thread.thread_id, path=path, channels=["updates", "lifecycle"]
        )
        methods = [event["method"] for event in events]

        assert methods == ["lifecycle", "updates", "updates", "lifecycle"]
        assert events[1]["params"]["data"] == {"node": "first", "values": {"log": ["first"]}}
