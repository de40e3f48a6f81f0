"""Codecs besides the default one, the choice between them, and rows that are encrypted again."""

from typing import Any

import pytest
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer as TheirEncrypted
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from actorgraph.codec import Codec, EncryptedSerializer, SerializerProtocol
from actorgraph.codec.encryption import input_of, items_at, value_at, writes_of
from actorgraph.codec.records import frame, frames
from actorgraph.codec.reencryption import ThreadResealer
from actorgraph.codec.serializers import ReferenceCodec, SerializerCodec, codec_of
from actorgraph.errors import EncryptionError, InvalidConfigError, SerializationError
from actorgraph.values.commits import LedgerRow
from tests.codec.shapes import Note

K1, K2 = b"1" * 32, b"2" * 32


class Reversing:
    """A serializer of the program's own, for text and lists of text."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The text backwards."""
        if not isinstance(obj, str | list):
            raise TypeError("only text")
        return (
            ("täxt", obj[::-1].encode()) if isinstance(obj, str) else ("list", repr(obj).encode())
        )

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The text forwards."""
        form, payload = data
        if form == "täxt":
            return payload.decode()[::-1]
        if form == "list":
            return payload.decode().strip("[]").replace("'", "").split(", ")
        raise ValueError("other " + form)


class TestSerializers:
    def test_the_form_is_stored_with_the_bytes(self):
        """
        A serializer's form is in front of its bytes, behind its length of two bytes.
        """
        codec = SerializerCodec(Reversing())

        assert codec.encode("abc") == b"\0\x05" + "täxt".encode() + b"cba"
        assert codec.decode(codec.encode("abc")) == "abc"
        assert codec.decode(codec.encode("")) == ""
        assert codec.count(codec.encode(["a", "b", "c"])) == 3
        assert codec.encodes_all

    def test_refusals(self):
        """
        A value that the serializer refuses is named, with its own reason.
        """
        codec = SerializerCodec(Reversing())
        with pytest.raises(SerializationError) as refused:
            codec.encode(7, "state['n']")
        assert refused.value.what == ("state['n'] can't be stored: Reversing refuses it: only text")
        assert refused.value.do == (
            "store what the serializer takes; UntrackedValue keeps a value out"
        )
        with pytest.raises(SerializationError, match=r"^value can't be stored"):
            codec.encode(7)

    @pytest.mark.parametrize(
        ("payload", "reason"),
        [
            (b"\0\x03abcxyz", "other abc"),
            (b"", "other "),
            (b"\0", "other "),
            (b"\0\x09abc", "other abc"),
        ],
    )
    def test_foreign_bytes(self, payload, reason):
        """
        Bytes that the serializer can't read are named, also cut ones.
        """
        with pytest.raises(SerializationError) as refused:
            SerializerCodec(Reversing()).decode(payload)

        assert refused.value.what == (f"a stored value can't be read by Reversing: {reason}")
        assert refused.value.do == "use the serializer that wrote the thread"

    def test_which_codec_a_saver_has(self):
        """
        A saver has the codec that it is given, one around a serializer, or a new one.
        """
        given, serializer = Codec([Note]), Reversing()
        wrapped = codec_of(serializer)

        assert codec_of(given) is given
        assert type(codec_of(None)) is Codec
        assert isinstance(serializer, SerializerProtocol)
        assert isinstance(wrapped, SerializerCodec)
        assert wrapped.serializer is serializer

    @pytest.mark.parametrize("given", [7, Reversing, Codec, object()])
    def test_objects_that_are_not_a_codec(self, given):
        """
        Anything else is refused, a class too.
        """
        with pytest.raises(InvalidConfigError) as refused:
            codec_of(given)

        assert refused.value.what == (
            f"codec must be a Codec or have `dumps_typed` and `loads_typed`, got {given!r}"
        )
        assert refused.value.do == "pass e.g. codec=Codec(types=[...]), or leave it out"


class Shifting:
    """A cipher that shifts each byte by one."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """The bytes, one above."""
        return "shift", bytes((byte + 1) % 256 for byte in plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """The bytes, one below."""
        assert ciphername == "shift"
        return bytes((byte - 1) % 256 for byte in ciphertext)


class TestSerializersOfLangGraph:
    def test_the_default_one(self):
        """
        A codec takes its place, with the saver's limit for compression.
        """
        made = codec_of(None, JsonPlusSerializer(), compress_above=100)
        large = made.encode("x" * 1000)

        assert (type(made), made.types) == (Codec, ())
        assert len(large) < 100
        assert len(codec_of(None, JsonPlusSerializer()).encode("x" * 1000)) > 1000

    def test_its_allow_list(self):
        """
        The codec has the classes that it allows, if they can be stored; those of libraries are
        known anyway.
        """
        allowed = [(__name__, "Reversing"), ("tests.codec.shapes", "Note", "from_json")]

        assert codec_of(None, JsonPlusSerializer(allowed_msgpack_modules=allowed)).types == (Note,)
        assert codec_of(None, JsonPlusSerializer(allowed_msgpack_modules=None)).types == ()
        assert codec_of(None, JsonPlusSerializer(allowed_msgpack_modules=True)).types == ()

    @pytest.mark.parametrize("name", [("nowhere", "Note"), (__name__, "K1"), (__name__, "Nope")])
    def test_a_class_that_is_not_imported(self, name):
        """
        A module that isn't imported is named, and a name that isn't a class of its module.
        """
        with pytest.raises(InvalidConfigError) as refused:
            codec_of(None, JsonPlusSerializer(allowed_msgpack_modules=[name]))

        assert refused.value.what == (
            f"the serializer allows {name[0]}.{name[1]}, which isn't imported"
        )
        assert refused.value.do == (
            f"import {name[0]} first, or pass codec=Codec(types=[...]) in place of serde="
        )

    @pytest.mark.parametrize(
        "options",
        [
            {"pickle_fallback": True},
            {"allowed_json_modules": [("a", "B")]},
            {"__unpack_ext_hook__": lambda code, data: data},
        ],
    )
    def test_settings_that_no_codec_has(self, options):
        """
        One that pickles, imports or has a hook of its own is refused, with what to pass instead.
        """
        with pytest.raises(InvalidConfigError) as refused:
            codec_of(None, JsonPlusSerializer(**options))

        assert refused.value.what == (
            "a JsonPlusSerializer with pickle_fallback, allowed_json_modules or a hook of its own "
            "can't be used: nothing is pickled or imported by name here"
        )
        assert refused.value.do == (
            "leave serde= out; pass codec=Codec(types=[...]) with the classes that it would have "
            "pickled, and UntrackedValue for keys that can't be stored"
        )

    def test_an_older_one(self):
        """
        An older version of it has none of the settings; its subclasses stay what they are.
        """

        class Own(JsonPlusSerializer):
            pass

        older = JsonPlusSerializer()
        for name in [*vars(older)]:
            if name.startswith("_"):
                delattr(older, name)

        assert codec_of(None, older).types == ()
        assert isinstance(codec_of(None, Own()), SerializerCodec)

    def test_the_one_that_encrypts(self):
        """
        Its cipher encrypts what the codec stores, with the types of the serializer inside it.
        """
        inside = JsonPlusSerializer(allowed_msgpack_modules=[("tests.codec.shapes", "Note")])
        made = codec_of(None, TheirEncrypted(Shifting(), inside))
        stored = made.encode(Note("secret"))

        assert (type(made), made.types, made.encrypts) == (EncryptedSerializer, (Note,), True)
        assert EncryptedSerializer(Shifting(), inside).types == (Note,)
        assert b"secret" not in stored
        assert b"tfdsfu" in stored
        assert made.decode(stored) == Note("secret")

    def test_both_arguments(self):
        """
        A codec and a serializer together are refused.
        """
        with pytest.raises(InvalidConfigError) as refused:
            codec_of(Codec(), JsonPlusSerializer())

        assert refused.value.what == "both codec= and serde= were given"
        assert refused.value.do == "pass one of them"


class TestEncryptedSerializer:
    def test_its_settings(self, monkeypatch):
        """
        It encrypts with a cipher or a key, for the types of another codec; plain values are
        refused unless they are expected.
        """
        pytest.importorskip("cryptography", reason="the extra `encryption` is not installed")
        monkeypatch.setenv("ACTORGRAPH_AES_KEY", K2.decode())
        make = EncryptedSerializer.from_pycryptodome_aes
        first, other = make(Codec([Note]), key=K1), make()
        stored = first.encode(Note("x"))

        assert (first.types, other.types) == ((Note,), ())
        assert make(Codec([Note]), key=K1).decode(stored) == Note("x")
        assert stored[3:].startswith(b"aesgcm/aes")
        assert Codec([Note], keys={"aes": K1}).decode(stored) == Note("x")
        assert make(key=K2).decode(other.encode("x")) == "x"
        assert make(key=K1, reads_plain=True).decode(Codec().encode("x")) == "x"
        for strict in (first, other, EncryptedSerializer(Plain())):
            with pytest.raises(EncryptionError):
                strict.decode(Codec().encode("x"))
        assert EncryptedSerializer(Plain(), reads_plain=True).decode(Codec().encode("x")) == "x"


class Plain:
    """A cipher that hides nothing."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """Do nothing."""
        return "plain", plaintext

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """Do nothing."""
        return ciphertext


class TestReferences:
    def test_objects_are_kept_as_they_are(self):
        """
        A value that is kept comes back as the same object; a list as one with its items of then.
        """
        codec = ReferenceCodec()
        value, items = object(), [object()]
        stored = [codec.encode(each, "v", ("x",)) for each in (value, items)]
        first = items[0]
        items.append(1)

        assert stored == [b"\0" * 7 + b"\1", b"\0" * 7 + b"\2"]
        assert codec.decode(stored[0]) is value
        assert codec.decode(stored[1], ("x",)) == [first]
        assert codec.count(stored[1]) == 1
        assert type(codec.at_rest) is Codec
        assert type(codec.with_types([Note]).at_rest) is Codec
        assert codec.with_types([Note]).at_rest.types == (Note,)

    def test_others_are_unknown(self):
        """
        The number of an object that another codec keeps is refused.
        """
        with pytest.raises(SerializationError) as refused:
            ReferenceCodec().decode(b"\0" * 7 + b"\1")

        assert refused.value.what == "a stored value is not one of those that this saver keeps"
        assert refused.value.do == ("use threads of a saver with copy='none' with that saver alone")


class TestResealing:
    def test_each_row_moves_to_the_other_thread(self):
        """
        Rows of a thread are encrypted for another one with the newest key: values, each frame of
        a list at its position, pending writes, inputs.
        """
        pytest.importorskip("cryptography", reason="the extra `encryption` is not installed")
        old, new = Codec(keys={"k1": K1}), Codec(keys={"k2": K2, "k1": K1})
        only = Codec(keys={"k2": K2})
        resealer = ThreadResealer(new, "s", "t")
        row = LedgerRow(b"b", b"t", "p", 1, 2, b"")
        writes = LedgerRow(b"b", b"t", "p", 1, 2, old.encode("w", "v", writes_of("s", "n", row)))
        parts = [["a", "b"], ["c"], []]
        starts = [5, 7, 8]
        items = b"".join(
            frame(old.encode(part, "v", items_at("s", "n", "c", 1, at)))
            for part, at in zip(parts, starts, strict=True)
        )
        value = old.encode("v", "v", value_at("s", "n", "c", 3))
        given = old.encode("i", "v", input_of("s", b"r"))
        moved = frames(resealer.items("n", "c", 1, 5, items))

        assert [
            only.decode(part, items_at("t", "n", "c", 1, at))
            for part, at in zip(moved, starts, strict=True)
        ] == parts
        assert only.decode(resealer.value("n", "c", 3, value), value_at("t", "n", "c", 3)) == "v"
        assert only.decode(resealer.writes("n", writes), writes_of("t", "n", row)) == "w"
        assert only.decode(resealer.input(b"r", given), input_of("t", b"r")) == "i"
