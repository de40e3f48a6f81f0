"""Graphs in versions: each node has a role, which stays; names, keys and edges change.

A node adds its role to `log` and to `Run.ended` when it ends, so that a test can say of any version
what was lost and what was done twice. Roles that `Run.failing` names fail; "ask" asks a person.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from functools import partial
from typing import Annotated, Any, TypedDict

import attrs
import msgspec

from actorgraph import END, START, Command, Send, StateGraph, entrypoint, interrupt, task
from actorgraph.types import Migration


class Broken(Exception):
    """The error of a node that fails."""


def joined_lists(roles: list[str], more: list[str]) -> list[str]:
    """Add the roles that a list doesn't have: a subgraph returns those that it began with too."""
    return [*roles, *(role for role in more if role not in roles)]


@dataclass
class Run:
    """The life of one thread over several versions.

    Attributes:
        ended: roles in the order in which their nodes ended.
        failing: roles that fail.
    """

    ended: list[str] = field(default_factory=list)
    failing: set[str] = field(default_factory=set)

    def mark(self, role: str) -> str:
        """Note that a role's node ends now.

        Raises:
            Broken: the role fails.
        """
        if role in self.failing:
            raise Broken(role)
        self.ended.append(role)
        return role


@dataclass
class Note:
    """A value of a type of the program."""

    text: str


@dataclass
class Memo:
    """The same type under another name."""

    text: str


class StructNote(msgspec.Struct):
    """As Note, of msgspec."""

    text: str


class StructMemo(msgspec.Struct):
    """As Memo, of msgspec."""

    text: str


@attrs.define
class AttrsNote:
    """As Note, of attrs."""

    text: str


@attrs.define
class AttrsMemo:
    """As Memo, of attrs."""

    text: str


@dataclass(frozen=True)
class Version:
    """One version of a program.

    Attributes:
        names: role -> name of its node or task, where it differs.
        keys: key of the first version -> key.
        note: the type of notes.
        price: the value of the first node.
        form: kind of the state's class: "typeddict", "dataclass", "attrs", "msgspec".
        starts: order of the starts of a join: "given", "reversed", "set".
        more_start: whether a join has one more start.
        without: roles that are gone, with the edges around them closed.
        added: whether a node is added at the end.
        extra_key: whether the state has one more key.
        conditional: whether plain edges are conditional ones.
        reordered: whether nodes and edges are added in another order.
        options: arguments of `add_node` for every node.
        title: of the graph.
        late: whether tasks are defined while the program runs.
        migrations: of the graph.
        below: migrations of its subgraph.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    note: type = Note
    price: int = 7
    form: str = "typeddict"
    starts: str = "given"
    more_start: bool = False
    without: frozenset[str] = frozenset()
    added: bool = False
    extra_key: bool = False
    conditional: bool = False
    reordered: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    title: str = "program"
    late: bool = False
    migrations: tuple[Migration, ...] = ()
    below: tuple[Migration, ...] = ()

    def name(self, role: str) -> str:
        """The name of a role's node or task."""
        return self.names.get(role, role)

    def key(self, key: str) -> str:
        """The name of a state key."""
        return self.keys.get(key, key)

    def schema(self) -> Any:
        """The state of every program."""
        keys: dict[str, Any] = {
            "log": Annotated[list, joined_lists],
            self.key("price"): int,
            self.key("note"): self.note,
        }
        if self.extra_key:
            keys["extra"] = Annotated[list, joined_lists]
        if self.form == "typeddict":
            return TypedDict("State", keys, total=False)
        known = (self.form, *keys.items())  # a graph and its subgraph have one class
        return _MADE.setdefault(str(known), MAKERS[self.form](keys))


def _dataclass(keys: dict[str, Any]) -> Any:
    return make_dataclass(
        "State", [(key, hint, field(default_factory=_DEFAULTS[key])) for key, hint in keys.items()]
    )


def _attrs(keys: dict[str, Any]) -> Any:
    made = {k: attrs.field(factory=_DEFAULTS[k], type=hint) for k, hint in keys.items()}
    return attrs.make_class("State", made)


def _struct(keys: dict[str, Any]) -> Any:
    made = [(k, hint, msgspec.field(default_factory=_DEFAULTS[k])) for k, hint in keys.items()]
    return msgspec.defstruct("State", made)


MAKERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "dataclass": _dataclass,
    "attrs": _attrs,
    "msgspec": _struct,
}
_MADE: dict[str, Any] = {}
_DEFAULTS: dict[str, Callable[[], Any]] = defaultdict(
    lambda: lambda: None, {"log": list, "extra": list}
)


def _read(state: Any) -> Any:
    """The keys of a state, whatever its class."""
    if isinstance(state, dict):
        return state
    names = getattr(state, "__struct_fields__", None) or vars(state)
    return {name: getattr(state, name) for name in names}


Program = Callable[[Version, Run, Any], Any]
"""Compiles a version of a program, for the life of a thread, over a saver."""


class Builder:
    """Adds nodes and edges of a version to a graph."""

    def __init__(self, version: Version, run: Run) -> None:
        self.version, self.run = version, run
        self.graph = StateGraph(version.schema())
        self.nodes: list[tuple[str, Any]] = []
        self.edges: list[tuple[Any, str]] = []

    def node(self, role: str, function: Callable[[dict], Any] | None = None) -> None:
        """Add a node that ends with its role in the log."""
        if role in self.version.without:
            return

        def node(state: Any) -> Any:
            made = function(_read(state)) if function else {}
            mark = self.run.mark(role)
            if isinstance(made, Command):
                return Command(goto=made.goto, update={**(made.update or {}), "log": [mark]})
            return {**made, "log": [mark]}

        self.nodes.append((self.version.name(role), node))

    def edge(self, start: str | Sequence[str], end: str) -> None:
        """Add an edge between roles; a list of starts is a join."""
        gone = self.version.without
        if end in gone:
            return
        starts = [one for one in ([start] if isinstance(start, str) else start) if one not in gone]
        named = [one if one == START else self.version.name(one) for one in starts]
        if named:
            self.edges.append((named if isinstance(start, list) else named[0], self._end(end)))

    def _end(self, end: str) -> str:
        return end if end == END else self.version.name(end)

    def compiled(self, saver: Any, **options: Any) -> Any:
        """Compile the graph."""
        order = -1 if self.version.reordered else 1
        for name, node in self.nodes[::order]:
            self.graph.add_node(name, node, **self.version.options)
        for start, end in self.edges[::order]:
            self._edge(start, end)
        options.setdefault("migrations", list(self.version.migrations))
        return self.graph.compile(checkpointer=saver, name=self.version.title, **options)

    def _edge(self, start: Any, end: str) -> None:
        if isinstance(start, list):
            ordered = {"given": start, "reversed": start[::-1], "set": [*{*start}]}
            self.graph.add_edge(ordered[self.version.starts], end)
        elif self.version.conditional and start != START:

            def route(_: Any) -> str:
                return end

            route.__name__ = f"to_{end}"
            self.graph.add_conditional_edges(start, route, [end])
        else:
            self.graph.add_edge(start, end)


def reader(version: Version) -> Callable[[dict], dict]:
    """A node that looks at the values of `writer`: none is lost, or converted twice."""

    def read(state: dict) -> dict:
        assert state[version.key("note")] == version.note("n")
        assert state[version.key("price")] == version.price
        return {}

    return read


def writer(version: Version) -> Callable[[dict], dict]:
    """A node that writes the values which a later one reads."""
    return lambda _: {version.key("price"): version.price, version.key("note"): version.note("n")}


def ask(_: dict) -> dict:
    """Ask a person."""
    assert interrupt("ok?") == "yes"
    return {}


def joined(version: Version, run: Run, saver: Any) -> Any:
    """Two branches, one of which asks, a join, and a node behind it."""
    made = Builder(version, run)
    made.node("first", writer(version))
    made.node("left", reader(version))
    made.node("ask", ask)
    made.node("pack", reader(version))
    made.node("last")
    made.edge(START, "first")
    made.edge("first", "left")
    made.edge("first", "ask")
    starts = ["left", "ask"]
    if version.more_start:
        made.node("third")
        made.edge(START, "third")
        starts = [*starts, "third"]
    made.edge(starts, "pack")
    if "pack" in version.without:
        made.edge(starts, "last")
    made.edge("pack", "last")
    if version.added:
        made.node("added")
        made.edge("last", "added")
    return made.compiled(saver)


def sending(version: Version, run: Run, saver: Any) -> Any:
    """Sends to a worker, one of whose tasks asks; then a node that gathers."""
    made = Builder(version, run)
    made.node("first", writer(version))
    worker, gather = version.name("work"), version.name("gather")

    def work(state: dict) -> dict:
        if state["n"] == 2:
            ask(state)
        return {"log": [run.mark(f"work{state['n']}")]}

    made.graph.add_node(worker, work, input_schema=dict, **version.options)
    made.node("gather", reader(version))
    made.node("last")
    made.edge(START, "first")
    first = version.name("first")
    made.graph.add_conditional_edges(
        first, lambda _: [Send(worker, {"n": n}) for n in (1, 2, 3)], [worker]
    )
    made.graph.add_edge(worker, gather)
    made.edge("gather", "last")
    if version.added:
        made.node("added")
        made.edge("last", "added")
    return made.compiled(saver)


def nested(version: Version, run: Run, saver: Any) -> Any:
    """A subgraph with a question in it, beside a node that ends at once."""
    inner = Builder(version, run)
    inner.node("open", reader(version))
    inner.node("ask", ask)
    inner.node("close")
    inner.edge(START, "open")
    inner.edge("open", "ask")
    inner.edge("ask", "close")
    below = inner.compiled(None, migrations=list(version.below))
    made = Builder(version, run)
    made.node("first", writer(version))
    made.node("watch", reader(version))
    made.node("last", reader(version))
    made.graph.add_node(version.name("sub"), below, **version.options)
    made.edge(START, "first")
    made.edge("first", "sub")
    made.edge("first", "watch")
    made.edge(["sub", "watch"], "last")
    if version.added:
        made.node("added")
        made.edge("last", "added")
    return made.compiled(saver)


def routed(version: Version, run: Run, saver: Any) -> Any:
    """Nodes that route by a Command, with a question between them."""
    made = Builder(version, run)
    name = version.name

    def start(_: dict) -> Command:
        update = writer(version)({})
        target = "ask" if "middle" in version.without else "middle"
        return Command(goto=[name(target), name("side")], update=update)

    made.node("first", start)
    made.node("side", reader(version))
    made.node("middle", lambda _: Command(goto=name("ask")))
    made.node("ask", lambda state: (ask(state), Command(goto=name("last")))[1])
    made.node("last", reader(version))
    made.edge(START, "first")
    if version.added:
        made.node("added")
        made.edge("last", "added")
    return made.compiled(saver)


def late_tasks(step: Callable[[str, Any], Any]) -> dict[str, Any]:
    """Define the tasks when they are needed: no list has them before."""

    @task
    def first(value: Any) -> Any:
        return step("first", value)

    @task
    def inner(value: Any) -> Any:
        return step("inner", value)

    def second(value: Any) -> Any:
        return step("second", value)

    return {
        "first": first,
        "inner": inner,
        "second": task(second),
        "last": task(name="last")(lambda value: step("last", value)),
    }


def calls(version: Version, run: Run) -> Callable[[], list[str]]:
    """Calls of tasks before and after a question; the second one calls another in it."""

    def step(role: str, _: Any) -> list[str]:
        has_inner = role == "second" and "inner" not in version.without
        below = task_of("inner")(None).result() if has_inner else []
        return [*below, run.mark(role)]

    def late(role: str) -> Any:
        return late_tasks(step)[role]

    known = [] if version.late else [r for r in ROLES["functional"] if r not in version.without]
    tasks = {role: task(partial(step, role), name=version.name(role)) for role in known}
    # The check looks at what the code of the version mentions.
    task_of: Callable[[str], Any] = late if version.late else tasks.__getitem__

    def body() -> list[str]:
        log = list[str]()
        for role in ("first", "second", "last"):
            if role == "last":
                assert interrupt("ok?") == "yes"
            if role not in version.without:
                log += task_of(role)(None).result()
        return log

    return body


def functional(version: Version, run: Run, saver: Any) -> Any:
    """An entrypoint that calls tasks."""
    body = calls(version, run)

    @entrypoint(checkpointer=saver, migrations=version.migrations)
    def program(given: Any) -> list[str]:
        return body()

    return program


def calling(version: Version, run: Run, saver: Any) -> Any:
    """A node that calls tasks."""
    body = calls(version, run)
    graph = StateGraph(version.schema()).add_node("work", lambda _: {"log": body()})
    graph.add_edge(START, "work")
    return graph.compile(saver, name=version.title, migrations=list(version.migrations))


def calling_below(version: Version, run: Run, saver: Any) -> Any:
    """A subgraph with a node that calls tasks."""
    graph = StateGraph(version.schema()).add_node("sub", calling(version, run, None))
    return graph.add_edge(START, "sub").compile(saver, name=version.title)


PROGRAMS: dict[str, Program] = {
    "joined": joined,
    "sending": sending,
    "nested": nested,
    "routed": routed,
    "functional": functional,
    "calling": calling,
    "calling_below": calling_below,
}
ROLES = {
    "joined": ("first", "left", "ask", "pack", "last"),
    "sending": ("first", "work1", "work2", "work3", "gather", "last"),
    "nested": ("first", "watch", "open", "ask", "close", "last"),
    "routed": ("first", "side", "middle", "ask", "last"),
    "functional": ("first", "inner", "second", "last"),
    "calling": ("first", "inner", "second", "last"),
    "calling_below": ("first", "inner", "second", "last"),
}
"""The roles of each program's first version."""
OF_TASKS = ("functional", "calling", "calling_below")
"""Programs whose roles are tasks."""
