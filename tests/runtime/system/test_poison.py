"""Processes that are stopped, and a run that kills its processes, among others that don't.

The long forms are in tests/faults/test_poison.py.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from actorgraph.runtime.system.owners import fate_of, forget_owners, new_owner
from actorgraph.values.systems import NO_OWNER
from tests.runtime.system.test_crash import CROSSED, ON, database, on
from tests.support.poison_processes import (
    POISON,
    parked_of,
    paused_in_turn,
    runs_at,
    until_the_poison_is_found,
)
from tests.support.stopped_processes import stop

__all__ = ["database"]

RUNS = 12
SAYS_OWNER = """
from actorgraph.runtime.system.owners import new_owner
print(new_owner().hex(), flush=True)
input()
"""


@pytest.mark.one_loop
@on(ON)
async def test_pauses_park_nothing(database, anyio_backend):
    """
    Two processes are stopped in turn for longer than their leases: their runs are taken over again
    and again, and all end well.
    """
    codes = await paused_in_turn(anyio_backend, database, RUNS, 6)
    runs = await runs_at(database)

    assert codes == [0, 0]
    assert {thread: run for thread, run in runs.items() if run[0] != "success"} == {}
    assert max(attempt for _, attempt, _ in runs.values()) > 2


@pytest.mark.one_loop
@on(CROSSED)
async def test_a_poison_run_alone_is_parked(database, anyio_backend):
    """
    One of the runs kills each process that runs it: it is parked with the reason, and all others
    end well.
    """
    codes = await until_the_poison_is_found(anyio_backend, database, RUNS, 8)
    runs = await runs_at(database)

    assert codes == [-9, -9, -9, 0, 0]
    assert parked_of(runs) == [POISON]
    assert runs[POISON][2] == "3 processes have ended while they ran it"
    assert {status for status, _, _ in runs.values()} == {"parked", "success"}


class TestOwners:
    @pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
    def test_of_another_process(self):
        """
        Its process is alive while it runs or is stopped, and gone once it was killed, even before
        its parent has noticed.
        """
        with subprocess.Popen(
            [sys.executable, "-c", SAYS_OWNER], stdin=-1, stdout=-1, text=True
        ) as process:
            owner = bytes.fromhex(process.stdout.readline())
            running = fate_of(owner)
            stop(process)
            stopped = fate_of(owner)
            process.kill()
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            killed = fate_of(owner)
            process.wait()

        assert (running, stopped, killed, fate_of(owner)) == ("alive", "alive", "gone", "gone")

    def test_of_this_process(self):
        """
        A closed system of a process that goes on is gone; nothing is known of ids of older
        versions, or of other machines.
        """
        owner = new_owner()
        opened = fate_of(owner)
        forget_owners([owner])
        elsewhere = bytes(byte ^ 0x0F if place == 8 else byte for place, byte in enumerate(owner))

        assert (opened, fate_of(owner)) == ("alive", "gone")
        assert (fate_of(elsewhere), fate_of(b"1" * 16)) == ("unknown", "unknown")
        assert (fate_of(None), fate_of(NO_OWNER)) == ("gone", "gone")
