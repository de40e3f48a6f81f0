"""Which of a call's metadata is stored with its checkpoints.

What the caller declares in `config["metadata"]`, and nothing else of the config: an address, a
user's id or a key in `configurable` stays where it is. Names of our own are left out, and so are
those that begin with `__` or `langgraph_`; text under a name that says secret is replaced.
"""

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
    """What is stored of a call's metadata. The argument is not changed."""
    return {
        name: _shown(name, value)
        for name, value in declared.items()
        if name not in RESERVED and not str(name).startswith(_INTERNAL)
    }


def check_texts(value: Any, what: str) -> None:
    """Refuse what holds text with lone surrogates: no store takes it.

    Args:
        what: what it is, for the error's text.
    Raises: InvalidConfigError.
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
    """Whether one of a name's words is that of a secret: "apiKey", "auth_token", "Password"."""
    return any(word.lower() in _SECRET for word in _WORDS.findall(name))
