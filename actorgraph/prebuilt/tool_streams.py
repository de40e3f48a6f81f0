"""`run.tool_calls` of an event stream: one stream per call, with its output deltas."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from actorgraph.api.events.channel import StreamChannel
from actorgraph.api.events.mux import StreamMux
from actorgraph.api.events.protocol import ProtocolEvent, StreamTransformer
from actorgraph.prebuilt.chat import is_tool_message
from actorgraph.values.streams import Namespace


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
