"""Alarms in a folder of JSON lines: a field of a save's line, and an index that files are read for
once."""

import re
import zlib
from itertools import count
from pathlib import Path

import msgspec
import pytest

from actorgraph.codec import Codec
from actorgraph.errors import SaverBrokenError, StorageFullError
from actorgraph.savers.jsonl.alarm_index import may_have_alarm
from actorgraph.savers.jsonl.backup import copy_folder
from actorgraph.savers.jsonl.files import MARKS_NAME, Files
from actorgraph.values.alarms import Alarm, ListAlarms, TakeAlarm
from actorgraph.values.commits import BlobRow, Commit, Committed, Refused
from actorgraph.values.retention import (
    CopyThread,
    DeleteCheckpoints,
    DeleteThread,
    KeepLatest,
    Vacuum,
)
from tests.savers.jsonl_folders import Direct, Unsynced
from tests.savers.test_contract import ident, point
from tests.savers.test_jsonl_failures import Failing


def put(number, at=None, thread="t"):
    """A checkpoint from outside of runs, after the one before; it sets the alarm."""
    row = point(number, number - 1 or None, run=None)
    alarm = None if at is None else Alarm(at, "g")
    return Commit(thread, "", None, 0, 0, None, checkpoints=(row,), alarm=alarm)


def alarms(direct, limit=99):
    """The threads and times of all alarms."""
    return [(row.thread_id, row.at) for row in direct.ask(ListAlarms(("g",), limit))]


def lines(path):
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "threads"


class TestLines:
    def test_an_alarm_is_a_field_of_its_line(self, folder):
        """
        The line of a save says the alarm that it sets, one that takes an alarm is a line of its
        own, and a save that changes no alarm says nothing; the next process reads the same.
        """
        with Direct(folder) as direct:
            direct.commit(put(1), put(2, 5), put(3), put(4, 5), TakeAlarm("t", 5, 20))
            direct.commit(put(1, 7, "u"), put(2, 0, "u"), put(1, 0, "v"))
            assert alarms(direct) == [("t", 20)]

        said = [line.get("alarm", {}).get("at") for line in lines(folder / "t.jsonl")]
        assert said == [None, 5, None, None, 20]
        assert lines(folder / "t.jsonl")[-1].keys() == {
            *("v", "thread_id", "line", "unsynced", "alarm", "crc")
        }
        assert [line.get("alarm") for line in lines(folder / "v.jsonl")] == [None]
        with Direct(folder) as direct:
            assert alarms(direct) == [("t", 20)]
            direct.commit(put(5), put(3, 6, "u"))
            assert alarms(direct) == [("u", 6), ("t", 20)]

    def test_a_line_of_a_later_version_is_read_without_what_is_not_known(self, folder):
        """
        A line with a field that this version doesn't know is a line without it, as alarms are to
        earlier versions.
        """
        with Direct(folder) as direct:
            direct.commit(put(1, 5), TakeAlarm("t", 5, 20))
        path = folder / "t.jsonl"
        made = [line.partition(b',"crc"')[0] for line in path.read_bytes().splitlines()]
        made = [body.replace(b'"alarm"', b'"clock"') for body in made]
        path.write_bytes(
            b"".join(b'%s,"crc":"%08x"}\n' % (body, zlib.crc32(body)) for body in made)
        )

        with Direct(folder) as direct:
            assert alarms(direct) == []
            assert isinstance(direct.commit(put(2, 8))[0], Committed)
            assert alarms(direct) == [("t", 8)]

    def test_a_graph_whose_name_is_no_text_refuses_its_save_alone(self, folder):
        """
        The save is refused, and leaves the alarm as it was.
        """
        bad = msgspec.structs.replace(put(2), alarm=Alarm(1, "\ud800"))
        with Direct(folder) as direct:
            outcomes = direct.commit(put(1, 5), bad, put(1, 6, "u"))
            assert [type(outcome) for outcome in outcomes] == [Committed, Refused, Committed]
            assert alarms(direct) == [("t", 5), ("u", 6)]


class TestIndex:
    def test_files_are_read_for_it_once(self, folder):
        """
        A second list is the same when the files have gone, and takes the first alarms of many.
        """
        with Direct(folder) as direct:
            direct.commit(*(put(1, 100 - n, f"t{n}") for n in range(30)))
        with Direct(folder) as direct:
            first = alarms(direct)
            for path in folder.glob("*.jsonl"):
                path.unlink()
            assert alarms(direct) == first
            assert alarms(direct, 2) == first[:2] == [("t29", 71), ("t28", 72)]
            assert len(first) == 30

    def test_the_first_of_several_graphs(self, folder):
        """
        The limit is that of all graphs together, and a graph that is named twice counts once.
        """
        with Direct(folder) as direct:
            for number, graph in enumerate("ghgh", 1):
                alarm = Alarm(number, graph)
                direct.commit(Commit(f"t{number}", "", None, 0, 0, None, alarm=alarm))
            found = direct.ask(ListAlarms(("g", "h", "g"), 2))
            assert [(row.thread_id, row.graph) for row in found] == [("t1", "g"), ("t2", "h")]

    def test_a_list_of_no_alarm_decodes_no_line(self, folder):
        """
        A damaged file without alarms holds no list of them up, nor is it named.
        """
        with Direct(folder) as direct:
            direct.commit(put(1), put(1, 5, "u"))
        path = folder / "t.jsonl"
        path.write_bytes(path.read_bytes().replace(b'"step":1', b'"step":7'))
        with Direct(folder) as direct:
            found = direct.ask(ListAlarms(("g",), 9))
            assert [row.thread_id for row in found] == ["u"]
            assert not hasattr(found, "damaged")

    def test_a_value_that_looks_like_an_alarm_is_none(self, folder):
        """
        An object in the state with an alarm's fields is no alarm.
        """
        row = point(1, run=None)
        payload = Codec().in_form("json").encode({"alarm": {"at": 5, "graph": "g"}})
        row = msgspec.structs.replace(row, blobs=(BlobRow("x", 1, payload),))
        with Direct(folder) as direct:
            direct.commit(Commit("t", "", None, 0, 0, None, checkpoints=(row,)))
        assert may_have_alarm(folder / "t.jsonl")
        with Direct(folder) as direct:
            assert alarms(direct) == []

    @pytest.mark.parametrize("by", range(-16, 2))
    def test_an_alarm_is_found_wherever_it_stands(self, folder, by):
        """
        Also where a file is read in two parts.
        """
        folder.mkdir()
        path = folder / "x"
        path.write_bytes(b" " * ((1 << 20) + by) + b'"alarm":{"at":5')
        assert may_have_alarm(path)
        path.write_bytes(b" " * ((1 << 20) + by) + b'"alarm":{"a')
        assert not may_have_alarm(path)

    def test_files_of_others_are_passed_over(self, folder):
        """
        Files of other programs, folders, and files that are not there any more.
        """
        with Direct(folder) as direct:
            direct.commit(put(1, 5))
        (folder / "other.jsonl").write_bytes(b'{"alarm":{"at":5}}\n')
        (folder / "folder.jsonl").mkdir()
        (folder / "gone.jsonl").symlink_to(folder / "nowhere")
        with Direct(folder) as direct:
            found = direct.ask(ListAlarms(("g",), 9))
            assert [row.thread_id for row in found] == ["t"]
            assert not hasattr(found, "damaged")

    def test_a_file_that_cannot_be_opened_is_tried_again(self, folder):
        """
        Its error is told with the alarms of the others, until it can be opened.
        """
        with Direct(folder) as direct:
            direct.commit(put(1, 5), put(1, 6, "u"))
        (folder / "t.jsonl").rename(folder / "away")
        (folder / "t.jsonl").symlink_to("t.jsonl")  # a loop, which nobody can open
        with Direct(folder) as direct:
            found = direct.ask(ListAlarms(("g",), 9))
            assert [row.thread_id for row in found] == ["u"]
            assert "t.jsonl" in str(found.damaged[0])
            (folder / "t.jsonl").unlink()
            (folder / "away").rename(folder / "t.jsonl")
            assert alarms(direct) == [("t", 5), ("u", 6)]


class TestDamage:
    def test_a_folder_that_never_had_alarms_is_not_searched(self, folder):
        """
        Its files are not read for them, also when they look as if they had some; the first alarm
        is noted before it, and from then on they are. A backup has the note.
        """
        with Direct(folder) as direct:
            direct.commit(put(1), put(1, 0, "u"))
        with Direct(f"{folder}-other") as direct:
            direct.commit(put(1, 5, "bad"), put(2, thread="bad"))
        bad, made = folder / "bad.jsonl", Path(f"{folder}-other", "bad.jsonl").read_bytes()
        bad.write_bytes(made.replace(b'"at":5', b'"at":4'))
        with Direct(folder) as direct:
            assert not hasattr(direct.ask(ListAlarms(("g",), 9)), "damaged")
            direct.commit(put(2, 5))
            assert alarms(direct) == [("t", 5)]
        with Direct(folder) as direct:
            found = direct.ask(ListAlarms(("g",), 9))
            assert ([row.thread_id for row in found], len(found.damaged)) == (["t"], 1)
            bad.unlink()
        copy_folder(str(folder), Files(), str(folder) + "-copy")
        with Direct(f"{folder}-copy") as direct:
            assert alarms(direct) == [("t", 5)]

    def test_a_damaged_thread_hides_no_other(self, folder):
        """
        Its alarm is left out, its line is named, it can't be taken, and it goes with the thread.
        """
        with Direct(folder) as direct:
            direct.commit(put(1, 5), put(2), put(1, 6, "u"))
        path = folder / "t.jsonl"
        path.write_bytes(path.read_bytes().replace(b'"at":5', b'"at":4'))
        with Direct(folder) as direct:
            for _ in range(2):
                found = direct.ask(ListAlarms(("g",), 9))
                assert [row.thread_id for row in found] == ["u"]
                assert "line 1 of" in str(found.damaged[0])
            (outcome,) = direct.commit(TakeAlarm("t", 4, 20))
            assert isinstance(outcome, Refused)
            assert "line 1 of" in str(outcome.error)
            direct.commit(DeleteThread("t"))
            assert not hasattr(direct.ask(ListAlarms(("g",), 9)), "damaged")
            assert alarms(direct) == [("u", 6)]

    def test_a_file_cut_anywhere_has_the_alarm_of_its_last_whole_line(self, folder):
        """
        Cut at any byte that was not acknowledged; the next one is set and taken as ever.
        """
        with Direct(folder) as direct:
            direct.commit(
                put(1, 5), TakeAlarm("t", 5, 6), put(2, 7), TakeAlarm("t", 7, 8), put(3, 0)
            )
        path = folder / "t.jsonl"
        whole = path.read_bytes()
        ends = [match.end() - 1 for match in re.finditer(b"\n", whole)]
        after = [[("t", at)] for at in (5, 6, 7, 8)]
        wanted = [[], *after, []]
        edges = {end + by for end in ends for by in (-1, 0, 1)}
        for size in sorted({*range(0, len(whole), 9), *edges}):
            path.write_bytes(whole[:size])
            path.with_name(MARKS_NAME).unlink(missing_ok=True)
            kept = sum(end <= size for end in ends)
            with Direct(folder) as direct:
                assert alarms(direct) == wanted[kept], size
                (outcome,) = direct.commit(TakeAlarm("t", 8, 9))
                assert outcome.sequence == (kept == 4)

    def test_a_hole_in_what_was_never_acknowledged_takes_its_alarm(self, folder):
        """
        The line with the hole, and the lines behind it, say nothing; below the mark it is damage.
        """
        with Direct(folder) as direct:
            direct.commit(put(1, 5))
            direct.commit(TakeAlarm("t", 5, 20), put(2, 30))
        path = folder / "t.jsonl"
        data = bytearray(path.read_bytes())
        start = data.index(b"\n") + 20
        data[start : start + 9] = bytes(9)
        path.write_bytes(data)
        with Direct(folder) as direct:
            assert "line 2 of" in str(direct.ask(ListAlarms(("g",), 9)).damaged[0])
        (folder / MARKS_NAME).unlink()
        with Direct(folder) as direct:
            assert alarms(direct) == [("t", 5)]
            assert direct.commit(TakeAlarm("t", 5, 21))[0].sequence == 1
        with Direct(folder) as direct:
            assert alarms(direct) == [("t", 21)]

    def test_a_full_disk_moves_no_alarm(self, folder):
        """
        A take that can't be written is refused, and the next one has it; nor does a save whose
        line isn't there set one.
        """
        files = Failing()
        with Direct(folder, files) as direct:
            direct.commit(put(1, 5))
            for request in (TakeAlarm("t", 5, 20), put(2, 30)):
                files.fail(1)
                (outcome,) = direct.commit(request)
                assert isinstance(outcome.error, StorageFullError)
                assert alarms(direct) == [("t", 5)]
            assert direct.commit(TakeAlarm("t", 5, 20))[0].sequence == 1
            assert alarms(direct) == [("t", 20)]

    def test_after_a_failed_sync_the_files_are_read_again(self, folder):
        """
        What the disk has is what counts once the folder is opened again.
        """
        files = Failing()
        with Direct(folder, files) as direct:
            direct.commit(put(1, 5))
            assert alarms(direct) == [("t", 5)]
            files.fail(2)
            with pytest.raises(SaverBrokenError):
                direct.commit(TakeAlarm("t", 5, 20))
            with Direct(folder) as again:
                assert alarms(again) == [("t", lines(folder / "t.jsonl")[-1]["alarm"]["at"])]
                assert isinstance(again.commit(put(2, 30))[0], Committed)
                assert alarms(direct) == [("t", 30)]


class Watched(Unsynced):
    """Looks at the alarms in the middle of a write."""

    def __init__(self):
        self.look = None
        self.seen = []

    def sync(self, descriptor):
        """The alarms as readers see them before the lines are durable."""
        if self.look is not None:
            self.seen.append(self.look())


def test_an_alarm_is_seen_when_it_is_durable(folder):
    """
    Before the sync of its line readers see the alarm before it, also those that search the files
    meanwhile.
    """
    files = Watched()
    with Direct(folder, files) as direct:
        direct.commit(put(1, 5))
        files.look = lambda: alarms(direct)
        direct.commit(TakeAlarm("t", 5, 20), put(1, 7, "u"))
        assert files.seen
        assert all(seen == [("t", 5)] for seen in files.seen)
        assert alarms(direct) == [("u", 7), ("t", 20)]


class TestRewriting:
    def test_a_removal_keeps_the_newest_alarm_and_no_other(self, folder):
        """
        Lines that only had an earlier alarm go; one that takes the alarm away goes too.
        """
        with Direct(folder) as direct:
            moves = [TakeAlarm("t", at, at + 1) for at in range(5, 15)]
            direct.commit(put(1, 5), *moves, put(2))
            direct.commit(put(1, 5, "u"), put(2, 0, "u"), put(3, thread="u"))
            direct.commit(KeepLatest("t"), KeepLatest("u"))
            assert alarms(direct) == [("t", 15)]
            assert direct.commit(TakeAlarm("t", 15, 16))[0].sequence == 1

        said = [line.get("alarm", {}).get("at") for line in lines(folder / "t.jsonl")]
        assert said == [15, None, 16]
        assert b"alarm" not in (folder / "u.jsonl").read_bytes()
        with Direct(folder) as direct:
            assert alarms(direct) == [("t", 16)]

    def test_a_thread_of_which_nothing_is_left_has_no_alarm(self, folder):
        """
        When its last checkpoint is removed its file goes.
        """
        with Direct(folder) as direct:
            direct.commit(put(1, 5), TakeAlarm("t", 5, 6), put(2))
            direct.commit(DeleteCheckpoints("t", "", frozenset((ident(1), ident(2)))))
            assert alarms(direct) == []
        assert not (folder / "t.jsonl").exists()

    def test_a_copy_has_none_and_replaces_what_was_there(self, folder):
        """
        The copy's lines say no alarm, also where the target has had one; the source keeps its own.
        """
        with Direct(folder) as direct:
            direct.commit(put(1, 5), TakeAlarm("t", 5, 6))
            direct.commit(Commit("copy", "", None, 0, 0, None, alarm=Alarm(3, "g")))
            assert alarms(direct) == [("copy", 3), ("t", 6)]
            direct.commit(CopyThread("copy", "t"))
            assert alarms(direct) == [("t", 6)]
        assert b"alarm" not in (folder / "copy.jsonl").read_bytes()

    def test_a_vacuum_leaves_them(self, folder):
        """
        After it the same alarms are there.
        """
        with Direct(folder) as direct:
            direct.commit(put(1, 5), put(1, 6, "u"), DeleteThread("u"))
            direct.commit(Vacuum())
            assert alarms(direct) == [("t", 5)]

    def test_a_backup_has_them(self, folder, tmp_path):
        """
        A copy of the folder in use has the alarms of then.
        """
        with Direct(folder) as direct:
            direct.commit(put(1, 5), TakeAlarm("t", 5, 6))
            copy_folder(str(folder), Files(), str(tmp_path / "backup"))
            direct.commit(put(2, 0))
        with Direct(tmp_path / "backup") as direct:
            assert alarms(direct) == [("t", 6)]


def test_many_changes_leave_the_index_as_the_files_are(folder):
    """
    After any order of saves, takes, removals, copies and deletions the index that was kept up is
    the one that a new search finds.
    """
    numbers = {thread: count(1) for thread in "abcd"}
    steps = []
    for turn in range(60):
        thread = "abcd"[turn * 7 % 4]
        steps.append(put(next(numbers[thread]), (None, 9, 0, 4, 9)[turn % 5], thread))
        if turn % 3 == 0:
            steps.append(TakeAlarm(thread, 9, 10 + turn))
        if turn % 4 == 1:
            steps.append(KeepLatest(thread))
        if turn % 11 == 5:
            steps.append(DeleteThread(thread))
        if turn % 13 == 6:
            steps.append(CopyThread(f"copy{turn}", thread))
    with Direct(folder) as direct:
        seen = 0
        for step in steps:
            direct.commit(step)
            kept = alarms(direct)
            direct.folder.forget()
            assert alarms(direct) == kept
            seen += len(kept)
        assert seen > len(steps)
