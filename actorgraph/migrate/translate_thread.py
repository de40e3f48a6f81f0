"""Translate one LangGraph thread to checkpoints and pending writes of this library."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import msgspec

from actorgraph.channels import EMPTY
from actorgraph.graph import START
from actorgraph.internals import (
    CONTROL_INDEX,
    COUNTERS,
    INTERRUPT,
    NULL_TASK,
    RESUME,
    TASKS,
    LedgerEntry,
    NewCheckpoint,
    TaskId,
    as_bytes,
    number_of,
)
from actorgraph.internals import (
    ERROR_CHANNEL as ERROR,
)
from actorgraph.migrate.decode import Decoder, checkpoint_body, checkpoint_label
from actorgraph.migrate.sources import SourceCheckpoint
from actorgraph.migrate.task_matching import (
    JOIN,
    TaskFinder,
    TaskMatch,
    TaskPoint,
    due_nodes,
    rename_channel,
    triggers_of,
)
from actorgraph.types import Interrupt, Send

_PLACES = frozenset({"source", "step", "run_id", "parents", "writes", "thread_id", COUNTERS})
Key = tuple[str, str]


class DecodedCheckpoint(msgspec.Struct):
    """A LangGraph checkpoint, decoded; with LangGraph's names.

    Attributes:
        stored: as it was read.
        values: channel -> value.
        numbers: channel -> version as a number.
        seen: node -> channel -> version as a number.
        updated: channels that the last superstep updated; None if unknown.
        writes: (task id, channel, value).
    """

    stored: SourceCheckpoint
    values: dict[str, Any]
    numbers: dict[str, int]
    seen: dict[str, dict[str, int]]
    updated: list[str] | None
    writes: list[tuple[str, str, Any]]

    @property
    def key(self) -> Key:
        """Namespace and id."""
        return (self.stored.namespace, self.stored.id)


class MovedCheckpoint(msgspec.Struct, frozen=True):
    """A checkpoint to store, with its pending writes."""

    namespace: str
    run: bytes | None
    point: NewCheckpoint
    ledger: tuple[LedgerEntry, ...]


class SourceThread:
    """A LangGraph thread, decoded.

    Args:
        stored: its checkpoints, oldest first.
        decoder: its notes become problems.
        starts: see `triggers_of`.

    Attributes:
        problems: why it can't be moved, each with its place; empty if it can.
        notes: differences between the thread here and in the source.
    """

    def __init__(
        self, stored: Sequence[SourceCheckpoint], decoder: Decoder, starts: Sequence[str] = ()
    ) -> None:
        self._starts = starts
        self.problems: list[str] = []
        self.notes: list[str] = []
        decoder.unknown.clear()
        bodies: list[tuple[SourceCheckpoint, dict[str, Any]]] = []
        for one in stored:
            if one.damage:
                self.problems.append(f"{checkpoint_label(one)}: it is damaged: {one.damage}")
            with self._damage(one):
                bodies.append((one, checkpoint_body(one, decoder)))
        numbers = _VersionNumbers([(one.namespace, body) for one, body in bodies])
        self._reads: dict[Key, DecodedCheckpoint] = {}
        for one, body in bodies:
            with self._damage(one):
                self._reads[one.namespace, one.id] = self._read(one, body, numbers, decoder)
        self.problems.extend(dict.fromkeys(decoder.unknown))
        self._tasks: dict[Key, TaskFinder] = {}
        self._namespaces: dict[str, str] = {"": ""}
        self._interrupts: dict[str, tuple[str, int]] = {}

    @contextmanager
    def _damage(self, stored: SourceCheckpoint) -> Generator[None]:
        """Report what reading a row raises, which may be anything if LangGraph didn't write it."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - see above
            text = str(error) if isinstance(error, ValueError) else repr(error)
            self.problems.append(f"{checkpoint_label(stored)}: it is damaged: {text}")

    def _read(
        self,
        stored: SourceCheckpoint,
        body: dict[str, Any],
        numbers: "_VersionNumbers",
        decoder: Decoder,
    ) -> DecodedCheckpoint:
        where = checkpoint_label(stored)
        writes = [
            (task, channel, decoder.read(form, data, f"{where}: write to {channel!r}"))
            for task, channel, form, data in stored.writes
        ]
        values = {c: v for c, v in body["channel_values"].items() if c != TASKS or v}
        if body.get("v", 1) < 4:
            self.problems.append(
                f"{where}: LangGraph's old format {body.get('v', 1)} is not supported"
            )
        updated = body.get("updated_channels")
        namespace = stored.namespace
        return DecodedCheckpoint(
            stored,
            values,
            numbers.of(namespace, body["channel_versions"]),
            {n: numbers.of(namespace, at) for n, at in body["versions_seen"].items()},
            None if updated is None else list(updated),
            writes,
        )

    @property
    def waits(self) -> bool:
        """Whether its newest checkpoint has an interrupt among its pending writes."""
        root = [read for (namespace, _), read in self._reads.items() if not namespace]
        return bool(root) and any(channel == INTERRUPT for _, channel, _ in root[-1].writes)

    def moved(self) -> Iterator[MovedCheckpoint]:
        """Iterate over its translated checkpoints, oldest first."""
        for namespace in sorted({ns for ns, _ in self._reads}, key=lambda ns: ns.count("|")):
            self._namespace(namespace)
        for read in self._reads.values():
            self._match_interrupts(read)
        last: dict[str, DecodedCheckpoint] = {}
        highest: dict[str, int] = {}
        for read in sorted(self._reads.values(), key=lambda r: r.stored.id):
            namespace = read.stored.namespace
            top = max([highest.get(namespace, 0), *read.numbers.values()])
            highest[namespace] = top
            with self._damage(read.stored):
                yield self._moved_checkpoint(read, last.get(namespace), top)
            last[namespace] = read

    def _namespace(self, theirs: str) -> str:
        """Translate a namespace: the ids of its tasks are others here."""
        known = self._namespaces.get(theirs)
        if known is not None:
            return known
        above, _, own = theirs.rpartition("|")
        node, _, identifier = own.partition(":")
        if identifier:
            found = self._task_of(theirs, above, identifier)
            own = own if found is None else f"{node}:{found.id}"
        ours = f"{self._namespace(above)}|{own}" if above else own
        self._namespaces[theirs] = ours
        return ours

    def _task_of(self, namespace: str, above: str, identifier: str) -> TaskMatch | None:
        for read in self._reads.values():
            if read.stored.namespace == namespace:
                parent = (read.stored.metadata.get("parents") or {}).get(above)
                tasks = self._tasks_at((above, parent)) if parent else None
                found = tasks.get(identifier) if tasks is not None else None
                if found is not None:
                    return found
        return None

    def _tasks_at(self, key: Key) -> TaskFinder | None:
        read = self._reads.get(key)
        if read is None:
            return None
        if key not in self._tasks:
            namespace, step = read.stored.namespace, int(read.stored.metadata.get("step", -1))
            triggers, sends = self._triggers(read), _sends(read)
            point = TaskPoint(key[1], namespace, self._namespace(namespace), step, triggers, sends)
            self._tasks[key] = TaskFinder(point)
        return self._tasks[key]

    def _triggers(self, read: DecodedCheckpoint) -> dict[str, list[tuple[str, str, bool]]]:
        held = [c for c, v in read.values.items() if _is_available(c, v)]
        return triggers_of(read.numbers, read.seen, held, self._starts)

    def _next(self, read: DecodedCheckpoint) -> tuple[str, ...]:
        """Return the next nodes for listings; runs compute them from the versions instead."""
        seen = read.seen.get(START, {}).get(START, 0)
        begins = read.values.get(START) is not None and read.numbers.get(START, 0) > seen
        return due_nodes(self._triggers(read), _sends(read), begins=begins)

    def _match_interrupts(self, read: DecodedCheckpoint) -> None:
        """Find the ids here of the interrupts among a checkpoint's pending writes."""
        for task, channel, value in read.writes:
            if channel != INTERRUPT:
                continue
            tasks = self._tasks_at(read.key)
            found = tasks.get(task) if tasks is not None else None
            if found is None or tasks is None:
                continue
            answers = sum(len(_as_list(v)) for t, c, v in read.writes if (t, c) == (task, RESUME))
            for question in _interrupts(value):
                ours = tasks.interrupt_id_of(found, question.id, answers)
                if ours is not None:
                    self._interrupts[question.id] = ours

    def _moved_checkpoint(
        self, read: DecodedCheckpoint, last: DecodedCheckpoint | None, highest: int
    ) -> MovedCheckpoint:
        stored, metadata = read.stored, read.stored.metadata
        linear = last is not None and last.stored.id == stored.parent
        # Delta channels without an ancestor to fold from are empty.
        rooted = (stored.namespace, stored.parent) in self._reads
        counters = (metadata.get(COUNTERS) or {}) if rooted else {}
        changed = {
            rename_channel(c): read.values.get(c, EMPTY)
            for c, number in read.numbers.items()
            if not (linear and last and _same(c, number, read, last)) and c not in counters
        }
        changed.update({c: read.values[c] for c in counters if c in read.values})
        parents = {self._namespace(ns): i for ns, i in (metadata.get("parents") or {}).items()}
        shown = {k: v for k, v in metadata.items() if k not in _PLACES and not k.startswith("__")}
        point = NewCheckpoint(
            id=as_bytes(stored.id),
            parent=as_bytes(stored.parent) if stored.parent else None,
            step=int(metadata.get("step", -1)),
            source=str(metadata.get("source", "loop")),
            changed=changed,
            versions={rename_channel(c): n for c, n in read.numbers.items()},
            seen={n: {rename_channel(c): v for c, v in at.items()} for n, at in read.seen.items()},
            updated=None if read.updated is None else tuple(map(rename_channel, read.updated)),
            next=self._next(read),
            metadata={**shown, "parents": parents} if parents else shown,
            highest=highest,
            deltas={c: (n, p) for c, (n, p) in counters.items() if c not in read.values},
            folds=True,  # LangGraph's pending writes include those of updates
        )
        return MovedCheckpoint(
            self._namespace(stored.namespace), _run(metadata), point, self._ledger(read)
        )

    def _ledger(self, read: DecodedCheckpoint) -> tuple[LedgerEntry, ...]:
        by_task: dict[str, list[tuple[str, Any]]] = {}
        for task, channel, value in read.writes:
            by_task.setdefault(task, []).append((channel, value))
        rows: list[LedgerEntry] = []
        base = as_bytes(read.stored.id)
        for task, writes in by_task.items():
            if task == NULL_TASK:
                rows.extend(_commands(base, writes))
                self._note_unused(read, writes)
                continue
            tasks = self._tasks_at(read.key)
            found = tasks.get(task) if tasks is not None else None
            if found is None:
                self._note_lost(read, task)
            rows.extend(self._task_rows(base, task, found, writes))
        return tuple(rows)

    def _note_unused(self, read: DecodedCheckpoint, writes: Sequence[tuple[str, Any]]) -> None:
        """Note a resume value that no task has received yet: it is not moved."""
        asked = {task for task, channel, _ in read.writes if channel == INTERRUPT}
        ended = {task for task, channel, _ in read.writes if channel not in CONTROL_INDEX}
        resumed = any(c == RESUME for t, c, _ in read.writes if t != NULL_TASK)
        if resumed or asked & ended or not self._is_newest(read):
            return
        for channel, _ in writes:
            if channel == RESUME:
                where = checkpoint_label(read.stored)
                self.notes.append(f"{where}: a resume value was not used; resume again")

    def _note_lost(self, read: DecodedCheckpoint, task: str) -> None:
        """Note a task of the newest checkpoint that could not be matched."""
        if self._is_newest(read):
            self.notes.append(
                f"{checkpoint_label(read.stored)}: task {task} was not matched; it will run again"
            )

    def _is_newest(self, read: DecodedCheckpoint) -> bool:
        namespace, point = read.key
        below = (r for (ns, _), r in self._reads.items() if ns == namespace)
        return all(r.stored.parent != point for r in below)

    def _task_rows(
        self, base: bytes, task: str, found: TaskMatch | None, writes: Sequence[tuple[str, Any]]
    ) -> Iterator[LedgerEntry]:
        identifier = found.id if found else TaskId(task)
        own = [(rename_channel(c), v) for c, v in writes if c not in CONTROL_INDEX]
        controls = {c: v for c, v in writes if c in CONTROL_INDEX}
        if own:
            path = found.written if found else ("",)
            yield LedgerEntry(base, identifier, path, 0, 0, tuple(own))
        path = found.path if found else ("",)
        asked = 0
        if INTERRUPT in controls:
            questions, asked = self._with_our_ids(controls[INTERRUPT])
            index = CONTROL_INDEX[INTERRUPT]
            yield LedgerEntry(base, identifier, path, index, 1, ((INTERRUPT, questions),))
        if RESUME in controls:
            answers = _as_list(controls[RESUME])
            # The answers so far belong to the interrupts before the pending one, which has none.
            generation = 2 if INTERRUPT in controls and len(answers) > asked else 1
            index = CONTROL_INDEX[RESUME]
            yield LedgerEntry(base, identifier, path, index, generation, ((RESUME, answers),))
        if ERROR in controls:
            index, text = CONTROL_INDEX[ERROR], str(controls[ERROR])
            yield LedgerEntry(base, identifier, path, index, 1, ((ERROR, text),))

    def _with_our_ids(self, value: Any) -> tuple[tuple[Interrupt, ...], int]:
        """Return interrupts with their ids here, and how many their task had before them."""
        found: list[Interrupt] = []
        before = 0
        for question in _interrupts(value):
            ours, asked = self._interrupts.get(question.id, (question.id, 0))
            found.append(replace(question, id=ours))
            before = max(before, asked)
        return tuple(found), before


class _VersionNumbers:
    """Maps LangGraph's versions to integers, by namespace and channel.

    A version maps to its own number. Where two branches have different versions of one number,
    the versions of the channel map to their ranks instead.
    """

    def __init__(self, bodies: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        known: dict[tuple[str, str], set[Any]] = {}
        for namespace, body in bodies:
            for versions in (body["channel_versions"], *body["versions_seen"].values()):
                for channel, version in versions.items():
                    known.setdefault((namespace, channel), set()).add(version)
        self._ranks: dict[tuple[str, str], dict[Any, int]] = {}
        for key, versions in known.items():
            if len({number_of(version) for version in versions}) < len(versions):
                self._ranks[key] = {v: n for n, v in enumerate(sorted(versions), 1)}

    def of(self, namespace: str, versions: Mapping[str, Any]) -> dict[str, int]:
        """Return channel -> number for some versions."""
        found: dict[str, int] = {}
        for channel, version in versions.items():
            ranks = self._ranks.get((namespace, channel))
            found[channel] = number_of(version) if ranks is None else ranks[version]
        return found


def _same(channel: str, number: int, read: DecodedCheckpoint, last: DecodedCheckpoint) -> bool:
    return last.numbers.get(channel) == number and (channel in read.values) == (
        channel in last.values
    )


def _sends(read: DecodedCheckpoint) -> list[str]:
    """Return the nodes of a checkpoint's Sends."""
    return [s.node for s in read.values.get(TASKS, ()) if isinstance(s, Send)]


def _is_available(channel: str, value: Any) -> bool:
    """Whether a channel can trigger nodes; a join when all of its nodes have written it."""
    if not channel.startswith(JOIN):
        return channel != START or value is not None
    starts = set(channel.removeprefix(JOIN).rpartition(":")[0].split("+"))
    arrived = value[0] if isinstance(value, (list, tuple)) and len(value) == 2 else value
    return set(cast("Any", arrived)) == starts


def _commands(base: bytes, writes: Sequence[tuple[str, Any]]) -> Iterator[LedgerEntry]:
    """Iterate over the rows of pending writes that no task made."""
    own = tuple((rename_channel(c), v) for c, v in writes if c not in CONTROL_INDEX)
    if own:
        yield LedgerEntry(base, TaskId(NULL_TASK), (), 0, 0, own)


def _interrupts(value: Any) -> list[Interrupt]:
    return [question for question in _as_list(value) if isinstance(question, Interrupt)]


def _as_list(value: Any) -> list[Any]:
    return list(cast("Sequence[Any]", value)) if isinstance(value, (list, tuple)) else [value]


def _run(metadata: Mapping[str, Any]) -> bytes | None:
    try:
        return as_bytes(str(metadata.get("run_id") or ""))
    except ValueError:
        return None
