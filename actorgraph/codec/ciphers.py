"""AES-GCM with several keys: the first encrypts, each decrypts what was encrypted with it.

An encrypted value is a random nonce of 12 bytes, the ciphertext, and a tag of 16. The cipher's
name, which holds the key's id, is authenticated with it, and so is the value's place.
"""

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from actorgraph.errors import EncryptionError, InvalidConfigError, MissingExtraError

_KIND = "aesgcm/"
_NONCE = 12
_KEY_SIZES = (16, 24, 32)


class AesCipher:
    """Encrypts with AES-GCM.

    To change keys, put the new one first and keep the old ones for as long as there are values
    that were written with them.

    Args:
        keys: id -> key, of 32 random bytes (AES-256; 16 and 24 work too). The first one encrypts.
            Ids are stored in the clear beside each value.
    Raises:
        InvalidConfigError: there is no key, a key has another size, or an id is empty or too long.
        MissingExtraError: `cryptography` isn't installed.
    """

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        given: Any = keys  # what is shown of it is its type: it may be a key
        if not isinstance(given, Mapping):
            raise InvalidConfigError(
                f"keys are a {type(given).__name__}, not ids with their keys",
                do='pass keys={"k1": os.urandom(32)}',
            )
        if not keys:
            raise InvalidConfigError("there are no keys", do='pass keys={"k1": os.urandom(32)}')
        for key_id, key in keys.items():
            _check(key_id, key)
        try:
            module: Any = import_module("cryptography.hazmat.primitives.ciphers.aead")
            self._invalid: Any = import_module("cryptography.exceptions").InvalidTag
        except ImportError as error:
            raise MissingExtraError(
                "encryption needs cryptography, which isn't installed",
                do="pip install 'actorgraph[encryption]'",
            ) from error
        self._ciphers: dict[str, Any] = {_KIND + i: module.AESGCM(k) for i, k in keys.items()}
        self._name = next(iter(self._ciphers))

    def encrypt(self, plaintext: bytes, associated: bytes = b"") -> tuple[str, bytes]:
        """The cipher's name with the id of the first key, and the encrypted bytes.

        Args:
            associated: what is authenticated with them and isn't stored.
        """
        nonce = os.urandom(_NONCE)
        name = self._name
        known = _named(name, associated)
        return name, nonce + self._ciphers[name].encrypt(nonce, plaintext, known)

    def decrypt(self, ciphername: str, ciphertext: bytes, associated: bytes = b"") -> bytes:
        """What was encrypted.

        Raises:
            EncryptionError: there is no such key, or the key, the bytes or `associated` are others.
        """
        cipher = self._ciphers.get(ciphername)
        if cipher is None:
            known = ", ".join(repr(name.removeprefix(_KIND)) for name in self._ciphers)
            raise EncryptionError(
                f"a stored value was encrypted with key {ciphername.removeprefix(_KIND)!r}; "
                f"this codec has {known}",
                do="add the key behind the one that encrypts now: keys={'new': ..., 'old': ...}",
            )
        nonce, sealed = ciphertext[:_NONCE], ciphertext[_NONCE:]
        try:
            return cipher.decrypt(nonce, sealed, _named(ciphername, associated))
        except (self._invalid, ValueError) as error:
            raise EncryptionError(
                f"a stored value can't be decrypted with key {ciphername.removeprefix(_KIND)!r}: "
                "the key is another one, the bytes were changed, or they were written for another "
                "thread, channel, version or task",
                do="check the key of that id, then the database's integrity",
            ) from error


def _named(name: str, associated: bytes) -> bytes:
    label = name.encode()
    return bytes([len(label)]) + label + associated


def key_of_environment() -> bytes:
    """The key in ACTORGRAPH_AES_KEY, else in LANGGRAPH_AES_KEY: its text as UTF-8.

    Raises:
        InvalidConfigError: neither is set.
    """
    text = os.environ.get("ACTORGRAPH_AES_KEY") or os.environ.get("LANGGRAPH_AES_KEY")
    if not text:
        raise InvalidConfigError(
            "neither ACTORGRAPH_AES_KEY nor LANGGRAPH_AES_KEY is set",
            do="set ACTORGRAPH_AES_KEY to a text of 32 bytes, or pass the key",
        )
    return text.encode()


def _check(key_id: Any, key: bytes) -> None:
    if type(key_id) is not str or not 0 < len(key_id.encode()) < 200:
        raise InvalidConfigError(
            f"key id {key_id!r} is no text, is empty, or has 200 bytes or more",
            do="use a short id, such as a date: it is stored with each value",
        )
    if type(key) is not bytes or len(key) not in _KEY_SIZES:
        what = f"{len(key)} bytes" if type(key) is bytes else f"a {type(key).__name__}"
        raise InvalidConfigError(
            f"key {key_id!r} is {what}; AES takes 32 bytes (or 16, or 24)",
            do="make one with os.urandom(32) and keep it outside of the database",
        )
