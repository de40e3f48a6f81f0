"""Encode values as bytes and back: allow-listed types, exact round trips, a checkpoint's rows."""

from actorgraph.codec.ciphers import AesCipher
from actorgraph.codec.codec import Codec
from actorgraph.codec.encrypted import EncryptedSerializer
from actorgraph.codec.envelope import CipherProtocol

__all__ = ["AesCipher", "CipherProtocol", "Codec", "EncryptedSerializer"]
