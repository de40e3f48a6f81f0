"""The errors of the codec, each with what to do."""

from collections.abc import Mapping

from actorgraph.errors import (
    GraphBuildError,
    SerializationError,
    UnknownTypeError,
    did_you_mean,
)
from actorgraph.errors.replacing import replaced


def damaged(reason: Exception) -> SerializationError:
    """Stored bytes are no value."""
    return SerializationError(
        f"a stored value can't be decoded: {reason}",
        do="check the database's integrity, or restore it from a backup",
    )


def newer(code: int) -> UnknownTypeError:
    """A stored type is of a later version."""
    return UnknownTypeError(
        f"a stored value has the extension code {code}, which this version doesn't know",
        do="upgrade actorgraph to the version that wrote it",
    )


def unknown(name: object, types: Mapping[str, type]) -> UnknownTypeError:
    """A stored type isn't allowed.

    Args:
        types: those that are, by name.
    """
    near = did_you_mean(str(name), list(types)) if types else ""
    renamed = f"compile(migrations=[Migration(types={{{name!r}: NewType}})]); {near}".rstrip("; ")
    error = UnknownTypeError(
        f"a stored value has the type {name!r}, which this program doesn't allow",
        do="put the type into the graph's schema, or into the saver's "
        f"Codec(types=[...]); if it was renamed, {renamed}",
    )
    error.type_name = str(name)
    return error


def checked_text(text: str, path: str) -> str:
    """Text that has an encoding; raises SerializationError for lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SerializationError(
            f"{path} holds a lone surrogate at position {error.start}, which is no Unicode text",
            do="decode the text with errors='replace' where it comes in",
        ) from error
    return text


def check_codec(kind: type) -> None:
    """Refuse a subclass of Codec that overrides methods by which no value is stored.

    Raises:
        GraphBuildError: it overrides LangGraph's methods, and not what stores values here.
    """
    theirs = replaced(kind, ("dumps_typed", "loads_typed"))
    if theirs and not replaced(kind, ("encode", "decode")):
        raise GraphBuildError(
            f"{kind.__name__} overrides {', '.join(theirs)}, by which a Codec stores nothing",
            do="override encode(value, path, place) and decode(payload, place), which those call; "
            "or write a class of your own with dumps_typed and loads_typed, which a saver takes "
            "as its codec, too",
        )
