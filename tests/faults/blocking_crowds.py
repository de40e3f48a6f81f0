"""Many threads of a program that make blocking calls at once, with one saver."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from actorgraph import ConflictError, SqliteSaver
from tests.faults.plain_scenarios import PLAIN, PlainOracle, fan_out

OWN: ContextVar[list[tuple[str, str]]] = ContextVar("own")
"""The events in the nodes of one call."""

CALLS = 2
"""For each thread of checkpoints, at once or one after the other."""


class OwnOracle(PlainOracle):
    """An oracle that distinguishes the calls."""

    def write(self, what: str, label: str) -> None:
        OWN.get().append((what, label))


def overload(mode: str, path: Path, callers: int, count: int) -> Counter[str]:
    """Let so many threads make blocking calls on so many threads of checkpoints, each twice.

    Returns: calls won and refused, node runs of both, threads that were read back right.
    """
    seen: Counter[str] = Counter()
    names = [f"thread-{number}" for number in range(count)] * CALLS
    # The second call on a thread comes right behind the first, so that they meet.
    calls = [(name, f"{call};") for call, name in enumerate(sorted(names))]
    winners: dict[str, set[str]] = {name: set() for name in names}
    with SqliteSaver(path) as saver, ThreadPoolExecutor(callers) as pool:
        graph: Any = fan_out(OwnOracle()).compile(checkpointer=saver)

        def run(call: tuple[str, str]) -> Counter[str]:
            name, label = call
            lines: list[tuple[str, str]] = []
            OWN.set(lines)
            config = {"configurable": {"thread_id": name}}
            try:
                graph.invoke({"log": [label]}, config, durability=mode)
            except ConflictError:
                return Counter({"refused": 1, "node runs of refused": len(lines)})
            except Exception as error:  # noqa: BLE001 - counted; none may come
                return Counter({"errors": 1, f"errors ({error!r})": 1})
            winners[name].add(label)
            done = sum(what == "done" for what, _ in lines)
            return Counter({"won": 1, "node runs of winners": done})

        for found in pool.map(run, calls):
            seen += found
    with SqliteSaver(path) as saver:
        graph = fan_out(PlainOracle()).compile(checkpointer=saver)
        for name, labels in winners.items():
            state = graph.get_state({"configurable": {"thread_id": name}})
            log = state.values.get("log", [])
            nodes = Counter(log) - Counter(labels)
            right = labels == {label for label in log if label[0].isdigit()} and not state.next
            seen["right"] += right and nodes == Counter(PLAIN["fan-out"].log * len(labels))
    return seen
