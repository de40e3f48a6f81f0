"""The codec: msgpack of plain data plus an allow-list of types. Data, never code.

Encoding is exact or refused: what comes back is equal and of the same type. A tuple stays a
tuple. A type that is not on the list fails with the path of the value. Decoding imports
nothing, and constructs only types on the list; an unknown name is an error.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import copy
from typing import Any, Self

import ormsgpack

from actorgraph.codec.bounds import LARGE, Copies, check_packed, counting, ext, mapping
from actorgraph.codec.buffers import holds_buffer
from actorgraph.codec.ciphers import AesCipher
from actorgraph.codec.declared import declared
from actorgraph.codec.envelope import MARK, NONE, CipherProtocol, Envelope
from actorgraph.codec.events import tell_blocked
from actorgraph.codec.json_form import Form, is_json, to_json, to_msgpack, writes_json
from actorgraph.codec.messages import message_kind
from actorgraph.codec.places import NOWHERE, Place
from actorgraph.codec.refusals import check_codec, checked_text, damaged, newer, unknown
from actorgraph.codec.remembered import RememberedLists
from actorgraph.codec.types import EXTENSIONS, PAIRS, Packed, builtin_of, extension_of, name_of
from actorgraph.errors import (
    InvalidConfigError,
    SerializationError,
    UnknownTypeError,
)
from actorgraph.errors.replacing import replaced

_BINARY = re.compile(b"[\xc4-\xc6]")
"""The first bytes of binary data in msgpack, and of whatever else has them by chance."""

_OPTIONS = (
    ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_UUID
    | ormsgpack.OPT_PASSTHROUGH_BIG_INT
)
_unpack = ormsgpack.unpackb
_PLAIN = (type(None), bool, int, float, str, bytes)


class Codec:
    """Encodes and decodes values.

    Args:
        types: the user's types that may be stored: dataclasses, pydantic models,
            msgspec.Structs, enums and named tuples. Those in a graph's schema are added by
            `compile`.
        keys: encrypt every value with AES-GCM: key id -> key of 32 bytes. The first key encrypts,
            each decrypts what was written with it. Names (threads, nodes, channels), metadata and
            the shape of a run stay readable. Needs the extra `encryption`.
        cipher: encrypt with this instead of `keys`.
        compress_above: bytes above which a value is compressed; None (default) compresses none.
            Compressed values are read whatever this is.
        reads_plain: with a key: whether values that aren't encrypted are read, for threads begun
            before there was one. Default False: they are refused.
        form: "json" stores values as JSON text; "msgpack" (default) is smaller and faster.
    Raises:
        SerializationError: a type is none of these.
        InvalidConfigError: a key has a wrong size, or both `keys` and `cipher` are given.
        MissingExtraError: `keys` without the package `cryptography`.
    """

    def __init_subclass__(cls, **more: Any) -> None:
        """Refuse a subclass that overrides methods by which no value is stored."""
        super().__init_subclass__(**more)
        check_codec(cls)

    def __init__(
        self,
        types: Iterable[type] = (),
        *,
        keys: Mapping[str, bytes] | None = None,
        cipher: CipherProtocol | None = None,
        compress_above: int | None = None,
        reads_plain: bool = False,
        form: Form = "msgpack",
    ) -> None:
        self._json = writes_json(form)
        if keys is not None:
            if cipher is not None:
                raise InvalidConfigError("`keys` and `cipher` are given", do="pass one of them")
            cipher = AesCipher(keys)
        self._envelope: Envelope | None = None
        if cipher is not None or compress_above is not None:
            self._envelope = Envelope(cipher, compress_above, reads_plain=reads_plain)
        self._types: dict[str, type] = {}
        self._upgrades: Mapping[str, Callable[[Any], Any]] = {}
        self._lists = RememberedLists()
        self._allow(types)

    def _allow(self, types: Iterable[type]) -> None:
        for kind in types:
            if extension_of(kind) is None:
                raise SerializationError(
                    f"type {kind!r} can't be put on the codec's list",
                    do="use a dataclass, pydantic model, msgspec.Struct, enum or NamedTuple",
                )
            self._types[name_of(kind)] = kind

    @property
    def types(self) -> tuple[type, ...]:
        """The user's types on its list."""
        return tuple(self._types.values())

    @property
    def encrypts(self) -> bool:
        """Whether stored values are encrypted."""
        return self._envelope is not None and self._envelope.cipher is not None

    @property
    def encodes_all(self) -> bool:
        """Whether small numbers too are stored as `encode` makes them, not in the record."""
        return self.encrypts or bool(replaced(type(self), ("encode", "decode")))

    @property
    def lists(self) -> RememberedLists | None:
        """The lists that it has decoded lately; None where each is to be decoded anew."""
        # No secrets are kept readable, and what a subclass makes may be anything.
        plain = type(self) is Codec and not self._upgrades and not self.encrypts
        return self._lists if plain else None

    @property
    def at_rest(self) -> "Codec":
        """The codec for bytes that are kept as bytes, as in caches: itself."""
        return self

    def check_plain(self) -> None:
        """Refuse a value that stands readable in a record, unless this codec reads such.

        Raises: EncryptionError.
        """
        if self._envelope is not None:
            self._envelope.check_plain()

    def moved(self, payload: bytes, place: Place, target: Place) -> bytes:
        """The bytes to store at `target` for those of `encode` that stand at `place`.

        Raises: EncryptionError.
        """
        return payload if self._envelope is None else self._envelope.move(payload, place, target)

    def count(self, payload: bytes, place: Place = NOWHERE) -> int:
        """How many items the encoded list has; its types needn't be on the list.

        Raises: as `decode`.
        """
        plain = (NONE if self._envelope is None else self._envelope).open(payload, place)
        try:
            if is_json(plain):
                plain = to_msgpack(plain, self._pack_read)
            return len(_unpack(plain, ext_hook=lambda _code, _data: None))
        except (TypeError, ValueError) as error:
            raise damaged(error) from error

    def _twin(self) -> Self:
        made = copy(self)
        made._lists = RememberedLists()  # noqa: SLF001 - its own copy
        return made

    def with_types(self, types: Iterable[type]) -> Self:
        """This codec with more types on its list."""
        known = self._types.values()
        more = [kind for kind in types if kind not in known]
        if not more:
            return self
        made = self._twin()
        made._types = dict(self._types)  # noqa: SLF001 - its own copy
        made._allow(more)  # noqa: SLF001 - its own copy
        return made

    def with_upgrades(self, upgrades: Mapping[str, Callable[[Any], Any]]) -> Self:
        """This codec with types, or functions, that take what older types have stored.

        Args:
            upgrades: see `Migration.types`.
        """
        if not upgrades:
            return self
        made = self._twin()
        made._upgrades = {**self._upgrades, **upgrades}  # noqa: SLF001 - its own copy
        return made.with_types([kind for kind in upgrades.values() if isinstance(kind, type)])

    def in_form(self, form: Form) -> Self:
        """This codec, writing another form."""
        made = self._twin()
        made._json = writes_json(form)  # noqa: SLF001 - its own copy
        return made

    def encode(self, value: Any, path: str = "value", place: Place = NOWHERE) -> bytes:
        """The bytes to store for a value.

        Args:
            path: what the value is, for the error's text.
            place: where it will stand; an encrypted value can be read there only.
        Raises:
            SerializationError: something in it can't be stored exactly.
        """
        try:
            payload = self._pack(value)
        except (TypeError, ormsgpack.MsgpackEncodeError) as error:
            payload = self._encode_slowly(value, path, error)
        packed = payload
        if self._json:
            payload = to_json(payload)
        if len(packed) > LARGE:
            check_packed(packed, len(payload), path)
        return payload if self._envelope is None else self._envelope.close(payload, place)

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The form and the bytes of a value, as LangGraph's serializers give them.

        Raises: as `encode`.
        """
        return "actorgraph", self.encode(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value of what `dumps_typed` gave.

        Raises:
            SerializationError: the form is another one. Others: as `decode`.
        """
        form, payload = data
        if form != "actorgraph":
            raise SerializationError(
                f"a stored value has the form {form!r}, which another serializer made",
                do="read it with that one; actorgraph.migrate moves LangGraph's threads",
            )
        return self.decode(payload)

    def encode_plainly(self, value: Any) -> bytes:
        """The bytes of a value, neither compressed nor encrypted: equal values, equal bytes.

        For hashes; these bytes are not to be stored.

        Raises: as `encode`.
        """
        try:
            return self._pack(value)
        except (TypeError, ormsgpack.MsgpackEncodeError) as error:
            return self._encode_slowly(value, "value", error)

    def decode(self, payload: bytes, place: Place = NOWHERE) -> Any:
        """The value of some bytes.

        Args:
            place: the one that it was encoded for.
        Raises:
            UnknownTypeError: it names a type that is not on the list.
            EncryptionError: it can't be decrypted, was encrypted for another place, or is not
                encrypted and must be.
            SerializationError: the bytes are damaged.
        """
        if self._envelope is not None:
            payload = self._envelope.open(payload, place)
        hook = self._extension if len(payload) <= LARGE else counting(self._extension, len(payload))
        try:
            value = _unpack(payload, ext_hook=hook)
            if type(value) is int and is_json(payload):  # its first byte, read as msgpack
                payload = to_msgpack(payload, self._pack_read)
                value = _unpack(payload, ext_hook=counting(self._extension, len(payload)))
        except Exception as error:
            # Only a codec without settings gets here with an envelope, and is not slower for it.
            if self._envelope is None and payload[:1] == MARK:
                payload = NONE.open(payload, place)
                if payload[:1] != MARK:
                    return self.decode(payload)
            raise self._why(payload, error) from error
        return value

    def _why(self, payload: bytes, error: Exception) -> Exception:
        """The reason of a failure: ormsgpack forgets what its hook raised, so decode again."""
        raised: list[Exception] = []
        copies = Copies(len(payload))

        def extension(code: int, data: bytes) -> Any:
            try:
                return self._extension(code, data, copies)
            except Exception as inner:
                raised.append(inner)
                raise

        copies.hook = extension
        with suppress(Exception):
            _unpack(payload, ext_hook=extension)
        reason = raised[0] if raised else error
        if isinstance(reason, UnknownTypeError):
            if reason.type_name:
                tell_blocked(reason.type_name)
            return reason
        return damaged(reason)

    def _default(self, value: Any) -> ormsgpack.Ext:
        kind = type(value)
        if kind is Packed:
            return ext(value.code, value.payload)
        known = builtin_of(kind)
        if known is not None:
            return ext(known.code, self._pack(known.pack(value)))
        if not self._allows(kind):
            msg = f"type {name_of(kind)!r} is not on the codec's list"
            raise TypeError(msg)
        extension = extension_of(kind)
        assert extension is not None
        return ext(extension.code, self._pack([name_of(kind), extension.pack(value)]))

    def _allows(self, kind: type) -> bool:
        name = name_of(kind)
        known = self._types.get(name) or message_kind(name)
        return known is kind or declared(name) is kind

    def _pack(self, value: Any) -> bytes:
        payload = ormsgpack.packb(value, default=self._default, option=_OPTIONS)
        if _BINARY.search(payload) is not None and holds_buffer(value):
            msg = "a bytearray or memoryview would come back as bytes"
            raise TypeError(msg)
        return payload

    def _pack_read(self, value: Any) -> bytes:
        """Pack what was read from JSON: it holds no buffer that must be looked for."""
        return ormsgpack.packb(value, default=self._default, option=_OPTIONS)

    def _extension(self, code: int, payload: bytes, copies: Copies | None = None) -> Any:
        try:
            extension = EXTENSIONS[code]
        except KeyError:
            raise newer(code) from None
        hook = self._extension if copies is None else copies.spend(len(payload))
        plain = _unpack(payload, ext_hook=hook)
        if not extension.named:
            return extension.build(None, plain)
        name, data = plain
        if self._upgrades and name in self._upgrades:
            upgrade = self._upgrades[name]
            return extension.build(upgrade, data) if isinstance(upgrade, type) else upgrade(data)
        kind = self._types.get(name) or message_kind(name) or declared(name)
        if kind is None:
            raise unknown(name, self._types)
        return extension.build(kind, data)

    def _encode_slowly(self, value: Any, path: str, error: Exception) -> bytes:
        """Try again with dicts whose keys aren't text made into pairs; else name the culprit."""
        rewritten = self._rewrite(value, path, 0)
        try:
            return self._pack(rewritten)
        except (TypeError, ormsgpack.MsgpackEncodeError) as again:
            raise SerializationError(
                f"{path} can't be stored: {again or error}", do="store plain data in the state"
            ) from again

    def _rewrite(self, value: Any, path: str, depth: int) -> Any:
        if depth > 200:
            raise SerializationError(
                f"{path} is nested more than 200 levels deep, or contains itself",
                do="store plain, shallow data in the state",
            )
        kind = type(value)
        if kind is str:
            return checked_text(value, path)
        if kind in _PLAIN:
            return value
        if kind is list:
            return [self._rewrite(v, f"{path}[{i}]", depth + 1) for i, v in enumerate(value)]
        if kind is dict:
            return self._rewrite_dict(value, path, depth)
        inner = builtin_of(kind)
        if inner is None and self._allows(kind):
            inner = extension_of(kind)
        if inner is None:
            raise SerializationError(
                f"{path} has the type {name_of(kind)!r}, which can't be stored",
                do="store plain data; or allow the type: annotate a state key, or the return of a "
                "@task, with it, or pass codec=Codec(types=[...]) to the saver; UntrackedValue "
                "keeps it out of checkpoints",
            )
        try:
            data = inner.pack(value)
        except Exception as error:
            raise SerializationError(
                f"{path} of type {name_of(kind)!r} can't be stored: {error}",
                do="store plain data in the state",
            ) from error
        packed = self._rewrite(data, path, depth + 1)
        plain = [name_of(kind), packed] if inner.named else packed
        return Packed(inner.code, self._pack(plain))

    def _rewrite_dict(self, value: dict[Any, Any], path: str, depth: int) -> Any:
        if all(type(key) is str for key in value):
            return {
                checked_text(k, path): self._rewrite(v, f"{path}[{k!r}]", depth + 1)
                for k, v in value.items()
            }
        pairs = [
            [
                self._rewrite(k, f"{path} key {k!r}", depth + 1),
                self._rewrite(v, f"{path}[{k!r}]", depth + 1),
            ]
            for k, v in value.items()
        ]
        try:
            mapping(list(value.items()), storing=True)
        except ValueError as error:
            raise SerializationError(
                f"{path} can't be stored: {error}", do="store plain data in the state"
            ) from error
        return Packed(PAIRS, self._pack(pairs))
