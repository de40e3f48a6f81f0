"""What a check works with: savers of the kind under test, over one store that was empty."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

import anyio

from actorgraph.ports import Saver
from actorgraph.testing.conformance.checks import NotOfferedError
from actorgraph.testing.faults import FaultPlan, FaultySaver

T = TypeVar("T")

MakeSaver = Callable[[], Any]
"""Makes a saver over the store; called again, what another process would make."""

Place = Callable[[], AbstractAsyncContextManager[MakeSaver]]
"""Makes an empty store, and removes it at the end of its block."""


class Bench:
    """Savers over one store.

    Args:
        make: makes one. It may have a method `failing(plan)` that makes one whose storage asks
            the `FaultPlan` at each operation.
    """

    def __init__(self, make: MakeSaver) -> None:
        self._make = make

    @asynccontextmanager
    async def public(self) -> AsyncGenerator["Public"]:
        """A saver by LangGraph's methods, open inside of the block.

        One that has the port's methods alone is opened by actors of this library.
        """
        made = self._make()
        bare = isinstance(made, Saver) and not hasattr(made, "aget_tuple")
        saver: Any = FaultySaver(made) if bare else made
        if hasattr(saver, "__aenter__"):
            async with saver as opened:
                yield Public(opened)
        else:
            yield Public(saver)

    @asynccontextmanager
    async def port(self) -> AsyncGenerator[Saver]:
        """A saver by `actorgraph.ports.Saver`, open inside of the block, without actors."""
        async with opened(self._port(self._make())) as saver:
            yield saver

    def lasts(self) -> None:
        """For checks of what outlives a saver.

        Raises: NotOfferedError: what is stored ends with the process; its `durable` says so.
        """
        if not getattr(self._make(), "durable", True):
            raise NotOfferedError("what is stored ends with the process")

    def failing(self, plan: FaultPlan) -> Saver:
        """A port whose storage fails as a plan says.

        Raises: NotOfferedError: the place makes none.
        """
        make = getattr(self._make, "failing", None)
        if make is None:
            raise NotOfferedError("the place makes no savers that fail")
        return self._port(make(plan))

    def _port(self, saver: Any) -> Saver:
        if not isinstance(saver, Saver):
            raise NotOfferedError("it hasn't the methods of actorgraph.ports.Saver")
        return saver


@asynccontextmanager
async def opened(port: Saver) -> AsyncGenerator[Saver]:
    """A port, open inside of the block, and closed also when the block is cancelled."""
    await port.open()
    try:
        yield port
    finally:
        with anyio.CancelScope(shield=True):
            await port.close()


async def at_once(do: Callable[[T], Awaitable[None]], items: Iterable[T]) -> None:
    """Call a function for many items at once; the first failure is raised, as it was."""
    failures = list[Exception]()

    async def one(item: T) -> None:
        try:
            await do(item)
        except Exception as error:  # noqa: BLE001 - raised below
            failures.append(error)

    async with anyio.create_task_group() as group:
        for item in items:
            group.start_soon(one, item)
    if failures:
        raise failures[0]


class Public:
    """A saver's methods by LangGraph's names; blocking ones where it has no others."""

    def __init__(self, saver: Any) -> None:
        self.saver = saver

    def offers(self, *names: str) -> None:
        """Raise NotOfferedError unless the saver has these methods."""
        for name in names:
            if not (hasattr(self.saver, f"a{name}") or hasattr(self.saver, name)):
                raise NotOfferedError(f"it has no method {name}")

    async def ask(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Call a method, the blocking one in a worker thread.

        Raises: NotOfferedError: it has neither.
        """
        self.offers(name)
        if hasattr(self.saver, f"a{name}"):
            try:
                return await getattr(self.saver, f"a{name}")(*arguments, **options)
            except NotImplementedError as missing:
                if not hasattr(self.saver, name):
                    raise NotOfferedError(f"it has no method {name}") from missing
        try:
            return await anyio.to_thread.run_sync(
                lambda: getattr(self.saver, name)(*arguments, **options)
            )
        except NotImplementedError as missing:
            raise NotOfferedError(f"it has no method {name}") from missing

    async def put(
        self,
        config: Mapping[str, Any],
        checkpoint: Any,
        metadata: Mapping[str, Any],
        versions: Mapping[str, Any] | None = None,
    ) -> Any:
        """`aput`; without versions all channels are new."""
        versions = checkpoint["channel_versions"] if versions is None else versions
        return await self.ask("put", config, checkpoint, metadata, versions)

    async def put_writes(
        self, config: Mapping[str, Any], writes: Iterable[tuple[str, Any]], task: str
    ) -> None:
        """`aput_writes`."""
        await self.ask("put_writes", config, [*writes], task)

    async def get(self, config: Mapping[str, Any]) -> Any:
        """`aget_tuple`."""
        return await self.ask("get_tuple", config)

    async def list(self, config: Mapping[str, Any] | None, **options: Any) -> list[Any]:
        """`alist`, as a list."""
        if hasattr(self.saver, "alist"):
            try:
                return [found async for found in self.saver.alist(config, **options)]
            except NotImplementedError:
                pass
        self.offers("list")
        return await anyio.to_thread.run_sync(lambda: [*self.saver.list(config, **options)])
