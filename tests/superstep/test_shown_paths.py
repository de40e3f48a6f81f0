"""Paths of tasks as snapshots show them: LangGraph's form."""

import pytest

from actorgraph.superstep.calls import shown_path
from actorgraph.values.constants import CALL, HANDLER_MARK, PULL, PUSH


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ((PULL, "a"), (PULL, "a")),
        ((PULL, PUSH), (PULL, PUSH)),
        ((PUSH, 3), (PUSH, 3, False)),
        ((PUSH, 3, "a"), (PUSH, 3, "a")),
        ((PULL, "a", HANDLER_MARK, False), (PULL, "a", HANDLER_MARK, False)),
        ((PUSH, PULL, "a", 0, "step", CALL), (PUSH, (PULL, "a"), 0, True)),
        ((PUSH, PUSH, 3, 1, "step", CALL), (PUSH, (PUSH, 3, False), 1, True)),
        (
            (PUSH, PUSH, PULL, "a", 0, "outer", CALL, 2, "inner", CALL),
            (PUSH, (PUSH, (PULL, "a"), 0, True), 2, True),
        ),
    ],
)
def test_only_sends_and_calls_are_shown_in_another_form(path, shown):
    """
    A Send's path ends with False, a call's with True and has its caller's path in its own.
    """
    assert shown_path(path) == shown
