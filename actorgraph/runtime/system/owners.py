"""Ids of the owners of leases, which say whether an owner's process is still there.

An id is a UUIDv8: the time, and a process by its start, its place (the boot of a machine and the
namespace of its process ids) and its number. A process of the same place looks into /proc; without
one, or elsewhere, nothing is known of an owner but its lease. Ids of older versions are UUIDv7.
"""

import hashlib
import os
import secrets
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from actorgraph.runtime.clock import IDS
from actorgraph.superstep.scheduling import Fate
from actorgraph.values.systems import NO_OWNER

_PROC = Path("/proc")
_STARTS, _PLACES, _PIDS, _RANDOM = 12, 24, 22, 16  # bits, highest first; 22 are all that Linux uses
_TAIL = _PLACES + _PIDS + _RANDOM
_GONE = ("Z", "X")
"""States of processes that have ended and whose parent hasn't noticed."""

_open: set[bytes] = set()
"""Ids of the open systems of this process."""


def new_owner() -> bytes:
    """Make the id of a system of this process, which is open until `forget_owners`: 16 bytes."""
    place, number = _place(), os.getpid()
    start = _start(number)
    if place is None or start is None:
        return bytes(IDS.run())
    tail = (place << _PIDS | number) << _RANDOM | secrets.randbits(_RANDOM)
    head = (time.time_ns() // 1_000_000) & (2**48 - 1)
    bits = ((head << 4 | 8) << _STARTS | start) << 2 | 2
    owner = (bits << _TAIL | tail).to_bytes(16, "big")
    _open.add(owner)
    return owner


def forget_owners(owners: Iterable[bytes]) -> None:
    """Note that a system of this process has closed: no process has what it has left."""
    _open.difference_update(owners)


def fate_of(owner: bytes | None) -> Fate:
    """Look what has become of an owner's process.

    A stopped process is alive. One that has given its runs back is gone.
    """
    if owner is None or owner == NO_OWNER:
        return "gone"
    if owner in _open:
        return "alive"
    number = int.from_bytes(owner, "big")
    place = (number >> (_PIDS + _RANDOM)) & (2**_PLACES - 1)
    if len(owner) != 16 or (number >> 76) & 15 != 8 or place != _place():
        return "unknown"
    pid = (number >> _RANDOM) & (2**_PIDS - 1)
    started = (number >> (_TAIL + 2)) & (2**_STARTS - 1)
    return "gone" if pid == os.getpid() else _fate_of_process(pid, started)


def _fate_of_process(pid: int, started: int) -> Fate:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "gone"
    except PermissionError:  # of another user
        pass
    found = _start(pid)
    if found is None:  # it is hidden, or ends just now
        return "unknown"
    return "alive" if found == started else "gone"


def _start(pid: int) -> int | None:
    """A number that a later process of the same id hardly has; -1 of one that has ended.

    Returns: None if it can't be read.
    """
    try:
        # The name of a program, between parentheses, may have spaces and parentheses itself.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return -1 if fields[0] in _GONE else int(fields[19]) % 2**_STARTS
    except (OSError, ValueError, IndexError):
        return None


@cache
def _place() -> int | None:
    """The boot of this machine and this process's namespace of process ids; None if unknown."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text()
        space = (_PROC / "self/ns/pid").stat().st_ino
    except OSError:
        return None
    found = hashlib.sha256(f"{boot.strip()} {space}".encode()).digest()
    return int.from_bytes(found[: _PLACES // 8], "big")
