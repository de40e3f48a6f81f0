"""Random histories of a thread that writes the same to a DeltaChannel and to a reducer."""

from collections.abc import Sequence
from operator import add, or_
from typing import Annotated, Any, NamedTuple, TypedDict

from hypothesis import strategies as st

from actorgraph import END, START, Command, Overwrite, Send, StateGraph, interrupt
from actorgraph.channels import DeltaChannel
from actorgraph.errors import ActorGraphError
from tests.support.graphs import at, history


def joined(value: Sequence[str], writes: Sequence[Sequence[str]]) -> list[str]:
    """A reducer of lists for a DeltaChannel."""
    return [*value, *(item for write in writes for item in write)]


def merged(value: dict[str, int], writes: Sequence[dict[str, int]]) -> dict[str, int]:
    """A reducer of dicts for a DeltaChannel."""
    return {**value, **{key: count for write in writes for key, count in write.items()}}


class Both(TypedDict, total=False):
    """Every node writes the same to both lists, and the same to both tables."""

    delta: Annotated[list[str], DeltaChannel(joined, snapshot_frequency=3, supersteps_max=7)]
    plain: Annotated[list[str], add]
    delta_table: Annotated[dict[str, int], DeltaChannel(merged, snapshot_frequency=2)]
    plain_table: Annotated[dict[str, int], or_]
    other: str


PAIRS = [("delta", "plain"), ("delta_table", "plain_table")]


def same(item: str, *, overwrite: bool = False) -> dict[str, Any]:
    """An update of all keys."""
    value: dict[str, Any] = {}
    for pair, made in zip(PAIRS, ([item], {item[0]: int(item[1:])}), strict=True):
        for key in pair:
            value[key] = Overwrite(made) if overwrite else made
    return value


class Op(NamedTuple):
    """One call of the graph's.

    Attributes:
        kind: run, idle (a run whose input writes other keys), go_on, answer, command, update or
            overwrite (an update that replaces).
        at: the checkpoint to begin at, counted from the newest; None for the thread's head.
        moods: what each node does in it: write, overwrite, nothing, fail or ask.
    """

    kind: str
    at: int | None
    mode: str
    moods: dict[str, str]


MOODS = ["write", "write", "nothing", "nothing", "overwrite", "fail", "ask"]
OPS = st.builds(
    Op,
    kind=st.sampled_from(["run", "idle", "go_on", "answer", "command", "update", "overwrite"]),
    at=st.one_of(st.none(), st.none(), st.integers(0, 12)),
    mode=st.sampled_from(["sync", "sync", "async", "exit"]),
    moods=st.fixed_dictionaries({name: st.sampled_from(MOODS) for name in "abcd"}),
)


class Thread:
    """One thread, and the graph that the ops run on."""

    def __init__(self, saver: Any) -> None:
        self.moods: dict[str, str] = {}
        self.calls = 0
        builder = StateGraph(Both)
        for name in "abcd":
            builder.add_node(name, self._node(name))
        for start, end in [(START, "a"), (START, "b"), (["a", "b"], "c"), ("d", END)]:
            builder.add_edge(start, end)
        builder.add_conditional_edges("c", lambda _: [Send("d", {}), Send("d", {})], ["d"])
        self.graph = builder.compile(checkpointer=saver)

    def _node(self, name: str) -> Any:
        async def node(_: Any) -> dict[str, Any]:
            mood = self.moods[name]
            if mood == "ask":
                interrupt(name)
            if mood == "fail":
                raise OSError(name)
            self.calls += 1
            if mood == "nothing":
                return {}
            return same(f"{name}{self.calls}", overwrite=mood == "overwrite" and name != "d")

        return node

    async def play(self, op: Op) -> None:
        """Carry out one op; what it may fail with is part of the history."""
        self.moods = op.moods
        config = await self._config(op)
        try:
            if op.kind in {"update", "overwrite"}:
                update = same(f"u{self.calls}", overwrite=op.kind == "overwrite")
                await self.graph.aupdate_state(config, update, as_node="a")
            else:
                await self.graph.ainvoke(self._given(op), config, durability=op.mode)
        except (ActorGraphError, OSError):
            pass

    def _given(self, op: Op) -> Any:
        self.calls += 1
        match op.kind:
            case "go_on":
                return None
            case "answer":
                return Command(resume="yes")
            case "command":
                return Command(update=same(f"k{self.calls}"))
            case "idle":
                return {"other": "x"}
            case _:
                return same(f"i{self.calls}")

    async def _config(self, op: Op) -> dict[str, Any]:
        points = await history(self.graph, at())
        if op.at is None or not points:
            return at()
        return points[op.at % len(points)].config

    async def differences(self) -> list[Any]:
        """The checkpoints at which the keys differ, and the live view if it does."""
        points = await history(self.graph, at())
        places = [at(), *(point.config for point in points)]
        points.extend([await self.graph.aget_state(place) for place in places])
        views = [(p.values.get(d), p.values.get(q)) for p in points for d, q in PAIRS]
        return [view for view in views if (view[0] or None) != (view[1] or None)]
