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
from pathlib import Path

import anyio

from actorgraph.rules.system.scheduling import Fate
from actorgraph.runtime.clock import IDS
from actorgraph.values.systems import NO_OWNER

_PROC = Path("/proc")
_STARTS, _PLACES, _PIDS, _RANDOM = 12, 24, 22, 16  # bits, highest first; 22 are all that Linux uses
_TAIL = _PLACES + _PIDS + _RANDOM
_GONE = ("Z", "X")
"""States of processes that have ended and whose parent hasn't noticed."""

_open: set[bytes] = set()
"""Ids of the open systems of this process."""
_own: dict[int, tuple[int | None, int | None]] = {}
"""Process -> its place and its start; of this process, and of those that it was forked from."""


async def learn_process() -> None:
    """Read what ids say of this process, once, in a thread: reading /proc counts as blocking."""
    if os.getpid() not in _own:
        await anyio.to_thread.run_sync(_own_process)


def new_owner() -> bytes:
    """Make the id of a system of this process, which is open until `forget_owners`: 16 bytes."""
    number = os.getpid()
    place, start = _own_process()
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


async def fates_of(owners: Iterable[bytes | None]) -> dict[bytes | None, Fate]:
    """Look what has become of the processes of owners, in a thread if /proc must be read."""
    known: dict[bytes | None, Fate | None] = {owner: _known_fate(owner) for owner in owners}
    left = [owner for owner, fate in known.items() if fate is None]
    if left:
        known.update(await anyio.to_thread.run_sync(_looked, left))
    return {owner: fate for owner, fate in known.items() if fate is not None}


def _looked(owners: list[bytes | None]) -> dict[bytes | None, Fate | None]:
    return {owner: fate_of(owner) for owner in owners}


def fate_of(owner: bytes | None) -> Fate:
    """Look what has become of an owner's process.

    A stopped process is alive. One that has given its runs back is gone.
    """
    known = _known_fate(owner)
    if known is not None or owner is None:
        return known or "gone"
    number = int.from_bytes(owner, "big")
    pid = (number >> _RANDOM) & (2**_PIDS - 1)
    return _fate_of_process(pid, (number >> (_TAIL + 2)) & (2**_STARTS - 1))


def _known_fate(owner: bytes | None) -> Fate | None:
    """The fate of an owner, without a look at its process; None if that must be looked at."""
    if owner is None or owner == NO_OWNER:
        return "gone"
    if owner in _open:
        return "alive"
    number = int.from_bytes(owner, "big")
    place = (number >> (_PIDS + _RANDOM)) & (2**_PLACES - 1)
    if len(owner) != 16 or (number >> 76) & 15 != 8 or place != _own_process()[0]:
        return "unknown"
    return "gone" if (number >> _RANDOM) & (2**_PIDS - 1) == os.getpid() else None


def _fate_of_process(pid: int, started: int) -> Fate:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "gone"
    except PermissionError:  # of another user
        pass
    start = _start(pid)
    if start is None:  # it is hidden, or ends just now
        return "unknown"
    return "alive" if start == started else "gone"


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


def _own_process() -> tuple[int | None, int | None]:
    """The place and the start of this process."""
    number = os.getpid()
    if number not in _own:
        _own[number] = _place(), _start(number)
    return _own[number]


def _place() -> int | None:
    """The boot of this machine and this process's namespace of process ids; None if unknown."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text()
        space = (_PROC / "self/ns/pid").stat().st_ino
    except OSError:
        return None
    digest = hashlib.sha256(f"{boot.strip()} {space}".encode()).digest()
    return int.from_bytes(digest[: _PLACES // 8], "big")
