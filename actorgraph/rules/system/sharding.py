"""Sharding: which database has which bucket of threads, and how a bucket moves.

Each database stores the state of all buckets, and refuses threads and runs of those that it does
not have. So the states are the map, and nothing beside the data can be out of date: processes read
them together. A process with an old one is refused, and reads again.

A move is four transactions, each in one database; the third one moves the bucket:

```
source       here -> leaving                    -> away (and its rows are deleted)
target       away -> arriving -> (rows written)                        -> here
```

After a crash `mending` finds from the states alone whether to undo the move or to complete it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from actorgraph.values.shards import BUCKETS, BucketRow, BucketState

STATES_THAT_HOLD: tuple[BucketState, ...] = ("here", "leaving")


class ShardMap(msgspec.Struct, frozen=True):
    """The databases of all buckets.

    Attributes:
        shards: the databases' names.
        holders: by bucket, the name of the database that has its threads.
    """

    shards: tuple[str, ...]
    holders: tuple[str, ...]

    def counts(self) -> dict[str, int]:
        """Name -> the number of buckets in that database."""
        found = Counter(self.holders)
        return {name: found[name] for name in self.shards}


class ChangeBucket(msgspec.Struct, frozen=True):
    """A change of a bucket in one database.

    Attributes:
        shard: the database's name.
        state: what the bucket becomes there.
        other: as in `BucketRow`.
        clear: whether the rows of its threads are deleted there, in the same transaction.
    """

    shard: str
    state: BucketState
    other: str = ""
    clear: bool = False


def holder_of_bucket(rows: Mapping[str, BucketRow]) -> str | None:
    """The database that has a bucket; None if none has it, or several have.

    Args:
        rows: database -> the bucket's row there.
    """
    holding = [name for name, row in rows.items() if row.state in STATES_THAT_HOLD]
    return holding[0] if len(holding) == 1 else None


def mending(rows: Mapping[str, BucketRow]) -> tuple[ChangeBucket, ...]:
    """The changes after which a move that was given up has been undone or completed, in order.

    The move counts from the moment at which its source has no more state "leaving". Each change may
    be made twice. Without an open move the result is empty.

    Args:
        rows: database -> the bucket's row there, read under the lock of those who move buckets.
    """
    holding = [name for name, row in rows.items() if row.state in STATES_THAT_HOLD]
    arriving = [name for name, row in rows.items() if row.state == "arriving"]
    if not holding:
        done = [name for name in arriving if _has_left(rows.get(rows[name].other), name)]
        return tuple(ChangeBucket(name, "here", rows[name].other) for name in done[:1])
    undone = [ChangeBucket(name, "away", rows[name].other, clear=True) for name in arriving]
    back = [name for name in holding if rows[name].state == "leaving"]
    return (*undone, *(ChangeBucket(name, "here") for name in back))


def _has_left(row: BucketRow | None, target: str) -> bool:
    return row is not None and row.state == "away" and row.other == target


def map_of(states: Mapping[str, Sequence[BucketRow]]) -> tuple[ShardMap, tuple[int, ...]]:
    """Put the states of all databases together.

    Args:
        states: database -> the rows of all buckets, by bucket.
    Returns: the map, and the buckets that no database, or more than one, has; of these a move may
        be between its last two transactions. They have "" in the map.
    """
    shards, unclear = tuple(states), list[int]()
    holders: list[str] = []
    for bucket in range(BUCKETS):
        holder = holder_of_bucket({name: rows[bucket] for name, rows in states.items()})
        holders.append(holder or "")
        if holder is None:
            unclear.append(bucket)
    return ShardMap(shards, tuple(holders)), tuple(unclear)


def balancing(known: ShardMap) -> dict[tuple[str, str], tuple[int, ...]]:
    """The moves after which all databases have the same number of buckets, give or take one.

    No more buckets move than have to.

    Returns: (from, to) -> buckets.
    """
    size, more = divmod(BUCKETS, len(known.shards))
    counts = known.counts()
    # The larger shares go to those that have most: so fewer buckets move.
    by_count = sorted(known.shards, key=lambda name: -counts[name])
    wanted = {name: size + (place < more) for place, name in enumerate(by_count)}
    spare = [b for name in known.shards for b in _of(known, name)[wanted[name] :]]
    found: dict[tuple[str, str], list[int]] = {}
    for name in known.shards:
        for _ in range(wanted[name] - counts[name]):
            bucket = spare.pop()
            found.setdefault((known.holders[bucket], name), []).append(bucket)
    return {pair: tuple(sorted(buckets)) for pair, buckets in found.items()}


def _of(known: ShardMap, name: str) -> list[int]:
    return [bucket for bucket, holder in enumerate(known.holders) if holder == name]


def look_order(known: ShardMap, bucket: int) -> Iterable[str]:
    """The databases in which to look for a run: that of the bucket in its id, then the others."""
    first = known.holders[bucket]
    return [*([first] if first else []), *(name for name in known.shards if name != first)]
