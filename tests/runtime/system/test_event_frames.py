"""Rows of stored events: one event, or a frame of several."""

import sqlite3
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorgraph import get_message_writer
from actorgraph.codec import Codec
from actorgraph.codec.encryption import event_of
from actorgraph.errors import FormatVersionError, SerializationError
from actorgraph.messages import AIMessageChunk
from actorgraph.runtime.system.event_frames import (
    EVENTS_PAGE,
    FRAME_EVENTS,
    INFLATED_MAX,
    LARGE_BYTES,
    Framing,
    events_of,
    page_of,
)
from actorgraph.values.commits import Committed
from actorgraph.values.systems import (
    EventPage,
    EventRow,
    PutRun,
    ReadEvents,
    RunEvent,
    RunRow,
    StoreEvents,
)
from tests.support.every_saver import Store
from tests.support.graphs import in_a_row
from tests.support.systems import place, system_of

__all__ = ["place"]

RUN, OWNER = b"r" * 16, b"o" * 16
KEY, NEW_KEY = {"old": b"o" * 32}, {"new": b"n" * 32}
CODECS = {
    "msgpack": Codec(),
    "json": Codec(form="json"),
    "encrypted": Codec(keys=KEY),
    "compressed": Codec(compress_above=64),
}
KEPT = 10_000


class Rows(dict[int, EventRow]):
    """The rows of a run, as a saver keeps them.

    Args:
        replaces: whether it removes rows that a new one replaces, as it should.
    """

    def __init__(self, *, replaces: bool = True) -> None:
        super().__init__()
        self._replaces = replaces

    def store(self, rows: tuple[EventRow, ...], replaces: int) -> None:
        """Store rows as `StoreEvents` says."""
        if self._replaces and replaces:
            for found in [found for found in self if replaces <= found < rows[0].place]:
                del self[found]
        for row in rows:
            self.setdefault(row.place, row)

    def page(self, codec: Codec, after: int, limit: int) -> EventPage[RunEvent]:
        """Read a page of at most so many rows."""
        rows = (self[found] for found in sorted(self) if found > after)
        return page_of(codec, RUN, ReadEvents(RUN, "t", after, limit).cut(rows), after)


def read(stored: Rows, codec: Codec, after: int, limit: int) -> list[RunEvent]:
    """Read all events after an offset, in pages of so many rows."""
    events: list[RunEvent] = []
    while True:
        page = stored.page(codec, events[-1].offset if events else after, limit)
        events += page
        if not page.is_full:
            return events


def made(sizes: list[int], first: int = 1, last: str = "custom") -> list[RunEvent]:
    """Events with data of so many characters each."""
    kinds = [*["custom"] * (len(sizes) - 1), last]
    return [
        RunEvent(n, kind, "x" * size, ("sub:1",), n * 1000)
        for n, (kind, size) in enumerate(zip(kinds, sizes, strict=True), first)
    ]


def stored(events: list[RunEvent], codec: Codec, batch: int, kept: int = KEPT) -> Rows:
    """Store events, so many at a time."""
    framing, rows = Framing(codec, RUN, kept), Rows()
    for begin in range(0, len(events), batch):
        rows.store(*framing.rows([framing.encode(e) for e in events[begin : begin + batch]], 0))
    return rows


def frame_of(codec: Codec, packed: bytes, form: int = 1) -> EventRow:
    return EventRow(2, 2, codec.encode([form, packed], "events", event_of(RUN, 2)))


SIZES = st.lists(st.sampled_from([0, 1, 30, 400, LARGE_BYTES, 300_000]), min_size=1, max_size=150)


class TestFraming:
    @pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
    @pytest.mark.parametrize("replaces", [True, False])
    @given(SIZES, st.data())
    def test_events_that_are_read_are_those_written(self, codec, replaces, sizes, data):
        """
        After each commit all events so far are read, in pages of any size after any offset; also
        from a saver that keeps the rows that a frame replaces, and of a run's next attempt.
        """
        events, done = made(sizes, last="end"), 0
        framing, rows = Framing(codec, RUN, KEPT), Rows(replaces=replaces)
        while done < len(events):
            following = events[done : done + data.draw(st.sampled_from([1, 2, 5, 70]))]
            done += len(following)
            rows.store(*framing.rows([framing.encode(event) for event in following], 0))
            after, limit = data.draw(st.integers(0, done)), data.draw(st.integers(1, 99))
            assert read(rows, codec, after, limit) == events[after:done]
            if data.draw(st.integers(0, 9)) == 9:
                framing = Framing(codec, RUN, KEPT)  # a crash

    def test_rows_become_frames(self):
        """
        A row for each event is replaced by one for 64, and at the end by one for the rest.
        """
        events = made([5] * 100, last="end")
        begun, ended = stored(events[:70], Codec(), 1), stored(events, Codec(), 1)

        assert [*begun] == [64, *range(65, 71)]
        assert [*ended] == [64, 100]

    def test_a_drain_is_the_end_of_an_attempt(self):
        """
        The last event of a drained attempt makes a frame, too.
        """
        assert [*stored(made([5] * 9, last="drain"), Codec(), 1)] == [9]

    def test_events_that_wait_are_one_row(self):
        """
        Events that are stored together are one row, also before there are enough for a frame.
        """
        assert [*stored(made([5] * 12), Codec(), 5)] == [5, 10, 12]

    def test_large_events_are_written_once(self):
        """
        A large event is the last one of a frame, so that no later frame has it again.
        """
        framing, written = Framing(Codec(), RUN, KEPT), 0
        for event in made([5, 5, LARGE_BYTES * 9, 5, LARGE_BYTES * 9]):
            rows, _ = framing.rows([framing.encode(event)], 0)
            written += sum(len(row.payload) for row in rows)

        assert written < LARGE_BYTES  # compressed; twice as many would be above it
        assert [*stored(made([5, 5, LARGE_BYTES, 5, LARGE_BYTES, 5]), Codec(), 1)] == [3, 5, 6]

    def test_a_place_never_gets_another_row(self):
        """
        A frame is at a place where no row was: re-encryption replaces payloads by their place.
        """
        framing, places = Framing(Codec(), RUN, KEPT), list[int]()
        for event in made([5, LARGE_BYTES, 5, 300_000, *[5] * 140], last="end"):
            rows, _ = framing.rows([framing.encode(event)], 0)
            places += [row.place for row in rows]

        assert places == sorted(set(places))

    def test_old_events_are_not_stored_again(self):
        """
        A frame lacks the events that are beyond the limit of age, which were removed.
        """
        framing = Framing(Codec(), RUN, KEPT)
        events = [framing.encode(event) for event in made([5] * 5, last="end")]
        framing.rows(events[:4], 0)
        rows, replaces = framing.rows(events[4:], 3000)

        assert [event.offset for event, _ in events_of(Codec(), RUN, rows[0])] == [3, 4, 5]
        assert replaces == 1

    def test_a_few_kept_events_are_rows(self):
        """
        Up to 64 kept events are counted exactly, so each one is a row.
        """
        assert [*stored(made([5] * 9, last="end"), Codec(), 4, kept=64)] == [*range(1, 10)]

    def test_codecs_of_a_program_encode_whole_events(self):
        """
        A codec with an `encode` of its own gets each event alone, as its place says.
        """

        class Reversed(Codec):
            def encode(self, value: Any, path: str = "value", place: Any = ()) -> bytes:
                return super().encode(value, path, place)[::-1]

            def decode(self, payload: bytes, place: Any = ()) -> Any:
                return super().decode(payload[::-1], place)

        codec = Reversed(keys=KEY)
        events = made([5] * 9, last="end")
        rows = stored(events, codec, 4)

        assert [*rows] == [*range(1, 10)]
        assert read(rows, codec, 0, 4) == events


class TestReading:
    def test_pages_are_bounded_unpacked(self):
        """
        A page has at most as many events as before, however many its rows have.
        """
        rows = stored(made([5] * 600), Codec(), 1)
        page = rows.page(Codec(), 10, 64)

        assert (len(page), page.is_full, page[0].offset) == (EVENTS_PAGE, True, 11)

    def test_pages_end_with_their_bytes(self, monkeypatch):
        """
        The bytes of a page are those of its events, not of the compressed rows.
        """
        monkeypatch.setattr("actorgraph.runtime.system.event_frames.PAGE_BYTES", 10_000)
        rows = stored(made([2000] * 64), Codec(), 1)
        page = rows.page(Codec(), 0, 64)

        assert (len(rows), len(page), page.is_full) == (1, 5, True)

    def test_new_keys_seal_frames(self):
        """
        A frame is encrypted again like any row, and then read with the new key alone.
        """
        events = made([5] * 9, last="end")
        (row,) = stored(events, Codec(keys=KEY), 1).values()
        place = event_of(RUN, row.place)
        sealed = Codec(keys=NEW_KEY | KEY).reencrypt(row.payload, place, place)
        row = msgspec.structs.replace(row, payload=sealed)

        assert [event for event, _ in events_of(Codec(keys=NEW_KEY), RUN, row)] == events

    def test_frames_of_a_newer_form_are_refused(self):
        """
        A form that this version doesn't know is an error that names the event.
        """
        with pytest.raises(FormatVersionError, match=r"event 2 of run .* form 7"):
            [*events_of(Codec(), RUN, frame_of(Codec(), b"", 7))]

    @pytest.mark.parametrize(
        "packed",
        [b"", b"?", zlib.compress(b"\x93"), zlib.compress(b"\0" * 2 * INFLATED_MAX)],
        ids=["nothing", "no zlib", "cut off", "too large"],
    )
    def test_damaged_frames_are_refused(self, packed):
        """
        Bytes that are no frame, or inflate to more than one may have, are an error with its place.
        """
        with pytest.raises(SerializationError, match="event 2 of run"):
            [*events_of(Codec(), RUN, frame_of(Codec(), packed))]

    def test_older_versions_refuse_frames(self):
        """
        A frame has two parts where older versions unpack three, so that they show none of it.
        """
        (row,) = stored(made([5, 5], last="end"), Codec(), 2).values()

        assert len(Codec().decode(row.payload, event_of(RUN, 2))) == 2


def speaking(pieces: int) -> Any:
    """A graph whose node speaks a message in so many pieces."""

    async def speak(state: Any) -> dict[str, Any]:
        write = get_message_writer()
        for number in range(pieces):
            await write.asend(AIMessageChunk(f"tok{number * 7919 % 1000} ", id="m"))
        return {"bar": ["a"]}

    return in_a_row({"speak": speak})


@pytest.mark.every_saver
class TestStored:
    async def test_stored_events_are_those_that_were_sent(self, place: Store):
        """
        Who reads a run's stored events after any offset gets those that the run's readers got.
        """
        modes = ["messages", "values"]
        async with system_of(place, speaking(150)) as system:
            run = await system.start("g", "t", {"bar": []}, resumable=True, stream_mode=modes)
            events = [event async for event in run.events()]
        async with system_of(place, speaking(150)) as system:
            found = await system.run(run.id)
            for after in (0, 1, 63, 64, 65, 100, len(events) - 1):
                assert [event async for event in found.events(after=after)] == events[after:]

        assert len(events) > 2 * FRAME_EVENTS

    async def test_a_stop_after_any_commit_loses_nothing(self, place: Store):
        """
        Whatever commit was the last one, a saver that is opened then has all events until it.
        """
        framing, done = Framing(Codec(), RUN, KEPT), 0
        events = made([5] * 70, last="end")
        rest = {"attempts": 1, "claimed": False, "owner": OWNER, "created": 1, "metadata": "{}"}
        row = RunRow(RUN, "t", "g", "pending", **rest, payload=b"", reason="")
        request: Any = PutRun(row, "t")
        for count in (0, 1, 1, 30, 31, 1, 5, 1):
            if count:
                encoded = [framing.encode(event) for event in events[done : done + count]]
                rows, replaces = framing.rows(encoded, 0)
                request = StoreEvents(RUN, "t", OWNER, rows, KEPT, 0, replaces=replaces)
            async with opened(place) as saver:
                (outcome,) = await saver.commit([request])
                assert isinstance(outcome, Committed)
            done += count
            async with opened(place) as saver:
                (rows,) = await saver.query([ReadEvents(RUN, "t", 0, 99)])
            assert page_of(Codec(), RUN, EventPage(rows), 0) == events[:done]

        assert [row.place for row in rows] == [64, 70]

    async def test_an_answer_takes_little_room(self, tmp_path: Path):
        """
        The stored events of an answer of 40 pieces are at most 2.5 kB.
        """
        place = Store("sqlite", tmp_path)
        async with system_of(place, speaking(40)) as system:
            run = await system.start("g", "t", {"bar": []}, resumable=True, stream_mode="messages")
            assert len([event async for event in run.events()]) == 1 + 40 + 1
        with closing(sqlite3.connect(place.path)) as connection:
            (size,) = connection.execute("SELECT sum(length(payload)) FROM events").fetchone()

        assert size <= 2500


@asynccontextmanager
async def opened(place: Store) -> AsyncIterator[Any]:
    """A new saver over a place; closed at the end, as by the end of its process."""
    saver = place.again()
    await saver.open()
    try:
        yield saver
    finally:
        await saver.close()
