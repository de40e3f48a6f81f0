"""StateSnapshot: the state of a thread as callers get it."""

from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple

from actorgraph.errors.excerpts import count_text, shown
from actorgraph.values.alarms import shown_times
from actorgraph.values.commands import Interrupt
from actorgraph.values.ids import id_or_none
from actorgraph.values.run import TaskPath
from actorgraph.values.schema_types import SnapshotT
from actorgraph.values.snapshot_views import (
    history_table,
    snapshot_line,
    snapshot_parts,
    snapshot_table,
)
from actorgraph.values.thread_phase import PhaseFacts, ThreadPhase, phase_of


class PregelTask(NamedTuple):
    """One task of the next superstep, with its stored state.

    Attributes:
        path: its place in the superstep.
        error: the text of its error, or None.
        interrupts: its questions; in a live view only the open ones.
        state: the config of its subgraph's state, with `subgraphs=True` its snapshot; or None.
        result: key -> value that it wrote, once it has finished; else None.
    """

    id: str
    name: str
    path: TaskPath
    error: str | None = None
    interrupts: tuple[Interrupt, ...] = ()
    state: Any = None
    result: Any = None

    def __repr__(self) -> str:
        parts = [f"<{type(self).__name__} {self.name!r}"]
        if self.interrupts:
            parts.append(f"asks={shown(self.interrupts[0].value, 60)}")
        if self.error is not None:
            parts.append(f"error={shown(self.error, 60)}")
        if self.result is not None:
            parts.append(f"result={shown(self.result, 60)}")
        return f"{' '.join(parts)} id={self.id!r}>"


class StateSnapshot(NamedTuple, Generic[SnapshotT]):
    """The state of a thread at one checkpoint.

    Attributes:
        values: the state: a dict, or the bare value of a graph over one.
        next: the nodes that run next; () at the end.
        config: addresses this checkpoint.
        metadata: source, step, parents, run_id, writes, and the caller's own.
        created_at: ISO 8601 UTC.
        parent_config: addresses its parent, or None.
        tasks: the tasks of the next superstep.
        interrupts: the questions of all tasks.
    """

    values: SnapshotT
    next: tuple[str, ...]
    config: dict[str, Any]
    metadata: dict[str, Any] | None
    created_at: str | None
    parent_config: dict[str, Any] | None
    tasks: tuple[PregelTask, ...]
    interrupts: tuple[Interrupt, ...]

    def __repr__(self) -> str:
        """Return one line, with the sizes of the values instead of them."""
        return snapshot_line(self)

    def _repr_html_(self) -> str:
        return snapshot_table(self)

    def __rich_repr__(self) -> Iterator[tuple[str, Any]]:
        """Yield the same parts for `rich`."""
        return snapshot_parts(self)

    @property
    def next_nodes(self) -> tuple[str, ...]:
        """Another name of `next`."""
        return self.next

    @property
    def pending_interrupts(self) -> tuple[Interrupt, ...]:
        """Another name of `interrupts`."""
        return self.interrupts

    @property
    def failed_node(self) -> str | None:
        """The node at which the thread failed: `retry()` runs it again. None if none failed."""
        failed = self._failed
        return failed.name if failed else None

    @property
    def error(self) -> str | None:
        """The text of the failed node's error; None if none failed."""
        failed = self._failed
        return failed.error if failed else None

    @property
    def _failed(self) -> PregelTask | None:
        failed = [task for task in self.tasks if task.error is not None and task.result is None]
        return next(iter(failed), self.tasks[0] if self.is_stuck else None)

    @property
    def is_held(self) -> bool:
        """Whether a run has claimed the thread and has not left; only at a thread's head."""
        return False

    @property
    def is_worked_on(self) -> bool:
        """Whether that run still worked, as far as was known when the snapshot was read."""
        return False

    @property
    def phase(self) -> ThreadPhase:
        """The thread's phase, as far as its state says: see `values/thread_phase`.

        "ended", "waiting" (for a person), "sleeping" (until its time), "failed", "running" (a run
        has begun and works: in this process, or it stored something in the 300 seconds before the
        snapshot was read), "cut_off" (a run has begun, and its process has died) or "unfinished".
        Of the runs of an `ActorSystem` only the lease of the one that has begun counts: see
        `ActorSystem.threads`.
        """
        return phase_of(self.phase_facts())

    def phase_facts(self) -> PhaseFacts:
        """The facts for `phase_of`, which decides together with the runs of systems."""
        left, failed = bool(self.next), self.failed_node is not None
        metadata: _Metadata = tuple.__getitem__(self, _METADATA)  # without large writes
        run = id_or_none((metadata or {}).get("run_id"))
        asked = self.interrupts
        return PhaseFacts(
            left,
            failed,
            bool(asked),
            self.is_held,
            run,
            self.is_worked_on,
            sleeps=all(question.sleeps for question in asked),
        )

    @property
    def is_stuck(self) -> bool:
        """Whether all tasks have finished but their writes conflict.

        Going on fails in the same way; `retry()` runs the tasks again, `update_state()` as one
        of them goes on with its update alone.
        """
        done = any(task.result is not None for task in self.tasks)
        waits = len(self.next) == len(self.tasks)  # else `next` leaves out the finished tasks
        return done and waits and all(task.error is not None for task in self.tasks)

    def to_dict(self) -> dict[str, Any]:
        """The snapshot as plain data, in the shape of LangGraph's server."""
        return {
            "values": self.values,
            "next": list(self.next),
            "config": self.config,
            "metadata": self.metadata,
            "created_at": self.created_at,
            "parent_config": self.parent_config,
            "tasks": [_task_dict(task) for task in self.tasks],
        }


class HeldSnapshot(StateSnapshot[Any]):
    """The snapshot of a thread's head that a run has claimed and has not left.

    A class of its own, because a snapshot has LangGraph's fields and no others.
    """

    __slots__ = ()

    @property
    def is_held(self) -> bool:
        """See `StateSnapshot.is_held`."""
        return True

    def __repr__(self) -> str:
        return snapshot_line(self)


class WorkedOnSnapshot(HeldSnapshot):
    """The same, of a run that still works as far as is known."""

    __slots__ = ()

    @property
    def is_worked_on(self) -> bool:
        """See `StateSnapshot.is_worked_on`."""
        return True


_Metadata = dict[str, Any] | None


class LateSnapshot(StateSnapshot[Any]):
    """A snapshot that decodes `metadata["writes"]` when its metadata is first looked at.

    It is for large writes, which would be second copies of values of the state. Made by `of`.
    """

    _read: Callable[[], dict[str, Any] | None] | None = None
    _kind: type[StateSnapshot[Any]] = StateSnapshot

    @classmethod
    def of(cls, shown: StateSnapshot, read: Callable[[], dict[str, Any] | None]) -> "LateSnapshot":
        """Make one.

        Args:
            shown: the snapshot; the writes in its metadata are replaced.
            read: decodes the writes; what it raises is raised where the metadata is looked at.
        """
        made = cls(*shown)
        made._read, made._kind = read, type(shown)
        return made

    @property
    def metadata(self) -> _Metadata:  # pyright: ignore[reportIncompatibleVariableOverride]
        """See `StateSnapshot.metadata`."""
        metadata: _Metadata = tuple.__getitem__(self, _METADATA)
        if self._read is not None and metadata is not None:
            metadata["writes"] = self._read()
            self._read = None
        return metadata

    @property
    def is_held(self) -> bool:
        """See `StateSnapshot.is_held`."""
        return issubclass(self._kind, HeldSnapshot)

    @property
    def is_worked_on(self) -> bool:
        """See `StateSnapshot.is_worked_on`."""
        return issubclass(self._kind, WorkedOnSnapshot)

    def __repr__(self) -> str:
        return snapshot_line(self)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._whole())

    def __getitem__(self, index: Any) -> Any:
        return self._whole()[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and self._whole() == tuple(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # pyright: ignore[reportAssignmentType] - as of any tuple with a dict

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle it as a snapshot that has its writes."""
        return self._kind, self._whole()

    def _replace(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, **fields: Any
    ) -> StateSnapshot:
        made, whole = self.__reduce__()
        return made(*whole)._replace(**fields)

    def _whole(self) -> tuple[Any, ...]:
        """The fields, with all metadata."""
        _ = self.metadata
        return tuple(tuple.__iter__(self))


_METADATA = StateSnapshot._fields.index("metadata")


class StateHistory(list[StateSnapshot]):
    """A list of snapshots that a notebook shows as a table: `StateHistory(history)`.

    `history` is what `graph.get_state_history(config)` returns, or any snapshots. It is read at
    once; pass `limit=` to `get_state_history` for a long thread.
    """

    def __repr__(self) -> str:
        return "\n".join(
            [f"<{type(self).__name__}: {count_text(len(self), 'snapshot')}>", *map(repr, self[:20])]
        )

    def _repr_html_(self) -> str:
        return history_table(self)


def _task_dict(task: PregelTask) -> dict[str, Any]:
    asked = [_question_dict(question) for question in task.interrupts]
    return {"id": task.id, "name": task.name, "error": task.error, "interrupts": asked}


def _question_dict(question: Interrupt) -> dict[str, Any]:
    shown = {"value": question.value, "id": question.id}
    schema = question.response_schema
    more = {} if schema is None else {"response_schema": schema}
    return {**shown, **more, **shown_times(question.timing)}
