"""Requests to a persistence actor without a run: saves, their answers, a scripted saver."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from anyio.lowlevel import checkpoint

from actorgraph import InMemorySaver
from actorgraph.errors import StorageFullError
from actorgraph.runtime.saver.persistence import PersistenceActor, Receipts
from actorgraph.testing import FaultPlan, FaultySaver
from actorgraph.values.commits import Claim, Commit, Committed, Query, Request
from actorgraph.values.run import Saved, SaveFailed
from tests.support.gates import patient_group

RUN, OTHER, THIRD = b"r" * 16, b"o" * 16, b"t" * 16
HEAD, NEWER = b"\x01" * 16, b"\x02" * 16


def full() -> StorageFullError:
    return StorageFullError("disk full", do="make room")


def save(number: int = 1, thread: str = "t", run: bytes | None = RUN, **fields: Any) -> Commit:
    """A save of a run; the first one claims the thread."""
    return Commit(
        **{
            "thread_id": thread,
            "namespace": "",
            "run": run,
            "epoch": 0,
            "number": number,
            "head": None,
            "claim": Claim(None, "sync") if number == 1 else None,
        }
        | fields
    )


class Answers(list[Any]):
    """The answers to one run, as numbers of what is stored and errors."""

    def __init__(self) -> None:
        super().__init__()
        self.receipts = Receipts(self._take)

    def _take(self, answer: Saved | SaveFailed) -> None:
        self.append(answer.number if isinstance(answer, Saved) else answer.error)


def immediate(fail_at: int | None = None, error: Any = full) -> PersistenceActor:
    """An actor over a saver in memory, which stores inside `post`."""
    return PersistenceActor(
        FaultySaver(InMemorySaver(), FaultPlan(fail_at, error=error, lasting=False))
    )


def ask(actor: PersistenceActor, request: Request) -> Any:
    """Post a request of its own to an immediate saver; its one answer."""
    answers = Answers()
    actor.post(request, answers.receipts)
    (answer,) = answers
    return answer


class Sink:
    """A foreign saver that answers each batch with a given outcome, and stores nothing."""

    durable = immediate = False

    def __init__(self, *outcomes: Any, takes_s: Sequence[float] = (), clock: Any = None) -> None:
        self.batches: list[list[Request]] = []
        self._outcomes = list(outcomes)
        self._takes_s, self._clock = list(takes_s), clock

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        return [None for _ in queries]

    async def commit(self, batch: Sequence[Request]) -> list[Any]:
        self.batches.append(list(batch))
        if self._takes_s:
            self._clock.now += self._takes_s.pop(0)
        await checkpoint()
        outcome: Any = self._outcomes.pop(0) if self._outcomes else Committed()
        if isinstance(outcome, Exception):
            raise outcome
        return [outcome for _ in batch]


@asynccontextmanager
async def serving(actor: PersistenceActor) -> AsyncIterator[PersistenceActor]:
    """The actor at work in a task of its own, stopped at the end."""

    async def serve() -> None:
        try:
            await actor.serve()
        finally:
            actor.withdraw()  # callers wait for their answers even if they are cancelled

    async with patient_group() as group:
        group.start_soon(serve)
        yield actor
        actor.stop()
