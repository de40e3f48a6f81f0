"""Keys that are members of an enum of strings: written, stored and shown as their texts."""

from enum import Enum
from typing import Any

import pytest

from actorgraph.superstep.results import updates_in, writes_of
from actorgraph.values.commands import Command
from actorgraph.values.constants import START
from tests.superstep.script import Script
from tests.superstep.threads import EXIT, PAIR, SYNC

A = PAIR.nodes["a"]


class Key(str, Enum):  # noqa: UP042 - as programs have them
    TEXT = "text"


def shape(pairs: Any) -> list[tuple[Any, type, Any]]:
    """Each key, its class and its value."""
    return [(key, type(key), value) for key, value in pairs]


@pytest.mark.parametrize(
    "returned", [{Key.TEXT: "x"}, Command(update={Key.TEXT: "x"}), [{Key.TEXT: "x"}]]
)
def test_a_node_may_return_them(returned: Any):
    """
    In each form of a return value the write has the text.
    """
    writes, dropped = writes_of(PAIR, A, returned)

    assert shape(writes) == [("text", str, "x"), *shape(A.targets)]
    assert dropped == []


def test_other_keys_beside_them_stay_as_they_are():
    """
    Only texts are changed: a number is still the key that the update has.
    """
    given = {Key.TEXT: "x", 3: "y"}

    assert shape(updates_in(A, given)) == [("text", str, "x"), (3, int, "y")]


@pytest.mark.parametrize("mode", [SYNC, EXIT])
def test_an_input_may_have_them(mode: Any):
    """
    It is stored with texts as keys, in the first checkpoint or with the claim.
    """
    run = Script(PAIR, mode)
    run.begin({Key.TEXT: "x"})
    (save,) = run.sent
    assert save.claim is not None
    stored = save.claim.input if mode is EXIT else save.checkpoints[0].changed[START]

    assert shape(stored.items()) == [("text", str, "x")]
    assert run.state.values["text"] == "x"
