"""Files of JSON lines that were cut or changed: what is whole is read, damage is named."""

import random
import re
from itertools import pairwise

import pytest

from actorgraph import StorageError
from actorgraph.savers.jsonl.index import load
from actorgraph.values.commits import Commit, Committed, ListCheckpoints, LoadCheckpoint, Refused
from tests.savers.jsonl_folders import Direct, rows
from tests.savers.test_contract import ident, point

FLIPS = 10_000
COUNT = 8
NEWEST_FIRST = list(range(COUNT, 0, -1))


def put(number):
    """A checkpoint from outside of runs, after the one before."""
    row = point(number, number - 1 or None, run=None)
    return Commit("t", "", None, 0, 0, None, checkpoints=(row,))


@pytest.fixture
def path(tmp_path):
    """The file of a thread with some checkpoints, a line each."""
    with Direct(tmp_path / "threads") as direct:
        for number in range(1, COUNT + 1):
            assert isinstance(direct.commit(put(number))[0], Committed)
    return tmp_path / "threads" / "t.jsonl"


def listed(direct):
    """A list of the thread's checkpoints."""
    return direct.ask(ListCheckpoints("t"))


@pytest.mark.promise("T4", "D2")
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.long)])
def test_a_file_cut_anywhere_is_whole_again_after_the_next_save(path, step):
    """
    Cut at any byte of its last three lines, none of which was acknowledged, the file shows the
    saves before the cut, a read changes nothing, and the next save is read after them.
    """
    marks = path.with_name(".marks")
    whole = path.read_bytes()
    ends = [m.end() for m in re.finditer(b"\n", whole)]

    edges = {end + by for end in ends[-4:-1] for by in (-1, 0, 1)}
    for size in range(ends[-4], len(whole)):
        if (len(whole) - size) % step != 1 % step and size not in edges:
            continue
        path.write_bytes(whole[:size])
        marks.unlink()  # as if the process had died before it knew how much was durable
        kept = sum(end - 1 <= size for end in ends)  # a line is there without its newline too
        with Direct(path.parent) as direct:
            before = list(range(kept, 0, -1))
            assert rows(listed(direct)) == before
            assert direct.ask(LoadCheckpoint("t")).head == ident(kept)
            assert direct.ask(LoadCheckpoint("t", "", ident(1))).checkpoint.row.id == ident(1)
            assert path.stat().st_size == size
            assert isinstance(direct.commit(put(kept + 1))[0], Committed)
            assert rows(listed(direct)) == [kept + 1, *before]
        with Direct(path.parent) as direct:
            assert rows(listed(direct)) == [kept + 1, *before]


def test_a_cut_of_acknowledged_lines_is_reported(path):
    """
    Cut at every byte, between two lines too, a file that was acknowledged whole is refused by
    reads and saves; a newline that is missing at its end, and nothing else, is put back.
    """
    whole = path.read_bytes()
    for size in [*range(0, len(whole) - 1, 7), *(m.end() for m in re.finditer(b"\n", whole))][:-1]:
        path.write_bytes(whole[:size])
        with Direct(path.parent) as direct:
            assert f"{len(whole)} bytes were acknowledged" in str(listed(direct)), size
            assert isinstance(direct.commit(put(9))[0], Refused)
            assert path.stat().st_size == size
    path.write_bytes(whole[:-1])
    with Direct(path.parent) as direct:
        assert rows(listed(direct)) == NEWEST_FIRST
        assert isinstance(direct.commit(put(COUNT + 1))[0], Committed)


def test_a_file_without_marks_is_read(path):
    """
    Folders of older versions, and restored ones, have no marks: their files are read as they are.
    """
    path.with_name(".marks").unlink()
    with Direct(path.parent) as direct:
        assert rows(listed(direct)) == NEWEST_FIRST


def test_torn_marks_say_nothing(path):
    """
    A mark that is no longer what was written is passed over, and written anew by the next save.
    """
    marks = path.with_name(".marks")
    marks.write_bytes(bytes([marks.read_bytes()[0] ^ 1]) + marks.read_bytes()[1:-5])
    with Direct(path.parent) as direct:
        assert rows(listed(direct)) == NEWEST_FIRST
        assert isinstance(direct.commit(put(COUNT + 1))[0], Committed)
    path.write_bytes(path.read_bytes()[:100])
    with Direct(path.parent) as direct:
        assert "acknowledged" in str(listed(direct))


@pytest.mark.promise("T4")
def test_a_changed_bit_is_always_named(path):
    """
    Whichever bit changes, the line that has it is named, or everything is read all the same;
    a save that was acknowledged never goes missing silently.
    """
    whole = path.read_bytes()
    ends = [0, *(m.end() for m in re.finditer(b"\n", whole))]
    rolls = random.Random(4)
    named = same = 0

    for _ in range(FLIPS):
        at = rolls.randrange(len(whole))
        changed = bytearray(whole)
        changed[at] ^= 1 << rolls.randrange(8)
        path.write_bytes(changed)
        number = next(i for i, (start, end) in enumerate(pairwise(ends), 1) if start <= at < end)
        try:
            index = load("t", str(path), 1)
        except StorageError as error:
            named += f"line {number} of" in str(error)
        else:
            same += len(index.places) == COUNT

    assert named + same == FLIPS
    assert same < FLIPS * 2 * (COUNT / len(whole))


def test_damage_refuses_the_thread_and_no_other(path):
    """
    A thread with a damaged line is neither read nor written, with the line's number; others are.
    """
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[2].replace(b'"step":3', b'"step":4'), *lines[3:]]))
    other = Commit("u", "", None, 0, 0, None, checkpoints=(point(1, run=None),))

    with Direct(path.parent) as direct:
        refused, stored = direct.commit(put(9), other)
        assert isinstance(refused, Refused)
        assert "line 3 of" in str(refused.error)
        assert "line 3 of" in str(listed(direct))
        assert isinstance(stored, Committed)
        assert rows(direct.ask(ListCheckpoints("u"))) == [1]


@pytest.mark.promise("T4")
@pytest.mark.parametrize(
    ("change", "number"),
    [
        (lambda lines: [*lines[:3], lines[2], *lines[3:]], 4),
        (lambda lines: [*lines, lines[-1]], COUNT + 1),
        (lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]], 4),
        (lambda lines: [*lines[:3], *lines[4:]], 4),
        (lambda lines: lines[1:], 1),
    ],
    ids=["doubled", "the last doubled", "swapped", "lost", "the first lost"],
)
def test_lines_out_of_order_are_named(path, change, number):
    """
    A line that is there twice, elsewhere, or is missing is found by the line's number.
    """
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))

    with Direct(path.parent) as direct:
        assert f"line {number} of" in str(listed(direct))


@pytest.mark.promise("T4")
def test_blank_lines_say_nothing(path):
    """
    Blank lines between, before and after the others are passed over, and kept.
    """
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"\n" + b"\n \n".join(lines) + b"\n\n")

    with Direct(path.parent) as direct:
        assert rows(listed(direct)) == NEWEST_FIRST
        direct.commit(put(COUNT + 1))
    with Direct(path.parent) as direct:
        assert rows(listed(direct)) == [COUNT + 1, *NEWEST_FIRST]
