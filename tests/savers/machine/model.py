"""A model of savers, as lists of dicts: nothing of it is taken from how any saver works."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

CONTROL = ("__error__", "__interrupt__", "__resume__")


@dataclass
class Point:
    """A checkpoint: what readers see of it.

    Attributes:
        given: the input that it holds and its values don't show yet.
    """

    id: str
    parent: str | None
    namespace: str
    values: dict[str, Any]
    source: str
    step: int
    run: str | None = None
    about: dict[str, Any] = field(default_factory=dict)
    next: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    writes: dict[tuple[str, int | str], tuple[str, Any]] = field(default_factory=dict)

    def shown_writes(self) -> dict[str, tuple[list[Any], dict[str, Any]]]:
        """Task -> its values in order, and its newest error, question and answer."""
        shown: dict[str, tuple[list[Any], dict[str, Any]]] = {}
        for (task, index), (channel, value) in sorted(self.writes.items(), key=str):
            values, control = shown.setdefault(task, ([], {}))
            if isinstance(index, str):
                control[channel] = value
            else:
                values.append((channel, value))
        return shown


class Model:
    """Thread -> its checkpoints, in the order in which they were stored."""

    def __init__(self) -> None:
        self.threads: dict[str, list[Point]] = {}

    def there(self, thread: str, namespace: str | None = None) -> list[Point]:
        points = self.threads.get(thread, [])
        return [p for p in points if namespace in (None, p.namespace)]

    def head(self, thread: str, namespace: str = "") -> Point | None:
        found = self.there(thread, namespace)
        return found[-1] if found else None

    def named(self) -> list[str]:
        return sorted(t for t, points in self.threads.items() if points)

    def add(self, thread: str, point: Point) -> None:
        self.threads.setdefault(thread, []).append(point)

    def write(self, point: Point, task: str, writes: Iterable[tuple[str, Any]]) -> None:
        for index, (channel, value) in enumerate(writes):
            if channel in CONTROL:
                point.writes[task, channel] = (channel, value)
            else:
                point.writes.setdefault((task, index), (channel, value))

    def listed(
        self,
        thread: str,
        namespace: str | None,
        about: dict[str, Any],
        before: str | None,
        limit: int | None,
    ) -> list[Point]:
        points = self.there(thread, namespace)
        if before is not None:  # in each namespace it is another one
            bounds = {p.namespace: number for number, p in enumerate(points) if p.id == before}
            points = [p for n, p in enumerate(points) if n < bounds.get(p.namespace, 0)]
        shown = [
            p for p in reversed(points) if {**p.about, "source": p.source}.items() >= about.items()
        ]
        return shown if limit is None else shown[:limit]

    def keep(self, thread: str, kept: Iterable[Point]) -> int:
        """Remove the others; children get their nearest ancestor that is left."""
        stay = {(p.namespace, p.id) for p in kept}
        points = self.threads.get(thread, [])
        above = {(p.namespace, p.id): p.parent for p in points}
        for point in points:
            parent = point.parent
            while parent is not None and (point.namespace, parent) not in stay:
                if (point.namespace, parent) not in above:
                    break
                parent = above[point.namespace, parent]
            point.parent = parent
        self.threads[thread] = [p for p in points if (p.namespace, p.id) in stay]
        return len(points) - len(self.threads[thread])

    def delete_run(self, thread: str, run: str) -> int:
        return self.keep(thread, [p for p in self.there(thread) if p.run != run])

    def delete_points(self, thread: str, namespace: str, ids: set[str]) -> int:
        kept = [p for p in self.there(thread) if p.namespace != namespace or p.id not in ids]
        return self.keep(thread, kept)

    def copy(self, source: str, target: str) -> None:
        self.threads[target] = [
            replace(p, writes=dict(p.writes), values=dict(p.values)) for p in self.there(source)
        ]

    def keep_latest(self, thread: str) -> int:
        newest = {p.namespace: p for p in self.there(thread)}
        return self.keep(thread, newest.values())

    def keep_last(self, thread: str, count: int) -> int:
        kept: list[Point] = []
        for namespace in {p.namespace for p in self.there(thread)}:
            kept += self.there(thread, namespace)[-max(1, count) :]
        return self.keep(thread, kept)
