"""Torn databases: a file copied at any instant, or whose log ends anywhere, is a prefix, whole."""

import os
import random
import signal
import time
from collections import Counter

import anyio
import pytest

from actorgraph import SqliteSaver
from tests.faults.crashes import report, row
from tests.faults.kills import RUN_SECONDS_MAX, judge, lines_of, start
from tests.faults.torn import copy, cut, cuts, sequences
from tests.support.graphs import ab, at
from tests.support.stopped_processes import stop

COPIES = int(os.environ.get("ACTORGRAPH_COPIES", "200"))
THREADS = 6


@pytest.mark.promise("T5", "B1", "B2")
async def test_a_log_that_ends_anywhere_leaves_a_prefix(tmp_path, request, anyio_backend):
    """
    With its log cut at each frame's end, and a byte before and after, the database is whole, has
    the first checkpoints of each thread and nothing else, and goes on.
    """
    path = tmp_path / "store.db"
    async with SqliteSaver(path) as saver:
        for n in range(4 * THREADS):
            await ab(saver).ainvoke({"foo": str(n)}, at(f"t{n % THREADS}"))
        whole, sizes = sequences(path), cuts(path)
        copy(path, tmp_path / "kept")
    kept = tmp_path / "kept" / path.name
    lengths: list[int] = []
    for size in sizes:
        torn = cut(kept, tmp_path / f"cut{size}", size)
        found = sequences(torn)
        assert all(rows == whole[thread][: len(rows)] for thread, rows in found.items()), size
        lengths.append(sum(map(len, found.values())))
    async with SqliteSaver(cut(kept, tmp_path / "again", sizes[len(sizes) // 2])) as saver:
        assert (await ab(saver).ainvoke({"foo": "more"}, at()))["foo"] == "b"

    assert lengths == sorted(lengths)
    assert (lengths[0], lengths[-1]) == (0, sum(map(len, whole.values())))
    report(request.config, "torn files", row("log cut", anyio_backend, len(sizes), 0, 0))


@pytest.mark.promise("T5", "B1", "B2")
async def test_a_copy_of_any_instant_goes_on(tmp_path, request, anyio_backend):
    """
    The files of a stopped process are whole at any instant; nothing that was acknowledged is
    lost, and each thread ends right.
    """
    chance = random.Random(anyio_backend)
    seen: Counter[str] = Counter()
    turn = 0
    while seen["copies"] < COPIES:
        folder, turn = tmp_path / f"run{turn}", turn + 1
        with start(folder, anyio_backend, "sync", "") as process:
            deadline = time.monotonic() + RUN_SECONDS_MAX
            while process.poll() is None and seen["copies"] < COPIES:
                assert time.monotonic() < deadline
                await anyio.sleep(chance.uniform(0, 0.02))
                if lines_of(folder) == 0 or process.poll() is not None:
                    continue
                stop(process)
                place = tmp_path / f"copy{seen['copies']}"
                there = copy(folder / "store.db", place)
                (place / "oracle").write_bytes((folder / "oracle").read_bytes())
                process.send_signal(signal.SIGCONT)
                sequences(copy(there, place / "look"))
                seen["copies"] += 1
                seen += await judge(place, "sync", "")
            process.kill()

    figures = [seen["copies"], seen["lost"], seen["wrong"]]
    report(request.config, "torn files", row("copied", anyio_backend, *figures))
    assert (seen["lost"], seen["run again"], seen["wrong"]) == (0, 0, 0)
