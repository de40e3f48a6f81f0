"""The base of a saver's parts: its codec, and requests to the actors that host it."""

from typing import Any, cast

from actorgraph.codec import Codec
from actorgraph.ports import Saver
from actorgraph.runtime.saver.hosting import Host, host_of
from actorgraph.values.commits import Query


def innermost(saver: Any) -> Any:
    """The saver inside all wrappers, adapters and hosts: that which the program has made."""
    while (inner := getattr(saver, "saver", None)) is not None:
        saver = inner
    return saver


class HostAccess:
    """Reaches the actors of a saver. Mixed into a backend, which is the saver.

    Attributes:
        codec: encodes and decodes the stored values.
    """

    codec: Codec

    def _host(self) -> Host:
        """Return the persistence and the read actor; start them if the saver isn't open."""
        return host_of(cast("Saver", self))

    async def _ask(self, query: Query) -> Any:
        """Answer a query by the read actor."""
        return await self._host().reader.ask(query)
