"""Saves -> rows: whole rows, values where the record says, slices, errors with a channel."""

from collections.abc import Generator
from typing import Any, ClassVar

import msgspec
import pytest

from actorgraph.channels import EMPTY
from actorgraph.codec import Codec
from actorgraph.codec.conversions import with_note, without_note
from actorgraph.codec.records import Record, frame
from actorgraph.codec.save_encoder import SLICE_BYTES, encode_metadata
from actorgraph.errors import InvalidConfigError, SerializationError
from actorgraph.values.commits import (
    HOLDER_ANY,
    BlobRow,
    CheckpointRow,
    Claim,
    Commit,
    LedgerRow,
)
from actorgraph.values.constants import CALL, CONTROL_INDEX, INTERRUPT, PUSH, START
from actorgraph.values.ids import version_apart
from actorgraph.values.run import ClaimIntent, LedgerEntry
from tests.codec.threads import (
    EARLIER,
    KEYS,
    PATH,
    PLAN,
    RUN,
    TASK,
    TASK_BYTES,
    A,
    B,
    Thread,
    entry,
    hand_off,
    point,
    record_of,
    save,
)

CODEC = Codec()
LONG = "x" * 5_000
KEYED = Codec(keys=KEYS)
SECRET = {"secret": "s"}


def turns(slices: Generator[None, None, Commit]) -> tuple[int, Commit]:
    """How often the event loop gets a turn, and the commit."""
    count = 0
    while True:
        try:
            next(slices)
        except StopIteration as done:
            return count, done.value
        count += 1


FULL = save(
    point(
        2,
        {"n": 7, "text": LONG},
        seen={"a": {"n": 1}},
        updated=("n", "text"),
        next=("b", "c"),
        metadata={"by": "me"},
        source="input",
        highest=9,
    ),
    number=4,
    ledger=(entry(A, n=1), entry(A, index=CONTROL_INDEX[INTERRUPT], **{INTERRUPT: ["ok?"]})),
    claim=ClaimIntent(A, "sync", {"n": 1}, has_input=True, resumes=("i", "j")),
    ends="error",
)
"""A save with a value in each field."""


class TestCommits:
    def test_all_of_a_save_is_in_the_commit(self):
        """
        A save's numbers, claim, pending writes and checkpoints are in one commit, each in its
        column.
        """
        made = hand_off(namespace="n:1", holder=EARLIER).commit(FULL)
        row = LedgerRow(A, TASK_BYTES, "~__pregel_pull, a", 0, 0, CODEC.encode([["n", 1]]))
        question = LedgerRow(
            *(A, TASK_BYTES, "~__pregel_pull, a", CONTROL_INDEX[INTERRUPT], 0),
            CODEC.encode([[INTERRUPT, ["ok?"]]]),
            asks=True,
        )

        assert made == Commit(
            thread_id="t",
            namespace="n:1",
            run=RUN,
            epoch=3,
            number=4,
            head=None,
            claim=Claim(A, "sync", CODEC.encode(with_note(CODEC, PLAN, {"n": 1})), "i,j", EARLIER),
            ledger=(row, question),
            checkpoints=(
                CheckpointRow(
                    id=B,
                    parent=A,
                    step=0,
                    source="input",
                    run=RUN,
                    next='["b","c"]',
                    record=made.checkpoints[0].record,
                    metadata='{"by":"me"}',
                    blobs=(BlobRow("text", 2, CODEC.encode(LONG)),),
                ),
            ),
            ends="error",
            size=4 * 200 + len(row.payload) + len(question.payload) + len(CODEC.encode(LONG)),
        )
        assert record_of(made) == Record(
            highest=9,
            parts=5,
            graph=PLAN.graph_id,
            channel_versions={"n": 2, "text": 2},
            versions_seen={"a": {"n": 1}},
            updated_channels=["n", "text"],
            values={"n": 7},
            blobs=["text"],
        )

    def test_a_claim_without_an_input_has_none(self):
        """
        A claim has an input only if no checkpoint holds it; the head and the owner are passed on.
        """
        hand = hand_off(owner=b"o", stamped=False)
        claimed = hand.commit(msgspec.structs.replace(save(), head=B, claim=ClaimIntent(A, "exit")))

        assert claimed.claim == Claim(A, "exit", None, "", HOLDER_ANY)
        assert (claimed.head, claimed.owner, claimed.size) == (B, b"o", 0)
        assert hand.commit(save(point())).checkpoints[0].run is None

    @pytest.mark.parametrize(
        ("owner", "claims", "epochs"),
        [(b"o", True, [3, 4]), (b"o", False, [3, 3]), (None, True, [3, 3])],
    )
    def test_the_claim_of_a_system_raises_the_epoch(self, owner, claims, epochs):
        """
        Commits after a system's claim have the epoch that its lease makes; others keep theirs.
        """
        hand = hand_off(owner=owner)
        first = hand.commit(save(claim=ClaimIntent(None, "sync") if claims else None))

        assert [first.epoch, hand.commit(save()).epoch] == epochs

    def test_sizes_count_one_save(self):
        """
        A commit's size is that of its own rows, not of those before.
        """
        hand = hand_off()
        one = hand.commit(save(point(1, {"text": LONG})))
        two = hand.commit(save(point(2, {"text": LONG})))

        assert one.size == two.size == 400 + len(CODEC.encode(LONG))

    def test_untracked_values_are_not_stored(self):
        """
        Values of the graph's untracked keys, or of the given ones, are in no row.
        """
        given = save(point(1, {"secret": "s", "text": "t"}), ledger=(entry(text="t", **SECRET),))
        small = save(point(1, {"secret": 1, "n": 1}), ledger=(entry(n=1, **SECRET),))

        for untracked, left in ((None, "text"), (frozenset({"text"}), "secret")):
            made = hand_off(untracked=untracked).commit(given)
            assert [blob.channel for blob in made.checkpoints[0].blobs] == [left]
            assert [w[0] for w in CODEC.decode(made.ledger[0].payload)] == [left]
        assert record_of(hand_off().commit(small)).values == {"n": 1}


class TestSlices:
    def test_pending_writes(self):
        """
        The loop has a turn after each megabyte of pending writes.
        """
        entries = tuple(entry(text="x" * 600_000) for _ in range(5))

        assert turns(hand_off().slices(save(ledger=entries)))[0] == 2

    @pytest.mark.parametrize(("more", "count"), [(0, 0), (1, 1)])
    def test_the_limit(self, more, count):
        """
        A slice has a megabyte at most, be it of writes, of values or of items.
        """
        head = len(CODEC.encode("x" * 70_000)) - 70_000
        text = "x" * (SLICE_BYTES - head + more)
        writes = "x" * (SLICE_BYTES - len(CODEC.encode([["text", "x" * 70_000]])) + 70_000 + more)
        items = [["x" * (SLICE_BYTES - len(CODEC.encode(["x" * 70_000])) + 70_000 + more)]]

        assert turns(hand_off().slices(save(point(1, {"text": text}))))[0] == count
        assert turns(hand_off().slices(save(ledger=(entry(text=writes),))))[0] == count
        assert turns(hand_off().slices(save(point(1, {"log": items[0]}))))[0] == count

    def test_values_and_writes_count_together(self):
        """
        Bytes of one part of a save count for the next one too; a turn begins a new count.
        """
        part = "x" * 600_000
        given = save(
            point(1, {"text": part, "n": part, "items": part, "log": [part]}),
            ledger=(entry(text=part),),
        )
        count, made = turns(hand_off().slices(given))

        assert count == 2
        assert made == hand_off().commit(given)

    def test_the_count_begins_with_each_save(self):
        """
        Bytes of the save before don't shorten the first slice of the next one.
        """
        hand = hand_off()
        given = save(ledger=(entry(text="x" * 600_000),))

        assert [turns(hand.slices(given))[0] for _ in range(3)] == [0, 0, 0]

    def test_long_lists(self):
        """
        A list is encoded 2,000 items at a time, and large items give the loop a turn between.
        """
        items = ["x" * 600] * 4_500
        count, made = turns(hand_off().slices(save(point(1, {"log": items}))))
        rows = made.checkpoints[0].ranges

        assert [(r.start, r.before, r.count) for r in rows] == [
            (0, 0, 2_000),
            (2_000, 0, 2_000),
            (4_000, 0, 500),
        ]
        assert rows[2].payload == frame(CODEC.encode(items[4_000:]))
        assert count == 2


class TestPlaces:
    def test_changed_values_move(self):
        """
        A value is inline, a row or absent as its last change says; others stay where they are.
        """
        hand = hand_off()
        changes: list[dict[str, Any]] = [
            {"n": 1, "text": LONG},
            {"text": 5},
            {"n": 2**53},
            {"n": EMPTY},
            {"text": EMPTY},
        ]
        records = [
            record_of(hand.commit(save(point(i, change)))) for i, change in enumerate(changes, 1)
        ]

        assert [(r.values, r.blobs) for r in records] == [
            ({"n": 1}, ["text"]),
            ({"n": 1, "text": 5}, []),
            ({"text": 5}, ["n"]),
            ({"text": 5}, []),
            ({}, []),
        ]

    def test_a_key_that_writes_deltas_has_no_place(self):
        """
        A checkpoint that holds only the writes of a key names no old place of it.
        """
        hand = hand_off()
        hand.commit(save(point(1, {"facts": [1], "n": 1})))
        made = hand.commit(save(point(2, {"n": 2}, deltas={"facts": (1, 1)}, folds=True)))

        assert record_of(made) == Record(
            parts=3,
            graph=PLAN.graph_id,
            channel_versions={"n": 2},
            values={"n": 2},
            deltas={"facts": (1, 1)},
            folds=True,
        )

    def test_a_codec_without_a_key_gets_no_places(self):
        """
        A program's own codec that doesn't encrypt is asked for values that are bound to no place.
        """

        class Noting(Codec):
            places: ClassVar[set[Any]] = set()

            def encode(self, value: Any, path: str = "value", place: Any = ()) -> bytes:
                self.places.add(place)
                return super().encode(value, path, place)

            def decode(self, payload: bytes, place: Any = ()) -> Any:
                self.places.add(place)
                return super().decode(payload, place)

        thread = Thread(Noting())
        thread.save(point(1, {"n": 1, "text": LONG, "log": [1]}), ledger=(entry(n=1),))

        assert thread.values(A) == {"n": 1, "text": LONG, "log": [1]}
        assert Noting.places == {()}

    def test_an_encrypting_codec_inlines_nothing(self):
        """
        With a key even small integers are rows of their own.
        """
        thread = Thread(KEYED)
        made = thread.save(point(1, {"n": 1}))

        assert record_of(made).values == {}
        assert thread.values(A) == {"n": 1}

    def test_own_versions(self):
        """
        A checkpoint that a program puts has values at versions of their own: the same for equal
        values, and with a key for the checkpoint.
        """
        put = [Thread(own_versions=True).save(point(n, {"text": LONG})) for n in (1, 2)]
        keyed = Thread(KEYED, own_versions=True)
        made = [*put, keyed.save(point(1, {"text": LONG}))]
        versions = [each.checkpoints[0].blobs[0].version for each in made]

        assert versions == [version_apart(CODEC.encode(LONG))] * 2 + [version_apart(A)]
        assert record_of(made[0]).stands == {"text": versions[0]}
        assert keyed.values(A) == {"text": LONG}

    def test_own_versions_share_no_input(self):
        """
        The large values of an input that a program puts are stored inside of it, and once more
        where they are the values of keys.
        """
        given = save(point(1, {START: {"text": LONG}}), point(2, {"text": LONG}))
        made = hand_off(own_versions=True).commit(given)

        assert [blob.channel for row in made.checkpoints for blob in row.blobs] == [START, "text"]


class TestSharedInput:
    @pytest.mark.parametrize("codec", [CODEC, KEYED])
    def test_a_large_value_is_stored_once(self, codec):
        """
        A large value of an input is one row, which the input, the writes of its task and the
        next checkpoint refer to.
        """
        thread = Thread(codec)
        text = LONG * 10
        made = thread.save(
            point(1, {START: {"text": text, "n": 1}}, source="input"),
            point(2, {"text": text, "n": 1, START: EMPTY}),
            ledger=(entry(A, text=text, n=1),),
        )
        row, given = made.checkpoints[0].blobs

        assert (row.channel, row.version, given.channel) == (f"{START}:text", 1, START)
        assert codec is KEYED or row.payload == CODEC.encode(text)
        assert made.size < len(text) + 2_000
        assert [b.channel for b in made.checkpoints[1].blobs] == ["n"] * (codec is KEYED)
        assert thread.restored(A)[0].values == {START: {"text": text, "n": 1}}
        assert thread.restored(A)[0].ledger[0].writes == (("text", text), ("n", 1))
        assert thread.values(B) == {"text": text, "n": 1}

    def test_only_the_input_has_references(self):
        """
        Other values of the input's checkpoint are stored as they are.
        """
        made = hand_off().commit(save(point(1, {START: {"text": LONG}, "items": ["x"]})))

        assert made.checkpoints[0].blobs[-1] == BlobRow("items", 1, CODEC.encode(["x"]))

    def test_a_later_save_refers_to_text_only(self):
        """
        Text of an input stays shared for the rest of the run; what a node could change does not.
        """
        hand = hand_off()
        text, items = LONG, ["y" * 5_000]
        first = hand.commit(save(point(1, {START: {"text": text, "items": items}})))
        then = hand.commit(save(point(2, {"text": text, "items": items, START: EMPTY})))

        assert [b.channel for b in first.checkpoints[0].blobs] == [
            f"{START}:text",
            f"{START}:items",
            START,
        ]
        assert [b.channel for b in then.checkpoints[0].blobs] == ["items"]
        assert record_of(then).shared == {"text": [f"{START}:text"]}

    def test_writes_beside_another_checkpoint_hold_the_value(self):
        """
        Pending writes refer to a shared row only beside the input's checkpoint, which lists it.
        """
        hand = hand_off()
        hand.commit(save(point(1, {START: {"text": LONG}})))
        made = hand.commit(save(ledger=(entry(A, text=LONG), entry(B, text=LONG))))
        beside, later = (len(row.payload) for row in made.ledger)

        assert beside < 100
        assert later > 5_000


class TestErrors:
    @pytest.mark.parametrize(
        ("path", "text"),
        [
            (PATH, "writes of a: text has the type 'builtins:object', which can't be stored"),
            ((PUSH, 3), "writes of 3: text has the type"),
            ((PUSH, 0, "f", CALL), "writes of f: text has the type"),
            ((), "writes of the input: text has the type"),
        ],
    )
    def test_the_error_of_a_write_names_the_channel(self, path, text):
        """
        A write that can't be stored is named by its task and channel, not by its place in a list.
        """
        bad = LedgerEntry(A, TASK, path, 0, 0, (("n", 1), ("text", object())))

        with pytest.raises(SerializationError) as refused:
            hand_off().commit(save(ledger=(bad,)))
        assert refused.value.what.startswith(text)

    @pytest.mark.parametrize(
        ("changed", "where"),
        [
            ({"text": [object()]}, "state['text'][0]"),
            ({"log": [1, object()]}, "state['log'][0:][1]"),
            ({START: {"text": [LONG, object()]}}, "state['__start__']"),
        ],
    )
    def test_the_error_of_a_value_names_the_channel(self, changed, where):
        """
        A value that can't be stored is named by its key and the place in it.
        """
        for options in ({}, {"own_versions": True}):
            with pytest.raises(SerializationError) as refused:
                hand_off(**options).commit(save(point(1, changed)))
            assert refused.value.what.startswith(where)

    def test_the_error_of_an_input_names_it(self):
        """
        An input that can't be stored is called the input.
        """
        claim = ClaimIntent(None, "sync", {"a": object()}, has_input=True)

        with pytest.raises(SerializationError, match=r"^input\['a'\] has the type"):
            hand_off().commit(save(claim=claim))

    def test_writes_that_are_too_deep_together(self):
        """
        Writes whose values can be stored alone, but not inside of a row, are named by their task.
        """
        deepest: list[Any] = []
        while True:
            try:
                CODEC.encode([deepest])
            except SerializationError:
                break
            deepest = [deepest]

        with pytest.raises(SerializationError, match=r"^writes of a\[0\]\[1\]\[0\]"):
            hand_off().commit(save(ledger=(entry(text=deepest),)))

    def test_an_encrypted_input_is_read_with_its_run(self):
        """
        With a key the input of a claim is bound to its thread and run.
        """
        claim = ClaimIntent(None, "sync", {"n": 1}, has_input=True)
        made = hand_off(KEYED).commit(save(claim=claim)).claim

        assert made is not None
        stored = KEYED.decode(made.input or b"", ("input", "t", RUN))
        assert without_note(stored)[0] == {"n": 1}

    def test_metadata_of_subclasses_is_plain(self):
        """
        Text and numbers of a subclass, such as the text of LangChain's messages, become plain.
        """
        word, number = type("Word", (str,), {})("w"), type("Number", (int,), {})(3)

        assert encode_metadata({"by": word, "list": [number]}) == '{"by":"w","list":[3]}'

    @pytest.mark.parametrize(
        ("value", "why"),
        [(object(), "Encoding objects of type object is unsupported"), ("\ud800", "surrogates")],
        ids=["object", "surrogate"],
    )
    def test_metadata_must_be_json(self, value, why):
        """
        Metadata that JSON doesn't hold is refused, with the fault and what may be used.
        """
        with pytest.raises(InvalidConfigError) as refused:
            encode_metadata({"by": value})

        assert refused.value.what.startswith("config['metadata'] can't be stored as JSON: ")
        assert why in refused.value.what
        assert refused.value.what[-5:] not in {" None", "JSON:"}
        assert refused.value.do == (
            "use text without lone surrogates, numbers, booleans, None, shallow lists and dicts"
        )
