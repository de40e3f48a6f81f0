"""Bugs, each put into any saver by a wrapper around its port: the machine must find them all."""

from collections.abc import Sequence
from typing import Any

import msgspec

from actorgraph.errors import ConflictError
from actorgraph.values.commits import (
    Commit,
    CommitOutcome,
    Committed,
    ListCheckpoints,
    LoadCheckpoint,
    Loaded,
    Query,
    Refused,
    Request,
    StoredCheckpoint,
)
from actorgraph.values.retention import CopyThread, DeleteCheckpoints, DeleteRuns, KeepLast


class Planted:
    """A saver with a bug; this one has none. Its memory is in the process.

    Args:
        saver: where checkpoints go.
        memory: what outlives a crash of it.
    """

    immediate = False

    def __init__(self, saver: Any, memory: dict[str, Any]) -> None:
        self.saver = saver
        self.memory = memory
        self.durable = saver.durable
        self.codec = saver.codec

    async def open(self) -> None:
        await self.saver.open()

    async def close(self) -> None:
        await self.saver.close()

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        return await self.saver.commit(batch)

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        answers = await self.saver.query(queries)
        return [self.changed(q, a) for q, a in zip(queries, answers, strict=True)]

    def changed(self, query: Query, answer: Any) -> Any:
        """The answer, with the bug in it."""
        if isinstance(query, ListCheckpoints):
            return self.page(query, answer)
        if isinstance(query, LoadCheckpoint) and answer.checkpoint is not None:
            point = self.point(answer.checkpoint)
            return msgspec.structs.replace(answer, checkpoint=point)
        return answer

    def page(self, query: ListCheckpoints, found: list[StoredCheckpoint]) -> list[StoredCheckpoint]:
        del query
        return [self.point(point) for point in found]

    def point(self, found: StoredCheckpoint) -> StoredCheckpoint:
        return found


class ForgetsTheNamespace(Planted):
    """Deletes an id in every namespace."""

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        for request in batch:
            if isinstance(request, DeleteCheckpoints):
                for namespace in {"", "n"} - {request.namespace}:
                    other = msgspec.structs.replace(request, namespace=namespace)
                    await self.saver.commit([other])
        return await super().commit(batch)


class ListsByStep(Planted):
    """Lists in the order of steps, not in that of storing."""

    def page(self, query: ListCheckpoints, found: list[StoredCheckpoint]) -> list[StoredCheckpoint]:
        del query
        return sorted(found, key=lambda point: -point.row.step)


class TakesTheLimitFirst(Planted):
    """Applies the limit before the filter."""

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        cut = [
            msgspec.structs.replace(q, where=())
            if isinstance(q, ListCheckpoints) and q.limit
            else q
            for q in queries
        ]
        answers = await self.saver.query(cut)
        asked = [
            msgspec.structs.replace(q, limit=None) if q is not c else None
            for q, c in zip(queries, cut, strict=True)
        ]
        for place, query in enumerate(asked):
            if query is not None:
                (all_of_them,) = await self.saver.query([query])
                ids = {(p.namespace, p.sequence) for p in all_of_them}
                answers[place] = [p for p in answers[place] if (p.namespace, p.sequence) in ids]
        return answers


class DropsALedgerRowOnCopy(Planted):
    """A copied checkpoint has lost the last of its writes."""

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        for request in batch:
            if isinstance(request, CopyThread):
                self.memory.setdefault("copies", set()).add(request.thread_id)
        return await super().commit(batch)

    def point(self, found: StoredCheckpoint) -> StoredCheckpoint:
        if found.thread_id not in self.memory.get("copies", ()):
            return found
        return msgspec.structs.replace(found, ledger=found.ledger[:-1])


class KeepsAClaimAfterACrash(Planted):
    """No run can go on with a thread whose run never left."""

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        return [await self._one(request) for request in batch]

    async def _one(self, request: Request) -> CommitOutcome:
        if isinstance(request, Commit) and request.claim is not None:
            query = LoadCheckpoint(request.thread_id)
            (loaded,) = await self.saver.query([query])
            if loaded.open_run is not None and loaded.open_run.run != request.run:
                return Refused(ConflictError("claimed", do="nothing"))
        (outcome,) = await self.saver.commit([request])
        return outcome


class LosesTheVersionFloor(Planted):
    """A branch counts its versions from its own, not above those of all branches."""

    def changed(self, query: Query, answer: Any) -> Any:
        answer = super().changed(query, answer)
        return (
            msgspec.structs.replace(answer, version_floor=0)
            if isinstance(answer, Loaded)
            else answer
        )


class StoresHalfAFailedBatch(Planted):
    """Stores the first checkpoint of a commit alone."""

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        cut = list[Request]()
        for request in batch:
            many = isinstance(request, Commit) and request.run and len(request.checkpoints) > 1
            first = request.checkpoints[:1] if isinstance(request, Commit) else ()
            cut.append(msgspec.structs.replace(request, checkpoints=first) if many else request)
        return await super().commit(cut)


class OverwritesWrites(Planted):
    """Shows the newest of a task's writes, not the first."""

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        newest = self.memory.setdefault("newest", {})
        for request in batch:
            if isinstance(request, Commit):
                for row in request.ledger:
                    newest[request.thread_id, row.base, row.task, row.index] = row.payload
        return await super().commit(batch)

    def point(self, found: StoredCheckpoint) -> StoredCheckpoint:
        newest = self.memory.get("newest", {})
        rows = tuple(
            msgspec.structs.replace(
                row,
                payload=newest.get((found.thread_id, row.base, row.task, row.index), row.payload),
            )
            for row in found.ledger
        )
        return msgspec.structs.replace(found, ledger=rows)


class KeepsNoAncestors(Planted):
    """Keeping the last n keeps one too few."""

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        cut = [
            msgspec.structs.replace(r, count=max(1, r.count - 1)) if isinstance(r, KeepLast) else r
            for r in batch
        ]
        return await super().commit(cut)


class LeavesDanglingParents(Planted):
    """After a run was deleted its children still name what is gone."""

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        return await super().query(queries)

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        for request in batch:
            if isinstance(request, DeleteRuns | DeleteCheckpoints):
                (found,) = await self.saver.query([ListCheckpoints(request.thread_id, bare=True)])
                known = self.memory.setdefault("parents", {})
                for p in found:
                    known.setdefault((p.thread_id, p.namespace, p.row.id), p.row.parent)
        return await super().commit(batch)

    def point(self, found: StoredCheckpoint) -> StoredCheckpoint:
        key = (found.thread_id, found.namespace, found.row.id)
        parent = self.memory.get("parents", {}).get(key, found.row.parent)
        return msgspec.structs.replace(found, row=msgspec.structs.replace(found.row, parent=parent))


class LosesTheLastCommit(Planted):
    """Acknowledges what it hasn't stored yet; a crash loses it."""

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        if self.memory.pop("held", None) is None and all(
            isinstance(r, Commit) and r.run is None and r.ledger for r in batch
        ):
            self.memory["held"] = True
            return [Committed() for _ in batch]
        return await super().commit(batch)


BUGS: list[type[Planted]] = [
    *(ListsByStep, KeepsAClaimAfterACrash, StoresHalfAFailedBatch, OverwritesWrites),
    *(LeavesDanglingParents, LosesTheLastCommit),
]
"""Found after a few sequences."""

HARD: list[type[Planted]] = [
    *(ForgetsTheNamespace, TakesTheLimitFirst, DropsALedgerRowOnCopy, LosesTheVersionFloor),
    KeepsNoAncestors,
]
"""Found after some dozens."""
