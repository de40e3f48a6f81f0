"""The types that a process knows, beside those on a codec's list."""

from collections.abc import Iterator
from contextlib import contextmanager

from actorgraph.codec import known_types


def restart() -> None:
    """Forget the types that were declared or stored, as another process has never seen them."""
    for known in (
        *(known_types._DECLARED, known_types._STORED),  # noqa: SLF001 - only tests forget
        *(known_types._BASES, known_types._WARNED),  # noqa: SLF001 - as above
    ):
        known.clear()


@contextmanager
def same_types_afterwards() -> Iterator[None]:
    """Forget afterwards the types that were first declared or stored meanwhile."""
    declared = dict(known_types._DECLARED)  # noqa: SLF001 - as in `restart`
    bases = set(known_types._BASES)  # noqa: SLF001 - as in `restart`
    yield
    restart()
    known_types._DECLARED.update(declared)  # noqa: SLF001 - as in `restart`
    known_types._BASES.update(bases)  # noqa: SLF001 - as in `restart`
