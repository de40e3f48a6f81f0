"""A run from its thread's checkpoint to its outcome: load, begin, supervise."""

from contextvars import Context, copy_context
from typing import Any

import msgspec

from actorgraph.codec import Codec
from actorgraph.codec.handoff import HandOff
from actorgraph.codec.restore import Placement, open_claim, restore
from actorgraph.errors import CheckpointNotFoundError
from actorgraph.plan.graph import Plan
from actorgraph.runtime.broadcast import Broadcast
from actorgraph.runtime.clock import IDS
from actorgraph.runtime.hosting import Host
from actorgraph.runtime.supervisor import Supervisor
from actorgraph.superstep.begin import begin
from actorgraph.superstep.state import RunState
from actorgraph.values.commits import LoadCheckpoint
from actorgraph.values.ids import as_text
from actorgraph.values.policies import RunPolicy
from actorgraph.values.records import Restored
from actorgraph.values.run import Outcome


class Address(msgspec.Struct, frozen=True):
    """A thread, a namespace in it, and maybe one checkpoint of that."""

    thread_id: str = ""
    namespace: str = ""
    checkpoint: bytes | None = None


class Found(msgspec.Struct, frozen=True):
    """What loading a thread gave.

    Attributes:
        epoch: the thread's.
        restored: None when it has no checkpoint.
    """

    epoch: int
    restored: Restored | None
    placement: Placement | None


class Launch(msgspec.Struct, frozen=True):
    """Everything that a run needs to begin."""

    plan: Plan
    policy: RunPolicy
    address: Address
    given: Any
    config: dict[str, Any]
    host: Host | None
    codec: Codec
    context: Context
    run: bytes
    broadcast: Broadcast | None = None


async def load(host: Host, codec: Codec, plan: Plan, address: Address) -> Found:
    """Read a checkpoint, after a cancelled run on its thread has left.

    Raises:
        CheckpointNotFoundError: the address names a checkpoint that the thread doesn't have.
    """
    while (leaving := host.leaving.get(address.thread_id)) is not None and not leaving.is_open:
        await leaving.wait()
    query = LoadCheckpoint(address.thread_id, address.namespace, address.checkpoint)
    loaded = await host.reader.ask(query)
    found = restore(codec, plan, loaded)
    if found is None:
        if address.checkpoint is not None:
            raise CheckpointNotFoundError(
                f"thread {address.thread_id!r} has no checkpoint {as_text(address.checkpoint)}",
                do="take an id from get_state_history()",
            )
        return Found(loaded.epoch, _unsaved(codec, loaded), None)
    return Found(loaded.epoch, *found)


def _unsaved(codec: Codec, loaded: Any) -> Restored | None:
    """A thread whose first run claimed it in exit mode and died: an input, no checkpoint."""
    claim = open_claim(codec, loaded)
    if claim is None:
        return None
    return Restored(
        id=b"",
        parent=None,
        sequence=0,
        namespace="",
        step=-2,
        source="input",
        created=0,
        run=claim.run,
        graph="",
        values={},
        versions={},
        seen={},
        updated=None,
        next=(),
        metadata={},
        claim=claim,
    )


async def prepare(launch: Launch) -> tuple[Supervisor, list[Any]]:
    """The supervisor of a run and its first effects.

    Raises: whatever `begin` refuses, before anything is written.
    """
    host, address = launch.host, launch.address
    state = RunState(launch.plan, launch.policy, IDS.checkpoint, has_saver=host is not None)
    state.thread_id = address.thread_id
    state.namespace = address.namespace
    restored: Restored | None = None
    handoff: HandOff | None = None
    if host is not None:
        found = await load(host, launch.codec, launch.plan, address)
        restored = found.restored
        handoff = HandOff(
            launch.codec,
            launch.plan,
            thread_id=address.thread_id,
            namespace=address.namespace,
            run=launch.run,
            epoch=found.epoch,
            placed=found.placement,
        )
    effects = begin(state, restored, launch.given)
    supervisor = Supervisor(
        state,
        config=launch.config,
        context=launch.context,
        run=launch.run,
        host=host,
        handoff=handoff,
        broadcast=launch.broadcast,
    )
    return supervisor, effects


async def execute(launch: Launch) -> Outcome:
    """Run to the end in the caller's task."""
    supervisor, effects = await prepare(launch)
    return await supervisor.run(effects)


def caller_context() -> Context:
    """A copy of the context in which the caller stands."""
    return copy_context()
