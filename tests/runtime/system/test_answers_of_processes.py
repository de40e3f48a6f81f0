"""Two processes answer one question at once, each by a system over the same database."""

import subprocess
import threading
from contextlib import ExitStack
from typing import Any

import anyio
import pytest

from actorgraph.values.systems import OPEN_STATUSES
from tests.support.answer_worker import answering
from tests.support.graphs import at
from tests.support.source_files import ROOT
from tests.support.warm_processes import popen

PATIENCE_S = 60.0


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "answers.db")
    server = request.getfixturevalue("postgres")
    return f"{server.url}#{request.getfixturevalue('schema')}"


def answerer(stack: ExitStack, words: list[str]) -> Any:
    """A process that has its answer checked, and waits to have it accepted."""
    process = popen(
        ["-m", "tests.support.answer_worker", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    stack.callback(process.stdout.close)
    stack.callback(process.stdin.close)
    stack.callback(process.wait)
    stack.callback(process.kill)
    limit = threading.Timer(PATIENCE_S, process.kill)
    limit.start()
    stack.callback(limit.cancel)
    return process


def said_by_two(loop: str, place: str, question: str, if_busy: str, form: str) -> list[list[str]]:
    """The lines of two processes that both had their answers checked before one was accepted."""
    with ExitStack() as stack:
        words = [question, if_busy, form]
        both = [answerer(stack, [loop, place, name, *words]) for name in ("ann", "bob")]
        assert [process.stdout.readline() for process in both] == ["checked\n"] * 2
        for process in both:
            process.stdin.write("go\n")
            process.stdin.flush()
        return [line.split() for process in both for line in process.stdout.read().splitlines()]


@pytest.mark.every_saver
@pytest.mark.parametrize("form", ["answers", "command"])
@pytest.mark.parametrize("if_busy", ["reject", "enqueue"])
async def test_one_of_two_processes_answers(anyio_backend_name, place, if_busy, form):
    """
    Of two answers that were both checked while the question waited one wins; the other one is
    refused, its node gets one answer, and no run is left open.
    """
    async with answering(place) as system:
        asked = await (await system.start("g", "t", {"log": []})).result()
        question = asked["__interrupt__"][0].id

    said = await anyio.to_thread.run_sync(
        said_by_two, anyio_backend_name, place, question, if_busy, form
    )

    async with answering(place) as system:
        state = await system.graphs["g"].aget_state(at())
        assert not await system.runs(thread_id="t", statuses=OPEN_STATUSES)
    (winner,) = (words[1] for words in said if words[0] == "won")
    (why,) = (words[1] for words in said if words[0] == "lost")
    assert [words[1] for words in said if words[0] == "ran"] == [winner]
    assert state.values["log"] == [winner]
    assert why == "answered" or (why, if_busy) == ("busy", "reject")
