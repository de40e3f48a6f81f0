"""AES-GCM with several keys."""

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

    An encrypted value is a random nonce of 12 bytes, the ciphertext, and a tag of 16 bytes. The
    cipher's name, which contains the key's id, is authenticated with it.

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
        given: Any = keys  # the error shows only its type, because it may be a key
        if not isinstance(given, Mapping):
            raise InvalidConfigError(
                f"keys must be a mapping of id -> key, got {type(given).__name__}",
                do='pass keys={"k1": os.urandom(32)}',
            )
        if not keys:
            raise InvalidConfigError("keys is empty", do='pass keys={"k1": os.urandom(32)}')
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
        """Encrypt with the first key.

        Args:
            associated: bytes that are authenticated too, and not stored.
        Returns: the cipher's name with the key's id, and the encrypted bytes.
        """
        nonce = os.urandom(_NONCE)
        name = self._name
        known = _named(name, associated)
        return name, nonce + self._ciphers[name].encrypt(nonce, plaintext, known)

    def decrypt(self, ciphername: str, ciphertext: bytes, associated: bytes = b"") -> bytes:
        """Decrypt with the key that the name has.

        Raises:
            EncryptionError: the key is unknown, or the key, the bytes or `associated` differ from
                those of `encrypt`.
        """
        cipher = self._ciphers.get(ciphername)
        if cipher is None:
            known = ", ".join(repr(name.removeprefix(_KIND)) for name in self._ciphers)
            raise EncryptionError(
                f"a stored value was encrypted with key {ciphername.removeprefix(_KIND)!r}; "
                f"this codec has {known}",
                do="add the key after the one that encrypts now: keys={'new': ..., 'old': ...}",
            )
        nonce, sealed = ciphertext[:_NONCE], ciphertext[_NONCE:]
        try:
            return cipher.decrypt(nonce, sealed, _named(ciphername, associated))
        except (self._invalid, ValueError) as error:
            raise EncryptionError(
                f"a stored value can't be decrypted with key {ciphername.removeprefix(_KIND)!r}: "
                "the key differs, the bytes were changed, or they were written for another "
                "thread, channel, version or task",
                do="check the key of that id, then the database's integrity",
            ) from error


def _named(name: str, associated: bytes) -> bytes:
    label = name.encode()
    return bytes([len(label)]) + label + associated


def key_of_environment() -> bytes:
    """Return the key in ACTORGRAPH_AES_KEY, else in LANGGRAPH_AES_KEY: its text as UTF-8.

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
            f"a key id must be a str of 1 to 199 bytes, got {key_id!r}",
            do="use a short id, such as a date: it is stored with each value",
        )
    if type(key) is not bytes or len(key) not in _KEY_SIZES:
        size = f"{len(key)} bytes" if type(key) is bytes else f"a {type(key).__name__}"
        raise InvalidConfigError(
            f"key {key_id!r} must be 32 bytes (or 16, or 24) for AES, got {size}",
            do="make one with os.urandom(32) and keep it outside of the database",
        )
