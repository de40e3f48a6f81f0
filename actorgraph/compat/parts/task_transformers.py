"""LangGraph's protected base of transformers that follow tasks, for those of LangChain."""

from typing import Any

from actorgraph.api.streams.events import ProtocolEvent, StreamMux, StreamTransformer
from actorgraph.api.streams.projections import SubgraphStatus, status_of_error, status_of_result
from actorgraph.values.stream_items import Namespace

_Ended = tuple[Namespace, SubgraphStatus, str | None]


class TasksLifecycleBase(StreamTransformer):
    """Follows the tasks of a run, and calls its subclass at the start and end of nested runs.

    A nested run has started with the first task in its namespace, and ended with the task that it
    runs in. Events of tasks don't reach the run's log. Subclasses override `_should_track`,
    `_on_started` and `_on_terminal`; `_aon_terminal` too if they handle an end asynchronously.
    The names are LangGraph's.
    """

    required_stream_modes = ("tasks",)

    def __init__(self, scope: Namespace = ()) -> None:
        super().__init__(scope)
        self._seen: set[Namespace] = set()
        self._open: dict[Namespace, str] = {}  # to the id of the task that it runs in
        self._lc_by_ns: dict[Namespace, str | None] = {}  # to the name of the agent
        self._pending_tool_calls: dict[str, str] = {}  # task id to the id of its tool call
        self._pending_cause: dict[str, Any] | None = None

    def _on_register(self, mux: StreamMux) -> None:
        """Called once, with what connects the transformers of the run."""

    def registered(self, mux: StreamMux) -> None:
        """Call `_on_register`."""
        super().registered(mux)
        self._on_register(mux)

    def _should_track(self, ns: Namespace) -> bool:
        """Whether to track the nested run with this namespace."""
        raise NotImplementedError

    def _on_started(
        self, ns: Namespace, graph_name: str | None, trigger_call_id: str | None
    ) -> None:
        """Handle the start of a nested run; `_pending_cause` has the tool call it is for."""
        raise NotImplementedError

    def _on_terminal(self, ns: Namespace, status: SubgraphStatus, error: str | None) -> None:
        """Handle the end of a nested run."""
        raise NotImplementedError

    async def _aon_terminal(self, ns: Namespace, status: SubgraphStatus, error: str | None) -> None:
        """Async version of `_on_terminal`."""
        self._on_terminal(ns, status, error)

    def process(self, event: ProtocolEvent) -> bool:
        """Track tasks."""
        if event["method"] != "tasks":
            return True
        for ended in self._tracked(event):
            self._on_terminal(*ended)
        return False

    async def aprocess(self, event: ProtocolEvent) -> bool:
        """Track tasks, unless the subclass does it in `process`."""
        if type(self).process is not TasksLifecycleBase.process:
            return self.process(event)
        if event["method"] != "tasks":
            return True
        for ended in self._tracked(event):
            await self._aon_terminal(*ended)
        return False

    def finalize(self) -> None:
        """Complete the nested runs that are left."""
        for ended in self._left("completed", None):
            self._on_terminal(*ended)

    async def afinalize(self) -> None:
        """Complete the nested runs that are left."""
        for ended in self._left("completed", None):
            await self._aon_terminal(*ended)

    def fail(self, err: BaseException) -> None:
        """End the nested runs that are left as the run did."""
        for ended in self._left(*status_of_error(err)):
            self._on_terminal(*ended)

    async def afail(self, err: BaseException) -> None:
        """End the nested runs that are left as the run did."""
        for ended in self._left(*status_of_error(err)):
            await self._aon_terminal(*ended)

    def _left(self, status: SubgraphStatus, error: str | None) -> list[_Ended]:
        left: list[_Ended] = [(ns, status, error) for ns in self._open]
        self._open.clear()
        return left

    def _tracked(self, event: ProtocolEvent) -> list[_Ended]:
        """Handle an event of a task; return the nested runs that end with it."""
        ns, data = tuple(event["params"]["namespace"]), event["params"]["data"]
        if "result" in data:
            return self._pop_terminal_transitions(ns, data)
        self._record_identity(ns, data)
        self._record_pending_tool_calls(data)
        self._handle_task_start(ns, data)
        return []

    def _record_identity(self, ns: Namespace, data: dict[str, Any]) -> None:
        """Remember the name of the agent whose task is the first in a namespace."""
        if ns not in self._lc_by_ns:
            self._lc_by_ns[ns] = _agent_of(data)

    def _record_pending_tool_calls(self, data: dict[str, Any]) -> None:
        """Remember the tool call that a task is for: the first one of its input."""
        given: Any = data.get("input")
        calls: list[Any] = [given.get("tool_call")] if isinstance(given, dict) else []
        if isinstance(given, list):
            calls = given
        ids = [call.get("id") for call in calls if isinstance(call, dict)]
        if found := [one for one in ids if isinstance(one, str)]:
            self._pending_tool_calls[data["id"]] = found[0]

    def _handle_task_start(self, ns: Namespace, data: dict[str, Any]) -> None:
        """Call `_on_started` with a nested run whose first task starts."""
        if ns in self._seen or not self._should_track(ns):
            return
        self._seen.add(ns)
        node, _, task = ns[-1].partition(":")
        agent = _agent_of(data)
        call = self._pending_tool_calls.get(task) if agent is not None else None
        self._pending_cause = {"type": "toolCall", "tool_call_id": call} if call else None
        self._on_started(ns, node if agent is None else agent, task or None)
        if task:
            self._open[ns] = task

    def _pop_terminal_transitions(self, ns: Namespace, data: dict[str, Any]) -> list[_Ended]:
        """Return the nested runs that end with a task, and stop tracking them."""
        ended = [n for n, task in self._open.items() if n[:-1] == ns and task == data["id"]]
        for one in ended:
            del self._open[one]
        return [(one, *status_of_result(data)) for one in ended]


def _agent_of(data: dict[str, Any]) -> str | None:
    return (data.get("metadata") or {}).get("lc_agent_name")
