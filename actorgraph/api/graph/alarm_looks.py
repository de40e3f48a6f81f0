"""Look at the open questions of a thread, and record that some have reminded."""

from collections.abc import Collection

import msgspec

from actorgraph.api.graph.addressed import AddressedGraph
from actorgraph.codec.save_encoder import SaveEncoder
from actorgraph.runtime.clock import IDS
from actorgraph.runtime.run.start import load
from actorgraph.superstep import begin
from actorgraph.superstep.reminding import open_questions, reminded
from actorgraph.superstep.run_state import RunState
from actorgraph.values.alarms import AlarmRow, TakeAlarm
from actorgraph.values.checkpoint import Restored
from actorgraph.values.commands import Interrupt
from actorgraph.values.commits import EPOCH_ANY, Commit, Request
from actorgraph.values.policies import Durability, RunPolicy
from actorgraph.values.run import Save


class Look(msgspec.Struct, frozen=True):
    """A thread at its head, and its open questions.

    Attributes:
        state: None if the thread has no checkpoint.
        restored: None likewise.
    """

    questions: tuple[Interrupt, ...] = ()
    state: RunState | None = None
    restored: Restored | None = None


async def look_at(at: AddressedGraph) -> Look:
    """Load a thread at its head.

    Raises:
        StorageError: it can't be read.
        SchemaMismatchError: the graph can't go on with it.
    """
    found = await load(at.host, at.codec, at.plan, at.address)
    restored = found.restored if found.restored and found.restored.id else None
    if restored is None:
        return Look()
    state = RunState(at.plan, RunPolicy(durability=Durability.SYNC), IDS.checkpoint, has_saver=True)
    state.thread_id, state.namespace = at.address.thread_id, at.address.namespace
    begin.restore(state, restored)
    asked = open_questions(state, restored).values()
    return Look(tuple(q for some in asked for q in some), state, restored)


async def store_reminded(
    at: AddressedGraph, row: AlarmRow, look: Look, ids: Collection[str], now: int
) -> None:
    """Record that open questions have reminded, and set the thread's next alarm.

    Args:
        row: the alarm, as it was taken. If a run has set another one since, that one stays: the
            run may have asked what `look` doesn't know.
        look: at the thread.
        ids: of the questions; none only sets the alarm.
        now: microseconds since 1970-01-01 UTC, by the store's clock.
    Raises:
        ConflictError: the thread has gone on since; the run that moved it sets its alarm.
        StorageError: it can't be stored.
    """
    if look.state is None or look.restored is None:
        return
    save = reminded(look.state, look.restored, ids, now)
    requests: list[Request] = [TakeAlarm(row.thread_id, row.at, save.alarm or 0)]
    if save.ledger:
        requests.insert(0, _commit(at, save))
    for outcome in await at.host.writer.store_each(*requests):
        if isinstance(outcome, BaseException):
            raise outcome


def _commit(at: AddressedGraph, save: Save) -> Commit:
    encoder = SaveEncoder(
        at.codec,
        at.plan,
        thread_id=at.address.thread_id,
        namespace=at.address.namespace,
        run=b"",
        epoch=EPOCH_ANY,
        stamped=False,
    )
    return msgspec.structs.replace(encoder.commit(save), run=None, strict=True, alarm=None)
