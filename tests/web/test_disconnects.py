"""Requests that are given up at any suspension leave nothing behind; each of them: tests/faults."""

from collections import Counter
from typing import Any

import pytest

from actorgraph.runtime.system.journal import EventReader
from actorgraph.web.http.request_limits import StreamSlots
from actorgraph.web.registries.indexed_threads import IndexedRegistry
from tests.web.leaving import HOW, JUDGED, WAITS, Request, leave_everywhere, served

STEP = 61
"""Suspensions from one that is tried to the next; where each request begins differs."""


async def left_by(requests: list[Request], folder: Any, loop: str) -> tuple[Counter[str], str]:
    """The leftovers of these requests, given up at some suspensions; and where."""
    seen: Counter[str] = Counter()
    told: list[str] = []
    async with served(folder) as place:
        for number, request in enumerate(requests):
            for how in HOW[loop]:
                some = range(1 + number % STEP, 1000, STEP)
                seen += await leave_everywhere(place, request, how, some, told.append)
    return seen, "\n".join(told)


@pytest.mark.one_loop
async def test_a_client_that_leaves_leaves_nothing_behind(tmp_path, anyio_backend):
    """
    Whenever a request is cancelled or its client goes away, it ends; no place, lock, reader,
    thread or run of it stays, and the next request for the same thread is served.
    """
    seen, where = await left_by(WAITS, tmp_path, anyio_backend)

    assert {name: seen[name] for name in JUDGED if seen[name]} == {}, where
    assert seen["awaits"] > len(WAITS)


def places_not_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Places for streams are taken only."""
    monkeypatch.setattr(StreamSlots, "release", lambda _: None)


def a_lock_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request cancelled while it registers a thread keeps the lock."""

    async def make(self: Any, thread_id: str, metadata: Any, **options: Any) -> Any:
        await self._turn.acquire()
        await self.get(thread_id)
        self._turn.release()
        return await real(self, thread_id, metadata, **options)

    real = IndexedRegistry.make
    monkeypatch.setattr(IndexedRegistry, "make", make)


def readers_that_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """The readers of a run's events are never let go."""
    kept: list[EventReader] = []

    def close(self: EventReader) -> None:
        kept.append(self)

    monkeypatch.setattr(EventReader, "close", close)


@pytest.mark.parametrize(
    ("plant", "found", "path"),
    [
        (places_not_given_back, "places", "/threads/{thread}/runs/{run}/join"),
        (a_lock_that_stays, "locks", "/threads/{new}/runs"),
        (readers_that_stay, "readers", "/threads/{thread}/runs/{run}/stream"),
    ],
)
async def test_planted_leaks_are_found(plant, found, path, *, tmp_path, monkeypatch):
    """
    A fault of each kind, planted, is found at some suspension.
    """
    (request, *_) = [one for one in WAITS if one.path == path]
    plant(monkeypatch)
    told: list[str] = []
    async with served(tmp_path) as place:
        for k in range(1, 100):
            fired, left = await place.leave(request, k, "scope", goes_on=False)
            if left[found] or not fired:
                break

    assert left[found], told
