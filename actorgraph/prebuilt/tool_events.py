"""Events of tool calls: sent to `stream_mode="tools"`, and read as `run.tool_calls`."""

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


def current_state() -> dict[str, Any]:
    """Return the state of the current run, for a node that was given calls only."""
    scope = CURRENT.get(None)
    return {} if scope is None else dict(scope.lineage.values())
