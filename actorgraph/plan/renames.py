"""A graph's migrations as tables: old name -> today's, whatever the number of renames between.

The list of a graph's migrations is read once, when the graph is compiled. A name that a migration
gives is followed through the later ones, so each table leads to names that the graph has now.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from dis import get_instructions
from hashlib import blake2b
from types import CodeType
from typing import Any

from actorgraph.values.checkpoint import Migration
from actorgraph.values.constants import BRANCH_TO

Names = Mapping[str, str | None]
JOIN = "join:"
"""Begins the name of a join's channel; its starts and its end follow."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """One function of `Migration.values`.

    Attributes:
        channel: the state key that it converts, by today's name.
        name: of its migration; "" for none.
        convert: makes the new value of a stored one; None if no thread needs that any more.
        digest: of the function, by the names and constants in it.
    """

    channel: str
    name: str
    convert: Callable[[Any], Any] | None
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Renames:
    """The migrations of a graph, composed.

    Attributes:
        channels: old state key -> today's, None if dropped.
        nodes: old node -> today's, None if dropped or replaced by those of `goto`.
        goto: removed node -> the nodes that run in its place.
        tasks: old name of a `@task` -> today's, None if dropped.
        joins: end of a join -> the starts that count as arrived; None drops what has arrived.
        conversions: in the order in which they are applied.
        edges: channels of the edges to old nodes -> those of today.
        before: last name of a node (of a replaced one: when it was) -> the earlier ones.
    """

    channels: Names = field(default_factory=dict[str, str | None])
    nodes: Names = field(default_factory=dict[str, str | None])
    goto: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    tasks: Names = field(default_factory=dict[str, str | None])
    joins: Mapping[str, tuple[str, ...] | None] = field(
        default_factory=dict[str, tuple[str, ...] | None]
    )
    conversions: tuple[Conversion, ...] = ()
    edges: Names = field(default_factory=dict[str, str | None])
    before: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def node(self, name: str) -> str | None:
        """Return today's name of a node; None if it was dropped or replaced."""
        return self.nodes.get(name, name)

    def names(self, name: str) -> tuple[str, ...]:
        """Return today's name of a node, and all that it had; of an old or a new one."""
        now = self.node(name) or name
        return (now, *self.before.get(now, ()))

    def task_names(self, name: str) -> tuple[str, ...]:
        """Return a `@task`'s name of today, and all that it had."""
        return (name, *(old for old, new in self.tasks.items() if new == name))

    def instead(self, name: str) -> tuple[str, ...]:
        """Return the nodes that run in place of a removed one."""
        return self.goto.get(name, ())

    def task(self, name: str) -> str | None:
        """Return today's name of a `@task`; None if it was dropped."""
        return self.tasks.get(name, name)

    def channel(self, name: str) -> str | None:
        """Return today's name of a state key or edge; None if it was dropped."""
        return self.edges[name] if name in self.edges else self.channels.get(name, name)


NO_RENAMES = Renames()


def renames_of(migrations: Iterable[Migration]) -> Renames:
    """Compose migrations: the names of each are followed through itself and all later ones."""
    given = tuple(migrations)
    nodes: dict[str, str | None] = {}
    goto: dict[str, tuple[str, ...]] = {}
    joins: dict[str, tuple[str, ...] | None] = {}
    channels = _changed(_composed([m.channels for m in given]))
    renamed = _changed(_composed([m.nodes for m in given]))
    for place, migration in reversed([*enumerate(given)]):
        later = _composed([m.nodes for m in given[place + 1 :]])
        led = dict[str, tuple[str, ...]]()
        for old, to in migration.goto.items():
            names = [later.get(name, name) for name in ((to,) if isinstance(to, str) else to)]
            # One that was removed since is replaced by those that run in its place.
            ends = [one for n in names if n for one in goto.get(n, (n,))]
            led[old] = tuple(dict.fromkeys(ends))
        goto = {**led, **goto}
        for end, arrived in migration.joins.items():
            kept = arrived and [n for name in arrived if (n := later.get(name, name))]
            joins.setdefault(later.get(end) or end, None if kept is None else tuple(kept))
    for old, new in renamed.items():  # a -> b by name, and b was replaced since
        if new in goto:
            goto[old] = goto[new]
    nodes = {**renamed, **dict.fromkeys(goto)}
    before: dict[str, tuple[str, ...]] = {}
    for old, new in renamed.items():
        if new is not None:
            before[new] = (*before.get(new, ()), old)
    edges = {BRANCH_TO + o: None if n is None else BRANCH_TO + n for o, n in nodes.items()}
    return Renames(
        channels=channels,
        nodes=nodes,
        goto=goto,
        tasks=_changed(_composed([m.tasks for m in given])),
        joins=joins,
        conversions=tuple(_conversions(given)),
        edges=edges,
        before=before,
    )


def _composed(tables: Iterable[Names]) -> dict[str, str | None]:
    made: dict[str, str | None] = {}
    for table in tables:
        for old, now in made.items():
            if now is not None:
                made[old] = table.get(now, now)
        made.update({old: new for old, new in table.items() if old not in made})
    return made


def _changed(names: Names) -> dict[str, str | None]:
    """Leave out the names that were given back since."""
    return {old: new for old, new in names.items() if new != old}


def _conversions(given: tuple[Migration, ...]) -> Iterable[Conversion]:
    for place, migration in enumerate(given):
        since = _composed([m.channels for m in given[place:]])
        for key, convert in migration.values.items():
            channel = since.get(key, key)
            if channel is not None:
                yield Conversion(channel, migration.name, convert, digest_of(convert))


def digest_of(function: Any) -> str:
    """Digest a function by what stays when it is moved or formatted: its names and constants."""
    if function is None:
        return ""
    parts = [getattr(function, "__name__", type(function).__name__)]
    code = getattr(function, "__code__", None)
    if isinstance(code, CodeType):
        parts += [*code.co_varnames[: code.co_argcount], *code.co_names, *code.co_freevars]
        # Through the instructions: where small integers are stored depends on Python's version.
        loads = (i.argval for i in get_instructions(code) if i.opname.startswith(_LOADS))
        parts += sorted(repr(v) for v in loads if isinstance(v, str | bytes | int | float))
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


_LOADS = ("LOAD_CONST", "LOAD_SMALL_INT", "RETURN_CONST")


def join_name(starts: Iterable[str], end: str) -> str:
    """Make the name of a join's channel; the order of the starts doesn't count."""
    return f"{JOIN}{'|'.join(sorted(set(starts)))}:{end}"  # no node's name has a `|` or `:`


def join_parts(channel: str) -> tuple[frozenset[str], str] | None:
    """Read the starts and the end of a join from its channel's name; None for another channel."""
    if not channel.startswith(JOIN):
        return None
    starts, mark, end = channel.removeprefix(JOIN).rpartition(":")
    return (frozenset(starts.split("|")), end) if mark else None
