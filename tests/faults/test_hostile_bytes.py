"""50,000 changed records through every decoder."""

import pytest

from tests.codec import hostile

pytest.importorskip("cryptography", reason="the extra `encryption` is not installed")


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
