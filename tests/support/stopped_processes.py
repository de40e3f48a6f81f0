"""Stop a process with SIGSTOP."""

import os
import signal
from typing import Any

from tests.support.warm_processes import WarmPopen


def stop(process: Any) -> None:
    """Send SIGSTOP and wait until the process has stopped: a signal takes effect later.

    Args:
        process: a `subprocess.Popen`. One that has ended counts as stopped.
    """
    process.send_signal(signal.SIGSTOP)
    if isinstance(process, WarmPopen):
        process.wait_for_stop()
    else:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
