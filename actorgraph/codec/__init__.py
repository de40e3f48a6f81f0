"""Values <-> bytes: allow-listed types, exact round trips, the rows of a checkpoint."""

from actorgraph.codec.codec import Codec

__all__ = ["Codec"]
