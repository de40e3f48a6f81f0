"""A run from its thread's checkpoint to its outcome: load, begin, supervise."""

import warnings
from collections.abc import Mapping
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any

import msgspec

from actorgraph.codec import Codec
from actorgraph.codec.handoff import HandOff
from actorgraph.codec.restore import Placement, open_claim, parent_writes, restore
from actorgraph.errors import CheckpointNotFoundError, OtherGraphWarning
from actorgraph.plan.evolution import check_fits, other_graph
from actorgraph.plan.graph import Plan
from actorgraph.runtime import tracing
from actorgraph.runtime.broadcast import Broadcast
from actorgraph.runtime.caching import ResultCache
from actorgraph.runtime.clock import IDS
from actorgraph.runtime.handle import NOTHING_SUPPLIED, Supplies
from actorgraph.runtime.hosting import Host
from actorgraph.runtime.lifecycle import lifecycle_of
from actorgraph.runtime.lineage import Lineage
from actorgraph.runtime.mailbox import Gate
from actorgraph.runtime.nested import NestedPlace, never_stored
from actorgraph.runtime.recording import recorded_after
from actorgraph.runtime.revisiting import Revisit, earlier, is_first_visit, revisit_of
from actorgraph.runtime.stopping import Stopping, depth_of
from actorgraph.runtime.supervisor import Supervisor
from actorgraph.runtime.warned import warn_of_node
from actorgraph.superstep.begin import begin
from actorgraph.superstep.begin import restore as restore_state
from actorgraph.superstep.continuing import go_on_with
from actorgraph.superstep.nesting import fixed_id, stable_namespace
from actorgraph.superstep.recorded import play_back
from actorgraph.superstep.replay import is_replay, replay
from actorgraph.superstep.state import Mint, RunState
from actorgraph.superstep.transplant import transplant
from actorgraph.values.commits import LoadCheckpoint, Loaded
from actorgraph.values.ids import as_text
from actorgraph.values.policies import RunPolicy
from actorgraph.values.records import Restored, StoredWrite
from actorgraph.values.run import NOTHING_ROUTED, Effect, RunOutcome


class Address(msgspec.Struct, frozen=True):
    """A thread, a namespace in it, and maybe one checkpoint of that.

    Attributes:
        named: for a run at a nested graph's checkpoint: namespace without task ids -> the
            namespace and checkpoint to begin with there.
    """

    thread_id: str = ""
    namespace: str = ""
    checkpoint: bytes | None = None
    named: Mapping[str, tuple[str, bytes]] = msgspec.field(default_factory=dict)


class Found(msgspec.Struct, frozen=True):
    """What loading a thread gave.

    Attributes:
        epoch: the thread's.
        restored: None when it has no checkpoint.
        elsewhere: whether that is of another namespace, to be taken over into this one.
        again: whether to begin with it whatever the input is.
        holder: the run that has the thread's claim.
        parents: the ledger of the checkpoint's parent, where it was read too.
    """

    epoch: int
    restored: Restored | None
    placement: Placement | None
    elsewhere: bool = False
    again: bool = False
    holder: bytes | None = None
    parents: tuple[StoredWrite, ...] | None = None


class Launch(msgspec.Struct, frozen=True):
    """Everything that a run needs to begin.

    Attributes:
        owner: the ActorSystem whose run it is.
        recorded: tell again what was recorded after the checkpoint, and run nothing.
        spans: are made of it; None where nobody traces.
    """

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
    place: NestedPlace | None = None
    supplies: Supplies = NOTHING_SUPPLIED
    stopping: Stopping = msgspec.field(default_factory=Stopping)
    cache: ResultCache | None = None
    recorded: bool = False
    owner: bytes | None = None
    spans: tracing.Spans | None = None

    def with_bare_output(self) -> "Launch":
        """The same with chunks that show the one output key's value without the key."""
        bare = msgspec.structs.replace(self.policy, bare=True)
        return msgspec.structs.replace(self, policy=bare)


async def load(
    host: Host,
    codec: Codec,
    plan: Plan,
    address: Address,
    *,
    nested: bool = False,
    parents: bool = False,
) -> Found:
    """Read a checkpoint, maybe with its parent's ledger, once a cancelled run there has left.

    Raises:
        CheckpointNotFoundError: the address names a checkpoint that the thread doesn't have.
        SchemaMismatchError: the graph has lost what the checkpoint needs.
    """
    while not nested and (leaving := _leaving(host, address.thread_id)) is not None:
        await leaving.wait()
    place = (address.thread_id, address.namespace, address.checkpoint)
    query = LoadCheckpoint(*place, ancestors=True, parent=parents)
    loaded: Loaded = await host.reader.ask(query)
    holder = None if loaded.open_run is None else loaded.open_run.run
    found = restore(codec, plan, loaded)
    if found is None:
        if address.checkpoint is not None:
            raise CheckpointNotFoundError(
                f"thread {address.thread_id!r} has no checkpoint {as_text(address.checkpoint)}",
                do="take an id from get_state_history()",
            )
        # The claim that a nested run finds is that of the run that it belongs to.
        unsaved = None if nested else _unsaved(codec, loaded, address)
        return Found(loaded.epoch, unsaved, None, holder=holder)
    check_fits(plan, found[0], address.thread_id)
    strange = other_graph(plan, found[0], address.thread_id)
    if strange is not None:
        warnings.warn(strange, OtherGraphWarning, stacklevel=2)
    writes = parent_writes(codec, loaded.checkpoint)
    return Found(loaded.epoch, *found, holder=holder, parents=writes)


def _leaving(host: Host, thread_id: str) -> Gate | None:
    gate = host.leaving.get(thread_id)
    return None if gate is None or gate.is_open else gate


def _unsaved(codec: Codec, loaded: Any, address: Address) -> Restored | None:
    """A thread whose first run claimed it in exit mode and died: an input, no checkpoint."""
    claim = open_claim(codec, loaded, address.thread_id)
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
    spans = tracing.begun(launch)
    if spans is None:
        return await _prepare(launch)
    try:
        return await _prepare(spans.launch)
    except BaseException as error:
        spans.end(error)
        raise


async def _prepare(launch: Launch) -> tuple[Supervisor, list[Any]]:
    host, address = launch.host, launch.address
    state = RunState(launch.plan, _policy(launch), _mint(launch), has_saver=host is not None)
    state.thread_id = address.thread_id
    state.namespace = address.namespace
    state.nested = launch.place.nested if launch.place else None
    state.stopping = launch.stopping.reason
    found, revisit = await _find(launch)
    if launch.recorded and host is not None and found.restored is not None:
        return await _prepare_recorded(launch, host, state, found.restored)
    if launch.spans is not None and found.restored is not None:
        launch.spans.goes_on(found.restored)
    handoff: HandOff | None = None
    if host is not None:
        handoff = HandOff(
            launch.codec,
            launch.plan,
            thread_id=address.thread_id,
            namespace=address.namespace,
            run=launch.run,
            epoch=found.epoch,
            owner=launch.owner,
            placed=found.placement,
            holder=found.holder,
            untracked=never_stored(launch.plan, launch.place),
        )
    loaded = found.restored.id if found.restored else None
    effects = _first_effects(state, found, launch.given)
    for sentence in state.dropped:
        warn_of_node("dropped", sentence)
    supervisor = Supervisor(
        state,
        config=launch.config,
        context=launch.context,
        lineage=_lineage(launch, state, _epoch(launch, found), loaded, revisit),
        bare=launch.place.scope.bare if launch.place else list(state.bare_answer),
        handoff=handoff,
    )
    if launch.spans is not None:
        supervisor.observe(launch.spans)
    supervisor.lifecycle = lifecycle_of(launch.config.get("callbacks"), state, launch.run)
    if supervisor.lifecycle is not None and found.restored is not None:
        await supervisor.lifecycle.begun(found.restored.id)
    return supervisor, effects


def _epoch(launch: Launch, found: Found) -> int:
    """The epoch that the run's claim leaves, for the runs inside of it."""
    return found.epoch if launch.owner is None else found.epoch + 1


async def _prepare_recorded(
    launch: Launch, host: Host, state: RunState, start: Restored
) -> tuple[Supervisor, list[Any]]:
    """The same for a replay that runs nothing."""
    thread_id = launch.address.thread_id
    chain = await recorded_after(host, launch.codec, launch.plan, start, thread_id)
    effects = play_back(state, chain)
    lineage = _lineage(launch, state, 1, None, None)
    supervisor = Supervisor(
        state, config=launch.config, context=launch.context, lineage=lineage, bare=[]
    )
    if launch.spans is not None:
        supervisor.observe(launch.spans)
    return supervisor, effects


async def _find(launch: Launch) -> tuple[Found, Revisit | None]:
    """What a run starts from, and the journey that it is part of."""
    host, place = launch.host, launch.place
    revisit = place.scope.lineage.revisit if place else None
    if host is None:
        return Found(1, None, None), revisit
    if place is not None and not place.nested.claims:
        return await _find_below(launch, host, place), revisit
    address = launch.address
    found = await load(host, launch.codec, launch.plan, address, nested=place is not None)
    if address.checkpoint is None:
        return found, revisit
    own = await revisit_of(host, address.thread_id, found.restored, address.named)
    return found, own or revisit


async def _find_below(launch: Launch, host: Host, place: NestedPlace) -> Found:
    """What a nested run starts from; at its first visit of a journey, a checkpoint of old."""
    lineage, address = place.scope.lineage, launch.address
    revisit = lineage.revisit
    if revisit is not None and is_first_visit(revisit, address.namespace):
        named = revisit.named.get(stable_namespace(address.namespace))
        if named is not None:
            return await _at(launch, host, *named, again=True)
        if place.nested.stateful and revisit.before is not None:
            found = await _remembered(launch, host, revisit.before)
            if found is not None:
                return found
    if place.fresh:
        return Found(lineage.epoch, None, None)
    return await load(host, launch.codec, launch.plan, address, nested=True)


async def _remembered(launch: Launch, host: Host, before: int) -> Found | None:
    """What a stateful nested graph knew before a place in its thread; None if it knows nothing."""
    thread_id, namespace = launch.address.thread_id, launch.address.namespace
    while (stored := await earlier(host, thread_id, namespace, before)) is not None:
        with suppress(CheckpointNotFoundError):  # removed between the two reads: look again
            found = await _at(launch, host, namespace, stored.row.id)
            return found if stored.sequence < before else _emptied(found)
    return None


async def _at(
    launch: Launch, host: Host, namespace: str, checkpoint: bytes, *, again: bool = False
) -> Found:
    address = Address(launch.address.thread_id, namespace, checkpoint)
    found = await load(host, launch.codec, launch.plan, address, nested=True)
    if namespace == launch.address.namespace:
        return msgspec.structs.replace(found, again=again)
    return msgspec.structs.replace(found, placement=None, elsewhere=True)


def _emptied(found: Found) -> Found:
    """The same place in a namespace without what the state there was: nothing is that old.

    Nor where it is stored: the next checkpoint would name it.
    """
    assert found.restored is not None
    restored = msgspec.structs.replace(found.restored, values={}, deltas={}, ledger=())
    return msgspec.structs.replace(found, restored=restored, placement=None)


def _first_effects(state: RunState, found: Found, given: Any) -> list[Effect]:
    restored = found.restored
    if restored is None or not (found.elsewhere or found.again):
        return begin(state, restored, given)
    restore_state(state, restored)
    if found.elsewhere:
        return transplant(state)
    return replay(state, restored) if is_replay(restored) else go_on_with(state, restored)


def _policy(launch: Launch) -> RunPolicy:
    """The run's policy; a nested run's checkpoints say under which ones they were made."""
    policy = launch.policy
    if launch.broadcast is not None and launch.broadcast.is_stored:
        policy = msgspec.structs.replace(policy, stored_stream=True)
    if launch.place is None:
        return policy
    metadata = {**policy.metadata, **launch.place.nested.metadata}
    return msgspec.structs.replace(policy, metadata=metadata)


def _mint(launch: Launch) -> Mint:
    place = launch.place
    if place is None or place.host is not None:
        return IDS.checkpoint
    base = place.scope.lineage.base()
    return lambda step, _: fixed_id(place.namespace, base, step)


def _lineage(
    launch: Launch, state: RunState, epoch: int, loaded: bytes | None, revisit: Revisit | None
) -> Lineage:
    above = state.nested.parents if state.nested else {}
    keys = launch.plan.state_keys
    return Lineage(
        thread_id=state.thread_id,
        namespace=state.namespace,
        run=launch.run,
        epoch=epoch,
        revisit=revisit,
        host=launch.host,
        policy=launch.policy,
        broadcast=launch.broadcast,
        untracked=never_stored(launch.plan, launch.place),
        parents=lambda: {**above, state.namespace: as_text(state.checkpoint)},
        base=lambda: state.checkpoint,
        step=lambda: state.step + 1,
        loaded=loaded,
        routed=state.nested.routed if state.nested else NOTHING_ROUTED,
        supplies=launch.supplies,
        values=lambda: {key: state.values[key] for key in keys if key in state.values},
        above=launch.place.scope if launch.place else None,
        owns=state.nested is None or state.nested.claims,
        progress=launch.place.scope.progress if launch.place else None,
        stopping=launch.stopping,
        cache=launch.cache,
        depth=depth_of(launch.place, launch.plan.name, launch.policy.nesting_limit),
    )


async def execute(launch: Launch) -> RunOutcome:
    """Run to the end in the caller's task."""
    supervisor, effects = await prepare(launch)
    return await supervisor.run_told(effects)


def caller_context() -> Context:
    """A copy of the context in which the caller stands."""
    return copy_context()
