"""Move threads: read one, translate it, compare it with the target, store the missing part."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypedDict, Unpack, cast

import anyio.to_thread
import msgspec

from actorgraph.codec import Codec
from actorgraph.errors import ActorGraphError
from actorgraph.graph import START
from actorgraph.internals import (
    EPOCH_ANY,
    Commit,
    Host,
    ListCheckpoints,
    Plan,
    Save,
    SaveEncoder,
    StoredCheckpoint,
    address_of,
    as_text,
    block_on,
    fails_every_request,
    host_of,
)
from actorgraph.migrate.decode import Decoder
from actorgraph.migrate.sources import SourceDatabase, source_of
from actorgraph.migrate.task_matching import task_id_hash
from actorgraph.migrate.translate_thread import MovedCheckpoint, SourceThread
from actorgraph.ports import Saver

COMMITS_MAX = 64
_NO_GRAPH = Plan(name="", graph_id="", channels={}, nodes={}, output_keys=(), state_keys=())


class ThreadReport(msgspec.Struct, frozen=True):
    """The result of moving one thread.

    Attributes:
        thread_id: of the thread.
        checkpoints: number in the source, in all namespaces.
        moved: number stored now, or in a dry run to be stored; 0 if all were in the target.
        waits: whether it has a pending interrupt.
        problems: why nothing of it was moved, each with its place.
        notes: differences between the thread in the target and in the source.
    """

    thread_id: str
    checkpoints: int
    moved: int
    waits: bool = False
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class MigrationReport(msgspec.Struct, frozen=True):
    """The result of a migration.

    Attributes:
        threads: one report per thread that was read.
        dry_run: whether nothing was stored.
        left: number of threads that were not read, because of `threads_max`.
    """

    threads: tuple[ThreadReport, ...]
    dry_run: bool
    left: int = 0

    @property
    def refused(self) -> tuple[ThreadReport, ...]:
        """The threads that were not moved, because a part of them can't be."""
        return tuple(thread for thread in self.threads if thread.problems)

    def __str__(self) -> str:
        """Summarize in a few lines."""
        moved = sum(thread.moved for thread in self.threads)
        verb = "would move" if self.dry_run else "moved"
        many, refused = len(self.threads), len(self.refused)
        lines = [f"{verb} {moved} checkpoints of {many - refused} threads"]
        if refused or self.left:
            lines.append(f"{refused} threads can't be moved, {self.left} were not read")
        for thread in self.threads:
            lines.extend(f"{thread.thread_id}: can't be moved: {text}" for text in thread.problems)
            lines.extend(f"{thread.thread_id}: {text}" for text in thread.notes)
        return "\n".join(lines)


Progress = Callable[[ThreadReport], object]


async def amigrate(
    source: str | Path,
    saver: Saver,
    *,
    threads: Sequence[str] | None = None,
    types: Iterable[type] = (),
    graph: Any = None,
    dry_run: bool = False,
    threads_max: int | None = None,
    progress: Progress | None = None,
) -> MigrationReport:
    """Move the threads of a LangGraph database into a saver; the source is only read.

    A thread is moved as a whole or not at all. Checkpoints that the target has are skipped, so the
    call can be repeated. Stop the program that writes the source first.

    Args:
        source: the file of LangGraph's SqliteSaver, or the "postgresql://" URL of its
            PostgresSaver's database.
        saver: one of actorgraph's, open or not.
        threads: ids of the threads to move; default: all.
        types: types that values of the threads may have: dataclasses, models, enums, ...
        graph: the compiled graph that continues the threads; its types are allowed, too. Threads
            of an entrypoint need it for their interrupts.
        dry_run: report what would be moved, and store nothing.
        threads_max: read at most this many threads; None for all.
        progress: called with each thread's report.
    Raises:
        InvalidConfigError: the source can't be read.
        MissingExtraError: xxhash, or psycopg for PostgreSQL, isn't installed.
        StorageError: the saver failed; checkpoints stored until then are whole.
    """
    task_id_hash()
    allowed = [*types, *(getattr(graph, "stored_types", ()) if graph is not None else ())]
    decoder = Decoder(allowed, _langchain())
    codec = cast("Codec", getattr(saver, "codec", None) or Codec()).with_types(allowed)
    opened = await anyio.to_thread.run_sync(source_of, source)
    try:
        found = await anyio.to_thread.run_sync(opened.threads)
        wanted = found if threads is None else [t for t in found if t in set(threads)]
        reports: list[ThreadReport] = []
        for thread_id in wanted[:threads_max]:
            mover = _Mover(host_of(saver), codec, thread_id, dry_run=dry_run, starts=_starts(graph))
            report = await _move_thread(mover, opened, decoder)
            reports.append(report)
            if progress is not None:
                progress(report)
    finally:
        await anyio.to_thread.run_sync(opened.close)
    return MigrationReport(tuple(reports), dry_run, len(wanted) - len(reports))


async def _move_thread(mover: "_Mover", source: SourceDatabase, decoder: Decoder) -> ThreadReport:
    """Move one thread; a damaged one is reported, so that the others can be moved.

    Raises: as `amigrate`, if the saver itself failed.
    """
    report = ThreadReport(mover.thread_id, 0, 0)
    try:
        return await mover.move(source, decoder)
    except ActorGraphError as error:
        if fails_every_request(error):
            raise
        return _refused(report, [error.what])
    except Exception as error:  # noqa: BLE001 - damaged rows may raise anything
        return _refused(report, [f"it is damaged: {error!r}"])


class MigrateOptions(TypedDict, total=False):
    """Options of `amigrate`, which explains them."""

    threads: Sequence[str] | None
    types: Iterable[type]
    graph: Any
    dry_run: bool
    threads_max: int | None
    progress: Progress | None


def migrate(source: str | Path, saver: Saver, **options: Unpack[MigrateOptions]) -> MigrationReport:
    """Move the threads of a LangGraph database into a saver; the sync form of `amigrate`."""
    return block_on("amigrate", lambda: amigrate(source, saver, **options))


def _starts(graph: Any) -> list[str]:
    """Return the nodes of a graph that run first after an input."""
    nodes = [] if graph is None else graph.plan.nodes.values()
    return [node.name for node in nodes if node.triggers == (START,) and node.name != START]


def _langchain() -> Any:
    try:
        return import_module("langchain_core.messages")
    except ImportError:
        return None


class _Mover:
    """Moves one thread."""

    def __init__(
        self, host: Host, codec: Codec, thread_id: str, *, dry_run: bool, starts: Sequence[str] = ()
    ) -> None:
        self._starts = starts
        self._host, self._codec = host, codec
        self.thread_id, self._dry_run = thread_id, dry_run
        self._save_encoders: dict[str, tuple[bytes, SaveEncoder]] = {}
        self._lists: dict[tuple[str, str], list[Any]] = {}

    async def move(self, source: SourceDatabase, decoder: Decoder) -> ThreadReport:
        """Store what the target lacks of the thread, or report why it can't be moved."""
        stored = await anyio.to_thread.run_sync(source.read, self.thread_id)
        thread = await anyio.to_thread.run_sync(SourceThread, stored, decoder, self._starts)
        report = ThreadReport(self.thread_id, len(stored), 0, thread.waits)
        problems = [*thread.problems, *_bad_id(self.thread_id)]
        if problems:
            return _refused(report, problems)
        moved = await anyio.to_thread.run_sync(list, thread.moved())
        if thread.problems:
            return _refused(report, thread.problems)
        there = await self._stored_already()
        strange = there - {(one.namespace, bytes(one.point.id)) for one in moved}
        if strange:
            return _refused(report, [f"it was continued in the target: {_names(strange)}"])
        try:
            commits = list(self._commits(moved, there))
        except ActorGraphError as error:
            return _refused(report, [error.what])
        if not self._dry_run:
            for first in range(0, len(commits), COMMITS_MAX):
                await self._host.writer.store(*commits[first : first + COMMITS_MAX])
        notes = tuple(thread.notes)
        return msgspec.structs.replace(report, moved=len(commits), notes=notes)

    async def _stored_already(self) -> set[tuple[str, bytes]]:
        query = ListCheckpoints(self.thread_id, bare=True)
        found: list[StoredCheckpoint] = await self._host.reader.ask(query)
        return {(point.namespace, bytes(point.row.id)) for point in found}

    def _commits(
        self, moved: Sequence[MovedCheckpoint], there: set[tuple[str, bytes]]
    ) -> Iterator[Commit]:
        for one in moved:
            save_encoder = self._save_encoder(one)
            save = Save(0, None, ledger=one.ledger, checkpoints=(self._shared(one),))
            commit = save_encoder.commit(save)
            if (one.namespace, bytes(one.point.id)) in there:
                continue  # encoded all the same: the hand-off needs it for the ones that follow
            rows = tuple(msgspec.structs.replace(row, run=one.run) for row in commit.checkpoints)
            yield msgspec.structs.replace(commit, run=None, checkpoints=rows)

    def _save_encoder(self, one: MovedCheckpoint) -> SaveEncoder:
        """Return the namespace's hand-off, which knows the stored rows; a new one for a branch."""
        last = self._save_encoders.get(one.namespace)
        if last is not None and last[0] == one.point.parent:
            save_encoder = last[1]
        else:
            save_encoder = SaveEncoder(
                self._codec,
                _NO_GRAPH,
                thread_id=self.thread_id,
                namespace=one.namespace,
                run=b"",
                epoch=EPOCH_ANY,
            )
        self._save_encoders[one.namespace] = (one.point.id, save_encoder)
        return save_encoder

    def _shared(self, one: MovedCheckpoint) -> Any:
        """Replace the leading items of lists by the equal ones of the checkpoint before.

        The hand-off recognizes a growing list by the identity of its items. Each checkpoint was
        decoded separately, so without this each one would store its lists as a whole.
        """
        changed = dict(one.point.changed)
        for channel, value in changed.items():
            if type(value) is list:
                items = cast("list[Any]", value)
                known = self._lists.get((one.namespace, channel), [])
                common = len(known) <= len(items) and known == items[: len(known)]
                self._lists[one.namespace, channel] = items
                if common:
                    changed[channel] = self._lists[one.namespace, channel] = [
                        *known,
                        *items[len(known) :],
                    ]
        return msgspec.structs.replace(one.point, changed=changed)


def _refused(report: ThreadReport, problems: Sequence[str]) -> ThreadReport:
    return msgspec.structs.replace(report, problems=tuple(problems))


def _bad_id(thread_id: str) -> list[str]:
    try:
        address_of({"configurable": {"thread_id": thread_id}}, needs_thread=True)
    except ActorGraphError as error:
        return [error.what]
    return []


def _names(points: Iterable[tuple[str, bytes]]) -> str:
    shown = sorted(as_text(point) for _, point in points)
    return ", ".join(shown[:3]) + (" ..." if len(shown) > 3 else "")
