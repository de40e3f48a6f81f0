"""HostedPort: a saver that has the methods of `ports.Saver` alone, with those of programs."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from actorgraph.api.savers.hosted import HostedSaver
from actorgraph.codec import Codec
from actorgraph.ports import CommitHere, Saver, Watch
from actorgraph.values.commits import CommitOutcome, Query, Request


class HostedPort(HostedSaver):
    """Forwards everything to a saver.

    Args:
        saver: it must not be opened itself.

    Attributes:
        saver: as given.
        durable: of the saver.
        immediate: of the saver.
        keeps_runs: of the saver.
        codec: of the saver; default `Codec()`.
        watch: sees requests and queries first; None without one.
    """

    def __init__(self, saver: Saver) -> None:
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
        if type(self).commit is not HostedPort.commit:
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
