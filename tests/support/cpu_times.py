"""CPU time of other processes, and of a PostgreSQL server with all of its sessions, from /proc."""

import os
from pathlib import Path
from typing import Any

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def of_process(pid: int, *, with_ended: bool = False) -> float:
    """Seconds of CPU time that a process has had, user and system.

    Args:
        with_ended: add those of its children that have ended.
    """
    fields = _fields(pid)
    used = sum(map(int, fields[11:15] if with_ended else fields[11:13]))
    return used * TICK_S


def of_server(server: Any) -> float:
    """Seconds of CPU time that a `PostgresServer` has had, with sessions that have ended."""
    with server.connect() as db:
        (folder,) = db.execute("SHOW data_directory").fetchone()
    main = int((Path(folder) / "postmaster.pid").read_text().split()[0])
    total = of_process(main, with_ended=True)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if int(_fields(int(entry.name))[1]) == main:
                    total += of_process(int(entry.name))
            except (OSError, IndexError):  # it has just ended
                continue
    return total


def _fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may have spaces."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
