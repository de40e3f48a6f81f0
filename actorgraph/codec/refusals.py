"""The errors of the codec, each with what to do."""

from collections.abc import Mapping

from actorgraph.errors import SerializationError, UnknownTypeError, did_you_mean


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
