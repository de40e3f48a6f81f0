"""What the readers of `stream_mode="tools"` see of a call, and the runtime that a tool gets."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from actorgraph.prebuilt.injected import ToolRuntime
from actorgraph.runtime import injection
from actorgraph.runtime.context import CURRENT
from actorgraph.runtime.handle import Runtime
from actorgraph.runtime.live import Writer


@dataclass(frozen=True, slots=True)
class ToolEvents:
    """Sends the events of one call: started, parts of its output, finished or failed."""

    writer: Writer
    call: Mapping[str, Any]

    def started(self) -> None:
        """The tool is about to run."""
        self._send("tool-started", tool_name=self.call["name"], input=self.call["args"])

    def delta(self, delta: Any) -> None:
        """A part of its output."""
        self._send("tool-output-delta", delta=delta)

    def finished(self, output: Any) -> None:
        """It has returned."""
        self._send("tool-finished", output=output)

    def failed(self, error: Exception) -> None:
        """It has raised."""
        self._send("tool-error", message=str(error))

    def _send(self, event: str, **more: Any) -> None:
        self.writer.offer("tools", {"event": event, "tool_call_id": self.call["id"], **more})


def events_of(call: Mapping[str, Any], runtime: ToolRuntime[Any, Any]) -> ToolEvents:
    """The events of one call."""
    writer = runtime.stream_writer
    return ToolEvents(writer if isinstance(writer, Writer) else Writer(None), call)


def runtime_of(
    call: Mapping[str, Any], state: Any, config: Mapping[str, Any] | None, tools: list[Any]
) -> ToolRuntime[Any, Any]:
    """The runtime of one call: what the running task has, or nothing outside of a run."""
    scope = CURRENT.get(None)
    around: Runtime[Any] = Runtime() if scope is None else injection.runtime_of(scope)
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


def state_now() -> dict[str, Any]:
    """The state of the run that goes on, for a node that was handed calls only."""
    scope = CURRENT.get(None)
    return {} if scope is None else dict(scope.lineage.values())
