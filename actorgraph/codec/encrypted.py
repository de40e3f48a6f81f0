"""`EncryptedSerializer`: LangGraph's name for `Codec(keys=...)`."""

from typing import Self

from actorgraph.codec.ciphers import AesCipher, key_of_environment
from actorgraph.codec.codec import Codec
from actorgraph.codec.envelope import CipherProtocol


class EncryptedSerializer(Codec):
    """A codec that encrypts with a cipher; pass it as a saver's `codec`.

    Args:
        cipher: see `CipherProtocol`.
        serde: a codec whose types are allowed; default one with no types of its own.
        reads_plain: whether unencrypted values are read. Default False: they are refused.
    """

    def __init__(
        self, cipher: CipherProtocol, serde: Codec | None = None, *, reads_plain: bool = False
    ) -> None:
        types = () if serde is None else serde.types
        super().__init__(types, cipher=cipher, reads_plain=reads_plain)

    @classmethod
    def from_pycryptodome_aes(
        cls, serde: Codec | None = None, *, key: bytes | None = None, reads_plain: bool = False
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
