"""`Migration.values`: each stored value is converted once.

A checkpoint's record, and a row of pending writes where it differs, notes the conversions that its
values have had: channel -> name of the migration -> digest of its function. A value without the
note is converted when it is read, and noted with the next checkpoint. A conversion of a migration
without a name is known by its key alone; the digest then shows whether the function is the same.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from actorgraph.codec.codec import Codec
from actorgraph.errors import SchemaMismatchError
from actorgraph.plan.plan import Plan
from actorgraph.plan.renames import Conversion
from actorgraph.superstep.handover import pairs_in
from actorgraph.values.checkpoint import NOTHING_CONVERTED, Converted, VersionNote
from actorgraph.values.commands import Command, Overwrite, Send, overwritten
from actorgraph.values.constants import CONVERTED
from actorgraph.values.run import Beside, HandOver, MadeFor


class Conversions:
    """The conversions of a graph, applied to what does not have them yet."""

    def __init__(self, plan: Plan) -> None:
        self._of: dict[str, list[Conversion]] = {}
        for one in plan.renames.conversions:
            self._of.setdefault(one.channel, []).append(one)
        self._plan = plan

    def now(self, converted: Converted) -> Converted:
        """The conversions that a record notes, by today's names of the channels."""
        renames = self._plan.renames
        return {renames.channel(channel) or channel: had for channel, had in converted.items()}

    def had(self, converted: Converted, above: Converted) -> Converted:
        """The conversions that a record's values have had, those of the graph above among them.

        A subgraph may get a migration after the graph above: its values that began under that one
        are converted. One under another name counts as the same, as in `half_converted`.

        Args:
            converted: what the record notes of the graph's own conversions.
            above: what it notes of those of the graph above.
        """
        made = dict(self.now(converted))
        for channel, noted in self.now(above).items():
            own = self._of.get(channel, ())
            names = {one.name for one in own}
            others = sum(name not in names for name in noted)
            known = dict[str, str]()
            for one in own:
                if one.name in noted:
                    known[one.name] = ""
                elif others:
                    others -= 1
                    known[one.name] = ""
            if known:
                made[channel] = {**known, **made.get(channel, {})}
        return made

    def value(self, channel: str, value: Any, converted: Converted) -> Any:
        """Convert a stored value; returns it as it is if it has had all conversions.

        Raises:
            SchemaMismatchError: a function of a migration raised, or has changed.
        """
        had = converted.get(channel, {})
        for one in self._of.get(channel, ()):
            known = had.get(one.name)
            if known is None:
                value = _called(one, value)
            elif not one.name and one.convert is not None and known not in ("", one.digest):
                raise _other(one)
        return value

    def write(self, channel: str, value: Any, converted: Converted) -> Any:
        """Convert one write to a channel; an Overwrite stays one."""
        if channel not in self._of:
            return value
        whole, inner = overwritten(value)
        made = self.value(channel, inner if whole else value, converted)
        return Overwrite(made) if whole and made is not inner else value if whole else made

    def given(self, given: Any, converted: Converted) -> Any:
        """Bring a run's stored input up to date: a dict of state keys, or a Command."""
        if not isinstance(given, Command):
            return self.fields(given, converted)
        update = self._update(given.update, converted)
        goto = [end for one in _listed(given.goto) for end in self._led(one, converted)]
        if update is given.update and goto == _listed(given.goto):
            return given
        return replace(given, update=update, goto=goto)

    def _update(self, update: Any, converted: Converted) -> Any:
        """Bring an update up to date: a dict, `(key, value)` pairs or an object with fields."""
        if type(update) is dict:
            return self.fields(update, converted)
        pairs = pairs_in(update) or ()
        if not all(isinstance(key, str) for key, _ in pairs):
            return update
        parts = [self.fields({key: value}, converted) for key, value in pairs]
        same = all(
            part.get(key, self) is value for part, (key, value) in zip(parts, pairs, strict=True)
        )
        return update if same else [pair for part in parts for pair in part.items()]

    def _led(self, to: Any, converted: Converted) -> list[Any]:
        """The targets of a goto by today's names: none if dropped, several if replaced by such."""
        if not isinstance(to, str | Send):
            return [to]
        renames = self._plan.renames
        old = to.node if isinstance(to, Send) else to
        now = renames.node(old)
        ends = renames.goto.get(old, ()) if now is None else (now,)
        if not isinstance(to, Send):
            return list(ends)
        arg = self.fields(to.arg, converted)
        if ends == (old,) and arg is to.arg:
            return [to]
        return [Send(end, arg, timeout=to.timeout) for end in ends]

    def fields(self, given: Any, converted: Converted) -> Any:
        """Rename and convert the state keys of an input or of a Send's argument, if it is one."""
        if type(given) is not dict:
            return given
        renames, made = self._plan.renames, dict[Any, Any]()
        for key, value in given.items():
            now = renames.channels.get(key, key) if isinstance(key, str) else key
            if now is not None:
                made[now] = self.value(now, value, converted) if now in self._of else value
        same = list(made) == list(given) and all(made[key] is given[key] for key in made)
        return given if same else made


def _listed(goto: Any) -> list[Any]:
    return list(goto) if isinstance(goto, list | tuple) else [goto]


def migrated_input(plan: Plan, given: Any, converted: Converted = NOTHING_CONVERTED) -> Any:
    """Bring the stored input of a run that has not begun up to date.

    Args:
        converted: the conversions that it was stored with.
    """
    if not plan.migrations:
        return given
    conversions = Conversions(plan)
    return conversions.given(given, conversions.now(converted))


def migrated_hand_over(plan: Plan, handed: HandOver) -> HandOver:
    """Bring up to date what a subgraph hands over: Commands that an older version has stored.

    Args:
        plan: of the graph above, which the Commands are for.
    """
    parts = list[Command[Any] | Beside]()
    made_for = iter(handed.made_for)
    for part in handed.parts:
        made = next(made_for, None) if isinstance(part, Command) else None
        parts.append(part if made is None else migrated_command(plan, part, made))
    return HandOver(tuple(parts), handed.namespace, nodes=handed.nodes)


def migrated_command(plan: Plan, command: Any, made: MadeFor) -> Any:
    """Bring a stored Command for a graph up to date, unless it was made for this version."""
    if made.migrations == len(plan.migrations):
        return command
    conversions = Conversions(plan)
    return conversions.given(command, conversions.now(made.converted))


def this_version(plan: Plan) -> MadeFor:
    """The version of a graph, for the Commands that are made for it."""
    return MadeFor(len(plan.migrations), noted(plan, {}))


def _has_extensions(codec: Codec) -> bool:
    """Whether a codec stores the library's own types; a program's serializer knows none."""
    return type(codec).encode is Codec.encode


def with_note(codec: Codec, plan: Plan, given: Any) -> Any:
    """Return an input to store beside no checkpoint, with a note of the graph that accepted it."""
    if _has_extensions(codec):
        return VersionNote(noted(plan, {}), plan.graph_id, given)
    return {CONVERTED: noted(plan, {}), "graph": plan.graph_id, "input": given}


def without_note(given: Any) -> tuple[Any, Converted, str]:
    """Return a stored input, its conversions, and the id of the graph that accepted it.

    Inputs of older versions have no note: their graph is "".
    """
    if type(given) is VersionNote:
        return given.value, given.converted, given.graph
    if type(given) is dict and CONVERTED in given:
        return given["input"], given[CONVERTED], given.get("graph", "")
    return given, NOTHING_CONVERTED, ""


def note_of_writes(codec: Codec, converted: Converted) -> list[Any]:
    """Make the write of a row that notes the conversions of the row's values."""
    return [CONVERTED, VersionNote(converted) if _has_extensions(codec) else converted]


def noted_in(note: VersionNote | Converted) -> Converted:
    """Return the conversions that the write of a row notes."""
    return note.converted if isinstance(note, VersionNote) else note


def _called(one: Conversion, value: Any) -> Any:
    if one.convert is None:
        raise SchemaMismatchError(
            f"a migration of {one.channel!r} has None for its function, but a thread has a value "
            "that was not converted",
            do="give the function as long as such threads are resumed",
        )
    try:
        return one.convert(value)
    except Exception as error:
        raise SchemaMismatchError(
            f"a migration can't convert a stored value of {one.channel!r}: "
            f"{type(error).__name__}: {error}",
            do="its function gets each value of that key that a thread may have stored, and each "
            "update of it that waits to be folded",
        ) from error


def _other(one: Conversion) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"a thread's value of {one.channel!r} was converted by another function than the "
        "migration's, which has no name: it is unclear whether this one is a further conversion",
        do=f"name it: Migration(name='...', values={{{one.channel!r}: ...}}) is a further one; to "
        "keep it the same, list the old function, or None in its place",
    )


def noted(plan: Plan, before: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Make the note of a new checkpoint of the graph.

    Args:
        before: the conversions of the values that it is made of.
    """
    made = {channel: dict(had) for channel, had in before.items()}
    for one in plan.renames.conversions:
        made.setdefault(one.channel, {}).setdefault(one.name, one.digest)
    return made
