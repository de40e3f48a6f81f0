"""Compare the speed of an agent over both libraries: separate processes, alternating."""

import json
import tempfile
from pathlib import Path

from tests.ecosystem.processes import LAYER, LIBRARIES, NATIVE, command, output, start

CONVERSATIONS = 3
ROUNDS = 3
RATIO_REQUIRED = 2.0
WAYS = ("async", "blocking")
SAVERS = ("memory", "SQLite")


def compare_speeds(python: str, rounds: int = ROUNDS) -> bool:
    """Time a conversation of 20 turns in four ways; returns whether each is twice as fast.

    The shortest time of each counts: other processes of the machine only add to it.
    """
    fast = True
    for way in WAYS:
        for saver in SAVERS:
            best = dict.fromkeys(LIBRARIES, (1e9, 1e9))
            for _ in range(rounds):
                for library in LIBRARIES:
                    times = _times(python, library, way, saver)
                    best[library] = _least([best[library], *times])
            (clock, processor), (ours, own) = best[NATIVE], best[LAYER]
            ratio = clock / ours
            fast = fast and ratio >= RATIO_REQUIRED
            print(
                f"create_agent, two tools, 20 turns, {way}, {saver}: {NATIVE} {clock * 1000:.0f} "
                f"ms, {LAYER} {ours * 1000:.0f} ms: {ratio:.1f} times as fast "
                f"(processor time: {processor / own:.1f}); required {RATIO_REQUIRED:.0f}",
                flush=True,
            )
    return fast


def _least(times: list[tuple[float, float]]) -> tuple[float, float]:
    return min(clock for clock, _ in times), min(processor for _, processor in times)


def _times(python: str, library: str, way: str, saver: str) -> list[tuple[float, float]]:
    with tempfile.TemporaryDirectory(prefix="ecosystem-") as folder:
        place = "memory" if saver == "memory" else str(Path(folder) / "speed.db")
        words = (place, way, str(CONVERSATIONS))
        text = output(start(command(python, library, "tests.ecosystem.speed", *words)))
        return [tuple(pair) for pair in json.loads(text or "[[1e9, 1e9]]")]
