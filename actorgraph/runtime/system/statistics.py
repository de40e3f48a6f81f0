"""Figures of an ActorSystem."""

import msgspec

from actorgraph.runtime.saver.statistics import PersistenceStatistics
from actorgraph.runtime.system.actor import SystemActor
from actorgraph.runtime.system.dispatch_actor import DispatchStatistics
from actorgraph.runtime.system.figures import GraphFigures

_FLOWS = ("started", "supersteps")


class AlarmCounts:
    """What the clock has done in a system so far.

    Attributes:
        answered: questions that answered themselves, and sleeps that ended.
        reminded: reminders of questions.
        escalations_failed: reminders whose function failed each time, or took too long.
    """

    __slots__ = ("answered", "escalations_failed", "reminded")

    def __init__(self) -> None:
        self.answered = self.reminded = self.escalations_failed = 0


class SystemStatistics(msgspec.Struct, frozen=True):
    """Figures of a system.

    Attributes:
        active: runs that are active now.
        queued: runs that wait for a slot or for their thread.
        held: runs that wait because another system has their thread.
        misfits: runs without a system that this one can't run, as of the last `recover`.
        threads: threads that have a run.
        mailbox_max: waiting runs of the thread with the most.
        max_runs: limit of `active`.
        max_queued: limit of `queued`.
        saturated: whether the next run may be refused.
        started: runs accepted so far.
        refused: runs refused so far.
        supersteps: done so far, also by active runs.
        left: status -> runs that have ended with it so far.
        draining: why the system takes no more runs; None while it does.
        worker_threads: sync nodes that run in threads now; None without `max_threads`.
        loop_held: how often the event loop was blocked for too long; 0 without `loop_limit_s`.
        loop_held_by: the node, or the place in the code, that did so last; "" for none.
        unsaved_bytes: bytes that wait to be committed.
        persistence: figures of the saver's actor; None without a saver.
        dispatch: figures of the dispatch, a few seconds old; None without a dispatcher.
        graphs: name -> figures of the graph's runs and nodes.
        suspects: runs that may kill processes, and wait to be tried alone or are being tried.
        tried_alone: suspects that were tried so far.
        sessions_renewed: sessions of the database that the saver has replaced so far.
        questions_due: questions that answered themselves so far, and sleeps that ended.
        reminders: of questions, so far.
        escalations_failed: reminders whose function failed each time, or took too long.
    """

    active: int
    queued: int
    held: int
    misfits: int
    threads: int
    mailbox_max: int
    max_runs: int
    max_queued: int
    saturated: bool
    started: int
    refused: int
    supersteps: int
    left: dict[str, int]
    draining: str | None
    worker_threads: int | None
    loop_held: int
    loop_held_by: str
    unsaved_bytes: int
    persistence: PersistenceStatistics | None
    dispatch: DispatchStatistics | None = None
    graphs: dict[str, GraphFigures] = {}
    suspects: int = 0
    tried_alone: int = 0
    sessions_renewed: int = 0
    questions_due: int = 0
    reminders: int = 0
    escalations_failed: int = 0


def statistics_of(
    actor: SystemActor,
    *,
    misfits: int,
    alarms: AlarmCounts,
    dispatch: DispatchStatistics | None = None,
) -> SystemStatistics:
    """The figures of a system.

    Args:
        misfits, dispatch: see `SystemStatistics`.
        alarms: what its clock has done.
    """
    limits, writer = actor.limits, None if actor.host is None else actor.host.writer
    unsaved = 0 if writer is None else writer.waiting_bytes
    watch = actor.watchdog
    full = actor.taken >= limits.max_runs and actor.queued >= limits.max_queued
    return SystemStatistics(
        active=actor.active,
        queued=actor.queued,
        held=len(actor.held),
        misfits=misfits,
        threads=len(actor.lanes),
        mailbox_max=max((len(lane.waiting) for lane in actor.lanes.values()), default=0),
        max_runs=limits.max_runs,
        max_queued=limits.max_queued,
        saturated=full or unsaved > limits.max_unsaved_bytes,
        started=actor.counts["started"],
        refused=actor.refused,
        supersteps=actor.counts["supersteps"] + sum(j.supersteps for j in actor.jobs.values()),
        left={status: count for status, count in actor.counts.items() if status not in _FLOWS},
        draining=actor.draining,
        worker_threads=None if actor.threads is None else actor.threads.limiter.borrowed_tokens,
        loop_held=0 if watch is None else watch.held,
        loop_held_by="" if watch is None else watch.culprit,
        unsaved_bytes=unsaved,
        persistence=None if writer is None else writer.statistics(),
        dispatch=dispatch,
        graphs=actor.figures.now(),
        suspects=actor.trials.suspects,
        tried_alone=actor.trials.tried,
        sessions_renewed=getattr(actor.host and actor.host.saver, "sessions_renewed", 0),
        questions_due=alarms.answered,
        reminders=alarms.reminded,
        escalations_failed=alarms.escalations_failed,
    )
