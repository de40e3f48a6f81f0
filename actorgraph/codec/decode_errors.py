"""Errors of decoding: the damaged or forbidden part, its place, and the way out.

Programs can listen for refused types (`register_serde_event_listener`), to raise an alert: a stored
name that is on no list is either a deployment that forgot a type, or an attack.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypedDict

from actorgraph.bridging import BRIDGE
from actorgraph.codec.advice import advice_of
from actorgraph.codec.known_types import how_to_declare
from actorgraph.codec.library_types import library_of
from actorgraph.codec.stored_types import extension_of
from actorgraph.errors import (
    ActorGraphError,
    ChangedTypeError,
    GraphBuildError,
    SerializationError,
    UnknownTypeError,
    did_you_mean,
)
from actorgraph.errors.overrides import overridden_methods
from actorgraph.errors.signatures import takes
from actorgraph.values.commits import StoredCheckpoint
from actorgraph.values.ids import as_text


def damaged_error(reason: Exception) -> SerializationError:
    """Error for stored bytes that could not be decoded, or whose class has changed."""
    if isinstance(reason, ChangedTypeError):
        return reason
    why = reason.what if isinstance(reason, ActorGraphError) else reason  # one advice is enough
    return SerializationError(
        f"a stored value can't be decoded: {why}",
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
    text = str(name)
    library = library_of(text)
    near = did_you_mean(text, list(types)) if types else ""
    renamed = f"compile(migrations=[Migration(types={{{name!r}: NewType}})]); {near}".rstrip("; ")
    advice = how_to_declare(text)
    error = UnknownTypeError(
        f"a stored value has the type {name!r}, which this program doesn't allow",
        do=f"import {library} first"
        if library is not None
        else f"{advice}; if it was renamed, {renamed}",
    )
    error.type_name = text
    return error


def changed_type_error(name: str, reason: Exception) -> ChangedTypeError:
    """Error for stored data that the class of their name doesn't take: its fields have changed."""
    error = ChangedTypeError(
        f"a stored value can't be decoded as {name!r} any more: {reason or type(reason).__name__}",
        do=f"give a new field a default; or compile(migrations=[{type_cure(name)}]), where the "
        "function makes the value of the dict of stored fields (of a pydantic model: of a list "
        "that begins with it); if the class has not changed, restore the database from a backup",
    )
    error.type_name = name
    return error


def upgrade_error(name: str, reason: Exception) -> ChangedTypeError:
    """Error for a function of `Migration.types` that has raised."""
    error = ChangedTypeError(
        f"a migration can't make a stored value of type {name!r}: "
        f"{type(reason).__name__}: {reason}",
        do="its function gets the stored data of each such value: the dict of the fields that it "
        "had then, of a pydantic model a list that begins with it",
    )
    error.type_name = name
    return error


def type_cure(name: str) -> str:
    """The Migration to write for a stored type whose class has other fields now, as Python."""
    return f"Migration(types={{{name!r}: lambda fields: {name.rpartition(':')[2]}(...)}})"


def two_classes_error(name: str) -> UnknownTypeError:
    """Error for a stored type of which the process knows two classes: declared and stored."""
    return UnknownTypeError(
        f"a stored value has the type {name!r}, and the program has two classes of that name",
        do=f"{how_to_declare(name)}; or give one of the classes another name",
    )


def other_class_error(name: str, path: str) -> SerializationError:
    """Error for a value that would be read as another class of the same name.

    Args:
        path: what the value is.
    """
    return SerializationError(
        f"{path} has another class {name!r} than the one that is declared",
        do="compile the graph again after its classes were defined anew, or give one of the "
        "classes another name",
    )


def unstorable_error(value: Any, path: str, converted: type | None = None) -> SerializationError:
    """Error for a value whose type can't be stored.

    Args:
        path: what the value is.
        converted: a class above its own that the codec has a converter for.
    """
    kind: Any = type(value)
    name = f"{kind.__module__}:{kind.__qualname__}"
    if name in BRIDGE.refused_types:
        do = BRIDGE.refused_types[name]
    elif converted is not None:
        do = (
            f"give the codec a converter of {kind.__name__} too, or store a "
            f"{converted.__name__}: the converter of {converted.__name__} is for exactly that type"
        )
    elif (known := advice_of(value)) is not None:
        do = known
    elif extension_of(kind) is not None:
        do = f"{how_to_declare(name)}; UntrackedValue keeps a value out"
    else:
        do = (
            "store plain data, a dataclass, model, Struct, enum, named tuple; Codec(converters=) "
            "stores others; UntrackedValue keeps it out"
        )
    return SerializationError(f"{path} has the type {name!r}, which can't be stored", do=do)


def refused_error(
    value: Any, path: str, error: Exception, *, converted: bool = False
) -> SerializationError:
    """Error for a value of which a part, or its type's own code, has raised `error`.

    Args:
        path: what the value is.
        converted: whether the codec has a converter for it, which didn't work.
    """
    kind: Any = type(value)
    do = (
        f"change the converter of {kind.__name__}: from_plain must build this value again of what "
        "to_plain returns"
        if converted
        else advice_of(value) or "store plain data in the state"
    )
    return SerializationError(
        f"{path} of type {kind.__module__ + ':' + kind.__qualname__!r} can't be stored: "
        f"{error if str(error) else type(error).__name__}",
        do=do,
    )


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


_SIGNATURES = {"encode": ("value", "path", "place"), "decode": ("payload", "place")}
"""The arguments, by position, with which storing calls a codec."""


def check_codec(kind: type) -> None:
    """Refuse a subclass of Codec that overrides only methods that storing doesn't call.

    Raises:
        GraphBuildError: it overrides LangGraph's methods, and not `encode` or `decode`.
    """
    theirs = overridden_methods(kind, ("dumps_typed", "loads_typed"))
    if theirs and not overridden_methods(kind, tuple(_SIGNATURES)):
        raise GraphBuildError(
            f"{kind.__name__} overrides {', '.join(theirs)}, which a Codec doesn't store with",
            do="override encode(value, path, place) and decode(payload, place), which those call; "
            "or write a class of your own with dumps_typed and loads_typed, which a saver also "
            "takes as its codec",
        )


def check_signatures(kind: type) -> None:
    """Refuse a codec whose class overrides `encode` or `decode` with other parameters.

    Raises:
        GraphBuildError: storing couldn't call it.
    """
    for name in overridden_methods(kind, tuple(_SIGNATURES)):
        arguments = _SIGNATURES[name]
        if not takes(getattr(kind, name), *range(len(arguments) + 1)):
            raise GraphBuildError(
                f"{kind.__name__}.{name} can't be called with ({', '.join(arguments)})",
                do=f"define {name}(self, {', '.join(arguments)}) and hand them to super().{name}; "
                "for a type of another package Codec(converters={...}) is enough",
            )


_LOG = logging.getLogger("actorgraph.codec")


class SerdeEvent(TypedDict):
    """A stored value was refused because of its type.

    Attributes:
        kind: "msgpack_blocked".
        module: of the type, as stored.
        name: of the type, as stored.
    """

    kind: str
    module: str
    name: str


Listener = Callable[[SerdeEvent], None]

_LISTENERS: list[Listener] = []
_LOCK = threading.Lock()


def register_serde_event_listener(listener: Listener) -> Callable[[], None]:
    """Call `listener` for each stored type that is refused, in the thread that decodes.

    Exceptions of the listener are logged, not raised.

    Returns: a function that removes the listener; calling it again does nothing.
    """
    with _LOCK:
        _LISTENERS.append(listener)

    def unregister() -> None:
        with _LOCK:
            for place, known in enumerate(_LISTENERS):
                if known is listener:
                    del _LISTENERS[place]
                    break

    return unregister


def notify_blocked(type_name: str) -> None:
    """Call the listeners for a refused type, "module:Name"."""
    with _LOCK:
        listeners = tuple(_LISTENERS)
    module, _, name = type_name.partition(":")
    for listener in listeners:
        try:
            listener({"kind": "msgpack_blocked", "module": module, "name": name})
        except Exception:  # noqa: BLE001 - a user's function may raise anything
            _LOG.warning("a listener for refused types failed", exc_info=True)


def raise_located(error: Exception, where: str) -> NoReturn:
    """Raise the error for one that a stored row has caused.

    The library's own errors keep their class and cause, and get `where` in front of their text.
    Anything else, which bytes that no codec wrote can raise, becomes the cause of a
    SerializationError.
    """
    if isinstance(error, ActorGraphError):
        if where not in error.what:
            error.what = f"{where}: {error.what}"
            error.args = (error.what,)
        raise error from error.__cause__
    raise SerializationError(
        f"{where} can't be read: {type(error).__name__}: {error}",
        do="check the database's integrity, or restore it from a backup",
    ) from error


def checkpoint_label(stored: StoredCheckpoint) -> str:
    """Name a checkpoint for the text of an error."""
    where = f" of namespace {stored.namespace!r}" if stored.namespace else ""
    return f"checkpoint {as_text(stored.row.id)}{where} of thread {stored.thread_id!r}"
