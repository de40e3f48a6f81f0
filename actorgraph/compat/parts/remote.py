"""RemoteGraph: a graph on a server with LangGraph's API, called as if it were here.

The clients are those of `langgraph_sdk`. `remote_runs.py` decides about their arguments and reads
their answers; here are the calls.
"""

import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Self, cast

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.graph import Edge, Graph, Node
from langgraph_sdk import get_client, get_sync_client

from actorgraph.compat.parts.remote_runs import (
    RemoteException,
    RunReader,
    RunRequest,
    address_of,
    config_at,
    snapshot_of,
    thread_of,
)
from actorgraph.errors import InvalidConfigError
from actorgraph.values.commands import GraphOutput
from actorgraph.values.configs import merge_configs
from actorgraph.values.state_snapshot import StateSnapshot

__all__ = ["RemoteException", "RemoteGraph"]

Config = Mapping[str, Any]
_HISTORY = 10


class RemoteGraph(Runnable[Any, Any]):
    """A graph on a server.

    It has the methods of a compiled graph, and may be a node of one. There it runs on the server's
    thread with the id of the caller's thread; its questions pause the caller's run, and answers to
    them resume it.

    Args:
        assistant_id: the graph's name, or the id of an assistant.
        url: of the server; needed unless clients are given.
        api_key: for the server; default from the environment, as `langgraph_sdk` reads it.
        headers: of every request.
        client: for the async methods; default a new one.
        sync_client: for the others; default a new one.
        config: for every call.
        name: for a node of a graph. Default `assistant_id`.
        distributed_tracing: whether requests carry LangSmith's trace, if there is one.
    """

    def __init__(
        self,
        assistant_id: str,
        /,
        *,
        url: str | None = None,
        api_key: str | None = None,
        headers: dict[str, str] | None = None,
        client: Any = None,
        sync_client: Any = None,
        config: Config | None = None,
        name: str | None = None,
        distributed_tracing: bool = False,
    ) -> None:
        self.assistant_id = assistant_id
        self.name = name or assistant_id
        self.config: Any = config
        self.distributed_tracing = distributed_tracing
        self.client, self.sync_client = client, sync_client
        if url is not None:
            given: Any = {"url": url, "api_key": api_key, "headers": headers}
            self.client = client or get_client(**given)
            self.sync_client = sync_client or get_sync_client(**given)

    def copy(self, update: Mapping[str, Any]) -> Self:
        """Return a copy with other arguments."""
        known = {**vars(self), **update}
        return type(self)(known.pop("assistant_id"), **known)

    def with_config(self, config: Any = None, **more: Any) -> Self:
        """Return a copy whose calls add a config."""
        return self.copy({"config": merge_configs(self.config, config, more)})

    # --- runs ---

    def stream(  # pyright: ignore[reportIncompatibleMethodOverride] - more is typed
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        stream_mode: str | Sequence[str] | None = None,
        subgraphs: bool = False,
        headers: Mapping[str, str] | None = None,
        version: str = "v1",
        **options: Any,
    ) -> Iterator[Any]:
        """Blocking version of `astream`."""
        client = _given(self.sync_client, "sync_client")
        request = self._request(input, config, stream_mode, subgraphs)
        if request.may_resume:
            self._go_on(request, client)
        reader = RunReader(request, version)
        parts = client.runs.stream(**self._arguments(request, headers, options))
        for part in parts:
            yield from reader.chunks(part)

    async def astream(  # pyright: ignore[reportIncompatibleMethodOverride] - more is typed
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        stream_mode: str | Sequence[str] | None = None,
        subgraphs: bool = False,
        headers: Mapping[str, str] | None = None,
        version: str = "v1",
        **options: Any,
    ) -> AsyncIterator[Any]:
        """Run it; yield the chunks.

        Args:
            input: for the graph, or a Command.
            config: with `thread_id`, the run is one of that thread, which is made if it isn't
                there; without, it keeps no state.
            stream_mode: one mode for bare chunks, several for the client's parts.
            subgraphs: whether to include subgraphs: `(namespace, chunk)`, and with several modes
                `(namespace, mode, chunk)`.
            headers: of the requests.
            version: "v2" for dicts of type, ns, data and interrupts.
            options: of the client's `runs.stream`, e.g. `context`, `interrupt_before`.
        Raises:
            GraphInterrupt: it asks, as a node of a graph.
            RemoteException: the run has failed.
        """
        client = _given(self.client, "client")
        request = self._request(input, config, stream_mode, subgraphs)
        if request.may_resume:
            await self._ago_on(request, client)
        reader = RunReader(request, version)
        parts = client.runs.stream(**self._arguments(request, headers, options))
        async for part in parts:
            for chunk in reader.chunks(part):
                yield chunk

    def invoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Blocking version of `ainvoke`."""
        version = options.get("version", "v1")
        last: Any = None
        for chunk in self.stream(input, config, stream_mode="values", **options):
            last = chunk
        return _output(last, version)

    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Any:
        """Run it; return its last state, with `__interrupt__` if it asks.

        Args:
            options: those of `astream`, apart from `stream_mode`. Version "v2" returns a
                GraphOutput.
        Raises: as `astream`.
        """
        version = options.get("version", "v1")
        last: Any = None
        async for chunk in self.astream(input, config, stream_mode="values", **options):
            last = chunk
        return _output(last, version)

    def stream_events(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Any:
        """Not supported.

        Raises:
            NotImplementedError: always.
        """
        raise _no_events()

    def astream_events(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Any:
        """Not supported.

        Raises:
            NotImplementedError: always.
        """
        raise _no_events()

    # --- states ---

    def get_state(self, config: Config, *, subgraphs: bool = False, **more: Any) -> StateSnapshot:
        """Blocking version of `aget_state`."""
        client = _given(self.sync_client, "sync_client")
        asked = self._state_arguments(config)
        return snapshot_of(client.threads.get_state(**asked, subgraphs=subgraphs, **more))

    async def aget_state(
        self, config: Config, *, subgraphs: bool = False, **more: Any
    ) -> StateSnapshot:
        """Return the state of a thread.

        Args:
            config: addresses the thread, and perhaps a checkpoint.
            subgraphs: whether to include the states of subgraphs.
            more: `headers` and `params` of the request.
        Raises:
            InvalidConfigError: the config has no `thread_id`.
        """
        client = _given(self.client, "client")
        asked = self._state_arguments(config)
        return snapshot_of(await client.threads.get_state(**asked, subgraphs=subgraphs, **more))

    def get_state_history(
        self,
        config: Config,
        *,
        filter: dict[str, Any] | None = None,
        before: Config | None = None,
        limit: int | None = None,
        **more: Any,
    ) -> Iterator[StateSnapshot]:
        """Blocking version of `aget_state_history`."""
        client = _given(self.sync_client, "sync_client")
        asked = self._history_arguments(config, filter, before, limit)
        for state in client.threads.get_history(**asked, **more):
            yield snapshot_of(state)

    async def aget_state_history(
        self,
        config: Config,
        *,
        filter: dict[str, Any] | None = None,
        before: Config | None = None,
        limit: int | None = None,
        **more: Any,
    ) -> AsyncIterator[StateSnapshot]:
        """Yield the states of a thread, the newest first.

        Args:
            config: addresses the thread.
            filter: entries of the metadata.
            before: addresses a checkpoint; only older ones are wanted.
            limit: the most states. Default 10.
            more: `headers` and `params` of the request.
        Raises:
            InvalidConfigError: the config has no `thread_id`.
        """
        client = _given(self.client, "client")
        asked = self._history_arguments(config, filter, before, limit)
        for state in await client.threads.get_history(**asked, **more):
            yield snapshot_of(state)

    def update_state(
        self, config: Config, values: Any, as_node: str | None = None, **more: Any
    ) -> dict[str, Any]:
        """Blocking version of `aupdate_state`."""
        client = _given(self.sync_client, "sync_client")
        asked = self._state_arguments(config)
        made = client.threads.update_state(**asked, values=values, as_node=as_node, **more)
        return config_at(made["checkpoint"])

    async def aupdate_state(
        self, config: Config, values: Any, as_node: str | None = None, **more: Any
    ) -> dict[str, Any]:
        """Update the state of a thread as if a node had returned the values.

        Returns: the config that addresses the new checkpoint.
        Raises:
            InvalidConfigError: the config has no `thread_id`.
        """
        client = _given(self.client, "client")
        asked = self._state_arguments(config)
        made = await client.threads.update_state(**asked, values=values, as_node=as_node, **more)
        return config_at(made["checkpoint"])

    # --- its picture ---

    def get_graph(self, config: Any = None, *, xray: int | bool = False, **more: Any) -> Graph:
        """Blocking version of `aget_graph`."""
        client = _given(self.sync_client, "sync_client")
        return _drawn(client.assistants.get_graph(self.assistant_id, xray=xray, **more))

    async def aget_graph(
        self, config: Any = None, *, xray: int | bool = False, **more: Any
    ) -> Graph:
        """Return its nodes and edges as LangChain's drawable graph.

        Args:
            config: not used.
            xray: how many levels of subgraphs to draw, or True for all.
            more: `headers` and `params` of the request.
        """
        client = _given(self.client, "client")
        return _drawn(await client.assistants.get_graph(self.assistant_id, xray=xray, **more))

    # --- arguments of the client ---

    def _request(self, given: Any, config: Any, modes: Any, subgraphs: bool) -> RunRequest:
        return RunRequest(given, merge_configs(self.config, config), modes, subgraphs=subgraphs)

    def _go_on(self, request: RunRequest, client: Any) -> None:
        request.resume(client.threads.get_state(request.thread_id))

    async def _ago_on(self, request: RunRequest, client: Any) -> None:
        request.resume(await client.threads.get_state(request.thread_id))

    def _arguments(
        self, request: RunRequest, headers: Mapping[str, str] | None, options: dict[str, Any]
    ) -> dict[str, Any]:
        traced = _traced(headers) if self.distributed_tracing else headers
        own = {**request.arguments(), "assistant_id": self.assistant_id, "headers": traced}
        return {**options, **own}

    def _state_arguments(self, config: Config) -> dict[str, Any]:
        merged = merge_configs(self.config, config)
        return {"thread_id": thread_of(merged), "checkpoint": address_of(merged)}

    def _history_arguments(
        self, config: Config, found: Any, before: Config | None, limit: int | None
    ) -> dict[str, Any]:
        return {
            **self._state_arguments(config),
            "metadata": found,
            "before": address_of(before),
            "limit": limit or _HISTORY,
        }


def _given(client: Any, name: str) -> Any:
    if client is None:
        raise InvalidConfigError(
            f"the RemoteGraph has no {name}", do=f"give it `url=`, or `{name}=` of langgraph_sdk"
        )
    return client


def _output(last: Any, version: str) -> Any:
    if version != "v2" or last is None:
        return last
    return GraphOutput(last["data"], last["interrupts"])


def _no_events() -> NotImplementedError:
    return NotImplementedError("a RemoteGraph has no event streams; read its chunks: astream()")


def _drawn(graph: Any) -> Graph:
    nodes = {str(node["id"]): _node(node) for node in graph["nodes"]}
    return Graph(nodes=nodes, edges=[Edge(**edge) for edge in graph["edges"]])


def _node(node: Mapping[str, Any]) -> Node:
    data: Any = node.get("data") or {}
    own = cast("dict[str, Any]", data).get("name") if isinstance(data, dict) else None
    name = node.get("name") or own or str(node["id"])
    return Node(str(node["id"]), name, cast("Any", data), node.get("metadata"))


def _traced(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return headers with LangSmith's trace, if the program traces."""
    helpers = sys.modules.get("langsmith.run_helpers")
    tree: Any = helpers.get_current_run_tree() if helpers is not None else None
    own = dict(headers or {})
    if tree is None:
        return own
    trace: dict[str, str] = tree.to_headers()
    if "baggage" in own and "baggage" in trace:
        trace["baggage"] = f"{own['baggage']},{trace['baggage']}"
    return {**own, **trace}
