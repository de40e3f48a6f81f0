"""A run's events in the streaming protocol: chunks of the stream modes in, protocol events out.

Pure: `WireTranslator` gets the events of one run in order, from the first one on, and returns the
same protocol events each time, so that their numbers mean the same on every connection.

It adds what the protocol has and stream modes don't: the life of the run and of its subgraphs,
questions as `input.requested`, messages in blocks, and a checkpoint's envelope in front of the
values that it holds.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from msgspec import Struct

from actorgraph.internals import Namespace
from actorgraph.systems import RunEvent
from actorgraph.web.http.jsonable import to_plain
from actorgraph.web.http.problems import public_reason, public_text
from actorgraph.web.stream_protocol.message_events import MessageEvents

WIRE_MODES = ("values", "updates", "messages", "custom", "checkpoints", "tasks", "tools")
"""The stream modes of a run that a client of the protocol starts: those of all channels."""

_ENDS = {"success": "completed", "interrupted": "interrupted", "cancelled": "interrupted"}
"""Status of a run -> the last event of its life; any other one is "failed"."""

_ASKS = "__interrupt__"


class WireEvent(Struct, frozen=True):
    """One event of the protocol, without its number and time.

    Attributes:
        method: its kind, such as "values" or "input.requested".
        data: JSON of plain values.
        node: the node that a message is from.
        is_root_life: whether it is about the run itself: clients read the run in its id.
    """

    method: str
    namespace: Namespace
    data: Any
    node: str = ""
    is_root_life: bool = False


class WireTranslator:
    """Translates the events of one run; see the module's docstring.

    Args:
        graph: the name of the run's graph.

    Attributes:
        has_left: whether the events ended without the run's end: it goes on elsewhere, or later.
    """

    def __init__(self, graph: str) -> None:
        self._graph = graph
        self.has_left = False
        self._messages = MessageEvents()
        self._held: dict[Namespace, Any] = {}
        self._asked: set[str] = set()
        self._below: dict[Namespace, None] = {}
        self._begun = False
        self._missed = False
        self._error: str | None = None

    def events(self, event: RunEvent) -> list[WireEvent]:
        """Return the protocol events for the next event of the run."""
        kind, namespace, data = event.kind, event.namespace, event.data
        found = self._beginnings(kind, namespace)
        if kind != "checkpoints":
            found += self._release(self._held_before(kind, namespace))
        match kind:
            case "metadata" | "retry":
                task = data["task"] if kind == "retry" else None
                found += _of_messages(self._messages.begin_attempt(task))
            case "gap" | "drain":
                self.has_left |= kind == "drain"
                self._missed |= kind == "gap"
            case "values":
                found += self._values(namespace, data)
            case "updates":
                found += self._updates(namespace, data)
            case "checkpoints":
                found.append(WireEvent(kind, namespace, checkpoint_envelope(data)))
                found += self._release([namespace])
            case "tasks":
                found += self._task(namespace, data)
            case "messages":
                message, metadata = data
                found += _of_messages(self._messages.add(namespace, message, metadata))
            case "custom":
                found.append(WireEvent(kind, namespace, custom_data(data)))
            case "error":
                error = data.get("error", "")
                self._error = f"{error}: {public_text(error, data.get('message', ''))}"
            case "end":
                found += self._end(data)
            case _:
                found.append(WireEvent(kind, namespace, to_plain(data)))
        return found

    def _beginnings(self, kind: str, namespace: Namespace) -> list[WireEvent]:
        """Say that the run, or a subgraph, has begun, if it is the first event from there."""
        found: list[WireEvent] = []
        if kind == "metadata" or not self._begun:
            self._begun = True
            found.append(self._life((), "running"))
        for depth in range(1, len(namespace) + 1):
            part = namespace[:depth]
            if part not in self._below:
                self._below[part] = None
                found.append(self._life(part, "started"))
        return found

    def _life(self, namespace: Namespace, event: str, **more: Any) -> WireEvent:
        name = namespace[-1].partition(":")[0] if namespace else self._graph
        data = {"event": event, "graph_name": name, **more}
        return WireEvent("lifecycle", namespace, to_plain(data), is_root_life=not namespace)

    def _held_before(self, kind: str, namespace: Namespace) -> list[Namespace]:
        """Return the places whose values need not wait longer for their checkpoint."""
        return list(self._held) if kind == "end" else [namespace]

    def _release(self, places: Iterable[Namespace]) -> Iterator[WireEvent]:
        for place in places:
            if place in self._held:
                yield WireEvent("values", place, self._held.pop(place))

    def _values(self, namespace: Namespace, data: Any) -> Iterator[WireEvent]:
        """Hold values until the next event from there: their checkpoint, if they have one."""
        state = data
        if isinstance(data, Mapping) and _ASKS in data:
            given = cast("Mapping[str, Any]", data)
            yield from self._questions(namespace, given[_ASKS])
            state = {key: value for key, value in given.items() if key != _ASKS}
        shown = self._held[namespace] = to_plain(state)
        if self._missed and not namespace:
            self._missed = False
            yield from _of_messages(self._messages.end_missed(namespace, shown))

    def _updates(self, namespace: Namespace, data: Any) -> Iterator[WireEvent]:
        for node, values in cast("Mapping[str, Any]", data).items():
            if node == _ASKS:
                yield from self._questions(namespace, values)
            else:
                shown = {"node": node, "values": to_plain(values)}
                yield WireEvent("updates", namespace, shown, node)

    def _questions(self, namespace: Namespace, asked: Any) -> Iterator[WireEvent]:
        """Send each question once: a subgraph's comes again from the graphs above it."""
        for question in to_plain(asked):
            identifier, value = question["id"], question["value"]
            if identifier in self._asked:
                continue
            self._asked.add(identifier)
            # `payload` is the protocol's name, `value` the one that langgraph-sdk for Python reads.
            shown = {"interrupt_id": identifier, "payload": value, "value": value}
            more = {k: v for k, v in question.items() if k not in shown and k != "id"}
            if more.get("response_schema", ...) is None:  # as questions of tasks have it
                del more["response_schema"]
            shown.update(more)
            yield WireEvent("input.requested", namespace, shown)

    def _task(self, namespace: Namespace, data: Mapping[str, Any]) -> Iterator[WireEvent]:
        if "result" not in data:
            yield WireEvent("tasks", namespace, to_plain(data))
            return
        yield from _of_messages(self._messages.end_task(namespace, data["id"]))
        yield from self._questions(namespace, data["interrupts"])
        how = "interrupted" if data["interrupts"] else "failed" if data["error"] else "completed"
        yield from self._end_below((*namespace, f"{data['name']}:{data['id']}"), how)
        yield WireEvent("tasks", namespace, to_plain(data))

    def _end_below(self, place: Namespace, how: str) -> Iterator[WireEvent]:
        """End the subgraphs at and below a place, the deepest first."""
        ended = [one for one in self._below if one[: len(place)] == place]
        for one in sorted(ended, key=len, reverse=True):
            del self._below[one]
            yield from self._release([one])
            yield self._life(one, how)

    def _end(self, data: Mapping[str, Any]) -> Iterator[WireEvent]:
        how = _ENDS.get(data["status"], "failed")
        failed = how == "failed"
        if failed and self._error is None:
            self._error = public_reason(data.get("reason") or "") or data["status"]
        error = self._error if failed else None
        yield from _of_messages(self._messages.end_all(error))
        yield from self._end_below((), how)
        more = {"error": error} if failed else {}
        if data.get("reason") and not failed:
            more = {"reason": public_reason(data["reason"])}
        yield self._life((), how, **more)


def _of_messages(events: Iterable[tuple[Namespace, str, Any]]) -> Iterator[WireEvent]:
    for namespace, node, data in events:
        yield WireEvent("messages", namespace, data, node)


def checkpoint_envelope(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint's id, its parent's, and its step and source, without its values."""
    shown = {"id": _checkpoint_id(data["config"])}
    if (parent := _checkpoint_id(data.get("parent_config"))) is not None:
        shown["parent_id"] = parent
    return {**shown, "step": data["metadata"]["step"], "source": data["metadata"]["source"]}


def _checkpoint_id(config: Mapping[str, Any] | None) -> Any:
    return ((config or {}).get("configurable") or {}).get("checkpoint_id")


def custom_data(chunk: Any) -> dict[str, Any]:
    """Return a custom chunk for clients: `{"name", "payload"}` names its own channel."""
    plain = to_plain(chunk)
    if isinstance(plain, dict):
        given = cast("dict[str, Any]", plain)
        if given.keys() == {"name", "payload"} and isinstance(given["name"], str):
            return given
    return {"payload": plain}
