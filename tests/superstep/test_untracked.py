"""Values of untracked channels are taken out of everything that is stored, wherever they are."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel, Field

from actorgraph.errors import ActorGraphError
from actorgraph.runtime.task.live import LIVE_MODES
from actorgraph.superstep.untracked import (
    is_storable,
    storable_chunk,
    storable_save,
    storable_send,
    storable_update,
    storable_writes,
)
from actorgraph.values.commands import Command, Send
from actorgraph.values.constants import NO_WRITES, START, TASKS
from actorgraph.values.ids import TaskId
from actorgraph.values.policies import STREAM_MODES
from actorgraph.values.run import ClaimIntent, LedgerEntry, NewCheckpoint, Save

NAMES = frozenset({"key", "conn"})
SECRET = {"text": "x", "key": "secret"}
CLEAN = {"text": "x"}


@dataclass
class Data:
    text: str = "x"
    key: str = ""
    conn: Any = field(default_factory=list)


@dataclass(frozen=True)
class Frozen:
    key: str
    text: str = "x"


class Model(BaseModel):
    key: str
    text: str = "x"
    conn: list[int] = [7]


class Struct(msgspec.Struct):
    key: str
    text: str = "x"
    conn: list[int] = []


class Plain:
    key: str
    text: str

    def __init__(self, **fields: str) -> None:
        vars(self).update(fields)

    def __eq__(self, other: object) -> bool:
        return type(other) is Plain and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]


class TestUpdates:
    @pytest.mark.parametrize(
        ("given", "kept"),
        [
            (SECRET, CLEAN),
            ([("key", 1), ("text", "x"), ("conn", 2)], [("text", "x")]),
            ((("key", 1), ("text", "x")), [("text", "x")]),
            (Data("x", "secret", 1), CLEAN),
            (Frozen("secret"), CLEAN),
            (Model(key="secret", text="x"), CLEAN),
            (Struct("secret"), CLEAN),
            (Plain(key="secret", text="x"), CLEAN),
        ],
    )
    def test_lose_their_untracked_keys(self, given, kept):
        """
        A dict, pairs and an object of any schema are stored without the untracked keys.
        """
        assert storable_update(NAMES, given) == kept

    @pytest.mark.parametrize(
        "given",
        [
            None,
            3,
            "key",
            CLEAN,
            [("text", "x"), ("a", 1)],
            ["key", "text"],
            [["key", 1]],
            [("key", 1, 2), (1, "key"), ("key",)],
            (),
            Plain(text="x"),
            object(),
        ],
    )
    def test_without_any_are_stored_as_they_are(self, given):
        """
        Values without an untracked key are not copied.
        """
        assert storable_update(NAMES, given) is given

    def test_of_a_command_lose_them_too(self):
        """
        A Command's update and the arguments of its Sends are stripped; the rest stays.
        """
        given = Command(update=SECRET, goto=["a", Send("b", SECRET)], resume="yes", graph="up")
        kept = Command(update=CLEAN, goto=["a", Send("b", CLEAN)], resume="yes", graph="up")
        single = Command(goto=Send("b", SECRET))

        assert storable_update(NAMES, given) == kept
        assert storable_update(NAMES, single) == Command(goto=[Send("b", CLEAN)])
        assert storable_update(frozenset(), given) is given


class TestSends:
    @pytest.mark.parametrize(
        ("arg", "kept"),
        [
            (SECRET, CLEAN),
            (Data("y", "secret", [1]), Data("y")),
            (Frozen("secret", "y"), Frozen(None, "y")),  # type: ignore[arg-type]
            (Struct("secret", "y", [1]), Struct(None, "y", [])),  # type: ignore[arg-type]
            (Plain(key="secret", text="x"), Plain(key=None, text="x")),  # type: ignore[arg-type]
        ],
    )
    def test_lose_the_untracked_fields_of_their_arguments(self, arg, kept):
        """
        A dict loses the keys; an object keeps its class and gets the defaults of the fields, or
        None where a field has none.
        """
        send = Send("a", arg, timeout=3)

        assert storable_send(NAMES, send) == Send("a", kept, timeout=3)
        assert send.arg is arg

    def test_with_a_model_keep_its_class(self):
        """
        A pydantic model gets the defaults of the untracked fields, made anew.
        """
        arg = Model(key="secret", text="y", conn=[1])
        kept = storable_send(NAMES, Send("a", arg)).arg

        assert type(kept) is Model
        assert (kept.key, kept.text, kept.conn) == (None, "y", [7])
        assert arg.key == "secret"

    @pytest.mark.parametrize("arg", [3, None, CLEAN, Plain(text="x"), ["key"], object()])
    def test_without_any_are_stored_as_they_are(self, arg):
        """
        A Send whose argument has no untracked key is not copied.
        """
        send = Send("a", arg)

        assert storable_send(NAMES, send) is send


class Made(BaseModel):
    text: str = "x"
    key: list[int] = Field(default_factory=lambda: [7])


class TestParts:
    def test_the_default_of_a_field_is_made_anew(self):
        """
        A field with a factory gets what the factory makes.
        """
        kept = storable_send(NAMES, Send("a", Made(key=[1], text="y"))).arg

        assert (kept.key, kept.text) == ([7], "y")

    def test_the_state_in_a_tools_call_is_stripped(self):
        """
        A packet for a tool has its call and the state that it may see.
        """
        packet = {"__type": "tool_call_with_context", "tool_call": {"id": "1"}, "state": SECRET}
        clean = {**packet, "state": CLEAN}

        assert storable_update(NAMES, packet) == clean
        assert storable_send(NAMES, Send("tools", packet)) == Send("tools", clean)
        assert storable_update(NAMES, clean) is clean

    @pytest.mark.parametrize(
        "given", [{"state": SECRET}, {"__type": "x", "other": SECRET}, {"a": {"key": 1}}]
    )
    def test_other_values_are_not_looked_into(self, given):
        """
        Values of tracked keys are stored as they are.
        """
        assert storable_update(NAMES, given) is given


WRITES = (
    ("key", "secret"),
    ("text", "x"),
    (START, SECRET),
    (TASKS, Send("a", SECRET)),
    (TASKS, [Send("a", SECRET), Send("b", CLEAN)]),
    (TASKS, None),
    ("other", SECRET),
)
KEPT = (
    ("text", "x"),
    (START, CLEAN),
    (TASKS, Send("a", CLEAN)),
    (TASKS, [Send("a", CLEAN), Send("b", CLEAN)]),
    (TASKS, None),
    ("other", SECRET),
)


class TestWrites:
    def test_to_untracked_channels_are_left_out(self):
        """
        Their values are taken out of inputs and Sends too; other channels' values are not read.
        """
        assert storable_writes(NAMES, WRITES) == KEPT

    @pytest.mark.parametrize("write", WRITES[:4])
    def test_that_hold_such_a_value_are_not_storable(self, write):
        """
        One value of an untracked channel, anywhere in the writes, is enough.
        """
        storable = write[0] == "text"

        assert is_storable(NAMES, [("text", "x"), write]) is storable
        assert is_storable(NAMES, [write, ("text", "x")]) is storable


def entry(index: int, *writes: tuple[str, Any]) -> LedgerEntry:
    return LedgerEntry(b"base", TaskId("task"), ("a",), index, 2, writes)


class TestSaves:
    def test_are_stripped_whole(self):
        """
        A claim's input, task rows and checkpoints lose the values; control rows stay. A task
        that wrote nothing else keeps a row, so that it counts as finished.
        """
        point = NewCheckpoint(
            id=b"id",
            parent=None,
            step=1,
            source="loop",
            changed={"key": 1, "text": "x", START: SECRET, TASKS: [Send("a", SECRET)]},
            versions={"key": 1},
            seen={},
            updated=("key",),
            next=("a",),
            metadata={"m": 1},
        )
        save = Save(
            3,
            b"head",
            ClaimIntent(b"head", "exit", SECRET, has_input=True, resumes=("q",)),
            (entry(0, *WRITES), entry(1, ("key", 1)), entry(-1, ("key", 1))),
            (point,),
            "success",
        )

        assert storable_save(NAMES, save) == Save(
            3,
            b"head",
            ClaimIntent(b"head", "exit", CLEAN, has_input=True, resumes=("q",)),
            (entry(0, *KEPT), entry(1, (NO_WRITES, None)), entry(-1, ("key", 1))),
            (
                msgspec.structs.replace(
                    point, changed={"text": "x", START: CLEAN, TASKS: [Send("a", CLEAN)]}
                ),
            ),
            "success",
        )

    def test_without_an_input_keep_their_claim(self):
        """
        A claim without an input, and a save without a claim, are left alone.
        """
        claimed = Save(1, None, ClaimIntent(None, "sync"))

        assert storable_save(NAMES, claimed) == claimed
        assert storable_save(NAMES, Save(2, None)) == Save(2, None)


TASK = {"id": "1", "name": "a", "input": SECRET, "triggers": ("b",)}
ENDED = {"id": "1", "name": "a", "result": SECRET, "error": None}
POINT = {"values": SECRET, "tasks": [{"id": "1", "result": SECRET}, {"id": "2"}], "next": ["a"]}


class TestChunks:
    @pytest.mark.parametrize(
        ("mode", "chunk", "kept"),
        [
            ("values", SECRET, CLEAN),
            ("updates", {"a": SECRET, "b": None}, {"a": CLEAN, "b": None}),
            (
                "updates",
                {"a": [{"key": 1}, {"text": "x"}, SECRET]},
                {"a": [{"text": "x"}, CLEAN]},
            ),
            ("tasks", TASK, {**TASK, "input": CLEAN}),
            ("tasks", ENDED, {**ENDED, "result": CLEAN}),
            (
                "checkpoints",
                POINT,
                {**POINT, "values": CLEAN, "tasks": [{"id": "1", "result": CLEAN}, {"id": "2"}]},
            ),
            (
                "debug",
                {"type": "checkpoint", "step": 1, "payload": POINT},
                {
                    "type": "checkpoint",
                    "step": 1,
                    "payload": {
                        **POINT,
                        "values": CLEAN,
                        "tasks": [{"id": "1", "result": CLEAN}, {"id": "2"}],
                    },
                },
            ),
            (
                "debug",
                {"type": "task", "step": 1, "payload": TASK},
                {"type": "task", "step": 1, "payload": {**TASK, "input": CLEAN}},
            ),
            ("custom", SECRET, SECRET),
        ],
    )
    def test_of_a_stored_stream_are_stripped(self, mode, chunk, kept):
        """
        Each mode's chunk loses the values where it shows the state; a program's own chunk stays.
        """
        assert storable_chunk(NAMES, mode, chunk) == kept

    @pytest.mark.parametrize("mode", STREAM_MODES)
    def test_of_every_mode_have_a_case(self, mode):
        """
        Each mode's chunk of the state loses the value; only what nodes send is stored as it is.
        """
        chunk = {
            "values": SECRET,
            "updates": {"a": SECRET},
            "tasks": TASK,
            "checkpoints": POINT,
            "debug": {"type": "task_result", "step": 1, "payload": ENDED},
        }.get(mode, SECRET)

        kept = storable_chunk(NAMES, mode, chunk)

        assert ("secret" in repr(kept)) == (mode in LIVE_MODES)

    @pytest.mark.parametrize(
        ("mode", "chunk", "culprit"),
        [
            ("versions", SECRET, "stream mode 'versions'"),
            ("debug", {"type": "superstep", "payload": SECRET}, "debug chunks of type 'superstep'"),
        ],
    )
    def test_of_an_unknown_kind_are_refused(self, mode, chunk, culprit):
        """
        A mode or a type of `debug` chunks without a rule is an error that says where to add it.
        """
        with pytest.raises(ActorGraphError, match=culprit) as raised:
            storable_chunk(NAMES, mode, chunk)

        assert "actorgraph/superstep/untracked.py" in raised.value.do


@pytest.mark.parametrize(
    ("mode", "chunk", "what", "place"),
    [
        ("new", {}, "chunks of stream mode 'new'", "storable_chunk"),
        ("debug", {"type": "new"}, "debug chunks of type 'new'", "_WRAPPED"),
    ],
)
def test_a_chunk_without_a_rule_is_refused(mode, chunk, what, place):
    """
    The error names what has no rule, and the place of the rules.
    """
    with pytest.raises(ActorGraphError) as refused:
        storable_chunk(frozenset({"secret"}), mode, chunk)

    rule = "no rule says where they show values of untracked channels"
    assert refused.value.what == f"{what} can't be stored: {rule}"
    assert refused.value.do == f"add them to {place} in actorgraph/superstep/untracked.py"
