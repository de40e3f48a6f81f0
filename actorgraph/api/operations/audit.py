"""AuditedSaver: logs every operation on a thread with its principal."""

from collections.abc import Callable, Sequence
from typing import Any

import anyio.to_thread

from actorgraph.api.operations.audit_log import AuditLog
from actorgraph.api.operations.principals import current_principal
from actorgraph.api.operations.requests import ids_of, name_of
from actorgraph.api.operations.wrapping import WrappedSaver
from actorgraph.errors import CheckpointError
from actorgraph.ports import Saver
from actorgraph.values.commits import Commit, CommitOutcome, Query, Request

RUNS_MAX = 100_000
"""Runs whose actor is kept in memory."""


class AuditedSaver(WrappedSaver):
    """Logs every read, save and removal before it is carried out.

    The entries of a batch are on disk before the batch is committed. The entry of a resume lists
    the ids of the answered interrupts, and its actor is the one that answered them. Around a
    `GuardedSaver` it also logs what that refuses, as "denied".

    Args:
        saver: the saver to audit.
        log: the log to append to.
        actor: returns the acting principal; default `current_principal`, that of `acting_as`. All
            saves of a run are logged for the actor that started it.

    Attributes:
        log: as given.
    """

    def __init__(
        self,
        saver: Saver,
        log: AuditLog,
        *,
        actor: Callable[[], str | None] = current_principal,
    ) -> None:
        super().__init__(saver)
        self.log = log
        self._actor = actor
        self._runs: dict[bytes, str | None] = {}
        # This saver is the outermost watch; the wrapped saver's own is asked by it.
        self._inner = self.watch
        self.watch = self

    def handed_over(self, request: Request) -> CheckpointError | None:
        """See `ports.Watch`."""
        actor, op, ids = self._actor_of(request), name_of(request), ids_of(request)
        refused = None if self._inner is None else self._inner.handed_over(request)
        if refused is not None:
            op = f"denied {op}"
        try:
            self.log.append(actor, op, request.thread_id, ids)
        except CheckpointError as error:
            return error
        return refused

    def asked(self, query: Query) -> Query:
        """See `ports.Watch`."""
        where = (getattr(query, "thread_id", None) or "", ids_of(query))
        try:
            wanted = query if self._inner is None else self._inner.asked(query)
        except CheckpointError:
            self.log.append(self._actor(), f"denied {name_of(query)}", *where)
            raise
        self.log.append(self._actor(), name_of(query), *where)
        return wanted

    def answered(self, query: Query, answer: Any) -> Any:
        """See `ports.Watch`."""
        return answer if self._inner is None else self._inner.answered(query, answer)

    async def open(self) -> None:
        """See `ports.Saver.open`."""
        self.log.open()
        await self.saver.open()

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """See `ports.Saver.commit`."""
        # Flushed before the commit: after a crash there may be an entry without its save, but
        # never a save without its entry.
        await anyio.to_thread.run_sync(self.log.sync)
        return await self.saver.commit(batch)

    def _actor_of(self, request: Request) -> str | None:
        """Return the actor that started the run of a request; without a run, the acting one."""
        if not isinstance(request, Commit) or not request.run:
            return self._actor()
        if request.claim is None and request.run in self._runs:
            actor = self._runs[request.run]
        else:
            actor = self._runs[request.run] = self._actor()
        if request.ends is not None:
            self._runs.pop(request.run, None)
        elif len(self._runs) > RUNS_MAX:  # drop the oldest, of a run that died without an end
            del self._runs[next(iter(self._runs))]
        return actor
