"""The runs of a compiled graph: one call of `ainvoke` or `invoke`, several at once, a batch."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from actorgraph.api import config as configs
from actorgraph.api.batches.batch_options import batch_plan, refuse_breakpoints
from actorgraph.api.batches.thread_batch import ThreadBatch
from actorgraph.api.graph.graph_settings import GraphSettings
from actorgraph.api.graph.graph_threads import BatchCall, GraphThreads
from actorgraph.api.graph.many_calls import all_of, one_each
from actorgraph.api.graph.run_setup import RunSetup, bound_config, place_of, saver_host
from actorgraph.api.options import CALL_NAMES, CallOptions, InvokeOptions, invoke_options
from actorgraph.api.streams import formats as results
from actorgraph.api.streams.formats import printer_of
from actorgraph.api.streams.stream import ChunkStream
from actorgraph.errors import InvalidConfigError
from actorgraph.loops import start_beside
from actorgraph.plan.plan import Plan
from actorgraph.runtime.run.launch import Launch
from actorgraph.runtime.run.node_warnings import check_pause
from actorgraph.runtime.run.start import prepare
from actorgraph.runtime.task.scope import CURRENT
from actorgraph.values.configs import Config
from actorgraph.values.policies import StreamMode
from actorgraph.values.run import Interrupted
from actorgraph.values.stream_items import StreamVersion


class GraphRuns(msgspec.Struct, frozen=True):
    """Runs a graph.

    Attributes:
        graph: the compiled graph. Where a run is read as a stream, its own `astream` is called,
            which a program may have replaced.
    """

    graph: GraphSettings

    def prepared(
        self,
        given: Any,
        config: Config | None,
        stream_mode: StreamMode | Sequence[StreamMode],
        version: StreamVersion,
        options: InvokeOptions,
    ) -> Callable[[], Awaitable[Any]]:
        """Validate a call and return a function that runs it; see `CompiledStateGraph.ainvoke`.

        In a node the order of calls identifies nested runs, so the run's place is taken here.
        """
        if stream_mode != "values":
            return self._stream(given, config, stream_mode, version, options).read_all
        launch = self._launch(given, config, version, options)
        # Out of the list when the run begins: its input need not live as long as the run.
        return partial(self._outcome, [launch].pop, options.get("output_keys"), version)

    def deferred(
        self,
        given: Any,
        config: Config | None,
        stream_mode: StreamMode | Sequence[StreamMode],
        version: StreamVersion,
        options: InvokeOptions,
    ) -> Callable[[], Awaitable[Any]]:
        """Return a function that validates a call and runs it, where that is called."""
        if stream_mode != "values":
            return partial(self._chunks, given, config, stream_mode, version, options)
        launch = partial(self._launch, given, config, version, options)
        return partial(self._outcome, launch, options.get("output_keys"), version)

    def _launch(
        self, given: Any, config: Config | None, version: StreamVersion, options: InvokeOptions
    ) -> Launch:
        """Validate a call that returns the output."""
        call: CallOptions = options
        subgraphs, graph = False, self.graph
        if not options.keys() <= CALL_NAMES:
            call, subgraphs = invoke_options(options)
        if version != "v1":
            results.check_version(version)
        if graph.config is not None or (
            config is not None and not (type(config) is dict and config.keys() <= configs.KEYS)
        ):
            config = bound_config(graph, config)
        modes, debug = call.get("print_mode", ()), call.get("debug", graph.debug)
        printer = printer_of(modes, debug=debug, subgraphs=subgraphs) if modes or debug else None
        launch = RunSetup(graph).make_launch(
            given,
            config,
            place=None if CURRENT.get(None) is None else place_of(graph, config),
            options=call,
            default_keys=graph.plan.output_keys,
            modes=tuple(printer.modes) if printer else (),
            broadcast=printer,
        )
        if graph.plan.bare_output and call.get("output_keys") is None:
            launch = launch.with_bare_output()
        return launch

    def _stream(
        self,
        given: Any,
        config: Config | None,
        stream_mode: StreamMode | Sequence[StreamMode],
        version: StreamVersion,
        options: InvokeOptions,
    ) -> ChunkStream[Any]:
        """Validate a call that returns chunks."""
        call: CallOptions = options
        subgraphs = False
        if not options.keys() <= CALL_NAMES:
            call, subgraphs = invoke_options(options)
        shown: Any = {
            **call,
            "output_keys": chunk_keys(self.graph.plan, call),
            "subgraphs": subgraphs,
        }
        program: Any = self.graph
        return program.astream(given, config, stream_mode=stream_mode, version=version, **shown)

    async def _chunks(self, *call: Any) -> list[Any]:
        return await self._stream(*call).read_all()

    async def _outcome(
        self, make_launch: Callable[[], Launch], output_keys: object, version: str
    ) -> Any:
        launch = make_launch()
        place, context, address = launch.place, launch.context, launch.address
        is_stored, plan = launch.host is not None, self.graph.plan
        supervisor, effects = await prepare(launch)
        del launch  # its input need not live as long as the run
        outcome = await supervisor.run(effects)
        if place is None and type(outcome) is Interrupted:
            check_pause(context, address, plan.name, outcome, is_stored=is_stored)
        left = results.output_of(outcome, place)
        return results.result_of(plan, left, output_keys, version)

    async def together(
        self,
        inputs: Sequence[Any],
        config: Config | Sequence[Config] | None,
        options: InvokeOptions,
        *,
        stream_mode: StreamMode | Sequence[StreamMode],
        version: StreamVersion,
        return_exceptions: bool,
    ) -> list[Any]:
        """See `CompiledStateGraph.abatch`."""
        given = one_each(inputs, config)
        bound = bound_config(self.graph, given[0]) if given else None
        # Prepared here, in input order: in a node a nested run is identified by the order of
        # calls, and the tasks below may start in any order.
        calls = [
            self.prepared(one, own, stream_mode, version, options)
            for one, own in zip(inputs, given, strict=True)
        ]
        limit = configs.max_concurrency_of(bound) or len(calls)
        return await all_of(calls, limit, return_exceptions=return_exceptions)

    def threads(self, inputs: Any, key: Any, options: dict[str, Any]) -> ThreadBatch[Any]:
        """See `CompiledStateGraph.amap_threads`."""
        if CURRENT.get(None) is not None:
            raise InvalidConfigError(
                "a batch of threads can't be run in a node: a run inside a node is part of its "
                "thread",
                do="call it outside of the graph, or use abatch() in the node",
            )
        saver_host(self.graph, "amap_threads()")
        plan, call = batch_plan("amap_threads", inputs, key, options, name=self.graph.name)
        refuse_breakpoints("amap_threads", self.graph.plan, call)
        threads = GraphThreads(self.graph, plan, BatchCall.of(options, call))
        return ThreadBatch(plan, threads, lambda work: start_beside(work.serve, work.ended))


def chunk_keys(plan: Plan, call: CallOptions) -> str | Sequence[str]:
    """Return the keys of a call's chunks: those that it names, else the graph's output."""
    keys = call.get("output_keys")
    if keys is not None:
        return keys
    return plan.output_keys[0] if plan.bare_output else plan.output_keys
