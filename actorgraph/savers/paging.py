"""Where a page of a listing goes on, for savers that keep their checkpoints in lists."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from actorgraph.values.commits import ListCheckpoints


class Sequenced(Protocol):
    """A checkpoint in a list."""

    sequence: int


P = TypeVar("P", bound=Sequenced)


def in_order(
    places: Sequence[P], query: ListCheckpoints, thread_id: str, id_of: Callable[[P], bytes]
) -> Iterable[P]:
    """A thread's checkpoints in the order of a listing, from where its page begins.

    Args:
        places: oldest first.
    """
    if query.after is None:
        return places if query.oldest_first else reversed(places)
    identifier, thread, sequence = query.after
    if query.thread_id is not None:
        if query.oldest_first:
            return places[bisect_right(places, sequence, key=_sequence) :]
        return places[: bisect_left(places, sequence, key=_sequence)][::-1]

    def is_behind(place: P) -> bool:
        found = id_of(place)
        if found != identifier:
            return (found > identifier) == query.oldest_first
        if thread_id != thread:
            return thread_id > thread
        return place.sequence != sequence and (place.sequence > sequence) == query.oldest_first

    return filter(is_behind, places if query.oldest_first else reversed(places))


def _sequence(place: Sequenced) -> int:
    return place.sequence
