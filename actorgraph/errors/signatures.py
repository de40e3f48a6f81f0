"""Read signatures: the only place that asks Python for one.

Python 3.14 evaluates annotations when a signature is read, and a name that exists for type checkers
alone is a NameError then; here such an annotation stays as it is written. In this package because
every layer needs it, and all of them may import it.
"""

import inspect
import sys
from collections.abc import Callable
from typing import Any

_FORWARD: dict[str, Any] = {}
if sys.version_info >= (3, 14):
    import annotationlib

    _FORWARD = {"annotation_format": annotationlib.Format.FORWARDREF}


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a callable, with annotations as they are written.

    Raises:
        TypeError, ValueError: Python doesn't know it, as of some builtins.
    """
    return inspect.signature(function, **_FORWARD)


def takes(function: Callable[..., Any], *arguments: object) -> bool:
    """Whether a callable can be called with these arguments by position.

    True if Python can't say.
    """
    try:
        signature = signature_of(function)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True
