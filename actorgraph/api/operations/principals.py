"""The base of savers that wrap another one, and the principal that operations are done for."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_PRINCIPAL: ContextVar[str | None] = ContextVar("actorgraph_principal", default=None)


@contextmanager
def acting_as(principal: str) -> Generator[None]:
    """Set the acting principal in a block, and in every task that is started in it."""
    token = _PRINCIPAL.set(principal)
    try:
        yield
    finally:
        _PRINCIPAL.reset(token)


def current_principal() -> str | None:
    """Return the acting principal; None outside `acting_as`."""
    return _PRINCIPAL.get()
