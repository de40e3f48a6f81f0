"""Codec: encode one value as bytes and decode it, exactly or not at all.

Plain data is msgpack, in C. ormsgpack calls `default` for all other types: a known one
becomes an extension (`codec.stored_types`). Of the rest some are replaced by plain values
(`codec.subclasses`), data classes of the program are let in, and any other is an error with its
path. Decoding builds known types alone (`codec.known_types`). Encryption and
compression (`codec.encryption`) and the JSON form (`codec.json_form`) are applied to the finished
bytes. Decoding is bounded (`codec.bounds`), since the bytes may be damaged or hostile.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Any, Self

import ormsgpack

from actorgraph.bridging import BRIDGE
from actorgraph.codec.advice import UNDECLARABLE, has_pair, shortened
from actorgraph.codec.bounds import LARGE, CopyBudget, build_dict, check_copies, counting_hook, ext
from actorgraph.codec.buffers import BIN8, BIN16, BIN32, OPTIONS, refuse_buffers
from actorgraph.codec.building import build_named, upgraded
from actorgraph.codec.converters import Converter, ConverterPair, Converters
from actorgraph.codec.decode_errors import (
    check_codec,
    check_signatures,
    checked_text,
    damaged_error,
    notify_blocked,
    other_class_error,
    refused_error,
    two_classes_error,
    unknown_extension_error,
    unknown_type_error,
    unstorable_error,
)
from actorgraph.codec.encryption import (
    MARK,
    NO_ENVELOPE,
    NOWHERE,
    AesCipher,
    CipherProtocol,
    Envelope,
    Place,
)
from actorgraph.codec.json_form import Form, is_json, to_json, to_msgpack, writes_json
from actorgraph.codec.known_types import (
    declared,
    find_below,
    has_other_stored,
    is_below,
    names_subclasses,
    remember,
    stored,
    warn_undeclared,
)
from actorgraph.codec.library_types import library_type
from actorgraph.codec.list_cache import ListCache
from actorgraph.codec.stored_types import (
    CONVERTED,
    EXTENSIONS,
    PAIRS,
    SUBCLASS,
    Extension,
    Packed,
    builtin_of,
    extension_of,
    name_of,
)
from actorgraph.codec.subclasses import plain_value
from actorgraph.errors import InvalidConfigError, SerializationError, UnknownTypeError
from actorgraph.errors.overrides import overridden_methods
from actorgraph.errors.texts import value_repr

_unpack = ormsgpack.unpackb
_PLAIN = (type(None), bool, int, float, str, bytes)


class Codec:
    """Encodes and decodes values.

    Args:
        types: the program's types that are stored and read, with their subclasses: dataclasses,
            pydantic models, msgspec.Structs, enums, named tuples, subclasses of built-in types,
            and `re.Pattern`. Those in a graph's schema are added by `compile`.
        converters: types of other packages -> `(to_plain, from_plain)`, functions that turn a
            value into plain data and back, or a `Converter`. For values of exactly these types.
        keys: encrypt every value with AES-GCM: key id -> key of 32 bytes. The first key encrypts,
            and each decrypts the values written with it. Names (threads, nodes, channels), metadata
            and the shape of a run stay readable. Needs the extra `encryption`.
        cipher: encrypt with this instead of `keys`.
        compress_above: bytes above which a value is compressed; None (default) compresses none.
            Compressed values are always read.
        reads_plain: with a key: whether unencrypted values are read, for threads begun before
            there was a key. Default False: they are refused.
        form: "json" stores values as JSON text; "msgpack" (default) is smaller and faster. Both
            are always read.
        strict: whether values of undeclared types are refused. Default False: those of the kinds
            above are stored with a warning, since only this process can read them.
    Raises:
        SerializationError: a type is none of those kinds.
        GraphBuildError: a subclass overrides `encode` or `decode` with other parameters.
        InvalidConfigError: a key has a wrong size, both `keys` and `cipher` are given, or a
            converter can't work (see `Converters`).
        MissingExtraError: `keys` without the package `cryptography`.
    """

    def __init_subclass__(cls, **more: Any) -> None:
        """Refuse a subclass that overrides only methods that storing doesn't call.

        Raises:
            GraphBuildError: it overrides `dumps_typed` or `loads_typed` alone.
        """
        super().__init_subclass__(**more)
        check_codec(cls)

    def __init__(
        self,
        types: Iterable[type] = (),
        *,
        converters: Mapping[type, Converter | ConverterPair] | None = None,
        keys: Mapping[str, bytes] | None = None,
        cipher: CipherProtocol | None = None,
        compress_above: int | None = None,
        reads_plain: bool = False,
        form: Form = "msgpack",
        strict: bool = False,
    ) -> None:
        check_signatures(type(self))
        self._json = writes_json(form)
        if keys is not None:
            if cipher is not None:
                raise InvalidConfigError("both keys= and cipher= were given", do="pass one of them")
            cipher = AesCipher(keys)
        self._envelope: Envelope | None = None
        if cipher is not None or compress_above is not None:
            self._envelope = Envelope(cipher, compress_above, reads_plain=reads_plain)
        self._converters = Converters(converters)
        self.converted = self._converters.by_type
        self._checks = True
        self._types: dict[str, type] = {}
        self._bases: tuple[type, ...] = ()
        self._strict, self._lasting = strict, True
        self._upgrades: Mapping[str, Callable[[Any], Any]] = {}
        self._lists = ListCache()
        # A value that was stored before its type had a converter is read as it was stored.
        self._allow(kind for kind in self.converted if extension_of(kind) is not None)
        self._allow(types)

    def _allow(self, types: Iterable[type]) -> None:
        for kind in types:
            if extension_of(kind) is None:
                raise SerializationError(
                    f"type {kind!r} can't be put on the codec's allow-list",
                    do=UNDECLARABLE,
                )
            self._types[name_of(kind)] = kind

    @property
    def types(self) -> tuple[type, ...]:
        """The program's types on the allow-list."""
        return tuple(self._types.values())

    @property
    def encrypts(self) -> bool:
        """Whether stored values are encrypted."""
        return self._envelope is not None and self._envelope.cipher is not None

    @property
    def encodes_all(self) -> bool:
        """Whether even small integers must go through `encode`, not inline into the record."""
        if type(self) is Codec:
            return self.encrypts
        return self.encrypts or bool(overridden_methods(type(self), ("encode", "decode")))

    @property
    def lists(self) -> ListCache | None:
        """The cache of decoded lists; None where each list must be decoded anew."""
        # Decrypted values are not kept in memory. Copies of what a subclass, a migration's function
        # or the converter of a data class returns may differ from a new decoding.
        own = type(self) is Codec and not any(map(extension_of, self.converted))
        return self._lists if own and not self._upgrades and not self.encrypts else None

    @property
    def at_rest(self) -> "Codec":
        """The codec for values that are stored as bytes, as in caches."""
        return self

    def check_plain(self) -> None:
        """Refuse unencrypted stored values, unless this codec has no key or `reads_plain`.

        Raises: EncryptionError.
        """
        if self._envelope is not None:
            self._envelope.check_plain()

    def reencrypt(self, payload: bytes, place: Place, target: Place) -> bytes:
        """Decrypt bytes that are stored at `place`, and encrypt them for `target`.

        With the key that encrypts now. Without a key the bytes are returned as they are.

        Raises: EncryptionError.
        """
        return payload if self._envelope is None else self._envelope.move(payload, place, target)

    def count(self, payload: bytes, place: Place = NOWHERE) -> int:
        """Count the items of an encoded list; their types needn't be on the allow-list.

        Raises: as `decode`.
        """
        plain = (NO_ENVELOPE if self._envelope is None else self._envelope).open(payload, place)
        try:
            if is_json(plain):
                plain = to_msgpack(plain, self._pack_read)
            return len(_unpack(plain, ext_hook=lambda _code, _data: None))
        except (TypeError, ValueError) as error:
            raise damaged_error(error) from error

    def _copy(self, **changed: Any) -> Self:
        made = copy(self)
        vars(made).update(changed, _lists=ListCache())
        return made

    def with_types(self, types: Iterable[type]) -> Self:
        """Return this codec with more types on its allow-list.

        Of a class that can't be stored itself the subclasses are allowed.
        """
        known = {*self._types.values(), *self._bases}
        more = [kind for kind in dict.fromkeys(types) if kind not in known]
        bases = [kind for kind in more if extension_of(kind) is None]
        own = [kind for kind in bases if names_subclasses(kind)]
        if len(more) == len(bases) and not own:
            return self
        made = self._copy(_types=dict(self._types), _bases=(*self._bases, *own))
        made._allow(kind for kind in more if kind not in bases)  # noqa: SLF001 - its own copy
        return made

    def for_this_process(self) -> Self:
        """Return this codec without warnings about types that only this process can read."""
        return self._copy(_lasting=False)

    def for_any_process(self) -> Self:
        """Return this codec, refusing types that only this process can read."""
        return self._copy(_strict=self._strict or self._lasting)

    def with_upgrades(self, upgrades: Mapping[str, Callable[[Any], Any]]) -> Self:
        """Return this codec with types, or functions, that take the data of older types.

        Args:
            upgrades: stored type name -> type or function; see `Migration.types`.
        """
        if not upgrades:
            return self
        made = self._copy(_upgrades={**self._upgrades, **upgrades})
        return made.with_types([kind for kind in upgrades.values() if isinstance(kind, type)])

    def in_form(self, form: Form) -> Self:
        """Return this codec, writing another form."""
        return self._copy(_json=writes_json(form))

    def encode(self, value: Any, path: str = "value", place: Place = NOWHERE) -> bytes:
        """Encode a value as the bytes to store.

        Args:
            path: what the value is, for the error's text.
            place: where it will be stored; an encrypted value can be decrypted only there.
        Raises:
            SerializationError: something in it can't be stored exactly.
        """
        try:
            # As in `_pack`: written out here, where every stored value passes.
            payload = ormsgpack.packb(value, default=self._default, option=OPTIONS)
            if BIN8 in payload or BIN16 in payload or BIN32 in payload:
                refuse_buffers(value)
        except (TypeError, ormsgpack.MsgpackEncodeError):
            payload = self._encode_slowly(value, path)
        packed = payload
        if self._json:
            payload = to_json(payload)
        if len(packed) > LARGE:
            check_copies(packed, len(payload), path)
        return payload if self._envelope is None else self._envelope.close(payload, place)

    @property
    def unsealed(self) -> Self | None:
        """This codec without compression and encryption, for parts of a payload that has them.

        None if a subclass encodes in another way: then only whole payloads can be encoded.
        """
        if (type(self).encode, type(self).decode) != (Codec.encode, Codec.decode):
            return None
        return self if self._envelope is None else self._copy(_envelope=None)

    def seal(self, payload: bytes, place: Place) -> bytes:
        """Compress and encrypt what the `unsealed` codec has encoded, as `encode` does."""
        return payload if self._envelope is None else self._envelope.close(payload, place)

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Encode a value; returns form and bytes, as LangGraph's serializers do.

        Raises: as `encode`.
        """
        return "actorgraph", self.encode(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode what `dumps_typed` returned.

        Raises:
            SerializationError: another serializer wrote it. Others: as `decode`.
        """
        form, payload = data
        if form != "actorgraph":
            raise SerializationError(
                f"a stored value has the form {form!r}, which another serializer wrote",
                do="read it with that serializer; actorgraph.migrate moves LangGraph's threads",
            )
        return self.decode(payload)

    def encode_plainly(self, value: Any) -> bytes:
        """Encode a value without compression and encryption, so that equal values give equal bytes.

        For hashes; don't store these bytes.

        Raises: as `encode`.
        """
        try:
            return self._pack(value)
        except (TypeError, ormsgpack.MsgpackEncodeError):
            return self.for_this_process()._encode_slowly(value, "value")  # noqa: SLF001

    def decode(self, payload: bytes, place: Place = NOWHERE) -> Any:
        """Decode stored bytes.

        Args:
            place: the one that the value was encoded for.
        Raises:
            UnknownTypeError: the value has a type that is not on the allow-list.
            EncryptionError: it can't be decrypted, was encrypted for another place, or is not
                encrypted and must be.
            SerializationError: the bytes are damaged.
        """
        if self._envelope is not None:
            payload = self._envelope.open(payload, place)
        hook = (
            self._extension
            if len(payload) <= LARGE
            else counting_hook(self._extension, len(payload))
        )
        try:
            value = _unpack(payload, ext_hook=hook)
            # JSON's first byte, read as msgpack, is a small integer: the one check per value.
            if type(value) is int and is_json(payload):
                payload = to_msgpack(payload, self._pack_read)
                value = _unpack(payload, ext_hook=counting_hook(self._extension, len(payload)))
        except Exception as error:
            # Without settings the codec has no envelope to ask first. No msgpack begins with MARK,
            # so compressed values of another codec fail, and are opened here, at no cost to others.
            if self._envelope is None and payload[:1] == MARK:
                payload = NO_ENVELOPE.open(payload, place)
                if payload[:1] != MARK:
                    return self.decode(payload)
            raise self._decode_error(payload, error) from error
        return value

    def _decode_error(self, payload: bytes, error: Exception) -> Exception:
        """Find why decoding failed: ormsgpack drops what its hook raised, so decode once more."""
        raised: list[Exception] = []
        copies = CopyBudget(len(payload))

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
                notify_blocked(reason.type_name)
            return reason
        return damaged_error(reason)

    def _default(self, value: Any) -> ormsgpack.Ext:
        kind = type(value)
        if kind is Packed:
            return ext(value.code, value.payload)
        known = builtin_of(kind)
        if known is not None:
            return ext(known.code, self._pack(known.pack(value)))
        if kind in self.converted:
            return ext(CONVERTED.code, self._pack_converted(value, self._converters.form(value)))
        if not self._knows(kind):
            plain = plain_value(value) if self._becomes_plain(kind) else value
            if plain is value:
                msg = f"type {name_of(kind)!r} is not on the codec's allow-list"
                raise TypeError(msg)
            # Its content is packed here, not by a call of `_pack` that would look for buffers.
            refuse_buffers(plain)
            return plain
        extension = extension_of(kind)
        assert extension is not None
        return ext(extension.code, self._pack([name_of(kind), extension.pack(value)]))

    def _knows(self, kind: type) -> bool:
        """Whether values of a type are stored as such, and can be read in this process."""
        name = name_of(kind)
        # Compared as classes: another class of the same name would be decoded as this one.
        own = self._types.get(name) or library_type(name)
        if own is not None:
            return own is kind
        known, before = declared(name), stored(name)
        if known is None:
            return before is kind and not self._strict
        return known is kind and (before is None or before is kind)

    def _let_in(self, kind: type, path: str) -> Extension | None:
        """Let a type in whose value the program stores, if it is one that can be declared.

        Returns: how it is stored; None if it is refused.
        Raises:
            SerializationError: another class of its name is declared, or has values in a store.
        Warns:
            UndeclaredTypeWarning: once for each type that another process wouldn't know.
        """
        name, extension = name_of(kind), extension_of(kind)
        if extension is None or name in BRIDGE.refused_types:
            return None
        if self._knows(kind):
            return extension
        known = self._types.get(name) or library_type(name) or declared(name)
        other = (known is not None and known is not kind) or has_other_stored(kind)
        if not other and not is_below(kind, (*self._types.values(), *self._bases)):
            if self._strict or has_pair(kind):
                return None
            if self._lasting:
                warn_undeclared(kind, path)
        if other or remember(kind) is not kind:  # another thread may have been faster
            raise other_class_error(name, path)
        return extension

    def _pack(self, value: Any) -> bytes:
        payload = ormsgpack.packb(value, default=self._default, option=OPTIONS)
        # ormsgpack packs buffers as bytes without asking `default`. A scan of the payload is far
        # cheaper than a walk through each value.
        if BIN8 in payload or BIN16 in payload or BIN32 in payload:
            refuse_buffers(value)
        return payload

    def _pack_read(self, value: Any) -> bytes:
        """Pack a value read from JSON, which can't hold a buffer."""
        return ormsgpack.packb(value, default=self._default, option=OPTIONS)

    def _extension(self, code: int, payload: bytes, copies: CopyBudget | None = None) -> Any:
        try:
            extension = EXTENSIONS[code]
        except KeyError:
            raise unknown_extension_error(code) from None
        hook = self._extension if copies is None else copies.spend(len(payload))
        plain = _unpack(payload, ext_hook=hook)
        if not extension.named:
            return extension.build(None, plain)
        name, data = plain
        upgrade = self._upgrades.get(name)
        if extension is CONVERTED:
            if upgrade is None or isinstance(upgrade, type):
                return self._converters.build(name, data, upgrade)
            data = data[1]
        if upgrade is not None and not isinstance(upgrade, type):
            return upgraded(upgrade, name, data)
        kind = upgrade or self._types.get(name) or library_type(name) or self._other_type(name)
        if kind is None:
            raise unknown_type_error(name, self._types)
        return build_named(extension, kind, name, data, migrated=upgrade is not None)

    def _other_type(self, name: str) -> type | None:
        """Return the type with this stored name that the process knows besides the codec's own.

        Raises:
            UnknownTypeError: it knows two, and the value may be of either.
        """
        bases = (*self._types.values(), *self._bases)
        kind, before = declared(name), stored(name)
        if self._strict and before is not None and not is_below(before, bases):
            before = None  # another codec has stored it
        if kind is not None and before is not None and before is not kind:
            raise two_classes_error(name)
        kind = kind or before
        if kind is None:
            kind = find_below(name, bases)
            if kind is not None:
                remember(kind)
        return kind

    def _encode_slowly(self, value: Any, path: str) -> bytes:
        """Encode with dicts whose keys aren't text as pairs; else raise with the culprit's path."""
        rewritten = self._to_packable(value, path, 0)
        try:
            return self._pack(rewritten)
        except (TypeError, ormsgpack.MsgpackEncodeError) as error:
            raise SerializationError(
                f"{path} can't be stored: {error}", do="store plain data in the state"
            ) from error

    def _to_packable(self, value: Any, path: str, depth: int) -> Any:
        if depth > 200:
            raise SerializationError(
                f"{shortened(path)} is nested more than 200 levels deep, or contains itself",
                do="store plain, shallow data in the state",
            )
        kind = type(value)
        if kind is str:
            return checked_text(value, path)
        if kind in _PLAIN:
            return value
        if kind is list:
            return [self._to_packable(v, f"{path}[{i}]", depth + 1) for i, v in enumerate(value)]
        if kind is dict:
            return self._dict_to_packable(value, path, depth)
        if kind in self.converted:
            return self._converted_to_packable(value, path, depth)
        inner, plain = builtin_of(kind), value
        try:
            if inner is None and not self._knows(kind) and self._becomes_plain(kind):
                plain = plain_value(value)
        except Exception as error:
            raise refused_error(value, path, error) from error
        if plain is not value:
            return self._to_packable(plain, path, depth + 1)
        inner = inner or self._let_in(kind, path)
        if inner is None:
            raise unstorable_error(value, path, self._converters.base_of(kind))
        try:
            data = inner.pack(value)
        except Exception as error:
            raise refused_error(value, path, error) from error
        packed = self._to_packable(data, path, depth + 1)
        plain = [name_of(kind), packed] if inner.named else packed
        return Packed(inner.code, self._pack(plain))

    def _converted_to_packable(self, value: Any, path: str, depth: int) -> Packed:
        try:
            name, (version, data) = self._converters.form(value)
            form = [name, [version, self._to_packable(data, path, depth + 1)]]
            return Packed(CONVERTED.code, self._pack_converted(value, form))
        except SerializationError:  # of a part, which it names
            raise
        except Exception as error:
            raise refused_error(value, path, error, converted=True) from error

    def _pack_converted(self, value: Any, form: list[Any]) -> bytes:
        payload = self._pack(form)
        if self._checks:
            read = partial(_unpack, payload, ext_hook=self._extension)
            self._converters.check(value, read, self._encode_unchecked)
        return payload

    def _encode_unchecked(self, value: Any) -> bytes:
        return self._copy(_checks=False).encode_plainly(value)

    def _dict_to_packable(self, value: dict[Any, Any], path: str, depth: int) -> Any:
        if not all(type(key) is str for key in value):
            value = {self._plain_key(key): item for key, item in value.items()}
        if all(type(key) is str for key in value):
            return {
                checked_text(k, path): self._to_packable(v, f"{path}[{k!r}]", depth + 1)
                for k, v in value.items()
            }
        pairs = [
            [
                self._to_packable(k, f"{path} key {shown}", depth + 1),
                self._to_packable(v, f"{path}[{shown}]", depth + 1),
            ]
            for k, v, shown in ((k, v, value_repr(k)) for k, v in value.items())
        ]
        try:
            build_dict(list(value.items()), storing=True)
        except ValueError as error:
            raise SerializationError(
                f"{path} can't be stored: {error}", do="store plain data in the state"
            ) from error
        return Packed(PAIRS, self._pack(pairs))

    def _plain_key(self, key: Any) -> Any:
        kind = type(key)
        if kind in _PLAIN or builtin_of(kind) or self._knows(kind) or not self._becomes_plain(kind):
            return key
        return plain_value(key)

    def _becomes_plain(self, kind: type) -> bool:
        """Whether values of a class that isn't known are stored as the text, number or dict that
        they are: those of other data classes, and below a declared class, keep their type."""
        if kind in self.converted or has_pair(kind) or extension_of(kind) not in (None, SUBCLASS):
            return False
        return not is_below(kind, (*self._types.values(), *self._bases))
