"""Where the values of a checkpoint are stored."""

from collections.abc import Iterable
from typing import Any

from actorgraph.codec.records import FORMAT_SHARED, Record
from actorgraph.codec.sharing import SharedRow
from actorgraph.superstep.growth import StoredList


class Placement:
    """Where each channel's value is stored; a run updates it with each save.

    Attributes:
        values: channel -> value stored inline in the record.
        blobs: channels whose value is a row of its own.
        stands: channel -> version of its blob, where that is not the channel's version.
        lists: channel -> its list, stored as rows of items.
        growths: channel -> the last list that the run has seen, also if it was stored as a blob.
        outgrown: channels whose list has been appended to by another branch since the checkpoint.
        moved: channel -> value that a migration made, to be stored with the next checkpoint.
        shared: channel -> names of the shared rows that its value is, or refers to.
        shared_versions: name of a shared row -> its version.
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
        self.shared_versions: dict[str, int] = {}

    def share(self, channel: str, rows: Iterable[SharedRow]) -> None:
        """Record that the channel's value is one of these shared rows, or refers to them."""
        versions = {row.name: row.version for row in rows}
        self.shared[channel] = [*versions]
        self.shared_versions.update(versions)

    def write_shared(self, record: Record) -> None:
        """Write the shared rows of its channels into a record."""
        record.v, record.shared = FORMAT_SHARED, dict(self.shared)
        names = record.shared_rows
        record.blobs = sorted({*record.blobs, *names})
        record.stands = {**record.stands, **{name: self.shared_versions[name] for name in names}}

    def inline(self, channel: str, value: Any) -> None:
        """Record that the channel changed to a value that is stored in the record itself."""
        if channel not in self.values:
            self.forget(channel)
        self.values[channel] = value

    def forget(self, channel: str) -> None:
        """Drop the place of a channel's old value, because the value has changed."""
        self.values.pop(channel, None)
        self.blobs.discard(channel)
        self.lists.pop(channel, None)
        if self.stands:
            self.stands.pop(channel, None)
        if self.shared:
            self.shared.pop(channel, None)
