"""Processes that stand still."""

import os
import signal
from typing import Any


def stop(process: Any) -> None:
    """Stop a process with SIGSTOP, and wait until it stands: a signal that was sent is no stop.

    Args:
        process: a `subprocess.Popen`. One that has ended counts as standing.
    """
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
