"""Paths that can't be used, and errors of files: by what the caller can do about them."""

import errno
import os
from typing import Any

from actorgraph.errors import InvalidConfigError, StorageError, StorageFullError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def checked_path(given: Any, owner: str) -> str:
    """Return a path as text; bytes are decoded as the file system's.

    Args:
        given: text, bytes, or a path object.
        owner: what takes the path, for the error.
    Raises:
        InvalidConfigError: it is of another type, empty, or has a null character.
    """
    if not isinstance(given, str | bytes | os.PathLike):
        raise InvalidConfigError(
            f"{owner} takes a path, not a {type(given).__name__}",
            do="pass it as text, or as a pathlib.Path",
        )
    path = os.fsdecode(given)
    if not path:
        raise InvalidConfigError(f"the path of {owner} is empty", do="name a file or folder")
    if "\0" in path:
        raise InvalidConfigError(
            f"{owner} can't use the path {path!r}: it has a null character",
            do="remove the '\\0', which no name of a file may have",
        )
    return path


def is_full(error: OSError) -> bool:
    """Whether the disk, or the quota, is full."""
    return error.errno in _FULL


def file_error(error: OSError, failed: str, do: str) -> StorageError:
    """Return the error of a file that can't be used.

    Args:
        failed: what can't be done, with the path.
        do: the advice for an error that has none of its own.
    """
    kind = StorageFullError if is_full(error) else StorageError
    return kind(f"{failed}: {error.strerror or error}", do=_ADVICE.get(error.errno or 0, do))


_LIMIT = "close other files, or raise the limit of open files (`ulimit -n`)"
_PERMISSION = "check the permissions of the path and of its folder, or choose another path"
_ADVICE = {
    **dict.fromkeys(_FULL, "free some space and try again"),
    errno.EMFILE: _LIMIT,
    errno.ENFILE: _LIMIT,
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EACCES: _PERMISSION,
    errno.EPERM: _PERMISSION,
    errno.EROFS: "choose a path on a file system that isn't mounted read-only",
    errno.ELOOP: "choose another path: its symbolic links lead back to themselves",
}
