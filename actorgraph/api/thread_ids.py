"""Thread ids: random ones, or `user:session` and `user:session:vN`, which can be parsed.

A `%`, `:` or control character in a part is escaped as `%` and two hex digits, so that different
parts never make the same id.
"""

import re
from typing import NamedTuple

import uuid_utils

from actorgraph.errors import InvalidConfigError

THREAD_ID_BYTES_MAX = 255
_ESCAPED = re.compile(r"[%:\x00-\x1f\x7f-\x9f]")
_ESCAPE = re.compile(r"%([0-9A-F]{2})")
_VERSION = re.compile(r"v([0-9]|[1-9][0-9]{1,8})")


class ThreadName(NamedTuple):
    """The parts of an id that `thread_id_for` made.

    Attributes:
        user: the user's key.
        session: the key of the user's session.
        version: of the state's schema, or None.
    """

    user: str
    session: str
    version: int | None = None


def new_thread_id() -> str:
    """Return a new random id: a UUID of version 7, so that later ids sort later."""
    return str(uuid_utils.uuid7())


def thread_id_for(*, user: str, session: str, version: int | None = None) -> str:
    """Return the id of a user's conversation; different arguments make different ids.

    Args:
        user: text that is not empty.
        session: text that is not empty.
        version: of the state's schema, from 0: another version starts new threads.
    Raises:
        InvalidConfigError: a part is empty or not text, or the id is longer than 255 bytes.
    """
    parts = [_escaped("user", user), _escaped("session", session)]
    if version is not None:
        if type(version) is not int or not 0 <= version < 10**9:
            raise InvalidConfigError(
                f"version must be an integer from 0 to 999999999, got {version!r}",
                do="use a small number, or leave it out",
            )
        parts.append(f"v{version}")
    made = ":".join(parts)
    if len(made.encode()) > THREAD_ID_BYTES_MAX:
        raise InvalidConfigError(
            f"the thread id {made[:40]!r}... is longer than {THREAD_ID_BYTES_MAX} bytes",
            do="use the shorter keys of the user and the session",
        )
    return made


def parse_thread_id(thread_id: str) -> ThreadName | None:
    """Return the parts of an id; None for one that `thread_id_for` can't have made."""
    user, *others = thread_id.split(":")
    if len(others) not in {1, 2}:
        return None
    version: int | None = None
    if len(others) == 2:
        found = _VERSION.fullmatch(others[1])
        if found is None:
            return None
        version = int(found[1])
    try:
        name = ThreadName(_plain(user), _plain(others[0]), version)
        again = thread_id_for(user=name.user, session=name.session, version=version)
    except (UnicodeDecodeError, InvalidConfigError):
        return None
    return name if again == thread_id else None


def _escaped(what: str, text: str) -> str:
    if not isinstance(text, str) or not text:
        raise InvalidConfigError(
            f"{what} must be text that is not empty, got {text!r}", do="use the key as text"
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidConfigError(
            f"{what} must be valid Unicode, got {text!r}", do="replace the lone surrogates"
        ) from None
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def _plain(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
