"""Stored bytes are data: whatever they are, decoding runs nothing and ends soon."""

import builtins
import importlib
import os
import sys

import pytest

from tests.codec import hostile

pytest.importorskip("cryptography", reason="the extra `encryption` is not installed")


def _imports(folder):
    (folder / "planted_module.py").write_text("")
    sys.path.insert(0, str(folder))
    sys.modules.pop("planted_module", None)
    return lambda: __import__("planted_module")


class Reduced:
    """A function that a pickle calls when it is loaded."""

    def __reduce__(self):
        return (abs, (-1,))


BUILTIN, PICKLER = vars(builtins), importlib.import_module("pickle")
CODE = compile("1", "", "exec")
SLOWEST = ("types", "langgraph")
PICKLE = PICKLER.dumps(Reduced())
PLANTS = {
    "a fresh module": _imports,
    "a module that is there": lambda _: lambda: importlib.import_module("json"),
    "an import statement": lambda _: _import_statement,
    "eval": lambda _: lambda: BUILTIN["eval"]("1 + 1"),
    "exec of code": lambda _: lambda: BUILTIN["exec"](CODE),
    "a pickle": lambda _: lambda: PICKLER.loads(PICKLE),
    "a file": lambda folder: lambda: (folder / "file").write_text(""),
    "an event": lambda _: lambda: sys.audit("planted.event", 1),
    "a process": lambda _: lambda: os.system("true"),  # noqa: S605, S607 - it is what must be seen
    "a function out of code": lambda _: lambda: type(_imports)(_imports.__code__, {}),
}


def _import_statement():
    import json

    return json


@pytest.mark.promise("T29")
@pytest.mark.parametrize("plant", PLANTS)
def test_the_watch_sees_what_is_planted_in_a_decoder(plant, tmp_path, monkeypatch):
    """
    A decoder that imports (also what is there already), evaluates, unpickles, opens, starts or
    raises any audit event is seen, through the same path as the attacks.
    """
    monkeypatch.setattr(sys, "path", list(sys.path))
    act = PLANTS[plant](tmp_path)
    monkeypatch.setattr(hostile, "_DECODERS", {"planted": lambda payload: act()})
    with hostile.watched() as seen:
        assert hostile.attack("name", b"") == []
    assert seen
    before = list(seen)
    act()
    assert seen == before, "outside of the watch nothing is seen"


def test_an_innocent_decoder_is_not_seen():
    """
    Decoding plain values is nothing that the watch sees.
    """
    hostile.decoders_once()
    with hostile.watched() as seen:
        assert hostile.attack("plain", hostile.SEEDS[0]) == []
    assert seen == []


def _grows(name, payload):
    """Whether an attack may take memory: a long one, or one that says a number of bytes."""
    return len(payload) > 10_000 or "number" in name


@pytest.mark.promise("T29")
@pytest.mark.parametrize(
    "codes",
    [(*range(32), *range(32, 128, 24), 127), pytest.param(range(128), marks=pytest.mark.long)],
    ids=["known", "each"],  # beyond 31 no decoder knows any
)
def test_no_attack_does_anything(codes):
    """
    Pickles, foreign type names, tags of other formats, bombs and endless nesting run no code,
    open no file, and raise the library's errors within a second and 64 MB.
    """
    attacks = hostile.corpus(codes)
    hostile.decoders_once()
    with hostile.watched() as seen:
        wrong = [
            text
            for name, payload in attacks.items()
            for text in hostile.attack(name, payload, measured=_grows(name, payload))
        ]
    assert (wrong, seen) == ([], [])


def test_no_attack_costs_more_than_its_size():
    """
    Types inside one another and keys that were chosen to collide cost a decoder less than a
    second, and ten times their inflated size and 64 MB at most.
    """
    hostile.decoders_once()
    wrong = [
        text
        for name, payload in hostile.large(keys=20_000, size=6_000_000)
        for text in hostile.attack(name, payload, measured="layers" in name, by=SLOWEST)
    ]
    assert wrong == []


def test_nor_do_changed_records():
    """
    Records with bytes changed, cut, doubled and put in raise the library's errors only.
    """
    payloads = list(hostile.mutated(seed=1, count=500))
    hostile.decoders_once()
    with hostile.watched() as seen:
        wrong = [text for payload in payloads for text in hostile.attack(repr(payload), payload)]
    assert (wrong, seen) == ([], [])
