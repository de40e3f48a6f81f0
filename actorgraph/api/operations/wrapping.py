"""A saver around another one: the same port, the same methods."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from actorgraph.api.adopting import adopted
from actorgraph.api.savers import HostedSaver
from actorgraph.codec import Codec
from actorgraph.ports import Saver, Watch
from actorgraph.values.commits import CommitOutcome, Query, Request


class WrappedSaver(HostedSaver):
    """Hands everything on. Wrap any saver, a wrapped one too; open the outermost one only.

    Args:
        saver: where checkpoints go; not opened by anybody else.

    Attributes:
        saver: as given. durable, immediate, keeps_runs, codec: its.
        watch: what sees the requests first; None if nothing needs to.
    """

    def __init__(self, saver: Saver) -> None:
        saver = cast("Saver", adopted(saver))
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
    def copy_to_file(self) -> Callable[[str], None] | None:
        """How the saver is copied to a file; None where it can't be."""
        return getattr(self.saver, "copy_to_file", None)

    def __getattr__(self, name: str) -> Any:
        """What the saver inside says of itself beyond the port. Only called for what isn't here."""
        if name.startswith("_") or name == "saver":
            raise AttributeError(name)
        return getattr(self.saver, name)
