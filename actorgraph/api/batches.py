"""Run a graph for many inputs concurrently: `abatch` and `batch`."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Unpack

import anyio

from actorgraph.api import config as configs
from actorgraph.api.blocking import block_on
from actorgraph.api.compiled import Config
from actorgraph.api.options import CallOptions
from actorgraph.api.running import RunMethods
from actorgraph.errors import GraphInterrupt, InvalidConfigError
from actorgraph.values.policies import StreamMode
from actorgraph.values.streams import StreamVersion


class BatchMethods(RunMethods):
    """`abatch` and `batch`."""

    async def abatch(
        self,
        inputs: Sequence[Any],
        config: Config | Sequence[Config] | None = None,
        *,
        return_exceptions: bool = False,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        version: StreamVersion = "v1",
        **options: Unpack[CallOptions],
    ) -> list[Any]:
        """Call `ainvoke` for each input, concurrently.

        Args:
            inputs: one run each.
            config: of every run, or a list with one for each. `max_concurrency` bounds the
                concurrent runs (the first config's), and the tasks of each run.
            return_exceptions: return the exception of a run that fails as its result.
                Default: the first one cancels the other runs, which store what they have done.
            stream_mode: as in `ainvoke`.
            version: as in `ainvoke`.
            options: as in `ainvoke`.
        Returns: the results, in the order of the inputs.
        Raises:
            InvalidConfigError: the number of configs is not that of the inputs; nothing ran.
            Exception: as `ainvoke`; bad arguments of any input before the first run starts.
        """
        given = _one_each(inputs, config)
        bound = self._bound(given[0]) if given else None
        # Prepared here, in input order: in a node a nested run is identified by the order of
        # calls, and the tasks below may start in any order.
        calls = [
            self._invocation(one, own, stream_mode, version, options)
            for one, own in zip(inputs, given, strict=True)
        ]
        limit = configs.max_concurrency_of(bound) or len(calls)
        return await _all_of(calls, limit, return_exceptions=return_exceptions)

    def batch(self, inputs: Sequence[Any], config: Any = None, **options: Any) -> list[Any]:
        """Blocking version of `abatch`."""
        return block_on("abatch", lambda: self.abatch(inputs, config, **options))


def _one_each(inputs: Sequence[Any], config: Any) -> list[Config | None]:
    if not isinstance(config, (list, tuple)):
        return [configs.checked(config)] * len(inputs)
    if len(config) != len(inputs):
        raise InvalidConfigError(
            f"config must be a list of the same length as inputs, but got {len(config)} configs "
            f"for {len(inputs)} inputs",
            do="pass one config for each input, or one dict for all",
        )
    return list(config)


async def _all_of(
    calls: Sequence[Callable[[], Awaitable[Any]]], limit: int, *, return_exceptions: bool
) -> list[Any]:
    """Await calls, at most `limit` of them concurrently; return their results in order."""
    results: list[Any] = [None] * len(calls)
    failures: list[Exception] = []
    pauses: list[GraphInterrupt] = []
    slots = anyio.Semaphore(max(limit, 1))

    async def one(index: int) -> None:
        async with slots:
            try:
                results[index] = await calls[index]()
            except GraphInterrupt as pause:  # in a node: other calls may have interrupts too
                pauses.append(pause)
            except Exception as error:  # noqa: BLE001 - nodes may raise anything
                results[index] = error
                if not return_exceptions:
                    failures.append(error)
                    group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for index in range(len(calls)):
            group.start_soon(one, index)
    for stopped in (*failures, *pauses):
        raise stopped
    return results
