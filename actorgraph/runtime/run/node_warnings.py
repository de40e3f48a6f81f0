"""Warnings about what nodes return, catch and ask."""

import sys
from collections.abc import Callable
from contextvars import Context
from typing import Any

from actorgraph.bridging import BRIDGE
from actorgraph.errors import LostPauseWarning, SwallowedInterruptWarning, UnknownChannelWarning
from actorgraph.errors.excerpts import shown
from actorgraph.errors.warning_places import warn
from actorgraph.runtime.run.launch import Address
from actorgraph.values.run import Interrupted

_DROPPED = (
    "\n  Do this: give only known keys, or add the key to the state schema; "
    "compile(strict=True) makes this an error"
)


def warn_of_node(kind: str, text: str, node: Callable[..., Any] | None) -> None:
    """Warn of a key that was dropped, or of an interrupt that a node caught.

    Args:
        kind: "dropped" or "swallowed".
        text: the sentence about the dropped key, or the node's name.
        node: its function; None for a key of an input.
    """
    if kind == "dropped":
        warn(f"{text}{_DROPPED}", UnknownChannelWarning, about=node)
    else:
        warn(
            f"node {text!r} caught the exception of interrupt(); the run pauses nevertheless",
            SwallowedInterruptWarning,
            about=node,
        )


def check_pause(
    context: Context, address: Address, graph: str, outcome: Interrupted, *, is_stored: bool
) -> None:
    """Warn of a pause of a root run that has no saver; refuse one that has no reader.

    Args:
        context: the caller's.
        graph: its name.
        is_stored: whether the run has a saver.
    Raises:
        InvalidUpdateError: another library's node runs the graph, on no thread of its own.
    """
    asked = outcome.interrupts
    if BRIDGE.calls_module in sys.modules:
        BRIDGE.check_pause(context, address.thread_id, graph, asked)
    if is_stored:
        return
    what = f"asks {shown(asked[0].value)}" if asked else "stopped at a breakpoint"
    warn(
        f"graph {graph!r} {what}, and has no checkpointer: its run can't be resumed, and its "
        "results are lost\n"
        "  Do this: compile(checkpointer=...), and pass a thread_id with each call",
        LostPauseWarning,
    )
