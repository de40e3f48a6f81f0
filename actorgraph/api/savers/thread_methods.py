"""Operations on whole threads: copy, delete, prune, list; with LangGraph's names.

They may be called while runs are active. A run whose newest checkpoint is removed gets a
ConflictError at its next save, so that nothing of it reappears. Copies and removals are logged
once they are durable.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, cast, overload, runtime_checkable

from actorgraph.api.blocking import block_on
from actorgraph.api.config import address_of
from actorgraph.api.savers.host_access import HostAccess
from actorgraph.channels import EMPTY
from actorgraph.codec.encryption import value_at
from actorgraph.codec.records import decode_record
from actorgraph.codec.reencryption import ThreadResealer
from actorgraph.errors import CheckpointError, InvalidConfigError
from actorgraph.errors.storage import fails_every_request
from actorgraph.errors.texts import add_note, combine_errors
from actorgraph.plan.plan import Plan
from actorgraph.runtime.log import event
from actorgraph.runtime.run.launch import Address
from actorgraph.runtime.run.start import load
from actorgraph.runtime.saver.hosting import Host
from actorgraph.values.commits import Committed, ListCheckpoints, Request, StoredCheckpoint
from actorgraph.values.configs import Config
from actorgraph.values.ids import as_text
from actorgraph.values.retention import (
    CopyThread,
    DeleteCheckpoints,
    DeleteRuns,
    DeleteThread,
    Expire,
    HoldWhole,
    KeepLast,
    KeepLatest,
    ListThreads,
    Sweep,
    Vacuum,
)

_EVENTS: dict[type, str] = {
    CopyThread: "thread.copied",
    DeleteThread: "thread.deleted",
    DeleteCheckpoints: "checkpoints.deleted",
    DeleteRuns: "runs.deleted",
    KeepLatest: "thread.pruned",
    KeepLast: "thread.pruned",
    Expire: "thread.expired",
    Sweep: "thread.swept",
    Vacuum: "saver.vacuumed",
}


def log_removal(request: Request, stored: Committed) -> None:
    """Log an operation on a thread, with the number of checkpoints and unused rows removed."""
    name = _EVENTS.get(type(request))
    if name is not None:
        fields = {"removed": stored.removed, "freed": stored.freed}
        if isinstance(request, CopyThread):
            fields = {"source": request.source}
        event("info", name, thread_id=request.thread_id, **fields)


def checked_thread_id(thread_id: str) -> str:
    """Return a thread's id as it is stored.

    Raises:
        InvalidConfigError: it is not a valid id.
    """
    return address_of({"configurable": {"thread_id": thread_id}}, needs_thread=True).thread_id


def _removable_id(thread_id: str) -> str:
    shown = "".join(c for c in thread_id if c.isprintable()) if type(thread_id) is str else ""
    if not shown or "\0" in thread_id:
        return checked_thread_id(thread_id)
    checked_thread_id(shown)
    return thread_id


@runtime_checkable
class FoldingGraph(Protocol):
    """A compiled graph: it has the reducers that DeltaChannels are folded with.

    A protocol, because a compiled graph knows savers and a saver must not import the graph.
    """

    plan: Plan

    def locate(self, method: str, config: Config) -> Any:
        """Return the thread, checkpoint and graph that a config addresses."""
        ...


def check_folding_graph(given: object) -> FoldingGraph:
    """Check the argument `materialize`.

    Raises:
        InvalidConfigError: it is not a compiled graph.
    """
    if isinstance(given, FoldingGraph):
        return given
    raise InvalidConfigError(
        f"materialize must be a compiled graph, got {given!r}",
        do="pass the graph whose threads these are: it has the reducers of the DeltaChannels",
    )


async def store_whole_values(graph: FoldingGraph, host: Host, thread_id: str) -> None:
    """Store whole values in the newest checkpoint of each namespace; the values don't change.

    A namespace of neither the graph nor a subgraph is left as it is, and so keeps the ancestors
    that it needs.
    """
    rows: list[StoredCheckpoint] = await host.reader.ask(ListCheckpoints(thread_id, bare=True))
    heads: dict[str, StoredCheckpoint] = {}
    for stored in rows:
        heads.setdefault(stored.namespace, stored)
    for namespace, head in heads.items():
        deltas = decode_record(head.row.record).deltas
        if not deltas:
            continue
        place = {"thread_id": thread_id, "checkpoint_ns": namespace}
        at = graph.locate("prune()", {"configurable": place})
        if at.declared or not namespace:
            await _store_whole(at, host, Address(thread_id, namespace, head.row.id), deltas)


async def _store_whole(at: Any, host: Host, address: Address, deltas: Any) -> None:
    found = await load(host, at.codec, at.plan, address, nested=True)
    known = {} if found.restored is None else found.restored.values
    id_ = cast("bytes", address.checkpoint)
    version = HoldWhole(address.thread_id, address.namespace, id_, {}).version
    values: dict[str, bytes] = {}
    for channel in set(deltas).intersection(known, at.plan.channels):
        value = at.plan.channels[channel].dump(known[channel])
        if value is not EMPTY:
            place = value_at(address.thread_id, address.namespace, channel, version)
            values[channel] = at.codec.encode(value, f"state[{channel!r}]", place)
    if values:
        size = sum(map(len, values.values()))
        await host.writer.store(HoldWhole(address.thread_id, address.namespace, id_, values, size))


STRATEGIES = {"keep_latest": KeepLatest, "delete": DeleteThread}


class ThreadMethods(HostAccess):
    """Copy, delete, prune and list threads, over the port."""

    async def adelete_thread(self, thread_id: str) -> None:
        """Remove everything of a thread; a run that is still active can't restore it.

        Args:
            thread_id: as lists and errors show it. It may have control characters, which a new
                thread's can't: a damaged row has them.
        """
        await self._request(DeleteThread(_removable_id(thread_id)))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove what some runs stored, in every thread and namespace.

        Each thread is changed in one transaction. A checkpoint that a later run's DeltaChannels
        are folded from stays. See `adelete_by_run`.

        Args:
            run_ids: the `run_id` in the checkpoints' metadata; unknown ones are ignored.
        """
        runs = _run_ids(run_ids)
        if runs:
            found = await self._ask(ListThreads(runs))
            await self._request(*(DeleteRuns(thread_id, runs) for thread_id in found))

    async def adelete_by_run(self, thread_id: str, run_id: str) -> int:
        """Remove what one run stored in a thread, in every namespace.

        The first checkpoint of a later run then has the nearest remaining one as its parent.
        If the run is active it gets a ConflictError at its next save.

        Returns: the number of checkpoints removed.
        """
        return await self._request(DeleteRuns(checked_thread_id(thread_id), _run_ids([run_id])))

    async def adelete_checkpoints(
        self, thread_id: str, ids: Iterable[str], *, checkpoint_ns: str = ""
    ) -> int:
        """Remove some checkpoints of a namespace, with their pending writes.

        Args:
            thread_id: the thread.
            ids: checkpoint ids; unknown ones and duplicates are ignored. One that the
                DeltaChannels of a kept checkpoint are folded from stays.
            checkpoint_ns: only this namespace is changed. Default the thread's root.
        Returns: the number of checkpoints removed.
        Raises:
            InvalidConfigError: an id is not a UUID.
        """
        if isinstance(ids, str):
            raise _single_id_error("ids", ids)
        places = [
            address_of(
                {"configurable": {"thread_id": thread_id, "checkpoint_id": i}}, needs_thread=True
            )
            for i in ids
        ]
        points = frozenset(p.checkpoint for p in places if p.checkpoint)
        return await self._request(
            DeleteCheckpoints(checked_thread_id(thread_id), checkpoint_ns, points)
        )

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread: all checkpoints with their ids, parents, namespaces and writes.

        Runs are not copied: an active run of the source continues there only. Encrypted values
        are encrypted again, since each is bound to its thread.

        Args:
            source_thread_id: an unknown one is a no-op.
            target_thread_id: a thread without checkpoints.
        Raises:
            ConflictError: the target has checkpoints; nothing was copied.
            EncryptionError: a row can't be decrypted; nothing was copied.
            InvalidConfigError: both ids are the same.
        """
        source, target = checked_thread_id(source_thread_id), checked_thread_id(target_thread_id)
        if source == target:
            raise InvalidConfigError(
                f"thread {source!r} can't be copied to itself", do="pass another target_thread_id"
            )
        encrypts = self.codec.encrypts
        resealer = ThreadResealer(self.codec, source, target) if encrypts else None
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
        """Remove history of threads that is not needed any more.

        - `strategy="keep_latest"`: each namespace keeps its newest checkpoint; namespaces of
          finished subgraph calls are removed.
        - `strategy="delete"`: nothing is kept.
        - `keep_last=n`: each namespace keeps its newest n checkpoints (at least 1), of whatever
          branch.

        A checkpoint that holds values of a DeltaChannel for a kept one is kept too, with those
        between. Each thread is changed in one transaction; unknown ones are ignored.

        Args:
            thread_ids: one thread's id or several.
            keep_last: replaces `strategy`.
            materialize: with "keep_latest", the compiled graph whose threads these are: kept
                checkpoints are first given the whole values of their DeltaChannels, which only
                the graph's reducers can make, so that they need no older checkpoint.
        Returns: the number of checkpoints removed.
        Raises:
            InvalidConfigError: `strategy`, `keep_last` or `materialize` is invalid.
            CheckpointError: a thread can't be read or changed; the others are pruned. Of several
                errors the first is raised, with a note for each other.
        """
        threads = [thread_ids] if isinstance(thread_ids, str) else [*thread_ids]
        if keep_last is not None:
            kept = max(1, _checked_count(keep_last))
            return await self._request(*(KeepLast(checked_thread_id(t), kept) for t in threads))
        if strategy not in STRATEGIES:
            raise InvalidConfigError(
                f"unknown strategy={strategy!r}; expected one of {', '.join(STRATEGIES)}",
                do=f"use one of {', '.join(STRATEGIES)}",
            )
        failed: list[CheckpointError] = []
        if materialize is not None and strategy == "keep_latest":
            graph = check_folding_graph(materialize)
            threads, failed = await self._store_whole_values(graph, threads)
        kind = STRATEGIES[strategy]
        removed = await self._request(*(kind(checked_thread_id(t)) for t in threads))
        if failed:
            raise combine_errors(failed)
        return removed

    async def _store_whole_values(
        self, graph: Any, threads: Sequence[str]
    ) -> tuple[list[str], list[CheckpointError]]:
        """Store whole values in threads' newest checkpoints.

        Returns: the threads that have them now, and the errors of the others.
        """
        made: list[str] = []
        failed: list[CheckpointError] = []
        for thread_id in threads:
            try:
                await store_whole_values(graph, self._host(), checked_thread_id(thread_id))
            except CheckpointError as error:
                if fails_every_request(error):
                    raise
                add_note(error, f"thread {thread_id!r} was not pruned")
                failed.append(error)
            else:
                made.append(thread_id)
        return made, failed

    async def alist_threads(self) -> list[str]:
        """Return the ids of all threads that have checkpoints, sorted."""
        return await self._ask(ListThreads())

    def delete_thread(self, thread_id: str) -> None:
        """Blocking version of `adelete_thread`."""
        block_on("adelete_thread", lambda: self.adelete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Blocking version of `adelete_for_runs`."""
        block_on("adelete_for_runs", lambda: self.adelete_for_runs(run_ids))

    def delete_by_run(self, thread_id: str, run_id: str) -> int:
        """Blocking version of `adelete_by_run`."""
        return block_on("adelete_by_run", lambda: self.adelete_by_run(thread_id, run_id))

    def delete_checkpoints(
        self, thread_id: str, ids: Iterable[str], *, checkpoint_ns: str = ""
    ) -> int:
        """Blocking version of `adelete_checkpoints`."""
        return block_on(
            "adelete_checkpoints",
            lambda: self.adelete_checkpoints(thread_id, ids, checkpoint_ns=checkpoint_ns),
        )

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Blocking version of `acopy_thread`."""
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
        """Blocking version of `aprune`: `strategy` "keep_latest" or "delete", or `keep_last`."""
        aprune: Any = self.aprune
        options = {"strategy": strategy, "materialize": materialize}
        return block_on("aprune", lambda: aprune(thread_ids, keep_last, **options))

    def list_threads(self) -> list[str]:
        """Blocking version of `alist_threads`."""
        return block_on("alist_threads", self.alist_threads)

    async def _request(self, *requests: Request) -> int:
        stored = await self._host().writer.store(*requests)
        for request, outcome in zip(requests, stored, strict=True):
            log_removal(request, outcome)
        return sum(outcome.removed for outcome in stored)


def _run_ids(run_ids: Iterable[Any]) -> frozenset[str]:
    if isinstance(run_ids, str):
        raise _single_id_error("run_ids", run_ids)
    return frozenset(as_text(run) if isinstance(run, bytes) else str(run) for run in run_ids)


def _checked_count(keep_last: int) -> int:
    if type(keep_last) is not int or keep_last < 0:
        raise InvalidConfigError(
            f"keep_last must be an integer >= 0, got {keep_last!r}", do="use 0 or more"
        )
    return keep_last


def _single_id_error(name: str, value: str) -> InvalidConfigError:
    return InvalidConfigError(
        f"{name} must be a list of ids, got {value!r}", do=f"pass [{value!r}]"
    )
