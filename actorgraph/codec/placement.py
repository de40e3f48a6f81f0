"""Placement: where the values of a checkpoint are stored, as a run knows it."""

from collections.abc import Iterable
from typing import Any

from actorgraph.codec.records import FORMAT_SHARED, Record
from actorgraph.codec.sharing import Source
from actorgraph.superstep.growth import StoredList


class Placement:
    """Where each channel's value is stored.

    Attributes:
        values: inline in the record. blobs: in a row of their own. lists: in ranges.
        stands: of blobs that are not at their channel's version, where they are.
        growths: the lists that the run has seen, also those that were blobs.
        outgrown: lists whose lineage has gone on beyond the checkpoint: another branch did.
        moved: values that migrations made, which are stored with the next checkpoint.
        shared: channels whose value is a row that others name too, or names such -> these rows.
        sources: these rows -> the versions at which they stand.
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.blobs: set[str] = set()
        self.stands: dict[str, int] = {}
        self.lists: dict[str, StoredList] = {}
        self.growths: dict[str, StoredList] = {}
        self.outgrown: set[str] = set()
        self.moved: dict[str, Any] = {}
        self.shared: dict[str, list[str]] = {}
        self.sources: dict[str, int] = {}

    def share(self, channel: str, sources: Iterable[Source]) -> None:
        """The channel's value is one of these rows, or names them."""
        versions = {source.name: source.version for source in sources}
        self.shared[channel] = [*versions]
        self.sources.update(versions)

    def tell(self, record: Record) -> None:
        """Say in a record which rows its channels share."""
        record.v, record.shared = FORMAT_SHARED, dict(self.shared)
        names = record.sources
        record.blobs = sorted({*record.blobs, *names})
        record.stands = {**record.stands, **{name: self.sources[name] for name in names}}

    def inline(self, channel: str, value: Any) -> None:
        """The channel has changed to a value that stands in the record itself."""
        if channel not in self.values:
            self.forget(channel)
        self.values[channel] = value

    def forget(self, channel: str) -> None:
        """The channel has changed: its old place counts no more."""
        self.values.pop(channel, None)
        self.blobs.discard(channel)
        self.lists.pop(channel, None)
        if self.stands:
            self.stands.pop(channel, None)
        if self.shared:
            self.shared.pop(channel, None)
