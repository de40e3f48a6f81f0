"""Rows -> checkpoints: every value from its place, and errors that name the row."""

import operator
from dataclasses import replace
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph.channels import EMPTY, Topic
from actorgraph.codec import Codec
from actorgraph.codec.records import Placement, Record, encode_record, frame
from actorgraph.codec.restore import (
    delta_values,
    open_claim,
    parent_writes,
    restore,
    stored_write,
)
from actorgraph.errors import (
    EncryptionError,
    InvalidUpdateError,
    SerializationError,
)
from actorgraph.superstep.list_rows import ListRow, StoredList
from actorgraph.values.checkpoint import Migration, OpenClaim, Restored, StoredWrite
from actorgraph.values.commands import Overwrite
from actorgraph.values.commits import (
    CheckpointRow,
    Loaded,
    Shared,
    StoredClaim,
    StoredRange,
)
from actorgraph.values.constants import CALL, HANDLER_MARK, PULL, PUSH, START
from actorgraph.values.ids import as_text, created_of
from actorgraph.values.run import path_key
from tests.codec.shapes import Note
from tests.codec.threads import (
    EARLIER,
    KEYS,
    PATH,
    PLAN,
    RUN,
    TASK,
    A,
    B,
    C,
    D,
    State,
    Thread,
    entry,
    hand_off,
    point,
    read,
    row,
    save,
    stored,
)
from tests.superstep.script import chain

CODEC = Codec()
KEYED = Codec(keys=KEYS)
LONG = "x" * 5_000
REPAIR = "check the database's integrity, or restore it from a backup"
OF_A = f"checkpoint {as_text(A)} of thread 't'"


class TestCheckpoints:
    def test_no_checkpoint(self):
        """
        A thread without a checkpoint has nothing to restore.
        """
        assert restore(CODEC, PLAN, Loaded()) is None

    def test_all_of_a_checkpoint_is_restored(self):
        """
        Coordination, values, pending writes, the claim and the thread's numbers are read from
        their columns.
        """
        record = Record(
            highest=6,
            parts=6,
            graph="g:1",
            channel_versions={"n": 4, "text": 2, "other": 1},
            versions_seen={"a": {"n": 3}},
            updated_channels=["n"],
            values={"n": 7},
            blobs=["text"],
        )
        given = stored(
            record,
            namespace="n:1",
            row=CheckpointRow(
                *(B, A, 3, "loop", RUN, '["b"]', encode_record(record), '{"by":"me"}')
            ),
            blobs={"text": CODEC.encode(LONG)},
            ledger=(row(CODEC.encode([["n", 8]])),),
        )
        claim = StoredClaim(EARLIER, C, "async", CODEC.encode({"n": 1}))
        found, placement = read(given, head=C, open_run=claim, version_floor=5)

        assert found == Restored(
            id=B,
            parent=A,
            sequence=5,
            namespace="n:1",
            step=3,
            source="loop",
            created=created_of(B),
            run=RUN,
            graph="g:1",
            values={"n": 7, "text": LONG},
            versions={"n": 4, "text": 2, "other": 1},
            seen={"a": {"n": 3}},
            updated=("n",),
            next=("b",),
            metadata={"by": "me"},
            ledger=(StoredWrite(TASK, PATH, 0, 2, (("n", 8),)),),
            version_floor=6,
            head=C,
            claim=OpenClaim(EARLIER, "async", {"n": 1}, has_input=True),
        )
        assert placement == Placement(values={"n": 7}, blobs={"text"})

    def test_channels_without_a_stored_value_are_empty(self):
        """
        A checkpoint without a list of changed channels has none; the head is the checkpoint
        itself; the highest known version counts.
        """
        found, _ = read(stored(Record(channel_versions={"n": 3})), version_floor=9)

        assert (found.updated, found.head, found.version_floor, found.claim) == (None, A, 9, None)

    @pytest.mark.parametrize("codec", [CODEC, KEYED, Codec(form="json")])
    def test_saved_values_are_restored(self, codec):
        """
        Values come back equal from the record, from rows and from lists, and their placement is
        that of the run which stored them.
        """
        thread = Thread(codec)
        given = {"n": 1, "text": LONG, "items": [1], "log": [{"a": 1}, "b"]}
        thread.save(point(1, given, next=("a",), metadata={"m": 1}), ledger=(entry(A, n=2),))
        found, placement = thread.restored(A)
        thread.hand = hand_off(codec, placed=placement)

        assert found.values == given
        assert found.ledger == (StoredWrite(TASK, PATH, 0, 0, (("n", 2),)),)
        assert placement.growths == placement.lists
        made = thread.save(point(2, {"log": [*placement.growths["log"].items, "c"]}))
        assert (made.checkpoints[0].ranges[0].lineage, made.checkpoints[0].blobs) == (1, ())

    def test_migrations_are_applied(self):
        """
        A checkpoint is restored as the graph's migrations make it, and what they changed is noted.
        """
        plan = replace(PLAN, migrations=(Migration({"was": "text"}),))
        given = stored(Record(channel_versions={"was": 1}, values={"was": 5}))
        found = restore(CODEC, plan, Loaded(checkpoint=given))

        assert found is not None
        assert found[0].values == {"text": 5}
        assert found[1] == Placement(moved={"text": 5})

    def test_edges_of_old_formats_are_renamed(self):
        """
        The edges of a checkpoint of format 2, or of such a shape, get today's names.
        """
        for record in (Record(v=2), Record(shape=2)):
            record.channel_versions = {"start:a": 1}
            record.values = {"start:a": None}
            assert read(stored(record))[0].values == {"branch:to:a": None}
        unchanged = Record(channel_versions={"start:a": 1}, values={"start:a": None})
        assert read(stored(unchanged))[0].values == {"start:a": None}

    def test_values_are_loaded_by_their_rules(self):
        """
        A channel's rule completes its stored value; values of unknown channels stay as they are;
        empty ones are absent.
        """

        class Unique(TypedDict):
            seen: Annotated[list[Any], Topic(str, unique=True)]
            empty: Annotated[list[Any], Vanishing(list)]

        plan = chain(Unique, "a")
        names = ["empty", "other", "seen"]
        values = {"seen": [["x"], ["x"]], "other": [1], "empty": [1]}
        given = stored(
            Record(channel_versions=dict.fromkeys(names, 1), blobs=names),
            blobs={name: CODEC.encode(value) for name, value in values.items()},
        )
        found = restore(CODEC, plan, Loaded(checkpoint=given))

        assert found is not None
        assert found[0].values == {"seen": (["x"], frozenset({"x"})), "other": [1]}


class Vanishing(Topic[Any]):
    """A rule whose stored values are nothing to it."""

    def load(self, stored: Any) -> Any:
        """Load nothing."""
        return EMPTY


EMPTY_LIST: dict[str, list[tuple[int, int]]] = {"log": [(1, 0)]}


def decoded_again(payload: bytes) -> Any:
    """Fail: the items were decoded before."""
    raise AssertionError


class TestLists:
    def test_a_chain_of_lineages(self):
        """
        A list is the beginning of one lineage and what follows on the next; other items of the
        first are another branch's.
        """
        record = Record(channel_versions={"log": 4}, lists={"log": [(1, 2), (4, 3)]})
        first = [
            StoredRange(0, 1, frame(CODEC.encode(["a"]))),
            StoredRange(1, 2, frame(CODEC.encode(["b", "other"]))),
        ]
        second = [StoredRange(2, 2, frame(CODEC.encode(["c"])) + frame(CODEC.encode(["later"])))]
        ranges = {("log", 1): first, ("log", 4): second}
        for codec in (CODEC, KEYED_PLAIN):
            found, placement = read(
                stored(record, ranges=ranges, ends={("log", 1): 3, ("log", 4): 4}), codec
            )

            assert found.values == {"log": ["a", "b", "c"]}
            rows = [ListRow(2, 2, len(second[0].payload))]
            assert placement.lists["log"] == StoredList([(1, 2), (4, 3)], ["a", "b", "c"], rows)
            assert placement.outgrown == {"log"}

    def test_an_empty_list(self):
        """
        A list without items has no rows, and has not grown.
        """
        found, placement = read(stored(Record(channel_versions={"log": 1}, lists=EMPTY_LIST)))

        assert found.values == {"log": []}
        assert placement.outgrown == set()

    def test_a_list_is_decoded_once(self):
        """
        Readings of a list with a codec share its decoding, also behind another lineage.
        """
        codec = Codec()
        record = Record(channel_versions={"log": 4}, lists={"log": [(1, 1), (4, 2)]})
        ranges = {
            ("log", lineage): [StoredRange(at, 1, frame(CODEC.encode([text])))]
            for lineage, at, text in ((1, 0, "a longer text"), (4, 1, "another text"))
        }
        one, two = (read(stored(record, ranges=ranges), codec)[0].values["log"] for _ in range(2))

        assert one == two == ["a longer text", "another text"]
        assert [*map(id, one)] == [*map(id, two)]
        for lineage, text in ((1, "a longer text"), (4, "another text")):
            cache, key = codec.lists, ("t", "", "log", lineage)
            assert cache is not None
            rows = ranges["log", lineage]
            assert cache.read(key, rows, 9, decoded_again) == [text]

    @pytest.mark.parametrize(("end", "outgrown"), [(2, set()), (3, {"log"}), (None, set())])
    def test_a_list_that_has_grown_since_is_outgrown(self, end, outgrown):
        """
        A run that goes on from an older checkpoint knows that the list has more items by now.
        """
        record = Record(channel_versions={"log": 1}, lists={"log": [(1, 2)]})
        rows = [StoredRange(0, 2, frame(CODEC.encode([1, 2])))]
        ends = {} if end is None else {("log", 1): end}
        found = read(stored(record, ranges={("log", 1): rows}, ends=ends))

        assert found[1].outgrown == outgrown

    @pytest.mark.parametrize("codec", [CODEC, Codec().with_upgrades({"old": Note})])
    @pytest.mark.parametrize(
        "rows",
        [
            [],
            [StoredRange(0, 1, frame(CODEC.encode([1])))],
            [StoredRange(1, 2, frame(CODEC.encode([1, 2])))],
            [
                StoredRange(0, 1, frame(CODEC.encode([1]))),
                StoredRange(2, 1, frame(CODEC.encode([2]))),
            ],
        ],
    )
    def test_missing_rows_are_named(self, rows, codec):
        """
        A list that lacks rows or has a gap is refused, with the checkpoint and the channel.
        """
        record = Record(channel_versions={"log": 1}, lists={"log": [(1, 2)]})

        with pytest.raises(SerializationError) as refused:
            read(stored(record, ranges={("log", 1): rows} if rows else {}), codec)
        assert refused.value.what == f"{OF_A} lacks rows of channel 'log'"
        assert refused.value.do == REPAIR

    def test_each_reader_has_items_of_its_own(self):
        """
        Two readings of a list share no item, and changing the value leaves the known items.
        """
        thread = Thread()
        thread.save(point(1, {"log": [{"a": []}]}))
        (one, placement), (two, _) = thread.restored(A), thread.restored(A)
        one.values["log"][0]["a"].append(1)
        one.values["log"].append(2)

        assert two.values == {"log": [{"a": []}]}
        assert len(placement.lists["log"].items) == 1


KEYED_PLAIN = Codec(keys=KEYS, reads_plain=True)


class TestClaims:
    @pytest.mark.parametrize("input_", [None, CODEC.encode({"n": 1})])
    def test_the_claim_of_a_dead_run(self, input_):
        """
        A claim on the thread's head is that of a run that died; its input is decoded if it has one.
        """
        claim = StoredClaim(RUN, A, "exit", input_)
        given = {"n": 1} if input_ else None
        found = open_claim(CODEC, Loaded(head=A, open_run=claim), "t")

        assert found == OpenClaim(RUN, "exit", given, has_input=input_ is not None)

    def test_a_claim_on_another_head_is_over(self):
        """
        A claim on a checkpoint that is no longer the head, and none at all, leave no claim.
        """
        claim = StoredClaim(RUN, A, "sync", None)

        assert open_claim(CODEC, Loaded(head=B, open_run=claim), "t") is None
        assert open_claim(CODEC, Loaded(head=B), "t") is None

    def test_an_encrypted_input(self):
        """
        With a key a claim's input is read for its own thread and run.
        """
        place = ("input", "t", RUN)
        claim = StoredClaim(RUN, None, "sync", KEYED.encode([1], "input", place))
        found = open_claim(KEYED, Loaded(open_run=claim), "t")

        assert found is not None
        assert found.input == [1]
        with pytest.raises(EncryptionError):
            open_claim(KEYED, Loaded(open_run=claim), "other")


class TestPendingWrites:
    @pytest.mark.parametrize(
        "path",
        [
            (),
            (PULL, "a"),
            (PULL, "a, b"),
            (PULL, "12"),
            (PUSH, 3),
            (PUSH, 3, "x"),
            (PULL, "a", HANDLER_MARK, False),
            (PULL, "a, b", HANDLER_MARK, False),
            (PUSH, 0, HANDLER_MARK, False),
            (PUSH, 12, HANDLER_MARK, False, "step k", CALL),
        ],
    )
    def test_a_path_comes_back(self, path):
        """
        A task's path is read from the text under which its rows are sorted.
        """
        made = stored_write(CODEC, stored(), row(CODEC.encode([]), path=path_key(path)))

        assert (made.path, [*map(type, made.path)]) == (path, [*map(type, path)])

    def test_the_path_of_a_call(self):
        """
        The path of a task that another has called is text behind its kind.
        """
        text = path_key((PUSH, PULL, "a", "step k", CALL))
        made = stored_write(CODEC, stored(), row(CODEC.encode([]), path=text))

        assert made.path == (PUSH, f"{PULL}, a, step k, {CALL}")

    def test_the_writes_of_the_parent(self):
        """
        A parent's pending writes are decoded where they were read with it; references in them
        stay, because their rows are the parent's.
        """
        writes = CODEC.encode([["n", 1], ["text", Shared("x")]])
        given = stored(blobs={"x": CODEC.encode(LONG)}, parent_ledger=(row(writes),))

        assert parent_writes(CODEC, None) is None
        assert parent_writes(CODEC, stored()) is None
        none, one = parent_writes(CODEC, stored(parent_ledger=())), parent_writes(CODEC, given)
        assert none is not None
        assert one is not None
        assert tuple(none) == ()
        assert tuple(one) == (StoredWrite(TASK, PATH, 0, 2, (("n", 1), ("text", Shared("x")))),)

    def test_references_are_resolved(self):
        """
        Pending writes that refer to a shared row of their checkpoint hold its value; each has
        one of its own.
        """
        record = Record(channel_versions={START: 1}, blobs=["s"], shared={START: ["s"]})
        given = stored(record, blobs={"s": CODEC.encode(["big"])})
        writes = [["a", Shared("s")], ["n", 1], ["b", Shared("s")], ["c", 2]]
        made = stored_write(CODEC, given, row(CODEC.encode(writes)))

        assert made.writes == (("a", ["big"]), ("n", 1), ("b", ["big"]), ("c", 2))
        assert made.writes[0][1] is not made.writes[2][1]

    def test_a_task_may_have_no_writes(self):
        """
        A task that wrote nothing has a row without writes.
        """
        assert stored_write(CODEC, stored(), row(CODEC.encode([]))).writes == ()


class TestSharedValues:
    def test_a_channel_may_be_a_shared_row(self):
        """
        A channel whose value is a shared row is read from it, and where it is stored is kept.
        """
        record = Record(
            channel_versions={START: 1, "text": 2, "n": 1},
            blobs=["n", "s", START],
            shared={"text": ["s"], START: ["s"]},
            stands={"s": 1},
        )
        blobs = {
            "s": CODEC.encode(LONG),
            "n": CODEC.encode(5),
            START: CODEC.encode({"text": Shared("s"), "n": 5}),
        }
        found, placement = read(stored(record, blobs=blobs))

        assert found.values == {START: {"text": LONG, "n": 5}, "text": LONG, "n": 5}
        assert placement == Placement(
            blobs={"n", START},
            stands={"s": 1},
            shared={"text": ["s"], START: ["s"]},
            shared_versions={"s": 1},
        )

    def test_an_input_that_is_gone_is_not_read(self):
        """
        A record may list the rows of an input whose own row it doesn't read.
        """
        record = Record(channel_versions={"n": 1}, blobs=["s"], shared={START: ["s"]})

        assert read(stored(record, blobs={}))[0].values == {}


class TestDeltas:
    def history(self, codec: Codec | None = None) -> Thread:
        """Facts: stored whole at A; their writes beside A, B and C; other branches fold none."""
        thread = Thread(codec)
        deltas = [{"facts": (number, number)} for number in range(4)]
        thread.save(point(1, {"facts": ["a"]}), ledger=(entry(A, facts="b"),))
        thread.save(
            point(2, {"n": 1}, versions={"facts": 2, "n": 2}, deltas=deltas[1], folds=True),
            ledger=(entry(B, facts="c", n=5),),
        )
        thread.save(
            point(3, {}, versions={"facts": 2, "n": 2}, deltas=deltas[2]),
            ledger=(entry(C, facts="d"), entry(C, facts="e")),
        )
        thread.save(point(4, {}, versions={"facts": 3, "n": 2}, deltas=deltas[3], folds=True))
        return thread

    @pytest.mark.parametrize("codec", [CODEC, KEYED])
    def test_writes_are_folded_into_the_last_whole_value(self, codec):
        """
        A value is that of the last checkpoint which holds it with the writes since then, without
        those of supersteps that a checkpoint doesn't fold.
        """
        thread = self.history(codec)

        assert thread.values(B, ancestors=1) == {"facts": ["a", "b"], "n": 1}
        assert thread.values(C, ancestors=2) == {"facts": ["a", "b"], "n": 1}
        found, placement = thread.restored(D, ancestors=3)
        assert found.values["facts"] == ["a", "b", "d", "e"]
        assert found.deltas == {"facts": (3, 3)}
        assert "facts" not in placement.lists
        assert placement.growths["facts"].items == ["a"]

    def test_the_next_whole_value_extends_the_stored_one(self):
        """
        A list that is stored whole again adds to the rows of the last one.
        """
        thread = self.history()
        found, placement = thread.restored(B, ancestors=1)
        held = placement.growths["facts"].items
        made = hand_off(placed=placement).commit(save(point(5, {"facts": [*held, "b", "z"]})))

        assert found.values["facts"] == ["a", "b"]
        assert [(r.lineage, r.before, r.count) for r in made.checkpoints[0].ranges] == [(1, 1, 2)]

    def test_a_missing_ancestor(self):
        """
        Without the ancestor that holds it a value can't be made, and the error says so.
        """
        with pytest.raises(SerializationError) as refused:
            self.history().restored(C, ancestors=1)

        assert refused.value.what == (
            f"checkpoint {as_text(C)} of thread 't' lacks rows of channel 'facts'"
        )

    def test_keys_that_the_graph_does_not_have_are_left_out(self):
        """
        Values of unknown keys are not folded.
        """
        record = Record(channel_versions={"gone": 1}, deltas={"gone": (1, 1)}, folds=True)

        assert read(stored(record))[0].values == {}

    def test_a_first_value_is_the_rule_s_own(self):
        """
        Where the ancestor that should hold the value has none, folding begins with the first one.
        """
        thread = Thread()
        thread.save(point(1, {"n": 1}), ledger=(entry(A, facts="b"),))
        thread.save(point(2, {}, versions={"facts": 1}, deltas={"facts": (1, 1)}, folds=True))

        assert thread.values(B, ancestors=1)["facts"] == ["b"]

    def test_each_ancestor_needs_its_ledger(self):
        """
        Ancestors and their pending writes come in pairs.
        """
        given = self.history().stored(B, ancestors=1)

        with pytest.raises(ValueError, match="shorter"):
            delta_values(CODEC, PLAN, given, Placement(), [])

    def test_writes_that_can_not_be_folded(self):
        """
        Writes that the rule refuses are an error that names the key.
        """
        thread = Thread()
        replaced = [entry(A, index=i, facts=Overwrite([i])) for i in range(2)]
        thread.save(point(1, {"facts": ["a"]}), ledger=tuple(replaced))
        thread.save(point(2, {}, versions={"facts": 1}, deltas={"facts": (1, 1)}, folds=True))

        with pytest.raises(InvalidUpdateError, match="'facts'"):
            thread.restored(B, ancestors=1)

    def test_a_rule_that_can_not_fold(self):
        """
        A key that is no longer a DeltaChannel, nor a reducer, is refused with the way out.
        """
        plain = chain(Plain, "a", "b", "c")
        given = self.history().stored(B, ancestors=1)

        with pytest.raises(SerializationError) as refused:
            restore(CODEC, plain, Loaded(checkpoint=given))
        assert refused.value.what == (
            f"checkpoint {as_text(B)} of thread 't': channel 'facts' was stored by a DeltaChannel, "
            "whose writes LastValue(list) can't fold"
        )
        assert refused.value.do == (
            "give the key a DeltaChannel or a reducer until its threads have ended"
        )

    def test_two_keys_with_whole_values_of_different_age(self):
        """
        Each key folds the writes since its own last whole value.
        """
        plan = chain(Two, "a", "b", "c")
        thread = Thread(plan=plan)
        both, one = {"xs": (1, 1), "ys": (1, 1)}, {"xs": (2, 2)}
        versions = {"xs": 1, "ys": 1, "n": 1}
        thread.save(point(1, {"xs": [1], "ys": [1]}), ledger=(entry(A, xs=2, ys=[2]),))
        thread.save(
            point(2, {"ys": [7], "n": 3}, versions=versions | {"ys": 2, "n": 2}, deltas=one),
            ledger=(entry(B, xs=4, ys=[8]),),
        )
        thread.save(point(3, {}, versions=versions, deltas=both, folds=True))
        found, placement = thread.restored(C, ancestors=2)

        assert (found.values["xs"], found.values["ys"]) == ([1, 4], [7, 8])
        assert placement.lists == {}


class Plain(TypedDict):
    facts: list[Any]
    n: int


class Two(TypedDict):
    xs: Annotated[list[Any], State.__annotations__["facts"].__metadata__[0]]
    ys: Annotated[list[Any], operator.add]
    n: int
