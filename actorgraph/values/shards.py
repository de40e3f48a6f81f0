"""Buckets: the 4,096 parts in which threads are divided over databases, and the bucket in run ids.

A thread's bucket is a hash of its id. A run is looked up by its id alone, so that has the bucket of
its thread in its last 12 bits, which are random in a UUIDv7: ids keep their order by time. Ids
of other origins have any 12 bits there, so the bucket in an id says where to look first.
"""

from hashlib import sha256
from typing import Literal

import msgspec

from actorgraph.values.ids import RunId

BUCKETS = 4096

BucketState = Literal["here", "leaving", "arriving", "away"]
"""The state of a bucket in one database.

here: its threads are here. leaving: they are, and new runs are refused, because it moves.
arriving: they are being written, and nothing else may be. away: they are in another database.
"""


class BucketRow(msgspec.Struct, frozen=True):
    """A bucket, as one database has stored it.

    Attributes:
        state: a `BucketState`.
        other: the name of the database from which or to which it has moved last; "" for none.
    """

    state: BucketState
    other: str = ""


def bucket_of(thread_id: str) -> int:
    """The bucket of a thread: the first 12 bits of the SHA-256 of its id, which SQL can compute."""
    digest = sha256(thread_id.encode("utf-8", "surrogatepass")).digest()
    return digest[0] << 4 | digest[1] >> 4


def bucket_in(run: bytes) -> int:
    """The bucket in a run's id of 16 bytes."""
    return (run[14] & 0x0F) << 8 | run[15]


def with_bucket(run: bytes, bucket: int) -> RunId:
    """A run's id with a bucket in it; its first 116 bits, which order ids by time, stay."""
    return RunId(run[:14] + ((run[14] & 0xF0) << 8 | bucket).to_bytes(2, "big"))
