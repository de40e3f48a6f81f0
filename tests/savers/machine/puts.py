"""Rules about threads that are put by LangGraph's methods: put, put_writes, get, list."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from actorgraph.errors import SaverBrokenError
from actorgraph.testing.conformance.builders import checkpoint, metadata, new_id
from tests.savers.machine.base import RAW, RUNS, TASKS, Machine, pick
from tests.savers.machine.draws import failures, given_values, given_writes, namespaces, picks, raw
from tests.savers.machine.model import CONTROL, Point
from tests.support.graphs import at


class Puts(Machine):
    """Stores and reads checkpoints and writes; the storage may fail."""

    @rule(
        thread=raw,
        namespace=namespaces,
        at_=picks,
        values=given_values,
        run=st.sampled_from([None, *RUNS]),
        twin=st.booleans(),
        taken=st.booleans(),
        fails=failures,
    )
    def put(self, thread, namespace, at_, values, run, twin, taken, fails) -> None:  # noqa: PLR0917
        there = self.model.there(thread, namespace)
        parent = pick([None, *there[::-1]], at_)
        others = sorted(self.elsewhere(thread, namespace))
        named = pick(others, at_) if twin and others else new_id()
        step = at_ - 1
        about = {"run_id": run} if run else {"tag": at_}
        version = self.next_version(taken=taken)
        point = checkpoint(values, version=version, named=named)
        place = at(thread, checkpoint_ns=namespace)
        if parent is not None:
            place["configurable"]["checkpoint_id"] = parent.id
        added = Point(named, parent and parent.id, namespace, values, "update", step, run, about)
        self.maybe_failing(
            fails,
            lambda: self.model.add(thread, added),
            self.saver.aput,
            place,
            point,
            metadata(step, "update", **about),
            point["channel_versions"],
        )
        self.check(thread)

    @rule(
        thread=raw,
        namespace=namespaces,
        count=st.integers(2, 4),
        fork=st.booleans(),
        twin=st.booleans(),
    )
    def grow(self, thread, namespace, count, fork, twin) -> None:
        """Several checkpoints in a row, or several branches of one."""
        there = self.model.there(thread, namespace)
        start = there[-1] if there else None
        for number in range(count):
            free = sorted(self.elsewhere(thread, namespace))
            named = free[0] if twin and free else new_id()
            added = self.add(thread, namespace, named, number, start)
            if number % 2:
                self.write(thread, added, TASKS[0], [("x", number), ("y", [number])])
            start = start if fork and start is not None else added
        self.check(thread)

    @rule(threads=st.permutations(RAW), near=st.booleans(), both=st.booleans())
    def twins(self, threads, near, both) -> None:
        """One id in two namespaces of a thread, or in two threads, with writes of their own."""
        named = new_id()
        first, second = threads[0], threads[0] if near else threads[1]
        for number, (thread, namespace) in enumerate([(first, ""), (second, "n")]):
            there = self.model.there(thread, namespace)
            added = self.add(thread, namespace, named, number, there[-1] if there else None)
            for task in TASKS if both else TASKS[:1]:
                self.write(thread, added, task, [("x", number), ("y", [number, 1, 2])])
        self.check(first)
        self.check(second)

    def elsewhere(self, thread: str, namespace: str) -> set[str]:
        """The ids that other namespaces or threads have, and this namespace doesn't."""
        known = {p.id for name in RAW for p in self.model.there(name)}
        return known - {p.id for p in self.model.there(thread, namespace)}

    def add(
        self, thread: str, namespace: str, named: str, number: int, parent: Point | None
    ) -> Point:
        """Store a checkpoint that shows its number."""
        place = at(thread, checkpoint_ns=namespace)
        if parent is not None:
            place["configurable"]["checkpoint_id"] = parent.id
        values, about = {"x": number, "y": [number, number + 1, "z"]}, {"tag": number}
        point = checkpoint(values, version=self.next_version(), named=named)
        versions = point["channel_versions"]
        self.call(self.saver.aput, place, point, metadata(number, "loop", **about), versions)
        above = parent and parent.id
        added = Point(named, above, namespace, values, "loop", number, None, about)
        self.model.add(thread, added)
        return added

    def write(self, thread: str, point: Point, task: str, writes: list[Any]) -> None:
        """Store writes of a task beside a checkpoint."""
        place = at(thread, checkpoint_ns=point.namespace, checkpoint_id=point.id)
        self.call(self.saver.aput_writes, place, writes, task)
        self.model.write(point, task, writes)

    @rule(
        thread=raw,
        at_=st.sampled_from([0, 0, 1, 3]),
        task=st.sampled_from(TASKS),
        writes=given_writes,
        fails=failures,
    )
    def put_writes(self, thread, at_, task, writes, fails) -> None:
        point = pick(self.model.there(thread)[::-1], at_)
        if point is None or len({c for c, _ in writes if c in CONTROL}) != sum(
            c in CONTROL for c, _ in writes
        ):
            return
        place = at(thread, checkpoint_ns=point.namespace, checkpoint_id=point.id)
        self.maybe_failing(
            fails,
            lambda: self.model.write(point, task, writes),
            self.saver.aput_writes,
            place,
            writes,
            task,
        )
        self.check(thread)

    def maybe_failing(self, fails, change, method, *arguments) -> None:
        """Call a method that stores one batch; the storage may fail before or after its effect."""
        if fails is None:
            self.call(method, *arguments)
            change()
            return
        self.plan.when = fails
        self.plan.fail_at = 1 + len(self.plan.operations)
        with pytest.raises(SaverBrokenError):
            self.call(method, *arguments)
        if self.plan.operations[self.plan.fail_at - 1] == "commit" and fails == "after":
            change()
        self._reopen(self.folder)

    @rule(thread=raw, namespace=namespaces, at_=picks, latest=st.booleans())
    def get(self, thread, namespace, at_, latest) -> None:
        there = self.model.there(thread, namespace)
        point = pick(there, at_)
        place = at(thread, checkpoint_ns=namespace)
        if latest or point is None:
            point = there[-1] if there else None
        else:
            place["configurable"]["checkpoint_id"] = point.id
        found = self.call(self.saver.aget_tuple, place)
        assert (found and self.shown(found)) == (point and self.told(point))

    @rule(thread=raw, namespace=namespaces, at_=picks)
    def get_elsewhere(self, thread, namespace, at_) -> None:
        """An id that only others have is not there, nor is anything before it."""
        named = pick(sorted(self.elsewhere(thread, namespace)), at_)
        if named is None:
            return
        place = at(thread, checkpoint_ns=namespace, checkpoint_id=named)
        assert self.call(self.saver.aget_tuple, place) is None
        assert self.listed(at(thread, checkpoint_ns=namespace), before=place) == []
        removed = self.call(
            self.saver.adelete_checkpoints, thread, [named], checkpoint_ns=namespace
        )
        assert removed == 0
        for name in RAW:
            self.check(name)

    @rule(
        thread=raw,
        namespace=st.one_of(namespaces, st.none()),
        about=st.sampled_from(
            [
                {},
                {"source": "loop"},
                {"source": "update"},
                {"tag": 1},
                {"tag": 0, "source": "loop"},
                {"run_id": RUNS[0]},
                {"run_id": 1},
            ]
        ),
        before=st.one_of(st.none(), st.none(), picks),
        limit=st.sampled_from([None, 1, 2, 3]),
    )
    def list_some(self, thread, namespace, about, before, limit) -> None:
        bound = None if before is None else pick(self.model.there(thread, namespace), before)
        config = at(thread) if namespace is None else at(thread, checkpoint_ns=namespace)
        options: dict[str, Any] = {"limit": limit}
        if about:
            options["filter"] = about
        if bound is not None:
            options["before"] = at(thread, checkpoint_id=bound.id)
        found = self.listed(config, **options)
        wanted = self.model.listed(thread, namespace, about, bound and bound.id, limit)
        assert [self.shown(f) for f in found] == [self.told(p) for p in wanted]
