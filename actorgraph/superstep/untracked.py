"""Removal of the values of UntrackedValue channels from everything that is stored.

Such a value may be in more places than its cell: in the writes of a task, in the input, in the
argument of a Send, in a chunk. All of these are stripped here before they are stored. The run
itself goes on with the values as they are.

A finished task whose writes were all of that kind still counts as finished: see `NO_WRITES`.
"""

import copy
import dataclasses
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, Never, cast

import msgspec

from actorgraph.errors import ActorGraphError
from actorgraph.superstep.results import fields_of
from actorgraph.values.commands import Command, Send
from actorgraph.values.constants import HANDED_UP, NO_WRITES, START, TASKS
from actorgraph.values.policies import StreamMode
from actorgraph.values.run import LedgerEntry, NewCheckpoint, Save, Write

ChannelNames = AbstractSet[str]


def storable_save(names: ChannelNames, save: Save) -> Save:
    """Strip a save of the values of these channels."""
    claim = save.claim
    if claim is not None and claim.has_input:
        claim = msgspec.structs.replace(claim, input=storable_update(names, claim.input))
    return msgspec.structs.replace(
        save,
        claim=claim,
        ledger=tuple(_storable_entry(names, entry) for entry in save.ledger),
        checkpoints=tuple(_storable_point(names, point) for point in save.checkpoints),
    )


def storable_writes(names: ChannelNames, writes: Iterable[Write]) -> tuple[Write, ...]:
    """Strip writes of those to these channels, and of their values in Sends and inputs."""
    return tuple((c, _storable_cell(names, c, v)) for c, v in writes if c not in names)


def is_storable(names: ChannelNames, writes: Iterable[Write]) -> bool:
    """Whether writes contain no value of these channels."""
    return all(c not in names and _storable_cell(names, c, v) is v for c, v in writes)


def storable_update(names: ChannelNames, update: Any) -> Any:
    """Strip an input, an update or a state of these keys; an object with one becomes a dict."""
    if isinstance(update, Command):
        update = cast("Command[Any]", update)
        if not names:
            return update
        targets = update.goto if isinstance(update.goto, (list, tuple)) else (update.goto,)
        goto = [storable_send(names, t) if isinstance(t, Send) else t for t in targets]
        return dataclasses.replace(update, update=storable_update(names, update.update), goto=goto)
    if isinstance(update, Mapping):
        return _stripped(names, cast("Mapping[str, Any]", update))
    if isinstance(update, (list, tuple)):
        parts = cast("list[Any]", update)
        storable = [part for part in parts if not _is_pair_of(names, part)]
        return update if len(storable) == len(parts) else storable
    pairs = None if update is None else fields_of(update)
    if pairs is None or names.isdisjoint(key for key, _ in pairs):
        return update
    return _without(names, pairs)


def storable_send(names: ChannelNames, send: Send) -> Send:
    """Strip a Send's argument of these keys; an object's fields get their defaults, or None."""
    arg = send.arg
    storable = _emptied(names, arg)
    if isinstance(arg, Mapping):
        arg = cast("Mapping[str, Any]", arg)
        storable = _stripped(names, arg)
    return send if storable is arg else dataclasses.replace(send, arg=storable)


def storable_chunk(names: ChannelNames, mode: StreamMode, chunk: Any) -> Any:
    """Strip a chunk of a stored stream of the values of these channels.

    Each mode has a case: a chunk of an unknown one may hold such a value anywhere.

    Raises:
        ActorGraphError: the mode, or the type of a `debug` chunk, has no case.
    """
    match mode:
        case "values":
            return storable_update(names, chunk)
        case "updates":
            return {node: _storable_parts(names, update) for node, update in chunk.items()}
        case "tasks":
            shown = {k: storable_update(names, chunk[k]) for k in ("input", "result") if k in chunk}
            return {**chunk, **shown}
        case "checkpoints":
            tasks = [storable_chunk(names, "tasks", task) for task in chunk["tasks"]]
            return {**chunk, "values": storable_update(names, chunk["values"]), "tasks": tasks}
        case "debug":
            inner = _WRAPPED.get(chunk["type"])
            if inner is None:
                raise _no_case_error(f"debug chunks of type {chunk['type']!r}", "_WRAPPED")
            return {**chunk, "payload": storable_chunk(names, inner, chunk["payload"])}
        case "custom" | "messages" | "tools":
            return chunk  # what a program sends of its own accord is stored as it is
        case _:
            raise _unknown_mode_error(mode)


_WRAPPED: Final[Mapping[str, StreamMode]] = {
    "checkpoint": "checkpoints",
    "task": "tasks",
    "task_result": "tasks",
}
"""The type of a `debug` chunk -> the mode of its payload."""


def _unknown_mode_error(mode: Never) -> ActorGraphError:
    # Never: the type checker refuses a new mode for as long as it has no case.
    return _no_case_error(f"chunks of stream mode {mode!r}", "storable_chunk")


def _no_case_error(chunks: str, place: str) -> ActorGraphError:
    return ActorGraphError(
        f"{chunks} can't be stored: no rule says where they show values of untracked channels",
        do=f"add them to {place} in actorgraph/superstep/untracked.py",
    )


def _storable_entry(names: ChannelNames, entry: LedgerEntry) -> LedgerEntry:
    if entry.index < 0:
        return entry
    writes = storable_writes(names, entry.writes) or ((NO_WRITES, None),)
    return msgspec.structs.replace(entry, writes=writes)


def _storable_point(names: ChannelNames, point: NewCheckpoint) -> NewCheckpoint:
    changed = {c: _storable_cell(names, c, v) for c, v in point.changed.items() if c not in names}
    return msgspec.structs.replace(point, changed=changed)


def _storable_cell(names: ChannelNames, channel: str, value: Any) -> Any:
    if channel == START:
        return storable_update(names, value)
    if channel == TASKS:
        if isinstance(value, Send):
            return storable_send(names, value)
        if isinstance(value, list):
            return [storable_send(names, send) for send in cast("list[Send]", value)]
    if channel == HANDED_UP:
        update, goto, *note = value
        sends = [storable_send(names, t) if isinstance(t, Send) else t for t in goto]
        storable = storable_update(names, update)
        same = storable is update and all(new is old for new, old in zip(sends, goto, strict=True))
        return value if same else [storable, sends, *note]
    return value


def _storable_parts(names: ChannelNames, update: Any) -> Any:
    """Strip a task's update in a chunk: a dict, or a list of them if a key repeats."""
    if isinstance(update, list):
        parts = (storable_update(names, part) for part in cast("list[Any]", update))
        return [part for part in parts if part != {}]
    return storable_update(names, update)


def _stripped(names: ChannelNames, update: Mapping[str, Any]) -> Mapping[str, Any]:
    storable = update if names.isdisjoint(update) else _without(names, update.items())
    # Of a tool's call, with the state that it may see.
    if "__type" in storable and "state" in storable:
        state = storable_update(names, storable["state"])
        return storable if state is storable["state"] else {**storable, "state": state}
    return storable


def _without(names: ChannelNames, pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {key: value for key, value in pairs if key not in names}


def _is_pair_of(names: ChannelNames, part: Any) -> bool:
    pair = cast("tuple[Any, ...]", part) if isinstance(part, tuple) else ()
    return len(pair) == 2 and isinstance(pair[0], str) and pair[0] in names


def _emptied(names: ChannelNames, thing: Any) -> Any:
    """Copy an object of a state's class with these fields at their defaults, or None."""
    pairs = fields_of(thing)
    held = [key for key, _ in pairs if key in names] if pairs else []
    if not held:
        return thing
    fields = {key: _default_of(type(thing), key) for key in held}
    if hasattr(thing, "model_copy"):
        return thing.model_copy(update=fields)
    if isinstance(thing, msgspec.Struct):
        return msgspec.structs.replace(thing, **fields)
    new = copy.copy(thing)
    for key, value in fields.items():
        object.__setattr__(new, key, value)  # also where the class is frozen
    return new


def _default_of(kind: type, key: str) -> Any:
    """The default of a class's field; None where it has none."""
    if hasattr(kind, "model_fields"):
        field: Any = cast("Any", kind).model_fields[key]
        return None if field.is_required() else field.get_default(call_default_factory=True)
    declared: Any = getattr(kind, "__dataclass_fields__", {}).get(key)
    if issubclass(kind, msgspec.Struct):
        declared = next(f for f in msgspec.structs.fields(kind) if f.name == key)
    if declared is None:
        return None
    if declared.default_factory not in (dataclasses.MISSING, msgspec.NODEFAULT):
        return declared.default_factory()
    default = declared.default
    return None if default in (dataclasses.MISSING, msgspec.NODEFAULT) else default
