"""Shared: a stored value that names the row with its contents instead of holding them."""

import msgspec


class Shared(msgspec.Struct, frozen=True):
    """A reference to a value that several stored rows have in common; see `codec/sharing.py`.

    Attributes:
        name: of the value's row, among the blobs of the same checkpoint.
    """

    name: str
