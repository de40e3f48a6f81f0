"""Public types with parameters can be made with them written out."""

from collections.abc import Callable
from typing import Any

import pytest

from actorgraph import CachePolicy, Command, GraphOutput, Runtime, entrypoint


@pytest.mark.parametrize(
    ("made", "plain"),
    [
        (Runtime[int](context=1), Runtime(context=1)),
        (Command[str](goto="a"), Command(goto="a")),
        (CachePolicy[Callable[..., Any]](ttl=3), CachePolicy(ttl=3)),
        (GraphOutput[int](1, ()), GraphOutput(1, ())),
        (entrypoint.final[int, int](value=1, save=2), entrypoint.final(value=1, save=2)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_parameters_change_nothing(made: Any, plain: Any):
    """
    `Runtime[Ctx](...)` and its like give what they give without parameters.
    """
    assert made == plain
