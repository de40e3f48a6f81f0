"""Names of channels and graphs, which are in rows of every store: checked where given."""

from actorgraph.errors import GraphBuildError, SchemaError
from actorgraph.errors.texts import NAME_REFUSED, is_storable_name


def check_channel(name: str) -> None:
    """Refuse a channel's name that some store can't keep.

    Raises: SchemaError.
    """
    if not is_storable_name(name):
        raise SchemaError(
            f"{name[:80]!r} can't be a channel's name: {NAME_REFUSED}", do="choose another name"
        )


def check_graph_name(name: str) -> None:
    """Refuse a graph's name that some store can't keep.

    Raises: GraphBuildError.
    """
    if not is_storable_name(name):
        raise GraphBuildError(
            f"{name[:80]!r} can't be a graph's name: {NAME_REFUSED}", do="choose another name"
        )
