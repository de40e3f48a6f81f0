"""Warnings about what nodes return and catch."""

import warnings

from actorgraph.errors import SwallowedInterruptWarning, UnknownChannelWarning

_DROPPED = (
    "\n  Do this: give only known keys, or add the key to the state schema; "
    "compile(strict=True) makes this an error"
)


def warn_of_node(kind: str, text: str) -> None:
    """Warn of a key that was dropped, or of an interrupt that a node caught.

    Args:
        kind: "dropped" or "swallowed".
        text: the sentence about the dropped key, or the node's name.
    """
    if kind == "dropped":
        warnings.warn(f"{text}{_DROPPED}", UnknownChannelWarning, stacklevel=2)
    else:
        warnings.warn(
            f"node {text!r} caught the exception of interrupt(); the run pauses nevertheless",
            SwallowedInterruptWarning,
            stacklevel=2,
        )
