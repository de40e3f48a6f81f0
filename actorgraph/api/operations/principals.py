"""Who is acting: a context variable that a server sets for each request."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_PRINCIPAL: ContextVar[str | None] = ContextVar("actorgraph_principal", default=None)


@contextmanager
def acting_as(principal: str) -> Generator[None]:
    """Everything in the block, and every task that begins in it, is done by this principal."""
    token = _PRINCIPAL.set(principal)
    try:
        yield
    finally:
        _PRINCIPAL.reset(token)


def current_principal() -> str | None:
    """Who is acting here; None outside of `acting_as`."""
    return _PRINCIPAL.get()
