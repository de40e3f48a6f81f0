"""The base of savers that wrap another one, and the principal that operations are done for."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from actorgraph.api.savers.adapt import adapt_checkpointer
from actorgraph.api.savers.hosted import HostedSaver
from actorgraph.codec import Codec
from actorgraph.ports import CommitHere, Saver, Watch
from actorgraph.values.commits import CommitOutcome, Query, Request

_PRINCIPAL: ContextVar[str | None] = ContextVar("actorgraph_principal", default=None)


@contextmanager
def acting_as(principal: str) -> Generator[None]:
    """Set the acting principal in a block, and in every task that is started in it."""
    token = _PRINCIPAL.set(principal)
    try:
        yield
    finally:
        _PRINCIPAL.reset(token)


def current_principal() -> str | None:
    """Return the acting principal; None outside `acting_as`."""
    return _PRINCIPAL.get()


class WrappedSaver(HostedSaver):
    """Forwards everything to another saver. Savers can be nested; open the outermost one only.

    Args:
        saver: the saver to wrap; it must not be opened itself.

    Attributes:
        saver: as given, or its adapter.
        durable: of the wrapped saver.
        immediate: of the wrapped saver.
        keeps_runs: of the wrapped saver.
        codec: of the wrapped saver.
        watch: sees requests and queries first; None without one.
    """

    def __init__(self, saver: Saver) -> None:
        saver = cast("Saver", adapt_checkpointer(saver))
        self.saver = saver
        self.durable = saver.durable
        self.immediate = saver.immediate
        self.codec = cast("Codec | None", getattr(saver, "codec", None)) or Codec()
        self.keeps_runs: bool = getattr(saver, "keeps_runs", False)
        self.watch: Watch | None = getattr(saver, "watch", None)

    async def open(self) -> None:
        """See `ports.Saver.open`."""
        await self.saver.open()

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """See `ports.Saver.commit`."""
        return await self.saver.commit(batch)

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        """See `ports.Saver.query`."""
        return await self.saver.query(queries)

    async def close(self) -> None:
        """See `ports.Saver.close`."""
        await self.saver.close()

    def commit_now(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """`commit` of an immediate saver."""
        inner: Any = self.saver
        return inner.commit_now(batch)

    def query_now(self, queries: Sequence[Query]) -> list[Any]:
        """`query` of an immediate saver."""
        inner: Any = self.saver
        return inner.query_now(queries)

    @property
    def commit_here(self) -> CommitHere | None:
        """Of the wrapped saver; None if this class does more than it in `commit`."""
        if type(self).commit is not WrappedSaver.commit:
            return None
        return getattr(self.saver, "commit_here", None)

    @property
    def copy_to_file(self) -> Callable[[str], None] | None:
        """Copies the wrapped saver to a file; None if it can't be copied."""
        return getattr(self.saver, "copy_to_file", None)

    def __getattr__(self, name: str) -> Any:
        """Forward attributes beyond the port, such as `reads_at_once`."""
        if name.startswith("_") or name == "saver":
            raise AttributeError(name)
        return getattr(self.saver, name)
