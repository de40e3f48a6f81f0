"""Thread ids as file names: one safe path component, a different one for each id."""

from hashlib import sha256

SUFFIX = ".jsonl"
_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
_LENGTH_MAX = 180
_DEVICES = {"con", "prn", "aux", "nul", *(f"{d}{n}" for d in ("com", "lpt") for n in range(10))}
"""Names that Windows reserves for devices, with any suffix after a dot."""


def file_name(thread_id: str) -> str:
    """Return the name of a thread's file.

    Lower-case letters, digits, "-" and "_" stay, every other byte of the id's UTF-8 becomes "%" and
    two hex digits. So no name is "..", none has a dot of its own, and ids that differ only in case
    have names that differ where file systems ignore case. An id whose name would be too long is
    hashed: ids are read from the lines, never from names.
    """
    raw = thread_id.encode()
    name = "".join(chr(byte) if byte in _SAFE else f"%{byte:02x}" for byte in raw)
    if name in _DEVICES:
        name = f"%{raw[0]:02x}{name[1:]}"
    if not name or len(name) > _LENGTH_MAX:
        name = f"%%{sha256(raw).hexdigest()}"  # no escaped byte looks like this
    return name + SUFFIX
