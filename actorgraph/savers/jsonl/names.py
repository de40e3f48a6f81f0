"""Thread ids as file names: one safe component, no two ids the same one.

Lower-case letters, digits, "-" and "_" stand for themselves, every other byte of the id's UTF-8 is
"%" and two hex digits. So no name is "..", none has a dot of its own, and ids that differ in case
differ where file systems ignore it. An id whose name would be too long is hashed; nothing
reads an id out of a name, as each line has it.
"""

from hashlib import sha256

SUFFIX = ".jsonl"
_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
_LENGTH_MAX = 180
_DEVICES = {"con", "prn", "aux", "nul", *(f"{d}{n}" for d in ("com", "lpt") for n in range(10))}
"""Names that Windows keeps for itself, whatever comes after a dot."""


def file_name(thread_id: str) -> str:
    """The name of a thread's file."""
    raw = thread_id.encode()
    name = "".join(chr(byte) if byte in _SAFE else f"%{byte:02x}" for byte in raw)
    if name in _DEVICES:
        name = f"%{raw[0]:02x}{name[1:]}"
    if not name or len(name) > _LENGTH_MAX:
        name = f"%%{sha256(raw).hexdigest()}"  # no escaped byte looks like this
    return name + SUFFIX
