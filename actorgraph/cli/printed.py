"""The results of commands: `--json` prints them, and the text is drawn from them."""

from typing import Any

import msgspec


class ThreadLine(msgspec.Struct, frozen=True):
    """A thread in a list.

    Attributes:
        status: "busy" with an open run, "interrupted" with tasks left, "error" if one of them has
            failed, else "idle".
        step: of its newest checkpoint; -1 without one.
        updated_at: when that was made; ISO 8601 UTC, "" without one.
        next: the nodes that run next.
        graph: the graph's name in the system that runs it; "" if unknown.
        metadata: of its newest checkpoint: what callers gave.
    """

    thread_id: str
    status: str
    step: int
    updated_at: str
    next: tuple[str, ...]
    graph: str
    metadata: dict[str, Any]


class ThreadList(msgspec.Struct, frozen=True):
    """The result of `actorgraph threads`.

    Attributes:
        more: whether further threads match, beyond the limit.
    """

    threads: tuple[ThreadLine, ...]
    more: bool = False
