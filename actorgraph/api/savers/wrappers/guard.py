"""GuardedSaver: access control, thread by thread."""

from collections.abc import Callable
from typing import Any

from actorgraph.api.savers.requests import name_of
from actorgraph.api.savers.wrappers.wrapped import WrappedSaver, current_principal
from actorgraph.errors import AccessDeniedError
from actorgraph.ports import Saver
from actorgraph.values.commits import (
    Commit,
    FilteredPage,
    ListCheckpoints,
    Query,
    Request,
    StoredCheckpoint,
)
from actorgraph.values.retention import CopyThread, ListThreads, Vacuum
from actorgraph.values.systems import ListRuns, SearchRuns

Authorize = Callable[[str | None, str | None, str], bool]
_OPS = {
    "put_writes": "put",
    "resume": "put",
    "end": "put",
    "put_run": "put",
    "count": "get",
    "get_run": "get",
    "list_threads": "list",
}


class GuardedSaver(WrappedSaver):
    """Checks each operation with `authorize`, in the caller's context, before it is carried out.

    A run is checked when it starts; its later saves belong to the principal that started it.
    Lists of all threads, and of checkpoints of all threads, contain those that may be listed.
    A refused operation raises AccessDeniedError, a PermissionError.

    An ActorSystem does not accept a guarded saver, since its own tasks act for no principal: use
    `authorize` of `actorgraph.web.GraphRoutes`.

    Args:
        saver: the saver to guard. Use only the guarded one as `checkpointer=`.
        authorize: `(principal, thread_id, op) -> bool`, called often; must not block. `op` is
            "get", "list", "put", "delete", "copy" (called for the source and for the target), or,
            with None for the thread, "vacuum" and "backup", which concern all threads.
        principal: returns the acting principal; default `current_principal`, that of
            `acting_as`. It may return None, which `authorize` is then called with.
    """

    guards = True

    def __init__(
        self,
        saver: Saver,
        authorize: Authorize,
        *,
        principal: Callable[[], str | None] = current_principal,
    ) -> None:
        super().__init__(saver)
        self._authorize = authorize
        self._principal = principal
        self._inner = self.watch
        self.watch = self

    def handed_over(self, request: Request) -> AccessDeniedError | Any:
        """See `ports.Watch`."""
        try:
            self._check_request(request)
        except AccessDeniedError as error:
            return error
        return None if self._inner is None else self._inner.handed_over(request)

    def asked(self, query: Query) -> Query:
        """See `ports.Watch`."""
        everywhere = isinstance(query, ListCheckpoints) and query.thread_id is None
        if not everywhere and not isinstance(query, ListThreads):
            thread_id: str | None = getattr(query, "thread_id", None)
            if thread_id:
                self._check(thread_id, _op(query))
        return query if self._inner is None else self._inner.asked(query)

    def answered(self, query: Query, answer: Any) -> Any:
        """See `ports.Watch`."""
        if self._inner is not None:
            answer = self._inner.answered(query, answer)
        if isinstance(query, ListThreads):
            return [thread for thread in answer if self._may(thread, "list")]
        if isinstance(query, SearchRuns) or (
            isinstance(query, ListRuns) and query.thread_id is None
        ):
            return [row for row in answer if self._may(row.thread_id, "list")]
        if isinstance(query, ListCheckpoints) and query.thread_id is None:
            rows: list[StoredCheckpoint] = answer
            may = {t: self._may(t, "list") for t in {row.thread_id for row in rows}}
            return FilteredPage((row for row in rows if may[row.thread_id]), rows)
        return answer

    @property
    def copy_to_file(self) -> Callable[[str], None] | None:
        """Copies the saver to a file, if that is allowed; None if the saver can't be copied."""
        copy = super().copy_to_file
        if copy is None:
            return None

        def checked(dest: str) -> None:
            self._check(None, "backup")
            copy(dest)

        return checked

    def _check_request(self, request: Request) -> None:
        if isinstance(request, Commit) and request.run and request.claim is None:
            # A later save of a run that was checked when it claimed the thread. The backend
            # accepts it only from the run that holds the claim.
            return
        if isinstance(request, Vacuum):
            self._check(None, "vacuum")
            return
        if isinstance(request, CopyThread):
            self._check(request.source, "copy")
        if request.thread_id:
            self._check(request.thread_id, _op(request))

    def _may(self, thread_id: str | None, op: str) -> bool:
        return bool(self._authorize(self._principal(), thread_id, op))

    def _check(self, thread_id: str | None, op: str) -> None:
        if not self._may(thread_id, op):
            what = "all threads" if thread_id is None else f"thread {thread_id!r}"
            raise AccessDeniedError(
                f"{self._principal()!r} may not {op} {what}",
                do="act as its owner: `with acting_as(principal): ...`",
            )


def _op(request: Request | Query) -> str:
    name = name_of(request)
    return _OPS.get(name, name)
