"""Graphs that have changed since their threads were stored: additions load, losses are errors."""

from dataclasses import dataclass, make_dataclass
from enum import Enum
from operator import add
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import (
    START,
    Codec,
    Command,
    GraphBuildError,
    InMemorySaver,
    Migration,
    SchemaMismatchError,
    Send,
    StateGraph,
    UnknownTypeError,
    interrupt,
)
from actorgraph.codec.records import decode_record
from actorgraph.errors import ChangedTypeError, OtherGraphWarning
from actorgraph.runtime.saver.hosting import host_of
from actorgraph.values.commits import ListCheckpoints
from tests.support.graphs import AB, at, in_a_row, writer
from tests.support.known_types import restart


class Renamed(TypedDict, total=False):
    text: str
    rows: Annotated[list[str], add]


class More(AB, total=False):
    extra: int
    notes: Annotated[list[str], add]


class OnlyFoo(TypedDict, total=False):
    foo: str


async def asks(state):
    return {"foo": interrupt("sure?")}


async def reads(state):
    return {"text": state["text"].upper(), "rows": [str(len(state["rows"]))]}


async def stored(nodes, saver, **options):
    """A thread with two items in `bar`, as a graph of these nodes leaves it."""
    await in_a_row(nodes, checkpointer=saver, **options).ainvoke({"foo": "x", "bar": ["1"]}, at())


def _sends(name):
    return lambda _: Command(goto=Send(name, {"foo": "s"}))


class TestAdditions:
    async def test_new_keys_and_nodes_load(self, store):
        """
        A thread of a graph with fewer keys and nodes goes on, with what it had.
        """
        async with store.saver() as saver:
            await stored({"a": writer("a")}, saver)
            wider = in_a_row(
                {"a": writer("a"), "new": writer("new")}, schema=More, checkpointer=saver
            )

            assert await wider.ainvoke({"bar": ["2"]}, at()) == {
                "foo": "new",
                "bar": ["1", "a", "2", "a", "new"],
                "notes": [],
            }

    @pytest.mark.promise("S027")
    @pytest.mark.every_saver
    async def test_a_graph_of_other_nodes_is_warned_of(self, store):
        """
        Each row names the graph's id, and a graph without any of its nodes says so.
        """
        async with store.saver() as saver:
            await stored({"a": writer("a")}, saver)
            same = in_a_row({"a": writer("a")}, checkpointer=saver)
            other = in_a_row({"z": writer("z")}, checkpointer=saver)
            rows = await host_of(saver).reader.ask(ListCheckpoints("t", bare=True))
            assert {decode_record(r.row.record).graph for r in rows} == {same.graph_id}
            await same.ainvoke({"bar": ["2"]}, at())

            with pytest.warns(OtherGraphWarning, match="none of whose nodes it has"):
                await other.ainvoke({"bar": ["3"]}, at())

    async def test_a_removed_node_without_pending_tasks_is_ignored(self, store):
        """
        A finished thread loads without a node that it had.
        """
        async with store.saver() as saver:
            await stored({"a": writer("a"), "b": writer("b")}, saver)
            left = in_a_row({"a": writer("a")}, checkpointer=saver)

            assert (await left.aget_state(at())).values["bar"] == ["1", "a", "b"]
            assert (await left.ainvoke({"bar": []}, at()))["foo"] == "a"


class TestLosses:
    async def test_the_history_of_a_node_that_is_gone_can_be_read(self, store):
        """
        A checkpoint at which a Send was due to a node that is gone is listed without that task.
        """
        async with store.saver() as saver:
            for name, answer in (("worker", {"foo": "y"}), ("other", {"foo": "z"})):
                graph = StateGraph(AB)
                graph.add_node("plan", _sends(name), destinations=(name,))
                graph.add_node(name, lambda _, answer=answer: answer)
                made = graph.add_edge(START, "plan").compile(checkpointer=saver)
                if name == "worker":
                    await made.ainvoke({"foo": "x"}, at())
            seen = [state.next async for state in made.aget_state_history(at())]

        assert seen == [(), (), ("plan",), ("__start__",)]

    @pytest.mark.promise("T37", "B11")
    @pytest.mark.parametrize("nodes", [{"aks": asks}, {"other": asks}])
    async def test_a_waiting_node_that_is_gone_is_named(self, store, nodes):
        """
        A thread that waits for a node which the graph has no more is refused with the node's
        name and near ones, and stays as it was.
        """
        async with store.saver() as saver:
            await stored({"ask": asks}, saver)
            changed = in_a_row(nodes, checkpointer=saver)
            for call in (
                changed.aget_state(at()),
                changed.ainvoke(Command(resume="yes"), at()),
                changed.ainvoke({"bar": []}, at()),
                changed.aupdate_state(at(), {"foo": "y"}),
            ):
                with pytest.raises(SchemaMismatchError, match="node 'ask'") as refused:
                    await call
            assert "aks" in refused.value.do or "other" in refused.value.do
            again = in_a_row({"ask": asks}, checkpointer=saver)
            assert (await again.ainvoke(Command(resume="yes"), at()))["foo"] == "yes"

    async def test_a_send_to_a_node_that_is_gone_is_named(self):
        """
        A Send that waits for a node which is gone is refused.
        """
        saver = InMemorySaver()

        def graph(name):
            made = StateGraph(AB)
            made.add_node("route", lambda _: Command(goto=Send(name, {})), destinations=(name,))
            made.add_node(name, asks)
            made.add_edge(START, "route")
            return made.compile(checkpointer=saver)

        await graph("old").ainvoke({"foo": "x"}, at())
        with pytest.raises(SchemaMismatchError, match="node 'old'"):
            await graph("new").aget_state(at())

    @pytest.mark.promise("T37", "B11")
    async def test_a_channel_that_is_gone_is_named(self, store):
        """
        A value that the graph has no key for is refused, not left out.
        """
        async with store.saver() as saver:
            await stored({"a": writer("a")}, saver)
            narrow = in_a_row({"a": lambda _: {}}, schema=OnlyFoo, checkpointer=saver)

            with pytest.raises(SchemaMismatchError, match="channel 'bar'") as refused:
                await narrow.ainvoke({"foo": "y"}, at())
            assert "Migration(channels={'bar'" in refused.value.do


class TestMigrations:
    async def test_renamed_keys_keep_their_values(self, store):
        """
        Under a migration a thread goes on with its values under their new names, and later
        without the migration's old names.
        """
        moves = Migration(channels={"foo": "text", "bar": "rows"})
        async with store.saver() as saver:
            await stored({"a": writer("a")}, saver)
            new = in_a_row({"a": reads}, schema=Renamed, checkpointer=saver, migrations=[moves])
            before = await new.aget_state(at())
            first = await new.ainvoke({"rows": ["n"]}, at())
            plain = in_a_row({"a": reads}, schema=Renamed, checkpointer=saver)
            second = await plain.ainvoke({}, at())

        assert before.values == {"text": "a", "rows": ["1", "a"]}
        assert first == {"text": "A", "rows": ["1", "a", "n", "3"]}
        assert second == {"text": "A", "rows": ["1", "a", "n", "3", "4"]}

    async def test_both_branches_of_a_fork_may_migrate(self, store):
        """
        A checkpoint that is migrated twice, for two branches, gives each its own values.
        """
        moves = Migration(channels={"foo": "text", "bar": "rows"})
        async with store.saver() as saver:
            await stored({"a": writer("a")}, saver)
            new = in_a_row({"a": reads}, schema=Renamed, checkpointer=saver, migrations=[moves])
            here = (await new.aget_state(at())).config
            found = [
                await new.ainvoke(None, await new.aupdate_state(here, {"rows": [mark]}))
                for mark in ("left", "right")
            ]

        assert [one["rows"][2] for one in found] == ["left", "right"]

    async def test_a_dropped_key_is_gone(self):
        """
        None as the new name drops a key's values, on purpose.
        """
        saver = InMemorySaver()
        await stored({"a": writer("a")}, saver)
        drop = [Migration(channels={"bar": None})]
        narrow = in_a_row({"a": lambda _: {}}, schema=OnlyFoo, checkpointer=saver, migrations=drop)

        assert await narrow.ainvoke({"foo": "y"}, at()) == {"foo": "y"}
        assert (await narrow.aget_state(at())).values == {"foo": "y"}

    @pytest.mark.promise("T37")
    async def test_a_renamed_node_is_gone_on_with(self, store):
        """
        A thread that waits in front of a node goes on at the node's new name.
        """
        async with store.saver() as saver:
            nodes = {"a": writer("a"), "old": writer("old")}
            await stored(nodes, saver, interrupt_before=["old"])
            moves = [Migration(nodes={"old": "new"})]
            new = in_a_row(
                {"a": writer("a"), "new": writer("new")}, checkpointer=saver, migrations=moves
            )

            assert (await new.aget_state(at())).next == ("new",)
            assert (await new.ainvoke(None, at()))["bar"] == ["1", "a", "new"]

    async def test_a_dropped_node_does_not_run(self, store):
        """
        None as a node's new name takes it from what waits, on purpose.
        """
        async with store.saver() as saver:
            await stored({"ask": asks}, saver)
            drop = [Migration(nodes={"ask": None})]
            new = in_a_row({"b": writer("b")}, checkpointer=saver, migrations=drop)

            assert (await new.aget_state(at())).next == ()
            assert (await new.ainvoke({"bar": ["2"]}, at()))["bar"] == ["1", "2", "b"]

    async def test_a_renamed_node_that_has_asked_gets_its_answer(self):
        """
        A question keeps its id when its node is renamed, and its answer reaches the new node.
        """
        saver = InMemorySaver()
        await stored({"ask": asks}, saver)
        moves = [Migration(nodes={"ask": "confirm"})]
        new = in_a_row({"confirm": asks}, checkpointer=saver, migrations=moves)
        (asked,) = (await new.aget_state(at())).interrupts

        assert (await new.ainvoke(Command(resume={asked.id: "yes"}), at()))["foo"] == "yes"

    async def test_a_value_is_converted_and_stored(self, store):
        """
        A function of the stored value makes the new one, which the next checkpoint holds.
        """
        to_list = {"foo": lambda v: v if isinstance(v, list) else [v]}
        async with store.saver() as saver:
            await stored({"a": writer("a")}, saver)
            node = {"b": lambda state: {"bar": [str(state["foo"])]}}
            new = in_a_row(node, checkpointer=saver, migrations=[Migration(values=to_list)])
            await new.ainvoke({"bar": []}, at())
            plain = in_a_row(node, checkpointer=saver)

            assert (await plain.aget_state(at())).values["foo"] == ["a"]

    @pytest.mark.parametrize(
        "migration",
        [
            Migration(channels={"old": "nope"}),
            Migration(channels={"foo": "bar"}),
            Migration(nodes={"old": "nope"}),
            Migration(values={"nope": str}),
        ],
    )
    def test_a_migration_that_fits_no_graph_is_refused(self, migration):
        """
        A new name that the graph doesn't have, and an old one that it still has, are refused.
        """
        with pytest.raises(GraphBuildError):
            in_a_row({"a": writer("a")}, migrations=[migration])


class Old(Enum):
    RED = 1
    BLUE = 2


class Fewer(Enum):
    RED = 1


@dataclass
class Note:
    text: str


def named(kind: type, like: type) -> type:
    """A class under another one's name, as after a change of its module."""
    kind.__module__, kind.__qualname__ = like.__module__, like.__qualname__
    return kind


class TestTypes:
    def test_a_renamed_class_is_named_with_near_ones(self):
        """
        A stored type that is gone is an error with the name, and the near names of today.
        """
        notes = make_dataclass("Notes", [("text", str)])
        notes.__module__ = Note.__module__
        with pytest.raises(UnknownTypeError, match="test_schema_evolution:Note'") as refused:
            Codec([notes]).decode(Codec([Note]).encode([Note("x")]))

        assert f"did you mean '{Note.__module__}:Notes'" in refused.value.do
        assert refused.value.type_name == f"{Note.__module__}:Note"

    @pytest.mark.promise("T37")
    async def test_a_renamed_class_is_migrated(self, store):
        """
        A migration says which type takes what an older one has stored.
        """
        notes = make_dataclass("Notes", [("text", str), ("more", int, 7)])

        class OldState(TypedDict):
            note: Note

        class NewState(TypedDict):
            note: notes

        name = f"{Note.__module__}:Note"
        async with store.saver() as saver:
            graph = in_a_row({"a": lambda _: {}}, schema=OldState, checkpointer=saver)
            await graph.ainvoke({"note": Note("x")}, at())
            restart()
            plain = in_a_row({"a": lambda _: {}}, schema=NewState, checkpointer=saver)
            with pytest.raises(UnknownTypeError):
                await plain.aget_state(at())
            moved = in_a_row(
                {"a": lambda _: {}},
                schema=NewState,
                checkpointer=saver,
                migrations=[Migration(types={name: notes})],
            )

            assert (await moved.aget_state(at())).values["note"] == notes("x", 7)

    @pytest.mark.promise("T37")
    @pytest.mark.parametrize(
        ("value", "fewer", "text"),
        [
            (Old.BLUE, named(Fewer, Old), "no member 'BLUE'"),
            (Note("x"), named(make_dataclass("N", [("body", str, "")]), Note), "no field 'text'"),
        ],
    )
    def test_a_removed_field_of_a_type_is_an_error(self, value, fewer, text):
        """
        An enum's member or a field that is gone is an error, never left out or made up.
        """
        payload = Codec([type(value)]).encode(value)
        with pytest.raises(ChangedTypeError, match=text) as refused:
            Codec([fewer]).decode(payload)
        assert "Migration(types=" in refused.value.do

    def test_a_migration_function_receives_removed_fields(self):
        """
        A migration's function gets the stored data and makes today's value.
        """
        upgrades: dict[str, Any] = {
            f"{Old.__module__}:Old": lambda name: {"RED": 1, "BLUE": 2}[name],
            f"{Note.__module__}:Note": lambda fields: fields["text"],
        }
        payload = Codec([Old, Note]).encode([Old.BLUE, Note("x")])

        assert Codec().with_upgrades(upgrades).decode(payload) == [2, "x"]
