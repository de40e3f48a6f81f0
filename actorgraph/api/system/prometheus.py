"""Metrics of an ActorSystem for Prometheus, in a separate registry. Extra: `metrics`.

```python
registry = metrics_registry(system)
text = prometheus_client.generate_latest(registry)
```

`/metrics` of `actorgraph.web` serves the same.
"""

from collections.abc import Container, Iterator, Mapping
from itertools import accumulate
from typing import Any

from actorgraph.api.system.system import ActorSystem
from actorgraph.api.system.thread_figures import ThreadFigures
from actorgraph.errors import MissingExtraError
from actorgraph.runtime.saver.statistics import Distribution, PersistenceStatistics
from actorgraph.runtime.system.dispatch_actor import DispatchStatistics
from actorgraph.runtime.system.figures import GraphFigures
from actorgraph.runtime.system.statistics import SystemStatistics

_Figure = tuple[str, str, float]


class _Figures:
    """Reads the system's statistics at each scrape; between scrapes it costs nothing."""

    def __init__(self, system: ActorSystem, core: Any, graphs: Container[str] | None) -> None:
        self._system = system
        self._core = core
        self._graphs = graphs

    def collect(self) -> Iterator[Any]:
        """Yield the metrics; called by Prometheus's client."""
        core, now = self._core, self._system.statistics()
        saver = now.persistence
        left = core.CounterMetricFamily(
            "actorgraph_runs", "Ended runs, by status.", labels=["status"]
        )
        for status, count in sorted(now.left.items()):
            left.add_metric([status], count)
        yield left
        shown = now.graphs if self._graphs is None else only_of(now.graphs, self._graphs)
        yield from _of_graphs(core, shown)
        for name, text, value in (
            *_counters(now),
            *(_counters_of(saver) if saver else ()),
            *(_dispatch_counters(now.dispatch) if now.dispatch else ()),
        ):
            yield core.CounterMetricFamily(f"actorgraph_{name}", text, value=value)
        for name, text, value in (
            *_gauges(now),
            *_gauges_of_threads(self._system.thread_counter.known()),
            *(_gauges_of(saver) if saver else ()),
            *(_dispatch_gauges(now.dispatch) if now.dispatch else ()),
        ):
            yield core.GaugeMetricFamily(f"actorgraph_{name}", text, value=value)
        if saver is not None:
            for name, text, found in _histograms_of(saver):
                yield core.HistogramMetricFamily(
                    f"actorgraph_{name}", text, buckets=_buckets(found), sum_value=found.total
                )


def only_of(figures: Mapping[str, GraphFigures], graphs: Container[str]) -> dict[str, GraphFigures]:
    """The figures of some graphs: those that a client may know of."""
    return {name: found for name, found in figures.items() if name in graphs}


def _of_graphs(core: Any, graphs: Mapping[str, GraphFigures]) -> Iterator[Any]:
    """Yield the metrics with a label for the graph, and the node; their names are the program's."""
    by_graph, by_node = ["graph"], ["graph", "node"]
    text = "Ended runs, by graph and status."
    runs = core.CounterMetricFamily("actorgraph_graph_runs", text, labels=["graph", "status"])
    text = "Duration of a run, from when it got its thread."
    took = core.HistogramMetricFamily("actorgraph_run_duration_seconds", text, labels=by_graph)
    text = "Tasks that finished, by node."
    done = core.CounterMetricFamily("actorgraph_node_tasks", text, labels=by_node)
    text = "Tasks that failed after all attempts, by node."
    errors = core.CounterMetricFamily("actorgraph_node_errors", text, labels=by_node)
    text = "Time in the last attempts of these tasks, by node."
    seconds = core.CounterMetricFamily("actorgraph_node_seconds", text, labels=by_node)
    for graph, found in graphs.items():
        for status, count in sorted(found.runs.items()):
            runs.add_metric([graph, status], count)
        took.add_metric([graph], _buckets(found.seconds), found.seconds.total)
        for node, figures in found.nodes.items():
            done.add_metric([graph, node], figures.done)
            errors.add_metric([graph, node], figures.errors)
            seconds.add_metric([graph, node], figures.seconds)
    yield from (runs, took, done, errors, seconds)


def _gauges_of_threads(found: ThreadFigures | None) -> Iterator[_Figure]:
    if found is None:
        return
    yield "runs_parked", "Runs that were given up, because processes died of them.", found.parked
    if found.waiting is None or found.cut_off is None or found.unfinished is None:
        return  # a saver without an index of threads
    yield "threads_waiting", "Threads that wait for a person.", found.waiting
    text = "Time for which the oldest of them has made no checkpoint."
    yield "threads_waiting_oldest_seconds", text, found.oldest_s
    yield "threads_sleeping", "Threads that sleep until their time.", found.sleeping or 0
    yield "threads_cut_off", "Threads whose process has died.", found.cut_off
    yield "threads_unfinished", "Threads with work left that no run does.", found.unfinished


def _counters(now: SystemStatistics) -> Iterator[_Figure]:
    yield "runs_started", "Runs accepted.", now.started
    yield "runs_refused", "Runs refused because of a limit.", now.refused
    yield "supersteps", "Supersteps executed.", now.supersteps
    yield "runs_tried_alone", "Runs tried alone, as processes had died of them.", now.tried_alone
    yield "sessions_renewed", "Sessions of the database replaced.", now.sessions_renewed
    text = "Questions that answered themselves, and sleeps that ended."
    yield "questions_due", text, now.questions_due
    yield "questions_reminded", "Reminders of questions.", now.reminders
    text = "Reminders whose function failed each time, or took too long."
    yield "escalations_failed", text, now.escalations_failed
    yield "loop_held", "Times that the event loop was blocked for too long.", now.loop_held


def _gauges(now: SystemStatistics) -> Iterator[_Figure]:
    yield "runs_active", "Active runs.", now.active
    yield "runs_queued", "Runs that wait for a slot or for their thread.", now.queued
    yield "runs_held", "Runs that wait because another system has their thread.", now.held
    yield "runs_misfit", "Orphaned runs that this system can't run.", now.misfits
    yield "runs_suspect", "Runs that wait to be tried alone, or are being tried.", now.suspects
    yield "threads_active", "Threads with a run.", now.threads
    yield "mailbox_depth", "Runs in the longest queue of a thread.", now.mailbox_max
    yield "saturated", "1 if the next run may be refused.", int(now.saturated)
    yield "draining", "1 if the system is draining.", int(now.draining is not None)
    yield "unsaved_bytes", "Bytes that wait to be durable.", now.unsaved_bytes
    if now.worker_threads is not None:
        yield "worker_threads", "Worker threads in use by sync nodes.", now.worker_threads


def _dispatch_counters(found: DispatchStatistics) -> Iterator[_Figure]:
    yield "dispatch_claimed", "Runs of other systems that this one has claimed.", found.claimed
    again = "Hints sent again for runs without a living system."
    yield "dispatch_announced_again", again, found.announced_again
    unreadable = "Messages of the dispatcher's engine that were dropped as unreadable."
    yield "dispatch_unreadable", unreadable, found.unreadable


def _dispatch_gauges(found: DispatchStatistics) -> Iterator[_Figure]:
    yield (
        "dispatch_waiting",
        "Due runs that wait for a worker, at most one more than max_queued.",
        found.waiting,
    )
    yield "dispatch_oldest_seconds", "Time for which the oldest of them has waited.", found.oldest_s
    away = "Time for which the dispatcher's engine has not answered; 0 if it does."
    yield "dispatch_away_seconds", away, found.away_s


def _counters_of(saver: PersistenceStatistics) -> Iterator[_Figure]:
    yield "commits", "Batches committed.", saver.commits
    yield "commit_requests", "Requests committed.", saver.messages
    yield "commit_requests_refused", "Requests that were refused.", saver.refused


def _gauges_of(saver: PersistenceStatistics) -> Iterator[_Figure]:
    yield "unsaved_requests", "Requests that wait to be committed.", saver.waiting
    yield "unsaved_age_seconds", "Age of the oldest request in flight.", saver.age_s


def _histograms_of(saver: PersistenceStatistics) -> Iterator[tuple[str, str, Distribution]]:
    yield "commit_duration_seconds", "Duration of a batch's commit.", saver.commits_s
    yield "commit_batch_size", "Requests in a batch.", saver.sizes
    lag = "Time from a batch's oldest request until the batch was durable."
    yield "durable_lag_seconds", lag, saver.lags_s


def _buckets(found: Distribution) -> list[tuple[str, int]]:
    names = [*(str(float(bound)) for bound in found.bounds), "+Inf"]
    return list(zip(names, accumulate(found.counts), strict=True))


def metrics_registry(system: ActorSystem, graphs: Container[str] | None = None) -> Any:
    """Return a Prometheus registry with the metrics of a system, and nothing else.

    Args:
        graphs: names of those whose figures are included; None for all.
    Raises:
        MissingExtraError: prometheus-client is not installed.
    """
    try:
        from prometheus_client import CollectorRegistry, core
    except ImportError as error:
        raise MissingExtraError(
            "metrics for Prometheus need the package prometheus-client",
            do="pip install 'actorgraph[metrics]'",
        ) from error
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(system, core, graphs))
    return registry


class _Refused:
    """The requests that a web server has refused."""

    def __init__(self, core: Any, counts: Mapping[str, int]) -> None:
        self._core = core
        self._counts = counts

    def collect(self) -> Iterator[Any]:
        """Yield the metric; called by Prometheus's client."""
        text = "Requests and messages refused because of a limit, by limit."
        found = self._core.CounterMetricFamily(
            "actorgraph_requests_refused", text, labels=["limit"]
        )
        for limit, count in self._counts.items():
            found.add_metric([limit], count)
        yield found


def exposition(
    system: ActorSystem,
    graphs: Container[str] | None = None,
    refused: Mapping[str, int] | None = None,
) -> tuple[bytes, str]:
    """Return the metrics of a system in Prometheus's format, and its media type.

    Args:
        graphs: as for `metrics_registry`.
        refused: limit -> requests that the web server has refused; None for no web server.
    Raises:
        MissingExtraError: prometheus-client is not installed.
    """
    registry = metrics_registry(system, graphs)
    from prometheus_client import CONTENT_TYPE_LATEST, core, generate_latest

    if refused is not None:
        registry.register(_Refused(core, refused))
    return generate_latest(registry), CONTENT_TYPE_LATEST
