"""Hand-overs: how the tasks of a subgraph's superstep command the graph above it.

A node that returns `Command(graph=PARENT)` has finished like any other: its row holds the Command
as a write to a channel that no graph has, and the other tasks of the superstep run to their ends.
Then the subgraph's run ends, and all that its tasks have to say goes up in the order of their
paths, whatever the timing was: the Commands, and the other tasks' writes to keys of both graphs.

| written beside a Command                      | goes up                                        |
|-----------------------------------------------|------------------------------------------------|
| to a key with a reducer above                 | yes, folded there                              |
| to a key of one value in both graphs          | unless a Command updates that key              |
| to a key with a reducer in the subgraph alone | no: it is a part of a value that isn't known   |
| the answer to a tool call that isn't above    | no: models refuse such a conversation          |
| edges and Sends within the subgraph           | no: its run is over                            |
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from actorgraph.channels import BinaryOperatorAggregate, DeltaChannel, LastValue, Topic
from actorgraph.errors import ErrorCode, InvalidUpdateError, ParentCommand
from actorgraph.plan.plan import NodePlan, Plan
from actorgraph.superstep.results import fields_of, pairs_of
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.tasks import in_path_order
from actorgraph.values.commands import Command
from actorgraph.values.constants import HANDED_UP, ROOT
from actorgraph.values.run import Beside, HandOver, MadeFor, Write


def hands_over(writes: Iterable[Write]) -> bool:
    """Whether the writes of a task command the graph above."""
    return any(channel == HANDED_UP for channel, _ in writes)


def hand_over_of(state: RunState) -> HandOver | None:
    """Collect what the finished tasks of a superstep hand to the graph above; None for nothing."""
    results = state.results
    if not any(hands_over(result.writes) for result in results.values()):
        return None
    parts: list[Command[Any] | Beside] = []
    made_for: list[MadeFor | None] = []
    nodes: list[str] = []
    for task in in_path_order(state.tasks[i] for i in results):
        writes = results[task.id].writes
        parts.extend(_parts_of(state.plan, writes))
        own = [target for _, target in commands_in(writes)]
        made_for.extend(own)
        nodes.extend([task.name] * len(own))
    return HandOver(tuple(parts), state.namespace, tuple(made_for), tuple(nodes))


def commands_in(writes: Iterable[Write]) -> Iterable[tuple[Command[Any], MadeFor]]:
    """Read the Commands for the graph above in a task's writes, each with what it was made for."""
    for channel, value in writes:
        if channel == HANDED_UP:
            update, goto, *more = value
            target = MadeFor(*more[0]) if more else MadeFor()
            yield Command(graph=Command.PARENT, update=update, goto=goto), target


def made_for(writes: Iterable[Write], target: MadeFor) -> list[Write]:
    """Note in a task's writes which version of the graph above its Commands are made for."""
    note = [target.migrations, target.converted]
    return [(c, [*value[:2], note]) if c == HANDED_UP else (c, value) for c, value in writes]


def _parts_of(plan: Plan, writes: Iterable[Write]) -> Iterable[Command[Any] | Beside]:
    for channel, value in writes:
        if channel == HANDED_UP:
            update, goto, *_ = value
            yield Command(graph=Command.PARENT, update=update, goto=goto)
        elif channel in plan.output_keys:
            yield Beside(channel, value, whole=not _folds(plan, channel))


def raised(handed: HandOver) -> ParentCommand:
    """Make the exception that carries a hand-over to the node above."""
    commands = [part for part in handed.parts if isinstance(part, Command)]
    return ParentCommand(_merged(commands), handed)


def joined(error: BaseException) -> ParentCommand | None:
    """Read the hand-over in an exception: one, or a group of nothing but such; else None."""
    if isinstance(error, ParentCommand):
        return error
    if not isinstance(error, BaseExceptionGroup):
        return None
    group = cast("BaseExceptionGroup[BaseException]", error)
    commands = [joined(part) for part in group.exceptions]
    known = [part for part in commands if part is not None]
    if len(known) < len(commands):
        return None
    known.sort(key=_number)  # a group has them in the order in which they were raised
    parts: list[Command[Any] | Beside] = []
    made_for: list[MadeFor | None] = []
    nodes: list[str] = []
    for one in known:
        parts.extend(parts_of(one))
        noted = _made_for(one)
        made_for.extend(noted or (None for p in parts_of(one) if isinstance(p, Command)))
        nodes.extend(_nodes(one))
    return raised(HandOver(tuple(parts), made_for=tuple(made_for), nodes=tuple(nodes)))


def _made_for(error: ParentCommand) -> Sequence[MadeFor | None]:
    handed = error.handed
    return handed.made_for if isinstance(handed, HandOver) else ()


def _nodes(error: ParentCommand) -> Sequence[str]:
    """The node of each Command in a hand-over; "" for one that a program has raised itself."""
    handed = error.handed
    known = handed.nodes if isinstance(handed, HandOver) else ()
    return known or [""] * sum(isinstance(part, Command) for part in parts_of(error))


def _number(error: ParentCommand) -> tuple[int, str]:
    """Sorts the graphs that a task has run by their numbers, which their namespaces end with."""
    namespace = error.handed.namespace if isinstance(error.handed, HandOver) else ""
    return len(namespace), namespace


def parts_of(error: ParentCommand) -> Sequence[Command[Any] | Beside]:
    """The parts of a hand-over; of one that a program or LangGraph raised, its Command alone."""
    handed = error.handed
    return handed.parts if isinstance(handed, HandOver) else (error.command,)


def handed_by(error: ParentCommand) -> HandOver:
    """The hand-over that an exception carries."""
    return HandOver(
        tuple(parts_of(error)), made_for=tuple(_made_for(error)), nodes=tuple(_nodes(error))
    )


def _merged(commands: Sequence[Command[Any]]) -> Command[Any]:
    """Make one Command of several, for programs that look at the exception."""
    if len(commands) == 1:
        return commands[0]
    pairs = [pair for command in commands for pair in pairs_in(command.update) or ()]
    targets = [target for command in commands for target in _targets(command)]
    return Command(graph=Command.PARENT, update=pairs or None, goto=targets)


def _targets(command: Command[Any]) -> Sequence[Any]:
    goto: Any = command.goto
    return goto if isinstance(goto, (list, tuple)) else (goto,)


def pairs_in(update: Any) -> list[tuple[str, Any]] | None:
    """The keys that an update has; None if it is a bare value."""
    if update is None:
        return []
    if isinstance(update, Mapping):
        return list(pairs_of(cast("Mapping[Any, Any]", update)))
    if isinstance(update, (list, tuple)):
        parts = cast("Sequence[Any]", update)
        whole = all(isinstance(p, tuple) and len(cast("tuple[Any, ...]", p)) == 2 for p in parts)
        return list(parts) if whole else None
    return fields_of(update)


def received(
    plan: Plan, node: NodePlan, values: Mapping[str, Any], error: ParentCommand
) -> list[Command[Any]]:
    """Make the return value of the node whose subgraph has handed over; see the module.

    Args:
        plan: the graph of the node.
        values: its state before the superstep. Not modified.
    Raises:
        InvalidUpdateError: two Commands set a key of the graph that takes one value.
    """
    parts = parts_of(error)
    commands = [part for part in parts if isinstance(part, Command)]
    _check_single(plan, node, commands, _nodes(error))
    taken: set[str] = set()
    for command in commands if len(parts) > len(commands) else ():
        taken.update(key for key, _ in pairs_in(command.update) or ())
    results: list[Command[Any]] = []
    for part in parts:
        if isinstance(part, Command):
            results.append(replace(part, graph=None))
        elif part.key in node.writes and node.shape is None and _goes_up(plan, part, taken):
            value = _with_calls(part, values, commands)
            if value is not None:
                results.append(Command(update=value if part.key == ROOT else {part.key: value}))
    return results


def _check_single(
    plan: Plan, node: NodePlan, commands: Sequence[Command[Any]], names: Sequence[str]
) -> None:
    """Refuse two Commands for one value here, where the nodes that returned them are known."""
    setting: dict[str, list[str]] = {}
    for command, name in zip(commands, names, strict=True):
        for key in dict.fromkeys(key for key, _ in pairs_in(command.update) or ()):
            if isinstance(plan.channels.get(key), LastValue):
                setting.setdefault(key, []).append(repr(name) if name else "an exception")
    for key, setters in setting.items():
        if len(setters) > 1:
            raise InvalidUpdateError(
                f"At key {key!r}: can receive only one value per step, got {len(setters)}: "
                f"{' and '.join(setters)} below node {node.name!r} set it in one superstep by "
                "Command(graph=Command.PARENT)",
                do=f"let one of them hand over, or give {key!r} a reducer in the graph above, e.g. "
                "Annotated[str, lambda old, new: new] for the last one in path order",
                code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE,
            )


def _goes_up(plan: Plan, part: Beside, taken: set[str]) -> bool:
    return _folds(plan, part.key) or (part.whole and part.key not in taken)


def _folds(plan: Plan, key: str) -> bool:
    return isinstance(plan.channels.get(key), (BinaryOperatorAggregate, DeltaChannel, Topic))


def _with_calls(part: Beside, values: Mapping[str, Any], commands: Sequence[Command[Any]]) -> Any:
    """Leave out answers whose tool calls the graph above has not got; None if nothing is left."""
    several = isinstance(part.value, (list, tuple))
    messages = cast("Sequence[Any]", part.value) if several else (part.value,)
    if not any(_answered(message) for message in messages):
        return part.value
    above = [values.get(part.key)]
    for command in commands:
        above.extend(v for key, v in pairs_in(command.update) or () if key == part.key)
    known = {call for value in above for call in _calls_in(value)}
    remaining = [message for message in messages if _answered(message) in (None, *known)]
    if not remaining:
        return None
    return remaining if several else remaining[0]


def _calls_in(value: Any) -> Iterable[Any]:
    messages = cast("Sequence[Any]", value) if isinstance(value, (list, tuple)) else (value,)
    for message in messages:
        calls: Any = _field(message, "tool_calls")
        for call in calls if isinstance(calls, (list, tuple)) else ():
            yield _field(call, "id")


def _answered(message: Any) -> Any:
    """The id of the call that a message answers; None if it isn't an answer."""
    return _field(message, "tool_call_id")


def _field(message: Any, name: str) -> Any:
    if isinstance(message, Mapping):
        return cast("Mapping[str, Any]", message).get(name)
    return getattr(message, name, None)
