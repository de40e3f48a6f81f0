"""Checks of the names of channels and graphs, which are stored."""

from actorgraph.errors import GraphBuildError, SchemaError
from actorgraph.errors.texts import NAME_REFUSED, is_storable_name


def check_channel_name(name: str) -> None:
    """Refuse a channel's name that some store can't keep.

    Raises:
        SchemaError: see `errors.texts.is_name`.
    """
    if not is_storable_name(name):
        raise SchemaError(
            f"{name[:80]!r} can't be a channel's name: {NAME_REFUSED}", do="choose another name"
        )


def check_graph_name(name: str) -> None:
    """Refuse a graph's name that some store can't keep.

    Raises:
        GraphBuildError: see `errors.texts.is_name`.
    """
    if not is_storable_name(name):
        raise GraphBuildError(
            f"{name[:80]!r} can't be a graph's name: {NAME_REFUSED}", do="choose another name"
        )
