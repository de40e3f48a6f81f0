"""Tracebacks of failed nodes: few lines of the library, and the user's function at the end."""

import sys
import traceback
from pathlib import Path
from types import FunctionType
from typing import Annotated, TypedDict

import pytest

import actorgraph
from actorgraph import (
    END,
    START,
    InvalidUpdateError,
    RetryPolicy,
    StateGraph,
    entrypoint,
    task,
)
from actorgraph.errors.tracebacks import from_program

LIBRARY = {"ainvoke": 3, "astream": 5, "invoke": 6, "stream": 4}
"""Lines of the library from a call to its function; a nested call adds its own."""
OF_A_FUTURE = 2
OF_THE_LAYER = {"ainvoke": 1, "invoke": 1}
"""More lines where the layer for packages that import `langgraph` is loaded: tracers wrap these."""
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


def shown(error: Exception, name: str, way: str) -> tuple[bool, str]:
    """Whether few frames of the library are shown, and the function of the last frame."""
    frames = traceback.extract_tb(error.__traceback__)
    library = [frame for frame in frames if frame.filename.startswith(PACKAGE)]
    most = LIBRARY[way] + OF_A_FUTURE * (name == "called")
    if "actorgraph.compat.parts.wrapped_runs" in sys.modules:
        most += OF_THE_LAYER.get(way, 0)
    return len(library) <= most, frames[-1].name


@pytest.mark.parametrize("name", GRAPHS)
class TestFrames:
    async def test_an_awaited_call_shows_few(self, name):
        """
        Few lines of the library are between the call and the function that has failed.
        """
        with pytest.raises(ValueError, match="broken") as caught:
            await GRAPHS[name].ainvoke({"n": 1})

        assert shown(caught.value, name, "ainvoke") == (True, LAST.get(name, name))

    async def test_a_stream_shows_few(self, name):
        """
        An error that the reader of a stream gets is as short.
        """
        with pytest.raises(ValueError, match="broken") as caught:
            async for _ in GRAPHS[name].astream({"n": 1}):
                pass

        assert shown(caught.value, name, "astream") == (True, LAST.get(name, name))

    @pytest.mark.parametrize("way", ["invoke", "stream"])
    def test_a_blocking_call_shows_few(self, name, way):
        """
        So is that of a blocking call, whichever thread calls the function.
        """
        with pytest.raises(ValueError, match="broken") as caught:
            list(getattr(GRAPHS[name], way)({"n": 1}))

        assert shown(caught.value, name, way) == (True, LAST.get(name, name))


async def test_a_policy_sees_no_frames_of_the_thread():
    """
    The error that `retry_on` gets has lost the frames of the worker thread.
    """
    seen: list[list[str]] = []

    def look(error):
        seen.append([frame.name for frame in traceback.extract_tb(error.__traceback__)])
        return False

    builder = StateGraph(State).add_node("a", plain, retry_policy=RetryPolicy(retry_on=look))
    with pytest.raises(ValueError, match="broken"):
        await builder.add_edge(START, "a").compile().ainvoke({"n": 1})

    (names,) = seen
    assert names[-2:] == ["in_thread", "plain"]


@pytest.mark.parametrize(
    ("modules", "left"),
    [
        (["actorgraph.a", "program"], ["program"]),
        (["actorgraph.a", "anyio", "actorgraph.b", "program"], ["program"]),
        (["actorgraph.a", "program", "actorgraph.b"], ["program", "actorgraph.b"]),
        (["actorgraph.a", "", "json"], ["", "json"]),
        (["actorgraph.a", "asyncio.mine", "json"], ["asyncio.mine", "json"]),
        (["program", "actorgraph.a"], ["program", "actorgraph.a"]),
        (["actorgraph.a", "actorgraph.b"], ["actorgraph.a", "actorgraph.b"]),
        (["actorgraph.a", "asyncio"], ["actorgraph.a", "asyncio"]),
    ],
)
def test_frames_in_front_of_the_program_are_cut(modules, left):
    """
    Frames of the library go if one of another package follows, and no frame of others goes.
    """

    def step(further):
        further[0](further[1:])

    def fail(_):
        raise KeyError

    codes = [step.__code__] * (len(modules) - 1) + [fail.__code__]
    spaces = [{"__name__": module} if module else {} for module in modules]
    calls = [FunctionType(code, space) for code, space in zip(codes, spaces, strict=True)]
    with pytest.raises(KeyError) as caught:
        calls[0](calls[1:])
    error = caught.value
    error.__traceback__ = error.__traceback__.tb_next

    frames = [frame for frame, _ in traceback.walk_tb(from_program(error).__traceback__)]
    assert [str(frame.f_globals.get("__name__", "")) for frame in frames] == left


def test_an_error_of_the_library_keeps_its_traceback():
    """
    Without a function of the program among the frames, none is cut.
    """
    with pytest.raises(InvalidUpdateError) as caught:
        graph(lambda _: 3).invoke({"n": 1})
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]

    assert names[-1] == "updates_in"
    assert "node_writes" in names
