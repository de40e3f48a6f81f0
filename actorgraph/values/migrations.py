"""How what a graph has stored becomes what it is now."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Migration:
    """What has changed in a graph since threads were stored; `compile` takes a list of them.

    They are applied in order whenever a checkpoint is read. Stored bytes stay as they are; the
    thread's next checkpoint holds the result.

    Attributes:
        channels: old name of a state key -> new name, or None to drop its values.
        nodes: old name of a node -> new name, or None if it isn't to run; for threads that wait
            in front of it.
        types: "module:Class" as it was stored -> the type that takes its fields, or a function
            that makes the value of what was stored: a dict of a dataclass's fields, the name of
            an enum's member.
        values: state key (by its new name) -> a function of the stored value. It is called
            again for values that it has made, and must leave them as they are.
    """

    channels: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    nodes: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    types: Mapping[str, Callable[[Any], Any]] = field(
        default_factory=dict[str, Callable[[Any], Any]]
    )
    values: Mapping[str, Callable[[Any], Any]] = field(
        default_factory=dict[str, Callable[[Any], Any]]
    )
