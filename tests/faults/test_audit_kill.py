"""The audit example under `kill -9`, at seeded moments spread over all its phases.

Per event loop: one uninterrupted run gives the reports and the duration. Then 20 times, in a
fresh folder each: start, kill at the moment, run again to the end. Whatever was acknowledged
before the kill must not be parsed again, and the reports must be the same to the byte.
"""

import random
import time
from collections import Counter
from dataclasses import replace

import pytest

from tests.audits import POLL_SECONDS, RUN_SECONDS_MAX, Place, parsed_again

# About 200 files: long enough to be hit in every phase, short enough to be run 80 times.
TARGETS = (
    *("argparse", "asyncio", "collections", "concurrent", "email", "http", "importlib"),
    *("inspect", "json", "logging", "re", "typing", "unittest", "urllib", "xml"),
)

# Of 20 moments this many fall before the first file is parsed: the interpreter starts, the
# database is opened, threads are claimed, files are listed. The rest fall into the work.
EARLY_SHARE = 0.15
CHAIN_ROUNDS_MAX = 30


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def backend(request):
    return request.param


@pytest.fixture(scope="module")
def whole(backend, tmp_path_factory):
    """An uninterrupted run: its place, when its first file was parsed, when it ended."""
    place = Place(tmp_path_factory.mktemp(backend) / "whole", TARGETS, backend)
    began = time.monotonic()
    with place.start() as process:
        while not place.lines() and process.poll() is None:
            time.sleep(POLL_SECONDS)
        first = time.monotonic() - began
        printed, _ = process.communicate(timeout=RUN_SECONDS_MAX)
    assert process.returncode == 0, printed
    return place, first, time.monotonic() - began


def moments(seed, count, first, end):
    """Seconds after the start: one in each of `count` equal parts, at a seeded point of it."""
    chance = random.Random(seed)
    early = max(1, round(count * EARLY_SHARE))
    late = count - early
    return [
        *((part + chance.random()) / early * first for part in range(early)),
        *(first + (part + chance.random()) / late * (end - first) for part in range(late)),
    ]


def killed_at(moment, model):
    """A place in which an audit has been killed."""
    for earlier in (1.0, 0.9, 0.8, 0.7):
        place = replace(model, folder=model.folder / f"{moment * earlier:.4f}")
        if place.kill_after(moment * earlier):
            return place
        # It was faster than the model, so it had ended: that is no kill.
    raise AssertionError(f"every run had ended after {moment:.1f} s")


def phase_of(place, files):
    """Where a kill struck."""
    lines = place.lines()
    if not lines["start"]:
        return "starting, listing"
    if lines["done"] < files:
        return "measuring"
    return "ranking, reporting" if not place.reports().get("report.html") else "the end"


@pytest.mark.parametrize(("durability", "kills"), [("sync", 20), ("async", 8), ("exit", 8)])
def test_a_killed_audit_goes_on_where_it_stopped(whole, durability, kills, tmp_path, capsys):
    """
    After kill -9 at any moment a second run ends with the same reports, to the byte, and parses
    no file again that was acknowledged: in `sync` its chunk had been delivered, in `async` and
    `exit` its run had returned.
    """
    model, first, end = whole
    expected, files = model.reports(), model.lines()["done"]
    phases, totals = Counter(), Counter()

    for moment in moments(f"{model.backend} {durability}", kills, first, end):
        place = killed_at(moment, replace(model, folder=tmp_path, durability=durability))
        phases[phase_of(place, files)] += 1
        before = place.lines()
        place.run()
        after = place.lines()

        assert parsed_again(place.oracle_text()) == []
        assert place.reports() == expected
        totals += {
            "acknowledged before the kill": before["ack"],
            "parsed before the kill": before["done"],
            "parsed after it": after["done"] - before["done"],
        }

    with capsys.disabled():
        print(f"\n{model.backend}, {durability}: {kills} kills of an audit of {files} files")
        print(f"  struck while: {dict(phases)}")
        print(f"  files, over all runs: {dict(totals)}")
        print("  acknowledged files parsed again: 0; differing reports: 0")


def test_an_audit_that_is_killed_again_and_again_comes_to_its_end(whole, tmp_path, capsys):
    """
    What one run saved, the next need not do: an audit that never gets a third of its time ends.
    """
    model, first, end = whole
    place = replace(model, folder=tmp_path / "chain")
    rounds = 0
    while place.kill_after(first + (end - first) / 3):
        rounds += 1
        assert rounds < CHAIN_ROUNDS_MAX, "it makes no progress"

    assert parsed_again(place.oracle_text()) == []
    assert place.reports() == model.reports()
    with capsys.disabled():
        print(f"\n{model.backend}: ended after {rounds} kills, {dict(place.lines())}")
