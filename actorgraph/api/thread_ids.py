"""Thread ids: one for a single piece of work, or one that says whose conversation it is.

The format is `user:session` or `user:session:vN`. A `%`, `:` or control character inside of a
part is written as `%` and two hex digits, so that different parts
never make the same id.
"""

import re
from typing import NamedTuple

import uuid_utils

from actorgraph.errors import InvalidConfigError

THREAD_ID_BYTES_MAX = 255
_ESCAPED = re.compile(r"[%:\x00-\x1f\x7f]")
_ESCAPE = re.compile(r"%([0-9A-F]{2})")
_VERSION = re.compile(r"v([0-9]|[1-9][0-9]{1,8})")


class ThreadName(NamedTuple):
    """The parts of an id that `thread_id_for` made.

    Attributes:
        version: of the state's schema, or None.
    """

    user: str
    session: str
    version: int | None = None


def new_thread_id() -> str:
    """A fresh id: a random UUID of version 7, so that ids made later sort later."""
    return str(uuid_utils.uuid7())


def thread_id_for(*, user: str, session: str, version: int | None = None) -> str:
    """The id of a user's conversation; different arguments make different ids.

    Args:
        user, session: any text but the empty one.
        version: of the state's schema, from 0: a new one begins new threads.
    Raises:
        InvalidConfigError: a part is empty or no text, or the id is longer than 255 bytes.
    """
    parts = [_escaped("user", user), _escaped("session", session)]
    if version is not None:
        if type(version) is not int or not 0 <= version < 10**9:
            raise InvalidConfigError(f"version={version!r}", do="use a number from 0 to 999999999")
        parts.append(f"v{version}")
    made = ":".join(parts)
    if len(made.encode()) > THREAD_ID_BYTES_MAX:
        raise InvalidConfigError(
            f"the thread id {made[:40]!r}... is longer than {THREAD_ID_BYTES_MAX} bytes",
            do="use the shorter keys of the user and the session",
        )
    return made


def parse_thread_id(thread_id: str) -> ThreadName | None:
    """The parts of an id; None for one that `thread_id_for` doesn't make."""
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
        raise InvalidConfigError(f"{what}={text!r}", do="use some text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidConfigError(f"{what}={text!r} is no text", do="use valid Unicode") from None
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def _plain(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
