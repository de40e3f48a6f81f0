"""The plugins of this suite that spare time: no failure and no leak is hidden by them."""

import gc
import weakref
from types import SimpleNamespace

import pytest

from tests.support import small_heap
from tests.support.few_reports import send_few_reports
from tests.support.small_heap import SmallHeap


class Node:
    """Part of a reference cycle."""

    def __init__(self) -> None:
        self.me = self


def test_after_a_slow_collection_the_heap_is_frozen(monkeypatch):
    """
    Objects of before are left out of later collections; garbage of before and after is found.
    """
    monkeypatch.setattr(small_heap, "SLOW_S", -1.0)
    heap, kept = SmallHeap(), [[] for _ in range(100)]
    try:
        before = weakref.ref(Node())
        gc.collect()
        frozen = gc.get_freeze_count()
        old = weakref.ref(Node())
        heap.pytest_runtest_logfinish()
    finally:
        gc.callbacks.remove(heap._note)  # noqa: SLF001 - it outlives the object, else

    assert gc.get_freeze_count() > frozen + len(kept)
    after = weakref.ref(Node())
    gc.collect()
    assert (before(), old(), after()) == (None, None, None)


class WorkerInteractor:
    """As pytest-xdist's: it sends events."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, str]]] = []

    def sendevent(self, name: str, **given: dict[str, str]) -> None:
        """Note an event."""
        self.sent.append((name, given.get("data", {})))


PARTS = [(when, how) for when in ("setup", "call", "teardown") for how in ("passed", "failed")]
SKIPPED = ("setup", "skipped")


@pytest.mark.parametrize(
    ("durations", "left"),
    [(None, [("setup", "passed"), ("teardown", "passed")]), (10, [])],
    ids=["few", "all"],
)
def test_parts_that_have_not_passed_are_sent(durations, left):
    """
    Only a passed set-up or tear-down is left out, and none where durations are asked for.
    """
    worker = WorkerInteractor()
    config = SimpleNamespace(
        getoption=lambda name, _: durations if name == "durations" else None,
        pluginmanager=SimpleNamespace(get_plugins=lambda: [object(), worker]),
    )

    send_few_reports(config)
    for when, outcome in [*PARTS, SKIPPED]:
        worker.sendevent("testreport", data={"when": when, "outcome": outcome})
    worker.sendevent("logfinish")

    sent = [(data["when"], data["outcome"]) for name, data in worker.sent if name == "testreport"]
    assert sent == [part for part in [*PARTS, SKIPPED] if part not in left]
    assert worker.sent[-1] == ("logfinish", {})
