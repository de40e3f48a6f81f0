"""LangGraph's serializers, as savers of other distributions make, derive from and call them.

Values are encoded by a `Codec`. LangGraph's own forms, "msgpack" and "json", are read, so that
threads of such a saver go on; only this library reads the form that is written here.
"""

from collections.abc import Callable, Iterable
from copy import copy
from importlib import import_module
from typing import Any, Protocol, Self

from actorgraph.codec import Codec
from actorgraph.codec.known_types import declared
from actorgraph.codec.serializers import (
    Named,
    SerializerProtocol,
    classes_named,
    refused_serializer,
)
from actorgraph.errors import SerializationError
from actorgraph.migrate.decode import Decoder

_OWN = "actorgraph"
_THEIRS = ("msgpack", "json")
AllowedMsgpackModules = Named


class InvalidModuleError(Exception):
    """LangGraph's error about a class that may not be read; here it is UnknownTypeError."""


class JsonPlusSerializer:
    """LangGraph's default serializer, over a `Codec`.

    Args:
        pickle_fallback: must be False: nothing is pickled.
        allowed_json_modules: (module, ..., name) of classes that may be stored; True or None for
            those that the graph declares.
        allowed_msgpack_modules: the same, as (module, name) or classes.
        __unpack_ext_hook__: must be None.
    Attributes:
        codec: encodes the values.
    Raises:
        InvalidConfigError: pickles or a hook are asked for, or a class doesn't exist.
    """

    def __init__(
        self,
        *,
        pickle_fallback: bool = False,
        allowed_json_modules: Named | bool | None = None,
        allowed_msgpack_modules: Named | bool | None = None,
        __unpack_ext_hook__: Callable[[int, bytes], Any] | None = None,
    ) -> None:
        if pickle_fallback or __unpack_ext_hook__ is not None:
            raise refused_serializer()
        self.pickle_fallback = False
        self.codec = Codec()
        for named in (allowed_json_modules, allowed_msgpack_modules):
            if not isinstance(named, bool) and named is not None:
                self.learn(classes_named(named))

    def learn(self, types: Iterable[type]) -> None:
        """Add types that are stored and read, wherever this serializer is used."""
        self.codec = self.codec.with_types(types)

    def with_msgpack_allowlist(self, extra_allowlist: Named) -> Self:
        """Return a copy that stores and reads more classes."""
        made = copy(self)
        made.learn(classes_named(extra_allowlist))
        return made

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Encode a value; returns its form and bytes.

        Raises:
            SerializationError: it can't be stored exactly.
        """
        if obj is None:
            return "null", b""
        if type(obj) is bytes:
            return "bytes", obj
        if type(obj) is bytearray:
            return "bytearray", bytes(obj)
        return self.codec.dumps_typed(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode what `dumps_typed` returned, or LangGraph's serializer.

        Raises:
            SerializationError: it has a type that isn't allowed, or another form.
        """
        form, payload = data[0], data[1]
        if form == _OWN:
            return self.codec.loads_typed((form, bytes(payload)))
        if form not in (*_THEIRS, "null", "empty", "bytes", "bytearray"):
            return self.codec.loads_typed((form, b""))
        decoder = _Decoder(self.codec.types, _langchain_messages())
        value = decoder.read(form, payload, "value")
        if decoder.unknown:
            raise SerializationError(
                f"a value that LangGraph stored can't be read: {decoder.unknown[0]}",
                do="declare the type in the graph's state, or name it in "
                "JsonPlusSerializer(allowed_msgpack_modules=[...])",
            )
        return value

    def dumps(self, obj: Any) -> bytes:
        """Encode a value as JSON text, as older savers do with metadata."""
        return self.codec.in_form("json").encode(obj)

    def loads(self, data: bytes) -> Any:
        """Decode JSON text."""
        return self.codec.decode(bytes(data))

    def _reviver(self, value: dict[str, Any]) -> Any:
        """Build the object that a constructor of LangChain's JSON form describes.

        Raises:
            SerializationError: of a class that isn't allowed.
        """
        if value.get("lc") not in (1, 2) or value.get("type") != "constructor":
            return value
        decoder = _Decoder(self.codec.types, _langchain_messages())
        made = decoder.revive(value, "value")
        if decoder.unknown:
            raise SerializationError(
                f"a stored value can't be read: {decoder.unknown[0]}",
                do="declare the type in the graph's state",
            )
        return made

    @property
    def own_codec(self) -> "Codec | Self":
        """The codec of a saver of this library; a subclass may encode by itself, and is called."""
        return self.codec if type(self) is JsonPlusSerializer else self


class UntypedSerializerProtocol(Protocol):
    """Encodes values as bytes, without the name of a form."""

    def dumps(self, obj: Any) -> bytes:
        """Encode a value."""
        ...

    def loads(self, data: bytes) -> Any:
        """Decode bytes."""
        ...


class SerializerCompat:
    """Makes a serializer with `dumps` and `loads` one with `dumps_typed` and `loads_typed`."""

    def __init__(self, serde: UntypedSerializerProtocol) -> None:
        self.serde = serde

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Encode a value; its form is the name of its class."""
        return type(obj).__name__, self.serde.dumps(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode bytes, whatever their form."""
        return self.serde.loads(data[1])


def maybe_add_typed_methods(serde: Any) -> SerializerProtocol:
    """Return a serializer that has `dumps_typed` and `loads_typed`: itself, or one around it."""
    return serde if isinstance(serde, SerializerProtocol) else SerializerCompat(serde)


class _Decoder(Decoder):
    """Also knows the types that any graph of this process declares, as a codec does.

    A package may keep a serializer that no saver has, and that learns nothing.
    """

    def build(self, full: str, given: Any, path: str, *, model: bool = False) -> Any:
        """See `Decoder.build`."""
        kind = declared(":".join(full.rsplit(".", 1)))
        if kind is not None:
            self._types.setdefault(full, kind)
        return super().build(full, given, path, model=model)


def _langchain_messages() -> Any:
    try:
        return import_module("langchain_core.messages")
    except ModuleNotFoundError:
        return None
