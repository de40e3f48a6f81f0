"""The figures of the page of the system: what each means, when to worry, and its alert rule. Pure.

The rules are those of docs/operations.md, Alerts.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from actorgraph.internals import SAMPLE_S, StatisticsSample, SystemStatistics
from actorgraph.studio.shown import age_of
from actorgraph.systems import SystemOwner


class Figure(msgspec.Struct, frozen=True):
    """One number of now.

    Attributes:
        value: as text, with its unit.
        meaning: one sentence.
        worry: when to act.
        rule: the alert of docs/operations.md; "" for none.
        path: of the page with what is counted; "" for none.
        is_bad: whether it is time to worry.
    """

    title: str
    value: str
    meaning: str
    worry: str
    rule: str = ""
    path: str = ""
    is_bad: bool = False


class Chart(msgspec.Struct, frozen=True):
    """One number over time; `read` takes it from a sample, in `unit`."""

    title: str
    unit: str
    read: Callable[[StatisticsSample], float]
    meaning: str
    worry: str
    rule: str = ""


CHARTS = (
    Chart(
        "Active runs",
        "",
        lambda one: one.active,
        "Runs that work at the moment.",
        "Worry when it stays at the limit while runs wait.",
        "SystemIsFull",
    ),
    Chart(
        "Waiting runs",
        "",
        lambda one: one.backlog,
        "Runs that wait for a slot, their thread or a worker.",
        "Worry when it only grows: start workers, or raise max_runs.",
        "RunsWait",
    ),
    Chart(
        "Runs ended",
        " /s",
        lambda one: one.ended / SAMPLE_S,
        "Runs that end in a second, however they end.",
        "Worry when it falls to 0 while runs are active.",
    ),
    Chart(
        "Failed runs",
        " /min",
        lambda one: one.errors * 60 / SAMPLE_S,
        "Runs that failed, ran out of time or were parked, in a minute.",
        "Worry above a twentieth of the runs that end: look at their errors.",
        "RunsFail",
    ),
    Chart(
        "Supersteps",
        " /s",
        lambda one: one.supersteps / SAMPLE_S,
        "Steps of graphs that are done in a second: the work itself.",
        "Worry when it falls while as many runs are active: something is slow.",
        "NodeIsSlow",
    ),
    Chart(
        "Commit latency",
        " ms",
        lambda one: (one.commit_s or 0) * 1000,
        "Time that the database takes to store a batch of saves.",
        "Worry above 1,000 ms: the disk or the database is overloaded.",
        "SavesAreSlow",
    ),
    Chart(
        "Commits",
        " /s",
        lambda one: one.commits / SAMPLE_S,
        "Batches of saves that are stored in a second; a batch has many saves under load.",
        "Worry when it is 0 while data is unsaved.",
        "SavesAreSlow",
    ),
    Chart(
        "Unsaved data",
        " MB",
        lambda one: one.unsaved_bytes / 1e6,
        "Results in memory that wait to be stored; after a kill they are computed again.",
        "Worry when it only grows: runs make more than the database takes.",
        "SavesAreSlow",
    ),
    Chart(
        "Event loop delay",
        " ms",
        lambda one: one.loop_delay_s * 1000,
        "How late the event loop was for a timer: the time that something else held it.",
        "Worry above 100 ms: a node blocks the loop, or the machine has too little CPU.",
        "LoopIsBlocked",
    ),
)


def figures_of(
    now: SystemStatistics, threads: Any, owners: Sequence[SystemOwner]
) -> tuple[Figure, ...]:
    """Return the figures of now.

    Args:
        threads: a `ThreadFigures`; None if threads could not be counted.
    """
    return (*_run_figures(now), *_thread_figures(threads), *_other_figures(now, owners))


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def _run_figures(now: SystemStatistics) -> tuple[Figure, ...]:
    return (
        Figure(
            "Active",
            f"{now.active:,} of {now.max_runs:,}",
            "Runs that work now, of those that may at once.",
            "Worry when it stays at the limit while runs wait.",
            "SystemIsFull",
            "/runs?status=running",
            now.saturated,
        ),
        Figure(
            "Queued",
            f"{now.queued:,} of {now.max_queued:,}",
            "Runs that wait for a slot, or for another run of their thread.",
            "Worry near the limit: then new runs are refused.",
            "SystemIsFull",
            "/runs?status=pending",
            now.queued * 10 > now.max_queued * 9,
        ),
        Figure(
            "Held elsewhere",
            str(now.held),
            "Runs that wait because another system has their thread.",
            "Worry when it lasts longer than that run: see the leases.",
        ),
    )


def _thread_figures(found: Any) -> tuple[Figure, ...]:
    if found is None:
        text = "Threads could not be counted just now; the log says why."
        return (Figure("Threads", "unknown", text, "Worry if it lasts: is the database there?"),)
    parked = Figure(
        "Parked",
        _count(found.parked, "run"),
        "Runs that were given up, because processes died of them again and again.",
        "Worry at the first one: find out why, then retry it.",
        "RunIsParked",
        "/runs?status=parked",
        found.parked > 0,
    )
    if found.waiting is None:
        text = "Waiting and cut off threads are not counted: this saver keeps no index of threads."
        return (parked, Figure("Threads", "not counted", text, ""))
    oldest = f", oldest {age_of(found.oldest_s)}" if found.waiting else ""
    return (
        Figure(
            "Waiting for a person",
            _count(found.waiting, "thread") + oldest,
            "Threads with a question that no one has answered yet.",
            "Worry when the oldest is older than a person may take: a day, say.",
            "QuestionIsOld",
            "/threads?status=waiting",
            found.oldest_s > 86_400,
        ),
        _sleeping(found.sleeping or 0),
        Figure(
            "Cut off",
            _count(found.cut_off or 0, "thread"),
            "Threads whose process has died, and that no one has taken over yet.",
            "Worry after ten minutes: is a worker alive that has their graph?",
            "ThreadsWereCutOff",
            "/threads?status=cut_off",
            bool(found.cut_off),
        ),
        parked,
        Figure(
            "Unfinished",
            _count(found.unfinished or 0, "thread"),
            "Threads with work left that no run does: a breakpoint, a cancellation or an edit.",
            "No alarm: someone decided it.",
            "",
            "/threads?status=unfinished",
        ),
    )


def _sleeping(count: int) -> Figure:
    return Figure(
        "Sleeping",
        _count(count, "thread"),
        "Threads that go on by themselves when their time has come.",
        "No alarm: they wait for nobody.",
        "",
        "/threads?status=sleeping",
    )


def _other_figures(now: SystemStatistics, owners: Sequence[SystemOwner]) -> tuple[Figure, ...]:
    alive = sum(one.alive for one in owners)
    lost = sum(not one.alive and one.runs > 0 for one in owners)
    found = [
        Figure(
            "Leases",
            f"{alive} valid, {lost} lost",
            "Each process renews its lease while it lives; others take over a lost one.",
            "Worry when a lost lease keeps its runs: no process takes them over.",
            "ThreadsWereCutOff",
            "",
            lost > 0,
        ),
        Figure(
            "Unsaved",
            f"{now.unsaved_bytes / 1e6:.3g} MB",
            "Results in memory that wait to be stored.",
            "Worry when it only grows.",
            "SavesAreSlow",
        ),
        Figure(
            "Suspects",
            _count(now.suspects, "run"),
            "Runs during which processes died; each is tried alone.",
            "Worry at the first one: it may kill the next process.",
            "RunKillsProcesses",
            "",
            now.suspects > 0,
        ),
    ]
    if now.dispatch is not None:
        found.append(
            Figure(
                "Waiting for a worker",
                _count(now.dispatch.waiting, "run") + f", oldest {age_of(now.dispatch.oldest_s)}",
                "Runs that no worker has claimed yet.",
                "Worry above a minute: start workers.",
                "RunsWait",
                "/runs?status=pending",
                now.dispatch.oldest_s > 60,
            )
        )
    return tuple(found)
