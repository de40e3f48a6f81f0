"""The requests of a RemoteGraph to a server, and the reading of the answers. No I/O.

RunRequest   one run: the arguments of the client's `runs.stream`
RunReader    the parts of the run's stream, one at a time: chunks, or the run's end by an error

A RemoteGraph is nested if it is called with the config of a running task. Then the task's
readers get its chunks, its questions are the task's, and it goes on with the task's answers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

from actorgraph.errors import GraphInterrupt, InvalidConfigError, ParentCommand
from actorgraph.runtime.task.scope import CURRENT, TaskScope
from actorgraph.values.alarms import times_in
from actorgraph.values.commands import Command, Interrupt, Send
from actorgraph.values.constants import INTERRUPT
from actorgraph.values.state_snapshot import PregelTask, StateSnapshot
from actorgraph.values.stream_items import Namespace, namespace_of

_PLACE = frozenset({"checkpoint_map", "checkpoint_id", "checkpoint_ns"})
_ADDRESS = ("thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map")
_SEPARATOR = "|"


class RemoteException(Exception):
    """A run has failed on the server; its argument is what the server said."""


class RunRequest:
    """One run.

    Args:
        given: the input, or a Command.
        config: of the RemoteGraph and of the call.
        modes: one mode, several, or None for "updates".
        subgraphs: whether the caller reads subgraphs too.

    Attributes:
        modes: the modes that the caller reads.
        single: whether chunks come without their mode.
        thread_id: the server's thread; None for a run without one.
        above: the task that it is nested in; None for a root run.
        namespace: of that task.
        above_modes: the modes that are read above.
    """

    def __init__(
        self,
        given: Any,
        config: Mapping[str, Any],
        modes: str | Sequence[str] | None,
        *,
        subgraphs: bool,
    ) -> None:
        self.subgraphs = subgraphs
        self.single = modes is None or isinstance(modes, str)
        listed: list[str] = [modes or "updates"] if isinstance(modes, str | None) else [*modes]
        self.modes = ["messages" if m == "messages-tuple" else m for m in listed]
        self.config = plain_config(config)
        self.thread_id: str | None = self.config["configurable"].pop("thread_id", None)
        place = (config.get("configurable") or {}).get("checkpoint_ns")
        self.above: TaskScope | None = CURRENT.get(None) if place else None
        self.namespace: Namespace = namespace_of(place or "") if self.above is not None else ()
        broadcast = self.above.run_context.broadcast if self.above is not None else None
        self.above_modes = broadcast.modes_at(self.namespace) if broadcast else frozenset[str]()
        self.command = _command_json(given) if isinstance(given, Command) else None
        self.input = None if self.command is not None else given

    @property
    def may_resume(self) -> bool:
        """Whether the task that it is nested in has answers, so that it may have asked before."""
        return self.thread_id is not None and self.above is not None and bool(self.above.routed)

    def resume(self, state: Any) -> None:
        """Go on with the answers of the task to the questions of a thread, if it has any.

        Args:
            state: the thread's, as the server sends it.
        """
        assert self.above is not None
        waiting = [asked["id"] for task in state["tasks"] for asked in task["interrupts"]]
        routed = self.above.routed
        if answers := {known: routed[known] for known in waiting if known in routed}:
            self.input, self.command = None, {"resume": answers}

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the client's `runs.stream`."""
        wanted = [*self.modes, *sorted(self.above_modes - {*self.modes}), "updates"]
        named = ["messages-tuple" if mode == "messages" else mode for mode in wanted]
        return {
            "thread_id": self.thread_id,
            "input": self.input,
            "command": self.command,
            "config": self.config,
            # Interrupts are seen in updates.
            "stream_mode": list(dict.fromkeys(mode for mode in named if mode != "events")),
            "stream_subgraphs": self.subgraphs or bool(self.above_modes),
            "if_not_exists": "create",
        }


class RunReader:
    """Reads the stream of one run.

    Args:
        request: the run.
        version: "v1" for chunks, "v2" for dicts of type, ns, data and interrupts.
    """

    def __init__(self, request: RunRequest, version: str) -> None:
        self._request = request
        self._version = version

    def chunks(self, part: Any) -> Iterator[Any]:
        """Take a part of the stream; yield the chunk that the caller gets, if any.

        Raises:
            GraphInterrupt: a nested run asks.
            ParentCommand: a node commands the graph above.
            RemoteException: the run has failed.
        """
        request = self._request
        mode, *below = part.event.split(_SEPARATOR)
        data: Any = tuple(part.data) if mode == "messages" else part.data
        if mode == "command" and data.get("graph") == Command.PARENT:
            raise ParentCommand(_command(data))
        if mode == "error":
            raise RemoteException(data)
        namespace: Namespace = (*request.namespace, *below)
        self._show_above(namespace, mode, data)
        if mode == "updates" and request.above is not None:
            _ask(request.above, data)
        if mode not in request.modes or (below and not request.subgraphs and mode != "messages"):
            return
        yield self._shown(part, namespace, mode, data)

    def _show_above(self, namespace: Namespace, mode: str, data: Any) -> None:
        above = self._request.above
        if above is None or mode not in self._request.above_modes:
            return
        if above.run_context.broadcast is not None:
            above.run_context.broadcast.offer((namespace, mode, data))

    def _shown(self, part: Any, namespace: Namespace, mode: str, data: Any) -> Any:
        if self._version == "v2":
            asked: Any = ()
            if mode == "values" and isinstance(data, dict):
                data = dict(cast("dict[str, Any]", data))
                asked = data.pop(INTERRUPT, ())
            return {"type": mode, "ns": namespace, "data": data, "interrupts": interrupts(asked)}
        if self._request.subgraphs:
            return (namespace, data) if self._request.single else (namespace, mode, data)
        return data if self._request.single else part._replace(data=data)


def _ask(scope: TaskScope, data: Any) -> None:
    """Make the questions of an update those of the task.

    Raises:
        GraphInterrupt: there are any.
    """
    if isinstance(data, dict) and INTERRUPT in data:
        # Only the server's clock answers them: here they would be answered a second time.
        shown = interrupts(cast("dict[str, Any]", data)[INTERRUPT])
        asked = tuple(replace(question, timing=None) for question in shown)
        scope.raised.extend(asked)
        raise GraphInterrupt(asked)


def interrupts(given: Sequence[Any]) -> tuple[Interrupt, ...]:
    """Return the questions that a server has sent."""
    return tuple(
        Interrupt(one["value"], one.get("id") or "", one.get("response_schema"), times_in(one))
        for one in given
    )


def thread_of(config: Mapping[str, Any]) -> str:
    """Return the thread that a config addresses.

    Raises:
        InvalidConfigError: it addresses none.
    """
    thread_id = (config.get("configurable") or {}).get("thread_id")
    if not thread_id:
        raise InvalidConfigError(
            "the state of a RemoteGraph belongs to a thread, and the config has no thread_id",
            do='pass config={"configurable": {"thread_id": ...}}',
        )
    return thread_id


def address_of(config: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the checkpoint that a config addresses; None if it addresses none."""
    place = (config or {}).get("configurable") or {}
    return {key: place[key] for key in _ADDRESS if key in place} or None


def config_at(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config that addresses a checkpoint of the server."""
    place = {key: checkpoint.get(key) for key in _ADDRESS}
    return {"configurable": {**place, "checkpoint_map": place["checkpoint_map"] or {}}}


def snapshot_of(state: Mapping[str, Any]) -> StateSnapshot:
    """Return the snapshot of a state as the server sends it."""
    tasks = tuple(_task(task) for task in state["tasks"])
    above = state["parent_checkpoint"]
    return StateSnapshot(
        values=state["values"],
        next=tuple(state["next"] or ()),
        config=config_at(state["checkpoint"]),
        metadata=dict(state["metadata"] or {}),
        created_at=state["created_at"],
        parent_config=config_at(above) if above else None,
        tasks=tasks,
        interrupts=tuple(asked for task in tasks for asked in task.interrupts),
    )


def _task(task: Mapping[str, Any]) -> PregelTask:
    below: Any = None
    if task["state"]:
        below = snapshot_of(task["state"])
    elif task["checkpoint"]:
        below = {"configurable": task["checkpoint"]}
    asked, error = interrupts(task["interrupts"]), task["error"] or None
    return PregelTask(task["id"], task["name"], (), error, asked, below, task.get("result"))


def plain_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a server needs of a config: no objects, and no place in a run above."""
    place = {k: v for k, v in (config.get("configurable") or {}).items() if k not in _PLACE}
    made: dict[str, Any] = {"configurable": _plain(place)}
    if "recursion_limit" in config:
        made["recursion_limit"] = config["recursion_limit"]
    if config.get("tags"):
        made["tags"] = _plain(config["tags"])
    if config.get("metadata"):
        made["metadata"] = _plain(config["metadata"])
    return made


def _plain(value: Any) -> Any:
    """Return a value without what JSON can't hold, and without functions under private keys."""
    if isinstance(value, str | int | float | bool | UUID):
        return value
    if isinstance(value, Mapping):
        entries = cast("Mapping[Any, Any]", value).items()
        plain = {key: _plain(one) for key, one in entries if isinstance(key, str)}
        return {key: one for key, one in plain.items() if one is not None}
    if isinstance(value, list | tuple):
        return [one for one in map(_plain, cast("Sequence[Any]", value)) if one is not None]
    return None


def _command_json(command: Command[Any]) -> dict[str, Any]:
    """Return a command as the client sends it."""
    goto = command.goto
    many: Any = goto if isinstance(goto, list | tuple) else [goto]
    made = {
        "update": command.update,
        "resume": command.resume,
        "goto": [_target_json(one) for one in many] or None,
    }
    # An empty list is an answer, too.
    return {key: value for key, value in made.items() if value is not None}


def _target_json(target: Any) -> Any:
    return {"node": target.node, "input": target.arg} if isinstance(target, Send) else target


def _command(data: Mapping[str, Any]) -> Command[Any]:
    """Return a command that the server has sent."""
    goto: Any = data.get("goto") or ()
    many: Any = goto if isinstance(goto, list | tuple) else [goto]
    targets = [
        Send(one["node"], one.get("input", one.get("arg"))) if isinstance(one, dict) else one
        for one in many
    ]
    return Command(
        graph=data.get("graph"),
        update=data.get("update"),
        resume=data.get("resume"),
        goto=cast("Any", targets),
    )
