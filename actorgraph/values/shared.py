"""Shared: where a stored value names the row that holds it, instead of holding it itself."""

import msgspec


class Shared(msgspec.Struct, frozen=True):
    """The place of a value that several stored rows hold; see `codec/sharing.py`.

    Attributes:
        name: of its row, among the blobs of the checkpoint beside which this stands.
    """

    name: str
