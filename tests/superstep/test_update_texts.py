"""Whole texts of refused updates from outside: their authors returned nothing, so none says so."""

from typing import Any

import pytest

from actorgraph.errors import ErrorCode, InvalidUpdateError, UnknownTargetError
from actorgraph.superstep.update import update_writes
from actorgraph.values.commands import Command, Send
from actorgraph.values.constants import START
from tests.superstep.script import chain
from tests.superstep.threads import State

LOOSE, STRICT = chain(State, "a"), chain(State, "a", strict=True)
UNKNOWN = "which is not a channel of this graph (did you mean 'text'?)"
NOT_NESTED = "but its graph is not the subgraph of another one"
KNOWN = "update known keys only; nothing was written"


@pytest.mark.parametrize(
    ("plan", "author", "values", "what", "do"),
    [
        (
            LOOSE,
            "a",
            3,
            "Expected dict, got 3 as an update",
            "pass a dict of state keys, an object of the state's schema, a Command, or None",
        ),
        (LOOSE, "a", {"txet": 1}, f"the update has 'txet', {UNKNOWN}", KNOWN),
        (STRICT, "a", {"txet": 1}, f"the update has 'txet', {UNKNOWN}", KNOWN),
        (LOOSE, START, {"txet": 1}, f"the input has 'txet', {UNKNOWN}", KNOWN),
        (
            STRICT,
            "a",
            Command(graph=Command.PARENT),
            f"the update has a Command with graph=Command.PARENT, {NOT_NESTED}",
            "leave graph= out; graph=Command.PARENT is for nodes of subgraphs",
        ),
    ],
)
def test_an_update_is_refused_as_such(plan: Any, author: str, values: Any, what: str, do: str):
    """
    Its text speaks of the update or the input, in a strict graph too, and its advice of the fault.
    """
    with pytest.raises(InvalidUpdateError) as refused:
        update_writes(plan, plan.callable.get(author, plan.start), values)

    assert (refused.value.what, refused.value.do) == (what, do)
    assert refused.value.code is (
        ErrorCode.INVALID_GRAPH_NODE_RETURN_VALUE if values == 3 else None
    )


def test_other_errors_of_an_update_stay_as_they_are():
    """
    A route to no node is refused as that of a node's return value.
    """
    with pytest.raises(UnknownTargetError, match=r"^node 'a' goes to 'b', which is not a node"):
        update_writes(LOOSE, LOOSE.nodes["a"], Send("b", 1))
