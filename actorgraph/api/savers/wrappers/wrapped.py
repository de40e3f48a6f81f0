"""The base of savers that wrap another one, and the principal that operations are done for."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import cast

from actorgraph.api.savers.adapt import adapt_checkpointer
from actorgraph.api.savers.hosted_port import HostedPort
from actorgraph.ports import Saver

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


class WrappedSaver(HostedPort):
    """Forwards everything to another saver. Savers can be nested; open the outermost one only.

    Args:
        saver: the saver to wrap; it must not be opened itself.

    Attributes:
        saver: as given, its adapter, or its `HostedPort`.
    """

    def __init__(self, saver: Saver) -> None:
        super().__init__(cast("Saver", adapt_checkpointer(saver)))
