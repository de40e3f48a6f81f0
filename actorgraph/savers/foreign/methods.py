"""Calls the methods of a saver with LangGraph's interface, async or blocking.

An async method runs in the saver's own event loop while that is running: the loop in its attribute
`loop`, or the one in which the graph was compiled. Otherwise it runs in the caller's loop. A
blocking method runs in a worker thread, one call at a time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

import anyio
import anyio.to_thread

from actorgraph.bridging import BRIDGE
from actorgraph.errors import CheckpointError, NotSupportedError, StorageError
from actorgraph.errors.signatures import takes

T = TypeVar("T")
NEEDED = ("get_tuple", "list", "put", "put_writes")
_BASE = "actorgraph.api.savers.base_saver"


def missing_methods(saver: object) -> list[str]:
    """Return which of the four needed methods a saver lacks, both async and blocking."""
    return [name for name in NEEDED if not (has(saver, f"a{name}") or has(saver, name))]


def has(saver: object, name: str) -> bool:
    """Whether a saver implements a method, not just inherits the base class's that raises."""
    for kind in type(saver).__mro__:
        if name in vars(kind):
            if (
                kind.__module__ in (_BASE, BRIDGE.saver_module)
                and kind.__name__ == "BaseCheckpointSaver"
            ):
                return name == "get_tuple" and has(saver, "get")
            return True
    return callable(vars(saver).get(name)) if hasattr(saver, "__dict__") else False


class _Selection:
    """The items of a listing that pass a filter, up to a maximum."""

    def __init__(self, keep: Callable[[Any], bool], most: int | None) -> None:
        self.items: list[Any] = []
        self._keep = keep
        self._most = most

    def offer(self, item: Any) -> bool:
        """Add an item if it passes. Returns False, without looking at it, if no more are wanted."""
        if self._most is not None and len(self.items) >= self._most:
            return False
        if self._keep(item):
            self.items.append(item)
        return True


class SaverMethods:
    """The methods of one saver.

    Attributes:
        blocking_first: names of methods of which the blocking form is called although there is
            an async one.
    """

    def __init__(self, saver: Any) -> None:
        self.saver = saver
        self.blocking_first: frozenset[str] = frozenset()
        self._blocking: set[str] = set()
        self._takes_path: dict[str, bool] = {}
        self._created_in = _running()
        self._limiter: anyio.CapacityLimiter | None = None

    def open(self) -> None:
        """Get ready in the current event loop."""
        self._limiter = anyio.CapacityLimiter(1)

    def can(self, name: str) -> bool:
        """Whether the saver has a method, async or blocking."""
        return has(self.saver, f"a{name}") or has(self.saver, name)

    async def call(self, name: str, *args: Any, **more: Any) -> Any:
        """Call a method and return its result.

        Args:
            name: of the blocking form, such as "put".
        Raises:
            StorageError: the method raised an exception.
            NotSupportedError: the saver has no such method.
        """
        twin = f"a{name}"

        async def call_async() -> Any:
            return await getattr(self.saver, twin)(*self._taken(twin, args), **more)

        def call_blocking() -> Any:
            return getattr(self.saver, name)(*self._taken(name, args), **more)

        return await self._either(name, call_async, call_blocking)

    def _taken(self, name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Leave out the task path of writes if the saver is older than these."""
        if not name.endswith("put_writes"):
            return args
        if name not in self._takes_path:
            self._takes_path[name] = takes(getattr(self.saver, name), *args)
        return args if self._takes_path[name] else args[:-1]

    async def listed(
        self, keep: Callable[[Any], bool], most: int | None, **asked: Any
    ) -> list[Any]:
        """Call `list` and return the tuples that pass a filter.

        Args:
            keep: the filter.
            most: maximum number of tuples; None for all.
            asked: arguments of `list`.
        Raises:
            StorageError: the method raised an exception.
            NotSupportedError: the saver has no such method.
        """
        config = asked.pop("config")

        async def call_async() -> list[Any]:
            selection = _Selection(keep, most)
            async for item in self.saver.alist(config, **asked):
                if not selection.offer(item):
                    break
            return selection.items

        def call_blocking() -> list[Any]:
            selection = _Selection(keep, most)
            for item in self.saver.list(config, **asked):
                if not selection.offer(item):
                    break
            return selection.items

        return await self._either("list", call_async, call_blocking)

    async def _either(
        self, name: str, call_async: Callable[[], Awaitable[T]], call_blocking: Callable[[], T]
    ) -> T:
        try:
            if not self._is_blocking(name) and has(self.saver, f"a{name}"):
                try:
                    return await self._in_own_loop(call_async)
                except NotImplementedError:  # LangGraph's SqliteSaver has such async methods
                    if not has(self.saver, name):
                        raise
                    self._blocking.add(name)
            if not has(self.saver, name):
                raise self._missing_method(name)
            return await anyio.to_thread.run_sync(call_blocking, limiter=self._limiter)
        except CheckpointError:
            raise
        except NotImplementedError as error:
            raise self._missing_method(name) from error
        except Exception as error:
            raise StorageError(
                f"{type(self.saver).__name__}.{name}() failed: {error!r}",
                do="see the cause; this call may have stored a part of its data",
            ) from error

    def _is_blocking(self, name: str) -> bool:
        """Whether to call the blocking form although there is an async one."""
        return name in self._blocking or name in self.blocking_first

    async def _in_own_loop(self, call_async: Callable[[], Awaitable[T]]) -> T:
        here, own_loop = _running(), self._own_loop()
        if own_loop is None or own_loop is here:
            return await call_async()
        future = asyncio.run_coroutine_threadsafe(cast("Any", call_async()), own_loop)
        if here is not None:
            return await asyncio.wrap_future(future)
        return await anyio.to_thread.run_sync(future.result)

    def _own_loop(self) -> asyncio.AbstractEventLoop | None:
        named = getattr(self.saver, "loop", None)
        for loop in (named, self._created_in):
            if isinstance(loop, asyncio.AbstractEventLoop) and loop.is_running():
                return loop
        return None

    def _missing_method(self, name: str) -> NotSupportedError:
        return NotSupportedError(
            f"{type(self.saver).__name__} doesn't support this: it has no {name}()",
            do=f"add {name}() or a{name}() to the class, or use one of actorgraph's savers",
        )


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
