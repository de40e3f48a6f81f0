"""SaverMethods of a saver's methods: which twin, in which event loop or thread.

A method's async twin is called in the saver's own event loop: the one that it names as `loop`, or
the one that ran when the graph was compiled, while that runs; else in that of the caller. A
method without one runs in a worker thread, one call at a time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar, cast

import anyio
import anyio.to_thread

from actorgraph.errors import CheckpointError, NotSupportedError, StorageError

T = TypeVar("T")
NEEDED = ("get_tuple", "list", "put", "put_writes")
_BASES = ("langgraph.checkpoint.base", "actorgraph.api.saver_base")


def missing(saver: object) -> list[str]:
    """Those of the four methods that a saver has in neither form."""
    return [name for name in NEEDED if not (has(saver, f"a{name}") or has(saver, name))]


def has(saver: object, name: str) -> bool:
    """Whether a saver has a method of its own, not just the base class's that refuses."""
    for kind in type(saver).__mro__:
        if name in vars(kind):
            if kind.__module__ in _BASES and kind.__name__ == "BaseCheckpointSaver":
                return name == "get_tuple" and has(saver, "get")
            return True
    return callable(vars(saver).get(name)) if hasattr(saver, "__dict__") else False


class SaverMethods:
    """The methods of one saver.

    Attributes:
        blocking_first: methods of which the blocking form counts, whatever its async twin does.
    """

    def __init__(self, saver: Any) -> None:
        self.saver = saver
        self.blocking_first: frozenset[str] = frozenset()
        self._blocking: set[str] = set()
        self._made_in = _running()
        self._limiter: anyio.CapacityLimiter | None = None

    def open(self) -> None:
        """Get ready in the current event loop."""
        self._limiter = anyio.CapacityLimiter(1)

    def can(self, name: str) -> bool:
        """Whether the saver has a method in one of its forms."""
        return has(self.saver, f"a{name}") or has(self.saver, name)

    async def call(self, name: str, *args: Any, **more: Any) -> Any:
        """What a method gives.

        Args:
            name: of the blocking form, such as "put".
        Raises:
            StorageError: it has raised something.
            NotSupportedError: the saver has no such method.
        """
        twin = f"a{name}"

        async def waited() -> Any:
            return await getattr(self.saver, twin)(*args, **more)

        return await self._either(
            name, waited, partial(lambda: getattr(self.saver, name)(*args, **more))
        )

    async def listed(
        self, keep: Callable[[Any], bool], most: int | None, **asked: Any
    ) -> list[Any]:
        """The tuples that `list` gives and that are wanted, up to so many.

        Args:
            keep: whether one is wanted.
            asked: the arguments of `list`.
        Raises: as `call`.
        """
        config = asked.pop("config")

        async def waited() -> list[Any]:
            found: list[Any] = []
            async for item in self.saver.alist(config, **asked):
                if most is not None and len(found) >= most:
                    break
                if keep(item):
                    found.append(item)
            return found

        def blocking() -> list[Any]:
            found: list[Any] = []
            for item in self.saver.list(config, **asked):
                if most is not None and len(found) >= most:
                    break
                if keep(item):
                    found.append(item)
            return found

        return await self._either("list", waited, blocking)

    async def _either(
        self, name: str, waited: Callable[[], Awaitable[T]], blocking: Callable[[], T]
    ) -> T:
        try:
            if not self._is_blocking(name) and has(self.saver, f"a{name}"):
                try:
                    return await self._at_home(waited)
                except NotImplementedError:  # as LangGraph's SqliteSaver does
                    if not has(self.saver, name):
                        raise
                    self._blocking.add(name)
            if not has(self.saver, name):
                raise self._lacks(name)
            return await anyio.to_thread.run_sync(blocking, limiter=self._limiter)
        except CheckpointError:
            raise
        except NotImplementedError as error:
            raise self._lacks(name) from error
        except Exception as error:
            raise StorageError(
                f"{type(self.saver).__name__}.{name}() failed: {error!r}",
                do="see the cause; what this call was to store may be stored in part",
            ) from error

    def _is_blocking(self, name: str) -> bool:
        """Whether the blocking form is to be called although there is an async one."""
        return name in self._blocking or name in self.blocking_first

    async def _at_home(self, waited: Callable[[], Awaitable[T]]) -> T:
        here, home = _running(), self._home()
        if home is None or home is here:
            return await waited()
        future = asyncio.run_coroutine_threadsafe(cast("Any", waited()), home)
        if here is not None:
            return await asyncio.wrap_future(future)
        return await anyio.to_thread.run_sync(future.result)

    def _home(self) -> asyncio.AbstractEventLoop | None:
        named = getattr(self.saver, "loop", None)
        for loop in (named, self._made_in):
            if isinstance(loop, asyncio.AbstractEventLoop) and loop.is_running():
                return loop
        return None

    def _lacks(self, name: str) -> NotSupportedError:
        return NotSupportedError(
            f"{type(self.saver).__name__} can't do this: it has no {name}()",
            do=f"give the class {name}() or a{name}(), or use one of actorgraph's savers",
        )


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
