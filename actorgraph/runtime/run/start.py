"""Start a run: load its thread's checkpoint, begin or resume, set up its supervisor."""

import sys
from contextlib import suppress
from typing import Any

import msgspec

from actorgraph.bridging import BRIDGE
from actorgraph.codec import Codec
from actorgraph.codec.restore import (
    ParentWrites,
    Placement,
    parent_writes,
    restore,
    restore_claim,
)
from actorgraph.codec.save_encoder import SaveEncoder
from actorgraph.errors import CheckpointNotFoundError, OtherGraphWarning
from actorgraph.errors.warning_places import warn
from actorgraph.plan.compatibility import other_graph
from actorgraph.plan.plan import Plan
from actorgraph.runtime.clock import IDS
from actorgraph.runtime.log import imported_module
from actorgraph.runtime.own_spans import OwnSpans
from actorgraph.runtime.run.below import (
    at_stored_namespace,
    check_below,
    check_shared_values,
    subgraph_of,
)
from actorgraph.runtime.run.blocking_supervisor import BlockingSupervisor
from actorgraph.runtime.run.callbacks import lifecycle_of
from actorgraph.runtime.run.launch import Address, Launch, RunCallbacks, RunSpans
from actorgraph.runtime.run.node_warnings import warn_of_node
from actorgraph.runtime.run.supervisor import Supervisor
from actorgraph.runtime.saver.hosting import Host
from actorgraph.runtime.saver.time_travel import (
    TimeTravel,
    checkpoint_before,
    is_first_visit,
    recorded_after,
    time_travel_of,
)
from actorgraph.runtime.stepper import steps_here
from actorgraph.runtime.task.nested import NestedPlace, depth_of, never_stored
from actorgraph.runtime.task.scope import RunContext
from actorgraph.superstep.begin import begin, begin_named
from actorgraph.superstep.begin import restore as restore_state
from actorgraph.superstep.changes.change import check_fits
from actorgraph.superstep.changes.edited import go_on_edited, is_edited, only_edits
from actorgraph.superstep.changes.lost_tools import runs_tools
from actorgraph.superstep.nesting import continues_stored, fixed_id, stable_namespace
from actorgraph.superstep.playback import play_back
from actorgraph.superstep.replay import is_replay, transplant
from actorgraph.superstep.run_state import Mint, RunState
from actorgraph.values.checkpoint import Restored
from actorgraph.values.commands import Command
from actorgraph.values.commits import LoadCheckpoint, Loaded
from actorgraph.values.ids import as_text
from actorgraph.values.policies import RunPolicy
from actorgraph.values.run import NOTHING_ROUTED, Effect


class LoadedThread(msgspec.Struct, frozen=True):
    """A thread as it was loaded.

    Attributes:
        epoch: of the thread.
        restored: its checkpoint; None if it has none.
        placement: where the checkpoint's values are stored; None to store all values anew.
        elsewhere: whether the checkpoint is of another namespace, to be copied into this one.
        again: whether to begin with it regardless of the input.
        asked: the checkpoint whose questions the answers are for, if it was edited since.
        holder: id of the run that has the thread's claim, or None.
        parents: pending writes of the checkpoint's parent, if they were read too.
    """

    epoch: int
    restored: Restored | None
    placement: Placement | None
    elsewhere: bool = False
    again: bool = False
    asked: Restored | None = None
    holder: bytes | None = None
    parents: ParentWrites | None = None


async def load(
    host: Host,
    codec: Codec,
    plan: Plan,
    address: Address,
    *,
    nested: bool = False,
    parents: bool = False,
    declared: bool = True,
) -> LoadedThread:
    """Read a checkpoint, after waiting for a cancelled run of the thread to leave.

    Args:
        nested: whether it is for a subgraph's run, which belongs to the run on the thread.
        parents: whether to read the pending writes of its parent too.
        declared: whether `plan` belongs to the namespace. A checkpoint of one whose graph isn't
            known is read as far as the plan goes, and not compared with it.
    Raises:
        CheckpointNotFoundError: the address names a checkpoint that the thread doesn't have.
        SchemaMismatchError: the graph lacks channels or nodes that the checkpoint needs.
    """
    # A cancelled run still stores its finished work: a read before that is out of date.
    # A gate that is open belongs to a run that has left meanwhile.
    while not nested and (leaving := host.leaving.get(address.thread_id)) and not leaving.is_open:
        await leaving.wait()
    place = (address.thread_id, address.namespace, address.checkpoint)
    query = LoadCheckpoint(*place, ancestors=True, parent=parents)
    loaded: Loaded = await host.reader.ask(query)
    holder = None if loaded.open_run is None else loaded.open_run.run
    restored = None if loaded.checkpoint is None else restore(codec, plan, loaded)
    if restored is None:
        if address.checkpoint is not None:
            raise CheckpointNotFoundError(
                f"thread {address.thread_id!r} has no checkpoint {as_text(address.checkpoint)}",
                do="take an id from get_state_history()",
            )
        # A nested run finds the claim of its own root run: that run has not died.
        dead = not nested and holder is not None
        unsaved = restore_claim(codec, plan, loaded, address.thread_id) if dead else None
        if unsaved is not None and declared:
            check_fits(plan, unsaved, address.thread_id)
        return LoadedThread(loaded.epoch, unsaved, None, holder=holder)
    if declared:
        await _check(host, plan, restored[0], address.thread_id, nested=nested)
    writes = parent_writes(codec, loaded.checkpoint)
    return LoadedThread(loaded.epoch, *restored, holder=holder, parents=writes)


async def _check(
    host: Host, plan: Plan, restored: Restored, thread_id: str, *, nested: bool
) -> None:
    """Refuse a checkpoint that the graph can't go on from, and warn of another graph's."""
    check_fits(plan, restored, thread_id)
    changed = plan.migrations or restored.graph != plan.graph_id
    below = plan.subgraphs
    if not nested and (changed or (below and any(_is_looked_at(plan, b) for b in below))):
        await check_below(host, plan, restored, thread_id)
    strange = other_graph(plan, restored, thread_id)
    if strange is not None:
        warn(strange, OtherGraphWarning)


def _is_looked_at(plan: Plan, node: str) -> bool:
    """Whether a subgraph may have changed although the graph above has the same id."""
    graph = subgraph_of(plan, node)
    if graph is None:
        return False
    deeper = any(_is_looked_at(graph.plan, below) for below in graph.plan.subgraphs)
    return deeper or bool(graph.plan.migrations) or runs_tools(graph.plan)


async def prepare(launch: Launch) -> tuple[Supervisor, list[Any]]:
    """Set up a run.

    Returns: its supervisor and the first effects to carry out.
    Raises: the errors of loading and of `begin`, before anything is written.
    """
    if launch.spans is None and "opentelemetry.trace" in sys.modules and OwnSpans.on:
        spans = begin_spans(launch)
        if spans is not None:
            return await _prepare_traced(spans)
    if launch.callbacks is None and BRIDGE.calls_module in sys.modules:
        reported = await BRIDGE.begin_run(launch)
        if reported is not None:
            return await _prepare_reported(reported)
    if launch.place is not None and launch.place.earlier:
        launch = await at_stored_namespace(launch)
    host, address, place, plan = launch.host, launch.address, launch.place, launch.template.plan
    policy = launch.policy if place is None and launch.broadcast is None else _policy(launch)
    mint = IDS.checkpoint if place is None else _mint(place)
    state = RunState(plan, policy, mint, has_saver=host is not None)
    state.thread_id, state.namespace = address.thread_id, address.namespace
    state.nested = None if place is None else place.nested
    state.stopping = launch.stopping.reason
    time_travel: TimeTravel | None = None
    if host is None or place is not None or address.checkpoint is not None:
        thread, time_travel = await _find(launch)
    else:
        thread = await load(host, launch.template.codec, plan, address)
    if launch.recorded and host is not None and thread.restored is not None:
        return await _prepare_recorded(launch, host, state, thread.restored)
    if launch.spans is not None and thread.restored is not None:
        launch.spans.link_resumed(thread.restored)
    untracked = plan.untracked if place is None else never_stored(plan, place)
    save_encoder = None if host is None else _save_encoder(launch, thread, untracked)
    effects = _first_effects(state, thread, launch)
    for sentence in state.dropped:
        warn_of_node("dropped", sentence, None)
    supervisor = _supervisor(
        launch,
        state,
        run_context=_run_context(launch, state, thread, untracked, time_travel),
        unaddressed_answers=_unaddressed_answers(state, place),
        save_encoder=save_encoder,
    )
    callbacks = launch.config.get("callbacks")
    if callbacks:
        supervisor.lifecycle = lifecycle_of(callbacks, state, launch.run)
    if supervisor.lifecycle is not None and thread.restored is not None:
        await supervisor.lifecycle.notify_resumed(thread.restored.id)
    return supervisor, effects


def _unaddressed_answers(state: RunState, place: NestedPlace | None) -> list[Any]:
    """The answers without an id that the run has for its first questions."""
    own = list(state.unaddressed_answer)
    return own if place is None else own or place.scope.unaddressed_answers


async def _prepare_traced(spans: RunSpans) -> tuple[Supervisor, list[Any]]:
    """As `prepare`, for a run with spans, which end if it is refused."""
    try:
        return await prepare(spans.launch)
    except BaseException as error:
        spans.end(error)
        raise


async def _prepare_reported(callbacks: RunCallbacks) -> tuple[Supervisor, list[Any]]:
    """As `prepare`, for a run that is reported to LangChain's callbacks, also if it is refused."""
    try:
        return await prepare(callbacks.launch)
    except BaseException as error:
        await callbacks.end(error)
        raise


def begin_spans(launch: Launch) -> RunSpans | None:
    """Begin the span of a run; None if the program doesn't trace, or this run isn't sampled.

    A program traces if it has set a tracer provider of OpenTelemetry's.
    """
    api = imported_module("opentelemetry.trace")
    if api is None:
        return None  # not imported, so no provider is set
    if isinstance(api.get_tracer_provider(), api.ProxyTracerProvider):
        return None  # imported by some package, but no provider is set
    from actorgraph.runtime.run.tracing import begin

    return begin(launch)


def _save_encoder(launch: Launch, thread: LoadedThread, untracked: frozenset[str]) -> SaveEncoder:
    return SaveEncoder(
        launch.template.codec,
        launch.template.plan,
        thread_id=launch.address.thread_id,
        namespace=launch.address.namespace,
        run=launch.run,
        epoch=thread.epoch,
        owner=launch.owner,
        placed=thread.placement,
        holder=thread.holder,
        untracked=untracked,
        above=_above(launch),
    )


def _above(launch: Launch) -> Plan | None:
    """The graph above a nested run."""
    return None if launch.place is None else launch.place.scope.run_context.state.plan


async def _prepare_recorded(
    launch: Launch, host: Host, state: RunState, start: Restored
) -> tuple[Supervisor, list[Any]]:
    """Set up a replay that runs no nodes; as `prepare`."""
    thread_id = launch.address.thread_id
    chain = await recorded_after(
        host, launch.template.codec, launch.template.plan, start, thread_id
    )
    effects = play_back(state, chain)
    untracked = never_stored(launch.template.plan, launch.place)
    run_context = _run_context(launch, state, LoadedThread(1, None, None), untracked, None)
    return _supervisor(launch, state, run_context=run_context, unaddressed_answers=[]), effects


def _supervisor(launch: Launch, state: RunState, **parts: Any) -> Supervisor:
    """Make the supervisor of a run, which is traced and reported if the launch says so."""
    own = BlockingSupervisor if steps_here() else Supervisor
    make = own if launch.callbacks is None else launch.callbacks.supervisor
    supervisor: Supervisor = make(state, config=launch.config, context=launch.context, **parts)
    if launch.spans is not None:
        supervisor.observe(launch.spans)
    return supervisor


async def _find(launch: Launch) -> tuple[LoadedThread, TimeTravel | None]:
    """Load the thread that a run starts from, and the time travel that it is part of."""
    host, place = launch.host, launch.place
    time_travel = place.scope.run_context.time_travel if place else None
    if host is None:
        return LoadedThread(1, None, None), time_travel
    address, above = launch.address, _above(launch)
    if place is not None and not place.nested.claims:
        thread = await _find_below(launch, host, place)
        check_shared_values(above, launch.template.plan, thread.restored, address.thread_id)
        return thread, time_travel
    thread = await load(
        host, launch.template.codec, launch.template.plan, address, nested=place is not None
    )
    check_shared_values(above, launch.template.plan, thread.restored, address.thread_id)
    if address.checkpoint is None:
        return thread, time_travel
    # A new input makes new tasks, whose subgraphs begin anew.
    goes_on = launch.given is None or isinstance(launch.given, Command)
    named = address.named if goes_on else {}
    own = await time_travel_of(host, address.thread_id, thread.restored, named)
    return thread, own or time_travel


async def _find_below(launch: Launch, host: Host, place: NestedPlace) -> LoadedThread:
    """Load the state that a nested run starts from.

    In time travel, at the namespace's first visit, that is an old checkpoint: the one that the
    config names; else, of a stateful subgraph, the newest from before the parent's.
    """
    run_context, address = place.scope.run_context, launch.address
    time_travel = run_context.time_travel
    if time_travel is not None and is_first_visit(time_travel, address.namespace):
        named = time_travel.named.get(stable_namespace(address.namespace))
        if named is not None:
            thread = await _at(launch, host, *named, again=True)
            return await _with_asked(launch, host, place, thread)
        if place.nested.stateful and time_travel.before is not None:
            thread = await _remembered(launch, host, time_travel.before)
            if thread is not None:
                return thread
    if place.fresh:
        return LoadedThread(run_context.epoch, None, None)
    thread = await load(host, launch.template.codec, launch.template.plan, address, nested=True)
    return await _with_asked(launch, host, place, thread)


async def _with_asked(
    launch: Launch, host: Host, place: NestedPlace, thread: LoadedThread
) -> LoadedThread:
    """Add the checkpoint whose questions the answers are for, if the state was edited since."""
    at, nested = thread.restored, place.nested
    if at is None or not is_edited(at, nested.routed):
        return thread
    if is_replay(at) or not continues_stored(nested, at):
        return thread
    thread_id, namespace = launch.address.thread_id, launch.address.namespace
    # By age: an edit of an old checkpoint has another parent than the one that asked.
    with suppress(CheckpointNotFoundError):  # pruned: the questions went with it
        while at is not None and only_edits(at):
            before = await checkpoint_before(host, thread_id, namespace, at.sequence)
            if before is None or before.sequence >= at.sequence:
                break
            at = (await _at(launch, host, namespace, before.row.id)).restored
    return msgspec.structs.replace(thread, asked=at)


async def _remembered(launch: Launch, host: Host, before: int) -> LoadedThread | None:
    """A stateful subgraph's state as it was before a sequence number; None if it has none.

    A subgraph whose oldest checkpoint is younger starts with an empty state.
    """
    thread_id, namespace = launch.address.thread_id, launch.address.namespace
    while (stored := await checkpoint_before(host, thread_id, namespace, before)) is not None:
        with suppress(CheckpointNotFoundError):  # deleted between the two reads: look again
            thread = await _at(launch, host, namespace, stored.row.id)
            return thread if stored.sequence < before else _emptied(thread)
    return None


async def _at(
    launch: Launch, host: Host, namespace: str, checkpoint: bytes, *, again: bool = False
) -> LoadedThread:
    address = Address(launch.address.thread_id, namespace, checkpoint)
    thread = await load(host, launch.template.codec, launch.template.plan, address, nested=True)
    if namespace == launch.address.namespace:
        return msgspec.structs.replace(thread, again=again)
    return msgspec.structs.replace(thread, placement=None, elsewhere=True)


def _emptied(thread: LoadedThread) -> LoadedThread:
    """The loaded checkpoint's place in the namespace, with an empty state.

    Without the placement of the values either: the next checkpoint would refer to it.
    """
    assert thread.restored is not None
    restored = msgspec.structs.replace(thread.restored, values={}, deltas={}, ledger=())
    return msgspec.structs.replace(thread, restored=restored, placement=None)


def _first_effects(state: RunState, thread: LoadedThread, launch: Launch) -> list[Effect]:
    restored, given = thread.restored, launch.given
    if given is None and launch.host is not None:
        state.now = launch.host.clock.now()
    if restored is not None and thread.asked is not None:
        return go_on_edited(state, restored, thread.asked)
    if restored is None or not (thread.elsewhere or thread.again):
        return begin(state, restored, given)
    restore_state(state, restored)
    return transplant(state) if thread.elsewhere else begin_named(state, restored)


def _policy(launch: Launch) -> RunPolicy:
    """The run's policy, with its parents' checkpoints in the metadata of a nested run's."""
    policy = launch.policy
    if launch.broadcast is not None and launch.broadcast.is_stored:
        policy = msgspec.structs.replace(policy, stored_stream=True)
    if launch.place is None:
        return policy
    metadata = {**policy.metadata, **launch.place.nested.metadata}
    return msgspec.structs.replace(policy, metadata=metadata)


def _mint(place: NestedPlace) -> Mint:
    if place.host is not None:
        return IDS.checkpoint
    # Nothing of this run is stored, so each attempt starts anew: with fixed ids its tasks have
    # the same ids again, and answers to their interrupts are found.
    base = place.scope.run_context.base()
    return lambda step, _: fixed_id(place.namespace, base, step)


def _run_context(
    launch: Launch,
    state: RunState,
    thread: LoadedThread,
    untracked: frozenset[str],
    time_travel: TimeTravel | None,
) -> RunContext:
    place = launch.place
    return RunContext(
        thread_id=state.thread_id,
        namespace=state.namespace,
        run=launch.run,
        # The claim of a system's run raises the thread's epoch.
        epoch=thread.epoch if launch.owner is None else thread.epoch + 1,
        time_travel=time_travel,
        host=launch.host,
        policy=launch.policy,
        broadcast=launch.broadcast,
        untracked=untracked,
        state=state,
        loaded=None if thread.restored is None else thread.restored.id,
        routed=state.nested.routed if state.nested else NOTHING_ROUTED,
        resources=launch.resources,
        above=None if place is None else place.scope,
        nested=place is not None,
        owns=state.nested is None or state.nested.claims,
        progress=None if place is None else place.scope.progress,
        stopping=launch.stopping,
        cache=launch.template.cache,
        depth=0
        if place is None
        else depth_of(place, launch.template.plan.name, launch.policy.nesting_limit),
    )
