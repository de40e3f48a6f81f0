"""Contexts of runs whose process was killed; those that no other process could read."""

import dataclasses
import subprocess
from typing import Annotated, Any, TypedDict

import anyio
import pytest

from actorgraph import (
    START,
    ActorSystem,
    InMemorySaver,
    SerializationError,
    SqliteSaver,
    StateGraph,
)
from actorgraph.channels import UntrackedValue
from tests.support.context_worker import KINDS, system_over
from tests.support.gates import PATIENCE_S
from tests.support.source_files import ROOT
from tests.support.warm_processes import popen


@dataclasses.dataclass
class Undeclared:
    n: int = 1


class State(TypedDict, total=False):
    n: int
    anything: Any


def graph():
    return StateGraph(State).add_node("n", lambda _: {"n": 1}).add_edge(START, "n").compile()


@pytest.mark.one_loop
async def test_a_context_of_the_declared_class_comes_back_after_a_kill(tmp_path):
    """
    A run goes on in another process with the context that it was started with: an object of each
    kind of class, with an object of a class that only its annotations name, read in a subgraph.
    """
    place = str(tmp_path / "runs.db")
    words = ["-m", "tests.support.context_worker", place]
    process = popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout.readline() == "started\n"
    process.kill()
    process.wait()
    process.stdout.close()

    left = {*KINDS, "functional"}
    async with system_over(place) as system:
        with anyio.fail_after(PATIENCE_S):
            while left:
                for run in await system.recover():
                    result = await run.result()
                    assert (result["limit"], result["inner"]) == (7, 3)
                    left.remove(run.thread_id)
                await anyio.sleep(0.05)


class TestRefused:
    """`start` refuses what no other process could go on with, and stores nothing."""

    @pytest.mark.parametrize(
        ("options", "culprit", "advice"),
        [
            ({"context": Undeclared()}, "context", "context_schema"),
            ({"context": {"a": [Undeclared()]}}, r"the context\['a'\]\[0\]", "context_schema"),
            ({"context": object()}, "the context", "context_schema"),
            ({"config": {"configurable": {"client": object()}}}, "'client'", "context="),
            ({"input": {"anything": Undeclared()}}, r"input\['anything'\]", "Codec"),
        ],
        ids=[
            "a context",
            "inside of one",
            "a context that can't be stored",
            "a config",
            "an input",
        ],
    )
    async def test_the_culprit_is_named_before_anything_is_stored(
        self, tmp_path, options, culprit, advice
    ):
        """
        The error says which argument it is and how to declare its class; no run is stored.
        """
        given = options.get("input", {"n": 0})
        rest = {key: value for key, value in options.items() if key != "input"}
        async with ActorSystem({"g": graph()}, saver=SqliteSaver(tmp_path / "runs.db")) as system:
            with pytest.raises(SerializationError, match=culprit) as refused:
                await system.start("g", "t", given, **rest)

            assert advice in refused.value.do
            assert await system.runs(thread_id="t") == []

    async def test_a_system_in_memory_takes_any_context(self):
        """
        No other process could go on with its runs anyway.
        """
        async with ActorSystem({"g": graph()}, saver=InMemorySaver()) as system:
            run = await system.start("g", "t", {"n": 0}, context=object())

            assert await run.result() == {"n": 1}

    async def test_a_value_that_is_never_stored_is_not_refused(self, tmp_path):
        """
        The input of an `UntrackedValue` key may be anything.
        """

        class Held(TypedDict, total=False):
            n: int
            client: Annotated[Any, UntrackedValue]

        builder = StateGraph(Held).add_node("n", lambda _: {"n": 1}).add_edge(START, "n")
        saver = SqliteSaver(tmp_path / "runs.db")
        async with ActorSystem({"g": builder.compile()}, saver=saver) as system:
            run = await system.start("g", "t", {"client": object()})

            assert (await run.result())["n"] == 1
