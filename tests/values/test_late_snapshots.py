"""Snapshots that decode the writes in their metadata when these are looked at."""

import copy
from typing import Any

import pytest

from actorgraph.values.state_snapshot import HeldSnapshot, LateSnapshot, StateSnapshot

WRITES = {"node": {"text": "written"}}


def plain(writes: Any, kind: type[StateSnapshot] = StateSnapshot) -> StateSnapshot:
    return kind({"n": 1}, ("a",), {}, {"step": 1, "writes": writes}, None, None, (), ())


def late(read: Any = lambda: WRITES, kind: type[StateSnapshot] = StateSnapshot) -> LateSnapshot:
    return LateSnapshot.of(plain(None, kind), read)


def test_writes_are_read_once_for_who_looks():
    """
    The other fields read nothing; the metadata reads the writes, the first time only.
    """
    reads: list[int] = []
    made = late(lambda: reads.append(1) or WRITES)

    assert (made.values, made.next, made.tasks, reads) == ({"n": 1}, ("a",), (), [])
    assert [made.metadata, made.metadata] == [{"step": 1, "writes": WRITES}] * 2
    assert reads == [1]


def as_fields(*fields: Any) -> tuple[Any, ...]:
    return fields


@pytest.mark.parametrize(
    "look",
    [
        tuple,
        list,
        lambda s: s[3],
        lambda s: s[-5],
        lambda s: s[2:4],
        lambda s: s._asdict(),
        lambda s: s._replace(next=()),
        lambda s: [*s],
        lambda s: dict(zip(s._fields, s, strict=True)),
        lambda s: s.to_dict(),
        lambda s: as_fields(*s),
        copy.copy,
        copy.deepcopy,
        repr,
        lambda s: s == plain(WRITES),
        lambda s: plain(WRITES) == s,
        lambda s: s != plain(None),
        lambda s: s == late(),
        lambda s: s == object(),
        lambda s: s.phase,
    ],
)
def test_it_is_as_any_snapshot(look):
    """
    However a program looks at it, it finds what a snapshot has that was read at once.
    """
    assert look(late()) == look(plain(WRITES))


@pytest.mark.parametrize("kind", [StateSnapshot, HeldSnapshot])
def test_its_copies_are_held_as_it_is(kind):
    """
    A copy, a changed copy and a pickled one are of the class of a snapshot that was read at once.
    """
    copies = [copy.copy(late(kind=kind)), late(kind=kind)._replace(next=())]

    assert late(kind=kind).is_held is (kind is HeldSnapshot)
    assert [type(one) for one in copies] == [kind, kind]


def test_an_error_is_raised_at_each_look():
    """
    Writes that can't be decoded raise where the metadata is looked at, each time.
    """

    def fails() -> Any:
        raise ValueError("damaged")

    made = late(fails)
    for _ in range(2):
        with pytest.raises(ValueError, match="damaged"):
            _ = made.metadata
    assert made.values == {"n": 1}


def test_it_has_no_hash():
    """
    As any tuple with a dict in it, it can't be a key.
    """
    with pytest.raises(TypeError, match="unhashable"):
        hash(late())
