"""Several calls of a graph at once, for `abatch`: their configs and their results."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio

from actorgraph.api import config as configs
from actorgraph.errors import GraphInterrupt, InvalidConfigError
from actorgraph.values.configs import Config


def one_each(inputs: Sequence[Any], config: Any) -> list[Config | None]:
    """Return a config for each input.

    Raises:
        InvalidConfigError: there are more or fewer configs than inputs.
    """
    if not isinstance(config, (list, tuple)):
        return [configs.checked(config)] * len(inputs)
    if len(config) != len(inputs):
        raise InvalidConfigError(
            f"config must be a list of the same length as inputs, but got {len(config)} configs "
            f"for {len(inputs)} inputs",
            do="pass one config for each input, or one dict for all",
        )
    return list(config)


async def all_of(
    calls: Sequence[Callable[[], Awaitable[Any]]], limit: int, *, return_exceptions: bool
) -> list[Any]:
    """Await calls, at most `limit` of them concurrently; return their results in order."""
    if len(calls) == 1:
        try:
            return [await calls[0]()]
        except GraphInterrupt:
            raise
        except Exception as error:
            if return_exceptions:
                return [error]
            raise
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
