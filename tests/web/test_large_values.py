"""Large bodies and answers are converted beside the event loop, small ones on it."""

import threading
from typing import Any

import msgspec
import pytest

from actorgraph.loops import beside
from actorgraph.messages import HumanMessage
from actorgraph.values.largeness import LARGE, TEXT, is_large
from actorgraph.web.http import response_types
from actorgraph.web.http.jsonable import dumps
from actorgraph.web.http.large_values import encoded


class Shown:
    """An object that notes in which thread it is shown."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def __repr__(self) -> str:
        self.threads.append(threading.get_ident())
        return "shown"


@pytest.mark.parametrize("count", [1, LARGE + 1])
async def test_a_large_answer_is_encoded_in_another_thread(count):
    """
    The loop's thread converts small answers only; the JSON is the same.
    """
    one = Shown()
    value = {"one": one, "rest": list(range(count))}

    assert await encoded(value) == dumps(value)
    assert (one.threads[0] == threading.get_ident()) is (count == 1)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: {"a": [inner]},
        lambda inner: (inner, {"x"}),
        HumanMessage,
        lambda inner: [response_types.Pruned(inner)],
    ],
    ids=["dict", "tuple", "message", "struct"],
)
def test_values_inside_others_count(wrap):
    """
    A value is large by all that is in it, in whatever container.
    """
    assert is_large(wrap([{"type": "text", "text": "x"}] * LARGE))
    assert not is_large(wrap([{"type": "text", "text": "x"}]))


def test_a_long_text_counts_as_many_values():
    """
    Two texts of half the length each are large together, a shorter one isn't.
    """
    half = "x" * (TEXT * LARGE // 2)

    assert is_large({"a": half, "b": [half + "x" * TEXT]})
    assert not is_large({"a": half})


async def test_an_error_beside_the_loop_is_raised():
    """
    The caller gets the error of the work.
    """

    def work() -> Any:
        return msgspec.json.decode(b"[")

    with pytest.raises(msgspec.DecodeError):
        await beside(work)
