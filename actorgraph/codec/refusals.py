"""The errors of the codec, each with what to do."""

from actorgraph.errors import SerializationError, UnknownTypeError


def damaged(reason: Exception) -> SerializationError:
    """Stored bytes are no value."""
    return SerializationError(
        f"a stored value can't be decoded: {reason}",
        do="check the database's integrity, or restore it from a backup",
    )


def unknown(name: object, what: str, do: str) -> UnknownTypeError:
    """A stored type isn't allowed."""
    error = UnknownTypeError(what, do=do)
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
