"""Stored bytes are data: whatever they are, decoding runs nothing and ends soon."""

import pytest

from tests.codec import hostile

pytest.importorskip("cryptography", reason="the extra `encryption` is not installed")


def test_the_watch_sees_what_is_opened(tmp_path):
    """
    What the tests here look for is seen: a file that is opened.
    """
    with hostile.watched() as seen:
        (tmp_path / "file").write_text("")
    assert [what for what in seen if what.startswith("open")]


def test_no_attack_does_anything():
    """
    Pickles, foreign type names, tags of other formats, bombs and endless nesting run no code,
    open no file, and raise the library's errors within a second and 64 MB.
    """
    attacks = hostile.corpus()
    hostile.decoders_once()
    with hostile.watched() as seen:
        wrong = [
            text
            for name, payload in attacks.items()
            for text in hostile.attack(name, payload, measured=len(payload) > 10_000)
        ]
        assert (wrong, seen) == ([], [])


def test_nor_do_changed_records():
    """
    Records with bytes changed, cut, doubled and put in raise the library's errors only.
    """
    payloads = list(hostile.mutated(seed=1, count=2_000))
    hostile.decoders_once()
    with hostile.watched() as seen:
        wrong = [text for payload in payloads for text in hostile.attack(repr(payload), payload)]
        assert (wrong, seen) == ([], [])
