"""Which events of the streaming protocol are made of a run's: pure, without a server."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from actorgraph.messages import AIMessage, AIMessageChunk
from actorgraph.values.alarms import Timing, shown_times
from actorgraph.values.commands import Interrupt
from actorgraph.values.ids import run_id_of
from actorgraph.values.systems import RunEvent
from actorgraph.web.stream_protocol.event_numbers import PARTS, first_numbers, number_of
from actorgraph.web.stream_protocol.message_events import MessageEvents
from actorgraph.web.stream_protocol.protocol_events import WireEvent, WireTranslator
from actorgraph.web.stream_protocol.subscriptions import EventStreamRequest, Filter

BEGIN = ("metadata", (), {"run_id": "r", "attempt": 1})
NODE = {"langgraph_node": "talk", "langgraph_checkpoint_ns": "talk:1"}
SUB = ("sub:1",)


def made_of(*chunks: tuple[str, tuple[str, ...], Any]) -> list[WireEvent]:
    """The protocol's events of a run's events."""
    translator = WireTranslator("g")
    return [
        event
        for at, (kind, namespace, data) in enumerate(chunks, 1)
        for event in translator.events(RunEvent(at, kind, data, namespace))
    ]


def life(events: Sequence[WireEvent]) -> list[tuple[tuple[str, ...], str]]:
    """The lives of the run and of its subgraphs."""
    return [(e.namespace, e.data["event"]) for e in events if e.method == "lifecycle"]


def checkpoint(name: str, step: int) -> dict[str, Any]:
    """A chunk of the mode `checkpoints`."""
    config = {"configurable": {"checkpoint_id": name}}
    return {"config": config, "parent_config": None, "metadata": {"step": step, "source": "loop"}}


def result(name: str, task: str, **more: Any) -> dict[str, Any]:
    """The chunk of a task's end."""
    return {"id": task, "name": name, "error": None, "result": {}, "interrupts": [], **more}


class TestLives:
    @pytest.mark.parametrize(
        ("status", "last"),
        [
            ("success", "completed"),
            ("interrupted", "interrupted"),
            ("cancelled", "interrupted"),
            ("error", "failed"),
            ("timeout", "failed"),
            ("parked", "failed"),
        ],
    )
    def test_each_status_has_a_last_event(self, status, last):
        """
        A run's life begins with "running" and ends as its status says.
        """
        events = made_of(BEGIN, ("end", (), {"status": status, "reason": ""}))

        assert life(events) == [((), "running"), ((), last)]
        assert events[-1].data.get("error") == (status if last == "failed" else None)

    def test_a_subgraph_lives_within_its_task(self):
        """
        A subgraph begins with its first event and ends with its task, the deepest first.
        """
        events = made_of(
            BEGIN,
            ("values", (*SUB, "in:2"), {"a": 1}),
            ("tasks", (), result("sub", "1")),
            ("end", (), {"status": "success", "reason": ""}),
        )

        below = (*SUB, "in:2")
        assert life(events) == [
            ((), "running"),
            *((SUB, "started"), (below, "started"), (below, "completed"), (SUB, "completed")),
            ((), "completed"),
        ]

    def test_the_text_of_a_storage_error_is_replaced(self):
        """
        The error of a run's end names no path of the storage.
        """
        error = {"error": "StorageError", "message": "/srv/secret.db is gone"}
        events = made_of(BEGIN, ("error", (), error), ("end", (), {"status": "error"}))

        assert "secret" not in str(events[-1].data)


class TestState:
    def test_a_checkpoint_comes_before_its_values(self):
        """
        Values wait for their checkpoint, whose envelope goes first.
        """
        events = made_of(BEGIN, ("values", (), {"a": 1}), ("checkpoints", (), checkpoint("c1", 0)))

        assert [e.method for e in events[1:]] == ["checkpoints", "values"]
        assert events[1].data == {"id": "c1", "step": 0, "source": "loop"}

    def test_values_without_a_checkpoint_are_not_kept(self):
        """
        Values that no checkpoint follows are sent with the next event, at the latest the last.
        """
        tasks = {"id": "1", "name": "a", "input": {}, "triggers": ()}
        end = ("end", (), {"status": "success", "reason": ""})
        early = made_of(BEGIN, ("values", (), {"a": 1}), ("tasks", (), tasks))
        late = made_of(BEGIN, ("values", (), {"a": 1}), end)

        assert [e.method for e in early[1:]] == ["values", "tasks"]
        assert [e.method for e in late[1:]] == ["values", "lifecycle"]

    def test_a_question_is_asked_once(self):
        """
        A question of a subgraph is sent once, from there, however many graphs repeat it.
        """
        question = Interrupt(value="why?", id="q")
        asks = {"__interrupt__": (question,)}
        events = made_of(
            BEGIN,
            ("updates", SUB, asks),
            ("values", SUB, {"a": 1, **asks}),
            ("tasks", SUB, result("ask", "2", interrupts=[{"value": "why?", "id": "q"}])),
            ("updates", (), asks),
        )
        asked = [e for e in events if e.method == "input.requested"]
        values = [e.data for e in events if e.method == "values"]

        assert [(e.namespace, e.data["interrupt_id"], e.data["payload"]) for e in asked] == [
            (SUB, "q", "why?")
        ]
        assert values == [{"a": 1}]

    @pytest.mark.parametrize("mode", ["updates", "tasks"])
    def test_a_question_has_its_schema_and_its_times(self, mode):
        """
        What a question has beside its value is in its event, whichever chunk it came in.
        """
        times = Timing(0, due=1_000_000, otherwise=("go",))
        more = shown_times(times)
        shown = {"value": "why?", "id": "q", "response_schema": None, **more}
        data = {
            "updates": {"__interrupt__": (Interrupt("why?", "q", None, times),)},
            "tasks": result("ask", "2", interrupts=[shown]),
        }
        asked = [e.data for e in made_of(BEGIN, (mode, (), data[mode])) if e.method[:5] == "input"]

        assert asked == [{"interrupt_id": "q", "payload": "why?", "value": "why?", **more}]

    @pytest.mark.parametrize(
        ("chunk", "data"),
        [
            ({"at": 1}, {"payload": {"at": 1}}),
            ("text", {"payload": "text"}),
            ({"name": "p", "payload": 1}, {"name": "p", "payload": 1}),
            ({"name": "p", "payload": 1, "x": 2}, {"payload": {"name": "p", "payload": 1, "x": 2}}),
        ],
    )
    def test_a_custom_chunk_may_name_its_channel(self, chunk, data):
        """
        A chunk of a name and a payload goes to the channel of that name, any other is a payload.
        """
        assert made_of(BEGIN, ("custom", (), chunk))[-1].data == data


class TestMessages:
    def said(self, *messages: Any) -> list[dict[str, Any]]:
        """The events of some pieces of messages."""
        made = MessageEvents()
        found = [event for one in messages for event in made.add((), one, NODE)]
        return [data for _, _, data in (*found, *made.end_all(None))]

    def test_pieces_become_one_block(self):
        """
        Text in pieces is one block, with a delta for each piece.
        """
        data = self.said(AIMessageChunk("Hel", id="1"), AIMessageChunk("lo", id="1"))

        assert [one["event"] for one in data] == [
            *("message-start", "content-block-start"),
            *("content-block-delta", "content-block-delta"),
            *("content-block-finish", "message-finish"),
        ]
        assert data[-2]["content"] == {"type": "text", "text": "Hello"}
        assert {one["id"] for one in data} == {"1"}

    def test_a_whole_message_is_finished_at_once(self):
        """
        A message that comes whole has its text, its calls and its tokens.
        """
        call = {"name": "find", "args": {"q": 1}, "id": "c"}
        usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
        data = self.said(AIMessage("see", id="1", tool_calls=[call], usage_metadata=usage))
        whole = [one["content"] for one in data if one["event"] == "content-block-finish"]

        assert whole == [{"type": "text", "text": "see"}, {"type": "tool_call", **call}]
        assert data[-1]["usage"] == usage

    def test_a_call_in_pieces_is_whole_at_its_end(self):
        """
        The arguments of a call come as far as they have been received, and parsed at the end.
        """
        from langchain_core.messages import AIMessageChunk as Piece

        def piece(args: str, **more: Any) -> Any:
            call = {"name": None, "id": None, "index": 0, "type": "tool_call_chunk"}
            return Piece("", id="1", tool_call_chunks=[{**call, "args": args, **more}])

        data = self.said(piece('{"q"', name="find", id="c"), piece(": 1}"))
        deltas = [one["delta"] for one in data if one["event"] == "content-block-delta"]

        assert [one["fields"]["args"] for one in deltas] == ['{"q"', '{"q": 1}']
        assert data[-2]["content"] == {
            "type": "tool_call",
            "id": "c",
            "name": "find",
            "args": {"q": 1},
        }

    def test_arguments_that_do_not_parse_are_an_invalid_call(self):
        """
        A call whose arguments can't be parsed is sent as invalid, with the text of the model.
        """
        from langchain_core.messages import AIMessageChunk as Piece

        call = {"name": "f", "id": "c", "index": 0, "args": "[1", "type": "tool_call_chunk"}
        data = self.said(Piece("", id="1", tool_call_chunks=[call]))

        assert (data[-2]["content"]["type"], data[-2]["content"]["args"]) == (
            "invalid_tool_call",
            "[1",
        )

    def test_another_kind_of_block_ends_the_one_before(self):
        """
        Blocks of a message follow one another, each with its own index.
        """
        think = {"type": "reasoning", "reasoning": "hm", "index": 0}
        text = {"type": "text", "text": "so", "index": 1}
        data = self.said(AIMessageChunk([think], id="1"), AIMessageChunk([text], id="1"))

        assert [(one["event"], one["index"]) for one in data[1:-1]] == [
            *(("content-block-start", 0), ("content-block-delta", 0), ("content-block-finish", 0)),
            *(("content-block-start", 1), ("content-block-delta", 1), ("content-block-finish", 1)),
        ]

    def test_an_open_message_ends_with_its_task(self):
        """
        A message whose last piece isn't marked ends when its task does; of a failed run, with it.
        """
        piece = ("messages", (), (AIMessageChunk("Hel", id="1"), NODE))
        ended = made_of(BEGIN, piece, ("tasks", (), result("talk", "1")))
        failed = made_of(BEGIN, piece, ("end", (), {"status": "error", "reason": "E: x"}))

        assert [e.method for e in ended[-2:]] == ["messages", "tasks"]
        assert ended[-2].data["event"] == "message-finish"
        assert (failed[-2].data["event"], failed[-2].data["message"]) == ("error", "E: x")

    @pytest.mark.parametrize(
        "again",
        [("retry", (), {"task": NODE["langgraph_checkpoint_ns"]}), BEGIN],
        ids=["of the node", "of the run"],
    )
    def test_a_message_of_a_failed_attempt_ends_with_an_error(self, again):
        """
        An attempt that begins anew ends what the one before left open, and begins its own messages.
        """
        piece = ("messages", (), (AIMessageChunk("Hel", id="1"), NODE))
        whole = ("messages", (), (AIMessage("Yes", id="2"), NODE))
        made = made_of(BEGIN, whole, piece, again, piece)
        said = [(e.data["id"], e.data["event"]) for e in made if e.method == "messages"]

        begun = [("1", "message-start"), ("1", "content-block-start"), ("1", "content-block-delta")]
        assert said[5:] == [*begun, ("1", "error"), *begun]

    @pytest.mark.parametrize(
        ("state", "rest"),
        [
            ([AIMessage("a bc", id="m")], ["a ", "bc"]),
            ([AIMessage("a ", id="m")], ["a "]),
            ([AIMessage("another", id="m")], None),
            ([AIMessage("a bc", id="of another")], None),
            ("no list", None),
        ],
    )
    def test_pieces_that_were_missed_are_taken_from_the_state(self, state, rest):
        """
        A message that the state behind a gap has whole gets its rest there, and its end: its task,
        whose result was stored before a crash and the last pieces weren't, doesn't say them again.
        """
        events = made_of(
            BEGIN,
            ("messages", (), (AIMessageChunk("a ", id="m"), NODE)),
            ("gap", (), {"from": 3, "to": None}),
            ("values", (), {"messages": state}),
            ("metadata", (), {"run_id": "r", "attempt": 2}),
        )
        said = [e.data for e in events if e.method == "messages"]
        pieces = [one["delta"]["text"] for one in said if one["event"] == "content-block-delta"]
        whole = [one["content"]["text"] for one in said if one["event"] == "content-block-finish"]

        assert pieces == (rest or ["a "])
        assert whole == (["".join(rest)] if rest else [])
        assert (said[-1]["event"] == "message-finish") == bool(rest)
        assert {one["id"] for one in said} == {"m"}

    def test_values_without_a_gap_finish_no_message(self):
        """
        A state may have an earlier message of the same id while that is written anew.
        """
        events = made_of(
            BEGIN,
            ("messages", (), (AIMessageChunk("a ", id="m"), NODE)),
            ("values", (), {"messages": [AIMessage("a bc", id="m")]}),
        )

        assert "content-block-finish" not in [e.data.get("event") for e in events]


class TestSubscriptions:
    @pytest.mark.parametrize(
        ("wanted", "namespace", "taken"),
        [
            ({}, ("a:1", "b:2"), True),
            ({"namespaces": []}, ("a:1",), True),
            ({"namespaces": [["a"]]}, ("a:1", "b:2"), True),
            ({"namespaces": [["a:1"]]}, ("a:1",), True),
            ({"namespaces": [["a:2"]]}, ("a:1",), False),
            ({"namespaces": [["a"]]}, (), False),
            ({"namespaces": [["b"], ["a"]]}, ("a:1",), True),
            ({"namespaces": [[]], "depth": 0}, ("a:1",), False),
            ({"namespaces": [[]], "depth": 1}, ("a:1",), True),
        ],
    )
    def test_namespaces_match_by_prefix(self, wanted, namespace, taken):
        """
        An event is sent if one of the namespaces is a prefix of its own, not too far above.
        """
        chosen = Filter(EventStreamRequest(["values"], **wanted))

        assert chosen.takes("values", namespace, {}) is taken

    @pytest.mark.parametrize(
        ("channel", "method", "data", "taken"),
        [
            ("values", "updates", {}, False),
            ("input", "input.requested", {}, True),
            ("custom", "custom", {"name": "p"}, True),
            ("custom:p", "custom", {"name": "p"}, True),
            ("custom:p", "custom", {"payload": 1}, False),
        ],
    )
    def test_channels_choose_kinds_of_events(self, channel, method, data, taken):
        """
        A channel has events of one kind; `custom` has those of every name.
        """
        assert Filter(EventStreamRequest([channel])).takes(method, (), data) is taken


def id_of(time: datetime) -> bytes:
    """The id of a run of a time."""
    return run_id_of(int(time.timestamp() * 1000), "key")


class TestNumbers:
    def test_a_run_with_an_earlier_id_moves_no_other(self):
        """
        Numbers that clients have stay, also if a run of an earlier moment is stored behind them.
        """
        at = datetime(2026, 1, 1, tzinfo=UTC)
        later = [id_of(at), id_of(at + timedelta(hours=1))]

        assert first_numbers([id_of(at - timedelta(hours=1)), *later])[1:] == first_numbers(later)

    def test_they_grow_over_runs_of_one_second(self):
        """
        Each event of a run has a lower number than any of the next run, also in one second.
        """
        at = datetime(2026, 1, 1, tzinfo=UTC)
        times = [at, at, at + timedelta(seconds=1), at + timedelta(days=1)]
        firsts = first_numbers([id_of(time) for time in times])
        lasts = [number_of(first, 262_143, PARTS) for first in firsts]

        assert all(last < following for last, following in zip(lasts, firsts[1:], strict=False))

    def test_javascript_can_hold_them(self):
        """
        Numbers stay below 2**53 until 2040.
        """
        (first,) = first_numbers([id_of(datetime(2040, 12, 31, tzinfo=UTC))])

        assert number_of(first, 2**18 - 1, PARTS) < 2**53

    def test_parts_beyond_the_last_share_its_number(self):
        """
        An event that becomes more parts than have numbers gives the rest the last one.
        """
        assert number_of(0, 1, PARTS + 5) == number_of(0, 1, PARTS - 1) < number_of(0, 2, 0)
