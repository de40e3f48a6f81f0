"""Look at modules that the program has imported, without importing them."""

import sys
from typing import Any


def imported_module(name: str) -> Any:
    """A module that is imported; None if it isn't, or if another thread is importing it now."""
    module = sys.modules.get(name)
    if module is None or getattr(getattr(module, "__spec__", None), "_initializing", False):
        return None
    return module
