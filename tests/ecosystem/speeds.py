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
ALONE = "LangChain alone"


def compare_speeds(python: str, rounds: int = ROUNDS) -> bool:
    """Time a conversation of 20 turns in four ways; returns whether each is twice as fast.

    The shortest time of each counts: other processes of the machine only add to it. The same
    calls of models and tools without a graph are timed too: LangChain's part, which both libraries
    have, limits the ratio that any of them can reach.
    """
    fast = True
    for way in WAYS:
        for saver in SAVERS:
            best = dict.fromkeys((*LIBRARIES, ALONE), (1e9, 1e9))
            for _ in range(rounds):
                for library in best:
                    times = _times(python, library, way, saver)
                    best[library] = _least([best[library], *times])
            ratio = best[NATIVE][0] / best[LAYER][0]
            fast = fast and ratio >= RATIO_REQUIRED
            print(f"create_agent, two tools, 20 turns, {way}, {saver}: {_line(best)}", flush=True)
    return fast


def _line(best: dict[str, tuple[float, float]]) -> str:
    (clock, processor), (ours, own), (least, _) = (best[k] for k in (NATIVE, LAYER, ALONE))
    return (
        f"{NATIVE} {clock * 1000:.0f} ms, {LAYER} {ours * 1000:.0f} ms: {clock / ours:.1f} times "
        f"as fast (processor time: {processor / own:.1f}); required {RATIO_REQUIRED:.0f}; "
        f"{ALONE} {least * 1000:.0f} ms: at most {clock / least:.1f} times as fast; "
        f"the graph's own part {(clock - least) / (ours - least):.1f} times as fast"
    )


def _least(times: list[tuple[float, float]]) -> tuple[float, float]:
    return min(clock for clock, _ in times), min(processor for _, processor in times)


def _times(python: str, library: str, way: str, saver: str) -> list[tuple[float, float]]:
    with tempfile.TemporaryDirectory(prefix="ecosystem-") as folder:
        place = "memory" if saver == "memory" else str(Path(folder) / "speed.db")
        if library == ALONE:
            place, library = "alone", NATIVE
        words = (place, way, str(CONVERSATIONS))
        text = output(start(command(python, library, "tests.ecosystem.speed", *words)))
        return [tuple(pair) for pair in json.loads(text or "[[1e9, 1e9]]")]
