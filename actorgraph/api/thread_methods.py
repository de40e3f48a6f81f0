"""What a saver's threads keep: copies, removals, lists of threads, with LangGraph's names.

They may be called while runs are going on. A run whose newest checkpoint is removed gets a
ConflictError at its next save, so that nothing of it comes back.
"""

from collections.abc import Iterable, Sequence
from typing import Any, cast, overload

from actorgraph.api.blocking import block_on
from actorgraph.api.config import address_of
from actorgraph.api.materializing import graph_of
from actorgraph.api.materializing import materialize as materialized
from actorgraph.api.removals_log import told
from actorgraph.codec.resealing import ThreadResealer
from actorgraph.errors import CheckpointError, InvalidConfigError
from actorgraph.errors.storage import fails_every_request
from actorgraph.errors.telling import add_note, combine_errors
from actorgraph.ports import Saver
from actorgraph.runtime.hosting import host_of
from actorgraph.values.commits import Request
from actorgraph.values.ids import as_text
from actorgraph.values.retention import (
    CopyThread,
    DeleteCheckpoints,
    DeleteRuns,
    DeleteThread,
    KeepLast,
    KeepLatest,
    ListThreads,
)

STRATEGIES = {"keep_latest": KeepLatest, "delete": DeleteThread}


class ThreadMethods:
    """Operations on whole threads, over the port."""

    async def adelete_thread(self, thread_id: str) -> None:
        """Remove everything of a thread; a run that is still going on can't bring it back."""
        await self._request(DeleteThread(_thread(thread_id)))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove what some runs stored, in every thread and namespace; others stay.

        Each thread is changed in one transaction. A checkpoint whose DeltaChannels a later run's
        are folded from stays. See `adelete_by_run`.

        Args:
            run_ids: the `run_id` in the checkpoints' metadata; unknown ones are ignored.
        """
        runs = _runs(run_ids)
        if runs:
            found = await host_of(cast("Saver", self)).reader.ask(ListThreads(runs))
            await self._request(*(DeleteRuns(thread_id, runs) for thread_id in found))

    async def adelete_by_run(self, thread_id: str, run_id: str) -> int:
        """Remove what one run stored in a thread, in every namespace.

        The first checkpoint of a later run then has the nearest one that is left as its parent.
        If the run is going on it gets a ConflictError at its next save.

        Returns: how many checkpoints were removed.
        """
        return await self._request(DeleteRuns(_thread(thread_id), _runs([run_id])))

    async def adelete_checkpoints(
        self, thread_id: str, ids: Iterable[str], *, checkpoint_ns: str = ""
    ) -> int:
        """Remove some checkpoints of a namespace, with what stands beside them.

        Args:
            ids: checkpoint ids; unknown ones and repetitions are ignored. One whose
                DeltaChannels another's are folded from stays.
            checkpoint_ns: only this namespace is touched. Default the thread's own.
        Returns: how many checkpoints were removed.
        Raises:
            InvalidConfigError: an id is not a UUID.
        """
        if isinstance(ids, str):
            raise _bare("ids", ids)
        places = [
            address_of(
                {"configurable": {"thread_id": thread_id, "checkpoint_id": i}}, needs_thread=True
            )
            for i in ids
        ]
        points = frozenset(p.checkpoint for p in places if p.checkpoint)
        return await self._request(DeleteCheckpoints(_thread(thread_id), checkpoint_ns, points))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread: all its checkpoints with their ids and parents, namespaces and writes.

        Runs are not copied: one that is going on in the source goes on there only. Encrypted
        values are encrypted anew, as each is bound to its thread.

        Args:
            source_thread_id: an unknown one is a no-op.
            target_thread_id: a thread without checkpoints.
        Raises:
            ConflictError: the target has checkpoints; nothing was copied.
            EncryptionError: a row can't be decrypted; nothing was copied.
            InvalidConfigError: both are the same.
        """
        source, target = _thread(source_thread_id), _thread(target_thread_id)
        if source == target:
            raise InvalidConfigError(
                f"thread {source!r} can't be copied to itself", do="name another target_thread_id"
            )
        codec = cast("Any", self).codec
        resealer = ThreadResealer(codec, source, target) if codec.encrypts else None
        await self._request(CopyThread(target, source, resealer=resealer))

    @overload
    async def aprune(self, thread_ids: str, keep_last: int) -> int: ...
    @overload
    async def aprune(
        self, thread_ids: Sequence[str], *, strategy: str = "keep_latest", materialize: Any = None
    ) -> int: ...
    async def aprune(
        self,
        thread_ids: str | Sequence[str],
        keep_last: int | None = None,
        *,
        strategy: str = "keep_latest",
        materialize: Any = None,
    ) -> int:
        """Remove the history of threads that is not needed any more.

        - `strategy="keep_latest"`: each namespace keeps its newest checkpoint; the namespaces of
          subgraph calls that are over go.
        - `strategy="delete"`: nothing is kept.
        - `keep_last=n`: each namespace keeps its newest n checkpoints (at least 1) and all their
          ancestors; what goes are branches that nothing of these has come from.

        A checkpoint that holds the values of a DeltaChannel for one that is kept is kept too,
        with those between. Each thread is changed in one transaction; unknown ones are ignored.

        Args:
            thread_ids: one thread's id or several.
            materialize: with "keep_latest" the compiled graph whose threads these are. What is
                kept then first gets the whole values of its DeltaChannels, which only their
                reducers can make, so that it needs no other checkpoint.
        Returns: how many checkpoints were removed.
        Raises:
            InvalidConfigError: the strategy or the number is none, or `materialize` no graph.
            CheckpointError: a thread can't be read, or refuses it; the others are pruned. Of
                several the first is raised, with a note for each other.
        """
        threads = [thread_ids] if isinstance(thread_ids, str) else [*thread_ids]
        if keep_last is not None:
            if type(keep_last) is not int or keep_last < 0:
                raise InvalidConfigError(f"keep_last={keep_last!r}", do="use a number from 0")
            return await self._request(*(KeepLast(_thread(t), max(1, keep_last)) for t in threads))
        if strategy not in STRATEGIES:
            raise InvalidConfigError(
                f"strategy={strategy!r} is none", do=f"use one of {', '.join(STRATEGIES)}"
            )
        if materialize is not None and strategy == "keep_latest":
            graph = graph_of(materialize)
            threads, failed = await self._materialized(graph, threads)
            removed = await self._request(*(STRATEGIES[strategy](_thread(t)) for t in threads))
            if failed:
                raise combine_errors(failed)
            return removed
        return await self._request(*(STRATEGIES[strategy](_thread(t)) for t in threads))

    async def _materialized(
        self, graph: Any, threads: Sequence[str]
    ) -> tuple[list[str], list[CheckpointError]]:
        """The threads whose newest checkpoints hold whole values now, and why others don't."""
        made: list[str] = []
        failed: list[CheckpointError] = []
        for thread_id in threads:
            try:
                await materialized(graph, host_of(cast("Saver", self)), _thread(thread_id))
            except CheckpointError as error:
                if fails_every_request(error):
                    raise
                add_note(error, f"thread {thread_id!r} was not pruned")
                failed.append(error)
            else:
                made.append(thread_id)
        return made, failed

    async def alist_threads(self) -> list[str]:
        """The ids of all threads that have checkpoints, sorted."""
        return await host_of(cast("Saver", self)).reader.ask(ListThreads())

    def delete_thread(self, thread_id: str) -> None:
        """`adelete_thread`, blocking."""
        block_on("adelete_thread", lambda: self.adelete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """`adelete_for_runs`, blocking."""
        block_on("adelete_for_runs", lambda: self.adelete_for_runs(run_ids))

    def delete_by_run(self, thread_id: str, run_id: str) -> int:
        """`adelete_by_run`, blocking."""
        return block_on("adelete_by_run", lambda: self.adelete_by_run(thread_id, run_id))

    def delete_checkpoints(
        self, thread_id: str, ids: Iterable[str], *, checkpoint_ns: str = ""
    ) -> int:
        """`adelete_checkpoints`, blocking."""
        return block_on(
            "adelete_checkpoints",
            lambda: self.adelete_checkpoints(thread_id, ids, checkpoint_ns=checkpoint_ns),
        )

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """`acopy_thread`, blocking."""
        block_on("acopy_thread", lambda: self.acopy_thread(source_thread_id, target_thread_id))

    @overload
    def prune(self, thread_ids: str, keep_last: int) -> int: ...
    @overload
    def prune(
        self, thread_ids: Sequence[str], *, strategy: str = "keep_latest", materialize: Any = None
    ) -> int: ...
    def prune(
        self,
        thread_ids: Any,
        keep_last: Any = None,
        *,
        strategy: str = "keep_latest",
        materialize: Any = None,
    ) -> int:
        """`aprune`, blocking: with `strategy` "keep_latest" or "delete", or `keep_last`."""
        aprune: Any = self.aprune
        options = {"strategy": strategy, "materialize": materialize}
        return block_on("aprune", lambda: aprune(thread_ids, keep_last, **options))

    def list_threads(self) -> list[str]:
        """`alist_threads`, blocking."""
        return block_on("alist_threads", self.alist_threads)

    async def _request(self, *requests: Request) -> int:
        stored = await host_of(cast("Saver", self)).writer.store(*requests)
        for request, outcome in zip(requests, stored, strict=True):
            told(request, outcome)
        return sum(outcome.removed for outcome in stored)


def _thread(thread_id: str) -> str:
    return address_of({"configurable": {"thread_id": thread_id}}, needs_thread=True).thread_id


def _runs(run_ids: Iterable[Any]) -> frozenset[str]:
    if isinstance(run_ids, str):
        raise _bare("run_ids", run_ids)
    return frozenset(as_text(run) if isinstance(run, bytes) else str(run) for run in run_ids)


def _bare(name: str, value: str) -> InvalidConfigError:
    return InvalidConfigError(f"{name}={value!r} is one id, not several", do=f"pass [{value!r}]")
