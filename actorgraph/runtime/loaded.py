"""What the program has imported: looked at, never imported here."""

import sys
from typing import Any


def loaded(name: str) -> Any:
    """A module that is imported; None if it isn't, or another thread is importing it just now."""
    module = sys.modules.get(name)
    if module is None or getattr(getattr(module, "__spec__", None), "_initializing", False):
        return None
    return module
