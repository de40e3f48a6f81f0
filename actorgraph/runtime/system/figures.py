"""Figures of a system's runs by graph and node: how many, how they ended, how long they took.

Counted in memory, as runs and tasks end. Names come from the system's graphs and their nodes, so
their number is bounded; subgraphs count as the node that calls them.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from actorgraph.runtime.run.node_actor import RunEnvironment
from actorgraph.runtime.saver.statistics import Distribution, Histogram
from actorgraph.superstep.run_state import RunState
from actorgraph.values.run import Event, TaskFailed, TaskSucceeded

RUN_SECONDS = (0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0)
"""Bounds of the bins of runs' durations."""


class NodeFigures(msgspec.Struct, frozen=True):
    """Figures of one node.

    Attributes:
        done: tasks that have finished.
        errors: tasks that have failed, after all attempts.
        seconds: of the last attempts of all of them, summed.
    """

    done: int = 0
    errors: int = 0
    seconds: float = 0.0


class GraphFigures(msgspec.Struct, frozen=True):
    """Figures of the runs of one graph of a system.

    Attributes:
        runs: status -> runs that have ended with it.
        seconds: distribution of their durations, from when a run got its thread.
        nodes: name -> figures.
    """

    runs: dict[str, int]
    seconds: Distribution
    nodes: dict[str, NodeFigures]


class RunFigures:
    """Counts the runs of one system."""

    def __init__(self) -> None:
        self._runs: dict[str, Counter[str]] = {}
        self._seconds: dict[str, Histogram] = {}
        self._nodes: dict[str, dict[str, list[float]]] = {}

    def ended(self, graph: str, status: str, seconds: float | None) -> None:
        """Count a run that has ended.

        Args:
            seconds: since it got its thread; None if it never did.
        """
        self._runs.setdefault(graph, Counter())[status] += 1
        if seconds is not None:
            self._seconds.setdefault(graph, Histogram(RUN_SECONDS)).add(max(0.0, seconds))

    def watch(self, graph: str, state: RunState, environment: RunEnvironment) -> None:
        """Count the tasks of a run; call it before the run begins."""
        nodes, report = self._nodes.setdefault(graph, {}), environment.report

        def reports(event: Event) -> None:
            match event:
                case TaskSucceeded(result):
                    ended, failed, times = result.task, 0, result.times
                case TaskFailed(task, _, times):
                    ended, failed = task, 1
                case _:
                    report(event)
                    return
            task = state.tasks.get(ended)
            if task is not None:
                counts = nodes.setdefault(task.name, [0, 0, 0.0])
                counts[failed] += 1
                counts[2] += (times.end - times.start) / 1e6 if times is not None else 0.0
            report(event)

        environment.report = reports

    def now(self) -> dict[str, GraphFigures]:
        """Return the figures by graph."""
        return {
            graph: GraphFigures(
                dict(self._runs.get(graph, ())),
                self._seconds.get(graph, Histogram(RUN_SECONDS)).distribution(),
                _nodes(self._nodes.get(graph, {})),
            )
            for graph in sorted({*self._runs, *self._nodes})
        }


def _nodes(counted: Mapping[str, list[Any]]) -> dict[str, NodeFigures]:
    return {name: NodeFigures(*counts) for name, counts in sorted(counted.items())}
