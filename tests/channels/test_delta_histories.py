"""A DeltaChannel has the value of a plain reducer at every checkpoint of any history."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorgraph import InMemorySaver, SqliteSaver
from tests.support.delta_histories import OPS, Op, Thread


async def differences(saver: Any, ops: list[Op]) -> list[Any]:
    async with saver:
        thread = Thread(saver)
        for op in ops:
            await thread.play(op)
        return await thread.differences()


@pytest.mark.filterwarnings("ignore::actorgraph.errors.NothingToRunWarning")
@pytest.mark.langgraph("F-B13", "L87", "L91", "L92", "L94")
@pytest.mark.parametrize("examples", [20, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_delta_and_plain_agree_at_every_checkpoint(kind, examples):
    """
    After any branches, failures, questions, Overwrites and updates of a thread, each of its
    checkpoints has the same value under a DeltaChannel as under a reducer.
    """

    @settings(max_examples=examples)
    @given(ops=st.lists(OPS, min_size=1, max_size=8))
    def agree(ops):
        with TemporaryDirectory() as folder:
            saver = InMemorySaver() if kind == "memory" else SqliteSaver(Path(folder) / "runs.db")

            assert anyio.run(differences, saver, ops) == []

    agree()
