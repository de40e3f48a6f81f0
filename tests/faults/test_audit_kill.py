"""The audit example under `kill -9`, at seeded moments spread over all its phases.

Per event loop and durability mode: one uninterrupted run gives the reports and the duration of
each phase. Then 20 times in `sync`, the default, and 8 times in the other modes, in a fresh
folder each: start, kill at the moment, run again to the end. Files acknowledged before
the kill must not be parsed again, and the reports must be the same to the byte.
"""

import random
import time
from collections import Counter
from dataclasses import dataclass, replace

import pytest

from tests.support.audit_example import RUN_SECONDS_MAX, Place, parsed_again

WHOLE_LIBRARY = ()
# About 150 files, for what the whole library on asyncio in `sync`, the default, doesn't show.
SOME_PACKAGES = (
    *("argparse", "asyncio", "collections", "concurrent", "email", "http", "importlib"),
    *("inspect", "json", "logging", "re", "typing", "unittest", "urllib", "xml"),
)

# Of all kills so many strike before the first file is parsed (Python starts, the database is
# opened, threads are claimed, files are listed), and as many after the last one (the last
# packages are ranked, reviewed and reported, the main reports are written).
EDGE_SHARE = 0.15
CHAIN_ROUNDS_MAX = 30


@dataclass(frozen=True)
class Model:
    """An uninterrupted run, and how long each phase of it took."""

    place: Place
    files: int
    start: float
    measure: float
    finish: float


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def backend(request):
    return request.param


@pytest.fixture(scope="module", params=["sync", "async", "exit"])
def model(backend, request, tmp_path_factory):
    """Run it twice: the first one counts the files, and warms the caches for the second."""
    folder = tmp_path_factory.mktemp(backend)
    durability = request.param
    targets = WHOLE_LIBRARY if (backend, durability) == ("asyncio", "sync") else SOME_PACKAGES
    place = Place(folder / "first", targets, backend, durability)
    place.run()
    files = place.lines()["done"]
    place = replace(place, folder=folder / "model")
    began = time.monotonic()
    with place.start() as process:
        first = place.wait_for("done", 1, process)
        last = place.wait_for("done", files, process)
        printed, _ = process.communicate(timeout=RUN_SECONDS_MAX)
    assert process.returncode == 0, printed
    return Model(place, files, first - began, last - first, time.monotonic() - last)


def moments(model, kills, seed):
    """When to kill, each as `(seconds, once so many files are parsed)`.

    Each phase is cut into equal parts, and each part is struck at a seeded point.
    """
    chance = random.Random(seed)
    edge = max(1, round(kills * EDGE_SHARE))

    def spread(count, seconds, once):
        return [((part + chance.random()) / count * seconds, once) for part in range(count)]

    return [
        *spread(edge, model.start, 0),
        *spread(kills - 2 * edge, model.measure, 1),
        *spread(edge, model.finish, model.files),
    ]


def killed_at(seconds, once, place):
    """The place of an audit that has been killed."""
    for earlier in (1.0, 0.8, 0.6, 0.4, 0.2, 0.0):
        tried = replace(place, folder=place.folder / f"{once}-{seconds:.4f}-{earlier}")
        if tried.kill_after(seconds * earlier, once=once):
            return tried
        # It was faster than the model, so it had ended: that is no kill.
    raise AssertionError(f"every run had ended {seconds:.3f} s after {once} files")


def packages_at_the_kill(place, model):
    """How many packages had come how far when the process was killed."""

    def parsed(oracle):
        done = (line for line in oracle.splitlines() if line.startswith("done "))
        return Counter(line.split()[1].split(":")[0] for line in done)

    whole, now = parsed(model.place.oracle_text()), parsed(place.oracle_text())
    reports = place.reports()
    reported = {name for name in whole if f"packages/{name}.md" in reports}
    measured = {name for name in whole if now[name] == whole[name]} - reported
    return {
        "before their first file": sum(1 for name in whole if not now[name]),
        "among their files": sum(1 for name in whole if 0 < now[name] < whole[name]),
        "after their last file": len(measured),
        "reported": len(reported),
    }


def test_a_killed_audit_goes_on_where_it_stopped(model, tmp_path, capsys):
    """
    After kill -9 at any moment a second run ends with the same reports, to the byte, and parses
    no file again that was acknowledged: in `sync` its chunk had been delivered, in `async` and
    `exit` its run had returned.
    """
    backend, durability = model.place.backend, model.place.durability
    kills = 20 if durability == "sync" else 8
    packages, files = Counter(), Counter()

    for seconds, once in moments(model, kills, f"{backend} {durability}"):
        place = killed_at(seconds, once, replace(model.place, folder=tmp_path))
        packages += Counter(packages_at_the_kill(place, model))
        before = place.lines()
        place.run()
        after = place.lines()

        assert parsed_again(place.oracle_text()) == []
        assert place.reports() == model.place.reports()
        files["acknowledged before the kill"] += before["ack"]
        files["parsed before the kill"] += before["done"]
        files["parsed after it"] += after["done"] - before["done"]

    with capsys.disabled():
        print(f"\n{backend}, {durability}: {kills} kills of an audit of {model.files} files")
        print(f"  packages at the kill, summed: {dict(packages)}")
        print(f"  files, summed: {dict(files)}")
        print("  acknowledged files parsed again: 0; differing reports: 0")


def test_an_audit_that_is_killed_again_and_again_comes_to_its_end(model, tmp_path, capsys):
    """
    Work that one run saved, the next need not do: an audit that never gets half of its time ends.
    """
    place = replace(model.place, folder=tmp_path)
    rounds = 0
    while place.kill_after(model.measure / 2, once=place.lines()["done"] + 1):
        rounds += 1
        assert rounds < CHAIN_ROUNDS_MAX, "it makes no progress"

    assert parsed_again(place.oracle_text()) == []
    assert place.reports() == model.place.reports()
    with capsys.disabled():
        backend, durability = model.place.backend, model.place.durability
        print(f"\n{backend}, {durability}: ended after {rounds} kills, {dict(place.lines())}")
