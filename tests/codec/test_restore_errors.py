"""Errors of restoring: each names the row, and keeps what decoding raised as its cause."""

from typing import Any

import pytest

from actorgraph.codec import Codec
from actorgraph.codec.records import Record, frame
from actorgraph.codec.restore import (
    open_claim,
)
from actorgraph.errors import (
    ActorGraphError,
    EncryptionError,
    FormatVersionError,
    SerializationError,
    UnknownTypeError,
)
from actorgraph.values.commits import (
    Loaded,
    Shared,
    StoredClaim,
    StoredRange,
)
from actorgraph.values.constants import CONTROL_INDEX, RESUME
from actorgraph.values.ids import as_text
from tests.codec.shapes import Note
from tests.codec.threads import (
    KEYS,
    RUN,
    TASK,
    A,
    read,
    row,
    stored,
)

CODEC = Codec()
KEYED = Codec(keys=KEYS)
LONG = "x" * 5_000
REPAIR = "check the database's integrity, or restore it from a backup"
OF_A = f"checkpoint {as_text(A)} of thread 't'"


KEYED_PLAIN = Codec(keys=KEYS, reads_plain=True)


class Failing(Codec):
    """Decodes no value: memory has run out."""

    def decode(self, payload: bytes, place: Any = ()) -> Any:
        """Fail."""
        raise MemoryError


LISTED = Record(channel_versions={"log": 1}, lists={"log": [(1, 1)]})
HELD = Record(channel_versions={"text": 1}, blobs=["text"])
SEVEN = frame(CODEC.encode(7))
CONTROL = CONTROL_INDEX[RESUME]

FAULTS: list[tuple[dict[str, Any], type[ActorGraphError], str]] = [
    (
        {"record": Record(parts=9, channel_versions={"a": 1})},
        FormatVersionError,
        f"the record of {OF_A} has 1 of its 9 parts",
    ),
    (
        {"record": HELD, "blobs": {"text": b"\xd9"}},
        SerializationError,
        f"{OF_A}: the value of channel 'text': a stored value can't be decoded: ",
    ),
    (
        {"record": HELD, "blobs": {"text": Codec([Note]).encode(Note("x"))}},
        UnknownTypeError,
        f"{OF_A}: the value of channel 'text': a stored value has the type 'tests.codec.sh",
    ),
    ({"record": HELD}, SerializationError, f"{OF_A} lacks rows of channel 'text'"),
    (
        {"record": HELD, "namespace": "n:1"},
        SerializationError,
        f"checkpoint {as_text(A)} of namespace 'n:1' of thread 't': ",
    ),
    (
        {"record": LISTED, "ranges": {("log", 1): [StoredRange(0, 1, b"\0")]}},
        SerializationError,
        f"{OF_A}: channel 'log': a stored list ends in the middle of its items",
    ),
    (
        {"record": LISTED, "ranges": {("log", 1): [StoredRange(0, 1, SEVEN)]}},
        SerializationError,
        f"{OF_A} can't be read: TypeError: ",
    ),
    (
        {"ledger": (row(CODEC.encode(7), index=3),)},
        SerializationError,
        f"row 3 of task {TASK} beside {OF_A} can't be read: TypeError: ",
    ),
    (
        {"ledger": (row(b"\xd9"),)},
        SerializationError,
        f"row 0 of task {TASK} beside {OF_A}: a stored value can't be decoded: ",
    ),
    (
        {"ledger": (row(CODEC.encode([]), index=CONTROL),)},
        SerializationError,
        f"row {CONTROL} of task {TASK} beside {OF_A}: a control row has no value",
    ),
    (
        {"ledger": (row(CODEC.encode([["text", Shared("gone")]])),), "blobs": {"x": b""}},
        SerializationError,
        f"row 0 of task {TASK} beside {OF_A}: {OF_A} lacks rows of channel 'gone'",
    ),
]


class TestErrors:
    @pytest.mark.parametrize(("given", "kind", "text"), FAULTS)
    def test_each_names_the_row(self, given, kind, text):
        """
        A row that can't be read is named by thread, checkpoint and channel, with the advice.
        """
        with pytest.raises(kind) as refused:
            read(stored(**given))

        assert refused.value.what.startswith(text)
        assert kind is UnknownTypeError or refused.value.do == REPAIR
        assert text.endswith((": ", ".sh")) or refused.value.what == text

    def test_the_input_of_a_claim(self):
        """
        A claim's input that can't be read is named by its run and thread.
        """
        claim = StoredClaim(RUN, A, "sync", b"\xd9")
        where = f"the input of run {as_text(RUN)} of thread 't': a stored value can't be decoded"

        with pytest.raises(SerializationError) as refused:
            read(stored(), head=A, open_run=claim)
        assert refused.value.what.startswith(f"{OF_A}: {where}")

    def test_the_cause_is_kept(self):
        """
        An error has what decoding raised as its cause, and not another one of the library.
        """
        for given in (
            {"record": HELD, "blobs": {"text": b"\xd9"}},
            {"record": LISTED, "ranges": {("log", 1): [StoredRange(0, 1, SEVEN)]}},
            {"record": LISTED, "ranges": {("log", 1): [StoredRange(0, 1, frame(b"\xd9"))]}},
            {"ledger": (row(b"\xd9"),)},
            {"ledger": (row(CODEC.encode(7)),)},
        ):
            with pytest.raises(SerializationError) as refused:
                read(stored(**given))
            assert refused.value.__cause__ is not None
            assert not isinstance(refused.value.__cause__, ActorGraphError)

    @pytest.mark.parametrize(
        "given",
        [{"record": HELD, "blobs": {"text": b"\xc0"}}, {"ledger": (row(b"\x90"),)}],
    )
    def test_a_lack_of_memory_says_nothing_about_the_row(self, given):
        """
        Running out of memory while decoding is not an error of the stored bytes.
        """
        with pytest.raises(MemoryError):
            read(stored(**given), Failing())
        claim = StoredClaim(RUN, None, "sync", b"\x90")
        with pytest.raises(MemoryError):
            open_claim(Failing(), Loaded(open_run=claim), "t")

    def test_plain_values_beside_a_key(self):
        """
        Where there is a key a record with values of its own is refused, unless `reads_plain`.
        """
        given = stored(Record(channel_versions={"n": 1}, values={"n": 1}))

        with pytest.raises(EncryptionError, match=f"^{OF_A}: a stored value is not encrypted"):
            read(given, KEYED)
        assert read(given, KEYED_PLAIN)[0].values == {"n": 1}
        assert read(stored(), KEYED)[0].values == {}
