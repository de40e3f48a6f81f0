"""Power cuts: whatever a file system has left, what was acknowledged is there, and runs go on."""

import os
import random
import shutil
import struct
from collections import Counter
from pathlib import Path
from zlib import crc32

import pytest

from actorgraph import JsonlSaver, SqliteSaver
from actorgraph.savers.jsonl.files import MARKS_NAME
from tests.faults.crashes import report, row
from tests.faults.power_program import Program, failures, judged, place
from tests.support.power_cuts import Op, Recorder, State, recording, states, without_syncs
from tests.support.sqlite_files import layer, recording_sqlite

SEED = int(os.environ.get("ACTORGRAPH_SEED", "0")) or random.SystemRandom().randrange(1 << 30)
STATES = int(os.environ.get("ACTORGRAPH_POWER_CUTS", "10400"))
GO_ON_EVERY = 4
PARTS = 4
"""Programs per saver, whose states are looked at side by side; a few of the first are the same."""
ROUNDS = 6
"""In so many SQLite carries its log over to the file several times."""
SOME_UNSYNCED = 60
_SLOT, _KEYED = struct.Struct(">QQQII"), struct.Struct(">QQQ")

pytestmark = [
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
    pytest.mark.filterwarnings("ignore"),
]


async def recorded(kind: str, folder: Path, rounds: int) -> Recorder:
    """The operations of the program on a saver's files, in a folder that is there."""
    with recording(folder) as recorder:
        if kind == "jsonl":
            async with JsonlSaver(folder) as saver:
                await Program(saver, recorder, rounds).run()
        else:
            with recording_sqlite(recorder):
                async with SqliteSaver(folder / "runs.db") as saver:
                    await Program(saver, recorder, rounds).run()
    return recorder


def rebuilt(state: State, folder: Path, recorder: Recorder) -> None:
    """Write the files of a state; marks name the inodes that the files have now."""
    made = state.write(folder)
    marks = folder / MARKS_NAME
    if not marks.exists():
        return
    inodes: dict[int, int] = {}
    for number, inode in made.items():
        inodes[recorder.inodes[number]] = inode
    data = bytearray(marks.read_bytes())
    for start in range(0, len(data) - _SLOT.size + 1, _SLOT.size):
        key, inode, size, crc, _ = _SLOT.unpack_from(data, start)
        body = _KEYED.pack(key, inode, size)
        if crc == crc32(body):
            body = _KEYED.pack(key, inodes.get(inode, 0), size)
            data[start : start + _SLOT.size] = body + struct.pack(">II", crc32(body), 0)
    marks.write_bytes(data)


async def seen_of(
    kind: str, recorder: Recorder, ops: list[Op], count: int, folder: Path, *, seed: int = SEED
) -> Counter[str]:
    """Open so many states."""
    seen = Counter[str]()
    for number, state in enumerate(states(ops, count, random.Random(seed))):
        there = place(folder, number)
        rebuilt(state, there, recorder)
        opened = JsonlSaver(there) if kind == "jsonl" else SqliteSaver(there / "runs.db")
        found = await judged(opened, state.notes, goes_on=number % GO_ON_EVERY == 0)
        shutil.rmtree(there)
        seen["states"] += 1
        if failures(found):
            seen += found
            seen[f"{state.kind} at {state.at}: {failures(found)}"] += 1
    return seen


async def cut_everywhere(
    kind: str, count: int, rounds: int, folder: Path, *, seed: int = SEED
) -> tuple[Counter[str], Counter[str]]:
    """Open so many states of a program's files; and some of those without its syncs."""
    if kind == "sqlite" and layer() is None:
        pytest.skip("this Python's SQLite shows no functions of its files")
    (folder / "made").mkdir()
    recorder = await recorded(kind, folder / "made", rounds)
    seen = await seen_of(kind, recorder, recorder.ops, count, folder, seed=seed)
    unsynced = without_syncs(recorder.ops)
    return seen, await seen_of(kind, recorder, unsynced, SOME_UNSYNCED, folder / "unsynced")


@pytest.mark.promise("T5", "B1", "B2")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
async def test_a_power_cut_loses_nothing(kind, part, tmp_path, request):
    """
    Each state that a power cut may leave opens: each acknowledged step and accepted run is there,
    nothing is there twice, and all threads go on. Without the syncs that isn't so.
    """
    count = STATES // PARTS
    seen, without = await cut_everywhere(kind, count, ROUNDS, tmp_path, seed=SEED + part)

    figures = [seen["states"], seen["lost"], seen["twice"], seen["wrong"], seen["refused"]]
    report(request.config, "power cuts", row(kind, *figures, without["lost"]))
    assert seen == Counter(states=count), SEED + part
    assert without["lost"] > 0
