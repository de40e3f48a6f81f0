"""Errors of decoding: what is damaged or not allowed, where it is stored, and what to do.

Programs can listen for refused types (`register_serde_event_listener`), to raise an alert: a stored
name that is on no list is either a deployment that forgot a type, or an attack.
"""

from collections.abc import Mapping

from actorgraph.errors import (
    GraphBuildError,
    SerializationError,
    UnknownTypeError,
    did_you_mean,
)
from actorgraph.errors.replacing import overridden_methods


def damaged_error(reason: Exception) -> SerializationError:
    """Error for stored bytes that could not be decoded."""
    return SerializationError(
        f"a stored value can't be decoded: {reason}",
        do="check the database's integrity, or restore it from a backup",
    )


def unknown_extension_error(code: int) -> UnknownTypeError:
    """Error for an extension code of a later version of the library."""
    return UnknownTypeError(
        f"a stored value has the extension code {code}, which this version doesn't know",
        do="upgrade actorgraph to the version that wrote it",
    )


def unknown_type_error(name: object, types: Mapping[str, type]) -> UnknownTypeError:
    """Error for a stored type that is not on the allow-list.

    Args:
        types: name -> type of those that are.
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
    """Return the text, if UTF-8 can encode it.

    Raises:
        SerializationError: it has a lone surrogate.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SerializationError(
            f"{path} holds a lone surrogate at position {error.start}, which UTF-8 can't encode",
            do="decode the text with errors='replace' where it enters the program",
        ) from error
    return text


def check_codec(kind: type) -> None:
    """Refuse a subclass of Codec that overrides only methods that storing doesn't call.

    Raises:
        GraphBuildError: it overrides LangGraph's methods, and not `encode` or `decode`.
    """
    theirs = overridden_methods(kind, ("dumps_typed", "loads_typed"))
    if theirs and not overridden_methods(kind, ("encode", "decode")):
        raise GraphBuildError(
            f"{kind.__name__} overrides {', '.join(theirs)}, which a Codec doesn't store with",
            do="override encode(value, path, place) and decode(payload, place), which those call; "
            "or write a class of your own with dumps_typed and loads_typed, which a saver also "
            "takes as its codec",
        )
