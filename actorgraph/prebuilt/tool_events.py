"""Events of tool calls: sent to `stream_mode="tools"`, and read as `run.tool_calls`."""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from actorgraph.internals import (
    CURRENT,
    Namespace,
    Runtime,
    StreamMux,
    Writer,
    runtime_of,
    state_for,
)
from actorgraph.prebuilt.chat_messages import is_tool_message
from actorgraph.prebuilt.tools import ToolRuntime
from actorgraph.streams import ProtocolEvent, StreamChannel, StreamTransformer


@dataclass(frozen=True, slots=True)
class ToolEvents:
    """Sends the events of one call: started, output deltas, finished or failed."""

    writer: Writer
    call: Mapping[str, Any]

    def started(self) -> None:
        """Send that the tool is about to run."""
        self._send("tool-started", tool_name=self.call["name"], input=self.call["args"])

    def delta(self, delta: Any) -> None:
        """Send a part of its output."""
        self._send("tool-output-delta", delta=delta)

    def finished(self, output: Any) -> None:
        """Send that it has returned."""
        self._send("tool-finished", output=output)

    def failed(self, error: Exception) -> None:
        """Send that it has raised."""
        self._send("tool-error", message=str(error))

    def _send(self, event: str, **more: Any) -> None:
        self.writer.offer("tools", {"event": event, "tool_call_id": self.call["id"], **more})


def events_of(call: Mapping[str, Any], runtime: ToolRuntime[Any, Any]) -> ToolEvents:
    """Make the sender of one call's events."""
    writer = runtime.stream_writer
    return ToolEvents(writer if isinstance(writer, Writer) else Writer(None), call)


def tool_runtime_of(
    call: Mapping[str, Any], state: Any, config: Mapping[str, Any] | None, tools: list[Any]
) -> ToolRuntime[Any, Any]:
    """Make the runtime of one call: with the running task's values, or empty outside a run."""
    scope = CURRENT.get(None)
    around: Runtime[Any] = Runtime() if scope is None else runtime_of(scope)
    writer = Writer(None) if scope is None else scope.write
    return ToolRuntime(
        state=state,
        context=around.context,
        config=dict(config or (scope.config if scope else {})),
        stream_writer=writer,
        tool_call_id=call["id"],
        store=around.store,
        stores=dict(around.stores),
        tools=tools,
        execution_info=around.execution_info,
        server_info=around.server_info,
        emit=ToolEvents(writer, call).delta,
    )


def current_state() -> Any:
    """Return the state for a node that was given calls only, as an edge would have given it.

    Outside of a run: an empty dict.
    """
    scope = CURRENT.get(None)
    return {} if scope is None else state_for(scope.run_context.state, scope.task)


class ToolCallStream:
    """One tool call, running or completed. Iterate over it for the parts of its output.

    Attributes:
        tool_call_id: id of the call.
        tool_name: name of the tool.
        input: arguments of the call.
        output_deltas: the parts of the output, from the first; for one reader.
        output: the tool's return value; of a ToolMessage its content.
        error: the text of its failure; None if it has not failed.
        completed: whether the call has ended.
    """

    def __init__(self, mux: StreamMux, tool_call_id: str, tool_name: str, input: Any) -> None:
        self.tool_call_id = tool_call_id
        self.tool_name = tool_name
        self.input = input
        self.output_deltas: StreamChannel[Any] = StreamChannel()
        self.output_deltas.bind(mux, None)
        self.output_deltas.keep()
        self.output: Any = None
        self.error: str | None = None
        self.completed = False

    def __aiter__(self) -> AsyncIterator[Any]:
        return aiter(self.output_deltas)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.output_deltas)

    def end(self, output: Any = None, error: str | None = None) -> None:
        """Complete the stream with the output, or with an error."""
        self.output, self.error, self.completed = output, error, True
        self.output_deltas.close()


class ToolCallTransformer(StreamTransformer):
    """Adds `run.tool_calls` to an event stream: pass it as one of `transformers`."""

    _native = True
    required_stream_modes = ("tools",)

    def __init__(self, scope: Namespace = ()) -> None:
        super().__init__(scope)
        self.channel: StreamChannel[ToolCallStream] = StreamChannel()
        self._open: dict[str, ToolCallStream] = {}

    def init(self) -> dict[str, Any]:
        """Return the channel `tool_calls`."""
        return {"tool_calls": self.channel}

    def process(self, event: ProtocolEvent) -> bool:
        """Process an event; those of subgraphs are ignored."""
        params = event["params"]
        if event["method"] != "tools" or tuple(params["namespace"]) != self.scope:
            return True
        data: dict[str, Any] = params["data"]
        if data["event"] == "tool-started":
            self._begin(data)
        elif call := self._open.get(data["tool_call_id"]):
            self._go_on(call, data)
        return True

    def finalize(self) -> None:
        """Complete the calls that were still open when the run ended, e.g. at an interrupt."""
        self._end_all(None)

    def fail(self, err: BaseException) -> None:
        """Fail the calls that were still open when the run failed."""
        self._end_all(str(err))

    def _begin(self, data: dict[str, Any]) -> None:
        assert self._mux is not None
        identifier = data["tool_call_id"]
        call = ToolCallStream(self._mux, identifier, data["tool_name"], data.get("input"))
        self._open[identifier] = call
        self.channel.push(call)

    def _go_on(self, call: ToolCallStream, data: dict[str, Any]) -> None:
        if data["event"] == "tool-output-delta":
            call.output_deltas.push(data["delta"])
            return
        del self._open[call.tool_call_id]
        output: Any = data.get("output")
        call.end(output.content if is_tool_message(output) else output, data.get("message"))

    def _end_all(self, error: str | None) -> None:
        for call in self._open.values():
            call.end(None, error)
        self._open.clear()
