"""Checks of savers that store alarms of threads; left out unless `keeps_alarms` is true."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from actorgraph.ports import Saver
from actorgraph.testing.conformance.builders import OTHER, RUN, Ids, commit_batch, outside
from actorgraph.testing.conformance.harness import Bench, NotOfferedError, check, same
from actorgraph.testing.conformance.row_checks import kind_of
from actorgraph.values.alarms import Alarm, AlarmRow, ListAlarms, TakeAlarm
from actorgraph.values.commits import Commit, Committed
from actorgraph.values.retention import CopyThread, DeleteThread, KeepLatest

G, H = "g", "h"


@asynccontextmanager
async def _port(bench: Bench) -> AsyncGenerator[Saver]:
    async with bench.port() as port:
        if not getattr(port, "keeps_alarms", False):
            raise NotOfferedError("its keeps_alarms is false")
        yield port


async def _alarms(port: Saver, *graphs: str, limit: int = 99) -> list[tuple[str, int, str]]:
    """The thread, time and graph of each alarm of these graphs, in order."""
    (rows,) = await port.query([ListAlarms(graphs or (G, H), limit)])
    assert all(type(row) is AlarmRow for row in rows)
    return [(row.thread_id, row.at, row.graph) for row in rows]


def _begun(ids: Ids, thread: str, alarm: Alarm | None, number: int = 1) -> Commit:
    return ids.claim(RUN, None, ids.point(number), thread_id=thread, alarm=alarm)


@check("alarms")
async def alarms_come_in_order(bench: Bench) -> None:
    """The alarms of the asked graphs come by time, then thread, and not more than asked for."""
    ids = Ids()
    async with _port(bench) as port:
        times = {"d": (40, G), "a": (40, G), "c": (7, G), "b": (8, H), "none": None}
        commits = [
            _begun(ids, thread, Alarm(*time) if time else None, number)
            for number, (thread, time) in enumerate(times.items(), 1)
        ]
        await commit_batch(port, *commits)
        own = [("c", 7, G), ("a", 40, G), ("d", 40, G)]
        same(await _alarms(port, G), own, "those of one graph")
        same(await _alarms(port, G, H), [own[0], ("b", 8, H), *own[1:]], "those of both")
        same(await _alarms(port, G, limit=2), own[:2], "the first two")
        same(await _alarms(port, "other"), [], "those of another graph")


@check("alarms")
async def a_commit_sets_the_alarm(bench: Bench) -> None:
    """A commit replaces its thread's alarm, leaves it or takes it away; a refused one does not."""
    ids = Ids()
    async with _port(bench) as port:
        first = ids.claim(RUN, None, ids.point(1), alarm=Alarm(5, G))
        same(kind_of((await commit_batch(port, first))[0]), "stored", "the first commit")
        steps = [
            (ids.save(RUN, 1, ids.point(2, 1)), "stored", [("t", 5, G)]),
            (ids.save(RUN, 2, ids.point(3, 2), alarm=Alarm(9, H)), "stored", [("t", 9, H)]),
            (ids.save(OTHER, 3, alarm=Alarm(1, G)), "ConflictError", [("t", 9, H)]),
            (ids.save(RUN, 1, alarm=Alarm(0)), "ConflictError", [("t", 9, H)]),
            (outside(ids.point(4, 3), alarm=Alarm(2, G)), "stored", [("t", 2, G)]),
            (outside(ids.point(5, 4), alarm=Alarm(0)), "stored", []),
            (outside(ids.point(6, 5), alarm=Alarm(0)), "stored", []),
        ]
        for number, (commit, kind, wanted) in enumerate(steps):
            (outcome,) = await commit_batch(port, commit)
            same(kind_of(outcome), kind, f"outcome {number}")
            same(await _alarms(port), wanted, f"alarms after {number}")


@check("alarms")
async def several_commits_of_a_batch_set_it_in_order(bench: Bench) -> None:
    """The last commit of a batch that says something about a thread's alarm decides."""
    ids = Ids()
    async with _port(bench) as port:
        await commit_batch(
            port,
            ids.claim(RUN, None, ids.point(1), alarm=Alarm(5, G)),
            ids.save(RUN, 1, ids.point(2, 1), alarm=Alarm(0)),
            ids.save(RUN, 2, ids.point(3, 2), alarm=Alarm(6, G)),
            ids.save(RUN, 3, ids.point(4, 3)),
            _begun(ids, "u", Alarm(5, G), 9),
            ids.save(RUN, 9, ids.point(10, 9), thread_id="u", alarm=Alarm(0)),
        )
        same(await _alarms(port), [("t", 6, G)], "the alarms")


@check("alarms")
async def an_alarm_is_taken_once(bench: Bench) -> None:
    """Of those that take an alarm at the time that they have read, one gets it."""
    ids = Ids()
    async with _port(bench) as port:
        await commit_batch(port, ids.claim(RUN, None, ids.point(1), alarm=Alarm(5, G)))
        outcomes = await commit_batch(
            port,
            TakeAlarm("t", 4, 20),
            TakeAlarm("t", 5, 20),
            TakeAlarm("t", 5, 30),
            TakeAlarm("unknown", 5, 20),
        )
        taken = [o.sequence if isinstance(o, Committed) else o for o in outcomes]
        same(taken, [0, 1, 0, 0], "what was taken")
        same(await _alarms(port), [("t", 20, G)], "the alarms")
        outcomes = await commit_batch(port, TakeAlarm("t", 5, 0), TakeAlarm("t", 20, 0))
        taken = [o.sequence if isinstance(o, Committed) else o for o in outcomes]
        same(taken, [0, 1], "what was taken away")
        same(await _alarms(port), [], "the alarms after a time of 0")


@check("alarms")
async def alarms_go_with_their_thread(bench: Bench) -> None:
    """A deleted thread has no alarm, nor has a copy; a prune leaves it."""
    ids = Ids()
    async with _port(bench) as port:
        await commit_batch(
            port,
            ids.claim(RUN, None, ids.point(1), alarm=Alarm(5, G)),
            ids.save(RUN, 1, ids.point(2, 1), ends="interrupted"),
            CopyThread("copy", "t"),
            KeepLatest("t"),
        )
        same(await _alarms(port), [("t", 5, G)], "the alarms after a copy and a prune")
        await commit_batch(port, DeleteThread("t"))
        same(await _alarms(port), [], "the alarms after the thread's removal")
        (outcome,) = await commit_batch(port, TakeAlarm("t", 5, 20))
        same(outcome.sequence if isinstance(outcome, Committed) else 1, 0, "what was taken")
