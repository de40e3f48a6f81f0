"""50,000 changed records through every decoder."""

import pytest

from tests.codec import hostile

pytest.importorskip("cryptography", reason="the extra `encryption` is not installed")

pytestmark = pytest.mark.usefixtures("few_objects")


DIFFERENT = ("types", "encrypting", "count", "langgraph")
"""The decoders that don't all do the same with a large record: each takes seconds."""


@pytest.mark.parametrize("seed", range(5))
def test_changed_records_raise_typed_errors_only(seed, capsys):
    """
    Of 50,000 changed records none runs code, crashes, or takes more than a second.
    """
    hostile.decoders_once()
    payloads = list(hostile.mutated(seed=100 + seed, count=10_000))
    with hostile.watched() as seen:
        wrong = [text for payload in payloads for text in hostile.attack(repr(payload), payload)]
    assert (wrong, seen) == ([], [])
    with capsys.disabled():
        print(f"\n{len(payloads):,} records, {len(hostile.decoders_once())} decoders: 0 wrong")


def test_no_attack_costs_more_than_its_size():
    """
    Of the largest records that are read none takes a decoder more than a second, or more memory
    than ten times their inflated size and 64 MB.
    """
    hostile.decoders_once()
    found = hostile.large(keys=40_000, size=29_000_000)
    wrong = [
        text
        for name, payload in found
        for text in hostile.attack(name, payload, measured="layers" in name, by=DIFFERENT)
    ]
    assert wrong == []
