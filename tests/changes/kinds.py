"""Kinds of change between two versions of a program, and what a resume may do with each."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from actorgraph.types import Migration
from tests.changes.programs import (
    OF_TASKS,
    ROLES,
    AttrsMemo,
    AttrsNote,
    Memo,
    Note,
    StructMemo,
    StructNote,
    Version,
)

NOTE = f"{Note.__module__}:{Note.__qualname__}"


@dataclass(frozen=True)
class Kind:
    """A change.

    Attributes:
        name: of the kind, for ids of tests.
        after: the version after it.
        before: the version before it.
        goes_on: whether every thread goes on; without it one may be refused, never silently.
        again: roles that may have run before a refusal, as it comes at their end.
        drops: whether its migration drops a node: what that did, and what it led to, may go.
    """

    name: str
    after: Version
    before: Version = field(default_factory=Version)
    goes_on: bool = False
    drops: bool = False
    again: frozenset[str] = frozenset()


def kinds(program: str) -> Iterator[Kind]:
    """The kinds of change that a program may have."""
    yield Kind("nothing", Version(), goes_on=True)
    yield from _renamed_nodes(program)
    yield from _keys(program)
    yield from _classes(program)
    if program in OF_TASKS:
        yield from _tasks()
    yield Kind("another order", Version(reordered=True), goes_on=True)
    yield Kind("another title", Version(title="other"), goes_on=True)
    if program not in OF_TASKS:
        yield from _topology(program)
        yield Kind("a key more", Version(extra_key=True), goes_on=True)
        yield Kind("deferred nodes", Version(options={"defer": True}))
        yield Kind("limited nodes", Version(options={"max_concurrency": 1}), goes_on=True)
    if program in ("joined", "nested"):
        yield Kind("starts reversed", Version(starts="reversed"), goes_on=True)
        yield Kind("starts of a set", Version(starts="set"), goes_on=True)
    if program == "joined":
        yield from _joins()


def _renamed_nodes(program: str) -> Iterator[Kind]:
    inner = {"open", "ask", "close"} if program == "nested" else set()
    names = {"work1": "work", "work2": "work", "work3": "work"}
    roles = dict.fromkeys(names.get(role, role) for role in ROLES[program])
    for role in roles:
        after = Version(names={role: "renamed"})
        yield Kind(f"{role} renamed", after)
        changed = (
            Migration(tasks={role: "renamed"})
            if program in OF_TASKS
            else Migration(nodes={role: "renamed"})
        )
        if role in inner:
            after = replace(after, below=(changed,))
        else:
            after = replace(after, migrations=(changed,))
        yield Kind(f"{role} renamed by a migration", after, goes_on=True)
    if program == "nested":
        after = Version(names={"sub": "renamed"})
        yield Kind("sub renamed", after)
        changed = (Migration(nodes={"sub": "renamed"}),)
        yield Kind("sub renamed by a migration", replace(after, migrations=changed), goes_on=True)


def _tasks() -> Iterator[Kind]:
    """Tasks that are gone, with and without a word about it, and tasks that are defined late."""
    yield Kind("late tasks", Version(late=True), goes_on=True)
    yield Kind("early tasks", Version(), before=Version(late=True), goes_on=True)
    for gone in (("first",), ("inner",), ("inner", "second"), ("inner", "second", "last")):
        name, after = gone[-1], Version(without=frozenset(gone))
        again = frozenset({"second"} if gone == ("inner",) else ())
        yield Kind(f"{name} removed", after, again=again)
        dropped = (Migration(tasks=dict.fromkeys(gone)),)
        yield Kind(
            f"{name} removed by a migration",
            replace(after, migrations=dropped),
            goes_on=True,
            drops=True,
        )


def _keys(program: str) -> Iterator[Kind]:
    if program in OF_TASKS:
        return
    renamed = Version(keys={"price": "cost"})
    moved = Version(note=Memo)
    both = Version(keys={"price": "cost", "note": "memo"}, note=Memo)
    yield Kind("key renamed", renamed)
    below = (Migration(channels={"price": "cost"}),) if program == "nested" else ()
    change = (Migration(channels={"price": "cost"}),)
    yield Kind(
        "key renamed by a migration", replace(renamed, migrations=change, below=below), goes_on=True
    )
    types = (Migration(types={NOTE: Memo}),)
    below = types if program == "nested" else ()
    yield Kind(
        "type moved by a migration", replace(moved, migrations=types, below=below), goes_on=True
    )
    change = (
        Migration(channels={"price": "cost"}),
        Migration(channels={"note": "memo"}, types={NOTE: Memo}),
    )
    below = change if program == "nested" else ()
    yield Kind(
        "keys and type by migrations", replace(both, migrations=change, below=below), goes_on=True
    )


def _classes(program: str) -> Iterator[Kind]:
    """States of classes with fields, notes of other libraries, and values of another form."""
    if program in OF_TASKS:
        return
    for form in ("dataclass", "attrs", "msgspec"):
        before, after = Version(form=form), Version(form=form, keys={"price": "cost"})
        yield Kind(f"{form} key renamed", after, before)
        change = (Migration(channels={"price": "cost"}),)
        yield Kind(
            f"{form} key renamed by a migration",
            replace(after, migrations=change, below=change if program == "nested" else ()),
            before,
            goes_on=True,
        )
        yield Kind(f"state is a class of {form}", Version(form=form), goes_on=True)
    for old, new in ((StructNote, StructMemo), (AttrsNote, AttrsMemo)):
        types = (Migration(types={f"{old.__module__}:{old.__qualname__}": new}),)
        below = types if program == "nested" else ()
        after = Version(note=new, migrations=types, below=below)
        yield Kind(f"{old.__name__} moved", after, Version(note=old), goes_on=True)
    cents = (Migration(name="cents", values={"price": lambda price: price * 100}),)
    below = cents if program == "nested" else ()
    if program == "nested":
        alone = Version(price=700, migrations=cents)
        yield Kind("price converted above alone", alone)
        later = replace(alone, below=below)
        yield Kind("price converted below later", later, alone, goes_on=True)
    yield Kind("price converted", Version(price=700, migrations=cents, below=below), goes_on=True)


def _topology(program: str) -> Iterator[Kind]:
    yield Kind("node added", Version(added=True), goes_on=True)
    if program in ("joined", "nested", "sending"):
        yield Kind("conditional edges", Version(conditional=True), goes_on=program == "sending")
    gone = {"joined": "pack", "routed": "middle"}.get(program)
    if gone is None:
        return
    after = Version(without=frozenset({gone}))
    target = {"joined": "last", "routed": "ask"}[program]
    yield Kind(f"{gone} removed", after)
    goto = (Migration(goto={gone: target}),)
    yield Kind(f"{gone} removed, goto", replace(after, migrations=goto), goes_on=True)
    dropped = (Migration(nodes={gone: None}),)
    yield Kind(f"{gone} dropped", replace(after, migrations=dropped), drops=True)


def _joins() -> Iterator[Kind]:
    more = Version(more_start=True)
    yield Kind("a start more", more)
    arrived = (Migration(joins={"pack": ["third"]}),)
    yield Kind("a start more, arrived", replace(more, migrations=arrived))
    yield Kind("a start less", Version(), before=more)
    yield Kind(
        "a start renamed by a migration",
        Version(
            names={"left": "renamed"},
            starts="reversed",
            migrations=(Migration(nodes={"left": "renamed"}),),
        ),
        goes_on=True,
    )
