"""Encode values as bytes and back: allow-listed types, exact round trips, a checkpoint's rows."""

from actorgraph.codec.codec import Codec
from actorgraph.codec.converters import Converter
from actorgraph.codec.decode_errors import SerdeEvent, register_serde_event_listener
from actorgraph.codec.encryption import AesCipher, CipherProtocol
from actorgraph.codec.serializers import EncryptedSerializer, SerializerProtocol

__all__ = [
    "AesCipher",
    "CipherProtocol",
    "Codec",
    "Converter",
    "EncryptedSerializer",
    "SerdeEvent",
    "SerializerProtocol",
    "register_serde_event_listener",
]
