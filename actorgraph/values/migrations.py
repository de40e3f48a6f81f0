"""Migration: how stored checkpoints are read by a graph that has changed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Migration:
    """The changes of a graph since threads were stored; `compile(migrations=)` takes a list.

    They are applied in order whenever a checkpoint is read. Stored bytes stay as they are; the
    thread's next checkpoint holds the result.

    Attributes:
        channels: old name of a state key -> new name, or None to drop its values.
        nodes: old name of a node -> new name, or None to drop it; for threads in which it is due.
        types: "module:Class" as it was stored -> the type that takes its fields, or a function
            that makes the value from the stored data: a dict of a dataclass's fields, the name of
            an enum's member.
        values: state key (by its new name) -> a function of the stored value. It is called again
            with its own results, and must return those unchanged.
    """

    channels: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    nodes: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    types: Mapping[str, Callable[[Any], Any]] = field(
        default_factory=dict[str, Callable[[Any], Any]]
    )
    values: Mapping[str, Callable[[Any], Any]] = field(
        default_factory=dict[str, Callable[[Any], Any]]
    )
