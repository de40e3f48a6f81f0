"""Figures of an ActorSystem for Prometheus, in a registry of their own. Extra: `metrics`.

registry = metrics_registry(system)
text = prometheus_client.generate_latest(registry)
"""

from collections.abc import Iterator
from typing import Any

from actorgraph.api.system import ActorSystem
from actorgraph.errors import MissingExtraError


class _Figures:
    """Reads the system's statistics at each scrape; between scrapes it costs nothing."""

    def __init__(self, system: ActorSystem, core: Any) -> None:
        self._system = system
        self._core = core

    def collect(self) -> Iterator[Any]:
        """The metrics, as Prometheus's client wants them."""
        core, now = self._core, self._system.statistics()
        left = core.CounterMetricFamily(
            "actorgraph_runs", "Runs that have left, by status.", labels=["status"]
        )
        for status, count in now.left.items():
            left.add_metric([status], count)
        yield left
        counters = {
            "actorgraph_runs_started": ("Runs taken.", now.started),
            "actorgraph_runs_refused": ("Runs refused.", now.refused),
            "actorgraph_supersteps": ("Supersteps of runs that have left.", now.supersteps),
        }
        gauges = {
            "actorgraph_runs_active": ("Runs that go on.", now.active),
            "actorgraph_runs_queued": ("Runs that wait.", now.queued),
            "actorgraph_threads_active": ("Threads that have a run.", now.threads),
            "actorgraph_mailbox_depth": ("Runs in the fullest mailbox.", now.mailbox_max),
            "actorgraph_unsaved_bytes": ("Bytes that wait to be stored.", now.unsaved_bytes),
            "actorgraph_saturated": ("1 if the next run may be refused.", int(now.saturated)),
        }
        saver = now.persistence
        if saver is not None:
            counters |= {
                "actorgraph_commits": ("Batches committed.", saver.commits),
                "actorgraph_commit_messages": ("Requests committed.", saver.messages),
                "actorgraph_commits_refused": ("Requests refused.", saver.refused),
                "actorgraph_commit_seconds": ("Seconds spent in commits.", saver.commit_s),
            }
            gauges |= {
                "actorgraph_unsaved_requests": ("Requests that wait.", saver.waiting),
                "actorgraph_batch_size_mean": ("Requests per batch.", saver.batch_size_mean),
                "actorgraph_commit_lag_seconds": ("How long the last one took.", saver.last_s),
            }
        for name, (text, value) in counters.items():
            yield core.CounterMetricFamily(name, text, value=value)
        for name, (text, value) in gauges.items():
            yield core.GaugeMetricFamily(name, text, value=value)


def metrics_registry(system: ActorSystem) -> Any:
    """A Prometheus registry with the figures of a system, and nothing else.

    Raises:
        MissingExtraError: prometheus-client is not installed.
    """
    try:
        from prometheus_client import CollectorRegistry, core
    except ImportError as error:
        raise MissingExtraError(
            "metrics_registry needs prometheus-client", do="pip install 'actorgraph[metrics]'"
        ) from error
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(system, core))
    return registry
