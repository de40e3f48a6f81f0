"""Event streams of version 2: LangChain's events of what starts, streams and ends in a run.

| span         | starts with            | streams                  | ends with            |
|--------------|------------------------|--------------------------|----------------------|
| a graph      | `on_chain_start`       | `{node: update}`, a root | its last state       |
| a node       | `on_chain_start`       | what it returned         | what it returned     |
| a chat model | `on_chat_model_start`  | each chunk of a message  | the whole message    |

They are made from stream parts, without LangChain: on trio, and in programs that have not imported
it. Runnables that a node calls cause no events,
nor does the input of a model; a model is recognized by the `ls_` metadata that it reports.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import reduce
from operator import add
from typing import Any, Self, TypedDict
from uuid import NAMESPACE_OID, uuid4, uuid5

from actorgraph.api.streams.stream import ChunkStream
from actorgraph.runtime.broadcast import Closing
from actorgraph.values.constants import END, RETURN
from actorgraph.values.stream_items import Namespace

MODES = ("debug", "updates", "messages", "values")


class StreamEvent(TypedDict):
    """One event of a span.

    Attributes:
        event: e.g. "on_chain_start".
        name: of the graph, node or model.
        run_id: of the span.
        parent_ids: the spans around it, outermost first.
        tags: of the run and the superstep.
        metadata: of the run and the task.
        data: "input", "chunk" or "output".
    """

    event: str
    name: str
    run_id: str
    parent_ids: list[str]
    tags: list[str]
    metadata: dict[str, Any]
    data: dict[str, Any]


class SpanEvents:
    """Converts the v2 parts of one run, of all levels, to events.

    Args:
        name_at: returns the name of the graph whose runs have a namespace.
        given: the run's input.
        scope: the namespace of the run.
        tags: of the call's config.
        metadata: of the call's config.
        run_id: of the run's own span; default a new one.
    """

    def __init__(
        self,
        name_at: Callable[[Namespace], str],
        given: Any,
        scope: Namespace,
        tags: list[str],
        metadata: Mapping[str, Any],
        *,
        run_id: str = "",
    ) -> None:
        self._name_at = name_at
        self._run_id = run_id or str(uuid4())
        self._scope = scope
        self._tags = tags
        self._metadata = dict(metadata)
        self._graphs: dict[Namespace, StreamEvent] = {}
        self._nodes: dict[str, StreamEvent] = {}
        self._models: dict[Any, tuple[StreamEvent, list[Any]]] = {}
        self._latest: dict[Namespace, Any] = {}
        self._updates: list[tuple[Namespace, Any]] = []
        self._given = given

    def begin(self) -> Iterator[StreamEvent]:
        """Yield the event of the run's start."""
        yield self._open_graph(self._scope, self._given, [], self._run_id)

    def end(self) -> Iterator[StreamEvent]:
        """Yield the events of the run's successful end."""
        yield from self._flush()
        graph = self._graphs[self._scope]
        yield _event_of(graph, "on_chain_end", output=self._latest.get(self._scope))

    def of(self, part: Mapping[str, Any]) -> Iterator[StreamEvent]:
        """Yield the events of one part."""
        namespace: Namespace = part["ns"]
        match part["type"], part["data"]:
            case "values", state:
                self._latest[namespace] = state
            case "updates", update if namespace == self._scope:
                self._updates.append((namespace, update))
            case "messages", (chunk, metadata):
                yield from self._piece(namespace, chunk, metadata)
            case "debug", {"type": "task", "payload": task, "step": step}:
                yield from self._task(namespace, task, step)
            case "debug", {"type": "task_result", "payload": result}:
                yield from self._result(result)
            case _:
                pass

    def _task(
        self, namespace: Namespace, task: Mapping[str, Any], step: int
    ) -> Iterator[StreamEvent]:
        if namespace not in self._graphs:
            above = self._nodes.get(namespace[-1].rpartition(":")[2])
            parents = [*above["parent_ids"], above["run_id"]] if above else []
            given = above["data"].get("input") if above else None
            # Derived from the namespace: the same subgraph call has the same id in every stream.
            identifier = str(uuid5(NAMESPACE_OID, "|".join(namespace)))
            yield self._open_graph(namespace, given, parents, identifier)
        graph = self._graphs[namespace]
        place = "|".join((*namespace, f"{task['name']}:{task['id']}"))
        metadata = {
            **self._metadata,
            **{k: v for k, v in task.get("metadata", {}).items() if k != "tags"},
            "langgraph_step": step,
            "langgraph_node": task["name"],
            "langgraph_triggers": task["triggers"],
            "langgraph_checkpoint_ns": place,
        }
        node = StreamEvent(
            event="on_chain_start",
            name=task["name"],
            run_id=task["id"],
            parent_ids=[*graph["parent_ids"], graph["run_id"]],
            tags=[f"graph:step:{step}", *self._tags],
            metadata=metadata,
            data={"input": task["input"]},
        )
        self._nodes[task["id"]] = node
        yield node

    def _result(self, result: Mapping[str, Any]) -> Iterator[StreamEvent]:
        node = self._nodes.get(result["id"])
        if node is not None and not result["error"] and not result["interrupts"]:
            yield from self._end_below(result["id"])
            made = _bare(result["result"])
            yield _event_of(node, "on_chain_stream", chunk=made)
            yield _event_of(node, "on_chain_end", output=made, **node["data"])
        yield from self._flush()

    def _end_below(self, task: str) -> Iterator[StreamEvent]:
        """Yield the ends of the models and the subgraph that a task ran."""
        for key, (model, chunks) in list(self._models.items()):
            if model["parent_ids"][-1:] == [task]:
                del self._models[key]
                yield _event_of(model, "on_chat_model_end", output=_joined(chunks))
        for namespace, graph in list(self._graphs.items()):
            if namespace != self._scope and graph["parent_ids"][-1:] == [task]:
                del self._graphs[namespace]
                output = self._latest.get(namespace)
                yield _event_of(graph, "on_chain_end", output=output, **graph["data"])

    def _flush(self) -> Iterator[StreamEvent]:
        """Yield graphs' updates; LangChain emits a task's update after the task's own end."""
        for namespace, update in self._updates:
            if namespace in self._graphs:
                yield _event_of(self._graphs[namespace], "on_chain_stream", chunk=update)
        self._updates.clear()

    def _piece(
        self, namespace: Namespace, chunk: Any, metadata: dict[str, Any]
    ) -> Iterator[StreamEvent]:
        if not any(key in metadata for key in ("ls_provider", "ls_model_type")):
            return  # not of a model: a whole message that a node returned
        task = metadata["langgraph_checkpoint_ns"].rpartition(":")[2]
        key = (namespace, task, chunk.id)
        node = self._nodes.get(task)
        if node is None:  # its start is among events that were missed
            return
        if key not in self._models:
            name = metadata.get("ls_model_name") or metadata.get("ls_provider", "model")
            model = StreamEvent(
                event="on_chat_model_start",
                name=name,
                run_id=str(uuid5(NAMESPACE_OID, f"{task}|{chunk.id}")),
                parent_ids=[*node["parent_ids"], node["run_id"]],
                tags=list(metadata.get("tags", ())),
                metadata={k: v for k, v in metadata.items() if k != "tags"},
                data={},
            )
            self._models[key] = model, []
            yield model
        model, chunks = self._models[key]
        chunks.append(chunk)
        yield _event_of(model, "on_chat_model_stream", chunk=chunk)
        if getattr(chunk, "chunk_position", None) == "last":
            del self._models[key]
            yield _event_of(model, "on_chat_model_end", output=_joined(chunks))

    def _open_graph(
        self, namespace: Namespace, given: Any, parents: list[str], identifier: str
    ) -> StreamEvent:
        graph = self._graphs[namespace] = StreamEvent(
            event="on_chain_start",
            name=self._name_at(namespace),
            run_id=identifier,
            parent_ids=parents,
            tags=list(self._tags),
            metadata=dict(self._metadata),
            data={"input": given},
        )
        return graph


class EventFilter:
    """Selects events: options `include_` and `exclude_` + `names`, `types` and `tags`.

    A type is the middle of an event's name: "chain", "chat_model".
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._include = {k: v for k in KINDS if (v := options.get(f"include_{k}"))}
        self._exclude = {k: v for k in KINDS if (v := options.get(f"exclude_{k}"))}

    def takes(self, event: StreamEvent) -> bool:
        """Whether an event passes the filter."""
        kind = event["event"].removeprefix("on_").rpartition("_")[0]
        has = {"names": {event["name"]}, "types": {kind}, "tags": set(event["tags"])}
        if any(has[k].intersection(v) for k, v in self._exclude.items()):
            return False
        return not self._include or any(has[k].intersection(v) for k, v in self._include.items())


KINDS = ("names", "types", "tags")
FILTERS = tuple(f"{way}_{kind}" for way in ("include", "exclude") for kind in KINDS)


def _event_of(span: StreamEvent, event: str, **data: Any) -> StreamEvent:
    made = span.copy()
    made["event"], made["data"] = event, data
    return made


def _bare(result: Any) -> Any:
    """Return a node's result; of a functional API call, the value without its channel name."""
    if isinstance(result, dict) and len(found := dict[str, Any](result)) == 1:
        ((key, value),) = found.items()
        return value if key in (END, RETURN) else result
    return result


def _joined(chunks: list[Any]) -> Any:
    try:
        return reduce(add, chunks)
    except TypeError:
        return chunks[-1]


class CallbackEvents(Closing, AsyncIterator[StreamEvent]):
    """LangChain's events of one run, made here or by LangChain."""


class SpanStream(CallbackEvents):
    """LangChain's events of one run, made here. Iterate it once; leaving it early ends the run.

    `async with` and `aclose()` wait for the run's end.
    """

    def __init__(
        self, stream: ChunkStream, spans: SpanEvents, takes: Callable[[StreamEvent], bool]
    ) -> None:
        self._stream = stream
        self._spans = spans
        self._takes = takes
        self._events: deque[StreamEvent] = deque()
        self._add(spans.begin())
        self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent:
        """Return the next event.

        Raises:
            StopAsyncIteration: the run has ended, or waits at an interrupt.
            Exception: the error that the run failed with.
        """
        while not self._events:
            if self._ended:
                raise StopAsyncIteration
            part: Any = await anext(self._stream, None)
            self._ended = part is None
            self._add(self._spans.end() if part is None else self._spans.of(part))
        return self._events.popleft()

    async def aclose(self) -> None:
        """End the run, if it is active, and wait until it has stored its finished work."""
        self._ended = True
        await self._stream.aclose()

    def _add(self, events: Iterable[StreamEvent]) -> None:
        self._events.extend(filter(self._takes, events))
