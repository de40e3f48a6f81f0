"""The part of a call's metadata that is stored with its checkpoints."""

import re
from collections.abc import Mapping
from typing import Any, cast

from actorgraph.errors import InvalidConfigError
from actorgraph.errors.texts import is_encodable

_DEPTH_MAX = 200
RESERVED = frozenset({"source", "step", "parents", "writes"})
_INTERNAL = ("__", "langgraph_")
REDACTED = "[redacted]"

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_SECRET = frozenset(
    {
        *("key", "keys", "apikey", "token", "tokens", "secret", "secrets", "credential"),
        *("password", "passwd", "passphrase", "pwd", "auth", "authorization", "cookie"),
        "credentials",
    }
)


def stored_metadata(declared: Mapping[str, Any]) -> dict[str, Any]:
    """Make the metadata to store of a call's. The argument is not changed."""
    return {
        name: _shown(name, value)
        for name, value in declared.items()
        if name not in RESERVED and not str(name).startswith(_INTERNAL)
    }


def check_texts(value: Any, what: str) -> None:
    """Refuse a value with lone surrogates in a text: no store takes it.

    Args:
        value: any data; its keys are checked too.
        what: its name in the error.
    Raises:
        InvalidConfigError: a text in it has a lone surrogate.
    """
    left: list[tuple[Any, int]] = [(value, 0)]
    while left:
        one, depth = left.pop()
        if isinstance(one, str):
            if not is_encodable(one):
                raise InvalidConfigError(
                    f"{what} holds {one[:80]!r}, which has a lone surrogate and can't be stored",
                    do="decode the text with errors='replace' where it comes in",
                )
        elif depth < _DEPTH_MAX and isinstance(one, (list, tuple, Mapping)):
            inner = cast("Any", one)
            left.extend((item, depth + 1) for item in inner)
            if isinstance(one, Mapping):
                left.extend((item, depth + 1) for item in inner.values())


def _shown(name: object, value: Any) -> Any:
    if isinstance(value, Mapping):
        inner = cast("Mapping[Any, Any]", value)
        return {key: _shown(f"{name} {key}", item) for key, item in inner.items()}
    secret = isinstance(value, (str, bytes, list, tuple)) and names_a_secret(str(name))
    return REDACTED if secret else value


def names_a_secret(name: str) -> bool:
    """Whether one of a name's words suggests a secret: "apiKey", "auth_token", "Password"."""
    return any(word.lower() in _SECRET for word in _WORDS.findall(name))
