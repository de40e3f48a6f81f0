"""Codecs besides the default one, and `codec_of`, which chooses a saver's codec.

EncryptedSerializer   LangGraph's name for `Codec(keys=...)`
SerializerCodec       around a serializer of the program's own (`SerializerProtocol`)
ReferenceCodec        keeps the objects themselves, for a saver in memory with copy="none"
"""

import struct
from collections.abc import Iterable
from importlib import import_module
from itertools import count
from struct import Struct
from typing import Any, Protocol, Self, cast, runtime_checkable

from actorgraph.bridging import BRIDGE
from actorgraph.codec.codec import Codec
from actorgraph.codec.encryption import (
    NOWHERE,
    AesCipher,
    CipherProtocol,
    Place,
    key_of_environment,
)
from actorgraph.codec.stored_types import extension_of
from actorgraph.errors import InvalidConfigError, SerializationError

_LENGTH = struct.Struct(">H")
Named = Iterable[tuple[str, ...] | type]
"""Classes, or the parts of their names."""


@runtime_checkable
class SerializerProtocol(Protocol):
    """Encodes values as bytes with the name of their form; LangGraph's protocol."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Encode a value; returns its form and bytes."""
        ...

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode a form and bytes."""
        ...


class SerializerCodec(Codec):
    """Stores values as a serializer of the program's own encodes them; it has no allow-list.

    A saver that gets a serializer as its `codec` makes one of these.

    Args:
        serializer: see `SerializerProtocol`.
    """

    def __init__(self, serializer: SerializerProtocol) -> None:
        super().__init__()
        self.serializer = serializer

    @property
    def encodes_all(self) -> bool:
        """Always: the serializer may encrypt."""
        return True

    def encode(self, value: Any, path: str = "value", place: Place = NOWHERE) -> bytes:
        """Encode with the serializer; the form's name is stored in front of the bytes.

        Raises:
            SerializationError: the serializer refuses the value.
        """
        try:
            form, payload = self.serializer.dumps_typed(value)
        except Exception as error:
            raise SerializationError(
                f"{path} can't be stored: {type(self.serializer).__name__} refuses it: {error}",
                do="store what the serializer takes; UntrackedValue keeps a value out",
            ) from error
        word = form.encode()
        return _LENGTH.pack(len(word)) + word + payload

    def decode(self, payload: bytes, place: Place = NOWHERE) -> Any:
        """Decode with the serializer.

        Raises:
            SerializationError: the serializer can't read the bytes.
        """
        end = _LENGTH.size + _LENGTH.unpack_from(payload.ljust(_LENGTH.size, b"\0"))[0]
        try:
            form = payload[_LENGTH.size : end].decode()
            return self.serializer.loads_typed((form, payload[end:]))
        except Exception as error:
            raise SerializationError(
                f"a stored value can't be read by {type(self.serializer).__name__}: {error}",
                do="use the serializer that wrote the thread",
            ) from error

    def count(self, payload: bytes, place: Place = NOWHERE) -> int:
        """Count the items of an encoded list."""
        return len(self.decode(payload, place))


def codec_of(
    given: Codec | SerializerProtocol | None,
    serde: SerializerProtocol | None = None,
    *,
    compress_above: int | None = None,
) -> Codec:
    """Return a saver's codec: the given one, one around a serializer, or a new default one.

    Args:
        serde: the same under LangGraph's name; its own serializers are replaced by codecs.
        compress_above: for the codec in place of LangGraph's default serializer.
    Raises:
        InvalidConfigError: it is neither a codec nor a serializer, or both are given, or a
            serializer of LangGraph's has settings that no codec has.
    """
    if serde is not None:
        if given is not None:
            raise InvalidConfigError("both codec= and serde= were given", do="pass one of them")
        given = BRIDGE.adapt_serializer(serde, compress_above)
    # A JsonPlusSerializer of `actorgraph.compat` has the codec that is meant.
    given = cast("Codec | SerializerProtocol | None", getattr(given, "own_codec", given))
    if given is None or isinstance(given, Codec):
        return given or Codec()
    if isinstance(given, type) or not isinstance(given, SerializerProtocol):
        raise InvalidConfigError(
            f"codec must be a Codec or have `dumps_typed` and `loads_typed`, got {given!r}",
            do="pass e.g. codec=Codec(types=[...]), or leave it out",
        )
    return SerializerCodec(given)


def refused_serializer() -> InvalidConfigError:
    """Return the error about a serializer of LangGraph's with settings that no codec has."""
    return InvalidConfigError(
        "a JsonPlusSerializer with pickle_fallback, allowed_json_modules or a hook of its own "
        "can't be used: nothing is pickled or imported by name here",
        do="leave serde= out; pass codec=Codec(types=[...]) with the classes that it would "
        "have pickled, and UntrackedValue for keys that can't be stored",
    )


def classes_named(named: Named) -> list[type]:
    """Return the classes that a program lets in, without those that need no letting in.

    Args:
        named: classes, or the parts of their names: (module, name). Modules are imported.
    Raises:
        InvalidConfigError: one doesn't exist.
    """
    found: list[type] = []
    for one in named:
        kind: Any = one
        if not isinstance(one, type):
            *module, name = one
            try:
                kind = getattr(import_module(".".join(module)), name)
            except (ImportError, AttributeError, ValueError):
                raise InvalidConfigError(
                    f"the serializer allows {'.'.join(one)}, which doesn't exist",
                    do="correct the name, or leave it out",
                ) from None
        if isinstance(kind, type) and extension_of(kind) is not None:
            found.append(kind)
    return found


class EncryptedSerializer(Codec):
    """A codec that encrypts with a cipher; pass it as a saver's `codec`.

    Args:
        cipher: see `CipherProtocol`.
        serde: a codec whose types are allowed; default one with no types of its own. LangGraph's
            default serializer is taken for that one.
        reads_plain: whether unencrypted values are read. Default False: they are refused.
    """

    def __init__(
        self,
        cipher: CipherProtocol,
        serde: Codec | SerializerProtocol | None = None,
        *,
        reads_plain: bool = False,
    ) -> None:
        types = () if serde is None else codec_of(None, serde).types
        super().__init__(types, cipher=cipher, reads_plain=reads_plain)

    @classmethod
    def from_pycryptodome_aes(
        cls,
        serde: Codec | SerializerProtocol | None = None,
        *,
        key: bytes | None = None,
        reads_plain: bool = False,
    ) -> Self:
        """Make one with a single AES key.

        The name is LangGraph's; the package used is `cryptography`. Values that LangGraph has
        encrypted can't be read.

        Args:
            key: 16, 24 or 32 bytes; default: the text of the environment variable
                ACTORGRAPH_AES_KEY, else of LANGGRAPH_AES_KEY.
        Raises:
            InvalidConfigError: no key, or one of another size.
            MissingExtraError: `cryptography` isn't installed.
        """
        cipher = AesCipher({"aes": key_of_environment() if key is None else key})
        return cls(cipher, serde, reads_plain=reads_plain)


_NUMBER = Struct(">Q")


class ReferenceCodec(Codec):
    """Payloads are numbers of objects that this codec keeps for as long as it lives.

    For states that can't be encoded, e.g. with functions or connections. A node that mutates an
    object later changes the saved value, too.
    """

    def __init__(self) -> None:
        super().__init__()
        self._numbers = count(1)
        self._kept: dict[bytes, Any] = {}

    def encode(self, value: Any, path: str = "value", place: Place = NOWHERE) -> bytes:
        """Keep the value and return its number. A list is kept as a copy of its items now."""
        payload = _NUMBER.pack(next(self._numbers))
        self._kept[payload] = list(value) if type(value) is list else value
        return payload

    def decode(self, payload: bytes, place: Place = NOWHERE) -> Any:
        """Return the object itself.

        Raises:
            SerializationError: this codec doesn't have it.
        """
        if payload not in self._kept:
            raise SerializationError(
                "a stored value is not one of those that this saver keeps",
                do="use threads of a saver with copy='none' with that saver alone",
            )
        return self._kept[payload]

    def count(self, payload: bytes, place: Place = NOWHERE) -> int:
        """Count the items of an encoded list."""
        return len(self.decode(payload, place))

    @property
    def at_rest(self) -> Codec:
        """A codec that encodes as bytes, for caches."""
        return Codec(self.types)
