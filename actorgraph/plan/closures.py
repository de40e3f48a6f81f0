"""Values that a function holds of the functions around it."""

from collections.abc import Iterator
from types import FunctionType
from typing import Any


def closure_values(function: FunctionType) -> Iterator[Any]:
    """Yield the values of a function's closure; those that are not bound yet are left out."""
    for cell in function.__closure__ or ():
        try:
            held = cell.cell_contents
        except ValueError:
            continue
        yield held
