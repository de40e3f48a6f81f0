"""Tracebacks of failed nodes: few lines of the library, and the user's function at the end."""

import traceback
from pathlib import Path
from typing import Annotated, TypedDict

import pytest

import actorgraph
from actorgraph import END, START, InvalidUpdateError, StateGraph, entrypoint, task

LIBRARY_MAX = 8
PACKAGE = str(Path(actorgraph.__file__).parent)


class State(TypedDict, total=False):
    n: int


def plain(_):
    msg = "broken"
    raise ValueError(msg)


async def later(_):
    msg = "broken"
    raise ValueError(msg)


def folded(_, given):
    if given == 1:
        return given
    msg = "broken"
    raise ValueError(msg)


@task
def called(_):
    msg = "broken"
    raise ValueError(msg)


class Folded(TypedDict):
    n: Annotated[int, folded]


def graph(node, state=State):
    return StateGraph(state).add_node("a", node).add_edge(START, "a").add_edge("a", END).compile()


@entrypoint()
def caller(given):
    return called(given).result()


GRAPHS = {
    "plain": graph(plain),
    "later": graph(later),
    "folded": graph(lambda _: {"n": 2}, Folded),
    "nested": graph(graph(graph(plain))),
    "called": caller,
}
LAST = {"nested": "plain"}


def shown(error: Exception) -> tuple[bool, str]:
    """Whether few frames of the library are shown, and the function of the last frame."""
    frames = traceback.extract_tb(error.__traceback__)
    library = [frame for frame in frames if frame.filename.startswith(PACKAGE)]
    return len(library) <= LIBRARY_MAX, frames[-1].name


@pytest.mark.parametrize("name", GRAPHS)
class TestFrames:
    async def test_an_awaited_call_shows_few(self, name):
        """
        At most eight lines of the library are between the call and the function that has failed.
        """
        with pytest.raises(ValueError, match="broken") as caught:
            await GRAPHS[name].ainvoke({"n": 1})

        assert shown(caught.value) == (True, LAST.get(name, name))

    async def test_a_stream_shows_few(self, name):
        """
        An error that the reader of a stream gets is as short.
        """
        with pytest.raises(ValueError, match="broken") as caught:
            async for _ in GRAPHS[name].astream({"n": 1}):
                pass

        assert shown(caught.value) == (True, LAST.get(name, name))

    @pytest.mark.parametrize("way", ["invoke", "stream"])
    def test_a_blocking_call_shows_few(self, name, way):
        """
        So is that of a blocking call, whichever thread calls the function.
        """
        with pytest.raises(ValueError, match="broken") as caught:
            list(getattr(GRAPHS[name], way)({"n": 1}))

        assert shown(caught.value) == (True, LAST.get(name, name))


def test_an_error_of_the_library_keeps_its_traceback():
    """
    Without a function of the program among the frames, none is cut.
    """
    with pytest.raises(InvalidUpdateError) as caught:
        graph(lambda _: 3).invoke({"n": 1})

    assert shown(caught.value)[0] is False
