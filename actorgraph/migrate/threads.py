"""One thread of LangGraph's as checkpoints and ledgers of ours."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import msgspec

from actorgraph.channels import EMPTY
from actorgraph.migrate.bodies import body_of, where_of
from actorgraph.migrate.decode import Decoder
from actorgraph.migrate.sources import Stored
from actorgraph.migrate.tasks import JOIN, Found, Point, Tasks, due_of, renamed, triggers_of
from actorgraph.savers.foreign.versions import number_of
from actorgraph.superstep.deltas import COUNTERS
from actorgraph.values.commands import Interrupt, Send
from actorgraph.values.constants import (
    CONTROL_INDEX,
    ERROR,
    INTERRUPT,
    NULL_TASK,
    RESUME,
    START,
    TASKS,
)
from actorgraph.values.ids import TaskId, as_bytes
from actorgraph.values.run import LedgerEntry, NewCheckpoint

_PLACES = frozenset({"source", "step", "run_id", "parents", "writes", "thread_id", COUNTERS})
Key = tuple[str, str]


class Read(msgspec.Struct):
    """A checkpoint of LangGraph's, decoded.

    Attributes:
        numbers, seen: versions as numbers, by LangGraph's names.
        writes: (task id, channel, value).
    """

    stored: Stored
    values: dict[str, Any]
    numbers: dict[str, int]
    seen: dict[str, dict[str, int]]
    updated: list[str] | None
    writes: list[tuple[str, str, Any]]

    @property
    def key(self) -> Key:
        """Namespace and id."""
        return (self.stored.namespace, self.stored.id)


class Moved(msgspec.Struct, frozen=True):
    """A checkpoint to store, with the rows beside it."""

    namespace: str
    run: bytes | None
    point: NewCheckpoint
    ledger: tuple[LedgerEntry, ...]


class Thread:
    """A thread of LangGraph's, decoded.

    Args:
        starts: see `triggers_of`.

    Attributes:
        problems: why it can't move, each with the place; empty if it can.
        notes: what will not be as it was.
    """

    def __init__(
        self, stored: Sequence[Stored], decoder: Decoder, starts: Sequence[str] = ()
    ) -> None:
        self._starts = starts
        self.problems: list[str] = []
        self.notes: list[str] = []
        decoder.unknown.clear()
        bodies: list[tuple[Stored, dict[str, Any]]] = []
        for one in stored:
            if one.damage:
                self.problems.append(f"{where_of(one)}: it is damaged: {one.damage}")
            with self._damage(one):
                bodies.append((one, body_of(one, decoder)))
        numbers = _Numbers([(one.namespace, body) for one, body in bodies])
        self._reads: dict[Key, Read] = {}
        for one, body in bodies:
            with self._damage(one):
                self._reads[one.namespace, one.id] = self._read(one, body, numbers, decoder)
        self.problems.extend(dict.fromkeys(decoder.unknown))
        self._tasks: dict[Key, Tasks] = {}
        self._namespaces: dict[str, str] = {"": ""}
        self._questions: dict[str, tuple[str, int]] = {}

    @contextmanager
    def _damage(self, stored: Stored) -> Generator[None]:
        """Note what reading a row raises: rows that LangGraph hasn't written may do anything."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - see above
            text = str(error) if isinstance(error, ValueError) else repr(error)
            self.problems.append(f"{where_of(stored)}: it is damaged: {text}")

    def _read(
        self, stored: Stored, body: dict[str, Any], numbers: "_Numbers", decoder: Decoder
    ) -> Read:
        where = where_of(stored)
        writes = [
            (task, channel, decoder.read(form, data, f"{where}: write to {channel!r}"))
            for task, channel, form, data in stored.writes
        ]
        values = {c: v for c, v in body["channel_values"].items() if c != TASKS or v}
        if body.get("v", 1) < 4:
            self.problems.append(f"{where}: it has LangGraph's old format {body.get('v', 1)}")
        updated = body.get("updated_channels")
        namespace = stored.namespace
        return Read(
            stored,
            values,
            numbers.of(namespace, body["channel_versions"]),
            {n: numbers.of(namespace, at) for n, at in body["versions_seen"].items()},
            None if updated is None else list(updated),
            writes,
        )

    @property
    def waits(self) -> bool:
        """Whether its newest checkpoint has a question beside it."""
        root = [read for (namespace, _), read in self._reads.items() if not namespace]
        return bool(root) and any(channel == INTERRUPT for _, channel, _ in root[-1].writes)

    def moved(self) -> Iterator[Moved]:
        """Its checkpoints, oldest first, as they are here."""
        for namespace in sorted({ns for ns, _ in self._reads}, key=lambda ns: ns.count("|")):
            self._namespace(namespace)
        for read in self._reads.values():
            self._note_questions(read)
        last: dict[str, Read] = {}
        highest: dict[str, int] = {}
        for read in sorted(self._reads.values(), key=lambda r: r.stored.id):
            namespace = read.stored.namespace
            top = max([highest.get(namespace, 0), *read.numbers.values()])
            highest[namespace] = top
            with self._damage(read.stored):
                yield self._one(read, last.get(namespace), top)
            last[namespace] = read

    def _namespace(self, theirs: str) -> str:
        """What a namespace is called here: its tasks have other ids."""
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

    def _task_of(self, namespace: str, above: str, identifier: str) -> Found | None:
        for read in self._reads.values():
            if read.stored.namespace == namespace:
                parent = (read.stored.metadata.get("parents") or {}).get(above)
                tasks = self._tasks_at((above, parent)) if parent else None
                found = tasks.get(identifier) if tasks is not None else None
                if found is not None:
                    return found
        return None

    def _tasks_at(self, key: Key) -> Tasks | None:
        read = self._reads.get(key)
        if read is None:
            return None
        if key not in self._tasks:
            namespace, step = read.stored.namespace, int(read.stored.metadata.get("step", -1))
            triggers, sends = self._triggers(read), _sends(read)
            point = Point(key[1], namespace, self._namespace(namespace), step, triggers, sends)
            self._tasks[key] = Tasks(point)
        return self._tasks[key]

    def _triggers(self, read: Read) -> dict[str, list[tuple[str, str, bool]]]:
        held = [c for c, v in read.values.items() if _is_available(c, v)]
        return triggers_of(read.numbers, read.seen, held, self._starts)

    def _next(self, read: Read) -> tuple[str, ...]:
        """What runs next, as lists and people read it; no run goes by it."""
        seen = read.seen.get(START, {}).get(START, 0)
        begins = read.values.get(START) is not None and read.numbers.get(START, 0) > seen
        return due_of(self._triggers(read), _sends(read), begins=begins)

    def _note_questions(self, read: Read) -> None:
        """Learn our ids of the questions that stand beside a checkpoint."""
        for task, channel, value in read.writes:
            if channel != INTERRUPT:
                continue
            tasks = self._tasks_at(read.key)
            found = tasks.get(task) if tasks is not None else None
            if found is None or tasks is None:
                continue
            answers = sum(len(_as_list(v)) for t, c, v in read.writes if (t, c) == (task, RESUME))
            for question in _questions(value):
                ours = tasks.question(found, question.id, answers)
                if ours is not None:
                    self._questions[question.id] = ours

    def _one(self, read: Read, last: Read | None, highest: int) -> Moved:
        stored, metadata = read.stored, read.stored.metadata
        linear = last is not None and last.stored.id == stored.parent
        # The first of a chain holds nothing of them: they are empty there.
        rooted = (stored.namespace, stored.parent) in self._reads
        counters = (metadata.get(COUNTERS) or {}) if rooted else {}
        changed = {
            renamed(c): read.values.get(c, EMPTY)
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
            versions={renamed(c): n for c, n in read.numbers.items()},
            seen={n: {renamed(c): v for c, v in at.items()} for n, at in read.seen.items()},
            updated=None if read.updated is None else tuple(map(renamed, read.updated)),
            next=self._next(read),
            metadata={**shown, "parents": parents} if parents else shown,
            highest=highest,
            deltas={c: (n, p) for c, (n, p) in counters.items() if c not in read.values},
            folds=True,  # LangGraph's ledger also has what updates have written
        )
        return Moved(self._namespace(stored.namespace), _run(metadata), point, self._ledger(read))

    def _ledger(self, read: Read) -> tuple[LedgerEntry, ...]:
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

    def _note_unused(self, read: Read, writes: Sequence[tuple[str, Any]]) -> None:
        """Say that an answer which no task has got yet is not taken over."""
        asked = {task for task, channel, _ in read.writes if channel == INTERRUPT}
        ended = {task for task, channel, _ in read.writes if channel not in CONTROL_INDEX}
        resumed = any(c == RESUME for t, c, _ in read.writes if t != NULL_TASK)
        if resumed or asked & ended or not self._is_newest(read):
            return
        for channel, _ in writes:
            if channel == RESUME:
                self.notes.append(f"{where_of(read.stored)}: an answer was not used; give it again")

    def _note_lost(self, read: Read, task: str) -> None:
        """Say that a task of a newest checkpoint could not be found again."""
        if self._is_newest(read):
            self.notes.append(
                f"{where_of(read.stored)}: task {task} isn't found; it will run again"
            )

    def _is_newest(self, read: Read) -> bool:
        namespace, point = read.key
        below = (r for (ns, _), r in self._reads.items() if ns == namespace)
        return all(r.stored.parent != point for r in below)

    def _task_rows(
        self, base: bytes, task: str, found: Found | None, writes: Sequence[tuple[str, Any]]
    ) -> Iterator[LedgerEntry]:
        identifier = found.id if found else TaskId(task)
        own = [(renamed(c), v) for c, v in writes if c not in CONTROL_INDEX]
        controls = {c: v for c, v in writes if c in CONTROL_INDEX}
        if own:
            path = found.written if found else ("",)
            yield LedgerEntry(base, identifier, path, 0, 0, tuple(own))
        path = found.path if found else ("",)
        asked = 0
        if INTERRUPT in controls:
            questions, asked = self._as_ours(controls[INTERRUPT])
            index = CONTROL_INDEX[INTERRUPT]
            yield LedgerEntry(base, identifier, path, index, 1, ((INTERRUPT, questions),))
        if RESUME in controls:
            answers = _as_list(controls[RESUME])
            # As many answers as questions before the one that waits: that one has none.
            generation = 2 if INTERRUPT in controls and len(answers) > asked else 1
            index = CONTROL_INDEX[RESUME]
            yield LedgerEntry(base, identifier, path, index, generation, ((RESUME, answers),))
        if ERROR in controls:
            index, text = CONTROL_INDEX[ERROR], str(controls[ERROR])
            yield LedgerEntry(base, identifier, path, index, 1, ((ERROR, text),))

    def _as_ours(self, value: Any) -> tuple[tuple[Interrupt, ...], int]:
        """Questions with our ids, and how many their task had asked before."""
        found: list[Interrupt] = []
        before = 0
        for question in _questions(value):
            ours, asked = self._questions.get(question.id, (question.id, 0))
            found.append(Interrupt(question.value, ours, question.response_schema))
            before = max(before, asked)
        return tuple(found), before


class _Numbers:
    """Numbers for versions, by namespace and channel.

    A version's own one; where two branches have one number for two versions, their places in order.
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
        """Channel -> number."""
        found: dict[str, int] = {}
        for channel, version in versions.items():
            ranks = self._ranks.get((namespace, channel))
            found[channel] = number_of(version) if ranks is None else ranks[version]
        return found


def _same(channel: str, number: int, read: Read, last: Read) -> bool:
    return last.numbers.get(channel) == number and (channel in read.values) == (
        channel in last.values
    )


def _sends(read: Read) -> list[str]:
    """The nodes of a checkpoint's Sends."""
    return [s.node for s in read.values.get(TASKS, ()) if isinstance(s, Send)]


def _is_available(channel: str, value: Any) -> bool:
    """Whether a channel makes nodes due; a join does when everybody has arrived."""
    if not channel.startswith(JOIN):
        return channel != START or value is not None
    starts = set(channel.removeprefix(JOIN).rpartition(":")[0].split("+"))
    arrived = value[0] if isinstance(value, (list, tuple)) and len(value) == 2 else value
    return set(cast("Any", arrived)) == starts


def _commands(base: bytes, writes: Sequence[tuple[str, Any]]) -> Iterator[LedgerEntry]:
    """The rows of what callers have written beside a checkpoint."""
    own = tuple((renamed(c), v) for c, v in writes if c not in CONTROL_INDEX)
    if own:
        yield LedgerEntry(base, TaskId(NULL_TASK), (), 0, 0, own)


def _questions(value: Any) -> list[Interrupt]:
    return [question for question in _as_list(value) if isinstance(question, Interrupt)]


def _as_list(value: Any) -> list[Any]:
    return list(cast("Sequence[Any]", value)) if isinstance(value, (list, tuple)) else [value]


def _run(metadata: Mapping[str, Any]) -> bytes | None:
    try:
        return as_bytes(str(metadata.get("run_id") or ""))
    except ValueError:
        return None
