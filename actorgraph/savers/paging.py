"""Lists of checkpoints, for savers without SQL: where a page starts, which rows are in it."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from actorgraph.codec.records import decode_metadata, encode_json
from actorgraph.values.commits import CheckpointRow, ListCheckpoints


class Sequenced(Protocol):
    """An entry of a thread's checkpoint list, with its sequence."""

    @property
    def sequence(self) -> int:
        """Its place among the thread's checkpoints, by when they were stored."""
        ...


P = TypeVar("P", bound=Sequenced)


def in_order(
    places: Sequence[P], query: ListCheckpoints, thread_id: str, id_of: Callable[[P], bytes]
) -> Iterable[P]:
    """Checkpoints of one thread in the order that `query` asks for, from where its page starts.

    Args:
        places: all checkpoints of the thread, oldest first.
        thread_id: of these checkpoints; `query` may list all threads.
        id_of: gives the id of an entry.
    """
    if query.after is None:
        return places if query.oldest_first else reversed(places)
    identifier, thread, sequence = query.after
    # One thread is listed by sequence, so the start is found by bisection, also if the row that
    # the last page ended with was removed. All threads are listed by id: each row is compared.
    if query.thread_id is not None:
        if query.oldest_first:
            return places[bisect_right(places, sequence, key=_sequence) :]
        return places[: bisect_left(places, sequence, key=_sequence)][::-1]

    def is_behind(place: P) -> bool:
        own_id = id_of(place)
        if own_id != identifier:
            return (own_id > identifier) == query.oldest_first
        if thread_id != thread:
            return thread_id > thread
        return place.sequence != sequence and (place.sequence > sequence) == query.oldest_first

    return filter(is_behind, places if query.oldest_first else reversed(places))


def _sequence(place: Sequenced) -> int:
    return place.sequence


def has_fields(row: CheckpointRow, where: Sequence[tuple[str, object]]) -> bool:
    """Whether a checkpoint has the metadata, source and step that a list asks for.

    Values are compared with their types: 1 is neither true nor 1.0.

    Args:
        where: of `ListCheckpoints`.
    """
    if not where:
        return True
    shown = {**decode_metadata(row.metadata), "source": row.source, "step": row.step}
    return all(
        name in shown and encode_json(shown[name]) == encode_json(value) for name, value in where
    )
